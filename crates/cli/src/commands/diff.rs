//! `segue diff`: two sessions side by side.

use std::io::{self, IsTerminal, Write};

use segue_core::Exit;
use segue_journal::Session;
use segue_loops::{
    branch,
    keep::{Checkpoints, Keeper},
};
use segue_view::{
    diff::{
        Comparison, DiffJson, FileDiff, FileStatus, Files, Side, patch_text, plain_text, table_text,
    },
    select::Found,
};
use segue_workspace::{Change, Lines, SnapshotError, Snapshots, Status};
use serde_json::json;

use crate::{
    commands::import,
    context::{Context, print, say, view_error},
    error::{CommandError, CommandResult},
};

/// The most of a difference between files that is shown.
const MOST_BYTES: usize = 64 << 20;

/// How many files are compared.
const MOST_FILES: usize = 10_000;

/// Compare two sessions: what they came to, what was said and done, and the files
///
/// Steps are the same where the same was said and done; what that cost is shown, and is no
/// difference. On a terminal the two stand side by side, elsewhere each difference is a line.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue diff 7 9
  segue diff 7 9 --files            and the files, line by line
  segue diff 7 replay --exit-code   0 where the same was said and done, 1 where not
  segue diff 7 9 --json | jq .first_difference")]
pub(crate) struct Args {
    /// The first session: a number, a name, an id or the start of one, a path, a .tine or .segue
    /// file, or @latest
    a: String,
    /// The second session, named in the same ways
    b: String,
    /// Show what differs between their files, line by line
    #[arg(long)]
    files: bool,
    /// Side by side also where the output is no terminal
    #[arg(long, short = 'y')]
    side_by_side: bool,
    /// End with status 1 where the steps differ
    #[arg(long)]
    exit_code: bool,
}

