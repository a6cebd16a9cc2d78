//! `limits.json`: which agent ran into its limit, and until when. Shared by all sessions of a home.
//!
//! A convenience, never the truth: each session's journal has its own limits. So a file that can't
//! be read is as good as none, and of two that write at once one may win.

use jiff::{SignedDuration, Timestamp};
use segue_core::event::KnownLimit;
use serde::{Deserialize, Serialize};

use crate::{
    error::{At, Error, Result},
    home::Home,
};

/// How long a limit counts whose end was not told.
const UNTOLD: SignedDuration = SignedDuration::from_mins(15);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Ledger {
    v: u32,
    #[serde(default)]
    limits: Vec<KnownLimit>,
}

/// Until when a limit is in force, as far as anybody knows.
#[must_use]
pub fn until(limit: &KnownLimit) -> Timestamp {
    let guess = limit.hit_at.checked_add(UNTOLD).unwrap_or(limit.hit_at);
    limit.resets_at.unwrap_or(guess)
}

impl Home {
    /// The limits that are in force.
    #[must_use]
    pub fn limits(&self, now: Timestamp) -> Vec<KnownLimit> {
        let bytes = self.disk().read(&self.dir().join("limits.json")).unwrap_or_default();
        let ledger: Ledger = serde_json::from_slice(&bytes).unwrap_or_default();
        ledger.limits.into_iter().filter(|limit| until(limit) > now).collect()
    }

    /// The limit of one agent, if it is in force.
    #[must_use]
    pub fn limit_of(&self, agent: &str, now: Timestamp) -> Option<KnownLimit> {
        self.limits(now).into_iter().find(|limit| limit.agent == agent)
    }

    /// Remembers a limit, in place of what was known of this agent, and forgets those that are over.
    pub fn remember_limit(&self, limit: KnownLimit, now: Timestamp) -> Result<()> {
        let mut limits = self.limits(now);
        limits.retain(|known| known.agent != limit.agent);
        limits.push(limit);
        self.write_limits(limits)
    }

    /// An agent answered: whatever was known of its limit is over.
    pub fn forget_limit(&self, agent: &str, now: Timestamp) -> Result<()> {
        let mut limits = self.limits(now);
        let before = limits.len();
        limits.retain(|known| known.agent != agent);
        if limits.len() == before {
            return Ok(());
        }
        self.write_limits(limits)
    }

    fn write_limits(&self, limits: Vec<KnownLimit>) -> Result<()> {
        let path = self.dir().join("limits.json");
        let json = serde_json::to_vec_pretty(&Ledger { v: 1, limits })
            .map_err(|error| Error::json(&path, &error))?;
        self.disk().replace(&path, &json).at(&path)
    }
}
