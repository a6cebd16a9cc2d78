//! Who a session is: written once, when it is created, and never changed.
//!
//! The same record stands in `session.json` (for people and for a quick look) and in the journal's
//! first event (the truth, from which a damaged `session.json` is written again).

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    caps::Caps,
    event::{SessionStopped, Span},
    id::SessionId,
    packet::Packet,
    payload::Payload,
    permission::Permission,
    review::Terms,
    steps::StepId,
    usage::{Micros, Usage},
};

/// The version of `session.json` that this Segue writes.
pub const VERSION: u32 = 1;

/// What `session.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    pub v: u32,
    pub id: SessionId,
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    pub repo: RepoRef,
    /// Where the agent works, on the machine where the session was created.
    #[schemars(with = "String")]
    pub workspace: PathBuf,
    /// Who speaks next and when to stop.
    #[serde(rename = "loop")]
    pub loop_kind: LoopKind,
    pub agent: String,
    /// Which model the agent speaks to; a vendor's own choice where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the agent may do.
    #[serde(default)]
    pub permission: Permission,
    /// Flags for the vendor's program that Segue passes on unread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vendor_args: Vec<String>,
    pub prompt: Payload,
    /// A command whose success is the loop's rule for "done".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// The longest that the proof may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_secs: Option<u64>,
    /// Who reviews the work, and by which rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Terms>,
    /// Where the list of tasks is that it works through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub tasks: Option<PathBuf>,
    #[serde(default)]
    pub caps: Caps,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// The packet that the session begins from, as the person had edited it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet: Option<Box<Packet>>,
    /// Who goes on when the agent runs into its limit, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// It works in a worktree of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub worktree: bool,
    /// It was made to be looked at: it can't be resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
    /// The document of another program that it was made from, in its canonical form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Payload>,
    /// The version of Segue that created the session.
    pub segue: String,
}

/// Which repository a session belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepoRef {
    /// The directory under `sessions/`.
    pub id: String,
    /// The remote's address, or the path of the root where there is no remote.
    pub identity: String,
    /// The commit that the workspace stood on at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoopKind {
    Solo,
    /// A worker and its reviewers.
    Pair,
    /// One of these reviewers.
    Review,
    /// A list of tasks, one after the other, each with a worker and its evaluator.
    Tasks,
    /// Several agents under one name.
    Crew,
    /// One of these.
    Member,
    #[serde(other)]
    Unknown,
}

/// Where a session comes from, when it does not begin on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lineage {
    pub from: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What the vendor calls the session that this one comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor_session: Option<String>,
    pub how: How,
    /// What the vendor calls the point of its session that this one begins at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor_mark: Option<String>,
    /// The part of the other session that this one begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// The recording that answers in the place of models and tools, in a replay that runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
    /// In which mode it is replayed, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The commit whose files it begins with. Whoever works in it first brings them back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// What whoever works in it first is told besides what it is asked: how its files stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How it stands from the start, where nobody is to work on it yet: a replay of recorded steps
    /// is complete, a fork may wait for what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands: Option<Box<SessionStopped>>,
}

impl Lineage {
    /// Nothing but where it comes from.
    #[must_use]
    pub fn new(from: SessionId, how: How) -> Self {
        Self {
            from,
            step: None,
            vendor_session: None,
            how,
            vendor_mark: None,
            base: None,
            recording: None,
            mode: None,
            files: None,
            note: None,
            stands: None,
        }
    }
}

/// The beginning of a session that is told by another one's journal: shared, not copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Base {
    /// The last event of it, and where that ends in the journal.
    pub seq: u64,
    pub offset: u64,
    /// The hash of that event's line: the journal before it is what it was.
    pub link: String,
    /// The last turn of it. The session's own turns are counted on from here.
    pub turn: u32,
    /// Its turns that belong to the conversation.
    pub path: Vec<Span>,
    /// How many steps it has.
    pub steps: u64,
    /// What the next step follows from.
    pub frontier: Vec<StepId>,
    /// How many of them are the conversation's, where they were counted: not those that a rewind had
    /// left behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retained: Option<u64>,
    /// What these cost when they were made: a replay's accounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Accounts>,
}

impl Base {
    /// Whether a turn is one of its conversation.
    #[must_use]
    pub fn has_turn(&self, turn: u32) -> bool {
        self.path.iter().any(|span| (span.from..=span.to).contains(&turn))
    }
}

/// How far another session is answered from, and on which terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// The last event that counts, and where it ends in the journal: what is added later does not.
    pub seq: u64,
    pub offset: u64,
    /// The hash of that event's line: the journal before it is what it was.
    pub link: String,
    /// The turns of the conversation, as they were then.
    pub path: Vec<Span>,
    /// It matters which model has answered: a person named one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub same_model: bool,
    /// Where the recording is left, stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop_at_drift: bool,
}

/// Accounting, apart from the structure: it can drift where the steps are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accounts {
    pub usage: Usage,
    pub cost_micros: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Continued,
    HandedOff,
    Rewound,
    Forked,
    Replayed,
    #[serde(other)]
    Unknown,
}

/// What a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The recorded steps: nobody is called.
    Cache,
    /// The native agent runs again, answered from the recording as long as it asks the same.
    Continue,
    /// Somebody is told what is recorded, and does the work again.
    Rerun,
    #[serde(other)]
    Unknown,
}
