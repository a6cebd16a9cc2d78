//! Where a list of tasks stands: what is done, what is in hand, what each has cost.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::State;
use crate::{
    caps::Caps,
    event::{Body, CaseSubmitted, TaskFailed, TaskStarted, TasksRead, WorkCommitted},
    payload::Payload,
    usage::Micros,
};

/// What becomes of the work of a task that is no longer in the list.
pub const REMOVED: &str = "removed";

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

    fn read(&mut self, read: &TasksRead) {
        let mut before = std::mem::take(&mut self.entries);
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
            };
            let entry = known.unwrap_or(fresh);
            let (title, digest) = (task.title.clone(), task.digest.clone());
            self.entries.push(Entry { title, digest, ..entry });
        }
        // What is done stays done, and on the branch, also where nobody asks for it any more.
        before.retain(|entry| entry.standing == Standing::Done);
        self.entries.splice(0..0, before);
        if let Some(hand) = &mut self.hand {
            hand.stale |= read.edited.contains(&hand.task);
        }
        self.source = read.source.clone();
        self.list = read.list.clone();
    }

    /// Counts what was spent since the last time for the task in hand.
    fn spend(&mut self, tokens: u64, cost: Micros) {
        let Some(hand) = &mut self.hand else { return };
        let spent = (tokens.saturating_sub(hand.tokens), cost.0.saturating_sub(hand.cost.0));
        (hand.tokens, hand.cost) = (tokens, cost);
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == hand.task) {
            entry.tokens += spent.0;
            entry.cost.0 += spent.1;
        }
    }

    fn note(&mut self, id: &str) {
        let Some(entry) = self.entry(id) else { return };
        let said = self.case.as_ref().map(|(_, case)| case.summary.as_str()).unwrap_or_default();
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
            let done = tasks.entries.iter().filter(|entry| entry.standing == Standing::Done);
            let last = done.max_by_key(|entry| entry.turn);
            self.landed = last.and_then(|entry| entry.commit.clone());
        }
        tasks.spend(tokens, cost);
        let again = tasks.hand.as_ref().is_some_and(|hand| hand.task == started.task);
        let task = started.task.clone();
        tasks.hand = Some(Hand { task, turn, stale: false, tokens, cost });
        tasks.case = None;
        if let Some(entry) = tasks.entries.iter_mut().find(|entry| entry.id == started.task) {
            entry.standing = Standing::Pending;
            entry.attempts = started.attempt;
            entry.why = None;
            entry.commit = None;
        }
        let review = &mut self.review;
        if !again {
            // Another task has rounds, concerns and a starting point of its own.
            *review = super::Review {
                accepted: passed.or(kept),
                reviewers: std::mem::take(&mut review.reviewers),
                ..super::Review::default()
            };
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
        if let Some(entry) = tasks.entries.iter_mut().find(|entry| entry.id == failed.task) {
            entry.standing = Standing::Failed;
            entry.why = Some(failed.why.clone());
            entry.turn = turn;
        }
    }

    /// A commit of ours is on the branch: that, and nothing else, makes a task done.
    pub(super) fn task_committed(&mut self, committed: &WorkCommitted) {
        let (tokens, cost, turn) = (self.usage.total(), self.cost, self.turn.number);
        let (Some(tasks), Some(id)) = (&mut self.tasks, &committed.task) else { return };
        tasks.spend(tokens, cost);
        if let Some(entry) = tasks.entries.iter_mut().find(|entry| entry.id == *id) {
            entry.commit = Some(committed.commit.clone());
            entry.turn = turn;
            if committed.failed.is_none() {
                entry.standing = Standing::Done;
            }
        }
        match committed.failed.as_deref() {
            None => {
                tasks.note(id);
                tasks.hand = None;
            }
            Some(REMOVED) => tasks.hand = None,
            Some(_) => {}
        }
    }
}
