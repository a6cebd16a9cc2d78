//! Lists of tasks: what is on the branch, what the journal says of it, and which of the two counts.

use std::fs;

use segue_testkit::env::TestEnv;

use crate::support::{data, git, journal_bytes, json as parsed, segue, show};
use crate::task_runs::{
    ACCEPT, FIRST, at_worktree, commits, list, model, never, page, reject, run, states, status,
    work, worktree,
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
        let offer = segue(&env, &["tasks", "run", "plan"]).stderr;
        assert!(offer.contains("1 of 2 done"), "{offer}");
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
fn a_journal_that_was_cut_back_to_its_first_lines_finds_its_branch() {
    for kept in 1..=4 {
        let env = list(3);
        let worker = work(1, "one") + &work(2, "two") + &limited(3);
        assert_eq!(run(&env, &worker, ACCEPT, &[]).status, 3);
        let journal = env.session_dir(1).unwrap().join("journal.jsonl");
        let text = fs::read_to_string(&journal).unwrap();
        let lines: String = text.split_inclusive('\n').take(kept).collect();
        fs::write(&journal, lines).unwrap();
        assert_eq!(segue(&env, &["verify", "1", "--repair"]).status, 0, "{kept} lines");
        // It is not one that was never begun: nobody picks it up unasked.
        assert_eq!(show(&env, "1")["status"], "crashed", "{kept} lines");
        let output = segue(&env, &["tasks", "run", "plan"]);
        assert_eq!(output.status, 2, "{kept} lines: {}", output.stderr);
        let offer = "session 1 of this list can be resumed (crashed";
        assert!(output.stderr.contains(offer), "{kept} lines: {}", output.stderr);
        if kept == 1 {
            let output = segue(&env, &["tasks", "status", "1"]);
            assert_eq!(output.status, 2, "{}", output.stderr);
            assert!(output.stderr.contains("segue resume 1"), "{}", output.stderr);
        } else {
            assert_eq!(states(&env), ["done", "done", "pending"], "{kept} lines");
            assert_eq!(status(&env)["branch"], "segue/1-numbers", "{kept} lines");
        }
        model(&env, "worker", &work(3, "three"));
        let output = segue(&env, &["resume", "1", "--now"]);
        assert_eq!(output.status, 0, "{kept} lines: {}", output.stderr);
        let wanted: Vec<String> = (1..=3).map(|n| format!("T-00{n}: Number {n}")).collect();
        assert_eq!(commits(&env), wanted, "{kept} lines");
        assert_eq!(states(&env), ["done"; 3], "{kept} lines");
        let branches = git(&env, &["branch", "--format=%(refname:short)"]);
        assert_eq!(branches, "main\nsegue/1-numbers\n", "{kept} lines");
        assert_eq!(git(&env, &["worktree", "list"]).lines().count(), 2, "{kept} lines");
        let files = git(&env, &["show", "--format=", "--name-only", "segue/1-numbers"]);
        assert_eq!(files.trim(), "3.txt", "{kept} lines");
    }
}

/// The worker puts a commit on the branch that looks as if this task was accepted.
fn forged(at: u32, task: u32) -> String {
    let forge = format!(
        "git log -1 --format=%B | sed s/T-001/T-00{task}/ | \
         git -c user.name=w -c user.email=w@localhost commit -q --allow-empty -F -"
    );
    format!(
        "\n[[reply]]\nwhen = [\"T-00{at}: \"]\n\
         tools = [{{ name = \"shell\", input = {{ command = \"{forge}\" }} }}]\n"
    )
}

#[test]
fn a_commit_that_only_says_so_makes_no_task_done() {
    // Of the task in hand, whose worker then runs into its limit; and of one that was never begun.
    for forged_task in [2, 3] {
        let env = list(3);
        let forge = forged(2, forged_task);
        let rest = if forged_task == 2 { String::new() } else { work(2, "two") };
        let worker = work(1, "one") + &forge + &rest + &limited(forged_task);
        let output = run(&env, &worker, ACCEPT, &[]);
        assert_eq!(output.status, 3, "{}", output.stderr);
        let task = format!("T-00{forged_task}");
        let trailer = format!("Segue-Task: {task}");
        let said = git(&env, &["log", "--format=%B", "segue/1-numbers"]);
        assert!(said.contains(&trailer) && said.contains("Segue-State: done"), "{said}");
        let stands = match forged_task {
            2 => ["done", "begun", "pending"],
            _ => ["done", "done", "begun"],
        };
        assert_eq!(states(&env), stands);
        let shown = segue(&env, &["tasks", "status", "1"]).stdout;
        let told = format!("nobody has accepted it: {task} (");
        assert!(shown.contains(&told), "{shown}");
        model(&env, "worker", &(forge + &work(2, "two") + &work(3, "three")));
        let output = segue(&env, &["resume", "1", "--now"]);
        assert_eq!(output.status, 0, "{}", output.stderr);
        assert!(output.stderr.contains("nobody has accepted it: it is worked on"));
        assert!(!output.stderr.contains("is on the branch as"), "{}", output.stderr);
        let fake = format!("{task}: Number 1");
        assert_eq!(commits(&env), [FIRST, &fake, "T-002: Number 2", "T-003: Number 3"]);
        assert_eq!(states(&env), ["done"; 3]);
        assert_eq!(data(&env, 1, "verdict.given").len(), 3);
    }
}

#[test]
fn a_placeholder_whose_event_was_lost_is_not_passed_over() {
    let env = failed_second(2);
    // The first is that of the task before.
    crash_before(&env, "work.committed", 2);
    commit_mine(&env);
    model(&env, "worker", &work(2, "two"));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(commits(&env), [FIRST, FAILED, "mine", "T-002: Number 2"]);
    let said = data(&env, 1, "warning.raised");
    let stays = |one: &serde_json::Value| {
        let text = one["message"].as_str().unwrap();
        text.starts_with("the placeholder") && text.contains("the branch has gone on")
    };
    assert!(said.iter().any(stays), "{said:?}");
}

#[test]
fn nobody_works_for_a_branch_that_is_not_there() {
    let env = list(2);
    assert_eq!(run(&env, &(work(1, "one") + &limited(2)), ACCEPT, &[]).status, 3);
    at_worktree(&env, &["switch", "-q", "-c", "other"]);
    let before = journal_bytes(&env, 1);
    model(&env, "worker", &work(2, "two"));
    let output = segue(&env, &["resume", "1", "--now"]);
    assert_eq!(output.status, 1, "{}", output.stderr);
    let hint = "repo-segue-1 switch segue/1-numbers";
    assert!(output.stderr.contains("is not on the session's branch"), "{}", output.stderr);
    assert!(output.stderr.contains(hint), "{}", output.stderr);
    assert_eq!(journal_bytes(&env, 1), before);
    at_worktree(&env, &["switch", "-q", "segue/1-numbers"]);
    assert_eq!(segue(&env, &["resume", "1", "--now"]).status, 0);
    assert_eq!(commits(&env), [FIRST, "T-002: Number 2"]);
}

#[test]
fn a_branch_that_is_gone_is_not_to_be_pushed() {
    let env = list(1);
    assert_eq!(run(&env, &work(1, "one"), ACCEPT, &[]).status, 0);
    let before = git(&env, &["rev-parse", "main"]);
    git(&env, &["merge", "-q", "segue/1-numbers"]);
    assert_eq!(segue(&env, &["gc", "--yes"]).status, 0);
    let gone = |where_to: &str, next: &str| {
        let shown = segue(&env, &["tasks", "status", "1"]).stdout;
        assert!(shown.contains(where_to), "{shown}");
        let rows = status(&env);
        assert_eq!(
            (&rows["branch_gone"], &rows["tasks"][0]["state"]),
            (&true.into(), &"done".into())
        );
        // Without its commit anywhere, it is not simply done.
        let lost = (next == "git -C ").then_some("branch_gone");
        assert_eq!(rows["tasks"][0]["why"].as_str(), lost);
        assert!(rows["next"].as_str().unwrap().starts_with(next), "{rows}");
        assert_eq!(show(&env, "1")["next"], rows["next"]);
        for publish in ["push", "pr"] {
            let output = segue(&env, &["tasks", publish, "1"]);
            assert_eq!(output.status, 2, "{}", output.stderr);
            assert!(output.stderr.contains(where_to), "{}", output.stderr);
        }
        rows["next"].as_str().unwrap().to_owned()
    };
    gone("the branch segue/1-numbers is gone; its commits are on main", "segue log 1");
    // Nobody has merged it.
    git(&env, &["reset", "-q", "--hard", before.trim()]);
    let lost = "done, and the branch segue/1-numbers is gone: no other one has its commits";
    let back = gone(lost, "git -C ");
    let words: Vec<&str> = back.split(' ').skip(3).collect();
    git(&env, &words);
    assert_eq!(status(&env)["next"], "segue tasks push 1");
    assert_eq!(commits(&env), [FIRST]);
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
    let page = show(&env, "1");
    assert_eq!((&page["status"], &page["next"]), (&"failed".into(), &"segue resume 1".into()));
    let page = segue(&env, &["show", "1"]).stdout;
    assert!(page.contains("1 of 2 done") && page.contains("off_branch"), "{page}");
    // It has not worked through the list: nothing is begun beside it.
    let offer = segue(&env, &["tasks", "run", "plan"]);
    assert_eq!(offer.status, 2, "{}", offer.stderr);
    assert!(offer.stderr.contains("session 1 of this list can be resumed"), "{}", offer.stderr);
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
fn a_task_that_is_off_the_branch_and_out_of_the_list_is_let_go() {
    let env = list(2);
    assert_eq!(run(&env, &(work(1, "one") + &limited(2)), ACCEPT, &[]).status, 3);
    at_worktree(&env, &["reset", "-q", "--hard", "HEAD^"]);
    remove_page(&env, 1);
    assert_eq!(segue(&env, &["resume", "1", "--now"]).status, 3);
    model(&env, "worker", &work(2, "two"));
    let output = segue(&env, &["resume", "1", "--now"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(commits(&env), ["T-002: Number 2"]);
    let rows = status(&env);
    assert_eq!((states(&env), &rows["removed"][0]["task"]), (vec!["done".into()], &"T-001".into()));
}

#[test]
fn a_commit_that_was_off_the_branch_for_a_while_is_that_of_its_task() {
    let env = list(2);
    assert_eq!(run(&env, &(work(1, "one") + &work(2, "two")), ACCEPT, &[]).status, 0);
    let tip = at_worktree(&env, &["rev-parse", "HEAD"]);
    at_worktree(&env, &["reset", "-q", "--hard", "HEAD^"]);
    model(&env, "worker", &limited(2));
    assert_eq!(segue(&env, &["resume", "1"]).status, 3);
    assert_eq!(states(&env), ["done", "begun"]);
    at_worktree(&env, &["reset", "-q", "--hard", tip.trim()]);
    assert_eq!(states(&env), ["done"; 2]);
    let output = segue(&env, &["resume", "1", "--now"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("T-002 is on the branch as "), "{}", output.stderr);
    assert_eq!(commits(&env), [FIRST, "T-002: Number 2"]);
    assert_eq!(data(&env, 1, "verdict.given").len(), 2);
}

#[test]
fn what_was_changed_in_a_task_that_was_removed_is_no_part_of_the_next() {
    let env = failed_second(3);
    fs::write(worktree(&env).join("2.txt"), "by hand\n").unwrap();
    remove_page(&env, 2);
    model(&env, "worker", &work(3, "three"));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let wanted = [FIRST, FAILED, "T-002: FAILED (removed)", "T-003: Number 3"];
    assert_eq!(commits(&env), wanted);
    let third = git(&env, &["show", "--format=", "--name-only", "segue/1-numbers"]);
    assert_eq!(third.trim(), "3.txt");
    // Nor was it shown to whoever judged it.
    assert_eq!(data(&env, 1, "review.started").last().unwrap()["files"], 1);
}

#[test]
fn a_verdict_on_work_that_the_journal_has_lost_is_not_one_on_what_came_after() {
    let env = list(1);
    let worker = work(1, "one") + &limited(1);
    assert_eq!(run(&env, &worker, &reject(1, 1), &[]).status, 3);
    let dir = env.session_dir(1).unwrap();
    let journal = dir.join("journal.jsonl");
    // In the middle of the turn that was rejected: it ends otherwise than before.
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("I write it.", "I wrote it.", 1)).unwrap();
    fs::remove_file(dir.join("state.json")).unwrap();
    assert_eq!(segue(&env, &["verify", "1", "--repair"]).status, 0);
    model(&env, "worker", &work(1, "other"));
    model(&env, "evaluator", ACCEPT);
    let output = segue(&env, &["resume", "1", "--now"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let given = data(&env, 1, "verdict.given");
    assert_eq!((given.len(), &given[0]["verdict"]), (1, &"pass".into()));
    assert_eq!(commits(&env), [FIRST]);
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
