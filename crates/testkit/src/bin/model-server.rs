//! The scripted model server as a program, for tests that are not written in Rust.
//!
//! Prints its port as the only line on stdout once it can be reached, and serves until SIGTERM, SIGINT
//! or, with `--with-stdin`, the end of its stdin.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use segue_testkit::model_server::{ModelServer, Options, Scenario};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Serves a scenario as a model vendor on a loopback port.
#[derive(Debug, Parser)]
#[command(name = "model-server")]
struct Args {
    /// The scenario, a TOML file.
    #[arg(long, value_name = "FILE")]
    scenario: PathBuf,
    /// The port; 0 lets the system choose.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Append every request to this file as a JSON line.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write the port to this file.
    #[arg(long, value_name = "FILE")]
    port_file: Option<PathBuf>,
    /// Also stop when stdin ends.
    #[arg(long)]
    with_stdin: bool,
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("model-server: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> io::Result<()> {
    // Before the port is told to anyone: who knows it may already send the signal.
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let scenario = Scenario::load(&args.scenario)?;
    let options = Options { port: args.port, record: args.record };
    let server = ModelServer::start_with(scenario, &options)?;
    if let Some(path) = &args.port_file {
        write_whole(path, &server.port().to_string())?;
    }
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", server.port())?;
    stdout.flush()?;
    if args.with_stdin {
        let handle = signals.handle();
        std::thread::spawn(move || {
            // An error ends it as well as the end does.
            drop(io::stdin().lock().read_to_end(&mut Vec::new()));
            handle.close();
        });
    }
    signals.forever().next();
    drop(server);
    Ok(())
}

/// Whoever waits for the file to appear must not find it empty.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".tmp");
    std::fs::write(&draft, text)?;
    std::fs::rename(&draft, path)
}
