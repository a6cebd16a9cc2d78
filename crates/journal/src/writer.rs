//! Appends to a journal, and says when it is on the disk.
//!
//! Whoever appends waits for an answer of the strength that it asked for. Whoever comes while
//! another's group is being synced leaves its events in a queue, and the first to get its turn
//! takes all of them along: many small events share one sync. There is no thread between an event
//! and the disk; one thread only syncs what nobody waits for. A write or a sync that fails poisons
//! the writer for good: after a failed sync the system may have thrown the bytes away and call the
//! next sync a success, so the file has to be read afresh before anyone writes again.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{self, SyncSender, TryRecvError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use segue_core::event::{Draft, Event, VERSION};

use crate::{
    Clock,
    disk::DiskFile,
    error::{Error, Result},
    line::{self, Link, MAX_LINE, Place},
    scan::Position,
};

/// The longest that an event which nobody waits for stays unsynced.
const SYNC_WITHIN: Duration = Duration::from_millis(200);

/// A group is written when it gets this large, whoever else is waiting.
const GROUP_BYTES: usize = 1 << 20;

/// What an append waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The system has the bytes: they survive a kill of Segue, and reach the disk within 200 ms.
    Soon,
    /// The disk has the bytes: they survive a power cut. Asked for before anything irreversible.
    Synced,
}

struct Job {
    drafts: Vec<Draft>,
    durability: Durability,
    answer: SyncSender<Result<(Vec<Event>, Position), Refused>>,
}

/// Why a job was not done.
#[derive(Clone, Debug)]
enum Refused {
    /// Only this job: the writer goes on.
    TooLong(usize),
    /// This one and all after it.
    Poisoned(String),
}

/// Appends to a journal. Clones append to the same one.
#[derive(Clone, Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    path: PathBuf,
}

/// Keeps the thread that syncs. When this is dropped, everything is synced and the writers refuse.
#[derive(Debug)]
pub struct WriterThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the writers and the thread have in common.
struct Shared {
    /// Jobs that nobody has taken along yet, oldest first.
    queue: Mutex<Vec<Job>>,
    appender: Mutex<Appender>,
    /// Something was left for the thread to sync, or it is to end.
    woken: Condvar,
}

impl Shared {
    fn appender(&self) -> MutexGuard<'_, Appender> {
        self.appender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Vec<Job>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: syncs what has waited for long enough, and all of it at the end.
    fn keep_synced(&self) {
        let mut appender = self.appender();
        while !appender.closed {
            let Some(since) = appender.unsynced_since else {
                appender = self.woken.wait(appender).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = SYNC_WITHIN.saturating_sub(since.elapsed());
            if left.is_zero() {
                let _ = appender.sync();
            } else {
                let waited = self.woken.wait_timeout(appender, left);
                appender = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        if appender.unsynced_since.is_some() {
            let _ = appender.sync();
        }
        appender.poison.get_or_insert_with(|| "the writer has ended".to_owned());
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Writer {
    /// Starts on a file that has just been scanned up to `from`, its very end.
    pub fn start(
        file: Box<dyn DiskFile>,
        path: &Path,
        from: Position,
        clock: Clock,
    ) -> std::io::Result<(Self, WriterThread)> {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Vec::new()),
            appender: Mutex::new(Appender::new(file, from, clock)),
            woken: Condvar::new(),
        });
        let its = Arc::clone(&shared);
        let thread =
            thread::Builder::new().name("journal".to_owned()).spawn(move || its.keep_synced())?;
        let writer = Self { shared: Arc::clone(&shared), path: path.to_owned() };
        Ok((writer, WriterThread { shared, thread: Some(thread) }))
    }

    /// Appends the drafts as neighbours, and returns them as the events that they became, with the
    /// position after the last of them.
    pub fn append(
        &self,
        drafts: Vec<Draft>,
        durability: Durability,
    ) -> Result<(Vec<Event>, Position)> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.shared.queue().push(Job { drafts, durability, answer });
        let mut appender = self.shared.appender();
        let done = loop {
            match answered.try_recv() {
                Ok(done) => break done,
                // Nobody has taken this job along: it is our turn.
                Err(TryRecvError::Empty) => appender.group(&self.shared),
                Err(TryRecvError::Disconnected) => {
                    break Err(Refused::Poisoned("the writer has ended".to_owned()));
                }
            }
        };
        drop(appender);
        done.map_err(|refused| match refused {
            Refused::TooLong(bytes) => Error::TooLong { path: self.path.clone(), bytes },
            Refused::Poisoned(first) => Error::Poisoned { path: self.path.clone(), first },
        })
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.shared.appender().closed = true;
        self.shared.woken.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic in it has already been reported.
            let _ = thread.join();
        }
    }
}

