//! One run: a session, and all that can be done with it without anybody working.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_core::{
    Event, Permission, SessionId, State,
    event::{Draft, Process, Reason, SessionResumed},
    identity::{How, Identity},
    status::Status,
    steps::{Step, StepId},
};
use segue_journal::{Durability, LockedSession, Session};
use segue_loops::{
    branch::{self, Branch, With},
    keep::{Checkpoints, Keeper},
    reproduce::{self, Findings},
};
use segue_runner::supervisor::stop;

use crate::{
    Runs,
    error::{Error, Result},
};

/// A session: loaded, looked at, left at a step, saved.
#[derive(Debug)]
pub struct Run {
    runs: Runs,
    held: Held,
    number: Option<u64>,
}

/// A run is read by anyone; whoever resumes it holds it.
#[derive(Debug)]
enum Held {
    Read(Session),
    Locked(Box<LockedSession>),
    /// On its way from one to the other.
    Gone,
}

/// What a run says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub agent: String,
    pub model: Option<String>,
    /// Whether somebody may go on with it.
    pub resume: bool,
    /// How it can be replayed.
    pub replay: Vec<&'static str>,
}

impl Run {
    pub(crate) fn new(runs: Runs, session: Session, number: Option<u64>) -> Self {
        Self { runs, held: Held::Read(session), number }
    }

    /// The run of a session that is open.
    #[must_use]
    pub fn of(runs: &Runs, session: Session, number: Option<u64>) -> Self {
        Self::new(runs.clone(), session, number)
    }

    /// Loads a run of the person's own ([`Runs::here`]), or from a file.
    ///
    /// # Errors
    /// See [`Runs::load`].
    pub fn load(word: impl AsRef<Path>) -> Result<Self> {
        Runs::here()?.load(word)
    }

    /// Loads a run and marks it as running: it is this process's until the value is dropped, which
    /// stops it again. Executes nothing; that is [`crate::Agent::resume`]'s to do.
    ///
    /// # Errors
    /// [`Error::NotResumable`], or that somebody else works on it.
    pub fn resume(word: impl AsRef<Path>) -> Result<Self> {
        Runs::here()?.load(word)?.hold()
    }

    /// The same for a run that is loaded.
    ///
    /// # Errors
    /// [`Error::NotResumable`], or that somebody else works on it.
    pub fn hold(mut self) -> Result<Self> {
        let Held::Read(session) = std::mem::replace(&mut self.held, Held::Gone) else {
            return Ok(self);
        };
        if session.state().identity.as_ref().is_some_and(|identity| identity.sealed) {
            return Err(Error::NotResumable);
        }
        let me = self.runs.me();
        let (mut locked, _) = session.lock(&me, Arc::clone(self.runs.clock()))?;
        let resumed = SessionResumed {
            by: Process { pid: me.pid, host: me.host, segue: env!("CARGO_PKG_VERSION").to_owned() },
            caps: locked.state().caps,
            plan: Vec::new(),
            crashed: locked.state().phase == segue_core::state::Phase::Running,
            model: None,
            workspace: None,
            permission: None,
            leftovers_ended: Vec::new(),
        };
        locked.append(resumed, Durability::Synced)?;
        self.held = Held::Locked(Box::new(locked));
        Ok(self)
    }

    /// Marks the run as paused, and saves it into a file. Executes nothing.
    ///
    /// # Errors
    /// That somebody else works on it, or that the file can't be written.
    pub fn pause(mut self, file: impl AsRef<Path>) -> Result<PathBuf> {
        if let Held::Read(_) = self.held {
            self = self.hold()?;
        }
        if let Held::Locked(locked) = &mut self.held {
            locked.append(stop(Reason::Interrupted, "paused"), Durability::Synced)?;
        }
        self.let_go()?;
        self.save(file)
    }

    /// Gives the right to write back.
    fn let_go(&mut self) -> Result<()> {
        if let Held::Locked(locked) = std::mem::replace(&mut self.held, Held::Gone) {
            let dir = locked.session().dir().to_owned();
            drop(locked);
            self.held = Held::Read(Session::open(Arc::clone(self.runs.home().disk()), &dir)?);
        }
        Ok(())
    }

