//! Somebody who works.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_agents::native::{Settings, retry::Policy};
use segue_core::{
    Permission,
    caps::Caps,
    event::{Reason, SessionStopped},
    identity::{How, LoopKind, RepoRef},
};
use segue_journal::{LockedSession, home::NewSession};
use segue_loops::{
    branch::{Branch, With},
    keep::Checkpoints,
    launch::{self, Surroundings, Worker},
};
use segue_runner::{Interrupt, NATIVE, Observer, vendor::Watch};

use crate::{
    Run, Runs, Work,
    error::{Error, Result},
    hire::{HireError, Terms, Wanted, hire},
};

/// A model behind an API, or a vendor's program; and how it is to work.
#[derive(Clone, Debug)]
pub struct Agent {
    name: String,
    model: Option<String>,
    dir: Option<PathBuf>,
    permission: Option<Permission>,
    caps: Caps,
    proof: Option<String>,
    worktree: bool,
    runs: Option<Runs>,
    segue: PathBuf,
}

impl Agent {
    /// Segue's own agent with a model: `anthropic/…`, `openai/…`, `chat/…` or `script:FILE`.
    #[must_use]
    pub fn new(model: impl Into<String>) -> Self {
        Self { model: Some(model.into()), ..Self::vendor(NATIVE) }
    }

