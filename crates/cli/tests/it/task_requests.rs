//! `segue tasks pr` with a stand-in for `gh`: what it is asked, and what is said where it can't.

use std::fs;

use segue_testkit::env::{Output, TestEnv};

use crate::{
    stand_ins::{program, segue},
    support::git,
    task_runs::{ACCEPT, list, run, work},
};

/// A list that is done, with two remotes; and a `gh` that says what is in `list` and `create`, and
/// fails with what is in `list.fails` and `create.fails`.
fn done() -> TestEnv {
    let env = list(1);
    assert_eq!(run(&env, &work(1, "one"), ACCEPT, &[]).status, 0);
    for (remote, name) in [("origin", "o/r"), ("fork", "me/fork")] {
        let bare = env.path(&format!("{remote}.git"));
        let bare = bare.to_str().unwrap();
        git(&env, &["init", "-q", "--bare", bare]);
        git(&env, &["remote", "add", remote, &format!("https://k:secret@github.com/{name}.git")]);
        git(&env, &["remote", "set-url", "--push", remote, bare]);
    }
    let script = format!(
        "cd '{}' || exit 9\necho \"$*\" >>asked\n\
         if [ -f \"$2.fails\" ]; then cat \"$2.fails\" >&2; exit 1; fi\ncat \"$2\"",
        env.path("").display()
    );
    program(&env, "gh", &script);
    says(&env, "list", "");
    says(&env, "create", "Creating a request\n\nhttps://github.com/o/r/pull/7\n");
    env
}

fn says(env: &TestEnv, what: &str, text: &str) {
    fs::write(env.path(what), text).unwrap();
}

/// What Segue says, and what `gh` was asked meanwhile.
fn pr(env: &TestEnv, more: &[&str]) -> (Output, Vec<String>) {
    let _ = fs::remove_file(env.path("asked"));
    let args: Vec<&str> =
        ["tasks", "pr", "1", "--base", "main"].iter().chain(more).copied().collect();
    let output = segue(env, &args);
    let asked = fs::read_to_string(env.path("asked")).unwrap_or_default();
    // The body of a request has more lines.
    (output, asked.lines().filter(|line| line.starts_with("pr ")).map(str::to_owned).collect())
}

const COMPARE: &str = "https://github.com/o/r/compare/main...segue%2F1-numbers?expand=1";

#[test]
fn a_request_is_opened_once_by_gh_in_the_repository_of_the_remote() {
    let env = done();
    let (output, asked) = pr(&env, &[]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(output.stdout.trim(), "https://github.com/o/r/pull/7");
    let whose = "--repo github.com/o/r --head segue/1-numbers";
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(asked[0], format!("pr list {whose} --state open --json url --jq .[].url"));
    let new = format!("pr create {whose} --base main --title Numbers --body - [x] T-001 Number 1");
    assert_eq!(asked[1], new);
    // One that is open is not opened again; one that was closed is no longer in gh's list.
    says(&env, "list", "https://github.com/o/r/pull/6\n");
    let (output, asked) = pr(&env, &["--json"]);
    assert!(output.stdout.contains("https://github.com/o/r/pull/6"), "{}", output.stdout);
    assert_eq!(asked.len(), 1, "{asked:?}");
    let (_, asked) = pr(&env, &["--remote", "fork"]);
    assert!(asked[0].contains("--repo github.com/me/fork "), "{asked:?}");
    let (output, asked) = pr(&env, &["--web"]);
    assert_eq!((output.stdout.trim(), asked.len()), (COMPARE, 0));
}

#[test]
fn what_gh_says_when_it_cannot_is_said_and_the_address_is_given() {
    let env = done();
    says(&env, "create.fails", "pull request create failed:\nNo commits between main and it\n");
    let (output, asked) = pr(&env, &[]);
    assert_eq!((output.status, output.stdout.trim(), asked.len()), (0, COMPARE, 2));
    let note = "note: gh opened no request: pull request create failed: · No commits between";
    assert!(output.stderr.contains(note), "{}", output.stderr);
    // Nobody is signed in: it is not asked for more.
    says(&env, "list.fails", "To get started with GitHub CLI, please run: gh auth login\n");
    let (output, asked) = pr(&env, &["--json"]);
    assert_eq!((output.status, asked.len()), (0, 1));
    let told: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(told["url"], COMPARE);
    assert!(told["note"].as_str().unwrap().contains("gh auth login"), "{told}");
    // One that can't even be started is said, too.
    fs::write(env.path("bin/gh"), "#!/nowhere/sh\n").unwrap();
    assert_eq!(pr(&env, &[]).0.stdout.trim(), COMPARE);
}
