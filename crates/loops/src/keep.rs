//! What is kept at the end of every turn and at every stop: reports, a checkpoint, the packet.
//!
//! All of it may be done twice and counts once: a report is known by its id, a checkpoint by its
//! turn, and the packet is replaced whole. So a crash anywhere in here leaves nothing to mend.

use std::path::{Path, PathBuf};

use crate::bridge;
use segue_agents::report;
use segue_core::{
    Body, Draft, State,
    event::{CheckpointSkipped, CheckpointTaken, FileChange, FileStatus, Mark},
    inbox::Message,
    packet::{Facts, TouchedFile, Workspace},
};
use segue_journal::{
    Session,
    inbox::{self, Waiting},
};
use segue_runner::{Halt, Supervisor, briefing};
use segue_workspace::{Change, Opened, Snapshots, Status, Unable};

/// How many changed files an event names.
const MOST_CHANGED: usize = 200;

/// The files of a session's workspace, as far as they can be kept.
#[derive(Debug)]
pub struct Keeper {
    dir: PathBuf,
    snapshots: Result<Snapshots, String>,
}

/// Where the workspace is kept at the end of every turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checkpoints {
    Off,
    /// In git repositories.
    #[default]
    Git,
    /// In plain directories too, in a repository beside their sessions.
    Always,
}

fn open(session: &Session, dir: &Path, when: Checkpoints) -> Result<Snapshots, String> {
    let key = session.id().to_string();
    match Snapshots::open(dir, &key) {
        Err(error) => Err(error.to_string()),
        Ok(Opened::Ready(snapshots)) => Ok(snapshots),
        Ok(Opened::Unable(Unable::NoRepository)) if when == Checkpoints::Always => {
            let above = session.dir().parent().unwrap_or(Path::new("."));
            let shadow = above.join("workspace.git");
            Snapshots::shadow(&shadow, dir, &key).map_err(|error| error.to_string())
        }
        Ok(Opened::Unable(why)) => Err(why.to_string()),
    }
}

/// The ref of a session's checkpoint.
#[must_use]
pub fn reference(session: &Session, name: &str) -> String {
    session.id().reference(name)
}

/// All refs of a session's checkpoints begin like this.
#[must_use]
pub fn references(session: &Session) -> String {
    session.id().reference("")
}

impl Keeper {
    /// Looks at the workspace. Where it can't be kept, that is no error: the work goes on without.
    #[must_use]
    pub fn new(session: &Session, dir: &Path, when: Checkpoints) -> Self {
        // Reviewers judge by what has changed.
        let when = if session.state().terms().is_some() { Checkpoints::Always } else { when };
        let snapshots = match when {
            Checkpoints::Off => Err("checkpoints are switched off".to_owned()),
            when => open(session, dir, when),
        };
        Self { dir: dir.to_owned(), snapshots }
    }

    pub fn snapshots(&self) -> Result<&Snapshots, &str> {
        self.snapshots.as_ref().map_err(String::as_str)
    }

    /// Keeps the workspace as it is now, or says why it can't.
    pub fn checkpoint(
        &self,
        supervisor: &mut Supervisor<'_>,
        mark: Mark,
    ) -> Result<Option<String>, Halt> {
        let turn = supervisor.state().turn.number;
        let session = supervisor.session().session();
        let name = match mark {
            Mark::Stop => format!("stop-{}", session.state().seq),
            _ => turn.to_string(),
        };
        let reference = reference(session, &name);
        let message = format!("Segue: session {}, turn {turn}", session.id());
        let before = session.state().checkpoint.as_ref().and_then(|last| last.commit.clone());
        let taken = self.snapshots().map_err(str::to_owned).and_then(|snapshots| {
            // Of a copy of this session somewhere else, which has gone another way.
            let reference =
                match snapshots.resolve(&reference).map_err(|error| error.to_string())? {
                    Some(_) => format!("{reference}-{}", session.state().seq),
                    None => reference,
                };
            let taken = snapshots.take(&reference, &message).map_err(|error| error.to_string())?;
            let (changed, total) = match &before {
                Some(before) => changes(snapshots, before, &taken.commit),
                None => (Vec::new(), 0),
            };
            Ok(CheckpointTaken {
                mark,
                commit: taken.commit,
                reference,
                head: taken.head,
                branch: taken.branch,
                changed,
                changed_total: total,
                left_out: taken
                    .skipped
                    .iter()
                    .take(MOST_CHANGED)
                    .map(|path| path.to_string_lossy().into_owned())
                    .collect(),
            })
        });
        match taken {
            Ok(taken) => {
                // Once, where it is news.
                if mark == Mark::Start && !taken.left_out.is_empty() {
                    let names = taken.left_out.join(", ");
                    supervisor.warn(format!(
                        "not in the checkpoints, for its size or its rights: {names}"
                    ))?;
                }
                supervisor.note(taken).map(|_| None)
            }
            Err(why) => {
                supervisor.note(CheckpointSkipped { mark, why: why.clone() }).map(|_| Some(why))
            }
        }
    }

    /// What git knows for the packet.
    fn facts(&self, state: &State) -> (Workspace, Option<Vec<TouchedFile>>) {
        let identity = state.identity.as_ref();
        let mut workspace = Workspace {
            repo: identity.map(|found| found.repo.identity.clone()).unwrap_or_default(),
            path: self.dir.clone(),
            ..Workspace::default()
        };
        let last = state.checkpoint.as_ref().and_then(|last| last.commit.clone());
        workspace.snapshot = last.clone();
        let Ok(snapshots) = self.snapshots() else { return (workspace, None) };
        if let Ok(repo) = segue_workspace::identify(&self.dir) {
            workspace.head = repo.head;
            workspace.branch = repo.branch;
        }
        let Some(last) = last else { return (workspace, None) };
        if let Some(head) = &workspace.head {
            // Not `changes`: a commit of a branch is no snapshot.
            let diff = snapshots.diff_text(head, &last, 1).ok();
            workspace.dirty = diff.map(|(text, _)| !text.is_empty());
        }
        (workspace, self.touched_until(state, &last))
    }

