//! Lists of tasks: files that are cut, emptied, broken by hand or gone.

use std::{fs, path::Path};

use segue_testkit::env::{Output, TestEnv};

use crate::support::{
    data, files_below, git, journal_bytes, json as parsed, scripted_in_git, segue,
};
use crate::task_runs::{ACCEPT, FIRST, commits, list, model, never, run, status, work};

/// Two tasks. What is read of them is too long for a line.
fn long_list() -> TestEnv {
    let env = list(2);
    let overview = format!("# Numbers\n\n{}\n", "One file for each number. ".repeat(300));
    env.write("plan/overview.md", &overview).unwrap();
    env
}

/// The first task is done, the second has failed.
fn failed_second() -> TestEnv {
    let env = long_list();
    let worker = work(1, "one") + &work(2, "draft") + &work(2, "draft again");
    assert_eq!(run(&env, &worker, &(never() + ACCEPT), &["--max-iterations", "2"]).status, 3);
    env
}

/// The same by a program, whose every word is kept in a file of its own.
fn failed_second_by_a_program() -> TestEnv {
    let env = long_list();
    let script = "cat > /dev/null\nn=1; test ! -e 1.txt || n=2\necho text > $n.txt\ncat <<'EOF'\n\
                  ```segue\n{\"summary\":\"Wrote it.\",\"criteria\":[{\"criterion\":\"it is there\",\
                  \"met_by\":\"its first line\"}]}\n```\nEOF\n";
    fs::write(env.path("worker.sh"), script).unwrap();
    let worker = format!("exec:sh {}", env.path("worker.sh").display());
    let evaluator = model(&env, "evaluator", &(never() + ACCEPT));
    let who = ["--worker", &worker, "--evaluator", &evaluator, "--max-iterations", "2"];
    let args: Vec<&str> = ["tasks", "run", "plan"].iter().chain(&who).copied().collect();
    let output = segue(&env, &args);
    assert_eq!(output.status, 3, "{}", output.stderr);
    env
}

/// A copy of everything that a session has, to begin with again and again.
struct Kept<'a>(&'a TestEnv);

const PLACES: [&str; 3] = ["home", "repo", "repo-segue-1"];

impl<'a> Kept<'a> {
    fn of(env: &'a TestEnv) -> Self {
        let kept = Self(env);
        fs::create_dir(env.path("kept")).unwrap();
        PLACES.iter().for_each(|name| kept.copy(name, &format!("kept/{name}")));
        kept
    }

    fn copy(&self, from: &str, to: &str) {
        let (from, to) = (self.0.path(from), self.0.path(to));
        if to.exists() {
            fs::remove_dir_all(&to).unwrap();
        }
        let mut command = self.0.any("cp");
        command.current_dir(self.0.path("")).arg("-a").args([from, to]);
        let output = Output::of(&mut command).unwrap();
        assert_eq!(output.status, 0, "{}", output.stderr);
    }

    fn bring_back(&self) {
        PLACES.iter().for_each(|name| self.copy(&format!("kept/{name}"), name));
    }
}

const WAYS: [&str; 4] = ["cut", "emptied", "overwritten", "removed"];

fn spoil(path: &Path, way: &str) {
    let bytes = fs::read(path).unwrap();
    match way {
        "cut" => fs::write(path, &bytes[..bytes.len() / 2]).unwrap(),
        "emptied" => fs::write(path, "").unwrap(),
        "overwritten" => fs::write(path, "{\"no\": \"such thing\"}\n").unwrap(),
        _ => fs::remove_file(path).unwrap(),
    }
}

