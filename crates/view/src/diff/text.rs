//! Two sessions side by side for people: a table on a terminal, a line per difference elsewhere.

use segue_core::steps::align::{How, Pair, Sketch};

use super::{Comparison, Fact, FileDiff, FileStatus, Files, Side, words};
use crate::{
    steps::outcome_sign,
    style::{self, Line, Paint, Style, count, sanitize, shorten},
};

/// How wide the names of the summary are.
const LABEL: usize = 14;

/// More equal steps than this are folded, but for one beside each difference.
const MOST_EQUAL: usize = 3;

/// How many files are named on a terminal.
const MOST_FILES: usize = 40;

/// The comparison on a terminal, without a line break at its end.
#[must_use]
pub fn table_text(all: &Comparison, style: &Style) -> String {
    let mut lines = Vec::new();
    for (sign, side) in [("A", &all.a), ("B", &all.b)] {
        let line =
            Line::new().with(Paint::Dim, format!("{sign}  ")).with(Paint::Bold, side.label());
        lines.push(line.render(style));
    }
    lines.push(String::new());
    let head = Fact { label: String::new(), a: "A".to_owned(), b: "B".to_owned() };
    lines.push(fact_line(&head, Paint::Dim, style));
    for fact in all.facts() {
        let paint = if fact.a == fact.b { Paint::Plain } else { Paint::Yellow };
        lines.push(fact_line(&fact, paint, style));
    }
    lines.extend(file_lines(&all.files, style));
    lines.push(String::new());
    lines.extend(verdict(all).into_iter().map(|(paint, text)| style.paint(paint, &text)));
    if !all.is_same() {
        lines.push(String::new());
        lines.extend(step_lines(all, style));
    }
    lines.join("\n")
}

fn fact_line(fact: &Fact, paint: Paint, style: &Style) -> String {
    let half = style.width.saturating_sub(LABEL) / 2;
    let label = shorten(&fact.label, LABEL - 1);
    let blanks = " ".repeat(LABEL - style::width(&label));
    let line = Line::new().with(Paint::Dim, format!("{label}{blanks}"));
    line.with(paint, cell(&fact.a, half)).with(paint, fact.b.clone()).render(style)
}

/// A text in so many columns, a blank at its end.
fn cell(text: &str, width: usize) -> String {
    let text = shorten(text, width.saturating_sub(1));
    let blanks = " ".repeat(width.saturating_sub(style::width(&text)));
    format!("{text}{blanks}")
}

/// Whether they are the same, and where they part.
fn verdict(all: &Comparison) -> Vec<(Paint, String)> {
    let steps = all.a.steps.len() as u64;
    let Some(first) = all.alignment.first_difference() else {
        return vec![(Paint::Green, same(steps))];
    };
    let mut lines: Vec<_> = [("A", &all.a), ("B", &all.b)].into_iter().filter_map(again).collect();
    if all.alignment.shared > 0 {
        let shared = count(all.alignment.shared as u64, "step");
        lines.push((Paint::Plain, format!("the first {shared} are shared")));
    }
    lines.push((Paint::Yellow, format!("first difference: {}", where_and_what(all, first))));
    if all.alignment.by_place {
        let text = "too many steps differ to look for what fits best: compared place by place";
        lines.push((Paint::Dim, text.to_owned()));
    }
    lines
}

/// A rerun is compared by what was done in it.
fn again((name, side): (&str, &Side)) -> Option<(Paint, String)> {
    let told = (side.told > 0).then(|| count(side.told, "step"))?;
    let text = format!("{name} did it again: the {told} that it was told of are not compared");
    Some((Paint::Dim, text))
}

fn same(steps: u64) -> String {
    match steps {
        0 => "neither has a step yet".to_owned(),
        steps => format!("the same {}", count(steps, "step")),
    }
}

/// `step 4 of A (5d1c40e8aa), step 4 of B (91be7702cd): text`
fn where_and_what(all: &Comparison, pair: &Pair) -> String {
    let place = |side: &Side, at: Option<usize>, name: &str| {
        let step = at.and_then(|at| side.steps.get(at))?;
        Some(format!("step {} of {name} ({})", step.index, step.id.short()))
    };
    let places = [place(&all.a, pair.left, "A"), place(&all.b, pair.right, "B")];
    let places: Vec<String> = places.into_iter().flatten().collect();
    let what = match pair.how() {
        How::OnlyLeft | How::OnlyRight => "the other has none like it".to_owned(),
        _ => words(pair.structure()),
    };
    format!("{}: {what}", places.join(", "))
}

/// The steps, two columns, equal ones folded.
fn step_lines(all: &Comparison, style: &Style) -> Vec<String> {
    let mut lines = Vec::new();
    let pairs = &all.alignment.pairs;
    let mut at = 0;
    while at < pairs.len() {
        let equal = pairs[at..].iter().take_while(|pair| pair.how() == How::Same).count();
        if equal == 0 {
            lines.extend(pair_lines(all, &pairs[at], style));
            at += 1;
            continue;
        }
        let end = at + equal;
        // One on each side of a difference says where one is.
        let (before, after) = (usize::from(at > 0), usize::from(end < pairs.len()));
        let folded = equal - before - after.min(equal - before);
        let shown = match folded + before + after > MOST_EQUAL {
            true => (at..at + before).chain(end - after..end).collect::<Vec<_>>(),
            false => (at..end).collect(),
        };
        for (n, &place) in shown.iter().enumerate() {
            if n == before && shown.len() < equal {
                lines.push(fold_line(folded, style));
            }
            lines.extend(pair_lines(all, &pairs[place], style));
        }
        if shown.len() == before && shown.len() < equal {
            lines.push(fold_line(folded, style));
        }
        at = end;
    }
    lines
}

