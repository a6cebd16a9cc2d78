//! Reading git's index file.
//!
//! Promise: what it returns is what git would read, or `None` where the file uses something that
//! this reader does not know (a split or a sparse index, a newer version); then git has to be asked.
//!
//! Shape: `DIRC`, version (2, 3 or 4), number of entries; entries sorted by path; extensions. See
//! `git help gitformat-index`.

const VALID: u16 = 0x8000;
const EXTENDED: u16 = 0x4000;
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;

/// A symbolic link, an executable file and a repository, in git's own numbers.
pub(crate) const LINK: u32 = 0o120_000;
pub(crate) const EXEC: u32 = 0o100_755;
pub(crate) const FILE: u32 = 0o100_644;
pub(crate) const REPO: u32 = 0o160_000;

/// The entries of an index, sorted by path as there. All their text lies in one piece.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    id_len: usize,
    /// Of each entry, its id and its path.
    text: Vec<u8>,
    list: Vec<Raw>,
}

#[derive(Debug)]
struct Raw {
    at: usize,
    path_len: usize,
    mode: u32,
    stat: Stat,
    skip: bool,
    doubtful: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) mode: u32,
    pub(crate) id: &'a [u8],
    pub(crate) stat: Stat,
    /// Kept out of the working tree on purpose.
    pub(crate) skip: bool,
    /// Unmerged, promised, or assumed unchanged: not to be taken for the file's content.
    pub(crate) doubtful: bool,
}

impl Entry<'_> {
    pub(crate) fn hex_id(&self) -> String {
        crate::git::hex(self.id)
    }
}

impl Entries {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.list.iter().map(|raw| {
            let text = self.text.get(raw.at..).unwrap_or_default();
            let (id, rest) = text.split_at_checked(self.id_len).unwrap_or_default();
            let path = rest.get(..raw.path_len).unwrap_or_default();
            let Raw { mode, stat, skip, doubtful, .. } = *raw;
            Entry { path, mode, id, stat, skip, doubtful }
        })
    }
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
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Stat {
        Stat {
            mtime: (stat.st_mtime as u32, stat.st_mtime_nsec as u32),
            ctime: (stat.st_ctime as u32, stat.st_ctime_nsec as u32),
            ino: stat.st_ino as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: stat.st_size as u32,
        }
    }
}

/// The entries of an index file.
pub(crate) fn parse(bytes: &[u8], id_len: usize) -> Option<Entries> {
    if bytes.get(..4)? != b"DIRC" {
        return None;
    }
    let version = number(bytes, 4)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let count = number(bytes, 8)? as usize;
    let list = Vec::with_capacity(count.min(bytes.len() / 62));
    let mut entries = Entries { id_len, text: Vec::with_capacity(bytes.len()), list };
    let mut at = 12;
    for _ in 0..count {
        at = entry(bytes, at, version, &mut entries)?;
        // Directories as entries: a sparse index.
        if entries.list.last()?.mode == 0o040_000 {
            return None;
        }
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

/// Adds the entry that begins there. Returns where the next one does.
fn entry(bytes: &[u8], start: usize, version: u32, entries: &mut Entries) -> Option<usize> {
    let field = |n: usize| number(bytes, start + 4 * n);
    let stat = Stat {
        ctime: (field(0)?, field(1)?),
        mtime: (field(2)?, field(3)?),
        ino: field(5)?,
        uid: field(7)?,
        gid: field(8)?,
        size: field(9)?,
    };
    let Entries { id_len, text, list } = entries;
    let mut at = start + 40;
    let place = text.len();
    text.extend_from_slice(bytes.get(at..at + *id_len)?);
    at += *id_len;
    let flags = short(bytes, at)?;
    at += 2;
    let mut more = 0;
    if flags & EXTENDED != 0 {
        more = short(bytes, at)?;
        at += 2;
    }
    let mut rest = at;
    if version == 4 {
        // So much of the path before is cut off; the rest of it is shared.
        let (cut, after) = varint(bytes, at)?;
        let (before, len) = list.last().map_or((0, 0), |raw| (raw.at + *id_len, raw.path_len));
        text.extend_from_within(before..before + len.checked_sub(cut)?);
        rest = after;
    }
    let end = rest + bytes.get(rest..)?.iter().position(|&b| b == 0)?;
    text.extend_from_slice(bytes.get(rest..end)?);
    let stage = flags >> 12 & 3;
    list.push(Raw {
        at: place,
        path_len: text.len() - place - *id_len,
        mode: field(6)?,
        stat,
        skip: more & SKIP_WORKTREE != 0,
        doubtful: stage != 0 || flags & VALID != 0 || more & INTENT_TO_ADD != 0,
    });
    // Before version 4: one to eight zero bytes, up to a multiple of eight.
    Some(if version == 4 { end + 1 } else { start + ((end - start) / 8 + 1) * 8 })
}

/// What `git ls-files -z -v --stage` prints, for an index that cannot be read here.
pub(crate) fn parse_listing(bytes: &[u8], id_len: usize) -> Option<Entries> {
    let mut entries = Entries { id_len, ..Entries::default() };
    for line in bytes.split(|&b| b == 0).filter(|line| !line.is_empty()) {
        let tab = line.iter().position(|&b| b == b'\t')?;
        let mut words = line.get(..tab)?.split(|&b| b == b' ');
        let tag = *words.next()?.first()?;
        let mode = std::str::from_utf8(words.next()?).ok()?;
        let (id, path) = (words.next()?, line.get(tab + 1..)?);
        let at = entries.text.len();
        for pair in id.chunks(2) {
            let pair = std::str::from_utf8(pair).ok()?;
            entries.text.push(u8::from_str_radix(pair, 16).ok()?);
        }
        if entries.text.len() != at + id_len {
            return None;
        }
        entries.text.extend_from_slice(path);
        entries.list.push(Raw {
            at,
            path_len: path.len(),
            mode: u32::from_str_radix(mode, 8).ok()?,
            stat: Stat::default(),
            skip: tag.eq_ignore_ascii_case(&b'S'),
            doubtful: true,
        });
    }
    Some(entries)
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
