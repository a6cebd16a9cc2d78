//! Where things are put, in colours if there are any.

use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    style::{Color, Modifier, Style as Look},
};

use crate::style::{Line, Paint, Style, sanitize, width};

pub(crate) struct Canvas<'a> {
    pub(crate) style: &'a Style,
    pub(crate) buffer: &'a mut Buffer,
}

impl Canvas<'_> {
    /// Puts a text at a column of the first line of `room`, and nothing outside of it.
    pub(crate) fn put(&mut self, room: Rect, column: usize, paint: Paint, text: &str) {
        let column = u16::try_from(column).unwrap_or(u16::MAX);
        // An empty room may be anywhere.
        if !room.is_empty() && column < room.width {
            let left = usize::from(room.width - column);
            self.buffer.set_stringn(room.x + column, room.y, text, left, look(paint, self.style));
        }
    }

    /// Puts a line of differently painted pieces, cut to the room.
    pub(crate) fn put_line(&mut self, room: Rect, line: &Line) {
        let mut column = 0;
        for (paint, text) in line.fitting(room.width.into()) {
            self.put(room, column, paint, &text);
            column += width(&text);
        }
    }

    /// A rule through all of `room`: upright where it is one column wide.
    pub(crate) fn rule(&mut self, room: Rect) {
        let rule = if room.width == 1 { "│" } else { "─" };
        for line in room.rows() {
            self.put(line, 0, Paint::Dim, &rule.repeat(line.width.into()));
        }
    }

    /// What is being typed after `label`, and where the cursor belongs. Of a long text the end is
    /// seen: that is where one types.
    pub(crate) fn input(&mut self, room: Rect, label: &str, text: &str, right: &str) -> Position {
        const GAP: usize = 2;
        let total = usize::from(room.width);
        let before = width(label);
        let mut left = total.saturating_sub(before + 1);
        self.put(room, 0, Paint::Dim, label);
        if !right.is_empty() && left > width(right) + 12 {
            left -= width(right) + GAP;
            self.put(room, total - width(right), Paint::Dim, right);
        }
        // It may have been pasted.
        let clean = sanitize(text);
        let mut seen = clean.as_ref();
        while width(seen) > left {
            let mut rest = seen.chars();
            rest.next();
            seen = rest.as_str();
        }
        self.put(room, before, Paint::Bold, seen);
        let column = (before + width(seen)).min(total.saturating_sub(1));
        Position::new(room.x + u16::try_from(column).unwrap_or(0), room.y)
    }
}

fn look(paint: Paint, style: &Style) -> Look {
    let look = Look::new();
    match paint {
        _ if !style.color => look,
        Paint::Plain => look,
        Paint::Dim => look.add_modifier(Modifier::DIM),
        Paint::Bold => look.add_modifier(Modifier::BOLD),
        Paint::Green => look.fg(Color::Green),
        Paint::Red => look.fg(Color::Red),
        Paint::Yellow => look.fg(Color::Yellow),
        Paint::Cyan => look.fg(Color::Cyan),
    }
}
