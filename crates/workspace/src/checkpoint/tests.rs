use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::testing::{Lab, git, open};

fn files(lab: &Lab, taken: &Taken) -> BTreeSet<String> {
    let text = lab.git(&["ls-tree", "-r", "-z", "--name-only", &taken.commit]);
    text.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

const FIRST: [&str; 4] = [".gitignore", "a.txt", "src/deep/er/x.rs", "src/lib.rs"];

#[test]
fn a_snapshot_has_untracked_files_and_tracked_ones_that_are_ignored_but_no_other_ignored_ones() {
    let lab = Lab::new();
    lab.write("tracked.log", "t");
    lab.git(&["add", "-f", "tracked.log"]);
    lab.write("new dir/file ü.txt", "new");
    lab.write("x.log", "ignored");
    lab.write("build/out/y", "ignored");
    lab.write(".segue/.gitignore", "*\n");
    lab.write(".segue/sessions/1/journal", "own");
    lab.write(".git/info/exclude", "secret\n");
    lab.write("secret", "s");
    let before = lab.users();
    let taken = lab.open().take("refs/segue/s/1", "one").unwrap();
    assert_eq!(before, lab.users());
    let mut wanted = names(&FIRST);
    wanted.extend(names(&["tracked.log", "new dir/file ü.txt"]));
    assert_eq!(files(&lab, &taken), wanted);
    assert_eq!(taken.head.as_deref(), Some(lab.git(&["rev-parse", "HEAD"]).as_str()));
    assert_eq!(taken.branch.as_deref(), Some("main"));
    assert_eq!(lab.git(&["rev-parse", "refs/segue/s/1"]), taken.commit);
    assert_eq!(lab.git(&["rev-parse", "refs/segue/s/1^"]), taken.head.unwrap());
}

#[test]
fn an_unchanged_tree_gives_the_same_snapshot_again_and_a_changed_one_another() {
    let lab = Lab::new();
    let snapshots = lab.open();
    let one = snapshots.take("refs/segue/s/1", "one").unwrap();
    let two = snapshots.take("refs/segue/s/2", "two").unwrap();
    assert_eq!(one.commit, two.commit);
    assert!(two.reused);
    // The same length, in the same moment: only the content tells.
    for text in ["1wo\n", "2wo\n", "3wo\n"] {
        lab.write("a.txt", text);
        let taken = snapshots.take("refs/segue/s/3", "three").unwrap();
        assert_eq!(lab.git(&["show", &format!("{}:a.txt", taken.commit)]), text.trim());
    }
    lab.mode("a.txt", 0o600);
    let four = snapshots.take("refs/segue/s/4", "four").unwrap();
    lab.mode("a.txt", 0o640);
    let five = snapshots.take("refs/segue/s/5", "five").unwrap();
    assert_eq!(four.tree, five.tree);
    assert_ne!(four.commit, five.commit);
}

#[test]
fn without_a_commit_detached_in_a_linked_worktree_and_from_a_subdirectory_it_works() {
    let lab = Lab::unborn();
    lab.write("a", "a");
    let taken = lab.open().take("refs/segue/s/1", "one").unwrap();
    assert_eq!((taken.head, taken.branch.as_deref()), (None, Some("main")));
    let empty = Lab::unborn();
    empty.open().take("refs/segue/s/1", "nothing at all").unwrap();

    let lab = Lab::new();
    lab.git(&["checkout", "-q", "--detach"]);
    let taken = open(&lab.path("src/deep")).take("refs/segue/s/1", "one").unwrap();
    assert_eq!(files(&lab, &taken), names(&FIRST));
    assert_eq!(taken.branch, None);

    let other = lab.dir.path().join("other");
    lab.git(&["worktree", "add", "-q", "-b", "side", other.to_str().unwrap()]);
    std::fs::write(other.join("only-here"), "x").unwrap();
    let taken = open(&other).take("refs/segue/s/2", "two").unwrap();
    assert!(files(&lab, &taken).contains("only-here"));
    assert_eq!(taken.branch.as_deref(), Some("side"));
    assert!(!lab.path("only-here").exists());
}

#[test]
fn a_bare_repository_and_none_at_all_say_why_there_are_no_snapshots() {
    let lab = Lab::plain();
    let opened = Snapshots::open(&lab.top, "k").unwrap();
    assert!(matches!(opened, Opened::Unable(Unable::NoRepository)), "{opened:?}");
    lab.git(&["init", "-q", "--bare", "b.git"]);
    let opened = Snapshots::open(&lab.path("b.git"), "k").unwrap();
    assert!(matches!(opened, Opened::Unable(Unable::Bare)), "{opened:?}");
    let lab = Lab::new();
    let opened = Snapshots::open(&lab.path(".git"), "k").unwrap();
    assert!(matches!(opened, Opened::Unable(Unable::Bare)), "{opened:?}");
    assert!(Snapshots::open(&lab.top, "../k").is_err());
}

#[test]
fn content_is_what_is_on_disk_whatever_attributes_and_settings_say() {
    for old_git in [false, true] {
        let lab = Lab::unborn();
        lab.git(&["config", "core.autocrlf", "true"]);
        lab.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
        lab.git(&["config", "filter.up.smudge", "tr A-Z a-z"]);
        lab.git(&["config", "filter.up.required", "true"]);
        lab.write(".gitattributes", "* text=auto\n*.up filter=up\n*.id ident\n");
        lab.write("crlf.txt", "one\r\ntwo\r\n");
        lab.write("f.up", "lower\n");
        lab.write("x.id", "$Id$\n");
        lab.commit("converted");
        lab.write(".git/info/attributes", "*.inf filter=up\n");
        lab.write("new.inf", "lower too\n");
        let mut snapshots = lab.open();
        snapshots.place.attr_source &= !old_git;
        for number in 1..3 {
            let taken = snapshots.take(&format!("refs/segue/s/{number}"), "raw").unwrap();
            let raw = |name: &str| {
                let mut command = snapshots.reader();
                command.args(["cat-file", "blob", &format!("{}:{name}", taken.commit)]);
                crate::git::run(command).unwrap()
            };
            for name in ["crlf.txt", "f.up", "x.id", "new.inf"] {
                assert_eq!(raw(name), std::fs::read(lab.path(name)).unwrap(), "{name} {number}");
            }
            lab.write("crlf.txt", "three\r\n");
        }
    }
}

#[test]
fn promised_unmerged_hidden_and_sparse_files_are_taken_as_they_are_on_disk() {
    let lab = Lab::new();
    lab.write("promised", "p");
    lab.git(&["add", "-N", "promised"]);
    lab.git(&["update-index", "--assume-unchanged", "a.txt"]);
    lab.git(&["update-index", "--skip-worktree", "src/lib.rs"]);
    lab.write("a.txt", "changed");
    lab.write("src/lib.rs", "changed too");
    let snapshots = lab.open();
    let taken = snapshots.take("refs/segue/s/1", "one").unwrap();
    let show = |taken: &Taken, name: &str| lab.git(&["show", &format!("{}:{name}", taken.commit)]);
    assert_eq!(show(&taken, "a.txt"), "changed");
    assert_eq!(show(&taken, "src/lib.rs"), "changed too");
    assert_eq!(show(&taken, "promised"), "p");
    lab.write("src/lib.rs", "once more");
    assert_eq!(show(&snapshots.take("refs/segue/s/2", "").unwrap(), "src/lib.rs"), "once more");

    let lab = Lab::new();
    lab.git(&["checkout", "-q", "-b", "other"]);
    lab.write("a.txt", "theirs\n");
    lab.commit("theirs");
    lab.git(&["checkout", "-q", "main"]);
    lab.write("a.txt", "ours\n");
    lab.commit("ours");
    let mut merge = std::process::Command::new("git");
    merge.current_dir(&lab.top).args(["-c", "user.name=T", "-c", "user.email=t@t"]);
    assert!(!merge.args(["merge", "other"]).output().unwrap().status.success());
    let taken = lab.open().take("refs/segue/s/1", "conflict").unwrap();
    let text = lab.git(&["show", &format!("{}:a.txt", taken.commit)]);
    assert!(text.contains("<<<<<<<") && text.contains("theirs"), "{text}");

    for extra in [&[][..], &["--sparse-index"]] {
        let lab = Lab::new();
        lab.write("kept/k", "k");
        lab.commit("kept");
        lab.git(&[&["sparse-checkout", "set", "--cone"], extra, &["kept"]].concat());
        assert!(!lab.path("src").exists());
        let taken = lab.open().take("refs/segue/s/1", "sparse").unwrap();
        let mut wanted = names(&FIRST);
        wanted.insert("kept/k".into());
        assert_eq!(files(&lab, &taken), wanted);
    }
}

#[test]
fn other_forms_of_the_index_are_read() {
    for setup in [
        &["update-index", "--index-version", "4"][..],
        &["update-index", "--split-index"],
        &["update-index", "--untracked-cache"],
    ] {
        let lab = Lab::new();
        lab.git(setup);
        lab.write("new", "n");
        let before = lab.users();
        let taken = lab.open().take("refs/segue/s/1", "one").unwrap();
        let mut wanted = names(&FIRST);
        wanted.insert("new".into());
        assert_eq!(files(&lab, &taken), wanted, "{setup:?}");
        assert_eq!(before, lab.users());
    }
    let lab = Lab::plain();
    lab.git(&["init", "-q", "--object-format=sha256", "-b", "main"]);
    lab.write("a", "a");
    lab.commit("one");
    lab.write("b", "b");
    let taken = lab.open().take("refs/segue/s/1", "one").unwrap();
    assert_eq!(files(&lab, &taken), names(&["a", "b"]));
}

#[test]
fn no_hook_signing_or_monitor_of_the_users_runs() {
    use std::os::unix::fs::PermissionsExt as _;
    let lab = Lab::new();
    let hook = "#!/bin/sh\ntouch \"$(dirname $0)/../../ran\"\n";
    for name in ["reference-transaction", "post-index-change", "pre-commit", "fsmonitor"] {
        let path = lab.path(&format!(".git/hooks/{name}"));
        crate::testing::write(&path, hook);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    lab.git(&["config", "commit.gpgSign", "true"]);
    let fsmonitor = lab.path(".git/hooks/fsmonitor");
    lab.write("b", "b");
    lab.git(&["config", "core.fsmonitor", fsmonitor.to_str().unwrap()]);
    let snapshots = lab.open();
    snapshots.take("refs/segue/s/1", "one").unwrap();
    snapshots.delete_refs(&["refs/segue/s/1".into()]).unwrap();
    assert!(!lab.path("ran").exists());
    assert!(!lab.path(".git/logs/refs/segue").exists());
}

#[test]
fn a_cache_whose_objects_were_cleaned_up_is_not_believed() {
    let lab = Lab::new();
    lab.write("new", "content that is nowhere else");
    let snapshots = lab.open();
    let one = snapshots.take("refs/segue/s/1", "one").unwrap();
    snapshots.delete_refs(&["refs/segue/s/1".into(), "refs/heads/main".into()]).unwrap();
    assert_eq!(snapshots.list("refs/segue/").unwrap(), []);
    lab.git(&["gc", "-q", "--prune=now"]);
    assert!(!snapshots.exists(&one.commit).unwrap());
    snapshots.take("refs/segue/s/2", "two").unwrap();
    lab.git(&["fsck", "--strict", "--connectivity-only"]);
    assert_eq!(lab.git(&["show", "refs/segue/s/2:new"]), "content that is nowhere else");
    std::fs::write(snapshots.file("index"), "DIRCgarbage").unwrap();
    snapshots.take("refs/segue/s/3", "three").unwrap();
}

#[test]
fn changes_are_named_with_their_kind_also_in_a_repository_inside() {
    let lab = Lab::new();
    let inner = lab.path("inner");
    std::fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "-q"]);
    lab.write("inner/i", "i");
    lab.write("gone", "g");
    lab.write("long", "a long line\nand another line\nand a third line\n");
    let snapshots = lab.open();
    let one = snapshots.take("refs/segue/s/1", "one").unwrap();
    lab.remove("gone");
    lab.write("a.txt", "two\n");
    lab.write("more", "m");
    std::fs::rename(lab.path("long"), lab.path("länger")).unwrap();
    lab.remove("src/lib.rs");
    lab.link("src/lib.rs", "/etc/passwd");
    lab.write("inner/i", "j");
    let (now, changes, total) = snapshots.differs(&one.commit, 100).unwrap();
    let found: Vec<_> = changes.iter().map(|c| (c.path.to_str().unwrap(), &c.status)).collect();
    let renamed = Status::Renamed { from: "long".into() };
    let wanted = [
        ("a.txt", &Status::Modified),
        ("gone", &Status::Deleted),
        ("inner/i", &Status::Modified),
        ("länger", &renamed),
        ("more", &Status::Added),
        ("src/lib.rs", &Status::TypeChanged),
    ];
    assert_eq!(found, wanted);
    assert_eq!(total, 6);
    assert_eq!(snapshots.changes(&one.commit, &now.commit, 2).unwrap().0.len(), 2);
    let (text, more) = snapshots.diff_text(&one.commit, &now.commit, 1 << 20).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("-one\n+two\n") && !more);
    let (text, more) = snapshots.diff_text(&one.commit, &now.commit, 10).unwrap();
    assert!(text.len() == 10 && more);
}

