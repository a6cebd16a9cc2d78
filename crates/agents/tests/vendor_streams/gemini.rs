//! What Gemini CLI printed, and what its adapter makes of it.

use std::{path::Path, time::Duration};

use crate::support::{
    Home, ID, all, args, ending, envs, job, last, limit, record, retries, returned, texts, told,
    used,
};
use segue_agents::vendor::{
    Conversation, Ending, Heard, Job, SignIn, Signal, ToolEnd, Trouble, Vendor, World,
    gemini::Gemini,
};
use segue_core::{Permission, usage::Usage};

const WHOLE: &str = "Hello from the scripted model, who has more to say than this.";
const LATER: &str = "You exceeded your current quota, please check your plan and billing details.";

#[test]
fn a_plain_answer() {
    let world = World::default();
    let heard = all(&Gemini, &world, Conversation::New { id: ID }, "text", Some(0));
    let usage = Usage { input: 100, output: 20, cache_read: 30, cache_write: 0, reasoning: 5 };
    let model = || "gemini-2.5-flash".to_owned();
    assert_eq!(
        heard,
        [
            Signal::Session("00000001-aaaa-4aaa-8aaa-000000000001".to_owned()),
            Signal::Model(model()),
            Signal::Writing("Hello from the ".to_owned()),
            Signal::Writing("scripted model.".to_owned()),
            Signal::Text("Hello from the scripted model.".to_owned()),
            Signal::Used { model: Some(model()), usage, cost: None },
            Signal::Ended(Ending::Finished),
        ]
    );
}

