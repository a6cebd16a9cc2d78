//! `segue tasks run` on scripted models: rounds, commits, caps, stops, resumes, what is refused.

use std::{fs, path::PathBuf, process::Command};

use segue_testkit::env::{Output, TestEnv};
use serde_json::{Value, json};

use crate::support::{data, git, has, journal_bytes, json as parsed, scripted_in_git, segue, tree};
use crate::terminal::{SEGUE, Tmux};

/// What the worker of one task does: it writes a file of the task's name, and makes its case.
pub(crate) fn work(n: u32, content: &str) -> String {
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

pub(crate) const ACCEPT: &str = r#"
[[reply]]
tools = [{ name = "submit_verdict", input = { verdict = "accept", summary = "it is there" } }]
[[reply]]
text = "Good."
repeat = true
"#;

/// Rejects a task in this round.
pub(crate) fn reject(n: u32, round: u32) -> String {
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
pub(crate) fn list(tasks: u32) -> TestEnv {
    let (env, _) = scripted_in_git("");
    env.write("plan/overview.md", "# Numbers\n\nOne file for each number.\n").unwrap();
    for n in 1..=tasks {
        page(&env, n, "Write it.");
    }
    git(&env, &["add", "."]);
    git(&env, &["commit", "-q", "-m", "plan"]);
    env
}

pub(crate) fn page(env: &TestEnv, n: u32, description: &str) {
    let text = format!(
        "---\nid: T-00{n}\ntitle: Number {n}\n---\n{description}\n\n## Acceptance criteria\n\
         - {n}.txt is there\n"
    );
    env.write(&format!("plan/T-00{n}-number.md"), &text).unwrap();
}

pub(crate) fn model(env: &TestEnv, name: &str, script: &str) -> String {
    let path = env.path(&format!("{name}.toml"));
    fs::write(&path, script).unwrap();
    format!("native@script:{}", path.display())
}

/// Works through `plan` with these scripts.
pub(crate) fn run(env: &TestEnv, worker: &str, evaluator: &str, more: &[&str]) -> Output {
    segue(env, &args(env, worker, evaluator, more).iter().map(String::as_str).collect::<Vec<_>>())
}

pub(crate) fn args(env: &TestEnv, worker: &str, evaluator: &str, more: &[&str]) -> Vec<String> {
    let (worker, evaluator) = (model(env, "worker", worker), model(env, "evaluator", evaluator));
    let args = ["tasks", "run", "plan", "--worker", &worker, "--evaluator", &evaluator];
    args.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

pub(crate) fn status(env: &TestEnv) -> Value {
    parsed(&segue(env, &["tasks", "status", "1", "--json"]).stdout)
}

/// Each task with its state.
pub(crate) fn states(env: &TestEnv) -> Vec<String> {
    let rows = status(env)["tasks"].as_array().unwrap().clone();
    let row = |row: &Value| match row["why"].as_str() {
        Some(why) => format!("{} {}", row["state"].as_str().unwrap(), why),
        None => row["state"].as_str().unwrap().to_owned(),
    };
    rows.iter().map(row).collect()
}

/// The subjects of the session's own commits, oldest first.
pub(crate) fn commits(env: &TestEnv) -> Vec<String> {
    let log = git(env, &["log", "--reverse", "--format=%s", "main..segue/1-numbers"]);
    log.lines().map(str::to_owned).collect()
}

pub(crate) fn worktree(env: &TestEnv) -> PathBuf {
    env.path("repo-segue-1")
}

pub(crate) fn at_worktree(env: &TestEnv, args: &[&str]) -> String {
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
    env.write("CLAUDE.md", "Be brief.\n").unwrap();
    git(&env, &["add", "."]);
    git(&env, &["commit", "-q", "-m", "how we work"]);
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
    // Segue's own agent reads AGENTS.md by itself; what the project says elsewhere it is told.
    let told = data(&env, 1, "turn.started");
    let told = told[0]["prompt"]["text"].as_str().unwrap();
    assert!(told.contains("## From CLAUDE.md\n\nBe brief."), "{told}");
    assert!(!told.contains("Use tabs."), "{told}");
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
pub(crate) fn never() -> String {
    reject(2, 1) + &reject(2, 2)
}

pub(crate) fn twice_draft() -> String {
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
    let theirs: Vec<Value> = theirs.lines().map(parsed).collect();
    let mut asked =
        theirs.iter().map(|one| one["data"]["prompt"]["text"].as_str().unwrap_or_default());
    let third = asked.find(|text| text.contains("This is round 3.")).unwrap();
    assert!(third.contains("+two") && !third.contains("-draft"), "{third}");
    // With what it has said before, also across the resume.
    for part in ["C1 · acceptance_gap", "It says draft", "ESCALATED: raised 2 times"] {
        assert!(third.contains(part), "{part} is missing in {third}");
    }
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
        let told = data(&env, 1, "turn.started");
        let told = told[3]["prompt"]["text"].as_str().unwrap();
        assert!(told.contains("message begins with `T-002: FAILED`"), "{told}");
    }
}

pub(crate) const FIRST: &str = "T-001: Number 1";

#[test]
fn a_cap_that_is_still_there_stops_it_again_until_it_is_raised_or_lifted() {
    let three = work(1, "one") + &work(2, "two") + &work(3, "three");
    let env = list(3);
    let caps = ["--max-tokens", "1", "--max-reviews", "5"];
    assert_eq!(run(&env, &three, ACCEPT, &caps).status, 3);
    // Nothing is lost or undone.
    assert_eq!(segue(&env, &["resume", "1"]).status, 3);
    assert_eq!(states(&env), ["done", "pending", "pending"]);
    // What the environment says counts for a resume, too; also of turns, and where it lifts a cap.
    let with = |name: &str, value: &str, more: &[&str]| {
        let args: Vec<&str> = ["resume", "1"].iter().chain(more).copied().collect();
        let output = Output::of(env.command(args).env(name, value)).unwrap();
        (output.status, output.stderr)
    };
    let (exit, said) = with("SEGUE_MAX_TURNS", "1", &["--max-tokens", "none"]);
    assert_eq!((exit, &status(&env)["last_stop"]), (3, &json!("turn_cap")), "{said}");
    assert_eq!(status(&env)["caps"]["tokens"], Value::Null);
    let (exit, said) =
        with("SEGUE_MAX_REVIEWS", "0", &["--max-turns", "none", "--max-iterations", "0"]);
    assert_eq!(exit, 0, "{said}");
    let caps = &status(&env)["caps"];
    for cap in ["turns", "iterations", "reviews", "tokens"] {
        assert_eq!(caps[cap], Value::Null, "{cap}: {caps}");
    }
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
fn what_has_failed_is_not_pushed() {
    let env = list(2);
    let script = work(1, "one") + &work(2, "draft") + &work(2, "draft again");
    assert_eq!(run(&env, &script, &(never() + ACCEPT), &["--max-iterations", "2"]).status, 3);
    let bare = env.path("bare.git");
    git(&env, &["init", "-q", "--bare", bare.to_str().unwrap()]);
    git(&env, &["remote", "add", "origin", bare.to_str().unwrap()]);
    let theirs = || {
        let log = git(
            &env,
            &["--git-dir", bare.to_str().unwrap(), "log", "--format=%s", "-1", "segue/1-numbers"],
        );
        log.trim().to_owned()
    };
    let output = segue(&env, &["tasks", "push", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("failed, and not pushed: T-002 ("), "{}", output.stderr);
    assert_eq!(theirs(), FIRST);
    // So it can be taken back.
    model(&env, "worker", &work(2, "two"));
    assert_eq!(segue(&env, &["resume", "1"]).status, 0);
    assert_eq!(commits(&env), [FIRST, "T-002: Number 2"]);
    let output = segue(&env, &["tasks", "push", "1", "--json"]);
    assert_eq!(parsed(&output.stdout)["held_back"], json!([]), "{}", output.stderr);
    assert_eq!(theirs(), "T-002: Number 2");
}

/// An evaluator that accepts, and during whose work a person has something to say to the worker.
fn talked_over(env: &TestEnv) -> String {
    let home = env.home();
    format!(
        "exec:cat > /dev/null; {SEGUE} --home {} bridge 1 send worker 'Mind the tests' >&2; \
         printf '\\140\\140\\140segue\\n{{\"verdict\":\"accept\"}}\\n\\140\\140\\140\\n'",
        home.display()
    )
}

fn prompts(env: &TestEnv) -> Vec<String> {
    let told = data(env, 1, "turn.started");
    told.iter().map(|turn| turn["prompt"]["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_a_person_says_during_the_review_fails_no_task() {
    let env = list(2);
    let worker = model(&env, "worker", &(work(1, "one") + &work(2, "two")));
    let evaluator = talked_over(&env);
    let who = ["--worker", &worker, "--evaluator", &evaluator, "--max-iterations", "1"];
    let args: Vec<&str> = ["tasks", "run", "plan"].iter().chain(&who).copied().collect();
    let output = segue(&env, &args);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(commits(&env), [FIRST, "T-002: Number 2"]);
    // It is for the next one, and after the last there is none.
    let told: Vec<bool> =
        prompts(&env).iter().map(|text| text.contains("Mind the tests")).collect();
    assert_eq!(told, [false, true]);
    let stop = data(&env, 1, "session.stopped");
    let said = stop[0]["message"].as_str().unwrap();
    assert!(said.contains("1 message came too late for the worker"), "{said}");
    let output = segue(&env, &["resume", "1"]);
    assert!(output.status == 0 && !output.stderr.contains("which gets it"), "{}", output.stderr);
}

#[test]
fn what_a_person_says_before_the_review_is_part_of_the_task() {
    let env = list(1);
    let limited = "\n[[reply]]\nwhen = [\"T-001: \"]\nlimit = { secs = 7200 }\n";
    let caps = ["--max-iterations", "1"];
    assert_eq!(run(&env, limited, ACCEPT, &caps).status, 3);
    // The turn that is open ends first, and then there is one for what was said.
    model(&env, "worker", &(work(1, "one") + &work(1, "tested")));
    let output = segue(&env, &["resume", "1", "Mind the tests", "--now"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let told = prompts(&env);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].contains("Mind the tests") && told[1].contains("make your case"), "{told:?}");
    assert_eq!((commits(&env), states(&env)), (vec![FIRST.to_owned()], vec!["done".to_owned()]));
    assert_eq!(tree(&worktree(&env))["1.txt"], "tested\n");
    assert_eq!(data(&env, 1, "review.started").len(), 1);
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
    // Who works was settled when it began: what says otherwise is not passed over in silence.
    ask("r", 2);
    assert_eq!((journal_bytes(&env, 1), git(&env, &["for-each-ref"])), before);
    // What holds work of its own is set aside, and kept.
    ask("d", 0);
    assert_eq!(data(&env, 1, "session.stopped").last().unwrap()["reason"], "discarded");
    assert_eq!(commits(&env).len(), 2);
    let log = git(&env, &["log", "--reverse", "--format=%s", "main..segue/2-numbers"]);
    assert_eq!(log.lines().collect::<Vec<_>>(), [FIRST, "T-002: Number 2"]);
    // It is not offered again, nor is it the latest that could be resumed: only where it is named.
    assert_eq!(segue(&env, &again.split(' ').collect::<Vec<_>>()).status, 0);
    for number in ["2", "3"] {
        assert_eq!(segue(&env, &["rm", number, "--force"]).status, 0);
    }
    let before = journal_bytes(&env, 1);
    for args in [&["resume"][..], &["resume", "@latest"], &["resume", "--prompt", "Go on"]] {
        let output = segue(&env, args);
        assert_eq!(output.status, 4, "{args:?}: {}", output.stderr);
    }
    assert_eq!(journal_bytes(&env, 1), before);
    assert_eq!(segue(&env, &["resume", "1"]).status, 0);
    assert_eq!(commits(&env), [FIRST, "T-002: Number 2"]);
}

#[test]
fn what_git_cannot_tell_is_something_to_lose() {
    let env = list(1);
    let limited = "\n[[reply]]\nwhen = [\"T-001: \"]\nlimit = { secs = 7200 }\n";
    assert_eq!(run(&env, limited, ACCEPT, &[]).status, 3);
    fs::write(worktree(&env).join("1.txt"), "by hand\n").unwrap();
    let index = env.repo().join(".git/worktrees/repo-segue-1/index");
    assert!(index.exists());
    fs::write(&index, "no index").unwrap();
    let refs = git(&env, &["for-each-ref", "refs/segue"]);
    assert_ne!(refs, "");
    let line = args(&env, &work(1, "one"), ACCEPT, &[]).join(" ");
    let terminal = Tmux::start(&env, &format!("{SEGUE} {line}"), (200, 30));
    terminal.sees("[c] cancel");
    terminal.keys(&["d", "Enter"]);
    terminal.sees("session 1 is set aside, and kept: it holds whatever is in the worktree");
    terminal.ends(0);
    assert_eq!(data(&env, 1, "session.stopped").last().unwrap()["reason"], "discarded");
    assert!(worktree(&env).join("1.txt").exists());
    assert!(git(&env, &["for-each-ref", "refs/segue"]).contains(refs.trim()));
}

#[test]
fn on_a_terminal_one_sees_the_list_the_step_and_what_is_spent() {
    let env = list(3);
    let caps = ["--max-iterations", "3", "--max-reviews", "4", "--max-tokens", "400k"];
    let scripts = work(1, "one") + &work(2, "draft") + &work(2, "two") + &work(3, "three");
    let line = args(&env, &scripts, &(reject(2, 1) + ACCEPT), &caps).join(" ");
    let terminal = Tmux::start(&env, &format!("{SEGUE} {line}"), (110, 200));
    let seen = terminal.sees("status 0\n");
    // Above each task the list, with what is spent of each cap.
    for part in [
        "▶ T-001 Number 1 · 1 of 3\n  ▸ T-001  · T-002  · T-003\n  0 of 400k tokens · ",
        "▶ T-003 Number 3 · 3 of 3\n  ✔ T-001  ✔ T-002  ▸ T-003\n",
        "iteration 1 of 3 · evaluation 0 of 4\n",
        // Once more with the turn that mends what was rejected.
        "iteration 2 of 3 · evaluation 1 of 4\n",
        "3 of 3 tasks are done",
    ] {
        assert!(seen.contains(part), "{part} is missing in {seen}");
    }
    assert!(!seen.contains("iteration 0"), "{seen}");
    let table = segue(&env, &["tasks", "status", "1"]).stdout;
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("T-00")).collect();
    assert_eq!(rows.len(), 3, "{table}");
    let rounds = |row: &str| row.split_whitespace().nth(2).map(str::to_owned);
    assert_eq!(rounds(rows[1]).as_deref(), Some("2"), "{table}");
    assert!(table.contains("of 400k tokens"), "{table}");
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
