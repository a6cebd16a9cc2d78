//! `.tine` files: runs as one portable document, shared with another implementation.
//!
//! What it promises: *what is written here loads and verifies there; what is read is checked in
//! every part before anything of it counts; a session that was made from a file and has not gone on
//! since gives the same document back, digest and signature included.*
//!
//! From the bottom up: [`json`] and [`write`](mod@write) (values, and their canonical bytes),
//! [`wrap`](mod@wrap) (compression), [`artifact`] (the document, its digest and its ids), [`sign`];
//! `told` makes a document of a session, `taken` the events of a session of a document, and `place`
//! puts that session where it belongs.

pub mod artifact;
pub mod json;
mod place;
mod shape;
pub mod sign;
mod taken;
mod told;
pub mod wrap;
pub mod write;

use std::path::Path;

use segue_journal::Session;

pub use artifact::{Artifact, BadArtifact, Finding};
pub use place::{Into, Taken};
pub(crate) use place::{place, written_from};
pub use sign::{Algorithm, CantSign, Signing, State, Trust, Verdict};
pub use wrap::Codec;

use crate::error::{Error, Result};

/// The artifact of a session. One that came from an artifact, and has nothing new, is still that.
pub fn tell(session: &Session) -> Result<Artifact> {
    match place::origin(session)? {
        Some(origin) => origin.current().map_err(|error| Error::Damaged {
            dir: session.dir().to_owned(),
            problem: error.to_string(),
        }),
        None => told::tell(session),
    }
}

/// Reads a file.
pub fn open(path: &Path) -> Result<Artifact> {
    Artifact::open(path).map_err(|error| match error {
        BadArtifact::Io(source) => Error::Io { path: path.to_owned(), source },
        error => Error::BadArtifact { path: path.to_owned(), why: error.to_string() },
    })
}
