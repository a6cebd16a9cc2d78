//! The agents that Segue can run.

pub mod native;
