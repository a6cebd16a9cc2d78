//! A vendor's program as an agent: started, resumed or forked for each turn, listened to, stopped.
//!
//! Which of the vendor's conversations a turn goes to, and what is said there, is decided from the
//! journal and from the vendor's own file: its own memory where it still has it, told what it lost;
//! else a new conversation with a packet of what happened.

mod listen;
mod memory;
mod play;
mod text;
mod words;

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use segue_agents::{
    native::retry::Policy,
    vendor::{Card, Ending, Job, Program, ToolServer, Trouble, Vendor, World},
};
use segue_core::{
    Permission,
    event::{
        AgentIntroduced, AgentStarted, Body, Entry, ModelFailed, Outcome, Reason, SessionStopped,
    },
    usage::Price,
};
use segue_journal::{Session, stream::Voice};

pub use play::Watch;

use self::{
    listen::{Listener, Played, settle},
    play::play,
    words::{Words, first_words},
};
use crate::{
    agent::Agent,
    guardian::{Exit, Spec, Stdin},
    process,
    supervisor::{Halt, Supervisor, stop},
    trouble::{failure, given_up, jitter},
};

/// Never given to a vendor's program: they are for the native agent alone.
const OURS: [&str; 1] = ["SEGUE_CHAT_KEY"];

/// A name for a conversation that nobody else has.
pub fn fresh_id() -> Result<String, Halt> {
    words::uuid().map_err(|error| stop(Reason::Failed, error.to_string()).into())
}

/// What a vendor's agent is made of.
#[derive(Debug)]
pub struct VendorConfig {
    pub vendor: Box<dyn Vendor>,
    pub program: Program,
    pub world: World,
    pub model: Option<String>,
    pub prices: HashMap<String, Price>,
    pub policy: Policy,
    pub watch: Watch,
    /// Begin a new conversation, whatever the vendor remembers.
    pub fresh: bool,
    /// Offer our own tools to the program.
    pub tools: bool,
    /// This very program, which serves them.
    pub segue: PathBuf,
}

impl VendorConfig {
    /// What the model costs, where it is named, by a person's word or by the table.
    #[must_use]
    pub fn price(&self) -> Option<Price> {
        let model = self.model.as_deref()?;
        self.prices.get(model).copied().or_else(|| segue_agents::native::price::price(model))
    }
}

/// A vendor's program in one session.
#[derive(Debug)]
pub struct Hired {
    config: VendorConfig,
    card: Card,
    cwd: PathBuf,
    /// Where files for the program are put.
    files: PathBuf,
    permission: Permission,
    extra: Vec<String>,
    /// The next conversation has to be a new one.
    fresh: bool,
    /// Why the turn under way was broken off, in words for the agent.
    why: String,
}

impl Hired {
    #[must_use]
    pub fn new(
        config: VendorConfig,
        session: &Session,
        cwd: &Path,
        permission: Permission,
    ) -> Self {
        let identity = session.state().identity.as_ref();
        let card = config.vendor.card();
        Self {
            cwd: cwd.to_owned(),
            files: session.text_files(),
            // What can't be held may do everything, and is recorded so.
            permission: if card.can.permission { permission } else { Permission::Full },
            // The flags were meant for the one that began.
            extra: identity
                .filter(|found| found.agent == card.name)
                .map(|found| found.vendor_args.clone())
                .unwrap_or_default(),
            fresh: config.fresh,
            why: String::new(),
            card,
            config,
        }
    }

    /// How the program reaches our own tools, for this turn.
    fn tools(&self, supervisor: &Supervisor<'_>) -> Vec<String> {
        let dir = supervisor.session().session().dir().to_string_lossy().into_owned();
        let (turn, agent) = (supervisor.state().turn.number, supervisor.agent());
        let words = ["mcp", "--dir", &dir, "--turn", &turn.to_string(), "--agent", agent];
        words.map(str::to_owned).into()
    }

