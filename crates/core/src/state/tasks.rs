//! Where a list of tasks stands: what is done, what is in hand, what each has cost.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::State;
use crate::{
    caps::Caps,
    event::{Body, CaseSubmitted, TaskFailed, TaskStarted, TasksRead, WorkCommitted},
    payload::Payload,
    review::Ledger,
    usage::Micros,
};

/// What becomes of the work of a task that is no longer in the list.
pub const REMOVED: &str = "removed";

/// A task that was done, and whose commit somebody has taken off the branch.
pub const OFF_BRANCH: &str = "off_branch";

/// How many notes on tasks that are done are kept, and how long one is.
const MOST_NOTES: usize = 30;
const LONGEST_NOTE: usize = 300;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tasks {
    #[schemars(with = "String")]
    pub source: PathBuf,
    /// The list as it was read last, as JSON.
    pub list: Payload,
    /// In the order of the work.
    pub entries: Vec<Entry>,
    /// What is no longer in the list, and is not done: what it has cost, and what was said of it, for
    /// when it comes back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<Entry>,
    /// What is worked on, or was when it stopped.
    #[serde(default)]
    pub hand: Option<Hand>,
    /// What was done lately, a line for each task.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The worker's last case, and the turn that it is of.
    #[serde(default)]
    pub case: Option<(u32, CaseSubmitted)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    pub id: String,
    pub title: String,
    pub digest: String,
    #[serde(default)]
    pub standing: Standing,
    /// In a word, why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(default)]
    pub attempts: u32,
    /// How often it was put before the evaluator.
    #[serde(default)]
    pub rounds: u32,
    #[serde(default)]
    pub tokens: u64,
    #[serde(default)]
    pub cost: Micros,
    /// Where it is on the branch: what was accepted, or the placeholder of what failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The turn that made the commit, or was to.
    #[serde(default)]
    pub turn: u32,
    /// What was said of it until it was taken out of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<Box<Said>>,
    /// It is done, and no longer in the list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlisted: bool,
    /// Its commits that were taken off the branch: each was accepted, should it come back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_off: Vec<String>,
}

/// The rounds of a task that is not in hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Said {
    pub iteration: u32,
    pub ledger: Ledger,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    #[default]
    Pending,
    /// Accepted, and on the branch.
    Done,
    Failed,
    #[serde(other)]
    Unknown,
}

/// The task in hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hand {
    pub task: String,
    /// The last turn before it was taken in hand.
    pub turn: u32,
    /// Its text has changed since: it is begun anew.
    #[serde(default)]
    pub stale: bool,
    /// What the session had spent when this task was last counted.
    #[serde(default)]
    pub tokens: u64,
    #[serde(default)]
    pub cost: Micros,
}

/// What is to be done with the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Take the next task in hand, or the failed one again.
    Start,
    /// Give the worker the task.
    First,
    /// Its worker or its evaluator is at it.
    Work,
    AllDone,
}

impl Tasks {
    #[must_use]
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// The task in hand, as long as it is in the list.
    #[must_use]
    pub fn in_hand(&self) -> Option<&Entry> {
        self.entry(&self.hand.as_ref()?.task)
    }

    /// What comes next: the one in hand where it has to be begun again, else the first that waits.
    #[must_use]
    pub fn upcoming(&self) -> Option<&Entry> {
        let waits = |entry: &&Entry| entry.standing != Standing::Done;
        self.in_hand().filter(waits).or_else(|| self.entries.iter().find(waits))
    }

    /// Everything that is left to do after the upcoming one.
    pub fn later(&self) -> impl Iterator<Item = &Entry> {
        let upcoming = self.upcoming().map(|entry| entry.id.clone());
        let left = self.entries.iter().filter(|entry| entry.standing != Standing::Done);
        left.filter(move |entry| Some(&entry.id) != upcoming.as_ref())
    }

    #[must_use]
    pub fn done(&self) -> usize {
        self.entries.iter().filter(|entry| entry.standing == Standing::Done).count()
    }

    /// Decides by what is recorded; `turn` is the last one.
    #[must_use]
    pub fn step(&self, turn: u32) -> Step {
        match (&self.hand, self.in_hand()) {
            (None, _) if self.upcoming().is_none() => Step::AllDone,
            (Some(hand), Some(entry)) if entry.standing == Standing::Pending && !hand.stale => {
                if hand.turn == turn {
                    Step::First
                } else {
                    Step::Work
                }
            }
            _ => Step::Start,
        }
    }

    /// One that is or was in the list.
    fn known(&mut self, id: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().chain(&mut self.gone).find(|entry| entry.id == id)
    }

