//! The Agent Client Protocol, with what real agents said and what was really said to them.
//!
//! Each file in `streams/acp` is one whole conversation between the adapter and an agent, in both
//! directions: claude-agent-acp 0.99.1, codex-acp 2.6.0, OpenCode 1.18.33, Gemini CLI 0.61.0,
//! Copilot CLI 1.0.102 and Qwen Code 0.24.4, against the scripted model server. The working
//! directory is `/w`, and lists were shortened.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

use std::{collections::VecDeque, path::Path};

use segue_agents::{
    report,
    vendor::{
        Conversation, Dialogue, Ending, Heard, Job, SignIn, Signal, ToolServer, Trouble, Vendor,
        World, acp::Acp,
    },
};
use segue_core::Permission;
use serde_json::{Value, json};

fn recorded(name: &str) -> Vec<Value> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams/acp");
    let text = std::fs::read_to_string(dir.join(format!("{name}.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What was said to the agent under a method.
fn said<'a>(lines: &'a [Value], method: &str) -> Option<&'a Value> {
    let found = lines.iter().find(|line| line["to"]["method"] == method)?;
    Some(&found["to"]["params"])
}

fn job<'a>(world: &'a World, prompt: &'a str, conversation: Conversation<'a>) -> Job<'a> {
    Job {
        prompt,
        cwd: Path::new("/w"),
        conversation,
        permission: Permission::Edit,
        model: None,
        extra: &[],
        world,
        files: Path::new("/f"),
        tools: None,
    }
}

/// Plays a conversation again: the adapter has to say the same at the same moments. Gives what it
/// understood.
fn played(name: &str, permission: Permission, model: Option<&str>) -> Vec<String> {
    let lines = recorded(name);
    let id = |method| Some(said(&lines, method)?["sessionId"].as_str().unwrap().to_owned());
    let (resumed, forked) =
        (id("session/resume").or_else(|| id("session/load")), id("session/fork"));
    let conversation = match (&resumed, &forked) {
        (Some(id), _) => Conversation::Resume { id },
        (_, Some(from)) => Conversation::Fork { from, id: "ours", at: None },
        _ => Conversation::New { id: "ours" },
    };
    let prompt = said(&lines, "session/prompt");
    let prompt = prompt.map_or("", |params| params["prompt"][0]["text"].as_str().unwrap());
    let world = World::default();
    let job = Job { permission, model, ..job(&world, prompt, conversation) };
    replay(Acp::new("agent").dialogue(&job).as_mut(), &lines)
}

fn replay(dialogue: &mut dyn Dialogue, lines: &[Value]) -> Vec<String> {
    let opening = dialogue.open();
    assert!(!opening.close);
    let mut saying = parsed(&opening.bytes);
    let mut closed = false;
    let mut signals = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let mut heard = Heard::default();
        if let Some(mut expected) = line.get("to").cloned() {
            let mut said = saying.pop_front().unwrap_or_else(|| panic!("{at}: said nothing"));
            for one in [&mut said, &mut expected] {
                if let Some(version) = one.pointer_mut("/params/clientInfo/version") {
                    *version = Value::Null;
                }
            }
            assert_eq!(said, expected, "line {at}");
        } else if let Some(from) = line.get("from") {
            assert!(saying.is_empty(), "line {at}: it said more: {saying:?}");
            dialogue.line(from.to_string().as_bytes(), &mut heard).unwrap();
        } else if line.get("cancel").is_some() {
            dialogue.cancel(&mut heard);
        } else {
            assert!(closed, "line {at}: its input is still open");
        }
        closed |= heard.close;
        saying.extend(parsed(&heard.say));
        signals.extend(heard.signals.iter().filter_map(shown));
    }
    assert!(saying.is_empty() && closed);
    signals
}

