//! Segue as a library: runs of coding agents that are never lost.
//!
//! A [`Run`] is one session: everything that was asked, answered and done, on the disk while it
//! happens. An [`Agent`] is somebody who works: a model behind an API, or a vendor's program. What an
//! agent does becomes a run; a run can be loaded, replayed, forked at any of its steps, resumed by
//! the same agent or by another one, compared, and saved as one file.
//!
//! ```no_run
//! use segue::{Agent, Run};
//!
//! # fn main() -> segue::Result<()> {
//! let run = Agent::new("anthropic/claude-sonnet-4-5").run("Mend the failing test").wait()?;
//! println!("{}: {} steps", run.id(), run.steps()?.len());
//!
//! // Again from the recording: no model and no tool is called.
//! let again = run.replay(None)?;
//! again.save("finished-replay.tine")?;
//!
//! // From an earlier step, with somebody else.
//! let other = Agent::vendor("codex").resume(&run, Some("4"), "Try another way").wait()?;
//! println!("{}", run.diff(&other)?.alignment.differences());
//! # Ok(())
//! # }
//! ```
//!
//! Everything can be waited for or awaited: [`Work`] is a future, its [`Work::events`] are a stream,
//! and no runtime is needed for either. The program `segue` is written on these same types.

mod agent;
mod error;
mod file;
pub mod hire;
mod run;
mod runs;
mod work;

pub use agent::Agent;
pub use error::{Error, Result};
pub use run::{Manifest, Run};
pub use runs::Runs;
pub use work::{Events, Work};

pub use segue_core::{
    Event, Permission, SessionId, State,
    caps::Caps,
    event::{Body, Reason, SessionStopped},
    identity::{Accounts, How, Lineage},
    status::Status,
    steps::{Said, Step, StepId, StepKind},
};
pub use segue_loops::{branch, reproduce::Findings};
