//! One agent stops and another goes on: after a limit, when it is asked for, after a crash.

use std::fs;

use rustix::process::Signal;
use segue_testkit::{
    env::{Output, TestEnv},
    model_server::Reply,
};
use serde_json::{Value, json};

use crate::{
    stand_ins,
    support::{
        ANTHROPIC, DONE, SLOW_TOOL, TURNS, WORK, ask, data, finish, has, kinds, last_told,
        last_words, packet, scripted_in_git, segue, serve, show, signal, start, start_slow_tool,
        two_turns, until,
    },
};

/// A command that keeps what it is told, and says what it did.
const OTHER: &str = "exec:cat > told.txt; echo The other did it.";

fn limited(env: &TestEnv) {
    fs::write(env.path("busy"), "").unwrap();
}

fn told(env: &TestEnv) -> String {
    fs::read_to_string(env.repo().join("told.txt")).unwrap()
}

/// Segue, some hours later.
fn later(env: &TestEnv, args: &[&str]) -> Output {
    let mut command = env.command(args);
    Output::of(command.env("SEGUE_CLOCK", "2026-11-15T21:00:00Z")).unwrap()
}

#[test]
fn a_limit_without_a_fallback_stops_and_says_how_to_go_on() {
    let (env, model) = scripted_in_git(TURNS);
    limited(&env);
    let output = segue(&env, &["run", "Do one", "--model", &model]);
    assert_eq!((output.status, output.stdout.as_str()), (3, "I begin.\n"));
    assert_eq!(last_words(&output), "segue resume 1 --wait");
    assert_eq!(show(&env, "1")["status"], "limit");
    assert_eq!(packet(&env, 1)["checkpoint_reason"], "limit");
    // Too early, and nothing is tried.
    let before = kinds(&env, 1).len();
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 3);
    assert!(output.stderr.contains("the limit of native resets in 2 h"), "{}", output.stderr);
    assert_eq!(kinds(&env, 1).len(), before);
    // When it is over, the turn goes on where it was.
    fs::remove_file(env.path("busy")).unwrap();
    let output = later(&env, &["resume", "1"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "Turn 1 is done.\n"));
}

