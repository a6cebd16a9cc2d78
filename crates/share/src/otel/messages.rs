//! What was said to a model and what it said, in the shapes that there are: as attributes (the present
//! conventions), as events of a span, as one text, and as an attribute for each message.

use std::collections::BTreeMap;

use super::spans::Span;
use crate::tine::{
    json::{Map, Value, map},
    write::canonical,
};

/// One message, whoever wrote it down.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) role: String,
    pub(super) text: String,
    pub(super) thinking: String,
    /// As `.tine` has them: `id`, `name`, `arguments`.
    pub(super) calls: Vec<Map>,
    /// Answers to calls, by the call's id.
    pub(super) results: Vec<(String, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Asked,
    Said,
}

/// The events of the conventions that hold all messages of a call as the attributes do.
const DETAILS: &str = "gen_ai.client.inference.operation.details";

/// The messages of a span, and the same as they stand there.
pub(super) fn of(span: &Span, side: Side) -> (Vec<Message>, Option<Value>) {
    let (key, classic, role) = match side {
        Side::Asked => ("gen_ai.input.messages", "gen_ai.prompt", "user"),
        Side::Said => ("gen_ai.output.messages", "gen_ai.completion", "assistant"),
    };
    let details = span.events.iter().find(|(name, _)| name == DETAILS);
    let details = details.and_then(|(_, said)| said.get(key));
    for written in [span.attributes.get(key), details].into_iter().flatten() {
        if let Some(list) = list(written) {
            return (list.iter().map(|one| Message::of(one, role)).collect(), Some(list.into()));
        }
    }
    let events = events(span, side);
    if !events.is_empty() {
        return (events, None);
    }
    let content = span.events.iter().find_map(|(_, said)| said.get(classic));
    if let Some(written) = span.attributes.get(classic).or(content) {
        let messages = match list(written) {
            Some(list) => list.iter().map(|one| Message::of(one, role)).collect(),
            None => vec![Message::of(written, role)],
        };
        return (messages, Some(written.clone()));
    }
    (flattened(span, classic, role), None)
}

/// What the model was told to be.
pub(super) fn system(span: &Span, asked: &[Message]) -> Option<String> {
    let written = span.attributes.get("gen_ai.system_instructions");
    let written = written.and_then(|written| list(written).map(|parts| text_of(&parts)));
    let said = || asked.iter().find(|one| one.role == "system").map(|one| one.text.clone());
    written.or_else(said).filter(|text| !text.is_empty())
}

/// A list, also one that is written as text.
fn list(value: &Value) -> Option<Vec<Value>> {
    match value {
        Value::List(list) => Some(list.clone()),
        Value::Text(text) => match Value::read_compact(text.as_bytes()) {
            Ok(Value::List(list)) => Some(list),
            _ => None,
        },
        _ => None,
    }
}

fn events(span: &Span, side: Side) -> Vec<Message> {
    let mut found = Vec::new();
    for (name, said) in &span.events {
        let role = match (side, name.as_str()) {
            (Side::Asked, "gen_ai.system.message") => "system",
            (Side::Asked, "gen_ai.user.message") => "user",
            (Side::Asked, "gen_ai.assistant.message") | (Side::Said, "gen_ai.choice") => {
                "assistant"
            }
            (Side::Asked, "gen_ai.tool.message") => "tool",
            _ => continue,
        };
        let inner = said.get("message").or(said.get("gen_ai.event.content"));
        let inner = inner.map(|inner| match inner {
            Value::Text(text) => Value::read_compact(text.as_bytes()).unwrap_or(inner.clone()),
            other => other.clone(),
        });
        let whole = || Value::Map(said.clone());
        found.push(Message::of(&inner.unwrap_or_else(whole), role));
    }
    found
}

/// `gen_ai.prompt.0.role`, `gen_ai.prompt.0.content` and so on.
fn flattened(span: &Span, prefix: &str, role: &str) -> Vec<Message> {
    let mut found: BTreeMap<u32, Map> = BTreeMap::new();
    for (key, value) in &span.attributes {
        let rest = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.'));
        let Some((at, field)) = rest.and_then(|rest| rest.split_once('.')) else { continue };
        let Ok(at) = at.parse::<u32>() else { continue };
        found.entry(at).or_default().insert(field.to_owned(), value.clone());
    }
    found.into_values().map(|message| Message::of(&message.into(), role)).collect()
}

impl Message {
    fn of(value: &Value, role: &str) -> Self {
        let said = |key: &str| value.get(key);
        let text = |key: &str| said(key).and_then(Value::text).filter(|text| !text.is_empty());
        let mut message = Self {
            role: text("role").unwrap_or(role).to_owned(),
            text: value.text().unwrap_or_default().to_owned(),
            ..Self::default()
        };
        for content in [said("parts"), said("content")].into_iter().flatten() {
            match content {
                Value::List(parts) => parts.iter().for_each(|part| message.part(part)),
                Value::Null => {}
                other => message.add(&words(other)),
            }
        }
        let calls = said("tool_calls").and_then(list).unwrap_or_default();
        message.calls.extend(calls.iter().map(call));
        if message.role == "tool" && message.results.is_empty() {
            let id = text("tool_call_id").or(text("id")).unwrap_or_default();
            message.results.push((id.to_owned(), std::mem::take(&mut message.text)));
        }
        message
    }

    /// Whether nobody could tell it from nothing.
    pub(super) fn is_silent(&self) -> bool {
        self.text.trim().is_empty() && self.calls.is_empty()
    }

    fn part(&mut self, part: &Value) {
        let said = |key: &str| part.get(key);
        let content = || ["content", "text", "thinking"].iter().find_map(|key| said(key));
        match said("type").and_then(Value::text) {
            Some("tool_call" | "tool_use") => self.calls.push(call(part)),
            Some("tool_call_response" | "tool_result") => {
                let id = ["id", "tool_use_id"].iter().find_map(|key| said(key)?.text());
                let answer = ["response", "result", "content"].iter().find_map(|key| said(key));
                let id = id.unwrap_or_default().to_owned();
                self.results.push((id, answer.map(words).unwrap_or_default()));
            }
            Some("reasoning" | "thinking") => {
                self.thinking.push_str(&content().map(words).unwrap_or_default());
            }
            // Pictures and the like have no words.
            _ => self.add(content().or(Some(part)).and_then(Value::text).unwrap_or_default()),
        }
    }

    fn add(&mut self, words: &str) {
        if !self.text.is_empty() && !words.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(words);
    }
}

/// A call, also one that has its name and arguments in a `function`.
fn call(call: &Value) -> Map {
    let inner = call.get("function").unwrap_or(call);
    let none = || Value::Map(Map::new());
    let arguments = ["arguments", "input"].iter().find_map(|key| inner.get(key)).cloned();
    map([
        ("id", call.get("id").cloned().unwrap_or_else(|| "".into())),
        ("name", inner.get("name").cloned().unwrap_or_else(|| "tool".into())),
        ("arguments", arguments.unwrap_or_else(none)),
    ])
}

fn text_of(parts: &[Value]) -> String {
    let mut message = Message::default();
    parts.iter().for_each(|part| message.part(part));
    message.text
}

/// A value as words.
pub(super) fn words(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Null => String::new(),
        other => canonical(other),
    }
}
