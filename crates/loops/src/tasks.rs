//! A list of tasks: each is taken in hand, worked on like a pair's, and put on the branch.
//!
//! The branch decides. A task is done when its commit is there and recorded, and by nothing else: a
//! crash between the acceptance and the commit makes the commit later, and one between the commit
//! and its event finds it ([`branch`]). What a cap broke off is kept on the branch as a placeholder,
//! which is taken off again when the task is tried again.

pub mod branch;
pub mod ledger;

use std::path::{Path, PathBuf};

use segue_core::{
    Payload, State,
    event::{
        Mark, Outcome, Reason, Retry, SessionStopped, TaskFailed, TaskRead, TaskStarted, TasksRead,
        WorkCommitted,
    },
    state::{REMOVED, Standing, TaskEntry, TaskStep, Tasks},
    tasks::{
        List, Task,
        prompt::{self, Brief},
        stop::{EDITED, fails_the_task, word},
    },
};
use segue_journal::{Durability, LockedSession, Session, blob};
use segue_runner::{
    Halt, NATIVE, Supervisor,
    supervisor::{capped, stop},
};
use segue_workspace::worktree::{self, Landing, Unwound};

use crate::shift::Shift;

/// Trailers that say which commit of a session's branch is whose.
pub(crate) const SESSION: &str = "Segue-Session";
pub(crate) const TURN: &str = "Segue-Turn";
const TASK: &str = "Segue-Task";
const STATE: &str = "Segue-State";

/// A list, and where it was read.
#[derive(Clone, Debug)]
pub struct Source {
    pub path: PathBuf,
    pub list: List,
}

/// What is other than a session knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub edited: Vec<String>,
}

impl Source {
    /// What is other in this list than in the one that the session has read last.
    #[must_use]
    pub fn changes(&self, known: &Tasks) -> Changes {
        let mut changes = Changes::default();
        for task in &self.list.tasks {
            match known.entry(&task.id) {
                None => changes.added.push(task.id.clone()),
                Some(entry) if entry.digest != task.digest() => {
                    changes.edited.push(task.id.clone());
                }
                Some(_) => {}
            }
        }
        let is_there = |id: &str| self.list.tasks.iter().any(|task| task.id == id);
        let removed = known.entries.iter().filter(|entry| !is_there(&entry.id));
        changes.removed = removed.map(|entry| entry.id.clone()).collect();
        changes
    }

    /// The list as an event. The text of it is wherever `payload` puts it.
    pub fn read<E>(
        &self,
        known: Option<&Tasks>,
        payload: impl FnOnce(&str) -> Result<Payload, E>,
    ) -> Result<TasksRead, E> {
        let text = serde_json::to_string(&self.list).unwrap_or_default();
        let task = |task: &Task| TaskRead {
            id: task.id.clone(),
            title: task.title.clone(),
            digest: task.digest(),
        };
        let changes = known.map(|known| self.changes(known)).unwrap_or_default();
        Ok(TasksRead {
            source: self.path.clone(),
            list: payload(&text)?,
            tasks: self.list.tasks.iter().map(task).collect(),
            added: changes.added,
            removed: changes.removed,
            edited: changes.edited,
        })
    }

    /// Records the list in a new session.
    pub fn note(&self, session: &mut LockedSession) -> segue_journal::Result<()> {
        match self.news(session)? {
            Some(read) => session.append(read, Durability::Synced).map(drop),
            None => Ok(()),
        }
    }

    /// Writes the text of the list again that a session has read, where it is this one. Says whether it
    /// is.
    pub fn mend(&self, session: &Session) -> segue_journal::Result<bool> {
        let known = session.state().tasks.as_ref().map(|tasks| &tasks.list);
        let text = serde_json::to_string(&self.list).unwrap_or_default();
        if known.is_none_or(|known| known.digest() != Payload::inline(&text).digest()) {
            return Ok(false);
        }
        blob::payload(&**session.disk(), session.dir(), &text).map(|_| true)
    }

