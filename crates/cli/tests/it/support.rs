//! What the tests share: an environment, scripts, a live process, and text that is always the same.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use segue_testkit::{
    env::{Output, TestEnv},
    model_server::{ModelServer, Reply, Scenario},
};
use serde_json::Value;

/// Only a broken program is that slow.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A key that must be found nowhere.
pub(crate) const KEY: &str = "sk-never-to-be-seen-4711";

pub(crate) const ANTHROPIC: &str = "anthropic/claude-sonnet-4-5";
pub(crate) const OPENAI: &str = "openai/gpt-5";
pub(crate) const CHAT: &str = "chat/local-model";

/// One reply, and the agent is done.
pub(crate) const DONE: &str = r#"
[[reply]]
text = "All is well."
usage = { input = 900, output = 40 }
repeat = true
"#;

/// Writes a file, fails once in the shell, and is done.
pub(crate) const WORK: &str = r#"
[[reply]]
thinking = "A file first."
text = "I write it."
tools = [
    { name = "write_file", input = { path = "a.txt", content = "one\n" } },
    { name = "shell", input = { command = "cat a.txt; exit 3" } },
]
usage = { input = 900, output = 40 }

[[reply]]
text = "Done: a.txt has one line."
usage = { input = 1000, output = 20 }
"#;

/// Runs a command that takes long; how the program ends in the middle of it is up to the test.
pub(crate) const SLOW_TOOL: &str = r#"
[[reply]]
text = "This takes a while."
tools = [
    { name = "write_file", input = { path = "first.txt", content = "1" } },
    { name = "shell", input = { command = "echo begun > begun.txt; sleep 300" } },
    { name = "write_file", input = { path = "last.txt", content = "2" } },
]
usage = { input = 100, output = 10 }

[[reply]]
text = "I looked, and it is fine."
usage = { input = 100, output = 10 }
repeat = true
"#;

/// Two turns that change files and report, and as many more as are asked for. The first stands
/// still as long as there is a file `busy` beside the script.
pub(crate) const TURNS: &str = r#"
[[reply]]
text = "I begin."
tools = [
    { name = "write_file", input = { path = "a.txt", content = "one\n" } },
    { name = "checkpoint", input = { decisions = [{ summary = "Use one", why = "it is small" }], blockers = [{ summary = "No key", evidence = "401" }], remaining = ["the docs"], next_task = "Write the docs" } },
]
usage = { input = 100, output = 10 }

[[reply]]
limit = { secs = 7200, file = "busy" }
text = "Turn 1 is done."
usage = { input = 100, output = 10 }

[[reply]]
text = "I go on."
tools = [{ name = "shell", input = { command = "echo two > a.txt; rm base.txt; echo x > 'b ü.txt'" } }]
usage = { input = 100, output = 10 }

[[reply]]
text = "Turn 2 is done."
usage = { input = 100, output = 10 }

[[reply]]
text = "A later turn is done."
usage = { input = 100, output = 10 }
repeat = true
"#;

pub(crate) fn git(env: &TestEnv, args: &[&str]) -> String {
    let output = env.git(args).unwrap();
    assert_eq!(output.status, 0, "{args:?}: {}", output.stderr);
    output.stdout
}

/// An environment with a script whose repository is one of git, with one commit.
pub(crate) fn scripted_in_git(script: &str) -> (TestEnv, String) {
    let (env, model) = scripted(script);
    git(&env, &["init", "-q", "-b", "main"]);
    env.write("base.txt", "base\n").unwrap();
    git(&env, &["add", "."]);
    git(&env, &["commit", "-q", "-m", "base"]);
    (env, model)
}

/// The same with the first two turns of [`TURNS`] done.
pub(crate) fn two_turns() -> TestEnv {
    let (env, model) = scripted_in_git(TURNS);
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 0);
    assert_eq!(segue(&env, &["resume", "1", "Do two"]).status, 0);
    env
}

/// The files of a directory, without git's own.
pub(crate) fn tree(dir: &Path) -> std::collections::BTreeMap<String, String> {
    let all = files_below(dir).into_iter().filter_map(|path| {
        let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
        let ours = name != ".git" && !name.starts_with(".git/");
        ours.then(|| (name, fs::read_to_string(&path).unwrap()))
    });
    all.collect()
}

pub(crate) fn packet(env: &TestEnv, number: u64) -> Value {
    json(&fs::read_to_string(env.session_dir(number).unwrap().join("resume.json")).unwrap())
}

/// What the agent of the session's last turn was told, as a whole.
pub(crate) fn last_told(env: &TestEnv, number: u64) -> String {
    let turn = data(env, number, "turn.started").pop().unwrap();
    let text = |what: &Value| {
        let dir = env.session_dir(number).unwrap();
        what["text"].as_str().map(str::to_owned).or_else(|| {
            let blob = what["blob"].as_str()?.to_owned();
            let found = files_below(&dir.join("blobs"))
                .into_iter()
                .find(|path| path.to_string_lossy().replace('/', "").contains(&blob))?;
            fs::read_to_string(found).ok()
        })
    };
    text(&turn["briefing"]).or_else(|| text(&turn["prompt"])).unwrap()
}

pub(crate) fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_segue")).unwrap()
}

/// An environment with a script, and the name of the script's model.
pub(crate) fn scripted(script: &str) -> (TestEnv, String) {
    let env = env();
    let model = env.script(script).unwrap();
    (env, model)
}

