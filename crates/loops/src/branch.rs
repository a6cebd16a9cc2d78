//! Leaving a session at one of its steps: what a fork, a replay and a rerun begin with.
//!
//! Nothing is copied. The new session names the part of the other one's journal that it begins with
//! ([`segue_core::identity::Base`]); what it costs does not depend on how long that part is.

use std::path::{Path, PathBuf};

use segue_agents::vendor;
use segue_core::{
    Body, Packet, Permission,
    caps::Caps,
    event::{CheckpointTaken, Mark, Span},
    identity::{Base, How, Identity, Lineage, LoopKind, Mode},
    packet::Facts,
    steps::{NoStep, Steps},
};
use segue_journal::{
    Session,
    home::NewSession,
    steps::{Landmark, Landmarks, StepError},
};
use segue_runner::briefing;

use crate::{keep::Keeper, rewind};

/// What somebody is told besides who does the work again: what is told about it is not there.
const FROM_THE_START: &str = "The files are as they were before any of this work was done: \
     nothing of what is told about it is there.";

/// The same where nobody has kept how they were.
const AS_COMMITTED: &str = "The files are as last committed. How they were before this work was \
     not kept: what is told about it may be there, or not.";

/// Why a session can't be left there.
#[derive(Debug, thiserror::Error)]
pub enum BranchError {
    #[error(transparent)]
    Step(#[from] StepError),
    #[error(transparent)]
    Journal(#[from] segue_journal::Error),
    #[error("{0} can't be read")]
    Unreadable(String),
    /// Whoever goes on would work in a directory that is not theirs.
    #[error("{}: {note}", dir.display())]
    Repository { dir: PathBuf, note: String },
}

/// A place in a session, thought through: nothing is made yet.
#[derive(Clone, Debug)]
pub struct Branch {
    pub mark: Landmark,
    /// It is the last step of the conversation.
    pub tip: bool,
    pub lineage: Lineage,
    /// What is to be known besides the conversation, which is told by the journal.
    pub packet: Option<Box<Packet>>,
    pub files: Files,
    /// The session was made from a file of another program: its files never were here.
    brought: bool,
}

/// The files that belong to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// As they were right then.
    At { commit: String },
    /// As they were at the end of this turn: the last time before the step that they were kept.
    Before { commit: String, turn: u32 },
    /// Nobody has kept them.
    Unknown { why: String },
}

impl Files {
    #[must_use]
    pub fn commit(&self) -> Option<&str> {
        match self {
            Self::At { commit } | Self::Before { commit, .. } => Some(commit),
            Self::Unknown { .. } => None,
        }
    }
}

/// The last step of the conversation after which nothing is under way.
pub const MAIN: &str = "main";

/// The last step that another session tells.
pub const BASE: &str = "base";

/// Finds the step that is meant; without a word, the last one after which nothing is under way.
pub fn find(
    session: &Session,
    marks: &Landmarks,
    word: Option<&str>,
) -> Result<(Landmark, bool), BranchError> {
    let mark = match word.filter(|word| *word != MAIN) {
        Some(word) => match base(session, marks)?.filter(|_| word == BASE) {
            Some(base) => base,
            None => marks.find(word, session.state())?,
        },
        None => marks.main(session.state())?.ok_or(NoStep::Empty).map_err(StepError::from)?,
    };
    let tip = is_tip(session, marks, &mark)?;
    Ok((mark, tip))
}

/// Whether a step is the last one of the conversation. What a rewind has left behind comes after
/// nothing.
fn is_tip(session: &Session, marks: &Landmarks, mark: &Landmark) -> Result<bool, BranchError> {
    let last = marks.rfind(|mark| session.state().on_path(mark.turn))?;
    Ok(last.is_some_and(|last| (last.index, last.seq) == (mark.index, mark.seq)))
}

/// The last step that another session tells.
pub fn base(session: &Session, marks: &Landmarks) -> Result<Option<Landmark>, BranchError> {
    let last = session.state().base().and_then(|base| base.steps.checked_sub(1));
    Ok(last.map_or(Ok(None), |last| marks.get(last))?)
}

/// What a session begins with that leaves this one at a step.
pub fn base_of(session: &Session, word: Option<&str>) -> Result<Base, BranchError> {
    let marks = session.landmarks()?;
    let (mark, _) = find(session, &marks, word)?;
    Ok(session.base_at(&marks, &mark)?)
}

/// Thinks through how a new session leaves this one.
pub fn leave(
    session: &Session,
    keeper: &Keeper,
    word: Option<&str>,
    how: How,
) -> Result<Branch, BranchError> {
    let marks = session.landmarks()?;
    let (mark, tip) = find(session, &marks, word)?;
    let base = session.base_at(&marks, &mark)?;
    let files = files(session, keeper, &mark, tip, &base.path)?;
    let lineage = Lineage {
        step: Some(mark.id.to_string()),
        base: Some(base),
        ..Lineage::new(session.teller(&mark)?, how)
    };
    let packet = packet(session, keeper, &mark, tip, &files)?;
    let brought = was_brought(session)?;
    Ok(Branch { mark, tip, lineage, packet, files, brought })
}

/// Whether it was made from a file of another program, or begins with what was.
fn was_brought(session: &Session) -> Result<bool, BranchError> {
    let origin = |session: &Session| {
        session.state().identity.as_ref().is_some_and(|identity| identity.origin.is_some())
    };
    match session.base()? {
        _ if origin(session) => Ok(true),
        Some(base) => was_brought(&base),
        None => Ok(false),
    }
}

/// The files before the first turn of the conversation, where they were kept.
#[must_use]
pub fn before_all(session: &Session, keeper: &Keeper) -> Option<String> {
    rewind::files_of(session, keeper, 0).ok()
}

/// What somebody is told who does the work again, and knows what was done the first time: in a
/// worktree with the files of the start, where they were kept.
#[must_use]
pub fn note_again(files: Option<&str>) -> String {
    if files.is_some() { FROM_THE_START } else { AS_COMMITTED }.to_owned()
}

/// What the session is about: what is done again in a rerun.
pub fn task(session: &Session) -> Result<String, BranchError> {
    let unreadable = || BranchError::Unreadable(session.dir().display().to_string());
    let identity = session.state().identity.as_ref().ok_or_else(unreadable)?;
    Ok(match &identity.packet {
        Some(packet) => packet.objective.clone(),
        None => session.text(&identity.prompt)?,
    })
}

/// What the packet of the session would say there, without the conversation.
fn packet(
    session: &Session,
    keeper: &Keeper,
    mark: &Landmark,
    tip: bool,
    files: &Files,
) -> Result<Option<Box<Packet>>, BranchError> {
    let Some(mut packet) = briefing::packet_of(session, Facts::default())? else {
        return Ok(None);
    };
    packet.conversation.clear();
    packet.next_task = None;
    if !tip {
        let touched = files.commit().and_then(|at| keeper.touched_until(session.state(), at));
        packet.cut_to(mark.turn, touched);
        packet.remaining.clear();
    }
    packet.turn_count = mark.turn;
    Ok(Some(Box::new(packet)))
}

/// The files at the last step of the conversation.
pub fn last_files(session: &Session, keeper: &Keeper) -> Result<Files, BranchError> {
    let marks = session.landmarks()?;
    let (mark, tip) = find(session, &marks, None)?;
    let base = session.base_at(&marks, &mark)?;
    files(session, keeper, &mark, tip, &base.path)
}

/// The files at a step: kept at the end of its turn if it was the last one there, else the last time
/// before.
pub(crate) fn files(
    session: &Session,
    keeper: &Keeper,
    mark: &Landmark,
    tip: bool,
    path: &[Span],
) -> Result<Files, BranchError> {
    let state = session.state();
    // What was kept after a step of another session stands behind the part that is shared.
    let shared = state.base().is_some_and(|base| mark.index < base.steps);
    if let Some(base) = session.base()?.filter(|_| shared) {
        let tip = is_tip(&base, &base.landmarks()?, mark)?;
        return files(&base, keeper, mark, tip, path);
    }
    let known = |commit: &String| {
        keeper.snapshots().is_ok_and(|kept| kept.exists(commit).unwrap_or_default())
    };
    let last = state.checkpoint.as_ref().filter(|last| tip && last.seq >= mark.seq);
    if let Some(commit) = last.and_then(|last| last.commit.clone()).filter(known) {
        return Ok(Files::At { commit });
    }
    let (mut later, mut kept) = (false, None);
    session.turn(mark.turn, |event| {
        let after = event.seq > mark.seq;
        later |= after && Steps::is_part(&event.body);
        match &event.body {
            Body::CheckpointTaken(CheckpointTaken { mark, commit, .. })
                if after && !later && matches!(mark, Mark::TurnEnd | Mark::Stop) =>
            {
                kept = Some(commit.clone());
            }
            _ => {}
        }
        Ok(())
    })?;
    if let Some(commit) = kept.filter(known) {
        return Ok(Files::At { commit });
    }
    let before = path.iter().rev().find(|span| span.from < mark.turn);
    let before = before.map_or(0, |span| span.to.min(mark.turn - 1));
    Ok(match rewind::files_of(session, keeper, before) {
        Ok(commit) => Files::Before { commit, turn: before },
        Err(error) => Files::Unknown { why: error.to_string() },
    })
}

impl Branch {
    /// Lets the vendor copy its own conversation, where it has one that ends at the step. Says
    /// whether it can.
    pub fn fork_natively(&mut self, session: &Session, agent: &str) -> Result<bool, BranchError> {
        let state = session.state();
        let can = vendor::find(agent).map(|vendor| vendor.card().can);
        let Some(can) = can.filter(|can| can.fork && agent == state.agent()) else {
            return Ok(false);
        };
        let Some(known) = state.vendor(agent).filter(|known| known.id.is_some()) else {
            return Ok(false);
        };
        if self.tip && known.turn == self.mark.turn && !state.turn.open {
            self.lineage.vendor_session.clone_from(&known.id);
            return Ok(true);
        }
        if !can.rewind || !matches!(self.files, Files::At { .. }) {
            return Ok(false);
        }
        let cut = rewind::last_mark(session, state, agent, self.mark.turn);
        let Ok(Some(cut)) = cut else { return Ok(false) };
        self.lineage.vendor_session = Some(cut.vendor_session);
        self.lineage.vendor_mark = cut.at;
        Ok(self.lineage.vendor_mark.is_some())
    }

