//! The Anthropic Messages API.

use serde_json::{Value, json};

use super::conversation::{Content, Conversation, Role, field, list, text_of};
use super::dialect::{Call, Dialect, Failure, Frame, Refusal, Until, pieces};
use super::scenario::{Reply, Stop, ToolCall, Usage};

/// Clients send thinking back with its signature and only check that there is one.
const SIGNATURE: &str = "c2NyaXB0ZWQgc2lnbmF0dXJl";
/// How long a subscription's window is, when the scenario does not say when it ends.
const FIVE_HOURS: i64 = 5 * 3600;

#[derive(Debug)]
pub(super) struct Anthropic;

impl Dialect for Anthropic {
    fn conversation(&self, body: &Value, _prior: &[Value]) -> Conversation {
        let mut all = Conversation::default();
        all.system.extend(body.get("system").map(text_of));
        for message in list(body, "messages") {
            let assistant = message.get("role").and_then(Value::as_str) == Some("assistant");
            let role = if assistant { Role::Assistant } else { Role::User };
            match message.get("content") {
                Some(Value::String(text)) => all.push(role, Content::Text(text.clone())),
                Some(Value::Array(blocks)) => blocks.iter().for_each(|b| block(&mut all, role, b)),
                _ => {}
            }
        }
        all
    }

    fn whole(&self, reply: &Reply, call: &Call<'_>) -> Value {
        let mut content = Vec::new();
        if !reply.thinking.is_empty() {
            let text = &reply.thinking;
            content.push(json!({ "type": "thinking", "thinking": text, "signature": SIGNATURE }));
        }
        if !reply.text.is_empty() {
            content.push(json!({ "type": "text", "text": reply.text }));
        }
        for (i, tool) in reply.tools.iter().enumerate() {
            let id = tool_id(tool, call, i);
            content.push(
                json!({ "type": "tool_use", "id": id, "name": tool.name, "input": tool.input }),
            );
        }
        json!({
            "id": format!("msg_{}", call.tag), "type": "message", "role": "assistant",
            "model": call.model, "content": content, "stop_reason": stop(reply),
            "stop_sequence": null, "usage": usage(reply.usage),
        })
    }

    fn stream(&self, reply: &Reply, call: &Call<'_>) -> Vec<Frame> {
        let mut started = usage(reply.usage);
        // The real one has counted hardly any output by then; clients must take the last count.
        started["output_tokens"] = json!(1);
        let mut events = vec![
            json!({ "type": "message_start", "message": {
                "id": format!("msg_{}", call.tag), "type": "message", "role": "assistant",
                "model": call.model, "content": [], "stop_reason": null, "stop_sequence": null,
                "usage": started,
            }}),
            json!({ "type": "ping" }),
        ];
        let mut index = 0;
        let mut block = |start: Value, deltas: Vec<Value>| {
            let opened = json!({ "type": "content_block_start", "index": index,
                "content_block": start });
            events.push(opened);
            for delta in deltas {
                let event =
                    json!({ "type": "content_block_delta", "index": index, "delta": delta });
                events.push(event);
            }
            events.push(json!({ "type": "content_block_stop", "index": index }));
            index += 1;
        };
        if !reply.thinking.is_empty() {
            let part = |t: &str| json!({ "type": "thinking_delta", "thinking": t });
            let mut deltas: Vec<Value> = pieces(&reply.thinking).into_iter().map(part).collect();
            deltas.push(json!({ "type": "signature_delta", "signature": SIGNATURE }));
            block(json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas);
        }
        if !reply.text.is_empty() {
            let part = |t: &str| json!({ "type": "text_delta", "text": t });
            let deltas = pieces(&reply.text).into_iter().map(part).collect();
            block(json!({ "type": "text", "text": "" }), deltas);
        }
        for (i, tool) in reply.tools.iter().enumerate() {
            let input = tool.input.to_string();
            let part = |t: &str| json!({ "type": "input_json_delta", "partial_json": t });
            let deltas = pieces(&input).into_iter().map(part).collect();
            let id = tool_id(tool, call, i);
            block(json!({ "type": "tool_use", "id": id, "name": tool.name, "input": {} }), deltas);
        }
        events.push(json!({ "type": "message_delta",
            "delta": { "stop_reason": stop(reply), "stop_sequence": null },
            "usage": usage(reply.usage) }));
        events.push(json!({ "type": "message_stop" }));
        events.iter().map(Frame::named).collect()
    }

