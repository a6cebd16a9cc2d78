//! SIGKILL at system calls of the one who watches over a crew, from its first start to its end: the
//! next one goes on, nobody who works is ended, and everything is said once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use segue_testkit::{
    env::{Output, TestEnv},
    kill::Broken,
};
use serde_json::Value;

use crate::{
    strace::{Point, points_of},
    support::{self, can, kill_at_each, replace_dir, works},
};

/// Most of the time everybody waits for a terminal.
const WORKERS: usize = 6;

/// So many calls are hit, spread over all of them.
const POINTS: usize = 60;

const PATIENCE: Duration = Duration::from_secs(60);

const MESSAGE: &str = "<the message>";

/// Who is in it.
const BOTH: [&str; 2] = ["coder", "tester"];

/// A crew that was raised, and that nobody has begun to watch over.
struct Crew {
    env: TestEnv,
    /// It was asked to go down.
    ordered: AtomicBool,
}

impl Crew {
    fn new() -> Self {
        let crew = Self { env: support::env(), ordered: AtomicBool::default() };
        let env = &crew.env;
        for args in [&["init", "-q"][..], &["commit", "-q", "--allow-empty", "-m", "base"]] {
            assert_eq!(env.git(args).expect("git").status, 0);
        }
        let agent = Path::new(support::PROGRAM).with_file_name("tui-agent");
        let entry = |name: &str| {
            let (agent, told) = (agent.display(), crew.told(name));
            format!(
                "[[agents]]\nid = \"{name}\"\ncommand = \"{agent} --transcript {told} --work-ms 10\"\n\
                 ready = \"READY>\"\nbusy = \"WORKING\"\ntranscript = \"{told}\"\nprompt = \"prompt.md\"\n",
                told = told.display()
            )
        };
        env.write("segue.toml", &BOTH.map(entry).concat()).expect("written");
        env.write("prompt.md", "You are {{agent}}.").expect("written");
        fs::create_dir(env.path("t")).expect("a place for tmux");
        // Nobody can be started in the background where the log can't be.
        fs::create_dir_all(env.home()).expect("home");
        let logs = env.home().join("logs");
        fs::write(&logs, "").expect("in its place");
        let up = crew.segue(&["crew", "up", "--session", "one"]).expect("up");
        assert_ne!(up.status, 0, "{}", up.stdout);
        fs::remove_file(&logs).expect("removed");
        for name in BOTH {
            let inbox = crew.dir().expect("a session").join("inbox").join(name);
            fs::create_dir_all(&inbox).expect("inbox");
            fs::write(inbox.join("1.md"), MESSAGE).expect("a message");
        }
        replace_dir(&env.home(), &env.path("home.start")).expect("kept");
        crew
    }

    fn told(&self, name: &str) -> PathBuf {
        self.env.path(&format!("{name}.jsonl"))
    }

    fn prepare(&self, mut command: Command) -> Command {
        command.env("TERM", "xterm-256color").env("TMUX_TMPDIR", self.env.path("t"));
        command.env_remove("TMUX").env_remove("SEGUE_CLOCK").current_dir(self.env.repo());
        command
    }

    fn segue(&self, args: &[&str]) -> Result<Output, Broken> {
        Ok(Output::of(&mut self.prepare(self.env.command(args)))?)
    }

    fn well(&self, args: &[&str]) -> Result<Output, Broken> {
        let output = self.segue(args)?;
        match output.status {
            0 => Ok(output),
            status => Err(Broken::new(format!("{args:?}: status {status}: {}", output.stderr))),
        }
    }

    fn tmux(&self, args: &[&str]) -> String {
        let output = Output::of(self.prepare(self.env.any("tmux")).args(args));
        output.map(|output| output.stdout).unwrap_or_default()
    }

    fn dir(&self) -> Option<PathBuf> {
        self.env.session_dir(1).ok()
    }

    /// How often each was told its prompt and its message.
    fn heard(&self) -> [(usize, usize); 2] {
        BOTH.map(|name| {
            let text = fs::read_to_string(self.told(name)).unwrap_or_default();
            (text.matches(&format!("You are {name}.")).count(), text.matches(MESSAGE).count())
        })
    }

    fn is_all_said(&self) -> bool {
        self.heard().iter().all(|(prompts, messages)| *prompts > 0 && *messages > 0)
    }