fn parsed(bytes: &[u8]) -> VecDeque<Value> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// A signal in a line. Pieces are left out: their sum is asserted as the text.
fn shown(signal: &Signal) -> Option<String> {
    Some(match signal {
        Signal::Thinking | Signal::Writing(_) | Signal::Version(_) => return None,
        Signal::Session(_) => "session".to_owned(),
        Signal::Model(model) => format!("model {model}"),
        Signal::Text(text) => format!("text {text}"),
        Signal::Thought(text) => format!("thought {text}"),
        Signal::Notice(text) => format!("notice {text}"),
        Signal::ToolCalled { name, input, .. } => format!("called {name} {input}"),
        Signal::ToolReturned(end) => {
            let exit = end.exit.map_or(String::new(), |exit| format!(" {exit}"));
            format!("returned {:?}{exit} {:?} {:?}", end.status, end.output, end.touched)
        }
        Signal::Used { model, usage: one, cost: None } => format!(
            "used {} {}+{}+{} {}+{}",
            model.as_deref().unwrap_or("-"),
            one.input,
            one.cache_read,
            one.cache_write,
            one.output,
            one.reasoning
        ),
        Signal::Cost(cost) => format!("cost {}", cost.0),
        Signal::Retrying { trouble, .. } => format!("retrying {}", kind(trouble)),
        Signal::Ended(Ending::Failed(trouble)) => format!("failed {}", kind(trouble)),
        Signal::Ended(ending) => format!("{ending:?}"),
        other => format!("{other:?}"),
    })
}

fn kind(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Limit { quota: true, .. } => "quota".to_owned(),
        Trouble::Limit { quota: false, .. } => "limit".to_owned(),
        Trouble::Server { status, .. } => format!("server {status}"),
        Trouble::BadRequest { status, .. } => format!("request {status}"),
        Trouble::StreamCut(_) => "cut".to_owned(),
        Trouble::ContextExhausted(_) => "context".to_owned(),
        Trouble::NotSignedIn { .. } => "not signed in".to_owned(),
        Trouble::SessionGone(id) => format!("gone {id}"),
        other => format!("{other:?}"),
    }
}

const EDIT: Permission = Permission::Edit;
const FULL: Permission = Permission::Full;
const READ: Permission = Permission::ReadOnly;
const NOBODY: &str = "failed gone 00000000-1111-4222-8333-444444444444";
const CODEX_WARNS: &str = "notice Model metadata for `scripted-model` not found. Defaulting to \
                           fallback metadata; this can degrade performance and cause issues.";

#[test]
fn a_plain_answer() {
    assert_eq!(
        played("claude-text", EDIT, None),
        [
            "session",
            "thought Let me think.",
            "used claude-opus-5-5 11+100+20 10+0",
            "cost 364",
            "text Hello from the model.",
            "Finished",
        ]
    );
    assert_eq!(
        played("codex-text", EDIT, None),
        [
            "session",
            "model scripted-model",
            CODEX_WARNS,
            "thought \n\nLet me think.",
            "used scripted-model 11+100+20 7+3",
            "text Hello from the model.",
            "Finished",
        ]
    );
    assert_eq!(
        played("copilot-text", EDIT, None),
        [
            "session",
            "thought Let me think.",
            "used - 11+100+20 7+3",
            "text Hello from the model.",
            "Finished",
        ]
    );
    assert_eq!(
        played("gemini-text", FULL, None),
        [
            "session",
            "model gemini-2.5-flash",
            "thought ****\nLet me****\nthink****\n.",
            "used gemini-2.5-flash 131+0+0 7+0",
            "text Hello from the model.",
            "Finished",
        ]
    );
}

