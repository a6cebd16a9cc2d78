//! What the real programs showed, in panes of 160x45 and, where a name ends in `-narrow`, of 100x30.

use std::{fs, path::PathBuf};

use segue_core::Permission;

use super::*;

const SCREENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/terminal/screens");

/// All screens: vendor, state, title and text.
fn screens() -> Vec<(String, String, String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(SCREENS).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let all = fs::read_to_string(&path).unwrap();
        let (title, text) = all.split_once('\n').unwrap();
        let title = title.strip_prefix("title:").unwrap().trim();
        let (vendor, state) = name.split_once('-').unwrap();
        found.push((vendor.to_owned(), state.to_owned(), title.to_owned(), text.to_owned()));
    }
    found.sort();
    found
}

fn screen_of(name: &str) -> (String, String) {
    let (vendor, state) = name.split_once('-').unwrap();
    let found = screens().into_iter().find(|(v, s, ..)| v == vendor && s == state);
    found.map(|(_, _, title, text)| (title, text)).unwrap()
}

#[test]
fn every_screen_is_what_its_name_says() {
    let screens = screens();
    assert!(screens.len() > 80, "{}", screens.len());
    let mut wrong = Vec::new();
    for (vendor, state, title, text) in &screens {
        let sight = find(vendor).unwrap().sight(&Screen { text, title });
        let word = match &sight {
            Sight::Starting => "starting",
            Sight::Idle => "idle",
            Sight::Busy => "busy",
            Sight::Waiting(_) => "waiting",
        };
        if !state.starts_with(word) {
            wrong.push(format!("{vendor}-{state}: {sight:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_asked_is_told_in_the_programs_words() {
    let asked = [
        ("claude-waiting-permission", "Do you want to proceed?"),
        ("claude-waiting-question", "Which colour?"),
        ("claude-waiting-bypass", "WARNING: Claude Code running in Bypass Permissions mode"),
        ("claude-waiting-model-narrow", "Select model"),
        ("claude-waiting-picker-narrow", "Resume session"),
        ("claude-waiting-key", "Do you want to use this API key?"),
        ("codex-waiting-permission", "Would you like to run the following command?"),
        ("codex-waiting-login", "Choose how you want to use Codex."),
        ("codex-waiting-cwd", "Working directory · resume"),
        ("codex-waiting-inuse", "🔒  This conversation is open in another app"),
        ("gemini-waiting-permission", "Allow execution of [Shell]?"),
        ("gemini-waiting-edit-narrow", "Apply this change?"),
        ("gemini-waiting-trust", "Do you trust the files in this folder?"),
        ("gemini-waiting-auth", "How would you like to authenticate for this project?"),
        ("gemini-waiting-model", "Select Model"),
        ("copilot-waiting-permission", "Do you want to run this command?"),
        ("copilot-waiting-trust-narrow", "Do you trust the files in this folder?"),
        ("copilot-waiting-inuse", "Session in use"),
        ("opencode-waiting-permission", "Permission required: Shell command"),
        ("opencode-waiting-model", "Select model"),
    ];
    for (name, question) in asked {
        let (title, text) = screen_of(name);
        let terminal = find(name.split('-').next().unwrap()).unwrap();
        let sight = terminal.sight(&Screen { text: &text, title: &title });
        assert_eq!(sight, Sight::Waiting(question.to_owned()), "{name}");
    }
}

#[test]
fn what_was_typed_is_seen_in_the_input_box_and_only_there() {
    for vendor in ["claude", "codex", "gemini", "copilot", "opencode"] {
        let terminal = find(vendor).unwrap();
        for narrow in ["", "-narrow"] {
            let (title, text) = screen_of(&format!("{vendor}-idle-typed{narrow}"));
            let screen = Screen { text: &text, title: &title };
            assert_eq!(terminal.unsent(&screen, "Typed, not sent"), Some(true), "{vendor}{narrow}");
            assert_eq!(terminal.unsent(&screen, "Something else"), Some(false), "{vendor}");
            // It was said, so it is on the screen, but not in the box.
            let (title, text) = screen_of(&format!("{vendor}-idle-answered{narrow}"));
            let screen = Screen { text: &text, title: &title };
            let said = text.lines().find_map(|line| line.find("Hello ").map(|at| &line[at..]));
            let said = said.unwrap_or_default().split("  ").next().unwrap_or_default();
            assert_eq!(terminal.unsent(&screen, said), Some(false), "{vendor}: {said}");
        }
    }
    for vendor in ["claude", "codex", "gemini", "copilot"] {
        let (title, text) = screen_of(&format!("{vendor}-idle-pasted"));
        let screen = Screen { text: &text, title: &title };
        let unsent = find(vendor).unwrap().unsent(&screen, "First line of several [plain]");
        assert_eq!(unsent, Some(true), "{vendor}");
    }
}

#[test]
fn a_question_is_short() {
    let text = format!("{} word ?\n", "long ".repeat(60));
    let words = Words { waiting: Some("word".to_owned()), ..Words::default() };
    let Sight::Waiting(question) = words.sight(&Screen { text: &text, title: "" }) else {
        panic!()
    };
    assert_eq!(question.chars().count(), Sight::QUESTION);
}

#[test]
fn words_in_their_order() {
    let word = |word: &str| Some(word.to_owned());
    let words = Words { ready: word("$"), busy: word("working"), waiting: word("(y/n)") };
    let sight = |words: &Words, text: &str| words.sight(&Screen { text, title: "" });
    assert_eq!(sight(&words, "\n \n"), Sight::Starting);
    assert_eq!(sight(&words, "hello"), Sight::Busy);
    assert_eq!(sight(&words, "hello\n$ \n\n"), Sight::Idle);
    assert_eq!(sight(&words, "working\n$ "), Sight::Busy);
    assert_eq!(sight(&words, "go on? (y/n)\nworking"), Sight::Waiting("go on? (y/n)".into()));
    assert_eq!(sight(&words, "go on? (y/n)\nworking\n$ "), Sight::Busy);
    let far = format!("working\n{}$ ", "said\n".repeat(20));
    assert_eq!(sight(&words, &far), Sight::Idle);
    assert_eq!(sight(&Words::default(), ""), Sight::Starting);
    assert_eq!(sight(&Words::default(), "x"), Sight::Idle);
}

/// The arguments as one line, for a conversation and a permission.
fn shown(vendor: &str, conversation: Conversation<'_>, permission: Permission) -> String {
    let world = World { home: "/home/me".into(), ..World::default() };
    let sitting = Sitting {
        conversation,
        cwd: Path::new("/work"),
        model: Some("m"),
        permission,
        extra: &["--more".to_owned()],
        world: &world,
        files: Path::new("/files"),
        tools: None,
    };
    find(vendor).unwrap().call(&sitting).shown()
}

#[test]
fn arguments() {
    let new = Conversation::New { id: "ID" };
    let old = Conversation::Resume { id: "ID" };
    let edit = Permission::Edit;
    let all = [
        ("claude", new, "--session-id ID --permission-mode acceptEdits --model m --more"),
        ("claude", old, "--resume ID --permission-mode acceptEdits --model m --more"),
        (
            "codex",
            new,
            "--no-daemon --sandbox workspace-write --ask-for-approval on-request --cd /work \
             --model m --more",
        ),
        (
            "codex",
            old,
            "resume --no-daemon --sandbox workspace-write --ask-for-approval on-request \
             --cd /work --model m --more ID",
        ),
        ("gemini", new, "--session-id ID --approval-mode auto_edit --model m --more"),
        ("gemini", old, "--resume ID --approval-mode auto_edit --model m --more"),
        ("copilot", new, "--no-auto-update --session-id ID --allow-tool=write --model m --more"),
        (
            "copilot",
            old,
            "--no-auto-update --resume=ID -C /work --allow-tool=write --model m --more",
        ),
        ("cursor", new, "--model m --more"),
        ("cursor", old, "--resume ID --model m --more"),
        ("opencode", new, "-m m --more"),
        ("opencode", old, "-s ID -m m --more"),
    ];
    for (vendor, conversation, args) in all {
        assert_eq!(shown(vendor, conversation, edit), args, "{vendor}");
    }
    for terminal in ALL {
        let kinds = Permission::ALL.map(|permission| shown(terminal.name(), new, permission));
        assert!(kinds[2] != kinds[1], "{}", kinds[2]);
    }
}

fn seated<'a>(world: &'a World, taken: &'a [String]) -> Seated<'a> {
    let pid = std::process::id();
    let since = Timestamp::UNIX_EPOCH;
    Seated { pid, cwd: Path::new("/work"), since, first_prompt: Some("do it"), world, taken }
}

#[test]
fn claude_is_known_by_its_own_file_unless_that_is_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let world = World { home: dir.path().into(), ..World::default() };
    let sessions = dir.path().join(".claude/sessions");
    fs::create_dir_all(&sessions).unwrap();
    let pid = std::process::id();
    let write = |start: &str| {
        let text = format!(r#"{{"pid":{pid},"sessionId":"s1","procStart":"{start}"}}"#);
        fs::write(sessions.join(format!("{pid}.json")), text).unwrap();
    };
    assert_eq!(Claude.identify(&seated(&world, &[])), None);
    write("1");
    assert_eq!(Claude.identify(&seated(&world, &[])), None);
    write(&process::began(pid).unwrap().to_string());
    assert_eq!(Claude.identify(&seated(&world, &[])).as_deref(), Some("s1"));
    assert_eq!(Claude.identify(&seated(&world, &["s1".to_owned()])), None);
}

#[test]
fn codex_is_known_by_the_file_it_has_open_or_by_what_was_said() {
    const ID: &str = "01a1e071-14db-78f3-b6c3-2c6816b45726";
    let dir = tempfile::tempdir().unwrap();
    let world = World { home: dir.path().into(), ..World::default() };
    let day = dir.path().join(".codex/sessions/2026/11/15");
    fs::create_dir_all(&day).unwrap();
    let rollout = |id: &str, prompt: &str| -> PathBuf {
        let path = day.join(format!("rollout-2026-11-15T20-00-00-{id}.jsonl"));
        let lines = format!(
            "{{\"type\":\"session_meta\",\"payload\":{{\"id\":\"{id}\",\"cwd\":\"/work\",\
             \"timestamp\":\"2026-11-15T20:00:00Z\"}}}}\n{{\"type\":\"event_msg\",\"payload\":\
             {{\"type\":\"user_message\",\"message\":\"{prompt}\"}}}}\n"
        );
        fs::write(&path, lines).unwrap();
        path
    };
    let path = rollout(ID, "do it");
    assert_eq!(Codex.identify(&seated(&world, &[])).as_deref(), Some(ID));
    assert_eq!(Codex.identify(&seated(&world, &[ID.to_owned()])), None);
    // Another one that began alike: nobody can tell which, until one is seen open.
    let other = ID.replace("01a1", "01a2");
    rollout(&other, "do it");
    assert_eq!(Codex.identify(&seated(&world, &[])), None);
    assert_eq!(Codex.identify(&seated(&world, &[other])).as_deref(), Some(ID));
    let open = fs::File::open(path).unwrap();
    assert_eq!(Codex.identify(&seated(&world, &[])).as_deref(), Some(ID));
    drop(open);
}

#[test]
fn copilot_is_known_by_its_mark() {
    let dir = tempfile::tempdir().unwrap();
    let world = World { home: dir.path().into(), ..World::default() };
    let state = dir.path().join(".copilot/session-state");
    for (id, pid) in [("a", 1), ("b", std::process::id())] {
        fs::create_dir_all(state.join(id)).unwrap();
        fs::write(state.join(id).join(format!("inuse.{pid}.lock")), "").unwrap();
    }
    assert_eq!(Copilot.identify(&seated(&world, &[])).as_deref(), Some("b"));
}
