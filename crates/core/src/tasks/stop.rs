//! Why a run over a list stands still, in the one word that a plan and a commit say.

use crate::{
    caps::Cap,
    event::{Reason, SessionStopped},
};

/// The word for a task whose text has changed since it was begun.
pub const EDITED: &str = "edited";

/// A stop, in a word.
#[must_use]
pub fn word(stop: &SessionStopped) -> &'static str {
    match (stop.reason, stop.cap) {
        (Reason::Done, _) => "all_done",
        (Reason::Cap, Some(Cap::Iterations)) => "iter_cap",
        (Reason::Cap, Some(Cap::Reviews)) => "evaluator_cap",
        (Reason::Cap, Some(Cap::Steps)) => "step_cap",
        (Reason::Cap, Some(Cap::Turns)) => "turn_cap",
        (Reason::Cap, Some(Cap::WallClock)) => "wall_clock",
        (Reason::Cap, Some(Cap::Tokens)) => "token_cap",
        (Reason::Cap, Some(Cap::Cost)) => "cost_cap",
        (Reason::NoCase, _) => "no_case",
        (Reason::Empty, _) => "empty_responses",
        (Reason::Looping, _) => "looping",
        (Reason::Refused, _) => "refused",
        (Reason::Interrupted, _) => "interrupted",
        (Reason::HandedOff, _) => "handed_off",
        (Reason::Limit, _) => "limit",
        (Reason::Discarded, _) => "discarded",
        (Reason::Overloaded | Reason::Unreachable | Reason::StreamCut, _) => "provider_failure",
        _ => "error",
    }
}

/// Whether a stop is the failure of the task in hand. Everything else leaves the task as it was, to
/// be gone on with.
#[must_use]
pub fn fails_the_task(stop: &SessionStopped) -> bool {
    match stop.reason {
        Reason::Cap => {
            matches!(stop.cap, Some(Cap::Iterations | Cap::Reviews | Cap::Steps))
        }
        Reason::NoCase | Reason::Empty | Reason::Looping | Reason::Refused => true,
        _ => false,
    }
}
