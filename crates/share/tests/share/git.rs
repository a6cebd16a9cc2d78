//! Commits that travel with a session.

use std::{
    fs,
    path::{Path, PathBuf},
};

use segue_share::{Error, GitPart, History, Imported, export, fetch_git};
use tempfile::TempDir;

use crate::support::*;

fn write(repo: &Path, name: &str, text: &str) {
    fs::write(repo.join(name), text).unwrap();
    git(repo, &["add", "-A"]);
    git(repo, &["commit", "-qm", name]);
}

/// A snapshot: a commit on top of HEAD that only our ref points to.
fn snapshot(repo: &Path, turn: u32) -> String {
    let tree = git(repo, &["rev-parse", "HEAD^{tree}"]);
    let text = format!("turn {turn}");
    let commit = git(repo, &["commit-tree", "-p", "HEAD", "-m", &text, &tree]);
    git(repo, &["update-ref", &name(turn), &commit]);
    commit
}

fn name(turn: u32) -> String {
    format!("refs/segue/{ID}/{turn}")
}

struct Lab {
    tmp: TempDir,
    repo: PathBuf,
}

/// A repository with a remote, work that was pushed, work that was not, and snapshots.
fn lab() -> Lab {
    let tmp = TempDir::new().unwrap();
    let origin = tmp.path().join("origin");
    fs::create_dir(&origin).unwrap();
    git(&origin, &["init", "-q"]);
    write(&origin, "a", "1");
    git(tmp.path(), &["clone", "-q", "origin", "repo"]);
    let repo = tmp.path().join("repo");
    write(&repo, "b", &noise(5, 5000));
    snapshot(&repo, 1);
    snapshot(&repo, 2);
    make(&home(&tmp.path().join("from")));
    Lab { tmp, repo }
}

impl Lab {
    fn travel(&self, history: History, n: u32) -> Imported {
        let part = GitPart::discover(&self.repo, history).unwrap();
        let from = home(&self.tmp.path().join("from"));
        let bundle = self.tmp.path().join(format!("{n}.segue"));
        export(&open(&from), Some(&part), &bundle, &options(), &mut quiet).unwrap();
        take(&bundle, &home(&self.tmp.path().join("to"))).unwrap()
    }

    fn clone(&self, name: &str) -> PathBuf {
        git(self.tmp.path(), &["clone", "-q", "origin", name]);
        self.tmp.path().join(name)
    }
}

fn refs(repo: &Path) -> String {
    git(repo, &["for-each-ref", "--format=%(objectname) %(refname)"])
}

fn ours(repo: &Path) -> String {
    git(repo, &["for-each-ref", "--format=%(objectname) %(refname)", "refs/segue"])
}

#[test]
fn refs_arrive_and_nothing_else_changes() {
    let lab = lab();
    let imported = lab.travel(History::Thin, 1);
    let origin = git(&lab.repo, &["rev-parse", "origin/HEAD"]);
    assert_eq!(imported.git.len(), 1);
    assert_eq!(imported.git[0].entry.needs, [origin]);
    let other = lab.clone("other");
    // What would run, if it were let.
    let hook = other.join(".git/hooks/reference-transaction");
    fs::write(&hook, "#!/bin/sh\ntouch ran\n").unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let before = refs(&other);
    let fetched = fetch_git(&imported.git[0], &other).unwrap();
    assert_eq!(fetched.refs.len(), 2);
    assert_eq!(ours(&other), ours(&lab.repo));
    assert_eq!(refs(&other), format!("{before}\n{}", ours(&lab.repo)));
    git(&other, &["fsck", "--strict"]);
    assert!(!other.join(".git/FETCH_HEAD").exists() && !other.join(".git/ran").exists());
    assert!(!other.join("ran").exists());
    assert_eq!(git(&other, &["status", "--porcelain"]), "");
    // Again is no error.
    fetch_git(&imported.git[0], &other).unwrap();
}

#[test]
fn missing_commits_are_named_and_a_full_history_needs_none() {
    let lab = lab();
    let empty = lab.tmp.path().join("empty");
    fs::create_dir(&empty).unwrap();
    git(&empty, &["init", "-q"]);
    let thin = lab.travel(History::Thin, 1);
    let origin = git(&lab.repo, &["rev-parse", "origin/HEAD"]);
    match fetch_git(&thin.git[0], &empty).unwrap_err() {
        Error::MissingCommits { commits, .. } => assert_eq!(commits, [origin]),
        other => panic!("{other}"),
    }
    assert_eq!(refs(&empty), "");
    drop(thin);
    let full = lab.travel(History::Full, 2);
    assert!(full.git[0].entry.needs.is_empty());
    fetch_git(&full.git[0], &empty).unwrap();
    assert_eq!(ours(&empty), ours(&lab.repo));
    git(&empty, &["fsck", "--strict"]);
    let error = fetch_git(&full.git[0], lab.tmp.path()).unwrap_err();
    assert!(matches!(error, Error::Git { .. }), "{error}");
}

