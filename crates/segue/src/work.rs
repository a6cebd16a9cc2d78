//! Work that is under way: a future, a stream of events, and a thread that does it.
//!
//! The thread works whether or not anybody waits. So nothing here needs a runtime, and nothing is
//! lost when a future is dropped: the run goes on to its end, and is on the disk.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use futures_core::Stream;
use segue_core::Event;
use segue_runner::{Interrupt, Observer};

use crate::{
    Run,
    error::{Error, Result},
};

/// Somebody who works. Wait for it, await it, or follow its events.
#[must_use = "it is worked on in any case, and nobody would know what came of it"]
pub struct Work {
    shared: Arc<Shared>,
    interrupt: Interrupt,
}

#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    events: VecDeque<Event>,
    /// Events are kept only for somebody who asked for them.
    followed: bool,
    result: Option<Result<Run>>,
    ended: bool,
    wakers: Vec<Waker>,
}

impl Shared {
    fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut inner)
    }

    fn tell(&self, change: impl FnOnce(&mut Inner)) {
        let wakers = self.with(|inner| {
            change(inner);
            std::mem::take(&mut inner.wakers)
        });
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
    pub(crate) fn begin(
        work: impl FnOnce(Interrupt, &mut dyn Observer) -> Result<Run> + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let interrupt = Interrupt::default();
        let (theirs, asked) = (Arc::clone(&shared), interrupt.clone());
        let run = move || {
            let mut ears = Ears(Arc::clone(&theirs));
            // Also where the work panics, whoever waits is told.
            let mut end = End { shared: theirs, result: None };
            end.result = Some(work(asked, &mut ears));
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

    /// Asks the agent to stop. It comes to a recorded stop, from which the run can be resumed.
    pub fn stop(&self) {
        // As Ctrl-C would.
        self.interrupt.ask(2);
    }

    /// What happens, while it happens: an iterator and a stream. From here on; what was before is in
    /// the run.
    #[must_use]
    pub fn events(&self) -> Events {
        self.shared.with(|inner| inner.followed = true);
        Events(Arc::clone(&self.shared))
    }

    /// Waits until the work has stopped.
    ///
    /// # Errors
    /// [`Error::Stopped`] where the agent stopped before it was done; the run is there all the same.
    pub fn wait(self) -> Result<Run> {
        let mut inner = self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = inner.result.take() {
                return result;
            }
            if inner.ended {
                return Err(Error::Other("the work has ended in a panic".to_owned()));
            }
            inner = self.shared.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Future for Work {
    type Output = Result<Run>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.shared.with(|inner| match inner.result.take() {
            Some(result) => Poll::Ready(result),
            None if inner.ended => {
                Poll::Ready(Err(Error::Other("the work has ended already".to_owned())))
            }
            None => {
                inner.wakers.push(context.waker().clone());
                Poll::Pending
            }
        })
    }
}

/// The events of a run that is worked on.
pub struct Events(Arc<Shared>);

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut inner = self.0.inner.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(event) = inner.events.pop_front() {
                return Some(event);
            }
            if inner.ended {
                return None;
            }
            inner = self.0.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.with(|inner| match inner.events.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if inner.ended => Poll::Ready(None),
            None => {
                inner.wakers.push(context.waker().clone());
                Poll::Pending
            }
        })
    }
}

/// Hears every event once it is in the journal.
struct Ears(Arc<Shared>);

impl Observer for Ears {
    fn event(&mut self, event: &Event) {
        self.0.tell(|inner| {
            if inner.followed {
                inner.events.push_back(event.clone());
            }
        });
    }
}

struct End {
    shared: Arc<Shared>,
    result: Option<Result<Run>>,
}

impl Drop for End {
    fn drop(&mut self) {
        let result = self.result.take();
        self.shared.tell(|inner| {
            inner.result = result;
            inner.ended = true;
        });
    }
}
