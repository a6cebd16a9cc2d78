//! Where the reviews stand: the round under way, the concerns, the messages, the reviewers' part of
//! the spending.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::State;
use crate::{
    SessionId,
    event::{
        Body, Cause, Event, MessageSent, ReviewStarted, ReviewerStopped, Verdict, VerdictGiven,
        VerdictSubmitted,
    },
    identity::LoopKind,
    review::{Ledger, Said, Terms},
    usage::{Micros, Usage},
};

/// The most messages that wait for their recipients.
pub const MOST_WAITING: usize = 256;

/// How often the worker was asked, what was said to it, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Review {
    /// Which attempt at the task the worker is at, from 1 on.
    #[serde(default)]
    pub iteration: u32,
    /// How many of these belong to attempts that have ended: the caps count from there.
    #[serde(default)]
    pub before: u32,
    /// How often the reviewers were asked since.
    #[serde(default)]
    pub asked: u32,
    /// How many turns in a row have changed nothing, in this run.
    #[serde(default)]
    pub idle: u32,
    /// The last review.
    #[serde(default)]
    pub round: Option<Round>,
    #[serde(default)]
    pub passes: u32,
    #[serde(default)]
    pub fails: u32,
    #[serde(default)]
    pub ledger: Ledger,
    /// What was accepted, with the turn that it is of: the next diff begins at the last one.
    #[serde(default)]
    pub accepted: Vec<(u32, String)>,
    /// The last turn that ended with the word for "done".
    #[serde(default)]
    pub done_in: u32,
    /// The turn whose work is on the branch.
    #[serde(default)]
    pub committed_in: u32,
    #[serde(default)]
    pub reviewers: Vec<Spent>,
    /// In a reviewer's own session: its last word, and the turn that it is of.
    #[serde(default)]
    pub submitted: Option<(u32, VerdictSubmitted)>,
}

impl Review {
    /// What was accepted last.
    #[must_use]
    pub fn last_accepted(&self) -> Option<&str> {
        self.accepted.last().map(|(_, commit)| commit.as_str())
    }

    /// Which attempt it is at, as the caps count.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.iteration.saturating_sub(self.before)
    }
}

/// One review of one turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    pub turn: u32,
    pub iteration: u32,
    #[serde(default)]
    pub from: Option<String>,
    #[serde(default)]
    pub to: Option<String>,
    /// Nothing has changed: there is nothing to review.
    #[serde(default)]
    pub empty: bool,
    #[serde(default)]
    pub verdicts: Vec<(String, Verdict)>,
}

impl Round {
    /// Who has not spoken yet.
    #[must_use]
    pub fn missing<'a>(&self, terms: &'a Terms) -> Vec<&'a crate::review::Seat> {
        let spoken = |name: &str| self.verdicts.iter().any(|(who, _)| who == name);
        terms.reviewers.iter().filter(|seat| !spoken(&seat.name)).collect()
    }

    /// Whether the work passes. Only asked once everybody has spoken.
    #[must_use]
    pub fn passes(&self, terms: &Terms) -> bool {
        !self.empty && terms.consensus.passes(self.verdicts.iter().map(|(_, verdict)| *verdict))
    }
}

/// A reviewer's own session, and what it has cost so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    pub name: String,
    pub agent: String,
    /// Which session these sums are of: one that was damaged is begun anew, and counts from zero.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub session: Option<SessionId>,
    #[serde(default)]
    pub vendor_sessions: Vec<String>,
    pub usage: Usage,
    pub cost: Micros,
    pub unpriced_calls: u64,
}

/// What the participants say to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bridge {
    /// How many messages each has sent.
    #[serde(default)]
    pub sent: Vec<(String, u64)>,
    #[serde(default)]
    pub delivered: u64,
    /// What has not reached its recipient, oldest first.
    #[serde(default)]
    pub waiting: Vec<Waiting>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    pub id: String,
    pub message: MessageSent,
}

