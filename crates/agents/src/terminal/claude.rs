//! Claude Code at a terminal.
//!
//! The id is ours to choose, but `/clear` and `/resume` go on with another one: which one is open
//! now is in a file that each process keeps of itself, `sessions/<pid>.json`. Its title is the same
//! idle and waiting, so only the screen tells a question.

use std::{fs, time::Duration};

use segue_core::Permission;
use serde::Deserialize;
use serde_json::json;

use super::{
    Manners, Screen, Seated, Sight, Sitting, Terminal, process,
    screen::{any, asks, bare, foot, is_choice, shows},
};
use crate::vendor::{
    Call, Conversation, ToolServer,
    claude::{ALL_TOOLS, CHANGING_TOOLS, config_dir},
};

#[derive(Clone, Copy, Debug)]
pub struct Claude;

/// At the bottom of every dialog.
const DIALOG: [&str; 6] = [
    "Enter to confirm",
    "Esc to cancel",
    "Enter to select",
    "Press Enter to continue",
    "Esc to exit",
    "to navigate",
];

/// What dialogs ask.
const QUESTIONS: [&str; 13] = [
    "Do you want",
    "Would you like",
    "Quick safety check",
    "Is this a project you",
    "Do you trust",
    "Choose the text style",
    "Select login method",
    "Ready to code?",
    "Resume from summary",
    "is not supported",
    "Unable to connect",
    "Select model",
    "Resume session",
];

impl Terminal for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn call(&self, sitting: &Sitting<'_>) -> Call {
        let mut call = Call::default();
        match sitting.conversation {
            Conversation::New { id } => call.pair("--session-id", id),
            Conversation::Resume { id } => call.pair("--resume", id),
            Conversation::Fork { from, id, at } => {
                call.pair("--resume", from).arg("--fork-session").pair("--session-id", id);
                call.args(at.map(|mark| ["--resume-session-at", mark]).into_iter().flatten())
            }
        };
        let mut allowed = Vec::new();
        if let Some(server) = sitting.tools {
            // Otherwise the model sees no more than the tools' names, and has to ask for them.
            let settings = server.json(&json!({ "type": "stdio", "alwaysLoad": true }));
            call.arg(format!("--mcp-config={settings}"));
            allowed.push(format!("mcp__{}", ToolServer::NAME));
        }
        // Its own default lets the model decide what is asked for.
        match sitting.permission {
            Permission::ReadOnly => call
                .pair("--permission-mode", "default")
                .arg(format!("--disallowedTools={CHANGING_TOOLS}")),
            Permission::Edit => call.pair("--permission-mode", "acceptEdits"),
            // Refused to root, who then gets the same by name.
            Permission::Full if sitting.world.root => {
                allowed.insert(0, ALL_TOOLS.to_owned());
                call.pair("--permission-mode", "acceptEdits")
            }
            Permission::Full => call.pair("--permission-mode", "bypassPermissions"),
        };
        if !allowed.is_empty() {
            call.arg(format!("--allowedTools={}", allowed.join(",")));
        }
        if let Some(model) = sitting.model {
            call.pair("--model", model);
        }
        call.args(sitting.extra);
        call
    }

    fn own_id(&self) -> bool {
        true
    }

    fn sight(&self, screen: &Screen<'_>) -> Sight {
        let lines = screen.lines();
        // A dialog takes the place of the input box, below whatever was said before.
        let Some((_, below)) = input_box(&lines) else {
            let dialog = dialog(&lines);
            let known = any(dialog, &QUESTIONS) || foot(screen, 4, &DIALOG);
            return if known { asks(dialog, &QUESTIONS) } else { Sight::Starting };
        };
        if any(below, &DIALOG) {
            return asks(below, &QUESTIONS);
        }
        // In some terminals the title turns while it works, in others it does not.
        match screen.title.starts_with(['◐', '◑', '◒', '◓']) || any(below, &["esc to interrupt"])
        {
            true => Sight::Busy,
            false => Sight::Idle,
        }
    }

    fn manners(&self) -> Manners {
        Manners { gap: Duration::from_millis(200), interrupt: &["Escape"], clear: &["C-u"] }
    }

    fn knows_open(&self) -> bool {
        true
    }

    fn identify(&self, who: &Seated<'_>) -> Option<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Known {
            session_id: String,
            #[serde(default)]
            proc_start: Option<serde_json::Value>,
        }
        let dir = config_dir(who.world).join("sessions");
        process::family(who.pid).into_iter().find_map(|pid| {
            let text = fs::read(dir.join(format!("{pid}.json"))).ok()?;
            let known: Known = serde_json::from_slice(&text).ok()?;
            // One that was killed leaves its file, and the system gives out its number again.
            let told = known.proc_start.map(|start| match start {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            });
            let same = told.is_none_or(|told| {
                process::began(pid).is_some_and(|began| told == began.to_string())
            });
            (same && !who.taken.contains(&known.session_id)).then_some(known.session_id)
        })
    }

    fn unsent(&self, screen: &Screen<'_>, first_line: &str) -> Option<bool> {
        let lines = screen.lines();
        let (text, _) = input_box(&lines)?;
        Some(text.starts_with("[Pasted text") || shows(text, first_line))
    }
}

/// The first line of what stands in the input box, between two rules and after its mark; and the
/// lines below.
fn input_box<'a, 'l>(lines: &'l [&'a str]) -> Option<(&'a str, &'l [&'a str])> {
    let rule = |line: &&str| line.starts_with("────");
    let end = lines.iter().rposition(rule)?;
    let start = lines.get(..end)?.iter().rposition(rule)?;
    let line = lines.get(start + 1)?;
    Some((bare(line.strip_prefix(['❯', '>', '!'])?), lines.get(end + 1..)?))
}

/// A dialog: what is below the last rule, or the one before where only choices are below that.
fn dialog<'a, 'l>(lines: &'l [&'a str]) -> &'l [&'a str] {
    let begins = |at: &usize| {
        let rule =
            lines.get(*at).is_some_and(|line| line.starts_with("────") || line.starts_with("▔▔▔▔"));
        let mut below = lines.iter().skip(at + 1).filter(|line| !line.trim().is_empty());
        rule && below.next().is_some_and(|line| !is_choice(line))
    };
    let start = (0..lines.len()).rev().find(begins).map_or(0, |at| at + 1);
    lines.get(start..).unwrap_or_default()
}
