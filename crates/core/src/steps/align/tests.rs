use super::*;
use crate::{
    event::{ProofReturned, RewindFinished, RewindStarted, Span},
    payload::Payload,
    steps::{Branches, Run, Totals, tests::Journal},
};

fn sketches(steps: &[Step]) -> Vec<Sketch> {
    steps.iter().map(Sketch::of).collect()
}

/// A session: each word is a prompt, with a call and an answer in between.
fn session(words: &[&str]) -> Vec<Sketch> {
    let mut journal = Journal::default();
    for word in words {
        journal.prompt(word).asked().text("I look").call("a").replied().returned("a", word);
        journal.asked().text(&format!("So: {word}")).replied().ended();
    }
    sketches(&journal.steps())
}

fn told(alignment: &Alignment) -> Vec<String> {
    let line = |pair: &Pair| {
        let place = |at: Option<usize>| at.map_or("-".to_owned(), |at| at.to_string());
        let fields: Vec<&str> = pair.structure().map(Field::word).collect();
        format!("{} {} {}", place(pair.left), place(pair.right), fields.join(","))
    };
    let differing = alignment.pairs.iter().filter(|pair| pair.how() != How::Same);
    differing.map(|pair| line(pair).trim_end().to_owned()).collect()
}

/// Numbers without a pattern, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % most
    }
}

fn random(numbers: &mut Numbers) -> Vec<Step> {
    let mut journal = Journal::default();
    for _ in 0..numbers.below(6) {
        journal.prompt(["go", "on", "more"][numbers.below(3)]).asked();
        for _ in 0..numbers.below(3) {
            journal.call("a").call("b").replied();
            let answers = ["1", "2", "3"];
            journal.returned("a", answers[numbers.below(3)]);
            journal.returned("b", answers[numbers.below(3)]).asked();
        }
        journal.text(["yes", "no"][numbers.below(2)]).replied().ended();
    }
    journal.steps()
}

#[test]
fn a_session_is_the_same_as_itself() {
    let mut numbers = Numbers(7);
    for _ in 0..300 {
        let steps = sketches(&random(&mut numbers));
        let alignment = align(&steps, &steps);
        assert!(alignment.is_same());
        assert!(alignment.pairs.iter().all(|pair| pair.differs.is_empty()));
        assert_eq!((alignment.pairs.len(), alignment.shared), (steps.len(), steps.len()));
    }
    assert_eq!(align(&[], &[]), Alignment::default());
}

#[test]
fn one_step_more_is_found_and_nothing_else() {
    let mut numbers = Numbers(11);
    for _ in 0..300 {
        let steps = random(&mut numbers);
        let at = numbers.below(steps.len() + 1);
        let mut more = steps.clone();
        let new = Journal::default().prompt("something else").steps().remove(0);
        more.insert(at, new);
        // All that comes after it has another history, and so another id.
        for place in at..more.len() {
            more[place].parents =
                place.checked_sub(1).map(|before| vec![more[before].id]).unwrap_or_default();
            more[place].id = crate::steps::identify(&more[place]);
        }
        let (few, more) = (sketches(&steps), sketches(&more));
        assert_eq!(told(&align(&few, &more)), [format!("- {at}")]);
        assert_eq!(told(&align(&more, &few)), [format!("{at} -")]);
        assert_eq!(align(&few, &more).shared, at);
    }
}

#[test]
fn what_has_changed_is_said_field_by_field() {
    let one = session(&["go", "on", "end"]);
    let two = session(&["go", "ON", "end"]);
    assert_eq!(told(&align(&one, &two)), ["4 4 prompt", "6 6 output", "7 7 text"]);
    let alignment = align(&one, &two);
    assert_eq!(alignment.shared, 4);
    assert_eq!(alignment.first_difference().unwrap().left, Some(4));
    assert_eq!((alignment.differences(), alignment.pairs.len()), (3, 12));

    let mut other = session(&["go"]);
    other[1].model = Some("another".into());
    other[1].id = StepId::from_bytes([1; 32]);
    other[2].agent = None;
    other[2].usage.input = 99;
    let alignment = align(&session(&["go"]), &other);
    assert_eq!(told(&alignment), ["1 1 model", "2 2 agent"]);
    assert_eq!(alignment.pairs[2].differs, [Field::Agent, Field::Usage]);
}

#[test]
fn what_it_cost_is_no_difference_in_structure() {
    let one = session(&["go"]);
    let mut two = one.clone();
    (two[1].usage.output, two[1].cost, two[1].millis) = (77, None, 5);
    let alignment = align(&one, &two);
    assert!(alignment.is_same());
    assert_eq!(alignment.pairs[1].differs, [Field::Usage, Field::Cost, Field::Time]);
}

