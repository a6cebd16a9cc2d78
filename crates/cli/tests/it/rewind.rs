//! `segue rewind`: the files and the conversation go back, nothing is lost, and nothing that is the
//! user's own is touched.

use std::{collections::BTreeMap, fs, path::Path};

use rustix::process::Signal;
use segue_testkit::{env::TestEnv, model_server::Reply};
use serde_json::Value;

use crate::support::{
    ANTHROPIC, DONE, SLOW_TOOL, TURNS, ask, data, finish, git, journal_bytes, json, kinds,
    last_words, packet, scripted, scripted_in_git, segue, serve, show, signal, start_slow_tool,
    tree, two_turns,
};

fn names(env: &TestEnv) -> Vec<String> {
    tree(&env.repo()).into_keys().collect()
}

fn read(env: &TestEnv, name: &str) -> String {
    fs::read_to_string(env.repo().join(name)).unwrap()
}

/// What git has of the user's own, byte for byte.
fn users_own(env: &TestEnv) -> BTreeMap<String, Vec<u8>> {
    let git = env.repo().join(".git");
    let all = crate::support::files_below(&git).into_iter().filter_map(|path| {
        let name = path.strip_prefix(&git).unwrap().to_str().unwrap().to_owned();
        let own = ["HEAD", "index", "config", "ORIG_HEAD", "packed-refs"].contains(&name.as_str());
        let below = ["logs/", "refs/heads/", "refs/tags/", "refs/stash", "hooks/", "info/"];
        let own = own || below.iter().any(|start| name.starts_with(start));
        own.then(|| (name, fs::read(path).unwrap()))
    });
    all.collect()
}

/// The content of a file in a commit.
fn in_commit(env: &TestEnv, commit: &str, file: &str) -> String {
    git(env, &["show", &format!("{commit}:{file}")])
}

#[test]
fn the_files_and_the_conversation_go_back_together() {
    let env = two_turns();
    assert_eq!(names(&env), ["a.txt", "b ü.txt"]);
    let output = segue(&env, &["rewind", "1", "--turn", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(last_words(&output), "segue resume 1 \"what to do instead\"");
    assert_eq!(names(&env), ["a.txt", "base.txt"]);
    assert_eq!((read(&env, "a.txt"), read(&env, "base.txt")), ("one\n".into(), "base\n".into()));
    assert_eq!(show(&env, "1")["status"], "rewound");
    assert_eq!(packet(&env, 1)["turn_count"], 1);
    // The script's next reply is that of the second turn: the conversation is the shorter one.
    let output = segue(&env, &["resume", "1", "Do it another way"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "I go on.\nTurn 2 is done.\n"));
    assert_eq!(show(&env, "1")["status"], "completed");
    let packet = packet(&env, 1);
    assert_eq!(packet["turn_count"], 3);
    let turns = packet["conversation"].as_array().unwrap();
    let turns: Vec<&Value> = turns.iter().map(|one| &one["turn"]).collect();
    assert_eq!(turns, [1, 3]);
    assert_eq!(segue(&env, &["verify", "1"]).status, 0);
}

#[test]
fn a_prompt_goes_on_from_there_at_once_and_the_model_hears_nothing_of_what_was_left_behind() {
    let (env, _) = scripted_in_git(DONE);
    let server = serve([
        Reply::text("First answer."),
        Reply::text("Second answer."),
        Reply::text("Another answer."),
    ]);
    assert_eq!(ask(&env, &server, &["run", "First", "--model", ANTHROPIC]).status, 0);
    assert_eq!(ask(&env, &server, &["resume", "1", "Second"]).status, 0);
    let output = ask(&env, &server, &["rewind", "1", "--turn", "1", "Another"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "Another answer.\n"));
    assert_eq!(server.turns()[2].texts(), ["First", "First answer.", "Another"]);
    // The same by `resume`, and to the very start.
    server.push(Reply::text("From the start."));
    let output = ask(&env, &server, &["resume", "1", "--turn", "0", "Anew"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "From the start.\n"));
    assert_eq!(server.turns()[3].texts(), ["Anew"]);
}

#[test]
fn only_the_files_or_only_the_conversation_go_back_where_that_is_asked() {
    let env = two_turns();
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "1", "--files-only"]).status, 0);
    assert_eq!(names(&env), ["a.txt", "base.txt"]);
    let output = segue(&env, &["resume", "1", "And now"]);
    assert_eq!(output.stdout, "A later turn is done.\n", "the conversation stayed as it was");

    let env = two_turns();
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "1", "--conversation-only"]).status, 0);
    assert_eq!(names(&env), ["a.txt", "b ü.txt"]);
    let output = segue(&env, &["resume", "1", "And now"]);
    assert_eq!(output.stdout, "I go on.\nTurn 2 is done.\n");
}

