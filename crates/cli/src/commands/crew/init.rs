//! `segue crew init` and `check`: a `segue.toml` to begin with, and what is wrong with one.

use std::{
    io,
    path::{Path, PathBuf},
};

use segue_core::{
    Exit,
    crew::{self, FILE},
};
use serde_json::json;

use super::sheet;
use crate::{
    context::{Context, print, say},
    error::{CommandError, CommandResult},
};

/// Write a segue.toml with explanations, and the prompts that it names
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where [default: the working directory]
    dir: Option<PathBuf>,
}

/// Read a segue.toml, and say everything that is wrong with it
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The file [default: the nearest one above]
    file: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let dir = args.dir.as_ref().map_or_else(|| context.cwd.clone(), |dir| context.cwd.join(dir));
    let path = dir.join(FILE);
    if path.exists() {
        return Err(CommandError::usage(format!("{} is there already", path.display()))
            .hint("segue crew check says what is wrong with it"));
    }
    let mut written = vec![FILE];
    for (name, text) in crew::prompts() {
        if write(&dir.join(name), text)? {
            written.push(name);
        }
    }
    write(&path, crew::template())?;
    if context.json {
        context.print_json(&json!({ "dir": dir, "written": written }))?;
        return Ok(Exit::Done);
    }
    for name in written {
        print(&dir.join(name).display().to_string());
    }
    say("say in there who is in the crew, then: segue crew up --session NAME");
    Ok(Exit::Done)
}

/// What is there stays as it is.
fn write(path: &Path, text: &str) -> Result<bool, CommandError> {
    let wrong = |error: io::Error| CommandError::failed(format!("{}: {error}", path.display()));
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(wrong)?;
    }
    let made = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        made => {
            io::Write::write_all(&mut made.map_err(wrong)?, text.as_bytes()).map_err(wrong)?;
            Ok(true)
        }
    }
}

pub(crate) fn check(context: &Context, args: &Check) -> CommandResult {
    let sheet = sheet::read(context, args.file.as_deref())?;
    let places = sheet.roster.places();
    if context.json {
        sheet::check_agents(context, &sheet)?;
        context.print_json(&json!({ "project": sheet.project, "roster": sheet.roster,
            "members": places.iter().map(|place| &place.member).collect::<Vec<_>>() }))?;
        return Ok(Exit::Done);
    }
    for place in &places {
        let spec = sheet.roster.spec(&place.spec);
        let what = spec.map(|spec| spec.agent.clone().unwrap_or_else(|| spec.command.join(" ")));
        let group = place.group.as_deref().map(|group| format!(" · {group}")).unwrap_or_default();
        print(&format!("{}  {}{group}", place.member, what.unwrap_or_default()));
    }
    sheet::check_agents(context, &sheet)?;
    Ok(Exit::Done)
}
