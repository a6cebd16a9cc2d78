//! The events of a session that has the steps of an artifact.
//!
//! One step there is one step here, in the same order; what a person asked is one too, also where
//! it stands in the transcript alone. Calls that were never answered are answered as not run: what
//! a file says is never done by somebody who goes on with it.

mod view;

use std::collections::HashMap;

use jiff::Timestamp;
use segue_core::{
    Event,
    caps::Caps,
    event::{
        AgentChanged, Body, Cause, ChangeCause, Draft, Failure, ModelCalled, ModelFailed,
        ModelReplied, ModelStop, Outcome, Process, ProofReturned, ProofStarted, Reason,
        RewindFinished, RewindStarted, SessionStarted, SessionStopped, Span, TextWritten,
        ThinkingWritten, ToolCalled, ToolReturned, ToolStatus, TurnEnded, TurnStarted,
        UsageReported, VerdictGiven,
    },
    payload::Payload,
    steps::{StepId, StepKind, Steps},
    usage::Usage,
};

use super::{artifact::Artifact, json::Value};
use crate::error::Result;
pub(super) use view::time;
use view::{Part, Transcript, View};

/// Where long texts are put.
pub(super) type Keep<'a> = &'a mut dyn FnMut(&str) -> Result<Payload>;

/// An event and when it happened.
pub(super) type Timed = (Timestamp, Draft);

/// All events after `session.created`.
pub(super) fn events(
    artifact: &Artifact,
    agent: &str,
    created: Timestamp,
    sealed: bool,
    keep: Keep<'_>,
) -> Result<Vec<Timed>> {
    let mut taker = Taker {
        agent: Some(agent.to_owned()),
        sealed,
        keep,
        steps: Steps::default(),
        events: Vec::new(),
        ids: HashMap::new(),
        turn: None,
        last_turn: 0,
        path: Vec::new(),
        ends: Vec::new(),
        calls: Vec::new(),
        now: created,
    };
    let segue = env!("CARGO_PKG_VERSION").to_owned();
    let by = Process { pid: 0, host: artifact.run_id().to_owned(), segue };
    taker.push(SessionStarted { by, caps: Caps::default() });
    let transcript = Transcript::of(artifact);
    let views: Vec<View> = View::all(artifact, &transcript, created);
    for view in &views {
        for asked in transcript.before(&view.id) {
            taker.ask(asked, None)?;
        }
        taker.take(view, artifact)?;
    }
    taker.end_turn()?;
    // What came after it was left behind, and nobody has gone on since.
    let main = artifact.section("refs").get("main").and_then(Value::text);
    if let Some(main) = main.and_then(|id| taker.ids.get(id).copied()) {
        taker.back_to(&[main]);
    }
    for asked in transcript.after_all() {
        taker.ask(asked, None)?;
    }
    taker.end_turn()?;
    let (reason, message) = match artifact.status() {
        "completed" => (Reason::Done, "the run in the file was completed"),
        "failed" => (Reason::Failed, "the run in the file had failed"),
        _ => (Reason::Interrupted, "the run in the file was not completed"),
    };
    taker.push(SessionStopped {
        reason,
        agent: None,
        cap: None,
        signal: None,
        resets_at: None,
        message: message.to_owned(),
        hint: None,
    });
    Ok(taker.events)
}

struct Taker<'a> {
    /// Who does what comes next; nobody for what happens between turns.
    agent: Option<String>,
    sealed: bool,
    keep: Keep<'a>,
    /// The same fold that every reader has: it says what the next step follows from.
    steps: Steps,
    events: Vec<Timed>,
    /// What the steps of the file are called here.
    ids: HashMap<String, StepId>,
    turn: Option<u32>,
    last_turn: u32,
    /// The turns of the conversation.
    path: Vec<u32>,
    /// What each turn ended with, and the conversation up to it.
    ends: Vec<(Vec<StepId>, Vec<u32>)>,
    /// Calls without an answer: id, name.
    calls: Vec<(String, String)>,
    now: Timestamp,
}