    /// The event for a session that is taken over; none where it knows this list already.
    pub(crate) fn news(&self, session: &LockedSession) -> segue_journal::Result<Option<TasksRead>> {
        let known = session.state().tasks.as_ref();
        let read = self.read(known, |text| session.payload(text))?;
        let same =
            known.is_some_and(|known| known.list == read.list && known.source == read.source);
        Ok((!same).then_some(read))
    }
}

/// The list that a session works on, as it was read last.
pub fn list(session: &Session) -> segue_journal::Result<List> {
    let Some(tasks) = &session.state().tasks else { return Ok(List::default()) };
    let text = session.text(&tasks.list)?;
    // One that can't be read is not an empty one, of which everything was removed.
    serde_json::from_str(&text).map_err(|error| segue_journal::Error::json(session.dir(), &error))
}

fn task<'a>(list: &'a List, id: &str) -> Option<&'a Task> {
    list.tasks.iter().find(|task| task.id == id)
}

/// The task in hand.
fn in_hand(state: &State) -> Option<(&Tasks, &TaskEntry)> {
    let tasks = state.tasks.as_ref()?;
    Some((tasks, tasks.in_hand()?))
}

/// Before anything goes on: what is done is what the branch has, an open turn of a task that is other
/// than it was is let go, and the ledger is as the journal has it.
pub(crate) fn begin(supervisor: &mut Supervisor<'_>, shift: &mut Shift<'_>) -> Result<(), Halt> {
    branch::reconcile(supervisor, shift)?;
    let state = supervisor.state();
    let Some(tasks) = &state.tasks else { return Ok(()) };
    let step = tasks.step(state.turn.number);
    if state.turn.open && matches!(step, TaskStep::Start | TaskStep::AllDone) {
        end_turn(supervisor, shift)?;
    }
    ledger::write(supervisor.session().session());
    Ok(())
}

fn end_turn(supervisor: &mut Supervisor<'_>, shift: &mut Shift<'_>) -> Result<(), Halt> {
    shift.settle(supervisor)?;
    supervisor.end_turn(Outcome::Superseded)
}

/// Takes the next task in hand, or the failed one again.
pub(crate) fn start(supervisor: &mut Supervisor<'_>, shift: &Shift<'_>) -> Result<(), Halt> {
    let state = supervisor.state();
    // Between two tasks, all caps count.
    if let Some(cap) = state.caps.against_turn(state, supervisor.now()) {
        return Err(capped(cap).into());
    }
    if let Some(gone) = dropped(state) {
        return set_aside(supervisor, shift, &gone);
    }
    let Some(next) = state.tasks.as_ref().and_then(Tasks::upcoming).cloned() else {
        return Ok(());
    };
    let retry = match (next.standing, next.attempts) {
        (Standing::Failed, _) => Some(unwind(supervisor, shift, &next)?),
        (_, 0) => None,
        (_, _) => Some(Retry { was: EDITED.to_owned(), unwound: None, kept: None }),
    };
    let started = TaskStarted { task: next.id, attempt: next.attempts + 1, retry };
    supervisor.commit(started).map(drop)
}

/// The task in hand that is no longer in the list.
fn dropped(state: &State) -> Option<String> {
    let tasks = state.tasks.as_ref()?;
    let hand = tasks.hand.as_ref()?;
    tasks.entry(&hand.task).is_none().then(|| hand.task.clone())
}

/// What there is of a task that nobody asks for any more must not become part of the next one.
fn set_aside(supervisor: &mut Supervisor<'_>, shift: &Shift<'_>, task: &str) -> Result<(), Halt> {
    // It may have been edited since the last stop: the next task begins with what is there now.
    shift.keeper.checkpoint(supervisor, Mark::TurnEnd)?;
    let turn = supervisor.state().turn.number;
    placeholder(supervisor, shift, task, "", REMOVED, turn)?;
    // Where there was nothing more to commit, nothing has said yet that it is out of hand.
    if dropped(supervisor.state()).is_none() {
        return Ok(());
    }
    let message = "it is no longer in the list".to_owned();
    let failed = TaskFailed { task: task.to_owned(), why: REMOVED.to_owned(), message };
    supervisor.commit(failed).map(drop)
}

