//! `segue fork`: a new session that begins with what another one knows at one of its steps.

use std::path::PathBuf;

use segue::{
    Run,
    plan::{By, Plan},
};
use segue_core::{Exit, Permission};
use segue_journal::Session;
use segue_loops::branch::{Branch, BranchError, Files, With};
use segue_view::{graph, select::Found};
use serde_json::json;

use crate::{
    commands::{
        caps::CapFlags,
        go_on::{check_no_list, check_whole, say_plan},
        import, place,
        run::{Begin, Manner, check_free, launch_new},
        worker::{NATIVE, Wishes, hire, known_agent, no_such_agent},
    },
    context::{Context, say, view_error},
    error::{CommandError, CommandResult},
};

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
    /// A number, a name, an id or the start of one, a path, a .tine or .segue file, or @latest
    session: String,
    /// What to do in the new session
    prompt: Option<String>,
    /// After this step: its number, its id or the start of one, a name (main, base, fork/9)
    /// [default: the last one]
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
    /// Where the repository is now, if it has moved
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
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
    let found = import::find(context, Some(&args.session))?;
    let session = open(context, &found, "forked")?;
    check_free(context, args.name.as_deref())?;
    let (step, prompt) = (args.from_step.as_deref(), args.prompt.as_deref());
    let agent = match &args.with {
        Some(word) => known_agent(word).ok_or_else(|| no_such_agent(word))?,
        // A program of somebody else's need not be one of ours.
        None if prompt.is_some() && known_agent(session.state().agent()).is_none() => {
            let error = no_such_agent(session.state().agent());
            return Err(error.hint("say who goes on: --with AGENT"));
        }
        None => session.state().agent().to_owned(),
    };
    let place = place::find(context, &session, args.dir.as_deref())?;
    let wrong = |error: segue::Error| CommandError::from(error).about(&found.selector());
    let run = Run::of(&context.runs()?, session, found.number);
    let plan = run.plan_fork(step, &agent, prompt, &place.dir, args.worktree).map_err(wrong)?;
    if args.dry_run && context.json {
        context.print_json(&plan_json(&found, &plan, &agent))?;
    } else if !context.json {
        say_what(context, &found, &plan, &agent, prompt);
    }
    if args.dry_run {
        return Ok(Exit::Done);
    }
    let model = args.model.as_deref().or_else(|| run.model_of(&agent)).map(str::to_owned);
    let wishes = Wishes { model: model.as_deref(), permission: args.permission, fresh: false };
    let by = |agent: String, model: Option<String>| By {
        agent,
        model,
        permission: args.permission,
        caps: config.caps().overridden_by(args.caps.caps()),
        proof: None,
        name: args.name.clone(),
    };
    if prompt.is_none() {
        let (branch, with) = plan.parts(&run, by(agent, model)).map_err(wrong)?;
        return made(context, &run, branch, with);
    }
    let (model, worker) = hire(context, &config, &agent, wishes)?;
    let new = plan.session(&run, by(agent, model)).map_err(wrong)?;
    launch_new(context, &config, new, worker, Manner::default(), Begin::default())
}

fn say_what(context: &Context, found: &Found, plan: &Plan, agent: &str, prompt: Option<&str>) {
    let branch = &plan.branch;
    let mut lines = vec![format!("⑂ fork #{} after step {}", found.selector(), named(branch))];
    let mut line = |label: &str, text: String| lines.push(format!("  {label:<9} {text}"));
    line("talk", talk(agent, plan.copies));
    line("files", files_line(branch, plan.worktree));
    if let Some(prompt) = prompt {
        line("prompt", prompt.to_owned());
    }
    say_plan(context, &lines);
}

/// A session that can be left: one agent's, whole, and no list.
pub(crate) fn open(context: &Context, found: &Found, done: &str) -> Result<Session, CommandError> {
    let session = found.open(&context.home)?;
    crate::commands::crew::check_single(found, &session)?;
    check_whole(&session)?;
    check_no_list(&session, done)?;
    Ok(session)
}

/// The step that a word means, where it is the name of a fork; else the word.
pub(crate) fn step_word(
    context: &Context,
    session: &Session,
    word: Option<&str>,
) -> Result<Option<String>, CommandError> {
    let Some(word) = word else { return Ok(None) };
    let index = graph::step_of_fork(&context.home, session, word).map_err(view_error)?;
    Ok(Some(index.map_or_else(|| word.to_owned(), |index| index.to_string())))
}

/// A fork that waits for somebody to be asked.
fn made(context: &Context, source: &Run, branch: Branch, with: With) -> CommandResult {
    let made = source
        .fork_with(branch, with)
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

fn files_line(branch: &Branch, worktree: bool) -> String {
    let place = if worktree { "a worktree of its own" } else { "the same directory" };
    format!("{place}, {}", files_are(branch, worktree))
}

/// What the files are that somebody begins with who leaves a session at a step.
pub(crate) fn files_are(branch: &Branch, worktree: bool) -> String {
    match &branch.files {
        Files::Unknown { why } if worktree => format!("files as last committed: {why}"),
        Files::Unknown { why } => format!("files as they are: {why}"),
        _ if !worktree && branch.tip => "files as they are".to_owned(),
        _ if !worktree => "files as they are: there can be no worktree".to_owned(),
        Files::At { .. } => "as after that step".to_owned(),
        Files::Before { turn: 0, .. } => "as before turn 1".to_owned(),
        Files::Before { turn, .. } => format!("as after turn {turn}"),
    }
}

fn plan_json(found: &Found, plan: &Plan, agent: &str) -> serde_json::Value {
    let Plan { branch, worktree, copies, .. } = plan;
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
        BranchError::Repository { .. } => CommandError::failed(error.to_string()),
        BranchError::Unreadable(_) => {
            CommandError::failed(error.to_string()).hint(format!("segue verify {selector}"))
        }
    }
}
