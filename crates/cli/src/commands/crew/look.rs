//! `segue crew status`, `attach` and `log`: what everybody does.

use std::io::{self, IsTerminal};

use segue_core::{Exit, state::Phase};
use segue_journal::Session;
use segue_loops::crew::{MEMBERS, room};
use segue_runner::tmux::Entered;
use serde_json::json;

use super::{again, attend, called, crew_of, find};
use crate::{
    commands::{attach::tmux_error, log},
    context::{Context, print, say},
    error::{CommandError, CommandResult},
};

/// What each of a crew does, and who waits for a person
///
/// Where nobody watches over a crew that is at work, somebody does again afterwards.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue crew status                 the latest crew of this repository
  segue crew status auth --json | jq '.members[] | {agent_id, state, vendor_session}'")]
pub(crate) struct Status {
    /// A name or a number
    crew: Option<String>,
}

/// Show a crew's terminals
#[derive(Debug, clap::Args)]
pub(crate) struct Attach {
    /// A name or a number
    pub(super) crew: Option<String>,
}

/// What happened in a crew, or what one of its members was told and said
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue crew log auth               who came and went, what was said to whom
  segue crew log auth coder         the coder's own conversation
  segue crew log auth coder --json")]
pub(crate) struct Log {
    /// A name or a number
    crew: Option<String>,
    /// One of its members
    member: Option<String>,
    /// Only the last so many events
    #[arg(long, short = 'n', value_name = "N")]
    last: Option<usize>,
    /// With times, and with the events that only matter to Segue
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) fn status(context: &Context, args: &Status) -> CommandResult {
    let (found, session) = find(context, args.crew.as_deref())?;
    match attend(context, &found, &session) {
        Ok(false) => {}
        Ok(true) => say(&again(&called(&found, &session))),
        // How everybody stood when somebody watched last can be told all the same.
        Err(error) if error.exit == Exit::Failed => {
            say(&format!("nobody watches over {}: {}", called(&found, &session), error.short()));
        }
        Err(error) => return Err(error),
    }
    let session = found.open(&context.home)?;
    if context.json {
        let mut told = segue_view::crew::json(session.state(), session.held_by()?.is_some());
        told["selector"] = json!(found.selector());
        told["dir"] = json!(session.dir());
        context.print_json(&told)?;
        return Ok(Exit::Done);
    }
    table(context, &session)?;
    let letters = segue_view::crew::dead_letters(session.state(), 5, context.now());
    if !letters.is_empty() {
        say("did not arrive:");
        letters.iter().for_each(|letter| say(&format!("  {letter}")));
    }
    if session.state().phase != Phase::Running {
        say(&format!("down; bring it back: segue crew up --resume {}", called(&found, &session)));
    }
    Ok(Exit::Done)
}

pub(super) fn table(context: &Context, session: &Session) -> Result<(), CommandError> {
    crew_of(session)?;
    print(segue_view::crew::table(session.state(), &context.out(), context.now()).trim_end());
    Ok(())
}

pub(crate) fn attach(context: &Context, args: &Attach) -> CommandResult {
    let (found, session) = find(context, args.crew.as_deref())?;
    let name = called(&found, &session);
    if attend(context, &found, &session)? {
        say(&again(&name));
    }
    let crew = crew_of(&session)?;
    if crew.raised.headless {
        return Err(CommandError::usage(format!("{name} works without terminals"))
            .hint(format!("segue crew log {name} MEMBER")));
    }
    let room = room(&session, &name, &context.cwd).map_err(tmux_error)?;
    let Some(there) = room.called().map_err(tmux_error)? else {
        return Err(CommandError::failed(format!("nobody of {name} is at a terminal"))
            .hint(format!("bring it back: segue crew up --resume {name}")));
    };
    let words = room.tmux().attach_words(&there);
    if context.json {
        context.print_json(&json!({ "tmux": { "name": there, "attach": words } }))?;
        return Ok(Exit::Done);
    }
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        match room.tmux().enter(&there).map_err(tmux_error)? {
            Entered::Switched => return Ok(Exit::Done),
            Entered::Left => {
                say(&format!("{name} goes on: segue crew attach {name}"));
                return Ok(Exit::Done);
            }
            Entered::InAnother => say("this terminal is in another server of tmux"),
            Entered::Unseen => say("no terminal shows the session of tmux that this runs in"),
        }
    }
    print(&words);
    Ok(Exit::Done)
}

pub(crate) fn log(context: &Context, args: &Log) -> CommandResult {
    let (found, session) = find(context, args.crew.as_deref())?;
    let dir = match &args.member {
        None => found.dir,
        Some(member) => {
            let dir = session.dir().join(MEMBERS).join(member);
            if !dir.is_dir() {
                let parts = session.parts()?;
                let names = parts.iter().filter_map(|(name, _)| name.split('/').nth(1));
                let names = names.collect::<Vec<_>>().join(", ");
                return Err(CommandError::usage(format!("there is no member {member}"))
                    .hint(format!("there are: {names}")));
            }
            dir
        }
    };
    log::show(context, &dir.display().to_string(), args.last, args.verbose)
}
