//! Lists of tasks: what is on the branch, what the journal says of it, and which of the two counts.

use std::fs;

use segue_testkit::env::TestEnv;

use crate::support::{data, git, json as parsed, segue};
use crate::task_runs::{
    ACCEPT, FIRST, at_worktree, commits, list, model, never, page, run, states, status, work,
    worktree,
};

/// A worker that does nothing for this task but run into its limit.
fn limited(n: u32) -> String {
    format!("\n[[reply]]\nwhen = [\"T-00{n}: \"]\nlimit = {{ secs = 7200 }}\nrepeat = true\n")
}

/// Makes the journal what it would be if Segue had been killed before it wrote this event.
fn crash_before(env: &TestEnv, kind: &str, nth: usize) {
    let dir = env.session_dir(1).unwrap();
    let journal = dir.join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let wanted = format!("\"kind\":\"{kind}\"");
    let mut lines = text.split_inclusive('\n');
    let mut seen = 0;
    let kept: String = lines
        .by_ref()
        .take_while(|line| {
            seen += usize::from(line.contains(&wanted));
            seen < nth
        })
        .collect();
    assert!(kept.len() < text.len(), "no {kind} in {text}");
    fs::write(&journal, kept).unwrap();
    fs::remove_file(dir.join("state.json")).unwrap();
}

/// A commit of somebody else in the session's worktree.
fn commit_mine(env: &TestEnv) {
    fs::write(worktree(env).join("mine.txt"), "mine\n").unwrap();
    at_worktree(env, &["add", "mine.txt"]);
    at_worktree(env, &["commit", "-q", "-m", "mine"]);
}

fn remove_page(env: &TestEnv, n: u32) {
    fs::remove_file(env.repo().join(format!("plan/T-00{n}-number.md"))).unwrap();
}

/// The first is done, the second has failed.
fn failed_second(tasks: u32) -> TestEnv {
    let env = list(tasks);
    let worker = work(1, "one") + &work(2, "draft") + &work(2, "draft again");
    assert_eq!(run(&env, &worker, &(never() + ACCEPT), &["--max-iterations", "2"]).status, 3);
    assert_eq!(states(&env)[..2], ["done", "failed iter_cap"]);
    env
}

const FAILED: &str = "T-002: FAILED (iter_cap): Number 2";

