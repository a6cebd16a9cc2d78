//! `segue replay --mode rerun`: an agent does the work again, told what was recorded.

use segue::{
    Run,
    plan::{By, Plan},
};
use segue_core::Exit;
use segue_journal::Session;
use segue_loops::branch;
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
    session: Session,
    found: &Found,
) -> CommandResult {
    let selector = found.selector();
    let word = args.agent.as_deref().unwrap_or_default();
    let agent = known_agent(word).ok_or_else(|| no_such_agent(word))?;
    let save = Save::parse(context, args.save.as_deref(), args.force)?;
    check_free(context, save.name())?;
    let config = context.config()?;
    let place = place::find(context, &session, args.dir.as_deref())?;
    check_git(&place.dir)?;
    let wrong = |error: segue::Error| CommandError::from(error).about(&selector);
    let run = Run::of(&context.runs()?, session, found.number);
    let step = args.from_step.as_deref();
    let plan = run.plan_rerun(step, args.prompt.as_deref(), place.dir).map_err(wrong)?;
    if !context.json {
        say_what(context, &plan, &selector, &agent);
    }
    let model = args.model.as_deref().or_else(|| run.model_of(&agent));
    let wishes = Wishes { model, permission: args.permission, fresh: false };
    let (model, worker) = hire(context, &config, &agent, wishes)?;
    let by = By {
        agent,
        model,
        permission: args.permission,
        caps: config.caps().overridden_by(args.caps.caps()),
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

fn say_what(context: &Context, plan: &Plan, selector: &str, agent: &str) {
    let mut lines = vec![format!("⟳ rerun #{selector} by {agent}")];
    let mut line = |label: &str, text: String| lines.push(format!("  {label:<9} {text}"));
    let (last, id) = (plan.branch.mark.index, plan.branch.mark.id.short());
    line("context", format!("what is recorded up to step {last} ({id})"));
    line(
        "files",
        match plan.files() {
            Some(_) => "a worktree of its own, as before turn 1".to_owned(),
            None => "a worktree of its own, as last committed: the start was not kept".to_owned(),
        },
    );
    line("prompt", plan.prompt.lines().next().unwrap_or_default().to_owned());
    say_plan(context, &lines);
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
