//! `index.db` as SQLite sees it: one table of list rows, one of single values.
//!
//! It is never synced, so a power cut may break it; whoever meets that throws it away. A file of
//! another version is thrown away too: there is nothing in it that the journals do not have.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Row as SqlRow, ToSql, TransactionBehavior,
    types::Type,
};
use segue_core::usage::Micros;
use segue_journal::home::Located;
use serde::{Serialize, de::DeserializeOwned};

use crate::{row::Row, walk::Stamp};

pub(crate) const FILE: &str = "index.db";

/// "Segu" in ASCII: tells our file from any other database.
const APPLICATION: i64 = 0x5365_6775;

/// Raised whenever a column changes, or what is written into one.
pub(crate) const SCHEMA: i64 = 4;

const PATIENCE: Duration = Duration::from_secs(2);

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS sessions (
        repo TEXT NOT NULL, id TEXT NOT NULL, number INTEGER,
        repo_identity TEXT NOT NULL, name TEXT, loop TEXT NOT NULL, agent TEXT NOT NULL, model TEXT,
        prompt TEXT NOT NULL, phase TEXT NOT NULL, stop TEXT,
        turns INTEGER NOT NULL, runs INTEGER NOT NULL, tokens INTEGER NOT NULL,
        cost_micros INTEGER NOT NULL, unpriced_calls INTEGER NOT NULL,
        created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,
        workspace TEXT NOT NULL, last_text TEXT, problem TEXT, vendor_ids TEXT NOT NULL,
        review TEXT NOT NULL, crew TEXT NOT NULL,
        journal_len INTEGER NOT NULL, journal_mtime_ns INTEGER NOT NULL,
        PRIMARY KEY (repo, id)
    );
    CREATE INDEX IF NOT EXISTS stamps ON sessions (repo, id, number, journal_len, journal_mtime_ns);
    CREATE INDEX IF NOT EXISTS newest ON sessions (updated_ms, id);
    CREATE INDEX IF NOT EXISTS newest_of_repo ON sessions (repo, updated_ms, id);
    CREATE INDEX IF NOT EXISTS names ON sessions (name) WHERE name IS NOT NULL;
    CREATE INDEX IF NOT EXISTS ids ON sessions (id);
    CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
";

/// In the order in which [`read`] takes them.
pub(crate) const COLUMNS: &str = "repo, id, number, repo_identity, name, loop, agent, model, \
    prompt, phase, stop, turns, runs, tokens, cost_micros, unpriced_calls, created_ms, \
    updated_ms, workspace, last_text, problem, vendor_ids, review, crew";

/// The number stays: it is not of the journal.
const UPSERT: &str = "
    INSERT INTO sessions (repo, id, repo_identity, name, loop, agent, model, prompt, phase, stop,
        turns, runs, tokens, cost_micros, unpriced_calls, created_ms, updated_ms, workspace,
        last_text, problem, journal_len, journal_mtime_ns, vendor_ids, review, crew)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
        ?20, ?21, ?22, ?23, ?24, ?25)
    ON CONFLICT (repo, id) DO UPDATE SET
        repo_identity = excluded.repo_identity, name = excluded.name, loop = excluded.loop,
        agent = excluded.agent, model = excluded.model, prompt = excluded.prompt,
        phase = excluded.phase, stop = excluded.stop, turns = excluded.turns, runs = excluded.runs,
        tokens = excluded.tokens, cost_micros = excluded.cost_micros,
        unpriced_calls = excluded.unpriced_calls, created_ms = excluded.created_ms,
        updated_ms = excluded.updated_ms, workspace = excluded.workspace,
        last_text = excluded.last_text, problem = excluded.problem,
        journal_len = excluded.journal_len, journal_mtime_ns = excluded.journal_mtime_ns,
        vendor_ids = excluded.vendor_ids, review = excluded.review, crew = excluded.crew";

/// Why a file that was opened can't be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    OtherVersion,
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Unusable {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Whether the file itself is broken, so that a new one would help.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as E;
    match error {
        E::SqliteFailure(failure, message) => match failure.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => true,
            // The right version, and yet not the right tables.
            ErrorCode::Unknown => message.as_deref().is_some_and(|text| text.contains("no such")),
            _ => false,
        },
        E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::InvalidColumnType(..)
        | E::Utf8Error(..) => true,
        E::SqlInputError { msg, .. } => msg.contains("no such"),
        _ => false,
    }
}

/// Opens the file, and creates it where there is none.
pub(crate) fn open(path: &Path) -> Result<Connection, Unusable> {
    // SQLite would create it readable for everybody. Where this fails, opening it says why.
    let _ = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(PATIENCE)?;
    db.execute_batch("PRAGMA synchronous = OFF; PRAGMA trusted_schema = OFF;")?;
    if versions(&db)? != (APPLICATION, SCHEMA) {
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Under the lock, since two that start at once both find an empty file.
        match versions(&tx)? {
            (APPLICATION, SCHEMA) => {}
            (0, 0) if is_empty(&tx)? => create(&tx)?,
            _ => return Err(Unusable::OtherVersion),
        }
        tx.commit()?;
    }
    Ok(db)
}

