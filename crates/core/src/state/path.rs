//! Where one can go back to, and what a rewind leaves behind.
//!
//! Turns are never renumbered and nothing is taken out of the journal: a rewind says which turns
//! the conversation consists of from now on. So it can be taken back, and what was left behind can
//! still be read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Phase, Proof, Review, State, Turn, VendorSession, Worktree};
use crate::event::{Body, CheckpointSkipped, CheckpointTaken, Mark, Outcome, RewindStarted, Span};
use crate::identity::Base;

/// The workspace at one point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    pub turn: u32,
    pub mark: Mark,
    /// Absent where it could not be kept; then nobody tries again until the session is resumed.
    pub commit: Option<String>,
    /// Which run of the session it was, from 1 on.
    #[serde(default)]
    pub run: u32,
    /// The last event before it.
    pub seq: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rewind {
    /// The turns of the conversation up to the last rewind; absent where there was none.
    #[serde(default)]
    pub path: Option<Vec<Span>>,
    /// The last turn when the path was set: all later ones belong to it too.
    #[serde(default)]
    pub since: u32,
    /// A rewind that has begun and is to be finished.
    #[serde(default)]
    pub under_way: Option<RewindStarted>,
    /// The last one, for taking it back: the path before it, and the ref of the files before it.
    #[serde(default)]
    pub last: Option<Before>,
    /// It waits for what to do instead.
    #[serde(default)]
    pub waits: bool,
}

/// How it was before a rewind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Before {
    pub path: Vec<Span>,
    pub to_turn: u32,
    /// The ref that keeps the files; absent where they stayed as they were.
    pub safety: Option<String>,
    pub conversation: bool,
    /// The vendors' sessions as they were.
    #[serde(default)]
    pub vendors: Vec<VendorSession>,
    /// The reviews as they were.
    #[serde(default)]
    pub review: Option<Box<Review>>,
    /// The rewind ended a turn that was not finished.
    #[serde(default)]
    pub unfinished: bool,
}

impl State {
    pub(super) fn apply_to_workspace(&mut self, body: &Body) {
        match body {
            Body::CheckpointTaken(taken) => self.checkpointed(taken),
            Body::CheckpointSkipped(skipped) => self.not_checkpointed(skipped),
            Body::RewindStarted(started) => {
                self.rewind.under_way = Some(started.clone());
                // Until the next stop it is at work: without one, its process has died.
                self.phase = Phase::Running;
            }
            Body::RewindFinished(_) => self.rewound(),
            Body::WorktreePlanned(plan) => {
                self.worktree = Some(Worktree { plan: plan.clone(), made: false });
            }
            Body::WorktreeMade(made) => {
                if let Some(worktree) = &mut self.worktree {
                    worktree.made = true;
                }
                self.workspace = Some(made.path.clone());
            }
            _ => {}
        }
    }

    fn checkpointed(&mut self, taken: &CheckpointTaken) {
        // What was there before a rewind is no point of the conversation.
        if taken.mark != Mark::Safety {
            self.kept(taken.mark, Some(taken.commit.clone()));
        }
    }

    fn not_checkpointed(&mut self, skipped: &CheckpointSkipped) {
        self.kept(skipped.mark, None);
    }

    fn kept(&mut self, mark: Mark, commit: Option<String>) {
        let turn = self.turn.number;
        let point = Checkpoint { turn, mark, commit, run: self.runs, seq: self.seq };
        // A fork begins with the files of another time.
        let begins = mark == Mark::Start || mark == Mark::Rewound && !self.has_begun();
        let known = self.first_checkpoint.as_ref().and_then(|first| first.commit.as_ref());
        if known.is_none() && begins {
            self.first_checkpoint = Some(point.clone());
        }
        self.checkpoint = Some(point);
    }

    /// Whether the workspace was looked at since the last turn ended.
    #[must_use]
    pub fn is_checkpointed(&self) -> bool {
        let due = if self.has_begun() { Mark::TurnEnd } else { Mark::Start };
        self.rewind.waits
            || self.checkpoint.as_ref().is_some_and(|last| {
                let fits = last.mark == due || last.mark == Mark::Rewound;
                let in_vain = last.commit.is_none() && last.run == self.runs;
                in_vain || last.turn == self.turn.number && fits && last.commit.is_some()
            })
    }

