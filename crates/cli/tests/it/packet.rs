//! `resume.json`: what it says after every stop, that it is told to the next agent, and that a
//! person may edit it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::process::Signal;
use segue_testkit::env::TestEnv;
use serde_json::{Value, json};

use crate::{
    stand_ins,
    support::{
        DONE, SLOW_TOOL, TURNS, WORK, data, finish, git, journal_bytes, last_told, packet,
        scripted_in_git, segue, show, signal, start_slow_tool, tree, two_turns,
    },
};

/// Holds it against the schema that is checked in.
fn fits(packet: &Value) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/packet.schema.json");
    let schema = crate::support::json(&fs::read_to_string(file).unwrap());
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(packet).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?} in {packet}");
    let mut broken = packet.clone();
    broken["turn_count"] = json!("two");
    assert!(!validator.is_valid(&broken), "a schema that lets everything through proves nothing");
}

/// Writes into the packet as a person would.
fn edit(env: &TestEnv, number: u64, change: impl FnOnce(&mut Value)) {
    let mut value = packet(env, number);
    change(&mut value);
    let path = env.session_dir(number).unwrap().join("resume.json");
    fs::write(path, serde_json::to_string_pretty(&value).unwrap()).unwrap();
}

#[test]
fn every_kind_of_stop_leaves_a_packet_that_fits_its_schema() {
    let reason = |env: &TestEnv, wanted: &str| {
        let packet = packet(env, 1);
        fits(&packet);
        assert_eq!(packet["checkpoint_reason"], wanted);
    };
    let (env, model) = scripted_in_git(TURNS);
    fs::write(env.path("busy"), "").unwrap();
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 3);
    reason(&env, "limit");
    fs::remove_file(env.path("busy")).unwrap();
    assert_eq!(segue(&env, &["resume", "1", "--now"]).status, 0);
    reason(&env, "done");
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "0"]).status, 0);
    reason(&env, "rewound");

    let (env, model) = scripted_in_git(WORK);
    assert_eq!(segue(&env, &["run", "Go", "--model", &model, "--max-steps", "1"]).status, 3);
    fits(&packet(&env, 1));
    assert!(packet(&env, 1)["checkpoint_reason"].as_str().unwrap().starts_with("cap"));
    // The script has no third reply.
    assert_eq!(segue(&env, &["resume", "1", "--max-steps", "9"]).status, 0);
    assert_eq!(segue(&env, &["resume", "1", "More", "--max-steps", "9"]).status, 1);
    reason(&env, "failed");

    for (which, word) in [(Signal::INT, Some("interrupted")), (Signal::KILL, None)] {
        let (env, model) = scripted_in_git(SLOW_TOOL);
        let child = start_slow_tool(&env, &model);
        signal(&child, which);
        finish(child);
        assert_eq!(env.session_dir(1).unwrap().join("resume.json").exists(), word.is_some());
        if word.is_none() {
            assert_eq!(segue(&env, &["handoff", "1", "--reason", "a crash"]).status, 0);
        }
        reason(&env, word.unwrap_or("a crash"));
        assert_eq!(packet(&env, 1).get("next_task"), None);
    }
}

#[test]
fn what_the_agent_noted_and_what_git_saw_is_in_the_packet() {
    let (env, model) = scripted_in_git(TURNS);
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 0);
    let first = packet(&env, 1);
    assert_eq!(first["next_task"], "Write the docs");
    assert_eq!(segue(&env, &["resume", "1", "Do two"]).status, 0);
    let packet = packet(&env, 1);
    assert_eq!(packet["objective"], "Do one");
    assert_eq!(packet["requests"], json!([{ "turn": 2, "prompt": "Do two" }]));
    assert_eq!(
        packet["decisions"],
        json!([{ "id": "d1", "turn": 1, "summary": "Use one", "why": "it is small" }])
    );
    assert_eq!(
        packet["blockers"],
        json!([{ "id": "b1", "turn": 1, "summary": "No key", "evidence": "401" }])
    );
    assert_eq!(packet["remaining"], json!(["the docs"]));
    assert_eq!(packet.get("next_task"), None, "another prompt took its place");
    // By a shell command, of which no tool says what it touched.
    assert_eq!(
        packet["touched_files"],
        json!([
            { "path": "a.txt", "status": "added", "turn": 2 },
            { "path": "b ü.txt", "status": "added", "turn": 2 },
            { "path": "base.txt", "status": "deleted", "turn": 2 },
        ])
    );
    let place = &packet["workspace"];
    assert_eq!(place["head"], git(&env, &["rev-parse", "HEAD"]).trim());
    assert_eq!((&place["branch"], &place["dirty"]), (&json!("main"), &json!(true)));
    let kept =
        git(&env, &["ls-tree", "-r", "-z", "--name-only", place["snapshot"].as_str().unwrap()]);
    assert_eq!(kept, "a.txt\0b ü.txt\0");
    // What is committed is clean.
    git(&env, &["add", "-A"]);
    git(&env, &["commit", "-q", "-m", "all"]);
    assert_eq!(segue(&env, &["resume", "1", "Do three"]).status, 0);
    let place = &crate::support::packet(&env, 1)["workspace"];
    assert_eq!(
        (&place["dirty"], &place["head"]),
        (&json!(false), &json!(git(&env, &["rev-parse", "HEAD"]).trim()))
    );
}

