//! The terminal while a screen has it, and how it's given back.
//!
//! Of a terminal that was closed, crossterm would go on reading for ever. So it only reads after
//! [`events`] has seen that there is one, and a thread of its own waits for signals and
//! ends the process: it does so wherever the other one is.

use std::{
    io::{self, BufWriter, Stderr, Write},
    panic,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor,
        event::{self, Event, KeyEventKind},
        queue,
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

const TICK: Duration = Duration::from_millis(200);

/// Whether there is something to give back.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Whether another program has the terminal for now.
static LENT: AtomicBool = AtomicBool::new(false);

/// A terminal of our own, for as long as this lives.
pub(crate) struct Screen {
    terminal: Terminal<Backend>,
    signals: Handle,
    watcher: Option<JoinHandle<()>>,
}

impl Screen {
    pub(crate) fn open() -> io::Result<Self> {
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(io::stderr())))?;
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let watcher =
            thread::Builder::new().name("screen-signals".to_owned()).spawn(move || {
                for signal in signals.forever() {
                    // Meant for the program that has the terminal meanwhile.
                    if signal == SIGINT && LENT.load(Ordering::SeqCst) {
                        continue;
                    }
                    give_back();
                    // As if nobody had listened: the shell is to see what ended the process.
                    drop(emulate_default_handler(signal));
                }
            })?;
        // From here on, whatever fails is undone by `drop`.
        let screen = Self { terminal, signals: handle, watcher: Some(watcher) };
        give_back_on_panic();
        take()?;
        // From the first look on, a change of the size is noticed.
        event::poll(Duration::ZERO)?;
        Ok(screen)
    }

    pub(crate) fn terminal(&mut self) -> &mut Terminal<Backend> {
        &mut self.terminal
    }

    /// Lends the terminal to another program, as it was before.
    pub(crate) fn lend<T>(&mut self, program: impl FnOnce() -> T) -> io::Result<T> {
        LENT.store(true, Ordering::SeqCst);
        give_back();
        let ended = program();
        let taken = take();
        LENT.store(false, Ordering::SeqCst);
        taken?;
        // Nothing of what was on it is there any more.
        self.terminal.clear()?;
        Ok(ended)
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

/// Waits for something to happen, or until it is time. What has come at once is given at once, so
/// that a screen that is slow to draw does not lag behind the keys.
pub(crate) fn events(until: Option<Instant>) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        wait_for_input(left.map_or(TICK, |left| left.min(TICK)))?;
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Release => {}
                event => events.push(event),
            }
        }
        if !events.is_empty() || left == Some(Duration::ZERO) {
            return Ok(events);
        }
    }
}

/// Waits for a key, for a while: a change of the size has to be looked for.
fn wait_for_input(longest: Duration) -> io::Result<()> {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let longest = Timespec {
        tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: longest.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&longest)) {
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
