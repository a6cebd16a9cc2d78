//! What an agent is told besides its prompt: what its own memory lost.
//!
//! The vendors' files forget: the call that was running when they were killed, a text that was half
//! written, sometimes the prompt itself. The journal does not.

use segue_agents::{report, vendor::History};
use segue_core::{
    Event,
    event::{Body, Outcome, ToolStatus},
    packet::shortened,
};
use segue_journal::{Result, Session};

use crate::briefing::{MOST_INPUT, MOST_TEXT};

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
    /// What it answered, where nobody will say that again: messages are told once.
    answer: Option<String>,
}

impl Known {
    /// Reads a turn from the journal.
    pub(super) fn of(session: &Session, turn: u32) -> Result<Self> {
        let mut known = Self::default();
        session.turn(turn, |event| known.add(session, event))?;
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
                let name = called.name.clone();
                self.calls.push(KnownCall { id, name, input, status: None, answer: None });
            }
            Body::ToolReturned(returned) => {
                let told_once = report::our_tool(&returned.name) == Some("receive_messages");
                let answer = told_once.then(|| session.text(&returned.output)).transpose()?;
                if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
                    call.status = Some(returned.status);
                    call.answer = answer;
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
            let known = last.calls.iter().find(|known| known.id == call.id);
            let kept = known.is_some_and(|known| known.answered || call.answer.is_none());
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
        let answer = self.answer.as_ref().map(|text| format!(" Its answer:\n{text}"));
        let answer = answer.unwrap_or_default();
        format!("You had called the tool {} with {input}: {how}.{answer}", self.name)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, status: Option<ToolStatus>) -> KnownCall {
        let (name, input) = ("Bash".into(), "{\"n\":1}".into());
        KnownCall { id: id.into(), name, input, status, answer: None }
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

    #[test]
    fn messages_that_the_vendor_forgot_are_told_again() {
        let mut received = call("a", Some(ToolStatus::Done));
        received.answer = Some("[message 1] from codex:\n  hello".into());
        let known = Known { prompt: "do it".into(), calls: vec![received], ..Known::default() };
        let mut kept = history("do it");
        kept.call("a");
        let told = known.lost(Some(&kept)).lines.join("\n");
        assert!(told.ends_with("it was done. Its answer:\n[message 1] from codex:\n  hello"));
        kept.answer("a");
        assert_eq!(known.lost(Some(&kept)), Lost::default());
    }
}
