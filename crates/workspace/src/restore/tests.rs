use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::testing::{Lab, git, open, write};

/// A repository with a bit of everything.
fn rich() -> Lab {
    let lab = Lab::new();
    let source = lab.dir.path().join("source");
    std::fs::create_dir(&source).unwrap();
    git(&source, &["init", "-q", "-b", "main"]);
    write(&source.join("s.txt"), "submodule\n");
    git(&source, &["add", "-A"]);
    git(&source, &["commit", "-q", "-m", "s"]);
    lab.git(&["submodule", "--quiet", "add", source.to_str().unwrap(), "sub"]);
    lab.git(&["config", "core.autocrlf", "true"]);
    lab.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
    lab.git(&["config", "filter.up.smudge", "tr A-Z a-z"]);
    lab.write(".gitattributes", "* text=auto\n*.up filter=up\n");
    lab.write("crlf.txt", "one\r\ntwo\r\n");
    lab.write("mixed.txt", "one\r\ntwo\n");
    lab.write("f.up", "lower\n");
    lab.write("swap/inner/file", "a directory\n");
    lab.write("plain", "a file\n");
    lab.write("run.sh", "#!/bin/sh\n");
    lab.mode("run.sh", 0o755);
    lab.commit("rich");
    lab.write("untracked with space ü.txt", "u");
    lab.write_bytes(b"bad \xff\n\"name\\", "b");
    lab.write_bytes(b":(glob)*\ttab", "g");
    lab.write("secret", "s");
    lab.mode("secret", 0o600);
    lab.write("readonly", "r");
    lab.mode("readonly", 0o444);
    lab.write("private/x", "p");
    lab.mode("private", 0o750);
    std::fs::create_dir_all(lab.path("empty/in/empty")).unwrap();
    std::fs::create_dir(lab.path("empty/odd")).unwrap();
    lab.mode("empty/odd", 0o2711);
    lab.link("to-file", "a.txt");
    lab.link("to-dir", "src");
    lab.link("dangling", "nowhere/at all");
    lab.write("sub/untracked", "in the submodule");
    lab.write("a.txt", "edited, not committed\n");
    lab.git(&["add", "a.txt"]);
    lab.write("a.txt", "edited again\n");
    lab.write("keep.log", "ignored");
    lab.write("stashed", "x");
    lab.git(&["add", "stashed"]);
    lab.git(&["stash", "push", "-q", "--", "stashed"]);
    lab
}

/// What an agent might do to it.
fn wreck(lab: &Lab) {
    lab.write("a.txt", "wrecked");
    lab.write("crlf.txt", "one\ntwo\n");
    lab.write("f.up", "UPPER\n");
    std::fs::rename(lab.path("mixed.txt"), lab.path("moved.txt")).unwrap();
    lab.remove("swap");
    lab.write("swap", "a file now");
    lab.remove("plain");
    lab.write("plain/deep/er", "a directory now");
    lab.write("plain/deep/x.log", "ignored and in the way");
    std::fs::create_dir(lab.path("plain/void")).unwrap();
    lab.mode("run.sh", 0o644);
    lab.mode("secret", 0o644);
    lab.remove("readonly");
    lab.mode("private", 0o700);
    lab.remove("empty");
    lab.write("empty", "not a directory");
    lab.remove("to-file");
    lab.write("to-file", "a file");
    lab.remove("to-dir");
    lab.write("to-dir/lib.rs", "a directory");
    lab.remove("dangling");
    lab.link("dangling", "a.txt");
    lab.remove("src/deep");
    lab.link("src/deep", "/tmp");
    lab.write("sub/s.txt", "changed");
    lab.remove("sub/untracked");
    lab.write("sub/more", "more");
    let script = "rm 'untracked with space ü.txt'; mkdir -p gen/a/b; echo 1 >gen/a/b/1; rm bad*; \
                  mkdir -p new/void; chmod 700 src";
    assert!(
        Command::new("sh").current_dir(&lab.top).args(["-c", script]).status().unwrap().success()
    );
}

