//! Work whose effects can be counted: every tool call leaves its own mark in the workspace.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use segue_core::{
    Event,
    event::{Body, ToolStatus},
};

use super::{Broken, Dice};

/// Where every shell command of the work writes its call's id, once.
pub const EFFECTS: &str = "effects.log";

/// What one call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A shell command that is done at once.
    Quick,
    /// One that goes on for some milliseconds after its effect.
    Slow,
    /// One that leaves a process behind which has a session of its own.
    Background,
    /// A file written by Segue itself.
    File,
    /// One that does not end by itself.
    Endless,
}

/// The replies of every turn; a reply without calls ends its turn.
#[derive(Clone, Debug)]
pub struct Work {
    pub turns: Vec<Vec<Vec<Call>>>,
    pub proof: Option<String>,
    /// How long each reply takes.
    pub delay_ms: u64,
}

impl Work {
    /// Some work for a session of two prompts.
    #[must_use]
    pub fn new(dice: &mut Dice) -> Self {
        let mut calls = || match dice.below(6) {
            0 | 1 => Call::Quick,
            2 | 3 => Call::Slow,
            4 => Call::Background,
            _ => Call::File,
        };
        let turns = vec![
            vec![vec![calls(), calls()], vec![calls()], vec![]],
            vec![vec![calls(), calls()], vec![]],
        ];
        let proof = (dice.below(2) == 0).then(|| "sleep 0.01; echo proved".to_owned());
        Self { turns, proof, delay_ms: dice.below(6) }
    }

    /// One turn of these replies, then a last word.
    #[must_use]
    pub fn one_turn(replies: Vec<Vec<Call>>) -> Self {
        let mut replies = replies;
        replies.push(vec![]);
        Self { turns: vec![replies], proof: None, delay_ms: 0 }
    }

    #[must_use]
    pub fn prompt(&self, turn: usize) -> String {
        format!("do part {turn}")
    }

    /// All calls, by the ids that the scripted model gives them.
    fn calls(&self) -> impl Iterator<Item = (String, Call)> {
        self.turns.iter().flatten().enumerate().flat_map(|(reply, calls)| {
            let numbered = calls.iter().enumerate();
            numbered.map(move |(number, &call)| (format!("call-{reply}-{number}"), call))
        })
    }

    #[must_use]
    pub fn replies(&self) -> usize {
        self.turns.iter().map(Vec::len).sum()
    }

    /// The script for the model that does this work.
    #[must_use]
    pub fn script(&self) -> String {
        let mut text = String::new();
        for (reply, calls) in self.turns.iter().flatten().enumerate() {
            let tools: Vec<String> = calls
                .iter()
                .enumerate()
                .map(|(number, &call)| tool(&format!("call-{reply}-{number}"), call))
                .collect();
            let _ = writeln!(
                text,
                "[[reply]]\ndelay_ms = {}\ntext = \"Part {reply} of the work.\"\ntools = [{}]\n",
                self.delay_ms,
                tools.join(", ")
            );
        }
        text
    }

    #[must_use]
    pub fn turns_started(&self, events: &[Event]) -> usize {
        events.iter().filter(|event| matches!(event.body, Body::TurnStarted(_))).count()
    }

    /// Whether every turn was asked for, and the session has stopped because all is done.
    #[must_use]
    pub fn is_complete(&self, events: &[Event]) -> bool {
        let stopped = events.last().is_some_and(|event| {
            matches!(&event.body, Body::SessionStopped(stop) if stop.reason == segue_core::event::Reason::Done)
        });
        stopped && self.turns_started(events) >= self.turns.len()
    }

    /// Compares the journal with what really happened in the workspace. To be called when nothing
    /// of the session runs.
    pub fn check(&self, workspace: &Path, events: &[Event]) -> Result<(), Broken> {
        let complete = self.is_complete(events);
        let replies = events.iter().filter(|e| matches!(e.body, Body::ModelReplied(_))).count();
        let turns = self.turns_started(events);
        if turns > self.turns.len() || replies > self.replies() {
            return Err(Broken::new(format!(
                "{turns} turns, {replies} replies: more than asked for"
            )));
        }
        if complete && replies != self.replies() {
            return Err(Broken::new(format!("done with {replies} replies of {}", self.replies())));
        }
        let effects = fs::read_to_string(workspace.join(EFFECTS)).unwrap_or_default();
        let fates = fates(events);
        for (id, call) in self.calls() {
            let mut fate = fates.get(&id).copied().unwrap_or_default();
            fate.effects = match call {
                Call::File => usize::from(workspace.join(format!("{id}.txt")).exists()),
                _ => effects.lines().filter(|line| *line == id).count(),
            };
            fate.check(call, complete)
                .map_err(|what| Broken::new(format!("{id}: {what}: {fate:?}")))?;
        }
        Ok(())
    }
}

/// A call as the script has it.
fn tool(id: &str, call: Call) -> String {
    let shell = |rest: &str| {
        let command = format!("echo {id} >> {EFFECTS}{rest}");
        format!("{{ name = \"shell\", input = {{ command = \"{command}\" }} }}")
    };
    match call {
        Call::Quick => shell(""),
        Call::Slow => shell("; sleep 0.02"),
        Call::Background => shell("; setsid sleep 1000 > /dev/null 2>&1 &"),
        Call::Endless => shell("; sleep 1000"),
        Call::File => {
            let input = format!("{{ path = \"{id}.txt\", content = \"{id}\" }}");
            format!("{{ name = \"write_file\", input = {input} }}")
        }
    }
}

/// What became of one call.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    started: usize,
    returned: usize,
    status: Option<ToolStatus>,
    effects: usize,
}

fn fates(events: &[Event]) -> BTreeMap<String, Fate> {
    let mut fates: BTreeMap<String, Fate> = BTreeMap::new();
    for event in events {
        let fate = fates.entry(event.id.clone().unwrap_or_default()).or_default();
        match &event.body {
            Body::ToolStarted(_) => fate.started += 1,
            Body::ToolReturned(returned) => {
                fate.returned += 1;
                fate.status = Some(returned.status);
            }
            _ => {}
        }
    }
    fates
}

impl Fate {
    fn check(&self, call: Call, complete: bool) -> Result<(), &'static str> {
        if self.started > 1 || self.returned > 1 || self.effects > 1 {
            return Err("it was done twice");
        }
        if self.effects > self.started {
            return Err("it was done before it was recorded");
        }
        if self.status == Some(ToolStatus::Done) && self.effects != 1 {
            return Err("it is recorded as done, and was not");
        }
        // No command of ours fails by itself: one that failed was never begun.
        let failed = self.status == Some(ToolStatus::Failed);
        if failed && call != Call::File && self.effects != 0 {
            return Err("it is recorded as failed, and was done");
        }
        if complete && self.returned != 1 {
            return Err("nobody knows what became of it");
        }
        Ok(())
    }
}
