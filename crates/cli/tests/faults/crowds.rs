//! Several processes at once.

use std::{
    collections::BTreeSet,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rustix::process::Signal;
use segue_journal::{RealDisk, lock};
use segue_testkit::env::Output;

use crate::{
    signals::{resumes, send, started},
    support,
};

#[test]
fn a_second_writer_is_told_who_has_the_session() {
    let env = support::env();
    let model = env.script("[[reply]]\ntext = \"a b\"\ndelay_ms = 600000\n").expect("script");
    let mut running = started(&env, &["run", "go", "--json", "--model", &model], "model.called");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let refused = [
        &["resume", "1"][..],
        &["resume", "1", "now this"],
        &["rm", "--force", "1"],
        &["verify", "1", "--repair"],
    ];
    for args in refused {
        let output = env.segue(args).expect("ran");
        assert_eq!(output.status, 5, "{args:?}: {output:?}");
        let pid = format!("process {}", running.child.id());
        assert!(output.stderr.contains(&pid) && output.stderr.contains(&host), "{output:?}");
    }
    // Whoever only looks is not kept out.
    for args in [&["list"][..], &["show", "1"], &["log", "1"], &["verify", "1"]] {
        let output = env.segue(args).expect("ran");
        assert_eq!(output.status, 0, "{args:?}: {output:?}");
    }
    send(&running, Signal::TERM);
    assert_eq!(running.wait().expect("ended"), 143);
    resumes(&env);
}

#[test]
fn many_sessions_at_once_get_a_number_each() {
    const CROWD: usize = 64;
    let env = support::env();
    let script = "[[reply]]\ntools = [{ name = \"shell\", input = { command = \"echo x >> effects.log\" } }]\n\
                  [[reply]]\ntext = \"Done.\"\n";
    let model = env.script(script).expect("script");
    let crowd: Vec<_> = (0..CROWD)
        .map(|_| {
            let mut command = env.command(["run", "go", "--json", "--model", &model]);
            command.env_remove("SEGUE_CLOCK").stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("started")
        })
        .collect();
    let mut numbers = BTreeSet::new();
    for one in crowd {
        let output = one.wait_with_output().expect("ended");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
        let last: serde_json::Value =
            serde_json::from_str(text.lines().last().unwrap_or_default()).expect("a result");
        assert!(numbers.insert(last["result"]["session"].as_str().expect("a number").to_owned()));
    }
    assert_eq!(numbers.len(), CROWD);
    let effects = std::fs::read_to_string(env.repo().join("effects.log")).expect("effects");
    assert_eq!(effects.lines().count(), CROWD);
    let Output { status, stdout, stderr } =
        env.segue(["list", "--limit", "0", "--json"]).expect("ran");
    assert_eq!(status, 0, "{stderr}");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&stdout).expect("rows");
    let completed = rows.iter().filter(|row| row["status"] == "completed").count();
    let listed: BTreeSet<String> = rows.iter().map(|row| row["number"].to_string()).collect();
    assert_eq!((completed, listed), (CROWD, numbers));
}

/// To look whether a session is at work means to try its lock: a resume beside somebody who looks
/// all the time is not turned away.
#[test]
fn whoever_only_looks_is_not_taken_for_a_writer() {
    let env = support::env();
    let model = env.script("[[reply]]\ntext = \"Done.\"\n").expect("script");
    let output = env.segue(["run", "go", "--model", &model]).expect("ran");
    assert_eq!(output.status, 0, "{output:?}");
    let dir = env.session_dir(1).expect("a session");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = lock::held_by(&RealDisk, &dir);
            }
        });
        let refused: Vec<Output> = (0..40)
            .map(|_| env.segue(["resume", "1", "more", "--dry-run"]).expect("ran"))
            .filter(|output| output.status != 0)
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(refused.is_empty(), "{} times: {:?}", refused.len(), refused.first());
    });
}
