use std::ffi::OsStr;

use super::super::tests::with_worktree;
use super::*;
use crate::testing::{Lab, fingerprint, git, open, users, write};

fn trailers() -> Vec<(&'static str, String)> {
    vec![("Reviewed-by", "x pass".to_owned()), ("Segue-Session", "01J".to_owned())]
}

fn landing<'a>(branch: &'a str, trailers: &'a [(&'a str, String)]) -> Landing<'a> {
    let message = "The title\n\nThe body";
    Landing { branch, message, trailers, since: &[], seen: "", even_if_empty: false }
}

/// Lands what is there, and checks what has to hold after each landing.
fn land(path: &Path, landing: &Landing<'_>) -> String {
    let files = fingerprint(path);
    let commit = commit_all(path, landing).unwrap().commit;
    assert_eq!(fingerprint(path), files);
    assert_eq!(git(path, &["rev-parse", "HEAD"]), commit);
    let left = std::fs::read_dir(git_dir(path).join("segue/landing")).unwrap().count();
    assert_eq!(left, 1, "only the lock stays");
    commit
}

fn git_dir(path: &Path) -> PathBuf {
    PathBuf::from(git(path, &["rev-parse", "--absolute-git-dir"]))
}

fn status(path: &Path) -> String {
    git(path, &["status", "--porcelain", "--untracked-files=all"])
}

fn count(path: &Path) -> String {
    git(path, &["rev-list", "--count", "HEAD"])
}

fn names(path: &Path, commit: &str) -> String {
    git(path, &["ls-tree", "-r", "--name-only", commit])
}

#[test]
fn everything_is_committed_once_and_no_hook_runs() {
    let (lab, path, branch) = with_worktree();
    for hook in ["pre-commit", "commit-msg", "post-commit", "reference-transaction"] {
        lab.write(&format!(".git/hooks/{hook}"), "#!/bin/sh\nexit 1\n");
        lab.mode(&format!(".git/hooks/{hook}"), 0o755);
    }
    lab.git(&["config", "commit.gpgSign", "true"]);
    lab.git(&["config", "user.useConfigOnly", "true"]);
    write(&path.join("new"), "n");
    write(&path.join("build/ignored"), "i");
    write(&path.join("a.txt"), "two\n");
    std::fs::remove_file(path.join("src/lib.rs")).unwrap();
    let commit = land(&path, &landing(&branch, &trailers()));
    assert_eq!(status(&path), "");
    let changed = git(&path, &["diff", "--name-status", "HEAD^", "HEAD"]);
    assert_eq!(changed, "M\ta.txt\nA\tnew\nD\tsrc/lib.rs");
    let message = git(&path, &["cat-file", "commit", &commit]);
    let end = "\n\nThe title\n\nThe body\n\nReviewed-by: x pass\nSegue-Session: 01J";
    assert!(message.ends_with(end), "{message}");
    assert_eq!(git(&path, &["reflog", "-1", "--format=%gs"]), "commit: The title");

    // The event was lost, and files have changed since.
    write(&path.join("later"), "l");
    let before = users(&path);
    assert_eq!(land(&path, &landing(&branch, &trailers())), commit);
    assert_eq!(users(&path), before);
    assert_eq!(status(&path), "?? later");
    // With other trailers it is another commit.
    let other = [("Segue-Session", "01J".to_owned())];
    let next = land(&path, &landing(&branch, &other));
    assert_eq!(git(&path, &["rev-parse", "HEAD^"]), commit);
    assert_eq!(names(&path, &next).lines().filter(|name| *name == "later").count(), 1);
}

#[test]
fn the_same_words_in_prose_are_not_the_commit() {
    let (_lab, path, branch) = with_worktree();
    let prose = "Title\n\nReviewed-by: x pass\nSegue-Session: 01J\n\nSo it was.";
    git(&path, &["commit", "-q", "--allow-empty", "-m", prose]);
    land(&path, &Landing { even_if_empty: true, ..landing(&branch, &trailers()) });
    assert_eq!(count(&path), "3");
}

