//! One turn of one agent: bytes in, journalled events out.
//!
//! [`supervisor`] is where every event goes through; [`native`] is Segue's own agent on it, and
//! [`vendor`] is any vendor's program.
//! [`guardian`] stands between Segue and every process that an agent is or starts. [`tmux`] shows what
//! goes on.

pub mod agent;
pub mod briefing;
pub mod conversation;
pub mod guardian;
pub mod native;
pub mod order;
pub mod process;
pub mod purse;
pub mod shell;
pub mod signal;
pub mod supervisor;
pub mod tmux;
pub mod trouble;
pub mod vendor;

pub use agent::{Agent, NATIVE};
pub use purse::Purse;
pub use signal::Interrupt;
pub use supervisor::{Halt, Observer, Supervisor};
