//! GitHub Copilot CLI: `copilot --output-format json`, with the prompt on its standard input.
//!
//! The id is ours to choose. What it prints are the events of its session, without their counts of
//! tokens: those are only in the session's file, which is read along for them. A `result` line ends
//! a turn, but not one that was interrupted in the middle of an answer: there the last word is
//! `abort`, and the exit status is 0.

mod failure;

use std::{
    borrow::Cow,
    collections::HashSet,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use segue_core::{Permission, usage::Usage};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use self::failure::{Failure, quotas};
use super::{
    Abilities, Call, Card, Conversation, Dialogue, Ending, Heard, History, Job, Opening, Program,
    SignIn, Signal, ToolEnd, ToolServer, Trouble, Unreadable, Vendor, World, found::package_of,
    history::read_lines, json,
};

#[derive(Clone, Copy, Debug)]
pub struct Copilot;

const SIGN_IN: &str = "copilot login";

impl Vendor for Copilot {
    fn card(&self) -> Card {
        Card {
            name: "copilot".to_owned(),
            alias: Some("p"),
            title: "GitHub Copilot CLI",
            programs: &["copilot"],
            install: "npm install -g @github/copilot",
            sign_in: SIGN_IN,
            tested: Some("1.0.102"),
            can: Abilities {
                own_id: true,
                resume: true,
                // Only by a copy of the session's directory.
                fork: false,
                acp: true,
                // It counts requests, not money.
                cost: false,
                permission: true,
                tools: true,
                rewind: false,
            },
            stop_signal: 2,
            argument_limit: None,
        }
    }

    /// The loader starts the real program as a child, which no signal to the loader reaches.
    fn behind(&self, program: Program) -> Program {
        match package_of(&program.real).and_then(|package| native(&package)) {
            Some(file) => program.instead(file),
            None => program,
        }
    }

    fn signed_in(&self, world: &World) -> SignIn {
        const KEYS: [&str; 4] =
            ["COPILOT_PROVIDER_BASE_URL", "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];
        if let Some(key) = KEYS.iter().find(|name| world.get(name).is_some()) {
            return SignIn::Yes((*key).to_owned());
        }
        // The file begins with comments, which is why it is not read as JSON. The tokens
        // themselves are in a keychain, or further down.
        let config = std::fs::read_to_string(home(world).join("config.json")).unwrap_or_default();
        if ["\"lastLoggedInUser\"", "\"last_logged_in_user\""]
            .iter()
            .any(|key| config.contains(key))
        {
            return SignIn::Yes("github.com".to_owned());
        }
        // It asks GitHub's own program too.
        match world.dir("GH_CONFIG_DIR", ".config/gh").join("hosts.yml").is_file() {
            true => SignIn::Unknown,
            false => SignIn::No,
        }
    }

    fn terms(&self, permission: Permission) -> &'static str {
        match permission {
            Permission::ReadOnly => "--deny-tool write and shell",
            Permission::Edit => "--allow-tool write, --deny-tool shell: files of the workspace",
            Permission::Full => "--allow-all",
        }
    }

    fn call(&self, job: &Job<'_>) -> Call {
        let mut call = Call::new(["--output-format", "json", "--no-color", "--no-ask-user"]);
        // Otherwise it may run another version than the one that was found.
        call.arg("--no-auto-update");
        match job.conversation {
            // Unlike `--session-id` this one fails where the session is gone. Without a directory
            // its tools would run where the session was begun.
            Conversation::Resume { id } => {
                call.arg(format!("--resume={id}")).pair("-C", job.cwd.as_os_str())
            }
            Conversation::New { id } | Conversation::Fork { id, .. } => {
                call.pair("--session-id", id)
            }
        };
        match job.permission {
            Permission::ReadOnly => call.args(["--deny-tool=write", "--deny-tool=shell"]),
            Permission::Edit => {
                call.args(["--allow-tool=write", "--deny-tool=shell", "--disallow-temp-dir"])
            }
            Permission::Full => call.arg("--allow-all"),
        };
        if job.permission != Permission::Full {
            call.env("COPILOT_ALLOW_ALL", "false");
        }
        if let Some(server) = job.tools {
            let settings = server.json(&json!({ "type": "local", "tools": ["*"] }));
            call.pair("--additional-mcp-config", settings.to_string());
            call.arg(format!("--allow-tool={}", ToolServer::NAME));
        }
        if let Some(model) = job.model {
            call.pair("--model", model);
        }
        call.args(job.extra);
        call
    }

    fn dialogue(&self, job: &Job<'_>) -> Box<dyn Dialogue> {
        let (id, known) = match job.conversation {
            Conversation::Resume { id } => (id, true),
            Conversation::New { id } | Conversation::Fork { id, .. } => (id, false),
        };
        Box::new(Stream {
            prompt: job.prompt.to_owned(),
            ledger: Ledger::new(events(job.world, id), known),
            ..Stream::default()
        })
    }

    fn history(&self, world: &World, _cwd: &Path, id: &str) -> io::Result<Option<History>> {
        let path = events(world, id);
        if !path.is_file() {
            return Ok(None);
        }
        let mut history = History::new(path.clone());
        read_lines(&path, |line| remember(line, &mut history))?;
        Ok(Some(history))
    }

    fn home_of(
        &self,
        world: &World,
        _cwd: &Path,
        id: &str,
        name: &str,
        _bytes: &[u8],
    ) -> Option<PathBuf> {
        (name == "events.jsonl").then(|| events(world, id))
    }
}

pub(crate) fn home(world: &World) -> PathBuf {
    world.dir("COPILOT_HOME", ".copilot")
}

fn events(world: &World, id: &str) -> PathBuf {
    home(world).join("session-state").join(id).join("events.jsonl")
}

/// The program in the package for this machine: beside the loader's package, or inside of it.
fn native(package: &Path) -> Option<PathBuf> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let systems: &[&str] = match std::env::consts::OS {
        "macos" => &["darwin"],
        // npm installs the one that fits the machine's C library.
        _ => &["linux", "linuxmusl"],
    };
    let places = [package.parent()?.to_owned(), package.join("node_modules/@github")];
    let files = systems.iter().flat_map(|system| {
        places.iter().map(move |place| place.join(format!("copilot-{system}-{arch}/copilot")))
    });
    files.into_iter().find(|file| file.is_file())
}

