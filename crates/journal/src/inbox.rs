//! `inbox/<id>.json`: messages for a session that another process writes.
//!
//! Whoever has something to say puts a file there, whole and on the disk before this returns. The
//! session's writer records it as an event with the file's id, and only then removes the file: a
//! message that was recorded and not removed is known by its id, and counts once.

use std::{
    io,
    path::{Path, PathBuf},
};

use segue_core::inbox::Message;

use crate::{
    disk::Disk,
    error::{At, Error, Result},
};

const INBOX: &str = "inbox";

/// Longer than any message that we write: such a file is not ours.
const MOST_BYTES: u64 = 1 << 20;

/// Puts a message in. An id that is there already is the same message: nothing is done twice.
pub fn put(disk: &dyn Disk, session: &Path, id: &str, message: &Message) -> Result<()> {
    let dir = session.join(INBOX);
    disk.create_dir_all(&dir).at(&dir)?;
    disk.sync_dir(session).at(session)?;
    let path = dir.join(format!("{id}.json"));
    let json = serde_json::to_vec(message).map_err(|error| Error::json(&path, &error))?;
    match disk.claim(&path, &json) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        claimed => claimed.at(&path),
    }
}

/// Where it stands, while a turn is under way, that the server of our tools was asked for them. It is
/// no message, and nobody takes it in.
fn contact(session: &Path, turn: u32) -> PathBuf {
    session.join(INBOX).join(format!(".tools-{turn}"))
}

/// Notes that the agent of a turn has found our tools.
pub fn note_contact(disk: &dyn Disk, session: &Path, turn: u32) -> Result<()> {
    let dir = session.join(INBOX);
    disk.create_dir_all(&dir).at(&dir)?;
    let path = contact(session, turn);
    match disk.claim(&path, b"") {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        claimed => claimed.at(&path),
    }
}

/// Whether it has. It is asked once, when the turn is over.
#[must_use]
pub fn take_contact(disk: &dyn Disk, session: &Path, turn: u32) -> bool {
    disk.remove_file(&contact(session, turn)).is_ok()
}

/// A message that waits, with its id.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub id: String,
    pub message: Message,
    path: PathBuf,
}

/// What waits, oldest first. A file that is no message stays where it is.
pub fn waiting(disk: &dyn Disk, session: &Path) -> Result<Vec<Waiting>> {
    let dir = session.join(INBOX);
    let mut names = match disk.list(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.at(&dir)?,
    };
    names.sort_unstable();
    let mut found = Vec::new();
    for name in names {
        let Some(id) = name.strip_suffix(".json").filter(|id| !id.starts_with('.')) else {
            continue;
        };
        let path = dir.join(&name);
        let long = disk.stat(&path).is_ok_and(|stat| stat.len > MOST_BYTES || stat.is_dir);
        let Some(bytes) = (!long).then(|| disk.read(&path).ok()).flatten() else { continue };
        if let Ok(message) = serde_json::from_slice(&bytes) {
            found.push(Waiting { id: id.to_owned(), message, path });
        }
    }
    Ok(found)
}

impl Waiting {
    /// It is recorded: the file has done its work.
    pub fn remove(&self, disk: &dyn Disk) -> Result<()> {
        match disk.remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.at(&self.path),
        }
    }
}
