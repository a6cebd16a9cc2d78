//! JSON as CPython writes it: what digests, ids and signatures are taken of.

use std::fmt::Write as _;

use super::json::Value;

/// Compact, keys in the order of their code points, nothing but ASCII.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, None, &mut out);
    out
}

/// The same in lines, two spaces a level: what stands in a file.
#[must_use]
pub fn pretty(value: &Value) -> String {
    let mut out = String::new();
    write(value, Some(0), &mut out);
    out
}

fn write(value: &Value, indent: Option<usize>, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Int(digits) => out.push_str(digits),
        Value::Float(float) => out.push_str(&repr(*float)),
        Value::Text(text) => quote(text, out),
        Value::List(list) => {
            let each = |value: &Value, inner, out: &mut String| write(value, inner, out);
            container(list.iter(), ('[', ']'), indent, out, each);
        }
        Value::Map(map) => {
            container(map.iter(), ('{', '}'), indent, out, |(key, value), inner, out| {
                quote(key, out);
                out.push_str(if inner.is_some() { ": " } else { ":" });
                write(value, inner, out);
            })
        }
    }
}

fn container<T>(
    items: impl ExactSizeIterator<Item = T>,
    (open, close): (char, char),
    indent: Option<usize>,
    out: &mut String,
    each: impl Fn(T, Option<usize>, &mut String),
) {
    out.push(open);
    let (empty, inner) = (items.len() == 0, indent.map(|level| level + 1));
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(',');
        }
        line(inner, out);
        each(item, inner, out);
    }
    if !empty {
        line(indent, out);
    }
    out.push(close);
}

fn line(indent: Option<usize>, out: &mut String) {
    if let Some(level) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", level));
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string can't fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

/// A fraction as Python's `repr` has it: the fewest digits that mean it, with an exponent below
/// 1e-4 and from 1e16 on.
fn repr(float: f64) -> String {
    let plain = format!("{float:e}");
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let text = format!("{float}");
    if text.contains('.') { text } else { format!("{text}.0") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_those_of_python() {
        // Each is `repr(float)` of CPython.
        for (float, said) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.000_012_3, "1.23e-05"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (1e22, "1e+22"),
            (1e100, "1e+100"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (1_763_400_000.123, "1763400000.123"),
        ] {
            assert_eq!(repr(float), said);
        }
    }

    #[test]
    fn keys_are_sorted_by_code_point_and_everything_is_ascii() {
        let value = Value::read("{\"\u{1F600}\":1,\"\u{FF5E}\":[],\"a\\u007f\\n\":{}}".as_bytes());
        let value = value.unwrap();
        assert_eq!(canonical(&value), r#"{"a\u007f\n":{},"\uff5e":[],"\ud83d\ude00":1}"#);
        assert_eq!(
            pretty(&value),
            "{\n  \"a\\u007f\\n\": {},\n  \"\\uff5e\": [],\n  \"\\ud83d\\ude00\": 1\n}"
        );
    }
}
