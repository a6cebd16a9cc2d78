//! One step of an artifact in our words, whoever wrote it.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use segue_core::{
    event::ToolStatus,
    steps::StepKind,
    usage::{Micros, Usage},
};

use crate::tine::{
    artifact::Artifact,
    json::{Map, Value},
    told::{OURS, status_word},
    write::canonical,
};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    Thinking { text: String, signature: Option<String> },
    Call { id: String, name: String, input: String },
}

#[derive(Clone, Debug)]
pub(super) struct ToolResult {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) status: ToolStatus,
    pub(super) exit: Option<i32>,
    pub(super) output: String,
    pub(super) touched: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) id: String,
    pub(super) parents: Vec<String>,
    pub(super) kind: StepKind,
    pub(super) agent: Option<String>,
    pub(super) turn: Option<u32>,
    /// It happened while no turn was under way.
    pub(super) outside: bool,
    pub(super) model: String,
    pub(super) words: String,
    pub(super) parts: Vec<Part>,
    pub(super) result: Option<ToolResult>,
    pub(super) usage: Usage,
    pub(super) cost: Option<Micros>,
    pub(super) began: Timestamp,
    pub(super) at: Timestamp,
}

/// What the transcript says that the graph does not.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    /// What a person said before a step, and after all of them.
    before: HashMap<String, Vec<String>>,
    last: Vec<String>,
    /// Which call a step answers.
    calls: HashMap<String, String>,
}

impl Transcript {
    pub(super) fn of(artifact: &Artifact) -> Self {
        let mut transcript = Self::default();
        let known: HashSet<&str> = artifact.steps().map(|(id, _)| id).collect();
        let items = artifact.run.get("transcript").and_then(Value::list).unwrap_or_default();
        let mut waiting = Vec::new();
        for item in items.iter().filter_map(Value::map) {
            let said = |key: &str| item.get(key).and_then(Value::text);
            match said("step_id").filter(|id| known.contains(id)) {
                Some(id) => {
                    if !waiting.is_empty() {
                        transcript.before.insert(id.to_owned(), std::mem::take(&mut waiting));
                    }
                    if let Some(call) = said("tool_call_id") {
                        transcript.calls.insert(id.to_owned(), call.to_owned());
                    }
                }
                None if said("role") == Some("user") => {
                    waiting.push(item.get("content").map(words_of).unwrap_or_default());
                }
                None => {}
            }
        }
        transcript.last = waiting;
        transcript
    }

    pub(super) fn before(&self, id: &str) -> &[String] {
        self.before.get(id).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn after_all(&self) -> &[String] {
        &self.last
    }
}

impl View {
    /// Every step, with the calls that its answers need.
    pub(super) fn all(
        artifact: &Artifact,
        transcript: &Transcript,
        created: Timestamp,
    ) -> Vec<Self> {
        let steps = artifact.steps().enumerate();
        let mut views: Vec<Self> =
            steps.map(|(at, (id, step))| Self::of(at, id, step, transcript, created)).collect();
        let mut reply: Option<usize> = None;
        let mut open: Vec<(String, String)> = Vec::new();
        for at in 0..views.len() {
            match views[at].kind {
                StepKind::Reply => {
                    let calls = views[at].parts.iter().filter_map(|part| match part {
                        Part::Call { id, name, .. } => Some((id.clone(), name.clone())),
                        _ => None,
                    });
                    open = calls.collect();
                    // Whoever has no calls may have left them out.
                    reply = open.is_empty().then_some(at);
                }
                StepKind::Tool => {
                    let asked = views[at].words.clone();
                    let Some(result) = views[at].result.as_mut() else { continue };
                    let same = |(id, _): &(String, String)| *id == result.id;
                    let named = |(_, name): &(String, String)| *name == result.name;
                    let found = open.iter().position(same).or_else(|| open.iter().position(named));
                    match (found, reply) {
                        (Some(found), _) => result.id = open.remove(found).0,
                        (None, Some(reply)) => {
                            let (id, name) = (result.id.clone(), result.name.clone());
                            views[reply].parts.push(Part::Call { id, name, input: asked });
                        }
                        (None, None) => {}
                    }
                }
                StepKind::Error => {}
                _ => reply = None,
            }
        }
        for view in views.iter_mut().filter(|view| view.kind == StepKind::Reply) {
            // A reply that said nothing is still one.
            if view.parts.is_empty() {
                view.parts.push(Part::Text(String::new()));
            }
        }
        views
    }

