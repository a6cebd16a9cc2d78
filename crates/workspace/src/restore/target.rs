//! What a snapshot says a working tree should be.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rustix::fs::FileType;

use super::{RestoreError, io_error};
use crate::checkpoint::{Forced, Snapshots};
use crate::git;
use crate::index::REPO;
use crate::manifest::{Manifest, Nested};
use crate::restore::tree::Tree;
use crate::scan::parent;

pub(super) struct Target {
    pub(super) manifest: Manifest,
    /// Mode and object of each file and link.
    pub(super) files: BTreeMap<Vec<u8>, (u32, String)>,
    /// Every directory but the top.
    pub(super) dirs: BTreeSet<Vec<u8>>,
    /// Those that are there for their own sake: empty ones and repositories.
    pub(super) own_dirs: BTreeSet<Vec<u8>>,
    pub(super) nested: BTreeMap<Vec<u8>, Inner>,
    /// Repositories of the snapshot that are not there any more.
    pub(super) lost: BTreeSet<Vec<u8>>,
}

pub(super) struct Inner {
    pub(super) repo: Snapshots,
    pub(super) target: Target,
}

impl Target {
    /// Reads a snapshot, and refuses one that must not be written. With `revive`, an inner
    /// repository whose `.git` was a file gets it back.
    pub(super) fn load(
        repo: &Snapshots,
        commit: &str,
        revive: bool,
    ) -> Result<Target, RestoreError> {
        let manifest = repo.manifest(commit)?;
        let mut command = repo.reader();
        command.args(["ls-tree", "-r", "-z", "--full-tree", commit]);
        let output = git::run(command)?;
        let unreadable = || RestoreError::Unreadable { commit: commit.to_owned() };
        let mut target = Target {
            manifest,
            files: BTreeMap::new(),
            dirs: BTreeSet::new(),
            own_dirs: BTreeSet::new(),
            nested: BTreeMap::new(),
            lost: BTreeSet::new(),
        };
        for line in output.split(|&b| b == 0).filter(|line| !line.is_empty()) {
            let (path, mode, id) = entry(line).ok_or_else(unreadable)?;
            check(&path)?;
            if mode == REPO {
                target.own_dirs.insert(path);
            } else if target.files.insert(path.clone(), (mode, id)).is_some() {
                return Err(RestoreError::UnsafePath(git::path(&path).to_owned()));
            }
        }
        let listed = target.manifest.empty.iter().chain(target.manifest.nested.keys());
        for path in listed.cloned().collect::<Vec<_>>() {
            check(&path)?;
            target.own_dirs.insert(path);
        }
        target.dirs = target.dirs_without(&BTreeSet::new());
        // A path that is a file and also a directory: a link that leads elsewhere.
        if let Some(path) = target.dirs.iter().find(|dir| target.files.contains_key(*dir)) {
            return Err(RestoreError::UnsafePath(git::path(path).to_owned()));
        }
        for (path, nested) in target.manifest.nested.clone() {
            match open(repo, &path, &nested, revive)? {
                Some(inner) => target.nested.insert(path, inner).map_or((), drop),
                None => drop(target.lost.insert(path)),
            }
        }
        Ok(target)
    }

    /// The directories that are needed when some of the files are not written.
    pub(super) fn dirs_without(&self, away: &BTreeSet<&[u8]>) -> BTreeSet<Vec<u8>> {
        let mut dirs = self.own_dirs.clone();
        let files = self.files.keys().filter(|path| !away.contains(path.as_slice()));
        for path in files.chain(&self.own_dirs) {
            let mut dir = parent(path);
            while !dir.is_empty() && dirs.insert(dir.to_vec()) {
                dir = parent(dir);
            }
        }
        dirs
    }

