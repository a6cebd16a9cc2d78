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
    screen::{any, bare, shows},
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
const QUESTIONS: [&str; 12] = [
    "Do you want",
    "Would you like",
    "Quick safety check",
    "Is this a project you",
    "Do you trust",
    "Choose the text style",
    "Select login method",
    "Bypass Permissions mode",
    "Ready to code?",
    "Resume from summary",
    "is not supported",
    "Unable to connect",
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
        let tail = screen.tail(40);
        if any(&screen.tail(4), &DIALOG) {
            return Screen::asks(&tail, &QUESTIONS)
                .unwrap_or_else(|| Sight::waiting(first_of_dialog(&lines)));
        }
        if input_box(&lines).is_none() {
            return Screen::asks(&screen.tail(20), &QUESTIONS).unwrap_or(Sight::Starting);
        }
        let below = screen.tail(8);
        let spins = screen.title.starts_with(['◐', '◑', '◒', '◓'])
            || screen.title.starts_with(|c: char| ('\u{2800}'..='\u{28ff}').contains(&c));
        match spins || any(&below, &["esc to interrupt"]) {
            true => Sight::Busy,
            false => Sight::Idle,
        }
    }

    fn manners(&self) -> Manners {
        Manners { gap: Duration::from_millis(200), interrupt: &["Escape"], clear: &["C-u"] }
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
        let text = input_box(&screen.lines())?;
        Some(!text.is_empty() && (text.starts_with("[Pasted text") || shows(text, first_line)))
    }
}

/// The first line of what stands in the input box: between two rules, after its mark.
fn input_box<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let rule = |line: &&str| line.starts_with("────");
    let end = lines.iter().rposition(rule)?;
    let start = lines.get(..end)?.iter().rposition(rule)?;
    let line = lines.get(start + 1)?;
    Some(bare(line.strip_prefix('❯').or_else(|| line.strip_prefix('>'))?))
}

/// The line that a dialog begins with, below the last rule.
fn first_of_dialog<'a>(lines: &[&'a str]) -> &'a str {
    let start = lines.iter().rposition(|line| line.starts_with("────")).map_or(0, |at| at + 1);
    let rest = lines.get(start..).unwrap_or_default();
    rest.iter().map(|line| bare(line)).find(|line| !line.is_empty()).unwrap_or("It has a question.")
}
