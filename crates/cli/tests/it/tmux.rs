//! Work in the background, shown in a real tmux: closing things stops nothing.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use rustix::process::{Pid, Signal, kill_process};
use segue_testkit::env::{Output, TestEnv};

use crate::support::{
    DONE, KEY, WORK, data, has, json, kinds, scripted, scripted_in_git, show, until,
};

/// Stands still until there is a file `go` beside the repository.
const GATED: &str = r#"
[[reply]]
text = "This takes a while."
tools = [{ name = "shell", input = { command = "touch begun; until [ -e ../go ]; do sleep 0.05; done" } }]
usage = { input = 100, output = 10 }

[[reply]]
text = "I looked, and it is fine."
usage = { input = 100, output = 10 }
repeat = true
"#;

/// A server of tmux that only this test knows, ended with it.
struct Server<'a> {
    env: &'a TestEnv,
}

impl<'a> Server<'a> {
    fn new(env: &'a TestEnv) -> Self {
        fs::create_dir(env.path("t")).unwrap();
        Self { env }
    }

    fn prepare(&self, mut command: Command) -> Command {
        let vars = [("TERM", "xterm"), ("SEGUE_TMUX_SOCKET", "inner"), ("SHELL", "/bin/sh")];
        command.envs(vars).env("TMUX_TMPDIR", self.env.path("t")).env_remove("SEGUE_CLOCK");
        command
    }

    fn command(&self, args: &[&str]) -> Command {
        self.prepare(self.env.command(args))
    }

    fn segue(&self, args: &[&str]) -> Output {
        Output::of(&mut self.command(args)).unwrap()
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut command = self.prepare(self.env.any("tmux"));
        Output::of(command.args(["-L", "inner"]).args(args)).unwrap()
    }

    /// What each pane shows, and whether it is dead: `segue-repo-1 worker 0`.
    fn panes(&self) -> Vec<String> {
        let format = "#{session_name} #{pane_title} #{pane_dead}";
        let listed = self.tmux(&["list-panes", "-a", "-F", format]).stdout;
        let mut panes: Vec<String> = listed.lines().map(str::to_owned).collect();
        panes.sort();
        panes
    }

    fn pane(&self, session: &str, part: &str) -> String {
        let format = "#{session_name} #{@segue_part} #{pane_id}";
        let listed = self.tmux(&["list-panes", "-a", "-F", format]).stdout;
        let start = format!("{session} {part} ");
        let id = listed.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned);
        id.unwrap_or_else(|| panic!("{start}: {listed}"))
    }

    /// Waits until a pane shows this.
    fn sees(&self, session: &str, part: &str, text: &str) {
        let pane = self.pane(session, part);
        until(text, || self.tmux(&["capture-pane", "-p", "-t", &pane]).stdout.contains(text));
    }

    /// Starts the work of [`GATED`], and comes back when it waits.
    fn start(&self, model: &str) {
        let output = self.segue(&["run", "Take your time", "--model", model, "--tmux"]);
        assert_eq!((output.status, output.stdout.as_str()), (0, "segue-repo-1\nsegue attach 1\n"));
        until("the tool", || self.env.repo().join("begun").exists());
    }

    fn go(&self) {
        fs::write(self.env.path("go"), "").unwrap();
    }

    fn is_at_work(&self) -> u64 {
        let shown = show(self.env, "1");
        assert_eq!(shown["status"], "running", "{shown}");
        shown["holder"]["pid"].as_u64().unwrap()
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
        self.go();
        self.segue(&["stop", "1"]);
    }
}

/// A terminal with a shell in it, which is a server of its own.
struct Terminal<'a> {
    server: &'a Server<'a>,
}

impl<'a> Terminal<'a> {
    /// Runs Segue there, and again after each line that is typed.
    fn open(server: &'a Server<'a>, args: &str) -> Self {
        let terminal = Self { server };
        let segue = env!("CARGO_BIN_EXE_segue");
        let script = format!("unset TMUX; {segue} {args}; while read x; do {segue} $x; done");
        let output = terminal.tmux(&["new-session", "-d", "-x", "90", "-y", "30", &script]);
        assert_eq!((output.status, output.stderr.as_str()), (0, ""), "this test needs tmux");
        terminal
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut command = self.server.prepare(self.server.env.any("tmux"));
        Output::of(command.args(["-u", "-L", "outer", "-f", "/dev/null"]).args(args)).unwrap()
    }

