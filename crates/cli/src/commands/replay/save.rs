//! Where a replay is kept: as a session with a name, and in a file where one is meant.

use std::path::{Path, PathBuf};

use segue_share::foreign::Format;

use crate::{commands::export, context::Context, error::CommandError};

/// What `--save` said.
#[derive(Debug)]
pub(super) enum Save {
    Unnamed,
    Name(String),
    File { path: PathBuf, force: bool },
}

impl Save {
    /// What ends as a file of ours does is a file; any other word is a name.
    pub(super) fn parse(
        context: &Context,
        word: Option<&str>,
        force: bool,
    ) -> Result<Self, CommandError> {
        let Some(word) = word else { return Ok(Self::Unnamed) };
        if !is_file(word) {
            return match word.contains('/') {
                true => Err(CommandError::usage(format!("{word} is neither a name nor a file"))
                    .hint("a file ends in .tine, .segue or .json")),
                false => Ok(Self::Name(word.to_owned())),
            };
        }
        let path = context.cwd.join(word);
        let dir = path.parent().unwrap_or(&path);
        if !dir.is_dir() {
            return Err(CommandError::usage(format!("there is no directory {}", dir.display())));
        }
        if path.exists() && !force {
            return Err(CommandError::usage(format!("{} is there already", path.display()))
                .hint("--force replaces it"));
        }
        Ok(Self::File { path, force })
    }

    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            _ => None,
        }
    }
}

/// Whether a file is meant, and not a name.
pub(super) fn is_file(word: &str) -> bool {
    Format::of_path(Path::new(word)).is_some()
}

/// Writes a session into the file that was meant.
pub(super) fn write(
    context: &Context,
    save: &Save,
    number: &str,
) -> Result<Option<PathBuf>, CommandError> {
    let Save::File { path, force } = save else { return Ok(None) };
    export::to_file(context, number, path, *force)?;
    Ok(Some(path.clone()))
}
