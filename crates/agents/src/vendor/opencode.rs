//! OpenCode: `opencode run --format json`, with the prompt on its standard input.
//!
//! It chooses the id, and tells it only with the model's first word; until then the session is found
//! in its database. No line ends a turn: the last one is known by the program's end. Two things run
//! for ever if nobody stops them: a step whose answer broke off cleanly (`unknown`) is asked again at
//! once, and a conversation that is too long is summed up and asked again. It retries in silence. It
//! has to run in the directory of its session, or it does its work there and never returns.

pub(crate) mod database;

use std::{
    borrow::Cow,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use segue_core::{
    Permission,
    usage::{Micros, Usage},
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Abilities, Call, Card, Conversation, Dialogue, Ending, Heard, History, Job, Opening, Program,
    SignIn, Signal, ToolEnd, ToolServer, Trouble, Unreadable, Vendor, World, found::package_of,
    json,
};

#[derive(Clone, Copy, Debug)]
pub struct OpenCode;

const SIGN_IN: &str = "opencode auth login";

/// What may be done without being asked. Everything else is not even offered to the model. The last
/// rule that fits decides, so the general one stands first.
pub(crate) const LOOK: [&str; 4] = ["read", "glob", "grep", "list"];
pub(crate) const EDIT: [&str; 9] =
    ["read", "glob", "grep", "list", "lsp", "todoread", "todowrite", "skill", "edit"];

impl Vendor for OpenCode {
    fn card(&self) -> Card {
        Card {
            name: "opencode".to_owned(),
            alias: Some("o"),
            title: "OpenCode",
            programs: &["opencode"],
            install: "npm install -g opencode-ai",
            sign_in: SIGN_IN,
            tested: Some("1.18.33"),
            can: Abilities {
                own_id: false,
                resume: true,
                fork: true,
                acp: true,
                cost: true,
                permission: true,
                tools: true,
                rewind: false,
            },
            // It does not heed the other one while it waits for the model.
            stop_signal: 15,
            argument_limit: None,
        }
    }

    /// Where npm may not run scripts, its program stays a script that starts the real one.
    fn behind(&self, program: Program) -> Program {
        match is_script(&program.real).then(|| package_of(&program.real)).flatten() {
            Some(package) => match native(&package) {
                Some(file) => program.instead(file),
                None => program,
            },
            None => program,
        }
    }

    fn signed_in(&self, world: &World) -> SignIn {
        if world.has_any(&["OPENCODE_API_KEY", "OPENCODE_AUTH_CONTENT"]) {
            return SignIn::Yes("OPENCODE_API_KEY".to_owned());
        }
        let file = data_dir(world).join("auth.json");
        let known: Option<Value> =
            std::fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        match known.as_ref().and_then(Value::as_object).and_then(|known| known.keys().next()) {
            Some(provider) => SignIn::Yes(provider.clone()),
            // Keys of any of its many providers may be in the environment or in its settings, and
            // some of its models need none.
            None => SignIn::Unknown,
        }
    }

    fn terms(&self, permission: Permission) -> &'static str {
        match permission {
            Permission::ReadOnly => "edit, bash and all else denied",
            Permission::Edit => "edit allowed, bash and all else denied",
            Permission::Full => "--auto",
        }
    }

    fn call(&self, job: &Job<'_>) -> Call {
        let mut call = Call::new(["run", "--format", "json", "--thinking"]);
        match job.conversation {
            Conversation::New { .. } => {}
            Conversation::Resume { id } => {
                call.pair("-s", id);
            }
            Conversation::Fork { from, .. } => {
                call.pair("-s", from).arg("--fork");
            }
        }
        const CONFIG: &str = "OPENCODE_CONFIG_CONTENT";
        let settings = job.tools.and_then(|server| server.opencode(job.world.get(CONFIG)));
        let ours = settings.is_some();
        if let Some(settings) = settings {
            call.env(CONFIG, settings);
        }
        match job.permission {
            Permission::ReadOnly => call.env("OPENCODE_PERMISSION", rules(&LOOK, ours)),
            Permission::Edit => call.env("OPENCODE_PERMISSION", rules(&EDIT, ours)),
            Permission::Full => call.arg("--auto"),
        };
        if let Some(model) = job.model {
            call.pair("-m", model);
        }
        call.args(job.extra);
        call
    }

    fn dialogue(&self, job: &Job<'_>) -> Box<dyn Dialogue> {
        Box::new(Stream { prompt: job.prompt.to_owned(), ..Stream::default() })
    }

    fn history(&self, world: &World, _cwd: &Path, id: &str) -> io::Result<Option<History>> {
        let path = database(world);
        if !path.is_file() {
            return Ok(None);
        }
        database::read_session(&path, id).map_err(io::Error::other)
    }

    fn discover(
        &self,
        world: &World,
        cwd: &Path,
        since: Timestamp,
        prompt: &str,
    ) -> Option<String> {
        let path = database(world);
        let found = database::look_for(&path, cwd, since, prompt).ok()?;
        // Two of them: nobody can tell which.
        <[String; 1]>::try_from(found).ok().map(|[id]| id)
    }
}

