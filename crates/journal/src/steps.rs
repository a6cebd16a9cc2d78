//! The steps of a session, and where each of them ends in the journal.
//!
//! Steps are a fold of the journal ([`segue_core::steps`]). To find one by its number or its name
//! without folding everything again, `steps.idx` has the id and the end of each, up to the end of
//! some turn:
//!
//! ```text
//! {"v":1,"offset":…,"seq":…,"link":"…","count":…}\n      what it was made of
//! id 32 · end 8 · seq 8 · turn 4 · batch 4 · kind 1 · whole 1    each step, little-endian
//! ```
//!
//! A cache, like the snapshot: believed only while the journal has, just before the offset, the line
//! that it was made after.

use std::path::{Path, PathBuf};

use segue_core::{
    Body, SessionId, State,
    event::Span,
    identity::{Accounts, Base},
    steps::{NoStep, Search, Step, StepId, StepKind, Steps},
};
use serde::{Deserialize, Serialize};

use crate::{
    base::Layer,
    disk::DiskFile,
    error::{At, Error, Result},
    line::Link,
    scan::{Damage, Ending, Finding, Position, Scanner},
    session::{JOURNAL, Session, open_journal},
    snapshot::last_line,
};

/// The name of the cache.
pub const FILE: &str = "steps.idx";

const VERSION: u32 = 1;
const RECORD: usize = 58;

/// A tail that is shorter is folded again each time.
const WORTH_KEEPING: usize = 512;

/// Where a step ends, and what can be done there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landmark {
    pub index: u64,
    pub id: StepId,
    pub kind: StepKind,
    pub turn: u32,
    /// Nothing is under way after it.
    pub whole: bool,
    /// The last event of it, and where that ends in the journal that tells it.
    pub seq: u64,
    pub end: u64,
    /// What the step after it follows from.
    pub frontier: Vec<StepId>,
}

/// Why a step can't be had.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Journal(#[from] Error),
    #[error(transparent)]
    NoStep(#[from] NoStep),
    #[error(
        "step {index} is inside an unfinished batch of tool calls: some of them have no answer yet"
    )]
    InsideBatch { index: u64 },
}

#[derive(Serialize, Deserialize)]
struct Head {
    v: u32,
    offset: u64,
    seq: u64,
    link: String,
    count: u64,
}

impl Session {
    /// Every step from the first, those of the session that it begins with included.
    pub fn steps(&self, mut each: impl FnMut(Step)) -> Result<()> {
        let layers = self.layers()?;
        for layer in layers.iter().rev() {
            let fold = Steps::after(base_of(self, &layer.dir)?.as_ref());
            let tail = Tail { layer, from: Position::start(layer.id) };
            let fold = tail.fold(self, fold, &mut |met| {
                if let Met::Step(step, _) = met {
                    each(step);
                }
            })?;
            fold.finish(&mut each);
        }
        Ok(())
    }

    /// Finds a step by its index, its id or the beginning of one.
    pub fn landmark(&self, word: &str) -> Result<Landmark, StepError> {
        let mut search = Search::new(word);
        self.landmarks(&mut |mark| search.offer(mark.index, mark.id, || mark.clone()))?;
        Ok(search.finish()?)
    }

    /// The last step, if there is one.
    pub fn last_landmark(&self) -> Result<Option<Landmark>> {
        let mut last = None;
        self.landmarks(&mut |mark| last = Some(mark.clone()))?;
        Ok(last)
    }

    /// Where each step ends. The cost is that of what was not in the cache.
    pub fn landmarks(&self, each: &mut dyn FnMut(&Landmark)) -> Result<()> {
        let layers = self.layers()?;
        for (at, layer) in layers.iter().enumerate().rev() {
            // Of another session's steps, no more than what this one begins with.
            let most = at.checked_sub(1).map_or(u64::MAX, |next| layers[next].steps);
            self.landmarks_in(layer, &mut |mark| {
                if mark.index < most {
                    each(mark);
                }
            })?;
        }
        Ok(())
    }

