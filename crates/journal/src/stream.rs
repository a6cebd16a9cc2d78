//! `streams/0007-codex.jsonl`: what an agent printed, byte for byte.
//!
//! Kept for people and for questions that the journal's events leave open. Nothing is decided by
//! it, so it is not synced on the way; it is never cut or rewritten.

use std::path::{Path, PathBuf};

use crate::{
    disk::{Disk, DiskFile},
    error::{At, Result},
};

#[derive(Debug)]
pub struct Stream {
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

impl Stream {
    pub(crate) fn open(disk: &dyn Disk, session: &Path, turn: u32, agent: &str) -> Result<Self> {
        let dir = session.join("streams");
        disk.create_dir_all(&dir).at(&dir)?;
        // An agent may be a whole command; a file name has fewer letters.
        let agent: String = agent
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
            .take(40)
            .collect();
        let path = dir.join(format!("{turn:04}-{agent}.jsonl"));
        let file = disk.append(&path).at(&path)?;
        Ok(Self { file, path })
    }

    pub fn write_line(&mut self, line: &str) -> Result<()> {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        self.file.write_all(&bytes).at(&self.path)
    }
}
