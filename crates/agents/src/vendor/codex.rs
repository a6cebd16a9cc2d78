//! Codex, through `codex app-server`: JSON-RPC without the version field, a line each.
//!
//! `codex exec --json` tells of limits in prose only; the app server has a word for every error,
//! the reset times of the account's windows, and pieces of text. It chooses the thread's id itself
//! and tells it before the turn begins.

mod item;
pub(crate) mod rollout;
mod trouble;

use std::{
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use segue_core::{Permission, usage::Usage};
use serde::Deserialize;
use serde_json::{Value, json};

use self::{
    item::{completed, started},
    rollout::{is_named, remember, rollouts},
    trouble::{status, trouble},
};
use super::{
    Abilities, Call, Card, Conversation, Dialogue, Ending, Heard, History, Job, Opening, Program,
    SignIn, Signal, Trouble, Unreadable, Vendor, World,
    found::package_of,
    history::read_lines,
    json::{number, text},
};

#[derive(Clone, Copy, Debug)]
pub struct Codex;

const SIGN_IN: &str = "codex login";

/// The ids of our requests.
const INITIALIZE: u64 = 1;
const THREAD: u64 = 2;
const TURN: u64 = 3;
const INTERRUPT: u64 = 4;
const INJECT: u64 = 5;

/// A turn's input may have 1,048,576 characters. A longer prompt is put into the thread before it.
const MOST_INPUT: usize = 1_000_000;

const DO_IT: &str = "Do what the message before this one says.";

impl Vendor for Codex {
    fn card(&self) -> Card {
        Card {
            name: "codex".to_owned(),
            alias: Some("x"),
            title: "Codex",
            programs: &["codex"],
            install: "npm install -g @openai/codex",
            sign_in: SIGN_IN,
            tested: Some("0.166.0"),
            can: Abilities {
                own_id: false,
                resume: true,
                fork: true,
                acp: true,
                cost: false,
                permission: true,
                tools: true,
                rewind: true,
            },
            stop_signal: 15,
            argument_limit: None,
        }
    }

    /// npm's `codex` is a script that starts the real one, which lies in a package for the platform
    /// beside it.
    fn behind(&self, program: Program) -> Program {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "x64",
            "aarch64" => "arm64",
            other => other,
        };
        let package = package_of(&program.real).filter(|dir| dir.ends_with("@openai/codex"));
        let Some(package) = package else { return program };
        let name = format!("codex-{}-{arch}", std::env::consts::OS);
        let places =
            [package.with_file_name(&name), package.join("node_modules/@openai").join(&name)];
        let triples = places.iter().flat_map(|place| {
            std::fs::read_dir(place.join("vendor")).into_iter().flatten().flatten()
        });
        let native =
            triples.map(|triple| triple.path().join("bin/codex")).find(|file| file.is_file());
        match native {
            Some(native) => program.instead(native),
            None => program,
        }
    }

    fn context_tokens(&self) -> u64 {
        272_000
    }

    fn signed_in(&self, world: &World) -> SignIn {
        let dir = config_dir(world);
        if dir.join("auth.json").is_file() {
            return SignIn::Yes("auth.json".to_owned());
        }
        if let Some(key) =
            ["CODEX_API_KEY", "OPENAI_API_KEY"].iter().find(|name| world.get(name).is_some())
        {
            return SignIn::Yes((*key).to_owned());
        }
        // A provider of the user's own needs whatever it needs.
        let config = std::fs::read_to_string(dir.join("config.toml")).unwrap_or_default();
        let config: toml::Table = toml::from_str(&config).unwrap_or_default();
        match config.contains_key("model_provider") || config.contains_key("profile") {
            true => SignIn::Unknown,
            false => SignIn::No,
        }
    }

    fn terms(&self, permission: Permission) -> &'static str {
        match permission {
            Permission::ReadOnly => "sandbox read-only",
            Permission::Edit => {
                "sandbox workspace-write: files and commands inside the workspace, no network"
            }
            Permission::Full => "sandbox danger-full-access",
        }
    }

    fn call(&self, job: &Job<'_>) -> Call {
        let mut call = Call::new(["app-server"]);
        // Without it, it waits for the network for ever, and nobody hears of it.
        call.pair("--disable", "unbounded_connection_retries");
        if let Some(server) = job.tools {
            call.pair("-c", server.toml());
        }
        call.args(job.extra);
        call
    }

    fn dialogue(&self, job: &Job<'_>) -> Box<dyn Dialogue> {
        let sandbox = match job.permission {
            Permission::ReadOnly => "read-only",
            Permission::Edit => "workspace-write",
            Permission::Full => "danger-full-access",
        };
        let mut thread = json!({ "approvalPolicy": "never", "sandbox": sandbox });
        // A new thread is where its program was started. If the directory were named, Codex would
        // note in the user's own settings that it is trusted.
        if !matches!(job.conversation, Conversation::New { .. }) {
            thread["cwd"] = json!(job.cwd);
        }
        if let Some(model) = job.model {
            thread["model"] = model.into();
        }
        let method = match job.conversation {
            Conversation::New { .. } => "thread/start",
            Conversation::Resume { id } => {
                thread["threadId"] = id.into();
                thread["excludeTurns"] = true.into();
                "thread/resume"
            }
            Conversation::Fork { from, at, .. } => {
                thread["threadId"] = from.into();
                thread["excludeTurns"] = true.into();
                if let Some(turn) = at {
                    thread["lastTurnId"] = turn.into();
                }
                "thread/fork"
            }
        };
        Box::new(Server {
            prompt: job.prompt.to_owned(),
            request: (method, thread),
            thread: None,
            turn: None,
            total: matches!(job.conversation, Conversation::New { .. }).then(Usage::default),
            cut: false,
            resets_at: None,
            ended: false,
        })
    }

    fn history(&self, world: &World, _cwd: &Path, id: &str) -> io::Result<Option<History>> {
        let ending = format!("-{id}.jsonl");
        let dir = config_dir(world);
        let places = ["sessions", "archived_sessions"].map(|name| dir.join(name));
        let mut found = None;
        for place in places {
            found = found.or_else(|| rollouts(&place).find(|file| is_named(file, &ending)));
        }
        // Killed right after it had made the file, Codex does not take up an empty one again.
        let found = found.filter(|path| std::fs::metadata(path).map_or(true, |it| it.len() > 0));
        let Some(path) = found else { return Ok(None) };
        let mut history = History::new(path.clone());
        read_lines(&path, |line| remember(line, &mut history))?;
        Ok(Some(history))
    }

    fn discover(
        &self,
        world: &World,
        cwd: &Path,
        since: Timestamp,
        prompt: &str,
    ) -> Option<String> {
        // Two that fit are one too many to choose from.
        let found = rollout::look_for(&config_dir(world), cwd, since, prompt);
        <[String; 1]>::try_from(found).ok().map(|[id]| id)
    }

    fn home_of(
        &self,
        world: &World,
        _cwd: &Path,
        id: &str,
        name: &str,
        bytes: &[u8],
    ) -> Option<PathBuf> {
        rollout::home_of(&config_dir(world), id, name, bytes)
    }
}

