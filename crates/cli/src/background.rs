//! Segue as a process of its own, without a terminal: it goes on when the terminal is closed.
//!
//! It is this same program, started from the user's shell, so it has the user's environment and no
//! secret goes through a command line. `segue __background ARGS…` is `segue ARGS…` after a setsid:
//! the signals of the terminal do not reach it. What it prints is in `<home>/logs/<session>.log`,
//! not in the session's directory, which is exported and copied.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    os::unix::{fs::OpenOptionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use segue_core::{Body, Event, Exit};
use segue_journal::{Session, tail::Tail};
use segue_runner::process::this_program;

use crate::{context::Context, error::CommandError};

/// The hidden first argument that makes Segue leave its terminal.
pub(crate) const ARGUMENT: &str = "__background";

const LOOK: Duration = Duration::from_millis(20);

/// Who has the lock is about to record that it works, or to say why it can't; unless it waits.
const GRACE: Duration = Duration::from_secs(2);

/// A process in the background that has taken a session over.
#[derive(Debug)]
pub(crate) struct AtWork {
    pub(crate) pid: u32,
    pub(crate) log: PathBuf,
}

/// Leaves the terminal: called by the background process itself, before all else.
pub(crate) fn leave_terminal() {
    // Fails only for the leader of a group, which a process that `spawn` started is not.
    let _ = rustix::process::setsid();
}

/// Where the background process of a session writes.
pub(crate) fn log_of(context: &Context, session: &str) -> PathBuf {
    context.home.dir().join("logs").join(format!("{session}.log"))
}

/// Segue with these arguments, ready to be started apart from us, and with nothing to read from or
/// to write to.
pub(crate) fn command(context: &Context, args: &[OsString]) -> Command {
    let mut command = Command::new(this_program());
    command.arg0("segue").arg(ARGUMENT).arg("--home").arg(context.home.dir()).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts Segue in the background with these arguments. What it prints is in `log`.
fn spawn(context: &Context, args: &[OsString], log: &Path) -> Result<Child, CommandError> {
    let wrong = |error: std::io::Error| CommandError::failed(format!("{}: {error}", log.display()));
    if let Some(dir) = log.parent() {
        context.home.make_dir(dir)?;
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(log);
    let file = file.map_err(wrong)?;
    let also = file.try_clone().map_err(wrong)?;
    command(context, args)
        .stdout(file)
        .stderr(also)
        .spawn()
        .map_err(|error| CommandError::failed(format!("nothing could be started: {error}")))
}

/// Of several that are started at once for the same session one takes it over: until it is known which,
/// each writes to a file of its own.
fn draft_of(log: &Path) -> PathBuf {
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    log.with_file_name(format!(".{name}-{}", std::process::id()))
}

/// Starts Segue in the background, and waits until it has taken this session over. Where it does not
/// come to that, its error is the error.
pub(crate) fn take_over(
    context: &Context,
    session: &Session,
    selector: &str,
    args: &[OsString],
) -> Result<AtWork, CommandError> {
    let mut tail = Tail::new(&**context.home.disk(), session.dir(), session.position())?;
    let log = log_of(context, &log_name(session, selector));
    let draft = draft_of(&log);
    let mut child = spawn(context, args, &draft)?;
    let pid = child.id();
    let mut held_since: Option<Instant> = None;
    loop {
        // In this order: one that is quick may have begun and ended since the last look.
        let ended = child.try_wait()?;
        if tail.new_events()?.iter().any(|event| begun_by(event, pid)) {
            break;
        }
        if let Some(status) = ended {
            return Err(ended_early(status, &draft, &log));
        }
        if session.held_by()?.is_some_and(|holder| holder.pid == pid) {
            held_since.get_or_insert_with(Instant::now);
        }
        if held_since.is_some_and(|since| since.elapsed() > GRACE) {
            break;
        }
        thread::sleep(LOOK);
    }
    // A process that still writes to the one before keeps it.
    let log = if fs::rename(&draft, &log).is_ok() { log } else { draft };
    // Somebody has to ask how it ended, or it stays in the list of processes.
    thread::spawn(move || drop(child.wait()));
    Ok(AtWork { pid, log })
}

/// A session outside of the home is named by its path.
fn log_name(session: &Session, selector: &str) -> String {
    match selector.contains('/') {
        true => session.id().to_string(),
        false => selector.to_owned(),
    }
}

fn begun_by(event: &Event, pid: u32) -> bool {
    match &event.body {
        Body::SessionStarted(started) => started.by.pid == pid,
        Body::SessionResumed(resumed) => resumed.by.pid == pid,
        _ => false,
    }
}

/// What the process said before it ended.
fn ended_early(status: ExitStatus, draft: &Path, log: &Path) -> CommandError {
    let text = fs::read_to_string(draft).unwrap_or_default();
    let exit = match status.code() {
        Some(2) => Exit::Usage,
        Some(3) => Exit::Stopped,
        Some(4) => Exit::NoSuchSession,
        Some(5) => Exit::Busy,
        Some(127) => Exit::AgentMissing,
        _ => Exit::Failed,
    };
    let at = text.rfind("error: ").map(|at| &text[at + "error: ".len()..]);
    let mut lines = at.unwrap_or_default().lines();
    let Some(message) = lines.next() else {
        let place = if fs::rename(draft, log).is_ok() { log } else { draft };
        return CommandError::new(exit, format!("the background process ended at once: {status}"))
            .hint(format!("what it said is in {}", place.display()));
    };
    // All that it said is in the error.
    let _ = fs::remove_file(draft);
    let hints = lines.filter_map(|line| line.trim_start().strip_prefix("hint: "));
    hints.fold(CommandError::new(exit, message), CommandError::hint)
}

/// Removes what a session's background process has printed.
pub(crate) fn forget(context: &Context, session: &str) -> Result<(), CommandError> {
    match fs::remove_file(log_of(context, session)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
