//! Payloads that are too long for a journal line, by content: `blobs/ab/cdef…`, zstd.
//!
//! A blob is on the disk before the line that names it, and is never changed, so the same text is
//! stored once and a name always leads to the text that it was made from. What has become of one that
//! does not is told when it is read; and whoever has the text again makes it whole.

use std::path::{Path, PathBuf};

use segue_core::payload::{INLINE_LIMIT, Payload};

use crate::{
    disk::{Disk, parent},
    error::{At, Error, Result},
};

/// No text of ours is longer: a blob that claims to be is hostile.
const MAX_BLOB: usize = 256 << 20;

/// Puts a text where it belongs: into the line while it is short, into a blob otherwise.
pub fn payload(disk: &dyn Disk, session: &Path, text: &str) -> Result<Payload> {
    if text.len() <= INLINE_LIMIT {
        return Ok(Payload::inline(text));
    }
    let hash = put(disk, session, text.as_bytes())?;
    Ok(Payload::in_blob(hash, text))
}

/// The whole text of a payload.
pub fn text(disk: &dyn Disk, session: &Path, payload: &Payload) -> Result<String> {
    match (&payload.text, &payload.blob) {
        (Some(text), _) => Ok(text.clone()),
        (None, Some(hash)) => Ok(String::from_utf8_lossy(&get(disk, session, hash)?).into_owned()),
        (None, None) => Ok(String::new()),
    }
}

fn put(disk: &dyn Disk, session: &Path, bytes: &[u8]) -> Result<String> {
    let hash = blake3::hash(bytes).to_hex().to_string();
    let path = path(session, &hash);
    let dir = parent(&path);
    let blobs = parent(dir);
    // Every name is synced, also one that is there: whoever made it may have died, or have met an
    // error, before it was. One that is no longer what its name says is written again.
    if disk.exists(&path) && get(disk, session, &hash).is_ok() {
        disk.sync_dir(dir).at(dir)?;
    } else {
        disk.create_dir_all(dir).at(dir)?;
        let packed = zstd::bulk::compress(bytes, 3).at(&path)?;
        disk.replace(&path, &packed).at(&path)?;
    }
    disk.sync_dir(blobs).at(blobs)?;
    disk.sync_dir(session).at(session)?;
    Ok(hash)
}

/// Whether a session's own directory has a blob of this name.
#[must_use]
pub fn is_there(disk: &dyn Disk, session: &Path, hash: &str) -> bool {
    hash.len() == 64 && hash.is_ascii() && disk.exists(&path(session, hash))
}

/// Reads a blob and checks that it is what its name says.
pub fn get(disk: &dyn Disk, session: &Path, hash: &str) -> Result<Vec<u8>> {
    let blob = |what| Error::Blob { dir: session.to_owned(), hash: hash.to_owned(), what };
    if hash.len() != 64 || !hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return Err(blob("has a name that is not a hash"));
    }
    let path = path(session, hash);
    let packed = match disk.read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(blob("is missing"));
        }
        read => read.at(&path)?,
    };
    let bytes = unpack(&packed).ok_or_else(|| blob("can't be unpacked"))?;
    if blake3::hash(&bytes).to_hex().as_str() != hash {
        return Err(blob("is damaged: its content is not what its name says"));
    }
    Ok(bytes)
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let decoder = zstd::Decoder::new(packed).ok()?;
    decoder.take(MAX_BLOB as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= MAX_BLOB).then_some(bytes)
}

fn path(session: &Path, hash: &str) -> PathBuf {
    session.join("blobs").join(&hash[..2]).join(&hash[2..])
}
