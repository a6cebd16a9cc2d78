//! `segue rm`: remove a session for good.

use std::io::{self, IsTerminal, Write};

use segue_core::Exit;
use serde_json::json;

use crate::{
    context::{Context, say},
    error::{CommandError, CommandResult},
};

/// Remove sessions for good
///
/// Their numbers are not given again. Files in the workspace are not touched.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue rm 7
  segue rm 7 8 refactor --force")]
pub(crate) struct Args {
    /// Numbers, names, ids or starts of ids
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    force: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let mut chosen = Vec::new();
    for text in &args.sessions {
        let found = context.find(Some(text))?;
        let Some(at) = found.at.clone() else {
            let path = found.dir.display();
            return Err(CommandError::usage(format!("{path} is not in this home"))
                .hint("a session outside of a home is removed like any directory"));
        };
        chosen.push((found, at));
    }
    for (found, _) in &chosen {
        let what = match found.open(&context.home) {
            Ok(session) => format!("{} events", session.state().seq),
            Err(error) => error.to_string(),
        };
        say(&format!("session {}: {what}, in {}", found.selector(), found.dir.display()));
    }
    if !args.force && !confirmed(&args.sessions)? {
        say("nothing was removed");
        return Ok(Exit::Done);
    }
    let mut removed = Vec::new();
    for (found, at) in chosen {
        context.home.remove(&at, &context.me())?;
        removed.push(found.selector());
    }
    if context.json {
        context.print_json(&json!({ "removed": removed }))?;
    } else {
        say(&format!("removed {}", removed.join(", ")));
    }
    Ok(Exit::Done)
}

fn confirmed(sessions: &[String]) -> Result<bool, CommandError> {
    if !io::stdin().is_terminal() {
        return Err(CommandError::usage("there is no terminal to ask on")
            .hint(format!("remove without a question: segue rm --force {}", sessions.join(" "))));
    }
    let mut err = io::stderr().lock();
    let _ = write!(err, "remove for good, with all that is recorded? [y/N] ");
    let _ = err.flush();
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
