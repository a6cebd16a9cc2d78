//! Where a crew stands: who is in it, what each does, which messages are on their way.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::State;
use crate::{
    crew::{Roster, Spec},
    event::{
        Body, CrewRaised, Doing, Event, MemberEnded, MemberJoined, MemberSeen, MemberStarted,
        MemberStarting, MessageFailed, MessagePosted, ScopeBroken, ScopeOpened, Start,
    },
    id::SessionId,
};

/// How many ends within how long make a member degraded.
pub const MOST_ENDS: usize = 5;
pub const ENDS_WITHIN: SignedDuration = SignedDuration::from_secs(120);

/// The longest wait before a member is started again is 2 to the power of this, in seconds.
const LONGEST_WAIT: u32 = 4;

/// How the ids of first prompts begin.
pub const PROMPT: &str = "prompt-";

/// How many of the messages that did not arrive are kept in the state. All are in the journal.
const MOST_DEAD: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crew {
    pub raised: CrewRaised,
    /// In the order in which they joined.
    #[serde(default)]
    pub members: Vec<Member>,
    /// Who was taken out of it since it was raised.
    #[serde(default)]
    pub left: Vec<String>,
    /// Who was ever taken out of it and is not back, as each was then.
    #[serde(default)]
    pub former: Vec<Member>,
    /// It is on its way down.
    #[serde(default)]
    pub ending: bool,
    /// The order that it was last taken down by.
    #[serde(default)]
    pub ended_by: Option<String>,
    /// The last messages that did not arrive, and how many there were.
    #[serde(default)]
    pub dead: Vec<DeadLetter>,
    #[serde(default)]
    pub dead_total: u64,
    /// When each timer went off last.
    #[serde(default)]
    #[schemars(with = "Vec<(String, String)>")]
    pub timers: Vec<(String, Timestamp)>,
    /// How often files were written outside of what is allowed.
    #[serde(default)]
    pub scope_broken: u64,
}

/// One of the crew: who it is, for good and from its start on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    pub name: String,
    pub role: String,
    #[serde(default)]
    pub group: Option<String>,
    pub instance: u32,
    pub session: Option<SessionId>,
    #[schemars(with = "String")]
    pub cwd: PathBuf,
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub worktree: Option<PathBuf>,
    #[serde(default)]
    pub branch: Option<String>,
    /// How often it was told its first prompt.
    #[serde(default)]
    pub prompted: u32,
    #[serde(default)]
    pub how: Start,
    #[serde(default)]
    pub generation: u32,
    #[serde(default)]
    pub vendor_session: Option<String>,
    #[serde(default)]
    pub command: String,
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub spawned_at: Option<Timestamp>,
    /// It was about to be started, and nobody has seen yet that it was.
    #[serde(default)]
    pub starting: bool,
    #[serde(default)]
    pub pane: Option<String>,
    #[serde(default)]
    pub pid: Option<u32>,
    /// When that process began, as the system counts.
    #[serde(default)]
    pub began: Option<u64>,
    #[serde(default)]
    pub doing: Doing,
    #[serde(default)]
    pub what: Option<String>,
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// When it ended lately.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub ends: Vec<Timestamp>,
    #[serde(default)]
    pub restarts: u64,
    /// What was typed in, and not seen in its conversation yet.
    #[serde(default)]
    pub posted: Option<Posted>,
    /// Its next start begins a new conversation.
    #[serde(default)]
    pub fresh: bool,
    /// What its turn is compared with, where it may not write everywhere.
    #[serde(default)]
    pub bounds: Option<Bounds>,
}

/// A turn of somebody who may not write everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// The commit that has everything as it was when the turn began.
    pub base: String,
    /// Everybody who was at work in the same directory since then, each with its role.
    #[serde(default)]
    pub with: Vec<(String, String)>,
    /// What was told already.
    #[serde(default)]
    pub told: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Posted {
    pub messages: Vec<String>,
    pub attempt: u32,
    #[schemars(with = "String")]
    pub at: Timestamp,
}

