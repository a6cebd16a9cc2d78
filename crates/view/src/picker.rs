//! Choosing a session on a terminal.
//!
//! ```text
//! keys ──► List (what is looked for, found, selected) ──► draw (a pure function) ──► the screen
//! ```
//!
//! The list is drawn on stderr, since stdout is the result. The terminal is as it was before on
//! every way out: a choice, an error, a signal, a panic.

use std::io;

use jiff::Timestamp;
use ratatui::{
    Terminal,
    backend::Backend,
    crossterm::event::{Event, KeyCode, KeyEvent},
};

use crate::{
    row::Row,
    style::Style,
    tui::{
        keys::{edit, harmless, step, with_control},
        screen::{self, Screen},
    },
};

mod draw;
mod list;
#[cfg(test)]
mod tests;

use list::List;

/// Lets the user choose one of the rows. `None` where they would rather not, and where there is
/// nothing to choose from.
pub fn pick(rows: &[Row], now: Timestamp, style: &Style) -> io::Result<Option<usize>> {
    if rows.is_empty() {
        return Ok(None);
    }
    let mut list = List::new(rows, now);
    let mut screen = Screen::open()?;
    loop {
        show(screen.terminal(), &mut list, style)?;
        if let Some(end) = listen(&mut list)? {
            return Ok(end.0);
        }
    }
}

/// How the choice ended: with a row, or without one.
#[derive(Debug, PartialEq, Eq)]
struct End(Option<usize>);

fn show<B: Backend>(
    terminal: &mut Terminal<B>,
    list: &mut List<'_>,
    style: &Style,
) -> Result<(), B::Error> {
    terminal.draw(|frame| {
        let rooms = draw::Rooms::of(frame.area(), list.rows.len());
        list.fit(rooms.list.height.into());
        let cursor = draw::draw(list, &rooms, style, frame.buffer_mut());
        frame.set_cursor_position(cursor);
    })?;
    Ok(())
}

fn listen(list: &mut List<'_>) -> io::Result<Option<End>> {
    for event in screen::events(None)? {
        let end = match event {
            Event::Key(key) => press(list, key),
            Event::Paste(text) => {
                list.search(|query| query.extend(text.chars().map(harmless)));
                None
            }
            _ => None,
        };
        if end.is_some() {
            return Ok(end);
        }
    }
    Ok(None)
}

fn press(list: &mut List<'_>, key: KeyEvent) -> Option<End> {
    match key.code {
        KeyCode::Esc => return Some(End(None)),
        KeyCode::Char('c') if with_control(key) => return Some(End(None)),
        KeyCode::Enter => return list.selected().map(|at| End(Some(at))),
        _ => {}
    }
    if let Some(by) = step(key, list.page()) {
        list.step(by);
    } else if let Some(change) = edit(key) {
        list.search(change);
    }
    None
}
