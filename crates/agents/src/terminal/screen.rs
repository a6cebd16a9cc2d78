//! What is seen of a pane, and how one looks for something there.

use super::{ASKS, Sight};

/// What is seen of a pane.
#[derive(Clone, Copy, Debug)]
pub struct Screen<'a> {
    /// The visible lines, as `tmux capture-pane -p` has them.
    pub text: &'a str,
    /// The pane's title.
    pub title: &'a str,
}

/// Borders of boxes, and the marks in front of what is chosen or said.
const FRAME: &[char] = &[
    '│', '┃', '║', '╭', '╮', '╰', '╯', '─', '━', '▌', '▐', '█', '▀', '▄', '╹', '╻', '▎', '▏', '┌',
    '┐', '└', '┘', '├', '┤',
];

/// A line without the frame that it stands in.
pub(super) fn bare(line: &str) -> &str {
    line.trim_matches(|c: char| c.is_whitespace() || FRAME.contains(&c))
}

impl<'a> Screen<'a> {
    /// The lines up to the last one that is not blank.
    pub(super) fn lines(&self) -> Vec<&'a str> {
        let mut lines: Vec<&str> = self.text.lines().map(str::trim_end).collect();
        while lines.last().is_some_and(|line| line.is_empty()) {
            lines.pop();
        }
        lines
    }

    /// The last lines that are not blank.
    pub(super) fn tail(&self, most: usize) -> Vec<&'a str> {
        let mut lines: Vec<&str> =
            self.lines().into_iter().filter(|line| !line.trim().is_empty()).collect();
        lines.drain(..lines.len().saturating_sub(most));
        lines
    }
}

/// What a dialog asks: its last line with one of the words for that, else its last line that ends
/// like a question, else its first line.
pub(super) fn asks(dialog: &[&str], words: &[&str]) -> Sight {
    let mut lines: Vec<&str> = dialog.iter().map(|line| bare(line)).collect();
    lines.retain(|line| !line.is_empty());
    let word = |line: &&&str| words.iter().any(|word| line.contains(word));
    let found = lines.iter().rev().find(word);
    let found = found.or_else(|| lines.iter().rev().find(|line| line.ends_with('?')));
    Sight::waiting(found.or(lines.first()).copied().unwrap_or(ASKS))
}

/// The framed box that the screen ends with.
pub(super) fn bottom_box<'l, 'a>(lines: &'l [&'a str]) -> Option<&'l [&'a str]> {
    let framed = |line: &&str| line.trim_start().starts_with(['│', '╭', '╰', '├']);
    let last = lines.last()?;
    if !last.trim_start().starts_with('╰') {
        return None;
    }
    let above = lines.iter().rposition(|line| !framed(line)).map_or(0, |at| at + 1);
    lines.get(above..)
}

/// Whether a line is one of those to choose from: `2. Yes`, after any mark.
pub(super) fn is_choice(line: &str) -> bool {
    let line = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    digits > 0 && line.get(digits..).is_some_and(|rest| rest.starts_with(". "))
}

/// Whether the last lines of the screen have any of the words, which may be broken between two lines.
pub(super) fn foot(screen: &Screen<'_>, lines: usize, words: &[&str]) -> bool {
    let lines: Vec<&str> = screen.tail(lines).into_iter().map(str::trim).collect();
    any(&[&lines.join(" ")], words)
}

/// Whether any of the lines has any of the words.
pub(super) fn any(lines: &[&str], words: &[&str]) -> bool {
    lines.iter().any(|line| words.iter().any(|word| line.contains(word)))
}

/// Whether what stands in an input box is what was typed, as far as it shows: a long line is broken
/// there, and blanks may have become others.
pub(super) fn shows(box_line: &str, typed: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (shown, typed) = (words(box_line), words(typed));
    !shown.is_empty()
        && !typed.is_empty()
        && (typed.starts_with(&shown) || shown.starts_with(&typed))
}