impl Posted {
    fn without(mut self, messages: &[String]) -> Option<Self> {
        self.messages.retain(|id| !messages.contains(id));
        (!self.messages.is_empty()).then_some(self)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    pub id: String,
    pub from: String,
    pub to: String,
    pub reason: String,
    #[schemars(with = "String")]
    pub at: Timestamp,
}

/// What follows from the end of a member's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    AgainIn(SignedDuration),
    Degraded,
}

impl Member {
    /// What is to follow if it ends now.
    #[must_use]
    pub fn after_end(&self, now: Timestamp) -> Afterwards {
        let lately = self.ends.iter().filter(|end| is_lately(**end, now)).count();
        match lately >= MOST_ENDS {
            true => Afterwards::Degraded,
            false => {
                let doublings = u32::try_from(lately).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
                Afterwards::AgainIn(SignedDuration::from_secs(1 << doublings))
            }
        }
    }

    /// Whether it may be writing now: it has a turn, or is about to be given one.
    fn is_at_work(&self) -> bool {
        let works = matches!(self.doing, Doing::Busy | Doing::Waiting | Doing::Unreachable);
        works || self.posted.is_some()
    }

    /// Whether its program should be there.
    #[must_use]
    pub fn is_up(&self) -> bool {
        let out = matches!(self.doing, Doing::Down | Doing::Degraded | Doing::Unreachable);
        !self.starting && !out
    }
}

impl Crew {
    #[must_use]
    pub fn roster(&self) -> &Roster {
        &self.raised.roster
    }

    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Everybody in the order of the roster; whoever was added comes last.
    pub fn in_order(&self) -> impl Iterator<Item = &Member> {
        let places = self.roster().places();
        let place = |name: &str| places.iter().position(|place| place.member == name);
        let mut members: Vec<&Member> = self.members.iter().collect();
        members.sort_by_key(|member| place(&member.name).unwrap_or(usize::MAX));
        members.into_iter()
    }

    #[must_use]
    pub fn spec(&self, member: &Member) -> Option<&Spec> {
        self.roster().spec(&member.role)
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.members.iter_mut().find(|member| member.name == name) {
            change(member);
        }
    }

    /// Whoever was taken out of it, and has its own session still.
    #[must_use]
    pub fn former(&self, name: &str) -> Option<&Member> {
        self.former.iter().find(|member| member.name == name)
    }

    fn joined(&mut self, joined: &MemberJoined) {
        self.members.retain(|member| member.name != joined.member);
        self.left.retain(|name| *name != joined.member);
        let at = self.former.iter().position(|member| member.name == joined.member);
        let before = at.map(|at| self.former.remove(at)).unwrap_or_default();
        let before = match before.session == Some(joined.session) {
            true => before,
            false => Member::default(),
        };
        // Another role has another prompt.
        let prompted = if before.role == joined.role { before.prompted } else { 0 };
        self.members.push(Member {
            name: joined.member.clone(),
            role: joined.role.clone(),
            group: joined.group.clone(),
            instance: joined.instance,
            session: Some(joined.session),
            cwd: joined.cwd.clone(),
            worktree: joined.worktree.clone(),
            branch: joined.branch.clone(),
            prompted,
            generation: before.generation,
            vendor_session: before.vendor_session,
            fresh: before.fresh,
            ..Member::default()
        });
    }

    fn left(&mut self, name: &str) {
        let at = self.members.iter().position(|member| member.name == name);
        self.former.extend(at.map(|at| self.members.remove(at)));
        self.left.push(name.to_owned());
    }

    fn posted(&mut self, posted: &MessagePosted, at: Timestamp) {
        let (messages, attempt) = (posted.messages.clone(), posted.attempt);
        self.change(&posted.to, |member| {
            member.posted = Some(Posted { messages, attempt, at });
        });
    }

    /// What the crew itself says to a member first has an id that begins so.
    pub(super) fn told(&mut self, id: &str, to: &str) {
        if id.starts_with(PROMPT) {
            self.change(to, |member| member.prompted += 1);
        }
    }

    /// What has arrived, or never will, is on its way no more.
    pub(super) fn settled(&mut self, to: &str, messages: &[String]) {
        self.change(to, |member| {
            member.posted = member.posted.take().and_then(|posted| posted.without(messages));
        });
    }

    /// Whoever works without a terminal is in its new conversation once it was told something there.
    pub(super) fn heard(&mut self, to: &str) {
        self.change(to, |member| member.fresh &= member.doing == Doing::Down);
    }

