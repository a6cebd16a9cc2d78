//! Who speaks next, and when to stop. Every loop writes the same journal and is resumed by the
//! same command.

pub mod accept;
pub mod branch;
pub mod bridge;
pub mod crew;
pub mod keep;
pub mod launch;
pub mod mcp;
mod panel;
pub mod place;
mod rehearsal;
pub mod reproduce;
pub mod review;
pub mod rewind;
pub mod shift;
pub mod tasks;
pub mod tools;
mod work;
pub mod worktree;
