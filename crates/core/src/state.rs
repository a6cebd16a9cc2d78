//! The fold: what the events of a journal add up to.
//!
//! The state has a fixed size whatever the length of the session: it holds what the loop needs to
//! go on and what a list shows, never the conversation. So a session of a million events is opened
//! from its snapshot and a short tail, and needs no more memory than one of ten.

mod crew;
mod notes;
mod path;
mod review;
mod tasks;
mod turn;
mod vendors;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    caps::Caps,
    event::{
        Body, Cause, Event, Failure, JournalRepaired, ModelReplied, QuotaTold, ReplayEnded,
        SessionStopped, TurnStarted, WorktreePlanned,
    },
    identity::{Identity, LoopKind, Recording},
    payload::Payload,
    permission::Permission,
    usage::{Micros, Usage},
};

pub use crew::{
    Afterwards, Bounds, Crew, DeadLetter, ENDS_WITHIN, MOST_ENDS, Member as CrewMember, PROMPT,
    Posted,
};
pub use notes::{CheckRun, Noted, Notes, TouchedFile};
pub use path::{Checkpoint, Rewind};
pub use review::{Bridge, MOST_WAITING, Review, Round, Spent, Waiting};
pub use tasks::{
    Entry as TaskEntry, Hand, OFF_BRANCH, REMOVED, Said, Standing, Step as TaskStep, Tasks,
};
pub use turn::{Progress, Proof, ToolCall, Turn};
pub use vendors::VendorSession;

/// The id of the warning that a vendor's program did not ask for our tools.
pub const NO_TOOLS: &str = "no-tools";

/// How much of a text a list shows.
const LAST_TEXT_CHARS: usize = 160;

/// The most tool calls of a reply that the state holds.
const MOST_CALLS: usize = 64;

/// Everything that is known of a session at one point of its journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// The last event that is folded in.
    pub seq: u64,
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub updated_at: Option<Timestamp>,
    pub identity: Option<Identity>,
    pub name: Option<String>,
    pub phase: Phase,
    /// The last stop, until the session is resumed.
    pub stop: Option<SessionStopped>,
    /// Who worked when it stopped: a limit is theirs, whoever goes on.
    #[serde(default)]
    pub stopped_agent: Option<String>,
    /// When the process that works now (or worked last) began: the wall clock cap counts from here.
    #[schemars(with = "Option<String>")]
    pub running_since: Option<Timestamp>,
    /// The machine that it works or worked on.
    #[serde(default)]
    pub host: Option<String>,
    /// How often the session was started or resumed.
    pub runs: u32,
    pub caps: Caps,
    /// The model in use, where a resume changed it.
    pub model: Option<String>,
    /// The place of work, where a resume changed it.
    #[schemars(with = "Option<String>")]
    pub workspace: Option<PathBuf>,
    /// What the agent may do, where a resume changed it.
    #[serde(default)]
    pub permission: Option<Permission>,
    /// Who works now, where that is not who began.
    #[serde(default)]
    pub agent: Option<String>,
    /// The work was handed over, and the one that goes on has not begun.
    #[serde(default)]
    pub handing_over: bool,
    /// What a packet tells.
    #[serde(default)]
    pub notes: Notes,
    /// The workspace before the first turn, and at the last point where it was kept.
    #[serde(default)]
    pub first_checkpoint: Option<Checkpoint>,
    #[serde(default)]
    pub checkpoint: Option<Checkpoint>,
    /// Which turns the conversation consists of, and how the last rewind can be taken back.
    #[serde(default)]
    pub rewind: Rewind,
    /// The session's own worktree.
    #[serde(default)]
    pub worktree: Option<Worktree>,
    /// The last commit that was put on its branch, and not taken off again.
    #[serde(default)]
    pub landed: Option<String>,
    /// The reviews, and what was said in them.
    #[serde(default)]
    pub review: Review,
    /// The list of tasks, where the session works on one.
    #[serde(default)]
    pub tasks: Option<Tasks>,
    /// Who is in the crew, where it is one.
    #[serde(default)]
    pub crew: Option<Crew>,
    /// What the participants say to each other.
    #[serde(default)]
    pub bridge: Bridge,
    /// The vendors' own sessions, the last one of each agent.
    #[serde(default)]
    pub vendors: Vec<VendorSession>,
    /// The last that was told of each of the vendor's windows.
    #[serde(default)]
    pub quotas: Vec<QuotaTold>,
    /// Whose programs did not ask for our tools, which was said once.
    #[serde(default)]
    pub without_tools: Vec<String>,
    /// Lines of vendors' streams that could not be read.
    #[serde(default)]
    pub unread_lines: u64,
    pub turn: Turn,
    /// Whole replies of the session.
    pub replies: u64,
    pub usage: Usage,
    pub cost: Micros,
    /// Model calls whose price is not known: the cost is then a lower bound.
    pub unpriced_calls: u64,
    pub tool_calls: u64,
    pub proof: Proof,
    pub last_text: Option<String>,
    pub last_failure: Option<LastFailure>,
    /// What the model was told last besides the conversation.
    #[serde(default)]
    pub told: Option<String>,
    /// How the recording was left, in a replay that ran again.
    #[serde(default)]
    pub replay: Option<ReplayEnded>,
    /// Times that events were lost: a damaged journal was cut back. A torn tail is none.
    pub repairs: u32,
    /// Events of kinds that this version does not know.
    pub unknown_events: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Never started.
    #[default]
    Created,
    /// Started or resumed, and not stopped. Whether the process still lives, only its lock tells.
    Running,
    Stopped,
    #[serde(other)]
    Unknown,
}

