//! Work that is under way: a future, a stream of events, and a thread that does it.
//!
//! The thread works whether or not anybody waits. So nothing here needs a runtime, and nothing is
//! lost when a future is dropped: the run goes on to its end, and is on the disk. Whoever follows the
//! events reads them from there, so nothing is kept in memory for somebody who is slow.

use std::{
    collections::VecDeque,
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use futures_core::Stream;
use segue_core::Event;
use segue_journal::{scan::Position, tail::Tail};
use segue_runner::{Interrupt, Observer};

use crate::{
    Run, Runs,
    error::{Error, Result},
};

/// Somebody who works. Wait for it, await it, or follow its events.
#[must_use = "it is worked on in any case, and nobody would know what came of it"]
pub struct Work {
    shared: Arc<Shared>,
    interrupt: Interrupt,
}

/// Where a run is, so that it can be opened from any thread.
#[derive(Clone, Debug)]
pub(crate) struct Whereabouts {
    pub(crate) runs: Runs,
    pub(crate) dir: PathBuf,
    pub(crate) number: Option<u64>,
}

impl Whereabouts {
    /// As it is now.
    pub(crate) fn open(&self) -> Result<Run> {
        self.runs.open(&self.dir, self.number)
    }
}

#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    /// The run, once it is on the disk.
    run: Option<Whereabouts>,
    /// How often there was something new in its journal.
    news: u64,
    result: Option<Result<Run>>,
    ended: bool,
    wakers: Vec<Waker>,
}

impl Inner {
    fn wake_later(&mut self, context: &Context<'_>) {
        let waker = context.waker();
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        change(&mut inner);
        let wakers = std::mem::take(&mut inner.wakers);
        drop(inner);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").finish_non_exhaustive()
    }
}

impl Work {
    /// Begins in a thread of its own.
    pub(crate) fn begin(work: impl FnOnce(&mut Stage) -> Result<Run> + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let interrupt = Interrupt::default();
        let mut stage = Stage { shared: Arc::clone(&shared), interrupt: interrupt.clone() };
        let run = move || {
            // Also where the work panics, whoever waits is told.
            let mut end = End { shared: Arc::clone(&stage.shared), result: None };
            end.result = Some(work(&mut stage));
        };
        let spawned = std::thread::Builder::new().name("segue".to_owned()).spawn(run);
        if let Err(error) = spawned {
            let error = Error::Other(format!("no thread can be had: {error}"));
            shared.tell(|inner| {
                inner.result = Some(Err(error));
                inner.ended = true;
            });
        }
        Self { shared, interrupt }
    }

    /// Asks the agent to stop, and does not wait for it. It comes to a recorded stop, from which the
    /// run can be resumed.
    pub fn stop(&self) {
        // As Ctrl-C would.
        self.interrupt.ask(2);
    }

    /// The run as it stands at this moment; none before it is on the disk.
    #[must_use]
    pub fn so_far(&self) -> Option<Run> {
        let run = self.shared.lock().run.clone()?;
        run.open().ok()
    }

    /// What happens, from the run's first event on, while it happens: a stream, or for a `for` loop,
    /// which waits. As many as want to can follow.
    #[must_use]
    pub fn events(&self) -> Events {
        Events { shared: Arc::clone(&self.shared), tail: None, news: 0, ready: VecDeque::new() }
    }

    /// Waits until the work has stopped.
    ///
    /// # Errors
    /// [`Error::Stopped`] where the agent stopped before it was done; the run is in it. [`Error::Hire`]
    /// where nobody could work.
    pub fn wait(self) -> Result<Run> {
        let mut inner = self.shared.lock();
        loop {
            if let Some(result) = inner.result.take() {
                return result;
            }
            if inner.ended {
                return Err(taken());
            }
            inner = self.shared.wait(inner);
        }
    }
}

impl Future for Work {
    type Output = Result<Run>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.shared.lock();
        match inner.result.take() {
            Some(result) => Poll::Ready(result),
            None if inner.ended => Poll::Ready(Err(taken())),
            None => {
                inner.wake_later(context);
                Poll::Pending
            }
        }
    }
}

