//! What a process of Segue tells its caller when it ends.

/// The exit statuses. They are part of the interface: scripts depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    Failed,
    /// Bad usage, or a choice is needed and there is no terminal to ask on.
    Usage,
    /// Stopped and resumable: a limit or a cap. The last line on stderr is the command that goes on.
    Stopped,
    NoSuchSession,
    /// Another process has the session.
    Busy,
    AgentMissing,
    /// Interrupted by this signal, and resumable.
    Interrupted(u8),
}

impl Exit {
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Stopped => 3,
            Self::NoSuchSession => 4,
            Self::Busy => 5,
            Self::AgentMissing => 127,
            Self::Interrupted(signal) => 128u8.saturating_add(signal),
        }
    }
}
