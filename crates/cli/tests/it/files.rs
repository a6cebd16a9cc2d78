//! Runs as files of others: what they are taken for, what is refused, and what is found later.

use std::fs;

use segue_share::tine::{Artifact, Codec, json::Value as Document, write::pretty};
use segue_testkit::env::TestEnv;
use serde_json::json;

use crate::{
    replay::{ok, refused},
    support::{json as parsed, lines, scripted_in_git, segue},
};

const SAYS: &str = r#"
[[reply]]
text = "Mended."
usage = { input = 100, output = 10 }
repeat = true
"#;

/// A session with a prompt too long for a line, and its file, signed.
fn signed() -> TestEnv {
    let (env, model) = scripted_in_git(SAYS);
    ok(&env, &["run", &format!("Mend it. {}", "Please. ".repeat(700)), "--model", &model]);
    fs::write(env.path("secret"), "a secret of enough bytes, for tests").unwrap();
    let file = ["export", "1", "-o", "../good.tine", "--sign-with", "hmac", "--key-file"];
    ok(&env, &[&file[..], &["../secret"]].concat());
    env
}

/// The same file with another prompt and without the signature, which no digest notices.
fn twin(env: &TestEnv) {
    let plain = Artifact::open(&env.path("good.tine")).unwrap().to_bytes(Codec::Plain);
    let Ok(Document::Map(mut run)) = Document::read(&plain) else { panic!("no document") };
    let Some(Document::Map(metadata)) = run.get_mut("metadata") else { panic!("no metadata") };
    metadata.insert("user_prompt".to_owned(), "Break it.".into());
    let Some(Document::Map(integrity)) = metadata.get_mut("integrity") else { panic!("no digest") };
    integrity.remove("signature");
    fs::write(env.path("evil.tine"), pretty(&run.into())).unwrap();
}

/// How what was asked begins.
fn prompt(env: &TestEnv, number: u64) -> String {
    let file = env.session_dir(number).unwrap().join("session.json");
    let prompt = parsed(&fs::read_to_string(file).unwrap())["prompt"].take();
    let text = prompt["text"].as_str().or(prompt["head"].as_str());
    text.unwrap().chars().take(20).collect()
}

#[test]
fn a_signature_is_never_said_of_what_it_does_not_cover() {
    let env = signed();
    twin(&env);
    ok(&env, &["verify", "../evil.tine"]);
    ok(&env, &["import", "../evil.tine"]);
    let trusted = ["import", "../good.tine", "--require-signature", "--key-file", "../secret"];
    let taken = parsed(&ok(&env, &[&["--json"], &trusted[..]].concat()).stdout);
    assert_eq!((&taken["signature"], &taken["was_there"]), (&json!("verified"), &json!(false)));
    assert_eq!(taken["session"], "3");
    assert_eq!(prompt(&env, 2), "Break it.");
    assert!(prompt(&env, 3).starts_with("Mend it."));
    // Each is told again as it came.
    ok(&env, &["export", "3", "-o", "../again.tine"]);
    ok(&env, &["verify", "../again.tine", "--require-signature", "--key-file", "../secret"]);
    ok(&env, &["export", "2", "-o", "../other.tine"]);
    assert_eq!(segue(&env, &["verify", "../other.tine", "--require-signature"]).status, 1);
}

#[test]
fn a_document_that_was_changed_since_is_found() {
    let env = signed();
    ok(&env, &["import", "../good.tine"]);
    ok(&env, &["verify", "2"]);
    ok(&env, &["replay", "2", "--verify"]);
    let dir = env.session_dir(2).unwrap();
    let identity = parsed(&fs::read_to_string(dir.join("session.json")).unwrap());
    let hash = identity["origin"]["blob"].as_str().unwrap();
    let blob = dir.join("blobs").join(&hash[..2]).join(&hash[2..]);
    let mut bytes = fs::read(&blob).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&blob, bytes).unwrap();
    for args in [&["verify", "2"][..], &["replay", "2", "--verify"]] {
        let output = segue(&env, args);
        assert_eq!(output.status, 1, "{args:?}: {}", output.stdout);
    }
    assert_eq!(segue(&env, &["export", "2", "-o", "../x.tine"]).status, 1);
    assert!(!env.path("x.tine").exists());
}

