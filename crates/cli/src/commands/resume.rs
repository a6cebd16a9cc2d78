//! `segue resume`: go on at exactly the point where a session stopped.

use std::{path::PathBuf, time::Duration};

use segue_core::{Exit, Permission, State, decide, event::Reason, state::Phase};
use segue_journal::session::Mended;
use segue_loops::launch::{self, Resume};
use segue_runner::Interrupt;
use segue_view::{plan, style::Paint};

use crate::{
    commands::{
        run::{CapFlags, surroundings, workspace},
        worker::{Wishes, hire, terms},
    },
    context::{Context, say},
    error::{CommandError, CommandResult},
    observe::{Watcher, conclude},
};

/// How wide the labels of a plan are, with the blanks around them.
const PLAN_LABEL: usize = 12;

/// How often a wait looks at the clock, and whether it was asked to end.
const LOOK: Duration = Duration::from_millis(100);

/// Go on where a session stopped
///
/// Prints its plan first. Without a SESSION, the latest of this repository that has something left
/// to do.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue resume                      the latest one of this repository
  segue resume 7                    by its number, from any directory
  segue resume refactor \"Now the tests\"
  segue resume 7 --dry-run          only the plan
  segue resume 7 --wait             after a limit, as soon as it has reset")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: Option<String>,
    /// What to do next; without it, the session goes on where it was
    prompt: Option<String>,
    /// The same, where no SESSION is named
    #[arg(long = "prompt", value_name = "PROMPT", conflicts_with = "prompt")]
    prompt_flag: Option<String>,
    /// Print the plan and stop
    #[arg(long)]
    dry_run: bool,
    /// Where a limit has not reset yet, wait until it has
    #[arg(long)]
    wait: bool,
    /// Another model for the agent
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// What the agent may do from now on: read-only, edit or full
    #[arg(long, value_name = "WHAT")]
    permission: Option<Permission>,
    /// Go on in a new conversation of the vendor's, with a packet of what was done
    #[arg(long)]
    fresh: bool,
    /// The workspace's new place, if it has moved
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    caps: CapFlags,
}

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    let prompt = args.prompt.or(args.prompt_flag);
    let latest = args.session.as_deref().is_none_or(|text| text == "@latest");
    let found = match &args.session {
        // With something new to do, a completed session will do as well.
        _ if latest && prompt.is_some() => context.find(None)?,
        Some(text) => context.find_resumable(Some(text)).map_err(|error| unquote(error, text))?,
        None => context.find_resumable(None)?,
    };
    let selector = found.selector();
    let about = |error: CommandError| error.about(&selector);
    let session = found.open(&context.home)?;
    if let Some(holder) = session.taken_by()? {
        let error = segue_journal::Error::Busy { dir: found.dir, holder };
        return Err(about(error.into()));
    }
    let state = session.state();
    if state.phase == Phase::Stopped && !decide::is_resumable(state) && prompt.is_none() {
        if context.json {
            context
                .print_json(&serde_json::json!({ "session": selector, "nothing_to_do": true }))?;
        } else {
            say(&format!("session {selector} is completed: nothing to do"));
            say(&format!("ask for more: segue resume {selector} \"…\""));
        }
        return Ok(Exit::Done);
    }
    let moved = args.dir.as_deref().map(|dir| workspace(&context.cwd, Some(dir))).transpose()?;
    let caps = args.caps.caps();
    // The old conversation would be too long again.
    let full = state.stop.as_ref().is_some_and(|stop| stop.reason == Reason::ContextExhausted);
    let fresh = args.fresh || full && !state.vendors.is_empty();
    let agent = state.identity.as_ref().map_or_else(String::new, |found| found.agent.clone());
    let permission = terms(&agent, args.permission.unwrap_or_else(|| state.permission()));
    let plan = plan::resume(
        &session,
        &plan::Going {
            selector: &selector,
            prompt: prompt.as_deref(),
            model: args.model.as_deref(),
            workspace: moved.as_deref(),
            permission: permission.as_deref(),
            fresh,
            caps: state.caps.overridden_by(caps),
            now: context.now(),
        },
    );
    if args.dry_run && context.json {
        context.print_json(&plan)?;
        return Ok(Exit::Done);
    }
    if args.dry_run || !context.json {
        say_plan(context, &plan.lines);
    }
    if args.dry_run {
        return Ok(Exit::Done);
    }
    let interrupt = Interrupt::install()?;
    if args.wait
        && let Some(signal) = wait_for_reset(context, state, &interrupt)
    {
        say(&format!("segue resume {selector} --wait"));
        return Ok(Exit::Interrupted(signal));
    }
    let config = context.config()?;
    let state = session.state();
    let wishes = Wishes {
        model: args.model.as_deref().or(state.model()),
        permission: args.permission,
        fresh,
    };
    let (model, worker) = hire(context, &config, &agent, wishes)?;
    let how = Resume {
        prompt,
        caps,
        model: model.filter(|_| args.model.is_some()),
        workspace: moved,
        permission: args.permission,
        plan: plan.lines,
    };
    let dir = session.dir().to_owned();
    let mut watcher = Watcher::new(context);
    watcher.looks_at(&dir);
    let around = surroundings(context, &mut watcher, interrupt);
    let stop = launch::resume(session, how, worker, around, say_mended)
        .map_err(|error| about(error.into()))?;
    conclude(context, watcher, &selector, &dir, &stop)
}

/// A prompt alone is taken for a session: its blanks tell.
fn unquote(error: CommandError, text: &str) -> CommandError {
    match text.contains(char::is_whitespace) {
        true => {
            error.hint(format!("a prompt for the latest session: segue resume --prompt \"{text}\""))
        }
        false => error,
    }
}

/// Waits until the limit that stopped the session has reset. Returns the signal that came first.
fn wait_for_reset(context: &Context, state: &State, interrupt: &Interrupt) -> Option<u8> {
    let stop = state.stop.as_ref()?;
    if stop.reason == Reason::Limit && stop.resets_at.is_none() {
        say("  waiting   not at all: it was not told when the limit resets");
    }
    let at = stop.resets_at?;
    if at > context.now() {
        say(&format!("  waiting   until the limit resets, {}", context.err().date_and_time(at)));
    }
    while at > context.now() {
        if let Some(signal) = interrupt.signal() {
            return Some(signal);
        }
        std::thread::sleep(LOOK);
    }
    None
}

/// The headline stands out, the labels stand back.
fn say_plan(context: &Context, lines: &[String]) {
    let look = context.err();
    for (n, line) in lines.iter().enumerate() {
        match line.split_at_checked(PLAN_LABEL) {
            _ if n == 0 => say(&look.paint(Paint::Bold, line)),
            Some((label, text)) => say(&format!("{}{text}", look.paint(Paint::Dim, label))),
            None => say(line),
        }
    }
}

fn say_mended(mended: &[Mended]) {
    for what in mended {
        say(&match what {
            Mended::TornTail { bytes, kept_in } => format!(
                "  mended    {bytes} bytes of an unfinished write were set aside in {kept_in}"
            ),
            Mended::Identity => {
                "  mended    session.json was broken: written again from the journal".to_owned()
            }
        });
    }
}
