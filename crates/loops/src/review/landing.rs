//! What passed, on the branch: exactly as it was seen, and once.

use std::path::PathBuf;

use segue_core::event::{Reason, WorkCommitted};
use segue_runner::{Halt, Supervisor, supervisor::stop};
use segue_workspace::{
    Status,
    worktree::{self, Landed, Landing},
};

use crate::{shift::Shift, tasks};

/// Puts what passed on the session's own branch. Where a crash came between the commit and its
/// event, the commit is found by its trailers, and recorded.
pub(crate) fn commit(supervisor: &mut Supervisor<'_>, shift: &Shift<'_>) -> Result<(), Halt> {
    let state = supervisor.state();
    let branch = state.worktree.as_ref().map(|tree| tree.plan.branch.clone()).unwrap_or_default();
    // Of a worker that is alone, it is what was there when the proof and its own word judged it.
    let kept = || state.checkpoint.as_ref().and_then(|last| last.commit.clone());
    let Some(seen) = state.round().and_then(|round| round.to.clone()).or_else(kept) else {
        let message = "what passed was not kept, so it can't be committed";
        return Err(stop(Reason::Failed, message).into());
    };
    let since = changed_since(shift, &seen)?;
    let of_list = tasks::commit_of(supervisor.session().session());
    let (task, message, trailers) = match of_list {
        Some((task, message, mut marks)) => {
            marks.extend(trailers(supervisor));
            (Some(task), message, marks)
        }
        None => (None, title(supervisor)?, trailers(supervisor)),
    };
    let landing = Landing {
        branch: &branch,
        message: &message,
        trailers: &trailers,
        since: &since,
        seen: &seen,
        // Each task has a commit of its own, also one that needed no change.
        even_if_empty: task.is_some(),
    };
    let landed = worktree::commit_all(&shift.workspace, &landing).map_err(|error| {
        stop(Reason::Failed, format!("what passed could not be committed: {error}"))
    })?;
    let Landed { commit, kept, .. } = landed;
    let draft = supervisor.in_turn(WorkCommitted { commit, branch, task, failed: None });
    supervisor.commit(draft)?;
    let since: Vec<PathBuf> = since.into_iter().filter(|path| !kept.contains(path)).collect();
    for (what, paths) in [
        ("changed since the review, and not committed", since),
        ("committed by somebody since the review, and left as it is there", kept),
    ] {
        if !paths.is_empty() {
            let names = paths.iter().take(3).map(|path| path.to_string_lossy().into_owned());
            let names = names.collect::<Vec<_>>().join(", ");
            supervisor.warn(format!("{what}: {names}"))?;
        }
    }
    Ok(())
}

/// All paths that are not as the reviewers saw them.
fn changed_since(shift: &Shift<'_>, seen: &str) -> Result<Vec<PathBuf>, Halt> {
    let unknown = |why: &dyn std::fmt::Display| {
        let message = format!("what passed can't be compared with what is there: {why}");
        stop(Reason::Failed, message)
    };
    let snapshots = shift.keeper.snapshots().map_err(|why| unknown(&why))?;
    let (_, changed, _) = snapshots.differs(seen, usize::MAX).map_err(|error| unknown(&error))?;
    let mut paths = Vec::new();
    for one in changed {
        paths.push(one.path);
        // It was there under its old name.
        if let Status::Renamed { from } = one.status {
            paths.push(from);
        }
    }
    Ok(paths)
}

fn title(supervisor: &Supervisor<'_>) -> Result<String, Halt> {
    let (state, session) = (supervisor.state(), supervisor.session().session());
    // What was asked for last is what the commit is about.
    let task = match (state.notes.prompts.last(), &state.identity) {
        (Some(asked), _) => asked.what.clone(),
        (None, Some(identity)) => session.text(&identity.prompt)?,
        (None, None) => String::new(),
    };
    let mut lines = task.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.next().unwrap_or_default().chars().take(72).collect())
}

fn trailers(supervisor: &Supervisor<'_>) -> Vec<(&'static str, String)> {
    let (state, session) = (supervisor.state(), supervisor.session().session());
    let verdicts = state.round().map(|round| round.verdicts.clone()).unwrap_or_default();
    let verdicts =
        verdicts.iter().map(|(name, verdict)| format!("{name} {verdict:?}").to_lowercase());
    let verdicts = verdicts.collect::<Vec<_>>().join(", ");
    let mut trailers = Vec::new();
    if !verdicts.is_empty() {
        let iteration = state.review.iteration;
        trailers.push(("Reviewed-by", format!("{verdicts} (iteration {iteration})")));
    }
    trailers.push((tasks::SESSION, session.id().to_string()));
    trailers.push((tasks::TURN, state.last_turn().to_string()));
    trailers
}
