//! The fold: what the events of a journal add up to.
//!
//! The state has a fixed size whatever the length of the session: it holds what the loop needs to
//! go on and what a list shows, never the conversation. So a session of a million events is opened
//! from its snapshot and a short tail, and needs no more memory than one of ten.

mod notes;
mod path;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    caps::Caps,
    event::{
        AgentStarted, Body, Event, Failure, ModelReplied, ModelStop, Outcome, ProofReturned,
        QuotaTold, SessionStopped, ToolStatus, WorktreePlanned,
    },
    identity::Identity,
    payload::Payload,
    permission::Permission,
    usage::{Micros, Usage},
    validation::Check,
};

pub use notes::{CheckRun, Noted, Notes, TouchedFile};
pub use path::{Checkpoint, Rewind};

/// How much of a text a list shows.
const LAST_TEXT_CHARS: usize = 160;

/// The most tool calls of a reply, and windows of a quota, that the state holds.
const MOST_CALLS: usize = 64;
const MOST_WINDOWS: usize = 8;

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
    /// The vendors' own sessions, the last one of each agent.
    #[serde(default)]
    pub vendors: Vec<VendorSession>,
    /// The last that was told of each of the vendor's windows.
    #[serde(default)]
    pub quotas: Vec<QuotaTold>,
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
    /// Times that a torn tail was cut off or damage was repaired.
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

/// The turn under way, or the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// 0 before the first.
    pub number: u32,
    /// Who it was given to.
    #[serde(default)]
    pub agent: String,
    pub open: bool,
    /// Model calls so far that were answered.
    pub calls: u32,
    /// A call that is under way (or was, when the process died).
    pub calling: bool,
    /// Attempts at the call under way that failed.
    pub failed_attempts: u32,
    /// Steps of a reply that is not sealed yet.
    pub unsealed: Vec<ToolCall>,
    /// The tool calls of the last whole reply, in order.
    pub tools: Vec<ToolCall>,
    /// How the last whole reply ended.
    pub reply: Option<ModelStop>,
    /// How the turn ended, once it has.
    pub outcome: Option<Outcome>,
    /// How often a vendor's program was started for this turn.
    #[serde(default)]
    pub spawns: u32,
    /// The last of them has not ended, as far as the journal knows.
    #[serde(default)]
    pub running: bool,
    /// Calls of the last of them whose price is still to be told.
    #[serde(default)]
    pub unpriced: u64,
    /// What its calls have cost so far, until the vendor tells the sum.
    #[serde(default)]
    pub guessed: Micros,
    /// Where the bytes of the last of them begin in the turn's stream file.
    #[serde(default)]
    pub stream_from: u64,
}

/// One vendor's session: all that is needed to find it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VendorSession {
    pub agent: String,
    /// What the vendor calls it, once that is known.
    pub id: Option<String>,
    pub command: String,
    #[schemars(with = "String")]
    pub cwd: PathBuf,
    #[schemars(with = "String")]
    pub spawned_at: Timestamp,
    pub model: Option<String>,
    pub version: Option<String>,
    /// The last turn that was given to it.
    pub turn: u32,
    /// A rewind left the rest of it behind: this is where it is cut, in the vendor's own words.
    #[serde(default)]
    pub cut_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub progress: Progress,
    /// What it checks, where it is a command that everybody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<(Check, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Asked for, and certainly not run.
    Called,
    /// Intended: it runs, or it ran, or it was about to.
    Started,
    Returned,
    #[serde(other)]
    Unknown,
}

