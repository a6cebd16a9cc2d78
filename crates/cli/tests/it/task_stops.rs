//! Every stop in the table of docs/tasks.md, brought about on purpose: what it is called, what becomes
//! of the tasks, what is on the branch; and from each of them a resume comes to the end.

use std::{collections::BTreeSet, fs, path::PathBuf};

use rustix::process::Signal;
use segue_core::{event::SessionStopped, tasks::stop::word};
use segue_testkit::env::{Output, TestEnv};
use serde_json::{Value, json};

use crate::{
    support::{data, finish, json as parsed, segue, signal, start, until},
    task_runs::{
        ACCEPT, FIRST, args, commits, list, model, never, run, states, status, twice_draft, work,
        worktree,
    },
    terminal::SEGUE,
};

/// One way to stop at the second of three tasks.
struct Stop {
    /// In the table; `None` for a crash, which has no word.
    word: Option<&'static str>,
    worker: String,
    evaluator: String,
    flags: Vec<&'static str>,
    exit: i32,
    /// Sent once the second task has begun to write.
    signal: Option<Signal>,
    /// What is on the branch of the task in hand.
    placeholder: bool,
    /// What the worker has said already when it is resumed.
    before: String,
    resume: Vec<&'static str>,
    /// What the evaluator says from then on.
    judge: String,
}

impl Stop {
    fn new(word: &'static str, worker: String) -> Self {
        Self {
            word: Some(word),
            worker,
            evaluator: ACCEPT.to_owned(),
            flags: Vec::new(),
            exit: 3,
            signal: None,
            placeholder: false,
            before: String::new(),
            resume: Vec::new(),
            judge: ACCEPT.to_owned(),
        }
    }

    fn flags(self, flags: &[&'static str], resume: &[&'static str]) -> Self {
        Self { flags: flags.to_vec(), resume: resume.to_vec(), ..self }
    }

    fn before(self, more: &str) -> Self {
        Self { before: self.before + more, ..self }
    }

    fn kept(self) -> Self {
        Self { placeholder: true, ..self }
    }
}

/// A worker that answers like this, again and again, in place of the second task.
fn second(reply: &str) -> String {
    let reply = format!("\n[[reply]]\nwhen = [\"T-002: \"]\n{reply}\nrepeat = true\n");
    work(1, "one") + &reply + &work(3, "three")
}

/// One step of the worker in the second task.
fn step(reply: &str) -> String {
    format!("\n[[reply]]\nwhen = [\"T-002: \"]\n{reply}\n")
}

const DRAFT: &str =
    r#"tools = [{ name = "write_file", input = { path = "2.txt", content = "half\n" } }]"#;
const SLOW: &str =
    r#"tools = [{ name = "shell", input = { command = "echo begun > 2.txt; sleep 300" } }]"#;
/// A person has the session stop while the second task is worked on.
const HANDS_OFF: &str =
    r#"tools = [{ name = "shell", input = { command = "SEGUE --home ../home handoff 1" } }]"#;
const AGAIN: &str = r#"tools = [{ name = "shell", input = { command = "echo x >> 2.txt" } }]"#;

/// What is the task's own failure.
fn of_the_task() -> Vec<Stop> {
    let reviewed = |word, flags: &[&'static str], resume: &[&'static str]| {
        let stop = Stop::new(word, twice_draft()).flags(flags, resume).kept();
        Stop { evaluator: never() + ACCEPT, ..stop }
    };
    let half = format!("{DRAFT}\n{}", step("text = \"I think I am done.\"").trim_start());
    let refuses = "text = \"I would rather not.\"\nrefuses = true";
    // One empty answer is not yet two.
    let silent_once = work(1, "one") + &step("silent = true") + &step("text = \"Done, I think.\"");
    let silent_later = work(1, "one") + &step("text = \"Done, I think.\"") + &step("silent = true");
    vec![
        reviewed("iter_cap", &["--max-iterations", "2"], &["--max-iterations", "9"]),
        reviewed("evaluator_cap", &["--max-reviews", "2"], &["--max-reviews", "0"]),
        Stop::new("step_cap", second(DRAFT))
            .flags(&["--max-steps", "5"], &["--max-steps", "50"])
            .kept(),
        Stop::new("no_case", second(&half)).kept(),
        Stop::new("no_case", silent_once),
        Stop::new("no_case", silent_later),
        Stop::new("empty_responses", second("silent = true")),
        Stop::new("looping", second(AGAIN)).kept(),
        Stop::new("refused", second(refuses)),
        Stop::new("refused", work(1, "one") + &step(DRAFT) + &step(refuses)).kept(),
    ]
}

