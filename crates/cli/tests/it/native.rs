//! The native agent over HTTP: what the server received is the proof.

use std::fs;

use segue_testkit::model_server::{Content, Message, Reply, Role, Usage};
use serde_json::{Value, json};

use crate::support::{
    ANTHROPIC, CHAT, DONE, OPENAI, ask, data, kinds, scripted, segue, serve, show,
};

const MODELS: [&str; 3] = [ANTHROPIC, OPENAI, CHAT];

/// A conversation in short: who said what.
fn said(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| match &message.content {
        Content::Text(text) => format!("{:?}: {text}", message.role),
        Content::Thinking(text) => format!("thinking: {text}"),
        Content::ToolCall { name, input, .. } => format!("calls {name} {input}"),
        Content::ToolResult { output, .. } => {
            assert_eq!(message.role, Role::Tool);
            format!("result: {}", output.lines().next().unwrap_or_default())
        }
    };
    messages.iter().map(text).collect()
}

#[test]
fn a_plain_answer() {
    for model in MODELS {
        let (env, _) = scripted(DONE);
        let server = serve([Reply::text("Hello, all of you.")]);
        let output = ask(&env, &server, &["run", "Say hello", "--model", model]);
        assert_eq!((output.status, output.stdout.as_str()), (0, "Hello, all of you.\n"), "{model}");
        let turns = server.turns();
        assert_eq!(turns.len(), 1);
        assert_eq!(turns[0].texts(), ["Say hello"]);
        assert_eq!(turns[0].model.as_deref(), model.split('/').next_back());
        assert_eq!(
            turns[0].tools(),
            ["read_file", "write_file", "edit_file", "glob", "grep", "shell", "checkpoint"]
        );
        let root = fs::canonicalize(env.repo()).unwrap();
        assert!(turns[0].system().contains(root.to_str().unwrap()), "{}", turns[0].system());
    }
}

#[test]
fn read_only_is_held() {
    let (env, _) = scripted(DONE);
    let server = serve([
        Reply::text("I try.").and_tool("shell", json!({ "command": "echo x > a.txt" })),
        Reply::text("I try again.")
            .and_tool("write_file", json!({ "path": "a.txt", "content": "x" })),
        Reply::text("I may not."),
    ]);
    let run = ["run", "Write a.txt", "--model", CHAT, "--permission", "read-only"];
    assert_eq!(ask(&env, &server, &run).status, 0);
    let turns = server.turns();
    assert_eq!(turns[0].tools(), ["read_file", "glob", "grep", "checkpoint"]);
    assert!(said(&turns[2].messages()).iter().any(|line| line.contains("read-only")));
    assert!(!env.repo().join("a.txt").exists());
}

#[test]
fn the_projects_own_instructions_are_sent() {
    let (env, _) = scripted(DONE);
    env.write("AGENTS.md", "Never touch the attic.").unwrap();
    let server = serve([Reply::text("Understood.")]);
    assert_eq!(ask(&env, &server, &["run", "Go", "--model", CHAT]).status, 0);
    assert!(server.turns()[0].system().contains("Never touch the attic."));
}

#[test]
fn tools_do_their_work_and_the_model_is_told() {
    for model in MODELS {
        let (env, _) = scripted(DONE);
        env.write("sum.txt", "two and two is five\n").unwrap();
        let edit = json!({ "path": "sum.txt", "old_string": "five", "new_string": "four" });
        let server = serve([
            Reply::text("I look.").and_tool("read_file", json!({ "path": "sum.txt" })),
            Reply::tool("edit_file", edit.clone())
                .and_tool("shell", json!({ "command": "cat sum.txt" })),
            Reply::text("Mended."),
            Reply::text("You are welcome."),
        ]);
        let output = ask(&env, &server, &["run", "Mend it", "--model", model]);
        assert_eq!(output.status, 0, "{model}: {}", output.stderr);
        assert_eq!(
            fs::read_to_string(env.repo().join("sum.txt")).unwrap(),
            "two and two is four\n"
        );
        let output = ask(&env, &server, &["resume", "1", "Thank you"]);
        assert_eq!(output.stdout, "You are welcome.\n", "{model}: {}", output.stderr);
        let turns = server.turns();
        assert_eq!(turns.len(), 4);
        let last = said(&turns[3].messages());
        let result = |at: usize| last[at].clone();
        assert_eq!(last.len(), 10, "{last:?}");
        assert_eq!(
            last[..3],
            [
                "User: Mend it".to_owned(),
                "Assistant: I look.".to_owned(),
                format!("calls read_file {}", json!({ "path": "sum.txt" })),
            ]
        );
        assert!(result(3).contains("two and two is five"), "{last:?}");
        assert_eq!(last[4], format!("calls edit_file {edit}"));
        assert_eq!(last[5], "calls shell {\"command\":\"cat sum.txt\"}");
        assert!(result(6).contains("sum.txt"), "{last:?}");
        assert!(result(7).contains("two and two is four"), "{last:?}");
        assert_eq!(last[8..], ["Assistant: Mended.", "User: Thank you"]);
        // Every request begins with the one before it: nothing is said otherwise later.
        for pair in turns.windows(2) {
            let (before, after) = (pair[0].messages(), pair[1].messages());
            assert_eq!(after[..before.len()], before[..], "{model}");
        }
    }
}

