//! A session goes to another home and another clone, as a file or by `cp`, and goes on there.

use std::{fs, path::PathBuf, process::Command};

use segue_testkit::env::{Output, TestEnv};

use crate::support::{TURNS, git, journal_bytes, json, scripted_in_git, segue, tree};

/// Another machine, as far as that matters: its own home, its own clone.
struct There<'a> {
    env: &'a TestEnv,
    repo: PathBuf,
}

impl There<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.env.command(args);
        command.current_dir(&self.repo).env("SEGUE_HOME", self.env.path("home2"));
        command
    }

    fn segue(&self, args: &[&str]) -> Output {
        Output::of(&mut self.command(args)).unwrap()
    }

    fn git(&self, args: &[&str]) -> String {
        Output::of(self.env.any("git").current_dir(&self.repo).args(args)).unwrap().stdout
    }
}

/// A repository with a remote, and a session in it that has done its first turn.
fn here() -> TestEnv {
    let (env, model) = scripted_in_git(TURNS);
    let remote = env.path("remote.git");
    git(&env, &["init", "-q", "--bare", "-b", "main", remote.to_str().unwrap()]);
    git(&env, &["remote", "add", "origin", remote.to_str().unwrap()]);
    git(&env, &["push", "-q", "origin", "main"]);
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 0);
    env
}

fn clone(env: &TestEnv) -> There<'_> {
    let repo = env.path("clone");
    git(env, &["clone", "-q", env.path("remote.git").to_str().unwrap(), repo.to_str().unwrap()]);
    There { env, repo }
}

fn export(env: &TestEnv, more: &[&str]) -> String {
    let file = env.path("x.segue").to_str().unwrap().to_owned();
    let output = segue(env, &[&["export", "1", "-o", &file], more].concat());
    assert_eq!(output.status, 0, "{}", output.stderr);
    file
}

