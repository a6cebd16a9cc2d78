//! A session as an artifact: every step of its graph, what the model was told last, what it says of
//! itself.
//!
//! A step is told in the other implementation's words, so that it shows and compares it. What has
//! no word there stands in `outputs.segue`, so that nothing is lost on the way back:
//!
//! ```text
//! {"kind": "tool", "turn": 3, "agent": "native", "status": "failed", "exit": 1, …}
//! ```

use jiff::Timestamp;
use segue_core::{
    State,
    event::ToolStatus,
    identity::{How, Identity, Mode},
    payload::Payload,
    status::Status,
    steps::{Said, Step, StepId, StepKind},
    usage::Usage,
};
use segue_journal::Session;
use std::collections::HashMap;

use super::{
    artifact::{Artifact, step_id},
    json::{MAX_DEPTH, Map, Value, map},
    write::canonical,
};
use crate::error::{Error, Result};

/// The name of the field that holds what has no word there.
pub(super) const OURS: &str = "segue";
/// Segue's own agent: the one whose conversation is in the journal.
pub(super) const NATIVE: &str = "native";

/// What a file with this many tokens says at most.
const MAX_COUNT: u64 = (1 << 53) - 1;

/// The artifact of a session.
pub(crate) fn tell(session: &Session) -> Result<Artifact> {
    let damaged = |problem: &str| Error::Damaged {
        dir: session.dir().to_owned(),
        problem: problem.to_owned(),
    };
    let identity = session.state().identity.as_ref();
    let identity = identity.ok_or_else(|| damaged("it can't be read"))?;
    let mut teller = Teller { session, ..Teller::new(session) };
    let mut trouble = None;
    session.told(|step, mark| {
        if trouble.is_none() {
            trouble = teller.step(&step, mark.turn).err();
        }
    })?;
    if let Some(error) = trouble {
        return Err(error);
    }
    let run = teller.finish(identity)?;
    Artifact::new(run).map_err(|error| damaged(&error.to_string()))
}

struct Teller<'a> {
    session: &'a Session,
    ids: HashMap<StepId, String>,
    order: Vec<String>,
    steps: Map,
    transcript: Vec<Value>,
    refs: Map,
    model: String,
    /// Steps of the session that it begins with, without what was left behind there; or those that
    /// were answered from a recording.
    reused: u64,
}

/// How many steps of a session are from the recording that it was answered by, as far as it has come.
fn answered(state: &State) -> Option<u64> {
    let lineage = state.identity.as_ref()?.lineage.as_ref()?;
    lineage.recording.as_ref()?;
    Some(state.replay.as_ref().map_or(u64::MAX, |ended| ended.step))
}

impl<'a> Teller<'a> {
    fn new(session: &'a Session) -> Self {
        Self {
            session,
            ids: HashMap::new(),
            order: Vec::new(),
            steps: Map::new(),
            transcript: Vec::new(),
            refs: Map::new(),
            model: session.state().model().unwrap_or_default().to_owned(),
            reused: 0,
        }
    }

    fn text(&self, payload: &Payload) -> Result<String> {
        Ok(self.session.text(payload)?)
    }

    /// One more step, and the turn of the conversation that it belongs to or comes after.
    fn step(&mut self, step: &Step, turn: u32) -> Result<()> {
        let mut told = self.told(step)?;
        let parents: Vec<String> =
            step.parents.iter().filter_map(|id| self.ids.get(id).cloned()).collect();
        told.insert("parent_ids".to_owned(), parents.into());
        let mut id = step_id(&told);
        if self.steps.contains_key(&id) {
            // Two that say the same from the same place are still two.
            if let Some(ours) = ours(&mut told) {
                ours.insert("index".to_owned(), step.index.into());
            }
            id = step_id(&told);
        }
        told.insert("id".to_owned(), id.as_str().into());
        let state = self.session.state();
        let base = state.base();
        let begins = base.is_some_and(|base| step.index < base.steps && base.has_turn(turn));
        if begins || answered(state).is_some_and(|until| step.index < until) {
            self.reused += 1;
        }
        if state.on_path(turn) {
            self.say(step, &told, &id);
            if step.whole {
                self.refs.insert("main".to_owned(), id.as_str().into());
            }
        }
        if base.is_some_and(|base| base.steps == step.index + 1) {
            self.refs.insert("fork_point".to_owned(), id.as_str().into());
        }
        if let Some(model) = &step.model {
            self.model.clone_from(model);
        }
        self.ids.insert(step.id, id.clone());
        self.order.push(id.clone());
        self.steps.insert(id, told.into());
        Ok(())
    }

