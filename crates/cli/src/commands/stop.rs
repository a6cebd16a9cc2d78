//! `segue stop`: bring a session that is at work to a recorded stop.

use std::{
    thread,
    time::{Duration, Instant},
};

use segue_core::{Exit, State, status::Status};
use segue_journal::{
    Session,
    lock::{self, Holder},
};
use segue_runner::process;
use segue_view::{
    select::Found,
    show::advice,
    style::{self, Paint},
};
use serde_json::json;

use crate::{
    commands::crew,
    config::parse_duration,
    context::{Context, say},
    error::{CommandError, CommandResult},
    observe::Watcher,
};

const LOOK: Duration = Duration::from_millis(50);

/// Stop a session that is at work, so that it can be resumed
///
/// Whoever works on it is asked as Ctrl-C would: it records where it stands, and ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue stop                        the latest session of this repository
  segue stop 7 --wait 5m")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: Option<String>,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    wait: Duration,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let found = context.find(args.session.as_deref())?;
    let selector = found.selector();
    let session = found.open(&context.home)?;
    if crew::is_crew(&session) {
        return crew::take_down(context, &crew::Down::of(selector, args.wait));
    }
    let Some(holder) = session.held_by()? else {
        return tell(context, &session, &selector, false);
    };
    ask(context, &session, &selector, &holder)?;
    if !has_let_go(context, &session, &holder, args.wait)? {
        return Err(CommandError::failed(format!(
            "session {selector} has not stopped within {}: {holder} was asked to",
            style::duration(args.wait)
        ))
        .hint(format!("look what it does: segue watch {selector}"))
        .hint(format!("end it at once, which can be resumed as well: segue stop {selector}")));
    }
    tell(context, &reopen(context, &found)?, &selector, true)
}

fn reopen(context: &Context, found: &Found) -> Result<Session, CommandError> {
    Ok(found.open(&context.home)?)
}

fn ask(
    context: &Context,
    session: &Session,
    selector: &str,
    holder: &Holder,
) -> Result<(), CommandError> {
    if holder.host != context.me().host && holder.pid != 0 {
        let where_it_is = style::sanitize(&holder.host).into_owned();
        return Err(CommandError::new(
            Exit::Busy,
            format!("session {selector} is at work on another machine: {holder}"),
        )
        .hint(format!("there: segue stop {selector} (on {where_it_is})")));
    }
    match process::interrupt_holder(holder.pid, &session.dir().join(lock::FILE)) {
        Ok(true) => Ok(()),
        // It has ended in the meantime, or never was the one that it said.
        Ok(false) if session.held_by()?.as_ref() != Some(holder) => Ok(()),
        Ok(false) => Err(CommandError::new(
            Exit::Busy,
            format!("session {selector} is in use, and {holder} is not the one that has it"),
        )
        .hint("it may run in another container that shares these files: stop it there")),
        Err(error) => Err(CommandError::failed(format!("{holder} can't be asked: {error}"))),
    }
}

/// Waits until the one that was asked has let the session go.
fn has_let_go(
    context: &Context,
    session: &Session,
    asked: &Holder,
    limit: Duration,
) -> Result<bool, CommandError> {
    let started = Instant::now();
    let mut watcher = Watcher::new(context);
    let let_go = loop {
        if session.held_by()?.as_ref() != Some(asked) {
            break true;
        }
        if started.elapsed() >= limit {
            break false;
        }
        watcher.stopping();
        thread::sleep(LOOK);
    };
    watcher.wipe();
    Ok(let_go)
}

fn tell(context: &Context, session: &Session, selector: &str, was_at_work: bool) -> CommandResult {
    let state = session.state();
    let status = Status::of(state, false);
    let next = advice(status, state, selector);
    if context.json {
        let stop = state.stop.as_ref();
        context.print_json(&json!({
            "session": selector, "was_running": was_at_work, "status": status.to_string(),
            "reason": stop.map(|stop| stop.reason), "message": stop.map(|stop| &stop.message),
            "turns": state.turn.number, "next": next, "dir": session.dir(),
        }))?;
        return Ok(Exit::Done);
    }
    let look = context.err();
    let what = recorded(state, status);
    match was_at_work {
        true => {
            let sign = look.paint(Paint::Yellow, "■");
            say(&format!("{sign} session {selector} has stopped: {what}"));
        }
        false => say(&format!("nobody works on session {selector}: {what}")),
    }
    say(&next);
    Ok(Exit::Done)
}

/// How the session stands, as its journal has it.
fn recorded(state: &State, status: Status) -> String {
    let turns = style::count(state.turn.number.into(), "turn");
    match &state.stop {
        Some(stop) if !stop.message.is_empty() => {
            format!("{status} · {} · {turns}", style::sanitize(&stop.message))
        }
        _ => format!("{status} · {turns}"),
    }
}
