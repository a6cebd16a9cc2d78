//! Cursor CLI: `cursor-agent -p --output-format stream-json`, with the prompt on its standard input.
//!
//! Written from its documentation (<https://cursor.com/docs/cli/reference/output-format> and
//! `…/parameters`) and from what others published of its streams; the program itself could not be
//! had. What is from the second source alone is said so below. It chooses the id and tells it in its
//! first line. A `result` line ends a turn that succeeded; one that failed ends without, with a
//! message on standard error. How it keeps its chats is not documented, so nothing is read there.

use std::{collections::HashMap, io, path::Path};

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use segue_core::{Permission, usage::Usage};
use serde_json::Value;

use super::{
    Abilities, Call, Card, Conversation, Dialogue, Ending, Heard, History, Job, Opening, SignIn,
    Signal, ToolEnd, Trouble, Unreadable, Vendor, World, json,
};

#[derive(Clone, Copy, Debug)]
pub struct Cursor;

const SIGN_IN: &str = "cursor-agent login";

/// Makes it print its texts in pieces, and some of them twice. Not asked for; the user may.
const PIECES: &str = "--stream-partial-output";

impl Vendor for Cursor {
    fn card(&self) -> Card {
        Card {
            name: "cursor".to_owned(),
            alias: Some("u"),
            title: "Cursor CLI",
            programs: &["cursor-agent", "agent"],
            install: "curl https://cursor.com/install -fsS | bash",
            sign_in: SIGN_IN,
            tested: None,
            can: Abilities {
                // `create-chat` makes one, but only says its id.
                own_id: false,
                resume: true,
                fork: false,
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
        if world.get("CURSOR_API_KEY").is_some() {
            return SignIn::Yes("CURSOR_API_KEY".to_owned());
        }
        // Where it keeps its login is not documented; this is where people found it.
        let config = world.dir("XDG_CONFIG_HOME", ".config");
        match config.join("cursor/auth.json").is_file() {
            true => SignIn::Yes("cursor.com".to_owned()),
            false => SignIn::Unknown,
        }
    }

    fn terms(&self, permission: Permission) -> &'static str {
        match permission {
            Permission::ReadOnly => "--mode ask",
            Permission::Edit => "its own default: files, no shell",
            Permission::Full => "--force",
        }
    }

    fn call(&self, job: &Job<'_>) -> Call {
        let mut call = Call::new(["-p", "--output-format", "stream-json"]);
        // Without it, it asks whether the directory is to be trusted, and ends.
        call.arg("--trust");
        if let Conversation::Resume { id } = job.conversation {
            call.pair("--resume", id);
        }
        match job.permission {
            Permission::ReadOnly => {
                call.pair("--mode", "ask");
            }
            // By itself it edits files and rejects commands.
            Permission::Edit => {}
            Permission::Full => {
                call.arg("--force");
            }
        }
        if let Some(model) = job.model {
            call.pair("--model", model);
        }
        call.args(job.extra);
        call
    }

    fn dialogue(&self, job: &Job<'_>) -> Box<dyn Dialogue> {
        let pieces = job.extra.iter().any(|flag| flag == PIECES);
        Box::new(Stream { prompt: job.prompt.to_owned(), pieces, ..Stream::default() })
    }

    fn history(&self, _world: &World, _cwd: &Path, _id: &str) -> io::Result<Option<History>> {
        let message = "Cursor does not say how it keeps its chats";
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }
}

/// What is kept between lines.
#[derive(Debug, Default)]
struct Stream {
    prompt: String,
    pieces: bool,
    session: Option<String>,
    thought: String,
    /// The files that running calls will have written.
    files: HashMap<String, String>,
    trouble: Option<Trouble>,
    ended: bool,
}

impl Dialogue for Stream {
    fn open(&mut self) -> Opening {
        Opening::prompt(&std::mem::take(&mut self.prompt))
    }

