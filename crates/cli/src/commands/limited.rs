//! A session whose agent is at its limit: when that is over, and waiting until it is.

use std::time::Duration;

use jiff::Timestamp;
use segue_core::{Exit, event::Reason};
use segue_journal::{Session, lock::Lock};
use segue_runner::Interrupt;
use segue_view::style;

use crate::{
    commands::go_on::Request,
    context::{Context, say},
    error::CommandError,
    observe::Watcher,
};

/// How often a wait looks at the clock, and whether it was asked to end.
const LOOK: Duration = Duration::from_millis(100);

pub(super) fn still_limited(
    context: &Context,
    agent: &str,
    resets_at: Option<Timestamp>,
    selector: &str,
) -> CommandError {
    let when = resets_at.map(|at| format!(", and resets {}", style::relative(at, context.now())));
    let when = when.unwrap_or_default();
    CommandError::new(Exit::Stopped, format!("{agent} is at its limit{when}"))
        .hint(format!("try it all the same: segue resume {selector} --with {agent} --now"))
        .hint("segue agents shows who can work")
}

/// A limit that has not reset yet: say when, wait, or go on all the same.
pub(super) fn limited(
    context: &Context,
    session: &Session,
    selector: &str,
    asked: &Request,
    agent: &str,
    interrupt: &Interrupt,
) -> Result<Option<Exit>, CommandError> {
    let state = session.state();
    let Some(stop) = state.stop.as_ref().filter(|stop| stop.reason == Reason::Limit) else {
        return Ok(None);
    };
    // The limit is that of whoever ran into it, and of their model.
    let theirs = state.stopped_agent.as_deref() == Some(agent) && asked.model.is_none();
    // A reviewer's limit stays a reviewer's, whoever works.
    let reviewer = stop.agent.clone();
    if (!theirs && reviewer.is_none()) || asked.now {
        return Ok(None);
    }
    let Some(at) = stop.resets_at.filter(|at| *at > context.now()) else { return Ok(None) };
    if asked.wait && asked.tmux {
        // That is for the one in the background.
        return Ok(None);
    }
    if asked.wait {
        // Whoever asks is to know that somebody is at it.
        let _lock = Lock::take(&**context.home.disk(), session.dir(), &context.me())?;
        let signal = wait_until(context, at, interrupt);
        return Ok(signal.map(|signal| {
            say(&format!("segue resume {selector} --wait"));
            Exit::Interrupted(signal)
        }));
    }
    let when = style::relative(at, context.now());
    let in_place =
        if reviewer.is_some() { "let another one review" } else { "hand it to another agent" };
    let agent = reviewer.map_or_else(|| agent.to_owned(), |who| format!("{who}, a reviewer,"));
    let what = format!("the limit of {agent} resets {when}");
    if context.json {
        return Err(
            CommandError::new(Exit::Stopped, what).hint(format!("segue resume {selector} --wait"))
        );
    }
    say(&format!("■ {what}: nothing was done"));
    say(&format!("  {in_place} now: segue resume {selector} --with AGENT"));
    say(&format!("  try all the same: segue resume {selector} --now"));
    say(&format!("segue resume {selector} --wait"));
    Ok(Some(Exit::Stopped))
}

/// Counts down until a limit is over. Returns the signal that came first.
fn wait_until(context: &Context, at: Timestamp, interrupt: &Interrupt) -> Option<u8> {
    let mut watcher = Watcher::new(context);
    say(&format!("  waiting   until the limit resets, {}", context.err().date_and_time(at)));
    while at > context.now() {
        if let Some(signal) = interrupt.signal() {
            watcher.wipe();
            return Some(signal);
        }
        let left = Duration::try_from(at.duration_since(context.now())).unwrap_or_default();
        watcher.count_down(left);
        std::thread::sleep(LOOK.min(left));
    }
    watcher.wipe();
    None
}
