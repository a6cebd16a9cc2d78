//! `segue crew`: several agents under one name. What each subcommand does is in its own file.

mod change;
mod init;
mod look;
mod sheet;
pub(crate) mod up;
mod watch;

use std::{
    thread,
    time::{Duration, Instant},
};

use segue_core::{
    Body, Exit,
    identity::LoopKind,
    inbox::{Control, Message},
    state::{Crew, Phase},
};
use segue_journal::Session;
use segue_view::{index::Filter, select::Found};

use crate::{
    background,
    context::{Context, say, view_error},
    error::{CommandError, CommandResult},
};

/// Several agents under one name, each at a terminal of its own
///
/// Who is in a crew stands in the repository's segue.toml. The agents work in tmux, and go on when
/// this terminal is closed; a process in the background watches over them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue crew init                   a segue.toml with explanations, and prompts
  segue crew up --session auth      start everybody, under a name
  segue crew status auth            what each does, and who waits for you
  segue crew attach auth            see them work; leave with Ctrl-B D
  segue crew send auth coder \"Look at the failing test first\"
  segue crew down auth              end them
  segue crew up --resume auth       everybody back, with all that they knew")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Init(init::Args),
    Check(init::Check),
    Up(up::Args),
    Down(change::Down),
    Status(look::Status),
    Attach(look::Attach),
    Log(look::Log),
    Add(change::Add),
    Remove(change::Remove),
    Restart(change::Restart),
    Interrupt(change::Interrupt),
    Send(change::Send),
    #[command(hide = true)]
    Watch(watch::Args),
}

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    match args.action {
        Action::Init(args) => init::run(context, &args),
        Action::Check(args) => init::check(context, &args),
        Action::Up(args) => up::run(context, &args),
        Action::Down(args) => change::down(context, &args),
        Action::Status(args) => look::status(context, &args),
        Action::Attach(args) => look::attach(context, &args),
        Action::Log(args) => look::log(context, &args),
        Action::Add(args) => change::add(context, &args),
        Action::Remove(args) => change::remove(context, &args),
        Action::Restart(args) => change::restart(context, &args),
        Action::Interrupt(args) => change::interrupt(context, &args),
        Action::Send(args) => change::send(context, &args),
        Action::Watch(args) => watch::run(context, &args),
    }
}

pub(crate) use self::{change::down as take_down, look::attach as show};

impl change::Down {
    pub(crate) fn of(selector: String, wait: Duration) -> Self {
        Self { crew: Some(selector), wait }
    }
}

impl look::Attach {
    pub(crate) fn of(selector: String) -> Self {
        Self { crew: Some(selector) }
    }
}

pub(crate) type Down = change::Down;
pub(crate) type Attach = look::Attach;

const LOOK: Duration = Duration::from_millis(50);

/// How long the one who watches may take to do what it was asked.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether a session is a crew.
pub(crate) fn is_crew(session: &Session) -> bool {
    let identity = session.state().identity.as_ref();
    identity.is_some_and(|found| found.loop_kind == LoopKind::Crew)
}

/// Refuses what makes sense for a single conversation only.
pub(crate) fn check_single(found: &Found, session: &Session) -> Result<(), CommandError> {
    if !is_crew(session) {
        return Ok(());
    }
    let selector = found.selector();
    Err(CommandError::usage(format!(
        "session {selector} is a crew: this is for one agent's session"
    ))
    .hint(format!("what can be done with it: segue crew --help; segue crew status {selector}")))
}

/// The crew that is meant: by its name or number, or the latest one of this repository.
fn find(context: &Context, named: Option<&str>) -> Result<(Found, Session), CommandError> {
    let found = match named {
        Some(text) => context.find(Some(text))?,
        None => latest(context)?,
    };
    let session = found.open(&context.home)?;
    match is_crew(&session) {
        true => Ok((found, session)),
        false => {
            let selector = found.selector();
            Err(CommandError::usage(format!("session {selector} is no crew"))
                .hint(format!("segue show {selector}")))
        }
    }
}

