//! Qwen Code: `qwen --output-format stream-json`, with the prompt on its standard input.
//!
//! The id is ours to choose, except for a fork, whose id is on every line. The lines look like
//! Claude Code's, but errors do not: an API's error is the end of the last text, and its message
//! in the `result` line is all that there is to know it by. Totals in that line count from the
//! conversation's start, with the calls that it makes for its own memory.
//!
//! Whether a text counts shows only in the next line, for it may be one of an attempt that is given
//! up; so a text is held back until then. Where an answer is cut, it lets the model write the rest
//! (`preserveText`), and what it then prints is one text.
//!
//! It puts an empty line under the prompt, and reads `@file` and `/command` in it.

mod line;

use std::{
    borrow::Cow,
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use segue_core::{Permission, usage::Usage};
use serde::Deserialize;
use serde_json::Value;

use self::line::{Block, Line, Retry, Tokens};
use super::{
    Abilities, Call, Card, Conversation, Dialogue, Ending, Heard, History, Job, Opening, SignIn,
    Signal, ToolEnd, Trouble, Unreadable, Vendor, World,
    api_error::{ApiError, unwrapped},
    claude::encoded,
    history::read_lines,
    json::{self, Text},
};

#[derive(Clone, Copy, Debug)]
pub struct Qwen;

const SIGN_IN: &str = "qwen, then /auth";

/// Agents that run another vendor's program, which knows nothing of our permissions, and what makes
/// a branch and a directory.
const BEYOND_EDITS: &str = "--exclude-tools=agent(claude-code),agent(codex),enter_worktree";

impl Vendor for Qwen {
    fn card(&self) -> Card {
        Card {
            name: "qwen".to_owned(),
            alias: None,
            title: "Qwen Code",
            programs: &["qwen"],
            install: "npm install -g @qwen-code/qwen-code",
            sign_in: SIGN_IN,
            tested: Some("0.24.4"),
            can: Abilities {
                own_id: true,
                resume: true,
                fork: true,
                acp: true,
                cost: false,
                permission: true,
                tools: false,
                rewind: false,
            },
            stop_signal: 2,
            argument_limit: None,
        }
    }

    fn signed_in(&self, world: &World) -> SignIn {
        const KEYS: [&str; 6] = [
            "OPENAI_API_KEY",
            "DASHSCOPE_API_KEY",
            "BAILIAN_CODING_PLAN_API_KEY",
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
        ];
        if let Some(key) = KEYS.iter().find(|name| world.get(name).is_some()) {
            return SignIn::Yes((*key).to_owned());
        }
        let dir = config_dir(world);
        if dir.join("oauth_creds.json").is_file() {
            return SignIn::Yes("Qwen".to_owned());
        }
        // Keys may be in either of these.
        match dir.join("settings.json").is_file() || dir.join(".env").is_file() {
            true => SignIn::Unknown,
            false => SignIn::No,
        }
    }

    fn terms(&self, permission: Permission) -> &'static str {
        match permission {
            Permission::ReadOnly => "--approval-mode default: no tool that would have to ask",
            Permission::Edit => {
                "--approval-mode auto-edit: files (also outside of the workspace), no shell"
            }
            Permission::Full => "--approval-mode yolo",
        }
    }

    fn call(&self, job: &Job<'_>) -> Call {
        let mut call = Call::new(["--output-format", "stream-json", "--include-partial-messages"]);
        match job.conversation {
            Conversation::New { id } => call.pair("--session-id", id),
            Conversation::Resume { id } => call.pair("--resume", id),
            Conversation::Fork { from, .. } => call.pair("--resume", from).arg("--fork-session"),
        };
        // With nobody to ask, it refuses what it would have to ask for.
        match job.permission {
            Permission::ReadOnly => call.pair("--approval-mode", "default").arg(BEYOND_EDITS),
            Permission::Edit => call.pair("--approval-mode", "auto-edit").arg(BEYOND_EDITS),
            Permission::Full => call.pair("--approval-mode", "yolo"),
        };
        if let Some(model) = job.model {
            call.pair("--model", model);
        }
        call.args(job.extra);
        // Otherwise it is three processes, of which only the last one does anything.
        call.env("QWEN_CODE_NO_RELAUNCH", "true");
        // With a job for later it would never end.
        call.default_env("QWEN_CODE_DISABLE_CRON", "1");
        call
    }

    fn dialogue(&self, job: &Job<'_>) -> Box<dyn Dialogue> {
        let before = match job.conversation {
            Conversation::New { .. } => Some(Usage::default()),
            Conversation::Resume { id } | Conversation::Fork { from: id, .. } => {
                spent(&session_file(job.world, job.cwd, id))
            }
        };
        Box::new(Stream { prompt: job.prompt.to_owned(), before, ..Stream::default() })
    }

    /// Only of this working directory: it finds no others.
    fn history(&self, world: &World, cwd: &Path, id: &str) -> io::Result<Option<History>> {
        let path = session_file(world, cwd, id);
        if !path.is_file() {
            return Ok(None);
        }
        let mut history = History::new(path.clone());
        read_lines(&path, |line| remember(line, &mut history))?;
        Ok(Some(history))
    }
}

