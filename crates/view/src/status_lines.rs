//! How a session stands, in a few lines that are drawn again and again: the pane below the others.
//!
//! ```text
//! ● running · 4 min 12 s · turn 3 · native · scripted
//!   task    Fix the failing test
//!   spent   12k of 400k tokens · $0.12 · turn 3 of 10
//!   last    ⚙ shell  cargo test
//!   stop    segue stop 7
//!   leave   Ctrl-B D, then segue attach 7
//! ```

use std::time::Duration;

use jiff::Timestamp;
use segue_core::{State, event::Verdict, status::Status};

use crate::{
    crew,
    show::advice,
    style::{self, Line, Paint, Style, duration, money, sanitize, tokens},
    table::status_paint,
};

/// How wide the labels are.
const LABEL: usize = 8;

/// What the journal does not tell.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// How commands name the session.
    pub selector: &'a str,
    /// Whether a process works on it.
    pub alive: bool,
    /// The last line of what happened.
    pub last: Option<&'a str>,
    pub now: Timestamp,
}

/// The lines, none wider than the style's width: eight at most.
#[must_use]
pub fn status_lines(state: &State, seen: &Seen<'_>, style: &Style) -> Vec<String> {
    let status = Status::of(state, seen.alive);
    let mut page = Page { style, lines: vec![head(state, seen, status, style)] };
    if let Some(identity) = &state.identity {
        page.line("task", Paint::Plain, &sanitize(identity.prompt.head().trim()));
    }
    match &state.crew {
        Some(_) => {
            let standing = crew::standing(&crew::rows(state));
            page.two_lines("crew", Paint::Plain, &sanitize(&standing));
        }
        None => page.two_lines("spent", Paint::Plain, &spent(state, seen)),
    }
    if seen.alive {
        if let Some(last) = seen.last.map(str::trim).filter(|last| !last.is_empty()) {
            page.two_lines("last", Paint::Plain, last);
        }
        page.line("stop", Paint::Cyan, &format!("segue stop {}", seen.selector));
    } else {
        if let Some(stop) = &state.stop {
            let resets = stop.resets_at.map(|at| style::relative(at, seen.now));
            let resets = resets.map(|when| format!("resets {when}: ")).unwrap_or_default();
            let why = format!("{resets}{}", sanitize(stop.message.trim()));
            page.two_lines("why", status_paint(status), &why);
        }
        page.line("go on", Paint::Cyan, &advice(status, state, seen.selector));
    }
    let leave = format!("Ctrl-B D, then segue attach {}", seen.selector);
    page.line("leave", Paint::Dim, &leave);
    page.lines
}

struct Page<'a> {
    style: &'a Style,
    lines: Vec<String>,
}

impl Page<'_> {
    fn line(&mut self, label: &str, paint: Paint, text: &str) {
        let line = Line::new().plain("  ").with(Paint::Dim, format!("{label:<LABEL$}"));
        self.lines.push(line.with(paint, text).render(self.style));
    }

    /// A text that may take a second line where the pane is narrow.
    fn two_lines(&mut self, label: &str, paint: Paint, text: &str) {
        let parts = style::wrap(text, self.style.width.saturating_sub(LABEL + 2));
        match &parts[..] {
            [] => {}
            [one] => self.line(label, paint, one),
            [first, rest @ ..] => {
                self.line(label, paint, first);
                self.line("", paint, &rest.join(" "));
            }
        }
    }
}

/// What matters most comes first: the rest is cut off in a narrow pane.
fn head(state: &State, seen: &Seen<'_>, status: Status, style: &Style) -> String {
    let sign = if seen.alive { "● " } else { "■ " };
    let mut line = Line::new().with(status_paint(status), format!("{sign}{status}"));
    if let Some(since) = state.running_since.filter(|_| seen.alive) {
        // To the second: a display that ticks is seen to be alive.
        let span = Duration::try_from(seen.now.duration_since(since)).unwrap_or_default();
        line = line.plain(format!(" · {}", duration(Duration::from_secs(span.as_secs()))));
    }
    if let Some(terms) = state.terms() {
        line = line.plain(format!(" · iteration {}", state.review.attempt().max(1)));
        if let Some(most) = state.caps.iterations {
            line = line.plain(format!(" of {most}"));
        }
        for (name, verdict) in state.round().into_iter().flat_map(|round| &round.verdicts) {
            let paint = if *verdict == Verdict::Pass { Paint::Green } else { Paint::Red };
            line = line.plain(format!(" · {} ", sanitize(name)));
            line = line.with(paint, format!("{verdict:?}").to_lowercase());
        }
        let waits = state.round().filter(|round| !round.empty && seen.alive);
        for seat in waits.into_iter().flat_map(|round| round.missing(terms)) {
            line = line.plain(format!(" · {} reviews", sanitize(&seat.name)));
        }
    } else if state.turn.number > 0 {
        line = line.plain(format!(" · turn {}", state.turn.number));
    }
    if state.identity.is_some() {
        line = line.plain(format!(" · {}", sanitize(state.agent())));
    }
    if let Some(model) = state.model() {
        line = line.with(Paint::Dim, format!(" · {}", sanitize(model)));
    }
    line.render(style)
}