pub(crate) fn config_dir(world: &World) -> PathBuf {
    world.dir("CODEX_HOME", ".codex")
}

/// The one who speaks with the app server.
#[derive(Debug)]
struct Server {
    prompt: String,
    request: (&'static str, Value),
    thread: Option<String>,
    turn: Option<String>,
    /// The thread's tokens as they were told last.
    total: Option<Usage>,
    /// The last that was heard is that the answer broke off: its final word for that is `other`.
    cut: bool,
    /// When the account's used-up window begins anew.
    resets_at: Option<Timestamp>,
    ended: bool,
}

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({ "id": id, "method": method, "params": params }).to_string()
}

impl Dialogue for Server {
    fn open(&mut self) -> Opening {
        let about = json!({ "name": "segue", "version": env!("CARGO_PKG_VERSION") });
        let line = request(INITIALIZE, "initialize", &json!({ "clientInfo": about }));
        Opening { bytes: format!("{line}\n").into_bytes(), close: false }
    }

    fn line(&mut self, line: &[u8], heard: &mut Heard) -> Result<(), Unreadable> {
        let line: Line = serde_json::from_slice(line)?;
        match (&line.method, &line.id) {
            (Some(method), None) => self.notice(method, &line.params, heard),
            (Some(method), Some(id)) => refuse(method, id, heard),
            (None, Some(id)) => {
                let id = id.as_u64().unwrap_or_default();
                match (&line.result, &line.error) {
                    (Some(result), _) => self.answer(id, result, heard),
                    (None, error) => {
                        self.refused(id, error.as_ref().unwrap_or(&Value::Null), heard);
                    }
                }
            }
            (None, None) => return Err(Unreadable),
        }
        Ok(())
    }

