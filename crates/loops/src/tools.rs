//! The tools that a session gives to its agents, whoever they are: over MCP to the vendors'
//! programs, directly to Segue's own agent.
//!
//! A tool holds no lock and writes no journal: what it has to say goes into an `inbox/`, and is on
//! the disk before the call is answered. A tool is a file in `tools/` and a line in `TOOLS`.

mod bridge;
mod case;
mod checkpoint;
mod verdict;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use segue_agents::native::ToolSpec;
use segue_core::{identity::LoopKind, inbox::Message};
use segue_journal::{
    Disk, Session, inbox,
    session::{JOURNAL, read_identity},
};
use serde_json::Value;

/// Every tool, with those that it is for.
const TOOLS: &[(&dyn Tool, Whom)] = &[
    (&checkpoint::Checkpoint, Whom::Everybody),
    (&bridge::Send, Whom::Participants),
    (&bridge::Receive, Whom::Asking),
    (&bridge::Status, Whom::Participants),
    (&verdict::SubmitVerdict, Whom::Reviewers),
    (&case::SubmitCase, Whom::TaskWorkers),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    Everybody,
    /// Those who have somebody to talk to.
    Participants,
    /// Those of them who have to ask for what is said to them: a crew's members are told.
    Asking,
    Reviewers,
    /// Those who work through a list of tasks.
    TaskWorkers,
}

impl Whom {
    fn includes(self, kind: LoopKind) -> bool {
        match self {
            Self::Everybody => true,
            Self::Participants => {
                matches!(
                    kind,
                    LoopKind::Pair | LoopKind::Review | LoopKind::Tasks | LoopKind::Member
                )
            }
            Self::Asking => {
                matches!(kind, LoopKind::Pair | LoopKind::Review | LoopKind::Tasks)
            }
            Self::Reviewers => kind == LoopKind::Review,
            Self::TaskWorkers => kind == LoopKind::Tasks,
        }
    }
}

/// What can be called.
pub(crate) trait Tool: Sync {
    fn name(&self) -> &'static str;

    fn description(&self) -> &'static str;

    /// JSON Schema of the input.
    fn schema(&self) -> Value;

    /// Does it. What is returned either way is told to the model.
    fn call(&self, desk: &Desk, input: &Value) -> Result<String, String>;

    /// Whether the same call again says nothing more: the last one counts.
    fn repeatable(&self) -> bool {
        false
    }
}

/// Whose turn the tools are for, and where their messages go.
#[derive(Debug)]
pub struct Desk {
    disk: Arc<dyn Disk>,
    /// The session's directory.
    dir: PathBuf,
    turn: u32,
    agent: String,
    kind: LoopKind,
    /// The messages that were handed out here: the journal may not have the call's answer yet.
    told: Mutex<Vec<String>>,
}

impl Desk {
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf, turn: u32, agent: String) -> Self {
        let identity = read_identity(&*disk, &dir);
        let kind = identity.map_or(LoopKind::Solo, |identity| identity.loop_kind);
        Self { disk, dir, turn, agent, kind, told: Mutex::default() }
    }

    /// Notes that somebody asks for the tools: whether a program does is known only here.
    pub(crate) fn was_found(&self) {
        if self.disk.exists(&self.dir.join(JOURNAL)) {
            // Where that fails, the worst is a warning too many.
            let _ = inbox::note_contact(&*self.disk, &self.dir, self.turn);
        }
    }

    /// What may be called here.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &'static dyn Tool> {
        let fits = |(_, whom): &&(&dyn Tool, Whom)| whom.includes(self.kind);
        TOOLS.iter().filter(fits).map(|(tool, _)| *tool)
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&'static dyn Tool> {
        self.tools().find(|tool| tool.name() == name)
    }

    /// The directory of the session whose participants talk to each other, and what the one who
    /// sits here is called among them.
    fn bridge(&self) -> Result<(Session, String), String> {
        let failed = |error: &dyn std::fmt::Display| format!("the session can't be read: {error}");
        let within = matches!(self.kind, LoopKind::Review | LoopKind::Member);
        let above = || self.dir.parent().and_then(Path::parent);
        let dir = if within { above() } else { Some(self.dir.as_path()) };
        let dir = dir.ok_or_else(|| failed(&"it is part of no other"))?;
        let session = Session::open(Arc::clone(&self.disk), dir).map_err(|error| failed(&error))?;
        let me = match within {
            true => self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            false => session.state().worker().to_owned(),
        };
        Ok((session, me))
    }

    /// Puts a note of this turn into a session's inbox, once: the same one again, as after an answer
    /// that got lost, is known by its hash for as long as it waits there, which is to the end of the
    /// turn.
    fn put(&self, dir: &Path, message: &Message) -> Result<(), String> {
        put(&*self.disk, dir, message).map(drop)
    }

    /// The same for something of which the last one counts: it is the same one again only where
    /// nothing else was said after it.
    fn put_last(&self, dir: &Path, message: &Message) -> Result<(), String> {
        put_unless(&*self.disk, dir, message, || {
            let kind = std::mem::discriminant(message);
            let waiting = inbox::waiting(&*self.disk, dir).unwrap_or_default();
            let last = waiting.iter().rfind(|one| std::mem::discriminant(&one.message) == kind);
            last.filter(|last| last.message == *message).map(|last| last.id.clone())
        })
        .map(drop)
    }
}

/// Puts a message into a session's inbox, where the same one does not wait already. Returns its id.
pub fn put(disk: &dyn Disk, dir: &Path, message: &Message) -> Result<String, String> {
    let ending = ending(message)?;
    put_unless(disk, dir, message, || waiting_as(disk, dir, &ending))
}

