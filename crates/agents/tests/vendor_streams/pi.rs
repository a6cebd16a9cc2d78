//! What pi printed, and what its adapter makes of it.

use std::{path::Path, time::Duration};

use crate::support::{
    Home, ID, all, args, ending, job, last, limit, record, retries, returned, texts, told, used,
};
use segue_agents::vendor::{
    Conversation, Ending, Heard, Job, SignIn, Signal, ToolEnd, Trouble, Vendor, World, pi::Pi,
};
use segue_core::{Permission, usage::Usage};

const LATER: &str = "Rate limit reached for scripted-model on requests per min (RPM): Limit 3, \
                     Used 3, Requested 1. Please try again in 1s.";

#[test]
fn a_plain_answer() {
    let world = World::default();
    let heard = all(&Pi, &world, Conversation::New { id: ID }, "text", Some(0));
    let usage = Usage { input: 100, output: 20, cache_read: 30, cache_write: 0, reasoning: 5 };
    let model = || "scripted-model".to_owned();
    assert_eq!(
        heard,
        [
            Signal::Session("00000001-aaaa-4aaa-8aaa-000000000001".to_owned()),
            Signal::Thinking,
            Signal::Writing("Hello from the ".to_owned()),
            Signal::Writing("scripted model.".to_owned()),
            Signal::Thinking,
            Signal::Model(model()),
            Signal::Text("Hello from the scripted model.".to_owned()),
            Signal::Used { model: Some(model()), usage, cost: None },
            Signal::Ended(Ending::Finished),
        ]
    );
}

