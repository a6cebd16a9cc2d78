//! `edit_file`: one exact piece of text for another.
//!
//! Works on bytes, so what is not UTF-8 in the rest of the file stays as it is. In a file whose
//! lines all end in CRLF, both texts are taken to have CRLF: the model never sees the CR, and
//! must not mix the file's line ends.

use std::io::Read as _;

use serde::Deserialize;
use serde_json::json;

use super::path::Root;
use super::{Outcome, ToolSpec, or_default};

/// Larger files are not for editing by hand.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// The arguments of `edit_file`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct EditCall {
    pub path: String,
    pub old_string: String,
    pub new_string: String,
    #[serde(default, deserialize_with = "or_default")]
    pub replace_all: bool,
}

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "edit_file",
        description: "Replace an exact piece of text in a file. old_string must occur exactly \
                      once, unless replace_all is true; include lines around it to make it unique.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "Relative to the workspace." },
                "old_string": {
                    "type": "string",
                    "description": "The text to replace, exactly as it is in the file.",
                },
                "new_string": { "type": "string", "description": "What to put there instead." },
                "replace_all": {
                    "type": "boolean",
                    "description": "Replace every occurrence. Default: false.",
                },
            },
            "required": ["path", "old_string", "new_string"],
        }),
    }
}

pub(super) fn run(root: &Root, call: &EditCall) -> Result<Outcome, String> {
    let path = &call.path;
    if call.old_string.is_empty() {
        return Err("old_string is empty; use write_file to write a whole file".to_owned());
    }
    if call.old_string == call.new_string {
        return Err("old_string and new_string are the same; nothing was changed".to_owned());
    }
    let target = root.target(path, false)?;
    let (file, stat) = target.read(path)?;
    let mut content = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut content)
        .map_err(|error| format!("{path}: {error}"))?;
    if content.len() as u64 > MAX_FILE {
        return Err(format!("{path} is larger than {} MiB", MAX_FILE / 1024 / 1024));
    }
    let (old, new) = if all_crlf(&content) {
        (to_crlf(&call.old_string), to_crlf(&call.new_string))
    } else {
        (call.old_string.clone(), call.new_string.clone())
    };
    let found = occurrences(&content, &old);
    match found.len() {
        0 => {
            return Err(format!("old_string does not occur in {path}; nothing was changed"));
        }
        1 => {}
        _ if call.replace_all => {}
        count => {
            return Err(format!(
                "old_string occurs {count} times in {path}; nothing was changed. Include more \
                 lines around it, or set replace_all"
            ));
        }
    }
    let mut changed = Vec::with_capacity(content.len());
    let mut at = 0;
    for start in &found {
        changed.extend_from_slice(&content[at..*start]);
        changed.extend_from_slice(new.as_bytes());
        at = start + old.len();
    }
    changed.extend_from_slice(&content[at..]);
    target.replace(path, &changed, Some(&stat))?;
    let output = match found.len() {
        1 => format!("edited {}", target.shown),
        count => format!("edited {} in {count} places", target.shown),
    };
    Ok(Outcome { output, touched: vec![target.shown], ..Outcome::default() })
}

/// Where `needle` starts, without overlaps. A text cannot begin or end inside bytes that are no
/// UTF-8, so it is enough to look between them.
fn occurrences(content: &[u8], needle: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    for chunk in content.utf8_chunks() {
        found.extend(chunk.valid().match_indices(needle).map(|(start, _)| at + start));
        at += chunk.valid().len() + chunk.invalid().len();
    }
    found
}

fn all_crlf(content: &[u8]) -> bool {
    let mut previous = 0;
    let mut any = false;
    for &byte in content {
        if byte == b'\n' {
            if previous != b'\r' {
                return false;
            }
            any = true;
        }
        previous = byte;
    }
    any
}

fn to_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}
