//! What the branch has of a list, against what the journal says of it.
//!
//! A commit of ours that the journal knows nothing of is recorded: a crash came in between, or the end
//! of the journal is lost. One that only says so is nobody's word. A task whose commit is no longer there is not done any more. It costs one
//! look at the branch for each run, and nothing for each task.

use segue_core::{
    Body, Event, SessionId, State,
    event::{Mark, Reason, TaskFailed, WorkCommitted},
    state::{OFF_BRANCH, Standing, TaskEntry, Tasks},
};
use segue_runner::{Halt, Supervisor, supervisor::stop};
use segue_workspace::worktree::{self, WorktreeError};

use super::{SESSION, STATE, TASK, TURN};
use crate::{shift::Shift, worktree::forgotten};

/// What is said of a task that is done, and whose commit no branch has any more.
const BRANCH_GONE: &str = "branch_gone";

/// Where branch and journal differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Tasks that are on the branch and not recorded as done, with their commits; oldest first.
    pub found: Vec<(String, String)>,
    /// Tasks that are recorded as done and are not on the branch, with what their commits were.
    pub missing: Vec<(String, String)>,
    /// Tasks that a commit calls done, and nobody has accepted: they are as the journal has them.
    pub unproven: Vec<(String, String)>,
    /// The branch is gone: the branches and tags that have its last task's commit.
    pub gone: Option<Vec<String>>,
    /// Tasks with the commits that only have what there is of them.
    pub failed: Vec<(String, String)>,
    /// Placeholders that are not recorded, each with its task and why that failed.
    placeholders: Vec<(String, String, String)>,
    pub branch: String,
}

impl Differences {
    /// Looks at the branch of a session. Where there is none to look at, nothing differs.
    pub fn of(id: SessionId, state: &State) -> Result<Self, WorktreeError> {
        let Some(tasks) = &state.tasks else { return Ok(Self::default()) };
        let known = state.worktree.as_ref().map(|tree| tree.plan.clone());
        let known = known.map(|plan| (plan.repo, plan.branch, plan.base));
        let found = match known {
            Some(known) => Some(known),
            None => forgotten(id, state)?.map(|(repo, it)| (repo, it.branch, it.base)),
        };
        let Some((repo, branch, base)) = found else { return Ok(Self::default()) };
        let marks = worktree::marks(&repo, &branch, &base, (SESSION, &id.to_string()))?;
        let mut differences = Self { branch, ..Self::default() };
        match (marks, tasks.last_done()) {
            (Some(marks), _) => differences.compare(state, tasks, &marks),
            (None, Some(last)) => differences.gone = worktree::holders(&repo, &last)?,
            (None, None) => {}
        }
        Ok(differences)
    }

    fn compare(&mut self, state: &State, tasks: &Tasks, marks: &[worktree::Mark]) {
        let with = |standing: &'static str| {
            marks.iter().filter(move |mark| mark.value(STATE) == Some(standing))
        };
        for entry in tasks.entries.iter().chain(&tasks.gone) {
            let is_of = |mark: &&worktree::Mark| mark.value(TASK) == Some(entry.id.as_str());
            // What somebody has written into the text of a message is no proof that a task is done,
            // but reason enough to believe that it has not gone away.
            let at_end = || with("done").filter(is_of).filter(|mark| mark.at_end);
            if entry.standing == Standing::Done {
                if !with("done").any(|mark| is_of(&mark)) {
                    self.missing.push(commit_of(entry));
                }
            } else if let Some(mark) =
                at_end().rfind(|mark| was_recorded(entry, mark) || is_accepted(state, tasks, mark))
            {
                self.found.push((entry.id.clone(), mark.commit.clone()));
            } else if let Some(mark) = at_end().next_back() {
                self.unproven.push((entry.id.clone(), mark.commit.clone()));
            }
            let broken_off = entry.standing == Standing::Failed && entry.commit.is_none();
            if let Some(why) = entry.why.as_ref().filter(|_| broken_off) {
                let is_its = |mark: &&worktree::Mark| {
                    mark.at_end && turn_of(mark) == Some(entry.turn) && why != OFF_BRANCH
                };
                if let Some(mark) = with("failed").filter(is_of).rfind(is_its) {
                    let commit = mark.commit.clone();
                    self.placeholders.push((entry.id.clone(), commit, why.clone()));
                }
            }
        }
        let failed = with("failed").filter(|mark| mark.at_end);
        let failed = failed.filter_map(|it| Some((it.value(TASK)?.to_owned(), it.commit.clone())));
        self.failed = failed.collect();
        let place = |commit: &str| marks.iter().position(|mark| mark.commit == commit);
        self.found.sort_by_key(|(_, commit)| place(commit));
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.missing.is_empty() && self.placeholders.is_empty()
    }

    /// The events that make the journal say what the branch says.
    fn events(&self) -> impl Iterator<Item = Body> {
        let missing = self.missing.iter().map(|(task, commit)| {
            let short = commit.get(..7).unwrap_or(commit);
            let message = format!("its commit {short} is no longer on {}", self.branch);
            Body::from(TaskFailed { task: task.clone(), why: OFF_BRANCH.to_owned(), message })
        });
        let found = self.found.iter().map(|(task, commit)| {
            Body::from(WorkCommitted {
                commit: commit.clone(),
                branch: self.branch.clone(),
                task: Some(task.clone()),
                failed: None,
            })
        });
        let placeholders = self.placeholders.iter().map(|(task, commit, why)| {
            Body::from(WorkCommitted {
                commit: commit.clone(),
                branch: self.branch.clone(),
                task: Some(task.clone()),
                failed: Some(why.clone()),
            })
        });
        missing.chain(found).chain(placeholders)
    }

    /// A state as it will be once the differences are recorded. Of what is on no branch any more, it is
    /// said; what is done about it is for a person to decide.
    pub fn settle(&self, state: &mut State) {
        let at = state.updated_at.unwrap_or_default();
        for body in self.events() {
            let seq = state.seq + 1;
            state.apply(&Event { seq, at, turn: None, agent: None, id: None, body });
        }
        if self.gone.as_ref().is_some_and(Vec::is_empty)
            && let Some(tasks) = &mut state.tasks
        {
            let done = tasks.entries.iter_mut().filter(|entry| entry.standing == Standing::Done);
            done.for_each(|entry| entry.why = Some(BRANCH_GONE.to_owned()));
        }
    }
}