    fn session(&self) -> Result<&Session> {
        match &self.held {
            Held::Read(session) => Ok(session),
            Held::Locked(locked) => Ok(locked.session()),
            Held::Gone => Err(Error::Other("the run was given away".to_owned())),
        }
    }

    /// The session behind it.
    ///
    /// # Errors
    /// Where the run was given away.
    pub fn journal(&self) -> Result<&Session> {
        self.session()
    }

    pub(crate) fn state(&self) -> Result<&State> {
        Ok(self.session()?.state())
    }

    fn identity(&self) -> Result<&Identity> {
        let unreadable = || Error::Other("the session can't be read".to_owned());
        self.state()?.identity.as_ref().ok_or_else(unreadable)
    }

    #[must_use]
    pub fn id(&self) -> SessionId {
        match &self.held {
            Held::Read(session) => session.id(),
            Held::Locked(locked) => locked.session().id(),
            Held::Gone => SessionId::from_parts(0, 0),
        }
    }

    /// Its number in its home, where that is known.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    #[must_use]
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// How it stands. One that is held here is running.
    ///
    /// # Errors
    /// When the session can't be read.
    pub fn status(&self) -> Result<Status> {
        let session = self.session()?;
        let here = matches!(self.held, Held::Locked(_));
        Ok(Status::of(session.state(), here || session.held_by()?.is_some()))
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// When the session can't be read.
    pub fn manifest(&self) -> Result<Manifest> {
        let (state, identity) = (self.state()?, self.identity()?);
        Ok(Manifest {
            agent: state.agent().to_owned(),
            model: state.model().map(str::to_owned),
            resume: !identity.sealed,
            replay: vec!["cache", "rerun"],
        })
    }

    /// What the agent was asked first.
    ///
    /// # Errors
    /// When the session can't be read.
    pub fn prompt(&self) -> Result<String> {
        Ok(self.session()?.text(&self.identity()?.prompt)?)
    }

    /// All its steps, in their order. For long runs, see [`Run::each_step`].
    ///
    /// # Errors
    /// When the journal can't be read.
    pub fn steps(&self) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        self.each_step(|step| steps.push(step))?;
        Ok(steps)
    }

