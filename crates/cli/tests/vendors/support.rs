//! Segue in a lab, and what can be seen of it from outside.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use segue_agents::vendor::{self, Card};
use segue_testkit::{
    env::Output,
    model_server::{Api, Fault, Reply, Request, Reset, Role, When},
    vendors::{Cli, Lab},
};
use serde_json::Value;

/// Only a broken program is that slow.
const LONG: Duration = Duration::from_secs(60);

/// What Segue calls an agent.
pub(crate) fn word(cli: Cli) -> &'static str {
    match cli {
        Cli::Claude => "claude",
        Cli::Codex => "codex",
        Cli::Gemini => "gemini",
        Cli::Copilot => "copilot",
        Cli::OpenCode => "opencode",
        Cli::Qwen => "qwen",
        Cli::Pi => "pi",
        Cli::ClaudeAcp => "acp:claude-agent-acp",
        Cli::CodexAcp => "acp:codex-acp",
        Cli::GeminiAcp => "acp:gemini --acp",
        Cli::CopilotAcp => "acp:copilot --acp",
        Cli::OpenCodeAcp => "acp:opencode acp",
        Cli::QwenAcp => "acp:qwen --acp",
    }
}

pub(crate) fn card(cli: Cli) -> Card {
    vendor::find(word(cli)).unwrap().card()
}

pub(crate) fn command(lab: &Lab, args: &[&str]) -> Command {
    let mut command = lab.command(env!("CARGO_BIN_EXE_segue"));
    command.args(args);
    command
}

pub(crate) fn segue(lab: &Lab, args: &[&str]) -> Output {
    lab.run(command(lab, args))
}

fn json(lab: &Lab, args: &[&str]) -> Value {
    let output = segue(lab, args);
    serde_json::from_str(&output.stdout)
        .unwrap_or_else(|error| panic!("{args:?}: {error}\n{}{}", output.stdout, output.stderr))
}

pub(crate) fn show(lab: &Lab) -> Value {
    show_of(lab, "1")
}

pub(crate) fn show_of(lab: &Lab, number: &str) -> Value {
    json(lab, &["show", number, "--json"])
}

pub(crate) fn stop(lab: &Lab) -> Value {
    show(lab)["stop"].clone()
}

pub(crate) fn log(lab: &Lab) -> String {
    segue(lab, &["log", "1"]).stdout
}

/// What the events of a kind say, in order.
pub(crate) fn bodies(lab: &Lab, kind: &str) -> Vec<Value> {
    bodies_of(lab, "1", kind)
}

pub(crate) fn bodies_of(lab: &Lab, number: &str, kind: &str) -> Vec<Value> {
    let output = segue(lab, &["log", number, "--json"]);
    let events = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["kind"] == kind).map(|event| event["data"].clone()).collect()
}

/// What is recorded, without the help of Segue: also while it runs, and between two of its steps.
pub(crate) fn journal(lab: &Lab) -> Vec<Value> {
    let mut dirs = vec![lab.segue_home()];
    while let Some(dir) = dirs.pop() {
        if let Ok(text) = fs::read_to_string(dir.join("journal.jsonl")) {
            let whole = text.lines().filter_map(|line| serde_json::from_str(line).ok());
            return whole.collect();
        }
        let below = fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path());
        dirs.extend(below.filter(|path| path.is_dir()));
    }
    Vec::new()
}

/// What an agent speaks with its vendor: it tells who of several has asked.
pub(crate) fn api(cli: Cli) -> Api {
    match cli.agent() {
        Cli::Claude => Api::Anthropic,
        Cli::Codex => Api::Responses,
        Cli::Gemini => Api::Gemini,
        _ => Api::Chat,
    }
}

/// A reply for one of several agents.
pub(crate) fn of(cli: Cli, reply: Reply) -> Reply {
    let when = reply.when.clone().unwrap_or_default();
    reply.when(When { api: Some(api(cli)), ..when })
}

/// The agent's own limit, from now on, for two hours.
pub(crate) fn limit(cli: Cli) -> Reply {
    let reset = Some(Reset::At(jiff::Timestamp::now().as_second() + 7200));
    of(cli, Reply::fault(Fault::UsageLimit { reset }).sticky())
}

/// What one of several agents has asked.
pub(crate) fn asked_by(lab: &Lab, cli: Cli) -> Vec<Request> {
    lab.turns().into_iter().filter(|request| request.api == api(cli)).collect()
}

