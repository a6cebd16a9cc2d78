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
    identity::RepoRef,
};
use segue_journal::home::NewSession;
use segue_loops::launch::{self, Surroundings, Worker};
use segue_runner::{NATIVE, vendor::Watch};

use crate::{
    At, Mode, Run, Runs, Work,
    error::{Error, Result},
    guard,
    hire::{HireError, Terms, Wanted, hire},
    plan::{By, Plan, said},
    runs::cwd,
    work::{Stage, Whereabouts},
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
    stop_at_drift: bool,
    runs: Option<Runs>,
    settings: Option<Settings>,
    segue: PathBuf,
}

impl Agent {
    /// Segue's own agent with a model: `anthropic/…`, `openai/…`, `chat/…` or `script:FILE`. The
    /// provider's key and address are those of the environment, as its own programs read them, or
    /// what [`Agent::settings`] says.
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
            stop_at_drift: false,
            runs: None,
            settings: None,
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

    /// How much it may spend; else 50 turns and 200 steps.
    #[must_use]
    pub fn caps(mut self, caps: Caps) -> Self {
        self.caps = caps;
        self
    }

    /// The work is done when this command succeeds. Where another run is gone on with or done again,
    /// that one's command counts if none is named here.
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

    /// In [`Mode::Continue`], it stops where it leaves the recording, and does not go live.
    #[must_use]
    pub fn stop_at_drift(mut self) -> Self {
        self.stop_at_drift = true;
        self
    }

    /// Where its runs are kept; else the person's own ([`Runs::here`]). What comes from another run is
    /// kept beside that, in any case.
    #[must_use]
    pub fn keep_in(mut self, runs: &Runs) -> Self {
        self.runs = Some(runs.clone());
        self
    }

