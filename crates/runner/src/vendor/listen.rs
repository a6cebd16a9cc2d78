//! From a program's bytes to journalled events.
//!
//! What a line means is the adapter's word; what becomes of it is decided here, for all vendors
//! alike. There is no other input than the bytes, no clock and no process: after a crash the same
//! bytes are read again, and the journal gets what it still lacks.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    time::Duration,
};

use segue_agents::{
    native::price,
    vendor::{Dialogue, Ending, Heard, Lines, Signal, ToolEnd, Trouble},
};
use segue_core::{
    Body, Draft,
    caps::Cap,
    event::{
        AgentExited, AgentIntroduced, ModelFailed, QuotaTold, Reason, SessionStopped, TextWritten,
        ThinkingWritten, ToolCalled, ToolReturned, ToolStarted, ToolStatus, UsageReported,
        WarningRaised,
    },
    state::Progress,
    usage::{Price, Usage},
};

use super::text::{keep_end, keep_start};
use crate::{
    guardian::Exit,
    supervisor::{Activity, Halt, Supervisor, stop},
    trouble::{Repeated, failure},
};

/// A wait that a vendor announces and that is longer than this is ours to decide about.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// So many steps in a row that did nothing, and it is a loop.
const MOST_EMPTY: u32 = 5;

/// How much of an unfinished text, and of the last words on standard error, is kept.
const MOST_PARTIAL: usize = 256 << 10;
const MOST_LAST_WORDS: usize = 4 << 10;

/// How a run ended.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// The program's own word for it, if it had one.
    pub(super) ending: Option<Ending>,
    /// Why Segue ended it, if it did.
    pub(super) stopped: Option<SessionStopped>,
    /// The trouble that the program went on trying with when it was ended for that.
    pub(super) gave_up_on: Option<Trouble>,
    pub(super) exit: Option<Exit>,
    /// How its standard error ended.
    pub(super) last_words: String,
    /// It said or did something.
    pub(super) progressed: bool,
    /// The vendor's window that is used up.
    pub(super) window: Option<String>,
    /// What the vendor calls the last point of its conversation.
    pub(super) mark: Option<String>,
}

/// The one who listens to a run.
pub(super) struct Listener<'a> {
    pub(super) dialogue: Box<dyn Dialogue>,
    pub(super) cwd: &'a Path,
    /// Prices that a person set, by model.
    pub(super) prices: &'a HashMap<String, Price>,
    /// Whether the vendor tells what its calls cost.
    pub(super) told_cost: bool,
    pub(super) retries: u32,
    /// Events that the journal has already.
    pub(super) skip: u64,
    /// Its end is in the journal too: only what it means is asked.
    pub(super) recorded: bool,
    pub(super) heard: Heard,
    out: Lines,
    err: Lines,
    lines: u64,
    unread: u64,
    partial: String,
    retried: u32,
    empty: u32,
    repeated: Repeated,
    notices: HashSet<String>,
    /// What was told already: the same again is no news.
    known: AgentIntroduced,
    quotas: Vec<QuotaTold>,
    pub(super) played: Played,
    /// A cap that is reached. The turn may be at its end just now, so it gets a moment.
    pub(super) over: Option<Cap>,
    /// A stop that the stream itself calls for.
    pub(super) enough: Option<SessionStopped>,
}

impl<'a> Listener<'a> {
    pub(super) fn new(
        dialogue: Box<dyn Dialogue>,
        cwd: &'a Path,
        prices: &'a HashMap<String, Price>,
        (told_cost, retries): (bool, u32),
        known: AgentIntroduced,
    ) -> Self {
        Self {
            dialogue,
            cwd,
            prices,
            told_cost,
            retries,
            skip: 0,
            recorded: false,
            heard: Heard::default(),
            out: Lines::default(),
            err: Lines::default(),
            lines: 0,
            unread: 0,
            partial: String::new(),
            retried: 0,
            empty: 0,
            repeated: Repeated::default(),
            notices: HashSet::new(),
            known,
            quotas: Vec::new(),
            played: Played::default(),
            over: None,
            enough: None,
        }
    }

