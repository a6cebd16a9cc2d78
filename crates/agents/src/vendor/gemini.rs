//! Gemini CLI: `gemini --output-format stream-json`, with the prompt on its standard input.
//!
//! The id is ours to choose, except for a fork, whose id is in the first line. The `result` line
//! ends a turn. Of an API's error it has only the message; the exit status is that error's HTTP
//! status, less 256, and so an error without a body is only told when the program has ended.
//! Retries and whether a quota is spent are to be read on its standard error, in the program's own
//! fixed words.
//!
//! Texts come in pieces only. When a stream ends without its end, the program asks again and says
//! nothing about it, so that the pieces of both attempts follow each other; its session file has the
//! second one alone. When the conversation no longer fits, it doesn't ask the model, and calls that
//! a success. That a model stopped at its output limit, or refused to go on, it does not tell.
//!
//! It reads `@file` in a prompt, and puts a space before any other `@`.

pub(crate) mod home;
mod session;
mod stderr;

use std::{
    borrow::Cow,
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use segue_core::{Permission, usage::Usage};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use self::{
    session::{fullest, project, project_to_be},
    stderr::Stderr,
};
use super::{
    Abilities, Call, Card, Conversation, Dialogue, Ending, Heard, History, Job, Opening, SignIn,
    Signal, ToolEnd, Trouble, Unreadable, Vendor, World,
    api_error::{ApiError, unwrapped},
    json::{self, Text},
};

#[derive(Clone, Copy, Debug)]
pub struct Gemini;

const SIGN_IN: &str = "gemini, then /auth";

/// Without this a model could lift its own limits: it enters the plan mode, leaves it again, and
/// with nobody there to be asked that is taken for a yes to everything.
const POLICY_FILE: &str = "gemini-policy.toml";
const POLICY: &str = "[[rule]]
toolName = [\"enter_plan_mode\", \"exit_plan_mode\"]
decision = \"deny\"
priority = 999
";

impl Vendor for Gemini {
    fn card(&self) -> Card {
        Card {
            name: "gemini".to_owned(),
            alias: Some("g"),
            title: "Gemini CLI",
            programs: &["gemini"],
            install: "npm install -g @google/gemini-cli",
            sign_in: SIGN_IN,
            tested: Some("0.61.0"),
            can: Abilities {
                own_id: true,
                resume: true,
                fork: true,
                acp: true,
                cost: false,
                // A model that enters plan mode and leaves it again has every right from then on:
                // with nobody to ask, the program takes that for a yes. Only a file with a policy
                // (`--policy`) keeps it from that.
                permission: true,
                tools: true,
                rewind: false,
            },
            stop_signal: 15,
            argument_limit: None,
        }
    }

    fn context_tokens(&self) -> u64 {
        1_000_000
    }

    fn signed_in(&self, world: &World) -> SignIn {
        const KEYS: [&str; 4] = [
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_GENAI_USE_VERTEXAI",
            "GOOGLE_GENAI_USE_GCA",
        ];
        if let Some(key) = KEYS.iter().find(|name| world.get(name).is_some()) {
            return SignIn::Yes((*key).to_owned());
        }
        let dir = config_dir(world);
        if dir.join("oauth_creds.json").is_file() {
            return SignIn::Yes("Google".to_owned());
        }
        let chosen = std::fs::read(dir.join("settings.json")).ok().is_some_and(|text| {
            let settings: Value = serde_json::from_slice(&text).unwrap_or_default();
            json::text(&settings, &["security", "auth", "selectedType"]).is_some()
        });
        // The key may be in the keychain, or in a file for the environment.
        match chosen || dir.join(".env").is_file() {
            true => SignIn::Unknown,
            false => SignIn::No,
        }
    }

    fn terms(&self, permission: Permission) -> &'static str {
        match permission {
            Permission::ReadOnly => "--approval-mode default: no tool that would have to ask",
            Permission::Edit => "--approval-mode auto_edit: files of the workspace, no shell",
            Permission::Full => "--approval-mode yolo",
        }
    }

    fn call(&self, job: &Job<'_>) -> Call {
        let mut call = Call::new(["--output-format", "stream-json", "--skip-trust"]);
        match job.conversation {
            Conversation::New { id } => call.pair("--session-id", id),
            Conversation::Resume { id } => call.pair("--resume", id),
            Conversation::Fork { from, .. } => match forked(job.world, job.cwd, from) {
                Some(file) => call.pair("--session-file", file),
                // It will say that it has none.
                None => call.pair("--session-file", from),
            },
        };
        // With nobody to ask, it hides the tools that it would have to ask for.
        let mode = match job.permission {
            Permission::ReadOnly => "default",
            Permission::Edit => "auto_edit",
            Permission::Full => "yolo",
        };
        call.pair("--approval-mode", mode);
        let tools = home::attach(&mut call, job);
        if job.permission != Permission::Full {
            let policy = format!("{POLICY}{}", if tools { home::POLICY } else { "" });
            call.pair("--policy", job.files.join(POLICY_FILE)).file(POLICY_FILE, policy);
        }
        if let Some(model) = job.model {
            call.pair("--model", model);
        }
        call.args(job.extra);
        // Otherwise it is two processes, and no signal reaches the one that works.
        call.env("GEMINI_CLI_NO_RELAUNCH", "true");
        call
    }

    fn dialogue(&self, job: &Job<'_>) -> Box<dyn Dialogue> {
        Box::new(Stream {
            prompt: job.prompt.to_owned(),
            place: Some((job.world.clone(), job.cwd.to_owned())),
            ..Stream::default()
        })
    }

    /// Only of this working directory: it resumes no others.
    fn history(&self, world: &World, cwd: &Path, id: &str) -> io::Result<Option<History>> {
        let Some(dir) = project_to_be(&config_dir(world), cwd) else { return Ok(None) };
        fullest(&dir, id)
    }

    fn home_of(
        &self,
        world: &World,
        cwd: &Path,
        _id: &str,
        name: &str,
        _bytes: &[u8],
    ) -> Option<PathBuf> {
        // It takes a directory of this name for its own, and writes down whose it is.
        let project = project_to_be(&config_dir(world), cwd)?;
        Some(project.join("chats").join(name))
    }
}

fn real_home(world: &World) -> &Path {
    world.get("GEMINI_CLI_HOME").map_or(&*world.home, Path::new)
}

pub(crate) fn config_dir(world: &World) -> PathBuf {
    real_home(world).join(".gemini")
}

/// The file to make a copy of. That may be one of any working directory.
fn forked(world: &World, cwd: &Path, id: &str) -> Option<PathBuf> {
    let here = project(&config_dir(world), cwd);
    let all = std::fs::read_dir(config_dir(world).join("tmp")).into_iter().flatten().flatten();
    let dirs = here.into_iter().chain(all.map(|entry| entry.path()));
    dirs.filter_map(|dir| fullest(&dir, id).ok().flatten()).map(|history| history.path).next()
}

/// The stream's lines, with all that we read of any of them.
#[derive(Debug, Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    timestamp: Option<Timestamp>,
    #[serde(default, borrow)]
    session_id: Text<'a>,
    #[serde(default, borrow)]
    model: Text<'a>,
    #[serde(default, borrow)]
    role: Text<'a>,
    #[serde(default, borrow)]
    content: Text<'a>,
    #[serde(default, borrow)]
    tool_name: Text<'a>,
    #[serde(default, borrow)]
    tool_id: Text<'a>,
    #[serde(default, borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(default, borrow)]
    status: Text<'a>,
    #[serde(default, borrow)]
    output: Text<'a>,
    #[serde(default)]
    error: Option<Said>,
    #[serde(default, borrow)]
    severity: Text<'a>,
    #[serde(default, borrow)]
    message: Text<'a>,
    #[serde(default)]
    stats: Option<Stats>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    #[serde(rename = "type")]
    kind: String,
    message: String,
}

