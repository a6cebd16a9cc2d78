//! One event as a line or a few: the same for `log`, `watch` and the live output of `run`.
//!
//! ```text
//! ▸ turn 1 · native · fix the failing test
//!   ⚙ shell  sh test.sh
//!     ✗ exit 1  expected 4, got 5
//!   The sum is off by one.
//!   · scripted 900+40 tokens
//! ■ stopped: interrupted · signal 2
//! ```
//!
//! Signs carry the meaning, colours only repeat it. No line is wider than the terminal.

mod crew;
mod passage;
mod program;
mod review;
mod tasks;

use jiff::Timestamp;
use segue_core::{
    Event, Payload,
    event::{
        Body, Cause, ModelReplied, Outcome, ProofReturned, Reason, SessionResumed, SessionStopped,
        ToolCalled, ToolReturned, ToolStatus, TurnStarted,
    },
    usage::{Micros, Usage},
};

use crate::{
    steps::outcome_sign,
    style::{
        Line, Paint, Style, bytes, count, duration, money, sanitize, tokens, wrap, wrap_hanging,
    },
    telling::{last_line, size, telling},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What a person follows: long texts are cut, bookkeeping is left out.
    Short,
    /// The same in a pane of any width: texts are whole, and sentences are broken, not cut.
    Live,
    /// Every event, with its time and as much of its text as the journal line has.
    Full,
}

/// How many lines of one text are shown where it is to be short.
const SHORT_LINES: usize = 12;

