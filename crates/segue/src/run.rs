//! One run: a session, and all that can be done with it without anybody working.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use segue_core::{
    Event, Permission, SessionId, State,
    event::{Process, Reason, SessionResumed, SessionStopped},
    identity::{How, Identity, Lineage, LoopKind},
    state::Phase,
    status::Status,
    steps::{
        Step, StepId,
        align::{Alignment, Sketch, align},
    },
};
use segue_journal::{Durability, LockedSession, Session};
use segue_loops::{
    branch::{self, Branch, With},
    keep::Keeper,
    place::Place,
    reproduce::{self, Findings},
};
use segue_runner::supervisor::stop;
use segue_view::graph;

use crate::{
    At, Mode, Runs,
    error::{Error, Result},
    plan::By,
    runs::cwd,
    work::Whereabouts,
};

/// A session: loaded, looked at, left at a step, saved.
///
/// It is what was on the disk when it was loaded. Loading it again shows what came since.
pub struct Run {
    runs: Runs,
    session: Session,
    /// The right to write to it. In a mutex only so that a run can be shared between threads.
    lock: Option<Mutex<LockedSession>>,
    number: Option<u64>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What is in it fills screens.
        let mut run = f.debug_struct("Run");
        run.field("id", &self.id().to_string()).field("number", &self.number);
        run.finish_non_exhaustive()
    }
}

/// What a run says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Manifest {
    /// Who works in it.
    pub agent: String,
    /// Its model, where that is known.
    pub model: Option<String>,
    /// Whether somebody may go on with it.
    pub resume: bool,
    /// How it can be replayed.
    pub replay: Vec<Mode>,
}

impl Run {
    pub(crate) fn new(runs: Runs, session: Session, number: Option<u64>) -> Self {
        Self { runs, session, lock: None, number }
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

    /// Loads a run and marks it as running: see [`Run::hold`]. Executes nothing; that is
    /// [`crate::Agent::resume`]'s to do.
    ///
    /// # Errors
    /// Those of [`Runs::load`] and of [`Run::hold`].
    pub fn resume(word: impl AsRef<Path>) -> Result<Self> {
        Runs::here()?.resume(word)
    }

    /// Marks the run as running: it is this value's until it is paused or dropped, and nobody else
    /// writes to it.
    ///
    /// # Errors
    /// [`Error::NotResumable`], [`Error::Busy`].
    pub fn hold(&mut self) -> Result<()> {
        if self.lock.is_some() {
            return Ok(());
        }
        if self.identity()?.sealed {
            return Err(Error::NotResumable);
        }
        let me = self.runs.me();
        let session = Session::open(Arc::clone(self.session.disk()), self.session.dir())?;
        let (mut locked, _) = session.lock(&me, Arc::clone(self.runs.clock()))?;
        let resumed = SessionResumed {
            by: Process { pid: me.pid, host: me.host, segue: env!("CARGO_PKG_VERSION").to_owned() },
            caps: locked.state().caps,
            plan: Vec::new(),
            crashed: locked.state().phase == Phase::Running,
            model: None,
            workspace: None,
            permission: None,
            leftovers_ended: Vec::new(),
        };
        locked.append(resumed, Durability::Synced)?;
        self.lock = Some(Mutex::new(locked));
        Ok(self.session.catch_up()?)
    }

    /// Marks the run as paused, lets go of it, and saves it into a file. Executes nothing.
    ///
    /// # Errors
    /// Those of [`Run::hold`], or that the file can't be written; the run is paused then all the same.
    pub fn pause(&mut self, file: impl AsRef<Path>) -> Result<PathBuf> {
        self.hold()?;
        self.let_go("paused")?;
        self.save(file)
    }

    /// Stops a run that is held, and gives the right to write to it back.
    fn let_go(&mut self, why: &str) -> Result<()> {
        if let Some(lock) = self.lock.take() {
            let mut locked = lock.into_inner().unwrap_or_else(PoisonError::into_inner);
            locked.append(stop(Reason::Interrupted, why), Durability::Synced)?;
            drop(locked);
            self.session.catch_up()?;
        }
        Ok(())
    }

    pub(crate) fn whereabouts(&self) -> Whereabouts {
        let dir = self.journal().dir().to_owned();
        Whereabouts { runs: self.runs.clone(), dir, number: self.number }
    }

    /// The session behind it.
    #[must_use]
    pub fn journal(&self) -> &Session {
        &self.session
    }

    /// All that its events add up to.
    #[must_use]
    pub fn state(&self) -> &State {
        self.session.state()
    }

    pub(crate) fn identity(&self) -> Result<&Identity> {
        let unreadable = || Error::Unreadable(self.journal().dir().display().to_string());
        self.state().identity.as_ref().ok_or_else(unreadable)
    }

    /// Its id, which is unique everywhere.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.journal().id()
    }

