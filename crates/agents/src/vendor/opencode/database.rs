//! Its database: one SQLite file for all sessions, with messages and their parts as JSON.

use std::{path::Path, time::Duration};

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use serde_json::Value;

use super::words;
use crate::vendor::{History, json};

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags)?;
    database.busy_timeout(Duration::from_secs(5))?;
    Ok(database)
}

/// A message with one of its parts, both as JSON.
struct Row {
    message: String,
    info: Value,
    part: Value,
}

fn rows(database: &Connection, id: &str) -> rusqlite::Result<Vec<Row>> {
    let mut query = database.prepare(
        "SELECT message.id, message.data, part.data FROM message
         LEFT JOIN part ON part.message_id = message.id
         WHERE message.session_id = ?1 ORDER BY message.time_created, message.id, part.id",
    )?;
    let value = |text: Option<String>| -> Value {
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    };
    let rows = query.query_map([id], |row| {
        Ok(Row { message: row.get(0)?, info: value(row.get(1)?), part: value(row.get(2)?) })
    })?;
    rows.collect()
}

pub(super) fn read_session(path: &Path, id: &str) -> rusqlite::Result<Option<History>> {
    let database = open(path)?;
    let known =
        database.query_row("SELECT 1 FROM session WHERE id = ?1", [id], |_| Ok(())).optional()?;
    if known.is_none() {
        return Ok(None);
    }
    let mut history = History::new(path.to_owned());
    let mut prompt: Option<String> = None;
    for row in rows(&database, id)? {
        match json::text(&row.info, &["role"]) {
            // One prompt may have several parts.
            Some("user") => {
                if let Some(text) = typed(&row.part) {
                    match prompt.as_ref() == Some(&row.message) {
                        true => history.last.prompt.push_str(text),
                        false => history.prompt(text),
                    }
                    prompt = Some(row.message);
                }
            }
            Some("assistant") if row.info.get("summary") != Some(&Value::Bool(true)) => {
                said(&row.part, &mut history);
            }
            _ => {}
        }
    }
    Ok(Some(history))
}

/// What the user wrote, not what the program put in for him.
pub(super) fn typed(part: &Value) -> Option<&str> {
    let own = part.get("synthetic") != Some(&Value::Bool(true));
    (own && json::text(part, &["type"]) == Some("text")).then(|| json::text(part, &["text"]))?
}

fn said(part: &Value, history: &mut History) {
    match json::text(part, &["type"]) {
        Some("text") => {
            if let Some(text) = words(part, &["text"]) {
                history.text(text);
            }
        }
        Some("tool") => {
            let Some(id) = json::text(part, &["callID"]) else { return };
            history.call(id);
            if matches!(json::text(part, &["state", "status"]), Some("completed" | "error")) {
                history.answer(id);
            }
        }
        _ => {}
    }
}

/// Sessions of a directory since a time in which the user wrote the prompt. A forked one begins with
/// the prompts of another, so it need not be the first.
pub(crate) fn look_for(
    path: &Path,
    cwd: &Path,
    since: Timestamp,
    prompt: &str,
) -> rusqlite::Result<Vec<String>> {
    let database = open(path)?;
    let mut query = database.prepare(
        "SELECT id FROM session
         WHERE directory IN (?1, ?2) AND time_created >= ?3 AND parent_id IS NULL",
    )?;
    let real = std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
    let place = (cwd.to_string_lossy(), real.to_string_lossy(), since.as_millisecond());
    let ids = query.query_map(place, |row| row.get(0))?;
    let mut found = Vec::new();
    for id in ids {
        let id: String = id?;
        let asked = |row: &Row| {
            json::text(&row.info, &["role"]) == Some("user")
                && typed(&row.part).is_some_and(|text| text.trim() == prompt.trim())
        };
        if rows(&database, &id)?.iter().any(asked) {
            found.push(id);
        }
    }
    Ok(found)
}
