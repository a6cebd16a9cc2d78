//! A pair in a lab: what its models say, and what can be seen of it from outside.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use segue_testkit::{
    model_server::{Message, Reply, Request, Role, When},
    vendors::{Cli, Lab},
};
use serde_json::{Value, json};

use crate::{
    checkpoint::our_tool,
    support::{self, api, asked_by, wait_for},
};

pub(super) const TASK: &str = "Write a greeting into hello.txt";

/// How every review begins.
pub(super) const QUESTION: &str = "You review the work of another agent.";

/// What the first reviewer objects to.
pub(super) const CONCERN: &str = "The greeting is misspelt";

/// A reply to the worker in one of its attempts.
pub(super) fn working(cli: Cli, attempt: u32, reply: Reply) -> Reply {
    let said = match attempt {
        1 => "Then your work is reviewed by".to_owned(),
        later => format!("Your work was reviewed (round {})", later - 1),
    };
    reply.when(When { api: Some(api(cli)), ..When::last_user(said) })
}

/// A reply to a reviewer in one of the rounds.
pub(super) fn reviewing(cli: Cli, round: u32, reply: Reply) -> Reply {
    let said = format!("This is round {round}.");
    reply.when(When { api: Some(api(cli)), ..When::last_user(said) })
}

/// The worker's first attempt: a file that is not right yet, and a word about it.
pub(super) fn first_attempt(cli: Cli) -> Vec<Reply> {
    let write = cli.write_file(Path::new("hello.txt"), "helo\n");
    [write, Reply::text("I wrote the greeting by hand.")].map(|one| working(cli, 1, one)).into()
}

/// The second: the file is right.
pub(super) fn second_attempt(cli: Cli) -> Vec<Reply> {
    let done = Reply::text("I mended the spelling.");
    fix(cli).into_iter().chain([done]).map(|one| working(cli, 2, one)).collect()
}

/// The right file, in the place of the wrong one. Claude Code changes only what it has read.
pub(super) fn fix(cli: Cli) -> Vec<Reply> {
    let path = "hello.txt";
    let edit = json!({ "file_path": path, "old_string": "helo", "new_string": "hello" });
    match cli {
        Cli::Claude => {
            vec![Reply::tool("Read", json!({ "file_path": path })), Reply::tool("Edit", edit)]
        }
        _ => vec![cli.shell("printf 'hello\\n' > hello.txt")],
    }
}

pub(super) fn objection() -> Value {
    json!({
        "verdict": "fail",
        "category": "correctness",
        "concern": CONCERN,
        "evidence": "hello.txt:1 says helo",
        "next_step": "Write it with two l",
    })
}

/// The reviewer calls our tool, and says something besides.
pub(super) fn objects(cli: Cli, round: u32) -> Vec<Reply> {
    let call = our_tool(cli, "submit_verdict", objection());
    [call, Reply::text("I have said what I think.")].map(|one| reviewing(cli, round, one)).into()
}

/// A verdict in the block that closes an answer.
pub(super) fn pass() -> Reply {
    Reply::text("It is right now.\n\n```segue\n{\"verdict\":\"pass\"}\n```")
}

pub(super) fn passes(cli: Cli, round: u32) -> Vec<Reply> {
    vec![reviewing(cli, round, pass())]
}

pub(super) fn start(lab: &mut Lab, replies: impl IntoIterator<Item = Vec<Reply>>) {
    let all = replies.into_iter().flatten();
    let scenario = all.fold(lab.scenario(), |scenario, one| scenario.reply(one));
    lab.start(scenario);
}

pub(super) fn hello(lab: &Lab) -> String {
    fs::read_to_string(lab.work().join("hello.txt")).unwrap_or_default()
}

fn dir(lab: &Lab) -> PathBuf {
    support::session_dir(lab)
}

/// What the journal of a reviewer has.
pub(super) fn reviewer_journal(lab: &Lab, name: &str) -> Vec<Value> {
    let path = dir(lab).join("reviewers").join(name).join("journal.jsonl");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(super) fn of_kind(events: &[Value], kind: &str) -> Vec<Value> {
    events.iter().filter(|event| event["kind"] == kind).cloned().collect()
}

/// Waits until the pair's journal has an event of this kind.
pub(super) fn wait_for_event(lab: &Lab, kind: &str) {
    wait_for(|| (!of_kind(&support::journal(lab), kind).is_empty()).then_some(()));
}

/// Round and verdict of everything that counted, with who said it.
pub(super) fn verdicts(lab: &Lab) -> Vec<(u64, String, String)> {
    let given = support::bodies(lab, "verdict.given");
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    given
        .iter()
        .map(|one| {
            (one["iteration"].as_u64().unwrap(), word(&one["reviewer"]), word(&one["verdict"]))
        })
        .collect()
}

/// The same, as tests write it down.
pub(super) fn given(list: &[(u64, &str, &str)]) -> Vec<(u64, String, String)> {
    list.iter().map(|(n, who, what)| (*n, (*who).to_owned(), (*what).to_owned())).collect()
}

/// What was new to the model in a request: what the user's side said since the model spoke last.
/// Nothing where that is the result of a tool.
pub(super) fn news(request: &Request) -> Option<String> {
    let reminder = |text: &str| text.trim_start().starts_with("<system-reminder>");
    let messages = request.messages();
    let new = messages.iter().rev().take_while(|one| one.role != Role::Assistant);
    let new: Vec<&Message> = new.filter(|one| !one.text().is_some_and(reminder)).collect();
    if new.iter().any(|one| one.role == Role::Tool) {
        return None;
    }
    Some(new.iter().rev().filter_map(|one| one.text()).collect::<Vec<_>>().join("\n"))
}

/// The reviews that an agent was asked for.
pub(super) fn questions(lab: &Lab, cli: Cli) -> Vec<String> {
    let new = asked_by(lab, cli).iter().filter_map(news).collect::<Vec<_>>();
    new.into_iter().filter(|text| text.contains(QUESTION)).collect()
}

/// What the worker was asked.
pub(super) fn prompts(lab: &Lab, cli: Cli) -> Vec<String> {
    let new = asked_by(lab, cli).iter().filter_map(news).collect::<Vec<_>>();
    new.into_iter().filter(|text| !text.contains(QUESTION)).collect()
}

/// Whatever runs with the lab's home, with its command line.
pub(super) fn processes(lab: &Lab) -> Vec<(i32, String)> {
    let home = format!("HOME={}", lab.home().display());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        if variables.any(|variable| variable == home.as_bytes()) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}

pub(super) fn wait_until_nothing_runs(lab: &Lab) {
    wait_for(|| processes(lab).is_empty().then_some(()));
}

/// All files below a directory.
pub(super) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

pub(crate) fn git(lab: &Lab, args: &[&str]) -> String {
    let mut command: Command = lab.command("git");
    command.args(args);
    let output = lab.run(command);
    assert_eq!(output.status, 0, "git {args:?}: {}", output.stderr);
    output.stdout
}