#[test]
fn a_session_goes_on_in_another_home_and_another_clone() {
    let env = here();
    let file = export(&env, &[]);
    let there = clone(&env);
    let output = there.segue(&["import", &file]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("2 checkpoints brought"), "{}", output.stderr);
    let list = there.segue(&["list"]).stdout;
    assert!(list.contains("1  completed  native"), "{list}");
    // The old place is gone: it is another machine.
    fs::rename(env.repo(), env.path("elsewhere")).unwrap();
    fs::create_dir(env.repo()).unwrap();
    fs::remove_dir(env.repo()).unwrap();
    let before = tree(&there.repo);
    let output = there.segue(&["resume", "1", "Do two"]);
    assert_eq!(output.status, 2, "{}", output.stderr);
    let said = &output.stderr;
    assert!(
        said.contains("1 file differs from the checkpoint, and there is no terminal"),
        "{said}"
    );
    assert!(said.contains("--keep-files") && said.contains("--restore-files"), "{said}");
    assert_eq!(tree(&there.repo), before);
    let output = there.segue(&["resume", "1", "Do two", "--restore-files"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(output.stdout, "I go on.\nTurn 2 is done.\n");
    assert_eq!(tree(&there.repo).into_keys().collect::<Vec<_>>(), ["a.txt", "b ü.txt"]);
    // From now on this is its place.
    let output = there.segue(&["resume", "1", "Do three"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "A later turn is done.\n"));
    assert_eq!(there.segue(&["verify", "--all"]).status, 0);
    assert_eq!(there.git(&["status", "--porcelain", "--", "a.txt"]), "?? a.txt\n");
}

#[test]
fn files_that_differ_are_kept_where_that_is_asked() {
    let env = here();
    let file = export(&env, &[]);
    let there = clone(&env);
    assert_eq!(there.segue(&["import", &file]).status, 0);
    fs::write(there.repo.join("a.txt"), "mine\n").unwrap();
    let here = there.repo.to_str().unwrap();
    let output = there.segue(&["resume", "1", "Do two", "--dir", here]);
    assert_eq!(output.status, 2, "{}", output.stderr);
    let output =
        there.segue(&["resume", "1", "Do two", "--dir", here, "--keep-files", "--dry-run"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let output = there.segue(&["rewind", "1", "--turn", "1", "--conversation-only"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    env.script(&TURNS.replace("echo two > a.txt; rm base.txt;", "")).unwrap();
    let output = there.segue(&["resume", "1", "Do two", "--dir", here, "--keep-files"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(fs::read_to_string(there.repo.join("a.txt")).unwrap(), "mine\n");
    assert_eq!(tree(&env.repo()).into_keys().collect::<Vec<_>>(), ["a.txt", "base.txt"]);
}

#[test]
fn commits_that_are_missing_are_named() {
    let env = here();
    let there = clone(&env);
    env.write("more.txt", "more\n").unwrap();
    git(&env, &["add", "more.txt"]);
    git(&env, &["commit", "-q", "-m", "more"]);
    git(&env, &["push", "-q", "origin", "main"]);
    let head = git(&env, &["rev-parse", "HEAD"]).trim().to_owned();
    assert_eq!(segue(&env, &["resume", "1", "Do two"]).status, 0);
    let file = export(&env, &[]);
    let output = there.segue(&["import", &file]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("missing") && output.stderr.contains(&head[..7]), "{output:?}");
    // With every commit, nothing is.
    let file = export(&env, &["--full-history", "--force"]);
    let output = there.segue(&["import", &file]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(!output.stderr.contains("missing"), "{}", output.stderr);
    // Or once they are fetched.
    let other = There { env: &env, repo: there.repo.clone() };
    other.git(&["fetch", "-q"]);
    assert_eq!(other.segue(&["import", &file]).status, 0);
}

#[test]
fn a_file_that_is_there_is_not_replaced_unasked() {
    let env = here();
    let file = export(&env, &[]);
    let before = fs::read(&file).unwrap();
    let output = segue(&env, &["export", "1", "-o", &file]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("--force"), "{}", output.stderr);
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(git(&env, &["status", "--porcelain"]), "?? a.txt\n");
}

#[test]
fn what_is_no_bundle_or_a_broken_one_is_refused_and_nothing_of_it_is_kept() {
    let env = here();
    let file = export(&env, &[]);
    let there = clone(&env);
    let bytes = fs::read(&file).unwrap();
    let mut flipped = bytes.clone();
    let at = flipped.len() / 2;
    flipped[at] ^= 0x55;
    let cases = [Vec::new(), b"not a bundle".to_vec(), bytes[..bytes.len() / 2].to_vec(), flipped];
    let bad = env.path("bad.segue");
    for case in cases {
        fs::write(&bad, &case).unwrap();
        let output = there.segue(&["import", bad.to_str().unwrap()]);
        assert_eq!(output.status, 1, "{} bytes: {}", case.len(), output.stderr);
        let sessions = env.path("home2").join("sessions");
        let left = if sessions.exists() { crate::support::files_below(&sessions) } else { vec![] };
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(there.git(&["for-each-ref", "refs/segue"]), "");
    }
    // The whole one is taken all the same, and a second time is no harm.
    assert_eq!(there.segue(&["import", &file]).status, 0);
    let output = there.segue(&["import", &file]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("was here already"), "{}", output.stderr);
    let numbers = fs::read_dir(env.path("home2").join("numbers")).unwrap().count();
    assert_eq!(numbers, 1);
}

#[test]
fn a_session_directory_can_simply_be_copied() {
    let env = here();
    let dir = env.session_dir(1).unwrap();
    let below = env.path("home2").join("sessions").join(dir.parent().unwrap().file_name().unwrap());
    fs::create_dir_all(&below).unwrap();
    let copied = env.any("cp").arg("-a").arg(&dir).arg(&below).status().unwrap();
    assert!(copied.success());
    let there = There { env: &env, repo: env.repo() };
    let list = json(&there.segue(&["list", "--json"]).stdout);
    assert!(list.to_string().contains("\"number\":1"), "{list}");
    let before = journal_bytes(&env, 1);
    let output = there.segue(&["resume", "1", "Do two"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "I go on.\nTurn 2 is done.\n"));
    assert_eq!(journal_bytes(&env, 1), before, "the first one is another");
}

#[test]
fn a_session_of_a_worktree_goes_on_in_another_clone() {
    let (env, model) = scripted_in_git(TURNS);
    let remote = env.path("remote.git");
    git(&env, &["init", "-q", "--bare", "-b", "main", remote.to_str().unwrap()]);
    git(&env, &["remote", "add", "origin", remote.to_str().unwrap()]);
    git(&env, &["push", "-q", "origin", "main"]);
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model, "--worktree"]).status, 0);
    let file = export(&env, &[]);
    let there = clone(&env);
    let output = there.segue(&["import", &file]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    fs::rename(env.repo(), env.path("elsewhere")).unwrap();
    fs::remove_dir_all(env.path("repo-segue-1")).unwrap();
    let output = there.segue(&["resume", "1", "Do two", "--restore-files"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(tree(&there.repo).into_keys().collect::<Vec<_>>(), ["a.txt", "b ü.txt"]);
}
