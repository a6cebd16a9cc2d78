//! `shell`: what the model asks for, and how what came of it is told.
//!
//! Nothing is run here. The caller runs `sh -c <command>` in the workspace, feeds what it prints
//! to a [`Capture`] as it comes, and ends it with how the command [`Ended`]. A capture holds
//! 30,000 bytes at most, however much is printed: the start and the end.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::{Outcome, ToolSpec};

/// The most output that the model is shown.
const MAX_OUTPUT: usize = 30_000;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellCall {
    pub command: String,
    pub timeout: Duration,
}

#[derive(Debug, Deserialize)]
pub(super) struct Arguments {
    command: String,
    timeout_ms: Option<u64>,
}

impl Arguments {
    pub(super) fn check(self) -> Result<ShellCall, String> {
        if self.command.trim().is_empty() {
            return Err("the command is empty".to_owned());
        }
        if self.command.contains('\0') {
            return Err("the command has a NUL character".to_owned());
        }
        let timeout = self.timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        let timeout = timeout.clamp(Duration::from_millis(1), MAX_TIMEOUT);
        Ok(ShellCall { command: self.command, timeout })
    }
}

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "shell",
        description: "Run a command with `sh -c` in the workspace, without a terminal and without \
                      input. Gives standard output and standard error together, and the exit \
                      status. Each call starts afresh. What it leaves running is ended with it.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "command": { "type": "string", "description": "What to run." },
                "timeout_ms": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 600_000,
                    "description": "After this the command is ended. Default: 120000.",
                },
            },
            "required": ["command"],
        }),
    }
}

/// How a command came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Exit(i32),
    Signal(i32),
    TimedOut(Duration),
    /// By the user; it did not run to its end.
    Interrupted,
}

/// What a command printed: all of it, or its start and its end.
#[derive(Debug, Default)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Capture {
    const HALF: usize = MAX_OUTPUT / 2;

    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what was printed next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = (Self::HALF - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        let rest = &bytes[room..];
        let rest = &rest[rest.len().saturating_sub(Self::HALF)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(Self::HALF);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// How many bytes were printed in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What was printed, as text, with a note where something was left out.
    #[must_use]
    pub fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let kept = (self.head.len() + tail.len()) as u64;
        if kept == self.total {
            let whole = [self.head.as_slice(), &tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        // Neither half may end in the middle of a character that was whole.
        let head = &self.head[..whole_characters(&self.head)];
        let start = tail.iter().take(3).take_while(|&&byte| byte & 0xc0 == 0x80).count();
        let tail = &tail[start..];
        let left_out = self.total - (head.len() + tail.len()) as u64;
        format!(
            "{}\n… [{left_out} of {} bytes left out] …\n{}",
            String::from_utf8_lossy(head),
            self.total,
            String::from_utf8_lossy(tail),
        )
    }

    /// The result for the model. A status other than 0 is an error.
    #[must_use]
    pub fn finish(&self, ended: Ended) -> Outcome {
        let mut output = self.text();
        let (note, status) = match ended {
            Ended::Exit(status) => (format!("(exit status {status})"), Some(status)),
            Ended::Signal(signal) => (format!("(ended by signal {signal})"), None),
            Ended::TimedOut(after) => {
                let seconds = after.as_secs_f64();
                (format!("(not done after {seconds} s, and ended; it may have done a part)"), None)
            }
            Ended::Interrupted => ("(interrupted; it may have done a part)".to_owned(), None),
        };
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(&note);
        Outcome { output, is_error: status != Some(0), status, touched: Vec::new() }
    }
}

/// How many bytes of `bytes` are left without a character that its end cuts off.
fn whole_characters(bytes: &[u8]) -> usize {
    let back = bytes.iter().rev().take(4).position(|byte| byte & 0xc0 != 0x80);
    let Some(start) = back.map(|back| bytes.len() - 1 - back) else {
        return bytes.len();
    };
    let length = match bytes[start] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    if start + length > bytes.len() { start } else { bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_bounded() {
        let check = |timeout_ms| {
            Arguments { command: "true".into(), timeout_ms }.check().unwrap().timeout.as_millis()
        };
        assert_eq!(check(None), 120_000);
        assert_eq!(check(Some(5)), 5);
        assert_eq!(check(Some(u64::MAX)), 600_000);
        assert_eq!(check(Some(0)), 1);
    }

    #[test]
    fn short_output_is_whole_however_it_came() {
        let mut capture = Capture::new();
        for byte in "grüß 🦀\n".bytes() {
            capture.push(&[byte]);
        }
        let outcome = capture.finish(Ended::Exit(0));
        assert_eq!(outcome.output, "grüß 🦀\n(exit status 0)");
        assert_eq!((outcome.is_error, outcome.status), (false, Some(0)));
        let exact = vec![b'x'; MAX_OUTPUT];
        let mut capture = Capture::new();
        capture.push(&exact);
        assert_eq!(capture.text().len(), MAX_OUTPUT);
    }

    #[test]
    fn long_output_keeps_both_ends_for_every_chunking() {
        let text = "é".repeat(40_000);
        let mut expected = None;
        for chunk in [1, 7, 4096, 14_999, 15_001, 80_000] {
            let mut capture = Capture::new();
            text.as_bytes().chunks(chunk).for_each(|part| capture.push(part));
            let shown = capture.text();
            assert!(!shown.contains('\u{fffd}'), "chunks of {chunk}");
            assert!(shown.contains("bytes left out]"));
            assert!(shown.len() < MAX_OUTPUT + 100);
            assert_eq!(expected.get_or_insert_with(|| shown.clone()), &shown);
        }
        let mut capture = Capture::new();
        capture.push(b"x");
        capture.push(text.as_bytes());
        let shown = capture.text();
        assert!(!shown.contains('\u{fffd}'));
        let left_out = 80_001 - shown.matches('é').count() * 2 - 1;
        assert!(shown.contains(&format!("[{left_out} of 80001 bytes")), "{left_out}");
    }

    #[test]
    fn every_end_is_told() {
        let end = |ended| Capture::new().finish(ended);
        assert!(end(Ended::Exit(3)).is_error);
        assert_eq!(end(Ended::Exit(3)).status, Some(3));
        assert_eq!(end(Ended::Signal(9)).output, "(ended by signal 9)");
        assert!(end(Ended::TimedOut(Duration::from_secs(2))).output.contains("after 2 s"));
        assert!(end(Ended::Interrupted).is_error);
        let mut capture = Capture::new();
        capture.push(b"\xff\xfe ok");
        assert_eq!(capture.text(), "\u{fffd}\u{fffd} ok");
    }
}