#[test]
fn the_first_of_the_fallbacks_that_can_goes_on_and_it_is_said_why_the_others_do_not() {
    let (env, model) = scripted_in_git(TURNS);
    limited(&env);
    let list = format!("native,exec:/nowhere/agent,{OTHER},exec:touch never.txt");
    let output = segue(&env, &["run", "Do one", "--model", &model, "--fallback", &list]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(output.stdout, "I begin.\nThe other did it.\n");
    let changed = data(&env, 1, "agent.changed");
    assert_eq!(changed.len(), 1);
    assert_eq!((&changed[0]["from"], &changed[0]["to"]), (&json!("native"), &json!(OTHER)));
    assert_eq!(changed[0]["cause"], "limit");
    let passed: Vec<(&str, &str)> = changed[0]["passed_over"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["agent"].as_str().unwrap(), one["why"].as_str().unwrap()))
        .collect();
    assert_eq!(passed.len(), 2, "{passed:?}");
    assert_eq!(passed[0], ("native", "it is the one that is limited"));
    assert_eq!(passed[1].0, "exec:/nowhere/agent");
    assert!(passed[1].1.contains("/nowhere/agent"), "{passed:?}");
    assert!(output.stderr.contains("not native: it is the one"), "{}", output.stderr);
    assert!(!env.repo().join("never.txt").exists());
    // What the other was told: the objective, what was done by whom, what was noted.
    let told = told(&env);
    for part in [
        "## The objective\n\nDo one",
        "- Use one (it is small)",
        "- No key (401)",
        "- the docs",
        "Turn 1, native:",
        "The agent said: I begin.",
        "write_file was done, wrote a.txt",
        "## What to do now\n\nGo on with this, from where it stands now:\n\nDo one",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn where_nobody_can_go_on_it_stops_and_says_why_nobody_could() {
    let (env, model) = scripted_in_git(TURNS);
    limited(&env);
    let list = "native,exec:/nowhere/agent";
    let output = segue(&env, &["run", "Do one", "--model", &model, "--fallback", list]);
    assert_eq!((output.status, last_words(&output)), (3, "segue resume 1 --wait"));
    let said = &output.stderr;
    assert!(said.contains("native does not go on: it is the one that is limited"), "{said}");
    assert!(said.contains("exec:/nowhere/agent does not go on"), "{said}");
    assert!(!has(&env, 1, "agent.changed"));
}

#[test]
fn a_limit_is_known_to_other_sessions() {
    let (env, model) = scripted_in_git(TURNS);
    limited(&env);
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 3);
    stand_ins::set(&env, "agents.attempts", "1");
    let retry = json!({
        "type": "system", "subtype": "api_retry",
        "error": "rate_limit", "error_status": 429, "retry_delay_ms": 3_600_000,
    });
    stand_ins::claude(&env, &[retry], "while :; do say; sleep 0.05; done");
    // The same agent with the same model.
    stand_ins::set(&env, "model", &model);
    let args = ["run", "claude", "Do it", "--fallback", &format!("n,{OTHER}")];
    let output = stand_ins::segue(&env, &args);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let changed = data(&env, 2, "agent.changed");
    let why = "it is limited itself, until 2026-11-15 20:00 UTC";
    assert_eq!(changed[0]["passed_over"], json!([{ "agent": "native", "why": why }]));
    assert_eq!(changed[0]["to"], OTHER);
    // Nor is the work given to it by hand, unless that is asked for twice.
    let output = segue(&env, &["resume", "2", "More", "--with", "n"]);
    assert_eq!(output.status, 3);
    assert!(output.stderr.contains("native is at its limit, and resets in 2 h"), "{output:?}");
    env.script(DONE).unwrap();
    let args = ["resume", "2", "More", "--with", "n", "--now", "--model", &model];
    assert_eq!(segue(&env, &args).status, 0);
    // A limit that is over is forgotten.
    assert_eq!(later(&env, &["resume", "2", "Once more", "--with", OTHER]).status, 0);
    assert_eq!(later(&env, &["resume", "2", "Last", "--with", "n", "--model", &model]).status, 0);
}

#[test]
fn with_wait_it_goes_on_as_soon_as_the_limit_is_over() {
    let script = TURNS.replace("secs = 7200", "secs = 1");
    let (env, model) = scripted_in_git(&script);
    limited(&env);
    let mut command = env.command(["run", "Do one", "--model", &model, "--wait"]);
    let child = start(command.env_remove("SEGUE_CLOCK"));
    until("the limit", || has(&env, 1, "limit.hit"));
    fs::remove_file(env.path("busy")).unwrap();
    let output = finish(child);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(output.stdout, "I begin.\nTurn 1 is done.\n");

    // The same after a stop.
    let (env, model) = scripted_in_git(&script.replace("secs = 1", "secs = 2"));
    limited(&env);
    let real = |args: &[&str]| Output::of(env.command(args).env_remove("SEGUE_CLOCK")).unwrap();
    assert_eq!(real(&["run", "Do one", "--model", &model]).status, 3);
    fs::remove_file(env.path("busy")).unwrap();
    let output = real(&["resume", "1", "--wait"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "Turn 1 is done.\n"));
    assert!(output.stderr.contains("waiting   until the limit resets"), "{}", output.stderr);
}

#[test]
fn a_wait_can_be_interrupted() {
    let (env, model) = scripted_in_git(TURNS);
    limited(&env);
    let child = start(&mut env.command(["run", "Do one", "--model", &model, "--wait"]));
    until("the limit", || has(&env, 1, "limit.hit"));
    signal(&child, Signal::INT);
    assert_eq!(finish(child).status, 130);
    let child = start(&mut env.command(["resume", "1", "--wait", "--model", &model]));
    std::thread::sleep(std::time::Duration::from_millis(500));
    signal(&child, Signal::INT);
    assert_eq!(finish(child).status, 130);
}

#[test]
fn the_one_that_began_gets_its_work_back_with_its_model_and_is_told_what_happened() {
    let (env, model) = scripted_in_git(TURNS);
    limited(&env);
    let args = ["run", "Do one", "--model", &model, "--fallback", OTHER];
    assert_eq!(segue(&env, &args).status, 0);
    fs::remove_file(env.path("busy")).unwrap();
    let output = segue(&env, &["resume", "1", "--return", "Now you"]);
    assert_eq!(output.status, 3, "its limit is not over: {}", output.stderr);
    let output = later(&env, &["resume", "1", "--return", "Now you"]);
    // The script's second reply: its first turn was cut before it.
    assert_eq!((output.status, output.stdout.as_str()), (0, "Turn 1 is done.\n"));
    let changed = data(&env, 1, "agent.changed");
    assert_eq!((&changed[1]["to"], &changed[1]["cause"]), (&json!("native"), &json!("returned")));
    let told = last_told(&env, 1);
    assert!(told.starts_with("Others have worked on this since you last did."), "{told}");
    assert!(told.contains("The agent said: The other did it."), "{told}");
    assert!(told.ends_with("## What to do now\n\nNow you"), "{told}");
    assert!(!told.contains("I begin."), "its own words it knows: {told}");
}

#[test]
fn a_conversation_goes_from_native_to_a_command_and_back() {
    let (env, _) = scripted_in_git(DONE);
    let server = serve([
        Reply::text("I look.").and_tool("glob", json!({ "pattern": "*" })),
        Reply::text("First answer."),
        Reply::text("Third answer."),
    ]);
    assert_eq!(ask(&env, &server, &["run", "First", "--model", ANTHROPIC]).status, 0);
    let args = ["resume", "1", "Second", "--with", OTHER, "--reason", "a second look"];
    assert_eq!(ask(&env, &server, &args).status, 0);
    assert_eq!(data(&env, 1, "agent.changed")[0]["reason"], "a second look");
    let told = told(&env);
    assert!(told.contains("First answer.") && told.contains("It called glob"), "{told}");
    assert!(told.contains("## What to do now\n\nSecond"), "{told}");
    let output = ask(&env, &server, &["resume", "1", "--return", "Third"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "Third answer.\n"));
    let turns = server.turns();
    assert_eq!(turns.len(), 3);
    assert_eq!(turns[2].model.as_deref(), ANTHROPIC.split('/').next_back());
    let (before, after) = (turns[1].messages(), turns[2].messages());
    assert_eq!(after[..before.len()], before[..], "its own conversation is as it was");
    let texts = turns[2].texts();
    assert_eq!(texts[..4], ["First", "I look.", "base.txt\n", "First answer."]);
    assert_eq!(texts.len(), 5);
    assert!(texts[4].contains("Second") && texts[4].contains("The other did it."), "{texts:?}");
    assert!(texts[4].ends_with("Third"), "{texts:?}");
}

#[test]
fn a_packet_is_written_of_a_session_that_stands_still() {
    let (env, model) = scripted_in_git(WORK);
    assert_eq!(segue(&env, &["run", "Go", "--model", &model, "--max-steps", "1"]).status, 3);
    let dir = env.session_dir(1).unwrap();
    fs::remove_file(dir.join("resume.json")).unwrap();
    let output = segue(&env, &["handoff", "--session", "1", "--reason", "for tomorrow"]);
    assert_eq!((output.status, last_words(&output)), (0, "segue resume 1"));
    assert_eq!(packet(&env, 1)["checkpoint_reason"], "for tomorrow");
    assert!(!has(&env, 1, "agent.changed"));
    assert_eq!(show(&env, "1")["status"], "cap:steps", "it stands as it stood");
    // With somebody named, that one takes over what was open.
    let output = segue(&env, &["handoff", "1", "--to", OTHER, "--reason", "a second look"]);
    assert_eq!((output.status, last_words(&output)), (0, "segue resume 1"));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "The other did it.\n"), "{output:?}");
    assert!(told(&env).contains("Go on with this, from where it stands now:\n\nGo"));
    // Somebody who can't come is not waited for.
    let output = segue(&env, &["handoff", "1", "--to", "exec:/nowhere/agent"]);
    assert_ne!(output.status, 0);
    assert_eq!(data(&env, 1, "agent.changed").len(), 1);
}