#[test]
fn two_sessions_and_two_threads_do_not_disturb_each_other() {
    let lab = Lab::new();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let top = &lab.top;
            scope.spawn(move || {
                let key = if number < 2 { "same".to_owned() } else { format!("k{number}") };
                let Opened::Ready(snapshots) = Snapshots::open(top, &key).unwrap() else {
                    panic!()
                };
                for turn in 0..4 {
                    std::fs::write(top.join(format!("n{number}")), turn.to_string()).unwrap();
                    snapshots.take(&format!("refs/segue/{number}/{turn}"), "m").unwrap();
                }
            });
        }
    });
    lab.git(&["fsck", "--strict"]);
}

#[test]
fn a_plain_directory_gets_a_private_repository_within_limits() {
    let lab = Lab::plain();
    lab.write("a b", "x");
    lab.write(".gitignore", "*.o\n");
    lab.write("c.o", "x");
    std::fs::create_dir(lab.path("empty")).unwrap();
    let shadow = lab.path(".shadow");
    let snapshots = Snapshots::shadow(&shadow, &lab.top, "k").unwrap();
    let taken = snapshots.take("refs/segue/s/1", "one").unwrap();
    let listed =
        git(&lab.top, &["--git-dir", ".shadow", "ls-tree", "-r", "--name-only", &taken.commit]);
    assert_eq!(listed, ".gitignore\na b");
    let before = lab.tree();
    lab.write("a b", "y");
    lab.remove("empty");
    let restored = snapshots.restore(&taken.commit, "refs/segue/s/safe").unwrap();
    let only = |tree: std::collections::BTreeMap<String, String>| {
        tree.into_iter().filter(|(name, _)| !name.starts_with(".shadow")).collect::<Vec<_>>()
    };
    assert_eq!(only(before), only(lab.tree()));
    assert_eq!(restored.done.modified, [Path::new("a b")]);
    let big = std::fs::File::create(lab.path("big")).unwrap();
    big.set_len(crate::MAX_PLAIN_BYTES + 1).unwrap();
    let error = snapshots.take("refs/segue/s/2", "two").unwrap_err();
    assert!(error.to_string().contains("512 MiB"), "{error}");
}

