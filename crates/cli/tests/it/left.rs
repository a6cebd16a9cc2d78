//! A session that is left at a step: which one that is after a rewind, what whoever goes on is told of
//! the files, and what is there after a kill.

use std::{fs, path::PathBuf};

use segue_share::tine::Codec;
use segue_testkit::{
    env::{Output, TestEnv},
    model_server::Reply,
};
use serde_json::{Value, json};

use crate::{
    replay::{claim, ids, ok, refused},
    support::{
        ANTHROPIC, DONE, ask, data, journal_bytes, last_told, lines, scripted_in_git, segue, serve,
        show, tree, two_turns,
    },
};

/// Somebody who keeps what it is told and what it sees, beside its worktree.
const READER: &str = "exec:cat > ../told.txt; ls > ../seen.txt; echo Done.";

fn workspace(env: &TestEnv, session: &str) -> PathBuf {
    show(env, session)["workspace"].as_str().unwrap().into()
}

/// What the reader was told, and which files it saw.
fn read(env: &TestEnv, session: &str) -> (String, Vec<String>) {
    let at = workspace(env, session);
    let text = |name: &str| fs::read_to_string(at.join("..").join(name)).unwrap();
    (text("told.txt"), text("seen.txt").lines().map(str::to_owned).collect())
}

fn json_of(env: &TestEnv, args: &[&str]) -> Value {
    crate::support::json(&ok(env, args).stdout)
}

/// Of a session only its first events are left: its process was killed.
fn cut(env: &TestEnv, number: u64, events: usize) {
    let dir = env.session_dir(number).unwrap();
    let journal = dir.join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let kept: String = text.split_inclusive('\n').take(events).collect();
    fs::write(&journal, kept).unwrap();
    let _ = fs::remove_file(dir.join("state.json"));
}

#[test]
fn what_was_rewound_is_in_no_comparison_and_answers_nothing() {
    let env = two_turns();
    ok(&env, &["replay", "1", "--mode", "cache"]);
    ok(&env, &["diff", "1", "2", "--exit-code"]);
    ok(&env, &["rewind", "1", "--turn", "1"]);
    let output = segue(&env, &["diff", "1", "2", "--exit-code", "--json"]);
    assert_eq!(output.status, 1, "{}", output.stdout);
    let found = crate::support::json(&output.stdout);
    assert_eq!((&found["a"]["steps"], &found["b"]["steps"]), (&json!(5), &json!(9)), "{found}");
    assert_eq!((&found["shared_steps"], &found["same"]), (&json!(5), &json!(false)), "{found}");
    // Back before everything there is nobody left to answer from: nothing is done live unasked.
    ok(&env, &["rewind", "1", "--turn", "0"]);
    let output = segue(&env, &["replay", "1", "--mode", "cache", "--continue"]);
    assert_eq!(output.status, 2, "{}", output.stderr);
    assert!(output.stderr.contains("there is no step yet"), "{}", output.stderr);
    assert!(env.session_dir(3).is_err(), "nothing was made");
}

#[test]
fn a_fork_that_waits_is_told_of_its_files_with_what_it_is_asked_then() {
    let env = two_turns();
    // In the middle of turn 2: the files are those of the end of turn 1.
    ok(&env, &["fork", "1", "--from-step", "7", "--with", READER]);
    ok(&env, &["resume", "2", "Do it slowly"]);
    let (told, seen) = read(&env, "2");
    assert!(
        told.contains("Do it slowly\n\nThe files are as they were at the end of turn 1"),
        "{told}"
    );
    assert_eq!(seen, ["a.txt", "base.txt"]);
    // What it is called is what was asked, and it is told once.
    let title = show(&env, "2")["prompt"].to_string();
    assert!(!title.contains("The files are"), "{title}");
    ok(&env, &["resume", "2", "And again"]);
    assert!(!read(&env, "2").0.contains("And again\n\nThe files"), "told once");
}

