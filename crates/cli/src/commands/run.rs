//! `segue run`: start an agent on a prompt.

use std::path::{Path, PathBuf};

use segue_core::{Exit, Permission, identity::RepoRef, selector::check_name};
use segue_journal::home::NewSession;
use segue_loops::{
    launch::{self, Surroundings, Worker},
    tasks::Source,
};
use segue_runner::Interrupt;
use segue_view::style;

use crate::{
    commands::{
        attach,
        caps::CapFlags,
        go_on::{Request, go_on},
        offer::{self, Offer},
        prompt,
        worker::{NATIVE, Wishes, hire, known_agent, limit_key, no_such_agent, terms},
    },
    config::{Config, parse_duration},
    context::{Context, view_error},
    error::{CommandError, CommandResult},
    observe::{Watcher, conclude},
};

/// Start an agent on a prompt
///
/// The prompt is an argument, or comes from --prompt-file, or from standard input. What the agent
/// says goes to standard output, all else to standard error.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "segue run [OPTIONS] [AGENT] PROMPT [-- FLAGS…]",
    after_help = "Examples:
  segue run \"Fix the failing test\"
  segue run claude \"Fix the failing test\"
  segue run codex \"Explain this code\" --permission read-only
  segue run acp:\"opencode acp\" \"Fix the failing test\"
  segue run native \"Fix the failing test\" --model anthropic/claude-sonnet-4-5
  segue run claude \"Fix the failing test\" --fallback codex,native
  segue run x --resume \"Continue from the current state\"
  segue run \"Make it pass\" --proof \"cargo test\" --max-turns 10 --max-time 2h
  segue run \"Fix the failing test\" --tmux
  git diff | segue run --model script:review.toml -"
)]
pub(crate) struct Args {
    /// Who works: claude, codex, gemini, copilot, cursor, opencode, … native, acp:COMMAND or
    /// exec:COMMAND; the configured one where only a prompt is given
    #[arg(value_name = "AGENT")]
    first: Option<String>,
    /// What on; `-` reads it from standard input
    #[arg(value_name = "PROMPT")]
    second: Option<String>,
    /// A prompt that was not quoted, which is said so
    #[arg(hide = true)]
    rest: Vec<String>,
    /// Read the prompt from this file
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// The model: as the vendor's program calls it; for native anthropic/…, openai/…, chat/…,
    /// script:FILE
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// What the agent may do: read-only, edit (files in the workspace, and nothing more) or full
    /// [default: edit]
    #[arg(long, value_name = "WHAT")]
    permission: Option<Permission>,
    /// A name for the session
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where the agent works [default: the working directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The work is done when this command succeeds; its output is the next prompt until then
    #[arg(long, value_name = "COMMAND")]
    proof: Option<String>,
    /// The longest that the proof may take: 90s, 15m, 2h [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "proof")]
    proof_time: Option<std::time::Duration>,
    /// Who goes on when the agent runs into its limit, in this order: codex,gemini,native
    #[arg(long, value_name = "AGENTS", help_heading = "Limits and hand-offs")]
    fallback: Option<String>,
    /// Where a limit stops the work and nobody else can go on, wait until it has reset
    #[arg(long, help_heading = "Limits and hand-offs")]
    wait: bool,
    /// Give the work back to the first agent once its limit has reset
    #[arg(long = "return", help_heading = "Limits and hand-offs")]
    give_back: bool,
    /// Go on with the latest session of this repository, with this agent
    #[arg(long, help_heading = "Limits and hand-offs")]
    resume: bool,
    /// Go on with this session, with this agent
    #[arg(long, value_name = "SESSION", help_heading = "Limits and hand-offs")]
    from: Option<String>,
    /// Start anew, also where a session of this repository could be resumed
    #[arg(long, conflicts_with_all = ["resume", "from"], help_heading = "Limits and hand-offs")]
    new: bool,
    /// Work in a worktree of the session's own, on its own branch
    #[arg(long)]
    worktree: bool,
    /// Work in the background, and show it in tmux: closing that, or the terminal, stops nothing
    #[arg(long)]
    tmux: bool,
    #[command(flatten)]
    caps: CapFlags,
    /// Flags for the vendor's program, passed on as they are
    #[arg(last = true, value_name = "FLAGS")]
    vendor_args: Vec<String>,
}

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    check_proof(args.proof.as_deref())?;
    if args.tmux {
        attach::check(context)?;
    }
    let config = context.config()?;
    if args.resume || args.from.is_some() {
        return resumed(context, args);
    }
    let (agent, prompt) = agent_and_prompt(context, &config, &args)?;
    if let Offer::Resume(found) = offer::ask(context, &config, args.dir.as_deref(), args.new)? {
        check_resumable(&args)?;
        let request = Request {
            prompt: Some(prompt),
            with: Some(agent),
            model: args.model.clone(),
            permission: args.permission,
            wait: args.wait,
            caps: args.caps.caps(),
            tmux: args.tmux,
            ..Request::default()
        };
        return go_on(context, &found, request);
    }
    let wishes =
        Wishes { model: args.model.as_deref(), permission: args.permission, ..Wishes::default() };
    if agent == NATIVE && !args.vendor_args.is_empty() {
        return Err(CommandError::usage("the native agent takes no flags after `--`"));
    }
    let (model, worker) = hire(context, &config, &agent, wishes)?;
    check_free(context, args.name.as_deref())?;
    let workspace = workspace(&context.cwd, args.dir.as_deref())?;
    let new = NewSession {
        model,
        permission: args.permission.unwrap_or_default(),
        vendor_args: args.vendor_args,
        proof: args.proof,
        proof_secs: proof_secs(&config, args.proof_time),
        caps: config.caps().overridden_by(args.caps.caps()),
        fallback: fallback(&config, args.fallback.as_deref())?,
        worktree: args.worktree,
        name: args.name,
        ..NewSession::new(repo_of(&workspace)?, workspace, agent, prompt)
    };
    let manner =
        Manner { number: None, wait: args.wait, give_back: args.give_back, tmux: args.tmux };
    launch_new(context, &config, new, worker, manner, Begin::default())
}