    /// The key and the address of the model's provider; else the environment says them.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = Some(settings);
        self
    }

    /// The program `segue`, which serves tools to vendors' programs, and stands guard where
    /// [`crate::guard`] was not called; else the one in PATH.
    #[must_use]
    pub fn tools_from(mut self, segue: impl Into<PathBuf>) -> Self {
        self.segue = segue.into();
        self
    }

    /// Works on a prompt. The run is on the disk before the model is called.
    pub fn run(&self, prompt: impl Into<String>) -> Work {
        let (agent, prompt) = (self.clone(), prompt.into());
        Work::begin(move |stage| agent.start(prompt, stage))
    }

    /// Has a run told again from its recording, or done again.
    ///
    /// With [`Mode::Cache`] nobody is called, whoever this agent is: it is [`Run::replay`]. With
    /// [`Mode::Rerun`] it is [`Agent::rerun`], of all steps and with the same task. With
    /// [`Mode::Continue`] this agent runs again from the start, in a worktree, and is answered from
    /// the recording as long as it asks the same; its model is compared too. Only Segue's own agent
    /// can be answered like this, and only in a run that it made alone ([`Error::Unanswerable`]).
    pub fn replay(&self, run: &Run, mode: Mode) -> Work {
        match mode {
            Mode::Cache => {
                let source = run.whereabouts();
                Work::begin(move |_| source.open()?.replay(At::Last))
            }
            Mode::Rerun => self.rerun(run, At::Last, None),
            Mode::Continue => {
                let (agent, source) = (self.clone(), run.whereabouts());
                Work::begin(move |stage| agent.again(&source.open()?, stage))
            }
        }
    }

    /// Runs again from the start.
    fn again(&self, run: &Run, stage: &mut Stage) -> Result<Run> {
        if self.name != NATIVE {
            return Err(Error::Unanswerable { by: self.name.clone() });
        }
        let mut plan = run.plan_again(None, self.dir_of(run)?)?;
        plan.same_model = self.model.is_some();
        plan.stop_at_drift = self.stop_at_drift;
        let (by, worker) = self.by(run, &plan.dir)?;
        self.work(run.runs(), plan.session(run, by)?, worker, stage)
    }

    /// Does the work of a run again: told what is recorded up to a step, in a worktree with the files
    /// that the run began with. Without a prompt the task is the same.
    pub fn rerun(&self, run: &Run, up_to: impl Into<At>, prompt: Option<&str>) -> Work {
        let (agent, source, up_to) = (self.clone(), run.whereabouts(), up_to.into());
        let prompt = prompt.map(str::to_owned);
        Work::begin(move |stage| {
            let run = source.open()?;
            let plan = run.plan_rerun(up_to, prompt.as_deref(), agent.dir_of(&run)?)?;
            agent.join(&run, plan, stage)
        })
    }

    /// Goes on with a run: from its last step or from an earlier one, in a new run that begins with
    /// the steps up to there. The conversation is rebuilt from the recording; a vendor's program that
    /// has it not is told. From an earlier step it works in a worktree, with the files of that time.
    pub fn resume(&self, run: &Run, from: impl Into<At>, prompt: impl Into<String>) -> Work {
        let (agent, source) = (self.clone(), run.whereabouts());
        let (from, prompt) = (from.into(), prompt.into());
        Work::begin(move |stage| {
            let run = source.open()?;
            if run.identity()?.sealed {
                return Err(Error::NotResumable);
            }
            let dir = agent.dir_of(&run)?;
            let plan = run.plan_fork(from, &agent.name, Some(&prompt), &dir, agent.worktree)?;
            agent.join(&run, plan, stage)
        })
    }

    fn dir_of(&self, run: &Run) -> Result<PathBuf> {
        self.dir.as_deref().map_or_else(|| run.workspace(), found)
    }

    /// Works in a run that was thought through.
    fn join(&self, run: &Run, plan: Plan, stage: &mut Stage) -> Result<Run> {
        let (by, worker) = self.by(run, &plan.dir)?;
        self.work(run.runs(), plan.session(run, by)?, worker, stage)
    }

    /// This agent, for a run that comes from another one.
    fn by(&self, run: &Run, dir: &Path) -> Result<(By, Worker)> {
        let model = self.model.as_deref().or_else(|| run.model_of(&self.name));
        let (model, worker) = self.hired(&self.name, model, dir)?;
        let by = By {
            agent: self.name.clone(),
            model,
            permission: self.permission,
            caps: self.caps,
            proof: self.proof.clone(),
            name: None,
        };
        Ok((by, worker))
    }

    fn start(&self, prompt: String, stage: &mut Stage) -> Result<Run> {
        said(&prompt)?;
        let runs = self.runs.clone().map_or_else(Runs::here, Ok)?;
        let workspace = found(self.dir.as_deref().unwrap_or_else(|| Path::new(".")))?;
        let (model, worker) = self.hired(&self.name, self.model.as_deref(), &workspace)?;
        let repo = segue_workspace::identify(&workspace)
            .map_err(|error| Error::Other(error.to_string()))?;
        let segue_workspace::Repo { id, identity, head, branch, .. } = repo;
        let new = NewSession {
            model,
            permission: self.permission.unwrap_or_default(),
            proof: self.proof.clone(),
            caps: self.caps,
            worktree: self.worktree,
            ..NewSession::new(
                RepoRef { id, identity, head, branch },
                workspace,
                self.name.clone(),
                prompt,
            )
        };
        self.work(&runs, new, worker, stage)
    }

    /// Makes a run and works on it.
    fn work(&self, runs: &Runs, new: NewSession, worker: Worker, stage: &mut Stage) -> Result<Run> {
        // Before there is a run that could not be started.
        guard::check(&self.segue)?;
        worker.check_price(new.caps)?;
        let workspace = new.workspace.clone();
        let (session, number) = runs.create(new)?;
        let dir = session.session().dir().to_owned();
        let at = Whereabouts { runs: runs.clone(), dir, number: Some(number) };
        stage.began(at.clone());
        let around = Surroundings {
            clock: Arc::clone(runs.clock()),
            interrupt: stage.interrupt.clone(),
            observer: stage,
            segue: env!("CARGO_PKG_VERSION").to_owned(),
            me: runs.me(),
            home: runs.home().clone(),
            number: Some(number),
            hire: Box::new(|agent, model| {
                let hired = self.hired(agent, model, &workspace);
                hired.map(|(_, worker)| worker).map_err(|error| error.to_string())
            }),
            wait: false,
            give_back: false,
            purse: None,
            checkpoints: runs.checkpoints(),
        };
        let SessionStopped { reason, message, .. } = launch::start(session, worker, around)?;
        let run = at.open()?;
        match reason {
            Reason::Done => Ok(run),
            reason => Err(Error::Stopped { run: Box::new(run), reason, message }),
        }
    }

    fn hired(
        &self,
        agent: &str,
        model: Option<&str>,
        cwd: &Path,
    ) -> Result<(Option<String>, Worker), HireError> {
        let wanted =
            Wanted { agent, model, permission: self.permission, fresh: false, cwd: cwd.to_owned() };
        let env = |name: &str| std::env::var(name).ok();
        let settings = |provider| match &self.settings {
            Some(settings) => settings.clone(),
            None => Settings::from_env(provider, &env),
        };
        let terms = Terms {
            settings: &settings,
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

/// A directory to work in, without links: it stands in the journal.
fn found(dir: &Path) -> Result<PathBuf> {
    let wrong = |message: String| Error::File { path: dir.to_owned(), message };
    let found =
        std::fs::canonicalize(cwd()?.join(dir)).map_err(|error| wrong(error.to_string()))?;
    if found.to_str().is_none() {
        return Err(wrong("the path is not UTF-8".to_owned()));
    }
    std::fs::read_dir(&found).map_err(|error| wrong(error.to_string()))?;
    Ok(found)
}