    fn opened(&mut self, opened: &ScopeOpened) {
        let Some(cwd) = self.member(&opened.member).map(|one| one.cwd.clone()) else { return };
        let at_work =
            |one: &&Member| one.name == opened.member || (one.cwd == cwd && one.is_at_work());
        let with = self.members.iter().filter(at_work).map(who).collect();
        let base = opened.base.clone();
        self.change(&opened.member, |member| {
            member.bounds = Some(Bounds { base, with, told: Vec::new() });
        });
    }

    /// Notes for everybody whose turn is under way who else may have written in the same place.
    fn joins_in(&mut self, name: &str) {
        let Some(one) = self.member(name).filter(|one| one.is_at_work()) else { return };
        let (cwd, one) = (one.cwd.clone(), who(one));
        for member in self.members.iter_mut().filter(|member| member.cwd == cwd) {
            if let Some(bounds) = member.bounds.as_mut().filter(|open| !open.with.contains(&one)) {
                bounds.with.push(one.clone());
            }
        }
    }

    fn broken(&mut self, broken: &ScopeBroken) {
        self.scope_broken += 1;
        if broken.undone {
            return;
        }
        self.change(&broken.turn_of, |member| {
            if let Some(bounds) = &mut member.bounds {
                bounds.told.extend(broken.paths.iter().cloned());
            }
        });
    }
}

fn who(member: &Member) -> (String, String) {
    (member.name.clone(), member.role.clone())
}

fn starting(member: &mut Member, starting: &MemberStarting, at: Timestamp) {
    member.how = starting.how;
    member.generation = starting.generation;
    member.vendor_session = starting.vendor_session.clone();
    member.command = starting.command.clone();
    member.cwd = starting.cwd.clone();
    member.spawned_at = Some(at);
    member.starting = true;
    member.fresh = false;
    member.pane = None;
    (member.pid, member.began) = (None, None);
    seen(member, Doing::Starting, None, at);
}

fn seen(member: &mut Member, doing: Doing, what: Option<String>, at: Timestamp) {
    if member.doing != doing {
        member.since = Some(at);
    }
    member.doing = doing;
    member.what = what;
}

fn ended(member: &mut Member, ended: &MemberEnded, at: Timestamp) {
    let doing = if ended.degraded { Doing::Degraded } else { Doing::Down };
    seen(member, doing, Some(ended.why.clone()), at);
    member.starting = false;
    if ended.again_in_ms.is_some() || ended.degraded {
        member.ends.retain(|end| is_lately(*end, at));
        member.ends.push(at);
    }
    if ended.again_in_ms.is_some() {
        member.restarts += 1;
    }
}

/// A clock that was set back must not make an end last.
fn is_lately(end: Timestamp, now: Timestamp) -> bool {
    now.duration_since(end).abs() < ENDS_WITHIN
}

fn started(member: &mut Member, started: &MemberStarted, at: Timestamp) {
    member.starting = false;
    member.pane = started.pane.clone();
    (member.pid, member.began) = (started.pid, started.began);
    // Somebody has started it by hand, or its end was wrongly told.
    if !member.is_up() {
        seen(member, Doing::Starting, None, at);
    }
}

impl State {
    pub(super) fn apply_to_crew(&mut self, event: &Event) {
        let at = event.at;
        if let Body::CrewRaised(raised) = &event.body {
            return self.raised(raised);
        }
        if let Body::MessageFailed(failed) = &event.body {
            return self.message_failed(failed, at);
        }
        let Some(crew) = &mut self.crew else { return };
        match &event.body {
            Body::MemberRestarted(one) if one.fresh => {
                crew.change(&one.member, |member| member.fresh = true);
            }
            Body::MemberJoined(joined) => crew.joined(joined),
            Body::MemberLeft(left) => crew.left(&left.member),
            Body::MemberStarting(one) => {
                crew.change(&one.member, |member| starting(member, one, at));
            }
            Body::MemberStarted(one) => {
                crew.change(&one.member, |member| started(member, one, at));
            }
            Body::CrewEnding(one) => {
                crew.ending = true;
                crew.ended_by = one.order.clone().or(crew.ended_by.take());
            }
            Body::MemberIdentified(one) => crew.change(&one.member, |member| {
                member.vendor_session = Some(one.vendor_session.clone());
            }),
            Body::MemberSeen(MemberSeen { member, doing, what }) => {
                crew.change(member, |member| seen(member, *doing, what.clone(), at));
                crew.joins_in(member);
            }
            Body::MemberEnded(one) => crew.change(&one.member, |member| ended(member, one, at)),
            Body::MessagePosted(posted) => {
                crew.posted(posted, at);
                crew.joins_in(&posted.to);
            }
            Body::TimerFired(fired) => {
                crew.timers.retain(|(timer, _)| *timer != fired.timer);
                crew.timers.push((fired.timer.clone(), at));
            }
            Body::ScopeOpened(opened) => crew.opened(opened),
            Body::ScopeClosed(closed) => crew.change(&closed.member, |one| one.bounds = None),
            Body::ScopeBroken(broken) => crew.broken(broken),
            _ => {}
        }
    }

