//! Where a session's workspace is here and now: where it was, or where it has moved to.
//!
//! A session that was copied from another machine names paths of that machine. Its repository is
//! known by its identity, so it is found again under another path; what differs from the last
//! checkpoint is shown, and never overwritten unasked.

use std::path::{Path, PathBuf};

use segue_core::State;
use segue_journal::Session;
use segue_workspace::{Change, identify};

use crate::keep::Keeper;

/// The workspace on this machine.
#[derive(Clone, Debug)]
pub struct Place {
    pub dir: PathBuf,
    /// It is not where the session last worked, or this is another machine.
    pub elsewhere: bool,
    /// The session's own worktree is gone, and is built again.
    pub rebuild: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("the workspace {} is not there", .0.display())]
    Gone(PathBuf),
    #[error("{} is {found}, and the session belongs to {wanted}", .dir.display())]
    OtherRepository { dir: PathBuf, found: String, wanted: String },
}

/// How the files are compared with the last checkpoint.
#[derive(Debug)]
pub enum Difference {
    /// There is nothing to compare with.
    Unknown,
    /// The checkpoint's commit is not in this repository.
    Missing(String),
    Same,
    Files {
        changes: Vec<Change>,
        total: usize,
    },
}

impl Place {
    /// Finds the workspace. `named` is the user's word, `cwd` where the command was called.
    pub fn find(
        session: &Session,
        host: &str,
        named: Option<&Path>,
        cwd: &Path,
    ) -> Result<Self, PlaceError> {
        let state = session.state();
        let recorded = state.workspace().map(PathBuf::from).unwrap_or_default();
        let named = match named {
            Some(named) => Some(named.to_owned()),
            // Until it has worked there, and the journal knows it too.
            None => session.here().filter(|here| here.is_dir() && *here != recorded),
        };
        let other_host = state.host.as_deref().is_some_and(|last| last != host);
        let here = |dir: PathBuf| {
            let elsewhere = other_host || dir != recorded;
            Self { dir, elsewhere, rebuild: false }
        };
        if let Some(named) = named {
            return Ok(here(named));
        }
        if recorded.is_dir() && (!other_host || belongs(state, &recorded)) {
            return Ok(here(recorded.clone()));
        }
        // Before the repository itself: the session was kept out of it.
        let tree = state.worktree.as_ref().filter(|tree| recorded.starts_with(&tree.plan.path));
        if tree.is_some_and(|tree| !other_host && tree.plan.repo.is_dir()) {
            return Ok(Self { dir: recorded, elsewhere: false, rebuild: true });
        }
        match same_repository(state, cwd, &recorded) {
            Some(found) => Ok(here(found)),
            None => Err(PlaceError::Gone(recorded)),
        }
    }

    /// Compares the files with the last checkpoint.
    #[must_use]
    pub fn difference(&self, session: &Session, keeper: &Keeper) -> Difference {
        let last = session.state().checkpoint.as_ref();
        let Some(commit) = last.and_then(|last| last.commit.as_deref()) else {
            return Difference::Unknown;
        };
        let Ok(snapshots) = keeper.snapshots() else { return Difference::Unknown };
        if !snapshots.exists(commit).unwrap_or(false) {
            return Difference::Missing(commit.to_owned());
        }
        match snapshots.differs(commit, MOST_SHOWN) {
            Err(_) => Difference::Unknown,
            Ok((_, _, 0)) => Difference::Same,
            Ok((_, changes, total)) => Difference::Files { changes, total },
        }
    }
}

/// How many changed files are named.
const MOST_SHOWN: usize = 10;

fn belongs(state: &State, dir: &Path) -> bool {
    let wanted = state.identity.as_ref().map(|found| found.repo.identity.as_str());
    identify(dir).is_ok_and(|found| Some(found.identity.as_str()) == wanted)
}

/// The working directory's repository, where it is the session's own, at the place within it that
/// the session worked in.
fn same_repository(state: &State, cwd: &Path, recorded: &Path) -> Option<PathBuf> {
    let here = identify(cwd).ok()?;
    let identity = state.identity.as_ref()?;
    if here.identity != identity.repo.identity {
        return None;
    }
    // The part of the path below the repository's own name, if there is such a place here.
    let name = here.root.file_name()?;
    let below: PathBuf = recorded.iter().skip_while(|part| *part != name).skip(1).collect();
    // Not `join` alone: with nothing below it would leave a slash at the end.
    let inner: PathBuf = here.root.iter().chain(below.iter()).collect();
    Some(if inner.is_dir() { inner } else { here.root })
}
