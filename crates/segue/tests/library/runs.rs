//! Runs without anybody at work: held, paused, let go; what can't be done with them.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    sync::Arc,
};

use jiff::Timestamp;
use segue::{Agent, At, Error, How, NoStep, Reason, Run, Runs, Status, branch::With};
use segue_core::{
    Payload,
    event::{Cause, Draft, Outcome, TextWritten, TurnEnded, TurnStarted},
};
use segue_journal::{Durability, RealDisk, Session, lock::Holder, system_clock};

use crate::support::{Place, WRITER};

const HELD: &str = "SEGUE_TEST_HOME";

fn made(place: &Place) -> Run {
    place.agent(WRITER).run("Write.").wait().unwrap()
}

#[test]
fn a_run_that_is_held_is_nobody_elses() {
    let place = Place::new();
    let mut run = made(&place);
    let mut other = place.runs().load("1").unwrap();
    run.hold().unwrap();
    run.hold().unwrap();
    assert_eq!(run.status().unwrap(), Status::Running);
    let Err(Error::Busy { holder, .. }) = other.hold() else { panic!("held twice") };
    assert_eq!(holder.pid, std::process::id());
    // It can be looked at and left all the same, and what failed is as usable as before.
    assert_eq!(other.id(), run.id());
    assert_eq!(other.replay(At::Last).unwrap().steps().unwrap().len(), 5);
    drop(run);
    let after = place.runs().load("1").unwrap();
    assert_eq!(after.status().unwrap(), Status::Interrupted);
    assert_eq!(after.stopped().unwrap().message, "let go");
    other.hold().unwrap();
}

#[test]
fn pausing_marks_a_run_and_lets_go_of_it() {
    let place = Place::new();
    let mut run = made(&place);
    run.pause(place.path("checkpoint.tine")).unwrap();
    assert_eq!(run.status().unwrap(), Status::Interrupted);
    let stop = run.stopped().unwrap();
    assert_eq!((stop.reason, stop.message.as_str()), (Reason::Interrupted, "paused"));
    let mut again = place.runs().load("1").unwrap();
    again.hold().unwrap();
    again.pause(place.path("checkpoint.tine")).unwrap();
    // Nothing was executed.
    assert_eq!(again.steps().unwrap(), run.steps().unwrap());
}

#[test]
fn a_file_that_a_run_was_paused_into_is_that_run() {
    let place = Place::new();
    let mut run = made(&place);
    let id = run.id();
    let file = place.path("checkpoint.tine");
    run.pause(&file).unwrap();
    // As often as one likes: who holds it or names it changes nothing that was said or done.
    for _ in 0..2 {
        let loaded = place.runs().resume(&file).unwrap();
        assert_eq!((loaded.id(), loaded.number()), (id, Some(1)));
        assert_eq!(loaded.status().unwrap(), Status::Running);
    }
    // A vendor's run can't be gone on with elsewhere, and here it can.
    let vendor = place.here(Agent::vendor("exec:cat")).run("Write.").wait().unwrap();
    let theirs = place.path("theirs.tine");
    place.runs().load("2").unwrap().pause(&theirs).unwrap();
    assert_eq!(place.runs().resume(&theirs).unwrap().id(), vendor.id());
    let elsewhere = Runs::at(place.path("elsewhere"));
    assert!(matches!(elsewhere.resume(&theirs), Err(Error::NotResumable)));
    assert_eq!(place.runs().all().unwrap().len(), 2);
    // One that has gone on is another one by now.
    goes_on(&run);
    let loaded = place.runs().load(&file).unwrap();
    assert_ne!(loaded.id(), id);
    assert_eq!(loaded.steps().unwrap().len(), 5);
    assert_eq!(place.runs().load(&file).unwrap().id(), loaded.id());
}

/// One more turn, as somebody would have had it.
fn goes_on(run: &Run) {
    let me = Holder { pid: std::process::id(), host: "here".into(), since: Timestamp::now() };
    let session = Session::open(Arc::new(RealDisk), run.journal().dir()).unwrap();
    let (mut session, _) = session.lock(&me, system_clock()).unwrap();
    let text = Payload::inline("Go on.");
    let drafts = [
        Draft::from(TurnStarted::new(text.clone(), Cause::Person)),
        Draft::from(TextWritten { text, partial: false }),
        Draft::from(TurnEnded::with(Outcome::Finished)),
    ];
    let drafts = drafts.into_iter().map(|draft| draft.in_turn(2, "native")).collect();
    session.append_all(drafts, Durability::Synced).unwrap();
}

#[test]
fn pause_and_load_as_the_page_has_it() {
    let place = Place::new();
    let run = made(&place);
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "runs::passage", "--ignored"])
        .env("SEGUE_HOME", place.path("home"))
        .current_dir(place.path(""))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let runs = place.runs().all().unwrap();
    assert_eq!((runs.len(), runs[0].id()), (1, run.id()));
    assert_eq!(runs[0].stopped().unwrap().message, "let go");
}

