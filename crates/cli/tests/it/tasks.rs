//! `segue tasks`: a list is written, read and checked.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
};

use insta::assert_snapshot;
use segue_testkit::env::{Output, TestEnv};
use serde_json::json as value;

use crate::support::{at_width, env, files_below, json, segue, shown};

const PAGE: &str = "---\nid: T-1\ntitle: A\n---\nWhy\n\n## Acceptance criteria\n- a\n- b\n";
const TASK: &str = r#"{"id": "T-1", "title": "A", "acceptance_criteria": ["a", "b"]}"#;

/// A list of one task in `plan`.
fn planned() -> TestEnv {
    let env = env();
    env.write("plan/overview.md", "All\n").unwrap();
    env.write("plan/T-1-a.md", PAGE).unwrap();
    env
}

fn refused(env: &TestEnv, args: &[&str], why: &[&str]) {
    let output = segue(env, args);
    assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{args:?}: {}", output.stderr);
    for why in why {
        assert!(output.stderr.contains(why), "{args:?}: {} has no {why}", output.stderr);
    }
}

#[test]
fn a_new_list_can_be_checked_at_once() {
    let env = env();
    assert_snapshot!(shown(&env, &["tasks", "new", "doc/plan"]), @"
    status 0
    ── stdout
    doc/plan/overview.md
    doc/plan/T-001-find-notes.md
    doc/plan/T-002-show-where.md
    ── stderr
    write your own tasks into them, then:
    segue tasks check doc/plan
    ");
    assert_snapshot!(at_width(&env, 60, &["tasks", "check", "doc/plan"]), @"
    status 0
    ── stdout
    TASK   TITLE                                    CRITERIA
    T-001  Find the notes that have a word in them  3
    T-002  Show the line that was found             3
    ── stderr
    2 tasks, 6 acceptance criteria: nothing is wrong
    ");
    assert_snapshot!(at_width(&env, 40, &["tasks", "check", "doc/plan/"]), @"
    status 0
    ── stdout
    TASK   TITLE                    CRITERIA
    T-001  Find the notes that ha…  3
    T-002  Show the line that was…  3
    ── stderr
    2 tasks, 6 acceptance criteria: nothing is wrong
    ");
    assert!(!env.home().exists());
}

#[test]
fn what_is_there_is_never_written_over() {
    let env = planned();
    let before = fs::read_to_string(env.repo().join("plan/T-1-a.md")).unwrap();
    assert_snapshot!(shown(&env, &["tasks", "new", "plan"]), @"
    status 2
    ── stdout
    ── stderr
    error: there is a list already: plan/overview.md, plan/T-1-a.md
      hint: check it: segue tasks check plan
    ");
    assert_eq!(fs::read_to_string(env.repo().join("plan/T-1-a.md")).unwrap(), before);
    assert_eq!(files_below(&env.repo()).len(), 2);
    for name in ["overview.md", "T-001-find-notes.md", "T-7.md", "prd.json"] {
        env.write(&format!("{name}.d/{name}"), "mine").unwrap();
        let dir = format!("{name}.d");
        refused(&env, &["tasks", "new", &dir], &[&format!("{dir}/{name}")]);
        assert_eq!(files_below(&env.repo().join(&dir)).len(), 1);
    }
    for n in 10..20 {
        env.write(&format!("plan/T-{n}.md"), "mine").unwrap();
    }
    refused(&env, &["tasks", "new", "plan"], &["plan/T-11.md and 8 more\n"]);
    // Other files are in nobody's way.
    env.write("other/README.md", "mine").unwrap();
    assert_eq!(segue(&env, &["tasks", "new", "other"]).status, 0);
    assert_eq!(files_below(&env.repo().join("other")).len(), 4);
    let output = segue(&env, &["tasks", "new", "other/README.md"]);
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("other/README.md: File exists"), "{}", output.stderr);
}

#[test]
fn everything_wrong_is_told_with_file_and_line() {
    let env = env();
    env.write("plan/overview.md", "\n").unwrap();
    env.write("plan/T-001-a.md", PAGE).unwrap();
    env.write("plan/T-002-b.md", "---\nid: T-1\n---\n## Acceptance criteria\n").unwrap();
    env.write("plan/T-003.md", "Do it\u{1b}[2J\n").unwrap();
    env.write("plan/T-004.md", "---\nid: T-\u{1b}[2J\ntitle: A\n---\n## Acceptance criteria\n- a")
        .unwrap();
    env.write("plan/T-5a.md", &PAGE.replace("T-1", "T-5")).unwrap();
    env.write("plan/notes.md", "passed over").unwrap();
    assert_snapshot!(shown(&env, &["tasks", "check", "plan"]), @r"
    status 2
    ── stdout
    ── stderr
    error: plan: 9 mistakes in the list of tasks
    plan/overview.md:1: it is empty: it says what all tasks have in common
    plan/T-002-b.md:1: the front matter has no `title`
    plan/T-002-b.md:2: the id T-1 does not fit the number in the file's name
    plan/T-002-b.md:2: T-1 is also the id of T-001-a.md
    plan/T-002-b.md:4: no acceptance criteria in this section: a bullet for each
    plan/T-003.md:1: no front matter: `---`, `id: T-001`, `title: …` and `---`, a line each
    plan/T-003.md:1: no section `## Acceptance criteria` with a bullet for each
    plan/T-004.md:2: `T-\u{1b}[2J` is no id: T- and digits, such as T-001
    plan/T-5a.md: no name for a task's page: T- and digits, then perhaps - and words, then .md
      hint: once mended, check it again: segue tasks check plan
    ");
    let output = segue(&env, &["tasks", "check", "plan", "--json"]);
    assert_eq!((output.status, output.stdout.as_str()), (2, ""));
    let error = &json(&output.stderr)["error"];
    assert_eq!(error["status"], 2);
    let problems = error["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 9);
    let first = value!({
        "file": "plan/overview.md", "line": 1,
        "what": "it is empty: it says what all tasks have in common",
    });
    assert_eq!(problems[0], first);
    assert_eq!(problems[8]["line"], value!(null));
}

#[test]
fn a_prd_is_a_list_too() {
    let env = env();
    let other = TASK.replace("T-1", "T-02").replace("\"A\"", "\"B\"");
    env.write("plan/prd.json", &format!("[\n{other},\n{TASK}\n]\n")).unwrap();
    let expected = shown(&env, &["tasks", "check", "plan"]);
    assert_snapshot!(expected, @"
    status 0
    ── stdout
    TASK  TITLE  CRITERIA
    T-1   A      2
    T-02  B      2
    ── stderr
    2 tasks, 4 acceptance criteria: nothing is wrong
    ");
    assert_eq!(shown(&env, &["tasks", "check", "plan/prd.json"]), expected);
    env.write("mine.json", &format!("[\n{TASK},\n\n{TASK}]")).unwrap();
    assert_snapshot!(shown(&env, &["tasks", "check", "mine.json"]), @"
    status 2
    ── stdout
    ── stderr
    error: mine.json: 1 mistake in the list of tasks
    mine.json:4: T-1 is also the id of the task on line 2
      hint: once mended, check it again: segue tasks check mine.json
    ");
    env.write("mine.json", "[\n{,}]").unwrap();
    refused(&env, &["tasks", "check", "mine.json"], &["\nmine.json:2: key must be a string\n"]);
}

#[test]
fn json_says_what_the_table_does_not() {
    let env = planned();
    let output = segue(&env, &["tasks", "check", "plan", "--json"]);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
    let list = json(&output.stdout);
    let digest = list["tasks"][0]["digest"].as_str().unwrap();
    assert_eq!(digest.len(), 16);
    let task = value!({
        "id": "T-1", "title": "A", "description": "Why", "criteria": ["a", "b"], "digest": digest,
    });
    assert_eq!(list, value!({ "overview": "All", "tasks": [task] }));
    // What was printed is a list itself.
    env.write("again/prd.json", &output.stdout).unwrap();
    assert_eq!(segue(&env, &["tasks", "check", "again", "--json"]).stdout, output.stdout);

    let new = segue(&env, &["tasks", "new", "new", "--json"]);
    assert_eq!((new.status, new.stderr.as_str()), (0, ""));
    assert_eq!(json(&new.stdout)["wrote"][1], "new/T-001-find-notes.md");
    assert_eq!(json(&new.stdout)["next"], "segue tasks check new");
    let again = segue(&env, &["tasks", "new", "new", "--json"]);
    assert_eq!((again.status, again.stdout.as_str()), (2, ""));
    assert_eq!(json(&again.stderr)["error"]["problems"], value!(null));
}

#[test]
fn where_there_is_no_list() {
    let env = planned();
    assert_snapshot!(shown(&env, &["tasks", "check", "nowhere"]), @"
    status 2
    ── stdout
    ── stderr
    error: nowhere: No such file or directory (os error 2)
      hint: a template to begin with: segue tasks new nowhere
    ");
    env.write("empty/README.md", "").unwrap();
    assert_snapshot!(shown(&env, &["tasks", "check", "empty"]), @"
    status 2
    ── stdout
    ── stderr
    error: empty: there is no list of tasks here
      hint: a template to begin with: segue tasks new empty
    ");
    assert_snapshot!(shown(&env, &["tasks", "check", "plan/T-1-a.md"]), @"
    status 2
    ── stdout
    ── stderr
    error: plan/T-1-a.md: neither a directory nor a prd.json
      hint: name the directory: segue tasks check plan
    ");
    refused(&env, &["tasks", "check", "prd.json"], &["prd.json: No such", "segue tasks new .\n"]);
    env.write("plan/prd.json", &format!("[{TASK}]")).unwrap();
    assert_snapshot!(shown(&env, &["tasks", "check", "plan"]), @"
    status 2
    ── stdout
    ── stderr
    error: two lists in one directory: plan/prd.json and plan/overview.md
      hint: keep one of them, and move the other elsewhere
    ");
    assert_eq!(segue(&env, &["tasks", "check", "plan/prd.json"]).status, 0);
    assert_eq!(segue(&env, &["tasks"]).status, 2);
}

#[test]
fn what_is_no_page_on_the_disk() {
    let env = planned();
    let plan = env.repo().join("plan");
    env.write("elsewhere.md", &PAGE.replace("T-1", "T-2")).unwrap();
    symlink("../elsewhere.md", plan.join("T-2.md")).unwrap();
    assert_eq!(segue(&env, &["tasks", "check", "plan"]).status, 0);

    symlink("nowhere.md", plan.join("T-3.md")).unwrap();
    fs::create_dir(plan.join("T-4.md")).unwrap();
    let pipe = plan.join("T-5.md");
    assert_eq!(Output::of(env.any("mkfifo").arg(&pipe)).unwrap().status, 0);
    fs::write(plan.join("T-6.md"), b"---\nid: T-\xff\n").unwrap();
    fs::write(plan.join("T-7.md"), vec![b'x'; (1 << 20) + 1]).unwrap();
    fs::write(plan.join(std::ffi::OsStr::from_bytes(b"T-8-\xff.md")), b"\xff").unwrap();
    assert_snapshot!(shown(&env, &["tasks", "check", "plan"]), @"
    status 2
    ── stdout
    ── stderr
    error: plan: 6 mistakes in the list of tasks
    plan/T-3.md: No such file or directory (os error 2)
    plan/T-4.md: not a file
    plan/T-5.md: not a file
    plan/T-6.md:2: not UTF-8
    plan/T-7.md: larger than 1 MiB
    plan/T-8-�.md:1: not UTF-8
      hint: once mended, check it again: segue tasks check plan
    ");
}

#[test]
fn a_list_has_its_bounds() {
    let env = env();
    let tasks = |count: usize| {
        let one = |n: usize| TASK.replace("T-1", &format!("T-{n}"));
        let short = |text: String| text.replace("acceptance_criteria", "criteria");
        format!("[{}]", (0..count).map(one).map(short).collect::<Vec<_>>().join(",\n"))
    };
    env.write("prd.json", &tasks(10_000)).unwrap();
    assert_eq!(segue(&env, &["tasks", "check", "prd.json"]).status, 0);
    env.write("prd.json", &tasks(10_001)).unwrap();
    refused(&env, &["tasks", "check", "prd.json"], &["prd.json: 10001 tasks; a list has at most"]);
    let page = PAGE.replace("Why", &"x".repeat((1 << 20) - PAGE.len() + 3));
    assert_eq!(page.len(), 1 << 20);
    env.write("plan/overview.md", "All").unwrap();
    env.write("plan/T-1.md", &page).unwrap();
    assert_eq!(segue(&env, &["tasks", "check", "plan"]).status, 0);
    for n in 1..=10_001 {
        fs::write(env.repo().join(format!("plan/T-{n}.md")), "").unwrap();
    }
    refused(&env, &["tasks", "check", "plan"], &["plan: 10001 tasks; a list has at most 10000"]);
}
