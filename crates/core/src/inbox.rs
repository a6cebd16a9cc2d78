//! What reaches a session from outside while another process writes it: one file each in `inbox/`,
//! taken in by the writer and recorded as an event of the same id.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{CaseSubmitted, ProgressReported, VerdictSubmitted};

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Message {
    /// The agent called the `checkpoint` tool.
    Report { turn: u32, agent: String, report: ProgressReported },
    /// A reviewer called the `submit_verdict` tool.
    Verdict { turn: u32, agent: String, said: VerdictSubmitted },
    /// A worker called the `submit_case` tool.
    Case { turn: u32, agent: String, case: CaseSubmitted },
    /// One participant, or a person, has something to say to another.
    Said {
        from: String,
        to: String,
        text: String,
        /// Tells equal words apart that were meant to be said twice.
        occasion: u64,
    },
    /// Hand the work to another agent at the end of this turn.
    HandOff {
        to: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        reason: String,
    },
    /// Something is wanted of a crew.
    Crew { order: Control },
    /// Stop at the end of this turn, with a packet for whoever goes on.
    Stop { reason: String },
    #[serde(other)]
    Unknown,
}

/// What can be wanted of a crew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Control {
    /// End everybody. All can be brought back.
    Down,
    /// One more of a role, under this name.
    Add {
        member: String,
        role: String,
    },
    Remove {
        member: String,
    },
    /// End it and start it again, where it was or from its prompt on.
    Restart {
        member: String,
        #[serde(default)]
        fresh: bool,
    },
    /// Break off what it does.
    Interrupt {
        member: String,
    },
    /// Somebody wants a person to look.
    Attention {
        from: String,
        text: String,
    },
    #[serde(other)]
    Unknown,
}
