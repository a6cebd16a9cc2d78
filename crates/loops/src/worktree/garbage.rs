//! What no session needs any more, and what would be lost with it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use segue_core::{decide, event::WorktreePlanned, state::Phase};
use segue_journal::Home;
use segue_workspace::{Opened, Snapshots, worktree};

use super::Leavings;

/// Something that could go.
#[derive(Debug)]
pub struct Spare {
    pub what: String,
    /// What would be lost with it and is nowhere else.
    pub loses: Vec<String>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Worktree(Box<WorktreePlanned>),
    Checkpoints { dir: PathBuf, refs: Vec<String> },
}

/// All of it.
#[derive(Debug, Default)]
pub struct Garbage {
    pub spare: Vec<Spare>,
}

impl Garbage {
    /// Looks through a home, and through the repository that `cwd` is in.
    pub fn find(home: &Home, cwd: &Path) -> segue_journal::Result<Self> {
        let mut known = BTreeSet::new();
        let mut spare = Vec::new();
        for at in home.sessions()? {
            known.insert(at.id.to_string());
            // One that can't be read is not known to be completed.
            let Ok(session) = home.open(&at) else { continue };
            let parts = session.parts().unwrap_or_default();
            known.extend(parts.iter().map(|(_, part)| part.id().to_string()));
            let state = session.state();
            let done = state.phase == Phase::Stopped && !decide::is_resumable(state);
            let Some(tree) = state.worktree.as_ref().filter(|tree| tree.plan.path.exists()) else {
                continue;
            };
            if done && !state.rewind.waits {
                spare.push(Spare {
                    what: format!("worktree {}", tree.plan.path.display()),
                    loses: Leavings::of(&session).loss(),
                    kind: Kind::Worktree(Box::new(tree.plan.clone())),
                });
            }
        }
        spare.extend(orphans(cwd, &known));
        Ok(Self { spare })
    }
}

/// Checkpoints in this repository whose session is not in this home. They may belong to another
/// home, so they count as work that is nowhere else.
fn orphans(cwd: &Path, known: &BTreeSet<String>) -> Vec<Spare> {
    let Ok(Opened::Ready(snapshots)) = Snapshots::open(cwd, "gc") else { return Vec::new() };
    let refs = snapshots.list("refs/segue/").unwrap_or_default();
    let session = |name: &str| name.split('/').nth(2).unwrap_or_default().to_owned();
    let gone: BTreeSet<String> =
        refs.iter().map(|(name, _)| session(name)).filter(|id| !known.contains(id)).collect();
    gone.into_iter()
        .map(|id| {
            let names = refs.iter().map(|(name, _)| name.clone());
            let refs: Vec<String> = names.filter(|name| session(name) == id).collect();
            Spare {
                what: format!(
                    "{} checkpoints of session {id}, which is not in this home",
                    refs.len()
                ),
                loses: vec!["the files of these checkpoints, if no other home has it".to_owned()],
                kind: Kind::Checkpoints { dir: cwd.to_owned(), refs },
            }
        })
        .collect()
}

impl Spare {
    /// Clears it away.
    pub fn remove(&self) -> Result<(), String> {
        match &self.kind {
            Kind::Worktree(plan) => worktree::remove(&plan.repo, &plan.path, &plan.branch, true)
                .map_err(|error| error.to_string()),
            Kind::Checkpoints { dir, refs } => match Snapshots::open(dir, "gc") {
                Ok(Opened::Ready(snapshots)) => {
                    snapshots.delete_refs(refs).map_err(|error| error.to_string())
                }
                Ok(Opened::Unable(why)) => Err(why.to_string()),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}
