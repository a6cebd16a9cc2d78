//! `segue gc`: clear away what no session needs any more.

use segue_core::Exit;
use segue_loops::worktree::{Garbage, Spare};
use serde_json::json;

use crate::{
    commands::ask,
    context::{Context, say},
    error::{CommandError, CommandResult},
};

/// Clear away what no session needs any more
///
/// Worktrees of completed sessions whose work is elsewhere too, and checkpoints in this repository
/// of sessions that are gone. Says first what it would do; what holds work that is nowhere else
/// stays, unless --force is given.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue gc --dry-run
  segue gc --yes")]
pub(crate) struct Args {
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Remove also what holds work that is nowhere else
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let garbage = Garbage::find(&context.home, &context.cwd)
        .map_err(|error| CommandError::failed(error.to_string()))?;
    let (go, stay): (Vec<&Spare>, Vec<&Spare>) =
        garbage.spare.iter().partition(|spare| args.force || spare.loses.is_empty());
    let shown = |list: &[&Spare]| -> Vec<_> {
        list.iter().map(|one| json!({ "what": one.what, "loses": one.loses })).collect()
    };
    let (going, staying) = (shown(&go), shown(&stay));
    if !context.json {
        for spare in &go {
            say(&format!("remove  {}", spare.what));
            for loss in &spare.loses {
                say(&format!("        loses {loss}"));
            }
        }
        for spare in &stay {
            say(&format!("keep    {}: it holds {}", spare.what, spare.loses.join(", ")));
        }
        if go.is_empty() {
            say("nothing to clear away");
        }
    }
    let mut removed = 0;
    if !args.dry_run && !go.is_empty() {
        if !args.yes {
            match ask::confirm("clear it away?") {
                Some(true) => {}
                Some(false) => return Ok(Exit::Done),
                None => {
                    return Err(CommandError::usage("there is no terminal to ask on")
                        .hint("clear it away without a question: segue gc --yes"));
                }
            }
        }
        for spare in go {
            match spare.remove() {
                Ok(()) => removed += 1,
                Err(error) => say(&format!("note: {}: {error}", spare.what)),
            }
        }
    }
    if context.json {
        context.print_json(&json!({ "remove": going, "keep": staying, "removed": removed }))?;
    }
    Ok(Exit::Done)
}
