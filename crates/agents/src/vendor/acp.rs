//! Any agent that speaks the Agent Client Protocol on its standard streams: `acp:<command>`.
//!
//! One process is one turn: `initialize`, then a session that is new, resumed, loaded or forked,
//! then its permissions and its model, one `session/prompt`, and the end of our input. The id is
//! never ours to choose. Every request has an id of its own, whichever came before it, so that a
//! stream that is read again means the same.
//!
//! What is told before the prompt was sent is not this turn's. Gemini CLI goes on to replay a
//! loaded session after it has said that it is loaded; setting the mode is what is waited for.

mod permission;
mod tools;
mod trouble;
mod usage;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_client_protocol_schema::{
    ProtocolVersion,
    rpc::{JsonRpcMessage, Notification, Request, RequestId},
    v1::{self as acp, SessionUpdate},
};
use segue_core::{
    Permission,
    usage::{Micros, Usage},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use self::tools::Calls;
use super::{
    Abilities, Call, Card, Conversation, Dialogue, Ending, Heard, History, Job, Opening, SignIn,
    Signal, Trouble, Unreadable, Vendor, World,
    exec::{by_shell, first_word},
    json::{Text, at, text},
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
mod ask {
    pub(super) const INITIALIZE: i64 = 1;
    pub(super) const SESSION: i64 = 2;
    pub(super) const MODE: i64 = 3;
    pub(super) const MODEL: i64 = 4;
    pub(super) const PROMPT: i64 = 5;
    /// And those after it, one for each page.
    pub(super) const LIST: i64 = 10;
}

/// More sessions than this many pages have are not looked through.
const MOST_PAGES: i64 = 100;

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
        ask(ask::INITIALIZE, "initialize", hello, &mut heard);
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

/// The way to the prompt.
impl Talk {
    fn answered(&mut self, id: &RawValue, message: &Message<'_>, heard: &mut Heard) {
        let Ok(id) = id.get().parse::<i64>() else { return };
        if self.ended {
            return;
        }
        if let Some(error) = message.error {
            let error = serde_json::from_str(error.get());
            return self.failed(id, &error.unwrap_or_else(|_| acp::Error::internal_error()), heard);
        }
        match id {
            ask::INITIALIZE => self.greeted(parse(message.result), heard),
            ask::SESSION => self.entered(message.result, heard),
            ask::MODE | ask::MODEL => self.next(heard),
            ask::PROMPT => self.finished(parse(message.result), heard),
            _ => self.listed(id, parse(message.result), heard),
        }
    }

    fn greeted(&mut self, answer: Option<acp::InitializeResponse>, heard: &mut Heard) {
        let Some(answer) = answer else {
            return self.fail(bad("its answer to `initialize` has another form"), heard);
        };
        if answer.protocol_version != ProtocolVersion::V1 {
            let version = answer.protocol_version;
            return self.fail(bad(&format!("it speaks version {version} of the protocol")), heard);
        }
        self.agent = Agent {
            sign_in: sign_in(&answer.auth_methods),
            can: answer.agent_capabilities,
            name: answer.agent_info.as_ref().map(|info| info.name.clone()).unwrap_or_default(),
        };
        if let Some(info) = answer.agent_info {
            heard.push(Signal::Version(info.version));
        }
        match self.cancelled {
            true => self.end(Ending::Cancelled, heard),
            false => self.enter(heard),
        }
    }

    fn enter(&mut self, heard: &mut Heard) {
        let can = &self.agent.can;
        let (sessions, cwd) = (&can.session_capabilities, self.cwd.clone());
        match &self.wanted {
            Wanted::New => {
                ask(ask::SESSION, "session/new", acp::NewSessionRequest::new(cwd), heard);
            }
            // It replays nothing.
            Wanted::Resume(id) if sessions.resume.is_some() => {
                let params = acp::ResumeSessionRequest::new(id.clone(), cwd);
                ask(ask::SESSION, "session/resume", params, heard);
            }
            Wanted::Resume(id) if can.load_session => {
                let params = acp::LoadSessionRequest::new(id.clone(), cwd);
                ask(ask::SESSION, "session/load", params, heard);
            }
            Wanted::Fork(id) if sessions.fork.is_some() => {
                let params = acp::ForkSessionRequest::new(id.clone(), cwd);
                ask(ask::SESSION, "session/fork", params, heard);
            }
            Wanted::Resume(_) => self.fail(gone("the agent resumes no sessions"), heard),
            Wanted::Fork(_) => self.fail(gone("the agent forks no sessions"), heard),
        }
    }

    /// The session is there. What it is told about itself is much the same however it came about.
    fn entered(&mut self, result: Option<&RawValue>, heard: &mut Heard) {
        let all: Value = parse(result).unwrap_or_default();
        let id = match (&self.wanted, text(&all, &["sessionId"])) {
            (Wanted::Resume(id), _) => id.clone(),
            (_, Some(id)) => id.to_owned(),
            (_, None) => return self.fail(bad("its session has no id"), heard),
        };
        heard.push(Signal::Session(id.clone()));
        self.session = Some(acp::SessionId::new(id));
        let about: acp::LoadSessionResponse = parse(result).unwrap_or_default();
        let options = about.config_options.unwrap_or_default();
        self.want_mode(about.modes.as_ref(), &options);
        if let Err(trouble) = self.want_model(&options, &all) {
            return self.fail(trouble, heard);
        }
        if let Some(model) = self.model.clone().or_else(|| current_model(&options, &all)) {
            heard.push(Signal::Model(model));
        }
        self.next(heard);
    }

    fn want_mode(
        &mut self,
        modes: Option<&acp::SessionModeState>,
        options: &[acp::SessionConfigOption],
    ) {
        let Some(session) = self.session.clone() else { return };
        if let Some(modes) = modes {
            let offered: Vec<&str> = modes.available_modes.iter().map(|mode| &*mode.id.0).collect();
            let suits = permission::mode(self.permission, &offered);
            // Said where it is so already, too: the answer is where a late replay has ended.
            let mode = suits.or_else(|| self.loads().then_some(&*modes.current_mode_id.0));
            if let Some(mode) = mode {
                let params = json!({ "sessionId": session, "modeId": mode });
                self.before.push((ask::MODE, "session/set_mode", params));
            }
            return;
        }
        if let Some((option, values)) = select(options, &acp::SessionConfigOptionCategory::Mode)
            && let Some(mode) =
                permission::mode(self.permission, &values.iter().map(|v| v.0).collect::<Vec<_>>())
        {
            let params = json!({ "sessionId": session, "configId": option.id, "value": mode });
            self.before.push((ask::MODE, "session/set_config_option", params));
        }
    }

    fn loads(&self) -> bool {
        let can = &self.agent.can;
        matches!(self.wanted, Wanted::Resume(_)) && can.session_capabilities.resume.is_none()
    }

    /// The model that was asked for, by its id or its name. Another one would not do.
    fn want_model(
        &mut self,
        options: &[acp::SessionConfigOption],
        all: &Value,
    ) -> Result<(), Trouble> {
        let (Some(model), Some(session)) = (&self.model, &self.session) else { return Ok(()) };
        let category = acp::SessionConfigOptionCategory::Model;
        if let Some((option, values)) = select(options, &category) {
            let value = values.iter().find(|(id, name)| id == model || name == model);
            let Some((value, _)) = value else { return Err(no_model(model)) };
            let params = json!({ "sessionId": session, "configId": option.id, "value": value });
            self.before.push((ask::MODEL, "session/set_config_option", params));
            return Ok(());
        }
        // The way of earlier days, which Gemini CLI has kept.
        let offered = at(all, &["models", "availableModels"]).and_then(Value::as_array);
        let named = |one: &&Value| {
            ["modelId", "name"].iter().any(|field| text(one, &[field]) == Some(model))
        };
        let found = offered.and_then(|offered| offered.iter().find(named));
        let Some(id) = found.and_then(|found| text(found, &["modelId"])) else {
            return Err(no_model(model));
        };
        let params = json!({ "sessionId": session, "modelId": id });
        self.before.push((ask::MODEL, "session/set_model", params));
        Ok(())
    }

    /// What is to be said next: what has to be settled first, then the prompt.
    fn next(&mut self, heard: &mut Heard) {
        if self.cancelled {
            return self.end(Ending::Cancelled, heard);
        }
        if !self.before.is_empty() {
            let (id, method, params) = self.before.remove(0);
            return ask(id, method, params, heard);
        }
        let Some(session) = self.session.clone().filter(|_| !self.prompted) else { return };
        self.prompted = true;
        let prompt = vec![acp::ContentBlock::from(std::mem::take(&mut self.prompt))];
        ask(ask::PROMPT, "session/prompt", acp::PromptRequest::new(session, prompt), heard);
    }

    fn failed(&mut self, id: i64, error: &acp::Error, heard: &mut Heard) {
        let trouble = trouble::trouble(error, &self.agent.sign_in);
        match id {
            // Whatever it asks is granted anyway.
            ask::MODE if self.permission == Permission::Full => self.next(heard),
            ask::SESSION if !matches!(self.wanted, Wanted::New) => {
                self.no_session(error, trouble, heard);
            }
            ask::PROMPT if error.code == acp::ErrorCode::RequestCancelled => {
                self.end(Ending::Cancelled, heard);
            }
            ask::LIST.. => {
                let trouble = self.unsure.take().unwrap_or(trouble);
                self.fail(trouble, heard);
            }
            _ => self.fail(trouble, heard),
        }
    }

    /// Few agents say plainly that they have no such session. The others are asked for a list.
    fn no_session(&mut self, error: &acp::Error, trouble: Trouble, heard: &mut Heard) {
        let id = self.wanted.id();
        let details = error.data.as_ref().and_then(|data| text(data, &["details"]));
        // Gemini CLI has no list. It says the same of every id that it does not have.
        let unknown = format!("Invalid session identifier \"{id}\".");
        if error.code == acp::ErrorCode::ResourceNotFound
            || details.is_some_and(|details| details.starts_with(&unknown))
        {
            return self.fail(gone(id), heard);
        }
        let lists = self.agent.can.session_capabilities.list.is_some();
        match trouble {
            Trouble::Server { .. } | Trouble::BadRequest { .. } if lists => {
                self.unsure = Some(trouble);
                ask(ask::LIST, "session/list", acp::ListSessionsRequest::new(), heard);
            }
            _ => self.fail(trouble, heard),
        }
    }

    fn listed(&mut self, id: i64, page: Option<acp::ListSessionsResponse>, heard: &mut Heard) {
        let Some(trouble) = self.unsure.take() else { return };
        let Some(page) = page else { return self.fail(trouble, heard) };
        let wanted = self.wanted.id();
        if page.sessions.iter().any(|session| &*session.session_id.0 == wanted) {
            return self.fail(trouble, heard);
        }
        match page.next_cursor {
            None => self.fail(gone(wanted), heard),
            Some(_) if id >= ask::LIST + MOST_PAGES => self.fail(trouble, heard),
            Some(cursor) => {
                self.unsure = Some(trouble);
                let params = acp::ListSessionsRequest::new().cursor(cursor);
                ask(id + 1, "session/list", params, heard);
            }
        }
    }

    fn fail(&mut self, trouble: Trouble, heard: &mut Heard) {
        self.end(Ending::Failed(trouble), heard);
    }

    fn end(&mut self, ending: Ending, heard: &mut Heard) {
        self.ended = true;
        heard.end(ending);
        heard.close = true;
    }
}

/// The turn.
impl Talk {
    fn update(&mut self, params: Option<&RawValue>, heard: &mut Heard) {
        let Some(told) = parse::<Update<'_>>(params) else { return };
        if !self.prompted || self.ended {
            return;
        }
        if self.session.as_ref().is_none_or(|session| *session.0 != *told.session_id) {
            // A helper of the agent's, in a session of its own.
            return heard.push(Signal::Thinking);
        }
        let Ok(update) = serde_json::from_str(told.update.get()) else { return };
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.piece(chunk, false, heard),
            SessionUpdate::AgentThoughtChunk(chunk) => self.piece(chunk, true, heard),
            SessionUpdate::ToolCall(call) => {
                let mut signals = self.calls.whole();
                signals.extend(self.calls.begin(call));
                self.close(heard);
                heard.signals.extend(signals);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                let signals = self.calls.update(update);
                if !signals.is_empty() {
                    self.close(heard);
                }
                heard.signals.extend(signals);
            }
            SessionUpdate::UsageUpdate(update) => self.usage(&update, heard),
            SessionUpdate::SessionInfoUpdate(update) => {
                self.codex(update.meta.as_ref().and_then(|meta| meta.get("codex")), heard);
            }
            SessionUpdate::Notice(notice) => heard.push(Signal::Notice(match notice.description {
                Some(more) => format!("{}: {more}", notice.title),
                None => notice.title,
            })),
            SessionUpdate::Plan(_) | SessionUpdate::CompactionUpdate(_) => {
                heard.push(Signal::Thinking);
            }
            _ => {}
        }
    }

    fn piece(&mut self, chunk: acp::ContentChunk, thought: bool, heard: &mut Heard) {
        if let Some(usage) = chunk.meta.as_ref().and_then(usage::of_call) {
            self.used(None, usage, heard);
        }
        let acp::ContentBlock::Text(text) = chunk.content else { return };
        if text.text.is_empty() {
            return;
        }
        if let Some(trouble) = self.broken.take().filter(|_| chunk.message_id.is_none()) {
            // Not the model's words: after a failure it is the reason.
            self.broken = Some(trouble::because(trouble, text.text.trim()));
            return;
        }
        let calls = self.calls.whole();
        if !calls.is_empty()
            || self.open.thought != thought
            || self.open.message != chunk.message_id
        {
            self.close(heard);
        }
        heard.signals.extend(calls);
        self.open.thought = thought;
        self.open.message = chunk.message_id;
        self.open.last = self.open.text.len();
        self.open.text.push_str(&text.text);
        heard.push(if thought { Signal::Thinking } else { Signal::Writing(text.text) });
    }

    /// The text under way is whole.
    fn close(&mut self, heard: &mut Heard) {
        let open = std::mem::take(&mut self.open);
        if !open.text.is_empty() {
            heard.push(match open.thought {
                true => Signal::Thought(open.text),
                false => Signal::Text(open.text),
            });
        }
    }

    fn usage(&mut self, update: &acp::UsageUpdate, heard: &mut Heard) {
        self.context = (update.used, update.size);
        // A call of the model has succeeded since.
        self.retried = None;
        let calls = self.calls.whole();
        if !calls.is_empty() {
            self.close(heard);
            heard.signals.extend(calls);
        }
        // It counts from the session's beginning: only of a new one is that ours.
        if let Some(cost) = update.cost.as_ref().filter(|cost| cost.currency == "USD")
            && matches!(self.wanted, Wanted::New)
            && cost.amount > 0.0
        {
            self.cost = Some(Micros::from_dollars(cost.amount));
        }
    }

    /// Codex's adapter says `end_turn` after most failures. That the turn failed, and of what, it
    /// tells on the side.
    fn codex(&mut self, told: Option<&Value>, heard: &mut Heard) {
        let Some(told) = told else { return };
        if let Some(info) = at(told, &["error", "codexErrorInfo"])
            && at(told, &["error", "willRetry"]) == Some(&Value::Bool(true))
        {
            let details = text(told, &["error", "additionalDetails"]);
            let message = details.or_else(|| text(told, &["error", "message"]));
            let message = message.unwrap_or_default().to_owned();
            let trouble = trouble::codex(info, message, &self.agent.sign_in);
            self.retried = Some(trouble.clone());
            // What it had begun to say, it says again.
            self.open = Open::default();
            heard.push(Signal::Retrying { trouble, wait: None });
        }
        match text(told, &["threadStatus", "type"]) {
            Some("systemError") => {
                self.open = Open::default();
                let full = self.context.1 > 0 && self.context.0 >= self.context.1;
                let message = "the turn failed".to_owned();
                self.broken = Some(match self.retried.take() {
                    _ if full => Trouble::ContextExhausted(message),
                    Some(trouble) => trouble,
                    None => Trouble::Server { status: 500, message },
                });
            }
            Some("active") => self.broken = None,
            _ => {}
        }
    }

    fn permission(&mut self, id: &RawValue, params: Option<&RawValue>, heard: &mut Heard) {
        let Some(request) = parse::<acp::RequestPermissionRequest>(params) else {
            let error = acp::Error::invalid_params();
            return say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }), heard);
        };
        let (call, signals) = self.calls.asked(request.tool_call);
        self.close(heard);
        heard.signals.extend(signals);
        let allowed = permission::allows(self.permission, &call, &self.cwd);
        let outcome = match self.cancelled {
            true => acp::RequestPermissionOutcome::Cancelled,
            false => permission::answer(allowed, &request.options),
        };
        let answer = acp::RequestPermissionResponse::new(outcome);
        say(&json!({ "jsonrpc": "2.0", "id": id, "result": answer }), heard);
        if !allowed {
            self.refused = true;
            heard.signals.extend(self.calls.refuse(&call));
            heard.push(Signal::Notice(format!("{} was not permitted", tools::name(&call))));
        }
    }

    fn used(&mut self, model: Option<String>, usage: Usage, heard: &mut Heard) {
        if usage.total() > 0 {
            self.reported += usage;
            heard.push(Signal::Used { model, usage, cost: None });
        }
    }

    fn finished(&mut self, answer: Option<acp::PromptResponse>, heard: &mut Heard) {
        let Some(answer) = answer else {
            return self.fail(bad("its answer to the prompt has another form"), heard);
        };
        let calls = self.calls.whole();
        heard.signals.extend(calls);
        let meta = answer.meta.unwrap_or_default();
        let told = answer.usage.as_ref().map(usage::of_turn);
        if let Some(all) = told.or_else(|| usage::beside(&meta))
            && self.reported.total() == 0
        {
            self.used(usage::model(&meta), all, heard);
        }
        if let Some(cost) = self.cost.take().filter(|_| self.reported.total() > 0) {
            heard.push(Signal::Cost(cost));
        }
        let ending = self.ending(answer.stop_reason, answer.usage.is_some());
        // What was being said when it failed or was stopped never became whole.
        if !matches!(ending, Ending::Failed(_) | Ending::Cancelled) {
            self.close(heard);
        }
        self.end(ending, heard);
    }

    fn ending(&mut self, reason: acp::StopReason, counted: bool) -> Ending {
        use acp::StopReason::{Cancelled, EndTurn, MaxTokens, Refusal};
        let failure = self.broken.take().or_else(|| self.copilot(counted));
        match reason {
            // Some say `end_turn` when they were cancelled.
            Cancelled | EndTurn if self.cancelled => Ending::Cancelled,
            EndTurn if failure.is_some() => failure.map_or(Ending::Finished, Ending::Failed),
            // Nobody stopped it: Codex gives the turn up where it may not edit.
            Cancelled if self.refused => Ending::Finished,
            Cancelled => Ending::Cancelled,
            MaxTokens => Ending::Truncated,
            Refusal => Ending::Refused,
            // `max_turn_requests` too: its own limit is its own decision.
            _ => Ending::Finished,
        }
    }

    /// Copilot CLI says `end_turn` after every failure, and tells it in a last piece of text that
    /// begins with `Error: `. That is looked at only where the turn is known to have failed (it
    /// counted no tokens at all), or where the words are those of its own report of vain retries.
    fn copilot(&self, counted: bool) -> Option<Trouble> {
        const RETRIED: &str = "Failed to get response from the AI model; retried ";
        if self.agent.name != "Copilot" {
            return None;
        }
        let last = self.open.text.get(self.open.last..)?.strip_prefix("Error: ")?;
        if counted && !last.starts_with(RETRIED) {
            return None;
        }
        let cause = last.split_once(" Last error: ").map_or(last, |(_, cause)| cause);
        let http = last.split_once("(HTTP ").and_then(|(_, rest)| rest.split_once(')'));
        let status = trouble::leading_status(cause)
            .or_else(|| trouble::leading_status(&format!("{} ", http?.0)));
        Some(match status {
            Some(status) => trouble::by_status(status, last.to_owned(), &self.agent.sign_in),
            None => Trouble::StreamCut(last.to_owned()),
        })
    }
}

