//! The Anthropic Messages API.
//!
//! The system prompt and the end of the conversation are marked for the prompt cache. Thinking
//! goes back as it came, with its signature; thinking of other vendors is left out. The last
//! event of a stream is `message_stop`. Thinking tokens are part of the output bucket, because
//! this API does not tell them apart.

use std::collections::BTreeMap;

use jiff::Timestamp;
use segue_core::usage::Usage;
use serde_json::{Map, Value, json};

use super::api::Dialect;
use super::failure;
use super::http::{Decoder, Progress};
use super::message::{Block, Message, Reply, Role, StopReason};
use super::model::{Delta, ModelError, OnDelta, Request, emit};
use super::price;
use super::settings::{Effort, Provider};
use super::sse::Event;

const SIGNED: &str = "anthropic:";
const REDACTED: &str = "anthropic-redacted:";

/// The Messages API.
pub(super) struct Anthropic;

impl Dialect for Anthropic {
    const PROVIDER: Provider = Provider::Anthropic;
    const PATH: &'static str = "/messages";
    const KEY: (&'static str, &'static str) = ("x-api-key", "");
    const HEADERS: &'static [(&'static str, &'static str)] = &[("anthropic-version", "2023-06-01")];
    const CONTEXT: u64 = 200_000;
    type Decode = Decode;

    fn encode(model: &str, effort: Option<Effort>, request: &Request<'_>) -> Value {
        encode(model, effort, request)
    }

    fn decode(model: &str, _: &Request<'_>) -> Decode {
        Decode::new(model)
    }
}

fn encode(model: &str, effort: Option<Effort>, request: &Request<'_>) -> Value {
    let mut messages: Vec<Value> = request.messages.iter().filter_map(encode_message).collect();
    mark_last(&mut messages);
    let max = request.max_output.unwrap_or_else(|| price::max_output(model));
    let mut body = json!({
        "model": model,
        "max_tokens": max,
        "messages": messages,
        "stream": true,
    });
    if !request.system.is_empty() {
        body["system"] =
            json!([{ "type": "text", "text": request.system, "cache_control": ephemeral() }]);
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
            })
        });
        body["tools"] = tools.collect();
    }
    if let Some(effort) = effort {
        think(&mut body, model, effort, max, request.messages);
    }
    body
}

fn ephemeral() -> Value {
    json!({ "type": "ephemeral" })
}

fn encode_message(message: &Message) -> Option<Value> {
    let mut blocks: Vec<&Block> = message.blocks.iter().collect();
    // Results have to come before any text in the message that answers a tool call.
    blocks.sort_by_key(|block| {
        message.role == Role::User && !matches!(block, Block::ToolResult { .. })
    });
    let content: Vec<Value> = blocks.into_iter().filter_map(encode_block).collect();
    if content.is_empty() {
        return None;
    }
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    Some(json!({ "role": role, "content": content }))
}

fn encode_block(block: &Block) -> Option<Value> {
    Some(match block {
        // The API refuses blocks of nothing but white space.
        Block::Text { text } if text.trim().is_empty() => return None,
        Block::Text { text } => json!({ "type": "text", "text": text }),
        Block::Thinking { text, signature } => {
            let signature = signature.as_deref()?;
            if let Some(data) = signature.strip_prefix(REDACTED) {
                json!({ "type": "redacted_thinking", "data": data })
            } else {
                let signature = signature.strip_prefix(SIGNED)?;
                json!({ "type": "thinking", "thinking": text, "signature": signature })
            }
        }
        Block::ToolUse { id, name, input } => json!({
            "type": "tool_use",
            "id": clean_id(id),
            "name": name,
            "input": input_object(input),
        }),
        Block::ToolResult { id, output, is_error } => json!({
            "type": "tool_result",
            "tool_use_id": clean_id(id),
            "content": output,
            "is_error": is_error,
        }),
    })
}

/// Other vendors' ids may have characters that this API refuses.
fn clean_id(id: &str) -> String {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    id.chars().map(|c| if ok(c) { c } else { '_' }).collect()
}

/// The API wants an object. Text that is none was told to the model as an error, and is kept so
/// that the model sees what it had written.
fn input_object(input: &str) -> Value {
    match serde_json::from_str::<Value>(input) {
        Ok(value @ Value::Object(_)) => value,
        _ if input.trim().is_empty() => Value::Object(Map::new()),
        _ => json!({ "unreadable_input": input }),
    }
}

/// Marks the end of the conversation for the cache. Thinking cannot carry the mark.
fn mark_last(messages: &mut [Value]) {
    let last = messages.last_mut().and_then(|message| message.get_mut("content"));
    let block = last.and_then(Value::as_array_mut).and_then(|blocks| blocks.last_mut());
    if let Some(Value::Object(block)) = block
        && !block.get("type").and_then(Value::as_str).is_some_and(|kind| kind.contains("thinking"))
    {
        block.insert("cache_control".to_owned(), ephemeral());
    }
}

