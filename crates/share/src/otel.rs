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
//! they tell of.

use std::collections::HashMap;

use ring::digest::{SHA256, digest};

use crate::tine::{
    Artifact,
    artifact::{hex, step_id},
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
    if artifact.version > 0
        && let Some(Value::Map(graph)) = first.get_mut("graph")
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
    let mut spans = Vec::new();
    match Value::read(bytes) {
        Ok(value) => collect(value, &mut spans),
        // One document a line.
        Err(error) => {
            let lines = bytes.split(|byte| *byte == b'\n');
            for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
                collect(Value::read(line).map_err(|_| error.to_string())?, &mut spans);
            }
        }
    }
    let spans: Vec<Span> = spans.iter().filter_map(Span::of).collect();
    if spans.is_empty() {
        return Err("there are no spans in it".to_owned());
    }
    match ours(&spans) {
        Some(run) => Artifact::of(run),
        None => Artifact::new(theirs(&spans)),
    }
    .map_err(|error| error.to_string())
}

/// Every span, however it is packed.
fn collect(value: Value, spans: &mut Vec<Map>) {
    match value {
        Value::List(list) => list.into_iter().for_each(|value| collect(value, spans)),
        Value::Map(mut map) => {
            let within = ["resourceSpans", "resource_spans", "scopeSpans", "scope_spans"];
            let within = within.iter().chain(&["instrumentationLibrarySpans", "spans"]);
            let mut found = false;
            for key in within {
                if let Some(inner) = map.remove(*key) {
                    found = true;
                    collect(inner, spans);
                }
            }
            if !found && (map.contains_key("spanId") || map.contains_key("span_id")) {
                spans.push(map);
            }
        }
        _ => {}
    }
}

struct Span {
    name: String,
    trace: String,
    id: String,
    parent: Option<String>,
    from: f64,
    to: f64,
    failed: bool,
    attributes: Map,
}

impl Span {
    fn of(span: &Map) -> Option<Self> {
        let said = |keys: [&str; 2]| keys.iter().find_map(|key| span.get(*key));
        let text = |keys| said(keys).and_then(Value::text).map(str::to_owned);
        let nanos = |keys| match said(keys)? {
            Value::Text(text) => text.parse::<f64>().ok(),
            other => other.float(),
        };
        let from = nanos(["startTimeUnixNano", "start_time_unix_nano"]).unwrap_or_default() / 1e9;
        let to = nanos(["endTimeUnixNano", "end_time_unix_nano"]).map_or(from, |to| to / 1e9);
        let status = span.get("status").and_then(|status| status.get("code"));
        let attributes = match span.get("attributes") {
            Some(Value::List(list)) => {
                let pairs = list.iter().filter_map(|pair| {
                    Some((pair.get("key")?.text()?.to_owned(), decode(pair.get("value")?)))
                });
                pairs.collect()
            }
            Some(Value::Map(map)) => map.clone(),
            _ => Map::new(),
        };
        Some(Self {
            name: text(["name", "name"]).unwrap_or_default(),
            trace: text(["traceId", "trace_id"]).unwrap_or_default(),
            id: text(["spanId", "span_id"])?,
            parent: text(["parentSpanId", "parent_span_id"]).filter(|id| !id.is_empty()),
            from,
            to: to.max(from),
            failed: status.is_some_and(|code| {
                code.count() == Some(2) || code.text() == Some("STATUS_CODE_ERROR")
            }),
            attributes,
        })
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.attributes.get(key).and_then(Value::text)
    }

    fn count(&self, key: &str) -> Option<u64> {
        self.attributes.get(key).and_then(Value::count)
    }
}

fn decode(value: &Value) -> Value {
    let said = |key: &str| value.get(key);
    if let Some(Value::Text(digits)) = said("intValue") {
        let whole = digits.parse::<i64>().ok();
        return whole.map_or_else(|| digits.as_str().into(), Value::from);
    }
    for key in ["stringValue", "boolValue", "doubleValue", "intValue"] {
        if let Some(plain) = said(key) {
            return plain.clone();
        }
    }
    if let Some(list) = said("arrayValue").and_then(|list| list.get("values")) {
        return Value::List(list.list().unwrap_or_default().iter().map(decode).collect());
    }
    let pairs = said("kvlistValue").and_then(|list| list.get("values")).and_then(Value::list);
    let pair =
        |pair: &Value| Some((pair.get("key")?.text()?.to_owned(), decode(pair.get("value")?)));
    Value::Map(pairs.unwrap_or_default().iter().filter_map(pair).collect())
}

