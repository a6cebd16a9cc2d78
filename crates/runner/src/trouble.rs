//! From what went wrong to the stop that it is: the same for every agent.

use jiff::Timestamp;
use segue_agents::native::ModelError;
use segue_core::event::{Failure, LimitHit, Reason, SessionStopped};

use crate::supervisor::{Halt, Supervisor, stop};

/// The journal's word for an error.
#[must_use]
pub fn failure(error: &ModelError) -> Failure {
    match error {
        ModelError::Limit { .. } => Failure::Limit,
        ModelError::Overloaded { .. } => Failure::Overloaded,
        ModelError::Server { .. } => Failure::Server,
        ModelError::Network(_) => Failure::Network,
        ModelError::StreamCut(_) => Failure::StreamCut,
        ModelError::ContextExhausted(_) => Failure::ContextExhausted,
        ModelError::NotSignedIn { .. } => Failure::NotSignedIn,
        ModelError::BadRequest { .. } => Failure::BadRequest,
        ModelError::Cancelled => Failure::Cancelled,
        ModelError::Script { .. } => Failure::Script,
        ModelError::SessionGone(_) => Failure::SessionGone,
        _ => Failure::Unknown,
    }
}

/// The stop for an error that trying again does not mend. A limit is recorded with its reset time;
/// `window` is the vendor's word for the allowance that is used up.
pub fn given_up(
    supervisor: &mut Supervisor<'_>,
    error: &ModelError,
    window: Option<String>,
) -> Result<SessionStopped, Halt> {
    let message = error.to_string();
    let hinted = |reason, hint: &str| SessionStopped {
        hint: Some(hint.to_owned()),
        ..stop(reason, message.clone())
    };
    Ok(match error {
        ModelError::Limit { resets_at, retry_after, message: said, .. } => {
            let later = retry_after.and_then(|wait| supervisor.now().checked_add(wait).ok());
            let resets_at = resets_at.or(later).and_then(|at| whole_second(at).ok());
            let hit = LimitHit { message: said.clone(), window, resets_at };
            let hit = supervisor.in_turn(hit);
            supervisor.note(hit)?;
            SessionStopped { resets_at, ..stop(Reason::Limit, message) }
        }
        ModelError::NotSignedIn { message, fix } => SessionStopped {
            hint: Some(fix.clone()),
            ..stop(Reason::NotSignedIn, format!("not signed in: {message}"))
        },
        ModelError::Overloaded { .. } | ModelError::Server { .. } => {
            hinted(Reason::Overloaded, "the model's server is busy or failing: go on in a while")
        }
        ModelError::Network(_) => hinted(Reason::Unreachable, "go on when the network is back"),
        ModelError::StreamCut(_) => stop(Reason::StreamCut, message),
        ModelError::ContextExhausted(_) => stop(Reason::ContextExhausted, message),
        ModelError::BadRequest { .. } | ModelError::Script { .. } => stop(Reason::Failed, message),
        _ => stop(Reason::AgentCrashed, message),
    })
}

/// The next whole second: finer than a limit is, and than a person wants to read.
fn whole_second(at: Timestamp) -> Result<Timestamp, jiff::Error> {
    Timestamp::from_second(at.as_second() + i64::from(at.subsec_nanosecond() > 0))
}

/// Spreads retries of several sessions; any number that differs between them will do.
pub(crate) fn jitter(supervisor: &Supervisor<'_>) -> f64 {
    f64::from(supervisor.now().subsec_microsecond().unsigned_abs() % 1000) / 1000.0
}

/// Counts how often the same call comes in a row.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    last: Option<(String, String)>,
    times: u32,
}

/// So many times the very same tool call in a row, and the agent goes round in circles.
const LOOPING: u32 = 12;

impl Repeated {
    /// One more call; a stop when it is one too many.
    pub(crate) fn again(&mut self, name: &str, input: &str) -> Option<SessionStopped> {
        let same = self.last.as_ref().is_some_and(|(n, i)| n == name && i == input);
        if !same {
            self.last = Some((name.to_owned(), input.to_owned()));
            self.times = 0;
        }
        self.times += 1;
        let message = || format!("the agent made the same call of {name} {LOOPING} times in a row");
        (self.times >= LOOPING).then(|| stop(Reason::Looping, message()))
    }
}