    fn is_in_hand(&self, id: &str) -> bool {
        self.hand.as_ref().is_some_and(|hand| hand.task == id)
    }

    fn read(&mut self, read: &TasksRead) {
        let mut before = std::mem::take(&mut self.entries);
        before.append(&mut self.gone);
        let mut take = |id: &str| {
            let at = before.iter().position(|entry| entry.id == id)?;
            Some(before.remove(at))
        };
        for task in &read.tasks {
            let known = take(&task.id);
            let fresh = Entry {
                id: task.id.clone(),
                title: String::new(),
                digest: String::new(),
                standing: Standing::Pending,
                why: None,
                attempts: 0,
                rounds: 0,
                tokens: 0,
                cost: Micros::default(),
                commit: None,
                turn: 0,
                said: None,
                unlisted: false,
                taken_off: Vec::new(),
            };
            let entry = known.unwrap_or(fresh);
            let (title, digest) = (task.title.clone(), task.digest.clone());
            self.entries.push(Entry { title, digest, unlisted: false, ..entry });
        }
        // What is done stays done, and on the branch, also where nobody asks for it any more.
        let (done, gone): (Vec<Entry>, Vec<Entry>) =
            before.into_iter().partition(|entry| entry.standing == Standing::Done);
        let done = done.into_iter().map(|entry| Entry { unlisted: true, ..entry });
        self.entries.splice(0..0, done);
        self.gone = gone;
        if let Some(hand) = &mut self.hand {
            hand.stale |= read.edited.contains(&hand.task);
        }
        self.source = read.source.clone();
        self.list = read.list.clone();
    }

    /// What is done is shown, also where nobody asks for it any more.
    fn bring_back(&mut self, id: &str) {
        if let Some(at) = self.gone.iter().position(|entry| entry.id == id) {
            let entry = self.gone.remove(at);
            self.entries.insert(0, Entry { unlisted: true, ..entry });
        }
    }

    /// What is neither in the list nor on the branch is nobody's to work on.
    fn let_go(&mut self, id: &str) {
        let is_it = |entry: &Entry| entry.id == id && entry.unlisted;
        if let Some(at) = self.entries.iter().position(is_it) {
            let entry = self.entries.remove(at);
            self.gone.push(Entry { unlisted: false, ..entry });
        }
    }

    /// The commit of the task that was done last.
    #[must_use]
    pub fn last_done(&self) -> Option<String> {
        let done = self.entries.iter().filter(|entry| entry.standing == Standing::Done);
        done.max_by_key(|entry| entry.turn).and_then(|entry| entry.commit.clone())
    }

    /// Counts what was spent since the last time for the task in hand.
    fn spend(&mut self, tokens: u64, cost: Micros) {
        let Some(hand) = &mut self.hand else { return };
        let spent = (tokens.saturating_sub(hand.tokens), cost.0.saturating_sub(hand.cost.0));
        (hand.tokens, hand.cost) = (tokens, cost);
        let task = hand.task.clone();
        if let Some(entry) = self.known(&task) {
            entry.tokens += spent.0;
            entry.cost.0 += spent.1;
        }
    }

    fn note(&mut self, id: &str) {
        let Some(entry) = self.entry(id) else { return };
        // The last case is that of the task in hand.
        let case = self.case.as_ref().filter(|_| self.is_in_hand(id));
        let said = case.map(|(_, case)| case.summary.as_str()).unwrap_or_default();
        let said = said.lines().next().unwrap_or_default();
        let note: String =
            format!("{id} {}: {said}", entry.title).chars().take(LONGEST_NOTE).collect();
        self.notes.push(note);
        if self.notes.len() > MOST_NOTES {
            self.notes.remove(0);
        }
    }
}

impl State {
    /// The caps that count now: within a task only those of the task, so that none fails for what
    /// the others have spent.
    #[must_use]
    pub fn caps_now(&self) -> Caps {
        let step = self.tasks.as_ref().map(|tasks| tasks.step(self.turn.number));
        match step {
            Some(Step::First | Step::Work) => Caps {
                turns: None,
                wall_clock_secs: None,
                tokens: None,
                cost_micros: None,
                ..self.caps
            },
            _ => self.caps,
        }
    }

    /// What a task has cost so far, with what is not counted yet.
    #[must_use]
    pub fn spent_on(&self, entry: &Entry) -> (u64, Micros) {
        let hand = self.tasks.as_ref().and_then(|tasks| tasks.hand.as_ref());
        match hand.filter(|hand| hand.task == entry.id) {
            Some(hand) => (
                entry.tokens + self.usage.total().saturating_sub(hand.tokens),
                Micros(entry.cost.0 + self.cost.0.saturating_sub(hand.cost.0)),
            ),
            None => (entry.tokens, entry.cost),
        }
    }

