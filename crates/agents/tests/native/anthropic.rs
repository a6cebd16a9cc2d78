//! The Messages API against a server of our own.

use std::ops::ControlFlow;

use crate::support::{Answer, KEY, Server, ask, cuts, exchange, seen};
use segue_agents::native::{Block, Delta, Message, ModelError, Request, StopReason};
use segue_core::usage::Usage;
use serde_json::{Value, json};

const SPEC: &str = "anthropic/claude-sonnet-4-5";

const STREAM: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","model":"claude-sonnet-4-5-20250929","usage":{"input_tokens":12,"cache_creation_input_tokens":30,"cache_read_input_tokens":500,"output_tokens":1}}}

: keep-alive

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm, grüß 🦀."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"enc"}}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Ich suche – "}}

event: content_block_delta
data: {"type":"content_block_delta",
data: "index":2,"delta":{"type":"text_delta","text":"日本語."}}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"glob","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"pattern\": "}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"\"*.rs\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":89}}

event: message_stop
data: {"type":"message_stop"}

"#;

fn blocks() -> Vec<Block> {
    vec![
        Block::Thinking {
            text: "Hm, grüß 🦀.".into(), signature: Some("anthropic:c2ln".into())
        },
        Block::Thinking { text: String::new(), signature: Some("anthropic-redacted:enc".into()) },
        Block::text("Ich suche – 日本語."),
        Block::ToolUse {
            id: "toolu_1".into(),
            name: "glob".into(),
            input: "{\"pattern\": \"*.rs\"}".into(),
        },
    ]
}

#[test]
fn a_stream_becomes_a_reply() {
    let reply = exchange(SPEC, Answer::stream(STREAM)).unwrap();
    assert_eq!(reply.blocks, blocks());
    assert_eq!(reply.stop, StopReason::ToolUse);
    assert_eq!(reply.id.as_deref(), Some("msg_1"));
    assert_eq!(reply.model, "claude-sonnet-4-5-20250929");
    let usage = Usage { input: 12, output: 89, cache_read: 500, cache_write: 30, reasoning: 0 };
    assert_eq!(reply.usage, usage);
}

#[test]
fn the_same_reply_however_the_bytes_are_split() {
    let expected = exchange(SPEC, Answer::stream(STREAM)).unwrap();
    let crlf = STREAM.replace('\n', "\r\n");
    let bytes = crlf.as_bytes();
    let answers = (0..=bytes.len())
        .map(|at| Answer::Stream(vec![bytes[..at].to_vec(), bytes[at..].to_vec()]))
        .collect();
    let server = Server::start(answers);
    let mut model = server.model(SPEC);
    for at in 0..=bytes.len() {
        let reply = ask(&mut *model, &[Message::user("hi")]).unwrap();
        assert_eq!(reply, expected, "split at {at}");
    }
    let single = bytes.iter().map(|byte| vec![*byte]).collect();
    assert_eq!(exchange(SPEC, Answer::Stream(single)).unwrap(), expected);
}

#[test]
fn a_cut_stream_is_never_a_reply() {
    for (count, cut) in cuts(STREAM, 0).into_iter().enumerate() {
        let whole = exchange(SPEC, Answer::stream(&cut));
        assert!(matches!(whole, Err(ModelError::StreamCut(_))), "after {count}: {whole:?}");
        let broken = exchange(SPEC, Answer::Broken(format!("{cut}data: {{").into_bytes()));
        assert!(matches!(broken, Err(ModelError::StreamCut(_))), "after {count}: {broken:?}");
    }
}

#[test]
fn deltas_are_seen_in_order() {
    let (text, thinking, json, raw) = seen(SPEC, Answer::stream(STREAM));
    assert_eq!(text, "Ich suche – 日本語.");
    assert_eq!(thinking, "Hm, grüß 🦀.");
    assert_eq!(json, "{\"pattern\": \"*.rs\"}");
    assert_eq!(raw, STREAM.matches("event: ").count());
}

#[test]
fn the_request_carries_cache_marks_thinking_and_results() {
    let server = Server::start(vec![Answer::stream(STREAM)]);
    let messages = [
        Message::user("Find it."),
        Message::assistant(blocks()),
        Message::results(vec![Block::ToolResult {
            id: "toolu_1".into(),
            output: "a.rs\n".into(),
            is_error: true,
        }]),
    ];
    ask(&mut *server.model(SPEC), &messages).unwrap();
    let asked = server.asked.recv().unwrap();
    assert_eq!(asked.line, "POST /v1/messages HTTP/1.1");
    assert_eq!(asked.header("x-api-key"), Some(KEY));
    assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    let mut body = asked.body;
    let tool = body["tools"][0].take();
    assert_eq!(tool["name"], "glob");
    assert_eq!(tool["input_schema"]["required"], json!(["pattern"]));
    let mark = json!({ "type": "ephemeral" });
    let expected = json!({
        "model": "claude-sonnet-4-5",
        "max_tokens": 32000,
        "stream": true,
        "system": [{ "type": "text", "text": "Be kind.", "cache_control": mark }],
        "tools": [Value::Null],
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "Find it." }] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "Hm, grüß 🦀.", "signature": "c2ln" },
                { "type": "redacted_thinking", "data": "enc" },
                { "type": "text", "text": "Ich suche – 日本語." },
                { "type": "tool_use", "id": "toolu_1", "name": "glob",
                  "input": { "pattern": "*.rs" } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "toolu_1", "content": "a.rs\n",
                  "is_error": true, "cache_control": mark },
            ] },
        ],
    });
    assert_eq!(body, expected);
}

