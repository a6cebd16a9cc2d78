//! tmux, as far as Segue needs it: a session with panes that show something.
//!
//! Promises:
//! - Every target is exact: an id that tmux gave (`%5`, `@2`), or `=name:`, which never means the
//!   session whose name only begins so.
//! - Options are set on Segue's own sessions, windows and panes, never on the server or on others'.
//! - Programs are given to tmux as words, not as a line for a shell.
//! - A server that Segue has to start gets a few harmless variables and no other: whatever is in its
//!   environment can be read by everything that ever runs in it.
//!
//! `SEGUE_TMUX_SOCKET` names another server (`tmux -L`). What has to be found again, whatever is in
//! the environment then, is looked for at the socket that was written down ([`here`]).

pub mod seat;
pub mod wall;

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::DirBuilder,
    io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use segue_agents::vendor::quoted;

/// The variable that names the server's socket.
pub const SOCKET_VAR: &str = "SEGUE_TMUX_SOCKET";

/// How long a server may take to end.
const ENDING: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);

/// Panes can have options of their own since then.
const OLDEST: (u32, u32) = (3, 0);

/// What a server may know of the environment that it was started from.
const HARMLESS: &[&str] = &[
    "COLORTERM",
    "DISPLAY",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "NO_COLOR",
    "PATH",
    "SHELL",
    "SSH_AUTH_SOCK",
    "TERM",
    "TERMINFO",
    "TERMINFO_DIRS",
    "TMPDIR",
    "TMUX",
    "TMUX_PANE",
    "TMUX_TMPDIR",
    "TZ",
    "USER",
    "WAYLAND_DISPLAY",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];

/// What is asked of each pane; the name comes last, since it may hold any character.
const PANE: &str = "#{session_id}|#{window_id}|#{pane_id}|#{pane_dead}|#{@segue_owner}|#{@segue_part}|#{session_name}";

#[derive(Debug, thiserror::Error)]
pub enum TmuxError {
    #[error("tmux is not installed, or not in PATH")]
    Missing,
    #[error("tmux {found} is too old: 3.0 is the first that will do")]
    TooOld { found: String },
    #[error("tmux {command}: {said}")]
    Refused { command: String, said: String },
    #[error("tmux: {0}")]
    Io(#[from] io::Error),
}

pub type Result<T> = std::result::Result<T, TmuxError>;

/// A pane of any session of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pane {
    pub session: String,
    pub session_id: String,
    pub window_id: String,
    pub id: String,
    /// Its program has ended, and it shows the last words.
    pub dead: bool,
    /// Whose session it is in, where Segue made that.
    pub owner: String,
    /// What it shows, where Segue made it.
    pub part: String,
}

impl Pane {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(7, '|').map(str::to_owned);
        let mut next = || fields.next();
        let (session_id, window_id, id) = (next()?, next()?, next()?);
        let (dead, owner, part, session) = (next()? == "1", next()?, next()?, next()?);
        Some(Self { session, session_id, window_id, id, dead, owner, part })
    }
}

/// What became of the wish to see a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// It was seen, and left again.
    Left,
    /// This terminal's client shows it now.
    Switched,
    /// This terminal is in another server of tmux: one within the other would catch its keys.
    InAnother,
    /// This is in a session of tmux that no terminal shows.
    Unseen,
}

/// The program, and which of its servers is meant.
#[derive(Clone, Debug)]
pub struct Tmux {
    server: Server,
    cwd: PathBuf,
}

#[derive(Clone, Debug)]
enum Server {
    /// The one that a plain `tmux` would take.
    Usual,
    Named(OsString),
    At(PathBuf),
}

/// The socket of the server that is meant from here.
#[must_use]
pub fn here() -> PathBuf {
    let var = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let dir = socket_dir(var("TMUX_TMPDIR").map(PathBuf::from));
    socket_of(var(SOCKET_VAR).as_deref(), var("TMUX").as_deref(), &dir)
}

/// Where tmux has its sockets.
fn socket_dir(wished: Option<PathBuf>) -> PathBuf {
    let usual = Path::new("/tmp");
    let base = wished.and_then(|dir| dir.canonicalize().ok());
    let base = base.or_else(|| usual.canonicalize().ok()).unwrap_or_else(|| usual.to_owned());
    base.join(format!("tmux-{}", rustix::process::getuid().as_raw()))
}

fn socket_of(label: Option<&OsStr>, within: Option<&OsStr>, dir: &Path) -> PathBuf {
    match (label, within) {
        (Some(label), _) => dir.join(label),
        // The socket, the server's process and the session.
        (None, Some(within)) => {
            let path = within.as_bytes().split(|byte| *byte == b',').next().unwrap_or_default();
            PathBuf::from(OsStr::from_bytes(path))
        }
        (None, None) => dir.join("default"),
    }
}