    /// A step without its parents and its id.
    fn told(&self, step: &Step) -> Result<Map> {
        let mut told = map([
            ("cost", step.cost.unwrap_or_default().dollars().into()),
            ("duration", (step.millis() as f64 / 1e3).into()),
            ("error", Map::new().into()),
            ("inputs", Map::new().into()),
            ("kind", "model".into()),
            ("model_info", step.model.clone().unwrap_or_default().into()),
            ("outputs", Map::new().into()),
            ("timestamp", seconds(step.at).into()),
            ("tool_info", Map::new().into()),
        ]);
        if step.usage != Usage::default() {
            told.insert("usage".to_owned(), usage(step.usage).into());
        }
        let mut ours = map([("kind", step.kind.word().into())]);
        if step.turn > 0 {
            ours.insert("turn".to_owned(), u64::from(step.turn).into());
        }
        if let Some(agent) = &step.agent {
            ours.insert("agent".to_owned(), agent.as_str().into());
        }
        if step.cost.is_some() {
            ours.insert("priced".to_owned(), true.into());
        }
        let mut outputs = Map::new();
        match step.kind {
            StepKind::Prompt | StepKind::Verdict | StepKind::HandOff | StepKind::Error => {
                self.words(step, &mut told)?;
            }
            StepKind::Reply => self.reply(step, &mut told, &mut outputs, &mut ours)?,
            StepKind::Tool | StepKind::Proof => {
                self.result(step, &mut told, &mut outputs, &mut ours)?;
            }
        }
        outputs.insert(OURS.to_owned(), ours.into());
        told.insert("outputs".to_owned(), outputs.into());
        Ok(told)
    }

    fn words(&self, step: &Step, told: &mut Map) -> Result<()> {
        let mut words = String::new();
        for said in &step.said {
            if let Said::Text(text) = said {
                words.push_str(&self.text(text)?);
            }
        }
        if step.kind == StepKind::Error {
            told.insert("kind".to_owned(), "error".into());
            told.insert("error".to_owned(), map([("message", words.as_str().into())]).into());
        }
        let kind = match step.kind {
            StepKind::Prompt => Some("human"),
            StepKind::Verdict => Some("approval"),
            StepKind::HandOff => Some("policy"),
            _ => None,
        };
        if let Some(kind) = kind {
            told.insert("v3_kind".to_owned(), kind.into());
        }
        told.insert("inputs".to_owned(), map([("text", words.into())]).into());
        Ok(())
    }