pub(crate) fn segue(env: &TestEnv, args: &[&str]) -> Output {
    env.segue(args).unwrap()
}

/// Runs Segue with this on its standard input.
pub(crate) fn segue_with_stdin(env: &TestEnv, args: &[&str], stdin: &[u8]) -> Output {
    let mut command = env.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let text = stdin.to_vec();
    // From a thread of its own: a program that does not read must not hold the test.
    let writer = thread::spawn(move || drop(pipe.write_all(&text)));
    let output = finish(child);
    writer.join().unwrap();
    output
}

/// What Segue prints on a terminal that no path is too long for.
pub(crate) fn shown(env: &TestEnv, args: &[&str]) -> String {
    at_width(env, 400, args)
}

/// What Segue prints on a terminal of this width: only where no path of the test is shown, since
/// its length differs from machine to machine.
pub(crate) fn at_width(env: &TestEnv, width: usize, args: &[&str]) -> String {
    let mut command = env.command(args);
    plain(env, &Output::of(command.env("COLUMNS", width.to_string())).unwrap())
}

/// The output as text that is the same on every machine and in every run.
pub(crate) fn plain(env: &TestEnv, output: &Output) -> String {
    let text = output.plain(env).replace('\u{1b}', "␛");
    text.lines().map(steady).collect::<Vec<_>>().join("\n")
}

/// Sizes of files, process ids and the host differ from run to run.
fn steady(line: &str) -> String {
    let words: Vec<&str> = line.trim_end().split(' ').collect();
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let is_unit = |word: &str| matches!(word.trim_end_matches(','), "B" | "kB");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut out = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let after = words.get(at + 1).copied().unwrap_or_default();
        let before = if at > 0 { words[at - 1] } else { "" };
        out.push(match *word {
            word if is_number(word) && is_unit(after) => "$SIZE".to_owned(),
            unit if is_unit(unit) && is_number(before) => {
                "bytes".to_owned() + &unit.replace(['k', 'B'], "")
            }
            word if before == "process" && is_number(word) => "$PID".to_owned(),
            word if before == "on" && word.trim_end_matches(',') == host => {
                word.replace(&host, "$HOST")
            }
            word => word.to_owned(),
        });
    }
    out.join(" ").trim_end().to_owned()
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The lines of an NDJSON text.
pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines().map(json).collect()
}

/// The kinds of a session's events, in order.
pub(crate) fn kinds(env: &TestEnv, number: u64) -> Vec<String> {
    let kind = |line: &Value| line["kind"].as_str().unwrap().to_owned();
    env.journal(number).unwrap().iter().map(kind).collect()
}

/// The data of a session's events of one kind.
pub(crate) fn data(env: &TestEnv, number: u64, kind: &str) -> Vec<Value> {
    let events = env.journal(number).unwrap();
    events
        .into_iter()
        .filter(|line| line["kind"] == kind)
        .map(|line| line["data"].clone())
        .collect()
}

pub(crate) fn show(env: &TestEnv, session: &str) -> Value {
    json(&segue(env, &["show", session, "--json"]).stdout)
}

pub(crate) fn journal_bytes(env: &TestEnv, number: u64) -> Vec<u8> {
    fs::read(env.session_dir(number).unwrap().join("journal.jsonl")).unwrap()
}

/// The last line that a person sees.
pub(crate) fn last_words(output: &Output) -> &str {
    output.stderr.lines().last().unwrap_or_default()
}

/// Waits for something that has to come.
pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    until_within(LONG, what, holds);
}

/// The same for what takes its time.
pub(crate) fn until_within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < limit, "{what}: it did not come");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a session's journal has an event of this kind by now.
pub(crate) fn has(env: &TestEnv, number: u64, kind: &str) -> bool {
    // A line that is being written does not parse yet.
    let events = env.journal(number).unwrap_or_default();
    events.iter().any(|line| line["kind"] == kind)
}

/// Segue at work, with what it prints kept for the end.
pub(crate) fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

pub(crate) fn finish(child: Child) -> Output {
    use std::os::unix::process::ExitStatusExt;
    let output = child.wait_with_output().unwrap();
    let status = output.status.code().or(output.status.signal().map(|signal| 128 + signal));
    Output {
        status: status.unwrap(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Starts the slow tool of [`SLOW_TOOL`] and comes back when it runs.
pub(crate) fn start_slow_tool(env: &TestEnv, model: &str) -> Child {
    let child = start(&mut env.command(["run", "Take your time", "--model", model]));
    until("the tool", || env.repo().join("begun.txt").exists());
    child
}

pub(crate) fn serve(replies: impl IntoIterator<Item = Reply>) -> ModelServer {
    ModelServer::start(replies.into_iter().fold(Scenario::new(), Scenario::reply)).unwrap()
}

/// Segue with every provider at this server, with a key for each.
pub(crate) fn with_server(env: &TestEnv, server: &ModelServer, args: &[&str]) -> Command {
    let mut command = env.command(args);
    for name in ["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "SEGUE_CHAT_BASE_URL"] {
        command.env(name, server.url());
    }
    for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SEGUE_CHAT_KEY"] {
        command.env(name, KEY);
    }
    command
}

/// Runs Segue to its end at this server.
pub(crate) fn ask(env: &TestEnv, server: &ModelServer, args: &[&str]) -> Output {
    Output::of(&mut with_server(env, server, args)).unwrap()
}

/// All files below a directory.
pub(crate) fn files_below(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found
}
