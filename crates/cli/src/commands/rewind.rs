//! `segue rewind`: back to the end of an earlier turn, with the files and the conversation.

use segue_core::{Exit, event::Reason, event::RewindStarted};
use segue_loops::{
    keep::Keeper,
    launch,
    rewind::{self, Plan, RewindError, Scope},
};
use segue_runner::{Interrupt, supervisor::stop};
use segue_view::{select::Found, style};
use serde_json::json;

use crate::{
    commands::{
        caps::CapFlags,
        go_on::{
            Back, Request, Where, check_no_list, check_resumable, check_whole, go_on, say_mended,
            say_plan,
        },
        place,
        run::{Manner, surroundings},
    },
    context::{Context, say},
    error::{CommandError, CommandResult},
    observe::Watcher,
};

/// How many files a plan names.
const MOST_NAMED: usize = 6;

/// Go back to the end of an earlier turn
///
/// Brings back the files and the conversation, after a checkpoint of what is there now: `--undo`
/// takes it back. With a PROMPT the session goes on from there at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue rewind 7 --turn 8 \"Try it without the cache\"
  segue rewind 7 --turn 8                 and say later what to do instead
  segue rewind 7 --turn 8 --dry-run       only the plan
  segue rewind 7 --turn 0                 to the very start
  segue rewind 7 --undo                   take the last rewind back")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: String,
    /// What to do instead
    prompt: Option<String>,
    /// The turn whose end is gone back to; 0 is the start
    #[arg(long, value_name = "N", required_unless_present_any = ["undo", "step"])]
    turn: Option<u32>,
    /// Just after this step: the end of its turn where it was the last, else of the turn before
    #[arg(long, value_name = "ID", conflicts_with = "turn")]
    step: Option<String>,
    /// Take the last rewind back
    #[arg(long, conflicts_with_all = ["turn", "step", "prompt", "files_only", "conversation_only"])]
    undo: bool,
    /// Only the files
    #[arg(long, conflicts_with = "conversation_only")]
    files_only: bool,
    /// Only the conversation
    #[arg(long)]
    conversation_only: bool,
    /// Print the plan and stop
    #[arg(long)]
    dry_run: bool,
    /// Who goes on, where that is somebody else
    #[arg(long, value_name = "AGENT", requires = "prompt")]
    with: Option<String>,
    #[command(flatten)]
    caps: CapFlags,
}

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    let found = context.find(Some(&args.session))?;
    let scope = Scope { files: !args.conversation_only, conversation: !args.files_only };
    let to = match (&args.step, args.turn) {
        (Some(step), _) => Where::Step(step.clone()),
        (None, turn) => Where::Turn(turn.unwrap_or_default()),
    };
    if args.prompt.is_some() {
        let back = Back { to, scope };
        let request = Request {
            prompt: args.prompt,
            with: args.with,
            rewind: Some(back),
            dry_run: args.dry_run,
            caps: args.caps.caps(),
            // The files go where the checkpoint says.
            files: place::Wish::Keep,
            now: true,
            ..Request::default()
        };
        return go_on(context, &found, request);
    }
    stand_still(context, &found, &args, to, scope)
}

/// Goes back without anybody to go on from there.
fn stand_still(
    context: &Context,
    found: &Found,
    args: &Args,
    to: Where,
    scope: Scope,
) -> CommandResult {
    let selector = found.selector();
    let mut session = found.open(&context.home)?;
    crate::commands::crew::check_single(found, &session)?;
    check_whole(&session)?;
    check_resumable(&session, &found.selector())?;
    check_no_list(&session, "rewound")?;
    if let Some(holder) = session.held_by()? {
        let error = segue_journal::Error::Busy { dir: found.dir.clone(), holder };
        return Err(CommandError::from(error).about(&selector));
    }
    let config = context.config()?;
    let place = place::find(context, &session, None)?;
    if args.undo && !args.dry_run && session.state().rewind.under_way.is_some() {
        finish(context, session, found.number, &place.dir)?;
        session = found.open(&context.home)?;
    }
    let keeper = Keeper::new(&session, &place.dir, config.checkpoints());
    let plan = match to {
        _ if args.undo => rewind::plan_undo(&session, &keeper),
        Where::Turn(turn) => rewind::plan(&session, &keeper, turn, scope),
        Where::Step(step) => rewind::turn_of_step(&session, &step)
            .and_then(|turn| rewind::plan(&session, &keeper, turn, scope)),
    }
    .map_err(rewind_error)?;
    if args.dry_run && context.json {
        context.print_json(&plan_json(&selector, &plan))?;
        return Ok(Exit::Done);
    }
    if !context.json {
        let verb = if args.undo { "undo the rewind of" } else { "rewind" };
        let mut lines = vec![format!("⟲ {verb} #{selector}")];
        let notes = rewind_lines(&plan);
        lines.extend(notes.iter().map(|(label, text)| format!("  {label:<9} {text}")));
        say_plan(context, &lines);
    }
    if args.dry_run {
        return Ok(Exit::Done);
    }
    let done = plan_json(&selector, &plan);
    let turn = plan.started.to_turn;
    perform(context, session, found.number, place.dir.as_path(), plan.started)?;
    if context.json {
        context.print_json(&done)?;
    } else {
        say(&format!("✓ session {selector} is back at the end of turn {turn}"));
        say(&format!("  take it back: segue rewind {selector} --undo"));
        let what = if args.undo { "what to do next" } else { "what to do instead" };
        say(&format!("segue resume {selector} \"{what}\""));
    }
    Ok(Exit::Done)
}

