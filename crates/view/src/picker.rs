//! Choosing a session on a terminal.
//!
//! ```text
//! keys ──► List (what is looked for, found, selected) ──► draw (a pure function) ──► the screen
//! ```
//!
//! The list is drawn on stderr, since stdout is the result. The terminal is as it was before on
//! every way out: a choice, an error, a signal, a panic.

use std::{io, time::Duration};

use jiff::Timestamp;
use ratatui::{
    Terminal,
    backend::Backend,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};

use crate::{row::Row, style::Style};

mod draw;
mod list;
mod preview;
mod screen;
#[cfg(test)]
mod tests;

use list::List;
use screen::Screen;

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

/// Waits for something to happen. What has come at once is done at once, so that a list that is
/// slow to draw does not lag behind the keys.
fn listen(list: &mut List<'_>) -> io::Result<Option<End>> {
    loop {
        screen::wait_for_input()?;
        if event::poll(Duration::ZERO)? {
            break;
        }
    }
    let mut end = None;
    while end.is_none() && event::poll(Duration::ZERO)? {
        end = match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => press(list, key),
            Event::Paste(text) => {
                list.search(|query| query.extend(text.chars().map(harmless)));
                None
            }
            _ => None,
        };
    }
    Ok(end)
}

/// Pasted line breaks separate words, as blanks do.
fn harmless(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

fn shorter(query: &mut String) {
    query.pop();
}

fn press(list: &mut List<'_>, key: KeyEvent) -> Option<End> {
    let page = list.page();
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Esc => return Some(End(None)),
        KeyCode::Char('c') if control => return Some(End(None)),
        KeyCode::Enter => return list.selected().map(|at| End(Some(at))),
        KeyCode::Up => list.step(-1),
        KeyCode::Down => list.step(1),
        KeyCode::Char('p') if control => list.step(-1),
        KeyCode::Char('n') if control => list.step(1),
        KeyCode::PageUp => list.step(-page),
        KeyCode::PageDown => list.step(page),
        KeyCode::Home => list.step(isize::MIN),
        KeyCode::End => list.step(isize::MAX),
        KeyCode::Char('u') if control => list.search(String::clear),
        KeyCode::Backspace => list.search(shorter),
        // What some terminals send for Backspace.
        KeyCode::Char('h') if control => list.search(shorter),
        KeyCode::Char(c) if (key.modifiers - KeyModifiers::SHIFT).is_empty() => {
            list.search(|query| query.push(harmless(c)));
        }
        _ => {}
    }
    None
}
