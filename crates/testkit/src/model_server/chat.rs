//! The OpenAI Chat Completions API, as the many servers that copy it speak it too.

use serde_json::{Value, json};

use super::conversation::{Content, Conversation, Role, arguments, field, list, text_of};
use super::dialect::{Call, Dialect, Failure, Frame, Refusal, pieces};
use super::openai;
use super::scenario::{Reply, Stop, ToolCall, Usage};

#[derive(Debug)]
pub(super) struct Chat;

impl Dialect for Chat {
    fn conversation(&self, body: &Value, _prior: &[Value]) -> Conversation {
        let mut all = Conversation::default();
        for message in list(body, "messages") {
            let text = message.get("content").map(text_of).unwrap_or_default();
            match message.get("role").and_then(Value::as_str) {
                Some("system" | "developer") => all.system.push(text),
                Some("assistant") => {
                    all.push(
                        Role::Assistant,
                        Content::Thinking(field(message, "reasoning_content")),
                    );
                    all.push(Role::Assistant, Content::Text(text));
                    for call in list(message, "tool_calls") {
                        let function = call.get("function").unwrap_or(&Value::Null);
                        let content = Content::ToolCall {
                            id: field(call, "id"),
                            name: field(function, "name"),
                            input: arguments(&field(function, "arguments")),
                        };
                        all.push(Role::Assistant, content);
                    }
                }
                Some("tool") => {
                    let id = field(message, "tool_call_id");
                    let content = Content::ToolResult { id, output: text, is_error: false };
                    all.push(Role::Tool, content);
                }
                Some("user") => all.push(Role::User, Content::Text(text)),
                _ => {}
            }
        }
        all
    }

    fn whole(&self, reply: &Reply, call: &Call<'_>) -> Value {
        let mut message = json!({ "role": "assistant", "content": null, "refusal": null });
        if !reply.text.is_empty() || reply.tools.is_empty() {
            message["content"] = json!(reply.text);
        }
        if !reply.thinking.is_empty() {
            message["reasoning_content"] = json!(reply.thinking);
        }
        if !reply.tools.is_empty() {
            let calls = reply.tools.iter().enumerate().map(|(i, tool)| {
                json!({ "id": tool_id(tool, call, i), "type": "function",
                    "function": { "name": tool.name, "arguments": tool.input.to_string() } })
            });
            message["tool_calls"] = calls.collect();
        }
        json!({
            "id": format!("chatcmpl-{}", call.tag), "object": "chat.completion",
            "created": call.seconds(), "model": call.model,
            "choices": [{ "index": 0, "message": message, "logprobs": null,
                "finish_reason": finish(reply) }],
            "usage": usage(reply.usage),
        })
    }

    fn stream(&self, reply: &Reply, call: &Call<'_>) -> Vec<Frame> {
        let chunk = |choices: Value, usage: Value| {
            Frame::plain(json!({
                "id": format!("chatcmpl-{}", call.tag), "object": "chat.completion.chunk",
                "created": call.seconds(), "model": call.model, "choices": choices, "usage": usage,
            }))
        };
        let delta = |delta: Value| {
            let choice = json!([{ "index": 0, "delta": delta, "finish_reason": null }]);
            chunk(choice, Value::Null)
        };
        let mut frames = vec![delta(json!({ "role": "assistant", "content": "" }))];
        for piece in pieces(&reply.thinking) {
            frames.push(delta(json!({ "reasoning_content": piece })));
        }
        for piece in pieces(&reply.text) {
            frames.push(delta(json!({ "content": piece })));
        }
        for (i, tool) in reply.tools.iter().enumerate() {
            frames.push(delta(json!({ "tool_calls": [{ "index": i, "id": tool_id(tool, call, i),
                "type": "function", "function": { "name": tool.name, "arguments": "" } }] })));
            for piece in pieces(&tool.input.to_string()) {
                let part = json!([{ "index": i, "function": { "arguments": piece } }]);
                frames.push(delta(json!({ "tool_calls": part })));
            }
        }
        let end = json!([{ "index": 0, "delta": {}, "finish_reason": finish(reply) }]);
        frames.push(chunk(end, Value::Null));
        if call.body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true)) {
            frames.push(chunk(json!([]), usage(reply.usage)));
        }
        frames.push(Frame::plain("[DONE]"));
        frames
    }

    fn refuse(&self, failure: &Failure, call: &Call<'_>) -> Refusal {
        let mut refusal = openai::refuse(failure, call);
        match failure {
            Failure::UsageLimit(until) => {
                let message = "You exceeded your current quota, please check your plan and billing \
                    details.";
                let quota = Some("insufficient_quota");
                refusal.body = openai::error(message, "insufficient_quota", quota, None);
                // A used up quota has no end of its own: OpenAI says none here.
                if until.is_none() {
                    refusal.headers.retain(|(name, _)| *name == "x-request-id");
                }
            }
            Failure::ContextExhausted => {
                let message = "This model's maximum context length is 128000 tokens. However, your \
                    messages resulted in 131072 tokens. Please reduce the length of the messages.";
                let code = Some("context_length_exceeded");
                let kind = "invalid_request_error";
                refusal.body = openai::error(message, kind, code, Some("messages"));
            }
            _ => {}
        }
        refusal
    }

    fn error_frame(&self, refusal: &Refusal, _call: &Call<'_>) -> Frame {
        Frame::plain(&refusal.body)
    }
}

fn tool_id(tool: &ToolCall, call: &Call<'_>, index: usize) -> String {
    tool.id.clone().unwrap_or_else(|| format!("call_{}_{index}", call.tag))
}

fn finish(reply: &Reply) -> &'static str {
    match reply.stop_reason() {
        Stop::EndTurn => "stop",
        Stop::ToolUse => "tool_calls",
        Stop::MaxTokens => "length",
        Stop::Refusal => "content_filter",
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.all_input(),
        "completion_tokens": usage.all_output(),
        "total_tokens": usage.all_input() + usage.all_output(),
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write,
        },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}
