//! The first thing in which two requests to a model differ, in words for people.

use segue_agents::native::{Block, Message, Role};
use segue_runner::native::recorded::Instructions;
use serde_json::Value;

/// How much of a text is shown around the place where it differs.
const SHOWN: usize = 60;

/// What a model is told besides the conversation.
pub(super) fn instructions(was: &Instructions, is: &Instructions) -> Option<String> {
    if was.system != is.system {
        return Some(format!("the system prompt, {}", text(&was.system, &is.system)));
    }
    if was.tools == is.tools {
        return None;
    }
    let (before, now) = (tools(&was.tools), tools(&is.tools));
    let missing = |from: &[(String, Value)], of: &[(String, Value)]| {
        let gone = from.iter().filter(|(name, _)| !of.iter().any(|(other, _)| other == name));
        gone.map(|(name, _)| name.clone()).collect::<Vec<_>>().join(", ")
    };
    let (gone, new) = (missing(&before, &now), missing(&now, &before));
    let changed = now.iter().find(|tool| before.iter().all(|other| other != *tool));
    Some(match (gone.is_empty(), new.is_empty()) {
        (false, true) => format!("the tools: {gone} is not offered now"),
        (true, false) => format!("the tools: {new} was not offered then"),
        (false, false) => format!("the tools: {new} is offered now, and was {gone}"),
        (true, true) => match changed {
            Some((name, _)) => format!("the tools: {name} is described otherwise"),
            None => "the tools: their order".to_owned(),
        },
    })
}

fn tools(json: &str) -> Vec<(String, Value)> {
    let list: Vec<Value> = serde_json::from_str(json).unwrap_or_default();
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    list.into_iter().map(|tool| (name(&tool), tool)).collect()
}

/// The first message that is another one.
pub(super) fn messages(was: &[Message], is: &[Message]) -> Option<String> {
    let at = was.iter().zip(is).position(|(was, is)| was != is);
    let Some(at) = at else {
        return match is.len().cmp(&was.len()) {
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Less => Some(format!("message {} is missing", is.len() + 1)),
            std::cmp::Ordering::Greater => Some(format!("message {} is new", was.len() + 1)),
        };
    };
    let (old, new) = (&was[at], &is[at]);
    let who = if new.role == Role::User { "user" } else { "assistant" };
    let number = at + 1;
    let differing = old.blocks.iter().zip(&new.blocks).find(|(old, new)| old != new);
    let what = match differing {
        Some((old, new)) => format!("{}, {}", kind(new), text(&words(old), &words(new))),
        None if new.blocks.len() < old.blocks.len() => "a part is missing".to_owned(),
        None => match new.blocks.get(old.blocks.len()) {
            Some(more) => format!("{} more: {}", kind(more), shortened(&words(more), 0)),
            None => "another role".to_owned(),
        },
    };
    Some(format!("message {number} ({who}), {what}"))
}

fn kind(block: &Block) -> &'static str {
    match block {
        Block::Text { .. } => "text",
        Block::Thinking { .. } => "thinking",
        Block::ToolUse { .. } => "tool call",
        Block::ToolResult { .. } => "tool result",
    }
}

fn words(block: &Block) -> String {
    match block {
        Block::Text { text } | Block::Thinking { text, .. } => text.clone(),
        Block::ToolUse { name, input, .. } => format!("{name} {input}"),
        Block::ToolResult { output, .. } => output.clone(),
    }
}

/// Where two texts begin to differ: the line, and what stands there.
pub(super) fn text(was: &str, is: &str) -> String {
    let (mut before, mut now) = (was.lines(), is.lines());
    let mut number = 1;
    loop {
        match (before.next(), now.next()) {
            (Some(old), Some(new)) if old == new => number += 1,
            (Some(old), Some(new)) => {
                let same = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
                let (old, new) = (shortened(old, same), shortened(new, same));
                return format!("line {number}: was {old}, is {new}");
            }
            (Some(old), None) => return format!("line {number}: {} is gone", shortened(old, 0)),
            (None, Some(new)) => return format!("line {number}: {} is new", shortened(new, 0)),
            (None, None) => return "the end of its lines".to_owned(),
        }
    }
}

/// As much of a line as one wants to read, with the place that matters in it.
fn shortened(line: &str, at: usize) -> String {
    let start = at.saturating_sub(SHOWN / 3);
    let shown: String = line.chars().skip(start).take(SHOWN).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if line.chars().count() > start + SHOWN { "…" } else { "" };
    format!("\"{before}{shown}{after}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(system: &str, tools: &str) -> Instructions {
        Instructions { system: system.to_owned(), tools: tools.to_owned() }
    }

    #[test]
    fn the_line_and_the_words_are_told() {
        let differs = instructions(&told("a\nUse tabs.\n", ""), &told("a\nUse blanks.\n", ""));
        let expected = "the system prompt, line 2: was \"Use tabs.\", is \"Use blanks.\"";
        assert_eq!(differs.as_deref(), Some(expected));
        assert_eq!(text("a\n", "a\nb"), "line 2: \"b\" is new");
        assert_eq!(text("a\nb", "a"), "line 2: \"b\" is gone");
        let long = format!("{}x{}", "ü".repeat(90), "y".repeat(90));
        let other = long.replace('x', "z");
        let shown = text(&long, &other);
        assert!(shown.contains('x') && shown.contains('z') && shown.len() < 400, "{shown}");
        assert_eq!(instructions(&told("a", "[]"), &told("a", "[]")), None);
    }

    #[test]
    fn a_tool_is_named() {
        let (one, two) = (r#"[{"name":"shell"}]"#, r#"[{"name":"shell"},{"name":"grep"}]"#);
        let differs = |was, is| instructions(&told("", was), &told("", is)).unwrap();
        assert_eq!(differs(one, two), "the tools: grep was not offered then");
        assert_eq!(differs(two, one), "the tools: grep is not offered now");
        let other = r#"[{"name":"shell","description":"x"}]"#;
        assert_eq!(differs(one, other), "the tools: shell is described otherwise");
    }

    #[test]
    fn a_message_is_told_by_its_number_and_its_part() {
        let was = [Message::user("Fix it"), Message::assistant(vec![Block::text("Done.")])];
        let is = [Message::user("Fix that"), was[1].clone()];
        let expected = "message 1 (user), text, line 1: was \"Fix it\", is \"Fix that\"";
        assert_eq!(messages(&was, &is).as_deref(), Some(expected));
        assert_eq!(messages(&was, &was), None);
        assert_eq!(messages(&was, &was[..1]).as_deref(), Some("message 2 is missing"));
        let more =
            Message { blocks: vec![Block::text("Fix it"), Block::text("now")], ..was[0].clone() };
        let differs = messages(&was, &[more, was[1].clone()]);
        assert_eq!(differs.as_deref(), Some("message 1 (user), text more: \"now\""));
    }
}
