//! Moving a session's branch.
//!
//! Promise: when it has moved, that is on the disk. Git syncs the file of the branch, and what it
//! leads to, before it gives it its name; the name itself is synced here.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::checkout;
use crate::git::{self, GitError};

/// Git holds the lock of a branch for moments. One that is this old was left by a git that was
/// killed; it would keep the session's branch where it is for ever.
const STALE: Duration = Duration::from_secs(60);

/// Moves a branch from `old` to `new`, if it is at `old`. `command` is the git to do it with.
pub(super) fn move_branch(
    command: impl Fn() -> Command,
    reference: &str,
    new: &str,
    old: &str,
    note: &str,
) -> Result<(), GitError> {
    let attempt = || {
        let mut command = command();
        command.args(["update-ref", "-m", note, reference, new, old]);
        git::run(command).map(drop)
    };
    let first = attempt();
    let dir = command().get_current_dir().map(Path::to_owned).unwrap_or_default();
    let moved = match first {
        Err(GitError::Failed { .. }) if remove_stale_locks(&dir, reference) => attempt(),
        first => first,
    };
    moved.inspect(|()| sync_name(&dir, reference))
}

/// Where branches are not files, git has done so itself.
fn sync_name(dir: &Path, reference: &str) {
    if let Some(path) = git_path(dir, reference)
        && let Some(Ok(above)) = path.parent().map(File::open)
    {
        let _ = above.sync_all();
    }
}

/// Where git keeps something.
fn git_path(dir: &Path, name: &str) -> Option<PathBuf> {
    let mut command = checkout(dir);
    command.args(["rev-parse", "--path-format=absolute", "--git-path", name]);
    let output = git::run(command).ok()?;
    Some(git::path(output.strip_suffix(b"\n").unwrap_or(&output)).to_owned())
}

/// Only of the branch itself, and of the `HEAD` that goes along with it.
fn remove_stale_locks(dir: &Path, reference: &str) -> bool {
    let mut removed = false;
    for name in [reference, "HEAD"] {
        let Some(path) = git_path(dir, &format!("{name}.lock")) else { continue };
        let written = std::fs::symlink_metadata(&path).and_then(|meta| meta.modified());
        let age = written.ok().and_then(|written| written.elapsed().ok());
        removed |= age.is_some_and(|age| age > STALE) && std::fs::remove_file(&path).is_ok();
    }
    removed
}
