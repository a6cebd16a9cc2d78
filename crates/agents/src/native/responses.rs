//! The `OpenAI` Responses API, without server-side state.
//!
//! Nothing is stored at the vendor (`store: false`), so reasoning comes back encrypted and is
//! sent again with the conversation: a block's signature holds the whole item. The last event of
//! a stream is `response.completed` or `response.incomplete`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use segue_core::usage::Usage;
use serde_json::{Value, json};

use super::api::Dialect;
use super::failure;
use super::http::{Decoder, Progress};
use super::message::{Block, Message, Reply, Role, StopReason};
use super::model::{Delta, ModelError, OnDelta, Request, emit};
use super::settings::{Effort, Provider};
use super::sse::Event;

const ITEM: &str = "openai:";

/// The Responses API.
pub(super) struct Responses;

impl Dialect for Responses {
    const PROVIDER: Provider = Provider::OpenAi;
    const PATH: &'static str = "/responses";
    const KEY: (&'static str, &'static str) = ("authorization", "Bearer ");
    const CONTEXT: u64 = 128_000;
    type Decode = Decode;

    fn encode(model: &str, effort: Option<Effort>, request: &Request<'_>) -> Value {
        encode(model, effort, request)
    }

    fn decode(model: &str, _: &Request<'_>) -> Decode {
        Decode::new(model)
    }
}

fn encode(model: &str, effort: Option<Effort>, request: &Request<'_>) -> Value {
    let input: Vec<Value> = request.messages.iter().flat_map(encode_message).collect();
    let mut body = json!({
        "model": model,
        "input": input,
        "stream": true,
        "store": false,
    });
    if reasons(model) {
        body["include"] = json!(["reasoning.encrypted_content"]);
        if let Some(effort) = effort {
            body["reasoning"] = json!({ "effort": effort.word() });
        }
    }
    if !request.system.is_empty() {
        body["instructions"] = request.system.into();
    }
    if let Some(max) = request.max_output {
        body["max_output_tokens"] = max.into();
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
                // Strict is the default here, and would make every optional argument required.
                "strict": false,
            })
        });
        body["tools"] = tools.collect();
    }
    body
}

/// Models that do not reason refuse a request for encrypted reasoning.
fn reasons(model: &str) -> bool {
    !["gpt-3", "gpt-4", "chatgpt-4"].into_iter().any(|prefix| model.starts_with(prefix))
}

fn encode_message(message: &Message) -> Vec<Value> {
    let mut items: Vec<Value> = message
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } if text.is_empty() => None,
            Block::Text { text } => Some(match message.role {
                Role::User => json!({
                    "type": "message",
                    "role": "user",
                    "content": [{ "type": "input_text", "text": text }],
                }),
                Role::Assistant => json!({
                    "type": "message",
                    "role": "assistant",
                    "content": [{ "type": "output_text", "text": text }],
                }),
            }),
            Block::Thinking { signature, .. } => {
                serde_json::from_str(signature.as_deref()?.strip_prefix(ITEM)?).ok()
            }
            Block::ToolUse { id, name, input } => Some(json!({
                "type": "function_call",
                "call_id": id,
                "name": name,
                "arguments": input,
            })),
            Block::ToolResult { id, output, is_error } => Some(json!({
                "type": "function_call_output",
                "call_id": id,
                "output": result_text(output, *is_error),
            })),
        })
        .collect();
    // Reasoning that nothing followed (the answer hit its token limit) is refused by the API.
    while items.last().is_some_and(|item| item["type"] == "reasoning") {
        items.pop();
    }
    items
}

/// These APIs have no field for a failed tool, so the text says it.
pub(super) fn result_text(output: &str, is_error: bool) -> String {
    if is_error { format!("error: {output}") } else { output.to_owned() }
}

/// Usage as OpenAI counts it, with the overlaps taken out: its input includes what was cached,
/// its output what was reasoned.
pub(super) fn buckets(input: u64, cached: u64, output: u64, reasoning: u64) -> Usage {
    Usage {
        input: input.saturating_sub(cached),
        cache_read: cached,
        cache_write: 0,
        // A server that counts reasoning apart would go below zero here.
        output: output.checked_sub(reasoning).unwrap_or(output),
        reasoning,
    }
}

#[derive(Debug)]
pub(super) struct Decode {
    items: BTreeMap<u64, Value>,
    /// Id and name of the calls under way, for their deltas.
    calls: BTreeMap<u64, (String, String)>,
    model: String,
    last: Option<Value>,
}

impl Decode {
    fn new(model: &str) -> Self {
        let model = model.to_owned();
        Self { items: BTreeMap::new(), calls: BTreeMap::new(), model, last: None }
    }

