//! `segue attach`, and what `--tmux` does: a session at work in the background, shown in tmux.
//!
//! The panes only show. Whoever works is a process of its own ([`crate::background`]), so anything
//! in tmux can be closed at any time, and is built again here.

use std::{
    ffi::OsString,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

use segue_core::{Exit, state::Phase};
use segue_journal::{Session, lock::Holder, session::REVIEWERS};
use segue_runner::tmux::{
    Entered, Tmux, TmuxError, session_name,
    wall::{Built, Part, Wall},
};
use segue_view::{select::Found, style};
use serde_json::json;

use crate::{
    background::{self, AtWork},
    commands::{crew, go_on::Request, resume, run::Manner},
    context::{Context, print, say},
    error::{CommandError, CommandResult},
};

/// How large the session is as long as no terminal shows it.
const UNSEEN: (u16, u16) = (160, 45);

/// Show a session in tmux
///
/// One pane for each agent, and one for how it stands. The panes only show: closing them, tmux or the
/// terminal stops nothing. Without a terminal, prints how to attach.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue attach                      the latest session of this repository
  segue attach 7                    from any directory; leave with Ctrl-B D
  segue stop 7                      stops the work, which closing does not")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: Option<String>,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let found = context.find(args.session.as_deref())?;
    let session = found.open(&context.home)?;
    if crew::is_crew(&session) {
        return crew::show(context, &crew::Attach::of(found.selector()));
    }
    let tmux = tmux(&session, &context.cwd)?;
    let holder = session.held_by()?;
    enter(context, &found, &session, &tmux, Work::Is(holder))
}

/// Who works on a session that is to be shown.
pub(crate) enum Start {
    /// A background process, started now with these arguments: `resume 7 --wait`.
    Background(Vec<OsString>),
    /// Somebody who does so already.
    Already(Holder),
}

/// Brings a session to work in the background, and shows it.
pub(crate) fn show(context: &Context, found: &Found, start: Start) -> CommandResult {
    let session = found.open(&context.home)?;
    let tmux = tmux(&session, &context.cwd)?;
    let selector = found.selector();
    let work = match start {
        Start::Already(holder) => {
            if !context.json {
                say(&format!("session {selector} is at work already: {holder}"));
            }
            Work::Is(Some(holder))
        }
        Start::Background(mut args) => {
            // Whoever works does not show: that is done here.
            args.push("--here".into());
            Work::Began(background::take_over(context, &session, &selector, &args)?)
        }
    };
    enter(context, found, &session, &tmux, work)
}

/// Gives a new session to a background process, and shows it.
pub(crate) fn begin(context: &Context, number: u64, manner: Manner) -> CommandResult {
    let found = context.find(Some(&number.to_string()))?;
    let Manner { wait, give_back, .. } = manner;
    let request = Request { wait, give_back, ..Request::default() };
    let args = resume::args_for(&found.selector(), &request);
    show(context, &found, Start::Background(args)).inspect_err(|_| {
        // A session that can't be started would only be in the way.
        let never = |session: Session| session.state().phase == Phase::Created;
        if let (Some(at), true) = (&found.at, found.open(&context.home).is_ok_and(never)) {
            let _ = context.home.remove(at, &context.me());
        }
    })
}

/// Fails where there is no tmux: before anything is made that would then not be shown.
pub(crate) fn check(context: &Context) -> Result<(), CommandError> {
    Tmux::find(&context.cwd).map(drop).map_err(tmux_error)
}

/// What is known of the one who works.
enum Work {
    Began(AtWork),
    Is(Option<Holder>),
}

fn tmux(session: &Session, cwd: &Path) -> Result<Tmux, CommandError> {
    Tmux::find(session.state().workspace().unwrap_or(cwd)).map_err(tmux_error)
}

pub(crate) fn tmux_error(error: TmuxError) -> CommandError {
    let message = error.to_string();
    match error {
        TmuxError::Missing => CommandError::failed(message)
            .hint("install it: apt install tmux, dnf install tmux, brew install tmux")
            .hint("segue watch shows a session without it"),
        TmuxError::TooOld { .. } => {
            CommandError::failed(message).hint("segue watch shows a session without it")
        }
        _ => CommandError::failed(message).hint("segue watch shows a session without tmux"),
    }
}

