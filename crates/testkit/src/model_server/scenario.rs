//! What the server answers: a list of replies and the rule by which a request gets one of them.
//!
//! A request first gets a reply whose `when` names it; only if there is none it takes the next reply
//! without a `when`. So side requests (titles, routers, memory extraction) and several agents at once
//! can be answered without disturbing the main conversation. A reply is used up by one request unless
//! it is sticky.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The text of the answer to a request for which the scenario has nothing.
pub const UNSCRIPTED: &str = "(the scenario has no more replies)";

/// A whole script for one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    pub replies: Vec<Reply>,
    /// What the model lists name.
    pub models: Vec<String>,
    /// Whether the Responses API may be spoken over WebSocket. If not, the upgrade is refused with 426,
    /// which makes Codex fall back to SSE.
    pub websocket: bool,
}

impl Default for Scenario {
    fn default() -> Self {
        Self { replies: Vec::new(), models: vec!["scripted-model".into()], websocket: true }
    }
}

impl Scenario {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a reply at the end.
    #[must_use]
    pub fn reply(mut self, reply: Reply) -> Self {
        self.replies.push(reply);
        self
    }

    /// Adds a plain text reply at the end.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.reply(Reply::text(text))
    }

    /// # Errors
    /// When the text is no scenario: unknown keys are errors too, so that a typing mistake shows.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// # Errors
    /// When the file cannot be read or holds no scenario.
    pub fn load(path: &Path) -> std::io::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        Self::from_toml(&text).map_err(|e| {
            let what = format!("{}: {e}", path.display());
            std::io::Error::new(std::io::ErrorKind::InvalidData, what)
        })
    }
}

/// One answer of the model, or one way for it to fail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// May be served any number of times.
    pub sticky: bool,
    pub thinking: String,
    pub text: String,
    pub tools: Vec<ToolCall>,
    pub usage: Usage,
    /// Without it: tool use if there are tool calls, else the end of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// Wait before the status line.
    pub delay_ms: u64,
    /// Wait before the status line until there is a file of this name: a test decides when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<PathBuf>,
    /// Wait before every chunk but the first.
    pub gap_ms: u64,
    /// More response headers, such as the rate limit headers of a subscription.
    pub headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

impl Reply {
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    #[must_use]
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::default().and_tool(name, input)
    }

    #[must_use]
    pub fn fault(fault: Fault) -> Self {
        Self::default().failing(fault)
    }

    /// Adds a tool call.
    #[must_use]
    pub fn and_tool(self, name: impl Into<String>, input: Value) -> Self {
        self.and_call(ToolCall { name: name.into(), input, id: None, namespace: None })
    }

    /// Adds a tool call with all its fields.
    #[must_use]
    pub fn and_call(mut self, call: ToolCall) -> Self {
        self.tools.push(call);
        self
    }

    #[must_use]
    pub fn thinking(mut self, text: impl Into<String>) -> Self {
        self.thinking = text.into();
        self
    }

    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = Some(stop);
        self
    }

    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self
    }

    #[must_use]
    pub fn until(mut self, file: impl Into<PathBuf>) -> Self {
        self.until = Some(file.into());
        self
    }

    #[must_use]
    pub fn slow(mut self, gap: Duration) -> Self {
        self.gap_ms = u64::try_from(gap.as_millis()).unwrap_or(u64::MAX);
        self
    }

    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    #[must_use]
    pub fn failing(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    #[must_use]
    pub fn when(mut self, when: When) -> Self {
        self.when = Some(when);
        self
    }

    #[must_use]
    pub fn sticky(mut self) -> Self {
        self.sticky = true;
        self
    }

    pub(super) fn stop_reason(&self) -> Stop {
        let natural = if self.tools.is_empty() { Stop::EndTurn } else { Stop::ToolUse };
        self.stop.unwrap_or(natural)
    }
}

/// A tool call that the model makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    pub name: String,
    /// The arguments. A bare string makes a free-form (custom) tool call in the Responses API.
    #[serde(default)]
    pub input: Value,
    /// Made up, unique over all servers of a test, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where Codex keeps the tools of an MCP server. Only the Responses API has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Token counts. The buckets do not overlap; each API puts them together as its vendor does.
///
/// It is its own type, so that the stand-in cannot share a counting mistake with the code it tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 11, output: 7, cache_read: 0, cache_write: 0, reasoning: 0 }
    }
}

impl Usage {
    pub(super) fn all_input(self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }

    pub(super) fn all_output(self) -> u64 {
        self.output + self.reasoning
    }
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    EndTurn,
    ToolUse,
    MaxTokens,
    Refusal,
}

/// A way to fail, in the shape that each vendor gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// 429: too many requests just now. Ends in seconds.
    RateLimit {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reset: Option<Reset>,
    },
    /// 429: the plan's or the day's quota is used up. Ends in hours.
    UsageLimit {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reset: Option<Reset>,
    },
    /// 500.
    ServerError,
    /// 529 at Anthropic, 503 elsewhere.
    Overloaded,
    /// The conversation does not fit the model any more.
    ContextExhausted,
    /// 401.
    Unauthorized,
    /// The reply's own stream ends early. `after` counts chunks; without it, half of them are sent.
    Cut {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<usize>,
        /// The HTTP body ends as it should and only the API's end event is missing; otherwise the
        /// connection is closed in the middle of the body.
        #[serde(default)]
        clean: bool,
    },
    /// Silence with the connection open: before the status line, or with `after` once the headers and
    /// that many chunks are out.
    Hang {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<usize>,
    },
    /// The stream reports an error of the server in an event of its own after `after` chunks (half of
    /// them without it) and ends. Without streaming it is the same as `Overloaded`.
    StreamError {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<usize>,
    },
}

impl Fault {
    /// A stream whose connection breaks half-way.
    #[must_use]
    pub fn cut() -> Self {
        Self::Cut { after: None, clean: false }
    }

    /// A request that never gets even a status line.
    #[must_use]
    pub fn hang() -> Self {
        Self::Hang { after: None }
    }
}

/// When a limit ends, in Unix seconds or in seconds from the moment of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reset {
    At(i64),
    In(i64),
}

/// Which requests a reply is for. All that is given must hold; substrings are case-sensitive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// Occurs in what the user said last (tool results and system reminders do not count).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_user: Option<String>,
    /// Occurs in the last tool result, and nothing but tool results follows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_tool: Option<String>,
    /// Occurs in any string of the body, system prompt and tool descriptions included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Occurs in no string of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_lacks: Option<String>,
    /// Occurs in the model's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<super::Api>,
    /// Whether the request offers tools: title and router requests usually offer none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
}

impl When {
    #[must_use]
    pub fn last_user(part: impl Into<String>) -> Self {
        Self { last_user: Some(part.into()), ..Self::default() }
    }

    #[must_use]
    pub fn last_tool(part: impl Into<String>) -> Self {
        Self { last_tool: Some(part.into()), ..Self::default() }
    }

    #[must_use]
    pub fn body(part: impl Into<String>) -> Self {
        Self { body: Some(part.into()), ..Self::default() }
    }

    #[must_use]
    pub fn model(part: impl Into<String>) -> Self {
        Self { model: Some(part.into()), ..Self::default() }
    }

    /// Side requests: those that offer the model no tools.
    #[must_use]
    pub fn no_tools() -> Self {
        Self { tools: Some(false), ..Self::default() }
    }
}