#[test]
fn a_rewind_brings_everything_back_and_can_itself_be_undone() {
    let lab = rich();
    let snapshots = lab.open();
    let (tree, users) = (lab.tree(), lab.users());
    let inner_users = crate::testing::users(&lab.path("sub"));
    let taken = snapshots.take("refs/segue/s/1", "before").unwrap();
    assert_eq!((&tree, &users), (&lab.tree(), &lab.users()));
    wreck(&lab);
    let wrecked = lab.tree();
    let plan = snapshots.plan(&taken.commit).unwrap();
    assert_eq!(wrecked, lab.tree());
    let restored = snapshots.restore(&taken.commit, "refs/segue/s/safe").unwrap();
    assert_eq!(plan, restored.done);
    assert_eq!(tree, lab.tree());
    assert_eq!(users, lab.users());
    assert_eq!(inner_users, crate::testing::users(&lab.path("sub")));
    assert!(snapshots.plan(&taken.commit).unwrap().is_empty());
    let back = snapshots.restore(&restored.safety.commit, "refs/segue/s/safe").unwrap();
    assert_eq!(back.safety_ref, "refs/segue/s/safe-2");
    assert_eq!(wrecked, lab.tree());
    assert_eq!(users, lab.users());
    snapshots.restore(&taken.commit, "refs/segue/s/safe").unwrap();
    assert_eq!(tree, lab.tree());
    assert_eq!(snapshots.resolve("refs/segue/s/safe").unwrap().unwrap(), restored.safety.commit);
}

#[test]
fn what_a_killed_one_has_left_half_written_is_gone_also_where_only_some_files_come_back() {
    let lab = Lab::new();
    lab.write("a.txt", "one\n");
    lab.write("b.txt", "one\n");
    let snapshots = lab.open();
    let taken = snapshots.take("refs/segue/s/one", "one").unwrap();
    let others = ["b.txt", "sub/mine.txt", ".segue-part", ".segue-part-1", ".segue-part-1-2-3"];
    let parts = [".segue-part-81-2", "sub/.segue-part-9-1"];
    ["a.txt"].iter().chain(&others).chain(&parts).for_each(|name| lab.write(name, "two\n"));
    let wanted = |path: &Path| path == Path::new("a.txt");
    let restored = snapshots.restore_some(&taken.commit, "refs/segue/s/safe", &wanted).unwrap();
    assert_eq!(restored.done.modified, [Path::new("a.txt")]);
    assert!(restored.done.deleted.is_empty());
    let read = |name: &str| std::fs::read_to_string(lab.path(name)).ok();
    assert_eq!(read("a.txt").as_deref(), Some("one\n"));
    assert!(others.iter().all(|name| read(name).as_deref() == Some("two\n")));
    assert!(parts.iter().all(|name| read(name).is_none()));
}

#[test]
fn an_ignored_file_in_the_way_is_in_the_safety_snapshot_and_others_stay() {
    let lab = Lab::new();
    lab.write("notes.txt", "notes");
    lab.write("seen.log", "ignored all along");
    let snapshots = lab.open();
    let taken = snapshots.take("refs/segue/s/1", "").unwrap();
    let tree = lab.tree();
    // What was ignored is not any more, and the other way round.
    lab.write(".gitignore", "*.txt\n");
    lab.write("notes.txt", "precious, and ignored now");
    lab.remove("src");
    lab.write("src.txt", "ignored, not in the way");
    let restored = snapshots.restore(&taken.commit, "refs/segue/s/safe").unwrap();
    lab.remove("src.txt");
    assert_eq!(tree, lab.tree());
    let safe = format!("{}:notes.txt", restored.safety.commit);
    assert_eq!(lab.git(&["show", &safe]), "precious, and ignored now");
}

