//! Bundles with real files and real git: the way there and back, what hostile ones get, and what a
//! kill leaves behind.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod artifacts;
mod bytes;
mod fuzz;
mod git;
mod hostile;
mod kill;
mod origin;
mod round;
mod simulated;
mod support;
mod tine;
mod versions;
