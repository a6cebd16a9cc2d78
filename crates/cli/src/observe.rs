//! What a person sees of a run while it goes on, and at its end.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use segue_core::{
    Body, Event, Exit, Payload,
    event::{Cause, Reason, SessionStopped},
    status::Status,
};
use segue_journal::{RealDisk, Session};
use segue_runner::supervisor::{Activity, Observer};
use segue_view::{
    json::event_json,
    render::{Detail, event_line},
    show::advice,
    style::{self, Paint, Style},
    tasks,
};
use serde_json::json;

use crate::{
    context::{Context, print, say},
    error::CommandResult,
};

/// How often the line at the bottom is drawn anew.
const FRAME: Duration = Duration::from_millis(100);

/// How far the agent's words stand in from the margin of a terminal.
const INDENT: usize = 2;

/// Prints events as they become durable: the agent's words to stdout, the rest to stderr; or all of
/// them as JSON lines to stdout.
#[derive(Debug)]
pub(crate) struct Watcher {
    json: bool,
    out: Style,
    err: Style,
    /// Whether a terminal shows what goes to stdout.
    for_eyes: bool,
    /// The session's directory, once it is known: long texts are in it.
    dir: Option<PathBuf>,
    spinner: Option<Spinner>,
    quiet: bool,
}

impl Watcher {
    pub(crate) fn new(context: &Context) -> Self {
        let spins = !context.json && io::stderr().is_terminal();
        let spinner = spins.then(|| Spinner { since: Instant::now(), drawn: None, frame: 0 });
        let (out, err) = (context.out(), context.err());
        let for_eyes = io::stdout().is_terminal() || out.color;
        Self { json: context.json, out, err, for_eyes, dir: None, spinner, quiet: false }
    }

    /// Tells where the session is that will be watched.
    pub(crate) fn looks_at(&mut self, dir: &Path) {
        self.dir = Some(dir.to_owned());
    }

    pub(crate) fn began(&mut self, number: u64, dir: &Path) {
        self.looks_at(dir);
        if self.json {
            // First of all: whoever reads this can resume what they have not seen the end of.
            let session = number.to_string();
            print(&json!({ "began": { "session": session, "dir": dir } }).to_string());
        } else {
            let name = format!("session {number}");
            let dir = format!(" · {}", style::sanitize(&dir.display().to_string()));
            // A path that is broken in two can't be copied, and `segue show` has it.
            let fits = 2 + style::width(&name) + style::width(&dir) <= self.err.width;
            let dir = if fits { self.err.paint(Paint::Dim, &dir) } else { String::new() };
            say(&format!("{} {name}{dir}", self.err.paint(Paint::Cyan, "●")));
        }
    }

    /// Something to know before it begins.
    pub(crate) fn remark(&self, text: &str) {
        if !self.json {
            say(&format!("  {}", self.err.paint(Paint::Dim, &style::sanitize(text))));
        }
    }

    /// Watches without a word: what is done is told by whoever does it.
    pub(crate) fn quiet(context: &Context) -> Self {
        Self { quiet: true, ..Self::new(context) }
    }

    /// How long until a limit is over, at the bottom of a terminal.
    pub(crate) fn count_down(&mut self, left: Duration) {
        self.progress(Activity::Limited(left));
    }

    /// That somebody else is asked to stop, at the bottom of a terminal.
    pub(crate) fn stopping(&mut self) {
        if let Some(spinner) = &mut self.spinner {
            spinner.draw_text("stopping", &self.err);
        }
    }

    pub(crate) fn wipe(&mut self) {
        if let Some(spinner) = &mut self.spinner {
            spinner.wipe();
        }
    }

    /// The agent's words are the result: all of them, and to a file or a pipe just as they are.
    fn answer(&self, payload: &Payload) {
        let text = self.whole(payload);
        if !self.for_eyes {
            return print(text.trim_end_matches('\n'));
        }
        for line in style::wrap(text.trim(), self.out.width.saturating_sub(INDENT)) {
            print(format!("{:INDENT$}{line}", "").trim_end());
        }
    }

