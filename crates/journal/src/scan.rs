//! From bytes back to events: the longest valid prefix, and what comes after it.
//!
//! A journal ends in one of three ways. *Clean*: the last line is whole. *Torn*: a write was under
//! way when the power went; the bytes after the valid prefix were never reported to anyone, and may
//! be cut off (they are kept aside all the same). *Damaged*: something that had been reported is
//! gone or changed; nothing is cut, and only a person may decide to go on without it.
//!
//! Torn or damaged is decided by evidence, not by position. A disk may keep the later sectors of an
//! unsynced write and lose the earlier ones, so whole lines after a hole prove nothing. But every
//! line says which event was on the disk when it was written (`synced`): a line after the hole that
//! vouches for the missing event proves damage, and so does the snapshot. A line that is whole and
//! does not fit the chain, or is no event, proves it too: no torn write makes one. And the first
//! event is on the disk before its session has a name, so it is never torn.

use std::{fmt, io};

use segue_core::{Event, SessionId};

use crate::{
    disk::DiskFile,
    line::{self, Line, Link, MAX_LINE, NotALine},
};

const CHUNK: usize = 256 * 1024;

/// Where a scan begins: at the start, or after an event that a snapshot vouches for.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    pub offset: u64,
    /// The last event before `offset`; also the number of lines before it.
    pub seq: u64,
    pub link: Link,
    /// The last event that is known to have been on the disk.
    pub synced: u64,
    /// The newest format version among the lines before `offset`.
    pub version: u32,
}

impl Position {
    #[must_use]
    pub fn start(session: SessionId) -> Self {
        Self { offset: 0, seq: 0, link: Link::first(session), synced: 0, version: 0 }
    }
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Counted from 1, as editors do.
    pub line: u64,
    pub offset: u64,
    pub finding: Finding,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    NotALine(NotALine),
    /// The line is whole and says it is another one than its place wants.
    WrongNumber {
        found: u64,
        expected: u64,
    },
    /// The line is whole and has the right number, but follows from another line.
    WrongChain,
    /// The file ends before an event that is known to have been on the disk.
    Missing {
        expected: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotALine(why) => write!(f, "damaged: {why}"),
            Self::WrongNumber { found, expected } if found < expected => {
                write!(f, "doubled or moved: event {found} stands where {expected} should")
            }
            Self::WrongNumber { found, expected } => {
                write!(f, "lines are missing: event {found} stands where {expected} should")
            }
            Self::WrongChain => {
                f.write_str("edited or foreign: it does not follow from the line before")
            }
            Self::Missing { expected } => {
                write!(f, "cut short: events up to {expected} had been on the disk")
            }
        }
    }
}

/// How the file goes on after its valid prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Clean,
    /// The bytes from the prefix's end to the file's end were never reported.
    Torn {
        bytes: u64,
    },
    Damaged(Damage),
}

/// Reads events one by one, in memory that does not grow with the file.
#[derive(Debug)]
pub struct Scanner<'a> {
    lines: Lines<'a>,
    at: Position,
    broken: Option<Finding>,
}

impl<'a> Scanner<'a> {
    #[must_use]
    pub fn new(file: &'a dyn DiskFile, from: Position) -> Self {
        Self { lines: Lines::new(file, from.offset), at: from, broken: None }
    }