    /// Whether a turn is part of the conversation, after every rewind.
    #[must_use]
    pub fn on_path(&self, turn: u32) -> bool {
        match &self.rewind.path {
            None => true,
            Some(path) => {
                turn > self.rewind.since
                    || path.iter().any(|span| (span.from..=span.to).contains(&turn))
            }
        }
    }

    /// The turns that the conversation consists of.
    #[must_use]
    pub fn path(&self) -> Vec<Span> {
        let now = self.turn.number;
        let mut path = match &self.rewind.path {
            None => Vec::new(),
            Some(path) => path.clone(),
        };
        let first = if self.rewind.path.is_some() { self.rewind.since + 1 } else { 1 };
        if first <= now {
            match path.last_mut() {
                Some(last) if last.to + 1 == first => last.to = now,
                _ => path.push(Span { from: first, to: now }),
            }
        }
        path
    }

    /// The path that ends with a turn which is part of the conversation now.
    #[must_use]
    pub fn path_to(&self, turn: u32) -> Vec<Span> {
        let spans = self.path().into_iter().filter(|span| span.from <= turn);
        spans.map(|span| Span { to: span.to.min(turn), ..span }).collect()
    }

    /// The last turn of the conversation.
    #[must_use]
    pub fn last_turn(&self) -> u32 {
        self.path().last().map_or(0, |span| span.to)
    }

    /// Everything before the turn that has just begun is behind the conversation, and so is whatever
    /// the vendors remember of it.
    pub(super) fn begin_afresh(&mut self) {
        self.rewind.path = Some(Vec::new());
        self.rewind.since = self.turn.number.saturating_sub(1);
        self.rewind.last = None;
        self.vendors.clear();
    }

    /// The turns of another session that this one begins with count as its own.
    pub(super) fn begin_with_base(&mut self) {
        let Some(base) = self.base().cloned() else { return };
        self.turn = Turn { number: base.turn, outcome: Some(Outcome::Finished), ..Turn::default() };
        self.rewind.path = Some(base.path);
        self.rewind.since = base.turn;
    }

    /// What its making has left for whoever comes next is known from its first event: killed right
    /// after that, a replay is complete, a fork waits, and neither has lost its files.
    pub(super) fn begin_as_made(&mut self) {
        let Some(identity) = &self.identity else { return };
        let (id, Some(lineage)) = (identity.id, &identity.lineage) else { return };
        let (files, stands) = (lineage.files.clone(), lineage.stands.clone());
        if files.is_some() {
            self.rewind.under_way = Some(RewindStarted {
                to_turn: self.last_turn(),
                files,
                path: None,
                safety: id.reference(&format!("before-{}", self.seq)),
                cuts: Vec::new(),
                undo: false,
            });
        }
        if let Some(stop) = stands {
            self.stopped(&stop);
        }
    }

    /// The part of another session that this one begins with.
    #[must_use]
    pub fn base(&self) -> Option<&Base> {
        self.identity.as_ref()?.lineage.as_ref()?.base.as_ref()
    }

    /// What is told with its first prompt, where it comes from another session.
    #[must_use]
    pub fn first_note(&self) -> Option<&str> {
        let lineage = self.identity.as_ref()?.lineage.as_ref()?;
        lineage.note.as_deref().filter(|_| !self.has_begun())
    }