#[test]
fn a_ref_to_what_everyone_has_is_made_without_carrying_it() {
    let lab = lab();
    git(&lab.repo, &["update-ref", &name(0), "origin/HEAD"]);
    let imported = lab.travel(History::Thin, 1);
    assert_eq!(imported.git[0].entry.refs.iter().filter(|r| r.carried).count(), 2);
    let other = lab.clone("other");
    fetch_git(&imported.git[0], &other).unwrap();
    assert_eq!(ours(&other), ours(&lab.repo));
    drop(imported);
    for turn in [1, 2] {
        git(&lab.repo, &["update-ref", "-d", &name(turn)]);
    }
    let imported = lab.travel(History::Thin, 2);
    assert!(imported.git[0].file.is_none());
    let third = lab.clone("third");
    fetch_git(&imported.git[0], &third).unwrap();
    assert_eq!(ours(&third), ours(&lab.repo));
    drop(imported);
    git(&lab.repo, &["update-ref", "-d", &name(0)]);
    assert!(lab.travel(History::Thin, 3).git.is_empty());
}

#[test]
fn a_ref_that_is_there_with_other_work_is_not_moved() {
    let lab = lab();
    let imported = lab.travel(History::Thin, 1);
    let other = lab.clone("other");
    write(&other, "c", "mine");
    snapshot(&other, 2);
    let before = refs(&other);
    let error = fetch_git(&imported.git[0], &other).unwrap_err();
    assert!(matches!(error, Error::Git { doing: "fetch", .. }), "{error}");
    assert_eq!(refs(&other), before);
}

#[test]
fn a_git_bundle_with_other_refs_than_listed_is_refused() {
    let lab = lab();
    let imported = lab.travel(History::Full, 1);
    let other = lab.clone("other");
    let before = refs(&other);
    let mut staged = imported.git[0].clone();
    let file = staged.file.clone().unwrap();
    git(&lab.repo, &["bundle", "create", "-q", file.to_str().unwrap(), "--all"]);
    let error = fetch_git(&staged, &other).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    fs::write(&file, b"# v2 git bundle\nnonsense\n\nPACK").unwrap();
    assert!(matches!(fetch_git(&staged, &other).unwrap_err(), Error::Refused { .. }));
    let commit = staged.entry.refs[0].commit.clone();
    staged.entry.refs.truncate(1);
    fs::write(&file, format!("# v2 git bundle\n{commit} {}\n\nPACK", name(1))).unwrap();
    assert!(matches!(fetch_git(&staged, &other).unwrap_err(), Error::Git { .. }));
    staged.entry.refs[0].name = "refs/heads/main".to_owned();
    assert!(matches!(fetch_git(&staged, &other).unwrap_err(), Error::Refused { .. }));
    assert_eq!(refs(&other), before);
}

/// A tree with a file `.git/hooks/x`, as no git would write it.
#[test]
fn a_hostile_object_is_refused() {
    let lab = lab();
    let blob = git(&lab.repo, &["hash-object", "-w", "a"]);
    let inner = lab.tmp.path().join("inner");
    let oid: Vec<u8> =
        (0..20).map(|i| u8::from_str_radix(&blob[2 * i..2 * i + 2], 16).unwrap()).collect();
    fs::write(&inner, [b"100644 .git\0".as_slice(), &oid].concat()).unwrap();
    let tree = git(
        &lab.repo,
        &["hash-object", "-t", "tree", "-w", "--literally", inner.to_str().unwrap()],
    );
    let commit = git(&lab.repo, &["commit-tree", "-p", "HEAD", "-m", "x", &tree]);
    git(&lab.repo, &["update-ref", &name(3), &commit]);
    let imported = lab.travel(History::Thin, 1);
    let other = lab.clone("other");
    let error = fetch_git(&imported.git[0], &other).unwrap_err();
    assert!(matches!(error, Error::Git { .. }), "{error}");
    assert_eq!(ours(&other), "");
}

#[test]
fn submodules_have_their_own() {
    let lab = lab();
    let sub = lab.tmp.path().join("lib");
    fs::create_dir(&sub).unwrap();
    git(&sub, &["init", "-q"]);
    write(&sub, "s", "1");
    git(&lab.repo, &["submodule", "--quiet", "add", sub.to_str().unwrap(), "deps/lib one"]);
    git(&lab.repo, &["commit", "-qm", "submodule"]);
    let nested = lab.repo.join("deps/lib one");
    write(&nested, "t", "2");
    snapshot(&nested, 1);
    let imported = lab.travel(History::Thin, 1);
    let paths: Vec<_> = imported.git.iter().map(|staged| staged.entry.path.as_str()).collect();
    assert_eq!(paths, ["", "deps/lib one"]);
    assert_eq!(imported.git[1].entry.file.as_deref(), Some("git/1.bundle"));
    git(lab.tmp.path(), &["clone", "-q", "lib", "other-lib"]);
    let other = lab.tmp.path().join("other-lib");
    fetch_git(&imported.git[1], &other).unwrap();
    assert_eq!(ours(&other), ours(&nested));
    git(&other, &["fsck", "--strict"]);
}

#[test]
fn a_shallow_clone_needs_its_border() {
    let lab = lab();
    let origin = lab.tmp.path().join("origin");
    write(&origin, "a", "2");
    let url = format!("file://{}", origin.display());
    git(lab.tmp.path(), &["clone", "-q", "--depth=1", &url, "shallow"]);
    let repo = lab.tmp.path().join("shallow");
    snapshot(&repo, 1);
    let shallow = Lab { repo: repo.clone(), tmp: lab.tmp };
    let imported = shallow.travel(History::Full, 1);
    assert_eq!(imported.git[0].entry.needs.len(), 1);
    let other = shallow.clone("other");
    fetch_git(&imported.git[0], &other).unwrap();
    assert_eq!(ours(&other), ours(&repo));
    git(&other, &["fsck", "--strict"]);
}