    /// Its number in its home, where that is known.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.number
    }

    /// How to name it in a command: as short as it can be.
    #[must_use]
    pub fn selector(&self) -> String {
        self.number.map_or_else(|| self.id().to_string(), |number| number.to_string())
    }

    /// Where it is kept, with others.
    #[must_use]
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// How it stands. One that is held is running.
    ///
    /// # Errors
    /// When its lock can't be looked at.
    pub fn status(&self) -> Result<Status> {
        let held = self.lock.is_some() || self.session.held_by()?.is_some();
        Ok(Status::of(self.state(), held))
    }

    /// Why it stands still, where it does.
    #[must_use]
    pub fn stopped(&self) -> Option<&SessionStopped> {
        self.state().stop.as_ref()
    }

    /// Which run it comes from, and at which step it left that.
    #[must_use]
    pub fn lineage(&self) -> Option<&Lineage> {
        self.state().identity.as_ref()?.lineage.as_ref()
    }

    /// What the agent may do.
    #[must_use]
    pub fn permission(&self) -> Permission {
        self.state().permission()
    }

    /// Where it goes on: where it worked, or where that has moved to.
    ///
    /// # Errors
    /// [`Error::Place`] where that is not there.
    pub fn workspace(&self) -> Result<PathBuf> {
        let host = self.runs.me().host;
        Ok(Place::find(self.journal(), &host, None, &cwd()?)?.dir)
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// When the session can't be read.
    pub fn manifest(&self) -> Result<Manifest> {
        let (state, identity) = (self.state(), self.identity()?);
        Ok(Manifest {
            agent: state.agent().to_owned(),
            model: state.model().map(str::to_owned),
            resume: !identity.sealed,
            replay: match self.others() {
                None => vec![Mode::Cache, Mode::Rerun, Mode::Continue],
                Some(_) => vec![Mode::Cache, Mode::Rerun],
            },
        })
    }

    /// What the agent was asked first.
    ///
    /// # Errors
    /// When the session can't be read.
    pub fn prompt(&self) -> Result<String> {
        Ok(self.journal().text(&self.identity()?.prompt)?)
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
        Ok(self.journal().steps(each)?)
    }

    /// The steps that lead to one, in their order: what a replay or a fork there begins with. What a
    /// rewind had left behind is not among them.
    ///
    /// # Errors
    /// [`Error::NoStep`], [`Error::InsideBatch`].
    pub fn closure(&self, step: impl Into<At>) -> Result<Vec<Step>> {
        let session = self.journal();
        let base = branch::base_of(session, step.into().word())?;
        let mut steps = Vec::new();
        session.closure(&base, |step| steps.push(step))?;
        Ok(steps)
    }

    /// Each event of its own journal.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub fn each_event(&self, each: impl FnMut(Event)) -> Result<()> {
        Ok(self.journal().for_each(each)?)
    }

    /// Steps that have names: `main`, the last one of the conversation after which nothing is under
    /// way; `base`, the last one that another run tells; and those at which other runs have left this
    /// one, by their numbers: `fork/9`, `replay/4`, `rerun/5`.
    ///
    /// # Errors
    /// When the journal can't be read.
    pub fn refs(&self) -> Result<BTreeMap<String, StepId>> {
        let session = self.journal();
        let mut refs = BTreeMap::new();
        let marks = session.landmarks()?;
        let named = [
            (branch::MAIN, marks.main(session.state())?),
            (branch::BASE, branch::base(session, &marks)?),
        ];
        for (name, mark) in named {
            refs.extend(mark.map(|mark| (name.to_owned(), mark.id)));
        }
        for fork in graph::forks(self.runs.home(), session)? {
            let mark = fork.index().map_or(Ok(None), |at| marks.get(at))?;
            refs.extend(mark.map(|mark| (fork.step_name(), mark.id)));
        }
        Ok(refs)
    }

    /// A long text of a step.
    ///
    /// # Errors
    /// When it is missing or damaged.
    pub fn text(&self, payload: &segue_core::Payload) -> Result<String> {
        Ok(self.journal().text(payload)?)
    }

    /// A new run that consists of the recorded steps, up to one of them: no model and no tool is
    /// called. The same replay twice has the same steps under the same ids.
    ///
    /// # Errors
    /// [`Error::NoStep`], [`Error::InsideBatch`], [`Error::NotSingle`].
    pub fn replay(&self, up_to: impl Into<At>) -> Result<Run> {
        self.replay_as(up_to, None)
    }

    /// The same, under a name.
    ///
    /// # Errors
    /// Besides, [`Error::Name`].
    pub fn replay_as(&self, up_to: impl Into<At>, name: Option<&str>) -> Result<Run> {
        let mut branch = self.leave(up_to, How::Replayed)?;
        let mut steps = 0;
        if let Some(base) = &mut branch.lineage.base {
            let (retained, spent) = self.journal().spent(base)?;
            (base.retained, base.spent) = (Some(retained), Some(spent));
            steps = retained;
        }
        let (steps, source) = (segue_view::style::count(steps, "step"), self.selector());
        let done = format!("replayed {steps} of session {source}: no model and no tool was called");
        let with = With {
            name: name.map(str::to_owned),
            workspace: self.workspace_or_here()?,
            ..self.like(self.prompt()?)?
        };
        branch.lineage.mode = Some(segue_core::identity::Mode::Cache);
        self.make(branch, with, stop(Reason::Done, done))
    }

    /// A new run that begins with the steps of this one, up to one of them, and waits for somebody
    /// to go on. What it costs does not depend on how long this one is, and this one stays as it is.
    ///
    /// # Errors
    /// [`Error::NoStep`], [`Error::InsideBatch`], [`Error::NotSingle`], [`Error::Place`].
    pub fn fork(&self, after: impl Into<At>) -> Result<Run> {
        let workspace = self.workspace()?;
        let agent = self.state().agent().to_owned();
        let plan = self.plan_fork(after, &agent, None, &workspace, false)?;
        let (model, caps) = (self.model_of(&agent).map(str::to_owned), self.identity()?.caps);
        let by = By { agent, model, permission: None, caps, proof: None, name: None };
        let (branch, with) = plan.parts(self, by)?;
        self.fork_with(branch, with)
    }

    /// Makes a fork that was thought through ([`Run::leave`]), and waits for somebody to go on. Whoever
    /// does brings the files back first that its lineage names.
    ///
    /// # Errors
    /// [`Error::Name`], or when it can't be written.
    pub fn fork_with(&self, branch: Branch, with: With) -> Result<Run> {
        let waits = format!("it was forked after step {}: say what to do", branch.mark.index);
        self.make(branch, with, stop(Reason::Rewound, waits))
    }

    /// Thinks through how a new run leaves this one at a step. Nothing is made.
    ///
    /// # Errors
    /// [`Error::NoStep`], [`Error::InsideBatch`], [`Error::NotSingle`].
    pub fn leave(&self, step: impl Into<At>, how: How) -> Result<Branch> {
        self.leave_with(step, how, &self.keeper(&self.workspace_or_here()?))
    }

    /// The same, with the files as somebody has kept them.
    pub(crate) fn leave_with(
        &self,
        step: impl Into<At>,
        how: How,
        keeper: &Keeper,
    ) -> Result<Branch> {
        let (state, session) = (self.state(), self.journal());
        let single = |what| Err(Error::NotSingle { what });
        match self.identity()?.loop_kind {
            LoopKind::Crew => return single("a crew"),
            _ if state.tasks.is_some() => return single("a list of tasks"),
            _ if state.is_part() => return single("a reviewer"),
            _ => {}
        }
        let step = step.into();
        let fork = step.word().map(|word| graph::step_of_fork(self.runs.home(), session, word));
        let step = match fork.transpose()?.flatten() {
            Some(index) => At::from(index),
            None => step,
        };
        Ok(branch::leave(session, keeper, step.word(), how)?)
    }

    /// What has kept the files of its workspace, which is here now.
    pub(crate) fn keeper(&self, dir: &Path) -> Keeper {
        Keeper::new(self.journal(), dir, self.runs.checkpoints())
    }

    /// A recording can be told again also where its workspace is gone.
    fn workspace_or_here(&self) -> Result<PathBuf> {
        self.workspace().or_else(|_| cwd())
    }

    /// A run like this one.
    pub(crate) fn like(&self, prompt: String) -> Result<With> {
        let (state, identity) = (self.state(), self.identity()?);
        Ok(With {
            agent: state.agent().to_owned(),
            model: state.model().map(str::to_owned),
            permission: state.permission(),
            prompt,
            workspace: state.workspace().map(Path::to_owned).unwrap_or_default(),
            worktree: false,
            caps: identity.caps,
            proof: None,
            name: None,
            sealed: false,
            segue: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// Makes the run that was thought through. It stands like this from its first event on; the
    /// second one is for those who follow its journal.
    fn make(&self, mut branch: Branch, with: With, stands: SessionStopped) -> Result<Run> {
        branch.lineage.stands = Some(Box::new(stands.clone()));
        let new = branch.session(self.journal(), with)?;
        let (mut made, number) = self.runs.create(new)?;
        made.append(stands, Durability::Synced)?;
        let dir = made.session().dir().to_owned();
        drop(made);
        self.runs.open(&dir, Some(number))
    }

    /// Derives everything again from the bytes on the disk, and says what is no longer as it was.
    ///
    /// # Errors
    /// When the session can't be opened.
    pub fn verify(&self) -> Result<Findings> {
        Ok(reproduce::check(self.journal())?)
    }

    /// How two runs differ, step by step. What a rewind has left behind is not compared; nor are, of
    /// a rerun, the steps that it was told of: only those that were done in it.
    ///
    /// # Errors
    /// When one of them can't be read.
    pub fn diff(&self, other: &Run) -> Result<Alignment> {
        let [ours, theirs] = self.journal().first_steps(other.journal())?;
        let sketch = |run: &Run, own: u64| {
            let mut sketches = Vec::new();
            run.journal().steps_on_path(|step| {
                sketches.extend((step.index >= own).then(|| Sketch::of(&step)));
            })?;
            Ok::<_, Error>(sketches)
        };
        Ok(align(&sketch(self, ours)?, &sketch(other, theirs)?))
    }

    /// Saves the run into a file, by its ending: `.tine`, `.segue` (everything that going on elsewhere
    /// needs, without git objects), or `.json` (OpenTelemetry).
    ///
    /// # Errors
    /// [`Error::File`] where it can't be written as that. A file that is there is replaced.
    pub fn save(&self, file: impl AsRef<Path>) -> Result<PathBuf> {
        let path = file.as_ref();
        crate::file::save(self.journal(), path, (self.runs.clock())())?;
        Ok(path.to_owned())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Where it fails, the next look finds a crash, and the run can be resumed all the same.
        let _ = self.let_go("let go");
    }
}
