//! A session as one file, to take to another machine: `segue export`, `segue import`.
//!
//! What it promises: *a bundle is there whole or not at all; an import ends with a session that is
//! byte for byte the one that was exported and whose journal is valid, or with nothing changed; no
//! bundle, however it was made, writes anywhere but into the directory of the session that it
//! brings.*
//!
//! ```text
//! x.segue                        zstd, one frame, with a checksum; in it a tar
//! ├── bundle.json                what is in it, always first           manifest
//! ├── session.json
//! ├── journal.jsonl              the valid lines, up to where they were read
//! ├── blobs/ab/cdef…
//! ├── streams/…
//! ├── resume.json                if there is one
//! ├── journal.torn-42            if there is one
//! ├── git.bundle                 the workspace's refs/segue/<ulid>/*   git
//! ├── git/1.bundle               those of a nested repository
//! └── vendors/<agent>/<id>/…     a vendor's own session files
//! ```
//!
//! [`export()`] writes it. [`import()`] reads it, through a reader (`unpack`) that takes nothing on
//! trust. [`fetch_git`] brings the commits into a repository, and [`remap()`] says where a workspace
//! may be on this machine.

mod compare;
mod error;
mod export;
pub mod foreign;
mod git;
mod import;
mod manifest;
mod names;
mod otel;
mod remap;
mod sound;
mod staging;
mod target;
pub mod tine;
mod unpack;

pub use error::{Error, Result, Why};
pub use export::{ExportOptions, Exported, VendorContent, VendorFile, export};
pub use git::{Fetched, GitPart, History, fetch_git};
pub use import::{ImportOptions, Imported, StagedGit, StagedVendor, import, inspect};
pub use manifest::{FileEntry, GitEntry, GitRef, MANIFEST, Manifest, VERSION, VendorEntry};
pub use remap::{Candidate, Found, remap};

/// How far a long piece of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub stage: Stage,
    /// Bytes, of `total`.
    pub done: u64,
    pub total: u64,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Export: git packs its commits.
    Git,
    /// Export: the files are read for their hashes.
    Hashing,
    /// Export: the files are written into the bundle.
    Writing,
    /// The bundle, or the session, gets its name.
    Placing,
    /// Import: the files are taken out of the bundle.
    Unpacking,
    /// Import: the session's journal is verified.
    Verifying,
}
