use super::super::landing::{Landing, commit_all};
use super::super::tests::with_worktree;
use super::*;
use crate::testing::{Lab, fingerprint, git, write};

fn trailers() -> Vec<(&'static str, String)> {
    vec![("Segue-Session", "01J".to_owned()), ("Segue-Task", "T-003".to_owned())]
}

/// A worktree whose tip is the placeholder of a task.
fn with_placeholder() -> (Lab, std::path::PathBuf, String, String) {
    let (lab, path, branch) = with_worktree();
    write(&path.join("new file"), "n");
    write(&path.join("a.txt"), "two\n");
    std::fs::remove_file(path.join("src/lib.rs")).unwrap();
    let landing = Landing {
        branch: &branch,
        message: "T-003: FAILED (iter_cap): title",
        trailers: &trailers(),
        since: &[],
        seen: "",
        even_if_empty: true,
    };
    let commit = commit_all(&path, &landing).unwrap().commit;
    (lab, path, branch, commit)
}

fn kept(path: &Path, branch: &str, commit: &str) -> String {
    let before = git(path, &["for-each-ref"]);
    let why = match unwind(path, branch, commit, &trailers()).unwrap() {
        Unwound::Kept { why } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(git(path, &["for-each-ref"]), before);
    why
}

#[test]
fn a_placeholder_is_taken_back_and_its_files_are_changes_again() {
    let (_lab, path, branch, commit) = with_placeholder();
    write(&path.join("later"), "l");
    let (tree, parent) = (fingerprint(&path), git(&path, &["rev-parse", "HEAD^"]));
    let done = unwind(&path.join("src"), &branch, &commit, &trailers()).unwrap();
    assert_eq!(done, Unwound::Done { parent: parent.clone() });
    assert_eq!(git(&path, &["rev-parse", "HEAD"]), parent);
    assert_eq!(git(&path, &["symbolic-ref", "--short", "HEAD"]), branch);
    assert_eq!(fingerprint(&path), tree);
    let status = git(&path, &["status", "--porcelain"]);
    let mut lines: Vec<&str> = status.lines().map(|line| line.get(3..).unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["\"new file\"", "a.txt", "later", "src/lib.rs"]);
    let log = git(&path, &["reflog", "-1", "--format=%gs"]);
    assert_eq!(log, format!("segue: unwound {}", &commit[..7]));
    assert_eq!(unwind(&path, &branch, &commit, &trailers()).unwrap(), Unwound::Already);
    // And it can be landed again, with all that was in it.
    let again = Landing {
        branch: &branch,
        message: "T-003: title",
        trailers: &[("Segue-Task", "T-003".to_owned())],
        since: &[],
        seen: "",
        even_if_empty: false,
    };
    commit_all(&path, &again).unwrap();
    assert_eq!(git(&path, &["diff", "--name-only", &commit, "HEAD"]), "later");
}

#[test]
fn a_placeholder_without_changes_is_taken_back_too() {
    let (_lab, path, branch) = with_worktree();
    let own = trailers();
    let landing = Landing {
        branch: &branch,
        message: "T-003: FAILED (iter_cap): title",
        trailers: &own,
        since: &[],
        seen: "",
        even_if_empty: true,
    };
    let commit = commit_all(&path, &landing).unwrap().commit;
    let done = unwind(&path, &branch, &commit, &own).unwrap();
    assert!(matches!(done, Unwound::Done { .. }));
    assert_eq!(git(&path, &["status", "--porcelain"]), "");
}

#[test]
fn what_has_left_the_branch_is_kept() {
    let (lab, path, branch, commit) = with_placeholder();
    lab.git(&["branch", "mine", &commit]);
    assert_eq!(kept(&path, &branch, &commit), "the branch mine has it too");
    lab.git(&["tag", "v1", &commit]);
    assert_eq!(kept(&path, &branch, &commit), "the tag v1 has it");
    git(lab.dir.path(), &["init", "-q", "--bare", "bare.git"]);
    let bare = lab.dir.path().join("bare.git");
    lab.git(&["remote", "add", "origin", bare.to_str().unwrap()]);
    crate::remote::push(&path, "origin", &branch).unwrap();
    let pushed = format!("origin/{branch} has it: it was pushed");
    assert_eq!(kept(&path, &branch, &commit), pushed);
    lab.git(&["tag", "-d", "v1"]);
    lab.git(&["branch", "-D", "mine"]);
    assert_eq!(kept(&path, &branch, &commit), pushed);
    // A name for the own branch is nobody else, and neither is a snapshot.
    lab.git(&["update-ref", "-d", &format!("refs/remotes/origin/{branch}")]);
    lab.git(&["symbolic-ref", "refs/heads/alias", &format!("refs/heads/{branch}")]);
    lab.git(&["update-ref", "refs/segue/s/1", &commit]);
    let done = unwind(&path, &branch, &commit, &trailers()).unwrap();
    assert!(matches!(done, Unwound::Done { .. }), "{done:?}");
}

#[test]
fn a_push_that_left_no_trace_but_the_setting_counts() {
    let (lab, path, branch, commit) = with_placeholder();
    git(lab.dir.path(), &["init", "-q", "--bare", "bare.git"]);
    let bare = lab.dir.path().join("bare.git");
    lab.git(&["remote", "add", "-t", "main", "origin", bare.to_str().unwrap()]);
    crate::remote::push(&path, "origin", &branch).unwrap();
    assert_eq!(kept(&path, &branch, &commit), "it may have been pushed to origin");
}

#[test]
fn what_is_not_ours_or_not_the_tip_is_kept() {
    let (_lab, path, branch, commit) = with_placeholder();
    let not_ours = "it is not a commit of this session";
    let other = [("Segue-Session", "02K".to_owned()), ("Segue-Task", "T-003".to_owned())];
    let why = |found| Unwound::Kept { why: String::from(found) };
    assert_eq!(unwind(&path, &branch, &commit, &other).unwrap(), why(not_ours));
    assert_eq!(unwind(&path, &branch, &commit, &[]).unwrap(), why(not_ours));

    git(&path, &["commit", "-q", "--allow-empty", "-m", "mine"]);
    let tip = git(&path, &["rev-parse", "HEAD"]);
    let gone_on = format!("the branch has gone on: its tip is {}", &tip[..7]);
    assert_eq!(kept(&path, &branch, &commit), gone_on);
    assert_eq!(kept(&path, &branch, "no id"), gone_on);
    assert_eq!(kept(&path, &branch, &"0".repeat(40)), gone_on);
    assert_eq!(kept(&path, &branch, &tip), not_ours);

    git(&path, &["reset", "-q", "--soft", &commit]);
    git(&path, &["checkout", "-q", "-b", "another"]);
    assert_eq!(kept(&path, &branch, &commit), "the worktree is on another branch");
    git(&path, &["checkout", "-q", "--detach"]);
    assert_eq!(kept(&path, &branch, &commit), "the worktree is on no branch");
    git(&path, &["checkout", "-q", &branch]);
    git(&path, &["branch", "-D", "another"]);

    let message = git(&path, &["log", "-1", "--format=%B"]);
    let tree = git(&path, &["rev-parse", "HEAD^{tree}"]);
    let first = git(&path, &["commit-tree", &tree, "-m", &message]);
    git(&path, &["reset", "-q", "--soft", &first]);
    assert_eq!(kept(&path, &branch, &first), "it is the first commit of all");
    let merge = git(&path, &["commit-tree", &tree, "-p", &first, "-p", &tip, "-m", &message]);
    git(&path, &["reset", "-q", "--soft", &merge]);
    assert_eq!(kept(&path, &branch, &merge), "it is a merge");
}

#[test]
fn a_worktree_that_is_gone_is_no_panic() {
    let (lab, path, branch, commit) = with_placeholder();
    std::fs::remove_dir_all(&path).unwrap();
    let gone = Unwound::Kept { why: "the worktree is gone".to_owned() };
    assert_eq!(unwind(&path, &branch, &commit, &trailers()).unwrap(), gone);
    assert_eq!(unwind(lab.dir.path(), &branch, &commit, &trailers()).unwrap(), gone);
}