#[test]
fn every_file_of_the_directory_may_be_broken() {
    let env = failed_second_by_a_program();
    let dir = env.session_dir(1).unwrap();
    let whole = status(&env)["tasks"].clone();
    let spent = status(&env)["tokens"].as_u64().unwrap();
    let refs = git(&env, &["for-each-ref"]);
    let kept = Kept::of(&env);
    let files: Vec<_> = files_below(&dir);
    let names: Vec<String> =
        files.iter().map(|path| path.strip_prefix(&dir).unwrap().display().to_string()).collect();
    let all = ["journal.jsonl", "session.json", "blobs/", "ledger/T-002.jsonl", "reviewers/"];
    for part in all.into_iter().chain(["streams/"]) {
        assert!(names.iter().any(|name| name.starts_with(part)), "{part} is missing in {names:?}");
    }
    let (mut mended, mut refused) = (0, Vec::new());
    for (at, (path, name)) in files.iter().zip(&names).enumerate() {
        let truth = name.ends_with("journal.jsonl") || name.ends_with("session.json");
        for way in WAYS {
            let what = format!("{name}, {way}");
            let bytes = fs::read(path).unwrap();
            spoil(path, way);
            let look = segue(&env, &["tasks", "status", "1", "--json"]);
            match look.status {
                0 => assert_eq!(parsed(&look.stdout)["tasks"], whole, "{what}"),
                _ => assert_eq!(name, "journal.jsonl", "{what}: {}", look.stderr),
            }
            // Everything is looked at in every way, and gone on with in one of them; what the rest
            // follows from, in all.
            if !truth && way != WAYS[at % 4] {
                fs::write(path, bytes).unwrap();
                continue;
            }
            let output = segue(&env, &["resume", "1"]);
            if output.status == 0 {
                assert_eq!(commits(&env), [FIRST, "T-002: Number 2"], "{what}");
                // What a reviewer spent before is not forgotten with its session.
                if name.starts_with("reviewers/") && truth {
                    assert!(status(&env)["tokens"].as_u64().unwrap() > spent, "{what}");
                }
                mended += 1;
            } else {
                assert_eq!(git(&env, &["for-each-ref"]), refs, "{what}: {}", output.stderr);
                let place = name.rsplit('/').next().unwrap();
                assert!(output.stderr.contains(place), "{what}: {}", output.stderr);
                refused.push(what);
            }
            kept.bring_back();
        }
    }
    // Only the journal itself, and the packet that a person may have edited, are for a person to decide.
    let theirs =
        |what: &&String| !what.starts_with("journal.jsonl") && !what.starts_with("resume.json");
    assert_eq!(refused.iter().filter(theirs).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(mended >= names.len(), "{mended} of {names:?}");
}

#[test]
fn a_damaged_session_is_never_all_pending_and_nothing_is_started_beside_it() {
    let env = failed_second();
    let dir = env.session_dir(1).unwrap();
    let kept = Kept::of(&env);
    let journal = dir.join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let first = format!("X{text}");
    let read = lines.iter().position(|line| line.contains("\"tasks.read\"")).unwrap();
    for (what, bytes, snapshot) in [
        ("cut after the list was read", Some(lines[..=read].concat()), true),
        ("cut after it was made", Some(lines[0].to_owned()), true),
        ("empty", Some(String::new()), true),
        ("empty, without a snapshot", Some(String::new()), false),
        ("its first line is broken", Some(first), false),
        ("gone", None, true),
    ] {
        kept.bring_back();
        match bytes {
            Some(bytes) => fs::write(&journal, bytes).unwrap(),
            None => fs::remove_file(&journal).unwrap(),
        }
        if !snapshot {
            fs::remove_file(dir.join("state.json")).unwrap();
        }
        for command in
            [&["tasks", "status", "1"][..], &["tasks", "status", "plan"], &["tasks", "status"]]
        {
            let output = segue(&env, command);
            assert_eq!(
                (output.status, output.stdout.as_str()),
                (1, ""),
                "{what}: {}",
                output.stderr
            );
            // What begins with nothing certain can't be cut back to it.
            let certain = what.starts_with("cut");
            assert_eq!(output.stderr.contains("--repair"), certain, "{what}: {}", output.stderr);
            let told = output.stderr.contains("line ") || output.stderr.contains("is missing");
            assert!(told && output.stderr.contains("journal.jsonl"), "{what}: {}", output.stderr);
        }
        if !what.starts_with("cut") {
            for command in [&["verify", "1"][..], &["verify", "1", "--repair"], &["resume", "1"]] {
                let output = segue(&env, command);
                assert_eq!(output.status, 1, "{what}: {}", output.stderr);
                let hints =
                    output.stderr.contains("--repair") || output.stderr.contains("<session>");
                assert!(!hints, "{what}: {}", output.stderr);
            }
        }
        for command in [["tasks", "push", "1"], ["tasks", "pr", "1"]] {
            assert_eq!(segue(&env, &command).status, 1, "{what}");
        }
        for command in [["tasks", "run", "plan"], ["tasks", "prep", "plan"]] {
            let output = segue(&env, &command);
            assert_eq!(output.status, 2, "{what}: {}", output.stderr);
            let said = &output.stderr;
            assert!(said.contains("session 1 of this list is damaged"), "{what}: {said}");
            assert!(said.contains("--new") && !said.contains("segue rm"), "{what}: {said}");
            assert_eq!(said.contains("--repair"), what.starts_with("cut"), "{what}: {said}");
        }
        let listed = parsed(&segue(&env, &["list", "--json"]).stdout);
        let rows = listed.as_array().or_else(|| listed["sessions"].as_array()).unwrap();
        assert_eq!(rows.len(), 1, "{what}: {listed}");
        assert_eq!(rows[0]["status"], "unknown", "{what}: {listed}");
        assert!(rows[0]["problem"].as_str().unwrap().contains("journal.jsonl"), "{what}: {listed}");
        let shown = segue(&env, &["show", "1"]);
        let healthy = shown.stdout.contains("prepared") || shown.stdout.contains("completed");
        assert!(!healthy, "{what}: {}", shown.stdout);
    }
    // Whoever wants another one says so, and is not asked again.
    assert_eq!(segue(&env, &["tasks", "prep", "plan", "--new"]).status, 0);
    let output = segue(&env, &["tasks", "prep", "plan"]);
    assert!(output.stderr.contains("session 2 is prepared"), "{}", output.stderr);
}

#[test]
fn a_list_has_one_name() {
    let (env, _) = scripted_in_git("");
    let list =
        r#"[{"id": "T-001", "title": "One", "description": "d", "acceptance_criteria": ["c"]}]"#;
    env.write("pd/prd.json", list).unwrap();
    git(&env, &["add", "."]);
    git(&env, &["commit", "-q", "-m", "plan"]);
    assert_eq!(segue(&env, &["tasks", "prep", "pd"]).status, 0);
    for name in ["pd", "pd/", "pd/prd.json", "./pd/../pd/prd.json"] {
        let output = segue(&env, &["tasks", "prep", name]);
        assert_eq!(output.status, 2, "{name}: {}", output.stderr);
        assert!(output.stderr.contains("session 1 is prepared"), "{name}: {}", output.stderr);
        assert_eq!(segue(&env, &["tasks", "status", name]).status, 0, "{name}");
    }
}

#[test]
fn the_text_of_the_list_is_written_again_where_it_is_the_same() {
    let env = failed_second();
    let dir = env.session_dir(1).unwrap();
    let read = data(&env, 1, "tasks.read");
    let hash = read[0]["list"]["blob"].as_str().unwrap();
    let blob = dir.join("blobs").join(&hash[..2]).join(&hash[2..]);
    spoil(&blob, "cut");
    let output = segue(&env, &["verify", "1"]);
    assert_eq!(output.status, 1, "{}", output.stdout);
    assert!(output.stdout.contains("the text of the list"), "{}", output.stdout);
    assert!(!output.stderr.contains("--repair"), "{}", output.stderr);
    let output = segue(&env, &["verify", "1", "--repair"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("written again from where it was read"), "{}", output.stderr);
    assert!(!output.stderr.contains("nothing to repair"), "{}", output.stderr);
    // Where the list is gone too, nothing can be done, and nothing is.
    spoil(&blob, "emptied");
    fs::rename(env.repo().join("plan"), env.repo().join("moved")).unwrap();
    let before = (journal_bytes(&env, 1), git(&env, &["for-each-ref"]));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 1, "{}", output.stderr);
    assert!(output.stderr.contains(hash), "{}", output.stderr);
    assert_eq!((journal_bytes(&env, 1), git(&env, &["for-each-ref"])), before);
}
