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
    entries.iter().map(|entry| row(state, entry)).collect()
}

/// What was taken out of the list, and has cost something before.
#[must_use]
pub fn removed(state: &State) -> Vec<Value> {
    let gone = state.tasks.as_ref().map(|tasks| tasks.gone.as_slice()).unwrap_or_default();
    let begun = gone.iter().filter(|entry| entry.attempts > 0);
    begun.map(|entry| row(state, entry)).collect()
}

fn row(state: &State, entry: &TaskEntry) -> Value {
    let (spent, cost) = state.spent_on(entry);
    json!({
        "task": entry.id, "title": entry.title, "state": standing(state, entry),
        "why": entry.why, "attempts": entry.attempts, "rounds": entry.rounds,
        "tokens": spent, "cost_dollars": cost.dollars(), "commit": entry.commit,
    })
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
        // One that is only taken in hand is about to be tried.
        let attempt = state.review.attempt().max(1);
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
    let (from, to) = around(at, tasks.entries.len(), room_for(&tasks.entries, style));
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
    lines.extend(spent_now(state, style, now));
    lines
}

/// What is spent of each cap, under every further turn of a task.
#[must_use]
pub fn spent_now(state: &State, style: &Style, now: Timestamp) -> Vec<String> {
    if state.tasks.as_ref().and_then(Tasks::in_hand).is_none() {
        return Vec::new();
    }
    // None of it is left out where there is little room.
    let lines = style::wrap(&spend(state, true, now), style.width.saturating_sub(2));
    let line = |text: String| Line::new().plain("  ").with(Paint::Dim, text).render(style);
    lines.into_iter().map(line).collect()
}

/// How many tasks a line can name, with how many there are besides.
fn room_for(entries: &[TaskEntry], style: &Style) -> usize {
    const BESIDES: usize = 30;
    let each = entries.iter().map(|entry| style::width(&entry.id)).max().unwrap_or(0) + 4;
    let (all, room) = (entries.len(), style.width.saturating_sub(2) / each);
    match all <= room {
        true => all.min(MOST_NAMED),
        false => (style.width.saturating_sub(BESIDES) / each).clamp(1, MOST_NAMED),
    }
}