#[test]
fn with_nothing_to_commit_it_is_the_tip_or_an_empty_commit() {
    let (_lab, path, branch) = with_worktree();
    let tip = git(&path, &["rev-parse", "HEAD"]);
    assert_eq!(land(&path, &landing(&branch, &trailers())), tip);
    let empty = land(&path, &Landing { even_if_empty: true, ..landing(&branch, &trailers()) });
    assert_eq!(git(&path, &["rev-parse", "HEAD^"]), tip);
    assert_eq!(git(&path, &["diff", &tip, &empty]), "");
    assert_eq!(
        land(&path, &Landing { even_if_empty: true, ..landing(&branch, &trailers()) }),
        empty
    );
    assert_eq!(count(&path), "2");
}

#[test]
fn what_came_after_a_commit_is_no_part_of_it_and_is_committed_where_that_is_asked_for() {
    let (_lab, path, branch) = with_worktree();
    let own = trailers();
    write(&path.join("a.txt"), "two\n");
    let first = land(&path, &landing(&branch, &own));
    let rest = || commit_rest(&path, &landing(&branch, &own)).unwrap();
    assert_eq!(rest(), Landed::found(first.clone()));
    write(&path.join("a.txt"), "three\n");
    assert_eq!(land(&path, &landing(&branch, &own)), first);
    let second = rest();
    assert!(second.ours && second.commit != first, "{second:?}");
    assert_eq!((status(&path), rest()), (String::new(), Landed::found(second.commit)));
    // Another one's commit is not taken for it.
    git(&path, &["commit", "-q", "--allow-empty", "-m", "mine"]);
    assert!(!rest().ours);
}

#[test]
fn a_call_that_was_cut_short_anywhere_is_made_again_with_the_same_result() {
    let own = trailers();
    let mut trees = BTreeSet::new();
    for step in 0..6 {
        let (_lab, path, branch) = with_worktree();
        write(&path.join("new"), "reviewed");
        let seen = open(&path).take("refs/segue/s/1", "").unwrap().commit;
        write(&path.join("new"), "since");
        write(&path.join("added"), "since");
        let since = ["new".into(), PathBuf::from("added")];
        let landing = Landing { since: &since, seen: &seen, ..landing(&branch, &own) };
        let site = Site::find(&path, &branch).unwrap();
        let tip = site.tip().unwrap();
        drop(site.hold().unwrap());
        let index = site.begin(&tip).unwrap();
        let mut landed = None;
        if step == 1 {
            // Killed while it adds.
            git::run({
                let mut command = site.with(&index);
                command.args(["add", "new"]);
                command
            })
            .unwrap();
            write(&index.0.with_extension("index.lock"), "half");
        }
        if step >= 2 {
            site.stage(&index, &tip, &landing, &BTreeSet::new()).unwrap();
        }
        match step {
            3 => site.install(index),
            4 => {
                // Also without the event.
                std::mem::forget(index);
                landed = Some(commit_all(&path, &landing).unwrap().commit);
            }
            // The user's index, half made by another git.
            5 => drop(git(&path, &["add", "added"])),
            _ => std::mem::forget(index),
        }
        let commit = commit_all(&path, &landing).unwrap().commit;
        assert!(landed.is_none_or(|landed| landed == commit));
        assert_eq!(count(&path), "2", "{step}");
        assert_eq!(git(&path, &["show", "HEAD:new"]), "reviewed");
        assert_eq!(status(&path), "M new\n?? added", "{step}");
        trees.insert(git(&path, &["rev-parse", "HEAD^{tree}"]));
    }
    assert_eq!(trees.len(), 1);
}

#[test]
fn a_lock_that_a_killed_git_left_stops_nothing_and_stays() {
    let (_lab, path, branch) = with_worktree();
    let lock = git_dir(&path).join("index.lock");
    write(&lock, "half");
    write(&path.join("new"), "n");
    let commit = land(&path, &landing(&branch, &trailers()));
    assert!(names(&path, &commit).contains("new"));
    assert_eq!(std::fs::read(&lock).unwrap(), b"half");
    assert_eq!(status(&path), "");
}

