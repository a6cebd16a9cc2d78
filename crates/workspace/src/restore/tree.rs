//! Writing into a working tree without ever leaving it.
//!
//! Promise: every directory on the way is opened from the top, one part after the other, and a link
//! among them is an error; so nothing outside is read, written or removed, whoever changes the tree
//! meanwhile.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{RestoreError, io_error};
use crate::git;
use crate::scan::parent;

/// Where a temporary file is while it is written.
const PART: &str = ".segue-part";

/// Whether a file is one that was being written.
pub(super) fn is_part(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let numbers = name.and_then(|name| name.strip_prefix(PART)?.strip_prefix('-'));
    let Some(numbers) = numbers else { return false };
    let mut numbers = numbers.split('-');
    let mut number = || numbers.next().is_some_and(|text| text.parse::<u64>().is_ok());
    number() && number() && numbers.next().is_none()
}

pub(super) struct Tree {
    top: OwnedFd,
    /// The directory that was used last: neighbours come one after the other.
    last: Option<(Vec<u8>, OwnedFd)>,
    counter: u64,
}

fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or_default()
}

fn open_at(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // Ours, but closed to ourselves. Its own mode comes back at the end.
            let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
            rustix::fs::chmodat(dir, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(dir, name, flags, Mode::empty())
        }
        result => result,
    }
}

impl Tree {
    pub(super) fn open(top: &Path) -> Result<Tree, RestoreError> {
        let fail = |source: io::Error| RestoreError::Io { path: top.to_owned(), source };
        let top = File::open(top).map_err(fail)?;
        Ok(Tree { top: top.into(), last: None, counter: 0 })
    }

