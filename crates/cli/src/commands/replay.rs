//! `segue replay`: what is recorded, told again; or done again by somebody.

mod again;
mod cache;
mod inspect;
mod rerun;
mod save;

use std::path::PathBuf;

use segue_core::Permission;

pub(crate) use rerun::task;

use crate::{
    commands::{
        caps::{CapFlags, cap_words},
        fork, import,
        worker::{NATIVE, agent_names},
    },
    context::Context,
    error::{CommandError, CommandResult},
};

/// Tell a session again from its recording, or have it done again
///
/// In the mode `cache` the new session consists of the recorded steps: no model and no tool is
/// called. In the mode `rerun` an agent gets the recorded context and does the work again, in a
/// worktree with the files that it began with.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue replay 7 --inspect                      what is recorded; nothing is made
  segue replay 7 --from-step 2 --dry-run
  segue replay 7 --mode cache --save again
  segue replay 7 --mode cache --save again.tine
  segue replay 7 --verify                       is it still what it was?
  segue replay 7 --mode cache --continue        the native agent, answered from the recording
  segue replay 7 --mode rerun --agent codex --prompt \"Do this again\" --save by-codex --compare")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, a .tine or .segue file, or @latest
    session: Option<String>,
    /// Up to this step: its number, its id or the start of one, a name (main, base, fork/9)
    /// [default: the last one]
    #[arg(long, value_name = "STEP")]
    from_step: Option<String>,
    /// Reuse what is recorded, or do it again
    #[arg(long, value_name = "MODE", default_value = "cache", hide_default_value = true)]
    mode: Mode,
    /// Show the recorded steps; nothing is made
    #[arg(long)]
    inspect: bool,
    /// The same: show what would be reused
    #[arg(long)]
    dry_run: bool,
    /// Derive everything again, and say what is no longer as it was
    #[arg(long, conflicts_with_all = ["inspect", "dry_run"])]
    verify: bool,
    /// A name for the new session, or a file (x.tine, x.segue, x.json) that it is written to as well
    #[arg(long, value_name = "NAME|FILE")]
    save: Option<String>,
    /// Replace a file that is there
    #[arg(long, short)]
    force: bool,
    /// Let the native agent run again, answered from the recording as long as it asks the same
    #[arg(long = "continue")]
    go_on: bool,
    /// With --continue: stop where it leaves the recording, and do not go live
    #[arg(long, requires = "go_on")]
    stop_at_drift: bool,
    /// With the mode rerun: who does it
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// What to do [default: the same task again]
    #[arg(long, value_name = "PROMPT")]
    prompt: Option<String>,
    /// Show at the end how the two differ
    #[arg(long)]
    compare: bool,
    /// Another model
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// What the agent may do: read-only, edit or full [default: as before]
    #[arg(long, value_name = "WHAT")]
    permission: Option<Permission>,
    /// Where the repository is now, if it has moved
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    caps: CapFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// The recorded steps: no model and no tool is called
    Cache,
    /// An agent does it again
    Rerun,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    check(args)?;
    let found = import::find(context, args.session.as_deref())?;
    let session = fork::open(context, &found, "replayed")?;
    match args.mode {
        _ if args.verify => inspect::verify(context, session, &found),
        _ if args.inspect || args.dry_run => inspect::run(context, args, &session, &found),
        Mode::Rerun => rerun::run(context, args, session, &found),
        Mode::Cache if args.go_on => again::run(context, args, session, &found),
        Mode::Cache => cache::run(context, args, session, &found),
    }
}

/// A flag that can't be honoured is refused, and not ignored.
fn check(args: &Args) -> Result<(), CommandError> {
    let makes_nothing = args.inspect || args.dry_run || args.verify;
    let rerun = args.mode == Mode::Rerun;
    let lives = (rerun || args.go_on) && !makes_nothing;
    let save = args.save.as_deref();
    let caps = cap_words(args.caps.caps());
    let cap = caps.first().and_then(|cap| cap.split('=').next()).unwrap_or_default();
    let given = [
        (save.is_some() && makes_nothing, "--save", "nothing is made"),
        (args.force && save.is_none(), "--force", "there is nothing to replace"),
        (
            args.force && !save.is_some_and(save::is_file),
            "--force",
            "it replaces a file, and no name",
        ),
        (args.go_on && rerun, "--continue", "it is for the mode cache"),
        (args.go_on && makes_nothing, "--continue", "nothing is run"),
        (args.go_on && args.from_step.is_some(), "--from-step", "--continue runs from the start"),
        (args.agent.is_some() && !rerun, "--agent", "it is for the mode rerun"),
        (args.agent.is_some() && makes_nothing, "--agent", "nobody is asked"),
        (rerun && makes_nothing, "--mode rerun", "nothing is done again"),
        (args.compare && !lives, "--compare", "the replay is the same"),
        (args.prompt.is_some() && !lives, "--prompt", "nobody is asked"),
        (args.model.is_some() && !lives, "--model", "no model is called"),
        (args.permission.is_some() && !lives, "--permission", "nobody does anything"),
        (args.dir.is_some() && !lives, "--dir", "nobody works anywhere"),
        (!cap.is_empty() && !lives, cap, "nothing is spent"),
        (args.verify && args.from_step.is_some(), "--from-step", "all of it is verified"),
    ];
    if let Some((_, flag, why)) = given.iter().find(|(wrong, ..)| *wrong) {
        return Err(CommandError::usage(format!("{flag} can't be honoured here: {why}")));
    }
    if rerun && args.agent.is_none() {
        return Err(CommandError::usage("--mode rerun needs --agent: somebody has to do it")
            .hint(format!("the agents are: {}", agent_names()))
            .hint(format!("e.g. segue replay … --mode rerun --agent {NATIVE}")));
    }
    Ok(())
}
