//! The lines on the left of a graph: a lane for each branch, opened where it leaves another one.
//!
//! The conversation keeps the lane that it has; what was left behind moves to the right. In a part
//! that was left behind as a whole, what came last keeps it.

use std::collections::HashMap;

use segue_core::steps::{Path, Run};

/// Steps that stand in one lane.
#[derive(Clone, Debug)]
struct Chain {
    /// Its last step.
    to: u64,
    lane: Option<usize>,
}

/// Steps without a gap, and the chain that they belong to.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u64,
    to: u64,
    chain: usize,
}

#[derive(Debug)]
pub(super) struct Lanes {
    chains: Vec<Chain>,
    pieces: Vec<Piece>,
    /// The chains that begin after a step.
    opening: HashMap<u64, Vec<usize>>,
    /// Which chain has each lane now.
    lanes: Vec<Option<usize>>,
}

impl Lanes {
    pub(super) fn new(path: &Path) -> Self {
        let mut joints: Vec<u64> = path.runs.iter().filter_map(|run| run.after).collect();
        joints.extend(path.tip);
        joints.sort_unstable();
        joints.dedup();
        let (mut opening, mut next, mut starts) = (HashMap::new(), HashMap::new(), Vec::new());
        for &joint in &joints {
            let mut follow: Vec<u64> = path
                .runs
                .iter()
                .filter(|run| run.after == Some(joint))
                .map(|run| run.from)
                .collect();
            follow.extend(run_of(path, joint).filter(|run| joint < run.to).map(|_| joint + 1));
            follow.sort_unstable();
            let on = match path.has(joint) {
                true => follow.iter().copied().rfind(|&step| path.has(step)),
                false => follow.last().copied(),
            };
            next.insert(joint, on);
            for &step in follow.iter().filter(|&&step| Some(step) != on) {
                opening.entry(joint).or_insert_with(Vec::new).push(starts.len());
                starts.push(step);
            }
        }
        starts.extend(path.runs.iter().filter(|run| run.after.is_none()).map(|run| run.from));

        let (mut chains, mut pieces) = (Vec::new(), Vec::new());
        for (chain, start) in starts.into_iter().enumerate() {
            let (mut at, mut to) = (Some(start), start);
            while let Some(from) = at
                && let Some(run) = run_of(path, from)
            {
                let joint = joints.iter().copied().find(|joint| (from..=run.to).contains(joint));
                to = joint.unwrap_or(run.to);
                pieces.push(Piece { from, to, chain });
                at = joint.and_then(|joint| next.get(&joint).copied().flatten());
            }
            chains.push(Chain { to, lane: None });
        }
        pieces.sort_unstable_by_key(|piece| piece.from);
        Self { chains, pieces, opening, lanes: Vec::new() }
    }

    fn chain_of(&self, step: u64) -> Option<usize> {
        let at = self.pieces.partition_point(|piece| piece.from <= step).checked_sub(1)?;
        let piece = self.pieces.get(at).filter(|piece| step <= piece.to)?;
        Some(piece.chain)
    }

    /// What stands before the sign of a step, and after it. `answer` is for one of several answers,
    /// and says whether it is the last.
    pub(super) fn node(&mut self, step: u64, answer: Option<bool>) -> (String, String) {
        let mine = self.chain_of(step).map_or(0, |chain| self.lane(chain, 0));
        let open = self.lanes.iter().map(Option::is_some);
        let line = |open: bool| if open { "│ " } else { "  " };
        let before: String = open.clone().take(mine).map(line).collect();
        let after = open.skip(mine + 1);
        let Some(is_last) = answer else {
            let after: String = after.map(|open| if open { " │" } else { "  " }).collect();
            return (before, after.trim_end().to_owned());
        };
        // It stands beside its lane, across the lanes on the right.
        let joint = if is_last { "└─" } else { "├─" };
        let mut across: Vec<&str> = after.map(|open| if open { "┼─" } else { "──" }).collect();
        across.truncate(across.iter().rposition(|lane| *lane == "┼─").map_or(0, |at| at + 1));
        (before + joint + &across.concat(), String::new())
    }

    /// The lines after a step: where it opens a branch, and none elsewhere.
    pub(super) fn after(&mut self, step: u64) -> Vec<String> {
        let Some(chain) = self.chain_of(step) else { return Vec::new() };
        let mine = self.lane(chain, 0);
        let ends = self.chains[chain].to == step;
        if ends {
            self.lanes[mine] = None;
        }
        let opening = self.opening.remove(&step).unwrap_or_default();
        let mut lines = Vec::new();
        for (n, &new) in opening.iter().enumerate() {
            let was_open: Vec<bool> = self.lanes.iter().map(Option::is_some).collect();
            let lane = self.lane(new, mine + 1);
            let is_last = ends && n + 1 == opening.len();
            let sign = |at: usize| match (at, was_open.get(at).copied().unwrap_or(false)) {
                (at, _) if at == mine && is_last => "└─",
                (at, _) if at == mine => "├─",
                (at, _) if at == lane => "╮ ",
                (at, true) if at > mine && at < lane => "┼─",
                (at, false) if at > mine && at < lane => "──",
                (_, true) => "│ ",
                (_, false) => "  ",
            };
            let line: String = (0..self.lanes.len()).map(sign).collect();
            lines.push(line.trim_end().to_owned());
        }
        while self.lanes.last().is_some_and(Option::is_none) {
            self.lanes.pop();
        }
        lines
    }

    /// The lane of a chain, which it gets where it has none.
    fn lane(&mut self, chain: usize, least: usize) -> usize {
        if let Some(lane) = self.chains[chain].lane {
            return lane;
        }
        let free = (least..self.lanes.len()).find(|&lane| self.lanes[lane].is_none());
        let lane = free.unwrap_or(self.lanes.len().max(least));
        self.lanes.resize(self.lanes.len().max(lane + 1), None);
        self.lanes[lane] = Some(chain);
        self.chains[chain].lane = Some(lane);
        lane
    }
}

fn run_of(path: &Path, step: u64) -> Option<&Run> {
    path.runs.iter().find(|run| (run.from..=run.to).contains(&step))
}
