//! pi: `pi -p --mode json`, with the prompt on its standard input.
//!
//! The id is ours to choose. The exit status is always 0: how a turn ended is told by the last
//! answer's `stopReason`, once `agent_settled` says that no retry follows. The session's file is
//! there only after the first answer, so a first prompt that never got one is not resumed but asked
//! again.
//!
//! It takes spaces and line ends off both ends of the prompt.

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
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    Abilities, Call, Card, Conversation, Dialogue, Ending, Heard, History, Job, Opening, SignIn,
    Signal, ToolEnd, Trouble, Unreadable, Vendor, World, api_error::ApiError, history::read_lines,
    json::Text,
};

#[derive(Clone, Copy, Debug)]
pub struct Pi;

const SIGN_IN: &str = "pi, then /login";

impl Vendor for Pi {
    fn card(&self) -> Card {
        Card {
            name: "pi".to_owned(),
            alias: None,
            title: "pi",
            programs: &["pi"],
            install: "npm install -g @earendil-works/pi-coding-agent",
            sign_in: SIGN_IN,
            tested: Some("0.87.1"),
            can: Abilities {
                own_id: true,
                resume: true,
                fork: true,
                acp: false,
                cost: true,
                permission: true,
                tools: false,
                rewind: false,
            },
            // After SIGINT its commands run on.
            stop_signal: 15,
            argument_limit: None,
        }
    }

    fn signed_in(&self, world: &World) -> SignIn {
        const KEYS: [&str; 16] = [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_OAUTH_TOKEN",
            "OPENAI_API_KEY",
            "AZURE_OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
            "AI_GATEWAY_API_KEY",
            "MISTRAL_API_KEY",
            "DEEPSEEK_API_KEY",
            "GROQ_API_KEY",
            "XAI_API_KEY",
            "ZAI_API_KEY",
            "KIMI_API_KEY",
            "OPENCODE_API_KEY",
            "AWS_BEARER_TOKEN_BEDROCK",
        ];
        if let Some(key) = KEYS.iter().find(|name| world.get(name).is_some()) {
            return SignIn::Yes((*key).to_owned());
        }
        let dir = config_dir(world);
        let kept: Option<serde_json::Map<String, Value>> = std::fs::read(dir.join("auth.json"))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        match kept.as_ref().and_then(|kept| kept.keys().next()) {
            Some(provider) => SignIn::Yes(provider.clone()),
            // Providers of the user's own bring their keys along, or need none.
            None if dir.join("models.json").is_file() => SignIn::Unknown,
            None => SignIn::No,
        }
    }

    fn terms(&self, permission: Permission) -> &'static str {
        match permission {
            Permission::ReadOnly => "--tools read,grep,find,ls",
            Permission::Edit => {
                "--tools with edit and write: files (also outside of the workspace), no shell"
            }
            Permission::Full => "all tools",
        }
    }

    fn call(&self, job: &Job<'_>) -> Call {
        let mut call = Call::new(["-p", "--mode", "json"]);
        match job.conversation {
            Conversation::New { id } => call.pair("--session-id", id),
            // The other flag would begin a new one where there is none.
            Conversation::Resume { id } => call.pair("--session", id),
            Conversation::Fork { from, id, .. } => {
                call.pair("--fork", from).pair("--session-id", id)
            }
        };
        // It asks nobody: a tool is there or it is not.
        match job.permission {
            Permission::ReadOnly => call.pair("--tools", "read,grep,find,ls"),
            Permission::Edit => call.pair("--tools", "read,grep,find,ls,edit,write"),
            Permission::Full => &mut call,
        };
        if let Some(model) = job.model {
            call.pair("--model", model);
        }
        call.args(job.extra);
        call
    }

    fn dialogue(&self, job: &Job<'_>) -> Box<dyn Dialogue> {
        Box::new(Stream { prompt: job.prompt.to_owned(), ..Stream::default() })
    }

    /// Only of this working directory: it resumes no others without a question.
    fn history(&self, world: &World, cwd: &Path, id: &str) -> io::Result<Option<History>> {
        let Some(path) = session_file(world, cwd, id) else { return Ok(None) };
        let mut history = History::new(path.clone());
        read_lines(&path, |line| remember(line, &mut history))?;
        Ok(Some(history))
    }
}

fn config_dir(world: &World) -> PathBuf {
    world.dir("PI_CODING_AGENT_DIR", ".pi/agent")
}

/// `<time>_<id>.jsonl` in a directory that is called like the working directory.
fn session_file(world: &World, cwd: &Path, id: &str) -> Option<PathBuf> {
    let ending = format!("_{id}.jsonl");
    let dir = match world.get("PI_CODING_AGENT_SESSION_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => config_dir(world).join("sessions").join(encoded(cwd)),
    };
    let files = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    let ours = files.filter(|file| file.to_string_lossy().ends_with(&ending));
    ours.max()
}

