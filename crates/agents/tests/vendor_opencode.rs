//! OpenCode 1.18.33: what it really printed and kept, and what we make of it.
//!
//! The streams and rows were recorded from the real program against the scripted model server.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail like tests")]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use segue_agents::vendor::{
    CallMade, Conversation, Ending, Heard, Job, LastTurn, Program, SignIn, Signal, ToolEnd,
    Trouble, Vendor, World, opencode::OpenCode,
};
use segue_core::{Permission, usage::Usage};
use serde_json::Value;

const PROMPT: &str = "Say \"hello\" in\n  two lines, ünï €\n\n";
const KILLED: &str = "ses_e1e47620affey3GuPuxwHaKpFw";
const RESUMED: &str = "ses_e1e473743ffeoBYi315Nt400bQ";
const COMPACTED: &str = "ses_e1e461773ffeR6DL7gq68soJEr";

fn recorded(name: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams/opencode");
    fs::read_to_string(dir.join(name)).expect("a recorded stream")
}

fn job(world: &World) -> Job<'_> {
    Job {
        prompt: PROMPT,
        cwd: Path::new("/home/u/repo"),
        conversation: Conversation::New { id: "" },
        permission: Permission::Edit,
        model: None,
        extra: &[],
        world,
        files: Path::new("files"),
        tools: None,
    }
}

/// All that a stream means, from its first line to the program's end.
fn hear(name: &str, exit: Option<i32>) -> Vec<Signal> {
    let world = World::default();
    let mut dialogue = OpenCode.dialogue(&job(&world));
    let mut heard = Heard::default();
    for line in recorded(name).lines() {
        dialogue.line(line.as_bytes(), &mut heard).expect("a line of its format");
    }
    dialogue.exited(exit, &mut heard);
    heard.signals
}

/// Without the id and the pieces, which come with every text.
fn gist(name: &str, exit: i32) -> Vec<Signal> {
    let small = |signal: &Signal| !matches!(signal, Signal::Session(_) | Signal::Writing(_));
    hear(name, Some(exit)).into_iter().filter(small).collect()
}

fn text(text: &str) -> Signal {
    Signal::Text(text.to_owned())
}

fn used(usage: Usage) -> Signal {
    Signal::Used { model: None, usage, cost: None }
}

const BIG: Usage = Usage { input: 100, output: 7, cache_read: 30, cache_write: 0, reasoning: 5 };
const SMALL: Usage = Usage { input: 11, output: 7, cache_read: 0, cache_write: 0, reasoning: 0 };

fn failed(trouble: Trouble) -> Signal {
    Signal::Ended(Ending::Failed(trouble))
}

fn retrying() -> Signal {
    let trouble = Trouble::StreamCut("the answer broke off".to_owned());
    Signal::Retrying { trouble, wait: None }
}

#[test]
fn a_plain_answer() {
    let expected = [
        Signal::Session("ses_e1e511295ffeWDyRq4eEm09yFc".to_owned()),
        Signal::Writing("Hello from the scripted model.".to_owned()),
        used(BIG),
        text("Hello from the scripted model."),
        Signal::Ended(Ending::Finished),
    ];
    assert_eq!(hear("text.jsonl", Some(0)), expected);
    // Nobody can say that it was the last line when the program was killed.
    assert_eq!(hear("text.jsonl", None), expected[..4]);
}

#[test]
fn tools_that_write_a_file_and_run_a_command() {
    let write = "call_8e3f22be0d090002_0";
    let run = "call_8e3f22be0d090003_0";
    let mut ran = ToolEnd::new(run, true, "out\n");
    ran.exit = Some(3);
    let expected = [
        Signal::Thought("I should write.".to_owned()),
        text("I will write a file."),
        Signal::ToolCalled {
            id: write.to_owned(),
            name: "write".to_owned(),
            input: r#"{"content":"hi\n","filePath":"/home/u/repo/a.txt"}"#.to_owned(),
        },
        Signal::ToolReturned(
            ToolEnd::new(write, true, "Wrote file successfully.")
                .touching(["/home/u/repo/a.txt".to_owned()]),
        ),
        used(BIG),
        text("Now a command."),
        Signal::ToolCalled {
            id: run.to_owned(),
            name: "bash".to_owned(),
            input: r#"{"command":"echo out; echo sh > /home/u/repo/b.txt; exit 3","description":"run"}"#
                .to_owned(),
        },
        Signal::ToolReturned(ran),
        used(SMALL),
        used(SMALL),
        text("Done."),
        Signal::Ended(Ending::Finished),
    ];
    assert_eq!(gist("tools.jsonl", 0), expected);
}