    /// Begins without saying anything: for a stream that is read again.
    pub(super) fn open_unheard(&mut self) {
        self.dialogue.open();
    }

    /// What the program printed.
    pub(super) fn bytes(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        bytes: &[u8],
    ) -> Result<(), Halt> {
        let mut lines = std::mem::take(&mut self.out);
        let mut done = Ok(());
        lines.push(bytes, |line| {
            if done.is_ok() {
                done = self.line(supervisor, line);
            }
        });
        self.out = lines;
        done
    }

    fn line(&mut self, supervisor: &mut Supervisor<'_>, line: Option<&[u8]>) -> Result<(), Halt> {
        if line.is_some_and(<[u8]>::is_empty) {
            return Ok(());
        }
        self.lines += 1;
        let read = line.is_some_and(|line| self.dialogue.line(line, &mut self.heard).is_ok());
        self.unread += u64::from(!read);
        self.act(supervisor)
    }

    pub(super) fn error_bytes(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        bytes: &[u8],
    ) -> Result<(), Halt> {
        keep_end(&mut self.played.last_words, &String::from_utf8_lossy(bytes), MOST_LAST_WORDS);
        let mut lines = std::mem::take(&mut self.err);
        lines.push(bytes, |line| {
            if let Some(line) = line {
                self.dialogue.error_line(&String::from_utf8_lossy(line), &mut self.heard);
            }
        });
        self.err = lines;
        self.act(supervisor)
    }

    pub(super) fn cancel(&mut self) {
        self.dialogue.cancel(&mut self.heard);
    }

    /// The stream is at its end: what was left open is told as it is.
    pub(super) fn exited(
        mut self,
        supervisor: &mut Supervisor<'_>,
        exit: Option<Exit>,
        stopped: Option<SessionStopped>,
    ) -> Result<Played, Halt> {
        let mut lines = std::mem::take(&mut self.out);
        let mut done = Ok(());
        lines.finish(|line| done = self.line(supervisor, line));
        done?;
        if self.recorded {
            return Ok(self.played);
        }
        let code = match exit {
            Some(Exit::Code(code)) => Some(code),
            _ => None,
        };
        if self.played.ending.is_none() && exit.is_some() {
            self.dialogue.exited(code, &mut self.heard);
            self.act(supervisor)?;
        }
        if !self.partial.is_empty() {
            let text = supervisor.payload(&std::mem::take(&mut self.partial))?;
            let written = supervisor.in_turn(TextWritten { text, partial: true });
            self.emit(supervisor, vec![written])?;
        }
        self.played.stopped = stopped;
        self.played.exit = exit;
        let well = matches!(self.played.ending, Some(Ending::Finished));
        let words = Some(self.played.last_words.trim()).filter(|words| !well && !words.is_empty());
        let last_words = words.map(|words| supervisor.payload(words)).transpose()?;
        let exited = supervisor.in_turn(AgentExited {
            exit: code,
            signal: match exit {
                Some(Exit::Signal(signal)) => Some(signal),
                _ => None,
            },
            lines: self.lines,
            unread_lines: self.unread,
            last_words,
        });
        supervisor.note(exited)?;
        settle(supervisor, self.played.stopped.is_some())?;
        if self.unread > 0 {
            let (n, all) = (self.unread, self.lines);
            supervisor.warn(format!(
                "{n} of {all} lines could not be read; they are kept in the stream"
            ))?;
        }
        Ok(self.played)
    }

    /// Does what the last line asks for.
    fn act(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
        let signals = std::mem::take(&mut self.heard.signals);
        let mut introduced = AgentIntroduced::default();
        for signal in signals {
            match signal {
                Signal::Session(id) => introduced.vendor_session = Some(id),
                Signal::Model(model) => introduced.model = Some(model),
                Signal::Version(version) => introduced.version = Some(version),
                signal => self.take(supervisor, signal)?,
            }
        }
        self.introduce(supervisor, introduced)
    }