fn encoded(cwd: &Path) -> String {
    let cwd = cwd.to_string_lossy();
    format!("--{}--", cwd.strip_prefix('/').unwrap_or(&cwd).replace(['/', '\\', ':'], "-"))
}

/// One line of its session file.
fn remember(line: &[u8], history: &mut History) {
    let Ok(kept) = serde_json::from_slice::<Line<'_>>(line) else { return };
    let Some(message) = kept.message.filter(|_| kept.kind == "message") else { return };
    match &*message.role {
        "user" => history.prompt(message.text()),
        "toolResult" => history.answer(message.tool_call_id.as_deref().unwrap_or_default()),
        "assistant" if message.is_whole() => {
            for block in message.blocks() {
                match block {
                    Block::Text { text } => history.text(text),
                    Block::ToolCall { id } => history.call(id),
                    Block::Thinking { .. } | Block::Other => {}
                }
            }
        }
        _ => {}
    }
}

/// The stream's lines, with all that we read of any of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    id: Text<'a>,
    #[serde(default, borrow)]
    message: Option<Message<'a>>,
    #[serde(default, borrow)]
    assistant_message_event: Option<Piece<'a>>,
    #[serde(default, borrow)]
    tool_call_id: Text<'a>,
    #[serde(default, borrow)]
    tool_name: Text<'a>,
    #[serde(default, borrow)]
    args: Option<&'a RawValue>,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    delay_ms: Option<f64>,
    #[serde(default, borrow)]
    error_message: Text<'a>,
    #[serde(default)]
    will_retry: bool,
}

#[derive(Debug, Deserialize)]
struct Piece<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    delta: Text<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    model: Text<'a>,
    #[serde(default)]
    usage: Option<Tokens>,
    #[serde(default, borrow)]
    stop_reason: Text<'a>,
    #[serde(default, borrow)]
    raw_stop_reason: Text<'a>,
    #[serde(default, borrow)]
    error_message: Text<'a>,
    #[serde(default, borrow)]
    tool_call_id: Text<'a>,
}

