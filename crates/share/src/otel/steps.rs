//! One span as one step.

use super::{messages::words, spans::Span};
use crate::tine::json::{Map, Value, map};

pub(super) fn is(step: &Map, kind: &str) -> bool {
    step.get("kind").and_then(Value::text) == Some(kind)
}

/// A step as a message of the conversation.
pub(super) fn message(step: &Map, id: &str, call: Option<&str>) -> Map {
    let said = |key: &str| step.get("outputs").and_then(|outputs| outputs.get(key));
    let (role, content) = match is(step, "tool") {
        true => ("tool", said("result")),
        false => ("assistant", said("text")),
    };
    let content = content.map(words).unwrap_or_default();
    let mut message =
        map([("step_id", id.into()), ("role", role.into()), ("content", content.into())]);
    message.extend(call.map(|call| ("tool_call_id".to_owned(), call.into())));
    message
}

/// A step that has happened before a span.
pub(super) fn earlier(span: &Span) -> Map {
    let mut step = common(span);
    step.insert("duration".to_owned(), 0.0.into());
    step.insert("timestamp".to_owned(), span.from.into());
    for counted in ["usage", "cost"] {
        step.remove(counted);
    }
    step.insert("cost".to_owned(), 0.0.into());
    step
}

pub(super) fn tool(span: &Span) -> Map {
    let (mut step, mut inputs, mut outputs) = (common(span), Map::new(), Map::new());
    let name = span.text("gen_ai.tool.name").map(str::to_owned);
    let name = name.or_else(|| span.name.split_once(' ').map(|(_, name)| name.to_owned()));
    let name = name.unwrap_or_else(|| "tool".to_owned());
    inputs.insert("name".to_owned(), name.as_str().into());
    let arguments = span.attributes.get("gen_ai.tool.call.arguments");
    inputs.insert("arguments".to_owned(), object(arguments));
    let result = span.attributes.get("gen_ai.tool.call.result").cloned();
    if let Some(result) = result.or_else(|| span.failed.as_deref().map(Value::from)) {
        outputs.insert("result".to_owned(), result);
    }
    if let Some(why) = &span.failed {
        step.insert("error".to_owned(), map([("message", why.as_str().into())]).into());
    }
    step.insert("kind".to_owned(), "tool".into());
    step.insert("inputs".to_owned(), inputs.into());
    step.insert("outputs".to_owned(), outputs.into());
    step.insert("tool_info".to_owned(), map([("name", name.into())]).into());
    step
}

/// A step of the other implementation: its inputs and outputs are the attributes.
pub(super) fn recorded(span: &Span) -> Map {
    let mut step = common(span);
    let said = span.text("opentine.trace.kind");
    let tool = span.text("gen_ai.tool.name");
    let kind = match said.or(span.text("legacy_kind")) {
        Some(kind @ ("think" | "tool" | "model" | "done" | "error")) => kind,
        _ if tool.is_some() => "tool",
        _ if span.failed.is_some() => "error",
        _ => "model",
    };
    step.insert("kind".to_owned(), kind.into());
    if said == Some("human") {
        step.insert("v3_kind".to_owned(), "human".into());
    }
    for (key, attribute) in [("inputs", "gen_ai.prompt"), ("outputs", "gen_ai.completion")] {
        step.insert(key.to_owned(), object(span.attributes.get(attribute)));
    }
    let info = tool.map(|tool| map([("name", tool.into())]));
    step.insert("tool_info".to_owned(), info.unwrap_or_default().into());
    step
}

/// What every step has, whatever the span is.
pub(super) fn common(span: &Span) -> Map {
    let model = span.text("gen_ai.response.model").or(span.text("gen_ai.request.model"));
    let cost = span.attributes.get("opentine.cost_usd");
    let cost = cost.and_then(|cost| cost.float().or_else(|| cost.text()?.parse().ok()));
    let mut step = map([
        ("cost", cost.filter(|cost: &f64| cost.is_finite() && *cost >= 0.0).unwrap_or(0.0).into()),
        ("duration", (span.to - span.from).into()),
        ("error", Map::new().into()),
        ("inputs", Map::new().into()),
        ("kind", "model".into()),
        ("model_info", model.unwrap_or_default().into()),
        ("outputs", Map::new().into()),
        ("timestamp", span.to.into()),
        ("tool_info", Map::new().into()),
    ]);
    let usage = buckets(span);
    if !usage.is_empty() {
        step.insert("usage".to_owned(), usage.into());
    }
    step
}

/// An object, also one that is written as text. What is neither stands in it as `text`.
fn object(value: Option<&Value>) -> Value {
    match value {
        None | Some(Value::Null) => Map::new().into(),
        Some(Value::Map(map)) => map.clone().into(),
        Some(Value::Text(text)) => match Value::read_compact(text.as_bytes()) {
            Ok(Value::Map(map)) => map.into(),
            _ => map([("text", text.as_str().into())]).into(),
        },
        Some(other) => map([("text", words(other).into())]).into(),
    }
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
