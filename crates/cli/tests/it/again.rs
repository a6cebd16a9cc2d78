//! A recorded session runs again: what is answered from the recording, where it is left, and what the
//! files are then.

use std::{fs, path::PathBuf};

use segue_share::tine::Codec;
use segue_testkit::{
    env::{Output, TestEnv},
    model_server::Reply,
};
use serde_json::{Value, json};

use crate::{
    replay::{ids, ok},
    support::{
        CHAT, SLOW_TOOL, ask, data, git, has, last_words, scripted_in_git, segue, serve, show,
        signal, start, start_slow_tool, tree, until,
    },
};

/// Runs the same again at a server that would answer anything.
fn again(env: &TestEnv, flags: &[&str], live: &str) -> (Output, usize) {
    let server = serve([Reply::text(live).sticky()]);
    let output =
        ask(env, &server, &[&["replay", "1", "--mode", "cache", "--continue"], flags].concat());
    (output, server.turns().len())
}

/// Two turns at a server: one writes a file and counts how often it ran, the other goes on.
pub(crate) fn recorded() -> TestEnv {
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
    // As a file it says that all of it was reused.
    ok(&env, &["export", "2", "--format", "tine", "-o", "../again.tine"]);
    let told = segue_share::tine::open(&env.path("again.tine")).unwrap();
    let told: Value = serde_json::from_slice(&told.to_bytes(Codec::Plain)).unwrap();
    assert_eq!(told["metadata"]["replay"]["reused_steps"], ids(&env, "1").len());
}

#[test]
fn a_rerun_that_runs_again_is_compared_with_all_that_it_did() {
    let env = recorded();
    let server = serve([Reply::text("Both are there, again.")]);
    let rerun = ["replay", "1", "--mode", "rerun", "--agent", "native", "--model", CHAT];
    assert_eq!(ask(&env, &server, &rerun).status, 0);
    let server = serve([Reply::text("never said").sticky()]);
    let output = ask(&env, &server, &["replay", "2", "--mode", "cache", "--continue"]);
    assert_eq!((output.status, server.turns().len()), (0, 0), "{}", output.stderr);
    assert_eq!(ids(&env, "3"), ids(&env, "2"));
    for (a, b) in [("2", "3"), ("3", "2")] {
        ok(&env, &["diff", a, b, "--exit-code"]);
    }
}

/// A replay that was killed after its first reply.
fn broken_off(env: &TestEnv) {
    let (output, _) = again(env, &[], "never said");
    assert_eq!(output.status, 0, "{}", output.stderr);
    let journal = env.session_dir(2).unwrap().join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    let events: Vec<&str> = whole.split_inclusive('\n').collect();
    let cut = events.iter().position(|line| line.contains("\"model.replied\"")).unwrap() + 1;
    fs::write(&journal, events[..cut].concat()).unwrap();
    fs::remove_file(env.session_dir(2).unwrap().join("state.json")).unwrap();
}