    fn cancel(&mut self, heard: &mut Heard) {
        if let (Some(thread), Some(turn)) = (&self.thread, &self.turn) {
            let params = json!({ "threadId": thread, "turnId": turn });
            heard.say_line(&request(INTERRUPT, "turn/interrupt", &params));
        }
    }
}

impl Server {
    fn answer(&mut self, id: u64, result: &Value, heard: &mut Heard) {
        match id {
            INITIALIZE => {
                heard.say_line(&json!({ "method": "initialized" }).to_string());
                heard.say_line(&request(THREAD, self.request.0, &self.request.1));
            }
            THREAD => {
                let Some(thread) = text(result, &["thread", "id"]) else { return };
                self.thread = Some(thread.to_owned());
                heard.push(Signal::Session(thread.to_owned()));
                let model = text(result, &["model"]).or(text(result, &["thread", "model"]));
                if let Some(model) = model {
                    heard.push(Signal::Model(model.to_owned()));
                }
                let prompt = std::mem::take(&mut self.prompt);
                match prompt.len() > MOST_INPUT {
                    false => self.begin(&prompt, heard),
                    true => self.inject(&prompt, heard),
                }
            }
            INJECT => self.begin(DO_IT, heard),
            TURN => self.turn = text(result, &["turn", "id"]).map(str::to_owned),
            _ => {}
        }
    }

    fn begin(&self, prompt: &str, heard: &mut Heard) {
        let input = json!([{ "type": "text", "text": prompt }]);
        let params = json!({ "threadId": self.thread, "input": input });
        heard.say_line(&request(TURN, "turn/start", &params));
    }

    fn inject(&self, prompt: &str, heard: &mut Heard) {
        let content = json!([{ "type": "input_text", "text": prompt }]);
        let item = json!({ "type": "message", "role": "user", "content": content });
        let params = json!({ "threadId": self.thread, "items": [item] });
        heard.say_line(&request(INJECT, "thread/inject_items", &params));
    }

    /// One of our requests failed.
    fn refused(&mut self, id: u64, error: &Value, heard: &mut Heard) {
        if id == INTERRUPT {
            return;
        }
        let message = text(error, &["message"]).unwrap_or("no reason given").to_owned();
        self.end(Ending::Failed(Trouble::BadRequest { status: 0, message }), heard);
    }

    fn end(&mut self, ending: Ending, heard: &mut Heard) {
        if !self.ended {
            self.ended = true;
            heard.end(ending);
            heard.close = true;
        }
    }

    /// Whether a notice is about our turn: sub-agents have threads of their own, and a resume
    /// repeats the last turn's counts.
    fn is_ours(&self, params: &Value) -> bool {
        let thread = text(params, &["threadId"]);
        let turn = text(params, &["turnId"]).or(text(params, &["turn", "id"]));
        thread == self.thread.as_deref() && (self.turn.is_none() || turn == self.turn.as_deref())
    }

    fn notice(&mut self, method: &str, params: &Value, heard: &mut Heard) {
        match method {
            "account/rateLimits/updated" => self.quota(&params["rateLimits"], heard),
            _ if !self.is_ours(params) => {}
            "turn/started" => self.turn = text(params, &["turn", "id"]).map(str::to_owned),
            "item/started" => started(&params["item"], heard),
            "item/completed" => {
                self.cut = false;
                completed(&params["item"], heard);
            }
            "item/agentMessage/delta" => {
                let delta = text(params, &["delta"]).unwrap_or_default();
                heard.push(Signal::Writing(delta.to_owned()));
            }
            "thread/tokenUsage/updated" => self.used(&params["tokenUsage"], heard),
            "error" => self.error(params, heard),
            "turn/completed" => self.completed(&params["turn"], heard),
            _ => heard.push(Signal::Thinking),
        }
    }

