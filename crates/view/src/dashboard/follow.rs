//! One session, followed live: its events as `segue watch` shows them, as far back as one scrolls.

use std::collections::VecDeque;

use segue_core::Event;
use segue_journal::{Home, home::Located, tail::Tail};

use crate::{
    error::Result,
    render::{Detail, event_lines},
    style::{Line, Style},
};

/// How many events from before are there at first; more, as one scrolls back.
const AT_FIRST: usize = 500;
const MORE: usize = 4;
/// What is kept of them, so that a session that is followed for days needs no more memory.
const MOST_LINES: usize = 20_000;

#[derive(Debug)]
pub(super) struct Follow {
    pub(super) at: Located,
    style: Style,
    lines: VecDeque<Line>,
    tail: Tail,
    /// How many events from before were asked for.
    asked: usize,
    /// There are events before the first line.
    older: bool,
    top: usize,
    height: usize,
    /// The end is seen, and what comes is followed.
    at_end: bool,
}

impl Follow {
    pub(super) fn open(home: &Home, at: &Located, style: &Style) -> Result<Self> {
        Self::with(home, at, style, AT_FIRST)
    }

    fn with(home: &Home, at: &Located, style: &Style, asked: usize) -> Result<Self> {
        let session = home.open(at)?;
        let mut events: Vec<Event> = session.newest_first()?.take(asked + 1).collect();
        let older = events.len() > asked;
        events.truncate(asked);
        let tail = Tail::new(&**home.disk(), session.dir(), session.position())?;
        let mut follow = Self {
            at: at.clone(),
            style: style.clone(),
            lines: VecDeque::new(),
            tail,
            asked,
            older,
            top: 0,
            height: 1,
            at_end: true,
        };
        events.reverse();
        follow.add(&events);
        Ok(follow)
    }

    fn add(&mut self, events: &[Event]) {
        for event in events {
            self.lines.extend(event_lines(event, &self.style, Detail::Full));
        }
        let too_many = self.lines.len().saturating_sub(MOST_LINES);
        if too_many > 0 {
            self.lines.drain(..too_many);
            self.top = self.top.saturating_sub(too_many);
            // The rest is for `segue log`.
            self.older = false;
        }
    }

    /// Reads what has come. Returns whether there was something.
    pub(super) fn look(&mut self) -> Result<bool> {
        let events = self.tail.new_events()?;
        self.add(&events);
        Ok(!events.is_empty())
    }

    /// Reads it again where lines are to be wider or narrower, or where older ones are wanted.
    /// Returns whether it did.
    pub(super) fn renew(&mut self, home: &Home, width: usize) -> Result<bool> {
        let wants_older = self.older && self.top == 0 && !self.at_end;
        if self.style.width == width && !wants_older {
            return Ok(false);
        }
        let asked = if wants_older { self.asked * MORE } else { self.asked };
        let style = Style { width, ..self.style.clone() };
        let renewed = Self::with(home, &self.at, &style, asked)?;
        let before = renewed.lines.len().saturating_sub(self.lines.len());
        let top = if wants_older { self.top + before } else { self.top };
        *self = Self { top, height: self.height, at_end: self.at_end, ..renewed };
        Ok(true)
    }

    fn last_top(&self) -> usize {
        self.lines.len().saturating_sub(self.height)
    }

    pub(super) fn step(&mut self, by: isize) {
        self.top = self.top.saturating_add_signed(by).min(self.last_top());
        self.at_end = self.top == self.last_top();
    }

    pub(super) fn page(&self) -> isize {
        isize::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(1)
    }

    pub(super) fn fit(&mut self, height: usize) {
        self.height = height.max(1);
        self.top = if self.at_end { self.last_top() } else { self.top.min(self.last_top()) };
    }

    pub(super) fn shown(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().skip(self.top).take(self.height)
    }

    /// How many lines come after what is seen.
    pub(super) fn below(&self) -> usize {
        self.last_top().saturating_sub(self.top)
    }
}