/// What all tasks have in common.
fn between_tasks() -> Vec<Stop> {
    let three = || work(1, "one") + &work(2, "two") + &work(3, "three");
    let slow =
        three().replacen("text = \"I write it.\"", "text = \"I write it.\"\ndelay_ms = 1500", 1);
    vec![
        Stop::new("wall_clock", slow).flags(&["--max-time", "1s"], &["--max-time", "1h"]),
        Stop::new("token_cap", three()).flags(&["--max-tokens", "1"], &["--max-tokens", "1M"]),
        Stop::new("cost_cap", three()).flags(&["--max-cost", "0.000001"], &["--max-cost", "none"]),
        Stop::new("turn_cap", three()).flags(&["--max-turns", "1"], &["--max-turns", "none"]),
    ]
}

/// What is nobody's failure, or everybody's: the task is gone on with.
fn around_the_task() -> Vec<Stop> {
    let stopped = |word, reply: &str| Stop {
        before: step(DRAFT),
        ..Stop::new(word, work(1, "one") + &step(DRAFT) + reply)
    };
    let slow = |word, signal, exit| Stop {
        word,
        exit,
        signal: Some(signal),
        before: step(SLOW),
        ..Stop::new("", work(1, "one") + &step(SLOW))
    };
    let hand_off = step(&HANDS_OFF.replace("SEGUE", SEGUE));
    let half = step("text = \"Half of it is there.\"");
    vec![
        stopped("limit", &step("limit = { secs = 7200 }")).flags(&[], &["--now"]),
        // At the end of the turn.
        stopped("handed_off", &(hand_off.clone() + &half)).before(&(hand_off + &half)),
        // The script ends: that is no answer.
        Stop { exit: 1, ..stopped("error", "") },
        slow(Some("interrupted"), Signal::INT, 130),
        slow(None, Signal::KILL, 137),
    ]
}

/// An answer of the evaluator to the second task, again and again.
fn evaluates(reply: &str) -> String {
    format!("\n[[reply]]\nwhen = [\"T-002: \"]\n{reply}\nrepeat = true\n{ACCEPT}")
}

const ACCEPTS: &str = r#"tools = [{ name = "submit_verdict", input = { verdict = "accept", summary = "it is there" } }]"#;
const LOOKS: &str = r#"tools = [{ name = "read_file", input = { path = "2.txt" } }]"#;
const REFUSES: &str = "text = \"I would rather not.\"\nrefuses = true";

/// What the evaluator runs into, of which the task can't say that it failed.
fn of_the_evaluator() -> Vec<Stop> {
    let three = || work(1, "one") + &work(2, "two") + &work(3, "three");
    // It is asked again in the middle of a conversation.
    let evaluator = |word, reply| Stop {
        evaluator: evaluates(reply),
        judge: evaluates(ACCEPTS),
        ..Stop::new(word, three())
    };
    vec![
        evaluator("step_cap", LOOKS).flags(&["--max-steps", "4"], &["--max-steps", "50"]),
        evaluator("looping", LOOKS),
        evaluator("refused", REFUSES),
    ]
}

/// Both models have a price.
fn set_prices(env: &TestEnv) {
    let prices = ["worker", "evaluator"].map(|name| {
        let path = fs::canonicalize(env.path("")).unwrap().join(format!("{name}.toml"));
        format!("[prices.\"script:{}\"]\ninput = 3\noutput = 15\n", path.display())
    });
    fs::create_dir_all(env.home()).unwrap();
    fs::write(env.home().join("config.toml"), prices.concat()).unwrap();
}