#[test]
fn a_resumed_session_edits_in_its_workspace() {
    assert_eq!(
        played("claude-resume-write", EDIT, None),
        [
            "session",
            "text I will write. ",
            r#"called Write {"file_path":"/w/new.txt","content":"hello\n"}"#,
            "returned Done \"File created successfully at: /w/new.txt (file state is current in your \
         context — no need to Read it back)\" [\"/w/new.txt\"]",
            "used claude-opus-5-5 22+0+0 14+0",
            "text (the scenario has no more replies)",
            "Finished",
        ]
    );
    assert_eq!(
        played("opencode-resume-write", EDIT, None),
        [
            "session",
            "model lab/scripted-model",
            "text I will write. ",
            r#"called edit {"content":"hello\n","filePath":"/w/new.txt"}"#,
            r#"returned Done "Wrote file successfully." ["/w/new.txt"]"#,
            "used - 11+0+0 7+0",
            "text The tool ran.",
            "Finished",
        ]
    );
    // It tells the tokens of each call.
    assert_eq!(
        played("qwen-resume-write", EDIT, None),
        [
            "session",
            "model $runtime|openai|scripted-model(openai)",
            "text I will write. ",
            "used - 11+0+0 7+0",
            r#"called write_file {"content":"hello\n","file_path":"/w/new.txt"}"#,
            r#"returned Done "" ["/w/new.txt"]"#,
            "used - 11+0+0 7+0",
            "text The tool ran.",
            "Finished",
        ]
    );
    // The model was asked for, and the change asked about.
    assert_eq!(
        played("codex-patch-edit", EDIT, Some("gpt-5.5")),
        [
            "session",
            "model gpt-5.5",
            r#"called edit {"title":"Editing files","paths":["/w/new.txt"]}"#,
            r#"returned Done "" ["/w/new.txt"]"#,
            "used gpt-5.5 22+0+0 14+0",
            "text The tool ran.",
            "Finished",
        ]
    );
    assert_eq!(
        played("gemini-new-write", EDIT, None),
        [
            "session",
            "model gemini-2.5-flash",
            "text I will write. ",
            r#"called edit {"title":"Writing to new.txt","paths":["/w/new.txt"]}"#,
            r#"returned Done "" ["/w/new.txt"]"#,
            "used gemini-2.5-flash 22+0+0 14+0",
            "text The tool ran.",
            "Finished",
        ]
    );
}

#[test]
fn what_is_replayed_is_not_this_turn() {
    // Before the answer to `session/load`.
    let copilot = played("copilot-resume-write", EDIT, None);
    assert_eq!(
        copilot,
        [
            "session",
            "text I will write. ",
            r#"called edit {"file_text":"hello\n","path":"/w/new.txt"}"#,
            "text Info: /w/new.txt",
            r#"returned Done "" ["/w/new.txt"]"#,
            "used - 22+0+0 14+0",
            "text The tool ran.",
            "Finished",
        ]
    );
    // And after it: the earlier turn said "The tool ran." too.
    let gemini = played("gemini-resume-shell-full", FULL, None);
    assert_eq!(
        gemini,
        [
            "session",
            "model gemini-2.5-flash",
            r#"called execute {"title":"echo out; exit 3","paths":[]}"#,
            r#"returned Done "" []"#,
            "used gemini-2.5-flash 22+0+0 14+0",
            "text The tool ran.",
            "Finished",
        ]
    );
}

#[test]
fn a_shell_is_refused_to_who_may_only_edit() {
    assert_eq!(
        played("claude-resume-shell", EDIT, None),
        [
            "session",
            r#"called Bash {"command":"echo out; exit 3","description":"d"}"#,
            r#"returned NotRun "not permitted" []"#,
            "notice Bash was not permitted",
            "used claude-opus-5-5 22+0+0 14+0",
            "text (the scenario has no more replies)",
            "Finished",
        ]
    );
    // It never speaks of the call again.
    assert_eq!(
        played("gemini-new-shell", EDIT, None),
        [
            "session",
            "model gemini-2.5-flash",
            r#"called execute {"title":"echo out; exit 3","paths":[]}"#,
            r#"returned NotRun "not permitted" []"#,
            "notice execute was not permitted",
            "used gemini-2.5-flash 22+0+0 14+0",
            "text The tool ran.",
            "Finished",
        ]
    );
    // These end the turn there.
    assert_eq!(
        played("copilot-resume-shell", EDIT, None)[1..4],
        [
            r#"called execute {"command":"echo out; exit 3","description":"d"}"#,
            r#"returned NotRun "not permitted" []"#,
            "notice execute was not permitted",
        ]
    );
    assert_eq!(
        played("qwen-resume-shell", EDIT, None)[2..],
        [
            "used - 11+0+0 7+0",
            r#"called run_shell_command {"command":"echo out; exit 3","description":"d","is_background":false}"#,
            r#"returned NotRun "not permitted" []"#,
            "notice run_shell_command was not permitted",
            "Finished",
        ]
    );
}

