//! A list of tasks: what was read, which one is in hand, and how each came out.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{event::Via, payload::Payload};

/// The list as it is now, before anything of it is begun or gone on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TasksRead {
    /// The directory or the file that it was read from.
    #[schemars(with = "String")]
    pub source: PathBuf,
    /// All of it, as JSON.
    pub list: Payload,
    /// What it consists of, in the order of the work.
    pub tasks: Vec<TaskRead>,
    /// What is other than it was read before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edited: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskRead {
    pub id: String,
    pub title: String,
    /// Tells whether its text has changed.
    pub digest: String,
}

/// A task is taken in hand, for the first time or again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskStarted {
    pub task: String,
    /// 1, or more where it was begun before.
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// What was there of the attempt before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retry {
    /// In a word, why it was not done: `iter_cap`.
    pub was: String,
    /// The placeholder commit that was taken off the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unwound: Option<String>,
    /// Why it stays on the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// A cap of its own has ended a task, or its worker has nothing to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskFailed {
    pub task: String,
    /// In a word: `iter_cap`, `evaluator_cap`, `no_case`, `empty_responses`.
    pub why: String,
    /// For people: what happened.
    pub message: String,
}

/// What a worker has to show for its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaseSubmitted {
    pub summary: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Met>,
    /// What is not as it should be, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work_arounds: Vec<String>,
    /// What the worker is not sure of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    pub via: Via,
}

/// One acceptance criterion, and where it is met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Met {
    pub criterion: String,
    /// File and place.
    pub met_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}
