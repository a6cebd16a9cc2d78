//! One event as one line of bytes, and back.
//!
//! ```text
//! {"v":1,"seq":41,…,"prev":"16 hex","crc":"8 hex"}\n
//! └──────────── covered by crc ───┘└ exact bytes ─┘
//! ```
//!
//! `crc` stands last and covers every byte before `,"crc":`. The bytes from there to the newline
//! are compared exactly, so that no flipped bit in them goes unseen. `prev` chains a line to the
//! one before it (to the session's id in the first line), so that a lost, doubled, moved or foreign
//! line is found even where its own checksum is right. `synced` says which event was known to be on
//! the disk when this line was written: see [`crate::scan`] for what that decides.

use std::{borrow::Cow, fmt, io::Write};

use jiff::Timestamp;
use segue_core::{
    SessionId,
    event::{Body, Draft, Event, VERSION},
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A longer line is not one of ours: long payloads are in blobs.
pub const MAX_LINE: usize = 1 << 20;

/// `,"crc":"xxxxxxxx"}` and the newline.
const SUFFIX: usize = 19;

/// What chains a line to the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Link([u8; 16]);

impl Link {
    /// The link of a session's first line: a line of another session never fits.
    #[must_use]
    pub fn first(session: SessionId) -> Self {
        Self::to(session.to_string().as_bytes())
    }

    /// The link to a line, given without its newline.
    #[must_use]
    pub fn to(line: &[u8]) -> Self {
        let hash = blake3::hash(line);
        let mut link = [0; 16];
        hex(&hash.as_bytes()[..8], &mut link);
        Self(link)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self(text.as_bytes().try_into().ok()?))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Deserialize)]
struct Read<'a> {
    v: u32,
    seq: u64,
    at: Timestamp,
    synced: u64,
    #[serde(default)]
    turn: Option<u32>,
    #[serde(default, borrow)]
    agent: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: &'a RawValue,
    prev: &'a str,
}

/// Where the next line stands in the chain.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub seq: u64,
    pub prev: Link,
    /// The last event that is known to be on the disk.
    pub synced: u64,
}

/// Appends the line of `draft` to `buffer`, newline included, and returns the link to it.
pub fn encode(
    draft: &Draft,
    place: Place,
    at: Timestamp,
    buffer: &mut Vec<u8>,
) -> serde_json::Result<Link> {
    encode_at(draft, place, &at.to_string(), buffer)
}

/// The same with the time as text: neighbours that are written together share one.
pub(crate) fn encode_at(
    draft: &Draft,
    place: Place,
    at: &str,
    buffer: &mut Vec<u8>,
) -> serde_json::Result<Link> {
    let start = buffer.len();
    // By hand: this is most of what an append costs besides the disk.
    let Place { seq, prev, synced } = place;
    write!(buffer, r#"{{"v":{VERSION},"seq":{seq},"at":"{at}","synced":{synced}"#)
        .map_err(serde_json::Error::io)?;
    if let Some(turn) = draft.turn {
        write!(buffer, r#","turn":{turn}"#).map_err(serde_json::Error::io)?;
    }
    let mut text = |name: &str, text: &str| {
        buffer.extend_from_slice(name.as_bytes());
        serde_json::to_writer(&mut *buffer, text)
    };
    if let Some(agent) = &draft.agent {
        text(r#","agent":"#, agent)?;
    }
    text(r#","kind":"#, draft.body.kind())?;
    if let Some(id) = &draft.id {
        text(r#","id":"#, id)?;
    }
    buffer.extend_from_slice(br#","data":"#);
    draft.body.write_data(buffer)?;
    buffer.extend_from_slice(br#","prev":""#);
    buffer.extend_from_slice(&prev.0);
    buffer.push(b'"');
    let suffix = suffix(&buffer[start..]);
    buffer.extend_from_slice(&suffix);
    Ok(Link::to(&buffer[start..buffer.len() - 1]))
}

/// A line whose own checks are right. Whether it belongs here, only its place in the chain tells.
#[derive(Debug)]
pub struct Line {
    pub v: u32,
    pub synced: u64,
    pub prev: Link,
    /// The link to this line.
    pub link: Link,
    pub event: Event,
}

/// Why bytes are not a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotALine {
    /// There is no newline at the end.
    Unended,
    TooLong,
    /// The checksum, or the frame around it, is wrong.
    Checksum,
    /// The checksum is right, and yet it is not an event: not written by Segue.
    Shape,
}

impl fmt::Display for NotALine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unended => "it has no end",
            Self::TooLong => "it is too long",
            Self::Checksum => "its checksum is wrong",
            Self::Shape => "it is not an event",
        })
    }
}

/// Checks the frame and the checksum of `bytes`, newline included: cheap, and without reading JSON.
pub fn check(bytes: &[u8]) -> Result<(), NotALine> {
    if bytes.last() != Some(&b'\n') {
        return Err(NotALine::Unended);
    }
    if bytes.len() > MAX_LINE {
        return Err(NotALine::TooLong);
    }
    let Some(covered) = bytes.len().checked_sub(SUFFIX) else { return Err(NotALine::Checksum) };
    let (covered, suffix) = bytes.split_at(covered);
    if suffix == self::suffix(covered) { Ok(()) } else { Err(NotALine::Checksum) }
}

/// What stands behind the covered bytes of a line: the checksum in its frame, and the newline.
fn suffix(covered: &[u8]) -> [u8; SUFFIX] {
    let mut suffix = *b",\"crc\":\"00000000\"}\n";
    hex(&crc32c::crc32c(covered).to_be_bytes(), &mut suffix[8..16]);
    suffix
}

/// Lower-case hex, two digits a byte.
fn hex(bytes: &[u8], digits: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Reads one line, newline included.
pub fn decode(bytes: &[u8]) -> Result<Line, NotALine> {
    check(bytes)?;
    let line = &bytes[..bytes.len() - 1];
    let read: Read<'_> = serde_json::from_slice(line).map_err(|_| NotALine::Shape)?;
    Ok(Line {
        v: read.v,
        synced: read.synced,
        prev: Link::parse(read.prev).ok_or(NotALine::Shape)?,
        link: Link::to(line),
        event: Event {
            seq: read.seq,
            at: read.at,
            turn: read.turn,
            agent: read.agent.map(Cow::into_owned),
            id: read.id.map(Cow::into_owned),
            body: Body::read(&read.kind, read.data),
        },
    })
}
