//! GitHub Copilot CLI 1.0.102: what it really printed and wrote, and what we make of it.
//!
//! The streams were recorded from the real program against the scripted model server; ids and
//! measurements that nobody reads were left out. Of the retries only the first and the last are kept.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail like tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use segue_agents::vendor::{
    Call, CallMade, Conversation, Ending, Heard, Job, LastTurn, Program, SignIn, Signal, ToolEnd,
    Trouble, Vendor, World, copilot::Copilot,
};
use segue_core::{Permission, usage::Usage};

const ID: &str = "11111111-1111-4111-8111-111111111154";
const PROMPT: &str = "Say \"hello\" in\n  two lines, ünï €\n\n";
const MODEL: &str = "scripted-model";

fn recorded(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams/copilot");
    fs::read(dir.join(name)).expect("a recorded stream")
}

fn world(home: &Path) -> World {
    World { home: home.to_owned(), ..World::default() }
}

fn job<'a>(world: &'a World, conversation: Conversation<'a>) -> Job<'a> {
    Job {
        prompt: PROMPT,
        cwd: Path::new("/home/u/repo"),
        conversation,
        permission: Permission::Edit,
        model: None,
        extra: &[],
        world,
        files: Path::new("files"),
        tools: None,
    }
}

/// Where it keeps its session, with what it wrote there.
fn keep(home: &Path, events: &[u8]) -> PathBuf {
    let dir = home.join(".copilot/session-state").join(ID);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("events.jsonl"), events).unwrap();
    dir.join("events.jsonl")
}

/// All that a stream means, from its first line to the program's end.
fn hear(name: &str) -> Vec<Signal> {
    let world = World::default();
    let mut dialogue = Copilot.dialogue(&job(&world, Conversation::New { id: ID }));
    let mut heard = Heard::default();
    for line in recorded(name).split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        dialogue.line(line, &mut heard).expect("a line of its format");
    }
    dialogue.exited(Some(0), &mut heard);
    heard.signals
}

/// Without the pieces and the model's name, which are the same everywhere.
fn gist(name: &str) -> Vec<Signal> {
    let small = |signal: &Signal| {
        !matches!(signal, Signal::Writing(_) | Signal::Thinking | Signal::Model(_))
    };
    hear(name).into_iter().filter(small).collect()
}

fn session(number: u32) -> Signal {
    Signal::Session(format!("11111111-1111-4111-8111-111111111{number}"))
}

fn text(text: &str) -> Signal {
    Signal::Text(text.to_owned())
}

fn failed(trouble: Trouble) -> Signal {
    Signal::Ended(Ending::Failed(trouble))
}

fn after(message: &str, last: &str) -> String {
    format!(
        "Failed to get response from the AI model; retried 5 times ({message}) Last error: {last}"
    )
}

#[test]
fn a_plain_answer() {
    let writing = |text: &str| Signal::Writing(text.to_owned());
    let expected = [
        Signal::Model(MODEL.to_owned()),
        writing("Hello from the "),
        writing("scripted model."),
        text("Hello from the scripted model."),
        session(111),
        Signal::Ended(Ending::Finished),
    ];
    assert_eq!(hear("text.jsonl"), expected);
}

#[test]
fn tools_that_write_a_file_and_run_a_command() {
    let write = "call_906316afa7d40001_0";
    let run = "call_906316afa7d40002_0";
    let mut ran = ToolEnd::new(run, true, "out\n<shellId: 0 completed with exit code 3>");
    ran.exit = Some(3);
    let expected = [
        Signal::Thought("I should write.".to_owned()),
        text("I will write a file."),
        Signal::ToolCalled {
            id: write.to_owned(),
            name: "create".to_owned(),
            input: r#"{"file_text":"hi\n","path":"/home/u/repo/a.txt"}"#.to_owned(),
        },
        Signal::ToolReturned(
            ToolEnd::new(write, true, "Created file /home/u/repo/a.txt with 3 characters")
                .touching(["/home/u/repo/a.txt".to_owned()]),
        ),
        text("Now a command."),
        Signal::ToolCalled {
            id: run.to_owned(),
            name: "bash".to_owned(),
            input: r#"{"command":"echo out; echo sh > /home/u/repo/b.txt; exit 3","description":"run"}"#
                .to_owned(),
        },
        Signal::ToolReturned(ran),
        text("Done."),
        session(111),
        Signal::Ended(Ending::Finished),
    ];
    assert_eq!(gist("tools.jsonl"), expected);
}