#[test]
fn a_crashed_session_is_handed_over_by_what_is_recorded() {
    let (env, model) = scripted_in_git(SLOW_TOOL);
    let child = start_slow_tool(&env, &model);
    signal(&child, Signal::KILL);
    finish(child);
    let args = ["handoff", "1", "--to", OTHER, "--reason", "recovered from crash"];
    let output = segue(&env, &args);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let packet = packet(&env, 1);
    assert_eq!(packet["checkpoint_reason"], "recovered from crash");
    assert_eq!(packet["next_task"], Value::Null);
    assert_eq!(show(&env, "1")["status"], "crashed");
    let files: Vec<&str> = packet["touched_files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(files, ["begun.txt", "first.txt"]);
    let output = segue(&env, &["resume", "1"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "The other did it.\n"), "{output:?}");
    assert!(told(&env).contains("may have run"), "{}", told(&env));
}

/// Waits for a file in its first turn.
const PATIENT: &str = r#"
[[reply]]
text = "I wait."
tools = [{ name = "shell", input = { command = "touch begun.txt; while [ ! -e go.txt ]; do sleep 0.02; done" } }]
[[reply]]
text = "It came."
[[reply]]
text = "Again."
repeat = true
"#;

#[test]
fn a_running_session_is_handed_over_at_the_end_of_its_turn() {
    let (env, model) = scripted_in_git(PATIENT);
    let proof = "test -e told.txt";
    let child = start(&mut env.command(["run", "Go", "--model", &model, "--proof", proof]));
    until("the tool", || env.repo().join("begun.txt").exists());
    let output = segue(&env, &["handoff", "1", "--to", OTHER, "--reason", "a second look"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("goes on at the end of turn 1"), "{}", output.stderr);
    assert!(!has(&env, 1, "agent.changed"));
    env.write("go.txt", "").unwrap();
    let output = finish(child);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(output.stdout, "I wait.\nIt came.\nThe other did it.\n");
    let changed = data(&env, 1, "agent.changed");
    assert_eq!((changed.len(), &changed[0]["cause"]), (1, &json!("asked")));
    assert!(told(&env).contains("The agent said: It came."), "{}", told(&env));
}

#[test]
fn a_running_session_is_asked_to_stop_at_the_end_of_its_turn() {
    let (env, model) = scripted_in_git(PATIENT);
    let args = ["run", "Go", "--model", &model, "--proof", "test -e never"];
    let child = start(&mut env.command(args));
    until("the tool", || env.repo().join("begun.txt").exists());
    let output = segue(&env, &["handoff", "1", "--reason", "lunch"]);
    assert!(output.stderr.contains("it stops at the end of turn 1"), "{}", output.stderr);
    env.write("go.txt", "").unwrap();
    let output = finish(child);
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(last_words(&output), "segue resume 1");
    assert_eq!(data(&env, 1, "turn.started").len(), 1);
    assert_eq!(packet(&env, 1)["checkpoint_reason"], "handed_off");
    let inbox = env.session_dir(1).unwrap().join("inbox");
    assert!(!inbox.exists() || fs::read_dir(inbox).unwrap().count() == 0);
}

#[test]
fn another_agent_goes_on_by_run_with_resume_or_from() {
    let (env, model) = scripted_in_git(DONE);
    assert_eq!(segue(&env, &["run", "First", "--model", &model]).status, 0);
    let output = segue(&env, &["run", OTHER, "--resume", "Second"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "The other did it.\n"), "{output:?}");
    assert!(told(&env).contains("## What to do now\n\nSecond"));
    assert_eq!(segue(&env, &["run", "Not that one", "--model", &model]).status, 0);
    let output = segue(&env, &["run", "n", "--from", "1", "Third"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "All is well.\n"), "{output:?}");
    assert_eq!(data(&env, 1, "turn.started").len(), 3);
    assert_eq!(data(&env, 1, "agent.changed").len(), 2);
    assert_eq!(data(&env, 2, "turn.started").len(), 1);
    let output = segue(&env, &["run", "q", "--resume", "Fourth"]);
    assert_eq!(output.status, 127, "{output:?}");
    assert_eq!(data(&env, 1, "turn.started").len() + data(&env, 2, "turn.started").len(), 4);
}

#[test]
fn a_limit_is_that_of_the_one_who_ran_into_it_and_of_its_model() {
    let (env, model) = scripted_in_git(TURNS);
    limited(&env);
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 3);
    // Handed over while it stands still: the command that was named goes on.
    let output = segue(&env, &["handoff", "1", "--to", OTHER]);
    assert_eq!((output.status, last_words(&output)), (0, "segue resume 1"));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(told(&env).contains("Use one"), "{}", told(&env));

    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 3);
    let output = segue(&env, &["resume", "2"]);
    assert_eq!((output.status, last_words(&output)), (3, "segue resume 2 --wait"));
    // Another model has another limit.
    let replies = "[[reply]]\ntext = \"x\"\n[[reply]]\ntext = \"By another.\"\n";
    fs::write(env.path("other.toml"), replies).unwrap();
    let other = format!("script:{}", env.path("other.toml").display());
    let output = segue(&env, &["resume", "2", "--model", &other]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "By another.\n"), "{}", output.stderr);
}