#[test]
fn after_a_rewind_a_session_is_left_where_its_conversation_ends() {
    let env = two_turns();
    let all = ids(&env, "1");
    ok(&env, &["rewind", "1", "--turn", "1"]);
    // Turn 1 ends with step 4. Nothing comes after it: a fork goes on in the same directory.
    let plan = json_of(&env, &["fork", "1", "--dry-run", "--json"]);
    assert_eq!((&plan["step"], &plan["id"]), (&json!(4), &json!(all[4])), "{plan}");
    assert_eq!(plan["worktree"], false, "{plan}");
    let plan = json_of(&env, &["fork", "1", "--from-step", "main", "--dry-run", "--json"]);
    assert_eq!(plan["step"], 4, "{plan}");
    // The last step that there is was left behind, and its files with it.
    let plan = json_of(&env, &["fork", "1", "--from-step", "8", "--dry-run", "--json"]);
    assert_eq!((&plan["turn"], &plan["worktree"]), (&json!(2), &json!(true)), "{plan}");

    let replay = json_of(&env, &["replay", "1", "--mode", "cache", "--json"]);
    assert_eq!(replay["last"], json!(all[4]), "{replay}");
    assert_eq!(ids(&env, "2"), all[..5]);
    ok(&env, &["replay", "2", "--verify"]);
    assert_eq!(lines(&ok(&env, &["replay", "1", "--inspect", "--json"]).stdout).len(), 5);
    ok(&env, &["diff", "1", "2", "--exit-code"]);

    ok(&env, &["replay", "1", "--mode", "rerun", "--agent", READER]);
    let (told, _) = read(&env, "3");
    assert!(told.contains("Turn 1 is done.") && !told.contains("Do two"), "{told}");
    let output = segue(&env, &["fork", "1", "Do it another way"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "I go on.\nTurn 2 is done.\n"));
    assert_eq!(workspace(&env, "4"), env.repo());
}

#[test]
fn a_step_that_was_left_behind_is_left_with_its_own_conversation_and_files() {
    let env = two_turns();
    ok(&env, &["rewind", "1", "--turn", "1", "Another way"]);
    ok(&env, &["fork", "1", "--from-step", "8", "Go on there", "--with", READER]);
    let (told, seen) = read(&env, "2");
    for part in ["Do one", "Turn 1 is done.", "Do two", "Turn 2 is done."] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert!(!told.contains("Another way"), "{told}");
    assert_eq!(seen, ["a.txt", "b ü.txt"]);
    // A fork of the fork that goes back behind where it left, and is left there again.
    ok(&env, &["rewind", "2", "--turn", "1", "Back"]);
    ok(&env, &["fork", "2", "--from-step", "8", "Once more", "--with", READER]);
    let (told, _) = read(&env, "3");
    assert!(told.contains("Turn 2 is done.") && !told.contains("Back"), "{told}");
    for session in ["2", "3"] {
        ok(&env, &["replay", session, "--verify"]);
    }
}

