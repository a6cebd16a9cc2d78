//! What Qwen Code printed, and what its adapter makes of it.

use std::{path::Path, time::Duration};

use crate::support::{
    Home, ID, all, args, ending, envs, job, last, limit, record, retries, returned, solid, texts,
    told, used,
};
use segue_agents::vendor::{
    Conversation, Ending, Heard, Job, SignIn, Signal, Trouble, Vendor, World, qwen::Qwen,
};
use segue_core::{Permission, usage::Usage};

const TURN: Usage = Usage { input: 100, output: 25, cache_read: 30, cache_write: 0, reasoning: 0 };
const WHOLE: &str = "Hello from the scripted model, who has more to say than this.";

#[test]
fn a_plain_answer_and_what_its_memory_cost() {
    let world = World::default();
    let heard = all(&Qwen, &world, Conversation::New { id: ID }, "text", Some(0));
    let model = || Some("scripted-model".to_owned());
    assert_eq!(
        heard,
        [
            Signal::Session("00000022-aaaa-4aaa-8aaa-000000000022".to_owned()),
            Signal::Model("scripted-model".to_owned()),
            Signal::Version("0.24.4".to_owned()),
            Signal::Writing("Hello from the ".to_owned()),
            Signal::Writing("scripted model.".to_owned()),
            Signal::Used { model: model(), usage: TURN, cost: None },
            Signal::Text("Hello from the scripted model.".to_owned()),
            Signal::Used { model: None, usage: TURN, cost: None },
            Signal::Ended(Ending::Finished),
        ]
    );
}

/// Its totals go on where the last turn ended; ours must not.
#[test]
fn a_resumed_turn_counts_its_own_tokens_only() {
    let home = Home::new();
    let id = "00000022-aaaa-4aaa-8aaa-000000000022";
    home.put(
        &format!(".qwen/projects/-work/chats/{id}.jsonl"),
        record("qwen", "session_before.jsonl"),
    );
    let count = |world, conversation| used(&all(&Qwen, world, conversation, "resumed", Some(0)));
    let two = Usage { input: 200, output: 50, cache_read: 60, cache_write: 0, reasoning: 0 };
    assert_eq!(count(&home.world, Conversation::Resume { id }), two);
    assert_eq!(count(&home.world, Conversation::Fork { from: id, id: ID, at: None }), two);
    // Without the file nobody knows what was before, and only what the stream shows is counted.
    assert_eq!(count(&World::default(), Conversation::Resume { id }), TURN);
}

#[test]
fn tools_that_write_tell_the_file_and_a_refused_one_fails() {
    let heard = told(&Qwen, "edit", Some(0));
    assert_eq!(texts(&heard), ["I write. ", "All done."]);
    let ends = returned(&heard);
    assert_eq!(ends.len(), 3);
    assert_eq!(ends[0].touched, ["/work/made.txt"]);
    assert_eq!(ends[0].output, "Successfully created and wrote to new file: /work/made.txt.");
    assert_eq!(ends[1].touched, ["/work/made.txt"]);
    assert_eq!((ends[2].status, ends[2].exit), (segue_core::event::ToolStatus::Failed, None));
    assert!(ends[2].touched.is_empty());
    let first = heard.iter().position(|signal| matches!(signal, Signal::Text(_)));
    let call = heard.iter().position(|signal| matches!(signal, Signal::ToolCalled { .. }));
    assert!(first < call, "the text comes before the call that follows it");
    let four = Usage { input: 400, output: 100, cache_read: 120, cache_write: 0, reasoning: 0 };
    assert_eq!(used(&heard), four);
    assert_eq!(*ending(&heard), Ending::Finished);
}

#[test]
fn a_command_that_failed_tells_its_status() {
    let heard = told(&Qwen, "full", Some(0));
    assert_eq!(returned(&heard)[2].exit, Some(3));
    assert_eq!(returned(&heard)[0].exit, None);
}

