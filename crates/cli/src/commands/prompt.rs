//! Where a prompt comes from: an argument, a file, standard input.

use std::{
    io::{IsTerminal, Read},
    path::Path,
};

use crate::{context::Context, error::CommandError};

pub(crate) fn read(
    context: &Context,
    given: Option<&str>,
    file: Option<&Path>,
    command: &str,
) -> Result<String, CommandError> {
    let text = match (given, file) {
        (Some(_), Some(_)) => {
            return Err(CommandError::usage("a prompt and --prompt-file exclude each other"));
        }
        (None, Some(file)) => std::fs::read_to_string(context.cwd.join(file))
            .map_err(|error| CommandError::usage(format!("{}: {error}", file.display())))?,
        (Some("-"), None) => from_stdin()?,
        (Some(prompt), None) => prompt.to_owned(),
        (None, None) if !std::io::stdin().is_terminal() => from_stdin()?,
        (None, None) => String::new(),
    };
    if text.trim().is_empty() {
        let example = format!("{command} \"Fix the failing test\"");
        return Err(CommandError::usage("there is no prompt").hint(example));
    }
    Ok(text)
}

pub(crate) fn from_stdin() -> Result<String, CommandError> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| CommandError::usage(format!("standard input: {error}")))?;
    Ok(text)
}
