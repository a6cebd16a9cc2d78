//! What a watcher sees: the events one by one, or how the session stands.

use std::io::{self, IsTerminal, Write};

use segue_core::{Body, Event, Payload, State};
use segue_journal::Session;
use segue_view::{
    json::{ShowJson, event_json},
    render::{Detail, event_line},
    select::Found,
    show::Show,
    status_lines::{Seen, status_lines},
    style::Style,
};

use crate::context::{Context, print};

/// Wide enough that nothing is cut before the pane's width is known.
const WIDE: usize = 400;

pub(super) struct Face<'a> {
    context: &'a Context,
    found: &'a Found,
    status: bool,
    stay: bool,
    /// The last line of what happened.
    last: Option<String>,
    screen: Screen,
    /// What was printed last where there is no screen.
    printed: Option<(u64, bool)>,
}

impl<'a> Face<'a> {
    pub(super) fn new(context: &'a Context, status: bool, stay: bool, found: &'a Found) -> Self {
        let screen = Screen::default();
        Self { context, found, status, stay, last: None, screen, printed: None }
    }

    pub(super) fn event(&mut self, event: &Event, session: &Session) {
        if self.status {
            return self.keep_last(event);
        }
        if self.context.json {
            return print(&event_json(event).to_string());
        }
        let line = match self.stay {
            true => event_line(&whole(event, session), &pane(self.context), Detail::Live),
            false => event_line(event, &self.context.out(), Detail::Full),
        };
        if let Some(line) = line {
            print(&line);
        }
    }

    /// What was spent is said elsewhere.
    fn keep_last(&mut self, event: &Event) {
        let begins = matches!(event.body, Body::SessionResumed(_) | Body::SessionStarted(_));
        if begins || matches!(event.body, Body::ModelReplied(_) | Body::UsageReported(_)) {
            return;
        }
        let text = event_line(event, &Style::plain(WIDE), Detail::Short);
        if let Some(line) = text.as_deref().and_then(|text| text.lines().last()) {
            self.last = Some(line.trim().to_owned());
        }
    }

    /// Draws how the session stands, where that is asked for and has changed.
    pub(super) fn draw(&mut self, state: &State, alive: bool) {
        if !self.status {
            return;
        }
        let on_screen = io::stdout().is_terminal() && !self.context.json;
        if !on_screen && self.printed.replace((state.seq, alive)) == Some((state.seq, alive)) {
            return;
        }
        if self.context.json {
            if let Ok(session) = self.found.open(&self.context.home) {
                let show = Show::of(&session, self.found);
                print(&serde_json::to_string(&ShowJson::from(&show)).unwrap_or_default());
            }
            return;
        }
        let selector = self.found.selector();
        let last = self.last.as_deref();
        let seen = Seen { selector: &selector, alive, last, now: self.context.now() };
        let lines = status_lines(state, &seen, &pane(self.context));
        match on_screen {
            true => self.screen.draw(lines),
            false => print(&lines.join("\n")),
        }
    }
}

/// How to print to the terminal as it is just now: a pane changes its width, and inherits that of
/// others in `COLUMNS`.
fn pane(context: &Context) -> Style {
    let style = context.out();
    match size() {
        Some((columns, _)) => Style { width: columns, ..style },
        None => style,
    }
}

fn size() -> Size {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    (size.ws_col > 0).then_some((usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// The event with all of its words, also those that are too long for a line of the journal.
fn whole(event: &Event, session: &Session) -> Event {
    let mut event = event.clone();
    if let Body::TextWritten(written) = &mut event.body
        && written.text.blob.is_some()
        && let Ok(text) = session.text(&written.text)
    {
        written.text = Payload::inline(text);
    }
    event
}

/// Columns and lines of the terminal, where it tells them.
type Size = Option<(usize, usize)>;

/// Lines that are drawn in place.
#[derive(Default)]
struct Screen {
    /// The lines, and the size that they were cut to.
    drawn: Option<(Vec<String>, Size)>,
}

impl Screen {
    fn draw(&mut self, mut lines: Vec<String>) {
        let size = size();
        lines.truncate(size.map_or(usize::MAX, |(_, rows)| rows));
        let now = Some((lines, size));
        if self.drawn == now {
            return;
        }
        self.drawn = now;
        let lines = self.drawn.as_ref().map(|(lines, _)| lines.join("\x1b[K\r\n"));
        let mut out = io::stdout().lock();
        let _ = write!(out, "\x1b[?25l\x1b[H{}\x1b[K\x1b[J", lines.unwrap_or_default());
        let _ = out.flush();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let mut out = io::stdout().lock();
            let _ = write!(out, "\x1b[?25h\r\n");
            let _ = out.flush();
        }
    }
}
