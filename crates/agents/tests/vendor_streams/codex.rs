//! What `codex app-server` answered, and what its adapter makes of it and says.

use std::path::Path;

use segue_agents::vendor::{
    Conversation, Ending, Heard, Job, Signal, Trouble, Vendor, World, codex::Codex,
};
use segue_core::usage::Usage;

use crate::support::{Home, ID, ending, job, last, record, retries, returned, solid, texts, used};

const THREAD: &str = "01a1e1af-d306-7812-84e6-7e270e4a657e";

/// What is meant by a record, and what was said meanwhile.
fn talk(conversation: Conversation<'_>, name: &str) -> (Vec<Signal>, Vec<serde_json::Value>) {
    let world = World::default();
    let mut dialogue = Codex.dialogue(&job(&world, conversation));
    let opening = dialogue.open();
    assert!(!opening.close);
    let mut heard = Heard { say: opening.bytes, ..Heard::default() };
    for line in record("codex", &format!("{name}.jsonl")).split(|byte| *byte == b'\n') {
        if !line.is_empty() {
            dialogue.line(line, &mut heard).unwrap();
        }
    }
    let said = heard.say.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let said = said.map(|line| serde_json::from_slice(line).unwrap()).collect();
    assert!(heard.close, "it is over");
    (solid(heard.signals), said)
}

const NEW: Conversation<'_> = Conversation::New { id: ID };

#[test]
fn a_command_is_run() {
    let (heard, said) = talk(NEW, "shell");
    let methods: Vec<&str> = said.iter().map(|line| line["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "initialized", "thread/start", "turn/start"]);
    assert_eq!(said[2]["params"]["sandbox"], "workspace-write");
    assert_eq!(said[3]["params"]["input"][0]["text"], "Say hello, please.");
    assert_eq!(heard[0], Signal::Session(THREAD.to_owned()), "before anything else");
    assert_eq!(texts(&heard), ["I will run a command.", "Patch now.", "Done, all fine."]);
    let ends = returned(&heard);
    assert_eq!((ends[0].exit, ends[0].output.as_str()), (Some(0), "hi\n"));
    let usage = Usage { input: 32, output: 19, cache_read: 3, cache_write: 0, reasoning: 2 };
    assert_eq!(used(&heard), usage);
    assert_eq!(*ending(&heard), Ending::Finished);
}

#[test]
fn a_resumed_turn_counts_only_itself() {
    let (heard, said) = talk(Conversation::Resume { id: THREAD }, "resumed");
    assert_eq!(said[2]["method"], "thread/resume");
    assert_eq!(said[2]["params"]["threadId"], THREAD);
    let one = Usage { input: 11, output: 7, ..Usage::default() };
    assert_eq!(used(&heard), one, "the counts of the turns before are told again, and not ours");
    let (heard, said) = talk(Conversation::Fork { from: THREAD, id: ID, at: None }, "forked");
    assert_eq!(said[2]["method"], "thread/fork");
    assert_eq!(used(&heard), one);
    assert_ne!(heard[0], Signal::Session(THREAD.to_owned()));
}

#[test]
fn failures_are_told_apart() {
    let (heard, _) = talk(NEW, "usage");
    let at = jiff::Timestamp::from_second(1_794_799_000).ok();
    let window = "5 hour".to_owned();
    assert!(heard.contains(&Signal::Quota { window, used_percent: Some(100), resets_at: at }));
    let Ending::Failed(Trouble::Limit { resets_at, quota: true, .. }) = ending(&heard) else {
        panic!("{heard:#?}")
    };
    assert_eq!(*resets_at, at);

    let (heard, _) = talk(NEW, "cut");
    assert!(matches!(ending(&heard), Ending::Failed(Trouble::StreamCut(_))), "{heard:#?}");
    assert_eq!(retries(&heard).len(), 1);

    let (heard, _) = talk(Conversation::Resume { id: "none" }, "unknown");
    assert!(matches!(ending(&heard), Ending::Failed(Trouble::BadRequest { .. })));
}

#[test]
fn a_prompt_over_its_limit_comes_before_the_turn() {
    let world = World::default();
    let prompt = "ü".repeat(1_100_000);
    let mut dialogue = Codex.dialogue(&Job { prompt: &prompt, ..job(&world, NEW) });
    dialogue.open();
    let mut heard = Heard::default();
    for line in [r#"{"id":1,"result":{}}"#, r#"{"id":2,"result":{"thread":{"id":"t"}}}"#] {
        heard.say.clear();
        dialogue.line(line.as_bytes(), &mut heard).unwrap();
    }
    let said: serde_json::Value = serde_json::from_slice(&heard.say).unwrap();
    assert_eq!(said["method"], "thread/inject_items");
    assert_eq!(said["params"]["items"][0]["content"][0]["text"].as_str(), Some(&*prompt));
    heard.say.clear();
    dialogue.line(br#"{"id":5,"result":{}}"#, &mut heard).unwrap();
    let said: serde_json::Value = serde_json::from_slice(&heard.say).unwrap();
    assert_eq!(said["method"], "turn/start");
}

#[test]
fn what_its_file_remembers_and_how_it_is_found() {
    let home = Home::new();
    let rollout = record("codex", "rollout.jsonl");
    let name = format!(".codex/sessions/2026/11/16/rollout-2026-11-16T00-09-18-{THREAD}.jsonl");
    home.put(&name, &rollout);
    let history = Codex.history(&home.world, Path::new("/work"), THREAD).unwrap().unwrap();
    assert_eq!(history.prompts, 2);
    assert_eq!(history.last, last("do it", &["Resumed."], &[]));
    assert_eq!(Codex.history(&home.world, Path::new("/work"), ID).unwrap(), None);
    // A kill has left no more of it than its name.
    home.put(&name.replace(THREAD, ID), b"");
    assert_eq!(Codex.history(&home.world, Path::new("/work"), ID).unwrap(), None);

    let before: jiff::Timestamp = "2026-11-16T00:09:00Z".parse().unwrap();
    let after: jiff::Timestamp = "2026-11-16T00:10:00Z".parse().unwrap();
    let find =
        |cwd: &str, since, prompt: &str| Codex.discover(&home.world, Path::new(cwd), since, prompt);
    assert_eq!(find("/work", before, "do it").as_deref(), Some(THREAD));
    assert_eq!(find("/elsewhere", before, "do it"), None);
    assert_eq!(find("/work", after, "do it"), None);
    assert_eq!(find("/work", before, "do something else"), None);
}
