//! From what a person typed to the one session that is meant.
//!
//! A number and a path cost a look at one file. A name, the start of an id and "the latest" ask the
//! index, after a refresh. Where two sessions fit, nothing is guessed.

use std::path::{Path, PathBuf};

use segue_core::{SessionId, selector::Selector};
use segue_journal::{Home, Session, home::Located, session::JOURNAL};

use crate::{
    error::Error,
    index::{Filter, Index, StatusFilter},
    row::Row,
};

/// A shorter start of an id is a word that somebody mistyped.
const SHORTEST_PREFIX: usize = 4;

/// The session that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub dir: PathBuf,
    /// `None` for a directory outside the home.
    pub at: Option<Located>,
    pub number: Option<u64>,
}

impl Found {
    pub fn open(&self, home: &Home) -> segue_journal::Result<Session> {
        Session::open(home.disk().clone(), &self.dir)
    }

    /// How to name this session in a command: as short as it can be.
    #[must_use]
    pub fn selector(&self) -> String {
        match (self.number, &self.at) {
            (Some(number), _) => number.to_string(),
            (None, Some(at)) => at.id.to_string(),
            (None, None) => self.dir.display().to_string(),
        }
    }

    fn by_row(home: &Home, row: &Row) -> Self {
        Self { dir: home.session_dir(&row.at), at: Some(row.at.clone()), number: row.number }
    }
}

/// One of several sessions that fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub number: Option<u64>,
    pub id: SessionId,
    pub name: Option<String>,
    /// How the prompt begins.
    pub prompt: String,
}

impl Candidate {
    /// How to select this one and no other.
    #[must_use]
    pub fn selector(&self) -> String {
        self.number.map_or_else(|| self.id.to_string(), |number| number.to_string())
    }
}

/// What there is nothing of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    InRepo,
    InHome,
    /// There are sessions here, and all of them are completed or at work.
    ResumableInRepo,
    ResumableInHome,
}

#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    #[error("{}", match .hint {
        Nothing::InRepo => "there is no session of this repository (`segue list --all` shows the others)",
        Nothing::InHome => "there is no session here yet (`segue run` starts one)",
        Nothing::ResumableInRepo => "no session of this repository has anything left to do (`segue list` shows them)",
        Nothing::ResumableInHome => "no session has anything left to do (`segue list --all` shows them)",
    })]
    None { hint: Nothing },
    #[error("there is no session `{text}` (`segue list --all` shows all)")]
    NoSuch { text: String },
    #[error("session {number} was removed")]
    Removed { number: u64 },
    #[error("`{text}` fits {} sessions: {}", .candidates.len(), one_of(.candidates))]
    Ambiguous { text: String, candidates: Vec<Candidate> },
    #[error("{}: there is no session here (a session's directory has a {JOURNAL})", path.display())]
    Path { path: PathBuf },
    #[error(transparent)]
    View(#[from] Error),
}

impl From<segue_journal::Error> for SelectError {
    fn from(error: segue_journal::Error) -> Self {
        Self::View(error.into())
    }
}

fn one_of(candidates: &[Candidate]) -> String {
    let selectors: Vec<String> = candidates.iter().map(Candidate::selector).collect();
    selectors.join(", ")
}

/// Finds the session. `repo` is the repository of the working directory: "the latest" is its.
pub fn resolve(
    index: &mut Index,
    selector: &Selector,
    repo: Option<&str>,
) -> Result<Found, SelectError> {
    find(index, selector, repo, &[])
}

/// The same, for a resume: "the latest" is then the latest that has something left to do.
pub fn resolve_resumable(
    index: &mut Index,
    selector: &Selector,
    repo: Option<&str>,
) -> Result<Found, SelectError> {
    find(index, selector, repo, &[StatusFilter::resumable()])
}

/// The same, for a resume with something new to do: one that is done will do as well, but none that
/// a person has set aside.
pub fn resolve_kept(
    index: &mut Index,
    selector: &Selector,
    repo: Option<&str>,
) -> Result<Found, SelectError> {
    find(index, selector, repo, &[StatusFilter::kept()])
}

fn find(
    index: &mut Index,
    selector: &Selector,
    repo: Option<&str>,
    latest_of: &[StatusFilter],
) -> Result<Found, SelectError> {
    match selector {
        Selector::Number(number) => by_number(index.home(), *number),
        Selector::Id(id) => by_id(index, *id),
        Selector::Path(path) => by_path(index, path),
        Selector::Word(word) => by_word(index, word),
        Selector::Latest => latest(index, repo, latest_of),
    }
}

fn by_number(home: &Home, number: u64) -> Result<Found, SelectError> {
    let Some(at) = home.numbered(number)? else {
        return Err(SelectError::NoSuch { text: number.to_string() });
    };
    let dir = home.session_dir(&at);
    if !home.disk().exists(&dir) {
        return Err(SelectError::Removed { number });
    }
    Ok(Found { dir, at: Some(at), number: Some(number) })
}

