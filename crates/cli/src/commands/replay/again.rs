//! `segue replay --mode cache --continue`: the native agent runs again from the start, answered from
//! the recording as long as it asks the same, and live from there on.

use segue::plan::model_of;
use segue_core::{
    Body, Exit,
    identity::{How, Lineage, LoopKind, Mode, Recording},
};
use segue_journal::{Session, home::NewSession};
use segue_loops::{
    branch::{self, With},
    keep::Keeper,
};
use segue_view::select::Found;

use super::{
    Args,
    save::{self, Save},
};
use crate::{
    commands::{
        diff,
        fork::branch_error,
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
    session: &Session,
    found: &Found,
) -> CommandResult {
    let selector = found.selector();
    check(session, &selector)?;
    // Without a step there is nothing that could answer, and everything would be live.
    branch::base_of(session, None).map_err(|error| branch_error(error, &selector))?;
    let save = Save::parse(context, args.save.as_deref(), args.force)?;
    check_free(context, save.name())?;
    let config = context.config()?;
    let place = place::find(context, session, args.dir.as_deref())?;
    check_git(&place.dir)?;
    let keeper = Keeper::new(session, &place.dir, config.checkpoints());
    let files = branch::before_all(session, &keeper);
    let prompt = prompt(session, args.prompt.as_deref())?;
    say_what(context, args, &selector, files.is_some(), &prompt);
    let state = session.state();
    let model = args.model.as_deref().or_else(|| model_of(state, NATIVE));
    let wishes = Wishes { model, permission: args.permission, fresh: false };
    let (model, worker) = hire(context, &config, NATIVE, wishes)?;
    let unreadable = || CommandError::failed(format!("session {selector} can't be read"));
    let identity = state.identity.as_ref().ok_or_else(unreadable)?;
    let with = With {
        agent: NATIVE.to_owned(),
        model,
        permission: args.permission.unwrap_or_else(|| state.permission()),
        prompt,
        workspace: place.dir,
        worktree: true,
        caps: state.caps.overridden_by(args.caps.caps()),
        name: save.name().map(str::to_owned),
        sealed: false,
        segue: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let recording = Recording {
        same_model: args.model.is_some(),
        stop_at_drift: args.stop_at_drift,
        ..session.recording()
    };
    let lineage = Lineage {
        recording: Some(recording),
        mode: Some(Mode::Continue),
        files,
        ..Lineage::new(session.id(), How::Replayed)
    };
    let new = NewSession { lineage: Some(lineage), ..with.session(identity) };
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
fn check(session: &Session, selector: &str) -> Result<(), CommandError> {
    let state = session.state();
    let first = state.identity.as_ref().map_or("", |identity| identity.agent.as_str());
    let others = state.vendors.iter().map(|known| known.agent.as_str());
    let other = [first, state.agent()].into_iter().chain(others).find(|agent| *agent != NATIVE);
    if let Some(other) = other {
        let message = format!(
            "session {selector} is by {other}: only the native agent can be answered from a recording"
        );
        return Err(CommandError::usage(message)
            .hint(format!("do it again: segue replay {selector} --mode rerun --agent {other}")));
    }
    match state.identity.as_ref().map(|identity| identity.loop_kind) {
        Some(LoopKind::Pair) => {
            let message = format!("session {selector} has reviewers, who can't be answered for");
            Err(CommandError::usage(message).hint(format!(
                "do it again: segue replay {selector} --mode rerun --agent {NATIVE}"
            )))
        }
        _ => Ok(()),
    }
}

/// What is asked first: as it is recorded, unless a person asks something else.
fn prompt(session: &Session, named: Option<&str>) -> Result<String, CommandError> {
    if let Some(prompt) = named {
        return match prompt.trim().is_empty() {
            true => Err(CommandError::usage("the prompt is empty")),
            false => Ok(prompt.to_owned()),
        };
    }
    let mut first = None;
    if let Some(span) = session.state().path().first() {
        session.turn(span.from, |event| {
            if let (Body::TurnStarted(started), None) = (&event.body, &first) {
                first = Some(started.prompt.clone());
            }
            Ok(())
        })?;
    }
    let unreadable = || CommandError::failed("the session can't be read");
    let identity = session.state().identity.as_ref().ok_or_else(unreadable)?;
    Ok(session.text(first.as_ref().unwrap_or(&identity.prompt))?)
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