impl Tmux {
    /// Looks whether tmux is there and new enough. `cwd` is where a shell in a session begins.
    pub fn find(cwd: &Path) -> Result<Self> {
        let named = env::var_os(SOCKET_VAR).filter(|name| !name.is_empty());
        let server = named.map_or(Server::Usual, Server::Named);
        Self { server, cwd: cwd.to_owned() }.checked()
    }

    /// The same for the server at a socket.
    pub fn find_at(cwd: &Path, socket: &Path) -> Result<Self> {
        if let Some(dir) = socket.parent().filter(|dir| !dir.exists()) {
            // tmux makes only its usual one. Where it can't be made, tmux says why.
            let _ = DirBuilder::new().mode(0o700).create(dir);
        }
        Self { server: Server::At(socket.to_owned()), cwd: cwd.to_owned() }.checked()
    }

    fn checked(self) -> Result<Self> {
        let tmux = self;
        let version = tmux.run([OsStr::new("-V")])?;
        let version = version.trim().trim_start_matches("tmux ").to_owned();
        match number(&version) {
            Some(found) if found < OLDEST => Err(TmuxError::TooOld { found: version }),
            _ => Ok(tmux),
        }
    }

    /// Every pane of the server; none where no server runs.
    pub fn panes(&self) -> Result<Vec<Pane>> {
        match self.run(["list-panes", "-a", "-F", PANE]) {
            Ok(text) => Ok(text.lines().filter_map(Pane::parse).collect()),
            Err(TmuxError::Refused { said, .. }) if is_no_server(&said) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Ends the sessions that show this one; nothing where there are none.
    pub fn close(&self, owner: &str) -> Result<()> {
        let mut names: Vec<String> = self
            .panes()?
            .into_iter()
            .filter(|pane| pane.owner == owner)
            .map(|pane| pane.session)
            .collect();
        names.dedup();
        for name in names {
            self.run(["kill-session", "-t", &format!("={name}")])?;
        }
        Ok(())
    }

    /// The words that show a session on any terminal.
    #[must_use]
    pub fn attach_words(&self, session: &str) -> String {
        let named = |name: &OsStr| format!("-L {} ", name.display());
        let server = match &self.server {
            Server::Usual => String::new(),
            Server::Named(name) => named(name),
            Server::At(path) => {
                let dir = socket_dir(env::var_os("TMUX_TMPDIR").map(PathBuf::from));
                match path.strip_prefix(dir).ok().map(Path::as_os_str) {
                    Some(name) if name == "default" => String::new(),
                    Some(name) => named(name),
                    None => format!("-S {} ", quoted(&path.to_string_lossy())),
                }
            }
        };
        format!("tmux {server}attach -t ={session}")
    }

    /// Shows a session on this terminal, until it is left.
    pub fn enter(&self, session: &str) -> Result<Entered> {
        let target = format!("={session}");
        let outer = env::var("TMUX").unwrap_or_default();
        if outer.is_empty() {
            let mut command = self.command();
            let status = command.args(["attach-session", "-t", &target]).status()?;
            return match status.success() {
                true => Ok(Entered::Left),
                // It has said why on the terminal that it had.
                false => Err(refused("attach-session", "it ended with an error")),
            };
        }
        let ours = self.run(["display-message", "-p", "#{socket_path}"])?;
        if outer.split(',').next() != Some(ours.trim()) {
            return Ok(Entered::InAnother);
        }
        match self.run(["switch-client", "-t", &target]) {
            Err(TmuxError::Refused { said, .. }) if said.contains("no current client") => {
                Ok(Entered::Unseen)
            }
            switched => switched.map(|_| Entered::Switched),
        }
    }

    /// Runs one or more of tmux' commands, and returns what it prints.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<String> {
        let args: Vec<S> = args.into_iter().collect();
        let started = Instant::now();
        loop {
            match self.run_once(&args) {
                // A server that was just told to end takes nothing on: the next one does.
                Err(TmuxError::Refused { said, .. })
                    if is_ending(&said) && started.elapsed() < ENDING =>
                {
                    thread::sleep(LOOK);
                }
                done => return done,
            }
        }
    }

    fn run_once<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<String> {
        let output = self.command().args(args).stdin(Stdio::null()).output();
        let output = output.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TmuxError::Missing,
            _ => TmuxError::Io(error),
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let command = args.first().map(|word| word.as_ref().display().to_string());
        let said = String::from_utf8_lossy(&output.stderr);
        Err(refused(&command.unwrap_or_default(), said.trim()))
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.env_clear().envs(env::vars_os().filter(|(name, _)| is_harmless(name)));
        if self.cwd.is_dir() {
            command.current_dir(&self.cwd);
        }
        match &self.server {
            Server::Usual => {}
            Server::Named(name) => {
                command.arg("-L").arg(name);
            }
            Server::At(path) => {
                command.arg("-S").arg(path);
            }
        }
        command
    }
}

fn refused(command: &str, said: &str) -> TmuxError {
    TmuxError::Refused { command: command.to_owned(), said: said.to_owned() }
}

fn is_harmless(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| HARMLESS.contains(&name) || name.starts_with("LC_"))
}

