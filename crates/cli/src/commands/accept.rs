//! `segue accept`: take over what a session made in a worktree of its own.

use std::path::{Path, PathBuf};

use segue_core::Exit;
use segue_journal::Session;
use segue_loops::{
    accept::{self, AcceptError, Plan},
    keep::Keeper,
};
use segue_view::{
    select::Found,
    style::{self, shorten},
};
use serde_json::json;

use crate::{
    commands::{
        ask,
        go_on::{check_whole, say_plan},
        run::workspace,
    },
    context::{Context, say},
    error::{CommandError, CommandResult},
};

/// How many files a plan names.
const MOST_NAMED: usize = 12;

/// Take over what a session made in a worktree of its own
///
/// The files that it has changed are put into the directory of the session that it was forked or
/// compared from. What was changed there meanwhile is not overwritten without --force, and in either
/// case kept under a ref.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue accept 9
  segue accept 9 --dry-run
  segue accept 9 --into ../elsewhere")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: String,
    /// Where to [default: the directory of the session that it comes from]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Do not ask, also where files were changed there meanwhile
    #[arg(long, short)]
    force: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let found = context.find(Some(&args.session))?;
    let selector = found.selector();
    let session = found.open(&context.home)?;
    check_whole(&session)?;
    let state = session.state();
    if state.identity.as_ref().is_some_and(|identity| identity.worktree) && state.worktree.is_none()
    {
        let message = format!("session {selector} has made nothing yet: nobody has worked in it");
        return Err(
            CommandError::usage(message).hint(format!("segue resume {selector} \"what to do\""))
        );
    }
    let into = match &args.into {
        Some(dir) => workspace(&context.cwd, Some(dir))?,
        None => origin(context, &found, &session)?,
    };
    if session.state().workspace() == Some(into.as_path()) {
        return Err(CommandError::usage(format!(
            "session {selector} works in {} itself",
            into.display()
        ))
        .hint("there is nothing to take over"));
    }
    let keeper = Keeper::new(&session, &into, segue_loops::keep::Checkpoints::Always);
    let wrong = |error: AcceptError| match error {
        AcceptError::Journal(error) => CommandError::from(error).about(&selector),
        error => CommandError::failed(error.to_string()),
    };
    let plan = accept::plan(&session, &keeper, &into).map_err(wrong)?;
    if !context.json {
        say_plan(context, &lines(&selector, &plan));
    }
    let refused = !plan.conflicts.is_empty() && !args.force;
    if args.dry_run || plan.files.is_empty() {
        let json = json!({ "session": selector, "files": plan.files, "conflicts": plan.conflicts });
        return match context.json {
            true => context.print_json(&json).map(|()| Exit::Done),
            false => Ok(Exit::Done),
        };
    }
    if refused {
        let files = style::count(plan.conflicts.len() as u64, "file");
        return Err(CommandError::usage(format!("{files} changed there meanwhile")).hint(format!(
            "overwrite them, which keeps what is there under a ref: segue accept {selector} --force"
        )));
    }
    if !args.force && ask::confirm("take these files over?") == Some(false) {
        say("nothing was changed");
        return Ok(Exit::Done);
    }
    let done =
        accept::accept(session, &keeper, &plan, &context.me(), &context.clock).map_err(wrong)?;
    if context.json {
        context.print_json(&done)?;
    } else {
        let files = style::count(done.files, "file");
        say(&format!("✓ {files} of session {selector} in {}", into.display()));
        say(&format!("  what was there before: {}", done.safety));
    }
    Ok(Exit::Done)
}

fn lines(selector: &str, plan: &Plan) -> Vec<String> {
    let mut lines = vec![format!("⇤ accept what #{selector} made")];
    let mut line = |label: &str, text: String| lines.push(format!("  {label:<9} {text}"));
    line("into", plan.into.display().to_string());
    if plan.files.is_empty() {
        line("files", "are the same there already".to_owned());
    }
    let sign = |path: &PathBuf| if plan.conflicts.contains(path) { "! " } else { "" };
    for path in plan.files.iter().take(MOST_NAMED) {
        line("file", format!("{}{}", sign(path), shorten(&path.display().to_string(), 100)));
    }
    if let Some(more) = plan.files.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        line("", format!("and {more} more"));
    }
    lines
}

/// Where the session that this one comes from works.
fn origin(context: &Context, found: &Found, session: &Session) -> Result<PathBuf, CommandError> {
    let identity = session.state().identity.as_ref();
    let from = identity.and_then(|identity| identity.lineage.as_ref()).map(|lineage| lineage.from);
    let Some(from) = from else {
        return Err(CommandError::usage(format!(
            "session {} comes from no other one",
            found.selector()
        ))
        .hint("name the place: --into DIR"));
    };
    let origin = context.find(Some(&from.to_string()))?.open(&context.home)?;
    let dir = origin.state().workspace().map(Path::to_owned).unwrap_or_default();
    match dir.is_dir() {
        true => Ok(dir),
        false => Err(CommandError::failed(format!("{} is gone", dir.display()))
            .hint("name the place: --into DIR")),
    }
}
