//! Every example is run, as a person would run it: what it prints, and what is on the disk then.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{path::PathBuf, process::Command};

use segue::{Run, Runs, Status};
use tempfile::TempDir;

/// Where an example has played.
struct Played {
    dir: TempDir,
    printed: String,
}

/// Beside the test, wherever cargo puts what it builds.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo build -p segue --examples", path.display());
    path
}

fn play(name: &str) -> Played {
    let dir = TempDir::new().unwrap();
    let done = Command::new(program(name))
        .arg(dir.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir.path().join("user"))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .current_dir(dir.path())
        .output()
        .unwrap();
    let printed = String::from_utf8(done.stdout).unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{name}: {printed}{errors}");
    assert_eq!(errors, "", "{name}");
    Played { dir, printed }
}

impl Played {
    fn run(&self, number: u64) -> Run {
        Runs::at(self.dir.path().join("home")).load(number.to_string()).unwrap()
    }

    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(file)).unwrap()
    }

    /// Where nothing was made besides: a guardian that is no guardian would run the example again.
    fn has_runs(&self, number: usize) {
        let runs = Runs::at(self.dir.path().join("home")).all().unwrap();
        assert_eq!(runs.len(), number);
        assert!(runs.iter().all(|run| run.number().is_some()));
    }
}

#[test]
fn events() {
    let played = play("events");
    let (first, last) = (" 1 session.created\n 2 session.started\n", " session.stopped\nstep 0: ");
    assert!(played.printed.starts_with(first), "{}", played.printed);
    assert!(played.printed.contains(last), "{}", played.printed);
    assert!(played.printed.ends_with("run 1: Completed\n"), "{}", played.printed);
    // All that the journal has was told, once.
    let mut kinds = Vec::new();
    let run = played.run(1);
    run.each_event(|event| kinds.push(format!("{:>2} {}", event.seq, event.body.kind()))).unwrap();
    let told: Vec<&str> =
        played.printed.lines().filter(|line| !line.starts_with(['s', 'r'])).collect();
    assert_eq!(told, kinds);
    assert_eq!(played.text("repo/notes.md"), "It says hello.\n");
    played.has_runs(1);
}

#[test]
fn events_async() {
    let played = play("events_async");
    let lines: Vec<&str> = played.printed.lines().collect();
    assert!(lines[0].ends_with(" events, 5 steps: Completed"), "{lines:?}");
    assert_eq!(lines[1], "beside it, 5 steps: Completed");
    played.has_runs(2);
}

#[test]
fn cached_replay() {
    let played = play("cached_replay");
    assert_eq!(
        played.printed,
        "5 steps, the same ids: true\n\
         replayed 5 steps of session 1: no model and no tool was called\n\
         as recorded: true\n"
    );
    let replayed = played.run(2);
    assert_eq!(replayed.status().unwrap(), Status::Completed);
    assert_eq!(replayed.lineage().unwrap().from, played.run(1).id());
    // Nothing but that it was made, and that it is done.
    let mut own = Vec::new();
    replayed.each_event(|event| own.push(event.body.kind().to_owned())).unwrap();
    assert_eq!(own, ["session.created", "session.stopped"]);
    played.has_runs(2);
}

#[test]
fn native_resume() {
    let played = play("native_resume");
    assert_eq!(played.printed, "7 steps, 5 of them shared\nIn short: it says hello.\n");
    assert_eq!(played.run(1).steps().unwrap().len(), 5);
    assert_eq!(played.run(2).status().unwrap(), Status::Completed);
}

#[test]
fn fork() {
    let played = play("fork");
    assert_eq!(
        played.printed,
        "forked after step 3: Rewound\n\
         8 steps, 4 of them shared\n\
         elsewhere: true\n\
         in the repository: false\n"
    );
    assert_eq!(played.run(2).steps().unwrap().len(), 4);
    assert_eq!(played.run(1).status().unwrap(), Status::Completed);
}

#[test]
fn rerun() {
    let played = play("rerun");
    let lines: Vec<&str> = played.printed.lines().collect();
    assert_eq!(lines[0], "5 steps and 9");
    assert_eq!(lines[1], "0 shared, 5 differ");
    assert_eq!(lines[2], "notes.md: HELLO");
    // What was there is as it was.
    assert_eq!(played.text("repo/notes.md"), "It says hello.\n");
}

#[test]
fn continued() {
    let played = play("continued");
    let lines: Vec<&str> = played.printed.lines().collect();
    assert_eq!(lines[0], "5 shared, 0 differ");
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[2].contains("write_file"), "{lines:?}");
    let again = played.run(2);
    assert_eq!(again.status().unwrap(), Status::Completed);
    assert_eq!(again.state().usage.total(), 0, "nothing is spent");
    played.has_runs(3);
}

#[test]
fn pause_load() {
    let played = play("pause_load");
    assert_eq!(
        played.printed,
        "paused: Interrupted\nthe same run: true\nheld: Running\nmeanwhile: busy\nlet go: Interrupted\n"
    );
    let run = played.run(1);
    assert_eq!(run.stopped().unwrap().message, "let go");
    assert_eq!(run.steps().unwrap().len(), 5);
    played.has_runs(1);
}

#[test]
fn files_are_written_by_the_examples() {
    assert!(play("cached_replay").dir.path().join("finished-replay.tine").exists());
    assert!(play("native_resume").dir.path().join("resumed.tine").exists());
    assert!(play("pause_load").dir.path().join("checkpoint.tine").exists());
}

#[test]
fn load_file() {
    let played = play("load_file");
    assert_eq!(played.printed, "5 steps: Running\n");
    let elsewhere = Runs::at(played.dir.path().join("elsewhere")).all().unwrap();
    assert_eq!(elsewhere.len(), 1);
    assert_eq!(elsewhere[0].status().unwrap(), Status::Interrupted);
    assert_eq!(elsewhere[0].steps().unwrap().len(), 5);
}
