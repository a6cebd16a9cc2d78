//! Bringing a working tree back to a snapshot.
//!
//! Promise: before anything changes, what is there is snapshotted, with every ignored file that
//! would be overwritten or is in the way; so a restore can itself be undone. Afterwards files,
//! links, permission bits and empty directories are those of the target. Ignored files stay as they
//! are; index, `HEAD`, branches, stash and reflogs are not touched. No link is followed, and a
//! target with a path that leads out of the working tree or into `.git` is refused as a whole.
//!
//! Killed at any point and called again with the same target, it completes. A file is written
//! beside its place and renamed into it; what is left of that is untracked, and so is cleaned up by
//! the next run. The first safety snapshot stays: a later one gets a number, `<reference>-2`.
//!
//! A repository inside that is not in the target is left where it is, since removing it would remove
//! its history; it is named in [`Plan::left`].

mod difference;
mod target;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use self::difference::Steps;
use self::target::Target;
use self::tree::{Blobs, Tree};
use crate::checkpoint::{Held, SnapshotError, Snapshots, Taken};
use crate::git::{self, GitError};
use crate::index::{EXEC, LINK};

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("cannot restore {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the snapshot has a path that must not be written: {}", .0.display())]
    UnsafePath(PathBuf),
    #[error("{} is in the way and is not removed", .0.display())]
    InTheWay(PathBuf),
    #[error("snapshot {commit} cannot be read")]
    Unreadable { commit: String },
}

impl From<GitError> for RestoreError {
    fn from(error: GitError) -> RestoreError {
        RestoreError::Snapshot(error.into())
    }
}

/// What a restore would do, or did. Paths are relative to the top, inner repositories included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub added: Vec<PathBuf>,
    pub modified: Vec<PathBuf>,
    pub deleted: Vec<PathBuf>,
    /// Only the permission bits differ.
    pub modes: Vec<PathBuf>,
    /// Repositories that stay as they are: not in the target, or gone since.
    pub left: Vec<PathBuf>,
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.modified.is_empty()
            && self.deleted.is_empty()
            && self.modes.is_empty()
    }

    fn retain(&mut self, wanted: &dyn Fn(&Path) -> bool) {
        for paths in [&mut self.added, &mut self.modified, &mut self.deleted, &mut self.modes] {
            paths.retain(|path| wanted(path));
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What was there before.
    pub safety: Taken,
    /// The reference it got.
    pub safety_ref: String,
    pub done: Plan,
}

impl Snapshots {
    /// What [`Snapshots::restore`] would do. Changes no file.
    pub fn plan(&self, target_commit: &str) -> Result<Plan, RestoreError> {
        let held = self.hold()?;
        let target = Target::load(self, target_commit, false)?;
        let forced = target.forced(self)?;
        let (_, now) = self.take_held(&held, None, "now", &forced)?;
        let mut plan = Plan::default();
        self.plan_into(&target, &now, &mut plan)?;
        Ok(plan)
    }

    /// Makes the working tree what it was, after a snapshot of what it is.
    pub fn restore(&self, target_commit: &str, safety_ref: &str) -> Result<Restored, RestoreError> {
        self.restore_some(target_commit, safety_ref, &|_| true)
    }

    /// The same for some of the files: the others, and repositories inside, stay as they are.
    pub fn restore_some(
        &self,
        target_commit: &str,
        safety_ref: &str,
        wanted: &dyn Fn(&Path) -> bool,
    ) -> Result<Restored, RestoreError> {
        let held = self.hold()?;
        let target = Target::load(self, target_commit, true)?;
        let forced = target.forced(self)?;
        let reference = self.free_ref(safety_ref)?;
        let (safety, now) = self.take_held(&held, Some(&reference), "before a rewind", &forced)?;
        let mut done = Plan::default();
        let mut steps = self.plan_into(&target, &now, &mut done)?;
        // What one that was killed has left half written is nobody's.
        steps.retain(&|path| wanted(path) || tree::is_part(path));
        done.retain(wanted);
        self.perform(&held, &target, steps)?;
        Ok(Restored { safety, safety_ref: reference, done })
    }

    /// The reference, or the first numbered one beside it that is not taken.
    fn free_ref(&self, wanted: &str) -> Result<String, RestoreError> {
        let taken: BTreeSet<String> =
            self.list(wanted)?.into_iter().map(|(name, _)| name).collect();
        let numbered = (2_u64..).map(|number| format!("{wanted}-{number}"));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        Ok(names.find(|name| !taken.contains(name)).unwrap_or_else(|| wanted.to_owned()))
    }

    fn perform(&self, _held: &Held, target: &Target, steps: Steps) -> Result<(), RestoreError> {
        let mut tree = Tree::open(&self.place.top)?;
        for path in &steps.delete {
            tree.remove_file(path)?;
        }
        for dir in &steps.remove_dirs {
            tree.remove_dir(dir)?;
        }
        for dir in &steps.dirs {
            tree.make_dir(dir)?;
        }
        let mut blobs = Blobs::start(self.reader())?;
        for path in &steps.write {
            if let Some((mode, id)) = target.files.get(path) {
                let bits = target.manifest.file_mode(path, *mode == EXEC);
                tree.write(path, *mode == LINK, bits, &mut blobs, id)?;
            }
        }
        drop(blobs);
        for (path, bits) in &steps.modes {
            tree.set_mode(path, *bits)?;
        }
        // Last and from the inside out, since a directory may forbid to write into it.
        for dir in steps.dirs.iter().rev() {
            if !target.manifest.nested.contains_key(dir) {
                tree.set_mode(dir, target.manifest.dir_mode(dir))?;
            }
        }
        for (path, inner) in steps.nested {
            if let Some(nested) = target.nested.get(&path) {
                let held = nested.repo.hold()?;
                nested.repo.perform(&held, &nested.target, inner)?;
            }
        }
        Ok(())
    }
}

pub(crate) fn io_error(path: &[u8], source: impl Into<io::Error>) -> RestoreError {
    RestoreError::Io { path: git::path(path).to_owned(), source: source.into() }
}