/// Where the proof of the last turn stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// Not run since the last turn.
    #[default]
    Open,
    Started,
    Passed,
    Failed,
    #[serde(other)]
    Unknown,
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
            Body::SessionStopped(stopped) => {
                self.phase = Phase::Stopped;
                self.stop = Some(stopped.clone());
            }
            Body::JournalRepaired(_) => self.repairs += 1,
            Body::ProofStarted(_) => self.proof = Proof::Started,
            Body::ProofReturned(returned) => self.proof = Proof::of(returned),
            Body::LimitHit(_)
            | Body::WarningRaised(_)
            | Body::ProgressReported(_)
            | Body::PacketWritten(_) => {}
            Body::AgentChanged(changed) => {
                self.agent = Some(changed.to.clone());
                self.model = changed.model.clone();
                self.handing_over = true;
            }
            Body::CheckpointTaken(taken) => self.checkpointed(taken),
            Body::CheckpointSkipped(skipped) => self.not_checkpointed(skipped),
            Body::RewindStarted(started) => self.rewind.under_way = Some(started.clone()),
            Body::RewindFinished(_) => self.rewound(),
            Body::WorktreePlanned(plan) => {
                self.worktree = Some(Worktree { plan: plan.clone(), made: false });
            }
            Body::WorktreeMade(made) => {
                if let Some(worktree) = &mut self.worktree {
                    worktree.made = true;
                }
                self.workspace = Some(made.path.clone());
            }
            Body::AgentStarted(started) => self.spawned(event, started),
            Body::AgentIntroduced(told) => {
                if let Some(vendor) = self.vendor_of(event) {
                    let keep = |new: &Option<String>, old: &mut Option<String>| {
                        *old = new.clone().or(old.take());
                    };
                    keep(&told.vendor_session, &mut vendor.id);
                    keep(&told.model, &mut vendor.model);
                    keep(&told.version, &mut vendor.version);
                }
            }
            Body::AgentExited(exited) => {
                self.turn.running = false;
                self.unread_lines += exited.unread_lines;
            }
            Body::UsageReported(reported) => {
                self.usage += reported.usage;
                if reported.settles {
                    self.unpriced_calls =
                        self.unpriced_calls.saturating_sub(std::mem::take(&mut self.turn.unpriced));
                    // The vendor's own figure takes the place of what was guessed.
                    let guessed = std::mem::take(&mut self.turn.guessed);
                    self.cost.0 = self.cost.0.saturating_sub(guessed.0);
                } else if let Some(cost) = reported.cost_micros {
                    self.turn.guessed += cost;
                }
                match reported.cost_micros {
                    Some(cost) => self.cost += cost,
                    None => {
                        self.unpriced_calls += 1;
                        self.turn.unpriced += 1;
                    }
                }
            }
            Body::QuotaTold(told) => {
                self.quotas.retain(|known| known.window != told.window);
                self.quotas.truncate(MOST_WINDOWS - 1);
                self.quotas.push(told.clone());
            }
            Body::Unknown { .. } => self.unknown_events += 1,
            _ => self.apply_to_turn(event),
        }
    }

    fn run_began(&mut self, at: Timestamp, caps: Caps) {
        self.phase = Phase::Running;
        self.stop = None;
        self.running_since = Some(at);
        self.runs += 1;
        self.caps = caps;
        self.turn.failed_attempts = 0;
    }

    /// The vendor's program is about to run: from here on it may have got the prompt.
    fn spawned(&mut self, event: &Event, started: &AgentStarted) {
        let agent = event.agent.clone().unwrap_or_default();
        let before = self.vendors.iter().position(|known| known.agent == agent);
        let before = before.map(|at| self.vendors.swap_remove(at));
        // A new conversation has nothing of the one before, above all not its id.
        let before = before.filter(|known| known.id == started.vendor_session);
        self.vendors.push(VendorSession {
            agent,
            id: started.vendor_session.clone(),
            command: started.command.clone(),
            cwd: started.cwd.clone(),
            spawned_at: event.at,
            model: before.as_ref().and_then(|known| known.model.clone()),
            version: started.version.clone().or(before.and_then(|known| known.version)),
            turn: self.turn.number,
            cut_at: None,
        });
        self.turn.spawns += 1;
        self.turn.stream_from = started.stream_from;
        self.turn.unpriced = 0;
        self.turn.guessed = Micros::default();
        self.turn.running = true;
        // Whatever ran under the program before this one was settled, or ended with it.
        self.turn.unsealed.retain(|call| call.progress == Progress::Returned);
    }

    fn vendor_of(&mut self, event: &Event) -> Option<&mut VendorSession> {
        let agent = event.agent.as_deref()?;
        self.vendors.iter_mut().find(|known| known.agent == agent)
    }

    fn apply_to_turn(&mut self, event: &Event) {
        let turn = &mut self.turn;
        match &event.body {
            Body::TurnStarted(_) => {
                *turn = Turn {
                    number: event.turn.unwrap_or(turn.number + 1),
                    agent: event.agent.clone().unwrap_or_default(),
                    open: true,
                    ..Turn::default()
                };
                self.proof = Proof::Open;
                self.handing_over = false;
                self.rewind.waits = false;
            }
            Body::TurnEnded(ended) => {
                turn.open = false;
                turn.outcome = Some(ended.outcome);
                turn.running = false;
            }
            Body::ModelCalled(_) => {
                turn.calling = true;
                turn.unsealed.clear();
            }
            Body::ModelFailed(failed) => {
                turn.calling = false;
                turn.failed_attempts += 1;
                self.last_failure =
                    Some(LastFailure { error: failed.error, message: failed.message.clone() });
            }
            Body::TextWritten(written) => {
                self.last_text = Some(beginning(&written.text, LAST_TEXT_CHARS));
            }
            Body::ToolCalled(called) => {
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
        let first = self.identity.as_ref().filter(|first| first.agent == self.agent());
        self.model.as_deref().or(first?.model.as_deref())
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

impl Turn {
    fn advance(&mut self, event: &Event, progress: Progress) {
        let id = event.id.as_deref().unwrap_or_default();
        if let Some(call) = self.calls_mut().find(|call| call.id == id) {
            call.progress = progress;
        }
    }

    fn calls_mut(&mut self) -> impl Iterator<Item = &mut ToolCall> {
        self.tools.iter_mut().chain(&mut self.unsealed)
    }

    /// The tool calls that are under way or were lately: those of the last whole reply, or those
    /// that a vendor's program told of.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        let vendors = self.unsealed.iter().filter(|_| self.spawns > 0);
        self.tools.iter().chain(vendors)
    }
}

impl Proof {
    fn of(returned: &ProofReturned) -> Self {
        match returned.status {
            _ if returned.passed() => Self::Passed,
            // Nobody knows its verdict, so it is still to be had.
            ToolStatus::Interrupted | ToolStatus::MayHaveRun | ToolStatus::NotRun => Self::Open,
            _ => Self::Failed,
        }
    }
}
