//! The durable log under every session: the only thing that has to survive.
//!
//! What it promises: *when an event has been reported, that event and all before it survive a kill,
//! an OS crash and a power cut on a disk that honours flush; after any of them the session opens,
//! shows the longest valid prefix, keeps the torn bytes aside, and never has two writers.*
//!
//! ```text
//! sessions/<repo-id>/<ulid>/
//! ├── session.json      identity, written once           identity of core
//! ├── journal.jsonl     the truth                        line, scan, writer
//! ├── state.json        the fold at some offset, a cache snapshot
//! ├── blobs/ab/cdef…    long payloads, compressed        blob
//! ├── resume.json       what the next agent has to know  session
//! ├── streams/…         a vendor's own output            stream
//! ├── inbox/…           messages for the one writer      inbox
//! └── lock              who writes here now              lock
//! ```
//!
//! From the bottom up: [`disk`] (what a disk can do, so that a simulated one can stand in),
//! [`line`](mod@line) (one event as bytes), [`scan`] (bytes back to events, with findings),
//! [`writer`] (appends, in groups), [`session`] (a directory that can be read, or, locked,
//! written), [`home`] (all sessions of a person).

pub mod base;
pub mod blob;
pub mod disk;
pub mod home;
pub mod inbox;
pub mod limits;
pub mod line;
pub mod lock;
mod packet_file;
pub mod repair;
pub mod reverse;
pub mod scan;
pub mod session;
pub mod snapshot;
pub mod steps;
pub mod stream;
pub mod tail;
pub mod turns;
pub mod writer;

mod error;

pub use disk::{Disk, RealDisk};
pub use error::{Error, Result};
pub use home::Home;
pub use session::{LockedSession, Session};
pub use writer::Durability;

use std::sync::Arc;

use jiff::Timestamp;

/// Where times come from. Tests bring their own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock of this machine, in milliseconds: what a journal line shows.
#[must_use]
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let now = Timestamp::now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    })
}
