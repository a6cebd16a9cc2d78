use super::*;
use crate::testing::{Lab, fingerprint, git, open, write};

pub(super) fn with_worktree() -> (Lab, PathBuf, String) {
    let lab = Lab::new();
    let path = default_path(&lab.path("src"), 3).unwrap();
    let branch = branch_name(&lab.top, 3, "Fix the parser, please!").unwrap();
    add(&lab.top, &path, &branch, "HEAD").unwrap();
    (lab, path, branch)
}

#[test]
fn names_are_plain_short_and_unique() {
    let (lab, path, branch) = with_worktree();
    assert_eq!(branch, "segue/3-fix-the-parser-please");
    assert_eq!(path, lab.top.with_file_name("work-segue-3"));
    assert_eq!(default_path(&path, 3).unwrap(), lab.top.with_file_name("work-segue-3-2"));
    let again = branch_name(&path, 3, "fix THE parser -- please").unwrap();
    assert_eq!(again, "segue/3-fix-the-parser-please-2");
    assert_eq!(branch_name(&lab.top, 4, "äöü").unwrap(), "segue/4");
    // One of several under one name; `b` is below it, so it is taken too.
    git(&lab.top, &["branch", "crew/Coder"]);
    git(&lab.top, &["branch", "crew/tester/b"]);
    for (name, free) in
        [("crew/coder", "crew/coder-2"), ("crew/tester", "crew/tester-2"), ("crew/a", "crew/a")]
    {
        assert_eq!(free_branch(&path, name).unwrap(), free);
    }
    assert_eq!(path_of(&path, 3, "coder").unwrap(), lab.top.with_file_name("work-segue-3-coder"));
    std::fs::create_dir(lab.top.with_file_name("work-segue-3-coder")).unwrap();
    assert!(path_of(&path, 3, "coder").unwrap().ends_with("work-segue-3-coder-2"));
    let long = slug("one two three four five six seven eight nine ten");
    assert_eq!(long, "one-two-three-four-five-six-seven-eight");
    assert_eq!(slug(&"x".repeat(90)).len(), 40);
    assert!(matches!(add(&lab.top, &path, "b", "HEAD"), Err(WorktreeError::Taken(_))));
}

#[test]
fn a_worktree_is_entered_again_or_known_to_be_gone() {
    let (lab, path, branch) = with_worktree();
    assert_eq!(reenter(&path, &branch).unwrap(), Presence::There);
    git(&path, &["checkout", "-q", "--detach"]);
    assert_eq!(reenter(&path, &branch).unwrap(), Presence::Elsewhere(None));
    std::fs::remove_dir_all(&path).unwrap();
    assert_eq!(reenter(&path, &branch).unwrap(), Presence::Gone);
    assert_eq!(reenter(&lab.path("src"), "main").unwrap(), Presence::Gone);
}

#[test]
fn a_worktree_that_is_gone_is_rebuilt_from_its_last_snapshot_with_or_without_its_branch() {
    for branch_too in [false, true] {
        let (lab, path, branch) = with_worktree();
        write(&path.join("committed"), "c");
        git(&path, &["add", "-A"]);
        git(&path, &["commit", "-q", "-m", "work"]);
        write(&path.join("not committed"), "n");
        std::fs::create_dir(path.join("empty")).unwrap();
        let tree = fingerprint(&path);
        let head = git(&path, &["rev-parse", "HEAD"]);
        let taken = open(&path).take("refs/segue/s/1", "").unwrap();
        // Another one that is away for now keeps its registration.
        let other = lab.dir.path().join("other");
        add(&lab.top, &other, "other", "HEAD").unwrap();
        std::fs::remove_dir_all(&other).unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        if branch_too {
            lab.git(&["update-ref", "-d", &format!("refs/heads/{branch}")]);
        }
        let base = Some("main");
        rebuild(&lab.top, &path, &branch, base, Some(&taken.commit), "k", "refs/segue/s/r")
            .unwrap();
        assert_eq!(fingerprint(&path), tree);
        assert_eq!(git(&path, &["rev-parse", "HEAD"]), head);
        assert_eq!(reenter(&path, &branch).unwrap(), Presence::There);
        assert!(lab.git(&["worktree", "list"]).contains("other"));
        let again = rebuild(&lab.top, &path, &branch, base, None, "k", "refs/segue/s/r");
        assert!(matches!(again, Err(WorktreeError::Taken(_))));
    }
}

#[test]
fn what_exists_nowhere_else_is_named_and_not_removed() {
    let (lab, path, branch) = with_worktree();
    assert!(holds(&lab.top, &path, &branch).unwrap().is_empty());
    write(&path.join("new ü"), "n");
    let holding = holds(&lab.top, &path, &branch).unwrap();
    assert_eq!(holding.files, [Path::new("new ü")]);
    let refused = remove(&lab.top, &path, &branch, false);
    assert!(matches!(refused, Err(WorktreeError::WouldLose { .. })));
    git(&path, &["add", "-A"]);
    git(&path, &["commit", "-q", "-m", "work"]);
    let holding = holds(&lab.top, &path, &branch).unwrap();
    assert_eq!(holding.commits, [git(&path, &["rev-parse", "HEAD"])]);
    assert!(remove(&lab.top, &path, &branch, false).is_err());
    assert!(path.exists());
    // A name that begins like it does not count as it.
    lab.git(&["branch", "segue/3", &branch]);
    assert!(holds(&lab.top, &path, &branch).unwrap().is_empty());
    remove(&lab.top, &path, &branch, false).unwrap();
    assert!(!path.exists());
    assert_eq!(lab.git(&["branch", "--list", &branch]), "");
}

#[test]
fn commits_without_a_branch_and_a_branch_without_a_worktree_count_too() {
    let (lab, path, branch) = with_worktree();
    git(&path, &["checkout", "-q", "--detach"]);
    write(&path.join("x"), "x");
    git(&path, &["add", "-A"]);
    git(&path, &["commit", "-q", "-m", "nowhere"]);
    assert_eq!(holds(&lab.top, &path, &branch).unwrap().commits.len(), 1);
    assert!(remove(&lab.top, &path, &branch, true).is_err());
    git(&path, &["checkout", "-q", "-B", &branch]);
    std::fs::remove_dir_all(&path).unwrap();
    assert_eq!(holds(&lab.top, &path, &branch).unwrap().commits.len(), 1);
    assert!(remove(&lab.top, &path, &branch, false).is_err());
    remove(&lab.top, &path, &branch, true).unwrap();
    assert_eq!(lab.git(&["branch", "--list", "segue/*"]), "");
    assert!(!lab.git(&["worktree", "list"]).contains("work-segue-3"));
}