    fn reply(&self, step: &Step, told: &mut Map, outputs: &mut Map, ours: &mut Map) -> Result<()> {
        let (mut text, mut thinking) = (String::new(), String::new());
        let (mut calls, mut parts) = (Vec::new(), Vec::new());
        // In this order they are plain; in another one it is told as well.
        let mut plain = true;
        for said in &step.said {
            match said {
                Said::Text(words) => {
                    let words = self.text(words)?;
                    plain &= text.is_empty() && calls.is_empty() && !words.is_empty();
                    text.push_str(&words);
                    parts.push(map([("text", words.into())]));
                }
                Said::Thinking { text: words, signature } => {
                    let words = self.text(words)?;
                    plain &= thinking.is_empty() && text.is_empty() && calls.is_empty();
                    plain &= signature.is_none() && !words.is_empty();
                    thinking.push_str(&words);
                    let mut part = map([("thinking", words.into())]);
                    if let Some(signature) = signature {
                        part.insert("signature".to_owned(), self.text(signature)?.into());
                    }
                    parts.push(part);
                }
                Said::Call { id, name, input } => {
                    let call = call(id, name, &self.text(input)?);
                    parts.push(map([("call", (calls.len() as u64).into())]));
                    calls.push(Value::Map(call));
                }
                Said::Result { .. } => {}
            }
        }
        let kind = match (text.is_empty(), calls.is_empty()) {
            (false, false) => "think",
            (false, true) => "done",
            (true, _) => "model",
        };
        if !plain {
            ours.insert("parts".to_owned(), parts.into());
        }
        told.insert("kind".to_owned(), kind.into());
        told.insert("inputs".to_owned(), map([("text", text.into())]).into());
        if !thinking.is_empty() {
            outputs.insert("thinking".to_owned(), thinking.into());
        }
        if !calls.is_empty() {
            outputs.insert("tool_calls".to_owned(), Value::List(calls));
        }
        Ok(())
    }

    fn result(&self, step: &Step, told: &mut Map, outputs: &mut Map, ours: &mut Map) -> Result<()> {
        let Some(Said::Result { id, name, input, status, exit, output, touched }) =
            step.said.first()
        else {
            return Ok(());
        };
        let shown = if step.kind == StepKind::Proof { "proof" } else { name.as_str() };
        let mut inputs = map([("name", shown.into())]);
        match input {
            Some(input) => {
                let mut call = call(id, name, &self.text(input)?);
                inputs.insert(
                    "arguments".to_owned(),
                    call.remove("arguments").unwrap_or(Value::Null),
                );
            }
            None => drop(inputs.insert("arguments".to_owned(), Map::new().into())),
        }
        let output = self.text(output)?;
        if !id.is_empty() {
            ours.insert("call".to_owned(), id.as_str().into());
        }
        ours.insert("status".to_owned(), status_word(*status).into());
        if let Some(exit) = exit {
            ours.insert("exit".to_owned(), i64::from(*exit).into());
        }
        if !touched.is_empty() {
            ours.insert("touched".to_owned(), touched.clone().into());
        }
        if step.kind == StepKind::Proof {
            told.insert("v3_kind".to_owned(), "policy".into());
        }
        told.insert("kind".to_owned(), "tool".into());
        told.insert("inputs".to_owned(), inputs.into());
        told.insert("tool_info".to_owned(), map([("name", shown.into())]).into());
        outputs.insert("result".to_owned(), output.into());
        Ok(())
    }

    /// A step as a message of the conversation, where it is one.
    fn say(&mut self, step: &Step, told: &Map, id: &str) {
        let said = |section: &str, key: &str| {
            told.get(section).and_then(|section| section.get(key)).cloned()
        };
        let words = said("inputs", "text").unwrap_or_else(|| "".into());
        let mut message = map([("step_id", id.into())]);
        match step.kind {
            StepKind::Prompt => {
                message.extend(map([("role", "user".into()), ("content", words)]));
            }
            StepKind::Reply => {
                message.extend(map([("role", "assistant".into()), ("content", words)]));
                if let Some(calls) = said("outputs", "tool_calls") {
                    message.insert("tool_calls".to_owned(), calls);
                }
            }
            StepKind::Tool => {
                let Some(Said::Result { id, name, .. }) = step.said.first() else { return };
                message.extend(map([
                    ("role", "tool".into()),
                    ("content", said("outputs", "result").unwrap_or_else(|| "".into())),
                    ("name", name.as_str().into()),
                    ("tool_call_id", id.as_str().into()),
                ]));
            }
            _ => return,
        }
        self.transcript.push(message.into());
    }

