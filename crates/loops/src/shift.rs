//! Who works now, and what happens around the turns: limits, hand-offs, what is kept.

use std::{path::PathBuf, time::Duration};

use segue_core::inbox::Message;
use segue_core::{
    Draft, Permission,
    decide::{self, Next},
    event::{
        AgentChanged, ChangeCause, KnownLimit, Mark, Outcome, PassedOver, Reason, SessionStopped,
    },
};
use segue_journal::{Home, limits::until};
use segue_runner::{Agent, Halt, Supervisor, agent, supervisor::stop};

use crate::{
    keep::{Keeper, asked_for, closing_block, done_with, take_in},
    launch::Worker,
    panel::Panel,
    rehearsal, review, tasks,
};

/// Finds someone for the work, by name and model; or says why not.
pub type Hire<'a> = Box<dyn FnMut(&str, Option<&str>) -> Result<Worker, String> + 'a>;

/// What a session has around its agent.
pub struct Shift<'a> {
    pub(crate) home: Home,
    pub(crate) number: Option<u64>,
    pub(crate) workspace: PathBuf,
    pub(crate) keeper: Keeper,
    pub(crate) hire: Hire<'a>,
    /// Wait for a limit's end where nobody else can go on.
    pub(crate) wait: bool,
    /// Give the work back to the first agent once its limit is over.
    pub(crate) give_back: bool,
    pub(crate) agent: Box<dyn Agent>,
    pub(crate) panel: Panel,
}

