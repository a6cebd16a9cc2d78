//! The vendors' own agents in the lab: each runs headless, answers, and uses its tools.
//!
//! They are skipped where the agents are not installed (`scripts/vendors`).
#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use std::{
    fs,
    io::{BufRead, BufReader, Lines, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use rustix::process::{Pid, Signal, kill_process_group};
use segue_testkit::{
    env::Output,
    vendors::{Cli, Lab},
};
use serde_json::{Value, json};

const TEXT: &str = "it's\n  two lines\n";

#[test]
fn claude() {
    headless(Cli::Claude);
}

#[test]
fn codex() {
    headless(Cli::Codex);
}

#[test]
fn gemini() {
    headless(Cli::Gemini);
}

#[test]
fn copilot() {
    headless(Cli::Copilot);
}

#[test]
fn opencode() {
    headless(Cli::OpenCode);
}

#[test]
fn qwen() {
    headless(Cli::Qwen);
}

#[test]
fn pi() {
    headless(Cli::Pi);
}

#[test]
fn claude_over_acp() {
    over_acp(Cli::ClaudeAcp);
}

#[test]
fn codex_over_acp() {
    over_acp(Cli::CodexAcp);
}

#[test]
fn gemini_over_acp() {
    over_acp(Cli::GeminiAcp);
}

#[test]
fn copilot_over_acp() {
    over_acp(Cli::CopilotAcp);
}

#[test]
fn opencode_over_acp() {
    over_acp(Cli::OpenCodeAcp);
}

#[test]
fn qwen_over_acp() {
    over_acp(Cli::QwenAcp);
}

#[test]
fn nothing_but_the_machine_can_be_reached() {
    let Some(lab) = Lab::open(Cli::Claude) else { return };
    if !lab.isolated() {
        eprintln!("skipped: not allowed to make a network namespace");
        return;
    }
    let devices = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let names = devices.lines().skip(2).filter_map(|line| line.split(':').next());
    assert_eq!(names.map(str::trim).collect::<Vec<_>>(), ["lo"]);

    // A second lab of the thread is in the same network: one may reach the server of the other.
    let inside = fs::read_link("/proc/thread-self/ns/net").unwrap();
    let second = Lab::open(Cli::Codex).unwrap();
    let mut readlink = second.command("readlink");
    readlink.arg("/proc/self/ns/net");
    assert_eq!(second.run(readlink).stdout.trim(), inside.to_str().unwrap());
}

/// An answer; and a turn with a file and a command.
fn headless(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    lab.start(lab.scenario().text("It is four."));
    let output = lab.run(lab.direct("What is two and two?"));
    assert_eq!(output.status, 0, "{output:?}");
    assert!(said(&output).contains("It is four."), "{output:?}");
    assert_eq!(lab.turns().len(), 1, "{output:?}");
    assert!(lab.knows("What is two and two?"), "{:?}", lab.conversation());

    lab.start(working(&lab));
    let output = lab.run(lab.direct("Make the file, please."));
    assert_eq!(output.status, 0, "{output:?}");
    assert!(said(&output).contains("The file is there."), "{output:?}");
    worked(&lab);
}

/// The same through the protocol, saying yes to whatever is asked.
fn over_acp(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    lab.start(working(&lab));
    let mut agent = Acp::start(&lab);
    agent.ask("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": {} }));
    let session = agent.ask("session/new", &json!({ "cwd": lab.work(), "mcpServers": [] }));
    let prompt = json!([{ "type": "text", "text": "Make the file, please." }]);
    let ended = agent
        .ask("session/prompt", &json!({ "sessionId": session["sessionId"], "prompt": prompt }));
    assert_eq!(ended["stopReason"], "end_turn", "{ended}");
    assert!(agent.said.contains("The file is there."), "{}", agent.said);
    worked(&lab);
}

fn working(lab: &Lab) -> segue_testkit::model_server::Scenario {
    lab.scenario()
        .reply(lab.write_file("made.txt", TEXT))
        .reply(lab.shell("echo shouted | tr a-z A-Z"))
        .text("The file is there.")
}

/// The file is as the model wanted it, and the model was told of everything.
fn worked(lab: &Lab) {
    let conversation = lab.conversation();
    let made = fs::read_to_string(lab.work().join("made.txt"));
    assert_eq!(made.unwrap_or_default(), TEXT, "{conversation:?}");
    assert_eq!(lab.turns().len(), 3, "{conversation:?}");
    assert!(lab.knows("Make the file, please."), "{conversation:?}");
    assert!(lab.knows("SHOUTED"), "{conversation:?}");
    let turns = lab.turns();
    assert!(turns.iter().all(|turn| !turn.unscripted), "{turns:?}");
}

/// What was printed, and after it the pieces put together in which Gemini CLI prints an answer.
fn said(output: &Output) -> String {
    let mut said = output.stdout.clone();
    for line in output.stdout.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        if line["role"] == "assistant" {
            said.push_str(line["content"].as_str().unwrap_or_default());
        }
    }
    said
}

/// A client of the Agent Client Protocol, in so far as it is needed here.
struct Acp {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    asked: u64,
    said: String,
}

impl Acp {
    fn start(lab: &Lab) -> Self {
        let agent = lab.acp();
        // What hangs is ended from outside, since this only reads.
        let mut command = lab.command("timeout");
        command.arg("90").arg(agent.get_program()).args(agent.get_args());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.process_group(0).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdin, lines, asked: 0, said: String::new() }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        while let Some(line) = self.lines.next() {
            let message: Value = serde_json::from_str(&line.unwrap()).unwrap_or_default();
            match message["method"].as_str() {
                Some("session/request_permission") => self.permit(&message),
                Some(_) => {
                    let text = &message["params"]["update"]["content"]["text"];
                    self.said.push_str(text.as_str().unwrap_or_default());
                }
                None if message["id"] == id => {
                    assert!(message["error"].is_null(), "{message}");
                    return message["result"].clone();
                }
                None => {}
            }
        }
        panic!("the agent ended without an answer to {method}");
    }

    fn permit(&mut self, request: &Value) {
        let options = request["params"]["options"].as_array().unwrap();
        let once = options.iter().find(|option| option["kind"] == "allow_once").unwrap();
        let outcome = json!({ "outcome": "selected", "optionId": once["optionId"] });
        let result = json!({ "outcome": outcome });
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    }
}

impl Drop for Acp {
    fn drop(&mut self) {
        // Some agents go on when their stdin ends.
        let _gone = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        drop(self.child.wait());
    }
}
