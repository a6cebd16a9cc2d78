//! A journal in memory, and an oracle that says what a scan of its changed bytes must find.
//!
//! The oracle knows the lines that were written and nothing of checksums: a line is whole if it is
//! one of those, byte for byte.

use std::{collections::HashMap, io, path::PathBuf, sync::Arc};

use segue_journal::{
    Durability, Error, Home, Session,
    disk::DiskFile,
    scan::{Ending, Position, Scanner},
    session::Mended,
};
use segue_testkit::disk::SimDisk;

use crate::{
    script::script,
    support::{counting_clock, me, new, said},
};

/// What each line that somebody wrote vouches for, by its bytes.
pub(crate) type Known = HashMap<Vec<u8>, u64>;

/// A journal as it was written, and where its lines are.
pub(crate) struct Journal {
    pub(crate) dir: PathBuf,
    pub(crate) identity: Vec<u8>,
    pub(crate) snapshot: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
    /// The position before each line, and after the last.
    pub(crate) at: Vec<Position>,
    pub(crate) vouches: Known,
}

/// Writes a session, in groups of so many events per sync.
pub(crate) fn written(group: usize) -> Journal {
    let disk = SimDisk::new();
    let home = Home::new(Arc::new(disk.clone()), "/home".into());
    let (mut session, _) = home.create(new("mach es ganz"), &me(), &counting_clock()).unwrap();
    for drafts in script(24).chunks(group) {
        session.append_all(drafts.to_vec(), Durability::Synced).unwrap();
    }
    let dir = session.session().dir().to_owned();
    let id = session.session().id();
    drop(session);
    let files = disk.files();
    let bytes = files[&dir.join("journal.jsonl")].clone();
    let memory = Memory { base: 0, bytes: &bytes };
    let mut scanner = Scanner::new(&memory, Position::start(id));
    let mut at = vec![scanner.position()];
    let mut vouches = HashMap::new();
    while scanner.next_event().unwrap().is_some() {
        let line = &bytes[offset(at.last().unwrap())..offset(&scanner.position())];
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        vouches.insert(line.to_vec(), value["synced"].as_u64().unwrap());
        at.push(scanner.position());
    }
    assert_eq!(scanner.ending().unwrap(), Ending::Clean);
    Journal {
        identity: files[&dir.join("session.json")].clone(),
        snapshot: files[&dir.join("state.json")].clone(),
        dir,
        bytes,
        at,
        vouches,
    }
}

pub(crate) fn offset(position: &Position) -> usize {
    usize::try_from(position.offset).unwrap()
}

/// The part of a file from `base` on.
#[derive(Debug)]
pub(crate) struct Memory<'a> {
    pub(crate) base: usize,
    pub(crate) bytes: &'a [u8],
}

impl DiskFile for Memory<'_> {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        unreachable!("nobody writes to a file that is looked at")
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let at = usize::try_from(offset).unwrap().checked_sub(self.base).unwrap();
        let rest = self.bytes.get(at..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn len(&self) -> io::Result<u64> {
        Ok((self.base + self.bytes.len()) as u64)
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        unreachable!("nobody cuts a file that is looked at")
    }

    fn sync(&mut self) -> io::Result<()> {
        unreachable!("nobody syncs a file that is looked at")
    }
}

/// What a scan must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Clean,
    Torn,
    Damaged,
}

impl End {
    pub(crate) fn of(ending: &Ending) -> Self {
        match ending {
            Ending::Clean => Self::Clean,
            Ending::Torn { .. } => Self::Torn,
            Ending::Damaged(_) => Self::Damaged,
        }
    }
}

impl Journal {
    pub(crate) fn count(&self) -> usize {
        self.at.len() - 1
    }

    pub(crate) fn start(&self, line: usize) -> usize {
        offset(&self.at[line])
    }

    pub(crate) fn line(&self, line: usize) -> &[u8] {
        &self.bytes[self.start(line)..self.start(line + 1)]
    }

    /// The line that a byte is in.
    pub(crate) fn line_at(&self, byte: usize) -> usize {
        self.at.partition_point(|at| offset(at) <= byte) - 1
    }