    /// The thread's counts are told again on a resume and after an error: only what they grew by is
    /// new. Where they began is told on a resume; a fork begins with its parent's.
    fn used(&mut self, told: &Value, heard: &mut Heard) {
        let total = usage(&told["total"]);
        let new = match self.total.replace(total) {
            _ if self.turn.is_none() => return,
            Some(before) => total.since(before),
            None => usage(&told["last"]),
        };
        if new.total() > 0 {
            heard.push(Signal::Used { model: None, usage: new, cost: None });
        }
    }

    fn quota(&mut self, limits: &Value, heard: &mut Heard) {
        for name in ["primary", "secondary"] {
            let Some(window) = limits.get(name).filter(|window| window.is_object()) else {
                continue;
            };
            let resets_at =
                window["resetsAt"].as_i64().and_then(|at| Timestamp::from_second(at).ok());
            let used = window["usedPercent"].as_f64().map(percent);
            if used.is_some_and(|used| used >= 100) {
                self.resets_at = resets_at;
            }
            let minutes = number(window, &["windowDurationMins"]);
            let window = minutes.map_or_else(|| name.to_owned(), window_name);
            heard.push(Signal::Quota { window, used_percent: used, resets_at });
        }
    }

    fn error(&mut self, params: &Value, heard: &mut Heard) {
        // The last word comes with the turn's end.
        if params["willRetry"].as_bool() == Some(true) {
            let info = &params["error"]["codexErrorInfo"];
            let cut = info.get("responseStreamDisconnected");
            self.cut = cut.is_some_and(|cut| status(cut).is_none());
            let trouble = trouble(&params["error"], self.resets_at, self.cut);
            heard.push(Signal::Retrying { trouble, wait: None });
        }
    }

    fn completed(&mut self, turn: &Value, heard: &mut Heard) {
        heard.signals.extend(self.turn.clone().map(Signal::Mark));
        let ending = match text(turn, &["status"]) {
            Some("completed") => Ending::Finished,
            Some("interrupted") => Ending::Cancelled,
            _ => Ending::Failed(trouble(&turn["error"], self.resets_at, self.cut)),
        };
        self.end(ending, heard);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and a few hundred"
)]
fn percent(used: f64) -> u32 {
    used.clamp(0.0, 1000.0).round() as u32
}

/// A window by its length, as people call it.
fn window_name(minutes: u64) -> String {
    match minutes {
        m if m % 10_080 == 0 => format!("{} week", m / 10_080),
        m if m % 1_440 == 0 => format!("{} day", m / 1_440),
        m if m % 60 == 0 => format!("{} hour", m / 60),
        m => format!("{m} minute"),
    }
}

/// It includes the cached in the input and the reasoning in the output.
fn usage(told: &Value) -> Usage {
    let count = |name| number(told, &[name]).unwrap_or(0);
    let (read, write) = (count("cachedInputTokens"), count("cacheWriteInputTokens"));
    let reasoning = count("reasoningOutputTokens");
    Usage {
        input: count("inputTokens").saturating_sub(read + write),
        output: count("outputTokens").saturating_sub(reasoning),
        cache_read: read,
        cache_write: write,
        reasoning,
    }
}

/// It asks for nothing with the policy that we set; should it ask all the same, the answer is no.
fn refuse(method: &str, id: &Value, heard: &mut Heard) {
    let answer = match method {
        "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => {
            json!({ "id": id, "result": { "decision": "decline" } })
        }
        "execCommandApproval" | "applyPatchApproval" => {
            json!({ "id": id, "result": { "decision": "denied" } })
        }
        _ => json!({ "id": id, "error": { "code": -32601, "message": "not offered here" } }),
    };
    heard.say_line(&answer.to_string());
    heard.push(Signal::Notice(format!("Codex asked for permission ({method}): refused")));
}
