//! Where a bundle is taken apart: a directory within the home, hidden from every list, which goes
//! away with whoever made it.
//!
//! ```text
//! sessions/<repo-id>/
//! ├── .<ulid>.import-<random>/          the session, until it is renamed to its place
//! └── .<ulid>.import-<random>.parts/
//!     ├── lock                          held by the import that is under way
//!     ├── git.bundle, git/…
//!     └── vendors/…
//! ```
//!
//! The parts are made first and removed last: where nobody holds their lock, or where they are
//! gone, the import was killed.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_journal::{
    Disk, Home,
    disk::{DiskFile, LockFile, parent},
    home::Located,
};

use crate::{
    error::{At, Error, Result},
    names,
};

const LOCK: &str = "lock";
const PARTS: &str = ".parts";
const MAKING: &str = ".making";
/// How often another import of the same session may take ours for one that was killed, in the
/// instant before it has its lock.
const ATTEMPTS: u32 = 32;

#[derive(Debug)]
pub(crate) struct Staging {
    disk: Arc<dyn Disk>,
    /// What is not the session's.
    parts: PathBuf,
    session: PathBuf,
    /// The directories to sync.
    made: BTreeSet<PathBuf>,
    /// The repository's directory, where there was none before.
    fresh: Option<PathBuf>,
    lock: Option<Box<dyn LockFile>>,
}

impl Staging {
    pub(crate) fn new(home: &Home, at: &Located) -> Result<Self> {
        let disk = Arc::clone(home.disk());
        let repo = parent(&home.session_dir(at)).to_owned();
        let fresh = (!disk.exists(&repo)).then(|| repo.clone());
        home.make_dir(&repo)?;
        let prefix = format!(".{}.import-", at.id);
        sweep(&*disk, &repo, &prefix)?;
        for _ in 0..ATTEMPTS {
            let session = repo.join(format!("{prefix}{:016x}", random().at(&repo)?));
            let Some((parts, lock)) = make_parts(&*disk, &session)? else { continue };
            let (made, lock) = (BTreeSet::new(), Some(lock));
            let staging = Self { disk, parts, session, made, fresh, lock };
            staging.disk.create_dir_all(&staging.session).at(&staging.session)?;
            return Ok(staging);
        }
        Err(Error::Exists { path: repo })
    }

    pub(crate) fn session(&self) -> &Path {
        &self.session
    }

    /// Where an entry of the bundle goes. The name has been checked.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        let root = if names::is_session_file(name) { &self.session } else { &self.parts };
        root.join(name)
    }

    /// Creates the file of an entry.
    pub(crate) fn create(&mut self, name: &str) -> Result<Box<dyn DiskFile>> {
        let path = self.place(name);
        let mut dir = parent(&path);
        self.disk.create_dir_all(dir).at(dir)?;
        while dir.starts_with(&self.session) {
            if !self.made.insert(dir.to_owned()) {
                break;
            }
            dir = parent(dir);
        }
        self.disk.create_new(&path).at(&path)
    }

    /// Makes the names of all the session's files durable.
    pub(crate) fn sync(&self) -> Result<()> {
        for dir in self.made.iter().rev() {
            self.disk.sync_dir(dir).at(dir)?;
        }
        Ok(())
    }

    /// Renames the session to its place. False where one is there: it is never replaced.
    pub(crate) fn publish(&mut self, to: &Path) -> Result<bool> {
        use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
        match self.disk.rename(&self.session, to) {
            Err(error)
                if matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory) =>
            {
                Ok(false)
            }
            renamed => {
                renamed.at(to)?;
                self.fresh = None;
                // The repository's own name again: a refused import that ran beside this one may
                // have taken the empty directory away, and ours was made anew.
                for dir in [parent(to), parent(parent(to))] {
                    self.disk.sync_dir(dir).at(dir)?;
                }
                Ok(true)
            }
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What can't be removed now is removed by the next import of this session.
        if self.disk.exists(&self.session) {
            let _ = self.disk.remove_dir_all(&self.session);
        }
        let _ = self.disk.remove_dir_all(&self.parts);
        self.lock = None;
        if let Some(fresh) = &self.fresh {
            // Only where it is empty: somebody may have begun a session there.
            let _ = std::fs::remove_dir(fresh);
        }
    }
}

fn beside(session: &Path, suffix: &str) -> PathBuf {
    let mut name = session.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes the parts under another name, and gives them theirs when they are locked: whoever sees
/// that name without a lock knows that its maker is dead. `None` where another import took them
/// away before.
fn make_parts(disk: &dyn Disk, session: &Path) -> Result<Option<(PathBuf, Box<dyn LockFile>)>> {
    let (making, parts) = (beside(session, MAKING), beside(session, PARTS));
    disk.create_dir_all(&making).at(&making)?;
    let locked = match disk.try_lock(&making.join(LOCK)) {
        Ok(Some(lock)) => disk.rename(&making, &parts).map(|()| Some((parts, lock))),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    match locked {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let _ = disk.remove_dir_all(&making);
            Err(error).at(&making)
        }
        Ok(locked) => Ok(locked),
    }
}

/// Removes what killed imports of the same session left behind.
fn sweep(disk: &dyn Disk, repo: &Path, prefix: &str) -> Result<()> {
    let names = disk.list(repo).at(repo)?;
    let mut left = BTreeSet::new();
    for name in names.iter().filter(|name| name.starts_with(prefix)) {
        match name.strip_suffix(MAKING) {
            Some(_) => sweep_making(disk, &repo.join(name))?,
            None => drop(left.insert(repo.join(name.strip_suffix(PARTS).unwrap_or(name)))),
        }
    }
    for session in left {
        let parts = beside(&session, PARTS);
        let _lock = match disk.try_lock(&parts.join(LOCK)) {
            // Somebody is at it.
            Ok(None) => continue,
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).at(&parts),
        };
        remove(disk, &session)?;
        remove(disk, &parts)?;
    }
    Ok(())
}

/// Parts that did not get their name. Without a lock they may be just about to: then their maker
/// begins again.
fn sweep_making(disk: &dyn Disk, making: &Path) -> Result<()> {
    match disk.try_lock(&making.join(LOCK)) {
        Ok(Some(_lock)) => match disk.remove_dir_all(making) {
            // Its maker is there after all, and has just put its lock where the old one was.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.at(making),
        },
        Ok(None) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).at(making),
    }
}

fn remove(disk: &dyn Disk, dir: &Path) -> Result<()> {
    match disk.remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.at(dir),
    }
}

fn random() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    let flags = rustix::rand::GetRandomFlags::empty();
    // So few bytes come at once.
    rustix::rand::getrandom(&mut bytes[..], flags)?;
    Ok(u64::from_le_bytes(bytes))
}
