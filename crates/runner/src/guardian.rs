//! The guardian: a small process between Segue and every command that an agent is or starts.
//!
//! Promise: every process that a guarded command started ends with Segue, also one that called
//! setsid, forked twice or ignores SIGTERM and SIGHUP, and also when Segue gets a SIGKILL.
//!
//! How: Segue starts itself again as `segue __guardian --cwd DIR -- PROGRAM ARGS…`. The guardian has
//! a session of its own, ignores the signals that end programs and is the subreaper of all below it:
//! an orphan down there becomes its child and never init's. It starts the command, says how the
//! command ended, and stays while anything that the command left behind lives (a server in the
//! background may go on). It ends the whole tree when the control channel closes, which the kernel
//! does for Segue however Segue dies.
//!
//! The control channel is a socket pair, and the guardian gets its end as standard input. That is
//! the one descriptor that can be handed over without `unsafe` and without a moment in which it
//! could be inherited by a process that another thread starts just then (as a descriptor without
//! close-on-exec could be). The command's own standard input then travels over that socket. Standard
//! output and error are inherited straight through.
//!
//! On the channel:
//!
//! ```text
//! Segue → guardian     one byte, with the command's stdin attached where it has one: start
//!                      end SIGNAL MILLISECONDS: signal it, and kill what is left after the grace
//! guardian → Segue     spawned PID | failed ERRNO, then exited STATUS | signalled SIGNAL
//! ```
//!
//! Limits: what asks another service to start something (systemd-run, docker, at) gets it outside of
//! the tree, and what runs as another user cannot be signalled; the guardian then waits for its end.

mod channel;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, WaitOptions};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use self::channel::{poll_until, receive, receive_start, send_line, send_start, take_words};
use crate::process;

/// The hidden first argument that makes Segue a guardian.
pub const ARGUMENT: &str = "__guardian";

/// How long the guardian may take to start the command. Only a stopped or starved one takes it.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How much output can wait: programs on Node.js may exit with what a pipe did not take in memory.
const ROOM: usize = 1 << 20;
/// How long [`Guarded::kill_tree`] waits for the end of the tree.
const KILL_LIMIT: Duration = Duration::from_secs(30);

/// What to start.
#[derive(Debug)]
pub struct Spec {
    /// Looked for in `PATH` (that of the command) when it has no slash; else relative to `cwd`.
    pub program: OsString,
    pub args: Vec<OsString>,
    pub cwd: PathBuf,
    /// Added to the environment of Segue; the session's markers belong here (see [`process`]).
    pub env: Vec<(OsString, OsString)>,
    /// Removed from the environment of Segue.
    pub env_remove: Vec<OsString>,
    pub stdin: Stdin,
    /// The program that is called with [`ARGUMENT`]; usually [`process::this_program`].
    pub guardian: PathBuf,
}

/// Where the command reads from.
#[derive(Debug)]
pub enum Stdin {
    Null,
    /// A pipe, to be had from [`Guarded::take_stdin`].
    Piped,
    File(File),
}

#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("{}: program not found", .0.display())]
    NotFound(OsString),
    #[error("{}: no such directory to run in", .0.display())]
    NoDirectory(PathBuf),
    #[error("cannot start {}: {source}", .program.display())]
    Io { program: OsString, source: io::Error },
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// The guardian died first: how the command ended is unknown, and it may still run. Call
    /// [`process::end_leftovers`].
    GuardianLost,
}

/// What [`Guarded::kill_tree`] left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Nothing.
    Clean,
    /// Unknown, see [`Exit::GuardianLost`].
    GuardianLost,
    /// Something that cannot be killed: it runs as another user, or hangs in the kernel. The
    /// guardian goes on trying.
    Unfinished,
}

