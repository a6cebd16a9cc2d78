//! `segue show`: one session on one page, with the command that goes on from here and the files
//! that prove what is said.

use std::{path::PathBuf, time::Duration};

use jiff::Timestamp;
use segue_core::{
    SessionId, State,
    caps::Cap,
    identity::{How, Lineage, Mode},
    status::Status,
    usage::{Micros, Usage},
};
use segue_journal::{Session, lock::Holder, scan::Ending};

use crate::{
    crew,
    row::problem_of,
    select::Found,
    style::{self, Line, Paint, Style, bytes, count, duration, money, relative, sanitize, tokens},
    table::status_paint,
};

/// How wide the names on the left are.
const LABEL: usize = 11;

/// How many of the messages that did not arrive are shown.
const DEAD_LETTERS: usize = 5;

/// Everything there is to say about one session.
#[derive(Debug)]
pub struct Show {
    pub number: Option<u64>,
    pub id: SessionId,
    pub dir: PathBuf,
    pub state: State,
    pub holder: Option<Holder>,
    pub problem: Option<String>,
    pub files: Vec<File>,
    /// What goes on from here, where something else than the journal says so.
    pub next: Option<String>,
    /// How commands name this session.
    pub selector: String,
    damaged: bool,
}

/// A file or directory of the session.
#[derive(Debug)]
pub struct File {
    /// Relative to the session's directory; a directory ends in `/`.
    pub name: String,
    /// `None` for a directory.
    pub bytes: Option<u64>,
}

impl Show {
    /// Looks at a session that was found and opened.
    #[must_use]
    pub fn of(session: &Session, found: &Found) -> Self {
        let holder = session.held_by().unwrap_or_default();
        let torn = matches!(session.ending(), Ending::Torn { .. });
        Self {
            number: found.number,
            id: session.id(),
            dir: session.dir().to_owned(),
            state: session.state().clone(),
            // Half a line of a session at work is a line that is being written.
            problem: problem_of(session).filter(|_| !(torn && holder.is_some())),
            holder,
            files: files(session),
            next: None,
            selector: found.selector(),
            damaged: matches!(session.ending(), Ending::Damaged(_)),
        }
    }

    #[must_use]
    pub fn status(&self) -> Status {
        // How it stood before the damage is not how it stands.
        match self.damaged && self.holder.is_none() {
            true => Status::Unknown,
            false => Status::of(&self.state, self.holder.is_some()),
        }
    }

    /// The command that goes on from here.
    #[must_use]
    pub fn advice(&self) -> String {
        if self.damaged {
            return format!("segue verify {}", self.selector);
        }
        let next = || advice(self.status(), &self.state, &self.selector);
        self.next.clone().unwrap_or_else(next)
    }
}

/// The command that goes on from a status, just as it can be typed.
#[must_use]
pub fn advice(status: Status, state: &State, selector: &str) -> String {
    match status {
        // It goes on with the session that it is a part of.
        _ if state.is_part() => format!("segue watch {selector}"),
        Status::Running => format!("segue watch {selector}"),
        // It says of itself that nobody is to go on in it.
        _ if state.identity.as_ref().is_some_and(|identity| identity.sealed) => {
            format!("segue fork {selector} \"what to do next\"")
        }
        Status::Prepared => match &state.tasks {
            Some(tasks) => format!("segue tasks run {}", tasks.source.display()),
            None => format!("segue resume {selector}"),
        },
        Status::Completed if state.tasks.is_some() => format!("segue tasks push {selector}"),
        Status::Completed => format!("segue resume {selector} \"what to do next\""),
        Status::Rewound => format!("segue resume {selector} \"what to do instead\""),
        // Without a time there is nothing to wait for.
        Status::Limit if state.stop.as_ref().is_some_and(|stop| stop.resets_at.is_some()) => {
            format!("segue resume {selector} --wait")
        }
        // The native agent has left out by itself what could be left out.
        Status::ContextExhausted if !state.vendors.is_empty() => {
            format!("segue resume {selector} --fresh")
        }
        Status::Capped(cap) => match raised(cap, state) {
            Some(value) => format!("segue resume {selector} {} {value}", cap.flag()),
            None => format!("segue resume {selector}"),
        },
        _ => format!("segue resume {selector}"),
    }
}

