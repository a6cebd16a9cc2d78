//! What a model is to the agent, and every way in which a call can fail.
//!
//! A call either gives a whole [`Reply`] or an error; it never hangs for ever and never gives a
//! part. The kinds of error are told apart by structured fields (HTTP status, error type,
//! headers), never by words in a message, because the caller stops, waits or fails over on them.

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::message::{Message, Reply};
use super::tools::ToolSpec;

/// What a model is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub system: &'a str,
    pub messages: &'a [Message],
    pub tools: &'a [ToolSpec],
    /// The most tokens to answer with; without it, what suits the model.
    pub max_output: Option<u32>,
    /// How many replies came before `messages`, where the start of the conversation is left out.
    pub earlier_replies: u64,
}

/// What is seen while the model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delta<'a> {
    Text(&'a str),
    Thinking(&'a str),
    /// The next part of a tool call's JSON.
    ToolInput {
        id: &'a str,
        name: &'a str,
        json: &'a str,
    },
    /// The provider's data as it came, for the stream file; before what was read from it.
    Raw(&'a str),
    /// Nothing came for a moment; here so that a silent call can be cancelled too.
    Idle,
}

/// Sees each delta; `Break` cancels the call.
pub type OnDelta<'a> = dyn FnMut(Delta<'_>) -> ControlFlow<()> + 'a;

/// Something that answers.
pub trait Model: Send + fmt::Debug {
    /// Provider and model, e.g. `anthropic/claude-sonnet-4-5`.
    fn name(&self) -> &str;

    /// How many tokens the whole conversation may have.
    fn context_tokens(&self) -> u64;

    /// Blocks until the reply is whole, the call failed or `on` broke it off.
    ///
    /// # Errors
    /// See [`ModelError`]; nothing of a failed call counts as said.
    fn call(&mut self, request: &Request<'_>, on: &mut OnDelta<'_>) -> Result<Reply, ModelError>;
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A rate limit or a quota.
    #[error("limit reached: {message}")]
    Limit {
        message: String,
        resets_at: Option<Timestamp>,
        retry_after: Option<Duration>,
        /// The account's quota or money is spent: waiting a little does not help.
        quota: bool,
    },
    #[error("the model is overloaded: {message}")]
    Overloaded { message: String, retry_after: Option<Duration> },
    /// `status` is the HTTP status, or the one that an error inside the stream stands for.
    #[error("the model's server failed ({status}): {message}")]
    Server { status: u16, message: String },
    #[error("cannot reach the model: {0}")]
    Network(String),
    /// The answer ended before its last event.
    #[error("the answer was cut off: {0}")]
    StreamCut(String),
    #[error("the conversation is too long for the model: {0}")]
    ContextExhausted(String),
    #[error("not signed in: {message}; {fix}")]
    NotSignedIn { message: String, fix: String },
    /// `status` is 0 where it was not a model's server that refused it.
    #[error("{}: {message}", refused(*status))]
    BadRequest { status: u16, message: String },
    /// The vendor knows no session of that id.
    #[error("there is no such session: {0}")]
    SessionGone(String),
    #[error("cancelled")]
    Cancelled,
    #[error("{}: {message}", file.display())]
    Script { file: PathBuf, message: String },
}

fn refused(status: u16) -> String {
    match status {
        0 => "the agent's program failed".to_owned(),
        status => format!("the model refused the request ({status})"),
    }
}

impl ModelError {
    /// Whether the same call may well succeed a little later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Limit { quota, .. } => !quota,
            Self::Overloaded { .. }
            | Self::Server { .. }
            | Self::Network(_)
            | Self::StreamCut(_) => true,
            _ => false,
        }
    }

    /// How long the vendor asked to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Limit { retry_after, .. } | Self::Overloaded { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Hands a delta on, and turns a `Break` into an error that `?` can carry up.
pub(super) fn emit(on: &mut OnDelta<'_>, delta: Delta<'_>) -> Result<(), ModelError> {
    match on(delta) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ModelError::Cancelled),
    }
}
