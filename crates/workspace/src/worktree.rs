//! Worktrees of their own for sessions.
//!
//! Promise: nothing that exists nowhere else is removed. [`remove`] refuses while the worktree has
//! files that are not committed, or its branch has commits that no other branch, tag or remote has;
//! [`holds`] says which. [`rebuild`] brings back a worktree that is gone, from its branch and the
//! last snapshot, and drops the stale registration of exactly that path.
//!
//! Shape on disk: a branch `segue/<number>-<slug>`, checked out at `<repository>-segue-<number>`
//! beside the repository; both get a further number where the name is taken.

mod history;
mod landing;
mod message;
mod point;
#[cfg(test)]
mod tests;
mod unwind;

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

pub use self::history::{Mark, Trace, ending, holders, marks, trace};
pub use self::landing::{Landed, Landing, commit_all, commit_rest};
pub use self::unwind::{Unwound, unwind};
use crate::checkpoint::{Opened, SnapshotError, Snapshots};
use crate::git::{self, GitError};
use crate::restore::{RestoreError, Restored};

const MAX_SLUG: usize = 40;

#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Restore(#[from] RestoreError),
    #[error("cannot use {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is there already", .0.display())]
    Taken(PathBuf),
    #[error("{} is not a worktree on the branch {branch}", .path.display())]
    NotOurs { path: PathBuf, branch: String },
    #[error(
        "{} holds work that exists nowhere else: {} files, {} commits",
        .path.display(), .holding.files.len(), .holding.commits.len()
    )]
    WouldLose { path: PathBuf, holding: Box<Holding> },
    #[error("the branch {branch} is gone and there is no commit to begin it at")]
    NoBase { branch: String },
    #[error("somebody else has moved the branch {branch} at the same time")]
    Moved { branch: String },
}

/// Whether a session's worktree can be used as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    There,
    /// It is there, with another branch checked out; `None` when detached.
    Elsewhere(Option<String>),
    Gone,
}

/// What would be lost with a worktree and its branch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holding {
    /// Changed or untracked, relative to the worktree.
    pub files: Vec<PathBuf>,
    /// Ids of commits that only this branch has, newest first.
    pub commits: Vec<String>,
}

impl Holding {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.commits.is_empty()
    }
}

/// Makes a worktree at `path` with a new branch at `base`. No hook runs.
pub fn add(repo_dir: &Path, path: &Path, branch: &str, base: &str) -> Result<(), WorktreeError> {
    if std::fs::symlink_metadata(path).is_ok() {
        return Err(WorktreeError::Taken(path.to_owned()));
    }
    let mut command = checkout(repo_dir);
    command.args(["worktree", "add", "-q", "--no-track", "-b", branch, "--"]).arg(path).arg(base);
    let _alone = alone(repo_dir)?;
    git::run(command)?;
    Ok(())
}