#[test]
fn a_session_whose_last_step_is_a_proof_is_left_with_all_that_was_said() {
    let (env, _) = scripted_in_git(DONE);
    let server = serve(["First answer.", "Second answer."].map(Reply::text));
    let run = ["run", "First", "--model", ANTHROPIC, "--proof", "true"];
    assert_eq!(ask(&env, &server, &run).status, 0);
    assert_eq!(show(&env, "1")["turns"], 1);
    let output = ask(&env, &server, &["fork", "1", "Second"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(server.turns()[1].texts(), ["First", "First answer.", "Second"]);
    assert_eq!(show(&env, "2")["identity"]["lineage"]["base"]["turn"], 1);
}

#[test]
fn whoever_does_it_again_is_told_what_the_files_are() {
    let env = two_turns();
    ok(&env, &["replay", "1", "--mode", "cache"]);
    ok(&env, &["replay", "2", "--mode", "cache"]);
    ok(&env, &["fork", "1", "--from-step", "4", "Another way"]);
    // Of a replay of a replay, and of a fork: the start is that of the first session.
    for (source, number) in [("3", "5"), ("4", "6")] {
        ok(&env, &["replay", source, "--mode", "rerun", "--agent", READER]);
        let (told, seen) = read(&env, number);
        assert!(told.contains("as they were before any of this work was done"), "{told}");
        assert_eq!(seen, ["base.txt"], "{source}");
        assert_eq!(show(&env, number)["identity"]["lineage"]["mode"], "rerun");
    }
    // Of what came from a file, nobody has kept the files.
    ok(&env, &["export", "1", "--format", "tine", "-o", "../x.tine"]);
    ok(&env, &["import", "../x.tine"]);
    let output = ok(&env, &["replay", "7", "--mode", "rerun", "--agent", READER]);
    assert!(
        output.stderr.contains("as last committed: the start was not kept"),
        "{}",
        output.stderr
    );
    let (told, _) = read(&env, "8");
    assert!(told.contains("The files are as last committed."), "{told}");
    assert!(!told.contains("before any of this work"), "{told}");
    // And a fork of it says the same, in the same directory and elsewhere.
    ok(&env, &["fork", "7", "Go on", "--with", READER]);
    assert!(last_told(&env, 9).contains("The files are as they are now."));
    ok(&env, &["fork", "7", "Go on", "--with", READER, "--worktree"]);
    assert!(last_told(&env, 10).contains("The files are as last committed."));
}

#[test]
fn those_who_are_compared_in_the_middle_of_a_turn_are_told_what_the_files_are() {
    let (env, _) = scripted_in_git(DONE);
    let input = json!({ "path": "a.txt", "content": "one" });
    let server = serve([Reply::tool("write_file", input), Reply::text("Written.")]);
    assert_eq!(ask(&env, &server, &["run", "Write it", "--model", ANTHROPIC]).status, 0);
    let args = ["compare", "1", "--agents", READER, "--from-step", "2", "Go on"];
    let output = ok(&env, &args);
    assert!(output.stderr.contains("of their own, as before turn 1"), "{}", output.stderr);
    assert!(last_told(&env, 2).contains("The files are as they were before turn 1"));
    assert_eq!(read(&env, "2").1, ["base.txt"]);
    // The table has what each of them did, and not what all of them were told.
    let writer = "exec:echo x > x.txt; echo Done.";
    let args = ["compare", "1", "--agents", writer, "--from-step", "2", "Go on", "--json"];
    let one = json_of(&env, &args)["sessions"][0].clone();
    let numbers = ["turns", "steps", "files", "tokens", "unpriced_calls"].map(|key| &one[key]);
    assert_eq!(numbers, [1, 2, 1, 0, 0].map(Value::from).each_ref(), "{one}");
}

#[test]
fn killed_right_after_it_was_made_a_replay_is_complete_and_a_fork_waits_with_its_files() {
    let env = two_turns();
    let all = ids(&env, "1");
    ok(&env, &["replay", "1", "--mode", "cache"]);
    ok(&env, &["fork", "1", "--from-step", "4"]);
    for number in [2, 3] {
        cut(&env, number, 1);
    }
    assert_eq!((&show(&env, "2")["status"], ids(&env, "2")), (&json!("completed"), all));
    let before = (journal_bytes(&env, 2), journal_bytes(&env, 3));
    let said = ok(&env, &["resume", "2"]).stderr;
    assert!(said.contains("session 2 is completed: nothing to do"), "{said}");
    let said = ok(&env, &["resume", "3"]).stderr;
    assert!(said.contains("session 3 was forked, and waits for what to do"), "{said}");
    assert!((journal_bytes(&env, 2), journal_bytes(&env, 3)) == before);
    let repo = tree(&env.repo());
    let said = ok(&env, &["resume", "3", "Do it another way"]).stderr;
    let place = format!("workspace a worktree of its own, made of {}", env.repo().display());
    assert!(said.contains(&place), "{said}");
    assert!(said.contains("the files that it begins with are there"), "{said}");
    assert_eq!(tree(&env.repo()), repo);
    let at = workspace(&env, "3");
    assert_eq!(tree(&at).get("a.txt").map(String::as_str), Some("two\n"));
    assert!(!at.join("base.txt").exists(), "the script's second turn removes it");
}

#[test]
fn killed_right_after_it_was_made_a_session_begins_with_the_files_that_it_was_made_with() {
    let env = two_turns();
    let sees = "exec:ls > ../seen.txt; cat a.txt >> ../seen.txt; echo Done.";
    let rerun = ["replay", "1", "--mode", "rerun", "--agent", sees];
    let fork = ["fork", "1", "--from-step", "4", "Go", "--with", sees];
    let compare = ["compare", "1", "--agents", sees];
    let made: [(&[&str], &[&str]); 3] = [
        (&rerun, &["base.txt"]),
        (&fork, &["a.txt", "base.txt", "one"]),
        (&compare, &["base.txt"]),
    ];
    for ((args, files), number) in made.iter().zip(2..) {
        let _ = segue(&env, args);
        let name = number.to_string();
        assert_eq!(read_seen(&env, &name), *files, "{args:?}");
        let tree = workspace(&env, &name);
        let branch = data(&env, number, "worktree.planned")[0]["branch"].clone();
        crate::support::git(&env, &["worktree", "remove", "--force", tree.to_str().unwrap()]);
        crate::support::git(&env, &["branch", "-q", "-D", branch.as_str().unwrap()]);
        fs::remove_file(tree.with_file_name("seen.txt")).unwrap();
        cut(&env, number, 1);
        assert_eq!(show(&env, &name)["status"], "created");
        let _ = segue(&env, &["resume", &name]);
        assert_eq!(read_seen(&env, &name), *files, "{args:?}");
    }
}

fn read_seen(env: &TestEnv, session: &str) -> Vec<String> {
    let text = fs::read_to_string(workspace(env, session).join("../seen.txt")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_fork_that_waits_is_handed_over_without_touching_the_others_files() {
    let env = two_turns();
    ok(&env, &["fork", "1", "--from-step", "4"]);
    let before = tree(&env.repo());
    // Its files are known, and nothing of it is anywhere yet.
    let files = json_of(&env, &["diff", "1", "2", "--json"])["files"].clone();
    assert_eq!(files["same"], false, "{files}");
    refused(&env, &["accept", "2"], &["has made nothing yet", "segue resume 2"]);
    ok(&env, &["handoff", "2", "--to", READER]);
    assert_eq!(tree(&env.repo()), before);
    ok(&env, &["resume", "2", "Go on"]);
    assert_eq!(tree(&env.repo()), before);
    assert_eq!(read(&env, "2").1, ["a.txt", "base.txt"]);
}

#[test]
fn a_rerun_is_compared_by_what_was_done_in_it_and_says_that_it_is_one() {
    let env = two_turns();
    let all = ids(&env, "1");
    ok(&env, &["replay", "1", "--mode", "rerun", "--agent", READER]);
    // What comes from it is compared by the same.
    ok(&env, &["replay", "2", "--mode", "cache"]);
    for rerun in ["2", "3"] {
        let diff = json_of(&env, &["diff", "1", rerun, "--json"]);
        let (a, b) = (&diff["a"], &diff["b"]);
        assert_eq!((&a["steps"], &a["told"]), (&json!(all.len()), &json!(0)), "{diff}");
        assert_eq!((&b["steps"], &b["turns"]), (&json!(2), &json!(1)), "{diff}");
        assert_eq!(b["told"], json!(all.len()), "{diff}");
        assert_eq!((&b["agents"], &b["tools"]), (&json!([READER]), &json!({})), "{diff}");
        assert_eq!((&diff["shared_steps"], &diff["same"]), (&json!(0), &json!(false)), "{diff}");
        let first = &diff["first_difference"];
        let places = (&first["a"]["index"], &first["b"]["index"]);
        assert_eq!(places, (&json!(0), &json!(all.len())), "{diff}");
        let own = |side: &Value, of: &str| side["usage"][of].as_u64().unwrap();
        assert!(own(a, "input") > 0 && own(b, "input") == 0, "{diff}");
    }
    let text = ok(&env, &["diff", "1", "2"]).stdout;
    let told = format!("B did it again: the {} steps that it was told of", all.len());
    assert!(text.contains(&told), "{text}");
    // Two that did the same again are the same.
    ok(&env, &["replay", "1", "--mode", "rerun", "--agent", READER]);
    let diff = json_of(&env, &["diff", "2", "4", "--json"]);
    assert_eq!((&diff["same"], &diff["a"]["steps"]), (&json!(true), &json!(2)), "{diff}");

    for (session, mode, reused) in [("2", "rerun", all.len()), ("3", "cache", all.len() + 2)] {
        assert_eq!(show(&env, session)["identity"]["lineage"]["mode"], mode);
        let file = format!("../{session}.tine");
        ok(&env, &["export", session, "--format", "tine", "-o", &file]);
        let told = segue_share::tine::open(&env.repo().join(file)).unwrap();
        let told: Value = serde_json::from_slice(&told.to_bytes(Codec::Plain)).unwrap();
        let replay = &told["metadata"]["replay"];
        assert_eq!((&replay["mode"], &replay["reused_steps"]), (&json!(mode), &json!(reused)));
    }
    assert!(ok(&env, &["show", "2"]).stdout.contains("does again what was done in"));
    let graph = ok(&env, &["show", "1", "--graph"]).stdout;
    assert!(graph.contains("rerun/2"), "{graph}");
}

#[test]
fn what_a_session_says_of_its_beginning_is_verified_field_by_field() {
    let env = two_turns();
    ok(&env, &["rewind", "1", "--turn", "1", "Another way"]);
    let whole = {
        ok(&env, &["replay", "1", "--mode", "cache"]);
        fs::read(env.session_dir(2).unwrap().join("journal.jsonl")).unwrap()
    };
    ok(&env, &["replay", "2", "--verify"]);
    let base = show(&env, "2")["identity"]["lineage"]["base"].clone();
    let follows = base["frontier"][0].as_str().unwrap().to_owned();
    let from = base["offset"].as_u64().unwrap() as usize;
    let first = fs::read(env.session_dir(1).unwrap().join("journal.jsonl")).unwrap();
    let line = first[from..].split(|byte| *byte == b'\n').next().unwrap();
    let place = format!("\"offset\":{from},\"link\":{}", base["link"]);
    let link = segue_journal::line::Link::to(line);
    let next = format!("\"offset\":{},\"link\":\"{}\"", from + line.len() + 1, link.as_str());
    let claims = [
        ("\"turn\":3", "\"turn\":2", "the turn of step"),
        ("\"path\":[{\"from\":1,\"to\":1}", "\"path\":[{\"from\":1,\"to\":2}", "its path"),
        (&format!("\"frontier\":[\"{}", &follows[..6]), "\"frontier\":[\"000000", "what follows"),
        (&format!("\"seq\":{},\"offset\"", base["seq"]), "\"seq\":7,\"offset\"", "the last event"),
        (
            &format!("\"steps\":{},", base["steps"]),
            "\"steps\":99,",
            "the number of its first steps",
        ),
        (&format!("\"offset\":{},", base["offset"]), "\"offset\":7,", "is no longer what it was"),
        // To the end of the next line, whose hash is right.
        (&place, &next, "the end in the journal"),
    ];
    for (was, is, found) in claims {
        claim(&env, 2, was, is);
        let output = segue(&env, &["replay", "2", "--verify", "--json"]);
        assert_eq!(output.status, 1, "{is}: {}", output.stdout);
        let told = crate::support::json(&output.stdout);
        let all = format!("{}{}", told["structure"], told["source"]);
        assert!(all.contains(found), "{is}: {told}");
        fs::write(env.session_dir(2).unwrap().join("journal.jsonl"), &whole).unwrap();
        let _ = fs::remove_file(env.session_dir(2).unwrap().join("state.json"));
        let first = whole.split(|byte| *byte == b'\n').next().unwrap();
        let first: Value = serde_json::from_slice(first).unwrap();
        let identity = serde_json::to_vec_pretty(&first["data"]["identity"]).unwrap();
        fs::write(env.session_dir(2).unwrap().join("session.json"), identity).unwrap();
    }
    ok(&env, &["replay", "2", "--verify"]);
}

#[test]
fn what_was_left_behind_is_not_told_as_reused() {
    let env = two_turns();
    let all = ids(&env, "1");
    ok(&env, &["rewind", "1", "--turn", "1", "Another way"]);
    let now = ids(&env, "1");
    let own: Vec<&String> = now[..5].iter().chain(&now[9..]).collect();
    let told = |args: &[&str]| {
        let steps = lines(&ok(&env, args).stdout);
        let ids = steps.iter().map(|step| step["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert!(told(&["replay", "1", "--inspect", "--json"]).iter().eq(own.iter().copied()));
    assert!(
        told(&["log", "1", "--steps", "--up-to", "main", "--json"]).iter().eq(own.iter().copied())
    );
    assert_eq!(told(&["log", "1", "--steps", "--up-to", "8", "--json"]), all);
    assert_eq!(told(&["log", "1", "--steps", "--up-to", "8", "-n", "1", "--json"]), all[8..]);
    let output = segue(&env, &["log", "1", "--up-to", "8"]);
    assert_eq!(output.status, 2, "{}", output.stderr);

    let output = ok(&env, &["replay", "1", "--mode", "cache", "--json"]);
    let replay = crate::support::json(&output.stdout);
    assert_eq!(replay["steps"], json!(own.len()));
    let lineage = show(&env, "2")["identity"]["lineage"].clone();
    let (base, spent) = (&lineage["base"], &lineage["base"]["spent"]["usage"]);
    assert_eq!((&base["steps"], &base["retained"]), (&json!(now.len()), &json!(own.len())));
    // Each of the script's replies has cost 110 tokens; two of them were left behind.
    let replies = lines(&ok(&env, &["log", "1", "--steps", "--json"]).stdout);
    let replies = replies.iter().filter(|step| step["kind"] == "reply").count() as u64 - 2;
    let all = spent["input"].as_u64().unwrap() + spent["output"].as_u64().unwrap();
    assert_eq!(all, 110 * replies, "{lineage}");
    ok(&env, &["replay", "2", "--verify"]);
    assert_eq!(ids(&env, "2"), now, "the beginning is shared as it is");
}

#[test]
fn where_the_repository_has_moved_its_new_place_is_named() {
    let env = two_turns();
    let moved = env.path("moved");
    fs::rename(env.repo(), &moved).unwrap();
    let run = |args: &[&str]| {
        let mut command = env.command(args);
        Output::of(command.current_dir(env.home())).unwrap()
    };
    let fork = ["fork", "1", "--from-step", "4", "Go on", "--with", READER];
    let rerun = ["replay", "1", "--mode", "rerun", "--agent", READER];
    let left: [(&[&str], &[&str]); 4] = [
        (&fork, &["a.txt", "base.txt"]),
        (&rerun, &["base.txt"]),
        (&["compare", "1", "--agents", READER], &["base.txt"]),
        (&["replay", "1", "--continue"], &[]),
    ];
    for (args, files) in left {
        let output = run(args);
        assert_eq!(output.status, 1, "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains("--dir"), "{args:?}: {}", output.stderr);
        let _ = fs::remove_file(env.path("seen.txt"));
        let there = [args, &["--dir", moved.to_str().unwrap()]].concat();
        let output = run(&there);
        assert_eq!(output.status, 0, "{args:?}: {}", output.stderr);
        let seen = fs::read_to_string(env.path("seen.txt")).unwrap_or_default();
        assert_eq!(seen.lines().collect::<Vec<_>>(), files, "{args:?}");
    }
    assert!(!env.repo().exists());
}

#[test]
fn what_nobody_has_worked_in_is_left_with_the_files_of_its_last_shared_step() {
    let env = two_turns();
    ok(&env, &["replay", "1", "--mode", "cache"]);
    let after = ["a.txt", "b ü.txt"];
    for (number, step) in [("3", "main"), ("4", "base"), ("5", "8")] {
        ok(&env, &["fork", "2", "--from-step", step, "Go on", "--with", READER, "--worktree"]);
        assert_eq!(read(&env, number).1, after, "{step}");
    }
    ok(&env, &["compare", "2", "--agents", READER, "--from-step", "main", "Go on"]);
    assert_eq!(read(&env, "6").1, after);
    // At an earlier step they are those of the end of that turn.
    ok(&env, &["fork", "2", "--from-step", "4", "Go on", "--with", READER]);
    assert_eq!(read(&env, "7").1, ["a.txt", "base.txt"]);
    // What has left in the middle of a turn does not have the files of its end.
    ok(&env, &["fork", "1", "--from-step", "7"]);
    ok(&env, &["fork", "8", "Go on", "--with", READER, "--worktree"]);
    assert_eq!(read(&env, "9").1, ["a.txt", "base.txt"]);
    assert!(last_told(&env, 9).contains("as they were at the end of turn 1"));
    let output = segue(&env, &["rewind", "8", "--turn", "2", "--dry-run"]);
    assert!(output.stderr.contains("turn 2 has no checkpoint"), "{}", output.stderr);
    ok(&env, &["rewind", "2", "--turn", "2", "--dry-run"]);
}

#[test]
fn what_is_on_the_path_is_told_alike_everywhere() {
    let env = two_turns();
    ok(&env, &["rewind", "1", "--turn", "1"]);
    ok(&env, &["handoff", "1", "--to", READER]);
    let everywhere = |last: u64, behind: &[u64]| {
        let steps = lines(&ok(&env, &["log", "1", "--steps", "--json"]).stdout);
        let graph = json_of(&env, &["show", "1", "--graph", "--json"]);
        for steps in [&steps[..], graph["nodes"].as_array().unwrap()] {
            let left = steps.iter().filter(|step| step["left_behind"] == true);
            let left: Vec<u64> = left.map(|step| step["index"].as_u64().unwrap()).collect();
            assert_eq!(left, behind);
        }
        let refs = graph["refs"].as_array().unwrap();
        let main = refs.iter().find(|one| one["name"] == "main").unwrap();
        assert_eq!(main["index"], last, "{graph}");
        let plan = json_of(&env, &["fork", "1", "--from-step", "main", "--dry-run", "--json"]);
        assert_eq!(plan["step"], last, "{plan}");
        let told = lines(&ok(&env, &["replay", "1", "--inspect", "--json"]).stdout);
        assert_eq!(told.last().unwrap()["index"], last);
        assert!(told.iter().all(|step| step["left_behind"] == false));
    };
    // Turn 2, the steps from 5 to 8, was left behind; the hand-off comes after turn 1.
    everywhere(9, &[5, 6, 7, 8]);
    let kind = lines(&ok(&env, &["log", "1", "--steps", "--json"]).stdout)[9]["kind"].clone();
    assert_eq!(kind, "hand_off");
}

#[test]
fn main_in_the_graph_is_where_one_can_go_on() {
    let env = two_turns();
    // Its process was killed while calls of its first reply had no answer.
    let events = env.journal(1).unwrap();
    let called = events.iter().position(|event| event["kind"] == "tool.returned").unwrap();
    cut(&env, 1, called + 1);
    let graph = json_of(&env, &["show", "1", "--graph", "--json"]);
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 3, "{graph}");
    let refs = graph["refs"].as_array().unwrap();
    let main = refs.iter().find(|one| one["name"] == "main").unwrap();
    let plan = json_of(&env, &["fork", "1", "--from-step", "main", "--dry-run", "--json"]);
    assert_eq!((&main["index"], &main["step"]), (&plan["step"], &plan["id"]), "{graph}");
}

#[test]
fn an_agent_that_cannot_take_up_its_own_conversation_is_told_what_was_said() {
    let (env, _) = scripted_in_git(DONE);
    ok(&env, &["run", READER, "First thing"]);
    ok(&env, &["resume", "1", "Second thing"]);
    let told = fs::read_to_string(env.path("told.txt")).unwrap();
    for part in ["First thing", "Done.", "Second thing"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // Nobody can answer for it: that is refused, and nothing is made.
    let words = ["only the native agent", "--mode rerun --agent exec:"];
    refused(&env, &["replay", "1", "--mode", "cache", "--continue"], &words);
}
