//! `segue tasks new`: a list to begin with.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use segue_core::{Exit, tasks};
use serde_json::json;

use super::source::{self, Part};
use crate::{
    context::{Context, print, say},
    error::{CommandError, CommandResult},
};

/// Write a small list of tasks that says itself what goes where
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  segue tasks new plan")]
pub(crate) struct Args {
    /// Where to; made if it is not there
    dir: PathBuf,
}

/// How many files that are there already an error names.
const MOST_NAMED: usize = 4;

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let dir = &args.dir;
    let failed = |path: &Path, error: std::io::Error| {
        CommandError::failed(format!("{}: {error}", path.display()))
    };
    fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let there = source::parts(dir).map_err(|error| failed(dir, error))?;
    if !there.is_empty() {
        return Err(taken(dir, &there));
    }
    let mut wrote = Vec::new();
    for (name, text) in tasks::template() {
        let path = dir.join(name);
        // Never one that somebody else has made in the meantime.
        let write = |mut file: File| file.write_all(text.as_bytes());
        File::create_new(&path).and_then(write).map_err(|error| failed(&path, error))?;
        wrote.push(path.display().to_string());
    }
    let next = format!("segue tasks check {}", dir.display());
    if context.json {
        context.print_json(&json!({ "wrote": wrote, "next": next }))?;
        return Ok(Exit::Done);
    }
    wrote.iter().for_each(|path| print(path));
    say("write your own tasks into them, then:");
    say(&next);
    Ok(Exit::Done)
}

/// A second list in one directory would be no list, even where no file is in the way of another.
fn taken(dir: &Path, there: &[Part]) -> CommandError {
    let names: Vec<String> =
        there.iter().take(MOST_NAMED).map(|part| part.path.display().to_string()).collect();
    let more = match there.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    CommandError::usage(format!("there is a list already: {}{more}", names.join(", ")))
        .hint(format!("check it: segue tasks check {}", dir.display()))
}
