//! `segue compare`: the same task from the same state, given to several agents side by side.

use std::{
    path::{Path, PathBuf},
    thread,
};

use segue::plan::model_of;
use segue_core::{
    Exit, Permission,
    caps::Caps,
    event::{Reason, SessionStopped},
    identity::{How, Lineage},
};
use segue_journal::{LockedSession, Session, home::NewSession};
use segue_loops::{
    branch::{self, Branch, With},
    keep::Keeper,
    launch::{self, LaunchError, Worker},
};
use segue_runner::Interrupt;
use segue_view::{
    compare::{Contender, table},
    select::Found,
    style,
};
use serde_json::json;

use crate::{
    commands::{
        caps::CapFlags,
        fork::{self, branch_error},
        go_on::say_plan,
        import, place,
        replay::task,
        run::{Manner, check_git, surroundings},
        worker::{NATIVE, Wishes, hire, known_agent, no_such_agent},
    },
    config::{Config, words},
    context::{Context, print, say},
    error::{CommandError, CommandResult},
    observe::{Watcher, exit_of},
};

/// Give the same task to several agents, each in a worktree of its own
///
/// All of them begin with the files that the session began with, or with those of a step, and get
/// the same prompt. They work at the same time. `segue accept` takes over what one of them made.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue compare 7 --agents claude,codex,gemini
  segue compare 7 --agents claude,native \"Do it without a new dependency\"
  segue compare 7 --agents codex,gemini --from-step 12 \"Go on with the tests\"
  segue accept 9                                what session 9 made is taken over")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, a .tine or .segue file, or @latest
    session: String,
    /// What to do [default: what the session was asked first]
    prompt: Option<String>,
    /// Who tries: claude,codex,gemini; the same one can be named twice
    #[arg(long, value_name = "AGENTS", required = true)]
    agents: String,
    /// All of them know what was said and done up to this step, and have its files
    #[arg(long, value_name = "STEP", requires = "prompt")]
    from_step: Option<String>,
    /// Where the repository is now, if it has moved
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// What the agents may do: read-only, edit or full [default: as before]
    #[arg(long, value_name = "WHAT")]
    permission: Option<Permission>,
    /// The model of the native agent, where it is one of them
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    caps: CapFlags,
}

/// Someone who can work, and the model's full name where it is ours to say.
type Hired = (Option<String>, Worker);

/// Who tries, and in which session.
struct Try {
    agent: String,
    number: u64,
    session: LockedSession,
    worker: Worker,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let config = context.config()?;
    let found = import::find(context, Some(&args.session))?;
    let session = fork::open(context, &found, "compared")?;
    let place = place::find(context, &session, args.dir.as_deref())?;
    check_git(&place.dir)?;
    let named = words(&args.agents);
    let agents: Result<Vec<String>, CommandError> =
        named.iter().map(|word| known_agent(word).ok_or_else(|| no_such_agent(word))).collect();
    let agents = agents?;
    if agents.is_empty() {
        return Err(CommandError::usage("--agents names nobody"));
    }
    let keeper = Keeper::new(&session, &place.dir, config.checkpoints());
    let prompt = task(&session, args.prompt.as_deref())?;
    let caps = config.caps().overridden_by(args.caps.caps());
    let hired = hire_all(context, &config, args, &session, &agents, caps)?;
    let step = fork::step_word(context, &session, args.from_step.as_deref())?;
    let from = From::find(&session, &keeper, &found, (step.as_deref(), &place.dir))?;
    if !context.json {
        say_plan(context, &plan(&found, &agents, &prompt, &from));
    }
    let interrupt = Interrupt::install()?;
    let mut tries = Vec::new();
    for (agent, (model, worker)) in agents.into_iter().zip(hired) {
        let with = With {
            agent: agent.clone(),
            model,
            permission: args.permission.unwrap_or_else(|| session.state().permission()),
            prompt: prompt.clone(),
            workspace: place.dir.clone(),
            worktree: true,
            caps,
            proof: None,
            name: None,
            sealed: false,
            segue: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let new = from.session(&session, &found, with)?;
        let mut watcher = Watcher::quiet(context);
        let manner = Manner::default();
        let around = surroundings(context, &config, &mut watcher, interrupt.clone(), manner);
        let (session, number) = launch::create(&context.home, new, &around)?;
        tries.push(Try { agent, number, session, worker });
    }
    let (contenders, stops) = side_by_side(context, &config, tries, &interrupt)?;
    show(context, &found, &contenders)?;
    Ok(exit(&interrupt, &stops))
}

/// Everybody has to be able to work, within the caps, before there is a session of anybody.
fn hire_all(
    context: &Context,
    config: &Config,
    args: &Args,
    session: &Session,
    agents: &[String],
    caps: Caps,
) -> Result<Vec<Hired>, CommandError> {
    let one = |agent: &String| {
        let named = args.model.as_deref().filter(|_| agent == NATIVE);
        let model = named.or_else(|| model_of(session.state(), agent));
        let wishes = Wishes { model, permission: args.permission, fresh: false };
        let (model, worker) = hire(context, config, agent, wishes)?;
        worker.check_price(caps)?;
        Ok((model, worker))
    };
    agents.iter().map(one).collect()
}

/// What all of them begin with.
enum From {
    /// The files of the start, where they were kept, and nothing of what the session knows.
    Start(Option<String>),
    /// What the session knew at a step, with its files.
    Step(Box<Branch>),
}

impl From {
    fn find(
        session: &Session,
        keeper: &Keeper,
        found: &Found,
        (step, dir): (Option<&str>, &Path),
    ) -> Result<Self, CommandError> {
        let Some(step) = step else {
            return Ok(Self::Start(branch::before_all(session, keeper)));
        };
        let wrong = |error| branch_error(error, &found.selector());
        let mut branch = branch::leave(session, keeper, Some(step), How::Forked).map_err(wrong)?;
        branch.apart(dir, true).map_err(wrong)?;
        Ok(Self::Step(Box::new(branch)))
    }

