//! `state.json`: the fold at some offset of the journal, so that opening costs what is new.
//!
//! A cache. It is believed only while its own checksum is right and the journal still has, just
//! before the offset, the very line that it was made after; else it is dropped and everything is
//! folded from the start. What it says was synced counts as evidence when a journal is damaged.

use std::path::Path;

use segue_core::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    disk::{Disk, DiskFile},
    error::{At, Error, Result},
    line::{Link, MAX_LINE},
    scan::Position,
};

pub const FILE: &str = "state.json";

/// Raised whenever the fold changes its meaning: older snapshots are then folded anew.
const VERSION: u32 = 9;

#[derive(Serialize, Deserialize)]
struct Frame {
    v: u32,
    /// The newest format version among the lines that are folded in.
    lines: u32,
    offset: u64,
    seq: u64,
    link: String,
    state: Box<RawValue>,
    check: String,
}

impl Frame {
    fn expected_check(&self) -> String {
        let Self { v, lines, offset, seq, link, state, .. } = self;
        let text = format!("{v} {lines} {offset} {seq} {link} {}", state.get());
        Link::to(text.as_bytes()).as_str().to_owned()
    }
}

/// The frame as it stands on the disk, if its own checksum is right.
fn frame(disk: &dyn Disk, session: &Path) -> Option<Frame> {
    let frame: Frame = serde_json::from_slice(&disk.read(&session.join(FILE)).ok()?).ok()?;
    (frame.check == frame.expected_check()).then_some(frame)
}

/// Replaces the snapshot with one at `at`, where everything before it is synced.
pub fn write(disk: &dyn Disk, session: &Path, at: Position, state: &State) -> Result<()> {
    let path = session.join(FILE);
    let state = serde_json::value::to_raw_value(state).map_err(|e| Error::json(&path, &e))?;
    let mut frame = Frame {
        v: VERSION,
        lines: at.version,
        offset: at.offset,
        seq: at.seq,
        link: at.link.as_str().to_owned(),
        state,
        check: String::new(),
    };
    frame.check = frame.expected_check();
    let bytes = serde_json::to_vec(&frame).map_err(|e| Error::json(&path, &e))?;
    disk.replace(&path, &bytes).at(&path)
}

/// The snapshot, if there is one to be believed.
#[must_use]
pub fn read(disk: &dyn Disk, session: &Path, journal: &dyn DiskFile) -> Option<(Position, State)> {
    let frame = frame(disk, session).filter(|frame| frame.v == VERSION)?;
    let link = Link::parse(&frame.link)?;
    let line = last_line(journal, frame.offset)?;
    if Link::to(&line) != link {
        return None;
    }
    let state: State = serde_json::from_str(frame.state.get()).ok()?;
    let Frame { offset, seq, lines: version, .. } = frame;
    let at = Position { offset, seq, link, synced: seq, version };
    (state.seq == seq).then_some((at, state))
}

/// What the snapshot says was on the disk, whether or not the journal still agrees.
#[must_use]
pub fn synced(disk: &dyn Disk, session: &Path) -> u64 {
    frame(disk, session).map_or(0, |frame| frame.seq)
}

/// The line that ends at `end`, without its newline.
pub(crate) fn last_line(journal: &dyn DiskFile, end: u64) -> Option<Vec<u8>> {
    let mut window = 4096;
    loop {
        let start = end.saturating_sub(window);
        let mut bytes = vec![0; usize::try_from(end - start).ok()?];
        if journal.read_full(&mut bytes, start).ok()? < bytes.len() || bytes.pop() != Some(b'\n') {
            return None;
        }
        if let Some(at) = bytes.iter().rposition(|&byte| byte == b'\n') {
            return Some(bytes.split_off(at + 1));
        }
        if start == 0 {
            return Some(bytes);
        }
        if window > MAX_LINE as u64 {
            return None;
        }
        window *= 4;
    }
}
