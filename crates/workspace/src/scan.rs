//! What is in a working tree now: every file that belongs to a snapshot, with its status.
//!
//! Promise: tracked files are in, ignored or not; untracked ones are in unless git ignores them;
//! no symbolic link is followed; a repository inside of this one is named and not entered.
//!
//! The directories of tracked files are known beforehand, so they are read side by side in one go.
//! Only what is found there besides is asked about: whether git ignores it, one question per level.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::checkpoint::Forced;
use crate::git::{self, GitError, Place};
use crate::index::{EXEC, Entries, FILE, LINK, REPO, Stat};

/// A plain directory with more than this is not snapshotted.
pub const MAX_PLAIN_FILES: usize = 20_000;
pub const MAX_PLAIN_BYTES: u64 = 512 * 1024 * 1024;
const THREADS: usize = 4;
/// As many directories does a thread take at a time.
const SHARE: usize = 16;

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
pub(crate) struct Seen<'a> {
    /// Sorted by path.
    pub(crate) files: Vec<(Cow<'a, [u8]>, Found)>,
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
    pub(crate) len: u64,
}

impl Found {
    /// `None` for what a snapshot cannot hold: sockets, pipes, devices.
    fn of(stat: &rustix::fs::Stat) -> Option<Found> {
        let bits = bits(stat);
        let mode = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => LINK,
            FileType::RegularFile if bits & 0o100 != 0 => EXEC,
            FileType::RegularFile => FILE,
            _ => return None,
        };
        let len = u64::try_from(stat.st_size).unwrap_or(0);
        Some(Found { stat: Stat::of(stat), bits, mode, len })
    }
}

fn bits(stat: &rustix::fs::Stat) -> u32 {
    Mode::from_raw_mode(stat.st_mode).bits() & 0o7777
}

/// What is in a snapshot without being asked about.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    tracked: &'a Entries,
    /// The files of each directory, sorted.
    dirs: BTreeMap<&'a [u8], Vec<Child<'a>>>,
    repos: HashSet<&'a [u8]>,
}

/// A file that is known.
#[derive(Debug, Clone, Copy)]
struct Child<'a> {
    path: &'a [u8],
    /// Which of the tracked ones it is.
    number: Option<usize>,
}

impl<'a> Known<'a> {
    pub(crate) fn new(tracked: &'a Entries, forced: &'a Forced) -> Known<'a> {
        let dirs = BTreeMap::from([(&b""[..], Vec::new())]);
        let mut known = Known { tracked, dirs, repos: HashSet::new() };
        // Neighbours share a directory, so they are put there together.
        let (mut dir, mut run): (&[u8], Vec<Child<'_>>) = (b"", Vec::new());
        for (number, entry) in tracked.iter().enumerate() {
            let parent = parent(entry.path);
            if parent != dir {
                known.dir(dir).append(&mut run);
                dir = parent;
            }
            if entry.mode == REPO {
                known.repos.insert(entry.path);
            } else {
                run.push(Child { path: entry.path, number: Some(number) });
            }
        }
        known.dir(dir).append(&mut run);
        for path in &forced.paths {
            let dir = known.dir(parent(path));
            if let Err(at) = dir.binary_search_by(|child| child.path.cmp(path)) {
                dir.insert(at, Child { path, number: None });
            }
        }
        for dir in &forced.dirs {
            known.dir(dir);
        }
        known
    }

    /// The files of a directory, which is known from now on, with those above it.
    fn dir(&mut self, path: &'a [u8]) -> &mut Vec<Child<'a>> {
        let mut above = path;
        while !self.dirs.contains_key(above) {
            self.dirs.insert(above, Vec::new());
            above = parent(above);
        }
        self.dirs.entry(path).or_default()
    }
}

pub(crate) fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
    path.get(..end).unwrap_or_default()
}

/// One directory as it was read.
#[derive(Default)]
struct Listing<'a> {
    path: Vec<u8>,
    bits: u32,
    files: Vec<(Child<'a>, Found)>,
    dirs: Vec<&'a [u8]>,
    /// Not tracked: to be asked about. `true` for directories.
    others: Vec<(Vec<u8>, bool)>,
    repository: bool,
    skipped: Vec<Vec<u8>>,
}

impl Listing<'_> {
    fn join(&self, name: &[u8]) -> Vec<u8> {
        let mut path = Vec::with_capacity(self.path.len() + 1 + name.len());
        if !self.path.is_empty() {
            path.extend_from_slice(&self.path);
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }
}

