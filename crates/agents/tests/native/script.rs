//! The scripted model.

use std::ops::ControlFlow;
use std::path::Path;

use segue_agents::native::script::Script;
use segue_agents::native::{
    Block, Delta, Message, Model, ModelError, Reply, Request, StopReason, tools,
};
use segue_core::usage::Usage;

fn open(text: &str) -> Result<Script, ModelError> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.toml");
    std::fs::write(&file, text).unwrap();
    Script::open(Some(&file))
}

fn call(model: &mut dyn Model, messages: &[Message]) -> Result<Reply, ModelError> {
    let request =
        Request { system: "s", messages, tools: &[], max_output: None, earlier_replies: 0 };
    model.call(&request, &mut |_| ControlFlow::Continue(()))
}

/// A conversation in which the model has spoken `count` times.
fn after(count: usize) -> Vec<Message> {
    let mut messages = vec![Message::user("go")];
    for _ in 0..count {
        messages.push(Message::assistant(vec![Block::text("x")]));
        messages.push(Message::user("on"));
    }
    messages
}

const SCRIPT: &str = r#"
[[reply]]
thinking = "Which one?"
text = "I run the test first."
delay_ms = 30
tools = [ { name = "shell", input = { command = "sh test.sh" } }, { name = "glob" } ]
usage = { input = 900, output = 40 }

[[reply]]
text = "Done."
repeat = true
"#;

#[test]
fn the_conversation_alone_decides_which_reply_comes() {
    let mut model = open(SCRIPT).unwrap();
    let first = call(&mut model, &after(0)).unwrap();
    let id = |block: &Block| match block {
        Block::ToolUse { id, input, .. } => format!("{id} {input}"),
        _ => String::new(),
    };
    let ids: Vec<_> = first.blocks[2..].iter().map(id).collect();
    assert_eq!(ids, [r#"call-0-0 {"command":"sh test.sh"}"#, "call-0-1 {}"]);
    assert_eq!(first.stop, StopReason::ToolUse);
    assert_eq!(first.usage, Usage { input: 900, output: 40, ..Usage::default() });
    for count in [1, 2, 9] {
        let reply = call(&mut model, &after(count)).unwrap();
        assert_eq!((reply.text().as_str(), reply.stop), ("Done.", StopReason::EndTurn));
        assert!(reply.usage.input > 0 && reply.usage.output > 0);
    }
    // Asked again, or by another process: the same.
    assert_eq!(call(&mut model, &after(0)).unwrap(), first);
    assert_eq!(call(&mut open(SCRIPT).unwrap(), &after(0)).unwrap(), first);
}

#[test]
fn deltas_add_up_and_can_be_broken_off() {
    let mut model = open(SCRIPT).unwrap();
    let messages = after(0);
    let request = Request {
        system: "",
        messages: &messages,
        tools: &[],
        max_output: None,
        earlier_replies: 0,
    };
    let (mut text, mut thinking, mut parts) = (String::new(), String::new(), 0);
    let reply = model.call(&request, &mut |delta| {
        match delta {
            Delta::Text(part) => (text.push_str(part), parts += 1).1,
            Delta::Thinking(part) => thinking.push_str(part),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    assert!(reply.is_ok());
    assert_eq!((text.as_str(), parts), ("I run the test first.", 5));
    assert_eq!(thinking, "Which one?");

    // An hour's answer, broken off while it is still silent.
    let mut slow = open("[[reply]]\ntext = \"x\"\ndelay_ms = 3600000\n").unwrap();
    let mut idle = 0;
    let cancelled = slow.call(&request, &mut |delta| {
        idle += usize::from(delta == Delta::Idle);
        if idle == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(cancelled, Err(ModelError::Cancelled));
}

#[test]
fn an_exhausted_script_says_what_to_add() {
    let mut model = open("[[reply]]\ntext = \"a\"\n").unwrap();
    let error = call(&mut model, &after(1)).unwrap_err().to_string();
    assert!(error.contains("s.toml: call 2 has no answer: the script has 1 reply"), "{error}");
    assert!(error.contains("repeat = true"), "{error}");
}

#[test]
fn mistakes_name_file_line_and_column() {
    let error = |text: &str| open(text).unwrap_err().to_string();
    let cases = [
        ("[[reply]]\ntext = \"a\n", "s.toml: line 2, column"),
        ("[[reply]]\ntext = 'a'\ntxet = 'b'\n", "s.toml: line 3, column 1: unknown field `txet`"),
        ("[[reply]]\n\n[[reply]]\ntext = 3\n", "s.toml: line 4, column 8: invalid type"),
        ("[[reply]]\ntools = [ { input = {} } ]\n", "missing field `name`"),
        ("[[reply]]\nusage = { inputs = 1 }\n", "line 2, column 11: unknown field `inputs`"),
        ("[[reply]]\ntext='a'\nrepeat=true\n[[reply]]\ntext='b'\n", "line 1, column 1: repeat"),
        ("[[reply]]\ntext='a'\n[[reply]]\n", "line 3, column 1: a [[reply]] needs text or tools"),
        ("", "s.toml: it has no [[reply]]"),
    ];
    for (text, expected) in cases {
        let got = error(text);
        assert!(got.contains(expected), "{text:?}\n gives {got}\n wanted {expected}");
    }
    let missing = Script::open(Some(Path::new("/nowhere/x.toml"))).unwrap_err().to_string();
    assert!(missing.starts_with("/nowhere/x.toml: cannot read it"), "{missing}");
}

#[test]
fn the_built_in_script_looks_around_and_says_what_it_is() {
    let mut model = Script::open(None).unwrap();
    assert_eq!(model.name(), "script");
    let first = call(&mut model, &after(0)).unwrap();
    let Some(Block::ToolUse { name, input, .. }) = first.blocks.last() else { panic!() };
    assert!(tools::parse(name, input).is_ok());
    for count in [1, 5] {
        let text = call(&mut model, &after(count)).unwrap().text();
        assert!(text.contains("segue config set model anthropic/claude-sonnet-4-5"));
        assert!(text.contains("ANTHROPIC_API_KEY"));
    }
}
