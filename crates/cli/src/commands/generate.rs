//! Completions, man pages and the command reference: all made from the commands themselves.

use std::{fmt::Write as _, fs, path::PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;
use segue_core::{Exit, schema};

use crate::{
    Cli,
    config::KEYS,
    error::{CommandError, CommandResult},
};

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  segue completions bash > ~/.local/share/bash-completion/completions/segue")]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

/// Write man pages into a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  segue man ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Where to; made if it is not there
    dir: PathBuf,
}

/// Write the command reference and the JSON Schemas into a docs directory
#[derive(Debug, clap::Args)]
pub(crate) struct Reference {
    /// Where to; made if it is not there
    dir: PathBuf,
}

pub(crate) fn completions(args: &Completions) -> CommandResult {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "segue", &mut text);
    crate::context::print(String::from_utf8_lossy(&text).trim_end());
    Ok(Exit::Done)
}

pub(crate) fn man(args: &Man) -> CommandResult {
    fs::create_dir_all(&args.dir)?;
    clap_mangen::generate_to(Cli::command(), &args.dir)?;
    Ok(Exit::Done)
}

pub(crate) fn reference(args: &Reference) -> CommandResult {
    let schemas = args.dir.join("schemas");
    fs::create_dir_all(&schemas)?;
    for (name, schema) in schema::all() {
        let text = serde_json::to_string_pretty(&schema)
            .map_err(|error| CommandError::failed(error.to_string()))?;
        fs::write(schemas.join(name), text + "\n")?;
    }
    fs::write(args.dir.join("commands.md"), commands())?;
    fs::write(args.dir.join("settings.md"), settings())?;
    Ok(Exit::Done)
}

fn commands() -> String {
    let mut text =
        "# Commands\n\nMade from the program itself by `segue reference docs`.\n".to_owned();
    let mut root = Cli::command().term_width(96);
    root.build();
    let _ = write!(text, "\n## segue\n\n```text\n{}\n```\n", plain(&mut root));
    below(&mut root, "segue", "##", &mut text);
    text
}

/// Every command below this one, each after the one that it belongs to.
fn below(above: &mut clap::Command, path: &str, level: &str, text: &mut String) {
    for command in above.get_subcommands_mut().filter(|command| !command.is_hide_set()) {
        let path = format!("{path} {}", command.get_name());
        let _ = write!(text, "\n{level} {path}\n\n```text\n{}\n```\n", plain(command));
        below(command, &path, &format!("{level}#"), text);
    }
}

fn plain(command: &mut clap::Command) -> String {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    lines.join("\n")
}

fn settings() -> String {
    let mut text = "# Settings\n\nMade from the program itself by `segue reference docs`.\n\n\
        A setting comes from a flag, else from its environment variable, else from `config.toml` in \
        the home, else from its default.\n\n| setting | environment | default | what it is |\n\
        | --- | --- | --- | --- |\n"
        .to_owned();
    for key in KEYS {
        let env = key.env.map_or_else(String::new, |name| format!("`{name}`"));
        let default = key.default.map_or_else(String::new, |value| format!("`{value}`"));
        let _ = writeln!(text, "| `{}` | {env} | {default} | {} |", key.name, key.about);
    }
    text.push_str(
        "| `prices.<model>.input`, `.output`, `.cache_read`, `.cache_write` | | | Dollars per \
         million tokens, for models that Segue has no price of. |\n",
    );
    text
}
