//! Runs as OpenTelemetry spans (OTLP/JSON) with the conventions for generative AI, and back.
//!
//! ```text
//! invoke_agent                    the run
//! ├── chat MODEL                  a reply
//! └── execute_tool NAME           what a call gave
//! ```
//!
//! Each span of ours also has its step word for word (`segue.step`), and the first one the rest of
//! the run (`segue.run`), so that it comes back as it was. Spans of others become the steps that
//! they tell of (`theirs`).

mod messages;
mod spans;
mod steps;
#[cfg(test)]
mod tests;
mod theirs;

use ring::digest::{SHA256, digest};

use self::spans::Span;
use crate::tine::{
    Artifact,
    artifact::hex,
    json::{Map, Value, map},
    write::{canonical, pretty},
};

const STEP: &str = "segue.step";
const RUN: &str = "segue.run";
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.37.0";

/// The document of an artifact.
pub(crate) fn document(artifact: &Artifact) -> String {
    let trace = short(artifact.run_id(), 32);
    let root = short(&format!("{} run", artifact.run_id()), 16);
    let mut first = artifact.source.clone();
    let mut steps = Map::new();
    if let Some(Value::Map(graph)) = first.get_mut("graph")
        && let Some(Value::Map(told)) = graph.insert("steps".to_owned(), Map::new().into())
    {
        steps = told;
    }
    let time = |step: &Map| step.get("timestamp").and_then(Value::float).unwrap_or_default();
    let (mut from, mut to) = (f64::MAX, 0f64);
    let mut spans = Vec::new();
    for (id, step) in artifact.steps() {
        let lasted = step.get("duration").and_then(Value::float).unwrap_or_default();
        from = from.min(time(step) - lasted);
        to = to.max(time(step));
        let verbatim = steps.get(id);
        spans.push(span(step, verbatim, &trace, &root, id, lasted));
    }
    let created = artifact.run.get("created_at").and_then(Value::float).unwrap_or_default();
    let model = artifact.section("metadata").get("model_info").and_then(Value::text);
    let attributes = [
        ("gen_ai.operation.name", "invoke_agent".into()),
        ("gen_ai.agent.name", "segue".into()),
        ("gen_ai.conversation.id", artifact.run_id().into()),
        ("gen_ai.request.model", model.unwrap_or_default().into()),
        (RUN, canonical(&Value::Map(first)).into()),
    ];
    let mut run = map([
        ("name", "invoke_agent segue".into()),
        ("kind", 1u64.into()),
        ("traceId", trace.into()),
        ("spanId", root.into()),
        ("startTimeUnixNano", nanos(from.min(created)).into()),
        ("endTimeUnixNano", nanos(to.max(created)).into()),
        ("attributes", encode(attributes)),
    ]);
    if artifact.status() == "failed" {
        run.insert("status".to_owned(), map([("code", 2u64.into())]).into());
    }
    spans.insert(0, Value::Map(run));
    let scope = map([("name", "segue".into()), ("version", env!("CARGO_PKG_VERSION").into())]);
    let scope_spans =
        map([("scope", scope.into()), ("schemaUrl", SCHEMA.into()), ("spans", Value::List(spans))]);
    let resource = map([("attributes", encode([("service.name", "segue".into())]))]);
    let resource_spans =
        map([("resource", resource.into()), ("scopeSpans", vec![scope_spans].into())]);
    let mut text = pretty(&map([("resourceSpans", vec![resource_spans].into())]).into());
    text.push('\n');
    text
}

fn span(
    step: &Map,
    verbatim: Option<&Value>,
    trace: &str,
    root: &str,
    id: &str,
    lasted: f64,
) -> Value {
    let said = |section: &str, key: &str| step.get(section).and_then(|section| section.get(key));
    let text = |key: &str| step.get(key).and_then(Value::text).unwrap_or_default();
    let at = step.get("timestamp").and_then(Value::float).unwrap_or_default();
    let mut attributes = Vec::new();
    let words = said("inputs", "text").and_then(Value::text).unwrap_or_default();
    let (name, kind) = match (text("kind"), text("v3_kind")) {
        ("tool", _) => {
            let tool = said("inputs", "name").and_then(Value::text).unwrap_or("tool");
            let none = Value::Map(Map::new());
            let arguments = canonical(said("inputs", "arguments").unwrap_or(&none));
            let result = said("outputs", "result").map(|result| match result {
                Value::Text(text) => text.clone(),
                other => canonical(other),
            });
            attributes.push(("gen_ai.operation.name", "execute_tool".into()));
            attributes.push(("gen_ai.tool.name", tool.into()));
            attributes.push(("gen_ai.tool.call.arguments", arguments.into()));
            attributes.push(("gen_ai.tool.call.result", result.unwrap_or_default().into()));
            (format!("execute_tool {tool}"), 1u64)
        }
        (_, "human") => {
            attributes.push(("gen_ai.input.messages", messages("user", words, None)));
            ("prompt".to_owned(), 1)
        }
        _ => {
            let model = text("model_info");
            let calls = said("outputs", "tool_calls");
            attributes.push(("gen_ai.operation.name", "chat".into()));
            attributes.push(("gen_ai.response.model", model.into()));
            attributes.push(("gen_ai.output.messages", messages("assistant", words, calls)));
            (format!("chat {model}"), 3)
        }
    };
    attributes.extend(usage(step));
    if let Some(verbatim) = verbatim {
        attributes.push((STEP, canonical(verbatim).into()));
    }
    let parent = step.get("parent_ids").and_then(Value::list).and_then(<[Value]>::last);
    let parent = parent.and_then(Value::text).map_or_else(|| root.to_owned(), |id| short(id, 16));
    let mut span = map([
        ("name", name.trim_end().into()),
        ("kind", kind.into()),
        ("traceId", trace.into()),
        ("spanId", short(id, 16).into()),
        ("parentSpanId", parent.into()),
        ("startTimeUnixNano", nanos(at - lasted).into()),
        ("endTimeUnixNano", nanos(at).into()),
        ("attributes", encode(attributes)),
    ]);
    if text("kind") == "error" {
        span.insert("status".to_owned(), map([("code", 2u64.into())]).into());
    }
    span.into()
}

