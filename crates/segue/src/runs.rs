//! Where runs are kept.

use std::{
    collections::HashMap,
    env,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_core::selector::{Selector, check_name};
use segue_journal::{
    Clock, Home, LockedSession, RealDisk, Session, home::NewSession, lock::Holder, system_clock,
};
use segue_loops::keep::Checkpoints;
use segue_view::{index::Index, select};

use crate::{
    Run,
    error::{Error, Result},
};

/// All runs of a person: a home, as `segue --home` names it.
#[derive(Clone)]
pub struct Runs {
    home: Home,
    clock: Clock,
    checkpoints: Checkpoints,
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runs").field("dir", &self.home.dir()).finish_non_exhaustive()
    }
}

impl Runs {
    /// Those that the program `segue` would find here: `SEGUE_HOME`, else the nearest `.segue` above
    /// the working directory, else `~/.segue`.
    ///
    /// # Errors
    /// When there is none of them, and `HOME` is not set.
    pub fn here() -> Result<Self> {
        let named = env::var_os("SEGUE_HOME").map(PathBuf::from);
        let dir = Self::dir_for(named.as_deref(), &cwd()?);
        let missing = || Error::Other("there is no home directory: HOME is not set".to_owned());
        Ok(Self::at(dir.ok_or_else(missing)?))
    }

    /// Where runs are kept for somebody who works in a directory: in the place that is named, else in
    /// the nearest `.segue` above, else in `~/.segue`.
    #[must_use]
    pub fn dir_for(named: Option<&Path>, cwd: &Path) -> Option<PathBuf> {
        if let Some(named) = named.filter(|path| !path.as_os_str().is_empty()) {
            return Some(cwd.join(named));
        }
        let above = cwd.ancestors().map(|dir| dir.join(".segue")).find(|dir| is_ours(dir));
        let home = || env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        above.or_else(|| Some(home()?.join(".segue")))
    }

    /// Those in a directory, which is made when the first one is.
    #[must_use]
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self::of(Home::new(Arc::new(RealDisk), dir.into()), system_clock())
    }

    /// Those of a home that is open, by a clock.
    #[must_use]
    pub fn of(home: Home, clock: Clock) -> Self {
        Self { home, clock, checkpoints: Checkpoints::default() }
    }

    /// Which workspaces are kept at the end of every turn; else those in git repositories.
    #[must_use]
    pub fn keeping(self, checkpoints: Checkpoints) -> Self {
        Self { checkpoints, ..self }
    }

    /// The home itself.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The clock that its events are stamped with.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn checkpoints(&self) -> Checkpoints {
        self.checkpoints
    }

    /// Loads a run: by its number, its name, its id or the start of one, the path of its directory;
    /// or from a file whose name ends in `.tine`, `.segue` or `.json` (OpenTelemetry). A file that was
    /// saved from a run here which has not gone on since is that run; any other becomes a run here
    /// first.
    ///
    /// # Errors
    /// [`Error::NoRun`] where nothing is meant, [`Error::File`] where a file is no run, or is the
    /// `.segue` of one that has gone on here: that one has all that is in it.
    pub fn load(&self, word: impl AsRef<Path>) -> Result<Run> {
        let path = word.as_ref();
        // Whatever else is called so in the working directory: a word means a run.
        if crate::file::is_named(path) {
            return crate::file::load(self, path);
        }
        let text = path.to_string_lossy();
        let no_run = |why: String| Error::NoRun { word: text.clone().into_owned(), why };
        let mut index = self.index()?;
        let found = select::resolve(&mut index, &Selector::parse(&text), None)
            .map_err(|error| no_run(error.to_string()))?;
        Ok(Run::new(self.clone(), found.open(&self.home)?, found.number))
    }

    /// Loads a run and marks it as running: see [`Run::hold`]. Executes nothing.
    ///
    /// # Errors
    /// Those of [`Runs::load`] and of [`Run::hold`].
    pub fn resume(&self, word: impl AsRef<Path>) -> Result<Run> {
        let mut run = self.load(word)?;
        run.hold()?;
        Ok(run)
    }

    /// Every run, newest first.
    ///
    /// # Errors
    /// When the home can't be read.
    pub fn all(&self) -> Result<Vec<Run>> {
        let numbered = self.home.numbers()?.into_iter().map(|(number, at)| (at.id, number));
        let numbers: HashMap<_, _> = numbered.collect();
        let mut located = self.home.sessions()?;
        located.sort_unstable_by_key(|at| std::cmp::Reverse(at.id));
        let open = |at: &segue_journal::home::Located| {
            let number = numbers.get(&at.id).copied();
            Ok(Run::new(self.clone(), self.home.open(at)?, number))
        };
        located.iter().map(open).collect()
    }

    /// Opens the run in a directory.
    pub(crate) fn open(&self, dir: &Path, number: Option<u64>) -> Result<Run> {
        let session = Session::open(Arc::clone(self.home.disk()), dir)?;
        Ok(Run::new(self.clone(), session, number))
    }

    /// Makes a run, which is there whole or not at all.
    pub(crate) fn create(&self, new: NewSession) -> Result<(LockedSession, u64)> {
        let _names = new.name.as_ref().map(|_| self.home.hold_names()).transpose()?;
        if let Some(name) = &new.name {
            let wrong = |why: String| Error::Name { name: name.clone(), why };
            check_name(name).map_err(|error| wrong(error.to_string()))?;
            let taken = select::name_taken(&mut self.index()?, name);
            if taken.map_err(|error| Error::Other(error.to_string()))?.is_some() {
                return Err(wrong("it is taken".to_owned()));
            }
        }
        Ok(self.home.create(new, &self.me(), &self.clock)?)
    }

    fn index(&self) -> Result<Index> {
        let wrong = |error: segue_view::Error| Error::Other(error.to_string());
        let mut index = Index::open(&self.home).map_err(wrong)?;
        index.refresh().map_err(wrong)?;
        Ok(index)
    }

    /// Who writes.
    pub(crate) fn me(&self) -> Holder {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Holder { pid: std::process::id(), host, since: (self.clock)() }
    }
}

pub(crate) fn cwd() -> Result<PathBuf> {
    env::current_dir()
        .map_err(|error| Error::Other(format!("the working directory can't be read: {error}")))
}

/// A home that somebody else put into our way (in a shared directory, say) could name another
/// server for our keys: only our own counts.
fn is_ours(dir: &Path) -> bool {
    dir.metadata()
        .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::getuid().as_raw())
}
