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
    /// The last step of each turn.
    ends: Vec<(u32, u64)>,
}

/// The runs of a session, and which steps the conversation consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    pub runs: Vec<Run>,
    /// The last step of the conversation.
    pub tip: Option<u64>,
    /// The parts that belong to it, the last one first.
    kept: Vec<(u64, u64)>,
}

impl Branches {
    /// One more step.
    pub fn offer(&mut self, step: &Step) {
        let after = step.parents.iter().filter_map(|id| self.places.get(id)).max().copied();
        // The other answers to one reply follow from that reply, and belong beside the first.
        let goes_on = step.batch > 1 || after.is_some_and(|after| after + 1 == step.index);
        match self.runs.last_mut() {
            Some(run) if goes_on => run.to = step.index,
            _ => self.runs.push(Run { after, from: step.index, to: step.index }),
        }
        // Of two steps with one id, the later one is where the conversation was last.
        self.places.insert(step.id, step.index);
        match self.ends.last_mut() {
            _ if step.turn == 0 => {}
            Some((turn, end)) if *turn == step.turn => *end = step.index,
            _ => self.ends.push((step.turn, step.index)),
        }
    }

    /// The path to the end of the conversation, whose last turn this is.
    #[must_use]
    pub fn finish(self, last_turn: u32) -> Path {
        let newest = self.ends.iter().map(|(turn, _)| *turn).max().unwrap_or(0);
        let last = self.runs.last().map(|run| run.to);
        let tip = match last_turn < newest {
            false => last,
            // It was rewound, and nothing has happened since.
            true => {
                let ends = self.ends.iter().rev();
                ends.copied().find(|(turn, _)| *turn <= last_turn).map(|(_, end)| end)
            }
        };
        let (mut kept, mut at) = (Vec::new(), tip);
        while let Some(to) = at {
            let run = self.runs.iter().rev().find(|run| (run.from..=run.to).contains(&to));
            let Some(run) = run else { break };
            kept.push((run.from, to));
            at = run.after;
        }
        Path { runs: self.runs, tip, kept }
    }
}

impl Path {
    /// Whether a step is still a part of the conversation.
    #[must_use]
    pub fn has(&self, index: u64) -> bool {
        self.kept.iter().any(|(from, to)| (*from..=*to).contains(&index))
    }
}
