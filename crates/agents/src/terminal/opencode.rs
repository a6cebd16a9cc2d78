//! OpenCode at a terminal.
//!
//! It chooses the conversation's id when it is first spoken to; which one it has open is nowhere
//! said, so it is found in its database by directory, time and what was said to it first. For some
//! seconds after its start the screen is blank, and what is typed then is lost.

use std::time::Duration;

use segue_core::Permission;

use super::{
    ASKS, Manners, Screen, Seated, Sight, Sitting, Terminal,
    screen::{any, bare, shows},
};
use crate::vendor::{
    Call, Conversation, ToolServer,
    opencode::{EDIT, LOOK, database, database::look_for, rules},
};

#[derive(Clone, Copy, Debug)]
pub struct OpenCode;

const DIALOG: [&str; 5] =
    ["enter confirm", "△ Permission required", "Allow once", "enter submit", "esc dismiss"];

impl Terminal for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn call(&self, sitting: &Sitting<'_>) -> Call {
        let mut call = Call::default();
        match sitting.conversation {
            Conversation::New { .. } => {}
            Conversation::Resume { id } => {
                call.pair("-s", id);
            }
            Conversation::Fork { from, .. } => {
                call.pair("-s", from).arg("--fork");
            }
        }
        const CONFIG: &str = "OPENCODE_CONFIG_CONTENT";
        let settings = sitting.tools.and_then(|server| server.opencode(sitting.world.get(CONFIG)));
        let ours = settings.is_some();
        if let Some(settings) = settings {
            call.env(CONFIG, settings);
        }
        match sitting.permission {
            Permission::ReadOnly => call.env("OPENCODE_PERMISSION", rules(&LOOK, ours)),
            Permission::Edit => call.env("OPENCODE_PERMISSION", asking(ours)),
            Permission::Full => call.arg("--auto"),
        };
        if let Some(model) = sitting.model {
            call.pair("-m", model);
        }
        call.args(sitting.extra);
        call
    }

    fn own_id(&self) -> bool {
        false
    }

    fn sight(&self, screen: &Screen<'_>) -> Sight {
        let (lines, tail) = (screen.lines(), screen.tail(30));
        if any(&screen.tail(12), &DIALOG) {
            return asked(&tail);
        }
        if let Some(title) = lines.iter().find_map(|line| overlay(line)) {
            return Sight::waiting(title);
        }
        let below = screen.tail(8);
        if any(&below, &["esc interrupt", "esc again to interrupt"]) {
            return Sight::Busy;
        }
        match any(&below, &["ctrl+p commands"]) {
            true => Sight::Idle,
            false => Sight::Starting,
        }
    }

    fn manners(&self) -> Manners {
        Manners {
            gap: Duration::from_millis(200),
            interrupt: &["Escape", "Escape"],
            clear: &["C-u"],
        }
    }

    fn identify(&self, who: &Seated<'_>) -> Option<String> {
        let path = database(who.world);
        who.only(look_for(&path, who.cwd, who.since, who.first_prompt?).ok()?)
    }

    fn unsent(&self, screen: &Screen<'_>, first_line: &str) -> Option<bool> {
        let lines = screen.lines();
        let end = lines.iter().rposition(|line| line.contains("╹▀▀▀▀"))?;
        let framed = |line: &&&str| line.trim_start().starts_with('┃');
        let inside = lines.get(..end)?.iter().rev().take_while(framed).map(|line| bare(line));
        let inside: Vec<&str> = inside.collect();
        let held = |line: &&str| line.starts_with("[Pasted ") || shows(line, first_line);
        Some(inside.iter().any(held))
    }
}

/// What it wants to do stands below what it wants for it.
fn asked(tail: &[&str]) -> Sight {
    let lines = tail.iter().map(|line| bare(line));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    match lines.iter().rposition(|line| line.contains("Permission required")) {
        Some(at) => match lines.get(at + 1) {
            Some(what) => {
                Sight::waiting(&format!("Permission required: {}", what.trim_start_matches("# ")))
            }
            None => Sight::waiting("Permission required"),
        },
        None => Sight::waiting(ASKS),
    }
}

/// The title of a list that lies over everything else: the key that closes it stands at its right.
fn overlay(line: &str) -> Option<&str> {
    let (title, rest) = line.rsplit_once("    esc")?;
    (rest.is_empty() || rest.starts_with("  ")).then(|| title.trim())
}

/// Edits as they come, and a question for the rest. The last rule that fits decides.
fn asking(our_tools: bool) -> String {
    let ours = our_tools.then(|| format!("{}_*", ToolServer::NAME));
    let allowed = EDIT.iter().copied().chain(ours.as_deref());
    let allowed: String = allowed.map(|name| format!(r#","{name}":"allow""#)).collect();
    // By name too: a user's own general rule would keep its place before his own special ones.
    format!(r#"{{"*":"ask"{allowed},"bash":"ask","external_directory":"ask"}}"#)
}