    /// Whether the new session has a worktree of its own, in which it begins with the files of the
    /// step. At an earlier step the files were others, and what is in the directory now is not
    /// touched.
    pub fn apart(&mut self, dir: &Path, asked: bool) -> Result<bool, BranchError> {
        let worktree = asked || !self.tip && has_commit(dir)?;
        self.lineage.files = self.files.commit().map(str::to_owned).filter(|_| worktree);
        self.lineage.note = self.note(worktree);
        Ok(worktree)
    }

    /// What is to be known where the files are not those of the step.
    fn note(&self, worktree: bool) -> Option<String> {
        let unkept =
            "How they were at this point was not kept: what is told about them may be so, or not.";
        Some(match &self.files {
            Files::At { .. } if worktree => return None,
            Files::Before { turn: 0, .. } if worktree => "The files are as they were before turn 1: what was done to them after that is not there."
                    .to_owned(),
            Files::Before { turn, .. } if worktree => format!(
                "The files are as they were at the end of turn {turn}: what was done to them after that is not there."
            ),
            Files::Unknown { .. } if worktree => format!("The files are as last committed. {unkept}"),
            Files::Unknown { .. } if self.brought => format!("The files are as they are now. {unkept}"),
            _ if self.tip => return None,
            _ => "The files are as they are now: what was done to them after this point is there.".to_owned(),
        })
    }