#[test]
fn a_rewind_can_be_taken_back_and_that_too() {
    let env = two_turns();
    env.write("mine.txt", "written by hand\n").unwrap();
    let before = tree(&env.repo());
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "1"]).status, 0);
    let after = tree(&env.repo());
    assert!(!after.contains_key("mine.txt"));
    let output = segue(&env, &["rewind", "1", "--undo"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(tree(&env.repo()), before);
    assert_eq!(show(&env, "1")["status"], "completed", "as it was before");
    assert_eq!(packet(&env, 1)["turn_count"], 2);
    assert!(segue(&env, &["resume", "1"]).stderr.contains("is completed: nothing to do"));

    assert_eq!(segue(&env, &["rewind", "1", "--undo"]).status, 0);
    assert_eq!(tree(&env.repo()), after);
    assert_eq!(show(&env, "1")["status"], "rewound");
    assert!(segue(&env, &["resume", "1"]).stderr.contains("waits for what to do instead"));
    assert_eq!(segue(&env, &["rewind", "1", "--undo"]).status, 0);
    assert_eq!(tree(&env.repo()), before);
    let output = segue(&env, &["resume", "1", "And now"]);
    assert_eq!(output.stdout, "A later turn is done.\n", "both turns are there again");
}

#[test]
fn there_is_nothing_to_take_back_where_nothing_was_rewound() {
    let env = two_turns();
    let before = journal_bytes(&env, 1);
    let output = segue(&env, &["rewind", "1", "--undo"]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("there is no rewind to take back"), "{}", output.stderr);
    assert_eq!(journal_bytes(&env, 1), before);
}

#[test]
fn turn_0_is_the_very_start() {
    let (env, model) = scripted_in_git(TURNS);
    env.write("not committed.txt", "before all\n").unwrap();
    let before = tree(&env.repo());
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 0);
    assert_ne!(tree(&env.repo()), before);
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "0"]).status, 0);
    assert_eq!(tree(&env.repo()), before);
    assert_eq!(packet(&env, 1)["turn_count"], 0);
    assert_eq!(packet(&env, 1)["decisions"], serde_json::json!([]));
    let output = segue(&env, &["resume", "1", "Once more"]);
    assert_eq!(output.stdout, "I begin.\nTurn 1 is done.\n");
}

#[test]
fn a_step_stands_for_the_last_turn_that_had_ended_by_then() {
    let env = two_turns();
    let to_turn = |step: &str| {
        let output = segue(&env, &["rewind", "1", "--step", step, "--dry-run", "--json"]);
        assert_eq!(output.status, 0, "{}", output.stderr);
        json(&output.stdout)["to_turn"].as_u64().unwrap()
    };
    assert_eq!(to_turn("call-2-0"), 1, "the second turn went on after it");
    assert_eq!(to_turn("call-0-0"), 0);
    let last_text = |turn: u64| {
        let events = env.journal(1).unwrap();
        let text = events.iter().rev().find(|e| e["kind"] == "text.written" && e["turn"] == turn);
        text.unwrap()["seq"].as_u64().unwrap().to_string()
    };
    assert_eq!((to_turn(&last_text(1)), to_turn(&last_text(2))), (1, 2));
    let output = segue(&env, &["rewind", "1", "--step", "call-9-9"]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("there is no step `call-9-9`"), "{}", output.stderr);
    assert_eq!(segue(&env, &["rewind", "1", "--step", "call-2-0"]).status, 0);
    assert_eq!(names(&env), ["a.txt", "base.txt"]);
}

