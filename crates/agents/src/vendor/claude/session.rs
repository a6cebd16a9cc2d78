//! Its session file, a line for each message.

use std::borrow::Cow;

use serde::Deserialize;

use super::line::{Block, Message};
use crate::vendor::History;

/// One line of its session file.
pub(super) fn remember(line: &[u8], history: &mut History) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kept<'a> {
        #[serde(default, borrow)]
        message: Option<Message<'a>>,
        #[serde(default)]
        is_sidechain: bool,
        #[serde(default)]
        is_meta: bool,
        #[serde(default)]
        is_compact_summary: bool,
        #[serde(default)]
        is_api_error_message: bool,
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    let Ok(kept) = serde_json::from_slice::<Kept<'_>>(line) else { return };
    if kept.is_sidechain || kept.is_meta || kept.is_compact_summary || kept.is_api_error_message {
        return;
    }
    let Some(message) = kept.message else { return };
    match &*kept.kind {
        "user" => match message.text() {
            Some(text) if is_noise(&text) => {}
            Some(text) => history.prompt(text),
            None => message.results().iter().for_each(|result| history.answer(&result.tool_use_id)),
        },
        "assistant" => {
            for block in message.blocks() {
                match block {
                    Block::Text { text } => history.text(text),
                    Block::ToolUse { id, .. } => history.call(id),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// What the program itself says in the user's name: that a turn was interrupted, which of its own
/// commands was given, and what came of it.
fn is_noise(text: &str) -> bool {
    const STARTS: [&str; 6] = [
        "[Request interrupted by user",
        "<command-name>",
        "<command-message>",
        "<local-command-",
        "<bash-stdout>",
        "<bash-input>",
    ];
    STARTS.iter().any(|start| text.trim_start().starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_says_for_the_user_is_no_prompt() {
        let mut history = History::default();
        for line in [
            r#"{"type":"user","promptSource":"typed","message":{"role":"user","content":"do it"}}"#,
            r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"[Request interrupted by user for tool use]"}]}}"#,
            r#"{"type":"user","message":{"role":"user","content":"<command-name>/model</command-name>"}}"#,
            r#"{"type":"user","isCompactSummary":true,"message":{"role":"user","content":"Before: …"}}"#,
            r#"{"type":"system","subtype":"local_command","content":"<local-command-stdout>x</local-command-stdout>"}"#,
            r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"done"}]}}"#,
            r#"{"type":"user","message":{"role":"user","content":"again"}}"#,
        ] {
            remember(line.as_bytes(), &mut history);
        }
        assert_eq!((history.prompts, history.last.prompt.as_str()), (2, "again"));
        assert_eq!(history.earlier.len(), 1);
        assert_eq!(history.earlier[0].texts, ["done"]);
    }
}
