use serde_json::{Value as Json, json};

use super::*;

/// A span with plain attributes: name, parent, when it began and ended.
fn span(id: &str, parent: &str, name: &str, at: (u64, u64), attributes: &Json) -> Json {
    let attributes = attributes.as_object().unwrap().iter().map(|(key, value)| {
        let value = match value {
            Json::String(text) => json!({"stringValue": text}),
            Json::Number(number) => json!({"intValue": number.to_string()}),
            other => json!({"stringValue": other.to_string()}),
        };
        json!({"key": key, "value": value})
    });
    json!({
        "traceId": "aa", "spanId": id, "parentSpanId": parent, "name": name,
        "startTimeUnixNano": format!("17634000{:02}000000000", at.0),
        "endTimeUnixNano": format!("17634000{:02}000000000", at.1),
        "attributes": attributes.collect::<Vec<_>>(),
    })
}

fn said(role: &str, text: &str) -> Json {
    json!({"role": role, "parts": [{"type": "text", "content": text}]})
}

fn call(id: &str, name: &str) -> Json {
    json!({"type": "tool_call", "id": id, "name": name, "arguments": {"city": "Paris"}})
}

fn read(spans: &[Json]) -> Result<Artifact, String> {
    let document = json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]});
    artifact(document.to_string().as_bytes())
}

fn chat(id: &str, at: (u64, u64), asked: &Json, said: &Json) -> Json {
    let attributes = json!({
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1",
        "gen_ai.input.messages": asked, "gen_ai.output.messages": said,
    });
    span(id, "01", "chat m-1", at, &attributes)
}

fn root() -> Json {
    let attributes = json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bot"});
    span("01", "", "invoke_agent bot", (0, 9), &attributes)
}

fn prompt(artifact: &Artifact) -> &str {
    artifact.section("metadata").get("user_prompt").and_then(Value::text).unwrap()
}

fn agent(artifact: &Artifact) -> &str {
    artifact.section("manifest").get("agent").and_then(Value::text).unwrap()
}

/// Kind and words of each step, calls and results included.
fn told(artifact: &Artifact) -> Vec<String> {
    let steps = artifact.steps().map(|(_, step)| {
        let said = |section: &str, key: &str| {
            let found = step.get(section).and_then(|section| section.get(key));
            found.map(messages::words).unwrap_or_default()
        };
        let kind = step.get("kind").and_then(Value::text).unwrap();
        let words = match kind {
            "tool" => {
                let (name, arguments) = (said("inputs", "name"), said("inputs", "arguments"));
                format!("{name} {arguments} -> {}", said("outputs", "result"))
            }
            "error" => said("error", "message"),
            _ => format!("{}{}", said("outputs", "text"), said("outputs", "tool_calls")),
        };
        format!("{kind}: {words}")
    });
    steps.collect()
}

/// What a person and the agent say in turn, as the transcript has it.
fn conversation(artifact: &Artifact) -> Vec<String> {
    let items = artifact.run.get("transcript").and_then(Value::list).unwrap();
    let said = |item: &Value, key: &str| item.get(key).map(messages::words).unwrap_or_default();
    items.iter().map(|item| format!("{}: {}", said(item, "role"), said(item, "content"))).collect()
}

const CALL: &str = r#"[{"arguments":{"city":"Paris"},"id":"c1","name":"weather"}]"#;

#[test]
fn a_standard_trace_tells_what_was_asked_and_done() {
    let question = said("user", "Does it rain in Paris?");
    let looks = json!({"role": "assistant", "parts": [
        {"type": "reasoning", "content": "hm"}, {"type": "text", "content": "I look."}, call("c1", "weather"),
    ]});
    let answer = json!({"role": "tool", "parts": [
        {"type": "tool_call_response", "id": "c1", "response": "rainy"},
    ]});
    let tool = span(
        "03",
        "01",
        "execute_tool weather",
        (3, 4),
        &json!({
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather",
            "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": "rainy",
            "gen_ai.tool.call.arguments": {"city": "Paris"},
        }),
    );
    let http = span("09", "02", "POST", (1, 2), &json!({"http.request.method": "POST"}));
    let mut first =
        chat("02", (1, 2), &json!([said("system", "Be brief."), question]), &json!([looks]));
    let counted = json!({"key": "gen_ai.usage.input_tokens", "value": {"intValue": "100"}});
    first["attributes"].as_array_mut().unwrap().push(counted);
    let second =
        chat("04", (5, 6), &json!([question, looks, answer]), &json!([said("assistant", "Yes.")]));
    // As another one may write them: not in the order of time.
    let run = read(&[second, tool, root(), http, first]).unwrap();
    assert_eq!(prompt(&run), "Does it rain in Paris?");
    assert_eq!(agent(&run), "bot");
    assert_eq!(
        told(&run),
        [
            format!("model: I look.{CALL}"),
            r#"tool: weather {"city":"Paris"} -> rainy"#.to_owned(),
            "model: Yes.".to_owned()
        ]
    );
    let metadata = |key: &str| run.section("metadata").get(key).and_then(Value::text);
    assert_eq!(metadata("system_prompt"), Some("Be brief."));
    assert_eq!((run.status(), metadata("model_info")), ("completed", Some("m-1")));
    let (_, first) = run.steps().next().unwrap();
    assert_eq!(first.get("outputs").and_then(|said| said.get("thinking")), Some(&"hm".into()));
    assert_eq!(first.get("usage").and_then(|usage| usage.get("input")), Some(&100u64.into()));
    // Each follows from the one before it.
    let ids: Vec<&str> = run.steps().map(|(id, _)| id).collect();
    for (at, (_, step)) in run.steps().enumerate() {
        let parents: Vec<Value> = ids[..at].last().map(|id| (*id).into()).into_iter().collect();
        assert_eq!(step.get("parent_ids"), Some(&Value::List(parents)), "{at}");
    }
    assert!(run.findings().is_empty() && !run.can_be_resumed());
}

