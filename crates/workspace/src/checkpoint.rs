//! Snapshots of a working tree, as commits that no branch points to.
//!
//! Promise: a snapshot holds every file that is tracked or untracked and not ignored, byte by byte
//! as it is on disk (no line ends, filters or encodings are converted), with its permission bits,
//! empty directories and the repositories inside of it. Taking one changes nothing that is the
//! user's: index, branches, `HEAD`, stash, reflogs and files stay as they are, and no hook runs.
//! Linked worktrees of the same repository that happen to lie inside are left out: they are working
//! trees of their own.
//!
//! Shape on disk, below the git directory of the working tree:
//!
//! ```text
//! segue/raw/         a nearly empty git directory, so that none of the user's settings apply
//! segue/<key>.index  the private index: a cache of file status, safe to delete
//! segue/<key>.last   the last snapshot (JSON), so that an unchanged tree is not written again
//! segue/<key>.lock   held while one session works; each session has a key of its own
//! ```
//!
//! The commit's parent is `HEAD`; the last line of its message is described in [`crate::manifest`].

mod open;
mod query;
mod stat;
mod store;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::PathBuf;

pub use self::open::{Opened, Unable};
pub use self::query::{Change, Status};
pub use self::stat::Lines;
use crate::git::{self, GitError, Place};
use crate::index::{EXEC, Entries, LINK, REPO};
use crate::manifest::{Manifest, Nested, Usual, most_frequent};
use crate::scan::{Known, Scan, ScanError, Seen, below};

/// How often a snapshot is begun again, when files change under it.
const ATTEMPTS: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Scan(#[from] ScanError),
    #[error("cannot use {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{0:?} cannot be a session's key: letters, digits, `-` and `_` only")]
    BadKey(String),
    #[error("{commit} in {} is not a snapshot", .repo.display())]
    NotASnapshot { repo: PathBuf, commit: String },
}

/// The snapshots of one working tree, for one session.
#[derive(Debug, Clone)]
pub struct Snapshots {
    pub(crate) place: Place,
    key: String,
    /// The directory is in no repository; this one is private.
    shadow: bool,
}

/// A longer file is left out: a data set beside the code would be copied with every change.
pub const MAX_FILE: u64 = 256 << 20;

/// A snapshot that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub commit: String,
    pub tree: String,
    /// The user's `HEAD` at that time.
    pub head: Option<String>,
    /// The user's branch at that time; `None` when detached.
    pub branch: Option<String>,
    /// Nothing had changed, so this is the snapshot before.
    pub reused: bool,
    /// What could not be read or is too long, and is not in it.
    pub skipped: Vec<PathBuf>,
}

/// Paths that go into a snapshot even where git ignores them.
#[derive(Debug, Default, Clone)]
pub(crate) struct Forced {
    pub(crate) paths: BTreeSet<Vec<u8>>,
    pub(crate) dirs: BTreeSet<Vec<u8>>,
    pub(crate) nested: BTreeMap<Vec<u8>, Forced>,
}

/// Held while the private index is in use.
#[derive(Debug)]
pub(crate) struct Held(#[expect(dead_code, reason = "closing it lets go")] File);

/// What a working tree had to say.
struct Looked<'a> {
    tracked: &'a Entries,
    seen: Seen<'a>,
    head: Option<String>,
    branch: Option<String>,
    last: Option<store::Last>,
    /// The private index, and when it was written.
    private: Option<(Entries, (u32, u32))>,
    start: std::time::SystemTime,
}

/// What git and the cache had to say.
struct Facts {
    head: Option<String>,
    branch: Option<String>,
    last: Option<store::Last>,
    private: (Entries, (u32, u32)),
}

impl Snapshots {
    /// The top of the working tree that is snapshotted.
    pub fn top(&self) -> &std::path::Path {
        &self.place.top
    }

    /// Takes a snapshot and puts `reference` on it, such as `refs/segue/<session>/7`.
    pub fn take(&self, reference: &str, message: &str) -> Result<Taken, SnapshotError> {
        let held = self.hold()?;
        Ok(self.take_held(&held, Some(reference), message, &Forced::default())?.0)
    }

    /// A snapshot that no reference keeps, to compare with.
    pub fn take_unnamed(&self) -> Result<Taken, SnapshotError> {
        let held = self.hold()?;
        Ok(self.take_held(&held, None, "now", &Forced::default())?.0)
    }

    pub(crate) fn hold(&self) -> Result<Held, SnapshotError> {
        let path = self.file("lock");
        let lock = File::options().create(true).append(true).open(&path);
        let lock = lock.and_then(|file| file.lock().map(|()| file));
        lock.map(Held).map_err(|source| SnapshotError::Io { path, source })
    }

