//! What the table says of a session, cell by cell, and which cells there is room for. The same for
//! the screen and for what is printed once.

use jiff::Timestamp;
use segue_core::{State, caps::Cap, event::Doing, status::Status};

use crate::{
    crew::{self, MemberRow},
    row::Row,
    show::advice,
    style::{Line, Paint, count, relative, sanitize, shorten, width},
    table::{self, spend, status_paint},
    tui::search::{agent, number},
};

const GAP: usize = 2;
const MARK: &str = "▸ ";
const TASK_WIDTH: usize = 28;
const AGENTS_WIDTH: usize = 18;
/// Of a member's line.
const NAME_WIDTH: usize = 18;
const AGE_WIDTH: usize = 6;

/// A column: its head, how wide it is at least (so that little jumps), and how much must be left
/// for what was said, or else it is left out. They go from the last of [`GIVE_WAY`] on.
struct Column {
    head: &'static str,
    least: usize,
    leaves: usize,
}

const COLUMNS: [Column; 7] = [
    Column { head: "#", least: 1, leaves: 0 },
    Column { head: "state", least: 9, leaves: 0 },
    Column { head: "progress", least: 8, leaves: 12 },
    Column { head: "agents", least: 6, leaves: 12 },
    Column { head: "spend", least: 6, leaves: 12 },
    Column { head: "age", least: 6, leaves: 12 },
    Column { head: "task", least: 4, leaves: 36 },
];
const NUMBER: usize = 0;
const STATE: usize = 1;
const SPEND: usize = 4;
/// The least telling one first.
const GIVE_WAY: [usize; 5] = [6, 4, 3, 5, 2];

type Cells = [String; 7];

/// How far a session has come.
pub(super) fn progress(row: &Row) -> String {
    if !row.crew.is_empty() {
        let down = |member: &&MemberRow| matches!(member.doing, Doing::Down | Doing::Degraded);
        let up = row.crew.len() - row.crew.iter().filter(down).count();
        return format!("{up}/{} up", row.crew.len());
    }
    match (row.iteration, row.turns) {
        (0, 0) => "–".to_owned(),
        (0, turns) => format!("turn {turns}"),
        (iteration, _) => match row.max_iterations {
            Some(most) => format!("iter {iteration}/{most}"),
            None => format!("iter {iteration}"),
        },
    }
}

/// Who works on it.
fn agents(row: &Row) -> String {
    match row.reviewers.is_empty() {
        // Each of them has a line of its own.
        true if !row.crew.is_empty() => count(row.crew.len() as u64, "agent"),
        true => agent(row),
        false => sanitize(&table::agents(row)).into_owned(),
    }
}

fn cells(row: &Row, now: Timestamp) -> Cells {
    let age = relative(row.updated_at, now);
    [
        number(row),
        row.status().to_string(),
        progress(row),
        shorten(&agents(row), AGENTS_WIDTH).into_owned(),
        spend(row),
        age.strip_suffix(" ago").unwrap_or(&age).to_owned(),
        shorten(&sanitize(task(row)), TASK_WIDTH).into_owned(),
    ]
}

/// What tells a session from the others.
pub(super) fn task(row: &Row) -> &str {
    row.name.as_deref().unwrap_or(&row.prompt).trim()
}

/// The last line that was said, or what is wrong; before anything was said, the task.
fn said(row: &Row) -> (Paint, String) {
    if let Some(problem) = &row.problem {
        return (Paint::Yellow, format!("⚠ {}", sanitize(problem)));
    }
    let text = row.last_text.as_deref().unwrap_or_default();
    match text.lines().rev().map(|line| sanitize(line.trim())).find(|line| !line.is_empty()) {
        Some(line) => (Paint::Plain, line.into_owned()),
        None => (Paint::Dim, sanitize(task(row)).into_owned()),
    }
}

/// The columns that there is room for, made for all rows: nothing jumps while scrolling.
pub(super) struct Columns {
    shown: Vec<usize>,
    widths: [usize; 7],
    now: Timestamp,
}

