//! Bringing a session to work: a new one, or one that stands still.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_core::{
    Permission, State,
    caps::{Cap, Caps},
    event::{
        AgentChanged, Cause, Draft, Mark, Process, Reason, RewindStarted, SessionResumed,
        SessionStarted, SessionStopped,
    },
    state::{Phase, TaskStep},
};
use segue_journal::{
    Clock, Durability, Home, LockedSession, Session, home::NewSession, lock::Holder,
    session::Mended,
};
use segue_runner::{
    Agent, Halt, Interrupt, NATIVE, Observer, Purse, Supervisor,
    native::{Native, NativeConfig},
    process,
    supervisor::stop,
    vendor::{Hired, VendorConfig},
};

use crate::{
    keep::{Checkpoints, Keeper, take_in},
    panel::Panel,
    rehearsal::Rehearsal,
    rewind,
    shift::{Hire, Shift},
    tasks,
    tools::Toolbox,
    work, worktree,
};

/// How long processes of a run that died may take to end.
const SWEEP_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Journal(#[from] segue_journal::Error),
    #[error("{}: {source}", path.display())]
    Workspace { path: PathBuf, source: std::io::Error },
    /// A cap on money with a model whose price nobody knows would never be reached.
    #[error("the price of {} is not known, so a cap on money can't be kept", named(model))]
    NoPrice { model: String },
    /// Said before anything is recorded: a prompt that a cap stops at once would be lost.
    #[error("the cap on {} leaves no room for another turn", cap.to_string().replace('_', " "))]
    NoRoom { cap: Cap },
    /// Somebody else would go on changing files beside the resumed session.
    #[error("processes of the run before can't be ended: {}", list(pids))]
    StillRunning { pids: Vec<u32> },
    #[error("the worktree: {0}")]
    Worktree(String),
    /// The worktree is there, and the branch that it has checked out is not the session's.
    #[error("the worktree {} is not on the session's branch {branch}", path.display())]
    Elsewhere { path: PathBuf, branch: String },
    /// What was to be done could not be.
    #[error("{0}")]
    Stopped(String),
}

fn named(model: &str) -> &str {
    if model.is_empty() { "the vendor's own choice of a model" } else { model }
}

fn list(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// What every launch needs from its surroundings.
pub struct Surroundings<'a> {
    pub clock: Clock,
    pub interrupt: Interrupt,
    pub observer: &'a mut dyn Observer,
    /// The version of Segue that works.
    pub segue: String,
    pub me: Holder,
    pub home: Home,
    /// What the session is called here.
    pub number: Option<u64>,
    /// Finds someone else for the work.
    pub hire: Hire<'a>,
    /// Where a limit stops the work and nobody else can go on, wait until it is over.
    pub wait: bool,
    /// Give the work back to the first agent once its limit is over.
    pub give_back: bool,
    /// Keep the workspace at the end of every turn.
    pub checkpoints: Checkpoints,
    /// What it spends together with others, under the same caps.
    pub purse: Option<Purse>,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Surroundings<'_> {
    fn process(&self) -> Process {
        Process { pid: self.me.pid, host: self.me.host.clone(), segue: self.segue.clone() }
    }
}

/// Who will work.
#[derive(Debug)]
pub enum Worker {
    Native(NativeConfig),
    Vendor(VendorConfig),
}

impl Worker {
    /// Refuses a cap on money that could not be kept.
    pub fn check_price(&self, caps: Caps) -> Result<(), LaunchError> {
        let (priced, model) = match self {
            Self::Native(native) => (native.price().is_some(), native.model.name().to_owned()),
            Self::Vendor(vendor) => {
                let model = vendor.model.clone();
                let known = vendor.price().is_some() || vendor.vendor.card().can.cost;
                (known, model.unwrap_or_default())
            }
        };
        match caps.cost_micros.is_some() && !priced {
            true => Err(LaunchError::NoPrice { model }),
            false => Ok(()),
        }
    }

    /// Whether it does no more than it may.
    pub(crate) fn can_be_held(&self) -> bool {
        match self {
            Self::Native(_) => true,
            Self::Vendor(vendor) => vendor.vendor.card().can.permission,
        }
    }

    /// How much its model can take in at once.
    pub(crate) fn context_tokens(&self) -> u64 {
        match self {
            Self::Native(native) => native.model.context_tokens(),
            Self::Vendor(vendor) => vendor.vendor.context_tokens(),
        }
    }

