//! What is wanted of a crew at work: one more, one less, a word, an end.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use segue_core::{Body, Exit, bridge::PERSON, inbox::Control, state::Phase};
use segue_journal::Session;
use segue_loops::{bridge, crew::lives};
use serde_json::json;

use super::{again, ask, attend, begin_watch, called, crew_of, find, put, wait_until};
use crate::{
    config::parse_duration,
    context::{Context, say},
    error::{CommandError, CommandResult},
};

/// End everybody of a crew; all can be brought back
#[derive(Debug, clap::Args)]
pub(crate) struct Down {
    /// A name or a number
    pub(super) crew: Option<String>,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(super) wait: Duration,
}

/// One more of a role, while the crew is at work
#[derive(Debug, clap::Args)]
pub(crate) struct Add {
    /// A name or a number
    crew: String,
    /// An agent of segue.toml
    role: String,
}

/// Take one out of a crew; its session stays
#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// A name or a number
    crew: String,
    member: String,
}

/// End one and start it again, where it was
#[derive(Debug, clap::Args)]
pub(crate) struct Restart {
    /// A name or a number
    crew: String,
    member: String,
    /// In a new conversation, from its first prompt on
    #[arg(long)]
    fresh: bool,
}

/// Break off what one does
#[derive(Debug, clap::Args)]
pub(crate) struct Interrupt {
    /// A name or a number
    crew: String,
    member: String,
}

/// Say something to one, to a group, or to all
///
/// It is typed in as soon as the agent is ready.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue crew send auth coder \"Look at the failing test first\"
  segue crew send auth all \"We release at five\"")]
pub(crate) struct Send {
    /// A name or a number
    crew: String,
    /// A member, a role, a group, or all
    to: String,
    message: String,
}

pub(crate) fn down(context: &Context, args: &Down) -> CommandResult {
    let (found, session) = find(context, args.crew.as_deref())?;
    let name = called(&found, &session);
    let is_up = session.state().phase == Phase::Running;
    if !is_up && !lives(&session, &name, &context.cwd) {
        say(&format!("{name} is down already"));
        return told(context, &found.selector(), &name, false);
    }
    if is_up {
        attend(context, &found, &session)?;
    }
    put(context, &session, Control::Down)?;
    if !is_up {
        // Somebody was left behind, and whoever ends them has to watch over the crew.
        begin_watch(context, &found, &session)?;
    }
    let is_down = |session: &Session| {
        session.state().phase == Phase::Stopped && matches!(session.held_by(), Ok(None))
    };
    if wait_until(context, &found, args.wait, is_down)?.is_none() {
        return Err(CommandError::failed(format!("{name} is still going down"))
            .hint(format!("segue crew status {name}")));
    }
    say(&format!("{name} is down: segue crew up --resume {name}"));
    told(context, &found.selector(), &name, true)
}

fn told(context: &Context, selector: &str, name: &str, was_up: bool) -> CommandResult {
    if context.json {
        context.print_json(&json!({ "session": selector, "name": name, "was_up": was_up }))?;
    }
    Ok(Exit::Done)
}

fn done(context: &Context, what: &str, member: &str) -> CommandResult {
    match context.json {
        true => context.print_json(&json!({ "member": member, "done": what }))?,
        false => say(&format!("{member}: {what}")),
    }
    Ok(Exit::Done)
}

pub(crate) fn add(context: &Context, args: &Add) -> CommandResult {
    let (found, session) = find(context, Some(&args.crew))?;
    let crew = crew_of(&session)?;
    let roster = crew.roster();
    if roster.spec(&args.role).is_none() {
        let roles: Vec<&str> = roster.agents.iter().map(|spec| spec.id.as_str()).collect();
        return Err(CommandError::usage(format!("there is no agent {} in segue.toml", args.role))
            .hint(format!("there are: {}", roles.join(", "))));
    }
    let taken: Vec<String> = crew.members.iter().map(|member| member.name.clone()).collect();
    let member = roster.next_instance(&args.role, &taken);
    let order = Control::Add { member: member.clone(), role: args.role.clone() };
    let joined = |session: &Session| {
        session.state().crew.as_ref().is_some_and(|crew| crew.member(&member).is_some())
    };
    ask(context, &found, order, joined)?;
    done(context, "joined", &member)
}

pub(crate) fn remove(context: &Context, args: &Remove) -> CommandResult {
    let (found, session) = find(context, Some(&args.crew))?;
    let member = member(&session, &args.member)?;
    let order = Control::Remove { member: member.clone() };
    let left = |session: &Session| {
        session.state().crew.as_ref().is_none_or(|crew| crew.member(&member).is_none())
    };
    ask(context, &found, order, left)?;
    done(context, "has left; its session stays", &member)
}

pub(crate) fn restart(context: &Context, args: &Restart) -> CommandResult {
    let (found, session) = find(context, Some(&args.crew))?;
    let member = member(&session, &args.member)?;
    let before = session.state().seq;
    let order = Control::Restart { member: member.clone(), fresh: args.fresh };
    let restarted = |session: &Session| {
        let news = session.newest_first().into_iter().flatten();
        let mut news = news.take_while(|event| event.seq > before);
        news.any(|event| matches!(event.body, Body::MemberRestarted(one) if one.member == member))
    };
    ask(context, &found, order, restarted)?;
    done(context, "started again", &member)
}

pub(crate) fn interrupt(context: &Context, args: &Interrupt) -> CommandResult {
    let (found, session) = find(context, Some(&args.crew))?;
    let member = member(&session, &args.member)?;
    let order = Control::Interrupt { member: member.clone() };
    ask(context, &found, order, |_| true)?;
    done(context, "asked to break off", &member)
}

pub(crate) fn send(context: &Context, args: &Send) -> CommandResult {
    let (found, session) = find(context, Some(&args.crew))?;
    crew_of(&session)?;
    if attend(context, &found, &session)? {
        say(&again(&called(&found, &session)));
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let occasion = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    let to = bridge::send(&session, PERSON, &args.to, &args.message, occasion)
        .map_err(CommandError::usage)?;
    if context.json {
        context.print_json(&json!({ "to": to }))?;
        return Ok(Exit::Done);
    }
    let when = match session.state().phase {
        Phase::Running => "typed in as soon as they are ready",
        _ => "the crew is down: typed in when it is back",
    };
    say(&format!("{}: {when}", to.join(", ")));
    Ok(Exit::Done)
}

fn member(session: &Session, name: &str) -> Result<String, CommandError> {
    let crew = crew_of(session)?;
    match crew.member(name) {
        Some(member) => Ok(member.name.clone()),
        None => {
            let names: Vec<&str> = crew.members.iter().map(|one| one.name.as_str()).collect();
            Err(CommandError::usage(format!("there is no member {name}"))
                .hint(format!("there are: {}", names.join(", "))))
        }
    }
}
