//! The index of steps: whatever it knows, and however it came to know it, it says what the journal
//! says.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::{fs, path::Path, sync::Arc};

use segue_core::{
    Body, Payload, SessionId,
    event::{
        Cause, Draft, ModelCalled, ModelReplied, ModelStop, Outcome, RewindFinished, RewindStarted,
        TextWritten, ToolCalled, ToolReturned, ToolStatus, TurnEnded, TurnStarted, UsageReported,
    },
    identity::{How, Lineage},
    steps::{NoStep, Step},
    usage::Usage,
};
use segue_journal::{
    Durability, Home, LockedSession, RealDisk, Session,
    home::NewSession,
    steps::{self, Landmark, StepError},
    system_clock,
};

#[expect(dead_code, reason = "shared with other tests")]
mod support;

fn home(dir: &Path) -> Home {
    Home::new(Arc::new(RealDisk), dir.join("home"))
}

fn create(dir: &Path, new: NewSession) -> LockedSession {
    home(dir).create(new, &support::me(), &system_clock()).unwrap().0
}

fn in_turn(session: &LockedSession, body: impl Into<Body>) -> Draft {
    Draft::from(body.into()).in_turn(session.state().turn.number, "native")
}

fn prompt(session: &mut LockedSession, text: &str) {
    let number = session.state().turn.number + 1;
    let started = TurnStarted::new(Payload::inline(text), Cause::Person);
    let draft = Draft::from(started).in_turn(number, "native");
    session.append(draft, Durability::Soon).unwrap();
}

/// A reply with so many calls, and their answers.
fn calls(session: &mut LockedSession, count: usize) {
    let model = || "m".to_owned();
    let called = ModelCalled { model: model(), attempt: 1, messages: 1, told: None };
    let mut drafts = vec![in_turn(session, called)];
    let id = |n: usize| format!("call-{}-{n}", session.state().seq);
    for n in 0..count {
        let input = Payload::inline(format!("{{\"n\":{n}}}"));
        drafts.push(in_turn(session, ToolCalled { name: "shell".into(), input }).about(id(n)));
    }
    let replied = ModelReplied {
        model: model(),
        stop: ModelStop::ToolUse,
        usage: Usage { output: 3, ..Usage::default() },
        cost_micros: None,
        reply_id: None,
    };
    drafts.push(in_turn(session, replied));
    for n in 0..count {
        let returned = ToolReturned {
            name: "shell".into(),
            status: ToolStatus::Done,
            output: Payload::inline(format!("{n} of {}", session.state().seq)),
            exit: Some(0),
            touched: vec![],
        };
        drafts.push(in_turn(session, returned).about(id(n)));
    }
    session.append_all(drafts, Durability::Soon).unwrap();
}

fn say(session: &mut LockedSession, text: &str) {
    let text = TextWritten { text: Payload::inline(text), partial: false };
    let draft = in_turn(session, text);
    session.append(draft, Durability::Soon).unwrap();
}

fn end(session: &mut LockedSession) {
    let draft = in_turn(session, TurnEnded::with(Outcome::Finished));
    session.append(draft, Durability::Synced).unwrap();
}

/// Turns of six steps: a prompt, a reply with three answers, a last word.
fn turns(session: &mut LockedSession, count: usize) {
    for n in 0..count {
        prompt(session, &format!("p{n}"));
        calls(session, 3);
        say(session, "done");
        end(session);
    }
}

fn rewind(session: &mut LockedSession, to_turn: u32) {
    let path = Some(session.state().path_to(to_turn));
    let (files, safety, cuts) = (None, String::new(), Vec::new());
    let started = RewindStarted { to_turn, files, path, safety, cuts, undo: false };
    session.append(started, Durability::Soon).unwrap();
    session
        .append(RewindFinished { to_turn, files: 0, begins: false }, Durability::Synced)
        .unwrap();
}

fn open(dir: &Path) -> Session {
    Session::open(Arc::new(RealDisk), dir).unwrap()
}

