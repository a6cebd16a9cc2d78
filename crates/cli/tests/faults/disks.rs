//! A disk that is full, and one that can't be written to.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use segue_testkit::{
    env::TestEnv,
    kill::{Running, check},
};

use crate::{
    signals::{left, started},
    support::{self, can},
};

/// A small file system in memory, for as long as this lives.
struct Mounted(PathBuf);

impl Mounted {
    fn new(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).ok()?;
        mount(&["-t", "tmpfs", "-o", "size=512k", "tmpfs"], at).then(|| Self(at.to_owned()))
    }

    fn make(&self, how: &str) {
        assert!(mount(&["-o", &format!("remount,{how}")], &self.0), "remount {how}");
    }
}

fn mount(options: &[&str], at: &Path) -> bool {
    let output = Command::new("mount").args(options).arg(at).output();
    output.is_ok_and(|output| output.status.success())
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// An environment whose home is a file system of its own.
fn small_home(test: &str) -> Option<(TestEnv, Mounted)> {
    let env = support::env();
    let mounted = Mounted::new(&env.home());
    can(test, "a file system can't be mounted (that takes root)", mounted.is_some());
    mounted.map(|mounted| (env, mounted))
}

/// Its first tool waits for `gate` and then prints more than the disk has left.
const SCRIPT: &str = "[[reply]]\n\
     tools = [{ name = \"shell\", input = { command = \"echo x >> effects.log; \
     until test -e gate; do sleep 0.01; done; head -c 20000 /dev/urandom | od -x\" } }]\n\
     [[reply]]\ntext = \"Done.\"\n";

fn in_the_tool(env: &TestEnv) -> Running {
    let model = env.script(SCRIPT).expect("script");
    let running = started(env, &["run", "go", "--json", "--model", &model], "tool.started");
    check::until(|| env.repo().join("effects.log").exists()).expect("the tool runs");
    running
}

/// Goes on to the end. The tool ran once, and may be asked about, not run again.
fn goes_on(env: &TestEnv) {
    let mut command = env.command(["resume", "1", "--json"]);
    command.env_remove("SEGUE_CLOCK");
    let mut running = Running::start(env, command).expect("started");
    assert_eq!(running.wait().expect("ended"), 0, "{}", running.stderr());
    assert!(check::is_done(&left(env, &running).state));
    let effects = fs::read_to_string(env.repo().join("effects.log")).expect("effects");
    assert_eq!(effects, "x\n");
}

#[test]
fn a_disk_that_fills_up() {
    let Some((env, _mounted)) = small_home("a_disk_that_fills_up") else { return };
    let mut running = in_the_tool(&env);
    let ballast = env.home().join("ballast");
    let mut file = fs::File::create(&ballast).expect("created");
    while file.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    drop(file);
    env.write("gate", "").expect("gate");
    assert_eq!(running.wait().expect("ended"), 1, "{}", running.stderr());
    let said = running.stderr();
    assert!(said.contains("No space left") && said.contains("the disk is full"), "{said}");
    assert!(said.contains(&env.home().display().to_string()), "{said}");
    left(&env, &running);
    // While it is full one can still look, and nothing new begins.
    for args in [&["list"][..], &["show", "1"], &["log", "1"], &["verify", "1"]] {
        let output = env.segue(args).expect("ran");
        assert_eq!(output.status, 0, "{args:?}: {output:?}");
    }
    for args in [&["run", "more"][..], &["resume", "1"]] {
        let output = env.segue(args).expect("ran");
        assert_eq!(output.status, 1, "{args:?}: {output:?}");
        assert!(output.stderr.contains("the disk is full"), "{output:?}");
    }
    assert_eq!(env.segue(["doctor"]).expect("ran").status, 1);
    fs::remove_file(ballast).expect("removed");
    goes_on(&env);
}

#[test]
fn a_home_that_can_only_be_read() {
    let Some((env, mounted)) = small_home("a_home_that_can_only_be_read") else { return };
    let mut running = in_the_tool(&env);
    running.kill().expect("killed");
    left(&env, &running);
    mounted.make("ro");
    for args in [&["list"][..], &["list", "--all"], &["show", "1"], &["log", "1"], &["verify", "1"]]
    {
        let output = env.segue(args).expect("ran");
        assert_eq!(output.status, 0, "{args:?}: {output:?}");
    }
    for args in [&["run", "more"][..], &["resume", "1"]] {
        let output = env.segue(args).expect("ran");
        assert_eq!(output.status, 1, "{args:?}: {output:?}");
        assert!(output.stderr.contains("needs to write to its home"), "{output:?}");
        assert!(output.stderr.contains(&env.home().display().to_string()), "{output:?}");
    }
    let output = env.segue(["doctor"]).expect("ran");
    assert_eq!(output.status, 1, "{output:?}");
    assert!(output.stdout.contains("Read-only"), "{output:?}");
    mounted.make("rw");
    goes_on(&env);
}
