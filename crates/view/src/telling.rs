//! What is worth saying of a tool's input and output, in a few words.

use segue_core::Payload;
use serde_json::Value;

use crate::style::{bytes, count, sanitize, shorten};

/// The fields of a tool's input that tell what it does, the most telling first.
const TELLING: [&str; 9] =
    ["command", "cmd", "pattern", "file_path", "path", "query", "url", "description", "prompt"];

/// What a tool is asked for, in a few words.
pub(crate) fn telling(input: &Payload) -> String {
    let head = input.head();
    match serde_json::from_str::<Value>(head) {
        Ok(Value::Object(fields)) => {
            let named = TELLING.iter().find_map(|name| fields.get(*name)).and_then(words);
            let found = named.or_else(|| fields.values().find_map(words)).unwrap_or_default();
            match (fields.get("pattern"), fields.get("path").and_then(words)) {
                (Some(_), Some(path)) => format!("{found} in {path}"),
                _ => found,
            }
        }
        Ok(_) => sanitize(head).into_owned(),
        // The start of an input that is in a blob: what can be seen of the telling field.
        Err(_) => TELLING
            .iter()
            .find_map(|name| started_value(head, name))
            .unwrap_or_else(|| sanitize(head).into_owned()),
    }
}

fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(sanitize(text.trim()).into_owned()),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(words).collect();
            Some(items.join(" "))
        }
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Object(_) => None,
    }
}

/// A string value in JSON that may be cut off anywhere.
fn started_value(json: &str, name: &str) -> Option<String> {
    let (_, after) = json.split_once(&format!("\"{name}\""))?;
    let value = after.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let mut text = String::new();
    let mut chars = value.chars();
    loop {
        match chars.next() {
            None => return Some(format!("{}…", sanitize(text.trim()))),
            Some('"') => return Some(sanitize(text.trim()).into_owned()),
            Some('\\') => match chars.next() {
                Some('n' | 't' | 'r') => text.push(' '),
                Some('u') => text.push('\u{fffd}'),
                Some(c) => text.push(c),
                None => {}
            },
            Some(c) => text.push(c),
        }
    }
}

/// The last line with something on it: where a failing command says why.
pub(crate) fn last_line(output: &Payload) -> String {
    if output.blob.is_some() {
        return size(output);
    }
    printed(output.head())
        .lines()
        .map(|line| sanitize(line).trim().to_owned())
        .rfind(|line| !line.is_empty())
        .unwrap_or_default()
}

pub(crate) fn size(output: &Payload) -> String {
    if let Some(size) = output.bytes {
        return bytes(size);
    }
    let text = printed(output.head());
    match text.lines().count() {
        0 => String::new(),
        1 => shorten(&sanitize(unnumbered(text)), 60).into_owned(),
        n => count(n as u64, "line"),
    }
}

/// What a command printed, without the native agent's note on how it ended: the sign says that.
fn printed(output: &str) -> &str {
    let text = output.trim_end();
    match text.rsplit_once('\n').unwrap_or(("", text)) {
        (before, note) if note.starts_with("(exit status ") => before.trim_end(),
        _ => text,
    }
}

/// A line of a file, without the number that it was read with.
fn unnumbered(line: &str) -> &str {
    match line.split_once('\t') {
        Some((number, text)) if number.trim().parse::<u64>().is_ok() => text,
        _ => line.trim(),
    }
}
