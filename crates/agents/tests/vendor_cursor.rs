//! Cursor CLI: what its documentation says that it prints, and what we make of it.
//!
//! The program could not be had. The stream is written by hand after the documentation, and what is
//! driven here is a stand-in that speaks the documented format (`crates/testkit/assets`). None of
//! this proves anything about Cursor's own program.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail like tests")]

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use segue_agents::vendor::{
    Conversation, Ending, Heard, Job, SignIn, Signal, ToolEnd, Trouble, Vendor, World,
    cursor::Cursor,
};
use segue_core::{Permission, usage::Usage};
use tempfile::TempDir;

const SESSION: &str = "c6b62c6f-7ead-4fd6-9922-e952131177ff";
const PROMPT: &str = "Say \"hello\" in\n  two lines, ünï €\n\n";

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

fn text(text: &str) -> Signal {
    Signal::Text(text.to_owned())
}

fn hear(job: &Job<'_>, stdout: &str, stderr: &str) -> Vec<Signal> {
    let mut dialogue = Cursor.dialogue(job);
    let mut heard = Heard::default();
    stdout.lines().for_each(|line| dialogue.line(line.as_bytes(), &mut heard).unwrap());
    stderr.lines().for_each(|line| dialogue.error_line(line, &mut heard));
    dialogue.exited(None, &mut heard);
    heard.signals
}

