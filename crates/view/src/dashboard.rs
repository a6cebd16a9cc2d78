//! All sessions at a glance, live, on a terminal.
//!
//! ```text
//! index, once a second ─► Rows ─┐
//! a followed journal ─► Follow ─┼─► Board ─► draw (when something changed) ─► the screen
//! keys ─────────────────────────┘     └───► Wish ─► Hands (who can start commands)
//! ```
//!
//! Nothing is changed from here: what is asked for is done by other commands, in processes of their
//! own, and what they say when they fail is shown. The terminal is as it was before on every way
//! out, as with the picker.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ratatui::{Terminal, backend::Backend, crossterm::event::Event};
use segue_journal::{Clock, home::Located};

use crate::{
    error::Result,
    index::{Filter, Index, Version},
    row::Row,
    style::Style,
    tui::screen::{self, Screen},
};

mod board;
mod columns;
mod draw;
mod follow;
mod rows;
#[cfg(test)]
mod tests;

use board::{Board, Wish};
use columns::Columns;
use follow::Follow;
pub use rows::sort;

/// How often all sessions are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often something that is waited for is looked at: what the followed one or a command says.
const LOOK_CLOSER: Duration = Duration::from_millis(150);

/// What a key asks to be done with a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Resume,
    Stop,
    HandOff {
        to: String,
    },
    /// Open its files: the one thing that needs the terminal.
    Open,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub at: Located,
    /// How commands name the session.
    pub selector: String,
    /// Whether it ran when it was asked for.
    pub running: bool,
    pub action: Action,
}

/// Who can start commands.
pub trait Hands {
    /// Starts what is asked for, and says what was started. Does not wait for it.
    fn start(&mut self, order: &Order) -> String;
    /// Whether something that was started may still have something to say.
    fn busy(&self) -> bool;
    /// What something that was started has said at its end.
    fn heard(&mut self) -> Option<String>;
    /// Opens the files of a session with a program that has the terminal meanwhile.
    fn open(&mut self, dir: &Path) -> io::Result<()>;
}

/// The table as text, for what is no terminal, without a line break at its end.
#[must_use]
pub fn table(rows: &[Row], style: &Style, now: Timestamp) -> String {
    let columns = Columns::of(rows.iter(), now, style.width);
    let mut lines = vec![columns.head().render(style)];
    for row in rows {
        lines.push(columns.line(row, false).render(style));
        let members = 0..rows::members(row);
        lines.extend(members.map(|member| columns.member(row, member).render(style)));
    }
    lines.join("\n")
}

/// The screen, until somebody quits. `repo`: only the sessions of this repository.
pub fn run(
    index: &mut Index,
    repo: Option<String>,
    clock: &Clock,
    style: &Style,
    hands: &mut dyn Hands,
) -> Result<(), io::Error> {
    let filter = Filter { repo, ..Filter::default() };
    let mut looker = Looker { index, filter, clock, version: None };
    let mut board = Board::new(clock());
    looker.look(&mut board);
    let mut screen = Screen::open()?;
    let mut next_look = Instant::now() + LOOK;
    loop {
        if std::mem::take(&mut board.changed) {
            show(screen.terminal(), &mut board, style)?;
        }
        let closer = board.follow.is_some() || hands.busy();
        let soon = Instant::now() + if closer { LOOK_CLOSER } else { LOOK };
        for event in screen::events(Some(next_look.min(soon)))? {
            match take_event(event, &mut board) {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Follow) => looker.follow(&mut board, style),
                Some(Wish::Do(order)) => act(&order, &looker, &mut board, &mut screen, hands)?,
                None => {}
            }
        }
        while let Some(said) = hands.heard() {
            board.say(said);
            next_look = Instant::now();
        }
        if Instant::now() >= next_look {
            looker.look(&mut board);
            next_look = Instant::now() + LOOK;
        }
        let width = screen.terminal().size()?.width.into();
        looker.look_closer(&mut board, width);
    }
}

fn take_event(event: Event, board: &mut Board) -> Option<Wish> {
    match event {
        Event::Key(key) => return board.press(key),
        Event::Paste(text) => board.paste(&text),
        Event::Resize(..) => board.changed = true,
        _ => {}
    }
    None
}

fn act(
    order: &Order,
    looker: &Looker<'_>,
    board: &mut Board,
    screen: &mut Screen,
    hands: &mut dyn Hands,
) -> io::Result<()> {
    if order.action != Action::Open {
        board.say(hands.start(order));
        return Ok(());
    }
    let dir = looker.index.home().session_dir(&order.at);
    if let Err(error) = screen.lend(|| hands.open(&dir))? {
        board.say(error.to_string());
    }
    Ok(())
}

fn show<B: Backend>(
    terminal: &mut Terminal<B>,
    board: &mut Board,
    style: &Style,
) -> Result<(), B::Error> {
    terminal.draw(|frame| draw::draw(board, style, frame)).map(drop)
}

/// Looks at the index and at journals, and says on the board what it saw. What can't be read now
/// is said too; the screen stays.
struct Looker<'a> {
    index: &'a mut Index,
    filter: Filter,
    clock: &'a Clock,
    version: Option<Version>,
}

impl Looker<'_> {
    fn look(&mut self, board: &mut Board) {
        match self.rows(board) {
            Ok(changed) => board.changed |= changed,
            Err(error) => board.say(error.to_string()),
        }
        for note in self.index.take_notes() {
            board.say(note);
        }
        board.changed |= board.rows.tick((self.clock)());
    }

    fn rows(&mut self, board: &mut Board) -> Result<bool> {
        self.index.refresh()?;
        // Asked before the rows are: what changes in between is seen the next time.
        let version = Some(self.index.version()?);
        if version == self.version {
            return Ok(board.rows.probe(self.index.home()));
        }
        self.version = version;
        Ok(board.rows.take(self.index.query(&self.filter)?.rows))
    }

    fn follow(&self, board: &mut Board, style: &Style) {
        let Some(row) = board.rows.selected() else { return };
        match Follow::open(self.index.home(), &row.at, style) {
            Ok(follow) => board.follow = Some(follow),
            Err(error) => board.say(error.to_string()),
        }
    }

    fn look_closer(&self, board: &mut Board, width: usize) {
        let Some(follow) = &mut board.follow else { return };
        let renewed = follow.renew(self.index.home(), width);
        match renewed.and_then(|changed| Ok(changed | follow.look()?)) {
            Ok(changed) => board.changed |= changed,
            Err(error) => board.say(error.to_string()),
        }
    }
}