#[test]
fn a_shell_in_a_sandbox_that_writes_nothing_is_not_asked_about() {
    let codex = played("codex-resume-shell", EDIT, None);
    assert_eq!(
        codex[3..5],
        [
            r#"called exec_command {"command":"echo out; exit 3","cwd":"/w"}"#,
            r#"returned Failed 3 "out\n" []"#,
        ]
    );
}

#[test]
fn nothing_is_written_by_who_may_only_look() {
    assert_eq!(
        played("claude-fork-ro-write", READ, None)[..5],
        [
            "session",
            "text I will write. ",
            r#"called Write {"file_path":"/w/new.txt","content":"hello\n"}"#,
            r#"returned NotRun "not permitted" []"#,
            "notice Write was not permitted",
        ]
    );
    // It calls the turn cancelled then, which nobody did.
    assert_eq!(
        played("codex-patch-ro", READ, Some("gpt-5.5"))[2..],
        [
            r#"called edit {"title":"Editing files","paths":["/w/new.txt"]}"#,
            r#"returned NotRun "not permitted" []"#,
            "notice edit was not permitted",
            "used gpt-5.5 11+0+0 7+0",
            "Finished",
        ]
    );
}

#[test]
fn errors_are_told_apart() {
    let last = |name: &str| played(name, FULL, None).pop().unwrap();
    assert_eq!(last("claude-err-500"), "failed server 500");
    assert_eq!(last("claude-err-401"), "failed not signed in");
    assert_eq!(last("codex-err-usage"), "failed quota");
    assert_eq!(last("gemini-err-usage"), "failed limit");
    assert_eq!(last("opencode-err-rate"), "failed server 500");
    assert_eq!(last("qwen-err-401"), "failed not signed in");
    // The reason is no text of the agent's.
    assert_eq!(played("claude-err-500", FULL, None), ["session", "failed server 500"]);
}

#[test]
fn a_turn_that_failed_is_not_finished_whatever_it_is_called() {
    let codex = |name: &str| played(name, FULL, None)[3..].to_vec();
    assert_eq!(codex("codex-err-rate"), ["retrying limit", "failed limit"]);
    assert_eq!(codex("codex-err-cut"), ["retrying cut", "failed cut"]);
    assert_eq!(codex("codex-err-context"), ["failed context"]);
    assert_eq!(
        codex("codex-t429"),
        [
            r#"called exec_command {"command":"echo out","cwd":"/w"}"#,
            r#"returned Done 0 "out\n" []"#,
            "retrying limit",
            "used scripted-model 11+0+0 7+0",
            "failed limit",
        ]
    );
    assert_eq!(played("copilot-err-usage", FULL, None)[1..], ["failed limit"]);
    assert_eq!(
        played("copilot-t429", FULL, None)[1..],
        [
            r#"called execute {"command":"echo out","description":"d"}"#,
            r#"returned Done 0 "out\n<shellId: 0 completed with exit code 0>" []"#,
            "used - 11+0+0 7+0",
            "failed limit",
        ]
    );
}

/// The same words, written by a model.
#[test]
fn no_text_of_a_model_fails_a_turn() {
    let quoting = |file: &str, agent: &str| {
        let mut lines = recorded(file);
        for line in &mut lines {
            let Some(update) = line.pointer_mut("/from/params/update") else { continue };
            if update["sessionUpdate"] == "agent_message_chunk" && update["content"]["text"] == "."
            {
                update["content"]["text"] = json!("Error: 429 You exceeded your current quota");
            }
        }
        let world = World::default();
        let job = job(&world, "case-text", Conversation::New { id: "ours" });
        let signals = replay(Acp::new(agent).dialogue(&job).as_mut(), &lines);
        signals.last().unwrap().clone()
    };
    assert_eq!(quoting("copilot-text", "copilot --acp"), "Finished");
    assert_eq!(quoting("claude-text", "claude-agent-acp"), "Finished");
    assert_eq!(quoting("codex-text", "codex-acp"), "Finished");
}

