//! Everything that happens in a session goes through here: journal first, then the world.
//!
//! The order is law. What something irreversible follows from is synced before it: the prompt and
//! the intent to call before the model is called, the reply before its tools run, the intent to run
//! a tool before it runs, its result before the next call. What is shown to a person is in the
//! journal already.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use segue_core::{
    Packet, Payload, State,
    caps::Cap,
    event::{
        Body, Cause, Draft, Event, Outcome, Reason, SessionStopped, TurnEnded, TurnStarted,
        WarningRaised,
    },
};
use segue_journal::{Clock, Durability, LockedSession};

use crate::{purse::Purse, signal::Interrupt};

/// How long a wait goes on before it looks again whether it was asked to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Why the work does not go on.
#[derive(Debug)]
pub enum Halt {
    /// A stop to be recorded; the session can be resumed.
    Stop(Box<SessionStopped>),
    /// The journal can't be written: nothing more may happen.
    Journal(segue_journal::Error),
}

impl From<segue_journal::Error> for Halt {
    fn from(error: segue_journal::Error) -> Self {
        Self::Journal(error)
    }
}

impl From<SessionStopped> for Halt {
    fn from(stop: SessionStopped) -> Self {
        Self::Stop(Box::new(stop))
    }
}

/// A stop with its reason and what to tell people.
#[must_use]
pub fn stop(reason: Reason, message: impl Into<String>) -> SessionStopped {
    SessionStopped {
        reason,
        agent: None,
        cap: None,
        signal: None,
        resets_at: None,
        message: message.into(),
        hint: None,
    }
}

/// Who watches a run: a terminal, a JSON stream, or nobody.
pub trait Observer {
    /// An event that is in the journal.
    fn event(&mut self, event: &Event);
    /// An event of one of the session's parts: a reviewer's, in its own journal.
    fn aside(&mut self, _who: &str, _event: &Event) {}
    /// What goes on right now and is not in the journal. For the eye only.
    fn progress(&mut self, _what: Activity<'_>) {}
}

/// What is going on between two events.
#[derive(Clone, Copy, Debug)]
pub enum Activity<'a> {
    /// The model has begun to answer; this is the newest piece.
    Answering(&'a str),
    Thinking,
    /// Waiting until the next attempt.
    Waiting(Duration),
    /// Waiting until a limit is over.
    Limited(Duration),
    Running(&'a str),
}

/// What a turn begins with.
#[derive(Debug)]
pub struct Opening<'a> {
    pub prompt: &'a str,
    pub cause: Cause,
    /// What is told in place of the prompt alone.
    pub briefing: Option<&'a str>,
    /// What it answers, where the question has a name.
    pub question: Option<String>,
    /// The messages that are part of the prompt.
    pub messages: Vec<String>,
    /// The conversation begins with it.
    pub fresh: bool,
}

/// One session at work.
pub struct Supervisor<'a> {
    session: LockedSession,
    clock: Clock,
    interrupt: Interrupt,
    observer: &'a mut dyn Observer,
    /// Where others work beside it under the same caps.
    purse: Option<Purse>,
}

impl std::fmt::Debug for Supervisor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("session", &self.session).finish_non_exhaustive()
    }
}

impl<'a> Supervisor<'a> {
    pub fn new(
        session: LockedSession,
        clock: Clock,
        interrupt: Interrupt,
        observer: &'a mut dyn Observer,
    ) -> Self {
        Self { session, clock, interrupt, observer, purse: None }
    }

    /// It spends together with others.
    #[must_use]
    pub fn sharing(self, purse: Option<Purse>) -> Self {
        Self { purse, ..self }
    }

    #[must_use]
    pub fn state(&self) -> &State {
        self.session.state()
    }

    #[must_use]
    pub fn session(&self) -> &LockedSession {
        &self.session
    }

    /// Who works: on the open turn, or on the next one.
    #[must_use]
    pub fn agent(&self) -> &str {
        let state = self.state();
        if state.turn.open { &state.turn.agent } else { state.agent() }
    }

    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Records what survives a kill of Segue, and shows it.
    pub fn note(&mut self, draft: impl Into<Draft>) -> Result<Event, Halt> {
        self.record(vec![draft.into()], Durability::Soon).map(one)
    }

    /// Records what something irreversible follows from: it is on the disk when this returns.
    pub fn commit(&mut self, draft: impl Into<Draft>) -> Result<Event, Halt> {
        self.record(vec![draft.into()], Durability::Synced).map(one)
    }

    /// Records several events that survive a kill of Segue.
    pub fn note_all(&mut self, drafts: Vec<Draft>) -> Result<Vec<Event>, Halt> {
        self.record(drafts, Durability::Soon)
    }

    /// Records several events with one sync.
    pub fn commit_all(&mut self, drafts: Vec<Draft>) -> Result<Vec<Event>, Halt> {
        self.record(drafts, Durability::Synced)
    }

    fn record(&mut self, drafts: Vec<Draft>, durability: Durability) -> Result<Vec<Event>, Halt> {
        let before = Purse::spent(self.state());
        let events = self.session.append_all(drafts, durability)?;
        if let Some(purse) = &self.purse {
            purse.pay(before, Purse::spent(self.state()));
        }
        for event in &events {
            self.observer.event(event);
        }
        Ok(events)
    }