fn told(session: &Session) -> Vec<Step> {
    let mut told = Vec::new();
    session.steps(|step| told.push(step)).unwrap();
    told
}

fn marks(session: &Session) -> Vec<Landmark> {
    session.landmarks().unwrap().iter().map(Result::unwrap).collect()
}

/// What the index says is what the journal says, from whichever side one looks.
fn agrees(dir: &Path) -> Vec<Step> {
    let session = open(dir);
    let (told, marks) = (told(&session), session.landmarks().unwrap());
    assert_eq!(marks.count(), told.len() as u64);
    for (step, mark) in told.iter().zip(marks.iter()) {
        let mark = mark.unwrap();
        assert_eq!(
            (mark.index, mark.id, mark.kind, mark.turn, mark.whole, mark.seq),
            (step.index, step.id, step.kind, step.turn, step.whole, step.seq)
        );
        assert_eq!(marks.get(step.index).unwrap().as_ref(), Some(&mark));
    }
    assert_eq!(marks.last().unwrap().map(|mark| mark.id), told.last().map(|step| step.id));
    told
}

fn temporaries(dir: &Path) -> usize {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".tmp")).count()
}

#[test]
fn the_index_says_what_the_journal_says() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = create(tmp.path(), support::new("go"));
    let dir = session.session().dir().to_owned();
    let index = dir.join(steps::FILE);
    agrees(&dir);
    turns(&mut session, 20);
    assert_eq!(agrees(&dir).len(), 120);
    assert!(!index.exists(), "so few are counted again");

    turns(&mut session, 400);
    assert_eq!(agrees(&dir).len(), 2520);
    let first = fs::read(&index).unwrap();
    turns(&mut session, 30);
    agrees(&dir);
    assert_eq!(fs::read(&index).unwrap(), first, "so few more are not worth it");
    turns(&mut session, 100);
    let all = agrees(&dir);
    let second = fs::read(&index).unwrap();
    let records = first.len() - first.len() % 62;
    assert!(second.len() > first.len() && second[..records] == first[..records]);

    fs::remove_file(&index).unwrap();
    assert_eq!(agrees(&dir), all);
    fs::write(&index, &second[..second.len() - 1]).unwrap();
    assert_eq!(agrees(&dir), all, "what is cut is not believed");
    fs::write(&index, &first).unwrap();
    assert_eq!(agrees(&dir), all, "what is old is gone on from");
    assert_eq!(temporaries(&dir), 0);
}

#[test]
fn whoever_writes_leaves_an_index_behind() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = create(tmp.path(), support::new("go"));
    let dir = session.session().dir().to_owned();
    let index = dir.join(steps::FILE);
    // While it works, with the snapshot: a kill leaves not more to fold than that.
    turns(&mut session, 760);
    let first = fs::read(&index).unwrap();
    turns(&mut session, 200);
    assert_eq!(fs::read(&index).unwrap(), first);
    // And when it lets go.
    drop(session);
    let last = fs::read(&index).unwrap();
    assert!(last.len() > first.len());
    assert_eq!(agrees(&dir).len(), 960 * 6);
    // Where no turn has ended, nothing is looked at.
    fs::remove_file(&index).unwrap();
    let (mut session, _) = open(&dir).lock(&support::me(), system_clock()).unwrap();
    prompt(&mut session, "more");
    drop(session);
    assert!(!index.exists());
    let (mut session, _) = open(&dir).lock(&support::me(), system_clock()).unwrap();
    end(&mut session);
    drop(session);
    assert!(fs::read(&index).unwrap().len() > last.len());
    agrees(&dir);
}

