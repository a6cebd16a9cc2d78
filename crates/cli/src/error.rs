//! What a person is told when a command fails: what happened, why, and what would help.

use std::{fmt, io};

use segue_core::{Exit, tasks::Wrong};
use segue_journal::session::{IDENTITY, JOURNAL};
use segue_loops::launch::LaunchError;
use serde_json::json;

pub(crate) type CommandResult = Result<Exit, CommandError>;

/// An error with its exit status and the commands that help.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) exit: Exit,
    message: String,
    problems: Vec<Wrong>,
    hints: Vec<String>,
}

impl CommandError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), problems: Vec::new(), hints: Vec::new() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// With everything that is wrong in the files that were read, and where.
    pub(crate) fn problems(mut self, problems: Vec<Wrong>) -> Self {
        self.problems.extend(problems);
        self
    }

    /// What happened, without what helps.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The message and what helps, as one line.
    pub(crate) fn short(&self) -> String {
        match self.hints.first() {
            Some(hint) => format!("{} ({hint})", self.message),
            None => self.message.clone(),
        }
    }

    /// The same, with the session that it is about named in the commands that help.
    pub(crate) fn about(mut self, selector: &str) -> Self {
        for hint in &mut self.hints {
            *hint = hint.replace("<session>", selector);
        }
        self
    }

    /// As one JSON object on one line.
    pub(crate) fn to_json(&self) -> String {
        let Self { exit, message, problems, hints } = self;
        let mut error = json!({ "status": exit.code(), "message": message, "hints": hints });
        if !problems.is_empty() {
            error["problems"] = json!(problems);
        }
        json!({ "error": error }).to_string()
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        // At the start of a line, where editors look for a place to jump to.
        for problem in &self.problems {
            write!(f, "\n{problem}")?;
        }
        for hint in &self.hints {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl From<segue_journal::Error> for CommandError {
    fn from(error: segue_journal::Error) -> Self {
        use segue_journal::Error as E;
        let message = error.to_string();
        match &error {
            E::Busy { holder, .. } => {
                let why = format!("the session is in use by {holder}");
                Self::new(Exit::Busy, why).hint("watch it: segue watch <session>")
            }
            E::NotASession { dir } if dir.join(IDENTITY).is_file() => {
                Self::failed(format!("{}: the journal is missing", dir.join(JOURNAL).display()))
            }
            E::NotASession { .. } => Self::new(Exit::NoSuchSession, message).hint("segue list"),
            // Without its first line nothing is certain that could be gone on with.
            E::Damaged { damage, .. } if damage.line <= 1 => {
                Self::failed(message).hint("look closer: segue verify <session>")
            }
            E::Damaged { .. } => Self::failed(message)
                .hint("look closer: segue verify <session>")
                .hint("go on with what is certain, keeping the rest aside: segue verify <session> --repair"),
            E::Newer { .. } => Self::failed(message).hint("install the newer Segue"),
            E::Poisoned { first, .. } => with_io_hint(Self::failed(&message), None, first),
            E::Io { source, .. } => {
                with_io_hint(Self::failed(&message), Some(source.kind()), &source.to_string())
            }
            _ => Self::failed(message).hint("segue doctor"),
        }
    }
}

/// What helps against the usual troubles of a disk.
fn with_io_hint(error: CommandError, kind: Option<io::ErrorKind>, text: &str) -> CommandError {
    let is = |wanted: io::ErrorKind| kind == Some(wanted) || text == wanted.to_string();
    if is(io::ErrorKind::StorageFull) || text.contains("No space left") {
        error.hint(
            "the disk is full: free some space, then `segue resume`; nothing recorded is lost",
        )
    } else if is(io::ErrorKind::ReadOnlyFilesystem) || is(io::ErrorKind::PermissionDenied) {
        error.hint("Segue needs to write to its home: choose another one with --home or SEGUE_HOME")
    } else {
        error.hint("segue doctor")
    }
}

impl From<LaunchError> for CommandError {
    fn from(error: LaunchError) -> Self {
        let message = error.to_string();
        match error {
            LaunchError::Journal(error) => error.into(),
            LaunchError::Workspace { .. } => Self::failed(message)
                .hint("the workspace has moved or is gone: name its new place with --dir"),
            // The numbers are examples; the words around them are exact.
            LaunchError::NoRoom { cap } => Self::new(Exit::Stopped, message)
                .hint(format!("nothing was changed; raise the cap: {} N", cap.flag())),
            LaunchError::StillRunning { .. } => Self::failed(message).hint(
                "they may belong to another user, or hang in the kernel: end them, then resume",
            ),
            LaunchError::Elsewhere { path, branch } => Self::failed(message).hint(format!(
                "nothing was changed; go back to it: git -C {} switch {branch}",
                path.display()
            )),
            LaunchError::Stopped(_) | LaunchError::Worktree(_) => Self::failed(message),
            LaunchError::NoPrice { model } if model.is_empty() => {
                Self::usage(message).hint("name the model with --model")
            }
            LaunchError::NoPrice { model } => Self::usage(message)
                .hint("say what it costs, in dollars per million tokens:")
                .hint(format!("segue config set 'prices.{model}.input' 3"))
                .hint(format!("segue config set 'prices.{model}.output' 15")),
        }
    }
}

impl From<segue::Error> for CommandError {
    fn from(error: segue::Error) -> Self {
        use segue::Error as E;
        let message = error.to_string();
        match error {
            E::Journal(error) => error.into(),
            E::Busy { dir, holder } => segue_journal::Error::Busy { dir, holder }.into(),
            E::Launch(error) => error.into(),
            E::Hire(error) => error.into(),
            E::NoStep(_) | E::InsideBatch { .. } => {
                Self::usage(message).hint("the steps: segue log <session> --steps")
            }
            E::Unreadable(_) => Self::failed(message).hint("segue verify <session>"),
            E::NoRun { .. } => Self::new(Exit::NoSuchSession, message).hint("segue list"),
            E::NotResumable
            | E::NotSingle { .. }
            | E::Unanswerable { .. }
            | E::Name { .. }
            | E::NoPrompt => Self::usage(message),
            _ => Self::failed(message),
        }
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::failed(error.to_string())
    }
}
