//! What is wanted of a crew: by people, by files, by agents.

use segue_core::{
    Draft,
    bridge::PERSON,
    event::{
        CrewEnding, MemberEnded, MemberLeft, MemberRestarted, MessageSent, Reason, WarningRaised,
    },
    inbox::{Control, Message},
    state::{Crew, CrewMember as Member},
};
use segue_journal::inbox::{self, Waiting};
use segue_runner::{Halt, Supervisor, supervisor::stop};

use super::{At, End, Watcher, join, program, words::first_words};
use crate::keep;

/// What somebody had begun to obey who died before the order was out of the way. The journal knows the
/// last ids only: so this is looked for before anything else is recorded.
pub(super) fn known(all: &Supervisor<'_>) -> Result<Vec<Waiting>, Halt> {
    let session = all.session().session();
    let mut waiting = inbox::waiting(&**session.disk(), session.dir())?;
    waiting.retain(|one| {
        matches!(one.message, Message::Crew { .. }) && all.state().notes.taken_in.contains(&one.id)
    });
    Ok(waiting)
}

impl Watcher<'_, '_> {
    /// Does what people want of the crew.
    pub(super) fn asked(&mut self) -> Result<Option<End>, Halt> {
        let session = self.all.session().session();
        for waiting in inbox::waiting(&**session.disk(), session.dir())? {
            let order = match &waiting.message {
                Message::Crew { order } => order.clone(),
                Message::Stop { .. } => Control::Down,
                _ => continue,
            };
            if order == Control::Down {
                let crew = self.all.state().crew.as_ref();
                let by = crew.filter(|crew| !crew.ending).and_then(|crew| crew.ended_by.as_ref());
                // Whoever raises the crew again must not find that it is to go down.
                if by == Some(&waiting.id) {
                    keep::done_with(&self.all, &waiting)?;
                    continue;
                }
                self.all.commit(CrewEnding { order: Some(waiting.id.clone()) })?;
                return self.down().map(Some);
            }
            self.obey(order, &waiting.id)?;
            keep::done_with(&self.all, &waiting)?;
        }
        Ok(None)
    }

    /// Goes on with orders that were begun.
    pub(super) fn obey_all(&mut self, orders: Vec<Waiting>) -> Result<(), Halt> {
        for waiting in orders {
            if let Message::Crew { order } = &waiting.message {
                self.obey(order.clone(), &waiting.id)?;
                keep::done_with(&self.all, &waiting)?;
            }
        }
        Ok(())
    }

    /// Does what is wanted. `id` is the order's own: whoever died in the middle of it left that in the
    /// journal, and nothing is done or said twice.
    pub(super) fn obey(&mut self, order: Control, id: &str) -> Result<(), Halt> {
        let Some(crew) = self.crew() else { return Ok(()) };
        match order {
            Control::Add { member, role } => match self.add(&crew, &member, &role) {
                // Whoever wanted it finds that under the id of the order.
                Err(Halt::Stop(stop)) => {
                    let refused = WarningRaised { message: stop.message };
                    self.all.commit(Draft::from(refused).about(id)).map(drop)
                }
                added => added,
            },
            Control::Remove { member } => self.remove(&crew, &member),
            Control::Restart { member, fresh } => self.restart(&crew, &member, fresh, id),
            Control::Interrupt { member } => {
                self.interrupt(&crew, &member);
                Ok(())
            }
            Control::Attention { from, text } if !self.is_known(id) => {
                let text = self.all.payload(&text)?;
                let sent = MessageSent { from, to: PERSON.to_owned(), text };
                self.all.commit(Draft::from(sent).about(id)).map(drop)
            }
            Control::Attention { .. } | Control::Down | Control::Unknown => Ok(()),
        }
    }

    fn is_known(&self, id: &str) -> bool {
        self.all.state().notes.taken_in.iter().any(|known| known == id)
    }

