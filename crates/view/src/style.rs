//! How things look: colours, widths, times, sums. Nothing here knows what it prints.
//!
//! Text from agents or other tools could move the cursor, change the clipboard or hide what
//! follows. [`sanitize`] makes it harmless; everything that was in a journal goes through it.

use std::{borrow::Cow, time::Duration};

use jiff::{Timestamp, tz::TimeZone};
use segue_core::usage::Micros;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What the output is for: a terminal, or a file.
#[derive(Clone, Debug)]
pub struct Style {
    pub color: bool,
    pub width: usize,
    /// In which times of day are given.
    pub zone: TimeZone,
}

impl Style {
    /// With the times of this machine.
    #[must_use]
    pub fn new(color: bool, width: usize) -> Self {
        Self { color, width, zone: TimeZone::system() }
    }

    /// Without colours, in UTC.
    #[must_use]
    pub fn plain(width: usize) -> Self {
        Self { color: false, width, zone: TimeZone::UTC }
    }

    #[must_use]
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        match paint.code() {
            Some(code) if self.color && !text.trim().is_empty() => {
                format!("\x1b[{code}m{text}\x1b[0m")
            }
            _ => text.to_owned(),
        }
    }

    /// `18:03:22`
    #[must_use]
    pub fn time_of_day(&self, at: Timestamp) -> String {
        at.to_zoned(self.zone.clone()).strftime("%H:%M:%S").to_string()
    }

    /// `2026-11-15 18:03 UTC`
    #[must_use]
    pub fn date_and_time(&self, at: Timestamp) -> String {
        at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M %Z").to_string()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Dim,
    Bold,
    Green,
    Red,
    Yellow,
    Cyan,
}

impl Paint {
    fn code(self) -> Option<u8> {
        match self {
            Self::Plain => None,
            Self::Bold => Some(1),
            Self::Dim => Some(2),
            Self::Red => Some(31),
            Self::Green => Some(32),
            Self::Yellow => Some(33),
            Self::Cyan => Some(36),
        }
    }
}

/// One line of differently painted pieces, which is measured and cut before it is painted.
#[derive(Clone, Debug, Default)]
pub struct Line(Vec<(Paint, String)>);

impl Line {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with(mut self, paint: Paint, text: impl Into<String>) -> Self {
        self.0.push((paint, text.into()));
        self
    }

    #[must_use]
    pub fn plain(self, text: impl Into<String>) -> Self {
        self.with(Paint::Plain, text)
    }

    /// Cut to the style's width, painted, and without blanks at its end.
    #[must_use]
    pub fn render(&self, style: &Style) -> String {
        let mut line = String::new();
        for (paint, text) in self.fitting(style.width) {
            line.push_str(&style.paint(paint, &text));
        }
        line
    }

    /// The pieces, cut to so many columns and without blanks at their end.
    pub(crate) fn fitting(&self, width: usize) -> Vec<(Paint, Cow<'_, str>)> {
        let total: usize = self.0.iter().map(|(_, text)| text.width()).sum();
        let mut left = width;
        let mut pieces = Vec::new();
        for (n, (paint, text)) in self.0.iter().enumerate() {
            if total > width && text.width() >= left {
                // The mark is there also where this piece would just fit: something follows.
                let cut = shorten(&format!("{text}…"), left).into_owned();
                pieces.push((*paint, Cow::Owned(cut)));
                break;
            }
            left = left.saturating_sub(text.width());
            let is_last = n + 1 == self.0.len();
            pieces.push((*paint, Cow::Borrowed(if is_last { text.trim_end() } else { text })));
        }
        pieces
    }
}

/// How many columns a terminal needs for `text`.
#[must_use]
pub fn width(text: &str) -> usize {
    text.width()
}

/// Cuts `text` to `width` columns, with `…` as the last of them where something is left out.
#[must_use]
pub fn shorten(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let kept: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used < width
        })
        .collect();
    let mark = if width == 0 { "" } else { "…" };
    Cow::Owned(format!("{}{mark}", kept.trim_end()))
}

/// Breaks `text` into lines of at most `width` columns; its own line breaks stay.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    text.lines()
        .flat_map(|line| {
            let line = sanitize(line).trim_end().to_owned();
            textwrap::wrap(&line, width.max(8)).into_iter().map(Cow::into_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// The same, where what is broken off a line stands below its first word: code and lists stay
/// readable in a narrow pane.
#[must_use]
pub fn wrap_hanging(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let broken = |line: &str| {
        let line = sanitize(line).trim_end().to_owned();
        let text = line.trim_start_matches([' ', '-', '*']);
        let hang = " ".repeat((line.len() - text.len()).min(width / 2));
        let options = textwrap::Options::new(width).subsequent_indent(&hang);
        textwrap::wrap(&line, options).into_iter().map(Cow::into_owned).collect::<Vec<_>>()
    };
    text.lines().flat_map(broken).collect()
}

/// Makes a text harmless and one line: whole escape sequences are dropped, line breaks and tabs
/// become blanks, and whatever else could steer a terminal or turn the direction of reading
/// becomes `\u{fffd}`.
#[must_use]
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\x1b' => match escape_sequence(rest) {
                Some(length) => rest = &rest[length..],
                None => clean.push('\u{fffd}'),
            },
            // A run of them is one gap.
            '\n' | '\r' | '\t' | '\x0b' | '\x0c' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                if !clean.is_empty() && !clean.ends_with(' ') {
                    clean.push(' ');
                }
            }
            c if is_hostile(c) => clean.push('\u{fffd}'),
            c => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
            // Joins the parts of one emoji, and does nothing else.
            && c != '\u{200d}'
}

