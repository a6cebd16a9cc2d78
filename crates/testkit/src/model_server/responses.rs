//! The OpenAI Responses API, over HTTP and, with the same events, over a WebSocket.

use serde_json::{Value, json};

use super::conversation::{Content, Conversation, Role, arguments, field, text_of};
use super::dialect::{Call, Dialect, Failure, Frame, Refusal, Until, pieces};
use super::openai;
use super::scenario::{Reply, Stop, ToolCall, Usage};

/// How long a subscription's window is, when the scenario does not say when it ends.
const FIVE_HOURS: i64 = 5 * 3600;

#[derive(Debug)]
pub(super) struct Responses;

impl Dialect for Responses {
    fn conversation(&self, body: &Value, prior: &[Value]) -> Conversation {
        let mut all = Conversation::default();
        all.system.extend(body.get("instructions").and_then(Value::as_str).map(str::to_owned));
        for entry in prior.iter().chain(&input(body)) {
            item(&mut all, entry);
        }
        all
    }

    fn whole(&self, reply: &Reply, call: &Call<'_>) -> Value {
        response(call, final_status(reply), &output(reply, call), Some(reply))
    }

    fn stream(&self, reply: &Reply, call: &Call<'_>) -> Vec<Frame> {
        let started = response(call, "in_progress", &[], None);
        let mut events = vec![
            json!({ "type": "response.created", "response": started }),
            json!({ "type": "response.in_progress", "response": started }),
        ];
        let items = output(reply, call);
        for (index, item) in items.iter().enumerate() {
            item_events(&mut events, index, item);
        }
        let status = final_status(reply);
        let done = response(call, status, &items, Some(reply));
        events.push(json!({ "type": format!("response.{status}"), "response": done }));
        numbered(events)
    }

    fn refuse(&self, failure: &Failure, call: &Call<'_>) -> Refusal {
        let mut refusal = openai::refuse(failure, call);
        match failure {
            Failure::UsageLimit(until) => {
                let until = until.unwrap_or(Until::from_now(FIVE_HOURS, call.seconds()));
                refusal.headers = usage_headers(until);
                refusal.body = json!({ "error": {
                    "type": "usage_limit_reached", "message": "The usage limit has been reached",
                    "plan_type": "plus", "resets_at": until.at, "resets_in_seconds": until.seconds,
                }});
            }
            Failure::ContextExhausted => refusal.body["error"]["param"] = json!("input"),
            _ => {}
        }
        refusal
    }

    fn error_frame(&self, refusal: &Refusal, call: &Call<'_>) -> Frame {
        let error = refusal.body.get("error").unwrap_or(&Value::Null);
        let code = error.get("code").filter(|c| !c.is_null()).or_else(|| error.get("type"));
        let mut failed = response(call, "failed", &[], None);
        failed["error"] = json!({ "code": code, "message": error.get("message") });
        Frame::named(&json!({ "type": "response.failed", "response": failed }))
    }

    /// The real server finds out that the input is too long only when it has begun to answer.
    fn streamed_failure(&self, failure: &Failure, call: &Call<'_>) -> Option<Vec<Frame>> {
        if !matches!(failure, Failure::ContextExhausted) {
            return None;
        }
        let started = response(call, "in_progress", &[], None);
        let created = json!({ "type": "response.created", "response": started });
        let refusal = self.refuse(failure, call);
        Some(vec![Frame::named(&created), self.error_frame(&refusal, call)])
    }
}

/// The id under which the answer to this call can be continued.
pub(super) fn id(call: &Call<'_>) -> String {
    format!("resp_{}", call.tag)
}

/// What a request adds to the conversation.
pub(super) fn input(body: &Value) -> Vec<Value> {
    match body.get("input") {
        Some(Value::String(text)) => vec![json!({ "role": "user", "content": text })],
        Some(Value::Array(items)) => items.clone(),
        _ => Vec::new(),
    }
}

