//! A worktree of the session's own: planned, made, entered again, built again.
//!
//! It is named in the journal before it is made, so a crash in between leaves nothing that nobody
//! knows of; and it is only ever removed with the session itself, which says first what it holds.

mod garbage;

use std::path::{Path, PathBuf};

pub use garbage::{Garbage, Spare};

use segue_core::{
    SessionId, State,
    event::{WorktreeMade, WorktreePlanned},
};
use segue_journal::{Durability, LockedSession, Session};
use segue_workspace::{
    Kind, Opened, Snapshots, identify,
    worktree::{self, Holding, Presence, Trace},
};

use crate::{
    keep::{reference, references},
    launch::LaunchError,
    tasks::SESSION,
};

/// Where the agent works, for a session that has a worktree of its own: made, entered again, or
/// built again where it is gone.
pub(crate) fn ensure(
    session: &mut LockedSession,
    workspace: &Path,
    number: Option<u64>,
) -> Result<Option<PathBuf>, LaunchError> {
    let wished = session.state().identity.as_ref().is_some_and(|found| found.worktree);
    if session.state().worktree.is_none() && wished {
        let plan = planned(session, workspace, number.unwrap_or_default())?;
        session.append(plan, Durability::Synced)?;
    }
    let Some(known) = session.state().worktree.clone() else { return Ok(None) };
    let plan = &known.plan;
    let presence = worktree::reenter(&plan.path, &plan.branch).map_err(wrong)?;
    // What is accepted there could not be committed: nobody is to work for that.
    if matches!(presence, Presence::Elsewhere(_)) && session.state().terms().is_some() {
        let (path, branch) = (plan.path.clone(), plan.branch.clone());
        return Err(LaunchError::Elsewhere { path, branch });
    }
    if presence == Presence::Gone {
        let state = session.state();
        // The snapshot was taken before what it holds was committed.
        if let Some(landed) = &state.landed {
            worktree::bring_back(&plan.repo, &plan.branch, landed).map_err(wrong)?;
        }
        let snapshot = state.checkpoint.as_ref().and_then(|last| last.commit.clone());
        let safety = reference(session.session(), &format!("before-{}", state.seq));
        let id = session.session().id().to_string();
        let (base, snapshot) = (Some(plan.base.as_str()), snapshot.as_deref());
        worktree::rebuild(&plan.repo, &plan.path, &plan.branch, base, snapshot, &id, &safety)
            .map_err(wrong)?;
    }
    if known.made {
        return Ok(Some(session.state().workspace().map_or(plan.path.clone(), Path::to_owned)));
    }
    // The same place within the repository that the command was called in.
    let below = workspace.strip_prefix(&plan.repo).unwrap_or(Path::new(""));
    let inner: PathBuf = plan.path.iter().chain(below.iter()).collect();
    let path = if inner.is_dir() { inner } else { plan.path.clone() };
    session.append(WorktreeMade { path: path.clone() }, Durability::Synced)?;
    Ok(Some(path))
}

/// Where the worktree will be, and on which branch.
fn planned(
    session: &LockedSession,
    workspace: &Path,
    number: u64,
) -> Result<WorktreePlanned, LaunchError> {
    let repo = identify(workspace).map_err(|error| LaunchError::Worktree(error.to_string()))?;
    if repo.kind == Kind::NoGit {
        return Err(LaunchError::Worktree("this is no git repository".to_owned()));
    }
    let none = || LaunchError::Worktree("the repository has no commit yet".to_owned());
    let base = repo.head.ok_or_else(none)?;
    let known = forgotten(session.session().id(), session.state()).map_err(wrong)?;
    if let Some((repo, Trace { branch, base, path })) = known {
        let path = match path {
            Some(path) => path,
            None => worktree::default_path(&repo, number).map_err(wrong)?,
        };
        return Ok(WorktreePlanned { path, branch, base, repo });
    }
    let identity = session.state().identity.as_ref();
    let prompt = identity.map_or("", |found| found.prompt.head());
    let branch = worktree::branch_name(&repo.root, number, prompt).map_err(wrong)?;
    let path = worktree::default_path(&repo.root, number).map_err(wrong)?;
    Ok(WorktreePlanned { path, branch, base, repo: repo.root })
}

/// The repository and the branch of a session whose journal was cut back to before its worktree was
/// planned: what it has committed tells which they are.
pub(crate) fn forgotten(
    id: SessionId,
    state: &State,
) -> Result<Option<(PathBuf, Trace)>, worktree::WorktreeError> {
    let lost = state.worktree.is_none() && state.repairs > 0;
    let Some(identity) = state.identity.as_ref().filter(|it| it.worktree && lost) else {
        return Ok(None);
    };
    // Where that is no repository, whoever needs one says so.
    let repo = identify(&identity.workspace).ok().filter(|repo| repo.kind != Kind::NoGit);
    let Some(repo) = repo else { return Ok(None) };
    let trace = worktree::trace(&repo.root, (SESSION, &id.to_string()))?;
    Ok(trace.map(|trace| (repo.root, trace)))
}