#[test]
fn tools_that_write_tell_the_file_and_a_refused_one_fails() {
    let heard = told(&Pi, "edit", Some(0));
    assert_eq!(texts(&heard), ["I write. ", "All done."]);
    let calls = heard.iter().filter_map(|signal| match signal {
        Signal::ToolCalled { name, input, .. } => Some((name.as_str(), input.as_str())),
        _ => None,
    });
    assert_eq!(
        calls.collect::<Vec<_>>()[..2],
        [
            ("write", r#"{"content":"it is\nhere\n","path":"/work/made.txt"}"#),
            ("edit", r#"{"edits":[{"newText":"there","oldText":"here"}],"path":"made.txt"}"#),
        ]
    );
    let ends = returned(&heard);
    assert_eq!(ends[0].touched, ["/work/made.txt"]);
    assert_eq!(ends[1].touched, ["made.txt"]);
    let refused = ToolEnd::new(&*ends[2].id, false, "Tool bash not found");
    assert_eq!(ends[2], &refused);
    assert_eq!(*ending(&heard), Ending::Finished);
    let usage = Usage { input: 400, output: 80, cache_read: 120, cache_write: 0, reasoning: 20 };
    assert_eq!(used(&heard), usage);
}

#[test]
fn a_command_that_failed_tells_its_status() {
    let heard = told(&Pi, "full", Some(0));
    let ends = returned(&heard);
    assert_eq!(ends[2].exit, Some(3));
    assert!(ends[2].output.starts_with("out\n"));
    assert_eq!(ends[0].exit, None);
}

#[test]
fn a_limit_is_tried_again_before_it_is_told() {
    let heard = told(&Pi, "limit", Some(0));
    let again = |seconds| Signal::Retrying {
        trouble: limit(LATER, false, None),
        wait: Some(Duration::from_secs(seconds)),
    };
    assert_eq!(retries(&heard), [&again(2), &again(4), &again(8)]);
    assert_eq!(*ending(&heard), Ending::Failed(limit(LATER, false, None)));
}

#[test]
fn a_quota_a_wrong_key_and_a_full_context_are_told_at_once() {
    let quota = told(&Pi, "quota", Some(0));
    assert!(retries(&quota).is_empty());
    let message = "You exceeded your current quota, please check your plan and billing details.";
    assert_eq!(*ending(&quota), Ending::Failed(limit(message, true, None)));
    let key = told(&Pi, "unauthorized", Some(0));
    assert!(matches!(
        ending(&key),
        Ending::Failed(Trouble::NotSignedIn { fix, .. }) if fix == "pi, then /login"
    ));
    let full = told(&Pi, "context", Some(0));
    assert!(matches!(ending(&full), Ending::Failed(Trouble::ContextExhausted(_))));
}

#[test]
fn servers_and_connections_fail_in_their_own_ways() {
    let server = told(&Pi, "server", Some(0));
    assert!(matches!(ending(&server), Ending::Failed(Trouble::Server { status: 500, .. })));
    let cut = told(&Pi, "cut", Some(0));
    assert_eq!(*ending(&cut), Ending::Failed(Trouble::StreamCut("terminated".to_owned())));
    let none = told(&Pi, "no_network", Some(0));
    let network = Trouble::Network("Connection error.".to_owned());
    assert_eq!(*ending(&none), Ending::Failed(network));
}

/// Nothing but its message tells of an error inside of a stream; that pi tried again does.
#[test]
fn what_it_tried_again_is_a_servers_trouble() {
    let heard = told(&Pi, "stream_error", Some(0));
    let message = "Our servers are currently overloaded. Please try again later.".to_owned();
    assert_eq!(*ending(&heard), Ending::Failed(Trouble::Server { status: 500, message }));
}

#[test]
fn parts_of_answers_are_no_texts() {
    let cut = told(&Pi, "cut", Some(0));
    assert!(texts(&cut).is_empty());
    let once = told(&Pi, "cut_once", Some(0));
    assert_eq!(texts(&once), ["Hello from the scripted model, who has more to say than this."]);
    assert_eq!(retries(&once).len(), 1);
    assert_eq!(*ending(&once), Ending::Finished);
}

#[test]
fn an_answer_may_be_cut_short_or_refused() {
    assert_eq!(*ending(&told(&Pi, "truncated", Some(0))), Ending::Truncated);
    assert_eq!(*ending(&told(&Pi, "refused", Some(0))), Ending::Refused);
}

#[test]
fn one_that_was_killed_has_no_end() {
    let heard = told(&Pi, "killed", None);
    let open = heard.iter().any(|signal| matches!(signal, Signal::ToolCalled { .. }));
    assert!(open && returned(&heard).is_empty());
    assert!(!heard.iter().any(|signal| matches!(signal, Signal::Ended(_))));
}

#[test]
fn without_a_word_it_has_refused_its_arguments() {
    let world = World::default();
    let mut dialogue = Pi.dialogue(&job(&world, Conversation::Resume { id: ID }));
    let mut heard = Heard::default();
    dialogue.error_line("No session found matching 'x'", &mut heard);
    dialogue.exited(Some(1), &mut heard);
    let message = "No session found matching 'x'".to_owned();
    assert_eq!(
        heard.signals,
        [Signal::Ended(Ending::Failed(Trouble::BadRequest { status: 0, message }))]
    );
}

#[test]
fn each_conversation_and_permission_has_its_flags() {
    let world = World::default();
    let shown =
        |conversation, permission| args(&Pi, &Job { permission, ..job(&world, conversation) });
    assert_eq!(
        shown(Conversation::New { id: "n" }, Permission::Full),
        "-p --mode json --session-id n"
    );
    assert_eq!(
        shown(Conversation::Resume { id: "n" }, Permission::ReadOnly),
        "-p --mode json --session n --tools read,grep,find,ls"
    );
    assert_eq!(
        shown(Conversation::Fork { from: "o", id: "n", at: None }, Permission::Edit),
        "-p --mode json --fork o --session-id n --tools read,grep,find,ls,edit,write"
    );
}

#[test]
fn its_file_tells_the_last_turn() {
    let home = Home::new();
    let dir = ".pi/agent/sessions/--work--";
    let path = home
        .put(&format!("{dir}/2026-11-16T00-13-25-390Z_{ID}.jsonl"), record("pi", "session.jsonl"));
    let found = Pi.history(&home.world, Path::new("/work"), ID).unwrap().unwrap();
    assert_eq!((found.path, found.prompts), (path, 2));
    let answer = ["Hello from the scripted model."];
    assert_eq!(found.last, last("And again, please.", &answer, &[]));
    assert_eq!(Pi.history(&home.world, Path::new("/elsewhere"), ID).unwrap(), None);
    assert_eq!(Pi.history(&home.world, Path::new("/work"), "another").unwrap(), None);
}

#[test]
fn its_file_knows_the_running_call_and_forgets_failed_answers() {
    let home = Home::new();
    let dir = ".pi/agent/sessions/--work--";
    let mut torn = record("pi", "session_killed.jsonl");
    torn.extend_from_slice(b"{\"type\":\"message\",\"mess");
    home.put(&format!("{dir}/t_killed.jsonl"), torn);
    home.put(&format!("{dir}/t_failed.jsonl"), record("pi", "session_failed.jsonl"));
    let read = |id| Pi.history(&home.world, Path::new("/work"), id).unwrap().unwrap();
    let call = [("call_838509c34f910001_0", false)];
    assert_eq!(read("killed").last, last("Say hello, please.", &["I run it. "], &call));
    assert_eq!(read("failed").last, last("Say hello, please.", &[], &[]));
}

#[test]
fn keys_are_found_where_it_keeps_them() {
    let home = Home::new();
    assert_eq!(Pi.signed_in(&home.world), SignIn::No);
    home.put(".pi/agent/models.json", "{}");
    assert_eq!(Pi.signed_in(&home.world), SignIn::Unknown);
    home.put(".pi/agent/auth.json", r#"{"anthropic":{"type":"oauth"}}"#);
    assert_eq!(Pi.signed_in(&home.world), SignIn::Yes("anthropic".to_owned()));
}
