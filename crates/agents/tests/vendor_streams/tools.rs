//! How each vendor's program is told of our own tools, for one run.

use std::{fs, os::unix::fs::symlink, path::Path};

use segue_agents::vendor::{
    ALL, Call, Conversation, Heard, Job, Signal, ToolServer, Vendor, World, claude::Claude,
    codex::Codex, copilot::Copilot, gemini::Gemini, opencode::OpenCode,
};
use segue_core::Permission;
use serde_json::{Value, json};

use crate::support::{Home, ID, job};

const NEW: Conversation<'_> = Conversation::New { id: ID };

fn args() -> Vec<String> {
    ["mcp", "--dir", "/s/it's \"1\"", "--turn", "3", "--agent", "x"].map(str::to_owned).to_vec()
}

fn call(vendor: &dyn Vendor, world: &World, permission: Permission) -> Call {
    let args = args();
    let tools = Some(ToolServer { program: Path::new("/bin/segue"), args: &args });
    vendor.call(&Job { tools, permission, ..job(world, NEW) })
}

fn after<'a>(call: &'a Call, start: &str) -> &'a str {
    let found = call.args.iter().find_map(|arg| arg.to_str().unwrap().strip_prefix(start));
    found.unwrap_or_else(|| panic!("{start}: {}", call.shown()))
}

fn next<'a>(call: &'a Call, flag: &str) -> &'a str {
    let at = call.args.iter().position(|arg| arg == flag).unwrap();
    call.args[at + 1].to_str().unwrap()
}

#[test]
fn claude() {
    let world = World::default();
    for permission in Permission::ALL {
        let call = call(&Claude, &world, permission);
        let told: Value = serde_json::from_str(after(&call, "--mcp-config=")).unwrap();
        let server = json!({
            "command": "/bin/segue", "args": args(), "type": "stdio", "alwaysLoad": true,
        });
        assert_eq!(told, json!({ "mcpServers": { "segue": server } }));
        assert_eq!(after(&call, "--allowedTools="), "mcp__segue");
        assert!(!call.shown().contains("strict"), "the user's own servers stay");
    }
    let root = World { root: true, ..World::default() };
    let call = call(&Claude, &root, Permission::Full);
    assert!(after(&call, "--allowedTools=").starts_with("Bash,"));
    assert!(after(&call, "--allowedTools=").ends_with(",Write,mcp__segue"));
}