/// The run that we wrote, word for word.
fn ours(spans: &[Span]) -> Option<Map> {
    let run = spans.iter().find_map(|span| span.text(RUN))?;
    let Ok(Value::Map(mut run)) = Value::read(run.as_bytes()) else { return None };
    let steps = spans.iter().filter_map(|span| Value::read(span.text(STEP)?.as_bytes()).ok());
    let steps = steps.filter_map(|step| Some((step.get("id")?.text()?.to_owned(), step)));
    let steps: Map = steps.collect();
    if let Some(Value::Map(graph)) = run.get_mut("graph") {
        graph.insert("steps".to_owned(), steps.into());
    }
    Some(run)
}

/// A run of the spans that somebody else wrote. Nobody knows how to go on with it.
fn theirs(spans: &[Span]) -> Map {
    let mut sorted: Vec<&Span> = spans.iter().collect();
    sorted.sort_by(|a, b| a.from.total_cmp(&b.from));
    let (mut ids, mut order, mut steps) = (HashMap::new(), Vec::<String>::new(), Map::new());
    let mut model = String::new();
    for span in &sorted {
        let parent = span.parent.as_ref().and_then(|id| ids.get(id)).or(order.last());
        let mut step = step(span);
        step.insert(
            "parent_ids".to_owned(),
            Value::List(parent.map(|id: &String| id.as_str().into()).into_iter().collect()),
        );
        let id = step_id(&step);
        step.insert("id".to_owned(), id.as_str().into());
        if let Some(Value::Text(said)) = step.get("model_info").filter(|_| model.is_empty()) {
            model.clone_from(said);
        }
        ids.insert(span.id.clone(), id.clone());
        if steps.insert(id.clone(), step.into()).is_none() {
            order.push(id);
        }
    }
    let first = sorted.first();
    let trace = first.map_or("", |span| &span.trace);
    let metadata = map([
        ("model_info", model.into()),
        ("system_prompt", "".into()),
        ("user_prompt", "".into()),
        ("otel_trace_id", trace.into()),
    ]);
    let manifest =
        map([("kind", "otel".into()), ("replay", vec!["cache"].into()), ("resume", false.into())]);
    let failed = spans.iter().any(|span| span.failed && span.parent.is_none());
    map([
        ("cache", Map::new().into()),
        ("created_at", first.map_or(0.0, |span| span.from).into()),
        ("format_version", 2u64.into()),
        ("refs", map([("main", order.last().cloned().unwrap_or_default().into())]).into()),
        ("graph", map([("order", order.into()), ("steps", steps.into())]).into()),
        ("manifest", manifest.into()),
        ("metadata", metadata.into()),
        ("policies", Map::new().into()),
        ("run_id", format!("otel-{trace}").into()),
        ("status", if failed { "failed" } else { "completed" }.into()),
        ("transcript", Value::List(Vec::new())),
    ])
}