    pub(crate) fn agent(
        self,
        session: &Session,
        permission: Permission,
        workspace: &Path,
        caps: Caps,
    ) -> Result<Box<dyn Agent>, LaunchError> {
        self.check_price(caps)?;
        let wrong = |source| LaunchError::Workspace { path: workspace.to_owned(), source };
        Ok(match self {
            Self::Native(native) => {
                let tokens = native.model.context_tokens();
                let agent = Native::new(native, workspace, permission).map_err(wrong)?;
                let mut agent = agent.with_tools(Box::new(Toolbox::of(session, NATIVE)));
                if let Some(dir) = told_in(session) {
                    agent = agent.told_in(dir);
                }
                if let Some(rehearsal) = Rehearsal::open(session, workspace, tokens)? {
                    agent = agent.answered_by(Box::new(rehearsal));
                }
                Box::new(agent)
            }
            Self::Vendor(vendor) => {
                std::fs::read_dir(workspace).map_err(wrong)?;
                Box::new(Hired::new(vendor, session, workspace, permission))
            }
        })
    }
}

/// Where what the project tells agents is read, in a session that runs again: where a person would
/// change it. Its worktree has what was there when the recording began.
fn told_in(session: &Session) -> Option<&Path> {
    let identity = session.state().identity.as_ref()?;
    let again = identity.lineage.as_ref()?.recording.is_some();
    Some(identity.workspace.as_path()).filter(|dir| again && dir.is_dir())
}

/// Starts a session that [`create`] made. The files that it begins with are brought back first.
pub fn start(
    mut session: LockedSession,
    worker: Worker,
    around: Surroundings<'_>,
) -> Result<SessionStopped, LaunchError> {
    let recorded = workspace(&session);
    let workspace = match worktree::ensure(&mut session, &recorded, around.number) {
        Ok(tree) => tree.unwrap_or(recorded),
        Err(error) => {
            discard_unplanned(session, &around);
            return Err(error);
        }
    };
    let state = session.state();
    let caps = state.caps;
    let agent = worker.agent(session.session(), state.permission(), &workspace, caps)?;
    let started = SessionStarted { by: around.process(), caps };
    work(session, vec![started.into()], agent, workspace, Task::default(), around)
}

/// A session that was to have a worktree and can't would be resumed outside of one.
fn discard_unplanned(session: LockedSession, around: &Surroundings<'_>) {
    if session.state().worktree.is_some() {
        return;
    }
    let (id, dir) = (session.session().id(), session.session().dir().to_owned());
    drop(session);
    let at = around.home.sessions().ok().into_iter().flatten().find(|at| at.id == id);
    if let Some(at) = at.filter(|at| around.home.session_dir(at) == dir) {
        let _ = around.home.remove(&at, &around.me);
    }
}

/// Creates a session and gives it its number. Nothing runs yet.
pub fn create(
    home: &Home,
    new: NewSession,
    around: &Surroundings<'_>,
) -> Result<(LockedSession, u64), LaunchError> {
    Ok(home.create(new, &around.me, &around.clock)?)
}

/// Sets a session aside that a person does not want to go on with. It can be resumed all the same.
pub fn discard(session: Session, me: &Holder, clock: &Clock) -> Result<(), LaunchError> {
    let (mut session, _) = session.lock(me, Arc::clone(clock))?;
    session
        .append(stop(Reason::Discarded, "set aside: another run was begun"), Durability::Synced)?;
    Ok(())
}

/// What is asked of a session.
#[derive(Clone, Debug)]
pub struct Asked {
    pub text: String,
    pub cause: Cause,
    /// What the answer will be known by.
    pub question: Option<String>,
    /// The messages that are part of it.
    pub messages: Vec<String>,
    /// Whoever is asked is to know nothing of what was said before.
    pub fresh: bool,
}

impl Asked {
    #[must_use]
    pub fn by_a_person(text: String) -> Self {
        Self { text, cause: Cause::Person, question: None, messages: Vec::new(), fresh: false }
    }
}

/// How a session is to go on.
#[derive(Debug, Default)]
pub struct Resume {
    pub prompt: Option<Asked>,
    pub caps: Caps,
    pub model: Option<String>,
    pub workspace: Option<PathBuf>,
    pub permission: Option<Permission>,
    /// Somebody else goes on.
    pub change: Option<AgentChanged>,
    /// Go back first.
    pub rewind: Option<RewindStarted>,
    /// The list of tasks, as it is now.
    pub tasks: Option<tasks::Source>,
    /// What was printed before.
    pub plan: Vec<String>,
}

