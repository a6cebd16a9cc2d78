//! What the journal's tests share: a session to create, and a clock that only counts.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use jiff::Timestamp;
use segue_core::{Payload, event::TextWritten, identity::RepoRef};
use segue_journal::{Clock, home::NewSession, lock::Holder};

const START: i64 = 1_794_000_000_000;

pub(crate) fn me() -> Holder {
    Holder { pid: std::process::id(), host: "here".to_owned(), since: time(0) }
}

pub(crate) fn time(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(START + millis).unwrap()
}

/// A clock that goes on by a millisecond each time that somebody looks.
pub(crate) fn counting_clock() -> Clock {
    let looks = AtomicI64::new(0);
    Arc::new(move || time(looks.fetch_add(1, Ordering::Relaxed)))
}

pub(crate) fn new(prompt: &str) -> NewSession {
    NewSession {
        segue: "0".into(),
        ..NewSession::new(
            RepoRef { id: "repo".into(), identity: "/repo".into(), head: None, branch: None },
            "/repo".into(),
            "native".into(),
            prompt.into(),
        )
    }
}

pub(crate) fn said(text: impl Into<String>) -> TextWritten {
    TextWritten { text: Payload::inline(text), partial: false }
}