/// Models since 4.6 decide themselves how long to think; older ones get a budget.
fn think(body: &mut Value, model: &str, effort: Effort, max: u32, messages: &[Message]) {
    if version(model) >= (4, 6) {
        body["thinking"] = json!({ "type": "adaptive" });
        body["output_config"] = json!({ "effort": effort.word() });
        return;
    }
    let wanted = match effort {
        Effort::Low => 4096,
        Effort::Medium => 8192,
        Effort::High => 12288,
    };
    let budget = wanted.min(max / 2);
    // With a budget, a turn that is under way must have begun with thinking. One that another
    // model began did not, and goes on without.
    let last = messages.iter().rev().find(|message| message.role == Role::Assistant);
    let uses_tools = |message: &Message| {
        message.blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }))
    };
    let begun_without = last.is_some_and(|message| {
        let first = message.blocks.iter().find_map(encode_block);
        let kind = first.as_ref().and_then(|block| block["type"].as_str()).unwrap_or_default();
        uses_tools(message) && !kind.contains("thinking")
    });
    if budget >= 1024 && version(model) >= (3, 7) && !begun_without {
        body["thinking"] = json!({ "type": "enabled", "budget_tokens": budget });
    }
}

/// `claude-opus-4-6` is 4.6, `claude-sonnet-4-20250514` is 4.0.
fn version(model: &str) -> (u32, u32) {
    let mut numbers = model
        .split(['-', '.', '@'])
        .map(|part| part.parse::<u32>().ok().filter(|_| part.len() <= 2))
        .skip_while(Option::is_none);
    let major = numbers.next().flatten().unwrap_or(0);
    (major, numbers.next().flatten().unwrap_or(0))
}

#[derive(Debug)]
enum Part {
    Text(String),
    Thinking { text: String, signature: String },
    Redacted(String),
    Tool { id: String, name: String, json: String, whole: String },
    Unknown,
}

#[derive(Debug)]
pub(super) struct Decode {
    parts: BTreeMap<u64, Part>,
    usage: Usage,
    model: String,
    id: Option<String>,
    stop: Option<StopReason>,
    ended: bool,
}

impl Decode {
    fn new(model: &str) -> Self {
        Self {
            parts: BTreeMap::new(),
            usage: Usage::default(),
            model: model.to_owned(),
            id: None,
            stop: None,
            ended: false,
        }
    }

    fn count(&mut self, usage: &Value) {
        let set = |bucket: &mut u64, name: &str| {
            if let Some(count) = usage[name].as_u64() {
                *bucket = count;
            }
        };
        set(&mut self.usage.input, "input_tokens");
        set(&mut self.usage.cache_read, "cache_read_input_tokens");
        set(&mut self.usage.cache_write, "cache_creation_input_tokens");
        set(&mut self.usage.output, "output_tokens");
    }

    fn begin(&mut self, index: u64, block: &Value, on: &mut OnDelta<'_>) -> Result<(), ModelError> {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let part = match block["type"].as_str() {
            Some("text") => Part::Text(text("text")),
            Some("thinking") => {
                Part::Thinking { text: text("thinking"), signature: text("signature") }
            }
            Some("redacted_thinking") => Part::Redacted(text("data")),
            Some("tool_use") => {
                // Some compatible servers send the whole input here, and no deltas.
                let whole = block["input"].as_object().filter(|input| !input.is_empty());
                let whole = whole.map(|_| block["input"].to_string()).unwrap_or_default();
                Part::Tool { id: text("id"), name: text("name"), json: String::new(), whole }
            }
            _ => Part::Unknown,
        };
        match &part {
            Part::Text(text) if !text.is_empty() => emit(on, Delta::Text(text))?,
            Part::Thinking { text, .. } if !text.is_empty() => emit(on, Delta::Thinking(text))?,
            Part::Tool { id, name, .. } => emit(on, Delta::ToolInput { id, name, json: "" })?,
            _ => {}
        }
        self.parts.insert(index, part);
        Ok(())
    }

    fn go_on(&mut self, index: u64, delta: &Value, on: &mut OnDelta<'_>) -> Result<(), ModelError> {
        let more = |name: &str| delta[name].as_str().unwrap_or_default();
        match (self.parts.get_mut(&index), delta["type"].as_str()) {
            (Some(Part::Text(text)), Some("text_delta")) => {
                text.push_str(more("text"));
                emit(on, Delta::Text(more("text")))
            }
            (Some(Part::Thinking { text, .. }), Some("thinking_delta")) => {
                text.push_str(more("thinking"));
                emit(on, Delta::Thinking(more("thinking")))
            }
            (Some(Part::Thinking { signature, .. }), Some("signature_delta")) => {
                signature.push_str(more("signature"));
                Ok(())
            }
            (Some(Part::Tool { id, name, json, .. }), Some("input_json_delta")) => {
                let more = more("partial_json");
                json.push_str(more);
                emit(on, Delta::ToolInput { id, name, json: more })
            }
            _ => Ok(()),
        }
    }
}