#[test]
fn a_helper_does_but_does_not_speak() {
    let heard = told(&Qwen, "helper", Some(0));
    assert_eq!(texts(&heard), ["Sub done.", "Done."]);
    assert!(!texts(&heard).contains(&"DOSHELL now"));
    let three = Usage { input: 66, output: 42, ..Usage::default() };
    assert_eq!(used(&heard), three);
}

#[test]
fn a_limit_is_announced_and_can_be_stopped_there() {
    let heard = told(&Qwen, "limit", None);
    let message = "the model's vendor limits the rate";
    let first = Signal::Retrying {
        trouble: limit(message, false, Some(60_000)),
        wait: Some(Duration::from_secs(60)),
    };
    assert_eq!(retries(&heard)[0], &first);
    assert!(!heard.iter().any(|signal| matches!(signal, Signal::Ended(_))));
}

#[test]
fn errors_are_told_apart_by_status_and_are_no_texts() {
    let failed = |name| {
        let heard = told(&Qwen, name, Some(1));
        assert!(texts(&heard).is_empty(), "{name}");
        match ending(&heard).clone() {
            Ending::Failed(trouble) => trouble,
            other => panic!("{name}: {other:?}"),
        }
    };
    assert!(matches!(failed("server"), Trouble::Server { status: 500, .. }));
    assert!(
        matches!(failed("unauthorized"), Trouble::NotSignedIn { fix, .. } if fix == "qwen, then /auth")
    );
    assert!(matches!(failed("context"), Trouble::ContextExhausted(_)));
    let network = Trouble::Network("Connection error. (cause: fetch failed)".to_owned());
    assert_eq!(failed("no_network"), network);
    let cut = "terminated (cause: UND_ERR_SOCKET: other side closed)";
    assert_eq!(failed("cut"), Trouble::StreamCut(cut.to_owned()));
}

/// After a cut it lets the model go on, and prints both parts as one text. The script's model began
/// anew.
#[test]
fn an_answer_that_went_on_is_one_text() {
    let heard = told(&Qwen, "cut_once", Some(0));
    assert_eq!(texts(&heard), [format!("Hello from the scripted model, who has more to s{WHOLE}")]);
    assert_eq!(retries(&heard).len(), 1);
    assert_eq!(*ending(&heard), Ending::Finished);
}

#[test]
fn an_answer_that_was_given_up_is_no_text() {
    let heard = told(&Qwen, "given_up", Some(0));
    assert_eq!(texts(&heard), ["scripted"]);
    assert_eq!(*ending(&heard), Ending::Finished);
}

#[test]
fn interrupted_ones_have_no_end_or_say_that_they_were_cancelled() {
    for name in ["killed", "interrupted"] {
        let heard = told(&Qwen, name, None);
        assert_eq!(texts(&heard), ["I run it. "]);
        assert!(!heard.iter().any(|signal| matches!(signal, Signal::Ended(_))), "{name}");
    }
    assert!(returned(&told(&Qwen, "killed", None)).is_empty());
    let heard = told(&Qwen, "cancelled", Some(130));
    assert!(heard.contains(&Signal::Ended(Ending::Cancelled)));
}

/// As the API's error that it waits for is written, which takes it the better part of an hour.
#[test]
fn its_own_sentences_are_known_by_how_they_begin() {
    let end = |message: &str| {
        let world = World::default();
        let mut dialogue = Qwen.dialogue(&job(&world, Conversation::New { id: ID }));
        let mut heard = Heard::default();
        let error = serde_json::json!({ "message": message });
        let line = serde_json::json!({ "type": "result", "is_error": true, "error": error });
        dialogue.line(line.to_string().as_bytes(), &mut heard).unwrap();
        ending(&heard.signals).clone()
    };
    let hint = "[API Error: 429 Too many requests [3 of 3]]\nPossible quota limitations in place.";
    assert_eq!(end(hint), Ending::Failed(limit("Too many requests [3 of 3]", false, None)));
    let spent = "Qwen OAuth quota exceeded: Your free daily quota has been reached.";
    assert_eq!(end(spent), Ending::Failed(limit(spent, true, None)));
    let key = "Missing API key for OpenAI-compatible auth.";
    assert!(matches!(end(key), Ending::Failed(Trouble::NotSignedIn { .. })));
    let full = "[API Error: Context is too large to send safely after automatic compression. \
                Estimated prompt tokens: 717742]";
    assert!(matches!(end(full), Ending::Failed(Trouble::ContextExhausted(_))));
    assert!(matches!(end("Else"), Ending::Failed(Trouble::BadRequest { status: 0, .. })));
}