    /// The list of tasks with its states, above each of them.
    fn list(&self, event: &Event) {
        let lines = match self.session() {
            Some(session) => tasks::progress(session.state(), &self.err, event.at),
            None => event_line(event, &self.err, Detail::Short).into_iter().collect(),
        };
        say("");
        lines.iter().for_each(|line| say(line));
    }

    /// What is spent by now of each cap of a list, with every further turn of a task.
    fn spent(&self, event: &Event) {
        let now = self.session();
        let lines = now.map(|now| tasks::spent_now(now.state(), &self.err, event.at));
        lines.unwrap_or_default().iter().for_each(|line| say(line));
    }

    /// The session as it is on the disk.
    fn session(&self) -> Option<Session> {
        Session::open(Arc::new(RealDisk), self.dir.as_ref()?).ok()
    }

    /// A text, also where it is too long for a line of the journal.
    fn whole(&self, payload: &Payload) -> String {
        let stored = |dir: &PathBuf| Session::open(Arc::new(RealDisk), dir)?.text(payload);
        let found = match (&payload.blob, &self.dir) {
            (Some(_), Some(dir)) => stored(dir).ok(),
            _ => None,
        };
        found.unwrap_or_else(|| payload.head().to_owned())
    }
}

impl Observer for Watcher {
    fn event(&mut self, event: &Event) {
        if self.quiet {
            return;
        }
        if self.json {
            return print(&event_json(event).to_string());
        }
        self.wipe();
        match &event.body {
            // Said by the conclusion, and by the plan before.
            Body::SessionStopped(_) | Body::SessionResumed(_) | Body::SessionStarted(_) => {}
            Body::LimitHit(_) => {}
            Body::ModelFailed(failed) if failed.retry_in_ms.is_none() => {}
            Body::TextWritten(written) => self.answer(&written.text),
            Body::TaskStarted(_) => self.list(event),
            _ => {
                if let Some(line) = event_line(event, &self.err, Detail::Short) {
                    say(&line);
                }
                // The first turn of a task has the list just above it.
                if matches!(&event.body, Body::TurnStarted(turn) if turn.cause != Cause::Task) {
                    self.spent(event);
                }
            }
        }
        if let Some(spinner) = &mut self.spinner {
            spinner.since = Instant::now();
        }
    }

    fn aside(&mut self, who: &str, event: &Event) {
        if self.quiet {
            return;
        }
        if self.json {
            return print(&json!({ "reviewer": who, "event": event_json(event) }).to_string());
        }
        // Their verdicts are told by the session itself, and the rest is for `segue watch`.
        let shown = matches!(
            event.body,
            Body::ToolCalled(_)
                | Body::WarningRaised(_)
                | Body::LimitHit(_)
                | Body::ModelFailed(_)
                | Body::AgentChanged(_)
        );
        if let Some(line) = event_line(event, &self.err, Detail::Short).filter(|_| shown) {
            self.wipe();
            let who = self.err.paint(Paint::Dim, &format!("{who} ┊"));
            for line in line.lines() {
                say(&format!("  {who} {line}"));
            }
        }
    }

    fn progress(&mut self, what: Activity<'_>) {
        if let Some(spinner) = &mut self.spinner {
            spinner.draw(what, &self.err);
        }
    }
}

/// One line at the bottom of a terminal that shows that something goes on.
#[derive(Debug)]
struct Spinner {
    since: Instant,
    drawn: Option<Instant>,
    frame: usize,
}

impl Spinner {
    fn draw(&mut self, what: Activity<'_>, style: &Style) {
        let text = match what {
            Activity::Answering(_) => "answering".to_owned(),
            Activity::Thinking => "thinking".to_owned(),
            Activity::Waiting(left) => format!("again in {}", style::duration(left)),
            Activity::Limited(left) => {
                format!("waiting for the limit to reset, {} left", style::duration(left))
            }
            Activity::Running(command) => format!("running {}", style::sanitize(command)),
        };
        self.draw_text(&text, style);
    }

