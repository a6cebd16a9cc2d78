//! The packet, `resume.json`: what the next agent has to know. A person may edit it.
//!
//! Each field is evidence first (the journal, git, exit statuses), then what the agent itself
//! reported, and never an invention: what nobody knows is absent.

mod render;

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    SessionId,
    event::{FileStatus, ProgressReported},
    state::State,
    validation::Check,
};

pub use render::{Whom, render, shortened};

/// The version of `resume.json` that this Segue writes.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Packet {
    #[serde(default = "version")]
    pub v: u32,
    pub session_id: SessionId,
    /// What the session is called where the packet was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    pub previous_agent: String,
    /// Why the work stood still, or why the packet was asked for.
    pub checkpoint_reason: String,
    /// The last turn. Lowered by hand, it makes the next resume a rewind to the end of that turn.
    pub turn_count: u32,
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    /// The first prompt.
    pub objective: String,
    /// The later prompts, which may have changed it.
    #[serde(default)]
    pub requests: Vec<Request>,
    #[serde(default)]
    pub decisions: Vec<Decision>,
    #[serde(default)]
    pub blockers: Vec<Blocker>,
    /// By git, and by what the tools said that they wrote.
    #[serde(default)]
    pub touched_files: Vec<TouchedFile>,
    /// By commands that really ran.
    #[serde(default)]
    pub validation_state: Validation,
    #[serde(default)]
    pub remaining: Vec<String>,
    /// What comes next. Written by hand, it is the next prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_task: Option<String>,
    #[serde(default)]
    pub workspace: Workspace,
    /// The last turns, whole; earlier ones are left out by budget.
    #[serde(default)]
    pub conversation: Vec<Exchange>,
    #[serde(default)]
    pub vendor_sessions: Vec<VendorId>,
    /// Stands last, and is the BLAKE3 of every byte before it: where it does not fit, a person has
    /// edited the file.
    #[serde(default, skip_serializing)]
    pub checksum: Option<String>,
}