    fn landmarks_in(&self, layer: &Layer, each: &mut dyn FnMut(&Landmark)) -> Result<()> {
        let path = layer.dir.join(FILE);
        let base = base_of(self, &layer.dir)?;
        let file = open_journal(&**self.disk(), &layer.dir)?;
        let bytes = self.disk().read(&path).unwrap_or_default();
        let mut marks = Marks::new(base.as_ref());
        let mut fold = Steps::after(base.as_ref());
        let mut from = Position::start(layer.id);
        let mut records = Vec::new();
        if let Some(known) = Known::read(&bytes, &*file) {
            for mark in known.records.chunks_exact(RECORD).map_while(|one| marks.read(one)) {
                each(&mark);
            }
            if known.at.offset >= layer.end {
                return Ok(());
            }
            records = known.records.to_vec();
            fold = Steps::at_turn_end(marks.index, marks.ends.clone());
            from = known.at;
        }
        drop(bytes);
        let (before, mut turn_end) = (records.len(), None);
        let fold = Tail { layer, from }.fold(self, fold, &mut |met| match met {
            Met::Step(step, end) => {
                let mark = marks.next(&step, end);
                record(&mark, step.batch, &mut records);
                each(&mark);
            }
            Met::TurnEnd(at) => turn_end = Some((at, records.len())),
        })?;
        fold.finish(&mut |step| each(&marks.next(&step, layer.end)));
        if let Some((at, size)) = turn_end
            && size >= before + WORTH_KEEPING * RECORD
        {
            // Without it the next look takes longer.
            let _ = self.keep_index(&path, at, &records[..size]);
        }
        Ok(())
    }

    fn keep_index(&self, path: &Path, at: Position, records: &[u8]) -> Result<()> {
        let count = (records.len() / RECORD) as u64;
        let link = at.link.as_str().to_owned();
        let head = Head { v: VERSION, offset: at.offset, seq: at.seq, link, count };
        let mut bytes = serde_json::to_vec(&head).map_err(|error| Error::json(path, &error))?;
        bytes.push(b'\n');
        bytes.extend_from_slice(records);
        self.disk().replace(path, &bytes).at(path)
    }

    /// What another session begins with that goes on after this step.
    pub fn base_at(&self, mark: &Landmark) -> Result<Base, StepError> {
        if !mark.whole {
            return Err(StepError::InsideBatch { index: mark.index });
        }
        let layers = self.layers()?;
        let layer = layers.iter().find(|layer| mark.index >= layer.steps).or(layers.last());
        let dir = layer.map_or_else(|| self.dir().to_owned(), |layer| layer.dir.clone());
        let file = open_journal(&**self.disk(), &dir)?;
        let no_line = || Error::NotASession { dir: dir.clone() };
        let line = last_line(&*file, mark.end).ok_or_else(no_line)?;
        let path = match self.state().on_path(mark.turn) {
            true => self.state().path_to(mark.turn),
            false => self.path_at(mark)?,
        };
        Ok(Base {
            seq: mark.seq,
            offset: mark.end,
            link: Link::to(&line).as_str().to_owned(),
            turn: mark.turn,
            path,
            steps: mark.index + 1,
            frontier: mark.frontier.clone(),
            spent: None,
        })
    }

    /// The session that tells a step: this one, or one that it begins with.
    pub fn teller(&self, mark: &Landmark) -> Result<SessionId> {
        let layers = self.layers()?;
        let layer = layers.iter().find(|layer| mark.index >= layer.steps).or(layers.last());
        Ok(layer.map_or(self.id(), |layer| layer.id))
    }

    /// The turns of the conversation as they were at a step that a rewind has left behind.
    fn path_at(&self, mark: &Landmark) -> Result<Vec<Span>> {
        let mut state = State::default();
        self.for_each(|event| {
            if event.seq <= mark.seq {
                state.apply(&event);
            }
        })?;
        Ok(state.path_to(mark.turn))
    }

    /// What the first steps cost when they were made.
    pub fn spent(&self, steps: u64) -> Result<Accounts> {
        let mut accounts = Accounts::default();
        self.steps(|step| {
            if step.index < steps {
                accounts.usage += step.usage;
                accounts.cost_micros += step.cost.unwrap_or_default();
            }
        })?;
        Ok(accounts)
    }
}

/// What the session in a directory begins with.
fn base_of(session: &Session, dir: &Path) -> Result<Option<Base>> {
    if dir == session.dir() {
        return Ok(session.state().base().cloned());
    }
    let identity = crate::base::identity_of(&**session.disk(), dir)?;
    Ok(identity.lineage.and_then(|lineage| lineage.base))
}

/// The rest of a journal.
struct Tail<'a> {
    layer: &'a Layer,
    from: Position,
}

/// What is met on the way through it.
enum Met {
    /// A step, and where its last event ends.
    Step(Step, u64),
    /// All steps before this place have been met.
    TurnEnd(Position),
}

