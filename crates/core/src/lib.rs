//! The words of Segue and the pure functions over them.
//!
//! Nothing here reads a clock, a file or the environment: whatever this crate computes can be
//! computed again from the journal, on any machine, with the same result.

pub mod usage;
