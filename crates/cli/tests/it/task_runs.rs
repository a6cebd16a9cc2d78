//! `segue tasks run` on scripted models: rounds, commits, caps, stops, resumes, what is refused.

use std::{fs, path::PathBuf, process::Command};

use rustix::process::Signal;
use segue_testkit::env::{Output, TestEnv};
use serde_json::{Value, json};

use crate::support::{
    data, finish, git, has, journal_bytes, json as parsed, scripted_in_git, segue, signal, start,
    tree, until,
};
use crate::terminal::{SEGUE, Tmux};

/// What the worker of one task does: it writes a file of the task's name, and makes its case.
fn work(n: u32, content: &str) -> String {
    format!(
        r#"
[[reply]]
when = ["T-00{n}: "]
thinking = "SECRET-REASONING"
text = "I write it."
tools = [{{ name = "write_file", input = {{ path = "{n}.txt", content = "{content}\n" }} }}]
[[reply]]
when = ["T-00{n}: "]
tools = [{{ name = "submit_case", input = {{ summary = "Wrote {content}.", criteria = [{{ criterion = "{n}.txt is there", met_by = "{n}.txt:1", evidence = "cat {n}.txt" }}], doubts = ["none to speak of"] }} }}]
[[reply]]
when = ["T-00{n}: "]
text = "That is my case."
"#
    )
}

const ACCEPT: &str = r#"
[[reply]]
tools = [{ name = "submit_verdict", input = { verdict = "accept", summary = "it is there" } }]
[[reply]]
text = "Good."
repeat = true
"#;

/// Rejects a task in this round.
fn reject(n: u32, round: u32) -> String {
    format!(
        r#"
[[reply]]
when = ["T-00{n}: ", "round {round}."]
tools = [{{ name = "submit_verdict", input = {{ verdict = "reject", category = "acceptance_gap", concern = "It says draft", evidence = "{n}.txt:1", next_step = "Write the real thing" }} }}]
[[reply]]
when = ["T-00{n}: ", "round {round}."]
text = "No."
"#
    )
}

/// A repository with a list of so many tasks.
fn list(tasks: u32) -> TestEnv {
    let (env, _) = scripted_in_git("");
    env.write("plan/overview.md", "# Numbers\n\nOne file for each number.\n").unwrap();
    for n in 1..=tasks {
        page(&env, n, "Write it.");
    }
    git(&env, &["add", "."]);
    git(&env, &["commit", "-q", "-m", "plan"]);
    env
}

fn page(env: &TestEnv, n: u32, description: &str) {
    let text = format!(
        "---\nid: T-00{n}\ntitle: Number {n}\n---\n{description}\n\n## Acceptance criteria\n\
         - {n}.txt is there\n"
    );
    env.write(&format!("plan/T-00{n}-number.md"), &text).unwrap();
}

fn model(env: &TestEnv, name: &str, script: &str) -> String {
    let path = env.path(&format!("{name}.toml"));
    fs::write(&path, script).unwrap();
    format!("native@script:{}", path.display())
}

/// Works through `plan` with these scripts.
fn run(env: &TestEnv, worker: &str, evaluator: &str, more: &[&str]) -> Output {
    segue(env, &args(env, worker, evaluator, more).iter().map(String::as_str).collect::<Vec<_>>())
}