    /// The last that was recorded of its beginning and its end.
    fn phase(&self) -> Option<&'static str> {
        let journal = self.dir()?.join("journal.jsonl");
        let text = fs::read_to_string(journal).unwrap_or_default();
        let kinds = ["session.started", "session.resumed", "session.stopped"];
        let last = |kind: &&str| text.rfind(&format!("\"kind\":\"{kind}\""));
        kinds.into_iter().filter(|kind| last(kind).is_some()).max_by_key(last)
    }

    fn is_down(&self) -> bool {
        self.phase() == Some("session.stopped")
    }

    /// Who sits at a terminal, and has its order.
    fn at_work(&self) -> BTreeSet<u32> {
        let pids = self.tmux(&["list-panes", "-a", "-F", "#{pane_dead} #{pane_pid}"]);
        let pids = pids.lines().filter_map(|line| line.strip_prefix("0 ")?.parse().ok());
        let is_agent = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("tui-agent")
        };
        pids.filter(is_agent).collect()
    }

    fn order_down(&self) -> Result<(), Broken> {
        let inbox = self.dir().ok_or_else(|| Broken::new("no session"))?.join("inbox");
        let (draft, path) = (inbox.join(".down"), inbox.join("down-1.json"));
        fs::write(&draft, r#"{"kind":"crew","order":{"what":"down"}}"#)?;
        self.ordered.store(true, Ordering::Relaxed);
        Ok(fs::rename(draft, path)?)
    }

    fn again(&self) -> Result<(), Broken> {
        self.tmux(&["kill-server"]);
        self.ordered.store(false, Ordering::Relaxed);
        for name in BOTH {
            let _ = fs::remove_file(self.told(name));
        }
        // Whoever was ended last may still be about to leave.
        let (start, home) = (self.env.path("home.start"), self.env.home());
        self.until("a home to begin with", || replace_dir(&start, &home).is_ok())
    }

    /// Watches under strace, and has the crew taken down as soon as all was said.
    fn strace(&self, options: &[&str]) -> Result<i32, Broken> {
        self.again()?;
        let mut command = self.prepare(self.env.any("strace"));
        command.args(["-f", "-qq", "-b", "execve"]).args(options);
        command.arg(support::PROGRAM).args(["crew", "watch", "1"]);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let down = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if self.is_all_said() {
                        return self.order_down();
                    }
                    thread::sleep(Duration::from_millis(20));
                }
                Ok(())
            });
            let output = Output::of(&mut command);
            over.store(true, Ordering::Relaxed);
            down.join().map_err(|_| Broken::new("it broke down"))??;
            Ok(output?.status)
        })
    }

    fn kill_at(&self, Point { call, nth }: &Point) -> Result<bool, Broken> {
        let trace = format!("trace={call}");
        let inject = format!("inject={call}:signal=KILL:when={nth}");
        let status = self.strace(&["-o", "/dev/null", "-e", &trace, "-e", &inject])?;
        // 1: what was about to be started was hit instead, and it was said.
        if !matches!(status, 0 | 1 | 137) {
            return Err(Broken::new(format!("status {status}")));
        }
        self.after().map_err(|error| {
            let log = fs::read_to_string(self.dir().unwrap_or_default().join("journal.jsonl"));
            Broken::new(format!("{error}\n{}", log.unwrap_or_default()))
        })?;
        Ok(status == 137)
    }

    /// Somebody else goes on, and it ends well.
    fn after(&self) -> Result<(), Broken> {
        let told_down = self.ordered.load(Ordering::Relaxed);
        let at_work = self.at_work();
        match self.phase() {
            Some("session.stopped") if told_down => {}
            Some("session.started" | "session.resumed") => {
                self.well(&["crew", "status", "one"])?;
            }
            _ => drop(self.well(&["crew", "up", "--resume", "one", "--wait", "0s"])?),
        }
        if !told_down {
            self.until("all is said", || self.is_all_said())?;
            if !at_work.is_subset(&self.at_work()) {
                return Err(Broken::new("one that worked was ended"));
            }
            self.well(&["crew", "down", "one"])?;
        }
        self.until("it is down", || self.is_down())?;
        self.until("nobody sits there", || self.at_work().is_empty())?;
        let counts = self.heard();
        if counts != [(1, 1); 2] {
            return Err(Broken::new(format!("told {counts:?} times")));
        }
        let status = self.well(&["crew", "status", "one", "--json"])?;
        let status: Value = serde_json::from_str(&status.stdout).unwrap_or_default();
        let messages = &status["messages"];
        if messages["delivered"] != 4 || messages["waiting"] != 0 || messages["dead"] != 0 {
            return Err(Broken::new(format!("{messages}")));
        }
        self.well(&["verify", "--all"]).map(drop)
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) -> Result<(), Broken> {
        let since = Instant::now();
        while !holds() {
            if since.elapsed() > PATIENCE {
                return Err(Broken::new(format!("{what}: it did not come")));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn points(&self) -> Vec<Point> {
        let trace = self.env.path("trace");
        let place = trace.to_string_lossy().into_owned();
        let status = self.strace(&["-y", "-o", &place]).expect("traced");
        assert_eq!(status, 0);
        let text = fs::read(&trace).expect("trace");
        let mut all = points_of(&String::from_utf8_lossy(&text));
        // How often is looked depends on the moment: the last looks need not come.
        let most = |call: &str| all.iter().filter(|one| one.call == call).map(|one| one.nth).max();
        let most: BTreeMap<String, usize> =
            all.iter().filter_map(|one| Some((one.call.clone(), most(&one.call)?))).collect();
        all.retain(|one| one.nth * 3 <= most[&one.call] * 2 || most[&one.call] < 9);
        let every = std::env::var_os("SEGUE_EVERY_CALL").is_some();
        let step = if every { 1 } else { all.len().div_ceil(POINTS).max(1) };
        all.into_iter().step_by(step).collect()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let _ = self.segue(&["crew", "down", "one"]);
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn whoever_watches_over_a_crew_can_be_killed_anywhere() {
    const NAME: &str = "whoever_watches_over_a_crew_can_be_killed_anywhere";
    let agent = Path::new(support::PROGRAM).with_file_name("tui-agent");
    let there = works("strace", &["-V"]) && works("tmux", &["-V"]) && agent.exists();
    if !can(NAME, "strace, tmux or tui-agent is missing", there) {
        return;
    }
    let crews: Vec<Crew> = (0..WORKERS).map(|_| Crew::new()).collect();
    let points = crews[0].points();
    let missed = kill_at_each(NAME, &crews, &points, Crew::kill_at);
    assert!(missed.len() * 10 <= points.len(), "never reached: {}", missed.join(", "));
}