/// Takes the placeholder of a failed task off the branch: what it holds is then there as changes
/// that are not committed.
fn unwind(
    supervisor: &mut Supervisor<'_>,
    shift: &Shift<'_>,
    entry: &TaskEntry,
) -> Result<Retry, Halt> {
    let was = entry.why.clone().unwrap_or_default();
    let mut retry = Retry { was, unwound: None, kept: None };
    let (branch, session) = (branch(supervisor.state()), supervisor.session().session());
    let trailers = of_failed(session, &entry.id, entry.turn);
    let wrong = |error: worktree::WorktreeError| {
        stop(Reason::Failed, format!("the branch {branch} can't be read: {error}"))
    };
    // A crash came between the commit and its event: then it is the tip.
    let commit = match &entry.commit {
        Some(commit) => commit.clone(),
        None => worktree::tip(&shift.workspace).map_err(wrong)?,
    };
    let unwound = worktree::unwind(&shift.workspace, &branch, &commit, &trailers);
    match unwound.map_err(wrong)? {
        Unwound::Done { .. } | Unwound::Already => retry.unwound = Some(commit),
        Unwound::Kept { .. } if entry.commit.is_none() => {}
        Unwound::Kept { why } => {
            let short = commit.get(..7).unwrap_or(&commit);
            supervisor.warn(format!("the placeholder {short} stays on {branch}: {why}"))?;
            retry.kept = Some(why);
        }
    }
    Ok(retry)
}

fn branch(state: &State) -> String {
    state.worktree.as_ref().map(|tree| tree.plan.branch.clone()).unwrap_or_default()
}

/// Names with their values, at the end of a commit's message.
pub(crate) type Trailers = Vec<(&'static str, String)>;

/// What tells the commits of one task from those of another.
fn marks(task: &str, standing: &str) -> Trailers {
    vec![(TASK, task.to_owned()), (STATE, standing.to_owned())]
}

/// The trailers of a placeholder.
fn of_failed(session: &Session, task: &str, turn: u32) -> Trailers {
    let mut trailers = marks(task, "failed");
    trailers.push((SESSION, session.id().to_string()));
    trailers.push((TURN, turn.to_string()));
    trailers
}

/// Of which task the next commit is, what it says, and what it is known by besides.
pub(crate) fn commit_of(session: &Session) -> Option<(String, String, Trailers)> {
    let (tasks, entry) = in_hand(session.state())?;
    let case = tasks.case.as_ref().map(|(_, case)| case.summary.trim()).unwrap_or_default();
    let subject = format!("{}: {}", entry.id, entry.title);
    let message = if case.is_empty() { subject } else { format!("{subject}\n\n{case}") };
    Some((entry.id.clone(), message, marks(&entry.id, "done")))
}

/// The first prompt of the task in hand.
pub(crate) fn prompt(supervisor: &Supervisor<'_>, shift: &Shift<'_>) -> Result<String, Halt> {
    let (state, session) = (supervisor.state(), supervisor.session().session());
    let gone = || stop(Reason::Failed, "the task in hand is not in the list");
    let (tasks, entry) = in_hand(state).ok_or_else(gone)?;
    let list = list(session)?;
    let task = task(&list, &entry.id).ok_or_else(gone)?;
    let project = project(&shift.workspace, state.agent());
    let retry = last_retry(session)?;
    Ok(prompt::worker(&Brief {
        list: &list,
        task,
        tasks,
        project: &project,
        proof: state.identity.as_ref().and_then(|found| found.proof.as_deref()),
        ledger: &state.review.ledger,
        retry: retry.as_ref(),
    }))
}

/// Why the task in hand is begun again, if it is, and what there is of it.
fn last_retry(session: &Session) -> segue_journal::Result<Option<Retry>> {
    let started = session.newest_first()?.find_map(|event| match event.body {
        segue_core::Body::TaskStarted(started) => Some(started),
        _ => None,
    });
    Ok(started.and_then(|started| started.retry))
}

/// What the project tells agents, but for what this one reads by itself.
fn project(workspace: &Path, agent: &str) -> Vec<(String, String)> {
    let read = |name: &'static str| {
        std::fs::read_to_string(workspace.join(name)).ok().map(|text| (name, text))
    };
    let files: Vec<(&str, String)> =
        ["AGENTS.md", "CLAUDE.md"].into_iter().filter_map(read).collect();
    let by_itself = |name: &str| match agent {
        // Only the first that is there.
        NATIVE => files.first().is_some_and(|(first, _)| *first == name),
        "claude" => name == "CLAUDE.md",
        "gemini" | "qwen" => false,
        // Whatever a command of the user's own reads, nobody knows.
        agent if agent.starts_with("exec:") || agent.starts_with("acp:") => false,
        _ => name == "AGENTS.md",
    };
    // Often one of them is a link to the other.
    let known = files.iter().filter(|(name, _)| by_itself(name));
    let mut known: Vec<&str> = known.map(|(_, text)| text.as_str()).collect();
    let mut found = Vec::new();
    for (name, text) in &files {
        if !text.trim().is_empty() && !known.contains(&text.as_str()) {
            known.push(text);
            found.push(((*name).to_owned(), text.clone()));
        }
    }
    found
}

