//! The packet as a prompt: evidence before prose, whole recent turns first, within a budget.

use super::{Exchange, Packet, Validation};
use crate::{event::FileStatus, validation::Check};

/// How much of one long text a prompt takes.
const MOST_OBJECTIVE: usize = 16 << 10;
const MOST_FILES: usize = 200;

/// Room for the headings that come after what is measured.
const HEADINGS: usize = 128;

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// An agent that knows nothing of it.
    Newcomer,
    /// One that worked on it up to this turn, and remembers.
    Returning { since: u32 },
}

/// The prompt for the next agent: what it has to know, and then what to do.
#[must_use]
pub fn render(packet: &Packet, whom: Whom, prompt: &str, budget: usize) -> String {
    let mut text = String::from(match whom {
        Whom::Newcomer => {
            "You take over work that was begun before you; its earlier conversation is not at \
             hand. What is told here is recorded fact.\n"
        }
        Whom::Returning { .. } => {
            "Others have worked on this since you last did. What is told here of it is recorded \
             fact.\n"
        }
    });
    let since = match whom {
        Whom::Newcomer => 0,
        Whom::Returning { since } => since,
    };
    if whom == Whom::Newcomer && packet.objective.trim() != prompt.trim() {
        section(&mut text, "The objective", &[shortened(&packet.objective, MOST_OBJECTIVE)]);
        let asked = packet.requests.iter().filter(|asked| asked.prompt.trim() != prompt.trim());
        list(&mut text, "What was asked for later", asked.map(|asked| asked.prompt.clone()));
    }
    let decisions = packet.decisions.iter().filter(|one| since == 0 || one.turn > since);
    list(&mut text, "Decisions", decisions.map(|d| because(&d.summary, d.why.as_deref())));
    let blockers = packet.blockers.iter();
    list(&mut text, "Blockers", blockers.map(|b| because(&b.summary, b.evidence.as_deref())));
    list(&mut text, "Files that were changed", files(packet));
    list(&mut text, "Checks that ran", checks(&packet.validation_state));
    list(&mut text, "What is left", packet.remaining.iter().cloned());
    if let Some(next) = packet.next_task.as_ref().filter(|next| next.trim() != prompt.trim()) {
        section(&mut text, "The next task", std::slice::from_ref(next));
    }
    let room = budget.saturating_sub(text.len() + prompt.len() + HEADINGS);
    let turns: Vec<&Exchange> =
        packet.conversation.iter().filter(|one| since == 0 || one.turn > since).collect();
    text.push_str(&conversation(&turns, room));
    text.push_str("\n## What to do now\n\n");
    text.push_str(prompt);
    text
}

fn section(text: &mut String, title: &str, paragraphs: &[String]) {
    text.push_str(&format!("\n## {title}\n\n"));
    for paragraph in paragraphs {
        text.push_str(paragraph.trim_end());
        text.push('\n');
    }
}

fn list(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> =
        lines.map(|line| format!("- {}", line.trim().replace('\n', "\n  "))).collect();
    if !lines.is_empty() {
        section(text, title, &lines);
    }
}

fn because(what: &str, why: Option<&str>) -> String {
    match why.filter(|why| !why.trim().is_empty()) {
        Some(why) => format!("{} ({})", what.trim(), why.trim()),
        None => what.trim().to_owned(),
    }
}

fn files(packet: &Packet) -> impl Iterator<Item = String> {
    let more = packet.touched_files.len().saturating_sub(MOST_FILES);
    let rest = (more > 0).then(|| format!("and {more} more"));
    let named = packet.touched_files.iter().take(MOST_FILES).map(|file| {
        let how = match file.status {
            FileStatus::Added => "added",
            FileStatus::Deleted => "deleted",
            FileStatus::Modified | FileStatus::Unknown => "modified",
        };
        match file.turn {
            Some(turn) => format!("{} ({how}, turn {turn})", file.path),
            None => format!("{} ({how})", file.path),
        }
    });
    named.chain(rest)
}

fn checks(validation: &Validation) -> impl Iterator<Item = String> {
    validation.runs().map(|(check, run)| {
        let what = match check {
            Check::Tests => "tests",
            Check::Lint => "lint",
            Check::Typecheck => "typecheck",
            Check::Build => "build",
            Check::Unknown => "check",
        };
        let how = if run.passed { "passed" } else { "failed" };
        let exit = run.exit.map(|code| format!(", exit status {code}")).unwrap_or_default();
        let turn = if run.turn > 0 { format!(", turn {}", run.turn) } else { String::new() };
        match run.command.is_empty() {
            true => format!("{what} {how}{exit}{turn}"),
            false => format!("{what} {how}: `{}`{exit}{turn}", run.command),
        }
    })
}

