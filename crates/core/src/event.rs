//! What can happen in a session: one event is one line of the journal.
//!
//! ```text
//! {"v":1,"seq":41,"at":"…Z","synced":40,"turn":7,"agent":"native","kind":"tool.called","id":"…","data":{…},"prev":"16 hex","crc":"8 hex"}
//! ```
//!
//! A kind is dotted and in the past tense. A kind or a field that this version does not know is
//! kept and skipped, never an error, so that an older Segue can read what a newer one wrote.
//!
//! What an agent does to the world stands between two events: `model.called` … `model.replied`,
//! `tool.started` … `tool.returned`, `proof.started` … `proof.returned`. A reply consists of the
//! steps (`text.written`, `thinking.written`, `tool.called`) before its `model.replied`, which
//! seals it: steps without a seal are a reply that never arrived whole.

mod crew;
mod handoff;
mod replay;
mod review;
mod session;
mod tasks;
mod turn;
mod vendor;
mod workspace;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

pub use crew::{
    CrewEnding, CrewRaised, Doing, MemberEnded, MemberIdentified, MemberJoined, MemberLeft,
    MemberRestarted, MemberSeen, MemberStarted, MemberStarting, MessageFailed, MessagePosted,
    ScopeBroken, ScopeClosed, ScopeOpened, Start, TimerFired,
};
pub use handoff::{
    AgentChanged, Blocker, ChangeCause, Decision, KnownLimit, PacketWritten, PassedOver,
    ProgressReported, Via,
};
pub use replay::{ReplayEnd, ReplayEnded, Told};
pub use review::{
    Concern, Delivery, DoneSignalled, MessageDelivered, MessageSent, ReviewStarted,
    ReviewerStopped, Verdict, VerdictGiven, VerdictSubmitted, WorkAccepted, WorkCommitted,
};
pub use session::{
    Process, Reason, SessionCreated, SessionNamed, SessionResumed, SessionStarted, SessionStopped,
};
pub use tasks::{CaseSubmitted, Met, Retry, TaskFailed, TaskRead, TaskStarted, TasksRead};
pub use turn::{
    Cause, Failure, ModelCalled, ModelFailed, ModelReplied, ModelStop, Outcome, ProofReturned,
    ProofStarted, TextWritten, ThinkingWritten, ToolCalled, ToolReturned, ToolStarted, ToolStatus,
    TurnEnded, TurnStarted,
};
pub use vendor::{AgentExited, AgentIntroduced, AgentStarted, Entry, QuotaTold, UsageReported};
pub use workspace::{
    CheckpointSkipped, CheckpointTaken, Cut, FileChange, FileStatus, Mark, RewindFinished,
    RewindStarted, Span, WorktreeMade, WorktreePlanned,
};

/// The version of the journal line that this Segue writes. A newer one is read, never written to.
pub const VERSION: u32 = 1;

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Event {
    pub seq: u64,
    pub at: Timestamp,
    /// The turn that it belongs to, if any.
    pub turn: Option<u32>,
    pub agent: Option<String>,
    /// What the event is about, where several can be under way: a tool call's id.
    pub id: Option<String>,
    pub body: Body,
}

/// An event that is not in the journal yet: its number and its time are the journal's to give.
#[derive(Clone, Debug)]
pub struct Draft {
    pub turn: Option<u32>,
    pub agent: Option<String>,
    pub id: Option<String>,
    pub body: Body,
}

impl From<Body> for Draft {
    fn from(body: Body) -> Self {
        Self { turn: None, agent: None, id: None, body }
    }
}

