//! Codex at a terminal.
//!
//! It chooses the conversation's id when it is first spoken to, and from then on has its file open.
//! By default it leaves the work to a server in the background, which lives on when the program is
//! ended: here it does not. Its input box looks the same whether it works or not, and the line about
//! work is gone while it writes; the title tells.

use std::time::Duration;

use segue_core::Permission;

use super::{
    Manners, Screen, Seated, Sight, Sitting, Terminal, process,
    screen::{any, asks, foot, is_choice, shows},
};
use crate::vendor::{
    Call, Conversation,
    codex::{config_dir, rollout},
};

#[derive(Clone, Copy, Debug)]
pub struct Codex;

const QUESTIONS: [&str; 10] = [
    "Would you like to",
    "Do you want to",
    "Do you trust",
    "Allow command?",
    "Allow Codex",
    "Update available",
    "Choose how you want",
    "is open in another app",
    "Working directory",
    "Select Model",
];

/// In the last line of every dialog.
const DIALOG: [&str; 9] = [
    "Press enter to",
    "enter to ",
    "enter select",
    "enter continue",
    "enter submit",
    "esc to cancel",
    "esc to go back",
    "esc back",
    "esc/^c",
];

impl Terminal for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn call(&self, sitting: &Sitting<'_>) -> Call {
        let mut call = Call::default();
        match sitting.conversation {
            Conversation::New { .. } => &mut call,
            Conversation::Resume { .. } => call.arg("resume"),
            Conversation::Fork { .. } => call.arg("fork"),
        };
        call.arg("--no-daemon");
        let (sandbox, asks) = match sitting.permission {
            Permission::ReadOnly => ("read-only", "never"),
            Permission::Edit => ("workspace-write", "on-request"),
            Permission::Full => ("danger-full-access", "never"),
        };
        call.pair("--sandbox", sandbox).pair("--ask-for-approval", asks);
        // A conversation that goes on elsewhere asks which directory is meant.
        call.pair("--cd", sitting.cwd);
        if let Some(server) = sitting.tools {
            call.pair("-c", server.toml());
        }
        if let Some(model) = sitting.model {
            call.pair("--model", model);
        }
        call.args(sitting.extra);
        if let Conversation::Resume { id } | Conversation::Fork { from: id, .. } =
            sitting.conversation
        {
            call.arg(id);
        }
        call
    }

    fn own_id(&self) -> bool {
        false
    }

    fn sight(&self, screen: &Screen<'_>) -> Sight {
        let lines = screen.lines();
        if input_box(&lines).is_none() {
            let dialog = dialog(&lines);
            let known = foot(screen, 2, &DIALOG)
                || any(dialog, &QUESTIONS)
                || screen.title.contains("Action Required");
            return if known { asks(dialog, &QUESTIONS) } else { Sight::Starting };
        }
        if screen.title.contains("Action Required") {
            return asks(dialog(&lines), &QUESTIONS);
        }
        let spins = screen.title.starts_with(|c: char| ('\u{2800}'..='\u{28ff}').contains(&c));
        match spins || any(&screen.tail(16), &["esc to interrupt"]) {
            true => Sight::Busy,
            false => Sight::Idle,
        }
    }

    fn manners(&self) -> Manners {
        Manners { gap: Duration::from_millis(200), interrupt: &["Escape"], clear: &["C-u"] }
    }

    fn identify(&self, who: &Seated<'_>) -> Option<String> {
        let files = process::family(who.pid).into_iter().flat_map(process::files);
        let mut open: Vec<String> = files.filter_map(|file| rollout::id_of(&file)).collect();
        open.sort();
        open.dedup();
        who.only(open).or_else(|| {
            let config = config_dir(who.world);
            who.only(rollout::look_for(&config, who.cwd, who.since, who.first_prompt?))
        })
    }

    fn unsent(&self, screen: &Screen<'_>, first_line: &str) -> Option<bool> {
        let text = input_box(&screen.lines())?;
        Some(text.starts_with("[Pasted Content") || shows(text, first_line))
    }
}

/// What stands after the last mark, if that is an input box: below it there is more of it and the
/// lines of the status, all of them indented. A list to choose from begins with a mark too.
fn input_box<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let at = lines.iter().rposition(|line| line.starts_with('›'))?;
    let (line, below) = (lines.get(at)?, lines.get(at + 1..)?);
    let inside = |line: &&str| line.is_empty() || line.starts_with("  ");
    let list = is_choice(line) && below.iter().any(|line| is_choice(line));
    let dialog = list || below.last().is_some_and(|last| any(&[*last], &DIALOG));
    (!dialog && below.iter().all(inside)).then(|| line.trim_start_matches('›').trim())
}

/// What the screen ends with, below whatever was said.
fn dialog<'a, 'l>(lines: &'l [&'a str]) -> &'l [&'a str] {
    let apart = |line: &&str| !line.is_empty() && !line.starts_with([' ', '›', '>', '↓', '↑']);
    let start = lines.iter().rposition(apart).map_or(0, |at| at + 1);
    lines.get(start..).unwrap_or_default()
}
