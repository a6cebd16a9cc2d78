//! Git: which repository a session belongs to, and what its working tree looks like.

pub mod repo;

pub use repo::{Kind, Repo, RepoError, identify};