/// Segue with everything that makes a limit one, to its end.
pub(crate) fn limited(lab: &Lab, args: &[&str]) -> Output {
    lab.run(limited_command(lab, args))
}

pub(crate) fn limited_command(lab: &Lab, args: &[&str]) -> Command {
    let mut command = command(lab, args);
    as_subscriber(Cli::Claude, &mut command);
    command
}

/// Everything that the user's side has said in any request.
pub(crate) fn user_texts(lab: &Lab) -> Vec<String> {
    let messages = lab.turns().into_iter().flat_map(|request| request.messages());
    let user = messages.filter(|message| message.role == Role::User);
    user.filter_map(|message| message.text().map(str::to_owned)).collect()
}

pub(crate) fn session_dir(lab: &Lab) -> PathBuf {
    PathBuf::from(show(lab)["dir"].as_str().unwrap())
}

/// Fails unless so many calls of 100 new, 40 cached and 20 written tokens come out right.
pub(crate) fn counts(cli: Cli, usage: &Value, calls: u64) -> bool {
    let told = |name: &str| usage[name].as_u64().unwrap();
    assert_eq!(told("cache_read"), 40 * calls, "{cli:?}: {usage}");
    // Side requests of 11 and 7 tokens are counted as what they are: used.
    let side = (told("input") - 100 * calls) / 11;
    let right = (told("input"), told("output")) == (100 * calls + 11 * side, 20 * calls + 7 * side);
    assert!(right, "{cli:?}: {usage} is not {calls} calls and {side} on the side");
    right
}

/// A subscription has limits that a key does not have.
pub(crate) fn as_subscriber(cli: Cli, command: &mut Command) {
    if cli == Cli::Claude || cli == Cli::ClaudeAcp {
        command.env_remove("ANTHROPIC_API_KEY").env("CLAUDE_CODE_OAUTH_TOKEN", "dummy");
    }
}

/// Patience for a test, not for a person.
pub(crate) fn impatient(lab: &Lab) {
    set(lab, "agents.silence", "15s");
    set(lab, "agents.attempts", "1");
}

pub(crate) fn set(lab: &Lab, key: &str, value: &str) {
    assert_eq!(segue(lab, &["config", "set", key, value]).status, 0);
}

/// Deletes what the vendors' programs remember, and keeps their settings.
pub(crate) fn forget_everything(lab: &Lab) {
    let home = lab.home();
    let stores = [
        ".claude/projects",
        ".codex/sessions",
        ".gemini/tmp",
        ".copilot/session-state",
        ".local/share/opencode",
        ".qwen/projects",
        ".pi/agent/sessions",
    ];
    let mut gone = 0;
    for store in stores {
        gone += u32::from(fs::remove_dir_all(home.join(store)).is_ok());
    }
    for entry in fs::read_dir(home.join(".codex")).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().contains(".sqlite") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    assert!(gone > 0, "there was nothing to forget");
}

/// Waits until there is something.
pub(crate) fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(since.elapsed() < LONG, "waited in vain");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn wait_gone(pid: i32) {
    wait_for(|| (!PathBuf::from(format!("/proc/{pid}")).exists()).then_some(()));
}

pub(crate) fn wait_for_the_next_minute() {
    let seconds = jiff::Timestamp::now().as_second().rem_euclid(60).unsigned_abs();
    thread::sleep(Duration::from_secs(61 - seconds));
}

pub(crate) fn kill_hard(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// The agent's own process: what the guardian of a running Segue has started.
pub(crate) fn programs_below(segue: u32) -> Vec<i32> {
    let children = |pid: &str| -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        lists
            .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    };
    let guardians = children(&segue.to_string());
    let programs = guardians.iter().flat_map(|guardian| children(guardian));
    programs.map(|pid| pid.parse().unwrap()).collect()
}

/// A Segue at work.
pub(crate) struct Live {
    child: Child,
}

impl Live {
    pub(crate) fn start(lab: &Lab, args: &[&str]) -> Self {
        Self::of(command(lab, args))
    }

    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: command.spawn().unwrap() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn end(self) -> Output {
        use std::os::unix::process::ExitStatusExt;
        let output = self.child.wait_with_output().unwrap();
        let status = output.status.code().or(output.status.signal().map(|signal| 128 + signal));
        Output {
            status: status.unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
