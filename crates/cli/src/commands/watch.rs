//! `segue watch`: follow a session live, from another terminal.

mod face;

use std::{io::IsTerminal, path::Path, thread, time::Duration};

use segue_core::{Event, Exit, State, selector::Selector, state::Phase};
use segue_journal::{session::JOURNAL, tail::Tail};
use segue_runner::Interrupt;
use segue_view::select::Found;

use self::face::Face;
use crate::{
    context::{Context, say},
    error::{CommandError, CommandResult},
};

const LOOK: Duration = Duration::from_millis(50);

/// How often it is looked whether a pane has its width.
const SETTLE_LOOKS: u32 = 5;

/// After so many looks without an event, it is checked whether the writer still lives.
const LOOKS_BEFORE_PROBE: u32 = 20;

/// How many events from before are shown first: enough to fill a screen, where it is to stay.
const LAST: usize = 10;
const LAST_TO_STAY: usize = 200;

/// Follow a session live, from another terminal
///
/// Ends when the session stops. Ctrl-C ends the watching, not the session.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue watch                       the latest session of this repository
  segue watch 7 --json
  segue watch 7 --status            how it stands, in a few lines
  segue watch 7 --stay              across stops and resumes, until Ctrl-C")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: Option<String>,
    /// How many events from before are shown first [default: 10, with --stay 200]
    #[arg(long, short = 'n', value_name = "N")]
    last: Option<usize>,
    /// Go on after a stop, and wait for a directory that is not there yet
    #[arg(long)]
    stay: bool,
    /// Show how the session stands instead of what happens
    #[arg(long)]
    status: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let interrupt = Interrupt::install()?;
    loop {
        let found = match find(context, args, &interrupt)? {
            Search::Found(found) => found,
            Search::Interrupted(signal) => return Ok(Exit::Interrupted(signal)),
        };
        if let Some(exit) = follow(context, args, &found, &interrupt)? {
            return Ok(exit);
        }
    }
}

enum Search {
    Found(Found),
    Interrupted(u8),
}

/// The session, once it is there.
fn find(context: &Context, args: &Args, interrupt: &Interrupt) -> Result<Search, CommandError> {
    let text = args.session.as_deref();
    let path = match Selector::parse(text.unwrap_or_default()) {
        Selector::Path(path) if args.stay => path,
        _ => return context.find(text).map(Search::Found),
    };
    let mut said = false;
    while !is_session(&path) {
        if let Some(signal) = interrupt.signal() {
            return Ok(Search::Interrupted(signal));
        }
        if !said && !context.json {
            let name = path.file_name().unwrap_or(path.as_os_str()).display().to_string();
            say(&format!("waiting for {} to begin", segue_view::style::sanitize(&name)));
            said = true;
        }
        thread::sleep(LOOK);
    }
    context.find(text).map(Search::Found)
}

fn is_session(path: &Path) -> bool {
    path.is_file() || path.join(JOURNAL).is_file()
}

/// Follows a session to its end; `None` where it was taken away, and may come again.
fn follow(
    context: &Context,
    args: &Args,
    found: &Found,
    interrupt: &Interrupt,
) -> Result<Option<Exit>, CommandError> {
    let session = found.open(&context.home)?;
    let mut face = Face::new(context, args.status, args.stay, found);
    if args.stay {
        settle(context);
    }
    let last = args.last.unwrap_or(if args.stay { LAST_TO_STAY } else { LAST });
    let mut events: Vec<Event> = session.newest_first()?.take(last).collect();
    events.reverse();
    events.iter().for_each(|event| face.event(event, &session));
    let mut state = session.state().clone();
    let mut tail = Tail::new(&**context.home.disk(), session.dir(), session.position())?;
    let mut quiet = LOOKS_BEFORE_PROBE;
    let mut alive = true;
    loop {
        for event in tail.new_events()? {
            state.apply(&event);
            face.event(&event, &session);
            quiet = 0;
        }
        if let Some(signal) = interrupt.signal() {
            return Ok(Some(Exit::Interrupted(signal)));
        }
        if quiet >= LOOKS_BEFORE_PROBE {
            quiet = 0;
            let was_alive = std::mem::replace(&mut alive, session.held_by()?.is_some());
            if !alive {
                // What was written between the last look and the end of the writer.
                for event in tail.new_events()? {
                    state.apply(&event);
                    face.event(&event, &session);
                }
            }
            if !alive && was_alive {
                face.draw(&state, alive);
                over(context, args, &state, &found.selector());
            }
            if !alive && !args.stay {
                return Ok(Some(Exit::Done));
            }
            if !session.dir().join(JOURNAL).exists() {
                return Ok(None);
            }
        }
        face.draw(&state, alive);
        quiet += 1;
        thread::sleep(LOOK);
    }
}

/// A pane that was just made gets its width when those beside it are made: what is printed before
/// would be broken at the wrong place.
fn settle(context: &Context) {
    if !std::io::stdout().is_terminal() {
        return;
    }
    let mut width = context.out().width;
    for _ in 0..SETTLE_LOOKS {
        thread::sleep(LOOK * 4);
        let now = context.out().width;
        if std::mem::replace(&mut width, now) == now {
            return;
        }
    }
}

fn over(context: &Context, args: &Args, state: &State, selector: &str) {
    // A reviewer goes on with the session that it is a part of.
    if context.json || args.status || state.stop.is_some() || state.is_part() {
        return;
    }
    match state.phase {
        Phase::Created if args.stay => say("nobody has begun with this session yet; to begin:"),
        _ => say("nobody works on this session now, and it did not stop; to go on with it:"),
    }
    say(&format!("segue resume {selector}"));
}