    /// What is new of what the program says about itself. Its id is on the disk before anything
    /// else follows from it.
    fn introduce(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        mut told: AgentIntroduced,
    ) -> Result<(), Halt> {
        let news = |told: &mut Option<String>, known: &mut Option<String>| {
            if told.is_none() || told == known {
                *told = None;
            } else {
                known.clone_from(told);
            }
        };
        news(&mut told.vendor_session, &mut self.known.vendor_session);
        news(&mut told.model, &mut self.known.model);
        news(&mut told.version, &mut self.known.version);
        if told == AgentIntroduced::default() {
            return Ok(());
        }
        let names_it = told.vendor_session.is_some();
        let draft = supervisor.in_turn(told);
        match names_it && self.skip == 0 {
            true => supervisor.commit(draft).map(drop),
            false => self.emit(supervisor, vec![draft]),
        }
    }

    /// Records what the journal does not have yet.
    fn emit(&mut self, supervisor: &mut Supervisor<'_>, drafts: Vec<Draft>) -> Result<(), Halt> {
        let mut new = drafts;
        while self.skip > 0 && !new.is_empty() {
            new.remove(0);
            self.skip -= 1;
        }
        if new.is_empty() {
            return Ok(());
        }
        supervisor.note_all(new).map(drop)
    }

    fn emit_one(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        body: impl Into<Body>,
    ) -> Result<(), Halt> {
        let draft = supervisor.in_turn(body);
        self.emit(supervisor, vec![draft])
    }

    fn take(&mut self, supervisor: &mut Supervisor<'_>, signal: Signal) -> Result<(), Halt> {
        if matches!(signal, Signal::Text(_) | Signal::ToolCalled { .. } | Signal::Ended(_)) {
            self.played.progressed = true;
            self.retried = 0;
        }
        match signal {
            Signal::Writing(text) => {
                keep_start(&mut self.partial, &text, MOST_PARTIAL);
                supervisor.progress(Activity::Answering(&text));
                Ok(())
            }
            Signal::Thinking => {
                supervisor.progress(Activity::Thinking);
                Ok(())
            }
            Signal::Mark(mark) => {
                self.played.mark = Some(mark);
                Ok(())
            }
            Signal::Text(text) => self.text(supervisor, &text),
            Signal::Thought(text) if text.trim().is_empty() => Ok(()),
            Signal::Thought(text) => {
                let text = supervisor.payload(&text)?;
                self.emit_one(supervisor, ThinkingWritten { text, signature: None })
            }
            Signal::ToolCalled { id, name, input } => self.called(supervisor, id, name, &input),
            Signal::ToolReturned(end) => self.returned(supervisor, end),
            Signal::Used { model, usage, cost } => {
                let guess = || self.price(supervisor, model.as_deref(), &usage);
                let cost_micros = cost.or_else(guess);
                let used = UsageReported { model, usage, cost_micros, settles: false };
                self.emit_one(supervisor, used)?;
                self.check_caps(supervisor);
                Ok(())
            }
            Signal::Cost(cost) => {
                let usage = Usage::default();
                let cost_micros = Some(cost);
                let told = UsageReported { model: None, usage, cost_micros, settles: true };
                self.emit_one(supervisor, told)?;
                self.check_caps(supervisor);
                Ok(())
            }
            Signal::Quota { window, used_percent, resets_at } => {
                if used_percent.is_some_and(|percent| percent >= 100) {
                    self.played.window = Some(window.clone());
                }
                let told = QuotaTold { window, used_percent, resets_at };
                if self.quotas.contains(&told) {
                    return Ok(());
                }
                self.quotas.retain(|known| known.window != told.window);
                self.quotas.push(told.clone());
                self.emit_one(supervisor, told)
            }
            Signal::Retrying { trouble, wait } => self.retrying(supervisor, trouble, wait),
            Signal::Empty => {
                self.empty += 1;
                if self.empty >= MOST_EMPTY {
                    let message =
                        format!("the agent asked its model {MOST_EMPTY} times for nothing");
                    self.enough = Some(stop(Reason::Looping, message));
                }
                Ok(())
            }
            Signal::Notice(message) => match self.notices.insert(message.clone()) {
                true => self.emit_one(supervisor, WarningRaised { message }),
                false => Ok(()),
            },
            Signal::Ended(ending) => {
                self.played.ending.get_or_insert(ending);
                Ok(())
            }
            // Gathered before.
            Signal::Session(_) | Signal::Model(_) | Signal::Version(_) => Ok(()),
        }
    }