    /// Each step, one at a time: memory does not grow with the run.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub fn each_step(&self, each: impl FnMut(Step)) -> Result<()> {
        Ok(self.session()?.steps(each)?)
    }

    /// Each event of its own journal.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub fn each_event(&self, each: impl FnMut(Event)) -> Result<()> {
        Ok(self.session()?.for_each(each)?)
    }

    /// Steps that have names: `main`, the last one of the conversation after which nothing is under
    /// way, and `base`, the last one that another run tells.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub fn refs(&self) -> Result<BTreeMap<String, StepId>> {
        let session = self.session()?;
        let mut refs = BTreeMap::new();
        let base = session.state().base().map_or(0, |base| base.steps);
        session.landmarks(&mut |mark| {
            if mark.whole && session.state().on_path(mark.turn) {
                refs.insert("main".to_owned(), mark.id);
            }
            if mark.index + 1 == base {
                refs.insert("base".to_owned(), mark.id);
            }
        })?;
        Ok(refs)
    }

    /// A long text of a step.
    ///
    /// # Errors
    /// When it is missing or damaged.
    pub fn text(&self, payload: &segue_core::Payload) -> Result<String> {
        Ok(self.session()?.text(payload)?)
    }

    /// A new run that consists of the recorded steps, up to one of them: no model and no tool is
    /// called. The same replay twice has the same steps under the same ids.
    ///
    /// # Errors
    /// [`Error::NoStep`], [`Error::InsideBatch`].
    pub fn replay(&self, up_to: Option<&str>) -> Result<Run> {
        self.replay_as(up_to, None)
    }

    /// The same, under a name.
    ///
    /// # Errors
    /// [`Error::NoStep`], [`Error::InsideBatch`].
    pub fn replay_as(&self, up_to: Option<&str>, name: Option<String>) -> Result<Run> {
        let session = self.session()?;
        let mut branch = self.leave(up_to, How::Replayed)?;
        let steps = branch.mark.index + 1;
        if let Some(base) = &mut branch.lineage.base {
            base.spent = Some(session.spent(steps)?);
        }
        let source = self.number.map_or_else(|| self.id().to_string(), |number| number.to_string());
        let done = format!("replayed {steps} steps of session {source}: nobody was called");
        let prompt = self.prompt()?;
        self.make(
            branch,
            With { name, ..self.with(prompt)? },
            vec![stop(Reason::Done, done).into()],
        )
    }

    /// A new run that begins with the steps of this one, up to one of them, and waits for somebody
    /// to go on. What it costs does not depend on how long this one is.
    ///
    /// # Errors
    /// [`Error::NoStep`], [`Error::InsideBatch`].
    pub fn fork(&self, after: Option<&str>) -> Result<Run> {
        let branch = self.leave(after, How::Forked)?;
        let waits = format!("it was forked after step {}: say what to do", branch.mark.index);
        let with = self.with("Go on from here.".to_owned())?;
        self.make(branch, with, vec![stop(Reason::Rewound, waits).into()])
    }

    /// Thinks through how a new run leaves this one at a step.
    ///
    /// # Errors
    /// [`Error::NoStep`], [`Error::InsideBatch`].
    pub fn leave(&self, step: Option<&str>, how: How) -> Result<Branch> {
        let session = self.session()?;
        let dir = session.state().workspace().map(Path::to_owned).unwrap_or_default();
        let keeper = Keeper::new(session, &dir, Checkpoints::default());
        Ok(branch::leave(session, &keeper, step, how)?)
    }

    /// A run like this one.
    pub(crate) fn with(&self, prompt: String) -> Result<With> {
        let (state, identity) = (self.state()?, self.identity()?);
        Ok(With {
            agent: state.agent().to_owned(),
            model: state.model().map(str::to_owned),
            permission: state.permission(),
            prompt,
            workspace: state.workspace().map(Path::to_owned).unwrap_or_default(),
            worktree: false,
            caps: identity.caps,
            name: None,
            sealed: false,
            segue: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// Makes the run that was thought through. It is there whole, or not at all.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn make(&self, branch: Branch, with: With, begin: Vec<Draft>) -> Result<Run> {
        let new = branch.session(self.session()?, with)?;
        let runs = &self.runs;
        let (mut made, number) = runs.home().create(new, &runs.me(), runs.clock())?;
        made.append_all(begin, Durability::Synced)?;
        let dir = made.session().dir().to_owned();
        drop(made);
        runs.open(&dir, Some(number))
    }

    /// Derives everything again from the bytes on the disk, and says what is no longer as it was.
    ///
    /// # Errors
    /// When the session can't be opened.
    pub fn verify(&self) -> Result<Findings> {
        Ok(reproduce::check(self.session()?)?)
    }

    /// How two runs differ, step by step.
    ///
    /// # Errors
    /// When one of them can't be read.
    pub fn diff(&self, other: &Run) -> Result<segue_core::steps::align::Alignment> {
        use segue_core::steps::align::{Sketch, align};
        let sketch = |run: &Run| {
            let mut sketches = Vec::new();
            run.each_step(|step| sketches.push(Sketch::of(&step)))?;
            Ok::<_, Error>(sketches)
        };
        Ok(align(&sketch(self)?, &sketch(other)?))
    }

    /// What the agent may do.
    ///
    /// # Errors
    /// When the session can't be read.
    pub fn permission(&self) -> Result<Permission> {
        Ok(self.state()?.permission())
    }

    /// Saves the run into a file, by its ending: `.tine`, `.segue` (everything that going on elsewhere
    /// needs, without git objects), or `.json` (OpenTelemetry).
    ///
    /// # Errors
    /// [`Error::File`] where it can't be written as that. A file that is there is replaced.
    pub fn save(&self, file: impl AsRef<Path>) -> Result<PathBuf> {
        let path = file.as_ref();
        crate::file::save(self.session()?, path, (self.runs.clock())())?;
        Ok(path.to_owned())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Held::Locked(locked) = &mut self.held
            && locked.state().phase == segue_core::state::Phase::Running
        {
            // Without it, the next look finds a crash, and the run can be resumed all the same.
            let _ = locked.append(stop(Reason::Interrupted, "let go"), Durability::Synced);
        }
    }
}
