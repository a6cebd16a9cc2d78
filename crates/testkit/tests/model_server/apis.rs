//! Each API, streamed and not.

use segue_testkit::model_server::{Delivery, Purpose, Reply, Scenario, Stop, ToolCall};
use serde_json::{Value, json};

use super::*;

#[test]
fn anthropic_whole_and_streamed_say_the_same() {
    let server = one(rich().sticky());
    let whole = post(&server, MESSAGES, &anthropic("hi", false)).json();
    assert_eq!(whole["content"][0]["thinking"], "Let me think about it.");
    assert_eq!(whole["content"][1]["text"], "The quick brown fox: ünï.");
    assert_eq!(whole["content"][2]["input"]["command"], "echo \"hi\"");
    assert_eq!(whole["stop_reason"], "tool_use");
    assert_eq!(whole["usage"]["input_tokens"], 100);
    assert_eq!(whole["usage"]["cache_creation_input_tokens"], 4);
    assert_eq!(whole["usage"]["output_tokens"], 25);

    let got = post(&server, "/v1/messages?beta=true", &anthropic("hi", true));
    assert_eq!(got.header("content-type"), "text/event-stream");
    assert!(got.text.starts_with("event: message_start\ndata: {"), "{}", got.text);
    let events = got.events();
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let expected = [
        &["message_start", "ping"][..],
        &block,
        &block,
        &block,
        &["message_delta", "message_stop"],
    ];
    assert_eq!(kinds(&events), expected.concat());
    assert_eq!(gather(&events, "/delta/thinking"), "Let me think about it.");
    assert_eq!(gather(&events, "/delta/text"), "The quick brown fox: ünï.");
    let input: Value = serde_json::from_str(&gather(&events, "/delta/partial_json")).unwrap();
    assert_eq!(input, json!({ "command": "echo \"hi\"" }));
    let delta = events.iter().find(|e| e["type"] == "message_delta").unwrap();
    assert_eq!(delta["delta"]["stop_reason"], "tool_use");
    assert_eq!(delta["usage"], whole["usage"]);
}

#[test]
fn responses_whole_and_streamed_say_the_same() {
    let server = one(rich().sticky());
    let whole = post(&server, "/responses", &responses("hi", false)).json();
    assert_eq!(whole["status"], "completed");
    assert_eq!(whole["output"][1]["content"][0]["text"], "The quick brown fox: ünï.");
    assert_eq!(whole["usage"]["input_tokens"], 134);
    assert_eq!(whole["usage"]["input_tokens_details"]["cached_tokens"], 30);
    assert_eq!(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 5);
    assert_eq!(whole["usage"]["total_tokens"], 159);

    let events = post(&server, RESPONSES, &responses("hi", true)).events();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds(&events), expected);
    let numbers = events.iter().map(|e| e["sequence_number"].as_u64().unwrap());
    assert!(numbers.eq(0..events.len() as u64));
    let of = |kind: &str| events.iter().filter(|e| e["type"] == kind).cloned().collect::<Vec<_>>();
    let said = gather(&of("response.output_text.delta"), "/delta");
    assert_eq!(said, "The quick brown fox: ünï.");
    let done = &events.last().unwrap()["response"];
    let items: Vec<Value> =
        of("response.output_item.done").iter().map(|e| e["item"].clone()).collect();
    assert_eq!(done["output"], json!(items));
    assert_eq!(items[2]["arguments"], r#"{"command":"echo \"hi\""}"#);
    assert_eq!(done["usage"], whole["usage"]);
}

#[test]
fn codex_tool_calls_can_be_free_form_or_in_a_namespace() {
    let verdict = ToolCall {
        name: "submit".into(),
        input: json!({ "ok": true }),
        id: Some("call_own".into()),
        namespace: Some("mcp__crew".into()),
    };
    let server = one(Reply::tool("apply_patch", json!("*** Begin")).and_call(verdict).sticky());
    let output = post(&server, RESPONSES, &responses("hi", false)).json()["output"].clone();
    assert_eq!(output[0]["type"], "custom_tool_call");
    assert_eq!(output[0]["input"], "*** Begin");
    assert_eq!(output[1]["namespace"], "mcp__crew");
    assert_eq!(output[1]["call_id"], "call_own");
    let events = post(&server, RESPONSES, &responses("hi", true)).events();
    assert!(kinds(&events).contains(&"response.custom_tool_call_input.delta"));
}

#[test]
fn chat_whole_and_streamed_say_the_same() {
    let server = one(rich().sticky());
    let whole = post(&server, "/chat/completions", &chat("hi", false)).json();
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], "The quick brown fox: ünï.");
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"command":"echo \"hi\""}"#);
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(whole["usage"]["prompt_tokens"], 134);

    let got = post(&server, CHAT, &chat("hi", true));
    assert!(got.text.ends_with("data: [DONE]\n\n"), "{}", got.text);
    let events = got.events();
    let delta = "/choices/0/delta";
    assert_eq!(gather(&events, &format!("{delta}/content")), "The quick brown fox: ünï.");
    assert_eq!(gather(&events, &format!("{delta}/reasoning_content")), "Let me think about it.");
    assert_eq!(gather(&events, &format!("{delta}/tool_calls/0/function/name")), "shell");
    let arguments = gather(&events, &format!("{delta}/tool_calls/0/function/arguments"));
    assert_eq!(arguments, r#"{"command":"echo \"hi\""}"#);
    assert_eq!(gather(&events, "/choices/0/finish_reason"), "tool_calls");
    assert_eq!(events.last().unwrap()["usage"], whole["usage"]);

    let mut quiet = chat("hi", true);
    quiet["stream_options"] = Value::Null;
    let events = post(&server, CHAT, &quiet).events();
    assert!(events.iter().all(|e| e["usage"].is_null()));
}