#[test]
fn codex() {
    let call = call(&Codex, &World::default(), Permission::ReadOnly);
    let setting = next(&call, "-c");
    let told: toml::Table = toml::from_str(setting).unwrap();
    let server = &told["mcp_servers"]["segue"];
    assert_eq!(server["command"].as_str(), Some("/bin/segue"));
    let told: Vec<&str> =
        server["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    assert_eq!(told, args());
    assert_eq!(server["default_tools_approval_mode"].as_str(), Some("approve"));
    assert!(server.get("required").is_none(), "a server that fails ends no turn");
}

#[test]
fn copilot() {
    let world = World::default();
    for permission in Permission::ALL {
        let call = call(&Copilot, &world, permission);
        let told: Value = serde_json::from_str(next(&call, "--additional-mcp-config")).unwrap();
        assert_eq!(told["mcpServers"]["segue"]["command"], "/bin/segue");
        assert_eq!(told["mcpServers"]["segue"]["tools"], json!(["*"]));
        assert_eq!(after(&call, "--allow-tool=seg"), "ue");
    }
}

#[test]
fn opencode() {
    let told = |world: &World, permission| {
        let call = call(&OpenCode, world, permission);
        let value = |name: &str| {
            let set = call.env.iter().find(|set| set.name == name && !set.keep)?;
            Some(serde_json::from_str::<Value>(&set.value).unwrap())
        };
        (value("OPENCODE_CONFIG_CONTENT"), value("OPENCODE_PERMISSION"))
    };
    let (settings, rules) = told(&World::default(), Permission::ReadOnly);
    let mut command = vec!["/bin/segue".to_owned()];
    command.extend(args());
    let server = json!({ "type": "local", "command": command, "enabled": true });
    assert_eq!(settings.unwrap(), json!({ "mcp": { "segue": server } }));
    let rules = rules.unwrap();
    assert_eq!((&rules["segue_*"], &rules["edit"]), (&json!("allow"), &json!("deny")));

    let mut world = World::default();
    let users = r#"{"model":"a/b","mcp":{"mine":{"type":"local","command":["m"]}}}"#;
    world.env.insert("OPENCODE_CONFIG_CONTENT".to_owned(), users.to_owned());
    let (settings, rules) = told(&world, Permission::Full);
    let settings = settings.unwrap();
    assert_eq!((&settings["model"], rules), (&json!("a/b"), None));
    assert_eq!(settings["mcp"]["mine"]["command"], json!(["m"]));
    assert_eq!(settings["mcp"]["segue"]["enabled"], true);

    // What can't be read stays as it is, and nothing is allowed that is not there.
    world.env.insert("OPENCODE_CONFIG_CONTENT".to_owned(), "{ // no".to_owned());
    let (settings, rules) = told(&world, Permission::Edit);
    assert_eq!((settings, rules.unwrap().get("segue_*")), (None, None));
}

/// The home of a run has everything that the user's has, and one extension more.
#[test]
fn gemini() {
    let home = Home::new();
    home.put(".gemini/settings.json", "{ /* mine */ }");
    home.put(".gemini/projects.json", "{}");
    home.put(".gemini/extensions/mine/gemini-extension.json", "{}");
    home.put(".gemini/oauth_creds.json", "old");
    let run = tempfile::tempdir().unwrap();
    let args = args();
    let tools = Some(ToolServer { program: Path::new("/bin/segue"), args: &args });
    let made = |permission| {
        Gemini.call(&Job { tools, permission, files: run.path(), ..job(&home.world, NEW) })
    };
    let call = made(Permission::ReadOnly);
    let at = run.path().join("gemini-home");
    let place = at.to_str().unwrap().to_owned();
    assert!(call.env.iter().any(|set| set.name == "GEMINI_CLI_HOME" && set.value == place));
    // What a run has left: a new file in the place of a link.
    fs::create_dir_all(at.join(".gemini")).unwrap();
    fs::write(at.join(".gemini/projects.json"), "stale").unwrap();
    symlink("/nowhere", at.join(".gemini/settings.json")).unwrap();
    for _ in 0..2 {
        call.prepare(run.path()).unwrap();
        let read = |name: &str| fs::read_to_string(at.join(".gemini").join(name)).unwrap();
        assert_eq!(
            (read("settings.json").as_str(), read("projects.json").as_str()),
            ("{ /* mine */ }", "{}")
        );
        assert_eq!(read("extensions/mine/gemini-extension.json"), "{}");
        let ours: Value =
            serde_json::from_str(&read("extensions/segue-run/gemini-extension.json")).unwrap();
        assert_eq!(ours["mcpServers"]["segue"]["args"], json!(args));
        // Written through: what was there, what was not, and what is in directories.
        fs::write(at.join(".gemini/oauth_creds.json"), "new").unwrap();
        fs::write(at.join(".gemini/installation_id"), "me").unwrap();
        fs::write(at.join(".gemini/tmp/session"), "kept").unwrap();
    }
    let users =
        |name: &str| fs::read_to_string(home.world.home.join(".gemini").join(name)).unwrap();
    assert_eq!((users("oauth_creds.json"), users("installation_id")), ("new".into(), "me".into()));
    assert_eq!(
        (users("tmp/session"), users("settings.json")),
        ("kept".into(), "{ /* mine */ }".into())
    );
    assert!(!home.world.home.join(".gemini/extensions/segue-run").exists());
    let policy = fs::read_to_string(run.path().join("gemini-policy.toml")).unwrap();
    let rules: toml::Table = toml::from_str(&policy).unwrap();
    assert_eq!(rules["rule"][1]["mcpName"].as_str(), Some("segue"));
    // A session is removed without what its links lead to.
    fs::remove_dir_all(&at).unwrap();
    assert_eq!(users("tmp/session"), "kept");

    // Where another home would change more than that, the user's own is kept.
    let kept = |call: &Call| {
        call.links.is_empty() && call.files.iter().all(|file| file.0 == "gemini-policy.toml")
    };
    home.put(".gemini/settings.json", r#"{"context":{"includeDirectories":["~/notes"]}}"#);
    assert!(kept(&made(Permission::Edit)));
    home.put(".gemini/settings.json", r#"{"tools":{"sandbox":"docker"}}"#);
    assert!(kept(&made(Permission::Edit)));
}

#[test]
fn a_directory_that_is_in_no_list_is_found_by_its_own_word() {
    let home = Home::new();
    home.put(".gemini/projects.json", r#"{"projects":{"/other":"other"}}"#);
    home.put(".gemini/tmp/work-1/.project_root", "/work");
    home.put(
        &format!(".gemini/tmp/work-1/chats/session-2026-11-16T00-35-{}.jsonl", &ID[..8]),
        crate::support::record("gemini", "session_resumed.jsonl"),
    );
    let found = Gemini.history(&home.world, Path::new("/work"), ID).unwrap();
    assert!(found.is_some());
    assert_eq!(Gemini.history(&home.world, Path::new("/else"), ID).unwrap(), None);
}

#[test]
fn those_that_take_none_are_called_as_ever() {
    let world = World::default();
    for vendor in ALL.iter().filter(|vendor| !vendor.card().can.tools) {
        let without = vendor.call(&job(&world, NEW));
        assert_eq!(call(*vendor, &world, Permission::Edit), without, "{}", vendor.card().name);
    }
}

#[test]
fn a_fork_can_begin_where_a_turn_ended() {
    let world = World::default();
    let fork = Conversation::Fork { from: "old", id: ID, at: Some("mark") };
    let claude = Claude.call(&job(&world, fork)).shown();
    assert!(claude.contains(&format!(
        "--resume old --fork-session --session-id {ID} --resume-session-at mark "
    )));
    let mut codex = Codex.dialogue(&job(&world, fork));
    codex.open();
    let mut heard = Heard::default();
    codex.line(br#"{"id":1,"result":{}}"#, &mut heard).unwrap();
    let said = String::from_utf8(heard.say).unwrap();
    let said: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(said["method"], "thread/fork");
    assert_eq!(
        (&said["params"]["threadId"], &said["params"]["lastTurnId"]),
        (&json!("old"), &json!("mark"))
    );
    for vendor in ALL {
        let name = vendor.card().name;
        assert_eq!(vendor.card().can.rewind, ["claude", "codex"].contains(&&*name), "{name}");
    }
}

fn marks(vendor: &dyn Vendor, lines: &[Value]) -> Vec<String> {
    let world = World::default();
    let mut dialogue = vendor.dialogue(&job(&world, NEW));
    dialogue.open();
    let mut heard = Heard::default();
    for line in lines {
        dialogue.line(line.to_string().as_bytes(), &mut heard).unwrap();
    }
    let mark = |signal: &Signal| match signal {
        Signal::Mark(mark) => Some(mark.clone()),
        _ => None,
    };
    heard.signals.iter().filter_map(mark).collect()
}

/// The mark is told once, at the end of the turn; never one inside of it.
#[test]
fn where_a_turn_ended() {
    let said = |uuid: &str, helper: Option<&str>, block: Value| {
        let message = json!({ "content": [block] });
        json!({ "type": "assistant", "uuid": uuid, "parent_tool_use_id": helper, "message": message })
    };
    let text = json!({ "type": "text", "text": "t" });
    let tool = json!({ "type": "tool_use", "id": "1", "name": "Bash", "input": {} });
    let end = json!({ "type": "result", "is_error": false, "uuid": "r" });
    let turn = [
        said("a", None, tool.clone()),
        said("b", None, text.clone()),
        said("c", Some("1"), text.clone()),
        end.clone(),
    ];
    assert_eq!(marks(&Claude, &turn), ["b"]);
    // A call that has no result yet is no place to begin from.
    assert!(marks(&Claude, &[said("a", None, text), said("b", None, tool), end]).is_empty());
    assert!(marks(&Claude, &turn[..3]).is_empty());

    let completed = |turn: &str, status: &str| {
        let turn = json!({ "id": turn, "status": status });
        json!({ "method": "turn/completed", "params": { "threadId": "t", "turn": turn } })
    };
    let turn = [
        json!({ "id": 1, "result": {} }),
        json!({ "id": 2, "result": { "thread": { "id": "t" } } }),
        json!({ "id": 3, "result": { "turn": { "id": "one" } } }),
        completed("other", "completed"),
        completed("one", "interrupted"),
    ];
    assert_eq!(marks(&Codex, &turn), ["one"]);
}