    fn files(&self) -> String {
        match self {
            Self::Start(Some(_)) => "as before turn 1".to_owned(),
            Self::Start(None) => "as last committed: the start was not kept".to_owned(),
            Self::Step(branch) => fork::files_are(branch, true),
        }
    }

    /// A session like the one that is compared on.
    fn session(
        &self,
        session: &Session,
        found: &Found,
        with: With,
    ) -> Result<NewSession, CommandError> {
        let wrong = |error| branch_error(error, &found.selector());
        match self {
            Self::Step(branch) => branch.clone().session(session, with).map_err(wrong),
            Self::Start(files) => {
                let unreadable = || CommandError::failed("the session can't be read");
                let identity = session.state().identity.as_ref().ok_or_else(unreadable)?;
                let from = Lineage::new(session.id(), How::Forked);
                let lineage = Some(Lineage { files: files.clone(), ..from });
                Ok(NewSession { lineage, ..with.session(identity) })
            }
        }
    }
}

fn plan(found: &Found, agents: &[String], prompt: &str, from: &From) -> Vec<String> {
    let mut lines = vec![format!("⇉ compare on #{}: {}", found.selector(), agents.join(", "))];
    let mut line = |label: &str, text: String| lines.push(format!("  {label:<9} {text}"));
    line("prompt", prompt.lines().next().unwrap_or_default().to_owned());
    let place = format!("{} of their own", style::count(agents.len() as u64, "worktree"));
    line("files", format!("{place}, {}", from.files()));
    lines
}

/// How somebody's work has ended, where they could work at all.
type Ended = Option<SessionStopped>;

/// Lets all of them work at the same time, and says when one has stopped.
fn side_by_side(
    context: &Context,
    config: &Config,
    tries: Vec<Try>,
    interrupt: &Interrupt,
) -> Result<(Vec<Contender>, Vec<Ended>), CommandError> {
    let worked = thread::scope(|scope| {
        let threads: Vec<_> = tries
            .into_iter()
            .map(|one| {
                let interrupt = interrupt.clone();
                scope.spawn(move || {
                    let (agent, number) = (one.agent.clone(), one.number);
                    let dir = one.session.session().dir().to_owned();
                    let done = work(context, config, one, interrupt);
                    say(&match &done {
                        Ok(stop) => format!("· #{number} {agent}: {}", stop.message),
                        Err(error) => format!("· #{number} {agent}: {error}"),
                    });
                    (agent, number, dir, done)
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
    });
    let (mut contenders, mut stops) = (Vec::new(), Vec::new());
    for (agent, number, dir, done) in worked {
        if let Err(error) = &done {
            say(&format!("note: #{number} {agent} could not work: {error}"));
        }
        contenders.push(contender(context, number, &dir)?);
        stops.push(done.ok());
    }
    Ok((contenders, stops))
}

fn work(
    context: &Context,
    config: &Config,
    one: Try,
    interrupt: Interrupt,
) -> Result<SessionStopped, LaunchError> {
    let mut watcher = Watcher::quiet(context);
    let manner = Manner { number: Some(one.number), ..Manner::default() };
    let around = surroundings(context, config, &mut watcher, interrupt, manner);
    launch::start(one.session, one.worker, around)
}

/// What somebody has made of it.
fn contender(context: &Context, number: u64, dir: &Path) -> Result<Contender, CommandError> {
    let session = Session::open(context.home.disk().clone(), dir)?;
    let state = session.state();
    let workspace = state.workspace().map(Path::to_owned).unwrap_or_default();
    let keeper = Keeper::new(&session, &workspace, context.config()?.checkpoints());
    let ends = (&state.first_checkpoint, &state.checkpoint);
    let files = match ends {
        (Some(first), Some(last)) => match (&first.commit, &last.commit, keeper.snapshots()) {
            (Some(first), Some(last), Ok(kept)) => kept.changes(first, last, 1000).ok(),
            _ => None,
        },
        _ => None,
    };
    let steps = session.landmarks()?.count();
    Ok(Contender::of(state, number, steps, files.map(|(_, total)| total as u64)))
}

fn show(context: &Context, found: &Found, contenders: &[Contender]) -> Result<(), CommandError> {
    if context.json {
        let json = json!({ "source": found.selector(), "sessions": contenders });
        return context.print_json(&json);
    }
    print(&table(contenders, &context.out()));
    say("segue diff A B shows two of them side by side; segue accept N takes one over");
    // Last, as where one session has stopped.
    contenders.iter().filter_map(|one| one.next.as_ref()).for_each(|next| say(next));
    Ok(())
}

/// What it came to: done where somebody is done, unless a person has broken it off; else how the
/// first of them has stopped.
fn exit(interrupt: &Interrupt, stops: &[Ended]) -> Exit {
    let done = |stop: &Ended| stop.as_ref().is_some_and(|stop| stop.reason == Reason::Done);
    match interrupt.signal() {
        Some(signal) if !stops.iter().all(done) => Exit::Interrupted(signal),
        _ if stops.iter().any(done) => Exit::Done,
        _ => stops.iter().flatten().next().map_or(Exit::Failed, exit_of),
    }
}
