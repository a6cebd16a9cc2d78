//! What comes next: a pure function of the state.
//!
//! The loop asks after every event, and so does a resume after a crash. There is no second path
//! for recovery: whatever the journal says was left open is exactly what comes next.

use crate::{
    bridge::PERSON,
    event::{Cause, ModelStop, Outcome, Reason, SessionStopped},
    state::{Phase, Progress, Proof, State, TaskStep},
};

/// A worker that has changed nothing so often is not asked again.
const MOST_IDLE: u32 = 2;

/// The next thing to do in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Take the next task of the list in hand.
    StartTask,
    /// Give the agent its first prompt.
    FirstTurn,
    /// Give the agent what the failed proof printed.
    ProofTurn,
    /// Let the agent go on after a reply that was cut at its output limit.
    GoOn,
    /// The model would not do it.
    GiveUp,
    /// Another agent was chosen: the open turn of the one before ends.
    LetGo,
    /// Give the other agent what the one before had not finished.
    TakeOver,
    /// A rewind waits for what to do instead.
    Ask,
    /// A turn is open: the agent goes on with it.
    Turn,
    /// A proof was started and never returned. It may be run again: it only judges.
    SettleProof,
    Prove,
    /// Let the worker go on: it has not said that it is done.
    UnfinishedTurn,
    /// The worker makes no case for its work, also when it is asked to.
    NoCase,
    /// Put the turn before the reviewers.
    StartReview,
    /// Some of them have not given their verdict.
    Review,
    /// Give the worker what the reviewers have said.
    ReviewTurn,
    /// Again and again the worker has changed nothing.
    Idle,
    /// Give the worker what a person has said to it meanwhile.
    MessageTurn,
    /// Put what passed on the session's own branch.
    Commit,
    Finish,
}

/// The next thing to do inside an open turn of an agent whose model and tools Segue calls itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A tool was started and never returned: say so to the model; never run it again unasked.
    SettleTool(String),
    RunTool(String),
    CallModel,
    EndTurn(Outcome),
}

/// Decides by what is in the journal, and by nothing else.
#[must_use]
pub fn step(state: &State) -> Step {
    let turn = &state.turn;
    let open = |progress| turn.tools.iter().find(|call| call.progress == progress);
    if let Some(call) = open(Progress::Started) {
        return Step::SettleTool(call.id.clone());
    }
    if let Some(call) = open(Progress::Called) {
        return Step::RunTool(call.id.clone());
    }
    match turn.reply {
        _ if turn.calling => Step::CallModel,
        None => Step::CallModel,
        Some(_) if !turn.tools.is_empty() => Step::CallModel,
        Some(ModelStop::MaxTokens) => Step::EndTurn(Outcome::Truncated),
        Some(ModelStop::Refusal) => Step::EndTurn(Outcome::Refused),
        Some(_) => Step::EndTurn(Outcome::Finished),
    }
}

/// Decides by what is in the journal, and by nothing else.
#[must_use]
pub fn next(state: &State) -> Next {
    if state.turn.open {
        return if state.handing_over { Next::LetGo } else { Next::Turn };
    }
    if state.rewind.waits {
        return Next::Ask;
    }
    match state.tasks.as_ref().map(|tasks| tasks.step(state.turn.number)) {
        Some(TaskStep::Start) => return Next::StartTask,
        Some(TaskStep::First) => return Next::FirstTurn,
        Some(TaskStep::AllDone) => return Next::Finish,
        Some(TaskStep::Work) | None => {}
    }
    if !state.has_begun() {
        return Next::FirstTurn;
    }
    if state.handing_over && state.turn.outcome == Some(Outcome::HandedOff) {
        return Next::TakeOver;
    }
    let has_proof = state.identity.as_ref().is_some_and(|identity| identity.proof.is_some());
    match state.proof {
        _ if state.turn.outcome == Some(Outcome::Truncated) => Next::GoOn,
        _ if state.turn.outcome == Some(Outcome::Refused) => Next::GiveUp,
        // It was handed over for a reason: whoever was called gets a turn.
        Proof::Passed if state.handing_over => Next::TakeOver,
        _ if !has_proof && state.handing_over => Next::TakeOver,
        _ if no_case(state) && state.turn.cause == Some(Cause::Unfinished) => Next::NoCase,
        _ if unfinished(state) || no_case(state) => Next::UnfinishedTurn,
        _ if !has_proof => judged(state),
        Proof::Started => Next::SettleProof,
        Proof::Passed => judged(state),
        Proof::Failed => Next::ProofTurn,
        Proof::Open | Proof::Unknown => Next::Prove,
    }
}

