//! A conversation with a program: what is said to it, and what its lines mean.
//!
//! A program that prints a stream of JSON and one that speaks a protocol are the same thing here:
//! both are told something first, and every line that comes back may mean something and may want
//! an answer.

use jiff::Timestamp;
use segue_core::{
    event::ToolStatus,
    usage::{Micros, Usage},
};

use super::Trouble;

/// What is written to the program before it says anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    pub bytes: Vec<u8>,
    /// Whether its standard input is closed after that.
    pub close: bool,
}

impl Opening {
    /// The whole prompt and nothing else.
    #[must_use]
    pub fn prompt(prompt: &str) -> Self {
        Self { bytes: prompt.as_bytes().to_vec(), close: true }
    }

    /// Nothing at all.
    #[must_use]
    pub fn silent() -> Self {
        Self { bytes: Vec::new(), close: true }
    }
}

/// What a line meant.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// What the vendor calls this session.
    Session(String),
    Model(String),
    Version(String),
    /// The next piece of a text that comes whole later. For the eye, and for the case that it
    /// never does.
    Writing(String),
    /// The agent is busy: thinking, or something that has no text.
    Thinking,
    /// A whole text.
    Text(String),
    /// A whole thought.
    Thought(String),
    /// A tool runs from here on. `input` is JSON.
    ToolCalled {
        id: String,
        name: String,
        input: String,
    },
    ToolReturned(ToolEnd),
    /// Tokens since the last of these signals: never a running total.
    Used {
        model: Option<String>,
        usage: Usage,
        cost: Option<Micros>,
    },
    /// What everything since the program's start has cost, in place of any guess at it.
    Cost(Micros),
    Quota {
        window: String,
        used_percent: Option<u32>,
        resets_at: Option<Timestamp>,
    },
    /// The vendor's program will try again by itself, after so long.
    Retrying {
        trouble: Trouble,
        wait: Option<std::time::Duration>,
    },
    /// Where the conversation stands now, as [`Conversation::Fork`](super::Conversation) takes it
    /// for `at`. The last one of a turn counts.
    Mark(String),
    /// A step that did nothing. Too many in a row are a loop.
    Empty,
    /// Something for people.
    Notice(String),
    /// The turn is over; nothing that counts comes after it.
    Ended(Ending),
}

/// The end of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolEnd {
    pub id: String,
    pub status: ToolStatus,
    pub output: String,
    /// A shell command's exit status, where the vendor tells.
    pub exit: Option<i32>,
    /// Files that it wrote, as the vendor names them.
    pub touched: Vec<String>,
}

impl ToolEnd {
    #[must_use]
    pub fn new(id: impl Into<String>, done: bool, output: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            status: if done { ToolStatus::Done } else { ToolStatus::Failed },
            output: output.into(),
            exit: None,
            touched: Vec::new(),
        }
    }

    #[must_use]
    pub fn touching(mut self, files: impl IntoIterator<Item = String>) -> Self {
        self.touched = files.into_iter().collect();
        self
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Finished,
    /// The reply was cut at the model's own output limit.
    Truncated,
    Refused,
    /// It stopped because it was asked to.
    Cancelled,
    Failed(Trouble),
}

/// What came of listening to a line.
#[derive(Debug, Default)]
pub struct Heard {
    pub signals: Vec<Signal>,
    /// To be written to the program.
    pub say: Vec<u8>,
    /// Its standard input is closed after that.
    pub close: bool,
}

impl Heard {
    pub fn push(&mut self, signal: Signal) {
        self.signals.push(signal);
    }

    /// One line of a protocol.
    pub fn say_line(&mut self, line: &str) {
        self.say.extend_from_slice(line.as_bytes());
        self.say.push(b'\n');
    }

    pub fn end(&mut self, ending: Ending) {
        self.push(Signal::Ended(ending));
    }
}

/// A line that is not what the vendor's program usually prints. It is kept and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl From<serde_json::Error> for Unreadable {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

/// The one who speaks with a program for one turn.
pub trait Dialogue {
    fn open(&mut self) -> Opening;

    /// A line of its standard output, without its end. What it does not know it passes over; an
    /// error means that the line is not even of the vendor's format.
    fn line(&mut self, line: &[u8], heard: &mut Heard) -> Result<(), Unreadable>;

    /// A line of its standard error. Nothing may be decided by prose: most have nothing to learn
    /// here.
    fn error_line(&mut self, _line: &str, _heard: &mut Heard) {}

    /// How to ask it to stop, where there is a better way than a signal.
    fn cancel(&mut self, _heard: &mut Heard) {}

    /// The program has ended. Says what only now is certain; nothing where the stream had its end.
    fn exited(&mut self, _exit: Option<i32>, _heard: &mut Heard) {}
}

/// Lines out of pieces, without a copy of what is whole already.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
    /// The line under way is too long to be kept in memory.
    overlong: bool,
}

/// The longest line that is read. A longer one counts as unreadable.
const LONGEST_LINE: usize = 64 << 20;

impl Lines {
    /// Calls `each` with every whole line; `None` stands for one that is too long.
    pub fn push(&mut self, mut piece: &[u8], mut each: impl FnMut(Option<&[u8]>)) {
        while let Some(end) = memchr::memchr(b'\n', piece) {
            let (line, rest) = (&piece[..end], &piece[end + 1..]);
            piece = rest;
            if self.overlong {
                each(None);
            } else if self.rest.is_empty() {
                each(Some(trimmed(line)));
            } else {
                self.rest.extend_from_slice(line);
                each(Some(trimmed(&self.rest)));
            }
            self.overlong = false;
            self.rest.clear();
            // One long line must not hold its memory for ever.
            self.rest.shrink_to(1 << 20);
        }
        if !self.overlong && self.rest.len() + piece.len() > LONGEST_LINE {
            self.overlong = true;
            self.rest = Vec::new();
        }
        if !self.overlong {
            self.rest.extend_from_slice(piece);
        }
    }

    /// What came after the last line end.
    pub fn finish(&mut self, mut each: impl FnMut(Option<&[u8]>)) {
        if self.overlong {
            each(None);
        } else if !self.rest.is_empty() {
            each(Some(trimmed(&self.rest)));
        }
        *self = Self::default();
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&str]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        let mut keep = |line: Option<&[u8]>| {
            found.push(line.map_or("too long".to_owned(), |l| String::from_utf8_lossy(l).into()));
        };
        for piece in pieces {
            lines.push(piece.as_bytes(), &mut keep);
        }
        lines.finish(&mut keep);
        found
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        assert_eq!(all(&["a\nb", "c\r\n\nd"]), ["a", "bc", "", "d"]);
        assert_eq!(all(&["a", "b", "\n"]), ["ab"]);
        assert!(all(&[]).is_empty());
    }

    #[test]
    fn a_line_without_end_is_given_up_and_the_next_one_is_read() {
        let long = "x".repeat(LONGEST_LINE / 2 + 1);
        assert_eq!(all(&[&long, &long, "tail\nnext\n"]), ["too long", "next"]);
    }
}
