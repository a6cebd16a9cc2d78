//! What is recorded, told again and done again: every way of `segue replay`, and what is refused.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use segue_core::identity::How;
use segue_journal::{Durability, Home, RealDisk, Session, lock::Holder};
use segue_loops::{
    branch::{self, With},
    keep::{Checkpoints, Keeper},
};
use segue_testkit::{
    env::{Output, TestEnv},
    model_server::Reply,
};
use serde_json::{Value, json};

use crate::support::{
    CHAT, SLOW_TOOL, ask, data, files_below, git, has, last_words, lines, scripted_in_git, segue,
    serve, show, signal, start, start_slow_tool, tree, two_turns, until,
};

/// The steps of a session: their ids.
fn ids(env: &TestEnv, session: &str) -> Vec<String> {
    let output = segue(env, &["log", session, "--steps", "--json"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    lines(&output.stdout).iter().map(|step| step["id"].as_str().unwrap().to_owned()).collect()
}

/// Everything that a refusal must leave as it is: the home without its caches, the repository's files
/// and its refs.
fn everything(env: &TestEnv) -> (BTreeMap<PathBuf, Vec<u8>>, BTreeMap<String, String>, String) {
    let cache = |path: &PathBuf| path.to_string_lossy().contains("index.db");
    let files = files_below(&env.home()).into_iter().filter(|path| !cache(path));
    let home = files.map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
    (home, tree(&env.repo()), git(env, &["for-each-ref"]))
}

/// A refusal: status 2, these words, and nothing is changed.
fn refused(env: &TestEnv, args: &[&str], words: &[&str]) {
    let before = everything(env);
    let output = segue(env, args);
    assert_eq!(output.status, 2, "{args:?}: {}{}", output.stdout, output.stderr);
    for word in words {
        assert!(output.stderr.contains(word), "{args:?}: {word} is not in {}", output.stderr);
    }
    assert!(everything(env) == before, "{args:?} has changed something");
}

fn ok(env: &TestEnv, args: &[&str]) -> Output {
    let output = segue(env, args);
    assert_eq!(output.status, 0, "{args:?}: {}", output.stderr);
    output
}

fn open(env: &TestEnv, number: u64) -> Session {
    Session::open(Arc::new(RealDisk), &env.session_dir(number).unwrap()).unwrap()
}

/// A session with the steps of another one that says of itself that it is not to be resumed.
fn sealed(env: &TestEnv, of: u64) {
    let session = open(env, of);
    let keeper = Keeper::new(&session, &env.repo(), Checkpoints::Git);
    let state = session.state();
    let with = With {
        agent: state.agent().to_owned(),
        model: state.model().map(str::to_owned),
        permission: state.permission(),
        prompt: "Do one".to_owned(),
        workspace: state.workspace().unwrap().to_owned(),
        worktree: false,
        caps: state.caps,
        name: None,
        sealed: true,
        segue: "0".to_owned(),
    };
    let branch = branch::leave(&session, &keeper, None, How::Replayed).unwrap();
    let new = branch.session(&session, with).unwrap();
    let me = Holder { pid: std::process::id(), host: "here".into(), since: jiff::Timestamp::now() };
    let clock: segue_journal::Clock = Arc::new(jiff::Timestamp::now);
    let home = Home::new(Arc::new(RealDisk), env.home());
    let (mut made, _) = home.create(new, &me, &clock).unwrap();
    let stop = segue_runner::supervisor::stop(segue_core::event::Reason::Done, "looked at");
    made.append(stop, Durability::Synced).unwrap();
}

#[test]
fn looking_makes_nothing() {
    let env = two_turns();
    let all = ids(&env, "1");
    let before = everything(&env);
    for flag in ["--inspect", "--dry-run"] {
        let output = ok(&env, &["replay", "1", flag]);
        assert_eq!(output.stdout.lines().count(), all.len() + 1, "{}", output.stdout);
        assert!(output.stderr.contains("nothing was run, nothing was made"), "{}", output.stderr);
        let output = ok(&env, &["replay", "1", flag, "--from-step", "3", "--json"]);
        assert_eq!(lines(&output.stdout).len(), 4);
        for word in [&all[3], &all[3][..12]] {
            let same = ok(&env, &["replay", "1", flag, "--from-step", word, "--json"]);
            assert_eq!(same.stdout, output.stdout);
        }
    }
    ok(&env, &["replay", "1", "--verify"]);
    assert!(everything(&env) == before);
    refused(&env, &["replay", "1", "--inspect", "--from-step", "99"], &["segue log 1 --steps"]);
    refused(&env, &["replay", "1", "--inspect", "--from-step", "zz"], &["segue log 1 --steps"]);
    refused(&env, &["replay", "1", "--inspect", "--from-step", ""], &["segue log 1 --steps"]);
}

#[test]
fn the_same_replay_gives_the_same_steps_and_calls_nobody() {
    let env = two_turns();
    let all = ids(&env, "1");
    // From here on every call of a model or a tool would fail.
    for path in files_below(&env.path("")) {
        if path.extension().is_some_and(|ending| ending == "toml") {
            fs::remove_file(path).unwrap();
        }
    }
    fs::remove_dir_all(env.repo()).unwrap();
    let run = |args: &[&str]| {
        let mut command = env.command(args);
        command.env("PATH", "").current_dir(env.home());
        Output::of(&mut command).unwrap()
    };
    for (number, name) in [("2", "again"), ("3", "once-more")] {
        let output = run(&["replay", "1", "--mode", "cache", "--save", name]);
        assert_eq!(output.status, 0, "{}", output.stderr);
        assert!(output.stderr.contains("no model and no tool was called"), "{}", output.stderr);
        let shown = run(&["log", number, "--steps", "--json"]);
        let same: Vec<Value> = lines(&shown.stdout);
        let same: Vec<&str> = same.iter().map(|step| step["id"].as_str().unwrap()).collect();
        assert_eq!(same, all);
        assert_eq!(run(&["replay", name, "--verify"]).status, 0);
    }
    let output = run(&["replay", "1", "--mode", "cache", "--from-step", "4", "--json"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(crate::support::json(&output.stdout)["steps"], 5);
    let taken = run(&["replay", "1", "--mode", "cache", "--save", "again"]);
    assert_eq!(taken.status, 2, "{}", taken.stderr);
    assert!(taken.stderr.contains("is taken"), "{}", taken.stderr);
}

#[test]
fn a_replay_is_written_to_a_file() {
    let env = two_turns();
    let output = ok(&env, &["replay", "1", "--mode", "cache", "--save", "../x.segue"]);
    assert!(output.stderr.contains("written to"), "{}", output.stderr);
    assert!(env.repo().join("../x.segue").exists());
    refused(&env, &["replay", "1", "--save", "../x.segue"], &["is there already", "--force"]);
    ok(&env, &["replay", "1", "--save", "../x.segue", "--force"]);
}

#[test]
fn what_is_no_longer_as_it_was_is_found() {
    let env = two_turns();
    ok(&env, &["replay", "1", "--mode", "cache"]);
    let journal = env.session_dir(1).unwrap().join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    let found = |session: &str| {
        let output = segue(&env, &["replay", session, "--verify", "--json"]);
        assert_eq!(output.status, 1, "{session}: {}{}", output.stdout, output.stderr);
        crate::support::json(&output.stdout)
    };
    // A word, and the checksum of its line left as it was: of the session and of its replay.
    fs::write(&journal, whole.replacen("I begin.", "I began.", 1)).unwrap();
    for session in ["1", "2"] {
        assert!(!found(session)["source"].as_array().unwrap().is_empty());
    }
    fs::write(&journal, &whole).unwrap();
    ok(&env, &["replay", "1", "--verify"]);
    ok(&env, &["replay", "2", "--verify"]);
    // A long text that is kept beside the journal.
    let blob = files_below(&env.session_dir(1).unwrap().join("blobs")).remove(0);
    let text = fs::read(&blob).unwrap();
    fs::write(&blob, "something else").unwrap();
    for session in ["1", "2"] {
        let found = found(session);
        assert!(found["source"][0].as_str().unwrap().contains("blob"), "{found}");
        assert_eq!(found["structure"], json!([]), "{found}");
    }
    fs::write(&blob, text).unwrap();
    ok(&env, &["replay", "2", "--verify"]);
    let output = segue(&env, &["replay", "7", "--verify"]);
    assert_eq!(output.status, 4, "{}", output.stderr);
}

#[test]
fn flags_that_a_mode_cannot_honour_are_refused() {
    let env = two_turns();
    let cases: [(&[&str], &str); 14] = [
        (&["--inspect", "--save", "x"], "--save"),
        (&["--verify", "--save", "x"], "--save"),
        (&["--force"], "--force"),
        (&["--mode", "rerun", "--continue", "--agent", "native"], "--continue"),
        (&["--inspect", "--continue"], "--continue"),
        (&["--continue", "--from-step", "2"], "--from-step"),
        (&["--agent", "native"], "--agent"),
        (&["--compare"], "--compare"),
        (&["--prompt", "x"], "--prompt"),
        (&["--model", "x"], "--model"),
        (&["--permission", "edit"], "--permission"),
        (&["--verify", "--from-step", "1"], "--from-step"),
        (&["--stop-at-drift"], "--continue"),
        (&["--verify", "--inspect"], "--inspect"),
    ];
    for (flags, named) in cases {
        refused(&env, &[&["replay", "1"], flags].concat(), &[named]);
    }
    refused(&env, &["replay", "1", "--mode", "rerun"], &["--agent", "claude", "codex", "native"]);
    let before = everything(&env);
    let nobody = segue(&env, &["replay", "1", "--mode", "rerun", "--agent", "nobody"]);
    assert_eq!(nobody.status, 127, "{}", nobody.stderr);
    assert!(everything(&env) == before);
    refused(&env, &["replay", "1", "--continue", "--prompt", " "], &["empty"]);
}

#[test]
fn a_step_within_a_batch_is_no_place_to_leave() {
    let env = two_turns();
    // The first reply asks for two calls: after it, and after the first of them, some are open.
    for step in ["1", "2"] {
        let words = ["unfinished batch of tool calls"];
        refused(&env, &["replay", "1", "--mode", "cache", "--from-step", step], &words);
        refused(&env, &["replay", "1", "--inspect", "--from-step", step], &words);
        refused(&env, &["fork", "1", "--from-step", step, "Go"], &words);
        let rerun = ["replay", "1", "--mode", "rerun", "--agent", "native", "--from-step", step];
        refused(&env, &rerun, &words);
    }
}

#[test]
fn what_is_only_to_be_looked_at_is_not_gone_on_with() {
    let env = two_turns();
    sealed(&env, 1);
    let words = ["resume: false", "segue fork 2"];
    for args in [
        &["resume", "2"][..],
        &["resume", "2", "More"],
        &["resume", "2", "More", "--with", "exec:true"],
        &["run", "More", "--from", "2"],
        &["handoff", "2", "--to", "exec:true"],
        &["rewind", "2", "--turn", "1"],
    ] {
        refused(&env, args, &words);
    }
    // A replay of it is one too; a fork is a session like any other.
    ok(&env, &["replay", "2", "--inspect"]);
    ok(&env, &["replay", "2", "--mode", "cache"]);
    refused(&env, &["resume", "3", "More"], &["resume: false"]);
    ok(&env, &["fork", "2", "Do it otherwise"]);
    ok(&env, &["resume", "4", "More"]);
}

#[test]
fn a_rerun_gets_the_recorded_context_and_the_first_files() {
    let env = two_turns();
    let server = serve([
        Reply::text("I look.").and_tool("shell", json!({ "command": "cat base.txt; ls" })),
        Reply::text("Done again."),
    ]);
    let rerun = [
        "replay",
        "1",
        "--mode",
        "rerun",
        "--agent",
        "native",
        "--model",
        CHAT,
        "--prompt",
        "Rerun this task",
        "--save",
        "by-native",
        "--compare",
    ];
    let output = ask(&env, &server, &rerun);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let told = server.turns()[0].messages();
    let told = format!("{told:?}");
    for part in ["Do one", "I begin.", "Turn 1 is done.", "Do two", "I go on.", "Rerun this task"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    // The files are those of the start: nothing that the recording did to them is there.
    let seen = format!("{:?}", server.turns()[1].messages());
    assert!(seen.contains("base") && !seen.contains("b ü.txt\\nbase"), "{seen}");
    assert_eq!(show(&env, "by-native")["identity"]["lineage"]["how"], "replayed");
    assert!(output.stdout.contains("Done again."), "{}", output.stdout);
}

#[test]
fn a_rerun_by_any_command_gets_the_recorded_context() {
    let env = two_turns();
    let agent = env.path("told");
    fs::write(&agent, "#!/bin/sh\ncat > ../told.txt; ls > ../seen.txt; echo Done.\n").unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = format!("exec:{}", agent.display());
    ok(&env, &["replay", "1", "--mode", "rerun", "--agent", &agent]);
    let place = PathBuf::from(show(&env, "2")["workspace"].as_str().unwrap());
    let told = fs::read_to_string(place.join("../told.txt")).unwrap();
    for part in ["Do one", "Turn 1 is done.", "Turn 2 is done."] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert_eq!(fs::read_to_string(place.join("../seen.txt")).unwrap(), "base.txt\n");
    // What a program of somebody else has done can't be answered for.
    let words = ["only the native agent", "--mode rerun --agent exec:"];
    refused(&env, &["replay", "2", "--mode", "cache", "--continue"], &words);
}

/// Runs the same again at a server that would answer anything.
fn again(env: &TestEnv, flags: &[&str], live: &str) -> (Output, usize) {
    let server = serve([Reply::text(live).sticky()]);
    let output =
        ask(env, &server, &[&["replay", "1", "--mode", "cache", "--continue"], flags].concat());
    (output, server.turns().len())
}

/// Two turns at a server: one writes a file and counts how often it ran, the other goes on.
fn recorded() -> TestEnv {
    let (env, _) = scripted_in_git(SLOW_TOOL);
    env.write("AGENTS.md", "Use tabs.\n").unwrap();
    let server = serve([
        Reply::text("I write.")
            .and_tool("write_file", json!({ "path": "a.txt", "content": "one\n" }))
            .and_tool("shell", json!({ "command": "echo x >> ../ran.txt" })),
        Reply::text("Written."),
        Reply::tool("shell", json!({ "command": "echo two >> a.txt" })),
        Reply::text("Both are there."),
    ]);
    assert_eq!(ask(&env, &server, &["run", "Do one", "--model", CHAT]).status, 0);
    assert_eq!(ask(&env, &server, &["resume", "1", "Do two"]).status, 0);
    env
}

fn ended(env: &TestEnv, number: u64) -> Value {
    let mut found = data(env, number, "replay.ended");
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn workspace(env: &TestEnv, session: &str) -> PathBuf {
    PathBuf::from(show(env, session)["workspace"].as_str().unwrap())
}

#[test]
fn it_runs_again_and_everything_is_from_the_recording() {
    let env = recorded();
    let ran = env.repo().join("../ran.txt");
    let (output, calls) = again(&env, &[], "never said");
    assert_eq!((output.status, calls), (0, 0), "{}", output.stderr);
    assert_eq!(ids(&env, "2"), ids(&env, "1"));
    let told = ended(&env, 2);
    assert_eq!((&told["why"], &told["replies"]), (&json!("complete"), &json!(4)), "{told}");
    assert!(told["reused"]["usage"]["input"].as_u64().unwrap() > 0, "{told}");
    // No tool was run, and the files are there all the same; nothing was spent.
    assert_eq!(fs::read_to_string(&ran).unwrap(), "x\n");
    let there = tree(&workspace(&env, "2"));
    assert_eq!(there.get("a.txt").map(String::as_str), Some("one\ntwo\n"));
    assert_eq!(show(&env, "2")["tokens"].as_u64().unwrap_or(0), 0);
    assert_eq!(show(&env, "2")["identity"]["lineage"]["how"], "replayed");
    assert_eq!(segue(&env, &["replay", "2", "--verify"]).status, 0);
}

#[test]
fn other_instructions_are_drift_and_it_says_which() {
    let env = recorded();
    env.write("AGENTS.md", "Use blanks.\n").unwrap();
    let (output, calls) = again(&env, &["--stop-at-drift"], "Live.");
    assert_eq!((output.status, calls), (3, 0), "{}", output.stderr);
    assert_eq!(last_words(&output), "segue resume 2");
    let told = ended(&env, 2);
    assert_eq!((&told["why"], &told["step"]), (&json!("drifted"), &json!(1)));
    assert_eq!(told["id"], ids(&env, "1")[1]);
    let differs = told["differs"].as_str().unwrap();
    assert!(differs.starts_with("the system prompt, line "), "{differs}");
    assert!(differs.ends_with("was \"Use tabs.\", is \"Use blanks.\""), "{differs}");
    assert!(output.stderr.contains("Use blanks."), "{}", output.stderr);
    assert_eq!(show(&env, "2")["status"], "drifted");
    let server = serve([Reply::text("Live.").sticky()]);
    let output = ask(&env, &server, &["resume", "2"]);
    assert_eq!((output.status, server.turns().len()), (0, 1), "{}", output.stderr);
    assert!(server.turns()[0].system().contains("Use blanks."));
    assert_eq!(output.stdout, "Live.\n");
}

#[test]
fn another_prompt_another_model_and_other_tools_are_drift() {
    let env = recorded();
    let cases: [(&[&str], &str); 3] = [
        (
            &["--prompt", "Do three"],
            "message 1 (user), text, line 1: was \"Do one\", is \"Do three\"",
        ),
        (&["--model", "chat/another"], "the model: was chat/local-model, is chat/another"),
        (
            &["--permission", "read-only"],
            "the tools: write_file, edit_file, shell is not offered now",
        ),
    ];
    for (at, (flags, differs)) in cases.into_iter().enumerate() {
        let (output, calls) = again(&env, flags, "Live.");
        assert_eq!((output.status, calls), (0, 1), "{flags:?}: {}", output.stderr);
        assert_eq!(ended(&env, at as u64 + 2)["differs"], differs);
    }
    // The model that it was asked with then is no other one.
    let (output, calls) = again(&env, &["--model", CHAT], "never said");
    assert_eq!((output.status, calls), (0, 0), "{}", output.stderr);
}

#[test]
fn where_the_recording_ends_in_a_turn_it_says_what_the_files_are() {
    let (env, model) = scripted_in_git(SLOW_TOOL);
    let mut child = start_slow_tool(&env, &model);
    child.kill().unwrap();
    child.wait().unwrap();
    let output = segue(&env, &["replay", "1", "--continue"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let told = ended(&env, 2);
    assert_eq!((&told["why"], &told["differs"]), (&json!("exhausted"), &Value::Null), "{told}");
    assert!(output.stderr.contains("the recording ends after step"), "{}", output.stderr);
    assert_eq!(told["files"], "as before turn 1");
    assert!(told["told"]["text"].as_str().unwrap().contains("Look before you go on"), "{told}");
    // Nothing was run a second time, and every call has an answer.
    let returned = data(&env, 2, "tool.returned");
    let status: Vec<&str> = returned.iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["done", "may_have_run", "not_run"]);
    assert!(!workspace(&env, "2").join("begun.txt").exists());
    assert!(data(&env, 2, "tool.started").is_empty());
}

#[test]
fn a_stop_that_kept_the_files_brings_them_back() {
    let (env, model) = scripted_in_git(SLOW_TOOL);
    let child = start_slow_tool(&env, &model);
    signal(&child, rustix::process::Signal::INT);
    assert_eq!(crate::support::finish(child).status, 130);
    let output = segue(&env, &["replay", "1", "--continue"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let told = ended(&env, 2);
    assert_eq!(
        (&told["why"], &told["files"]),
        (&json!("exhausted"), &json!("as they were right then"))
    );
    assert_eq!(told["told"], Value::Null);
    let there = workspace(&env, "2");
    assert!(there.join("first.txt").exists() && there.join("begun.txt").exists());
    // What had not been started then is run now.
    assert!(there.join("last.txt").exists());
}

#[test]
fn killed_on_the_way_it_goes_on_the_same_way() {
    let env = recorded();
    let all = ids(&env, "1");
    let server = serve([Reply::text("never said").sticky()]);
    let mut number = 2;
    // Cut after every event: what was being done when it was killed is done again, or was done.
    let (output, _) = again(&env, &[], "never said");
    assert_eq!(output.status, 0, "{}", output.stderr);
    let journal = env.session_dir(2).unwrap().join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    let events: Vec<&str> = whole.split_inclusive('\n').collect();
    let from = events.iter().position(|line| line.contains("\"worktree.made\"")).unwrap() + 3;
    for cut in from..events.len() {
        fs::write(&journal, events[..cut].concat()).unwrap();
        let _ = fs::remove_file(env.session_dir(2).unwrap().join("state.json"));
        let output = ask(&env, &server, &["resume", "2"]);
        assert_eq!(output.status, 0, "{cut}: {}", output.stderr);
        assert_eq!(ids(&env, "2"), all, "cut after {}", events[cut - 1]);
        assert_eq!(data(&env, 2, "replay.ended").len(), 1, "{cut}");
        let there = tree(&workspace(&env, "2"));
        assert_eq!(there.get("a.txt").map(String::as_str), Some("one\ntwo\n"), "{cut}");
        number += 1;
    }
    assert!(number > 20, "{number}");
    assert!(server.turns().is_empty());
    assert_eq!(fs::read_to_string(env.repo().join("../ran.txt")).unwrap(), "x\n");
}

#[test]
fn a_recording_that_is_gone_or_changed_is_not_guessed() {
    let env = recorded();
    env.write("AGENTS.md", "Use tabs.\n").unwrap();
    let (output, _) = again(&env, &[], "never said");
    assert_eq!(output.status, 0, "{}", output.stderr);
    let journal = env.session_dir(2).unwrap().join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    let events: Vec<&str> = whole.split_inclusive('\n').collect();
    let cut = events.iter().position(|line| line.contains("\"model.replied\"")).unwrap() + 1;
    fs::write(&journal, events[..cut].concat()).unwrap();
    fs::remove_file(env.session_dir(2).unwrap().join("state.json")).unwrap();
    let first = env.session_dir(1).unwrap().join("journal.jsonl");
    fs::rename(&first, first.with_extension("away")).unwrap();
    let before = fs::read(&journal).unwrap();
    let server = serve([Reply::text("never said").sticky()]);
    let output = ask(&env, &server, &["resume", "2"]);
    assert_eq!(output.status, 1, "{}", output.stderr);
    assert!(output.stderr.contains("whose recording answers it"), "{}", output.stderr);
    assert_eq!(fs::read(&journal).unwrap(), before);
}

#[test]
fn the_proof_is_not_run_again() {
    let (env, _) = scripted_in_git(SLOW_TOOL);
    let server = serve([
        Reply::text("Done."),
        Reply::tool("write_file", json!({ "path": "a.txt", "content": "one\n" })),
        Reply::text("Now it is."),
    ]);
    let proof = "echo x >> ../proofs.txt; test -e a.txt";
    let run = ["run", "Do one", "--model", CHAT, "--proof", proof];
    assert_eq!(ask(&env, &server, &run).status, 0);
    let proofs = || fs::read_to_string(env.repo().join("../proofs.txt")).unwrap();
    assert_eq!(proofs(), "x\nx\n");
    let (output, calls) = again(&env, &[], "never said");
    assert_eq!((output.status, calls), (0, 0), "{}", output.stderr);
    assert_eq!(ids(&env, "2"), ids(&env, "1"));
    assert_eq!(proofs(), "x\nx\n");
}

#[test]
fn stopped_in_the_middle_by_a_signal_it_is_resumed_as_a_replay() {
    let env = recorded();
    // Whatever moment the kill comes at, the end is the same.
    let server = serve([Reply::text("never said").sticky()]);
    let mut child = start(&mut crate::support::with_server(
        &env,
        &server,
        &["replay", "1", "--mode", "cache", "--continue"],
    ));
    until("a turn", || env.session_dir(2).is_ok() && has(&env, 2, "turn.started"));
    let _ = child.kill();
    child.wait().unwrap();
    let output = ask(&env, &server, &["resume", "2"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(ids(&env, "2"), ids(&env, "1"));
    assert!(server.turns().is_empty());
}
