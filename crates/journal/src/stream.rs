//! `streams/0007-codex.jsonl`: what an agent printed, byte for byte.
//!
//! Kept for people and for questions that the journal's events leave open. Nothing is decided by
//! it, so it is not synced on the way; it is never cut or rewritten.

use std::path::{Path, PathBuf};

use crate::{
    disk::{Disk, DiskFile, parent},
    error::{At, Result},
};

/// Which of a program's two voices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// Standard output: `….jsonl`.
    Out,
    /// Standard error: `….err`.
    Err,
}

#[derive(Debug)]
pub struct Stream {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

impl Stream {
    pub(crate) fn open(
        disk: &dyn Disk,
        session: &Path,
        turn: u32,
        agent: &str,
        voice: Voice,
    ) -> Result<Self> {
        let path = path(session, turn, agent, voice);
        let dir = parent(&path);
        disk.create_dir_all(dir).at(dir)?;
        let file = disk.append(&path).at(&path)?;
        Ok(Self { file, path })
    }

    /// How long it is, which is where the next byte goes.
    pub fn len(&self) -> Result<u64> {
        self.file.len().at(&self.path)
    }

    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).at(&self.path)
    }

    pub fn write_line(&mut self, line: &str) -> Result<()> {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        self.write(&bytes)
    }
}

fn path(session: &Path, turn: u32, agent: &str, voice: Voice) -> PathBuf {
    // An agent may be a whole command; a file name has fewer letters.
    let agent: String = agent
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
        .take(40)
        .collect();
    let ending = match voice {
        Voice::Out => "jsonl",
        Voice::Err => "err",
    };
    session.join("streams").join(format!("{turn:04}-{agent}.{ending}"))
}

/// Reads what an agent printed, from an offset on, as much as fits. A stream that is not there is
/// empty: nothing is decided by it.
pub(crate) fn read(
    disk: &dyn Disk,
    session: &Path,
    (turn, agent): (u32, &str),
    from: u64,
    buffer: &mut [u8],
) -> Result<usize> {
    let path = path(session, turn, agent, Voice::Out);
    match disk.open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        opened => opened.at(&path)?.read_full(buffer, from).at(&path),
    }
}