#[test]
fn a_tool_that_was_not_permitted_fails_and_the_turn_goes_on() {
    let signals = gist("denied.jsonl");
    let ends: Vec<_> = signals
        .iter()
        .filter_map(|signal| match signal {
            Signal::ToolReturned(end) => Some((end.status, &*end.output, end.touched.len())),
            _ => None,
        })
        .collect();
    let [written, refused] = ends[..] else { panic!("{signals:?}") };
    assert_eq!(written.2, 1);
    assert_eq!(
        (format!("{:?}", refused.0), refused.1, refused.2),
        (
            "Failed".to_owned(),
            "Permission to run this tool was denied due to the following rules: `shell`",
            0
        )
    );
    assert_eq!(signals.last(), Some(&Signal::Ended(Ending::Finished)));
}

#[test]
fn a_rate_limit_and_a_spent_quota_are_told_apart() {
    let limit = |message: String, quota| Trouble::Limit {
        message,
        resets_at: None,
        retry_after: None,
        quota,
    };
    let retrying = |trouble| Signal::Retrying { trouble, wait: None };
    let rate = "Rate limit reached for scripted-model on requests per min (RPM): Limit 3, Used 3, \
                Requested 1. Please try again in 1s.";
    let last = after("total retry wait time: 5.62 seconds", &format!("429 {rate}"));
    let expected =
        [retrying(limit(rate.to_owned(), false)), session(112), failed(limit(last, false))];
    assert_eq!(gist("rate-limit.jsonl"), expected);

    let quota = "You exceeded your current quota, please check your plan and billing details.";
    let last = after("total retry wait time: 50.29 seconds", &format!("429 {quota}"));
    let expected =
        [retrying(limit(quota.to_owned(), true)), session(113), failed(limit(last, true))];
    assert_eq!(gist("quota.jsonl"), expected);
}

#[test]
fn what_is_wrong_with_the_server_is_told_by_its_status() {
    let ending = |name: &str| gist(name).pop();
    let is = |name: &str, want: fn(&Trouble) -> bool| match ending(name) {
        Some(Signal::Ended(Ending::Failed(trouble))) => assert!(want(&trouble), "{trouble:?}"),
        other => panic!("{name}: {other:?}"),
    };
    is("server-error.jsonl", |trouble| matches!(trouble, Trouble::Server { status: 500, .. }));
    is("overloaded.jsonl", |trouble| matches!(trouble, Trouble::Overloaded { .. }));
    is("context.jsonl", |trouble| matches!(trouble, Trouble::ContextExhausted(_)));
    is(
        "unauthorized.jsonl",
        |trouble| matches!(trouble, Trouble::NotSignedIn { fix, .. } if fix == "copilot login"),
    );
    is("cut.jsonl", |trouble| matches!(trouble, Trouble::StreamCut(_)));
    is("no-server.jsonl", |trouble| matches!(trouble, Trouble::Network(_)));
}

#[test]
fn a_text_that_was_cut_and_tried_again_comes_once() {
    let cut = "Failed native model HTTP request: error decoding response body: error reading a \
               body from connection: unexpected EOF during chunk size line";
    let trouble = Trouble::StreamCut(cut.to_owned());
    let expected = [
        Signal::Retrying { trouble, wait: None },
        text("Hello from the scripted model, which is long enough to be cut."),
        session(121),
        Signal::Ended(Ending::Finished),
    ];
    assert_eq!(gist("cut-once.jsonl"), expected);
}

#[test]
fn an_interrupted_turn_is_cancelled_with_and_without_its_last_line() {
    assert_eq!(gist("interrupted.jsonl"), [Signal::Ended(Ending::Cancelled)]);
    let signals = gist("interrupted-tool.jsonl");
    assert!(matches!(signals[1], Signal::ToolCalled { .. }), "{signals:?}");
    assert_eq!(signals[2..], [session(153), Signal::Ended(Ending::Cancelled)]);
}

#[test]
fn a_broken_call_of_the_run_before_is_not_told_again() {
    let signals = gist("resumed.jsonl");
    assert!(matches!(signals[0], Signal::Notice(_)), "{signals:?}");
    let rest =
        [text("Hello from the scripted model."), session(154), Signal::Ended(Ending::Finished)];
    assert_eq!(signals[1..], rest);
}

