//! What a list shows of a session: the state, and whether a process has it now.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    caps::Cap,
    event::Reason,
    state::{Phase, State},
};

/// Where a session stands, in one word for people and scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Created,
    /// A list of tasks that waits to be begun.
    Prepared,
    Running,
    /// Running by its journal, but no process has it: the one that did has died.
    Crashed,
    /// A crew that nobody watches over: whoever sits at a terminal goes on without.
    Unattended,
    Completed,
    Failed,
    Limit,
    Interrupted,
    AgentCrashed,
    Overloaded,
    Unreachable,
    StreamCut,
    ContextExhausted,
    NotSignedIn,
    Silent,
    Capped(Cap),
    NoCase,
    Empty,
    Discarded,
    Looping,
    Rewound,
    HandedOff,
    Drifted,
    Disk,
    Unknown,
}

impl Status {
    /// `alive`: whether a process holds the session's lock.
    #[must_use]
    pub fn of(state: &State, alive: bool) -> Self {
        match (state.phase, &state.stop) {
            (_, _) if alive => Self::Running,
            (Phase::Created, _) if state.tasks.is_some() => Self::Prepared,
            (Phase::Created, _) => Self::Created,
            (Phase::Running, _) if state.crew.is_some() => Self::Unattended,
            (Phase::Running, _) => Self::Crashed,
            (Phase::Stopped, Some(stop)) => match stop.reason {
                // A task that was done is not any more.
                Reason::Done if has_more(state) => Self::Failed,
                Reason::Done => Self::Completed,
                Reason::Limit => Self::Limit,
                Reason::Interrupted => Self::Interrupted,
                Reason::AgentCrashed => Self::AgentCrashed,
                Reason::Overloaded => Self::Overloaded,
                Reason::Unreachable => Self::Unreachable,
                Reason::StreamCut => Self::StreamCut,
                Reason::ContextExhausted => Self::ContextExhausted,
                Reason::NotSignedIn => Self::NotSignedIn,
                Reason::Silent => Self::Silent,
                Reason::Cap => Self::Capped(stop.cap.unwrap_or(Cap::Unknown)),
                Reason::NoCase => Self::NoCase,
                Reason::Empty => Self::Empty,
                Reason::Discarded => Self::Discarded,
                Reason::Looping => Self::Looping,
                Reason::Rewound => Self::Rewound,
                Reason::HandedOff => Self::HandedOff,
                Reason::Drifted => Self::Drifted,
                Reason::Failed | Reason::Refused => Self::Failed,
                Reason::Disk => Self::Disk,
                Reason::Unknown => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }

    /// Whether a resume without a prompt has something to do. What a person has set aside is gone on
    /// with only where it is named.
    #[must_use]
    pub fn is_resumable(self) -> bool {
        !matches!(self, Self::Completed | Self::Running | Self::Rewound | Self::Discarded)
    }
}

fn has_more(state: &State) -> bool {
    state.tasks.as_ref().is_some_and(|tasks| tasks.upcoming().is_some())
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Created => "created",
            Self::Prepared => "prepared",
            Self::Running => "running",
            Self::Crashed => "crashed",
            Self::Unattended => "unattended",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Limit => "limit",
            Self::Interrupted => "interrupted",
            Self::AgentCrashed => "agent crashed",
            Self::Overloaded => "overloaded",
            Self::Unreachable => "unreachable",
            Self::StreamCut => "stream cut",
            Self::ContextExhausted => "context full",
            Self::NotSignedIn => "not signed in",
            Self::Silent => "silent",
            Self::Capped(Cap::Turns) => "cap:turns",
            Self::Capped(Cap::Iterations) => "cap:iterations",
            Self::Capped(Cap::Reviews) => "cap:reviews",
            Self::Capped(Cap::Steps) => "cap:steps",
            Self::Capped(Cap::WallClock) => "cap:wall_clock",
            Self::Capped(Cap::Tokens) => "cap:tokens",
            Self::Capped(Cap::Cost) => "cap:cost",
            Self::Capped(Cap::Unknown) => "cap",
            Self::NoCase => "no case",
            Self::Empty => "empty answers",
            Self::Discarded => "set aside",
            Self::Looping => "looping",
            Self::Rewound => "rewound",
            Self::HandedOff => "handed off",
            Self::Drifted => "drifted",
            Self::Disk => "disk",
            Self::Unknown => "unknown",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::CrewRaised, state::Crew};

    #[test]
    fn a_crew_without_a_watcher_is_unattended_and_nothing_else_is() {
        let raised = CrewRaised {
            roster: Default::default(),
            project: "/src/app".into(),
            headless: false,
            worktrees: false,
            branch: None,
            ..CrewRaised::default()
        };
        let crew = Crew { raised, ..Crew::default() };
        let mut state = State { phase: Phase::Running, ..State::default() };
        assert_eq!(Status::of(&state, false), Status::Crashed);
        state.crew = Some(crew);
        assert_eq!(Status::of(&state, false), Status::Unattended);
        assert_eq!(Status::of(&state, true), Status::Running);
        assert!(Status::Unattended.is_resumable());
        state.phase = Phase::Created;
        assert_eq!(Status::of(&state, false), Status::Created);
    }
}