#[test]
fn turns_that_only_one_has() {
    let one = session(&["a", "b", "c"]);
    let two = session(&["a", "c"]);
    assert_eq!(told(&align(&one, &two)), ["4 -", "5 -", "6 -", "7 -"]);
    assert_eq!(told(&align(&two, &one)), ["- 4", "- 5", "- 6", "- 7"]);
    assert_eq!(align(&[], &one).differences(), one.len());
    let nothing = align(&one, &[]);
    assert!(nothing.pairs.iter().all(|pair| pair.how() == How::OnlyLeft));
}

#[test]
fn a_call_that_became_another_tools_is_two_steps() {
    let answer = |name: &str, status: ToolStatus| {
        let mut step = Journal::default().prompt("x").steps().remove(0);
        let (id, output) = (String::new(), Payload::inline("out"));
        let (name, input) = (name.to_owned(), Some(Payload::inline("{}")));
        let (exit, touched) = (None, Vec::new());
        step.said = vec![Said::Result { id, name, input, status, exit, output, touched }];
        step.kind = StepKind::Tool;
        step.id = crate::steps::identify(&step);
        Sketch::of(&step)
    };
    let done = |name: &str| answer(name, ToolStatus::Done);
    assert_eq!(told(&align(&[done("a")], &[done("b")])), ["0 -", "- 0"]);
    let failed = answer("a", ToolStatus::Failed);
    assert_eq!(told(&align(&[done("a")], std::slice::from_ref(&failed))), ["0 0 status"]);
    assert_eq!((failed.tool.as_deref(), failed.status), (Some("a"), Some(ToolStatus::Failed)));
}

#[test]
fn what_is_too_long_is_compared_place_by_place() {
    let many = |word: &str| {
        let mut journal = Journal::default();
        for n in 0..2_100 {
            journal.prompt(&format!("{word} {n}")).text(&format!("{word} {n}")).ended();
        }
        sketches(&journal.steps())
    };
    let (one, two) = (many("one"), many("two"));
    let alignment = align(&one, &two);
    assert!(alignment.by_place);
    assert_eq!(alignment.differences(), one.len());
    assert!(alignment.pairs.iter().all(|pair| pair.left == pair.right));
    // However long, what is shared does not count.
    assert!(!align(&one, &one[..4_000]).by_place);
}

fn rewound(to_turn: u32, path: Vec<Span>) -> (RewindStarted, RewindFinished) {
    let (files, safety, cuts) = (None, String::new(), Vec::new());
    let started = RewindStarted { to_turn, files, path: Some(path), safety, cuts, undo: false };
    (started, RewindFinished { to_turn, files: 0, begins: false })
}

#[test]
fn what_a_rewind_leaves_behind_is_known() {
    let mut journal = Journal::default();
    for words in ["one", "two", "three"] {
        journal.prompt(words).call("a").call("b").returned("a", "1").returned("b", "1").ended();
    }
    let (started, finished) = rewound(1, vec![Span { from: 1, to: 1 }]);
    journal.add("", started).add("", finished);
    let path_of = |steps: &[Step], kept: &[u32]| {
        let mut branches = Branches::default();
        steps.iter().for_each(|step| branches.offer(step, kept.contains(&step.turn)));
        branches.finish(None)
    };
    let mut on = journal.clone();
    let waiting = path_of(&journal.steps(), &[1]);
    assert!(waiting.has(3) && !waiting.has(4));

    let steps = on.prompt("four").text("well").ended().steps();
    let path = path_of(&steps, &[1, 4]);
    assert_eq!(
        path.runs,
        [Run { after: None, from: 0, to: 11 }, Run { after: Some(3), from: 12, to: 13 }]
    );
    let kept: Vec<u64> = (0..14).filter(|at| path.has(*at)).collect();
    assert_eq!(kept, [0, 1, 2, 3, 12, 13]);
}

#[test]
fn steps_add_up() {
    let mut journal = Journal::default();
    journal.prompt("go").asked().text("I look").call("a").replied().returned("a", "1");
    journal.asked().text("Done").replied().ended();
    let output = Payload::inline("ok");
    journal.add("", ProofReturned { status: ToolStatus::Done, exit: Some(0), output });
    journal.prompt("on").asked().text("Done").replied().ended();
    let mut totals = Totals::default();
    journal.steps().iter().for_each(|step| totals.add(step));
    let totals = totals.finish();
    assert_eq!((totals.steps, totals.by_kind["reply"], totals.by_kind["proof"]), (7, 3, 1));
    assert_eq!((totals.tools["shell"], totals.tools.len()), (1, 1));
    assert_eq!(
        (&totals.agents[..], &totals.models[..]),
        (&["native".into()][..], &["m".into()][..])
    );
    assert_eq!((totals.usage.input, totals.cost), (15, Some(Micros(21))));
    assert_eq!(totals.turns, 2);
    assert!(totals.millis >= 110, "{}", totals.millis);
}