#[test]
fn a_step_is_found_where_it_stands() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = create(tmp.path(), support::new("go"));
    let dir = session.session().dir().to_owned();
    turns(&mut session, 200);
    agrees(&dir);
    turns(&mut session, 3);
    let session = open(&dir);
    let (steps, marks) = (told(&session), session.landmarks().unwrap());
    for index in [0, 5, 600, 1199, 1200, 1217] {
        let step = &steps[index];
        assert_eq!(marks.find(&index.to_string(), session.state()).unwrap().id, step.id);
        assert_eq!(
            marks.find(&step.id.to_string()[..16], session.state()).unwrap().index,
            index as u64
        );
        let mark = marks.get(index as u64).unwrap().unwrap();
        if let Some(next) = steps.get(index + 1) {
            assert_eq!(marks.frontier(&mark).unwrap(), next.parents, "{index}");
        }
    }
    // After the last of three answers, all of them; and what a reply is followed by.
    let last = marks.get(4).unwrap().unwrap();
    assert_eq!(marks.frontier(&last).unwrap(), [steps[2].id, steps[3].id, steps[4].id]);
    assert_eq!(marks.rfind(|mark| mark.turn == 7).unwrap().unwrap().index, 41);
    assert_eq!(marks.rfind(|mark| mark.turn == 0).unwrap(), None);
    let beyond = marks.find("1218", session.state()).unwrap_err();
    let StepError::NoStep(beyond) = beyond else { panic!("{beyond}") };
    assert_eq!(beyond, NoStep::Beyond { index: 1218, last: 1217 });
}

#[test]
fn a_rewind_goes_back_to_what_only_the_index_knows() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = create(tmp.path(), support::new("go"));
    let dir = session.session().dir().to_owned();
    turns(&mut session, 200);
    agrees(&dir);
    assert!(dir.join(steps::FILE).exists());
    for to in [199, 3, 202, 150, 0] {
        rewind(&mut session, to);
        turns(&mut session, 2);
    }
    let with = agrees(&dir);
    assert_eq!(with[1212].parents, [with[17].id], "the end of turn 3");
    assert!(with.last().unwrap().index == 1259 && with[1248].parents.is_empty());
    fs::remove_file(dir.join(steps::FILE)).unwrap();
    assert_eq!(agrees(&dir), with);
}

fn fork(dir: &Path, from: &LockedSession, at: u64) -> LockedSession {
    let session = open(from.session().dir());
    let marks = session.landmarks().unwrap();
    let mark = marks.get(at).unwrap().unwrap();
    let base = session.base_at(&marks, &mark).unwrap();
    let from: SessionId = session.teller(&mark).unwrap();
    let lineage = Lineage { base: Some(base), ..Lineage::new(from, How::Forked) };
    create(dir, NewSession { lineage: Some(lineage), ..support::new("go") })
}

#[test]
fn a_fork_has_the_steps_of_both_and_goes_back_behind_where_it_left() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = create(tmp.path(), support::new("go"));
    turns(&mut session, 200);
    agrees(session.session().dir());
    // After the answers of turn 100.
    let mut second = fork(tmp.path(), &session, 598);
    turns(&mut second, 150);
    assert_eq!(agrees(second.session().dir()).len(), 599 + 900);
    let mut third = fork(tmp.path(), &second, 599 + 5);
    turns(&mut session, 20);
    turns(&mut third, 2);
    for to in [101, 100, 50] {
        rewind(&mut third, to);
        turns(&mut third, 1);
    }
    let steps = agrees(third.session().dir());
    let parents = |turn: u32| steps.iter().find(|step| step.turn == turn).unwrap().parents.clone();
    assert_eq!(parents(104), [steps[604].id]);
    assert_eq!(parents(105), [596, 597, 598].map(|index: usize| steps[index].id));
    assert_eq!(parents(106), [steps[299].id]);
    fs::remove_file(session.session().dir().join(steps::FILE)).unwrap();
    fs::remove_file(second.session().dir().join(steps::FILE)).unwrap();
    assert_eq!(agrees(third.session().dir()), steps);
}