/// One that was cut short is brought to its end before it is taken back.
fn finish(
    context: &Context,
    session: segue_journal::Session,
    number: Option<u64>,
    dir: &std::path::Path,
) -> Result<(), CommandError> {
    let config = context.config()?;
    let mut watcher = Watcher::quiet(context);
    let manner = Manner { number, ..Manner::default() };
    let around = surroundings(context, &config, &mut watcher, Interrupt::install()?, manner);
    Ok(launch::finish_rewind(session, dir, around, say_mended)?)
}

fn perform(
    context: &Context,
    session: segue_journal::Session,
    number: Option<u64>,
    dir: &std::path::Path,
    started: RewindStarted,
) -> Result<(), CommandError> {
    let config = context.config()?;
    let interrupt = Interrupt::install()?;
    let mut watcher = Watcher::quiet(context);
    let manner = Manner { number, ..Manner::default() };
    let around = surroundings(context, &config, &mut watcher, interrupt, manner);
    let turn = started.to_turn;
    let undone = match started.undo {
        true => rewind::completed_before(&session).map_err(rewind_error)?,
        false => None,
    };
    let waits = match (undone, started.undo) {
        (Some(done), _) => done,
        (None, true) => stop(Reason::Interrupted, "the rewind was taken back"),
        (None, false) => stop(Reason::Rewound, format!("rewound to the end of turn {turn}")),
    };
    launch::rewind(session, dir, started, waits, around, say_mended)?;
    Ok(())
}

fn plan_json(selector: &str, plan: &Plan) -> serde_json::Value {
    let files = &plan.files;
    json!({
        "session": selector,
        "to_turn": plan.started.to_turn,
        "undo": plan.started.undo,
        "conversation": plan.started.path.is_some(),
        "conversations": plan.conversations,
        "files": plan.started.files.is_some(),
        "added": files.added,
        "modified": files.modified,
        "deleted": files.deleted,
        "modes": files.modes,
        "kept_in": plan.started.safety,
    })
}

/// A rewind, as lines of a plan.
pub(crate) fn rewind_lines(plan: &Plan) -> Vec<(&'static str, String)> {
    let started = &plan.started;
    let mut lines = Vec::new();
    let turn = match started.to_turn {
        0 => "to the start, before turn 1".to_owned(),
        turn => format!("to the end of turn {turn}"),
    };
    lines.push(("rewind", turn));
    if started.files.is_some() {
        let files = &plan.files;
        let parts = [
            (&files.added, "brought back"),
            (&files.modified, "changed back"),
            (&files.deleted, "taken away"),
            (&files.modes, "with other permissions"),
        ];
        let said: Vec<String> = parts
            .iter()
            .filter(|(list, _)| !list.is_empty())
            .map(|(list, how)| {
                let names: Vec<String> =
                    list.iter().take(MOST_NAMED).map(|path| path.display().to_string()).collect();
                let more = list.len().saturating_sub(MOST_NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{how}: {}{more}", style::sanitize(&names.join(", ")))
            })
            .collect();
        let said = if said.is_empty() { vec!["as they are already".to_owned()] } else { said };
        lines.push(("files", said.join("; ")));
        if !files.left.is_empty() {
            let names: Vec<String> =
                files.left.iter().take(MOST_NAMED).map(|path| path.display().to_string()).collect();
            lines.push(("stays", style::sanitize(&names.join(", ")).into_owned()));
        }
        lines.push(("kept", format!("what is there now, in {}", started.safety)));
    } else {
        lines.push(("files", "stay as they are".to_owned()));
    }
    if started.path.is_none() {
        lines.push(("talk", "the conversation stays as it is".to_owned()));
    }
    lines.extend(plan.conversations.iter().map(|words| ("talk", words.clone())));
    lines
}

pub(crate) fn rewind_error(error: RewindError) -> CommandError {
    let message = error.to_string();
    match error {
        RewindError::Journal(error) => error.into(),
        RewindError::LeftBehind { .. } => CommandError::usage(message)
            .hint("take the rewind back first: segue rewind <session> --undo"),
        RewindError::NoFiles { .. } => CommandError::failed(message)
            .hint("the conversation alone can go back: --conversation-only"),
        _ => CommandError::usage(message),
    }
}