/// The rules as its variable takes them.
pub(crate) fn rules(allowed: &[&str], our_tools: bool) -> String {
    let mut text = r#"{"*":"deny""#.to_owned();
    let ours = our_tools.then(|| format!("{}_*", ToolServer::NAME));
    for name in allowed.iter().copied().chain(ours.as_deref()) {
        text.push_str(&format!(r#","{name}":"allow""#));
    }
    // By name too: a user's own general rule would keep its place before his own special ones.
    for name in ["edit", "bash", "external_directory"] {
        if !allowed.contains(&name) {
            text.push_str(&format!(r#","{name}":"deny""#));
        }
    }
    text.push('}');
    text
}

fn data_dir(world: &World) -> PathBuf {
    world.dir("XDG_DATA_HOME", ".local/share").join("opencode")
}

pub(crate) fn database(world: &World) -> PathBuf {
    data_dir(world).join(world.get("OPENCODE_DB").unwrap_or("opencode.db"))
}

fn is_script(file: &Path) -> bool {
    let mut start = [0; 2];
    let read = std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && &start == b"#!"
}

/// The program in the package for this machine: beside the script's package, or inside of it.
fn native(package: &Path) -> Option<PathBuf> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let plain = format!("opencode-{system}-{arch}");
    // The plain one needs a newer processor.
    let names = match newer_processor() {
        true => [plain.clone(), format!("{plain}-musl"), format!("{plain}-baseline")],
        false => [format!("{plain}-baseline"), format!("{plain}-baseline-musl"), plain],
    };
    let places = [package.parent()?.to_owned(), package.join("node_modules")];
    let files = names
        .iter()
        .flat_map(|name| places.iter().map(move |place| place.join(name).join("bin/opencode")));
    files.into_iter().find(|file| file.is_file())
}

#[cfg(target_arch = "x86_64")]
fn newer_processor() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
fn newer_processor() -> bool {
    true
}

#[derive(Debug, Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(rename = "sessionID", default, borrow)]
    session: json::Text<'a>,
    #[serde(default)]
    part: Value,
    #[serde(default)]
    error: Value,
}

fn words(value: &Value, path: &[&str]) -> Option<String> {
    json::text(value, path).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// What is kept between lines.
#[derive(Debug, Default)]
struct Stream {
    prompt: String,
    session: Option<String>,
    /// Texts of which it is not yet certain that they are the agent's whole word.
    held: Vec<String>,
    /// A step has begun and not ended.
    stepping: bool,
    /// The word for the end of the last step.
    finish: Option<String>,
    /// How often the conversation was too long since anything was done.
    overflows: u32,
    failure: Option<Ending>,
    ended: bool,
}

impl Dialogue for Stream {
    fn open(&mut self) -> Opening {
        Opening::prompt(&std::mem::take(&mut self.prompt))
    }

    fn line(&mut self, line: &[u8], heard: &mut Heard) -> Result<(), Unreadable> {
        let line: Line<'_> = serde_json::from_slice(line)?;
        if let Some(id) = line.session.as_deref()
            && self.session.as_deref() != Some(id)
        {
            self.session = Some(id.to_owned());
            heard.push(Signal::Session(id.to_owned()));
        }
        if self.ended {
            return Ok(());
        }
        match &*line.kind {
            "step_start" => self.step(heard),
            "text" => self.text(&line.part, heard),
            "reasoning" => {
                heard.signals.extend(words(&line.part, &["text"]).map(Signal::Thought));
            }
            "tool_use" => self.tool(&line.part, heard),
            "step_finish" => self.finished(&line.part, heard),
            "error" => self.failed(&line.error, heard),
            _ => {}
        }
        Ok(())
    }

    /// The only thing that it says before it has a session; there is no model yet to write it.
    fn error_line(&mut self, line: &str, _heard: &mut Heard) {
        let plain = line.replace("\u{1b}[91m\u{1b}[1m", "").replace("\u{1b}[0m", "");
        if plain == "Error: Session not found" {
            let trouble = Trouble::SessionGone(plain);
            self.failure = Some(Ending::Failed(trouble));
        }
    }

    fn exited(&mut self, exit: Option<i32>, heard: &mut Heard) {
        self.flush(heard);
        if self.ended {
            return;
        }
        let ending = match (self.failure.take(), self.finish.as_deref()) {
            (Some(ending), _) => ending,
            (None, Some("unknown")) => Ending::Failed(cut()),
            // More was to come: it was killed.
            (None, None | Some("tool-calls")) => return,
            _ if exit != Some(0) => return,
            (None, Some("length")) => Ending::Truncated,
            (None, Some("content-filter")) => Ending::Refused,
            (None, Some(_)) => Ending::Finished,
        };
        heard.end(ending);
    }
}

fn cut() -> Trouble {
    Trouble::StreamCut("the answer broke off".to_owned())
}

impl Stream {
    fn flush(&mut self, heard: &mut Heard) {
        heard.signals.extend(self.held.drain(..).map(Signal::Text));
    }

    fn step(&mut self, heard: &mut Heard) {
        // It does not tell why it begins the same step again.
        if self.stepping {
            heard.push(Signal::Retrying { trouble: cut(), wait: None });
        } else {
            self.flush(heard);
        }
        self.stepping = true;
        self.finish = None;
        self.failure = None;
    }

    fn text(&mut self, part: &Value, heard: &mut Heard) {
        if json::at(part, &["metadata", "compaction_continue"]).is_some() {
            // What it said just now was its own summary of the conversation.
            heard.signals.extend(self.held.drain(..).map(Signal::Thought));
            self.finish = None;
        } else if let Some(text) = database::typed(part).filter(|text| !text.is_empty()) {
            heard.push(Signal::Writing(text.to_owned()));
            self.held.push(text.to_owned());
        }
    }

    /// Told when it is over, not before.
    fn tool(&mut self, part: &Value, heard: &mut Heard) {
        self.flush(heard);
        self.overflows = 0;
        let Some(id) = words(part, &["callID"]) else { return };
        let name = words(part, &["tool"]).unwrap_or_default();
        let state = part.get("state").unwrap_or(&Value::Null);
        let input = state.get("input").unwrap_or(&Value::Null);
        let done = json::text(state, &["status"]) == Some("completed");
        let output = json::text(state, &["output"]).or_else(|| json::text(state, &["error"]));
        let files = if done { written(&name, state) } else { Vec::new() };
        let mut end = ToolEnd::new(&id, done, output.unwrap_or_default()).touching(files);
        let exit = json::at(state, &["metadata", "exit"]).and_then(Value::as_i64);
        end.exit = exit.and_then(|exit| i32::try_from(exit).ok());
        heard.push(Signal::ToolCalled { id, name, input: input.to_string() });
        heard.push(Signal::ToolReturned(end));
    }

    fn finished(&mut self, part: &Value, heard: &mut Heard) {
        self.stepping = false;
        self.finish = words(part, &["reason"]);
        let count = |path: &[&str]| json::number(part, path).unwrap_or(0);
        let usage = Usage {
            input: count(&["tokens", "input"]),
            output: count(&["tokens", "output"]),
            cache_read: count(&["tokens", "cache", "read"]),
            cache_write: count(&["tokens", "cache", "write"]),
            reasoning: count(&["tokens", "reasoning"]),
        };
        let dollars = part.get("cost").and_then(Value::as_f64).unwrap_or(0.0);
        let cost = (dollars > 0.0).then(|| Micros::from_dollars(dollars));
        if usage.total() > 0 || cost.is_some() {
            heard.push(Signal::Used { model: None, usage, cost });
        }
        if self.finish.as_deref() == Some("unknown") {
            // The text broke off, and the same step is asked for again.
            self.held.clear();
            heard.push(Signal::Empty);
        }
    }

    fn failed(&mut self, error: &Value, heard: &mut Heard) {
        self.flush(heard);
        let ending = ending(error, self.stepping);
        self.stepping = false;
        if let Ending::Failed(trouble @ Trouble::ContextExhausted(_)) = &ending {
            self.overflows += 1;
            if self.overflows > 1 {
                // The summary did not help, and it would try that for ever.
                self.ended = true;
                return heard.end(ending);
            }
            heard.push(Signal::Retrying { trouble: trouble.clone(), wait: None });
        }
        self.failure = Some(ending);
    }
}

/// The files that a tool wrote, by its own input or result.
fn written(tool: &str, state: &Value) -> Vec<String> {
    match tool {
        "write" | "edit" | "multiedit" => {
            words(state, &["input", "filePath"]).into_iter().collect()
        }
        "apply_patch" | "patch" => {
            let files = json::at(state, &["metadata", "files"]).and_then(Value::as_array);
            let path = |file: &Value| words(file, &["movePath"]).or(words(file, &["filePath"]));
            files.into_iter().flatten().filter_map(path).collect()
        }
        _ => Vec::new(),
    }
}

/// Its name for the error decides, then the provider's code in the body, then the status.
fn ending(error: &Value, stepping: bool) -> Ending {
    let data = error.get("data").unwrap_or(&Value::Null);
    let name = json::text(error, &["name"]).unwrap_or_default();
    let told = words(data, &["message"]).unwrap_or_else(|| name.to_owned());
    Ending::Failed(match name {
        "ContentFilterError" => return Ending::Refused,
        "MessageAbortedError" => return Ending::Cancelled,
        "MessageOutputLengthError" => return Ending::Truncated,
        "ContextOverflowError" => Trouble::ContextExhausted(told),
        "ProviderAuthError" => not_signed_in(told),
        _ => {
            let body = json::text(data, &["responseBody"]).map(str::to_owned);
            // An error inside of the stream has no name of its own: its message is the body.
            let body = body.or_else(|| told.starts_with('{').then(|| told.clone()));
            api(data, body.as_deref().unwrap_or_default(), told, stepping)
        }
    })
}

fn not_signed_in(message: String) -> Trouble {
    Trouble::NotSignedIn { message, fix: SIGN_IN.to_owned() }
}

fn api(data: &Value, body: &str, message: String, stepping: bool) -> Trouble {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let body = body.get("error").unwrap_or(&body);
    let message = match message.starts_with('{') {
        true => words(body, &["message"]).unwrap_or(message),
        false => message,
    };
    let header = |name| json::text(data, &["responseHeaders", name]);
    let seconds = |name| header(name)?.parse::<f64>().ok().filter(|seconds| *seconds >= 0.0);
    let retry_after = seconds("retry-after-ms")
        .map(|ms| ms / 1e3)
        .or_else(|| seconds("retry-after"))
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let reset = header("anthropic-ratelimit-unified-reset").and_then(|text| text.parse().ok());
    let reset = reset.or_else(|| body.get("resets_at").and_then(Value::as_i64));
    let resets_at = reset.and_then(|seconds| Timestamp::from_second(seconds).ok());
    let status = json::number(data, &["statusCode"]).and_then(|status| u16::try_from(status).ok());
    let spent = header("anthropic-ratelimit-unified-status") == Some("rejected");
    let limit = |quota| Trouble::Limit { message: message.clone(), resets_at, retry_after, quota };
    let code = |name| json::text(body, &[name]).unwrap_or_default();
    match (code("code"), code("type")) {
        _ if spent => return limit(true),
        ("insufficient_quota" | "usage_limit_reached", _)
        | (
            _,
            "insufficient_quota"
            | "usage_limit_reached"
            | "FreeUsageLimitError"
            | "GoUsageLimitError"
            | "CreditsError"
            | "MonthlyLimitError",
        ) => return limit(true),
        ("context_length_exceeded", _) => return Trouble::ContextExhausted(message),
        ("server_is_overloaded", _) | (_, "overloaded_error") => {
            return Trouble::Overloaded { message, retry_after };
        }
        _ => {}
    }
    let broken = json::at(data, &["metadata", "code"]).is_some();
    match status {
        Some(402) => limit(true),
        Some(429) => limit(false),
        Some(401 | 403) => not_signed_in(message),
        Some(413) => Trouble::ContextExhausted(message),
        Some(503 | 529) => Trouble::Overloaded { message, retry_after },
        Some(status @ 500..) => Trouble::Server { status, message },
        Some(status) => Trouble::BadRequest { status, message },
        None if broken && stepping => Trouble::StreamCut(message),
        // Its library's own words, the only sign of it.
        None if broken || message.starts_with("Cannot connect to API") => Trouble::Network(message),
        None => Trouble::BadRequest { status: 0, message },
    }
}