#[test]
fn a_task_in_hand_that_was_removed_is_not_in_the_way() {
    // It has failed, and its placeholder is there.
    let env = failed_second(3);
    remove_page(&env, 2);
    model(&env, "worker", &work(3, "three"));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(commits(&env), [FIRST, FAILED, "T-003: Number 3"]);
    let failed = data(&env, 1, "task.failed");
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert_eq!(failed[1]["why"], "removed");

    // It was begun, and nothing was changed.
    let env = list(3);
    assert_eq!(run(&env, &(work(1, "one") + &limited(2)), ACCEPT, &[]).status, 3);
    remove_page(&env, 2);
    model(&env, "worker", &work(3, "three"));
    let output = segue(&env, &["resume", "1", "--now"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(commits(&env), [FIRST, "T-003: Number 3"]);
}

#[test]
fn a_crash_while_a_removed_task_is_put_aside_leaves_one_commit_of_it() {
    let env = list(3);
    let draft =
        r#"tools = [{ name = "write_file", input = { path = "2.txt", content = "half\n" } }]"#;
    let half = format!("\n[[reply]]\nwhen = [\"T-002: \"]\n{draft}\n");
    assert_eq!(run(&env, &(work(1, "one") + &half + &limited(2)), ACCEPT, &[]).status, 3);
    remove_page(&env, 2);
    model(&env, "worker", &limited(3));
    assert_eq!(segue(&env, &["resume", "1", "--now"]).status, 3);
    let before = [FIRST, "T-002: FAILED (removed)"];
    assert_eq!(commits(&env), before);
    crash_before(&env, "work.committed", 2);
    model(&env, "worker", &work(3, "three"));
    let output = segue(&env, &["resume", "1", "--now"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(commits(&env), [before[0], before[1], "T-003: Number 3"]);
    let recorded = data(&env, 1, "work.committed");
    let recorded: Vec<&str> = recorded.iter().map(|one| one["commit"].as_str().unwrap()).collect();
    let log = git(&env, &["log", "--reverse", "--format=%H", "main..segue/1-numbers"]);
    assert_eq!(recorded, log.lines().collect::<Vec<_>>());
}

#[test]
fn a_commit_that_is_not_recorded_is_found_wherever_it_is_on_the_branch() {
    for edited in [false, true] {
        let env = list(2);
        assert_eq!(run(&env, &(work(1, "one") + &limited(2)), ACCEPT, &[]).status, 3);
        crash_before(&env, "work.committed", 1);
        commit_mine(&env);
        if edited {
            page(&env, 1, "In other words.");
        }
        assert_eq!(states(&env), ["done", "pending"]);
        // Whoever asked the worker for the first task again would hear nothing from it.
        model(&env, "worker", &work(2, "two"));
        let output = segue(&env, &["resume", "1", "--now"]);
        assert_eq!(output.status, 0, "{}", output.stderr);
        assert!(output.stderr.starts_with("↻ resume plan: pending: T-002; "), "{}", output.stderr);
        assert!(
            output.stderr.contains("found     T-001 is on the branch as "),
            "{}",
            output.stderr
        );
        assert_eq!(commits(&env), [FIRST, "mine", "T-002: Number 2"]);
        assert_eq!(states(&env), ["done"; 2]);
        let second = git(&env, &["show", "--format=", "--name-only", "segue/1-numbers"]);
        assert_eq!(second.trim(), "2.txt");
    }
}

#[test]
fn a_journal_that_was_cut_back_is_told_by_the_branch_what_is_done() {
    let env = list(4);
    let worker = work(1, "one") + &work(2, "two") + &work(3, "three") + &limited(4);
    assert_eq!(run(&env, &worker, ACCEPT, &[]).status, 3);
    let dir = env.session_dir(1).unwrap();
    let journal = dir.join("journal.jsonl");
    // In the middle of the first task: the turn is open there.
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("I write it.", "I wrote it.", 1)).unwrap();
    fs::remove_file(dir.join("state.json")).unwrap();
    assert_eq!(segue(&env, &["resume", "1", "--now"]).status, 1);
    assert_eq!(segue(&env, &["verify", "1", "--repair"]).status, 0);
    assert_eq!(states(&env), ["done", "done", "done", "pending"]);
    model(&env, "worker", &work(4, "four"));
    let output = segue(&env, &["resume", "1", "--now"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let wanted: Vec<String> = (1..=4).map(|n| format!("T-00{n}: Number {n}")).collect();
    assert_eq!(commits(&env), wanted);
    assert_eq!(states(&env), ["done"; 4]);
    // The evaluator was shown the fourth task, and nothing of those before.
    let theirs = fs::read_to_string(dir.join("reviewers/native-2/journal.jsonl")).unwrap();
    let asked: Vec<serde_json::Value> = theirs.lines().map(parsed).collect();
    let asked = asked.iter().rfind(|one| one["kind"] == "turn.started").unwrap();
    let asked = asked["data"]["prompt"]["text"].as_str().unwrap();
    assert!(asked.contains("+four") && !asked.contains("+three"), "{asked}");
}

#[test]
fn what_was_taken_off_the_branch_is_not_done_any_more() {
    let env = list(2);
    assert_eq!(run(&env, &(work(1, "one") + &work(2, "two")), ACCEPT, &[]).status, 0);
    let bare = env.path("bare.git");
    git(&env, &["init", "-q", "--bare", bare.to_str().unwrap()]);
    git(&env, &["remote", "add", "origin", bare.to_str().unwrap()]);
    // Rebased onto other work, everything has another name, and is there.
    fs::write(env.repo().join("theirs.txt"), "theirs\n").unwrap();
    git(&env, &["add", "theirs.txt"]);
    git(&env, &["commit", "-q", "-m", "theirs"]);
    at_worktree(&env, &["rebase", "-q", "main"]);
    assert_eq!(states(&env), ["done"; 2]);
    assert_eq!(status(&env)["next"], "segue tasks push 1");
    // The last one is taken off.
    at_worktree(&env, &["reset", "-q", "--hard", "HEAD^"]);
    assert_eq!(states(&env), ["done", "failed off_branch"]);
    assert_eq!(status(&env)["next"], "segue resume 1");
    let output = segue(&env, &["tasks", "push", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("no longer on segue/1-numbers: T-002"), "{}", output.stderr);
    let shown = segue(&env, &["tasks", "status", "1"]).stdout;
    assert!(shown.contains("done, and no longer on segue/1-numbers: T-002"), "{shown}");
    // All of it.
    at_worktree(&env, &["reset", "-q", "--hard", "main"]);
    assert_eq!(states(&env), ["failed off_branch"; 2]);
    let output = segue(&env, &["tasks", "push", "1"]);
    assert_eq!(output.status, 2, "{}", output.stderr);
    // A resume says so, and does it again.
    model(&env, "worker", &(work(1, "one") + &work(2, "two")));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("is no longer on the branch; it is worked on again"));
    assert_eq!(commits(&env), [FIRST, "T-002: Number 2"]);
    assert_eq!(states(&env), ["done"; 2]);
    // What is judged is what was done since it was taken off.
    let judged = data(&env, 1, "review.started");
    let judged: Vec<_> = judged.iter().map(|review| review["files"].clone()).collect();
    assert_eq!(judged, [1, 1, 1, 1]);
    let again = data(&env, 1, "turn.started");
    let told = again[2]["prompt"]["text"].as_str().unwrap();
    assert!(told.contains("has been taken off the branch"), "{told}");
}

#[test]
fn what_a_person_commits_during_the_review_stays() {
    let env = list(1);
    let proof = "test -e mine.txt || { echo mine > mine.txt; git add mine.txt; \
                 git -c user.name=me -c user.email=me@localhost commit -q -m mine mine.txt; }";
    let output = run(&env, &work(1, "one"), ACCEPT, &["--proof", proof]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(commits(&env), ["mine", FIRST]);
    let changed = git(&env, &["show", "--format=", "--name-status", "segue/1-numbers"]);
    assert_eq!(changed.trim(), "A\t1.txt");
    assert_eq!(git(&env, &["show", "segue/1-numbers:mine.txt"]), "mine\n");
    let said = data(&env, 1, "warning.raised");
    let said = said.iter().any(|one| {
        one["message"].as_str().unwrap().contains("committed by somebody since the review")
    });
    assert!(said, "{}", output.stderr);
}

#[test]
fn a_task_that_comes_back_has_its_ledger_and_its_spend() {
    let env = failed_second(3);
    let page_2 = fs::read(env.repo().join("plan/T-002-number.md")).unwrap();
    remove_page(&env, 2);
    model(&env, "worker", &work(3, "three"));
    assert_eq!(segue(&env, &["resume", "1"]).status, 0);
    let rows = status(&env);
    let tokens = |rows: &serde_json::Value| {
        rows.as_array().unwrap().iter().map(|row| row["tokens"].as_u64().unwrap()).sum::<u64>()
    };
    let spent = tokens(&rows["removed"]);
    assert!(spent > 0, "{rows}");
    assert_eq!(Some(tokens(&rows["tasks"]) + spent), rows["tokens"].as_u64());

    fs::write(env.repo().join("plan/T-002-number.md"), page_2).unwrap();
    model(&env, "worker", &work(2, "two"));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let rows = status(&env);
    assert_eq!(
        (&rows["tasks"][1]["attempts"], &rows["tasks"][1]["rounds"]),
        (&2.into(), &3.into())
    );
    assert!(rows["tasks"][1]["tokens"].as_u64().unwrap() > spent);
    assert_eq!(Some(tokens(&rows["tasks"])), rows["tokens"].as_u64());
    let told = data(&env, 1, "turn.started");
    let told = told.last().unwrap()["prompt"]["text"].as_str().unwrap();
    assert!(told.contains("It says draft") && told.contains("tried before"), "{told}");
    let ledger = env.session_dir(1).unwrap().join("ledger/T-002.jsonl");
    let rounds = fs::read_to_string(ledger).unwrap();
    let rounds: Vec<u64> =
        rounds.lines().map(|line| parsed(line)["round"].as_u64().unwrap()).collect();
    assert_eq!(rounds, [1, 2, 3]);
    assert_eq!(segue(&env, &["verify", "1"]).stdout.matches('✗').count(), 0);
}
