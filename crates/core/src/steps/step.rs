//! One step: what it is, what it says, and what it cost.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StepId;
use crate::{
    event::ToolStatus,
    payload::Payload,
    usage::{Micros, Usage},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// What an agent was asked.
    Prompt,
    /// What it answered: its words and the calls that it wants made.
    Reply,
    /// What one of these calls gave.
    Tool,
    /// What the proof said.
    Proof,
    /// A reviewer's verdict.
    Verdict,
    /// Somebody else goes on.
    HandOff,
    /// The model could not be asked, or did not answer.
    Error,
}

impl StepKind {
    pub const ALL: [Self; 7] = [
        Self::Prompt,
        Self::Reply,
        Self::Tool,
        Self::Proof,
        Self::Verdict,
        Self::HandOff,
        Self::Error,
    ];

    /// The word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Reply => "reply",
            Self::Tool => "tool",
            Self::Proof => "proof",
            Self::Verdict => "verdict",
            Self::HandOff => "hand-off",
            Self::Error => "error",
        }
    }
}

/// A part of what a step says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Text(Payload),
    /// The signature is what the vendor wants back with the next request.
    Thinking {
        text: Payload,
        signature: Option<Payload>,
    },
    Call {
        id: String,
        name: String,
        input: Payload,
    },
    Result {
        id: String,
        name: String,
        input: Option<Payload>,
        status: ToolStatus,
        exit: Option<i32>,
        output: Payload,
        touched: Vec<String>,
    },
}

/// One step of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its place in the order in which the steps happened, from 0 on.
    pub index: u64,
    pub id: StepId,
    pub parents: Vec<StepId>,
    pub kind: StepKind,
    pub turn: u32,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub said: Vec<Said>,
    /// Nothing is under way after it: a conversation can be cut here.
    pub whole: bool,
    /// How many of the steps up to this one the next one follows from.
    pub batch: u32,
    /// The last event that it is made of.
    pub seq: u64,
    /// When it began, and when it ended.
    pub began: Timestamp,
    pub at: Timestamp,
    pub usage: Usage,
    /// Absent where the price is not known.
    pub cost: Option<Micros>,
}

impl Step {
    /// What it says first, in so far as no blob has to be opened for it.
    #[must_use]
    pub fn title(&self) -> String {
        let words = self.said.iter().find_map(|said| match said {
            Said::Text(text) => Some(text.head().to_owned()),
            Said::Result { name, input, .. } if !name.is_empty() => {
                Some(format!("{name} {}", input.as_ref().map_or("", Payload::head)))
            }
            Said::Result { output, .. } => Some(output.head().to_owned()),
            _ => None,
        });
        let calls = self.said.iter().filter_map(|said| match said {
            Said::Call { name, .. } => Some(name.as_str()),
            _ => None,
        });
        let calls: Vec<&str> = calls.collect();
        match (words, calls.is_empty()) {
            (Some(words), _) => words,
            (None, false) => format!("calls {}", calls.join(", ")),
            (None, true) => String::new(),
        }
    }

    #[must_use]
    pub fn millis(&self) -> u64 {
        u64::try_from(self.at.duration_since(self.began).as_millis()).unwrap_or(0)
    }
}