/// Messages as the conventions have them, written as JSON.
fn messages(role: &str, words: &str, calls: Option<&Value>) -> Value {
    let mut parts = vec![Value::Map(map([("type", "text".into()), ("content", words.into())]))];
    for call in calls.and_then(Value::list).unwrap_or_default() {
        let said = |key: &str| call.get(key).cloned().unwrap_or(Value::Null);
        parts.push(Value::Map(map([
            ("type", "tool_call".into()),
            ("id", said("id")),
            ("name", said("name")),
            ("arguments", said("arguments")),
        ])));
    }
    let message = map([("role", role.into()), ("parts", Value::List(parts))]);
    canonical(&vec![message].into()).into()
}

/// Totals with their parts, as the conventions count.
fn usage(step: &Map) -> Vec<(&'static str, Value)> {
    let Some(usage) = step.get("usage").and_then(Value::map) else { return Vec::new() };
    let count = |key: &str| usage.get(key).and_then(Value::count).unwrap_or_default();
    let write = count("cache_write_5m").saturating_add(count("cache_write_1h"));
    let input = count("input").saturating_add(count("cache_read")).saturating_add(write);
    let output = count("output").saturating_add(count("reasoning"));
    vec![
        ("gen_ai.usage.input_tokens", input.into()),
        ("gen_ai.usage.output_tokens", output.into()),
        ("gen_ai.usage.cache_read.input_tokens", count("cache_read").into()),
        ("gen_ai.usage.cache_creation.input_tokens", write.into()),
        ("gen_ai.usage.reasoning.output_tokens", count("reasoning").into()),
    ]
}

fn encode(attributes: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let told = attributes.into_iter().map(|(key, value)| {
        let value = match value {
            Value::Int(digits) => map([("intValue", digits.into())]),
            Value::Bool(is) => map([("boolValue", is.into())]),
            Value::Float(float) => map([("doubleValue", float.into())]),
            Value::Text(text) => map([("stringValue", text.into())]),
            other => map([("stringValue", canonical(&other).into())]),
        };
        Value::Map(map([("key", key.into()), ("value", value.into())]))
    });
    Value::List(told.collect())
}

fn short(name: &str, digits: usize) -> String {
    let mut hex = hex(digest(&SHA256, name.as_bytes()).as_ref());
    hex.truncate(digits);
    hex
}

fn nanos(seconds: f64) -> String {
    // To the microsecond: a fraction has no more of it.
    format!("{}000", (seconds.max(0.0) * 1e6).round() as u64)
}

/// The artifact that spans tell of.
pub(crate) fn artifact(bytes: &[u8]) -> Result<Artifact, String> {
    let spans = Span::all(bytes)?;
    if spans.is_empty() {
        return Err("there are no spans in it".to_owned());
    }
    match ours(&spans)? {
        Some(run) => Artifact::of(run),
        None => Artifact::new(theirs::run(&spans)?),
    }
    .map_err(|error| error.to_string())
}

/// The run that we wrote, word for word.
fn ours(spans: &[Span]) -> Result<Option<Map>, String> {
    let Some(run) = spans.iter().find_map(|span| span.text(RUN)) else { return Ok(None) };
    let read = |text: &str| {
        let value = Value::read_compact(text.as_bytes());
        value.map_err(|error| format!("what Segue wrote into it was changed: {error}"))
    };
    let Value::Map(mut run) = read(run)? else {
        return Err("what Segue wrote into it was changed".to_owned());
    };
    let mut steps = Map::new();
    for step in spans.iter().filter_map(|span| span.text(STEP)) {
        let step = read(step)?;
        let id = step.get("id").and_then(Value::text).map(str::to_owned);
        steps.extend(id.map(|id| (id, step)));
    }
    if let Some(Value::Map(graph)) = run.get_mut("graph") {
        graph.insert("steps".to_owned(), steps.into());
    }
    Ok(Some(run))
}
