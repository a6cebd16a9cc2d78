//! The conversation, the same for every vendor.
//!
//! A conversation may change vendors half-way. So what only one vendor understands (signatures,
//! encrypted reasoning) travels in one opaque string that names its vendor, and the others leave
//! it out when they are asked to go on.

use segue_core::usage::Usage;
use serde::{Deserialize, Serialize};

/// Who said it. Tool results are the user's, as in all three APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
}

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
    },
    Thinking {
        text: String,
        /// Opaque: `<vendor>:<what the vendor needs to see again>`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    ToolUse {
        id: String,
        name: String,
        /// JSON text, exactly as the model sent it; not checked to be JSON.
        input: String,
    },
    ToolResult {
        id: String,
        output: String,
        #[serde(default)]
        is_error: bool,
    },
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// One message of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub blocks: Vec<Block>,
}

impl Message {
    /// A user's message of one text.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, blocks: vec![Block::text(text)] }
    }

    /// What the model said.
    #[must_use]
    pub fn assistant(blocks: Vec<Block>) -> Self {
        Self { role: Role::Assistant, blocks }
    }

    /// The results of the tools that the message before asked for.
    #[must_use]
    pub fn results(blocks: Vec<Block>) -> Self {
        Self { role: Role::User, blocks }
    }
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    EndTurn,
    ToolUse,
    MaxTokens,
    Refusal,
    /// What the vendor called it.
    Other(String),
}

/// A whole reply. There is no such thing as half of one: a stream that was cut is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    pub blocks: Vec<Block>,
    pub stop: StopReason,
    pub usage: Usage,
    /// The model that answered, as the vendor names it.
    pub model: String,
    /// The vendor's id of this reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Reply {
    /// All text of the reply, in order.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
