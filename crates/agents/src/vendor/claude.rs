//! Claude Code: `claude -p --output-format stream-json`.
//!
//! The id is ours to choose. The `result` line judges a turn, never the exit status: 0 after an interrupt,
//! and `subtype` is `success` after an API error. Its totals count from the conversation's start, also
//! over resumes; only `model_usage_since_last_result` is this run's.

mod line;
mod session;

use std::{
    borrow::Cow,
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use segue_core::{
    Permission,
    usage::{Micros, Usage},
};
use serde_json::json;

use self::{
    line::{Block, Limit, Line, Tokens, time},
    session::remember,
};
use super::{
    Abilities, Call, Card, Conversation, Dialogue, Ending, Heard, History, Job, Opening, SignIn,
    Signal, ToolEnd, ToolServer, Trouble, Unreadable, Vendor, World, history::read_lines,
};

#[derive(Clone, Copy, Debug)]
pub struct Claude;

const SIGN_IN: &str = "claude /login";

pub(crate) const ALL_TOOLS: &str =
    "Bash,Edit,MultiEdit,NotebookEdit,Read,Task,WebFetch,WebSearch,Write";
/// Those of them that change something.
pub(crate) const CHANGING_TOOLS: &str = "Bash,Edit,MultiEdit,NotebookEdit,Write";

impl Vendor for Claude {
    fn card(&self) -> Card {
        Card {
            name: "claude".to_owned(),
            alias: Some("c"),
            title: "Claude Code",
            programs: &["claude"],
            install: "npm install -g @anthropic-ai/claude-code",
            sign_in: SIGN_IN,
            tested: Some("2.1.325"),
            can: Abilities {
                own_id: true,
                resume: true,
                fork: true,
                acp: true,
                cost: true,
                permission: true,
                tools: true,
                rewind: true,
            },
            stop_signal: 2,
            argument_limit: None,
        }
    }

    fn context_tokens(&self) -> u64 {
        200_000
    }

    fn signed_in(&self, world: &World) -> SignIn {
        const KEYS: [&str; 6] = [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CODE_USE_FOUNDRY",
        ];
        if let Some(key) = KEYS.iter().find(|name| world.get(name).is_some()) {
            return SignIn::Yes((*key).to_owned());
        }
        let dir = config_dir(world);
        if dir.join(".credentials.json").is_file() {
            return SignIn::Yes("claude.ai".to_owned());
        }
        let says = |file: PathBuf, names: &[&str]| {
            let text = std::fs::read(file).ok();
            let value: Option<serde_json::Value> =
                text.and_then(|text| serde_json::from_slice(&text).ok());
            value.is_some_and(|value| names.iter().any(|name| value.get(name).is_some()))
        };
        let account = world.get("CLAUDE_CONFIG_DIR").map_or(&world.home, |_| &dir);
        if says(account.join(".claude.json"), &["oauthAccount", "primaryApiKey"]) {
            return SignIn::Yes("claude.ai".to_owned());
        }
        match says(dir.join("settings.json"), &["apiKeyHelper", "env"]) {
            true => SignIn::Unknown,
            // On a Mac the key is in the keychain.
            false if cfg!(target_os = "macos") => SignIn::Unknown,
            false => SignIn::No,
        }
    }

    fn terms(&self, permission: Permission) -> &'static str {
        match permission {
            Permission::ReadOnly => "no Bash, no Edit, no Write",
            Permission::Edit => {
                "--permission-mode acceptEdits: files of the workspace, and simple commands on them"
            }
            Permission::Full => "--permission-mode bypassPermissions (for root: all tools by name)",
        }
    }

    fn call(&self, job: &Job<'_>) -> Call {
        let mut call = Call::new(["-p", "--output-format", "stream-json", "--verbose"]);
        call.arg("--include-partial-messages");
        match job.conversation {
            Conversation::New { id } => call.pair("--session-id", id),
            Conversation::Resume { id } => call.pair("--resume", id),
            Conversation::Fork { from, id, at } => {
                call.pair("--resume", from).arg("--fork-session").pair("--session-id", id);
                call.args(at.map(|mark| ["--resume-session-at", mark]).into_iter().flatten())
            }
        };
        let mut allowed = Vec::new();
        if let Some(server) = job.tools {
            // Otherwise the model sees no more than the tools' names, and has to ask for them.
            let settings = server.json(&json!({ "type": "stdio", "alwaysLoad": true }));
            call.arg(format!("--mcp-config={settings}"));
            allowed.push(format!("mcp__{}", ToolServer::NAME));
        }
        match job.permission {
            Permission::ReadOnly => call
                .pair("--permission-mode", "default")
                .arg(format!("--disallowedTools={CHANGING_TOOLS}")),
            Permission::Edit => call.pair("--permission-mode", "acceptEdits"),
            // Refused to root, who then gets the same by name.
            Permission::Full if job.world.root => {
                allowed.insert(0, ALL_TOOLS.to_owned());
                call.pair("--permission-mode", "acceptEdits")
            }
            Permission::Full => call.pair("--permission-mode", "bypassPermissions"),
        };
        if !allowed.is_empty() {
            call.arg(format!("--allowedTools={}", allowed.join(",")));
        }
        if let Some(model) = job.model {
            call.pair("--model", model);
        }
        call.args(job.extra);
        // Ten tries over three minutes by default; the next one after these is ours to decide.
        call.default_env("CLAUDE_CODE_MAX_RETRIES", "3");
        call
    }

    fn dialogue(&self, job: &Job<'_>) -> Box<dyn Dialogue> {
        Box::new(Stream { prompt: job.prompt.to_owned(), ..Stream::default() })
    }

    fn history(&self, world: &World, cwd: &Path, id: &str) -> io::Result<Option<History>> {
        let projects = config_dir(world).join("projects");
        let file = format!("{id}.jsonl");
        let mut path = projects.join(encoded(cwd)).join(&file);
        if !path.is_file() {
            // It finds its sessions from any directory, and so do we.
            let Ok(all) = std::fs::read_dir(&projects) else { return Ok(None) };
            let elsewhere = all.flatten().map(|dir| dir.path().join(&file));
            match elsewhere.into_iter().find(|path| path.is_file()) {
                Some(found) => path = found,
                None => return Ok(None),
            }
        }
        let mut history = History::new(path.clone());
        read_lines(&path, |line| remember(line, &mut history))?;
        Ok(Some(history))
    }

    fn home_of(
        &self,
        world: &World,
        cwd: &Path,
        id: &str,
        _name: &str,
        _bytes: &[u8],
    ) -> Option<PathBuf> {
        Some(config_dir(world).join("projects").join(encoded(cwd)).join(format!("{id}.jsonl")))
    }
}