#[test]
fn a_lock_of_the_branch_is_respected_until_it_is_old() {
    let (lab, path, branch) = with_worktree();
    let own = trailers();
    let locks =
        [lab.path(&format!(".git/refs/heads/{branch}.lock")), git_dir(&path).join("HEAD.lock")];
    for (number, lock) in locks.iter().enumerate() {
        let landing = Landing { even_if_empty: true, ..landing(&branch, &own[number..]) };
        write(lock, "");
        assert!(commit_all(&path, &landing).is_err());
        assert!(lock.exists());
        let old = SystemTime::now() - Duration::from_secs(90);
        File::options().append(true).open(lock).unwrap().set_modified(old).unwrap();
        land(&path, &landing);
        assert!(!lock.exists());
    }
    assert_eq!(count(&path), "3");
}

#[test]
fn an_index_that_is_gone_or_broken_is_made_anew() {
    for broken in [None, Some(""), Some("DIRC and then nothing that makes sense")] {
        let (_lab, path, branch) = with_worktree();
        let index = git_dir(&path).join("index");
        match broken {
            None => std::fs::remove_file(&index).unwrap(),
            Some(text) => write(&index, text),
        }
        write(&path.join("new"), "n");
        let commit = land(&path, &landing(&branch, &trailers()));
        assert_eq!(git(&path, &["diff", "--name-only", "HEAD^", &commit]), "new");
        assert_eq!(status(&path), "");
    }
}

