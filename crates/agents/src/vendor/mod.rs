//! The vendors' own programs, one file each, behind one small trait.
//!
//! An adapter answers six questions about one vendor: is it there ([`Vendor::behind`],
//! [`Vendor::signed_in`]), how is a conversation started, resumed and forked ([`Vendor::call`]),
//! what do its lines mean ([`Vendor::dialogue`]), and where does it keep its sessions
//! ([`Vendor::history`], [`Vendor::discover`]), and where one belongs that was brought from another
//! machine ([`Vendor::home_of`]).
//!
//! An adapter is a translator and nothing else: it starts no process, writes no file and decides
//! nothing. The runner does all that, the same way for every vendor. To add one: a file here, and
//! a line in [`ALL`].

pub mod acp;
mod api_error;
pub mod claude;
pub mod codex;
pub mod copilot;
pub mod cursor;
mod dialogue;
pub mod exec;
mod found;
pub mod gemini;
mod history;
pub mod json;
pub mod opencode;
pub mod pi;
mod place;
pub mod qwen;
mod tools;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use segue_core::Permission;

pub use dialogue::{Dialogue, Ending, Heard, Lines, Opening, Signal, ToolEnd, Unreadable};
pub use found::{Program, look_up, npm_version, package_of};
pub use history::{CallMade, History, LastTurn, read_lines};
pub use place::Link;
pub use tools::ToolServer;

pub use crate::native::ModelError as Trouble;

/// Every vendor with an adapter, in the order of the tables.
pub const ALL: &[&dyn Vendor] = &[
    &claude::Claude,
    &codex::Codex,
    &gemini::Gemini,
    &copilot::Copilot,
    &cursor::Cursor,
    &opencode::OpenCode,
    &qwen::Qwen,
    &pi::Pi,
];

/// The adapter for what a person calls the agent: a name, a one-letter alias, or `exec:<command>`
/// and `acp:<command>` for any program.
#[must_use]
pub fn find(word: &str) -> Option<Box<dyn Vendor>> {
    let command = |prefix: &str| word.strip_prefix(prefix).map(str::trim);
    if let Some(command) = command("acp:") {
        return (!command.is_empty()).then(|| Box::new(acp::Acp::new(command)) as _);
    }
    if let Some(command) = command("exec:") {
        return (!command.is_empty()).then(|| Box::new(exec::Exec::new(command)) as _);
    }
    let known = ALL.iter().find(|vendor| {
        let card = vendor.card();
        card.name == word || card.alias == Some(word)
    })?;
    Some(Box::new(*known))
}

/// What never changes about a vendor.
#[derive(Clone, Debug)]
pub struct Card {
    /// What Segue calls it: `claude`, or `exec:…` with the command.
    pub name: String,
    pub alias: Option<&'static str>,
    /// What its makers call it.
    pub title: &'static str,
    /// Names to look for in `PATH`.
    pub programs: &'static [&'static str],
    /// The command that installs it.
    pub install: &'static str,
    /// The vendor's own command for signing in.
    pub sign_in: &'static str,
    /// The version that the tests drive; `None` where none could be had.
    pub tested: Option<&'static str>,
    /// What it can do.
    pub can: Abilities,
    /// The signal that makes it stop in its own way (SIGINT or SIGTERM).
    pub stop_signal: i32,
    /// How long a prompt may be that has to travel as an argument; `None` where it need not.
    pub argument_limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The session's id is ours to choose.
    pub own_id: bool,
    pub resume: bool,
    pub fork: bool,
    /// It has a door for the Agent Client Protocol.
    pub acp: bool,
    /// It tells what its calls cost.
    pub cost: bool,
    /// It can be held to `read-only` and `edit`.
    pub permission: bool,
    /// It takes a server of tools for one run, besides those of the user's own settings.
    pub tools: bool,
    /// It can fork a conversation as it stood at an earlier [`Signal::Mark`].
    pub rewind: bool,
}

