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
        is_api_error_message: bool,
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    let Ok(kept) = serde_json::from_slice::<Kept<'_>>(line) else { return };
    if kept.is_sidechain || kept.is_meta || kept.is_api_error_message {
        return;
    }
    let Some(message) = kept.message else { return };
    match &*kept.kind {
        "user" => match message.text() {
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
