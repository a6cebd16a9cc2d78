//! Which sessions are in the table, in which order, and which one is selected.
//!
//! The selected one stays selected wherever it moves to, and those that run keep their places: a
//! table that is looked at must not dance.

use jiff::Timestamp;
use segue_core::status::Status;
use segue_journal::Home;

use crate::{
    row::Row,
    style::relative,
    tui::{
        scroll::Scroll,
        search::{self, Query},
    },
};

/// How much a session wants to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Running,
    /// It would go on, and waits for a limit, a server, a sign-in, or for somebody after a crash.
    Waiting,
    Rest,
}

pub(super) fn rank(row: &Row) -> Rank {
    match row.status() {
        Status::Running => Rank::Running,
        Status::Limit
        | Status::Overloaded
        | Status::Unreachable
        | Status::NotSignedIn
        | Status::Crashed
        | Status::Unattended => Rank::Waiting,
        _ => Rank::Rest,
    }
}

/// Active ones first. Those that run by when they were made, since all of them change all the
/// time; the others by when they last changed. The newest first.
pub fn sort(rows: &mut [Row]) {
    rows.sort_by_cached_key(|row| {
        let rank = rank(row);
        let at = if rank == Rank::Running { row.created_at } else { row.updated_at };
        (rank, std::cmp::Reverse((at, row.number, row.at.id)))
    });
}

#[derive(Debug)]
pub(super) struct Rows {
    all: Vec<Row>,
    /// Those that fit, by their places in `all`.
    found: Vec<usize>,
    /// Over `found`.
    scroll: Scroll,
    pub(super) filter: String,
    pub(super) active_only: bool,
    pub(super) now: Timestamp,
}

impl Rows {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            all: Vec::new(),
            found: Vec::new(),
            scroll: Scroll::default(),
            filter: String::new(),
            active_only: false,
            now,
        }
    }

    /// Takes what the index says now. Returns whether that is anything new.
    pub(super) fn take(&mut self, mut rows: Vec<Row>) -> bool {
        sort(&mut rows);
        if rows == self.all {
            return false;
        }
        let selected = self.selected().map(|row| row.at.clone());
        self.all = rows;
        self.find();
        let place = |at| self.found.iter().position(|&row| self.all[row].at == at);
        // Of one that has gone, the place stays.
        self.scroll.at = selected.and_then(place).unwrap_or(self.scroll.at);
        self.step(0);
        true
    }

    /// Looks who is still at work.
    pub(super) fn probe(&mut self, home: &Home) -> bool {
        let mut rows = self.all.clone();
        rows.iter_mut().for_each(|row| row.probe(home));
        self.take(rows)
    }

    /// It is now so late. Returns whether that is to be seen.
    pub(super) fn tick(&mut self, now: Timestamp) -> bool {
        let before = std::mem::replace(&mut self.now, now);
        self.shown()
            .any(|(row, _)| relative(row.updated_at, before) != relative(row.updated_at, now))
    }

    /// Changes what is shown of all. The first one is then selected.
    pub(super) fn narrow(&mut self, change: impl FnOnce(&mut Self)) {
        change(self);
        self.find();
        (self.scroll.at, self.scroll.top) = (0, 0);
    }

    fn find(&mut self) {
        let query = Query::new(&self.filter);
        let fits = |row: &Row| {
            (!self.active_only || rank(row) < Rank::Rest)
                && (self.filter.is_empty() || query.fits(&search::text(row)))
        };
        self.found = (0..self.all.len()).filter(|&row| fits(&self.all[row])).collect();
        if !self.filter.is_empty() {
            self.found.sort_by_key(|&row| !query.means(&self.all[row]));
        }
    }

    pub(super) fn selected(&self) -> Option<&Row> {
        self.found.get(self.scroll.at).map(|&row| &self.all[row])
    }

    pub(super) fn all(&self) -> &[Row] {
        &self.all
    }

    pub(super) fn found(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.found.iter().map(|&row| &self.all[row])
    }

    /// Those that are seen, each with whether it is the selected one.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&Row, bool)> {
        let Scroll { at: selected, top, height } = self.scroll;
        let seen = self.found().enumerate().skip(top).take(height);
        seen.map(move |(at, row)| (row, at == selected))
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
