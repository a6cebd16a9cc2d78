//! `segue pair`: one agent works, others review, until they agree.

use std::{path::PathBuf, time::Duration};

use segue_core::{
    Exit, Permission,
    identity::LoopKind,
    review::{Consensus, Seat, Terms, names},
};
use segue_journal::home::NewSession;

use crate::{
    commands::{
        attach,
        caps::CapFlags,
        go_on::{Request, go_on},
        prompt,
        run::{
            Begin, Manner, check_free, check_proof, fallback, launch_new, proof_secs, repo_of,
            workspace,
        },
        worker::{NATIVE, Wishes, hire, known_agent, no_such_agent},
    },
    config::{Config, parse_duration},
    context::Context,
    error::{CommandError, CommandResult},
};

/// One agent works, others review, until they agree
///
/// After each turn of the worker the proof command is run, and each reviewer is asked for a verdict
/// on the task, the diff, the proof and what the worker says. What they object to is the worker's
/// next prompt. A pair is resumed, handed over, rewound and carried like any session.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue pair \"Add a --verbose flag\"
  segue pair \"Fix the race\" --worker claude --reviewer codex,gemini --proof \"cargo test\"
  segue pair \"Refactor\" --worker codex --reviewer codex@gpt-5,claude --consensus majority
  segue pair \"Refactor\" --worktree --tmux --max-iterations 50
  segue pair --run-id 7               the same as segue resume 7")]
pub(crate) struct Args {
    /// What to do; `-` reads it from standard input
    #[arg(value_name = "PROMPT")]
    task: Option<String>,
    /// The same, as a flag
    #[arg(long = "prompt", short, value_name = "PROMPT", conflicts_with = "task")]
    prompt: Option<String>,
    /// Read the prompt from this file
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// Who works: an agent, or AGENT@MODEL [default: codex]
    #[arg(long, short, value_name = "AGENT", visible_alias = "agent")]
    worker: Option<String>,
    /// Who reviews: agents, each perhaps with @MODEL, with commas between them; also several times,
    /// as commands of your own have to be; or none
    /// [default: claude, or codex where claude works]
    #[arg(long, short, value_name = "AGENTS")]
    reviewer: Vec<String>,
    /// Who reviews, in other words: claude, codex, or claudex for both
    #[arg(long, value_name = "WHO", conflicts_with = "reviewer")]
    review: Option<String>,
    /// Claude alone: until the proof and the done signal say that it is done
    #[arg(long, conflicts_with_all = ["reviewer", "review", "worker", "codex_only"])]
    claude_only: bool,
    /// Codex alone
    #[arg(long, conflicts_with_all = ["reviewer", "review", "worker"])]
    codex_only: bool,
    /// How many reviewers have to let it pass: all, any or majority [default: all]
    #[arg(long, value_name = "RULE")]
    consensus: Option<Consensus>,
    /// Run this command after each turn: without its success nothing passes
    #[arg(long, value_name = "COMMAND")]
    proof: Option<String>,
    /// The longest that the proof may take: 90s, 15m, 2h [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    proof_time: Option<Duration>,
    /// Review only what the worker ends with a line of just this, such as DONE
    #[arg(long, value_name = "SIGNAL")]
    done: Option<String>,
    /// What the worker may do: read-only, edit or full; reviewers may only read [default: edit]
    #[arg(long, value_name = "WHAT")]
    permission: Option<Permission>,
    /// A name for the session
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where the agents work [default: the working directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Work in a worktree of the session's own; what passes is committed on its branch
    #[arg(long, overrides_with = "no_worktree")]
    worktree: bool,
    /// Not so, whatever the settings say
    #[arg(long)]
    no_worktree: bool,
    /// Work in the background, and show everybody side by side in tmux
    #[arg(long, overrides_with = "no_tmux")]
    tmux: bool,
    /// Not so, whatever the settings say
    #[arg(long)]
    no_tmux: bool,
    /// Who takes the place of an agent that runs into its limit, in this order: codex,gemini
    #[arg(long, value_name = "AGENTS", help_heading = "Limits and hand-offs")]
    fallback: Option<String>,
    /// Where a limit stops the work and nobody else can go on, wait until it has reset
    #[arg(long, help_heading = "Limits and hand-offs")]
    wait: bool,
    /// Give the work back to the first worker once its limit has reset
    #[arg(long = "return", help_heading = "Limits and hand-offs")]
    give_back: bool,
    /// Go on with the pair of this number
    #[arg(long, value_name = "N", help_heading = "Resuming")]
    run_id: Option<u64>,
    /// Go on with the pair in which a vendor's session has this id
    #[arg(long, value_name = "ID", conflicts_with = "run_id", help_heading = "Resuming")]
    session: Option<String>,
    #[command(flatten)]
    caps: CapFlags,
}

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    check_proof(args.proof.as_deref())?;
    if args.permission == Some(Permission::ReadOnly) {
        return Err(CommandError::usage("a worker that may only read can change nothing")
            .hint("segue run AGENT \"…\" --permission read-only asks one agent"));
    }
    if let Some(selector) = args.run_id.map(|id| id.to_string()).or(args.session.clone()) {
        return resumed(context, args, &selector);
    }
    let config = context.config()?;
    let switched = |name: &str| config.get(name) == Some("on");
    let tmux = !args.no_tmux && (args.tmux || switched("pair.tmux"));
    let worktree = !args.no_worktree && (args.worktree || switched("pair.worktree"));
    if tmux {
        attach::check(context)?;
    }
    let given = args.task.as_deref().or(args.prompt.as_deref());
    let prompt = prompt::read(context, given, args.prompt_file.as_deref(), "segue pair")?;
    let worker = worker(&config, &args)?;
    let seats = seats(&config, &args, &worker.agent)?;
    let done = done(&config, &args)?;
    let wishes =
        Wishes { model: worker.model.as_deref(), permission: args.permission, ..Wishes::default() };
    let caps = caps(&config, &args);
    let (model, hired) = hire(context, &config, &worker.agent, wishes).map_err(others_would_do)?;
    let reviewers = check_seats(context, &config, seats, caps).map_err(others_would_do)?;
    check_free(context, args.name.as_deref())?;
    let workspace = workspace(&context.cwd, args.dir.as_deref())?;
    let new = NewSession {
        loop_kind: LoopKind::Pair,
        model,
        permission: args.permission.unwrap_or_default(),
        proof: args.proof.clone().or_else(|| config.get("pair.proof").map(str::to_owned)),
        proof_secs: proof_secs(&config, args.proof_time),
        pair: Some(Terms {
            reviewers,
            consensus: consensus(&config, &args),
            done,
            case: false,
            tmux,
        }),
        caps,
        fallback: fallback(&config, args.fallback.as_deref())?,
        worktree,
        name: args.name,
        ..NewSession::new(repo_of(&workspace)?, workspace, worker.agent, prompt)
    };
    let (wait, give_back) = (args.wait, args.give_back);
    let manner = Manner { number: None, wait, give_back, tmux };
    launch_new(context, &config, new, hired, manner, Begin::default())
}

