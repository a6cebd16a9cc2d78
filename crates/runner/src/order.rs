//! What is to be run in a pane of tmux, handed over without a trace.
//!
//! A server of tmux keeps the environment that it was started with, and whatever is in a command
//! line can be read by everybody. So a pane starts Segue itself, which waits at a named pipe for the
//! program, its arguments and its environment, and becomes that program: the pane's process is the
//! agent's. The pipe is the owner's alone, and nothing of it is ever on the disk.
//!
//! Nothing is started before the pipe was read: a pane that still waits has done nothing yet.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::{
        fs::{FileTypeExt, OpenOptionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use serde::{Deserialize, Serialize};

/// The hidden first argument that makes Segue wait for an order.
pub const ARGUMENT: &str = "__order";

/// Longer than any order that we write.
const MOST_BYTES: u64 = 16 << 20;

/// What the terminal says of itself is the pane's to say.
const OF_THE_TERMINAL: &[&str] = &[
    "TERM",
    "COLORTERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TMUX",
    "TMUX_PANE",
    "COLUMNS",
    "LINES",
];

/// A program, and all that it gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// All of its environment, but for what the terminal says of itself.
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
}

/// Makes the pipe.
pub fn make_pipe(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?)
}

/// Hands an order over. False where nobody waits at the pipe.
pub fn hand_over(path: &Path, order: &Order) -> io::Result<bool> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = OpenOptions::new().write(true).custom_flags(flags).open(path);
    let mut pipe = match opened {
        Ok(pipe) => pipe,
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            return Ok(false);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    // From here on the reader takes what it is given, however long it is.
    rustix::fs::fcntl_setfl(&pipe, OFlags::empty())?;
    pipe.write_all(&serde_json::to_vec(order)?)?;
    let _ = fs::remove_file(path);
    Ok(true)
}

/// Whether a process still waits for its order.
#[must_use]
pub fn is_waiting(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(ARGUMENT.as_bytes())
}

/// Waits for an order, and becomes what it names. Returns only where that can't be done.
pub fn obey(path: &Path) -> io::Error {
    match read(path) {
        Ok(order) => become_it(&order),
        Err(error) => error,
    }
}

fn read(path: &Path) -> io::Result<Order> {
    if !fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::other("no order can come from there"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut text)?;
    // Whoever looks next sees by this that it was given its order.
    let _ = fs::remove_file(path);
    Ok(serde_json::from_slice(&text)?)
}

fn become_it(order: &Order) -> io::Error {
    let mut command = Command::new(&order.program);
    let own = std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(|name| OF_THE_TERMINAL.contains(&name)));
    let own: Vec<_> = own.collect();
    let given = order.env.iter().filter(|(name, _)| !OF_THE_TERMINAL.contains(&name.as_str()));
    command.args(&order.args).env_clear().envs(given).envs(own).current_dir(&order.cwd);
    let error = command.exec();
    io::Error::new(error.kind(), format!("{}: {error}", order.program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order {
            program: "/bin/true".into(),
            args: vec!["a b".to_owned()],
            env: [("KEY".to_owned(), "x".repeat(1 << 18))].into(),
            cwd: "/".into(),
        }
    }

    #[test]
    fn an_order_waits_for_nobody_and_comes_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        assert!(!hand_over(&path, &order()).unwrap());
        make_pipe(&path).unwrap();
        assert!(!hand_over(&path, &order()).unwrap());
        let place = path.clone();
        let reader = std::thread::spawn(move || read(&place).unwrap());
        while !hand_over(&path, &order()).unwrap() {
            std::thread::yield_now();
        }
        assert_eq!(reader.join().unwrap(), order());
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_pipe_is_not_obeyed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        std::fs::write(&path, serde_json::to_vec(&order()).unwrap()).unwrap();
        assert!(read(&path).is_err());
    }
}
