//! Finding the working tree, and making the private directories that go with it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{SnapshotError, Snapshots};
use crate::git::{self, GitError, Place};
use crate::repo::{find, separator};

/// Snapshots, or why there are none.
#[derive(Debug)]
pub enum Opened {
    Ready(Snapshots),
    Unable(Unable),
}

/// Why a directory cannot be snapshotted with git as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unable {
    #[error("git is not installed")]
    NoGit,
    #[error("the directory is in no git repository")]
    NoRepository,
    #[error("the repository has no working tree here")]
    Bare,
    #[error("git does not read this repository: {0}")]
    Refused(String),
}

impl Snapshots {
    /// Opens the working tree that a directory is in, for the session that `key` names.
    pub fn open(workspace_dir: &Path, key: &str) -> Result<Opened, SnapshotError> {
        check_key(key)?;
        let next = separator();
        let mut command = git::safe(workspace_dir);
        command.args(["rev-parse", "--path-format=absolute"]).args([
            "--is-bare-repository",
            &next,
            "--git-dir",
            &next,
            "--git-common-dir",
            &next,
            "--git-path",
            "objects",
            &next,
            "--show-object-format",
            &next,
            "--show-toplevel",
            &next,
        ]);
        let output = match git::run(command) {
            Ok(output) => output,
            Err(GitError::Missing) => return Ok(Opened::Unable(Unable::NoGit)),
            Err(GitError::Failed { message, .. }) => return Ok(Opened::Unable(unable(&message))),
            Err(error) => return Err(error.into()),
        };
        let answers = split(&output, &next);
        let [bare, git_dir, common, objects, format, top] = answers.as_slice() else {
            let what = "rev-parse".to_owned();
            return Err(GitError::Odd { what, dir: workspace_dir.to_owned() }.into());
        };
        if bare.starts_with(b"true") {
            return Ok(Opened::Unable(Unable::Bare));
        }
        let real = |bytes: &[u8]| {
            let path = PathBuf::from(OsStr::from_bytes(bytes));
            std::fs::canonicalize(&path).map_err(|source| SnapshotError::Io { path, source })
        };
        let git_dir = real(git_dir)?;
        let place = Place {
            top: real(top)?,
            raw_dir: git_dir.join("segue/raw"),
            git_dir,
            common: real(common)?,
            objects: real(objects)?,
            id_len: if *format == b"sha256" { 32 } else { 20 },
            attr_source: knows_attr_source()?,
        };
        prepare(&place)?;
        Ok(Opened::Ready(Snapshots { place, key: key.to_owned(), shadow: false }))
    }

    /// A private repository for a directory that is in none. It is made when it is not there yet.
    pub fn shadow(git_dir: &Path, work_tree: &Path, key: &str) -> Result<Snapshots, SnapshotError> {
        check_key(key)?;
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| SnapshotError::Io { path, source }
        };
        std::fs::create_dir_all(git_dir).map_err(fail(git_dir))?;
        let git_dir = std::fs::canonicalize(git_dir).map_err(fail(git_dir))?;
        let place = Place {
            top: std::fs::canonicalize(work_tree).map_err(fail(work_tree))?,
            common: git_dir.clone(),
            raw_dir: git_dir.join("segue/raw"),
            objects: git_dir.join("objects"),
            git_dir,
            id_len: 20,
            attr_source: knows_attr_source()?,
        };
        bare(&place.git_dir, 20)?;
        prepare(&place)?;
        Ok(Snapshots { place, key: key.to_owned(), shadow: true })
    }

    /// A file of this session, below the git directory.
    pub(super) fn file(&self, kind: &str) -> PathBuf {
        self.place.git_dir.join("segue").join(format!("{}.{kind}", self.key))
    }
}

/// A key becomes a file name.
fn check_key(key: &str) -> Result<(), SnapshotError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if key.is_empty() || key.len() > 64 || !key.chars().all(fine) {
        return Err(SnapshotError::BadKey(key.to_owned()));
    }
    Ok(())
}

fn unable(message: &str) -> Unable {
    let line = message.lines().find_map(|line| line.strip_prefix("fatal: ")).unwrap_or(message);
    match line {
        line if line.starts_with("not a git repository (or any") => Unable::NoRepository,
        line if line.contains("must be run in a work tree") => Unable::Bare,
        line => Unable::Refused(line.to_owned()),
    }
}

/// The answers before each separator, without their line breaks.
fn split<'a>(output: &'a [u8], next: &str) -> Vec<&'a [u8]> {
    let mut answers = Vec::new();
    let mut rest = output;
    while let Some(at) = find(rest, next.as_bytes()) {
        let (answer, after) = rest.split_at(at);
        answers.push(answer.strip_suffix(b"\n").unwrap_or(answer));
        rest = after.get(next.len() + 1..).unwrap_or_default();
    }
    answers
}

fn prepare(place: &Place) -> Result<(), SnapshotError> {
    bare(&place.raw_dir, place.id_len)
}

/// As little as git needs to take a directory for a repository.
fn bare(dir: &Path, id_len: usize) -> Result<(), SnapshotError> {
    let config = dir.join("config");
    if config.exists() {
        return Ok(());
    }
    let text = match id_len {
        20 => "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
        _ => {
            "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectFormat = sha256\n"
        }
    };
    let make = || {
        for name in ["refs", "objects/info", "objects/pack"] {
            std::fs::create_dir_all(dir.join(name))?;
        }
        // The settings last: where they are, all is there. Others may make the same at this time.
        for (name, text) in [("HEAD", "ref: refs/heads/none\n"), ("config", text)] {
            static COUNTER: AtomicU64 = AtomicU64::new(0);
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let part = dir.join(format!("{name}.{}-{number}", std::process::id()));
            std::fs::write(&part, text)?;
            std::fs::rename(&part, dir.join(name))?;
        }
        Ok(())
    };
    make().map_err(|source| SnapshotError::Io { path: dir.to_owned(), source })
}

/// Since git 2.41. Asked once.
fn knows_attr_source() -> Result<bool, SnapshotError> {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    if let Some(answer) = ANSWER.get() {
        return Ok(*answer);
    }
    let mut command = git::safe(Path::new("/"));
    command.arg("version");
    let text = git::line(&git::run(command)?);
    let mut numbers = text.split(' ').nth(2).unwrap_or_default().split('.').map(str::parse::<u32>);
    let major = numbers.next().and_then(Result::ok).unwrap_or(0);
    let minor = numbers.next().and_then(Result::ok).unwrap_or(0);
    Ok(*ANSWER.get_or_init(|| (major, minor) >= (2, 41)))
}
