//! A place for one test: its own home, its own repository, an empty environment, a fixed clock.
//!
//! Nothing of the machine's user leaks in, and what a command prints is made the same on every
//! machine ([`Output::plain`]), so that it can be compared as text.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

/// The time that it always is.
pub const NOW: &str = "2026-11-15T18:00:00Z";

#[derive(Debug)]
pub struct TestEnv {
    dir: TempDir,
    program: PathBuf,
}

/// How a command ended, and what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The exit status, or 128 + the signal.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl TestEnv {
    /// `program` is the binary under test: `env!("CARGO_BIN_EXE_segue")`.
    pub fn new(program: impl Into<PathBuf>) -> io::Result<Self> {
        let env = Self { dir: TempDir::new()?, program: program.into() };
        fs::create_dir_all(env.repo())?;
        fs::create_dir_all(env.path("user"))?;
        Ok(env)
    }

    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where Segue keeps its sessions.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// Where commands are run.
    #[must_use]
    pub fn repo(&self) -> PathBuf {
        self.path("repo")
    }

    /// Writes a file of the repository.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.repo().join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)
    }

    /// Writes a script beside the repository, and returns the name of its model.
    pub fn script(&self, text: &str) -> io::Result<String> {
        let path = self.path("script.toml");
        fs::write(&path, text)?;
        Ok(format!("script:{}", path.display()))
    }

    /// Any program, in the repository, with this environment and no other.
    #[must_use]
    pub fn any(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .current_dir(self.repo())
            .stdin(Stdio::null())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("user"))
            .env("TMPDIR", self.dir.path())
            .env("SEGUE_HOME", self.home())
            .env("SEGUE_CLOCK", NOW)
            .env("SEGUE_OFFER", "never")
            .env("COLUMNS", "100")
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_AUTHOR_NAME", "test")
            .env("GIT_AUTHOR_EMAIL", "test@localhost")
            .env("GIT_COMMITTER_NAME", "test")
            .env("GIT_COMMITTER_EMAIL", "test@localhost");
        command
    }

    /// Segue, ready to be changed further and started.
    #[must_use]
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.any(&self.program);
        command.args(args);
        command
    }

    /// Runs Segue to its end.
    pub fn segue<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> io::Result<Output> {
        Output::of(&mut self.command(args))
    }

    pub fn git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> io::Result<Output> {
        Output::of(self.any("git").args(args))
    }

    /// The directory of the session with this number.
    pub fn session_dir(&self, number: u64) -> io::Result<PathBuf> {
        let at = fs::read_to_string(self.home().join("numbers").join(number.to_string()))?;
        Ok(self.home().join("sessions").join(at.trim()))
    }

    /// A session's journal, line by line.
    pub fn journal(&self, number: u64) -> io::Result<Vec<serde_json::Value>> {
        let text = fs::read_to_string(self.session_dir(number)?.join("journal.jsonl"))?;
        text.lines().map(|line| serde_json::from_str(line).map_err(io::Error::other)).collect()
    }

    /// What was printed, with everything replaced that differs from run to run.
    #[must_use]
    pub fn plain(&self, text: &str) -> String {
        let dir = self.dir.path();
        let real = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        let text = replace_path(text, &real);
        let text = replace_path(&text, dir);
        without_ids(&text)
    }
}

fn replace_path(text: &str, path: &Path) -> String {
    text.replace(&path.display().to_string(), "$DIR")
}

/// Session ids become `$ULID`, and the hash in a repository's id becomes `$HASH`.
fn without_ids(text: &str) -> String {
    let is_ulid = |word: &str| {
        word.len() == 26
            && word.starts_with("01")
            && word.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
    };
    let is_hash = |word: &str| {
        word.len() == 8 && word.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        match word.as_str() {
            word if is_ulid(word) => out.push_str("$ULID"),
            word if is_hash(word) => out.push_str("$HASH"),
            word => out.push_str(word),
        }
        word.clear();
        out.push(c);
    }
    out.pop();
    out
}

impl Output {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> io::Result<Self> {
        use std::os::unix::process::ExitStatusExt;
        let output = command.output()?;
        let status = output.status.code().or(output.status.signal().map(|signal| 128 + signal));
        Ok(Self {
            status: status.unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// All of it as one text, for a snapshot.
    #[must_use]
    pub fn plain(&self, env: &TestEnv) -> String {
        format!(
            "status {}\n── stdout\n{}── stderr\n{}",
            self.status,
            env.plain(&self.stdout),
            env.plain(&self.stderr)
        )
    }
}