/// As much again as the cap was, or as was used where that is more. The wall clock needs none: a
/// resume starts it afresh.
fn raised(cap: Cap, state: &State) -> Option<String> {
    let twice = |cap: u64, used: u64| cap.max(used).max(1).saturating_mul(2);
    match cap {
        Cap::Turns => Some(twice(state.caps.turns?.into(), state.turn.number.into()).to_string()),
        Cap::Iterations => {
            Some(twice(state.caps.iterations?.into(), state.review.attempt().into()).to_string())
        }
        Cap::Steps => Some(twice(state.caps.steps?.into(), state.turn.calls.into()).to_string()),
        Cap::Tokens => Some(twice(state.caps.tokens?, state.usage.total()).to_string()),
        Cap::Cost => {
            let cents = twice(state.caps.cost_micros?.0, state.cost.0).div_ceil(10_000);
            Some(format!("{}.{:02}", cents / 100, cents % 100))
        }
        Cap::Reviews => {
            Some(twice(state.caps.reviews?.into(), state.review.asked.into()).to_string())
        }
        Cap::WallClock | Cap::Unknown => None,
    }
}

fn files(session: &Session) -> Vec<File> {
    let (disk, dir) = (session.disk(), session.dir());
    let mut names = disk.list(dir).unwrap_or_default();
    names.retain(|name| !name.starts_with('.'));
    names.sort_unstable();
    let file = |name: String| {
        let stat = disk.stat(&dir.join(&name)).ok()?;
        Some(match stat.is_dir {
            true => File { name: format!("{name}/"), bytes: None },
            false => File { name, bytes: Some(stat.len) },
        })
    };
    names.into_iter().filter_map(file).collect()
}

/// A page of labelled lines.
struct Page<'a> {
    style: &'a Style,
    lines: Vec<String>,
}

impl Page<'_> {
    fn line(&mut self, label: &str, paint: Paint, text: &str) {
        let line = Line::new().with(Paint::Dim, format!("{label:<LABEL$}")).with(paint, text);
        self.lines.push(line.render(self.style));
    }

    /// A text that may need several lines.
    fn wrapped(&mut self, label: &str, paint: Paint, text: &str) {
        let room = self.style.width.saturating_sub(LABEL);
        for (n, line) in style::wrap(text, room).iter().enumerate() {
            self.line(if n == 0 { label } else { "" }, paint, line);
        }
    }
}

/// The page for people, without a line break at its end.
#[must_use]
pub fn show_text(show: &Show, style: &Style, now: Timestamp) -> String {
    let mut page = Page { style, lines: vec![title(show, style)] };
    status_lines(show, &mut page, now);
    identity_lines(show, &mut page, now);
    spend_lines(show, &mut page, now);
    task_lines(show, &mut page);
    crew_lines(show, &mut page, now);
    for (n, file) in show.files.iter().enumerate() {
        let size = file.bytes.map(|size| format!("  {}", bytes(size))).unwrap_or_default();
        let label = if n == 0 { "files" } else { "" };
        page.line(label, Paint::Plain, &format!("{}{size}", sanitize(&file.name)));
    }
    page.line("in", Paint::Plain, &sanitize(&show.dir.display().to_string()));
    page.lines.join("\n")
}

fn title(show: &Show, style: &Style) -> String {
    let id = show.id.to_string();
    let number = show.number.map_or_else(|| "–".to_owned(), |number| format!("#{number}"));
    let mut line = Line::new().with(Paint::Bold, number);
    if let Some(name) = &show.state.name {
        line = line.with(Paint::Bold, format!(" \"{}\"", sanitize(name)));
    }
    line.with(Paint::Dim, format!("  {id}")).render(style)
}

fn status_lines(show: &Show, page: &mut Page<'_>, now: Timestamp) {
    let status = show.status();
    let mut text = status.to_string();
    if let Some(at) = show.state.updated_at {
        text = format!("{text} · {}", relative(at, now));
    }
    if let Some(holder) = &show.holder {
        text = format!("{text} · {}", sanitize(&holder.to_string()));
    }
    page.line("status", status_paint(status), &text);
    if let Some(stop) = show.state.stop.as_ref().filter(|_| show.holder.is_none()) {
        page.wrapped("", Paint::Plain, &sanitize(&stop.message));
        if let Some(hint) = &stop.hint {
            page.wrapped("", Paint::Dim, &sanitize(hint));
        }
        if let Some(at) = stop.resets_at {
            let text = format!("resets {} ({})", relative(at, now), page.style.date_and_time(at));
            page.line("", Paint::Plain, &text);
        }
    }
    if let Some(problem) = &show.problem {
        page.wrapped("problem", Paint::Yellow, problem);
    }
    page.line("next", Paint::Cyan, &show.advice());
}

