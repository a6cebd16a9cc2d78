//! What keys mean on every screen.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub(crate) fn with_control(key: KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL)
}

/// How far a key moves in a list whose page is so long.
pub(crate) fn step(key: KeyEvent, page: isize) -> Option<isize> {
    match key.code {
        KeyCode::Up => Some(-1),
        KeyCode::Down => Some(1),
        KeyCode::Char('p') if with_control(key) => Some(-1),
        KeyCode::Char('n') if with_control(key) => Some(1),
        KeyCode::PageUp => Some(-page),
        KeyCode::PageDown => Some(page),
        KeyCode::Home => Some(isize::MIN),
        KeyCode::End => Some(isize::MAX),
        _ => None,
    }
}

/// How a key changes a text that is being typed, if it does.
pub(crate) fn edit(key: KeyEvent) -> Option<impl FnOnce(&mut String)> {
    let change = match key.code {
        KeyCode::Char('u') if with_control(key) => Change::Clear,
        KeyCode::Backspace => Change::Shorten,
        // What some terminals send for Backspace.
        KeyCode::Char('h') if with_control(key) => Change::Shorten,
        KeyCode::Char(c) if (key.modifiers - KeyModifiers::SHIFT).is_empty() => Change::Add(c),
        _ => return None,
    };
    Some(move |text: &mut String| match change {
        Change::Clear => text.clear(),
        Change::Shorten => drop(text.pop()),
        Change::Add(c) => text.push(harmless(c)),
    })
}

enum Change {
    Clear,
    Shorten,
    Add(char),
}

/// Pasted line breaks separate words, as blanks do.
pub(crate) fn harmless(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}