#[test]
fn whoever_was_called_to_a_running_session_gets_a_turn() {
    let (env, model) = scripted_in_git(PATIENT);
    let child = start(&mut env.command(["run", "Go", "--model", &model]));
    until("the tool", || env.repo().join("begun.txt").exists());
    let args = ["handoff", "1", "--to", OTHER, "--reason", "wants a second look"];
    assert_eq!(segue(&env, &args).status, 0);
    env.write("go.txt", "").unwrap();
    let output = finish(child);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(show(&env, "1")["turns"], 2);
    assert!(told(&env).contains("wants a second look"), "{}", told(&env));
}

#[test]
fn read_only_goes_over_to_nobody_who_can_not_be_held() {
    let (env, model) = scripted_in_git(TURNS);
    limited(&env);
    let held = ["run", "Do one", "--model", &model, "--permission", "read-only"];
    let output = segue(&env, &[&held[..], &["--fallback", OTHER]].concat());
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert!(output.stderr.contains("it can't be held to read-only"), "{}", output.stderr);
    let output = segue(&env, &["resume", "1", "--with", OTHER]);
    assert_eq!(output.status, 2, "{}", output.stderr);
    assert!(!env.repo().join("told.txt").exists());
}

#[test]
fn what_belongs_to_a_new_session_is_not_dropped_in_silence() {
    let env = two_turns();
    let output = segue(&env, &["run", "n", "--resume", "More", "--proof", "false"]);
    assert_eq!(output.status, 2, "{}", output.stderr);
    assert!(output.stderr.contains("--proof is for a new session"), "{}", output.stderr);
}