fn identity_lines(show: &Show, page: &mut Page<'_>, now: Timestamp) {
    let state = &show.state;
    let Some(identity) = &state.identity else {
        return;
    };
    page.wrapped("prompt", Paint::Plain, &sanitize(identity.prompt.head()));
    let mut agent = state.agent().to_owned();
    if let Some(model) = state.model() {
        agent = format!("{agent} · {model}");
    }
    if state.crew.is_some() {
        agent = crew::agents(&crew::rows(state));
    }
    let label = match state.terms() {
        Some(_) => "worker",
        None if state.crew.is_some() => "agents",
        None => "agent",
    };
    page.line(label, Paint::Plain, &sanitize(&agent));
    review_lines(state, page);
    for vendor in &state.vendors {
        let id = vendor.id.as_deref().unwrap_or("not told yet");
        let version = vendor.version.as_deref().map(|version| format!(" {version}"));
        let model = vendor.model.as_deref().map(|model| format!(" · {model}"));
        let [version, model] = [version, model].map(Option::unwrap_or_default);
        let text = format!("{}{version}: {id}{model}", vendor.agent);
        page.line("vendor", Paint::Plain, &sanitize(&text));
    }
    if !state.vendors.is_empty() {
        page.line("permission", Paint::Plain, state.permission().word());
    }
    let workspace = state.workspace().unwrap_or(&identity.workspace);
    page.line("workspace", Paint::Plain, &sanitize(&workspace.display().to_string()));
    if let Some(tree) = &state.worktree {
        page.line("branch", Paint::Plain, &sanitize(&tree.plan.branch));
    }
    page.line("repository", Paint::Plain, &sanitize(&identity.repo.identity));
    if let Some(proof) = &identity.proof {
        page.line("proof", Paint::Plain, &sanitize(proof));
    }
    if let Some(lineage) = &identity.lineage {
        let text = format!("{} {}", came_from(lineage), lineage.from);
        page.line("lineage", Paint::Plain, &text);
    }
    let created = identity.created_at;
    let text = format!("{} ({})", relative(created, now), page.style.date_and_time(created));
    page.line("created", Paint::Plain, &text);
    if let Some(text) = &state.last_text {
        page.wrapped("last words", Paint::Plain, &sanitize(text));
    }
}

/// Who reviews, how far it is, and what is open.
fn review_lines(state: &State, page: &mut Page<'_>) {
    let Some(terms) = state.terms() else { return };
    for seat in &terms.reviewers {
        let spent = state.review.reviewers.iter().find(|one| one.name == seat.name);
        let who = spent.map_or(seat.agent.as_str(), |one| one.agent.as_str());
        let ids = spent.map(|one| one.vendor_sessions.join(", ")).unwrap_or_default();
        let round = state.round();
        let said =
            round.and_then(|round| round.verdicts.iter().find(|(name, _)| *name == seat.name));
        let said = said.map(|(_, verdict)| format!(" · {verdict:?}").to_lowercase());
        let agent = if who == seat.name { String::new() } else { format!(" ({who})") };
        let ids = if ids.is_empty() { ids } else { format!(" · {ids}") };
        let text = format!("{}{agent}{}{ids}", seat.name, said.unwrap_or_default());
        page.line("reviewer", Paint::Plain, &sanitize(&text));
    }
    let review = &state.review;
    let rule = match terms.reviewers.len() {
        0 | 1 => String::new(),
        _ => format!(" · {} must pass", terms.consensus.word()),
    };
    let text = format!(
        "iteration {} · {} pass, {} fail{rule}",
        review.attempt(),
        review.passes,
        review.fails
    );
    page.line("review", Paint::Plain, &text);
    for entry in review.ledger.open() {
        let again = if entry.is_escalated() { ", raised again" } else { "" };
        let text = format!("{} ({}{again}): {}", entry.what.id, entry.reviewer, entry.what.concern);
        page.wrapped("open", Paint::Yellow, &sanitize(&text));
    }
    if state.bridge.total() > 0 {
        let (all, waiting) = (state.bridge.total(), state.bridge.waiting.len());
        page.line("messages", Paint::Plain, &format!("{all}, {waiting} not delivered"));
    }
}

/// The list of tasks, and where each of them stands.
fn task_lines(show: &Show, page: &mut Page<'_>) {
    let Some(tasks) = &show.state.tasks else { return };
    let source = sanitize(&tasks.source.display().to_string()).into_owned();
    let text = format!("{} of {} done · {source}", tasks.done(), tasks.entries.len());
    page.line("tasks", Paint::Plain, &text);
    let width = page.style.width.saturating_sub(LABEL);
    let narrower = Style { width, ..page.style.clone() };
    for line in crate::tasks::table(&show.state, &narrower).lines() {
        page.lines.push(format!("{:LABEL$}{line}", ""));
    }
}