#[test]
fn a_submodule_that_was_removed_comes_back_and_a_new_repository_is_left_alone() {
    let lab = rich();
    let snapshots = lab.open();
    let tree = lab.tree();
    let taken = snapshots.take("refs/segue/s/1", "").unwrap();
    lab.remove("sub");
    snapshots.restore(&taken.commit, "refs/segue/s/a").unwrap();
    assert_eq!(tree, lab.tree());
    assert_eq!(
        git(&lab.path("sub"), &["rev-parse", "--show-toplevel"]),
        lab.path("sub").to_str().unwrap()
    );
    std::fs::create_dir(lab.path("cloned")).unwrap();
    git(&lab.path("cloned"), &["init", "-q"]);
    lab.write("cloned/work", "w");
    let restored = snapshots.restore(&taken.commit, "refs/segue/s/b").unwrap();
    assert_eq!(restored.done.left, [Path::new("cloned")]);
    assert_eq!(std::fs::read(lab.path("cloned/work")).unwrap(), b"w");
}

#[test]
fn a_snapshot_that_leads_out_of_the_tree_is_refused_before_anything_changes() {
    let lab = Lab::new();
    let snapshots = lab.open();
    let outside = lab.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let blob = lab.git(&["rev-parse", "HEAD:a.txt"]);
    write(&lab.dir.path().join("to"), outside.to_str().unwrap());
    let link = lab.git(&["hash-object", "-w", lab.dir.path().join("to").to_str().unwrap()]);
    let raw = |entries: &[(&str, &str, &str)]| -> String {
        let mut bytes = Vec::new();
        for (mode, name, id) in entries {
            bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            for at in (0..40).step_by(2) {
                bytes.push(u8::from_str_radix(&id[at..at + 2], 16).unwrap());
            }
        }
        let mut command = snapshots.reader();
        command.args(["hash-object", "-t", "tree", "-w", "--literally", "--stdin"]);
        crate::git::line(&crate::git::feed(command, bytes).unwrap())
    };
    let inner = raw(&[("100644", "x", &blob)]);
    let trees = [
        raw(&[("120000", "a", &link), ("40000", "a", &inner)]),
        raw(&[("40000", "..", &inner)]),
        raw(&[("40000", ".git", &inner)]),
        raw(&[("40000", ".GIT", &inner)]),
        raw(&[("100644", "../outside/x", &blob)]),
        raw(&[("100644", "/tmp/segue-x", &blob)]),
    ];
    let line = crate::manifest::Manifest::default().to_line().unwrap();
    let before = lab.tree();
    for tree in trees {
        let commit = snapshots.write_commit(&tree, None, "hostile", &line).unwrap();
        let error = snapshots.restore(&commit, "refs/segue/s/safe").unwrap_err();
        assert!(matches!(error, RestoreError::UnsafePath(_)), "{error}");
        assert_eq!(before, lab.tree());
    }
    let mut manifest = crate::manifest::Manifest::default();
    manifest.empty.insert(b"../outside/dir".to_vec());
    let good = raw(&[("100644", "x", &blob)]);
    let line = manifest.to_line().unwrap();
    let commit = snapshots.write_commit(&good, None, "hostile", &line).unwrap();
    assert!(snapshots.restore(&commit, "refs/segue/s/safe").is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert!(snapshots.restore(&lab.git(&["rev-parse", "HEAD"]), "refs/segue/s/safe").is_err());
}

#[test]
fn a_link_that_stands_where_a_directory_was_is_not_followed() {
    let lab = Lab::new();
    let snapshots = lab.open();
    let tree = lab.tree();
    let taken = snapshots.take("refs/segue/s/1", "").unwrap();
    let outside = lab.dir.path().join("outside");
    write(&outside.join("lib.rs"), "not ours");
    lab.remove("src");
    lab.link("src", outside.to_str().unwrap());
    snapshots.restore(&taken.commit, "refs/segue/s/safe").unwrap();
    assert_eq!(tree, lab.tree());
    assert_eq!(std::fs::read(outside.join("lib.rs")).unwrap(), b"not ours");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn a_file_that_is_too_long_is_left_out_and_left_alone() {
    let lab = Lab::new();
    let snapshots = lab.open();
    let long = lab.path("data.bin");
    std::fs::File::create(&long).unwrap().set_len(crate::checkpoint::MAX_FILE + 1).unwrap();
    let taken = snapshots.take("refs/segue/s/1", "one").unwrap();
    assert_eq!(taken.skipped, [PathBuf::from("data.bin")]);
    lab.write("b.txt", "two\n");
    snapshots.restore(&taken.commit, "refs/segue/s/before").unwrap();
    assert!(!lab.path("b.txt").exists());
    assert_eq!(long.metadata().unwrap().len(), crate::checkpoint::MAX_FILE + 1);
    // One that was short enough then is not written over what is too long to be kept now.
    lab.write("data.bin", "short\n");
    let short = snapshots.take("refs/segue/s/2", "two").unwrap();
    std::fs::File::create(&long).unwrap().set_len(crate::checkpoint::MAX_FILE + 1).unwrap();
    snapshots.restore(&short.commit, "refs/segue/s/before").unwrap();
    assert_eq!(long.metadata().unwrap().len(), crate::checkpoint::MAX_FILE + 1);
}

#[test]
fn a_sparse_checkout_stays_sparse() {
    let lab = Lab::new();
    lab.write("kept/k", "k");
    lab.commit("kept");
    lab.git(&["sparse-checkout", "set", "--cone", "kept"]);
    let snapshots = lab.open();
    let taken = snapshots.take("refs/segue/s/1", "").unwrap();
    let tree = lab.tree();
    lab.write("kept/k", "l");
    lab.write("kept/new", "n");
    let restored = snapshots.restore(&taken.commit, "refs/segue/s/safe").unwrap();
    assert_eq!(tree, lab.tree());
    assert_eq!(restored.done.deleted, [Path::new("kept/new")]);
}

/// Not a test of its own: what the kill test runs, and kills.
#[test]
fn restore_in_a_child() {
    if let Ok(top) = std::env::var("SEGUE_TEST_RESTORE") {
        let commit = std::env::var("SEGUE_TEST_COMMIT").unwrap();
        open(Path::new(&top)).restore(&commit, "refs/segue/s/safe").unwrap();
    }
}

#[test]
fn killed_at_any_point_it_completes_when_called_again() {
    let lab = rich();
    for number in 0..120 {
        lab.write(&format!("many/{}/{number}", number % 7), format!("{number}\n"));
    }
    let snapshots = lab.open();
    let tree = lab.tree();
    let taken = snapshots.take("refs/segue/s/1", "").unwrap();
    wreck(&lab);
    lab.remove("many");
    for number in 0..60 {
        lab.write(&format!("many/{number}"), "wrong");
    }
    let wrecked = lab.tree();
    let broken = snapshots.take("refs/segue/s/2", "").unwrap();
    let child = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "restore::tests::restore_in_a_child"])
            .env("SEGUE_TEST_RESTORE", &lab.top)
            .env("SEGUE_TEST_COMMIT", &taken.commit)
            .stdout(std::process::Stdio::null());
        command.spawn().unwrap()
    };
    let start = Instant::now();
    assert!(child().wait().unwrap().success());
    let whole = start.elapsed();
    assert_eq!(tree, lab.tree());
    let mut halfway = 0;
    for round in 0..30_u32 {
        snapshots.restore(&broken.commit, &format!("refs/segue/s/back-{round}")).unwrap();
        lab.write("plain/deep/x.log", "ignored and in the way");
        assert_eq!(wrecked, lab.tree());
        snapshots.delete_refs(&refs(&snapshots, "refs/segue/s/safe")).unwrap();
        let mut running = child();
        if round < 8 {
            std::thread::sleep(whole * (round + 1) / 8);
        } else {
            // From here on files change.
            while !lab.path(".git/refs/segue/s/safe").exists() {
                std::thread::sleep(Duration::from_micros(100));
            }
            std::thread::sleep(Duration::from_micros(u64::from(round - 8) * 1000));
        }
        let _ = running.kill();
        running.wait().unwrap();
        let now = lab.tree();
        halfway += usize::from(now != wrecked && now != tree);
        let first = snapshots.resolve("refs/segue/s/safe").unwrap();
        let second = snapshots.restore(&taken.commit, "refs/segue/s/safe").unwrap();
        assert_eq!(tree, lab.tree(), "round {round}");
        if let Some(first) = first {
            assert_eq!(second.safety_ref, "refs/segue/s/safe-2");
            assert_eq!(snapshots.resolve("refs/segue/s/safe").unwrap(), Some(first.clone()));
            snapshots.restore(&first, "refs/segue/s/x").unwrap();
            assert_eq!(wrecked, lab.tree(), "round {round}");
        }
    }
    println!("killed halfway: {halfway} of 30");
    lab.git(&["fsck", "--strict"]);
}

