//! Bringing a session to work: a new one, or one that stands still.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_core::{
    Permission, State,
    caps::{Cap, Caps},
    event::{Draft, Process, Reason, SessionResumed, SessionStarted, SessionStopped},
    state::Phase,
};
use segue_journal::{
    Clock, Durability, Home, LockedSession, Session, home::NewSession, lock::Holder,
    session::Mended,
};
use segue_runner::{
    Agent, Interrupt, Observer, Supervisor,
    native::{Native, NativeConfig},
    process,
    supervisor::stop,
    vendor::{Hired, VendorConfig},
};

use crate::solo;

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

    fn agent(
        self,
        session: &Session,
        permission: Permission,
        workspace: &Path,
        caps: Caps,
    ) -> Result<Box<dyn Agent>, LaunchError> {
        self.check_price(caps)?;
        let wrong = |source| LaunchError::Workspace { path: workspace.to_owned(), source };
        Ok(match self {
            Self::Native(native) => Box::new(Native::new(native, workspace).map_err(wrong)?),
            Self::Vendor(vendor) => {
                std::fs::read_dir(workspace).map_err(wrong)?;
                Box::new(Hired::new(vendor, session, workspace, permission))
            }
        })
    }
}

/// Starts a session that [`create`] made.
pub fn start(
    session: LockedSession,
    worker: Worker,
    around: Surroundings<'_>,
) -> Result<SessionStopped, LaunchError> {
    let state = session.state();
    let caps = state.caps;
    let workspace = workspace(&session);
    let mut agent = worker.agent(session.session(), state.permission(), &workspace, caps)?;
    let started = SessionStarted { by: around.process(), caps };
    work(session, started.into(), agent.as_mut(), &workspace, None, around)
}

/// Creates a session and gives it its number. Nothing runs yet.
pub fn create(
    home: &Home,
    new: NewSession,
    around: &Surroundings<'_>,
) -> Result<(LockedSession, u64), LaunchError> {
    Ok(home.create(new, &around.me, &around.clock)?)
}

/// How a session is to go on.
#[derive(Debug, Default)]
pub struct Resume {
    pub prompt: Option<String>,
    pub caps: Caps,
    pub model: Option<String>,
    pub workspace: Option<PathBuf>,
    pub permission: Option<Permission>,
    /// What was printed before.
    pub plan: Vec<String>,
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
        if let Some(cap) = caps.against_turn(&then, (around.clock)()) {
            return Err(LaunchError::NoRoom { cap });
        }
    }
    let (session, what) = session.lock(&around.me, Arc::clone(&around.clock))?;
    mended(&what);
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
    let workspace = resumed.workspace.clone().unwrap_or_else(|| workspace(&session));
    let state = session.state();
    let permission = resumed.permission.unwrap_or_else(|| state.permission());
    let mut agent = worker.agent(session.session(), permission, &workspace, caps)?;
    agent.recall(session.session())?;
    work(session, resumed.into(), agent.as_mut(), &workspace, how.prompt.as_deref(), around)
}

/// Where the agent works, unless a resume names another place.
fn workspace(session: &LockedSession) -> PathBuf {
    session.state().workspace().map(PathBuf::from).unwrap_or_default()
}

fn work(
    session: LockedSession,
    begin: Draft,
    agent: &mut dyn Agent,
    workspace: &Path,
    prompt: Option<&str>,
    around: Surroundings<'_>,
) -> Result<SessionStopped, LaunchError> {
    let Surroundings { clock, interrupt, observer, me, .. } = around;
    let (disk, dir) = (Arc::clone(session.session().disk()), session.session().dir().to_owned());
    let mut supervisor = Supervisor::new(session, Arc::clone(&clock), interrupt, observer);
    let done = match supervisor.commit(begin) {
        Ok(_) => solo::run(&mut supervisor, agent, workspace, prompt),
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
