//! `segue replay --mode cache`: a new session of the recorded steps. Nobody is called.

use segue_core::{Exit, event::Reason, identity::How};
use segue_journal::{Durability, Session};
use segue_loops::{
    branch::{self, With},
    keep::Keeper,
    launch,
};
use segue_runner::{Interrupt, supervisor::stop};
use segue_view::{select::Found, style};
use serde_json::json;

use super::{
    Args,
    save::{self, Save},
};
use crate::{
    commands::{
        fork::branch_error,
        place,
        run::{Manner, check_free, surroundings},
    },
    context::{Context, say},
    error::{CommandError, CommandResult},
    observe::Watcher,
};

pub(super) fn run(
    context: &Context,
    args: &Args,
    session: &Session,
    found: &Found,
) -> CommandResult {
    let selector = found.selector();
    let save = Save::parse(context, args.save.as_deref(), args.force)?;
    check_free(context, save.name())?;
    let config = context.config()?;
    let wrong = |error| branch_error(error, &selector);
    let dir = place::find(context, session, None).map(|place| place.dir);
    let dir = dir.unwrap_or_else(|_| context.cwd.clone());
    let keeper = Keeper::new(session, &dir, config.checkpoints());
    let step = args.from_step.as_deref();
    let mut branch = branch::leave(session, &keeper, step, How::Replayed).map_err(wrong)?;
    let (count, id) = (branch.mark.index + 1, branch.mark.id);
    if let Some(base) = &mut branch.lineage.base {
        base.spent = Some(session.spent(count)?);
    }
    let state = session.state();
    let unreadable = || CommandError::failed(format!("session {selector} can't be read"));
    let identity = state.identity.as_ref().ok_or_else(unreadable)?;
    let with = With {
        agent: state.agent().to_owned(),
        model: state.model().map(str::to_owned),
        permission: state.permission(),
        prompt: session.text(&identity.prompt)?,
        workspace: dir,
        worktree: false,
        caps: identity.caps,
        name: save.name().map(str::to_owned),
        sealed: false,
        segue: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let new = branch.session(session, with).map_err(wrong)?;
    let mut watcher = Watcher::quiet(context);
    let around =
        surroundings(context, &config, &mut watcher, Interrupt::install()?, Manner::default());
    let (mut made, number) = launch::create(&context.home, new, &around)?;
    let steps = style::count(count, "step");
    let message =
        format!("replayed {steps} of session {selector}: no model and no tool was called");
    made.append(stop(Reason::Done, message.clone()), Durability::Synced)?;
    drop(made);
    let file = save::write(context, &save, number)?;
    if context.json {
        context.print_json(&json!({
            "session": number,
            "source": selector,
            "mode": "cache",
            "steps": count,
            "last": id,
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
