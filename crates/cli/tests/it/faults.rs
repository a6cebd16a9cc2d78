//! Servers that limit, fail, fall silent or refuse: nothing half is kept, and all can go on.

use std::io::{BufRead, BufReader};

use insta::assert_snapshot;
use rustix::process::Signal;
use segue_testkit::{
    env::{Output, TestEnv},
    model_server::{Fault, ModelServer, Reply, Reset},
};
use serde_json::json;

use crate::support::{
    ANTHROPIC, CHAT, DONE, LONG, OPENAI, ask, data, finish, kinds, last_words, plain, scripted,
    segue, serve, show, signal, start, until, with_server,
};

const MODELS: [&str; 3] = [ANTHROPIC, OPENAI, CHAT];

/// Far enough away that it lies ahead of the machine's own clock.
const RESET: &str = "2039-01-01T02:00:00Z";
const BEFORE: &str = "2039-01-01T00:00:00Z";

fn reset() -> Option<Reset> {
    let at: jiff::Timestamp = RESET.parse().unwrap();
    Some(Reset::At(at.as_second()))
}

fn at(env: &TestEnv, server: &ModelServer, clock: &str, args: &[&str]) -> Output {
    Output::of(with_server(env, server, args).env("SEGUE_CLOCK", clock)).unwrap()
}

#[test]
fn a_limit_stops_and_the_same_turn_goes_on_when_it_is_over() {
    for model in [ANTHROPIC, OPENAI] {
        let (env, _) = scripted(DONE);
        let server = serve([
            Reply::tool("shell", json!({ "command": "echo 42" })),
            Reply::fault(Fault::UsageLimit { reset: reset() }),
        ]);
        let output = at(&env, &server, BEFORE, &["run", "Go", "--model", model]);
        assert_eq!((output.status, last_words(&output)), (3, "segue resume 1 --wait"), "{model}");
        assert!(output.stderr.contains("resets in 2 h"), "{model}: {}", output.stderr);
        let found = show(&env, "1");
        assert_eq!(
            (&found["status"], &found["next"]),
            (&"limit".into(), &"segue resume 1 --wait".into())
        );
        assert_eq!(found["stop"]["resets_at"], RESET, "{model}");
        assert_eq!(data(&env, 1, "limit.hit").len(), 1);
        // Still there: it stops again, in the same place.
        server.push(Reply::fault(Fault::UsageLimit { reset: reset() }));
        assert_eq!(at(&env, &server, BEFORE, &["resume", "1"]).status, 3);
        server.push(Reply::text("Done."));
        let output = at(&env, &server, RESET, &["resume", "1", "--wait"]);
        assert_eq!(
            (output.status, output.stdout.as_str()),
            (0, "Done.\n"),
            "{model}: {}",
            output.stderr
        );
        assert_eq!(data(&env, 1, "turn.started").len(), 1, "{model}: the same turn");
        let turns = server.turns();
        assert_eq!(turns.len(), 4);
        assert_eq!(turns[3].messages(), turns[1].messages(), "{model}: the same conversation");
        assert!(turns[3].texts()[1].contains("42"));
    }
}

