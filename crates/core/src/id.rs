//! The name that a session keeps for life, on every machine: a ULID.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ulid::Ulid;

/// A session's ULID: 26 characters, sorted by the time of creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(Ulid);

impl SessionId {
    /// Made of its two parts, so that this crate needs neither a clock nor a random source.
    #[must_use]
    pub fn from_parts(unix_millis: u64, random: u128) -> Self {
        Self(Ulid::from_parts(unix_millis, random))
    }

    /// The name of a ref that keeps files of the session.
    #[must_use]
    pub fn reference(self, name: &str) -> String {
        format!("refs/segue/{self}/{name}")
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text is not a ULID.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a session id (26 letters and digits, such as 01JCQZ4W6N3V8M5T9R2K7YB1XF)")]
pub struct BadId(String);

impl FromStr for SessionId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        // `Ulid` also takes lower case and look-alike letters; a directory has one spelling only.
        match Ulid::from_string(text) {
            Ok(ulid) if ulid.to_string() == text => Ok(Self(ulid)),
            _ => Err(BadId(text.to_owned())),
        }
    }
}

impl JsonSchema for SessionId {
    fn schema_name() -> Cow<'static, str> {
        "SessionId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A ULID.",
            "pattern": "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_only() {
        let id = SessionId::from_parts(1_700_000_000_000, 7);
        assert_eq!(id.to_string().parse::<SessionId>().unwrap(), id);
        assert!(id.to_string().to_lowercase().parse::<SessionId>().is_err());
        assert!("7".parse::<SessionId>().is_err());
    }

    #[test]
    fn sorted_by_time() {
        assert!(SessionId::from_parts(1, u128::MAX) < SessionId::from_parts(2, 0));
    }
}
