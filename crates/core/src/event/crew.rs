//! A crew: who is in it, how each came to its place and left it, and what happened on the way.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{crew::Roster, id::SessionId};

/// The crew is to be at work from here on, as `segue.toml` says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrewRaised {
    pub roster: Roster,
    /// The directory that `segue.toml` is in.
    #[schemars(with = "String")]
    pub project: PathBuf,
    /// What that file is called, where it is called otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The home that it was raised in: a copy elsewhere is another crew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub home: Option<PathBuf>,
    /// Without terminals: every message is a turn of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub headless: bool,
    /// The socket of the tmux server that everybody sits in: whoever looks next may have another
    /// one around.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub tmux: Option<PathBuf>,
    /// Everybody has a worktree, not only those of whom the roster says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub worktrees: bool,
    /// What the branches of the worktrees begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// Everybody is ended from here on. Whoever comes after one that died on the way goes on with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CrewEnding {
    /// The order by which it is, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
}

/// One more is part of the crew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberJoined {
    pub member: String,
    /// Its entry in the roster.
    pub role: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    pub instance: u32,
    /// Its own session, in `members/`.
    pub session: SessionId,
    #[schemars(with = "String")]
    pub cwd: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub worktree: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// It is no longer part of the crew. Its session stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberLeft {
    pub member: String,
    pub reason: String,
}

/// How a member comes to its conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    #[default]
    New,
    /// By the vendor's own resume.
    Resumed,
    /// A new conversation, in which it is told what happened in the one before.
    Packet,
    #[serde(other)]
    Unknown,
}

/// Its program is about to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberStarting {
    pub member: String,
    pub how: Start,
    /// Which start of this member it is, from 1 on: what runs in its terminal knows it too.
    pub generation: u32,
    /// What the vendor calls its conversation, where that is known before it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor_session: Option<String>,
    /// The program and its arguments.
    pub command: String,
    #[schemars(with = "String")]
    pub cwd: PathBuf,
}

/// It runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberStarted {
    pub member: String,
    /// Its pane, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// When that process began, as the system counts: its number may be given out again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
}

/// What the vendor calls its conversation, found out while it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberIdentified {
    pub member: String,
    pub vendor_session: String,
}

/// It does something else now than it did before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberSeen {
    pub member: String,
    pub doing: Doing,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// It does not run.
    #[default]
    Down,
    Starting,
    Idle,
    Busy,
    /// For a person.
    Waiting,
    /// It ended too often, and is not started again by itself.
    Degraded,
    /// It runs, and nobody gets to its terminal.
    Unreachable,
    #[serde(other)]
    Unknown,
}

impl std::fmt::Display for Doing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Down => "down",
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Waiting => "waiting",
            Self::Degraded => "degraded",
            Self::Unreachable => "unreachable",
            Self::Unknown => "unknown",
        })
    }
}

/// Its program has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberEnded {
    pub member: String,
    pub why: String,
    /// It is started again after that long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_in_ms: Option<u64>,
    /// It ended too often: it is not started again by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub degraded: bool,
}

/// Somebody wants it to be started again, and its program has ended. The event's id is that of the
/// order: whoever finds it in the journal has nothing left to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberRestarted {
    pub member: String,
    /// Its next start begins a new conversation, with its first prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
}

/// Messages are about to be typed in: from here on they may have arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessagePosted {
    pub to: String,
    pub messages: Vec<String>,
    /// How often that was tried, from 1 on.
    pub attempt: u32,
}

/// Messages that will not arrive, or of which nobody can tell whether they have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageFailed {
    pub to: String,
    pub messages: Vec<String>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimerFired {
    pub timer: String,
    pub to: Vec<String>,
    /// Whoever was still busy with the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<String>,
}

/// A turn of somebody who may not write everywhere begins: what differs from this commit was
/// written since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScopeOpened {
    pub member: String,
    pub base: String,
}

/// The turn is over, and what was written was looked at for the last time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScopeClosed {
    pub member: String,
}

/// Files were written where none of those at work may write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScopeBroken {
    /// Who may have been it.
    pub members: Vec<String>,
    /// Whose turn was looked at.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub turn_of: String,
    pub paths: Vec<String>,
    /// They are as they were before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undone: bool,
    /// The commit that has them as they were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_in: Option<String>,
}
