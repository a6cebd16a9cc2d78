//! Who speaks next, and when to stop. Every loop writes the same journal and is resumed by the
//! same command.

pub mod keep;
pub mod launch;
pub mod mcp;
pub mod place;
pub mod rewind;
pub mod shift;
pub mod solo;
pub mod worktree;
