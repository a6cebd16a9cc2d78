//! The steps of a session, and where each of them ends in the journal.
//!
//! Steps are a fold of the journal ([`segue_core::steps`]). To find one without folding everything
//! again, `steps.idx` has the end of each, up to the end of some turn; what came later is folded when
//! somebody looks.

mod index;
mod tail;

use std::path::{Path, PathBuf};

use segue_core::{
    SessionId, State,
    event::Span,
    identity::{Accounts, Base},
    steps::{NoStep, Search, Step, StepId, StepKind, Steps},
};

pub use self::index::FILE;

use self::{
    index::{Growing, Index},
    tail::{Met, Tail},
};
use crate::{
    base::Layer,
    error::{At, Error, Result},
    line::Link,
    scan::Position,
    session::{Session, open_journal},
    snapshot::last_line,
};

/// So many are read at once.
const CHUNK: usize = 1024;

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
    /// Its place among the answers to the calls of one reply; else 1.
    batch: u32,
    /// Its turn ended with it.
    turn_end: bool,
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

/// The steps of a session in their order. Each is read where it stands.
#[derive(Debug)]
pub struct Landmarks {
    /// One for each journal that tells them, the oldest first.
    parts: Vec<Part>,
}

/// The steps that one journal tells.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    first: u64,
    /// The number of the first one after it.
    end: u64,
    index: Option<Index>,
    /// What the index does not have.
    rest: Vec<Landmark>,
}

impl Part {
    fn new(path: PathBuf, first: u64, index: Option<Index>, rest: Vec<Landmark>) -> Self {
        let end = index.as_ref().map_or(first, Index::end) + rest.len() as u64;
        Self { path, first, end, index, rest }
    }

    /// Some steps from one of them on: at least one, where it has it.
    fn read(&self, from: u64, most: usize) -> Result<Vec<Landmark>> {
        let left = usize::try_from(self.end.saturating_sub(from)).unwrap_or(usize::MAX);
        let most = most.min(left);
        let kept = self.index.as_ref().map_or(self.first, Index::end);
        match &self.index {
            Some(index) if from < kept => index.read(from, most).at(&self.path),
            _ => {
                let from = usize::try_from(from - kept).unwrap_or(usize::MAX);
                Ok(self.rest.iter().skip(from).take(most).cloned().collect())
            }
        }
    }
}

