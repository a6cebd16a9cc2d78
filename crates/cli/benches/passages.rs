//! Passages: a checkpoint beside `git status`, going back in a long session, how soon an agent is at
//! work again, a replay of 100,000 steps and a fork of 250 MB. Each figure is a ratio within one run, or a time on this machine.
//!
//! `cargo bench -p segue-cli --bench passages`; with `SEGUE_BENCH_STRICT=1` a missed goal is a failure.

use std::{
    error::Error,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use segue_core::{
    Body, Payload,
    event::{
        Cause, Draft, ModelCalled, ModelReplied, ModelStop, Outcome, Reason, SessionStopped,
        TextWritten, ToolCalled, ToolReturned, ToolStarted, ToolStatus, TurnEnded, TurnStarted,
    },
    identity::RepoRef,
    usage::Usage,
};
use segue_journal::{
    Durability, Home, RealDisk, Session, home::NewSession, lock::Holder, system_clock,
};
use segue_workspace::{Opened, Snapshots};

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// Measures, prints, and counts the goals that it missed.
type Bench = fn(&mut u32) -> Done;

const SEGUE: &str = env!("CARGO_BIN_EXE_segue");
const FILES: usize = 50_000;
/// Runs of each kind, taking turns.
const RUNS: usize = 15;
/// Events of a turn between its start and its end.
const IN_TURN: usize = 250;

fn main() -> ExitCode {
    let mut missed = 0;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load before: {} (of others; what is measured suffers from it)", load.trim());
    let benches: [(&str, Bench); 5] = [
        ("checkpoint", checkpoint),
        ("rewind", rewind),
        ("resume", resume),
        ("replay", replay),
        ("fork", fork),
    ];
    let only: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, bench) in benches {
        if !only.is_empty() && !only.iter().any(|word| word == name) {
            continue;
        }
        println!("── {name}");
        if let Err(error) = bench(&mut missed) {
            println!("{name}: {error}");
            return ExitCode::FAILURE;
        }
    }
    let strict = std::env::var_os("SEGUE_BENCH_STRICT").is_some();
    ExitCode::from(u8::from(strict && missed > 0))
}

fn goal(missed: &mut u32, what: &str, value: f64, most: f64, unit: &str) {
    let word = if value <= most { "met" } else { "MISSED" };
    *missed += u32::from(value > most);
    println!("{what:<44} {value:>9.3}{unit}  (goal: at most {most}{unit}, {word})");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn timed(command: &mut Command) -> Done<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let output = command.output()?;
    let time = start.elapsed();
    match output.status.success() {
        true => Ok(time),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{command:?}: {}: {said}", output.status).into())
        }
    }
}

fn git(dir: &Path, args: &[&str]) -> Done<Duration> {
    let mut command = Command::new("git");
    command.current_dir(dir).args(["-c", "user.name=B", "-c", "user.email=b@b"]).args(args);
    timed(&mut command)
}

/// A directory on the disk that the project is built on: a temporary one may be memory.
fn place() -> Done<tempfile::TempDir> {
    Ok(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)
}

// ── checkpoint ───────────────────────────────────────────────────────────────────────────────────