#[test]
fn an_unknown_session_is_gone() {
    // Four ways to say it, and two agents that have to be asked for their sessions.
    for agent in ["claude", "codex", "opencode", "gemini", "copilot", "qwen"] {
        assert_eq!(played(&format!("{agent}-unknown"), EDIT, None), [NOBODY], "{agent}");
    }
    assert_eq!(played("claude-unknown-fork", EDIT, None), [NOBODY]);
}

#[test]
fn a_session_that_is_in_the_list_is_not_gone() {
    let mut lines = recorded("opencode-unknown");
    for line in &mut lines {
        if let Some(sessions) = line.pointer_mut("/from/result/sessions") {
            sessions[1]["sessionId"] = json!("00000000-1111-4222-8333-444444444444");
        }
    }
    let world = World::default();
    let id = "00000000-1111-4222-8333-444444444444";
    let job = job(&world, "", Conversation::Resume { id });
    assert_eq!(replay(Acp::new("a").dialogue(&job).as_mut(), &lines), ["failed server 500"]);
}

#[test]
fn who_cannot_resume_or_fork_says_so() {
    let world = World::default();
    let heard = |conversation| {
        let mut dialogue = Acp::new("a").dialogue(&job(&world, "p", conversation));
        dialogue.open();
        let mut heard = Heard::default();
        let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#;
        dialogue.line(hello.as_bytes(), &mut heard).unwrap();
        heard
    };
    for conversation in
        [Conversation::Resume { id: "1" }, Conversation::Fork { from: "1", id: "2", at: None }]
    {
        let heard = heard(conversation);
        assert!(heard.say.is_empty() && heard.close);
        let [Signal::Ended(Ending::Failed(Trouble::SessionGone(_)))] = heard.signals[..] else {
            panic!("{:?}", heard.signals)
        };
    }
    let new = heard(Conversation::New { id: "2" });
    assert_eq!(parsed(&new.say)[0]["method"], "session/new");
    assert!(new.signals.is_empty() && !new.close);
}

#[test]
fn a_cancelled_turn_is_cancelled_and_its_text_is_not_whole() {
    for (agent, before) in [("claude", 1), ("codex", 3), ("opencode", 2)] {
        let signals = played(&format!("{agent}-cancel"), EDIT, None);
        assert_eq!(signals[before..], ["Cancelled"], "{agent}");
    }
}

#[test]
fn the_model_is_the_one_that_was_asked_for_or_none() {
    let gemini = played("gemini-model", EDIT, Some("gemini-2.5-pro"));
    assert_eq!(
        gemini[1..],
        [
            "model gemini-2.5-pro",
            "used gemini-2.5-pro 11+0+0 7+0",
            "text Hello plainly.",
            "Finished",
        ]
    );
    let world = World::default();
    let new = job(&world, "p", Conversation::New { id: "ours" });
    let mut dialogue = Acp::new("a").dialogue(&Job { model: Some("no-such"), ..new });
    dialogue.open();
    let mut heard = Heard::default();
    for line in recorded("codex-text").iter().filter_map(|line| line.get("from")).take(2) {
        heard = Heard::default();
        dialogue.line(line.to_string().as_bytes(), &mut heard).unwrap();
    }
    assert!(matches!(
        heard.signals.last(),
        Some(Signal::Ended(Ending::Failed(Trouble::BadRequest { .. })))
    ));
}