pub(crate) fn config_dir(world: &World) -> PathBuf {
    world.dir("CLAUDE_CONFIG_DIR", ".claude")
}

/// How a working directory is called in its store. Very long ones end in a hash of its own, which
/// is why a session is looked for everywhere.
pub(super) fn encoded(cwd: &Path) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    cwd.to_string_lossy().chars().map(letter).collect()
}

/// What is kept between lines.
#[derive(Debug, Default)]
struct Stream {
    prompt: String,
    session: Option<String>,
    model: Option<String>,
    /// Tokens of the API call under way.
    tokens: Tokens,
    /// An answer has begun and not ended.
    answering: bool,
    /// What was reported so far.
    reported: Usage,
    /// Files that running calls will have written.
    files: HashMap<String, String>,
    trouble: Option<Trouble>,
    limit: Option<Limit>,
    /// The last message, where no call of it waits for its result.
    mark: Option<String>,
    ended: bool,
}

impl Dialogue for Stream {
    fn open(&mut self) -> Opening {
        Opening::prompt(&std::mem::take(&mut self.prompt))
    }

    fn line(&mut self, line: &[u8], heard: &mut Heard) -> Result<(), Unreadable> {
        let line: Line<'_> = serde_json::from_slice(line)?;
        if let Some(id) = line.session_id.as_deref()
            && self.session.as_deref() != Some(id)
        {
            self.session = Some(id.to_owned());
            heard.push(Signal::Session(id.to_owned()));
        }
        match &*line.kind {
            "stream_event" => self.api(&line, heard),
            "assistant" => self.assistant(line, heard),
            "user" => self.results(&line, heard),
            "system" => self.system(&line, heard),
            "rate_limit_event" => self.limit(line.rate_limit_info, heard),
            "result" => self.result(line, heard),
            _ => {}
        }
        Ok(())
    }
}

