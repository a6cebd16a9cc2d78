//! Where a list of tasks stands: as a table, as JSON, and as the few lines above a run.

use std::time::Duration;

use jiff::Timestamp;
use segue_core::{
    State,
    event::SessionStopped,
    state::{Phase, Standing, TaskEntry, Tasks},
    tasks::stop::{EDITED, word},
};
use serde_json::{Value, json};

use crate::style::{self, Line, Paint, Style, duration, money, sanitize, shorten, tokens};

/// How many tasks a line of a plan or of the progress names.
const MOST_NAMED: usize = 12;

/// A task's state in a word.
#[must_use]
pub fn standing(state: &State, entry: &TaskEntry) -> &'static str {
    let hand = state.tasks.as_ref().and_then(|tasks| tasks.hand.as_ref());
    match entry.standing {
        Standing::Done => "done",
        Standing::Failed => "failed",
        _ if hand.is_some_and(|hand| hand.task == entry.id) => "begun",
        _ => "pending",
    }
}

fn paint(standing: &str) -> (Paint, &'static str) {
    match standing {
        "done" => (Paint::Green, "✔"),
        "failed" => (Paint::Red, "✘"),
        "begun" => (Paint::Cyan, "▸"),
        _ => (Paint::Dim, "·"),
    }
}

/// The table of `segue tasks status`.
#[must_use]
pub fn table(state: &State, style: &Style) -> String {
    let Some(tasks) = &state.tasks else { return String::new() };
    let rows: Vec<[String; 6]> = tasks.entries.iter().map(|entry| cells(state, entry)).collect();
    let head = ["task", "state", "rounds", "spend", "commit", "title"].map(str::to_owned);
    let mut widths = [0; 6];
    for row in rows.iter().chain([&head]) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(style::width(cell));
        }
    }
    let used: usize = widths[..5].iter().map(|width| width + 2).sum();
    let room = style.width.saturating_sub(used).max(12);
    let line = |row: &[String; 6], paint: Option<Paint>| {
        let mut line = Line::new();
        for (n, cell) in row[..5].iter().enumerate() {
            let pad = " ".repeat(widths[n].saturating_sub(style::width(cell)));
            let right = matches!(n, 2 | 3);
            let text = if right { format!("{pad}{cell}  ") } else { format!("{cell}{pad}  ") };
            line = match paint.filter(|_| n == 1) {
                Some(paint) => line.with(paint, text),
                None => line.plain(text),
            };
        }
        line.plain(shorten(&row[5], room).into_owned()).render(style).trim_end().to_owned()
    };
    let mut lines = vec![style.paint(Paint::Dim, &line(&head, None))];
    lines.extend(rows.iter().zip(&tasks.entries).map(|(row, entry)| {
        let (paint, _) = paint(standing(state, entry));
        line(row, Some(paint))
    }));
    lines.join("\n")
}

fn cells(state: &State, entry: &TaskEntry) -> [String; 6] {
    let (spent, cost) = state.spent_on(entry);
    let why = entry.why.as_deref().map(|why| format!(" ({})", sanitize(why)));
    let spend = match (spent, money(cost, 0).as_str()) {
        (0, _) => "–".to_owned(),
        (spent, "$0.00") => tokens(spent),
        (spent, money) => format!("{} {money}", tokens(spent)),
    };
    [
        sanitize(&entry.id).into_owned(),
        format!("{}{}", standing(state, entry), why.unwrap_or_default()),
        entry.rounds.to_string(),
        spend,
        entry.commit.as_deref().map_or("–", |commit| commit.get(..7).unwrap_or(commit)).to_owned(),
        sanitize(&entry.title).into_owned(),
    ]
}

/// The same for scripts.
#[must_use]
pub fn rows(state: &State) -> Vec<Value> {
    let entries = state.tasks.as_ref().map(|tasks| tasks.entries.as_slice()).unwrap_or_default();
    let row = |entry: &TaskEntry| {
        let (spent, cost) = state.spent_on(entry);
        json!({
            "task": entry.id, "title": entry.title, "state": standing(state, entry),
            "why": entry.why, "attempts": entry.attempts, "rounds": entry.rounds,
            "tokens": spent, "cost_dollars": cost.dollars(), "commit": entry.commit,
        })
    };
    entries.iter().map(row).collect()
}