fn checkpoint(missed: &mut u32) -> Done {
    let temp = place()?;
    let top = temp.path();
    git(top, &["init", "-q"])?;
    for n in 0..FILES {
        let dir = top.join(format!("d{}/e{}/f{}", n % 20, n / 20 % 25, n / 500 % 5));
        if n < 2500 {
            fs::create_dir_all(&dir)?;
        }
        fs::write(dir.join(format!("file-{n}.rs")), format!("file {n}\n"))?;
    }
    git(top, &["add", "-A"])?;
    git(top, &["commit", "-q", "-m", "all"])?;
    git(top, &["status"])?;
    let Opened::Ready(snapshots) = Snapshots::open(top, "bench")? else {
        return Err("no repository".into());
    };
    let take = |name: &str| -> Done<Duration> {
        let start = Instant::now();
        snapshots.take(&format!("refs/segue/bench/{name}"), "a checkpoint")?;
        Ok(start.elapsed())
    };
    let first = take("first")?;
    let (mut theirs, mut clean, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS {
        theirs.push(git(top, &["status", "--porcelain"])?);
        clean.push(take(&format!("clean-{run}"))?);
    }
    for run in 0..RUNS {
        for n in 0..10 {
            fs::write(top.join(format!("d{n}/e0/f0/file-{n}.rs")), format!("changed {run}\n"))?;
        }
        changed.push(take(&format!("changed-{run}"))?);
    }
    let (theirs, clean, changed) = (median(theirs), median(clean), median(changed));
    println!(
        "{FILES} files: git status {theirs:.1?}, checkpoint {clean:.1?}; the first {first:.1?}, \
         with ten changed files {changed:.1?}"
    );
    goal(missed, "checkpoint / git status", clean.div_duration_f64(theirs), 1.5, "");
    Ok(())
}

// ── long sessions ────────────────────────────────────────────────────────────────────────────────

/// A place for sessions, a small repository for them to work in, a model that answers at once and
/// an agent that says when it was started.
struct Lab {
    home: Home,
    work: PathBuf,
    model: String,
    agent: String,
    started: PathBuf,
    #[expect(dead_code, reason = "removed when dropped")]
    temp: tempfile::TempDir,
}

/// A session that is measured.
struct Long {
    number: u64,
    turns: u32,
    dir: PathBuf,
    bytes: u64,
}

impl Lab {
    fn new() -> Done<Lab> {
        let temp = place()?;
        let top = temp.path().canonicalize()?;
        let (work, script) = (top.join("work"), top.join("script.toml"));
        fs::create_dir(&work)?;
        git(&work, &["init", "-q"])?;
        fs::write(work.join("README.md"), "# A heading\n")?;
        git(&work, &["add", "-A"])?;
        git(&work, &["commit", "-q", "-m", "all"])?;
        fs::write(&script, "[[reply]]\ntext = \"done\"\nrepeat = true\n")?;
        let (program, started) = (top.join("agent"), top.join("started"));
        let text = format!("#!/bin/sh\ndate +%s%N > '{}'\necho done\n", started.display());
        fs::write(&program, text)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        Ok(Lab {
            home: Home::new(Arc::new(RealDisk), top.join("home")),
            work,
            model: format!("script:{}", script.display()),
            agent: format!("exec:{}", program.display()),
            started,
            temp,
        })
    }

    fn segue(&self, args: &[&str]) -> Command {
        let mut command = Command::new(SEGUE);
        command.current_dir(&self.work).args(args).arg("--home").arg(self.home.dir());
        command
    }

    /// A session of so many events, done.
    fn session(&self, agent: &str, events: usize) -> Done<Long> {
        let clock = system_clock();
        let me = Holder { pid: std::process::id(), host: "bench".into(), since: clock() };
        let new = NewSession {
            model: (agent == "native").then(|| self.model.clone()),
            segue: "0".into(),
            ..NewSession::new(
                RepoRef {
                    id: "long".into(),
                    identity: self.work.display().to_string(),
                    head: None,
                    branch: None,
                },
                self.work.clone(),
                agent.into(),
                "go on".into(),
            )
        };
        let (mut session, number) = self.home.create(new, &me, &clock)?;
        let (mut written, mut turns) = (0, 0);
        while written < events {
            turns += 1;
            let some = IN_TURN.min(events - written);
            let prompt = Payload::inline(format!("part {turns} of the work"));
            let mut drafts = vec![Draft::from(TurnStarted::new(prompt, Cause::Person))];
            drafts.extend((written..written + some).map(step));
            drafts.push(TurnEnded::with(Outcome::Finished).into());
            let drafts = drafts.into_iter().map(|draft| draft.in_turn(turns, agent)).collect();
            session.append_all(drafts, Durability::Soon)?;
            written += some;
        }
        let stopped = SessionStopped {
            reason: Reason::Done,
            agent: None,
            cap: None,
            signal: None,
            resets_at: None,
            message: "the agent is done".into(),
            hint: None,
        };
        session.append(stopped, Durability::Synced)?;
        let at = self.home.numbered(number)?.ok_or("the session is gone")?;
        let dir = self.home.session_dir(&at);
        let bytes = fs::metadata(dir.join("journal.jsonl"))?.len();
        println!("{:>7} events, {turns} turns, {:.1} MB", session.state().seq, bytes as f64 / 1e6);
        Ok(Long { number, turns, dir, bytes })
    }

    /// Goes on with a session. How long it took until its model was called.
    fn until_called(&self, long: &Long) -> Done<Duration> {
        let begun = Timestamp::now();
        timed(&mut self.segue(&["resume", &long.number.to_string(), "again"]))?;
        let session = Session::open(Arc::new(RealDisk), &long.dir)?;
        let called = session.newest_first()?.find(|e| matches!(e.body, Body::ModelCalled(_)));
        let called = called.ok_or("no model was called")?;
        Ok(called.at.duration_since(begun).try_into()?)
    }

    /// The same until the agent, a program, has begun.
    fn until_started(&self, long: &Long) -> Done<Duration> {
        let begun = Timestamp::now();
        timed(&mut self.segue(&["resume", &long.number.to_string(), "again"]))?;
        let text = fs::read_to_string(&self.started)?;
        fs::remove_file(&self.started)?;
        let at = Timestamp::from_nanosecond(text.trim().parse()?)?;
        Ok(at.duration_since(begun).try_into()?)
    }
}

/// The `n`th event of a turn that calls a model and runs a tool, again and again.
fn step(n: usize) -> Draft {
    let model = || "script".to_owned();
    let draft: Draft = match n % 6 {
        0 => ModelCalled { model: model(), attempt: 1, messages: 40, told: None }.into(),
        1 => {
            let text = format!("I look at part {n} of it now, with words as an agent has. ");
            TextWritten { text: Payload::inline(text.repeat(6)), partial: false }.into()
        }
        2 => {
            let input = format!(r#"{{"command":"sed -n {n},+20p src/main.rs"}}"#);
            ToolCalled { name: "shell".into(), input: Payload::inline(input) }.into()
        }
        3 => ModelReplied {
            model: model(),
            stop: ModelStop::ToolUse,
            usage: Usage { input: 41_000, output: 300, ..Usage::default() },
            cost_micros: None,
            reply_id: Some(format!("msg_{n:020}")),
        }
        .into(),
        4 => ToolStarted {}.into(),
        _ => ToolReturned {
            name: "shell".into(),
            status: ToolStatus::Done,
            output: Payload::inline("    let answer = question.parse()?;\n".repeat(24)),
            exit: Some(0),
            touched: vec![],
        }
        .into(),
    };
    draft.about(format!("toolu_{:020}", n / 6))
}

// ── rewind ───────────────────────────────────────────────────────────────────────────────────────

fn rewind(missed: &mut u32) -> Done {
    let lab = Lab::new()?;
    let (small, large) = (lab.session("native", 5_000)?, lab.session("native", 500_000)?);
    let back = |long: &Long, run: usize| -> Done<Duration> {
        let (number, last) = (long.number.to_string(), long.turns as usize);
        // Ever further back, down to the middle.
        let turn = (last - 1 - run * (last / 2) / RUNS).to_string();
        timed(&mut lab.segue(&["rewind", &number, "--turn", &turn, "--conversation-only"]))
    };
    let (mut of_small, mut of_large) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        of_small.push(back(&small, run)?);
        of_large.push(back(&large, run)?);
    }
    let (mut called_small, mut called_large) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        called_small.push(lab.until_called(&small)?);
        called_large.push(lab.until_called(&large)?);
    }
    let (of_small, of_large) = (median(of_small), median(of_large));
    let (called_small, called_large) = (median(called_small), median(called_large));
    println!("rewind of the conversation: {of_small:.1?} and {of_large:.1?}");
    println!("then resume, to its first model call: {called_small:.1?} and {called_large:.1?}");
    let size = large.bytes as f64 / 1e6;
    goal(missed, &format!("rewind, {size:.0} MB"), ms(of_large), 100.0, " ms");
    goal(missed, "rewind, large / small", of_large.div_duration_f64(of_small), 1.5, "");
    let ratio = called_large.div_duration_f64(called_small);
    goal(missed, "resume after it, large / small", ratio, 1.5, "");
    Ok(())
}

