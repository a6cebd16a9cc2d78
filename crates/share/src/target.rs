//! A file that is there whole or not at all: written beside its target under another name, synced,
//! and renamed.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags};
use segue_journal::disk::parent;

use crate::error::{At, Error, Result};

/// Early, so that nobody waits for an export that can't end well.
pub(crate) fn check_target(out: &Path, force: bool) -> Result<()> {
    match fs::symlink_metadata(out) {
        // Only a file is ever replaced: not a link, a device or a directory.
        Ok(found) if !(force && found.is_file()) => Err(Error::Exists { path: out.to_owned() }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).at(out),
    }
}

/// A file beside its target, which goes away unless it is published. Its lock says that its maker
/// is alive; without one it was left behind by a kill, and the next maker removes it.
pub(crate) struct Temporary {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    published: bool,
}

impl Temporary {
    pub(crate) fn beside(out: &Path) -> Result<Self> {
        let name = out.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let prefix = format!(".{name}.export-");
        sweep(parent(out), &prefix);
        let mut attempt = 0u32;
        loop {
            let path = parent(out).join(format!("{prefix}{}-{attempt}", std::process::id()));
            attempt += 1;
            let mut options = OpenOptions::new();
            match options.read(true).write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => {
                    // Where there are no locks, it is only never swept.
                    let _ = file.lock();
                    // Another one may have swept it before it was locked.
                    if file.metadata().at(&path)?.nlink() > 0 {
                        return Ok(Self { path, file, published: false });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).at(&path),
            }
        }
    }

    /// Only a handle: whatever happens, nothing is left of it.
    pub(crate) fn nameless(self) -> Result<File> {
        self.file.try_clone().at(&self.path)
    }

    pub(crate) fn publish(mut self, out: &Path, force: bool) -> Result<()> {
        self.file.sync_all().at(&self.path)?;
        if force {
            fs::rename(&self.path, out).at(out)?;
        } else {
            match rustix::fs::renameat_with(CWD, &self.path, CWD, out, RenameFlags::NOREPLACE) {
                Err(rustix::io::Errno::EXIST) => {
                    return Err(Error::Exists { path: out.to_owned() });
                }
                // A file system that does not know how: looked up again, as late as can be.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                    check_target(out, false)?;
                    fs::rename(&self.path, out).at(out)?;
                }
                done => done.at(out)?,
            }
        }
        self.published = true;
        File::open(parent(out)).and_then(|dir| dir.sync_all()).at(parent(out))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.published {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes what killed exports left beside this target.
fn sweep(dir: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(prefix);
        if ours && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let Ok(file) = File::open(entry.path()) else { continue };
            match file.try_lock() {
                Ok(()) => drop(fs::remove_file(entry.path())),
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
            }
        }
    }
}
