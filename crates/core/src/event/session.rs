//! A session's own events: made, started, resumed, stopped.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    caps::{Cap, Caps},
    identity::Identity,
    permission::Permission,
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionCreated {
    pub identity: Box<Identity>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionNamed {
    pub name: String,
}

/// The process that writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    pub pid: u32,
    pub host: String,
    /// The version of Segue.
    pub segue: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionStarted {
    pub by: Process,
    pub caps: Caps,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionResumed {
    pub by: Process,
    pub caps: Caps,
    /// The plan, line by line, as it was printed.
    pub plan: Vec<String>,
    /// There was no stop in the journal: the process before this one died.
    pub crashed: bool,
    /// The model that goes on, where it is another one than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Where the agent works from now on, where that is another place than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub workspace: Option<PathBuf>,
    /// What the agent may do from now on, where that is something else than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Permission>,
    /// Processes of the run before that were still alive, and were ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leftovers_ended: Vec<u32>,
}

/// Why a session stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The loop's own rule says that the work is done.
    Done,
    Limit,
    Interrupted,
    /// The agent's process died, or ended without its last word.
    AgentCrashed,
    /// The model's server has too much to do, or fails.
    Overloaded,
    /// The model's server can't be reached.
    Unreachable,
    /// The answer broke off, again and again.
    StreamCut,
    ContextExhausted,
    NotSignedIn,
    /// The agent said nothing for too long.
    Silent,
    Cap,
    /// The worker ended its turn without a case, also when it was asked for one.
    NoCase,
    /// The worker said nothing at all, twice.
    Empty,
    /// Set aside by a person, who began anew.
    Discarded,
    /// The same step again and again.
    Looping,
    /// The model would not do it.
    Refused,
    /// It went back to an earlier turn, and waits for what to do instead.
    Rewound,
    /// A person had it stop at the end of a turn, with a packet for whoever goes on.
    HandedOff,
    /// A replay left its recording, and was to stop there.
    Drifted,
    /// The agent is missing, or something else went wrong that nobody expected.
    Failed,
    /// The journal could not be written.
    Disk,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionStopped {
    pub reason: Reason,
    /// Who ran into it, where that is not the one who works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Cap>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub resets_at: Option<Timestamp>,
    /// For people: what happened.
    pub message: String,
    /// For people: what would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
