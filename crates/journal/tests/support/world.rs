//! A home on a simulated disk, what was promised about it, and the checks of those promises.
//!
//! Every operation either succeeds, and then binds the disk to what it acknowledged, or fails, and
//! may then only do so because the disk did. The checks give back what is wrong instead of
//! panicking, so that a test can also ask for a loss to be found.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_core::{Payload, State, event::Draft};
use segue_journal::{
    Clock, Disk, Durability, Error, Home, LockedSession, Session,
    home::Located,
    repair::{self, Problem},
    scan::Ending,
    session::Mended,
};
use segue_testkit::disk::{Fault, Mutant, SimDisk};

use crate::support::{counting_clock, me, new, said};

/// Something that is done to the world. Sessions are named by a number, taken modulo their count.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Create {
        named: bool,
        long: bool,
    },
    /// Opens for writing, after closing what was open.
    Open(usize),
    Close,
    Append {
        events: usize,
        synced: bool,
        long: bool,
    },
    Snapshot,
    GiveNumber(usize),
    Remove(usize),
    Kill,
    Crash(u64),
    /// Lets the disk fail in so many calls.
    Fail(u64, Fault),
}

/// What is known of one session.
#[derive(Debug)]
struct Known {
    at: Located,
    /// All events that were handed over, in their order.
    submitted: Vec<String>,
    /// How many of them survive a power cut, and how many a kill.
    synced: usize,
    soon: usize,
    removed: Removed,
    /// Files with what was cut off the journal.
    kept: BTreeMap<PathBuf, Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removed {
    No,
    /// The removal failed: it may have happened.
    Perhaps,
    Yes,
}

/// What happened to the disk since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Kill,
    PowerCut,
}

/// What is wrong.
pub(crate) type Checked<T = ()> = Result<T, String>;

fn ensure(right: bool, what: impl FnOnce() -> String) -> Checked {
    if right { Ok(()) } else { Err(what()) }
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) disk: SimDisk,
    home: Home,
    sessions: Vec<Known>,
    numbers: BTreeMap<u64, Located>,
    open: Option<(usize, LockedSession)>,
    texts: u64,
}

fn clock() -> Clock {
    counting_clock()
}

fn home(disk: &SimDisk) -> Home {
    Home::new(Arc::new(disk.clone()), "/home/me/.segue".into())
}

/// An event without its time, which tells it apart from every other.
fn key(seq: u64, draft: &Draft) -> String {
    let data = draft.body.data().map(|data| data.get().to_owned()).unwrap_or_default();
    format!("{seq} {} {data}", draft.body.kind())
}

/// The events in a session's journal, as keys, and what they add up to.
fn events(session: &Session) -> Checked<(Vec<String>, State)> {
    let (mut keys, mut state) = (Vec::new(), State::default());
    session
        .for_each(|event| {
            keys.push(key(event.seq, &Draft::from(event.body.clone())));
            state.apply(&event);
        })
        .map_err(|error| error.to_string())?;
    Ok((keys, state))
}

impl World {
    pub(crate) fn new(mutant: Option<Mutant>) -> Self {
        let disk = SimDisk::new();
        if let Some(mutant) = mutant {
            disk.mutate(mutant);
        }
        Self {
            home: home(&disk),
            disk,
            sessions: Vec::new(),
            numbers: BTreeMap::new(),
            open: None,
            texts: 0,
        }
    }

    /// Does all of it, then cuts the power, writes to every session, and cuts it again.
    pub(crate) fn run(&mut self, ops: &[Op], last_seed: u64) -> Checked {
        for op in ops {
            self.step(op).map_err(|wrong| format!("{op:?}: {wrong}"))?;
        }
        self.disk.mend();
        self.crash(last_seed)?;
        for n in 0..self.sessions.len() {
            self.open(n)?;
            self.append(1, Durability::Synced, true)?;
        }
        self.crash(!last_seed)
    }

    /// Does one thing. Where it fails, the disk must have failed before it, and everything must
    /// go on when the disk does.
    pub(crate) fn step(&mut self, op: &Op) -> Checked {
        match *op {
            Op::Create { named, long } => self.create(named, long),
            Op::Open(n) => self.open(n),
            Op::Close => {
                self.open = None;
                Ok(())
            }
            Op::Append { events, synced, long } => {
                let durability = if synced { Durability::Synced } else { Durability::Soon };
                self.append(events, durability, long)
            }
            Op::Snapshot => match &mut self.open {
                Some((_, session)) => {
                    let done = session.snapshot();
                    self.settle(done).map(drop)
                }
                None => Ok(()),
            },
            Op::GiveNumber(n) => self.give_number(n),
            Op::Remove(n) => self.remove(n),
            Op::Kill => self.restart(self.disk.kill(), After::Kill),
            Op::Crash(seed) => self.crash(seed),
            Op::Fail(nth, fault) => {
                self.disk.fail(nth, fault);
                Ok(())
            }
        }
    }

