//! `segue tasks run` and `segue tasks prep`: a list becomes a session.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use segue_core::{
    Exit, Permission,
    identity::LoopKind,
    review::{Consensus, Seat, Terms, names},
    status::Status,
};
use segue_journal::home::NewSession;
use segue_loops::{
    launch,
    tasks::{Source, branch::Differences},
    worktree::Leavings,
};
use segue_view::{
    row::Row,
    style::{self, Paint},
    tasks::last_stop,
};

use crate::{
    commands::{
        ask,
        caps::CapFlags,
        go_on::{Request, go_on},
        pair::{Named, check_seats, listed, named},
        run::{
            Begin, Manner, check_free, check_git, check_proof, create_free, fallback, launch_new,
            proof_secs, repo_of, surroundings, workspace,
        },
        worker::{Wishes, hire},
    },
    config::{Config, parse_duration},
    context::{Context, print, say},
    error::{CommandError, CommandResult},
    observe::Watcher,
};

use super::{
    sessions::{self, Known},
    source,
};

/// Who is asked to evaluate where nobody is named, the first that is there and is not the worker.
const EVALUATORS: [&str; 6] = ["claude", "codex", "gemini", "copilot", "opencode", "qwen"];

/// What both `run` and `prep` take.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory with overview.md and the tasks, or a prd.json
    #[arg(value_name = "DIR")]
    source: PathBuf,
    /// Who works: an agent, or AGENT@MODEL
    #[arg(long, short, value_name = "AGENT", visible_alias = "agent")]
    worker: Option<String>,
    /// Who evaluates: an agent, or AGENT@MODEL; several with commas between them
    /// [default: the first other agent that is installed]
    #[arg(long, short, value_name = "AGENTS", visible_alias = "reviewer")]
    evaluator: Vec<String>,
    /// How many evaluators have to accept: all, any or majority [default: all]
    #[arg(long, value_name = "RULE")]
    consensus: Option<Consensus>,
    /// Run this command before each evaluation: without its success nothing is accepted
    #[arg(long, value_name = "COMMAND")]
    proof: Option<String>,
    /// The longest that the proof may take: 90s, 15m, 2h [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    proof_time: Option<Duration>,
    /// What the worker may do: edit or full; evaluators may only read [default: edit]
    #[arg(long, value_name = "WHAT")]
    permission: Option<Permission>,
    /// A name for the session
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The repository to work in [default: the one that DIR is in]
    #[arg(long, value_name = "REPO")]
    dir: Option<PathBuf>,
    /// Start a new session, also where one of this list could be resumed
    #[arg(long)]
    new: bool,
    /// Who takes the place of an agent that runs into its limit, in this order: codex,gemini
    #[arg(long, value_name = "AGENTS", help_heading = "Limits and hand-offs")]
    fallback: Option<String>,
    /// Where a limit stops the work and nobody else can go on, wait until it has reset
    #[arg(long, help_heading = "Limits and hand-offs")]
    wait: bool,
    /// Work in the background, and show everybody side by side in tmux
    #[arg(long)]
    tmux: bool,
    #[command(flatten)]
    caps: CapFlags,
}