impl Bridge {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sent.iter().map(|(_, count)| count).sum()
    }

    /// What waits for one of them.
    pub fn waiting_for<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Waiting> {
        self.waiting.iter().filter(move |waiting| waiting.message.to == name)
    }

    fn sent(&mut self, id: &str, message: &MessageSent) {
        match self.sent.iter_mut().find(|(name, _)| *name == message.from) {
            Some((_, count)) => *count += 1,
            None => self.sent.push((message.from.clone(), 1)),
        }
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.remove(0);
        }
        self.waiting.push(Waiting { id: id.to_owned(), message: message.clone() });
    }

    /// They will not arrive.
    pub(super) fn given_up(&mut self, messages: &[String]) {
        self.waiting.retain(|waiting| !messages.contains(&waiting.id));
    }

    pub(super) fn reached(&mut self, messages: &[String]) {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| !messages.contains(&waiting.id));
        self.delivered += (before - self.waiting.len()) as u64;
    }
}

impl State {
    /// What was agreed on, where there are reviewers or a word for "done".
    #[must_use]
    pub fn terms(&self) -> Option<&Terms> {
        self.identity.as_ref()?.pair.as_ref()
    }

    /// Whether it is the session of a reviewer, within another one.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.identity
            .as_ref()
            .is_some_and(|found| matches!(found.loop_kind, LoopKind::Review | LoopKind::Member))
    }

    /// What the worker is called among the participants.
    #[must_use]
    pub fn worker(&self) -> &str {
        let first = self.identity.as_ref().map_or("", |found| found.agent.as_str());
        first.split(':').next().unwrap_or(first)
    }

    /// The last review, where it is of the last turn.
    #[must_use]
    pub fn round(&self) -> Option<&Round> {
        self.review.round.as_ref().filter(|round| round.turn == self.turn.number)
    }

    pub(super) fn apply_to_review(&mut self, event: &Event) {
        let turn = event.turn.unwrap_or(self.turn.number);
        match &event.body {
            Body::ReviewStarted(started) => self.review_began(turn, started),
            Body::VerdictSubmitted(said) => self.review.submitted = Some((turn, said.clone())),
            Body::VerdictGiven(given) => self.judged(turn, given),
            Body::ReviewerStopped(stopped) => self.reviewer_spent(stopped),
            Body::DoneSignalled(_) => self.review.done_in = turn,
            Body::WorkCommitted(committed) => {
                self.landed = Some(committed.commit.clone());
                if committed.failed.is_none() && self.commits_hand(committed) {
                    self.review.committed_in = turn;
                }
                self.task_committed(committed);
            }
            Body::MessageSent(sent) => {
                let id = event.id.as_deref().unwrap_or_default();
                self.bridge.sent(id, sent);
                if let Some(crew) = &mut self.crew {
                    crew.told(id, &sent.to);
                }
            }
            Body::MessageDelivered(delivered) => {
                self.bridge.reached(&delivered.messages);
                if let Some(crew) = &mut self.crew {
                    crew.settled(&delivered.to, &delivered.messages);
                    crew.heard(&delivered.to);
                }
            }
            _ => {}
        }
    }

    fn review_began(&mut self, turn: u32, started: &ReviewStarted) {
        // Where the worker has to make its case, it may be that nothing had to change.
        let judged_anyway = self.terms().is_some_and(|terms| terms.case);
        let idle = started.files == Some(0) && !judged_anyway;
        self.review.asked += 1;
        if let Some(tasks) = &mut self.tasks
            && let Some(id) = tasks.hand.as_ref().map(|hand| hand.task.clone())
            && let Some(entry) = tasks.entries.iter_mut().find(|entry| entry.id == id)
        {
            entry.rounds += 1;
        }
        self.review.idle = if idle { self.review.idle + 1 } else { 0 };
        self.review.round = Some(Round {
            turn,
            iteration: started.iteration,
            from: started.from.clone(),
            to: started.to.clone(),
            empty: idle,
            verdicts: Vec::new(),
        });
    }

    fn judged(&mut self, turn: u32, given: &VerdictGiven) {
        let review = &mut self.review;
        let Some(round) = review.round.as_mut().filter(|round| round.turn == turn) else { return };
        if round.verdicts.iter().any(|(name, _)| *name == given.reviewer) {
            return;
        }
        let verdict = given.said.verdict;
        round.verdicts.push((given.reviewer.clone(), verdict));
        match verdict {
            Verdict::Pass => review.passes += 1,
            _ => review.fails += 1,
        }
        review.ledger.note(Said {
            turn,
            iteration: given.iteration,
            reviewer: given.reviewer.clone(),
            verdict,
        });
        for concern in &given.said.concerns {
            review.ledger.raise(&given.reviewer, turn, given.iteration, concern);
        }
        review.ledger.settle(&given.reviewer, turn, given.iteration);
    }

    /// The sums of a reviewer take the place of those that were told before.
    fn reviewer_spent(&mut self, stopped: &ReviewerStopped) {
        let known = self.review.reviewers.iter().position(|one| one.name == stopped.reviewer);
        let before = known.map(|at| self.review.reviewers.remove(at));
        let same = |before: &Spent| before.session.is_none_or(|id| id == stopped.session);
        let before = before.filter(same).unwrap_or_default();
        self.usage += stopped.usage.since(before.usage);
        self.cost.0 += stopped.cost_micros.0.saturating_sub(before.cost.0);
        self.unpriced_calls += stopped.unpriced_calls.saturating_sub(before.unpriced_calls);
        self.review.reviewers.push(Spent {
            name: stopped.reviewer.clone(),
            agent: stopped.agent.clone(),
            session: Some(stopped.session),
            vendor_sessions: stopped.vendor_sessions.clone(),
            usage: stopped.usage,
            cost: stopped.cost_micros,
            unpriced_calls: stopped.unpriced_calls,
        });
        self.review.reviewers.sort_by(|one, other| one.name.cmp(&other.name));
    }

    /// A rewind leaves behind what was said of later turns.
    pub(super) fn forget_reviews(&mut self, to_turn: u32) {
        let kept: u32 = self.path().iter().map(|span| span.to - span.from + 1).sum();
        let review = &mut self.review;
        review.iteration = review.iteration.min(kept);
        review.round = review.round.take().filter(|round| round.turn <= to_turn);
        review.accepted.retain(|(turn, _)| *turn <= to_turn);
        review.idle = 0;
        for of_turn in [&mut review.done_in, &mut review.committed_in] {
            *of_turn = if *of_turn <= to_turn { *of_turn } else { 0 };
        }
        for entry in &mut review.ledger.entries {
            let raised = entry.turns.iter().filter(|turn| **turn <= to_turn).count();
            entry.turns.truncate(raised);
            entry.iterations.truncate(raised);
            entry.settled = entry.settled.filter(|iteration| *iteration <= review.iteration);
        }
        review.ledger.entries.retain(|entry| !entry.turns.is_empty());
        review.ledger.verdicts.retain(|said| said.turn <= to_turn);
    }

    /// A turn of the worker begins: another attempt, or the rest of the one under way.
    pub(super) fn attempted(&mut self, cause: Cause) {
        let Some(terms) = self.terms() else { return };
        if !cause.is_another_attempt() {
            return;
        }
        // What was accepted is behind us.
        let whole = self.tasks.is_some();
        // Of a task the diff is always the whole one.
        if let Some(round) = self.round().filter(|round| !whole && round.passes(terms)) {
            let point = round.to.clone().map(|commit| (round.turn, commit));
            self.review.accepted.extend(point);
        }
        // What a person asks for is another task.
        if cause == Cause::Person {
            self.review.iteration = 0;
            // Its rounds are counted anew.
            self.review.ledger.verdicts.clear();
            self.review.before = 0;
            self.review.asked = 0;
        }
        self.review.iteration += 1;
    }
}
