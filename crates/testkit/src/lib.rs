//! Stand-ins for what Segue talks to, for its tests only.

pub mod env;
pub mod disk;
pub mod kill;
pub mod model_server;