impl Tail<'_> {
    fn fold(&self, session: &Session, mut fold: Steps, meet: &mut dyn FnMut(Met)) -> Result<Steps> {
        let path = self.layer.dir.join(JOURNAL);
        let file = open_journal(&**session.disk(), &self.layer.dir)?;
        let mut scanner = Scanner::new(&*file, self.from);
        // A step is given out after some of the events behind it, so its end is remembered.
        let mut ends: Vec<(u64, u64)> = Vec::new();
        while scanner.position().offset < self.layer.end {
            let Some(event) = scanner.next_event().at(&path)? else {
                return Err(broken(scanner, path));
            };
            let at = scanner.position();
            if Steps::is_part(&event.body) {
                ends.push((event.seq, at.offset));
            }
            fold.apply(&event, &mut |step| {
                let end = ends.iter().find(|(seq, _)| *seq == step.seq);
                let end = end.map_or(at.offset, |(_, end)| *end);
                ends.retain(|(seq, _)| *seq > step.seq);
                meet(Met::Step(step, end));
            });
            if let Body::TurnEnded(_) = event.body {
                meet(Met::TurnEnd(at));
            }
        }
        Ok(fold)
    }
}

/// A part that ends before its end: what is told of it would be another story.
fn broken(scanner: Scanner<'_>, path: PathBuf) -> Error {
    let at = scanner.position();
    match scanner.ending() {
        Ok(Ending::Damaged(damage)) => Error::Damaged { path, damage },
        Err(source) => Error::Io { path, source },
        Ok(Ending::Clean | Ending::Torn { .. }) => {
            let finding = Finding::Missing { expected: at.seq + 1 };
            let damage = Damage { line: at.seq + 1, offset: at.offset, finding };
            Error::Damaged { path, damage }
        }
    }
}

/// Counts steps, and remembers what they are known by.
struct Marks {
    index: u64,
    recent: Vec<StepId>,
    /// What each turn ended with.
    ends: Vec<(u32, Vec<StepId>)>,
}

impl Marks {
    fn new(base: Option<&Base>) -> Self {
        let (index, ends) = match base {
            Some(base) => (base.steps, vec![(base.turn, base.frontier.clone())]),
            None => (0, Vec::new()),
        };
        Self { index, recent: Vec::new(), ends }
    }

    fn mark(&mut self, id: StepId, kind: StepKind, turn: u32, batch: u32) -> Landmark {
        if batch <= 1 {
            self.recent.clear();
        }
        self.recent.push(id);
        match self.ends.last_mut() {
            Some((last, ids)) if *last == turn => ids.clone_from(&self.recent),
            _ => self.ends.push((turn, self.recent.clone())),
        }
        let index = self.index;
        self.index += 1;
        let frontier = self.recent.clone();
        Landmark { index, id, kind, turn, whole: true, seq: 0, end: 0, frontier }
    }

    fn next(&mut self, step: &Step, end: u64) -> Landmark {
        let mark = self.mark(step.id, step.kind, step.turn, step.batch);
        Landmark { whole: step.whole, seq: step.seq, end, ..mark }
    }

    fn read(&mut self, bytes: &[u8]) -> Option<Landmark> {
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let small = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let id = StepId::from_bytes(bytes.get(..32)?.try_into().ok()?);
        let kind = *StepKind::ALL.get(usize::from(*bytes.get(56)?))?;
        let mark = self.mark(id, kind, small(48)?, small(52)?);
        Some(Landmark { whole: bytes[57] == 1, seq: number(40)?, end: number(32)?, ..mark })
    }
}

fn record(mark: &Landmark, batch: u32, records: &mut Vec<u8>) {
    let kind = StepKind::ALL.iter().position(|kind| *kind == mark.kind).unwrap_or_default();
    records.extend_from_slice(mark.id.bytes());
    records.extend_from_slice(&mark.end.to_le_bytes());
    records.extend_from_slice(&mark.seq.to_le_bytes());
    records.extend_from_slice(&mark.turn.to_le_bytes());
    records.extend_from_slice(&batch.to_le_bytes());
    records.extend_from_slice(&[u8::try_from(kind).unwrap_or_default(), u8::from(mark.whole)]);
}

/// The cache, if there is one to be believed.
struct Known<'a> {
    at: Position,
    records: &'a [u8],
}

impl<'a> Known<'a> {
    fn read(bytes: &'a [u8], journal: &dyn DiskFile) -> Option<Self> {
        let line = bytes.iter().position(|&byte| byte == b'\n')?;
        let head: Head = serde_json::from_slice(&bytes[..line]).ok()?;
        let records = &bytes[line + 1..];
        let size = usize::try_from(head.count).ok()?.checked_mul(RECORD)?;
        let link = Link::parse(&head.link)?;
        let fits = head.v == VERSION && records.len() == size;
        if !fits || Link::to(&last_line(journal, head.offset)?) != link {
            return None;
        }
        let Head { offset, seq, .. } = head;
        let at = Position { offset, seq, link, synced: 0, version: 0 };
        Some(Self { at, records })
    }
}
