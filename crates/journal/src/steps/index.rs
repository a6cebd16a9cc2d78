//! `steps.idx`: where each step ends, up to the end of some turn.
//!
//! ```text
//! id 32 · end 8 · seq 8 · turn 4 · batch 4 · kind 1 · flags 1 · crc 4    each step, little-endian
//! count 8 · offset 8 · seq 8 · link 16 · crc 4 · "segueix3"              what it was made of
//! ```
//!
//! A cache, like the snapshot: believed only while the journal has, just before the offset, the line
//! that it was made after, and a step of it while its checksum is right, which is made of its number
//! as well. A step is read where it stands, so finding one costs the same however many
//! there are; and what is made of a long journal goes to the disk while it is made.

use std::{
    io,
    path::{Path, PathBuf},
};

use segue_core::{
    identity::Base,
    steps::{Step, StepId, StepKind},
};

use super::Landmark;
use crate::{
    disk::{Disk, DiskFile, parent},
    line::{Link, decode},
    scan::Position,
    snapshot::last_line,
};

/// The name of the cache.
pub const FILE: &str = "steps.idx";

const RECORD: usize = SAID + 4;
/// What a record says, before its checksum.
const SAID: usize = 58;
const FOOT: usize = 52;
const MAGIC: &[u8; 8] = b"segueix3";

/// Fewer are folded again each time.
pub(super) const WORTH_KEEPING: usize = 512;
/// So many are held before they go to the disk.
const HELD: usize = 2048;

const WHOLE: u8 = 1;
const TURN_END: u8 = 2;

impl Landmark {
    pub(super) fn new(step: &Step, turn: u32, end: u64) -> Self {
        let Step { index, id, seq, batch, kind, whole, .. } = *step;
        Self { index, id, kind, turn, whole, seq, end, batch, turn_end: false }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        let kind = StepKind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or_default();
        let whole = if self.whole { WHOLE } else { 0 };
        let flags = whole | if self.turn_end { TURN_END } else { 0 };
        bytes.extend_from_slice(self.id.bytes());
        bytes.extend_from_slice(&self.end.to_le_bytes());
        bytes.extend_from_slice(&self.seq.to_le_bytes());
        bytes.extend_from_slice(&self.turn.to_le_bytes());
        bytes.extend_from_slice(&self.batch.to_le_bytes());
        bytes.extend_from_slice(&[u8::try_from(kind).unwrap_or_default(), flags]);
        let crc = checksum(self.index, &bytes[start..]);
        bytes.extend_from_slice(&crc.to_le_bytes());
    }

    fn read(index: u64, bytes: &[u8]) -> Option<Self> {
        let (bytes, crc) = bytes.split_at_checked(SAID)?;
        if crc != checksum(index, bytes).to_le_bytes() {
            return None;
        }
        let small = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let flags = *bytes.get(57)?;
        Some(Self {
            index,
            id: StepId::from_bytes(bytes.get(..32)?.try_into().ok()?),
            end: number(bytes, 32)?,
            seq: number(bytes, 40)?,
            turn: small(48)?,
            batch: small(52)?,
            kind: *StepKind::ALL.get(usize::from(*bytes.get(56)?))?,
            whole: flags & WHOLE != 0,
            turn_end: flags & TURN_END != 0,
        })
    }
}

/// Of what stands at a place: moved to another one, it is wrong.
fn checksum(place: u64, said: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&place.to_le_bytes()), said)
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The cache, as far as it is to be believed.
#[derive(Debug)]
pub(super) struct Index {
    file: Box<dyn DiskFile>,
    /// The number of its first step, and how many there are.
    first: u64,
    count: u64,
}

impl Index {
    /// The cache of a session, and up to where in the journal it reaches.
    pub(super) fn open(
        disk: &dyn Disk,
        path: &Path,
        first: u64,
        journal: &dyn DiskFile,
    ) -> Option<(Self, Position)> {
        let file = disk.open(path).ok()?;
        let size = file.len().ok()?.checked_sub(FOOT as u64)?;
        let mut foot = [0; FOOT];
        let whole = file.read_full(&mut foot, size).ok()? == FOOT && foot.ends_with(MAGIC);
        let [count, offset, seq] = [0, 8, 16].map(|at| number(&foot, at));
        let (count, offset, seq) = (count?, offset?, seq?);
        let link = Link::parse(std::str::from_utf8(&foot[24..40]).ok()?)?;
        let sound = foot[40..44] == checksum(first, &foot[..40]).to_le_bytes();
        let fits = whole && sound && count.checked_mul(RECORD as u64) == Some(size);
        if !fits || Link::to(&last_line(journal, offset)?) != link {
            return None;
        }
        Some((Self { file, first, count }, Position { offset, seq, link, synced: 0, version: 0 }))
    }

    /// The number of the first step after it.
    pub(super) fn end(&self) -> u64 {
        self.first + self.count
    }

    /// Some steps from one of them on, fewer where it ends; none where one of them is damaged.
    pub(super) fn read(&self, from: u64, most: usize) -> Option<Vec<Landmark>> {
        let left = usize::try_from(self.end().saturating_sub(from)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; most.min(left) * RECORD];
        self.file.read_full(&mut bytes, (from - self.first) * RECORD as u64).ok()?;
        let marks = (from..).zip(bytes.chunks_exact(RECORD));
        marks.map(|(index, bytes)| Landmark::read(index, bytes)).collect()
    }
}

