//! A reviewer at its limit, a reviewer that dies, and a person who has had enough: a recorded stop,
//! or somebody goes on.

use std::fs;

use rustix::process::Signal;
use segue_testkit::{
    model_server::{Fault, Reply, Reset},
    vendors::{Cli, Lab},
};
use serde_json::{Value, json};

use super::stage::{
    QUESTION, TASK, first_attempt, given, objects, of_kind, pass, passes, questions,
    reviewer_journal, reviewing, second_attempt, start, verdicts, wait_for_event,
    wait_until_nothing_runs,
};
use crate::{
    checkpoint::our_tool,
    support::{
        self, Live, asked_by, bodies, limit, limited, of, programs_below, segue, show, stop,
        wait_for, wait_gone,
    },
};

const WORKER: Cli = Cli::Codex;
const REVIEWER: Cli = Cli::Claude;

fn silence() -> Reply {
    Reply::fault(Fault::hang())
}

#[test]
fn at_its_limit_another_takes_the_reviewers_place() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    let other = Cli::Gemini;
    let verdict = our_tool(other, "submit_verdict", json!({ "verdict": "pass" }));
    let review = vec![of(other, verdict), of(other, Reply::text("It is fine."))];
    start(&mut lab, [first_attempt(WORKER), vec![limit(REVIEWER)], review]);
    let output = limited(&lab, &["pair", TASK, "--fallback", "gemini"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(verdicts(&lab), given(&[(1, "claude", "pass")]));
    let counted = &bodies(&lab, "verdict.given")[0];
    assert_eq!((&counted["agent"], &counted["via"]), (&json!("gemini"), &json!("tool")));
    assert_eq!(questions(&lab, other).len(), 1);
    let told = asked_by(&lab, other)[0].texts().join("\n");
    for part in [QUESTION, TASK, "+helo", "I wrote the greeting by hand."] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let changes = of_kind(&reviewer_journal(&lab, "claude"), "agent.changed");
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(bodies(&lab, "agent.changed").is_empty(), "the worker is who it was");
}

#[test]
fn a_verdict_that_came_before_the_limit_counts_and_nobody_else_is_asked_for_it() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    let other = Cli::Gemini;
    let [verdict, _] = objects(REVIEWER, 1).try_into().unwrap();
    let review = [vec![verdict, limit(REVIEWER)], second_attempt(WORKER), vec![of(other, pass())]];
    start(&mut lab, [first_attempt(WORKER)].into_iter().chain(review));
    let output = limited(&lab, &["pair", TASK, "--fallback", "gemini"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(verdicts(&lab), given(&[(1, "claude", "fail"), (2, "claude", "pass")]));
    let who: Vec<Value> =
        bodies(&lab, "verdict.given").iter().map(|one| one["agent"].clone()).collect();
    assert_eq!(who, ["claude", "gemini"]);
    let asked = questions(&lab, other);
    assert!(asked.len() == 1 && asked[0].contains("This is round 2."), "{asked:?}");
}

#[test]
fn without_another_the_pair_stops_and_goes_on_later() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    let fault = Fault::UsageLimit { reset: Some(Reset::In(2)) };
    start(&mut lab, [first_attempt(WORKER), vec![of(REVIEWER, Reply::fault(fault).sticky())]]);
    let output = limited(&lab, &["pair", TASK]);
    assert_eq!(output.status, 3, "{}", output.stderr);
    let stopped = stop(&lab);
    assert_eq!((&stopped["reason"], &stopped["agent"]), (&json!("limit"), &json!("claude")));
    let message = stopped["message"].as_str().unwrap();
    assert!(message.starts_with("the reviewer claude: "), "{message}");
    assert!(output.stderr.contains("the reviewer claude"), "{}", output.stderr);
    assert!(stopped["resets_at"].is_string(), "{stopped}");
    let resets: jiff::Timestamp = stopped["resets_at"].as_str().unwrap().parse().unwrap();

    wait_for(|| (jiff::Timestamp::now() > resets).then_some(()));
    start(&mut lab, [vec![of(REVIEWER, pass())]]);
    let output = limited(&lab, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(asked_by(&lab, WORKER).is_empty(), "its work was done");
    assert_eq!(verdicts(&lab), given(&[(1, "claude", "pass")]));
    let told = asked_by(&lab, REVIEWER)[0].texts().join("\n");
    assert_eq!(told.matches(QUESTION).count(), 1, "{told}");
}

#[test]
fn the_pair_waits_for_a_reviewers_limit_where_that_is_asked() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    let fault = Fault::UsageLimit { reset: Some(Reset::In(3)) };
    let review = vec![of(REVIEWER, Reply::fault(fault)), of(REVIEWER, pass())];
    start(&mut lab, [first_attempt(WORKER), review]);
    let output = limited(&lab, &["pair", TASK, "--wait"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(verdicts(&lab), given(&[(1, "claude", "pass")]));
    let hit = of_kind(&reviewer_journal(&lab, "claude"), "limit.hit");
    assert_eq!(hit.len(), 1, "{hit:?}");
    let asked = asked_by(&lab, REVIEWER);
    assert_eq!(asked.len(), 2);
    let resets: jiff::Timestamp = hit[0]["data"]["resets_at"].as_str().unwrap().parse().unwrap();
    assert!(asked[1].time >= resets, "{} {resets}", asked[1].time);
}

#[test]
fn a_reviewer_that_is_killed_is_asked_to_go_on_once_and_then_the_pair_stops() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    let review = |reply: Reply| vec![of(REVIEWER, reply)];
    start(&mut lab, [first_attempt(WORKER), review(silence().sticky())]);
    let live = Live::start(&lab, &["pair", TASK]);
    for deaths in 1..=2 {
        wait_for(|| (asked_by(&lab, REVIEWER).len() >= deaths).then_some(()));
        kill_the_reviewer(&live);
    }
    let output = live.end();
    assert_eq!(output.status, 3, "{}", output.stderr);
    let stopped = stop(&lab);
    assert_eq!(stopped["reason"], "agent_crashed", "{stopped}");
    assert!(stopped["message"].as_str().unwrap().starts_with("the reviewer claude: "), "{stopped}");
    wait_until_nothing_runs(&lab);

    // Killed once only, it is not even noticed.
    start(&mut lab, [review(silence()), review(pass())]);
    let live = Live::start(&lab, &["resume", "1"]);
    wait_for(|| (asked_by(&lab, REVIEWER).len() == 1).then_some(()));
    kill_the_reviewer(&live);
    let output = live.end();
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(verdicts(&lab), given(&[(1, "claude", "pass")]));
    assert!(asked_by(&lab, WORKER).is_empty(), "its work was done");
    let told = asked_by(&lab, REVIEWER).pop().unwrap().texts().join("\n");
    assert_eq!(told.matches(QUESTION).count(), 1, "{told}");
}

/// The program itself: a guardian also has what others left behind.
fn kill_the_reviewer(live: &Live) {
    let is_claude = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| line.contains("stream-json"))
    };
    let pid = wait_for(|| programs_below(live.pid()).into_iter().find(is_claude));
    support::kill_hard(pid);
    wait_gone(pid);
}

