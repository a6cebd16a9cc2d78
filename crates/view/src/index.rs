//! `index.db`: a cache of list rows, so that a list of ten thousand sessions costs a look at each
//! journal's length, not a fold of each journal.
//!
//! It may be missing, broken, of another version, locked, or on a disk that is full or read-only:
//! then it is made again, or made in memory, and a note tells. A list never fails because of it,
//! and never shows what a journal no longer says: each look compares every journal's length and
//! time with what the row was made from. Several processes may look at once.

use std::{collections::HashMap, path::PathBuf, str::FromStr, thread};

use rusqlite::{Connection, ToSql, TransactionBehavior};
use segue_core::{SessionId, status::Status};
use segue_journal::{Home, home::Located};

use crate::{
    database::{self, COLUMNS, Unusable},
    error::{Error, Result},
    numbers,
    row::{self, AtWork, Row},
    walk::{self, Repo, Stamp},
};

#[derive(Debug)]
pub struct Index {
    home: Home,
    db: Connection,
    /// `None` where the database is in memory.
    path: Option<PathBuf>,
    notes: Vec<String>,
    at_work: AtWork,
    /// How often this process has changed the rows, or the database below them.
    changes: u64,
}

/// Rows that have the same version are the same, but for who is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    by_us: u64,
    by_others: i64,
}

/// Which sessions are wanted, newest first.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The id of a repository; without one, all sessions of the home.
    pub repo: Option<String>,
    /// Any of these; where it is empty, all.
    pub status: Vec<StatusFilter>,
    pub limit: Option<usize>,
}

/// A status as a person or a script writes it: `running`, `agent_crashed`, `cap:turns`; `cap` for
/// all caps, and `resumable` for whatever a resume can go on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusFilter(String);

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a status; these are: {words}", words = StatusFilter::WORDS.join(", "))]
pub struct BadStatus(String);

impl StatusFilter {
    pub const WORDS: &[&str] = &[
        "resumable",
        "created",
        "running",
        "crashed",
        "unattended",
        "completed",
        "failed",
        "limit",
        "interrupted",
        "agent_crashed",
        "overloaded",
        "unreachable",
        "stream_cut",
        "context_full",
        "not_signed_in",
        "silent",
        "cap",
        "cap:turns",
        "cap:iterations",
        "cap:steps",
        "cap:wall_clock",
        "cap:tokens",
        "cap:cost",
        "looping",
        "disk",
        "unknown",
    ];

    #[must_use]
    pub fn resumable() -> Self {
        Self("resumable".to_owned())
    }

    /// Everything but what a person has set aside.
    #[must_use]
    pub fn kept() -> Self {
        Self("kept".to_owned())
    }

    #[must_use]
    pub fn fits(&self, status: Status) -> bool {
        match self.0.as_str() {
            "resumable" => status.is_resumable(),
            "kept" => status != Status::Discarded,
            "cap" => matches!(status, Status::Capped(_)),
            word => word == crate::json::status_word(status),
        }
    }
}

impl FromStr for StatusFilter {
    type Err = BadStatus;

    fn from_str(text: &str) -> Result<Self, BadStatus> {
        let word = text.replace([' ', '-'], "_");
        match Self::WORDS.contains(&word.as_str()) {
            true => Ok(Self(word)),
            false => Err(BadStatus(text.to_owned())),
        }
    }
}

/// What a filter lets through.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub rows: Vec<Row>,
    /// There are more than the limit.
    pub more: bool,
}

/// What a row was made from, for each session of each repository.
type Known = HashMap<String, HashMap<SessionId, (Stamp, bool)>>;

/// What a look at the disk found to be otherwise than in the rows.
#[derive(Default)]
struct Changes {
    new: Vec<(Located, Stamp)>,
    gone: Vec<Located>,
    unnumbered: bool,
}

impl Index {
    /// Opens the index of a home, and looks at no session yet: see [`Index::refresh`].
    pub fn open(home: &Home) -> Result<Self> {
        let mut index = Self {
            home: home.clone(),
            db: database::in_memory()?,
            path: None,
            notes: Vec::new(),
            at_work: AtWork::new(),
            changes: 0,
        };
        // A home that is not there yet is not made by looking at it.
        if home.dir().is_dir() {
            index.open_file(true)?;
        }
        Ok(index)
    }