/// What this process has used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Stats {
    models: HashMap<String, Tokens>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    total_tokens: u64,
    input_tokens: u64,
    output_tokens: u64,
    cached: u64,
}

impl Tokens {
    /// The total is more than input and output by the thoughts, which it doesn't tell otherwise.
    fn usage(self) -> Usage {
        Usage {
            input: self.input_tokens.saturating_sub(self.cached),
            output: self.output_tokens,
            cache_read: self.cached,
            cache_write: 0,
            reasoning: self.total_tokens.saturating_sub(self.input_tokens + self.output_tokens),
        }
    }
}

/// What is kept between lines.
#[derive(Debug, Default)]
struct Stream {
    prompt: String,
    place: Option<(World, PathBuf)>,
    session: Option<String>,
    pieces: Pieces,
    /// Whether the model was heard since it was last told something.
    heard_model: bool,
    /// Files that running calls will have written.
    files: HashMap<String, String>,
    /// What an `error` line said.
    said: Option<String>,
    /// An error in the `result` line, of which only the exit status will tell the kind.
    unclear: Option<String>,
    stderr: Stderr,
    ended: bool,
}

impl Dialogue for Stream {
    fn open(&mut self) -> Opening {
        Opening::prompt(&std::mem::take(&mut self.prompt))
    }

