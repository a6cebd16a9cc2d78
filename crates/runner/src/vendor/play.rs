//! One run of a vendor's program: started, written to, read from, watched and ended.
//!
//! Its bytes go to the stream file first, and to the [`Listener`] then.

use std::{
    io::{Read, Write},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal as Kill;
use segue_agents::vendor::Card;
use segue_core::{
    event::{Reason, SessionStopped},
    state::Progress,
};
use segue_journal::stream::{Stream, Voice};

use super::listen::{Listener, Played};
use crate::{
    guardian::{Ended, Exit, Guarded, SpawnError, Spec},
    process,
    supervisor::{Activity, Halt, LOOK, Supervisor, capped, stop},
};

/// How long a program may take to end after its last word.
const AFTER_END: Duration = Duration::from_secs(10);

/// How long a turn may still go on when a cap is reached: it may be over just now.
const MOMENT: Duration = Duration::from_secs(1);

/// How long a protocol's own way of stopping may take before a signal follows.
const CANCEL: Duration = Duration::from_secs(3);

/// Between the vendor's own signal and the hard one.
const GRACE: Duration = Duration::from_secs(5);

/// How long what a program left behind may still print after its end, and how long the pipe may stay
/// quiet before it counts as empty.
const DRAIN: Duration = Duration::from_millis(200);

/// How many pieces may wait to be taken.
const PIECES: usize = 64;

/// When a run has gone on for too long without getting anywhere.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Nothing heard for so long, while no tool runs.
    pub silence: Duration,
    /// Nothing heard for so long, while one does.
    pub tool_silence: Duration,
    /// So many tries in a row that the vendor made by itself.
    pub retries: u32,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(10 * 60),
            tool_silence: Duration::from_secs(60 * 60),
            retries: 8,
        }
    }
}

/// Runs the program until it has ended, with all that it started.
pub(super) fn play(
    supervisor: &mut Supervisor<'_>,
    spec: Spec,
    listener: Listener<'_>,
    card: &Card,
    watch: &Watch,
) -> Result<Played, Halt> {
    let turn = supervisor.state().turn.number;
    let agent = supervisor.agent().to_owned();
    let mut files = [
        supervisor.session().stream(turn, &agent, Voice::Out)?,
        supervisor.session().stream(turn, &agent, Voice::Err)?,
    ];
    let mut guarded = Guarded::spawn(spec).map_err(|error| not_started(error, card))?;
    let (sender, pieces) = mpsc::sync_channel(PIECES);
    pump(guarded.take_stdout(), sender.clone(), Piece::Out);
    pump(guarded.take_stderr(), sender, Piece::Err);
    let mut run = Running {
        say: writer(guarded.take_stdin()),
        listener,
        watch: *watch,
        signal: Kill::from_named_raw(card.stop_signal).unwrap_or(Kill::TERM),
        heard_at: Instant::now(),
        ended_at: None,
        over_at: None,
        stopping: Stopping::No,
        stopped: None,
    };
    run.open();
    let mut exit = None;
    let mut exited_at = None;
    loop {
        match pieces.recv_timeout(LOOK) {
            Ok(piece) => run.take(supervisor, &mut files, &piece)?,
            Err(RecvTimeoutError::Timeout) => {}
            // All that it could say is said.
            Err(RecvTimeoutError::Disconnected) if exit.is_some() => break,
            Err(RecvTimeoutError::Disconnected) => {
                exit = guarded.wait_timeout(LOOK).unwrap_or(Some(Exit::GuardianLost));
            }
        }
        if exit.is_none() {
            exit = guarded.try_wait().unwrap_or(Some(Exit::GuardianLost));
        }
        if exit.is_some() && exited_at.get_or_insert_with(Instant::now).elapsed() >= DRAIN {
            break;
        }
        run.look(supervisor, &guarded)?;
    }
    // Before its end is recorded, nothing of it may be left.
    let ended = guarded.kill_tree();
    if exit == Some(Exit::GuardianLost) {
        process::end_leftovers(&supervisor.session().session().id().to_string(), GRACE);
    }
    // What it had printed by then counts, however much it is. Whoever can't be killed may print for
    // ever, and is not waited for.
    let wait = if matches!(ended, Ok(Ended::Clean)) { DRAIN } else { Duration::ZERO };
    while let Ok(piece) = pieces.recv_timeout(wait) {
        run.take(supervisor, &mut files, &piece)?;
    }
    drop(pieces);
    let Running { listener, stopped, .. } = run;
    listener.exited(supervisor, exit, stopped)
}

fn not_started(error: SpawnError, card: &Card) -> Halt {
    let missing = matches!(error, SpawnError::NotFound(_));
    let hint = (missing && !card.install.is_empty()).then(|| card.install.to_owned());
    SessionStopped { hint, ..stop(Reason::Failed, error.to_string()) }.into()
}

