//! Each way to fail, as a client meets it.

use std::io::{Read, Write};
use std::net::TcpStream;

use segue_testkit::model_server::{Delivery, Fault, Reply, Reset, Scenario, When};
use serde_json::{Value, json};

use super::*;

#[test]
fn statuses_and_shapes_of_plain_failures() {
    // Status and the error's type (Anthropic), type (Responses, Chat) and status (Gemini).
    let cases = [
        (Fault::ServerError, [500, 500, 500, 500], ["api_error", "server_error", "INTERNAL"]),
        (
            Fault::Overloaded,
            [529, 503, 503, 503],
            ["overloaded_error", "service_unavailable_error", "UNAVAILABLE"],
        ),
        (
            Fault::Unauthorized,
            [401, 401, 401, 401],
            ["authentication_error", "invalid_request_error", "UNAUTHENTICATED"],
        ),
        (
            Fault::ContextExhausted,
            [400, 400, 400, 400],
            ["invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"],
        ),
        (
            Fault::RateLimit { reset: Some(Reset::In(20)) },
            [429, 429, 429, 429],
            ["rate_limit_error", "requests", "RESOURCE_EXHAUSTED"],
        ),
    ];
    for (fault, statuses, [anthropic, openai, gemini]) in cases {
        let server = one(Reply::fault(fault.clone()).sticky());
        let names = [anthropic, openai, openai, gemini];
        for (i, (path, body)) in asks("hi", false).iter().enumerate() {
            let got = post(&server, path, body);
            assert_eq!(got.status, statuses[i], "{fault:?} {path}");
            let error = &got.json()["error"];
            let name = if i == 3 { &error["status"] } else { &error["type"] };
            assert_eq!(name, names[i], "{fault:?} {path}");
        }
    }
}

#[test]
fn limits_say_when_they_end_as_each_vendor_does() {
    let at = 4_000_000_000;
    let limit = Fault::UsageLimit { reset: Some(Reset::At(at)) };
    let server = one(Reply::fault(limit).sticky());
    let got = post(&server, MESSAGES, &anthropic("hi", true));
    assert_eq!(got.status, 429);
    assert_eq!(got.json()["error"]["type"], "rate_limit_error");
    assert_eq!(got.header("anthropic-ratelimit-unified-status"), "rejected");
    assert_eq!(got.header("anthropic-ratelimit-unified-reset"), "4000000000");
    assert!(got.header("retry-after").parse::<i64>().unwrap() > 1_000_000_000);

    let got = post(&server, RESPONSES, &responses("hi", true));
    let error = got.json()["error"].clone();
    assert_eq!((got.status, &error["type"]), (429, &json!("usage_limit_reached")));
    assert_eq!(error["resets_at"], at);
    assert!(error["resets_in_seconds"].as_i64().unwrap() > 1_000_000_000);
    assert_eq!(got.header("x-codex-primary-reset-at"), "4000000000");

    let got = post(&server, CHAT, &chat("hi", true));
    assert_eq!(got.json()["error"]["code"], "insufficient_quota");

    let got = post(&server, GEMINI_SSE, &gemini("hi"));
    let details = got.json()["error"]["details"].clone();
    let quota = details[0]["violations"][0]["quotaId"].as_str().unwrap();
    assert!(quota.contains("PerDay"), "{quota}");
}

