//! `segue crew up`: everybody is started, or brought back.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use segue_agents::vendor::World;
use segue_core::{
    Exit,
    crew::Place,
    event::{CrewRaised, Doing},
    identity::LoopKind,
    state::{CrewMember as Member, Phase},
};
use segue_journal::{Durability, Session, home::NewSession};
use segue_loops::crew::{self, room};
use segue_runner::process;
use segue_view::{
    select::{Found, name_taken},
    style::Paint,
};
use serde_json::json;

use super::{
    attend, begin_watch, called, crew_of, look,
    sheet::{self, Sheet},
    wait_until,
};
use crate::{
    commands::{
        attach::check as check_tmux,
        run::{check_commit, check_free, check_git, create_free, repo_of},
    },
    config::parse_duration,
    context::{Context, print, say, view_error},
    error::{CommandError, CommandResult},
};

/// Start everybody of segue.toml, or bring a crew back
///
/// Each is a session of its own under the crew's name. What each is told first is said as soon as it
/// is ready, and not again when the crew is brought back.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:
  segue crew up                     under the name in segue.toml, or that of the directory
  segue crew up --session auth
  segue crew up --session auth --worktree --branch auth
  segue crew up --headless          without tmux: every message is a turn
  segue crew up --resume auth       everybody back, each in its own conversation
  segue crew up --resume auth --dry-run")]
pub(crate) struct Args {
    /// What the crew is called from now on
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    session: Option<String>,
    /// Bring this crew back: a name or a number
    #[arg(long, value_name = "NAME")]
    resume: Option<String>,
    /// A worktree and a branch of its own for everybody
    #[arg(long, conflicts_with = "resume")]
    worktree: bool,
    /// What the branches begin with: BRANCH/coder
    #[arg(long, value_name = "BRANCH", requires = "worktree")]
    branch: Option<String>,
    /// Without terminals: every message is a turn of its own
    #[arg(long, conflicts_with = "resume")]
    headless: bool,
    /// Another file than the nearest segue.toml
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// How long to wait until everybody is ready; 0s for not at all
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    wait: Duration,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    if let Some(selector) = &args.resume {
        let (found, session) = super::find(context, Some(selector))?;
        return resume(context, &found, session, args);
    }
    let sheet = sheet::read(context, args.file.as_deref())?;
    let given = args.session.clone().or_else(|| sheet.roster.name.clone());
    let dir = sheet.project.file_name().unwrap_or_default().to_string_lossy();
    let wanted = given.clone().unwrap_or_else(|| segue_runner::tmux::plain_name(&dir));
    let mut name = wanted.clone();
    for number in 2.. {
        let Some((found, session)) = called_so(context, &name)? else { break };
        if is_of(&session, &sheet.project) {
            return there_already(context, args, &found, &name);
        }
        if given.is_some() {
            return Err(of_another(context, &session, &name)?);
        }
        // Directories of one name have crews of different names.
        name = format!("{wanted}-{number}");
    }
    begin(context, args, sheet, name)
}

/// Who has this name.
fn called_so(context: &Context, name: &str) -> Result<Option<(Found, Session)>, CommandError> {
    let mut index = context.index()?;
    let Some(row) = name_taken(&mut index, name).map_err(view_error)? else { return Ok(None) };
    let found = context.find(Some(&row.selector()))?;
    let session = found.open(&context.home)?;
    // Whoever was to begin it died before anybody was in it.
    let nobody = super::is_crew(&session) && session.state().crew.is_none();
    match found.at.as_ref().filter(|_| nobody) {
        Some(at) => {
            context.home.remove(at, &context.me())?;
            Ok(None)
        }
        None => Ok(Some((found, session))),
    }
}

/// Whether a crew is that of a project, which may have been moved since.
fn is_of(session: &Session, project: &Path) -> bool {
    let Some(crew) = &session.state().crew else { return false };
    let same_repo = || {
        let repo = session.state().identity.as_ref().map(|found| found.repo.id.as_str());
        repo_of(project).is_ok_and(|here| Some(here.id.as_str()) == repo)
    };
    let before = &crew.raised.project;
    before == project || (!before.exists() && same_repo())
}

