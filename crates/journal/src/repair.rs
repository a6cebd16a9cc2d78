//! Putting right what a crash or a failing disk left behind. Nothing is ever thrown away: what
//! leaves a journal is kept in a file beside it first.

use std::{path::Path, sync::Arc};

use segue_core::event::{Body, JournalRepaired, TORN};
use serde_json::Value;

use crate::{
    Clock, blob,
    disk::{Disk, DiskFile},
    error::{At, Error, Result},
    lock::{Holder, Lock},
    scan::{Damage, Ending, Position, Scanner},
    session::{self, IDENTITY, JOURNAL, Session},
    snapshot,
    writer::Durability,
};

const COPY_CHUNK: usize = 1 << 20;

/// Keeps the bytes after `at` in a file of their own, then cuts them off. Returns the file's name.
pub(crate) fn set_tail_aside(
    disk: &dyn Disk,
    dir: &Path,
    journal: &mut dyn DiskFile,
    at: Position,
) -> Result<String> {
    let path = dir.join(JOURNAL);
    let end = journal.len().at(&path)?;
    let kept_in = keep(disk, dir, &format!("{TORN}{}", at.seq + 1), |file| {
        copy(journal, at.offset, end, file)
    })?;
    journal.set_len(at.offset).at(&path)?;
    journal.sync().at(&path)?;
    Ok(kept_in)
}

/// Creates a file under the first free name, fills it, and makes both durable.
fn keep(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
    fill: impl FnOnce(&mut dyn DiskFile) -> std::io::Result<()>,
) -> Result<String> {
    let (name, mut file) = (0..)
        .map(|n| if n == 0 { name.to_owned() } else { format!("{name}.{n}") })
        .find_map(|name| match disk.create_new(&dir.join(&name)) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => None,
            created => Some(created.at(&dir.join(&name)).map(|file| (name, file))),
        })
        .ok_or_else(|| Error::NotASession { dir: dir.to_owned() })??;
    let path = dir.join(&name);
    if let Err(error) = fill(&mut *file).and_then(|()| file.sync()) {
        // Half a copy of bytes that are still in the journal.
        let _ = disk.remove_file(&path);
        return Err(error).at(&path);
    }
    disk.sync_dir(dir).at(dir)?;
    Ok(name)
}

fn copy(from: &dyn DiskFile, start: u64, end: u64, to: &mut dyn DiskFile) -> std::io::Result<()> {
    let mut buffer = vec![0; COPY_CHUNK];
    let mut at = start;
    while at < end {
        let want = usize::try_from(end - at).unwrap_or(COPY_CHUNK).min(COPY_CHUNK);
        let got = from.read_full(&mut buffer[..want], at)?;
        if got == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        to.write_all(&buffer[..got])?;
        at += got as u64;
    }
    Ok(())
}

/// Writes `session.json` again from the journal if it does not say what the journal says.
pub(crate) fn restore_identity(session: &Session) -> Result<bool> {
    let Some(truth) = &session.state().identity else {
        return Err(Error::NotASession { dir: session.dir().to_owned() });
    };
    let disk = &**session.disk();
    if session::read_identity(disk, session.dir()).is_ok_and(|found| found == *truth) {
        return Ok(false);
    }
    let path = session.dir().join(IDENTITY);
    let bytes = serde_json::to_vec_pretty(truth).map_err(|error| Error::json(&path, &error))?;
    if disk.exists(&path) {
        // Somebody may have edited it: it stays, under another name.
        let old = disk.read(&path).at(&path)?;
        keep(disk, session.dir(), "session.json.broken", |file| file.write_all(&old))?;
    }
    disk.replace(&path, &bytes).at(&path)?;
    Ok(true)
}

/// What a thorough look found. Nothing is changed by looking.
#[derive(Debug, Default)]
pub struct Report {
    pub events: u64,
    pub bytes: u64,
    pub blobs: u64,
    /// What is wrong, in the order of the journal.
    pub problems: Vec<Problem>,
}

#[derive(Debug)]
pub enum Problem {
    /// Never reported to anyone; the next writer sets it aside.
    TornTail {
        bytes: u64,
    },
    Damaged(Damage),
    Blob {
        line: u64,
        error: Error,
    },
    Identity {
        error: Option<Error>,
    },
    /// It can't be opened at all.
    Unreadable {
        error: Error,
    },
    /// What it begins with is gone, or is no longer what it was.
    Base {
        error: Error,
    },
    /// `state.json` says something else than the journal: it is dropped at the next opening.
    Snapshot,
    /// A file for people that follows from the journal says something else.
    Derived {
        file: String,
    },
}

impl Problem {
    /// Whether something that had been reported is lost or changed.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        let gone = matches!(self, Self::Base { .. } | Self::Unreadable { .. });
        gone || matches!(self, Self::Damaged(_) | Self::Blob { .. })
    }

    /// Whether cutting the journal back to what is certain helps.
    #[must_use]
    pub fn can_be_cut(&self) -> bool {
        matches!(self, Self::Damaged(damage) if damage.line > 1)
    }
}

