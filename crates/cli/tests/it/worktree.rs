//! A worktree of the session's own: nothing else is changed, and nothing in it is lost.

use std::{fs, path::PathBuf};

use segue_testkit::env::{Output, TestEnv};

use crate::support::{
    TURNS, data, finish, git, json, packet, scripted, scripted_in_git, segue, show, start, tree,
};

fn place(env: &TestEnv, number: u64) -> PathBuf {
    env.path(&format!("repo-segue-{number}"))
}

fn files(env: &TestEnv, number: u64) -> Vec<String> {
    tree(&place(env, number)).into_keys().collect()
}

/// A session that has done its first turn in a worktree.
fn in_worktree() -> (TestEnv, String) {
    let (env, model) = scripted_in_git(TURNS);
    let output = segue(&env, &["run", "Do one", "--model", &model, "--worktree"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    (env, model)
}

#[test]
fn the_changes_are_in_the_worktree_and_nowhere_else() {
    let (env, _) = in_worktree();
    assert_eq!(files(&env, 1), ["a.txt", "base.txt"]);
    assert_eq!(tree(&env.repo()).into_keys().collect::<Vec<_>>(), ["base.txt"]);
    assert_eq!(git(&env, &["status", "--porcelain"]), "");
    assert_eq!(git(&env, &["branch", "--show-current"]), "main\n");
    let there = fs::canonicalize(place(&env, 1)).unwrap();
    let branch = Output::of(env.any("git").current_dir(&there).args(["branch", "--show-current"]));
    assert_eq!(branch.unwrap().stdout, "segue/1-do-one\n");
    assert_eq!(show(&env, "1")["workspace"], there.to_str().unwrap());
    assert_eq!(packet(&env, 1)["workspace"]["branch"], "segue/1-do-one");
    // A resume enters it again, from anywhere.
    let output = segue(&env, &["resume", "1", "Do two"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "I go on.\nTurn 2 is done.\n"));
    assert_eq!(files(&env, 1), ["a.txt", "b ü.txt"]);
    assert_eq!(tree(&env.repo()).into_keys().collect::<Vec<_>>(), ["base.txt"]);
    // And a rewind goes back in it.
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "1"]).status, 0);
    assert_eq!(files(&env, 1), ["a.txt", "base.txt"]);
}

