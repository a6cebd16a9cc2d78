//! `segue replay --inspect`, `--dry-run` and `--verify`: looking, and making nothing.

use segue::Run;
use segue_core::Exit;
use segue_journal::Session;
use segue_loops::branch;
use segue_view::{
    select::Found,
    steps::{StepJson, StepList},
};
use serde_json::json;

use super::Args;
use crate::{
    commands::fork::{branch_error, step_word},
    context::{Context, print, say},
    error::{CommandError, CommandResult},
};

/// Prints the steps that a replay would reuse.
pub(super) fn run(
    context: &Context,
    args: &Args,
    session: &Session,
    found: &Found,
) -> CommandResult {
    let selector = found.selector();
    let step = step_word(context, session, args.from_step.as_deref())?;
    let step = step.as_deref();
    // What can't be replayed is said before it is shown.
    let base = branch::base_of(session, step).map_err(|error| branch_error(error, &selector))?;
    let style = context.out();
    let list = StepList::new(&style);
    if !context.json {
        print(&list.head());
    }
    let (mut reused, mut last) = (0, None);
    session.told(|step, mark| {
        if !mark.is_of(&base) {
            return;
        }
        reused += 1;
        last = Some((step.index, step.id));
        let left_behind = !session.state().on_path(mark.turn);
        match context.json {
            true => {
                print(&serde_json::to_string(&StepJson::of(&step, left_behind)).unwrap_or_default())
            }
            false => print(&list.line(&step, left_behind)),
        }
    })?;
    if let (false, Some((index, id))) = (context.json, last) {
        let (steps, id) = (segue_view::style::count(reused, "step"), id.short());
        say(&format!("{steps} up to {index} ({id}): nothing was run, nothing was made"));
    }
    Ok(Exit::Done)
}

/// Derives everything again.
pub(super) fn verify(context: &Context, session: Session, found: &Found) -> CommandResult {
    let selector = found.selector();
    let run = Run::of(&context.runs()?, session, found.number);
    let found = run.verify().map_err(|error| CommandError::from(error).about(&selector))?;
    if context.json {
        context.print_json(&json!({
            "session": selector,
            "reproduces": found.reproduces(),
            "steps": found.steps,
            "last": found.last,
            "source": found.source,
            "damaged": found.damaged,
            "structure": found.structure,
            "accounting": found.accounting,
        }))?;
    }
    if found.reproduces() {
        if !context.json {
            let id = found.last.map(|id| format!(", the last one {}", id.short()));
            let steps = segue_view::style::count(found.steps, "step");
            say(&format!("✓ session {selector}: {steps}{}: as recorded", id.unwrap_or_default()));
        }
        return Ok(Exit::Done);
    }
    if context.json {
        return Ok(Exit::Failed);
    }
    let parts = [
        ("source", &found.source),
        ("structure", &found.structure),
        ("accounts", &found.accounting),
    ];
    for (label, lines) in parts {
        lines.iter().for_each(|line| say(&format!("✗ {label:<9} {line}")));
    }
    let mut error = CommandError::failed(format!("session {selector} is not as it was recorded"));
    if let Some(damaged) = found.damaged {
        // Whatever it begins with is looked at by its own name.
        let other = context.find(Some(&damaged.to_string())).ok();
        let named = other.filter(|_| damaged != run.id()).map(|other| other.selector());
        error = error.hint(format!("segue verify {}", named.as_deref().unwrap_or(&selector)));
    }
    Err(error)
}
