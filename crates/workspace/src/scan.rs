//! What is in a working tree now: every file that belongs to a snapshot, with its status.
//!
//! Promise: tracked files are in, ignored or not; untracked ones are in unless git ignores them;
//! no symbolic link is followed; a repository inside of this one is named and not entered.
//!
//! The directories of tracked files are known beforehand, so they are read side by side in one go.
//! Only what is found there besides is asked about: whether git ignores it, one question per level.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::checkpoint::Forced;
use crate::git::{self, GitError, Place};
use crate::index::{EXEC, Entry, FILE, LINK, REPO, Stat};

/// A plain directory with more than this is not snapshotted.
pub const MAX_PLAIN_FILES: usize = 20_000;
pub const MAX_PLAIN_BYTES: u64 = 512 * 1024 * 1024;
const THREADS: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("cannot read {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{} has more than {MAX_PLAIN_FILES} files or {} MiB, too much to be snapshotted without a repository",
        .0.display(), MAX_PLAIN_BYTES / 1024 / 1024
    )]
    TooLarge(PathBuf),
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) files: BTreeMap<Vec<u8>, Found>,
    /// Every directory but the top, with its permission bits.
    pub(crate) dirs: BTreeMap<Vec<u8>, u32>,
    pub(crate) empty: BTreeSet<Vec<u8>>,
    pub(crate) nested: BTreeSet<Vec<u8>>,
    pub(crate) skipped: BTreeSet<Vec<u8>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) stat: Stat,
    /// Permission bits; of a link they mean nothing.
    pub(crate) bits: u32,
    /// What git calls it: file, executable file or link.
    pub(crate) mode: u32,
    len: u64,
}

impl Found {
    /// `None` for what a snapshot cannot hold: sockets, pipes, devices.
    fn of(meta: &std::fs::Metadata) -> Option<Found> {
        let bits = meta.permissions().mode() & 0o7777;
        let kind = meta.file_type();
        let mode = match () {
            () if kind.is_symlink() => LINK,
            () if kind.is_file() && bits & 0o100 != 0 => EXEC,
            () if kind.is_file() => FILE,
            () => return None,
        };
        Some(Found { stat: Stat::of(meta), bits, mode, len: meta.len() })
    }
}

/// What is in a snapshot without being asked about.
#[derive(Debug, Default)]
pub(crate) struct Known<'a> {
    files: HashSet<&'a [u8]>,
    dirs: BTreeSet<&'a [u8]>,
    repos: HashSet<&'a [u8]>,
}

impl<'a> Known<'a> {
    pub(crate) fn new(tracked: &'a [Entry], forced: &'a Forced) -> Known<'a> {
        let mut known = Known::default();
        known.dirs.insert(b"");
        let mut last: &[u8] = b"";
        for entry in tracked {
            if entry.mode == REPO {
                known.repos.insert(&entry.path);
            } else {
                known.files.insert(&entry.path);
            }
            last = known.add_parents(&entry.path, last);
        }
        for path in &forced.paths {
            known.files.insert(path);
            known.add_parents(path, b"");
        }
        for dir in &forced.dirs {
            known.dirs.insert(dir);
            known.add_parents(dir, b"");
        }
        known
    }

    /// Neighbours share a parent, which is why the last one is remembered.
    fn add_parents(&mut self, path: &'a [u8], last: &'a [u8]) -> &'a [u8] {
        let parent = parent(path);
        let mut dir = parent;
        while dir != last && !dir.is_empty() && self.dirs.insert(dir) {
            dir = self::parent(dir);
        }
        parent
    }
}

pub(crate) fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
    path.get(..end).unwrap_or_default()
}

/// One directory as it was read.
#[derive(Default)]
struct Listing {
    path: Vec<u8>,
    bits: u32,
    files: Vec<(Vec<u8>, Found)>,
    dirs: Vec<Vec<u8>>,
    /// Not tracked: to be asked about. `true` for directories.
    others: Vec<(Vec<u8>, bool)>,
    repository: bool,
    skipped: Vec<Vec<u8>>,
}

pub(crate) struct Scan<'a> {
    pub(crate) place: &'a Place,
    pub(crate) known: Known<'a>,
    /// A directory that is not part of it, relative to the top.
    pub(crate) leave_out: Option<Vec<u8>>,
    pub(crate) limited: bool,
}