fn taken() -> Error {
    Error::Other("what came of the work was told before".to_owned())
}

/// The events of a run that is worked on, in the order of its journal. It ends with the work, or
/// where the journal can't be read.
///
/// As a stream it never waits, and reads a few lines of a file; in a loop it waits for what comes.
pub struct Events {
    shared: Arc<Shared>,
    tail: Option<Tail>,
    /// How much of the news is read.
    news: u64,
    ready: VecDeque<Event>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// What a look has found.
enum Look {
    Event(Event),
    Nothing,
    End,
}

impl Events {
    /// Takes what is there. Where that is nothing, `nothing_yet` is called before any news can come.
    fn look(&mut self, mut nothing_yet: impl FnMut(&mut Inner)) -> Look {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Look::Event(event);
            }
            let mut inner = self.shared.lock();
            if inner.news == self.news && !inner.ended {
                nothing_yet(&mut inner);
                return Look::Nothing;
            }
            let (run, ended) = (inner.run.clone(), inner.ended);
            self.news = inner.news;
            drop(inner);
            let read = run.map_or(Ok(()), |run| self.read(&run));
            if read.is_err() || ended && self.ready.is_empty() {
                return Look::End;
            }
        }
    }

    fn read(&mut self, run: &Whereabouts) -> Result<()> {
        let tail = match &mut self.tail {
            Some(tail) => tail,
            none => {
                let start = Position::start(run.open()?.id());
                none.insert(Tail::new(&**run.runs.home().disk(), &run.dir, start)?)
            }
        };
        self.ready.extend(tail.new_events()?);
        Ok(())
    }
}

impl IntoIterator for Events {
    type Item = Event;
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        IntoIter(self)
    }
}

/// [`Events`] that are waited for, one after the other.
#[derive(Debug)]
pub struct IntoIter(Events);

impl Iterator for IntoIter {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let events = &mut self.0;
        loop {
            match events.look(|_| ()) {
                Look::Event(event) => return Some(event),
                Look::End => return None,
                Look::Nothing => {
                    let mut inner = events.shared.lock();
                    while inner.news == events.news && !inner.ended {
                        inner = events.shared.wait(inner);
                    }
                }
            }
        }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        match self.look(|inner| inner.wake_later(context)) {
            Look::Event(event) => Poll::Ready(Some(event)),
            Look::End => Poll::Ready(None),
            Look::Nothing => Poll::Pending,
        }
    }
}

/// What the one who works has of the one who waits.
pub(crate) struct Stage {
    shared: Arc<Shared>,
    pub(crate) interrupt: Interrupt,
}

impl Stage {
    /// The run is on the disk.
    pub(crate) fn began(&self, run: Whereabouts) {
        self.shared.tell(|inner| {
            inner.run = Some(run);
            inner.news += 1;
        });
    }
}

impl Observer for Stage {
    fn event(&mut self, _event: &Event) {
        self.shared.tell(|inner| inner.news += 1);
    }
}

struct End {
    shared: Arc<Shared>,
    result: Option<Result<Run>>,
}

impl Drop for End {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or(Err(Error::Panicked));
        self.shared.tell(|inner| {
            inner.result = Some(result);
            inner.ended = true;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_to_whoever_waits() {
        let work = Work::begin(|_| panic!("on purpose"));
        assert!(matches!(work.wait(), Err(Error::Panicked)));
        let work = Work::begin(|_| panic!("on purpose"));
        assert_eq!(work.events().into_iter().count(), 0);
        assert!(work.so_far().is_none());
        assert!(matches!(futures_executor::block_on(work), Err(Error::Panicked)));
    }

    #[test]
    fn what_went_wrong_before_there_was_a_run_is_told() {
        let work = Work::begin(|_| Err(Error::NotResumable));
        assert_eq!(work.events().into_iter().count(), 0);
        assert!(matches!(futures_executor::block_on(work), Err(Error::NotResumable)));
    }
}
