//! What git has written is on the disk before an event says so. Else a power cut could leave a task that
//! is done, and whose commit nobody has.

use std::fs;

use segue_testkit::env::Output;

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
fn first(trace: &[&str], from: usize, words: &[&str]) -> usize {
    let has = |line: &&str| words.iter().all(|word| line.contains(word));
    let at = trace.iter().skip(from).position(has);
    from + at.unwrap_or_else(|| panic!("no {words:?} after line {from} of\n{}", trace.join("\n")))
}

#[test]
fn a_commit_is_on_the_disk_before_the_journal_speaks_of_it() {
    let possible = works("strace", &["-V"]);
    if !can("a_commit_is_on_the_disk", "strace is missing", possible) {
        return;
    }
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
    let (worker, evaluator) = (model("worker.toml", WORKER), model("evaluator.toml", EVALUATOR));
    let mut command = env.any("strace");
    let calls = "trace=fsync,fdatasync,write,pwrite64,writev,rename,renameat,renameat2,link,linkat";
    command.args(["-f", "-qq", "-y", "-s", "300", "-e", calls, "-o"]).arg(env.path("trace"));
    command.arg(support::PROGRAM).args(["tasks", "run", "plan"]);
    command.args(["--worker", &worker, "--evaluator", &evaluator]);
    let output = Output::of(&mut command).expect("ran");
    assert_eq!(output.status, 0, "{}", output.stderr);

    let commit = env.git(["rev-parse", "segue/1-one"]).expect("git").stdout.trim().to_owned();
    let trace = fs::read(env.path("trace")).expect("trace");
    let trace = String::from_utf8_lossy(&trace).into_owned();
    let trace: Vec<&str> = trace.lines().collect();
    // The commit gets its name, and was synced under another one before.
    let named = first(&trace, 0, &["objects/", &commit[2..]]);
    let before = trace[named].split_once("tmp_obj_").expect("a new file").1;
    let before: String = before.chars().take_while(char::is_ascii_alphanumeric).collect();
    let synced = first(&trace, 0, &["sync(", &format!("tmp_obj_{before}")]);
    // Then the branch, then the name of the branch, and only then the journal.
    let branch = first(&trace, named, &["fsync(", "refs/heads/segue/1-one.lock"]);
    let name = first(&trace, branch, &["fsync(", "refs/heads/segue>"]);
    let journal = first(&trace, 0, &["journal.jsonl>", "work.committed"]);
    assert!(synced < named && branch < name && name < journal, "{synced} {named} {journal}");
}
