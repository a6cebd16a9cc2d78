//! What an agent may do without being asked, in three words that every vendor's own terms map to.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Look, and change nothing.
    ReadOnly,
    /// Edit files in the workspace, and nothing more.
    #[default]
    Edit,
    /// Whatever the user could do.
    Full,
}

impl Permission {
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::Edit, Self::Full];

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Edit => "edit",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Permission {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|one| one.word() == text);
        found.ok_or_else(|| format!("`{text}` is not read-only, edit or full"))
    }
}