impl std::fmt::Debug for Shift<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shift").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Shift<'_> {
    /// Answers what the open turn has left unanswered, whoever it was given to.
    pub(crate) fn settle(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
        match supervisor.state().turn.agent == supervisor.state().agent() {
            true => self.agent.settle(supervisor),
            false => agent::let_go(supervisor),
        }
    }

    /// The end of a turn, or the very start: everything is kept, and what others asked for is done.
    pub(crate) fn boundary(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
        take_in(supervisor)?;
        closing_block(supervisor)?;
        review::at_turn_end(supervisor)?;
        if supervisor.state().turn.outcome == Some(Outcome::Finished) {
            // Whoever has just worked is not limited, whatever is remembered of it.
            let _ = self.home.forget_limit(&self.agent.limit_key(), supervisor.now());
        }
        if !supervisor.state().is_checkpointed() {
            let start = !supervisor.state().has_begun();
            let mark = if start { Mark::Start } else { Mark::TurnEnd };
            if !start {
                rehearsal::at_turn_end(supervisor, &self.keeper)?;
            }
            let why = self.keeper.checkpoint(supervisor, mark)?;
            if let Some(why) = why.filter(|_| review::needs_files(supervisor.state())) {
                let message = format!(
                    "the files can't be kept, and without that nobody can see what has changed: {why}"
                );
                return Err(stop(Reason::Failed, message).into());
            }
        }
        match self.requested(supervisor)? {
            true => Ok(()),
            false => self.perhaps_give_back(supervisor),
        }
    }

    /// Does what somebody asked for from outside: hands over, or stops. Says whether it handed over.
    pub(crate) fn requested(&mut self, supervisor: &mut Supervisor<'_>) -> Result<bool, Halt> {
        let Some(request) = asked_for(supervisor)? else { return Ok(false) };
        let (to, model, reason) = match request.message.clone() {
            Message::HandOff { to, model, reason } => (to, model, reason),
            Message::Stop { reason } => {
                done_with(supervisor, &request)?;
                let message = format!("stopped for a hand-off: {reason}");
                return Err(stop(Reason::HandedOff, message).into());
            }
            _ => return Ok(false),
        };
        let change = AgentChanged {
            from: supervisor.state().agent().to_owned(),
            to: to.clone(),
            model,
            cause: ChangeCause::Asked,
            reason,
            passed_over: Vec::new(),
        };
        let handed = match self.change(supervisor, change, Some(request.id.clone())) {
            Ok(()) => true,
            Err(Refused::Halt(halt)) => return Err(halt),
            Err(Refused::Why(why)) => {
                supervisor.warn(format!("the work is not handed to {to}: {why}"))?;
                false
            }
        };
        done_with(supervisor, &request)?;
        Ok(handed)
    }

    /// Hands the work to another agent. It is found first: nobody is let go for someone who can't.
    fn change(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        change: AgentChanged,
        id: Option<String>,
    ) -> Result<(), Refused> {
        let state = supervisor.state();
        let model = change.model.as_deref().or_else(|| state.first_model(&change.to));
        let worker = (self.hire)(&change.to, model).map_err(Refused::Why)?;
        let (permission, caps) = (state.permission(), state.caps);
        if permission == Permission::ReadOnly && !worker.can_be_held() {
            return Err(Refused::Why("it can't be held to read-only".to_owned()));
        }
        let session = supervisor.session().session();
        let mut next = worker
            .agent(session, permission, &self.workspace, caps)
            .map_err(|error| Refused::Why(error.to_string()))?;
        let limit = self.home.limit_of(&next.limit_key(), supervisor.now());
        if let Some(limit) = limit.filter(|_| change.cause == ChangeCause::Limit) {
            let until = until(&limit).strftime("%F %H:%M UTC");
            return Err(Refused::Why(format!("it is limited itself, until {until}")));
        }
        next.recall(session).map_err(|error| Refused::Halt(error.into()))?;
        let mut draft = Draft::from(change);
        draft.id = id;
        supervisor.commit(draft).map_err(Refused::Halt)?;
        self.agent = next;
        Ok(())
    }

    /// What a stop leads to: somebody else goes on, or the same one later. `false` ends the run.
    pub(crate) fn goes_on(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        stop: &SessionStopped,
    ) -> Result<bool, Halt> {
        // It is a reviewer's affair, and was dealt with there.
        if stop.agent.is_some() {
            return Ok(false);
        }
        let over = matches!(stop.reason, Reason::Done | Reason::Interrupted | Reason::Cap);
        if !over && stop.reason != Reason::HandedOff && self.requested(supervisor)? {
            return Ok(true);
        }
        if stop.reason != Reason::Limit {
            return Ok(false);
        }
        take_in(supervisor)?;
        let judged = review::has_spoken(supervisor.state());
        let now = supervisor.now();
        let agent = supervisor.state().agent().to_owned();
        let limit = KnownLimit {
            agent: self.agent.limit_key(),
            message: stop.message.clone(),
            resets_at: stop.resets_at,
            hit_at: now,
        };
        // A convenience for other sessions: this one has it in its journal.
        let _ = self.home.remember_limit(limit, now);
        // What was asked is answered: nobody else is asked for the same.
        if judged {
            return Ok(false);
        }
        if self.fall_back(supervisor, &agent, stop)? {
            return Ok(true);
        }
        match stop.resets_at {
            Some(at) if self.wait => {
                let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
                supervisor.wait_for_reset(left)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The next agent of the list that is there, signed in and not limited itself.
    fn fall_back(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        limited: &str,
        stop: &SessionStopped,
    ) -> Result<bool, Halt> {
        let identity = supervisor.state().identity.as_ref();
        let list = identity.map(|found| found.fallback.clone()).unwrap_or_default();
        let mut passed_over = Vec::new();
        for to in list {
            let pass = |why: String| PassedOver { agent: to.clone(), why };
            if to == limited {
                passed_over.push(pass("it is the one that is limited".to_owned()));
                continue;
            }
            let change = AgentChanged {
                from: limited.to_owned(),
                to: to.clone(),
                model: None,
                cause: ChangeCause::Limit,
                reason: stop.message.clone(),
                passed_over: passed_over.clone(),
            };
            match self.change(supervisor, change, None) {
                Ok(()) => return Ok(true),
                Err(Refused::Halt(halt)) => return Err(halt),
                Err(Refused::Why(why)) => passed_over.push(pass(why)),
            }
        }
        for other in passed_over {
            supervisor.warn(format!("{} does not go on: {}", other.agent, other.why))?;
        }
        Ok(false)
    }

    /// The first agent goes on once it can.
    fn perhaps_give_back(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
        let state = supervisor.state();
        let first = state.identity.as_ref().map(|found| found.agent.clone()).unwrap_or_default();
        let away = state.agent() != first;
        let nothing_left = decide::next(state) == Next::Finish;
        if !self.give_back
            || !away
            || nothing_left
            || self.home.limit_of(&first, supervisor.now()).is_some()
        {
            return Ok(());
        }
        let change = AgentChanged {
            from: state.agent().to_owned(),
            to: first,
            model: None,
            cause: ChangeCause::Returned,
            reason: "its limit is over".to_owned(),
            passed_over: Vec::new(),
        };
        match self.change(supervisor, change, None) {
            Err(Refused::Halt(halt)) => Err(halt),
            // It goes on where it is.
            Ok(()) | Err(Refused::Why(_)) => Ok(()),
        }
    }

    /// Records a stop, after everything that whoever goes on will need.
    pub(crate) fn finish(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        stop: SessionStopped,
    ) -> Result<SessionStopped, segue_journal::Error> {
        let kept =
            tasks::settle(supervisor, self, &stop).and_then(|()| self.keep_all(supervisor, &stop));
        match kept {
            Err(Halt::Journal(error)) => return Err(error),
            Ok(()) | Err(Halt::Stop(_)) => {}
        }
        supervisor.finish(stop)
    }

    fn keep_all(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        stop: &SessionStopped,
    ) -> Result<(), Halt> {
        take_in(supervisor)?;
        if supervisor.state().turn.open && self.keeper.snapshots().is_ok() {
            self.keeper.checkpoint(supervisor, Mark::Stop)?;
        }
        let reason = word(stop.reason);
        self.keeper.packet(supervisor, self.number, &reason)
    }
}

/// The word that a reason has in the journal.
fn word(reason: Reason) -> String {
    let word = serde_json::to_value(reason).ok();
    word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Why a change did not come about.
enum Refused {
    /// The one that was to go on can't.
    Why(String),
    Halt(Halt),
}

impl From<Refused> for Halt {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Halt(halt) => halt,
            Refused::Why(why) => stop(Reason::Failed, why).into(),
        }
    }
}