    fn of(index: usize, id: &str, step: &Map, transcript: &Transcript, created: Timestamp) -> Self {
        let none = Map::new();
        let section = |key: &str| step.get(key).and_then(Value::map).unwrap_or(&none);
        let ours = section("outputs").get(OURS).and_then(Value::map);
        let said = |key: &str| ours.and_then(|ours| ours.get(key));
        let kind = kind(step, said("kind").and_then(Value::text));
        let at = step.get("timestamp").and_then(Value::float).and_then(time).unwrap_or(created);
        let lasted = step.get("duration").and_then(Value::float).unwrap_or_default();
        let began = began(at, lasted);
        let dollars = step.get("cost").and_then(Value::float).unwrap_or_default();
        let priced = dollars > 0.0 || said("priced").is_some_and(Value::is_true);
        let mut view = Self {
            id: id.to_owned(),
            parents: parents(step),
            kind,
            agent: said("agent").and_then(Value::text).map(str::to_owned),
            turn: said("turn").and_then(Value::count).and_then(|turn| u32::try_from(turn).ok()),
            outside: ours.is_some() && said("turn").is_none(),
            model: step.get("model_info").and_then(Value::text).unwrap_or_default().to_owned(),
            words: words(section("inputs"), section("outputs"), section("error"), kind),
            parts: Vec::new(),
            result: None,
            usage: usage(section("usage")),
            cost: priced.then(|| Micros::from_dollars(dollars)),
            began,
            at,
        };
        match kind {
            StepKind::Reply => view.parts = parts(index, &view.words, section("outputs"), ours),
            StepKind::Tool | StepKind::Proof => {
                let call = transcript.calls.get(id).cloned();
                view.words = input(section("inputs"));
                view.result = Some(result(index, step, ours, call));
            }
            _ => {}
        }
        view
    }
}

fn kind(step: &Map, ours: Option<&str>) -> StepKind {
    let ours = StepKind::ALL.into_iter().find(|kind| Some(kind.word()) == ours);
    let said = |key: &str| step.get(key).and_then(Value::text);
    ours.unwrap_or(match (said("v3_kind"), said("kind")) {
        (Some("human"), _) => StepKind::Prompt,
        (_, Some("tool")) => StepKind::Tool,
        (_, Some("error")) => StepKind::Error,
        _ => StepKind::Reply,
    })
}

fn parents(step: &Map) -> Vec<String> {
    let parents = step.get("parent_ids").and_then(Value::list).unwrap_or_default();
    let one = step.get("parent_id").filter(|_| parents.is_empty());
    parents.iter().chain(one).filter_map(Value::text).map(str::to_owned).collect()
}

/// What a step says, wherever it says it.
fn words(inputs: &Map, outputs: &Map, error: &Map, kind: StepKind) -> String {
    if kind == StepKind::Error
        && let Some(Value::Text(message)) = error.get("message")
    {
        return message.clone();
    }
    let places = ["text", "prompt", "content", "message", "error"];
    let found = [outputs, inputs]
        .into_iter()
        .flat_map(|section| places.iter().map(move |key| section.get(*key)));
    // What the other implementation's own agent says stands in its inputs.
    let first = inputs.get("text").and_then(Value::text).filter(|text| !text.is_empty());
    if let Some(text) = first.or_else(|| found.flatten().find_map(Value::text)) {
        return text.to_owned();
    }
    let known = ["tool_calls", "thinking", "reasoning_content", OURS];
    let other = [inputs, outputs]
        .into_iter()
        .flatten()
        .filter(|(key, _)| !known.contains(&key.as_str()) && *key != "text");
    let other: Map = other.map(|(key, value)| (key.clone(), value.clone())).collect();
    match other.is_empty() {
        true => String::new(),
        false => canonical(&Value::Map(other)),
    }
}

fn parts(index: usize, words: &str, outputs: &Map, ours: Option<&Map>) -> Vec<Part> {
    let calls = outputs.get("tool_calls").and_then(Value::list).unwrap_or_default();
    let call = |at: usize| {
        let call = calls.get(at)?.map()?;
        let said = |key: &str| call.get(key).and_then(Value::text).filter(|text| !text.is_empty());
        Some(Part::Call {
            id: said("id").map_or_else(|| format!("tine-{index}-{at}"), str::to_owned),
            name: said("name").unwrap_or("tool").to_owned(),
            input: input(call),
        })
    };
    if let Some(told) = ours.and_then(|ours| ours.get("parts")).and_then(Value::list) {
        let part = |part: &Value| {
            let said = |key: &str| part.get(key).and_then(Value::text).map(str::to_owned);
            match (said("text"), said("thinking"), part.get("call").and_then(Value::count)) {
                (Some(text), ..) => Some(Part::Text(text)),
                (_, Some(text), _) => Some(Part::Thinking { text, signature: said("signature") }),
                (_, _, Some(at)) => call(usize::try_from(at).ok()?),
                _ => None,
            }
        };
        return told.iter().filter_map(part).collect();
    }
    let mut parts = Vec::new();
    let thought = outputs.get("thinking").or(outputs.get("reasoning_content"));
    if let Some(text) = thought.map(words_of).filter(|text| !text.is_empty()) {
        parts.push(Part::Thinking { text, signature: None });
    }
    if !words.is_empty() {
        parts.push(Part::Text(words.to_owned()));
    }
    parts.extend((0..calls.len()).filter_map(call));
    parts
}

/// What a call was made with: word for word where that is known.
fn input(call: &Map) -> String {
    match (call.get("input"), call.get("arguments")) {
        (Some(Value::Text(input)), _) | (None, Some(Value::Text(input))) => input.clone(),
        (_, Some(arguments)) => canonical(arguments),
        _ => "{}".to_owned(),
    }
}

fn result(index: usize, step: &Map, ours: Option<&Map>, call: Option<String>) -> ToolResult {
    let said = |key: &str| ours.and_then(|ours| ours.get(key));
    let section = |key: &str| step.get(key).and_then(Value::map);
    let name = |key: &str| section(key)?.get("name")?.text().map(str::to_owned);
    let failed = section("error").is_some_and(|error| !error.is_empty());
    let status = said("status").and_then(Value::text);
    let all = [
        ToolStatus::Done,
        ToolStatus::Failed,
        ToolStatus::Interrupted,
        ToolStatus::MayHaveRun,
        ToolStatus::NotRun,
        ToolStatus::Unknown,
    ];
    let status = all.into_iter().find(|one| Some(status_word(*one)) == status);
    let outputs = section("outputs").cloned().unwrap_or_default();
    let output = match outputs.get("result").or(outputs.get("output")) {
        Some(result) => words_of(result),
        None if outputs.is_empty() => String::new(),
        None => canonical(&Value::Map(outputs)),
    };
    let touched = said("touched").and_then(Value::list).unwrap_or_default();
    ToolResult {
        id: said("call")
            .and_then(Value::text)
            .map(str::to_owned)
            .or(call.filter(|call| !call.is_empty()))
            .unwrap_or_else(|| format!("tine-{index}")),
        name: name("inputs").or(name("tool_info")).unwrap_or_else(|| "tool".to_owned()),
        status: status.unwrap_or(if failed { ToolStatus::Failed } else { ToolStatus::Done }),
        exit: said("exit").and_then(Value::float).map(|exit| exit as i32),
        output,
        touched: touched.iter().filter_map(Value::text).map(str::to_owned).collect(),
    }
}

fn words_of(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Null => String::new(),
        other => canonical(other),
    }
}

fn usage(usage: &Map) -> Usage {
    let count = |key: &str| usage.get(key).and_then(Value::count).unwrap_or_default();
    Usage {
        input: count("input"),
        output: count("output"),
        cache_read: count("cache_read"),
        cache_write: count("cache_write_5m").saturating_add(count("cache_write_1h")),
        reasoning: count("reasoning"),
    }
}

/// To the millisecond, as a journal has it.
pub(in crate::tine) fn time(seconds: f64) -> Option<Timestamp> {
    Timestamp::from_millisecond((seconds * 1e3).round() as i64).ok()
}

fn began(at: Timestamp, seconds: f64) -> Timestamp {
    let lasted = SignedDuration::from_millis((seconds.clamp(0.0, 1e9) * 1e3).round() as i64);
    at.checked_sub(lasted).unwrap_or(at)
}
