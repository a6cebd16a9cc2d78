//! The lines of its stream, with all that we read of any of them.

use std::{borrow::Cow, collections::HashMap};

use jiff::Timestamp;
use segue_core::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::vendor::json::Text;

/// The stream's lines, with all that we read of any of them.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) subtype: Text<'a>,
    #[serde(default, borrow)]
    pub(super) session_id: Text<'a>,
    #[serde(default, borrow)]
    pub(super) uuid: Text<'a>,
    /// An object where somebody says something; a mere text elsewhere.
    #[serde(default, borrow)]
    message: Option<&'a RawValue>,
    /// Set on what a sub-agent does.
    #[serde(default, borrow)]
    pub(super) parent_tool_use_id: Text<'a>,
    #[serde(default, borrow)]
    pub(super) event: Option<Api<'a>>,
    #[serde(default, borrow)]
    pub(super) model: Text<'a>,
    #[serde(default, borrow)]
    pub(super) claude_code_version: Text<'a>,
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) error_status: Option<u16>,
    #[serde(default)]
    pub(super) retry_delay_ms: Option<f64>,
    #[serde(default)]
    pub(super) is_api_error_message: bool,
    #[serde(default)]
    pub(super) api_error_status: Option<u16>,
    #[serde(default, borrow)]
    pub(super) api_error: Text<'a>,
    #[serde(default)]
    pub(super) api_error_params: Option<Params>,
    #[serde(default)]
    pub(super) rate_limit_info: Option<Limit>,
    #[serde(default)]
    pub(super) is_error: bool,
    #[serde(default, borrow)]
    pub(super) result: Text<'a>,
    #[serde(default, borrow)]
    pub(super) stop_reason: Text<'a>,
    #[serde(default, borrow)]
    pub(super) terminal_reason: Text<'a>,
    #[serde(default)]
    pub(super) errors: Vec<String>,
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
    #[serde(default)]
    pub(super) model_usage_since_last_result: Option<HashMap<String, ModelTokens>>,
    #[serde(default, borrow)]
    pub(super) tool_name: Text<'a>,
}

impl<'a> Line<'a> {
    pub(super) fn message(&self) -> Option<Message<'a>> {
        serde_json::from_str(self.message?.get()).ok()
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(default, borrow)]
    pub(super) content: Option<&'a RawValue>,
}

impl Message<'_> {
    pub(super) fn blocks(&self) -> Vec<Block> {
        self.content.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    pub(super) fn calls(&self) -> bool {
        self.blocks().iter().any(|block| matches!(block, Block::ToolUse { .. }))
    }

    /// The text of a prompt; not of results.
    pub(super) fn text(&self) -> Option<String> {
        let raw = self.content?.get();
        if let Ok(text) = serde_json::from_str::<String>(raw) {
            return Some(text);
        }
        let texts = self.blocks().into_iter().filter_map(|block| match block {
            Block::Text { text } => Some(text),
            _ => None,
        });
        let text: Vec<String> = texts.collect();
        (!text.is_empty() && self.results().is_empty()).then(|| text.join("\n"))
    }

    pub(super) fn results(&self) -> Vec<ToolResult> {
        let blocks = self.blocks().into_iter().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            _ => None,
        });
        blocks.collect()
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: serde_json::Value,
    },
    ToolResult(ToolResult),
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolResult {
    pub(super) tool_use_id: String,
    #[serde(default)]
    pub(super) content: serde_json::Value,
    #[serde(default)]
    pub(super) is_error: Option<bool>,
}

impl ToolResult {
    pub(super) fn output(&self) -> String {
        match &self.content {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        }
    }
}

/// An event of the API, passed on.
#[derive(Debug, Deserialize)]
pub(super) struct Api<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) delta: Option<Piece<'a>>,
    #[serde(default, borrow)]
    pub(super) message: Option<Begun<'a>>,
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Begun<'a> {
    #[serde(default, borrow)]
    pub(super) model: Text<'a>,
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Piece<'a> {
    #[serde(default, borrow)]
    pub(super) text: Text<'a>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Tokens {
    #[serde(default)]
    pub(super) input_tokens: Option<u64>,
    #[serde(default)]
    pub(super) output_tokens: Option<u64>,
    #[serde(default)]
    pub(super) cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    pub(super) cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    pub(super) output_tokens_details: Option<Details>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Details {
    #[serde(default)]
    pub(super) thinking_tokens: u64,
}

impl Tokens {
    /// The later word counts, field by field: the first has the input, the last the output.
    pub(super) fn over(self, earlier: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.or(earlier.input_tokens),
            output_tokens: self.output_tokens.or(earlier.output_tokens),
            cache_read_input_tokens: self
                .cache_read_input_tokens
                .or(earlier.cache_read_input_tokens),
            cache_creation_input_tokens: self
                .cache_creation_input_tokens
                .or(earlier.cache_creation_input_tokens),
            output_tokens_details: self.output_tokens_details.or(earlier.output_tokens_details),
        }
    }

    pub(super) fn usage(self) -> Usage {
        let thinking = self.output_tokens_details.unwrap_or_default().thinking_tokens;
        Usage {
            input: self.input_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0).saturating_sub(thinking),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: self.cache_creation_input_tokens.unwrap_or(0),
            reasoning: thinking,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ModelTokens {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
    pub(super) thinking_tokens: u64,
    #[serde(rename = "costUSD")]
    pub(super) cost_usd: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Params {
    #[serde(default)]
    pub(super) rate_limit_info: Option<Limit>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Limit {
    #[serde(default)]
    pub(super) status: String,
    #[serde(default)]
    pub(super) resets_at: Option<i64>,
    #[serde(default)]
    pub(super) rate_limit_type: Option<String>,
    #[serde(default)]
    pub(super) unified_windows: HashMap<String, Window>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Window {
    #[serde(default)]
    pub(super) utilization: Option<f64>,
    #[serde(default)]
    pub(super) resets_at: Option<i64>,
}

pub(super) fn time(seconds: Option<i64>) -> Option<Timestamp> {
    Timestamp::from_second(seconds?).ok()
}
