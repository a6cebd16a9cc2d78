//! How reviews, verdicts and messages look.

use segue_core::{
    Body, Event,
    bridge::short,
    event::{ReviewStarted, ReviewerStopped, Verdict, VerdictSubmitted},
};

use super::{Out, count};
use crate::style::{Paint, money, sanitize, tokens};

impl Out<'_> {
    /// What passes between a worker and its reviewers.
    pub(super) fn review(&mut self, event: &Event) {
        let dim = (Paint::Dim, "·");
        match &event.body {
            Body::ReviewStarted(started) => self.review_started(started),
            Body::VerdictSubmitted(said) => self.verdict("", said, &[]),
            Body::VerdictGiven(given) => {
                let who = format!("{}  ", sanitize(&given.reviewer));
                self.verdict(&who, &given.said, &given.set_aside);
            }
            Body::ReviewerStopped(stopped) => self.reviewer_stopped(stopped),
            Body::DoneSignalled(done) => {
                let text = format!("the worker says {}", sanitize(&done.signal));
                self.one(0, (Paint::Cyan, "⚑"), Paint::Plain, &text);
            }
            Body::WorkCommitted(done) => self.committed(done),
            Body::WorkAccepted(taken) => {
                let files = crate::style::count(taken.files, "file");
                let text = format!("taken over into {}: {files}", taken.into.display());
                self.one(0, (Paint::Green, "✔"), Paint::Plain, &sanitize(&text));
            }
            Body::MessageSent(sent) => {
                let id = event.id.as_deref().map(short).unwrap_or_default();
                let who = format!("{} → {}", sanitize(&sent.from), sanitize(&sent.to));
                let text = [(Paint::Bold, who), (Paint::Dim, format!(" · {}", sanitize(&id)))];
                self.line(0, (Paint::Cyan, "✉"), &text);
                self.text(2, "", Paint::Plain, &sent.text);
            }
            Body::MessageDelivered(delivered) if self.full() => {
                let number = count(delivered.messages.len() as u64, "message");
                let text = format!("{} has {number}", sanitize(&delivered.to));
                self.one(0, dim, Paint::Dim, &text);
            }
            _ => {}
        }
    }

    fn review_started(&mut self, started: &ReviewStarted) {
        let files = match started.files {
            Some(0) => " · nothing has changed".to_owned(),
            Some(files) => format!(" · {}", count(files, "file")),
            None => " · the files can't be compared".to_owned(),
        };
        let who = match started.files {
            Some(0) => String::new(),
            _ => format!(" · {}", sanitize(&started.reviewers.join(", "))),
        };
        let text = [
            (Paint::Bold, format!("review {}", started.iteration)),
            (Paint::Plain, who),
            (Paint::Dim, files),
        ];
        self.line(0, (Paint::Cyan, "◇"), &text);
    }

    fn verdict(&mut self, who: &str, said: &VerdictSubmitted, set_aside: &[String]) {
        let (paint, sign, word) = match said.verdict {
            Verdict::Pass => (Paint::Green, "✔", "pass"),
            _ => (Paint::Red, "✘", "fail"),
        };
        let summary = said.summary.as_deref().map(|text| format!(" · {}", sanitize(text)));
        // It is not what the reviewer said.
        let aside = match set_aside {
            [] => String::new(),
            names => format!(" ({} set aside)", sanitize(&names.join(" and "))),
        };
        let text = [
            (Paint::Bold, who.to_owned()),
            (paint, word.to_owned()),
            (Paint::Yellow, aside),
            (Paint::Plain, summary.unwrap_or_default()),
        ];
        self.line(2, (paint, sign), &text);
        for concern in &said.concerns {
            let id = if concern.id.is_empty() { "" } else { &format!("{} ", concern.id) };
            let head =
                format!("{id}{}: {}", sanitize(&concern.category), sanitize(&concern.concern));
            self.wrapped(4, Paint::Plain, &head);
            self.wrapped(4, Paint::Dim, &format!("evidence: {}", sanitize(&concern.evidence)));
            self.wrapped(4, Paint::Plain, &format!("→ {}", sanitize(&concern.next_step)));
        }
    }

    fn reviewer_stopped(&mut self, stopped: &ReviewerStopped) {
        let fine = stopped.reason == segue_core::event::Reason::Done;
        if fine && !self.full() {
            return;
        }
        let spent = match money(stopped.cost_micros, stopped.unpriced_calls).as_str() {
            crate::style::NO_PRICE => format!("{} tokens", tokens(stopped.usage.total())),
            money => format!("{} tokens, {money}", tokens(stopped.usage.total())),
        };
        let text = format!(
            "{} ({}) · {} · {spent} so far",
            sanitize(&stopped.reviewer),
            sanitize(&stopped.agent),
            sanitize(&stopped.message)
        );
        match fine {
            true => self.one(2, (Paint::Dim, "·"), Paint::Dim, &text),
            false => self.warning(2, &text),
        }
    }
}