fn by_id(index: &mut Index, id: SessionId) -> Result<Found, SelectError> {
    let home = index.home().clone();
    let root = home.dir().join("sessions");
    let mut found: Vec<Located> = home
        .disk()
        .list(&root)
        .unwrap_or_default()
        .into_iter()
        .map(|repo| Located { repo, id })
        .filter(|at| !at.repo.starts_with('.') && home.disk().exists(&home.session_dir(at)))
        .collect();
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(SelectError::NoSuch { text: id.to_string() }),
        (Some(at), true) => {
            let number = number_of(index, &at)?;
            Ok(Found { dir: home.session_dir(&at), at: Some(at), number })
        }
        (Some(_), false) => {
            index.refresh()?;
            let rows = index.with_prefix(&id.to_string())?;
            one(&home, &id.to_string(), &rows)
        }
    }
}

fn number_of(index: &mut Index, at: &Located) -> Result<Option<u64>, SelectError> {
    if let Some(number) = index.row(at)?.and_then(|row| row.number) {
        return Ok(Some(number));
    }
    index.refresh()?;
    Ok(index.row(at)?.and_then(|row| row.number))
}

/// A directory anywhere, or the journal in it.
fn by_path(index: &mut Index, path: &Path) -> Result<Found, SelectError> {
    let no_session = || SelectError::Path { path: path.to_owned() };
    let mut dir = path.canonicalize().map_err(|_| no_session())?;
    if dir.is_file() && dir.ends_with(JOURNAL) {
        dir.pop();
    }
    if !dir.join(JOURNAL).is_file() {
        return Err(no_session());
    }
    let at = located(index.home(), &dir);
    let number = match &at {
        Some(at) => number_of(index, at)?,
        None => None,
    };
    Ok(Found { dir, at, number })
}

/// Where in the home a directory is, if it is in there.
fn located(home: &Home, dir: &Path) -> Option<Located> {
    let root = home.dir().canonicalize().ok()?.join("sessions");
    let mut parts = dir.strip_prefix(root).ok()?.iter();
    let (repo, id) = (parts.next()?.to_str()?, parts.next()?.to_str()?);
    let at = Located { repo: repo.to_owned(), id: id.parse().ok()? };
    parts.next().is_none().then_some(at)
}

fn by_word(index: &mut Index, word: &str) -> Result<Found, SelectError> {
    index.refresh()?;
    let home = index.home().clone();
    let named = index.named(word)?;
    if !named.is_empty() {
        return one(&home, word, &named);
    }
    let prefix = word.to_ascii_uppercase();
    let could_be_id =
        prefix.len() >= SHORTEST_PREFIX && prefix.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let mut rows = if could_be_id { index.with_prefix(&prefix)? } else { Vec::new() };
    if rows.is_empty() && word.len() >= SHORTEST_PREFIX {
        rows = index.with_vendor_id(word)?;
    }
    if rows.is_empty() && word.len() >= SHORTEST_PREFIX {
        rows = with_part(index, &home, word)?;
    }
    one(&home, word, &rows)
}

/// The sessions that have another one within them of which a vendor's id begins like this. What
/// happens in there does not make a row stale, so it is looked up where nothing else fits.
fn with_part(index: &mut Index, home: &Home, word: &str) -> Result<Vec<Row>, SelectError> {
    let mut rows = index.query(&Filter::default())?.rows;
    rows.retain(|row| {
        let parts = || home.open(&row.at).and_then(|session| session.parts());
        let known = |(_, part): &(String, segue_journal::Session)| {
            let ids = part.state().vendors.iter().filter_map(|vendor| vendor.id.as_deref());
            ids.into_iter().any(|id| id.starts_with(word))
        };
        !row.reviewers.is_empty() && parts().unwrap_or_default().iter().any(known)
    });
    Ok(rows)
}

fn one(home: &Home, text: &str, rows: &[Row]) -> Result<Found, SelectError> {
    match rows {
        [] => Err(SelectError::NoSuch { text: text.to_owned() }),
        [row] => Ok(Found::by_row(home, row)),
        rows => {
            let candidate = |row: &Row| Candidate {
                number: row.number,
                id: row.at.id,
                name: row.name.clone(),
                prompt: row.prompt.clone(),
            };
            let candidates = rows.iter().map(candidate).collect();
            Err(SelectError::Ambiguous { text: text.to_owned(), candidates })
        }
    }
}

fn latest(
    index: &mut Index,
    repo: Option<&str>,
    status: &[StatusFilter],
) -> Result<Found, SelectError> {
    index.refresh()?;
    let resumable = !status.is_empty();
    let filter = Filter { repo: repo.map(str::to_owned), status: status.to_vec(), limit: Some(1) };
    if let Some(row) = index.query(&filter)?.rows.first() {
        return Ok(Found::by_row(index.home(), row));
    }
    let any = |index: &mut Index, repo: Option<String>| {
        let filter = Filter { repo, limit: Some(1), ..Filter::default() };
        index.query(&filter).map(|listing| !listing.rows.is_empty())
    };
    let hint = match repo {
        Some(repo) if resumable && any(index, Some(repo.to_owned()))? => Nothing::ResumableInRepo,
        None if resumable && any(index, None)? => Nothing::ResumableInHome,
        Some(_) if any(index, None)? => Nothing::InRepo,
        _ => Nothing::InHome,
    };
    Err(SelectError::None { hint })
}

/// The session that has this name already, anywhere in the home.
pub fn name_taken(index: &mut Index, name: &str) -> Result<Option<Row>, Error> {
    index.refresh()?;
    Ok(index.named(name)?.into_iter().next())
}
