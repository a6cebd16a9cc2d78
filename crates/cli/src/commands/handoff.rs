//! `segue handoff`: a packet for whoever goes on, and another agent where one is named.

use segue_core::{
    Exit,
    event::{AgentChanged, ChangeCause},
    inbox::Message,
};
use segue_journal::{Session, inbox};
use segue_loops::launch;
use segue_runner::Interrupt;
use segue_view::{
    select::Found,
    style::{self, Paint},
};
use serde_json::json;

use crate::{
    commands::{
        edited,
        go_on::{check_resumable, check_whole, say_mended},
        place,
        run::{Manner, surroundings},
        worker::{Wishes, hire, known_agent, no_such_agent},
    },
    context::{Context, say},
    error::{CommandError, CommandResult},
    observe::Watcher,
};

/// Write the packet for whoever goes on, or hand a running session to another agent
///
/// Of a session that stands still, also after a crash, the packet (resume.json) is made from what is
/// recorded. A session that runs is asked to hand its work over, or to stop, at the end of its turn.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue handoff 7 --to codex --reason \"wants a second look\"
  segue handoff --session 7 --reason \"recovered from crash\"
  segue handoff                       the latest session of this repository")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: Option<String>,
    /// The same, as a flag
    #[arg(long = "session", value_name = "SESSION", conflicts_with = "session")]
    session_flag: Option<String>,
    /// Who goes on
    #[arg(long, value_name = "AGENT")]
    to: Option<String>,
    /// Which model that agent uses
    #[arg(long, short, value_name = "MODEL", requires = "to")]
    model: Option<String>,
    /// Why, for the packet and for the journal
    #[arg(long, value_name = "TEXT", default_value = "manual")]
    reason: String,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let named = args.session.as_deref().or(args.session_flag.as_deref());
    let found = context.find(named)?;
    let selector = found.selector();
    let session = found.open(&context.home)?;
    crate::commands::crew::check_single(&found, &session)?;
    check_whole(&session)?;
    check_resumable(&session, &found.selector())?;
    let to = match &args.to {
        Some(word) => Some(known_agent(word).ok_or_else(|| no_such_agent(word))?),
        None => None,
    };
    if let Some(to) = &to {
        // Nobody is let go for someone who can't come.
        let config = context.config()?;
        let wishes = Wishes { model: args.model.as_deref(), ..Wishes::default() };
        hire(context, &config, to, wishes)?;
    }
    match session.held_by()? {
        Some(_) => ask(context, &session, &selector, to, args),
        None => make(context, session, &found, to, args),
    }
}

/// The one that runs is told; it acts at the end of its turn.
fn ask(
    context: &Context,
    session: &Session,
    selector: &str,
    to: Option<String>,
    args: &Args,
) -> CommandResult {
    let reason = args.reason.clone();
    let message = match &to {
        Some(to) => Message::HandOff { to: to.clone(), model: args.model.clone(), reason },
        None => Message::Stop { reason },
    };
    let now = context.now().as_millisecond();
    let id = format!("{now:013}-{}", std::process::id());
    inbox::put(&**session.disk(), session.dir(), &id, &message)?;
    let turn = session.state().turn.number;
    if context.json {
        context.print_json(&json!({
            "session": selector, "asked": true, "to": to, "turn": turn, "packet": null,
        }))?;
        return Ok(Exit::Done);
    }
    match to {
        Some(to) => {
            say(&format!("session {selector} runs: {to} goes on at the end of turn {turn}"))
        }
        None => say(&format!("session {selector} runs: it stops at the end of turn {turn}")),
    }
    say(&format!("segue watch {selector}"));
    Ok(Exit::Done)
}

/// The packet is made here and now.
fn make(
    context: &Context,
    session: Session,
    found: &Found,
    to: Option<String>,
    args: &Args,
) -> CommandResult {
    let selector = found.selector();
    // Also where it was edited: what a person wrote is never overwritten.
    if session.edited_packet().map_err(|error| edited::broken(&error))?.is_some() {
        let path = session.dir().join("resume.json");
        return Err(CommandError::usage(format!("{} was edited", path.display()))
            .hint(format!("go on from it: segue resume {selector}"))
            .hint("or remove it, and it is written anew"));
    }
    let config = context.config()?;
    let dir = place::find(context, &session, None).map(|place| place.dir).unwrap_or_default();
    let state = session.state();
    let from = state.agent().to_owned();
    let change = to.clone().filter(|to| *to != from).map(|to| AgentChanged {
        from,
        to,
        model: args.model.clone(),
        cause: ChangeCause::Asked,
        reason: args.reason.clone(),
        passed_over: Vec::new(),
    });
    let (turns, tokens) = (state.last_turn(), state.usage.total());
    let path = session.dir().join("resume.json");
    let interrupt = Interrupt::install()?;
    let mut watcher = Watcher::quiet(context);
    let manner = Manner { number: found.number, ..Manner::default() };
    let around = surroundings(context, &config, &mut watcher, interrupt, manner);
    launch::hand_off(session, &dir, change, &args.reason, around, say_mended)?;
    let next = format!("segue resume {selector}");
    if context.json {
        context.print_json(&json!({
            "session": selector, "asked": false, "to": to, "turn": turns, "packet": path,
            "next": next,
        }))?;
        return Ok(Exit::Done);
    }
    let sign = context.err().paint(Paint::Green, "✓");
    let turns = style::count(turns.into(), "turn");
    say(&format!("{sign} packet written · {turns} · {} tokens", style::tokens(tokens)));
    say(&format!("  {}", path.display()));
    say(&next);
    Ok(Exit::Done)
}
