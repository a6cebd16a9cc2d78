//! Our own tool in the vendors' own programs: the model calls `checkpoint`, the journal has what it
//! said, and the user's settings are as they were.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use segue_testkit::{
    model_server::{Reply, ToolCall},
    vendors::{Cli, Lab},
};
use serde_json::{Value, json};

use crate::support::{self, bodies, segue, show};

#[test]
fn claude() {
    notes(Cli::Claude);
}

#[test]
fn codex() {
    notes(Cli::Codex);
}

#[test]
fn gemini() {
    notes(Cli::Gemini);
}

#[test]
fn copilot() {
    notes(Cli::Copilot);
}

#[test]
fn opencode() {
    notes(Cli::OpenCode);
}

pub(crate) fn checkpoint(cli: Cli, input: Value) -> Reply {
    our_tool(cli, "checkpoint", input)
}

/// A call of one of our tools, by the name that the vendor's program has for it.
pub(crate) fn our_tool(cli: Cli, tool: &str, input: Value) -> Reply {
    let (namespace, prefix) = match cli {
        Cli::Claude => (None, "mcp__segue__"),
        Cli::Codex => (Some("mcp__segue".to_owned()), ""),
        Cli::Gemini => (None, "mcp_segue_"),
        Cli::Copilot => (None, "segue-"),
        _ => (None, "segue_"),
    };
    let name = format!("{prefix}{tool}");
    Reply::default().and_call(ToolCall { name, input, id: None, namespace })
}

/// Notes something in a turn that may only look, and something else in the next.
fn notes(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    let first = json!({
        "decisions": [{ "summary": "Keep TOML", "why": "people edit it" }],
        "blockers": [],
        "remaining": ["write the docs"],
        "next_task": "Write the first page",
    });
    lab.start(
        lab.scenario().reply(checkpoint(cli, first.clone())).reply(Reply::text("It is noted.")),
    );
    let before = settings(&lab);
    let args = ["run", support::word(cli), "--permission", "read-only", "Please note it"];
    let output = segue(&lab, &args);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(settings(&lab), before);

    let returned = bodies(&lab, "tool.returned");
    let told = returned[0]["output"]["text"].as_str().unwrap_or_default();
    assert!(told.contains("noted: 1 decision, 1 task left, 1 next task"), "{returned:?}");
    assert_eq!(bodies(&lab, "warning.raised"), [] as [Value; 0], "it has asked for the tools");
    let reports = bodies(&lab, "progress.reported");
    assert_eq!(reports.len(), 1, "{reports:?}");
    for (field, said) in first.as_object().unwrap() {
        assert_eq!(&reports[0][field], said, "{field}");
    }
    assert_eq!(reports[0]["via"], "tool");

    // The tool is there in every turn, and what is wrong with a call is told to the model.
    let wrong = json!({ "remaining": "all of it" });
    let second = json!({ "remaining": [], "next_task": "Nothing" });
    lab.start(
        lab.scenario()
            .reply(checkpoint(cli, wrong))
            .reply(checkpoint(cli, second))
            .reply(Reply::text("Noted again.")),
    );
    let before = settings(&lab);
    let output = segue(&lab, &["resume", "1", "And what now?"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(settings(&lab), before);
    assert!(lab.knows("Please note it") && lab.knows("And what now?"), "{:?}", lab.conversation());
    let reports = bodies(&lab, "progress.reported");
    assert_eq!(reports.len(), 2, "{reports:?} {:?}", bodies(&lab, "tool.returned"));
    assert_eq!(
        (&reports[1]["remaining"], &reports[1]["next_task"]),
        (&json!([]), &json!("Nothing"))
    );
    let returned = bodies(&lab, "tool.returned");
    assert_eq!(returned.len(), 3, "{returned:?}");
    assert_eq!(show(&lab)["status"], "completed");

    // A conversation of the user's own, without Segue, does not know of the tool.
    let home = lab.home();
    let texts = files(&home).into_iter().filter_map(|path| fs::read_to_string(path).ok());
    assert!(!texts.into_iter().any(|text| text.contains("\"--turn\"")), "left in the home");
}

/// The files that are the user's to write. OpenCode puts a line with its schema into its own, with
/// and without our tool.
fn settings(lab: &Lab) -> BTreeMap<PathBuf, Option<String>> {
    let read = |path: &Path| {
        let text = fs::read_to_string(path).ok()?;
        let lines = text.lines().filter(|line| !line.contains("\"$schema\""));
        Some(lines.collect::<Vec<_>>().join("\n"))
    };
    let names = [
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".gemini/trustedFolders.json",
        ".gemini/extensions/extension-enablement.json",
        ".copilot/mcp-config.json",
        ".config/opencode/opencode.json",
    ];
    let home = lab.home();
    let named = names.map(|name| home.join(name));
    let tree = [lab.work().join(".mcp.json"), lab.work().join(".gemini/settings.json")];
    named.into_iter().chain(tree).map(|path| (path.clone(), read(&path))).collect()
}

/// Settings of any program in a directory and below.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let settings = ["json", "toml", "yaml", "yml"];
        if kind.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|ext| settings.iter().any(|name| ext == *name)) {
            found.push(path);
        }
    }
    found
}
