//! A journal from its end to its start: what a resume needs is near the end, however long the rest.

use segue_core::Event;

use crate::{disk::DiskFile, line};

const CHUNK: u64 = 64 * 1024;

/// Yields the events before an offset, newest first. Ends at the first line that is not one.
#[derive(Debug)]
pub struct Reverse {
    file: Box<dyn DiskFile>,
    /// Where `buffer` begins in the file.
    base: u64,
    /// Bytes that were read and not yielded yet; ends at a line's end.
    buffer: Vec<u8>,
}

impl Reverse {
    pub(crate) fn new(file: Box<dyn DiskFile>, end: u64) -> Self {
        Self { file, base: end, buffer: Vec::new() }
    }

    /// Where the event that was yielded last begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.base + self.buffer.len() as u64
    }

    fn last_line_start(&self) -> Option<usize> {
        let body = self.buffer.len().checked_sub(1)?;
        match self.buffer[..body].iter().rposition(|&byte| byte == b'\n') {
            Some(at) => Some(at + 1),
            None if self.base == 0 => Some(0),
            None => None,
        }
    }

    fn read_more(&mut self) -> Option<()> {
        let start = self.base.saturating_sub(CHUNK);
        let mut more = vec![0; usize::try_from(self.base - start).ok()?];
        if more.is_empty() || self.file.read_full(&mut more, start).ok()? < more.len() {
            return None;
        }
        more.extend_from_slice(&self.buffer);
        self.buffer = more;
        self.base = start;
        Some(())
    }
}

impl Iterator for Reverse {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let start = loop {
            match self.last_line_start() {
                Some(start) => break start,
                None => self.read_more()?,
            }
        };
        let event = line::decode(&self.buffer[start..]).ok()?.event;
        self.buffer.truncate(start);
        Some(event)
    }
}