/// Waits until nobody else of us makes a work tree in this repository: git looks at all of them while
/// it makes one, and fails over one that another git has half made. Ends with what is returned.
fn alone(repo_dir: &Path) -> Result<Option<File>, WorktreeError> {
    let common = here(repo_dir, &["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
    let lock = File::open(common).ok();
    // Where a directory can't be locked, git's word counts.
    Ok(lock.filter(|dir| dir.lock().is_ok()))
}

/// A git that checks files out, with the conversions that the user has set up.
fn checkout(dir: &Path) -> std::process::Command {
    let mut command = git::plain(dir);
    command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    command.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    for setting in git::DURABLE {
        command.args(["-c", setting]);
    }
    command
}

/// How many files of a work tree differ from its last commit.
pub fn uncommitted(dir: &Path) -> Result<usize, WorktreeError> {
    Ok(here(dir, &["status", "--porcelain"])?.lines().count())
}

/// The commit that a work tree is at.
pub fn tip(dir: &Path) -> Result<String, WorktreeError> {
    here(dir, &["rev-parse", "HEAD"])
}

/// What a git in this directory says.
fn here(dir: &Path, args: &[&str]) -> Result<String, WorktreeError> {
    let mut command = checkout(dir);
    command.args(args);
    let text = git::run(command)?;
    Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
}

/// `segue/<number>-<slug>`, with `-2`, `-3`, … where a branch has that name.
pub fn branch_name(repo_dir: &Path, number: u64, prompt: &str) -> Result<String, WorktreeError> {
    let slug = slug(prompt);
    let mut name = format!("segue/{number}");
    if !slug.is_empty() {
        name = format!("{name}-{slug}");
    }
    let taken = branches(repo_dir)?;
    let found = free_among(&taken, &name);
    // Somebody has a branch that is just `segue`: then there can be none below it.
    let segue = taken.iter().any(|one| one == "segue");
    Ok(if segue { found.replacen('/', "-", 1) } else { found })
}

/// A branch's name, with `-2`, `-3`, … where a branch has it.
pub fn free_branch(repo_dir: &Path, name: &str) -> Result<String, WorktreeError> {
    Ok(free_among(&branches(repo_dir)?, name))
}

/// All branches, in small letters: some disks make no difference.
fn branches(repo_dir: &Path) -> Result<Vec<String>, WorktreeError> {
    let mut command = git::safe(repo_dir);
    command.args(["for-each-ref", "--format=%(refname)", "refs/heads/"]);
    let output = git::run(command)?;
    let text = String::from_utf8_lossy(&output).to_lowercase();
    let names = text.lines().filter_map(|line| line.strip_prefix("refs/heads/"));
    Ok(names.map(str::to_owned).collect())
}

fn free_among(taken: &[String], name: &str) -> String {
    // A branch cannot be a directory of another one either.
    let is_free = |name: &String| {
        let (name, below) = (name.to_lowercase(), format!("{}/", name.to_lowercase()));
        !taken.iter().any(|one| *one == name || one.starts_with(&below))
    };
    let mut names =
        std::iter::once(name.to_owned()).chain((2_u64..).map(|n| format!("{name}-{n}")));
    names.find(is_free).unwrap_or_else(|| name.to_owned())
}

/// A prompt in a few plain words: `a-z`, `0-9` and `-`, at most 40 of them.
pub fn slug(prompt: &str) -> String {
    let mut slug = String::new();
    for character in prompt.chars() {
        if slug.len() > MAX_SLUG {
            break;
        }
        match character.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => slug.push(c),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    if slug.len() > MAX_SLUG {
        // Rather a word less than half a word.
        let end =
            slug.get(..=MAX_SLUG).and_then(|s| s.rfind('-')).filter(|end| *end > MAX_SLUG / 2);
        slug.truncate(end.unwrap_or(MAX_SLUG));
    }
    slug.trim_end_matches('-').to_owned()
}

/// `<repository>-segue-<number>` beside the main working tree, made unique.
pub fn default_path(repo_dir: &Path, number: u64) -> Result<PathBuf, WorktreeError> {
    free_path(repo_dir, &format!("-segue-{number}"))
}

/// The same for one of several: `<repository>-segue-<number>-<part>`.
pub fn path_of(repo_dir: &Path, number: u64, part: &str) -> Result<PathBuf, WorktreeError> {
    free_path(repo_dir, &format!("-segue-{number}-{part}"))
}

fn free_path(repo_dir: &Path, ending: &str) -> Result<PathBuf, WorktreeError> {
    let common = common_dir(repo_dir)?;
    let main = match common.file_name() {
        Some(name) if name == ".git" => common.parent().unwrap_or(&common),
        _ => &common,
    };
    let mut name = main.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    let above = main.parent().unwrap_or(main);
    let first = above.join(&name);
    let others = (2_u64..).map(|n| {
        let mut other = name.clone();
        other.push(format!("-{n}"));
        above.join(other)
    });
    let mut paths = std::iter::once(first.clone()).chain(others);
    Ok(paths.find(|path| std::fs::symlink_metadata(path).is_err()).unwrap_or(first))
}

/// Whether a worktree is still there, with its branch.
pub fn reenter(path: &Path, branch: &str) -> Result<Presence, WorktreeError> {
    if !path.is_dir() {
        return Ok(Presence::Gone);
    }
    let mut command = git::safe(path);
    command.args(["rev-parse", "--show-toplevel"]);
    let top = match git::run(command) {
        Ok(top) => top,
        Err(GitError::Failed { .. }) => return Ok(Presence::Gone),
        Err(error) => return Err(error.into()),
    };
    let top = git::path(top.strip_suffix(b"\n").unwrap_or(&top));
    if real(top)? != real(path)? {
        // A plain directory inside of some other repository.
        return Ok(Presence::Gone);
    }
    let mut command = git::safe(path);
    command.args(["symbolic-ref", "-q", "--short", "HEAD"]);
    let current = git::ask(command, Vec::new(), 1)?.map(|name| git::line(&name));
    Ok(match current {
        Some(current) if current == branch => Presence::There,
        current => Presence::Elsewhere(current),
    })
}

/// Brings back a branch that is gone, at a commit that is still there.
pub fn bring_back(repo_dir: &Path, branch: &str, commit: &str) -> Result<(), WorktreeError> {
    let name = format!("refs/heads/{branch}");
    for wanted in [name.as_str(), commit] {
        let mut command = git::safe(repo_dir);
        command.args(["rev-parse", "-q", "--verify", "--end-of-options"]);
        command.arg(format!("{wanted}^{{commit}}"));
        let there = git::ask(command, Vec::new(), 1)?.is_some();
        if there == (wanted == name) {
            return Ok(());
        }
    }
    let mut command = git::safe(repo_dir);
    // Only where nobody has made it meanwhile.
    command.args(["update-ref", "-m", "segue: brought back", &name, commit, ""]);
    git::run(command)?;
    Ok(())
}

/// Brings back a worktree that is gone: on its branch, or where that is gone too on a new one at
/// the snapshot's parent or else at `base`; then with the snapshot's files. `repo_dir` is any other
/// working tree of the repository.
pub fn rebuild(
    repo_dir: &Path,
    path: &Path,
    branch: &str,
    base: Option<&str>,
    snapshot: Option<&str>,
    key: &str,
    safety_ref: &str,
) -> Result<Option<Restored>, WorktreeError> {
    if std::fs::symlink_metadata(path).is_ok() {
        return Err(WorktreeError::Taken(path.to_owned()));
    }
    forget(repo_dir, path)?;
    let has = |name: &str| -> Result<Option<String>, GitError> {
        let mut command = git::safe(repo_dir);
        command.args(["rev-parse", "-q", "--verify", "--end-of-options"]);
        command.arg(format!("{name}^{{commit}}"));
        Ok(git::ask(command, Vec::new(), 1)?.map(|id| git::line(&id)))
    };
    if has(&format!("refs/heads/{branch}"))?.is_some() {
        let mut command = checkout(repo_dir);
        command.args(["worktree", "add", "-q", "--"]).arg(path).arg(branch);
        let _alone = alone(repo_dir)?;
        git::run(command)?;
    } else {
        let parent = match snapshot {
            Some(snapshot) => has(&format!("{snapshot}^"))?,
            None => None,
        };
        let Some(start) = parent.as_deref().or(base) else {
            return Err(WorktreeError::NoBase { branch: branch.to_owned() });
        };
        add(repo_dir, path, branch, start)?;
    }
    let Some(snapshot) = snapshot else { return Ok(None) };
    match Snapshots::open(path, key)? {
        Opened::Ready(snapshots) => Ok(Some(snapshots.restore(snapshot, safety_ref)?)),
        Opened::Unable(_) => {
            Err(WorktreeError::NotOurs { path: path.to_owned(), branch: branch.to_owned() })
        }
    }
}

/// What would be lost if the worktree and its branch were removed. A worktree that is gone holds no
/// files; its branch may hold commits.
pub fn holds(repo_dir: &Path, path: &Path, branch: &str) -> Result<Holding, WorktreeError> {
    let mut holding = Holding::default();
    if reenter(path, branch)? != Presence::Gone {
        let mut command = git::safe(path);
        command.args(["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"]);
        command.arg("--ignore-submodules=none");
        let output = git::run(command)?;
        let lines = output.split(|&b| b == 0).filter_map(|line| line.get(3..));
        holding.files = lines.map(|path| git::path(path).to_owned()).collect();
    }
    let own = format!("refs/heads/{branch}");
    let mut command = git::safe(repo_dir);
    command.args(["rev-parse", "-q", "--verify", "--end-of-options", &own]);
    let mut tips = Vec::new();
    if git::ask(command, Vec::new(), 1)?.is_some() {
        tips.push(own);
    }
    // Commits made without a branch are only there.
    if let Presence::Elsewhere(None) = reenter(path, branch)? {
        let mut command = git::safe(path);
        command.args(["rev-parse", "-q", "--verify", "HEAD"]);
        tips.extend(git::ask(command, Vec::new(), 1)?.map(|id| git::line(&id)));
    }
    if !tips.is_empty() {
        let mut command = git::safe(repo_dir);
        command.arg("rev-list").args(tips).arg("--not");
        // The pattern of an exclusion is without `refs/heads/` here.
        command.arg(format!("--exclude={}", literal(branch))).arg("--branches");
        command.args(["--tags", "--remotes", "--"]);
        holding.commits = git::line(&git::run(command)?).lines().map(str::to_owned).collect();
    }
    Ok(holding)
}

/// A name as a pattern that fits nothing else.
fn literal(name: &str) -> String {
    let special = |c: char| matches!(c, '*' | '?' | '[' | '\\');
    name.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// Removes a worktree and its branch. Without `force` not while they hold work that is nowhere else.
pub fn remove(
    repo_dir: &Path,
    path: &Path,
    branch: &str,
    force: bool,
) -> Result<(), WorktreeError> {
    let holding = holds(repo_dir, path, branch)?;
    if !force && !holding.is_empty() {
        let holding = Box::new(holding);
        return Err(WorktreeError::WouldLose { path: path.to_owned(), holding });
    }
    match reenter(path, branch)? {
        Presence::There => {
            let mut command = git::safe(repo_dir);
            // Git refuses without it where a submodule is checked out; what counts was checked above.
            command.args(["worktree", "remove", "--force", "--"]).arg(path);
            git::run(command)?;
        }
        Presence::Gone => forget(repo_dir, path)?,
        Presence::Elsewhere(_) => {
            let (path, branch) = (path.to_owned(), branch.to_owned());
            return Err(WorktreeError::NotOurs { path, branch });
        }
    }
    let mut command = git::safe(repo_dir);
    command.args(["rev-parse", "-q", "--verify", "--end-of-options"]);
    command.arg(format!("refs/heads/{branch}"));
    if git::ask(command, Vec::new(), 1)?.is_some() {
        let mut command = git::safe(repo_dir);
        command.args(["branch", "-q", "-D", "--", branch]);
        git::run(command)?;
    }
    Ok(())
}

/// Drops the registration of a worktree whose directory is gone; of this one only, since others may
/// be on a disk that is not mounted now.
fn forget(repo_dir: &Path, path: &Path) -> Result<(), WorktreeError> {
    let list = common_dir(repo_dir)?.join("worktrees");
    let fail = |source| WorktreeError::Io { path: list.clone(), source };
    let entries = match std::fs::read_dir(&list) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(fail(source)),
    };
    let wanted = resolve(path).join(".git");
    for entry in entries {
        let entry = entry.map_err(fail)?.path();
        let Ok(text) = std::fs::read(entry.join("gitdir")) else { continue };
        let registered = entry.join(git::path(text.trim_ascii_end()));
        if resolve(&registered).as_os_str().as_bytes() == wanted.as_os_str().as_bytes()
            && std::fs::symlink_metadata(&wanted).is_err()
        {
            std::fs::remove_dir_all(&entry).map_err(fail)?;
        }
    }
    Ok(())
}

/// As much of a path as exists, without links.
fn resolve(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors() {
        if let Ok(real) = std::fs::canonicalize(above) {
            let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path
}

fn real(path: &Path) -> Result<PathBuf, WorktreeError> {
    let fail = |source| WorktreeError::Io { path: path.to_owned(), source };
    std::fs::canonicalize(path).map_err(fail)
}

fn common_dir(repo_dir: &Path) -> Result<PathBuf, WorktreeError> {
    let mut command = git::safe(repo_dir);
    command.args(["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    let output = git::run(command)?;
    real(git::path(output.strip_suffix(b"\n").unwrap_or(&output)))
}