fn is_ending(said: &str) -> bool {
    said.starts_with("server exited") || said.starts_with("lost server")
}

fn is_no_server(said: &str) -> bool {
    // One that may not be asked, or is too busy, may well be there.
    let gone = said.contains("No such file") || said.contains("Connection refused");
    said.starts_with("no server running") || (said.starts_with("error connecting to") && gone)
}

/// `3.3a` and `next-3.4`; what is no number is some build that knows what it does.
fn number(version: &str) -> Option<(u32, u32)> {
    let (major, rest) = version.trim_start_matches("next-").split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A word as tmux takes it literally: a `;` at its end would begin another command.
fn word(text: &OsStr) -> OsString {
    match text.as_bytes().strip_suffix(b";") {
        Some(rest) => OsString::from_vec([rest, b"\\;"].concat()),
        None => text.to_owned(),
    }
}

/// A text with nothing in it that a target or a format of tmux would take for more than a letter.
#[must_use]
pub fn plain_name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.chars().map(|c| if plain(c) { c } else { '-' }).collect()
}

/// `segue-<repo>-<number>`: the repository by the last part of its identity.
#[must_use]
pub fn session_name(repo_identity: &str, session: &str) -> String {
    let last = repo_identity.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let repo = match last {
        "" => "files".to_owned(),
        last => plain_name(last),
    };
    format!("segue-{repo}-{}", plain_name(session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_nothing_that_tmux_reads_as_more() {
        assert_eq!(session_name("github.com/owner/app", "7"), "segue-app-7");
        assert_eq!(session_name("/home/me/my.app: \"x\" 'y'/", "7"), "segue-my-app---x---y--7");
        assert_eq!(session_name("", "7"), "segue-files-7");
        assert_eq!(plain_name("ü#{x}"), "---x-");
    }

    #[test]
    fn the_socket_is_the_one_that_tmux_would_take() {
        let dir = Path::new("/run/tmux-7");
        let of = |label: Option<&str>, within: Option<&str>| {
            socket_of(label.map(OsStr::new), within.map(OsStr::new), dir)
        };
        assert_eq!(of(None, None), Path::new("/run/tmux-7/default"));
        assert_eq!(of(None, Some("/tmp/a b/work,77,0")), Path::new("/tmp/a b/work"));
        assert_eq!(of(Some("mine"), Some("/tmp/work,77,0")), Path::new("/run/tmux-7/mine"));
    }

    #[test]
    fn only_a_server_that_is_not_there_has_no_panes() {
        for said in [
            "no server running on /tmp/tmux-0/default",
            "error connecting to /tmp/tmux-0/default (No such file or directory)",
        ] {
            assert!(is_no_server(said), "{said}");
        }
        assert!(!is_no_server("error connecting to /tmp/tmux-0/default (Permission denied)"));
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(number("3.3a"), Some((3, 3)));
        assert_eq!(number("next-3.4"), Some((3, 4)));
        assert_eq!(number("2.9"), Some((2, 9)));
        assert_eq!(number("master"), None);
    }

    #[test]
    fn a_semicolon_at_the_end_stays_one() {
        assert_eq!(word(OsStr::new("/a;b;")), "/a;b\\;");
        assert_eq!(word(OsStr::new("/a;b")), "/a;b");
    }

    #[test]
    fn secrets_are_not_harmless() {
        assert!(is_harmless(OsStr::new("LC_ALL")) && is_harmless(OsStr::new("TERM")));
        assert!(!is_harmless(OsStr::new("ANTHROPIC_API_KEY")));
    }

    #[test]
    fn a_pane_is_read_also_with_a_strange_name() {
        let pane = Pane::parse("$1|@2|%3|1|01ABC|worker|a|b").unwrap();
        assert_eq!((pane.session.as_str(), pane.id.as_str(), pane.dead), ("a|b", "%3", true));
        assert_eq!(Pane::parse("$1|@2"), None);
    }
}
