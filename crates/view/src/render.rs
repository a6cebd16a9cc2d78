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

use jiff::Timestamp;
use segue_core::{
    Event, Payload,
    event::{
        Body, Cause, ModelReplied, Outcome, ProofReturned, Reason, SessionResumed, SessionStopped,
        ToolCalled, ToolReturned, ToolStatus, TurnStarted,
    },
};
use serde_json::Value;

use crate::style::{
    self, Line, Paint, Style, bytes, duration, money, sanitize, shorten, tokens, wrap,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What a person follows: long texts are cut, bookkeeping is left out.
    Short,
    /// Every event, with its time and as much of its text as the journal line has.
    Full,
}

/// How many lines of one text are shown where it is to be short.
const SHORT_LINES: usize = 12;

/// The fields of a tool's input that tell what it does, the most telling first.
const TELLING: [&str; 9] = [
    "command", "cmd", "file_path", "path", "pattern", "query", "url", "description", "prompt",
];

/// The lines of an event, without a line break at their end. `None` where there is nothing to show.
#[must_use]
pub fn event_line(event: &Event, style: &Style, detail: Detail) -> Option<String> {
    let mut out = Out { style, detail, lines: Vec::new(), stamp: None };
    if detail == Detail::Full {
        out.stamp = Some(style.time_of_day(event.at));
    }
    out.event(event);
    (!out.lines.is_empty()).then(|| out.lines.join("\n"))
}

struct Out<'a> {
    style: &'a Style,
    detail: Detail,
    lines: Vec<String>,
    /// The time, until the first line has it.
    stamp: Option<String>,
}

impl Out<'_> {
    fn full(&self) -> bool {
        self.detail == Detail::Full
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
        self.lines.push(line.render(self.style));
    }

    fn one(&mut self, indent: usize, sign: (Paint, &str), paint: Paint, text: &str) {
        self.line(indent, sign, &[(paint, text.to_owned())]);
    }

    /// A text of several lines, cut where it is to be short.
    fn text(&mut self, indent: usize, paint: Paint, payload: &Payload) {
        let stamp = if self.full() { 10 } else { 0 };
        let room = self.style.width.saturating_sub(indent + stamp);
        let mut lines = wrap(payload.head().trim(), room);
        let left_out = lines.len().saturating_sub(SHORT_LINES);
        if !self.full() && left_out > 1 {
            lines.truncate(SHORT_LINES);
            lines.push(format!("… {left_out} more lines"));
        }
        if let Some(size) = payload.bytes {
            lines.push(format!("… {} in all", bytes(size)));
        }
        for line in lines {
            self.one(indent, (Paint::Plain, ""), paint, &line);
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
                self.one(0, (Paint::Dim, "●"), Paint::Dim, &format!("{text} · {}", sanitize(&place)));
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
                let text = format!("limit: {}", sanitize(&limit.message));
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
                let (model, messages) = (sanitize(&called.model), called.messages);
                let text = format!("asking {model}, {messages} messages{attempt}");
                self.one(2, (Paint::Dim, "·"), Paint::Dim, &text);
            }
            Body::ModelFailed(failed) => {
                let again = failed.retry_in_ms.map(|ms| {
                    format!(" · again in {}", duration(std::time::Duration::from_millis(ms)))
                });
                let text = format!("{}{}", sanitize(&failed.message), again.unwrap_or_default());
                self.warning(2, &text);
            }
            Body::TextWritten(written) => self.text(2, Paint::Plain, &written.text),
            Body::ThinkingWritten(thinking) if self.full() => {
                self.text(4, Paint::Dim, &thinking.text);
            }
            Body::ThinkingWritten(thinking) => {
                let head = sanitize(thinking.text.head().trim()).into_owned();
                if !head.is_empty() {
                    self.one(2, (Paint::Dim, "~"), Paint::Dim, &head);
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
            // A kind of which nobody has said yet how it looks.
            other => self.one(2, (Paint::Dim, "·"), Paint::Dim, other.kind()),
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
        for line in &resumed.plan {
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
                    Reason::AgentCrashed | Reason::Failed | Reason::Disk => Paint::Red,
                    _ => Paint::Yellow,
                };
                (paint, "■", format!("stopped: {}", reason_word(stopped)))
            }
        };
        let message = sanitize(stopped.message.trim());
        let message = if message.is_empty() { String::new() } else { format!(" · {message}") };
        let message = self.with_reset(message, stopped.resets_at);
        self.line(0, (paint, sign), &[(paint, word), (Paint::Plain, message)]);
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
            Cause::Person | Cause::Unknown => "",
            Cause::Proof => "the proof failed: ",
            _ => "going on: ",
        };
        let prompt = sanitize(started.prompt.head().trim());
        text.push((Paint::Plain, format!(" · {why}{prompt}")));
        self.line(0, (Paint::Cyan, "▸"), &text);
    }

    fn turn_ended(&mut self, outcome: Outcome) {
        let text = match outcome {
            Outcome::Finished if !self.full() => return,
            Outcome::Finished => return self.one(2, (Paint::Dim, "◂"), Paint::Dim, "turn finished"),
            Outcome::Truncated => "the reply was cut at the model's output limit",
            Outcome::Refused => "the model would not do it",
            Outcome::Superseded => "a new prompt took the place of the rest",
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
        let usage = &replied.usage;
        let read = usage.input + usage.cache_read + usage.cache_write;
        let written = usage.output + usage.reasoning;
        let mut text =
            format!("{} {}+{} tokens", sanitize(&replied.model), tokens(read), tokens(written));
        if self.full() {
            if usage.cache_read > 0 {
                text = format!("{text}, {} of them cached", tokens(usage.cache_read));
            }
            if let Some(cost) = replied.cost_micros {
                text = format!("{text} · {}", money(cost, 0));
            }
        }
        self.one(2, (Paint::Dim, "·"), Paint::Dim, &text);
    }

    fn tool_returned(&mut self, returned: &ToolReturned) {
        self.outcome(returned.status, returned.exit, &returned.output, &returned.touched);
    }

    fn proof_returned(&mut self, returned: &ProofReturned) {
        self.outcome(returned.status, returned.exit, &returned.output, &[]);
    }

    fn outcome(
        &mut self,
        status: ToolStatus,
        exit: Option<i32>,
        output: &Payload,
        touched: &[String],
    ) {
        let failed = status == ToolStatus::Failed || exit.is_some_and(|exit| exit != 0);
        let (paint, sign, word) = match status {
            ToolStatus::MayHaveRun => (Paint::Yellow, "?", "may have run"),
            ToolStatus::Interrupted => (Paint::Yellow, "✗", "interrupted"),
            ToolStatus::NotRun => (Paint::Yellow, "–", "not run"),
            ToolStatus::Done | ToolStatus::Failed if failed => (Paint::Red, "✗", "failed"),
            ToolStatus::Done | ToolStatus::Failed => (Paint::Green, "✓", ""),
            ToolStatus::Unknown => (Paint::Yellow, "?", "unknown"),
        };
        let mut parts = Vec::new();
        match exit {
            Some(exit) => parts.push(format!("exit {exit}")),
            None if !word.is_empty() => parts.push(word.to_owned()),
            None => {}
        }
        if !touched.is_empty() {
            parts.push(format!("wrote {}", sanitize(&touched.join(", "))));
        }
        let summary = if failed { last_line(output) } else { size(output) };
        parts.extend((!summary.is_empty()).then_some(summary));
        if parts.is_empty() {
            parts.push("done".to_owned());
        }
        let text = [(paint, parts.remove(0)), (Paint::Dim, String::new())];
        let mut text = text.to_vec();
        text.extend(parts.into_iter().map(|part| (Paint::Dim, format!("  {part}"))));
        self.line(4, (paint, sign), &text);
        if self.full() {
            self.text(6, Paint::Dim, output);
        }
    }
}

