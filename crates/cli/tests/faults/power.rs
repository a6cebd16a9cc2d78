//! What git has written is on the disk before an event says so. Else a power cut could leave a task that
//! is done, and whose commit nobody has.

use std::fs;

use segue_testkit::env::{Output, TestEnv};

use crate::support::{self, can, works};

const WORKER: &str = r#"
[[reply]]
tools = [{ name = "write_file", input = { path = "1.txt", content = "one\n" } }]
[[reply]]
tools = [{ name = "submit_case", input = { summary = "Wrote it.", criteria = [{ criterion = "it is there", met_by = "1.txt:1" }] } }]
[[reply]]
text = "That is my case."
"#;

const EVALUATOR: &str = r#"
[[reply]]
tools = [{ name = "submit_verdict", input = { verdict = "accept", summary = "good" } }]
[[reply]]
text = "Good."
"#;

const PAGE: &str =
    "---\nid: T-001\ntitle: One\n---\nWrite it.\n\n## Acceptance criteria\n- it is there\n";

/// The first line of a trace, from `from` on, that has all of these words.
fn first(trace: &[String], from: usize, words: &[&str]) -> usize {
    let has = |line: &String| words.iter().all(|word| line.contains(word));
    let at = trace.iter().skip(from).position(has);
    from + at.unwrap_or_else(|| panic!("no {words:?} after line {from} of\n{}", trace.join("\n")))
}

/// Half of it is done, and nothing is said for it.
const NO_CASE: &str = r#"
[[reply]]
tools = [{ name = "write_file", input = { path = "1.txt", content = "half\n" } }]
[[reply]]
text = "I am done, I think."
repeat = true
"#;

/// A repository with a list of one task, and the arguments to work through it.
fn list_of_one(worker: &str) -> (TestEnv, Vec<String>) {
    let env = support::env();
    for (path, text) in [("plan/overview.md", "# One\n"), ("plan/T-001-one.md", PAGE)] {
        env.write(path, text).expect("written");
    }
    for args in [&["init", "-q", "-b", "main"][..], &["add", "."], &["commit", "-qm", "base"]] {
        assert_eq!(env.git(args).expect("git").status, 0);
    }
    fs::create_dir_all(env.home()).expect("home");
    let model = |name: &str, script: &str| {
        fs::write(env.path(name), script).expect("script");
        format!("native@script:{}", env.path(name).display())
    };
    let (worker, evaluator) = (model("worker.toml", worker), model("evaluator.toml", EVALUATOR));
    let args = ["tasks", "run", "plan", "--worker", &worker, "--evaluator", &evaluator];
    (env, args.map(str::to_owned).into())
}

/// Everything that Segue and its gits write and sync with these arguments, line by line.
fn traced(env: &TestEnv, args: &[String], status: i32) -> Vec<String> {
    let mut command = env.any("strace");
    let calls = "trace=fsync,fdatasync,write,pwrite64,writev,rename,renameat,renameat2,link,linkat";
    command.args(["-f", "-qq", "-y", "-s", "300", "-e", calls, "-o"]).arg(env.path("trace"));
    let output = Output::of(command.arg(support::PROGRAM).args(args)).expect("ran");
    assert_eq!(output.status, status, "{}", output.stderr);
    let trace = fs::read(env.path("trace")).expect("trace");
    String::from_utf8_lossy(&trace).lines().map(str::to_owned).collect()
}

/// Where an object gets its name. It was synced under another one before, by itself or, as git does it
/// with several, by one sync for all that are in a directory of their own.
fn object(trace: &[String], id: &str) -> usize {
    let named = first(trace, 0, &[&format!(".git/objects/{}/{}", &id[..2], &id[2..])]);
    let word = |start: &str| {
        let (_, rest) = trace[named].split_once(start)?;
        let end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        Some(format!("{start}{}", rest.split(end).next()?))
    };
    let synced = match word("tmp_objdir-bulk-fsync-") {
        Some(several) => format!("{several}/bulk_fsync"),
        None => word("tmp_obj_").expect("a new file"),
    };
    let synced = first(trace, 0, &["sync(", &synced]);
    assert!(synced < named, "{id}: {synced} {named}");
    named
}

/// Where the branch and its name are on the disk, from a line on.
fn branch(trace: &[String], from: usize) -> usize {
    let branch = first(trace, from, &["fsync(", "refs/heads/segue/1-one.lock"]);
    first(trace, branch, &["fsync(", "refs/heads/segue>"])
}

fn is_traceable(what: &str) -> bool {
    can(what, "strace is missing", works("strace", &["-V"]))
}

#[test]
fn a_commit_is_on_the_disk_before_the_journal_speaks_of_it() {
    if !is_traceable("a_commit_is_on_the_disk") {
        return;
    }
    let (env, args) = list_of_one(WORKER);
    let trace = traced(&env, &args, 0);
    let id = |what: &str| env.git(["rev-parse", what]).expect("git").stdout.trim().to_owned();
    // The commit and everything in it, then the branch, and only then the journal.
    let file = object(&trace, &id("segue/1-one:1.txt"));
    let tree = object(&trace, &id("segue/1-one^{tree}"));
    let commit = object(&trace, &id("segue/1-one"));
    let name = branch(&trace, commit);
    let journal = first(&trace, 0, &["journal.jsonl>", "work.committed"]);
    assert!(file.max(tree).max(name) < journal, "{file} {tree} {name} {journal}");
}

#[test]
fn a_placeholder_is_off_the_disk_before_the_journal_speaks_of_it() {
    if !is_traceable("a_placeholder_is_off_the_disk") {
        return;
    }
    let (env, args) = list_of_one(NO_CASE);
    let output = Output::of(&mut env.command(args)).expect("ran");
    assert_eq!(output.status, 3, "{}", output.stderr);
    let trace = traced(&env, &["resume".to_owned(), "1".to_owned()], 3);
    let name = branch(&trace, 0);
    let journal = first(&trace, 0, &["journal.jsonl>", "task.started"]);
    assert!(name < journal, "{name} {journal}");
}
