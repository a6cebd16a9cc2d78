//! The smallest Segue there can be: runs the command in its arguments under a guardian, and ends
//! as the command does. The tests of the guardian kill it in every way.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::thread;

use segue_runner::guardian::{self, Exit, Guarded, Spec, Stdin};
use segue_runner::process;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.next_if(|first| first == guardian::ARGUMENT).is_some() {
        return guardian::main(args);
    }
    match run(args) {
        Ok(Exit::Code(code)) => ExitCode::from(code.to_le_bytes()[0]),
        Ok(exit) => {
            eprintln!("{exit:?}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut args: impl Iterator<Item = OsString>) -> io::Result<Exit> {
    let mut guarded = Guarded::spawn(Spec {
        program: args.next().unwrap_or_default(),
        args: args.collect(),
        cwd: std::env::current_dir()?,
        env: Vec::new(),
        env_remove: Vec::new(),
        stdin: Stdin::Null,
        guardian: process::this_program(),
    })
    .map_err(io::Error::other)?;
    let stdout = guarded.take_stdout();
    let copier =
        thread::spawn(move || stdout.map(|mut from| io::copy(&mut from, &mut io::stdout())));
    let exit = guarded.wait()?;
    guarded.kill_tree()?;
    let _ = copier.join();
    Ok(exit)
}
