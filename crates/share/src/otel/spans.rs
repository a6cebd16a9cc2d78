//! Spans, however they are packed.

use crate::tine::json::{Map, Value};

pub(super) struct Span {
    pub(super) name: String,
    pub(super) trace: String,
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) from: f64,
    pub(super) to: f64,
    /// It ended with an error, and what is known of that.
    pub(super) failed: Option<String>,
    pub(super) attributes: Map,
    /// What happened in it: names and their attributes.
    pub(super) events: Vec<(String, Map)>,
}

impl Span {
    /// All spans of a file: of one document, or of one on each line.
    pub(super) fn all(bytes: &[u8]) -> Result<Vec<Self>, String> {
        let mut spans = Vec::new();
        match Value::read(bytes) {
            Ok(value) => collect(value, &mut spans),
            Err(error) => {
                let lines = bytes.split(|byte| *byte == b'\n');
                for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
                    collect(Value::read(line).map_err(|_| error.to_string())?, &mut spans);
                }
            }
        }
        Ok(spans.iter().filter_map(Self::of).collect())
    }

    fn of(span: &Map) -> Option<Self> {
        let said = |keys: [&str; 2]| keys.iter().find_map(|key| span.get(*key));
        let text = |keys| said(keys).and_then(Value::text).map(str::to_owned);
        let nanos = |keys| match said(keys)? {
            Value::Text(text) => text.parse::<f64>().ok().filter(|nanos| nanos.is_finite()),
            other => other.float(),
        };
        let from = nanos(["startTimeUnixNano", "start_time_unix_nano"]).unwrap_or_default() / 1e9;
        let to = nanos(["endTimeUnixNano", "end_time_unix_nano"]).map_or(from, |to| to / 1e9);
        let mut found = Self {
            name: text(["name", "name"]).unwrap_or_default(),
            trace: text(["traceId", "trace_id"]).unwrap_or_default(),
            id: text(["spanId", "span_id"])?,
            parent: text(["parentSpanId", "parent_span_id"]).filter(|id| !id.is_empty()),
            from,
            to: to.max(from),
            failed: None,
            attributes: attributes(span),
            events: Vec::new(),
        };
        for event in span.get("events").and_then(Value::list).unwrap_or_default() {
            let name = event.get("name").and_then(Value::text).unwrap_or_default();
            let attributes = event.map().map(attributes).unwrap_or_default();
            found.events.push((name.to_owned(), attributes));
        }
        found.failed = found.failure(span.get("status"));
        Some(found)
    }

    fn failure(&self, status: Option<&Value>) -> Option<String> {
        let code = status?.get("code")?;
        if code.count() != Some(2) && code.text() != Some("STATUS_CODE_ERROR") {
            return None;
        }
        let exception = self.events.iter().find(|(name, _)| name == "exception");
        let exception = exception.and_then(|(_, said)| said.get("exception.message"));
        let words = [status?.get("message"), exception, self.attributes.get("error.type")];
        let words = words.into_iter().flatten().filter_map(Value::text);
        Some(words.into_iter().find(|words| !words.is_empty()).unwrap_or("it failed").to_owned())
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.attributes.get(key).and_then(Value::text)
    }

    pub(super) fn count(&self, key: &str) -> Option<u64> {
        self.attributes.get(key).and_then(Value::count)
    }

    /// Whether it has something to say under one of these names.
    pub(super) fn speaks(&self, prefix: &str) -> bool {
        self.attributes.keys().any(|key| key.starts_with(prefix))
    }
}

/// Every span, however deep it is.
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

fn attributes(of: &Map) -> Map {
    match of.get("attributes") {
        Some(Value::List(list)) => pairs(list),
        Some(Value::Map(map)) => map.clone(),
        _ => Map::new(),
    }
}

fn pairs(list: &[Value]) -> Map {
    let pair =
        |pair: &Value| Some((pair.get("key")?.text()?.to_owned(), decode(pair.get("value")?)));
    list.iter().filter_map(pair).collect()
}

fn decode(value: &Value) -> Value {
    let said = |key: &str| value.get(key);
    if let Some(Value::Text(digits)) = said("intValue") {
        let whole = Value::read(digits.as_bytes()).ok();
        return whole.filter(|it| matches!(it, Value::Int(_))).unwrap_or(digits.as_str().into());
    }
    for key in ["stringValue", "boolValue", "doubleValue", "intValue"] {
        if let Some(plain) = said(key) {
            return plain.clone();
        }
    }
    if let Some(list) = said("arrayValue").and_then(|list| list.get("values")) {
        return Value::List(list.list().unwrap_or_default().iter().map(decode).collect());
    }
    match said("kvlistValue").map(|list| list.get("values").and_then(Value::list)) {
        Some(list) => Value::Map(pairs(list.unwrap_or_default())),
        None => Value::Null,
    }
}
