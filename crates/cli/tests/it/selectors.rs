//! How a session is named: the same in every command, from any directory.

use std::fs;

use insta::assert_snapshot;
use segue_testkit::env::{Output, TestEnv};

use crate::support::{DONE, plain, scripted, segue, show, shown};

/// Two sessions; the second has a name.
fn two() -> (TestEnv, String) {
    let (env, model) = scripted(DONE);
    assert_eq!(segue(&env, &["run", "One", "--model", &model]).status, 0);
    let later = Output::of(
        env.command(["run", "Two", "--model", &model, "--name", "second"])
            .env("SEGUE_CLOCK", "2026-11-15T18:01:00Z"),
    );
    assert_eq!(later.unwrap().status, 0);
    (env, model)
}

fn id(env: &TestEnv, number: u64) -> String {
    let dir = env.session_dir(number).unwrap();
    dir.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn every_form_finds_the_one_that_is_meant() {
    let (env, _) = two();
    let id = id(&env, 1);
    let dir = env.session_dir(1).unwrap();
    let relative = format!(
        "../home/sessions/{}/{id}",
        dir.parent().unwrap().file_name().unwrap().to_str().unwrap()
    );
    let forms = [
        "1",
        "#1",
        &id,
        &id.to_lowercase(),
        &id[..20],
        &id[..20].to_lowercase(),
        dir.to_str().unwrap(),
        &relative,
        &format!("{relative}/journal.jsonl"),
    ];
    for form in forms {
        assert_eq!(show(&env, form)["number"], 1, "{form}");
    }
    for form in ["second", "@latest", "2"] {
        assert_eq!(show(&env, form)["number"], 2, "{form}");
    }
    let output = segue(&env, &["show", "--json"]);
    assert!(output.stdout.contains("\"number\": 2"), "without a word, the latest");
    for command in ["show", "log", "watch", "verify"] {
        assert_eq!(segue(&env, &[command, "second"]).status, 0, "{command}");
    }
    assert_eq!(segue(&env, &["resume", "second", "--dry-run"]).status, 0);
}

#[test]
fn a_number_means_one_thing_from_any_directory() {
    let (env, _) = two();
    let elsewhere = env.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let from = |args: &[&str]| Output::of(env.command(args).current_dir(&elsewhere)).unwrap();
    for form in ["1", "second", id(&env, 1).as_str()] {
        assert_eq!(from(&["show", form]).status, 0, "{form}");
    }
    assert_snapshot!(plain(&env, &from(&["show"])), @"
    status 4
    ── stdout
    ── stderr
    error: there is no session of this repository (`segue list --all` shows the others)
    ");
    assert_snapshot!(plain(&env, &from(&["list"])), @"
    status 0
    ── stdout
    ── stderr
    there is no session of this repository; all: segue list --all
    ");
    let output = from(&["resume", "1", "More"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(show(&env, "1")["workspace"].as_str().unwrap().ends_with("/repo"));
}

#[test]
fn a_start_that_fits_two_is_not_guessed_at() {
    let (env, _) = two();
    let start = &id(&env, 1)[..4];
    let output = segue(&env, &["show", start]);
    assert_eq!(output.status, 2);
    let text = plain(&env, &output).replace(start, "$START");
    assert_snapshot!(text, @"
    status 2
    ── stdout
    ── stderr
    error: `$START` fits 2 sessions: 2, 1
      hint: 2: Two
      hint: 1: One
    ");
    assert_eq!(segue(&env, &["show", &start[..3]]).status, 4, "too short to be meant");
}

#[test]
fn a_removed_number_is_not_given_again() {
    let (env, model) = two();
    assert_snapshot!(shown(&env, &["rm", "2"]), @r"
    status 2
    ── stdout
    ── stderr
    session 2: 11 events, in $DIR/home/sessions/repo-$HASH/$ULID
    error: there is no terminal to ask on
      hint: remove without a question: segue rm --force 2
    ");
    assert_eq!(show(&env, "2")["number"], 2);
    assert_snapshot!(shown(&env, &["rm", "second", "1", "--force"]), @r"
    status 0
    ── stdout
    ── stderr
    session 2: 11 events, in $DIR/home/sessions/repo-$HASH/$ULID
    session 1: 10 events, in $DIR/home/sessions/repo-$HASH/$ULID
    removed 2, 1
    ");
    assert_snapshot!(shown(&env, &["show", "2"]), @"
    status 4
    ── stdout
    ── stderr
    error: session 2 was removed
      hint: segue list --all
    ");
    assert_eq!(segue(&env, &["show", "second"]).status, 4);
    let output = segue(&env, &["run", "Three", "--model", &model, "--name", "second"]);
    assert_eq!(output.status, 0);
    assert_eq!(show(&env, "second")["number"], 3);
    assert_eq!(segue(&env, &["rm", "3", "99", "--force"]).status, 4);
    assert_eq!(show(&env, "3")["number"], 3, "all or nothing");
}