// ── resume ───────────────────────────────────────────────────────────────────────────────────────

fn resume(missed: &mut u32) -> Done {
    let lab = Lab::new()?;
    for (agent, what) in [("native", "the first model call"), (&*lab.agent, "the agent's start")] {
        let (short, long) = (lab.session(agent, 10)?, lab.session(agent, 100_000)?);
        let time = |session: &Long| match agent {
            "native" => lab.until_called(session),
            _ => lab.until_started(session),
        };
        let (mut of_short, mut of_long) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            of_short.push(time(&short)?);
            of_long.push(time(&long)?);
        }
        let (of_short, of_long) = (median(of_short), median(of_long));
        println!("resume to {what}: {of_short:.1?} and {of_long:.1?}");
        let ratio = of_long.div_duration_f64(of_short);
        goal(missed, &format!("to {what}, long / short"), ratio, 1.5, "");
    }
    Ok(())
}

// ── steps ────────────────────────────────────────────────────────────────────────────────────────

/// How long a command takes, and the most memory that it has, in MiB.
fn weighed(command: &mut Command) -> Done<(Duration, f64)> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0.0f64;
    let exit = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let found = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = found.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
        most = most.max(kib.unwrap_or(0.0) / 1024.0);
        if let Some(exit) = child.try_wait()? {
            break exit;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    match exit.success() {
        true => Ok((start.elapsed(), most)),
        false => Err(format!("{command:?}: {exit}").into()),
    }
}