    /// A vendor's program by its name: `claude`, `codex`, `gemini`, `copilot`, `opencode`, …
    #[must_use]
    pub fn vendor(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            model: None,
            dir: None,
            permission: None,
            caps: Caps { turns: Some(50), steps: Some(200), ..Caps::default() },
            proof: None,
            worktree: false,
            runs: None,
            segue: "segue".into(),
        }
    }

    /// Another model than the vendor's own choice.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Where it works; else in the working directory, or where the run that it goes on with was.
    #[must_use]
    pub fn in_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// What it may do.
    #[must_use]
    pub fn permission(mut self, permission: Permission) -> Self {
        self.permission = Some(permission);
        self
    }

    /// How much it may spend.
    #[must_use]
    pub fn caps(mut self, caps: Caps) -> Self {
        self.caps = caps;
        self
    }

    /// The work is done when this command succeeds.
    #[must_use]
    pub fn proof(mut self, command: impl Into<String>) -> Self {
        self.proof = Some(command.into());
        self
    }

    /// It works in a worktree of the run's own.
    #[must_use]
    pub fn worktree(mut self) -> Self {
        self.worktree = true;
        self
    }

    /// Where its runs are kept; else the person's own.
    #[must_use]
    pub fn keep_in(mut self, runs: &Runs) -> Self {
        self.runs = Some(runs.clone());
        self
    }

    /// The program `segue`, which serves tools to vendors' programs; else the one in PATH.
    #[must_use]
    pub fn tools_from(mut self, segue: impl Into<PathBuf>) -> Self {
        self.segue = segue.into();
        self
    }

    /// Works on a prompt. The run is on the disk before the model is called.
    pub fn run(&self, prompt: impl Into<String>) -> Work {
        let (agent, prompt) = (self.clone(), prompt.into());
        Work::begin(move |interrupt, observer| agent.start(prompt, interrupt, observer))
    }

    /// A new run of the recorded steps of another one: nobody is called, whoever this agent is.
    ///
    /// # Errors
    /// See [`Run::replay`].
    pub fn replay(&self, run: &Run) -> Result<Run> {
        run.replay(None)
    }

    /// Goes on with a run: from its last step or from an earlier one, in a new run that begins with
    /// the steps up to there. The conversation is rebuilt from the recording; a vendor's program that
    /// has it not is told.
    pub fn resume(&self, run: &Run, from_step: Option<&str>, prompt: impl Into<String>) -> Work {
        let (agent, prompt) = (self.clone(), prompt.into());
        let leaving = agent.leaving(run, from_step, prompt);
        Work::begin(move |interrupt, observer| {
            let Leaving { runs, branch, with, source, files } = leaving?;
            let (model, worker) = agent.hired(with.model.as_deref(), &with.workspace)?;
            let new = branch.session(&source, With { model, ..with })?;
            let me = runs.me();
            let (session, number) = runs.home().create(new, &me, runs.clock())?;
            agent.work(&runs, session, number, worker, files, interrupt, observer)
        })
    }

    fn leaving(&self, run: &Run, from_step: Option<&str>, prompt: String) -> Result<Leaving> {
        if !run.manifest()?.resume {
            return Err(Error::NotResumable);
        }
        let session = run.journal()?;
        let mut branch = run.leave(from_step, How::Forked)?;
        branch.fork_natively(session, &self.name)?;
        let like = run.with(prompt)?;
        let same = like.agent == self.name;
        let dir = self.dir.clone().unwrap_or_else(|| like.workspace.clone());
        // At an earlier step the files are others, and what is there now is not touched.
        let git = segue_workspace::identify(&dir).is_ok_and(|repo| repo.head.is_some());
        let worktree = self.worktree || !branch.tip && git;
        let files = branch.files.commit().map(str::to_owned).filter(|_| worktree);
        let with = With {
            agent: self.name.clone(),
            model: self.model.clone().or(like.model.filter(|_| same)),
            permission: self.permission.unwrap_or(like.permission),
            workspace: dir,
            worktree,
            caps: self.caps,
            ..like
        };
        let runs = self.runs.clone().unwrap_or_else(|| run.runs().clone());
        let disk = Arc::clone(runs.home().disk());
        let source = segue_journal::Session::open(disk, session.dir())?;
        Ok(Leaving { runs, branch, with, source, files })
    }

    fn start(
        &self,
        prompt: String,
        interrupt: Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<Run> {
        let runs = match &self.runs {
            Some(runs) => runs.clone(),
            None => Runs::here()?,
        };
        let dir = self.dir.clone().unwrap_or_else(|| ".".into());
        let wrong =
            |error: std::io::Error| Error::File { path: dir.clone(), message: error.to_string() };
        let workspace = std::fs::canonicalize(&dir).map_err(wrong)?;
        let (model, worker) = self.hired(self.model.as_deref(), &workspace)?;
        let repo = segue_workspace::identify(&workspace)
            .map_err(|error| Error::Other(error.to_string()))?;
        let new = NewSession {
            repo: RepoRef {
                id: repo.id,
                identity: repo.identity,
                head: repo.head,
                branch: repo.branch,
            },
            workspace,
            loop_kind: LoopKind::Solo,
            agent: self.name.clone(),
            model,
            permission: self.permission.unwrap_or_default(),
            vendor_args: Vec::new(),
            prompt,
            proof: self.proof.clone(),
            proof_secs: None,
            pair: None,
            tasks: None,
            caps: self.caps,
            lineage: None,
            packet: None,
            fallback: Vec::new(),
            worktree: self.worktree,
            sealed: false,
            name: None,
            segue: env!("CARGO_PKG_VERSION").to_owned(),
        };
        worker.check_price(new.caps)?;
        let (session, number) = runs.home().create(new, &runs.me(), runs.clock())?;
        self.work(&runs, session, number, worker, None, interrupt, observer)
    }

    #[expect(clippy::too_many_arguments, reason = "what a launch takes, one by one")]
    fn work(
        &self,
        runs: &Runs,
        session: LockedSession,
        number: u64,
        worker: Worker,
        files: Option<String>,
        interrupt: Interrupt,
        observer: &mut dyn Observer,
    ) -> Result<Run> {
        let dir = session.session().dir().to_owned();
        let around = Surroundings {
            clock: Arc::clone(runs.clock()),
            interrupt,
            observer,
            segue: env!("CARGO_PKG_VERSION").to_owned(),
            me: runs.me(),
            home: runs.home().clone(),
            number: Some(number),
            hire: Box::new(|agent, _| Err(format!("{agent} was not asked for"))),
            wait: false,
            give_back: false,
            checkpoints: Checkpoints::default(),
        };
        let SessionStopped { reason, message, .. } = launch::start(session, worker, files, around)?;
        match reason {
            Reason::Done => runs.open(&dir, Some(number)),
            reason => Err(Error::Stopped { reason, message }),
        }
    }

    fn hired(
        &self,
        model: Option<&str>,
        cwd: &Path,
    ) -> Result<(Option<String>, Worker), HireError> {
        let wanted = Wanted {
            agent: &self.name,
            model,
            permission: self.permission,
            fresh: false,
            cwd: cwd.to_owned(),
        };
        let terms = Terms {
            settings: &|provider| {
                Settings::from_env(provider, &|name: &str| std::env::var(name).ok())
            },
            prices: Default::default(),
            calls: Policy::default(),
            starts: Policy::default(),
            watch: Watch::default(),
            tools: true,
            segue: self.segue.clone(),
        };
        hire(&wanted, terms)
    }
}

/// A run that is to be left, thought through.
struct Leaving {
    runs: Runs,
    branch: Branch,
    with: With,
    source: segue_journal::Session,
    files: Option<String>,
}