fn config_dir(world: &World) -> PathBuf {
    world.dir("QWEN_HOME", ".qwen")
}

fn session_file(world: &World, cwd: &Path, id: &str) -> PathBuf {
    let dir = match world.get("QWEN_RUNTIME_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => config_dir(world),
    };
    dir.join("projects").join(encoded(cwd)).join("chats").join(format!("{id}.jsonl"))
}

/// A line of its session file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    subtype: Text<'a>,
    #[serde(default)]
    message: Option<Spoken>,
    #[serde(default)]
    system_payload: Value,
}

/// In the words of Google's API.
#[derive(Deserialize)]
struct Spoken {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(default)]
    function_call: Option<Named>,
    #[serde(default)]
    function_response: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    id: String,
}

fn remember(line: &[u8], history: &mut History) {
    let Ok(kept) = serde_json::from_slice::<Kept<'_>>(line) else { return };
    let Some(message) = kept.message else { return };
    if kept.kind == "user" && kept.subtype.is_none() {
        let texts: Vec<String> = message.parts.into_iter().filter_map(|part| part.text).collect();
        let text = texts.join("\n");
        // The empty line that it put under the prompt.
        return history.prompt(text.strip_suffix("\n\n").unwrap_or(&text));
    }
    for part in message.parts {
        match part {
            Part { text: Some(text), thought: false, .. } if kept.kind == "assistant" => {
                history.text(text);
            }
            Part { function_call: Some(call), .. } => history.call(call.id),
            Part { function_response: Some(answer), .. } => history.answer(&answer.id),
            _ => {}
        }
    }
}

/// What a conversation has used so far, by the events of its file from which the program itself
/// makes its totals again; `None` where that can't be known.
fn spent(file: &Path) -> Option<Usage> {
    let mut all = Usage::default();
    let read = read_lines(file, |line| {
        let Ok(kept) = serde_json::from_slice::<Kept<'_>>(line) else { return };
        if kept.subtype.as_deref() != Some("ui_telemetry") {
            return;
        }
        let count = |name: &str| json::number(&kept.system_payload, &["uiEvent", name]);
        let told = Tokens {
            input_tokens: count("input_token_count").unwrap_or(0),
            output_tokens: count("output_token_count").unwrap_or(0),
            cache_read_input_tokens: count("cached_content_token_count").unwrap_or(0),
        };
        all += told.usage();
    });
    read.ok().map(|()| all)
}

