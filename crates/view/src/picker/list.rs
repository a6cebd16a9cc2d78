//! What the list is about at a moment: all rows, what is looked for, what was found, and which of
//! it is selected.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::{
    row::Row,
    style::{relative, sanitize, width},
    tui::{
        scroll::Scroll,
        search::{self, Query, agent, number},
    },
};

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
    /// Over `found`.
    scroll: Scroll,
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
            texts: rows.iter().map(search::text).collect(),
            query: String::new(),
            found: (0..rows.len()).collect(),
            scroll: Scroll::default(),
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
        self.found.get(self.scroll.at).copied()
    }

    /// Those that are shown, each with whether it is the selected one.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&'a Row, bool)> {
        let Scroll { at: selected, top, height } = self.scroll;
        let shown = self.found.iter().enumerate().skip(top).take(height);
        shown.map(move |(at, &row)| (&self.rows[row], at == selected))
    }

    /// Changes what is looked for. The first that is found is then selected: it's the best one.
    pub(super) fn search(&mut self, change: impl FnOnce(&mut String)) {
        change(&mut self.query);
        let query = Query::new(&self.query);
        self.found = (0..self.rows.len()).filter(|&row| query.fits(&self.texts[row])).collect();
        self.found.sort_by_key(|&row| !query.means(&self.rows[row]));
        (self.scroll.at, self.scroll.top) = (0, 0);
    }

    pub(super) fn step(&mut self, by: isize) {
        self.scroll.step(by, self.found.len());
    }

    pub(super) fn page(&self) -> isize {
        self.scroll.page()
    }

    pub(super) fn fit(&mut self, height: usize) {
        self.scroll.fit(height, self.found.len());
    }
}

/// What tells a session from the others: its name, else its prompt.
pub(super) fn subject(row: &Row) -> Cow<'_, str> {
    let text = sanitize(row.name.as_deref().unwrap_or(&row.prompt));
    match row.problem {
        Some(_) => Cow::Owned(format!("⚠ {text}")),
        None => text,
    }
}
