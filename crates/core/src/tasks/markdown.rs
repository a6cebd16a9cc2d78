//! As much of Markdown as a page needs: what each line is.
//!
//! Inside a fenced code block nothing is a heading or a bullet. A comment that begins a line
//! (`<!-- … -->`) is for those who write the page, and is left out.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Blank,
    /// `## Text`
    Heading {
        level: usize,
        text: &'a str,
    },
    /// A bullet or a number, with what follows it and, if there was one, without its checkbox.
    Item(&'a str),
    /// `---`, `* * *`
    Rule,
    /// A line of a fenced code block, or one of its fences.
    Code,
    Text,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) number: usize,
    /// Without white space at its end.
    pub(super) text: &'a str,
    pub(super) kind: Kind<'a>,
}

impl Line<'_> {
    /// In columns.
    pub(super) fn indent(&self) -> usize {
        let blanks = self.text.chars().take_while(|c| c.is_whitespace());
        blanks.fold(0, |column, c| if c == '\t' { column / 4 * 4 + 4 } else { column + 1 })
    }
}

/// What goes on over several lines, and the line where it began.
enum Open<'a> {
    Code { fence: &'a str, line: usize },
    Comment { line: usize },
}

/// What the lines are; also, where something is not closed, its first line and what is to be said.
pub(super) fn lines<'a>(
    numbered: impl Iterator<Item = (usize, &'a str)>,
) -> (Vec<Line<'a>>, Option<(usize, &'static str)>) {
    let mut found = Vec::new();
    let mut open = None;
    for (number, whole) in numbered {
        let mut text = whole.trim_end();
        if let Some(Open::Code { fence, .. }) = open {
            if closes(text, fence) {
                open = None;
            }
            found.push(Line { number, text, kind: Kind::Code });
            continue;
        }
        let begins = open.is_none() && text.trim_start().starts_with("<!--");
        if begins || open.is_some() {
            let Some((_, rest)) = text.split_once("-->") else {
                open = open.or(Some(Open::Comment { line: number }));
                continue;
            };
            open = None;
            text = rest;
            if text.is_empty() {
                continue;
            }
        }
        let mut kind = kind(text);
        if let Some(fence) = opens(text) {
            open = Some(Open::Code { fence, line: number });
            kind = Kind::Code;
        }
        found.push(Line { number, text, kind });
    }
    let unclosed = open.map(|open| match open {
        Open::Code { line, .. } => (line, "the code block that begins here is not closed"),
        Open::Comment { line } => (line, "the comment that begins here is not closed: --> ends it"),
    });
    (found, unclosed)
}

/// The text of the lines, without blank ones at its ends.
pub(super) fn joined(lines: &[Line<'_>]) -> String {
    let is_blank = |line: &&Line<'_>| line.kind == Kind::Blank;
    let before = lines.iter().take_while(is_blank).count();
    let after = lines[before..].iter().rev().take_while(is_blank).count();
    let texts: Vec<&str> =
        lines[before..lines.len() - after].iter().map(|line| line.text).collect();
    texts.join("\n")
}

/// The signs of the fence that a code block begins with.
fn opens(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let sign = text.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let rest = text.trim_start_matches(sign);
    let fence = &text[..text.len() - rest.len()];
    // Otherwise it is code within a line.
    (fence.len() >= 3 && !(sign == '`' && rest.contains('`'))).then_some(fence)
}

fn closes(text: &str, fence: &str) -> bool {
    let text = text.trim();
    let same = |c| fence.starts_with::<char>(c);
    text.len() >= fence.len() && text.chars().all(same)
}

fn kind(text: &str) -> Kind<'_> {
    if text.is_empty() {
        return Kind::Blank;
    }
    if is_rule(text) {
        return Kind::Rule;
    }
    if let Some((level, text)) = heading(text) {
        return Kind::Heading { level, text };
    }
    item(text.trim_start()).map_or(Kind::Text, Kind::Item)
}

fn is_rule(text: &str) -> bool {
    let mut signs = text.chars().filter(|c| !c.is_whitespace());
    let Some(first) = signs.next().filter(|first| matches!(first, '-' | '*' | '_')) else {
        return false;
    };
    let mut count = 1;
    signs.all(|sign| {
        count += 1;
        sign == first
    }) && count >= 3
}

