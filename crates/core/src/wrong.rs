//! What is wrong with a file that a person wrote, and where.
//!
//! Whoever reads such a file collects these, and tells all of them at once. What an error repeats of
//! the file is short and on one line, whatever the file has.

use std::fmt;

use serde::Serialize;

/// How much of somebody's text an error repeats.
const MOST_REPEATED: usize = 40;

/// Something that is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wrong {
    pub file: String,
    /// `None` where it is the file as a whole.
    pub line: Option<usize>,
    pub what: String,
}

impl Wrong {
    pub fn new(
        file: impl Into<String>,
        line: impl Into<Option<usize>>,
        what: impl Into<String>,
    ) -> Self {
        Self { file: file.into(), line: line.into(), what: what.into() }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

/// As much of a text as fits into an error, on one line.
pub(crate) fn repeated(text: &str) -> String {
    let short: String = text.chars().take(MOST_REPEATED).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{}{more}", short.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_repeats_no_more_than_it_has_to() {
        assert_eq!(repeated("T-1\n\u{1b}[2J"), "T-1\\n\\u{1b}[2J");
        assert_eq!(repeated(&"ü".repeat(1 << 20)).chars().count(), MOST_REPEATED + 1);
    }
}
