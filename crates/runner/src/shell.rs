//! One shell command from its start to its end, under a guardian.
//!
//! What it leaves running is ended with it, so that nothing goes on changing files unrecorded.

use std::{
    ffi::OsString,
    io::{ErrorKind, Read},
    path::Path,
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use segue_agents::native::tools::{Capture, Ended};

use crate::{
    guardian::{Exit, Guarded, SpawnError, Spec, Stdin},
    process,
    supervisor::{Activity, LOOK, Supervisor},
};

/// Between the polite signal and the hard one.
const GRACE: Duration = Duration::from_secs(2);

/// How long output may still come after the command has ended: what it left in the pipe.
const DRAIN: Duration = Duration::from_millis(200);

/// How many pieces of output may wait to be taken: a command that prints without end has to wait.
const PIECES: usize = 64;

/// Never given to a command that a model chose: a key is for the model's API alone.
const SECRETS: [&str; 5] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "SEGUE_CHAT_KEY",
];

/// What a command printed, and how it ended.
#[derive(Debug)]
pub struct Finished {
    pub capture: Capture,
    pub ended: Ended,
}

/// Runs `sh -c command` until it ends, its time is up, or the run has to end.
pub fn run(
    supervisor: &mut Supervisor<'_>,
    root: &Path,
    command: &str,
    limit: Duration,
) -> Result<Finished, SpawnError> {
    let mut guarded = match Guarded::spawn(spec(supervisor, root, command)) {
        // The guardian died before it could say whether the command runs: it may.
        Err(SpawnError::Io { source, .. }) if source.kind() == ErrorKind::UnexpectedEof => {
            end_leftovers(supervisor);
            return Ok(Finished { capture: Capture::new(), ended: Ended::Interrupted });
        }
        spawned => spawned?,
    };
    let (sender, output) = mpsc::sync_channel(PIECES);
    pump(guarded.take_stdout(), sender.clone());
    pump(guarded.take_stderr(), sender);
    let mut capture = Capture::new();
    let started = Instant::now();
    let mut asked_to_end = None;
    let exit = loop {
        let seen = capture.total();
        take(&output, &mut capture, Duration::ZERO);
        let patience = if capture.total() == seen { LOOK } else { Duration::ZERO };
        match guarded.wait_timeout(patience) {
            Ok(Some(exit)) => break exit,
            Ok(None) => {}
            Err(_) => break Exit::GuardianLost,
        }
        supervisor.progress(Activity::Running(command));
        if asked_to_end.is_none() {
            asked_to_end = if supervisor.must_end().is_some() {
                Some(Ended::Interrupted)
            } else {
                (started.elapsed() >= limit).then_some(Ended::TimedOut(limit))
            };
            if asked_to_end.is_some() {
                guarded.end(Signal::TERM, GRACE);
            }
        }
    };
    take(&output, &mut capture, DRAIN);
    // Before the result is recorded, nothing of the command may be left.
    let _ = guarded.kill_tree();
    if exit == Exit::GuardianLost {
        end_leftovers(supervisor);
    }
    let ended = asked_to_end.unwrap_or(match exit {
        Exit::Code(code) => Ended::Exit(code),
        Exit::Signal(signal) => Ended::Signal(signal),
        Exit::GuardianLost => Ended::Interrupted,
    });
    Ok(Finished { capture, ended })
}

/// What a guardian that is gone can't end any more.
fn end_leftovers(supervisor: &Supervisor<'_>) {
    process::end_leftovers(&supervisor.session().session().id().to_string(), GRACE);
}

fn spec(supervisor: &Supervisor<'_>, root: &Path, command: &str) -> Spec {
    let session = supervisor.session().session().id().to_string();
    Spec {
        program: "sh".into(),
        args: vec!["-c".into(), command.into()],
        cwd: root.to_owned(),
        env: vec![(process::SESSION_VAR.into(), session.into())],
        env_remove: SECRETS.iter().map(OsString::from).collect(),
        stdin: Stdin::Null,
        guardian: process::guardian(),
    }
}

/// Reads a pipe on a thread of its own until it is closed.
fn pump(pipe: Option<impl Read + Send + 'static>, to: SyncSender<Vec<u8>>) {
    let Some(mut pipe) = pipe else { return };
    let reader = move || {
        let mut buffer = [0; 8192];
        while let Ok(got @ 1..) = pipe.read(&mut buffer) {
            if to.send(buffer[..got].to_vec()).is_err() {
                return;
            }
        }
    };
    // Without a thread the output is lost, not the command; its exit status still tells.
    let _ = thread::Builder::new().name("output".to_owned()).spawn(reader);
}

/// Takes what has been printed; waits up to `patience` for the pipes to be closed.
fn take(output: &Receiver<Vec<u8>>, capture: &mut Capture, patience: Duration) {
    let deadline = Instant::now() + patience;
    let mut taken = 0;
    // Not for ever: a command that prints without end must still be asked to end.
    while taken < PIECES || Instant::now() < deadline {
        match output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(bytes) => capture.push(&bytes),
            Err(_) => return,
        }
        taken += 1;
    }
}