    fn raised(&mut self, raised: &CrewRaised) {
        match &mut self.crew {
            Some(crew) => {
                crew.raised = raised.clone();
                crew.ending = false;
                crew.left.clear();
                // Whoever raises it anew gives everybody another chance.
                for member in &mut crew.members {
                    member.ends.clear();
                    if member.worktree.is_none() {
                        member.cwd.clone_from(&raised.project);
                    }
                }
            }
            None => {
                self.crew = Some(Crew { raised: raised.clone(), ..Crew::default() });
            }
        }
    }

    fn message_failed(&mut self, failed: &MessageFailed, at: Timestamp) {
        let from = |id: &str| {
            let waiting = self.bridge.waiting.iter().find(|waiting| waiting.id == id);
            waiting.map(|waiting| waiting.message.from.clone()).unwrap_or_default()
        };
        let letters: Vec<DeadLetter> = failed
            .messages
            .iter()
            .map(|id| DeadLetter {
                id: id.clone(),
                from: from(id),
                to: failed.to.clone(),
                reason: failed.reason.clone(),
                at,
            })
            .collect();
        self.bridge.given_up(&failed.messages);
        let Some(crew) = &mut self.crew else { return };
        crew.dead_total += letters.len() as u64;
        crew.dead.extend(letters);
        let over = crew.dead.len().saturating_sub(MOST_DEAD);
        crew.dead.drain(..over);
        crew.settled(&failed.to, &failed.messages);
        // A first prompt that it left before it was told: it is said when it is back.
        if failed.messages.iter().any(|id| id.starts_with(PROMPT))
            && let Some(gone) = crew.former.iter_mut().find(|one| one.name == failed.to)
        {
            gone.prompted = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{MemberLeft, MemberRestarted, MessageDelivered, MessageSent, ScopeClosed};

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    #[test]
    fn a_member_that_ends_again_and_again_waits_longer_and_is_given_up() {
        let mut member = Member::default();
        let mut waits = Vec::new();
        for secs in 0..MOST_ENDS as i64 {
            let Afterwards::AgainIn(wait) = member.after_end(at(secs)) else { panic!("{secs}") };
            waits.push(wait.as_secs());
            let end = MemberEnded {
                member: String::new(),
                why: "exit 1".to_owned(),
                again_in_ms: Some(1),
                degraded: false,
            };
            ended(&mut member, &end, at(secs));
        }
        assert_eq!(waits, [1, 2, 4, 8, 16]);
        assert_eq!(member.after_end(at(10)), Afterwards::Degraded);
        // After some quiet it has another chance.
        let once = Afterwards::AgainIn(SignedDuration::from_secs(1));
        assert_eq!(member.after_end(at(500)), once);
        // And after the clock was set back.
        assert_eq!(member.after_end(at(-5000)), once);
    }

    #[test]
    fn whoever_runs_is_not_down_any_more() {
        let mut member = Member { doing: Doing::Down, ..Member::default() };
        let found = MemberStarted {
            member: String::new(),
            pane: Some("%1".to_owned()),
            pid: Some(7),
            began: Some(99),
        };
        started(&mut member, &found, at(1));
        assert_eq!((member.doing, member.is_up()), (Doing::Starting, true));
        seen(&mut member, Doing::Busy, None, at(2));
        started(&mut member, &found, at(3));
        assert_eq!((member.doing, member.began), (Doing::Busy, Some(99)));
    }

    fn state(names: &[(&str, &str)]) -> State {
        let mut state = State::default();
        apply(&mut state, CrewRaised::default());
        for (name, cwd) in names {
            let joined = MemberJoined {
                member: (*name).to_owned(),
                role: (*name).to_owned(),
                group: None,
                instance: 1,
                session: SessionId::from_parts(1, 1),
                cwd: cwd.into(),
                worktree: Some(cwd.into()),
                branch: None,
            };
            apply(&mut state, joined);
        }
        state
    }

    fn apply(state: &mut State, body: impl Into<Body>) {
        let (seq, turn, agent, id) = (state.seq + 1, None, None, None);
        state.apply(&Event { seq, at: at(1), turn, agent, id, body: body.into() });
    }

    fn sees(state: &mut State, name: &str, doing: Doing) {
        apply(state, MemberSeen { member: name.to_owned(), doing, what: None });
    }

    fn with(state: &State, name: &str) -> Vec<String> {
        let bounds = state.crew.as_ref().unwrap().member(name).unwrap().bounds.as_ref();
        bounds.unwrap().with.iter().map(|(name, _)| name.clone()).collect()
    }

    #[test]
    fn whoever_was_at_work_since_a_turn_began_is_remembered_when_it_is_idle_again() {
        let places = [("a", "/p"), ("b", "/p"), ("c", "/p"), ("d", "/p"), ("e", "/elsewhere")];
        let mut state = state(&places);
        sees(&mut state, "b", Doing::Busy);
        apply(&mut state, ScopeOpened { member: "a".to_owned(), base: "1".to_owned() });
        assert_eq!(with(&state, "a"), ["a", "b"]);
        sees(&mut state, "b", Doing::Idle);
        sees(&mut state, "e", Doing::Busy);
        // One that is so quick that nobody sees it at work was given something all the same.
        let posted = |to: &str| MessagePosted { to: to.to_owned(), messages: vec![], attempt: 1 };
        apply(&mut state, posted("c"));
        sees(&mut state, "c", Doing::Idle);
        assert_eq!(with(&state, "a"), ["a", "b", "c"]);

        let broken = ScopeBroken {
            members: vec!["a".to_owned()],
            turn_of: "a".to_owned(),
            paths: vec!["x".to_owned()],
            undone: false,
            kept_in: None,
        };
        apply(&mut state, broken);
        let crew = state.crew.as_ref().unwrap();
        assert_eq!(crew.member("a").unwrap().bounds.as_ref().unwrap().told, ["x"]);
        apply(&mut state, ScopeClosed { member: "a".to_owned() });
        assert_eq!(state.crew.as_ref().unwrap().member("a").unwrap().bounds, None);
    }

    #[test]
    fn who_is_to_begin_anew_does_so_once() {
        let mut state = state(&[("a", "/p")]);
        let fresh = |state: &State| state.crew.as_ref().unwrap().member("a").unwrap().fresh;
        let restarted = MemberRestarted { member: "a".to_owned(), fresh: true };
        let delivered = MessageDelivered {
            to: "a".to_owned(),
            messages: Vec::new(),
            by: crate::event::Delivery::Prompt,
        };
        apply(&mut state, restarted.clone());
        // Of the conversation before.
        apply(&mut state, delivered.clone());
        assert!(fresh(&state));
        let starting = MemberStarting {
            member: "a".to_owned(),
            how: Start::New,
            generation: 1,
            vendor_session: None,
            command: String::new(),
            cwd: "/p".into(),
        };
        apply(&mut state, starting);
        assert!(!fresh(&state));
        // Without a terminal nothing is started: it was told something.
        apply(&mut state, restarted);
        sees(&mut state, "a", Doing::Busy);
        assert!(fresh(&state));
        apply(&mut state, delivered);
        assert!(!fresh(&state));
    }

    fn member(state: &State, name: &str) -> Member {
        state.crew.as_ref().unwrap().member(name).unwrap().clone()
    }

    #[test]
    fn what_is_typed_in_is_on_its_way_until_that_arrives_or_fails() {
        let mut state = state(&[("a", "/p")]);
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let on_its_way = |state: &State| member(state, "a").posted.unwrap_or_default().messages;
        let failed = |these: &[&str]| MessageFailed {
            to: "a".to_owned(),
            messages: ids(these),
            reason: "it is empty".to_owned(),
        };
        let delivered = |these: &[&str]| MessageDelivered {
            to: "a".to_owned(),
            messages: ids(these),
            by: crate::event::Delivery::Prompt,
        };
        let posted =
            MessagePosted { to: "a".to_owned(), messages: ids(&["1", "2", "3"]), attempt: 1 };
        apply(&mut state, posted);
        apply(&mut state, failed(&["4"]));
        apply(&mut state, delivered(&["5"]));
        assert_eq!(on_its_way(&state), ["1", "2", "3"]);
        apply(&mut state, failed(&["1"]));
        apply(&mut state, delivered(&["2"]));
        assert_eq!(on_its_way(&state), ["3"]);
        apply(&mut state, delivered(&["3"]));
        assert_eq!(member(&state, "a").posted, None);
    }

    fn says(state: &mut State, id: &str, to: &str) {
        let text = crate::Payload::default();
        let sent = MessageSent { from: "crew".to_owned(), to: to.to_owned(), text };
        let (seq, turn, agent, id) = (state.seq + 1, None, None, Some(id.to_owned()));
        state.apply(&Event { seq, at: at(1), turn, agent, id, body: sent.into() });
    }

    #[test]
    fn who_comes_back_is_who_it_was() {
        let mut state = state(&[("a", "/p")]);
        let joins = |state: &mut State, role: &str, session: u64| {
            let joined = MemberJoined {
                member: "a".to_owned(),
                role: role.to_owned(),
                group: None,
                instance: 1,
                session: SessionId::from_parts(session, 1),
                cwd: "/p".into(),
                worktree: None,
                branch: None,
            };
            apply(state, joined);
        };
        let leaves = |state: &mut State| {
            let (member, reason) = ("a".to_owned(), "removed".to_owned());
            apply(state, MemberLeft { member, reason });
        };
        let known = |state: &State| {
            let member = member(state, "a");
            (member.prompted, member.generation, member.vendor_session)
        };
        says(&mut state, "prompt-1", "a");
        let starting = MemberStarting {
            member: "a".to_owned(),
            how: Start::New,
            generation: 1,
            vendor_session: Some("v".to_owned()),
            command: String::new(),
            cwd: "/p".into(),
        };
        apply(&mut state, starting);
        leaves(&mut state);
        apply(&mut state, CrewRaised::default());
        assert_eq!(state.crew.as_ref().unwrap().former("a").unwrap().generation, 1);
        joins(&mut state, "a", 1);
        let v = Some("v".to_owned());
        assert_eq!(known(&state), (1, 1, v.clone()));
        assert_eq!(member(&state, "a").doing, Doing::Down);

        // Its prompt was on its way, and did not arrive.
        leaves(&mut state);
        let messages = vec!["prompt-1".to_owned()];
        apply(&mut state, MessageFailed { to: "a".to_owned(), messages, reason: String::new() });
        joins(&mut state, "a", 1);
        assert_eq!(known(&state), (0, 1, v.clone()));

        // In another role it is told that one's prompt.
        says(&mut state, "prompt-2", "a");
        leaves(&mut state);
        joins(&mut state, "b", 1);
        assert_eq!(known(&state), (0, 1, v));
        // Its session is not there any more: it is somebody else.
        leaves(&mut state);
        joins(&mut state, "b", 2);
        assert_eq!(known(&state), (0, 0, None));
        assert!(state.crew.unwrap().former.is_empty());
    }

    #[test]
    fn everybody_stands_in_the_order_of_the_roster() {
        let mut state = state(&[("added", "/p"), ("a", "/p"), ("z", "/p")]);
        let spec = |id: &str| Spec { id: id.to_owned(), ..Spec::default() };
        let roster = Roster { agents: ["z", "a"].map(spec).into(), ..Roster::default() };
        apply(&mut state, CrewRaised { roster, ..CrewRaised::default() });
        let crew = state.crew.unwrap();
        let names: Vec<&str> = crew.in_order().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["z", "a", "added"]);
    }
}