#[test]
fn what_a_limit_looks_like() {
    let (env, _) = scripted(DONE);
    let server = serve([Reply::fault(Fault::UsageLimit { reset: reset() })]);
    let output = at(&env, &server, BEFORE, &["run", "Go", "--model", ANTHROPIC]);
    assert_snapshot!(plain(&env, &output), @"
    status 3
    ── stdout
    ── stderr
    ● session 1 · $DIR/home/sessions/repo-$HASH/$ULID
    ▸ turn 1 · native · Go
    ■ session 1 has stopped: limit reached: This request would exceed your account's rate limit. Please try again later. · 1 turn · 0 tokens · $0.00
      resets in 2 h
    segue resume 1 --wait
    ");
    let output = at(&env, &server, BEFORE, &["resume", "1", "--dry-run"]);
    assert_snapshot!(plain(&env, &output), @r#"
    status 0
    ── stdout
    ── stderr
    ↻ resume #1 "Go" · solo · native · stopped: limit reached: This request would exceed your account's rate limit. Please try again later, just now
      limit     resets in 2 h; --wait goes on then
      continue  turn 1, with model call 1 (anthropic/claude-sonnet-4-5)
      workspace $DIR/repo
      spend     0 tokens so far; $0.00; turn 1 of at most 50; wall clock starts again
    "#);
    let output = at(&env, &server, BEFORE, &["show", "1"]);
    let text = plain(&env, &output);
    let head: Vec<&str> = text.lines().take(8).collect();
    assert_snapshot!(head.join("\n"), @"
    status 0
    ── stdout
    #1  $ULID
    status     limit · now
               limit reached: This request would exceed your account's rate limit. Please try again
               later.
               resets in 2 h (2039-01-01 02:00 UTC)
    next       segue resume 1 --wait
    ");
}

#[test]
fn waiting_for_a_limit_can_be_ended() {
    let (env, _) = scripted(DONE);
    let server = serve([Reply::fault(Fault::UsageLimit { reset: reset() })]);
    assert_eq!(at(&env, &server, BEFORE, &["run", "Go", "--model", ANTHROPIC]).status, 3);
    let mut command = with_server(&env, &server, &["resume", "1", "--wait"]);
    let mut child = start(command.env("SEGUE_CLOCK", BEFORE));
    let mut printed = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("waiting") {
        line.clear();
        assert!(printed.read_line(&mut line).unwrap() > 0, "it did not wait");
    }
    signal(&child, Signal::INT);
    assert_eq!(finish(child).status, 130);
    assert_eq!(show(&env, "1")["status"], "limit");
    assert_eq!(server.turns().len(), 1);
}

#[test]
fn a_short_limit_and_a_failing_server_are_tried_again() {
    for (fault, name) in [
        (Fault::ServerError, "server"),
        (Fault::Overloaded, "overloaded"),
        (Fault::RateLimit { reset: Some(Reset::In(1)) }, "limit"),
        (Fault::cut(), "stream_cut"),
        (Fault::Cut { after: None, clean: true }, "stream_cut"),
        (Fault::StreamError { after: None }, "overloaded"),
    ] {
        let model = ANTHROPIC;
        let (env, _) = scripted(DONE);
        let half =
            Reply::text("Half of this is lost").and_tool("shell", json!({ "command": "touch no" }));
        let server = serve([half.failing(fault.clone()), Reply::text("Here I am.")]);
        let output = ask(&env, &server, &["run", "Go", "--model", model]);
        assert_eq!(
            (output.status, output.stdout.as_str()),
            (0, "Here I am.\n"),
            "{fault:?}: {}",
            output.stderr
        );
        let failed = data(&env, 1, "model.failed");
        assert_eq!(failed.len(), 1, "{fault:?}");
        assert_eq!(failed[0]["error"], name, "{fault:?}");
        assert!(failed[0]["retry_in_ms"].as_u64() > Some(0), "{fault:?}");
        let attempts: Vec<_> =
            data(&env, 1, "model.called").iter().map(|c| c["attempt"].clone()).collect();
        assert_eq!(attempts, [1, 2], "{fault:?}");
        // Nothing of the half answer is kept, and nothing of it was done.
        assert_eq!(data(&env, 1, "text.written").len(), 1, "{fault:?}");
        assert!(!kinds(&env, 1).iter().any(|kind| kind.starts_with("tool.")), "{fault:?}");
        assert!(!env.repo().join("no").exists());
    }
}

#[test]
fn a_cut_stream_is_told_apart_by_every_api() {
    for model in MODELS {
        for fault in [Fault::cut(), Fault::Cut { after: None, clean: true }] {
            let (env, _) = scripted(DONE);
            let server = serve([Reply::text("lost").failing(fault.clone()), Reply::text("Here.")]);
            let output = ask(&env, &server, &["run", "Go", "--model", model]);
            assert_eq!(
                (output.status, output.stdout.as_str()),
                (0, "Here.\n"),
                "{model} {fault:?}"
            );
            assert_eq!(
                data(&env, 1, "model.failed")[0]["error"],
                "stream_cut",
                "{model} {fault:?}"
            );
        }
    }
}

#[test]
fn a_server_that_keeps_failing_is_given_up_and_can_go_on() {
    let (env, _) = scripted(DONE);
    assert_eq!(segue(&env, &["config", "set", "native.attempts", "2"]).status, 0);
    let server = serve([Reply::fault(Fault::ServerError), Reply::fault(Fault::ServerError)]);
    let output = ask(&env, &server, &["run", "Go", "--model", ANTHROPIC]);
    assert_snapshot!(plain(&env, &output), @"
    status 3
    ── stdout
    ── stderr
    ● session 1 · $DIR/home/sessions/repo-$HASH/$ULID
    ▸ turn 1 · native · Go
      ⚠ the model's server failed (500): Internal server error · again in 0.5 s
      · asking anthropic/claude-sonnet-4-5, 1 message, attempt 2
    ■ session 1 has stopped: the model's server failed (500): Internal server error · 1 turn · 0 tokens · $0.00
      hint: the model's server is busy or failing: go on in a while
    segue resume 1
    ");
    assert_eq!(show(&env, "1")["status"], "overloaded");
    server.push(Reply::text("Back."));
    assert_eq!(ask(&env, &server, &["resume"]).stdout, "Back.\n");
    assert_eq!(data(&env, 1, "turn.started").len(), 1);
}

#[test]
fn no_server_at_all() {
    let (env, _) = scripted(DONE);
    let server = serve([]);
    let port = server.port().to_string();
    let url = server.url();
    drop(server);
    let mut command = env.command(["run", "Go", "--model", CHAT]);
    segue(&env, &["config", "set", "native.attempts", "1"]);
    let output = Output::of(command.env("SEGUE_CHAT_BASE_URL", url)).unwrap();
    assert_snapshot!(plain(&env, &output).replace(&port, "$PORT"), @"
    status 3
    ── stdout
    ── stderr
    ● session 1 · $DIR/home/sessions/repo-$HASH/$ULID
    ▸ turn 1 · native · Go
    ■ session 1 has stopped: cannot reach the model: 127.0.0.1: io: Connection refused (os error 111) · 1 turn · 0 tokens · $0.00
      hint: go on when the network is back
    segue resume 1
    ");
}

#[test]
fn a_silent_server_can_be_interrupted() {
    for fault in [Fault::hang(), Fault::Hang { after: Some(2) }] {
        let (env, _) = scripted(DONE);
        let server = serve([Reply::text("Half of it").failing(fault.clone())]);
        let child = start(&mut with_server(&env, &server, &["run", "Go", "--model", ANTHROPIC]));
        server.wait_for_turns(1, LONG).unwrap();
        until("the call", || crate::support::has(&env, 1, "model.called"));
        signal(&child, Signal::INT);
        let output = finish(child);
        assert_eq!((output.status, last_words(&output)), (130, "segue resume 1"), "{fault:?}");
        assert_eq!(output.stdout, "", "{fault:?}: a half answer is no result");
        server.push(Reply::text("All of it."));
        let output = ask(&env, &server, &["resume", "1"]);
        assert_eq!(output.stdout, "All of it.\n", "{fault:?}: {}", output.stderr);
        assert_eq!(data(&env, 1, "text.written").len(), 1, "{fault:?}");
    }
}

#[test]
fn a_server_that_stays_silent_has_cut_the_stream() {
    let (env, _) = scripted(DONE);
    segue(&env, &["config", "set", "native.idle_timeout", "1s"]);
    let hang = Fault::Hang { after: Some(2) };
    let server = serve([Reply::text("Half of it").failing(hang), Reply::text("All of it.")]);
    let output = ask(&env, &server, &["run", "Go", "--model", ANTHROPIC]);
    assert_eq!(output.stdout, "All of it.\n", "{}", output.stderr);
    assert_eq!(data(&env, 1, "model.failed")[0]["error"], "stream_cut");
}

#[test]
fn a_key_that_is_refused_is_said_with_what_helps() {
    for model in MODELS {
        let (env, _) = scripted(DONE);
        let server = serve([Reply::fault(Fault::Unauthorized)]);
        let output = ask(&env, &server, &["run", "Go", "--model", model]);
        assert_eq!((output.status, last_words(&output)), (1, "segue resume 1"), "{model}");
        let variable = if model == ANTHROPIC { "ANTHROPIC_API_KEY" } else { "OPENAI_API_KEY" };
        let hint = format!("hint: set {variable} to a valid key");
        assert_eq!(output.stderr.matches(&hint).count(), 1, "{model}: {}", output.stderr);
        assert_eq!(server.turns().len(), 1, "{model}: it does not help to try again");
        assert_eq!(show(&env, "1")["status"], "not_signed_in");
        server.push(Reply::text("Now."));
        assert_eq!(ask(&env, &server, &["resume", "1"]).stdout, "Now.\n");
    }
}

/// Three exchanges before the one that is too long.
fn long_conversation(last: impl IntoIterator<Item = Reply>) -> ModelServer {
    let read =
        |text: &str| Reply::text(text).and_tool("shell", json!({ "command": "echo some words" }));
    let first = ["one", "two", "three"].map(read);
    serve(first.into_iter().chain(last))
}

#[test]
fn a_conversation_that_is_too_long_is_shortened() {
    for model in MODELS {
        let (env, _) = scripted(DONE);
        let server =
            long_conversation([Reply::fault(Fault::ContextExhausted), Reply::text("Fits.")]);
        let output = ask(&env, &server, &["run", "The objective", "--model", model]);
        assert_eq!(output.stdout.lines().last(), Some("Fits."), "{model}: {}", output.stderr);
        let turns = server.turns();
        let (before, after) = (turns[3].texts(), turns[4].texts());
        assert!(after.len() < before.len(), "{model}: {after:?}");
        assert!(after[0].starts_with("The objective"), "{model}: {after:?}");
        assert!(after[0].contains("left out"), "{model}: {after:?}");
        assert_eq!(after.last(), before.last(), "{model}");
    }
}

#[test]
fn a_conversation_that_never_fits_comes_to_an_end() {
    let (env, _) = scripted(DONE);
    let server = long_conversation([Reply::fault(Fault::ContextExhausted).sticky()]);
    let mut command = with_server(&env, &server, &["run", "Go", "--model", ANTHROPIC]);
    let output = Output::of(&mut command).unwrap();
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(show(&env, "1")["status"], "context_full");
    assert!(server.turns().len() < 10, "{} calls", server.turns().len());
}
