//! What is wanted of a crew: by people, by files, by agents.

use segue_core::{
    Draft,
    bridge::PERSON,
    event::{MemberEnded, MemberLeft, MessageFailed, MessageSent, Reason, Start as How},
    inbox::{Control, Message},
    state::{Crew, CrewMember as Member},
};
use segue_journal::inbox;
use segue_runner::{Halt, Supervisor, supervisor::stop};

use super::{At, End, Watcher, join};
use crate::keep;

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
            // Whoever raises the crew again must not find that it is to go down.
            if order == Control::Down {
                keep::done_with(&self.all, &waiting)?;
                return self.down().map(Some);
            }
            self.obey(order)?;
            keep::done_with(&self.all, &waiting)?;
        }
        Ok(None)
    }

    pub(super) fn obey(&mut self, order: Control) -> Result<(), Halt> {
        let Some(crew) = self.crew() else { return Ok(()) };
        match order {
            Control::Add { member, role } => self.add(&crew, &member, &role),
            Control::Remove { member } => self.remove(&crew, &member),
            Control::Restart { member, fresh } => self.restart(&crew, &member, fresh),
            Control::Interrupt { member } => {
                self.interrupt(&crew, &member);
                Ok(())
            }
            Control::Attention { from, text } => {
                let text = self.all.payload(&text)?;
                let id = format!("attention-{}", self.all.state().seq);
                let sent = MessageSent { from, to: PERSON.to_owned(), text };
                self.all.commit(Draft::from(sent).about(id)).map(drop)
            }
            Control::Down | Control::Unknown => Ok(()),
        }
    }

    pub(super) fn interrupt(&mut self, crew: &Crew, name: &str) {
        let Some(member) = crew.member(name) else { return };
        match self.members.get_mut(name) {
            Some(At::Terminal(chair)) => {
                if let (Some(pane), Some(room)) = (&member.pane, &self.room) {
                    let _ = room.keys(pane, chair.bench.manners().interrupt);
                    chair.interrupted = true;
                }
            }
            Some(At::Loop(headless)) => headless.interrupt(),
            _ => {}
        }
    }

    /// Ends a member and starts it again: where it was, or with nothing but its prompt.
    pub(super) fn restart(&mut self, crew: &Crew, name: &str, fresh: bool) -> Result<(), Halt> {
        let Some(member) = crew.member(name) else { return Ok(()) };
        match (self.members.get_mut(name), &self.room) {
            (Some(At::Terminal(chair)), Some(room)) => {
                chair.end(&mut self.all, room, member, "restarted", true)?;
                let Some(crew) = self.all.state().crew.clone() else { return Ok(()) };
                let Some(member) = crew.member(name) else { return Ok(()) };
                if fresh {
                    join::first_words(&mut self.all, &self.around, &crew, member, true)?;
                }
                let how = fresh.then_some(How::New);
                chair.start(&mut self.all, &self.around, room, member, how)
            }
            (Some(At::Loop(headless)), _) => {
                headless.end();
                headless.begin_afresh(fresh);
                if fresh {
                    join::first_words(&mut self.all, &self.around, crew, member, true)?;
                }
                ended(&mut self.all, name, "restarted")
            }
            _ => {
                ended(&mut self.all, name, "restarted")?;
                let at = self.place(crew, member)?;
                self.members.insert(name.to_owned(), at);
                Ok(())
            }
        }
    }

    pub(super) fn remove(&mut self, crew: &Crew, name: &str) -> Result<(), Halt> {
        let Some(member) = crew.member(name) else { return Ok(()) };
        self.end_one(member, "removed")?;
        self.members.remove(name);
        let waiting = self.all.state().bridge.waiting_for(name);
        let messages: Vec<String> = waiting.map(|one| one.id.clone()).collect();
        if !messages.is_empty() {
            let reason = "it has left the crew".to_owned();
            self.all.commit(MessageFailed { to: name.to_owned(), messages, reason })?;
        }
        let left = MemberLeft { member: name.to_owned(), reason: "removed".to_owned() };
        self.all.commit(left).map(drop)
    }

    pub(super) fn end_one(&mut self, member: &Member, why: &str) -> Result<(), Halt> {
        match (self.members.get_mut(&member.name), &self.room) {
            (Some(At::Terminal(chair)), Some(room)) => {
                chair.end(&mut self.all, room, member, why, false)?;
                chair.close(self.around.number, member)
            }
            (Some(At::Loop(headless)), _) => {
                headless.end();
                ended(&mut self.all, &member.name, why)
            }
            _ => Ok(()),
        }
    }

    /// Ends everybody. All of it can be brought back.
    pub(super) fn down(&mut self) -> Result<End, Halt> {
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
                headless.end();
            }
        }
    }
}

/// A member does not run, and that is as it should be.
fn ended(all: &mut Supervisor<'_>, member: &str, why: &str) -> Result<(), Halt> {
    let (member, why) = (member.to_owned(), why.to_owned());
    all.commit(MemberEnded { member, why, again_in_ms: None, degraded: false }).map(drop)
}
