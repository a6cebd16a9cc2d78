//! Text inside an event: in the line itself while it is short, in a blob when it is long.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longer texts go into a blob, so that a journal line stays readable and quick to scan.
pub const INLINE_LIMIT: usize = 4096;

/// How much of a blob's beginning stays in the line, for people and for lists.
const HEAD_CHARS: usize = 160;

/// A text, or where to find it. Exactly one of `text` and `blob` is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Payload {
    /// The text itself, up to 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The BLAKE3 hash of the text, which is then in `blobs/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// How long the text in the blob is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How the text in the blob begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

impl Payload {
    /// A text that stays in the line. For texts of any length, see the journal's `payload`.
    #[must_use]
    pub fn inline(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// A text that was put into a blob under `hash`.
    #[must_use]
    pub fn in_blob(hash: String, text: &str) -> Self {
        Self {
            text: None,
            blob: Some(hash),
            bytes: Some(text.len() as u64),
            head: Some(text.chars().take(HEAD_CHARS).collect()),
        }
    }

    /// The hash of the text, wherever it is: a blob has it as its name.
    #[must_use]
    pub fn digest(&self) -> String {
        match (&self.text, &self.blob) {
            (Some(text), _) => blake3::hash(text.as_bytes()).to_hex().to_string(),
            (None, Some(blob)) => blob.clone(),
            (None, None) => String::new(),
        }
    }

    /// What can be shown without opening a blob.
    #[must_use]
    pub fn head(&self) -> &str {
        self.text.as_deref().or(self.head.as_deref()).unwrap_or_default()
    }
}