    /// What git says that the session has changed up to a checkpoint.
    #[must_use]
    pub fn touched_until(&self, state: &State, commit: &str) -> Option<Vec<TouchedFile>> {
        let first = state.first_checkpoint.as_ref()?.commit.as_deref()?;
        let (changed, _) = self.snapshots().ok()?.changes(first, commit, 1000).ok()?;
        let touched = segue_core::packet::touched(state);
        let turn_of = |path: &str| touched.iter().find(|one| one.path == path)?.turn;
        let files = changed.iter().map(|change| {
            let FileChange { path, status } = file_change(change);
            TouchedFile { turn: turn_of(&path), path, status }
        });
        Some(files.collect())
    }

    /// Writes `resume.json`. What goes wrong with it is said, and stops nothing.
    pub fn packet(
        &self,
        supervisor: &mut Supervisor<'_>,
        number: Option<u64>,
        reason: &str,
    ) -> Result<(), Halt> {
        let session = supervisor.session().session();
        // A person has written into it, and nobody has read that yet.
        if !matches!(session.edited_packet(), Ok(None)) {
            return supervisor
                .warn("resume.json was edited, and stays as it is: segue resume reads it");
        }
        let (workspace, changed) = self.facts(session.state());
        let conversation = briefing::all_told(session, briefing::FILE_BYTES)?;
        let reason = reason.to_owned();
        let facts = Facts { number, reason, workspace, changed, conversation, ..Facts::default() };
        let now = supervisor.now();
        if let Some(mut packet) = briefing::packet_of(session, facts)? {
            packet.created_at = now;
            supervisor.write_packet(&packet)?;
        }
        Ok(())
    }
}

fn changes(snapshots: &Snapshots, from: &str, to: &str) -> (Vec<FileChange>, u64) {
    match snapshots.changes(from, to, MOST_CHANGED) {
        Ok((list, total)) => (list.iter().map(file_change).collect(), total as u64),
        Err(_) => (Vec::new(), 0),
    }
}

fn file_change(change: &Change) -> FileChange {
    let status = match change.status {
        Status::Added => FileStatus::Added,
        Status::Deleted => FileStatus::Deleted,
        _ => FileStatus::Modified,
    };
    FileChange { path: change.path.to_string_lossy().into_owned(), status }
}

/// Records what waits in the inbox: reports, verdicts, messages.
pub fn take_in(supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
    for waiting in waiting(supervisor)? {
        let draft = match &waiting.message {
            Message::Report { agent, report, .. } => {
                Draft { agent: Some(agent.clone()), ..Draft::from(report.clone()) }
            }
            Message::Verdict { turn, agent, said } => {
                Draft::from(said.clone()).in_turn(*turn, agent)
            }
            Message::Case { turn, agent, case } => Draft::from(case.clone()).in_turn(*turn, agent),
            _ => continue,
        };
        if !supervisor.state().notes.taken_in.contains(&waiting.id) {
            supervisor.commit(draft.about(&waiting.id))?;
        }
        done_with(supervisor, &waiting)?;
    }
    bridge::take_in(supervisor)
}

/// What somebody has asked of the session and was not done yet, the oldest first. Whoever does it
/// is [done with](done_with) it afterwards.
pub fn asked_for(supervisor: &Supervisor<'_>) -> Result<Option<Waiting>, Halt> {
    let requests = waiting(supervisor)?
        .into_iter()
        .filter(|one| matches!(one.message, Message::HandOff { .. } | Message::Stop { .. }));
    for request in requests {
        // It was done, and the process died before its file was gone.
        if supervisor.state().notes.taken_in.contains(&request.id) {
            done_with(supervisor, &request)?;
            continue;
        }
        return Ok(Some(request));
    }
    Ok(None)
}

/// The message is in the journal, or nothing is left to do for it.
pub fn done_with(supervisor: &Supervisor<'_>, message: &Waiting) -> Result<(), Halt> {
    Ok(message.remove(&**supervisor.session().session().disk())?)
}

fn waiting(supervisor: &Supervisor<'_>) -> Result<Vec<Waiting>, Halt> {
    let session = supervisor.session().session();
    Ok(inbox::waiting(&**session.disk(), session.dir())?)
}

/// The closing block of the turn that has ended, if its last text has one.
pub fn closing_block(supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
    let turn = supervisor.state().turn.number;
    let id = format!("block-{turn}");
    if turn == 0 || supervisor.state().notes.taken_in.contains(&id) {
        return Ok(());
    }
    let Some((text, agent)) = last_text(supervisor.session().session(), turn)? else {
        return Ok(());
    };
    let Some(report) = report::closing_block(&text) else { return Ok(()) };
    let draft = Draft { agent, ..Draft::from(report) };
    supervisor.note(draft.about(id)).map(drop)
}

/// The last that was said in a turn, and by whom.
pub(crate) fn last_text(
    session: &Session,
    turn: u32,
) -> segue_journal::Result<Option<(String, Option<String>)>> {
    for event in session.newest_first()? {
        match event.body {
            Body::TextWritten(written) if event.turn == Some(turn) => {
                return Ok(Some((session.text(&written.text)?, event.agent)));
            }
            // Turns that a rewind left behind may lie between.
            Body::TurnStarted(_) if event.turn <= Some(turn) => break,
            _ => {}
        }
    }
    Ok(None)
}