fn put_unless(
    disk: &dyn Disk,
    dir: &Path,
    message: &Message,
    known: impl FnOnce() -> Option<String>,
) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("it could not be noted: {error}");
    // A session that was removed is not to come back as a directory with an inbox.
    if !disk.exists(&dir.join(JOURNAL)) {
        return Err(failed(&"the session is gone"));
    }
    if let Some(id) = known() {
        return Ok(id);
    }
    let names = names(disk, dir);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // After whatever waits already: what was said second in one millisecond is heard second.
    let times = names.iter().filter_map(|name| name.get(..13)?.parse::<u128>().ok());
    let time = times.max().map_or(now.as_millis(), |last| now.as_millis().max(last + 1));
    let id = format!("{time:013}{}", ending(message)?);
    inbox::put(disk, dir, &id, message).map_err(|error| failed(&error))?;
    Ok(id)
}

/// How the id of a message ends: equal messages have the same.
pub(crate) fn ending(message: &Message) -> Result<String, String> {
    let content =
        serde_json::to_vec(message).map_err(|error| format!("it could not be noted: {error}"))?;
    Ok(format!("-{}", &blake3::hash(&content).to_hex()[..16]))
}

/// Whether a message with this end of its id waits in a session's inbox.
pub(crate) fn waits(disk: &dyn Disk, dir: &Path, ending: &str) -> bool {
    waiting_as(disk, dir, ending).is_some()
}

fn waiting_as(disk: &dyn Disk, dir: &Path, ending: &str) -> Option<String> {
    let names = names(disk, dir);
    let mut ids = names.iter().filter_map(|name| name.strip_suffix(".json"));
    ids.find(|id| id.ends_with(ending)).map(str::to_owned)
}

/// Without an inbox nothing waits.
fn names(disk: &dyn Disk, dir: &Path) -> Vec<String> {
    disk.list(&dir.join("inbox")).unwrap_or_default()
}

/// The tools of a session for Segue's own agent.
#[derive(Debug)]
pub(crate) struct Toolbox {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    agent: String,
}

impl Toolbox {
    pub(crate) fn of(session: &Session, agent: &str) -> Self {
        let (disk, dir) = (Arc::clone(session.disk()), session.dir().to_owned());
        Self { disk, dir, agent: agent.to_owned() }
    }

    fn desk(&self, turn: u32) -> Desk {
        Desk::new(Arc::clone(&self.disk), self.dir.clone(), turn, self.agent.clone())
    }
}

impl segue_runner::native::Tools for Toolbox {
    fn specs(&self) -> Vec<ToolSpec> {
        let spec = |tool: &dyn Tool| ToolSpec {
            name: tool.name(),
            description: tool.description(),
            input_schema: tool.schema(),
        };
        self.desk(0).tools().map(spec).collect()
    }

    fn call(&self, turn: u32, name: &str, input: &str) -> Option<Result<String, String>> {
        let desk = self.desk(turn);
        let tool = desk.tool(name)?;
        let input = if input.trim().is_empty() { "{}" } else { input };
        Some(match serde_json::from_str(input) {
            Ok(input) => tool.call(&desk, &input),
            Err(error) => Err(format!("the arguments of {name} cannot be read: {error}")),
        })
    }

    fn repeatable(&self, name: &str) -> bool {
        self.desk(0).tool(name).is_some_and(Tool::repeatable)
    }
}

#[cfg(test)]
mod tests {
    use segue_journal::RealDisk;

    use super::*;

    #[test]
    fn what_is_said_later_is_heard_later_whatever_the_clock_says() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(JOURNAL), "").unwrap();
        let said = |text: &str| Message::Said {
            from: "codex".into(),
            to: "claude".into(),
            text: text.into(),
            occasion: 1,
        };
        // The clock was ahead.
        inbox::put(&RealDisk, dir.path(), "9999999999990-x", &said("first")).unwrap();
        let words = ["second", "third", "fourth", "fifth"];
        for text in words {
            put(&RealDisk, dir.path(), &said(text)).unwrap();
        }
        let waiting = inbox::waiting(&RealDisk, dir.path()).unwrap();
        let heard: Vec<Message> = waiting.into_iter().map(|one| one.message).collect();
        assert_eq!(heard[1..], words.map(said));
    }

    #[test]
    fn the_same_verdict_twice_is_one_and_one_that_is_taken_back_counts_again() {
        use segue_core::event::Verdict::{self, Fail, Pass};
        use serde_json::json;

        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(JOURNAL), "").unwrap();
        let here = dir.path().to_owned();
        let desk = Desk::new(Arc::new(RealDisk), here, 3, "claude".to_owned());
        let fail = json!({
            "verdict": "fail", "category": "tests", "concern": "none", "evidence": "a.rs:1",
            "next_step": "write one",
        });
        let call = |tool: &dyn Tool, input: &Value| tool.call(&desk, input).unwrap();
        let verdicts = || -> Vec<Verdict> {
            let waiting = inbox::waiting(&RealDisk, dir.path()).unwrap();
            let said = waiting.into_iter().filter_map(|one| match one.message {
                Message::Verdict { said, .. } => Some(said.verdict),
                _ => None,
            });
            said.collect()
        };
        call(&verdict::SubmitVerdict, &fail);
        call(&checkpoint::Checkpoint, &json!({ "next_task": "look" }));
        call(&verdict::SubmitVerdict, &fail);
        assert_eq!(verdicts(), [Fail]);
        call(&verdict::SubmitVerdict, &json!({ "verdict": "pass" }));
        call(&verdict::SubmitVerdict, &fail);
        assert_eq!(verdicts(), [Fail, Pass, Fail]);
    }
}
