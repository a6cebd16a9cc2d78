//! What a session has put on its branch, read from the branch itself.
//!
//! Promise: one look at the commits since the branch began, however many there are. A commit that was
//! rebased, amended or squashed by a person is still known by its trailers.

#[cfg(test)]
mod tests;

use std::path::Path;

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
    let (key, value) = trailer;
    let mut command = git::safe(repo_dir);
    command.args(["rev-list", "--header", "--reverse", "--topo-order", "--fixed-strings"]);
    command.arg(format!("--grep={key}: {value}")).args([&reference, "--not", base, "--"]);
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
    Ok(Some(found))
}
