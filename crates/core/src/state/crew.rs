//! Where a crew stands: who is in it, what each does, which messages are on their way.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::State;
use crate::{
    crew::{Roster, Spec},
    event::{
        Body, CrewRaised, Doing, Event, MemberEnded, MemberJoined, MemberSeen, MemberStarting,
        MessageFailed, MessagePosted, Start,
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crew {
    pub raised: CrewRaised,
    /// In the order in which they joined.
    #[serde(default)]
    pub members: Vec<Member>,
    /// Who was taken out of it since it was raised.
    #[serde(default)]
    pub left: Vec<String>,
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
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Posted {
    pub messages: Vec<String>,
    pub attempt: u32,
    #[schemars(with = "String")]
    pub at: Timestamp,
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
        let lately = self.ends.iter().filter(|end| now.duration_since(**end) < ENDS_WITHIN).count();
        match lately >= MOST_ENDS {
            true => Afterwards::Degraded,
            false => {
                let doublings = u32::try_from(lately).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
                Afterwards::AgainIn(SignedDuration::from_secs(1 << doublings))
            }
        }
    }

    /// Whether its program should be there.
    #[must_use]
    pub fn is_up(&self) -> bool {
        !self.starting && !matches!(self.doing, Doing::Down | Doing::Degraded)
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

    #[must_use]
    pub fn spec(&self, member: &Member) -> Option<&Spec> {
        self.roster().spec(&member.role)
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.members.iter_mut().find(|member| member.name == name) {
            change(member);
        }
    }

    fn joined(&mut self, joined: &MemberJoined) {
        self.members.retain(|member| member.name != joined.member);
        self.left.retain(|name| *name != joined.member);
        self.members.push(Member {
            name: joined.member.clone(),
            role: joined.role.clone(),
            group: joined.group.clone(),
            instance: joined.instance,
            session: Some(joined.session),
            cwd: joined.cwd.clone(),
            worktree: joined.worktree.clone(),
            branch: joined.branch.clone(),
            ..Member::default()
        });
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

    pub(super) fn reached(&mut self, to: &str) {
        self.change(to, |member| member.posted = None);
    }
}

fn starting(member: &mut Member, starting: &MemberStarting, at: Timestamp) {
    member.how = starting.how;
    member.generation = starting.generation;
    member.vendor_session = starting.vendor_session.clone();
    member.command = starting.command.clone();
    member.cwd = starting.cwd.clone();
    member.spawned_at = Some(at);
    member.starting = true;
    member.pane = None;
    member.pid = None;
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
        member.ends.retain(|end| at.duration_since(*end) < ENDS_WITHIN);
        member.ends.push(at);
    }
    if ended.again_in_ms.is_some() {
        member.restarts += 1;
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
            Body::MemberJoined(joined) => crew.joined(joined),
            Body::MemberLeft(left) => {
                crew.members.retain(|one| one.name != left.member);
                crew.left.push(left.member.clone());
            }
            Body::MemberStarting(one) => {
                crew.change(&one.member, |member| starting(member, one, at));
            }
            Body::MemberStarted(one) => crew.change(&one.member, |member| {
                member.starting = false;
                member.pane = one.pane.clone();
                member.pid = one.pid;
            }),
            Body::MemberIdentified(one) => crew.change(&one.member, |member| {
                member.vendor_session = Some(one.vendor_session.clone());
            }),
            Body::MemberSeen(MemberSeen { member, doing, what }) => {
                crew.change(member, |member| seen(member, *doing, what.clone(), at));
            }
            Body::MemberEnded(one) => crew.change(&one.member, |member| ended(member, one, at)),
            Body::MessagePosted(posted) => crew.posted(posted, at),
            Body::TimerFired(fired) => {
                crew.timers.retain(|(timer, _)| *timer != fired.timer);
                crew.timers.push((fired.timer.clone(), at));
            }
            Body::ScopeBroken(_) => crew.scope_broken += 1,
            _ => {}
        }
    }

    fn raised(&mut self, raised: &CrewRaised) {
        match &mut self.crew {
            Some(crew) => {
                crew.raised = raised.clone();
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
                self.crew = Some(Crew {
                    raised: raised.clone(),
                    members: Vec::new(),
                    left: Vec::new(),
                    dead: Vec::new(),
                    dead_total: 0,
                    timers: Vec::new(),
                    scope_broken: 0,
                });
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
        crew.reached(&failed.to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(member.after_end(at(500)), Afterwards::AgainIn(SignedDuration::from_secs(1)));
    }
}