/// The lines of an event, without a line break at their end. `None` where there is nothing to show.
#[must_use]
pub fn event_line(event: &Event, style: &Style, detail: Detail) -> Option<String> {
    let lines: Vec<String> =
        event_lines(event, style, detail).iter().map(|line| line.render(style)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The same, not painted yet.
pub(crate) fn event_lines(event: &Event, style: &Style, detail: Detail) -> Vec<Line> {
    let mut out = Out { style, detail, lines: Vec::new(), stamp: None };
    if detail == Detail::Full {
        out.stamp = Some(style.time_of_day(event.at));
    }
    out.event(event);
    out.lines
}

struct Out<'a> {
    style: &'a Style,
    detail: Detail,
    lines: Vec<Line>,
    /// The time, until the first line has it.
    stamp: Option<String>,
}

impl Out<'_> {
    fn full(&self) -> bool {
        self.detail == Detail::Full
    }

    fn live(&self) -> bool {
        self.detail == Detail::Live
    }

    fn line(&mut self, indent: usize, sign: (Paint, &str), text: &[(Paint, String)]) {
        let mut line = Line::new();
        if self.full() {
            let stamp = self.stamp.take().unwrap_or_default();
            line = line.with(Paint::Dim, format!("{stamp:<8}  "));
        }
        line = line.plain(" ".repeat(indent)).with(sign.0, sign.1);
        if !sign.1.is_empty() {
            line = line.plain(" ");
        }
        for (paint, text) in text {
            line = line.with(*paint, text.clone());
        }
        self.lines.push(line);
    }

    fn one(&mut self, indent: usize, sign: (Paint, &str), paint: Paint, text: &str) {
        if !self.live() {
            return self.line(indent, sign, &[(paint, text.to_owned())]);
        }
        let hang = if sign.1.is_empty() { 0 } else { 2 };
        for (n, part) in wrap(text, self.room(indent + hang)).into_iter().enumerate() {
            match n {
                0 => self.line(indent, sign, &[(paint, part)]),
                _ => self.line(indent + hang, (Paint::Plain, ""), &[(paint, part)]),
            }
        }
    }

    fn room(&self, indent: usize) -> usize {
        self.style.width.saturating_sub(indent)
    }

    /// A text that may need several lines, whole.
    fn wrapped(&mut self, indent: usize, paint: Paint, text: &str) {
        let stamp = if self.full() { 10 } else { 0 };
        for line in wrap(text, self.style.width.saturating_sub(indent + stamp)) {
            self.one(indent, (paint, ""), paint, &line);
        }
    }

    /// A text of several lines, cut where it is to be short.
    fn text(&mut self, indent: usize, sign: &str, paint: Paint, payload: &Payload) {
        let stamp = if self.full() { 10 } else { 0 };
        let room = self.style.width.saturating_sub(indent + stamp + 2 * sign.len());
        let mut lines = match self.live() {
            true => wrap_hanging(payload.head().trim(), room),
            false => wrap(payload.head().trim(), room),
        };
        let left_out = lines.len().saturating_sub(SHORT_LINES);
        if self.detail == Detail::Short && left_out > 1 {
            lines.truncate(SHORT_LINES);
            lines.push(format!("… {left_out} more lines"));
        }
        if let Some(size) = payload.bytes {
            lines.push(format!("… {} in all", bytes(size)));
        }
        for line in lines {
            self.line(indent, (paint, sign), &[(paint, line)]);
        }
    }

    fn event(&mut self, event: &Event) {
        match &event.body {
            Body::SessionCreated(created) => {
                let identity = &created.identity;
                let mut text = format!("created · {}", sanitize(&identity.agent));
                if let Some(model) = &identity.model {
                    text = format!("{text} · {}", sanitize(model));
                }
                let place = identity.workspace.display().to_string();
                let text = format!("{text} · {}", sanitize(&place));
                self.line(0, (Paint::Dim, "●"), &[(Paint::Dim, text)]);
            }
            Body::SessionNamed(named) => {
                let text = format!("named \"{}\"", sanitize(&named.name));
                self.one(0, (Paint::Dim, "●"), Paint::Dim, &text);
            }
            Body::SessionStarted(started) if self.full() => {
                let by = format!("started · process {} on {}", started.by.pid, started.by.host);
                self.one(0, (Paint::Dim, "●"), Paint::Dim, &sanitize(&by));
            }
            Body::SessionStarted(_) => {}
            Body::SessionResumed(resumed) => self.resumed(resumed),
            Body::SessionStopped(stopped) => self.stopped(stopped),
            Body::JournalRepaired(repaired) => {
                let (size, file) = (bytes(repaired.bytes), sanitize(&repaired.kept_in));
                self.warning(0, &format!("journal repaired: {size} set aside in {file}"));
            }
            Body::LimitHit(limit) => {
                let window = limit.window.as_deref().map(|window| format!(" ({window})"));
                let window = sanitize(&window.unwrap_or_default()).into_owned();
                let text = format!("limit{window}: {}", sanitize(&limit.message));
                let text = self.with_reset(text, limit.resets_at);
                self.one(0, (Paint::Yellow, "⏸"), Paint::Yellow, &text);
            }
            Body::WarningRaised(warning) => self.warning(0, &sanitize(&warning.message)),
            Body::TurnStarted(started) => self.turn_started(event, started),
            Body::TurnEnded(ended) => self.turn_ended(ended.outcome),
            Body::Unknown { kind, .. } => {
                self.one(2, (Paint::Dim, "?"), Paint::Dim, &sanitize(kind));
            }
            _ => self.step(event),
        }
    }

    /// What happens within a turn.
    fn step(&mut self, event: &Event) {
        match &event.body {
            Body::ModelCalled(called) if self.full() || called.attempt > 1 => {
                let attempt = match called.attempt {
                    0 | 1 => String::new(),
                    n => format!(", attempt {n}"),
                };
                let messages = count(called.messages, "message");
                let text = format!("asking {}, {messages}{attempt}", sanitize(&called.model));
                self.one(2, (Paint::Dim, "·"), Paint::Dim, &text);
            }
            Body::ModelFailed(failed) => {
                let again = failed.retry_in_ms.map(|ms| {
                    format!(" · again in {}", duration(std::time::Duration::from_millis(ms)))
                });
                let text = format!("{}{}", sanitize(&failed.message), again.unwrap_or_default());
                self.warning(2, &text);
            }
            Body::TextWritten(written) => self.text(2, "", Paint::Plain, &written.text),
            Body::ThinkingWritten(thinking) if self.full() => {
                self.text(2, "~", Paint::Dim, &thinking.text);
            }
            Body::ThinkingWritten(thinking) => {
                let head = sanitize(thinking.text.head().trim()).into_owned();
                if !head.is_empty() {
                    self.line(2, (Paint::Dim, "~"), &[(Paint::Dim, head)]);
                }
            }
            Body::ToolCalled(called) => self.tool_called(called),
            Body::ModelReplied(replied) => self.replied(replied),
            Body::ToolStarted(_) if self.full() => {
                self.one(4, (Paint::Dim, "…"), Paint::Dim, "started");
            }
            Body::ToolReturned(returned) => self.tool_returned(returned),
            Body::ProofStarted(started) => {
                let text = [
                    (Paint::Bold, "proof".to_owned()),
                    (Paint::Plain, format!("  {}", sanitize(&started.command))),
                ];
                self.line(2, (Paint::Cyan, "⚖"), &text);
            }
            Body::ProofReturned(returned) => self.proof_returned(returned),
            Body::ModelCalled(_) | Body::ToolStarted(_) => {}
            Body::AgentStarted(_)
            | Body::AgentIntroduced(_)
            | Body::AgentExited(_)
            | Body::UsageReported(_)
            | Body::QuotaTold(_) => self.program(&event.body),
            Body::ReviewStarted(_)
            | Body::VerdictSubmitted(_)
            | Body::VerdictGiven(_)
            | Body::ReviewerStopped(_)
            | Body::DoneSignalled(_)
            | Body::WorkCommitted(_)
            | Body::WorkAccepted(_)
            | Body::MessageSent(_)
            | Body::MessageDelivered(_) => self.review(event),
            Body::TasksRead(_)
            | Body::TaskStarted(_)
            | Body::TaskFailed(_)
            | Body::CaseSubmitted(_) => self.tasks(&event.body),
            _ => self.passage(event),
        }
    }

    fn warning(&mut self, indent: usize, text: &str) {
        self.one(indent, (Paint::Yellow, "⚠"), Paint::Yellow, text);
    }

    fn with_reset(&self, text: String, resets_at: Option<Timestamp>) -> String {
        match resets_at {
            Some(at) => format!("{text} · resets {}", self.style.date_and_time(at)),
            None => text,
        }
    }

    fn resumed(&mut self, resumed: &SessionResumed) {
        let mut text = "resumed".to_owned();
        if resumed.crashed {
            text.push_str(" after a crash");
        }
        if let Some(model) = &resumed.model {
            text = format!("{text} with {}", sanitize(model));
        }
        self.one(0, (Paint::Cyan, "↻"), Paint::Bold, &text);
        // What is shown live has just been gone through.
        let plan = if self.live() { &[][..] } else { &resumed.plan };
        for line in plan {
            self.one(2, (Paint::Plain, ""), Paint::Dim, sanitize(line).trim());
        }
        for pid in &resumed.leftovers_ended {
            self.warning(2, &format!("ended process {pid} of the run before"));
        }
    }

    fn stopped(&mut self, stopped: &SessionStopped) {
        let (paint, sign, word) = match stopped.reason {
            Reason::Done => (Paint::Green, "✔", "done".to_owned()),
            reason => {
                let paint = match reason {
                    Reason::AgentCrashed
                    | Reason::Failed
                    | Reason::Refused
                    | Reason::NotSignedIn
                    | Reason::Disk => Paint::Red,
                    _ => Paint::Yellow,
                };
                (paint, "■", format!("stopped: {}", reason_word(stopped)))
            }
        };
        let message = sanitize(stopped.message.trim());
        if self.live() {
            self.one(0, (paint, sign), paint, &word);
            let message = self.with_reset(message.into_owned(), stopped.resets_at);
            self.one(2, (Paint::Plain, ""), Paint::Plain, message.trim_start_matches(" · "));
        } else {
            let message = if message.is_empty() { String::new() } else { format!(" · {message}") };
            let message = self.with_reset(message, stopped.resets_at);
            self.line(0, (paint, sign), &[(paint, word), (Paint::Plain, message)]);
        }
        if let Some(hint) = &stopped.hint {
            self.one(2, (Paint::Plain, ""), Paint::Dim, &sanitize(hint));
        }
    }

    fn turn_started(&mut self, event: &Event, started: &TurnStarted) {
        let number = event.turn.map(|turn| format!(" {turn}")).unwrap_or_default();
        let mut text = vec![(Paint::Bold, format!("turn{number}"))];
        if let Some(agent) = &event.agent {
            text.push((Paint::Plain, format!(" · {}", sanitize(agent))));
        }
        let why = match started.cause {
            Cause::Person | Cause::Task | Cause::Unknown => "",
            Cause::Proof => "the proof failed: ",
            _ => "going on: ",
        };
        if self.live() {
            return self.turn_with_prompt(&text, why, started.prompt.head().trim());
        }
        let prompt = sanitize(started.prompt.head().trim());
        text.push((Paint::Plain, format!(" · {why}{prompt}")));
        self.line(0, (Paint::Cyan, "▸"), &text);
    }

    /// The turn's number on a line of its own, and below it what is asked for.
    fn turn_with_prompt(&mut self, head: &[(Paint, String)], why: &str, prompt: &str) {
        self.lines.push(Line::new());
        self.line(0, (Paint::Cyan, "▸"), head);
        let mut lines = wrap(&format!("{why}{prompt}"), self.room(2));
        if lines.len() > SHORT_LINES {
            lines.truncate(SHORT_LINES);
            lines.push("…".to_owned());
        }
        for line in &lines {
            self.line(2, (Paint::Plain, ""), &[(Paint::Cyan, line.clone())]);
        }
    }

    fn turn_ended(&mut self, outcome: Outcome) {
        let text = match outcome {
            Outcome::Finished if !self.full() => return,
            Outcome::Finished => {
                return self.one(2, (Paint::Dim, "◂"), Paint::Dim, "turn finished");
            }
            Outcome::Truncated => "the reply was cut at the model's output limit",
            Outcome::Refused => "the model would not do it",
            Outcome::Superseded => "a new prompt took the place of the rest",
            Outcome::HandedOff => "handed over",
            Outcome::CutOff => "its program ended in the middle of it",
            Outcome::Unknown => "the turn ended",
        };
        self.one(2, (Paint::Yellow, "◂"), Paint::Yellow, text);
    }

    fn tool_called(&mut self, called: &ToolCalled) {
        let input = telling(&called.input);
        let text = [
            (Paint::Bold, sanitize(&called.name).into_owned()),
            (Paint::Plain, if input.is_empty() { input } else { format!("  {input}") }),
        ];
        self.line(2, (Paint::Cyan, "⚙"), &text);
    }

    fn replied(&mut self, replied: &ModelReplied) {
        self.used(Some(&replied.model), &replied.usage, replied.cost_micros);
    }

    fn used(&mut self, model: Option<&str>, usage: &Usage, cost: Option<Micros>) {
        if usage.total() == 0 && !self.full() {
            return;
        }
        let read = usage.input + usage.cache_read + usage.cache_write;
        let written = usage.output + usage.reasoning;
        let model = model.map(|model| format!("{} ", sanitize(model))).unwrap_or_default();
        let mut text = format!("{model}{}+{} tokens", tokens(read), tokens(written));
        if self.full() {
            if usage.cache_read > 0 {
                text = format!("{text}, {} of them cached", tokens(usage.cache_read));
            }
            if let Some(cost) = cost {
                text = format!("{text} · {}", money(cost, 0));
            }
        }
        self.one(2, (Paint::Dim, "·"), Paint::Dim, &text);
    }

    fn tool_returned(&mut self, returned: &ToolReturned) {
        let ToolReturned { name, status, exit, output, touched } = returned;
        self.outcome(name, *status, *exit, output, touched);
    }

    fn proof_returned(&mut self, returned: &ProofReturned) {
        self.outcome("", returned.status, returned.exit, &returned.output, &[]);
    }

    fn outcome(
        &mut self,
        name: &str,
        status: ToolStatus,
        exit: Option<i32>,
        output: &Payload,
        touched: &[String],
    ) {
        let (paint, sign, word) = outcome_sign(status, exit);
        let mut words = Vec::new();
        match exit {
            Some(exit) => words.push(format!("exit {exit}")),
            None if !word.is_empty() => words.push(word.to_owned()),
            None => {}
        }
        if !touched.is_empty() {
            words.push(format!("wrote {}", sanitize(&touched.join(", "))));
        }
        let summary = match status {
            ToolStatus::MayHaveRun => "its result was never recorded".to_owned(),
            ToolStatus::NotRun => String::new(),
            _ if word == "failed" => last_line(output),
            // The names of the files say it.
            _ if !touched.is_empty() => String::new(),
            _ => size(output),
        };
        if words.is_empty() && summary.is_empty() {
            words.push("done".to_owned());
        }
        let gap = if words.is_empty() || summary.is_empty() { "" } else { "  " };
        let name = if name.is_empty() { String::new() } else { format!("{}  ", sanitize(name)) };
        let text = [
            (Paint::Dim, name),
            (paint, words.join("  ")),
            (Paint::Dim, format!("{gap}{summary}")),
        ];
        self.line(4, (paint, sign), &text);
        if self.full() {
            self.text(6, "", Paint::Dim, output);
        }
    }
}

fn reason_word(stopped: &SessionStopped) -> String {
    match (stopped.reason, stopped.cap) {
        (Reason::Cap, Some(cap)) => format!("cap:{cap}"),
        (Reason::Cap, None) => "cap".to_owned(),
        (Reason::AgentCrashed, _) => "agent crashed".to_owned(),
        (Reason::StreamCut, _) => "stream cut".to_owned(),
        (Reason::ContextExhausted, _) => "context full".to_owned(),
        (Reason::NotSignedIn, _) => "not signed in".to_owned(),
        (reason, _) => format!("{reason:?}").to_lowercase(),
    }
}