    fn draw_text(&mut self, text: &str, style: &Style) {
        if self.drawn.is_some_and(|at| at.elapsed() < FRAME) {
            return;
        }
        self.drawn = Some(Instant::now());
        self.frame += 1;
        let sign = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧'][self.frame % 8];
        let elapsed = style::duration(self.since.elapsed());
        let line = format!("  {sign} {text} · {elapsed}");
        let line = style::shorten(&line, style.width.saturating_sub(1));
        let mut err = io::stderr().lock();
        let _ = write!(err, "\r\x1b[2K{}", style.paint(Paint::Dim, &line));
        let _ = err.flush();
    }

    fn wipe(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(io::stderr().lock(), "\r\x1b[2K");
        }
    }
}

/// What a stop means for whoever called.
pub(crate) fn exit_of(stop: &SessionStopped) -> Exit {
    match stop.reason {
        Reason::Done => Exit::Done,
        Reason::Rewound => Exit::Done,
        Reason::Interrupted => Exit::Interrupted(stop.signal.unwrap_or(2)),
        Reason::Limit
        | Reason::Cap
        | Reason::Looping
        | Reason::NoCase
        | Reason::Empty
        | Reason::Discarded
        | Reason::HandedOff
        | Reason::Drifted
        | Reason::Silent
        | Reason::Overloaded
        | Reason::Unreachable
        | Reason::StreamCut
        | Reason::ContextExhausted
        | Reason::AgentCrashed => Exit::Stopped,
        Reason::Failed | Reason::Refused | Reason::NotSignedIn | Reason::Disk | Reason::Unknown => {
            Exit::Failed
        }
    }
}

/// The last words: how it ended, what it cost, and the one command that goes on.
pub(crate) fn conclude(
    context: &Context,
    mut watcher: Watcher,
    selector: &str,
    dir: &Path,
    stop: &SessionStopped,
) -> CommandResult {
    watcher.wipe();
    let session = Session::open(context.home.disk().clone(), dir)?;
    let state = session.state();
    let exit = match stop.reason {
        // Of a list that is one task's failure: it is tried again by the next resume.
        Reason::Refused if state.tasks.is_some() => Exit::Stopped,
        _ => exit_of(stop),
    };
    let status = Status::of(state, false);
    let next = (stop.reason != Reason::Done).then(|| advice(status, state, selector));
    if context.json {
        let result = json!({
            "result": {
                "session": selector, "id": session.id(), "reason": stop.reason, "cap": stop.cap,
                "message": stop.message, "hint": stop.hint, "resets_at": stop.resets_at,
                "status": exit.code(), "turns": state.turn.number, "tokens": state.usage.total(),
                "cost_dollars": state.cost.dollars(), "unpriced_calls": state.unpriced_calls,
                "next": next, "dir": dir,
            }
        });
        print(&result.to_string());
        return Ok(exit);
    }
    let turns = state.turn.number;
    let plural = if turns == 1 { "" } else { "s" };
    let mut spent = format!("{turns} turn{plural} · {} tokens", style::tokens(state.usage.total()));
    let money = style::money(state.cost, state.unpriced_calls);
    if money != style::NO_PRICE {
        spent = format!("{spent} · {money}");
    }
    let message = style::sanitize(&stop.message);
    let look = context.err();
    match next {
        None => {
            let sign = look.paint(Paint::Green, "✓");
            say(&format!("{sign} session {selector} is completed: {message} · {spent}"));
        }
        Some(next) => {
            let sign = look.paint(Paint::Yellow, "■");
            say(&format!("{sign} session {selector} has stopped: {message} · {spent}"));
            if let Some(at) = stop.resets_at {
                say(&format!("  resets {}", style::relative(at, context.now())));
            }
            if let Some(hint) = &stop.hint {
                say(&format!("  hint: {}", style::sanitize(hint)));
            }
            say(&next);
        }
    }
    Ok(exit)
}