/// The answer to a request that wants no answer yet.
pub(super) fn prewarmed(call: &Call<'_>) -> Vec<Frame> {
    let started = response(call, "in_progress", &[], None);
    let idle = Usage { input: 0, output: 0, cache_read: 0, cache_write: 0, reasoning: 0 };
    let nothing = Reply::default().usage(idle);
    numbered(vec![
        json!({ "type": "response.created", "response": started }),
        json!({ "type": "response.completed",
            "response": response(call, "completed", &[], Some(&nothing)) }),
    ])
}

/// A request that continues an answer which this server has not given.
pub(super) fn unknown_previous(previous: &str) -> Refusal {
    let message = format!("Previous response with id '{previous}' not found.");
    let code = Some("previous_response_not_found");
    let param = Some("previous_response_id");
    let body = openai::error(&message, "invalid_request_error", code, param);
    Refusal { status: 400, headers: Vec::new(), body }
}

fn item(all: &mut Conversation, item: &Value) {
    let kind = item.get("type").and_then(Value::as_str).unwrap_or("message");
    let text = item.get("content").map(text_of).unwrap_or_default();
    match (kind, item.get("role").and_then(Value::as_str)) {
        ("message", Some("assistant")) => all.push(Role::Assistant, Content::Text(text)),
        ("message", Some("user")) => all.push(Role::User, Content::Text(text)),
        ("message", _) => all.system.push(text),
        ("reasoning", _) => {
            let summary = item.get("summary").map(text_of).unwrap_or_default();
            all.push(Role::Assistant, Content::Thinking(summary));
        }
        ("function_call" | "custom_tool_call", _) => {
            let input = if kind == "function_call" {
                arguments(&field(item, "arguments"))
            } else {
                item.get("input").cloned().unwrap_or_default()
            };
            let (id, name) = (field(item, "call_id"), field(item, "name"));
            all.push(Role::Assistant, Content::ToolCall { id, name, input });
        }
        ("function_call_output" | "custom_tool_call_output", _) => {
            let output = item.get("output").map(text_of).unwrap_or_default();
            let id = field(item, "call_id");
            all.push(Role::Tool, Content::ToolResult { id, output, is_error: false });
        }
        _ => {}
    }
}

/// The reply as the items that a client sends back with its next request.
pub(super) fn output(reply: &Reply, call: &Call<'_>) -> Vec<Value> {
    let mut items = Vec::new();
    if !reply.thinking.is_empty() {
        items.push(json!({ "type": "reasoning", "id": format!("rs_{}", call.tag),
            "summary": [{ "type": "summary_text", "text": reply.thinking }],
            "encrypted_content": null }));
    }
    if !reply.text.is_empty() {
        items.push(json!({ "type": "message", "id": format!("msg_{}", call.tag),
            "status": "completed", "role": "assistant",
            "content": [{ "type": "output_text", "text": reply.text, "annotations": [] }] }));
    }
    let calls = reply.tools.iter().enumerate().map(|(i, tool)| tool_item(tool, call, i));
    items.extend(calls);
    items
}

fn tool_item(tool: &ToolCall, call: &Call<'_>, index: usize) -> Value {
    let call_id = tool.id.clone().unwrap_or_else(|| format!("call_{}_{index}", call.tag));
    let mut item = match &tool.input {
        Value::String(text) => json!({ "type": "custom_tool_call",
            "id": format!("ctc_{}_{index}", call.tag), "call_id": call_id, "name": tool.name,
            "input": text, "status": "completed" }),
        input => json!({ "type": "function_call", "id": format!("fc_{}_{index}", call.tag),
            "call_id": call_id, "name": tool.name, "arguments": input.to_string(),
            "status": "completed" }),
    };
    if let Some(namespace) = &tool.namespace {
        item["namespace"] = json!(namespace);
    }
    item
}

fn response(call: &Call<'_>, status: &str, output: &[Value], reply: Option<&Reply>) -> Value {
    let reason = match reply.map(Reply::stop_reason) {
        Some(Stop::MaxTokens) => json!({ "reason": "max_output_tokens" }),
        Some(Stop::Refusal) => json!({ "reason": "content_filter" }),
        _ => Value::Null,
    };
    json!({
        "id": id(call), "object": "response", "created_at": call.seconds(), "status": status,
        "error": null, "incomplete_details": reason, "model": call.model, "output": output,
        "parallel_tool_calls": true, "previous_response_id": call.body.get("previous_response_id"),
        "usage": reply.map(|r| usage(r.usage)),
    })
}

