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
    review::{Ledger, Said, Terms, UNREADABLE},
    usage::{Micros, Usage},
};

/// The most messages that wait for their recipients.
pub const MOST_WAITING: usize = 256;

/// The most attempts that are told apart.
const MOST_ATTEMPTS: usize = 256;

/// How often the worker was asked, what was said to it, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Review {
    /// Which attempt at the task the worker is at, from 1 on.
    #[serde(default)]
    pub iteration: u32,
    /// In which turn each attempt began, and which it was: of many the last ones.
    #[serde(default)]
    pub attempts: Vec<(u32, u32)>,
    /// How many iterations belong to attempts that have ended: the caps count from there.
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

    /// In a reviewer's own session: its verdict on what it was asked last, also where the rest of
    /// that answer was cut off, or is somebody else's.
    #[must_use]
    pub fn verdict(&self) -> Option<&VerdictSubmitted> {
        let (turn, said) = self.review.submitted.as_ref()?;
        (*turn >= self.turn.asked_in).then_some(said)
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
        self.review.round.as_ref().filter(|round| round.turn == self.last_turn())
    }

    pub(super) fn apply_to_review(&mut self, event: &Event) {
        // After a rewind that was taken back, that is not the one that began last.
        let turn = self.last_turn();
        match &event.body {
            Body::ReviewStarted(started) => self.review_began(turn, started),
            Body::VerdictSubmitted(said) => {
                let turn = event.turn.unwrap_or(self.turn.number);
                self.review.submitted = Some((turn, said.clone()));
            }
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
        // An answer that can't be read does not say what is met.
        if !given.said.concerns.iter().any(|concern| concern.category == UNREADABLE) {
            review.ledger.settle(&given.reviewer, turn, given.iteration);
        }
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
        review.attempts.retain(|(turn, _)| *turn <= to_turn);
        let attempt = review.attempts.last().map(|(_, iteration)| *iteration);
        review.iteration = attempt.unwrap_or(review.iteration.min(kept));
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
            entry.settled = entry.settled.filter(|_| entry.settled_in <= to_turn);
        }
        review.ledger.entries.retain(|entry| !entry.turns.is_empty());
        review.ledger.verdicts.retain(|said| said.turn <= to_turn);
        // Of many attempts the last ones are known: then the task is older than those.
        let first = review.attempts.iter().rfind(|(_, iteration)| *iteration == 1);
        review.ledger.since =
            first.or(review.attempts.first()).map_or(to_turn + 1, |(turn, _)| *turn);
    }

    /// Whether a turn with this cause is another attempt. What a person says to the worker of a list
    /// belongs to the one under way: no task is to fail for it.
    #[must_use]
    pub fn begins_attempt(&self, cause: Cause) -> bool {
        cause.is_another_attempt() && !(cause == Cause::Message && self.tasks.is_some())
    }

    /// A turn of the worker begins: another attempt, or the rest of the one under way.
    pub(super) fn attempted(&mut self, turn: u32, cause: Cause) {
        let Some(terms) = self.terms() else { return };
        if !self.begins_attempt(cause) {
            return;
        }
        // What was accepted is behind us.
        let whole = self.tasks.is_some();
        // Of a task the diff is always the whole one.
        if let Some(round) = self.round().filter(|round| !whole && round.passes(terms)) {
            let known = self.review.accepted.last().is_some_and(|(turn, _)| *turn == round.turn);
            let point = round.to.clone().map(|commit| (round.turn, commit));
            self.review.accepted.extend(point.filter(|_| !known));
        }
        // What a person asks for is another task.
        if cause == Cause::Person {
            self.review.iteration = 0;
            // Its rounds are counted anew, and what was settled was so for the one before.
            self.review.ledger.verdicts.clear();
            self.review.ledger.since = turn;
            self.review.before = 0;
            self.review.asked = 0;
        }
        self.review.iteration += 1;
        if self.review.attempts.len() >= MOST_ATTEMPTS {
            self.review.attempts.remove(0);
        }
        self.review.attempts.push((turn, self.review.iteration));
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        Payload,
        event::{Outcome, RewindFinished, RewindStarted, TurnEnded, TurnStarted},
    };

    struct Journal(State);

    impl Journal {
        fn new() -> Self {
            let identity = json!({
                "v": 1, "id": SessionId::from_parts(1, 1), "created_at": "2026-01-01T00:00:00Z",
                "repo": {"id": "r", "identity": "r"}, "workspace": "w", "loop": "pair",
                "agent": "codex", "prompt": {"text": "go"}, "segue": "0",
                "pair": {"reviewers": [{"name": "claude", "agent": "claude"}]},
            });
            let identity = serde_json::from_value(identity).unwrap();
            Self(State { identity: Some(identity), ..State::default() })
        }

        fn with(&mut self, body: impl Into<Body>) -> &mut Self {
            let (seq, at) = (self.0.seq + 1, Timestamp::UNIX_EPOCH);
            self.0.apply(&Event { seq, at, turn: None, agent: None, id: None, body: body.into() });
            self
        }

        /// A turn, and what its reviewer objects to: names and categories.
        fn round(&mut self, cause: Cause, concerns: &[(&str, &str)]) -> &mut Self {
            self.with(TurnStarted::new(Payload::inline("go"), cause));
            self.with(TurnEnded::with(Outcome::Finished));
            let number = self.0.turn.number;
            self.review(&format!("of-{number}")).verdict(concerns)
        }

        fn review(&mut self, to: &str) -> &mut Self {
            self.with(ReviewStarted {
                iteration: self.0.review.iteration,
                reviewers: vec!["claude".to_owned()],
                from: Some("base".to_owned()),
                to: Some(to.to_owned()),
                files: Some(1),
            })
        }

        fn verdict(&mut self, concerns: &[(&str, &str)]) -> &mut Self {
            let concerns: Vec<Value> = concerns
                .iter()
                .map(|(id, category)| {
                    json!({ "id": id, "category": category, "concern": id, "evidence": "e", "next_step": "n" })
                })
                .collect();
            let verdict = if concerns.is_empty() { "pass" } else { "fail" };
            let given = json!({
                "iteration": self.0.review.iteration, "reviewer": "claude", "agent": "claude",
                "verdict": verdict, "via": "tool", "concerns": concerns,
            });
            let given: VerdictGiven = serde_json::from_value(given).unwrap();
            self.with(given)
        }

        fn back(&mut self, to_turn: u32) -> &mut Self {
            let path = Some(self.0.path_to(to_turn));
            self.rewind(to_turn, path, false)
        }

        fn undo(&mut self) -> &mut Self {
            let before = self.0.rewind.last.clone().unwrap();
            self.rewind(before.to_turn, Some(before.path), true)
        }

        fn rewind(
            &mut self,
            to_turn: u32,
            path: Option<Vec<crate::event::Span>>,
            undo: bool,
        ) -> &mut Self {
            let safety = "refs/x".to_owned();
            let cuts = Vec::new();
            self.with(RewindStarted { to_turn, files: None, path, safety, cuts, undo });
            self.with(RewindFinished { to_turn, files: 0, begins: false })
        }

        fn open(&self) -> Vec<&str> {
            let open = self.0.review.ledger.open();
            open.iter().map(|entry| entry.what.id.as_str()).collect()
        }
    }

    #[test]
    fn a_verdict_is_of_what_was_asked_also_where_the_rest_of_the_answer_was_cut_off() {
        let mut journal = Journal::new();
        let turn = |journal: &mut Journal, cause| {
            journal.with(TurnStarted::new(Payload::inline("go"), cause));
        };
        let said = VerdictSubmitted {
            verdict: Verdict::Fail,
            concerns: Vec::new(),
            summary: None,
            via: crate::event::Via::Tool,
        };
        turn(&mut journal, Cause::Review);
        journal.with(said.clone()).with(TurnEnded::with(Outcome::Truncated));
        for rest in [Cause::Cut, Cause::HandOff] {
            turn(&mut journal, rest);
            assert_eq!(journal.0.verdict(), Some(&said), "{rest:?}");
            journal.with(TurnEnded::with(Outcome::Finished));
        }
        turn(&mut journal, Cause::Review);
        assert_eq!(journal.0.verdict(), None);
    }

    #[test]
    fn an_answer_that_cannot_be_read_settles_nothing() {
        let mut journal = Journal::new();
        journal.round(Cause::Person, &[("C1", "tests")]);
        journal.round(Cause::Review, &[("C2", UNREADABLE)]);
        assert_eq!(journal.open(), ["C1", "C2"]);
        journal.round(Cause::Review, &[("C1", "tests")]);
        assert_eq!(journal.open(), ["C1"]);
        assert!(journal.0.review.ledger.open()[0].is_escalated());
    }

    #[test]
    fn a_rewind_goes_back_to_what_was_open_there_and_to_that_iteration() {
        let mut journal = Journal::new();
        journal.round(Cause::Person, &[("C1", "tests")]).round(Cause::Review, &[]);
        // Another task, with iterations of its own.
        journal.round(Cause::Person, &[("C2", "docs")]).round(Cause::Review, &[]);
        assert_eq!((journal.open().len(), journal.0.review.iteration), (0, 2));
        let settled = |journal: &Journal| {
            let ledger = &journal.0.review.ledger;
            let here = ledger.settled().into_iter().filter(|entry| ledger.is_settled(entry));
            here.map(|entry| entry.what.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(settled(&journal), ["C2"], "the other one was settled for another task");
        journal.back(3);
        // What was settled before is settled, and what was open is open.
        assert_eq!((journal.open(), journal.0.review.iteration), (vec!["C2"], 1));
        assert_eq!(settled(&journal), [""; 0]);
        journal.undo();
        assert_eq!(settled(&journal), ["C2"]);
        journal.back(2);
        assert_eq!(settled(&journal), ["C1"]);
        journal.undo();
        assert_eq!((journal.open().len(), journal.0.review.iteration), (0, 2));
        journal.back(1);
        assert_eq!((journal.open(), journal.0.review.iteration), (vec!["C1"], 1));
    }

    #[test]
    fn what_was_said_of_a_turn_is_so_again_when_a_rewind_is_taken_back() {
        let mut journal = Journal::new();
        journal.round(Cause::Person, &[]);
        journal.round(Cause::Person, &[("C1", "tests")]);
        journal.back(1);
        assert_eq!(journal.0.round(), None, "the last review was of what was left behind");
        journal.round(Cause::Person, &[]);
        journal.undo();
        let round = journal.0.round().unwrap();
        assert_eq!((round.turn, &round.verdicts[0].1), (2, &Verdict::Fail));
        assert_eq!(crate::decide::next(&journal.0), crate::decide::Next::ReviewTurn);
        // What is reviewed now is the turn that it came back to.
        journal.0.review.round = None;
        journal.review("again").verdict(&[]);
        assert_eq!(journal.0.round().map(|round| round.turn), Some(2));
        journal.round(Cause::Person, &[]);
        let accepted = [(1, "of-1".to_owned()), (2, "again".to_owned())];
        assert_eq!(journal.0.review.accepted, accepted);
        // The way back from there goes as far as it says.
        journal.back(2);
        assert_eq!(journal.0.review.accepted, accepted);
    }
}