#[test]
fn tokens_are_read_from_its_file_and_only_those_of_this_run() {
    let home = tempfile::tempdir().unwrap();
    let world = world(home.path());
    let all = recorded("events-resumed.jsonl");
    let path = keep(home.path(), &recorded("events-killed.jsonl"));
    let mut dialogue = Copilot.dialogue(&job(&world, Conversation::Resume { id: ID }));
    // A torn last line is read when it is whole.
    let cut = all.len() - 20;
    fs::write(&path, &all[..cut]).unwrap();
    let mut heard = Heard::default();
    let stream = recorded("resumed.jsonl");
    for line in stream.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        dialogue.line(line, &mut heard).unwrap();
    }
    fs::write(&path, &all).unwrap();
    dialogue.exited(Some(0), &mut heard);
    let used: Vec<_> =
        heard.signals.iter().filter(|signal| matches!(signal, Signal::Used { .. })).collect();
    let usage = Usage { input: 100, output: 7, cache_read: 30, cache_write: 0, reasoning: 5 };
    assert_eq!(used, [&Signal::Used { model: Some(MODEL.to_owned()), usage, cost: None }]);
}

#[test]
fn an_answer_that_a_filter_held_back_is_a_refusal() {
    let home = tempfile::tempdir().unwrap();
    let world = world(home.path());
    let mut dialogue = Copilot.dialogue(&job(&world, Conversation::New { id: ID }));
    keep(home.path(), &recorded("events-refused.jsonl"));
    let mut heard = Heard::default();
    let line = br#"{"type":"result","sessionId":"s","exitCode":0,"usage":{}}"#;
    dialogue.line(line, &mut heard).unwrap();
    assert_eq!(heard.signals.last(), Some(&Signal::Ended(Ending::Refused)));
}

/// Written by hand from the schema that comes with the program: GitHub's own limits could not be
/// had.
#[test]
fn the_allowance_at_github_is_told_with_its_end() {
    let world = World::default();
    let mut dialogue = Copilot.dialogue(&job(&world, Conversation::New { id: ID }));
    let mut heard = Heard::default();
    let lines = [
        r#"{"type":"model.call_failure","data":{"statusCode":402,"failureKind":"api","errorCode":"quota_exceeded","source":"top_level","errorMessage":"\"spent\"","quotaSnapshots":{"premium_interactions":{"hasQuota":false,"remainingPercentage":0,"resetDate":"2026-12-01"}}}}"#,
        r#"{"type":"session.error","data":{"errorType":"quota","errorCode":"quota_exceeded","statusCode":402,"message":"spent"}}"#,
        r#"{"type":"result","sessionId":"s","exitCode":1,"usage":{}}"#,
    ];
    for line in lines {
        dialogue.line(line.as_bytes(), &mut heard).unwrap();
    }
    let resets_at = Some("2026-12-01T00:00:00Z".parse().unwrap());
    let expected = [
        Signal::Quota {
            window: "premium_interactions".to_owned(),
            used_percent: Some(100),
            resets_at,
        },
        Signal::Session("s".to_owned()),
        failed(Trouble::Limit {
            message: "spent".to_owned(),
            resets_at,
            retry_after: None,
            quota: true,
        }),
    ];
    assert_eq!(heard.signals, expected);
}

#[test]
fn what_it_says_before_it_has_a_session() {
    let world = World::default();
    let end = |line: &str| {
        let mut dialogue = Copilot.dialogue(&job(&world, Conversation::New { id: ID }));
        let mut heard = Heard::default();
        dialogue.error_line(line, &mut heard);
        dialogue.exited(Some(1), &mut heard);
        heard.signals
    };
    let message = "Error: No authentication information found.".to_owned();
    let fix = "copilot login".to_owned();
    assert_eq!(end(&message.clone()), [failed(Trouble::NotSignedIn { message, fix })]);
    assert_eq!(end("Something else."), []);
    // Too long by its own count, for which it has no code.
    let mut dialogue = Copilot.dialogue(&job(&world, Conversation::New { id: ID }));
    let mut heard = Heard::default();
    let line = br#"{"type":"session.error","data":{"errorType":"query","message":"Request exceeds the model's prompt budget after reserving output (2429380 tokens; limit 128000). Reduce context or compact before continuing."}}"#;
    dialogue.line(line, &mut heard).unwrap();
    dialogue.exited(Some(1), &mut heard);
    let ended = heard.signals.pop();
    assert!(
        matches!(ended, Some(Signal::Ended(Ending::Failed(Trouble::ContextExhausted(_))))),
        "{ended:?}"
    );
    // What is not JSON is not its format.
    assert!(dialogue.line(b"Loading...", &mut heard).is_err());
}