    pub(crate) fn take_held(
        &self,
        _held: &Held,
        reference: Option<&str>,
        message: &str,
        forced: &Forced,
    ) -> Result<(Taken, Manifest), SnapshotError> {
        let mut attempt = 1;
        loop {
            match self.attempt(reference, message, forced) {
                Err(SnapshotError::Git(GitError::Failed { .. } | GitError::Killed { .. }))
                    if attempt < ATTEMPTS =>
                {
                    // A file changed while git read it, or the cache names objects that are gone.
                    self.forget()?;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    fn attempt(
        &self,
        reference: Option<&str>,
        message: &str,
        forced: &Forced,
    ) -> Result<(Taken, Manifest), SnapshotError> {
        let start = std::time::SystemTime::now();
        std::thread::scope(|scope| {
            // Git is asked about `HEAD` while the working tree is read.
            let facts = scope.spawn(|| self.facts());
            let tracked = self.tracked()?;
            let seen = self.see(&tracked, forced);
            let facts = facts.join().unwrap_or_else(|_| {
                let source = io::Error::other("a thread failed");
                Err(SnapshotError::Io { path: self.place.top.clone(), source })
            });
            let Facts { head, branch, last, private } = facts?;
            let private = Some(private);
            let looked =
                Looked { tracked: &tracked, seen: seen?, head, branch, last, private, start };
            self.take_looked(looked, reference, message, forced)
        })
    }

    fn facts(&self) -> Result<Facts, SnapshotError> {
        let ((head, branch), last) = self.head_and_last()?;
        Ok(Facts { head, branch, last, private: self.private()? })
    }

    fn see<'a>(&'a self, tracked: &'a Entries, forced: &'a Forced) -> Result<Seen<'a>, ScanError> {
        let scan = Scan {
            place: &self.place,
            known: Known::new(tracked, forced),
            leave_out: below(&self.place.top, &self.place.git_dir).filter(|_| self.shadow),
            limited: self.shadow,
        };
        scan.run()
    }

    fn take_looked(
        &self,
        mut looked: Looked<'_>,
        reference: Option<&str>,
        message: &str,
        forced: &Forced,
    ) -> Result<(Taken, Manifest), SnapshotError> {
        if looked.last.is_none() {
            self.forget()?;
        }
        let (nested, heads) = self.take_nested(&mut looked, reference, message, forced)?;
        let changed = self.update(&mut looked, &heads)?;
        let manifest = manifest(&looked.seen, nested);
        let line = manifest.to_line().map_err(|error| SnapshotError::Io {
            path: self.place.top.clone(),
            source: error.into(),
        })?;
        let mark = store::mark(&line, looked.head.as_deref());
        let tree = match &looked.last {
            Some(last) if !changed => last.tree.clone(),
            _ => self.write_tree(looked.tracked.iter().any(|entry| entry.skip))?,
        };
        let same = looked.last.filter(|last| last.tree == tree && last.mark == mark);
        let reused = same.is_some();
        let commit = match same {
            Some(last) => {
                if changed {
                    self.remember(&last)?;
                }
                last.commit
            }
            None => {
                let commit = self.write_commit(&tree, looked.head.as_deref(), message, &line)?;
                self.remember(&store::Last { commit: commit.clone(), tree: tree.clone(), mark })?;
                commit
            }
        };
        if let Some(reference) = reference {
            self.point(reference, &commit)?;
        }
        let skipped = manifest.skipped.iter().map(|path| git::path(path).to_owned()).collect();
        let (head, branch) = (looked.head, looked.branch);
        Ok((Taken { commit, tree, head, branch, reused, skipped }, manifest))
    }

    /// Snapshots the repositories inside of this one. Also says what is checked out in each.
    #[expect(clippy::type_complexity, reason = "two maps by path")]
    fn take_nested(
        &self,
        looked: &mut Looked<'_>,
        reference: Option<&str>,
        message: &str,
        forced: &Forced,
    ) -> Result<(BTreeMap<Vec<u8>, Nested>, BTreeMap<Vec<u8>, Option<String>>), SnapshotError> {
        let (mut nested, mut heads) = (BTreeMap::new(), BTreeMap::new());
        let none = Forced::default();
        for path in &looked.seen.nested {
            let dir = self.place.top.join(git::path(path));
            let Some(inner) = self.inner(&dir)? else {
                looked.seen.skipped.insert(path.clone());
                continue;
            };
            if inner.place.common == self.place.common {
                continue;
            }
            let held = inner.hold()?;
            let forced = forced.nested.get(path).unwrap_or(&none);
            let (taken, _) = inner.take_held(&held, reference, message, forced)?;
            let link = std::fs::read_to_string(dir.join(".git")).ok();
            nested.insert(path.clone(), Nested { commit: taken.commit, link });
            heads.insert(path.clone(), taken.head);
        }
        Ok((nested, heads))
    }

    /// The repository at exactly this directory.
    pub(crate) fn inner(&self, dir: &std::path::Path) -> Result<Option<Snapshots>, SnapshotError> {
        match Snapshots::open(dir, &self.key)? {
            Opened::Ready(inner) if inner.place.top == dir => Ok(Some(inner)),
            _ => Ok(None),
        }
    }

    /// Brings the private index up to date. Says whether anything had changed.
    fn update(
        &self,
        looked: &mut Looked<'_>,
        heads: &BTreeMap<Vec<u8>, Option<String>>,
    ) -> Result<bool, SnapshotError> {
        let (private, written) = match looked.private.take() {
            Some(private) if self.file("index").exists() => private,
            _ => {
                self.seed(looked.tracked, &looked.seen)?;
                self.private()?
            }
        };
        let fixed = fixed(looked, heads);
        let mut edits = store::Edits::default();
        let mut placed: BTreeSet<&[u8]> = BTreeSet::new();
        // Both are sorted by path, so one pass over both will do.
        let mut files = looked.seen.files.iter().peekable();
        let mut unclean = Vec::new();
        for entry in private.iter() {
            let path = entry.path;
            while let Some(file) = files.next_if(|(file, _)| **file < *path) {
                unclean.push(file);
            }
            if let Some((_, found)) = files.peek().filter(|(file, _)| **file == *path) {
                let same = entry.mode == found.mode && entry.stat == found.stat;
                // Written in the same moment as the index: it may have changed since.
                let settled = entry.stat.mtime < written;
                if same && settled && !entry.doubtful && !entry.skip {
                    files.next();
                } else if entry.doubtful || entry.skip {
                    edits.remove(&self.place, path);
                }
            } else if !entry.doubtful
                && fixed
                    .get(path)
                    .is_some_and(|(mode, id)| *mode == entry.mode && **id == *entry.hex_id())
            {
                placed.insert(path);
            } else {
                edits.remove(&self.place, path);
            }
        }
        unclean.extend(files);
        for (path, (mode, id)) in fixed.iter().filter(|(path, _)| !placed.contains(*path)) {
            edits.set(*mode, id, path);
        }
        let mut unreadable = Vec::new();
        for (path, found) in unclean {
            if found.mode != LINK && (found.len > MAX_FILE || self.unreadable(path)) {
                unreadable.push(path.to_vec());
            } else {
                edits.add(path, found.mode);
            }
        }
        looked.seen.skipped.extend(unreadable);
        self.apply(edits, looked)
    }

    fn unreadable(&self, path: &[u8]) -> bool {
        let opened = File::open(self.place.top.join(git::path(path)));
        opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// What goes into the tree without being read: repositories, and files that a sparse checkout keeps
/// away or that cannot be reached.
fn fixed<'a>(
    looked: &'a Looked<'_>,
    heads: &'a BTreeMap<Vec<u8>, Option<String>>,
) -> BTreeMap<&'a [u8], (u32, Cow<'a, str>)> {
    let seen = &looked.seen;
    let mut fixed = BTreeMap::new();
    // Both are sorted by path.
    let mut files = seen.files.iter().map(|(path, _)| &**path).peekable();
    for entry in looked.tracked.iter() {
        let path = entry.path;
        while files.next_if(|file| *file < path).is_some() {}
        let file = files.peek() == Some(&path);
        if file && entry.mode != REPO {
            continue;
        }
        let dir = seen.dirs.contains_key(path);
        let there = file || dir;
        let away = entry.skip && !there;
        let empty_repo = entry.mode == REPO && dir;
        let unreachable = !there && seen.skipped.iter().any(|dir| is_below(path, dir));
        if away || empty_repo || unreachable {
            fixed.insert(path, (entry.mode, Cow::Owned(entry.hex_id())));
        }
    }
    for (path, head) in heads {
        match head {
            Some(head) => fixed.insert(path, (REPO, Cow::Borrowed(head.as_str()))),
            None => fixed.remove(path.as_slice()),
        };
    }
    fixed
}

pub(crate) fn is_below(path: &[u8], dir: &[u8]) -> bool {
    path == dir || path.strip_prefix(dir).is_some_and(|rest| rest.starts_with(b"/"))
}

fn manifest(seen: &Seen<'_>, nested: BTreeMap<Vec<u8>, Nested>) -> Manifest {
    let of =
        |mode: u32| seen.files.iter().filter(move |(_, f)| f.mode == mode).map(|(_, f)| f.bits);
    let usual = Usual {
        file: most_frequent(of(crate::index::FILE), 0o644),
        exec: most_frequent(of(EXEC), 0o755),
        dir: most_frequent(seen.dirs.values().copied(), 0o755),
    };
    let mut modes = BTreeMap::new();
    for (path, found) in &seen.files {
        let expected = if found.mode == EXEC { usual.exec } else { usual.file };
        if found.mode != LINK && found.bits != expected {
            modes.insert(path.to_vec(), found.bits);
        }
    }
    for (path, bits) in &seen.dirs {
        if *bits != usual.dir {
            modes.insert(path.clone(), *bits);
        }
    }
    let empty = seen.empty.clone();
    Manifest { usual, empty, modes, nested, skipped: seen.skipped.clone() }
}
