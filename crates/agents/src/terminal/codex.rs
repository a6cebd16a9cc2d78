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
    screen::{any, shows},
};
use crate::vendor::{
    Call, Conversation,
    codex::{config_dir, rollout},
};

#[derive(Clone, Copy, Debug)]
pub struct Codex;

const QUESTIONS: [&str; 11] = [
    "Would you like to",
    "Do you want to",
    "Do you trust",
    "Allow command?",
    "Allow Codex",
    "Action Required",
    "Update available",
    "Sign in with",
    "is open in another app",
    "Choose working directory",
    "Select Model",
];

/// At the bottom of every dialog.
const DIALOG: [&str; 6] = [
    "Press enter to c",
    "enter to submit",
    "esc to cancel",
    "esc to go back",
    "Press any key",
    "enter to select",
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
        let tail = screen.tail(40);
        if any(&screen.tail(3), &DIALOG) || screen.title.contains("Action Required") {
            return Screen::asks(&tail, &QUESTIONS)
                .unwrap_or_else(|| Sight::waiting("It has a question."));
        }
        if input_box(screen).is_none() {
            return Screen::asks(&tail, &QUESTIONS).unwrap_or(Sight::Starting);
        }
        let spins = screen.title.starts_with(|c: char| ('\u{2800}'..='\u{28ff}').contains(&c));
        match spins || any(&screen.tail(12), &["esc to interrupt"]) {
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
        let text = input_box(screen)?;
        Some(text.starts_with("[Pasted Content") || shows(text, first_line))
    }
}

/// What stands after the last mark of an input box.
fn input_box<'a>(screen: &Screen<'a>) -> Option<&'a str> {
    screen.tail(12).into_iter().rev().find_map(|line| line.strip_prefix('›')).map(str::trim)
}