pub(crate) fn in_memory() -> rusqlite::Result<Connection> {
    let db = Connection::open_in_memory()?;
    create(&db)?;
    Ok(db)
}

fn create(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(TABLES)?;
    db.pragma_update(None, "application_id", APPLICATION)?;
    db.pragma_update(None, "user_version", SCHEMA)
}

fn versions(db: &Connection) -> rusqlite::Result<(i64, i64)> {
    let one = |name| db.pragma_query_value(None, name, |row| row.get(0));
    Ok((one("application_id")?, one("user_version")?))
}

fn is_empty(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// Removes the file. Its rollback journal goes first: it must never be applied to the next one.
pub(crate) fn remove(path: &Path) -> std::io::Result<()> {
    for suffix in ["-journal", "-wal", "-shm", ""] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match fs::remove_file(PathBuf::from(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn fact(db: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT value FROM facts WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()
}

pub(crate) fn set_fact(db: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO facts (name, value) VALUES (?1, ?2)")?
        .execute((name, value))
        .map(drop)
}

pub(crate) fn upsert(db: &Connection, row: &Row, stamp: Stamp) -> rusqlite::Result<()> {
    let stop = row.stop.as_ref().and_then(|stop| serde_json::to_string(stop).ok());
    let crew = serde_json::to_string(&row.crew).unwrap_or_else(|_| "[]".to_owned());
    let values: [&dyn ToSql; 25] = [
        &row.at.repo,
        &row.at.id.to_string(),
        &row.repo_identity,
        &row.name,
        &word(&row.loop_kind),
        &row.agent,
        &row.model,
        &row.prompt,
        &word(&row.phase),
        &stop,
        &row.turns,
        &row.runs,
        &signed(row.tokens),
        &signed(row.cost.0),
        &signed(row.unpriced_calls),
        &row.created_at.as_millisecond(),
        &row.updated_at.as_millisecond(),
        &row.workspace.to_string_lossy(),
        &row.last_text,
        &row.problem,
        &stamp.len,
        &stamp.mtime_ns,
        &row.vendor_ids.join(" "),
        &serde_json::json!([row.iteration, row.max_iterations, row.reviewers]).to_string(),
        &crew,
    ];
    db.prepare_cached(UPSERT)?.execute(values).map(drop)
}

/// A row as [`COLUMNS`] has it. Who has the session is not in the database.
pub(crate) fn read(row: &SqlRow<'_>) -> rusqlite::Result<Row> {
    let review = row.get_ref(22)?.as_str().map_err(|error| broken(22, error))?;
    let (iteration, max_iterations, reviewers) =
        serde_json::from_str(review).map_err(|error| broken(22, error))?;
    Ok(Row {
        at: Located { repo: row.get(0)?, id: parsed(row, 1)? },
        number: row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
        repo_identity: row.get(3)?,
        name: row.get(4)?,
        loop_kind: from_word(row, 5)?,
        agent: row.get(6)?,
        model: row.get(7)?,
        prompt: row.get(8)?,
        phase: from_word(row, 9)?,
        stop: match row.get_ref(10)?.as_str_or_null()? {
            Some(text) => Some(serde_json::from_str(text).map_err(|error| broken(10, error))?),
            None => None,
        },
        turns: row.get(11)?,
        iteration,
        max_iterations,
        reviewers,
        crew: serde_json::from_str(row.get_ref(23)?.as_str().map_err(|error| broken(23, error))?)
            .map_err(|error| broken(23, error))?,
        runs: row.get(12)?,
        tokens: row.get::<_, i64>(13)?.cast_unsigned(),
        cost: Micros(row.get::<_, i64>(14)?.cast_unsigned()),
        unpriced_calls: row.get::<_, i64>(15)?.cast_unsigned(),
        created_at: time(row, 16)?,
        updated_at: time(row, 17)?,
        workspace: row.get::<_, String>(18)?.into(),
        last_text: row.get(19)?,
        problem: row.get(20)?,
        vendor_ids: row.get::<_, String>(21)?.split_whitespace().map(str::to_owned).collect(),
        holder: None,
    })
}

pub(crate) fn parsed<T>(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<T>
where
    T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let text = row.get_ref(column)?.as_str().map_err(|error| broken(column, error))?;
    text.parse().map_err(|error| broken(column, error))
}

fn time(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    Timestamp::from_millisecond(row.get(column)?).map_err(|error| broken(column, error))
}

/// The one word that an enum without data is on disk.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn from_word<T: DeserializeOwned>(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<T> {
    let word = serde_json::Value::String(row.get(column)?);
    serde_json::from_value(word).map_err(|error| broken(column, error))
}

fn broken<E>(column: usize, error: E) -> rusqlite::Error
where
    E: std::error::Error + Send + Sync + 'static,
{
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