    fn refuse(&self, failure: &Failure, call: &Call<'_>) -> Refusal {
        let mut headers = Vec::new();
        let (status, kind, message) = match failure {
            Failure::RateLimit(until) => {
                let until = until.unwrap_or(Until::from_now(1, call.seconds()));
                headers = plain_limit(until);
                (
                    429,
                    "rate_limit_error",
                    "This request would exceed your account's rate limit. \
                    Please try again later."
                        .to_owned(),
                )
            }
            Failure::UsageLimit(until) => {
                let until = until.unwrap_or(Until::from_now(FIVE_HOURS, call.seconds()));
                headers = unified_limit(until);
                (
                    429,
                    "rate_limit_error",
                    "This request would exceed your account's rate limit. \
                    Please try again later."
                        .to_owned(),
                )
            }
            Failure::ServerError => (500, "api_error", "Internal server error".to_owned()),
            Failure::Overloaded => (529, "overloaded_error", "Overloaded".to_owned()),
            Failure::ContextExhausted => (
                400,
                "invalid_request_error",
                "prompt is too long: 215000 tokens > 200000 maximum".to_owned(),
            ),
            Failure::Unauthorized => (401, "authentication_error", "invalid x-api-key".to_owned()),
            Failure::NotFound(what) => (404, "not_found_error", what.clone()),
        };
        let id = format!("req_{}", call.tag);
        headers.push(("request-id", id.clone()));
        let error = json!({ "type": kind, "message": message });
        let body = json!({ "type": "error", "error": error, "request_id": id });
        Refusal { status, headers, body }
    }

    fn error_frame(&self, refusal: &Refusal, _call: &Call<'_>) -> Frame {
        Frame::named(&refusal.body)
    }
}

fn block(all: &mut Conversation, role: Role, block: &Value) {
    match block.get("type").and_then(Value::as_str) {
        Some("text") => all.push(role, Content::Text(field(block, "text"))),
        Some("thinking") => all.push(role, Content::Thinking(field(block, "thinking"))),
        Some("tool_use") => all.push(
            Role::Assistant,
            Content::ToolCall {
                id: field(block, "id"),
                name: field(block, "name"),
                input: block.get("input").cloned().unwrap_or_default(),
            },
        ),
        Some("tool_result") => all.push(
            Role::Tool,
            Content::ToolResult {
                id: field(block, "tool_use_id"),
                output: block.get("content").map(text_of).unwrap_or_default(),
                is_error: block.get("is_error").and_then(Value::as_bool).unwrap_or(false),
            },
        ),
        _ => {}
    }
}

fn tool_id(tool: &ToolCall, call: &Call<'_>, index: usize) -> String {
    tool.id.clone().unwrap_or_else(|| format!("toolu_{}_{index}", call.tag))
}

fn stop(reply: &Reply) -> &'static str {
    match reply.stop_reason() {
        Stop::EndTurn => "end_turn",
        Stop::ToolUse => "tool_use",
        Stop::MaxTokens => "max_tokens",
        Stop::Refusal => "refusal",
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": usage.all_output(),
        "service_tier": "standard",
    })
}

/// An API key's limit of requests per minute.
fn plain_limit(until: Until) -> Vec<(&'static str, String)> {
    vec![
        ("retry-after", until.seconds.to_string()),
        ("anthropic-ratelimit-requests-limit", "50".to_owned()),
        ("anthropic-ratelimit-requests-remaining", "0".to_owned()),
        ("anthropic-ratelimit-requests-reset", until.timestamp()),
    ]
}

/// A subscription's window.
fn unified_limit(until: Until) -> Vec<(&'static str, String)> {
    let at = until.at.to_string();
    vec![
        ("retry-after", until.seconds.to_string()),
        ("anthropic-ratelimit-unified-status", "rejected".to_owned()),
        ("anthropic-ratelimit-unified-reset", at.clone()),
        ("anthropic-ratelimit-unified-representative-claim", "five_hour".to_owned()),
        ("anthropic-ratelimit-unified-5h-status", "rejected".to_owned()),
        ("anthropic-ratelimit-unified-5h-reset", at),
        ("anthropic-ratelimit-unified-5h-utilization", "1.0".to_owned()),
        ("anthropic-ratelimit-unified-overage-status", "rejected".to_owned()),
        ("anthropic-ratelimit-unified-overage-disabled-reason", "org_level_disabled".to_owned()),
    ]
}