/// A name that somebody wished for, and that belongs to other work.
fn of_another(
    context: &Context,
    session: &Session,
    name: &str,
) -> Result<CommandError, CommandError> {
    let Some(crew) = &session.state().crew else {
        check_free(context, Some(name))?;
        return Ok(CommandError::usage(format!("{name} is no crew")));
    };
    let project = crew.raised.project.display();
    Ok(CommandError::usage(format!("there is a crew {name} already, in {project}"))
        .hint("begin one here: segue crew up --session NAME")
        .hint(format!("bring that one back here: segue crew up --resume {name} --file segue.toml")))
}

/// A crew of that name at work is left at work; one that was taken down is not begun anew unasked.
fn there_already(context: &Context, args: &Args, found: &Found, name: &str) -> CommandResult {
    let session = found.open(&context.home)?;
    if session.state().phase != Phase::Running {
        return Err(CommandError::usage(format!("there is a crew {name} already, and it is down"))
            .hint(format!("bring it back: segue crew up --resume {name}"))
            .hint("begin another one: segue crew up --session NAME"));
    }
    if args.dry_run {
        let raised = crew_of(&session)?.raised.clone();
        return plan(context, &session, name, &raised, true).map(|()| Exit::Done);
    }
    match attend(context, found, &session)? {
        true => say(&super::again(name)),
        false => say(&format!("{name} is at work already")),
    }
    ready(context, found, args.wait)
}

fn begin(context: &Context, args: &Args, sheet: Sheet, name: String) -> CommandResult {
    check_free(context, Some(&name))?;
    sheet::check_agents(context, &sheet)?;
    let Sheet { roster, project, file, .. } = sheet;
    if roster.agents.iter().any(|spec| spec.enforce) {
        check_commit(&project, "what is written out of bounds could not be undone")?;
    }
    if !args.headless {
        check_tmux(context)?;
    }
    if args.worktree || roster.agents.iter().any(|spec| spec.worktree) {
        check_git(&project)?;
    }
    if args.dry_run {
        let new = |place: Place| (place.member, "new".to_owned());
        let ways: Vec<_> = roster.places().into_iter().map(new).collect();
        return tell(context, &name, &ways, true).map(|()| Exit::Done);
    }
    let count = roster.places().len();
    let new = NewSession {
        loop_kind: LoopKind::Crew,
        name: Some(name.clone()),
        ..NewSession::new(
            repo_of(&project)?,
            project.clone(),
            segue_loops::crew::CREW.to_owned(),
            format!("{name}: a crew of {count}"),
        )
    };
    let (headless, worktrees) = (args.headless, args.worktree);
    let branch = args.branch.clone();
    let home = Some(context.home.dir().to_owned());
    let tmux = (!headless).then(segue_runner::tmux::here);
    let raised = CrewRaised { roster, project, file, home, headless, tmux, worktrees, branch };
    let number = create_free(context, Some(&name), || {
        let (mut session, number) = context.home.create(new, &context.me(), &context.clock)?;
        session.append(raised, Durability::Synced)?;
        Ok(number)
    })?;
    let found = context.find(Some(&number.to_string()))?;
    let session = found.open(&context.home)?;
    begin_watch(context, &found, &session)?;
    say(&format!("crew {name}: #{number}"));
    ready(context, &found, args.wait)
}

/// Brings a crew back: whoever is still there is adopted, all others go on where they were.
pub(crate) fn resume(
    context: &Context,
    found: &Found,
    session: Session,
    args: &Args,
) -> CommandResult {
    let name = called(found, &session);
    if session.held_by()?.is_some() {
        say(&format!("{name} is at work already"));
        let wait = if args.dry_run { Duration::ZERO } else { args.wait };
        return ready(context, found, wait);
    }
    let raised = raised_again(context, &session, &name, args.file.as_deref())?;
    if !raised.headless {
        check_tmux(context)?;
    }
    plan(context, &session, &name, &raised, args.dry_run)?;
    if args.dry_run {
        return Ok(Exit::Done);
    }
    let (mut locked, _) = session.lock(&context.me(), context.clock.clone())?;
    locked.append(raised, Durability::Synced)?;
    drop(locked);
    let session = found.open(&context.home)?;
    begin_watch(context, found, &session)?;
    ready(context, found, args.wait)
}

/// `segue resume NAME` is the same.
pub(crate) fn go_on(context: &Context, found: &Found, dry_run: bool) -> CommandResult {
    let session = found.open(&context.home)?;
    let args = Args { dry_run, wait: Duration::from_secs(60), ..Args::default() };
    resume(context, found, session, &args)
}