    /// How many lines of a file whose lines from `first` on are `tail` are the written ones, and
    /// how it ends, by what stands in it: `known` are lines that somebody wrote, here or elsewhere.
    fn oracle(&self, first: usize, tail: &[u8], known: &Known) -> (usize, End) {
        let mut whole = first;
        let mut pieces = tail.split_inclusive(|&byte| byte == b'\n').peekable();
        while whole < self.count() && pieces.next_if(|piece| *piece == self.line(whole)).is_some() {
            whole += 1;
        }
        let vouched = |synced: u64| synced > whole as u64;
        let end = match pieces.next() {
            // The first event is on the disk before anybody can see the session.
            None if whole == 0 => End::Damaged,
            None => End::Clean,
            Some(_) if whole == 0 => End::Damaged,
            Some(piece) if known.contains_key(piece) => End::Damaged,
            Some(_) if pieces.filter_map(|p| known.get(p)).any(|&s| vouched(s)) => End::Damaged,
            Some(_) => End::Torn,
        };
        (whole, end)
    }

    /// Scans the file whose lines from `first` on are `tail`, which differs from what was written
    /// from byte `changed` of the file on.
    pub(crate) fn check(&self, first: usize, tail: &[u8], changed: usize, known: &Known) {
        let (whole, end) = self.oracle(first, tail, known);
        let base = self.start(first);
        let memory = Memory { base, bytes: tail };
        let mut scanner = Scanner::new(&memory, self.at[first]);
        let mut recovered = first;
        while let Some(event) = scanner.next_event().unwrap() {
            recovered += 1;
            assert_eq!(event.seq, recovered as u64);
        }
        let at = offset(&scanner.position());
        let what = || format!("byte {changed}, from line {first}, {} bytes", tail.len());
        assert_eq!(recovered, whole, "{}", what());
        assert_eq!(at, self.start(recovered), "{}", what());
        assert_eq!(tail[..at - base], self.bytes[base..at], "{}", what());
        assert!(recovered >= self.line_at(changed.min(self.bytes.len())), "{}", what());
        let ending = scanner.ending().unwrap();
        assert_eq!(End::of(&ending), end, "{} {ending:?}", what());
        match ending {
            Ending::Clean => assert!(base + tail.len() == at, "{}", what()),
            Ending::Torn { bytes } => assert_eq!(bytes, (base + tail.len() - at) as u64),
            Ending::Damaged(damage) => {
                assert_eq!((damage.line, damage.offset), (recovered as u64 + 1, at as u64));
            }
        }
    }

    /// Puts a file where a session is, opens it for writing, and looks at what that did.
    pub(crate) fn open_for_writing(&self, file: &[u8], known: &Known) {
        let (whole, end) = self.oracle(0, file, known);
        let disk = SimDisk::new();
        let path = self.dir.join("journal.jsonl");
        disk.put(&self.dir.join("session.json"), &self.identity).unwrap();
        disk.put(&path, file).unwrap();
        let before = disk.files();
        let open = || Session::open(Arc::new(disk.clone()), &self.dir).unwrap();
        let session = open();
        assert_eq!((session.state().seq, End::of(session.ending())), (whole as u64, end));
        assert_eq!(disk.files(), before, "looking changes nothing");
        let kept = &file[..self.start(whole)];
        let rest = &file[kept.len()..];
        let mut locked = match session.lock(&me(), counting_clock()) {
            Err(Error::Damaged { .. }) if end == End::Damaged => {
                let mut after = disk.files();
                after.remove(&self.dir.join("lock"));
                assert_eq!(after, before, "what is damaged stays as it is");
                return;
            }
            Ok((locked, mended)) => {
                match (&mended[..], end) {
                    ([], End::Clean) => {}
                    ([Mended::TornTail { bytes, kept_in }], End::Torn) => {
                        assert_eq!(*bytes, rest.len() as u64);
                        assert_eq!(disk.files()[&self.dir.join(kept_in)], rest);
                    }
                    other => panic!("{other:?}"),
                }
                locked
            }
            Err(error) => panic!("{end:?}: {error}"),
        };
        locked.append(said("weiter"), Durability::Synced).unwrap();
        let seq = locked.state().seq;
        assert_eq!(seq, whole as u64 + 1 + u64::from(end == End::Torn));
        drop(locked);
        assert!(disk.files()[&path].starts_with(kept));
        let again = open();
        assert_eq!((again.state().seq, again.ending()), (seq, &Ending::Clean));
    }
}