#[test]
fn gemini_whole_and_both_streams_say_the_same() {
    let server = one(rich().sticky());
    let whole = post(&server, GEMINI, &gemini("hi")).json();
    let parts = &whole["candidates"][0]["content"]["parts"];
    assert_eq!(parts[0]["thought"], true);
    assert_eq!(parts[1]["text"], "The quick brown fox: ünï.");
    assert_eq!(parts[2]["functionCall"]["args"]["command"], "echo \"hi\"");
    assert_eq!(whole["usageMetadata"]["promptTokenCount"], 134);
    assert_eq!(whole["usageMetadata"]["candidatesTokenCount"], 20);
    assert_eq!(whole["usageMetadata"]["thoughtsTokenCount"], 5);

    let events = post(&server, GEMINI_SSE, &gemini("hi")).events();
    let array = post(&server, "/v1/models/gem:streamGenerateContent", &gemini("hi")).json();
    for chunks in [&events, array.as_array().unwrap()] {
        let text = "/candidates/0/content/parts/0/text";
        let said: Vec<Value> =
            chunks.iter().filter(|c| c.pointer(text).is_some()).cloned().collect();
        assert_eq!(gather(&said, text), "Let me think about it.The quick brown fox: ünï.");
        let last = chunks.last().unwrap();
        assert_eq!(last["candidates"][0]["finishReason"], "STOP");
        assert!(last.pointer("/candidates/0/content/parts/0/functionCall").is_some());
        assert!(chunks.len() > 4, "{chunks:?}");
        assert_eq!(gather(chunks, "/candidates/0/finishReason"), "STOP");
    }
    assert_eq!(server.requests()[0].model.as_deref(), Some("gem"));
}

#[test]
fn stop_reasons_have_each_vendors_name() {
    let server = one(Reply::text("a b").stop(Stop::MaxTokens).sticky());
    let names = ["/stop_reason", "/incomplete_details/reason", "/choices/0/finish_reason"];
    let names = [names[0], names[1], names[2], "/candidates/0/finishReason"];
    let expected = ["max_tokens", "max_output_tokens", "length", "MAX_TOKENS"];
    for (i, (path, body)) in asks("hi", false).iter().enumerate() {
        let got = post(&server, path, body).json();
        assert_eq!(got.pointer(names[i]).unwrap(), expected[i], "{path}");
    }
    let events = post(&server, RESPONSES, &responses("hi", true)).events();
    assert_eq!(events.last().unwrap()["type"], "response.incomplete");
}

#[test]
fn side_endpoints_take_no_reply() {
    let server = one(Reply::text("the only one"));
    let count = post(&server, "/v1/messages/count_tokens", &anthropic("hi", false)).json();
    assert!(count["input_tokens"].as_u64().unwrap() > 0);
    let count = post(&server, "/v1beta/models/gem:countTokens", &gemini("hi")).json();
    assert!(count["totalTokens"].as_u64().unwrap() > 0);
    for (path, pointer, name) in [
        ("/v1/models", "/data/0/id", "scripted-model"),
        ("/v1beta/models", "/models/0/name", "models/scripted-model"),
    ] {
        let url = format!("{}{path}", server.url());
        let text = agent().get(url).call().unwrap().body_mut().read_to_string().unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(list.pointer(pointer).unwrap(), name);
    }
    let answer = post(&server, MESSAGES, &anthropic("hi", false)).json();
    assert_eq!(answer["content"][0]["text"], "the only one");
    let purposes: Vec<Purpose> = server.requests().iter().map(|r| r.purpose).collect();
    let (count, list) = (Purpose::CountTokens, Purpose::Models);
    assert_eq!(purposes, [count, count, list, list, Purpose::Generate]);
}

#[test]
fn unknown_paths_are_refused_in_the_vendors_shape_and_recorded() {
    let server = serve(Scenario::new());
    for (path, pointer, value) in [
        ("/v1/messages/batches", "/error/type", "not_found_error"),
        ("/v1/responses/compact", "/error/type", "invalid_request_error"),
        ("/v1beta/cachedContents", "/error/status", "NOT_FOUND"),
    ] {
        let got = post(&server, path, &json!({ "x": 1 }));
        assert_eq!(got.status, 404);
        assert_eq!(got.json().pointer(pointer).unwrap(), value);
    }
    let head = agent().head(format!("{}/api/hello", server.url())).call().unwrap();
    assert_eq!(head.status(), 404);
    let requests = server.requests();
    let paths: Vec<&str> = requests.iter().map(|r| r.path.as_str()).collect();
    assert_eq!(paths[1..], ["/v1/responses/compact", "/v1beta/cachedContents", "/api/hello"]);
    assert_eq!(requests[2].body, json!({ "x": 1 }));
    assert_eq!(requests[3].method, "HEAD");
    assert!(requests.iter().all(|r| r.purpose == Purpose::Unknown && r.reply.is_none()));
    assert!(requests.iter().all(|r| r.delivery == Delivery::Complete));
}