    /// A session like the one that is left, for somebody to go on in.
    pub fn session(self, source: &Session, with: With) -> Result<NewSession, BranchError> {
        let unreadable = || BranchError::Unreadable(source.dir().display().to_string());
        let identity = source.state().identity.as_ref().ok_or_else(unreadable)?;
        // Of a session that is only to be looked at, a replay is one too; a fork and a rerun are
        // somebody's work.
        let Lineage { how, mode, .. } = self.lineage;
        let looked_at = identity.sealed && how != How::Forked && mode != Some(Mode::Rerun);
        let like = With { sealed: with.sealed || looked_at, ..with };
        Ok(NewSession {
            lineage: Some(self.lineage),
            packet: self.packet,
            ..like.session(identity)
        })
    }
}

/// Whether a directory is in a repository that a worktree can be made of. Where git does not answer,
/// nobody knows.
fn has_commit(dir: &Path) -> Result<bool, BranchError> {
    let unknown = |note: String| BranchError::Repository { dir: dir.to_owned(), note };
    let repo = segue_workspace::identify(dir).map_err(|error| unknown(error.to_string()))?;
    match repo.note {
        Some(note) if repo.kind != segue_workspace::Kind::NoGit => Err(unknown(note)),
        _ => Ok(repo.head.is_some()),
    }
}

/// How the new session differs from the one that it comes from.
#[derive(Clone, Debug)]
pub struct With {
    pub agent: String,
    pub model: Option<String>,
    pub permission: Permission,
    pub prompt: String,
    pub workspace: std::path::PathBuf,
    pub worktree: bool,
    pub caps: Caps,
    /// Else what proved the work of the other one.
    pub proof: Option<String>,
    pub name: Option<String>,
    pub sealed: bool,
    /// The version of Segue that makes it.
    pub segue: String,
}

impl With {
    /// A session of the same repository, with nothing of the other one's conversation.
    #[must_use]
    pub fn session(self, identity: &Identity) -> NewSession {
        let alone = matches!(identity.loop_kind, LoopKind::Review | LoopKind::Member);
        let same = self.agent == identity.agent;
        NewSession {
            loop_kind: if alone { LoopKind::Solo } else { identity.loop_kind },
            vendor_args: if same { identity.vendor_args.clone() } else { Vec::new() },
            model: self.model,
            permission: self.permission,
            proof_secs: identity.proof_secs.filter(|_| self.proof.is_none()),
            proof: self.proof.or_else(|| identity.proof.clone()),
            pair: identity.pair.clone(),
            caps: self.caps,
            fallback: identity.fallback.clone(),
            worktree: self.worktree,
            sealed: self.sealed,
            name: self.name,
            segue: self.segue,
            ..NewSession::new(identity.repo.clone(), self.workspace, self.agent, self.prompt)
        }
    }
}