#[test]
fn a_closing_block_is_as_good_as_the_tool() {
    let (env, _) = scripted_in_git(DONE);
    let block = r#"{"decisions":[{"summary":"Use two"}],"blockers":[],"remaining":["tests"],"next_task":"Write tests"}"#;
    let agent = format!("exec:cat >/dev/null; printf 'Done.\\n```segue\\n%s\\n```\\n' '{block}'");
    assert_eq!(segue(&env, &["run", &agent, "Go"]).status, 0);
    let packet = packet(&env, 1);
    fits(&packet);
    assert_eq!(packet["decisions"][0]["summary"], "Use two");
    assert_eq!(
        (&packet["remaining"], &packet["next_task"]),
        (&json!(["tests"]), &json!("Write tests"))
    );
    assert_eq!(packet["previous_agent"], agent);
}

#[test]
fn checks_are_known_by_the_commands_that_ran_and_their_exit_statuses() {
    let script = r#"
[[reply]]
tools = [
    { name = "shell", input = { command = "cargo test" } },
    { name = "shell", input = { command = "cargo clippy" } },
    { name = "shell", input = { command = "cargo build && echo built" } },
    { name = "shell", input = { command = "echo cargo check" } },
]
[[reply]]
text = "The tests pass."
repeat = true
"#;
    let (env, model) = scripted_in_git(script);
    stand_ins::program(&env, "cargo", "[ \"$1\" = test ] && exit 101; exit 0");
    assert_eq!(stand_ins::segue(&env, &["run", "Go", "--model", &model]).status, 0);
    let packet = packet(&env, 1);
    let run = |command: &str, exit: i32| json!({ "passed": exit == 0, "command": command, "exit": exit, "turn": 1 });
    // Whatever the agent says of them; and what comes last in a line is what ran.
    let wanted = json!({ "tests": run("cargo test", 101), "lint": run("cargo clippy", 0) });
    assert_eq!(packet["validation_state"], wanted);
    let agent = "exec:cat > told.txt";
    assert_eq!(segue(&env, &["resume", "1", "Mend it", "--with", agent]).status, 0);
    let told = fs::read_to_string(env.repo().join("told.txt")).unwrap();
    assert!(told.contains("- tests failed: `cargo test`, exit status 101, turn 1"), "{told}");
}

