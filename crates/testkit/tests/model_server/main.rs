//! The scripted model server as its clients see it.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

mod apis;
mod faults;
mod program;
mod recording;
mod websocket;

use std::io::Read;
use std::time::Duration;

use segue_testkit::model_server::{ModelServer, Reply, Scenario, Usage};
use serde_json::{Value, json};

/// Only a broken server is that slow.
const LONG: Duration = Duration::from_secs(30);

const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const CHAT: &str = "/v1/chat/completions";
const GEMINI: &str = "/v1beta/models/gem:generateContent";
const GEMINI_SSE: &str = "/v1beta/models/gem:streamGenerateContent?alt=sse";

fn serve(scenario: Scenario) -> ModelServer {
    ModelServer::start(scenario).unwrap()
}

fn one(reply: Reply) -> ModelServer {
    serve(Scenario::new().reply(reply))
}

/// What one HTTP exchange gave. `whole` is false if the body broke off.
struct Got {
    status: u16,
    headers: ureq::http::HeaderMap,
    text: String,
    whole: bool,
}

impl Got {
    fn json(&self) -> Value {
        assert!(self.whole, "the body broke off: {}", self.text);
        serde_json::from_str(&self.text).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    /// The JSON data of the SSE events.
    fn events(&self) -> Vec<Value> {
        let data = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|d| *d != "[DONE]").map(|d| serde_json::from_str(d).unwrap()).collect()
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder();
    config.http_status_as_error(false).timeout_global(Some(LONG)).build().into()
}

fn post(server: &ModelServer, path: &str, body: &Value) -> Got {
    let request = agent().post(format!("{}{path}", server.url()));
    let sent = request.content_type("application/json").send(body.to_string());
    let (parts, body) = sent.unwrap().into_parts();
    let mut bytes = Vec::new();
    let whole = body.into_reader().read_to_end(&mut bytes).is_ok();
    let text = String::from_utf8(bytes).unwrap();
    Got { status: parts.status.as_u16(), headers: parts.headers, text, whole }
}

fn anthropic(text: &str, stream: bool) -> Value {
    let messages = json!([{ "role": "user", "content": text }]);
    json!({ "model": "claude-x", "max_tokens": 9, "stream": stream, "messages": messages })
}

fn responses(text: &str, stream: bool) -> Value {
    json!({ "model": "gpt-x", "stream": stream, "input": [{ "type": "message", "role": "user",
        "content": [{ "type": "input_text", "text": text }] }] })
}

fn chat(text: &str, stream: bool) -> Value {
    json!({ "model": "gpt-x", "stream": stream, "stream_options": { "include_usage": true },
        "messages": [{ "role": "user", "content": text }] })
}

fn gemini(text: &str) -> Value {
    json!({ "contents": [{ "role": "user", "parts": [{ "text": text }] }] })
}

/// Path and body of a request to each API, streaming or not.
fn asks(text: &str, stream: bool) -> [(&'static str, Value); 4] {
    [
        (MESSAGES, anthropic(text, stream)),
        (RESPONSES, responses(text, stream)),
        (CHAT, chat(text, stream)),
        (if stream { GEMINI_SSE } else { GEMINI }, gemini(text)),
    ]
}

/// A reply that uses everything that a reply can have.
fn rich() -> Reply {
    let usage = Usage { input: 100, output: 20, cache_read: 30, cache_write: 4, reasoning: 5 };
    Reply::text("The quick brown fox: ünï.")
        .thinking("Let me think about it.")
        .and_tool("shell", json!({ "command": "echo \"hi\"" }))
        .usage(usage)
}

/// Puts the strings at one place of all events together.
fn gather(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|e| e.pointer(pointer).and_then(Value::as_str)).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    kinds.dedup();
    kinds
}
