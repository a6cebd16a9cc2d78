//! Runs that are left at a step: after a rewind, and where nobody has kept the files.

use segue::{At, Mode, Run};
use segue_core::{
    Payload,
    event::{
        Cause, Draft, Outcome, RewindFinished, RewindStarted, TextWritten, TurnEnded, TurnStarted,
    },
};
use segue_journal::{Durability, LockedSession, Session, lock::Holder, system_clock};
use segue_testkit::model_server::{ModelServer, Scenario};

use crate::{
    replay::{asked, behind},
    support::{Place, WRITER},
};

fn locked(run: &Run) -> LockedSession {
    let disk = run.runs().home().disk().clone();
    let me = Holder { pid: 1, host: "here".into(), since: jiff::Timestamp::now() };
    let session = Session::open(disk, run.journal().dir()).unwrap();
    session.lock(&me, system_clock()).unwrap().0
}

/// One turn more, and the conversation goes back to the end of the first.
fn one_more_and_back(run: &Run) {
    let mut session = locked(run);
    let drafts = [
        Draft::from(TurnStarted::new(Payload::inline("More."), Cause::Person)),
        Draft::from(TextWritten { text: Payload::inline("BETA"), partial: false }),
        Draft::from(TurnEnded::with(Outcome::Finished)),
    ];
    let drafts = drafts.into_iter().map(|draft| draft.in_turn(2, "native")).collect();
    session.append_all(drafts, Durability::Synced).unwrap();
    let path = Some(session.state().path_to(1));
    let (files, safety, cuts) = (None, String::new(), Vec::new());
    let back = RewindStarted { to_turn: 1, files, path, safety, cuts, undo: false };
    session.append(back, Durability::Synced).unwrap();
    session
        .append(RewindFinished { to_turn: 1, files: 0, begins: false }, Durability::Synced)
        .unwrap();
}

#[test]
fn after_a_rewind_a_run_is_left_where_its_conversation_ends() {
    let place = Place::with_git();
    let run = place.agent(WRITER).run("Write.").wait().unwrap();
    let end = run.steps().unwrap().pop().unwrap();
    one_more_and_back(&run);
    let run = place.runs().load(run.selector()).unwrap();
    assert_eq!(run.steps().unwrap().len(), 7);
    assert_eq!(run.refs().unwrap()["main"], end.id);
    let leads = run.closure(At::Last).unwrap();
    assert_eq!(leads, run.steps().unwrap()[..5]);
    assert_eq!(run.closure(6).unwrap(), run.steps().unwrap(), "what was left behind follows too");
    for left in [run.replay(At::Last).unwrap(), run.fork(At::Last).unwrap()] {
        assert_eq!(left.steps().unwrap().pop().unwrap().id, end.id);
        assert!(left.verify().unwrap().reproduces());
        assert!(left.lineage().unwrap().files.is_none(), "nothing comes after it");
    }
    let server = ModelServer::start(Scenario::new().text("Again.").text("On.")).unwrap();
    let agent = behind(&place, &server);
    agent.replay(&run, Mode::Rerun).wait().unwrap();
    assert!(!asked(&server).texts().join("\n").contains("BETA"));
    let on = agent.resume(&run, At::Last, "Go on.").wait().unwrap();
    assert!(!asked(&server).texts().join("\n").contains("BETA"));
    assert_eq!(on.workspace().unwrap(), place.repo());
}

#[test]
fn a_rerun_is_told_what_the_files_are() {
    let place = Place::with_git();
    let run = place.agent(WRITER).run("Write.").wait().unwrap();
    let replayed = run.replay(At::Last).unwrap().replay(At::Last).unwrap();
    let server = ModelServer::start(Scenario::new().text("Again.").text("And again.")).unwrap();
    let agent = behind(&place, &server);
    let rerun = agent.replay(&replayed, Mode::Rerun).wait().unwrap();
    let told = asked(&server).texts().join("\n");
    assert!(told.contains("as they were before any of this work was done"), "{told}");
    assert!(!rerun.workspace().unwrap().join("a.txt").exists());
    // It is compared by what was done in it: a prompt and its answer.
    let diff = run.diff(&rerun).unwrap();
    let own = diff.pairs.iter().filter(|pair| pair.right.is_some()).count();
    assert_eq!((diff.shared, own), (0, 2));
    assert_eq!(rerun.lineage().unwrap().mode, Some(segue_core::identity::Mode::Rerun));

    run.save(place.path("x.tine")).unwrap();
    let brought = segue::Runs::at(place.path("elsewhere")).load(place.path("x.tine")).unwrap();
    agent.rerun(&brought, At::Last, Some("Do it.")).wait().unwrap();
    let told = asked(&server).texts().join("\n");
    assert!(told.contains("The files are as last committed."), "{told}");
    assert!(!told.contains("before any of this work"), "{told}");
}
