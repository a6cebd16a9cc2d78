//! `segue log`: what happened in a session, event by event or step by step.

use std::collections::VecDeque;

use segue_core::{
    Event, Exit,
    steps::{Branches, Path, Step},
};
use segue_journal::{Session, repair, scan::Ending};
use segue_view::{
    json::event_json,
    render::{Detail, event_line},
    row::problem_of,
    steps::{StepJson, StepList},
};

use crate::{
    commands::verify::describe,
    context::{Context, print, say},
    error::CommandResult,
};

/// Show what happened, event by event
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue log                         the latest session of this repository
  segue log 7 -n 20                 its last 20 events
  segue log 7 --steps               its steps: what was asked, answered, done, and what it cost
  segue log 7 --json | jq -c 'select(.kind == \"tool.called\")'")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: Option<String>,
    /// Only the last so many events, or steps
    #[arg(long, short = 'n', value_name = "N")]
    last: Option<usize>,
    /// With times, and with the events that only matter to Segue
    #[arg(long, short)]
    verbose: bool,
    /// Step by step: each prompt, reply, tool answer and proof, with its id and what it cost
    #[arg(long, conflicts_with = "verbose")]
    steps: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let session = context.find(args.session.as_deref())?.open(&context.home)?;
    if args.steps {
        return print_steps(context, &session, args.last);
    }
    print_log(context, &session, args.last, args.verbose)
}

/// The log of a session in this directory.
pub(super) fn show(
    context: &Context,
    dir: &str,
    last: Option<usize>,
    verbose: bool,
) -> CommandResult {
    let session = context.find(Some(dir))?.open(&context.home)?;
    print_log(context, &session, last, verbose)
}

fn print_log(
    context: &Context,
    session: &Session,
    last: Option<usize>,
    verbose: bool,
) -> CommandResult {
    let style = context.out();
    let detail = if verbose { Detail::Full } else { Detail::Short };
    let show = |event: &Event| {
        if context.json {
            print(&event_json(event).to_string());
        } else if let Some(line) = event_line(event, &style, detail) {
            print(&line);
        }
    };
    let whole = match last {
        // Read from the end: the cost is that of what is shown, not of what was before.
        Some(last) => {
            let mut events: Vec<Event> = session.newest_first()?.take(last).collect();
            events.reverse();
            events.iter().for_each(show);
            events.len() == last || events.first().is_some_and(|event| event.seq == 1)
        }
        None => {
            let mut seen = 0;
            session.for_each(|event| {
                seen = event.seq;
                show(&event);
            })?;
            seen == session.state().seq
        }
    };
    let problem = match session.ending() {
        Ending::Clean if whole => None,
        // The snapshot bridges a broken line that a look at every line meets.
        Ending::Clean => repair::verify(session)?.problems.first().map(describe),
        _ => problem_of(session),
    };
    if let Some(problem) = problem {
        say(&format!("note: {problem}"));
    }
    Ok(Exit::Done)
}

fn print_steps(context: &Context, session: &Session, last: Option<usize>) -> CommandResult {
    let style = context.out();
    let list = StepList::new(&style);
    let path = left_behind(session)?;
    let mut seen = 0;
    let mut show = |step: &Step| {
        let left = path.as_ref().is_some_and(|path| !path.has(step.index));
        if context.json {
            let json = serde_json::to_string(&StepJson::of(step, left)).unwrap_or_default();
            return print(&json);
        }
        if seen == 0 {
            print(&list.head());
        }
        seen += 1;
        print(&list.line(step, left));
    };
    let mut any = false;
    match last {
        Some(last) => {
            let mut steps = VecDeque::new();
            session.steps(|step| {
                any = true;
                steps.push_back(step);
                if steps.len() > last {
                    steps.pop_front();
                }
            })?;
            steps.iter().for_each(show);
        }
        None => session.steps(|step| {
            any = true;
            show(&step);
        })?,
    }
    if !any && !context.json {
        say("there is no step yet");
    }
    if let Some(problem) = problem_of(session) {
        say(&format!("note: {problem}"));
    }
    Ok(Exit::Done)
}

/// What the conversation consists of, where it is not simply all.
fn left_behind(session: &Session) -> Result<Option<Path>, segue_journal::Error> {
    // Only a rewind leaves something behind: without one, nothing has to be read twice.
    if session.state().rewind.path.is_none() {
        return Ok(None);
    }
    let mut branches = Branches::default();
    session.steps(|step| branches.offer(&step))?;
    Ok(Some(branches.finish(session.state().last_turn())))
}
