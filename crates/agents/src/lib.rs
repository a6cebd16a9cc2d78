//! The agents that Segue can run: its own ([`native`]) and the vendors' programs ([`vendor`]);
//! the same programs at a terminal ([`terminal`]); and what any of them says of its own work
//! ([`report`]).

pub mod case;
pub mod closing;
pub mod native;
pub mod report;
pub mod terminal;
pub mod vendor;
pub mod verdict;
