//! Lines of a file, in bounded memory whatever the file holds.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Where a NUL byte makes a file binary.
const PROBE: usize = 8 * 1024;

/// Reads lines and keeps at most so many bytes of each.
#[derive(Debug)]
pub(super) struct Lines {
    reader: BufReader<File>,
    keep: usize,
}

/// One line: what was kept of it, without its end.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) kept: Vec<u8>,
    /// How many bytes of it were not kept.
    pub(super) cut: u64,
    /// How many bytes it takes in the file, its end included.
    pub(super) size: u64,
}

impl Lines {
    pub(super) fn new(file: File, keep: usize) -> Self {
        Self { reader: BufReader::with_capacity(64 * 1024, file), keep }
    }

    /// Looks at the start of the file without taking it.
    pub(super) fn is_binary(&mut self) -> io::Result<bool> {
        let start = self.reader.fill_buf()?;
        Ok(start[..start.len().min(PROBE)].contains(&0))
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Line::default();
        loop {
            let chunk = match self.reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                return Ok((line.size > 0).then_some(line));
            }
            let end = chunk.iter().position(|&byte| byte == b'\n');
            let text = &chunk[..end.unwrap_or(chunk.len())];
            let room = self.keep.saturating_sub(line.kept.len()).min(text.len());
            line.kept.extend_from_slice(&text[..room]);
            line.cut += (text.len() - room) as u64;
            let used = text.len() + usize::from(end.is_some());
            line.size += used as u64;
            self.reader.consume(used);
            if end.is_some() {
                if line.cut == 0 && line.kept.last() == Some(&b'\r') {
                    line.kept.pop();
                }
                return Ok(Some(line));
            }
        }
    }
}

impl Line {
    /// As text, with a note about what was cut.
    pub(super) fn show(&self) -> String {
        let text = String::from_utf8_lossy(&self.kept);
        match self.cut {
            0 => text.into_owned(),
            // A character may have been cut in half; its remains are not of interest.
            cut => format!("{}… [{cut} more bytes]", text.trim_end_matches('\u{fffd}')),
        }
    }
}
