//! Small helps for reading vendors' JSON, in which any field may be missing or of another kind.

use std::borrow::Cow;

use serde_json::Value;

/// A text at a path of names, or nothing.
#[must_use]
pub fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path)?.as_str()
}

#[must_use]
pub fn number(value: &Value, path: &[&str]) -> Option<u64> {
    at(value, path)?.as_u64()
}

#[must_use]
pub fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// What a tool of an MCP server has answered, where that is text.
#[must_use]
pub fn mcp_text(result: &Value) -> Option<String> {
    let parts = at(result, &["content"])?.as_array()?.iter();
    let texts: Vec<&str> = parts.filter_map(|part| text(part, &["text"])).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// A text of a field, where it has one.
pub type Text<'a> = Option<Cow<'a, str>>;
