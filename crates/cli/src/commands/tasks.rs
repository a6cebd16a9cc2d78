//! `segue tasks`: lists of tasks. What each subcommand does is in its own file.

mod check;
mod new;
mod source;

use crate::{context::Context, error::CommandResult};

/// Write and check lists of tasks
///
/// A list is a directory with an overview.md and a page such as T-001-find-notes.md for each task, or
/// a prd.json.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue tasks new plan              a small list that says what goes where
  segue tasks check plan            everything that is wrong with it
  segue tasks check prd.json --json")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    New(new::Args),
    Check(check::Args),
}

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    match args.action {
        Action::New(args) => new::run(context, &args),
        Action::Check(args) => check::run(context, &args),
    }
}