    fn job<'a>(&'a self, words: &'a Words, tools: &'a [String]) -> Job<'a> {
        let program = &self.config.segue;
        let tools = (self.config.tools && self.card.can.tools)
            .then_some(ToolServer { program, args: tools });
        Job {
            tools,
            prompt: &words.text,
            cwd: &self.cwd,
            conversation: words.conversation(),
            permission: self.permission,
            model: self.config.model.as_deref(),
            extra: &self.extra,
            world: &self.config.world,
            files: &self.files,
        }
    }

    /// One run of the program, between its two events.
    fn run(&mut self, supervisor: &mut Supervisor<'_>, words: &Words) -> Result<Played, Halt> {
        let short = self.in_a_file(supervisor, words)?;
        let words = short.as_ref().unwrap_or(words);
        let tools = self.tools(supervisor);
        let job = self.job(words, &tools);
        let call = self.config.vendor.call(&job);
        call.prepare(&self.files).map_err(|error| stop(Reason::Failed, error.to_string()))?;
        // Whoever was given the id calls its session so.
        let chosen = words.entry == Entry::Resumed || call.args.iter().any(|arg| *arg == *words.id);
        let turn = supervisor.state().turn.number;
        let stream = supervisor.session().stream(turn, supervisor.agent(), Voice::Out)?;
        let said = match words.text == first_words(supervisor)? {
            true => None,
            false => Some(supervisor.payload(&words.text)?),
        };
        let started = AgentStarted {
            entry: words.entry,
            vendor_session: chosen.then(|| words.id.clone()),
            command: format!("{} {}", self.config.program.path.display(), call.shown()),
            said,
            cwd: self.cwd.clone(),
            permission: self.permission,
            version: self.config.program.version.clone(),
            stream_from: stream.len()?,
        };
        let known = introduced(&started);
        let draft = supervisor.in_turn(started);
        supervisor.commit(draft)?;
        let spec = self.spec(supervisor, &call);
        let listener = self.listener(self.config.vendor.dialogue(&job), known);
        play(supervisor, spec, listener, &self.card, &self.config.watch)
    }

    fn listener(
        &self,
        dialogue: Box<dyn segue_agents::vendor::Dialogue>,
        known: AgentIntroduced,
    ) -> Listener<'_> {
        let about = (self.card.can.cost, self.config.watch.retries);
        Listener::new(dialogue, &self.cwd, &self.config.prices, about, known)
    }

    fn spec(&self, supervisor: &Supervisor<'_>, call: &segue_agents::vendor::Call) -> Spec {
        let session = supervisor.session().session().id().to_string();
        let world = &self.config.world;
        let ours = call.env.iter().filter(|one| !(one.keep && world.get(one.name).is_some()));
        let mut env: Vec<(OsString, OsString)> =
            ours.map(|one| (one.name.into(), one.value.clone().into())).collect();
        env.push((process::SESSION_VAR.into(), session.into()));
        Spec {
            program: self.config.program.path.clone().into(),
            args: call.args.clone(),
            cwd: self.cwd.clone(),
            env,
            env_remove: OURS.iter().map(OsString::from).collect(),
            stdin: Stdin::Piped,
            guardian: process::guardian(),
        }
    }

    /// After a crash of Segue: the journal gets what the stream file has beyond it.
    fn catch_up(&mut self, supervisor: &mut Supervisor<'_>) -> Result<Played, Halt> {
        let session = supervisor.session().session();
        let (turn, from) = (supervisor.state().turn.number, supervisor.state().turn.stream_from);
        let recorded = !supervisor.state().turn.running;
        let mut skip = 0;
        let mut started = None;
        for event in session.newest_first()? {
            match event.body {
                // It was said what its end meant.
                Body::SessionStopped(_) if recorded => return Ok(Played::default()),
                Body::AgentStarted(body) => {
                    started = Some(body);
                    break;
                }
                _ if event.turn == Some(turn) => skip += 1,
                _ => {}
            }
        }
        let Some(started) = started else { return Ok(Played::default()) };
        let id = started.vendor_session.clone().unwrap_or_default();
        let words = Words { entry: started.entry, ..Words::of(id) };
        let tools = self.tools(supervisor);
        let dialogue = self.config.vendor.dialogue(&self.job(&words, &tools));
        let mut listener = self.listener(dialogue, introduced(&started));
        listener.skip = skip;
        listener.recorded = recorded;
        let agent = supervisor.agent().to_owned();
        listener.open_unheard();
        let mut buffer = vec![0; 64 << 10];
        let mut at = from;
        loop {
            let session = supervisor.session().session();
            let got = session.read_stream(turn, &agent, at, &mut buffer)?;
            if got == 0 {
                break;
            }
            at += got as u64;
            listener.bytes(supervisor, &buffer[..got])?;
        }
        listener.exited(supervisor, None, None)
    }

    /// What a run's end means for the turn. `Ok(())` with the turn still open means: once more.
    fn judge(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        played: Played,
        attempt: u32,
    ) -> Result<(), Halt> {
        if let Some(stop) = played.stopped {
            return Err(stop.into());
        }
        let mut ended = |outcome| supervisor.end_turn_at(outcome, played.mark.clone());
        match (played.ending, played.gave_up_on) {
            (Some(Ending::Finished), _) => ended(Outcome::Finished),
            (Some(Ending::Truncated), _) => ended(Outcome::Truncated),
            (Some(Ending::Refused), _) => ended(Outcome::Refused),
            (_, Some(trouble)) | (Some(Ending::Failed(trouble)), None) => {
                self.failed(supervisor, &trouble, played.window, attempt)
            }
            (Some(Ending::Cancelled), None) => {
                let message = "the agent was interrupted by someone else";
                Err(stop(Reason::AgentCrashed, message).into())
            }
            (None, None) => Err(died(&self.card, played.exit, &played.last_words).into()),
        }
    }

    fn failed(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        trouble: &Trouble,
        window: Option<String>,
        attempt: u32,
    ) -> Result<(), Halt> {
        let wait = self.config.policy.next(attempt, trouble, jitter(supervisor));
        let failed = ModelFailed {
            error: failure(trouble),
            message: trouble.to_string(),
            retry_in_ms: wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        };
        let draft = supervisor.in_turn(failed);
        supervisor.note(draft)?;
        let Some(wait) = wait else {
            return Err(given_up(supervisor, trouble, window)?.into());
        };
        self.why = "Your last answer was broken off by an error of the model's server.".to_owned();
        supervisor.wait(wait)
    }

    /// Whether a run that failed at once was asked for a session that the vendor does not have.
    fn was_gone(&self, words: &Words, played: &Played) -> bool {
        let told = matches!(played.ending, Some(Ending::Failed(Trouble::SessionGone(_))));
        let failed = matches!(played.ending, None | Some(Ending::Failed(_)));
        if words.entry == Entry::New {
            return false;
        }
        let id = words.asked_for();
        let vendor = &self.config.vendor;
        let missing = || matches!(vendor.history(&self.config.world, &self.cwd, id), Ok(None));
        played.stopped.is_none() && (told || failed && missing())
    }
}

