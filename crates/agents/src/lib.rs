//! The agents that Segue can run: its own ([`native`]) and the vendors' programs ([`vendor`]).

pub mod native;
pub mod vendor;
