//! Aligned columns, with lines between them that have none. No line is wider than the terminal.

use crate::style::{Line, Paint, Style, sanitize, shorten, width};

const GAP: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    head: &'static str,
    right: bool,
    /// How narrow it may get where there is little room; `None`: it stays as it is.
    least: Option<usize>,
}

impl Column {
    pub(super) const fn left(head: &'static str) -> Self {
        Self { head, right: false, least: None }
    }

    pub(super) const fn right(head: &'static str) -> Self {
        Self { head, right: true, least: None }
    }

    pub(super) const fn at_least(self, least: usize) -> Self {
        Self { least: Some(least), ..self }
    }
}

pub(super) enum Entry<const N: usize> {
    Cells([(Paint, String); N]),
    /// A line of its own.
    Note(Paint, String),
}

/// The head and the lines, without a line break at the end. Everything is made harmless here.
pub(super) fn grid<const N: usize>(
    columns: &[Column; N],
    entries: &[Entry<N>],
    style: &Style,
) -> String {
    let widths = widths(columns, entries, style.width);
    let line = |cells: [(Paint, &str); N]| {
        let mut line = Line::new();
        for (n, ((paint, text), (column, wide))) in
            cells.into_iter().zip(columns.iter().zip(widths)).enumerate()
        {
            let text = sanitize(text);
            let text = shorten(&text, wide);
            let blanks = " ".repeat(wide.saturating_sub(width(&text)));
            let gap = " ".repeat(if n + 1 < N { GAP } else { 0 });
            line = match column.right {
                true => line.plain(blanks).with(paint, text).plain(gap),
                false => line.with(paint, text).plain(format!("{blanks}{gap}")),
            };
        }
        line.render(style).trim_end().to_owned()
    };
    let mut lines = vec![line(columns.map(|column| (Paint::Dim, column.head)))];
    lines.extend(entries.iter().map(|entry| match entry {
        Entry::Cells(cells) => line(cells.each_ref().map(|(paint, text)| (*paint, text.as_str()))),
        Entry::Note(paint, text) => Line::new().with(*paint, sanitize(text)).render(style),
    }));
    lines.join("\n")
}

/// As wide as what is in them; where that is too much, the later ones that can give way first.
fn widths<const N: usize>(columns: &[Column; N], entries: &[Entry<N>], total: usize) -> [usize; N] {
    let mut widths = columns.map(|column| width(column.head));
    for entry in entries {
        let Entry::Cells(cells) = entry else { continue };
        for (wide, (_, text)) in widths.iter_mut().zip(cells) {
            *wide = (*wide).max(width(&sanitize(text)));
        }
    }
    let used = widths.iter().sum::<usize>() + GAP * N.saturating_sub(1);
    let mut over = used.saturating_sub(total);
    for (wide, column) in widths.iter_mut().zip(columns).rev() {
        let Some(least) = column.least else { continue };
        let cut = wide.saturating_sub(least.max(width(column.head))).min(over);
        *wide -= cut;
        over -= cut;
    }
    widths
}
