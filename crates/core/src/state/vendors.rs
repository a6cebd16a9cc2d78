//! The vendors' programs: their sessions, and what they spend.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Progress, State};
use crate::{
    event::{AgentStarted, Body, Event, UsageReported},
    usage::Micros,
};

/// The most windows of a quota that the state holds.
const MOST_WINDOWS: usize = 8;

/// One vendor's session: all that is needed to find it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VendorSession {
    pub agent: String,
    /// What the vendor calls it, once that is known.
    pub id: Option<String>,
    pub command: String,
    #[schemars(with = "String")]
    pub cwd: PathBuf,
    #[schemars(with = "String")]
    pub spawned_at: Timestamp,
    pub model: Option<String>,
    pub version: Option<String>,
    /// The last turn that was given to it.
    pub turn: u32,
    /// A rewind left the rest of it behind: this is where it is cut, in the vendor's own words.
    #[serde(default)]
    pub cut_at: Option<String>,
}

impl State {
    pub(super) fn apply_to_vendor(&mut self, event: &Event) {
        match &event.body {
            Body::AgentStarted(started) => self.spawned(event, started),
            Body::AgentIntroduced(told) => {
                if let Some(vendor) = self.vendor_of(event) {
                    let keep = |new: &Option<String>, old: &mut Option<String>| {
                        *old = new.clone().or(old.take());
                    };
                    keep(&told.vendor_session, &mut vendor.id);
                    keep(&told.model, &mut vendor.model);
                    keep(&told.version, &mut vendor.version);
                }
            }
            Body::AgentExited(exited) => {
                self.turn.running = false;
                self.unread_lines += exited.unread_lines;
            }
            Body::UsageReported(reported) => self.used(reported),
            Body::QuotaTold(told) => {
                self.quotas.retain(|known| known.window != told.window);
                self.quotas.truncate(MOST_WINDOWS - 1);
                self.quotas.push(told.clone());
            }
            _ => {}
        }
    }

    fn used(&mut self, reported: &UsageReported) {
        self.usage += reported.usage;
        if reported.settles {
            self.unpriced_calls =
                self.unpriced_calls.saturating_sub(std::mem::take(&mut self.turn.unpriced));
            // The vendor's own figure takes the place of what was guessed.
            let guessed = std::mem::take(&mut self.turn.guessed);
            self.cost.0 = self.cost.0.saturating_sub(guessed.0);
        } else if let Some(cost) = reported.cost_micros {
            self.turn.guessed += cost;
        }
        match reported.cost_micros {
            Some(cost) => self.cost += cost,
            None => {
                self.unpriced_calls += 1;
                self.turn.unpriced += 1;
            }
        }
    }

    /// The vendor's program is about to run: from here on it may have got the prompt.
    fn spawned(&mut self, event: &Event, started: &AgentStarted) {
        let agent = event.agent.clone().unwrap_or_default();
        let before = self.vendors.iter().position(|known| known.agent == agent);
        let before = before.map(|at| self.vendors.swap_remove(at));
        // A new conversation has nothing of the one before, above all not its id.
        let before = before.filter(|known| known.id == started.vendor_session);
        self.vendors.push(VendorSession {
            agent,
            id: started.vendor_session.clone(),
            command: started.command.clone(),
            cwd: started.cwd.clone(),
            spawned_at: event.at,
            model: before.as_ref().and_then(|known| known.model.clone()),
            version: started.version.clone().or(before.and_then(|known| known.version)),
            turn: self.turn.number,
            cut_at: None,
        });
        self.turn.spawns += 1;
        self.turn.stream_from = started.stream_from;
        self.turn.unpriced = 0;
        self.turn.guessed = Micros::default();
        self.turn.running = true;
        // Whatever ran under the program before this one was settled, or ended with it.
        self.turn.unsealed.retain(|call| call.progress == Progress::Returned);
    }

    fn vendor_of(&mut self, event: &Event) -> Option<&mut VendorSession> {
        let agent = event.agent.as_deref()?;
        self.vendors.iter_mut().find(|known| known.agent == agent)
    }
}
