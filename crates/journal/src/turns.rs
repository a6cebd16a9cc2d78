//! The conversation's own events: those of the turns that a rewind has left in it.
//!
//! Turns stand in the journal in their order, so the place of one is found by halving, and what a
//! rewind left behind is jumped over: neither costs more in a longer session.

use std::path::PathBuf;

use segue_core::{Event, State};

use crate::{
    base::Layer,
    disk::DiskFile,
    error::Result,
    line,
    reverse::Reverse,
    scan::Lines,
    session::{Session, open_journal},
};

/// Below this, halving costs more than reading on.
const NEAR: u64 = 64 * 1024;

/// Where the first event of turn `turn`, or of one after it, begins; `end` where there is none.
fn start_of(file: &dyn DiskFile, turn: u32, end: u64) -> u64 {
    let (mut low, mut high) = (0, end);
    while high - low > NEAR {
        let middle = low + (high - low) / 2;
        match next_turn(file, middle, high) {
            // Nothing but events without a turn up to `high`: the border is before them.
            None => high = middle,
            Some(found) if found.turn >= turn => high = middle,
            Some(found) => low = found.after,
        }
    }
    let mut lines = Lines::new(file, if low == 0 { 0 } else { line_start(file, low, end) });
    loop {
        let at = lines.offset();
        if at >= end {
            return end;
        }
        let Ok(Some(Ok(bytes))) = lines.next_raw() else { return end };
        let Ok(found) = line::decode(bytes) else { return end };
        if found.event.turn.is_some_and(|number| number >= turn) {
            return at;
        }
    }
}

struct Found {
    turn: u32,
    /// Where the line after it begins.
    after: u64,
}

/// The first event after an offset that belongs to a turn.
fn next_turn(file: &dyn DiskFile, offset: u64, end: u64) -> Option<Found> {
    let mut lines = Lines::new(file, line_start(file, offset, end));
    while lines.offset() < end {
        let Ok(Some(Ok(bytes))) = lines.next_raw() else { return None };
        let turn = line::decode(bytes).ok()?.event.turn;
        if let Some(turn) = turn {
            return Some(Found { turn, after: lines.offset() });
        }
    }
    None
}

/// The start of the line after an offset, or the offset itself where a line begins there.
fn line_start(file: &dyn DiskFile, offset: u64, end: u64) -> u64 {
    if offset == 0 {
        return 0;
    }
    let mut at = offset - 1;
    let mut buffer = [0; 4096];
    while at < end {
        let Ok(got) = file.read_full(&mut buffer, at) else { return end };
        if got == 0 {
            return end;
        }
        if let Some(found) = buffer[..got].iter().position(|&byte| byte == b'\n') {
            return at + found as u64 + 1;
        }
        at += got as u64;
    }
    end
}

/// The conversation's events from the last to the first.
#[derive(Debug)]
pub struct Conversed<'a> {
    session: &'a Session,
    events: Reverse,
    /// The journal that is being read.
    dir: PathBuf,
    /// Those that it goes on with, the next one last.
    before: Vec<Layer>,
}

impl Conversed<'_> {
    /// The next event of the journal that is being read, or of the one before it.
    fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.next() {
                return Some(event);
            }
            // One that can't be read to its start is damaged: what is before it does not follow.
            if self.events.offset() > 0 {
                return None;
            }
            let layer = self.before.pop()?;
            let file = open_journal(&**self.session.disk(), &layer.dir).ok()?;
            self.events = Reverse::new(file, layer.end);
            self.dir = layer.dir;
        }
    }
}

impl Iterator for Conversed<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.event()?;
            let Some(turn) = event.turn else { return Some(event) };
            let state = self.session.state();
            if state.on_path(turn) {
                return Some(event);
            }
            // Over all that was left behind, to the end of the last turn before it that counts.
            let kept = last_kept_before(state, turn);
            let file = open_journal(&**self.session.disk(), &self.dir).ok()?;
            let end = start_of(&*file, kept + 1, self.events.offset());
            self.events = Reverse::new(file, end);
        }
    }
}

fn last_kept_before(state: &State, turn: u32) -> u32 {
    let spans = state.path().into_iter().filter(|span| span.to < turn);
    spans.map(|span| span.to).max().unwrap_or(0)
}

impl Session {
    /// The conversation's events, newest first: without those of turns that a rewind left behind,
    /// and with those of the session that this one begins with.
    pub fn conversed(&self) -> Result<Conversed<'_>> {
        let mut before = self.layers()?;
        before.reverse();
        let own = before.pop();
        let dir = own.map_or_else(|| self.dir().to_owned(), |layer| layer.dir);
        Ok(Conversed { session: self, events: self.newest_first()?, dir, before })
    }

    /// The events of one turn, in order.
    pub fn turn(&self, turn: u32, mut each: impl FnMut(&Event) -> Result<()>) -> Result<()> {
        let Layer { dir, end, .. } = self.layer_of(turn)?;
        let file = open_journal(&**self.disk(), &dir)?;
        let mut lines = Lines::new(&*file, start_of(&*file, turn, end));
        while lines.offset() < end {
            let Ok(Some(Ok(bytes))) = lines.next_raw() else { break };
            let Ok(found) = line::decode(bytes) else { break };
            match found.event.turn {
                Some(number) if number > turn => break,
                _ => each(&found.event)?,
            }
        }
        Ok(())
    }
}
