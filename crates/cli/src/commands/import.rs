//! `segue import`: a session from a file, ready to go on here.

use std::path::{Path, PathBuf};

use segue_core::Exit;
use segue_share::{
    ImportOptions, Imported, fetch_git,
    foreign::{self, Format},
    import, remap,
};
use segue_view::style::Paint;
use serde_json::json;

use crate::{
    commands::{
        carry,
        export::{Shown, share_error},
        import_run,
        keys::TrustFlags,
        run::workspace,
    },
    context::{Context, say},
    error::{CommandError, CommandResult},
};

/// Bring a session in that was exported elsewhere
///
/// The file is checked before anything of it counts. The repository is found by its identity: call
/// this from within it, or name it with --dir.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue import refactoring.segue
  segue import x.segue --dir ~/src/app
  segue import run.tine --require-signature --pubkey key.pub
  segue import spans.json                     OpenTelemetry")]
pub(crate) struct Args {
    /// The file that `segue export` wrote, a .tine file, or OpenTelemetry spans as JSON
    file: PathBuf,
    /// The workspace here
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    trust: TrustFlags,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let file = context.cwd.join(&args.file);
    match foreign::sniff(&file).map_err(|error| share_error(&error))? {
        Format::Bundle if args.trust.given() => {
            return Err(CommandError::usage("a bundle has no signature that could be checked"));
        }
        Format::Bundle => {}
        format => return import_run::run(context, &file, format, args.dir.as_deref(), &args.trust),
    }
    let mut shown = Shown::new(context);
    let done = import(&file, &context.home, &ImportOptions::default(), &mut |p| shown.show(p))
        .map_err(|error| share_error(&error));
    shown.wipe();
    let done = done?;
    let session = context.home.open(&done.at)?;
    let recorded = session.state().workspace().map(PathBuf::from).unwrap_or_default();
    let here = here(context, &done, &recorded, args.dir.as_deref())?;
    let (fetched, trouble) = match &here {
        Some(dir) => bring_git(&done, dir),
        None => (0, Vec::new()),
    };
    let placed = match &here {
        Some(dir) => carry::unpack(&done, dir),
        None => Vec::new(),
    };
    let number = done.number;
    if let Some(dir) = here.as_ref().filter(|dir| **dir != recorded) {
        session.is_here(dir)?;
    }
    let next = match &here {
        Some(_) => format!("segue resume {number}"),
        None => format!("segue import {} --dir DIR", file.display()),
    };
    if context.json {
        context.print_json(&json!({
            "session": number.to_string(), "id": done.at.id, "dir": done.dir,
            "was_there": done.was_there, "workspace": here, "checkpoints": fetched,
            "missing": trouble, "vendor_sessions": placed, "next": next,
        }))?;
        return Ok(Exit::Done);
    }
    let sign = context.err().paint(Paint::Green, "✓");
    let what = if done.was_there { "was here already" } else { "is here" };
    say(&format!("{sign} session {number} {what} · {}", done.dir.display()));
    match &here {
        Some(dir) => say(&format!("  workspace {}, {fetched} checkpoints brought", dir.display())),
        None => {
            say(
                "  workspace not found here: call this again from within the repository, or name it",
            );
        }
    }
    for line in trouble {
        say(&format!("  missing   {line}"));
    }
    for agent in placed {
        say(&format!("  {agent} can go on in its own session"));
    }
    say(&next);
    Ok(Exit::Done)
}

/// Where the workspace is on this machine.
fn here(
    context: &Context,
    done: &Imported,
    recorded: &Path,
    named: Option<&Path>,
) -> Result<Option<PathBuf>, CommandError> {
    if let Some(named) = named {
        return workspace(&context.cwd, Some(named)).map(Some);
    }
    let repo = context.repo().ok();
    let current = repo.as_ref().map(|repo| (repo.root.as_path(), repo.identity.as_str()));
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let identity = &done.manifest.repo.identity;
    let there = done.manifest.home.as_deref().map(Path::new);
    let candidates = remap(recorded, there, home.as_deref(), identity, current);
    let fits = |dir: &Path| {
        dir.is_dir()
            && segue_workspace::identify(dir).is_ok_and(|found| {
                // A repository without a remote is known by its path, which may be another here.
                found.identity == *identity || identity.starts_with('/')
            })
    };
    Ok(candidates.into_iter().map(|one| one.path).find(|dir| fits(dir)))
}

/// Brings the checkpoints into the repository. What can't be had is named.
fn bring_git(done: &Imported, dir: &Path) -> (usize, Vec<String>) {
    let mut fetched = 0;
    let mut trouble = Vec::new();
    let root = segue_workspace::identify(dir).map_or_else(|_| dir.to_owned(), |repo| repo.root);
    for part in &done.git {
        match fetch_git(part, &root.join(&part.entry.path)) {
            Ok(got) => fetched += got.refs.len(),
            Err(error) => trouble.push(error.to_string()),
        }
    }
    (fetched, trouble)
}
