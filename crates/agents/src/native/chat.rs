//! Chat Completions, as spoken by `OpenAI` and by nearly every other server.
//!
//! Servers differ, so reading is tolerant: usage may be missing (then it is zero, not guessed),
//! tool calls may lack ids or indices, arguments may be an object, reasoning has two names. What
//! ends a stream is a `finish_reason`; `[DONE]` alone is not an answer.

use jiff::Timestamp;
use segue_core::usage::Usage;
use serde_json::{Value, json};

use super::api::Dialect;
use super::failure;
use super::http::{Decoder, Progress};
use super::message::{Block, Message, Reply, Role, StopReason};
use super::model::{Delta, ModelError, OnDelta, Request, emit};
use super::responses::{buckets, result_text};
use super::settings::{Effort, Provider};
use super::sse::Event;

/// More parallel calls than that is a broken stream.
const MAX_CALLS: usize = 256;

/// Chat Completions.
pub(super) struct Chat;

impl Dialect for Chat {
    const PROVIDER: Provider = Provider::Chat;
    const PATH: &'static str = "/chat/completions";
    const KEY: (&'static str, &'static str) = ("authorization", "Bearer ");
    const CONTEXT: u64 = 32_768;
    type Decode = Decode;

    fn encode(model: &str, effort: Option<Effort>, request: &Request<'_>) -> Value {
        encode(model, effort, request)
    }

    fn decode(model: &str, request: &Request<'_>) -> Decode {
        let said = request.messages.iter().filter(|message| message.role == Role::Assistant);
        Decode::new(model, said.count())
    }
}

fn encode(model: &str, effort: Option<Effort>, request: &Request<'_>) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    for message in request.messages {
        encode_message(message, &mut messages);
    }
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if let Some(max) = request.max_output {
        body["max_tokens"] = max.into();
    }
    if let Some(effort) = effort {
        body["reasoning_effort"] = effort.word().into();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                },
            })
        });
        body["tools"] = tools.collect();
    }
    body
}

fn encode_message(message: &Message, into: &mut Vec<Value>) {
    let mut text = String::new();
    let mut calls = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text { text: more } => {
                if !text.is_empty() {
                    text.push_str("\n\n");
                }
                text.push_str(more);
            }
            // There is no way to send thinking back.
            Block::Thinking { .. } => {}
            Block::ToolUse { id, name, input } => calls.push(json!({
                "id": id,
                "type": "function",
                "function": { "name": name, "arguments": input },
            })),
            Block::ToolResult { id, output, is_error } => into.push(json!({
                "role": "tool",
                "tool_call_id": id,
                "content": result_text(output, *is_error),
            })),
        }
    }
    if text.is_empty() && calls.is_empty() {
        return;
    }
    let role = if message.role == Role::User { "user" } else { "assistant" };
    let content = if text.is_empty() { Value::Null } else { text.into() };
    let mut encoded = json!({ "role": role, "content": content });
    if !calls.is_empty() {
        encoded["tool_calls"] = calls.into();
    }
    into.push(encoded);
}

#[derive(Debug, Default)]
struct ToolCall {
    index: Option<u64>,
    id: String,
    name: String,
    json: String,
}

#[derive(Debug)]
pub(super) struct Decode {
    text: String,
    thinking: String,
    calls: Vec<ToolCall>,
    refused: bool,
    finish: Option<String>,
    usage: Usage,
    model: String,
    id: Option<String>,
    /// How many replies the conversation had before: makes our own ids unique in it.
    before: usize,
}

impl Decode {
    fn new(model: &str, before: usize) -> Self {
        Self {
            text: String::new(),
            thinking: String::new(),
            calls: Vec::new(),
            refused: false,
            finish: None,
            usage: Usage::default(),
            model: model.to_owned(),
            id: None,
            before,
        }
    }

    fn choice(&mut self, choice: &Value, on: &mut OnDelta<'_>) -> Result<(), ModelError> {
        let delta = &choice["delta"];
        let more = |name: &str| delta[name].as_str().filter(|text| !text.is_empty());
        if let Some(thinking) = more("reasoning_content").or_else(|| more("reasoning")) {
            self.thinking.push_str(thinking);
            emit(on, Delta::Thinking(thinking))?;
        }
        for name in ["content", "refusal"] {
            if let Some(text) = more(name) {
                self.refused |= name == "refusal";
                self.text.push_str(text);
                emit(on, Delta::Text(text))?;
            }
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.tool_call(call, on)?;
        }
        if let Some(reason) = choice["finish_reason"].as_str().filter(|text| !text.is_empty()) {
            self.finish = Some(reason.to_owned());
        }
        Ok(())
    }

    fn tool_call(&mut self, part: &Value, on: &mut OnDelta<'_>) -> Result<(), ModelError> {
        let index = part["index"].as_u64();
        let id = part["id"].as_str().unwrap_or_default();
        let name = part["function"]["name"].as_str().unwrap_or_default();
        let at = match index {
            Some(_) => self.calls.iter().position(|call| call.index == index),
            // Without an index, what names itself anew is a new call, the rest goes on.
            None if id.is_empty() && name.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().position(|call| !id.is_empty() && call.id == id),
        };
        let at = at.unwrap_or_else(|| {
            self.calls.push(ToolCall { index, ..ToolCall::default() });
            self.calls.len() - 1
        });
        if at >= MAX_CALLS {
            return Err(ModelError::StreamCut("too many tool calls in one answer".into()));
        }
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        let json = match &part["function"]["arguments"] {
            Value::String(json) => json.clone(),
            Value::Null => String::new(),
            whole => whole.to_string(),
        };
        call.json.push_str(&json);
        emit(on, Delta::ToolInput { id: &call.id, name: &call.name, json: &json })
    }
}