impl Stream {
    fn system(&mut self, line: &Line<'_>, heard: &mut Heard) {
        match line.subtype.as_deref() {
            Some("init") => {
                if let Some(model) = &line.model {
                    self.model = Some(model.to_string());
                    heard.push(Signal::Model(model.to_string()));
                }
                if let Some(version) = &line.claude_code_version {
                    heard.push(Signal::Version(version.to_string()));
                }
            }
            Some("api_retry") => {
                let word =
                    line.error.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
                let status = line.error_status;
                let trouble = self.trouble(word.as_deref(), status, String::new());
                let wait = line.retry_delay_ms.map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1e3));
                heard.push(Signal::Retrying { trouble, wait });
            }
            Some("permission_denied") => {
                let tool = line.tool_name.as_deref().unwrap_or("a tool");
                heard.push(Signal::Notice(format!("{tool} was not permitted")));
            }
            _ => heard.push(Signal::Thinking),
        }
    }

    /// Pieces of what comes whole later, and the tokens of each call.
    fn api(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let Some(event) = &line.event else { return };
        match &*event.kind {
            "message_start" => {
                if let Some(begun) = &event.message {
                    self.answering = true;
                    self.tokens = begun.usage.unwrap_or_default();
                    self.model = begun.model.as_deref().map(str::to_owned).or(self.model.take());
                }
            }
            "content_block_delta" => {
                let text = event.delta.as_ref().and_then(|delta| delta.text.as_deref());
                heard.push(match text {
                    Some(text) if line.parent_tool_use_id.is_none() => {
                        Signal::Writing(text.to_owned())
                    }
                    _ => Signal::Thinking,
                });
            }
            "message_delta" => {
                let tokens = event.usage.unwrap_or_default().over(self.tokens);
                self.tokens = Tokens::default();
                self.answering = false;
                self.used(self.model.clone(), tokens.usage(), heard);
            }
            _ => {}
        }
    }

    fn used(&mut self, model: Option<String>, usage: Usage, heard: &mut Heard) {
        if usage.total() > 0 {
            self.reported += usage;
            heard.push(Signal::Used { model, usage, cost: None });
        }
    }

    fn assistant(&mut self, line: Line<'_>, heard: &mut Heard) {
        let Some(message) = line.message() else { return };
        if line.is_api_error_message {
            let text = message.text().unwrap_or_default();
            self.trouble = Some(self.api_trouble(&line, text));
            return;
        }
        let from_a_helper = line.parent_tool_use_id.is_some();
        if !from_a_helper {
            self.mark = line.uuid.map(Cow::into_owned).filter(|_| !message.calls());
        }
        for block in message.blocks() {
            match block {
                // What a sub-agent says is for the agent; what it does is for the journal.
                Block::Text { .. } | Block::Thinking { .. } if from_a_helper => {}
                Block::Text { text } => heard.push(Signal::Text(text)),
                Block::Thinking { thinking } => heard.push(Signal::Thought(thinking)),
                Block::ToolUse { id, name, input } => {
                    if let Some(file) = written(&name, &input) {
                        self.files.insert(id.clone(), file);
                    }
                    heard.push(Signal::ToolCalled { id, name, input: input.to_string() });
                }
                Block::ToolResult(_) | Block::Other => {}
            }
        }
    }

    fn results(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let Some(message) = line.message() else { return };
        for result in message.results() {
            let done = result.is_error != Some(true);
            let file = self.files.remove(&result.tool_use_id).filter(|_| done);
            let end = ToolEnd::new(&result.tool_use_id, done, result.output()).touching(file);
            heard.push(Signal::ToolReturned(end));
        }
    }

    fn limit(&mut self, info: Option<Limit>, heard: &mut Heard) {
        let Some(info) = info else { return };
        for (window, told) in &info.unified_windows {
            heard.push(Signal::Quota {
                window: window.clone(),
                used_percent: told.utilization.map(percent),
                resets_at: time(told.resets_at),
            });
        }
        if info.unified_windows.is_empty()
            && let Some(window) = &info.rate_limit_type
        {
            heard.push(Signal::Quota {
                window: window.clone(),
                used_percent: (info.status == "rejected").then_some(100),
                resets_at: time(info.resets_at),
            });
        }
        if info.status == "rejected" {
            self.limit = Some(info);
        }
    }

    fn api_trouble(&self, line: &Line<'_>, text: String) -> Trouble {
        let told = line.api_error_params.as_ref().and_then(|params| params.rate_limit_info.clone());
        let limit = told.or_else(|| self.limit.clone());
        if line.api_error.as_deref() == Some("usage_limit_reached")
            || limit.as_ref().is_some_and(|limit| limit.status == "rejected")
        {
            let resets_at = time(limit.and_then(|limit| limit.resets_at));
            return Trouble::Limit { message: text, resets_at, retry_after: None, quota: true };
        }
        let word = line.error.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        self.trouble(word.as_deref(), line.api_error_status, text)
    }

    /// Without a status the connection broke: in the middle of an answer, or before one.
    fn trouble(&self, word: Option<&str>, status: Option<u16>, message: String) -> Trouble {
        match trouble(word.unwrap_or_default(), status, message) {
            Trouble::Network(message) if self.answering => Trouble::StreamCut(message),
            other => other,
        }
    }

    fn result(&mut self, line: Line<'_>, heard: &mut Heard) {
        self.settle(&line, heard);
        self.ended = true;
        let said = line.result.as_deref().unwrap_or_default();
        let told = line.errors.join("; ");
        let ending = match line.terminal_reason.as_deref() {
            Some(word) if word.starts_with("aborted") => Ending::Cancelled,
            Some("prompt_too_long") => Ending::Failed(Trouble::ContextExhausted(said.to_owned())),
            _ if line.is_error => Ending::Failed(self.trouble.take().unwrap_or_else(|| {
                let message = if told.is_empty() { said.to_owned() } else { told };
                match line.api_error_status {
                    Some(status) => self.trouble(None, Some(status), message),
                    None => Trouble::BadRequest { status: 0, message },
                }
            })),
            _ => match line.stop_reason.as_deref() {
                Some("max_tokens") => Ending::Truncated,
                Some("refusal") => Ending::Refused,
                _ => Ending::Finished,
            },
        };
        heard.signals.extend(self.mark.take().map(Signal::Mark));
        heard.end(ending);
    }

    /// Calls that the stream did not show (sub-agents, summaries), and the money for all of them.
    fn settle(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let Some(models) = &line.model_usage_since_last_result else {
            let all = line.usage.unwrap_or_default().usage();
            let rest = minus(all, self.reported);
            return self.used(self.model.clone(), rest, heard);
        };
        let mut all = Usage::default();
        let mut dollars = 0.0;
        for told in models.values() {
            all += Usage {
                input: told.input_tokens,
                output: told.output_tokens.saturating_sub(told.thinking_tokens),
                cache_read: told.cache_read_input_tokens,
                cache_write: told.cache_creation_input_tokens,
                reasoning: told.thinking_tokens,
            };
            dollars += told.cost_usd;
        }
        self.used(None, minus(all, self.reported), heard);
        if self.reported.total() > 0 {
            heard.push(Signal::Cost(Micros::from_dollars(dollars)));
        }
    }
}