/// Builds what shows the session, and shows it where there is a terminal.
fn enter(
    context: &Context,
    found: &Found,
    session: &Session,
    tmux: &Tmux,
    work: Work,
) -> CommandResult {
    let selector = found.selector();
    let Built { name, .. } = wall(context, found, session)?.build(tmux).map_err(tmux_error)?;
    let attach = tmux.attach_words(&name);
    if context.json {
        let (pid, log) = match &work {
            Work::Began(at_work) => (Some(at_work.pid), Some(&at_work.log)),
            Work::Is(holder) => (holder.as_ref().map(|holder| holder.pid), None),
        };
        print(
            &json!({ "tmux": {
                "session": selector, "name": name, "attach": attach, "pid": pid, "log": log,
                "dir": session.dir(),
            } })
            .to_string(),
        );
        return Ok(Exit::Done);
    }
    if let Work::Began(AtWork { pid, log }) = &work {
        say(&format!("session {selector} works in the background: process {pid}"));
        say(&format!("  log       {}", style::sanitize(&log.display().to_string())));
    }
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        match tmux.enter(&name).map_err(tmux_error)? {
            Entered::Switched => return Ok(Exit::Done),
            Entered::Left => return left(context, found),
            Entered::InAnother => say("this terminal is in another server of tmux"),
            Entered::Unseen => say("no terminal shows the session of tmux that this runs in"),
        }
    }
    print(&name);
    print(&match work {
        Work::Began(_) => format!("segue attach {selector}"),
        Work::Is(_) => attach,
    });
    Ok(Exit::Done)
}

/// After the person has left: what goes on, and how to come back.
fn left(context: &Context, found: &Found) -> CommandResult {
    let selector = found.selector();
    if found.open(&context.home)?.held_by()?.is_some() {
        say(&format!("session {selector} goes on in the background"));
        say(&format!("stop it: segue stop {selector}"));
        say(&format!("segue attach {selector}"));
    } else {
        say(&format!("nobody works on session {selector} now"));
        say(&format!("segue show {selector}"));
    }
    Ok(Exit::Done)
}

fn wall(context: &Context, found: &Found, session: &Session) -> Result<Wall, CommandError> {
    let identity = session.state().identity.as_ref();
    let repo = identity.map_or("", |identity| identity.repo.identity.as_str());
    let owner = session.id().to_string();
    let called = found.number.map_or_else(|| owner.clone(), |number| number.to_string());
    let watch = Watch { program: program()?, home: context.home.dir().to_owned() };
    let mut beside = vec![watch.part("worker", "worker", session.dir(), false)];
    for (name, dir) in reviewers(session) {
        beside.push(watch.part(&format!("{REVIEWERS}/{name}"), &name, &dir, false));
    }
    Ok(Wall {
        name: session_name(repo, &called),
        owner,
        size: terminal_size().unwrap_or(UNSEEN),
        beside,
        below: watch.part("status", "status", session.dir(), true),
    })
}

/// How a pane is told to follow a session.
struct Watch {
    program: PathBuf,
    home: PathBuf,
}

impl Watch {
    fn part(&self, key: &str, title: &str, dir: &Path, status: bool) -> Part {
        let mut argv: Vec<OsString> =
            vec![self.program.clone().into(), "--home".into(), self.home.clone().into()];
        argv.extend(["watch".into(), "--stay".into()]);
        if status {
            argv.push("--status".into());
        }
        argv.push(dir.into());
        Part { key: key.to_owned(), title: title.to_owned(), argv }
    }
}

/// Those who review the session's work, by their names; also those who have not begun.
fn reviewers(session: &Session) -> Vec<(String, PathBuf)> {
    let dir = session.dir().join(REVIEWERS);
    let seats = session.state().terms().map(|terms| terms.reviewers.as_slice());
    let mut names: Vec<String> =
        seats.unwrap_or_default().iter().map(|seat| seat.name.clone()).collect();
    let here = std::fs::read_dir(&dir).into_iter().flatten().flatten();
    let here = here.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.extend(here.filter(|name| !name.starts_with('.')));
    names.sort();
    names.dedup();
    names.into_iter().map(|name| (name.clone(), dir.join(name))).collect()
}

/// This program by a path that outlives this process: an update may have put another file there.
pub(crate) fn program() -> Result<PathBuf, CommandError> {
    let path = std::env::current_exe()?;
    let replaced = path.to_str().and_then(|path| path.strip_suffix(" (deleted)"));
    Ok(replaced.map_or_else(|| path.clone(), PathBuf::from))
}

fn terminal_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}
