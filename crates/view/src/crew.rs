//! Where a crew stands: as a table, as JSON, and in the few words that a list has room for.
//!
//! ```text
//! member    agent   state    since   messages  vendor id     pane
//! build
//!   coder   claude  waiting  3 min          2  5f1e23-77aa…  %3
//!     ⏸ Allow `cargo publish`?
//!   tester  codex   idle     now            –  019c3e-12bc…  %4
//! ```

mod grid;

use std::path::Path;

use jiff::Timestamp;
use segue_core::{
    State,
    event::Doing,
    state::{Crew, CrewMember as Member, DeadLetter, Phase},
    status::Status,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::grid::{Column, Entry, grid};
use crate::{
    json::status_word,
    style::{Paint, Style, count, relative, sanitize, wrap},
};

/// What stands for something that is not there.
const NOTHING: &str = "–";

/// How many characters of what a member waits for a list keeps.
const WHAT_CHARS: usize = 200;

/// How many lines of it are shown below a member.
const WHAT_LINES: usize = 3;

/// One of a crew, as a list knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRow {
    #[serde(rename = "agent_id")]
    pub name: String,
    /// The kind of agent, or its program.
    pub agent: String,
    #[serde(rename = "state")]
    pub doing: Doing,
    /// What it waits for, or why it is down.
    pub what: Option<String>,
    pub since: Option<Timestamp>,
}

/// Those of a session, group by group. Nobody where it is no crew.
#[must_use]
pub fn rows(state: &State) -> Vec<MemberRow> {
    let Some(crew) = &state.crew else { return Vec::new() };
    let row = |member: &Member| MemberRow {
        name: member.name.clone(),
        agent: agent(crew, member),
        doing: member.doing,
        what: member.what.as_ref().map(|what| what.chars().take(WHAT_CHARS).collect()),
        since: member.since,
    };
    together(crew).into_iter().map(row).collect()
}

/// `3 agents: claude, codex`
#[must_use]
pub fn agents(members: &[MemberRow]) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for member in members {
        if !kinds.contains(&member.agent.as_str()) {
            kinds.push(&member.agent);
        }
    }
    let number = count(members.len() as u64, "agent");
    match kinds.is_empty() {
        true => number,
        false => format!("{number}: {}", kinds.join(", ")),
    }
}

/// `1 waiting: coder · 2 idle`: whoever needs somebody comes first, and by name.
#[must_use]
pub fn standing(members: &[MemberRow]) -> String {
    let order = [
        Doing::Degraded,
        Doing::Unreachable,
        Doing::Waiting,
        Doing::Busy,
        Doing::Starting,
        Doing::Idle,
        Doing::Down,
        Doing::Unknown,
    ];
    let part = |doing: Doing| {
        let of: Vec<&str> = members
            .iter()
            .filter(|member| member.doing == doing)
            .map(|member| member.name.as_str())
            .collect();
        let names = match doing {
            Doing::Degraded | Doing::Unreachable | Doing::Waiting => format!(": {}", of.join(", ")),
            _ => String::new(),
        };
        (!of.is_empty()).then(|| format!("{} {doing}{names}", of.len()))
    };
    order.into_iter().filter_map(part).collect::<Vec<_>>().join(" · ")
}

/// The colour of what a member does, and the sign before what is said about it.
pub(crate) fn look(doing: Doing) -> (Paint, &'static str) {
    match doing {
        Doing::Waiting => (Paint::Yellow, "⏸"),
        Doing::Degraded | Doing::Unreachable => (Paint::Red, "✘"),
        Doing::Busy => (Paint::Cyan, "▸"),
        Doing::Idle => (Paint::Green, "·"),
        Doing::Starting | Doing::Down | Doing::Unknown => (Paint::Dim, "■"),
    }
}

/// Since when, as short as a column wants it.
pub(crate) fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else { return NOTHING.to_owned() };
    let age = relative(since, now);
    age.strip_suffix(" ago").unwrap_or(&age).to_owned()
}

