//! Which reply a request gets, and what is kept of it.

use segue_testkit::model_server::{
    Api, Content, Delivery, Fault, Options, Purpose, Reply, Role, Scenario, UNSCRIPTED, When,
    read_record,
};
use serde_json::json;

use super::*;

fn said(server: &ModelServer, body: &Value) -> String {
    let got = post(server, MESSAGES, body).json();
    got["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn replies_come_in_order_and_then_run_out() {
    let server = serve(Scenario::new().text("one").text("two"));
    server.push(Reply::text("three"));
    let answers = [0, 1, 2, 3].map(|_| said(&server, &anthropic("hi", false)));
    assert_eq!(answers, ["one", "two", "three", UNSCRIPTED]);
    let requests = server.requests();
    let replies: Vec<_> = requests.iter().map(|r| (r.seq, r.reply, r.unscripted)).collect();
    let some = |i| (i as u64 + 1, Some(i), false);
    assert_eq!(replies, [some(0), some(1), some(2), (4, None, true)]);
}

#[test]
fn a_sticky_reply_stays() {
    let server = serve(Scenario::new().text("one").reply(Reply::text("rest").sticky()).text("no"));
    let answers = [0, 1, 2].map(|_| said(&server, &anthropic("hi", false)));
    assert_eq!(answers, ["one", "rest", "rest"]);
}

#[test]
fn replies_with_a_condition_go_to_those_they_name() {
    let title = Reply::text("a title").when(When::no_tools()).sticky();
    let of = |text: &str, when: When| Reply::text(text).when(when);
    let server = serve(
        Scenario::new()
            .text("main 1")
            .text("main 2")
            .reply(title)
            .reply(of("for the reviewer", When::body("You review")))
            .reply(of("after the tool", When::last_tool("file list")))
            .reply(of("small model", When::model("mini")))
            .reply(of("asked twice", When::last_user("again")).sticky()),
    );
    let ask = |text: &str, change: &dyn Fn(&mut Value)| {
        let mut body = anthropic(text, false);
        body["tools"] = json!([{ "name": "shell", "input_schema": {} }]);
        change(&mut body);
        said(&server, &body)
    };
    assert_eq!(said(&server, &anthropic("name this", false)), "a title");
    assert_eq!(ask("hi", &|_| {}), "main 1");
    assert_eq!(ask("hi", &|b| b["system"] = json!("You review code")), "for the reviewer");
    assert_eq!(ask("hi", &|b| b["model"] = json!("claude-mini")), "small model");
    assert_eq!(ask("once again", &|_| {}), "asked twice");
    assert_eq!(ask("and again", &|_| {}), "asked twice");
    let tool_round = |b: &mut Value| {
        b["messages"] = json!([
            { "role": "user", "content": "look" },
            { "role": "assistant", "content": [
                { "type": "tool_use", "id": "t1", "name": "shell", "input": {} }] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "t1", "content": "file list" },
                { "type": "text", "text": "<system-reminder>again</system-reminder>" }] },
        ]);
    };
    // The reminder's "again" is not the user's.
    assert_eq!(ask("", &tool_round), "after the tool");
    assert_eq!(ask("", &tool_round), "main 2");
    assert_eq!(ask("hi", &|b| b["system"] = json!("You review code")), UNSCRIPTED);
}

/// One conversation as each API carries it.
fn conversations() -> [(&'static str, Value); 4] {
    let input = json!({ "command": "ls" });
    let anthropic = json!({ "system": [{ "type": "text", "text": "Be brief" }], "messages": [
        { "role": "user", "content": [{ "type": "text", "text": "list files" }] },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "hm", "signature": "x" },
            { "type": "text", "text": "I look" },
            { "type": "tool_use", "id": "id1", "name": "shell", "input": input }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "id1",
            "content": [{ "type": "text", "text": "a.txt" }] }] },
        { "role": "user", "content": "thanks" }] });
    let responses = json!({ "instructions": "Be brief", "input": [
        { "type": "message", "role": "user",
            "content": [{ "type": "input_text", "text": "list files" }] },
        { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "hm" }] },
        { "type": "message", "role": "assistant",
            "content": [{ "type": "output_text", "text": "I look" }] },
        { "type": "function_call", "call_id": "id1", "name": "shell",
            "arguments": input.to_string() },
        { "type": "function_call_output", "call_id": "id1", "output": "a.txt" },
        { "role": "user", "content": "thanks" }] });
    let chat = json!({ "messages": [
        { "role": "system", "content": "Be brief" },
        { "role": "user", "content": "list files" },
        { "role": "assistant", "reasoning_content": "hm", "content": "I look", "tool_calls": [
            { "id": "id1", "type": "function",
                "function": { "name": "shell", "arguments": input.to_string() } }] },
        { "role": "tool", "tool_call_id": "id1", "content": "a.txt" },
        { "role": "user", "content": [{ "type": "text", "text": "thanks" }] }] });
    let gemini = json!({ "systemInstruction": { "parts": [{ "text": "Be brief" }] }, "contents": [
        { "role": "user", "parts": [{ "text": "list files" }] },
        { "role": "model", "parts": [{ "text": "hm", "thought": true }, { "text": "I look" },
            { "functionCall": { "id": "id1", "name": "shell", "args": input } }] },
        { "role": "user", "parts": [{ "functionResponse": { "id": "id1", "name": "shell",
            "response": { "output": "a.txt" } } }] },
        { "role": "user", "parts": [{ "text": "thanks" }] }] });
    [(MESSAGES, anthropic), (RESPONSES, responses), (CHAT, chat), (GEMINI, gemini)]
}

