//! What a vendor's own file remembers, as far as a resume needs it: where it is, and its turns.
//!
//! Compared with the journal it tells what the vendor forgot: the call that was running when it was
//! killed, the prompt of a turn that failed, a text that was half written.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::Lines;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The file that it is in.
    pub path: PathBuf,
    /// How many prompts it has.
    pub prompts: u64,
    /// The turns before the last one, the oldest first. What stands before the first prompt is in
    /// none of them.
    pub earlier: Vec<LastTurn>,
    pub last: LastTurn,
}

/// From one prompt to the next; the last of them, from the last prompt on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastTurn {
    pub prompt: String,
    pub texts: Vec<String>,
    pub calls: Vec<CallMade>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallMade {
    pub id: String,
    pub answered: bool,
}

impl History {
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, ..Self::default() }
    }

    /// A prompt begins a turn.
    pub fn prompt(&mut self, text: impl Into<String>) {
        let next = LastTurn { prompt: text.into(), ..LastTurn::default() };
        let ended = std::mem::replace(&mut self.last, next);
        if self.prompts > 0 {
            self.earlier.push(ended);
        }
        self.prompts += 1;
    }

    pub fn text(&mut self, text: impl Into<String>) {
        self.last.texts.push(text.into());
    }

    pub fn call(&mut self, id: impl Into<String>) {
        self.last.calls.push(CallMade { id: id.into(), answered: false });
    }

    pub fn answer(&mut self, id: &str) {
        if let Some(call) = self.last.calls.iter_mut().find(|call| call.id == id) {
            call.answered = true;
        }
    }
}

/// Reads a file line by line, whatever its length. A torn last line is a line like all others: the
/// reader of lines passes over what it can't read.
pub fn read_lines(path: &Path, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut lines = Lines::default();
    let mut buffer = vec![0; 1 << 16];
    let mut whole = |line: Option<&[u8]>| {
        if let Some(line) = line {
            each(line);
        }
    };
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            got => lines.push(&buffer[..got], &mut whole),
        }
    }
    lines.finish(&mut whole);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_turns_are_kept_and_what_is_before_the_first_is_none() {
        let mut history = History::default();
        history.text("a greeting");
        assert_eq!((history.prompts, history.earlier.len()), (0, 0));
        for n in 1..=3 {
            history.prompt(format!("prompt {n}"));
            history.text(format!("text {n}"));
        }
        let prompts: Vec<&str> = history.earlier.iter().map(|turn| &*turn.prompt).collect();
        assert_eq!((history.prompts, prompts), (3, vec!["prompt 1", "prompt 2"]));
        assert_eq!(history.earlier[0].texts, ["text 1"]);
        assert_eq!(history.last.texts, ["text 3"]);
    }
}