#[test]
fn take_in_a_child() {
    if let Ok(top) = std::env::var("SEGUE_TEST_TAKE") {
        open(Path::new(&top)).take("refs/segue/s/child", "").unwrap();
    }
}

#[test]
fn killed_at_any_point_the_next_snapshot_has_everything() {
    let lab = Lab::new();
    let snapshots = lab.open();
    snapshots.take("refs/segue/s/0", "").unwrap();
    let child = || {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "checkpoint::tests::take_in_a_child"])
            .env("SEGUE_TEST_TAKE", &lab.top)
            .stdout(std::process::Stdio::null());
        command.spawn().unwrap()
    };
    let start = std::time::Instant::now();
    lab.write("new-0.txt", "0\n");
    assert!(child().wait().unwrap().success());
    let whole = start.elapsed();
    for round in 1..=40_u32 {
        let name = format!("new-{round}.txt");
        lab.write(&name, format!("{round}\n"));
        let mut running = child();
        std::thread::sleep(whole * round / 40);
        let _ = running.kill();
        running.wait().unwrap();
        let taken = snapshots.take("refs/segue/s/1", "").unwrap();
        let kept = lab.git(&["show", &format!("{}:{name}", taken.commit)]);
        assert_eq!(kept, round.to_string(), "round {round}");
    }
}
