//! What can go wrong on the way to the disk, always with the path that it happened at.

use std::{
    io,
    path::{Path, PathBuf},
};

use segue_core::SessionId;

use crate::{lock::Holder, scan::Damage};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: line {}: {}", path.display(), damage.line, damage.finding)]
    Damaged { path: PathBuf, damage: Damage },
    #[error("{}: written by a newer Segue (format {found}): it can be read, not written to", path.display())]
    Newer { path: PathBuf, found: u32 },
    #[error("{} is in use by {holder}", dir.display())]
    Busy { dir: PathBuf, holder: Holder },
    #[error("{}: there is no session here", dir.display())]
    NotASession { dir: PathBuf },
    #[error("{}: line {line}, column {column}: {message}", path.display())]
    Json { path: PathBuf, line: usize, column: usize, message: String },
    #[error("{}: blob {hash} {what}", dir.display())]
    Blob { dir: PathBuf, hash: String, what: &'static str },
    #[error("{}: the session that it begins with, {from}, {what}", dir.display())]
    Base { dir: PathBuf, from: SessionId, what: &'static str },
    #[error("{}: the session whose recording answers it, {from}, {what}", dir.display())]
    Recording { dir: PathBuf, from: SessionId, what: &'static str },
    /// A write or a sync failed before: what is in memory can't be trusted any more.
    #[error("{}: not written any more after: {first}", path.display())]
    Poisoned { path: PathBuf, first: String },
    #[error("{}: an event of {bytes} bytes is too long for a journal line", path.display())]
    TooLong { path: PathBuf, bytes: usize },
}

impl Error {
    /// The kind of I/O error behind this one, if there is one.
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Io { source, .. } => Some(source.kind()),
            _ => None,
        }
    }

    pub fn json(path: &Path, error: &serde_json::Error) -> Self {
        Self::Json {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
            message: without_place(&error.to_string()),
        }
    }
}

/// Gives an I/O error the path that it happened at.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { path: path.to_owned(), source })
    }
}

/// The place stands before the message already.
fn without_place(message: &str) -> String {
    let end = message.rfind(" at line ").unwrap_or(message.len());
    message[..end].to_owned()
}
