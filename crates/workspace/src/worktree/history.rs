//! What a session has put on its branch, read from the branch itself.
//!
//! Promise: one look at the commits since the branch began, however many there are. A commit that was
//! rebased, amended or squashed by a person is still known by its trailers.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use super::WorktreeError;
use super::message::paragraphs;
use crate::git::{self, GitError};

/// A commit of the branch, or one that was squashed into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub commit: String,
    pub trailers: Vec<(String, String)>,
    /// They stand at the end of the message, where only whoever made the commit has put them.
    pub at_end: bool,
}

impl Mark {
    /// The value of a trailer.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.trailers.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Everything on a branch since `base` that has this trailer, oldest first. `None` where there is no
/// such branch to ask.
pub fn marks(
    repo_dir: &Path,
    branch: &str,
    base: &str,
    trailer: (&str, &str),
) -> Result<Option<Vec<Mark>>, WorktreeError> {
    let reference = format!("refs/heads/{branch}");
    if !repo_dir.is_dir() {
        return Ok(None);
    }
    let mut command = git::safe(repo_dir);
    command.args(["rev-parse", "-q", "--verify", "--end-of-options", &reference]);
    match git::ask(command, Vec::new(), 1) {
        Ok(Some(_)) => {}
        // No repository, or no such branch in it.
        Ok(None) | Err(GitError::Failed { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let within = [reference.as_str(), "--not", base];
    carrying(repo_dir, &within, trailer).map(Some)
}

/// All commits of a part of the history that have this trailer, oldest first.
fn carrying(
    repo_dir: &Path,
    within: &[&str],
    (key, value): (&str, &str),
) -> Result<Vec<Mark>, WorktreeError> {
    let mut command = git::safe(repo_dir);
    command.args(["rev-list", "--header", "--reverse", "--topo-order", "--fixed-strings"]);
    command.arg(format!("--grep={key}: {value}")).args(within).arg("--");
    let output = git::run(command)?;
    let mut found = Vec::new();
    for record in output.split(|&b| b == 0).filter(|record| !record.is_empty()) {
        let text = String::from_utf8_lossy(record);
        let (commit, rest) = text.split_once('\n').unwrap_or((&text, ""));
        // A message is indented, here and nowhere else.
        let message = rest.split_once("\n\n").map_or("", |(_, message)| message);
        let message: Vec<&str> =
            message.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
        let parts = paragraphs(&message.join("\n"));
        let last = parts.len().saturating_sub(1);
        for (at, trailers) in parts.into_iter().enumerate() {
            let ours = |(name, found): &(String, String)| name == key && found == value;
            if let Some(trailers) = trailers.filter(|all| all.iter().any(ours)) {
                let commit = commit.to_owned();
                found.push(Mark { commit, trailers, at_end: at == last });
            }
        }
    }
    Ok(found)
}

/// Where the work of a session is that has forgotten it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    pub branch: String,
    /// What the branch had before the session's first commit.
    pub base: String,
    /// Its worktree, where it has one.
    pub path: Option<PathBuf>,
}

/// The branch of ours that has the commits with this trailer.
pub fn trace(repo_dir: &Path, trailer: (&str, &str)) -> Result<Option<Trace>, WorktreeError> {
    let found = carrying(repo_dir, &["--branches"], trailer)?;
    let mut ours = found.iter().filter(|mark| mark.at_end);
    let Some(first) = ours.next() else { return Ok(None) };
    let last = ours.next_back().unwrap_or(first);
    let mut command = git::safe(repo_dir);
    command.args(["for-each-ref", "--contains", &last.commit, "--sort=version:refname"]);
    command.args(["--format=%(refname:lstrip=2)", "refs/heads/segue/", "refs/heads/segue-*"]);
    let branches = git::line(&git::run(command)?);
    let Some(branch) = branches.lines().next().map(str::to_owned) else { return Ok(None) };
    let mut command = git::safe(repo_dir);
    command.args(["rev-parse", "-q", "--verify", &format!("{}^", first.commit)]);
    let Some(base) = git::ask(command, Vec::new(), 1)? else { return Ok(None) };
    let path = checked_out(repo_dir, &branch)?;
    Ok(Some(Trace { branch, base: git::line(&base), path }))
}

/// The worktree that a branch is checked out in. The main one is the user's own.
fn checked_out(repo_dir: &Path, branch: &str) -> Result<Option<PathBuf>, WorktreeError> {
    let mut command = git::safe(repo_dir);
    command.args(["worktree", "list", "--porcelain"]);
    let output = git::run(command)?;
    let wanted = format!("branch refs/heads/{branch}");
    let mut path = None;
    for (n, line) in output.split(|&b| b == b'\n').enumerate() {
        if let Some(name) = line.strip_prefix(b"worktree ") {
            path = (n > 0).then(|| git::path(name).to_owned());
        } else if line == wanted.as_bytes() {
            return Ok(path);
        }
    }
    Ok(None)
}

/// Those of these commits that a branch ends with, the tip first, and the commit before them.
pub fn ending(
    repo_dir: &Path,
    branch: &str,
    these: &[&str],
) -> Result<(Vec<String>, Option<String>), WorktreeError> {
    let mut command = git::safe(repo_dir);
    command.args(["rev-list", "--first-parent", &format!("--max-count={}", these.len() + 1)]);
    command.arg(format!("refs/heads/{branch}")).arg("--");
    let output = git::line(&git::run(command)?);
    let mut commits = output.lines().map(str::to_owned).peekable();
    let mut found = Vec::new();
    while let Some(commit) = commits.next_if(|commit| these.contains(&commit.as_str())) {
        found.push(commit);
    }
    Ok((found, commits.next()))
}

/// The branches and tags, here and of remotes, that have a commit. `None` where there is no
/// repository to ask.
pub fn holders(repo_dir: &Path, commit: &str) -> Result<Option<Vec<String>>, WorktreeError> {
    if !repo_dir.is_dir() {
        return Ok(None);
    }
    let mut command = git::safe(repo_dir);
    command.args(["rev-parse", "-q", "--verify", "--end-of-options"]);
    command.arg(format!("{commit}^{{commit}}"));
    match git::ask(command, Vec::new(), 1) {
        Ok(Some(_)) => {}
        Ok(None) => return Ok(Some(Vec::new())),
        Err(GitError::Failed { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let mut command = git::safe(repo_dir);
    command.args(["for-each-ref", "--contains", commit, "--format=%(refname:short)%00%(symref)"]);
    command.args(["refs/heads/", "refs/remotes/", "refs/tags/"]);
    let output = git::run(command)?;
    let text = String::from_utf8_lossy(&output);
    // A name for another one has nothing of its own.
    let names = text.lines().filter_map(|line| line.strip_suffix('\0'));
    Ok(Some(names.map(str::to_owned).collect()))
}