/// How long the sequence after an ESC is, if it is one that a terminal would take whole.
fn escape_sequence(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    match bytes.first()? {
        b'[' => {
            let end = bytes[1..].iter().position(|byte| !(0x20..0x40).contains(byte))? + 1;
            (0x40..0x7f).contains(&bytes[end]).then_some(end + 1)
        }
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let end = bytes.iter().position(|byte| matches!(byte, 0x07 | 0x1b | b'\n'))?;
            match bytes[end] {
                0x07 => Some(end + 1),
                0x1b if bytes.get(end + 1) == Some(&b'\\') => Some(end + 2),
                _ => None,
            }
        }
        b'(' | b')' if bytes.get(1).is_some_and(u8::is_ascii_alphanumeric) => Some(2),
        b'7' | b'8' | b'=' | b'>' | b'c' | b'M' => Some(1),
        _ => None,
    }
}

/// `14 h ago`, `in 3 min`, `now`; a date where it is long ago.
#[must_use]
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs();
    let span = match seconds.unsigned_abs() {
        0..5 => return "now".to_owned(),
        s @ 5..60 => format!("{s} s"),
        s @ 60..3_600 => format!("{} min", s / 60),
        s @ 3_600..172_800 => format!("{} h", s / 3_600),
        s @ 172_800..5_184_000 => format!("{} d", s / 86_400),
        _ => return at.strftime("%Y-%m-%d").to_string(),
    };
    // What is still to come is waited for: the minutes count.
    let until = Duration::from_secs(seconds.unsigned_abs());
    match seconds.unsigned_abs() {
        60..172_800 if seconds < 0 => format!("in {}", duration(until)),
        _ if seconds < 0 => format!("in {span}"),
        _ => format!("{span} ago"),
    }
}

/// `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
#[must_use]
pub fn duration(span: Duration) -> String {
    let two = |big: u64, unit: &str, small: u64, sub: &str| match small {
        0 => format!("{big} {unit}"),
        small => format!("{big} {unit} {small} {sub}"),
    };
    match span.as_secs() {
        0..10 if span.subsec_millis() >= 100 => format!("{:.1} s", span.as_secs_f64()),
        s @ 0..60 => format!("{s} s"),
        s @ 60..3_600 => two(s / 60, "min", s % 60, "s"),
        s @ 3_600..86_400 => two(s / 3_600, "h", s % 3_600 / 60, "min"),
        s => two(s / 86_400, "d", s % 86_400 / 3_600, "h"),
    }
}

/// `1 line`, `3 lines`.
#[must_use]
pub fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// `812`, `9.4k`, `412k`, `2M`.
#[must_use]
pub fn tokens(count: u64) -> String {
    scaled(count, &["", "k", "M", "G"])
}

/// `812 B`, `4.2 kB`, `3 MB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    scaled(count, &[" B", " kB", " MB", " GB", " TB"])
}

/// Three digits at most, and one behind the point where there is only one before it.
fn scaled(count: u64, units: &[&str]) -> String {
    let (count, mut size, mut unit) = (u128::from(count), 1, 0);
    let rounded = |size: u128| (count + size / 2) / size;
    // What would be rounded up to the next unit is shown in that unit.
    while unit + 1 < units.len() && rounded(size) >= 1000 {
        unit += 1;
        size *= 1000;
    }
    let tenths = (count * 10 + size / 2) / size;
    if size > 1 && tenths < 100 && tenths % 10 > 0 {
        format!("{}.{}{}", tenths / 10, tenths % 10, units[unit])
    } else {
        format!("{}{}", rounded(size), units[unit])
    }
}

/// What stands for a sum where no price is known.
pub const NO_PRICE: &str = "–";

/// `$0.12`; `≥ $0.12` where the price of some calls is not known, `–` where that of none is.
#[must_use]
pub fn money(cost: Micros, unpriced_calls: u64) -> String {
    let sum = match cost.0 {
        // A few cents, and not nothing.
        1..10_000 => format!("${:.4}", cost.dollars()),
        _ => format!("${:.2}", cost.dollars()),
    };
    match (cost.0, unpriced_calls) {
        (_, 0) => sum,
        (0, _) => NO_PRICE.to_owned(),
        _ => format!("≥ {sum}"),
    }
}