/// `--run-id 7`, `--session ID`: the pair goes on.
fn resumed(context: &Context, args: Args, selector: &str) -> CommandResult {
    let given = [
        (args.worker.is_some(), "--worker"),
        (!args.reviewer.is_empty() || args.review.is_some(), "--reviewer"),
        (args.claude_only || args.codex_only, "--claude-only and --codex-only"),
        (args.consensus.is_some(), "--consensus"),
        (args.proof.is_some() || args.proof_time.is_some(), "--proof"),
        (args.done.is_some(), "--done"),
        (args.name.is_some(), "--name"),
        (args.worktree, "--worktree"),
        (args.no_worktree, "--no-worktree"),
        (args.fallback.is_some(), "--fallback"),
    ];
    if let Some((_, flag)) = given.iter().find(|(given, _)| *given) {
        return Err(CommandError::usage(format!("{flag} is for a new pair"))
            .hint("start one: segue pair \"…\""));
    }
    let found = context.find(Some(selector))?;
    let given = args.task.as_deref().or(args.prompt.as_deref());
    let file = args.prompt_file.as_deref();
    let prompt = match given.is_some() || file.is_some() {
        true => Some(prompt::read(context, given, file, "segue pair --run-id N")?),
        false => None,
    };
    let request = Request {
        prompt,
        permission: args.permission,
        dir: args.dir,
        wait: args.wait,
        give_back: args.give_back,
        caps: args.caps.caps(),
        tmux: args.tmux,
        here: args.no_tmux,
        ..Request::default()
    };
    go_on(context, &found, request)
}

/// In place of a reviewer: the worker is alone.
const NOBODY: &str = "none";

/// Somebody as they were named: `codex`, `claude@opus`, `native@script:review.toml`.
pub(crate) struct Named {
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
}