impl Resume {
    /// Whether the next turn is a conversation of its own.
    fn is_fresh(&self, state: &State) -> bool {
        let asked = self.prompt.as_ref().is_some_and(|asked| asked.fresh);
        let step = state.tasks.as_ref().map(|tasks| tasks.step(state.turn.number));
        // What is open has to be answered first, by somebody who knows what it was.
        !state.turn.open && (asked || step == Some(TaskStep::Start))
    }
}

/// Takes a session over: locks it, ends what its last run left behind, and goes on.
pub fn resume(
    session: Session,
    how: Resume,
    worker: Worker,
    around: Surroundings<'_>,
    mended: impl FnOnce(&[Mended]),
) -> Result<SessionStopped, LaunchError> {
    let caps = session.state().caps.overridden_by(how.caps);
    if how.prompt.is_some() {
        // As it will be when the session has been resumed: the wall clock starts again.
        let then = State { running_since: None, ..session.state().clone() };
        if let Some(cap) = caps.against(Cause::Person, &then, (around.clock)()) {
            return Err(LaunchError::NoRoom { cap });
        }
    }
    let (mut session, what) = session.lock(&around.me, Arc::clone(&around.clock))?;
    mended(&what);
    let fresh = how.is_fresh(session.state());
    let id = session.session().id().to_string();
    let sweep = process::end_leftovers(&id, SWEEP_LIMIT);
    if !sweep.alive.is_empty() {
        let pids = sweep.alive.iter().map(|process| process.pid).collect();
        return Err(LaunchError::StillRunning { pids });
    }
    let resumed = SessionResumed {
        by: around.process(),
        caps,
        plan: how.plan,
        crashed: session.state().phase == Phase::Running,
        model: how.model,
        workspace: how.workspace,
        permission: how.permission,
        leftovers_ended: sweep.found.iter().map(|found| found.pid).collect(),
    };
    let recorded = workspace(&session);
    let workspace = match &resumed.workspace {
        // On another machine there may be nothing that a worktree could be built from.
        Some(named) => named.clone(),
        None => worktree::ensure(&mut session, &recorded, around.number)?.unwrap_or(recorded),
    };
    let state = session.state();
    let permission = resumed.permission.unwrap_or_else(|| state.permission());
    let mut agent = worker.agent(session.session(), permission, &workspace, caps)?;
    // Before a rewind it would remember what is about to be left behind; and what is begun afresh
    // needs nothing of what was said before, which may even be unreadable.
    if how.rewind.is_none() && session.state().rewind.under_way.is_none() && !fresh {
        agent.recall(session.session())?;
    }
    let read = match &how.tasks {
        Some(source) => source.news(&session)?,
        None => None,
    };
    let begin = [Some(Draft::from(resumed)), read.map(Draft::from), how.change.map(Draft::from)];
    let begin = begin.into_iter().flatten().collect();
    let task = Task { prompt: how.prompt, rewind: how.rewind };
    work(session, begin, agent, workspace, task, around)
}

/// Where the agent works, unless a resume names another place.
fn workspace(session: &LockedSession) -> PathBuf {
    session.state().workspace().map(PathBuf::from).unwrap_or_default()
}

/// What to do once the session is taken over.
#[derive(Debug, Default)]
struct Task {
    prompt: Option<Asked>,
    rewind: Option<RewindStarted>,
}

fn work(
    session: LockedSession,
    begin: Vec<Draft>,
    agent: Box<dyn Agent>,
    workspace: PathBuf,
    task: Task,
    around: Surroundings<'_>,
) -> Result<SessionStopped, LaunchError> {
    let Surroundings { clock, interrupt, observer, me, home, number, hire, segue, .. } = around;
    let keeper = Keeper::new(session.session(), &workspace, around.checkpoints);
    let (wait, give_back) = (around.wait, around.give_back);
    let panel = Panel { me: me.clone(), segue, interrupt: interrupt.clone() };
    let mut shift = Shift { home, number, workspace, keeper, hire, wait, give_back, agent, panel };
    let (disk, dir) = (Arc::clone(session.session().disk()), session.session().dir().to_owned());
    let mut supervisor =
        Supervisor::new(session, Arc::clone(&clock), interrupt, observer).sharing(around.purse);
    let rewinds = task.rewind.is_some() || supervisor.state().rewind.under_way.is_some();
    let begun = supervisor
        .commit_all(begin)
        .and_then(|_| rewind::complete(&mut supervisor, &shift.keeper))
        .and_then(|()| match task.rewind {
            Some(back) => rewind::rewind(&mut supervisor, &shift.keeper, back),
            None => Ok(()),
        })
        .and_then(|()| match rewinds {
            true => Ok(shift.agent.recall(supervisor.session().session())?),
            false => Ok(()),
        });
    let done = match begun {
        Ok(()) => work::run(&mut supervisor, &mut shift, task.prompt.as_ref()),
        Err(segue_runner::Halt::Stop(stop)) => Ok(*stop),
        Err(segue_runner::Halt::Journal(error)) => Err(error),
    };
    // The lock has to go before the session can be opened afresh.
    drop(supervisor.into_session());
    done.map_err(|error| {
        record_failure(Session::open(disk, &dir), &me, &clock, &error);
        LaunchError::Journal(error)
    })
}