#[test]
#[ignore = "the passage of the test above, which needs an environment of its own"]
fn passage() {
    let mut run = Run::load("1").unwrap();
    run.pause("checkpoint.tine").unwrap();
    let loaded = Run::resume("checkpoint.tine").unwrap();
    assert_eq!(loaded.id(), run.id());
    assert_eq!(loaded.status().unwrap(), Status::Running);
}

#[test]
fn another_process_that_holds_a_run_is_respected() {
    let place = Place::new();
    let mut run = made(&place);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "runs::holder", "--ignored", "--nocapture"])
        .env(HELD, place.path("home"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("held")));
    let Err(Error::Busy { holder, .. }) = run.hold() else { panic!("held twice") };
    assert_eq!(holder.pid, child.id());
    assert_eq!(run.status().unwrap(), Status::Running);
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    run.hold().unwrap();
}

#[test]
#[ignore = "the other process of the test above"]
fn holder() {
    let home = std::env::var_os(HELD).unwrap();
    let mut run = Runs::at(home).load("1").unwrap();
    run.hold().unwrap();
    println!("held");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn what_is_made_to_be_looked_at_is_not_resumed() {
    let place = Place::new();
    let run = made(&place);
    let like = With {
        agent: "native".into(),
        model: None,
        permission: run.permission(),
        prompt: "Look.".into(),
        workspace: place.repo(),
        worktree: false,
        caps: Default::default(),
        proof: None,
        name: None,
        sealed: true,
        segue: "test".into(),
    };
    let branch = run.leave(At::Last, How::Forked).unwrap();
    let mut sealed = run.fork_with(branch, like).unwrap();
    assert!(!sealed.manifest().unwrap().resume);
    assert!(matches!(sealed.hold(), Err(Error::NotResumable)));
    assert!(matches!(sealed.pause(place.path("x.tine")), Err(Error::NotResumable)));
    let resumed = place.agent(WRITER).resume(&sealed, At::Last, "Go on.").wait();
    assert!(matches!(resumed, Err(Error::NotResumable)));
    // It can be replayed, and what comes of it is not resumed either.
    assert!(!sealed.replay(At::Last).unwrap().manifest().unwrap().resume);
    assert_eq!(place.runs().all().unwrap().len(), 3);
}

#[test]
fn a_run_is_left_only_where_that_can_be_done() {
    let place = Place::new();
    let run = made(&place);
    // The reply with its calls, and the first of their results.
    for index in [1, 2] {
        let error = run.fork(index).unwrap_err();
        assert!(matches!(error, Error::InsideBatch { index: at } if at == index), "{error}");
        let error = run.replay(index).unwrap_err();
        assert!(matches!(error, Error::InsideBatch { .. }), "{error}");
        let error = place.agent(WRITER).resume(&run, index, "Go on.").wait().unwrap_err();
        assert!(matches!(error, Error::InsideBatch { .. }), "{error}");
    }
    let beyond = run.fork(99).unwrap_err();
    assert!(matches!(beyond, Error::NoStep(NoStep::Beyond { index: 99, last: 4 })), "{beyond}");
    let unknown = run.replay("zzzz").unwrap_err();
    assert!(matches!(unknown, Error::NoStep(NoStep::Unknown { .. })), "{unknown}");
    // Nothing came of any of it.
    assert_eq!(place.runs().all().unwrap().len(), 1);
    for word in ["0", "3", "4"] {
        run.fork(word).unwrap();
    }
}

#[test]
fn names_are_given_once() {
    let place = Place::new();
    let run = made(&place);
    run.replay_as(At::Last, Some("again")).unwrap();
    assert_eq!(place.runs().load("again").unwrap().number(), Some(2));
    for name in ["again", "12", ""] {
        let error = run.replay_as(At::Last, Some(name)).unwrap_err();
        assert!(matches!(&error, Error::Name { name: told, .. } if told == name), "{error}");
    }
    assert!(
        matches!(place.runs().load("nothing"), Err(Error::NoRun { word, .. }) if word == "nothing")
    );
    assert_eq!(place.runs().all().unwrap().len(), 2);
}

#[test]
fn a_home_is_found_as_the_program_finds_it() {
    let place = Place::new();
    let below = place.repo().join("deep/er");
    std::fs::create_dir_all(&below).unwrap();
    std::fs::create_dir_all(place.repo().join(".segue")).unwrap();
    assert_eq!(Runs::dir_for(None, &below), Some(place.repo().join(".segue")));
    let named = Runs::dir_for(Some("mine".as_ref()), &below);
    assert_eq!(named, Some(below.join("mine")));
}

#[test]
fn a_word_means_a_run_whatever_file_is_called_so() {
    let place = Place::new();
    let run = place.agent(WRITER).run("Write.").wait().unwrap();
    run.save(place.path("x.tine")).unwrap();
    let file = place.path("1");
    std::fs::rename(place.path("x.tine"), &file).unwrap();
    // Not even by a path of its own: its name does not say that a run is in it.
    assert!(matches!(place.runs().load(&file), Err(Error::NoRun { .. })));
    assert_eq!(place.runs().all().unwrap().len(), 1);
}