pub(crate) fn named(word: &str) -> Result<Named, CommandError> {
    // A command of the user's own may have any sign in it.
    let own = word.starts_with("acp:") || word.starts_with("exec:");
    let (agent, model) = match word.split_once('@').filter(|_| !own) {
        Some((agent, model)) if !model.is_empty() => (agent, Some(model.to_owned())),
        _ => (word, None),
    };
    let agent = known_agent(agent).ok_or_else(|| no_such_agent(agent))?;
    Ok(Named { agent, model })
}

fn worker(config: &Config, args: &Args) -> Result<Named, CommandError> {
    match (args.claude_only, args.codex_only) {
        (true, _) => named("claude"),
        (_, true) => named("codex"),
        _ => named(args.worker.as_deref().or(config.get("pair.worker")).unwrap_or("codex")),
    }
}

/// Who reviews, each under a name that nobody else has.
fn seats(config: &Config, args: &Args, worker: &str) -> Result<Vec<Seat>, CommandError> {
    let words: Vec<String> = match (&args.review, args.reviewer.is_empty()) {
        _ if args.claude_only || args.codex_only => Vec::new(),
        (Some(who), _) => vec![who.to_owned()],
        (None, true) => match config.get("pair.reviewers") {
            Some(list) => crate::config::words(list),
            None if worker == "claude" => vec!["codex".to_owned()],
            None => vec!["claude".to_owned()],
        },
        (None, false) => args.reviewer.iter().flat_map(|list| listed(list)).collect(),
    };
    if args.claude_only || args.codex_only || words == [NOBODY] {
        return Ok(Vec::new());
    }
    // An empty variable in a script is no wish for work that nobody looks at.
    if words.is_empty() {
        return Err(CommandError::usage("nobody is named to review")
            .hint(format!("--reviewer {NOBODY}, if that is what you want")));
    }
    let both = |word: &'_ String| match word.as_str() {
        "claudex" => vec!["claude".to_owned(), "codex".to_owned()],
        _ => vec![word.clone()],
    };
    let words: Vec<String> = words.iter().flat_map(both).collect();
    let agents: Vec<Named> = words.iter().map(|word| named(word)).collect::<Result<_, _>>()?;
    let all = std::iter::once(worker).chain(agents.iter().map(|one| one.agent.as_str()));
    let names = names(all).into_iter().skip(1);
    let seat = |(name, Named { agent, model })| Seat { name, agent, model };
    Ok(names.zip(agents).map(seat).collect())
}

/// The parts of a list; a command of the user's own is one part, whatever is in it.
pub(crate) fn listed(list: &str) -> Vec<String> {
    match list.starts_with("acp:") || list.starts_with("exec:") {
        true => vec![list.to_owned()],
        false => crate::config::words(list),
    }
}

/// Finds out now who can't work, and not after the worker's first turn. Models get their full names.
pub(crate) fn check_seats(
    context: &Context,
    config: &Config,
    seats: Vec<Seat>,
    caps: segue_core::caps::Caps,
) -> Result<Vec<Seat>, CommandError> {
    let mut checked = Vec::new();
    for seat in seats {
        let wishes = Wishes { model: seat.model.as_deref(), ..Wishes::default() };
        let (model, worker) = hire(context, config, &seat.agent, wishes)?;
        worker.check_price(caps)?;
        let model = if seat.agent == NATIVE { model } else { seat.model };
        checked.push(Seat { model, ..seat });
    }
    Ok(checked)
}

/// Nobody has asked for the ones that are taken by default.
fn others_would_do(error: CommandError) -> CommandError {
    match error.exit {
        Exit::AgentMissing => {
            error.hint("choose others: --worker AGENT --reviewer AGENT; who is there: segue agents")
        }
        _ => error,
    }
}

/// Attempts are counted here, not turns.
fn caps(config: &Config, args: &Args) -> segue_core::caps::Caps {
    let set = segue_core::caps::Caps { turns: None, ..config.caps() };
    set.overridden_by(args.caps.caps())
}

fn consensus(config: &Config, args: &Args) -> Consensus {
    let set = config.get("pair.consensus").and_then(|word| word.parse().ok());
    args.consensus.or(set).unwrap_or_default()
}

fn done(config: &Config, args: &Args) -> Result<Option<String>, CommandError> {
    let signal = args.done.as_deref().or(config.get("pair.done")).map(str::trim);
    match signal {
        Some(signal) if signal.is_empty() || signal.contains('\n') => {
            Err(CommandError::usage("--done takes one line, such as DONE"))
        }
        signal => Ok(signal.map(str::to_owned)),
    }
}
