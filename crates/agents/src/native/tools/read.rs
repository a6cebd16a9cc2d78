//! `read_file`: a file's lines, numbered.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::json;

use super::lines::Lines;
use super::path::Root;
use super::{Outcome, ToolSpec};

const MAX_LINES: u64 = 2000;
const MAX_BYTES: usize = 64 * 1024;
const MAX_LINE: usize = 2000;

/// The arguments of `read_file`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ReadCall {
    pub path: String,
    /// The first line, counted from 1.
    pub offset: Option<u64>,
    /// How many lines.
    pub limit: Option<u64>,
}

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "read_file",
        description: "Read a text file. The result has numbered lines: number, tab, text. At most \
                      2,000 lines or 64 KiB come at once; the result says how to go on.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "Relative to the workspace." },
                "offset": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The first line to read, counted from 1.",
                },
                "limit": { "type": "integer", "minimum": 1, "description": "How many lines." },
            },
            "required": ["path"],
        }),
    }
}

pub(super) fn run(root: &Root, call: &ReadCall) -> Result<Outcome, String> {
    let path = &call.path;
    let fail = |error: std::io::Error| format!("{path}: {error}");
    let file = root.read(path)?;
    let size = file.metadata().map_err(fail)?.len();
    let mut lines = Lines::new(file, MAX_LINE);
    if lines.is_binary().map_err(fail)? {
        return Ok(Outcome::text(format!("{path} is a binary file of {size} bytes")));
    }
    let first = call.offset.unwrap_or(1).max(1);
    let limit = call.limit.unwrap_or(MAX_LINES).max(1);
    let mut output = String::new();
    let mut number = 0;
    let mut more = false;
    while let Some(line) = lines.next().map_err(fail)? {
        number += 1;
        if number < first {
            continue;
        }
        let text = line.show();
        let full = output.len() + text.len() + 8 > MAX_BYTES;
        if number - first >= limit || full {
            more = true;
            break;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(output, "{number:>6}\t{text}");
    }
    if more {
        let shown = number - 1;
        let _ = write!(output, "(lines {first} to {shown}; go on with offset {number})");
    } else if number == 0 {
        return Ok(Outcome::text(format!("{path} is empty")));
    } else if number < first {
        return Err(format!("{path} has {number} lines; there is no line {first}"));
    }
    Ok(Outcome::text(output))
}
