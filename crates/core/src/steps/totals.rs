//! What the steps of a session add up to.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::{Said, Step, StepKind};
use crate::usage::{Micros, Usage};

/// Sums over steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub steps: u64,
    pub by_kind: BTreeMap<&'static str, u64>,
    /// How often each tool has answered.
    pub tools: BTreeMap<String, u64>,
    /// In the order of their first step.
    pub agents: Vec<String>,
    pub models: Vec<String>,
    pub usage: Usage,
    /// Absent where no price is known.
    #[serde(rename = "cost_micros")]
    pub cost: Option<Micros>,
    pub turns: u64,
    /// From the first step of each turn to its last.
    pub millis: u64,
    #[serde(skip)]
    turn: Option<(u32, Timestamp, Timestamp)>,
}

impl Totals {
    /// One more step.
    pub fn add(&mut self, step: &Step) {
        self.steps += 1;
        *self.by_kind.entry(step.kind.word()).or_default() += 1;
        for said in &step.said {
            if let (StepKind::Tool, Said::Result { name, .. }) = (step.kind, said) {
                *self.tools.entry(name.clone()).or_default() += 1;
            }
        }
        for (names, name) in [(&mut self.agents, &step.agent), (&mut self.models, &step.model)] {
            if let Some(name) = name.as_ref().filter(|name| !names.contains(name)) {
                names.push(name.clone());
            }
        }
        self.usage += step.usage;
        if let Some(cost) = step.cost {
            *self.cost.get_or_insert_default() += cost;
        }
        self.time(step);
    }

    fn time(&mut self, step: &Step) {
        match &mut self.turn {
            Some((turn, _, end)) if *turn == step.turn => *end = step.at.max(*end),
            // What belongs to no turn comes between two of them.
            _ if step.turn == 0 => {}
            _ => {
                self.close();
                self.turns += 1;
                self.turn = Some((step.turn, step.began, step.at));
            }
        }
    }

    fn close(&mut self) {
        if let Some((_, began, end)) = self.turn.take() {
            let millis = end.duration_since(began).as_millis();
            self.millis += u64::try_from(millis).unwrap_or(0);
        }
    }

    /// The sums, with the last turn.
    #[must_use]
    pub fn finish(mut self) -> Self {
        self.close();
        self
    }
}