pub(crate) struct Scan<'a> {
    pub(crate) place: &'a Place,
    pub(crate) known: Known<'a>,
    /// A directory that is not part of it, relative to the top.
    pub(crate) leave_out: Option<Vec<u8>>,
    pub(crate) limited: bool,
}

impl<'a> Scan<'a> {
    pub(crate) fn run(&self) -> Result<Seen<'a>, ScanError> {
        let opened = File::open(&self.place.top);
        let top = opened.map_err(|source| self.fail(b"", source))?;
        let top = top.as_fd();
        let mut seen = Seen::default();
        let mut bytes = 0;
        let dirs: Vec<&[u8]> = self.known.dirs.keys().copied().collect();
        let mut others = Vec::new();
        let mut tracked: Vec<Option<Found>> = vec![None; self.known.tracked.len()];
        let mut files: Vec<(Cow<'a, [u8]>, Found)> = Vec::new();
        let mut reached: HashSet<&[u8]> = HashSet::from([&b""[..]]);
        for mut listing in self.read(top, &dirs)? {
            // Sorted, so parents come first. What a parent does not list lies behind a link.
            if reached.contains(listing.path.as_slice()) {
                reached.extend(&listing.dirs);
                for (child, found) in std::mem::take(&mut listing.files) {
                    match child.number.and_then(|number| tracked.get_mut(number)) {
                        Some(slot) => *slot = Some(found),
                        None => files.push((Cow::Borrowed(child.path), found)),
                    }
                }
                others.extend(accept(&mut seen, listing));
            }
        }
        loop {
            others.sort();
            let mut next = Vec::new();
            for (path, is_dir) in self.not_ignored(others)? {
                if is_dir {
                    next.push(path);
                } else if let Some(found) = self.stat(top, &path)? {
                    bytes += found.len;
                    files.push((Cow::Owned(path), found));
                }
            }
            if self.limited && (files.len() > MAX_PLAIN_FILES || bytes > MAX_PLAIN_BYTES) {
                return Err(ScanError::TooLarge(self.place.top.clone()));
            }
            if next.is_empty() {
                break;
            }
            others = Vec::new();
            for listing in self.read(top, &next)? {
                if listing.repository {
                    seen.nested.insert(listing.path);
                } else {
                    others.extend(accept(&mut seen, listing));
                }
            }
        }
        seen.files = self.merge(tracked, files);
        find_empty(&mut seen);
        Ok(seen)
    }

    /// Puts the other files between the tracked ones, which are sorted already.
    fn merge(
        &self,
        tracked: Vec<Option<Found>>,
        mut others: Vec<(Cow<'a, [u8]>, Found)>,
    ) -> Vec<(Cow<'a, [u8]>, Found)> {
        others.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut all = Vec::with_capacity(tracked.len() + others.len());
        let mut others = others.into_iter().peekable();
        for (entry, found) in self.known.tracked.iter().zip(tracked) {
            let Some(found) = found else { continue };
            while let Some(other) = others.next_if(|(path, _)| **path < *entry.path) {
                all.push(other);
            }
            all.push((Cow::Borrowed(entry.path), found));
        }
        all.extend(others);
        all
    }

    fn fail(&self, path: &[u8], source: io::Error) -> ScanError {
        ScanError::Io { path: self.place.top.join(git::path(path)), source }
    }

    fn stat(&self, top: BorrowedFd<'_>, path: &[u8]) -> Result<Option<Found>, ScanError> {
        match rustix::fs::statat(top, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Found::of(&stat)),
            Err(error) if gone(error) => Ok(None),
            Err(error) => Err(self.fail(path, error.into())),
        }
    }