/// Who is in the crew, and what became of what they say to each other.
fn crew_lines(show: &Show, page: &mut Page<'_>, now: Timestamp) {
    if show.state.crew.is_none() {
        return;
    }
    let members = crew::rows(&show.state);
    page.line("members", Paint::Plain, &sanitize(&crew::standing(&members)));
    // It has many columns, so it begins further to the left than other things.
    let width = page.style.width.saturating_sub(2);
    let narrower = Style { width, ..page.style.clone() };
    for line in crew::long_table(&show.state, &narrower, now).lines() {
        page.lines.push(format!("  {line}"));
    }
    page.line("messages", Paint::Plain, &crew::messages(&show.state));
    for (n, line) in crew::dead_letters(&show.state, DEAD_LETTERS, now).iter().enumerate() {
        page.wrapped(if n == 0 { "dead" } else { "" }, Paint::Yellow, line);
    }
}

fn came_from(lineage: &Lineage) -> &'static str {
    match lineage.how {
        How::Continued => "continued from",
        How::HandedOff => "handed off from",
        How::Rewound => "rewound from",
        How::Forked => "forked from",
        How::Replayed if lineage.mode == Some(Mode::Rerun) => "does again what was done in",
        How::Replayed => "replayed from",
        How::Unknown => "comes from",
    }
}

fn spend_lines(show: &Show, page: &mut Page<'_>, now: Timestamp) {
    let state = &show.state;
    // What a crew spends is in the sessions of its members.
    if state.crew.is_some() {
        return page.line("runs", Paint::Plain, &state.runs.to_string());
    }
    let (runs, calls) = (count(state.runs.into(), "run"), count(state.tool_calls, "tool call"));
    let work = format!("{} · {runs} · {calls}", state.turn.number);
    page.line("turns", Paint::Plain, &work);
    page.line("tokens", Paint::Plain, &usage_text(&state.usage));
    page.line("cost", Paint::Plain, &money(state.cost, state.unpriced_calls));
    // The clock runs while a process does: a stop and a crash end it at the last event.
    let until = state.updated_at.filter(|_| show.holder.is_none()).unwrap_or(now);
    for (n, cap) in caps(state, until).iter().enumerate() {
        page.line(if n == 0 { "caps" } else { "" }, Paint::Plain, cap);
    }
}

fn usage_text(usage: &Usage) -> String {
    let buckets = [
        ("input", usage.input),
        ("cache read", usage.cache_read),
        ("cache write", usage.cache_write),
        ("output", usage.output),
        ("reasoning", usage.reasoning),
    ];
    let parts: Vec<String> = buckets
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {}", tokens(*count)))
        .collect();
    match parts.is_empty() {
        true => "0".to_owned(),
        false => format!("{} = {}", tokens(usage.total()), parts.join(" + ")),
    }
}

/// Each cap with what of it is used.
fn caps(state: &State, until: Timestamp) -> Vec<String> {
    let caps = &state.caps;
    let mut lines = Vec::new();
    if let Some(cap) = caps.turns {
        lines.push(format!("turns {} of {cap}", state.turn.number));
    }
    if let Some(cap) = caps.iterations.filter(|_| state.terms().is_some()) {
        lines.push(format!("iterations {} of {cap}", state.review.attempt()));
    }
    if let Some(cap) = caps.reviews.filter(|_| state.terms().is_some()) {
        lines.push(format!("reviews {} of {cap}", state.review.asked));
    }
    if let Some(cap) = caps.steps {
        lines.push(format!("model calls of the turn {} of {cap}", state.turn.calls));
    }
    if let Some(cap) = caps.wall_clock_secs.map(Duration::from_secs) {
        let used = cap.saturating_sub(caps.time_left(state, until).unwrap_or(cap));
        lines.push(format!("time {} of {}", duration(used), duration(cap)));
    }
    if let Some(cap) = caps.tokens {
        lines.push(format!("tokens {} of {}", tokens(state.usage.total()), tokens(cap)));
    }
    if let Some(cap) = caps.cost_micros {
        let used = money(state.cost, state.unpriced_calls);
        lines.push(format!("cost {used} of {}", money(Micros(cap.0), 0)));
    }
    lines
}