    fn text(&mut self, supervisor: &mut Supervisor<'_>, text: &str) -> Result<(), Halt> {
        self.partial.clear();
        if text.is_empty() {
            return Ok(());
        }
        self.empty = 0;
        let text = supervisor.payload(text)?;
        self.emit_one(supervisor, TextWritten { text, partial: false })
    }

    fn called(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        id: String,
        name: String,
        input: &str,
    ) -> Result<(), Halt> {
        self.empty = 0;
        if let Some(stop) = self.repeated.again(&name, input) {
            self.enough = Some(stop);
        }
        let input = supervisor.payload(input)?;
        let called = supervisor.in_turn(ToolCalled { name, input }).about(id.clone());
        let started = supervisor.in_turn(ToolStarted {}).about(id);
        self.emit(supervisor, vec![called, started])
    }

    fn returned(&mut self, supervisor: &mut Supervisor<'_>, end: ToolEnd) -> Result<(), Halt> {
        let calls = supervisor.state().turn.calls();
        let name = calls.into_iter().find(|call| call.id == end.id).map(|call| call.name.clone());
        let inside = |file: &String| match Path::new(file).strip_prefix(self.cwd) {
            Ok(inside) => inside.display().to_string(),
            Err(_) => file.clone(),
        };
        let returned = ToolReturned {
            name: name.unwrap_or_default(),
            status: end.status,
            output: supervisor.payload(&end.output)?,
            exit: end.exit,
            touched: end.touched.iter().map(inside).collect(),
        };
        let draft = supervisor.in_turn(returned).about(end.id);
        self.emit(supervisor, vec![draft])
    }

    fn retrying(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        trouble: Trouble,
        wait: Option<Duration>,
    ) -> Result<(), Halt> {
        self.retried += 1;
        let ms = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let failed = ModelFailed {
            error: failure(&trouble),
            message: trouble.to_string(),
            retry_in_ms: Some(wait.map_or(0, ms)),
        };
        self.emit_one(supervisor, failed)?;
        if self.retried >= self.retries || wait.is_some_and(|wait| wait >= LONGEST_WAIT) {
            self.played.gave_up_on = Some(trouble);
        }
        Ok(())
    }

    fn price(
        &self,
        supervisor: &Supervisor<'_>,
        model: Option<&str>,
        usage: &Usage,
    ) -> Option<segue_core::usage::Micros> {
        if self.told_cost {
            return None;
        }
        let known = supervisor.state().vendor(supervisor.agent());
        let model = model.or(known.and_then(|known| known.model.as_deref()))?;
        let price = self.prices.get(model).copied().or_else(|| price::price(model))?;
        Some(price.cost(usage))
    }

    fn check_caps(&mut self, supervisor: &Supervisor<'_>) {
        if let Some(cap) = supervisor.over() {
            self.over = Some(cap);
        }
    }
}

/// Answers what the program left unanswered.
pub(super) fn settle(supervisor: &mut Supervisor<'_>, ended_by_us: bool) -> Result<(), Halt> {
    let open: Vec<(String, String)> = supervisor
        .state()
        .turn
        .calls()
        .filter(|call| call.progress != Progress::Returned)
        .map(|call| (call.id.clone(), call.name.clone()))
        .collect();
    for (id, name) in open {
        let (status, text) = match ended_by_us {
            true => (ToolStatus::Interrupted, "ended by Segue while it ran"),
            false => (ToolStatus::MayHaveRun, "unknown: it may have run"),
        };
        let output = supervisor.payload(text)?;
        let touched = Vec::new();
        let returned = ToolReturned { name, status, output, exit: None, touched };
        let draft = supervisor.in_turn(returned).about(id);
        supervisor.note(draft)?;
    }
    Ok(())
}