    fn line(&mut self, line: &[u8], heard: &mut Heard) -> Result<(), Unreadable> {
        let line: Line<'_> = serde_json::from_slice(line)?;
        match &*line.kind {
            "init" => {
                if let Some(id) = line.session_id.as_deref() {
                    self.session = Some(id.to_owned());
                    heard.push(Signal::Session(id.to_owned()));
                }
                heard.signals.extend(line.model.map(|model| Signal::Model(model.into_owned())));
            }
            "message" if line.role.as_deref() == Some("assistant") => {
                self.heard_model = true;
                let text = line.content.unwrap_or_default();
                self.pieces.add(&text, line.timestamp);
                heard.push(Signal::Writing(text.into_owned()));
            }
            "tool_use" => self.called(&line, heard),
            "tool_result" => self.returned(line, heard),
            "error" => {
                let message = line.message.unwrap_or_default().into_owned();
                match line.severity.as_deref() {
                    Some("error") => {}
                    _ => heard.push(Signal::Notice(message.clone())),
                }
                self.said = Some(message);
            }
            "result" => self.result(&line, heard),
            _ => {}
        }
        Ok(())
    }

    fn error_line(&mut self, line: &str, heard: &mut Heard) {
        heard.signals.extend(self.stderr.line(line));
    }

    fn exited(&mut self, exit: Option<i32>, heard: &mut Heard) {
        if self.ended {
            return;
        }
        if let Some(message) = self.unclear.take() {
            return self.end(Ending::Failed(self.stderr.trouble(message, exit)), heard);
        }
        // Before it has a session, it says what is wrong in words, and by its exit status.
        if self.session.is_none() && exit.is_some_and(|status| status > 0) {
            let message = std::mem::take(&mut self.stderr.first);
            let trouble = match exit {
                Some(41) => Trouble::NotSignedIn { message, fix: SIGN_IN.to_owned() },
                _ => Trouble::BadRequest { status: 0, message },
            };
            self.end(Ending::Failed(trouble), heard);
        }
    }
}

impl Stream {
    fn called(&mut self, line: &Line<'_>, heard: &mut Heard) {
        self.heard_model = true;
        heard.signals.extend(self.pieces.take().map(Signal::Text));
        let id = line.tool_id.as_deref().unwrap_or_default().to_owned();
        let name = line.tool_name.as_deref().unwrap_or_default().to_owned();
        let input = line.parameters.map_or("{}", RawValue::get).to_owned();
        if let Some(file) = written(&name, &input) {
            self.files.insert(id.clone(), file);
        }
        heard.push(Signal::ToolCalled { id, name, input });
    }

    fn returned(&mut self, line: Line<'_>, heard: &mut Heard) {
        self.heard_model = false;
        let id = line.tool_id.unwrap_or_default().into_owned();
        let done = line.status.as_deref() == Some("success");
        let file = self.files.remove(&id).filter(|_| done);
        let error = line.error.map(|said| said.message);
        let output = line.output.map(Cow::into_owned).or(error).unwrap_or_default();
        heard.push(Signal::ToolReturned(ToolEnd::new(id, done, output).touching(file)));
    }

    fn end(&mut self, ending: Ending, heard: &mut Heard) {
        self.ended = true;
        heard.end(ending);
    }

