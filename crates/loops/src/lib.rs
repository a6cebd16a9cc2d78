//! Who speaks next, and when to stop. Every loop writes the same journal and is resumed by the
//! same command.

pub mod launch;
pub mod solo;