impl Taker<'_> {
    fn push(&mut self, body: impl Into<Body>) {
        self.push_about(body, None);
    }

    fn push_about(&mut self, body: impl Into<Body>, id: Option<String>) {
        let agent = self.agent.clone();
        self.push_draft(Draft { turn: self.turn, agent, id, body: body.into() });
    }

    fn push_draft(&mut self, draft: Draft) {
        let event = Event {
            seq: self.events.len() as u64 + 2,
            at: self.now,
            turn: draft.turn,
            agent: draft.agent.clone(),
            id: draft.id.clone(),
            body: draft.body.clone(),
        };
        self.steps.apply(&event, &mut |_| {});
        self.events.push((self.now, draft));
    }

    /// A turn that begins with a prompt.
    fn ask(&mut self, prompt: &str, turn: Option<u32>) -> Result<()> {
        self.end_turn()?;
        let turn = turn.filter(|turn| *turn > self.last_turn).unwrap_or(self.last_turn + 1);
        self.last_turn = turn;
        self.turn = Some(turn);
        self.path.push(turn);
        let prompt = (self.keep)(prompt)?;
        self.push(TurnStarted::new(prompt, Cause::Person));
        Ok(())
    }

    fn end_turn(&mut self) -> Result<()> {
        if self.turn.is_none() {
            return Ok(());
        }
        let open = !self.calls.is_empty();
        if !self.sealed {
            for (id, name) in std::mem::take(&mut self.calls) {
                let output = (self.keep)("not run: the run in the file ended before its answer")?;
                let (status, exit, touched) = (ToolStatus::NotRun, None, Vec::new());
                self.push_about(ToolReturned { name, status, output, exit, touched }, Some(id));
            }
        }
        self.calls.clear();
        self.push(TurnEnded::with(if open { Outcome::Superseded } else { Outcome::Finished }));
        self.ends.push((self.steps.frontier().to_vec(), self.path.clone()));
        self.turn = None;
        Ok(())
    }

    /// Goes back to where a prompt follows from, where that is the end of an earlier turn.
    fn go_back(&mut self, view: &View) -> Result<()> {
        self.end_turn()?;
        let parents: Option<Vec<StepId>> =
            view.parents.iter().map(|id| self.ids.get(id).copied()).collect();
        if let Some(parents) = parents {
            self.back_to(&parents);
        }
        Ok(())
    }

    /// Goes back to the end of an earlier turn, where that is what it ended with.
    fn back_to(&mut self, frontier: &[StepId]) {
        if frontier == self.steps.frontier() {
            return;
        }
        let end = self.ends.iter().rev().find(|(end, _)| end == frontier);
        let path = match end {
            Some((_, path)) => path.clone(),
            None if frontier.is_empty() => Vec::new(),
            None => return,
        };
        let to_turn = path.last().copied().unwrap_or(0);
        self.push(RewindStarted {
            to_turn,
            files: None,
            path: Some(spans(&path)),
            safety: String::new(),
            cuts: Vec::new(),
            undo: false,
        });
        self.push(RewindFinished { to_turn, files: 0, begins: false });
        self.path = path;
    }

    fn take(&mut self, view: &View, artifact: &Artifact) -> Result<()> {
        if view.outside {
            self.end_turn()?;
        }
        let agent = self.agent.clone();
        if view.outside || view.agent.is_some() {
            self.agent.clone_from(&view.agent);
        }
        if view.kind == StepKind::Prompt {
            self.go_back(view)?;
            self.now = view.at;
            self.ask(&view.words, view.turn)?;
        } else {
            if self.turn.is_none() && !view.outside {
                self.ask(artifact_prompt(artifact), view.turn)?;
            }
            self.one(view)?;
        }
        if view.kind != StepKind::Reply && (view.usage != Usage::default() || view.cost.is_some()) {
            self.push(UsageReported {
                model: None,
                usage: view.usage,
                cost_micros: view.cost,
                settles: false,
            });
        }
        if let Some(id) = self.steps.frontier().last() {
            self.ids.insert(view.id.clone(), *id);
        }
        self.agent = agent;
        Ok(())
    }

    fn one(&mut self, view: &View) -> Result<()> {
        match view.kind {
            StepKind::Reply => self.reply(view)?,
            StepKind::Tool => {
                self.now = view.at;
                let Some(result) = &view.result else { return Ok(()) };
                let open = self.calls.iter().position(|(id, _)| *id == result.id);
                if let Some(open) = open {
                    self.calls.remove(open);
                }
                let returned = ToolReturned {
                    name: result.name.clone(),
                    status: result.status,
                    output: (self.keep)(&result.output)?,
                    exit: result.exit,
                    touched: result.touched.clone(),
                };
                self.push_about(returned, Some(result.id.clone()));
            }
            StepKind::Proof => {
                let Some(result) = &view.result else { return Ok(()) };
                self.now = view.began;
                self.push(ProofStarted { command: String::new() });
                self.now = view.at;
                let output = (self.keep)(&result.output)?;
                self.push(ProofReturned { status: result.status, exit: result.exit, output });
            }
            StepKind::Error => {
                self.now = view.at;
                let message = view.words.clone();
                self.push(ModelFailed { error: Failure::Unknown, message, retry_in_ms: None });
            }
            StepKind::Verdict | StepKind::HandOff | StepKind::Prompt => {
                self.now = view.at;
                self.other(view)?;
            }
        }
        Ok(())
    }

    fn reply(&mut self, view: &View) -> Result<()> {
        let model = view.model.clone();
        self.now = view.began;
        self.push(ModelCalled { model: model.clone(), attempt: 1, messages: 0, told: None });
        self.now = view.at;
        self.calls.clear();
        for part in &view.parts {
            match part {
                Part::Text(text) => {
                    let text = (self.keep)(text)?;
                    self.push(TextWritten { text, partial: false });
                }
                Part::Thinking { text, signature } => {
                    let text = (self.keep)(text)?;
                    let signature =
                        signature.as_deref().map(|words| (self.keep)(words)).transpose()?;
                    self.push(ThinkingWritten { text, signature });
                }
                Part::Call { id, name, input } => {
                    let input = (self.keep)(input)?;
                    self.calls.push((id.clone(), name.clone()));
                    self.push_about(ToolCalled { name: name.clone(), input }, Some(id.clone()));
                }
            }
        }
        let stop = if self.calls.is_empty() { ModelStop::EndTurn } else { ModelStop::ToolUse };
        let (usage, cost_micros) = (view.usage, view.cost);
        self.push(ModelReplied { model, stop, usage, cost_micros, reply_id: None });
        Ok(())
    }

    /// What only our own files have.
    fn other(&mut self, view: &View) -> Result<()> {
        let verdict: Option<VerdictGiven> =
            serde_json::from_str(&view.words).ok().filter(|_| view.kind == StepKind::Verdict);
        if let Some(given) = verdict {
            self.push(given);
            return Ok(());
        }
        if let Some((from, rest)) = view.words.split_once(" → ")
            && let Some((to, reason)) = rest.split_once(": ")
        {
            self.push(AgentChanged {
                from: from.to_owned(),
                to: to.to_owned(),
                model: None,
                cause: ChangeCause::Asked,
                reason: reason.to_owned(),
                passed_over: Vec::new(),
            });
            return Ok(());
        }
        self.reply(&View { parts: vec![Part::Text(view.words.clone())], ..view.clone() })
    }
}

fn artifact_prompt(artifact: &Artifact) -> &str {
    use super::json::Value;
    artifact.section("metadata").get("user_prompt").and_then(Value::text).unwrap_or_default()
}

/// Turns one after the other, in as few spans as there are gaps.
fn spans(path: &[u32]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for turn in path {
        match spans.last_mut() {
            Some(span) if span.to + 1 == *turn => span.to = *turn,
            _ => spans.push(Span { from: *turn, to: *turn }),
        }
    }
    spans
}
