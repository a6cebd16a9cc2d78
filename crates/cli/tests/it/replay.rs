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

use crate::again::recorded;
use crate::support::{CHAT, ask, files_below, git, lines, segue, serve, show, tree, two_turns};

/// The steps of a session: their ids.
pub(crate) fn ids(env: &TestEnv, session: &str) -> Vec<String> {
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
pub(crate) fn refused(env: &TestEnv, args: &[&str], words: &[&str]) {
    let before = everything(env);
    let output = segue(env, args);
    assert_eq!(output.status, 2, "{args:?}: {}{}", output.stdout, output.stderr);
    for word in words {
        assert!(output.stderr.contains(word), "{args:?}: {word} is not in {}", output.stderr);
    }
    assert!(everything(env) == before, "{args:?} has changed something");
}

pub(crate) fn ok(env: &TestEnv, args: &[&str]) -> Output {
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
        proof: None,
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
    // Where it can't be written, the session is there all the same, and that is said.
    let output = segue(&env, &["replay", "1", "--save", "/proc/x.tine"]);
    assert_eq!(output.status, 1, "{}", output.stderr);
    assert!(output.stderr.contains("session 4 was made"), "{}", output.stderr);
    // A rerun as a file: the steps that it was told of, and its own.
    let rerun = ["replay", "1", "--mode", "rerun", "--agent", "exec:echo Done.", "--save"];
    let output = ok(&env, &[&rerun[..], &["../again.tine"]].concat());
    assert!(output.stderr.contains("written to"), "{}", output.stderr);
    let output = ok(&env, &["replay", "../again.tine", "--inspect", "--json"]);
    assert!(output.stderr.contains("session 5 is "), "{}", output.stderr);
    assert_eq!(lines(&output.stdout).len(), ids(&env, "1").len() + 2);
    // A word with a dot in it is a name, like any other.
    let output = ok(&env, &["replay", "1", "--save", "v1.2"]);
    assert!(!output.stderr.contains("written to"), "{}", output.stderr);
    assert_eq!(show(&env, "v1.2")["number"], 6);
}

#[test]
fn a_file_is_a_session_as_well() {
    let env = two_turns();
    ok(&env, &["export", "1", "-o", "finished.tine"]);
    let all = ids(&env, "1");
    // The one that it was written from, as long as that has not gone on.
    let output = ok(&env, &["replay", "finished.tine", "--inspect", "--json"]);
    assert!(output.stderr.contains("session 1 is "), "{}", output.stderr);
    assert_eq!(lines(&output.stdout).len(), all.len());
    let output = ok(&env, &["resume", "./finished.tine", "More"]);
    assert!(output.stderr.contains("session 1 is "), "{}", output.stderr);
    assert!(ids(&env, "1").len() > all.len());
    // Then it is one that is made of the file, once.
    for word in ["was made of", "is"] {
        let output = ok(&env, &["replay", "finished.tine", "--from-step", "3", "--dry-run"]);
        assert!(output.stderr.contains(&format!("session 2 {word} ")), "{}", output.stderr);
    }
    ok(&env, &["replay", "finished.tine", "--mode", "cache", "--save", "replayed.tine"]);
    assert_eq!(ids(&env, "2").len(), all.len());
    ok(&env, &["diff", "finished.tine", "replayed.tine", "--exit-code"]);
    ok(&env, &["fork", "finished.tine"]);
    // Elsewhere a hint has to do.
    let output = segue(&env, &["accept", "finished.tine"]);
    assert_eq!(output.status, 4, "{}", output.stderr);
    assert!(output.stderr.contains("segue import finished.tine"), "{}", output.stderr);
    // By a program of somebody else: here it goes on, elsewhere the file says that it does not.
    ok(&env, &["run", "--new", "exec:cat", "Tell me"]);
    ok(&env, &["export", "5", "-o", "theirs.tine"]);
    ok(&env, &["resume", "theirs.tine", "More"]);
    // A file of our own agent that has gone on elsewhere still stands for what is in it.
    let elsewhere = env.path("elsewhere").display().to_string();
    for (number, before) in [("1", None), ("2", Some("session 1, made of it before"))] {
        let args = ["resume", "finished.tine", "More", "--home", &elsewhere];
        let output = ok(&env, &args);
        let made = format!("session {number} was made of ");
        assert!(output.stderr.contains(&made), "{}", output.stderr);
        assert!(before.is_none_or(|text| output.stderr.contains(text)), "{}", output.stderr);
    }
    let inspect = ["replay", "finished.tine", "--inspect", "--json", "--home", &elsewhere];
    let output = ok(&env, &inspect);
    assert_eq!(lines(&output.stdout).len(), all.len());
    let elsewhere = env.path("another").display().to_string();
    ok(&env, &["export", "5", "-o", "theirs.tine", "--force"]);
    let output = segue(&env, &["resume", "theirs.tine", "More", "--home", &elsewhere]);
    assert_eq!(output.status, 2, "{}", output.stderr);
    assert!(output.stderr.contains("resume: false"), "{}", output.stderr);
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
    // A word, and everything after it made to fit: the session says what it says now, and what was
    // made of it before finds that out.
    fs::write(&journal, forged(&whole, "I begin.", "I began.")).unwrap();
    for file in ["state.json", "steps.idx"] {
        let _ = fs::remove_file(env.session_dir(1).unwrap().join(file));
    }
    ok(&env, &["replay", "1", "--verify"]);
    let source = found("2")["source"][0].as_str().unwrap().to_owned();
    assert!(source.contains("no longer what it was"), "{source}");
    // It is the other one that has to be looked at.
    assert_eq!(found("2")["damaged"], show(&env, "1")["identity"]["id"]);
    let output = segue(&env, &["replay", "2", "--verify"]);
    assert_eq!(crate::support::last_words(&output).trim(), "hint: segue verify 1");
    fs::write(&journal, &whole).unwrap();
    ok(&env, &["replay", "2", "--verify"]);
    let output = segue(&env, &["replay", "7", "--verify"]);
    assert_eq!(output.status, 4, "{}", output.stderr);
}

#[test]
fn flags_that_a_mode_cannot_honour_are_refused() {
    let env = two_turns();
    let cases: [(&[&str], &str); 24] = [
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
        (&["--mode", "cache", "--max-turns", "3"], "--max-turns"),
        (&["--inspect", "--max-cost", "3"], "--max-cost"),
        (&["--inspect", "--mode", "rerun", "--agent", "nobody"], "--agent"),
        (&["--dry-run", "--mode", "rerun"], "--mode rerun"),
        (&["--verify", "--mode", "rerun", "--agent", "native", "--permission", "edit"], "--agent"),
        (&["--verify", "--mode", "rerun", "--permission", "edit"], "--mode rerun"),
        (&["--save", "again", "--force"], "--force"),
        (&["--inspect", "--dir", "."], "--dir"),
        (&["--mode", "cache", "--dir", "."], "--dir"),
        (&["--save", "../again"], "neither a name nor a file"),
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
fn a_step_is_named_by_those_who_left_there() {
    let env = two_turns();
    let all = ids(&env, "1");
    ok(&env, &["fork", "1", "--from-step", "4"]);
    let graph = ok(&env, &["show", "1", "--graph"]).stdout;
    assert!(graph.contains("(fork/2)") && graph.contains("(main)"), "{graph}");
    let graph = ok(&env, &["show", "2", "--graph"]).stdout;
    assert!(graph.contains("base, main"), "{graph}");
    for (session, step) in [("1", "fork/2"), ("2", "base"), ("2", "main")] {
        let inspect = ["replay", session, "--inspect", "--from-step", step, "--json"];
        assert_eq!(lines(&ok(&env, &inspect).stdout).len(), 5, "{session} {step}");
    }
    ok(&env, &["replay", "1", "--from-step", "fork/2"]);
    assert_eq!(ids(&env, "3"), all[..5]);
    ok(&env, &["fork", "1", "--from-step", "replay/3"]);
    let compare = ["compare", "1", "--agents", "exec:cat", "--from-step", "fork/4", "Go on"];
    assert!(ok(&env, &compare).stderr.contains("as after that step"));
    for word in ["fork/9", "base", "fork/"] {
        refused(&env, &["fork", "1", "--from-step", word], &["segue log 1 --steps"]);
        refused(&env, &["replay", "1", "--inspect", "--from-step", word], &["segue log 1 --steps"]);
    }
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
    let shown = ok(&env, &["show", "2"]).stdout;
    assert!(shown.contains("segue fork 2") && !shown.contains("segue resume"), "{shown}");
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
    assert!(seen.contains("base\\nbase.txt\\n"), "{seen}");
    assert_eq!(show(&env, "by-native")["identity"]["lineage"]["how"], "replayed");
    // What it did beside what was done: not what it was told of.
    let compared = output.stdout.split_once("Done again.\n").unwrap().1;
    let compared: Vec<&str> = compared.lines().filter(|line| !line.starts_with("time: ")).collect();
    insta::assert_snapshot!("rerun_compared", crate::steps::without_ids(&compared.join("\n")));
}

#[test]
fn a_comparison_for_programs_is_one_more_line() {
    let env = two_turns();
    let rerun = ["replay", "1", "--mode", "rerun", "--agent", "exec:echo Done.", "--compare"];
    let output = ok(&env, &[&rerun[..], &["--json"]].concat());
    let told = lines(&output.stdout);
    let [.., result, compared] = &told[..] else { panic!("{}", output.stdout) };
    assert_eq!(result["result"]["session"], "2");
    let compared = &compared["compared"];
    assert_eq!((&compared["a"]["number"], &compared["b"]["number"]), (&json!(1), &json!(2)));
    // A prompt and a reply, beside all that was done first.
    let (theirs, own) = (&compared["a"]["steps"], &compared["b"]["steps"]);
    assert_eq!((theirs, own), (&json!(ids(&env, "1").len()), &json!(2)));
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

/// The journal with another word in it, and with checksums and links that fit.
fn forged(whole: &str, was: &str, is: &str) -> String {
    let mut link = None;
    let mut lines = String::new();
    for line in whole.replacen(was, is, 1).lines() {
        let (mut body, _) = line.rsplit_once(",\"crc\":").unwrap();
        let linked;
        if let (Some(link), Some((before, _))) = (&link, body.rsplit_once(",\"prev\":")) {
            linked = format!("{before},\"prev\":\"{link}\"");
            body = &linked;
        }
        let line = format!("{body},\"crc\":\"{:08x}\"}}", crc32c::crc32c(body.as_bytes()));
        link = Some(segue_journal::line::Link::to(line.as_bytes()).as_str().to_owned());
        lines.push_str(&line);
        lines.push('\n');
    }
    lines
}

/// What a replay says of itself, changed by somebody.
pub(crate) fn claim(env: &TestEnv, number: u64, was: &str, is: &str) {
    let dir = env.session_dir(number).unwrap();
    let journal = dir.join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    let changed = forged(&whole, was, is);
    assert_ne!(whole, changed, "{was}");
    let first: Value = serde_json::from_str(changed.lines().next().unwrap()).unwrap();
    let identity = serde_json::to_vec_pretty(&first["data"]["identity"]).unwrap();
    fs::write(&journal, changed).unwrap();
    fs::write(dir.join("session.json"), identity).unwrap();
    let _ = fs::remove_file(dir.join("state.json"));
}

#[test]
fn structure_and_accounts_are_told_apart() {
    let env = recorded();
    for _ in 0..3 {
        ok(&env, &["replay", "1", "--mode", "cache"]);
    }
    let findings = |number: u64| {
        let output = segue(&env, &["replay", &number.to_string(), "--verify", "--json"]);
        assert_eq!(output.status, 1, "{}{}", output.stdout, output.stderr);
        let found = crate::support::json(&output.stdout);
        assert_eq!(found["source"], json!([]), "{found}");
        found
    };
    // It says that it cost something else.
    let identity = show(&env, "2")["identity"].clone();
    let spent = identity["lineage"]["base"]["spent"]["usage"]["input"].as_u64().unwrap();
    claim(&env, 2, &format!("\"input\":{spent}"), &format!("\"input\":{}", spent + 1));
    let found = findings(2);
    assert_eq!(found["structure"], json!([]), "{found}");
    assert!(found["accounting"][0].as_str().unwrap().contains("tokens"), "{found}");
    // It says that its last step was another one.
    let last = ids(&env, "1").pop().unwrap();
    claim(&env, 3, &last, &last.replace(&last[..4], "0000"));
    let found = findings(3);
    assert_eq!(found["accounting"], json!([]), "{found}");
    assert!(found["structure"][0].as_str().unwrap().contains(&last[..10]), "{found}");
    // The others are as they were.
    ok(&env, &["replay", "4", "--verify"]);
}

#[test]
fn an_index_of_steps_that_says_something_else_is_found() {
    let env = two_turns();
    let dir = env.session_dir(1).unwrap();
    lengthen(&dir, 300);
    ok(&env, &["replay", "1", "--verify"]);
    let index = dir.join("steps.idx");
    let all = ids(&env, "1");
    let mut bytes = fs::read(&index).unwrap();
    // One bit is damage of a cache: nothing that is told follows from it.
    bytes[62 * 40] ^= 1;
    fs::write(&index, &bytes).unwrap();
    let plan = ok(&env, &["fork", "1", "--from-step", "40", "--dry-run", "--json"]).stdout;
    assert_eq!(crate::support::json(&plan)["id"], all[40]);
    fs::write(&index, &bytes).unwrap();
    ok(&env, &["replay", "1", "--verify"]);
    // Another step, made to fit.
    let crc = crc32c::crc32c(&40u64.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &bytes[62 * 40..62 * 40 + 58]);
    bytes[62 * 40 + 58..62 * 41].copy_from_slice(&crc.to_le_bytes());
    fs::write(&index, bytes).unwrap();
    let output = segue(&env, &["replay", "1", "--verify"]);
    assert_eq!(output.status, 1, "{}", output.stderr);
    let told = format!("{}{}", output.stdout, output.stderr);
    assert!(told.contains("step 40 is another one than steps.idx says"), "{told}");
}

/// So many turns more, as somebody would have had them.
fn lengthen(dir: &std::path::Path, turns: u32) {
    use segue_core::event::{Cause, Draft, Outcome, TextWritten, TurnEnded, TurnStarted};
    let me = Holder { pid: std::process::id(), host: "here".into(), since: jiff::Timestamp::now() };
    let clock: segue_journal::Clock = Arc::new(jiff::Timestamp::now);
    let session = Session::open(Arc::new(RealDisk), dir).unwrap();
    let (mut session, _) = session.lock(&me, clock).unwrap();
    for _ in 0..turns {
        let number = session.state().turn.number + 1;
        let text = segue_core::Payload::inline(format!("Turn {number}"));
        let said = TextWritten { text: text.clone(), partial: false };
        let drafts = vec![
            Draft::from(TurnStarted::new(text, Cause::Person)),
            Draft::from(said),
            Draft::from(TurnEnded::with(Outcome::Finished)),
        ];
        let drafts = drafts.into_iter().map(|draft| draft.in_turn(number, "native")).collect();
        session.append_all(drafts, Durability::Soon).unwrap();
    }
}

/// Every way to leave a session, and to tell it again.
fn nothing_leaves(env: &TestEnv, word: &str) {
    for args in [
        &["fork", "1", "Go on"][..],
        &["fork", "1"],
        &["replay", "1"],
        &["replay", "1", "--inspect"],
        &["replay", "1", "--verify"],
        &["replay", "1", "--continue"],
        &["replay", "1", "--mode", "rerun", "--agent", "exec:cat"],
        &["compare", "1", "--agents", "exec:cat", "Do it"],
    ] {
        refused(env, args, &[word]);
    }
}

#[test]
fn a_list_of_tasks_is_not_left_as_a_whole() {
    use crate::task_runs::{ACCEPT, list, run, work};
    let env = list(1);
    let output = run(&env, &work(1, "one"), ACCEPT, &[]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    nothing_leaves(&env, "list of tasks");
}

#[test]
fn a_crew_is_not_left_as_a_whole() {
    let env = two_turns();
    claim(&env, 1, "\"loop\":\"solo\"", "\"loop\":\"crew\"");
    nothing_leaves(&env, "session 1 is a crew");
}