#[test]
fn rate_limits_tell_how_long_to_wait() {
    let server = one(Reply::fault(Fault::RateLimit { reset: Some(Reset::In(20)) }).sticky());
    let got = post(&server, MESSAGES, &anthropic("hi", false));
    assert_eq!(got.header("retry-after"), "20");
    assert_eq!(got.header("anthropic-ratelimit-unified-status"), "");
    for got in
        [post(&server, RESPONSES, &responses("hi", true)), post(&server, CHAT, &chat("hi", true))]
    {
        assert_eq!(got.json()["error"]["code"], "rate_limit_exceeded");
        assert_eq!(got.header("retry-after"), "20");
        assert_eq!(got.header("x-ratelimit-reset-requests"), "20s");
    }
    let error = post(&server, GEMINI, &gemini("hi")).json()["error"].clone();
    let quota = error["details"][0]["violations"][0]["quotaId"].as_str().unwrap();
    assert!(quota.contains("PerMinute"), "{quota}");
    assert_eq!(error["details"][1]["retryDelay"], "20s");
    let array = post(&server, "/v1beta/models/gem:streamGenerateContent", &gemini("hi"));
    assert_eq!((array.status, &array.json()[0]["error"]["code"]), (429, &json!(429)));
}

#[test]
fn a_full_context_fails_a_responses_stream_from_inside() {
    let server = one(Reply::fault(Fault::ContextExhausted).sticky());
    let got = post(&server, RESPONSES, &responses("hi", true));
    let events = got.events();
    assert_eq!((got.status, kinds(&events)), (200, vec!["response.created", "response.failed"]));
    assert_eq!(events[1]["response"]["error"]["code"], "context_length_exceeded");
    let got = post(&server, RESPONSES, &responses("hi", false));
    assert_eq!(got.json()["error"]["code"], "context_length_exceeded");
    let got = post(&server, CHAT, &chat("hi", true));
    assert_eq!(got.json()["error"]["code"], "context_length_exceeded");
    let got = post(&server, MESSAGES, &anthropic("hi", true));
    let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("prompt is too long"), "{message}");
}

/// What marks the end of a stream in each API.
const ENDS: [&str; 4] = ["message_stop", "response.completed", "[DONE]", "finishReason"];

#[test]
fn a_cut_stream_breaks_off_after_its_beginning() {
    let server = one(rich().failing(Fault::cut()).sticky());
    for (i, (path, body)) in asks("hi", true).iter().enumerate() {
        let got = post(&server, path, body);
        assert!(!got.whole, "{path} ended as if it were complete: {}", got.text);
        assert_eq!(got.status, 200);
        assert!(!got.events().is_empty(), "{path}: nothing came before the cut");
        assert!(!got.text.contains(ENDS[i]), "{path}: {}", got.text);
    }
    for (path, body) in asks("hi", false) {
        let got = post(&server, path, &body);
        assert!(!got.whole && !got.text.is_empty(), "{path}: {}", got.text);
        assert!(serde_json::from_str::<Value>(&got.text).is_err());
    }
    let deliveries = server.stop().iter().map(|r| r.delivery).collect::<Vec<_>>();
    assert_eq!(deliveries, [Delivery::Cut; 8]);
}

#[test]
fn a_clean_cut_lacks_only_the_end_event() {
    let fault = Fault::Cut { after: Some(1000), clean: true };
    let server = one(Reply::text("some words").failing(fault).sticky());
    for (i, (path, body)) in asks("hi", true).iter().enumerate() {
        let got = post(&server, path, body);
        assert!(got.whole, "{path}");
        assert!(!got.text.contains(ENDS[i]), "{path}: {}", got.text);
        assert!(got.text.contains("some "), "{path}: {}", got.text);
    }
    assert!(server.requests().iter().all(|r| r.delivery == Delivery::Cut));
}

#[test]
fn a_cut_can_be_placed() {
    let server = one(rich().failing(Fault::Cut { after: Some(3), clean: false }));
    let got = post(&server, MESSAGES, &anthropic("hi", true));
    assert_eq!(kinds(&got.events()), ["message_start", "ping", "content_block_start"]);
    assert!(!got.whole);
}