    /// What exists now at the target's paths: it has to be in the safety snapshot, ignored or not.
    pub(super) fn forced(&self, repo: &Snapshots) -> Result<Forced, RestoreError> {
        let mut forced = Forced::default();
        let mut tree = Tree::open(&repo.place.top)?;
        for path in self.files.keys() {
            match tree.kind(path).map_err(|error| io_error(path, error))? {
                Some(FileType::Directory) => collect(&repo.place.top, path, &mut forced)?,
                Some(_) => drop(forced.paths.insert(path.clone())),
                None => {}
            }
        }
        for dir in &self.dirs {
            let kind = tree.kind(dir).map_err(|error| io_error(dir, error))?;
            if kind.is_some_and(|kind| kind != FileType::Directory) {
                forced.paths.insert(dir.clone());
            }
        }
        for (path, inner) in &self.nested {
            forced.nested.insert(path.clone(), inner.target.forced(&inner.repo)?);
        }
        Ok(forced)
    }
}

/// Everything in a directory that stands where a file should be.
fn collect(top: &Path, dir: &[u8], forced: &mut Forced) -> Result<(), RestoreError> {
    let entries = std::fs::read_dir(top.join(git::path(dir)));
    for entry in entries.map_err(|error| io_error(dir, error))? {
        use std::os::unix::ffi::OsStrExt as _;
        let entry = entry.map_err(|error| io_error(dir, error))?;
        let name = entry.file_name();
        let path = [dir, b"/", name.as_bytes()].concat();
        if name.as_bytes() == b".git" {
            return Err(RestoreError::InTheWay(git::path(dir).to_owned()));
        }
        if entry.file_type().map_err(|error| io_error(&path, error))?.is_dir() {
            collect(top, &path, forced)?;
            forced.dirs.insert(path);
        } else {
            forced.paths.insert(path);
        }
    }
    Ok(())
}

fn open(
    repo: &Snapshots,
    path: &[u8],
    nested: &Nested,
    revive: bool,
) -> Result<Option<Inner>, RestoreError> {
    let dir = repo.place.top.join(git::path(path));
    if std::fs::symlink_metadata(dir.join(".git")).is_err() {
        let link = nested.link.as_deref().filter(|_| revive);
        let Some(link) = link else { return Ok(None) };
        let Some(git_dir) = link.strip_prefix("gitdir: ") else { return Ok(None) };
        let mut tree = Tree::open(&repo.place.top)?;
        if tree.make_parents(path).and_then(|()| tree.make_new_dir(path)).is_err() {
            // Something else is there now.
            return Ok(None);
        }
        if !dir.join(git_dir.trim_end()).join("HEAD").exists() {
            return Ok(None);
        }
        let file = dir.join(".git");
        std::fs::write(&file, link).map_err(|error| io_error(path, error))?;
    }
    let Some(inner) = repo.inner(&dir)? else { return Ok(None) };
    if !inner.exists(&nested.commit)? {
        return Ok(None);
    }
    let target = Target::load(&inner, &nested.commit, revive)?;
    Ok(Some(Inner { repo: inner, target }))
}

/// `<mode> <type> <id>\t<path>`.
fn entry(line: &[u8]) -> Option<(Vec<u8>, u32, String)> {
    let tab = line.iter().position(|&b| b == b'\t')?;
    let head = std::str::from_utf8(line.get(..tab)?).ok()?;
    let mut words = head.split(' ');
    let mode = u32::from_str_radix(words.next()?, 8).ok()?;
    let id = words.nth(1)?.to_owned();
    Some((line.get(tab + 1..)?.to_vec(), mode, id))
}

/// Every part is a plain name, and none is git's own.
pub(super) fn check(path: &[u8]) -> Result<(), RestoreError> {
    let fine = |name: &[u8]| {
        !name.is_empty()
            && name != b"."
            && name != b".."
            && !name.eq_ignore_ascii_case(b".git")
            && !name.contains(&0)
    };
    if path.split(|&b| b == b'/').all(fine) {
        return Ok(());
    }
    Err(RestoreError::UnsafePath(git::path(path).to_owned()))
}
