//! `segue show`: one session, all that is known of it.

use segue_core::Exit;
use segue_view::{
    json::ShowJson,
    show::{Show, show_text},
};

use crate::{
    context::{Context, print},
    error::CommandResult,
};

/// Show all that is known of a session
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue show                        the latest one of this repository
  segue show 7 --json | jq .usage")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: Option<String>,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let found = context.find(args.session.as_deref())?;
    let show = Show::of(&found.open(&context.home)?, &found);
    if context.json {
        context.print_json(&ShowJson::from(&show))?;
    } else {
        print(show_text(&show, &context.out(), context.now()).trim_end());
    }
    Ok(Exit::Done)
}