#[test]
fn failures_before_the_stream() {
    let body = r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#;
    let headers = [("retry-after", "17"), ("anthropic-ratelimit-unified-reset", "1900000000")];
    let limit = exchange(SPEC, Answer::status(429, &headers, body)).unwrap_err();
    let ModelError::Limit { message, resets_at, retry_after, quota } = limit else { panic!() };
    assert_eq!(message, "slow down");
    assert_eq!(resets_at.unwrap().as_second(), 1_900_000_000);
    assert_eq!(retry_after.unwrap().as_secs(), 17);
    assert!(!quota);

    let overloaded = exchange(SPEC, Answer::status(529, &[], "")).unwrap_err();
    assert!(matches!(overloaded, ModelError::Overloaded { .. }), "{overloaded:?}");
    let server = exchange(SPEC, Answer::status(500, &[], "<html>")).unwrap_err();
    assert_eq!(server, ModelError::Server { status: 500, message: "<html>".into() });

    let body = format!(r#"{{"error":{{"message":"bad key {KEY}"}}}}"#);
    let key = exchange(SPEC, Answer::status(401, &[], &body)).unwrap_err();
    let ModelError::NotSignedIn { message, fix } = key else { panic!() };
    assert_eq!(message, "bad key [key]");
    assert!(fix.contains("ANTHROPIC_API_KEY"));
}

#[test]
fn failures_inside_the_stream() {
    let start = cuts(STREAM, 0)[6].clone();
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    let stream = format!("{start}event: error\ndata: {error}\n\n");
    let failed = exchange(SPEC, Answer::stream(&stream)).unwrap_err();
    assert_eq!(failed, ModelError::Overloaded { message: "busy".into(), retry_after: None });
}

#[test]
fn redirects_are_not_followed() {
    let other = Server::start(vec![Answer::stream(STREAM)]);
    for status in [301, 302, 307, 308] {
        let target = format!("{}/v1/messages", other.url);
        let answer = Answer::status(status, &[("location", &target)], "");
        let error = exchange(SPEC, answer).unwrap_err();
        assert!(matches!(error, ModelError::BadRequest { .. }), "{status}: {error:?}");
    }
    assert!(other.asked.try_recv().is_err(), "the key went elsewhere");
}

#[test]
fn a_call_is_cancelled_by_a_delta_and_in_silence() {
    // Up to and with the first text.
    let talking = Server::start(vec![Answer::Hang(cuts(STREAM, 0)[10].clone().into_bytes())]);
    let quiet = Server::start(vec![Answer::Hang(b": quiet\n\n".to_vec())]);
    let messages = [Message::user("hi")];
    let request = Request {
        system: "",
        messages: &messages,
        tools: &[],
        max_output: None,
        earlier_replies: 0,
    };
    let mut after = 0;
    let mut broken = false;
    let cancelled = talking.model(SPEC).call(&request, &mut |delta| {
        after += usize::from(broken);
        broken |= matches!(delta, Delta::Text(_));
        if broken { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((cancelled, after), (Err(ModelError::Cancelled), 0));
    let mut idle = 0;
    let cancelled = quiet.model(SPEC).call(&request, &mut |delta| {
        idle += usize::from(delta == Delta::Idle);
        if idle > 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(cancelled, Err(ModelError::Cancelled));
}

#[test]
fn silence_and_dead_ends_do_not_hang() {
    let server = Server::start(vec![Answer::Hang(b"data: {}\n\n".to_vec())]);
    let settings = segue_agents::native::Settings {
        base_url: Some(server.url.clone()),
        idle_timeout: std::time::Duration::from_millis(200),
        ..Default::default()
    };
    let spec = segue_agents::native::ModelSpec::parse(SPEC).unwrap();
    let mut model = segue_agents::native::build(&spec, &settings).unwrap();
    let silent = ask(&mut *model, &[Message::user("hi")]);
    assert!(matches!(silent, Err(ModelError::StreamCut(_))), "{silent:?}");
    assert_eq!(server.asked.recv().unwrap().header("x-api-key"), None);

    let closed = Server::start(Vec::new());
    // The listener goes with its thread; until then the connection is accepted and dropped.
    let refused = ask(&mut *closed.model(SPEC), &[Message::user("hi")]).unwrap_err();
    assert!(refused.is_transient(), "{refused:?}");
    assert!(!refused.to_string().contains(KEY));
}
