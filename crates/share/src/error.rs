//! What can go wrong, always with the file that it is about and, for a bundle, the entry in it.

use std::{
    io,
    path::{Path, PathBuf},
};

use segue_core::SessionId;
use segue_journal::lock::Holder;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Journal(#[from] segue_journal::Error),
    #[error("{} is there already", path.display())]
    Exists { path: PathBuf },
    /// A session that an import would refuse is not exported.
    #[error("{}: {problem}; see `segue verify`", dir.display())]
    Damaged { dir: PathBuf, problem: String },
    #[error("{} was changed while it was read: try again", path.display())]
    Changed { path: PathBuf },
    #[error("{}: not a run that can be read: {why}", path.display())]
    BadArtifact { path: PathBuf, why: String },
    /// More than a file of this format may hold: nobody could read it.
    #[error("{} was not written, since nobody could read it: {why}", path.display())]
    TooMuch { path: PathBuf, why: String },
    /// It can be read, and is not what it says it is.
    #[error("{}: refused: {}", path.display(), findings.join("; "))]
    Unsound { path: PathBuf, findings: Vec<String> },
    #[error("{}: {why}", path.display())]
    Unsigned { path: PathBuf, why: String },
    #[error("{0}")]
    CantSign(#[from] crate::tine::CantSign),
    /// A file or a name that a bundle can't hold.
    #[error("`{name}` can't be put into a bundle: {why}")]
    Unfit { name: String, why: Why },
    #[error("{}: git {doing}: {message}", dir.display())]
    Git { dir: PathBuf, doing: &'static str, message: String },
    #[error(
        "{}: {} that the bundle builds on {} not here: {}; `git fetch` from where the session was, or export it with its full history",
        dir.display(), if commits.len() == 1 { "a commit" } else { "commits" },
        if commits.len() == 1 { "is" } else { "are" }, commits.join(", ")
    )]
    MissingCommits { dir: PathBuf, commits: Vec<String> },
    #[error("{} is not a bundle: {why}", path.display())]
    NotABundle { path: PathBuf, why: Why },
    #[error("{}: written by a newer Segue (bundle format {found}, this one reads {})", path.display(), crate::VERSION)]
    Newer { path: PathBuf, found: u32 },
    /// The bundle is not what a bundle may be. Nothing of it was kept.
    #[error("{}: refused: {entry}: {why}", path.display())]
    Refused { path: PathBuf, entry: String, why: Why },
    /// Ours has the bundle's first events and nothing else.
    #[error(
        "session {id} is here already, up to event {ours}; the bundle goes on to event {theirs}. An import does not change a session: remove ours first (`segue rm`), or import into another home (`--home`)"
    )]
    AheadOfOurs { id: SessionId, dir: PathBuf, ours: u64, theirs: u64 },
    #[error(
        "session {id} is here already, and in use by {holder}; import it again when it has ended"
    )]
    InUse { id: SessionId, dir: PathBuf, holder: Holder },
    #[error(
        "session {id} is here already, up to event {ours}; the bundle is older and ends at event {theirs}. There is nothing to import"
    )]
    Older { id: SessionId, dir: PathBuf, ours: u64, theirs: u64 },
    #[error(
        "session {id} is here already, and both have gone on since event {common}. Keep both: import into another home (`--home`)"
    )]
    Diverged { id: SessionId, dir: PathBuf, common: u64 },
}

/// Why a bundle, or an entry of it, is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("it ends too early")]
    Truncated,
    #[error("there are bytes after its end")]
    TrailingBytes,
    #[error("its compression is broken or of another kind ({0})")]
    Compression(String),
    #[error("it does not begin with bundle.json")]
    NoManifest,
    #[error("bundle.json does not parse: {0}")]
    Json(String),
    #[error("it is no tar header")]
    Header,
    #[error("its name leads out of the bundle, or is not plain")]
    Path,
    #[error("no such file belongs into a bundle")]
    Name,
    #[error("it is not a regular file")]
    Kind,
    #[error("it is there twice")]
    Twice,
    #[error("it is not in bundle.json")]
    NotListed,
    #[error("bundle.json lists it, and it is not there")]
    Missing,
    #[error("it has {found} bytes where bundle.json says {listed}")]
    Size { listed: u64, found: u64 },
    #[error("its content is not what bundle.json says (BLAKE3)")]
    Hash,
    #[error("the padding after it is not empty")]
    Padding,
    #[error("too large: {0} bytes at most")]
    TooLarge(u64),
    #[error("it unpacks to more than {0} times its size")]
    Bomb(u64),
    #[error("`{0}` is not a plain directory name")]
    RepoId(String),
    #[error("it says {found} where bundle.json says {listed}")]
    Disagrees { listed: String, found: String },
    #[error("{0}")]
    Session(String),
    #[error("{0}")]
    Git(String),
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

impl<T> At<T> for rustix::io::Result<T> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { path: path.to_owned(), source: source.into() })
    }
}
