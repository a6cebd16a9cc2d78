//! What can go wrong, told apart so that it can be matched.

use std::path::PathBuf;

use segue_core::{event::Reason, steps::NoStep};
use segue_journal::{lock::Holder, steps::StepError};
use segue_loops::{branch::BranchError, launch::LaunchError, place::PlaceError};

use crate::{Run, hire::HireError};

/// What comes of most calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done. A run that was there before is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The agent stopped before it was done: a limit, a cap, somebody who asked it to. All that it
    /// did is in the run, from which it can be resumed.
    #[error("the agent stopped ({reason:?}): {message}")]
    Stopped {
        /// The run as far as it came.
        run: Box<Run>,
        /// Why, for programs.
        reason: Reason,
        /// Why, for people.
        message: String,
    },
    /// No run is meant by that word.
    #[error("there is no run `{word}`: {why}")]
    NoRun {
        /// What was asked for.
        word: String,
        /// There is none, or there are several.
        why: String,
    },
    /// The run has no such step.
    #[error(transparent)]
    NoStep(#[from] NoStep),
    /// The conversation can't be cut there: some calls of the step's reply have no answer.
    #[error(
        "step {index} is inside an unfinished batch of tool calls: some of them have no answer yet"
    )]
    InsideBatch {
        /// The step.
        index: u64,
    },
    /// Nobody can work on nothing: what was asked is empty.
    #[error("the prompt is empty")]
    NoPrompt,
    /// The run was made to be looked at.
    #[error("the run can't be resumed: its manifest says resume: false")]
    NotResumable,
    /// More than one conversation: a crew, a list of tasks, or a reviewer's part of a pair.
    #[error("it is the run of {what}: it can't be left at a step")]
    NotSingle {
        /// What it is.
        what: &'static str,
    },
    /// Only what Segue's own agent has done alone can be answered from a recording: of what others
    /// send to a model, nothing is recorded.
    #[error("{by} took part: only Segue's own agent can be answered from a recording")]
    Unanswerable {
        /// Another agent, or `reviewers`.
        by: String,
    },
    /// Somebody is writing to it: another process, or another [`Run`] that holds it.
    #[error("{} is in use by {holder}", dir.display())]
    Busy {
        /// Where the run is kept.
        dir: PathBuf,
        /// Who has it.
        holder: Holder,
    },
    /// The name can't be given.
    #[error("the name `{name}` can't be given: {why}")]
    Name {
        /// The name.
        name: String,
        /// It is no name, or it is taken.
        why: String,
    },
    /// Nobody can work: not installed, not signed in, no such model.
    #[error(transparent)]
    Hire(#[from] HireError),
    /// See [`crate::guard`].
    #[error("nobody would end what the agent leaves behind: call segue::guard() first in main")]
    NoGuardian,
    /// The directory that the run worked in is not there.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The work could not be begun.
    #[error(transparent)]
    Launch(LaunchError),
    /// A file that can't be read or written as a run.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The run is there, and what it begins with can't be read.
    #[error("{0} can't be read")]
    Unreadable(String),
    /// The disk, or what is on it.
    #[error(transparent)]
    Journal(segue_journal::Error),
    /// The thread that worked has panicked. What it had recorded by then can be resumed.
    #[error("the work has ended in a panic")]
    Panicked,
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<segue_journal::Error> for Error {
    fn from(error: segue_journal::Error) -> Self {
        match error {
            segue_journal::Error::Busy { dir, holder } => Self::Busy { dir, holder },
            error => Self::Journal(error),
        }
    }
}

impl From<segue_view::Error> for Error {
    fn from(error: segue_view::Error) -> Self {
        match error {
            segue_view::Error::Journal(error) => error.into(),
            error => Self::Other(error.to_string()),
        }
    }
}

impl From<BranchError> for Error {
    fn from(error: BranchError) -> Self {
        match error {
            BranchError::Step(error) => error.into(),
            BranchError::Journal(error) => error.into(),
            BranchError::Unreadable(dir) => Self::Unreadable(dir),
            error @ BranchError::Repository { .. } => Self::Other(error.to_string()),
        }
    }
}

impl From<StepError> for Error {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Journal(error) => error.into(),
            StepError::NoStep(error) => Self::NoStep(error),
            StepError::InsideBatch { index } => Self::InsideBatch { index },
        }
    }
}

impl From<LaunchError> for Error {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Journal(error) => error.into(),
            error => Self::Launch(error),
        }
    }
}