    fn result(&mut self, line: &Line<'_>, heard: &mut Heard) {
        let done = line.status.as_deref() == Some("success");
        // Of an answer that failed there is only a part, which is no text.
        let text = self.last_text().filter(|_| done);
        heard.signals.extend(text.map(Signal::Text));
        for (model, tokens) in line.stats.iter().flat_map(|stats| &stats.models) {
            let usage = tokens.usage();
            if usage.total() > 0 {
                heard.push(Signal::Used { model: Some(model.clone()), usage, cost: None });
            }
        }
        let ending = match (&line.error, self.said.take()) {
            (Some(error), _) => match failure(error) {
                Some(ending) => ending,
                None => return self.unclear = Some(unwrapped(&error.message).to_owned()),
            },
            (None, Some(said)) if !done => unusable(said),
            (None, None) if done && !self.heard_model => {
                let message = "the conversation no longer fits, so the model was not asked";
                Ending::Failed(Trouble::ContextExhausted(message.to_owned()))
            }
            _ if done => Ending::Finished,
            _ => Ending::Failed(Trouble::BadRequest { status: 0, message: String::new() }),
        };
        self.end(ending, heard);
    }

    /// The text under way. If it may be two attempts, the session file knows the one that counts.
    fn last_text(&mut self) -> Option<String> {
        let paused = self.pieces.paused;
        let text = self.pieces.take()?;
        let kept = paused.then(|| self.kept_text()).flatten();
        Some(match kept {
            Some(kept) if text.len() > kept.len() && text.trim_end().ends_with(&kept) => kept,
            _ => text,
        })
    }

    fn kept_text(&self) -> Option<String> {
        let (world, cwd) = self.place.as_ref()?;
        let history = Gemini.history(world, cwd, self.session.as_deref()?).ok()??;
        history.last.texts.last().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }
}

/// A text that comes in pieces.
#[derive(Debug, Default)]
struct Pieces {
    text: String,
    last: Option<Timestamp>,
    /// There was a pause as long as the shortest one before it asks again.
    paused: bool,
}

impl Pieces {
    fn add(&mut self, piece: &str, time: Option<Timestamp>) {
        const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
        if let (Some(last), Some(now)) = (self.last, time) {
            self.paused |= now.duration_since(last).unsigned_abs() >= SHORTEST_PAUSE;
        }
        self.last = time.or(self.last);
        self.text.push_str(piece);
    }

    fn take(&mut self) -> Option<String> {
        let pieces = std::mem::take(self);
        (!pieces.text.is_empty()).then_some(pieces.text)
    }
}

/// What the `result` line's error means, where it has a name or a body.
fn failure(error: &Said) -> Option<Ending> {
    let message = unwrapped(&error.message).to_owned();
    let fix = SIGN_IN.to_owned();
    Some(match error.kind.as_str() {
        "FatalCancellationError" => Ending::Cancelled,
        "FatalAuthenticationError" | "UnauthorizedError" => {
            Ending::Failed(Trouble::NotSignedIn { message, fix })
        }
        "FatalTurnLimitedError" | "FatalInputError" | "FatalConfigError" => {
            Ending::Failed(Trouble::BadRequest { status: 0, message })
        }
        _ => Ending::Failed(ApiError::read(&message).trouble(SIGN_IN)?),
    })
}

/// An answer that could not be used: the program has one sentence for each reason.
fn unusable(said: String) -> Ending {
    let starts = |start: &str| said.starts_with(start);
    if starts("Model response was truncated because it exceeded the token limit.") {
        Ending::Truncated
    } else if starts("The model response was blocked due to ") {
        Ending::Refused
    } else if starts("Model stream ended ") || starts("The model returned ") {
        Ending::Failed(Trouble::StreamCut(said))
    } else {
        Ending::Failed(Trouble::BadRequest { status: 0, message: said })
    }
}

/// The file that a tool writes, by the tool's own input.
fn written(tool: &str, input: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Input {
        file_path: String,
    }
    let writes = matches!(tool, "write_file" | "replace");
    writes.then(|| serde_json::from_str::<Input>(input).ok()).flatten().map(|input| input.file_path)
}