fn bad(message: &str) -> Trouble {
    Trouble::BadRequest { status: 0, message: message.to_owned() }
}

fn gone(message: &str) -> Trouble {
    Trouble::SessionGone(message.to_owned())
}

fn no_model(model: &str) -> Trouble {
    bad(&format!("the agent has no model called `{model}`"))
}

/// A choice of some category: the option, and its values with their names.
fn select<'a>(
    options: &'a [acp::SessionConfigOption],
    category: &acp::SessionConfigOptionCategory,
) -> Option<(&'a acp::SessionConfigOption, Vec<(&'a str, &'a str)>)> {
    let option = options.iter().find(|option| option.category.as_ref() == Some(category))?;
    let acp::SessionConfigKind::Select(choice) = &option.kind else { return None };
    let values: Vec<&acp::SessionConfigSelectOption> = match &choice.options {
        acp::SessionConfigSelectOptions::Ungrouped(all) => all.iter().collect(),
        acp::SessionConfigSelectOptions::Grouped(groups) => {
            groups.iter().flat_map(|group| &group.options).collect()
        }
        _ => Vec::new(),
    };
    Some((option, values.iter().map(|one| (&*one.value.0, one.name.as_str())).collect()))
}

/// The model of a session, unless it is only called the default one.
fn current_model(options: &[acp::SessionConfigOption], all: &Value) -> Option<String> {
    let chosen = select(options, &acp::SessionConfigOptionCategory::Model);
    let chosen = chosen.and_then(|(option, _)| match &option.kind {
        acp::SessionConfigKind::Select(choice) => Some(&*choice.current_value.0),
        _ => None,
    });
    let model = chosen.or_else(|| text(all, &["models", "currentModelId"]))?;
    (!matches!(model, "default" | "auto")).then(|| model.to_owned())
}

/// How the agent says that a person signs in.
fn sign_in(methods: &[acp::AuthMethod]) -> String {
    let ways = methods.iter().map(|method| match method.description() {
        Some(more) => format!("{} ({more})", method.name()),
        None => method.name().to_owned(),
    });
    let ways: Vec<String> = ways.collect();
    match ways.is_empty() {
        true => "sign in with the agent's own program".to_owned(),
        false => ways.join(", or "),
    }
}