    /// Whether it has had a turn of its own.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.turn.number > self.base().map_or(0, |base| base.turn)
    }

    fn rewound(&mut self) {
        let Some(done) = self.rewind.under_way.take() else { return };
        let before = Before {
            path: self.path(),
            to_turn: self.last_turn(),
            safety: done.files.is_some().then(|| done.safety.clone()),
            conversation: done.path.is_some(),
            vendors: self.vendors.clone(),
            review: self.terms().map(|_| Box::new(self.review.clone())),
            unfinished: self.turn.outcome == Some(Outcome::Superseded),
        };
        let taken_back = self.rewind.last.replace(before).filter(|_| done.undo);
        let Some(path) = done.path else { return };
        let now = self.turn.number;
        let unfinished = taken_back.as_ref().is_some_and(|before| before.unfinished);
        if let Some(before) = taken_back {
            self.vendors = before.vendors;
            if let Some(review) = before.review {
                // What was spent since is spent.
                let reviewers = std::mem::take(&mut self.review.reviewers);
                self.review = Review { reviewers, ..*review };
            }
        }
        for vendor in &mut self.vendors {
            match done.cuts.iter().find(|cut| cut.agent == vendor.agent) {
                Some(cut) => {
                    vendor.id = Some(cut.vendor_session.clone());
                    vendor.cut_at = cut.at.clone();
                }
                // What came later is still in its memory: another conversation has to begin.
                None if vendor.turn > done.to_turn && !done.undo => vendor.id = None,
                None => {}
            }
        }
        self.vendors.retain(|vendor| vendor.id.is_some() || vendor.turn <= done.to_turn);
        self.rewind.path = Some(path);
        self.rewind.since = now;
        if !done.undo {
            self.forget_reviews(done.to_turn);
        }
        self.rewind.waits = !done.undo;
        // What the rewind broke off is taken up again when it is taken back.
        self.handing_over = unfinished;
        self.proof = Proof::Open;
        let outcome = Some(if unfinished { Outcome::HandedOff } else { Outcome::Finished });
        self.turn = Turn { number: now, open: false, outcome, ..Turn::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Payload,
        event::{Cause, Cut, Event, RewindFinished, TurnEnded, TurnStarted},
    };
    use jiff::Timestamp;

    struct Journal(State);

    impl Journal {
        fn with(&mut self, turn: Option<u32>, body: impl Into<Body>) -> &mut Self {
            let event = Event {
                seq: self.0.seq + 1,
                at: Timestamp::UNIX_EPOCH,
                turn,
                agent: Some("claude".into()),
                id: None,
                body: body.into(),
            };
            self.0.apply(&event);
            self
        }

        fn turns(&mut self, count: u32) -> &mut Self {
            for _ in 0..count {
                let turn = Some(self.0.turn.number + 1);
                self.with(turn, TurnStarted::new(Payload::inline("go"), Cause::Person));
                self.with(turn, TurnEnded::with(Outcome::Finished));
            }
            self
        }

        fn back(&mut self, to_turn: u32, cuts: Vec<Cut>) -> &mut Self {
            let path = Some(self.0.path_to(to_turn));
            let (files, safety) = (None, "refs/x".to_owned());
            self.with(None, RewindStarted { to_turn, files, path, safety, cuts, undo: false });
            self.with(None, RewindFinished { to_turn, files: 0, begins: false })
        }

        fn undo(&mut self) -> &mut Self {
            let before = self.0.rewind.last.clone().unwrap();
            let started = RewindStarted {
                to_turn: before.to_turn,
                files: None,
                path: Some(before.path),
                safety: "refs/y".to_owned(),
                cuts: Vec::new(),
                undo: true,
            };
            let to_turn = started.to_turn;
            self.with(None, started).with(None, RewindFinished { to_turn, files: 0, begins: false })
        }

        fn path(&self) -> Vec<(u32, u32)> {
            self.0.path().iter().map(|span| (span.from, span.to)).collect()
        }
    }

    #[test]
    fn turns_are_left_behind_and_never_renumbered() {
        let mut journal = Journal(State::default());
        journal.turns(5);
        assert_eq!(journal.path(), [(1, 5)]);
        journal.back(2, Vec::new());
        assert_eq!((journal.path(), journal.0.last_turn()), (vec![(1, 2)], 2));
        assert!(journal.0.rewind.waits);
        journal.turns(2);
        assert_eq!(journal.path(), [(1, 2), (6, 7)]);
        assert!(!journal.0.rewind.waits);
        assert!(journal.0.on_path(2) && !journal.0.on_path(3) && journal.0.on_path(6));
        journal.back(6, Vec::new()).turns(1);
        assert_eq!(journal.path(), [(1, 2), (6, 6), (8, 8)]);
        journal.back(1, Vec::new()).turns(1);
        assert_eq!(journal.path(), [(1, 1), (9, 9)]);
    }

    #[test]
    fn a_rewind_is_taken_back_and_that_too() {
        let mut journal = Journal(State::default());
        journal.turns(4).back(1, Vec::new()).undo();
        assert_eq!((journal.path(), journal.0.rewind.waits), (vec![(1, 4)], false));
        journal.undo();
        assert_eq!(journal.path(), [(1, 1)]);
        journal.undo().turns(1);
        assert_eq!(journal.path(), [(1, 5)]);
    }

    #[test]
    fn the_first_event_alone_says_what_a_session_was_made_as() {
        let id = crate::SessionId::from_parts(1, 2);
        let made = |lineage: serde_json::Value| {
            let identity = serde_json::json!({
                "v": 1, "id": id, "created_at": "2026-01-01T00:00:00Z",
                "repo": { "id": "r", "identity": "/r" }, "workspace": "/r", "loop": "solo",
                "agent": "native", "prompt": { "text": "go" }, "lineage": lineage, "segue": "0",
            });
            let identity: crate::Identity = serde_json::from_value(identity).unwrap();
            let mut journal = Journal(State::default());
            journal.with(None, crate::event::SessionCreated { identity: identity.into() });
            journal.0
        };
        let from = crate::SessionId::from_parts(1, 1);
        // As older versions have written it.
        let old = made(serde_json::json!({ "from": from, "how": "forked" }));
        assert_eq!((old.phase, &old.stop, &old.rewind.under_way), (Phase::Created, &None, &None));
        let stands = serde_json::json!({ "reason": "rewound", "message": "say what to do" });
        let waits = made(serde_json::json!({
            "from": from, "how": "forked", "files": "abc", "stands": stands,
        }));
        assert_eq!(waits.phase, Phase::Stopped);
        assert_eq!(waits.stop.as_ref().unwrap().message, "say what to do");
        let back = waits.rewind.under_way.as_ref().unwrap();
        assert_eq!((back.files.as_deref(), &back.path), (Some("abc"), &None));
        assert_eq!(back.safety, format!("refs/segue/{id}/before-1"));
        // Whoever brings them back leaves the conversation as it is.
        let mut journal = Journal(waits);
        journal.with(None, RewindFinished { to_turn: 0, files: 3, begins: false });
        assert_eq!((&journal.0.rewind.under_way, journal.0.last_turn()), (&None, 0));
        assert!(!journal.0.rewind.waits);
    }

    #[test]
    fn a_vendors_conversation_is_cut_or_given_up() {
        let session = |agent: &str, turn| VendorSession {
            agent: agent.into(),
            id: Some(format!("{agent}-session")),
            command: String::new(),
            cwd: "/".into(),
            spawned_at: Timestamp::UNIX_EPOCH,
            model: None,
            version: None,
            turn,
            cut_at: None,
        };
        let mut journal = Journal(State::default());
        journal.turns(3);
        journal.0.vendors = vec![session("claude", 3), session("gemini", 3), session("codex", 1)];
        let cut = Cut {
            agent: "claude".into(),
            vendor_session: "claude-session".into(),
            at: Some("m1".into()),
        };
        journal.back(1, vec![cut]);
        assert_eq!(journal.0.vendor("claude").unwrap().cut_at.as_deref(), Some("m1"));
        assert_eq!(journal.0.vendor("gemini"), None, "it remembers what was left behind");
        assert_eq!(journal.0.vendor("codex").unwrap().cut_at, None, "it was not there");
        journal.undo();
        assert_eq!(journal.0.vendor("gemini").unwrap().id.as_deref(), Some("gemini-session"));
        assert_eq!(journal.0.vendor("claude").unwrap().cut_at, None);
    }
}