#[test]
fn the_same_conversation_reads_the_same_in_every_api() {
    let server = one(Reply::text("ok").sticky());
    for (path, body) in conversations() {
        post(&server, path, &body);
    }
    let requests = server.requests();
    let apis: Vec<Api> = requests.iter().map(|r| r.api).collect();
    assert_eq!(apis, [Api::Anthropic, Api::Responses, Api::Chat, Api::Gemini]);
    for request in &requests {
        let messages = request.messages();
        assert_eq!(messages, requests[0].messages(), "{:?}", request.api);
        assert_eq!(request.texts(), ["list files", "I look", "a.txt", "thanks"]);
        assert_eq!(request.system(), "Be brief");
    }
    let messages = requests[0].messages();
    let roles: Vec<Role> = messages.iter().map(|m| m.role).collect();
    let (user, model) = (Role::User, Role::Assistant);
    assert_eq!(roles, [user, model, model, model, Role::Tool, user]);
    assert_eq!(messages[1].content, Content::Thinking("hm".into()));
    let call = Content::ToolCall {
        id: "id1".into(),
        name: "shell".into(),
        input: json!({ "command": "ls" }),
    };
    assert_eq!(messages[3].content, call);
    let result = Content::ToolResult { id: "id1".into(), output: "a.txt".into(), is_error: false };
    assert_eq!(messages[4].content, result);
}

#[test]
fn previous_responses_are_part_of_the_conversation() {
    let server = serve(Scenario::new().text("first answer").text("second answer"));
    let first = post(&server, RESPONSES, &responses("first", false)).json();
    let mut body = responses("second", false);
    body["previous_response_id"] = first["id"].clone();
    post(&server, RESPONSES, &body);
    assert_eq!(server.requests()[1].texts(), ["first", "first answer", "second"]);

    body["previous_response_id"] = json!("resp_of_someone_else");
    let got = post(&server, RESPONSES, &body);
    assert_eq!(got.status, 400);
    assert_eq!(got.json()["error"]["code"], "previous_response_not_found");
}

#[test]
fn tools_offered_are_listed() {
    let server = one(Reply::text("ok").sticky());
    let tools = [
        json!([{ "name": "a" }, { "name": "b" }]),
        json!([{ "type": "function", "name": "a" }, { "type": "namespace", "name": "mcp__crew",
            "tools": [{ "type": "function", "name": "b" }] }]),
        json!([{ "type": "function", "function": { "name": "a" } },
            { "type": "function", "function": { "name": "b" } }]),
        json!([{ "functionDeclarations": [{ "name": "a" }, { "name": "b" }] }]),
    ];
    for ((path, mut body), tools) in asks("hi", false).into_iter().zip(tools) {
        body["tools"] = tools;
        post(&server, path, &body);
    }
    assert_eq!(server.requests().len(), 4);
    for request in server.requests() {
        assert_eq!(request.tools(), ["a", "b"], "{:?}", request.api);
    }
}

#[test]
fn secrets_are_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("record.jsonl");
    let options = Options { port: 0, record: Some(record.clone()) };
    let server = ModelServer::start_with(Scenario::new().text("ok"), &options).unwrap();
    let secret = "hush-hush-1234";
    let url = format!("{}{GEMINI}?alt=json&key={secret}", server.url());
    let mut request = agent().post(url).header("x-harmless", "kept");
    for name in ["authorization", "x-api-key", "x-goog-api-key", "cookie"] {
        request = request.header(name, secret);
    }
    request.send(gemini("hi").to_string()).unwrap().body_mut().read_to_string().unwrap();
    let requests = server.stop();
    for name in ["authorization", "x-api-key", "x-goog-api-key", "cookie"] {
        assert_eq!(requests[0].headers[name], "present");
    }
    assert_eq!(requests[0].headers["x-harmless"], "kept");
    assert_eq!(requests[0].query.as_deref(), Some("alt=json&key=present"));
    let file = std::fs::read_to_string(&record).unwrap();
    assert!(file.contains("x-harmless") && !file.contains(secret), "{file}");
}

#[test]
fn the_record_file_tells_what_the_server_knows() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("record.jsonl");
    let options = Options { port: 0, record: Some(record.clone()) };
    let scenario = Scenario::new().text("ok").reply(Reply::text("cut me").failing(Fault::cut()));
    let server = ModelServer::start_with(scenario, &options).unwrap();
    post(&server, MESSAGES, &anthropic("hi", false));
    post(&server, CHAT, &chat("hi", true));
    post(&server, "/nothing", &json!("no object"));
    let requests = server.stop();
    assert_eq!(read_record(&record).unwrap(), requests);
    let ends: Vec<Delivery> = requests.iter().map(|r| r.delivery).collect();
    assert_eq!(ends, [Delivery::Complete, Delivery::Cut, Delivery::Complete]);
    assert_eq!(requests[2].purpose, Purpose::Unknown);
}

#[test]
fn waiting_for_what_does_not_come_fails() {
    let server = serve(Scenario::new());
    post(&server, "/nothing", &json!({}));
    let short = Duration::from_millis(10);
    assert_eq!(server.wait_for_requests(1, LONG).unwrap().len(), 1);
    let late = server.wait_for_turns(1, short).unwrap_err();
    assert_eq!(late.requests.len(), 1);
    assert!(late.to_string().contains("/nothing"), "{late}");
}

#[test]
fn two_servers_never_give_the_same_ids() {
    let (a, b) = (one(Reply::tool("x", json!({}))), one(Reply::tool("x", json!({}))));
    let ids = [&a, &b].map(|s| post(s, MESSAGES, &anthropic("hi", false)).json());
    assert_ne!(ids[0]["content"][0]["id"], ids[1]["content"][0]["id"]);
}
