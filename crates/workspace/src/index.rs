//! Reading git's index file.
//!
//! Promise: what it returns is what git would read, or `None` where the file uses something that
//! this reader does not know (a split or a sparse index, a newer version); then git has to be asked.
//!
//! Shape: `DIRC`, version (2, 3 or 4), number of entries; entries sorted by path; extensions. See
//! `git help gitformat-index`.

use std::os::unix::fs::MetadataExt as _;

const VALID: u16 = 0x8000;
const EXTENDED: u16 = 0x4000;
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;

/// A symbolic link, an executable file and a repository, in git's own numbers.
pub(crate) const LINK: u32 = 0o120_000;
pub(crate) const EXEC: u32 = 0o100_755;
pub(crate) const FILE: u32 = 0o100_644;
pub(crate) const REPO: u32 = 0o160_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) id: String,
    pub(crate) stat: Stat,
    /// Kept out of the working tree on purpose.
    pub(crate) skip: bool,
    /// Unmerged, promised, or assumed unchanged: not to be taken for the file's content.
    pub(crate) doubtful: bool,
}

/// As much of a file's status as the index keeps: 32 bits of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stat {
    pub(crate) mtime: (u32, u32),
    ctime: (u32, u32),
    ino: u32,
    uid: u32,
    gid: u32,
    size: u32,
}

impl Stat {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "as the index does"
    )]
    pub(crate) fn of(meta: &std::fs::Metadata) -> Stat {
        Stat {
            mtime: (meta.mtime() as u32, meta.mtime_nsec() as u32),
            ctime: (meta.ctime() as u32, meta.ctime_nsec() as u32),
            ino: meta.ino() as u32,
            uid: meta.uid(),
            gid: meta.gid(),
            size: meta.len() as u32,
        }
    }
}

/// The entries of an index file.
pub(crate) fn parse(bytes: &[u8], id_len: usize) -> Option<Vec<Entry>> {
    if bytes.get(..4)? != b"DIRC" {
        return None;
    }
    let version = number(bytes, 4)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let count = number(bytes, 8)? as usize;
    let mut entries: Vec<Entry> = Vec::with_capacity(count.min(bytes.len() / 62));
    let mut at = 12;
    let mut before: Vec<u8> = Vec::new();
    for _ in 0..count {
        let (entry, next) = entry(bytes, at, version, id_len, &before)?;
        before.clone_from(&entry.path);
        // Directories as entries: a sparse index.
        if entry.mode == 0o040_000 {
            return None;
        }
        entries.push(entry);
        at = next;
    }
    while at + id_len < bytes.len() {
        let name = bytes.get(at..at + 4)?;
        // Extensions in capitals may be left unread.
        if !name.first()?.is_ascii_uppercase() {
            return None;
        }
        at += 8 + number(bytes, at + 4)? as usize;
    }
    Some(entries)
}

fn entry(
    bytes: &[u8],
    start: usize,
    version: u32,
    id_len: usize,
    before: &[u8],
) -> Option<(Entry, usize)> {
    let field = |n: usize| number(bytes, start + 4 * n);
    let stat = Stat {
        ctime: (field(0)?, field(1)?),
        mtime: (field(2)?, field(3)?),
        ino: field(5)?,
        uid: field(7)?,
        gid: field(8)?,
        size: field(9)?,
    };
    let mut at = start + 40;
    let id = bytes.get(at..at + id_len)?;
    at += id_len;
    let flags = short(bytes, at)?;
    at += 2;
    let mut more = 0;
    if flags & EXTENDED != 0 {
        more = short(bytes, at)?;
        at += 2;
    }
    let (path, next) = if version == 4 {
        let (strip, after) = varint(bytes, at)?;
        let kept = before.get(..before.len().checked_sub(strip)?)?;
        let end = after + bytes.get(after..)?.iter().position(|&b| b == 0)?;
        ([kept, bytes.get(after..end)?].concat(), end + 1)
    } else {
        let end = at + bytes.get(at..)?.iter().position(|&b| b == 0)?;
        // One to eight zero bytes, up to a multiple of eight.
        (bytes.get(at..end)?.to_vec(), start + ((end - start) / 8 + 1) * 8)
    };
    let stage = flags >> 12 & 3;
    let entry = Entry {
        path,
        mode: field(6)?,
        id: crate::git::hex(id),
        stat,
        skip: more & SKIP_WORKTREE != 0,
        doubtful: stage != 0 || flags & VALID != 0 || more & INTENT_TO_ADD != 0,
    };
    Some((entry, next))
}

/// What `git ls-files -z -v --stage` prints, for an index that cannot be read here.
pub(crate) fn parse_listing(bytes: &[u8]) -> Option<Vec<Entry>> {
    let lines = bytes.split(|&b| b == 0).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let tab = line.iter().position(|&b| b == b'\t')?;
            let mut words = line.get(..tab)?.split(|&b| b == b' ');
            let tag = *words.next()?.first()?;
            let mode = std::str::from_utf8(words.next()?).ok()?;
            Some(Entry {
                path: line.get(tab + 1..)?.to_vec(),
                mode: u32::from_str_radix(mode, 8).ok()?,
                id: crate::git::line(words.next()?),
                stat: Stat::default(),
                skip: tag.eq_ignore_ascii_case(&b'S'),
                doubtful: true,
            })
        })
        .collect()
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes(two.try_into().ok()?))
}

/// The offset encoding of pack files.
fn varint(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)? + usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}
