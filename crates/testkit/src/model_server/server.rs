//! Takes requests, records them, finds their replies and has them played.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ws::{Message, WebSocket};
use axum::extract::{FromRequestParts, State, WebSocketUpgrade};
use axum::http::Response;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::dialect::{Call, Failure, Refusal, Wire, dialect};
use super::play::{Answer, respond, send};
use super::record::{
    Api, Delivery, Purpose, Recorder, Request, Ticket, visible_headers, visible_query,
};
use super::responses;
use super::route::Route;
use super::scenario::Scenario;
use super::select::Script;

/// Conversations with images are large; a test has no reason to send more than this.
const LARGEST_BODY: usize = 256 << 20;

/// All that the requests of one server have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) script: Mutex<Script>,
    pub(super) recorder: Arc<Recorder>,
    /// What can be continued by `previous_response_id`: the conversation up to that response.
    histories: Mutex<HashMap<String, Vec<Value>>>,
    models: Vec<String>,
    websocket: bool,
    /// Keeps ids of two servers apart whose answers end up in one conversation.
    nonce: String,
}

impl Shared {
    pub(super) fn new(scenario: &Scenario, recorder: Arc<Recorder>, nonce: String) -> Self {
        Self {
            script: Mutex::new(Script::new(scenario)),
            recorder,
            histories: Mutex::default(),
            models: scenario.models.clone(),
            websocket: scenario.websocket,
            nonce,
        }
    }

    fn tag(&self) -> String {
        format!("{}{:04}", self.nonce, self.recorder.next_seq())
    }
}

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new().fallback(handle).with_state(shared)
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    request: axum::extract::Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default();
    let route = Route::of(&parts.method, parts.uri.path(), query, &parts.headers);
    if route.purpose == Purpose::Handshake {
        return upgrade(shared, parts).await;
    }
    let body = to_bytes(body, LARGEST_BODY).await.unwrap_or_default();
    let body = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
    let arrival = arrival(&parts, &route, body);
    match route.purpose {
        Purpose::Generate => {
            let streams = arrival.body.get("stream") == Some(&Value::Bool(true));
            let wire = route.wire.unwrap_or(if streams { Wire::Sse } else { Wire::Whole });
            let (answer, ticket) = generate(&shared, arrival, wire);
            respond(answer, ticket).await
        }
        Purpose::CountTokens => {
            // Nobody can count the tokens of a scripted model; four bytes each is the usual guess.
            let tokens = arrival.body.to_string().len() / 4;
            let count = match arrival.api {
                Api::Gemini => json!({ "totalTokens": tokens }),
                _ => json!({ "input_tokens": tokens }),
            };
            at_once(shared.recorder.arrived(arrival), 200, Vec::new(), &count)
        }
        Purpose::Models => {
            let list = models(&shared.models, arrival.api);
            at_once(shared.recorder.arrived(arrival), 200, Vec::new(), &list)
        }
        Purpose::Unknown | Purpose::Handshake | Purpose::Prewarm => not_found(&shared, arrival),
    }
}

/// The record of a request before it has a reply.
fn arrival(parts: &Parts, route: &Route, body: Value) -> Request {
    let named = body.get("model").and_then(Value::as_str).map(str::to_owned);
    Request {
        seq: 0,
        time: Timestamp::now(),
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().map(visible_query),
        headers: visible_headers(&parts.headers),
        websocket: route.wire == Some(Wire::WebSocket),
        api: route.api,
        purpose: route.purpose,
        model: route.model.clone().or(named),
        body,
        prior: Vec::new(),
        reply: None,
        unscripted: false,
        delivery: Delivery::Open,
    }
}

/// Finds the reply, records the request and turns the reply into an answer.
fn generate(shared: &Shared, mut request: Request, wire: Wire) -> (Answer, Ticket) {
    let mut histories = shared.histories.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(previous) = request.body.get("previous_response_id").and_then(Value::as_str) {
        let Some(prior) = histories.get(previous) else {
            let refusal = responses::unknown_previous(previous);
            let ticket = shared.recorder.arrived(request);
            return (Answer::of_refusal(refusal, wire), ticket);
        };
        request.prior = prior.clone();
    }
    let model = request.model.clone().unwrap_or_else(|| "scripted-model".to_owned());
    let body = request.body.clone();
    let prior = request.prior.clone();
    let (tag, now) = (shared.tag(), Timestamp::now());
    let call = Call { tag, model, body: &body, wire, now };
    if request.purpose == Purpose::Prewarm {
        let items = prior.into_iter().chain(responses::input(&body)).collect();
        histories.insert(responses::id(&call), items);
        let ticket = shared.recorder.arrived(request);
        return (Answer::of_frames(wire, &responses::prewarmed(&call)), ticket);
    }
    let dialect = dialect(request.api);
    let said = dialect.conversation(&body, &prior);
    let mut script = shared.script.lock().unwrap_or_else(PoisonError::into_inner);
    let (reply, index) = script.take(&request, &said);
    request.reply = index;
    request.unscripted = index.is_none();
    if request.api == Api::Responses && reply.fault.is_none() {
        let mut items = prior;
        items.extend(responses::input(&body));
        items.extend(responses::output(&reply, &call));
        histories.insert(responses::id(&call), items);
    }
    let ticket = shared.recorder.arrived(request);
    (Answer::of_reply(dialect, &reply, &call), ticket)
}