    fn dir(&mut self, path: &[u8]) -> Result<BorrowedFd<'_>, Errno> {
        if path.is_empty() {
            return Ok(self.top.as_fd());
        }
        if self.last.as_ref().is_none_or(|(last, _)| last != path) {
            let mut fd: Option<OwnedFd> = None;
            for part in path.split(|&b| b == b'/') {
                let here = fd.as_ref().unwrap_or(&self.top);
                fd = Some(open_at(here.as_fd(), part)?);
            }
            self.last = fd.map(|fd| (path.to_vec(), fd));
        }
        self.last.as_ref().map(|(_, fd)| fd.as_fd()).ok_or(Errno::NOENT)
    }

    /// Does something in a directory; where that is not permitted, once more with permission.
    fn inside<T>(
        &mut self,
        path: &[u8],
        act: impl Fn(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let dir = self.dir(parent(path))?;
        match act(dir, name(path)) {
            Err(Errno::ACCESS) => {
                let bits = rustix::fs::fstat(dir)?.st_mode;
                let mode = Mode::from_raw_mode(bits & 0o7777) | Mode::RWXU;
                rustix::fs::fchmod(dir, mode)?;
                act(dir, name(path))
            }
            result => result,
        }
    }

    /// What stands at a path; nothing does where a link is on the way.
    pub(super) fn kind(&mut self, path: &[u8]) -> Result<Option<FileType>, Errno> {
        let stat = |dir: BorrowedFd<'_>, name: &[u8]| {
            rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        };
        match self.inside(path, stat) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is gone already, or lies behind a link, is no error: it is not there.
    pub(super) fn remove_file(&mut self, path: &[u8]) -> Result<(), RestoreError> {
        match self.inside(path, |dir, name| rustix::fs::unlinkat(dir, name, AtFlags::empty())) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            // It became a directory; what is in it is not ours to remove.
            Err(Errno::ISDIR | Errno::PERM) => Err(self.in_the_way(path)),
            Err(error) => Err(io_error(path, error)),
        }
    }

    /// Only when it is empty.
    pub(super) fn remove_dir(&mut self, path: &[u8]) -> Result<(), RestoreError> {
        self.last = None;
        match self.inside(path, |dir, name| rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)) {
            Ok(())
            | Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST | Errno::LOOP) => {
                Ok(())
            }
            Err(error) => Err(io_error(path, error)),
        }
    }

    fn in_the_way(&self, path: &[u8]) -> RestoreError {
        RestoreError::InTheWay(git::path(path).to_owned())
    }

    pub(super) fn make_parents(&mut self, path: &[u8]) -> Result<(), RestoreError> {
        let dir = parent(path).to_vec();
        if dir.is_empty() {
            return Ok(());
        }
        self.make_parents(&dir)?;
        self.make_dir(&dir)
    }

    /// Also where a pipe or a socket stands; a file or a link was removed before, or is in the way.
    pub(super) fn make_dir(&mut self, path: &[u8]) -> Result<(), RestoreError> {
        match self.kind(path).map_err(|error| io_error(path, error))? {
            Some(FileType::Directory) => Ok(()),
            Some(FileType::RegularFile | FileType::Symlink) => Err(self.in_the_way(path)),
            Some(_) => {
                self.remove_file(path)?;
                self.make_new_dir(path)
            }
            None => self.make_new_dir(path),
        }
    }

    pub(super) fn make_new_dir(&mut self, path: &[u8]) -> Result<(), RestoreError> {
        let mode = Mode::from_raw_mode(0o755);
        match self.inside(path, |dir, name| rustix::fs::mkdirat(dir, name, mode)) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => match self.kind(path) {
                Ok(Some(FileType::Directory)) => Ok(()),
                _ => Err(self.in_the_way(path)),
            },
            Err(error) => Err(io_error(path, error)),
        }
    }

    /// Writes a file or a link beside its place, and renames it into it.
    pub(super) fn write(
        &mut self,
        path: &[u8],
        link: bool,
        bits: u32,
        blobs: &mut Blobs,
        id: &str,
    ) -> Result<(), RestoreError> {
        let fail = |error: Errno| io_error(path, error);
        if self.kind(path).map_err(fail)? == Some(FileType::Directory) {
            self.remove_empty_dirs(path)?;
        }
        self.counter += 1;
        let part = format!("{PART}-{}-{}", std::process::id(), self.counter);
        let part = part.as_bytes();
        // Left over from a run that was killed and had the same process id.
        match self.inside(path, |dir, _| rustix::fs::unlinkat(dir, part, AtFlags::empty())) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(fail(error)),
        }
        if link {
            let mut to = Vec::new();
            blobs.copy(id, &mut to).map_err(|error| io_error(path, error))?;
            self.inside(path, |dir, _| rustix::fs::symlinkat(to.as_slice(), dir, part))
                .map_err(fail)?;
        } else {
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = |dir: BorrowedFd<'_>, _: &[u8]| {
                rustix::fs::openat(dir, part, flags, Mode::RUSR | Mode::WUSR)
            };
            let mut file = File::from(self.inside(path, open).map_err(fail)?);
            blobs.copy(id, &mut file).map_err(|error| io_error(path, error))?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(bits)).map_err(fail)?;
        }
        self.inside(path, |dir, name| rustix::fs::renameat(dir, part, dir, name)).map_err(fail)
    }

    /// Directories with nothing but directories in them, where a file should be.
    fn remove_empty_dirs(&mut self, path: &[u8]) -> Result<(), RestoreError> {
        let fail = |error: Errno| io_error(path, error);
        let names: Vec<Vec<u8>> = {
            let dir = self.dir(path).map_err(fail)?;
            let list = rustix::fs::Dir::read_from(dir).map_err(fail)?;
            let names = list.map(|entry| entry.map(|entry| entry.file_name().to_bytes().to_vec()));
            names.collect::<Result<_, _>>().map_err(fail)?
        };
        for name in names.iter().filter(|name| *name != b"." && *name != b"..") {
            let inner = [path, b"/", name].concat();
            if self.kind(&inner).map_err(fail)? != Some(FileType::Directory) {
                return Err(self.in_the_way(&inner));
            }
            self.remove_empty_dirs(&inner)?;
        }
        self.remove_dir(path)
    }

    pub(super) fn set_mode(&mut self, path: &[u8], bits: u32) -> Result<(), RestoreError> {
        let set = |dir: BorrowedFd<'_>, name: &[u8]| {
            let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let kind = FileType::from_raw_mode(stat.st_mode);
            let plain = matches!(kind, FileType::RegularFile | FileType::Directory);
            if !plain || stat.st_mode & 0o7777 == bits {
                return Ok(());
            }
            // Through the open file, since a change by name would follow a link put there meanwhile.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            match rustix::fs::openat(dir, name, flags, Mode::empty()) {
                Ok(file) => rustix::fs::fchmod(file, Mode::from_raw_mode(bits)),
                Err(Errno::ACCESS) => {
                    rustix::fs::chmodat(dir, name, Mode::from_raw_mode(bits), AtFlags::empty())
                }
                Err(error) => Err(error),
            }
        };
        match self.inside(path, set) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(io_error(path, error)),
        }
    }
}

/// A git that hands out objects, one after the other, as they are stored.
pub(super) struct Blobs {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Blobs {
    pub(super) fn start(mut command: Command) -> Result<Blobs, RestoreError> {
        command.args(["cat-file", "--batch"]).stdin(Stdio::piped()).stderr(Stdio::null());
        let fail = |source| io_error(b"", source);
        let mut child = command.spawn().map_err(fail)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(stdin), Some(stdout)) => {
                Ok(Blobs { child, stdin, stdout: BufReader::with_capacity(64 * 1024, stdout) })
            }
            _ => Err(fail(io::Error::other("git has no pipes"))),
        }
    }

    fn copy(&mut self, id: &str, to: &mut impl io::Write) -> io::Result<()> {
        self.stdin.write_all(format!("{id}\n").as_bytes())?;
        self.stdin.flush()?;
        let mut head = String::new();
        self.stdout.read_line(&mut head)?;
        // `<id> blob <size>`, or `<id> missing`.
        let mut words = head.trim_end().split(' ').skip(1);
        let size = match (words.next(), words.next().map(str::parse::<u64>)) {
            (Some("blob"), Some(Ok(size))) => size,
            _ => return Err(io::Error::other(format!("object {id} is missing or broken"))),
        };
        let copied = io::copy(&mut (&mut self.stdout).take(size), to)?;
        let mut end = [0];
        self.stdout.read_exact(&mut end)?;
        if copied == size { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Drop for Blobs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
