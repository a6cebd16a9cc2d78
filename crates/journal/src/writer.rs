//! The thread that appends to a journal, and says when it is on the disk.
//!
//! Whoever appends waits for an answer of the strength that it asked for. While one group is being
//! synced the next one gathers, so that many small events share one sync. A write or a sync that
//! fails poisons the writer for good: after a failed sync the system may have thrown the bytes away
//! and call the next sync a success, so the file has to be read afresh before anyone writes again.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
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

/// A handle to the thread. Clones append to the same journal.
#[derive(Clone, Debug)]
pub struct Writer {
    jobs: Sender<Job>,
    path: PathBuf,
}

/// Keeps the thread: the journal is closed when this is dropped and all writers are.
#[derive(Debug)]
pub struct WriterThread(Option<JoinHandle<()>>);

impl Writer {
    /// Starts the thread on a file that has just been scanned up to `from`, its very end.
    pub fn start(
        file: Box<dyn DiskFile>,
        path: &Path,
        from: Position,
        clock: Clock,
    ) -> std::io::Result<(Self, WriterThread)> {
        let (jobs, received) = mpsc::channel();
        let mut appender = Appender::new(file, from, clock);
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || appender.serve(&received))?;
        Ok((Self { jobs, path: path.to_owned() }, WriterThread(Some(thread))))
    }

    /// Appends the drafts as neighbours, and returns them as the events that they became, with the
    /// position after the last of them.
    pub fn append(
        &self,
        drafts: Vec<Draft>,
        durability: Durability,
    ) -> Result<(Vec<Event>, Position)> {
        let poisoned = |first: String| Error::Poisoned { path: self.path.clone(), first };
        let (answer, answered) = mpsc::sync_channel(1);
        let sent = self.jobs.send(Job { drafts, durability, answer });
        let gone = || poisoned("the writer has ended".to_owned());
        sent.map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?.map_err(|refused| match refused {
            Refused::TooLong(bytes) => Error::TooLong { path: self.path.clone(), bytes },
            Refused::Poisoned(first) => poisoned(first),
        })
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // It ends when the last writer is gone; a panic in it has already been reported.
            let _ = thread.join();
        }
    }
}

/// The thread's own side.
struct Appender {
    file: Box<dyn DiskFile>,
    clock: Clock,
    at: Position,
    /// When the oldest byte that is not synced was written.
    unsynced_since: Option<Instant>,
    poison: Option<String>,
    buffer: Vec<u8>,
}

impl Appender {
    fn new(file: Box<dyn DiskFile>, at: Position, clock: Clock) -> Self {
        Self { file, clock, at, unsynced_since: None, poison: None, buffer: Vec::new() }
    }

    fn serve(&mut self, jobs: &Receiver<Job>) {
        loop {
            let first = match self.unsynced_since {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(since) => {
                    jobs.recv_timeout(SYNC_WITHIN.saturating_sub(since.elapsed()))
                }
            };
            match first {
                Ok(job) => self.group(job, jobs),
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.sync();
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = self.sync();
                    return;
                }
            }
        }
    }

    /// Writes this job and all that came in meanwhile with one write and at most one sync.
    fn group(&mut self, first: Job, jobs: &Receiver<Job>) {
        let mut group = Vec::new();
        let mut at = self.at;
        self.buffer.clear();
        let mut next = Some(first);
        while let Some(job) = next {
            match self.encode(&job.drafts, at) {
                Ok((events, after)) => {
                    at = after;
                    group.push((job, events, after));
                }
                Err(error) => drop(job.answer.send(Err(error))),
            }
            next = (self.buffer.len() < GROUP_BYTES).then(|| jobs.try_recv().ok()).flatten();
        }
        let durability = |wanted| move |(job, ..): &(Job, _, _)| job.durability == wanted;
        let mut done = self.write(at);
        let (waiting, soon): (Vec<_>, Vec<_>) =
            group.into_iter().partition(durability(Durability::Synced));
        answer(soon, &done, self.at.synced);
        if done.is_ok() && !waiting.is_empty() {
            done = self.sync();
        }
        answer(waiting, &done, self.at.synced);
        if self.unsynced_since.is_some_and(|since| since.elapsed() >= SYNC_WITHIN) {
            let _ = self.sync();
        }
    }

    /// Puts the lines of one job into the buffer, all of them or none.
    fn encode(
        &mut self,
        drafts: &[Draft],
        mut at: Position,
    ) -> Result<(Vec<Event>, Position), Refused> {
        let kept = self.buffer.len();
        let mut events = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let start = self.buffer.len();
            let place = Place { seq: at.seq + 1, prev: at.link, synced: self.at.synced };
            let time = (self.clock)();
            let encoded = line::encode(draft, place, time, &mut self.buffer)
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
            events.push(Event {
                seq: place.seq,
                at: time,
                turn: draft.turn,
                agent: draft.agent.clone(),
                id: draft.id.clone(),
                body: draft.body.clone(),
            });
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

type Waiting = Vec<(Job, Vec<Event>, Position)>;

fn answer(waiting: Waiting, done: &Result<(), String>, synced: u64) {
    for (job, events, after) in waiting {
        let done = done.clone().map_err(Refused::Poisoned);
        let result = done.map(|()| (events, Position { synced, ..after }));
        // Whoever asked may be gone; the event is in the journal all the same.
        let _ = job.answer.send(result);
    }
}