    /// The next event of the valid prefix; `None` at its end.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        Ok(self.next_line()?.map(|line| line.event))
    }

    fn next_line(&mut self) -> io::Result<Option<Line>> {
        if self.broken.is_some() {
            return Ok(None);
        }
        let Some(raw) = self.lines.next_raw()? else { return Ok(None) };
        let checked = raw.and_then(line::decode).map_err(Finding::NotALine);
        match checked.and_then(|line| self.fits(line)) {
            Ok(line) => {
                self.at = Position {
                    offset: self.lines.offset(),
                    seq: line.event.seq,
                    link: line.link,
                    synced: self.at.synced.max(line.synced),
                    version: self.at.version.max(line.v),
                };
                Ok(Some(line))
            }
            Err(finding) => {
                self.broken = Some(finding);
                Ok(None)
            }
        }
    }

    fn fits(&self, line: Line) -> Result<Line, Finding> {
        let expected = self.at.seq + 1;
        if line.event.seq != expected {
            return Err(Finding::WrongNumber { found: line.event.seq, expected });
        }
        if line.prev != self.at.link {
            return Err(Finding::WrongChain);
        }
        Ok(line)
    }

    /// The end of what was read so far.
    #[must_use]
    pub fn position(&self) -> Position {
        self.at
    }

    /// After the last event: tells a torn tail from damage. Reads the rest of the file once.
    pub fn ending(mut self) -> io::Result<Ending> {
        let expected = self.at.seq + 1;
        let synced = self.at.synced.max(1);
        let damaged = |finding| {
            Ok(Ending::Damaged(Damage { line: expected, offset: self.at.offset, finding }))
        };
        let Some(finding) = self.broken else {
            return if synced >= expected {
                damaged(Finding::Missing { expected: synced })
            } else {
                Ok(Ending::Clean)
            };
        };
        let may_be_torn = matches!(finding, Finding::NotALine(why) if why != NotALine::Shape);
        if !may_be_torn || synced >= expected {
            return damaged(finding);
        }
        while let Some(raw) = self.lines.next_raw()? {
            if raw.and_then(line::decode).is_ok_and(|line| line.synced >= expected) {
                return damaged(finding);
            }
        }
        Ok(Ending::Torn { bytes: self.lines.offset().saturating_sub(self.at.offset) })
    }
}

/// The first event by itself, where its line is whole. Whether the chain begins with it, only who knows
/// the session can tell.
pub(crate) fn first(file: &dyn DiskFile) -> io::Result<Option<Event>> {
    let line = Lines::new(file, 0).next_raw()?.and_then(|raw| raw.and_then(line::decode).ok());
    Ok(line.map(|line| line.event).filter(|event| event.seq == 1))
}

/// The lines of a file as bytes, each with its newline.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    file: &'a dyn DiskFile,
    /// Where `buffer` begins in the file.
    base: u64,
    buffer: Vec<u8>,
    used: usize,
    ended: bool,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(file: &'a dyn DiskFile, offset: u64) -> Self {
        Self { file, base: offset, buffer: Vec::new(), used: 0, ended: false }
    }

    /// Where the next line begins.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.used as u64
    }

    pub(crate) fn next_raw(&mut self) -> io::Result<Option<Result<&[u8], NotALine>>> {
        let mut searched = 0;
        loop {
            let pending = &self.buffer[self.used..];
            if let Some(at) = pending[searched..].iter().position(|&byte| byte == b'\n') {
                let start = self.used;
                self.used += searched + at + 1;
                return Ok(Some(Ok(&self.buffer[start..self.used])));
            }
            searched = pending.len();
            if searched > MAX_LINE {
                self.skip_line()?;
                return Ok(Some(Err(NotALine::TooLong)));
            }
            if self.ended {
                self.used = self.buffer.len();
                return Ok((searched > 0).then_some(Err(NotALine::Unended)));
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.used);
        self.base += self.used as u64;
        self.used = 0;
        let kept = self.buffer.len();
        self.buffer.resize(kept + CHUNK, 0);
        let got = self.file.read_full(&mut self.buffer[kept..], self.base + kept as u64)?;
        self.buffer.truncate(kept + got);
        self.ended = got < CHUNK;
        Ok(())
    }

    /// Goes to the end of a line that is longer than any of ours, without keeping it.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let pending = &self.buffer[self.used..];
            if let Some(at) = pending.iter().position(|&byte| byte == b'\n') {
                self.used += at + 1;
                return Ok(());
            }
            self.used = self.buffer.len();
            if self.ended {
                return Ok(());
            }
            self.fill()?;
        }
    }
}
