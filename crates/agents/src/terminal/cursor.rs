//! Cursor CLI at a terminal.
//!
//! Written from its documentation (<https://cursor.com/docs/cli/reference/parameters> and
//! `…/using`); the program itself could not be had. How it keeps its chats is not documented, so
//! which one it has open is not known, and what its screen says is told by general words: one that
//! is not understood is taken for work, not for readiness.

use std::time::Duration;

use segue_core::Permission;

use super::{
    Manners, Screen, Seated, Sight, Sitting, Terminal,
    screen::{any, asks},
};
use crate::vendor::{Call, Conversation};

#[derive(Clone, Copy, Debug)]
pub struct Cursor;

const QUESTIONS: [&str; 9] = [
    "Run this command?",
    "Waiting for approval",
    "Do you trust",
    "Workspace Trust",
    "Trust this workspace",
    "(y/n)",
    "Proceed?",
    "Press any key to log in",
    "Not in allowlist",
];

const BUSY: [&str; 4] = ["ctrl+c to stop", "Generating", "Running", "esc to stop"];

const READY: [&str; 3] = ["/ commands", "Plan, search, build anything", "Add a follow-up"];

impl Terminal for Cursor {
    fn name(&self) -> &'static str {
        "cursor"
    }

    fn call(&self, sitting: &Sitting<'_>) -> Call {
        let mut call = Call::default();
        if let Conversation::Resume { id } = sitting.conversation {
            call.pair("--resume", id);
        }
        match sitting.permission {
            Permission::ReadOnly => {
                call.pair("--mode", "ask");
            }
            // By itself it asks before it runs a command.
            Permission::Edit => {}
            Permission::Full => {
                call.arg("--force");
            }
        }
        if let Some(model) = sitting.model {
            call.pair("--model", model);
        }
        call.args(sitting.extra);
        call
    }

    fn own_id(&self) -> bool {
        false
    }

    fn makes_id(&self) -> Option<&'static [&'static str]> {
        Some(&["create-chat"])
    }

    fn sight(&self, screen: &Screen<'_>) -> Sight {
        let tail = screen.tail(15);
        if any(&tail, &QUESTIONS) {
            return asks(&tail, &QUESTIONS);
        }
        if tail.is_empty() {
            return Sight::Starting;
        }
        match !any(&tail, &BUSY) && any(&tail, &READY) {
            true => Sight::Idle,
            false => Sight::Busy,
        }
    }

    fn manners(&self) -> Manners {
        Manners { gap: Duration::from_millis(500), interrupt: &["C-c"], clear: &["C-u"] }
    }

    fn keeps_record(&self) -> bool {
        false
    }

    fn identify(&self, _who: &Seated<'_>) -> Option<String> {
        None
    }
}
