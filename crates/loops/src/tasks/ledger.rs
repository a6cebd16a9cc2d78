//! `ledger/<task>.jsonl`: what was said of a task, a line for each verdict, for people to read.
//!
//! It follows from the journal and is never read back: a file that is missing, cut or edited is
//! written again.

use std::path::PathBuf;

use segue_core::{
    Body, Event,
    event::{CaseSubmitted, VerdictGiven},
    state::{TaskEntry, Tasks},
};
use segue_journal::Session;
use serde::Serialize;

/// The directory in a session's own.
pub const LEDGER: &str = "ledger";

#[derive(Serialize)]
struct Line<'a> {
    at: String,
    /// Which time the task was taken in hand.
    attempt: u32,
    /// Counted over all attempts.
    round: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    files_changed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    case: Option<&'a CaseSubmitted>,
    verdict: &'a VerdictGiven,
}

/// Where the ledger of a task is.
#[must_use]
pub fn path(session: &Session, task: &str) -> PathBuf {
    session.dir().join(LEDGER).join(format!("{task}.jsonl"))
}

/// Everything that was said of a task since it was begun first: the text of its file.
pub fn of(session: &Session, task: &str) -> segue_journal::Result<String> {
    let mut fold = Fold { task, ..Fold::default() };
    let mut parts = Vec::new();
    // From the end back to where the task was begun first.
    for event in session.newest_first()? {
        let first =
            matches!(&event.body, Body::TaskStarted(it) if it.task == task && it.attempt == 1);
        if is_part(&event) {
            parts.push(event);
        }
        if first {
            break;
        }
    }
    for event in parts.iter().rev() {
        fold.add(event);
    }
    Ok(fold.text)
}

fn is_part(event: &Event) -> bool {
    matches!(
        event.body,
        Body::TaskStarted(_)
            | Body::CaseSubmitted(_)
            | Body::ReviewStarted(_)
            | Body::VerdictGiven(_)
    )
}

#[derive(Default)]
struct Fold<'a> {
    task: &'a str,
    here: bool,
    attempt: u32,
    case: Option<CaseSubmitted>,
    files: Option<u64>,
    text: String,
}

impl Fold<'_> {
    fn add(&mut self, event: &Event) {
        match &event.body {
            Body::TaskStarted(started) => {
                self.here = started.task == self.task;
                self.attempt = started.attempt;
                self.case = None;
                if self.here && self.attempt == 1 {
                    self.text.clear();
                }
            }
            Body::CaseSubmitted(case) => self.case = Some(case.clone()),
            Body::ReviewStarted(started) => self.files = started.files,
            Body::VerdictGiven(given) if self.here => {
                let line = Line {
                    at: event.at.to_string(),
                    attempt: self.attempt,
                    round: given.iteration,
                    files_changed: self.files,
                    case: self.case.as_ref(),
                    verdict: given,
                };
                if let Ok(line) = serde_json::to_string(&line) {
                    self.text.push_str(&line);
                    self.text.push('\n');
                }
            }
            _ => {}
        }
    }
}

/// Writes the ledger of the task in hand, where it is not as the journal has it. What goes wrong with it stops nothing:
/// the journal has it all.
pub fn write(session: &Session) {
    let task = session.state().tasks.as_ref().and_then(|tasks| tasks.hand.as_ref());
    if let Some(task) = task.map(|hand| hand.task.clone()) {
        let _ = write_one(session, &task);
    }
}

fn write_one(session: &Session, task: &str) -> segue_journal::Result<bool> {
    let text = of(session, task)?;
    let (disk, path) = (session.disk(), path(session, task));
    if disk.read(&path).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(false);
    }
    if text.is_empty() && !disk.exists(&path) {
        return Ok(false);
    }
    let failed = |source| segue_journal::Error::Io { path: path.clone(), source };
    disk.create_dir_all(&session.dir().join(LEDGER)).map_err(failed)?;
    disk.replace(&path, text.as_bytes()).map_err(failed)?;
    Ok(true)
}

/// The tasks that something was said of, also those that are no longer in the list.
fn said_of(tasks: &Tasks) -> impl Iterator<Item = &TaskEntry> {
    tasks.entries.iter().chain(&tasks.gone).filter(|entry| entry.rounds > 0)
}

/// Every ledger that is not as the journal has it. One that is missing says nothing wrong.
pub fn check(session: &Session) -> segue_journal::Result<Vec<String>> {
    let Some(tasks) = &session.state().tasks else { return Ok(Vec::new()) };
    let mut parts: Vec<Event> = session.newest_first()?.filter(is_part).collect();
    parts.reverse();
    let mut wrong = Vec::new();
    for entry in said_of(tasks) {
        let mut fold = Fold { task: &entry.id, ..Fold::default() };
        parts.iter().for_each(|event| fold.add(event));
        let Ok(found) = session.disk().read(&path(session, &entry.id)) else { continue };
        if found != fold.text.as_bytes() {
            wrong.push(format!("{LEDGER}/{}.jsonl", entry.id));
        }
    }
    Ok(wrong)
}

/// Writes every ledger again that is not as the journal has it.
pub fn mend_all(session: &Session) -> segue_journal::Result<()> {
    let Some(tasks) = &session.state().tasks else { return Ok(()) };
    for entry in said_of(tasks) {
        write_one(session, &entry.id)?;
    }
    Ok(())
}
