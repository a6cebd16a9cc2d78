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

use super::{mail::hash, words::prompt};

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

#[cfg(test)]
mod tests {
    use segue_core::{crew::Roster, event::CrewRaised};

    use super::*;
    use crate::crew::testing::Scene;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    fn member(name: &str, role: &str, group: Option<&str>) -> Member {
        Member {
            name: name.to_owned(),
            role: role.to_owned(),
            group: group.map(str::to_owned),
            doing: Doing::Idle,
            ..Member::default()
        }
    }

    fn crew() -> Crew {
        let raised = CrewRaised {
            roster: Roster::default(),
            project: "/src/app".into(),
            headless: false,
            worktrees: false,
            branch: None,
            ..CrewRaised::default()
        };
        let members = vec![
            member("coder-1", "coder", Some("pair")),
            member("coder-2", "coder", Some("pair")),
            member("tester", "tester", None),
        ];
        let timers = vec![("standup".to_owned(), at(600))];
        Crew { raised, members, timers, ..Crew::default() }
    }

    fn timer(to: &[&str]) -> Timer {
        let to = to.iter().map(|&name| name.to_owned()).collect();
        Timer { id: "standup".to_owned(), minutes: 5, to, status: true, ..Timer::default() }
    }

    #[test]
    fn a_timer_counts_from_when_it_went_off_or_the_watch_began() {
        let due = |began: i64, now: i64| {
            let state = State { running_since: Some(at(began)), ..State::default() };
            is_due(&state, &crew(), &timer(&[]), at(now))
        };
        assert!(!due(0, 899) && due(0, 900));
        // While nobody watched, no time has passed.
        assert!(!due(5000, 5299) && due(5000, 5300));
    }

    #[test]
    fn it_is_for_members_roles_groups_or_everybody() {
        let to = |words: &[&str]| recipients(&crew(), &timer(words)).join(" ");
        assert_eq!(to(&[]), "coder-1 coder-2 tester");
        assert_eq!(to(&["coder"]), "coder-1 coder-2");
        assert_eq!(to(&["pair", "tester"]), "coder-1 coder-2 tester");
        assert_eq!(to(&["coder-2"]), "coder-2");
    }

    #[test]
    fn it_says_its_text_and_how_everybody_stands() {
        let crew = crew();
        let timer = Timer { text: Some("Where are you?".to_owned()), ..timer(&[]) };
        let said = words(&crew, (&timer, "app"), &crew.members[0], Path::new("/s")).unwrap();
        assert_eq!(
            said,
            "Where are you?\n\nHow everybody stands:\n- coder-1: idle\n- coder-2: idle\n- tester: idle"
        );
        let file = Timer { prompt: Some("gone.md".to_owned()), ..timer };
        assert!(words(&crew, (&file, "app"), &crew.members[0], Path::new("/s")).is_err());
    }

    #[test]
    fn it_is_said_in_time_to_those_who_have_read_the_last_one_and_breaks_off_whoever_works() {
        let mut scene = Scene::new(
            "[[agents]]\nid = \"ada\"\nagent = \"claude\"\n[[agents]]\nid = \"bob\"\n\
             agent = \"claude\"\n[[timers]]\nid = \"standup\"\nminutes = 2\n\
             text = \"Where are you?\"\ninterrupt = true\n",
        );
        let fire = |scene: &mut Scene| {
            let dir = scene.dir();
            super::fire(&mut scene.all, "app", &dir).unwrap()
        };
        scene.sees("ada", Doing::Busy);
        scene.sees("bob", Doing::Idle);
        scene.later(119);
        assert!(fire(&mut scene).is_empty() && scene.waiting("ada") == 0);
        scene.later(1);
        assert_eq!(fire(&mut scene), ["ada"]);
        assert!(fire(&mut scene).is_empty(), "once each time");
        assert_eq!((scene.waiting("ada"), scene.waiting("bob")), (1, 1));
        let waiting = scene.all.state().bridge.waiting_for("bob").next().unwrap().clone();
        assert_eq!(waiting.message.from, "timer standup");
        let (to, messages) = ("bob".to_owned(), vec![waiting.id]);
        let by = segue_core::event::Delivery::Prompt;
        scene.all.commit(segue_core::event::MessageDelivered { to, messages, by }).unwrap();
        scene.later(120);
        assert!(fire(&mut scene).is_empty(), "it has not read the last one");
        assert_eq!((scene.waiting("ada"), scene.waiting("bob")), (1, 1));
        let fired = scene.events("timer.fired");
        let segue_core::Body::TimerFired(last) = fired.last().unwrap() else { panic!() };
        assert_eq!((fired.len(), &last.passed_over[..]), (2, &["ada".to_owned()][..]));
    }
}