#[test]
fn without_a_word_it_has_no_such_session() {
    let world = World::default();
    let mut dialogue = Qwen.dialogue(&job(&world, Conversation::Resume { id: ID }));
    let mut heard = Heard::default();
    dialogue.error_line("No saved session found with ID x.", &mut heard);
    dialogue.exited(Some(1), &mut heard);
    let message = "No saved session found with ID x.".to_owned();
    let trouble = Trouble::BadRequest { status: 0, message };
    assert_eq!(solid(heard.signals), [Signal::Ended(Ending::Failed(trouble))]);
}

#[test]
fn each_conversation_and_permission_has_its_flags() {
    let world = World::default();
    let shown =
        |conversation, permission| args(&Qwen, &Job { permission, ..job(&world, conversation) });
    let head = "--output-format stream-json --include-partial-messages";
    let beyond = "'--exclude-tools=agent(claude-code),agent(codex),enter_worktree'";
    assert_eq!(
        shown(Conversation::New { id: "n" }, Permission::Full),
        format!("{head} --session-id n --approval-mode yolo")
    );
    assert_eq!(
        shown(Conversation::Resume { id: "n" }, Permission::ReadOnly),
        format!("{head} --resume n --approval-mode default {beyond}")
    );
    assert_eq!(
        shown(Conversation::Fork { from: "o", id: "n", at: None }, Permission::Edit),
        format!("{head} --resume o --fork-session --approval-mode auto-edit {beyond}")
    );
    assert_eq!(
        envs(&Qwen, &job(&world, Conversation::New { id: "n" })),
        [
            ("QWEN_CODE_NO_RELAUNCH", "true".to_owned(), false),
            ("QWEN_CODE_DISABLE_CRON", "1".to_owned(), true),
        ]
    );
}

#[test]
fn its_file_tells_the_last_turn_and_the_running_call() {
    let home = Home::new();
    let mut torn = record("qwen", "session_killed.jsonl");
    torn.extend_from_slice(b"{\"uuid\":\"x\",\"type\":\"assist");
    let path = home.put(".qwen/projects/-work/chats/killed.jsonl", torn);
    home.put(
        ".qwen/projects/-work/chats/interrupted.jsonl",
        record("qwen", "session_interrupted.jsonl"),
    );
    let read = |id| Qwen.history(&home.world, Path::new("/work"), id).unwrap();
    let found = read("killed").unwrap();
    assert_eq!((found.path, found.prompts), (path, 1));
    let call = [("call_8c45320d603a0001_0", false)];
    assert_eq!(found.last, last("Say hello, please.", &["I run it. "], &call));
    let call = [("call_8fdf231db57c0001_0", true)];
    assert_eq!(
        read("interrupted").unwrap().last,
        last("Say hello, please.", &["I run it. "], &call)
    );
    assert_eq!(read("another"), None);
    assert_eq!(Qwen.history(&home.world, Path::new("/elsewhere"), "killed").unwrap(), None);
}

#[test]
fn keys_are_found_where_it_keeps_them() {
    let home = Home::new();
    assert_eq!(Qwen.signed_in(&home.world), SignIn::No);
    home.put(".qwen/settings.json", "{}");
    assert_eq!(Qwen.signed_in(&home.world), SignIn::Unknown);
    home.put(".qwen/oauth_creds.json", "{}");
    assert_eq!(Qwen.signed_in(&home.world), SignIn::Yes("Qwen".to_owned()));
}
