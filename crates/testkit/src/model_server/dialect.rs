//! What the four APIs have in common: each turns a reply into frames, a failure into its vendor's
//! status, headers and body, and a request body into a conversation.

use jiff::Timestamp;
use serde_json::Value;

use super::conversation::Conversation;
use super::record::Api;
use super::scenario::{Fault, Reply, Reset};
use super::{anthropic, chat, gemini, responses};

/// How the frames of one answer travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// No streaming: one JSON document.
    Whole,
    Sse,
    /// Gemini's streaming without `alt=sse`: a JSON array that grows.
    JsonArray,
    WebSocket,
}

/// The request that is being answered.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// Unique over all servers of a test, for ids that end up in one conversation.
    pub(super) tag: String,
    pub(super) model: String,
    pub(super) body: &'a Value,
    pub(super) wire: Wire,
    pub(super) now: Timestamp,
}

impl Call<'_> {
    pub(super) fn seconds(&self) -> i64 {
        self.now.as_second()
    }
}

/// One event of a stream.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) event: Option<String>,
    pub(super) data: String,
}

impl Frame {
    /// An event whose SSE name repeats its `type`.
    pub(super) fn named(data: &Value) -> Self {
        Self {
            event: data.get("type").and_then(Value::as_str).map(str::to_owned),
            data: data.to_string(),
        }
    }

    pub(super) fn plain(data: impl ToString) -> Self {
        Self { event: None, data: data.to_string() }
    }
}

/// When a limit ends, both ways that vendors say it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    pub(super) at: i64,
    pub(super) seconds: i64,
}

impl Until {
    pub(super) fn from_now(seconds: i64, now: i64) -> Self {
        Self { at: now + seconds, seconds }
    }

    fn new(reset: Reset, now: i64) -> Self {
        match reset {
            Reset::At(at) => Self { at, seconds: (at - now).max(0) },
            Reset::In(seconds) => Self::from_now(seconds, now),
        }
    }

    pub(super) fn timestamp(self) -> String {
        Timestamp::from_second(self.at).unwrap_or(Timestamp::MAX).to_string()
    }
}

/// A failure that is an answer of its own, with a status and a body.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    RateLimit(Option<Until>),
    UsageLimit(Option<Until>),
    ServerError,
    Overloaded,
    ContextExhausted,
    Unauthorized,
    NotFound(String),
}

impl Failure {
    /// `None` for faults that break off the reply instead of replacing it.
    pub(super) fn of(fault: &Fault, call: &Call<'_>) -> Option<Self> {
        let until = |reset: &Option<Reset>| reset.map(|r| Until::new(r, call.seconds()));
        match fault {
            Fault::RateLimit { reset } => Some(Self::RateLimit(until(reset))),
            Fault::UsageLimit { reset } => Some(Self::UsageLimit(until(reset))),
            Fault::ServerError => Some(Self::ServerError),
            Fault::Overloaded => Some(Self::Overloaded),
            Fault::ContextExhausted => Some(Self::ContextExhausted),
            Fault::Unauthorized => Some(Self::Unauthorized),
            Fault::StreamError { .. } if call.wire == Wire::Whole => Some(Self::Overloaded),
            Fault::StreamError { .. } | Fault::Cut { .. } | Fault::Hang { .. } => None,
        }
    }
}

/// A vendor's way to say no.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

/// One vendor API.
pub(super) trait Dialect: Sync {
    fn conversation(&self, body: &Value, prior: &[Value]) -> Conversation;

    /// The reply without streaming.
    fn whole(&self, reply: &Reply, call: &Call<'_>) -> Value;

    /// The reply as a stream. Whoever leaves out the last frame has an unfinished stream.
    fn stream(&self, reply: &Reply, call: &Call<'_>) -> Vec<Frame>;

    fn refuse(&self, failure: &Failure, call: &Call<'_>) -> Refusal;

    /// The same refusal as an event inside a stream.
    fn error_frame(&self, refusal: &Refusal, call: &Call<'_>) -> Frame;

    /// The frames of failures that this API reports in a stream with status 200.
    fn streamed_failure(&self, _failure: &Failure, _call: &Call<'_>) -> Option<Vec<Frame>> {
        None
    }
}

pub(super) fn dialect(api: Api) -> &'static dyn Dialect {
    match api {
        Api::Anthropic => &anthropic::Anthropic,
        Api::Responses => &responses::Responses,
        Api::Chat | Api::Other => &chat::Chat,
        Api::Gemini => &gemini::Gemini,
    }
}

/// Cuts a text into the pieces in which it is streamed. Together they are the text.
///
/// At least two for anything longer than a character, so that every stream has a middle to be cut in.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let size = (text.len() / 2).clamp(1, 24).max(text.len() / 64);
    let mut rest = text;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let mut end = size.min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, tail) = rest.split_at(end);
        pieces.push(piece);
        rest = tail;
    }
    pieces
}
