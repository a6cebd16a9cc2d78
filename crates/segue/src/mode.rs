//! The ways in which a run can be replayed.

/// How a run is replayed. [`Agent::replay`](crate::Agent::replay) does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// A new run of the recorded steps: no model and no tool is called.
    Cache,
    /// The agent does the work again, told what is recorded, with the files that the run began with.
    Rerun,
}

impl Mode {
    /// As `segue replay --mode` calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Rerun => "rerun",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
