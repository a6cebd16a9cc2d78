//! Plays an answer over HTTP or a WebSocket: pacing, cutting and hanging, the same for all APIs.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::ws::{Message, WebSocket};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use futures_util::stream;
use serde_json::{Map, Value, json};

use super::dialect::{Call, Dialect, Failure, Frame, Refusal, Wire};
use super::record::{Delivery, Ticket};
use super::scenario::{Fault, Reply};

/// hyper throws away what it has buffered when a body fails; this lets it send that first.
const FLUSH: Duration = Duration::from_millis(50);

/// How often it is looked whether a held answer may go.
const LOOK: Duration = Duration::from_millis(5);

/// What follows the last chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Complete,
    /// The body ends properly but the API's end event is missing.
    CleanCut,
    /// The connection is closed in the middle of the body.
    Abort,
    Hang,
}

/// An answer that is ready to be sent.
#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    content_type: &'static str,
    headers: Vec<(String, String)>,
    chunks: Vec<String>,
    delay: Duration,
    /// Held back until this file is there.
    until: Option<PathBuf>,
    gap: Duration,
    ending: Ending,
    /// Hangs before the status line.
    silent: bool,
}

impl Answer {
    fn new(wire: Wire, frames: &[Frame]) -> Self {
        Self {
            status: 200,
            content_type: if wire == Wire::Sse { "text/event-stream" } else { "application/json" },
            headers: Vec::new(),
            chunks: encode(wire, frames),
            delay: Duration::ZERO,
            until: None,
            gap: Duration::ZERO,
            ending: Ending::Complete,
            silent: false,
        }
    }

    /// What the scenario's reply looks like in this API.
    pub(super) fn of_reply(dialect: &dyn Dialect, reply: &Reply, call: &Call<'_>) -> Self {
        let failure = reply.fault.as_ref().and_then(|fault| Failure::of(fault, call));
        let mut answer = match failure {
            Some(failure) => Self::of_failure(dialect, &failure, call),
            None => Self::of_content(dialect, reply, call),
        };
        answer.delay = Duration::from_millis(reply.delay_ms);
        answer.until.clone_from(&reply.until);
        answer.gap = Duration::from_millis(reply.gap_ms);
        answer.headers.extend(reply.headers.clone());
        answer
    }

    pub(super) fn of_failure(dialect: &dyn Dialect, failure: &Failure, call: &Call<'_>) -> Self {
        let streamed =
            if call.wire == Wire::Whole { None } else { dialect.streamed_failure(failure, call) };
        match streamed {
            Some(frames) => Self::new(call.wire, &frames),
            None => Self::of_refusal(dialect.refuse(failure, call), call.wire),
        }
    }

    pub(super) fn of_refusal(refusal: Refusal, wire: Wire) -> Self {
        let headers = refusal.headers.into_iter().map(|(n, v)| (n.to_owned(), v));
        let headers: Vec<(String, String)> = headers.collect();
        if wire == Wire::WebSocket {
            // A WebSocket has no status and headers per request, so the event carries them.
            let shown: Map<String, Value> =
                headers.iter().map(|(n, v)| (n.clone(), Value::String(v.clone()))).collect();
            let event = json!({
                "type": "error", "status": refusal.status,
                "error": refusal.body.get("error"), "headers": shown,
            });
            return Self::new(wire, &[Frame::plain(event)]);
        }
        let wire = if wire == Wire::JsonArray { wire } else { Wire::Whole };
        let mut answer = Self::new(wire, &[Frame::plain(refusal.body)]);
        answer.status = refusal.status;
        answer.headers = headers;
        answer
    }

    fn of_content(dialect: &dyn Dialect, reply: &Reply, call: &Call<'_>) -> Self {
        if call.wire == Wire::Whole {
            let mut answer = Self::new(call.wire, &[Frame::plain(dialect.whole(reply, call))]);
            answer.break_off(reply.fault.as_ref());
            return answer;
        }
        let mut frames = dialect.stream(reply, call);
        if let Some(Fault::StreamError { after }) = reply.fault {
            frames.truncate(kept(after, frames.len()));
            let refusal = dialect.refuse(&Failure::Overloaded, call);
            frames.push(dialect.error_frame(&refusal, call));
        }
        let mut answer = Self::new(call.wire, &frames);
        answer.break_off(reply.fault.as_ref());
        answer
    }

    pub(super) fn of_frames(wire: Wire, frames: &[Frame]) -> Self {
        Self::new(wire, frames)
    }

