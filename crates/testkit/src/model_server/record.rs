//! What the server was asked, and what became of each answer.
//!
//! A request is recorded when it has arrived and before anything is sent back, so a test that waits
//! for it may then act while the answer is still on its way. No secret is ever kept: of headers and
//! query parameters that carry one, only the presence is recorded.
//!
//! The record file holds one JSON line per request, and one more (`{"seq":…,"delivery":…}`) when its
//! answer has ended. [`read_record`] puts them together again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::conversation::Message;
use super::dialect::dialect;

const SECRET_HEADERS: [&str; 7] = [
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
    "chatgpt-account-id",
];
const SECRET_PARAMETERS: [&str; 4] = ["key", "api_key", "access_token", "token"];

/// The vendor API that a request spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Gemini generateContent.
    Gemini,
    /// None that is known.
    Other,
}

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// An answer of the model. Only these take replies from the scenario.
    Generate,
    CountTokens,
    Models,
    /// Opening a WebSocket. Each request that then comes over it is recorded on its own.
    Handshake,
    /// A request over a WebSocket that asks for no answer, only to prepare for one.
    Prewarm,
    /// Nothing that is served: it got a 404.
    Unknown,
}

/// How far the answer got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Still being sent, or held back by a hang.
    Open,
    /// All of it was handed to the connection.
    Complete,
    /// Ended early because the scenario says so.
    Cut,
    /// The client closed the connection first.
    ClientGone,
    /// The server was shut down first.
    ServerStopped,
}

/// One recorded request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// From 1, in the order of arrival.
    pub seq: u64,
    pub time: Timestamp,
    pub method: String,
    pub path: String,
    pub query: Option<String>,
    /// Names in lower case. The values of secret ones are replaced by `present`.
    pub headers: BTreeMap<String, String>,
    pub websocket: bool,
    pub api: Api,
    pub purpose: Purpose,
    pub model: Option<String>,
    /// JSON, or a string if it was none.
    pub body: Value,
    /// Earlier items that a Responses request refers to by `previous_response_id`.
    pub prior: Vec<Value>,
    /// Index of the scenario's reply that it got.
    pub reply: Option<usize>,
    /// The scenario had no reply for it.
    pub unscripted: bool,
    pub delivery: Delivery,
}

impl Request {
    /// The conversation that was sent, without system prompts and instructions.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        dialect(self.api).conversation(&self.body, &self.prior).messages
    }

    /// What user, assistant and tools said, in order. Tool calls and thinking are left out.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        self.messages().iter().filter_map(Message::text).map(str::to_owned).collect()
    }

    /// System prompts, developer messages and instructions.
    #[must_use]
    pub fn system(&self) -> String {
        dialect(self.api).conversation(&self.body, &self.prior).system.join("\n")
    }

    /// The names of the tools offered to the model.
    #[must_use]
    pub fn tools(&self) -> Vec<String> {
        let mut names = Vec::new();
        tool_names(self.body.get("tools").unwrap_or(&Value::Null), &mut names);
        names
    }
}

/// The APIs nest their tools differently (`function`, `functionDeclarations`, Codex namespaces).
fn tool_names(value: &Value, names: &mut Vec<String>) {
    for tool in value.as_array().into_iter().flatten() {
        if let Some(nested) = tool.get("functionDeclarations").or_else(|| tool.get("tools")) {
            tool_names(nested, names);
        } else {
            let named = tool.get("function").unwrap_or(tool);
            // OpenAI's built-in tools have a type and no name.
            let name = named.get("name").or_else(|| named.get("type")).and_then(Value::as_str);
            names.extend(name.map(str::to_owned));
        }
    }
}

pub(super) fn visible_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let name = name.as_str().to_owned();
        if SECRET_HEADERS.contains(&name.as_str()) {
            seen.insert(name, "present".to_owned());
            continue;
        }
        let value = String::from_utf8_lossy(value.as_bytes());
        seen.entry(name)
            .and_modify(|all| {
                all.push_str(", ");
                all.push_str(&value);
            })
            .or_insert_with(|| value.into_owned());
    }
    seen
}