impl Decoder for Decode {
    fn event(&mut self, event: &Event, on: &mut OnDelta<'_>) -> Result<Progress, ModelError> {
        let Ok(value) = serde_json::from_str::<Value>(&event.data) else {
            return Err(ModelError::StreamCut("an event is not JSON".into()));
        };
        let index = value["index"].as_u64().unwrap_or(0);
        match value["type"].as_str().or(event.name.as_deref()) {
            Some("message_start") => {
                let message = &value["message"];
                self.id = message["id"].as_str().map(str::to_owned);
                if let Some(model) = message["model"].as_str() {
                    model.clone_into(&mut self.model);
                }
                self.count(&message["usage"]);
            }
            Some("content_block_start") => self.begin(index, &value["content_block"], on)?,
            Some("content_block_delta") => self.go_on(index, &value["delta"], on)?,
            Some("message_delta") => {
                if let Some(reason) = value["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop_reason(reason));
                }
                self.count(&value["usage"]);
            }
            Some("message_stop") => {
                self.ended = true;
                return Ok(Progress::Done);
            }
            Some("error") => {
                return Err(failure::from_event(Provider::Anthropic, &value, Timestamp::now()));
            }
            _ => {}
        }
        Ok(Progress::More)
    }

    fn finish(self) -> Result<Reply, ModelError> {
        let (true, Some(stop)) = (self.ended, self.stop) else {
            return Err(ModelError::StreamCut("it ended before message_stop".into()));
        };
        let blocks = self.parts.into_values().filter_map(|part| match part {
            Part::Text(text) if text.is_empty() => None,
            Part::Text(text) => Some(Block::Text { text }),
            Part::Thinking { text, signature } => {
                let signature = Some(signature).filter(|signature| !signature.is_empty());
                let signature = signature.map(|signature| format!("{SIGNED}{signature}"));
                Some(Block::Thinking { text, signature })
            }
            Part::Redacted(data) => {
                let signature = Some(format!("{REDACTED}{data}"));
                Some(Block::Thinking { text: String::new(), signature })
            }
            Part::Tool { id, name, json, whole } => {
                let input =
                    [json, whole, "{}".to_owned()].into_iter().find(|text| !text.is_empty());
                Some(Block::ToolUse { id, name, input: input.unwrap_or_default() })
            }
            Part::Unknown => None,
        });
        let blocks = blocks.collect();
        Ok(Reply { blocks, stop, usage: self.usage, model: self.model, id: self.id })
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" | "stop_sequence" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_names() {
        assert_eq!(version("claude-opus-4-6"), (4, 6));
        assert_eq!(version("claude-sonnet-4-20250514"), (4, 0));
        assert_eq!(version("claude-3-7-sonnet-20250219"), (3, 7));
        assert_eq!(version("claude-haiku-4-5@20251001"), (4, 5));
        assert_eq!(version("something"), (0, 0));
    }

    fn body(effort: Option<Effort>, model: &str, messages: &[Message]) -> Value {
        let request =
            Request { system: "", messages, tools: &[], max_output: None, earlier_replies: 0 };
        encode(model, effort, &request)
    }

    #[test]
    fn thinking_is_asked_for_in_the_models_own_way() {
        let prompt = [Message::user("hi")];
        let old = body(Some(Effort::Low), "claude-sonnet-4-5", &prompt);
        assert_eq!(old["thinking"], json!({ "type": "enabled", "budget_tokens": 4096 }));
        let new = body(Some(Effort::High), "claude-opus-4-7", &prompt);
        assert_eq!(new["thinking"], json!({ "type": "adaptive" }));
        assert_eq!(new["output_config"], json!({ "effort": "high" }));
        assert_eq!(body(None, "claude-opus-4-7", &prompt).get("thinking"), None);
        let tool = Block::ToolUse { id: "a".into(), name: "glob".into(), input: "{}".into() };
        let begun = [Message::user("hi"), Message::assistant(vec![tool])];
        assert_eq!(body(Some(Effort::Low), "claude-sonnet-4-5", &begun).get("thinking"), None);
    }

    #[test]
    fn foreign_blocks_are_made_fit() {
        let foreign = Block::Thinking { text: "t".into(), signature: Some("openai:{}".into()) };
        assert_eq!(encode_block(&foreign), None);
        let call = Block::ToolUse { id: "a.b:1".into(), name: "x".into(), input: "{oops".into() };
        let encoded = encode_block(&call).unwrap();
        assert_eq!(encoded["id"], "a_b_1");
        assert_eq!(encoded["input"], json!({ "unreadable_input": "{oops" }));
        assert_eq!(encode_message(&Message::user(" \n")), None);
        let mixed = Message::results(vec![
            Block::text("and now?"),
            Block::ToolResult { id: "a".into(), output: "o".into(), is_error: false },
        ]);
        assert_eq!(encode_message(&mixed).unwrap()["content"][0]["type"], "tool_result");
    }
}
