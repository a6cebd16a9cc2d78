//! One session as a list knows it: a few columns of its fold, and what is wrong with it.

use std::{collections::HashMap, path::PathBuf};

use jiff::Timestamp;
use segue_core::{
    Identity, State,
    event::{SessionStopped, VERSION},
    identity::LoopKind,
    state::Phase,
    status::Status,
    usage::Micros,
};
use segue_journal::{
    Error as JournalError, Home, Session,
    home::Located,
    lock::{self, Holder},
    scan::Ending,
    session::read_identity,
};

use crate::{
    crew::{self, MemberRow},
    style,
    walk::Stamp,
};

/// How much of a prompt a list can use.
const PROMPT_CHARS: usize = 400;

#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// `None` where the session has no number and could not be given one.
    pub number: Option<u64>,
    pub at: Located,
    /// The remote's address, or the path of the root; empty where it can't be known.
    pub repo_identity: String,
    pub name: Option<String>,
    pub loop_kind: LoopKind,
    pub agent: String,
    pub model: Option<String>,
    /// How the prompt begins.
    pub prompt: String,
    pub phase: Phase,
    pub stop: Option<SessionStopped>,
    pub turns: u32,
    /// Of a pair: the attempt that the worker is at, the most that there may be, and who reviews.
    pub iteration: u32,
    pub max_iterations: Option<u32>,
    pub reviewers: Vec<String>,
    /// Of a crew: who is in it, and what each does.
    pub crew: Vec<MemberRow>,
    pub runs: u32,
    pub tokens: u64,
    pub cost: Micros,
    /// Model calls whose price is not known: the cost is then a lower bound.
    pub unpriced_calls: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub workspace: PathBuf,
    pub last_text: Option<String>,
    /// What the vendors call their parts of it.
    pub vendor_ids: Vec<String>,
    /// What is wrong with the session's files, for people.
    pub problem: Option<String>,
    /// Who has the session now.
    pub holder: Option<Holder>,
}

impl Row {
    /// How to name this session in a command: as short as it can be.
    #[must_use]
    pub fn selector(&self) -> String {
        self.number.map_or_else(|| self.at.id.to_string(), |number| number.to_string())
    }

    #[must_use]
    pub fn status(&self) -> Status {
        match status(self.phase, self.stop.clone(), self.holder.is_some()) {
            Status::Created if self.loop_kind == LoopKind::Tasks => Status::Prepared,
            Status::Crashed if self.loop_kind == LoopKind::Crew => Status::Unattended,
            status => status,
        }
    }

    /// Looks who has the session now. A stopped one is not looked at: nobody works on it.
    pub(crate) fn probe(&mut self, home: &Home) {
        if self.phase != Phase::Stopped {
            let dir = home.session_dir(&self.at);
            self.holder = lock::held_by(&**home.disk(), &dir).unwrap_or_default();
        }
    }
}

fn status(phase: Phase, stop: Option<SessionStopped>, alive: bool) -> Status {
    Status::of(&State { phase, stop, ..State::default() }, alive)
}

/// What is wrong with a session that could be opened.
#[must_use]
pub fn problem_of(session: &Session) -> Option<String> {
    match session.ending() {
        Ending::Damaged(damage) => {
            Some(format!("journal.jsonl, line {}: {}", damage.line, damage.finding))
        }
        Ending::Torn { bytes } => Some(format!(
            "journal.jsonl has a torn end of {}, which the next resume sets aside",
            style::bytes(*bytes)
        )),
        Ending::Clean if session.position().version > VERSION => Some(
            "journal.jsonl was written by a newer Segue: it can be read, not written to".to_owned(),
        ),
        Ending::Clean => None,
    }
}

/// Sessions at work, as they were last read: the next look reads only what came since.
pub(crate) type AtWork = HashMap<Located, Session>;

/// More of them are read from their snapshots again: memory stays small.
const MOST_AT_WORK: usize = 256;

/// Reads a session for the index. `None` where it has gone in the meantime.
pub(crate) fn read(
    home: &Home,
    at: Located,
    stamp: Stamp,
    at_work: &mut AtWork,
) -> Option<(Row, Stamp)> {
    let dir = home.session_dir(&at);
    let opened = match at_work.remove(&at) {
        Some(mut session) => session.catch_up().map(|()| session),
        None => home.open(&at),
    };
    match opened {
        Ok(session) => {
            let torn = matches!(session.ending(), Ending::Torn { .. });
            // Half a line of a session at work is a line that is being written.
            let being_written = torn && session.held_by().ok().flatten().is_some();
            let problem = if being_written { None } else { problem_of(&session) };
            let row = Row::of(home, at.clone(), &session, stamp, problem);
            if row.phase == Phase::Running && at_work.len() < MOST_AT_WORK {
                at_work.insert(at, session);
            }
            Some((row, if being_written { Stamp::UNSETTLED } else { stamp }))
        }
        Err(_) if !home.disk().exists(&dir) => None,
        Err(error) => {
            let problem = match error {
                JournalError::NotASession { .. } => "journal.jsonl is missing".to_owned(),
                error => error.to_string(),
            };
            Some((Row::unread(home, at, stamp, problem), stamp))
        }
    }
}