#[test]
fn its_file_tells_the_last_turn_with_the_call_that_was_running() {
    let home = tempfile::tempdir().unwrap();
    let world = world(home.path());
    let cwd = Path::new("/home/u/repo");
    assert_eq!(Copilot.history(&world, cwd, ID).unwrap(), None);

    let path = keep(home.path(), &recorded("events-killed.jsonl"));
    let history = Copilot.history(&world, cwd, ID).unwrap().unwrap();
    let call = CallMade { id: "call_8c7d1b1c37770001_0".to_owned(), answered: false };
    let last = LastTurn {
        prompt: PROMPT.to_owned(),
        texts: vec!["I sleep.".to_owned()],
        calls: vec![call.clone()],
    };
    assert_eq!((history.path, history.prompts, history.last), (path.clone(), 1, last));

    // The first lines of the resume, up to its new prompt: the call has got an answer.
    let resumed = recorded("events-resumed.jsonl");
    let lines: Vec<&[u8]> = resumed.split_inclusive(|byte| *byte == b'\n').collect();
    fs::write(&path, [&lines[..11].concat()[..], br#"{"type":"user.mess"#].concat()).unwrap();
    let last = Copilot.history(&world, cwd, ID).unwrap().unwrap().last;
    assert_eq!(last.calls, [CallMade { answered: true, ..call }]);

    fs::write(&path, &resumed).unwrap();
    let history = Copilot.history(&world, cwd, ID).unwrap().unwrap();
    assert_eq!(history.prompts, 2);
    assert_eq!(history.last.texts, ["Hello from the scripted model."]);
    assert_eq!(history.last.calls, []);
}

#[test]
fn its_arguments() {
    let world = World::default();
    let call = |conversation, permission| -> Call {
        let extra = ["--agent=mine".to_owned()];
        let model = Some("gpt-5");
        Copilot.call(&Job { permission, model, extra: &extra, ..job(&world, conversation) })
    };
    let start = "--output-format json --no-color --no-ask-user --no-auto-update";
    let end = "--model gpt-5 --agent=mine";
    let new = call(Conversation::New { id: "a" }, Permission::Edit);
    assert_eq!(
        new.shown(),
        format!(
            "{start} --session-id a --allow-tool=write --deny-tool=shell --disallow-temp-dir {end}"
        )
    );
    assert!(new.env.iter().any(|set| set.name == "COPILOT_ALLOW_ALL" && set.value == "false"));
    let resumed = call(Conversation::Resume { id: "a" }, Permission::Full);
    assert_eq!(resumed.shown(), format!("{start} --resume=a -C /home/u/repo --allow-all {end}"));
    assert_eq!(resumed.env, []);
    let looking = call(Conversation::New { id: "a" }, Permission::ReadOnly);
    assert!(looking.shown().contains("--deny-tool=write --deny-tool=shell"));
    assert!(!looking.shown().contains("--allow"));
    // The prompt goes by its standard input.
    let opening = Copilot.dialogue(&job(&world, Conversation::New { id: "a" })).open();
    assert_eq!((opening.bytes, opening.close), (PROMPT.as_bytes().to_vec(), true));
    assert_eq!(new.prompt_at, None);
}

#[test]
fn the_real_program_is_found_behind_the_loader() {
    let dir = tempfile::tempdir().unwrap();
    let modules = dir.path().join("node_modules/@github");
    let package = modules.join("copilot");
    let arch = if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" };
    let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let beside = modules.join(format!("copilot-{system}-{arch}/copilot"));
    let inside = package.join(format!("node_modules/@github/copilot-{system}-{arch}/copilot"));
    fs::create_dir_all(&package).unwrap();
    fs::write(package.join("package.json"), r#"{"version":"1.0.102"}"#).unwrap();
    fs::write(package.join("npm-loader.js"), "").unwrap();
    let found = || Copilot.behind(Program::at(package.join("npm-loader.js")));
    assert!(found().path.ends_with("npm-loader.js"));
    for native in [&inside, &beside] {
        fs::create_dir_all(native.parent().unwrap()).unwrap();
        fs::copy("/bin/true", native).unwrap();
        let program = found();
        assert_eq!(&program.path, native);
        assert_eq!(program.version.as_deref(), Some("1.0.102"));
    }
}

#[test]
fn who_is_signed_in() {
    let home = tempfile::tempdir().unwrap();
    let mut world = world(home.path());
    assert_eq!(Copilot.signed_in(&world), SignIn::No);
    fs::create_dir_all(home.path().join(".copilot")).unwrap();
    let config = "// managed\n{\"firstLaunchAt\":\"x\",\"lastLoggedInUser\":{\"login\":\"u\"}}";
    fs::write(home.path().join(".copilot/config.json"), config).unwrap();
    assert_eq!(Copilot.signed_in(&world), SignIn::Yes("github.com".to_owned()));
    world.env.insert("GH_TOKEN".to_owned(), "t".to_owned());
    assert_eq!(Copilot.signed_in(&world), SignIn::Yes("GH_TOKEN".to_owned()));
}
