//! What the branch has of a list, against what the journal says of it.
//!
//! A commit of ours that the journal knows nothing of is recorded: a crash came in between, or the end
//! of the journal is lost. A task whose commit is no longer there is not done any more. It costs one
//! look at the branch for each run, and nothing for each task.

use segue_core::{
    Body, Event, State,
    event::{Mark, Reason, TaskFailed, WorkCommitted},
    state::{OFF_BRANCH, Standing, TaskEntry, Tasks},
};
use segue_journal::Session;
use segue_runner::{Halt, Supervisor, supervisor::stop};
use segue_workspace::worktree::{self, WorktreeError};

use super::{SESSION, STATE, TASK};
use crate::shift::Shift;

/// Where branch and journal differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Tasks that are on the branch and not recorded as done, with their commits; oldest first.
    pub found: Vec<(String, String)>,
    /// Tasks that are recorded as done and are not on the branch, with what their commits were.
    pub missing: Vec<(String, String)>,
    branch: String,
}

impl Differences {
    /// Looks at the branch of a session. Where there is none to look at, nothing differs.
    pub fn of(session: &Session) -> Result<Self, WorktreeError> {
        let state = session.state();
        let (Some(tasks), Some(tree)) = (&state.tasks, &state.worktree) else {
            return Ok(Self::default());
        };
        let (plan, id) = (&tree.plan, session.id().to_string());
        let marks = worktree::marks(&plan.repo, &plan.branch, &plan.base, (SESSION, &id))?;
        let mut differences = Self { branch: plan.branch.clone(), ..Self::default() };
        if let Some(marks) = marks {
            differences.compare(tasks, &marks);
        }
        Ok(differences)
    }

    fn compare(&mut self, tasks: &Tasks, marks: &[worktree::Mark]) {
        let accepted = |mark: &&worktree::Mark| mark.value(STATE) == Some("done");
        let done: Vec<&worktree::Mark> = marks.iter().filter(accepted).collect();
        let of = |task: &str| {
            let task = task.to_owned();
            done.iter().filter(move |mark| mark.value(TASK) == Some(task.as_str()))
        };
        for entry in tasks.entries.iter().chain(&tasks.gone) {
            // What somebody has written into the text of a message is no proof that a task is done,
            // but reason enough to believe that it has not gone away.
            let last = of(&entry.id).rfind(|mark| mark.at_end);
            match (entry.standing, last) {
                (Standing::Done, _) if of(&entry.id).next().is_some() => {}
                (Standing::Done, _) => self.missing.push(commit_of(entry)),
                (_, Some(mark)) => self.found.push((entry.id.clone(), mark.commit.clone())),
                (_, None) => {}
            }
        }
        let place = |commit: &str| done.iter().position(|mark| mark.commit == commit);
        self.found.sort_by_key(|(_, commit)| place(commit));
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.missing.is_empty()
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
        missing.chain(found)
    }

    /// A state as it will be once the differences are recorded.
    pub fn settle(&self, state: &mut State) {
        let at = state.updated_at.unwrap_or_default();
        for body in self.events() {
            let seq = state.seq + 1;
            state.apply(&Event { seq, at, turn: None, agent: None, id: None, body });
        }
    }
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
    let found = Differences::of(supervisor.session().session()).map_err(|error| {
        stop(Reason::Failed, format!("what is on the branch can't be read: {error}"))
    })?;
    if found.is_empty() {
        return Ok(());
    }
    let passed = state.terms().zip(state.round()).is_some_and(|(terms, it)| it.passes(terms));
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
