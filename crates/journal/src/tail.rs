//! Following a journal that another process writes.
//!
//! It looks at the file's length, not at notifications: that works on every file system, and a
//! look costs less than a microsecond.

use std::path::{Path, PathBuf};

use segue_core::Event;

use crate::{
    disk::{Disk, DiskFile},
    error::{At, Result},
    scan::{Position, Scanner},
    session::JOURNAL,
};

/// A reader that goes on where it was.
#[derive(Debug)]
pub struct Tail {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    at: Position,
}

impl Tail {
    /// Follows the journal in `dir` from `from` on.
    pub fn new(disk: &dyn Disk, dir: &Path, from: Position) -> Result<Self> {
        let path = dir.join(JOURNAL);
        let file = disk.open(&path).at(&path)?;
        Ok(Self { file, path, at: from })
    }

    /// The whole events that have come since the last look. A line that is still being written is
    /// left for the next one.
    pub fn new_events(&mut self) -> Result<Vec<Event>> {
        if self.file.len().at(&self.path)? <= self.at.offset {
            return Ok(Vec::new());
        }
        let mut scanner = Scanner::new(&*self.file, self.at);
        let mut events = Vec::new();
        while let Some(event) = scanner.next_event().at(&self.path)? {
            events.push(event);
        }
        self.at = scanner.position();
        Ok(events)
    }
}