    /// Deltas are only for those who watch: the reply is made of whole items.
    fn show(
        &mut self,
        kind: &str,
        index: u64,
        value: &Value,
        on: &mut OnDelta<'_>,
    ) -> Result<(), ModelError> {
        let delta = value["delta"].as_str().unwrap_or_default();
        match kind {
            "response.output_item.added" if value["item"]["type"] == "function_call" => {
                let text = |name: &str| value["item"][name].as_str().unwrap_or_default().to_owned();
                let (id, name) = (text("call_id"), text("name"));
                emit(on, Delta::ToolInput { id: &id, name: &name, json: "" })?;
                self.calls.insert(index, (id, name));
                Ok(())
            }
            "response.output_text.delta" | "response.refusal.delta" => emit(on, Delta::Text(delta)),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                emit(on, Delta::Thinking(delta))
            }
            "response.function_call_arguments.delta" => match self.calls.get(&index) {
                Some((id, name)) => emit(on, Delta::ToolInput { id, name, json: delta }),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl Decoder for Decode {
    fn event(&mut self, event: &Event, on: &mut OnDelta<'_>) -> Result<Progress, ModelError> {
        // Some compatible servers add the end mark of the other API.
        if event.data == "[DONE]" {
            return Ok(Progress::More);
        }
        let Ok(value) = serde_json::from_str::<Value>(&event.data) else {
            return Err(ModelError::StreamCut("an event is not JSON".into()));
        };
        let index = value["output_index"].as_u64().unwrap_or(0);
        let kind = value["type"].as_str().or(event.name.as_deref()).unwrap_or_default();
        match kind {
            "response.output_item.done" => {
                self.items.insert(index, value["item"].clone());
            }
            "response.completed" | "response.incomplete" => {
                self.last = Some(value["response"].clone());
                return Ok(Progress::Done);
            }
            "response.failed" => {
                let response = &value["response"];
                return Err(failure::from_event(Provider::OpenAi, response, Timestamp::now()));
            }
            "error" => {
                return Err(failure::from_event(Provider::OpenAi, &value, Timestamp::now()));
            }
            _ => self.show(kind, index, &value, on)?,
        }
        Ok(Progress::More)
    }

    fn finish(self) -> Result<Reply, ModelError> {
        let Some(response) = self.last else {
            return Err(ModelError::StreamCut("it ended before response.completed".into()));
        };
        let mut items: Vec<Value> = self.items.into_values().collect();
        if items.is_empty() {
            items = response["output"].as_array().cloned().unwrap_or_default();
        }
        let mut blocks = Vec::new();
        let mut refused = false;
        for item in &items {
            refused |= read_item(item, &mut blocks);
        }
        let uses_tools = blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }));
        let stop = match response["incomplete_details"]["reason"].as_str() {
            Some("max_output_tokens") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::Refusal,
            Some(other) => StopReason::Other(other.to_owned()),
            None if refused => StopReason::Refusal,
            None if uses_tools => StopReason::ToolUse,
            None => StopReason::EndTurn,
        };
        let usage = &response["usage"];
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        Ok(Reply {
            blocks,
            stop,
            usage: buckets(
                count(&usage["input_tokens"]),
                count(&usage["input_tokens_details"]["cached_tokens"]),
                count(&usage["output_tokens"]),
                count(&usage["output_tokens_details"]["reasoning_tokens"]),
            ),
            model: response["model"].as_str().map_or(self.model, str::to_owned),
            id: response["id"].as_str().map(str::to_owned),
        })
    }
}

/// Adds an item's blocks; says whether it is a refusal.
fn read_item(item: &Value, blocks: &mut Vec<Block>) -> bool {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let mut refused = false;
    match item["type"].as_str() {
        Some("message") => {
            for part in item["content"].as_array().into_iter().flatten() {
                refused |= part["type"] == "refusal";
                let said = part["text"].as_str().or(part["refusal"].as_str()).unwrap_or_default();
                if !said.is_empty() {
                    blocks.push(Block::text(said));
                }
            }
        }
        Some("function_call") => {
            let mut input = text("arguments");
            if input.is_empty() {
                "{}".clone_into(&mut input);
            }
            blocks.push(Block::ToolUse { id: text("call_id"), name: text("name"), input });
        }
        Some("reasoning") => {
            let parts = |name: &str| item[name].as_array().cloned().unwrap_or_default();
            let mut said = parts("summary");
            if said.is_empty() {
                said = parts("content");
            }
            let said: Vec<_> = said.iter().filter_map(|part| part["text"].as_str()).collect();
            blocks.push(Block::Thinking { text: said.join("\n\n"), signature: keep(item) });
        }
        _ => {}
    }
    refused
}

/// What to send back of a reasoning item. Without its encrypted content the vendor would look for
/// the item in its own store, where it is not.
fn keep(item: &Value) -> Option<String> {
    item["encrypted_content"].as_str()?;
    let kept = json!({
        "type": "reasoning",
        "id": item["id"],
        "summary": item["summary"].as_array().cloned().unwrap_or_default(),
        "encrypted_content": item["encrypted_content"],
    });
    Some(format!("{ITEM}{kept}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_do_not_overlap() {
        let usage = buckets(1000, 600, 300, 200);
        let expected =
            Usage { input: 400, cache_read: 600, cache_write: 0, output: 100, reasoning: 200 };
        assert_eq!(usage, expected);
        assert_eq!(usage.total(), 1300);
        assert_eq!(buckets(1, 2, 3, 4).output, 3);
    }

    #[test]
    fn models_that_do_not_reason_are_not_asked_to() {
        let messages = [Message::user("hi")];
        let request = Request {
            system: "",
            messages: &messages,
            tools: &[],
            max_output: Some(9),
            earlier_replies: 0,
        };
        let old = encode("gpt-4.1", Some(Effort::Low), &request);
        assert_eq!((old.get("include"), old.get("reasoning")), (None, None));
        let new = encode("gpt-5.1", Some(Effort::Low), &request);
        assert_eq!(new["include"], json!(["reasoning.encrypted_content"]));
        assert_eq!(new["reasoning"]["effort"], "low");
        assert_eq!(new["max_output_tokens"], 9);
    }

    #[test]
    fn reasoning_without_a_follower_stays_behind() {
        let item = json!({ "type": "reasoning", "id": "rs", "encrypted_content": "e" });
        let thought = Block::Thinking { text: String::new(), signature: keep(&item) };
        let alone = Message::assistant(vec![thought.clone()]);
        assert_eq!(encode_message(&alone), Vec::<Value>::new());
        let followed = Message::assistant(vec![thought, Block::text("so")]);
        assert_eq!(encode_message(&followed)[0]["encrypted_content"], "e");
        assert_eq!(keep(&json!({ "type": "reasoning", "id": "rs" })), None);
    }
}