fn heading(text: &str) -> Option<(usize, &str)> {
    let unindented = text.trim_start_matches(' ');
    // Further in, it is code.
    if text.len() - unindented.len() > 3 {
        return None;
    }
    let rest = unindented.trim_start_matches('#');
    let level = unindented.len() - rest.len();
    let is_heading = (1..=6).contains(&level) && (rest.is_empty() || rest.starts_with([' ', '\t']));
    is_heading.then(|| (level, rest.trim_end_matches('#').trim()))
}

/// What follows a bullet or a number.
fn item(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(['-', '*', '+']).or_else(|| {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = text.len() - rest.len();
        rest.strip_prefix(['.', ')']).filter(|_| (1..=9).contains(&digits))
    })?;
    let is_item = rest.is_empty() || rest.starts_with([' ', '\t']);
    is_item.then(|| without_box(rest.trim()))
}

fn without_box(text: &str) -> &str {
    let rest = ["[ ]", "[x]", "[X]"].iter().find_map(|empty| text.strip_prefix(empty));
    match rest {
        Some(rest) if rest.is_empty() || rest.starts_with([' ', '\t']) => rest.trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Line<'_>>, Option<usize>) {
        let (lines, unclosed) = lines((1..).zip(text.lines()));
        (lines, unclosed.map(|(line, _)| line))
    }

    #[test]
    fn each_line_is_of_a_kind() {
        use Kind::{Blank, Code, Heading, Item, Rule, Text};
        let table = [
            ("", Blank),
            ("  \t", Blank),
            ("# A", Heading { level: 1, text: "A" }),
            ("   ### A b ##", Heading { level: 3, text: "A b" }),
            ("##", Heading { level: 2, text: "" }),
            ("    ## A", Text),
            ("##A", Text),
            ("####### A", Text),
            ("- a", Item("a")),
            ("  * a", Item("a")),
            ("+ a", Item("a")),
            ("12. a", Item("a")),
            ("1) a", Item("a")),
            ("-", Item("")),
            ("- [ ] a", Item("a")),
            ("- [x] a", Item("a")),
            ("1. [X]", Item("")),
            ("- [ ](link)", Item("[ ](link)")),
            ("-a", Text),
            ("*a*", Text),
            ("1.5 times", Text),
            ("1234567890. a", Text),
            ("---", Rule),
            ("* * *", Rule),
            ("--", Text),
            ("```", Code),
            ("  ~~~~ text", Code),
            ("```a``` b", Text),
        ];
        for (text, expected) in table {
            let (lines, _) = read(text);
            let found = lines.first().map_or(Blank, |line| line.kind);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn code_is_code_until_its_own_fence() {
        let (lines, unclosed) = read("````\n# A\n```\n- a\n~~~~\n<!--\n`````\n# B\n~~~\n```\n# C");
        let kinds: Vec<bool> = lines.iter().map(|line| line.kind == Kind::Code).collect();
        let mut expected = [true; 11];
        expected[7] = false;
        assert_eq!(kinds, expected);
        assert_eq!(unclosed, Some(9));
    }

    #[test]
    fn comments_are_left_out() {
        let (lines, unclosed) =
            read("a <!-- b -->\n<!-- c -->\n <!-- d\n# e\n```\n--> f\n<!-- g --> - h\n`<!-- i`");
        let texts: Vec<&str> = lines.iter().map(|line| line.text).collect();
        assert_eq!(texts, ["a <!-- b -->", " f", " - h", "`<!-- i`"]);
        assert_eq!(lines[2].kind, Kind::Item("h"));
        assert_eq!((lines[1].number, unclosed), (6, None));
        assert_eq!(read("a\n<!-- b\nc").1, Some(2));
    }

    #[test]
    fn tabs_are_as_wide_as_they_look() {
        let table = [("a", 0), ("  a", 2), ("\ta", 4), (" \ta", 4), ("\t a", 5)];
        for (text, columns) in table {
            assert_eq!(read(text).0[0].indent(), columns, "{text:?}");
        }
    }
}