/// Who is asked, for one turn.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub prompt: &'a str,
    pub cwd: &'a Path,
    pub conversation: Conversation<'a>,
    pub permission: Permission,
    pub model: Option<&'a str>,
    /// Flags that the user gave for the vendor's program, passed on unread.
    pub extra: &'a [String],
    pub world: &'a World,
    /// Where the files of [`Call::file`] will be.
    pub files: &'a Path,
    /// Our own tools, for a vendor that [can](Abilities::tools) take them.
    pub tools: Option<ToolServer<'a>>,
}

/// Which of the vendor's conversations the turn belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversation<'a> {
    /// A new one. The vendor is told to call it `id` where it lets us choose; a UUID.
    New {
        id: &'a str,
    },
    Resume {
        id: &'a str,
    },
    /// A copy of `from`, called `id` where we can choose; of all of it, or of what was there at a
    /// [`Signal::Mark`], for a vendor that [can](Abilities::rewind) do that.
    Fork {
        from: &'a str,
        id: &'a str,
        at: Option<&'a str>,
    },
}

/// What an adapter may know of its surroundings. A value, so that tests can make one up.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub home: PathBuf,
    pub env: BTreeMap<String, String>,
    /// Whether we are root: some programs refuse things then.
    pub root: bool,
}

impl World {
    /// The world of this process.
    #[must_use]
    pub fn here() -> Self {
        let env: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let home = env.get("HOME").map(PathBuf::from).unwrap_or_default();
        Self { home, env, root: rustix::process::geteuid().is_root() }
    }

    /// A variable that is set to something.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Where a vendor keeps its files: what its own variable says, or a directory of the home.
    #[must_use]
    pub fn dir(&self, variable: &str, in_home: &str) -> PathBuf {
        self.get(variable).map_or_else(|| self.home.join(in_home), PathBuf::from)
    }

    #[must_use]
    pub fn has_any(&self, variables: &[&str]) -> bool {
        variables.iter().any(|name| self.get(name).is_some())
    }
}

/// Arguments and environment of one call; the program is found apart from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub args: Vec<OsString>,
    /// Set for the program. What the user has set already stays as it is where `keep` is true.
    pub env: Vec<Variable>,
    /// The index of the argument that is the prompt, which is not for the journal.
    pub prompt_at: Option<usize>,
    /// Names and texts of files that have to be there first, below [`Job::files`], with the
    /// directories that they are in.
    pub files: Vec<(&'static str, String)>,
    /// Links that have to be there first, in the place of any file or link of that name:
    /// [`Call::prepare`] makes both.
    pub links: Vec<Link>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    pub value: String,
    /// A default: the user's own value wins.
    pub keep: bool,
}