fn turn_of(mark: &worktree::Mark) -> Option<u32> {
    mark.value(TURN)?.parse().ok()
}

/// Whether a commit is one that was recorded, and was only off the branch for a while.
fn was_recorded(entry: &TaskEntry, mark: &worktree::Mark) -> bool {
    entry.taken_off.contains(&mark.commit)
}

/// Whether a commit that calls a task done was made of what was accepted. Anybody can write such a
/// message, and a worker that copies the style of those before it does. So it is the one that was to
/// be made when the run was cut short; or it is of a turn that the journal has lost, and everybody
/// who copies has copied from an earlier one.
fn is_accepted(state: &State, tasks: &Tasks, mark: &worktree::Mark) -> bool {
    let last = state.last_turn();
    let hand = tasks.hand.as_ref().filter(|hand| mark.value(TASK) == Some(&hand.task));
    let of_hand = hand.is_some_and(|hand| hand.turn < last);
    match turn_of(mark) {
        Some(turn) if turn == last => of_hand && (state.repairs > 0 || passes(state)),
        Some(turn) => turn > last && state.repairs > 0,
        None => false,
    }
}

/// Whether the last round was accepted.
fn passes(state: &State) -> bool {
    let round = state.terms().zip(state.round());
    round.is_some_and(|(terms, it)| it.missing(terms).is_empty() && it.passes(terms))
}

fn commit_of(entry: &TaskEntry) -> (String, String) {
    (entry.id.clone(), entry.commit.clone().unwrap_or_default())
}

/// Records what the branch says, before anything is done about what the journal says.
pub(super) fn reconcile(supervisor: &mut Supervisor<'_>, shift: &Shift<'_>) -> Result<(), Halt> {
    let state = supervisor.state();
    if state.tasks.is_none() {
        return Ok(());
    }
    let id = supervisor.session().session().id();
    let found = Differences::of(id, state).map_err(|error| {
        stop(Reason::Failed, format!("what is on the branch can't be read: {error}"))
    })?;
    if found.is_empty() {
        return Ok(());
    }
    let passed = passes(state);
    let hand = state.tasks.as_ref().and_then(|tasks| tasks.in_hand()).map(|it| it.id.clone());
    let whole = match (found.found.as_slice(), hand) {
        ([], _) => found.missing.is_empty(),
        ([(task, _)], Some(hand)) => passed && *task == hand,
        _ => false,
    };
    for body in found.events() {
        let draft = supervisor.in_turn(body);
        supervisor.commit(draft)?;
    }
    // The next task begins with what is there now, and not with what the journal knew of last.
    if !whole {
        shift.keeper.checkpoint(supervisor, Mark::TurnEnd)?;
    }
    Ok(())
}