/// A command with all that it started. Dropping it ends them all.
#[derive(Debug)]
pub struct Guarded {
    control: UnixStream,
    guardian: Option<Child>,
    guardian_pid: u32,
    pid: u32,
    exit: Option<Exit>,
    received: Vec<u8>,
    stdin: Option<PipeWriter>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Guarded {
    /// Starts the command, and returns when it runs or when it is known why it does not.
    pub fn spawn(spec: Spec) -> Result<Guarded, SpawnError> {
        let program = spec.program.clone();
        let cwd = spec.cwd.clone();
        match Guarded::start(spec) {
            Ok(guarded) => Ok(guarded),
            Err(source) if source.raw_os_error() != Some(Errno::NOENT.raw_os_error()) => {
                Err(SpawnError::Io { program, source })
            }
            Err(_) if cwd.is_dir() => Err(SpawnError::NotFound(program)),
            Err(_) => Err(SpawnError::NoDirectory(cwd)),
        }
    }

    /// An error with an errno is that of starting the command; one of the guardian has only a text.
    fn start(spec: Spec) -> io::Result<Guarded> {
        let (control, theirs) = UnixStream::pair()?;
        let mut child = guardian_command(&spec, theirs).spawn().map_err(|source| {
            let text = format!("guardian {}: {source}", spec.guardian.display());
            io::Error::new(source.kind(), text)
        })?;
        let _ = child.stdout.as_ref().map(|stdout| fcntl_setpipe_size(stdout, ROOM));
        let mut guarded = Guarded {
            control,
            guardian_pid: child.id(),
            pid: 0,
            exit: None,
            received: Vec::new(),
            stdin: None,
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            guardian: Some(child),
        };
        let stdin = match spec.stdin {
            Stdin::Null => None,
            Stdin::File(file) => Some(OwnedFd::from(file)),
            Stdin::Piped => {
                let (reader, writer) = io::pipe()?;
                guarded.stdin = Some(writer);
                Some(OwnedFd::from(reader))
            }
        };
        send_start(&guarded.control, stdin)?;

        let answer = guarded.read_words(Some(START_LIMIT))?;
        match words(&answer.unwrap_or_default()).as_slice() {
            ["spawned", pid] => {
                guarded.pid = pid.parse().map_err(io::Error::other)?;
                Ok(guarded)
            }
            ["failed", code] => {
                Err(io::Error::from_raw_os_error(code.parse().map_err(io::Error::other)?))
            }
            _ => Err(io::Error::other("the guardian did not answer")),
        }
    }

    /// The command's process id, which is also that of its process group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn guardian_pid(&self) -> u32 {
        self.guardian_pid
    }