/// Runs, stops as it should, and goes on to the end when everybody does their work.
fn check(stop: &Stop, in_hand: &str) {
    let (env, word) = (list(3), stop.word.unwrap_or("none (it crashed)"));
    set_prices(&env);
    let args = args(&env, &stop.worker, &stop.evaluator, &stop.flags);
    // The clock has to go on.
    let child = start(env.command(&args).env_remove("SEGUE_CLOCK"));
    if let Some(wanted) = stop.signal {
        until("the second task is begun", || worktree(&env).join("2.txt").exists());
        signal(&child, wanted);
    }
    let output = finish(child);
    assert_eq!(output.status, stop.exit, "{word}: {}", output.stderr);
    assert_eq!(status(&env)["last_stop"].as_str(), stop.word, "{}", output.stderr);
    let why = |state: &str| match state {
        "failed" => format!("failed {word}"),
        state => state.to_owned(),
    };
    assert_eq!(states(&env), ["done", &why(in_hand), "pending"], "{word}");
    let placeholder = format!("T-002: FAILED ({word}): Number 2");
    let on_branch = [FIRST, &placeholder];
    assert_eq!(commits(&env), on_branch[..1 + usize::from(stop.placeholder)], "{word}");
    goes_on(&env, stop, in_hand, word);
}

fn goes_on(env: &TestEnv, stop: &Stop, in_hand: &str, word: &str) {
    let rest = work(1, "one") + &stop.before + &work(2, "two") + &work(3, "three");
    model(env, "worker", &rest);
    model(env, "evaluator", &stop.judge);
    let args: Vec<&str> = ["resume", "1"].iter().chain(&stop.resume).copied().collect();
    let output = segue(env, &args);
    assert_eq!(output.status, 0, "{word}: {}", output.stderr);
    let plan = match in_hand {
        "failed" => format!("retrying T-002 (was: failed, {word}); then: T-003"),
        "begun" => "going on with T-002; then: T-003".to_owned(),
        _ => "pending: T-002, T-003".to_owned(),
    };
    let plan = format!("↻ resume plan: {plan}; last stop: {word}");
    assert_eq!(output.stderr.lines().next(), Some(plan.as_str()), "{}", output.stderr);
    assert_eq!(commits(env), [FIRST, "T-002: Number 2", "T-003: Number 3"], "{word}");
    assert_eq!(states(env), ["done"; 3], "{word}");
    assert_eq!(status(env)["last_stop"], "all_done", "{word}");
    // A task that is gone on with is not begun again.
    let begun = 3 + usize::from(in_hand == "failed");
    assert_eq!(data(env, 1, "task.started").len(), begun, "{word}");
}

#[test]
fn what_is_the_tasks_own_failure_fails_it() {
    of_the_task().iter().for_each(|stop| check(stop, "failed"));
}

#[test]
fn what_all_tasks_have_in_common_stops_between_them() {
    between_tasks().iter().for_each(|stop| check(stop, "pending"));
}

#[test]
fn what_comes_from_outside_leaves_the_task_in_hand() {
    around_the_task().iter().for_each(|stop| check(stop, "begun"));
}

#[test]
fn what_the_evaluator_runs_into_leaves_the_task_in_hand() {
    of_the_evaluator().iter().for_each(|stop| check(stop, "begun"));
}