/// An empty command succeeds.
pub(crate) fn check_proof(proof: Option<&str>) -> Result<(), CommandError> {
    match proof.is_some_and(|command| command.trim().is_empty()) {
        true => Err(CommandError::usage("--proof is empty: such a proof would always pass")),
        false => Ok(()),
    }
}

/// `segue run x --resume "…"`: the latest session of this repository, or the one after `--from`,
/// goes on with this agent.
fn resumed(context: &Context, args: Args) -> CommandResult {
    check_resumable(&args)?;
    let (agent, prompt) = words(&args)?;
    let wanted = agent.map(|word| known_agent(word).ok_or_else(|| no_such_agent(word)));
    let prompt = match prompt.is_some() || args.prompt_file.is_some() {
        true => Some(prompt::read(context, prompt, args.prompt_file.as_deref(), "segue run")?),
        false => None,
    };
    let found = match args.from.as_deref() {
        Some(from) => context.find(Some(from))?,
        None if prompt.is_some() => context.find(None)?,
        None => context.find_resumable(None)?,
    };
    let request = Request {
        prompt,
        with: wanted.transpose()?,
        wait: args.wait,
        give_back: false,
        model: args.model.clone(),
        permission: args.permission,
        dir: args.dir.clone(),
        caps: args.caps.caps(),
        tmux: args.tmux,
        ..Request::default()
    };
    go_on(context, &found, request)
}

/// What belongs to a session from its beginning can't be given to one that is there.
fn check_resumable(args: &Args) -> Result<(), CommandError> {
    let given = [
        (args.proof.is_some(), "--proof"),
        (args.name.is_some(), "--name"),
        (args.worktree, "--worktree"),
        (args.fallback.is_some(), "--fallback"),
        (!args.vendor_args.is_empty(), "flags after `--`"),
    ];
    match given.iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, flag)) => Err(CommandError::usage(format!("{flag} is for a new session"))
            .hint("start one: segue run --new …")),
    }
}

/// Who goes on after a limit, by their full names: a typing error should not wait for the limit.
pub(crate) fn fallback(config: &Config, named: Option<&str>) -> Result<Vec<String>, CommandError> {
    let words = named.map_or_else(|| config.fallback(), crate::config::words);
    words.iter().map(|word| known_agent(word).ok_or_else(|| no_such_agent(word))).collect()
}

/// What a session begins with besides its prompt.
#[derive(Default)]
pub(crate) struct Begin<'a> {
    /// An edited packet that it was made of, and where that is kept once it is used.
    pub(crate) packet: Option<(PathBuf, PathBuf)>,
    /// The list of tasks that it works through.
    pub(crate) list: Option<&'a Source>,
}

/// Which repository a session in this directory belongs to.
pub(crate) fn repo_of(workspace: &Path) -> Result<RepoRef, CommandError> {
    let repo = segue_workspace::identify(workspace)
        .map_err(|error| CommandError::failed(error.to_string()))?;
    let segue_workspace::Repo { id, identity, head, branch, .. } = repo;
    Ok(RepoRef { id, identity, head, branch })
}