/// What an evaluator is told of the task in hand, and of the worker's case for it.
pub(crate) fn for_evaluator(session: &Session) -> segue_journal::Result<Option<(String, String)>> {
    let state = session.state();
    let Some((tasks, entry)) = in_hand(state) else { return Ok(None) };
    let list = list(session)?;
    let Some(task) = task(&list, &entry.id) else { return Ok(None) };
    let case = tasks.case.as_ref().map(|(_, case)| prompt::case(case));
    Ok(Some((prompt::evaluator(&list, task), case.unwrap_or_default())))
}

/// Notes the case in the block that closes the worker's answer, where it has not called the tool.
pub(crate) fn closing_case(supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
    let state = supervisor.state();
    let turn = state.turn.number;
    let wanted = state.terms().is_some_and(|terms| terms.case) && in_hand(state).is_some();
    let case = state.tasks.as_ref().and_then(|tasks| tasks.case.as_ref());
    if !wanted || case.is_some_and(|(of, _)| *of == turn) {
        return Ok(());
    }
    let last = crate::keep::last_text(supervisor.session().session(), turn)?;
    match last.and_then(|(text, _)| segue_agents::case::closing_block(&text)) {
        Some(case) => {
            let draft = supervisor.in_turn(case).about(format!("case-{turn}"));
            supervisor.commit(draft).map(drop)
        }
        None => Ok(()),
    }
}

/// What a stop does to the task in hand: one that is the task's own failure is recorded as such, and
/// what there is of it is kept on the branch.
pub(crate) fn settle(
    supervisor: &mut Supervisor<'_>,
    shift: &mut Shift<'_>,
    stop: &SessionStopped,
) -> Result<(), Halt> {
    let state = supervisor.state();
    let Some((tasks, entry)) = in_hand(state) else { return Ok(()) };
    let at_work = matches!(tasks.step(state.turn.number), TaskStep::First | TaskStep::Work);
    // What a reviewer ran into is not the task's fault.
    if !at_work || stop.agent.is_some() || !fails_the_task(stop) {
        return Ok(());
    }
    let why = word(stop);
    let (task, title) = (entry.id.clone(), entry.title.clone());
    if state.turn.open {
        end_turn(supervisor, shift)?;
    }
    if !supervisor.state().is_checkpointed() {
        shift.keeper.checkpoint(supervisor, Mark::TurnEnd)?;
    }
    let message = stop.message.clone();
    supervisor.commit(TaskFailed { task: task.clone(), why: why.to_owned(), message })?;
    let turn = supervisor.state().turn.number;
    placeholder(supervisor, shift, &task, &title, why, turn)
}

