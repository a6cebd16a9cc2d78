//! `segue replay --mode cache`: a new session of the recorded steps. Nobody is called.

use segue::Run;
use segue_core::Exit;
use segue_journal::Session;
use segue_view::select::Found;
use serde_json::json;

use super::{
    Args,
    save::{self, Save},
};
use crate::{
    commands::run::check_free,
    context::{Context, say},
    error::{CommandError, CommandResult},
};

pub(super) fn run(
    context: &Context,
    args: &Args,
    session: Session,
    found: &Found,
) -> CommandResult {
    let selector = found.selector();
    let save = Save::parse(context, args.save.as_deref(), args.force)?;
    check_free(context, save.name())?;
    let run = Run::of(&context.runs()?, session, found.number);
    let made = run
        .replay_as(args.from_step.as_deref(), save.name())
        .map_err(|error| CommandError::from(error).about(&selector))?;
    let number = made.selector();
    let file = save::write(context, &save, &number).map_err(|error| {
        // It is there all the same.
        error.hint(format!("session {number} was made: segue export {number} -o FILE"))
    })?;
    let message = made.stopped().map(|stop| stop.message.as_str()).unwrap_or_default();
    if context.json {
        let lineage = made.lineage();
        context.print_json(&json!({
            "session": made.number(),
            "source": selector,
            "mode": "cache",
            "steps": lineage.and_then(|from| from.base.as_ref()).and_then(|base| base.retained),
            "last": lineage.and_then(|from| from.step.as_ref()),
            "file": file,
        }))?;
    } else {
        say(&format!("✓ session {number}: {message}"));
        if let Some(file) = file {
            say(&format!("  written to {}", file.display()));
        }
        say(&format!("segue log {number} --steps"));
    }
    Ok(Exit::Done)
}
