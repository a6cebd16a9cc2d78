//! A replay that runs again: what the model is told besides the conversation, and where the
//! recording was left.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{identity::Accounts, payload::Payload, steps::StepId};

/// What a model is told besides the conversation. Nothing in it is of the time or the place: for the
/// path of the workspace stands `{root}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Told {
    pub system: Payload,
    /// The tools that it was offered, as JSON.
    pub tools: Payload,
}

impl Told {
    /// What both are known by: 64 hex digits.
    #[must_use]
    pub fn digest(&self) -> String {
        let both = [&self.system, &self.tools].map(Payload::digest);
        blake3::hash(both.join(" ").as_bytes()).to_hex().to_string()
    }
}

/// The session is no longer answered from the recording of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayEnded {
    pub why: ReplayEnd,
    /// The first step that is not from the recording, counted as the recording counts.
    pub step: u64,
    /// The recorded step that is not taken; where the recording ends, the last one that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<StepId>,
    /// For people: the first thing that is not as it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
    /// For people: what the files are from here on.
    pub files: String,
    /// What the model is told of the files, where they are not those of this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Payload>,
    /// How many replies were taken from the recording, and what they cost then.
    pub replies: u64,
    pub reused: Accounts,
}

impl fmt::Display for ReplayEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id.map(|id| format!(" ({})", id.short())).unwrap_or_default();
        let step = self.step;
        match (self.why, step.checked_sub(1)) {
            (ReplayEnd::Complete, Some(last)) => {
                write!(f, "everything is from the recording, up to step {last}{id}")
            }
            (ReplayEnd::Drifted, _) => {
                write!(f, "the recording is left at step {step}{id}")?;
                self.differs.iter().try_for_each(|differs| write!(f, ": {differs}"))
            }
            (_, None) => write!(f, "the recording has no step"),
            (_, Some(last)) => write!(f, "the recording ends after step {last}{id}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayEnd {
    /// Something else would be asked than what was asked then.
    Drifted,
    /// Nothing more is recorded, and the work is not done.
    Exhausted,
    /// All of it was taken from the recording, and the work is done.
    Complete,
    #[serde(other)]
    Unknown,
}