fn count_steps(long: &Long) -> Done<u64> {
    Ok(Session::open(Arc::new(RealDisk), &long.dir)?.landmarks()?.count())
}

fn replay(missed: &mut u32) -> Done {
    let lab = Lab::new()?;
    let (small, large) = (lab.session("native", 30_000)?, lab.session("native", 300_000)?);
    for (what, args) in [
        ("replay --mode cache, the first time", &["replay"][..]),
        ("replay --mode cache, once more", &["replay"]),
        ("replay --inspect", &["replay", "--inspect"]),
        ("replay --verify", &["replay", "--verify"]),
    ] {
        let time = |long: &Long| weighed(lab.segue(args).arg(long.number.to_string()));
        let ((_, less), (took, more)) = (time(&small)?, time(&large)?);
        let steps = count_steps(&large)?;
        println!(
            "{what}: {steps} steps in {took:.1?}, {:.0} a second; {less:.1} and {more:.1} MiB",
            steps as f64 / took.as_secs_f64()
        );
        goal(missed, "memory, ten times the steps", more / less, 1.3, "");
    }
    Ok(())
}

fn fork(missed: &mut u32) -> Done {
    let lab = Lab::new()?;
    let (small, large) = (lab.session("native", 5_000)?, lab.session("native", 525_000)?);
    let last = |long: &Long| timed(&mut lab.segue(&["fork", &long.number.to_string()]));
    let (first_small, first) = (last(&small)?, last(&large)?);
    fs::remove_file(large.dir.join(segue_journal::steps::FILE))?;
    let (cold, most) = weighed(lab.segue(&["fork"]).arg(large.number.to_string()))?;
    println!("the first fork, as a run leaves a session: {first_small:.1?} and {first:.1?}");
    println!("without steps.idx, which is made then: {cold:.1?}, {most:.1} MiB");
    let leave = |long: &Long, run: usize| -> Done<Duration> {
        let turn = 1 + run * long.turns as usize / RUNS;
        let session = Session::open(Arc::new(RealDisk), &long.dir)?;
        let marks = session.landmarks()?;
        let step = marks.rfind(|mark| mark.whole && mark.turn as usize <= turn)?;
        let step = step.ok_or("no step")?.index.to_string();
        timed(&mut lab.segue(&["fork", &long.number.to_string(), "--from-step", &step]))
    };
    let (mut of_small, mut of_large) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        of_small.push(leave(&small, run)?);
        of_large.push(leave(&large, run)?);
    }
    let (of_small, of_large) = (median(of_small), median(of_large));
    println!("fork at a step: {of_small:.1?} and {of_large:.1?}");
    let size = large.bytes as f64 / 1e6;
    goal(missed, &format!("the first fork, {size:.0} MB"), ms(first), 100.0, " ms");
    goal(missed, &format!("fork, {size:.0} MB"), ms(of_large), 100.0, " ms");
    goal(missed, "fork, large / small", of_large.div_duration_f64(of_small), 1.5, "");
    Ok(())
}