    async fn its_time(&self) {
        tokio::time::sleep(self.delay).await;
        while self.until.as_ref().is_some_and(|file| !file.exists()) {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn break_off(&mut self, fault: Option<&Fault>) {
        match fault {
            Some(Fault::Cut { after, clean }) => {
                self.chunks.truncate(kept(*after, self.chunks.len()));
                self.ending = if *clean { Ending::CleanCut } else { Ending::Abort };
            }
            Some(Fault::Hang { after }) => {
                self.silent = after.is_none();
                self.chunks.truncate(after.unwrap_or(0));
                self.ending = Ending::Hang;
            }
            _ => {}
        }
    }
}

/// How many chunks are sent before the break: never all of them.
fn kept(after: Option<usize>, all: usize) -> usize {
    after.unwrap_or(all / 2).min(all.saturating_sub(1))
}

fn encode(wire: Wire, frames: &[Frame]) -> Vec<String> {
    let last = frames.len().saturating_sub(1);
    let array = |(i, frame): (usize, &Frame)| {
        let open = if i == 0 { "[" } else { ",\r\n" };
        let close = if i == last { "]" } else { "" };
        format!("{open}{}{close}", frame.data)
    };
    match wire {
        Wire::Sse => frames.iter().map(sse).collect(),
        Wire::JsonArray => frames.iter().enumerate().map(array).collect(),
        Wire::WebSocket => frames.iter().map(|frame| frame.data.clone()).collect(),
        // In two halves, so that a document has a middle to be cut in too.
        Wire::Whole => {
            let text: String = frames.iter().map(|frame| frame.data.as_str()).collect();
            let middle = text.floor_char_boundary(text.len() / 2);
            let (head, tail) = text.split_at(middle);
            vec![head.to_owned(), tail.to_owned()]
        }
    }
}

fn sse(frame: &Frame) -> String {
    match &frame.event {
        Some(event) => format!("event: {event}\ndata: {}\n\n", frame.data),
        None => format!("data: {}\n\n", frame.data),
    }
}

/// Sends the answer as an HTTP response.
pub(super) async fn respond(answer: Answer, ticket: Ticket) -> Response<Body> {
    answer.its_time().await;
    if answer.silent {
        // The ticket is held meanwhile: it is dropped when the client or the server goes.
        let never: Infallible = std::future::pending().await;
        match never {}
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static(answer.content_type));
    for (name, value) in &answer.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
    *response.body_mut() = body(answer, ticket);
    response
}

fn body(answer: Answer, ticket: Ticket) -> Body {
    let Answer { chunks, gap, ending, .. } = answer;
    let state = (chunks.into_iter().enumerate(), ticket, false);
    Body::from_stream(stream::unfold(state, move |(mut chunks, mut ticket, aborted)| async move {
        if aborted {
            return None;
        }
        if let Some((i, chunk)) = chunks.next() {
            if i > 0 {
                tokio::time::sleep(gap).await;
            }
            return Some((Ok(Bytes::from(chunk)), (chunks, ticket, false)));
        }
        match ending {
            Ending::Hang => std::future::pending().await,
            Ending::Complete => {
                ticket.end(Delivery::Complete);
                None
            }
            Ending::CleanCut => {
                ticket.end(Delivery::Cut);
                None
            }
            Ending::Abort => {
                tokio::time::sleep(FLUSH).await;
                ticket.end(Delivery::Cut);
                let cut = std::io::Error::other("cut by the scenario");
                Some((Err(cut), (chunks, ticket, true)))
            }
        }
    }))
}

/// Sends the answer over a WebSocket. Returns whether the connection is to be used further.
pub(super) async fn send(answer: Answer, socket: &mut WebSocket, mut ticket: Ticket) -> bool {
    answer.its_time().await;
    for (i, chunk) in answer.chunks.into_iter().enumerate() {
        if i > 0 {
            tokio::time::sleep(answer.gap).await;
        }
        if socket.send(Message::Text(chunk.into())).await.is_err() {
            ticket.end(Delivery::ClientGone);
            return false;
        }
    }
    match answer.ending {
        Ending::Complete => {
            ticket.end(Delivery::Complete);
            true
        }
        Ending::CleanCut => {
            ticket.end(Delivery::Cut);
            let closed = socket.send(Message::Close(None)).await;
            drop(closed);
            false
        }
        Ending::Abort => {
            ticket.end(Delivery::Cut);
            false
        }
        Ending::Hang => {
            while let Some(Ok(_)) = socket.recv().await {}
            ticket.end(Delivery::ClientGone);
            false
        }
    }
}
