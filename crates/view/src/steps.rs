//! `segue log --steps`: one line per step, as wide as the terminal and no wider.
//!
//! ```text
//!     #  id          kind      turn  agent     tokens     cost     time  what
//!     0  5d1c40e8aa  prompt       1  native                              Write a.txt
//!     1  91be7702cd  reply        1  native       940        –    1.2 s  I write it.
//! ↶   2  0cc2d1a6f3  tool         1  native                       0.1 s  ✓ write_file  a.txt
//! ```
//!
//! Lines are made one at a time, before the next step is known, so the columns have fixed widths.

use std::time::Duration;

use segue_core::{
    SessionId,
    event::ToolStatus,
    payload::Payload,
    steps::{Said, Step, StepId, StepKind},
    usage::{Micros, Usage},
};
use serde::Serialize;

use crate::{
    style::{self, Line, Paint, Style, duration, money, sanitize, shorten, tokens},
    telling::telling,
};

/// What a title should have at least; other columns give way for it.
const ROOM_FOR_TITLE: usize = 24;

/// How much of a title JSON has.
const TITLE_CHARS: usize = 240;

/// The sign of a step that the conversation has left behind.
pub const LEFT_BEHIND: &str = "↶";

/// A column, how wide it is, and how readily it is left out: 0 never is.
struct Column {
    name: &'static str,
    width: usize,
    right: bool,
    yields: u8,
}

const fn column(name: &'static str, width: usize, right: bool, yields: u8) -> Column {
    Column { name, width, right, yields }
}

const COLUMNS: [Column; 9] = [
    column("#", 5, true, 0),
    column("id", 10, false, 0),
    column("kind", 8, false, 0),
    column("turn", 4, true, 3),
    column("agent", 8, false, 2),
    column("model", 18, false, 5),
    column("tokens", 6, true, 1),
    column("cost", 8, true, 4),
    column("time", 8, true, 1),
];
const GAP: usize = 2;

/// The list of steps, line by line.
#[derive(Debug)]
pub struct StepList<'a> {
    style: &'a Style,
    shown: Vec<usize>,
}

impl<'a> StepList<'a> {
    #[must_use]
    pub fn new(style: &'a Style) -> Self {
        let mut shown: Vec<usize> = (0..COLUMNS.len()).collect();
        let used = |shown: &[usize]| shown.iter().map(|&n| COLUMNS[n].width + GAP).sum::<usize>();
        while used(&shown) + ROOM_FOR_TITLE > style.width
            && let Some(at) = (0..shown.len())
                .filter(|&at| COLUMNS[shown[at]].yields > 0)
                .max_by_key(|&at| COLUMNS[shown[at]].yields)
        {
            shown.remove(at);
        }
        Self { style, shown }
    }

    /// The line above the first step.
    #[must_use]
    pub fn head(&self) -> String {
        let cells = COLUMNS.map(|column| column.name.to_owned());
        Line::new().with(Paint::Dim, self.cells(&cells, " ") + "what").render(self.style)
    }

    /// The line of a step, and whether the conversation has left it behind.
    #[must_use]
    pub fn line(&self, step: &Step, left_behind: bool) -> String {
        let cost = match (step.kind, step.cost) {
            (StepKind::Reply, None) => style::NO_PRICE.to_owned(),
            (_, None) => String::new(),
            (_, Some(cost)) => money(cost, 0),
        };
        let used = step.usage.total();
        let cells = [
            step.index.to_string(),
            step.id.short(),
            step.kind.word().to_owned(),
            if step.turn > 0 { step.turn.to_string() } else { String::new() },
            sanitize(step.agent.as_deref().unwrap_or_default()).into_owned(),
            sanitize(step.model.as_deref().unwrap_or_default()).into_owned(),
            if used > 0 { tokens(used) } else { String::new() },
            cost,
            time(step.millis()),
        ];
        let mark = if left_behind { LEFT_BEHIND } else { " " };
        let (before, title) = (self.cells(&cells, mark), signed_title(step));
        let line = match left_behind {
            true => Line::new().with(Paint::Dim, before).with(Paint::Dim, title),
            false => Line::new().plain(before).with(kind_paint(step.kind), title),
        };
        line.render(self.style)
    }

    fn cells(&self, cells: &[String; COLUMNS.len()], mark: &str) -> String {
        let mut text = mark.to_owned();
        for &n in &self.shown {
            let column = &COLUMNS[n];
            // The mark stands in the first column.
            let width = if n == 0 { column.width - 1 } else { column.width };
            let cell = match n {
                0 => cells[n].as_str().into(),
                _ => shorten(&cells[n], width),
            };
            let blanks = " ".repeat(width.saturating_sub(style::width(&cell)));
            match column.right {
                true => text.extend([blanks.as_str(), &cell]),
                false => text.extend([&cell, blanks.as_str()]),
            }
            text.push_str(&" ".repeat(GAP));
        }
        text
    }
}

