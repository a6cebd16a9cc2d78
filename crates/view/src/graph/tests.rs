use segue_core::event::ToolStatus;

use super::*;
use crate::steps::tests::{id, step, tool};

const MINE: u64 = 1_800_000_000_000;

fn session(n: u128) -> SessionId {
    SessionId::from_parts(MINE, n)
}

/// Two answers to one reply; then turn 2, which a rewind left behind, and turn 3 instead of it.
fn steps() -> Vec<Step> {
    use StepKind::{Prompt, Reply};
    let second = Step { parents: vec![id(1)], batch: 2, ..tool(3, 1, "ls", ToolStatus::Failed) };
    vec![
        step(0, Prompt, 1, "Write a.txt"),
        step(1, Reply, 1, "I write it."),
        tool(2, 1, "echo a > a.txt", ToolStatus::Done),
        second,
        Step { parents: vec![id(2), id(3)], ..step(4, Reply, 1, "Done.") },
        step(5, Prompt, 2, "Now the docs"),
        step(6, Reply, 2, "They are written."),
        Step { parents: vec![id(4)], ..step(7, Prompt, 3, "Rather the tests") },
        step(8, Reply, 3, "They pass."),
    ]
}

/// Each with whether it belongs to one of these turns.
fn kept(steps: &[Step], turns: &[u32]) -> Vec<(Step, bool)> {
    steps.iter().map(|step| (step.clone(), turns.contains(&step.turn))).collect()
}

fn fork(n: u128, number: Option<u64>, how: How, mode: Option<Mode>, steps: u64) -> Fork {
    let name = (n == 1).then(|| "other-way".to_owned());
    Fork { id: session(n), number, name, how, mode, steps }
}

fn forks() -> Vec<Fork> {
    vec![
        fork(1, Some(9), How::Forked, None, 5),
        fork(2, Some(4), How::Replayed, Some(Mode::Cache), 9),
        fork(3, Some(5), How::Replayed, Some(Mode::Rerun), 9),
        fork(4, None, How::Forked, None, 1),
        // What is not there can't be pointed at.
        fork(5, Some(7), How::Forked, None, 12),
        fork(6, Some(8), How::Forked, None, 0),
    ]
}

fn text(graph: &Graph, width: usize) -> String {
    graph_text(graph, &Style::new(false, width))
}

#[test]
fn what_was_left_behind_stands_beside_the_conversation() {
    let graph = Graph::new("#7".to_owned(), &kept(&steps(), &[1, 3]), Some(8), None, &forks());
    insta::assert_snapshot!(text(&graph, 100));
    let edges: Vec<_> = graph.edges.iter().filter(|(_, to)| [4, 7].contains(to)).collect();
    assert_eq!(edges, [&(2, 4), &(3, 4), &(4, 7)]);
}

#[test]
fn names_are_those_that_a_step_is_asked_for_by() {
    let graph = Graph::new("#7".to_owned(), &kept(&steps(), &[1, 3]), Some(8), None, &forks());
    let named = graph.refs.iter().filter(|one| one.kind != RefKind::Turn);
    let named: Vec<(String, u64)> = named.map(|one| (one.name.clone(), one.index)).collect();
    let fourth = format!("fork/{}", session(4));
    let expected =
        [(fourth.as_str(), 0), ("fork/9", 4), ("main", 8), ("replay/4", 8), ("rerun/5", 8)];
    assert_eq!(named, expected.map(|(name, at)| (name.to_owned(), at)));
    assert!(graph.refs.iter().all(|one| one.step == id(one.index)));
}

#[test]
fn a_session_that_was_rewound_ends_where_it_went_back_to() {
    let graph = Graph::new("#7".to_owned(), &kept(&steps()[..7], &[1]), Some(4), None, &[]);
    let main = graph.refs.iter().find(|one| one.kind == RefKind::Main).unwrap();
    assert_eq!(main.index, 4);
    let behind: Vec<u64> =
        graph.nodes.iter().filter(|node| node.left_behind).map(|node| node.index).collect();
    assert_eq!(behind, [5, 6]);
}

#[test]
fn a_fork_says_what_it_begins_with() {
    let begins = |mode, steps| Begins {
        from: session(1),
        name: "#7 parser".to_owned(),
        how: How::Replayed,
        mode,
        steps,
    };
    let head = |begins: Begins| {
        let graph =
            Graph::new("#9".to_owned(), &kept(&steps()[..5], &[1]), Some(4), Some(begins), &[]);
        let names = graph.refs.iter().map(|one| (one.name.clone(), one.index));
        let names = names.filter(|(name, _)| !name.starts_with("turn")).collect::<Vec<_>>();
        (text(&graph, 100).lines().nth(1).unwrap().to_owned(), names)
    };
    let (line, names) = head(begins(Some(Mode::Rerun), 2));
    assert_eq!(line, "was told of the first 2 steps of #7 parser");
    let expected = [("base", 1), ("its own part begins", 2), ("main", 4)];
    assert_eq!(names, expected.map(|(name, at)| (name.to_owned(), at)));
    let (line, names) = head(begins(Some(Mode::Cache), 5));
    assert_eq!(line, "replays the first 5 steps of #7 parser; nothing of its own yet");
    assert_eq!(names, [("base", 4), ("main", 4)].map(|(name, at)| (name.to_owned(), at)));
}
