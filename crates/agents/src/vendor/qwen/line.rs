//! The lines of its stream, with all that we read of any of them.

use std::borrow::Cow;

use segue_core::usage::Usage;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

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
    pub(super) message: Option<Message<'a>>,
    /// Set on what a sub-agent does.
    #[serde(default, borrow)]
    pub(super) parent_tool_use_id: Text<'a>,
    #[serde(default, borrow)]
    pub(super) event: Option<Event<'a>>,
    #[serde(default, borrow)]
    pub(super) model: Text<'a>,
    #[serde(default, borrow)]
    pub(super) qwen_code_version: Text<'a>,
    #[serde(default, borrow)]
    pub(super) data: Option<Retry<'a>>,
    #[serde(default)]
    pub(super) is_error: bool,
    #[serde(default)]
    pub(super) error: Option<Said>,
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(default, borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) model: Text<'a>,
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
}

impl Message<'_> {
    pub(super) fn blocks(&self) -> Vec<Block> {
        self.content.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
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
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Value,
        #[serde(default)]
        is_error: bool,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(default, borrow)]
    pub(super) delta: Option<Piece<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Piece<'a> {
    #[serde(default, borrow)]
    pub(super) text: Text<'a>,
}

/// A `system` line's data, of which we know those of a retry.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Retry<'a> {
    #[serde(borrow)]
    pub(super) reason: Text<'a>,
    /// Only where it waits because of a limit.
    pub(super) delay_ms: Option<f64>,
    pub(super) preserve_text: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Said {
    #[serde(default)]
    pub(super) message: String,
}

/// Its `input_tokens` has the cached ones in it, and its `output_tokens` the reasoning, which it
/// does not tell apart.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
}

impl Tokens {
    pub(super) fn usage(self) -> Usage {
        Usage {
            input: self.input_tokens.saturating_sub(self.cache_read_input_tokens),
            output: self.output_tokens,
            cache_read: self.cache_read_input_tokens,
            ..Usage::default()
        }
    }
}