#[test]
fn a_dry_run_changes_nothing() {
    let env = two_turns();
    let state = || {
        let refs = git(&env, &["for-each-ref"]);
        (tree(&env.repo()), journal_bytes(&env, 1), users_own(&env), refs, packet(&env, 1))
    };
    let before = state();
    let output = segue(&env, &["rewind", "1", "--turn", "1", "--dry-run"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, ""));
    let said = env.plain(&output.stderr);
    let wanted = "brought back: base.txt; changed back: a.txt; taken away: b ü.txt";
    assert!(said.contains(wanted) && said.contains("refs/segue/$ULID/before-"), "{said}");
    let plan = json(&segue(&env, &["rewind", "1", "--turn", "1", "--dry-run", "--json"]).stdout);
    assert_eq!(plan["added"], serde_json::json!(["base.txt"]));
    assert_eq!(plan["modified"], serde_json::json!(["a.txt"]));
    assert_eq!(plan["deleted"], serde_json::json!(["b ü.txt"]));
    let with_prompt = ["rewind", "1", "--turn", "1", "Another", "--dry-run"];
    assert_eq!(segue(&env, &with_prompt).status, 0);
    assert_eq!(segue(&env, &["resume", "1", "--turn", "0", "Another", "--dry-run"]).status, 0);
    assert_eq!(state(), before);
}

#[test]
fn turns_that_are_not_there_are_refused() {
    let env = two_turns();
    let before = (tree(&env.repo()), journal_bytes(&env, 1));
    let output = segue(&env, &["rewind", "1", "--turn", "3"]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("there is no turn 3: the last one is 2"), "{}", output.stderr);
    assert_eq!((tree(&env.repo()), journal_bytes(&env, 1)), before);

    assert_eq!(segue(&env, &["rewind", "1", "--turn", "1"]).status, 0);
    let before = (tree(&env.repo()), journal_bytes(&env, 1));
    for args in [&["rewind", "1", "--turn", "2"][..], &["resume", "1", "--turn", "2", "Go"]] {
        let output = segue(&env, args);
        assert_eq!(output.status, 2);
        assert!(output.stderr.contains("turn 2 was left behind by a rewind"), "{}", output.stderr);
        assert!(output.stderr.contains("--undo"), "{}", output.stderr);
    }
    assert_eq!((tree(&env.repo()), journal_bytes(&env, 1)), before);
}

#[test]
fn a_rewind_crosses_a_hand_off() {
    let (env, _) = scripted_in_git(DONE);
    let server = serve([Reply::text("The first."), Reply::text("The last.")]);
    assert_eq!(ask(&env, &server, &["run", "First", "--model", ANTHROPIC]).status, 0);
    let other = "exec:cat > told.txt; echo Second was done.";
    let output = segue(&env, &["resume", "1", "Second", "--with", other]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "Second was done.\n"));
    let output = ask(&env, &server, &["rewind", "1", "--turn", "1", "Third", "--with", "native"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "The last.\n"), "{}", output.stderr);
    assert_eq!(names(&env), ["base.txt"]);
    assert_eq!(server.turns()[1].texts(), ["First", "The first.", "Third"]);
    // And back across it: what the command did is there again, and is told.
    assert_eq!(segue(&env, &["rewind", "1", "--undo"]).status, 0);
    assert_eq!(names(&env), ["base.txt", "told.txt"]);
    server.push(Reply::text("I see."));
    let output = ask(&env, &server, &["resume", "1", "Fourth", "--with", "native"]);
    assert_eq!(output.stdout, "I see.\n", "{}", output.stderr);
    let told = server.turns()[2].texts().join("\n");
    assert!(told.contains("Second was done.") && !told.contains("The last."), "{told}");
}

#[test]
fn nothing_of_the_users_own_is_touched() {
    let (env, model) = scripted_in_git(TURNS);
    env.write("stashed.txt", "s\n").unwrap();
    git(&env, &["add", "stashed.txt"]);
    git(&env, &["stash", "-q"]);
    git(&env, &["branch", "other"]);
    git(&env, &["tag", "v1"]);
    env.write("staged.txt", "staged\n").unwrap();
    git(&env, &["add", "staged.txt"]);
    env.write("staged.txt", "and changed\n").unwrap();
    let before = users_own(&env);
    let stays = |what: &str| assert!(users_own(&env) == before, "{what}");
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 0);
    stays("a run");
    assert_eq!(segue(&env, &["resume", "1", "Do two"]).status, 0);
    stays("a resume");
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "0"]).status, 0);
    stays("a rewind");
    assert_eq!(read(&env, "staged.txt"), "and changed\n");
    assert_eq!(segue(&env, &["rewind", "1", "--undo"]).status, 0);
    stays("its undoing");
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "1", "Again"]).status, 0);
    stays("a rewind with a prompt");
    assert_eq!(segue(&env, &["handoff", "1"]).status, 0);
    stays("a packet");
}