/// Reads everything again from the first byte: every line, every link, every blob.
pub fn verify(session: &Session) -> Result<Report> {
    let (disk, dir) = (&**session.disk(), session.dir());
    let path = dir.join(JOURNAL);
    let file = disk.open(&path).at(&path)?;
    let synced = snapshot::synced(disk, dir);
    let mut scanner = Scanner::new(&*file, Position { synced, ..Position::start(session.id()) });
    let mut report = Report::default();
    let mut state = segue_core::State::default();
    while let Some(event) = scanner.next_event().at(&path)? {
        for hash in blobs_in(&event.body) {
            report.blobs += 1;
            if let Err(error) = blob::get(disk, dir, &hash) {
                report.problems.push(Problem::Blob { line: event.seq, error });
            }
        }
        state.apply(&event);
    }
    report.events = state.seq;
    report.bytes = scanner.position().offset;
    match scanner.ending().at(&path)? {
        Ending::Clean => {}
        Ending::Torn { bytes } => report.problems.push(Problem::TornTail { bytes }),
        Ending::Damaged(damage) => report.problems.push(Problem::Damaged(damage)),
    }
    match session::read_identity(disk, dir) {
        Ok(found) if state.identity.as_ref() == Some(&found) => {}
        found => report.problems.push(Problem::Identity { error: found.err() }),
    }
    let begins = session.state().base().is_some();
    match session.layers() {
        Err(error @ Error::Base { .. }) => report.problems.push(Problem::Base { error }),
        // Every line of what it begins with is read, too.
        Ok(_) if begins && report.problems.is_empty() => {
            if let Err(error) = session.steps(|_| {}) {
                report.problems.push(Problem::Base { error });
            }
        }
        _ => {}
    }
    if session.state().seq == state.seq && *session.state() != state {
        report.problems.push(Problem::Snapshot);
    }
    Ok(report)
}

/// Whether everything can be read that the last turn has in blobs.
pub fn check_last_turn(session: &Session) -> Result<()> {
    for event in session.newest_first()? {
        for hash in blobs_in(&event.body) {
            blob::get(&**session.disk(), session.dir(), &hash)?;
        }
        if matches!(event.body, Body::TurnStarted(_)) {
            break;
        }
    }
    Ok(())
}

/// Every blob that an event names, also one of a kind that we do not know.
fn blobs_in(body: &Body) -> Vec<String> {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(hash)) = map.get("blob") {
                    found.push(hash.clone());
                }
                map.values().for_each(|value| walk(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    if let Some(value) = body.data().ok().and_then(|raw| serde_json::from_str(raw.get()).ok()) {
        walk(&value, &mut found);
    }
    found
}

/// Cuts a damaged journal back to what is certain, after keeping the whole of it beside. For a
/// person to ask for, never done unasked. Returns the name of the file that keeps it; `None` where
/// nothing is damaged.
pub fn cut_back(session: &Session, me: &Holder, clock: Clock) -> Result<Option<String>> {
    let Some(done) = cut(session, me)? else { return Ok(None) };
    let kept_in = done.kept_in.clone();
    let (mut locked, _) =
        Session::open(Arc::clone(session.disk()), session.dir())?.lock(me, clock)?;
    locked.append(done, Durability::Synced)?;
    Ok(Some(kept_in))
}

/// The cut itself, under the lock.
fn cut(session: &Session, me: &Holder) -> Result<Option<JournalRepaired>> {
    let (disk, dir) = (&**session.disk(), session.dir());
    let _lock = Lock::take(disk, dir, me)?;
    let path = dir.join(JOURNAL);
    let file = disk.open(&path).at(&path)?;
    let synced = snapshot::synced(disk, dir);
    let mut scanner = Scanner::new(&*file, Position { synced, ..Position::start(session.id()) });
    while scanner.next_event().at(&path)?.is_some() {}
    let certain = scanner.position();
    let Ending::Damaged(damage) = scanner.ending().at(&path)? else { return Ok(None) };
    if certain.seq == 0 {
        // Without its first event a journal is nobody's: there is nothing to go on with.
        return Err(Error::Damaged { path, damage });
    }
    let end = file.len().at(&path)?;
    let kept_in = keep(disk, dir, &format!("journal.damaged-{}", damage.line), |kept| {
        copy(&*file, 0, end, kept)
    })?;
    let mut prefix = vec![0; usize::try_from(certain.offset).unwrap_or(usize::MAX)];
    file.read_full(&mut prefix, 0).at(&path)?;
    // The snapshot vouches for events that are gone: without it, the journal speaks for itself.
    let state = dir.join(snapshot::FILE);
    if disk.exists(&state) {
        disk.remove_file(&state).at(&state)?;
    }
    disk.replace(&path, &prefix).at(&path)?;
    Ok(Some(JournalRepaired { bytes: end.saturating_sub(certain.offset), kept_in }))
}
