//! Segue as a library: runs of coding agents that are never lost.
//!
//! A [`Run`] is one session: everything that was asked, answered and done, on the disk while it
//! happens. An [`Agent`] is somebody who works: a model behind an API, or a vendor's program. What an
//! agent does becomes a run; a run can be loaded, replayed, forked at any of its steps, resumed by
//! the same agent or by another one, compared, and saved as one file.
//!
//! ```no_run
//! use segue::{Agent, Mode};
//!
//! fn main() -> segue::Result<()> {
//!     segue::guard();
//!     let agent = Agent::new("anthropic/claude-sonnet-4-5");
//!     let run = agent.run("Mend the failing test").wait()?;
//!     println!("{}: {} steps", run.id(), run.steps()?.len());
//!
//!     // Again from the recording: no model and no tool is called.
//!     let again = agent.replay(&run, Mode::Cache).wait()?;
//!     again.save("finished-replay.tine")?;
//!
//!     // From an earlier step, with somebody else.
//!     let other = Agent::vendor("codex").resume(&run, 4, "Try another way").wait()?;
//!     println!("{} steps differ", run.diff(&other)?.differences());
//!     Ok(())
//! }
//! ```
//!
//! Everything that takes time can be waited for or awaited: [`Work`] is a future, its
//! [`Work::events`] are a stream and can be looped over, and no runtime is needed for either. What the
//! program `segue` replays, reruns, continues and forks goes through the same [`plan`]s.

#![warn(missing_docs)]

mod agent;
mod at;
mod error;
mod file;
mod guard;
pub mod hire;
mod mode;
pub mod plan;
mod run;
mod runs;
mod work;

pub use agent::Agent;
pub use at::At;
pub use error::{Error, Result};
pub use guard::guard;
pub use mode::Mode;
pub use run::{Manifest, Run};
pub use runs::Runs;
pub use work::{Events, IntoIter, Work};

pub use segue_agents::native::{Secret, Settings};
pub use segue_core::{
    Event, Permission, SessionId, State,
    caps::Caps,
    event::{Body, Reason, SessionStopped},
    identity::{Accounts, How, Lineage},
    status::Status,
    steps::{NoStep, Said, Step, StepId, StepKind, align::Alignment},
};
pub use segue_loops::{branch, keep::Checkpoints, reproduce::Findings};

/// The code of the page about the library is compiled with it.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
pub struct Page;
