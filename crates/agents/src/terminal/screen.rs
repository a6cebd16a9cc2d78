//! What is seen of a pane, and how one looks for something there.

use super::Sight;

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

    /// The last of the lines with one of these words, as a question.
    pub(super) fn asks(lines: &[&str], words: &[&str]) -> Option<Sight> {
        let line = lines.iter().rev().find(|line| words.iter().any(|word| line.contains(word)))?;
        Some(Sight::waiting(bare(line)))
    }
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