impl Columns {
    pub(super) fn of<'a>(
        rows: impl Iterator<Item = &'a Row>,
        now: Timestamp,
        total: usize,
    ) -> Self {
        let mut widths = COLUMNS.map(|column| column.least);
        for row in rows {
            for (wide, cell) in widths.iter_mut().zip(cells(row, now)) {
                *wide = (*wide).max(width(&cell));
            }
        }
        let mut shown: Vec<usize> = (0..COLUMNS.len()).collect();
        for column in GIVE_WAY {
            let used: usize = shown.iter().map(|&n| widths[n] + GAP).sum();
            if width(MARK) + used + COLUMNS[column].leaves > total {
                shown.retain(|&n| n != column);
            }
        }
        Self { shown, widths, now }
    }

    pub(super) fn head(&self) -> Line {
        let mut line = Line::new().plain(" ".repeat(width(MARK)));
        for &n in &self.shown {
            line = line.with(Paint::Dim, self.padded(n, COLUMNS[n].head));
        }
        line.with(Paint::Dim, "last words")
    }

    pub(super) fn line(&self, row: &Row, selected: bool) -> Line {
        let strong = if selected { Paint::Bold } else { Paint::Plain };
        let mark = if selected { MARK } else { "  " };
        let mut line = Line::new().with(Paint::Cyan, mark);
        let cells = cells(row, self.now);
        for &n in &self.shown {
            let paint = if n == STATE { status_paint(row.status()) } else { strong };
            line = line.with(paint, self.padded(n, &cells[n]));
        }
        let (paint, said) = said(row);
        line.with(if paint == Paint::Plain { strong } else { paint }, said)
    }

    /// The line of one of a crew, below that of the crew.
    pub(super) fn member(&self, row: &Row, member: usize) -> Line {
        let Some(one) = row.crew.get(member) else { return Line::new() };
        let widest = |cell: fn(&MemberRow) -> String| {
            row.crew.iter().map(|one| width(&cell(one))).max().unwrap_or_default()
        };
        let column = |cell: fn(&MemberRow) -> String| {
            let text = cell(one);
            let blanks = " ".repeat(widest(cell).saturating_sub(width(&text)) + GAP);
            format!("{text}{blanks}")
        };
        let (paint, sign) = crew::look(one.doing);
        let branch = if member + 1 == row.crew.len() { "└ " } else { "├ " };
        let indent = width(MARK) + self.widths[NUMBER] + GAP;
        let since = crew::age(one.since, self.now);
        let needed = matches!(one.doing, Doing::Waiting | Doing::Degraded | Doing::Unreachable);
        let strong = if needed { paint } else { Paint::Plain };
        let line = Line::new()
            .with(Paint::Dim, format!("{}{branch}", " ".repeat(indent)))
            .with(strong, column(|one| shorten(&sanitize(&one.name), NAME_WIDTH).into_owned()))
            .plain(column(|one| shorten(&sanitize(&one.agent), NAME_WIDTH).into_owned()))
            .with(paint, column(|one| one.doing.to_string()))
            .with(Paint::Dim, format!("{since:<AGE_WIDTH$}"));
        match one.what.as_deref().filter(|_| needed) {
            Some(what) => line.with(paint, format!("  {sign} {}", sanitize(what.trim()))),
            None => line,
        }
    }

    fn padded(&self, column: usize, text: &str) -> String {
        let blanks = " ".repeat(self.widths[column].saturating_sub(width(text)));
        let gap = " ".repeat(GAP);
        match column {
            NUMBER | SPEND => format!("{blanks}{text}{gap}"),
            _ => format!("{text}{blanks}{gap}"),
        }
    }
}

/// The command that helps. What a cap was is not in a row, so that the new one is left open.
pub(super) fn next(row: &Row) -> String {
    let selector = row.selector();
    if row.problem.is_some() && row.holder.is_none() {
        return format!("segue verify {selector}");
    }
    match row.status() {
        Status::Capped(cap) if !matches!(cap, Cap::WallClock | Cap::Unknown) => {
            format!("segue resume {selector} {} N", cap.flag())
        }
        Status::ContextExhausted if !row.vendor_ids.is_empty() => {
            format!("segue resume {selector} --fresh")
        }
        status => {
            let state = State { stop: row.stop.clone(), ..State::default() };
            advice(status, &state, &selector)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing::row;

    #[test]
    fn a_pair_says_how_far_it_is_and_who_takes_part() {
        let mut pair = row(7, "Refactor");
        assert_eq!((progress(&pair).as_str(), agents(&pair).as_str()), ("turn 3", "codex"));
        pair.iteration = 8;
        pair.max_iterations = Some(50);
        pair.reviewers = vec!["claude".to_owned()];
        assert_eq!(
            (progress(&pair).as_str(), agents(&pair).as_str()),
            ("iter 8/50", "codex ⇄ claude")
        );
        pair.reviewers.push("gemini".to_owned());
        assert_eq!(agents(&pair), "codex ⇄ claude +1");
    }
}
