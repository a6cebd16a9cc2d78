//! What an agent is told besides its prompt: what its own memory lost, or, where it has none, what
//! happened so far.
//!
//! The vendors' files forget: the call that was running when they were killed, a text that was half
//! written, sometimes the prompt itself. The journal does not.

use segue_agents::vendor::History;
use segue_core::{
    Event,
    event::{Body, Cause, Outcome, ToolStatus},
};
use segue_journal::{Result, Session};

/// How much of what happened a new conversation is told.
const PACKET_BYTES: usize = 48 << 10;

/// How much of one text, or of one call's input, is told.
const MOST_TEXT: usize = 4 << 10;
const MOST_INPUT: usize = 600;

/// One turn, as the journal has it.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// What was said to the agent last.
    pub(super) prompt: String,
    texts: Vec<String>,
    calls: Vec<KnownCall>,
    /// How many texts and calls there were when the program was last started: its prompt told of
    /// what it had lost of them.
    before: (usize, usize),
    /// The agent came to the turn's end.
    ended: bool,
}

#[derive(Debug)]
struct KnownCall {
    id: String,
    name: String,
    input: String,
    status: Option<ToolStatus>,
}

impl Known {
    /// Reads a turn from the journal's end.
    pub(super) fn of(session: &Session, turn: u32) -> Result<Self> {
        let mut events = Vec::new();
        for event in session.newest_first()? {
            let ours = event.turn == Some(turn);
            let first = ours && matches!(event.body, Body::TurnStarted(_));
            if ours {
                events.push(event);
            }
            if first {
                break;
            }
        }
        let mut known = Self::default();
        for event in events.iter().rev() {
            known.add(session, event)?;
        }
        Ok(known)
    }