#[test]
fn an_error_can_come_in_the_middle_of_a_stream() {
    let server = one(rich().failing(Fault::StreamError { after: None }).sticky());
    let errors = ["/error/type", "/response/error/code", "/error/code", "/error/status"];
    let values =
        ["overloaded_error", "server_is_overloaded", "server_is_overloaded", "UNAVAILABLE"];
    for (i, (path, body)) in asks("hi", true).iter().enumerate() {
        let got = post(&server, path, body);
        assert!(got.whole && got.status == 200, "{path}");
        let events = got.events();
        assert!(events.len() > 2, "{path}");
        assert_eq!(events.last().unwrap().pointer(errors[i]).unwrap(), values[i], "{path}");
        assert!(!got.text.contains(ENDS[i]), "{path}");
    }
    let got = post(&server, MESSAGES, &anthropic("hi", false));
    assert_eq!(got.status, 529);
}

/// Sends a request by hand and leaves the connection open.
fn raw(server: &ModelServer, path: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let body = body.to_string();
    let length = body.len();
    let text = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

#[test]
fn a_hang_sends_nothing_and_ends_when_the_server_is_dropped() {
    let server = one(Reply::text("never seen").failing(Fault::hang()));
    let mut stream = raw(&server, MESSAGES, &anthropic("hi", true));
    let requests = server.wait_for_requests(1, LONG).unwrap();
    assert_eq!((requests[0].reply, requests[0].delivery), (Some(0), Delivery::Open));
    let requests = server.stop();
    assert_eq!(requests[0].delivery, Delivery::ServerStopped);
    let mut all = Vec::new();
    // Whether the close arrives as an end or as a reset, the read must return.
    let ended = stream.read_to_end(&mut all).map_err(|e| e.kind());
    assert!(!matches!(ended, Err(std::io::ErrorKind::WouldBlock)), "still open");
    assert!(all.is_empty(), "{}", String::from_utf8_lossy(&all));
}

#[test]
fn a_hang_can_come_after_headers_and_some_chunks() {
    let hang = |after| Reply::text("some words").failing(Fault::Hang { after: Some(after) });
    let server = serve(Scenario::new().reply(hang(0)).reply(hang(1)));
    let mut empty = raw(&server, MESSAGES, &anthropic("hi", true));
    server.wait_for_requests(1, LONG).unwrap();
    let mut begun = raw(&server, MESSAGES, &anthropic("hi", true));
    server.wait_for_requests(2, LONG).unwrap();
    let head = until(&mut empty, "\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let start = until(&mut begun, "message_start\"");
    drop(server);
    let mut rest = String::new();
    let _ended = begun.read_to_string(&mut rest);
    assert!(!format!("{start}{rest}").contains("content_block_start"), "{rest}");
    let _ended = empty.read_to_string(&mut rest);
    assert!(!rest.contains("content_block_start"), "{rest}");
}

/// Reads until the mark has come.
fn until(stream: &mut TcpStream, mark: &str) -> String {
    let mut all = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&all).ends_with(mark) {
        stream.read_exact(&mut byte).unwrap();
        all.push(byte[0]);
    }
    String::from_utf8(all).unwrap()
}

#[test]
fn a_client_that_goes_away_is_noticed() {
    let server = one(Reply::text("some words").failing(Fault::Hang { after: Some(1) }).sticky());
    let mut stream = raw(&server, MESSAGES, &anthropic("hi", true));
    until(&mut stream, "message_start\"");
    drop(stream);
    let gone = |r: &[segue_testkit::model_server::Request]| r[0].delivery == Delivery::ClientGone;
    server.wait_until(LONG, gone).unwrap();

    server.push(Reply::fault(Fault::hang()).when(When::last_user("silent")));
    let stream = raw(&server, MESSAGES, &anthropic("silent", true));
    server.wait_for_requests(2, LONG).unwrap();
    drop(stream);
    server.wait_until(LONG, |r| r[1].delivery == Delivery::ClientGone).unwrap();
}

#[test]
fn delays_change_nothing_but_the_pace() {
    let tick = Duration::from_millis(1);
    let server = one(rich().delay(tick).slow(tick));
    let got = post(&server, MESSAGES, &anthropic("hi", true));
    assert!(got.whole);
    assert_eq!(gather(&got.events(), "/delta/text"), "The quick brown fox: ünï.");
}
