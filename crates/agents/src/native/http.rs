//! One streaming POST: bytes in, events to a decoder, a reply out.
//!
//! The request runs on a thread of its own and hands its bytes over a channel. So the caller is
//! asked every [`POLL`] whether to go on, even while the network is silent, and no resolver or
//! proxy that hangs can hold it. After a cancelled call that thread ends with the next byte or
//! its own timeout; it holds nothing but the connection.
//!
//! Redirects are not followed: a key must not travel to a host that nobody named.

use std::fmt;
use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ureq::http::{HeaderMap, HeaderValue, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig};

use super::failure;
use super::message::Reply;
use super::model::{Delta, ModelError, OnDelta, emit};
use super::settings::{Provider, Secret, Settings};
use super::sse::{Event, Parser};

/// How often a silent call looks whether it is cancelled.
const POLL: Duration = Duration::from_millis(50);
/// The most of an error's body that is read.
const MAX_ERROR: usize = 64 * 1024;
/// The most that one answer may have: far more than any model's output.
const MAX_ANSWER: usize = 256 * 1024 * 1024;

/// Whether a decoder has seen its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Done,
}

/// Puts a reply together from events.
pub(super) trait Decoder {
    /// Reads one event.
    fn event(&mut self, event: &Event, on: &mut OnDelta<'_>) -> Result<Progress, ModelError>;

    /// The reply, if all of it came; else `StreamCut`.
    fn finish(self) -> Result<Reply, ModelError>;
}

/// Where to send requests, and with which headers.
pub(super) struct Client {
    agent: ureq::Agent,
    provider: Provider,
    url: String,
    host: String,
    headers: Vec<(&'static str, HeaderValue)>,
    key: Option<Secret>,
    connect: Duration,
    idle: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("host", &self.host).finish_non_exhaustive()
    }
}

enum Part {
    Head { status: u16, headers: HeaderMap },
    Bytes(Vec<u8>),
    End,
    Failed(ModelError),
}

impl Client {
    /// `key_header` is the header of the key and what stands before the key in it.
    pub(super) fn new(
        provider: Provider,
        settings: &Settings,
        path: &str,
        key_header: (&'static str, &str),
    ) -> Result<Self, ModelError> {
        let url = provider.endpoint(settings.base_url.as_deref(), path);
        let host = match url.parse::<Uri>() {
            Ok(uri) if matches!(uri.scheme_str(), Some("http" | "https")) => {
                uri.host().map(str::to_owned)
            }
            _ => None,
        };
        let Some(host) = host else {
            let message = format!("{} is not an http(s) address", provider.base_variable());
            return Err(ModelError::BadRequest { status: 0, message });
        };
        let mut headers = Vec::new();
        if let Some(key) = &settings.key {
            let text = format!("{}{}", key_header.1, key.expose());
            let Ok(mut value) = HeaderValue::from_str(&text) else {
                let message = "the key has characters that cannot be sent".to_owned();
                return Err(ModelError::NotSignedIn { message, fix: provider.fix() });
            };
            value.set_sensitive(true);
            headers.push((key_header.0, value));
        }
        let agent = agent(settings, &host)?;
        let (connect, idle) = (settings.connect_timeout, settings.idle_timeout);
        Ok(Self { agent, provider, url, host, headers, key: settings.key.clone(), connect, idle })
    }

    pub(super) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, HeaderValue::from_static(value)));
        self
    }

    /// Sends `body` and feeds the answer to `decoder`.
    pub(super) fn run<D: Decoder>(
        &self,
        body: &serde_json::Value,
        decoder: D,
        on: &mut OnDelta<'_>,
    ) -> Result<Reply, ModelError> {
        emit(on, Delta::Idle)?;
        let parts = self.start(body.to_string())?;
        self.answer(&parts, decoder, on).map_err(|error| self.redact(error))
    }

    fn start(&self, body: String) -> Result<Receiver<Part>, ModelError> {
        let (sender, receiver) = sync_channel(64);
        let mut request = self.agent.post(&self.url);
        for (name, value) in &self.headers {
            request = request.header(*name, value.clone());
        }
        let request = request
            .header("content-type", "application/json")
            .header("accept", "text/event-stream");
        let (host, idle) = (self.host.clone(), self.idle);
        std::thread::Builder::new()
            .name("model-call".to_owned())
            .spawn(move || {
                let result = match request.send(body) {
                    Ok(response) => pump(response, &sender, idle),
                    Err(error) => Err(before_answer(&host, idle, &error)),
                };
                // Nobody listens any more after a cancelled call.
                let _ = sender.send(result.map_or_else(Part::Failed, |()| Part::End));
            })
            .map_err(|error| ModelError::Network(format!("cannot start a thread: {error}")))?;
        Ok(receiver)
    }

    fn answer<D: Decoder>(
        &self,
        parts: &Receiver<Part>,
        mut decoder: D,
        on: &mut OnDelta<'_>,
    ) -> Result<Reply, ModelError> {
        // Resolving and connecting have a bound each before the silence begins to count.
        let patience = self.connect.saturating_mul(2).saturating_add(self.idle);
        match next(parts, patience, on)? {
            Part::Head { status: 200..=299, .. } => {}
            Part::Head { status, headers } => return Err(self.refused(parts, status, &headers, on)),
            Part::Failed(error) => return Err(error),
            Part::Bytes(_) | Part::End => return Err(ModelError::StreamCut("no answer".into())),
        }
        let mut parser = Parser::default();
        let mut total = 0_usize;
        loop {
            match next(parts, self.idle, on)? {
                Part::Bytes(bytes) => {
                    total = total.saturating_add(bytes.len());
                    let events = parser.push(&bytes).ok().filter(|_| total <= MAX_ANSWER);
                    let Some(events) = events else {
                        return Err(ModelError::StreamCut("the answer does not end".into()));
                    };
                    for event in events {
                        if self.decode(&mut decoder, &event, on)? == Progress::Done {
                            return decoder.finish();
                        }
                    }
                }
                Part::End => {
                    if let Some(event) = parser.finish() {
                        self.decode(&mut decoder, &event, on)?;
                    }
                    return decoder.finish();
                }
                Part::Failed(error) => return Err(error),
                Part::Head { .. } => {}
            }
        }
    }

    fn decode<D: Decoder>(
        &self,
        decoder: &mut D,
        event: &Event,
        on: &mut OnDelta<'_>,
    ) -> Result<Progress, ModelError> {
        emit(on, Delta::Raw(&event.data))?;
        decoder.event(event, on)
    }

    fn refused(
        &self,
        parts: &Receiver<Part>,
        status: u16,
        headers: &HeaderMap,
        on: &mut OnDelta<'_>,
    ) -> ModelError {
        if (300..400).contains(&status) {
            let message = format!(
                "{} wants to redirect, which is not followed; set {} to the right address",
                self.host,
                self.provider.base_variable()
            );
            return ModelError::BadRequest { status, message };
        }
        let mut body = Vec::new();
        // What was cut off of an error's text changes nothing about the error.
        while let Ok(part) = next(parts, self.idle, on) {
            match part {
                Part::Bytes(bytes) => body.extend_from_slice(&bytes),
                _ => break,
            }
            if body.len() >= MAX_ERROR {
                break;
            }
        }
        let text = String::from_utf8_lossy(&body);
        failure::from_response(self.provider, status, headers, &text, Timestamp::now())
    }

    /// Servers repeat the key in their errors now and then.
    fn redact(&self, mut error: ModelError) -> ModelError {
        let Some(key) = self.key.as_ref().map(Secret::expose).filter(|key| !key.is_empty()) else {
            return error;
        };
        let text = match &mut error {
            ModelError::Limit { message, .. }
            | ModelError::Overloaded { message, .. }
            | ModelError::Server { message, .. }
            | ModelError::NotSignedIn { message, .. }
            | ModelError::BadRequest { message, .. }
            | ModelError::Network(message)
            | ModelError::StreamCut(message)
            | ModelError::ContextExhausted(message)
            | ModelError::SessionGone(message) => message,
            ModelError::Cancelled | ModelError::Script { .. } => return error,
        };
        if text.contains(key) {
            *text = text.replace(key, "[key]");
        }
        error
    }
}

