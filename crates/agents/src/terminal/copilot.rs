//! GitHub Copilot CLI at a terminal.
//!
//! The id is ours to choose. A process marks the conversation that it has open with a file of its
//! number, so one that it turned to later is known too.

use std::{fs, time::Duration};

use segue_core::Permission;
use serde_json::json;

use super::{
    Manners, Screen, Seated, Sight, Sitting, Terminal, process,
    screen::{any, asks, bottom_box, foot, shows},
};
use crate::vendor::{Call, Conversation, ToolServer, copilot::home};

#[derive(Clone, Copy, Debug)]
pub struct Copilot;

const QUESTIONS: [&str; 3] = ["Do you want to", "Do you trust", "Session in use"];

/// At the bottom of every dialog.
const DIALOG: [&str; 4] = ["to navigate", "enter to select", "esc to cancel", "Enter to confirm"];

impl Terminal for Copilot {
    fn name(&self) -> &'static str {
        "copilot"
    }

    fn call(&self, sitting: &Sitting<'_>) -> Call {
        // Otherwise it may run another version than the one that was found.
        let mut call = Call::new(["--no-auto-update"]);
        match sitting.conversation {
            // Unlike `--session-id` this one fails where the session is gone. Without a directory
            // its tools would run where the session was begun.
            Conversation::Resume { id } => {
                call.arg(format!("--resume={id}")).pair("-C", sitting.cwd.as_os_str())
            }
            Conversation::New { id } | Conversation::Fork { id, .. } => {
                call.pair("--session-id", id)
            }
        };
        match sitting.permission {
            Permission::ReadOnly => call.args(["--deny-tool=write", "--deny-tool=shell"]),
            Permission::Edit => call.arg("--allow-tool=write"),
            Permission::Full => call.arg("--allow-all"),
        };
        if sitting.permission != Permission::Full {
            call.env("COPILOT_ALLOW_ALL", "false");
        }
        if let Some(server) = sitting.tools {
            let settings = server.json(&json!({ "type": "local", "tools": ["*"] }));
            call.pair("--additional-mcp-config", settings.to_string());
            call.arg(format!("--allow-tool={}", ToolServer::NAME));
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
        let dialog = bottom_box(&lines);
        if let Some(dialog) = dialog {
            return asks(dialog, &QUESTIONS);
        }
        if foot(screen, 3, &DIALOG) {
            return asks(&[], &QUESTIONS);
        }
        if input_box(&lines).is_none() {
            return Sight::Starting;
        }
        match any(&screen.tail(2), &["esc esc ", "◉ ", "◎ ", "○ "]) {
            true => Sight::Busy,
            false => Sight::Idle,
        }
    }

    fn manners(&self) -> Manners {
        Manners {
            gap: Duration::from_millis(200),
            interrupt: &["Escape", "Escape"],
            clear: &["C-u"],
        }
    }

    fn knows_open(&self) -> bool {
        true
    }

    fn identify(&self, who: &Seated<'_>) -> Option<String> {
        let marks: Vec<String> =
            process::family(who.pid).into_iter().map(|pid| format!("inuse.{pid}.lock")).collect();
        let sessions = fs::read_dir(home(who.world).join("session-state")).ok()?;
        let open = sessions
            .flatten()
            .filter(|dir| marks.iter().any(|mark| dir.path().join(mark).exists()));
        who.only(open.filter_map(|dir| dir.file_name().into_string().ok()).collect())
    }

    fn unsent(&self, screen: &Screen<'_>, first_line: &str) -> Option<bool> {
        let text = input_box(&screen.lines())?;
        Some(text.starts_with("[Paste") || shows(text, first_line))
    }
}

/// What stands in the input box: between two rules, after its mark.
fn input_box<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let rule = |line: &&str| line.starts_with("────");
    let end = lines.iter().rposition(rule)?;
    let start = lines.get(..end)?.iter().rposition(rule)?;
    Some(lines.get(start + 1)?.trim_start().strip_prefix('❯')?.trim())
}
