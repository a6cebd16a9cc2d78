//! What the next agent has to know, as far as it has a fixed size: what was asked for and decided,
//! what is in the way, what is left, which files were touched, which checks ran.
//!
//! Every note carries its turn, so that a rewind leaves behind what came after it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{State, beginning};
use crate::{
    event::{
        Blocker, Body, Cause, CheckpointTaken, Decision, Event, FileStatus, ProgressReported,
        ToolReturned, ToolStatus,
    },
    packet::{self, Packet},
    validation::{Check, check_of, command_of},
};

/// How much of each is kept: the newest, and of the prompts the first too, which is the identity's.
const MOST_NOTES: usize = 64;
const MOST_PROMPTS: usize = 16;
const MOST_FILES: usize = 512;
const MOST_REPORTS: usize = 16;
const MOST_TAKEN_IN: usize = 64;
/// How much of a later prompt is kept.
const MOST_PROMPT: usize = 1000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notes {
    /// What a person asked for in later turns.
    #[serde(default)]
    pub prompts: Vec<Noted<String>>,
    #[serde(default)]
    pub decisions: Vec<Noted<Decision>>,
    /// The last reports, each as it was: a rewind brings an older one back to the front.
    #[serde(default)]
    pub reports: Vec<Noted<ProgressReported>>,
    #[serde(default)]
    pub files: Vec<Noted<TouchedFile>>,
    #[serde(default)]
    pub checks: Vec<Noted<CheckRun>>,
    /// The ids of messages that were taken in, so that none counts twice.
    #[serde(default)]
    pub taken_in: Vec<String>,
}

/// Something of a turn; of turn 0 where it was brought along from another session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Noted<T> {
    pub turn: u32,
    pub what: T,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TouchedFile {
    pub path: String,
    pub status: FileStatus,
}

/// A check that ran, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRun {
    pub check: Check,
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    pub passed: bool,
}

impl Notes {
    /// What a packet that a person edited brings along.
    pub(super) fn begin_with(&mut self, packet: &Packet) {
        let old = |what: &str| Noted { turn: 0, what: what.to_owned() };
        self.prompts = packet.requests.iter().map(|asked| old(&asked.prompt)).collect();
        self.decisions = packet
            .decisions
            .iter()
            .map(|d| Noted {
                turn: 0,
                what: Decision { summary: d.summary.clone(), why: d.why.clone() },
            })
            .collect();
        let blocker = |b: &packet::Blocker| Blocker {
            summary: b.summary.clone(),
            evidence: b.evidence.clone(),
        };
        self.reports = vec![Noted {
            turn: 0,
            what: ProgressReported {
                blockers: Some(packet.blockers.iter().map(blocker).collect()),
                remaining: Some(packet.remaining.clone()),
                ..ProgressReported::default()
            },
        }];
        let files = packet.touched_files.iter();
        self.files = files
            .map(|file| Noted {
                turn: 0,
                what: TouchedFile { path: file.path.clone(), status: file.status },
            })
            .collect();
        self.checks = packet
            .validation_state
            .runs()
            .map(|(check, run)| Noted {
                turn: 0,
                what: CheckRun {
                    check,
                    command: run.command.clone(),
                    exit: run.exit,
                    passed: run.passed,
                },
            })
            .collect();
    }

    pub(super) fn reported(&mut self, id: Option<&str>, turn: u32, report: &ProgressReported) {
        if let Some(id) = id {
            push(&mut self.taken_in, id.to_owned(), MOST_TAKEN_IN);
        }
        for decision in &report.decisions {
            self.decisions.retain(|known| known.what.summary != decision.summary);
            push(&mut self.decisions, Noted { turn, what: decision.clone() }, MOST_NOTES);
        }
        let what = ProgressReported { decisions: Vec::new(), ..report.clone() };
        push(&mut self.reports, Noted { turn, what }, MOST_REPORTS);
    }