#[test]
fn any_name_and_any_kind_of_file_is_committed() {
    let (_lab, path, branch) = with_worktree();
    let odd: [&[u8]; 7] =
        [b"a b", b"two\nlines", b"\xff\xfe", b":(top)x", b"-n", b"[a]*?", b"t\tab\\\""];
    for name in odd {
        write(&path.join(OsStr::from_bytes(name)), "seen");
    }
    std::os::unix::fs::symlink("nowhere", path.join("link")).unwrap();
    write(&path.join("run.sh"), "#!/bin/sh\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path.join("run.sh"), mode).unwrap();
    let seen = open(&path).take("refs/segue/s/1", "").unwrap().commit;
    let since: Vec<PathBuf> = odd.iter().map(|name| OsStr::from_bytes(name).into()).collect();
    for (number, name) in since.iter().enumerate() {
        match number % 2 {
            0 => write(&path.join(name), "since"),
            _ => std::fs::remove_file(path.join(name)).unwrap(),
        }
    }
    land(&path, &Landing { since: &since, seen: &seen, ..landing(&branch, &trailers()) });
    let mut command = checkout(&path);
    command.args(["ls-tree", "-r", "-z", "HEAD"]);
    let listing = git::run(command).unwrap();
    let entries: BTreeMap<&[u8], (String, String)> =
        listing.split(|&b| b == 0).filter_map(entry).collect();
    let blob = git(&path, &["rev-parse", "HEAD:a b"]);
    assert_eq!(git(&path, &["cat-file", "blob", &blob]), "seen");
    for name in odd {
        assert_eq!(entries[name], ("100644".to_owned(), blob.clone()));
    }
    assert_eq!(entries[b"link".as_slice()].0, "120000");
    assert_eq!(entries[b"run.sh".as_slice()].0, "100755");
}

#[test]
fn what_changed_since_it_was_seen_is_committed_as_it_was_seen() {
    let (_lab, path, branch) = with_worktree();
    write(&path.join("file"), "seen");
    write(&path.join("dir/x"), "seen");
    write(&path.join("old name"), "a text that is long enough to be known again");
    std::os::unix::fs::symlink("seen", path.join("link")).unwrap();
    write(&path.join("hidden.tmp"), "seen");
    let seen = open(&path).take("refs/segue/s/1", "").unwrap();
    let files = fingerprint(&path);

    std::fs::remove_file(path.join("file")).unwrap();
    write(&path.join("file/inside"), "since");
    std::fs::remove_dir_all(path.join("dir")).unwrap();
    write(&path.join("dir"), "since");
    std::fs::rename(path.join("old name"), path.join("new name")).unwrap();
    std::fs::remove_file(path.join("link")).unwrap();
    std::os::unix::fs::symlink("since", path.join("link")).unwrap();
    std::fs::remove_file(path.join("a.txt")).unwrap();
    write(&path.join(".gitignore"), "*.tmp\n");
    write(&path.join("now.log"), "since");
    let (_, changes, _) = open(&path).differs(&seen.commit, usize::MAX).unwrap();
    let mut since = Vec::new();
    for change in changes {
        since.push(change.path);
        if let crate::Status::Renamed { from } = change.status {
            since.push(from);
        }
    }
    land(&path, &Landing { since: &since, seen: &seen.commit, ..landing(&branch, &trailers()) });
    assert_eq!(git(&path, &["rev-parse", "HEAD^{tree}"]), seen.tree);
    git(&path, &["stash", "-q", "--all"]);
    assert_eq!(fingerprint(&path), files);
}

#[test]
fn line_ends_and_filters_apply_to_what_was_seen_too() {
    let (lab, path, branch) = with_worktree();
    lab.git(&["config", "filter.shout.clean", "tr a-z A-Z"]);
    write(&path.join(".gitattributes"), "*.txt text\n*.up filter=shout\n");
    write(&path.join("crlf.txt"), "seen\r\n");
    write(&path.join("x.up"), "seen");
    write(&path.join("plain"), "seen\r\n");
    let seen = open(&path).take("refs/segue/s/1", "").unwrap().commit;
    let since: Vec<PathBuf> = ["crlf.txt", "x.up", "plain"].map(PathBuf::from).into();
    for name in &since {
        write(&path.join(name), "since\r\n");
    }
    land(&path, &Landing { since: &since, seen: &seen, ..landing(&branch, &trailers()) });
    let show = |name: &str| {
        let mut command = checkout(&path);
        command.args(["cat-file", "blob", &format!("HEAD:{name}")]);
        String::from_utf8(git::run(command).unwrap()).unwrap()
    };
    assert_eq!(show("crlf.txt"), "seen\n");
    assert_eq!(show("x.up"), "SEEN");
    assert_eq!(show("plain"), "seen\r\n");

    lab.git(&["config", "core.autocrlf", "input"]);
    write(&path.join("new"), "seen\r\n");
    let seen = open(&path).take("refs/segue/s/2", "").unwrap().commit;
    write(&path.join("new"), "since\r\n");
    let since = [PathBuf::from("new")];
    let other = [("Segue-Turn", "2".to_owned())];
    land(&path, &Landing { since: &since, seen: &seen, ..landing(&branch, &other) });
    assert_eq!(show("new"), "seen\n");
    land(&path, &landing(&branch, &trailers()));
    assert_eq!(show("new"), "since\n");
}

#[test]
fn what_only_the_index_knows_is_kept() {
    let (_lab, path, branch) = with_worktree();
    // Kept away by a sparse checkout.
    git(&path, &["sparse-checkout", "set", "--no-cone", "/*", "!/src/deep/"]);
    assert!(!path.join("src/deep").exists());
    // Ignored, and added by hand.
    write(&path.join("forced.log"), "f");
    write(&path.join("other.log"), "o");
    git(&path, &["add", "-f", "forced.log"]);
    // A repository inside, of which one commit is meant.
    let inside = path.join("inside");
    std::fs::create_dir(&inside).unwrap();
    git(&inside, &["init", "-q"]);
    git(&inside, &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&path, &["add", "inside"]);
    write(&inside.join("untracked"), "u");
    write(&path.join("new"), "n");
    let commit = land(&path, &landing(&branch, &trailers()));
    let changed = git(&path, &["diff", "--name-status", "HEAD^", &commit]);
    assert_eq!(changed, "A\tforced.log\nA\tinside\nA\tnew");
    let link = format!("160000 commit {}", git(&inside, &["rev-parse", "HEAD"]));
    assert!(git(&path, &["ls-tree", "HEAD", "inside"]).starts_with(&link));
    assert_eq!(git(&path, &["status", "--porcelain", "--ignore-submodules=untracked"]), "");
    assert!(git(&path, &["ls-files", "-t"]).contains("S src/deep/er/x.rs"));
}

#[test]
fn a_split_index_is_read_and_left_whole() {
    let (lab, path, branch) = with_worktree();
    lab.git(&["config", "core.splitIndex", "true"]);
    write(&path.join("staged"), "s");
    git(&path, &["add", "staged"]);
    write(&path.join("new"), "n");
    let commit = land(&path, &landing(&branch, &trailers()));
    assert_eq!(git(&path, &["diff", "--name-only", "HEAD^", &commit]), "new\nstaged");
    assert_eq!(status(&path), "");
}

#[test]
fn a_file_that_changed_in_the_moment_of_the_index_is_seen() {
    let (_lab, path, branch) = with_worktree();
    for number in 10..40 {
        write(&path.join("quick"), format!("{number} a"));
        git(&path, &["add", "quick"]);
        write(&path.join("quick"), format!("{number} b"));
        let own = [("Segue-Turn", number.to_string())];
        land(&path, &landing(&branch, &own));
        assert_eq!(git(&path, &["show", "HEAD:quick"]), format!("{number} b"));
    }
}

#[test]
fn a_merge_that_is_under_way_becomes_one() {
    let (lab, path, branch) = with_worktree();
    lab.write("a.txt", "theirs\n");
    lab.commit("theirs");
    write(&path.join("a.txt"), "ours\n");
    git(&path, &["commit", "-q", "-am", "ours"]);
    let merge = checkout(&path).args(["merge", "-q", "main"]).output().unwrap();
    assert!(!merge.status.success());
    write(&path.join("a.txt"), "both\n");
    let theirs = lab.git(&["rev-parse", "main"]);
    land(&path, &landing(&branch, &trailers()));
    assert_eq!(git(&path, &["rev-parse", "HEAD^2"]), theirs);
    assert_eq!(git(&path, &["show", "HEAD:a.txt"]), "both");
    assert_eq!(status(&path), "");
    assert!(!git_dir(&path).join("MERGE_HEAD").exists());
    // A crash before the end of it: the merge is not made twice.
    write(&git_dir(&path).join("MERGE_HEAD"), format!("{theirs}\n"));
    write(&path.join("more"), "m");
    let other = [("Segue-Turn", "2".to_owned())];
    let next = land(&path, &landing(&branch, &other));
    assert_eq!(git(&path, &["rev-list", "--parents", "-1", &next]).split(' ').count(), 2);
}

/// Has git run a command in the midst of a landing.
fn meanwhile(lab: &Lab, path: &Path, command: &str) {
    lab.git(&["config", "filter.meanwhile.clean", &format!("{command}; cat")]);
    write(&path.join(".gitattributes"), "trap filter=meanwhile\n");
    write(&path.join("trap"), "t");
}

#[test]
fn a_branch_that_somebody_moves_meanwhile_is_not_moved_back() {
    for ours in [false, true] {
        let (lab, path, branch) = with_worktree();
        let message = match ours {
            true => compose("Title", &trailers()),
            false => "of somebody else".to_owned(),
        };
        let tree = lab.git(&["rev-parse", "HEAD^{tree}"]);
        let other = lab.git(&["commit-tree", &tree, "-p", "HEAD", "-m", &message]);
        meanwhile(&lab, &path, &format!("git update-ref refs/heads/{branch} {other}"));
        let own = trailers();
        match commit_all(&path, &landing(&branch, &own)) {
            Ok(found) if ours => assert_eq!(found.commit, other),
            Err(WorktreeError::Moved { .. }) if !ours => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(git(&path, &["rev-parse", "HEAD"]), other);
    }
}

#[test]
fn only_the_sessions_own_branch_is_committed_on() {
    let (lab, path, branch) = with_worktree();
    let own = trailers();
    let commit = |path: &Path, branch: &str| {
        commit_all(path, &Landing { even_if_empty: true, ..landing(branch, &own) })
    };
    let not_ours = |path: &Path, branch: &str| {
        matches!(commit(path, branch), Err(WorktreeError::NotOurs { .. }))
    };
    assert!(not_ours(&path, "main"));
    // A tag of the same name is another thing.
    lab.git(&["tag", &branch, "HEAD"]);
    commit(&path.join("src"), &branch).unwrap();
    assert_eq!(count(&path), "2");
    git(&path, &["checkout", "-q", "--detach"]);
    assert!(not_ours(&path, &branch));
    std::fs::remove_dir_all(&path).unwrap();
    assert!(commit(&path, &branch).is_err());
}

fn turn(number: u32) -> [(&'static str, String); 1] {
    [("Segue-Turn", number.to_string())]
}

#[test]
fn land_in_a_child() {
    if let Ok(words) = std::env::var("SEGUE_TEST_LAND") {
        let mut words = words.split('\n');
        let mut word = || words.next().unwrap();
        let (path, branch, seen, number) = (word(), word(), word(), word());
        let (own, since) = (turn(number.parse().unwrap()), ["since".into()]);
        let landing = Landing { since: &since, seen, ..landing(branch, &own) };
        commit_all(Path::new(path), &landing).unwrap();
    }
}

#[test]
fn killed_at_any_point_it_is_landed_once() {
    let (_lab, path, branch) = with_worktree();
    let child = |seen: &str, number: u32| {
        let words = format!("{}\n{branch}\n{seen}\n{number}", path.display());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "worktree::landing::tests::land_in_a_child"])
            .env("SEGUE_TEST_LAND", words)
            .stdout(std::process::Stdio::null());
        command.spawn().unwrap()
    };
    let prepare = |number: u32| {
        write(&path.join(format!("new-{number}")), "n");
        write(&path.join("since"), format!("{number} seen"));
        let seen = open(&path).take("refs/segue/s/1", "").unwrap().commit;
        write(&path.join("since"), format!("{number} later"));
        seen
    };
    let seen = prepare(0);
    let start = Instant::now();
    assert!(child(&seen, 0).wait().unwrap().success());
    let whole = start.elapsed();
    for number in 1..=40_u32 {
        let seen = prepare(number);
        let mut running = child(&seen, number);
        std::thread::sleep(whole * number / 40);
        let _ = running.kill();
        running.wait().unwrap();
        let (own, since) = (turn(number), ["since".into()]);
        let again = Landing { since: &since, seen: &seen, ..landing(&branch, &own) };
        let commit = commit_all(&path, &again).unwrap().commit;
        assert_eq!(count(&path), (number + 2).to_string());
        assert_eq!(git(&path, &["show", &format!("{commit}:since")]), format!("{number} seen"));
        assert!(names(&path, &commit).contains(&format!("new-{number}")));
        assert_eq!(status(&path), "M since", "{number}");
    }
}

#[test]
fn what_somebody_committed_after_the_snapshot_is_not_taken_back() {
    let (_lab, path, branch) = with_worktree();
    write(&path.join("new"), "reviewed");
    write(&path.join("a.txt"), "reviewed\n");
    let seen = open(&path).take("refs/segue/s/1", "").unwrap().commit;
    // A person commits one file of their own, one that was reviewed, and the removal of a third.
    write(&path.join("mine"), "m");
    write(&path.join("a.txt"), "reviewed, and mended\n");
    git(&path, &["add", "mine", "a.txt"]);
    git(&path, &["rm", "-q", "src/lib.rs"]);
    git(&path, &["commit", "-q", "-m", "mine"]);
    // And leaves something behind that is not committed.
    write(&path.join("mine"), "m, and more");
    write(&path.join("new"), "since");
    let since: Vec<PathBuf> =
        ["mine", "a.txt", "src/lib.rs", "new"].into_iter().map(PathBuf::from).collect();
    let own = trailers();
    let landed =
        commit_all(&path, &Landing { since: &since, seen: &seen, ..landing(&branch, &own) })
            .unwrap();
    let kept: Vec<&str> = landed.kept.iter().map(|path| path.to_str().unwrap()).collect();
    assert_eq!((landed.ours, kept), (true, vec!["a.txt", "mine", "src/lib.rs"]));
    let changed = git(&path, &["diff", "--name-status", "HEAD^", "HEAD"]);
    assert_eq!(changed, "A\tnew");
    assert_eq!(git(&path, &["show", "HEAD:a.txt"]), "reviewed, and mended");
    assert_eq!(git(&path, &["show", "HEAD:new"]), "reviewed");
    assert_eq!(status(&path).trim(), "M mine\n M new");
}
