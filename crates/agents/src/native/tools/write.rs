//! `write_file`: a whole file, in one step.

use serde::Deserialize;
use serde_json::json;

use super::path::Root;
use super::{Outcome, ToolSpec};

/// The arguments of `write_file`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WriteCall {
    pub path: String,
    pub content: String,
}

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "write_file",
        description: "Write a whole file: create it, with its parent directories, or replace what \
                      is there. To change a part of a file, use edit_file.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "Relative to the workspace." },
                "content": { "type": "string", "description": "The whole new content." },
            },
            "required": ["path", "content"],
        }),
    }
}

pub(super) fn run(root: &Root, call: &WriteCall) -> Result<Outcome, String> {
    let target = root.target(&call.path, true)?;
    target.replace(&call.path, call.content.as_bytes(), None)?;
    let done = if target.stat.is_some() { "replaced" } else { "created" };
    let (lines, bytes) = (call.content.lines().count(), call.content.len());
    let s = if lines == 1 { "" } else { "s" };
    Ok(Outcome {
        output: format!("{done} {} ({lines} line{s}, {bytes} bytes)", target.shown),
        touched: vec![target.shown],
        ..Outcome::default()
    })
}
