//! `segue`: runs coding agents so that no run is ever lost.
//!
//! One command, one file under `commands/`, and no logic of its own.

mod background;
mod commands;
mod config;
mod context;
mod error;
mod observe;

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory, Parser};
use segue_core::Exit;
use segue_runner::{guardian, order};
use segue_view::style;

use crate::{
    commands::Command,
    context::{Context, Global, check_printed, say},
    error::CommandResult,
};

/// Run coding agents so that no run is ever lost
///
/// Every turn is on disk while it happens. Kill it, lose the connection, close the lid: `segue
/// resume` goes on at exactly that point.
#[derive(Debug, Parser)]
#[command(
    name = "segue",
    version,
    disable_help_subcommand = true,
    after_help = "Try it: segue demo   (under a minute, no account, no network)"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next();
    let first = args.next();
    // Before anything else: a guardian has to stand when its owner may already be dying.
    if first.as_ref().is_some_and(|first| first == guardian::ARGUMENT) {
        return guardian::main(args);
    }
    if first.as_ref().is_some_and(|first| first == order::ARGUMENT) {
        let error = order::obey(args.next().unwrap_or_default().as_ref());
        say(&format!("error: {error}"));
        return ExitCode::from(Exit::AgentMissing.code());
    }
    let in_background = first.as_ref().is_some_and(|first| first == background::ARGUMENT);
    if in_background {
        background::leave_terminal();
    }
    let first = first.filter(|_| !in_background);
    let args: Vec<OsString> = program.into_iter().chain(first).chain(args).collect();
    if args.len() < 2 {
        say(Cli::command().render_help().to_string().trim_end());
        return ExitCode::from(Exit::Usage.code());
    }
    let cli = Cli::parse_from(args);
    let json = cli.global.json;
    let exit = run(cli).unwrap_or_else(|error| {
        say(&if json { error.to_json() } else { harmless(&error.to_string()) });
        error.exit
    });
    ExitCode::from(exit.code())
}

/// An error repeats what was typed or read, which may be meant to steer a terminal.
fn harmless(text: &str) -> String {
    text.lines().map(style::sanitize).collect::<Vec<_>>().join("\n")
}

fn run(cli: Cli) -> CommandResult {
    let exit = cli.command.run(&Context::new(&cli.global)?)?;
    check_printed()?;
    Ok(exit)
}
