//! The steps of a session, and where each of them ends in the journal.
//!
//! Steps are a fold of the journal ([`segue_core::steps`]). To find one without folding everything
//! again, `steps.idx` has the end of each, up to the end of some turn; what came later is folded when
//! somebody looks.

mod index;
mod tail;

use std::{cell::OnceCell, path::Path, sync::Arc};

use segue_core::{
    SessionId, State,
    event::Span,
    identity::{Accounts, Base},
    steps::{NoStep, Search, Step, StepId, StepKind, Steps, Worth},
};

pub use self::index::FILE;

use self::{
    index::{Growing, Index, WORTH_KEEPING},
    tail::{Met, Tail},
};
use crate::{
    base::Layer,
    disk::Disk,
    error::{Error, Result},
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
    /// Its turn, or the one of the conversation that it comes after.
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

impl Landmark {
    fn ends_turn(&mut self) {
        self.turn_end = true;
    }

    /// Whether both say the same. Where the part of a journal ends that is `cut`, nobody there knows
    /// whether the turn ended too.
    #[must_use]
    pub fn agrees(&self, told: &Self, cut: bool) -> bool {
        let turn_end = if cut { self.turn_end } else { told.turn_end };
        *self == Self { turn_end, ..told.clone() }
    }

    /// Its place among the answers to the calls of one reply; else 1.
    #[must_use]
    pub fn batch(&self) -> u32 {
        self.batch
    }

    /// Whether a session that begins with this part of another one's journal begins with the step.
    #[must_use]
    pub fn is_of(&self, base: &Base) -> bool {
        self.index < base.steps && base.has_turn(self.turn)
    }
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
    disk: Arc<dyn Disk>,
    /// One for each journal that tells them, the oldest first.
    parts: Vec<Part>,
}

/// The steps that one journal tells.
#[derive(Debug)]
struct Part {
    layer: Layer,
    first: u64,
    /// The number of the first one after it.
    end: u64,
    index: Option<Index>,
    /// What the index does not have.
    rest: Vec<Landmark>,
    /// All of them, as the journal tells them, where the index turned out to be damaged.
    anew: OnceCell<Vec<Landmark>>,
}

impl Part {
    fn new(layer: &Layer, index: Option<Index>, rest: Vec<Landmark>) -> Self {
        let first = layer.steps;
        let end = index.as_ref().map_or(first, Index::end) + rest.len() as u64;
        Self { layer: layer.clone(), first, end, index, rest, anew: OnceCell::new() }
    }

    /// Some steps from one of them on: at least one, where it has it. None where the index is not to
    /// be believed.
    fn read(&self, from: u64, most: usize) -> Option<Vec<Landmark>> {
        let left = usize::try_from(self.end.saturating_sub(from)).unwrap_or(usize::MAX);
        let most = most.min(left);
        let some = |all: &[Landmark], first: u64| {
            let from = usize::try_from(from - first).unwrap_or(usize::MAX);
            all.iter().skip(from).take(most).cloned().collect()
        };
        if let Some(anew) = self.anew.get() {
            return Some(some(anew, self.first));
        }
        let kept = self.index.as_ref().map_or(self.first, Index::end);
        match &self.index {
            Some(index) if from < kept => index.read(from, most),
            _ => Some(some(&self.rest, kept)),
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
    pub fn rfind(&self, fits: impl FnMut(&Landmark) -> bool) -> Result<Option<Landmark>> {
        self.rfind_before(self.count(), fits)
    }

    fn rfind_before(
        &self,
        mut end: u64,
        mut fits: impl FnMut(&Landmark) -> bool,
    ) -> Result<Option<Landmark>> {
        while end > 0 {
            let mut start = end.saturating_sub(CHUNK as u64);
            let mut chunk: Vec<Landmark> = Vec::new();
            let next = start;
            while start < end {
                let found = self.read(start, usize::try_from(end - start).unwrap_or(CHUNK))?;
                let Some(last) = found.last() else { break };
                start = last.index + 1;
                chunk.extend(found);
            }
            end = next;
            if let Some(found) = chunk.into_iter().rev().find(&mut fits) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The last step of the conversation after which nothing is under way.
    pub fn main(&self, state: &State) -> Result<Option<Landmark>> {
        self.rfind(|mark| mark.whole && state.on_path(mark.turn))
    }

    /// A step by its number, its id or the beginning of one. Of several with one id it is the last one
    /// that the conversation has, and that is whole.
    pub fn find(&self, word: &str, state: &State) -> Result<Landmark, StepError> {
        let mut search = Search::new(word);
        if let Some(index) = search.index()
            && let Some(mark) = self.get(index)?
        {
            return Ok(mark);
        }
        for mark in self.iter() {
            let mark = mark?;
            let worth = Worth { on_path: state.on_path(mark.turn), whole: mark.whole };
            search.offer(mark.index, mark.id, worth, || mark.clone());
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

    /// What the last turn up to this one ended with, among so many steps; or was left with, where a
    /// fork left it.
    fn end_of(&self, turn: u32, steps: u64) -> Result<Option<(u32, Vec<StepId>)>> {
        let left = |mark: &Landmark| self.parts.iter().any(|part| part.end == mark.index + 1);
        let ends = |mark: &Landmark| mark.turn <= turn && (mark.turn_end || left(mark));
        let end = self.rfind_before(steps, ends)?;
        end.map(|mark| Ok((mark.turn, self.frontier(&mark)?))).transpose()
    }

    fn read(&self, from: u64, most: usize) -> Result<Vec<Landmark>> {
        // Who says that there were more steps before than there are has none at these places.
        let part = self.parts.iter().find(|part| from < part.end);
        let Some(part) = part.filter(|part| from >= part.first) else {
            return Ok(Vec::new());
        };
        if let Some(found) = part.read(from, most) {
            return Ok(found);
        }
        let told = self.fold_again(part)?;
        let _ = part.anew.set(told);
        Ok(part.read(from, most).unwrap_or_default())
    }

    /// What the journal says itself. Its cache is damaged, and is made anew by whoever looks next.
    fn fold_again(&self, part: &Part) -> Result<Vec<Landmark>> {
        let disk = &*self.disk;
        let _ = disk.remove_file(&part.layer.dir.join(FILE));
        let mut told: Vec<Landmark> = Vec::new();
        let layer = &part.layer;
        let (from, turn) = (Position::start(layer.id), layer.after);
        let tail = Tail { layer, from, turn, before: Some((self, part.first)) };
        tail.fold(disk, &mut Steps::after(layer.base.as_ref()), &mut |met| match met {
            Met::Step(_, mark) => told.push(mark),
            Met::TurnEnd(_) => told.last_mut().into_iter().for_each(Landmark::ends_turn),
        })?;
        Ok(told)
    }
}

impl Session {
    /// Every step from the first, those of the session that it begins with included.
    pub fn steps(&self, mut each: impl FnMut(Step)) -> Result<()> {
        self.told(|step, _| each(step))
    }

    /// The same, each with where it stands, by the journals alone: no cache is believed.
    pub fn told(&self, mut each: impl FnMut(Step, Landmark)) -> Result<()> {
        let mut before = Steps::default();
        for layer in self.layers()?.iter().rev() {
            let mut fold = Steps::after(layer.base.as_ref()).knowing(before);
            let (from, turn) = (Position::start(layer.id), layer.after);
            let tail = Tail { layer, from, turn, before: None };
            // Whether its turn ends with a step is said after it.
            let mut held: Option<(Step, Landmark)> = None;
            tail.fold(&**self.disk(), &mut fold, &mut |met| match met {
                Met::Step(step, mark) => {
                    if let Some((step, mark)) = held.replace((step, mark)) {
                        each(step, mark);
                    }
                }
                Met::TurnEnd(_) => {
                    held.iter_mut().for_each(|(_, mark)| mark.ends_turn());
                }
            })?;
            if let Some((step, mark)) = held {
                each(step, mark);
            }
            before = fold;
        }
        Ok(())
    }

    /// The steps of the conversation as it is now: without what a rewind has left behind.
    pub fn steps_on_path(&self, mut each: impl FnMut(Step)) -> Result<()> {
        self.told(|step, mark| {
            if self.state().on_path(mark.turn) {
                each(step);
            }
        })
    }

    /// The steps that lead to one: it and all that it follows from, as a session that begins with
    /// them tells them. What a rewind had left behind by then is not among them.
    pub fn closure(&self, base: &Base, mut each: impl FnMut(Step)) -> Result<()> {
        self.told(|step, mark| {
            if mark.is_of(base) {
                each(step);
            }
        })
    }

    /// Where each step ends. The cost is that of what was not in the cache.
    pub fn landmarks(&self) -> Result<Landmarks> {
        let layers = self.layers()?;
        let disk = Arc::clone(self.disk());
        let mut found = Landmarks { disk, parts: Vec::with_capacity(layers.len()) };
        for (at, layer) in layers.iter().enumerate().rev() {
            let base = at.checked_sub(1).and_then(|next| layers[next].base.as_ref());
            self.add_layer(layer, base, &mut found)?;
            // Of another session's steps, no more than what this one begins with.
            if let (Some(next), Some(part)) = (at.checked_sub(1), found.parts.last_mut()) {
                part.end = part.end.min(layers[next].steps);
            }
        }
        Ok(found)
    }

    /// Brings the cache up to date, so that whoever looks for a step next need not fold a journal.
    pub(crate) fn index_steps(&self) {
        // Fewer events are fewer steps.
        if self.position().seq >= WORTH_KEEPING as u64 {
            // A cache: without it the next look takes longer, and that is all.
            let _ = self.landmarks();
        }
    }

    /// Adds the steps of one journal: all of them, or those that another session begins with.
    fn add_layer(&self, layer: &Layer, base: Option<&Base>, found: &mut Landmarks) -> Result<()> {
        let disk = &**self.disk();
        let path = layer.dir.join(FILE);
        let journal = open_journal(disk, &layer.dir)?;
        let (index, from) = match Index::open(disk, &path, layer.steps, &*journal) {
            Some((index, at)) => (Some(index), at),
            None => (None, Position::start(layer.id)),
        };
        // What was a reply when a fork left may have become a longer one since.
        let (index, from, grown) = match (index, base) {
            (Some(index), Some(base)) if from.offset > layer.end && !index.ends_as(base) => {
                let (index, from) = index.cut(layer.end, &*journal).unzip();
                (index, from.unwrap_or(Position::start(layer.id)), true)
            }
            (index, _) => (index, from, false),
        };
        let indexed = index.is_some();
        found.parts.push(Part::new(layer, index, Vec::new()));
        if from.offset >= layer.end {
            return Ok(());
        }
        let last = found.last()?.filter(|_| indexed);
        let turn = last.as_ref().map_or(layer.after, |last| last.turn);
        let mut fold = match last {
            Some(last) => Steps::at_turn_end(last.index + 1, last.turn, found.frontier(&last)?),
            None => Steps::after(layer.base.as_ref()),
        };
        let before = found.parts.last().and_then(|part| part.index.as_ref());
        let mut growing = Growing::new(disk, &path, layer.steps, before, !grown);
        let tail = Tail { layer, from, turn, before: Some((found, found.count())) };
        tail.fold(disk, &mut fold, &mut |met| match met {
            Met::Step(_, mark) => growing.add(mark),
            Met::TurnEnd(at) => growing.turn_end(at),
        })?;
        let (index, rest) = growing.finish();
        if let Some(part) = found.parts.pop() {
            found.parts.push(Part::new(layer, index.or(part.index), rest));
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
            false => self.path_at(&dir, mark)?,
        };
        Ok(Base {
            seq: mark.seq,
            offset: mark.end,
            link: Link::to(&line).as_str().to_owned(),
            turn: mark.turn,
            path,
            steps: mark.index + 1,
            frontier: marks.frontier(mark)?,
            retained: None,
            spent: None,
        })
    }

    /// The session that tells a step: this one, or one that it begins with.
    pub fn teller(&self, mark: &Landmark) -> Result<SessionId> {
        let layers = self.layers()?;
        let layer = layers.iter().find(|layer| mark.index >= layer.steps).or(layers.last());
        Ok(layer.map_or(self.id(), |layer| layer.id))
    }

    /// The turns of the conversation as they were at a step that a rewind has left behind: by the
    /// journal that tells it.
    pub fn path_at(&self, dir: &Path, mark: &Landmark) -> Result<Vec<Span>> {
        let teller = Session::open(Arc::clone(self.disk()), dir)?;
        let mut state = State::default();
        teller.for_each(|event| {
            if event.seq <= mark.seq {
                state.apply(&event);
            }
        })?;
        Ok(state.path_to(mark.turn))
    }

    /// How many steps lead to where another session begins, and what they cost when they were made.
    pub fn spent(&self, base: &Base) -> Result<(u64, Accounts)> {
        let (mut count, mut accounts) = (0, Accounts::default());
        self.closure(base, |step| {
            count += 1;
            accounts.usage += step.usage;
            accounts.cost_micros += step.cost.unwrap_or_default();
        })?;
        Ok((count, accounts))
    }
}