/// What is kept between lines.
#[derive(Debug, Default)]
struct Stream {
    prompt: String,
    session: Option<String>,
    model: Option<String>,
    /// Texts and thoughts that count if the next line doesn't take them back.
    held: Vec<Signal>,
    /// What the conversation had used before this turn.
    before: Option<Usage>,
    /// What was reported so far.
    reported: Usage,
    /// Files that running calls will have written, and the calls that are commands.
    files: HashMap<String, String>,
    commands: Vec<String>,
    ended: bool,
    complaint: String,
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
            "stream_event" => streamed(&line, heard),
            "assistant" => self.assistant(&line, heard),
            "user" => self.results(&line, heard),
            "system" => self.system(&line, heard),
            "result" => self.result(&line, heard),
            _ => {}
        }
        Ok(())
    }

    /// Kept for the case that it says nothing else. It decides nothing.
    fn error_line(&mut self, line: &str, _heard: &mut Heard) {
        if !line.trim().is_empty() {
            line.clone_into(&mut self.complaint);
        }
    }

    /// Without a word before it has refused its arguments, or it has no such session.
    fn exited(&mut self, exit: Option<i32>, heard: &mut Heard) {
        if self.ended {
            return;
        }
        self.release(heard);
        if self.session.is_none() && exit.is_some_and(|status| status > 0) {
            let message = std::mem::take(&mut self.complaint);
            heard.end(Ending::Failed(Trouble::BadRequest { status: 0, message }));
        }
    }
}

impl Stream {
    /// What was held back counts.
    fn release(&mut self, heard: &mut Heard) {
        heard.signals.append(&mut self.held);
    }

    fn system(&mut self, line: &Line<'_>, heard: &mut Heard) {
        match line.subtype.as_deref() {
            Some("init") => {
                if let Some(model) = &line.model {
                    self.model = Some(model.to_string());
                    heard.push(Signal::Model(model.to_string()));
                }
                if let Some(version) = &line.qwen_code_version {
                    heard.push(Signal::Version(version.to_string()));
                }
            }
            Some("retry") => self.retry(line.data.as_ref(), heard),
            _ => heard.push(Signal::Thinking),
        }
    }

    /// It tells how long it waits where a limit is the reason, and nothing else about any reason.
    fn retry(&mut self, told: Option<&Retry<'_>>, heard: &mut Heard) {
        let Some(told) = told else { return };
        match told.preserve_text {
            true => self.release(heard),
            false => self.held.clear(),
        }
        if told.reason.as_deref() == Some("model_fallback") {
            return heard.push(Signal::Notice("goes on with its fallback model".to_owned()));
        }
        let wait = told.delay_ms.map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1e3));
        let trouble = match wait {
            Some(_) => Trouble::Limit {
                message: "the model's vendor limits the rate".to_owned(),
                resets_at: None,
                retry_after: wait,
                quota: false,
            },
            None => Trouble::StreamCut("the answer was not whole".to_owned()),
        };
        heard.push(Signal::Retrying { trouble, wait });
    }

    fn assistant(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let Some(message) = &line.message else { return };
        self.release(heard);
        let from_a_helper = line.parent_tool_use_id.is_some();
        for block in message.blocks() {
            match block {
                // What a sub-agent says is for the agent; what it does is for the journal.
                Block::Text { .. } | Block::Thinking { .. } if from_a_helper => {}
                Block::Text { text } => self.held.push(Signal::Text(text)),
                Block::Thinking { thinking } => self.held.push(Signal::Thought(thinking)),
                // It prints calls only of answers that are whole.
                Block::ToolUse { id, name, input } => {
                    self.release(heard);
                    self.called(id, name, &input, heard);
                }
                Block::ToolResult { .. } | Block::Other => {}
            }
        }
        let usage = message.usage.unwrap_or_default().usage();
        let model = message.model.as_deref().map(str::to_owned).or_else(|| self.model.clone());
        self.used(model, usage, heard);
    }

    fn called(&mut self, id: String, name: String, input: &Value, heard: &mut Heard) {
        if let Some(file) = written(&name, input) {
            self.files.insert(id.clone(), file);
        }
        if name == "run_shell_command" {
            self.commands.push(id.clone());
        }
        heard.push(Signal::ToolCalled { id, name, input: input.to_string() });
    }

    fn used(&mut self, model: Option<String>, usage: Usage, heard: &mut Heard) {
        if usage.total() > 0 {
            self.reported += usage;
            heard.push(Signal::Used { model, usage, cost: None });
        }
    }

    fn results(&mut self, line: &Line<'_>, heard: &mut Heard) {
        self.release(heard);
        let Some(message) = &line.message else { return };
        for block in message.blocks() {
            let Block::ToolResult { tool_use_id, content, is_error } = block else { continue };
            let output = match content {
                Value::String(text) => text,
                Value::Array(parts) => {
                    let texts = parts.iter().filter_map(|part| json::text(part, &["text"]));
                    texts.collect::<Vec<_>>().join("\n")
                }
                _ => String::new(),
            };
            let file = self.files.remove(&tool_use_id).filter(|_| !is_error);
            let exit = match self.commands.contains(&tool_use_id) {
                true => exit_status(&output),
                false => None,
            };
            let mut end = ToolEnd::new(tool_use_id, !is_error, output).touching(file);
            end.exit = exit;
            heard.push(Signal::ToolReturned(end));
        }
    }

    fn result(&mut self, line: &Line<'_>, heard: &mut Heard) {
        self.ended = true;
        let failure = line.error.as_ref().map(|said| said.message.as_str());
        match line.is_error {
            // The text under way ends in the error's message; what is before that is a part.
            true => self.held.clear(),
            false => self.release(heard),
        }
        if let (Some(before), Some(all)) = (self.before, line.usage) {
            let rest = all.usage().since(before).since(self.reported);
            self.used(None, rest, heard);
        }
        heard.end(match failure.filter(|_| line.is_error) {
            Some("CANCELLED") => Ending::Cancelled,
            Some(message) => Ending::Failed(trouble(message)),
            None if line.is_error => Ending::Failed(trouble("")),
            None => Ending::Finished,
        });
    }
}