/// Whether the worker has yet to say the word for "done".
fn unfinished(state: &State) -> bool {
    let word = state.terms().is_some_and(|terms| terms.done.is_some());
    word && state.review.done_in != state.last_turn()
}

/// Whether the worker has yet to make its case.
fn no_case(state: &State) -> bool {
    let wanted = state.terms().is_some_and(|terms| terms.case);
    let case = state.tasks.as_ref().and_then(|tasks| tasks.case.as_ref());
    wanted && case.is_none_or(|(turn, _)| *turn != state.turn.number)
}

/// What comes after the proof: the reviewers, where there are any.
fn judged(state: &State) -> Next {
    let said = has_word(state);
    let passed = match (state.terms(), state.round()) {
        (None, _) => true,
        (Some(terms), _) if terms.reviewers.is_empty() => true,
        // What a person has to say to a task comes before it is judged: with its commit it is done.
        (Some(_), None) if said && state.tasks.is_some() => return Next::MessageTurn,
        (Some(_), None) => return Next::StartReview,
        (Some(terms), Some(round)) => {
            if round.empty {
                return idle(state);
            }
            if !round.missing(terms).is_empty() {
                return Next::Review;
            }
            round.passes(terms)
        }
    };
    let lands = state.terms().is_some() && lacks(state, state.last_turn());
    match passed {
        false => Next::ReviewTurn,
        // What passed is kept before anything else is asked for.
        true if lands => Next::Commit,
        true if said => Next::MessageTurn,
        true => Next::Finish,
    }
}

/// What comes after a turn that has changed nothing: there is nothing that could pass.
fn idle(state: &State) -> Next {
    let review = &state.review;
    let often = review.idle >= MOST_IDLE;
    let told = state.turn.cause == Some(Cause::Message);
    // What is asked for now is met by what was accepted only where that was for the same task.
    let met = |turn: u32| turn >= review.ledger.since && review.ledger.open().is_empty();
    let done = if has_word(state) { Next::MessageTurn } else { Next::Finish };
    match review.accepted.last() {
        // What was accepted is what is there.
        Some((turn, _)) if (often || told) && lacks(state, *turn) => Next::Commit,
        // There may be nothing to do for a message.
        Some(_) if told => done,
        _ if !often => Next::ReviewTurn,
        Some((turn, _)) if met(*turn) => done,
        _ => Next::Idle,
    }
}

/// Whether something that a person said waits for the worker.
fn has_word(state: &State) -> bool {
    let mut waiting = state.bridge.waiting_for(state.worker());
    !state.is_part() && waiting.any(|one| one.message.from == PERSON)
}

/// Whether there is a branch of the session's own that does not have the work of a turn yet.
fn lacks(state: &State, turn: u32) -> bool {
    let made = state.worktree.as_ref().is_some_and(|worktree| worktree.made);
    made && state.review.committed_in < turn
}

/// What a crash left behind, in the three classes that a person wants to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certainty {
    /// Tools of the last reply that certainly ran.
    pub done: Vec<String>,
    /// Tools of the last reply that certainly did not run.
    pub not_done: Vec<String>,
    /// Started, and never heard of again.
    pub unknown: Vec<String>,
    /// A model call was under way; its answer is lost and it is asked again.
    pub call_lost: bool,
}

