//! A server that stands in for model vendors.
//!
//! It speaks the Anthropic Messages, OpenAI Responses (SSE and WebSocket), OpenAI Chat Completions and
//! Gemini APIs on a loopback port, answers from a [`Scenario`] and records every request. It promises:
//!
//! - only 127.0.0.1 is bound, and no secret that a client sends is kept;
//! - a request is recorded before its answer starts, whether or not it was understood;
//! - dropping the [`ModelServer`] closes its port and all its connections, hanging ones included.

mod anthropic;
mod chat;
mod conversation;
mod dialect;
mod gemini;
mod openai;
mod play;
mod record;
mod responses;
mod route;
mod scenario;
mod select;
mod server;

use std::fs::OpenOptions;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::serve::ListenerExt as _;
use tokio::sync::oneshot;

pub use conversation::{Content, Message, Role};
pub use record::{Api, Delivery, Purpose, Request, read_record};
pub use scenario::{Fault, Reply, Reset, Scenario, Stop, ToolCall, UNSCRIPTED, Usage, When};

use record::Recorder;
use server::{Shared, router};

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// 0 lets the system choose.
    pub port: u16,
    /// Where the requests are appended as JSON lines.
    pub record: Option<PathBuf>,
}

/// A wait that was not fulfilled in time, with what had been recorded by then.
#[derive(Clone, Debug)]
pub struct TimedOut {
    pub requests: Vec<Request>,
}

impl std::fmt::Display for TimedOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "timed out with {} requests:", self.requests.len())?;
        for r in &self.requests {
            write!(f, " {} {} {} ({:?});", r.seq, r.method, r.path, r.delivery)?;
        }
        Ok(())
    }
}

impl std::error::Error for TimedOut {}

/// A running server. It stops when dropped.
#[derive(Debug)]
pub struct ModelServer {
    port: u16,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// # Errors
    /// When no port or thread can be had.
    pub fn start(scenario: Scenario) -> io::Result<Self> {
        Self::start_with(scenario, &Options::default())
    }

    /// # Errors
    /// When the port is taken, the record file cannot be opened or no thread can be had.
    pub fn start_with(scenario: Scenario, options: &Options) -> io::Result<Self> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        let file = options.record.as_ref().map(open).transpose()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let shared = Arc::new(Shared::new(&scenario, Recorder::new(file), nonce(port)));
        let app = router(Arc::clone(&shared));
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async move {
                let listener = listener.tap_io(|stream| {
                    // A slow stream must arrive chunk by chunk. If this fails it merely arrives later.
                    drop(stream.set_nodelay(true));
                });
                tokio::select! {
                    served = async { axum::serve(listener, app).await } => drop(served),
                    _ = stopped => {}
                }
            });
            // Dropping the runtime drops the tasks of all connections, and so closes them.
            drop(runtime);
        };
        let thread = std::thread::Builder::new().name("model-server".into()).spawn(serve)?;
        Ok(Self { port, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// `http://127.0.0.1:PORT`, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Adds a reply at the end of the running scenario.
    pub fn push(&self, reply: Reply) {
        self.shared.script.lock().unwrap_or_else(PoisonError::into_inner).push(reply);
    }

    /// All requests so far, in the order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.recorder.requests()
    }

    /// Those requests that asked the model for an answer.
    #[must_use]
    pub fn turns(&self) -> Vec<Request> {
        turns(self.requests())
    }

    /// Waits until at least `n` requests have arrived.
    ///
    /// # Errors
    /// When they have not in time.
    pub fn wait_for_requests(&self, n: usize, timeout: Duration) -> Result<Vec<Request>, TimedOut> {
        self.wait_until(timeout, |requests| requests.len() >= n)
    }

    /// Waits until at least `n` requests have asked the model for an answer, and returns these.
    ///
    /// # Errors
    /// When they have not in time.
    pub fn wait_for_turns(&self, n: usize, timeout: Duration) -> Result<Vec<Request>, TimedOut> {
        let asks = |r: &&Request| r.purpose == Purpose::Generate;
        let enough = |requests: &[Request]| requests.iter().filter(asks).count() >= n;
        self.wait_until(timeout, enough).map(turns)
    }

    /// Waits until the requests are as wanted, which also may be about their delivery.
    ///
    /// # Errors
    /// When they are not in time.
    pub fn wait_until(
        &self,
        timeout: Duration,
        done: impl FnMut(&[Request]) -> bool,
    ) -> Result<Vec<Request>, TimedOut> {
        match self.shared.recorder.wait(timeout, done) {
            (requests, true) => Ok(requests),
            (requests, false) => Err(TimedOut { requests }),
        }
    }

    /// Stops the server and returns all requests with their final delivery.
    #[must_use]
    pub fn stop(mut self) -> Vec<Request> {
        self.shut_down();
        self.requests()
    }

    fn shut_down(&mut self) {
        self.shared.recorder.stopping();
        if let Some(stop) = self.stop.take() {
            // It fails only when the thread has ended already.
            let _ended = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shut_down();
    }
}

fn turns(mut requests: Vec<Request>) -> Vec<Request> {
    requests.retain(|r| r.purpose == Purpose::Generate);
    requests
}

fn nonce(port: u16) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{port:04x}{:08x}", since.subsec_nanos())
}
