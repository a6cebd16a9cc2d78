use jiff::Timestamp;

use super::*;
use crate::event::{
    Cause, ModelCalled, ModelReplied, ModelStop, Outcome, RewindFinished, Span, TextWritten,
    ToolCalled, ToolReturned, ToolStatus, TurnEnded, TurnStarted, UsageReported,
};

#[derive(Clone, Default)]
pub(super) struct Journal {
    fold: Steps,
    seq: u64,
    turn: u32,
    steps: Vec<Step>,
}

impl Journal {
    pub(super) fn add(&mut self, id: &str, body: impl Into<Body>) -> &mut Self {
        self.seq += 1;
        let event = Event {
            seq: self.seq,
            at: Timestamp::from_millisecond(i64::try_from(self.seq).unwrap() * 10).unwrap(),
            turn: Some(self.turn),
            agent: Some("native".into()),
            id: (!id.is_empty()).then(|| id.to_owned()),
            body: body.into(),
        };
        let steps = &mut self.steps;
        self.fold.apply(&event, &mut |step| steps.push(step));
        self
    }

    pub(super) fn prompt(&mut self, text: &str) -> &mut Self {
        self.turn += 1;
        self.add("", TurnStarted::new(Payload::inline(text), Cause::Person))
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.add("", TextWritten { text: Payload::inline(text), partial: false })
    }

    pub(super) fn call(&mut self, id: &str) -> &mut Self {
        self.add(id, ToolCalled { name: "shell".into(), input: Payload::inline("{}") })
    }

    pub(super) fn asked(&mut self) -> &mut Self {
        self.add("", ModelCalled { model: "m".into(), attempt: 1, messages: 1, told: None })
    }

    pub(super) fn replied(&mut self) -> &mut Self {
        let usage = Usage { input: 5, ..Usage::default() };
        let (model, stop) = ("m".into(), ModelStop::EndTurn);
        let cost_micros = Some(Micros(7));
        self.add("", ModelReplied { model, stop, usage, cost_micros, reply_id: None })
    }

    pub(super) fn returned(&mut self, id: &str, output: &str) -> &mut Self {
        let output = Payload::inline(output);
        let (name, status) = ("shell".into(), ToolStatus::Done);
        self.add(id, ToolReturned { name, status, output, exit: Some(0), touched: Vec::new() })
    }

    pub(super) fn ended(&mut self) -> &mut Self {
        self.add("", TurnEnded::with(Outcome::Finished))
    }

    pub(super) fn steps(&mut self) -> Vec<Step> {
        let steps = &mut self.steps;
        std::mem::take(&mut self.fold).finish(&mut |step| steps.push(step));
        std::mem::take(&mut self.steps)
    }
}

fn two_calls(first: &str) -> Vec<Step> {
    let mut journal = Journal::default();
    journal.prompt(first).asked().text("On it").call("a").call("b").replied();
    journal.returned("a", "1").returned("b", "2").asked().text("Done").replied().ended();
    journal.steps()
}

