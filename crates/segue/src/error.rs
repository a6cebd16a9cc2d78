//! What can go wrong, told apart so that it can be matched.

use std::path::PathBuf;

use segue_core::{event::Reason, steps::NoStep};
use segue_journal::steps::StepError;
use segue_loops::{branch::BranchError, launch::LaunchError};

use crate::hire::HireError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No session is meant by that word.
    #[error("there is no run `{word}`: {why}")]
    NoRun { word: String, why: String },
    #[error(transparent)]
    NoStep(#[from] NoStep),
    /// Some calls of the step's reply have no answer: the conversation can't be cut there.
    #[error("step {index} is inside an unfinished batch of tool calls")]
    InsideBatch { index: u64 },
    /// It was made to be looked at.
    #[error("the run can't be resumed: its manifest says resume: false")]
    NotResumable,
    #[error(transparent)]
    Hire(#[from] HireError),
    /// The agent stopped before it was done. The run is there, and can be resumed.
    #[error("the agent stopped ({reason:?}): {message}")]
    Stopped { reason: Reason, message: String },
    #[error(transparent)]
    Launch(LaunchError),
    #[error(transparent)]
    Journal(#[from] segue_journal::Error),
    /// A file that can't be read or written as a run.
    #[error("{}: {message}", path.display())]
    File { path: PathBuf, message: String },
    #[error("{0}")]
    Other(String),
}

impl From<BranchError> for Error {
    fn from(error: BranchError) -> Self {
        match error {
            BranchError::Step(error) => error.into(),
            BranchError::Journal(error) => Self::Journal(error),
            error => Self::Other(error.to_string()),
        }
    }
}

impl From<StepError> for Error {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Journal(error) => Self::Journal(error),
            StepError::NoStep(error) => Self::NoStep(error),
            StepError::InsideBatch { index } => Self::InsideBatch { index },
        }
    }
}

impl From<LaunchError> for Error {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Journal(error) => Self::Journal(error),
            error => Self::Launch(error),
        }
    }
}