    fn sees(&self, text: &str) {
        until(text, || self.tmux(&["capture-pane", "-p"]).stdout.contains(text));
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn kill(pid: u64) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}

const BOTH: [&str; 2] = ["segue-repo-1 status 0", "segue-repo-1 worker 0"];

#[test]
fn neither_a_closed_terminal_nor_a_killed_tmux_stops_the_work() {
    let (env, model) = scripted(GATED);
    let server = Server::new(&env);
    let args = format!("run 'Take your time' --model {model} --tmux");
    let terminal = Terminal::open(&server, &args);
    for text in ["worker", "This takes a while.", "segue stop 1"] {
        terminal.sees(text);
    }
    let worker = server.is_at_work();
    drop(terminal);
    until("the client's end", || server.tmux(&["list-clients"]).stdout.is_empty());
    assert_eq!((server.panes(), server.is_at_work()), (BOTH.map(str::to_owned).to_vec(), worker));

    assert_eq!(server.tmux(&["kill-server"]).status, 0);
    assert_eq!((server.panes().len(), server.is_at_work()), (0, worker));
    let output = server.segue(&["attach", "1"]);
    let words = "segue-repo-1\ntmux -L inner attach -t =segue-repo-1\n";
    assert_eq!((output.status, output.stdout.as_str()), (0, words), "{}", output.stderr);
    assert_eq!(server.panes(), BOTH);

    let pid = server.tmux(&["display-message", "-p", "#{pid}"]).stdout;
    kill(pid.trim().parse().unwrap());
    until("the server's end", || server.panes().is_empty());
    assert_eq!(server.is_at_work(), worker);
    assert_eq!(server.segue(&["attach", "1"]).stdout, words);
    assert_eq!(server.panes(), BOTH);

    server.go();
    until("the end", || has(&env, 1, "session.stopped"));
    assert_eq!(data(&env, 1, "session.stopped")[0]["reason"], "done");
    assert_eq!(kinds(&env, 1).iter().filter(|kind| *kind == "session.resumed").count(), 1);
    server.sees("segue-repo-1", "worker", "✔ done");
    server.sees("segue-repo-1", "status", "■ completed");
}

#[test]
fn a_stop_is_recorded_and_a_resume_finds_the_same_panes() {
    let (env, model) = scripted(GATED);
    let server = Server::new(&env);
    server.start(&model);
    let worker = server.pane("segue-repo-1", "worker");
    let again = server.segue(&["resume", "1", "--tmux"]);
    assert_eq!(again.status, 0);
    assert!(again.stderr.contains("at work already: process "), "{}", again.stderr);
    assert_eq!(server.segue(&["resume", "1", "More", "--tmux"]).status, 5);

    let output = server.segue(&["stop", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("session 1 has stopped: interrupted"), "{}", output.stderr);
    assert!(output.stderr.ends_with("\nsegue resume 1\n"), "{}", output.stderr);
    let stops = data(&env, 1, "session.stopped");
    assert_eq!((stops.len(), &stops[0]["reason"]), (1, &"interrupted".into()));
    let output = server.segue(&["stop", "1", "--json"]);
    let told = json(&output.stdout);
    assert_eq!((output.status, &told["was_running"]), (0, &false.into()));
    assert_eq!(told["next"], "segue resume 1");

    assert_eq!(server.segue(&["resume", "1", "--tmux"]).status, 0);
    until("the end", || data(&env, 1, "session.stopped").len() == 2);
    assert_eq!(data(&env, 1, "session.stopped")[1]["reason"], "done");
    assert_eq!(server.pane("segue-repo-1", "worker"), worker);
    server.sees("segue-repo-1", "worker", "I looked, and it is fine.");
}

#[test]
fn what_is_missing_is_added_and_what_ended_begins_again() {
    let (env, model) = scripted(DONE);
    let server = Server::new(&env);
    assert_eq!(server.segue(&["run", "Go", "--model", &model]).status, 0);
    assert_eq!(server.segue(&["attach", "1"]).status, 0);
    let worker = server.pane("segue-repo-1", "worker");
    server.sees("segue-repo-1", "worker", "All is well.");
    server.tmux(&["send-keys", "-t", &worker, "C-c"]);
    until("a dead pane", || server.panes().contains(&"segue-repo-1 worker 1".to_owned()));
    let status = server.pane("segue-repo-1", "status");
    assert_eq!(server.tmux(&["kill-pane", "-t", &status]).status, 0);
    let reviewers = env.session_dir(1).unwrap().join("reviewers");
    for name in ["opus", "a.b c#{pid}"] {
        fs::create_dir_all(reviewers.join(name)).unwrap();
    }
    assert_eq!(server.segue(&["attach", "1"]).status, 0);
    let parts = ["a-b-c--pid- 0", "opus 0", "status 0", "worker 0"];
    assert_eq!(server.panes(), parts.map(|part| format!("segue-repo-1 {part}")));
    assert_eq!(server.pane("segue-repo-1", "worker"), worker);
    server.sees("segue-repo-1", "reviewers/opus", "waiting for opus to begin");
    let all = server.panes();
    assert_eq!(server.segue(&["attach", "1"]).status, 0);
    assert_eq!(server.panes(), all);
}

#[test]
fn a_name_that_begins_like_another_is_another() {
    let (env, model) = scripted(DONE);
    let server = Server::new(&env);
    for _ in 0..11 {
        assert_eq!(server.segue(&["run", "Go", "--model", &model]).status, 0);
    }
    let names = || {
        let listed = server.tmux(&["list-sessions", "-F", "#{session_name}"]).stdout;
        listed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(server.segue(&["attach", "11"]).stdout.lines().next(), Some("segue-repo-11"));
    assert_eq!(server.segue(&["attach", "1"]).stdout.lines().next(), Some("segue-repo-1"));
    assert_eq!(names(), ["segue-repo-1", "segue-repo-11"]);
    server.tmux(&["kill-session", "-t", "=segue-repo-1"]);
    server.segue(&["attach", "1"]);
    server.tmux(&["kill-session", "-t", "=segue-repo-11"]);
    server.segue(&["attach", "11"]);
    assert_eq!(names(), ["segue-repo-1", "segue-repo-11"]);
    assert_eq!(server.panes().len(), 4);

    // One that somebody else made is left alone.
    server.tmux(&["new-session", "-d", "-s", "segue-repo-2", "sleep 300"]);
    let output = server.segue(&["attach", "2"]);
    let name = output.stdout.lines().next().unwrap().to_owned();
    assert!(name.starts_with("segue-repo-2-") && name.len() == 19, "{name}");
    assert_eq!(server.panes().len(), 7);
}

#[test]
fn a_repository_may_have_any_name() {
    let (env, model) = scripted(DONE);
    let server = Server::new(&env);
    let dir = env.path("a.b: \"c' $d #{pid};");
    fs::create_dir(&dir).unwrap();
    let mut command = server.command(&["run", "Go", "--model", &model, "--tmux"]);
    let home = dir.join(".segue;");
    let output = Output::of(command.current_dir(&dir).env("SEGUE_HOME", &home)).unwrap();
    let name = "segue-a-b---c---d---pid---1";
    assert_eq!(output.stdout, format!("{name}\nsegue attach 1\n"), "{}", output.stderr);
    server.sees(name, "worker", "All is well.");
    server.sees(name, "status", "■ completed");
}

#[test]
fn it_is_left_with_keys_and_seen_again() {
    let (env, model) = scripted(GATED);
    let server = Server::new(&env);
    server.start(&model);
    let terminal = Terminal::open(&server, "attach 1");
    for _ in 0..2 {
        terminal.sees("This takes a while.");
        terminal.sees("status");
        terminal.tmux(&["send-keys", "C-b", "d"]);
        terminal.sees("session 1 goes on in the background");
        terminal.tmux(&["send-keys", "attach 1", "Enter"]);
    }
    terminal.sees("segue stop 1");
    server.is_at_work();
}

#[test]
fn without_tmux_nothing_is_begun() {
    let (env, model) = scripted(DONE);
    fs::create_dir(env.path("bin")).unwrap();
    let mut command = env.command(["run", "Go", "--model", &model, "--tmux"]);
    let output = Output::of(command.env("PATH", env.path("bin"))).unwrap();
    assert_eq!((output.status, output.stdout.as_str()), (1, ""));
    assert!(output.stderr.contains("error: tmux is not installed"), "{}", output.stderr);
    assert!(output.stderr.contains("apt install tmux"), "{}", output.stderr);
    assert!(env.session_dir(1).is_err());
}

#[test]
fn what_the_background_says_is_the_error() {
    let (env, model) = scripted_in_git(DONE);
    let server = Server::new(&env);
    // Only who works finds out that there can be no worktree.
    env.write(".git/worktrees", "").unwrap();
    let output = server.segue(&["run", "Go", "--model", &model, "--worktree", "--tmux"]);
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("error: the worktree: "), "{}", output.stderr);
    assert_eq!(server.segue(&["show", "1"]).status, 4);
    assert_eq!(server.panes().len(), 0);
}

#[test]
fn caps_and_wishes_reach_the_background() {
    let (env, model) = scripted(WORK);
    let server = Server::new(&env);
    let args = ["run", "Go", "--model", &model, "--max-steps", "1", "--max-cost", "2.5", "--tmux"];
    let output = server.segue(&args);
    assert_eq!(output.status, 2, "{}", output.stderr);
    let args = ["run", "Go", "--model", &model, "--max-steps", "1", "--tmux", "--json"];
    let output = server.segue(&args);
    let told: Vec<_> = output.stdout.lines().map(json).collect();
    assert_eq!(told[0]["began"]["session"], "1");
    assert_eq!(told[1]["tmux"]["name"], "segue-repo-1");
    until("the stop", || has(&env, 1, "session.stopped"));
    assert_eq!(data(&env, 1, "session.stopped")[0]["cap"], "steps");
    let args = ["resume", "1", "--max-steps", "9", "--max-time", "2h", "--tmux"];
    assert_eq!(server.segue(&args).status, 0);
    until("the end", || data(&env, 1, "session.stopped").len() == 2);
    let caps = &data(&env, 1, "session.resumed")[1]["caps"];
    assert_eq!((&caps["steps"], &caps["wall_clock_secs"]), (&9.into(), &7200.into()));
    assert_eq!(data(&env, 1, "session.stopped")[1]["reason"], "done");
}

#[test]
fn secrets_stay_in_the_environment_of_the_one_who_works() {
    let (env, model) = scripted(GATED);
    let server = Server::new(&env);
    let mut command = server.command(&["run", "Go", "--model", &model, "--tmux"]);
    assert_eq!(Output::of(command.env("ANTHROPIC_API_KEY", KEY)).unwrap().status, 0);
    until("the tool", || env.repo().join("begun").exists());
    let holds = |path: &Path| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(KEY.len()).any(|part| part == KEY.as_bytes())
    };
    assert!(holds(Path::new(&format!("/proc/{}/environ", server.is_at_work()))));
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        assert!(!holds(&entry.path().join("cmdline")), "{:?}", entry.path());
    }
    for scope in [&["show-environment", "-g"][..], &["show-environment", "-t", "=segue-repo-1"]] {
        let shown = server.tmux(scope);
        assert_eq!(shown.status, 0, "{}", shown.stderr);
        assert!(!shown.stdout.contains(KEY), "{}", shown.stdout);
    }
    let format = "#{pane_pid}";
    for pid in server.tmux(&["list-panes", "-a", "-F", format]).stdout.lines() {
        assert!(!holds(Path::new(&format!("/proc/{pid}/environ"))));
    }
}

