//! What Claude Code printed, and what its adapter makes of it.

use std::path::Path;

use segue_agents::vendor::{
    Conversation, Ending, Job, Signal, Trouble, Vendor, World, claude::Claude,
};
use segue_core::{
    Permission,
    usage::{Micros, Usage},
};

use crate::support::{
    Home, ID, all, args, ending, job, last, record, retries, returned, texts, told, used,
};

#[test]
fn a_file_is_written_and_everything_is_counted_once() {
    let heard = told(&Claude, "write", Some(0));
    assert!(heard.contains(&Signal::Session(ID.to_owned())));
    assert!(heard.contains(&Signal::Model("claude-opus-5-5".to_owned())));
    assert!(heard.contains(&Signal::Version("2.1.325".to_owned())));
    assert!(heard.contains(&Signal::Thought("let me think".to_owned())));
    assert_eq!(texts(&heard), ["I will write a file.", "Done, all fine."]);
    let ends = returned(&heard);
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].touched, ["/work/a.txt"]);
    let usage = Usage { input: 21, output: 12, cache_read: 3, cache_write: 2, reasoning: 0 };
    assert_eq!(used(&heard), usage);
    assert!(heard.contains(&Signal::Cost(Micros(335))));
    assert_eq!(*ending(&heard), Ending::Finished);
}

#[test]
fn pieces_come_before_the_whole() {
    let world = World::default();
    let heard = all(&Claude, &world, Conversation::New { id: ID }, "write", Some(0));
    let written: String = heard
        .iter()
        .filter_map(|signal| match signal {
            Signal::Writing(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(written, "I will write a file.Done, all fine.");
}

#[test]
fn a_resumed_turn_counts_only_itself() {
    // Its `total_cost_usd` and `modelUsage` count from the conversation's start.
    let heard = told(&Claude, "resumed", Some(0));
    let usage = Usage { input: 11, output: 7, ..Usage::default() };
    assert_eq!(used(&heard), usage);
    assert!(heard.contains(&Signal::Cost(Micros(184))), "{heard:#?}");
}

#[test]
fn a_usage_limit_has_its_window_and_its_reset() {
    let heard = told(&Claude, "limit", Some(1));
    let at = jiff::Timestamp::from_second(1_794_799_000).ok();
    let window = "five_hour".to_owned();
    assert!(heard.contains(&Signal::Quota { window, used_percent: Some(100), resets_at: at }));
    let Ending::Failed(Trouble::Limit { resets_at, quota, .. }) = ending(&heard) else {
        panic!("{heard:#?}")
    };
    assert_eq!((*resets_at, *quota), (at, true));
    assert!(texts(&heard).is_empty(), "its own error text is no text of the agent");
}

#[test]
fn failures_are_told_apart() {
    let failed = |name: &str| match ending(&told(&Claude, name, Some(1))) {
        Ending::Failed(trouble) => trouble.clone(),
        other => panic!("{name}: {other:?}"),
    };
    assert!(matches!(failed("server"), Trouble::Server { status: 500, .. }));
    assert!(matches!(failed("cut"), Trouble::StreamCut(_)), "{:?}", failed("cut"));
    assert!(matches!(failed("context"), Trouble::ContextExhausted(_)));
    assert_eq!(retries(&told(&Claude, "server", Some(1))).len(), 1);
}

#[test]
fn what_its_file_remembers() {
    let home = Home::new();
    let whole = record("claude", "session.jsonl");
    let path = home.put(&format!(".claude/projects/-work/{ID}.jsonl"), &whole);
    let history = Claude.history(&home.world, Path::new("/work"), ID).unwrap().unwrap();
    assert_eq!((history.path, history.prompts), (path.clone(), 2));
    assert_eq!(history.last, last("again\n", &["Second."], &[]));

    // Without its second turn and with the first one's result torn off, the call is unanswered.
    let text = String::from_utf8(whole).unwrap();
    let call = text.find("tool_result").unwrap();
    std::fs::write(&path, &text[..call]).unwrap();
    let history = Claude.history(&home.world, Path::new("/elsewhere"), ID).unwrap().unwrap();
    let id = "toolu_af15128216e00001_0";
    assert_eq!(history.last, last("make a file\n", &["I will write a file."], &[(id, false)]));
    assert_eq!(Claude.history(&home.world, Path::new("/work"), "another").unwrap(), None);
}

#[test]
fn what_it_is_called_with() {
    let world = World::default();
    let called =
        |conversation, permission| args(&Claude, &Job { permission, ..job(&world, conversation) });
    let basis = "-p --output-format stream-json --verbose --include-partial-messages";
    assert_eq!(
        called(Conversation::New { id: ID }, Permission::Edit),
        format!("{basis} --session-id {ID} --permission-mode acceptEdits")
    );
    let forked = called(Conversation::Fork { from: "old", id: ID, at: None }, Permission::Full);
    assert_eq!(
        forked,
        format!(
            "{basis} --resume old --fork-session --session-id {ID} --permission-mode bypassPermissions"
        )
    );
    let root = World { root: true, ..World::default() };
    let conversation = Conversation::Resume { id: ID };
    let as_root = Job { permission: Permission::Full, ..job(&root, conversation) };
    assert!(!args(&Claude, &as_root).contains("bypass"), "root is refused that");
}