    pub(super) fn interrupt(&mut self, crew: &Crew, name: &str) {
        let Some(member) = crew.member(name) else { return };
        match self.members.get_mut(name) {
            Some(At::Terminal(chair)) => {
                if let (Some(pane), Some(room)) = (&member.pane, &self.room) {
                    let _ = room.leave_mode(pane);
                    let _ = room.keys(pane, chair.bench.manners().interrupt);
                    chair.interrupted = true;
                }
            }
            Some(At::Loop(headless)) => headless.interrupt(),
            _ => {}
        }
    }

    /// Ends a member. At the next look it is started again: where it was, or with nothing but its
    /// prompt.
    fn restart(&mut self, crew: &Crew, name: &str, fresh: bool, id: &str) -> Result<(), Halt> {
        let Some(member) = crew.member(name) else { return Ok(()) };
        if !self.is_known(id) {
            match (self.members.get_mut(name), &self.room) {
                (Some(At::Terminal(chair)), Some(room)) => {
                    chair.end(&mut self.all, room, member, "restarted", true)?;
                }
                (Some(At::Loop(headless)), _) => {
                    headless.end(&mut self.all, member)?;
                    ended(&mut self.all, name, "restarted")?;
                }
                _ => {
                    self.end_unplaced(member, "restarted", true)?;
                    let at = self.place(crew, member)?;
                    self.members.insert(name.to_owned(), at);
                }
            }
            let restarted = MemberRestarted { member: name.to_owned(), fresh };
            self.all.commit(Draft::from(restarted).about(id))?;
        }
        match fresh {
            true => first_words(&mut self.all, &self.around, crew, member, Some(id)),
            false => Ok(()),
        }
    }

    pub(super) fn remove(&mut self, crew: &Crew, name: &str) -> Result<(), Halt> {
        let Some(member) = crew.member(name) else { return Ok(()) };
        self.end_one(member, "removed")?;
        self.members.remove(name);
        let left = MemberLeft { member: name.to_owned(), reason: "removed".to_owned() };
        self.all.commit(left).map(drop)
    }

    pub(super) fn end_one(&mut self, member: &Member, why: &str) -> Result<(), Halt> {
        match (self.members.get_mut(&member.name), &self.room) {
            (Some(At::Terminal(chair)), Some(room)) => {
                chair.end(&mut self.all, room, member, why, false)?;
                chair.close(self.around.number, member, why)
            }
            (Some(At::Loop(headless)), _) => {
                headless.end(&mut self.all, member)?;
                ended(&mut self.all, &member.name, why)
            }
            _ => self.end_unplaced(member, why, false),
        }
    }

    /// Ends one whom nobody can watch over: it may run all the same.
    fn end_unplaced(&mut self, member: &Member, why: &str, keep_pane: bool) -> Result<(), Halt> {
        let own = join::own_session(self.all.session().session(), member);
        if let Some(room) = &self.room {
            program::end_program(room, member, own.as_ref(), keep_pane);
        }
        ended(&mut self.all, &member.name, why)
    }

    /// Ends everybody. All of it can be brought back. That it is to be done is recorded before.
    pub(super) fn down(&mut self) -> Result<End, Halt> {
        let session = self.all.session().session();
        for waiting in inbox::waiting(&**session.disk(), session.dir())? {
            let down = Message::Crew { order: Control::Down };
            if waiting.message == down || matches!(waiting.message, Message::Stop { .. }) {
                keep::done_with(&self.all, &waiting)?;
            }
        }
        for member in self.crew().map(|crew| crew.members).unwrap_or_default() {
            self.end_one(&member, "crew down")?;
        }
        if let Some(room) = &self.room {
            let _ = room.close();
        }
        let stopped = stop(Reason::Interrupted, "the crew was taken down");
        self.all.commit(stopped.clone())?;
        Ok(End::Down(stopped))
    }

    /// The watcher goes: whoever works without a terminal stops with it, all others go on.
    pub(super) fn leave(&mut self) {
        for at in self.members.values_mut() {
            if let At::Loop(headless) = at {
                headless.stop();
            }
        }
    }
}

/// A member does not run, and that is as it should be.
fn ended(all: &mut Supervisor<'_>, member: &str, why: &str) -> Result<(), Halt> {
    let (member, why) = (member.to_owned(), why.to_owned());
    all.commit(MemberEnded { member, why, again_in_ms: None, degraded: false }).map(drop)
}