fn wrong(error: worktree::WorktreeError) -> LaunchError {
    LaunchError::Worktree(error.to_string())
}

/// What a session has outside of its own directory: checkpoints in a repository, a worktree.
#[derive(Debug)]
pub struct Leavings {
    snapshots: Option<Snapshots>,
    prefix: String,
    /// With what it holds, or why nobody can tell.
    tree: Option<(WorktreePlanned, Result<Holding, String>)>,
    /// The worktree was made, and is gone.
    gone: bool,
    /// The last checkpoint, where it has files that the worktree's base has not.
    kept: bool,
    /// The same of the sessions within it.
    parts: Vec<Leavings>,
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

impl Leavings {
    /// Looks. Where nothing can be found, there is nothing to lose; what can't be told may be something.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        let state = session.state();
        let planned = state.worktree.as_ref().map(|known| known.plan.clone());
        let dir = match &planned {
            Some(plan) => Some(plan.repo.as_path()),
            None => state.workspace(),
        };
        let key = session.id().to_string();
        let snapshots = dir.and_then(|dir| match Snapshots::open(dir, &key) {
            Ok(Opened::Ready(snapshots)) => Some(snapshots),
            _ => None,
        });
        let tree = planned.map(|plan| {
            // Without the repository, nothing of its worktree can be told ever again.
            let gone = !plan.repo.is_dir() && !plan.path.is_dir();
            let held = match gone {
                true => Ok(Holding::default()),
                false => worktree::holds(&plan.repo, &plan.path, &plan.branch)
                    .map_err(|error| error.to_string()),
            };
            (plan, held)
        });
        let made = state.worktree.as_ref().filter(|known| known.made);
        let gone = made.is_some_and(|known| !known.plan.path.exists());
        let last = state.checkpoint.as_ref().and_then(|last| last.commit.as_deref());
        let kept = made.zip(last).zip(snapshots.as_ref()).is_some_and(|((known, last), all)| {
            let differs = all.diff_text(&known.plan.base, last, 1);
            differs.map_or(true, |(text, _)| !text.is_empty())
        });
        let parts = session.parts().unwrap_or_default();
        let parts = parts.iter().map(|(_, part)| Self::of(part)).collect();
        Self { snapshots, prefix: references(session), tree, gone, kept, parts }
    }

    /// What would be lost with it and is nowhere else, in words.
    #[must_use]
    pub fn loss(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.parts.iter().flat_map(Self::loss).collect();
        let Some((plan, held)) = &self.tree else { return lines };
        let held = match held {
            Ok(held) => held,
            Err(why) => {
                let path = plan.path.display();
                lines.push(format!(
                    "whatever is in the worktree {path}, which can't be told: {why}"
                ));
                return lines;
            }
        };
        if !held.files.is_empty() {
            let (files, path) =
                (counted(held.files.len(), "uncommitted file"), plan.path.display());
            lines.push(format!("{files} in the worktree {path}"));
        }
        if !held.commits.is_empty() {
            let (commits, branch) = (counted(held.commits.len(), "commit"), &plan.branch);
            lines.push(format!("{commits} that only {branch} has"));
        }
        if self.gone && self.kept {
            let path = plan.path.display();
            lines.push(format!("the last checkpoint of the worktree {path}, which is gone"));
        }
        lines
    }

    /// How many checkpoints are in the repository: they go with it, and with them those of a copy of
    /// this session in another home.
    #[must_use]
    pub fn checkpoints(&self) -> usize {
        let refs = self.snapshots.as_ref().and_then(|all| all.list(&self.prefix).ok());
        refs.map_or(0, |refs| refs.len()) + self.parts.iter().map(Self::checkpoints).sum::<usize>()
    }

    /// Clears it away. Returns what did not work.
    #[must_use]
    pub fn remove(self) -> Vec<String> {
        let mut trouble: Vec<String> = self.parts.into_iter().flat_map(Self::remove).collect();
        if let Some((plan, _)) = &self.tree
            && (plan.path.exists() || self.gone)
        {
            let removed = worktree::remove(&plan.repo, &plan.path, &plan.branch, true);
            trouble.extend(removed.err().map(|error| error.to_string()));
        }
        if let Some(snapshots) = &self.snapshots {
            let refs = snapshots.list(&self.prefix).unwrap_or_default();
            let names: Vec<String> = refs.into_iter().map(|(name, _)| name).collect();
            trouble.extend(snapshots.delete_refs(&names).err().map(|error| error.to_string()));
        }
        trouble
    }
}