    fn add(&mut self, session: &Session, event: &Event) -> Result<()> {
        let id = event.id.clone().unwrap_or_default();
        match &event.body {
            Body::TurnStarted(started) => self.prompt = session.text(&started.prompt)?,
            Body::AgentStarted(started) => {
                if let Some(said) = &started.said {
                    self.prompt = session.text(said)?;
                }
                self.before = (self.texts.len(), self.calls.len());
            }
            Body::TurnEnded(ended) => self.ended = ended.outcome != Outcome::Superseded,
            Body::TextWritten(written) => self.texts.push(session.text(&written.text)?),
            Body::ToolCalled(called) => {
                let input = session.text(&called.input)?;
                self.calls.push(KnownCall { id, name: called.name.clone(), input, status: None });
            }
            Body::ToolReturned(returned) => {
                if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
                    call.status = Some(returned.status);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What the vendor's file does not have of this turn, in words for the agent. With no file to
    /// compare with, only what was going on at the very end counts as lost.
    pub(super) fn lost(&self, history: Option<&History>) -> Lost {
        let mut lost = Lost::default();
        let Some(history) = history else {
            let open = |call: &&KnownCall| unsettled(call.status);
            let since = if self.ended { self.before.1 } else { 0 };
            lost.lines.extend(self.calls.iter().skip(since).filter(open).map(KnownCall::told));
            return lost;
        };
        let last = &history.last;
        let has = |text: &str| {
            let text = text.trim();
            text.is_empty() || last.texts.iter().any(|known| known.contains(text))
        };
        lost.prompt = last.prompt.trim() != self.prompt.trim();
        let (texts, calls) = if lost.prompt { (0, 0) } else { self.before };
        for text in self.texts.iter().skip(texts).filter(|text| lost.prompt || !has(text)) {
            lost.lines.push(format!("You had written: {}", shortened(text, MOST_TEXT)));
        }
        for call in self.calls.iter().skip(calls) {
            let kept = last.calls.iter().any(|known| known.id == call.id);
            if lost.prompt || !kept || unsettled(call.status) {
                lost.lines.push(call.told());
            }
        }
        lost
    }
}

fn unsettled(status: Option<ToolStatus>) -> bool {
    matches!(status, None | Some(ToolStatus::MayHaveRun | ToolStatus::Interrupted))
}

impl KnownCall {
    fn told(&self) -> String {
        let how = match self.status {
            Some(ToolStatus::Done) => "it was done",
            Some(ToolStatus::Failed) => "it failed",
            Some(ToolStatus::Interrupted) => {
                "it was ended while it ran; see what it did before you repeat it"
            }
            Some(ToolStatus::NotRun) => "it was not run",
            _ => "it may have run; see whether it did before you repeat it",
        };
        let input = shortened(&self.input, MOST_INPUT);
        format!("You had called the tool {} with {input}: {how}.", self.name)
    }
}

/// What has to be told again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// The prompt itself.
    pub(super) prompt: bool,
    pub(super) lines: Vec<String>,
}

impl Lost {
    fn told(&self) -> String {
        match self.lines.is_empty() {
            true => String::new(),
            false => format!(
                "\n\nWhat is known of your work, and may be missing in your memory:\n- {}",
                self.lines.join("\n- ")
            ),
        }
    }

    /// The next prompt of a conversation whose turn was broken off.
    pub(super) fn go_on(&self, why: &str, prompt: &str) -> String {
        let task = match self.prompt {
            true => format!(" The task was:\n\n{prompt}"),
            false => String::new(),
        };
        format!("{why} Go on where you stopped.{task}{}", self.told())
    }

    /// A new prompt, after a turn that was broken off.
    pub(super) fn and_then(&self, prompt: &str) -> String {
        match self.lines.is_empty() {
            true => prompt.to_owned(),
            false => format!("{prompt}{}", self.told()),
        }
    }
}

/// What happened so far, for an agent that was not there: whole recent turns first, within a
/// budget, evidence before prose. `None` before the first turn is over or has shown anything.
pub(super) fn packet(session: &Session, prompt: &str) -> Result<Option<String>> {
    let state = session.state();
    let open = state.turn.number;
    let mut turns: Vec<(u32, Vec<String>)> = Vec::new();
    let mut bytes = 0;
    let mut whole = true;
    for event in session.newest_first()? {
        let Some(turn) = event.turn else { continue };
        let Some(line) = line_of(session, &event, open)? else { continue };
        bytes += line.len();
        if bytes > PACKET_BYTES {
            whole = false;
            break;
        }
        match turns.last_mut() {
            Some((number, lines)) if *number == turn => lines.push(line),
            _ => turns.push((turn, vec![line])),
        }
    }
    if turns.is_empty() {
        return Ok(None);
    }
    let objective = match &state.identity {
        Some(identity) => session.text(&identity.prompt)?,
        None => String::new(),
    };
    let mut text = String::from(
        "You take over work that was begun before you; its earlier conversation is not at hand. \
         What is told here is recorded fact.\n",
    );
    if objective.trim() != prompt.trim() {
        text.push_str(&format!("\n## The objective\n\n{}\n", shortened(&objective, MOST_TEXT * 4)));
    }
    text.push_str("\n## What happened so far\n");
    if !whole {
        text.push_str("\n[Earlier work is left out here.]\n");
    }
    for (number, lines) in turns.iter().rev() {
        text.push_str(&format!("\nTurn {number}:\n"));
        for line in lines.iter().rev() {
            text.push_str(&format!("- {line}\n"));
        }
    }
    text.push_str("\n## What to do now\n\n");
    text.push_str(prompt);
    Ok(Some(text))
}

fn line_of(session: &Session, event: &Event, open: u32) -> Result<Option<String>> {
    Ok(match &event.body {
        // The open turn's prompt stands at the end.
        Body::TurnStarted(_) if event.turn == Some(open) => None,
        Body::TurnStarted(started) => {
            let text = session.text(&started.prompt)?;
            let who = if started.cause == Cause::Person { "The user" } else { "Segue" };
            Some(format!("{who} asked: {}", shortened(&text, MOST_TEXT)))
        }
        Body::TextWritten(written) => {
            let text = session.text(&written.text)?;
            Some(format!("The agent said: {}", shortened(&text, MOST_TEXT)))
        }
        Body::ToolCalled(called) => {
            let input = session.text(&called.input)?;
            Some(format!("It called {} with {}", called.name, shortened(&input, MOST_INPUT)))
        }
        Body::ToolReturned(returned) => {
            let how = match returned.status {
                ToolStatus::Done => "was done",
                ToolStatus::Failed => "failed",
                ToolStatus::NotRun => "was not run",
                _ => "may have run; see whether it did before you repeat it",
            };
            let exit = returned.exit.map(|code| format!(", exit status {code}"));
            let files = match returned.touched.is_empty() {
                true => String::new(),
                false => format!(", wrote {}", returned.touched.join(", ")),
            };
            let name = &returned.name;
            Some(format!("{name} {how}{}{files}", exit.unwrap_or_default()))
        }
        Body::ProofReturned(returned) => {
            let output = session.text(&returned.output)?;
            let how = if returned.passed() { "passed" } else { "failed" };
            Some(format!("The proof {how}: {}", shortened(&output, MOST_INPUT)))
        }
        _ => None,
    })
}

fn shortened(text: &str, most: usize) -> String {
    match text.len() <= most {
        true => text.to_owned(),
        false => format!("{}…", &text[..text.floor_char_boundary(most)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, status: Option<ToolStatus>) -> KnownCall {
        KnownCall { id: id.into(), name: "Bash".into(), input: "{\"n\":1}".into(), status }
    }

    fn history(prompt: &str) -> History {
        let mut history = History::new("f".into());
        history.prompt(prompt);
        history
    }

    #[test]
    fn only_what_the_vendor_forgot_is_told() {
        let known = Known {
            prompt: "do it".into(),
            texts: vec!["First.".into(), "Then I beg".into()],
            calls: vec![call("a", Some(ToolStatus::Done)), call("b", Some(ToolStatus::MayHaveRun))],
            ..Known::default()
        };
        let mut whole = history("do it\n");
        whole.text("First.");
        whole.text("Then I began.");
        whole.call("a");
        whole.call("b");
        assert_eq!(
            known.lost(Some(&whole)).lines,
            ["You had called the tool Bash with {\"n\":1}: it may have run; see whether it did \
              before you repeat it."]
        );

        let mut forgetful = history("do it");
        forgetful.text("First.");
        let lost = known.lost(Some(&forgetful));
        assert!(!lost.prompt);
        assert_eq!(lost.lines.len(), 3);
        assert_eq!(lost.lines[0], "You had written: Then I beg");
        assert!(lost.lines[1].ends_with("it was done."));

        let lost = known.lost(Some(&history("something else")));
        assert!(lost.prompt);
        let told = lost.go_on("You were stopped.", "do it");
        assert!(
            told.starts_with("You were stopped. Go on where you stopped. The task was:\n\ndo it\n")
        );
        assert!(told.contains("You had written: First."));
    }

    #[test]
    fn what_a_later_prompt_told_is_not_told_again() {
        let mut known = Known {
            prompt: "go on".into(),
            texts: vec!["First.".into(), "Second.".into()],
            calls: vec![call("a", Some(ToolStatus::MayHaveRun))],
            before: (1, 1),
            ended: false,
        };
        let mut kept = history("go on");
        kept.text("Second.");
        assert_eq!(known.lost(Some(&kept)), Lost::default());
        // Whether that prompt was ever read is certain only at the turn's end.
        assert_eq!(known.lost(Some(&history("before"))).lines.len(), 3);
        assert_eq!(known.lost(None).lines.len(), 1);
        known.ended = true;
        assert_eq!(known.lost(None), Lost::default());
    }

    #[test]
    fn nothing_lost_adds_nothing() {
        let known = Known { prompt: "p".into(), texts: vec!["t".into()], ..Known::default() };
        let mut kept = history("p");
        kept.text("t");
        let lost = known.lost(Some(&kept));
        assert_eq!(lost, Lost::default());
        assert_eq!(lost.and_then("next"), "next");
    }
}
