//! A turn: who asked for it, what the model and the tools did, what the proof said, how it ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Told;
use crate::{
    payload::Payload,
    usage::{Micros, Usage},
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnStarted {
    pub prompt: Payload,
    pub cause: Cause,
    /// What the native agent is told in place of the prompt alone, where others have worked since.
    /// What a vendor's program is told stands in its `agent.started`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub briefing: Option<Payload>,
    /// The messages that are part of the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
    /// The conversation begins here: the agent is to know nothing of what was said before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
}

impl TurnStarted {
    #[must_use]
    pub fn new(prompt: Payload, cause: Cause) -> Self {
        Self { prompt, cause, briefing: None, messages: Vec::new(), fresh: false }
    }
}

/// Who asked for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Person,
    /// The proof failed: its output is the prompt.
    Proof,
    /// The reply before was cut at the model's own output limit.
    Cut,
    /// Another agent goes on with what the one before had not finished.
    HandOff,
    /// The reviewers' concerns are the prompt.
    Review,
    /// The turn before ended without the word for "done".
    Unfinished,
    /// Somebody had something to say.
    Message,
    /// A task of the list is the prompt.
    Task,
    #[serde(other)]
    Unknown,
}

impl Cause {
    /// Whether the turn begins another attempt, and not the rest of the one before.
    #[must_use]
    pub fn is_another_attempt(self) -> bool {
        !matches!(self, Self::Cut | Self::HandOff)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnEnded {
    pub outcome: Outcome,
    /// What the vendor calls the end of this turn in its own conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

impl TurnEnded {
    #[must_use]
    pub fn with(outcome: Outcome) -> Self {
        Self { outcome, mark: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The agent said that it is done.
    Finished,
    /// The reply was cut at the model's own output limit.
    Truncated,
    /// The model would not do it.
    Refused,
    /// A new prompt took the place of the rest.
    Superseded,
    /// Another agent goes on with the rest.
    HandedOff,
    /// Its program ended in the middle of it.
    CutOff,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCalled {
    pub model: String,
    /// 1, or more when the call before it failed.
    pub attempt: u32,
    /// How many messages the request has.
    pub messages: u64,
    /// What the model is told besides, where that is not what the session told it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Told>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFailed {
    pub error: Failure,
    pub message: String,
    /// Set when the call is tried again after that long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    Limit,
    Overloaded,
    Server,
    Network,
    StreamCut,
    ContextExhausted,
    NotSignedIn,
    BadRequest,
    Cancelled,
    Script,
    /// The vendor has no session of that id any more.
    SessionGone,
    /// The agent's process ended without its last word.
    Died,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextWritten {
    pub text: Payload,
    /// The rest of it never came.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThinkingWritten {
    pub text: Payload,
    /// What the vendor wants back with the next request, unread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Payload>,
}

/// The event's `id` is the call's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCalled {
    pub name: String,
    /// JSON, as the model wrote it.
    pub input: Payload,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelReplied {
    pub model: String,
    pub stop: ModelStop,
    pub usage: Usage,
    /// Absent where the price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<Micros>,
    /// What the vendor calls this reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelStop {
    EndTurn,
    ToolUse,
    MaxTokens,
    Refusal,
    #[serde(other)]
    Unknown,
}

/// The event's `id` is the call's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolStarted {}

/// The event's `id` is the call's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolReturned {
    /// The tool: with several calls in one reply, results would not tell.
    #[serde(default)]
    pub name: String,
    pub status: ToolStatus,
    pub output: Payload,
    /// A shell command's exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// Files that were written, relative to the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    Done,
    Failed,
    /// Ended by Segue while it ran: a signal, or a cap.
    Interrupted,
    /// Started before a crash and never heard of again: it may have run.
    MayHaveRun,
    /// Certainly not run.
    NotRun,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProofStarted {
    pub command: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProofReturned {
    pub status: ToolStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    pub output: Payload,
}

impl ProofReturned {
    #[must_use]
    pub fn passed(&self) -> bool {
        self.status == ToolStatus::Done && self.exit == Some(0)
    }
}
