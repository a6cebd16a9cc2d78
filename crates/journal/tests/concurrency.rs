//! Many processes and threads on one home and on one session, on a real disk.
//!
//! The other processes are this same test binary: it starts itself with the name of a part in
//! `SEGUE_TEST_PART`, and runs nothing but `a_part_of_another_test`, which then plays it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like tests"
)]

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use segue_core::event::{Body, Draft};
use segue_journal::{
    Disk, Durability, Error, Home, RealDisk, Session,
    home::Located,
    lock::Holder,
    repair,
    scan::{Ending, Position, Scanner},
    system_clock,
    tail::Tail,
    writer::Writer,
};
use support::{counting_clock, me, new, said, time};

const PART: &str = "SEGUE_TEST_PART";
const DIR: &str = "SEGUE_TEST_DIR";

fn home(dir: &Path) -> Home {
    Home::new(Arc::new(RealDisk), dir.to_owned())
}

fn open(dir: &Path) -> Session {
    Session::open(Arc::new(RealDisk), dir).unwrap()
}

/// Starts this binary again to play `part` in `dir`.
fn start(part: &str, dir: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_part_of_another_test", "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .env(DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What a part says with `say!`, in the midst of what the test harness says.
fn said_by(child: &mut Child) -> Vec<String> {
    let output = BufReader::new(child.stdout.take().unwrap());
    let lines = output.lines().map(Result::unwrap);
    let said = lines.filter_map(|line| Some(line.split_once("part: ")?.1.to_owned())).collect();
    assert!(child.wait().unwrap().success());
    said
}

macro_rules! say {
    ($($what:tt)*) => {{
        println!("part: {}", format_args!($($what)*));
        std::io::stdout().flush().unwrap();
    }};
}

#[test]
fn a_part_of_another_test() {
    let (Ok(part), Ok(dir)) = (env::var(PART), env::var(DIR)) else {
        return;
    };
    let dir = PathBuf::from(dir);
    match part.as_str() {
        "create" => {
            let (_session, number) = home(&dir).create(new("go"), &me(), &system_clock()).unwrap();
            say!("{number}");
        }
        "hold" => {
            let me = Holder { pid: std::process::id(), host: "elsewhere".into(), since: time(7) };
            let (mut session, _) = open(&dir).lock(&me, system_clock()).unwrap();
            session.append(said("mine"), Durability::Synced).unwrap();
            say!("holding");
            // Until the other end lets go.
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        "contend" => contend(&dir),
        other => panic!("there is no part {other}"),
    }
}

#[test]
fn sixty_four_processes_create_at_once_and_no_number_is_given_twice() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("home");
    let mut children: Vec<Child> = (0..64).map(|_| start("create", &dir)).collect();
    let numbers: Vec<u64> =
        children.iter_mut().flat_map(said_by).map(|number| number.parse().unwrap()).collect();
    assert_eq!(numbers.len(), 64);
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 64, "{numbers:?}");
    let home = home(&dir);
    let given = home.numbers().unwrap();
    assert_eq!(given.len(), 64);
    let sessions: BTreeSet<Located> = home.sessions().unwrap().into_iter().collect();
    assert_eq!(given.into_iter().map(|(_, at)| at).collect::<BTreeSet<_>>(), sessions);
    for at in &sessions {
        assert_eq!(home.open(at).unwrap().ending(), &Ending::Clean);
    }
}

#[test]
fn threads_share_one_writer_and_each_keeps_its_order() {
    const THREADS: usize = 8;
    const EACH: usize = 200;
    let temp = tempfile::tempdir().unwrap();
    let (session, _) =
        home(&temp.path().join("home")).create(new("go"), &me(), &system_clock()).unwrap();
    let (dir, from) = (session.session().dir().to_owned(), session.session().position());
    drop(session);
    let path = dir.join("journal.jsonl");
    let file = RealDisk.append(&path).unwrap();
    let (writer, thread) = Writer::start(file, &path, from, counting_clock()).unwrap();
    let seqs: Vec<Vec<u64>> = thread::scope(|scope| {
        let append = |n: usize, writer: Writer| {
            let mut seqs = Vec::new();
            for m in 0..EACH {
                let durability = if m % 3 == 0 { Durability::Soon } else { Durability::Synced };
                let drafts: Vec<Draft> = (0..=m % 2)
                    .map(|part| Draft::from(said(format!("{m}.{part}"))).about(n.to_string()))
                    .collect();
                let (events, after) = writer.append(drafts, durability).unwrap();
                if durability == Durability::Synced {
                    assert!(after.synced >= events.last().unwrap().seq);
                }
                seqs.extend(events.iter().map(|event| event.seq));
            }
            seqs
        };
        let running: Vec<_> = (0..THREADS)
            .map(|n| {
                let writer = writer.clone();
                scope.spawn(move || append(n, writer))
            })
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    drop(writer);
    drop(thread);

    let session = open(&dir);
    assert_eq!(session.ending(), &Ending::Clean);
    assert!(repair::verify(&session).unwrap().problems.is_empty());
    let mut found: BTreeMap<usize, Vec<(u64, String)>> = BTreeMap::new();
    session
        .for_each(|event| {
            if let (Some(id), Body::TextWritten(text)) = (&event.id, &event.body) {
                let text = text.text.head().to_owned();
                found.entry(id.parse().unwrap()).or_default().push((event.seq, text));
            }
        })
        .unwrap();
    for (n, seqs) in seqs.iter().enumerate() {
        let (found, texts): (Vec<u64>, Vec<String>) = found[&n].iter().cloned().unzip();
        assert_eq!(found, *seqs, "an event has the number that its writer was told");
        let expected = (0..EACH).flat_map(|m| (0..=m % 2).map(move |part| format!("{m}.{part}")));
        assert!(texts.into_iter().eq(expected), "thread {n} in its own order");
    }
}

#[test]
fn the_second_process_is_told_who_the_first_is_and_gets_its_turn() {
    let temp = tempfile::tempdir().unwrap();
    let (session, _) =
        home(&temp.path().join("home")).create(new("go"), &me(), &system_clock()).unwrap();
    let dir = session.session().dir().to_owned();
    drop(session);
    let mut child = start("hold", &dir);
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(output.by_ref().any(|line| line.ends_with("part: holding")));
    let Err(Error::Busy { holder, .. }) = open(&dir).lock(&me(), system_clock()) else {
        panic!("two writers")
    };
    let expected = Holder { pid: child.id(), host: "elsewhere".into(), since: time(7) };
    assert_eq!(holder, expected);
    assert_eq!(open(&dir).held_by().unwrap(), Some(expected));
    // No goodbye: the system gives the lock back.
    child.kill().unwrap();
    child.wait().unwrap();
    let (mut session, mended) = open(&dir).lock(&me(), system_clock()).unwrap();
    assert_eq!(mended, []);
    session.append(said("now mine"), Durability::Synced).unwrap();
    assert_eq!(session.state().seq, 3);
}

#[test]
fn those_who_look_are_taken_for_nobody() {
    let temp = tempfile::tempdir().unwrap();
    let (session, _) =
        home(&temp.path().join("home")).create(new("go"), &me(), &system_clock()).unwrap();
    let dir = session.session().dir().to_owned();
    drop(session);
    thread::scope(|scope| {
        for _ in 0..CONTENDERS {
            scope.spawn(|| {
                let session = open(&dir);
                assert!((0..ATTEMPTS * 4).all(|_| session.held_by().unwrap().is_none()));
            });
        }
    });
    let held = open(&dir).lock(&me(), system_clock()).unwrap();
    assert_eq!(open(&dir).held_by().unwrap(), Some(me()));
    drop(held);
    assert_eq!(open(&dir).held_by().unwrap(), None);
}

const CONTENDERS: usize = 8;
const ATTEMPTS: usize = 125;

/// Takes the lock again and again, and leaves a mark while it has it.
fn contend(dir: &Path) {
    let (mut held, mut busy) = (0, 0);
    for _ in 0..ATTEMPTS {
        match open(dir).lock(&me(), system_clock()) {
            Ok((mut session, mended)) => {
                fs::File::create_new(dir.join("mark")).expect("somebody else is here");
                assert_eq!(mended, []);
                session.append(said(std::process::id().to_string()), Durability::Soon).unwrap();
                fs::remove_file(dir.join("mark")).unwrap();
                held += 1;
            }
            Err(Error::Busy { .. }) => busy += 1,
            Err(error) => panic!("{error}"),
        }
    }
    say!("{held} {busy}");
}

#[test]
fn a_thousand_attempts_never_make_two_writers() {
    let temp = tempfile::tempdir().unwrap();
    let (session, _) =
        home(&temp.path().join("home")).create(new("go"), &me(), &system_clock()).unwrap();
    let dir = session.session().dir().to_owned();
    drop(session);
    let mut children: Vec<Child> = (0..CONTENDERS).map(|_| start("contend", &dir)).collect();
    let (mut held, mut busy) = (0, 0);
    for line in children.iter_mut().flat_map(said_by) {
        let (one, other) = line.split_once(' ').unwrap();
        held += one.parse::<usize>().unwrap();
        busy += other.parse::<usize>().unwrap();
    }
    println!("{held} times held, {busy} times busy");
    assert_eq!(held + busy, CONTENDERS * ATTEMPTS);
    let session = open(&dir);
    assert_eq!((session.state().seq, session.ending()), (held as u64 + 1, &Ending::Clean));
    assert!(repair::verify(&session).unwrap().problems.is_empty());
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &to);
        } else if !to.exists() {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

#[test]
fn two_homes_merged_blindly_lose_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let dirs = [temp.path().join("one"), temp.path().join("two")];
    let mut journals = BTreeMap::new();
    for dir in &dirs {
        for n in 0..5 {
            let long = "Aus einem anderen Haus. ".repeat(400);
            let (mut session, number) =
                home(dir).create(new(&long), &me(), &system_clock()).unwrap();
            assert_eq!(number, n + 1, "both homes use the same numbers");
            session.append(said(format!("{n}")), Durability::Synced).unwrap();
            let journal = fs::read(session.session().dir().join("journal.jsonl")).unwrap();
            journals.insert(session.session().id(), journal);
        }
    }
    copy_all(&dirs[1], &dirs[0]);
    let merged = home(&dirs[0]);
    let sessions = merged.sessions().unwrap();
    assert_eq!(sessions.len(), 10);
    let numbered = |home: &Home| -> BTreeMap<Located, u64> {
        home.numbers().unwrap().into_iter().map(|(number, at)| (at, number)).collect()
    };
    let before = numbered(&merged);
    assert_eq!(before.len(), 5, "the numbers that were here keep their meaning");
    for at in sessions.iter().filter(|at| !before.contains_key(at)) {
        merged.give_number(at).unwrap();
    }
    let after = numbered(&merged);
    assert_eq!(after.values().copied().collect::<BTreeSet<_>>(), (1..=10).collect());
    assert!(before.iter().all(|(at, number)| after[at] == *number));
    for at in &sessions {
        let session = merged.open(at).unwrap();
        assert!(repair::verify(&session).unwrap().problems.is_empty());
        let journal = fs::read(session.dir().join("journal.jsonl")).unwrap();
        assert_eq!(journal, journals[&at.id]);
        let (mut session, mended) = session.lock(&me(), system_clock()).unwrap();
        assert_eq!(mended, []);
        session.append(said("goes on"), Durability::Synced).unwrap();
    }
}

#[test]
fn a_follower_sees_every_event_once_and_never_half_of_one() {
    const EVENTS: u64 = 3000;
    let temp = tempfile::tempdir().unwrap();
    let (mut session, _) =
        home(&temp.path().join("home")).create(new("go"), &me(), &system_clock()).unwrap();
    let dir = session.session().dir().to_owned();
    let done = AtomicBool::new(false);
    let seen: Vec<(u64, String)> = thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let start = Position::start(open(&dir).id());
            let mut tail = Tail::new(&RealDisk, &dir, start).unwrap();
            let mut seen = Vec::new();
            loop {
                // Asked before the look: what came until then is in it.
                let last = done.load(Ordering::Acquire);
                for event in tail.new_events().unwrap() {
                    assert_eq!(event.seq, seen.len() as u64 + 1);
                    let text = match &event.body {
                        Body::TextWritten(text) => text.text.head().to_owned(),
                        _ => String::new(),
                    };
                    seen.push((event.seq, text));
                }
                if last {
                    return seen;
                }
                thread::yield_now();
            }
        });
        for n in 2..=EVENTS {
            let durability = if n % 50 == 0 { Durability::Synced } else { Durability::Soon };
            let text = format!("№{n} {}", "ä".repeat(usize::try_from(n % 997).unwrap()));
            session.append(said(text), durability).unwrap();
        }
        done.store(true, Ordering::Release);
        follower.join().unwrap()
    });
    assert_eq!(seen.len() as u64, EVENTS);
    for (seq, text) in seen.iter().skip(1) {
        assert!(text.starts_with(&format!("№{seq} ")), "{text}");
    }
    let file = RealDisk.open(&dir.join("journal.jsonl")).unwrap();
    let mut scanner = Scanner::new(&*file, Position::start(session.session().id()));
    while scanner.next_event().unwrap().is_some() {}
    assert_eq!(scanner.ending().unwrap(), Ending::Clean);
}
