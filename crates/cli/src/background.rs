//! Segue in the background: a process that outlives the one that started it, and its terminal.
//!
//! A new session of the system's can only be begun by a process itself, so the new one is told to
//! by its first argument.

use std::{
    ffi::{OsStr, OsString},
    process::{Command, Stdio},
};

use crate::{context::Context, error::CommandError};

/// The first argument of a Segue that is to leave the terminal of whoever started it.
pub(crate) const ARGUMENT: &str = "__background";

/// Segue with these arguments, ready to be started apart from us, and with nothing to read from
/// or to write to.
pub(crate) fn command(context: &Context, args: &[OsString]) -> Result<Command, CommandError> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::failed(format!("Segue can't find itself: {error}")))?;
    let mut command = Command::new(program);
    command.arg(ARGUMENT).args(args).arg("--home").arg(context.home.dir());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// The arguments without the one that says to leave the terminal, after that was done.
pub(crate) fn leave_terminal(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).map(OsString::as_os_str) == Some(OsStr::new(ARGUMENT)) {
        args.remove(1);
        // Fails only where there is nothing to leave.
        let _ = rustix::process::setsid();
    }
    args
}
