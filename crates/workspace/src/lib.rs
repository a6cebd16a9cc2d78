//! Git: which repository a session belongs to, what its working tree looks like, and how to bring
//! it back.

pub mod checkpoint;
mod git;
mod index;
mod manifest;
pub mod remote;
pub mod repo;
pub mod restore;
mod scan;
#[cfg(test)]
mod testing;
pub mod worktree;

pub use checkpoint::{Change, Lines, Opened, SnapshotError, Snapshots, Status, Taken, Unable};
pub use git::GitError;
pub use remote::RemoteError;
pub use repo::{Kind, Repo, RepoError, identify};
pub use restore::{Plan, RestoreError, Restored};
pub use scan::{MAX_PLAIN_BYTES, MAX_PLAIN_FILES, ScanError};
