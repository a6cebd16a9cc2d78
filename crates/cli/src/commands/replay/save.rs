//! Where a replay is kept: as a session with a name, and in a file where one is meant.

use std::path::PathBuf;

use crate::{commands::export, context::Context, error::CommandError};

/// What `--save` said.
#[derive(Debug)]
pub(super) enum Save {
    Unnamed,
    Name(String),
    File { path: PathBuf, force: bool },
}

impl Save {
    /// A word is a name; what has an ending or a directory is a file.
    pub(super) fn parse(
        context: &Context,
        word: Option<&str>,
        force: bool,
    ) -> Result<Self, CommandError> {
        let Some(word) = word else { return Ok(Self::Unnamed) };
        if !word.contains(['/', '.']) {
            return Ok(Self::Name(word.to_owned()));
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