/// How people call a session: `#7 "parser"`.
pub(crate) fn label(number: Option<u64>, id: SessionId, name: Option<&str>) -> String {
    let number = number.map_or_else(|| id.to_string(), |number| format!("#{number}"));
    match name {
        Some(name) => format!("{number} \"{}\"", sanitize(name)),
        None => number,
    }
}

/// The colour of a step's words.
pub(crate) fn kind_paint(kind: StepKind) -> Paint {
    match kind {
        StepKind::Prompt => Paint::Bold,
        StepKind::HandOff | StepKind::Verdict | StepKind::Proof => Paint::Cyan,
        StepKind::Error => Paint::Red,
        StepKind::Reply | StepKind::Tool => Paint::Plain,
    }
}

fn time(millis: u64) -> String {
    match millis {
        0..100 => String::new(),
        millis => duration(Duration::from_millis(millis)),
    }
}

/// What a step says first: harmless, and on one line.
#[must_use]
pub fn title(step: &Step) -> String {
    let words = match step.kind {
        StepKind::Tool => step.said.iter().find_map(|said| match said {
            Said::Result { name, input, .. } => {
                let asked = input.as_ref().map(telling).unwrap_or_default();
                Some(format!("{name}  {asked}"))
            }
            _ => None,
        }),
        StepKind::Verdict => step.said.iter().find_map(|said| match said {
            Said::Text(text) => verdict(text),
            _ => None,
        }),
        _ => None,
    };
    let words = words.unwrap_or_else(|| step.title());
    sanitize(words.trim()).chars().take(TITLE_CHARS).collect()
}

/// `codex: fail The test is missing`
fn verdict(text: &Payload) -> Option<String> {
    let said: serde_json::Value = serde_json::from_str(text.head()).ok()?;
    let field = |name: &str| said[name].as_str().unwrap_or_default();
    Some(format!("{}: {} {}", field("reviewer"), field("verdict"), field("summary")))
}

/// The same with the sign of how it went, where that is known.
pub(crate) fn signed_title(step: &Step) -> String {
    match result(step) {
        Some((_, status, exit)) => format!("{} {}", outcome_sign(status, exit).1, title(step)),
        None => title(step),
    }
}

/// How a tool, or a proof, went: its colour, its sign, and a word for what is not fine.
pub(crate) fn outcome_sign(
    status: ToolStatus,
    exit: Option<i32>,
) -> (Paint, &'static str, &'static str) {
    match status {
        ToolStatus::MayHaveRun => (Paint::Yellow, "?", "may have run"),
        ToolStatus::Interrupted => (Paint::Yellow, "✗", "interrupted"),
        ToolStatus::NotRun => (Paint::Yellow, "–", "not run"),
        ToolStatus::Done if exit.is_none_or(|exit| exit == 0) => (Paint::Green, "✓", ""),
        ToolStatus::Done | ToolStatus::Failed => (Paint::Red, "✗", "failed"),
        ToolStatus::Unknown => (Paint::Yellow, "?", "unknown"),
    }
}

fn result(step: &Step) -> Option<(&str, ToolStatus, Option<i32>)> {
    step.said.iter().find_map(|said| match said {
        Said::Result { name, status, exit, .. } => Some((name.as_str(), *status, *exit)),
        _ => None,
    })
}

/// One step of `segue log --steps --json`, and one node of `segue show --graph --json`.
#[derive(Clone, Debug, Serialize)]
pub struct StepJson {
    pub index: u64,
    pub id: StepId,
    pub parents: Vec<StepId>,
    pub kind: StepKind,
    pub turn: u32,
    pub agent: Option<String>,
    pub model: Option<String>,
    /// The last event that it is made of.
    pub seq: u64,
    /// Nothing is under way after it: one can go on from here.
    pub whole: bool,
    /// The conversation goes on without it.
    pub left_behind: bool,
    pub at: jiff::Timestamp,
    pub usage: Usage,
    pub cost_micros: Option<Micros>,
    pub millis: u64,
    pub title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolJson>,
}

/// How a tool's answer, or a proof's, was.
#[derive(Clone, Debug, Serialize)]
pub struct ToolJson {
    /// Absent for a proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub status: ToolStatus,
    pub exit: Option<i32>,
}

impl StepJson {
    #[must_use]
    pub fn of(step: &Step, left_behind: bool) -> Self {
        let tool = result(step).map(|(name, status, exit)| ToolJson {
            name: (!name.is_empty()).then(|| name.to_owned()),
            status,
            exit,
        });
        Self {
            index: step.index,
            id: step.id,
            parents: step.parents.clone(),
            kind: step.kind,
            turn: step.turn,
            agent: step.agent.clone(),
            model: step.model.clone(),
            seq: step.seq,
            whole: step.whole,
            left_behind,
            at: step.at,
            usage: step.usage,
            cost_micros: step.cost,
            millis: step.millis(),
            title: title(step),
            tool,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
