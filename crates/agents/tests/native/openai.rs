//! Responses and Chat Completions against a server of our own.

use crate::support::{Answer, KEY, Server, ask, cuts, exchange, seen};
use segue_agents::native::{Block, Message, ModelError, StopReason};
use segue_core::usage::Usage;
use serde_json::{Value, json};

const RESPONSES: &str = "openai/gpt-5.1";
const CHAT: &str = "chat/llama3";

const RESPONSES_STREAM: &str = r#"event: response.created
data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}

event: response.reasoning_summary_text.delta
data: {"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"Überlegung"}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Überlegung"}],"encrypted_content":"gAAA","status":null}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","output_index":1,"delta":"Ich suche 🦀"}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Ich suche 🦀"}]}}

event: response.output_item.added
data: {"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_9","name":"glob","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"pattern\":\"*\"}"}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_9","name":"glob","arguments":"{\"pattern\":\"*\"}"}}

event: response.completed
data: {"type":"response.completed","response":{"id":"resp_1","model":"gpt-5.1-2025-11-13","status":"completed","incomplete_details":null,"error":null,"usage":{"input_tokens":1000,"input_tokens_details":{"cached_tokens":600},"output_tokens":300,"output_tokens_details":{"reasoning_tokens":200}}}}

"#;

const CHAT_STREAM: &str = r#"data: {"id":"c1","model":"llama3:8b","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"c1","choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}]}

data: {"id":"c1","choices":[{"index":0,"delta":{"content":"Grüße 🦀"},"finish_reason":null}]}

data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"glob","arguments":""}}]},"finish_reason":null}]}

data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"pattern\":\"*\"}"}}]},"finish_reason":null}]}

data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"c1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":10}}}

data: [DONE]

"#;

fn call(id: &str) -> Block {
    Block::ToolUse { id: id.into(), name: "glob".into(), input: "{\"pattern\":\"*\"}".into() }
}

fn result(id: &str, is_error: bool) -> Block {
    Block::ToolResult { id: id.into(), output: "a.rs".into(), is_error }
}

fn second_request() -> Value {
    json!({
        "model": "gpt-5.1",
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be kind.",
        "tools": [Value::Null],
        "input": [
            { "type": "message", "role": "user",
              "content": [{ "type": "input_text", "text": "Find it." }] },
            { "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
              "summary": [{ "type": "summary_text", "text": "Überlegung" }] },
            { "type": "message", "role": "assistant",
              "content": [{ "type": "output_text", "text": "Ich suche 🦀" }] },
            { "type": "function_call", "call_id": "call_9", "name": "glob",
              "arguments": "{\"pattern\":\"*\"}" },
            { "type": "function_call_output", "call_id": "call_9", "output": "error: a.rs" },
        ],
    })
}