/// Commits everything that is there as what became of a task.
fn placeholder(
    supervisor: &mut Supervisor<'_>,
    shift: &Shift<'_>,
    task: &str,
    title: &str,
    why: &str,
    turn: u32,
) -> Result<(), Halt> {
    let branch = branch(supervisor.state());
    let trailers = of_failed(supervisor.session().session(), task, turn);
    let message = format!("{task}: FAILED ({why}): {title}");
    let landing = Landing {
        branch: &branch,
        message: message.trim_end_matches([':', ' ']),
        trailers: &trailers,
        since: &[],
        seen: "",
        even_if_empty: false,
    };
    // The placeholder of its last attempt may be the tip, and more be there by now.
    let landed = match why {
        REMOVED => worktree::commit_rest(&shift.workspace, &landing),
        _ => worktree::commit_all(&shift.workspace, &landing),
    };
    match landed {
        // One that is there already is recorded where a crash came in between.
        Ok(landed) if landed.ours && !is_known(supervisor.state(), task, &landed.commit) => {
            let (task, failed) = (Some(task.to_owned()), Some(why.to_owned()));
            let commit = landed.commit;
            let draft = supervisor.in_turn(WorkCommitted { commit, branch, task, failed });
            supervisor.commit(draft).map(drop)
        }
        Ok(_) => Ok(()),
        // It is in the worktree and in a checkpoint: nothing is lost.
        Err(error) => supervisor.warn(format!("what there is of {task} is not committed: {error}")),
    }
}

fn is_known(state: &State, task: &str, commit: &str) -> bool {
    let tasks = state.tasks.as_ref();
    let mut all = tasks.into_iter().flat_map(|tasks| tasks.entries.iter().chain(&tasks.gone));
    all.any(|entry| entry.id == task && entry.commit.as_deref() == Some(commit))
}

/// How many are done, for the last word.
pub(crate) fn done_message(state: &State) -> Option<String> {
    let tasks = state.tasks.as_ref()?;
    let (done, all) = (tasks.done(), tasks.entries.len());
    let plural = if all == 1 { "task is" } else { "tasks are" };
    let late = match state.bridge.waiting_for(state.worker()).count() {
        0 => String::new(),
        1 => "; 1 message came too late for the worker".to_owned(),
        n => format!("; {n} messages came too late for the worker"),
    };
    Some(format!("{done} of {all} {plural} done, on {}{late}", branch(state)))
}

#[cfg(test)]
mod tests {
    use super::project;

    /// The files that a worker is told, where these are there.
    fn told(agent: &str, files: &[(&str, &str)]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        project(dir.path(), agent).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn each_agent_is_told_what_it_does_not_read_by_itself() {
        let (agents, claude) = (("AGENTS.md", "Use tabs."), ("CLAUDE.md", "Use blanks."));
        let none: [&str; 0] = [];
        for (agent, both, only_agents, only_claude) in [
            // Segue's own agent reads the first that is there.
            ("native", &["CLAUDE.md"][..], &none[..], &none[..]),
            ("claude", &["AGENTS.md"], &["AGENTS.md"], &none),
            ("codex", &["CLAUDE.md"], &none, &["CLAUDE.md"]),
            ("gemini", &["AGENTS.md", "CLAUDE.md"], &["AGENTS.md"], &["CLAUDE.md"]),
            ("qwen", &["AGENTS.md", "CLAUDE.md"], &["AGENTS.md"], &["CLAUDE.md"]),
            ("exec:cat", &["AGENTS.md", "CLAUDE.md"], &["AGENTS.md"], &["CLAUDE.md"]),
        ] {
            assert_eq!(told(agent, &[agents, claude]), both, "{agent}");
            assert_eq!(told(agent, &[agents]), only_agents, "{agent}");
            assert_eq!(told(agent, &[claude]), only_claude, "{agent}");
            assert_eq!(told(agent, &[]), none, "{agent}");
        }
        // The same text under both names is told once, or not at all where it is known.
        let linked = [agents, ("CLAUDE.md", "Use tabs.")];
        assert_eq!(told("native", &linked), none);
        assert_eq!(told("claude", &linked), none);
        assert_eq!(told("exec:cat", &linked), ["AGENTS.md"]);
        assert_eq!(told("exec:cat", &[("AGENTS.md", " \n"), claude]), ["CLAUDE.md"]);
    }
}
