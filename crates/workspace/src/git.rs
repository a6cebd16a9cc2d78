//! Running git so that nothing of the user's runs along; but for [`users`], which is for what the
//! user does themself through Segue, such as a push.
//!
//! Two ways to run it. [`Place::user`] asks the user's repository (its ignore rules, its refs) with
//! hooks, monitors and signing off. [`Place::raw`] runs in a private, nearly empty git directory
//! which borrows the user's objects: there, no configuration and no attribute of the user's
//! applies, so file content passes as it is, byte by byte.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Variables that would point git to another repository than the directory's own.
const ELSEWHERE_VARS: [&str; 10] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INDEX_VERSION",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_QUARANTINE_PATH",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];

/// Variables that would change what it reads and writes.
const FOREIGN_VARS: [&str; 13] = [
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_ATTR_SOURCE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_EXTERNAL_DIFF",
    "GIT_DIFF_OPTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_TRACE",
    "GIT_DEFAULT_HASH",
    "LANGUAGE",
];

/// What git has written is on the disk when it ends: an event that speaks of it may be, too. Many
/// files at once are synced together.
pub(crate) const DURABLE: [&str; 2] = ["core.fsync=committed", "core.fsyncMethod=batch"];

/// Settings that hold whatever the user's configuration says.
const FIXED: [&str; 20] = [
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "core.logAllRefUpdates=false",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.ignoreStat=false",
    "core.trustctime=true",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "index.sparse=false",
    "index.threads=1",
    "gc.auto=0",
    "maintenance.auto=false",
    "diff.external=",
    "commit.gpgSign=false",
];

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is not installed")]
    Missing,
    #[error("git {what} in {}: {message}", .dir.display())]
    Failed { what: String, dir: PathBuf, message: String },
    /// It gave no answer at all, which is not the same as a no.
    #[error("git {what} in {} was ended by signal {signal}", .dir.display())]
    Killed { what: String, dir: PathBuf, signal: i32 },
    #[error("cannot run git {what} in {}: {source}", .dir.display())]
    Io { what: String, dir: PathBuf, source: io::Error },
    #[error("git {what} in {} said something unexpected", .dir.display())]
    Odd { what: String, dir: PathBuf },
}

/// A working tree and the directories that belong to it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) top: PathBuf,
    /// Where `HEAD` and the index of this working tree are.
    pub(crate) git_dir: PathBuf,
    /// What all worktrees of a repository share.
    pub(crate) common: PathBuf,
    /// The private git directory of [`Place::raw`].
    pub(crate) raw_dir: PathBuf,
    pub(crate) objects: PathBuf,
    /// Bytes of an object id: 20 or 32.
    pub(crate) id_len: usize,
    /// Whether git can be told to read no attributes (2.41).
    pub(crate) attr_source: bool,
}

impl Place {
    /// The user's repository, with its configuration and ignore rules.
    pub(crate) fn user(&self) -> Command {
        let mut command = safe(&self.top);
        command.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.top);
        command
    }

    /// The private repository: the user's objects and files, nothing else of the user's.
    pub(crate) fn raw(&self, index: &Path) -> Command {
        let mut command = safe(&self.top);
        command
            .env("GIT_DIR", &self.raw_dir)
            .env("GIT_WORK_TREE", &self.top)
            .env("GIT_OBJECT_DIRECTORY", &self.objects)
            .env("GIT_INDEX_FILE", index)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .args(["-c", "core.attributesFile=/dev/null", "-c", "core.ignoreCase=false"]);
        if self.attr_source {
            command.arg(format!("--attr-source={}", self.empty_tree()));
        }
        command
    }

    /// Every git knows this object, stored or not.
    pub(crate) fn empty_tree(&self) -> &'static str {
        match self.id_len {
            20 => "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            _ => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
        }
    }

    pub(crate) fn zero_id(&self) -> String {
        "0".repeat(self.id_len * 2)
    }
}

/// A git that runs in `dir`, finds the repository there by itself, and runs nothing of the user's.
pub(crate) fn safe(dir: &Path) -> Command {
    let mut command = plain(dir);
    for setting in FIXED.iter().chain(&DURABLE) {
        command.args(["-c", setting]);
    }
    command
}

