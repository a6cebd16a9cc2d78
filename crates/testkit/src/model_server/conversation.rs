//! A conversation in one form, whatever API it was sent in, so that a test can say "the second vendor
//! was told everything the first one did".

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
    Tool,
}

/// One piece of a conversation. A vendor's message with several blocks becomes several of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: Content,
}

/// What was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    Text(String),
    Thinking(String),
    ToolCall {
        id: String,
        name: String,
        input: Value,
    },
    /// `id` names the call. Gemini may leave it out and give only the tool's name.
    ToolResult {
        id: String,
        output: String,
        is_error: bool,
    },
}

impl Message {
    /// The text of a text or of a tool result.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::ToolResult { output, .. } => Some(output),
            Content::Thinking(_) | Content::ToolCall { .. } => None,
        }
    }
}

/// What an API's request body says, normalised.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) system: Vec<String>,
    pub(super) messages: Vec<Message>,
}

impl Conversation {
    pub(super) fn push(&mut self, role: Role, content: Content) {
        // Empty texts are padding that some clients send; they say nothing.
        if !matches!(&content, Content::Text(text) | Content::Thinking(text) if text.is_empty()) {
            self.messages.push(Message { role, content });
        }
    }

    /// What the user said last: the last run of user texts.
    ///
    /// Clients split one prompt into several texts (environment, attachments, the prompt itself), so
    /// a run counts as one. Reminders that a client slips in beside a tool result are not the user's.
    pub(super) fn last_user(&self) -> String {
        let said = |m: &&Message| match &m.content {
            Content::Text(text) => !text.trim_start().starts_with("<system-reminder>"),
            _ => true,
        };
        let run: Vec<&str> = self
            .messages
            .iter()
            .rev()
            .filter(said)
            .skip_while(|m| m.role != Role::User)
            .take_while(|m| m.role == Role::User)
            .filter_map(Message::text)
            .collect();
        run.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// The newest tool result, if the conversation ends with tool results.
    pub(super) fn last_tool(&self) -> Option<&str> {
        let reminder = |m: &&Message| m.text().is_some_and(|t| t.starts_with("<system-reminder>"));
        let last = self.messages.iter().rev().find(|m| !reminder(m))?;
        if last.role == Role::Tool { last.text() } else { None }
    }
}

/// The text in a field that is either a string or a list of blocks with a `text`.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(text_of).filter(|t| !t.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Object(block) => block.get("text").map(text_of).unwrap_or_default(),
        _ => String::new(),
    }
}

/// A string field, empty when absent.
pub(super) fn field(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The elements of an array field, none when absent.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Arguments that an API carries as JSON in a string. What is no JSON stays a string.
pub(super) fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Whether any string of the value contains the part.
pub(super) fn contains(value: &Value, part: &str) -> bool {
    match value {
        Value::String(text) => text.contains(part),
        Value::Array(items) => items.iter().any(|v| contains(v, part)),
        Value::Object(fields) => fields.values().any(|v| contains(v, part)),
        _ => false,
    }
}