fn latest(context: &Context) -> Result<Found, CommandError> {
    let here = context.repo()?;
    let mut index = context.index()?;
    let listing = index.query(&Filter::default()).map_err(view_error)?;
    for row in listing.rows.into_iter().filter(|row| row.loop_kind == LoopKind::Crew) {
        let Ok(session) = context.home.open(&row.at) else { continue };
        let project = session.state().crew.as_ref().map(|crew| crew.raised.project.clone());
        // A remote that was added gives a repository another name, and leaves it in its place.
        if row.at.repo == here.id || project.is_some_and(|dir| dir.starts_with(&here.root)) {
            return context.find(Some(&row.selector()));
        }
    }
    Err(CommandError::new(Exit::NoSuchSession, "there is no crew of this repository")
        .hint("segue crew init writes a segue.toml, segue crew up starts it")
        .hint("those of other repositories: segue list --all"))
}

/// What a crew is called, for people and in commands.
fn called(found: &Found, session: &Session) -> String {
    session.state().name.clone().unwrap_or_else(|| found.selector())
}

fn crew_of(session: &Session) -> Result<&Crew, CommandError> {
    session.state().crew.as_ref().ok_or_else(|| {
        CommandError::failed("nobody was ever in this crew").hint("segue crew up starts one")
    })
}

/// What is said where nobody did.
fn again(name: &str) -> String {
    format!("nobody watched over {name}: somebody does again")
}

/// Sees to it that somebody watches over a crew that is at work. Whether nobody did.
fn attend(context: &Context, found: &Found, session: &Session) -> Result<bool, CommandError> {
    if session.held_by()?.is_some() || session.state().phase != Phase::Running {
        return Ok(false);
    }
    let raised_in = session.state().crew.as_ref().and_then(|crew| crew.raised.home.as_deref());
    if raised_in.is_some_and(|home| home != context.home.dir()) {
        let selector = found.selector();
        return Err(CommandError::usage(format!(
            "crew {selector} is a copy of one in another place"
        ))
        .hint(format!("begin here: segue crew up --resume {selector} --file segue.toml")));
    }
    match begin_watch(context, found, session) {
        Ok(()) => Ok(true),
        // Somebody else was quicker.
        Err(error) if error.exit == Exit::Busy => Ok(false),
        Err(error) => Err(error),
    }
}

/// Starts the process that watches, and waits until it has the crew.
fn begin_watch(context: &Context, found: &Found, session: &Session) -> Result<(), CommandError> {
    let selector = found.selector();
    let args = ["crew", "watch", &selector].map(Into::into);
    background::take_over(context, session, &selector, &args).map(drop)
}

/// Asks the one who watches for something, and waits until the crew is as it should be.
fn ask(
    context: &Context,
    found: &Found,
    order: Control,
    done: impl Fn(&Session) -> bool,
) -> Result<Session, CommandError> {
    let session = found.open(&context.home)?;
    let selector = found.selector();
    if session.state().phase != Phase::Running {
        return Err(CommandError::usage(format!("crew {selector} is down"))
            .hint(format!("bring it back: segue crew up --resume {selector}")));
    }
    if attend(context, found, &session)? {
        say(&again(&format!("crew {selector}")));
    }
    let id = put(context, &session, order)?;
    let before = session.state().seq;
    let over = |session: &Session| done(session) || refused(session, before, &id).is_some();
    let session = wait_until(context, found, PATIENCE, over)?.ok_or_else(|| {
        CommandError::failed("the one who watches has not done it yet; it will")
            .hint(format!("segue crew status {selector}"))
    })?;
    match refused(&session, before, &id) {
        Some(why) => Err(CommandError::failed(why)),
        None => Ok(session),
    }
}

/// Leaves an order to the one who watches. Returns its id.
fn put(context: &Context, session: &Session, order: Control) -> Result<String, CommandError> {
    let message = Message::Crew { order };
    segue_loops::tools::put(&**context.home.disk(), session.dir(), &message)
        .map_err(CommandError::failed)
}

/// Why an order could not be obeyed, where that was said since then.
fn refused(session: &Session, before: u64, order: &str) -> Option<String> {
    let news = session.newest_first().into_iter().flatten();
    let mut news = news.take_while(|event| event.seq > before);
    news.find_map(|event| match event.body {
        Body::WarningRaised(said) if event.id.as_deref() == Some(order) => Some(said.message),
        _ => None,
    })
}

/// Looks at the crew again and again; `None` where it took too long.
fn wait_until(
    context: &Context,
    found: &Found,
    limit: Duration,
    done: impl Fn(&Session) -> bool,
) -> Result<Option<Session>, CommandError> {
    let started = Instant::now();
    loop {
        let session = found.open(&context.home)?;
        if done(&session) {
            return Ok(Some(session));
        }
        if started.elapsed() >= limit {
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}