impl Message<'_> {
    /// Whether it counts as said. It drops the others from the conversation itself.
    fn is_whole(&self) -> bool {
        !matches!(self.stop_reason.as_deref(), Some("error" | "aborted" | "pending"))
    }

    fn blocks(&self) -> Vec<Block> {
        self.content.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    fn text(&self) -> String {
        let raw = self.content.map_or("null", RawValue::get);
        serde_json::from_str(raw).unwrap_or_else(|_| texts(&self.blocks()))
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Block {
    Text {
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
    },
    ToolCall {
        id: String,
    },
    #[serde(other)]
    Other,
}

fn texts(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Tokens of one call. Its `output` has the reasoning in it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
    cost: Costs,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Costs {
    total: f64,
}

impl Tokens {
    fn usage(&self) -> Usage {
        Usage {
            input: self.input,
            output: self.output.saturating_sub(self.reasoning),
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            reasoning: self.reasoning,
        }
    }

    /// Zero is also what it says of a model whose price it doesn't know.
    fn cost(&self) -> Option<Micros> {
        (self.cost.total > 0.0).then(|| Micros::from_dollars(self.cost.total))
    }
}

/// What is kept between lines.
#[derive(Debug, Default)]
struct Stream {
    prompt: String,
    begun: bool,
    model: Option<String>,
    /// Files that running calls will have written.
    files: HashMap<String, String>,
    /// How the last answer ended.
    last: Option<Ending>,
    /// The last error that it found worth another try.
    retried: Option<String>,
    /// The agent has stopped, and no retry was announced.
    stopped: bool,
    ended: bool,
    complaint: String,
}

impl Dialogue for Stream {
    fn open(&mut self) -> Opening {
        Opening::prompt(&std::mem::take(&mut self.prompt))
    }

    fn line(&mut self, line: &[u8], heard: &mut Heard) -> Result<(), Unreadable> {
        let line: Line<'_> = serde_json::from_slice(line)?;
        self.begun = true;
        match &*line.kind {
            "session" => heard.signals.extend(line.id.map(|id| Signal::Session(id.into_owned()))),
            "message_update" => heard.push(match line.assistant_message_event {
                Some(Piece { kind, delta: Some(delta) }) if kind == "text_delta" => {
                    Signal::Writing(delta.into_owned())
                }
                _ => Signal::Thinking,
            }),
            "message_end" => {
                if let Some(message) = line.message.filter(|message| message.role == "assistant") {
                    self.answered(&message, heard);
                }
            }
            "tool_execution_start" => self.called(&line, heard),
            "tool_execution_update" => heard.push(Signal::Thinking),
            "tool_execution_end" => self.returned(&line, heard),
            "auto_retry_start" => self.retrying(&line, heard),
            "agent_end" => self.stopped = !line.will_retry,
            "agent_settled" => self.end(heard),
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

    /// Without a word before it has refused its arguments. A version that doesn't say when it has
    /// settled is done when it stopped.
    fn exited(&mut self, exit: Option<i32>, heard: &mut Heard) {
        if self.stopped {
            self.end(heard);
        } else if !self.begun && exit.is_some_and(|status| status > 0) {
            let message = std::mem::take(&mut self.complaint);
            heard.end(Ending::Failed(Trouble::BadRequest { status: 0, message }));
        }
    }
}

impl Stream {
    fn answered(&mut self, message: &Message<'_>, heard: &mut Heard) {
        if let Some(model) = message.model.as_deref()
            && self.model.as_deref() != Some(model)
        {
            self.model = Some(model.to_owned());
            heard.push(Signal::Model(model.to_owned()));
        }
        if message.is_whole() {
            for block in message.blocks() {
                match block {
                    Block::Text { text } => heard.push(Signal::Text(text)),
                    Block::Thinking { thinking } => heard.push(Signal::Thought(thinking)),
                    Block::ToolCall { .. } | Block::Other => {}
                }
            }
        }
        if let Some(tokens) = &message.usage
            && tokens.usage().total() > 0
        {
            let (usage, cost) = (tokens.usage(), tokens.cost());
            heard.push(Signal::Used { model: self.model.clone(), usage, cost });
        }
        self.last = Some(self.ending(message));
    }

    fn ending(&self, message: &Message<'_>) -> Ending {
        match message.stop_reason.as_deref() {
            Some("length") => Ending::Truncated,
            Some("aborted") => Ending::Cancelled,
            Some("error") => match message.raw_stop_reason.as_deref() {
                Some("content_filter" | "refusal" | "SAFETY" | "PROHIBITED_CONTENT") => {
                    Ending::Refused
                }
                _ => Ending::Failed(
                    self.trouble(message.error_message.as_deref().unwrap_or_default()),
                ),
            },
            _ => Ending::Finished,
        }
    }

    /// It has no field for the kind of an error: `errorMessage` is the API's status and body, or
    /// the words of the library. What it tried again itself is at least nothing that lasts.
    fn trouble(&self, text: &str) -> Trouble {
        let error = ApiError::read(text);
        error.trouble(SIGN_IN).unwrap_or_else(|| {
            let message = error.message;
            match self.retried.as_deref() == Some(text) {
                true => Trouble::Server { status: 500, message },
                false => Trouble::BadRequest { status: 0, message },
            }
        })
    }

    fn called(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let id = line.tool_call_id.as_deref().unwrap_or_default().to_owned();
        let name = line.tool_name.as_deref().unwrap_or_default().to_owned();
        let input = line.args.map_or("{}", RawValue::get).to_owned();
        if let Some(file) = written(&name, &input) {
            self.files.insert(id.clone(), file);
        }
        heard.push(Signal::ToolCalled { id, name, input });
    }

    fn returned(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let id = line.tool_call_id.as_deref().unwrap_or_default();
        let blocks = line.result.get("content").cloned().unwrap_or_default();
        let output = texts(&serde_json::from_value::<Vec<Block>>(blocks).unwrap_or_default());
        let file = self.files.remove(id).filter(|_| !line.is_error);
        let shell = line.tool_name.as_deref() == Some("bash");
        let exit = if shell { exit_status(&output, line.is_error) } else { None };
        let mut end = ToolEnd::new(id, !line.is_error, output).touching(file);
        end.exit = exit;
        heard.push(Signal::ToolReturned(end));
    }

    fn retrying(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let text = line.error_message.as_deref().unwrap_or_default();
        self.retried = Some(text.to_owned());
        let wait = line.delay_ms.map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1e3));
        heard.push(Signal::Retrying { trouble: self.trouble(text), wait });
    }

    fn end(&mut self, heard: &mut Heard) {
        if self.ended {
            return;
        }
        self.ended = true;
        heard.end(self.last.take().unwrap_or_else(|| {
            let message = "it ended without an answer".to_owned();
            Ending::Failed(Trouble::BadRequest { status: 0, message })
        }));
    }
}

/// A command's status, which it puts under the output of one that failed.
fn exit_status(output: &str, failed: bool) -> Option<i32> {
    match failed {
        true => output.rsplit_once("\n\nCommand exited with code ")?.1.parse().ok(),
        false => Some(0),
    }
}

/// The file that a tool writes, by the tool's own input.
fn written(tool: &str, input: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Input {
        path: String,
    }
    let writes = matches!(tool, "write" | "edit");
    writes.then(|| serde_json::from_str::<Input>(input).ok()).flatten().map(|input| input.path)
}
