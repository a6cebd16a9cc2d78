//! Stand-ins for what Segue talks to, for its tests only.

pub mod disk;
pub mod env;
pub mod kill;
pub mod model_server;
pub mod vendors;
