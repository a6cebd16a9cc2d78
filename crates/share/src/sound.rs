//! Whether a session is fit to travel: what an import would refuse is not exported.
//!
//! The journal's own verification reads to the end of the file, and a session that is being written
//! to may never let it get there. This one ends where the session was read to.

use std::io;

use segue_core::{Event, Identity, State};
use segue_journal::{
    Session, blob,
    disk::DiskFile,
    scan::{Ending, Position, Scanner},
    session::JOURNAL,
};
use serde_json::Value;

use crate::error::{At, Error, Result};

/// Reads every line, every link and every blob up to where the session was read. Returns who the
/// session is, as its journal says.
pub(crate) fn sound(session: &Session) -> Result<Identity> {
    let (disk, dir) = (&**session.disk(), session.dir());
    let damaged = |problem| Error::Damaged { dir: dir.to_owned(), problem };
    if let Ending::Damaged(damage) = session.ending() {
        return Err(damaged(format!("line {}: {}", damage.line, damage.finding)));
    }
    let path = dir.join(JOURNAL);
    let file = Cut { inner: disk.open(&path).at(&path)?, end: session.position().offset };
    // All of it was read once: what is not there now is lost, and not torn.
    let synced = session.position().seq;
    let from = Position { synced, ..Position::start(session.id()) };
    let mut scanner = Scanner::new(&file, from);
    let mut state = State::default();
    while let Some(event) = scanner.next_event().at(&path)? {
        for hash in blobs(&event) {
            blob::get(disk, dir, &hash)
                .map_err(|error| damaged(format!("line {}: {error}", event.seq)))?;
        }
        state.apply(&event);
    }
    let read_to = scanner.position().offset;
    match scanner.ending().at(&path)? {
        Ending::Clean if read_to == file.end => {}
        Ending::Damaged(damage) => {
            return Err(damaged(format!("line {}: {}", damage.line, damage.finding)));
        }
        // It was whole when it was opened.
        Ending::Clean | Ending::Torn { .. } => return Err(Error::Changed { path }),
    }
    state.identity.ok_or_else(|| damaged("the journal does not say who it is".to_owned()))
}

/// A journal that ends where it was read to, whatever is written meanwhile.
#[derive(Debug)]
struct Cut {
    inner: Box<dyn DiskFile>,
    end: u64,
}

impl DiskFile for Cut {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let want = buffer.len().min(left);
        self.inner.read_at(&mut buffer[..want], offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.inner.len()?.min(self.end))
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Every blob that an event names, also one of a kind that we do not know.
fn blobs(event: &Event) -> Vec<String> {
    let data = event.body.data().ok().and_then(|raw| serde_json::from_str(raw.get()).ok());
    let mut open: Vec<Value> = data.into_iter().collect();
    let mut found = Vec::new();
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(hash)) = map.get("blob") {
                    found.push(hash.clone());
                }
                open.extend(map.into_iter().map(|(_, value)| value));
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    found
}