/// As many whole turns as fit, the newest first; of the first that does not fit, its end.
fn conversation(turns: &[&Exchange], room: usize) -> String {
    let mut told: Vec<String> = Vec::new();
    let mut left = room;
    let mut whole = true;
    for turn in turns.iter().rev() {
        let text = exchange(turn);
        if text.len() > left {
            whole = false;
            if let Some(end) = ending(turn, left) {
                told.push(end);
            }
            break;
        }
        left -= text.len();
        told.push(text);
    }
    if told.is_empty() {
        return String::new();
    }
    let gap = if whole { "" } else { "\n[Earlier work is left out here.]\n" };
    let turns: String = told.into_iter().rev().collect();
    format!("\n## What happened so far\n{gap}{turns}")
}

fn head(turn: &Exchange) -> String {
    match turn.agent.is_empty() {
        true => format!("\nTurn {}:\n", turn.turn),
        false => format!("\nTurn {}, {}:\n", turn.turn, turn.agent),
    }
}

fn exchange(turn: &Exchange) -> String {
    let mut text = head(turn);
    if !turn.prompt.is_empty() {
        text.push_str(&format!("- Asked: {}\n", turn.prompt));
    }
    for step in &turn.steps {
        text.push_str(&format!("- {step}\n"));
    }
    text
}

/// The last steps of a turn that fit.
fn ending(turn: &Exchange, room: usize) -> Option<String> {
    let mut text = head(turn);
    text.push_str("- […]\n");
    let mut left = room.checked_sub(text.len())?;
    let mut from = turn.steps.len();
    for (at, step) in turn.steps.iter().enumerate().rev() {
        let Some(rest) = left.checked_sub(step.len() + 3) else { break };
        left = rest;
        from = at;
    }
    for step in &turn.steps[from..] {
        text.push_str(&format!("- {step}\n"));
    }
    (from < turn.steps.len()).then_some(text)
}

/// A text's beginning, with a sign where it goes on.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    match text.len() <= most {
        true => text.to_owned(),
        false => format!("{}…", &text[..text.floor_char_boundary(most)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Decision, Packet, TouchedFile};

    fn packet(turns: u32, long: usize) -> Packet {
        let mut packet: Packet = serde_json::from_value(serde_json::json!({
            "session_id": crate::SessionId::from_parts(1, 1), "previous_agent": "claude",
            "checkpoint_reason": "limit", "turn_count": turns,
            "created_at": "2026-01-01T00:00:00Z", "objective": "Make it fast",
            "remaining": ["the index"], "next_task": "Write the index",
            "validation_state": {"tests": {"passed": false, "command": "make test", "exit": 2, "turn": 1}},
        }))
        .unwrap();
        packet.decisions.push(Decision {
            id: "d1".into(),
            turn: 1,
            summary: "No cache".into(),
            why: Some("it was stale".into()),
        });
        packet.touched_files.push(TouchedFile {
            path: "src/a.rs".into(),
            status: FileStatus::Added,
            turn: Some(1),
        });
        packet.conversation = (1..=turns)
            .map(|turn| Exchange {
                turn,
                agent: "claude".into(),
                prompt: format!("do {turn}"),
                steps: vec![format!("said {turn} {}", "x".repeat(long)), format!("end of {turn}")],
            })
            .collect();
        packet
    }

    #[test]
    fn evidence_comes_before_what_was_said_and_the_prompt_comes_last() {
        let text = render(&packet(2, 1), Whom::Newcomer, "Go on", 16 << 10);
        let order = [
            "## The objective\n\nMake it fast",
            "- No cache (it was stale)",
            "- src/a.rs (added, turn 1)",
            "- tests failed: `make test`, exit status 2, turn 1",
            "- the index",
            "## The next task\n\nWrite the index",
            "Turn 1, claude:",
            "Turn 2, claude:",
            "## What to do now\n\nGo on",
        ];
        let places: Vec<usize> = order.iter().map(|part| text.find(part).expect(part)).collect();
        assert!(places.is_sorted(), "{text}");
        assert!(text.ends_with("Go on"));
    }

    #[test]
    fn the_newest_turns_stay_whole_within_the_budget() {
        let text = render(&packet(20, 500), Whom::Newcomer, "Go on", 4000);
        assert!(text.len() <= 4000, "{}", text.len());
        assert!(text.contains("- Asked: do 20\n- said 20 "), "{text}");
        assert!(text.contains("[Earlier work is left out here.]"));
        assert!(!text.contains("do 1\n"));
    }

    #[test]
    fn one_who_comes_back_is_told_what_happened_since() {
        let text = render(&packet(3, 1), Whom::Returning { since: 2 }, "Go on", 16 << 10);
        assert!(text.contains("do 3") && !text.contains("do 2\n"), "{text}");
        assert!(!text.contains("Make it fast") && !text.contains("No cache"), "{text}");
    }

    #[test]
    fn what_is_not_known_is_not_mentioned() {
        let mut bare = packet(1, 1);
        bare.decisions.clear();
        bare.next_task = None;
        bare.validation_state = Validation::default();
        let text = render(&bare, Whom::Newcomer, "Make it fast", 16 << 10);
        for absent in ["Decisions", "Blockers", "Checks", "The next task", "The objective"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
    }
}