#[test]
fn tools_that_write_tell_the_file_and_a_refused_one_fails() {
    let heard = told(&Gemini, "edit", Some(0));
    assert_eq!(heard[2], Signal::Text("I write. ".to_owned()));
    assert!(matches!(&heard[3], Signal::ToolCalled { name, input, .. }
        if name == "write_file"
            && input == r#"{"content":"it is\nhere\n","file_path":"/work/made.txt"}"#));
    assert_eq!(texts(&heard), ["I write. ", "All done."]);
    let ends = returned(&heard);
    assert_eq!(ends[0].touched, ["/work/made.txt"]);
    assert_eq!(ends[1].touched, ["/work/made.txt"]);
    let output = "Tool \"run_shell_command\" not found. Did you mean one of: \"update_topic\", \
                  \"grep_search\", \"replace\"?";
    assert_eq!(ends[2], &ToolEnd::new(&*ends[2].id, false, output));
    let usage = Usage { input: 400, output: 80, cache_read: 120, cache_write: 0, reasoning: 20 };
    assert_eq!(used(&heard), usage);
    assert_eq!(*ending(&heard), Ending::Finished);
}

#[test]
fn a_limit_is_told_by_the_exit_status_and_its_retries_on_standard_error() {
    let heard = told(&Gemini, "limit", Some(173));
    let wait = Duration::from_millis(5186);
    let again = Signal::Retrying { trouble: limit(LATER, false, Some(5186)), wait: Some(wait) };
    assert_eq!(retries(&heard), [&again]);
    let message = format!("{LATER}\nSuggested retry after 1s.");
    assert_eq!(*ending(&heard), Ending::Failed(limit(&message, false, None)));
    // The turn failed either way; without the status only the kind is unknown.
    let heard = told(&Gemini, "limit", None);
    assert!(matches!(ending(&heard), Ending::Failed(Trouble::BadRequest { status: 0, .. })));
}

#[test]
fn a_quota_is_told_by_the_name_of_the_error() {
    let heard = told(&Gemini, "quota", Some(173));
    let message = "You have exhausted your daily quota on this model.";
    assert_eq!(*ending(&heard), Ending::Failed(limit(message, true, None)));
    assert!(retries(&heard).is_empty());
}

#[test]
fn errors_with_a_body_need_no_exit_status() {
    let failed = |name| match ending(&told(&Gemini, name, None)).clone() {
        Ending::Failed(trouble) => trouble,
        other => panic!("{name}: {other:?}"),
    };
    let message = "An internal error has occurred.".to_owned();
    assert_eq!(failed("server"), Trouble::Server { status: 500, message });
    assert!(
        matches!(failed("unauthorized"), Trouble::NotSignedIn { fix, .. } if fix == "gemini, then /auth")
    );
    assert!(matches!(failed("context"), Trouble::ContextExhausted(_)));
    assert_eq!(failed("cut"), Trouble::StreamCut("terminated".to_owned()));
    let network = "exception TypeError: fetch failed sending request".to_owned();
    assert_eq!(failed("no_network"), Trouble::Network(network));
    let message = "Model stream ended without a finish reason.".to_owned();
    assert_eq!(failed("unended"), Trouble::StreamCut(message));
}

#[test]
fn overload_is_told_by_the_exit_status() {
    let heard = told(&Gemini, "overloaded", Some(247));
    let message = "The model is overloaded. Please try again later.".to_owned();
    let overloaded = Trouble::Overloaded { message, retry_after: None };
    assert_eq!(*ending(&heard), Ending::Failed(overloaded));
}

#[test]
fn retries_are_told_with_their_status_or_as_no_network() {
    let heard = told(&Gemini, "server", Some(244));
    let message = "An internal error has occurred.".to_owned();
    let trouble = Trouble::Server { status: 500, message };
    assert_eq!(retries(&heard), [&Signal::Retrying { trouble, wait: None }]);
    let heard = told(&Gemini, "no_network", None);
    let message = "Error: exception TypeError: fetch failed sending request".to_owned();
    let trouble = Trouble::Network(message);
    assert_eq!(retries(&heard), [&Signal::Retrying { trouble, wait: None }; 5]);
}

/// It says that this was a success.
#[test]
fn a_model_that_was_not_asked_did_not_answer() {
    let heard = told(&Gemini, "overflow", Some(0));
    assert!(matches!(ending(&heard), Ending::Failed(Trouble::ContextExhausted(_))));
}

#[test]
fn parts_of_answers_are_no_texts() {
    for name in ["cut", "unended"] {
        assert!(texts(&told(&Gemini, name, Some(1))).is_empty(), "{name}");
    }
}

#[test]
fn the_file_knows_which_of_two_attempts_counts() {
    let home = Home::new();
    home.put(".gemini/projects.json", r#"{"projects":{"/work":"work"}}"#);
    let path = ".gemini/tmp/work/chats/session-2026-11-16T00-33-00000021.jsonl";
    home.put(path, record("gemini", "session_asked_again.jsonl"));
    let new = Conversation::New { id: ID };
    let heard = all(&Gemini, &home.world, new, "asked_again", Some(0));
    assert_eq!(texts(&heard), [WHOLE]);
    // Without it, nothing that was said is thrown away.
    let heard = told(&Gemini, "asked_again", Some(0));
    assert_eq!(texts(&heard), [format!("Hello from the scripted {WHOLE}")]);
}

#[test]
fn one_that_was_killed_has_no_end() {
    let heard = told(&Gemini, "killed", None);
    assert!(
        matches!(heard.last(), Some(Signal::ToolCalled { name, .. }) if name == "run_shell_command")
    );
    assert_eq!(texts(&heard), ["I run it. "]);
}

#[test]
fn before_it_has_a_session_its_exit_status_tells() {
    let end = |line: &str, exit| {
        let world = World::default();
        let mut dialogue = Gemini.dialogue(&job(&world, Conversation::New { id: ID }));
        let mut heard = Heard::default();
        dialogue.error_line("Warning: 256-color support not detected.", &mut heard);
        dialogue.error_line(line, &mut heard);
        dialogue.exited(exit, &mut heard);
        heard.signals
    };
    let message = "Invalid auth method selected.".to_owned();
    let fix = "gemini, then /auth".to_owned();
    let trouble = Trouble::NotSignedIn { message: message.clone(), fix };
    assert_eq!(end(&message, Some(41)), [Signal::Ended(Ending::Failed(trouble))]);
    let message = "Error resuming session: Invalid session identifier \"x\".".to_owned();
    let trouble = Trouble::BadRequest { status: 0, message: message.clone() };
    assert_eq!(end(&message, Some(42)), [Signal::Ended(Ending::Failed(trouble))]);
    assert_eq!(end("anything", Some(0)), []);
    assert_eq!(end("anything", None), []);
}

#[test]
fn unusable_answers_have_one_sentence_for_each_reason() {
    let end = |message: &str| {
        let world = World::default();
        let mut dialogue = Gemini.dialogue(&job(&world, Conversation::New { id: ID }));
        let mut heard = Heard::default();
        let error = serde_json::json!({ "type": "error", "severity": "error", "message": message });
        for line in [error.to_string(), r#"{"type":"result","status":"error"}"#.to_owned()] {
            dialogue.line(line.as_bytes(), &mut heard).unwrap();
        }
        ending(&heard.signals).clone()
    };
    let long = "Model response was truncated because it exceeded the token limit. Try using \
                /compress to free up context space.";
    assert_eq!(end(long), Ending::Truncated);
    assert_eq!(end("The model response was blocked due to safety settings."), Ending::Refused);
    assert!(matches!(end("Else"), Ending::Failed(Trouble::BadRequest { .. })));
}

#[test]
fn each_conversation_and_permission_has_its_flags() {
    let home = Home::new();
    let shown = |conversation, permission| {
        args(&Gemini, &Job { permission, ..job(&home.world, conversation) })
    };
    let head = "--output-format stream-json --skip-trust";
    assert_eq!(
        shown(Conversation::New { id: "n" }, Permission::Full),
        format!("{head} --session-id n --approval-mode yolo")
    );
    assert_eq!(
        shown(Conversation::Resume { id: "n" }, Permission::ReadOnly),
        format!("{head} --resume n --approval-mode default --policy files/gemini-policy.toml")
    );
    // A fork is of a file, wherever that is.
    let path = home.put(
        ".gemini/tmp/other/chats/session-2026-11-16T00-35-00000003.jsonl",
        record("gemini", "session_resumed.jsonl"),
    );
    let path = path.display();
    assert_eq!(
        shown(Conversation::Fork { from: ID, id: "n", at: None }, Permission::Edit),
        format!(
            "{head} --session-file {path} --approval-mode auto_edit --policy files/gemini-policy.toml"
        )
    );
    assert_eq!(
        envs(&Gemini, &job(&home.world, Conversation::New { id: "n" })),
        [("GEMINI_CLI_NO_RELAUNCH", "true".to_owned(), false)]
    );
}

fn workplace() -> Home {
    let home = Home::new();
    home.put(".gemini/projects.json", r#"{"projects":{"/work":"work"}}"#);
    home
}

fn keep(home: &Home, minute: u32, id: &str, name: &str) -> std::path::PathBuf {
    let file = format!("session-2026-11-16T00-{minute}-{}.jsonl", &id[..8]);
    home.put(&format!(".gemini/tmp/work/chats/{file}"), record("gemini", name))
}

#[test]
fn its_file_is_folded_and_its_empty_twin_passed_over() {
    let home = workplace();
    let path = keep(&home, 35, ID, "session_resumed.jsonl");
    keep(&home, 36, ID, "session_twin.jsonl");
    let found = Gemini.history(&home.world, Path::new("/work"), ID).unwrap().unwrap();
    assert_eq!((found.path, found.prompts), (path, 2));
    let answer = ["Hello from the scripted model."];
    assert_eq!(found.last, last("And again, please.", &answer, &[]));
    assert_eq!(Gemini.history(&home.world, Path::new("/elsewhere"), ID).unwrap(), None);
    let same_start = "00000003-bbbb-4bbb-8bbb-000000000003";
    assert_eq!(Gemini.history(&home.world, Path::new("/work"), same_start).unwrap(), None);
}

#[test]
fn a_session_without_a_prompt_is_none() {
    let home = workplace();
    keep(&home, 36, ID, "session_twin.jsonl");
    assert_eq!(Gemini.history(&home.world, Path::new("/work"), ID).unwrap(), None);
}

#[test]
fn its_file_has_calls_once_they_are_answered_and_not_the_running_one() {
    let home = workplace();
    let killed = "00000013-aaaa-4aaa-8aaa-000000000001";
    let path = keep(&home, 20, killed, "session_killed.jsonl");
    let mut torn = std::fs::read(&path).unwrap();
    torn.extend_from_slice(b"{\"id\":\"725e4346");
    std::fs::write(&path, torn).unwrap();
    let read = |id| Gemini.history(&home.world, Path::new("/work"), id).unwrap().unwrap();
    assert_eq!(read(killed).last, last("Say hello, please.", &["I run it."], &[]));
    let done = "2853b62a-2244-4fbd-9eff-b5722d10f56c";
    keep(&home, 59, done, "session_edit.jsonl");
    let calls = [
        ("write_file__write_file_1794787146824_0", true),
        ("replace__replace_1794787146914_0", true),
        ("run_shell_command__run_shell_command_1794787146938_0", true),
    ];
    let found = read(done);
    assert_eq!(found.last, last("Say hello, please.", &["I write.", "All done."], &calls));
    assert_eq!(found.prompts, 1);
}

/// A prompt that the API refused is taken back by a `$set` of all messages.
#[test]
fn a_prompt_that_was_rolled_back_is_gone() {
    let home = workplace();
    let path = keep(&home, 12, ID, "session_resumed.jsonl");
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str(r#"{"$set":{"messages":[{"id":"a","type":"user","content":[{"text":"One"}]}]}}"#);
    std::fs::write(&path, text).unwrap();
    let found = Gemini.history(&home.world, Path::new("/work"), ID).unwrap().unwrap();
    assert_eq!((found.prompts, found.last), (1, last("One", &[], &[])));
}

#[test]
fn keys_are_found_where_it_keeps_them() {
    let home = Home::new();
    assert_eq!(Gemini.signed_in(&home.world), SignIn::No);
    home.put(".gemini/settings.json", r#"{"security":{"auth":{"selectedType":"oauth"}}}"#);
    assert_eq!(Gemini.signed_in(&home.world), SignIn::Unknown);
    home.put(".gemini/oauth_creds.json", "{}");
    assert_eq!(Gemini.signed_in(&home.world), SignIn::Yes("Google".to_owned()));
}