#[test]
fn responses_become_replies_and_go_back_as_they_came() {
    let server =
        Server::start(vec![Answer::stream(RESPONSES_STREAM), Answer::stream(RESPONSES_STREAM)]);
    let mut model = server.model(RESPONSES);
    let reply = ask(&mut *model, &[Message::user("Find it.")]).unwrap();
    assert_eq!(reply.stop, StopReason::ToolUse);
    assert_eq!((reply.model.as_str(), reply.id.as_deref()), ("gpt-5.1-2025-11-13", Some("resp_1")));
    let usage = Usage { input: 400, output: 100, cache_read: 600, cache_write: 0, reasoning: 200 };
    assert_eq!(reply.usage, usage);
    assert!(matches!(&reply.blocks[0], Block::Thinking { text, .. } if text == "Überlegung"));
    assert_eq!(reply.blocks[1..], [Block::text("Ich suche 🦀"), call("call_9")]);

    let messages = [
        Message::user("Find it."),
        Message::assistant(reply.blocks),
        Message::results(vec![result("call_9", true)]),
    ];
    server.asked.recv().unwrap();
    ask(&mut *model, &messages).unwrap();
    let asked = server.asked.recv().unwrap();
    assert_eq!(asked.line, "POST /v1/responses HTTP/1.1");
    assert_eq!(asked.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    let mut body = asked.body;
    let tool = body["tools"][0].take();
    assert_eq!((&tool["type"], &tool["name"]), (&json!("function"), &json!("glob")));
    assert_eq!(tool["strict"], false);
    assert_eq!(body, second_request());
}

#[test]
fn chat_becomes_replies_and_goes_back() {
    let server = Server::start(vec![Answer::stream(CHAT_STREAM), Answer::stream(CHAT_STREAM)]);
    let mut model = server.model(CHAT);
    let reply = ask(&mut *model, &[Message::user("Find it.")]).unwrap();
    assert_eq!(reply.stop, StopReason::ToolUse);
    assert_eq!(reply.model, "llama3:8b");
    let usage = Usage { input: 60, output: 40, cache_read: 40, cache_write: 0, reasoning: 10 };
    assert_eq!(reply.usage, usage);
    let thinking = Block::Thinking { text: "hm".into(), signature: None };
    assert_eq!(reply.blocks, [thinking, Block::text("Grüße 🦀"), call("call_1")]);

    let messages = [
        Message::user("Find it."),
        Message::assistant(reply.blocks),
        Message::results(vec![result("call_1", false), Block::text("and?")]),
    ];
    server.asked.recv().unwrap();
    ask(&mut *model, &messages).unwrap();
    let asked = server.asked.recv().unwrap();
    assert_eq!(asked.line, "POST /v1/chat/completions HTTP/1.1");
    let mut body = asked.body;
    let tool = body["tools"][0].take();
    assert_eq!(tool["function"]["name"], "glob");
    let expected = json!({
        "model": "llama3",
        "stream": true,
        "stream_options": { "include_usage": true },
        "tools": [Value::Null],
        "messages": [
            { "role": "system", "content": "Be kind." },
            { "role": "user", "content": "Find it." },
            { "role": "assistant", "content": "Grüße 🦀", "tool_calls": [
                { "id": "call_1", "type": "function",
                  "function": { "name": "glob", "arguments": "{\"pattern\":\"*\"}" } },
            ] },
            { "role": "tool", "tool_call_id": "call_1", "content": "a.rs" },
            { "role": "user", "content": "and?" },
        ],
    });
    assert_eq!(body, expected);
}

#[test]
fn cut_streams_are_never_replies() {
    // A chat answer is whole with its finish_reason, two events before the end.
    for (spec, stream, whole) in [(RESPONSES, RESPONSES_STREAM, 0), (CHAT, CHAT_STREAM, 2)] {
        for (count, cut) in cuts(stream, whole).into_iter().enumerate() {
            let result = exchange(spec, Answer::stream(&cut));
            let is_cut = matches!(result, Err(ModelError::StreamCut(_)));
            assert!(is_cut, "{spec} after {count}: {result:?}");
        }
    }
    let done = exchange(CHAT, Answer::stream("data: [DONE]\n\n"));
    assert!(matches!(done, Err(ModelError::StreamCut(_))), "{done:?}");
    let html = exchange(CHAT, Answer::stream("<html>not a stream</html>"));
    assert!(matches!(html, Err(ModelError::StreamCut(_))), "{html:?}");
}

#[test]
fn every_byte_boundary_of_both_streams() {
    for (spec, stream) in [(RESPONSES, RESPONSES_STREAM), (CHAT, CHAT_STREAM)] {
        let expected = exchange(spec, Answer::stream(stream)).unwrap();
        let bytes = stream.as_bytes();
        let single = bytes.iter().map(|byte| vec![*byte]).collect();
        assert_eq!(exchange(spec, Answer::Stream(single)).unwrap(), expected);
        let thirds = bytes.chunks(3).map(<[u8]>::to_vec).collect();
        assert_eq!(exchange(spec, Answer::Stream(thirds)).unwrap(), expected);
    }
}

#[test]
fn deltas_are_seen() {
    let json = "{\"pattern\":\"*\"}".to_owned();
    let responses = seen(RESPONSES, Answer::stream(RESPONSES_STREAM));
    assert_eq!(responses, ("Ich suche 🦀".into(), "Überlegung".into(), json.clone(), 10));
    let chat = seen(CHAT, Answer::stream(CHAT_STREAM));
    assert_eq!(chat, ("Grüße 🦀".into(), "hm".into(), json, 8));
}

#[test]
fn limits_and_quotas() {
    let quota =
        r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"pay"}}"#;
    let error = exchange(RESPONSES, Answer::status(429, &[], quota)).unwrap_err();
    assert!(matches!(error, ModelError::Limit { quota: true, .. }), "{error:?}");
    assert!(!error.is_transient());

    let headers = [("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1m30s")];
    let error = exchange(CHAT, Answer::status(429, &headers, "")).unwrap_err();
    assert_eq!(error.retry_after().map(|wait| wait.as_secs().abs_diff(90) <= 1), Some(true));

    let failed = r#"data: {"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"m"}}}"#;
    let error = exchange(RESPONSES, Answer::stream(&format!("{failed}\n\n"))).unwrap_err();
    assert!(matches!(error, ModelError::Limit { quota: false, .. }), "{error:?}");
    let failed = r#"data: {"type":"error","code":"server_error","message":"m"}"#;
    let error = exchange(RESPONSES, Answer::stream(&format!("{failed}\n\n"))).unwrap_err();
    assert_eq!(error, ModelError::Server { status: 500, message: "m".into() });
    let failed = r#"data: {"error":{"code":503,"message":"m"}}"#;
    let error = exchange(CHAT, Answer::stream(&format!("{failed}\n\n"))).unwrap_err();
    assert_eq!(error, ModelError::Overloaded { message: "m".into(), retry_after: None });

    let error = exchange(CHAT, Answer::status(401, &[], "")).unwrap_err();
    let ModelError::NotSignedIn { fix, .. } = error else { panic!("{error:?}") };
    assert!(fix.contains("OPENAI_API_KEY"));
    let long = r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#;
    let error = exchange(RESPONSES, Answer::status(400, &[], long)).unwrap_err();
    assert_eq!(error, ModelError::ContextExhausted("m".into()));
}

#[test]
fn an_incomplete_response_says_why() {
    let event = |reason: &str| {
        let response = json!({
            "type": "response.incomplete",
            "response": { "id": "r", "incomplete_details": { "reason": reason }, "output": [
                { "type": "message", "content": [{ "type": "output_text", "text": "half" }] },
            ] },
        });
        exchange(RESPONSES, Answer::stream(&format!("data: {response}\n\n"))).unwrap()
    };
    assert_eq!(event("max_output_tokens").stop, StopReason::MaxTokens);
    assert_eq!(event("content_filter").stop, StopReason::Refusal);
    assert_eq!(event("max_output_tokens").text(), "half");
}
