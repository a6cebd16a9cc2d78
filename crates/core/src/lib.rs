//! The words of Segue and the pure functions over them.
//!
//! Nothing here reads a clock, a file or the environment: whatever this crate computes can be
//! computed again from the journal, on any machine, with the same result.
//!
//! Read in this order: [`event`] (what can happen), [`state`] (the fold: what it adds up to),
//! [`decide`] (what comes next).

pub mod bridge;
pub mod caps;
pub mod crew;
pub mod decide;
pub mod event;
pub mod exit;
pub mod id;
pub mod identity;
pub mod inbox;
pub mod packet;
pub mod payload;
pub mod permission;
pub mod review;
pub mod schema;
pub mod selector;
pub mod state;
pub mod status;
pub mod steps;
pub mod tasks;
pub mod usage;
pub mod validation;
pub mod wrong;

pub use event::{Body, Draft, Event};
pub use exit::Exit;
pub use id::SessionId;
pub use identity::Identity;
pub use packet::Packet;
pub use payload::Payload;
pub use permission::Permission;
pub use state::State;
pub use wrong::Wrong;