impl Draft {
    #[must_use]
    pub fn about(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    #[must_use]
    pub fn in_turn(mut self, turn: u32, agent: impl Into<String>) -> Self {
        self.turn = Some(turn);
        self.agent = Some(agent.into());
        self
    }
}

/// Ties each kind to the type of its `data`: the one list of what Segue can record.
macro_rules! bodies {
    ($($(#[$doc:meta])* $kind:literal => $name:ident,)*) => {
        /// What happened, by kind.
        #[derive(Clone, Debug)]
        pub enum Body {
            $($(#[$doc])* $name($name),)*
            /// A kind, or a shape of a known kind, that this version does not know.
            Unknown { kind: String, data: Box<RawValue> },
        }

        impl Body {
            /// All kinds that this version writes.
            pub const KINDS: &[&str] = &[$($kind),*];

            #[must_use]
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$name(_) => $kind,)*
                    Self::Unknown { kind, .. } => kind,
                }
            }

            /// Reads the data of a line. Never fails: what can't be read is kept as `Unknown`.
            #[must_use]
            pub fn read(kind: &str, data: &RawValue) -> Self {
                match kind {
                    $($kind => parsed(kind, data, Self::$name),)*
                    _ => Self::Unknown { kind: kind.to_owned(), data: data.to_owned() },
                }
            }

            /// The `data` of a line.
            pub fn data(&self) -> serde_json::Result<Box<RawValue>> {
                match self {
                    $(Self::$name(body) => serde_json::value::to_raw_value(body),)*
                    Self::Unknown { data, .. } => Ok(data.clone()),
                }
            }

            /// Writes the `data` of a line, without a copy on the way.
            pub fn write_data(&self, line: &mut Vec<u8>) -> serde_json::Result<()> {
                match self {
                    $(Self::$name(body) => serde_json::to_writer(line, body),)*
                    Self::Unknown { data, .. } => {
                        line.extend_from_slice(data.get().as_bytes());
                        Ok(())
                    }
                }
            }

            /// The schema of each kind's data.
            #[must_use]
            pub fn schemas(generator: &mut schemars::SchemaGenerator) -> Vec<(&'static str, schemars::Schema)> {
                vec![$(($kind, generator.subschema_for::<$name>())),*]
            }
        }

        $(impl From<$name> for Body {
            fn from(body: $name) -> Self {
                Self::$name(body)
            }
        }

        impl From<$name> for Draft {
            fn from(body: $name) -> Self {
                Body::from(body).into()
            }
        })*
    };
}

fn parsed<T: DeserializeOwned>(kind: &str, data: &RawValue, wrap: fn(T) -> Body) -> Body {
    serde_json::from_str(data.get())
        .map_or_else(|_| Body::Unknown { kind: kind.to_owned(), data: data.to_owned() }, wrap)
}

bodies! {
    /// Always the first event.
    "session.created" => SessionCreated,
    "session.named" => SessionNamed,
    "session.started" => SessionStarted,
    /// The plan that was printed, and what had been left open.
    "session.resumed" => SessionResumed,
    "session.stopped" => SessionStopped,
    /// A torn tail was cut off, or a damaged journal was cut back to what is certain.
    "journal.repaired" => JournalRepaired,
    "turn.started" => TurnStarted,
    "turn.ended" => TurnEnded,
    "model.called" => ModelCalled,
    "model.failed" => ModelFailed,
    "text.written" => TextWritten,
    "thinking.written" => ThinkingWritten,
    "tool.called" => ToolCalled,
    /// Seals the steps before it: the reply is whole.
    "model.replied" => ModelReplied,
    "tool.started" => ToolStarted,
    "tool.returned" => ToolReturned,
    "proof.started" => ProofStarted,
    "proof.returned" => ProofReturned,
    /// A vendor's program is about to run. What it calls its session is here where we could choose it.
    "agent.started" => AgentStarted,
    /// What the vendor's program said of itself, once it had.
    "agent.introduced" => AgentIntroduced,
    "agent.exited" => AgentExited,
    /// Tokens of a vendor's model calls; Segue's own are counted by `model.replied`.
    "usage.reported" => UsageReported,
    /// How much of the account's allowance is used, where the vendor tells.
    "quota.told" => QuotaTold,
    "limit.hit" => LimitHit,
    /// The work was handed to another agent.
    "agent.changed" => AgentChanged,
    "progress.reported" => ProgressReported,
    "packet.written" => PacketWritten,
    "checkpoint.taken" => CheckpointTaken,
    "checkpoint.skipped" => CheckpointSkipped,
    /// Files are about to be brought back.
    "rewind.started" => RewindStarted,
    "rewind.finished" => RewindFinished,
    "worktree.planned" => WorktreePlanned,
    "worktree.made" => WorktreeMade,
    /// A replay is no longer answered from its recording.
    "replay.ended" => ReplayEnded,
    /// The reviewers are about to be asked.
    "review.started" => ReviewStarted,
    /// In a reviewer's own journal.
    "verdict.submitted" => VerdictSubmitted,
    "verdict.given" => VerdictGiven,
    "reviewer.stopped" => ReviewerStopped,
    "done.signalled" => DoneSignalled,
    "work.committed" => WorkCommitted,
    "work.accepted" => WorkAccepted,
    /// The list, as it was found when the session was made or resumed.
    "tasks.read" => TasksRead,
    "task.started" => TaskStarted,
    "task.failed" => TaskFailed,
    /// The worker calls its task done.
    "case.submitted" => CaseSubmitted,
    "message.sent" => MessageSent,
    "message.delivered" => MessageDelivered,
    /// About to be typed into a member's terminal.
    "message.posted" => MessagePosted,
    /// A dead letter.
    "message.failed" => MessageFailed,
    /// The crew is to be at work, as its roster says.
    "crew.raised" => CrewRaised,
    "crew.ending" => CrewEnding,
    "member.joined" => MemberJoined,
    "member.left" => MemberLeft,
    "member.starting" => MemberStarting,
    "member.started" => MemberStarted,
    "member.identified" => MemberIdentified,
    "member.seen" => MemberSeen,
    "member.ended" => MemberEnded,
    /// Because somebody wants that.
    "member.restarted" => MemberRestarted,
    "timer.fired" => TimerFired,
    /// What a turn is compared with, so that whoever takes the watcher's place can.
    "scope.opened" => ScopeOpened,
    "scope.closed" => ScopeClosed,
    "scope.broken" => ScopeBroken,
    /// Something a person should know, which stopped nothing.
    "warning.raised" => WarningRaised,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JournalRepaired {
    /// How many bytes were taken off the end.
    pub bytes: u64,
    /// The file in the session directory that keeps them.
    pub kept_in: String,
}

/// What the file begins with that keeps an unfinished write.
pub const TORN: &str = "journal.torn-";

impl JournalRepaired {
    /// Whether whole events are gone, and not only one that was never written to its end: nothing has
    /// followed from that one.
    #[must_use]
    pub fn lost_events(&self) -> bool {
        !self.kept_in.starts_with(TORN)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitHit {
    pub message: String,
    /// The vendor's word for the allowance that is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub resets_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarningRaised {
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_kind_from_the_future_is_kept_as_it_is() {
        let body = Body::read("moon.landed", &raw(r#"{"on": "foot"}"#));
        assert_eq!(body.kind(), "moon.landed");
        assert_eq!(body.data().unwrap().get(), r#"{"on": "foot"}"#);
    }

    #[test]
    fn a_known_kind_of_another_shape_is_kept_too() {
        let body = Body::read("turn.ended", &raw("[1]"));
        assert!(matches!(body, Body::Unknown { .. }));
        assert_eq!(body.data().unwrap().get(), "[1]");
    }

    #[test]
    fn a_new_word_in_an_old_enum_is_unknown_and_a_new_field_is_skipped() {
        let body = Body::read("turn.ended", &raw(r#"{"outcome":"evaporated","extra":1}"#));
        let Body::TurnEnded(ended) = body else { panic!("{body:?}") };
        assert_eq!(ended.outcome, Outcome::Unknown);
    }

    #[test]
    fn every_kind_is_two_words_and_stands_once() {
        let mut kinds = Body::KINDS.to_vec();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), Body::KINDS.len());
        assert!(kinds.iter().all(|kind| kind.split('.').count() == 2), "{kinds:?}");
    }
}
