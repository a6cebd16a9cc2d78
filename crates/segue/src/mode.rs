//! The ways in which a run can be replayed.

/// How a run is replayed. [`Agent::replay`](crate::Agent::replay) does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// A new run of the recorded steps: no model and no tool is called.
    Cache,
    /// The agent does the work again, told what is recorded, with the files that the run began with.
    Rerun,
    /// Segue's own agent runs again from the start, answered from the recording as long as it asks the
    /// same, and live from where it does not.
    Continue,
}

impl Mode {
    /// As a `session.json` calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Rerun => "rerun",
            Self::Continue => "continue",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