    /// Takes what an operation gave. An error is only right where the disk failed; then the disk
    /// gets well, everything is looked at, and the session that was open has to be opened anew.
    fn settle<T>(&mut self, done: Result<T, Error>) -> Checked<Option<T>> {
        match done {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                ensure(self.disk.failed() > 0, || format!("failed on a good disk: {error}"))?;
                self.disk.mend();
                self.open = None;
                self.look(After::Kill)?;
                Ok(None)
            }
        }
    }

    fn create(&mut self, named: bool, long: bool) -> Checked {
        self.open = None;
        let prompt = self.text(long);
        let name = named.then(|| "Prüfstand".to_owned());
        let session = segue_journal::home::NewSession { name, ..new(&prompt) };
        let created = self.home.create(session, &me(), &clock());
        let Some((session, number)) = self.settle(created)? else {
            return Ok(());
        };
        let id = session.session().id();
        let at = Located { repo: "repo".to_owned(), id };
        let (submitted, _) = events(session.session())?;
        let soon = submitted.len();
        ensure(soon == 1 + usize::from(named), || format!("{soon} events at the start"))?;
        self.number(number, at.clone())?;
        let (removed, kept) = (Removed::No, BTreeMap::new());
        let known = Known { at, submitted, synced: 1, soon, removed, kept };
        self.sessions.push(known);
        self.open = Some((self.sessions.len() - 1, session));
        Ok(())
    }

    fn number(&mut self, number: u64, at: Located) -> Checked {
        match self.numbers.insert(number, at) {
            None => Ok(()),
            Some(other) => Err(format!("{number} was given twice, first to {other:?}")),
        }
    }

    fn pick(&self, n: usize) -> Option<usize> {
        let here = |n: &usize| self.sessions[*n].removed == Removed::No;
        let left: Vec<usize> = (0..self.sessions.len()).filter(here).collect();
        (!left.is_empty()).then(|| left[n % left.len()])
    }

    fn open(&mut self, n: usize) -> Checked {
        self.open = None;
        let Some(n) = self.pick(n) else { return Ok(()) };
        let at = self.sessions[n].at.clone();
        let opened = self.home.open(&at).and_then(|session| session.lock(&me(), clock()));
        let Some((session, mended)) = self.settle(opened)? else {
            return Ok(());
        };
        for what in mended {
            if let Mended::TornTail { kept_in, .. } = what {
                let path = session.session().dir().join(kept_in);
                let bytes = read(&self.disk, &path).ok_or("nothing was kept")?;
                self.sessions[n].kept.insert(path, bytes);
            }
        }
        let (found, state) = events(session.session())?;
        let known = &mut self.sessions[n];
        check_prefix(known, &found, After::Kill)?;
        ensure(state == *session.state(), || "the state is not what the events say".to_owned())?;
        // Whoever can write builds upon what is there: it is promised from now on.
        (known.synced, known.soon) = (found.len(), found.len());
        known.submitted = found;
        self.open = Some((n, session));
        Ok(())
    }

    fn append(&mut self, count: usize, durability: Durability, long: bool) -> Checked {
        let texts: Vec<String> = (0..count).map(|n| self.text(long && n == 0)).collect();
        let Some((n, session)) = &mut self.open else {
            return Ok(());
        };
        let payloads: Result<Vec<Payload>, Error> =
            texts.iter().map(|text| session.payload(text)).collect();
        let drafts: Vec<Draft> = match payloads {
            Ok(payloads) => payloads.into_iter().map(|text| Draft::from(said_in(text))).collect(),
            Err(error) => return self.settle(Err::<(), _>(error)).map(drop),
        };
        let known = &mut self.sessions[*n];
        let first = known.submitted.len() as u64 + 1;
        known.submitted.extend((first..).zip(&drafts).map(|(seq, draft)| key(seq, draft)));
        let done = session.append_all(drafts, durability);
        match &done {
            Ok(events) => {
                ensure(events.len() == count, || "not all of them".to_owned())?;
                known.soon = known.submitted.len();
                if durability == Durability::Synced {
                    known.synced = known.soon;
                }
            }
            Err(_) => {
                self.disk.mend();
                let again = session.append(said("after a failure"), durability);
                ensure(matches!(again, Err(Error::Poisoned { .. })), || {
                    "a writer that had failed went on".to_owned()
                })?;
            }
        }
        self.settle(done).map(drop)
    }

    /// A short text that no other event has, or the long one that others have too.
    fn text(&mut self, long: bool) -> String {
        self.texts += 1;
        if long { "Lang, und nicht nur einmal. ".repeat(300) } else { format!("№{}", self.texts) }
    }

    fn give_number(&mut self, n: usize) -> Checked {
        let Some(n) = self.pick(n) else { return Ok(()) };
        let at = self.sessions[n].at.clone();
        let given = self.home.give_number(&at);
        match self.settle(given)? {
            Some(number) => self.number(number, at),
            None => Ok(()),
        }
    }

    fn remove(&mut self, n: usize) -> Checked {
        let Some(n) = self.pick(n) else { return Ok(()) };
        self.open = None;
        let removed = self.home.remove(&self.sessions[n].at, &me());
        self.sessions[n].removed = if removed.is_ok() { Removed::Yes } else { Removed::Perhaps };
        self.settle(removed).map(drop)
    }

    pub(crate) fn crash(&mut self, seed: u64) -> Checked {
        self.restart(self.disk.crash(seed), After::PowerCut)
    }

    fn restart(&mut self, disk: SimDisk, after: After) -> Checked {
        // What the dead process held goes to its grave with the old disk.
        self.open = None;
        self.home = home(&disk);
        self.disk = disk;
        self.look(after)
    }

    /// Compares everything on the disk with what was promised.
    fn look(&mut self, after: After) -> Checked {
        let here = self.home.sessions().map_err(|error| error.to_string())?;
        for at in &here {
            check_opens(&self.home, at)?;
        }
        for known in &mut self.sessions {
            let found = here.contains(&known.at);
            match known.removed {
                Removed::No => ensure(found, || format!("{} is gone", known.at.id))?,
                Removed::Yes => ensure(!found, || format!("{} is back", known.at.id))?,
                Removed::Perhaps => {}
            }
            if found {
                for (path, bytes) in &known.kept {
                    let there = read(&self.disk, path);
                    ensure(there.as_ref() == Some(bytes), || format!("{}", path.display()))?;
                }
                let session = self.home.open(&known.at).map_err(|error| error.to_string())?;
                let (found, _) = events(&session)?;
                check_prefix(known, &found, after)?;
                known.soon = found.len();
                if after == After::PowerCut {
                    known.synced = found.len();
                }
                known.submitted = found;
            }
        }
        for (number, at) in &self.numbers {
            let found = self.home.numbered(*number).map_err(|error| error.to_string())?;
            ensure(found.as_ref() == Some(at), || format!("number {number} is {found:?}"))?;
        }
        Ok(())
    }
}