/// One event, of the stream or of the session's file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    /// Not looked into where the kind is none of ours: some are long, and many come.
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
    /// Set on what a sub-agent does.
    #[serde(default, borrow)]
    agent_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    session_id: Option<Cow<'a, str>>,
    #[serde(default)]
    exit_code: Option<i64>,
}

impl Line<'_> {
    fn data(&self) -> Value {
        self.data.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}

fn remember(line: &[u8], history: &mut History) {
    let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { return };
    if line.agent_id.is_some() {
        return;
    }
    match &*line.kind {
        "user.message" => {
            let data = line.data();
            // Those with a source were put in by the program itself.
            if let Some(text) = json::text(&data, &["content"])
                && data.get("source").is_none()
                && data.get("isAutopilotContinuation").is_none()
            {
                history.prompt(text);
            }
        }
        "assistant.message" => {
            let data = line.data();
            if let Some(text) = words(&data, "content") {
                history.text(text);
            }
            let requests = data.get("toolRequests").and_then(Value::as_array);
            for request in requests.into_iter().flatten() {
                if let Some(id) = json::text(request, &["toolCallId"]) {
                    history.call(id);
                }
            }
        }
        "tool.execution_complete" => {
            if let Some(id) = json::text(&line.data(), &["toolCallId"]) {
                history.answer(id);
            }
        }
        _ => {}
    }
}

