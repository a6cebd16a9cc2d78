//! Gemini CLI at a terminal.
//!
//! The id is ours to choose. Its title tells what it does; its input box looks the same whether it
//! works or not. An Enter that comes too soon after a paste becomes part of the prompt.

use std::time::Duration;

use segue_core::Permission;

use super::{
    Manners, Screen, Seated, Sight, Sitting, Terminal,
    screen::{any, asks, bottom_box, shows},
};
use crate::vendor::{Call, Conversation, Vendor as _, gemini, gemini::home};

#[derive(Clone, Copy, Debug)]
pub struct Gemini;

const POLICY_FILE: &str = "gemini-policy.toml";

/// Nothing is changed, and nobody is asked whether it may be.
const LOOK: &str = "[[rule]]
toolName = [\"write_file\", \"replace\", \"run_shell_command\"]
decision = \"deny\"
priority = 999
";

const QUESTIONS: [&str; 4] =
    ["Do you trust", "Allow execution", "Apply this change?", "Do you want to"];

impl Terminal for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn call(&self, sitting: &Sitting<'_>) -> Call {
        let mut call = Call::default();
        match sitting.conversation {
            Conversation::New { id } => call.pair("--session-id", id),
            Conversation::Resume { id } => call.pair("--resume", id),
            Conversation::Fork { from, .. } => {
                let kept = gemini::Gemini.history(sitting.world, sitting.cwd, from);
                // Without one, it will say that it has none.
                let file = kept.ok().flatten().map_or_else(|| from.into(), |kept| kept.path);
                call.pair("--session-file", file)
            }
        };
        let mode = match sitting.permission {
            Permission::ReadOnly => "default",
            Permission::Edit => "auto_edit",
            Permission::Full => "yolo",
        };
        call.pair("--approval-mode", mode);
        let tools = home::attach(&mut call, &sitting.job());
        let policy = match (sitting.permission, tools) {
            (Permission::Full, _) | (Permission::Edit, false) => None,
            (Permission::Edit, true) => Some(home::POLICY.to_owned()),
            (Permission::ReadOnly, false) => Some(LOOK.to_owned()),
            (Permission::ReadOnly, true) => Some(format!("{LOOK}{}", home::POLICY)),
        };
        if let Some(policy) = policy {
            call.pair("--policy", sitting.files.join(POLICY_FILE)).file(POLICY_FILE, policy);
        }
        if let Some(model) = sitting.model {
            call.pair("--model", model);
        }
        call.args(sitting.extra);
        // Otherwise it is two processes, and no signal reaches the one that works.
        call.env("GEMINI_CLI_NO_RELAUNCH", "true");
        call
    }

    fn own_id(&self) -> bool {
        true
    }

    fn sight(&self, screen: &Screen<'_>) -> Sight {
        let lines = screen.lines();
        if input_box(&lines).is_none() || screen.title.starts_with('✋') {
            let known = bottom_box(&lines);
            let known = known.or(screen.title.starts_with('✋').then_some(&*lines));
            return known.map_or(Sight::Starting, |dialog| asks(dialog, &QUESTIONS));
        }
        match screen.title.starts_with('✦') || any(&screen.tail(14), &["(esc to cancel"]) {
            true => Sight::Busy,
            false => Sight::Idle,
        }
    }

    fn manners(&self) -> Manners {
        Manners { gap: Duration::from_millis(400), interrupt: &["Escape"], clear: &["C-u"] }
    }

    fn identify(&self, _who: &Seated<'_>) -> Option<String> {
        None
    }

    fn unsent(&self, screen: &Screen<'_>, first_line: &str) -> Option<bool> {
        let text = input_box(&screen.lines())?;
        Some(text.starts_with("[Pasted Text") || shows(text, first_line))
    }
}

/// What stands in the input box: between two rules, after its mark, with no more than the lines of
/// the status below. What was said stands between such rules too. Without true colours the rules
/// are whole lines.
fn input_box<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let above = |line: &str| line.starts_with("▄▄▄▄") || line.starts_with("────");
    let marked = |line: &str| line.trim_start().starts_with(['>', '*', '!']);
    let opens = |pair: &[&str]| above(pair[0]) && marked(pair[1]);
    let start = lines.windows(2).rposition(opens)?;
    let end =
        lines.iter().rposition(|line| line.starts_with("▀▀▀▀") || line.starts_with("────"))?;
    let below = lines.get(end + 1..)?.iter().filter(|line| !line.trim().is_empty());
    let status = |line: &&str| !line.trim_start().starts_with(['╭', '│', '✦', '✓', '⊶', 'ℹ', '✕']);
    if end <= start || below.clone().count() > 4 || !below.copied().all(|line| status(&line)) {
        return None;
    }
    lines.get(start + 1)?.trim_start().strip_prefix(['>', '*', '!']).map(str::trim)
}
