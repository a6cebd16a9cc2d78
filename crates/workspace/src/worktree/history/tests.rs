use super::super::landing::{Landing, commit_all};
use super::super::tests::with_worktree;
use super::*;
use crate::testing::git;

const OURS: (&str, &str) = ("Segue-Session", "01J");

fn land(path: &Path, branch: &str, task: &str) -> String {
    let trailers = [("Segue-Session", "01J".to_owned()), ("Segue-Task", task.to_owned())];
    let landing = Landing {
        branch,
        message: "A task\n\nSegue-Session: 01J\nSegue-Task: told-in-prose\n\nSo it was.",
        trailers: &trailers,
        since: &[],
        seen: "",
        even_if_empty: true,
    };
    commit_all(path, &landing).unwrap().commit
}

fn tasks(found: &[Mark]) -> Vec<&str> {
    let at_end = found.iter().filter(|mark| mark.at_end);
    at_end.map(|mark| mark.value("Segue-Task").unwrap()).collect()
}

#[test]
fn what_is_on_the_branch_is_found_whatever_a_person_has_done_with_it() {
    let (lab, path, branch) = with_worktree();
    let base = git(&path, &["rev-parse", "HEAD"]);
    let look = || marks(&lab.top, &branch, &base, OURS).unwrap().unwrap();
    assert_eq!(look(), []);
    let first = land(&path, &branch, "T-001");
    git(&path, &["commit", "-q", "--allow-empty", "-m", "mine\n\nSegue-Session: 01JX"]);
    land(&path, &branch, "T-002");
    let found = look();
    assert_eq!(tasks(&found), ["T-001", "T-002"]);
    assert_eq!(found.iter().find(|mark| mark.at_end).map(|mark| &mark.commit), Some(&first));
    // What stands in the text of a message is told apart.
    assert_eq!(found.iter().filter(|mark| !mark.at_end).count(), 2);

    // Rebased onto something else, which gives every commit another name.
    lab.write("theirs.txt", "t");
    lab.commit("theirs");
    git(&path, &["rebase", "-q", "main"]);
    assert_eq!(tasks(&look()), ["T-001", "T-002"]);
    assert!(look().iter().all(|mark| mark.commit != first));
    // Squashed into one: both are still named there.
    let both = git(&path, &["log", "--reverse", "--format=%B", "main..HEAD"]);
    git(&path, &["reset", "-q", "--soft", "main"]);
    git(&path, &["commit", "-q", "--allow-empty", "-m", &both]);
    let found = look();
    let has = |task: &str| found.iter().any(|mark| mark.value("Segue-Task") == Some(task));
    assert!(has("T-001") && has("T-002"), "{found:?}");
    assert_eq!(tasks(&found), ["T-002"]);
    // Taken off, and the branch itself.
    git(&path, &["reset", "-q", "--hard", &base]);
    assert_eq!(look(), []);
    assert_eq!(marks(&lab.top, "segue/none", &base, OURS).unwrap(), None);
    assert_eq!(marks(&lab.path("gone"), &branch, &base, OURS).unwrap(), None);
}

#[test]
fn a_session_that_has_forgotten_its_branch_finds_it() {
    let (lab, path, branch) = with_worktree();
    assert_eq!(trace(&lab.top, OURS).unwrap(), None);
    git(&path, &["commit", "-q", "--allow-empty", "-m", "mine\n\nSegue-Session: 01J\n\nIn prose."]);
    assert_eq!(trace(&lab.top, OURS).unwrap(), None);
    let mine = git(&path, &["rev-parse", "HEAD"]);
    land(&path, &branch, "T-001");
    let last = land(&path, &branch, "T-002");
    // Somebody has merged it, and begun another one of ours there.
    lab.git(&["merge", "-q", &branch]);
    lab.git(&["branch", &format!("{branch}-later")]);
    let found = trace(&lab.top, OURS).unwrap().unwrap();
    assert_eq!(found.branch, branch);
    assert_eq!(found.path, Some(path.canonicalize().unwrap()));
    assert_eq!(found.base, mine);
    let held = holders(&lab.top, &last).unwrap().unwrap();
    assert_eq!(held, ["main".to_owned(), branch.clone(), format!("{branch}-later")]);
    assert_eq!(holders(&lab.top, &"1".repeat(40)).unwrap(), Some(Vec::new()));
    assert_eq!(holders(&lab.path("gone"), &last).unwrap(), None);
    // Without its worktree it is the same branch.
    git(&lab.top, &["worktree", "remove", "--force", path.to_str().unwrap()]);
    assert_eq!(trace(&lab.top, OURS).unwrap().unwrap().path, None);
}

#[test]
fn what_a_branch_ends_with_is_told_from_what_it_has_before() {
    let (lab, path, branch) = with_worktree();
    let commits = ["T-001", "T-002", "T-003"].map(|task| land(&path, &branch, task));
    let [first, second, third] = commits.each_ref().map(String::as_str);
    let ends = |these: &[&str]| ending(&lab.top, &branch, these).unwrap();
    let told = |found: &[&str], before: &str| {
        (found.iter().map(|&one| one.to_owned()).collect::<Vec<_>>(), Some(before.to_owned()))
    };
    assert_eq!(ends(&[]), told(&[], third));
    assert_eq!(ends(&[first]), told(&[], third));
    assert_eq!(ends(&[first, third]), told(&[third], second));
    assert_eq!(ends(&[second, third]), told(&[third, second], first));
}
