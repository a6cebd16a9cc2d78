//! A disk in memory that loses what a real one may lose.
//!
//! It keeps two images: what a reader sees now, and what would be there after a power cut. `sync`
//! carries a file's bytes from the first to the second, `sync_dir` the names of a directory, and
//! nothing else does. [`SimDisk::crash`] gives the disk as it is after a power cut: bytes that were
//! not synced are there, gone or mixed, sector by sector; names that were not synced are there up
//! to some point in each directory. [`SimDisk::kill`] gives the disk as it is after a kill: all
//! that was written. Both give a new disk, so that what the dead process still holds can do no
//! harm to it. The same seed loses the same things.
//!
//! Every call that changes something has a number, from 1, and can be told to fail: see [`Fault`].
//! A [`Mutant`] is a disk that forgets to sync, to show that a test would notice.

mod fault;
mod handle;
mod node;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use segue_journal::disk::{Disk, DiskFile, LockFile, Stat};

use fault::Faults;
pub use fault::{Fault, Mutant};
use handle::{SimFile, SimLock};
use node::{Directory, File, Ino, NameOp, Node, Rng};

const ROOT: Ino = 0;

/// The disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Clone, Debug)]
struct Inner {
    nodes: BTreeMap<Ino, Node>,
    next: Ino,
    locked: BTreeSet<Ino>,
    faults: Faults,
    mutant: Option<Mutant>,
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// An empty disk, whose root is durable.
    #[must_use]
    pub fn new() -> Self {
        let nodes = BTreeMap::from([(ROOT, Node::Directory(Directory::default()))]);
        Self::of(Inner {
            nodes,
            next: ROOT + 1,
            locked: BTreeSet::new(),
            faults: Faults::default(),
            mutant: None,
        })
    }

    fn of(inner: Inner) -> Self {
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk after a power cut. Locks, faults and what was only in memory are gone.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let mut after = self.inner().clone();
        let mut rng = Rng::new(seed);
        for node in after.nodes.values_mut() {
            node.crash(&mut rng);
        }
        after.forget_unreachable();
        after.restart();
        Self::of(after)
    }

    /// The disk after a kill of everyone who uses it: only the locks are gone.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut after = self.inner().clone();
        after.restart();
        Self::of(after)
    }

    /// Lets the `nth` call from now on that changes something fail: 1 is the very next one.
    pub fn fail(&self, nth: u64, fault: Fault) {
        self.inner().faults.once(nth, fault);
    }

    /// Lets the `nth` such call from now on and all after it fail, until [`SimDisk::mend`].
    pub fn fail_from(&self, nth: u64, fault: Fault) {
        self.inner().faults.from(nth, fault);
    }

    /// Takes back every fault that has not happened yet.
    pub fn mend(&self) {
        self.inner().faults.clear();
    }

    /// How many calls have changed something, or tried to.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.inner().faults.calls()
    }

    /// How many calls have met a fault since the last kill or power cut.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.inner().faults.failed()
    }

    /// Makes this disk, and those that become of it, forget to sync.
    pub fn mutate(&self, mutant: Mutant) {
        self.inner().mutant = Some(mutant);
    }

    /// Puts a file there, durable with all directories above it: where a test begins.
    pub fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.inner();
        let (dir, name) = inner.make_parents(path)?;
        let ino = inner.add(Node::File(File::durable(bytes)));
        inner.directory(dir)?.apply(NameOp::Set(name, ino));
        for node in inner.nodes.values_mut() {
            if let Node::Directory(directory) = node {
                directory.sync();
            }
        }
        Ok(())
    }

    /// Every file as a reader sees it now.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let inner = self.inner();
        let mut found = BTreeMap::new();
        inner.walk(ROOT, Path::new("/"), &mut |path, node| {
            if let Node::File(file) = node {
                found.insert(path.to_owned(), file.bytes().to_vec());
            }
        });
        found
    }

    fn open_as(&self, ino: Ino, path: &Path) -> Box<dyn DiskFile> {
        Box::new(SimFile { disk: self.clone(), ino, path: path.to_owned() })
    }
}

impl Inner {
    fn restart(&mut self) {
        self.locked.clear();
        self.faults = Faults::default();
    }

    fn add(&mut self, node: Node) -> Ino {
        let ino = self.next;
        self.next += 1;
        self.nodes.insert(ino, node);
        ino
    }