#[test]
fn what_is_said_later_of_a_steps_cost_goes_with_it() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = create(tmp.path(), support::new("go"));
    prompt(&mut session, "one");
    calls(&mut session, 1);
    let usage = Usage { input: 70, ..Usage::default() };
    let report = UsageReported { usage, cost_micros: None, model: None, settles: false };
    let draft = in_turn(&session, report);
    session.append(draft, Durability::Soon).unwrap();
    say(&mut session, "done");
    end(&mut session);
    let fork = fork(tmp.path(), &session, 2);
    let base = fork.state().base().unwrap();
    let (count, spent) = open(session.session().dir()).spent(base).unwrap();
    assert_eq!((count, spent.usage.total()), (3, 73));
    assert_eq!(open(fork.session().dir()).spent(base).unwrap(), (count, spent));
}

#[test]
fn where_the_index_cant_be_kept_every_step_is_found_all_the_same() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = create(tmp.path(), support::new("go"));
    turns(&mut session, 400);
    fs::create_dir(session.session().dir().join(steps::FILE)).unwrap();
    assert_eq!(agrees(session.session().dir()).len(), 2400);
    assert_eq!(temporaries(session.session().dir()), 0);
    assert_eq!(marks(&open(session.session().dir())).len(), 2400);
}

#[test]
fn a_damaged_index_is_never_believed() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = create(tmp.path(), support::new("go"));
    let dir = session.session().dir().to_owned();
    turns(&mut session, 90);
    let told = marks(&open(&dir));
    let index = dir.join(steps::FILE);
    let whole = fs::read(&index).unwrap();
    assert_eq!(marks(&open(&dir)), told, "by the index now");
    // Every byte of a step, every byte of what the index was made of, and some besides.
    let (step, foot) = (40 * 62..41 * 62, whole.len() - 52..whole.len());
    let rest = (0..whole.len()).step_by(1999);
    for at in step.chain(foot).chain(rest) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&index, &bytes).unwrap();
        assert_eq!(marks(&open(&dir)), told, "byte {at}");
        // Whoever looks next makes it anew.
        assert_eq!(open(&dir).landmarks().unwrap().get(40).unwrap().as_ref(), Some(&told[40]));
        assert!(fs::read(&index).unwrap() == whole, "byte {at}");
    }
    // A step that stands in another one's place.
    let mut bytes = whole.clone();
    bytes.copy_within(40 * 62..41 * 62, 41 * 62);
    fs::write(&index, &bytes).unwrap();
    assert_eq!(open(&dir).landmarks().unwrap().get(41).unwrap().as_ref(), Some(&told[41]));
}

#[test]
fn a_rewind_goes_back_to_what_only_a_damaged_index_knows() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = create(tmp.path(), support::new("go"));
    turns(&mut session, 100);
    agrees(session.session().dir());
    let mut second = fork(tmp.path(), &session, 299);
    turns(&mut second, 90);
    agrees(second.session().dir());
    rewind(&mut second, 20);
    turns(&mut second, 1);
    rewind(&mut second, 60);
    turns(&mut second, 1);
    let steps = told(&open(second.session().dir()));
    for one in [&session, &second] {
        let index = one.session().dir().join(steps::FILE);
        let mut bytes = fs::read(&index).unwrap();
        bytes.iter_mut().step_by(62).for_each(|byte| *byte ^= 1);
        fs::write(&index, &bytes).unwrap();
    }
    assert_eq!(agrees(second.session().dir()), steps);
}