impl Decoder for Decode {
    fn event(&mut self, event: &Event, on: &mut OnDelta<'_>) -> Result<Progress, ModelError> {
        if event.data.trim() == "[DONE]" {
            return Ok(Progress::Done);
        }
        let Ok(value) = serde_json::from_str::<Value>(&event.data) else {
            return Err(ModelError::StreamCut("an event is not JSON".into()));
        };
        if value.get("error").is_some_and(|error| !error.is_null()) {
            return Err(failure::from_event(Provider::Chat, &value, Timestamp::now()));
        }
        if let Some(id) = value["id"].as_str().filter(|id| !id.is_empty()) {
            self.id = Some(id.to_owned());
        }
        if let Some(model) = value["model"].as_str().filter(|model| !model.is_empty()) {
            model.clone_into(&mut self.model);
        }
        if let Some(usage) = value.get("usage").filter(|usage| usage.is_object()) {
            let count = |value: &Value| value.as_u64().unwrap_or(0);
            self.usage = buckets(
                count(&usage["prompt_tokens"]),
                count(&usage["prompt_tokens_details"]["cached_tokens"]),
                count(&usage["completion_tokens"]),
                count(&usage["completion_tokens_details"]["reasoning_tokens"]),
            );
        }
        if let Some(choice) = value["choices"].get(0) {
            self.choice(choice, on)?;
        }
        Ok(Progress::More)
    }

    fn finish(self) -> Result<Reply, ModelError> {
        let Some(finish) = self.finish else {
            return Err(ModelError::StreamCut("it ended before a finish_reason".into()));
        };
        let stop = match finish.as_str() {
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            _ if self.refused => StopReason::Refusal,
            // Some servers say "stop" after tool calls too.
            _ if !self.calls.is_empty() => StopReason::ToolUse,
            "stop" | "tool_calls" | "function_call" => StopReason::EndTurn,
            _ => StopReason::Other(finish),
        };
        let mut blocks = Vec::new();
        if !self.thinking.is_empty() {
            blocks.push(Block::Thinking { text: self.thinking, signature: None });
        }
        if !self.text.is_empty() {
            blocks.push(Block::Text { text: self.text });
        }
        for (number, call) in self.calls.into_iter().enumerate() {
            let made = format!("call-{}-{number}", self.before);
            let id = if call.id.is_empty() { made } else { call.id };
            let input = if call.json.is_empty() { "{}".to_owned() } else { call.json };
            blocks.push(Block::ToolUse { id, name: call.name, input });
        }
        Ok(Reply { blocks, stop, usage: self.usage, model: self.model, id: self.id })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    fn decode(events: &[Value]) -> Result<Reply, ModelError> {
        let mut decoder = Decode::new("m", 3);
        for event in events {
            let event = Event { name: None, data: event.to_string() };
            decoder.event(&event, &mut |_| ControlFlow::Continue(()))?;
        }
        decoder.finish()
    }

    fn calls(parts: &[Value]) -> Vec<(String, String, String)> {
        let mut events: Vec<Value> = parts
            .iter()
            .map(|part| json!({ "choices": [{ "delta": { "tool_calls": [part] } }] }))
            .collect();
        events.push(json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] }));
        let reply = decode(&events).unwrap();
        assert_eq!(reply.stop, StopReason::ToolUse);
        let blocks = reply.blocks.into_iter().map(|block| match block {
            Block::ToolUse { id, name, input } => (id, name, input),
            other => panic!("{other:?}"),
        });
        blocks.collect()
    }

    fn call(id: &str, name: &str, input: &str) -> (String, String, String) {
        (id.to_owned(), name.to_owned(), input.to_owned())
    }

    #[test]
    fn tool_calls_of_all_kinds_of_servers() {
        let interleaved = calls(&[
            json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": "" } }),
            json!({ "index": 1, "id": "b", "function": { "name": "y", "arguments": "{\"k\"" } }),
            json!({ "index": 0, "function": { "arguments": "{}" } }),
            json!({ "index": 1, "function": { "arguments": ":1}" } }),
        ]);
        assert_eq!(interleaved, [call("a", "x", "{}"), call("b", "y", "{\"k\":1}")]);
        let bare = calls(&[
            json!({ "function": { "name": "x", "arguments": { "a": 1 } } }),
            json!({ "function": { "name": "x" } }),
        ]);
        assert_eq!(bare, [call("call-3-0", "x", "{\"a\":1}"), call("call-3-1", "x", "{}")]);
        let no_index = calls(&[
            json!({ "id": "a", "function": { "name": "x", "arguments": "{" } }),
            json!({ "function": { "arguments": "}" } }),
        ]);
        assert_eq!(no_index, [call("a", "x", "{}")]);
    }

    #[test]
    fn missing_usage_is_zero_and_a_missing_end_is_a_cut() {
        let said = json!({ "choices": [{ "delta": { "content": "hi", "reasoning": "hm" } }] });
        let cut = decode(std::slice::from_ref(&said));
        assert!(matches!(cut, Err(ModelError::StreamCut(_))));
        let end = json!({ "choices": [{ "delta": {}, "finish_reason": "length" }], "usage": null });
        let reply = decode(&[said, end]).unwrap();
        assert_eq!(reply.usage, Usage::default());
        assert_eq!(reply.stop, StopReason::MaxTokens);
        assert_eq!(reply.text(), "hi");
        assert!(matches!(&reply.blocks[0], Block::Thinking { text, .. } if text == "hm"));
    }
}