    pub fn take_stdin(&mut self) -> Option<PipeWriter> {
        self.stdin.take()
    }

    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.stderr.take()
    }

    /// How the command ended, if it did. What it started may go on.
    pub fn try_wait(&mut self) -> io::Result<Option<Exit>> {
        self.wait_timeout(Duration::ZERO)
    }

    pub fn wait_timeout(&mut self, limit: Duration) -> io::Result<Option<Exit>> {
        self.wait_until(Some(limit))
    }

    pub fn wait(&mut self) -> io::Result<Exit> {
        loop {
            if let Some(exit) = self.wait_until(None)? {
                return Ok(exit);
            }
        }
    }

    /// Signals the command's process group (all that is left of the tree, once the command itself
    /// has ended), and kills all that is still there after the grace. Returns at once.
    pub fn end(&self, signal: Signal, grace: Duration) {
        let line = format!("end {} {}", signal.as_raw(), grace.as_millis());
        // A guardian that is gone has nothing left to end; the next wait says so.
        let _ = send_line(&self.control, &line);
    }

    /// Ends the whole tree at once, and waits until nothing of it is left.
    pub fn kill_tree(mut self) -> io::Result<Ended> {
        let _ = self.control.shutdown(std::net::Shutdown::Both);
        let deadline = Instant::now() + KILL_LIMIT;
        let mut pause = Duration::from_millis(1);
        while let Some(guardian) = &mut self.guardian {
            match guardian.try_wait()? {
                Some(status) if status.success() => return Ok(Ended::Clean),
                Some(_) => return Ok(Ended::GuardianLost),
                None if Instant::now() >= deadline => return Ok(Ended::Unfinished),
                None => thread::sleep(pause),
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        Ok(Ended::Clean)
    }

    fn wait_until(&mut self, limit: Option<Duration>) -> io::Result<Option<Exit>> {
        if self.exit.is_some() {
            return Ok(self.exit);
        }
        let line = match self.read_words(limit) {
            Ok(None) => return Ok(None),
            Ok(Some(line)) => line,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Vec::new(),
            Err(error) => return Err(error),
        };
        let exit = match words(&line).as_slice() {
            ["exited", code] => code.parse().map(Exit::Code).ok(),
            ["signalled", signal] => signal.parse().map(Exit::Signal).ok(),
            _ => None,
        };
        self.exit = exit.or(Some(Exit::GuardianLost));
        Ok(self.exit)
    }

    /// The next line of the guardian; `None` when the time is up, `UnexpectedEof` when it is gone.
    fn read_words(&mut self, limit: Option<Duration>) -> io::Result<Option<Vec<String>>> {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            if let Some(line) = take_words(&mut self.received) {
                return Ok(Some(line));
            }
            let mut fds = [PollFd::new(&self.control, PollFlags::IN)];
            if !poll_until(&mut fds, deadline)? {
                return Ok(None);
            }
            if !receive(&self.control, &mut self.received) {
                let text = "the guardian is gone";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Not the close alone: a process that another thread forked just now holds a copy until it
        // executes its program. The shutdown reaches the guardian at once.
        let _ = self.control.shutdown(std::net::Shutdown::Both);
        let Some(mut guardian) = self.guardian.take() else {
            return;
        };
        if matches!(guardian.try_wait(), Ok(None)) {
            // Somebody has to collect its status, and a drop must not wait for it.
            let reaper = thread::Builder::new().name("guardian-reaper".into());
            let _ = reaper.spawn(move || guardian.wait());
        }
    }
}

/// For matching: a slice pattern holds `&str`, not `String`.
fn words(line: &[String]) -> Vec<&str> {
    line.iter().map(String::as_str).collect()
}

fn guardian_command(spec: &Spec, control: UnixStream) -> Command {
    let mut command = Command::new(&spec.guardian);
    command
        .arg0("segue")
        .args([OsStr::new(ARGUMENT), OsStr::new("--cwd")])
        .arg(&spec.cwd)
        .arg("--")
        .arg(&spec.program)
        .args(&spec.args)
        .stdin(OwnedFd::from(control))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for name in &spec.env_remove {
        command.env_remove(name);
    }
    for (name, value) in &spec.env {
        command.env(name, value);
    }
    command
}

/// The guardian's own main. `args` is what follows [`ARGUMENT`].
///
/// Status 0: nothing is left of the tree. 2: it was not called by Segue. Anything else is a crash.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    ExitCode::from(run(args))
}

/// The same, for a program that has no `ExitCode` to give.
pub fn run(args: impl Iterator<Item = OsString>) -> u8 {
    let Some(mut command) = parse(args) else {
        eprintln!("segue {ARGUMENT}: not meant to be called by hand");
        return 2;
    };
    match guard(&mut command) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("segue {ARGUMENT}: {error}");
            2
        }
    }
}

fn parse(mut args: impl Iterator<Item = OsString>) -> Option<Command> {
    let option = args.next()?;
    let cwd = args.next()?;
    let dashes = args.next()?;
    if option != "--cwd" || dashes != "--" {
        return None;
    }
    let mut command = Command::new(args.next()?);
    // A process group of its own, so that one signal reaches the command with its plain children.
    command.args(args).current_dir(cwd).process_group(0);
    Some(command)
}