fn final_status(reply: &Reply) -> &'static str {
    match reply.stop_reason() {
        Stop::EndTurn | Stop::ToolUse => "completed",
        Stop::MaxTokens | Stop::Refusal => "incomplete",
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.all_input(),
        "input_tokens_details": {
            "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.all_output(),
        "output_tokens_details": { "reasoning_tokens": usage.reasoning },
        "total_tokens": usage.all_input() + usage.all_output(),
    })
}

/// The events by which one finished item comes into being.
fn item_events(events: &mut Vec<Value>, index: usize, item: &Value) {
    let place = Place { item, index };
    let mut begun = item.clone();
    if begun.get("status").is_some() {
        begun["status"] = json!("in_progress");
    }
    let inner = match item["type"].as_str() {
        Some("reasoning") => {
            begun["summary"] = json!([]);
            let part = json!({ "type": "summary_text", "text": "" });
            let told = place.told("reasoning_summary_text", "text", &text_of(&item["summary"]));
            place.in_part("reasoning_summary_part", part, told, &item["summary"][0])
        }
        Some("message") => {
            begun["content"] = json!([]);
            let part = json!({ "type": "output_text", "text": "", "annotations": [] });
            let told = place.told("output_text", "text", &text_of(&item["content"]));
            place.in_part("content_part", part, told, &item["content"][0])
        }
        Some("custom_tool_call") => {
            begun["input"] = json!("");
            place.told("custom_tool_call_input", "input", &field(item, "input"))
        }
        _ => {
            begun["arguments"] = json!("");
            place.told("function_call_arguments", "arguments", &field(item, "arguments"))
        }
    };
    let framed = |kind: &str, item: &Value| {
        json!({ "type": format!("response.output_item.{kind}"), "output_index": index,
            "item": item })
    };
    events.push(framed("added", &begun));
    events.extend(inner);
    events.push(framed("done", item));
}

/// The item that events are about.
struct Place<'a> {
    item: &'a Value,
    index: usize,
}

impl Place<'_> {
    fn event(&self, kind: &str, name: &str, value: Value) -> Value {
        let mut event = json!({ "type": format!("response.{kind}"), "item_id": self.item["id"],
            "output_index": self.index });
        event[name] = value;
        // Texts live in parts of an item; only tool input is the item's own.
        match self.item["type"].as_str() {
            Some("reasoning") => event["summary_index"] = json!(0),
            Some("message") => event["content_index"] = json!(0),
            _ => {}
        }
        event
    }

    /// A text piece by piece, then whole.
    fn told(&self, kind: &str, name: &str, text: &str) -> Vec<Value> {
        let delta = |piece| self.event(&format!("{kind}.delta"), "delta", json!(piece));
        let mut events: Vec<Value> = pieces(text).into_iter().map(delta).collect();
        events.push(self.event(&format!("{kind}.done"), name, json!(text)));
        events
    }

    fn in_part(&self, kind: &str, empty: Value, told: Vec<Value>, full: &Value) -> Vec<Value> {
        let mut events = vec![self.event(&format!("{kind}.added"), "part", empty)];
        events.extend(told);
        events.push(self.event(&format!("{kind}.done"), "part", full.clone()));
        events
    }
}

fn numbered(events: Vec<Value>) -> Vec<Frame> {
    let number = |(i, mut event): (usize, Value)| {
        event["sequence_number"] = json!(i);
        Frame::named(&event)
    };
    events.into_iter().enumerate().map(number).collect()
}

/// The window of a ChatGPT plan as Codex is told about it.
fn usage_headers(until: Until) -> Vec<(&'static str, String)> {
    vec![
        ("x-codex-primary-used-percent", "100".to_owned()),
        ("x-codex-primary-window-minutes", "300".to_owned()),
        ("x-codex-primary-reset-at", until.at.to_string()),
        ("x-codex-primary-reset-after-seconds", until.seconds.to_string()),
    ]
}
