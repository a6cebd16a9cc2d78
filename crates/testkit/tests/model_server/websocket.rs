//! The Responses API over a WebSocket.

use segue_testkit::model_server::{Delivery, Fault, Purpose, Reply, Request, Reset, Scenario};
use serde_json::json;
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};

use super::*;

type Socket = WebSocket<MaybeTlsStream<std::net::TcpStream>>;

fn connect(server: &ModelServer) -> Socket {
    let url = format!("ws://127.0.0.1:{}/v1/responses", server.port());
    let (mut socket, _) = tungstenite::connect(url).unwrap();
    if let MaybeTlsStream::Plain(stream) = socket.get_mut() {
        stream.set_read_timeout(Some(LONG)).unwrap();
    }
    socket
}

fn create(socket: &mut Socket, mut body: Value) {
    body["type"] = json!("response.create");
    socket.send(Message::text(body.to_string())).unwrap();
}

/// The events until the one that ends a response.
fn answer(socket: &mut Socket) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    loop {
        let text = socket.read().unwrap().into_text().unwrap();
        let event: Value = serde_json::from_str(&text).unwrap();
        let kind = event["type"].as_str().unwrap().to_owned();
        events.push(event);
        if ["response.completed", "response.failed", "error"].contains(&kind.as_str()) {
            return events;
        }
    }
}

#[test]
fn a_conversation_on_one_connection() {
    let server = serve(Scenario::new().reply(rich()).text("done"));
    let mut socket = connect(&server);
    create(&mut socket, json!({ "model": "gpt-x", "generate": false, "input": [] }));
    let warm = answer(&mut socket).pop().unwrap()["response"].clone();
    assert_eq!(warm["output"], json!([]));

    let mut body = responses("first", true);
    body["previous_response_id"] = warm["id"].clone();
    create(&mut socket, body);
    let events = answer(&mut socket);
    let deltas = events.iter().filter(|e| e["type"] == "response.output_text.delta");
    let text: Vec<Value> = deltas.cloned().collect();
    assert_eq!(gather(&text, "/delta"), "The quick brown fox: ünï.");
    let first = events.last().unwrap()["response"].clone();

    let call = first["output"][2]["call_id"].clone();
    create(
        &mut socket,
        json!({ "model": "gpt-x", "previous_response_id": first["id"],
        "input": [{ "type": "function_call_output", "call_id": call, "output": "hi" }] }),
    );
    let done = answer(&mut socket).pop().unwrap();
    assert_eq!(done["response"]["output"][0]["content"][0]["text"], "done");

    // The last frame can be here before the server has noted that it is gone.
    let complete = |r: &[Request]| r.iter().all(|r| r.delivery == Delivery::Complete);
    let requests = server.wait_until(LONG, complete).unwrap();
    let purposes: Vec<Purpose> = requests.iter().map(|r| r.purpose).collect();
    let generate = Purpose::Generate;
    assert_eq!(purposes, [Purpose::Handshake, Purpose::Prewarm, generate, generate]);
    assert!(requests.iter().all(|r| r.websocket));
    assert_eq!(requests[3].texts(), ["first", "The quick brown fox: ünï.", "hi"]);
    assert_eq!((requests[2].reply, requests[3].reply), (Some(0), Some(1)));
}

#[test]
fn failures_are_events_and_the_connection_lives_on() {
    let limit = Fault::UsageLimit { reset: Some(Reset::At(4_000_000_000)) };
    let scenario = Scenario::new().reply(Reply::fault(limit));
    let server = serve(scenario.reply(Reply::fault(Fault::ContextExhausted)).text("better"));
    let mut socket = connect(&server);
    create(&mut socket, responses("hi", true));
    let error = answer(&mut socket).pop().unwrap();
    assert_eq!(error["status"], 429);
    assert_eq!(error["error"]["type"], "usage_limit_reached");
    assert_eq!(error["headers"]["x-codex-primary-reset-at"], "4000000000");
    create(&mut socket, responses("hi", true));
    let failed = answer(&mut socket).pop().unwrap();
    assert_eq!(failed["response"]["error"]["code"], "context_length_exceeded");
    create(&mut socket, responses("hi", true));
    assert_eq!(answer(&mut socket).pop().unwrap()["type"], "response.completed");
}

#[test]
fn a_cut_closes_the_connection_in_the_middle() {
    let clean = Fault::Cut { after: None, clean: true };
    for (fault, proper) in [(Fault::cut(), false), (clean, true)] {
        let server = one(rich().failing(fault));
        let mut socket = connect(&server);
        create(&mut socket, responses("hi", true));
        let mut seen = Vec::new();
        let end = loop {
            match socket.read() {
                Ok(Message::Text(text)) => seen.push(text.to_string()),
                other => break other,
            }
        };
        assert!(!seen.is_empty());
        assert!(!seen.concat().contains("response.completed"));
        assert_eq!(matches!(end, Ok(Message::Close(_))), proper, "{end:?}");
        assert_eq!(server.stop()[1].delivery, Delivery::Cut);
    }
}

#[test]
fn a_hang_ends_with_the_client_or_the_server() {
    let server = one(Reply::fault(Fault::hang()).sticky());
    let mut socket = connect(&server);
    create(&mut socket, responses("hi", true));
    server.wait_for_turns(1, LONG).unwrap();
    drop(socket);
    server.wait_until(LONG, |r| r[1].delivery == Delivery::ClientGone).unwrap();

    let mut socket = connect(&server);
    create(&mut socket, responses("hi", true));
    server.wait_for_turns(2, LONG).unwrap();
    let requests = server.stop();
    assert_eq!(requests.last().unwrap().delivery, Delivery::ServerStopped);
    assert!(socket.read().is_err());
}

#[test]
fn the_upgrade_can_be_refused() {
    let server = serve(Scenario { websocket: false, ..Scenario::new().text("over SSE") });
    let refused = tungstenite::connect(format!("ws://127.0.0.1:{}/responses", server.port()));
    let Err(tungstenite::Error::Http(response)) = refused else { panic!("{refused:?}") };
    assert_eq!(response.status(), 426);
    assert_eq!(server.requests()[0].purpose, Purpose::Handshake);
    let events = post(&server, RESPONSES, &responses("hi", true)).events();
    assert_eq!(events.last().unwrap()["type"], "response.completed");
}