    /// A draft that belongs to the turn under way.
    #[must_use]
    pub fn in_turn(&self, body: impl Into<Body>) -> Draft {
        let draft = Draft::from(body.into());
        let turn = self.state().turn.number;
        match self.state().on_path(turn) {
            true => draft.in_turn(turn, self.agent()),
            // A rewind was taken back: what is said of an earlier turn now is of none, for turns stand
            // in the journal in their order.
            false => Draft { agent: Some(self.agent().to_owned()), ..draft },
        }
    }

    pub fn payload(&self, text: &str) -> Result<Payload, Halt> {
        Ok(self.session.payload(text)?)
    }

    /// Shows an event of one of the session's parts.
    pub fn aside(&mut self, who: &str, event: &Event) {
        self.observer.aside(who, event);
    }

    pub fn progress(&mut self, what: Activity<'_>) {
        self.observer.progress(what);
    }

    pub fn warn(&mut self, message: impl Into<String>) -> Result<(), Halt> {
        self.note(WarningRaised { message: message.into() }).map(drop)
    }

    /// Opens the next turn. The prompt is on the disk before the agent can get it.
    pub fn start_turn(&mut self, opening: Opening<'_>) -> Result<(), Halt> {
        let Opening { prompt, cause, briefing, question, messages, fresh } = opening;
        let prompt = self.payload(prompt)?;
        let briefing = briefing.map(|text| self.payload(text)).transpose()?;
        let number = self.state().turn.number + 1;
        let started = TurnStarted { prompt, cause, briefing, messages, fresh };
        let draft = Draft { id: question, ..Draft::from(started) };
        self.commit(draft.in_turn(number, self.agent())).map(drop)
    }

    pub fn end_turn(&mut self, outcome: Outcome) -> Result<(), Halt> {
        self.end_turn_at(outcome, None)
    }

    /// Ends the turn, with what the vendor calls this point of its conversation.
    pub fn end_turn_at(&mut self, outcome: Outcome, mark: Option<String>) -> Result<(), Halt> {
        let draft = self.in_turn(TurnEnded { outcome, mark });
        self.note(draft).map(drop)
    }

    /// Replaces `resume.json`.
    pub fn write_packet(&mut self, packet: &Packet) -> Result<(), Halt> {
        let event = self.session.write_packet(packet)?;
        self.observer.event(&event);
        Ok(())
    }

    /// Stops the work where it is if somebody asked for that.
    pub fn check_interrupt(&self) -> Result<(), Halt> {
        match self.interrupt.signal() {
            None => Ok(()),
            Some(signal) => Err(interrupted(signal).into()),
        }
    }

    /// The cap that forbids another model call, if one does.
    #[must_use]
    pub fn over(&self) -> Option<Cap> {
        let caps = self.state().caps_now();
        let caps = self.purse.as_ref().map_or(caps, |purse| purse.left_of(caps));
        caps.against_call(self.state(), self.now())
    }

    /// Why the thing under way has to end now: a signal, or the wall clock.
    #[must_use]
    pub fn must_end(&self) -> Option<SessionStopped> {
        if let Some(signal) = self.interrupt.signal() {
            return Some(interrupted(signal));
        }
        let left = self.state().caps_now().time_left(self.state(), self.now())?;
        left.is_zero().then(|| capped(Cap::WallClock))
    }

    /// Waits, and breaks off when it has to end.
    pub fn wait(&mut self, time: Duration) -> Result<(), Halt> {
        self.wait_as(time, Activity::Waiting)
    }

    /// Waits until a limit is over, and breaks off when it has to end.
    pub fn wait_for_reset(&mut self, time: Duration) -> Result<(), Halt> {
        self.wait_as(time, Activity::Limited)
    }

    fn wait_as(
        &mut self,
        time: Duration,
        activity: fn(Duration) -> Activity<'static>,
    ) -> Result<(), Halt> {
        let started = Instant::now();
        while let Some(left) = time.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) {
            if let Some(stop) = self.must_end() {
                return Err(stop.into());
            }
            self.progress(activity(left));
            std::thread::sleep(left.min(LOOK));
        }
        Ok(())
    }

    /// Records the stop, which ends the run. What is returned is what was recorded.
    pub fn finish(&mut self, stop: SessionStopped) -> Result<SessionStopped, segue_journal::Error> {
        match self.commit(stop.clone()) {
            Ok(_) | Err(Halt::Stop(_)) => Ok(stop),
            Err(Halt::Journal(error)) => Err(error),
        }
    }

    /// Gives the session back.
    #[must_use]
    pub fn into_session(self) -> LockedSession {
        self.session
    }
}

/// The one event of a record of one draft.
fn one(mut events: Vec<Event>) -> Event {
    events.swap_remove(0)
}

#[must_use]
pub fn interrupted(signal: u8) -> SessionStopped {
    let name = match signal {
        1 => "SIGHUP (the terminal was closed)",
        2 => "SIGINT (Ctrl-C)",
        15 => "SIGTERM",
        _ => "a signal",
    };
    SessionStopped {
        signal: Some(signal),
        ..stop(Reason::Interrupted, format!("interrupted by {name}"))
    }
}

#[must_use]
pub fn capped(cap: Cap) -> SessionStopped {
    SessionStopped {
        cap: Some(cap),
        hint: Some(format!("raise it with {}", cap.flag())),
        ..stop(Reason::Cap, format!("the cap on {} is reached", cap.to_string().replace('_', " ")))
    }
}
