//! What passes between a worker and those who review it: rounds, verdicts, messages.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    event::{Reason, Via},
    id::SessionId,
    payload::Payload,
    usage::{Micros, Usage},
};

/// The worker's turn is put before the reviewers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReviewStarted {
    pub iteration: u32,
    pub reviewers: Vec<String>,
    /// The commits that the diff is between; absent where the files could not be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How many files differ. With none there is nothing that could pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
}

/// A reviewer's word, as it stands in the reviewer's own journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictSubmitted {
    pub verdict: Verdict,
    /// Empty where it passes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub concerns: Vec<Concern>,
    /// For people: what the reviewer has to say besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    pub via: Via,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Pass,
    Fail,
    /// Of a newer Segue. It does not pass.
    #[serde(other)]
    Unknown,
}

/// One reason why the work does not pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Concern {
    /// What the ledger calls it: `C3`. Given when the verdict is counted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    pub category: String,
    pub concern: String,
    pub evidence: String,
    pub next_step: String,
    /// The concern of an earlier round that this is again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<String>,
}

/// A verdict that counts, in the journal of the work. The event's `id` is the question's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictGiven {
    pub iteration: u32,
    pub reviewer: String,
    /// Who spoke for the reviewer, after every hand-off.
    pub agent: String,
    #[serde(flatten)]
    pub said: VerdictSubmitted,
    /// Concerns that it raised as well and that are settled, by name: with nothing new to show for
    /// them they do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<String>,
}

/// A reviewer stands still: how, and what all of its reviews have cost so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReviewerStopped {
    pub reviewer: String,
    pub agent: String,
    /// The reviewer's own session, in `reviewers/`.
    pub session: SessionId,
    pub reason: Reason,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub resets_at: Option<Timestamp>,
    /// What the vendors call their parts of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vendor_sessions: Vec<String>,
    /// Sums over all of its reviews.
    pub usage: Usage,
    #[serde(default)]
    pub cost_micros: Micros,
    #[serde(default)]
    pub unpriced_calls: u64,
}

/// The worker has said the word that was agreed on for "done".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoneSignalled {
    pub signal: String,
}

/// What passed the review is on the branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkCommitted {
    pub commit: String,
    pub branch: String,
    /// The task that it is of, where there is a list of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// It did not pass: this keeps what there is of it, and says in a word why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What the session made was taken over into another directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkAccepted {
    /// The checkpoint that has it.
    pub commit: String,
    #[schemars(with = "String")]
    pub into: std::path::PathBuf,
    /// How many files were changed there.
    pub files: u64,
    /// The ref that keeps what was there before.
    pub safety: String,
}

/// One participant, or a person, has something to say to another. The event's `id` is the
/// message's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageSent {
    pub from: String,
    pub to: String,
    pub text: Payload,
}

/// The recipient has it: it was part of a prompt, or of what the tool answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageDelivered {
    pub to: String,
    pub messages: Vec<String>,
    pub by: Delivery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    Prompt,
    Tool,
    /// As a file of its own.
    File,
    /// A person was notified.
    Notice,
    #[serde(other)]
    Unknown,
}