    /// Reads directories side by side; the answers are in their order. Those that are gone are left
    /// out.
    fn read(
        &self,
        top: BorrowedFd<'_>,
        dirs: &[impl AsRef<[u8]> + Sync],
    ) -> Result<Vec<Listing<'a>>, ScanError> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<Vec<(usize, Listing<'a>)>, ScanError> {
            let mut listings = Vec::new();
            loop {
                let first = next.fetch_add(SHARE, Ordering::Relaxed);
                let share = dirs.iter().enumerate().skip(first).take(SHARE);
                for (number, dir) in share {
                    let listing = self.read_one(top, dir.as_ref())?;
                    listings.extend(listing.map(|listing| (number, listing)));
                }
                if first >= dirs.len() {
                    return Ok(listings);
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
        let threads = threads.min(dirs.len().div_ceil(2 * SHARE));
        let mut all = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut all = work()?;
            for other in others {
                let failed = |_| Err(self.fail(b"", io::Error::other("a reading thread failed")));
                all.extend(other.join().unwrap_or_else(failed)?);
            }
            Ok::<_, ScanError>(all)
        })?;
        all.sort_unstable_by_key(|(number, _)| *number);
        Ok(all.into_iter().map(|(_, listing)| listing).collect())
    }

    fn read_one(&self, top: BorrowedFd<'_>, dir: &[u8]) -> Result<Option<Listing<'a>>, ScanError> {
        let fail = |error: Errno| self.fail(dir, error.into());
        let name: &[u8] = if dir.is_empty() { b"." } else { dir };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut listing = Listing { path: dir.to_vec(), ..Listing::default() };
        let opened = match rustix::fs::openat(top, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(error) if gone(error) => return Ok(None),
            Err(Errno::ACCESS) if !dir.is_empty() => {
                match rustix::fs::statat(top, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => listing.bits = bits(&stat),
                    Err(error) if gone(error) => return Ok(None),
                    Err(error) => return Err(fail(error)),
                }
                listing.skipped.push(dir.to_vec());
                return Ok(Some(listing));
            }
            Err(error) => return Err(fail(error)),
        };
        listing.bits = bits(&rustix::fs::fstat(&opened).map_err(fail)?);
        let known = self.known.dirs.get(dir).map_or(&[][..], Vec::as_slice);
        listing.files.reserve_exact(known.len());
        let mut entries = Dir::new(opened).map_err(fail)?;
        while let Some(entry) = entries.read() {
            let entry = entry.map_err(fail)?;
            let at = entries.fd().map_err(fail)?;
            self.sort_in(&mut listing, known, &entry, at).map_err(fail)?;
        }
        Ok(Some(listing))
    }

    fn sort_in(
        &self,
        listing: &mut Listing<'a>,
        known: &[Child<'a>],
        entry: &DirEntry,
        at: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            return Ok(());
        }
        if name == b".git" {
            listing.repository = true;
            return Ok(());
        }
        if name.eq_ignore_ascii_case(b".git") {
            // Git refuses such a name, for the sake of other file systems.
            listing.skipped.push(listing.join(name));
            return Ok(());
        }
        let look = || match rustix::fs::statat(at, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if gone(error) => Ok(None),
            Err(error) => Err(error),
        };
        let kind = match entry.file_type() {
            // Some file systems do not say.
            FileType::Unknown => match look()? {
                Some(stat) => FileType::from_raw_mode(stat.st_mode),
                None => return Ok(()),
            },
            kind => kind,
        };
        let start = if listing.path.is_empty() { 0 } else { listing.path.len() + 1 };
        let of = |child: &Child<'a>| child.path.get(start..).unwrap_or_default().cmp(name);
        if kind != FileType::Directory
            && let Some(child) = known.binary_search_by(of).ok().and_then(|at| known.get(at))
        {
            let found = look()?.as_ref().and_then(Found::of);
            listing.files.extend(found.map(|found| (*child, found)));
            return Ok(());
        }
        let path = listing.join(name);
        if self.leave_out.as_ref() == Some(&path) {
            return Ok(());
        }
        match kind {
            FileType::Directory => match self.known.dirs.get_key_value(path.as_slice()) {
                Some((dir, _)) => listing.dirs.push(dir),
                None => listing.others.push((path, true)),
            },
            FileType::RegularFile | FileType::Symlink => listing.others.push((path, false)),
            _ => {}
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

fn accept(seen: &mut Seen<'_>, listing: Listing<'_>) -> Vec<(Vec<u8>, bool)> {
    if !listing.path.is_empty() {
        seen.dirs.insert(listing.path, listing.bits);
    }
    seen.skipped.extend(listing.skipped);
    listing.others
}

fn find_empty(seen: &mut Seen<'_>) {
    let mut full: HashSet<&[u8]> = HashSet::new();
    let paths = seen.files.iter().map(|(path, _)| &**path);
    let paths = paths.chain(seen.dirs.keys().chain(&seen.nested).map(Vec::as_slice));
    // Neighbours share a directory.
    let mut last: &[u8] = b"";
    for path in paths {
        let parent = parent(path);
        if parent != last {
            full.insert(parent);
            last = parent;
        }
    }
    let empty = seen.dirs.keys().filter(|dir| !full.contains(dir.as_slice()));
    seen.empty = empty.cloned().collect();
}

/// Somebody else works here too: a file may be gone by the time that it is looked at.
fn gone(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

/// Where a directory lies below another, as a path that git would write.
pub(crate) fn below(top: &Path, dir: &Path) -> Option<Vec<u8>> {
    let inner = dir.strip_prefix(top).ok()?.as_os_str().as_bytes().to_vec();
    Some(inner).filter(|inner| !inner.is_empty())
}