/// Each cap with what of it is used, as one line.
#[must_use]
pub fn spend(state: &State, alive: bool, now: Timestamp) -> String {
    let caps = &state.caps;
    let of = |cap: Option<String>| cap.map(|cap| format!(" of {cap}")).unwrap_or_default();
    let mut parts =
        vec![format!("{}{} tokens", tokens(state.usage.total()), of(caps.tokens.map(tokens)))];
    let sum = money(state.cost, state.unpriced_calls);
    if sum != style::NO_PRICE {
        parts.push(format!("{sum}{}", of(caps.cost_micros.map(|cap| money(cap, 0)))));
    }
    if let Some(since) = state.running_since {
        let until = if alive { now } else { state.updated_at.unwrap_or(now) };
        let used = Duration::try_from(until.duration_since(since)).unwrap_or_default();
        let cap = caps.wall_clock_secs.map(|secs| duration(Duration::from_secs(secs)));
        parts.push(format!("{}{}", duration(Duration::from_secs(used.as_secs())), of(cap)));
    }
    if state.tasks.as_ref().is_some_and(|tasks| tasks.in_hand().is_some()) {
        let most = |cap: Option<u32>| of(cap.map(|cap| cap.to_string()));
        let attempt = state.review.attempt();
        parts.push(format!("iteration {attempt}{}", most(caps.iterations)));
        if caps.reviews.is_some() {
            parts.push(format!("evaluation {}{}", state.review.asked, most(caps.reviews)));
        }
    }
    parts.join(" · ")
}

/// The lines above each task of a run: the list with its states, and what is spent.
#[must_use]
pub fn progress(state: &State, style: &Style, now: Timestamp) -> Vec<String> {
    let Some(tasks) = &state.tasks else { return Vec::new() };
    let Some(entry) = tasks.in_hand() else { return Vec::new() };
    let at = tasks.entries.iter().position(|one| one.id == entry.id).unwrap_or(0);
    let mut lines = Vec::new();
    let head = Line::new()
        .with(Paint::Cyan, "▶ ")
        .with(Paint::Bold, format!("{} {}", sanitize(&entry.id), sanitize(&entry.title)))
        .with(Paint::Dim, format!(" · {} of {}", at + 1, tasks.entries.len()));
    let again = format!(" · attempt {}", entry.attempts);
    let head = if entry.attempts > 1 { head.plain(again) } else { head };
    lines.push(head.render(style));
    let (from, to) = around(at, tasks.entries.len());
    let mut list = Line::new().plain("  ");
    if from > 0 {
        list = list.with(Paint::Dim, format!("… {from} before  "));
    }
    for one in &tasks.entries[from..to] {
        let (paint, sign) = paint(standing(state, one));
        list = list.with(paint, format!("{sign} {}  ", sanitize(&one.id)));
    }
    if to < tasks.entries.len() {
        list = list.with(Paint::Dim, format!("… {} after", tasks.entries.len() - to));
    }
    lines.push(list.render(style).trim_end().to_owned());
    let spent = Line::new().plain("  ").with(Paint::Dim, spend(state, true, now));
    lines.push(spent.render(style));
    lines
}

/// A few around one.
fn around(at: usize, all: usize) -> (usize, usize) {
    let from = at.saturating_sub(MOST_NAMED / 2).min(all.saturating_sub(MOST_NAMED));
    (from, (from + MOST_NAMED).min(all))
}

/// What a resume will do, in one line; `tasks` as they will be then.
#[must_use]
pub fn plan(state: &State, tasks: &Tasks) -> String {
    let list = |entries: &[&TaskEntry]| {
        let named = entries.iter().take(MOST_NAMED).map(|entry| sanitize(&entry.id).into_owned());
        let mut text = named.collect::<Vec<_>>().join(", ");
        if entries.len() > MOST_NAMED {
            text.push_str(&format!(", and {} more", entries.len() - MOST_NAMED));
        }
        text
    };
    let later: Vec<&TaskEntry> = tasks.later().collect();
    let mut parts = Vec::new();
    match (tasks.upcoming(), &tasks.hand) {
        (None, _) => parts.push("nothing is left to do".to_owned()),
        (Some(next), Some(hand)) if hand.task == next.id => {
            let id = sanitize(&next.id);
            parts.push(match (next.standing, &next.why) {
                (Standing::Failed, Some(why)) => {
                    format!("retrying {id} (was: failed, {})", sanitize(why))
                }
                (Standing::Failed, None) => format!("retrying {id} (was: failed)"),
                _ if hand.stale => format!("beginning {id} again (was: {EDITED})"),
                _ => format!("going on with {id}"),
            });
            if !later.is_empty() {
                parts.push(format!("then: {}", list(&later)));
            }
        }
        (Some(next), _) => {
            let all: Vec<&TaskEntry> = std::iter::once(next).chain(later).collect();
            parts.push(format!("pending: {}", list(&all)));
        }
    }
    let last = match (&state.stop, state.phase) {
        (_, Phase::Running) => "none (it crashed)",
        (Some(stop), _) => last_stop(stop),
        _ => "none",
    };
    parts.push(format!("last stop: {last}"));
    format!("↻ resume plan: {}", parts.join("; "))
}

/// Why it stands still, in a word.
#[must_use]
pub fn last_stop(stop: &SessionStopped) -> &'static str {
    word(stop)
}