fn guard(command: &mut Command) -> io::Result<()> {
    // Handlers instead of SIG_IGN: what is ignored would stay ignored in the command.
    let unused = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, Arc::clone(&unused))?;
    }
    let (wakeups, waker) = UnixStream::pair()?;
    wakeups.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGCHLD, waker)?;
    // Fails only for the leader of a group, which a guardian that Segue started is not.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;

    // The channel moves away from descriptor 0, to one that the command does not inherit.
    let control = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    let control = UnixStream::from(control);

    let Some(stdin) = receive_start(&control)? else {
        return Ok(());
    };
    // Segue may have died since it sent that; then nothing must start.
    let mut fds = [PollFd::new(&control, PollFlags::RDHUP)];
    if poll_until(&mut fds, Some(Instant::now()))? {
        return Ok(());
    }
    command.stdin(stdin);
    let spawned = command.spawn();
    // From here on only the tree holds the ends of Segue's pipes, so that Segue sees their end.
    command.stdin(Stdio::null());
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    // A directory that is somebody's current one cannot be unmounted.
    let _ = std::env::set_current_dir("/");
    match spawned {
        Err(error) => {
            let code = error.raw_os_error().unwrap_or_default();
            let _ = send_line(&control, &format!("failed {code}"));
        }
        Ok(child) => {
            let _ = send_line(&control, &format!("spawned {}", child.id()));
            let main = Pid::from_raw(child.id().cast_signed());
            Tree { control, main }.watch(&wakeups);
        }
    }
    Ok(())
}

/// The guardian's view of what it guards. One thread does all: so no pid is collected, and thereby
/// given free, while a signal for it is under way.
struct Tree {
    control: UnixStream,
    /// The command, until it has ended.
    main: Option<Pid>,
}

impl Tree {
    fn watch(&mut self, wakeups: &UnixStream) {
        let mut received = Vec::new();
        let mut deadline = None;
        while self.reap() {
            let mut fds =
                [PollFd::new(&self.control, PollFlags::IN), PollFd::new(wakeups, PollFlags::IN)];
            // No poll, no watch: without it the only safe thing is to end.
            let expired = !matches!(poll_until(&mut fds, deadline), Ok(true));
            let [heard, woken] = fds.map(|fd| !fd.revents().is_empty());
            if woken {
                receive(wakeups, &mut Vec::new());
            }
            if expired || (heard && !receive(&self.control, &mut received)) {
                return self.kill();
            }
            while let Some(line) = take_words(&mut received) {
                if let Some(grace) = self.obey(&line) {
                    deadline = Instant::now().checked_add(grace);
                }
            }
        }
    }

    fn obey(&self, line: &[String]) -> Option<Duration> {
        let ["end", signal, grace] = words(line)[..] else {
            return None;
        };
        let signal = signal.parse().ok().and_then(Signal::from_named_raw)?;
        match self.main {
            Some(group) => {
                let _ = rustix::process::kill_process_group(group, signal);
            }
            // Its number may be somebody else's by now, so what is left is signalled one by one.
            None => process::own_descendants().iter().for_each(|stat| stat.signal(signal)),
        }
        Some(Duration::from_millis(grace.parse().ok()?))
    }

    /// Ends everything. The kernel's word that there is no child left is the only way out: a
    /// descendant whose ancestors are gone is a child of the subreaper, so it cannot be missed.
    fn kill(&mut self) {
        let mut pause = Duration::from_millis(1);
        while self.reap() {
            process::freeze_and_kill(process::own_descendants);
            if !self.reap() {
                return;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// Collects all that has ended, reports the command's end; `false` when no child is left.
    fn reap(&mut self) -> bool {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.main => {
                    let line = match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => format!("exited {code}"),
                        (None, Some(signal)) => format!("signalled {signal}"),
                        (None, None) => continue,
                    };
                    self.main = None;
                    let _ = send_line(&self.control, &line);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}