impl Call {
    #[must_use]
    pub fn new<I: Into<OsString>>(args: impl IntoIterator<Item = I>) -> Self {
        Self { args: args.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    pub fn arg(&mut self, arg: impl Into<OsString>) -> &mut Self {
        self.args.push(arg.into());
        self
    }

    /// A flag with its value as the next argument.
    pub fn pair(&mut self, flag: &str, value: impl Into<OsString>) -> &mut Self {
        self.arg(flag).arg(value)
    }

    pub fn args<I: Into<OsString>>(&mut self, args: impl IntoIterator<Item = I>) -> &mut Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// A file that the program reads its orders from, where it takes them in no other way.
    pub fn file(&mut self, name: &'static str, text: impl Into<String>) -> &mut Self {
        self.files.push((name, text.into()));
        self
    }

    pub fn link(&mut self, name: PathBuf, to: PathBuf) -> &mut Self {
        self.links.push(Link { name, to, dir: false });
        self
    }

    pub fn link_dir(&mut self, name: PathBuf, to: PathBuf) -> &mut Self {
        self.links.push(Link { name, to, dir: true });
        self
    }

    /// The prompt as an argument: only where the vendor has no other way.
    pub fn prompt(&mut self, prompt: &str) -> &mut Self {
        self.prompt_at = Some(self.args.len());
        self.arg(prompt)
    }

    /// Sets a variable, whatever the user has.
    pub fn env(&mut self, name: &'static str, value: impl Into<String>) -> &mut Self {
        self.env.push(Variable { name, value: value.into(), keep: false });
        self
    }

    /// Sets a variable where the user has not.
    pub fn default_env(&mut self, name: &'static str, value: impl Into<String>) -> &mut Self {
        self.env.push(Variable { name, value: value.into(), keep: true });
        self
    }

    /// The arguments as a person would read them, without the prompt.
    #[must_use]
    pub fn shown(&self) -> String {
        let words = self.args.iter().enumerate().map(|(at, arg)| match self.prompt_at {
            Some(prompt) if prompt == at => "<prompt>".to_owned(),
            _ => quoted(&arg.to_string_lossy()),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// A word as a shell takes it for one.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Whether the vendor would let its program in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// And by what: a variable, a file.
    Yes(String),
    No,
    /// It keeps its keys where we do not look.
    Unknown,
}

/// The questions.
pub trait Vendor: std::fmt::Debug + Send + Sync {
    fn card(&self) -> Card;

    /// The names that have to be found for this vendor to be there at all. For a command of the
    /// user's own that is its first word, while a shell is what is started.
    fn looks_for(&self) -> Vec<String> {
        self.card().programs.iter().map(|&name| name.to_owned()).collect()
    }

    /// The program that does the work, behind the wrapper that was found in `PATH`.
    fn behind(&self, program: Program) -> Program {
        program
    }

    /// How much the smallest of its usual models takes in at once.
    fn context_tokens(&self) -> u64 {
        128_000
    }

    fn signed_in(&self, world: &World) -> SignIn;

    /// What a permission is in the vendor's own terms, for people.
    fn terms(&self, permission: Permission) -> &'static str;

    /// Arguments and environment for one turn. The extra flags are put in by the adapter, where its
    /// program takes them.
    fn call(&self, job: &Job<'_>) -> Call;

    /// Someone who says what has to be said to the program, and understands what it says.
    fn dialogue(&self, job: &Job<'_>) -> Box<dyn Dialogue>;

    /// What the vendor's own file remembers of a session; `None` where it has no such session, and
    /// an error where nobody can tell.
    fn history(&self, world: &World, cwd: &Path, id: &str) -> std::io::Result<Option<History>>;

    /// Where the file of a session that was brought from another machine belongs here, for someone
    /// who works in `cwd`; `None` where putting it there is not enough.
    fn home_of(
        &self,
        _world: &World,
        _cwd: &Path,
        _id: &str,
        _name: &str,
        _bytes: &[u8],
    ) -> Option<PathBuf> {
        None
    }

    /// Finds the id of a session that died before it could tell: by working directory, by time and
    /// by its first prompt, all three. Never "the newest".
    fn discover(
        &self,
        _world: &World,
        _cwd: &Path,
        _since: Timestamp,
        _prompt: &str,
    ) -> Option<String> {
        None
    }
}

impl Vendor for &'static dyn Vendor {
    fn card(&self) -> Card {
        (**self).card()
    }

    fn looks_for(&self) -> Vec<String> {
        (**self).looks_for()
    }

    fn behind(&self, program: Program) -> Program {
        (**self).behind(program)
    }

    fn context_tokens(&self) -> u64 {
        (**self).context_tokens()
    }

    fn signed_in(&self, world: &World) -> SignIn {
        (**self).signed_in(world)
    }

    fn terms(&self, permission: Permission) -> &'static str {
        (**self).terms(permission)
    }

    fn call(&self, job: &Job<'_>) -> Call {
        (**self).call(job)
    }

    fn dialogue(&self, job: &Job<'_>) -> Box<dyn Dialogue> {
        (**self).dialogue(job)
    }

    fn history(&self, world: &World, cwd: &Path, id: &str) -> std::io::Result<Option<History>> {
        (**self).history(world, cwd, id)
    }

    fn home_of(
        &self,
        world: &World,
        cwd: &Path,
        id: &str,
        name: &str,
        bytes: &[u8],
    ) -> Option<PathBuf> {
        (**self).home_of(world, cwd, id, name, bytes)
    }

    fn discover(
        &self,
        world: &World,
        cwd: &Path,
        since: Timestamp,
        prompt: &str,
    ) -> Option<String> {
        (**self).discover(world, cwd, since, prompt)
    }
}