fn said_in(text: Payload) -> segue_core::event::TextWritten {
    segue_core::event::TextWritten { text, partial: false }
}

/// Nothing that was promised is missing, and nothing is there that was never handed over.
fn check_prefix(known: &Known, found: &[String], after: After) -> Checked {
    let promised = if after == After::Kill { known.soon } else { known.synced };
    ensure(found.len() >= promised, || {
        format!("{} events were promised, {} are there", promised, found.len())
    })?;
    // A torn tail is cut off by the next writer, who says so in an event of its own.
    let repaired = found.last().is_some_and(|last| last.contains(" journal.repaired "));
    let own = &found[..found.len() - usize::from(repaired)];
    ensure(known.submitted.starts_with(own), || format!("{own:?} of {:?}", known.submitted))
}

/// A session that is there is whole: it ends clean or torn, its blobs can be read, and its state is
/// the same with and without the snapshot.
fn check_opens(home: &Home, at: &Located) -> Checked {
    let session = home.open(at).map_err(|error| error.to_string())?;
    let ending = session.ending();
    ensure(!matches!(ending, Ending::Damaged(_)), || format!("{ending:?}"))?;
    let report = repair::verify(&session).map_err(|error| error.to_string())?;
    let torn = |problem: &Problem| matches!(problem, Problem::TornTail { .. });
    ensure(report.problems.iter().all(torn), || format!("{:?}", report.problems))?;
    let (_, folded) = events(&session)?;
    ensure(folded == *session.state(), || {
        format!("from the snapshot {:?}, from the events {folded:?}", session.state())
    })
}

pub(crate) fn read(disk: &SimDisk, path: &Path) -> Option<Vec<u8>> {
    (disk as &dyn Disk).read(path).ok()
}
