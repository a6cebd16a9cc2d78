//! `segue watch`: follow a session live, from another terminal.

use std::{thread, time::Duration};

use segue_core::{Event, Exit, State};
use segue_journal::tail::Tail;
use segue_runner::Interrupt;
use segue_view::{
    json::event_json,
    render::{Detail, event_line},
};

use crate::{
    context::{Context, print, say},
    error::CommandResult,
};

const LOOK: Duration = Duration::from_millis(50);

/// After so many looks without an event, it is checked whether the writer still lives.
const LOOKS_BEFORE_PROBE: u32 = 20;

/// Follow a session live, from another terminal
///
/// Ends when the session stops. Ctrl-C ends the watching, not the session.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue watch                       the latest session of this repository
  segue watch 7 --json")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: Option<String>,
    /// How many events from before are shown first
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    last: usize,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let found = context.find(args.session.as_deref())?;
    let session = found.open(&context.home)?;
    let interrupt = Interrupt::install()?;
    let style = context.out();
    let show = |event: &Event| {
        if context.json {
            print(&event_json(event).to_string());
        } else if let Some(line) = event_line(event, &style, Detail::Full) {
            print(&line);
        }
    };
    let mut events: Vec<Event> = session.newest_first()?.take(args.last).collect();
    events.reverse();
    events.iter().for_each(show);
    let mut state = session.state().clone();
    let mut tail = Tail::new(&**context.home.disk(), session.dir(), session.position())?;
    let mut quiet = LOOKS_BEFORE_PROBE;
    loop {
        for event in tail.new_events()? {
            state.apply(&event);
            show(&event);
            quiet = 0;
        }
        if let Some(signal) = interrupt.signal() {
            return Ok(Exit::Interrupted(signal));
        }
        if quiet >= LOOKS_BEFORE_PROBE {
            quiet = 0;
            if session.held_by()?.is_none() {
                // What was written between the last look and the end of the writer.
                for event in tail.new_events()? {
                    state.apply(&event);
                    show(&event);
                }
                return Ok(over(context, &state, &found.selector()));
            }
        }
        quiet += 1;
        thread::sleep(LOOK);
    }
}

fn over(context: &Context, state: &State, selector: &str) -> Exit {
    if !context.json && state.stop.is_none() {
        say("nobody works on this session now, and it did not stop; to go on with it:");
        say(&format!("segue resume {selector}"));
    }
    Exit::Done
}