#[test]
fn other_requests_are_declined_and_strange_lines_do_no_harm() {
    let world = World::default();
    let mut dialogue = Acp::new("a").dialogue(&job(&world, "p", Conversation::New { id: "1" }));
    dialogue.open();
    let mut hear = |line: &str| {
        let mut heard = Heard::default();
        let read = dialogue.line(line.as_bytes(), &mut heard);
        (read.is_ok(), heard)
    };
    for method in ["fs/read_text_file", "terminal/create", "craft/drainMidTurnQueue"] {
        let line = json!({ "jsonrpc": "2.0", "id": "x-7", "method": method, "params": {} });
        let (read, heard) = hear(&line.to_string());
        assert!(read && heard.signals.is_empty());
        let answer: Value = serde_json::from_slice(&heard.say).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("x-7"), &json!(-32601)));
    }
    for line in ["", "Starting server...", "[1,2]", "{}", r#"{"type":"log"}"#] {
        assert!(!hear(line).0, "{line}");
    }
    for line in [
        r#"{"jsonrpc":"2.0","method":"session/update"}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"new_thing"}}}"#,
        r#"{"jsonrpc":"2.0","method":"_auth/status_update","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"other","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
    ] {
        let (read, heard) = hear(line);
        assert!(read && heard.signals.is_empty() && heard.say.is_empty(), "{line}");
    }
    let (_, heard) = hear(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}"#);
    assert_eq!(heard.signals.iter().filter_map(shown).collect::<Vec<_>>(), ["failed request 0"]);
}

#[test]
fn a_long_prompt_of_any_letters_is_one_line() {
    let prompt = "q\"ä\\\n\u{2028}€😀\u{1}".repeat(400_000);
    let world = World::default();
    let mut dialogue = Acp::new("a").dialogue(&job(&world, &prompt, Conversation::New { id: "" }));
    dialogue.open();
    let mut heard = Heard::default();
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#,
    ] {
        heard = Heard::default();
        dialogue.line(line.as_bytes(), &mut heard).unwrap();
    }
    assert_eq!(heard.say.iter().filter(|byte| **byte == b'\n').count(), 1);
    let said: Value = serde_json::from_slice(&heard.say).unwrap();
    assert_eq!(said["params"]["prompt"], json!([{ "type": "text", "text": prompt }]));
}

