//! Any agent that speaks the Agent Client Protocol on its standard streams: `acp:<command>`.
//!
//! One process is one turn: `initialize`, then a session that is new, resumed, loaded or forked,
//! then its permissions and its model, one `session/prompt`, and the end of our input. The id is
//! never ours to choose. Every request has an id of its own, whichever came before it, so that a
//! stream that is read again means the same.
//!
//! | module | what it is |
//! | --- | --- |
//! | `entry` | the way to the prompt |
//! | `turn` | what the agent tells, asks and ends with |
//! | `tools` | its calls, put together from pieces |
//! | `permission` | what it may do |
//! | `trouble`, `usage` | errors and tokens, which every agent tells in its own way |
//!
//! What is told before the prompt was sent is not this turn's. Gemini CLI goes on to replay a
//! loaded session after it has said that it is loaded; setting the mode is what is waited for.

mod entry;
mod permission;
mod tools;
mod trouble;
mod turn;
mod usage;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_client_protocol_schema::{
    ProtocolVersion,
    rpc::{JsonRpcMessage, Notification, Request, RequestId},
    v1 as acp,
};
use segue_core::{
    Permission,
    usage::{Micros, Usage},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use self::tools::Calls;
use super::{
    Abilities, Call, Card, Conversation, Dialogue, Heard, History, Job, Opening, SignIn,
    ToolServer, Trouble, Unreadable, Vendor, World,
    exec::{by_shell, first_word},
    json::Text,
};

#[derive(Clone, Debug)]
pub struct Acp {
    command: String,
}

impl Acp {
    /// For a command line as a shell understands it.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into() }
    }
}

impl Vendor for Acp {
    fn card(&self) -> Card {
        Card {
            name: format!("acp:{}", self.command),
            alias: None,
            title: "An agent over ACP",
            programs: &["sh"],
            install: "",
            sign_in: "",
            tested: None,
            // Whether it can resume and fork is known when it has answered.
            can: Abilities {
                own_id: false,
                resume: true,
                fork: true,
                acp: true,
                cost: false,
                permission: true,
                tools: true,
                rewind: false,
            },
            stop_signal: 15,
            argument_limit: None,
        }
    }

    fn looks_for(&self) -> Vec<String> {
        vec![first_word(&self.command).to_owned()]
    }

    fn signed_in(&self, _world: &World) -> SignIn {
        SignIn::Unknown
    }