/// After a failed write the file is read afresh, and the session says what happened, if it can.
fn record_failure(
    session: segue_journal::Result<Session>,
    me: &Holder,
    clock: &Clock,
    error: &segue_journal::Error,
) {
    if let Ok((mut session, _)) = session.and_then(|found| found.lock(me, Arc::clone(clock))) {
        // On a disk that is still full this fails too; the next look then finds a crash.
        let _ = session.append(stop(Reason::Disk, error.to_string()), Durability::Synced);
    }
}

/// Goes back, and stands still there: nobody is asked to work.
pub fn rewind(
    session: Session,
    workspace: &Path,
    started: RewindStarted,
    stop: SessionStopped,
    around: Surroundings<'_>,
    mended: impl FnOnce(&[Mended]),
) -> Result<(), LaunchError> {
    still(session, workspace, around, mended, |supervisor, keeper, number| {
        rewind::complete(supervisor, keeper)?;
        rewind::rewind(supervisor, keeper, started)?;
        keeper.packet(supervisor, number, "rewound")?;
        supervisor.commit(stop).map(drop)
    })
}

/// Brings a rewind to its end that was cut short, so that it can be taken back.
pub fn finish_rewind(
    session: Session,
    workspace: &Path,
    around: Surroundings<'_>,
    mended: impl FnOnce(&[Mended]),
) -> Result<(), LaunchError> {
    still(session, workspace, around, mended, |supervisor, keeper, _| {
        rewind::complete(supervisor, keeper)
    })
}

/// Makes the packet of a session that stands still, and hands it to somebody else if that is asked.
pub fn hand_off(
    session: Session,
    workspace: &Path,
    change: Option<AgentChanged>,
    reason: &str,
    around: Surroundings<'_>,
    mended: impl FnOnce(&[Mended]),
) -> Result<(), LaunchError> {
    still(session, workspace, around, mended, |supervisor, keeper, number| {
        rewind::complete(supervisor, keeper)?;
        take_in(supervisor)?;
        if supervisor.state().phase == Phase::Running {
            keeper.checkpoint(supervisor, Mark::Stop)?;
        }
        keeper.packet(supervisor, number, reason)?;
        match change {
            Some(change) => supervisor.commit(change).map(drop),
            None => Ok(()),
        }
    })
}

/// Takes a session over for something that needs no agent.
fn still(
    session: Session,
    workspace: &Path,
    around: Surroundings<'_>,
    mended: impl FnOnce(&[Mended]),
    work: impl FnOnce(&mut Supervisor<'_>, &Keeper, Option<u64>) -> Result<(), Halt>,
) -> Result<(), LaunchError> {
    let (mut session, what) = session.lock(&around.me, Arc::clone(&around.clock))?;
    mended(&what);
    // Before it has its worktree, the place that it is known to work in is somebody else's.
    let workspace = match session.state().worktree {
        None => worktree::ensure(&mut session, workspace, around.number)?,
        Some(_) => None,
    }
    .unwrap_or_else(|| workspace.to_owned());
    let keeper = Keeper::new(session.session(), &workspace, around.checkpoints);
    let Surroundings { clock, interrupt, observer, number, .. } = around;
    let mut supervisor = Supervisor::new(session, clock, interrupt, observer);
    match work(&mut supervisor, &keeper, number) {
        Ok(()) => Ok(()),
        Err(Halt::Journal(error)) => Err(LaunchError::Journal(error)),
        Err(Halt::Stop(stop)) => Err(LaunchError::Stopped(stop.message)),
    }
}
