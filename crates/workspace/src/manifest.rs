//! What a git tree cannot say about a directory, kept in the message of a snapshot's commit.
//!
//! Promise: what is written is read back exactly, whatever bytes a file name has.
//!
//! Shape: the last line of the message, one JSON object after `segue-snapshot: `:
//!
//! ```json
//! {"v":1,"file":"644","exec":"755","dir":"755","empty":["a/b"],"modes":[["key","600"]],
//!  "nested":[{"path":"sub","commit":"…","link":"gitdir: ../.git/modules/sub\n"}],"skipped":["x"]}
//! ```
//!
//! `file`, `exec` and `dir` are the most frequent permission bits, in octal; `modes` lists what
//! differs from them. `empty` are directories without anything in the tree, `nested` repositories
//! inside of this one with the snapshot of each (`link` is the text of a `.git` that is a file), and
//! `skipped` what could not be read or is too long. Paths are written as [`crate::repo::escape`] does.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::repo::escape;

const MARK: &str = "segue-snapshot: ";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Manifest {
    pub(crate) usual: Usual,
    pub(crate) empty: BTreeSet<Vec<u8>>,
    pub(crate) modes: BTreeMap<Vec<u8>, u32>,
    pub(crate) nested: BTreeMap<Vec<u8>, Nested>,
    pub(crate) skipped: BTreeSet<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usual {
    pub(crate) file: u32,
    pub(crate) exec: u32,
    pub(crate) dir: u32,
}

impl Default for Usual {
    fn default() -> Usual {
        Usual { file: 0o644, exec: 0o755, dir: 0o755 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nested {
    pub(crate) commit: String,
    /// The text of `.git`, where it is a file.
    pub(crate) link: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    v: u32,
    file: String,
    exec: String,
    dir: String,
    empty: Vec<String>,
    modes: Vec<(String, String)>,
    nested: Vec<NestedLine>,
    skipped: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct NestedLine {
    path: String,
    commit: String,
    link: Option<String>,
}

impl Manifest {
    pub(crate) fn file_mode(&self, path: &[u8], exec: bool) -> u32 {
        let usual = if exec { self.usual.exec } else { self.usual.file };
        self.modes.get(path).copied().unwrap_or(usual)
    }

    pub(crate) fn dir_mode(&self, path: &[u8]) -> u32 {
        self.modes.get(path).copied().unwrap_or(self.usual.dir)
    }

    /// The whole line, without a line break.
    pub(crate) fn to_line(&self) -> Result<String, serde_json::Error> {
        let paths = |set: &BTreeSet<Vec<u8>>| -> Vec<String> {
            set.iter().map(|path| escape(path)).collect()
        };
        let line = Line {
            v: 1,
            file: format!("{:o}", self.usual.file),
            exec: format!("{:o}", self.usual.exec),
            dir: format!("{:o}", self.usual.dir),
            empty: paths(&self.empty),
            modes: self.modes.iter().map(|(p, mode)| (escape(p), format!("{mode:o}"))).collect(),
            nested: self
                .nested
                .iter()
                .map(|(path, nested)| NestedLine {
                    path: escape(path),
                    commit: nested.commit.clone(),
                    link: nested.link.clone(),
                })
                .collect(),
            skipped: paths(&self.skipped),
        };
        Ok(format!("{MARK}{}", serde_json::to_string(&line)?))
    }

    /// Out of a commit's message; `None` where there is none, or one that cannot be read.
    pub(crate) fn from_message(message: &[u8]) -> Option<Manifest> {
        let mut lines = message.split(|&b| b == b'\n').rev();
        let text = lines.find_map(|line| line.strip_prefix(MARK.as_bytes()))?;
        let line: Line = serde_json::from_slice(text).ok().filter(|line: &Line| line.v == 1)?;
        let octal = |text: &str| u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
        let paths = |list: Vec<String>| -> Option<BTreeSet<Vec<u8>>> {
            list.iter().map(|path| unescape(path)).collect()
        };
        let nested = line.nested.into_iter().map(|nested| {
            let path = unescape(&nested.path)?;
            Some((path, Nested { commit: nested.commit, link: nested.link }))
        });
        Some(Manifest {
            usual: Usual {
                file: octal(&line.file)?,
                exec: octal(&line.exec)?,
                dir: octal(&line.dir)?,
            },
            empty: paths(line.empty)?,
            modes: line
                .modes
                .iter()
                .map(|(path, mode)| Some((unescape(path)?, octal(mode)?)))
                .collect::<Option<_>>()?,
            nested: nested.collect::<Option<_>>()?,
            skipped: paths(line.skipped)?,
        })
    }
}

/// The way back from [`escape`].
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.split_first()? {
            (b'\\', after) => {
                bytes.push(b'\\');
                rest = after;
            }
            (b'x', after) => {
                let digits = std::str::from_utf8(after.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = after.get(2..)?;
            }
            _ => return None,
        }
    }
    Some(bytes)
}

/// The most frequent mode, so that a different umask does not make every file an exception.
pub(crate) fn most_frequent(modes: impl Iterator<Item = u32>, otherwise: u32) -> u32 {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for mode in modes {
        *counts.entry(mode).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|&(mode, count)| (count, mode == otherwise));
    most.map_or(otherwise, |(mode, _)| mode)
}
