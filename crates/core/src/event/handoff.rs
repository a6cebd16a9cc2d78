//! What passes from one agent to the next: who works, what was reported, what was written down.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Another agent goes on. The turn under way, if there is one, ends with this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentChanged {
    pub from: String,
    pub to: String,
    /// The model of the one that goes on, where a person named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub cause: ChangeCause,
    /// For people: why.
    pub reason: String,
    /// Those that stood before it in the list, and why it was not them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<PassedOver>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeCause {
    /// The one before ran into its limit.
    Limit,
    /// A person asked for it.
    Asked,
    /// The one that the work was taken from can go on.
    Returned,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PassedOver {
    pub agent: String,
    pub why: String,
}

/// What the agent itself says of its work: by the `checkpoint` tool, or by a closing block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressReported {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
    /// What is in the way now, in place of what was before. Absent: nothing is said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blockers: Option<Vec<Blocker>>,
    /// What is left to do now, in place of what was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_task: Option<String>,
    #[serde(default)]
    pub via: Via,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blocker {
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    #[default]
    Tool,
    Block,
    #[serde(other)]
    Unknown,
}

/// `resume.json` is about to be replaced by one with this checksum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PacketWritten {
    pub blake3: String,
    pub reason: String,
}

/// One agent's limit, as the ledger that all sessions share keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnownLimit {
    pub agent: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub resets_at: Option<Timestamp>,
    #[schemars(with = "String")]
    pub hit_at: Timestamp,
}