#[test]
fn what_a_person_says_later_is_asked_where_it_was() {
    let (a, b) = (said("user", "One"), said("assistant", "1"));
    let again = said("user", "One");
    let last = said("user", "Two");
    let run = read(&[
        root(),
        chat("02", (1, 2), &json!([a]), &json!([b])),
        chat("03", (3, 4), &json!([a, b, again]), &json!([said("assistant", "1 again")])),
        chat(
            "04",
            (5, 6),
            &json!([a, b, again, said("assistant", "1 again"), last]),
            &json!([said("assistant", "2")]),
        ),
    ]);
    let run = run.unwrap();
    assert_eq!(
        conversation(&run),
        [
            "user: One",
            "assistant: 1",
            "user: One",
            "assistant: 1 again",
            "user: Two",
            "assistant: 2"
        ]
    );
    assert_eq!(told(&run), ["model: 1", "model: 1 again", "model: 2"]);
}

#[test]
fn what_came_before_the_first_span_is_told_and_answers_without_a_span_too() {
    let calls = json!({"role": "assistant", "parts": [call("c1", "weather")]});
    let answer = json!({"role": "tool", "parts": [
        {"type": "tool_call_response", "id": "c1", "response": {"sky": "grey"}},
    ]});
    let before = json!([said("user", "Hello"), said("assistant", "Hi"), said("user", "Rain?")]);
    let run = read(&[
        chat("02", (1, 2), &before, &json!([calls])),
        chat(
            "03",
            (3, 4),
            &json!([said("user", "Hello"), calls, answer]),
            &json!([said("assistant", "Yes")]),
        ),
    ]);
    let run = run.unwrap();
    assert_eq!(prompt(&run), "Hello");
    assert_eq!(
        told(&run),
        [
            "model: Hi".to_owned(),
            format!("model: {CALL}"),
            r#"tool: weather {"city":"Paris"} -> {"sky":"grey"}"#.to_owned(),
            "model: Yes".to_owned(),
        ]
    );
}

#[test]
fn every_shape_of_messages_is_read() {
    let events = |events: &[Json]| {
        let mut span = span("02", "", "chat", (1, 2), &json!({"gen_ai.operation.name": "chat"}));
        span["events"] = events.to_vec().into();
        span
    };
    let event = |name: &str, attributes: &Json| json!({"name": name, "attributes": attributes});
    let tool_calls = json!([{"id": "c1", "type": "function",
        "function": {"name": "weather", "arguments": {"city": "Paris"}}}]);
    for span in [
        // A list as text, a list as a list.
        span(
            "02",
            "",
            "chat",
            (1, 2),
            &json!({
                "gen_ai.input.messages": [{"role": "user", "content": "Ask"}],
                "gen_ai.output.messages": [{"role": "assistant", "content": [{"type": "text", "text": "Say"}], "tool_calls": tool_calls}],
            }),
        ),
        events(&[event(
            "gen_ai.client.inference.operation.details",
            &json!({
                "gen_ai.input.messages": [said("user", "Ask")],
                "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "Say"}, call("c1", "weather")]}],
            }),
        )]),
        events(&[
            event("gen_ai.user.message", &json!({"content": "Ask"})),
            event(
                "gen_ai.choice",
                &json!({"index": 0, "message": {"content": "Say", "tool_calls": tool_calls}}),
            ),
        ]),
        events(&[
            event("gen_ai.user.message", &json!({"gen_ai.event.content": "{\"content\":\"Ask\"}"})),
            event(
                "gen_ai.choice",
                &json!({"gen_ai.event.content": json!({"message": {"role": "assistant"}, "content": "Say", "tool_calls": tool_calls}).to_string()}),
            ),
        ]),
        span(
            "02",
            "",
            "chat",
            (1, 2),
            &json!({
                "gen_ai.prompt": [{"role": "user", "content": "Ask"}],
                "gen_ai.completion": [{"content": "Say", "tool_calls": tool_calls}],
            }),
        ),
        span(
            "02",
            "",
            "chat",
            (1, 2),
            &json!({
                "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Ask",
                "gen_ai.completion.0.content": "Say", "gen_ai.completion.0.tool_calls": tool_calls,
            }),
        ),
    ] {
        let run = read(std::slice::from_ref(&span)).unwrap();
        assert_eq!(
            (prompt(&run), told(&run)),
            ("Ask", vec![format!("model: Say{CALL}")]),
            "{span}"
        );
    }
    let text = json!({"gen_ai.prompt": "Ask", "gen_ai.completion": "Say"});
    let run = read(&[span("02", "", "chat", (1, 2), &text)]).unwrap();
    assert_eq!((prompt(&run), told(&run)), ("Ask", vec!["model: Say".to_owned()]));
}

