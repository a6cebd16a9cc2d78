//! The sessions over lists of tasks: whose they are, and whether what is known of them can be believed.
//!
//! A damaged journal may begin like that of a session that was never started. So what is damaged is told
//! apart here, and nobody takes it for something else.

use std::path::{Path, PathBuf};

use segue_core::{State, identity::LoopKind, status::Status, tasks};
use segue_journal::{Error, Session, session::read_identity};
use segue_loops::tasks::branch::Differences;
use segue_view::{index::Filter, row::Row, select::Found};

use crate::{
    context::{Context, view_error},
    error::CommandError,
};

/// A session over a list.
pub(super) struct Known {
    pub(super) row: Row,
    pub(super) state: State,
    /// What is wrong with it: then the state is only what came before that.
    pub(super) damage: Option<String>,
    /// Something before the damage is certain, and can be gone on with.
    certain: bool,
    source: Option<PathBuf>,
}

impl Known {
    pub(super) fn status(&self) -> Status {
        match self.damage {
            Some(_) => Status::Unknown,
            // Its branch may say otherwise.
            None if self.row.status() == Status::Completed => Status::of(&self.state, false),
            None => self.row.status(),
        }
    }

    /// Takes in what the branch says otherwise than the journal.
    pub(super) fn settle(&mut self) {
        if self.damage.is_none() {
            // A look fails for nothing that git says.
            let differs = Differences::of(self.row.at.id, &self.state).unwrap_or_default();
            differs.settle(&mut self.state);
        }
    }

    /// Whether it was left before its end, and nobody has set it aside.
    pub(super) fn is_resumable(&self) -> bool {
        self.damage.is_none() && self.status().is_resumable()
    }

    /// Whether it works on this list. Where nothing says so any more, all of its repository may.
    pub(super) fn is_of(&self, list: &Path, repo: &str) -> bool {
        match &self.source {
            Some(source) => tasks::place(source) == tasks::place(list),
            None => self.damage.is_some() && self.row.at.repo == repo,
        }
    }
}

/// All of them, the last changed first. The look changes nothing.
pub(super) fn all(context: &Context) -> Result<Vec<Known>, CommandError> {
    let mut index = context.index()?;
    let listing = index.query(&Filter::default()).map_err(view_error)?;
    let may_be = |row: &Row| match row.loop_kind {
        LoopKind::Tasks => true,
        LoopKind::Unknown => row.problem.is_some(),
        _ => false,
    };
    let rows = listing.rows.into_iter().filter(may_be);
    Ok(rows.map(|row| known(context, row)).collect())
}

fn known(context: &Context, row: Row) -> Known {
    let told = |error: Error| CommandError::from(error).message().to_owned();
    let (state, wrong) = match context.home.open(&row.at) {
        Ok(session) => (session.state().clone(), session.check_whole().err()),
        Err(error) => (State::default(), Some(error)),
    };
    let certain = matches!(&wrong, Some(Error::Damaged { damage, .. }) if damage.line > 1);
    let damage = wrong.map(told);
    let dir = context.home.session_dir(&row.at);
    let first = || match &state.identity {
        Some(identity) => identity.tasks.clone(),
        None => read_identity(&**context.home.disk(), &dir).ok().and_then(|found| found.tasks),
    };
    let source = state.tasks.as_ref().map(|tasks| tasks.source.clone()).or_else(first);
    Known { row, state, damage, certain, source }
}

/// Opens a session, and refuses one that is damaged: its state would be that of another time.
pub(super) fn open(context: &Context, found: &Found) -> Result<Session, CommandError> {
    let selector = found.selector();
    let about = |error: Error| CommandError::from(error).about(&selector);
    let session = found.open(&context.home).map_err(about)?;
    session.check_whole().map_err(about)?;
    Ok(session)
}

/// What is damaged may hold work on the list that nothing else knows of: it is not passed over, unless
/// somebody has done so before.
pub(super) fn check_none_damaged(known: &[Known], list: &str) -> Result<(), CommandError> {
    let age = |one: &Known| (one.row.number, one.row.at.id);
    let damaged = known.iter().filter(|one| one.damage.is_some());
    let Some(one) = damaged.max_by_key(|one| age(one)) else { return Ok(()) };
    if known.iter().any(|other| other.damage.is_none() && age(other) > age(one)) {
        return Ok(());
    }
    let (selector, what) = (one.row.selector(), one.damage.clone().unwrap_or_default());
    let mut error =
        CommandError::usage(format!("session {selector} of this list is damaged: {what}"))
            .hint(format!("look closer: segue verify {selector}"));
    if one.certain {
        let repair = format!("segue verify {selector} --repair, and segue resume {selector}");
        error = error.hint(format!("go on with what is certain of it: {repair}"));
    }
    Err(error.hint(format!("start another one beside it: segue tasks run {list} --new")))
}