impl Scan<'_> {
    pub(crate) fn run(&self) -> Result<Seen, ScanError> {
        let mut seen = Seen::default();
        let mut bytes = 0;
        let dirs: Vec<Vec<u8>> = self.known.dirs.iter().map(|dir| dir.to_vec()).collect();
        let mut others = Vec::new();
        let mut files = Vec::new();
        let mut reached: HashSet<Vec<u8>> = HashSet::from([Vec::new()]);
        for mut listing in self.read(&dirs)? {
            // Sorted, so parents come first. What a parent does not list lies behind a link.
            if reached.contains(&listing.path) {
                reached.extend(std::mem::take(&mut listing.dirs));
                files.append(&mut listing.files);
                others.extend(accept(&mut seen, listing));
            }
        }
        // All at once: much faster than one by one.
        seen.files = files.into_iter().collect();
        loop {
            others.sort();
            let mut next = Vec::new();
            for (path, is_dir) in self.not_ignored(others)? {
                if is_dir {
                    next.push(path);
                } else if let Some(found) = self.stat(&path)? {
                    bytes += found.len;
                    seen.files.insert(path, found);
                }
            }
            if self.limited && (seen.files.len() > MAX_PLAIN_FILES || bytes > MAX_PLAIN_BYTES) {
                return Err(ScanError::TooLarge(self.place.top.clone()));
            }
            if next.is_empty() {
                break;
            }
            others = Vec::new();
            for listing in self.read(&next)? {
                if listing.repository {
                    seen.nested.insert(listing.path);
                } else {
                    others.extend(accept(&mut seen, listing));
                }
            }
        }
        find_empty(&mut seen);
        Ok(seen)
    }

    fn stat(&self, path: &[u8]) -> Result<Option<Found>, ScanError> {
        let full = self.place.top.join(git::path(path));
        match std::fs::symlink_metadata(&full) {
            Ok(meta) => Ok(Found::of(&meta)),
            Err(error) if gone(&error) => Ok(None),
            Err(source) => Err(ScanError::Io { path: full, source }),
        }
    }

    /// Reads directories side by side; the answers are in their order. Those that are gone are left
    /// out.
    fn read(&self, dirs: &[Vec<u8>]) -> Result<Vec<Listing>, ScanError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        if threads == 1 || dirs.len() < 64 {
            return dirs.iter().filter_map(|dir| self.read_one(dir).transpose()).collect();
        }
        let part = |dirs: &[Vec<u8>]| -> Result<Vec<Listing>, ScanError> {
            dirs.iter().filter_map(|dir| self.read_one(dir).transpose()).collect()
        };
        let size = dirs.len().div_ceil(threads);
        let parts = std::thread::scope(|scope| {
            let running: Vec<_> =
                dirs.chunks(size).map(|dirs| scope.spawn(move || part(dirs))).collect();
            running.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        let mut all = Vec::with_capacity(dirs.len());
        for part in parts {
            all.extend(part.unwrap_or_else(|_| {
                let source = io::Error::other("a reading thread failed");
                Err(ScanError::Io { path: self.place.top.clone(), source })
            })?);
        }
        Ok(all)
    }

    fn read_one(&self, dir: &[u8]) -> Result<Option<Listing>, ScanError> {
        let full = self.place.top.join(git::path(dir));
        let fail = |source| ScanError::Io { path: full.clone(), source };
        let meta = match std::fs::symlink_metadata(&full) {
            Ok(meta) if meta.is_dir() || dir.is_empty() => meta,
            Ok(_) => return Ok(None),
            Err(error) if gone(&error) => return Ok(None),
            Err(source) => return Err(fail(source)),
        };
        let bits = meta.permissions().mode() & 0o7777;
        let mut listing = Listing { path: dir.to_vec(), bits, ..Listing::default() };
        let entries = match std::fs::read_dir(&full) {
            Ok(entries) => entries,
            Err(error) if gone(&error) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !dir.is_empty() => {
                listing.skipped.push(dir.to_vec());
                return Ok(Some(listing));
            }
            Err(source) => return Err(fail(source)),
        };
        for entry in entries {
            let entry = entry.map_err(fail)?;
            self.sort_in(&mut listing, &entry).map_err(fail)?;
        }
        Ok(Some(listing))
    }

    fn sort_in(&self, listing: &mut Listing, entry: &std::fs::DirEntry) -> io::Result<()> {
        let name = entry.file_name().into_vec();
        let mut path = listing.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&name);
        if name == b".git" {
            listing.repository = true;
            return Ok(());
        }
        if name.eq_ignore_ascii_case(b".git") {
            // Git refuses such a name, for the sake of other file systems.
            listing.skipped.push(path);
            return Ok(());
        }
        if self.leave_out.as_ref() == Some(&path) {
            return Ok(());
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if self.known.dirs.contains(path.as_slice()) {
                listing.dirs.push(path);
            } else {
                listing.others.push((path, true));
            }
        } else if self.known.files.contains(path.as_slice()) {
            match entry.metadata() {
                Ok(meta) => listing.files.extend(Found::of(&meta).map(|found| (path, found))),
                Err(error) if gone(&error) => {}
                Err(error) => return Err(error),
            }
        } else if kind.is_file() || kind.is_symlink() {
            listing.others.push((path, false));
        }
        Ok(())
    }

    /// Asks git about what is not tracked.
    fn not_ignored(&self, paths: Vec<(Vec<u8>, bool)>) -> Result<Vec<(Vec<u8>, bool)>, ScanError> {
        let tracked = |path: &Vec<u8>| self.known.repos.contains(path.as_slice());
        let ignored = ignored(self.place.user(), paths.iter().map(|(path, _)| path.as_slice()))?;
        let kept = paths.into_iter().zip(ignored);
        Ok(kept.filter(|((p, _), ignored)| !ignored || tracked(p)).map(|(path, _)| path).collect())
    }
}