    pub(super) fn apply_to_tasks(&mut self, turn: u32, body: &Body) {
        match body {
            Body::TasksRead(read) => self.tasks.get_or_insert_default().read(read),
            Body::TaskStarted(started) => self.task_started(started),
            Body::TaskFailed(failed) => self.task_failed(failed),
            Body::CaseSubmitted(case) => {
                if let Some(tasks) = &mut self.tasks {
                    tasks.case = Some((turn, case.clone()));
                }
            }
            _ => {}
        }
    }

    fn task_started(&mut self, started: &TaskStarted) {
        let (tokens, cost, turn) = (self.usage.total(), self.cost, self.turn.number);
        let passed = self.terms().zip(self.round()).filter(|(terms, round)| round.passes(terms));
        let passed = passed.and_then(|(_, round)| round.to.clone());
        let kept = self.checkpoint.as_ref().and_then(|last| last.commit.clone());
        let Some(tasks) = &mut self.tasks else { return };
        if started.retry.as_ref().is_some_and(|retry| retry.unwound.is_some()) {
            self.landed = tasks.last_done();
        }
        tasks.spend(tokens, cost);
        let again = tasks.hand.as_ref().is_some_and(|hand| hand.task == started.task);
        let task = started.task.clone();
        tasks.hand = Some(Hand { task, turn, stale: false, tokens, cost });
        tasks.case = None;
        let mut said = None;
        if let Some(entry) = tasks.entries.iter_mut().find(|entry| entry.id == started.task) {
            entry.standing = Standing::Pending;
            entry.attempts = started.attempt;
            entry.why = None;
            entry.commit = None;
            said = entry.said.take();
        }
        let review = &mut self.review;
        if !again {
            // Another task has rounds, concerns and a starting point of its own.
            *review = super::Review {
                accepted: passed.or(kept).map(|commit| (turn, commit)).into_iter().collect(),
                reviewers: std::mem::take(&mut review.reviewers),
                ..super::Review::default()
            };
            if let Some(said) = said {
                (review.iteration, review.ledger) = (said.iteration, said.ledger);
            }
        }
        review.round = None;
        review.idle = 0;
        review.asked = 0;
        review.before = review.iteration;
    }

    fn task_failed(&mut self, failed: &TaskFailed) {
        let (tokens, cost, turn) = (self.usage.total(), self.cost, self.turn.number);
        let Some(tasks) = &mut self.tasks else { return };
        tasks.spend(tokens, cost);
        if let Some(entry) = tasks.known(&failed.task) {
            entry.standing = Standing::Failed;
            entry.why = Some(failed.why.clone());
            entry.turn = turn;
            if failed.why == OFF_BRANCH {
                entry.taken_off.extend(entry.commit.take());
                entry.taken_off.dedup();
            }
        }
        match failed.why.as_str() {
            REMOVED => self.out_of_hand(&failed.task),
            OFF_BRANCH => {
                let note = format!("{} ", failed.task);
                tasks.notes.retain(|one| !one.starts_with(&note));
                self.landed = tasks.last_done();
                // What passed last is no longer what the next one begins with, but for a task that
                // is under way.
                let at_work = tasks.in_hand().is_some_and(|it| it.standing == Standing::Pending);
                self.review.round = self.review.round.take().filter(|_| at_work);
                tasks.let_go(&failed.task);
                self.out_of_hand(&failed.task);
            }
            _ => {}
        }
    }

    /// A task is not worked on any more: what was said of it is kept with it.
    fn out_of_hand(&mut self, task: &str) {
        let Some(tasks) = self.tasks.as_mut().filter(|tasks| tasks.is_in_hand(task)) else {
            return;
        };
        tasks.hand = None;
        if let Some(entry) = tasks.known(task) {
            let (iteration, ledger) = (self.review.iteration, self.review.ledger.clone());
            entry.said = Some(Box::new(Said { iteration, ledger }));
        }
    }