#[test]
fn one_that_was_deleted_is_built_again_from_the_last_checkpoint() {
    let (env, _) = in_worktree();
    let before = tree(&place(&env, 1));
    fs::remove_dir_all(place(&env, 1)).unwrap();
    let output = segue(&env, &["resume", "1", "Do two", "--dry-run"]);
    assert!(output.stderr.contains("which is gone: built again"), "{}", output.stderr);
    assert!(!place(&env, 1).exists());
    let main = tree(&env.repo());
    let output = segue(&env, &["resume", "1", "Do two"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(before.contains_key("a.txt"));
    assert_eq!(files(&env, 1), ["a.txt", "b ü.txt"], "what turn 2 makes of what was there");
    assert_eq!(tree(&env.repo()), main, "the repository itself is not where it works");
    // Also where nothing but the files is wanted.
    fs::remove_dir_all(place(&env, 1)).unwrap();
    assert_eq!(segue(&env, &["resume", "1", "Do three"]).status, 0);
    assert_eq!(files(&env, 1), ["a.txt", "b ü.txt"]);
}

#[test]
fn rm_says_what_would_be_lost_and_needs_force() {
    let (env, _) = in_worktree();
    let loses = "session 1 loses 1 uncommitted file in the worktree";
    let output = segue(&env, &["rm", "1"]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains(loses), "{}", output.stderr);
    assert!(place(&env, 1).exists() && show(&env, "1")["status"] == "completed");
    // Committed, it is only on the branch.
    let there = |args: &[&str]| {
        let output = Output::of(env.any("git").current_dir(place(&env, 1)).args(args)).unwrap();
        assert_eq!(output.status, 0, "{}", output.stderr);
    };
    there(&["add", "-A"]);
    there(&["commit", "-q", "-m", "work"]);
    let output = segue(&env, &["rm", "1"]);
    let loses = "session 1 loses 1 commit that only segue/1-do-one has";
    assert!(output.status == 2 && output.stderr.contains(loses), "{}", output.stderr);
    // Deleted by hand, the last checkpoint has it.
    fs::remove_dir_all(place(&env, 1)).unwrap();
    let output = segue(&env, &["rm", "1"]);
    let loses = "which is gone";
    assert!(output.status == 2 && output.stderr.contains(loses), "{}", output.stderr);
    let output = segue(&env, &["rm", "1", "--force"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(!output.stderr.contains("note:"), "{}", output.stderr);
    assert_eq!(git(&env, &["for-each-ref", "--format=%(refname)"]), "refs/heads/main\n");
    assert_eq!(git(&env, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn gc_keeps_what_holds_work_and_clears_away_what_does_not() {
    let (env, _) = in_worktree();
    let clear = |args: &[&str]| json(&segue(&env, args).stdout);
    for args in [&["gc", "--json"][..], &["gc", "--yes", "--json"], &["gc", "--dry-run", "--json"]]
    {
        let done = clear(args);
        assert_eq!((&done["removed"], done["keep"].as_array().unwrap().len()), (&0.into(), 1));
        assert!(done["keep"][0]["loses"][0].as_str().unwrap().contains("1 uncommitted file"));
    }
    assert!(place(&env, 1).exists());
    let there =
        |args: &[&str]| Output::of(env.any("git").current_dir(place(&env, 1)).args(args)).unwrap();
    there(&["add", "-A"]);
    there(&["commit", "-q", "-m", "work"]);
    assert_eq!(clear(&["gc", "--yes", "--json"])["removed"], 0, "a commit that only it has");
    git(&env, &["merge", "-q", "segue/1-do-one"]);
    let output = segue(&env, &["gc"]);
    assert_eq!(output.status, 2, "it asks, and there is nobody: {}", output.stderr);
    assert!(place(&env, 1).exists());
    assert_eq!(clear(&["gc", "--yes", "--json"])["removed"], 1);
    assert!(!place(&env, 1).exists());
    assert_eq!(git(&env, &["branch", "--format=%(refname:short)"]), "main\n");
    assert_eq!(show(&env, "1")["status"], "completed", "the session is there still");
    // By force also what holds work.
    let (env, _) = in_worktree();
    assert_eq!(segue(&env, &["gc", "--force", "--yes"]).status, 0);
    assert!(!place(&env, 1).exists());
    // Which a resume builds again: the checkpoints are there.
    assert_eq!(segue(&env, &["resume", "1", "Do two"]).status, 0);
    assert_eq!(files(&env, 1), ["a.txt", "b ü.txt"]);
}

#[test]
fn the_worktree_of_a_session_that_can_be_resumed_is_no_garbage() {
    let (env, model) = scripted_in_git(TURNS);
    fs::write(env.path("busy"), "").unwrap();
    let args = ["run", "Do one", "--model", &model, "--worktree"];
    assert_eq!(segue(&env, &args).status, 3);
    assert_eq!(segue(&env, &["gc", "--force", "--yes"]).status, 0);
    assert!(place(&env, 1).join("a.txt").exists());
}

#[test]
fn two_sessions_at_once_do_not_meet() {
    let script = TURNS.replace("text = \"I begin.\"", "text = \"I begin.\"\ndelay_ms = 500");
    let (env, model) = scripted_in_git(&script);
    let args = ["run", "Do one", "--model", &model, "--worktree"];
    let both = [start(&mut env.command(args)), start(&mut env.command(args))];
    for child in both {
        let output = finish(child);
        assert_eq!(output.status, 0, "{}", output.stderr);
    }
    assert_eq!(segue(&env, &["resume", "1", "Do two"]).status, 0);
    assert_eq!(
        (files(&env, 1), files(&env, 2)),
        (
            vec!["a.txt".to_owned(), "b ü.txt".to_owned()],
            vec!["a.txt".to_owned(), "base.txt".to_owned()]
        )
    );
    assert_eq!(git(&env, &["status", "--porcelain"]), "");
}

#[test]
fn without_a_commit_or_a_repository_there_is_an_error_and_no_session() {
    for with_git in [true, false] {
        let (env, model) = scripted(TURNS);
        if with_git {
            git(&env, &["init", "-q"]);
        }
        let output = segue(&env, &["run", "Do one", "--model", &model, "--worktree"]);
        assert_eq!(output.status, 2, "{}", output.stderr);
        assert!(output.stderr.contains(": there can be no worktree"), "{}", output.stderr);
        let why = if with_git { "no commit yet" } else { "no git repository" };
        assert!(output.stderr.contains(why), "{}", output.stderr);
        let listed = segue(&env, &["list", "--all", "--json"]).stdout;
        assert!(!listed.contains("\"status\""), "{listed}");
        assert_eq!(tree(&env.repo()).len(), 0);
        assert_ne!(segue(&env, &["resume"]).status, 0);
    }
}

#[test]
fn the_checkpoints_of_a_worktree_are_in_the_repository() {
    let (env, _) = in_worktree();
    let taken = data(&env, 1, "checkpoint.taken");
    assert_eq!(taken.len(), 2);
    let commit = taken[1]["commit"].as_str().unwrap();
    assert_eq!(git(&env, &["show", &format!("{commit}:a.txt")]), "one\n");
}