fn version() -> u32 {
    VERSION
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    #[serde(default)]
    pub turn: u32,
    pub prompt: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub turn: u32,
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blocker {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub turn: u32,
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TouchedFile {
    pub path: String,
    pub status: FileStatus,
    /// The last turn that changed it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
}

/// How each check stands, where one ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Validation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<Run>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lint: Option<Run>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typecheck: Option<Run>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Run>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    pub passed: bool,
    #[serde(default)]
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    #[serde(default)]
    pub turn: u32,
}

impl Validation {
    /// Of each check the last run in the conversation.
    fn of(state: &State) -> Self {
        let mut found = Self::default();
        let kept = |turn: u32| turn == 0 || state.on_path(turn);
        for run in state.notes.checks.iter().filter(|one| kept(one.turn)) {
            let (turn, run) = (run.turn, &run.what);
            if let Some(slot) = found.slot(run.check) {
                let command = run.command.clone();
                *slot = Some(Run { passed: run.passed, command, exit: run.exit, turn });
            }
        }
        found
    }

    fn slot(&mut self, check: Check) -> Option<&mut Option<Run>> {
        match check {
            Check::Tests => Some(&mut self.tests),
            Check::Lint => Some(&mut self.lint),
            Check::Typecheck => Some(&mut self.typecheck),
            Check::Build => Some(&mut self.build),
            Check::Unknown => None,
        }
    }

    /// Those that ran.
    pub fn runs(&self) -> impl Iterator<Item = (Check, &Run)> {
        [
            (Check::Tests, &self.tests),
            (Check::Lint, &self.lint),
            (Check::Typecheck, &self.typecheck),
            (Check::Build, &self.build),
        ]
        .into_iter()
        .filter_map(|(check, run)| Some((check, run.as_ref()?)))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workspace {
    /// The repository's identity: its remote, or its path.
    #[serde(default)]
    pub repo: String,
    #[schemars(with = "String")]
    #[serde(default)]
    pub path: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that keeps the files as they were, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Whether there are changes that are in no commit of a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty: Option<bool>,
}

/// One turn, as lines that a person can read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exchange {
    #[serde(default)]
    pub turn: u32,
    #[serde(default)]
    pub agent: String,
    #[serde(default)]
    pub prompt: String,
    /// What the agent said and did, in order.
    #[serde(default)]
    pub steps: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VendorId {
    pub agent: String,
    pub id: String,
    #[schemars(with = "String")]
    pub cwd: PathBuf,
}

/// What the fold alone does not know.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub number: Option<u64>,
    pub objective: String,
    pub reason: String,
    pub workspace: Workspace,
    /// What git says that the session changed; the tools' own words where it can't be asked.
    pub changed: Option<Vec<TouchedFile>>,
    pub conversation: Vec<Exchange>,
}

impl Packet {
    /// Takes out what came after the end of a turn: it is not told to whoever goes on from there.
    pub fn cut_to(&mut self, last: u32, touched: Option<Vec<TouchedFile>>) {
        self.requests.retain(|one| one.turn <= last);
        self.decisions.retain(|one| one.turn <= last);
        self.blockers.retain(|one| one.turn <= last);
        self.conversation.retain(|one| one.turn <= last);
        let checks = &mut self.validation_state;
        for check in [&mut checks.tests, &mut checks.lint, &mut checks.typecheck, &mut checks.build]
        {
            *check = check.take().filter(|run| run.turn <= last);
        }
        let Some(touched) = touched else {
            self.touched_files.retain(|file| file.turn.is_none_or(|turn| turn <= last));
            return;
        };
        // What git says of those that were left in the packet.
        self.touched_files.retain_mut(|file| {
            let Some(then) = touched.iter().find(|then| then.path == file.path) else {
                return false;
            };
            file.status = then.status;
            file.turn = file.turn.filter(|turn| *turn <= last);
            true
        });
    }

    /// The packet of a session as it stands; `None` before it has an identity.
    #[must_use]
    pub fn of(state: &State, facts: Facts, now: Timestamp) -> Option<Self> {
        let identity = state.identity.as_ref()?;
        let notes = &state.notes;
        let here = |turn: u32| turn == 0 || state.on_path(turn);
        let requests = notes.prompts.iter().filter(|one| here(one.turn));
        let decisions = notes.decisions.iter().filter(|one| here(one.turn)).enumerate();
        let (turn, report) = standing_report(state);
        let blockers = report.blockers.unwrap_or_default().into_iter().enumerate();
        Some(Self {
            v: VERSION,
            session_id: identity.id,
            number: facts.number,
            previous_agent: state.agent().to_owned(),
            checkpoint_reason: facts.reason,
            turn_count: state.last_turn(),
            created_at: now,
            objective: facts.objective,
            requests: requests
                .map(|one| Request { turn: one.turn, prompt: one.what.clone() })
                .collect(),
            decisions: decisions
                .map(|(n, one)| Decision {
                    id: format!("d{}", n + 1),
                    turn: one.turn,
                    summary: one.what.summary.clone(),
                    why: one.what.why.clone(),
                })
                .collect(),
            blockers: blockers
                .map(|(n, one)| Blocker {
                    id: format!("b{}", n + 1),
                    turn,
                    summary: one.summary,
                    evidence: one.evidence,
                })
                .collect(),
            touched_files: facts.changed.unwrap_or_else(|| touched(state)),
            validation_state: Validation::of(state),
            remaining: report.remaining.unwrap_or_default(),
            next_task: report.next_task,
            workspace: facts.workspace,
            conversation: facts.conversation,
            vendor_sessions: state
                .vendors
                .iter()
                .filter_map(|one| {
                    let (agent, cwd) = (one.agent.clone(), one.cwd.clone());
                    Some(VendorId { agent, id: one.id.clone()?, cwd })
                })
                .collect(),
            checksum: None,
        })
    }
}

/// What the agents' reports come to: of each part the newest that was said.
fn standing_report(state: &State) -> (u32, ProgressReported) {
    let mut standing = ProgressReported::default();
    let mut turn = 0;
    for one in state.notes.reports.iter().filter(|one| one.turn == 0 || state.on_path(one.turn)) {
        if one.what.blockers.is_some() {
            turn = one.turn;
            standing.blockers = one.what.blockers.clone();
        }
        if one.what.remaining.is_some() {
            standing.remaining = one.what.remaining.clone();
        }
        // The next task of an earlier turn was done, or given up for another prompt.
        standing.next_task = one.what.next_task.clone().or(standing.next_task);
        if one.turn < state.last_turn() && asked_since(state, one.turn) {
            standing.next_task = None;
        }
    }
    (turn, standing)
}

fn asked_since(state: &State, turn: u32) -> bool {
    state.notes.prompts.iter().any(|asked| asked.turn > turn && state.on_path(asked.turn))
}

/// The files by what the tools and the checkpoints told.
#[must_use]
pub fn touched(state: &State) -> Vec<TouchedFile> {
    let files = state.notes.files.iter().filter(|one| one.turn == 0 || state.on_path(one.turn));
    files
        .map(|one| TouchedFile {
            path: one.what.path.clone(),
            status: one.what.status,
            turn: (one.turn > 0).then_some(one.turn),
        })
        .collect()
}
