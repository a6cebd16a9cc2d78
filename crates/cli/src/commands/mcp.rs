//! `segue mcp`: the server of our own tools, which an agent's program starts for one run.

use std::{
    io::{BufReader, stdin, stdout},
    path::PathBuf,
    sync::Arc,
};

use segue_core::Exit;
use segue_journal::RealDisk;
use segue_loops::{mcp::serve, tools::Desk};

use crate::{context::Context, error::CommandResult};

/// The tools that Segue gives to an agent: an MCP server, started by the agent's program
///
/// It speaks on its standard streams. Segue passes it to the agent for each run, so there is
/// nothing to set up. Every agent has `checkpoint`: what it notes with it is in the session's
/// journal, and in the packet for whoever goes on. In a pair there are also `send_to_agent`,
/// `receive_messages` and `bridge_status`, and for a reviewer `submit_verdict`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue mcp --dir ~/.local/state/segue/sessions/ID --turn 3 --agent claude")]
pub(crate) struct Args {
    /// The session's directory
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The turn that the agent works on
    #[arg(long, value_name = "N")]
    turn: u32,
    /// The agent's name
    #[arg(long, value_name = "NAME")]
    agent: String,
}

pub(crate) fn run(_context: &Context, args: Args) -> CommandResult {
    let desk = Desk::new(Arc::new(RealDisk), args.dir, args.turn, args.agent);
    // Whoever started it has gone away: that is how it ends.
    let _ = serve(&desk, BufReader::new(stdin()), stdout().lock());
    Ok(Exit::Done)
}