/// A few around one.
fn around(at: usize, all: usize, few: usize) -> (usize, usize) {
    let from = at.saturating_sub(few / 2).min(all.saturating_sub(few));
    (from, (from + few).min(all))
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

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use segue_core::{
        Body, Event, Payload,
        caps::Caps,
        event::{
            Cause, ModelReplied, ModelStop, Process, ReviewStarted, SessionStarted, TaskFailed,
            TaskRead, TaskStarted, TasksRead, TurnStarted, WorkCommitted,
        },
        usage::{Micros, Usage},
    };

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// A list, and what has happened to it, a second after the other.
    struct Run(State);

    impl Run {
        fn of(tasks: usize, caps: Caps) -> Self {
            let task = |n: usize| TaskRead {
                id: format!("T-{n:03}"),
                title: format!("Number {n}, in a file of its own"),
                digest: n.to_string(),
            };
            let by = Process { pid: 1, host: "box".into(), segue: "0".into() };
            let read = TasksRead {
                source: "plan".into(),
                list: Payload::inline("{}"),
                tasks: (1..=tasks).map(task).collect(),
                added: Vec::new(),
                removed: Vec::new(),
                edited: Vec::new(),
            };
            Self(State::default()).and(SessionStarted { by, caps }).and(read)
        }

        fn and(mut self, body: impl Into<Body>) -> Self {
            let seq = self.0.seq + 1;
            let body = body.into();
            let turn = match body {
                Body::TurnStarted(_) => self.0.turn.number + 1,
                _ => self.0.turn.number,
            };
            let second = i64::try_from(seq).unwrap();
            let turn = Some(turn).filter(|turn| *turn > 0);
            self.0.apply(&Event { seq, at: at(second), turn, agent: None, id: None, body });
            self
        }

        fn start(self, n: usize, attempt: u32) -> Self {
            self.and(TaskStarted { task: format!("T-{n:03}"), attempt, retry: None })
        }

        fn turn(self, cause: Cause) -> Self {
            let usage = Usage { input: 1_000, output: 500, ..Usage::default() };
            self.and(TurnStarted::new(Payload::inline("go"), cause)).and(ModelReplied {
                model: "m".into(),
                stop: ModelStop::EndTurn,
                usage,
                cost_micros: Some(Micros(20_000)),
                reply_id: None,
            })
        }

        fn reviewed(self) -> Self {
            let (from, to) = (None, None);
            self.and(ReviewStarted { iteration: 1, reviewers: vec![], from, to, files: None })
        }

        fn committed(self, n: usize, failed: Option<&str>) -> Self {
            self.and(WorkCommitted {
                commit: format!("{n}23456789abcdef"),
                branch: "segue/1".into(),
                task: Some(format!("T-{n:03}")),
                failed: failed.map(str::to_owned),
            })
        }
    }

    fn style(width: usize) -> Style {
        Style { color: false, width, zone: jiff::tz::TimeZone::UTC }
    }

    fn caps() -> Caps {
        let cost_micros = Some(Micros(2_500_000));
        let (tokens, wall_clock_secs) = (Some(400_000), Some(7_200));
        let (iterations, reviews) = (Some(8), Some(4));
        Caps { iterations, reviews, tokens, wall_clock_secs, cost_micros, ..Caps::default() }
    }

    fn one_done() -> Run {
        Run::of(3, caps()).start(1, 1).turn(Cause::Task).reviewed().committed(1, None)
    }

    #[test]
    fn the_table_says_how_each_task_stands_and_what_it_has_cost() {
        let failed =
            TaskFailed { task: "T-002".into(), why: "iter_cap".into(), message: "".into() };
        let run = one_done().start(2, 1).turn(Cause::Task).reviewed().turn(Cause::Review);
        let begun = table(&run.0, &style(80));
        assert_snapshot!(begun, @"
        task   state    rounds       spend  commit   title
        T-001  done          1  1.5k $0.02  1234567  Number 1, in a file of its own
        T-002  begun         1    3k $0.04  –        Number 2, in a file of its own
        T-003  pending       0           –  –        Number 3, in a file of its own
        ");
        let run = run.reviewed().and(failed).committed(2, Some("iter_cap"));
        assert_snapshot!(table(&run.0, &style(80)), @"
        task   state              rounds       spend  commit   title
        T-001  done                    1  1.5k $0.02  1234567  Number 1, in a file of i…
        T-002  failed (iter_cap)       2    3k $0.04  2234567  Number 2, in a file of i…
        T-003  pending                 0           –  –        Number 3, in a file of i…
        ");
        assert_eq!(table(&State::default(), &style(80)), "");
    }

    #[test]
    fn what_is_spent_stands_beside_each_cap() {
        let run = one_done();
        assert_snapshot!(spend(&run.0, true, at(90)), @"1.5k of 400k tokens · $0.02 of $2.50 · 1 min 29 s of 2 h");
        // Just taken in hand: the first attempt is about to begin.
        let mut run = run.start(2, 1);
        assert_snapshot!(spend(&run.0, true, at(90)), @"1.5k of 400k tokens · $0.02 of $2.50 · 1 min 29 s of 2 h · iteration 1 of 8 · evaluation 0 of 4");
        run.0.review.iteration = 3;
        run.0.review.asked = 2;
        assert_snapshot!(spend(&run.0, true, at(90)), @"1.5k of 400k tokens · $0.02 of $2.50 · 1 min 29 s of 2 h · iteration 3 of 8 · evaluation 2 of 4");
        // Without caps, and at rest since its last event.
        run.0.caps = Caps::default();
        assert_snapshot!(spend(&run.0, false, at(9000)), @"1.5k tokens · $0.02 · 7 s · iteration 3");
    }

    #[test]
    fn above_each_task_is_the_list_around_it() {
        let lines = |run: &Run, width| progress(&run.0, &style(width), at(60)).join("\n");
        let run = one_done();
        assert_eq!(lines(&run, 80), "");
        let run = run.start(2, 2);
        assert_snapshot!(lines(&run, 80), @"
        ▶ T-002 Number 2, in a file of its own · 2 of 3 · attempt 2
          ✔ T-001  ▸ T-002  · T-003
          1.5k of 400k tokens · $0.02 of $2.50 · 59 s of 2 h · iteration 1 of 8 ·
          evaluation 0 of 4
        ");
        assert!(lines(&run, 80).ends_with(&spent_now(&run.0, &style(80), at(60)).join("\n")));
        assert_eq!(spent_now(&State::default(), &style(80), at(60)), [""; 0]);
        let long = (1..=20)
            .fold(Run::of(40, Caps::default()), |run, n| run.start(n, 1).committed(n, None));
        assert_snapshot!(lines(&long.start(21, 1), 80), @"
        ▶ T-021 Number 21, in a file of its own · 21 of 40
          … 18 before  ✔ T-019  ✔ T-020  ▸ T-021  · T-022  · T-023  … 17 after
          0 tokens · $0.00 · 59 s · iteration 1
        ");
    }
}