#[test]
fn what_another_machine_does_is_not_stopped_here() {
    let (env, model) = scripted(DONE);
    assert_eq!(env.segue(["run", "Go", "--model", &model]).unwrap().status, 0);
    let path = env.session_dir(1).unwrap().join("lock");
    let holder = r#"{"pid":1,"host":"elsewhere","since":"2026-11-15T18:00:00Z"}"#;
    fs::write(&path, holder).unwrap();
    let file = File::open(&path).unwrap();
    file.lock().unwrap();
    let output = env.segue(["stop", "1"]).unwrap();
    assert_eq!(output.status, 5, "{}", output.stderr);
    assert!(output.stderr.contains("process 1 on elsewhere"), "{}", output.stderr);
    // Nor somebody whose number is only written there.
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    fs::write(&path, holder.replace("elsewhere", &host)).unwrap();
    let output = env.segue(["stop", "1"]).unwrap();
    assert_eq!(output.status, 5, "{}", output.stderr);
    assert!(output.stderr.contains("is not the one that has it"), "{}", output.stderr);
}

#[test]
fn who_waits_for_a_limit_in_the_background_can_be_stopped() {
    let (env, model) = scripted("[[reply]]\nlimit = { secs = 7200 }\n");
    let server = Server::new(&env);
    assert_eq!(server.segue(&["run", "Go", "--model", &model]).status, 3);
    assert_eq!(server.segue(&["resume", "1", "--tmux"]).status, 3);
    assert_eq!(server.panes().len(), 0);
    let output = server.segue(&["resume", "1", "--wait", "--tmux"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(server.panes(), BOTH);
    assert_eq!(server.segue(&["resume", "1", "--wait", "--with", "native"]).status, 5);
    let before = kinds(&env, 1);
    let output = server.segue(&["stop", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("session 1 has stopped: limit"), "{}", output.stderr);
    assert_eq!(kinds(&env, 1), before);
}

#[test]
fn a_watcher_that_stays_waits_for_the_directory_and_sees_every_run() {
    let (env, model) = scripted(DONE);
    assert_eq!(env.segue(["run", "Go", "--model", &model]).unwrap().status, 0);
    let (dir, later) = (env.session_dir(1).unwrap(), env.path("later"));
    let out = File::create(env.path("seen")).unwrap();
    let mut command = env.command(["watch", "--stay", later.to_str().unwrap()]);
    let mut watcher = command.stdout(out).spawn().unwrap();
    let seen = || fs::read_to_string(env.path("seen")).unwrap();
    // In place of a session that is made elsewhere: the same one by another way.
    std::os::unix::fs::symlink(&dir, &later).unwrap();
    until("the first run", || seen().contains("✔ done"));
    assert_eq!(env.segue(["resume", "1", "Once more"]).unwrap().status, 0);
    until("the second run", || seen().matches("✔ done").count() == 2);
    assert!(seen().contains("Once more"), "{}", seen());
    crate::support::signal(&watcher, Signal::INT);
    assert_eq!(watcher.wait().unwrap().code(), Some(130));
}

#[test]
fn how_it_stands_is_printed_also_without_a_terminal() {
    let (env, model) = scripted(DONE);
    let args = ["run", "Go", "--model", &model, "--max-turns", "4"];
    assert_eq!(env.segue(args).unwrap().status, 0);
    let output = env.segue(["watch", "1", "--status"]).unwrap();
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[0].starts_with("■ completed · turn 1 · native · script:"), "{lines:?}");
    let rest = [
        "  task    Go",
        "  spent   940 tokens · turn 1 of 4",
        "  why     the agent is done",
        "  go on   segue resume 1 \"what to do next\"",
        "  leave   Ctrl-B D, then segue attach 1",
    ];
    assert_eq!(lines[1..], rest);
    let output = env.segue(["watch", "1", "--status", "--json"]).unwrap();
    assert_eq!(json(&output.stdout)["status"], "completed");
}

#[test]
fn within_tmux_the_client_is_switched() {
    let (env, model) = scripted(GATED);
    let server = Server::new(&env);
    server.start(&model);
    let segue = env!("CARGO_BIN_EXE_segue");
    // The server has not our environment: it was started by Segue.
    let home = env.home().display().to_string();
    let mine = format!("read x; {segue} --home {home} attach 1; echo status $?; cat");
    assert_eq!(server.tmux(&["new-session", "-d", "-s", "mine", &mine]).status, 0);
    let options = || server.tmux(&["show-options", "-g"]).stdout;
    let before = options();
    // A client of that server, in a terminal that is another one's.
    let terminal = Terminal::open(&server, "--version; tmux -L inner attach -t =mine");
    let client = || server.tmux(&["list-clients", "-F", "#{session_name}"]).stdout;
    until("the client", || client() == "mine\n");
    terminal.tmux(&["send-keys", "Enter"]);
    until("the switch", || client() == "segue-repo-1\n");
    terminal.sees("This takes a while.");
    let pane = ["capture-pane", "-p", "-t", "=mine:"];
    until("the end", || server.tmux(&pane).stdout.contains("status 0"));
    assert_eq!(options(), before);
}

#[test]
fn within_a_tmux_that_nobody_looks_at_it_says_how_to_look() {
    let (env, model) = scripted(GATED);
    let server = Server::new(&env);
    server.start(&model);
    let segue = env!("CARGO_BIN_EXE_segue");
    let home = env.home().display().to_string();
    let mine = format!("{segue} --home {home} attach 1; echo status $?; cat");
    assert_eq!(server.tmux(&["new-session", "-d", "-s", "mine", &mine]).status, 0);
    let shown = || server.tmux(&["capture-pane", "-p", "-t", "=mine:"]).stdout;
    until("the end", || shown().contains("status 0"));
    assert!(shown().contains("no terminal shows"), "{}", shown());
    assert!(shown().contains("segue-repo-1"), "{}", shown());
}

#[test]
fn the_log_is_for_one_person_and_goes_with_the_session() {
    use std::os::unix::fs::PermissionsExt;
    let (env, model) = scripted(GATED);
    let server = Server::new(&env);
    server.start(&model);
    let (dir, log) = (env.home().join("logs"), env.home().join("logs/1.log"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&log)), (0o700, 0o600));
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("This takes a while."), "{text}");
    let session = env.session_dir(1).unwrap();
    assert_eq!(server.segue(&["stop", "1"]).status, 0);
    assert!(!session.join("1.log").exists());
    assert_eq!(server.segue(&["rm", "1", "--force"]).status, 0);
    assert!(!log.exists());
}

