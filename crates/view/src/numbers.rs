//! Numbers for the rows that have none: found under `numbers/`, or claimed there.
//!
//! The files are the truth. Ten thousand of them are not opened to find one: a new session has one
//! of the highest numbers, so the search begins there and ends when nobody is missing.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, SystemTime},
};

use rusqlite::Connection;
use segue_journal::{Home, home::Located, lock, session::JOURNAL};

use crate::{
    database::{self, parsed},
    error::Result,
    walk,
};

/// What was last seen of the directory, so that a change in it is noticed.
const SEEN: &str = "numbers_mtime_ns";

/// A session is there for a moment before its creator locks it and claims its number.
const BEING_CREATED: Duration = Duration::from_secs(2);

/// Whether numbers were given since the last look, by whomever.
pub(crate) fn changed(db: &Connection, home: &Home) -> Result<bool> {
    Ok(database::fact(db, SEEN)? != Some(seen_now(home)))
}

fn seen_now(home: &Home) -> i64 {
    walk::changed_at(&home.dir().join("numbers")).unwrap_or_default()
}

/// Gives every row its number, within a write transaction, so that no two processes claim one for
/// the same session. Returns a note where that is not possible.
pub(crate) fn assign(tx: &Connection, home: &Home) -> Result<Option<String>> {
    let seen = seen_now(home);
    let dir = home.dir().join("numbers");
    let given: HashSet<u64> = home
        .disk()
        .list(&dir)
        .unwrap_or_default()
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    let (known, mut without) = rows(tx)?;
    for (number, at) in &known {
        if !given.contains(number) {
            set(tx, at, None)?;
            without.insert(at.clone());
        }
    }
    let mut candidates: Vec<u64> =
        given.into_iter().filter(|number| !known.contains_key(number)).collect();
    candidates.sort_unstable();
    while !without.is_empty()
        && let Some(number) = candidates.pop()
    {
        if let Some(at) = home.numbered(number)?
            && without.remove(&at)
        {
            set(tx, &at, Some(number))?;
        }
    }
    let mut without: Vec<Located> = without.into_iter().collect();
    // By age, so that they are counted as they would have been here.
    without.sort_unstable_by_key(|at| at.id);
    let note = claim(tx, home, &without)?;
    database::set_fact(tx, SEEN, seen)?;
    Ok(note)
}

fn claim(tx: &Connection, home: &Home, without: &[Located]) -> Result<Option<String>> {
    for at in without {
        if is_being_created(home, at) {
            continue;
        }
        match home.give_number(at) {
            Ok(number) => set(tx, at, Some(number))?,
            Err(error) => {
                return Ok(Some(format!("some sessions could not be given a number: {error}")));
            }
        }
    }
    Ok(None)
}

/// Whether its creator may be about to claim a number for it. It then has the lock, or, for an
/// instant after the session has appeared, nobody ever had.
fn is_being_created(home: &Home, at: &Located) -> bool {
    let (disk, dir) = (&**home.disk(), home.session_dir(at));
    if disk.exists(&dir.join(lock::FILE)) {
        return lock::held_by(disk, &dir).is_ok_and(|holder| holder.is_some());
    }
    let Ok(stat) = disk.stat(&dir.join(JOURNAL)) else {
        return false;
    };
    SystemTime::now().duration_since(stat.modified).is_ok_and(|age| age < BEING_CREATED)
}

fn rows(db: &Connection) -> Result<(HashMap<u64, Located>, HashSet<Located>)> {
    let (mut known, mut without) = (HashMap::new(), HashSet::new());
    let mut statement = db.prepare_cached("SELECT repo, id, number FROM sessions")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let at = Located { repo: row.get(0)?, id: parsed(row, 1)? };
        match row.get::<_, Option<i64>>(2)? {
            Some(number) => drop(known.insert(number.cast_unsigned(), at)),
            None => drop(without.insert(at)),
        }
    }
    Ok((known, without))
}

fn set(tx: &Connection, at: &Located, number: Option<u64>) -> Result<()> {
    tx.prepare_cached("UPDATE sessions SET number = ?3 WHERE repo = ?1 AND id = ?2")?.execute((
        &at.repo,
        at.id.to_string(),
        number.map(u64::cast_signed),
    ))?;
    Ok(())
}