/// What one count has beyond another.
fn minus(all: Usage, known: Usage) -> Usage {
    Usage {
        input: all.input.saturating_sub(known.input),
        // Which part of the output was thinking is only told at the end.
        output: (all.output + all.reasoning).saturating_sub(known.output + known.reasoning),
        cache_read: all.cache_read.saturating_sub(known.cache_read),
        cache_write: all.cache_write.saturating_sub(known.cache_write),
        reasoning: 0,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and a few hundred"
)]
fn percent(share: f64) -> u32 {
    (share.clamp(0.0, 10.0) * 100.0).round() as u32
}

/// The vendor's word for it decides, then the status.
fn trouble(word: &str, status: Option<u16>, message: String) -> Trouble {
    let message = match (message.is_empty(), status) {
        (false, _) => message,
        (true, Some(status)) => format!("HTTP {status}"),
        (true, None) => "no answer from the server".to_owned(),
    };
    match (word, status) {
        ("rate_limit", _) | (_, Some(429)) => {
            Trouble::Limit { message, resets_at: None, retry_after: None, quota: false }
        }
        ("overloaded", _) | (_, Some(529 | 503)) => {
            Trouble::Overloaded { message, retry_after: None }
        }
        ("authentication_failed", _) | (_, Some(401 | 403)) => {
            Trouble::NotSignedIn { message, fix: SIGN_IN.to_owned() }
        }
        (_, Some(413)) => Trouble::ContextExhausted(message),
        (_, Some(status @ 500..)) => Trouble::Server { status, message },
        (_, Some(status)) => Trouble::BadRequest { status, message },
        (_, None) => Trouble::Network(message),
    }
}

/// The file that a tool writes, by the tool's own input.
fn written(tool: &str, input: &serde_json::Value) -> Option<String> {
    let field = match tool {
        "Write" | "Edit" | "MultiEdit" => "file_path",
        "NotebookEdit" => "notebook_path",
        _ => return None,
    };
    input.get(field)?.as_str().map(str::to_owned)
}
