//! What is said again and again: every so many minutes, with or without an interrupt.
//!
//! A timer counts from when it went off last, or from when somebody began to watch, whichever is
//! later: while the crew is down, no time passes for it. Whoever has not read the last one is passed over.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use segue_core::{
    Draft, State,
    crew::Timer,
    event::{Doing, MessageSent, TimerFired},
    state::{Crew, CrewMember as Member},
};
use segue_runner::{Halt, Supervisor};

use super::{mail::hash, prompt};

/// Who a timer's words are from.
pub(crate) const TIMER: &str = "timer";

/// Sends what is due. What is returned is to be interrupted.
pub(crate) fn fire(
    all: &mut Supervisor<'_>,
    name: &str,
    session: &Path,
) -> Result<Vec<String>, Halt> {
    let now = all.now();
    let Some(crew) = all.state().crew.clone() else { return Ok(Vec::new()) };
    let mut interrupted = Vec::new();
    for timer in &crew.roster().timers {
        if !is_due(all.state(), &crew, timer, now) {
            continue;
        }
        let to = recipients(&crew, timer);
        let unread = |name: &str| {
            all.state().bridge.waiting_for(name).any(|one| one.message.from == from(timer))
        };
        let (passed_over, to): (Vec<String>, Vec<String>) =
            to.into_iter().partition(|name| unread(name));
        for to in &to {
            let Some(member) = crew.member(to) else { continue };
            let text = match words(&crew, (timer, name), member, session) {
                Ok(text) => text,
                Err(why) => {
                    all.warn(format!("the timer {}: {why}", timer.id))?;
                    continue;
                }
            };
            let id = format!("timer-{}", &hash(&[&timer.id, to, &now.to_string()])[..16]);
            let text = all.payload(&text)?;
            let sent = MessageSent { from: from(timer), to: to.clone(), text };
            all.commit(Draft::from(sent).about(id))?;
            if timer.interrupt && member.doing == Doing::Busy {
                interrupted.push(to.clone());
            }
        }
        all.commit(TimerFired { timer: timer.id.clone(), to, passed_over })?;
    }
    Ok(interrupted)
}

fn from(timer: &Timer) -> String {
    format!("{TIMER} {}", timer.id)
}

fn is_due(state: &State, crew: &Crew, timer: &Timer, now: Timestamp) -> bool {
    let last = crew.timers.iter().find(|(id, _)| *id == timer.id).map(|(_, at)| *at);
    let since = [last, state.running_since].into_iter().flatten().max();
    let every = SignedDuration::from_mins(i64::from(timer.minutes));
    since.is_some_and(|since| now.duration_since(since) >= every)
}

/// Members by their names, by their roles, or by their groups.
fn recipients(crew: &Crew, timer: &Timer) -> Vec<String> {
    let meant = |member: &&Member| {
        timer.to.is_empty()
            || timer.to.iter().any(|word| {
                *word == member.name || *word == member.role || Some(word) == member.group.as_ref()
            })
    };
    crew.members.iter().filter(meant).map(|member| member.name.clone()).collect()
}

/// What is said: the file as it is now, the text, and how everybody stands.
fn words(
    crew: &Crew,
    (timer, name): (&Timer, &str),
    member: &Member,
    session: &Path,
) -> Result<String, String> {
    let mut parts = Vec::new();
    if let Some(file) = &timer.prompt {
        parts.push(prompt(crew, name, member, file, session)?);
    }
    parts.extend(timer.text.clone());
    if timer.status {
        let line = |one: &Member| {
            let what = one.what.as_deref().map(|what| format!(" ({what})")).unwrap_or_default();
            format!("- {}: {}{what}", one.name, one.doing)
        };
        let lines: Vec<String> = crew.members.iter().map(line).collect();
        parts.push(format!("How everybody stands:\n{}", lines.join("\n")));
    }
    Ok(parts.join("\n\n"))
}