/// What was spent, each beside the cap that it is held to.
fn spent(state: &State, seen: &Seen<'_>) -> String {
    let caps = &state.caps;
    let of = |cap: Option<String>| cap.map(|cap| format!(" of {cap}")).unwrap_or_default();
    let mut parts =
        vec![format!("{}{} tokens", tokens(state.usage.total()), of(caps.tokens.map(tokens)))];
    let sum = money(state.cost, state.unpriced_calls);
    if sum != style::NO_PRICE {
        parts.push(format!("{sum}{}", of(caps.cost_micros.map(|cap| money(cap, 0)))));
    }
    if let Some(cap) = caps.turns {
        parts.push(format!("turn {} of {cap}", state.turn.number));
    }
    if let Some(cap) = caps.wall_clock_secs.map(Duration::from_secs) {
        // The clock runs while a process does.
        let until = state.updated_at.filter(|_| !seen.alive).unwrap_or(seen.now);
        let used = cap.saturating_sub(caps.time_left(state, until).unwrap_or(cap));
        let used = Duration::from_secs(used.as_secs());
        parts.push(format!("{} of {}", duration(used), duration(cap)));
    }
    // This one is always there: only when it comes near does it tell something.
    if let Some(cap) = caps.steps.filter(|cap| state.turn.calls >= cap / 2) {
        parts.push(format!("{} of {cap} model calls", state.turn.calls));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use segue_core::{
        caps::Caps,
        event::{Reason, SessionStopped},
        state::Phase,
        usage::Usage,
    };

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn state() -> State {
        let mut state = State {
            phase: Phase::Running,
            running_since: Some(at(0)),
            agent: Some("native".to_owned()),
            model: Some("scripted".to_owned()),
            usage: Usage { input: 12_000, ..Usage::default() },
            caps: Caps { turns: Some(10), tokens: Some(400_000), ..Caps::default() },
            ..State::default()
        };
        state.turn.number = 3;
        state
    }

    fn lines(state: &State, alive: bool, width: usize) -> String {
        let last = Some("  ⚙ shell  cargo test");
        let seen = Seen { selector: "7", alive, last, now: at(252) };
        status_lines(state, &seen, &Style::plain(width)).join("\n")
    }

    #[test]
    fn a_session_at_work() {
        assert_eq!(
            lines(&state(), true, 80),
            "● running · 4 min 12 s · turn 3 · scripted
  spent   12k of 400k tokens · $0.00 · turn 3 of 10
  last    ⚙ shell  cargo test
  stop    segue stop 7
  leave   Ctrl-B D, then segue attach 7"
        );
    }

    #[test]
    fn a_session_that_has_stopped() {
        let mut state = state();
        state.phase = Phase::Stopped;
        state.stop = Some(SessionStopped {
            reason: Reason::Interrupted,
            agent: None,
            cap: None,
            signal: Some(2),
            resets_at: None,
            message: "asked to\u{1b}[2J stop".to_owned(),
            hint: None,
        });
        assert_eq!(
            lines(&state, false, 80),
            "■ interrupted · turn 3 · scripted
  spent   12k of 400k tokens · $0.00 · turn 3 of 10
  why     asked to stop
  go on   segue resume 7
  leave   Ctrl-B D, then segue attach 7"
        );
    }

    #[test]
    fn a_crew() {
        use crate::crew::tests;
        let seen = Seen { selector: "7", alive: false, last: None, now: tests::now() };
        assert_eq!(
            status_lines(&tests::state(), &seen, &Style::plain(80)).join("\n"),
            "■ unattended
  crew    1 degraded: linter · 1 waiting: coder · 1 idle
  go on   segue resume 7
  leave   Ctrl-B D, then segue attach 7"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_pane() {
        for width in [10, 20, 40] {
            for line in lines(&state(), true, width).lines() {
                assert!(style::width(line) <= width, "{width}: {line}");
            }
            assert!(lines(&state(), true, width).lines().count() <= 8);
        }
    }
}
