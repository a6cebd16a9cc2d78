//! `segue log`: what happened in a session, event by event or step by step.

use std::collections::VecDeque;

use segue_core::{Event, Exit, identity::Base, steps::Step};
use segue_journal::{Session, repair, scan::Ending};
use segue_loops::branch;
use segue_view::{
    json::event_json,
    render::{Detail, event_line},
    row::problem_of,
    steps::{StepJson, StepList},
};

use crate::{
    commands::{
        fork::{branch_error, step_word},
        import,
        verify::describe,
    },
    context::{Context, print, say},
    error::CommandResult,
};

/// Show what happened, event by event
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue log                         the latest session of this repository
  segue log 7 -n 20                 its last 20 events
  segue log 7 --steps               its steps: what was asked, answered, done, and what it cost
  segue log 7 --steps --up-to main  only what the conversation consists of
  segue log 7 --json | jq -c 'select(.kind == \"tool.called\")'")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, a .tine or .segue file, or @latest
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
    /// With --steps: only those that lead to this one, without what a rewind left behind
    #[arg(long, value_name = "STEP", requires = "steps")]
    up_to: Option<String>,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let found = import::find(context, args.session.as_deref())?;
    let session = found.open(&context.home)?;
    if args.steps {
        let wrong = |error| branch_error(error, &found.selector());
        let up_to = step_word(context, &session, args.up_to.as_deref())?;
        let base =
            up_to.as_deref().map(|step| branch::base_of(&session, Some(step)).map_err(wrong));
        return print_steps(context, &session, args.last, base.transpose()?.as_ref());
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
    let line = |mut event: Event| match context.json {
        true => Some(event_json(&event).to_string()),
        false => {
            event.agent = event.agent.map(|agent| session.name_of(&agent).to_owned());
            event_line(&event, &style, detail)
        }
    };
    let mut seen = 0;
    let whole = match last {
        // Read from the end: the cost is that of what is shown, not of what was before.
        Some(last) => {
            let events = session.newest_first()?.inspect(|event| seen = event.seq);
            let mut lines: Vec<String> = events.filter_map(line).take(last).collect();
            lines.reverse();
            lines.iter().for_each(|line| print(line));
            lines.len() == last || seen == 1
        }
        None => {
            session.for_each(|event| {
                seen = event.seq;
                line(event).iter().for_each(|line| print(line));
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

fn print_steps(
    context: &Context,
    session: &Session,
    last: Option<usize>,
    base: Option<&Base>,
) -> CommandResult {
    let style = context.out();
    let list = StepList::new(&style);
    let mut seen = 0;
    let mut show = |&(ref step, left): &(Step, bool)| {
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
    let each = |each: &mut dyn FnMut((Step, bool))| {
        session.told(|step, mark| {
            if base.is_none_or(|base| mark.is_of(base)) {
                each((step, !session.state().on_path(mark.turn)));
            }
        })
    };
    match last {
        Some(last) => {
            let mut steps = VecDeque::new();
            each(&mut |step| {
                any = true;
                steps.push_back(step);
                if steps.len() > last {
                    steps.pop_front();
                }
            })?;
            steps.iter().for_each(show);
        }
        None => each(&mut |step| {
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