/// A worktree that was made for the session, or is about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worktree {
    pub plan: WorktreePlanned,
    pub made: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastFailure {
    pub error: Failure,
    pub message: String,
}

impl State {
    /// Folds one more event in. The order of the journal is the order of the calls.
    pub fn apply(&mut self, event: &Event) {
        self.fold(event);
        self.take_note(event);
    }

    fn fold(&mut self, event: &Event) {
        self.seq = event.seq;
        self.updated_at = Some(event.at);
        match &event.body {
            Body::SessionCreated(created) => {
                self.caps = created.identity.caps;
                self.identity = Some((*created.identity).clone());
                self.begin_with_base();
                self.begin_as_made();
            }
            Body::SessionNamed(named) => self.name = Some(named.name.clone()),
            Body::SessionStarted(started) => {
                self.host = Some(started.by.host.clone());
                self.run_began(event.at, started.caps);
            }
            Body::SessionResumed(resumed) => {
                self.run_began(event.at, resumed.caps);
                self.host = Some(resumed.by.host.clone());
                self.model = resumed.model.clone().or(self.model.take());
                self.workspace = resumed.workspace.clone().or(self.workspace.take());
                self.permission = resumed.permission.or(self.permission);
            }
            Body::SessionStopped(stopped) => self.stopped(stopped),
            Body::JournalRepaired(repaired) => self.repaired(repaired),
            Body::ProofStarted(_) => self.proof = Proof::Started,
            Body::ProofReturned(returned) => self.proof = Proof::of(returned),
            Body::ReplayEnded(ended) => self.replay = Some(ended.clone()),
            Body::WarningRaised(_) if event.id.as_deref() == Some(NO_TOOLS) => {
                self.without_tools.extend(event.agent.clone());
            }
            Body::LimitHit(_)
            | Body::WarningRaised(_)
            | Body::ProgressReported(_)
            | Body::WorkAccepted(_)
            | Body::PacketWritten(_) => {}
            Body::AgentChanged(changed) => {
                self.agent = Some(changed.to.clone());
                self.model = changed.model.clone();
                self.handing_over = true;
            }
            Body::Unknown { .. } => self.unknown_events += 1,
            Body::AgentStarted(_)
            | Body::AgentIntroduced(_)
            | Body::AgentExited(_)
            | Body::UsageReported(_)
            | Body::QuotaTold(_) => self.apply_to_vendor(event),
            Body::CheckpointTaken(_)
            | Body::CheckpointSkipped(_)
            | Body::RewindStarted(_)
            | Body::RewindFinished(_)
            | Body::WorktreePlanned(_)
            | Body::WorktreeMade(_) => self.apply_to_workspace(&event.body),
            Body::ReviewStarted(_)
            | Body::VerdictSubmitted(_)
            | Body::VerdictGiven(_)
            | Body::ReviewerStopped(_)
            | Body::DoneSignalled(_)
            | Body::WorkCommitted(_)
            | Body::MessageSent(_)
            | Body::MessageDelivered(_) => self.apply_to_review(event),
            Body::TasksRead(_)
            | Body::TaskStarted(_)
            | Body::TaskFailed(_)
            | Body::CaseSubmitted(_) => {
                self.apply_to_tasks(event.turn.unwrap_or(self.turn.number), &event.body);
            }
            Body::CrewRaised(_)
            | Body::CrewEnding(_)
            | Body::MemberJoined(_)
            | Body::MemberLeft(_)
            | Body::MemberStarting(_)
            | Body::MemberStarted(_)
            | Body::MemberIdentified(_)
            | Body::MemberSeen(_)
            | Body::MemberEnded(_)
            | Body::MemberRestarted(_)
            | Body::MessagePosted(_)
            | Body::MessageFailed(_)
            | Body::TimerFired(_)
            | Body::ScopeOpened(_)
            | Body::ScopeClosed(_)
            | Body::ScopeBroken(_) => self.apply_to_crew(event),
            _ => self.apply_to_turn(event),
        }
    }

