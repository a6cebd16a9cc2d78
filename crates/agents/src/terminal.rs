//! The vendors' programs at a terminal, with a person or a supervisor in front of them.
//!
//! Headless, a program says what it does in lines for machines ([`vendor`](crate::vendor)). At a
//! terminal there is a screen for people, and what is said is typed. So for each vendor there is one
//! more translator, which answers: how is the program started there ([`Terminal::call`]), what does
//! its screen say ([`Terminal::sight`]), how does one type into it ([`Terminal::manners`],
//! [`Terminal::unsent`]), and which of the vendor's conversations is it ([`Terminal::identify`]).
//!
//! Like the adapters, these start no process, write no file and decide nothing. They promise one
//! thing: whatever looks like a question to a person is [`Sight::Waiting`], never [`Sight::Idle`],
//! since a prompt that is typed into a dialog answers it.

mod claude;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod opencode;
mod process;
mod screen;
mod words;

use std::{fmt::Debug, path::Path, time::Duration};

use jiff::Timestamp;
use segue_core::Permission;

pub use self::{
    claude::Claude, codex::Codex, copilot::Copilot, cursor::Cursor, gemini::Gemini,
    opencode::OpenCode, screen::Screen, words::Words,
};
pub use crate::vendor::Conversation;
use crate::vendor::{Call, Job, ToolServer, World};

/// Every vendor whose terminal is known, in the order of the tables.
pub const ALL: &[&dyn Terminal] = &[&Claude, &Codex, &Gemini, &Copilot, &Cursor, &OpenCode];

/// The terminal of a vendor, by the name on its card.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Terminal> {
    ALL.iter().copied().find(|terminal| terminal.name() == name)
}

/// What a program is doing, as far as its screen tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// There is nothing to type into yet.
    Starting,
    /// A prompt would be taken.
    Idle,
    Busy,
    /// For a person: a question of any kind, and what it asks, in one short line.
    Waiting(String),
}

impl Sight {
    /// How long what it asks may be, in characters.
    pub const QUESTION: usize = 120;

    fn waiting(question: &str) -> Self {
        // Far to the right of it there may be keys for the answer.
        let question = question.split("    ").next().unwrap_or_default().trim_end();
        Self::Waiting(question.chars().take(Self::QUESTION).collect())
    }
}

/// What is said of a question whose words were not found.
const ASKS: &str = "It has a question.";

/// How one types into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manners {
    /// Between the paste and the Enter that sends it.
    pub gap: Duration,
    /// Keys by tmux's names that end a running turn, in order.
    pub interrupt: &'static [&'static str],
    /// Keys that empty the input box.
    pub clear: &'static [&'static str],
}

/// Who is started.
#[derive(Clone, Copy, Debug)]
pub struct Sitting<'a> {
    pub conversation: Conversation<'a>,
    pub cwd: &'a Path,
    pub model: Option<&'a str>,
    /// Here somebody can be asked, so the words mean: `read-only` changes nothing, `edit` asks before
    /// anything but an edit of the workspace, `full` does not ask.
    pub permission: Permission,
    /// Flags that the user gave for the vendor's program, passed on unread.
    pub extra: &'a [String],
    pub world: &'a World,
    /// Where the files of [`Call::file`] will be.
    pub files: &'a Path,
    /// Our own tools.
    pub tools: Option<ToolServer<'a>>,
}

impl<'a> Sitting<'a> {
    /// The same for an adapter, as a job whose prompt is typed later.
    fn job(&self) -> Job<'a> {
        Job {
            prompt: "",
            cwd: self.cwd,
            conversation: self.conversation,
            permission: self.permission,
            model: self.model,
            extra: self.extra,
            world: self.world,
            files: self.files,
            tools: self.tools,
        }
    }
}

/// A program that sits in its pane.
#[derive(Clone, Copy, Debug)]
pub struct Seated<'a> {
    /// The pane's process.
    pub pid: u32,
    pub cwd: &'a Path,
    /// When it was started.
    pub since: Timestamp,
    /// What was said to it first, if anything was.
    pub first_prompt: Option<&'a str>,
    pub world: &'a World,
    /// The conversations that others have.
    pub taken: &'a [String],
}

impl Seated<'_> {
    /// The one that fits and is nobody else's; none where nobody can tell which.
    fn only(&self, mut fitting: Vec<String>) -> Option<String> {
        fitting.retain(|id| !self.taken.contains(id));
        <[String; 1]>::try_from(fitting).ok().map(|[id]| id)
    }
}

/// The questions.
pub trait Terminal: Debug + Send + Sync {
    /// The name on the vendor's card.
    fn name(&self) -> &'static str;

    /// Arguments with which its program makes a conversation and prints its id, for one that takes
    /// no id of ours.
    fn makes_id(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Arguments, environment and files for the program at a terminal, without a prompt: prompts
    /// are typed.
    fn call(&self, sitting: &Sitting<'_>) -> Call;

    /// Whether the id of [`Conversation::New`] is really the conversation's.
    fn own_id(&self) -> bool;

    fn sight(&self, screen: &Screen<'_>) -> Sight;

    fn manners(&self) -> Manners;

    /// The vendor's id of the conversation that a program has open: by its process, else by
    /// directory, time and what was said to it first. Never "the newest".
    fn identify(&self, who: &Seated<'_>) -> Option<String>;

    /// Whether [`identify`](Self::identify) says which one is open now, also after a person turned to
    /// another one.
    fn knows_open(&self) -> bool {
        false
    }

    /// Whether its conversations can be read.
    fn keeps_record(&self) -> bool {
        true
    }

    /// Whether the input box still has what was typed, so that it takes another Enter; `None` where
    /// that can't be told.
    fn unsent(&self, _screen: &Screen<'_>, _first_line: &str) -> Option<bool> {
        None
    }
}

#[cfg(test)]
mod tests;