fn args(env: &TestEnv, worker: &str, evaluator: &str, more: &[&str]) -> Vec<String> {
    let (worker, evaluator) = (model(env, "worker", worker), model(env, "evaluator", evaluator));
    let args = ["tasks", "run", "plan", "--worker", &worker, "--evaluator", &evaluator];
    args.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn status(env: &TestEnv) -> Value {
    parsed(&segue(env, &["tasks", "status", "1", "--json"]).stdout)
}

/// Each task with its state.
fn states(env: &TestEnv) -> Vec<String> {
    let rows = status(env)["tasks"].as_array().unwrap().clone();
    let row = |row: &Value| match row["why"].as_str() {
        Some(why) => format!("{} {}", row["state"].as_str().unwrap(), why),
        None => row["state"].as_str().unwrap().to_owned(),
    };
    rows.iter().map(row).collect()
}

/// The subjects of the session's own commits, oldest first.
fn commits(env: &TestEnv) -> Vec<String> {
    let log = git(env, &["log", "--reverse", "--format=%s", "main..segue/1-numbers"]);
    log.lines().map(str::to_owned).collect()
}

fn worktree(env: &TestEnv) -> PathBuf {
    env.path("repo-segue-1")
}

fn at_worktree(env: &TestEnv, args: &[&str]) -> String {
    let mut command: Command = env.any("git");
    let output = Output::of(command.current_dir(worktree(env)).args(args)).unwrap();
    assert_eq!(output.status, 0, "{args:?}: {}", output.stderr);
    output.stdout
}

fn five() -> String {
    let scripts = [work(1, "one"), work(2, "draft"), work(2, "two"), work(3, "three")];
    scripts.concat() + &work(4, "four") + &work(5, "five")
}

#[test]
fn five_tasks_with_a_rejection_make_five_commits() {
    let env = list(5);
    env.write("AGENTS.md", "Use tabs.\n").unwrap();
    let output = run(&env, &five(), &(reject(2, 1) + ACCEPT), &["--proof", "ls *.txt"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let wanted: Vec<String> = (1..=5).map(|n| format!("T-00{n}: Number {n}")).collect();
    assert_eq!(commits(&env), wanted);
    assert_eq!(states(&env), ["done"; 5]);
    assert_eq!(tree(&worktree(&env))["2.txt"], "two\n");
    assert_eq!(at_worktree(&env, &["status", "--porcelain"]), "");
    // Each commit has its own task's file and no other.
    let files = git(&env, &["show", "--format=", "--name-only", "segue/1-numbers~1"]);
    assert_eq!(files.trim(), "4.txt");
    let said = git(&env, &["log", "-1", "--format=%B", "segue/1-numbers~3"]);
    for part in
        ["Wrote two.", "Segue-Task: T-002", "Segue-State: done", "Reviewed-by: native-2 pass"]
    {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    // The user's own branch and files are as they were.
    assert_eq!(git(&env, &["rev-parse", "--abbrev-ref", "HEAD"]).trim(), "main");
    assert!(!env.repo().join("1.txt").exists());

    let rows = status(&env);
    assert_eq!(rows["last_stop"], "all_done");
    assert_eq!(rows["tasks"][1]["rounds"], 2);
    let tokens: u64 = (0..5).map(|n| rows["tasks"][n]["tokens"].as_u64().unwrap()).sum();
    assert_eq!(Some(tokens), rows["tokens"].as_u64());
}

#[test]
fn each_side_is_told_what_is_on_disk_and_nothing_of_the_other_tasks() {
    let env = list(3);
    let scripts = work(1, "one") + &work(2, "draft") + &work(2, "two") + &work(3, "three");
    assert_eq!(run(&env, &scripts, &(reject(2, 1) + ACCEPT), &[]).status, 0);
    let told: Vec<Value> = data(&env, 1, "turn.started");
    let prompt = |n: usize| told[n]["prompt"]["text"].as_str().unwrap().to_owned();
    // Four turns: the second task took two.
    assert_eq!(told.len(), 4);
    assert_eq!(told.iter().filter(|turn| turn["fresh"] == true).count(), 3);
    let third = prompt(3);
    for part in [
        "One file for each number.",
        "- T-001 Number 1 (done)",
        "- T-003 Number 3 (this one)",
        "T-002 Number 2: Wrote two.",
        "- 3.txt is there",
        "submit_case",
    ] {
        assert!(third.contains(part), "{part} is missing in {third}");
    }
    assert!(!third.contains("It says draft"), "{third}");
    assert!(prompt(2).contains("It says draft"));

    let dir = env.session_dir(1).unwrap();
    let theirs = fs::read_to_string(dir.join("reviewers/native-2/journal.jsonl")).unwrap();
    let theirs: Vec<Value> = theirs.lines().map(parsed).collect();
    let asked: Vec<&Value> = theirs.iter().filter(|one| one["kind"] == "turn.started").collect();
    assert_eq!(asked.len(), 4);
    assert!(asked.iter().all(|turn| turn["data"]["fresh"] == true));
    let last = asked[2]["data"]["prompt"]["text"].as_str().unwrap();
    for part in ["+two", "C1 · acceptance_gap", "met by: 2.txt:1", "none to speak of"] {
        assert!(last.contains(part), "{part} is missing in {last}");
    }
    assert!(!last.contains("SECRET-REASONING") && !last.contains("3.txt is there"), "{last}");

    let ledger = fs::read_to_string(dir.join("ledger/T-002.jsonl")).unwrap();
    let ledger: Vec<Value> = ledger.lines().map(parsed).collect();
    assert_eq!(ledger.len(), 2);
    assert_eq!(ledger[0]["case"]["summary"], "Wrote draft.");
    assert_eq!(ledger[0]["verdict"]["concerns"][0]["concern"], "It says draft");
    assert_eq!(
        (&ledger[1]["round"], &ledger[1]["verdict"]["verdict"]),
        (&json!(2), &json!("pass"))
    );
}

/// Two rejections: more than a cap of two allows.
fn never() -> String {
    reject(2, 1) + &reject(2, 2)
}

fn twice_draft() -> String {
    work(1, "one") + &work(2, "draft") + &work(2, "draft again") + &work(3, "three")
}

#[test]
fn a_cap_fails_the_task_and_a_resume_unwinds_and_retries_it() {
    let env = list(3);
    let output = run(&env, &twice_draft(), &(never() + ACCEPT), &["--max-iterations", "2"]);
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(states(&env), ["done", "failed iter_cap", "pending"]);
    assert_eq!(commits(&env), ["T-001: Number 1", "T-002: FAILED (iter_cap): Number 2"]);
    assert_eq!(at_worktree(&env, &["status", "--porcelain"]), "");
    let spent = status(&env)["tokens"].as_u64().unwrap();

    // The plan is said first, and `--dry-run` says nothing else.
    let before = journal_bytes(&env, 1);
    let plan = segue(&env, &["resume", "1", "--max-iterations", "4", "--dry-run"]).stderr;
    let line =
        "↻ resume plan: retrying T-002 (was: failed, iter_cap); then: T-003; last stop: iter_cap";
    assert_eq!(plan.lines().next(), Some(line), "{plan}");
    assert_eq!(journal_bytes(&env, 1), before);

    model(&env, "worker", &(work(2, "two") + &work(3, "three")));
    let output = segue(&env, &["resume", "1", "--max-iterations", "4"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(output.stderr.lines().next(), Some(line));
    assert_eq!(commits(&env), ["T-001: Number 1", "T-002: Number 2", "T-003: Number 3"]);
    let resumed = data(&env, 1, "session.resumed");
    assert_eq!(resumed[0]["plan"][0], line);
    let again = &data(&env, 1, "task.started")[2];
    assert_eq!((&again["task"], &again["attempt"]), (&json!("T-002"), &json!(2)));
    assert!(again["retry"]["unwound"].is_string(), "{again}");
    // The worker knows what was said before, and counts from one again.
    let told = data(&env, 1, "turn.started");
    let told = told[3]["prompt"]["text"].as_str().unwrap();
    assert!(told.contains("It says draft") && told.contains("tried before"), "{told}");
    assert!(status(&env)["tokens"].as_u64().unwrap() > spent);
    // The evaluator sees one diff: all of it, and not only what is new.
    let dir = env.session_dir(1).unwrap();
    let theirs = fs::read_to_string(dir.join("reviewers/native-2/journal.jsonl")).unwrap();
    assert!(theirs.contains("This is round 3.") && theirs.contains("+two"), "{theirs}");
    assert_eq!(fs::read_to_string(dir.join("ledger/T-002.jsonl")).unwrap().lines().count(), 3);
    assert_eq!(segue(&env, &["resume", "1"]).status, 0);
    assert_eq!(commits(&env).len(), 3);
}

#[test]
fn a_placeholder_that_was_pushed_or_built_upon_stays() {
    for pushed in [true, false] {
        let env = list(2);
        let script = work(1, "one") + &work(2, "draft") + &work(2, "draft again");
        assert_eq!(run(&env, &script, &(never() + ACCEPT), &["--max-iterations", "2"]).status, 3);
        let why = if pushed {
            let bare = env.path("bare.git");
            git(&env, &["init", "-q", "--bare", bare.to_str().unwrap()]);
            git(&env, &["remote", "add", "origin", bare.to_str().unwrap()]);
            git(&env, &["push", "-q", "origin", "segue/1-numbers"]);
            "it was pushed"
        } else {
            fs::write(worktree(&env).join("mine.txt"), "mine\n").unwrap();
            at_worktree(&env, &["add", "."]);
            at_worktree(&env, &["commit", "-q", "-m", "mine"]);
            "the branch has gone on"
        };
        let before = commits(&env);
        model(&env, "worker", &work(2, "two"));
        let output = segue(&env, &["resume", "1"]);
        assert_eq!(output.status, 0, "{}", output.stderr);
        assert!(output.stderr.contains(why), "{}", output.stderr);
        let after = commits(&env);
        assert_eq!(after[..before.len()], before[..]);
        assert_eq!(after[before.len()..], ["T-002: Number 2"]);
        let retry = &data(&env, 1, "task.started")[2]["retry"];
        assert!(retry["kept"].as_str().unwrap().contains(why), "{retry}");
    }
}

/// A worker that answers like this, again and again, in place of the second task.
fn second(reply: &str) -> String {
    let reply = format!("\n[[reply]]\nwhen = [\"T-002: \"]\n{reply}\nrepeat = true\n");
    work(1, "one") + &reply + &work(3, "three")
}

/// What a stop is called, what is said of the tasks, and what is on the branch.
struct Stop<'a> {
    word: &'a str,
    states: [&'a str; 3],
    commits: &'a [&'a str],
}

const FIRST: &str = "T-001: Number 1";

/// Runs, stops as it should, and goes on to the end when the worker does its work.
fn stops(worker: &str, evaluator: &str, more: &[&str], resume: &[&str], wanted: &Stop<'_>) {
    let env = list(3);
    let args = args(&env, worker, evaluator, more);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // The clock has to go on.
    let output = Output::of(env.command(&args).env_remove("SEGUE_CLOCK")).unwrap();
    assert_eq!(output.status, 3, "{}: {}", wanted.word, output.stderr);
    assert_eq!(status(&env)["last_stop"], wanted.word, "{}", output.stderr);
    assert_eq!(states(&env), wanted.states, "{}", wanted.word);
    assert_eq!(commits(&env), wanted.commits, "{}", wanted.word);
    model(&env, "worker", &(work(1, "one") + &work(2, "two") + &work(3, "three")));
    model(&env, "evaluator", ACCEPT);
    let args: Vec<&str> = ["resume", "1"].iter().chain(resume).copied().collect();
    let output = segue(&env, &args);
    assert_eq!(output.status, 0, "{}: {}", wanted.word, output.stderr);
    assert!(output.stderr.contains(&format!("last stop: {}", wanted.word)), "{}", output.stderr);
    assert_eq!(commits(&env), [FIRST, "T-002: Number 2", "T-003: Number 3"], "{}", wanted.word);
    assert_eq!(states(&env), ["done"; 3]);
}

#[test]
fn what_is_the_tasks_own_failure_fails_it() {
    let draft =
        r#"tools = [{ name = "write_file", input = { path = "2.txt", content = "half\n" } }]"#;
    let half = format!("{draft}\n[[reply]]\nwhen = [\"T-002: \"]\ntext = \"I think I am done.\"");
    let failed = |word| ["done".to_owned(), format!("failed {word}"), "pending".to_owned()];
    for (word, worker, evaluator, flags) in [
        ("evaluator_cap", twice_draft(), never() + ACCEPT, &["--max-reviews", "2"][..]),
        ("no_case", second(&half), ACCEPT.to_owned(), &[]),
        ("step_cap", second(draft), ACCEPT.to_owned(), &["--max-steps", "5"]),
    ] {
        let states = failed(word);
        let states = [states[0].as_str(), states[1].as_str(), states[2].as_str()];
        let placeholder = format!("T-002: FAILED ({word}): Number 2");
        let commits = [FIRST, placeholder.as_str()];
        let wanted = Stop { word, states, commits: &commits };
        stops(&worker, &evaluator, flags, &["--max-reviews", "9", "--max-steps", "50"], &wanted);
    }
    // Nothing was done, so there is nothing to keep on the branch.
    let wanted = Stop {
        word: "empty_responses",
        states: ["done", "failed empty_responses", "pending"],
        commits: &[FIRST],
    };
    stops(&second("silent = true"), ACCEPT, &[], &[], &wanted);
}

#[test]
fn what_all_tasks_have_in_common_stops_between_them() {
    let three = work(1, "one") + &work(2, "two") + &work(3, "three");
    let slow =
        three.replacen("text = \"I write it.\"", "text = \"I write it.\"\ndelay_ms = 1500", 1);
    for (word, worker, flag, value, raised) in [
        ("token_cap", &three, "--max-tokens", "1", "1M"),
        ("wall_clock", &slow, "--max-time", "1s", "60s"),
        ("turn_cap", &three, "--max-turns", "1", "50"),
    ] {
        let wanted = Stop { word, states: ["done", "pending", "pending"], commits: &[FIRST] };
        stops(worker, ACCEPT, &[flag, value], &[flag, raised], &wanted);
    }
    // The cap is still there: it stops again, and nothing is lost or undone.
    let env = list(2);
    assert_eq!(run(&env, &three, ACCEPT, &["--max-tokens", "1"]).status, 3);
    assert_eq!(segue(&env, &["resume", "1"]).status, 3);
    assert_eq!(states(&env), ["done", "pending"]);
    // What the environment says counts for a resume, too.
    let mut command = env.command(["resume", "1"]);
    let output = Output::of(command.env("SEGUE_MAX_TOKENS", "1M")).unwrap();
    assert_eq!(output.status, 0, "{}", output.stderr);
}

#[test]
fn a_provider_that_stays_down_fails_no_task() {
    let env = list(1);
    let evaluator = model(&env, "evaluator", ACCEPT);
    let args = ["tasks", "run", "plan", "--worker", "native@chat/m", "--evaluator", &evaluator];
    let mut command = env.command(args);
    command.env("SEGUE_CHAT_BASE_URL", "http://127.0.0.1:9").env("SEGUE_CHAT_KEY", "k");
    assert_eq!(segue(&env, &["config", "set", "native.attempts", "1"]).status, 0);
    let output = Output::of(&mut command).unwrap();
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(status(&env)["last_stop"], "provider_failure");
    assert_eq!(states(&env), ["begun"]);
    assert_eq!(commits(&env), [""; 0]);
    let worker = model(&env, "worker", &work(1, "one"));
    let model = worker.trim_start_matches("native@");
    let output = segue(&env, &["resume", "1", "--model", model]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("going on with T-001; last stop: provider_failure"));
    assert_eq!(commits(&env), [FIRST]);
}

#[test]
fn an_interrupt_leaves_the_task_in_hand() {
    let env = list(2);
    let slow =
        r#"tools = [{ name = "shell", input = { command = "echo begun > 2.txt; sleep 300" } }]"#;
    let worker = work(1, "one") + &format!("\n[[reply]]\nwhen = [\"T-002: \"]\n{slow}\n");
    let args = args(&env, &worker, ACCEPT, &[]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let child = start(&mut env.command(&args));
    until("the second task is begun", || worktree(&env).join("2.txt").exists());
    signal(&child, Signal::INT);
    assert_eq!(finish(child).status, 130);
    assert_eq!(states(&env), ["done", "begun"]);
    let more = work(1, "one") + &format!("\n[[reply]]\nwhen = [\"T-002: \"]\n{slow}\n");
    model(&env, "worker", &(more + &work(2, "two")));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let line = "↻ resume plan: going on with T-002; last stop: interrupted";
    assert_eq!(output.stderr.lines().next(), Some(line));
    // It went on in the same conversation, in the same attempt.
    assert_eq!(data(&env, 1, "task.started").len(), 2);
    assert_eq!(commits(&env), [FIRST, "T-002: Number 2"]);
}

#[test]
fn a_list_that_was_changed_meanwhile_is_read_anew() {
    let env = list(4);
    let worker = work(1, "one") + &work(2, "draft") + &work(2, "draft again");
    assert_eq!(run(&env, &worker, &(never() + ACCEPT), &["--max-iterations", "2"]).status, 3);
    page(&env, 1, "Other words.");
    page(&env, 2, "Write two, in other words.");
    page(&env, 5, "One more.");
    fs::remove_file(env.repo().join("plan/T-003-number.md")).unwrap();
    model(&env, "worker", &(work(2, "two") + &work(4, "four") + &work(5, "five")));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    for part in [
        "then: T-004, T-005; last stop: iter_cap",
        "added     T-005",
        "removed   T-003: not worked on",
        "edited    T-002: read anew",
        "edited    T-001: done already, and stays so",
    ] {
        assert!(output.stderr.contains(part), "{part} is missing in {}", output.stderr);
    }
    let told = data(&env, 1, "turn.started");
    let told = told[3]["prompt"]["text"].as_str().unwrap();
    assert!(told.contains("Write two, in other words."), "{told}");
    assert_eq!(commits(&env)[1..], ["T-002: Number 2", "T-004: Number 4", "T-005: Number 5"]);
    // A task that is added to a list that was done is worked on, too.
    page(&env, 6, "And one more.");
    model(&env, "worker", &work(6, "six"));
    assert_eq!(segue(&env, &["resume", "1"]).status, 0);
    assert_eq!(commits(&env).last().map(String::as_str), Some("T-006: Number 6"));
    // A list that is wrong is refused with the place, before anything happens.
    env.write("plan/T-007-x.md", "no front matter\n").unwrap();
    let before = journal_bytes(&env, 1);
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 2, "{}", output.stderr);
    assert!(output.stderr.contains("T-007-x.md:1"), "{}", output.stderr);
    assert_eq!(journal_bytes(&env, 1), before);
}

#[test]
fn what_there_is_of_a_task_that_was_removed_is_kept_apart() {
    let env = list(3);
    let limit = "limit = { secs = 7200 }";
    let draft =
        r#"tools = [{ name = "write_file", input = { path = "2.txt", content = "half\n" } }]"#;
    let stopped = format!(
        "\n[[reply]]\nwhen = [\"T-002: \"]\n{draft}\n[[reply]]\nwhen = [\"T-002: \"]\n{limit}\n"
    );
    assert_eq!(run(&env, &(work(1, "one") + &stopped), ACCEPT, &[]).status, 3);
    assert_eq!(states(&env), ["done", "begun", "pending"]);
    fs::remove_file(env.repo().join("plan/T-002-number.md")).unwrap();
    model(&env, "worker", &work(3, "three"));
    let output = segue(&env, &["resume", "1", "--now"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(commits(&env), [FIRST, "T-002: FAILED (removed)", "T-003: Number 3"]);
    let third = git(&env, &["show", "--format=", "--name-only", "segue/1-numbers"]);
    assert_eq!(third.trim(), "3.txt");
}

#[test]
fn a_prepared_session_is_picked_up_and_one_that_stopped_is_offered() {
    let env = list(2);
    let worker = model(&env, "worker", &(work(1, "one") + &work(2, "draft") + &work(2, "again")));
    let evaluator = model(&env, "evaluator", &(never() + ACCEPT));
    let who = ["--worker", &worker, "--evaluator", &evaluator, "--max-iterations", "2"];
    let prep: Vec<&str> = ["tasks", "prep", "plan"].iter().chain(&who).copied().collect();
    let output = segue(&env, &prep);
    assert_eq!((output.status, output.stdout.trim()), (0, "segue tasks run plan"));
    assert!(!worktree(&env).exists() && !has(&env, 1, "session.started"));
    assert_eq!(status(&env)["status"], "prepared");
    let refused = segue(&env, &["tasks", "run", "plan", "--worker", "claude"]);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert_eq!(segue(&env, &["tasks", "run", "plan"]).status, 3);
    assert_eq!(states(&env), ["done", "failed iter_cap"]);

    let before = (journal_bytes(&env, 1), git(&env, &["for-each-ref"]));
    let output = segue(&env, &["tasks", "run", "plan"]);
    assert_eq!((output.status, output.stdout.as_str()), (2, ""));
    let said: Vec<&str> = output.stderr.lines().collect();
    assert_eq!(said.len(), 1, "{said:?}");
    for part in ["last stop: iter_cap", "segue resume 1", "segue tasks run plan --new"] {
        assert!(said[0].contains(part), "{part} is missing in {}", said[0]);
    }
    assert_eq!((journal_bytes(&env, 1), git(&env, &["for-each-ref"])), before);
    let new: Vec<&str> = ["tasks", "run", "plan", "--new"].iter().chain(&who).copied().collect();
    assert_eq!(segue(&env, &new).status, 3);
    // Of two prepared ones nobody knows which is meant.
    assert_eq!(segue(&env, &prep).status, 0);
    let twice = segue(&env, &prep);
    assert_eq!(twice.status, 2, "{}", twice.stderr);
    let another: Vec<&str> = prep.iter().copied().chain(["--new"]).collect();
    assert_eq!(segue(&env, &another).status, 0);
    let output = segue(&env, &["tasks", "run", "plan"]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("segue resume 3") && output.stderr.contains("segue resume 4"));
}

#[test]
fn whatever_is_broken_in_the_directory_is_mended_or_refused() {
    let env = list(3);
    let worker = work(1, "one") + &work(2, "draft") + &work(2, "draft again");
    assert_eq!(run(&env, &worker, &(never() + ACCEPT), &["--max-iterations", "2"]).status, 3);
    let dir = env.session_dir(1).unwrap();
    let whole = states(&env);
    let ledger = fs::read(dir.join("ledger/T-002.jsonl")).unwrap();
    for name in ["state.json", "session.json", "ledger/T-002.jsonl"] {
        let bytes = fs::read(dir.join(name)).unwrap();
        for broken in [&bytes[..bytes.len() / 2], b"{}", b""] {
            fs::write(dir.join(name), broken).unwrap();
            assert_eq!(states(&env), whole, "{name}: {}", String::from_utf8_lossy(broken));
        }
    }
    let output = segue(&env, &["verify", "1"]);
    assert!(output.stdout.contains("ledger/T-002.jsonl"), "{}", output.stdout);
    // A line that was never finished is set aside; damage in the middle is named with its line.
    let journal = dir.join("journal.jsonl");
    let bytes = fs::read(&journal).unwrap();
    fs::write(&journal, [&bytes[..], b"{\"v\":1,\"seq\""].concat()).unwrap();
    assert_eq!(states(&env), whole);
    fs::write(&journal, String::from_utf8_lossy(&bytes).replacen("T-002", "T-009", 1)).unwrap();
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 1, "{}", output.stderr);
    assert!(output.stderr.contains("line ") && output.stderr.contains("--repair"));
    fs::write(&journal, &bytes).unwrap();
    // The list is gone: it is worked on as it was read.
    fs::rename(env.repo().join("plan"), env.repo().join("moved")).unwrap();
    model(&env, "worker", &(work(2, "two") + &work(3, "three")));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("is gone: it is worked on as it was read last"));
    assert_eq!(commits(&env).len(), 3);
    let now = fs::read(dir.join("ledger/T-002.jsonl")).unwrap();
    assert!(now.starts_with(&ledger), "{}", String::from_utf8_lossy(&now));
    assert_eq!(segue(&env, &["verify", "1"]).stdout.matches('✗').count(), 0);
}

#[test]
fn what_is_done_can_be_pushed_and_nothing_is_merged() {
    let env = list(1);
    let nothing = segue(&env, &["tasks", "push"]);
    assert_eq!(nothing.status, 4, "{}", nothing.stderr);
    assert_eq!(run(&env, &work(1, "one"), ACCEPT, &[]).status, 0);
    let output = segue(&env, &["tasks", "push", "1"]);
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("there is no remote origin"), "{}", output.stderr);
    let bare = env.path("bare.git");
    git(&env, &["init", "-q", "--bare", bare.to_str().unwrap()]);
    git(&env, &["remote", "add", "origin", bare.to_str().unwrap()]);
    let output = segue(&env, &["tasks", "push", "plan"]);
    assert_eq!((output.status, output.stdout.trim()), (0, "segue tasks pr 1"), "{}", output.stderr);
    let theirs = git(&env, &["ls-remote", "origin", "refs/heads/segue/1-numbers"]);
    assert!(theirs.contains(git(&env, &["rev-parse", "segue/1-numbers"]).trim()));
    // Where one opens a request, by the remote's address.
    git(&env, &["config", "remote.origin.pushurl", bare.to_str().unwrap()]);
    git(&env, &["remote", "set-url", "origin", "https://k:secret@github.com/o/r.git"]);
    git(&env, &["remote", "set-url", "--push", "origin", bare.to_str().unwrap()]);
    let output = segue(&env, &["tasks", "pr", "1", "--web", "--base", "main"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let url = "https://github.com/o/r/compare/main...segue%2F1-numbers?expand=1";
    assert_eq!(output.stdout.trim(), url);
    assert_eq!(git(&env, &["log", "--format=%s", "main"]).lines().next(), Some("plan"));
    // Once it is elsewhere too, the worktree may go; and comes back with all that was committed.
    assert_eq!(segue(&env, &["gc", "--yes"]).status, 0);
    assert!(!worktree(&env).exists());
    page(&env, 2, "One more.");
    model(&env, "worker", &work(2, "two"));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("continue  T-002 Number 2"), "{}", output.stderr);
    assert_eq!(commits(&env), [FIRST, "T-002: Number 2"]);
    let files = git(&env, &["show", "--format=", "--name-only", "segue/1-numbers"]);
    assert_eq!(files.trim(), "2.txt");
    // It is found by its place, too: the remote has given the repository another name.
    assert_eq!(segue(&env, &["tasks", "push"]).status, 0);
}

#[test]
fn on_a_terminal_one_is_asked_and_the_look_changes_nothing() {
    let env = list(2);
    let script = work(1, "one") + &work(2, "draft") + &work(2, "draft again");
    assert_eq!(run(&env, &script, &(never() + ACCEPT), &["--max-iterations", "2"]).status, 3);
    let before = (journal_bytes(&env, 1), git(&env, &["for-each-ref"]));
    let again = args(&env, &(work(1, "one") + &work(2, "two")), ACCEPT, &[]).join(" ");
    let line = format!("{SEGUE} {again}");
    let ask = |answer: &str, status: i32| {
        let terminal = Tmux::start(&env, &line, (120, 30));
        let seen = terminal.sees("[c] cancel");
        for part in ["last stop: iter_cap", "1 of 2 done", "[r] resume", "[d] discard"] {
            assert!(seen.contains(part), "{part} is missing in {seen}");
        }
        terminal.keys(&[answer, "Enter"]);
        terminal.ends(status);
    };
    ask("c", 2);
    assert_eq!((journal_bytes(&env, 1), git(&env, &["for-each-ref"])), before);
    // What holds work of its own is set aside, and kept.
    ask("d", 0);
    assert_eq!(data(&env, 1, "session.stopped").last().unwrap()["reason"], "discarded");
    assert_eq!(commits(&env).len(), 2);
    let log = git(&env, &["log", "--reverse", "--format=%s", "main..segue/2-numbers"]);
    assert_eq!(log.lines().collect::<Vec<_>>(), [FIRST, "T-002: Number 2"]);
    // It is not offered again; named, it can be resumed all the same.
    assert_eq!(segue(&env, &again.split(' ').collect::<Vec<_>>()).status, 0);
    assert_eq!(segue(&env, &["resume", "1"]).status, 0);
    assert_eq!(commits(&env), [FIRST, "T-002: Number 2"]);
}

/// Whatever a page names of ours: commands with their flags, settings, variables.
fn named_on(page: &str) -> Vec<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let spans = text.split('`').skip(1).step_by(2).map(str::to_owned);
    let lines = text.lines().filter(|line| line.starts_with("segue ")).map(str::to_owned);
    lines.chain(spans.filter(|span| !span.contains('\n'))).collect()
}

#[test]
fn every_command_flag_and_setting_of_the_pages_is_there() {
    let env = list(1);
    let settings = segue(&env, &["config"]).stdout;
    let mut commands = 0;
    let pages = ["tasks.md", "coming-from/tilth.md", "replay.md", "coming-from/opentine.md"];
    for name in pages.iter().flat_map(|page| named_on(page)) {
        let text = name.split(" #").next().unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.first() == Some(&"segue") && words.len() > 1 {
            let is_word = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase());
            let many = if words[1] == "tasks" { 2 } else { 1 };
            let mut args: Vec<&str> = words[1..].iter().take_while(is_word).copied().collect();
            args.truncate(many);
            args.push("--help");
            let help = segue(&env, &args);
            assert_eq!(help.status, 0, "{name}: {}", help.stderr);
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                assert!(help.stdout.contains(flag), "{name}: no {flag} in {args:?}");
            }
            commands += 1;
        }
        let known = ["tasks.", "caps.", "SEGUE_MAX_", "SEGUE_CHAT_"];
        let set = known.iter().any(|start| text.starts_with(start)) && !text.contains('…');
        if set && words.len() == 1 && !text.ends_with(".md") {
            assert!(settings.contains(text) || text.starts_with("SEGUE"), "{text}: {settings}");
            let reference = named_on("settings.md").join(" ");
            assert!(reference.contains(text), "{text}");
        }
    }
    assert!(commands > 60, "{commands}");
}
