//! `segue replay --mode rerun`: an agent does the work again, told what was recorded.

use segue_core::{Exit, identity::How};
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
        worker::{Wishes, hire, known_agent, no_such_agent},
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
    let word = args.agent.as_deref().unwrap_or_default();
    let agent = known_agent(word).ok_or_else(|| no_such_agent(word))?;
    let save = Save::parse(context, args.save.as_deref(), args.force)?;
    check_free(context, save.name())?;
    let config = context.config()?;
    let place = place::find(context, session, None)?;
    check_git(&place.dir)?;
    let keeper = Keeper::new(session, &place.dir, config.checkpoints());
    let wrong = |error| branch_error(error, &selector);
    let step = args.from_step.as_deref();
    let branch = branch::leave(session, &keeper, step, How::Replayed).map_err(wrong)?;
    let files = branch::start_of(session, &keeper);
    let prompt = task(session, args.prompt.as_deref())?;
    let mut lines = vec![format!("⟳ rerun #{selector} by {agent}")];
    let mut line = |label: &str, text: String| lines.push(format!("  {label:<9} {text}"));
    let (last, id) = (branch.mark.index, branch.mark.id.short());
    line("context", format!("what is recorded up to step {last} ({id})"));
    line(
        "files",
        match &files {
            Some(_) => "a worktree of its own, as before turn 1".to_owned(),
            None => "a worktree of its own, as last committed: the start was not kept".to_owned(),
        },
    );
    line("prompt", prompt.lines().next().unwrap_or_default().to_owned());
    if !context.json {
        say_plan(context, &lines);
    }
    let state = session.state();
    let same = agent == state.agent();
    let model = args.model.as_deref().or_else(|| state.model().filter(|_| same));
    let wishes = Wishes { model, permission: args.permission, fresh: false };
    let (model, worker) = hire(context, &config, &agent, wishes)?;
    let with = With {
        agent,
        model,
        permission: args.permission.unwrap_or_else(|| state.permission()),
        prompt: format!("{prompt}\n\n{}", branch::FROM_THE_START),
        workspace: place.dir,
        worktree: true,
        caps: config.caps().overridden_by(args.caps.caps()),
        name: save.name().map(str::to_owned),
        sealed: false,
        segue: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let new = branch.session(session, with).map_err(wrong)?;
    let new = NewSession { sealed: false, ..new };
    let begin = Begin { files, ..Begin::default() };
    let (exit, number) = launch_numbered(context, &config, new, worker, Manner::default(), begin)?;
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

/// What is to be done again.
pub(crate) fn task(session: &Session, named: Option<&str>) -> Result<String, CommandError> {
    match named {
        Some(prompt) if prompt.trim().is_empty() => Err(CommandError::usage("the prompt is empty")),
        Some(prompt) => Ok(prompt.to_owned()),
        None => branch::task(session)
            .map_err(|error| branch_error(error, &session.dir().display().to_string())),
    }
}
