//! Where a turn stands: its calls, its tools, its proof.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    event::{Cause, Event, ModelStop, Outcome, ProofReturned, ToolStatus},
    usage::Micros,
    validation::Check,
};

/// The turn under way, or the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// 0 before the first.
    pub number: u32,
    /// Who it was given to.
    #[serde(default)]
    pub agent: String,
    /// Who asked for it.
    #[serde(default)]
    pub cause: Option<Cause>,
    /// What it answers, where the question has a name.
    #[serde(default)]
    pub question: Option<String>,
    /// The turn in which that was asked: an answer that was cut off, or handed over, goes on in
    /// later ones.
    #[serde(default)]
    pub asked_in: u32,
    /// The messages that were part of its prompt.
    #[serde(default)]
    pub messages: Vec<String>,
    pub open: bool,
    /// Whether anything was said or done in it.
    #[serde(default)]
    pub spoke: bool,
    /// Whether anything was in the turn before, where this one asks for what that one left out.
    #[serde(default)]
    pub spoke_before: bool,
    /// Model calls so far that were answered.
    pub calls: u32,
    /// A call that is under way (or was, when the process died).
    pub calling: bool,
    /// Attempts at the call under way that failed.
    pub failed_attempts: u32,
    /// Steps of a reply that is not sealed yet.
    pub unsealed: Vec<ToolCall>,
    /// The tool calls of the last whole reply, in order.
    pub tools: Vec<ToolCall>,
    /// How the last whole reply ended.
    pub reply: Option<ModelStop>,
    /// How the turn ended, once it has.
    pub outcome: Option<Outcome>,
    /// How often a vendor's program was started for this turn.
    #[serde(default)]
    pub spawns: u32,
    /// The last of them has not ended, as far as the journal knows.
    #[serde(default)]
    pub running: bool,
    /// Calls of the last of them whose price is still to be told.
    #[serde(default)]
    pub unpriced: u64,
    /// What its calls have cost so far, until the vendor tells the sum.
    #[serde(default)]
    pub guessed: Micros,
    /// Where the bytes of the last of them begin in the turn's stream file.
    #[serde(default)]
    pub stream_from: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub progress: Progress,
    /// What it checks, where it is a command that everybody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<(Check, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Asked for, and certainly not run.
    Called,
    /// Intended: it runs, or it ran, or it was about to.
    Started,
    Returned,
    #[serde(other)]
    Unknown,
}

/// Where the proof of the last turn stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// Not run since the last turn.
    #[default]
    Open,
    Started,
    Passed,
    Failed,
    #[serde(other)]
    Unknown,
}

impl Turn {
    pub(super) fn advance(&mut self, event: &Event, progress: Progress) {
        let id = event.id.as_deref().unwrap_or_default();
        if let Some(call) = self.calls_mut().find(|call| call.id == id) {
            call.progress = progress;
        }
    }

    pub(super) fn calls_mut(&mut self) -> impl Iterator<Item = &mut ToolCall> {
        self.tools.iter_mut().chain(&mut self.unsealed)
    }

    /// The tool calls that are under way or were lately: those of the last whole reply, or those
    /// that a vendor's program told of.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        let vendors = self.unsealed.iter().filter(|_| self.spawns > 0);
        self.tools.iter().chain(vendors)
    }
}

impl Proof {
    pub(super) fn of(returned: &ProofReturned) -> Self {
        match returned.status {
            _ if returned.passed() => Self::Passed,
            // Nobody knows its verdict, so it is still to be had.
            ToolStatus::Interrupted | ToolStatus::MayHaveRun | ToolStatus::NotRun => Self::Open,
            _ => Self::Failed,
        }
    }
}
