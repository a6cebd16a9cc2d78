use segue_core::{
    event::ToolStatus,
    steps::{Step, StepKind},
    usage::Usage,
};

use super::*;
use crate::{
    steps::tests::{id, step, tool},
    style::Style,
};

fn side(number: u64, proof: Option<Proof>, steps: &[Step]) -> Side {
    let mut totals = Totals::default();
    steps.iter().for_each(|step| totals.add(step));
    Side {
        number: Some(number),
        id: SessionId::from_parts(1_800_000_000_000, u128::from(number)),
        name: (number == 7).then(|| "parser".to_owned()),
        status: Status::Completed,
        stop: Some(stopped("the agent is done")),
        proof,
        unpriced_calls: 0,
        totals: totals.finish(),
        steps: steps.iter().map(Sketch::of).collect(),
        told: 0,
        checkpoint: None,
    }
}

fn stopped(message: &str) -> SessionStopped {
    SessionStopped {
        reason: segue_core::event::Reason::Done,
        agent: None,
        cap: None,
        signal: None,
        resets_at: None,
        message: message.to_owned(),
        hint: None,
    }
}

/// Two that begin alike, do one thing otherwise, and of which one does more.
fn both() -> (Vec<Step>, Vec<Step>) {
    use StepKind::{Prompt, Reply};
    let usage = Usage { input: 900, output: 100, ..Usage::default() };
    let shared = [step(0, Prompt, 1, "Mend it"), step(1, Reply, 1, "I look.")];
    let mut a = shared.to_vec();
    a.extend([tool(2, 1, "cat a", ToolStatus::Done), step(3, Reply, 1, "Mended.")]);
    let mut b = shared.to_vec();
    // After a difference all ids differ.
    let other = |step: Step| Step { id: id(step.index + 100), ..step };
    b.extend([
        other(tool(2, 1, "cat b", ToolStatus::Failed)),
        Step { usage, cost: Some(Micros(2_500)), ..other(step(3, Reply, 1, "Mended.")) },
        other(step(4, Reply, 2, "And more \u{1b}[31mof it.")),
    ]);
    (a, b)
}

fn compared(files: Files) -> Comparison {
    let (a, b) = both();
    Comparison::new(side(7, None, &a), side(9, Some(Proof::Passed), &b), files)
}

fn files() -> Files {
    let file = |path: &str, status, lines: Option<(u64, u64)>| FileDiff {
        path: path.to_owned(),
        from: (status == FileStatus::Renamed).then(|| "old.txt".to_owned()),
        status,
        added: lines.map(|(added, _)| added),
        removed: lines.map(|(_, removed)| removed),
    };
    Files::Known(vec![
        file("a.txt", FileStatus::Added, Some((3, 0))),
        file("b.bin", FileStatus::Modified, None),
        file("new.txt", FileStatus::Renamed, Some((1, 1))),
        file("z.txt", FileStatus::Deleted, Some((0, 2))),
    ])
}

#[test]
fn each_difference_is_a_line() {
    let style = Style::new(false, 100);
    insta::assert_snapshot!(plain_text(&compared(files()), &style));
}

#[test]
fn side_by_side() {
    let style = Style::new(false, 100);
    insta::assert_snapshot!(table_text(&compared(files()), &style));
}

#[test]
fn steps_are_counted_by_how_they_differ() {
    let all = compared(Files::Unknown("neither session has a checkpoint".to_owned()));
    let counts = Counts { same: 3, changed: 1, only_a: 0, only_b: 1 };
    assert_eq!((all.counts(), all.is_same()), (counts, false));
    assert_eq!(all.alignment.shared, 2);
    let plain = plain_text(&all, &Style::new(false, 100));
    assert!(plain.contains("files: neither session has a checkpoint"), "{plain}");
}

#[test]
fn what_it_cost_is_no_difference() {
    let (a, _) = both();
    let dearer: Vec<Step> =
        a.iter().map(|step| Step { cost: Some(Micros(7)), ..step.clone() }).collect();
    let all = Comparison::new(side(7, None, &a), side(9, None, &dearer), Files::Known(vec![]));
    assert!(all.is_same());
    let plain = plain_text(&all, &Style::new(false, 100));
    assert_eq!(plain.lines().last(), Some("the same 4 steps"));
    assert!(plain.contains("cost: "), "{plain}");
}
