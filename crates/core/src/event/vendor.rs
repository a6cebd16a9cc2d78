//! What happens with a vendor's program: from its start to its end, and what it tells of its spending.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    payload::Payload,
    permission::Permission,
    usage::{Micros, Usage},
};

/// How a vendor's program was brought to the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A conversation of its own. With earlier turns in the session, the packet tells of them.
    New,
    Resumed,
    Forked,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStarted {
    pub entry: Entry,
    /// What the vendor calls its session, where that is known before it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor_session: Option<String>,
    /// The program and its arguments, without the prompt.
    pub command: String,
    /// What was said to it, where that is not just the turn's prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<Payload>,
    #[schemars(with = "String")]
    pub cwd: PathBuf,
    pub permission: Permission,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where in the turn's stream file the bytes of this run begin.
    #[serde(default)]
    pub stream_from: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentIntroduced {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor_session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// How a vendor's program ended. The status decides nothing: the stream does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentExited {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Lines that it printed.
    #[serde(default)]
    pub lines: u64,
    /// Those among them that could not be read. They are in the stream file.
    #[serde(default)]
    pub unread_lines: u64,
    /// How its standard error ended, where it did not end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_words: Option<Payload>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageReported {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub usage: Usage,
    /// Absent where neither the vendor nor we know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<Micros>,
    /// The cost is that of everything since the program was started: what came without a price is
    /// paid for now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settles: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaTold {
    /// The vendor's word for it: `five_hour`, `weekly`.
    pub window: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub resets_at: Option<Timestamp>,
}