impl Row {
    fn of(
        home: &Home,
        at: Located,
        session: &Session,
        stamp: Stamp,
        problem: Option<String>,
    ) -> Self {
        let state = session.state();
        let Some(identity) = &state.identity else {
            let problem = problem.unwrap_or_else(|| "journal.jsonl is empty".to_owned());
            return Self::unread(home, at, stamp, problem);
        };
        let crew = crew::rows(state);
        // How it stood before the damage is not how it stands.
        let certain = !matches!(session.ending(), Ending::Damaged(_));
        Self {
            name: state.name.clone(),
            agent: state.agent().to_owned(),
            model: state.model().map(str::to_owned),
            phase: if certain { state.phase } else { Phase::Unknown },
            stop: state.stop.clone().filter(|_| certain),
            turns: state.turn.number,
            iteration: state.review.attempt(),
            max_iterations: state.caps.iterations.filter(|_| state.terms().is_some()),
            runs: state.runs,
            tokens: state.usage.total(),
            cost: state.cost,
            unpriced_calls: state.unpriced_calls,
            updated_at: state.updated_at.unwrap_or(identity.created_at),
            workspace: state.workspace().unwrap_or(&identity.workspace).to_owned(),
            // A crew says nothing itself.
            last_text: match crew.is_empty() {
                true => state.last_text.clone(),
                false => Some(crew::standing(&crew)),
            },
            crew,
            vendor_ids: vendor_ids(session),
            ..Self::by_identity(at, identity, problem)
        }
    }

    /// What can be said of a session whose journal tells nothing: what `session.json` says.
    fn unread(home: &Home, at: Located, stamp: Stamp, problem: String) -> Self {
        if let Ok(identity) = read_identity(&**home.disk(), &home.session_dir(&at)) {
            return Self::by_identity(at, &identity, Some(problem));
        }
        let time = Timestamp::from_millisecond(stamp.mtime_ns / 1_000_000).unwrap_or_default();
        Self::blank(at, time, Some(problem))
    }

    fn by_identity(at: Located, identity: &Identity, problem: Option<String>) -> Self {
        Self {
            repo_identity: identity.repo.identity.clone(),
            loop_kind: identity.loop_kind,
            reviewers: reviewers(identity),
            agent: identity.agent.clone(),
            model: identity.model.clone(),
            prompt: identity.prompt.head().chars().take(PROMPT_CHARS).collect(),
            workspace: identity.workspace.clone(),
            ..Self::blank(at, identity.created_at, problem)
        }
    }

    fn blank(at: Located, time: Timestamp, problem: Option<String>) -> Self {
        Self {
            number: None,
            at,
            repo_identity: String::new(),
            name: None,
            loop_kind: LoopKind::Unknown,
            agent: String::new(),
            model: None,
            prompt: String::new(),
            phase: Phase::Unknown,
            stop: None,
            turns: 0,
            iteration: 0,
            max_iterations: None,
            reviewers: Vec::new(),
            crew: Vec::new(),
            runs: 0,
            tokens: 0,
            cost: Micros(0),
            unpriced_calls: 0,
            created_at: time,
            updated_at: time,
            workspace: PathBuf::new(),
            last_text: None,
            vendor_ids: Vec::new(),
            problem,
            holder: None,
        }
    }
}

fn reviewers(identity: &Identity) -> Vec<String> {
    let seats = identity.pair.as_ref().map(|terms| terms.reviewers.as_slice());
    seats.unwrap_or_default().iter().map(|seat| seat.name.clone()).collect()
}

/// What the vendors call their parts of a session, and of those within it.
fn vendor_ids(session: &Session) -> Vec<String> {
    let of = |state: &State| -> Vec<String> {
        state.vendors.iter().filter_map(|vendor| vendor.id.clone()).collect()
    };
    let mut ids = of(session.state());
    let members = session.state().crew.iter().flat_map(|crew| &crew.members);
    ids.extend(members.filter_map(|member| member.vendor_session.clone()));
    if session.state().terms().is_some() {
        let parts = session.parts().unwrap_or_default();
        ids.extend(parts.iter().flat_map(|(_, part)| of(part.state())));
    }
    ids
}