#[test]
fn untracked_files_with_any_name_come_back_and_ignored_ones_stay() {
    let (env, model) = scripted_in_git(TURNS);
    let odd = ["with blanks .txt", "größe 漢字.txt", "-dash", "quote\"'.txt", "new\nline.txt"];
    for name in odd {
        env.write(name, name).unwrap();
    }
    env.write("deep/er/file.txt", "deep\n").unwrap();
    env.write(".gitignore", "target/\n").unwrap();
    env.write("target/out.o", "first\n").unwrap();
    let before = tree(&env.repo());
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 0);
    for name in odd {
        fs::remove_file(env.repo().join(name)).unwrap();
    }
    fs::remove_dir_all(env.repo().join("deep")).unwrap();
    env.write("target/out.o", "second\n").unwrap();
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "0"]).status, 0);
    let mut wanted = before;
    wanted.insert("target/out.o".to_owned(), "second\n".to_owned());
    assert_eq!(tree(&env.repo()), wanted);
}

#[test]
fn what_was_there_is_kept_under_the_ref_that_is_named() {
    let env = two_turns();
    env.write("mine.txt", "only here\n").unwrap();
    let output = segue(&env, &["rewind", "1", "--turn", "1", "--json"]);
    let kept = json(&output.stdout)["kept_in"].as_str().unwrap().to_owned();
    assert_eq!(in_commit(&env, &kept, "mine.txt"), "only here\n");
    assert_eq!(in_commit(&env, &kept, "a.txt"), "two\n");
}

#[test]
fn an_open_turn_is_ended_by_a_rewind() {
    let (env, model) = scripted_in_git(SLOW_TOOL);
    let child = start_slow_tool(&env, &model);
    signal(&child, Signal::KILL);
    finish(child);
    let output = segue(&env, &["rewind", "1", "--turn", "0"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(names(&env), ["base.txt"]);
    assert_eq!(show(&env, "1")["status"], "rewound");
    let returned = data(&env, 1, "tool.returned");
    assert_eq!(
        returned.iter().map(|one| one["status"].clone()).collect::<Vec<_>>(),
        ["done", "may_have_run", "not_run"]
    );
    // Taken back, the turn is there and ended; the session waits for a prompt and claims nothing.
    assert_eq!(segue(&env, &["rewind", "1", "--undo"]).status, 0);
    assert_eq!(names(&env), ["base.txt", "begun.txt", "first.txt"]);
    assert_ne!(show(&env, "1")["status"], "completed");
    let output = segue(&env, &["resume", "1", "Look"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "I looked, and it is fine.\n"));
}

#[test]
fn a_workspace_without_git_can_only_go_back_in_its_conversation() {
    let (env, model) = scripted(TURNS);
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 0);
    assert_eq!(segue(&env, &["resume", "1", "Do two"]).status, 0);
    let before = (tree(&env.repo()), journal_bytes(&env, 1));
    let output = segue(&env, &["rewind", "1", "--turn", "1"]);
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("the files can't be brought back"), "{}", output.stderr);
    assert!(output.stderr.contains("--conversation-only"), "{}", output.stderr);
    assert_eq!((tree(&env.repo()), journal_bytes(&env, 1)), before);
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "1", "--conversation-only"]).status, 0);
    assert_eq!(tree(&env.repo()), before.0);
    let output = segue(&env, &["resume", "1", "Again"]);
    assert_eq!(output.stdout, "I go on.\nTurn 2 is done.\n");
}

#[test]
fn a_running_session_is_not_rewound() {
    let (env, model) = scripted_in_git(SLOW_TOOL);
    let child = start_slow_tool(&env, &model);
    let output = segue(&env, &["rewind", "1", "--turn", "0"]);
    assert!(output.stderr.contains("is in use") || output.status == 4, "{output:?}");
    assert!(!kinds(&env, 1).contains(&"rewind.started".to_owned()));
    assert!(Path::new(&env.repo().join("begun.txt")).exists());
    signal(&child, Signal::TERM);
    finish(child);
}

#[test]
fn what_a_rewind_broke_off_goes_on_when_it_is_taken_back() {
    let (env, model) = scripted_in_git(TURNS);
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 0);
    assert_eq!(segue(&env, &["resume", "1", "Do two", "--max-steps", "1"]).status, 3);
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "1"]).status, 0);
    assert_eq!(segue(&env, &["rewind", "1", "--undo"]).status, 0);
    let output = segue(&env, &["resume", "1", "--max-steps", "9"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stdout.contains("Turn 2 is done."), "{}", output.stdout);
    // The point at which it had been stopped can be gone back to as well.
    let output = segue(&env, &["rewind", "1", "--turn", "2", "--dry-run"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
}