/// A worktree needs a repository.
pub(crate) fn check_git(workspace: &Path) -> Result<(), CommandError> {
    check_commit(workspace, "there can be no worktree")
}

/// Finds out whether there is a commit to begin with. `else_what`: what follows if not.
pub(crate) fn check_commit(workspace: &Path, else_what: &str) -> Result<(), CommandError> {
    let Ok(repo) = segue_workspace::identify(workspace) else { return Ok(()) };
    let wrong = |what: &str, hint: &str| {
        let message = format!("{} {what}: {else_what}", workspace.display());
        Err(CommandError::usage(message).hint(hint))
    };
    let no_git = repo.kind == segue_workspace::Kind::NoGit;
    match (&repo.note, &repo.head) {
        _ if no_git => wrong("is in no git repository", "git init makes one"),
        (Some(note), _) => Err(CommandError::failed(format!("{}: {note}", workspace.display()))),
        (_, None) => wrong("has no commit yet", "git commit makes one"),
        _ => Ok(()),
    }
}

/// Creates a session and works on it.
pub(crate) fn launch_new(
    context: &Context,
    config: &Config,
    new: NewSession,
    worker: Worker,
    manner: Manner,
    begin: Begin<'_>,
) -> CommandResult {
    launch_numbered(context, config, new, worker, manner, begin).map(|(exit, _)| exit)
}

/// The same, and says which session it is.
pub(crate) fn launch_numbered(
    context: &Context,
    config: &Config,
    new: NewSession,
    worker: Worker,
    manner: Manner,
    begin: Begin<'_>,
) -> Result<(Exit, u64), CommandError> {
    // Before there is a session that could not be started.
    worker.check_price(new.caps)?;
    let mut left_behind = 0;
    if new.worktree {
        check_git(&new.workspace)?;
        // Where files are brought back, what is there now is not what it begins with.
        if new.lineage.as_ref().is_none_or(|from| from.files.is_none()) {
            left_behind = segue_workspace::worktree::uncommitted(&new.workspace).unwrap_or(0);
        }
    }
    let (agent, permission) = (new.agent.clone(), new.permission);
    let limit_key = limit_key(&agent, new.model.as_deref());
    let mut watcher = Watcher::new(context);
    let interrupt = Interrupt::install()?;
    let (mut session, number) = {
        let around = surroundings(context, config, &mut watcher, interrupt.clone(), manner);
        let name = new.name.clone();
        create_free(context, name.as_deref(), || Ok(launch::create(&context.home, new, &around)?))?
    };
    let dir = session.session().dir().to_owned();
    if let Some(list) = begin.list {
        list.note(&mut session)?;
    }
    if let Some((from, to)) = begin.packet {
        // The new session has it now. Not before: killed on the way, the edit would not count.
        context.home.disk().rename(&from, &to)?;
    }
    watcher.began(number, &dir);
    match left_behind {
        0 => {}
        n => watcher.remark(&format!(
            "{} not committed, and so not in the worktree",
            style::count(n as u64, "file")
        )),
    }
    if let Some(terms) = terms(&agent, permission) {
        watcher.remark(&format!("{agent} may {terms}"));
    }
    if let Some(limit) = context.home.limit_of(&limit_key, context.now()) {
        let when = limit.resets_at.map(|at| style::relative(at, context.now()));
        let when = when.map(|when| format!(", which resets {when}")).unwrap_or_default();
        watcher.remark(&format!("{agent} was at its limit{when}: it is tried all the same"));
    }
    if manner.tmux {
        // Whoever works on it from now on needs its lock.
        drop(session);
        return attach::begin(context, number, manner).map(|exit| (exit, number));
    }
    let manner = Manner { number: Some(number), ..manner };
    let around = surroundings(context, config, &mut watcher, interrupt, manner);
    let stop = launch::start(session, worker, around)?;
    conclude(context, watcher, &number.to_string(), &dir, &stop).map(|exit| (exit, number))
}

/// What a run needs to know besides its agent and its prompt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    pub(crate) number: Option<u64>,
    pub(crate) wait: bool,
    pub(crate) give_back: bool,
    /// In the background, shown in tmux.
    pub(crate) tmux: bool,
}

/// The longest that a proof may take, as far as somebody has said so.
pub(crate) fn proof_secs(config: &Config, named: Option<std::time::Duration>) -> Option<u64> {
    let time = named.or_else(|| config.duration("proof.time"));
    time.map(|time| time.as_secs().max(1))
}

