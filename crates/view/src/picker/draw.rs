//! How the list looks, at any size. Nothing here changes anything but the buffer.
//!
//! ```text
//! search: refa                 2 of 12      where there is width for it, the preview is beside
//! ▸ 7  Refactoring  limit     14 h ago      the list; where there is no height, there is none
//!   3  Refactor it  crashed    2 d ago
//! ─────────────────────────────────────
//! status     limit · 14 h ago
//! prompt     Refactor the parser
//! enter choose · esc cancel
//! ```

use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
};

use crate::{
    row::Row,
    style::{Paint, Style, relative, shorten, width},
    table::status_paint,
    tui::{
        canvas::Canvas,
        preview,
        search::{agent, number},
    },
};

use super::list::{List, subject};

/// From how many columns on the preview is beside the list.
const BESIDE: u16 = 100;
/// What the subject should have at least; other columns give way for it.
const ROOM_FOR_SUBJECT: usize = 20;
const GAP: usize = 2;
const MARK: &str = "▸ ";
const SEARCH: &str = "search: ";
const KEYS: &str = "enter choose · esc cancel · ↑ ↓ move · type to search · ctrl-u clear";

/// What is where. A part for which there is no room is empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rooms {
    search: Rect,
    pub(super) list: Rect,
    rule: Rect,
    preview: Rect,
    keys: Rect,
}

impl Rooms {
    /// `rows`: how many there are in all, so that nothing jumps while typing.
    pub(super) fn of(area: Rect, rows: usize) -> Self {
        let Rect { x, y, width, height } = area;
        let band = |from: u16, lines: u16| Rect::new(x, y + from, width, lines).intersection(area);
        let keys = u16::from(height >= 8);
        let body = height.saturating_sub(1 + keys);
        let mut rooms = Self {
            search: band(0, 1),
            list: band(1.min(height), body),
            rule: Rect::ZERO,
            preview: Rect::ZERO,
            keys: band(height - keys, keys),
        };
        if width >= BESIDE {
            let left = width / 2;
            rooms.rule = Rect { x: x + left, width: 1, ..rooms.list };
            rooms.preview = Rect { x: x + left + 2, width: width - left - 2, ..rooms.list };
            rooms.list.width = left.saturating_sub(1);
        } else if body >= 6 {
            let lines = u16::try_from(rows).unwrap_or(u16::MAX).clamp(1, body / 2);
            rooms.list.height = lines;
            rooms.rule = band(1 + lines, 1);
            rooms.preview = band(2 + lines, body - lines - 1);
        }
        rooms
    }
}

/// Draws all of it, and says where the cursor belongs.
pub(super) fn draw(list: &List<'_>, rooms: &Rooms, style: &Style, buffer: &mut Buffer) -> Position {
    let mut canvas = Canvas { style, buffer };
    let count = format!("{} of {}", list.count(), list.rows.len());
    let cursor = canvas.input(rooms.search, SEARCH, list.query(), &count);
    let columns = Columns::of(list, rooms.list.width.into());
    for (line, (row, selected)) in rooms.list.rows().zip(list.shown()) {
        row_line(list, row, selected, &columns, line, &mut canvas);
    }
    if list.count() == 0
        && let Some(line) = rooms.list.rows().next()
    {
        canvas.put(line, 2, Paint::Dim, "nothing found · ctrl-u clears the search");
    }
    canvas.rule(rooms.rule);
    if let Some(at) = list.selected() {
        preview::draw(&list.rows[at], None, list.now, rooms.preview, &mut canvas);
    }
    canvas.put(rooms.keys, 0, Paint::Dim, &shorten(KEYS, rooms.keys.width.into()));
    cursor
}

/// How many columns each cell has; 0 where it is left out.
struct Columns {
    number: usize,
    subject: usize,
    agent: usize,
    status: usize,
    age: usize,
}

impl Columns {
    fn of(list: &List<'_>, total: usize) -> Self {
        let widths = list.widths;
        let left = total.saturating_sub(width(MARK) + widths.number + GAP);
        let mut cells = [widths.agent, widths.status, widths.age];
        let used = |cells: &[usize; 3]| -> usize {
            cells.iter().filter(|&&cell| cell > 0).map(|cell| cell + GAP).sum()
        };
        // The least telling one goes first.
        for (cell, least) in [(0, ROOM_FOR_SUBJECT), (2, ROOM_FOR_SUBJECT), (1, 8)] {
            if used(&cells) + least > left {
                cells[cell] = 0;
            }
        }
        let subject = left.saturating_sub(used(&cells));
        let [agent, status, age] = cells;
        Self { number: widths.number, subject, agent, status, age }
    }
}

fn row_line(
    list: &List<'_>,
    row: &Row,
    selected: bool,
    columns: &Columns,
    room: Rect,
    canvas: &mut Canvas<'_>,
) {
    let strong = if selected { Paint::Bold } else { Paint::Plain };
    if selected {
        canvas.put(room, 0, Paint::Cyan, MARK);
    }
    let number = number(row);
    let mut column = width(MARK) + columns.number;
    canvas.put(room, column - width(&number), strong, &number);
    column += GAP;
    canvas.put(room, column, strong, &shorten(&subject(row), columns.subject));
    column += columns.subject + GAP;
    let status = row.status();
    let cells = [
        (columns.agent, Paint::Plain, agent(row)),
        (columns.status, status_paint(status), status.to_string()),
        (columns.age, Paint::Dim, relative(row.updated_at, list.now)),
    ];
    for (wide, paint, text) in cells.into_iter().filter(|(wide, ..)| *wide > 0) {
        canvas.put(room, column, paint, &text);
        column += wide + GAP;
    }
}