/// The roster as it is now, where it can be read; else as it was.
fn raised_again(
    context: &Context,
    session: &Session,
    name: &str,
    file: Option<&Path>,
) -> Result<CrewRaised, CommandError> {
    let mut before = crew_of(session)?.raised.clone();
    if !before.headless {
        before.tmux = Some(crew::server(session, name, &context.cwd));
    }
    let known = before.file.as_deref().unwrap_or(segue_core::crew::FILE);
    let path = file.map_or_else(|| before.project.join(known), |file| file.into());
    if file.is_none() && !path.is_file() {
        say(&format!("note: {} is gone: everybody as they were", path.display()));
        return Ok(before);
    }
    let sheet = sheet::read(context, Some(&path))?;
    sheet::check_agents(context, &sheet)?;
    let Sheet { roster, project, file, .. } = sheet;
    let home = Some(context.home.dir().to_owned());
    Ok(CrewRaised { roster, project, file, home, ..before })
}

/// Says how everybody would come back.
fn plan(
    context: &Context,
    session: &Session,
    name: &str,
    raised: &CrewRaised,
    only: bool,
) -> Result<(), CommandError> {
    crew_of(session)?;
    let room = match raised.headless {
        true => None,
        false => room(session, name, &context.cwd).ok(),
    };
    let ways = crew::plan(session, raised, room.as_ref(), &World::here());
    if !(only && context.json) {
        let look = context.err();
        say(&look.paint(Paint::Dim, &format!("↻ resume {name}")));
    }
    tell(context, name, &ways, only)
}

/// Each member and how it comes. `only`: this is all that was asked for.
fn tell(
    context: &Context,
    name: &str,
    ways: &[(String, String)],
    only: bool,
) -> Result<(), CommandError> {
    if only && context.json {
        let member = |(member, how): &(String, String)| json!({ "member": member, "how": how });
        let plan: Vec<_> = ways.iter().map(member).collect();
        context.print_json(&json!({ "name": name, "plan": plan }))?;
        return Ok(());
    }
    let look = context.err();
    for (member, how) in ways {
        say(&look.paint(Paint::Dim, &format!("  {member}  {how}")));
    }
    Ok(())
}

/// Whether nobody has noticed yet that its program is not there any more.
fn is_gone(member: &Member) -> bool {
    let process = member.pid.zip(member.began).filter(|_| member.doing != Doing::Degraded);
    process.is_some_and(|(pid, began)| !process::is_there(pid, began))
}

/// Waits until everybody is there, and shows how they stand.
fn ready(context: &Context, found: &Found, wait: Duration) -> CommandResult {
    let settled = |session: &Session| {
        session.state().phase != Phase::Running
            || session.state().crew.as_ref().is_some_and(|crew| {
                !crew.members.is_empty()
                    && crew.members.len() >= crew.roster().places().len()
                    && crew.members.iter().all(|member| {
                        let up = !matches!(member.doing, Doing::Starting | Doing::Down);
                        !member.starting && up && !is_gone(member)
                    })
            })
    };
    let whole = wait_until(context, found, wait, settled)?.is_some();
    let session = found.open(&context.home)?;
    let name = called(found, &session);
    if let (Phase::Stopped, Some(stop)) = (session.state().phase, &session.state().stop) {
        return Err(CommandError::failed(format!("{name} could not be raised: {}", stop.message))
            .hint(format!("once that is mended: segue crew up --resume {name}")));
    }
    if context.json {
        let alive = session.held_by()?.is_some();
        let mut told = segue_view::crew::json(session.state(), alive);
        told["selector"] = json!(found.selector());
        told["dir"] = json!(session.dir());
        context.print_json(&told)?;
        return Ok(Exit::Done);
    }
    look::table(context, &session)?;
    if !whole && !wait.is_zero() {
        let crew = crew_of(&session)?;
        let late = |member: &&Member| matches!(member.doing, Doing::Starting | Doing::Down);
        let late = crew.members.iter().filter(late).map(|member| member.name.clone());
        // Whoever could not even join.
        let places = crew.roster().places().into_iter().map(|place| place.member);
        let missing = places.filter(|name| crew.member(name).is_none());
        let late: Vec<String> = late.chain(missing).collect();
        say(&format!("not ready yet: {} (segue crew status {name})", late.join(", ")));
    }
    let headless = session.state().crew.as_ref().is_some_and(|crew| crew.raised.headless);
    print(&match headless {
        true => format!("segue crew status {name}"),
        false => format!("segue crew attach {name}"),
    });
    Ok(Exit::Done)
}
