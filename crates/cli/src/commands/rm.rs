//! `segue rm`: remove a session for good.

use segue_core::{Exit, state::Phase};
use segue_journal::home::Located;
use segue_loops::worktree::Leavings;
use segue_runner::tmux::Tmux;
use segue_view::{select::Found, style};
use serde_json::json;

use crate::{
    background,
    commands::{ask, crew::is_crew, go_on::check_whole},
    context::{Context, say},
    error::{CommandError, CommandResult},
};

/// Remove sessions for good
///
/// Their numbers are not given again. Files in the workspace are not touched; a worktree of the
/// session's own goes with it, unless it holds work that is nowhere else.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue rm 7
  segue rm 7 8 refactor --force")]
pub(crate) struct Args {
    /// Numbers, names, ids or starts of ids
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    /// Do not ask, also where work is lost that is nowhere else
    #[arg(long, short)]
    force: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let mut chosen = Vec::new();
    for text in &args.sessions {
        let found = context.find(Some(text))?;
        let Some(at) = found.at.clone() else {
            if let Ok(session) = found.open(&context.home) {
                check_whole(&session)?;
            }
            let path = found.dir.display();
            return Err(CommandError::usage(format!("{path} is not in this home"))
                .hint("a session outside of a home is removed like any directory"));
        };
        chosen.push((found, at));
    }
    check_needed(context, &chosen)?;
    let mut losses = Vec::new();
    for (found, _) in &chosen {
        let selector = found.selector();
        let (what, loss) = match found.open(&context.home) {
            Ok(session) => {
                if is_crew(&session) && session.state().phase == Phase::Running {
                    return Err(CommandError::usage(format!("crew {selector} is at work"))
                        .hint(format!("take it down first: segue crew down {selector}")));
                }
                let leavings = Leavings::of(&session);
                let kept = match leavings.checkpoints() {
                    0 => String::new(),
                    n => format!(" and {} in its repository", style::count(n as u64, "checkpoint")),
                };
                (format!("{} events{kept}", session.state().seq), leavings.loss())
            }
            Err(error) => (error.to_string(), Vec::new()),
        };
        say(&format!("session {selector}: {what}, in {}", found.dir.display()));
        losses.extend(loss.into_iter().map(|line| format!("session {selector} loses {line}")));
    }
    for loss in &losses {
        say(&format!("  {loss}"));
    }
    if !args.force && !confirmed(&args.sessions, !losses.is_empty())? {
        say("nothing was removed");
        return Ok(Exit::Done);
    }
    let mut removed = Vec::new();
    for (found, at) in chosen {
        let selector = found.selector();
        let session = found.open(&context.home).ok();
        let marks = session.as_ref().map(segue_loops::crew::mark_of);
        let leavings = session.map(|session| Leavings::of(&session));
        context
            .home
            .remove(&at, &context.me())
            .map_err(|error| CommandError::from(error).about(&selector))?;
        background::forget(context, &selector)?;
        // Without tmux nothing shows it.
        if let Ok(tmux) = Tmux::find(&context.cwd) {
            let _ = tmux.close(&at.id.to_string());
            let _ = marks.map(|mark| tmux.close(&mark));
        }
        if let Some(leavings) = leavings {
            for trouble in leavings.remove() {
                say(&format!("note: {trouble}"));
            }
        }
        removed.push(selector);
    }
    if context.json {
        context.print_json(&json!({ "removed": removed }))?;
    } else {
        say(&format!("removed {}", removed.join(", ")));
    }
    Ok(Exit::Done)
}

/// A session that another one begins with, or is answered by, stays as long as that one.
fn check_needed(context: &Context, chosen: &[(Found, Located)]) -> Result<(), CommandError> {
    for (found, at) in chosen {
        let begun = (context.home.begun_with(at)?, ["begins", "begin"], "with a part of");
        let answered =
            (context.home.answered_by(at)?, ["is", "are"], "answered by the recording of");
        check_others(context, chosen, found, begun)?;
        check_others(context, chosen, found, answered)?;
    }
    Ok(())
}

type Others = (Vec<Located>, [&'static str; 2], &'static str);

fn check_others(
    context: &Context,
    chosen: &[(Found, Located)],
    found: &Found,
    (mut others, [one, several], how): Others,
) -> Result<(), CommandError> {
    others.retain(|other| !chosen.iter().any(|(_, at)| at == other));
    if others.is_empty() {
        return Ok(());
    }
    let numbers = context.home.numbers()?;
    let mut names: Vec<String> = others.iter().map(|other| name_of(&numbers, other)).collect();
    names.sort_by_key(|name| name.parse::<u64>().unwrap_or(u64::MAX));
    let (selector, all) = (found.selector(), names.join(" "));
    let who = match &names[..] {
        [name] => format!("session {name} {one}"),
        _ => format!("sessions {} {several}", names.join(", ")),
    };
    let error = CommandError::usage(format!("{who} {how} session {selector}"));
    Err(error.hint(format!("remove all: segue rm {selector} {all}")))
}

fn name_of(numbers: &[(u64, Located)], at: &Located) -> String {
    let number = numbers.iter().find(|(_, one)| one == at).map(|(number, _)| *number);
    number.map_or_else(|| at.id.to_string(), |number| number.to_string())
}

fn confirmed(sessions: &[String], loses: bool) -> Result<bool, CommandError> {
    let question = match loses {
        true => "remove for good, with work that is nowhere else?",
        false => "remove for good, with all that is recorded?",
    };
    ask::confirm(question).ok_or_else(|| {
        CommandError::usage("there is no terminal to ask on")
            .hint(format!("remove without a question: segue rm --force {}", sessions.join(" ")))
    })
}