#[test]
fn an_edited_packet_is_honoured_as_it_stands_in_a_session_of_its_own() {
    let env = two_turns();
    env.write("mine.txt", "only here\n").unwrap();
    edit(&env, 1, |packet| {
        packet["decisions"] = json!([]);
        packet["turn_count"] = json!(1);
        packet["next_task"] = json!("Do what I say");
    });
    let edited = fs::read(env.session_dir(1).unwrap().join("resume.json")).unwrap();
    let before = journal_bytes(&env, 1);
    let output = segue(&env, &["resume", "1", "--dry-run"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(tree(&env.repo()).contains_key("mine.txt"));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    // The files are those of the end of turn 1, with what the new session did to them.
    assert_eq!(tree(&env.repo()).into_keys().collect::<Vec<_>>(), ["a.txt", "base.txt"]);
    let refs = git(&env, &["for-each-ref", "--format=%(refname)"]);
    let safety = refs.lines().find(|name| name.contains("/before-")).expect("a safety ref");
    assert_eq!(git(&env, &["show", &format!("{safety}:mine.txt")]), "only here\n");
    // The old session is as it was.
    assert_eq!(journal_bytes(&env, 1), before);
    // The packet has been used, and is kept.
    let names = fs::read_dir(env.session_dir(1).unwrap()).unwrap().flatten();
    let used = |path: &PathBuf| path.to_string_lossy().contains("resume.json.used-");
    let used = names.map(|entry| entry.path()).find(used).unwrap();
    assert_eq!(fs::read(used).unwrap(), edited);
    // What it brought back can be taken back.
    assert_eq!(segue(&env, &["rewind", "2", "--undo"]).status, 0);
    assert!(tree(&env.repo()).contains_key("mine.txt"));
    assert_eq!(segue(&env, &["rewind", "2", "--undo"]).status, 0);
    let new = env.journal(2).unwrap()[0].clone();
    let lineage = &new["data"]["identity"]["lineage"];
    let id = env.session_dir(1).unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(lineage["from"], id, "{new}");
    assert_eq!(lineage["step"], "turn 1");
    let told = last_told(&env, 2);
    assert!(told.ends_with("## What to do now\n\nDo what I say"), "{told}");
    assert!(told.contains("- No key (401)") && told.contains("Turn 1, native:"), "{told}");
    assert!(!told.contains("## Decisions"), "{told}");
    for later in ["Turn 2", "Do two", "base.txt", "b ü.txt"] {
        assert!(!told.contains(later), "{later} was left behind: {told}");
    }
    assert!(told.contains("- a.txt (added)"), "{told}");
    assert_eq!(show(&env, "2")["status"], "completed");
}

/// The call of the tool that noted it is part of the conversation that the next agent is told.
#[test]
fn a_decision_that_was_removed_is_told_in_no_other_way_either() {
    let env = two_turns();
    edit(&env, 1, |packet| {
        packet["decisions"] = json!([]);
        packet["next_task"] = json!("Do what I say");
    });
    assert_eq!(segue(&env, &["resume", "1"]).status, 0);
    let told = last_told(&env, 2);
    assert!(!told.contains("Use one"), "{told}");
}

#[test]
fn an_edited_packet_goes_to_another_agent_and_takes_another_prompt() {
    let env = two_turns();
    edit(&env, 1, |packet| packet["remaining"] = json!(["only this"]));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 2, "there is no next task: {}", output.stderr);
    let args = ["resume", "1", "Say it", "--with", "exec:cat > told.txt"];
    assert_eq!(segue(&env, &args).status, 0);
    let told = fs::read_to_string(env.repo().join("told.txt")).unwrap();
    assert!(told.contains("- only this") && !told.contains("the docs\n"), "{told}");
    assert!(told.contains("Turn 2, native:") && told.contains("Say it"), "{told}");
}

#[test]
fn a_packet_that_does_not_parse_is_named_with_line_and_column_and_left_alone() {
    let env = two_turns();
    let path = env.session_dir(1).unwrap().join("resume.json");
    let text = fs::read_to_string(&path).unwrap();
    let at = text.lines().position(|line| line.contains("\"turn_count\"")).unwrap() + 1;
    fs::write(&path, text.replace("\"turn_count\": 2,", "\"turn_count\": 2,,")).unwrap();
    let before = (fs::read(&path).unwrap(), journal_bytes(&env, 1), tree(&env.repo()));
    for args in [&["resume", "1", "Go"][..], &["handoff", "1"], &["resume", "1", "--dry-run"]] {
        let output = segue(&env, args);
        assert_eq!(output.status, 2, "{}", output.stderr);
        let place = format!("resume.json: line {at}, column ");
        assert!(output.stderr.contains(&place), "{}", output.stderr);
        assert!(output.stderr.contains("nothing was changed"), "{}", output.stderr);
    }
    assert_eq!((fs::read(&path).unwrap(), journal_bytes(&env, 1), tree(&env.repo())), before);
    assert!(env.session_dir(2).is_err());
    // Removed, it is no longer in the way.
    fs::remove_file(&path).unwrap();
    assert_eq!(segue(&env, &["resume", "1", "Go"]).status, 0);
    fits(&packet(&env, 1));
}

#[test]
fn blanks_at_the_end_are_no_edit() {
    let env = two_turns();
    let path = env.session_dir(1).unwrap().join("resume.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{}\n\n \t\r\n", text.trim_end())).unwrap();
    assert_eq!(segue(&env, &["resume", "1", "Go"]).status, 0);
    assert!(env.session_dir(2).is_err(), "the same session went on");
    assert_eq!(packet(&env, 1)["turn_count"], 3);
}

#[test]
fn a_long_session_is_told_within_the_budget_with_the_newest_turns_whole() {
    let (env, model) = scripted_in_git(DONE);
    let agent = "exec:cat >/dev/null; echo x >> n; echo BEGIN $(wc -l < n); head -c 3900 /dev/zero | tr '\\0' y; echo; echo END";
    let args = ["run", agent, "Go", "--proof", "false", "--max-turns", "45"];
    assert_eq!(segue(&env, &args).status, 3);
    let packet = packet(&env, 1);
    fits(&packet);
    assert_eq!(packet["turn_count"], 45);
    let turns = packet["conversation"].as_array().unwrap();
    let size = packet["conversation"].to_string().len();
    assert!(size < 60 << 10 && turns.len() > 5, "{size} in {} turns", turns.len());
    let last = turns.last().unwrap();
    assert!(last["turn"] == 45 && last.to_string().contains("BEGIN 45"), "{last}");
    let args =
        ["resume", "1", "Finish", "--with", "native", "--model", &model, "--max-turns", "60"];
    segue(&env, &args);
    let started = data(&env, 1, "turn.started");
    let briefing = &started[45]["briefing"];
    let bytes = briefing["bytes"].as_u64().unwrap();
    // A quarter of the context, at three bytes a token. The headings of the last two parts are not
    // counted by `packet::render`, so it may be more by their length.
    let budget = 200_000 * 3 / 4;
    assert!((budget / 3 * 2..=budget + 100).contains(&bytes), "{bytes}");
    let head = briefing["head"].as_str().unwrap();
    assert!(head.starts_with("You take over work that was begun before you"), "{head}");
}