#[test]
fn a_pair_is_shown_side_by_side_and_goes_on_without_anyone_watching() {
    let (env, _) = scripted("");
    let script = |name: &str, text: &str| {
        fs::write(env.path(name), text).unwrap();
        format!("native@script:{}", env.path(name).display())
    };
    let worker = script(
        "worker.toml",
        &format!("{GATED}[[reply]]\ntext = \"x\"\n").replace("repeat = true", ""),
    );
    let pass =
        "[[reply]]\ntext = \"\"\"\nI let it pass.\n```segue\n{\"verdict\":\"pass\"}\n```\n\"\"\"\n";
    let reviewer = script("reviewer.toml", pass);
    let server = Server::new(&env);
    let args = ["pair", "Take your time", "--worker", &worker, "--reviewer", &reviewer];
    let output = server.segue(&[&args[..], &["--reviewer", &reviewer, "--tmux"]].concat());
    assert_eq!((output.status, output.stdout.as_str()), (0, "segue-repo-1\nsegue attach 1\n"));
    until("the tool", || env.repo().join("begun").exists());
    let parts = ["native-2 0", "native-3 0", "status 0", "worker 0"];
    let all = parts.map(|part| format!("segue-repo-1 {part}"));
    assert_eq!(server.panes(), all);
    server.sees("segue-repo-1", "worker", "This takes a while.");
    server.sees("segue-repo-1", "reviewers/native-2", "waiting for native-2 to begin");
    server.sees("segue-repo-1", "status", "iteration 1 of 20");
    let pid = server.is_at_work();
    assert_eq!(server.tmux(&["kill-server"]).status, 0);
    assert_eq!(server.is_at_work(), pid);

    // Stopped, and resumed without a word about tmux: it is shown again under the same name.
    assert_eq!(server.segue(&["stop", "1"]).status, 0);
    server.go();
    let output = server.segue(&["resume", "1"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "segue-repo-1\nsegue attach 1\n"));
    assert_eq!(server.panes(), all);
    until("the end", || data(&env, 1, "session.stopped").len() == 2);
    assert_eq!(data(&env, 1, "session.stopped")[1]["reason"], "done");
    server.sees("segue-repo-1", "worker", "native-3  pass");
    server.sees("segue-repo-1", "reviewers/native-3", "I let it pass.");
    server.sees("segue-repo-1", "status", "■ completed");
    // In this terminal, where that is asked for.
    let output = server.segue(&["resume", "1", "--here"]);
    assert!(output.stderr.contains("nothing to do"), "{}", output.stderr);
    let args = ["pair", "--run-id", "1", "More", "--no-tmux", "--max-turns", "2"];
    let output = server.segue(&args);
    assert_eq!((output.status, output.stdout.as_str()), (3, "x\n"), "{}", output.stderr);
}