#[test]
fn what_is_verified_is_also_taken_in() {
    let (env, _) = scripted_in_git(SAYS);
    let step = |id: &str, kind: &str, text: &str| json!({"id": id, "kind": kind, "inputs": {"text": text}, "outputs": {}, "timestamp": 1.5});
    let list = json!({
        "type": "Run", "id": "old", "status": "completed", "created_at": 1.5,
        "user_prompt": "Mend it", "steps": [step("a", "think", "Hm."), step("b", "done", "Mended.")],
    });
    fs::write(env.path("old.json"), list.to_string()).unwrap();
    let output = ok(&env, &["verify", "../old.json"]);
    assert!(output.stdout.contains("nothing to check it by"), "{}", output.stdout);
    ok(&env, &["import", "../old.json"]);
    assert_eq!(prompt(&env, 1), "Mend it");
    // And it becomes a file that has something.
    ok(&env, &["export", "1", "-o", "../new.tine"]);
    let output = ok(&env, &["verify", "../new.tine"]);
    assert!(!output.stdout.contains("nothing to check it by"), "{}", output.stdout);
}

#[test]
fn spans_are_a_session_that_was_asked_something_or_nothing() {
    let (env, _) = scripted_in_git(SAYS);
    let span = |id: &str, name: &str, attributes: serde_json::Value| {
        json!({"traceId": "aa", "spanId": id, "name": name, "attributes": attributes,
            "startTimeUnixNano": format!("17634000{id}000000000")})
    };
    let say = |role: &str, text: &str| json!([{"role": role, "parts": [{"type": "text", "content": text}]}]);
    let around = span("01", "invoke_agent bot", json!({"gen_ai.operation.name": "invoke_agent"}));
    let chat = |messages: serde_json::Value| span("02", "chat m", messages);
    let write = |name: &str, spans: &[&serde_json::Value]| {
        let document = json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]});
        fs::write(env.path(name), document.to_string()).unwrap();
    };
    let silent = chat(json!({"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": 3}));
    write("silent.json", &[&around, &silent]);
    let output = segue(&env, &["import", "../silent.json"]);
    assert_eq!(output.status, 1, "{}", output.stderr);
    assert!(output.stderr.contains("does not say what was asked"), "{}", output.stderr);
    assert!(!env.home().join("numbers").join("1").exists());
    let asked = say("user", "Does it rain?");
    let told =
        json!({"gen_ai.input.messages": asked, "gen_ai.output.messages": say("assistant", "Yes.")});
    write("spans.json", &[&around, &chat(told)]);
    ok(&env, &["import", "../spans.json"]);
    assert_eq!(prompt(&env, 1), "Does it rain?");
    let steps = lines(&ok(&env, &["log", "1", "--steps", "--json"]).stdout);
    let told = |step: &serde_json::Value| format!("{}: {}", step["kind"], step["title"]);
    let told: Vec<String> = steps.iter().map(told).collect();
    assert_eq!(told, [r#""prompt": "Does it rain?""#, r#""reply": "Yes.""#]);
    // Nobody of ours has done it, and so nobody of ours is answered by it or goes on unasked.
    refused(&env, &["replay", "1", "--continue"], &["session 1 is by otel"]);
    let output = segue(&env, &["fork", "1", "Go on"]);
    assert_eq!(output.status, 127, "{}", output.stderr);
    assert!(output.stderr.contains("--with AGENT"), "{}", output.stderr);
    ok(&env, &["fork", "1", "Go on", "--with", "exec:echo Done."]);
}

#[test]
fn a_model_whose_name_is_no_name_of_ours_keeps_nobody_from_going_on() {
    let (env, model) = scripted_in_git(SAYS);
    let run = json!({
        "type": "Run", "id": "old", "status": "completed", "created_at": 1_763_400_000.25,
        "model_info": "m-0", "system_prompt": "", "user_prompt": "What is in a.txt?",
        "metadata": {}, "steps": [
            {"type": "Step", "id": "375a4707c485", "parent_id": null, "kind": "think",
             "inputs": {"text": "I look."}, "outputs": {}, "model_info": "m-0",
             "timestamp": 1_763_400_001.5, "duration": 0.0, "cost": 0.0},
            {"type": "Step", "id": "3acd0a5d0e6a", "parent_id": "375a4707c485", "kind": "done",
             "inputs": {"text": "It is 42."}, "outputs": {}, "model_info": "m-0",
             "timestamp": 1_763_400_003.5, "duration": 0.0, "cost": 0.0012},
        ],
    });
    fs::write(env.path("old.tine"), run.to_string()).unwrap();
    ok(&env, &["import", "../old.tine"]);
    ok(&env, &["config", "set", "model", &model]);
    ok(&env, &["fork", "1", "Go on"]);
    ok(&env, &["replay", "1", "--mode", "rerun", "--agent", "native"]);
    ok(&env, &["compare", "1", "--agents", "native"]);
    // One that a person names is not passed over.
    refused(&env, &["fork", "1", "Go on", "--model", "m-0"], &["--model anthropic/"]);
}