/// For each path, whether git ignores it. The command says where.
pub(crate) fn ignored<'a>(
    mut command: std::process::Command,
    paths: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<bool>, GitError> {
    let mut input = Vec::new();
    let mut count = 0;
    for path in paths {
        // A path may begin with a colon, which means something else to git.
        input.extend_from_slice(b"./");
        input.extend_from_slice(path);
        input.push(0);
        count += 1;
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    command.args(["check-ignore", "--no-index", "--stdin", "-z", "-v", "-n"]);
    let (what, dir) = git::describe(&command);
    // Status 1 says that nothing is ignored.
    let Some(output) = git::ask(command, input, 1)? else {
        return Ok(vec![false; count]);
    };
    // Four fields each: file, line, pattern, path. A pattern with `!` is an exception.
    let fields: Vec<&[u8]> = output.split(|&b| b == 0).collect();
    let answers: Vec<bool> = fields
        .chunks_exact(4)
        .map(|four| matches!(four, [_, _, pattern, _] if !pattern.is_empty() && !pattern.starts_with(b"!")))
        .collect();
    if answers.len() == count { Ok(answers) } else { Err(GitError::Odd { what, dir }) }
}

fn accept(seen: &mut Seen, listing: Listing) -> Vec<(Vec<u8>, bool)> {
    seen.files.extend(listing.files);
    if !listing.path.is_empty() {
        seen.dirs.insert(listing.path, listing.bits);
    }
    seen.skipped.extend(listing.skipped);
    listing.others
}

fn find_empty(seen: &mut Seen) {
    let mut full: HashSet<&[u8]> = HashSet::new();
    let paths = seen.files.keys().chain(seen.dirs.keys()).chain(&seen.nested);
    for path in paths {
        full.insert(parent(path));
    }
    let empty = seen.dirs.keys().filter(|dir| !full.contains(dir.as_slice()));
    seen.empty = empty.cloned().collect();
}

/// Somebody else works here too: a file may be gone by the time that it is looked at.
pub(crate) fn gone(error: &io::Error) -> bool {
    let in_a_circle = Some(rustix::io::Errno::LOOP.raw_os_error());
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || error.raw_os_error() == in_a_circle
}

/// Where a directory lies below another, as a path that git would write.
pub(crate) fn below(top: &Path, dir: &Path) -> Option<Vec<u8>> {
    let inner = dir.strip_prefix(top).ok()?.as_os_str().as_bytes().to_vec();
    Some(inner).filter(|inner| !inner.is_empty())
}