    fn finish(self, identity: &Identity) -> Result<Map> {
        let state = self.session.state();
        let agent = state.agent().to_owned();
        let resume = agent == NATIVE && !identity.sealed;
        let manifest = map([
            ("kind", OURS.into()),
            ("agent", agent.into()),
            ("model", map([("name", self.model.as_str().into())]).into()),
            ("replay", vec!["cache", "rerun"].into()),
            ("resume", resume.into()),
        ]);
        let mut ours = map([("session", identity.id.to_string().into())]);
        if let Some(name) = &state.name {
            ours.insert("name".to_owned(), name.as_str().into());
        }
        let mut metadata = map([
            ("model_info", self.model.into()),
            ("system_prompt", "".into()),
            ("user_prompt", self.session.text(&identity.prompt)?.into()),
        ]);
        if let Some(lineage) = &identity.lineage {
            let from = Value::Text(lineage.from.to_string());
            if lineage.how == How::Replayed {
                // To the other implementation, one that is answered from a recording is cached, too.
                let rerun = lineage.mode == Some(Mode::Rerun);
                let replay = map([
                    ("mode", if rerun { "rerun" } else { "cache" }.into()),
                    ("reused_steps", self.reused.into()),
                    ("source_run", from.clone()),
                ]);
                metadata.insert("replay".to_owned(), replay.into());
            }
            metadata.insert("forked_from".to_owned(), from);
        }
        metadata.insert(OURS.to_owned(), ours.into());
        Ok(map([
            ("cache", Map::new().into()),
            ("created_at", seconds(identity.created_at).into()),
            ("format_version", super::artifact::VERSION.into()),
            ("graph", map([("order", self.order.into()), ("steps", self.steps.into())]).into()),
            ("manifest", manifest.into()),
            ("metadata", metadata.into()),
            ("policies", Map::new().into()),
            ("refs", self.refs.into()),
            ("run_id", identity.id.to_string().into()),
            ("status", status(Status::of(state, false)).into()),
            ("transcript", Value::List(self.transcript)),
        ]))
    }
}

fn ours(told: &mut Map) -> Option<&mut Map> {
    let Value::Map(outputs) = told.get_mut("outputs")? else { return None };
    let Value::Map(ours) = outputs.get_mut(OURS)? else { return None };
    Some(ours)
}

/// How deep the input of a call may be for the whole document not to be too deep.
const DEEPEST: usize = MAX_DEPTH - 12;

/// A call. Where its input is not written as the canonical form has it, it is told word for word.
fn call(id: &str, name: &str, input: &str) -> Map {
    let mut call = map([("id", id.into()), ("name", name.into())]);
    let value = Value::read(input.as_bytes()).ok();
    let value = value.filter(|value| value.map().is_some() && value.depth() <= DEEPEST);
    let verbatim = value.as_ref().is_none_or(|value| canonical(value) != input);
    call.insert("arguments".to_owned(), value.unwrap_or_else(|| Map::new().into()));
    if verbatim {
        call.insert("input".to_owned(), input.into());
    }
    call
}

fn usage(usage: Usage) -> Map {
    let buckets = [
        ("input", usage.input),
        ("output", usage.output),
        ("cache_read", usage.cache_read),
        ("cache_write_5m", usage.cache_write),
        ("reasoning", usage.reasoning),
    ];
    let told = buckets.into_iter().filter(|(_, count)| *count > 0);
    told.map(|(name, count)| (name.to_owned(), count.min(MAX_COUNT).into())).collect()
}

fn seconds(at: Timestamp) -> f64 {
    at.as_millisecond() as f64 / 1e3
}

/// The other implementation has four words.
fn status(status: Status) -> &'static str {
    match status {
        Status::Completed => "completed",
        Status::Failed | Status::Looping | Status::NoCase | Status::Empty | Status::Discarded => {
            "failed"
        }
        Status::Running => "running",
        _ => "paused",
    }
}

pub(super) fn status_word(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Done => "done",
        ToolStatus::Failed => "failed",
        ToolStatus::Interrupted => "interrupted",
        ToolStatus::MayHaveRun => "may_have_run",
        ToolStatus::NotRun => "not_run",
        ToolStatus::Unknown => "unknown",
    }
}
