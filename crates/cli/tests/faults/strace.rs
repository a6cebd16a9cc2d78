//! Scenarios under strace, which can kill a process at any of its system calls, or let one fail.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use segue_testkit::{
    env::TestEnv,
    kill::{Broken, Running, Work, work::Call},
};

use crate::support::{self, replace_dir};

/// One command of Segue from a state that can be made again and again.
pub(crate) struct Scenario {
    pub(crate) env: TestEnv,
    pub(crate) work: Work,
    pub(crate) model: String,
    pub(crate) args: Vec<String>,
}

/// A system call of the scenario: the `nth` of this name in some thread.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) call: String,
    pub(crate) nth: usize,
}

impl Scenario {
    /// A whole run: the session is created, a reply with two tools, a last word.
    pub(crate) fn run() -> Self {
        let env = support::env();
        let work = Work::one_turn(vec![vec![Call::Quick, Call::File]]);
        let model = env.script(&work.script()).expect("script");
        fs::create_dir_all(env.home()).expect("home");
        let args = ["run", &work.prompt(0), "--model", &model, "--json"].map(str::to_owned).into();
        let scenario = Self { env, work, model, args };
        scenario.keep_as_start();
        scenario
    }

    /// A resume of a session that was killed in the middle of its first tool.
    pub(crate) fn resume() -> Self {
        let env = support::env();
        let work = Work::one_turn(vec![vec![Call::Endless, Call::File], vec![Call::Quick]]);
        let model = env.script(&work.script()).expect("script");
        let mut command = env.command(["run", &work.prompt(0), "--model", &model, "--json"]);
        command.env_remove("SEGUE_CLOCK");
        let mut running = Running::start(&env, command).expect("started");
        let effects = env.repo().join(segue_testkit::kill::work::EFFECTS);
        segue_testkit::kill::check::until(|| effects.exists()).expect("the tool runs");
        assert!(running.kill().expect("killed"), "{}", running.stderr());
        segue_testkit::kill::check::after(&env, &running.reported().expect("output"))
            .expect("whole");
        let args = ["resume", "1", "--json"].map(str::to_owned).into();
        let scenario = Self { env, work, model, args };
        scenario.keep_as_start();
        scenario
    }

    fn keep_as_start(&self) {
        for (dir, kept) in self.places() {
            replace_dir(&dir, &kept).expect("kept");
        }
    }

    fn places(&self) -> [(std::path::PathBuf, std::path::PathBuf); 2] {
        let path = |name| self.env.path(name);
        [(self.env.home(), path("home.start")), (self.env.repo(), path("repo.start"))]
    }

    /// Runs the command under strace with these options, from the start again.
    ///
    /// Threads are followed, programs that are started are not: a guardian is not Segue.
    pub(crate) fn strace(&self, options: &[&str]) -> Result<(Running, i32), Broken> {
        for (dir, kept) in self.places() {
            replace_dir(&kept, &dir)?;
        }
        let mut command: Command = self.env.any("strace");
        command
            .env_remove("SEGUE_CLOCK")
            .args(["-f", "-qq", "-b", "execve"])
            .args(options)
            .arg(support::PROGRAM)
            .args(&self.args);
        let mut running = Running::start(&self.env, command)?;
        let status = running.wait()?;
        Ok((running, status))
    }

    /// Every system call that the scenario makes when nothing disturbs it.
    pub(crate) fn points(&self, options: &[&str]) -> Vec<Point> {
        let trace = self.env.path("trace");
        let place = trace.to_string_lossy().into_owned();
        // With the paths of descriptors.
        let options = [&["-y", "-o", &place], options].concat();
        let (running, status) = self.strace(&options).expect("traced");
        assert_eq!(status, 0, "{}", running.stderr());
        let text = fs::read(&trace).expect("trace");
        points_of(&String::from_utf8_lossy(&text))
    }
}

/// A look at one of all the machine's processes is like that at the next: of so many calls for it,
/// one is a point.
const ALIKE: usize = 40;

/// strace counts per thread and name, so a point may stand for calls of several threads.
pub(crate) fn points_of(trace: &str) -> Vec<Point> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut points = BTreeSet::new();
    let mut looks = 0;
    for line in trace.lines() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let Some((name, args)) = rest.trim_start().split_once('(') else { continue };
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            continue;
        }
        let nth = counts.entry((name, pid)).or_default();
        *nth += 1;
        let is_look =
            args.split("/proc/").skip(1).any(|path| path.starts_with(|c: char| c.is_ascii_digit()));
        looks += usize::from(is_look);
        if !is_look || looks % ALIKE == 0 {
            points.insert((name.to_owned(), *nth));
        }
    }
    points.into_iter().map(|(call, nth)| Point { call, nth }).collect()
}