    fn stopped(&mut self, stopped: &SessionStopped) {
        self.phase = Phase::Stopped;
        let who = stopped.agent.as_deref().unwrap_or_else(|| self.agent());
        self.stopped_agent = Some(who.to_owned());
        self.stop = Some(stopped.clone());
    }

    /// What is lost of a list's journal may be all that was done: it was left, and does not wait to be
    /// begun.
    fn repaired(&mut self, repaired: &JournalRepaired) {
        if !repaired.lost_events() {
            return;
        }
        self.repairs += 1;
        let list = self.identity.as_ref().is_some_and(|it| it.loop_kind == LoopKind::Tasks);
        if list && self.phase == Phase::Created {
            self.phase = Phase::Running;
        }
    }

    fn run_began(&mut self, at: Timestamp, caps: Caps) {
        self.phase = Phase::Running;
        self.stop = None;
        self.running_since = Some(at);
        self.runs += 1;
        self.caps = caps;
        self.turn.failed_attempts = 0;
        self.review.idle = 0;
    }

    fn turn_started(&mut self, event: &Event, started: &TurnStarted) {
        let number = event.turn.unwrap_or(self.turn.number + 1);
        self.attempted(number, started.cause);
        self.bridge.reached(&started.messages);
        let rest = !started.cause.is_another_attempt() && self.turn.asked_in > 0;
        self.turn = Turn {
            number,
            asked_in: if rest { self.turn.asked_in } else { number },
            agent: event.agent.clone().unwrap_or_default(),
            cause: Some(started.cause),
            question: event.id.clone(),
            messages: started.messages.clone(),
            spoke_before: started.cause == Cause::Unfinished && self.turn.spoke,
            open: true,
            ..Turn::default()
        };
        self.proof = Proof::Open;
        self.handing_over = false;
        self.rewind.waits = false;
        if started.fresh {
            self.begin_afresh();
        }
    }

