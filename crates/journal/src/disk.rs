//! What Segue asks of a disk: few enough calls that a simulated disk can lose, tear and refuse
//! each of them, and the code above never knows.
//!
//! The rules that the callers live by: a file's bytes are safe after `sync`, its name after
//! `sync_dir` of the directory, and nothing before. Files are 0600, directories 0700.

use std::{
    fmt::Debug,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

pub trait Disk: Debug + Send + Sync {
    /// Opens a file that must be there, for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for appending and reading, and creates it if need be.
    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Creates a file that must not be there yet.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// A second name for a file. Fails where the name is taken: that makes it a claim.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory with all that is in it.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Writes what a file has from `from` on over itself, so that the next `sync` takes it to the
    /// disk whatever became of an earlier one: after a sync that failed, the system may show bytes
    /// that it will never write.
    fn write_again(&self, path: &Path, from: u64) -> io::Result<()>;
    /// Makes the names in this directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    fn stat(&self, path: &Path) -> io::Result<Stat>;
    /// An exclusive lock on the file, created if need be, that dies with its process. `None` where
    /// somebody else has it.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockFile>>>;
    /// Whether somebody has that lock. Those who look are not in each other's way.
    fn is_locked(&self, path: &Path) -> io::Result<bool>;
}

#[expect(clippy::len_without_is_empty, reason = "asking for a length can fail")]
pub trait DiskFile: Debug + Send {
    /// Appends, and may write less than asked for.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    fn len(&self) -> io::Result<u64>;
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Returns once every byte written so far is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// A lock that is held for as long as this value lives.
pub trait LockFile: Debug + Send {
    /// Says who holds it. For people only: the lock itself is the truth.
    fn describe(&mut self, text: &str) -> io::Result<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub len: u64,
    pub modified: SystemTime,
    pub is_dir: bool,
}

impl dyn DiskFile + '_ {
    /// Writes all of it, or says at which error it stopped.
    pub fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills as much of the buffer as the file has from `offset` on.
    pub fn read_full(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl dyn Disk + '_ {
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path)?;
        let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        let filled = file.read_full(&mut bytes, 0)?;
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Whether something is there. Only a clear no is a no: where the disk can't say, whoever reads
    /// or writes next gets its error.
    #[must_use]
    pub fn exists(&self, path: &Path) -> bool {
        let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        !self.stat(path).is_err_and(|error| absent.contains(&error.kind()))
    }

    /// Replaces a file whole: whoever looks, also after a power cut, sees the old or the new one.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.write_beside(path, bytes)?;
        self.rename(&temporary, path)?;
        self.sync_dir(parent(path))
    }

    /// Creates a file whole under a name that must be free: exactly one of many wins.
    pub fn claim(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.write_beside(path, bytes)?;
        let linked = self.hard_link(&temporary, path);
        let _ = self.remove_file(&temporary);
        linked?;
        self.sync_dir(parent(path))
    }

    fn write_beside(&self, path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
        let (temporary, mut file) = self.create_beside(path)?;
        let written = file.write_all(bytes).and_then(|()| file.sync());
        if let Err(error) = written {
            let _ = self.remove_file(&temporary);
            return Err(error);
        }
        Ok(temporary)
    }

    /// A new file that is to take the place of another one.
    pub(crate) fn create_beside(&self, path: &Path) -> io::Result<(PathBuf, Box<dyn DiskFile>)> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut attempt = 0;
        loop {
            let temporary =
                parent(path).join(format!(".{name}.{}-{attempt}.tmp", std::process::id()));
            match self.create_new(&temporary) {
                Ok(file) => return Ok((temporary, file)),
                // Left behind by a process of the same number that was killed, or taken by
                // another thread: neither is ours to touch.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// The directory that a name is in.
#[must_use]
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::open(path)?))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        Ok(Box::new(options.append(true).read(true).create(true).mode(0o600).open(path)?))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        Ok(Box::new(options.append(true).read(true).create_new(true).mode(0o600).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn write_again(&self, path: &Path, from: u64) -> io::Result<()> {
        // Not opened for appending: then an offset would mean nothing.
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut buffer = vec![0; 1 << 20];
        let mut at = from;
        loop {
            let got = (&file as &dyn DiskFile).read_full(&mut buffer, at)?;
            if got == 0 {
                return Ok(());
            }
            file.write_all_at(&buffer[..got], at)?;
            at += got as u64;
        }
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        // Segue's own names are ASCII: what is not UTF-8 was put there by somebody else.
        fs::read_dir(path)?
            .filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose())
            .collect()
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let found = fs::metadata(path)?;
        Ok(Stat { len: found.len(), modified: found.modified()?, is_dir: found.is_dir() })
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockFile>>> {
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        match File::open(path)?.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl DiskFile for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

impl LockFile for File {
    fn describe(&mut self, text: &str) -> io::Result<()> {
        // Longer first, cut after: a reader never sees an empty file where a holder was.
        self.write_all_at(text.as_bytes(), 0)?;
        File::set_len(self, text.len() as u64)
    }
}
