//! `segue fork`: a new session that begins with what another one knows at one of its steps.

use segue::Run;
use segue_core::{Exit, Permission, identity::How};
use segue_journal::Session;
use segue_loops::{
    branch::{self, Branch, BranchError, Files, With},
    keep::Keeper,
};
use segue_view::select::Found;
use serde_json::json;

use crate::{
    commands::{
        caps::CapFlags,
        go_on::{check_no_list, check_whole, say_plan},
        place,
        run::{Begin, Manner, check_free, launch_new},
        worker::{NATIVE, Wishes, hire, known_agent, no_such_agent},
    },
    context::{Context, say},
    error::{CommandError, CommandResult},
};

/// What a fork is asked that was given no prompt.
const GO_ON: &str = "Go on from here.";

/// Begin a new session with what another one knows, at any of its steps
///
/// The beginning is shared, not copied, and the other session stays as it is. At its last step the
/// new one works in the same directory; at an earlier step in a worktree of its own, with the files
/// of that time. A vendor's program copies its own conversation where it can; else it is told what
/// was said and done.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue fork 7 \"Try it without the cache\"
  segue fork 7 --from-step 12 \"Try it without the cache\"
  segue fork 7 --from-step 12 \"Try it\" --with codex --name other-way
  segue fork 7 --from-step 3f9a                 without a prompt: nobody is asked yet
  segue log 7 --steps                           the steps, with their numbers and ids")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: String,
    /// What to do in the new session
    prompt: Option<String>,
    /// After this step: its number, its id or the start of one [default: the last one]
    #[arg(long, value_name = "STEP")]
    from_step: Option<String>,
    /// Who goes on, where that is somebody else
    #[arg(long, value_name = "AGENT")]
    with: Option<String>,
    /// A name for the new session
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Another model
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// What the agent may do: read-only, edit or full [default: as before]
    #[arg(long, value_name = "WHAT")]
    permission: Option<Permission>,
    /// In a worktree of its own, also at the last step
    #[arg(long)]
    worktree: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    caps: CapFlags,
}

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    if args.prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        return Err(CommandError::usage("the prompt is empty"));
    }
    let config = context.config()?;
    let found = context.find(Some(&args.session))?;
    let session = open(context, &found, "forked")?;
    check_free(context, args.name.as_deref())?;
    let agent = match &args.with {
        Some(word) => known_agent(word).ok_or_else(|| no_such_agent(word))?,
        None => session.state().agent().to_owned(),
    };
    let place = place::find(context, &session, None)?;
    let keeper = Keeper::new(&session, &place.dir, config.checkpoints());
    let step = args.from_step.as_deref();
    let mut branch = branch::leave(&session, &keeper, step, How::Forked)
        .map_err(|error| branch_error(error, &found.selector()))?;
    let copies = branch
        .fork_natively(&session, &agent)
        .map_err(|error| branch_error(error, &found.selector()))?;
    let (worktree, files) = branch.apart(&place.dir, args.worktree);
    let mut lines = vec![format!("⑂ fork #{} after step {}", found.selector(), named(&branch))];
    let mut line = |label: &str, text: String| lines.push(format!("  {label:<9} {text}"));
    line("talk", talk(&agent, copies));
    line("files", files_line(&branch, worktree));
    if let Some(prompt) = &args.prompt {
        line("prompt", prompt.clone());
    }
    if args.dry_run && context.json {
        context.print_json(&plan_json(&found, &branch, &agent, copies, worktree))?;
    } else if !context.json {
        say_plan(context, &lines);
    }
    if args.dry_run {
        return Ok(Exit::Done);
    }
    let same = agent == session.state().agent();
    let model = args.model.as_deref().or_else(|| session.state().model().filter(|_| same));
    let wishes = Wishes { model, permission: args.permission, fresh: false };
    let hired = hire(context, &config, &agent, wishes);
    let with = With {
        agent,
        model: None,
        permission: args.permission.unwrap_or_else(|| session.state().permission()),
        prompt: branch.told(args.prompt.clone().unwrap_or_else(|| GO_ON.to_owned()), worktree),
        workspace: place.dir,
        worktree,
        caps: config.caps().overridden_by(args.caps.caps()),
        name: args.name,
        sealed: false,
        segue: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let begin = Begin { files, ..Begin::default() };
    if args.prompt.is_none() {
        let model = model.map(str::to_owned);
        let source = Run::of(&context.runs()?, session, found.number);
        return made(context, &source, branch, With { model, ..with }, begin.files);
    }
    let (model, worker) = hired?;
    let new = branch
        .session(&session, With { model, ..with })
        .map_err(|error| branch_error(error, &found.selector()))?;
    launch_new(context, &config, new, worker, Manner::default(), begin)
}

