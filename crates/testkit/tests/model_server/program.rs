//! The program, and the scenario files it reads.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use segue_testkit::model_server::{
    Delivery, Fault, Reply, Reset, Scenario, Stop, When, read_record,
};
use serde_json::json;

use super::*;

const FILE: &str = r#"
models = ["m1", "m2"]

[[replies]]
thinking = "hm"
text = "I will look"
usage = { input = 5, output = 6, cache_read = 7 }
tools = [{ name = "shell", input = { command = "ls" }, id = "t1" }]

[[replies]]
when = { last_user = "title", tools = false, api = "chat" }
sticky = true
text = "A title"
stop = "max_tokens"
delay_ms = 1
gap_ms = 2
headers = { x-more = "1" }

[[replies]]
fault = { kind = "usage_limit", reset = { in = 60 } }

[[replies]]
text = "half of this"
fault = { kind = "cut", after = 2, clean = true }

[[replies]]
fault = { kind = "hang" }
"#;

#[test]
fn a_scenario_file_says_the_same_as_the_builder() {
    let read = Scenario::from_toml(FILE).unwrap();
    let first = Reply::text("I will look").thinking("hm").usage(Usage {
        input: 5,
        output: 6,
        cache_read: 7,
        ..Usage::default()
    });
    let call = segue_testkit::model_server::ToolCall {
        name: "shell".into(),
        input: json!({ "command": "ls" }),
        id: Some("t1".into()),
        namespace: None,
    };
    let api = Some(segue_testkit::model_server::Api::Chat);
    let title = Reply::text("A title")
        .when(When { api, tools: Some(false), ..When::last_user("title") })
        .sticky()
        .stop(Stop::MaxTokens)
        .delay(Duration::from_millis(1))
        .slow(Duration::from_millis(2))
        .header("x-more", "1");
    let mut built = Scenario::new()
        .reply(first.and_call(call))
        .reply(title)
        .reply(Reply::fault(Fault::UsageLimit { reset: Some(Reset::In(60)) }))
        .reply(Reply::text("half of this").failing(Fault::Cut { after: Some(2), clean: true }))
        .reply(Reply::fault(Fault::hang()));
    built.models = vec!["m1".into(), "m2".into()];
    assert_eq!(read, built);
}

#[test]
fn a_mistyped_scenario_is_refused() {
    for text in ["replys = []", "[[replies]]\ntxt = \"x\"", "[[replies]]\nwhen = { user = \"x\" }"]
    {
        assert!(Scenario::from_toml(text).is_err(), "{text}");
    }
    let cut = "[[replies]]\nfault = { kind = \"cut\", cleen = true }";
    assert!(Scenario::from_toml(cut).is_err());
}

/// Ends the program if the test fails in between.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _waited = self.0.wait();
    }
}

fn launch(dir: &Path) -> (Program, String) {
    let scenario = dir.join("scenario.toml");
    std::fs::write(&scenario, "[[replies]]\ntext = \"from a file\"\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_model-server"));
    command.arg("--scenario").arg(&scenario).arg("--record").arg(dir.join("record.jsonl"));
    command.arg("--port-file").arg(dir.join("port")).arg("--with-stdin");
    let mut child = Program(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(std::fs::read_to_string(dir.join("port")).unwrap(), line.trim());
    (child, format!("http://127.0.0.1:{}", line.trim()))
}

#[test]
fn the_program_serves_records_and_stops_with_its_stdin() {
    let dir = tempfile::tempdir().unwrap();
    let (mut program, url) = launch(dir.path());
    let sent = agent().post(format!("{url}{MESSAGES}")).send(anthropic("hi", false).to_string());
    let text = sent.unwrap().body_mut().read_to_string().unwrap();
    assert!(text.contains("from a file"), "{text}");
    drop(program.0.stdin.take());
    assert!(program.0.wait().unwrap().success());
    let requests = read_record(&dir.path().join("record.jsonl")).unwrap();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].reply, requests[0].delivery), (Some(0), Delivery::Complete));
}

#[test]
fn the_program_stops_at_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let (mut program, _) = launch(dir.path());
    let pid = rustix::process::Pid::from_child(&program.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(program.0.wait().unwrap().success());
}

#[test]
fn the_program_says_what_is_wrong_with_a_scenario() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = dir.path().join("scenario.toml");
    std::fs::write(&scenario, "replies = 1").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_model-server"));
    let output = command.arg("--scenario").arg(&scenario).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("scenario.toml"));
}