#[test]
fn another_one_evaluates_in_the_place_of_one_that_refuses() {
    let env = list(2);
    let output = run(&env, &(work(1, "one") + &work(2, "two")), &evaluates(REFUSES), &[]);
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(states(&env), ["done", "begun"]);
    let other =
        r#"exec:cat > /dev/null; printf '\140\140\140segue\n{"verdict":"accept"}\n\140\140\140\n'"#;
    let plan = segue(&env, &["resume", "1", "--with", other, "--dry-run"]);
    assert!(plan.stderr.contains("takes the place of native-2"), "{}", plan.stderr);
    let output = segue(&env, &["resume", "1", "--with", other]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(states(&env), ["done"; 2]);
    assert_eq!(data(&env, 1, "verdict.given")[1]["agent"], other);
    assert_eq!(data(&env, 1, "agent.changed").len(), 0);
}

#[test]
fn the_wall_clock_starts_again_with_each_resume() {
    let slow = |n, content| {
        let text = "text = \"I write it.\"";
        work(n, content).replacen(text, &format!("{text}\ndelay_ms = 2500"), 1)
    };
    let env = list(3);
    let worker = slow(1, "one") + &slow(2, "two") + &slow(3, "three");
    let args = args(&env, &worker, ACCEPT, &["--max-time", "2s"]);
    let output = finish(start(env.command(&args).env_remove("SEGUE_CLOCK")));
    assert_eq!((output.status, commits(&env).len()), (3, 1), "{}", output.stderr);
    // The same cap, and as much time again.
    let output = finish(start(env.command(["resume", "1"]).env_remove("SEGUE_CLOCK")));
    assert_eq!((output.status, commits(&env).len()), (3, 2), "{}", output.stderr);
    assert_eq!(states(&env), ["done", "done", "pending"]);
    assert_eq!(status(&env)["last_stop"], "wall_clock");
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

/// The page's table: the words of each row, and what it says of the task in hand.
fn table() -> Vec<(BTreeSet<String>, String, String)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/tasks.md");
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().skip_while(|line| !line.starts_with("| last stop |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let words = cells[0].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (words, cells[0].to_owned(), cells[1].to_owned())
    };
    rows.map(row).collect()
}

/// The words of everything that a stop can be.
fn all_words() -> BTreeSet<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let schema = parsed(&fs::read_to_string(path.join("state.schema.json")).unwrap());
    let names = |kind: &str| -> Vec<Value> {
        let kind = &schema["$defs"][kind];
        let several = kind["oneOf"].as_array().cloned().unwrap_or_else(|| vec![kind.clone()]);
        let enums = several.iter().filter_map(|one| one["enum"].as_array()).flatten();
        let consts = several.iter().map(|one| &one["const"]).filter(|one| one.is_string());
        enums.chain(consts).cloned().collect()
    };
    let (reasons, caps) = (names("Reason"), names("Cap"));
    assert!(reasons.len() > 20 && caps.len() > 6, "{reasons:?} {caps:?}");
    let mut words = BTreeSet::new();
    for reason in &reasons {
        for cap in &caps {
            let stop = json!({ "reason": reason, "cap": cap, "message": "" });
            let stop: SessionStopped = serde_json::from_value(stop).unwrap();
            words.insert(word(&stop).to_owned());
        }
    }
    words
}

#[test]
fn a_cap_stops_a_run_wherever_it_is_set() {
    let text = "text = \"I write it.\"";
    let worker = twice_draft().replacen(text, &format!("{text}\ndelay_ms = 1500"), 1);
    for (word, setting, variable, value) in [
        ("iter_cap", "tasks.max_iterations", "SEGUE_MAX_ITERATIONS", "2"),
        ("wall_clock", "caps.time", "SEGUE_MAX_TIME", "1s"),
        ("token_cap", "caps.tokens", "SEGUE_MAX_TOKENS", "1"),
        ("cost_cap", "caps.cost", "SEGUE_MAX_COST", "0.000001"),
    ] {
        let quick = twice_draft();
        let worker = if word == "wall_clock" { &worker } else { &quick };
        for in_file in [true, false] {
            let env = list(2);
            set_prices(&env);
            let mut command = env.command(args(&env, worker, &(never() + ACCEPT), &[]));
            // The clock has to go on.
            command.env_remove("SEGUE_CLOCK");
            match in_file {
                true => assert_eq!(segue(&env, &["config", "set", setting, value]).status, 0),
                false => drop(command.env(variable, value)),
            }
            let output = finish(start(&mut command));
            assert_eq!(output.status, 3, "{word}, {in_file}: {}", output.stderr);
            assert_eq!(status(&env)["last_stop"], word, "{in_file}: {}", output.stderr);
            let second = if word == "iter_cap" { "failed iter_cap" } else { "pending" };
            assert_eq!(states(&env), ["done", second], "{word}, {in_file}");
        }
    }
}

#[test]
fn the_table_has_every_stop_and_no_other() {
    let words = |stops: &[Stop]| -> BTreeSet<String> {
        stops.iter().filter_map(|stop| stop.word).map(str::to_owned).collect()
    };
    let table = table();
    let told = |effect: &str| -> BTreeSet<String> {
        let rows = table.iter().filter(|(_, _, of)| of == effect);
        rows.flat_map(|(words, ..)| words.clone()).collect()
    };
    assert_eq!(told("failed"), words(&of_the_task()));
    assert_eq!(told("none is in hand"), words(&between_tasks()));
    let mut outside = words(&around_the_task());
    outside.insert("provider_failure".to_owned());
    outside.append(&mut words(&of_the_evaluator()));
    assert_eq!(told("as it was"), outside);
    assert!(table.iter().any(|(_, text, of)| text.ends_with("or a crash") && of == "as it was"));
    assert_eq!(told(""), BTreeSet::from(["all_done".to_owned()]));
    assert_eq!(told("as it was before"), BTreeSet::from(["discarded".to_owned()]));
    assert_eq!(table.len(), 7);
    let rows: BTreeSet<String> = table.iter().flat_map(|(words, ..)| words.clone()).collect();
    assert_eq!(rows, all_words());
}