impl Landmarks {
    #[must_use]
    pub fn count(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.end)
    }

    /// A step by its number.
    pub fn get(&self, index: u64) -> Result<Option<Landmark>> {
        Ok(self.read(index, 1)?.pop())
    }

    pub fn last(&self) -> Result<Option<Landmark>> {
        self.count().checked_sub(1).map_or(Ok(None), |last| self.get(last))
    }

    /// All of them, from the first.
    pub fn iter(&self) -> impl Iterator<Item = Result<Landmark>> {
        let mut next = 0;
        let mut chunk = Vec::new().into_iter();
        std::iter::from_fn(move || {
            if chunk.len() == 0 && next < self.count() {
                match self.read(next, CHUNK) {
                    Ok(found) => chunk = found.into_iter(),
                    Err(error) => {
                        next = u64::MAX;
                        return Some(Err(error));
                    }
                }
            }
            let mark = chunk.next()?;
            next = mark.index + 1;
            Some(Ok(mark))
        })
    }

    /// The last one that is meant.
    pub fn rfind(&self, mut fits: impl FnMut(&Landmark) -> bool) -> Result<Option<Landmark>> {
        let mut end = self.count();
        while end > 0 {
            let mut start = end.saturating_sub(CHUNK as u64);
            let mut chunk = Vec::new();
            while start < end {
                chunk.extend(self.read(start, usize::try_from(end - start).unwrap_or(CHUNK))?);
                start = chunk.last().map_or(end, |mark: &Landmark| mark.index + 1);
            }
            end = chunk.first().map_or(0, |mark| mark.index);
            if let Some(found) = chunk.into_iter().rev().find(&mut fits) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// A step by its number, its id or the beginning of one.
    pub fn find(&self, word: &str) -> Result<Landmark, StepError> {
        let mut search = Search::new(word);
        if let Some(index) = search.index() {
            let Some(last) = self.count().checked_sub(1) else { return Err(NoStep::Empty.into()) };
            return self.get(index)?.ok_or(NoStep::Beyond { index, last }.into());
        }
        for mark in self.iter() {
            let mark = mark?;
            search.offer(mark.index, mark.id, || mark.clone());
        }
        Ok(search.finish()?)
    }

    /// What the step after this one follows from: all the answers to the calls of a reply.
    pub fn frontier(&self, mark: &Landmark) -> Result<Vec<StepId>> {
        let first = (mark.index + 1).saturating_sub(u64::from(mark.batch.max(1)));
        let mut ids = Vec::new();
        while first + (ids.len() as u64) < mark.index {
            let next = self.get(first + ids.len() as u64)?;
            ids.push(next.map_or(mark.id, |before| before.id));
        }
        ids.push(mark.id);
        Ok(ids)
    }

    /// What the last turn up to this one ended with; or was left with, where a fork left it.
    fn end_of(&self, turn: u32) -> Result<Option<(u32, Vec<StepId>)>> {
        let left = |mark: &Landmark| self.parts.iter().any(|part| part.end == mark.index + 1);
        let end = self.rfind(|mark| mark.turn <= turn && (mark.turn_end || left(mark)))?;
        end.map(|mark| Ok((mark.turn, self.frontier(&mark)?))).transpose()
    }

    fn read(&self, from: u64, most: usize) -> Result<Vec<Landmark>> {
        let part = self.parts.iter().find(|part| from < part.end);
        part.map_or(Ok(Vec::new()), |part| part.read(from, most))
    }
}

impl Session {
    /// Every step from the first, those of the session that it begins with included.
    pub fn steps(&self, mut each: impl FnMut(Step)) -> Result<()> {
        let mut before = Steps::default();
        for layer in self.layers()?.iter().rev() {
            let mut fold = Steps::after(base_of(self, &layer.dir)?.as_ref()).knowing(before);
            let tail = Tail { layer, from: Position::start(layer.id), before: None };
            tail.fold(self, &mut fold, &mut |met| {
                if let Met::Step(step, _) = met {
                    each(step);
                }
            })?;
            before = fold;
        }
        Ok(())
    }

    /// Finds a step by its index, its id or the beginning of one.
    pub fn landmark(&self, word: &str) -> Result<Landmark, StepError> {
        self.landmarks()?.find(word)
    }

    /// Where each step ends. The cost is that of what was not in the cache.
    pub fn landmarks(&self) -> Result<Landmarks> {
        let layers = self.layers()?;
        let mut found = Landmarks { parts: Vec::with_capacity(layers.len()) };
        for (at, layer) in layers.iter().enumerate().rev() {
            self.add_layer(layer, &mut found)?;
            // Of another session's steps, no more than what this one begins with.
            if let (Some(next), Some(part)) = (at.checked_sub(1), found.parts.last_mut()) {
                part.end = part.end.min(layers[next].steps);
            }
        }
        Ok(found)
    }

    fn add_layer(&self, layer: &Layer, found: &mut Landmarks) -> Result<()> {
        let disk = &**self.disk();
        let path = layer.dir.join(FILE);
        let base = base_of(self, &layer.dir)?;
        let first = base.as_ref().map_or(0, |base| base.steps);
        let journal = open_journal(disk, &layer.dir)?;
        let (index, from) = match Index::open(disk, &path, first, &*journal) {
            Some((index, at)) => (Some(index), at),
            None => (None, Position::start(layer.id)),
        };
        let indexed = index.is_some();
        found.parts.push(Part::new(path.clone(), first, index, Vec::new()));
        if from.offset >= layer.end {
            return Ok(());
        }
        let mut fold = match found.last()?.filter(|_| indexed) {
            Some(last) => Steps::at_turn_end(last.index + 1, last.turn, found.frontier(&last)?),
            None => Steps::after(base.as_ref()),
        };
        let before = found.parts.last().and_then(|part| part.index.as_ref());
        let mut growing = Growing::new(disk, &path, first, before);
        let tail = Tail { layer, from, before: Some(found) };
        tail.fold(self, &mut fold, &mut |met| match met {
            Met::Step(step, end) => growing.add(Landmark::new(&step, end)),
            Met::TurnEnd(at) => growing.turn_end(at),
        })?;
        let (index, rest) = growing.finish();
        if let Some(part) = found.parts.pop() {
            found.parts.push(Part::new(path, first, index.or(part.index), rest));
        }
        Ok(())
    }

    /// What another session begins with that goes on after this step.
    pub fn base_at(&self, marks: &Landmarks, mark: &Landmark) -> Result<Base, StepError> {
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
            frontier: marks.frontier(mark)?,
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