#[test]
fn answers_of_one_reply_stand_side_by_side() {
    let steps = two_calls("go");
    let kinds: Vec<&str> = steps.iter().map(|step| step.kind.word()).collect();
    assert_eq!(kinds, ["prompt", "reply", "tool", "tool", "reply"]);
    assert_eq!(steps.iter().map(|step| step.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(steps[2].parents, [steps[1].id]);
    assert_eq!(steps[3].parents, [steps[1].id]);
    assert_eq!(steps[4].parents, [steps[2].id, steps[3].id]);
    let whole: Vec<bool> = steps.iter().map(|step| step.whole).collect();
    assert_eq!(whole, [true, false, false, true, true], "a batch is cut at its end only");
    assert_eq!((steps[3].batch, steps[4].batch), (2, 1));
    assert_eq!((steps[1].usage.input, steps[1].cost), (5, Some(Micros(7))));
    assert_eq!(steps[1].millis(), 40);
}

#[test]
fn an_id_stands_for_all_before_it_and_not_for_when_it_was() {
    let ids = |steps: &[Step]| steps.iter().map(|step| step.id).collect::<Vec<_>>();
    let one = ids(&two_calls("go"));
    assert_eq!(one, ids(&two_calls("go")));
    let other = ids(&two_calls("stay"));
    assert!(one.iter().zip(&other).all(|(one, other)| one != other));

    let mut later = Journal { seq: 1000, ..Journal::default() };
    later.prompt("go").asked().text("On it").call("x").call("y").replied();
    later.returned("x", "1").returned("y", "2").asked().text("Done").replied().ended();
    assert_eq!(one, ids(&later.steps()), "times and the vendor's words for calls do not count");

    let mut changed = Journal::default();
    changed.prompt("go").asked().text("On it").call("a").call("b").replied();
    changed.returned("a", "1").returned("b", "other").asked().text("Done").replied().ended();
    let changed = ids(&changed.steps());
    assert_eq!(one[..3], changed[..3]);
    assert!(one[3] != changed[3] && one[4] != changed[4]);
}

#[test]
fn a_vendors_turn_has_no_seals_and_its_steps_are_found_all_the_same() {
    let mut journal = Journal::default();
    journal.prompt("go").text("I look").call("a").call("b").returned("b", "2");
    journal.returned("a", "1").text("So").text("it is");
    let usage = Usage { output: 9, ..Usage::default() };
    journal.add("", UsageReported { model: None, usage, cost_micros: None, settles: false });
    let steps = journal.ended().steps();
    let kinds: Vec<&str> = steps.iter().map(|step| step.kind.word()).collect();
    assert_eq!(kinds, ["prompt", "reply", "tool", "tool", "reply"]);
    assert_eq!(steps[4].said.len(), 2);
    assert_eq!(steps[4].usage.output, 9);
    assert_eq!(steps[4].parents, [steps[2].id, steps[3].id]);
}

#[test]
fn what_comes_after_a_rewind_follows_from_the_turn_that_it_went_back_to() {
    let mut journal = Journal::default();
    for words in ["one", "two", "three"] {
        journal.prompt(words).text("yes").ended();
    }
    let path = Some(vec![Span { from: 1, to: 1 }]);
    let (files, safety) = (None, String::new());
    let cuts = Vec::new();
    journal.add("", RewindStarted { to_turn: 1, files, path, safety, cuts, undo: false });
    journal.add("", RewindFinished { to_turn: 1, files: 0, begins: false });
    let steps = journal.prompt("four").text("well").ended().steps();
    assert_eq!(steps.len(), 8);
    assert_eq!(steps[6].parents, [steps[1].id]);
}

#[test]
fn the_fold_goes_on_from_a_turns_end_and_from_another_session() {
    let mut whole = Journal::default();
    whole.prompt("one").text("yes").ended().prompt("two").text("no").ended();
    let whole = whole.steps();

    let fold = Steps::at_turn_end(2, 1, vec![whole[1].id]);
    let mut rest = Journal { fold, turn: 1, ..Journal::default() };
    assert_eq!(rest.fold.frontier(), [whole[1].id]);
    let rest = rest.prompt("two").text("no").ended().steps();
    assert_eq!((rest[0].id, rest[1].id), (whole[2].id, whole[3].id));
    assert_eq!(rest[1].index, 3);
}

#[test]
fn who_has_answered_in_one_turn_is_not_said_to_have_answered_in_the_next() {
    let mut whole = Journal::default();
    whole.prompt("one").asked().text("yes").replied().ended().prompt("two").text("no").ended();
    let whole = whole.steps();
    let last = whole.len() - 1;
    assert_eq!(whole[last].model, None);
    let fold = Steps::at_turn_end(last as u64 - 1, 1, whole[last - 1].parents.clone());
    let mut rest = Journal { fold, turn: 1, ..Journal::default() };
    let rest = rest.prompt("two").text("no").ended().steps();
    assert_eq!(rest[1].id, whole[last].id);
}

#[test]
fn a_step_is_meant_by_its_index_its_id_or_a_beginning_that_is_one_steps_alone() {
    let steps = two_calls("go");
    let find = |word: &str| {
        let mut search = Search::new(word);
        steps
            .iter()
            .for_each(|step| search.offer(step.index, step.id, Worth::default(), || step.index));
        search.finish()
    };
    assert_eq!(find("0"), Ok(0));
    assert_eq!(find("#4"), Ok(4));
    assert_eq!(find("5"), Err(NoStep::Beyond { index: 5, last: 4 }));
    let id = steps[3].id.to_string();
    assert_eq!(find(&id), Ok(3));
    assert_eq!(find(&id[..12].to_uppercase()), Ok(3));
    assert_eq!(find("xyz"), Err(NoStep::Unknown { word: "xyz".into() }));
    let none: Search<()> = Search::new("0");
    assert_eq!(none.finish(), Err(NoStep::Empty));

    // Digits are a number; where there is no such step, they are how an id begins.
    let digits = |word: &str| {
        let mut search = Search::new(word);
        search.offer(0, StepId::from_bytes([0x12; 32]), Worth::default(), || 0);
        search.offer(1, StepId::from_bytes([0x34; 32]), Worth::default(), || 1);
        search.finish()
    };
    assert_eq!((digits("1"), digits("3434"), digits("12121212")), (Ok(1), Ok(1), Ok(0)));
    assert_eq!(digits("34"), Err(NoStep::Beyond { index: 34, last: 1 }));
    assert_eq!(digits("3435"), Err(NoStep::Beyond { index: 3435, last: 1 }));

    let mut search = Search::new("a");
    let (one, two) = (StepId::from_bytes([0xab; 32]), StepId::from_bytes([0xac; 32]));
    let mut offer = |index, id, on_path, whole| {
        search.offer(index, id, Worth { on_path, whole }, || index);
        search.clone().finish()
    };
    assert_eq!(offer(0, one, false, true), Ok(0));
    // Of those with one id, the last one that the conversation has and that is whole.
    assert_eq!(offer(1, one, true, false), Ok(1));
    assert_eq!(offer(2, one, true, true), Ok(2));
    assert_eq!(offer(3, one, true, true), Ok(3));
    assert_eq!(offer(4, one, true, false), Ok(3));
    assert_eq!(offer(5, one, false, true), Ok(3));
    assert!(matches!(offer(6, two, true, true), Err(NoStep::Several { .. })));
}
