//! Which sessions are in the table, in which order, and which one is selected.
//!
//! The selected one stays selected wherever it moves to, and those that run keep their places: a
//! table that is looked at must not dance.

use jiff::Timestamp;
use segue_core::{state::Phase, status::Status};
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

/// How many lines stand below a session: of a crew that was not taken down, one for each in it.
pub(super) fn members(row: &Row) -> usize {
    if row.phase == Phase::Stopped { 0 } else { row.crew.len() }
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown<'a> {
    Session { row: &'a Row, selected: bool },
    Member { row: &'a Row, member: usize },
}

#[derive(Debug)]
pub(super) struct Rows {
    all: Vec<Row>,
    /// Those that fit, by their places in `all`.
    found: Vec<usize>,
    /// What is selected is a place in `found`; what is seen begins at a line of the table, and a
    /// session may have several.
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
        let times = |shown: Shown<'_>| match shown {
            Shown::Session { row, .. } => Some(row.updated_at),
            Shown::Member { row, member } => row.crew.get(member).and_then(|one| one.since),
        };
        let mut times = self.shown().filter_map(times);
        times.any(|at| relative(at, before) != relative(at, now))
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

    /// The lines that are seen.
    pub(super) fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        let Scroll { at, top, height } = self.scroll;
        let lines = self.found().enumerate().flat_map(move |(place, row)| {
            let members = (0..members(row)).map(move |member| Shown::Member { row, member });
            std::iter::once(Shown::Session { row, selected: place == at }).chain(members)
        });
        lines.skip(top).take(height)
    }

    /// The line that a session begins at, and the one that the next one does.
    fn lines_of(&self, place: usize) -> (usize, usize) {
        let lines = |row: &Row| 1 + members(row);
        let before = self.found().take(place).map(lines).sum();
        (before, before + self.found().nth(place).map_or(0, lines))
    }

    /// The session that a line belongs to.
    fn place_of(&self, line: usize) -> usize {
        let mut end = 0;
        let past = |row: &Row| {
            end += 1 + members(row);
            end <= line
        };
        self.found().map(past).take_while(|past| *past).count()
    }

    /// Goes so many lines, to the session that is there, and from one to the next in any case.
    pub(super) fn step(&mut self, by: isize) {
        let last = self.found.len().saturating_sub(1);
        let at = self.scroll.at.min(last);
        let line = self.lines_of(at).0.saturating_add_signed(by);
        let there = self.place_of(line);
        self.scroll.at = if by > 0 { there.max(at + 1) } else { there }.min(last);
    }

    pub(super) fn page(&self) -> isize {
        self.scroll.page()
    }

    /// Scrolls as little as needed for the selected one to be seen, with all of its lines where
    /// there is room for them.
    pub(super) fn fit(&mut self, height: usize) {
        let height = height.max(1);
        let (first, end) = self.lines_of(self.scroll.at);
        let total = self.lines_of(self.found.len()).0;
        let lowest = end.saturating_sub(height).min(first);
        let last_top = total.saturating_sub(height);
        self.scroll.height = height;
        self.scroll.top = self.scroll.top.clamp(lowest, first).min(last_top);
    }
}