    fn line(&mut self, line: &[u8], heard: &mut Heard) -> Result<(), Unreadable> {
        let line: Value = serde_json::from_slice(line)?;
        let kind = json::text(&line, &["type"]).ok_or(Unreadable)?;
        if let Some(id) = words(&line, &["session_id"])
            && self.session.as_ref() != Some(&id)
        {
            self.session = Some(id.clone());
            heard.push(Signal::Session(id));
        }
        match (kind, json::text(&line, &["subtype"]).unwrap_or_default()) {
            ("system", "init") => {
                heard.signals.extend(words(&line, &["model"]).map(Signal::Model));
            }
            ("assistant", _) => self.said(&line, heard),
            ("thinking", "delta") => {
                self.thought.push_str(json::text(&line, &["text"]).unwrap_or_default());
                heard.push(Signal::Thinking);
            }
            ("thinking", "completed") => self.thought(heard),
            ("tool_call", "started") => self.called(&line, heard),
            ("tool_call", "completed") => self.returned(&line, heard),
            ("result", _) => self.result(&line, heard),
            _ => {}
        }
        Ok(())
    }

    /// Failures are only told here, in prose for people: these are the exact beginnings that its own
    /// code writes, which is all there is. What a model says never comes this way.
    fn error_line(&mut self, line: &str, _heard: &mut Heard) {
        match (&mut self.trouble, failure(line)) {
            (trouble @ None, told) => *trouble = told,
            // The rest of the same message.
            (Some(Trouble::Limit { resets_at: end @ None, .. }), _) => *end = cycle_end(line),
            _ => {}
        }
    }

    fn exited(&mut self, _exit: Option<i32>, heard: &mut Heard) {
        if !self.ended
            && let Some(trouble) = self.trouble.take()
        {
            heard.end(Ending::Failed(trouble));
        }
    }
}

fn words(value: &Value, path: &[&str]) -> Option<String> {
    json::text(value, path).filter(|text| !text.is_empty()).map(str::to_owned)
}

impl Stream {
    fn said(&mut self, line: &Value, heard: &mut Heard) {
        self.thought(heard);
        let blocks = json::at(line, &["message", "content"]).and_then(Value::as_array);
        let texts = blocks.into_iter().flatten().filter_map(|block| json::text(block, &["text"]));
        let text: String = texts.collect();
        // A piece has a time and belongs to no call of the model yet; the whole text comes again
        // with one before a tool, and without a time at the end.
        let piece = line.get("timestamp_ms").is_some() && line.get("model_call_id").is_none();
        if text.is_empty() {
            return;
        }
        heard.push(match self.pieces && piece {
            true => Signal::Writing(text),
            false => Signal::Text(text),
        });
    }

    fn thought(&mut self, heard: &mut Heard) {
        let thought = std::mem::take(&mut self.thought);
        if !thought.is_empty() {
            heard.push(Signal::Thought(thought));
        }
    }

    fn called(&mut self, line: &Value, heard: &mut Heard) {
        self.thought(heard);
        let (Some(id), Some((name, call))) = (words(line, &["call_id"]), tool(line)) else {
            return;
        };
        // Those of a function are JSON already.
        let input = words(call, &["arguments"])
            .or_else(|| call.get("args").map(Value::to_string))
            .unwrap_or_default();
        if matches!(&*name, "write" | "edit" | "delete")
            && let Some(path) = words(call, &["args", "path"])
        {
            self.files.insert(id.clone(), path);
        }
        heard.push(Signal::ToolCalled { id, name, input });
    }

    fn returned(&mut self, line: &Value, heard: &mut Heard) {
        let (Some(id), Some((_, call))) = (words(line, &["call_id"]), tool(line)) else { return };
        // `success`, or another word for how it went: others saw `rejected` and `failure`.
        let result = call.get("result").and_then(Value::as_object);
        let (word, told) = result
            .and_then(|result| result.iter().find(|(_, told)| told.is_object()))
            .map_or(("", &Value::Null), |(word, told)| (word.as_str(), told));
        let done = word == "success";
        let file = self.files.remove(&id).filter(|_| done);
        let mut end = ToolEnd::new(id, done, output(told)).touching(file);
        let exit = told.get("exitCode").and_then(Value::as_i64);
        end.exit = exit.and_then(|exit| i32::try_from(exit).ok());
        heard.push(Signal::ToolReturned(end));
    }

