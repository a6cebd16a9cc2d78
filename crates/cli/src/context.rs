//! What every command starts from: the home, the settings, the clock, and how to print.

use std::{
    env,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use segue::Runs;
use segue_core::selector::Selector;
use segue_journal::{Clock, Home, RealDisk, lock::Holder, system_clock};
use segue_view::{
    index::Index,
    select::{self, Found, SelectError},
    style::{self, Style},
};
use segue_workspace::Repo;

use crate::{config::Config, error::CommandError};

/// Keeps a command's own options together, apart from those that all have.
const EVERYWHERE: &str = "Everywhere";

/// Options that every command has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Global {
    /// Where Segue keeps its sessions [default: the nearest .segue above, else ~/.segue]
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "SEGUE_HOME",
        hide_env_values = true,
        help_heading = EVERYWHERE
    )]
    pub(crate) home: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
    /// When to use colour
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        help_heading = EVERYWHERE
    )]
    pub(crate) color: ColorWhen,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorWhen {
    #[default]
    Auto,
    Always,
    Never,
}

pub(crate) struct Context {
    pub(crate) home: Home,
    pub(crate) json: bool,
    pub(crate) cwd: PathBuf,
    pub(crate) clock: Clock,
    color: ColorWhen,
}

impl Context {
    pub(crate) fn new(global: &Global) -> Result<Self, CommandError> {
        let cwd = env::current_dir().map_err(|error| {
            CommandError::failed(format!("the working directory can't be read: {error}"))
        })?;
        let dir = home_dir(global.home.as_deref(), &cwd)?;
        if dir.metadata().is_ok_and(|found| !found.is_dir()) {
            return Err(CommandError::usage(format!("{}: not a directory", dir.display()))
                .hint("--home and SEGUE_HOME name the directory for Segue's sessions"));
        }
        Ok(Self {
            home: Home::new(Arc::new(RealDisk), dir),
            json: global.json,
            cwd,
            clock: clock()?,
            color: global.color,
        })
    }

    pub(crate) fn config(&self) -> Result<Config, CommandError> {
        Config::load(self.home.dir(), &|name| env::var(name).ok())
    }

    /// The sessions of the home, for the library.
    pub(crate) fn runs(&self) -> Result<Runs, CommandError> {
        let runs = Runs::of(self.home.clone(), Arc::clone(&self.clock));
        Ok(runs.keeping(self.config()?.checkpoints()))
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(crate) fn me(&self) -> Holder {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Holder { pid: std::process::id(), host, since: self.now() }
    }

    /// How to print to stdout.
    pub(crate) fn out(&self) -> Style {
        self.style(io::stdout().is_terminal(), rustix::stdio::stdout())
    }

    /// How to print to stderr.
    pub(crate) fn err(&self) -> Style {
        self.style(io::stderr().is_terminal(), rustix::stdio::stderr())
    }

    fn style(&self, terminal: bool, fd: impl std::os::fd::AsFd) -> Style {
        let color = match self.color {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => {
                terminal
                    && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && env::var_os("TERM").is_none_or(|value| value != "dumb")
            }
        };
        let columns = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let width = columns.or_else(|| {
            let size = rustix::termios::tcgetwinsize(fd).ok()?;
            (terminal && size.ws_col > 0).then_some(usize::from(size.ws_col))
        });
        Style::new(color, width.unwrap_or(100))
    }

    /// The repository that the working directory is in.
    pub(crate) fn repo(&self) -> Result<Repo, CommandError> {
        segue_workspace::identify(&self.cwd)
            .map_err(|error| CommandError::failed(error.to_string()))
    }

    /// The list of sessions, up to date. What had to be mended is said.
    pub(crate) fn index(&self) -> Result<Index, CommandError> {
        let mut index = Index::open(&self.home).map_err(view_error)?;
        index.refresh().map_err(view_error)?;
        for note in index.take_notes() {
            say(&format!("note: {note}"));
        }
        Ok(index)
    }

    /// Finds the session that is meant.
    pub(crate) fn find(&self, text: Option<&str>) -> Result<Found, CommandError> {
        self.resolve(text, select::resolve)
    }

    /// Finds the session that is meant; without one, the latest that can be resumed.
    pub(crate) fn find_resumable(&self, text: Option<&str>) -> Result<Found, CommandError> {
        self.resolve(text, select::resolve_resumable)
    }

    /// Finds the session that is meant; without one, the latest that nobody has set aside.
    pub(crate) fn find_kept(&self, text: Option<&str>) -> Result<Found, CommandError> {
        self.resolve(text, select::resolve_kept)
    }

    fn resolve(
        &self,
        text: Option<&str>,
        resolve: impl Fn(&mut Index, &Selector, Option<&str>) -> Result<Found, SelectError>,
    ) -> Result<Found, CommandError> {
        // An empty variable in a script is no wish for the latest one.
        if text.is_some_and(|text| text.trim().is_empty()) {
            return Err(CommandError::usage("the session is empty")
                .hint("the latest one of this repository is @latest"));
        }
        let selector = Selector::parse(text.unwrap_or_default());
        let mut index = Index::open(&self.home).map_err(view_error)?;
        // A number needs neither the repository nor a fresh index: the quick way stays quick.
        let repo = match selector {
            Selector::Latest => Some(self.repo()?.id),
            _ => None,
        };
        resolve(&mut index, &selector, repo.as_deref()).map_err(|error| {
            let file = text.filter(|text| self.cwd.join(text).is_file());
            match (select_error(error), file) {
                (error, Some(file)) => {
                    error.hint(format!("a run in a file is brought in first: segue import {file}"))
                }
                (error, None) => error,
            }
        })
    }

    /// Prints a result as JSON.
    pub(crate) fn print_json(&self, value: &impl serde::Serialize) -> Result<(), CommandError> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| CommandError::failed(error.to_string()))?;
        print(&text);
        Ok(())
    }
}