    fn terms(&self, permission: Permission) -> &'static str {
        match permission {
            Permission::ReadOnly => "what it asks for is answered: no edits, no commands",
            Permission::Edit => "what it asks for is answered: edits in the workspace, no commands",
            Permission::Full => "what it asks for is allowed",
        }
    }

    fn call(&self, job: &Job<'_>) -> Call {
        let mut call = by_shell(&self.command, job.extra);
        // It never asks unless it is told to, and it has no mode for that.
        let opencode = Path::new(first_word(&self.command)).ends_with("opencode");
        match job.permission {
            Permission::ReadOnly if opencode => {
                call.env("OPENCODE_PERMISSION", r#"{"edit":"deny","bash":"deny"}"#);
            }
            Permission::Edit if opencode => {
                call.env("OPENCODE_PERMISSION", r#"{"edit":"ask","bash":"deny"}"#);
            }
            _ => {}
        }
        call
    }

    fn dialogue(&self, job: &Job<'_>) -> Box<dyn Dialogue> {
        Box::new(Talk::new(job))
    }

    /// Where an unknown vendor keeps its sessions is not known either.
    fn history(&self, _world: &World, _cwd: &Path, _id: &str) -> io::Result<Option<History>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The ids of our requests.
mod number {
    pub(super) const INITIALIZE: i64 = 1;
    pub(super) const SESSION: i64 = 2;
    pub(super) const MODE: i64 = 3;
    pub(super) const MODEL: i64 = 4;
    pub(super) const PROMPT: i64 = 5;
    /// And those after it, one for each page.
    pub(super) const LIST: i64 = 10;
}

/// Any message: a request, a notification or an answer.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    method: Text<'a>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update<'a> {
    #[serde(borrow)]
    session_id: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    update: &'a RawValue,
}

#[derive(Debug)]
enum Wanted {
    New,
    Resume(String),
    Fork(String),
}

impl Wanted {
    fn id(&self) -> &str {
        match self {
            Self::New => "",
            Self::Resume(id) | Self::Fork(id) => id,
        }
    }
}

/// What the agent said about itself.
#[derive(Debug, Default)]
struct Agent {
    name: String,
    can: acp::AgentCapabilities,
    sign_in: String,
}

/// A text or a thought whose pieces are still coming.
#[derive(Debug, Default)]
struct Open {
    text: String,
    thought: bool,
    message: Option<acp::MessageId>,
    /// Where the last piece begins.
    last: usize,
}

#[derive(Debug)]
struct Talk {
    prompt: String,
    cwd: PathBuf,
    wanted: Wanted,
    permission: Permission,
    model: Option<String>,
    /// Our own tools.
    tools: Vec<acp::McpServer>,
    agent: Agent,
    session: Option<acp::SessionId>,
    /// A request that has to be answered before the prompt: its id and its words.
    before: Vec<(i64, &'static str, Value)>,
    prompted: bool,
    cancelled: bool,
    ended: bool,
    open: Open,
    calls: Calls,
    refused: bool,
    reported: Usage,
    cost: Option<Micros>,
    /// Tokens in the context, and how many fit.
    context: (u64, u64),
    /// What is said to be wrong with the session, where that is not an answer to the prompt.
    broken: Option<Trouble>,
    retried: Option<Trouble>,
    /// Why the session could not be had, while the agent is asked whether it has it.
    unsure: Option<Trouble>,
}

impl Talk {
    fn new(job: &Job<'_>) -> Self {
        Self {
            prompt: job.prompt.to_owned(),
            cwd: job.cwd.to_owned(),
            wanted: match job.conversation {
                Conversation::New { .. } => Wanted::New,
                Conversation::Resume { id } => Wanted::Resume(id.to_owned()),
                Conversation::Fork { from, .. } => Wanted::Fork(from.to_owned()),
            },
            permission: job.permission,
            model: job.model.map(str::to_owned),
            tools: job.tools.map(server).into_iter().collect(),
            agent: Agent::default(),
            session: None,
            before: Vec::new(),
            prompted: false,
            cancelled: false,
            ended: false,
            open: Open::default(),
            calls: Calls::default(),
            refused: false,
            reported: Usage::default(),
            cost: None,
            context: (0, 0),
            broken: None,
            retried: None,
            unsure: None,
        }
    }
}

impl Dialogue for Talk {
    fn open(&mut self) -> Opening {
        let can = acp::ClientCapabilities::new().session(
            // Otherwise notices come as if the agent had said them.
            acp::ClientSessionCapabilities::new().notices(acp::NoticeCapabilities::new()),
        );
        let us = acp::Implementation::new("segue", env!("CARGO_PKG_VERSION"));
        let hello = acp::InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(can)
            .client_info(us);
        let mut heard = Heard::default();
        ask(number::INITIALIZE, "initialize", hello, &mut heard);
        Opening { bytes: heard.say, close: false }
    }

    fn line(&mut self, line: &[u8], heard: &mut Heard) -> Result<(), Unreadable> {
        let message: Message<'_> = serde_json::from_slice(line)?;
        match (message.method.as_deref(), message.id) {
            (Some("session/update"), None) => self.update(message.params, heard),
            (Some("session/request_permission"), Some(id)) => {
                self.permission(id, message.params, heard);
            }
            (Some(_), Some(id)) => {
                let error = acp::Error::method_not_found();
                say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }), heard);
            }
            (Some(_), None) => {}
            (None, Some(id)) => self.answered(id, &message, heard),
            // An error without an id: it could not read what we said.
            (None, None) if message.error.is_some() => {}
            (None, None) => return Err(Unreadable),
        }
        Ok(())
    }

    fn cancel(&mut self, heard: &mut Heard) {
        self.cancelled = true;
        if let Some(session) = self.session.clone().filter(|_| self.prompted && !self.ended) {
            let params = Some(acp::CancelNotification::new(session));
            let method = Arc::from("session/cancel");
            say(&JsonRpcMessage::wrap(Notification { method, params }), heard);
        }
    }
}

fn server(tools: ToolServer<'_>) -> acp::McpServer {
    let server = acp::McpServerStdio::new(ToolServer::NAME, tools.program);
    acp::McpServer::Stdio(server.args(tools.args.to_vec()))
}

fn ask<P: Serialize>(id: i64, method: &str, params: P, heard: &mut Heard) {
    let (id, method) = (RequestId::Number(id), Arc::from(method));
    say(&JsonRpcMessage::wrap(Request { id, method, params: Some(params) }), heard);
}

fn say<M: Serialize>(message: &M, heard: &mut Heard) {
    if let Ok(line) = serde_json::to_string(message) {
        heard.say_line(&line);
    }
}

fn parse<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

fn bad(message: &str) -> Trouble {
    Trouble::BadRequest { status: 0, message: message.to_owned() }
}

fn gone(message: &str) -> Trouble {
    Trouble::SessionGone(message.to_owned())
}