impl Args {
    /// A flag that only a new session can honour.
    fn for_a_new_one(&self) -> Option<&'static str> {
        let given = [
            (self.worker.is_some(), "--worker"),
            (!self.evaluator.is_empty(), "--evaluator"),
            (self.consensus.is_some(), "--consensus"),
            (self.proof.is_some() || self.proof_time.is_some(), "--proof"),
            (self.name.is_some(), "--name"),
            (self.dir.is_some(), "--dir"),
            (self.fallback.is_some(), "--fallback"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }
}

/// `segue tasks prep`: everything but the work.
pub(crate) fn prep(context: &Context, args: Args) -> CommandResult {
    let source = source_of(context, &args.source)?;
    let before = if args.new { Vec::new() } else { known(context, &args, &source.path)? };
    if let Some(one) = before.iter().find(|one| one.status() == Status::Prepared) {
        let selector = one.row.selector();
        return Err(CommandError::usage(format!("session {selector} is prepared for this list"))
            .hint(format!("start it: segue tasks run {}", args.source.display()))
            .hint(format!("remove it: segue rm {selector}; or prepare another: add --new")));
    }
    let config = context.config()?;
    let (new, worker) = new_session(context, &config, &args, &source)?;
    worker.check_price(new.caps)?;
    check_git(&new.workspace)?;
    let mut watcher = Watcher::quiet(context);
    let interrupt = segue_runner::Interrupt::default();
    let around = surroundings(context, &config, &mut watcher, interrupt, Manner::default());
    let name = new.name.clone();
    let (mut session, number) =
        create_free(context, name.as_deref(), || Ok(launch::create(&context.home, new, &around)?))?;
    source.note(&mut session)?;
    drop(session);
    if context.json {
        let tasks = source.list.tasks.len();
        context.print_json(&serde_json::json!({
            "session": number.to_string(), "status": "prepared", "tasks": tasks,
        }))?;
    } else {
        let count = style::count(source.list.tasks.len() as u64, "task");
        say(&format!("session {number} is prepared: {count}"));
        print(&format!("segue tasks run {}", args.source.display()));
    }
    Ok(Exit::Done)
}

/// `segue tasks run`: picks a prepared session up, offers one that stopped, or starts.
pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    let source = source_of(context, &args.source)?;
    if !args.new {
        let known = known(context, &args, &source.path)?;
        let is = |wanted: Status| move |one: &&Known| one.status() == wanted;
        let prepared: Vec<&Known> = known.iter().filter(is(Status::Prepared)).collect();
        match prepared.as_slice() {
            [] => {}
            [one] => return pick_up(context, &args, &one.row),
            several => return Err(several_prepared(several)),
        }
        if let Some(one) = known.iter().find(is(Status::Running)) {
            let selector = one.row.selector();
            let message = format!("session {selector} works on this list now");
            return Err(CommandError::new(Exit::Busy, message)
                .hint(format!("watch it: segue watch {selector}"))
                .hint(format!("start another: segue tasks run {} --new", args.source.display())));
        }
        if let Some(prior) = known.iter().find(|one| one.is_resumable()) {
            return offer(context, args, prior, &source);
        }
        if let Some(done) = known.iter().find(is(Status::Completed)).filter(|_| !context.json) {
            let selector = done.row.selector();
            say(&format!(
                "note: session {selector} has worked through this list; what is added to it: \
                 segue resume {selector}"
            ));
        }
    }
    start(context, args, &source)
}

fn source_of(context: &Context, path: &Path) -> Result<Source, CommandError> {
    let path = context.cwd.join(path);
    let list = source::read(&path)?;
    let fail = |error: std::io::Error| CommandError::usage(format!("{}: {error}", path.display()));
    Ok(Source { path: std::fs::canonicalize(&path).map_err(fail)?, list })
}

/// All sessions over the same list, the last changed first; refuses where one of them is damaged. The
/// look changes nothing.
fn known(context: &Context, args: &Args, source: &Path) -> Result<Vec<Known>, CommandError> {
    let repo = segue_workspace::identify(near(source)).map(|repo| repo.id).unwrap_or_default();
    let mut known = sessions::all(context)?;
    known.retain(|one| one.is_of(source, &repo));
    sessions::check_none_damaged(&known, &args.source.display().to_string())?;
    known.iter_mut().for_each(Known::settle);
    Ok(known)
}

/// The directory that a list is in.
fn near(source: &Path) -> &Path {
    if source.is_dir() { source } else { source.parent().unwrap_or(source) }
}

fn several_prepared(several: &[&Known]) -> CommandError {
    let message = format!("{} sessions are prepared for this list", several.len());
    several.iter().fold(CommandError::usage(message), |error, one| {
        let selector = one.row.selector();
        error.hint(format!("start it: segue resume {selector}; remove it: segue rm {selector}"))
    })
}

/// A prepared session is started.
fn pick_up(context: &Context, args: &Args, row: &Row) -> CommandResult {
    let selector = row.selector();
    if let Some(flag) = args.for_a_new_one() {
        let message =
            format!("session {selector} is prepared for this list: {flag} is for a new one");
        return Err(CommandError::usage(message)
            .hint(format!("start it as it is: segue tasks run {}", args.source.display()))
            .hint(format!("start another one: add --new; or remove it: segue rm {selector}")));
    }
    resume(context, args, &selector)
}

/// What was left is gone on with, as somebody has chosen. Who works and what judges was settled when it
/// began.
fn take_up(context: &Context, args: &Args, selector: &str) -> CommandResult {
    let Some(flag) = args.for_a_new_one() else { return resume(context, args, selector) };
    let message = format!("session {selector} goes on as it was begun: {flag} is for a new one");
    Err(CommandError::usage(message)
        .hint(format!("resume it as it is: segue resume {selector}"))
        .hint("with somebody else: segue resume --with AGENT")
        .hint("start another one: add --new"))
}