    fn directory(&mut self, ino: Ino) -> io::Result<&mut Directory> {
        match self.nodes.get_mut(&ino) {
            Some(Node::Directory(directory)) => Ok(directory),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn file(&mut self, ino: Ino) -> io::Result<&mut File> {
        match self.nodes.get_mut(&ino) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn find(&self, path: &Path) -> io::Result<Ino> {
        let mut at = ROOT;
        for name in names(path)? {
            let Some(Node::Directory(directory)) = self.nodes.get(&at) else {
                return Err(io::ErrorKind::NotADirectory.into());
            };
            at = directory.get(&name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    /// The directory that `path` is in, and its name there.
    fn place(&self, path: &Path) -> io::Result<(Ino, String)> {
        let mut above = names(path)?;
        let name = above.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = self.find(&above.iter().collect::<PathBuf>())?;
        Ok((dir, name))
    }

    fn make_parents(&mut self, path: &Path) -> io::Result<(Ino, String)> {
        let mut above = names(path)?;
        let name = above.pop().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.make_directories(&above)?, name))
    }

    fn make_directories(&mut self, path: &[String]) -> io::Result<Ino> {
        let mut at = ROOT;
        for name in path {
            at = match self.directory(at)?.get(name) {
                Some(found) => found,
                None => {
                    let made = self.add(Node::Directory(Directory::default()));
                    self.directory(at)?.apply(NameOp::Set(name.clone(), made));
                    made
                }
            };
        }
        self.directory(at)?;
        Ok(at)
    }

    /// Creates an empty file under a free name.
    fn create(&mut self, path: &Path) -> io::Result<Ino> {
        let (dir, name) = self.place(path)?;
        if self.directory(dir)?.get(&name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let ino = self.add(Node::File(File::default()));
        self.directory(dir)?.apply(NameOp::Set(name, ino));
        Ok(ino)
    }

    /// Counts a call that changes something. What comes back is what it has to suffer.
    fn change(&mut self) -> io::Result<Option<Fault>> {
        match self.faults.next() {
            Some(fault @ (Fault::ShortWrite | Fault::FailedSync)) => Ok(Some(fault)),
            Some(fault) => Err(fault.error()),
            None => Ok(None),
        }
    }

    fn empty(&mut self, ino: Ino) -> io::Result<()> {
        for (name, child) in self.directory(ino)?.entries() {
            if matches!(self.nodes.get(&child), Some(Node::Directory(_))) {
                self.empty(child)?;
            }
            self.directory(ino)?.apply(NameOp::Unset(name));
        }
        Ok(())
    }

    fn walk(&self, ino: Ino, path: &Path, each: &mut dyn FnMut(&Path, &Node)) {
        let Some(node) = self.nodes.get(&ino) else {
            return;
        };
        each(path, node);
        if let Node::Directory(directory) = node {
            for (name, child) in directory.entries() {
                self.walk(child, &path.join(name), each);
            }
        }
    }

    /// What no name leads to is gone: nobody has it open any more.
    fn forget_unreachable(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        let mut open = vec![ROOT];
        while let Some(at) = open.pop() {
            if let Some(Node::Directory(directory)) = self.nodes.get(&at) {
                open.extend(
                    directory.entries().map(|(_, ino)| ino).filter(|&ino| reached.insert(ino)),
                );
            }
        }
        self.nodes.retain(|ino, _| reached.contains(ino));
    }
}

/// The names on the way to `path`, from the root.
fn names(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_string_lossy().into_owned()),
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(names)
}

impl Disk for SimDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.inner();
        let ino = inner.find(path)?;
        inner.file(ino)?;
        drop(inner);
        Ok(self.open_as(ino, path))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.inner();
        let ino = match inner.find(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                inner.change()?;
                inner.create(path)?
            }
            found => found?,
        };
        inner.file(ino)?;
        drop(inner);
        Ok(self.open_as(ino, path))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.inner();
        inner.change()?;
        let ino = inner.create(path)?;
        drop(inner);
        Ok(self.open_as(ino, path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut inner = self.inner();
        inner.change()?;
        let ((dir, old), (other, new)) = (inner.place(from)?, inner.place(to)?);
        if dir != other {
            // Two directories that are synced apart: nothing here needs it, so it is not modelled.
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        let directory = inner.directory(dir)?;
        directory.get(&old).ok_or(io::ErrorKind::NotFound)?;
        directory.apply(NameOp::Rename(old, new));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut inner = self.inner();
        inner.change()?;
        let ino = inner.find(from)?;
        let (dir, name) = inner.place(to)?;
        let directory = inner.directory(dir)?;
        if directory.get(&name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        directory.apply(NameOp::Set(name, ino));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.inner();
        inner.change()?;
        let (dir, name) = inner.place(path)?;
        let directory = inner.directory(dir)?;
        directory.get(&name).ok_or(io::ErrorKind::NotFound)?;
        directory.apply(NameOp::Unset(name));
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.inner();
        inner.change()?;
        let (dir, name) = inner.place(path)?;
        let ino = inner.find(path)?;
        inner.empty(ino)?;
        inner.directory(dir)?.apply(NameOp::Unset(name));
        Ok(())
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.inner();
        if matches!(
            inner.find(path).ok().and_then(|ino| inner.nodes.get(&ino)),
            Some(Node::Directory(_))
        ) {
            return Ok(());
        }
        inner.change()?;
        inner.make_directories(&names(path)?).map(drop)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.inner();
        // A directory is metadata, which the system's own journal keeps: no sync of it ever calls
        // what it could not write clean.
        if inner.change()? == Some(Fault::FailedSync) {
            return Err(Fault::FailedSync.error());
        }
        let ino = inner.find(path)?;
        let ignored = inner.mutant.as_ref().is_some_and(|mutant| mutant.ignores_dir(path));
        let directory = inner.directory(ino)?;
        if !ignored {
            directory.sync();
        }
        Ok(())
    }

    fn write_again(&self, path: &Path, from: u64) -> io::Result<()> {
        let mut inner = self.inner();
        inner.change()?;
        let ino = inner.find(path)?;
        inner.file(ino)?.write_again(size(from)?);
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut inner = self.inner();
        let ino = inner.find(path)?;
        Ok(inner.directory(ino)?.entries().map(|(name, _)| name).collect())
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let inner = self.inner();
        let ino = inner.find(path)?;
        let (len, is_dir) = match inner.nodes.get(&ino) {
            Some(Node::File(file)) => (file.bytes().len() as u64, false),
            _ => (0, true),
        };
        Ok(Stat { len, modified: SystemTime::UNIX_EPOCH, is_dir })
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockFile>>> {
        let mut inner = self.inner();
        inner.change()?;
        let ino = match inner.find(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => inner.create(path)?,
            found => found?,
        };
        if !inner.locked.insert(ino) {
            return Ok(None);
        }
        drop(inner);
        Ok(Some(Box::new(SimLock { disk: self.clone(), ino })))
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        let inner = self.inner();
        let ino = inner.find(path)?;
        Ok(inner.locked.contains(&ino))
    }
}

fn size(n: u64) -> io::Result<usize> {
    usize::try_from(n).map_err(io::Error::other)
}
