//! What `segue run` says where a session of the repository could be resumed.

use std::fs;

use segue_testkit::env::{Output, TestEnv};

use crate::support::{DONE, WORK, git, journal_bytes, json, scripted, scripted_in_git, segue};

fn run(env: &TestEnv, offer: Option<&str>, args: &[&str]) -> Output {
    let mut command = env.command(args);
    match offer {
        Some(offer) => command.env("SEGUE_OFFER", offer),
        None => command.env_remove("SEGUE_OFFER"),
    };
    Output::of(&mut command).unwrap()
}

fn sessions(env: &TestEnv) -> usize {
    fs::read_dir(env.home().join("numbers")).unwrap().count()
}

#[test]
fn without_a_terminal_the_commands_are_named_and_nothing_is_changed() {
    let (env, model) = scripted_in_git(WORK);
    assert_eq!(segue(&env, &["run", "Go", "--model", &model, "--max-steps", "1"]).status, 3);
    let state = || (journal_bytes(&env, 1), sessions(&env), git(&env, &["for-each-ref"]));
    let before = state();
    for offer in [None, Some("ask")] {
        let output = run(&env, offer, &["run", "Something new", "--model", &model]);
        assert_eq!((output.status, output.stdout.as_str()), (2, ""));
        let lines: Vec<&str> = output.stderr.lines().collect();
        assert_eq!(
            lines,
            [
                "error: session 1 of this repository can be resumed: \"Go\" · cap:steps · now",
                "  hint: resume it: segue resume 1",
                "  hint: start anew: segue run --new …",
                "  hint: never ask: segue config set offer never",
            ]
        );
        let output = run(&env, offer, &["run", "Something new", "--model", &model, "--json"]);
        assert_eq!((output.status, output.stdout.as_str()), (2, ""));
        let error = json(output.stderr.trim())["error"].clone();
        assert_eq!(error["hints"].as_array().unwrap().len(), 3, "{error}");
        assert_eq!(state(), before);
    }
}

#[test]
fn new_starts_anew_and_leaves_the_other_alone() {
    let (env, model) = scripted_in_git(WORK);
    assert_eq!(segue(&env, &["run", "Go", "--model", &model, "--max-steps", "1"]).status, 3);
    let before = journal_bytes(&env, 1);
    let output = run(&env, None, &["run", "--new", "Something new", "--model", &model]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!((sessions(&env), journal_bytes(&env, 1)), (2, before));
    // One that is resumable is there still, and the setting is as good as the flag.
    assert_eq!(run(&env, None, &["run", "More", "--model", &model]).status, 2);
    assert_eq!(segue(&env, &["config", "set", "offer", "never"]).status, 0);
    assert_eq!(run(&env, None, &["run", "More", "--model", &model]).status, 0);
    assert_eq!(sessions(&env), 3);
}

#[test]
fn a_completed_session_and_one_of_another_repository_offer_nothing() {
    let (env, model) = scripted(DONE);
    assert_eq!(run(&env, None, &["run", "Go", "--model", &model]).status, 0);
    assert_eq!(run(&env, None, &["run", "Go", "--model", &model]).status, 0);
    env.script(WORK).unwrap();
    let args = ["run", "Go", "--model", &model, "--max-steps", "1"];
    assert_eq!(run(&env, None, &args).status, 3);
    let other = env.path("other");
    fs::create_dir(&other).unwrap();
    env.script(DONE).unwrap();
    let there = ["run", "Go", "--model", &model, "--dir", other.to_str().unwrap()];
    assert_eq!(run(&env, None, &there).status, 0);
    assert_eq!(run(&env, None, &["run", "Go", "--model", &model]).status, 2);
    assert_eq!(sessions(&env), 4);
}

#[test]
fn a_session_that_is_resumed_by_name_is_not_asked_about() {
    let (env, model) = scripted_in_git(WORK);
    assert_eq!(segue(&env, &["run", "Go", "--model", &model, "--max-steps", "1"]).status, 3);
    let output = run(&env, None, &["run", "native", "--resume", "--max-steps", "9"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(sessions(&env), 1);
}