/// What kind of agent it is: the vendor's, or else the name of its program.
fn agent(crew: &Crew, member: &Member) -> String {
    let Some(spec) = crew.spec(member) else {
        let program = member.command.split_whitespace().next().unwrap_or(NOTHING);
        return file_name(program);
    };
    match (&spec.agent, spec.command.first()) {
        (Some(agent), _) => agent.clone(),
        (None, Some(program)) => file_name(program),
        (None, None) => NOTHING.to_owned(),
    }
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// Groups stay together, and within them each instance; all in the order in which they joined.
fn together(crew: &Crew) -> Vec<&Member> {
    let place = |member: &Member| {
        let same = |one: &Member| one.group == member.group && one.group.is_some();
        let first = crew.members.iter().position(same);
        // Those in no group come last, as the roster has them.
        first.map_or((usize::MAX, 0), |first| (first, member.instance))
    };
    let mut members: Vec<&Member> = crew.members.iter().collect();
    members.sort_by_key(|member| place(member));
    members
}

/// The heading of a member's group, where it is in one.
fn heading(crew: &Crew, member: &Member) -> Option<String> {
    let group = member.group.as_ref()?;
    let mut same = crew.members.iter().filter(|one| one.group.as_ref() == Some(group));
    let several = same.any(|one| one.instance != member.instance);
    Some(if several { format!("{group} {}", member.instance) } else { group.clone() })
}

/// The table of `segue crew status`, without a line break at its end. Empty where it is no crew.
#[must_use]
pub fn table(state: &State, style: &Style, now: Timestamp) -> String {
    const COLUMNS: [Column; 7] = [
        Column::left("member").at_least(8),
        Column::left("agent").at_least(6),
        Column::left("state"),
        Column::left("since"),
        Column::right("messages"),
        Column::left("vendor id").at_least(8),
        Column::left("pane"),
    ];
    let Some(crew) = &state.crew else { return String::new() };
    let cells = |member: &Member, name: String| {
        let waiting = state.bridge.waiting_for(&member.name).count();
        let waits = if waiting == 0 { NOTHING.to_owned() } else { waiting.to_string() };
        [
            (Paint::Bold, name),
            (Paint::Plain, agent(crew, member)),
            (look(member.doing).0, member.doing.to_string()),
            (Paint::Plain, age(member.since, now)),
            (if waiting == 0 { Paint::Dim } else { Paint::Plain }, waits),
            (Paint::Plain, or_nothing(member.vendor_session.as_deref())),
            (Paint::Plain, or_nothing(member.pane.as_deref())),
        ]
    };
    grid(&COLUMNS, &entries(state, crew, style, cells), style)
}

/// The table that `segue show` has of a crew.
pub(crate) fn long_table(state: &State, style: &Style, now: Timestamp) -> String {
    const COLUMNS: [Column; 8] = [
        Column::left("member").at_least(8),
        Column::left("agent").at_least(8),
        Column::left("state"),
        Column::left("since"),
        Column::left("vendor id").at_least(8),
        Column::left("pane"),
        Column::left("in").at_least(6),
        Column::right("restarts"),
    ];
    let Some(crew) = &state.crew else { return String::new() };
    let cells = |member: &Member, name: String| {
        let agent = agent(crew, member);
        let role = match member.role == member.name {
            true => agent,
            false => format!("{agent} ({})", member.role),
        };
        [
            (Paint::Bold, name),
            (Paint::Plain, role),
            (look(member.doing).0, member.doing.to_string()),
            (Paint::Plain, age(member.since, now)),
            (Paint::Plain, or_nothing(member.vendor_session.as_deref())),
            (Paint::Plain, or_nothing(member.pane.as_deref())),
            (Paint::Plain, short_path(&member.cwd, &crew.raised.project)),
            (Paint::Plain, member.restarts.to_string()),
        ]
    };
    grid(&COLUMNS, &entries(state, crew, style, cells), style)
}

fn or_nothing(text: Option<&str>) -> String {
    text.unwrap_or(NOTHING).to_owned()
}

/// A path as somebody in the project would say it.
fn short_path(path: &Path, project: &Path) -> String {
    match path.strip_prefix(project) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => rest.display().to_string(),
        Err(_) => match path.file_name() {
            Some(name) => format!("…/{}", name.to_string_lossy()),
            None => path.display().to_string(),
        },
    }
}