enum Piece {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

/// Reads a pipe on a thread of its own until it is closed.
fn pump(
    pipe: Option<impl Read + Send + 'static>,
    to: SyncSender<Piece>,
    wrap: fn(Vec<u8>) -> Piece,
) {
    let Some(mut pipe) = pipe else { return };
    let reader = move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(got @ 1..) = pipe.read(&mut buffer) {
            if to.send(wrap(buffer[..got].to_vec())).is_err() {
                return;
            }
        }
    };
    // Without a thread its end is seen all the same, and it counts as one without a last word.
    let _ = thread::Builder::new().name("vendor-output".to_owned()).spawn(reader);
}

/// Writes to the program on a thread of its own: a long prompt must not keep us from listening.
/// The pipe is closed when the sender is dropped.
fn writer(pipe: Option<impl Write + Send + 'static>) -> Option<Sender<Vec<u8>>> {
    let mut pipe = pipe?;
    let (sender, bytes): (_, Receiver<Vec<u8>>) = mpsc::channel();
    let writer = move || {
        for bytes in bytes {
            // A program that does not want to hear it has its reasons; its end will tell.
            if pipe.write_all(&bytes).and_then(|()| pipe.flush()).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("vendor-input".to_owned()).spawn(writer).ok()?;
    Some(sender)
}

/// How far a stop has got.
#[derive(Clone, Copy, Debug)]
enum Stopping {
    No,
    /// Asked in the protocol's own way.
    Asked(Instant),
    Signalled,
}

/// A program at work, and the patience with it.
struct Running<'a> {
    say: Option<Sender<Vec<u8>>>,
    listener: Listener<'a>,
    watch: Watch,
    signal: Kill,
    heard_at: Instant,
    ended_at: Option<Instant>,
    over_at: Option<Instant>,
    stopping: Stopping,
    stopped: Option<SessionStopped>,
}

impl Running<'_> {
    fn open(&mut self) {
        let opening = self.listener.dialogue.open();
        self.listener.heard.say = opening.bytes;
        self.listener.heard.close = opening.close;
        self.answer();
    }

    /// A piece of its output: to its file first, then to the one who understands it.
    fn take(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        [out, err]: &mut [Stream; 2],
        piece: &Piece,
    ) -> Result<(), Halt> {
        self.heard_at = Instant::now();
        match piece {
            Piece::Out(bytes) => {
                out.write(bytes)?;
                self.listener.bytes(supervisor, bytes)
            }
            Piece::Err(bytes) => {
                err.write(bytes)?;
                self.listener.error_bytes(supervisor, bytes)
            }
        }
    }

    /// Says what the adapter wants to be said.
    fn answer(&mut self) {
        let heard = &mut self.listener.heard;
        if !heard.say.is_empty()
            && let Some(say) = &self.say
        {
            let _ = say.send(std::mem::take(&mut heard.say));
        }
        if std::mem::take(&mut heard.close) {
            self.say = None;
        }
    }

    /// Whatever has to happen without a word from the program.
    fn look(&mut self, supervisor: &mut Supervisor<'_>, guarded: &Guarded) -> Result<(), Halt> {
        self.answer();
        supervisor.progress(Activity::Thinking);
        match self.stopping {
            Stopping::No => {}
            Stopping::Asked(at) if at.elapsed() < CANCEL => return Ok(()),
            Stopping::Asked(_) => {
                guarded.end(self.signal, GRACE);
                self.stopping = Stopping::Signalled;
                return Ok(());
            }
            Stopping::Signalled => return Ok(()),
        }
        if let Some(stop) = supervisor.must_end() {
            self.stop(guarded, Some(stop));
        } else if self.listener.played.ending.is_some() {
            // Its last word is spoken: it has no business being here much longer.
            let since = *self.ended_at.get_or_insert_with(Instant::now);
            if since.elapsed() >= AFTER_END {
                self.stop(guarded, None);
            }
        } else if let Some(cap) = self.listener.over
            && self.over_at.get_or_insert_with(Instant::now).elapsed() >= MOMENT
        {
            self.stop(guarded, Some(capped(cap)));
        } else if let Some(stop) = self.listener.enough.take() {
            self.stop(guarded, Some(stop));
        } else if self.listener.played.gave_up_on.is_some() {
            self.stop(guarded, None);
        } else if let Some(stop) = self.silent(supervisor) {
            self.stop(guarded, Some(stop));
        }
        Ok(())
    }

    /// Its own way first, then its own signal; what is left after the grace is killed.
    fn stop(&mut self, guarded: &Guarded, why: Option<SessionStopped>) {
        self.stopped = why;
        if self.listener.played.ending.is_none() {
            self.listener.cancel();
        }
        if self.listener.heard.say.is_empty() {
            guarded.end(self.signal, GRACE);
            self.stopping = Stopping::Signalled;
        } else {
            self.answer();
            self.stopping = Stopping::Asked(Instant::now());
        }
    }

    fn silent(&self, supervisor: &Supervisor<'_>) -> Option<SessionStopped> {
        let busy = supervisor.state().turn.calls().any(|call| call.progress == Progress::Started);
        let patience = if busy { self.watch.tool_silence } else { self.watch.silence };
        if self.heard_at.elapsed() < patience {
            return None;
        }
        let seconds = patience.as_secs();
        Some(stop(Reason::Silent, format!("the agent said nothing for {seconds} s")))
    }
}
