//! How a session stands, in a few lines that are drawn again and again: the pane below the others.
//!
//! ```text
//! ● running · turn 3 · native · scripted · 4 min 12 s
//!   task    Fix the failing test
//!   spent   12k tokens · $0.12 · turns 3 of 10
//!   last    ⚙ shell  cargo test
//!   stop    segue stop 7
//!   leave   detach (Ctrl-B D) · come back: segue attach 7
//! ```

use std::time::Duration;

use jiff::Timestamp;
use segue_core::{State, status::Status};

use crate::{
    show::{advice, caps},
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

/// The lines, none wider than the style's width, the most important first.
#[must_use]
pub fn status_lines(state: &State, seen: &Seen<'_>, style: &Style) -> Vec<String> {
    let status = Status::of(state, seen.alive);
    let mut lines = vec![head(state, seen, status, style)];
    let mut line = |label: &str, paint: Paint, text: &str| {
        let line = Line::new().plain("  ").with(Paint::Dim, format!("{label:<LABEL$}"));
        lines.push(line.with(paint, text).render(style));
    };
    if let Some(identity) = &state.identity {
        line("task", Paint::Plain, &sanitize(identity.prompt.head().trim()));
    }
    line("spent", Paint::Plain, &spent(state, seen));
    if seen.alive {
        if let Some(last) = seen.last.map(str::trim).filter(|last| !last.is_empty()) {
            line("last", Paint::Plain, last);
        }
        line("stop", Paint::Cyan, &format!("segue stop {}", seen.selector));
    } else {
        if let Some(stop) = state.stop.as_ref().filter(|stop| !stop.message.is_empty()) {
            line("why", status_paint(status), &sanitize(stop.message.trim()));
        }
        if let Some(at) = state.stop.as_ref().and_then(|stop| stop.resets_at) {
            line("resets", Paint::Plain, &style::relative(at, seen.now));
        }
        line("go on", Paint::Cyan, &advice(status, state, seen.selector));
    }
    line(
        "leave",
        Paint::Dim,
        &format!("detach (Ctrl-B D) · come back: segue attach {}", seen.selector),
    );
    lines
}

fn head(state: &State, seen: &Seen<'_>, status: Status, style: &Style) -> String {
    let sign = if seen.alive { "● " } else { "■ " };
    let mut line = Line::new().with(status_paint(status), format!("{sign}{status}"));
    if state.turn.number > 0 {
        line = line.plain(format!(" · turn {}", state.turn.number));
    }
    if state.identity.is_some() {
        line = line.plain(format!(" · {}", sanitize(state.agent())));
    }
    if let Some(model) = state.model() {
        line = line.with(Paint::Dim, format!(" · {}", sanitize(model)));
    }
    if let Some(since) = state.running_since.filter(|_| seen.alive) {
        // To the second: a display that ticks is seen to be alive.
        let span = Duration::try_from(seen.now.duration_since(since)).unwrap_or_default();
        line = line.plain(format!(" · {}", duration(Duration::from_secs(span.as_secs()))));
    }
    line.render(style)
}

/// What was spent, and how far that is from the caps.
fn spent(state: &State, seen: &Seen<'_>) -> String {
    let mut parts = vec![format!("{} tokens", tokens(state.usage.total()))];
    let sum = money(state.cost, state.unpriced_calls);
    if sum != style::NO_PRICE {
        parts.push(sum);
    }
    let until = state.updated_at.filter(|_| !seen.alive).unwrap_or(seen.now);
    parts.extend(caps(state, until));
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
            caps: Caps { turns: Some(10), ..Caps::default() },
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
            "● running · turn 3 · scripted · 4 min 12 s
  spent   12k tokens · $0.00 · turns 3 of 10
  last    ⚙ shell  cargo test
  stop    segue stop 7
  leave   detach (Ctrl-B D) · come back: segue attach 7"
        );
    }

    #[test]
    fn a_session_that_has_stopped() {
        let mut state = state();
        state.phase = Phase::Stopped;
        state.stop = Some(SessionStopped {
            reason: Reason::Interrupted,
            cap: None,
            signal: Some(2),
            resets_at: None,
            message: "asked to\u{1b}[2J stop".to_owned(),
            hint: None,
        });
        assert_eq!(
            lines(&state, false, 80),
            "■ interrupted · turn 3 · scripted
  spent   12k tokens · $0.00 · turns 3 of 10
  why     asked to stop
  go on   segue resume 7
  leave   detach (Ctrl-B D) · come back: segue attach 7"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_pane() {
        for width in [10, 20, 40] {
            for line in lines(&state(), true, width).lines() {
                assert!(style::width(line) <= width, "{width}: {line}");
            }
        }
    }
}
