//! Where runs are kept.

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_core::selector::Selector;
use segue_journal::{Clock, Home, RealDisk, Session, lock::Holder, system_clock};
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
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runs").field("dir", &self.home.dir()).finish_non_exhaustive()
    }
}

impl Runs {
    /// The person's own: `SEGUE_HOME`, else `~/.segue`.
    ///
    /// # Errors
    /// When neither `SEGUE_HOME` nor `HOME` is set.
    pub fn here() -> Result<Self> {
        let named = |name: &str| env::var_os(name).filter(|path| !path.is_empty());
        let dir = match named("SEGUE_HOME") {
            Some(dir) => PathBuf::from(dir),
            None => match named("HOME") {
                Some(home) => PathBuf::from(home).join(".segue"),
                None => return Err(Error::Other("HOME is not set".to_owned())),
            },
        };
        Ok(Self::at(dir))
    }

    /// Those in a directory, which is made when the first one is.
    #[must_use]
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self::of(Home::new(Arc::new(RealDisk), dir.into()), system_clock())
    }

    /// Those of a home that is open, by a clock.
    #[must_use]
    pub fn of(home: Home, clock: Clock) -> Self {
        Self { home, clock }
    }

    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Loads a run: by its number, its name, its id or the start of one, the path of its directory;
    /// or from a file (`.tine`, `.segue`, OpenTelemetry JSON), which becomes a run here first.
    ///
    /// # Errors
    /// [`Error::NoRun`] where nothing is meant, [`Error::File`] where a file is no run.
    pub fn load(&self, word: impl AsRef<Path>) -> Result<Run> {
        let path = word.as_ref();
        if path.is_file() {
            return crate::file::load(self, path);
        }
        let text = path.to_string_lossy();
        let no_run = |why: String| Error::NoRun { word: text.clone().into_owned(), why };
        let mut index = Index::open(&self.home).map_err(|error| no_run(error.to_string()))?;
        let found = select::resolve(&mut index, &Selector::parse(&text), None)
            .map_err(|error| no_run(error.to_string()))?;
        Ok(Run::new(self.clone(), found.open(&self.home)?, found.number))
    }

    /// Every run, newest first.
    ///
    /// # Errors
    /// When the home can't be read.
    pub fn all(&self) -> Result<Vec<Run>> {
        let mut located = self.home.sessions()?;
        located.sort_unstable_by(|a, b| b.id.cmp(&a.id));
        let open = |at: &segue_journal::home::Located| {
            Ok(Run::new(self.clone(), self.home.open(at)?, None))
        };
        located.iter().map(open).collect()
    }

    /// Opens the run in a directory.
    pub(crate) fn open(&self, dir: &Path, number: Option<u64>) -> Result<Run> {
        let session = Session::open(Arc::clone(self.home.disk()), dir)?;
        Ok(Run::new(self.clone(), session, number))
    }

    /// Who writes.
    pub(crate) fn me(&self) -> Holder {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Holder { pid: std::process::id(), host, since: (self.clock)() }
    }
}