fn reason_word(stopped: &SessionStopped) -> String {
    match (stopped.reason, stopped.cap) {
        (Reason::Cap, Some(cap)) => format!("cap:{cap}"),
        (Reason::Cap, None) => "cap".to_owned(),
        (Reason::AgentCrashed, _) => "agent crashed".to_owned(),
        (reason, _) => format!("{reason:?}").to_lowercase(),
    }
}

/// What a tool is asked for, in a few words.
fn telling(input: &Payload) -> String {
    let head = input.head();
    match serde_json::from_str::<Value>(head) {
        Ok(Value::Object(fields)) => {
            let named = TELLING.iter().find_map(|name| fields.get(*name)).and_then(words);
            let found = named.or_else(|| fields.values().find_map(words));
            found.unwrap_or_default()
        }
        Ok(_) => sanitize(head).into_owned(),
        // The start of an input that is in a blob: what can be seen of the telling field.
        Err(_) => TELLING
            .iter()
            .find_map(|name| started_value(head, name))
            .unwrap_or_else(|| sanitize(head).into_owned()),
    }
}

fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(sanitize(text.trim()).into_owned()),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(words).collect();
            Some(items.join(" "))
        }
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Object(_) => None,
    }
}

/// A string value in JSON that may be cut off anywhere.
fn started_value(json: &str, name: &str) -> Option<String> {
    let (_, after) = json.split_once(&format!("\"{name}\""))?;
    let value = after.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let mut text = String::new();
    let mut chars = value.chars();
    loop {
        match chars.next() {
            None => return Some(format!("{}…", sanitize(text.trim()))),
            Some('"') => return Some(sanitize(text.trim()).into_owned()),
            Some('\\') => match chars.next() {
                Some('n' | 't' | 'r') => text.push(' '),
                Some('u') => text.push('\u{fffd}'),
                Some(c) => text.push(c),
                None => {}
            },
            Some(c) => text.push(c),
        }
    }
}

/// The last line with something on it: where a failing command says why.
fn last_line(output: &Payload) -> String {
    if output.blob.is_some() {
        return size(output);
    }
    let lines = output.head().lines().map(|line| sanitize(line).trim().to_owned());
    lines.filter(|line| !line.is_empty()).next_back().unwrap_or_default()
}

fn size(output: &Payload) -> String {
    if let Some(size) = output.bytes {
        return bytes(size);
    }
    let text = output.head().trim_end();
    match text.lines().count() {
        0 => String::new(),
        1 if style::width(text) <= 60 => sanitize(text).into_owned(),
        1 => shorten(&sanitize(text), 60).into_owned(),
        n => format!("{n} lines"),
    }
}
