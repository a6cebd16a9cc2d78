//! A real tmux with one program in it, driven by keys.

use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Pid;
use segue_testkit::env::{Output, TestEnv};
use tempfile::TempDir;

use crate::support::LONG;

pub(crate) const SEGUE: &str = env!("CARGO_BIN_EXE_segue");

/// Exactly this one: without the sign, a name is a pattern.
const TARGET: &str = "=segue:";

/// A terminal with one program in it. Its server is its own, and ends with it.
pub(crate) struct Tmux<'a> {
    env: &'a TestEnv,
    socket: TempDir,
}

impl<'a> Tmux<'a> {
    /// Runs a command, then says how it ended and what it has left of the terminal.
    pub(crate) fn start(env: &'a TestEnv, line: &str, (width, height): (u16, u16)) -> Self {
        let tmux = Self { env, socket: TempDir::new().unwrap() };
        // The shell survives a closed terminal, to say how Segue ended.
        let script = format!(
            "trap : HUP; sh -c 'echo $$ >../pid; exec {line}'; echo $? >../ended; \
             echo status $(cat ../ended); stty -a; cat"
        );
        let (width, height) = (width.to_string(), height.to_string());
        let size = ["-x", &width, "-y", &height];
        let output =
            tmux.run(&[&["new-session", "-d", "-s", "segue"], &size[..], &[&script]].concat());
        assert_eq!((output.status, output.stderr.as_str()), (0, ""), "this test needs tmux");
        tmux
    }

    fn command(&self) -> Command {
        let mut command = self.env.any("tmux");
        let socket = self.socket.path().join("tmux");
        command.arg("-u").arg("-S").arg(socket).args(["-f", "/dev/null"]).env("SHELL", "/bin/sh");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        Output::of(self.command().args(args)).unwrap()
    }

    /// A command of tmux's about the one pane.
    pub(crate) fn on_pane(&self, command: &str, args: &[&str]) -> Output {
        let output = self.run(&[&[command, "-t", TARGET], args].concat());
        assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{command}");
        output
    }

    pub(crate) fn keys(&self, keys: &[&str]) {
        self.on_pane("send-keys", keys);
    }

    pub(crate) fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        self.on_pane("resize-window", &["-x", &width, "-y", &height]);
    }

    pub(crate) fn screen(&self) -> String {
        self.on_pane("capture-pane", &["-p"]).stdout
    }

    /// Waits until this is on the screen, and returns the screen.
    pub(crate) fn sees(&self, text: &str) -> String {
        let started = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(started.elapsed() < LONG, "{text}: it did not come\n{screen}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end of Segue, which must have given the terminal back.
    pub(crate) fn ends(&self, status: i32) {
        self.sees(&format!("status {status}\n"));
        let screen = self.sees("echoctl");
        let words: Vec<&str> = screen.split_whitespace().collect();
        for mode in ["icanon", "echo", "isig", "opost", "icrnl"] {
            let mode_is_on = words.iter().any(|word| word.trim_end_matches(';') == mode);
            assert!(mode_is_on, "{mode}: {screen}");
        }
        let flags = self.on_pane("display-message", &["-p", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(flags.stdout, "0 1\n");
    }

    pub(crate) fn pid(&self) -> Pid {
        let text = fs::read_to_string(self.env.path("pid")).unwrap();
        Pid::from_raw(text.trim().parse().unwrap()).unwrap()
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}