fn refs(snapshots: &Snapshots, prefix: &str) -> Vec<String> {
    snapshots.list(prefix).unwrap().into_iter().map(|(name, _)| name).collect()
}

/// What may stand at a path.
#[derive(Debug, Clone)]
enum Thing {
    File(Vec<u8>, u32),
    Link(String),
    EmptyDir(u32),
}

fn things() -> impl Strategy<Value = BTreeMap<Vec<u8>, Thing>> {
    let name = prop::sample::select(vec![
        b"a".to_vec(),
        b"b".to_vec(),
        b"a b".to_vec(),
        "ü".into(),
        b"\xfe\n".to_vec(),
        b"x.log".to_vec(),
    ]);
    let path = prop::collection::vec(name, 1..4).prop_map(|parts| parts.join(&b'/'));
    let bits = prop::sample::select(vec![0o644_u32, 0o600, 0o755, 0o700, 0o640, 0o444]);
    let thing = prop_oneof![
        4 => (prop::collection::vec(any::<u8>(), 0..6), bits).prop_map(|(b, m)| Thing::File(b, m)),
        1 => prop::sample::select(vec!["a", "../..", "/etc", "b/a"])
            .prop_map(|to| Thing::Link(to.into())),
        1 => prop::sample::select(vec![0o755_u32, 0o700]).prop_map(Thing::EmptyDir),
    ];
    prop::collection::btree_map(path, thing, 0..12)
}

