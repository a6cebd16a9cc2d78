//! The guardian is killed, or all of Segue at once.

use rustix::process::{Pid, Signal, kill_process};
use segue_core::event::{Body, ToolStatus};
use segue_testkit::{
    env::TestEnv,
    kill::{Running, check},
};

use crate::{
    signals::{last_tool, left, resumes, send, shell_script, started},
    support::{self, can, works},
};

/// A tool that leaves its session and ignores what is polite.
const STUBBORN: &str =
    "trap '' TERM HUP; echo x >> effects.log; setsid sleep 1000 & (sleep 1000 &) ; sleep 1000";

/// A run in the middle of its tool, with the mark of its processes and its guardian's pid.
fn in_a_tool(env: &TestEnv, script: &str) -> (Running, String, Pid) {
    let model = env.script(script).expect("script");
    let running = started(env, &["run", "go", "--json", "--model", &model], "tool.started");
    check::until(|| env.repo().join("effects.log").exists()).expect("the tool runs");
    let dir = check::only_session(env).expect("readable").expect("a session");
    let mark = format!("SEGUE_SESSION={}", dir.file_name().expect("a name").to_string_lossy());
    check::until(|| sleepers(&mark) >= 3).expect("all of the tool runs");
    let guardians = check::marked(&mark);
    let guardian = guardians.iter().find(|line| line.contains("__guardian")).expect("a guardian");
    let pid = guardian.split(' ').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    (running, mark, pid.expect("a pid"))
}

fn sleepers(mark: &str) -> usize {
    check::marked(mark).iter().filter(|line| line.contains(" sleep 1000")).count()
}

#[test]
fn a_guardian_that_is_killed_is_noticed_and_nothing_is_left() {
    let env = support::env();
    let script = format!("{}[[reply]]\ntext = \"Done.\"\n", shell_script(STUBBORN));
    let (mut running, _, guardian) = in_a_tool(&env, &script);
    kill_process(guardian, Signal::KILL).expect("sent");
    assert_eq!(running.wait().expect("ended"), 0, "{}", running.stderr());
    let found = left(&env, &running);
    assert_eq!(last_tool(&found.events), Some(ToolStatus::Interrupted));
    assert!(check::is_done(&found.state));
}

#[test]
fn when_all_of_segue_is_killed_at_once_a_resume_ends_what_is_left() {
    let env = support::env();
    let (mut running, mark, guardian) = in_a_tool(&env, &shell_script(STUBBORN));
    // Held still first: neither can do anything about the other's end.
    send(&running, Signal::STOP);
    kill_process(guardian, Signal::STOP).expect("sent");
    kill_process(guardian, Signal::KILL).expect("sent");
    assert!(running.kill().expect("killed"));
    check::until(|| !check::marked(&mark).iter().any(|line| line.contains("__guardian")))
        .expect("the guardian is gone");
    assert!(sleepers(&mark) >= 3, "{:?}", check::marked(&mark));
    let found = resumes(&env);
    let ended = found.events.iter().find_map(|event| match &event.body {
        Body::SessionResumed(resumed) => Some(resumed.leftovers_ended.len()),
        _ => None,
    });
    assert!(ended.is_some_and(|ended| ended >= 3), "{ended:?}");
    assert_eq!(last_tool(&found.events), Some(ToolStatus::MayHaveRun));
}

/// A resume must not begin while a tool of the run before is still at work.
#[test]
fn a_guardian_that_hangs_does_not_keep_its_tree_alive() {
    let env = support::env();
    let (mut running, mark, guardian) = in_a_tool(&env, &shell_script(STUBBORN));
    kill_process(guardian, Signal::STOP).expect("sent");
    assert!(running.kill().expect("killed"));
    assert!(sleepers(&mark) >= 3, "{:?}", check::marked(&mark));
    let found = resumes(&env);
    assert_eq!(last_tool(&found.events), Some(ToolStatus::MayHaveRun));
}

/// The guardian dies between starting the command and saying so: the command may run.
#[test]
fn a_guardian_that_is_killed_before_its_first_word_leaves_nothing_behind() {
    let name = "a_guardian_that_is_killed_before_its_first_word_leaves_nothing_behind";
    if !can(name, "strace is missing", works("strace", &["-V"])) {
        return;
    }
    let env = support::env();
    let script = format!("{}[[reply]]\ntext = \"Done.\"\n", shell_script(STUBBORN));
    let model = env.script(&script).expect("script");
    let mut command = env.any("strace");
    // Only a guardian sends anything this early: nothing at all, to see what its own wakeups come
    // through, and then the line that the command has started.
    command
        .env_remove("SEGUE_CLOCK")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=sendto:signal=KILL:when=2"])
        .args([support::PROGRAM, "run", "go", "--json", "--model", &model]);
    let mut running = Running::start(&env, command).expect("started");
    assert_eq!(running.wait().expect("ended"), 0, "{}", running.stderr());
    let found = left(&env, &running);
    assert_eq!(last_tool(&found.events), Some(ToolStatus::Interrupted));
    assert!(check::is_done(&found.state));
}
