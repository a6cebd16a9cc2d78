//! `segue import`: a session from a file, ready to go on here.

use std::path::{Path, PathBuf};

use segue_core::Exit;
use segue_share::{
    ImportOptions, Imported, fetch_git,
    foreign::{self, Format},
    import, remap,
};
use segue_view::{select::Found, style::Paint};
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
    let brought = unpack(context, &file, args.dir.as_deref())?;
    let Brought { done, here, fetched, trouble, placed } = &brought;
    let number = done.number;
    let next = match here {
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
    brought.say();
    say(&next);
    Ok(Exit::Done)
}

/// A session that a bundle was made into, and all that came with it.
struct Brought {
    done: Imported,
    /// Where the workspace is here.
    here: Option<PathBuf>,
    fetched: usize,
    trouble: Vec<String>,
    placed: Vec<String>,
}

impl Brought {
    fn say(&self) {
        match &self.here {
            Some(dir) => {
                say(&format!(
                    "  workspace {}, {} checkpoints brought",
                    dir.display(),
                    self.fetched
                ));
            }
            None => say(
                "  workspace not found here: call this again from within the repository, or name it",
            ),
        }
        for line in &self.trouble {
            say(&format!("  missing   {line}"));
        }
        for agent in &self.placed {
            say(&format!("  {agent} can go on in its own session"));
        }
    }
}

fn unpack(context: &Context, file: &Path, dir: Option<&Path>) -> Result<Brought, CommandError> {
    let mut shown = Shown::new(context);
    let done = import(file, &context.home, &ImportOptions::default(), &mut |p| shown.show(p))
        .map_err(|error| share_error(&error));
    shown.wipe();
    let done = done?;
    let session = context.home.open(&done.at)?;
    let recorded = session.state().workspace().map(PathBuf::from).unwrap_or_default();
    let here = here(context, &done, &recorded, dir)?;
    let (fetched, trouble) = match &here {
        Some(dir) => bring_git(&done, dir),
        None => (0, Vec::new()),
    };
    let placed = match &here {
        Some(dir) => carry::unpack(&done, dir),
        None => Vec::new(),
    };
    if let Some(dir) = here.as_ref().filter(|dir| **dir != recorded) {
        session.is_here(dir)?;
    }
    Ok(Brought { done, here, fetched, trouble, placed })
}

/// Finds the session that is meant, also where that is a file: it becomes a session here first, or
/// is one already, and that is said.
pub(crate) fn find(context: &Context, text: Option<&str>) -> Result<Found, CommandError> {
    match text.map(|text| context.cwd.join(text)).filter(|file| is_run(file)) {
        Some(file) => bring(context, &file),
        None => context.find(text),
    }
}

/// Whether a path is a file that holds a run.
pub(crate) fn is_run(file: &Path) -> bool {
    matches!(Format::of_path(file), Some(Format::Bundle | Format::Tine)) && file.is_file()
}

fn bring(context: &Context, file: &Path) -> Result<Found, CommandError> {
    let (number, was_there) = match Format::of_path(file) {
        Some(Format::Tine) => import_run::bring(context, file)?,
        _ => {
            let brought = unpack(context, file, None)?;
            if !brought.done.was_there {
                brought.say();
            }
            (brought.done.number, brought.done.was_there)
        }
    };
    let what = if was_there { "is" } else { "was made of" };
    say(&format!("session {number} {what} {}", file.display()));
    context.find(Some(&number.to_string()))
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
