//! How a vendor's program looks: its start, what it said of itself, its end, its spending.

use segue_core::{
    Body,
    event::{AgentStarted, Entry},
};

use super::{Out, count};
use crate::style::{Paint, sanitize};

impl Out<'_> {
    pub(super) fn program(&mut self, body: &Body) {
        match body {
            Body::AgentStarted(started) => self.agent_started(started),
            Body::AgentIntroduced(told) if self.full() => {
                let parts = [&told.vendor_session, &told.model, &told.version];
                let told: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
                let text = format!("says it is {}", sanitize(&told.join(" · ")));
                self.one(2, (Paint::Dim, "·"), Paint::Dim, &text);
            }
            Body::AgentExited(exited) if self.full() => {
                let how = match (exited.exit, exited.signal) {
                    (Some(code), _) => format!("status {code}"),
                    (None, Some(signal)) => format!("signal {signal}"),
                    (None, None) => "unknown".to_owned(),
                };
                let lines = count(exited.lines, "line");
                let text = format!("its program ended: {how}, after {lines}");
                self.one(2, (Paint::Dim, "·"), Paint::Dim, &text);
                if let Some(words) = &exited.last_words {
                    self.text(4, "", Paint::Dim, words);
                }
            }
            Body::UsageReported(reported) => {
                self.used(reported.model.as_deref(), &reported.usage, reported.cost_micros);
            }
            Body::QuotaTold(told) if self.full() => {
                let used = told.used_percent.map(|percent| format!(" {percent} % used"));
                let text = format!("{}{}", sanitize(&told.window), used.unwrap_or_default());
                let text = self.with_reset(text, told.resets_at);
                self.one(2, (Paint::Dim, "·"), Paint::Dim, &text);
            }
            _ => {}
        }
    }

    fn agent_started(&mut self, started: &AgentStarted) {
        let how = match started.entry {
            Entry::New => "new session",
            Entry::Resumed => "resumes session",
            Entry::Forked => "forks into session",
            Entry::Unknown => "session",
        };
        let id = started.vendor_session.as_deref().unwrap_or("(to be told)");
        let version = started.version.as_deref().map(|version| format!("{version} · "));
        let version = version.unwrap_or_default();
        let text = format!("{version}{how} {id} · may {}", started.permission);
        self.one(2, (Paint::Dim, "·"), Paint::Dim, &sanitize(&text));
        if self.full() {
            self.one(4, (Paint::Dim, "$"), Paint::Dim, &sanitize(&started.command));
        }
    }
}
