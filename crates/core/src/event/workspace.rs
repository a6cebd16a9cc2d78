//! What happens to the files that the agents work on, besides what the agents do.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The workspace was kept as a commit that no branch points to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointTaken {
    pub mark: Mark,
    pub commit: String,
    /// The ref that keeps the commit.
    pub reference: String,
    /// Where the repository stood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What is different from the checkpoint before, as far as there is room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<FileChange>,
    /// How many files are different.
    #[serde(default)]
    pub changed_total: u64,
    /// What could not be read or is too long to be kept, as far as there is room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// Which point a checkpoint is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Before the first turn.
    Start,
    TurnEnd,
    /// A stop in the middle of a turn.
    Stop,
    /// What was there before a rewind.
    Safety,
    /// What is there after one.
    Rewound,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    pub path: String,
    pub status: FileStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileStatus {
    Added,
    Modified,
    Deleted,
    #[serde(other)]
    Unknown,
}

/// The workspace could not be kept at this point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointSkipped {
    pub mark: Mark,
    pub why: String,
}

/// From here on files may change: until `rewind.finished` it is to be finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RewindStarted {
    /// The turn whose end is gone back to; 0 is the start.
    pub to_turn: u32,
    /// The checkpoint that the files go back to; absent where they stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// The turns that the conversation consists of afterwards; absent where it stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<Span>>,
    /// The ref that keeps what was there before.
    pub safety: String,
    /// Where in the vendors' own conversations the turn ended, where that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<Cut>,
    /// It takes back the rewind before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
}

/// Turns from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    pub from: u32,
    pub to: u32,
}

/// A place in a vendor's own conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cut {
    pub agent: String,
    pub vendor_session: String,
    /// The vendor's own word for the place; absent where the whole conversation is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RewindFinished {
    pub to_turn: u32,
    /// How many files were brought back, changed back or taken away.
    #[serde(default)]
    pub files: u64,
    /// Nobody had worked yet: they are the files that the session begins with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins: bool,
}

/// A worktree of the session's own is about to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreePlanned {
    #[schemars(with = "String")]
    pub path: PathBuf,
    pub branch: String,
    /// The commit that it begins at.
    pub base: String,
    /// The repository that it belongs to.
    #[schemars(with = "String")]
    pub repo: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeMade {
    #[schemars(with = "String")]
    pub path: PathBuf,
}