/// The one that has the file.
struct Appender {
    file: Box<dyn DiskFile>,
    clock: Clock,
    at: Position,
    /// When the oldest byte that is not synced was written.
    unsynced_since: Option<Instant>,
    poison: Option<String>,
    closed: bool,
    buffer: Vec<u8>,
}

impl Appender {
    fn new(file: Box<dyn DiskFile>, at: Position, clock: Clock) -> Self {
        Self {
            file,
            clock,
            at,
            unsynced_since: None,
            poison: None,
            closed: false,
            buffer: Vec::new(),
        }
    }

    /// Writes the jobs that are waiting, with one write and at most one sync.
    fn group(&mut self, shared: &Shared) {
        let mut group = Vec::new();
        let mut at = self.at;
        self.buffer.clear();
        let mut jobs = std::mem::take(&mut *shared.queue()).into_iter();
        while self.buffer.len() < GROUP_BYTES
            && let Some(Job { drafts, durability, answer }) = jobs.next()
        {
            match self.encode(drafts, at) {
                Ok((events, after)) => {
                    at = after;
                    group.push(Done { durability, answer, events, after });
                }
                Err(refused) => drop(answer.send(Err(refused))),
            }
        }
        shared.queue().splice(0..0, jobs);
        let was_unsynced = self.unsynced_since.is_some();
        let mut done = self.write(at);
        let (waiting, soon): (Vec<_>, Vec<_>) =
            group.into_iter().partition(|job| job.durability == Durability::Synced);
        answer(soon, &done, self.at.synced);
        let late = self.unsynced_since.is_some_and(|since| since.elapsed() >= SYNC_WITHIN);
        if done.is_ok() && (late || !waiting.is_empty()) {
            done = self.sync();
        }
        answer(waiting, &done, self.at.synced);
        if self.unsynced_since.is_some() && !was_unsynced {
            shared.woken.notify_one();
        }
    }

    /// Puts the lines of one job into the buffer, all of them or none.
    fn encode(
        &mut self,
        drafts: Vec<Draft>,
        mut at: Position,
    ) -> Result<(Vec<Event>, Position), Refused> {
        let kept = self.buffer.len();
        let mut events = Vec::with_capacity(drafts.len());
        let time = (self.clock)();
        let at_text = time.to_string();
        for draft in drafts {
            let start = self.buffer.len();
            let place = Place { seq: at.seq + 1, prev: at.link, synced: self.at.synced };
            let encoded = line::encode_at(&draft, place, &at_text, &mut self.buffer)
                .map_err(|error| Refused::Poisoned(error.to_string()));
            let len = self.buffer.len() - start;
            let link = match encoded.and_then(|link| fits(link, len)) {
                Ok(link) => link,
                Err(refused) => {
                    self.buffer.truncate(kept);
                    return Err(refused);
                }
            };
            let version = at.version.max(VERSION);
            at = Position { offset: at.offset + len as u64, seq: place.seq, link, version, ..at };
            let Draft { turn, agent, id, body } = draft;
            events.push(Event { seq: place.seq, at: time, turn, agent, id, body });
        }
        Ok((events, at))
    }

    fn write(&mut self, after: Position) -> Result<(), String> {
        if let Some(first) = &self.poison {
            return Err(first.clone());
        }
        match self.file.write_all(&self.buffer) {
            Ok(()) => {
                self.at = Position { synced: self.at.synced, ..after };
                self.unsynced_since.get_or_insert_with(Instant::now);
                Ok(())
            }
            Err(error) => self.poisoned(&error),
        }
    }

    fn sync(&mut self) -> Result<(), String> {
        if let Some(first) = &self.poison {
            return Err(first.clone());
        }
        match self.file.sync() {
            Ok(()) => {
                self.at.synced = self.at.seq;
                self.unsynced_since = None;
                Ok(())
            }
            Err(error) => self.poisoned(&error),
        }
    }

    fn poisoned(&mut self, error: &std::io::Error) -> Result<(), String> {
        let first = error.to_string();
        self.poison = Some(first.clone());
        self.unsynced_since = None;
        Err(first)
    }
}

fn fits(link: Link, len: usize) -> Result<Link, Refused> {
    if len <= MAX_LINE { Ok(link) } else { Err(Refused::TooLong(len)) }
}

/// A job that is in the buffer, and what it became.
struct Done {
    durability: Durability,
    answer: SyncSender<Result<(Vec<Event>, Position), Refused>>,
    events: Vec<Event>,
    after: Position,
}

fn answer(jobs: Vec<Done>, done: &Result<(), String>, synced: u64) {
    for Done { answer, events, after, .. } in jobs {
        let done = done.clone().map_err(Refused::Poisoned);
        // Whoever asked may be gone; the event is in the journal all the same.
        let _ = answer.send(done.map(|()| (events, Position { synced, ..after })));
    }
}