#[test]
fn thinking_is_given_back_where_the_vendor_wants_it() {
    let (env, _) = scripted(DONE);
    let server = serve([
        Reply::tool("glob", json!({ "pattern": "*" })).thinking("I wonder."),
        Reply::text("Done."),
    ]);
    assert_eq!(ask(&env, &server, &["run", "Go", "--model", ANTHROPIC]).status, 0);
    let second = said(&server.turns()[1].messages());
    assert_eq!(second[1], "thinking: I wonder.");
    assert!(data(&env, 1, "thinking.written")[0]["signature"].is_object());
}

#[test]
fn usage_is_what_the_server_sent_in_its_buckets() {
    for model in MODELS {
        let (env, _) = scripted(DONE);
        // Only one vendor tells of cache writes; the others of reasoning.
        let (cache_write, reasoning) = if model == ANTHROPIC { (30, 0) } else { (0, 5) };
        let usage = Usage { input: 1000, output: 200, cache_read: 400, cache_write, reasoning };
        let server = serve([
            Reply::tool("glob", json!({ "pattern": "*" })).usage(usage),
            Reply::text("Done.").usage(usage),
        ]);
        let output = ask(&env, &server, &["run", "Go", "--model", model, "--json"]);
        assert_eq!(output.status, 0, "{model}: {}", output.stderr);
        let found = show(&env, "1");
        let wanted = json!({
            "input": 2000, "output": 400, "cache_read": 800,
            "cache_write": 2 * cache_write, "reasoning": 2 * reasoning,
        });
        assert_eq!(found["usage"], wanted, "{model}");
        assert_eq!(found["tokens"], 3200 + 2 * cache_write + 2 * reasoning, "{model}");
        let unpriced = if model == CHAT { 2 } else { 0 };
        assert_eq!(found["unpriced_calls"], unpriced, "{model}");
        assert_eq!(found["cost_micros"].as_u64() > Some(0), model != CHAT, "{model}");
    }
}

#[test]
fn a_price_set_by_a_person_holds_for_any_model() {
    let (env, _) = scripted(DONE);
    for (field, dollars) in [("input", "1"), ("output", "2"), ("cache_read", "0.5")] {
        let name = format!("prices.{CHAT}.{field}");
        assert_eq!(segue(&env, &["config", "set", &name, dollars]).status, 0);
    }
    let usage = Usage { input: 1000, output: 100, cache_read: 200, cache_write: 0, reasoning: 0 };
    let server = serve([Reply::text("Done.").usage(usage)]);
    let output = ask(&env, &server, &["run", "Go", "--model", CHAT, "--max-cost", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(show(&env, "1")["cost_micros"], 1000 + 200 + 100);
}

#[test]
fn prose_about_limits_changes_nothing() {
    let prose = "Error 429: rate_limit_error. You have hit your usage limit; resets at 5pm. \
                 Overloaded. Please run /login. context_length_exceeded";
    for model in MODELS {
        let (env, _) = scripted(DONE);
        let server = serve([
            Reply::text(prose)
                .and_tool("shell", json!({ "command": format!("echo '{prose}'; exit 1") })),
            Reply::text(prose),
        ]);
        let output = ask(&env, &server, &["run", prose, "--model", model]);
        assert_eq!(output.status, 0, "{model}: {}", output.stderr);
        assert_eq!(show(&env, "1")["status"], "completed", "{model}");
        assert!(!kinds(&env, 1).iter().any(|kind| kind == "model.failed" || kind == "limit.hit"));
    }
}

#[test]
fn another_vendor_goes_on_with_the_conversation_of_the_first() {
    let (env, _) = scripted(DONE);
    let server = serve([
        Reply::text("I begin.").thinking("Hm.").and_tool("shell", json!({ "command": "echo 42" })),
        Reply::text("The answer is 42."),
        Reply::text("It was 42."),
        Reply::text("42, as I said."),
    ]);
    assert_eq!(ask(&env, &server, &["run", "Ask", "--model", ANTHROPIC]).status, 0);
    for (model, prompt, answer) in
        [(CHAT, "What was it?", "It was 42.\n"), (OPENAI, "Sure?", "42, as I said.\n")]
    {
        let output = ask(&env, &server, &["resume", "1", prompt, "--model", model]);
        assert_eq!((output.status, output.stdout.as_str()), (0, answer), "{}", output.stderr);
    }
    let turns = server.turns();
    let texts = |at: usize| said(&turns[at].messages());
    let heard = texts(3);
    let wanted: Vec<&str> = vec![
        "User: Ask",
        "Assistant: I begin.",
        "calls shell {\"command\":\"echo 42\"}",
        "result: 42",
        "Assistant: The answer is 42.",
        "User: What was it?",
        "Assistant: It was 42.",
        "User: Sure?",
    ];
    let without_thinking: Vec<&String> =
        heard.iter().filter(|text| !text.starts_with("thinking")).collect();
    assert_eq!(without_thinking, wanted);
    let models: Vec<Value> =
        data(&env, 1, "model.called").iter().map(|call| call["model"].clone()).collect();
    assert_eq!(models, [ANTHROPIC, ANTHROPIC, CHAT, OPENAI]);
}
