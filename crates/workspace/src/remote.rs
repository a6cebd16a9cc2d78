//! A repository's remotes: pushing a branch, and the page where it can be proposed for merging.
//!
//! Promise: nothing is ever forced, and no credentials of a URL are in a message or in an address
//! that is given out. A push is the user's own: their hooks, their credentials.

mod address;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use self::address::{compare_url, gh_repo};
use crate::git::{self, GitError};

#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("there is no remote {remote}{}", others(.known))]
    NoRemote { remote: String, known: Vec<String> },
    /// The remote has commits that the branch here does not have.
    #[error("{remote} has another {branch}, with commits that are not here:\n{message}")]
    Behind { remote: String, branch: String, message: String },
    /// The remote could be reached, and said no.
    #[error("{remote} refused {branch}:\n{message}")]
    Refused { remote: String, branch: String, message: String },
    /// It could not be reached, did not let the user in, or a hook of the user's said no.
    #[error("nothing came of asking {remote}: {message}")]
    Failed { remote: String, message: String },
}

fn others(known: &[String]) -> String {
    match known.is_empty() {
        true => String::new(),
        false => format!(", only {}", known.join(", ")),
    }
}

/// The names of all remotes.
pub fn remotes(repo: &Path) -> Result<Vec<String>, RemoteError> {
    let mut command = git::safe(repo);
    command.arg("remote");
    Ok(git::line(&git::run(command)?).lines().map(str::to_owned).collect())
}

/// Where a remote is, with the user's abbreviations written out. May hold credentials: to be passed
/// to [`compare_url`], and never to be shown.
pub fn url(repo: &Path, remote: &str) -> Result<String, RemoteError> {
    known(repo, remote)?;
    let mut command = git::safe(repo);
    command.args(["remote", "get-url", "--", remote]);
    Ok(git::line(&git::run(command)?))
}

/// Pushes a branch under its own name, and remembers that as its upstream.
pub fn push(repo: &Path, remote: &str, branch: &str) -> Result<(), RemoteError> {
    push_to(repo, remote, branch, None)
}

/// Pushes a branch as far as one of its commits. What is there already stays there.
pub fn push_up_to(repo: &Path, remote: &str, branch: &str, to: &str) -> Result<(), RemoteError> {
    push_to(repo, remote, branch, Some(to))
}

fn push_to(repo: &Path, remote: &str, branch: &str, to: Option<&str>) -> Result<(), RemoteError> {
    known(repo, remote)?;
    let mut command = git::users(repo);
    let name = format!("refs/heads/{branch}");
    command.args(["push", "--porcelain"]);
    // Git remembers it for whole branches only.
    command.args(to.is_none().then_some("--set-upstream"));
    command.args(["--", remote]).arg(format!("{}:{name}", to.unwrap_or(&name)));
    let (output, ..) = git::finish(command, Vec::new())?;
    if output.status.success() {
        return Ok(());
    }
    let (remote, branch) = (remote.to_owned(), branch.to_owned());
    // "!\trefs/heads/x:refs/heads/x\t[rejected] (fetch first)", in English everywhere.
    let text = String::from_utf8_lossy(&output.stdout);
    let verdict = text.lines().filter(|line| line.starts_with('!')).find_map(|line| {
        let summary = line.split('\t').nth(2)?;
        Some(summary.to_owned())
    });
    let said = words(&output.stderr, output.status);
    Err(match verdict {
        Some(verdict) => {
            let message = format!("{}\n{said}", without_credentials(&verdict));
            match verdict.starts_with("[rejected]") {
                true => RemoteError::Behind { remote, branch, message },
                false => RemoteError::Refused { remote, branch, message },
            }
        }
        None => RemoteError::Failed { remote, message: said },
    })
}

/// The commit that the remote has for a branch now. It is asked, over the network.
pub fn has(repo: &Path, remote: &str, branch: &str) -> Result<Option<String>, RemoteError> {
    known(repo, remote)?;
    let wanted = format!("refs/heads/{branch}");
    let mut command = git::users(repo);
    command.args(["ls-remote", "--", remote, &wanted]);
    let (output, ..) = git::finish(command, Vec::new())?;
    if !output.status.success() {
        let message = words(&output.stderr, output.status);
        return Err(RemoteError::Failed { remote: remote.to_owned(), message });
    }
    // Names that end like it are listed too.
    let text = String::from_utf8_lossy(&output.stdout);
    let mut refs = text.lines().filter_map(|line| line.split_once('\t'));
    Ok(refs.find(|(_, name)| *name == wanted).map(|(id, _)| id.to_owned()))
}

/// The branch that the remote's work goes to, as far as that is known here.
pub fn default_branch(repo: &Path, remote: &str) -> Option<String> {
    let below = format!("refs/remotes/{remote}/");
    let mut command = git::safe(repo);
    command.args(["symbolic-ref", "-q", &format!("{below}HEAD")]);
    let head = git::run(command).map(|name| git::line(&name)).unwrap_or_default();
    let head = head.strip_prefix(&below);
    let exists = |name: &&str| {
        let mut command = git::safe(repo);
        command.args(["rev-parse", "-q", "--verify", "--end-of-options"]);
        command.arg(format!("{below}{name}^{{commit}}"));
        git::run(command).is_ok()
    };
    head.into_iter().chain(["main", "master"]).find(exists).map(str::to_owned)
}

/// A name that git would take for a path or a URL is no remote.
fn known(repo: &Path, remote: &str) -> Result<(), RemoteError> {
    let known = remotes(repo)?;
    match known.iter().any(|name| name == remote) {
        true => Ok(()),
        false => Err(RemoteError::NoRemote { remote: without_credentials(remote), known }),
    }
}

/// What git said of a failure.
fn words(stderr: &[u8], status: std::process::ExitStatus) -> String {
    match without_credentials(String::from_utf8_lossy(stderr).trim()) {
        text if text.is_empty() => format!("git ended with {status}"),
        text => text,
    }
}

/// A text whose URLs have no user and no password. Git leaves them out by itself in most places.
fn without_credentials(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"'));
        let (url, others) = after.split_at_checked(end.unwrap_or(after.len())).unwrap_or_default();
        // A password may hold a slash.
        clean.push_str(url.rsplit_once('@').map_or(url, |(_, rest)| rest));
        rest = others;
    }
    clean + rest
}