/// A line for each member, the names of groups above them, and below them what they need.
fn entries<const N: usize>(
    state: &State,
    crew: &Crew,
    style: &Style,
    cells: impl Fn(&Member, String) -> [(Paint, String); N],
) -> Vec<Entry<N>> {
    let (mut entries, mut last) = (Vec::new(), None);
    for member in together(crew) {
        let heading = heading(crew, member);
        if let Some(heading) = heading.as_ref().filter(|_| heading != last) {
            entries.push(Entry::Note(Paint::Dim, heading.clone()));
        }
        let indent = if heading.is_some() { "  " } else { "" };
        entries.push(Entry::Cells(cells(member, format!("{indent}{}", member.name))));
        // Of a crew that was taken down, everybody is down for the same reason.
        let tells = match member.doing {
            Doing::Waiting | Doing::Degraded | Doing::Unreachable => true,
            Doing::Down => state.phase != Phase::Stopped,
            _ => false,
        };
        if let Some(what) = member.what.as_deref().filter(|_| tells) {
            entries.extend(notes(member.doing, what, indent, style));
        }
        last = heading;
    }
    entries
}

fn notes<const N: usize>(doing: Doing, what: &str, indent: &str, style: &Style) -> Vec<Entry<N>> {
    let (paint, sign) = look(doing);
    let room = style.width.saturating_sub(indent.len() + 4);
    let lines = wrap(&sanitize(what), room).into_iter().take(WHAT_LINES).enumerate();
    let note = |(n, line): (usize, String)| {
        let sign = if n == 0 { sign } else { " " };
        Entry::Note(paint, format!("{indent}  {sign} {line}"))
    };
    lines.map(note).collect()
}

/// `12 sent · 9 delivered · 2 waiting · 1 not delivered`
#[must_use]
pub fn messages(state: &State) -> String {
    let bridge = &state.bridge;
    let mut text = format!(
        "{} sent · {} delivered · {} waiting",
        bridge.total(),
        bridge.delivered,
        bridge.waiting.len()
    );
    let dead = state.crew.as_ref().map_or(0, |crew| crew.dead_total);
    if dead > 0 {
        text = format!("{text} · {dead} not delivered");
    }
    text
}

/// The last so many messages that did not arrive, a line each, the newest last.
#[must_use]
pub fn dead_letters(state: &State, most: usize, now: Timestamp) -> Vec<String> {
    let letters = state.crew.as_ref().map(|crew| crew.dead.as_slice()).unwrap_or_default();
    let line = |letter: &DeadLetter| {
        let from = if letter.from.is_empty() { "?" } else { &letter.from };
        let text = format!("{from} → {} · {}", letter.to, letter.reason);
        format!("{} · {}", sanitize(&text), relative(letter.at, now))
    };
    letters[letters.len().saturating_sub(most)..].iter().map(line).collect()
}

/// All of it for scripts. `alive`: whether somebody watches over it. Null where it is no crew.
#[must_use]
pub fn json(state: &State, alive: bool) -> Value {
    let Some(crew) = &state.crew else { return Value::Null };
    let members: Vec<Value> =
        together(crew).into_iter().map(|member| member_json(state, crew, member)).collect();
    let timers = crew.timers.iter().map(|(timer, at)| json!({"timer": timer, "last_at": at}));
    json!({
        "name": state.name,
        "session": state.identity.as_ref().map(|identity| identity.id),
        "status": status_word(Status::of(state, alive)),
        "watched": alive,
        "project": crew.raised.project,
        "headless": crew.raised.headless,
        "members": members,
        "messages": {
            "sent": state.bridge.total(),
            "delivered": state.bridge.delivered,
            "waiting": state.bridge.waiting.len(),
            "dead": crew.dead_total,
        },
        "dead_letters": crew.dead,
        "timers": timers.collect::<Vec<_>>(),
        "scope_broken": crew.scope_broken,
    })
}

fn member_json(state: &State, crew: &Crew, member: &Member) -> Value {
    let command = match (member.command.as_str(), crew.spec(member)) {
        ("", Some(spec)) if !spec.command.is_empty() => Some(spec.command.join(" ")),
        ("", _) => None,
        (command, _) => Some(command.to_owned()),
    };
    json!({
        "agent_id": member.name,
        "role": member.role,
        "group": member.group,
        "instance": member.instance,
        "agent": agent(crew, member),
        "command": command,
        "session": member.session,
        "session_name": state.name,
        "vendor_session": member.vendor_session,
        "cwd": member.cwd,
        "worktree": member.worktree,
        "branch": member.branch,
        "pane": member.pane,
        "pid": member.pid,
        "spawned_at": member.spawned_at,
        "how": member.how,
        "generation": member.generation,
        "state": member.doing,
        "what": member.what,
        "since": member.since,
        "restarts": member.restarts,
        "waiting_messages": state.bridge.waiting_for(&member.name).count(),
    })
}

#[cfg(test)]
pub(crate) mod tests;