fn fold_line(steps: usize, style: &Style) -> String {
    style.paint(Paint::Dim, &format!("  … {}", count(steps as u64, "equal step")))
}

fn pair_lines(all: &Comparison, pair: &Pair, style: &Style) -> Vec<String> {
    let (sign, paint) = match pair.how() {
        How::Same => (" ", Paint::Dim),
        How::Changed => ("≠", Paint::Yellow),
        How::OnlyLeft => ("<", Paint::Red),
        How::OnlyRight => (">", Paint::Green),
    };
    let half = style.width.saturating_sub(5) / 2;
    let told = |side: &Side, at: Option<usize>| {
        at.and_then(|at| side.steps.get(at)).map(told).unwrap_or_default()
    };
    let (left, right) = (told(&all.a, pair.left), told(&all.b, pair.right));
    let line = Line::new().with(paint, format!("{sign} ")).with(paint, cell(&left, half));
    let mut lines = vec![line.with(Paint::Dim, "│ ").with(paint, right).render(style)];
    if pair.how() == How::Changed {
        let text = format!("    differs: {}", words(pair.structure()));
        lines.push(Line::new().with(Paint::Dim, text).render(style));
    }
    lines
}

/// `12 tool ✓ shell  cat a.txt`
fn told(step: &Sketch) -> String {
    let how = step.status.map(|status| format!("{} ", outcome_sign(status, step.exit).1));
    let how = how.unwrap_or_default();
    let title = sanitize(&step.title);
    format!("{} {} {how}{title}", step.index, step.kind.word())
}

fn file_lines(files: &Files, style: &Style) -> Vec<String> {
    let label = format!("{:<LABEL$}", "files");
    let line = |text: &str| Line::new().with(Paint::Dim, label.clone()).plain(text).render(style);
    match files {
        Files::Unknown(why) => vec![line(&sanitize(why))],
        Files::Known(files) if files.is_empty() => vec![line("the same")],
        Files::Known(files) => {
            let some = count(files.len() as u64, "file");
            let verb = if files.len() == 1 { "differs" } else { "differ" };
            let mut lines = vec![line(&format!("{some} {verb}"))];
            for file in files.iter().take(MOST_FILES) {
                let (sign, paint) = file_sign(file.status);
                let line = Line::new().plain("  ").with(paint, format!("{sign} "));
                lines.push(line.plain(file_text(file)).render(style));
            }
            if files.len() > MOST_FILES {
                lines.push(format!("  … {} more", files.len() - MOST_FILES));
            }
            lines
        }
    }
}

fn file_sign(status: FileStatus) -> (&'static str, Paint) {
    match status {
        FileStatus::Added => (">", Paint::Green),
        FileStatus::Deleted => ("<", Paint::Red),
        FileStatus::Modified | FileStatus::Renamed => ("≠", Paint::Yellow),
    }
}

/// `a.txt  +3 -1`
fn file_text(file: &FileDiff) -> String {
    let path = match &file.from {
        Some(from) => format!("{} → {}", sanitize(from), sanitize(&file.path)),
        None => sanitize(&file.path).into_owned(),
    };
    match (file.added, file.removed) {
        (Some(added), Some(removed)) => format!("{path}  +{added} -{removed}"),
        _ => format!("{path}  no text"),
    }
}

/// A line for each difference, without a line break at the end.
#[must_use]
pub fn plain_text(all: &Comparison, style: &Style) -> String {
    let facts = all.facts().into_iter().filter(|fact| fact.a != fact.b);
    let mut lines: Vec<String> =
        facts.map(|fact| format!("{}: {} | {}", fact.label.trim(), fact.a, fact.b)).collect();
    match &all.files {
        Files::Unknown(why) => lines.push(format!("files: {}", sanitize(why))),
        Files::Known(files) => {
            let file =
                |file: &FileDiff| format!("file {} {}", file_sign(file.status).0, file_text(file));
            lines.extend(files.iter().map(file));
        }
    }
    for pair in &all.alignment.pairs {
        let step = |side: &Side, at: Option<usize>| at.and_then(|at| side.steps.get(at)).map(told);
        let (a, b) = (step(&all.a, pair.left), step(&all.b, pair.right));
        match (pair.how(), a, b) {
            (How::Changed, Some(a), Some(b)) => {
                lines.push(format!("≠ {a} | {b} ({})", words(pair.structure())));
            }
            (How::OnlyLeft, Some(a), _) => lines.push(format!("< {a}")),
            (How::OnlyRight, _, Some(b)) => lines.push(format!("> {b}")),
            _ => {}
        }
    }
    lines.extend(verdict(all).into_iter().map(|(_, text)| text));
    let lines: Vec<String> =
        lines.into_iter().map(|line| Line::new().plain(line).render(style)).collect();
    lines.join("\n")
}

/// A unified diff as it can be shown on a terminal: harmless, and coloured.
#[must_use]
pub fn patch_text(patch: &str, style: &Style) -> String {
    let line = |line: &str| {
        let pieces: Vec<_> = line.split('\t').map(sanitize).collect();
        let text = pieces.join("    ");
        let paint = match text.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => {
                Paint::Bold
            }
            [b'+', ..] => Paint::Green,
            [b'-', ..] => Paint::Red,
            [b'@', ..] => Paint::Cyan,
            _ => Paint::Plain,
        };
        style.paint(paint, &text)
    };
    patch.lines().map(line).collect::<Vec<_>>().join("\n")
}