#[test]
fn a_documented_turn() {
    let world = World::default();
    let called = |id: &str, name: &str, input: &str| Signal::ToolCalled {
        id: id.to_owned(),
        name: name.to_owned(),
        input: input.to_owned(),
    };
    let mut made = ToolEnd::new("toolu_3\nfc_3", false, "no rule\n");
    made.exit = Some(2);
    let usage = Usage { input: 10, output: 20, cache_read: 30, cache_write: 40, reasoning: 0 };
    let expected = [
        Signal::Session(SESSION.to_owned()),
        Signal::Model("Claude 4 Sonnet".to_owned()),
        Signal::Thinking,
        Signal::Thinking,
        Signal::Thought("First read.".to_owned()),
        text("I'll read the README.md file"),
        called("toolu_1", "read", r#"{"path":"README.md"}"#),
        Signal::ToolReturned(ToolEnd::new("toolu_1", true, "# Project\n")),
        called(
            "toolu_2",
            "write",
            r#"{"fileText":"A project.\n","path":"summary.txt","toolCallId":"toolu_2"}"#,
        ),
        Signal::ToolReturned(
            ToolEnd::new(
                "toolu_2",
                true,
                r#"{"fileSize":11,"linesCreated":1,"path":"/home/u/repo/summary.txt"}"#,
            )
            .touching(["summary.txt".to_owned()]),
        ),
        called("toolu_3\nfc_3", "shell", r#"{"command":"make","timeout":30000}"#),
        Signal::ToolReturned(made),
        called("toolu_4", "look", r#"{"at":1}"#),
        text("Done!"),
        Signal::Used { model: None, usage, cost: None },
        Signal::Ended(Ending::Finished),
    ];
    let stream = include_str!("streams/cursor/documented.jsonl");
    assert_eq!(hear(&job(&world), stream, ""), expected);
}

#[test]
fn a_failure_is_told_on_standard_error_and_a_stream_without_its_end_has_none() {
    let world = World::default();
    let first = include_str!("streams/cursor/documented.jsonl").lines().next().unwrap();
    let end = |stderr: &str| match hear(&job(&world), first, stderr).pop() {
        Some(Signal::Ended(Ending::Failed(trouble))) => Some(trouble),
        _ => None,
    };
    assert_eq!(end(""), None);
    assert_eq!(end("(node:1) Warning: something"), None);
    assert_eq!(end("the model said: Error: You've hit your usage limit"), None);
    let spent = "Error: You've hit your usage limit\n  Get Cursor Pro for more Agent usage.\n  \
                 chatMessage: *Your usage limits will reset when your monthly cycle ends on \
                 10/2/2026.*";
    let limit = Trouble::Limit {
        message: "Error: You've hit your usage limit".to_owned(),
        resets_at: Some("2026-10-02T00:00:00Z".parse().unwrap()),
        retry_after: None,
        quota: true,
    };
    assert_eq!(end(spent), Some(limit));
    let is = |line: &str, want: fn(&Trouble) -> bool| {
        let trouble = end(line);
        assert!(trouble.as_ref().is_some_and(want), "{line}: {trouble:?}");
    };
    is("ConnectError: [resource_exhausted] Error", |trouble| {
        matches!(trouble, Trouble::Limit { quota: false, .. })
    });
    is("T: [unavailable] connect ECONNREFUSED", |t| matches!(t, Trouble::Network(_)));
    is("T: [unauthenticated] Error", |t| matches!(t, Trouble::NotSignedIn { .. }));
    is(
        "Error: Authentication required. Please run 'agent login' first",
        |trouble| matches!(trouble, Trouble::NotSignedIn { fix, .. } if fix == "cursor-agent login"),
    );
    is("T: [internal] x", |t| matches!(t, Trouble::Server { .. }));
    is("T: [aborted] x", |t| matches!(t, Trouble::StreamCut(_)));

    let line =
        r#"{"type":"result","subtype":"error","is_error":true,"result":"no","session_id":"s"}"#;
    let message = "no".to_owned();
    let failed = Signal::Ended(Ending::Failed(Trouble::BadRequest { status: 0, message }));
    assert_eq!(hear(&job(&world), line, "").pop(), Some(failed));
    let mut dialogue = Cursor.dialogue(&job(&world));
    assert!(dialogue.line(b"T: [internal] x", &mut Heard::default()).is_err());
    assert!(Cursor.history(&world, Path::new("/"), "x").is_err());
}

#[test]
fn its_arguments() {
    let world = World::default();
    let extra = ["--approve-mcps".to_owned()];
    let call = |conversation, permission| {
        let model = Some("auto");
        Cursor.call(&Job { conversation, permission, model, extra: &extra, ..job(&world) }).shown()
    };
    let start = "-p --output-format stream-json --trust";
    let end = "--model auto --approve-mcps";
    assert_eq!(call(Conversation::New { id: "x" }, Permission::Edit), format!("{start} {end}"));
    assert_eq!(
        call(Conversation::Resume { id: "a" }, Permission::Full),
        format!("{start} --resume a --force {end}")
    );
    assert_eq!(
        call(Conversation::New { id: "x" }, Permission::ReadOnly),
        format!("{start} --mode ask {end}")
    );
    assert_eq!(Cursor.card().tested, None);
    assert_eq!(Cursor.signed_in(&world), SignIn::Unknown);
}

/// A home and a place to work in for the stand-in.
struct StandIn {
    dir: TempDir,
    world: World,
}

impl StandIn {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("repo")).unwrap();
        let world = World { home: dir.path().to_owned(), ..World::default() };
        Self { dir, world }
    }

    fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    /// One turn as the runner would do it.
    fn turn(&self, job: &Job<'_>, script: &str) -> Vec<Signal> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/assets/cursor-agent");
        let mut child = Command::new(program)
            .args(Cursor.call(job).args)
            .current_dir(self.repo())
            .env("HOME", self.dir.path())
            .env("CURSOR_STAND_IN_SCRIPT", script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("python3");
        let opening = Cursor.dialogue(job).open();
        // One that has ended already does not read.
        let _ = child.stdin.take().unwrap().write_all(&opening.bytes);
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        hear(job, &text(output.stdout), &text(output.stderr))
    }
}

fn session(signals: &[Signal]) -> String {
    let id = signals.iter().find_map(|signal| match signal {
        Signal::Session(id) => Some(id.clone()),
        _ => None,
    });
    id.expect("a session")
}

#[test]
fn the_stand_in_remembers_what_it_was_told_byte_for_byte() {
    let place = StandIn::new();
    let first = place.turn(&job(&place.world), "text Hello.");
    assert_eq!(first[2..], [text("Hello."), Signal::Ended(Ending::Finished)]);
    let id = session(&first);
    let conversation = Conversation::Resume { id: &id };
    let again = Job { prompt: "echo", conversation, ..job(&place.world) };
    let second = place.turn(&again, "");
    assert_eq!(session(&second), id);
    let said = serde_json::to_string(&[PROMPT, "echo"]).unwrap().replace(",\"", ", \"");
    assert_eq!(second[2..], [text(&said), Signal::Ended(Ending::Finished)]);
    // A new one knows nothing of it.
    let other = place.turn(&Job { prompt: "echo", ..job(&place.world) }, "");
    assert_ne!(session(&other), id);
    assert_eq!(other[2], text("[\"echo\"]"));
}

#[test]
fn the_stand_in_does_what_each_permission_lets_it() {
    let script = "write a.txt hi\nshell echo b > b.txt\ntext Done.";
    let did = |permission| {
        let place = StandIn::new();
        let signals = place.turn(&Job { permission, ..job(&place.world) }, script);
        assert_eq!(signals.last(), Some(&Signal::Ended(Ending::Finished)), "{signals:?}");
        let ends = signals.iter().filter_map(|signal| match signal {
            Signal::ToolReturned(end) => Some((format!("{:?}", end.status), end.touched.len())),
            _ => None,
        });
        let told: Vec<_> = ends.collect();
        let made = ["a.txt", "b.txt"].map(|name| place.repo().join(name).exists());
        (made, told)
    };
    let (done, failed) = ("Done".to_owned(), "Failed".to_owned());
    let refused = (failed, 0);
    assert_eq!(did(Permission::ReadOnly), ([false; 2], vec![refused.clone(), refused.clone()]));
    assert_eq!(did(Permission::Edit), ([true, false], vec![(done.clone(), 1), refused]));
    assert_eq!(did(Permission::Full), ([true; 2], vec![(done.clone(), 1), (done, 0)]));
}

#[test]
fn the_stand_in_fails_in_the_documented_way() {
    let place = StandIn::new();
    let end = |script| match place.turn(&job(&place.world), script).pop() {
        Some(Signal::Ended(Ending::Failed(trouble))) => trouble,
        other => panic!("{other:?}"),
    };
    // One script with a turn each; the stand-in counts the turns.
    let script = "text Half\ncut\n---\nlimit\n---\nerror unavailable no network";
    assert!(matches!(end(script), Trouble::StreamCut(_)));
    assert!(matches!(end(script), Trouble::Limit { quota: true, resets_at: Some(_), .. }));
    assert!(matches!(end(script), Trouble::Network(_)));
}

#[test]
fn pieces_are_for_the_eye_and_the_whole_comes_once() {
    let place = StandIn::new();
    let extra = ["--stream-partial-output".to_owned()];
    let job = Job { extra: &extra, ..job(&place.world) };
    let signals = place.turn(&job, "text First.\nshell true\ntext Last.");
    let writing = |text: &str| Signal::Writing(text.to_owned());
    let kept = |signal: &Signal| matches!(signal, Signal::Writing(_) | Signal::Text(_));
    let seen: Vec<_> = signals.into_iter().filter(kept).collect();
    let expected = [
        writing("Fir"),
        writing("st."),
        text("First."),
        writing("La"),
        writing("st."),
        text("Last."),
    ];
    assert_eq!(seen, expected);
}