/// Empties the tree and builds it anew, leaving out what does not fit.
fn build(lab: &Lab, things: &BTreeMap<Vec<u8>, Thing>) {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::PermissionsExt as _;
    for entry in std::fs::read_dir(&lab.top).unwrap() {
        let name = entry.unwrap().file_name().into_string();
        match name {
            Ok(name) if name == ".git" || name == ".gitignore" => {}
            Ok(name) => lab.remove(&name),
            Err(name) => {
                let path = lab.top.join(name);
                let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
            }
        }
    }
    for (path, thing) in things {
        let full = lab.top.join(std::ffi::OsStr::from_bytes(path));
        let linked = full.ancestors().skip(1).any(|above| above.is_symlink());
        if linked || std::fs::create_dir_all(full.parent().unwrap()).is_err() || full.exists() {
            continue;
        }
        let bits = match thing {
            Thing::File(bytes, bits) => std::fs::write(&full, bytes).map(|()| *bits),
            Thing::EmptyDir(bits) => std::fs::create_dir(&full).map(|()| *bits),
            Thing::Link(to) => {
                let _ = std::os::unix::fs::symlink(to, &full);
                continue;
            }
        };
        std::fs::set_permissions(&full, std::fs::Permissions::from_mode(bits.unwrap())).unwrap();
    }
}

/// Without what is ignored: it is not part of a snapshot.
fn visible(lab: &Lab) -> BTreeMap<String, String> {
    let mut tree = lab.tree();
    tree.retain(|name, _| !name.split('/').any(|part| part == "x.log"));
    tree
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_comes_back_from_any_other(one in things(), two in things()) {
        let lab = Lab::unborn();
        lab.write(".gitignore", "*.log\n");
        let snapshots = lab.open();
        build(&lab, &one);
        let first = visible(&lab);
        let taken = snapshots.take("refs/segue/s/1", "").unwrap();
        build(&lab, &two);
        let second = lab.tree();
        let restored = snapshots.restore(&taken.commit, "refs/segue/s/safe").unwrap();
        let mut after = visible(&lab);
        // Directories that hold ignored files now stay for their sake.
        after.retain(|name, what| first.contains_key(name) || !what.starts_with("dir "));
        prop_assert_eq!(&first, &after);
        snapshots.restore(&restored.safety.commit, "refs/segue/s/safe").unwrap();
        prop_assert_eq!(second, lab.tree());
    }
}
