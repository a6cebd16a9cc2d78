//! What another session has recorded, turn by turn: only the turns of its conversation, and nothing
//! that was added to it later.

use segue_core::{
    Body, Event,
    event::{Outcome, ProofReturned, ToolReturned, TurnStarted},
    identity::Recording,
};
use segue_journal::{Result, Session};

/// The recording.
#[derive(Debug)]
pub(super) struct Tape {
    pub(super) source: Session,
    pub(super) recording: Recording,
}

impl Tape {
    /// The recording that answers a session, as long as one does.
    pub(super) fn of(session: &Session) -> Result<Option<Self>> {
        let found = session.recorded()?;
        Ok(found.map(|(source, recording)| Self { source, recording }))
    }

    /// What the other session calls the turn that this one calls `own`.
    pub(super) fn turn(&self, own: u32) -> Option<u32> {
        let mut left = own.checked_sub(1)?;
        for span in &self.recording.path {
            let length = (span.to + 1).saturating_sub(span.from);
            if left < length {
                return Some(span.from + left);
            }
            left -= length;
        }
        None
    }

    /// Whether a turn belongs to the conversation.
    pub(super) fn has(&self, number: u32) -> bool {
        self.recording.path.iter().any(|span| span.from <= number && number <= span.to)
    }

    pub(super) fn last_turn(&self) -> Option<u32> {
        self.recording.path.last().map(|span| span.to)
    }

    /// How a turn ended. One that a fork left within counts as done: the next one was asked there.
    pub(super) fn outcome(&self, own: u32, scene: &Scene) -> Option<Outcome> {
        scene.outcome().or_else(|| self.turn(own + 1).map(|_| Outcome::Finished))
    }

    /// The events of a turn, and those before the next one that belong to none.
    pub(super) fn scene(&self, number: u32) -> Result<Scene> {
        let shared = self.source.state().base().map_or(0, |base| base.turn);
        let mut events = Vec::new();
        self.source.turn(number, |event| {
            if number <= shared || event.seq <= self.recording.seq {
                events.push(event.clone());
            }
            Ok(())
        })?;
        Ok(Scene::of(number, events))
    }
}

/// One turn as it was recorded.
#[derive(Debug, Default)]
pub(super) struct Scene {
    pub(super) number: u32,
    pub(super) events: Vec<Event>,
    pub(super) replies: Vec<Spoken>,
}

/// Where a whole reply begins and ends: its call, and its seal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spoken {
    pub(super) called: usize,
    pub(super) sealed: usize,
}

/// What became of a call.
#[derive(Debug)]
pub(super) enum Given<'a> {
    /// What it gave, and what was reported with it.
    Returned(&'a ToolReturned, Option<&'a Event>),
    /// It was started, and nobody knows.
    Started,
    Nothing,
}

impl Scene {
    fn of(number: u32, events: Vec<Event>) -> Self {
        let (mut called, mut replies) = (0, Vec::new());
        for (at, event) in events.iter().enumerate() {
            match &event.body {
                Body::ModelCalled(_) => called = at,
                Body::ModelReplied(_) => replies.push(Spoken { called, sealed: at }),
                _ => {}
            }
        }
        Self { number, events, replies }
    }

    pub(super) fn opening(&self) -> Option<&TurnStarted> {
        self.events.iter().find_map(|event| match &event.body {
            Body::TurnStarted(started) => Some(started),
            _ => None,
        })
    }

    fn outcome(&self) -> Option<Outcome> {
        self.events.iter().find_map(|event| match &event.body {
            Body::TurnEnded(ended) => Some(ended.outcome),
            _ => None,
        })
    }

    /// What the proof said last of this turn, and with which command.
    pub(super) fn proof(&self) -> Option<(&str, &ProofReturned)> {
        let mut events = self.events.iter().rev();
        let returned = events.find_map(|event| match &event.body {
            Body::ProofReturned(returned) => Some(returned),
            _ => None,
        })?;
        let command = events.find_map(|event| match &event.body {
            Body::ProofStarted(started) => Some(started.command.as_str()),
            _ => None,
        })?;
        Some((command, returned))
    }

    /// What a reply asked for under this id: the tool and its input.
    pub(super) fn call(&self, reply: Spoken, id: &str) -> Option<&Event> {
        let events = self.events.get(reply.called..reply.sealed)?;
        events.iter().find(|event| {
            matches!(event.body, Body::ToolCalled(_)) && event.id.as_deref() == Some(id)
        })
    }

    /// What became of a call of a reply.
    pub(super) fn given(&self, reply: usize, id: &str) -> Given<'_> {
        let from = self.replies.get(reply).map_or(0, |spoken| spoken.sealed);
        let to = self.replies.get(reply + 1).map_or(self.events.len(), |next| next.called);
        let (mut report, mut given) = (None, Given::Nothing);
        for event in &self.events[from..to.max(from)] {
            if event.id.as_deref() != Some(id) {
                continue;
            }
            match &event.body {
                Body::ProgressReported(_) => report = Some(event),
                Body::ToolStarted(_) => given = Given::Started,
                Body::ToolReturned(returned) => return Given::Returned(returned, report),
                _ => {}
            }
        }
        given
    }
}
