//! The table of `segue compare`: what each agent has made of the same task.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use segue_core::{State, state::Proof, status::Status};
use serde::Serialize;

use crate::show::advice;
use crate::style::{Style, duration, money, sanitize, shorten, tokens};
use crate::table::status_paint;

/// One of those who tried.
#[derive(Clone, Debug, Serialize)]
pub struct Contender {
    pub session: u64,
    pub agent: String,
    pub model: Option<String>,
    pub status: String,
    pub turns: u32,
    pub steps: u64,
    /// How many files it has changed; absent where nobody knows.
    pub files: Option<u64>,
    /// Whether the proof passed; absent where there is none.
    pub proof: Option<bool>,
    pub tokens: u64,
    pub cost_micros: u64,
    pub unpriced_calls: u64,
    pub seconds: u64,
    pub last_words: Option<String>,
    /// The command that goes on, where it is not done.
    pub next: Option<String>,
    #[serde(skip)]
    status_of: Status,
}

impl Contender {
    /// How a session stands, as one of several.
    #[must_use]
    pub fn of(state: &State, number: u64, steps: u64, files: Option<u64>) -> Self {
        let status = Status::of(state, false);
        let began = state.running_since.zip(state.updated_at);
        let seconds = began.map_or(0, |(from, to)| to.duration_since(from).as_secs());
        let has_proof = state.identity.as_ref().is_some_and(|found| found.proof.is_some());
        let base = state.base().map_or(0, |base| base.steps);
        let before = state.base().map_or(0, |base| base.turn);
        Self {
            session: number,
            agent: state.agent().to_owned(),
            model: state.model().map(str::to_owned),
            status: status.to_string(),
            turns: state.turn.number.saturating_sub(before),
            steps: steps.saturating_sub(base),
            files,
            proof: has_proof.then_some(state.proof == Proof::Passed),
            tokens: state.usage.total(),
            cost_micros: state.cost.0,
            unpriced_calls: state.unpriced_calls,
            seconds: u64::try_from(seconds).unwrap_or_default(),
            last_words: state.last_text.clone(),
            next: (status != Status::Completed).then(|| advice(status, state, &number.to_string())),
            status_of: status,
        }
    }
}

/// One line for each.
#[must_use]
pub fn table(contenders: &[Contender], style: &Style) -> String {
    let heads =
        ["#", "agent", "status", "proof", "files", "steps", "tokens", "cost", "time", "said"];
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(heads);
    for one in contenders {
        let proof = match one.proof {
            None => "–",
            Some(true) => "passes",
            Some(false) => "fails",
        };
        let cost = money(segue_core::usage::Micros(one.cost_micros), one.unpriced_calls);
        let said = one.last_words.as_deref().unwrap_or_default();
        let said = sanitize(said.lines().next().unwrap_or_default()).into_owned();
        table.add_row([
            one.session.to_string(),
            one.agent.clone(),
            style.paint(status_paint(one.status_of), &one.status),
            proof.to_owned(),
            one.files.map_or("–".to_owned(), |files| files.to_string()),
            one.steps.to_string(),
            tokens(one.tokens),
            cost,
            duration(Duration::from_secs(one.seconds)),
            shorten(&said, 32).into_owned(),
        ]);
    }
    for right in [0, 4, 5, 6, 7, 8] {
        if let Some(column) = table.column_mut(right) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