    /// What people should be told since the last time this was asked.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    fn open_file(&mut self, again: bool) -> Result<()> {
        let path = self.home.dir().join(database::FILE);
        let found = match database::open(&path) {
            Ok(db) => {
                self.db = db;
                self.changes += 1;
                self.path = Some(path);
                return Ok(());
            }
            Err(found) => found,
        };
        let why = match &found {
            Unusable::OtherVersion => "was of another version",
            Unusable::Sqlite(error) if database::is_damage(error) => "was damaged",
            Unusable::Sqlite(error) => return self.work_in_memory(&error.to_string()),
        };
        match database::remove(&path) {
            Ok(()) if again => {
                self.note(format!("{} {why} and has been rebuilt", path.display()));
                self.open_file(false)
            }
            Ok(()) => self.work_in_memory(why),
            Err(error) => self.work_in_memory(&format!("it {why}: {error}")),
        }
    }

    fn work_in_memory(&mut self, why: &str) -> Result<()> {
        let path = self.home.dir().join(database::FILE);
        self.note(format!("{} can't be used, so looking takes longer: {why}", path.display()));
        self.db = database::in_memory()?;
        self.changes += 1;
        self.path = None;
        Ok(())
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Does `work`, and once more with a new database for every way in which the old one failed.
    fn healing<T>(&mut self, work: impl Fn(&mut Self) -> Result<T>) -> Result<T> {
        // At most: the file is broken, the new file can't be written, memory.
        for _ in 0..2 {
            match work(self) {
                Err(Error::Index(error)) if self.path.is_some() => {
                    if database::is_damage(&error) {
                        self.db = database::in_memory()?;
                        let path = self.path.take().unwrap_or_default();
                        self.note(format!("{} was damaged and has been rebuilt", path.display()));
                        match database::remove(&path) {
                            Ok(()) => self.open_file(false)?,
                            Err(why) => self.work_in_memory(&why.to_string())?,
                        }
                    } else {
                        self.work_in_memory(&error.to_string())?;
                    }
                    match self.look() {
                        Err(Error::Index(_)) if self.path.is_some() => {}
                        looked => looked?,
                    }
                }
                done => return done,
            }
        }
        work(self)
    }

    /// Brings the rows up to date with what is on the disk now.
    pub fn refresh(&mut self) -> Result<()> {
        self.healing(Self::look)
    }

    /// The version of the rows as of the last refresh.
    pub fn version(&self) -> Result<Version> {
        let by_others = self.db.pragma_query_value(None, "data_version", |row| row.get(0))?;
        Ok(Version { by_us: self.changes, by_others })
    }

    fn look(&mut self) -> Result<()> {
        let changes = thread::scope(|scope| {
            // The disk and the database are asked at the same time: each is half of the work.
            let seen = scope.spawn(|| walk::walk(self.home.dir()));
            let known = Self::known(&self.db);
            let seen = seen.join().unwrap_or_else(|_| walk::walk(self.home.dir()));
            Ok::<_, Error>(compare(known?, seen?))
        })?;
        let numbers_changed = numbers::changed(&self.db, &self.home)?;
        if changes.new.is_empty()
            && changes.gone.is_empty()
            && !changes.unnumbered
            && !numbers_changed
        {
            return Ok(());
        }
        // Read before the lock is taken: a long fold keeps nobody waiting. Should another process
        // be quicker with a newer look, the lengths tell the next one.
        let rows: Vec<(Row, Stamp)> = changes
            .new
            .into_iter()
            .filter_map(|(at, stamp)| row::read(&self.home, at, stamp, &mut self.at_work))
            .collect();
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (row, stamp) in &rows {
            database::upsert(&tx, row, *stamp)?;
        }
        for at in &changes.gone {
            tx.prepare_cached("DELETE FROM sessions WHERE repo = ?1 AND id = ?2")?
                .execute((&at.repo, at.id.to_string()))?;
        }
        let note = numbers::assign(&tx, &self.home)?;
        tx.commit()?;
        self.changes += 1;
        note.into_iter().for_each(|note| self.note(note));
        Ok(())
    }

    fn known(db: &Connection) -> Result<Known> {
        let mut known = Known::new();
        let mut statement = db.prepare_cached(
            "SELECT repo, id, journal_len, journal_mtime_ns, number IS NOT NULL FROM sessions
             ORDER BY repo, id",
        )?;
        let mut rows = statement.query([])?;
        let mut repo = (String::new(), HashMap::new());
        while let Some(row) = rows.next()? {
            let name = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
            if repo.0 != name {
                let done = std::mem::replace(&mut repo, (name.to_owned(), HashMap::new()));
                known.insert(done.0, done.1);
            }
            let stamp = Stamp { len: row.get(2)?, mtime_ns: row.get(3)? };
            repo.1.insert(database::parsed(row, 1)?, (stamp, row.get(4)?));
        }
        known.insert(repo.0, repo.1);
        Ok(known)
    }

    /// The sessions that fit, the last changed first. Who is at work is looked up now.
    pub fn query(&mut self, filter: &Filter) -> Result<Listing> {
        self.healing(|index| index.list(filter))
    }

    fn list(&self, filter: &Filter) -> Result<Listing> {
        let limit = filter.limit.unwrap_or(usize::MAX);
        let mut listing = Listing::default();
        let (repo, condition): (&[&dyn ToSql], _) = match &filter.repo {
            Some(repo) => (&[repo], "repo = ?1"),
            None => (&[], "TRUE"),
        };
        let wanted = |row: &Row| {
            filter.status.is_empty() || filter.status.iter().any(|want| want.fits(row.status()))
        };
        let order = "ORDER BY updated_ms DESC, id DESC";
        self.each(&format!("{condition} {order}"), repo, |row| {
            if wanted(&row) {
                listing.more = listing.rows.len() >= limit;
                if !listing.more {
                    listing.rows.push(row);
                }
            }
            !listing.more
        })?;
        Ok(listing)
    }

    /// The row of one session, as of the last refresh.
    pub fn row(&mut self, at: &Located) -> Result<Option<Row>> {
        let id = at.id.to_string();
        let found = self.healing(|index| index.all("repo = ?1 AND id = ?2", &[&at.repo, &id]))?;
        Ok(found.into_iter().next())
    }

    /// The sessions of this name, as of the last refresh. One, unless some were brought in.
    pub fn named(&mut self, name: &str) -> Result<Vec<Row>> {
        self.healing(|index| index.all("name = ?1 ORDER BY updated_ms DESC", &[&name]))
    }

    /// The sessions whose id begins like this (in capitals), as of the last refresh.
    pub fn with_prefix(&mut self, prefix: &str) -> Result<Vec<Row>> {
        // No character of a ULID comes after `~`.
        let end = format!("{prefix}~");
        self.healing(|index| index.all("id >= ?1 AND id < ?2 ORDER BY id DESC", &[&prefix, &end]))
    }

    /// The sessions of which a vendor's id begins like this, as of the last refresh.
    pub fn with_vendor_id(&mut self, prefix: &str) -> Result<Vec<Row>> {
        let condition = "instr(' ' || vendor_ids, ' ' || ?1) > 0 ORDER BY updated_ms DESC";
        self.healing(|index| index.all(condition, &[&prefix]))
    }

    fn all(&self, condition: &str, values: &[&dyn ToSql]) -> Result<Vec<Row>> {
        let mut found = Vec::new();
        self.each(condition, values, |row| {
            found.push(row);
            true
        })?;
        Ok(found)
    }

    /// Calls `each` with every row, probed, until it has had enough.
    fn each(
        &self,
        condition: &str,
        values: &[&dyn ToSql],
        mut each: impl FnMut(Row) -> bool,
    ) -> Result<()> {
        let sql = format!("SELECT {COLUMNS} FROM sessions WHERE {condition}");
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(values)?;
        while let Some(found) = rows.next()? {
            let mut row = database::read(found)?;
            row.probe(&self.home);
            if !each(row) {
                break;
            }
        }
        Ok(())
    }
}

fn compare(mut known: Known, seen: Vec<Repo>) -> Changes {
    let mut changes = Changes::default();
    for Repo { id: repo, sessions } in seen {
        let mut of_repo = known.remove(&repo).unwrap_or_default();
        for (id, stamp) in sessions {
            match of_repo.remove(&id) {
                Some((before, numbered)) if before == stamp => changes.unnumbered |= !numbered,
                _ => changes.new.push((Located { repo: repo.clone(), id }, stamp)),
            }
        }
        known.insert(repo, of_repo);
    }
    for (repo, sessions) in known {
        changes.gone.extend(sessions.into_keys().map(|id| Located { repo: repo.clone(), id }));
    }
    changes
}
