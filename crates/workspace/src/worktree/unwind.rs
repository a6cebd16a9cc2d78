//! Taking a commit back that stands for work to be gone on with.
//!
//! Promise: a branch goes back by one commit only if that is a commit of the session, is the tip,
//! and is nowhere else. The files and the index stay, so everything that was in the commit shows as
//! changes that are not committed.

#[cfg(test)]
mod tests;

use std::path::Path;

use super::message::Commit;
use super::point::move_branch;
use super::{Presence, WorktreeError, checkout, reenter};
use crate::git::{self, GitError};

/// What became of a commit that was to be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwound {
    /// The branch is at its parent now.
    Done { parent: String },
    /// The branch was at its parent before.
    Already,
    /// It stays, for this reason.
    Kept { why: String },
}

/// Takes `commit` off the branch that the worktree is on, if it is the tip, carries exactly these
/// trailers, and no other branch, tag or remote has it.
pub fn unwind(
    path: &Path,
    branch: &str,
    commit: &str,
    trailers: &[(&str, String)],
) -> Result<Unwound, WorktreeError> {
    let kept = |why: &str| Ok(Unwound::Kept { why: why.to_owned() });
    let Some(top) = top(path)? else { return kept("the worktree is gone") };
    match reenter(&top, branch)? {
        Presence::There => {}
        Presence::Elsewhere(Some(_)) => return kept("the worktree is on another branch"),
        Presence::Elsewhere(None) => return kept("the worktree is on no branch"),
        Presence::Gone => return kept("the worktree is gone"),
    }
    let reference = format!("refs/heads/{branch}");
    let found = Commit::read(&top, commit)?;
    let ours = found.filter(|found| found.carries(trailers));
    match (&ours, tip(&top, &reference)?) {
        (_, None) => return kept("the branch has no commit"),
        (Some(ours), Some(tip)) if tip != commit && ours.parents == [tip.as_str()] => {
            return Ok(Unwound::Already);
        }
        (_, Some(tip)) if tip != commit => return kept(&gone_on(&tip)),
        _ => {}
    }
    let parent = match ours.as_ref().map(|ours| ours.parents.as_slice()) {
        None => return kept("it is not a commit of this session"),
        Some([parent]) => parent,
        Some([]) => return kept("it is the first commit of all"),
        Some(_) => return kept("it is a merge"),
    };
    if let Some(why) = held_by(&top, branch, commit)? {
        return Ok(Unwound::Kept { why });
    }
    let note = format!("segue: unwound {}", short(commit));
    match move_branch(|| checkout(&top), &reference, parent, commit, &note) {
        Ok(()) => Ok(Unwound::Done { parent: parent.clone() }),
        // Somebody was faster.
        Err(error @ GitError::Failed { .. }) => match tip(&top, &reference)? {
            Some(tip) if tip == *parent => Ok(Unwound::Already),
            Some(tip) if tip != commit => kept(&gone_on(&tip)),
            _ => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

fn gone_on(tip: &str) -> String {
    format!("the branch has gone on: its tip is {}", short(tip))
}

fn short(id: &str) -> &str {
    id.get(..7).unwrap_or(id)
}

/// The top of the worktree that a directory is in.
fn top(path: &Path) -> Result<Option<std::path::PathBuf>, WorktreeError> {
    if !path.is_dir() {
        return Ok(None);
    }
    let mut command = checkout(path);
    command.args(["rev-parse", "--show-toplevel"]);
    match git::run(command) {
        Ok(top) => Ok(Some(git::path(top.strip_suffix(b"\n").unwrap_or(&top)).to_owned())),
        Err(GitError::Failed { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn tip(top: &Path, reference: &str) -> Result<Option<String>, WorktreeError> {
    let mut command = checkout(top);
    command.args(["rev-parse", "-q", "--verify", "--end-of-options", reference]);
    Ok(git::ask(command, Vec::new(), 1)?.map(|id| git::line(&id)))
}

/// Who else has the commit, in words.
fn held_by(top: &Path, branch: &str, commit: &str) -> Result<Option<String>, WorktreeError> {
    let mut command = checkout(top);
    command.args(["for-each-ref", "--contains", commit, "--format=%(refname)%00%(symref)"]);
    command.args(["refs/remotes/", "refs/tags/", "refs/heads/"]);
    let output = git::run(command)?;
    let (mut branches, mut tags) = (None, None);
    for line in String::from_utf8_lossy(&output).lines() {
        // A name for another one has nothing of its own.
        let Some(name) = line.strip_suffix('\0') else { continue };
        if let Some(name) = name.strip_prefix("refs/remotes/") {
            return Ok(Some(format!("{name} has it: it was pushed")));
        }
        if let Some(name) = name.strip_prefix("refs/tags/") {
            tags = tags.or(Some(format!("the tag {name} has it")));
        } else if let Some(name) = name.strip_prefix("refs/heads/").filter(|name| *name != branch) {
            branches = branches.or(Some(format!("the branch {name} has it too")));
        }
    }
    match tags.or(branches) {
        Some(why) => Ok(Some(why)),
        None => pushed_unseen(top, branch),
    }
}

/// Where the remote's branches are not all kept track of, as in a clone of a single branch, a push
/// leaves nothing but the setting.
fn pushed_unseen(top: &Path, branch: &str) -> Result<Option<String>, WorktreeError> {
    let mut command = checkout(top);
    command.args(["config", "--get", &format!("branch.{branch}.remote")]);
    let remote = git::ask(command, Vec::new(), 1)?.map(|name| git::line(&name));
    let Some(remote) = remote.filter(|name| name != ".") else { return Ok(None) };
    let mut command = checkout(top);
    command.args(["for-each-ref", "--format=%(upstream)", &format!("refs/heads/{branch}")]);
    match git::line(&git::run(command)?).is_empty() {
        true => Ok(Some(format!("it may have been pushed to {remote}"))),
        false => Ok(None),
    }
}
