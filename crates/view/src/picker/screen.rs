//! The terminal while the list has it, and how it's given back.
//!
//! Of a terminal that was closed, crossterm would go on reading for ever. So it only reads after
//! [`wait_for_input`] has seen that there is one, and a thread of its own waits for signals and
//! ends the process: it does so wherever the other one is.

use std::{
    io::{self, BufWriter, Stderr, Write},
    panic,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor, event, queue,
        terminal::{self, EnterAlternateScreen, LeaveAlternateScreen},
    },
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::{Handle, Signals},
    low_level::emulate_default_handler,
};

type Backend = CrosstermBackend<BufWriter<Stderr>>;

const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Whether there is something to give back.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A terminal of our own, for as long as this lives.
pub(super) struct Screen {
    terminal: Terminal<Backend>,
    signals: Handle,
    watcher: Option<JoinHandle<()>>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(io::stderr())))?;
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let watcher =
            thread::Builder::new().name("picker-signals".to_owned()).spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    give_back();
                    // As if nobody had listened: the shell is to see what ended the process.
                    drop(emulate_default_handler(signal));
                }
            })?;
        // From here on, whatever fails is undone by `drop`.
        let screen = Self { terminal, signals: handle, watcher: Some(watcher) };
        give_back_on_panic();
        take()?;
        Ok(screen)
    }

    pub(super) fn terminal(&mut self) -> &mut Terminal<Backend> {
        &mut self.terminal
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
        self.signals.close();
        if let Some(watcher) = self.watcher.take() {
            drop(watcher.join());
        }
    }
}

/// Waits for a key, for a while: a change of the size has to be looked for.
pub(super) fn wait_for_input() -> io::Result<()> {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut fds, Some(&TICK)) {
        // A signal may be that change.
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    match fds[0].revents().intersects(gone) {
        true => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the terminal was closed")),
        false => Ok(()),
    }
}

fn take() -> io::Result<()> {
    TAKEN.store(true, Ordering::SeqCst);
    terminal::enable_raw_mode()?;
    let mut err = io::stderr().lock();
    queue!(err, EnterAlternateScreen, event::EnableBracketedPaste)?;
    err.flush()
}

/// Once, whoever comes first. Each part is tried, also where another one fails.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        drop(terminal::disable_raw_mode());
        let mut err = io::stderr().lock();
        drop(queue!(err, event::DisableBracketedPaste, LeaveAlternateScreen, cursor::Show));
        drop(err.flush());
    }
}

/// A release aborts on a panic, without any `drop`; and what it has to say must be seen.
fn give_back_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
    });
}