    fn touched(&mut self, turn: u32, path: &str, status: FileStatus) {
        let known = self.files.iter().position(|file| file.what.path == path);
        let status = match known.map(|at| self.files.remove(at).what.status) {
            // New to the session, however often it was written since.
            Some(FileStatus::Added) if status == FileStatus::Modified => FileStatus::Added,
            _ => status,
        };
        let what = TouchedFile { path: path.to_owned(), status };
        push(&mut self.files, Noted { turn, what }, MOST_FILES);
    }

    pub(super) fn checkpointed(&mut self, turn: u32, taken: &CheckpointTaken) {
        for change in &taken.changed {
            self.touched(turn, &change.path, change.status);
        }
    }

    pub(super) fn checked(&mut self, turn: u32, run: CheckRun) {
        self.checks.retain(|known| known.what.check != run.check || known.turn < turn);
        push(&mut self.checks, Noted { turn, what: run }, MOST_NOTES);
    }
}

impl State {
    /// Notes what an event says of the work. Called for every event, after the fold of the rest.
    pub(super) fn take_note(&mut self, event: &Event) {
        let turn = event.turn.unwrap_or(self.turn.number);
        match &event.body {
            Body::SessionCreated(created) => {
                if let Some(packet) = &created.identity.packet {
                    self.notes.begin_with(packet);
                }
            }
            Body::TurnStarted(started)
                if turn > 1 && matches!(started.cause, Cause::Person | Cause::Message) =>
            {
                let what = beginning(&started.prompt, MOST_PROMPT);
                push(&mut self.notes.prompts, Noted { turn, what }, MOST_PROMPTS);
            }
            Body::ProgressReported(report) => {
                self.notes.reported(event.id.as_deref(), turn, report);
            }
            Body::AgentChanged(_)
            | Body::MessageSent(_)
            | Body::VerdictSubmitted(_)
            | Body::MemberRestarted(_) => {
                if let Some(id) = &event.id {
                    push(&mut self.notes.taken_in, id.clone(), MOST_TAKEN_IN);
                }
            }
            Body::CheckpointTaken(taken) => self.notes.checkpointed(turn, taken),
            Body::ToolReturned(returned) => self.tool_noted(event, turn, returned),
            Body::ProofReturned(returned) => {
                let command = self.identity.as_ref().and_then(|found| found.proof.clone());
                let command = command.unwrap_or_default();
                let check = check_of(&command).map_or(Check::Tests, |(check, _)| check);
                let ended = matches!(returned.status, ToolStatus::Done | ToolStatus::Failed);
                if ended {
                    let (exit, passed) = (returned.exit, returned.passed());
                    self.notes.checked(turn, CheckRun { check, command, exit, passed });
                }
            }
            _ => {}
        }
    }

    fn tool_noted(&mut self, event: &Event, turn: u32, returned: &ToolReturned) {
        for path in &returned.touched {
            self.notes.touched(turn, path, FileStatus::Modified);
        }
        let id = event.id.as_deref().unwrap_or_default();
        let call = self.turn.calls_mut().find(|call| call.id == id);
        let Some((check, command)) = call.and_then(|call| call.checks.take()) else { return };
        let passed = match (returned.status, returned.exit) {
            (ToolStatus::Done, exit) => exit.is_none_or(|code| code == 0),
            (ToolStatus::Failed, _) => false,
            _ => return,
        };
        self.notes.checked(turn, CheckRun { check, command, exit: returned.exit, passed });
    }
}

/// What a call checks, if it is a command that everybody knows.
pub(super) fn checks(input: &crate::Payload) -> Option<(Check, String)> {
    let text = input.text.as_deref()?;
    check_of(&command_of(text)?)
}

/// The newest are kept.
fn push<T>(list: &mut Vec<T>, one: T, most: usize) {
    if list.len() >= most {
        list.remove(0);
    }
    list.push(one);
}