impl Index {
    /// Whether its step there is the one that another session begins with.
    pub(super) fn ends_as(&self, base: &Base) -> bool {
        let last = base.steps.checked_sub(1).filter(|last| (self.first..self.end()).contains(last));
        let last = last.and_then(|last| self.read(last, 1)?.pop());
        last.is_some_and(|last| last.end == base.offset && base.frontier.contains(&last.id))
    }

    /// The part of it up to the last end of a turn before this place of the journal, and where that part
    /// ends.
    pub(super) fn cut(mut self, end: u64, journal: &dyn DiskFile) -> Option<(Self, Position)> {
        let (mut low, mut high) = (self.first, self.end());
        // The last step that ends before the place: their ends stand in their order.
        while low < high {
            let middle = low + (high - low) / 2;
            match self.read(middle, 1)?.first()?.end <= end {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        while low > self.first {
            let last = self.read(low - 1, 1)?.pop()?;
            if last.turn_end && last.end < end {
                let mut line = last_line(journal, last.end)?;
                let (offset, link) = (last.end, Link::to(&line));
                line.push(b'\n');
                let seq = decode(&line).ok()?.event.seq;
                self.count = low - self.first;
                return Some((self, Position { offset, seq, link, synced: 0, version: 0 }));
            }
            low -= 1;
        }
        None
    }

    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        self.file.write_all(records)?;
        self.count += (records.len() / RECORD) as u64;
        Ok(())
    }

    fn copy_to(&self, new: &mut Self) -> io::Result<()> {
        while new.count < self.count {
            let left = usize::try_from(self.count - new.count).unwrap_or(HELD);
            let mut bytes = vec![0; left.min(HELD) * RECORD];
            self.file.read_full(&mut bytes, new.count * RECORD as u64)?;
            new.append(&bytes)?;
        }
        Ok(())
    }
}

/// What is added to the cache, while the journal is folded.
pub(super) struct Growing<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    before: Option<&'a Index>,
    first: u64,
    /// What is not on the disk, and how much of it is before the end of a turn.
    held: Vec<Landmark>,
    settled: usize,
    at: Option<Position>,
    draft: Option<Draft>,
    /// It can't be written, or is not to be: all is held.
    refused: bool,
}

/// A file that has no name yet that anybody looks for.
struct Draft {
    path: PathBuf,
    index: Index,
}

impl<'a> Growing<'a> {
    pub(super) fn new(
        disk: &'a dyn Disk,
        path: &'a Path,
        first: u64,
        before: Option<&'a Index>,
        kept: bool,
    ) -> Self {
        let (held, settled, at) = (Vec::new(), 0, None);
        Self { disk, path, before, first, held, settled, at, draft: None, refused: !kept }
    }

    pub(super) fn add(&mut self, mark: Landmark) {
        self.held.push(mark);
    }

    /// Everything before this place has been added.
    pub(super) fn turn_end(&mut self, at: Position) {
        let Some(last) = self.held.last_mut() else { return };
        last.turn_end = true;
        self.settled = self.held.len();
        self.at = Some(at);
        if self.settled >= HELD {
            self.write_settled();
        }
    }

    /// Gives the cache its name, where it is worth it: the new one, and what is not in it.
    pub(super) fn finish(mut self) -> (Option<Index>, Vec<Landmark>) {
        if self.draft.is_some() || self.settled >= WORTH_KEEPING {
            self.write_settled();
        }
        let held = std::mem::take(&mut self.held);
        let Some(mut draft) = self.draft.take() else { return (None, held) };
        let named = match self.at {
            Some(at) if !self.refused => self.name(&mut draft, at).is_ok(),
            _ => false,
        };
        // Without its name the next look takes longer, and that is all.
        if !named {
            let _ = self.disk.remove_file(&draft.path);
        }
        (Some(draft.index), held)
    }

    fn name(&self, draft: &mut Draft, at: Position) -> io::Result<()> {
        let mut foot = Vec::with_capacity(FOOT);
        for number in [draft.index.count, at.offset, at.seq] {
            foot.extend_from_slice(&number.to_le_bytes());
        }
        foot.extend_from_slice(at.link.as_str().as_bytes());
        foot.extend_from_slice(&checksum(self.first, &foot).to_le_bytes());
        foot.extend_from_slice(MAGIC);
        draft.index.file.write_all(&foot)?;
        draft.index.file.sync()?;
        self.disk.rename(&draft.path, self.path)?;
        self.disk.sync_dir(parent(self.path))
    }

    fn write_settled(&mut self) {
        if self.refused || self.settled == 0 {
            return;
        }
        match self.written() {
            Ok(()) => {
                self.held.drain(..self.settled);
                self.settled = 0;
            }
            Err(_) => self.refused = true,
        }
    }

    fn written(&mut self) -> io::Result<()> {
        if self.draft.is_none() {
            self.draft = Some(self.begin()?);
        }
        let Some(draft) = &mut self.draft else { return Ok(()) };
        let mut bytes = Vec::with_capacity(self.settled * RECORD);
        self.held[..self.settled].iter().for_each(|mark| mark.write(&mut bytes));
        draft.index.append(&bytes)
    }

    /// A new file with what is known already.
    fn begin(&self) -> io::Result<Draft> {
        let (path, file) = self.disk.create_beside(self.path)?;
        let mut draft = Draft { path, index: Index { file, first: self.first, count: 0 } };
        let copied = self.before.map_or(Ok(()), |before| before.copy_to(&mut draft.index));
        if copied.is_err() {
            let _ = self.disk.remove_file(&draft.path);
        }
        copied.map(|()| draft)
    }
}

impl Drop for Growing<'_> {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            let _ = self.disk.remove_file(&draft.path);
        }
    }
}