#[test]
fn interrupted_in_a_review_it_goes_on_with_those_who_have_not_spoken() {
    let second = WORKER;
    let Some(mut lab) = Lab::open(WORKER) else { return };
    let held = || vec![reviewing(second, 1, silence().sticky())];
    start(&mut lab, [first_attempt(WORKER), passes(REVIEWER, 1), held()]);
    let mut live = Live::start(&lab, &["pair", TASK, "-r", "claude,codex"]);
    wait_for_event(&lab, "verdict.given");
    for (signal, exit, resume) in [(Signal::INT, 130, true), (Signal::HUP, 129, false)] {
        wait_for(|| (!reviews(&lab, second).is_empty()).then_some(()));
        live.signal(signal);
        let output = live.end();
        assert_eq!(output.status, exit, "{}", output.stderr);
        let stopped = stop(&lab);
        assert_eq!(stopped["reason"], "interrupted", "{stopped}");
        wait_until_nothing_runs(&lab);
        if !resume {
            break;
        }
        start(&mut lab, [held()]);
        live = Live::start(&lab, &["resume", "1"]);
    }
    start(&mut lab, [vec![of(second, pass())]]);
    let known = bodies(&lab, "reviewer.stopped")[0]["vendor_sessions"][0].clone();
    let output = segue(&lab, &["pair", "--session", known.as_str().unwrap()]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(asked_by(&lab, REVIEWER).is_empty(), "it has spoken");
    assert_eq!(verdicts(&lab), given(&[(1, "claude", "pass"), (1, "codex-2", "pass")]));
    let told = asked_by(&lab, second)[0].texts().join("\n");
    assert_eq!(told.matches(QUESTION).count(), 1, "{told}");
    let stops: Vec<Value> =
        bodies(&lab, "session.stopped").iter().map(|stop| stop["reason"].clone()).collect();
    assert_eq!(stops, ["interrupted", "interrupted", "done"]);
    assert_eq!(show(&lab)["status"], "completed");
}

/// What was asked of an agent as a reviewer.
fn reviews(lab: &Lab, cli: Cli) -> Vec<String> {
    let asked = asked_by(lab, cli).into_iter().map(|request| request.texts().join("\n"));
    asked.filter(|text| text.contains(QUESTION)).collect()
}
