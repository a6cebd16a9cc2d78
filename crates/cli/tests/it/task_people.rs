//! Who works through a list and who evaluates, where nobody is named.

use std::{fs, os::unix::fs::symlink};

use segue_testkit::env::{Output, TestEnv};
use serde_json::{Value, json};

use crate::{
    stand_ins::{bin, command, program, set},
    support::data,
    task_runs::{list, model},
};

/// Nobody but these is there.
fn with(agents: &[&str]) -> TestEnv {
    let env = list(1);
    // What Segue itself needs.
    for name in ["git", "sh"] {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|at| at.is_file());
        symlink(found.unwrap(), bin(&env).join(name)).unwrap();
    }
    for agent in agents {
        program(&env, agent, "echo 1.0.0");
    }
    env
}

/// What a list is prepared with, and what is said meanwhile.
fn prepared(env: &TestEnv, more: &[&str]) -> (Value, Output) {
    let args: Vec<&str> = ["tasks", "prep", "plan", "--new"].iter().chain(more).copied().collect();
    let mut command = command(env, &args);
    command.env("PATH", bin(env)).env("CODEX_API_KEY", "dummy");
    let output = Output::of(&mut command).unwrap();
    assert_eq!(output.status, 0, "{more:?}: {}", output.stderr);
    let last: u64 = fs::read_dir(env.home().join("numbers")).unwrap().count() as u64;
    (data(env, last, "session.created").remove(0)["identity"].take(), output)
}

fn who(session: &Value) -> (&str, Vec<&str>) {
    let seats = session["pair"]["reviewers"].as_array().unwrap();
    let agents = seats.iter().map(|seat| seat["agent"].as_str().unwrap());
    (session["agent"].as_str().unwrap(), agents.collect())
}

const OWN: &str = "evaluates its own work";

#[test]
fn the_evaluator_is_somebody_else_where_somebody_else_is_there() {
    let env = with(&["claude", "codex"]);
    let script = model(&env, "worker", "[[reply]]\ntext = \"x\"\n");
    for (worker, evaluator) in
        [("claude", "codex"), ("codex", "claude"), (script.as_str(), "claude")]
    {
        let (session, output) = prepared(&env, &["--worker", worker]);
        let worker = worker.split('@').next().unwrap();
        assert_eq!(who(&session), (worker, vec![evaluator]));
        assert!(!output.stderr.contains(OWN), "{}", output.stderr);
    }
    // Settings come before that, and flags before settings.
    set(&env, "tasks.worker", "codex");
    set(&env, "tasks.proof", "make test");
    let (session, _) = prepared(&env, &[]);
    assert_eq!(
        (who(&session), &session["proof"]),
        (("codex", vec!["claude"]), &json!("make test"))
    );
    set(&env, "tasks.evaluator", &format!("codex, {script}"));
    let (session, _) = prepared(&env, &[]);
    assert_eq!(who(&session), ("codex", vec!["codex", "native"]));
    let flags = ["--worker", "claude", "--evaluator", "codex", "--proof", "make check"];
    let (session, _) = prepared(&env, &flags);
    assert_eq!(
        (who(&session), &session["proof"]),
        (("claude", vec!["codex"]), &json!("make check"))
    );
}

#[test]
fn who_evaluates_its_own_work_is_told_of() {
    let env = with(&[]);
    let one = model(&env, "one", "[[reply]]\ntext = \"x\"\n");
    let other = model(&env, "other", "[[reply]]\ntext = \"x\"\n");
    // Nobody else is there: the same agent, with the same model.
    let (session, output) = prepared(&env, &["--worker", &one]);
    assert_eq!(who(&session), ("native", vec!["native"]));
    let model = |session: &Value| session["pair"]["reviewers"][0]["model"].clone();
    assert_eq!(model(&session), session["model"]);
    assert!(output.stderr.contains(OWN), "{}", output.stderr);
    let (_, output) = prepared(&env, &["--worker", &one, "--evaluator", &one]);
    assert!(output.stderr.contains(OWN), "{}", output.stderr);
    // Another model is somebody else.
    let (session, output) = prepared(&env, &["--worker", &one, "--evaluator", &other]);
    assert_ne!(model(&session), session["model"]);
    assert!(!output.stderr.contains(OWN), "{}", output.stderr);
}