    /// A commit of ours is on the branch: that, and nothing else, makes a task done. It may be found
    /// there long after it was made, while another task is in hand, or none.
    pub(super) fn task_committed(&mut self, committed: &WorkCommitted) {
        let (tokens, cost, turn) = (self.usage.total(), self.cost, self.turn.number);
        let in_hand = self.commits_hand(committed);
        let (Some(tasks), Some(id)) = (&mut self.tasks, &committed.task) else { return };
        tasks.spend(tokens, cost);
        let removed = committed.failed.as_deref() == Some(REMOVED);
        if let Some(entry) = tasks.known(id) {
            entry.commit = Some(committed.commit.clone());
            entry.turn = turn;
            if committed.failed.is_none() {
                entry.standing = Standing::Done;
                entry.why = None;
            } else if removed {
                entry.standing = Standing::Failed;
                entry.why = Some(REMOVED.to_owned());
            }
        }
        match committed.failed {
            None => {
                tasks.bring_back(id);
                tasks.note(id);
                if in_hand {
                    tasks.hand = None;
                } else if tasks.hand.is_none() {
                    // The last review was of something else.
                    self.review.round = None;
                }
            }
            Some(_) if removed => self.out_of_hand(id),
            Some(_) => {}
        }
    }

    /// Whether a commit is of the task in hand; without a list, everything is.
    pub(super) fn commits_hand(&self, committed: &WorkCommitted) -> bool {
        match (&self.tasks, &committed.task) {
            (Some(tasks), Some(id)) => tasks.is_in_hand(id),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        SessionId,
        event::{Event, JournalRepaired, Reason, ReviewerStopped, TaskRead},
        state::Phase,
        status::Status,
        usage::Usage,
    };

    #[derive(Default)]
    struct Journal(State);

    impl Journal {
        fn with(mut self, body: impl Into<Body>) -> Self {
            let seq = self.0.seq + 1;
            let at = jiff::Timestamp::UNIX_EPOCH;
            self.0.apply(&Event { seq, at, turn: None, agent: None, id: None, body: body.into() });
            self
        }

        fn read(self, ids: &[&str]) -> Self {
            let task = |id: &&str| TaskRead {
                id: (*id).to_owned(),
                title: format!("the {id}"),
                digest: String::new(),
            };
            self.with(TasksRead {
                source: PathBuf::from("/plan"),
                list: Payload::inline("{}"),
                tasks: ids.iter().map(task).collect(),
                added: Vec::new(),
                removed: Vec::new(),
                edited: Vec::new(),
            })
        }

        fn start(self, task: &str) -> Self {
            let attempt = self.tasks().entry(task).map_or(0, |entry| entry.attempts) + 1;
            self.with(TaskStarted { task: task.to_owned(), attempt, retry: None })
        }

        fn fail(self, task: &str, why: &str) -> Self {
            let (task, why) = (task.to_owned(), why.to_owned());
            self.with(TaskFailed { task, why, message: String::new() })
        }

        fn commit(self, task: &str) -> Self {
            let (commit, task) = (format!("c-{task}"), Some(task.to_owned()));
            self.with(WorkCommitted { commit, branch: String::new(), task, failed: None })
        }

        fn spend(self, session: SessionId, tokens: u64) -> Self {
            self.with(ReviewerStopped {
                reviewer: "critic".to_owned(),
                agent: "native".to_owned(),
                session,
                reason: Reason::Done,
                message: String::new(),
                resets_at: None,
                vendor_sessions: Vec::new(),
                usage: Usage { input: tokens, ..Usage::default() },
                cost_micros: Micros(tokens),
                unpriced_calls: 0,
            })
        }

        fn tasks(&self) -> &Tasks {
            self.0.tasks.as_ref().unwrap()
        }

        fn standings(&self) -> Vec<(&str, Standing)> {
            let entries = self.tasks().entries.iter();
            entries.map(|entry| (entry.id.as_str(), entry.standing)).collect()
        }
    }

    fn first() -> SessionId {
        SessionId::from_parts(1, 1)
    }

    #[test]
    fn a_task_that_was_removed_is_out_of_hand_and_comes_back_with_what_it_cost() {
        let journal = Journal::default().read(&["a", "b"]).start("a").spend(first(), 5);
        let journal = journal.read(&["b"]);
        assert_eq!(journal.tasks().step(0), Step::Start);
        let journal = journal.fail("a", REMOVED);
        assert_eq!(journal.tasks().hand, None);
        let journal = journal.start("b").spend(first(), 7).commit("b");
        assert_eq!(journal.standings(), [("b", Standing::Done)]);
        assert_eq!(journal.tasks().step(0), Step::AllDone);
        let journal = journal.read(&["a", "b"]);
        let back = journal.tasks().entry("a").unwrap();
        assert_eq!((back.attempts, back.tokens, back.cost), (1, 5, Micros(5)));
        assert_eq!(back.why.as_deref(), Some(REMOVED));
        assert_eq!(journal.tasks().entry("b").unwrap().tokens, 2);
        assert_eq!(journal.tasks().step(0), Step::Start);
    }

    #[test]
    fn a_commit_that_is_found_makes_its_own_task_done_and_no_other() {
        let journal = Journal::default().read(&["a", "b", "c"]).start("b").commit("a");
        assert_eq!(journal.standings()[0], ("a", Standing::Done));
        assert_eq!(journal.tasks().in_hand().map(|entry| entry.id.as_str()), Some("b"));
        assert_eq!(journal.0.review.committed_in, 0);
        let journal = journal.commit("b");
        assert_eq!(journal.tasks().hand, None);
        // Also of one that nobody asks for any more.
        let journal = journal.read(&["a", "b"]).commit("c");
        assert_eq!(journal.standings()[0], ("c", Standing::Done));
        assert_eq!(journal.tasks().step(0), Step::AllDone);
    }

    #[test]
    fn what_was_taken_off_the_branch_is_to_be_done_again() {
        let journal = Journal::default().read(&["a", "b"]).start("a").commit("a");
        let journal = journal.start("b").commit("b").fail("b", OFF_BRANCH);
        assert_eq!(journal.standings(), [("a", Standing::Done), ("b", Standing::Failed)]);
        assert_eq!(journal.tasks().entry("b").unwrap().commit, None);
        assert_eq!(journal.0.landed.as_deref(), Some("c-a"));
        assert_eq!(journal.tasks().step(0), Step::Start);
        assert_eq!(journal.tasks().upcoming().map(|entry| entry.id.as_str()), Some("b"));
        assert!(journal.tasks().notes.iter().all(|note| note.starts_with("a ")));
    }

    #[test]
    fn what_is_neither_on_the_branch_nor_in_the_list_is_let_go() {
        let journal = Journal::default().read(&["a", "b"]).start("a").commit("a").read(&["b"]);
        assert_eq!(journal.standings(), [("a", Standing::Done), ("b", Standing::Pending)]);
        let journal = journal.fail("a", OFF_BRANCH);
        assert_eq!(journal.standings(), [("b", Standing::Pending)]);
        // It comes back with its commit, and goes with it.
        let journal = journal.commit("a");
        assert_eq!(journal.standings(), [("a", Standing::Done), ("b", Standing::Pending)]);
        let journal = journal.fail("a", OFF_BRANCH);
        assert_eq!(journal.standings(), [("b", Standing::Pending)]);
        // Or with its page.
        let journal = journal.read(&["a", "b"]);
        assert_eq!(journal.standings(), [("a", Standing::Failed), ("b", Standing::Pending)]);
        assert_eq!(journal.tasks().entry("a").unwrap().taken_off, ["c-a"]);
        let journal = journal.start("a").commit("a").fail("a", OFF_BRANCH);
        assert_eq!(journal.standings()[0], ("a", Standing::Failed));
    }

    #[test]
    fn a_torn_tail_has_lost_nothing_that_anything_followed_from() {
        let repaired = |kept_in: &str| JournalRepaired { bytes: 1, kept_in: kept_in.to_owned() };
        let journal = Journal::default().with(repaired("journal.torn-2"));
        assert_eq!(journal.0.repairs, 0);
        assert_eq!(journal.with(repaired("journal.damaged-2")).0.repairs, 1);
    }

    #[test]
    fn a_list_whose_journal_was_cut_back_does_not_wait_to_be_begun() {
        let repaired = || JournalRepaired { bytes: 1, kept_in: "journal.damaged-2".to_owned() };
        let identity = serde_json::json!({
            "v": 1, "id": first(), "created_at": "2026-01-01T00:00:00Z",
            "repo": { "id": "r", "identity": "r" }, "workspace": "/r", "loop": "tasks",
            "agent": "native", "prompt": { "text": "p" }, "segue": "0",
        });
        let mut journal = Journal::default();
        journal.0.identity = Some(serde_json::from_value(identity).unwrap());
        let journal = journal.read(&["a"]);
        assert_eq!(Status::of(&journal.0, false), Status::Prepared);
        assert_eq!(Status::of(&journal.with(repaired()).0, false), Status::Crashed);
        assert_eq!(Journal::default().with(repaired()).0.phase, Phase::Created);
    }

    #[test]
    fn a_reviewer_that_begins_anew_counts_from_zero() {
        let journal = Journal::default().spend(first(), 5).spend(first(), 8);
        assert_eq!(journal.0.usage.total(), 8);
        let journal = journal.spend(SessionId::from_parts(1, 2), 3);
        assert_eq!((journal.0.usage.total(), journal.0.cost), (11, Micros(11)));
    }
}
