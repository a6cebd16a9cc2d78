//! How a person names a session: the same in every command.
//!
//! Only the reading is here; finding the session that is meant needs the disk.

use std::path::PathBuf;

use crate::id::SessionId;

/// What was typed, by its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// `@latest`, or nothing at all: the latest session of this repository.
    Latest,
    /// `7`
    Number(u64),
    /// A whole ULID.
    Id(SessionId),
    /// A path to a session directory.
    Path(PathBuf),
    /// A name, a vendor's id, or the start of a ULID: whichever fits exactly one session.
    Word(String),
}

impl Selector {
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if text.is_empty() || text == "@latest" {
            return Self::Latest;
        }
        // Before the number: an id may consist of digits alone.
        if let Ok(id) = text.to_ascii_uppercase().parse() {
            return Self::Id(id);
        }
        if let Ok(number) = text.strip_prefix('#').unwrap_or(text).parse() {
            return Self::Number(number);
        }
        if text.contains('/') || text == "." || text == ".." {
            return Self::Path(PathBuf::from(text));
        }
        Self::Word(text.to_owned())
    }
}

/// Why a text can't be a session's name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error("a name has 1 to 80 characters, and no blank at either end")]
    Length,
    #[error("a name does not contain `/`, `@`, `#` or control characters")]
    Character,
    #[error("a name of digits alone would be taken for a number")]
    Number,
    #[error("this name would be taken for a session id")]
    Id,
}

/// Checks that `name` can't be mistaken for any other way to select a session.
pub fn check_name(name: &str) -> Result<(), BadName> {
    if name.trim() != name || name.is_empty() || name.chars().count() > 80 {
        return Err(BadName::Length);
    }
    if name.chars().any(|c| c.is_control() || matches!(c, '/' | '@' | '#')) || name.starts_with('.')
    {
        return Err(BadName::Character);
    }
    match Selector::parse(name) {
        Selector::Number(_) => Err(BadName::Number),
        Selector::Id(_) => Err(BadName::Id),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_told_apart() {
        let id = SessionId::from_parts(1_800_000_000_000, 3);
        assert_eq!(Selector::parse(""), Selector::Latest);
        assert_eq!(Selector::parse("@latest"), Selector::Latest);
        assert_eq!(Selector::parse("7"), Selector::Number(7));
        assert_eq!(Selector::parse("#7"), Selector::Number(7));
        assert_eq!(Selector::parse(&id.to_string()), Selector::Id(id));
        assert_eq!(Selector::parse(&id.to_string().to_lowercase()), Selector::Id(id));
        assert_eq!(Selector::parse("./x"), Selector::Path("./x".into()));
        assert_eq!(Selector::parse("01JCQ"), Selector::Word("01JCQ".into()));
        assert_eq!(Selector::parse("refactor"), Selector::Word("refactor".into()));
    }

    #[test]
    fn a_name_is_only_a_name() {
        assert_eq!(check_name("big refactoring"), Ok(()));
        assert_eq!(check_name("77"), Err(BadName::Number));
        assert_eq!(check_name("a/b"), Err(BadName::Character));
        assert_eq!(check_name("@latest"), Err(BadName::Character));
        assert_eq!(check_name(""), Err(BadName::Length));
        assert_eq!(check_name(" x"), Err(BadName::Length));
        let id = SessionId::from_parts(1, 1).to_string();
        assert_eq!(check_name(&id), Err(BadName::Id));
    }
}
