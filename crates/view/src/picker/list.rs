//! What the list is about at a moment: all rows, what is looked for, what was found, and which of
//! it is selected.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::{
    row::Row,
    style::{relative, sanitize, shorten, width},
};

const AGENT_WIDTH: usize = 16;

#[derive(Debug)]
pub(super) struct List<'a> {
    pub(super) rows: &'a [Row],
    pub(super) now: Timestamp,
    pub(super) widths: Widths,
    /// What can be found in each row, in lower case.
    texts: Vec<String>,
    query: String,
    /// The rows that were found, best first, by their places in `rows`.
    found: Vec<usize>,
    /// The place of the selected one in `found`.
    at: usize,
    /// The place in `found` of the first one that is shown.
    top: usize,
    /// How many are shown.
    height: usize,
}

/// What the widest cell of each column needs. Of all rows, so that nothing jumps while scrolling.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Widths {
    pub(super) number: usize,
    pub(super) agent: usize,
    pub(super) status: usize,
    pub(super) age: usize,
}

impl<'a> List<'a> {
    pub(super) fn new(rows: &'a [Row], now: Timestamp) -> Self {
        let mut widths = Widths::default();
        for row in rows {
            widths.number = widths.number.max(width(&number(row)));
            widths.agent = widths.agent.max(width(&agent(row)));
            widths.status = widths.status.max(width(&row.status().to_string()));
            widths.age = widths.age.max(width(&relative(row.updated_at, now)));
        }
        Self {
            rows,
            now,
            widths,
            texts: rows.iter().map(text).collect(),
            query: String::new(),
            found: (0..rows.len()).collect(),
            at: 0,
            top: 0,
            height: 1,
        }
    }

    pub(super) fn query(&self) -> &str {
        &self.query
    }

    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    /// The selected row's place among all rows.
    pub(super) fn selected(&self) -> Option<usize> {
        self.found.get(self.at).copied()
    }

    /// Those that are shown, each with whether it is the selected one.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&'a Row, bool)> {
        let shown = self.found.iter().enumerate().skip(self.top).take(self.height);
        shown.map(|(at, &row)| (&self.rows[row], at == self.at))
    }

    /// Changes what is looked for. The first that is found is then selected: it's the best one.
    pub(super) fn search(&mut self, change: impl FnOnce(&mut String)) {
        change(&mut self.query);
        let query = self.query.to_lowercase();
        let words: Vec<&str> = query.split_whitespace().collect();
        let fits = |&row: &usize| words.iter().all(|word| self.texts[row].contains(word));
        self.found = (0..self.rows.len()).filter(fits).collect();
        // A 7 is in many ids, and who types it means the session with that number.
        let is_meant = |row: usize| {
            let number = number(&self.rows[row]);
            words.iter().any(|word| word.trim_start_matches('#') == number)
        };
        self.found.sort_by_key(|&row| !is_meant(row));
        (self.at, self.top) = (0, 0);
    }

    /// Moves so far down, or up, or as far as there is something.
    pub(super) fn step(&mut self, by: isize) {
        self.at = self.at.saturating_add_signed(by).min(self.found.len().saturating_sub(1));
    }

    /// How far a page goes: the last line of one is the first of the next.
    pub(super) fn page(&self) -> isize {
        isize::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(1)
    }

    /// Scrolls as little as needed for the selected one to be within so many lines, and fills
    /// them where there is enough.
    pub(super) fn fit(&mut self, height: usize) {
        self.height = height.max(1);
        let last_top = self.found.len().saturating_sub(self.height);
        let lowest = (self.at + 1).saturating_sub(self.height);
        self.top = self.top.clamp(lowest, self.at).min(last_top);
    }
}

/// What a row is found by, each part on a line of its own: no word is found across two.
fn text(row: &Row) -> String {
    let mut text = format!("#{}\n{}\n{}\n", number(row), row.agent, row.status());
    for part in row.name.iter().chain([&row.prompt, &row.repo_identity]).chain(&row.vendor_ids) {
        text.push_str(part);
        text.push('\n');
    }
    text.to_lowercase()
}

pub(super) fn number(row: &Row) -> String {
    row.number.map_or_else(|| "–".to_owned(), |number| number.to_string())
}

pub(super) fn agent(row: &Row) -> String {
    shorten(&sanitize(&row.agent), AGENT_WIDTH).into_owned()
}

/// What tells a session from the others: its name, else its prompt.
pub(super) fn subject(row: &Row) -> Cow<'_, str> {
    let text = sanitize(row.name.as_deref().unwrap_or(&row.prompt));
    match row.problem {
        Some(_) => Cow::Owned(format!("⚠ {text}")),
        None => text,
    }
}