fn at_once(
    mut ticket: Ticket,
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: &Value,
) -> Response<Body> {
    ticket.end(Delivery::Complete);
    let mut response =
        Response::builder().status(status).header("content-type", "application/json");
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Body::from(body.to_string())).unwrap_or_default()
}

fn not_found(shared: &Shared, request: Request) -> Response<Body> {
    let what = format!("Not found: {} {}", request.method, request.path);
    let dialect = dialect(request.api);
    let tag = shared.tag();
    let call = Call {
        tag,
        model: String::new(),
        body: &Value::Null,
        wire: Wire::Whole,
        now: Timestamp::now(),
    };
    let Refusal { status, headers, body } = dialect.refuse(&Failure::NotFound(what), &call);
    at_once(shared.recorder.arrived(request), status, headers, &body)
}

/// Anthropic's and OpenAI's lists have the same path, so one list has the fields of both.
fn models(names: &[String], api: Api) -> Value {
    if api == Api::Gemini {
        let model = |name: &String| {
            json!({ "name": format!("models/{name}"), "displayName": name,
                "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
                "supportedGenerationMethods": ["generateContent", "countTokens"] })
        };
        return json!({ "models": names.iter().map(model).collect::<Vec<_>>() });
    }
    let model = |name: &String| {
        json!({ "id": name, "object": "model", "created": 1_700_000_000, "owned_by": "scenario",
            "type": "model", "display_name": name, "created_at": "2023-11-14T22:13:20Z" })
    };
    json!({
        "object": "list", "data": names.iter().map(model).collect::<Vec<_>>(),
        "has_more": false, "first_id": names.first(), "last_id": names.last(),
    })
}

async fn upgrade(shared: Arc<Shared>, mut parts: Parts) -> Response<Body> {
    let route = Route {
        api: Api::Responses,
        purpose: Purpose::Handshake,
        model: None,
        wire: Some(Wire::WebSocket),
    };
    let mut ticket = shared.recorder.arrived(arrival(&parts, &route, Value::Null));
    ticket.end(Delivery::Complete);
    if !shared.websocket {
        let body = json!({ "error": { "type": "invalid_request_error",
            "message": "WebSocket is not offered here" } });
        return at_once(ticket, 426, Vec::new(), &body);
    }
    match WebSocketUpgrade::from_request_parts(&mut parts, &shared).await {
        Ok(upgrade) => {
            let upgrade = upgrade.max_message_size(LARGEST_BODY).max_frame_size(LARGEST_BODY);
            upgrade.on_upgrade(move |socket| converse(shared, parts, socket))
        }
        Err(rejection) => rejection.into_response(),
    }
}

/// Answers the requests on one WebSocket, one after the other.
async fn converse(shared: Arc<Shared>, parts: Parts, mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let Message::Text(text) = message else {
            continue;
        };
        let Ok(body) = serde_json::from_str::<Value>(&text) else {
            continue;
        };
        if body.get("type").and_then(Value::as_str) != Some("response.create") {
            continue;
        }
        let purpose = if is_prewarm(&body) { Purpose::Prewarm } else { Purpose::Generate };
        let wire = Some(Wire::WebSocket);
        let route = Route { api: Api::Responses, purpose, model: None, wire };
        let (answer, ticket) = generate(&shared, arrival(&parts, &route, body), Wire::WebSocket);
        if !send(answer, &mut socket, ticket).await {
            return;
        }
    }
}

/// Codex opens its connection before it has a prompt.
fn is_prewarm(body: &Value) -> bool {
    body.get("generate") == Some(&Value::Bool(false))
        || (responses::input(body).is_empty() && body.get("previous_response_id").is_none())
}