fn resume(context: &Context, args: &Args, selector: &str) -> CommandResult {
    let found = context.find(Some(selector))?;
    let request = Request {
        permission: args.permission,
        wait: args.wait,
        caps: args.caps.caps(),
        tmux: args.tmux,
        ..Request::default()
    };
    go_on(context, &found, request)
}

/// A session of this list was left before its end: that is for a person to decide.
fn offer(context: &Context, args: Args, prior: &Known, source: &Source) -> CommandResult {
    let selector = prior.row.selector();
    let dir = args.source.display().to_string();
    let what = prior.describe(context);
    if !ask::can() {
        let message = format!("session {selector} of this list can be resumed ({what})");
        let hint = format!("segue resume {selector}   or   segue tasks run {dir} --new");
        return Err(CommandError::usage(format!("{message}: {hint}")));
    }
    say("a session of this list can be resumed:");
    say(&format!("  {}", context.err().paint(Paint::Bold, &format!("{selector}  {what}"))));
    let answers = [("r", "resume it"), ("d", "discard it and start anew"), ("c", "cancel")];
    match ask::choose("", &answers) {
        Some("r") => take_up(context, &args, &selector),
        Some("d") => {
            set_aside(context, &selector)?;
            start(context, args, source)
        }
        _ => Err(CommandError::usage("cancelled: nothing was changed")),
    }
}

impl Known {
    /// What a person recognises it by.
    fn describe(&self, context: &Context) -> String {
        let tasks = self.state.tasks.as_ref();
        let at = tasks.and_then(|tasks| tasks.upcoming());
        let label = at.map(|entry| format!("{}: {}", entry.id, entry.title)).unwrap_or_default();
        let done = tasks.map(|tasks| format!("{} of {} done", tasks.done(), tasks.entries.len()));
        let last = self.state.stop.as_ref().map_or("none", last_stop);
        format!(
            "{} · {} · {} · last stop: {last} · {}",
            self.status(),
            style::shorten(&style::sanitize(&label), 60),
            done.unwrap_or_default(),
            style::relative(self.row.updated_at, context.now()),
        )
    }
}

/// One that holds nothing of its own goes; one that does stays, and is not offered any more.
fn set_aside(context: &Context, selector: &str) -> Result<(), CommandError> {
    let found = context.find(Some(selector))?;
    let session = found.open(&context.home)?;
    let leavings = Leavings::of(&session);
    let loss = leavings.loss();
    let mut state = session.state().clone();
    let told = Differences::of(session.id(), &state).map(|differs| differs.settle(&mut state));
    let done = state.tasks.as_ref().map_or(0, |tasks| tasks.done());
    if loss.is_empty()
        && done == 0
        && told.is_ok()
        && let Some(at) = &found.at
    {
        context.home.remove(at, &context.me())?;
        for trouble in leavings.remove() {
            say(&format!("note: {trouble}"));
        }
        say(&format!("session {selector} is removed: it held nothing"));
        return Ok(());
    }
    let mut holds = loss;
    if let Err(error) = told {
        holds.push(format!("whatever is on its branch, which can't be read: {error}"));
    }
    if holds.is_empty() {
        holds.push(format!("{}, done", style::count(done as u64, "task")));
    }
    launch::discard(session, &context.me(), &context.clock)?;
    say(&format!("session {selector} is set aside, and kept: it holds {}", holds.join(", ")));
    say(&format!("  remove it for good: segue rm {selector}"));
    Ok(())
}

fn start(context: &Context, args: Args, source: &Source) -> CommandResult {
    let config = context.config()?;
    let manner = Manner { number: None, wait: args.wait, give_back: false, tmux: args.tmux };
    if args.tmux {
        crate::commands::attach::check(context)?;
    }
    let (new, worker) = new_session(context, &config, &args, source)?;
    let begin = Begin { list: Some(source), ..Begin::default() };
    launch_new(context, &config, new, worker, manner, begin)
}