/// Shows how two sessions differ, after the one of them that was just worked on: as `segue diff A B`
/// does, and for programs as one more line.
pub(crate) fn between(context: &Context, a: &str, b: &str) -> Result<(), CommandError> {
    let (a, b) = (a.to_owned(), b.to_owned());
    let args = Args { a, b, files: false, side_by_side: false, exit_code: false };
    let (all, _) = compare(context, &args)?;
    match context.json {
        true => print(&json!({ "compared": DiffJson::of(&all, None) }).to_string()),
        false => show(context, &args, &all, None),
    }
    Ok(())
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let (all, patch) = compare(context, args)?;
    if context.json {
        let patch = patch.map(|patch| String::from_utf8_lossy(&patch).into_owned());
        context.print_json(&DiffJson::of(&all, patch))?;
    } else {
        show(context, args, &all, patch.as_deref());
    }
    Ok(match args.exit_code && !all.is_same() {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

/// The comparison, and the files line by line.
fn compare(context: &Context, args: &Args) -> Result<(Comparison, Option<Vec<u8>>), CommandError> {
    let (found_a, found_b) =
        (import::find(context, Some(&args.a))?, import::find(context, Some(&args.b))?);
    let (a, b) = (found_a.open(&context.home)?, found_b.open(&context.home)?);
    let (files, patch) = compare_files((&a, &found_a), (&b, &found_b), args.files)?;
    let [first_a, first_b] = a.first_steps(&b)?;
    let a = Side::of(&a, &found_a, first_a).map_err(view_error)?;
    let b = Side::of(&b, &found_b, first_b).map_err(view_error)?;
    Ok((Comparison::new(a, b, files), patch))
}

fn show(context: &Context, args: &Args, all: &Comparison, patch: Option<&[u8]>) {
    let (style, terminal) = (context.out(), io::stdout().is_terminal());
    match terminal || args.side_by_side {
        true => print(&table_text(all, &style)),
        false => print(&plain_text(all, &style)),
    }
    match patch.filter(|patch| !patch.is_empty()) {
        None => {}
        Some(patch) if terminal => {
            print(&format!("\n{}", patch_text(&String::from_utf8_lossy(patch), &style)));
        }
        // Byte for byte: somebody may want to apply it.
        Some(patch) => {
            let _ = io::stdout().lock().write_all(patch);
        }
    }
}

/// What differs between the files of two sessions as they were last, and the same line by line.
fn compare_files(
    a: (&Session, &Found),
    b: (&Session, &Found),
    line_by_line: bool,
) -> Result<(Files, Option<Vec<u8>>), CommandError> {
    let kept = |session: &Session| session.state().checkpoint.as_ref()?.commit.clone();
    let commit = |session: &Session| kept(session).or_else(|| files_of_base(session));
    let unknown = |why: String| Ok((Files::Unknown(why), None));
    let (from, to) = match (commit(a.0), commit(b.0)) {
        (Some(from), Some(to)) => (from, to),
        (None, None) => return unknown("neither session has a checkpoint".to_owned()),
        (None, _) => return unknown(format!("session {} has no checkpoint", a.1.selector())),
        (_, None) => return unknown(format!("session {} has no checkpoint", b.1.selector())),
    };
    if from == to {
        return Ok((Files::Known(Vec::new()), line_by_line.then(Vec::new)));
    }
    let mut missing = None;
    for session in [a.0, b.0] {
        let Some(dir) = session.state().workspace().filter(|dir| dir.is_dir()) else { continue };
        let keeper = Keeper::new(session, dir, Checkpoints::Always);
        let Ok(snapshots) = keeper.snapshots() else { continue };
        match lacking(snapshots, [(&from, a.1), (&to, b.1)]).map_err(failed)? {
            Some(why) => missing = missing.or(Some(why)),
            None => {
                let files = file_diffs(snapshots, &from, &to).map_err(failed)?;
                let patch = line_by_line.then(|| patch(snapshots, &from, &to)).transpose()?;
                return Ok((Files::Known(files), patch));
            }
        }
    }
    unknown(missing.unwrap_or_else(|| "no repository has their checkpoints".to_owned()))
}

/// The files of a session in which nobody has worked: those that belong to the step that it begins with.
fn files_of_base(session: &Session) -> Option<String> {
    session.state().base()?;
    let dir = session.state().workspace().filter(|dir| dir.is_dir())?;
    let keeper = Keeper::new(session, dir, Checkpoints::Always);
    let files = branch::last_files(session, &keeper).ok()?;
    files.commit().map(str::to_owned)
}

fn failed(error: SnapshotError) -> CommandError {
    CommandError::failed(error.to_string())
}

/// Which of two checkpoints a repository does not have.
fn lacking(
    snapshots: &Snapshots,
    commits: [(&String, &Found); 2],
) -> Result<Option<String>, SnapshotError> {
    for (commit, found) in commits {
        if !snapshots.exists(commit)? {
            let (short, top) = (commit.get(..10).unwrap_or(commit), snapshots.top().display());
            let whose = found.selector();
            return Ok(Some(format!("checkpoint {short} of session {whose} is not in {top}")));
        }
    }
    Ok(None)
}

fn file_diffs(snapshots: &Snapshots, from: &str, to: &str) -> Result<Vec<FileDiff>, SnapshotError> {
    let (changes, _) = snapshots.changes(from, to, MOST_FILES)?;
    let counts = snapshots.line_counts(from, to)?;
    Ok(changes.iter().map(|change| file_diff(change, &counts)).collect())
}

fn file_diff(change: &Change, counts: &[Lines]) -> FileDiff {
    let (status, from) = match &change.status {
        Status::Added => (FileStatus::Added, None),
        Status::Deleted => (FileStatus::Deleted, None),
        Status::Renamed { from } => (FileStatus::Renamed, Some(from)),
        Status::Modified | Status::TypeChanged => (FileStatus::Modified, None),
    };
    let lines = counts.iter().find(|lines| lines.path == change.path);
    FileDiff {
        path: change.path.to_string_lossy().into_owned(),
        from: from.map(|from| from.to_string_lossy().into_owned()),
        status,
        added: lines.and_then(|lines| lines.added),
        removed: lines.and_then(|lines| lines.removed),
    }
}

fn patch(snapshots: &Snapshots, from: &str, to: &str) -> Result<Vec<u8>, CommandError> {
    let (bytes, more) = snapshots.diff_text(from, to, MOST_BYTES).map_err(failed)?;
    if more {
        say(&format!(
            "note: the files differ in more than {} MB: the rest is left out",
            MOST_BYTES >> 20
        ));
    }
    Ok(bytes)
}