    fn apply_to_turn(&mut self, event: &Event) {
        let turn = &mut self.turn;
        match &event.body {
            Body::TurnStarted(started) => self.turn_started(event, started),
            Body::TurnEnded(ended) => {
                turn.open = false;
                turn.outcome = Some(ended.outcome);
                turn.running = false;
            }
            Body::ModelCalled(called) => {
                turn.calling = true;
                turn.unsealed.clear();
                if let Some(told) = &called.told {
                    self.told = Some(told.digest());
                }
            }
            Body::ModelFailed(failed) => {
                turn.calling = false;
                turn.failed_attempts += 1;
                self.last_failure =
                    Some(LastFailure { error: failed.error, message: failed.message.clone() });
            }
            Body::TextWritten(written) => {
                turn.spoke = true;
                self.last_text = Some(beginning(&written.text, LAST_TEXT_CHARS));
            }
            Body::ToolCalled(called) => {
                turn.spoke = true;
                // A vendor's turn has no seals, and may have any number of calls.
                if turn.unsealed.len() >= MOST_CALLS {
                    let done = |call: &ToolCall| call.progress == Progress::Returned;
                    let oldest = turn.unsealed.iter().position(done).unwrap_or(0);
                    turn.unsealed.remove(oldest);
                }
                turn.unsealed.push(ToolCall {
                    id: event.id.clone().unwrap_or_default(),
                    name: called.name.clone(),
                    progress: Progress::Called,
                    checks: notes::checks(&called.input),
                });
            }
            Body::ModelReplied(replied) => self.replied(replied),
            Body::ToolStarted(_) => turn.advance(event, Progress::Started),
            Body::ToolReturned(_) => {
                turn.advance(event, Progress::Returned);
                if turn.spawns > 0 {
                    self.tool_calls += 1;
                }
            }
            _ => {}
        }
    }

    fn replied(&mut self, replied: &ModelReplied) {
        let turn = &mut self.turn;
        turn.calling = false;
        turn.failed_attempts = 0;
        turn.calls += 1;
        self.replies += 1;
        turn.reply = Some(replied.stop);
        turn.tools = std::mem::take(&mut turn.unsealed);
        self.tool_calls += turn.tools.len() as u64;
        self.usage += replied.usage;
        match replied.cost_micros {
            Some(cost) => self.cost += cost,
            None => self.unpriced_calls += 1,
        }
        self.last_failure = None;
    }

    /// Where the agent works, after every resume that named another place.
    #[must_use]
    pub fn workspace(&self) -> Option<&Path> {
        self.workspace.as_deref().or(self.identity.as_ref().map(|found| found.workspace.as_path()))
    }

    /// What the agent may do, after every resume that said something else.
    #[must_use]
    pub fn permission(&self) -> Permission {
        let first = self.identity.as_ref().map(|found| found.permission);
        self.permission.or(first).unwrap_or_default()
    }

    /// What an agent's vendor calls its part of this session.
    #[must_use]
    pub fn vendor(&self, agent: &str) -> Option<&VendorSession> {
        self.vendors.iter().find(|known| known.agent == agent)
    }

    /// The model to call, after every resume that named another one.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref().or_else(|| self.first_model(self.agent()))
    }

    /// The model that the session began with, where this is the agent that began.
    #[must_use]
    pub fn first_model(&self, agent: &str) -> Option<&str> {
        self.identity.as_ref().filter(|first| first.agent == agent)?.model.as_deref()
    }

    /// The recording that answers, until it is left. Whoever was asked for something else, or was
    /// given the work by somebody else, is not answered by it.
    #[must_use]
    pub fn recording(&self) -> Option<&Recording> {
        let ours = self.replay.is_none() && self.agent.is_none() && self.rewind.path.is_none();
        let lineage = self.identity.as_ref()?.lineage.as_ref()?;
        lineage.recording.as_ref().filter(|_| ours)
    }

    /// Who works, after every hand-off.
    #[must_use]
    pub fn agent(&self) -> &str {
        let first = || self.identity.as_ref().map_or("", |found| found.agent.as_str());
        self.agent.as_deref().unwrap_or_else(first)
    }
}

/// How a text begins, with a sign where it goes on.
fn beginning(text: &Payload, most: usize) -> String {
    let head = text.head();
    let end = head.char_indices().nth(most).map(|(at, _)| at);
    let mut short = head[..end.unwrap_or(head.len())].to_owned();
    if text.blob.is_some() || end.is_some() {
        short.push('…');
    }
    short
}