pub(crate) fn surroundings<'a>(
    context: &'a Context,
    config: &'a Config,
    watcher: &'a mut Watcher,
    interrupt: Interrupt,
    manner: Manner,
) -> Surroundings<'a> {
    let Manner { number, wait, give_back, .. } = manner;
    Surroundings {
        clock: std::sync::Arc::clone(&context.clock),
        interrupt,
        observer: watcher,
        segue: env!("CARGO_PKG_VERSION").to_owned(),
        me: context.me(),
        home: context.home.clone(),
        number,
        hire: Box::new(move |agent, model| {
            let wishes = Wishes { model, ..Wishes::default() };
            let hired = hire(context, config, agent, wishes);
            hired.map(|(_, worker)| worker).map_err(|error| error.short())
        }),
        wait,
        give_back,
        checkpoints: config.checkpoints(),
        purse: None,
    }
}

fn agent_and_prompt(
    context: &Context,
    config: &Config,
    args: &Args,
) -> Result<(String, String), CommandError> {
    let (agent, prompt) = words(args)?;
    let wanted = agent.unwrap_or_else(|| config.get("agent").unwrap_or("native"));
    if let "acp:" | "exec:" = wanted.trim() {
        return Err(CommandError::usage(format!("a command is missing: {wanted}COMMAND")));
    }
    let agent = known_agent(wanted).ok_or_else(|| {
        let error = no_such_agent(wanted);
        match (agent, prompt) {
            (Some(agent), Some(prompt)) => {
                let meant = quoted(&[agent, prompt]);
                error.hint(format!("a prompt of several words needs quotes: {meant}"))
            }
            _ => error,
        }
    })?;
    let command = match agent.as_str() {
        NATIVE => "segue run".to_owned(),
        agent => format!("segue run {agent}"),
    };
    let prompt = prompt::read(context, prompt, args.prompt_file.as_deref(), &command)?;
    Ok((agent, prompt))
}

/// The agent and the prompt, as far as they were given.
fn words(args: &Args) -> Result<(Option<&str>, Option<&str>), CommandError> {
    let words: Vec<&str> =
        args.first.iter().chain(&args.second).chain(&args.rest).map(String::as_str).collect();
    Ok(match words[..] {
        [agent, prompt] => (Some(agent), Some(prompt)),
        [word] if known_agent(word).is_some() => (Some(word), None),
        [prompt] => (None, Some(prompt)),
        [] => (None, None),
        _ => {
            return Err(
                CommandError::usage("a prompt of several words needs quotes").hint(quoted(&words))
            );
        }
    })
}

/// What was probably meant by several words.
fn quoted(words: &[&str]) -> String {
    match known_agent(words[0]) {
        Some(agent) => format!("segue run {agent} \"{}\"", words[1..].join(" ")),
        None => format!("segue run \"{}\"", words.join(" ")),
    }
}

pub(crate) fn check_free(context: &Context, name: Option<&str>) -> Result<(), CommandError> {
    let Some(name) = name else { return Ok(()) };
    check_name(name).map_err(|error| CommandError::usage(format!("`{name}`: {error}")))?;
    let mut index = context.index()?;
    match segue_view::select::name_taken(&mut index, name).map_err(view_error)? {
        None => Ok(()),
        Some(row) => {
            let id = row.number.map_or_else(|| row.at.id.to_string(), |number| number.to_string());
            Err(CommandError::usage(format!("the name `{name}` is taken by session {id}"))
                .hint(format!("go on with it: segue resume {id}")))
        }
    }
}

/// Creates a session whose name is still free, before anybody else can take that.
pub(crate) fn create_free<T>(
    context: &Context,
    name: Option<&str>,
    create: impl FnOnce() -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let _names = name.map(|_| context.home.hold_names()).transpose()?;
    check_free(context, name)?;
    create()
}

/// The directory to work in, without links and as text: it stands in the journal.
pub(crate) fn workspace(cwd: &Path, named: Option<&Path>) -> Result<PathBuf, CommandError> {
    let dir = cwd.join(named.unwrap_or_else(|| Path::new(".")));
    let found = std::fs::canonicalize(&dir)
        .map_err(|error| CommandError::usage(format!("{}: {error}", dir.display())))?;
    if found.to_str().is_none() {
        let shown = found.display();
        return Err(CommandError::usage(format!("{shown}: the path is not UTF-8")));
    }
    // Before there is a session: one that can't be started would only be in the way.
    std::fs::read_dir(&found)
        .map_err(|error| CommandError::usage(format!("{}: {error}", found.display())))?;
    Ok(found)
}
