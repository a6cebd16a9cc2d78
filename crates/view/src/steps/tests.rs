use jiff::Timestamp;

use super::*;

/// A step of a turn, told by its number: each follows the one before.
pub(crate) fn step(index: u64, kind: StepKind, turn: u32, words: &str) -> Step {
    let at = Timestamp::from_second(1_800_000_000 + index as i64).unwrap();
    let parent = index.checked_sub(1).map(id);
    Step {
        index,
        id: id(index),
        parents: parent.into_iter().collect(),
        kind,
        turn,
        agent: Some("native".to_owned()),
        model: (kind == StepKind::Reply).then(|| "small".to_owned()),
        said: vec![Said::Text(Payload::inline(words))],
        whole: true,
        batch: 1,
        seq: index * 3 + 2,
        began: at,
        at,
        usage: Usage::default(),
        cost: None,
    }
}

pub(crate) fn id(index: u64) -> StepId {
    StepId::from_bytes([u8::try_from(index + 1).unwrap(); 32])
}

/// What a tool said.
pub(crate) fn tool(index: u64, turn: u32, command: &str, status: ToolStatus) -> Step {
    let said = Said::Result {
        id: format!("call-{index}"),
        name: "shell".to_owned(),
        input: Some(Payload::inline(format!(r#"{{"command":"{command}"}}"#))),
        status,
        exit: Some(i32::from(status != ToolStatus::Done)),
        output: Payload::inline("text"),
        touched: vec![],
    };
    Step { said: vec![said], ..step(index, StepKind::Tool, turn, "") }
}

fn steps() -> [Step; 4] {
    let reply = Step {
        usage: Usage { input: 900, output: 40, ..Usage::default() },
        cost: Some(Micros(12_300)),
        began: Timestamp::from_second(1_800_000_000).unwrap(),
        ..step(1, StepKind::Reply, 1, "I look.\nAnd more.")
    };
    [
        step(0, StepKind::Prompt, 1, "Mend \u{1b}[31mit"),
        reply,
        tool(2, 1, "cat a.txt", ToolStatus::Failed),
        step(3, StepKind::Reply, 1, "It is mended."),
    ]
}

fn list(width: usize) -> String {
    let style = Style::new(false, width);
    let list = StepList::new(&style);
    let lines = steps().map(|step| list.line(&step, step.index == 3));
    [list.head()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_step_is_a_line() {
    insta::assert_snapshot!(list(110));
}

#[test]
fn columns_give_way_to_what_is_said() {
    for width in [20, 40, 60, 80, 100, 200] {
        let widest = list(width).lines().map(style::width).max().unwrap();
        assert!(widest <= width.max(52), "{width}: {widest}");
    }
    insta::assert_snapshot!(list(60));
}

#[test]
fn a_verdict_says_whose_it_is() {
    let said = r#"{"reviewer":"codex","verdict":"fail","summary":"The test is missing"}"#;
    let verdict = step(0, StepKind::Verdict, 0, said);
    assert_eq!(title(&verdict), "codex: fail The test is missing");
    // What is no verdict is told as it is.
    assert_eq!(title(&step(0, StepKind::Verdict, 0, "hm")), "hm");
}

#[test]
fn a_proof_that_ran_and_failed_is_no_success() {
    let proof = |exit| {
        let Said::Result { id, status, output, .. } =
            tool(0, 1, "", ToolStatus::Done).said.remove(0)
        else {
            unreachable!("a tool says its result")
        };
        let (name, input, touched) = (String::new(), None, vec![]);
        let said = Said::Result { id, name, input, status, exit, output, touched };
        let title = signed_title(&Step { said: vec![said], ..step(0, StepKind::Proof, 1, "") });
        title.chars().next().unwrap()
    };
    assert_eq!([Some(0), None, Some(1)].map(proof), ['✓', '✓', '✗']);
}

#[test]
fn json_has_what_a_line_leaves_out() {
    let [prompt, reply, tool, _] = steps().map(|step| StepJson::of(&step, false));
    assert_eq!(prompt.title, "Mend it");
    assert!(prompt.tool.is_none() && prompt.parents.is_empty());
    assert_eq!((reply.cost_micros, reply.millis), (Some(Micros(12_300)), 1000));
    let told = tool.tool.unwrap();
    assert_eq!(
        (told.name.as_deref(), told.status, told.exit),
        (Some("shell"), ToolStatus::Failed, Some(1))
    );
    assert_eq!(tool.parents, [id(1)]);
}