fn agent(settings: &Settings, host: &str) -> Result<ureq::Agent, ModelError> {
    let mut config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("segue/", env!("CARGO_PKG_VERSION")))
        .timeout_resolve(Some(settings.connect_timeout))
        .timeout_connect(Some(settings.connect_timeout))
        .timeout_per_read(Some(settings.idle_timeout))
        .timeout_per_write(Some(settings.idle_timeout))
        // Between two calls lie tools that run for minutes: a kept connection is mostly dead.
        .max_idle_connections(0);
    if matches!(host, "localhost" | "127.0.0.1" | "[::1]" | "::1") {
        config = config.proxy(None);
    }
    if let Some(file) = &settings.ca_file {
        let fail = |why: String| ModelError::BadRequest {
            status: 0,
            message: format!("{}: {why}", file.display()),
        };
        let pem = std::fs::read(file).map_err(|error| fail(error.to_string()))?;
        let certificates: Vec<_> = ureq::tls::parse_pem(&pem)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        if certificates.is_empty() {
            return Err(fail("no certificate in it".to_owned()));
        }
        let roots = RootCerts::new_with_certs(&certificates);
        config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
    }
    Ok(config.build().into())
}

/// Hands the answer over as it comes; ends quietly when nobody listens any more.
fn pump(
    response: ureq::http::Response<ureq::Body>,
    sender: &SyncSender<Part>,
    idle: Duration,
) -> Result<(), ModelError> {
    let (head, body) = response.into_parts();
    let part = Part::Head { status: head.status.as_u16(), headers: head.headers };
    if sender.send(part).is_err() {
        return Ok(());
    }
    let mut reader = body.into_reader();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                if sender.send(Part::Bytes(buffer[..count].to_vec())).is_err() {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                let timed_out = matches!(
                    error.kind(),
                    std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock
                );
                return Err(if timed_out {
                    silent(idle)
                } else {
                    ModelError::StreamCut(error.to_string())
                });
            }
        }
    }
}

/// Only the host is named: addresses may carry credentials.
fn before_answer(host: &str, idle: Duration, error: &ureq::Error) -> ModelError {
    match error {
        ureq::Error::Timeout(ureq::Timeout::PerRead) => silent(idle),
        ureq::Error::BadUri(_) => ModelError::Network(format!("{host}: not an address")),
        other => ModelError::Network(format!("{host}: {other}")),
    }
}

fn silent(idle: Duration) -> ModelError {
    ModelError::StreamCut(format!("nothing came for {} s", idle.as_secs_f64()))
}

fn next(
    parts: &Receiver<Part>,
    patience: Duration,
    on: &mut OnDelta<'_>,
) -> Result<Part, ModelError> {
    let since = Instant::now();
    loop {
        match parts.recv_timeout(POLL) {
            Ok(part) => return Ok(part),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ModelError::StreamCut("the call ended without a word".into()));
            }
            Err(RecvTimeoutError::Timeout) => emit(on, Delta::Idle)?,
        }
        if since.elapsed() >= patience {
            return Err(silent(patience));
        }
    }
}