/// Pieces of what comes whole later.
fn streamed(line: &Line<'_>, heard: &mut Heard) {
    let delta = line.event.as_ref().and_then(|event| event.delta.as_ref());
    let text = delta.and_then(|delta| delta.text.as_deref());
    match text {
        Some(text) if line.parent_tool_use_id.is_none() => {
            heard.push(Signal::Writing(text.to_owned()));
        }
        Some(_) => heard.push(Signal::Thinking),
        None if delta.is_some() => heard.push(Signal::Thinking),
        None => {}
    }
}

/// The message is all that it tells of an error. The program makes it: `[API Error: …]` around an
/// API's status and message, or one of its own sentences, known by how they begin.
fn trouble(message: &str) -> Trouble {
    const SPENT: [&str; 2] = ["Qwen OAuth quota exceeded:", "Qwen OAuth free tier has been"];
    let inner = unwrapped(message);
    if SPENT.iter().any(|start| inner.starts_with(start)) {
        let message = inner.to_owned();
        return Trouble::Limit { message, resets_at: None, retry_after: None, quota: true };
    }
    if inner.starts_with("Missing API key") {
        let message = inner.to_owned();
        return Trouble::NotSignedIn { message, fix: SIGN_IN.to_owned() };
    }
    let error = ApiError::read(inner);
    error.trouble(SIGN_IN).unwrap_or(Trouble::BadRequest { status: 0, message: error.message })
}

/// A command's status, by the fields that are put under its output.
fn exit_status(output: &str) -> Option<i32> {
    let (_, rest) = output.rsplit_once("\nExit Code: ")?;
    rest.split_once("\nSignal: ")?.0.parse().ok()
}

/// The file that a tool writes, by the tool's own input.
fn written(tool: &str, input: &Value) -> Option<String> {
    let field = match tool {
        "write_file" | "edit" => "file_path",
        "notebook_edit" => "notebook_path",
        _ => return None,
    };
    json::text(input, &[field]).map(str::to_owned)
}