pub(super) fn visible_query(query: &str) -> String {
    let visible = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if SECRET_PARAMETERS.contains(&name) => format!("{name}=present"),
        _ => pair.to_owned(),
    });
    visible.collect::<Vec<_>>().join("&")
}

/// The requests of one server.
#[derive(Debug)]
pub(super) struct Recorder {
    requests: Mutex<Vec<Request>>,
    changed: Condvar,
    file: Option<Mutex<File>>,
    stopping: AtomicBool,
}

impl Recorder {
    pub(super) fn new(file: Option<File>) -> Arc<Self> {
        Arc::new(Self {
            requests: Mutex::default(),
            changed: Condvar::new(),
            file: file.map(Mutex::new),
            stopping: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.lock().clone()
    }

    /// The number that the next request gets.
    pub(super) fn next_seq(&self) -> u64 {
        self.lock().len() as u64 + 1
    }

    /// Records an arrival. The ticket tells how its answer ended.
    pub(super) fn arrived(self: &Arc<Self>, mut request: Request) -> Ticket {
        let mut requests = self.lock();
        let index = requests.len();
        request.seq = index as u64 + 1;
        self.append(&serde_json::to_value(&request).unwrap_or_default());
        requests.push(request);
        self.changed.notify_all();
        Ticket { recorder: Arc::clone(self), index, ended: false }
    }

    fn ended(&self, index: usize, delivery: Delivery) {
        let mut requests = self.lock();
        if let Some(request) = requests.get_mut(index) {
            request.delivery = delivery;
            self.append(&json!({ "seq": request.seq, "delivery": delivery }));
        }
        self.changed.notify_all();
    }

    fn append(&self, line: &Value) {
        let Some(file) = &self.file else { return };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(e) = file.write_all(format!("{line}\n").as_bytes()) {
            eprintln!("model server: cannot append to the record file: {e}");
        }
    }

    pub(super) fn stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Waits until the requests satisfy the condition. Returns them, and whether they did in time.
    pub(super) fn wait(
        &self,
        timeout: Duration,
        mut done: impl FnMut(&[Request]) -> bool,
    ) -> (Vec<Request>, bool) {
        let deadline = Instant::now() + timeout;
        let mut requests = self.lock();
        loop {
            if done(&requests) {
                return (requests.clone(), true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (requests.clone(), false);
            }
            let waited = self.changed.wait_timeout(requests, left);
            requests = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Held by whatever sends an answer. Dropped before the end, it means that the connection went away.
#[derive(Debug)]
pub(super) struct Ticket {
    recorder: Arc<Recorder>,
    index: usize,
    ended: bool,
}

impl Ticket {
    pub(super) fn end(&mut self, delivery: Delivery) {
        if !self.ended {
            self.ended = true;
            self.recorder.ended(self.index, delivery);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let stopping = self.recorder.stopping.load(Ordering::Acquire);
        self.end(if stopping { Delivery::ServerStopped } else { Delivery::ClientGone });
    }
}

/// Reads a record file back, also while its server still appends to it.
///
/// # Errors
/// When the file cannot be read, or a line that is not the torn last one is no record.
pub fn read_record(path: &Path) -> io::Result<Vec<Request>> {
    #[derive(Deserialize)]
    struct End {
        seq: u64,
        delivery: Delivery,
    }
    let text = std::fs::read_to_string(path)?;
    let mut requests: Vec<Request> = Vec::new();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let value: Value = serde_json::from_str(line)?;
        if value.get("method").is_some() {
            requests.push(serde_json::from_value(value)?);
        } else {
            let end: End = serde_json::from_value(value)?;
            if let Some(request) = requests.iter_mut().find(|r| r.seq == end.seq) {
                request.delivery = end.delivery;
            }
        }
    }
    Ok(requests)
}