/// Sorts what was going on when the journal ended.
#[must_use]
pub fn certainty(state: &State) -> Certainty {
    let turn = &state.turn;
    let mut found = Certainty { call_lost: turn.open && turn.calling, ..Certainty::default() };
    if turn.open {
        for call in turn.calls() {
            let class = match call.progress {
                Progress::Returned => &mut found.done,
                Progress::Called => &mut found.not_done,
                Progress::Started | Progress::Unknown => &mut found.unknown,
            };
            class.push(format!("{} {}", call.name, call.id));
        }
    } else if state.proof == Proof::Started {
        found.unknown.push("proof".to_owned());
    }
    found
}

/// Whether `segue resume` has something to go on with, without a new prompt.
#[must_use]
pub fn is_resumable(state: &State) -> bool {
    let waits = |stop: &SessionStopped| matches!(stop.reason, Reason::Done | Reason::Rewound);
    !(state.phase == Phase::Stopped && state.stop.as_ref().is_some_and(waits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{
        Body, Event, ModelCalled, ModelReplied, ProofReturned, ProofStarted, TextWritten,
        ToolCalled, ToolReturned, ToolStarted, ToolStatus, TurnEnded, TurnStarted,
    };
    use crate::{Payload, usage::Usage};
    use jiff::Timestamp;

    struct Journal(State);

    impl Journal {
        fn new() -> Self {
            Self(State::default())
        }

        fn with(mut self, id: &str, body: impl Into<Body>) -> Self {
            let event = Event {
                seq: self.0.seq + 1,
                at: Timestamp::UNIX_EPOCH,
                turn: None,
                agent: None,
                id: Some(id.to_owned()),
                body: body.into(),
            };
            self.0.apply(&event);
            self
        }

        fn prompt(self) -> Self {
            self.with("", TurnStarted::new(Payload::inline("go"), Cause::Person))
        }

        fn call(self) -> Self {
            self.with("", ModelCalled { model: "m".into(), attempt: 1, messages: 1, told: None })
        }

        fn tool(self, id: &str) -> Self {
            self.with(id, ToolCalled { name: "shell".into(), input: Payload::inline("{}") })
        }

        fn seal(self, stop: ModelStop) -> Self {
            let usage = Usage { input: 1, ..Usage::default() };
            self.with(
                "",
                ModelReplied { model: "m".into(), stop, usage, cost_micros: None, reply_id: None },
            )
        }

        fn start(self, id: &str) -> Self {
            self.with(id, ToolStarted {})
        }

        fn returned(self, id: &str) -> Self {
            let output = Payload::inline("ok");
            self.with(
                id,
                ToolReturned {
                    name: "shell".into(),
                    status: ToolStatus::Done,
                    output,
                    exit: None,
                    touched: vec![],
                },
            )
        }

        fn next(&self) -> Next {
            next(&self.0)
        }

        fn step(&self) -> Step {
            assert_eq!(self.next(), Next::Turn);
            step(&self.0)
        }
    }

    #[test]
    fn a_turn_goes_from_prompt_to_end() {
        let journal = Journal::new();
        assert_eq!(journal.next(), Next::FirstTurn);
        let journal = journal.prompt();
        assert_eq!(journal.step(), Step::CallModel);
        let journal = journal.call().tool("a").tool("b").seal(ModelStop::ToolUse);
        assert_eq!(journal.step(), Step::RunTool("a".into()));
        let journal = journal.start("a").returned("a");
        assert_eq!(journal.step(), Step::RunTool("b".into()));
        let journal = journal.start("b").returned("b");
        assert_eq!(journal.step(), Step::CallModel);
        let journal = journal
            .call()
            .with("", TextWritten { text: Payload::inline("done"), partial: false })
            .seal(ModelStop::EndTurn);
        assert_eq!(journal.step(), Step::EndTurn(Outcome::Finished));
        assert_eq!(journal.0.usage.total(), 2);
        let journal = journal.with("", TurnEnded::with(Outcome::Finished));
        assert_eq!(journal.next(), Next::Finish);
    }

    #[test]
    fn a_crash_is_told_apart_by_how_far_it_got() {
        // A reply without its seal never arrived: its tools are not run.
        let torn = Journal::new().prompt().call().tool("a");
        assert_eq!(torn.step(), Step::CallModel);
        assert!(certainty(&torn.0).call_lost);
        assert_eq!(certainty(&torn.0).not_done.len(), 0);

        let sealed = torn.seal(ModelStop::ToolUse);
        assert_eq!(certainty(&sealed.0).not_done, ["shell a"]);
        let started = sealed.start("a");
        assert_eq!(started.step(), Step::SettleTool("a".into()));
        assert_eq!(certainty(&started.0).unknown, ["shell a"]);
        let returned = started.returned("a");
        assert_eq!(certainty(&returned.0).done, ["shell a"]);
        assert_eq!(returned.step(), Step::CallModel);
    }

    #[test]
    fn a_second_reply_does_not_bring_back_the_tools_of_the_first() {
        let journal = Journal::new()
            .prompt()
            .call()
            .tool("a")
            .seal(ModelStop::ToolUse)
            .start("a")
            .returned("a")
            .call();
        assert_eq!(journal.step(), Step::CallModel);
        let journal = journal.seal(ModelStop::EndTurn);
        assert_eq!(journal.step(), Step::EndTurn(Outcome::Finished));
    }

    #[test]
    fn the_proof_decides_where_there_is_one() {
        let mut journal = Journal::new().prompt().call().seal(ModelStop::EndTurn);
        let identity = serde_json::from_value(serde_json::json!({
            "v": 1, "id": crate::SessionId::from_parts(1, 1), "created_at": "2026-01-01T00:00:00Z",
            "repo": {"id": "r", "identity": "r"}, "workspace": "w", "loop": "solo",
            "agent": "native", "prompt": {"text": "go"}, "proof": "make test", "segue": "0"
        }));
        journal.0.identity = Some(identity.unwrap());
        let journal = journal.with("", TurnEnded::with(Outcome::Finished));
        assert_eq!(journal.next(), Next::Prove);
        let journal = journal.with("", ProofStarted { command: "make test".into() });
        assert_eq!(journal.next(), Next::SettleProof);
        let proved = |status, exit| ProofReturned { status, exit, output: Payload::default() };
        let journal = journal.with("", proved(ToolStatus::MayHaveRun, None));
        assert_eq!(journal.next(), Next::Prove);
        let journal = journal.with("", proved(ToolStatus::Done, Some(1)));
        assert_eq!(journal.next(), Next::ProofTurn);
        let journal = journal.prompt().call().seal(ModelStop::EndTurn);
        let journal = journal.with("", TurnEnded::with(Outcome::Finished));
        assert_eq!(journal.next(), Next::Prove);
        let journal = journal.with("", proved(ToolStatus::Done, Some(0)));
        assert_eq!(journal.next(), Next::Finish);
    }

    /// A list whose only task is worked on.
    fn with_one_task() -> crate::state::Tasks {
        serde_json::from_value(serde_json::json!({
            "source": "/plan", "list": {"text": "{}"}, "hand": {"task": "T-1", "turn": 0},
            "entries": [{"id": "T-1", "title": "One", "digest": ""}],
        }))
        .unwrap()
    }

    #[test]
    fn what_passed_is_on_the_branch_before_anything_else_is_asked_for() {
        use crate::event::{
            MessageSent, ReviewStarted, VerdictGiven, WorkCommitted, WorktreeMade, WorktreePlanned,
        };
        let identity = serde_json::from_value(serde_json::json!({
            "v": 1, "id": crate::SessionId::from_parts(1, 1), "created_at": "2026-01-01T00:00:00Z",
            "repo": {"id": "r", "identity": "r"}, "workspace": "w", "loop": "pair",
            "agent": "codex", "prompt": {"text": "go"}, "segue": "0",
            "pair": {"reviewers": [{"name": "claude", "agent": "claude"}]},
        }));
        let turn = |journal: Journal, cause| {
            journal
                .with("", TurnStarted::new(Payload::inline("go"), cause))
                .with("", TurnEnded::with(Outcome::Finished))
        };
        let reviewed = |journal: Journal, files| {
            let (from, to) = (Some("a".to_owned()), Some("b".to_owned()));
            let reviewers = vec!["claude".to_owned()];
            let (iteration, files) = (1, Some(files));
            journal.with("", ReviewStarted { iteration, reviewers, from, to, files })
        };
        let passed: VerdictGiven = serde_json::from_value(serde_json::json!({
            "iteration": 1, "reviewer": "claude", "agent": "claude", "verdict": "pass",
            "via": "tool", "concerns": [],
        }))
        .unwrap();
        let committed = |journal: Journal| {
            let (commit, branch) = ("c".to_owned(), "b".to_owned());
            journal.with("", WorkCommitted { commit, branch, task: None, failed: None })
        };
        let (path, base) = ("/w".into(), "c".into());
        let plan = WorktreePlanned { path, branch: "b".into(), base, repo: "/r".into() };
        let message = || MessageSent {
            from: PERSON.into(),
            to: "codex".into(),
            text: Payload::inline("and the docs"),
        };
        let mut journal = Journal::new();
        journal.0.identity = Some(identity.unwrap());
        let journal = journal.with("", plan).with("", WorktreeMade { path: "/w".into() });
        let journal = reviewed(turn(journal, Cause::Person), 1).with("m1", message());
        let journal = journal.with("", passed);
        assert_eq!(journal.next(), Next::Commit);
        // So is a task of a list; what is said before it is judged belongs to it.
        let mut list = Journal(journal.0.clone());
        list.0.tasks = Some(with_one_task());
        assert_eq!(list.next(), Next::Commit);
        list.0.review.round = None;
        assert_eq!(list.next(), Next::MessageTurn);
        let iteration = list.0.review.iteration;
        assert_eq!(turn(list, Cause::Message).0.review.iteration, iteration);
        // It was killed there, and a person wants something that changes nothing.
        let mut other = Journal(journal.0.clone());
        other.0.bridge.waiting.clear();
        let other = reviewed(turn(other, Cause::Person), 0);
        assert_eq!(other.next(), Next::ReviewTurn);
        let other = reviewed(turn(other, Cause::Review), 0);
        assert_eq!(other.next(), Next::Commit);
        assert_eq!(committed(other).next(), Next::Idle, "what is asked for now is not done");
        // What was said to it comes next.
        let journal = committed(journal);
        assert_eq!(journal.next(), Next::MessageTurn);
        let mut journal = reviewed(turn(journal, Cause::Message), 0);
        assert_eq!(journal.next(), Next::MessageTurn, "there is one more");
        journal.0.bridge.waiting.clear();
        assert_eq!(journal.next(), Next::Finish);
        // What it does then does not pass, and it goes back to what was accepted.
        let failed: VerdictGiven = serde_json::from_value(serde_json::json!({
            "iteration": 3, "reviewer": "claude", "agent": "claude", "verdict": "fail", "via": "tool",
            "concerns": [{ "id": "C1", "category": "x", "concern": "x", "evidence": "x", "next_step": "x" }],
        }))
        .unwrap();
        let journal = reviewed(turn(journal, Cause::Message), 1).with("", failed);
        let journal = reviewed(turn(journal, Cause::Review), 0);
        assert_eq!(journal.next(), Next::ReviewTurn);
        let mut journal = reviewed(turn(journal, Cause::Review), 0);
        assert_eq!(journal.next(), Next::Idle);
        journal.0.review.ledger.entries.clear();
        assert_eq!(journal.next(), Next::Finish);
    }

    #[test]
    fn after_the_proof_come_the_reviewers_and_after_them_the_branch() {
        use crate::event::{DoneSignalled, MessageSent, ReviewStarted, VerdictGiven, WorktreeMade};
        let said = |reviewer: &str, verdict: &str| -> VerdictGiven {
            let value = serde_json::json!({
                "iteration": 1, "reviewer": reviewer, "agent": reviewer, "verdict": verdict,
                "via": "tool", "concerns": [],
            });
            serde_json::from_value(value).unwrap()
        };
        let started = |files| ReviewStarted {
            iteration: 1,
            reviewers: vec!["claude".into(), "codex-2".into()],
            from: None,
            to: Some("b".into()),
            files: Some(files),
        };
        let turn = |journal: Journal| {
            let prompt = Payload::inline("go on");
            journal
                .with("", TurnStarted::new(prompt, Cause::Review))
                .call()
                .seal(ModelStop::EndTurn)
                .with("", TurnEnded::with(Outcome::Finished))
        };
        let mut journal = Journal::new();
        let identity = serde_json::from_value(serde_json::json!({
            "v": 1, "id": crate::SessionId::from_parts(1, 1), "created_at": "2026-01-01T00:00:00Z",
            "repo": {"id": "r", "identity": "r"}, "workspace": "w", "loop": "pair",
            "agent": "codex", "prompt": {"text": "go"}, "segue": "0",
            "pair": {"done": "DONE", "reviewers": [
                {"name": "claude", "agent": "claude"}, {"name": "codex-2", "agent": "codex"}]},
        }));
        journal.0.identity = Some(identity.unwrap());
        let journal = turn(journal);
        assert_eq!(journal.next(), Next::UnfinishedTurn);
        let journal = turn(journal).with("", DoneSignalled { signal: "DONE".into() });
        assert_eq!((journal.next(), journal.0.review.iteration), (Next::StartReview, 2));
        let journal = journal.with("", started(2));
        assert_eq!(journal.next(), Next::Review);
        let journal = journal.with("", said("claude", "pass"));
        assert_eq!(journal.next(), Next::Review);
        // What counts once is not counted again.
        let journal = journal.with("", said("claude", "fail")).with("", said("codex-2", "fail"));
        assert_eq!(journal.next(), Next::ReviewTurn);
        assert_eq!((journal.0.review.passes, journal.0.review.fails), (1, 1));
        let journal = turn(journal).with("", DoneSignalled { signal: "DONE".into() });
        let journal = journal.with("", started(0));
        assert_eq!(journal.next(), Next::ReviewTurn, "nothing has changed");
        let idle = turn(Journal(journal.0.clone()));
        let idle = idle.with("", DoneSignalled { signal: "DONE".into() }).with("", started(0));
        assert_eq!(idle.next(), Next::Idle, "again nothing");
        let journal = turn(journal).with("", DoneSignalled { signal: "DONE".into() });
        let journal = journal.with("", started(1));
        let journal = journal.with("", said("claude", "pass")).with("", said("codex-2", "pass"));
        assert_eq!(journal.next(), Next::Finish);
        let message = MessageSent {
            from: PERSON.into(),
            to: "codex".into(),
            text: Payload::inline("and the docs"),
        };
        assert_eq!(journal.0.review.iteration, 4);
        let journal = journal.with("m1", message);
        assert_eq!(journal.next(), Next::MessageTurn);
        let mut journal = journal.prompt().call().seal(ModelStop::EndTurn);
        journal = journal.with("", TurnEnded::with(Outcome::Finished));
        // It was accepted; and what a person asks for is another task.
        assert_eq!(journal.0.review.iteration, 1);
        assert_eq!(journal.0.review.last_accepted(), Some("b"));
        journal.0.bridge.waiting.clear();
        let plan = crate::event::WorktreePlanned {
            path: "/w".into(),
            branch: "b".into(),
            base: "c".into(),
            repo: "/r".into(),
        };
        let journal = journal
            .with("", plan)
            .with("", WorktreeMade { path: "/w".into() })
            .with("", DoneSignalled { signal: "DONE".into() })
            .with("", started(1))
            .with("", said("claude", "pass"))
            .with("", said("codex-2", "pass"));
        assert_eq!(journal.next(), Next::Commit);
    }
}