#[test]
fn tools_that_were_not_permitted_fail_and_the_turn_goes_on() {
    let signals = gist("denied.jsonl", 0);
    let ends: Vec<_> = signals
        .iter()
        .filter_map(|signal| match signal {
            Signal::ToolReturned(end) => Some((format!("{:?}", end.status), end.touched.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(ends, vec![("Failed".to_owned(), vec![]); 2]);
    assert_eq!(signals.last(), Some(&Signal::Ended(Ending::Finished)));
}

#[test]
fn a_rate_limit_and_a_spent_quota_are_told_apart() {
    let message = "Rate limit reached for scripted-model on requests per min (RPM): Limit 3, Used \
                   3, Requested 1. Please try again in 1s."
        .to_owned();
    let retry_after = Some(Duration::from_secs(1));
    let limit = Trouble::Limit { message, resets_at: None, retry_after, quota: false };
    assert_eq!(gist("rate-limit.jsonl", 1), [failed(limit)]);

    let message = "You exceeded your current quota, please check your plan and billing details.";
    let message = message.to_owned();
    let limit = Trouble::Limit { message, resets_at: None, retry_after: None, quota: true };
    assert_eq!(gist("quota.jsonl", 1), [failed(limit)]);
}

#[test]
fn what_is_wrong_is_told_by_name_code_and_status() {
    let is = |name: &str, want: fn(&Trouble) -> bool| match gist(name, 1).pop() {
        Some(Signal::Ended(Ending::Failed(trouble))) => assert!(want(&trouble), "{trouble:?}"),
        other => panic!("{name}: {other:?}"),
    };
    is("server-error.jsonl", |trouble| matches!(trouble, Trouble::Server { status: 500, .. }));
    is("overloaded.jsonl", |trouble| matches!(trouble, Trouble::Overloaded { .. }));
    is("stream-error.jsonl", |trouble| {
        matches!(trouble, Trouble::Overloaded { message, .. }
            if message == "Our servers are currently overloaded. Please try again later.")
    });
    is(
        "unauthorized.jsonl",
        |trouble| matches!(trouble, Trouble::NotSignedIn { fix, .. } if fix == "opencode auth login"),
    );
    is("no-server.jsonl", |trouble| matches!(trouble, Trouble::Network(_)));
    is("cut.jsonl", |trouble| matches!(trouble, Trouble::StreamCut(_)));
}

#[test]
fn silent_retries_are_seen_by_the_step_that_begins_again() {
    let expected = [
        retrying(),
        used(SMALL),
        text("Hello from the scripted model, which is long enough to be cut."),
        Signal::Ended(Ending::Finished),
    ];
    assert_eq!(gist("cut-once.jsonl", 0), expected);
    let retries = gist("cut.jsonl", 1).into_iter().filter(|signal| *signal == retrying());
    assert_eq!(retries.count(), 5);
}

#[test]
fn an_answer_may_be_cut_at_the_models_limit_or_by_a_filter() {
    let last = |name, exit| gist(name, exit).pop();
    assert_eq!(last("truncated.jsonl", 0), Some(Signal::Ended(Ending::Truncated)));
    assert_eq!(last("refused.jsonl", 1), Some(Signal::Ended(Ending::Refused)));
}

#[test]
fn a_step_that_is_asked_again_for_ever_is_empty_and_its_broken_text_no_text() {
    let signals = gist("runaway.jsonl", 1);
    let cut = failed(Trouble::StreamCut("the answer broke off".to_owned()));
    assert_eq!(signals, [Signal::Empty, Signal::Empty, Signal::Empty, cut]);
}

#[test]
fn a_conversation_that_stays_too_long_ends_though_the_program_would_not() {
    let signals = gist("too-long.jsonl", 1);
    let [Signal::Retrying { trouble, .. }, used_up, Signal::Thought(summary), last] = &signals[..]
    else {
        panic!("{signals:?}")
    };
    assert!(matches!(trouble, Trouble::ContextExhausted(_)), "{trouble:?}");
    assert_eq!((used_up, &**summary), (&used(SMALL), "Title"));
    assert_eq!(last, &failed(trouble.clone()));
}

#[test]
fn a_summary_in_the_middle_is_neither_a_text_nor_the_end() {
    let signals = gist("compacted.jsonl", 0);
    let texts: Vec<_> = signals.iter().filter(|signal| matches!(signal, Signal::Text(_))).collect();
    assert_eq!(texts, [&text("First part."), &text("Second part.")]);
    assert!(signals.contains(&Signal::Thought("SUMMARY".to_owned())));
    let ends = signals.iter().filter(|signal| matches!(signal, Signal::Ended(_)));
    assert_eq!(ends.count(), 1);
    assert_eq!(signals.last(), Some(&Signal::Ended(Ending::Finished)));
}

#[test]
fn a_killed_program_has_no_end() {
    assert_eq!(gist("killed.jsonl", 143), [text("I sleep.")]);
}

#[test]
fn a_session_that_it_does_not_know() {
    let world = World::default();
    let mut dialogue = OpenCode.dialogue(&job(&world));
    let mut heard = Heard::default();
    dialogue.error_line("\u{1b}[91m\u{1b}[1mError: \u{1b}[0mSession not found", &mut heard);
    dialogue.exited(Some(1), &mut heard);
    let gone = Trouble::SessionGone("Error: Session not found".to_owned());
    assert_eq!(heard.signals, [failed(gone)]);
    assert!(dialogue.line(b"not JSON", &mut heard).is_err());
}

/// A database with the tables as the program makes them, as far as they are read.
fn database(home: &Path, names: &[&str]) -> PathBuf {
    let dir = home.join(".local/share/opencode");
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("opencode.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text,
               slug text NOT NULL, directory text NOT NULL, title text NOT NULL,
               version text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL);
             CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL,
               time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
             CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL,
               session_id text NOT NULL, time_created integer NOT NULL,
               time_updated integer NOT NULL, data text NOT NULL);",
        )
        .unwrap();
    for line in names.iter().flat_map(|name| lines(name)) {
        let row = line["row"].as_object().unwrap();
        let values = row.values().map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let names = row.keys().cloned().collect::<Vec<_>>().join(",");
        let marks = vec!["?"; row.len()].join(",");
        let insert =
            format!("INSERT INTO {} ({names}) VALUES ({marks})", line["table"].as_str().unwrap());
        database.execute(&insert, rusqlite::params_from_iter(values)).unwrap();
    }
    path
}

fn lines(name: &str) -> Vec<Value> {
    recorded(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn its_database_tells_the_last_turn_with_the_call_that_was_running() {
    let home = tempfile::tempdir().unwrap();
    let world = World { home: home.path().to_owned(), ..World::default() };
    let cwd = Path::new("/home/u/repo");
    let history = |id| OpenCode.history(&world, cwd, id).unwrap();
    assert_eq!(history(KILLED), None);

    let all = ["rows-killed.jsonl", "rows-resumed.jsonl", "rows-compacted.jsonl"];
    let path = database(home.path(), &all);
    assert_eq!(history("ses_none"), None);

    let killed = history(KILLED).unwrap();
    let call = CallMade { id: "call_8d2332fc46980002_0".to_owned(), answered: false };
    let last = LastTurn {
        prompt: PROMPT.to_owned(),
        texts: vec!["I sleep.".to_owned()],
        calls: vec![call],
    };
    assert_eq!((killed.path, killed.prompts, killed.last), (path, 1, last));

    let resumed = history(RESUMED).unwrap();
    assert_eq!((resumed.prompts, &*resumed.last.prompt), (2, PROMPT));
    assert_eq!(resumed.last.texts, ["Hello from the scripted model."]);
    assert_eq!(resumed.last.calls, []);

    // What the program asked itself is no prompt, and its summary no text.
    let compacted = history(COMPACTED).unwrap();
    assert_eq!(compacted.prompts, 1);
    assert_eq!(compacted.last.texts, ["First part.", "Second part."]);
    assert!(compacted.last.calls[0].answered);
}

#[test]
fn a_database_that_is_none_is_an_error_and_not_an_absence() {
    let home = tempfile::tempdir().unwrap();
    let world = World { home: home.path().to_owned(), ..World::default() };
    let dir = home.path().join(".local/share/opencode");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("opencode.db"), "this is not a database, however long it is".repeat(100))
        .unwrap();
    assert!(OpenCode.history(&world, Path::new("/"), KILLED).is_err());
    assert_eq!(OpenCode.discover(&world, Path::new("/"), Timestamp::UNIX_EPOCH, "x"), None);
}

#[test]
fn a_lost_session_is_found_by_place_time_and_prompt_and_only_if_it_is_the_only_one() {
    let home = tempfile::tempdir().unwrap();
    let world = World { home: home.path().to_owned(), ..World::default() };
    database(home.path(), &["rows-killed.jsonl", "rows-resumed.jsonl"]);
    let repo = Path::new("/home/u/repo");
    let at = |ms| Timestamp::from_millisecond(ms).unwrap();
    let find = |cwd, since, prompt| OpenCode.discover(&world, cwd, at(since), prompt);
    // Both are of this place and prompt; only the second is as young.
    assert_eq!(find(repo, 1_794_788_300_000, PROMPT), None);
    assert_eq!(find(repo, 1_794_788_340_000, PROMPT), Some(RESUMED.to_owned()));
    assert_eq!(find(repo, 1_794_788_346_045, PROMPT), None);
    assert_eq!(find(Path::new("/home/u"), 1_794_788_340_000, PROMPT), None);
    assert_eq!(find(repo, 1_794_788_340_000, "Say"), None);
}

#[test]
fn its_arguments() {
    let world = World::default();
    let extra = ["--agent=mine".to_owned()];
    let call = |conversation, permission| {
        let model = Some("lab/m");
        OpenCode.call(&Job { conversation, permission, model, extra: &extra, ..job(&world) })
    };
    let new = call(Conversation::New { id: "x" }, Permission::Full);
    assert_eq!(new.shown(), "run --format json --thinking --auto -m lab/m --agent=mine");
    assert_eq!(new.env, []);
    let fork = call(Conversation::Fork { from: "ses_a", id: "x", at: None }, Permission::Edit);
    assert_eq!(fork.shown(), "run --format json --thinking -s ses_a --fork -m lab/m --agent=mine");
    let resume = call(Conversation::Resume { id: "ses_a" }, Permission::ReadOnly);
    assert_eq!(resume.shown(), "run --format json --thinking -s ses_a -m lab/m --agent=mine");

    let rules = |call: &segue_agents::vendor::Call| -> Value {
        assert_eq!(call.env[0].name, "OPENCODE_PERMISSION");
        // The general rule has to stand first.
        assert!(call.env[0].value.starts_with(r#"{"*":"deny","#));
        serde_json::from_str(&call.env[0].value).unwrap()
    };
    let edit = rules(&fork);
    assert_eq!((&edit["edit"], &edit["bash"]), (&"allow".into(), &"deny".into()));
    assert_eq!(edit["external_directory"], "deny");
    let look = rules(&resume);
    assert_eq!((&look["read"], &look["edit"]), (&"allow".into(), &"deny".into()));
    assert_eq!(look["bash"], "deny");

    let opening = OpenCode.dialogue(&job(&world)).open();
    assert_eq!((opening.bytes, opening.close), (PROMPT.as_bytes().to_vec(), true));
}

#[test]
fn the_real_program_is_found_behind_a_script_and_left_alone_where_it_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let package = dir.path().join("node_modules/opencode-ai");
    fs::create_dir_all(package.join("bin")).unwrap();
    fs::write(package.join("package.json"), r#"{"version":"1.18.33"}"#).unwrap();
    let program = package.join("bin/opencode");
    fs::write(&program, "#!/usr/bin/env node\n").unwrap();
    let found = || OpenCode.behind(Program::at(program.clone()));
    assert!(found().path.ends_with("opencode-ai/bin/opencode"));

    let arch = if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" };
    let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    for kind in ["-baseline", ""] {
        let name = format!("node_modules/opencode-{system}-{arch}{kind}/bin/opencode");
        let native = dir.path().join(name);
        fs::create_dir_all(native.parent().unwrap()).unwrap();
        fs::copy("/bin/true", &native).unwrap();
    }
    let native = found();
    assert!(native.path.to_string_lossy().contains("opencode-linux") || !cfg!(target_os = "linux"));
    assert_eq!(native.version.as_deref(), Some("1.18.33"));
    fs::copy("/bin/true", &program).unwrap();
    assert!(found().path.ends_with("opencode-ai/bin/opencode"));
}

#[test]
fn who_is_signed_in() {
    let home = tempfile::tempdir().unwrap();
    let world = World { home: home.path().to_owned(), ..World::default() };
    assert_eq!(OpenCode.signed_in(&world), SignIn::Unknown);
    let dir = home.path().join(".local/share/opencode");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("auth.json"), r#"{"anthropic":{"type":"api","key":"k"}}"#).unwrap();
    assert_eq!(OpenCode.signed_in(&world), SignIn::Yes("anthropic".to_owned()));
}
