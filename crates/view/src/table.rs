//! `segue list`: one line per session, as wide as the terminal and no wider.

use comfy_table::{CellAlignment, Table, presets};
use jiff::Timestamp;
use segue_core::status::Status;

use crate::{
    crew,
    row::Row,
    style::{self, Paint, Style, relative, sanitize, shorten},
};

/// What the last column should have at least; others give way for it, the least telling first.
const ROOM_FOR_PROMPT: usize = 20;
const GAP: usize = 2;

/// A column and how readily it is left out: 0 never is.
const COLUMNS: [(&str, u8); 7] = [
    ("#", 0),
    ("status", 0),
    ("agent", 2),
    ("turns", 4),
    ("spend", 3),
    ("updated", 1),
    ("repo", 1),
];
const REPO: usize = 6;

/// The colour that a status has everywhere.
#[must_use]
pub fn status_paint(status: Status) -> Paint {
    match status {
        Status::Completed => Paint::Green,
        Status::Running => Paint::Cyan,
        Status::Created | Status::Prepared | Status::Discarded => Paint::Dim,
        Status::Crashed
        | Status::Failed
        | Status::AgentCrashed
        | Status::NotSignedIn
        | Status::Disk => Paint::Red,
        Status::Limit
        | Status::Interrupted
        | Status::Unattended
        | Status::Capped(_)
        | Status::Looping
        | Status::NoCase
        | Status::Empty
        | Status::Rewound
        | Status::HandedOff
        | Status::Drifted
        | Status::Overloaded
        | Status::Unreachable
        | Status::StreamCut
        | Status::ContextExhausted
        | Status::Silent
        | Status::Unknown => Paint::Yellow,
    }
}

/// The table, with its head, without a line break at its end. Empty where there is no row.
#[must_use]
pub fn list_table(rows: &[Row], style: &Style, now: Timestamp) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let cells: Vec<[String; 7]> = rows.iter().map(|row| cells(row, now)).collect();
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|n| cells.iter().map(|row| style::width(&row[n])).max().unwrap_or(0))
        .zip(COLUMNS)
        .map(|(width, (head, _))| width.max(head.len()))
        .collect();
    // In a list of one repository, its name says nothing.
    let several = rows.iter().any(|row| row.at.repo != rows[0].at.repo);
    let columns = (0..COLUMNS.len()).filter(|&n| n != REPO || several).collect();
    let shown = fitting(columns, &widths, style.width);
    let used: usize = shown.iter().map(|&n| widths[n] + GAP).sum();
    let room = style.width.saturating_sub(used).max(1);

    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let pick = |row: &[String; 7]| shown.iter().map(|&n| row[n].clone()).collect::<Vec<_>>();
    let mut head: Vec<String> = shown.iter().map(|&n| COLUMNS[n].0.to_owned()).collect();
    head.push(shorten("prompt", room).into_owned());
    table.set_header(head);
    for (row, cells) in rows.iter().zip(&cells) {
        let mut line = pick(cells);
        line.push(shorten(&subject(row), room).into_owned());
        table.add_row(line);
    }
    for (column, &n) in table.column_iter_mut().zip(&shown) {
        column.set_padding((0, GAP as u16));
        if matches!(COLUMNS[n].0, "#" | "turns" | "spend") {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    if let Some(last) = table.column_mut(shown.len()) {
        last.set_padding((0, 0));
    }
    let status = |row: &Row| (row.status(), row.problem.is_some());
    painted(&table, rows.iter().map(status), style)
}

/// The columns that leave room for the prompt.
fn fitting(mut shown: Vec<usize>, widths: &[usize], total: usize) -> Vec<usize> {
    let used = |shown: &[usize]| shown.iter().map(|&n| widths[n] + GAP).sum::<usize>();
    while used(&shown) + ROOM_FOR_PROMPT > total
        && let Some(at) = (0..shown.len())
            .filter(|&at| COLUMNS[shown[at]].1 > 0)
            .max_by_key(|&at| COLUMNS[shown[at]].1)
    {
        shown.remove(at);
    }
    shown
}

fn cells(row: &Row, now: Timestamp) -> [String; 7] {
    let repo = row.repo_identity.rsplit('/').next().unwrap_or_default();
    [
        row.number.map_or_else(|| "–".to_owned(), |number| number.to_string()),
        row.status().to_string(),
        shorten(&sanitize(&agents(row)), 24).into_owned(),
        row.turns.to_string(),
        spend(row),
        relative(row.updated_at, now),
        shorten(&sanitize(repo), 20).into_owned(),
    ]
}

/// Who works, and who reviews; of a crew, how many and of which kinds.
pub(crate) fn agents(row: &Row) -> String {
    if !row.crew.is_empty() {
        return crew::agents(&row.crew);
    }
    match row.reviewers.as_slice() {
        [] => row.agent.clone(),
        [one] => format!("{} ⇄ {one}", row.agent),
        [first, more @ ..] => format!("{} ⇄ {first} +{}", row.agent, more.len()),
    }
}

pub(crate) fn spend(row: &Row) -> String {
    match (row.tokens, style::money(row.cost, row.unpriced_calls).as_str()) {
        (0, "–" | "$0.00") => "–".to_owned(),
        (tokens, "–" | "$0.00") => style::tokens(tokens),
        (tokens, money) => format!("{} {money}", style::tokens(tokens)),
    }
}

/// What tells a session from the others: its name and its prompt; before both, what is wrong.
fn subject(row: &Row) -> String {
    // Of a crew, how everybody stands is worth more than what was said first.
    let prompt = match row.crew.is_empty() {
        true => sanitize(&row.prompt),
        false => sanitize(row.last_text.as_deref().unwrap_or_default()),
    };
    let text = match &row.name {
        Some(name) => format!("{} · {prompt}", sanitize(name)),
        None => prompt.into_owned(),
    };
    match &row.problem {
        Some(problem) => format!("⚠ {} · {text}", sanitize(problem)),
        None => text,
    }
}

/// The table knows nothing of colours, so they come last. Before the status there is only the
/// number, so the first place where its word stands is its place.
fn painted(table: &Table, rows: impl Iterator<Item = (Status, bool)>, style: &Style) -> String {
    let mut lines = table.lines();
    let head = lines.next().unwrap_or_default();
    let mut text = style.paint(Paint::Dim, head.trim_end());
    for (line, (status, has_problem)) in lines.zip(rows) {
        let word = status.to_string();
        let paint = status_paint(status);
        let mut line = line.trim_end().replacen(&word, &style.paint(paint, &word), 1);
        if has_problem {
            line = line.replacen('⚠', &style.paint(Paint::Yellow, "⚠"), 1);
        }
        text.push('\n');
        text.push_str(&line);
    }
    text
}

/// Rows in aligned columns, the last one wrapped to what is left of the width.
#[must_use]
pub fn plain_table<const N: usize>(rows: &[[String; N]], style: &Style) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(style::width(&sanitize(cell)));
        }
    }
    let before: usize = widths[..N - 1].iter().map(|width| width + 2).sum();
    let rest = style.width.saturating_sub(before).max(20);
    let mut text = String::new();
    for row in rows {
        for (cell, width) in row[..N - 1].iter().zip(widths) {
            let cell = sanitize(cell);
            text.push_str(&cell);
            text.extend(std::iter::repeat_n(' ', width + 2 - style::width(&cell)));
        }
        for (index, line) in style::wrap(&sanitize(&row[N - 1]), rest).iter().enumerate() {
            if index > 0 {
                text.push('\n');
                text.extend(std::iter::repeat_n(' ', before));
            }
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}
