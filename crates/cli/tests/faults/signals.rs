//! Being asked to stop, in the middle of everything that can go on.

use rustix::process::{Pid, Signal, kill_process};
use segue_core::{
    Event,
    event::{Body, Reason, ToolStatus},
};
use segue_testkit::{
    env::TestEnv,
    kill::{Checked, Running, check},
};

use crate::support;

const SIGNALS: [(Signal, i32); 3] = [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)];

/// Starts a run, and lets it come to where it has reported `kind`.
pub(crate) fn started(env: &TestEnv, args: &[&str], kind: &str) -> Running {
    let mut command = env.command(args);
    // The address of nobody: the discard port of this machine, where nobody listens.
    command.env_remove("SEGUE_CLOCK").env("SEGUE_CHAT_BASE_URL", "http://127.0.0.1:9");
    let mut running = Running::start(env, command).expect("started");
    let there = running.wait_for(|seen| seen.iter().any(|event| event.kind == kind));
    assert!(there.expect("output"), "no {kind}: {}", running.stderr());
    running
}

pub(crate) fn send(running: &Running, signal: Signal) {
    let pid = i32::try_from(running.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("sent");
}

/// What a process that has ended left behind.
pub(crate) fn left(env: &TestEnv, running: &Running) -> Checked {
    let reported = running.reported().expect("output");
    check::after(env, &reported).unwrap_or_else(|broken| panic!("{broken}")).expect("a session")
}

/// Sends the signal, and checks the recorded stop.
fn interrupt(env: &TestEnv, mut running: Running, (signal, status): (Signal, i32)) -> Checked {
    send(&running, signal);
    assert_eq!(running.wait().expect("ended"), status, "{}", running.stderr());
    let found = left(env, &running);
    let stop = found.state.stop.as_ref().expect("a recorded stop");
    assert_eq!(stop.reason, Reason::Interrupted);
    assert_eq!(stop.signal, u8::try_from(signal.as_raw()).ok());
    found
}

/// The session goes on with another script and comes to its end.
pub(crate) fn resumes(env: &TestEnv) -> Checked {
    let model = env.script("[[reply]]\ntext = \"Done.\"\nrepeat = true\n").expect("script");
    let mut command = env.command(["resume", "1", "--json", "--model", &model]);
    command.env_remove("SEGUE_CLOCK");
    let mut running = Running::start(env, command).expect("started");
    assert_eq!(running.wait().expect("ended"), 0, "{}", running.stderr());
    let found = left(env, &running);
    assert!(check::is_done(&found.state), "{:?}", found.state);
    found
}

pub(crate) fn shell_script(command: &str) -> String {
    format!("[[reply]]\ntools = [{{ name = \"shell\", input = {{ command = \"{command}\" }} }}]\n")
}

pub(crate) fn last_tool(events: &[Event]) -> Option<ToolStatus> {
    events.iter().rev().find_map(|event| match &event.body {
        Body::ToolReturned(returned) => Some(returned.status),
        _ => None,
    })
}

#[test]
fn during_a_model_call() {
    for signal in SIGNALS {
        let env = support::env();
        let model = env.script("[[reply]]\ntext = \"a b c\"\ndelay_ms = 600000\n").expect("script");
        let running = started(&env, &["run", "go", "--json", "--model", &model], "model.called");
        let found = interrupt(&env, running, signal);
        assert!(found.state.turn.open);
        let found = resumes(&env);
        assert_eq!(found.state.turn.number, 1, "the turn goes on; it is not asked for again");
    }
}

#[test]
fn during_a_tool() {
    for signal in SIGNALS {
        let env = support::env();
        let script = shell_script("echo x >> effects.log; setsid sleep 1000 & sleep 1000");
        let model = env.script(&script).expect("script");
        let running = started(&env, &["run", "go", "--json", "--model", &model], "tool.started");
        check::until(|| env.repo().join("effects.log").exists()).expect("the tool runs");
        let found = interrupt(&env, running, signal);
        assert_eq!(last_tool(&found.events), Some(ToolStatus::Interrupted));
        resumes(&env);
        let effects = std::fs::read_to_string(env.repo().join("effects.log")).expect("effects");
        assert_eq!(effects, "x\n");
    }
}

#[test]
fn during_a_wait_for_the_next_attempt() {
    for signal in SIGNALS {
        let env = support::env();
        let running = started(&env, &["run", "go", "--json", "--model", "chat/x"], "model.failed");
        interrupt(&env, running, signal);
        resumes(&env);
    }
}

#[test]
fn during_the_proof() {
    for signal in SIGNALS {
        let env = support::env();
        let model = env.script("[[reply]]\ntext = \"Done.\"\nrepeat = true\n").expect("script");
        let proof = "test -e gate || { echo p >> proofs.log; sleep 1000; }";
        let args = ["run", "go", "--json", "--model", &model, "--proof", proof];
        let running = started(&env, &args, "proof.started");
        check::until(|| env.repo().join("proofs.log").exists()).expect("the proof runs");
        let found = interrupt(&env, running, signal);
        let proof = found.events.iter().rev().find_map(|event| match &event.body {
            Body::ProofReturned(returned) => Some(returned.status),
            _ => None,
        });
        assert_eq!(proof, Some(ToolStatus::Interrupted));
        env.write("gate", "").expect("gate");
        let found = resumes(&env);
        assert_eq!(found.state.turn.number, 1, "an interrupted proof has judged nothing");
    }
}

#[test]
fn a_second_one_ends_it_at_once_and_it_can_still_be_resumed() {
    let env = support::env();
    // Neither the shell nor what it starts heeds a polite signal.
    let script = shell_script("trap '' TERM INT; echo x >> effects.log; sleep 1000");
    let model = env.script(&script).expect("script");
    let mut running = started(&env, &["run", "go", "--json", "--model", &model], "tool.started");
    check::until(|| env.repo().join("effects.log").exists()).expect("the tool runs");
    send(&running, Signal::INT);
    // The first has to arrive on its own: two that wait at once become one.
    std::thread::sleep(std::time::Duration::from_millis(100));
    send(&running, Signal::INT);
    assert_eq!(running.wait().expect("ended"), 130);
    let found = left(&env, &running);
    assert!(found.state.stop.is_none(), "there was no time to record anything");
    let found = resumes(&env);
    assert_eq!(last_tool(&found.events), Some(ToolStatus::MayHaveRun));
}

#[test]
fn one_is_enough_for_a_tool_that_does_not_listen() {
    let env = support::env();
    let script = shell_script("trap '' TERM INT HUP; echo x >> effects.log; sleep 1000");
    let model = env.script(&script).expect("script");
    let running = started(&env, &["run", "go", "--json", "--model", &model], "tool.started");
    check::until(|| env.repo().join("effects.log").exists()).expect("the tool runs");
    let found = interrupt(&env, running, (Signal::TERM, 143));
    assert_eq!(last_tool(&found.events), Some(ToolStatus::Interrupted));
    resumes(&env);
}

/// A terminal that closes may hang up more than once.
#[test]
fn a_second_hang_up_is_the_same_hang_up() {
    let env = support::env();
    let script = shell_script("trap '' TERM HUP; echo x >> effects.log; sleep 1000");
    let model = env.script(&script).expect("script");
    let running = started(&env, &["run", "go", "--json", "--model", &model], "tool.started");
    check::until(|| env.repo().join("effects.log").exists()).expect("the tool runs");
    send(&running, Signal::HUP);
    std::thread::sleep(std::time::Duration::from_millis(100));
    let found = interrupt(&env, running, (Signal::HUP, 129));
    assert_eq!(last_tool(&found.events), Some(ToolStatus::Interrupted));
    resumes(&env);
}