#[test]
fn what_answers_an_unfinished_replay_stays_and_travels_with_it() {
    let env = recorded();
    broken_off(&env);
    let output = segue(&env, &["rm", "1", "--force"]);
    assert_eq!(output.status, 2, "{}", output.stderr);
    let why = "session 2 is answered by the recording of session 1";
    assert!(output.stderr.contains(why), "{}", output.stderr);
    assert!(output.stderr.contains("segue rm 1 2"), "{}", output.stderr);
    ok(&env, &["export", "2", "-o", "../x.segue"]);

    let elsewhere = env.path("elsewhere").display().to_string();
    let server = serve([Reply::text("never said").sticky()]);
    let there = |args: &[&str]| {
        let output = ask(&env, &server, &[args, &["--home", &elsewhere]].concat());
        assert_eq!(output.status, 0, "{args:?}: {}", output.stderr);
        output.stdout
    };
    there(&["import", "../x.segue"]);
    there(&["resume", "1", "--keep-files"]);
    let steps = crate::support::lines(&there(&["log", "1", "--steps", "--json"]));
    let steps: Vec<&str> = steps.iter().map(|step| step["id"].as_str().unwrap()).collect();
    assert_eq!(steps, ids(&env, "1"));
    assert!(server.turns().is_empty());
    // Where nothing is answered any more, it may go.
    assert_eq!(ask(&env, &server, &["resume", "2"]).status, 0);
    ok(&env, &["rm", "1", "--force"]);
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
    let made = events.iter().position(|line| line.contains("\"worktree.made\"")).unwrap() + 1;
    let (place, branch) = (workspace(&env, "2"), data(&env, 2, "worktree.planned").remove(0));
    for cut in 1..events.len() {
        if cut < made {
            git(&env, &["worktree", "remove", "--force", place.to_str().unwrap()]);
            git(&env, &["branch", "-q", "-D", branch["branch"].as_str().unwrap()]);
        }
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
    broken_off(&env);
    let journal = env.session_dir(2).unwrap().join("journal.jsonl");
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

#[test]
fn a_fork_that_left_within_a_turn_is_answered_to_its_end() {
    let env = recorded();
    let server = serve([Reply::text("Other."), Reply::text("And more.")]);
    // After the answers to the calls of the first turn.
    let output = ask(&env, &server, &["fork", "1", "--from-step", "3", "Do other"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(ask(&env, &server, &["resume", "2", "Do more"]).status, 0);
    let all = ids(&env, "2");
    assert_eq!(all[..4], ids(&env, "1")[..4]);
    assert_eq!(all.len(), 8);

    let server = serve([Reply::text("never said").sticky()]);
    let output = ask(&env, &server, &["replay", "2", "--mode", "cache", "--continue"]);
    assert_eq!((output.status, server.turns().len()), (0, 0), "{}", output.stderr);
    assert_eq!(ids(&env, "3"), all);
    let told = ended(&env, 3);
    assert_eq!((&told["why"], &told["told"]), (&json!("complete"), &Value::Null), "{told}");
    assert_eq!(tree(&workspace(&env, "3")), tree(&workspace(&env, "2")));
}

#[test]
fn where_no_files_came_with_a_recording_it_says_so_and_tells_the_model() {
    let env = recorded();
    ok(&env, &["export", "1", "--format", "tine", "-o", "../x.tine"]);
    ok(&env, &["import", "../x.tine"]);
    ok(&env, &["config", "set", "model", CHAT]);
    let server = serve([Reply::text("I look first.")]);
    let output = ask(&env, &server, &["replay", "2", "--mode", "cache", "--continue"]);
    assert_eq!((output.status, server.turns().len()), (0, 0), "{}", output.stderr);
    let told = ended(&env, 3);
    assert_eq!(told["why"], "complete", "{told}");
    assert_eq!(told["files"], "as last committed: none were kept with the recording");
    assert!(!workspace(&env, "3").join("a.txt").exists());
    assert!(output.stderr.contains("none were kept"), "{}", output.stderr);
    let output = ask(&env, &server, &["resume", "3", "What is in a.txt?"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let heard = server.turns()[0].texts().join("\n");
    assert!(heard.contains("none were kept with the recording"), "{heard}");
}

#[test]
fn of_a_cache_replay_the_last_turns_files_are_brought_back_too() {
    let env = recorded();
    ok(&env, &["replay", "1", "--mode", "cache"]);
    let server = serve([Reply::text("never said").sticky()]);
    let args = ["replay", "2", "--mode", "cache", "--continue", "--compare"];
    let output = ask(&env, &server, &args);
    assert_eq!((output.status, server.turns().len()), (0, 0), "{}", output.stderr);
    let there = tree(&workspace(&env, "3"));
    assert_eq!(there.get("a.txt").map(String::as_str), Some("one\ntwo\n"));
    assert!(
        output.stdout.contains(&format!("the same {} steps", ids(&env, "1").len())),
        "{}",
        output.stdout
    );
}
