//! Moving a session's branch.

use std::path::Path;
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
    match first {
        Err(GitError::Failed { .. }) if remove_stale_locks(&dir, reference) => attempt(),
        first => first,
    }
}

/// Only of the branch itself, and of the `HEAD` that goes along with it.
fn remove_stale_locks(dir: &Path, reference: &str) -> bool {
    let mut removed = false;
    for name in [reference, "HEAD"] {
        let mut command = checkout(dir);
        command.args(["rev-parse", "--path-format=absolute", "--git-path"]);
        command.arg(format!("{name}.lock"));
        let Ok(output) = git::run(command) else { continue };
        let path = git::path(output.strip_suffix(b"\n").unwrap_or(&output));
        let written = std::fs::symlink_metadata(path).and_then(|meta| meta.modified());
        let age = written.ok().and_then(|written| written.elapsed().ok());
        removed |= age.is_some_and(|age| age > STALE) && std::fs::remove_file(path).is_ok();
    }
    removed
}