#[test]
fn the_command_is_run_by_a_shell_and_only_opencode_needs_a_variable() {
    let world = World::default();
    let extra = ["--debug".to_owned()];
    let call = |command: &str, permission| {
        let job = job(&world, "p", Conversation::New { id: "1" });
        Acp::new(command).call(&Job { permission, extra: &extra, ..job })
    };
    let opencode = call("/opt/opencode acp", EDIT);
    assert_eq!(opencode.args, ["-c", "exec /opt/opencode acp \"$@\"", "sh", "--debug"]);
    assert_eq!(opencode.prompt_at, None);
    let told = |call: segue_agents::vendor::Call| call.env.first().map(|one| one.value.clone());
    assert_eq!(told(opencode).unwrap(), r#"{"edit":"ask","bash":"deny"}"#);
    assert_eq!(told(call("opencode acp", READ)).unwrap(), r#"{"edit":"deny","bash":"deny"}"#);
    assert_eq!(told(call("opencode acp", FULL)), None);
    assert_eq!(told(call("gemini --acp", READ)), None);
}

#[test]
fn nobody_knows_where_an_unknown_agent_keeps_its_sessions() {
    let agent = Acp::new("gemini --acp");
    let world = World::default();
    let error = agent.history(&world, Path::new("/w"), "1").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    assert_eq!(agent.signed_in(&world), SignIn::Unknown);
    assert_eq!(agent.looks_for(), ["gemini"]);
    assert_eq!(agent.card().stop_signal, 15);
}

/// Our tools are part of every way into a session, and may be used whatever else may be.
#[test]
fn our_own_tools_come_with_the_session() {
    let world = World::default();
    let args = ["mcp".to_owned(), "--turn".to_owned(), "2".to_owned()];
    let tools = Some(ToolServer { program: Path::new("/bin/segue"), args: &args });
    let hello = |can: Value| json!({ "id": 1, "result": { "protocolVersion": 1, "agentCapabilities": can } });
    let ways = [
        (Conversation::New { id: "x" }, json!({}), "session/new"),
        (Conversation::Resume { id: "1" }, json!({ "loadSession": true }), "session/load"),
        (
            Conversation::Resume { id: "1" },
            json!({ "sessionCapabilities": { "resume": {} } }),
            "session/resume",
        ),
        (
            Conversation::Fork { from: "1", id: "2", at: None },
            json!({ "sessionCapabilities": { "fork": {} } }),
            "session/fork",
        ),
    ];
    let server = json!([{ "name": "segue", "command": "/bin/segue", "args": args, "env": [] }]);
    for (conversation, can, method) in ways {
        let job = Job { tools, ..job(&world, "hi", conversation) };
        let mut dialogue = Acp::new("a").dialogue(&job);
        dialogue.open();
        let mut heard = Heard::default();
        dialogue.line(hello(can).to_string().as_bytes(), &mut heard).unwrap();
        let said = parsed(&heard.say);
        assert_eq!(said[0]["method"], method);
        assert_eq!(said[0]["params"]["mcpServers"], server, "{method}");
    }

    let asked = |tools| {
        let permission = Permission::ReadOnly;
        let job = Job { tools, permission, ..job(&world, "hi", Conversation::New { id: "x" }) };
        let mut dialogue = Acp::new("a").dialogue(&job);
        dialogue.open();
        let mut heard = Heard::default();
        let options = json!([
            { "optionId": "yes", "name": "Yes", "kind": "allow_once" },
            { "optionId": "no", "name": "No", "kind": "reject_once" },
        ]);
        let call = json!({ "toolCallId": "1", "title": "mcp__segue__checkpoint", "kind": "other" });
        let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
        let request = json!({ "id": 0, "method": "session/request_permission", "params": params });
        for line in [hello(json!({})), json!({ "id": 2, "result": { "sessionId": "s" } }), request]
        {
            heard.say.clear();
            dialogue.line(line.to_string().as_bytes(), &mut heard).unwrap();
        }
        parsed(&heard.say)[0]["result"]["outcome"]["optionId"].clone()
    };
    assert_eq!((asked(tools), asked(None)), (json!("yes"), json!("no")));
}

/// Each agent has its own way of saying which tool of a server was called, and what it answered.
#[test]
fn a_tool_of_ours_is_known_whoever_tells_of_it() {
    let world = World::default();
    let told = |begun: Value, over: Value| {
        let job = job(&world, "hi", Conversation::New { id: "x" });
        let mut dialogue = Acp::new("a").dialogue(&job);
        dialogue.open();
        let update = |kind: &str, mut fields: Value| {
            fields["sessionUpdate"] = kind.into();
            fields["toolCallId"] = "1".into();
            json!({ "method": "session/update", "params": { "sessionId": "s", "update": fields } })
        };
        let lines = [
            json!({ "id": 1, "result": { "protocolVersion": 1, "agentCapabilities": {} } }),
            json!({ "id": 2, "result": { "sessionId": "s" } }),
            update("tool_call", begun),
            update("tool_call_update", over),
        ];
        let mut heard = Heard::default();
        for line in lines {
            dialogue.line(line.to_string().as_bytes(), &mut heard).unwrap();
        }
        heard.signals.iter().filter_map(shown).filter(|line| !line.starts_with("session")).collect()
    };
    let codex: Vec<String> = told(
        json!({
            "title": "mcp.segue.receive_messages", "kind": "execute", "status": "in_progress",
            "rawInput": { "server": "segue", "tool": "receive_messages", "arguments": {} },
        }),
        json!({
            "status": "completed",
            "rawOutput": {
                "result": { "content": [{ "type": "text", "text": "[message 1] from person:" }] },
                "error": null,
            },
        }),
    );
    assert!(codex[0].starts_with("called segue.receive_messages "), "{codex:?}");
    assert_eq!(codex[1], "returned Done \"[message 1] from person:\" []");
    let gemini: Vec<String> = told(
        json!({ "title": "receive_messages (segue MCP Server)", "kind": "other", "status": "in_progress" }),
        json!({ "status": "failed", "rawOutput": { "error": { "message": "gone" } } }),
    );
    let name = gemini[0].trim_start_matches("called ").split(" {").next().unwrap();
    assert_eq!(report::our_tool(name), Some("receive_messages"));
    assert_eq!(gemini[1], "returned Failed \"gone\" []");
}