/// A session that can be left: one agent's, whole, and no list.
pub(crate) fn open(context: &Context, found: &Found, done: &str) -> Result<Session, CommandError> {
    let session = found.open(&context.home)?;
    crate::commands::crew::check_single(found, &session)?;
    check_whole(&session)?;
    check_no_list(&session, done)?;
    Ok(session)
}

/// A fork that waits for somebody to be asked.
fn made(
    context: &Context,
    source: &Run,
    branch: Branch,
    with: With,
    files: Option<String>,
) -> CommandResult {
    let made = source
        .fork_with(branch, with, files)
        .map_err(|error| CommandError::from(error).about(&source.selector()))?;
    if context.json {
        context.print_json(&json!({ "session": made.number(), "id": made.id() }))?;
    } else {
        let number = made.selector();
        say(&format!("✓ session {number}: nobody is asked yet"));
        say(&format!("segue resume {number} \"what to do\""));
    }
    Ok(Exit::Done)
}

fn named(branch: &Branch) -> String {
    let mark = &branch.mark;
    let last = if branch.tip { ", its last" } else { "" };
    format!("{} ({}, turn {}){last}", mark.index, mark.id.short(), mark.turn)
}

fn talk(agent: &str, copies: bool) -> String {
    match agent {
        _ if copies => format!("{agent} copies its own conversation"),
        NATIVE => "native reads the conversation up to there from the journal".to_owned(),
        agent => format!("{agent} is told what was said and done up to there"),
    }
}

pub(crate) fn files_line(branch: &Branch, worktree: bool) -> String {
    let place = if worktree { "a worktree of its own" } else { "the same directory" };
    match &branch.files {
        Files::Unknown { why } => format!("{place}, files as they are: {why}"),
        _ if !worktree && branch.tip => format!("{place}, files as they are"),
        _ if !worktree => format!("{place}, files as they are: there can be no worktree"),
        Files::At { .. } => format!("{place}, as after that step"),
        Files::Before { turn: 0, .. } => format!("{place}, as before turn 1"),
        Files::Before { turn, .. } => format!("{place}, as after turn {turn}"),
    }
}

fn plan_json(
    found: &Found,
    branch: &Branch,
    agent: &str,
    copies: bool,
    worktree: bool,
) -> serde_json::Value {
    json!({
        "session": found.selector(),
        "step": branch.mark.index,
        "id": branch.mark.id,
        "turn": branch.mark.turn,
        "agent": agent,
        "copies_its_conversation": copies,
        "worktree": worktree,
        "files": branch.files.commit(),
    })
}

/// What keeps a session from being left at a step, and what helps.
pub(crate) fn branch_error(error: BranchError, selector: &str) -> CommandError {
    match error {
        BranchError::Journal(error) => CommandError::from(error).about(selector),
        BranchError::Step(segue_journal::steps::StepError::Journal(error)) => {
            CommandError::from(error).about(selector)
        }
        BranchError::Step(error) => CommandError::usage(error.to_string())
            .hint(format!("the steps: segue log {selector} --steps")),
        BranchError::Unreadable(_) => {
            CommandError::failed(error.to_string()).hint(format!("segue verify {selector}"))
        }
    }
}
