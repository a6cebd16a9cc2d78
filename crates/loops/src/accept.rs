//! Taking over what a session made in a worktree of its own.
//!
//! Only the files that the session has changed are touched, and none that was changed meanwhile in
//! the place that they are taken into: such a file is a conflict, for a person to decide. What was
//! there before is kept under a ref, so this can be taken back.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_core::event::WorkAccepted;
use segue_journal::{Clock, Durability, Session, lock::Holder};
use segue_workspace::{Snapshots, Status};

use crate::{
    keep::{Keeper, reference},
    rewind::count,
};

#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    #[error(transparent)]
    Journal(#[from] segue_journal::Error),
    #[error("{0}")]
    Files(String),
    #[error("its files were not kept: there is nothing to take over")]
    Nothing,
}

/// What would be taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub commit: String,
    pub into: PathBuf,
    /// The files that the session has changed, and that are other ones there now.
    pub files: Vec<PathBuf>,
    /// Those of them that somebody has changed there as well.
    pub conflicts: Vec<PathBuf>,
}

/// Thinks it through. No file is changed.
pub fn plan(session: &Session, keeper: &Keeper, into: &Path) -> Result<Plan, AcceptError> {
    let state = session.state();
    let commit = |point: &Option<segue_core::state::Checkpoint>| {
        point.as_ref().and_then(|point| point.commit.clone()).ok_or(AcceptError::Nothing)
    };
    let (first, last) = (commit(&state.first_checkpoint)?, commit(&state.checkpoint)?);
    let kept = keeper.snapshots().map_err(|why| AcceptError::Files(why.to_owned()))?;
    let now = kept.take_unnamed().map_err(files)?.commit;
    let made = changed(kept, &first, &last)?;
    let meanwhile = changed(kept, &first, &now)?;
    let differs = changed(kept, &last, &now)?;
    let wanted: Vec<PathBuf> = made.intersection(&differs).cloned().collect();
    let conflicts = wanted.iter().filter(|path| meanwhile.contains(*path)).cloned().collect();
    Ok(Plan { commit: last, into: into.to_owned(), files: wanted, conflicts })
}

fn changed(kept: &Snapshots, from: &str, to: &str) -> Result<BTreeSet<PathBuf>, AcceptError> {
    let (changes, _) = kept.changes(from, to, usize::MAX).map_err(files)?;
    let mut paths = BTreeSet::new();
    for change in changes {
        // A file that was moved is one that is gone, and one that is new.
        if let Status::Renamed { from } = change.status {
            paths.insert(from);
        }
        paths.insert(change.path);
    }
    Ok(paths)
}

fn files(error: impl std::fmt::Display) -> AcceptError {
    AcceptError::Files(error.to_string())
}

/// Does it, and records it in the session. Done twice, it changes nothing the second time.
pub fn accept(
    session: Session,
    keeper: &Keeper,
    plan: &Plan,
    me: &Holder,
    clock: &Clock,
) -> Result<WorkAccepted, AcceptError> {
    let (mut session, _) = session.lock(me, Arc::clone(clock))?;
    let kept = keeper.snapshots().map_err(|why| AcceptError::Files(why.to_owned()))?;
    let safety = reference(session.session(), &format!("accepted-{}", session.state().seq));
    let wanted = |path: &Path| plan.files.iter().any(|file| file == path);
    let restored = kept.restore_some(&plan.commit, &safety, &wanted).map_err(files)?;
    let accepted = WorkAccepted {
        commit: plan.commit.clone(),
        into: plan.into.clone(),
        files: count(&restored.done),
        safety: restored.safety_ref,
    };
    session.append(accepted.clone(), Durability::Synced)?;
    Ok(accepted)
}
