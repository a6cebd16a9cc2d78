//! A member without a terminal: every batch of messages is a turn of its own session.
//!
//! It is a session like all others, run as a reviewer's is: what it was told is read from its own
//! journal, and a turn that was cut short is gone on with.

use std::{
    path::PathBuf,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use segue_core::{
    decide::{self, Next},
    event::{Cause, Doing, MemberEnded, MemberSeen, Reason, SessionStopped},
    state::{Afterwards, CrewMember as Member},
};
use segue_journal::Session;
use segue_runner::{Halt, Interrupt, Supervisor, supervisor::stop};

use super::{Around, Silent, scope::Scope};
use crate::{
    bridge,
    keep::Checkpoints,
    launch::{self, Asked, LaunchError, Resume, Surroundings, Worker},
};

/// One member, as long as somebody watches.
#[derive(Debug)]
pub(crate) struct Headless {
    /// Its own session's directory.
    dir: PathBuf,
    agent: String,
    model: Option<String>,
    turn: Option<JoinHandle<SessionStopped>>,
    interrupt: Interrupt,
    /// When it is tried again. By a clock that nobody sets.
    again_at: Option<Instant>,
    /// Whether it is known that no turn of an earlier watcher is left to go on with.
    looked: bool,
    scope: Scope,
}

impl Headless {
    pub(crate) fn new(dir: PathBuf, agent: String, model: Option<String>, scope: Scope) -> Self {
        let (turn, interrupt, again_at, looked) = (None, Interrupt::default(), None, false);
        Self { dir, agent, model, turn, interrupt, again_at, looked, scope }
    }

    pub(crate) fn is_blind(&self) -> bool {
        self.scope.is_blind()
    }

    /// One look, and what follows from it.
    pub(crate) fn look(
        &mut self,
        all: &mut Supervisor<'_>,
        around: &mut Around<'_>,
        member: &Member,
    ) -> Result<(), Halt> {
        if let Some(turn) = self.turn.take_if(|turn| turn.is_finished()) {
            let stopped = turn.join().unwrap_or_else(|_| stop(Reason::Failed, "it broke down"));
            self.heard(all, member)?;
            self.scope.look(all, member, true)?;
            return self.over(all, member, &stopped);
        }
        if self.turn.is_some() {
            self.scope.look(all, member, false)?;
            return self.heard(all, member);
        }
        if member.doing == Doing::Degraded || self.again_at.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        self.heard(all, member)?;
        let (text, messages) = bridge::letters(all.session().session(), &member.name)?;
        if self.looked && messages.is_empty() {
            return seen(all, member, Doing::Idle, None);
        }
        let known = std::mem::replace(&mut self.looked, true);
        // A turn that nobody has seen the end of.
        self.scope.look(all, member, true)?;
        let session = self.open()?;
        let state = session.state();
        let begun = state.turn.number > 0;
        let unfinished =
            !known && begun && (state.turn.open || decide::next(state) != Next::Finish);
        let prompt = match (unfinished, messages.is_empty()) {
            (true, _) => None,
            (false, true) => return seen(all, member, Doing::Idle, None),
            (false, false) => {
                let fresh = member.fresh;
                Some(Asked { text, cause: Cause::Message, question: None, messages, fresh })
            }
        };
        let worker = (around.hire)(&self.agent, self.model.as_deref());
        match worker {
            Err(why) => self.over(all, member, &stop(Reason::Failed, why)),
            Ok(worker) => {
                seen(all, member, Doing::Busy, None)?;
                self.scope.begins(all, &member.name)?;
                self.turn = Some(self.begin(around, session, prompt, worker, member));
                Ok(())
            }
        }
    }

    fn open(&self) -> segue_journal::Result<Session> {
        Session::open(Arc::new(segue_journal::RealDisk), &self.dir)
    }

    /// Records which messages it has been told, by what its own journal says.
    fn heard(&self, all: &mut Supervisor<'_>, member: &Member) -> Result<(), Halt> {
        if all.state().bridge.waiting_for(&member.name).next().is_none() {
            return Ok(());
        }
        bridge::note_heard(all, &member.name, Some(&self.open()?))
    }

    fn begin(
        &self,
        around: &Around<'_>,
        session: Session,
        prompt: Option<Asked>,
        worker: Worker,
        member: &Member,
    ) -> JoinHandle<SessionStopped> {
        let (clock, interrupt) = (Arc::clone(&around.clock), self.interrupt.clone());
        let (segue, me, home) = (around.segue.clone(), around.me.clone(), around.home.clone());
        let workspace = member.cwd.clone();
        thread::spawn(move || {
            let mut observer = Silent;
            let moved = Some(workspace.as_path()) != session.state().workspace();
            let workspace = moved.then_some(workspace);
            let how = Resume { prompt, workspace, ..Resume::default() };
            let around = Surroundings {
                clock,
                interrupt,
                observer: &mut observer,
                segue,
                me,
                home,
                number: None,
                hire: Box::new(|_, _| Err("nobody takes the place of a member".to_owned())),
                wait: true,
                give_back: false,
                purse: None,
                checkpoints: Checkpoints::Git,
            };
            match launch::resume(session, how, worker, around, |_| {}) {
                Ok(stopped) => stopped,
                Err(LaunchError::Journal(error)) => stop(Reason::Disk, error.to_string()),
                Err(error) => stop(Reason::Failed, error.to_string()),
            }
        })
    }

    /// A turn has ended, well or not.
    fn over(
        &mut self,
        all: &mut Supervisor<'_>,
        member: &Member,
        stopped: &SessionStopped,
    ) -> Result<(), Halt> {
        // What was cut short is gone on with at the next look.
        self.looked = stopped.reason == Reason::Done;
        match stopped.reason {
            Reason::Done => seen(all, member, Doing::Idle, None),
            Reason::Interrupted => {
                // A person has broken it off: it is not gone on with unasked.
                self.looked = true;
                self.interrupt = Interrupt::default();
                seen(all, member, Doing::Idle, None)
            }
            _ => {
                let (again_in_ms, degraded) = match member.after_end(all.now()) {
                    Afterwards::AgainIn(wait) => (u64::try_from(wait.as_millis()).ok(), false),
                    Afterwards::Degraded => (None, true),
                };
                let wait = again_in_ms.map(Duration::from_millis);
                self.again_at = wait.and_then(|wait| Instant::now().checked_add(wait));
                all.commit(MemberEnded {
                    member: member.name.clone(),
                    why: stopped.message.clone(),
                    again_in_ms,
                    degraded,
                })
                .map(drop)
            }
        }
    }

    pub(crate) fn interrupt(&self) {
        if self.turn.is_some() {
            self.interrupt.ask(2);
        }
    }

    /// Ends the turn under way, and records what became of it.
    pub(crate) fn end(&mut self, all: &mut Supervisor<'_>, member: &Member) -> Result<(), Halt> {
        self.stop();
        self.heard(all, member)?;
        self.scope.look(all, member, true)
    }

    /// Ends the turn under way, and waits until it has.
    pub(crate) fn stop(&mut self) {
        self.interrupt.ask(15);
        if let Some(turn) = self.turn.take() {
            let _ = turn.join();
        }
        self.interrupt = Interrupt::default();
        self.again_at = None;
    }
}

fn seen(
    all: &mut Supervisor<'_>,
    member: &Member,
    doing: Doing,
    what: Option<String>,
) -> Result<(), Halt> {
    if member.doing == doing && member.what == what {
        return Ok(());
    }
    all.note(MemberSeen { member: member.name.clone(), doing, what }).map(drop)
}