pub(crate) fn view_error(error: segue_view::Error) -> CommandError {
    match error {
        segue_view::Error::Journal(error) => error.into(),
        error => CommandError::failed(error.to_string()).hint("segue doctor"),
    }
}

fn select_error(error: SelectError) -> CommandError {
    use segue_core::Exit;
    let message = error.to_string();
    match error {
        SelectError::Ambiguous { candidates, .. } => {
            candidates.iter().take(5).fold(CommandError::usage(message), |error, one| {
                let prompt = style::sanitize(&one.prompt);
                error.hint(format!("{}: {}", one.selector(), style::shorten(&prompt, 60)))
            })
        }
        SelectError::View(error) => view_error(error),
        SelectError::Path { path } if path.is_file() => {
            CommandError::new(Exit::NoSuchSession, message)
        }
        SelectError::Removed { .. } | SelectError::Path { .. } => {
            CommandError::new(Exit::NoSuchSession, message).hint("segue list --all")
        }
        // These say themselves which list shows more.
        _ => CommandError::new(Exit::NoSuchSession, message),
    }
}

/// Why a result could not be printed, if one could not.
static UNPRINTED: OnceLock<String> = OnceLock::new();

/// To stdout, where a reader that has gone away is no error; what else goes wrong is told at the
/// end.
pub(crate) fn print(text: &str) {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            drop(UNPRINTED.set(error.to_string()));
        }
        _ => {}
    }
}

/// Fails where a part of the result was lost on its way out.
pub(crate) fn check_printed() -> Result<(), CommandError> {
    match UNPRINTED.get() {
        None => Ok(()),
        Some(why) => Err(CommandError::failed(format!("standard output: {why}"))
            .hint("what was recorded is on the disk all the same: segue list, segue log")),
    }
}

/// To stderr, also when the terminal is gone.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// `--home`, else `SEGUE_HOME` (both in `named`), else where it is found.
fn home_dir(named: Option<&Path>, cwd: &Path) -> Result<PathBuf, CommandError> {
    Runs::dir_for(named, cwd).ok_or_else(|| {
        CommandError::usage("there is no home directory: HOME is not set")
            .hint("name a place with --home or SEGUE_HOME")
    })
}

/// The machine's clock, or the one that `SEGUE_CLOCK` fixes: for tests and for pictures.
fn clock() -> Result<Clock, CommandError> {
    let Ok(fixed) = env::var("SEGUE_CLOCK") else { return Ok(system_clock()) };
    let at: Timestamp =
        fixed.parse().map_err(|error| CommandError::usage(format!("SEGUE_CLOCK: {error}")))?;
    Ok(Arc::new(move || at))
}