/// Who works, who evaluates, and how far they may go.
fn new_session(
    context: &Context,
    config: &Config,
    args: &Args,
    source: &Source,
) -> Result<(NewSession, launch::Worker), CommandError> {
    check_proof(args.proof.as_deref())?;
    if args.permission == Some(Permission::ReadOnly) {
        return Err(CommandError::usage("a worker that may only read can change nothing"));
    }
    let caps = config.task_caps().overridden_by(args.caps.caps());
    let worker = args.worker.as_deref().or(config.get("tasks.worker"));
    let worker = named(worker.or(config.get("agent")).unwrap_or("native"))?;
    let wishes =
        Wishes { model: worker.model.as_deref(), permission: args.permission, ..Wishes::default() };
    let (model, hired) = hire(context, config, &worker.agent, wishes)?;
    let reviewers = evaluators(context, config, args, &worker)?;
    let reviewers = check_seats(context, config, reviewers, caps)?;
    check_free(context, args.name.as_deref())?;
    let near = near(&source.path);
    let workspace = match &args.dir {
        Some(dir) => workspace(&context.cwd, Some(dir))?,
        None => {
            let repo = segue_workspace::identify(near)
                .map_err(|error| CommandError::failed(error.to_string()))?;
            if repo.kind == segue_workspace::Kind::NoGit {
                let message = format!("{} is in no git repository", near.display());
                return Err(CommandError::usage(message)
                    .hint("name the one to work in: --dir REPO")
                    .hint("git init makes one"));
            }
            workspace(&context.cwd, Some(&repo.root))?
        }
    };
    let set = config.get("tasks.consensus").and_then(|word| word.parse().ok());
    let terms = Terms {
        reviewers,
        consensus: args.consensus.or(set).unwrap_or_default(),
        done: None,
        case: true,
        tmux: args.tmux,
    };
    let new = NewSession {
        loop_kind: LoopKind::Tasks,
        model,
        permission: args.permission.unwrap_or_default(),
        proof: args.proof.clone().or_else(|| config.get("tasks.proof").map(str::to_owned)),
        proof_secs: proof_secs(config, args.proof_time),
        pair: Some(terms),
        tasks: Some(source.path.clone()),
        caps,
        fallback: fallback(config, args.fallback.as_deref())?,
        worktree: true,
        name: args.name.clone(),
        ..NewSession::new(repo_of(&workspace)?, workspace, worker.agent, title(source))
    };
    Ok((new, hired))
}

/// What the list is called: how its overview begins, else the name of its directory.
fn title(source: &Source) -> String {
    let words = |line: &str| line.trim().trim_start_matches(['#', ' ']).to_owned();
    let mut lines = source.list.overview.lines().map(words).filter(|line| !line.is_empty());
    let name = || source.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    lines.next().unwrap_or_else(name).chars().take(120).collect()
}

/// Who evaluates, each under a name that nobody else has.
fn evaluators(
    context: &Context,
    config: &Config,
    args: &Args,
    worker: &Named,
) -> Result<Vec<Seat>, CommandError> {
    let words = match (args.evaluator.is_empty(), config.get("tasks.evaluator")) {
        (false, _) => Some(args.evaluator.iter().flat_map(|list| listed(list)).collect()),
        (true, Some(list)) => Some(crate::config::words(list)),
        (true, None) => None,
    };
    let agents: Vec<Named> = match words {
        Some(words) => words.iter().map(|word: &String| named(word)).collect::<Result<_, _>>()?,
        None => vec![other_than(context, config, worker)],
    };
    if agents.is_empty() {
        return Err(CommandError::usage("nobody is named to evaluate"));
    }
    let all = std::iter::once(worker.agent.as_str());
    let names = names(all.chain(agents.iter().map(|one| one.agent.as_str()))).into_iter().skip(1);
    let same = |one: &Named| one.agent == worker.agent && one.model == worker.model;
    if agents.iter().all(same) && !context.json {
        say(&format!(
            "note: {} evaluates its own work, in another conversation; --evaluator names another",
            worker.agent
        ));
    }
    let seat = |(name, Named { agent, model })| Seat { name, agent, model };
    Ok(names.zip(agents).map(seat).collect())
}

/// The first other agent that is there; without one, the worker itself.
fn other_than(context: &Context, config: &Config, worker: &Named) -> Named {
    let there = |agent: &&&str| {
        **agent != worker.agent && hire(context, config, agent, Wishes::default()).is_ok()
    };
    match EVALUATORS.iter().find(there) {
        Some(agent) => Named { agent: (*agent).to_owned(), model: None },
        None => Named { agent: worker.agent.clone(), model: worker.model.clone() },
    }
}
