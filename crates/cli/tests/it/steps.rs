//! A session as a graph of steps: looked at, left at any of them, compared, and taken over.

use std::{fs, path::PathBuf};

use segue_testkit::{env::TestEnv, model_server::Reply};
use serde_json::Value;

use crate::terminal::{SEGUE, Tmux};

use crate::support::{
    ANTHROPIC, DONE, ask, git, journal_bytes, json, kinds, last_words, lines, plain,
    scripted_in_git, segue, serve, show, tree, two_turns,
};

/// The steps of a session, as `segue log --steps --json` tells them.
fn steps(env: &TestEnv, session: &str) -> Vec<Value> {
    let output = segue(env, &["log", session, "--steps", "--json"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    lines(&output.stdout)
}

fn ids(env: &TestEnv, session: &str) -> Vec<String> {
    let id = |step: &Value| step["id"].as_str().unwrap().to_owned();
    steps(env, session).iter().map(id).collect()
}

/// The number of the last step of a turn.
fn end_of(env: &TestEnv, session: &str, turn: u64) -> String {
    let steps = steps(env, session);
    let last = steps.iter().rev().find(|step| step["turn"] == turn).unwrap();
    last["index"].to_string()
}

fn workspace(env: &TestEnv, session: &str) -> PathBuf {
    show(env, session)["workspace"].as_str().unwrap().into()
}

/// Runs Segue, which has to succeed.
fn done(env: &TestEnv, args: &[&str]) -> String {
    let output = segue(env, args);
    assert_eq!(output.status, 0, "{args:?}: {}", output.stderr);
    output.stderr
}

/// The ids are made from the content, which has paths of the test in it.
pub(crate) fn without_ids(text: &str) -> String {
    let hex = |word: &str| word.len() == 10 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let without = |word: &str| match word.trim_matches(['(', ')', ':', ',']) {
        id if hex(id) => word.replace(id, "$STEP"),
        _ => word.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(without).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn steps_are_listed_with_number_id_kind_agent_and_cost() {
    let env = two_turns();
    let all = steps(&env, "1");
    let told: Vec<(u64, &str)> = all
        .iter()
        .map(|step| (step["turn"].as_u64().unwrap(), step["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            (1, "prompt"),
            (1, "reply"),
            (1, "tool"),
            (1, "tool"),
            (1, "reply"),
            (2, "prompt"),
            (2, "reply"),
            (2, "tool"),
            (2, "reply"),
        ]
    );
    for (index, step) in all.iter().enumerate() {
        assert_eq!(step["index"], index);
        assert_eq!(step["id"].as_str().unwrap().len(), 64);
        assert_eq!(step["agent"], "native");
    }
    // Both answers of one reply follow from it, and the next reply from both.
    let parents = |index: usize| all[index]["parents"].as_array().unwrap().clone();
    assert_eq!(parents(2), [all[1]["id"].clone()]);
    assert_eq!(parents(3), [all[1]["id"].clone()]);
    assert_eq!(parents(4), [all[2]["id"].clone(), all[3]["id"].clone()]);
    let text = plain(&env, &segue(&env, &["log", "1", "--steps"]));
    insta::assert_snapshot!("steps", without_ids(&text));
    let text = plain(&env, &segue(&env, &["log", "1", "--steps", "-n", "2"]));
    assert!(text.contains("Turn 2 is done.") && !text.contains("Do one"), "{text}");
}

#[test]
fn a_graph_shows_what_was_left_behind_and_who_went_on_from_where() {
    let env = two_turns();
    let end = end_of(&env, "1", 1);
    done(&env, &["rewind", "1", "--turn", "1", "Do it another way"]);
    done(&env, &["fork", "1", "--from-step", &end, "Try it", "--name", "other-way"]);
    let text = plain(&env, &segue(&env, &["show", "1", "--graph"]));
    insta::assert_snapshot!("graph", without_ids(&text));
    let graph = json(&segue(&env, &["show", "1", "--graph", "--json"]).stdout);
    let refs = graph["refs"].as_array().unwrap();
    let named = |kind: &str| refs.iter().find(|one| one["kind"] == kind).unwrap();
    assert_eq!(named("fork")["index"].to_string(), end);
    assert!(named("main")["index"].as_u64().unwrap() > 9);
    let own = json(&segue(&env, &["show", "other-way", "--graph", "--json"]).stdout);
    assert_eq!(
        own["begins_with"]["steps"].to_string(),
        (end.parse::<u64>().unwrap() + 1).to_string()
    );
}

#[test]
fn a_fork_at_an_earlier_step_has_its_files_and_its_conversation_and_copies_nothing() {
    let env = two_turns();
    let before = (journal_bytes(&env, 1), tree(&env.repo()), git(&env, &["status", "--porcelain"]));
    let end = end_of(&env, "1", 1);
    let output = segue(&env, &["fork", "1", "--from-step", &end, "Do it another way"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    // The script's next reply is that of the second turn: the conversation is the shorter one.
    assert_eq!(output.stdout, "I go on.\nTurn 2 is done.\n");
    assert_eq!(journal_bytes(&env, 1), before.0, "the other session stays as it is");
    assert_eq!(tree(&env.repo()), before.1, "and so do its files");
    assert_eq!(git(&env, &["status", "--porcelain"]), before.2);
    let at = workspace(&env, "2");
    assert_ne!(at, env.repo());
    assert_eq!(fs::read_to_string(at.join("a.txt")).unwrap(), "two\n");
    // Only what is new stands in its own journal.
    let prompts = kinds(&env, 2).iter().filter(|kind| *kind == "turn.started").count();
    assert_eq!(prompts, 1);
    let (first, second) = (ids(&env, "1"), ids(&env, "2"));
    let shared: usize = end.parse::<usize>().unwrap() + 1;
    assert_eq!(first[..shared], second[..shared]);
    assert_ne!(first[shared], second[shared]);
    assert_eq!(segue(&env, &["verify", "2"]).status, 0);
    assert_eq!(segue(&env, &["replay", "2", "--verify"]).status, 0);
}

#[test]
fn the_model_of_a_fork_hears_what_was_said_up_to_the_step_and_nothing_after_it() {
    let (env, _) = scripted_in_git(DONE);
    let server = serve(["First answer.", "Second answer.", "Another answer."].map(Reply::text));
    assert_eq!(ask(&env, &server, &["run", "First", "--model", ANTHROPIC]).status, 0);
    assert_eq!(ask(&env, &server, &["resume", "1", "Second"]).status, 0);
    let id = ids(&env, "1")[1].clone();
    let output = ask(&env, &server, &["fork", "1", "--from-step", &id[..12], "Another"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "Another answer.\n"));
    assert_eq!(server.turns()[2].texts(), ["First", "First answer.", "Another"]);
    // A fork of the fork knows both, and so does one of a replay of it.
    server.push(Reply::text("Third answer."));
    server.push(Reply::text("Fourth answer."));
    assert_eq!(ask(&env, &server, &["fork", "2", "More"]).status, 0);
    let all = ["First", "First answer.", "Another", "Another answer.", "More"];
    assert_eq!(server.turns()[3].texts(), all);
    assert_eq!(ask(&env, &server, &["replay", "3", "--save", "again"]).status, 0);
    assert_eq!(ask(&env, &server, &["resume", "again", "And more"]).status, 0);
    assert_eq!(server.turns()[4].texts()[..5], all);
    assert_eq!(server.turns()[4].texts()[5..], ["Third answer.", "And more"]);
}

#[test]
fn a_fork_without_a_prompt_waits_and_has_its_files_when_somebody_goes_on() {
    let env = two_turns();
    let end = end_of(&env, "1", 1);
    let said = done(&env, &["fork", "1", "--from-step", &end]);
    assert!(said.ends_with("segue resume 2 \"what to do\"\n"), "{said}");
    let before = journal_bytes(&env, 2);
    let said = done(&env, &["resume", "2"]);
    assert!(said.contains("session 2 was forked, and waits for what to do"), "{said}");
    assert_eq!(journal_bytes(&env, 2), before);
    let output = segue(&env, &["resume", "2", "Do it another way"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "I go on.\nTurn 2 is done.\n"));
    let at = workspace(&env, "2");
    assert_ne!(at, env.repo());
    assert!(!at.join("base.txt").exists() && at.join("a.txt").exists());
}

#[test]
fn somebody_else_goes_on_from_a_step_and_is_told_what_was_said_up_to_there() {
    let env = two_turns();
    let end = end_of(&env, "1", 1);
    let exec = "exec:cat > told.txt; echo I have read it.";
    let args = ["fork", "1", "--from-step", &end, "Go another way", "--with", exec];
    let output = segue(&env, &args);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let told = fs::read_to_string(workspace(&env, "2").join("told.txt")).unwrap();
    for part in ["Do one", "Turn 1 is done.", "Use one", "Go another way"] {
        assert!(told.contains(part), "{part} is missing: {told}");
    }
    assert!(!told.contains("Do two") && !told.contains("Turn 2 is done."), "{told}");
}

#[test]
fn a_session_that_another_one_begins_with_is_not_removed_without_it() {
    let env = two_turns();
    done(&env, &["replay", "1", "--save", "again"]);
    let output = segue(&env, &["rm", "1", "--force"]);
    assert_eq!(output.status, 2);
    assert!(
        output.stderr.contains("session 2 begins with a part of session 1"),
        "{}",
        output.stderr
    );
    assert_eq!(segue(&env, &["show", "1"]).status, 0);
    done(&env, &["rm", "1", "2", "--force"]);
    assert_eq!(segue(&env, &["show", "1"]).status, 4);
}

#[test]
fn a_fork_is_carried_with_what_it_begins_with() {
    let env = two_turns();
    let end = end_of(&env, "1", 1);
    done(&env, &["fork", "1", "--from-step", &end, "Do it another way"]);
    done(&env, &["fork", "2", "And another one"]);
    let before = ids(&env, "3");
    done(&env, &["export", "3", "-o", "../x.segue"]);
    let other = env.path("elsewhere");
    let there = |args: &[&str]| {
        let mut command = env.command(args);
        segue_testkit::env::Output::of(command.env("SEGUE_HOME", &other)).unwrap()
    };
    let output = there(&["import", "../x.segue"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let output = there(&["log", "1", "--steps", "--json"]);
    let after: Vec<Value> = lines(&output.stdout);
    let after: Vec<&str> = after.iter().map(|step| step["id"].as_str().unwrap()).collect();
    assert_eq!(after, before);
    assert_eq!(there(&["replay", "1", "--verify"]).status, 0);
    let output = there(&["resume", "1", "Go on here"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "A later turn is done.\n"));
}

#[test]
fn two_sessions_are_compared_step_by_step_and_file_by_file() {
    let env = two_turns();
    let end = end_of(&env, "1", 1);
    done(&env, &["fork", "1", "--from-step", &end, "Do it another way"]);
    done(&env, &["replay", "1"]);
    let output = segue(&env, &["diff", "1", "3", "--exit-code", "--json"]);
    assert_eq!(output.status, 0, "{}", output.stdout);
    // Nobody has worked in the replay: its files are those of the step that it ends with.
    let same = json(&output.stdout);
    assert_eq!((&same["same"], &same["files"]["same"]), (&true.into(), &true.into()), "{same}");
    let output = segue(&env, &["diff", "1", "2", "--exit-code", "--json"]);
    assert_eq!(output.status, 1);
    let diff = json(&output.stdout);
    assert_eq!(diff["shared_steps"].to_string(), (end.parse::<u64>().unwrap() + 1).to_string());
    let first = &diff["first_difference"];
    assert_eq!((first["a"]["index"].clone(), first["b"]["index"].clone()), (5.into(), 5.into()));
    assert_eq!(segue(&env, &["diff", "1", "2"]).status, 0);
    let text = plain(&env, &segue(&env, &["diff", "1", "2"]));
    insta::assert_snapshot!("diff", without_ids(&text));
    let text = plain(&env, &segue(&env, &["diff", "1", "2", "-y"]));
    insta::assert_snapshot!("diff_side_by_side", without_ids(&text));
    // On a terminal nobody has to ask for that.
    let terminal = Tmux::start(&env, &format!("{SEGUE} diff 1 2"), (120, 60));
    let screen = terminal.sees("first difference: ");
    let steps = text.lines().filter(|line| line.starts_with("≠ ") && line.contains(" │ "));
    let beside = screen.lines().filter(|line| line.starts_with("≠ ") && line.contains(" │ "));
    assert!(beside.count() > 0 && steps.count() > 0, "{screen}");
    terminal.ends(0);
    // The files of both came to the same.
    assert_eq!(diff["files"]["same"], true);
    let at = workspace(&env, "2");
    fs::write(at.join("a.txt"), "three\n").unwrap();
    done(&env, &["resume", "2", "Once more"]);
    let output = segue(&env, &["diff", "1", "2", "--files"]);
    assert!(output.stdout.contains("-two\n+three\n"), "{}", output.stdout);
}

/// A table without how long it took, which is another time each time.
fn without_times(table: &str) -> String {
    let (from, to) = (table.find("time").unwrap_or(0), table.find("said").unwrap_or(0));
    let (from, to) = (table[..from].chars().count(), table[..to].chars().count());
    let line = |line: &str| {
        let keep = |(at, sign): (usize, char)| (at < from || at >= to).then_some(sign);
        line.chars().enumerate().filter_map(keep).collect::<String>().trim_end().to_owned()
    };
    table.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Everybody has a different idea of the same task.
fn contest() -> (TestEnv, String) {
    let env = two_turns();
    let agents = "exec:echo first > c.txt,exec:echo second > c.txt; echo x > a.txt,native";
    let output = segue(&env, &["compare", "1", "--agents", agents]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    (env, output.stdout)
}

#[test]
fn several_agents_get_the_same_task_in_the_same_state_and_one_is_accepted() {
    let (env, table) = contest();
    insta::assert_snapshot!("compared", without_times(&table));
    let before = tree(&env.repo());
    for (number, c) in [("2", Some("first\n")), ("3", Some("second\n")), ("4", None)] {
        let at = workspace(&env, number);
        assert_eq!(fs::read_to_string(at.join("c.txt")).ok().as_deref(), c);
        assert_eq!(fs::read_to_string(at.join("base.txt")).unwrap(), "base\n");
        assert_eq!(steps(&env, number)[0]["title"], "Do one");
    }
    assert_eq!(tree(&env.repo()), before, "nothing is taken over unasked");
    done(&env, &["accept", "2", "--dry-run"]);
    assert_eq!(tree(&env.repo()), before);
    let said = done(&env, &["accept", "2", "--force"]);
    assert!(said.contains("what was there before: refs/segue/"), "{said}");
    let mut after = before.clone();
    after.insert("c.txt".to_owned(), "first\n".to_owned());
    assert_eq!(tree(&env.repo()), after);
    // The second time there is nothing to do.
    let said = done(&env, &["accept", "2", "--force"]);
    assert!(said.contains("are the same there already"), "{said}");
}

#[test]
fn a_file_that_was_moved_is_taken_over_as_one() {
    let (env, _) = scripted_in_git(DONE);
    done(&env, &["run", "exec:echo Done.", "Do one"]);
    done(&env, &["compare", "1", "--agents", "exec:mv base.txt moved.txt; echo Done."]);
    let mut files = tree(&env.repo());
    let said = done(&env, &["accept", "2", "--force"]);
    assert!(said.contains("✓ 2 files of session 2"), "{said}");
    let text = files.remove("base.txt").unwrap();
    files.insert("moved.txt".to_owned(), text);
    assert_eq!(tree(&env.repo()), files);
}

/// The numbers of all sessions that were ever made.
fn numbers(env: &TestEnv) -> usize {
    fs::read_dir(env.home().join("numbers")).unwrap().count()
}

#[test]
fn where_one_of_several_can_not_work_nothing_is_made_of_any() {
    let env = two_turns();
    // The first one's price is known.
    let server = serve([Reply::text("Done.").sticky()]);
    let args = ["compare", "1", "--agents", "native,exec:cat", "--model", ANTHROPIC];
    let output = ask(&env, &server, &[&args[..], &["--max-cost", "1"]].concat());
    assert_eq!(output.status, 2, "{}", output.stderr);
    assert!(output.stderr.contains("price"), "{}", output.stderr);
    assert_eq!((numbers(&env), server.turns().len()), (1, 0));
}

#[test]
fn a_comparison_that_was_broken_off_says_so_and_how_each_goes_on() {
    use crate::support::{finish, signal, start, until};
    let env = two_turns();
    let agents = "exec:echo Done.,exec:echo begun > ../begun.txt; sleep 300";
    let child = start(&mut env.command(["compare", "1", "--agents", agents]));
    until("both", || {
        let done = show_status(&env, "2").is_some_and(|status| status == "completed");
        done && env.path("begun.txt").exists()
    });
    signal(&child, rustix::process::Signal::INT);
    let output = finish(child);
    assert_eq!(output.status, 130, "{}", output.stderr);
    assert_eq!(last_words(&output), "segue resume 3");
    assert!(!output.stderr.contains("segue resume 2"), "{}", output.stderr);
}

fn show_status(env: &TestEnv, session: &str) -> Option<String> {
    let output = segue(env, &["show", session, "--json"]);
    (output.status == 0).then(|| json(&output.stdout)["status"].as_str().unwrap().to_owned())
}

#[test]
fn a_comparison_in_which_nobody_is_done_ends_as_the_first_of_them() {
    let (env, model) = scripted_in_git(DONE);
    let run = ["run", "Do it", "--model", &model, "--proof", "false", "--max-turns", "1"];
    assert_eq!(segue(&env, &run).status, 3);
    let compare = ["compare", "1", "--agents", "native,exec:cat", "--max-turns", "1"];
    let output = segue(&env, &compare);
    assert_eq!(output.status, 3, "{}{}", output.stdout, output.stderr);
    let next: Vec<&str> = output.stderr.lines().rev().take(2).collect();
    assert!(next[1].starts_with("segue resume 2 --max-turns "), "{next:?}");
    assert!(next[0].starts_with("segue resume 3 --max-turns "), "{next:?}");
    let output = segue(&env, &[&compare[..], &["--json"]].concat());
    let next = json(&output.stdout)["sessions"][0]["next"].clone();
    assert!(next.as_str().unwrap().starts_with("segue resume 4"), "{next}");
}

#[test]
fn what_was_changed_meanwhile_is_not_overwritten_unasked_and_never_lost() {
    let (env, _) = contest();
    let before = tree(&env.repo());
    let output = segue(&env, &["accept", "3"]);
    assert_eq!(output.status, 2, "{}", output.stderr);
    assert!(output.stderr.contains("changed there meanwhile"), "{}", output.stderr);
    assert_eq!(tree(&env.repo()), before);
    let output = segue(&env, &["accept", "3", "--force", "--json"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let safety = json(&output.stdout)["safety"].as_str().unwrap().to_owned();
    assert_eq!(fs::read_to_string(env.repo().join("a.txt")).unwrap(), "x\n");
    assert_eq!(git(&env, &["show", &format!("{safety}:a.txt")]), "two\n");
}

#[test]
fn a_step_that_is_not_there_or_not_whole_is_refused_and_nothing_is_made() {
    let env = two_turns();
    let before = crate::support::files_below(&env.home());
    for (step, why) in
        [("99", "99"), ("zz", "zz"), ("1", "unfinished batch"), ("2", "unfinished batch")]
    {
        let output = segue(&env, &["fork", "1", "--from-step", step, "Go on"]);
        assert_eq!(output.status, 2, "{step}: {}", output.stderr);
        assert!(output.stderr.contains(why), "{step}: {}", output.stderr);
        assert_eq!(last_words(&output).trim(), "hint: the steps: segue log 1 --steps");
    }
    let after = crate::support::files_below(&env.home());
    let made = |paths: &[PathBuf]| {
        let own = |path: &&PathBuf| {
            !path.to_string_lossy().contains("index.db") && !path.ends_with("steps.idx")
        };
        paths.iter().filter(own).cloned().collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(made(&after), made(&before));
}

/// Changes a word of a session's journal, in the middle.
fn damage(env: &TestEnv, number: u64) {
    let path = env.session_dir(number).unwrap().join("journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("I begin.", "I BEGIN.", 1)).unwrap();
}

#[test]
fn what_is_damaged_is_never_told_as_if_it_were_shorter() {
    let env = two_turns();
    done(&env, &["replay", "1", "--save", "again"]);
    damage(&env, 1);
    for args in [
        &["log", "1", "--steps"][..],
        &["log", "again", "--steps"],
        &["replay", "1", "--save", "other"],
        &["replay", "again", "--verify"],
        &["replay", "1", "--inspect"],
        &["fork", "1", "Go on"],
        &["fork", "again", "Go on"],
        &["export", "again", "-o", "../x.tine"],
        &["diff", "1", "again"],
        &["verify", "again"],
        &["verify", "1"],
    ] {
        let output = segue(&env, args);
        assert_ne!(output.status, 0, "{args:?}: {}{}", output.stdout, output.stderr);
        let said = output.stderr + &output.stdout;
        assert!(said.contains("checksum"), "{args:?}: {said}");
    }
    let numbers = fs::read_dir(env.home().join("numbers")).unwrap().count();
    assert_eq!(numbers, 2, "nothing was made");
    assert!(!env.path("x.tine").exists());
}

#[test]
fn a_fork_in_the_middle_of_a_turn_says_what_the_files_are() {
    let (env, _) = scripted_in_git(DONE);
    let input = serde_json::json!({ "path": "a.txt", "content": "one" });
    let call = Reply::tool("write_file", input);
    let server = serve([call, Reply::text("Written."), Reply::text("Another answer.")]);
    assert_eq!(ask(&env, &server, &["run", "Write it", "--model", ANTHROPIC]).status, 0);
    let output = ask(&env, &server, &["fork", "1", "--from-step", "2", "Go on"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(!workspace(&env, "2").join("a.txt").exists());
    let told = server.turns().last().unwrap().texts().pop().unwrap();
    assert!(told.starts_with("Go on") && told.contains("as they were before turn 1"), "{told}");
}

#[test]
fn what_can_not_be_done_is_refused_before_anything_is_made() {
    let env = two_turns();
    for args in [
        &["fork", "1", "  "][..],
        &["replay", "1", "--save", "none/x.tine"],
        &["replay", "1", "--mode", "rerun", "--agent", "native", "--prompt", ""],
    ] {
        let output = segue(&env, args);
        assert_eq!(output.status, 2, "{args:?}: {}", output.stderr);
    }
    assert_eq!(numbers(&env), 1);
    done(&env, &["fork", "1", "--from-step", "main", "Go on"]);
    done(&env, &["fork", "1", "And on"]);
    let output = segue(&env, &["rm", "1", "--force"]);
    assert!(
        output.stderr.contains("sessions 2, 3 begin with a part of session 1"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("segue rm 1 2 3"), "{}", output.stderr);
}