fn step(span: &Span) -> Map {
    let operation = span.text("gen_ai.operation.name").unwrap_or(&span.name);
    let said = span.text("opentine.trace.kind");
    let tool = span.text("gen_ai.tool.name");
    let kind = match said {
        Some(kind @ ("think" | "tool" | "model" | "done" | "error")) => kind,
        _ if operation.starts_with("execute_tool") || tool.is_some() => "tool",
        _ if span.failed => "error",
        _ => "model",
    };
    let object = |key: &str| match span.attributes.get(key) {
        Some(Value::Map(map)) => map.clone(),
        Some(Value::Text(text)) => match Value::read(text.as_bytes()) {
            Ok(Value::Map(map)) => map,
            _ => map([("text", text.as_str().into())]),
        },
        _ => Map::new(),
    };
    let (mut inputs, mut outputs) = (object("gen_ai.prompt"), object("gen_ai.completion"));
    let written = |key: &str| messages_of(span.attributes.get(key));
    if inputs.is_empty()
        && let Some(messages) = written("gen_ai.input.messages")
    {
        inputs.insert("messages".to_owned(), messages);
    }
    if outputs.is_empty()
        && let Some(messages) = written("gen_ai.output.messages")
    {
        outputs.insert("text".to_owned(), text_of(&messages).into());
        outputs.insert("messages".to_owned(), messages);
    }
    if let Some(tool) = tool {
        inputs.entry("name".to_owned()).or_insert_with(|| tool.into());
        let arguments = object("gen_ai.tool.call.arguments");
        inputs.entry("arguments".to_owned()).or_insert_with(|| arguments.into());
        if let Some(result) = span.attributes.get("gen_ai.tool.call.result") {
            outputs.entry("result".to_owned()).or_insert_with(|| result.clone());
        }
    }
    let model = span.text("gen_ai.response.model").or(span.text("gen_ai.request.model"));
    let cost = span.attributes.get("opentine.cost_usd");
    let cost = cost.and_then(|cost| cost.float().or_else(|| cost.text()?.parse().ok()));
    let mut step = map([
        ("cost", cost.filter(|cost: &f64| cost.is_finite() && *cost >= 0.0).unwrap_or(0.0).into()),
        ("duration", (span.to - span.from).into()),
        ("error", Map::new().into()),
        ("inputs", inputs.into()),
        ("kind", kind.into()),
        ("model_info", model.unwrap_or_default().into()),
        ("outputs", outputs.into()),
        ("timestamp", span.to.into()),
        ("tool_info", tool.map_or_else(Map::new, |tool| map([("name", tool.into())])).into()),
    ]);
    if said == Some("human") {
        step.insert("v3_kind".to_owned(), "human".into());
    }
    let usage = buckets(span);
    if !usage.is_empty() {
        step.insert("usage".to_owned(), usage.into());
    }
    step
}

/// Buckets that do not overlap, whichever way the span counts.
fn buckets(span: &Span) -> Map {
    if let Some(Value::Map(exact)) = span.attributes.get("opentine.usage") {
        return exact.clone();
    }
    let read = span.count("gen_ai.usage.cache_read.input_tokens");
    let write = span
        .count("gen_ai.usage.cache_write.input_tokens")
        .or(span.count("gen_ai.usage.cache_creation.input_tokens"));
    let reasoning = span.count("gen_ai.usage.reasoning.output_tokens");
    let less = |key: &str, part: u64| {
        let total = span.count(key)?;
        Some(total.checked_sub(part).unwrap_or(total))
    };
    let within = read.unwrap_or_default().saturating_add(write.unwrap_or_default());
    let found = [
        ("input", less("gen_ai.usage.input_tokens", within)),
        ("output", less("gen_ai.usage.output_tokens", reasoning.unwrap_or_default())),
        ("cache_read", read.or(span.count("gen_ai.usage.cache_read_input_tokens"))),
        ("cache_write_5m", write.or(span.count("gen_ai.usage.cache_creation_input_tokens"))),
        ("reasoning", reasoning.or(span.count("gen_ai.usage.reasoning_tokens"))),
    ];
    let found = found.into_iter().filter_map(|(name, count)| Some((name, count?)));
    found.map(|(name, count)| (name.to_owned(), count.into())).collect()
}

fn messages_of(value: Option<&Value>) -> Option<Value> {
    match value? {
        Value::Text(text) => {
            Value::read(text.as_bytes()).ok().filter(|value| value.list().is_some())
        }
        Value::List(list) => Some(Value::List(list.clone())),
        _ => None,
    }
}

fn text_of(messages: &Value) -> String {
    let messages = messages.list().unwrap_or_default().iter();
    let parts = messages.flat_map(|message| {
        message
            .get("parts")
            .and_then(Value::list)
            .unwrap_or_default()
            .iter()
            .chain(message.get("content"))
    });
    let words = parts.filter_map(|part| part.text().or_else(|| part.get("content")?.text()));
    words.collect::<Vec<_>>().join("\n")
}
