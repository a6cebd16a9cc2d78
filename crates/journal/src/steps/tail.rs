//! What a journal tells of steps, from some place on.

use std::path::PathBuf;

use segue_core::{
    Body,
    steps::{Step, Steps},
};

use super::{Landmark, Landmarks};
use crate::{
    base::Layer,
    disk::Disk,
    error::{At, Error, Result},
    scan::{Damage, Ending, Finding, Position, Scanner},
    session::{JOURNAL, open_journal},
};

/// The rest of a journal.
pub(super) struct Tail<'a> {
    pub(super) layer: &'a Layer,
    pub(super) from: Position,
    /// The turn of the conversation that it goes on from.
    pub(super) turn: u32,
    /// What is told before it, so many steps, where the fold has not seen them.
    pub(super) before: Option<(&'a Landmarks, u64)>,
}

/// What is met on the way through it.
pub(super) enum Met {
    /// A step, and where all that is said of it ends.
    Step(Step, Landmark),
    /// All steps before this place have been met.
    TurnEnd(Position),
}

/// Where the last event of a step ends, and what was said later of its cost. A proof and a hand-off
/// are in no turn: they belong to the one that they come after.
struct End {
    seq: u64,
    offset: u64,
    turn: u32,
}

impl Tail<'_> {
    pub(super) fn fold(
        &self,
        disk: &dyn Disk,
        fold: &mut Steps,
        meet: &mut dyn FnMut(Met),
    ) -> Result<()> {
        let path = self.layer.dir.join(JOURNAL);
        let file = open_journal(disk, &self.layer.dir)?;
        let mut scanner = Scanner::new(&*file, self.from);
        // A step is given out after some of the events behind it, so its end is remembered.
        let mut ends: Vec<End> = Vec::new();
        let give = |ends: &mut Vec<End>, step: Step, meet: &mut dyn FnMut(Met)| {
            let end = ends.iter().find(|end| end.seq == step.seq);
            let (offset, turn) =
                end.map_or((self.layer.end, step.turn), |end| (end.offset, end.turn));
            ends.retain(|end| end.seq > step.seq);
            let mark = Landmark::new(&step, turn, offset);
            meet(Met::Step(step, mark));
        };
        let (mut turn, mut back) = (self.turn, None);
        while scanner.position().offset < self.layer.end {
            let Some(event) = scanner.next_event().at(&path)? else {
                return Err(broken(scanner, path));
            };
            let at = scanner.position();
            turn = event.turn.unwrap_or(turn);
            match &event.body {
                Body::UsageReported(_) if fold.accounts_to_last() => {
                    ends.iter_mut().for_each(|end| end.offset = at.offset);
                }
                Body::RewindStarted(started) => {
                    back = started.path.as_ref().map(|path| path.last().map_or(0, |to| to.to));
                    let to = started.path.as_ref().and_then(|path| path.last());
                    if let (Some((before, steps)), Some(to)) = (self.before, to)
                        && let Some((turn, end)) = before.end_of(to.to, steps)?
                    {
                        fold.learn(turn, end);
                    }
                }
                Body::RewindFinished(_) => turn = back.take().unwrap_or(turn),
                body if Steps::is_part(body) => {
                    ends.push(End { seq: event.seq, offset: at.offset, turn });
                }
                _ => {}
            }
            fold.apply(&event, &mut |step| give(&mut ends, step, meet));
            if let Body::TurnEnded(_) = event.body {
                meet(Met::TurnEnd(at));
            }
        }
        fold.finish(&mut |step| give(&mut ends, step, meet));
        Ok(())
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