#[test]
fn an_agent_whose_models_nobody_watched_speaks_for_itself_in_the_end() {
    let agent = span(
        "01",
        "",
        "invoke_agent bot",
        (0, 9),
        &json!({
            "gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": [said("user", "Go")],
            "gen_ai.output.messages": [said("assistant", "Gone.")],
        }),
    );
    let tool =
        span("02", "01", "execute_tool walk", (1, 2), &json!({"gen_ai.tool.call.result": "far"}));
    let run = read(&[agent, tool]).unwrap();
    assert_eq!(told(&run), ["tool: walk {} -> far", "model: Gone."]);
    assert_eq!(conversation(&run), ["user: Go", "tool: far", "assistant: Gone."]);
}

#[test]
fn what_failed_says_why() {
    let asked = json!([said("user", "Go")]);
    let mut failed = chat("02", (1, 2), &asked, &json!([]));
    failed["status"] = json!({"code": 2, "message": "no answer"});
    let mut above = root();
    above["status"] = json!({"code": "STATUS_CODE_ERROR"});
    let run = read(&[above.clone(), failed]).unwrap();
    assert_eq!((run.status(), told(&run)), ("failed", vec!["error: no answer".to_owned()]));
    // Where only the whole of it failed, that is what is told.
    above["events"] =
        json!([{"name": "exception", "attributes": {"exception.message": "out of time"}}]);
    let run =
        read(&[above, chat("02", (1, 2), &asked, &json!([said("assistant", "Well,")]))]).unwrap();
    assert_eq!(
        (run.status(), told(&run)),
        ("failed", vec!["model: Well,".to_owned(), "error: out of time".to_owned()])
    );
}

#[test]
fn spans_that_do_not_say_what_was_asked_are_refused() {
    let silent = span(
        "02",
        "01",
        "chat m-1",
        (1, 2),
        &json!({
            "gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": 3,
        }),
    );
    let blank = chat("02", (1, 2), &json!([said("user", " ")]), &json!([said("assistant", "Yes")]));
    for spans in [&[root(), silent][..], &[root()], &[blank]] {
        let refused = read(spans).unwrap_err();
        assert!(refused.contains("does not say what was asked"), "{refused}");
    }
    assert!(read(&[]).unwrap_err().contains("no spans"));
}

#[test]
fn the_same_twice_from_the_same_place_is_twice() {
    let parts = json!([{"role": "assistant", "parts": [call("c1", "look"), call("c2", "look")]}]);
    let tool = |id: &str| {
        span(
            id,
            "02",
            "execute_tool look",
            (3, 4),
            &json!({"gen_ai.tool.name": "look", "gen_ai.tool.call.result": "x"}),
        )
    };
    let run =
        read(&[chat("02", (1, 2), &json!([said("user", "Go")]), &parts), tool("03"), tool("04")])
            .unwrap();
    assert_eq!(told(&run).len(), 3);
}

#[test]
fn spans_in_a_circle_end() {
    let chats = ["01", "02"].map(|id| {
        let above = if id == "01" { "02" } else { "01" };
        let asked = json!({"gen_ai.input.messages": [said("user", "Go")], "gen_ai.output.messages": [said("assistant", id)]});
        span(id, above, "chat", (1, 2), &asked)
    });
    assert_eq!(told(&read(&chats).unwrap()), ["model: 01", "model: 02"]);
}

#[test]
fn who_worked_is_said_and_is_never_taken_for_ours() {
    let named = |name: Option<&str>| {
        let asked = json!([said("user", "Go")]);
        let mut chat = chat("02", (1, 2), &asked, &json!([said("assistant", "Gone.")]));
        if let Some(name) = name {
            let key = json!({"key": "gen_ai.agent.name", "value": {"stringValue": name}});
            chat["attributes"].as_array_mut().unwrap().push(key);
        }
        agent(&read(&[chat]).unwrap()).to_owned()
    };
    let names = [None, Some("bot"), Some(" "), Some("exec:rm -rf ~")];
    assert_eq!(names.map(named), ["otel", "bot", "otel", "otel"]);
}
