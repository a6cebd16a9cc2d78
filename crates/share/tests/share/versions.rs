//! Files of earlier versions of the format, and traces of others, as sessions.

use segue_share::{
    foreign::Demand,
    tine::{Artifact, Codec},
};
use serde_json::json;

use crate::{
    artifacts::{bring, session, steps, told},
    support::home,
};

const V1: &[u8] = include_bytes!("files/v1.tine");

#[test]
fn a_file_of_version_1_is_checked_and_read() {
    let tmp = tempfile::tempdir().unwrap();
    let home = home(tmp.path());
    let file = Artifact::read(V1.to_vec()).unwrap();
    assert_eq!((file.version, file.findings().len()), (1, 0));
    let (taken, _) = bring(V1, &home, &Demand::default()).unwrap();
    let made = session(&home, &taken);
    assert!(!taken.sealed);
    assert_eq!(
        steps(&made),
        [
            "1 prompt: What is in a.txt?",
            // Whose calls were not told yet: the answers are.
            r#"1 reply: I look. | read#tine-1 {"path":"a.txt"}"#,
            "1 tool: read#tine-1 -> 42",
            "1 reply: It is 42.",
        ]
    );
    assert_eq!(told(&made, tmp.path()).to_bytes(Codec::Plain), V1.trim_ascii_end());
    let changed = String::from_utf8(V1.to_vec()).unwrap().replace("\"42\"", "\"43\"");
    bring(changed.as_bytes(), &home, &Demand::default()).unwrap_err();
}

/// The list of steps that the very first version was: short ids, one parent each, no digest.
fn linear() -> serde_json::Value {
    json!({
        "type": "Run", "id": "old", "status": "completed", "created_at": 1_763_400_000.25,
        "model_info": "m-0", "system_prompt": "", "user_prompt": "What is in a.txt?", "metadata": {},
        "steps": [
            {"type": "Step", "id": "375a4707c485", "parent_id": null, "kind": "think",
             "inputs": {"text": "I look."}, "outputs": {}, "model_info": "m-0",
             "timestamp": 1_763_400_001.5, "duration": 0.0, "cost": 0.0},
            {"type": "Step", "id": "b64d0ca6a6dc", "parent_id": "375a4707c485", "kind": "tool",
             "inputs": {"name": "read", "arguments": {"path": "a.txt"}}, "outputs": {"result": "42"},
             "model_info": "m-0", "timestamp": 1_763_400_002.5, "duration": 0.0, "cost": 0.0},
            {"type": "Step", "id": "3acd0a5d0e6a", "parent_id": "b64d0ca6a6dc", "kind": "done",
             "inputs": {"text": "It is 42."}, "outputs": {}, "model_info": "m-0",
             "timestamp": 1_763_400_003.5, "duration": 0.0, "cost": 0.0012},
        ],
    })
}

#[test]
fn a_list_of_steps_is_read_and_becomes_a_file_that_can_be_checked() {
    let tmp = tempfile::tempdir().unwrap();
    let home = home(tmp.path());
    let file = Artifact::read(linear().to_string().into_bytes()).unwrap();
    assert_eq!(file.version, 0);
    // There is nothing to check it by, which speaks against nothing.
    let findings = file.findings();
    assert!(findings.len() == 1 && !findings[0].is_wrong(), "{findings:?}");
    let (taken, _) = bring(linear().to_string().as_bytes(), &home, &Demand::default()).unwrap();
    let made = session(&home, &taken);
    assert_eq!(
        steps(&made),
        [
            "1 prompt: What is in a.txt?",
            r#"1 reply: I look. | read#tine-1 {"path":"a.txt"}"#,
            "1 tool: read#tine-1 -> 42",
            "1 reply: It is 42.",
        ]
    );
    // A list of steps says nothing of resuming.
    assert!(taken.sealed);
    let told = told(&made, tmp.path());
    assert_eq!((told.version, told.run_id()), (2, "old"));
    assert!(told.findings().is_empty());
    let ids: Vec<&str> = told.steps().map(|(id, _)| id).collect();
    assert_eq!(ids, file.steps().map(|(id, _)| id).collect::<Vec<_>>());
    let demand = Demand { signed: true, ..Demand::default() };
    bring(linear().to_string().as_bytes(), &home, &demand).unwrap_err();
}

#[test]
fn a_trace_of_others_is_a_session_that_was_asked_something() {
    let message = |role: &str, text: &str| json!([{"role": role, "parts": [{"type": "text", "content": text}]}]);
    let span = |id: &str, name: &str, at: u64, attributes: serde_json::Value| {
        let parent = if id == "01" { "" } else { "01" };
        json!({"traceId": "aa", "spanId": id, "parentSpanId": parent, "name": name, "attributes": attributes,
            "startTimeUnixNano": format!("176340000{at}000000000"), "endTimeUnixNano": format!("176340000{}000000000", at + 1)})
    };
    let call = json!([{"role": "assistant", "parts": [{"type": "text", "content": "I look."},
        {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Paris"}}]}]);
    let spans = json!({"resourceSpans": [{"scopeSpans": [{"spans": [
        span("01", "invoke_agent bot", 0, json!({"gen_ai.operation.name": "invoke_agent"})),
        span("02", "chat m", 1, json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": message("user", "Does it rain?"), "gen_ai.output.messages": call})),
        span("03", "execute_tool weather", 3, json!({"gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": "rainy"})),
        span("04", "chat m", 5, json!({"gen_ai.operation.name": "chat", "gen_ai.output.messages": message("assistant", "Yes.")})),
    ]}]}]});
    let tmp = tempfile::tempdir().unwrap();
    let home = home(tmp.path());
    let (taken, _) = bring(spans.to_string().as_bytes(), &home, &Demand::default()).unwrap();
    let made = session(&home, &taken);
    assert_eq!(
        made.text(&made.state().identity.as_ref().unwrap().prompt).unwrap(),
        "Does it rain?"
    );
    assert_eq!(
        steps(&made),
        [
            "1 prompt: Does it rain?",
            r#"1 reply: I look. | weather#c1 {"city":"Paris"}"#,
            "1 tool: weather#c1 -> rainy",
            "1 reply: Yes.",
        ]
    );
    assert!(taken.sealed);
    assert_eq!(made.state().agent(), "otel");
}