#[test]
fn what_leads_to_a_step_is_without_what_was_left_behind_by_then() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = create(tmp.path(), support::new("go"));
    turns(&mut session, 3);
    rewind(&mut session, 1);
    turns(&mut session, 2);
    let dir = session.session().dir().to_owned();
    let leads_to = |dir: &Path, at: u64| {
        let session = open(dir);
        let marks = session.landmarks().unwrap();
        let mark = marks.get(at).unwrap().unwrap();
        let base = session.base_at(&marks, &mark).unwrap();
        let mut found = Vec::new();
        session.closure(&base, |step| found.push(step.index)).unwrap();
        (found, base)
    };
    // Turns 1, 4 and 5; and of what was left behind, turns 1 to 3.
    let (found, base) = leads_to(&dir, 29);
    assert_eq!(found, (0..6).chain(18..30).collect::<Vec<_>>());
    let (count, accounts) = open(&dir).spent(&base).unwrap();
    assert_eq!((count, accounts.usage.output), (18, 9));
    assert_eq!(leads_to(&dir, 17).0, (0..18).collect::<Vec<_>>());
    // Of a fork that goes back behind where it left.
    let mut fork = fork(tmp.path(), &session, 23);
    turns(&mut fork, 1);
    rewind(&mut fork, 1);
    turns(&mut fork, 1);
    let (found, _) = leads_to(fork.session().dir(), 35);
    assert_eq!(found, (0..6).chain(30..36).collect::<Vec<_>>());
    // What the fork has left behind: its own turn 5 and all that led there.
    let (found, base) = leads_to(fork.session().dir(), 29);
    assert_eq!(found, (0..6).chain(18..30).collect::<Vec<_>>());
    assert_eq!(base.turn, 5);
}

#[test]
fn of_two_steps_with_one_id_the_last_that_is_whole_and_not_left_behind_is_meant() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = create(tmp.path(), support::new("go"));
    prompt(&mut session, "go");
    let called = ModelCalled { model: "m".into(), attempt: 1, messages: 1, told: None };
    let input = || Payload::inline("{}");
    let call = || ToolCalled { name: "shell".into(), input: input() };
    let answer = || ToolReturned {
        name: "shell".into(),
        status: ToolStatus::Done,
        output: Payload::inline("the same"),
        exit: Some(0),
        touched: vec![],
    };
    let drafts = vec![
        in_turn(&session, called),
        in_turn(&session, call()).about("a"),
        in_turn(&session, call()).about("b"),
        in_turn(&session, answer()).about("a"),
        in_turn(&session, answer()).about("b"),
    ];
    session.append_all(drafts, Durability::Soon).unwrap();
    end(&mut session);
    let found = |session: &LockedSession, at: usize| {
        let session = open(session.session().dir());
        let marks = session.landmarks().unwrap();
        let id = marks.get(at as u64).unwrap().unwrap().id.to_string();
        marks.find(&id, session.state()).unwrap().index
    };
    let ids: Vec<_> = marks(session.session()).iter().map(|mark| mark.id).collect();
    assert_eq!(ids[2], ids[3]);
    assert_eq!(found(&session, 2), 3, "after the first of them a call is open");
    rewind(&mut session, 0);
    assert_eq!(found(&session, 0), 0, "the only one there is");
    prompt(&mut session, "go");
    end(&mut session);
    assert_eq!(found(&session, 0), 4, "the first one was left behind");
}

#[test]
fn a_reply_that_grew_after_a_fork_is_what_it_was_when_that_left() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = create(tmp.path(), support::new("go"));
    let dir = session.session().dir().to_owned();
    turns(&mut session, 200);
    prompt(&mut session, "on");
    say(&mut session, "one");
    // Its process is killed here, or is still at work.
    let mut other = fork(tmp.path(), &session, 1201);
    say(&mut session, "two");
    end(&mut session);
    turns(&mut session, 100);
    assert_eq!(agrees(&dir).len(), 1802);
    let index = fs::read(dir.join(steps::FILE)).unwrap();
    let told = agrees(other.session().dir());
    assert_eq!((told.len(), told[1201].said.len()), (1202, 1));
    // What is said of its first steps comes from the cache all the same, and that stays as it is.
    assert_eq!(fs::read(dir.join(steps::FILE)).unwrap(), index);
    turns(&mut other, 2);
    let told = agrees(other.session().dir());
    assert_eq!(told[1202].parents, [told[1201].id]);
    rewind(&mut other, 100);
    turns(&mut other, 1);
    assert_eq!(agrees(other.session().dir())[1214].parents, [told[599].id]);
}