fn words(data: &Value, name: &str) -> Option<String> {
    json::text(data, &[name]).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// What is kept between lines.
#[derive(Debug, Default)]
struct Stream {
    prompt: String,
    ledger: Ledger,
    model: Option<String>,
    /// Calls that began in this run: on a resume, broken ones of the run before are told again.
    calls: HashSet<String>,
    /// Something of the answer has come.
    answering: bool,
    /// The last call of the model that failed.
    failure: Option<Failure>,
    trouble: Option<Trouble>,
    aborted: bool,
    ended: bool,
}

impl Dialogue for Stream {
    fn open(&mut self) -> Opening {
        Opening::prompt(&std::mem::take(&mut self.prompt))
    }

    fn line(&mut self, line: &[u8], heard: &mut Heard) -> Result<(), Unreadable> {
        let line: Line<'_> = serde_json::from_slice(line)?;
        let from_a_helper = line.agent_id.is_some();
        match &*line.kind {
            "model.call_start" => self.asked(&line.data(), heard),
            "assistant.message_delta" => {
                self.answering = true;
                match words(&line.data(), "deltaContent") {
                    Some(text) if !from_a_helper => heard.push(Signal::Writing(text)),
                    _ => heard.push(Signal::Thinking),
                }
            }
            "assistant.reasoning_delta" | "assistant.tool_call_delta" => {
                self.answering = true;
                heard.push(Signal::Thinking);
            }
            "assistant.message" => self.said(&line.data(), from_a_helper, heard),
            "tool.execution_start" => self.called(&line.data(), heard),
            "tool.execution_complete" => self.returned(&line.data(), heard),
            "model.call_failure" => self.failed(&line.data(), heard),
            "assistant.turn_retry" => {
                if let Some(failure) = &self.failure {
                    let trouble = failure.trouble(None);
                    heard.push(Signal::Retrying { trouble, wait: None });
                }
            }
            "assistant.turn_end" => self.ledger.read(heard),
            "session.error" => {
                let failure = self.failure.take().unwrap_or_default();
                self.trouble = Some(failure.finally(&line.data()));
            }
            "session.warning" => {
                heard.signals.extend(words(&line.data(), "message").map(Signal::Notice));
            }
            "abort" => self.aborted = true,
            "result" => self.result(&line, heard),
            _ => {}
        }
        Ok(())
    }

    /// Before it has a session, it has no structured way to say what is wrong: these are the first
    /// words of its own messages, and no model is there to write them.
    fn error_line(&mut self, line: &str, _heard: &mut Heard) {
        let message = line.to_owned();
        if line.starts_with("Error: No authentication information found") {
            self.trouble = Some(Trouble::NotSignedIn { message, fix: SIGN_IN.to_owned() });
        } else if line.starts_with("Error: No session, task, or name matched") {
            self.trouble = Some(Trouble::SessionGone(message));
        }
    }

    fn exited(&mut self, _exit: Option<i32>, heard: &mut Heard) {
        self.ledger.read(heard);
        if self.ended {
            return;
        }
        if self.aborted {
            heard.end(Ending::Cancelled);
        } else if let Some(trouble) = self.trouble.take() {
            heard.end(Ending::Failed(trouble));
        }
    }
}

impl Stream {
    fn asked(&mut self, data: &Value, heard: &mut Heard) {
        self.answering = false;
        let model = words(data, "model");
        if model.is_some() && model != self.model {
            heard.signals.extend(model.clone().map(Signal::Model));
            self.model = model;
        }
    }

    fn said(&mut self, data: &Value, from_a_helper: bool, heard: &mut Heard) {
        self.failure = None;
        self.trouble = None;
        // What a sub-agent says is for the agent.
        if !from_a_helper {
            heard.signals.extend(words(data, "reasoningText").map(Signal::Thought));
            heard.signals.extend(words(data, "content").map(Signal::Text));
        }
    }

    fn called(&mut self, data: &Value, heard: &mut Heard) {
        let Some(id) = words(data, "toolCallId") else { return };
        let name = words(data, "toolName").unwrap_or_default();
        let input = data.get("arguments").map(Value::to_string).unwrap_or_default();
        self.calls.insert(id.clone());
        heard.push(Signal::ToolCalled { id, name, input });
    }

    fn returned(&mut self, data: &Value, heard: &mut Heard) {
        let Some(id) = words(data, "toolCallId").filter(|id| self.calls.remove(id)) else { return };
        let done = data.get("success").and_then(Value::as_bool) == Some(true);
        let output = json::text(data, &["result", "content"])
            .or_else(|| json::text(data, &["error", "message"]))
            .unwrap_or_default();
        let edits = data.get("fileEdits").and_then(Value::as_array).into_iter().flatten();
        let mut end = ToolEnd::new(id, done, output)
            .touching(edits.filter_map(|edit| json::text(edit, &["path"]).map(str::to_owned)));
        let exit = json::at(data, &["shellExecution", "exitCode"]).and_then(Value::as_i64);
        end.exit = exit.and_then(|exit| i32::try_from(exit).ok());
        heard.push(Signal::ToolReturned(end));
    }

    fn failed(&mut self, data: &Value, heard: &mut Heard) {
        quotas(data, heard);
        self.failure = Some(Failure::new(data, self.answering));
    }

    fn result(&mut self, line: &Line<'_>, heard: &mut Heard) {
        if let Some(id) = &line.session_id {
            heard.push(Signal::Session(id.to_string()));
        }
        self.ledger.read(heard);
        self.ended = true;
        let ending = match self.trouble.take() {
            _ if self.aborted => Ending::Cancelled,
            Some(trouble) => Ending::Failed(trouble),
            None if line.exit_code != Some(0) => Ending::Failed(Trouble::BadRequest {
                status: 0,
                message: "the program says that it failed, and not why".to_owned(),
            }),
            None if self.ledger.refused => Ending::Refused,
            None => Ending::Finished,
        };
        heard.end(ending);
    }
}

/// The part of the session's file that this run adds, for its counts of tokens.
#[derive(Debug, Default)]
struct Ledger {
    path: PathBuf,
    read: u64,
    /// The last answer was held back by a filter.
    refused: bool,
}

impl Ledger {
    fn new(path: PathBuf, known: bool) -> Self {
        // What is there already was counted when it was new.
        let read = if known { path.metadata().map_or(0, |file| file.len()) } else { 0 };
        Self { path, read, refused: false }
    }

    /// Reads on to the last whole line. A file that can't be read only costs the counts.
    fn read(&mut self, heard: &mut Heard) {
        let Ok(new) = self.rest() else { return };
        let Some(end) = memchr::memrchr(b'\n', &new) else { return };
        self.read += end as u64 + 1;
        new[..end].split(|byte| *byte == b'\n').for_each(|line| self.line(line, heard));
    }

    fn rest(&self) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut new = Vec::new();
        file.read_to_end(&mut new)?;
        Ok(new)
    }

    fn line(&mut self, line: &[u8], heard: &mut Heard) {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { return };
        if line.kind != "session.usage_record" {
            return;
        }
        let data = line.data();
        let Some(told) = data.get("usage") else { return };
        self.refused = told.get("contentFilterTriggered").and_then(Value::as_bool) == Some(true);
        quotas(told, heard);
        let usage = tokens(told);
        if usage.total() > 0 {
            heard.push(Signal::Used { model: words(told, "model"), usage, cost: None });
        }
    }
}

/// Its input includes what was cached, whatever the API behind it counts.
fn tokens(told: &Value) -> Usage {
    let count = |name| json::number(told, &[name]).unwrap_or(0);
    let (cache_read, cache_write) = (count("cacheReadTokens"), count("cacheWriteTokens"));
    let reasoning = count("reasoningTokens");
    Usage {
        input: count("inputTokens").saturating_sub(cache_read).saturating_sub(cache_write),
        output: count("outputTokens").saturating_sub(reasoning),
        cache_read,
        cache_write,
        reasoning,
    }
}