/// The same with the user's own settings. Only for commands that run nothing by themselves.
pub(crate) fn plain(dir: &Path) -> Command {
    let mut command = users(dir);
    for name in FOREIGN_VARS {
        command.env_remove(name);
    }
    command
        .env("LC_ALL", "C")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_NO_LAZY_FETCH", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A git as the user would run it: with hooks, credentials and language. Where nobody sits at a
/// terminal it asks for nothing.
pub(crate) fn users(dir: &Path) -> Command {
    let mut command = Command::new("git");
    for name in ELSEWHERE_VARS {
        command.env_remove(name);
    }
    command.current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    match io::stdin().is_terminal() {
        true => command.stdin(Stdio::inherit()),
        false => command.stdin(Stdio::null()).env("GIT_TERMINAL_PROMPT", "0"),
    };
    command
}

/// Runs it to its end; what it printed, or why it failed.
pub(crate) fn run(command: Command) -> Result<Vec<u8>, GitError> {
    feed(command, Vec::new())
}

/// The same, with something to read.
pub(crate) fn feed(command: Command, input: Vec<u8>) -> Result<Vec<u8>, GitError> {
    let (output, what, dir) = finish(command, input)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let message = match text.trim() {
        "" => format!("ended with {}", output.status),
        text => text.to_owned(),
    };
    Err(GitError::Failed { what, dir, message })
}

/// Runs it where "no" is an answer: `None` when git ends with the given status.
pub(crate) fn ask(command: Command, input: Vec<u8>, no: i32) -> Result<Option<Vec<u8>>, GitError> {
    let (output, what, dir) = finish(command, input)?;
    match output.status.code() {
        Some(0) => Ok(Some(output.stdout)),
        Some(code) if code == no => Ok(None),
        _ => {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(GitError::Failed { what, dir, message })
        }
    }
}

pub(crate) fn finish(
    mut command: Command,
    input: Vec<u8>,
) -> Result<(std::process::Output, String, PathBuf), GitError> {
    let (what, dir) = describe(&command);
    let fail = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound if dir.is_dir() => GitError::Missing,
        _ => GitError::Io { what: what.clone(), dir: dir.clone(), source },
    };
    if input.is_empty() {
        let output = command.output().map_err(fail)?;
        return answered(output, what, dir);
    }
    let mut child = command.stdin(Stdio::piped()).spawn().map_err(fail)?;
    let stdin = child.stdin.take();
    // A thread writes, so that neither side waits for the other with a full pipe.
    let writer = std::thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            // A git that ends early says why itself.
            let _ = stdin.write_all(&input);
        }
    });
    let output = child.wait_with_output().map_err(fail)?;
    let _ = writer.join();
    answered(output, what, dir)
}

fn answered(
    output: std::process::Output,
    what: String,
    dir: PathBuf,
) -> Result<(std::process::Output, String, PathBuf), GitError> {
    match output.status.signal() {
        Some(signal) => Err(GitError::Killed { what, dir, signal }),
        None => Ok((output, what, dir)),
    }
}

/// At most `max` bytes of what it prints, and whether there was more.
pub(crate) fn head(mut command: Command, max: usize) -> Result<(Vec<u8>, bool), GitError> {
    let (what, dir) = describe(&command);
    let fail = |source| GitError::Io { what: what.clone(), dir: dir.clone(), source };
    let mut child = command.stderr(Stdio::null()).spawn().map_err(fail)?;
    let mut bytes = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(max as u64 + 1).read_to_end(&mut bytes).map_err(fail)?;
    }
    let more = bytes.len() > max;
    bytes.truncate(max);
    if more {
        let _ = child.kill();
    }
    let status = child.wait().map_err(fail)?;
    if !more && !status.success() {
        return Err(GitError::Failed { what, dir, message: format!("ended with {status}") });
    }
    Ok((bytes, more))
}

/// The subcommand and the directory, for messages.
pub(crate) fn describe(command: &Command) -> (String, PathBuf) {
    let mut words = command.get_args();
    let mut what = String::new();
    while let Some(word) = words.next() {
        if word == "-c" {
            words.next();
        } else if !word.as_bytes().starts_with(b"--") {
            what = word.to_string_lossy().into_owned();
            break;
        }
    }
    (what, command.get_current_dir().map(Path::to_owned).unwrap_or_default())
}

pub(crate) fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.trim_ascii()).into_owned()
}

pub(crate) fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(crate) fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text
}
