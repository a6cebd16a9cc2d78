//! `segue replay --mode cache --continue`: the native agent runs again from the start, answered from
//! the recording as long as it asks the same, and live from there on.

use segue::{Run, plan::By};
use segue_core::Exit;
use segue_journal::Session;
use segue_view::select::Found;

use super::{
    Args,
    save::{self, Save},
};
use crate::{
    commands::{
        diff,
        go_on::say_plan,
        place,
        run::{Begin, Manner, check_free, check_git, launch_numbered},
        worker::{NATIVE, Wishes, hire},
    },
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
    let config = context.config()?;
    let place = place::find(context, &session, args.dir.as_deref())?;
    check_git(&place.dir)?;
    let run = Run::of(&context.runs()?, session, found.number);
    let wrong = |error: segue::Error| match error {
        segue::Error::Unanswerable { by } => unanswerable(&selector, &by),
        error => CommandError::from(error).about(&selector),
    };
    let mut plan = run.plan_again(args.prompt.as_deref(), place.dir).map_err(wrong)?;
    plan.same_model = args.model.is_some();
    plan.stop_at_drift = args.stop_at_drift;
    say_what(context, args, &selector, plan.files.is_some(), &plan.prompt);
    let model = args.model.as_deref().or_else(|| run.model_of(NATIVE));
    let wishes = Wishes { model, permission: args.permission, fresh: false };
    let (model, worker) = hire(context, &config, NATIVE, wishes)?;
    let by = By {
        agent: NATIVE.to_owned(),
        model,
        permission: args.permission,
        caps: run.state().caps.overridden_by(args.caps.caps()),
        proof: None,
        name: save.name().map(str::to_owned),
    };
    let new = plan.session(&run, by).map_err(wrong)?;
    let (manner, begin) = (Manner::default(), Begin::default());
    let (exit, number) = launch_numbered(context, &config, new, worker, manner, begin)?;
    if let Some(file) = save::write(context, &save, &number.to_string())?
        // Where it has stopped, the last line is the command that goes on.
        && exit == Exit::Done
    {
        say(&format!("  written to {}", file.display()));
    }
    if args.compare {
        diff::between(context, &selector, &number.to_string())?;
    }
    Ok(exit)
}

/// Only what the native agent alone has done can be done again like this.
fn unanswerable(selector: &str, by: &str) -> CommandError {
    let (message, agent) = match by {
        "reviewers" => {
            (format!("session {selector} has reviewers, who can't be answered for"), NATIVE)
        }
        other => (
            format!(
                "session {selector} is by {other}: only the native agent can be answered from a recording"
            ),
            other,
        ),
    };
    CommandError::usage(message)
        .hint(format!("do it again: segue replay {selector} --mode rerun --agent {agent}"))
}

fn say_what(context: &Context, args: &Args, selector: &str, kept: bool, prompt: &str) {
    if context.json {
        return;
    }
    let mut lines = vec![format!("⟳ replay #{selector}, answered from its recording")];
    let mut line = |label: &str, text: String| lines.push(format!("  {label:<9} {text}"));
    line(
        "files",
        match kept {
            true => "a worktree of its own, as before turn 1".to_owned(),
            false => "a worktree of its own, as last committed: the start was not kept".to_owned(),
        },
    );
    line(
        "then",
        match args.stop_at_drift {
            true => "where it leaves the recording, it stops".to_owned(),
            false => "where it leaves the recording, it goes on live".to_owned(),
        },
    );
    line("prompt", prompt.lines().next().unwrap_or_default().to_owned());
    say_plan(context, &lines);
}
