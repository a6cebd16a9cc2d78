//! What can keep a look at sessions from succeeding: little, since a cache is never a reason.

use std::{
    io,
    path::{Path, PathBuf},
};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Journal(#[from] segue_journal::Error),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Seen by callers only where not even a database in memory works.
    #[error("the index of sessions: {0}")]
    Index(#[from] rusqlite::Error),
}

impl Error {
    pub(crate) fn io(path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.to_owned(), source: source.into() }
    }
}
