//! Which steps the conversation has left behind, and where what came instead begins.
//!
//! Steps are offered in their order. Most follow the one before; the first one after a rewind
//! follows from an earlier one, and begins another run.

use std::collections::HashMap;

use super::{Step, StepId};

/// Steps that follow one another without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The step that its first one follows from.
    pub after: Option<u64>,
    pub from: u64,
    pub to: u64,
}

/// Looks for runs among the steps that come by.
#[derive(Clone, Debug, Default)]
pub struct Branches {
    places: HashMap<StepId, u64>,
    runs: Vec<Run>,
    kept: Vec<(u64, u64)>,
}

/// The runs of a session, and which steps the conversation consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    pub runs: Vec<Run>,
    /// The step at which the conversation goes on.
    pub tip: Option<u64>,
    /// The parts that belong to it, from the first on.
    kept: Vec<(u64, u64)>,
}

impl Branches {
    /// One more step, and whether the conversation still has it.
    pub fn offer(&mut self, step: &Step, kept: bool) {
        let after = step.parents.iter().filter_map(|id| self.places.get(id)).max().copied();
        // The other answers to one reply follow from that reply, and belong beside the first.
        let goes_on = step.batch > 1 || after.is_some_and(|after| after + 1 == step.index);
        match self.runs.last_mut() {
            Some(run) if goes_on => run.to = step.index,
            _ => self.runs.push(Run { after, from: step.index, to: step.index }),
        }
        // Of two steps with one id, the later one is where the conversation was last.
        self.places.insert(step.id, step.index);
        match self.kept.last_mut() {
            _ if !kept => {}
            Some((_, to)) if *to + 1 == step.index => *to = step.index,
            _ => self.kept.push((step.index, step.index)),
        }
    }

    /// The path, which goes on at this step.
    #[must_use]
    pub fn finish(self, tip: Option<u64>) -> Path {
        Path { runs: self.runs, tip, kept: self.kept }
    }
}

impl Path {
    /// Whether a step is still a part of the conversation.
    #[must_use]
    pub fn has(&self, index: u64) -> bool {
        self.kept.iter().any(|(from, to)| (*from..=*to).contains(&index))
    }
}
