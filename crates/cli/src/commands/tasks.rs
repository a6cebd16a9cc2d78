//! `segue tasks`: lists of tasks. What each subcommand does is in its own file.

mod check;
mod new;
mod publish;
mod run;
mod sessions;
pub(crate) mod source;
mod status;

pub(crate) use status::settle;

use crate::{context::Context, error::CommandResult};

/// Work through a list of tasks, each until an evaluator accepts it
///
/// Each task is a commit on the session's own branch, which is never merged. A list is a directory with an overview.md and a page such as T-001-find-notes.md for each task, or
/// a prd.json.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue tasks new plan              a small list that says what goes where
  segue tasks check plan            everything that is wrong with it
  segue tasks run plan --worker claude --evaluator codex --proof \"cargo test\"
  segue tasks status                what is done, what each task has cost
  segue resume                      after a stop: says its plan first
  segue tasks push                  the branch, for others to see")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    New(new::Args),
    Check(check::Args),
    /// Prepare a session over a list, and start nothing
    Prep(Box<run::Args>),
    /// Work through a list: start, or pick up what was prepared
    #[command(after_help = "Examples:
  segue tasks run plan
  segue tasks run plan --worker claude --evaluator codex
  segue tasks run plan --max-iterations 8 --max-cost 10 --max-time 2h
  segue tasks run plan --new        also where a session of this list could be resumed")]
    Run(Box<run::Args>),
    /// Where a list stands: each task with its state, rounds, spend and commit
    Status(status::Args),
    /// Push the branch with what was accepted
    Push(publish::Push),
    /// Push the branch, and open a pull request or say where to
    Pr(publish::Pr),
}

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    match args.action {
        Action::New(args) => new::run(context, &args),
        Action::Check(args) => check::run(context, &args),
        Action::Prep(args) => run::prep(context, *args),
        Action::Run(args) => run::run(context, *args),
        Action::Status(args) => status::run(context, &args),
        Action::Push(args) => publish::push(context, &args),
        Action::Pr(args) => publish::pr(context, &args),
    }
}
