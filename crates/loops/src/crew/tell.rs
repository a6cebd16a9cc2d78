//! Which news of a crew are told to a person.

use std::collections::BTreeMap;

use segue_core::{crew::Occasion, event::Doing, state::Crew};

use super::{Watcher, notify};

/// What people were notified of.
#[derive(Debug, Default)]
pub(super) struct Told {
    doing: BTreeMap<String, Doing>,
    restarts: BTreeMap<String, u64>,
    dead: u64,
    scope: u64,
}

impl Watcher<'_, '_> {
    pub(super) fn notify(&self, what: Occasion, text: &str) {
        if let Some(crew) = self.all.state().crew.as_ref() {
            let notify = &crew.roster().notify;
            notify::tell(notify, &self.around.world, &self.around.name, what, text);
        }
    }

    /// Tells people what is new.
    pub(super) fn tell(&mut self) {
        let Some(crew) = self.crew() else { return };
        for member in &crew.members {
            let what = member.what.as_deref().unwrap_or_default();
            let before = self.told.doing.get(&member.name).copied();
            if before != Some(member.doing) {
                match member.doing {
                    Doing::Waiting => {
                        self.notify(Occasion::Waiting, &format!("{} waits: {what}", member.name));
                    }
                    Doing::Unreachable => {
                        let text = format!("{} can't be reached: {what}", member.name);
                        self.notify(Occasion::Degraded, &text);
                    }
                    Doing::Degraded => {
                        let text = format!("{} is given up: {what}", member.name);
                        self.notify(Occasion::Degraded, &text);
                    }
                    _ => {}
                }
            }
            let restarts = self.told.restarts.get(&member.name).copied().unwrap_or_default();
            if member.restarts > restarts {
                self.notify(Occasion::Exited, &format!("{} ended: {what}", member.name));
            }
        }
        if crew.dead_total > self.told.dead {
            let last = crew.dead.last().map(|letter| letter.reason.as_str()).unwrap_or_default();
            self.notify(Occasion::MessageDead, &format!("a message did not arrive: {last}"));
        }
        if crew.scope_broken > self.told.scope {
            self.notify(Occasion::Scope, "files were written out of bounds: segue crew log");
        }
        self.told.settle(Some(&crew));
    }
}

impl Told {
    pub(super) fn settle(&mut self, crew: Option<&Crew>) {
        let Some(crew) = crew else { return };
        self.doing = crew.members.iter().map(|one| (one.name.clone(), one.doing)).collect();
        self.restarts = crew.members.iter().map(|one| (one.name.clone(), one.restarts)).collect();
        (self.dead, self.scope) = (crew.dead_total, crew.scope_broken);
    }
}