    fn result(&mut self, line: &Value, heard: &mut Heard) {
        self.thought(heard);
        self.ended = true;
        // Not documented, and seen by others: tokens, in four fields. Whether the first includes
        // what was cached is nowhere said; it is taken as it stands.
        let count = |name| json::number(line, &["usage", name]).unwrap_or(0);
        let usage = Usage {
            input: count("inputTokens"),
            output: count("outputTokens"),
            cache_read: count("cacheReadTokens"),
            cache_write: count("cacheWriteTokens"),
            reasoning: 0,
        };
        if usage.total() > 0 {
            heard.push(Signal::Used { model: None, usage, cost: None });
        }
        let failed = line.get("is_error").and_then(Value::as_bool) == Some(true);
        heard.end(match failed {
            false => Ending::Finished,
            true => Ending::Failed(self.trouble.take().unwrap_or_else(|| {
                let message = words(line, &["result"]).unwrap_or_else(|| "failed".to_owned());
                Trouble::BadRequest { status: 0, message }
            })),
        });
    }
}

/// A tool by the name of its field, `writeToolCall`, or by that of a function.
fn tool(line: &Value) -> Option<(String, &Value)> {
    let calls = line.get("tool_call")?.as_object()?;
    if let Some(function) = calls.get("function") {
        return Some((words(function, &["name"])?, function));
    }
    calls.iter().find_map(|(key, call)| Some((key.strip_suffix("ToolCall")?.to_owned(), call)))
}

/// What a tool said: the text of a file, what a command printed, the reason for a refusal.
fn output(told: &Value) -> String {
    let fields = ["content", "stdout", "stderr", "reason", "error", "message"];
    let texts: Vec<&str> = fields.iter().filter_map(|name| json::text(told, &[name])).collect();
    match (texts.is_empty(), told.is_null()) {
        (false, _) => texts.concat(),
        (true, true) => String::new(),
        (true, false) => told.to_string(),
    }
}

fn failure(line: &str) -> Option<Trouble> {
    let message = line.to_owned();
    let starts = |words: &str| line.starts_with(words);
    if starts("Error: You've hit your usage limit") {
        let resets_at = cycle_end(line);
        return Some(Trouble::Limit { message, resets_at, retry_after: None, quota: true });
    }
    if starts("Error: Authentication required") || starts("Error: Not authenticated") {
        return Some(Trouble::NotSignedIn { message, fix: SIGN_IN.to_owned() });
    }
    // Its client's errors: a name, the protocol's code in brackets, a text.
    let (name, rest) = line.split_once(": [")?;
    let (code, _) = rest.split_once(']')?;
    if !name.chars().all(|c| c.is_ascii_alphanumeric()) {
        return None;
    }
    match code {
        "resource_exhausted" => {
            Some(Trouble::Limit { message, resets_at: None, retry_after: None, quota: false })
        }
        "unauthenticated" | "permission_denied" => {
            Some(Trouble::NotSignedIn { message, fix: SIGN_IN.to_owned() })
        }
        "unavailable" | "deadline_exceeded" => Some(Trouble::Network(message)),
        "aborted" | "canceled" | "data_loss" => Some(Trouble::StreamCut(message)),
        "internal" | "unknown" => Some(Trouble::Server { status: 500, message }),
        "invalid_argument" | "failed_precondition" | "out_of_range" | "unimplemented" => {
            Some(Trouble::BadRequest { status: 400, message })
        }
        "not_found" => Some(Trouble::BadRequest { status: 404, message }),
        _ => None,
    }
}

/// The day that the message about the limit ends with, `… cycle ends on 10/2/2026.`
fn cycle_end(line: &str) -> Option<Timestamp> {
    let (_, rest) = line.split_once("monthly cycle ends on ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '/').unwrap_or(rest.len());
    let mut numbers = rest[..end].split('/').map(|number| number.parse::<i16>());
    let (month, day, year) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    date.to_zoned(TimeZone::UTC).ok().map(|day| day.timestamp())
}