impl Agent for Hired {
    fn turn(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
        if supervisor.state().turn.spawns > 0 {
            let played = self.catch_up(supervisor)?;
            // What it said last may have been that it is done.
            if let Some(Ending::Finished | Ending::Truncated | Ending::Refused) = played.ending {
                return self.judge(supervisor, played, 1);
            }
        }
        if self.why.is_empty() {
            self.why = "You were interrupted before you had finished.".to_owned();
        }
        let mut attempt = 0;
        while supervisor.state().turn.open {
            supervisor.check_interrupt()?;
            attempt += 1;
            let words = self.words(supervisor)?;
            let played = self.run(supervisor, &words)?;
            if self.was_gone(&words, &played) {
                self.say_gone(supervisor, words.asked_for())?;
                self.fresh = true;
                continue;
            }
            if played.ending == Some(Ending::Finished) {
                self.say_without_tools(supervisor)?;
            }
            self.judge(supervisor, played, attempt)?;
        }
        Ok(())
    }

    fn settle(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
        if supervisor.state().turn.running {
            self.catch_up(supervisor)?;
        }
        settle(supervisor, false)
    }

    fn limit_key(&self) -> String {
        self.card.name.clone()
    }

    fn context_tokens(&self) -> u64 {
        self.config.vendor.context_tokens()
    }
}

/// Answers what a program left unanswered that will not be asked again. Nothing is started for it:
/// what it said is in its stream file.
pub(crate) fn let_go(supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
    let Some(vendor) = segue_agents::vendor::find(&supervisor.state().turn.agent) else {
        return settle(supervisor, false);
    };
    let config = VendorConfig {
        vendor,
        program: Program { path: PathBuf::new(), real: PathBuf::new(), version: None },
        world: World::default(),
        model: None,
        prices: HashMap::new(),
        policy: Policy::default(),
        watch: Watch::default(),
        fresh: false,
        tools: false,
        segue: PathBuf::new(),
    };
    let session = supervisor.session().session();
    let cwd = session.state().workspace().map(PathBuf::from).unwrap_or_default();
    let permission = session.state().permission();
    Hired::new(config, session, &cwd, permission).settle(supervisor)
}

/// What a run is known by before it says anything.
fn introduced(started: &AgentStarted) -> AgentIntroduced {
    AgentIntroduced {
        vendor_session: started.vendor_session.clone(),
        model: None,
        version: started.version.clone(),
    }
}

/// A program that ended without its last word.
fn died(card: &Card, exit: Option<Exit>, last_words: &str) -> SessionStopped {
    let how = match exit {
        Some(Exit::Code(code)) => format!("ended with status {code} and without its last word"),
        Some(Exit::Signal(signal)) => format!("was killed by signal {signal}"),
        _ => "is gone".to_owned(),
    };
    let last = last_words.trim().lines().next_back().unwrap_or_default();
    let hint = (!last.is_empty()).then(|| format!("it said: {last}"));
    SessionStopped { hint, ..stop(Reason::AgentCrashed, format!("{} {how}", card.title)) }
}
