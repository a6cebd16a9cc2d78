//! The program as a whole: how fast it starts, how much memory a long session takes, how long a
//! list of ten thousand sessions is. Each figure is a ratio within one run, or a time on this machine.
//!
//! `cargo bench -p segue-cli`; with `SEGUE_BENCH_STRICT=1` a missed goal is a failure.

use std::{
    error::Error,
    fs,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use segue_core::{
    Identity, Payload, SessionId,
    caps::Caps,
    event::{
        Cause, Draft, ModelCalled, ModelReplied, ModelStop, Outcome, Reason, SessionCreated,
        SessionStopped, TextWritten, TurnEnded, TurnStarted,
    },
    identity::{self, LoopKind, RepoRef},
    usage::Usage,
};
use segue_journal::{
    Durability, Home, RealDisk, Session,
    home::Located,
    line::{self, Link, Place},
    lock::Holder,
    system_clock,
};

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// Measures, prints, and counts the goals that it missed.
type Bench = fn(&mut u32) -> Done;

const SEGUE: &str = env!("CARGO_BIN_EXE_segue");
const SESSIONS: u64 = 10_000;
const EVENTS: usize = 1_000_000;

fn main() -> ExitCode {
    let mut missed = 0;
    let benches: [(&str, Bench); 3] = [("start-up", start_up), ("list", list), ("memory", memory)];
    for (name, bench) in benches {
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

fn timed(command: &mut Command) -> Done<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status()?;
    let time = start.elapsed();
    if status.success() { Ok(time) } else { Err(format!("{command:?}: {status}").into()) }
}

fn start_up(missed: &mut u32) -> Done {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        theirs.push(timed(&mut Command::new("/bin/true"))?);
        ours.push(timed(Command::new(SEGUE).arg("--version"))?);
    }
    let (theirs, ours) = (median(theirs), median(ours));
    println!("/bin/true {theirs:.2?}, segue --version {ours:.2?}");
    goal(missed, "segue --version / /bin/true", ours.div_duration_f64(theirs), 3.0, "");
    Ok(())
}

fn new_identity(id: SessionId, repo: &str, prompt: String) -> Identity {
    Identity {
        v: identity::VERSION,
        id,
        created_at: Timestamp::UNIX_EPOCH,
        repo: RepoRef { id: repo.into(), identity: format!("/{repo}"), head: None, branch: None },
        workspace: "/".into(),
        loop_kind: LoopKind::Solo,
        agent: "native".into(),
        model: Some("script".into()),
        permission: Default::default(),
        vendor_args: Vec::new(),
        prompt: Payload::inline(prompt),
        proof: None,
        proof_secs: None,
        pair: None,
        tasks: None,
        caps: Caps::default(),
        lineage: None,
        packet: None,
        fallback: Vec::new(),
        worktree: false,
        sealed: false,
        origin: None,
        segue: "0".into(),
    }
}

fn stopped() -> SessionStopped {
    SessionStopped {
        reason: Reason::Done,
        agent: None,
        cap: None,
        signal: None,
        resets_at: None,
        message: "the agent is done".into(),
        hint: None,
    }
}

/// Writes a small session without a sync: ten thousand would take minutes.
fn write_session(home: &Home, n: u64) -> Done {
    let id = SessionId::from_parts(1_800_000_000_000 + n, u128::from(n) * 7919);
    let at = Located { repo: format!("repo-{}", n % 20), id };
    let identity = new_identity(id, &at.repo, format!("prompt number {n}"));
    let mut drafts = vec![Draft::from(SessionCreated { identity: identity.into() })];
    drafts.extend((0..10).map(|_| said("words ".repeat(20))));
    drafts.push(stopped().into());
    let (mut journal, mut prev) = (Vec::new(), Link::first(id));
    let time = Timestamp::from_second(1_800_000_000 + i64::try_from(n)?)?;
    for (seq, draft) in (1..).zip(&drafts) {
        prev = line::encode(draft, Place { seq, prev, synced: 0 }, time, &mut journal)?;
    }
    let dir = home.session_dir(&at);
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("journal.jsonl"), journal)?;
    fs::write(dir.join("lock"), "")?;
    fs::write(home.dir().join(format!("numbers/{}", n + 1)), format!("{}/{id}\n", at.repo))?;
    Ok(())
}

fn said(text: String) -> Draft {
    TextWritten { text: Payload::inline(text), partial: false }.into()
}

fn list(missed: &mut u32) -> Done {
    let temp = tempfile::tempdir()?;
    let home = Home::new(Arc::new(RealDisk), temp.path().join("home"));
    fs::create_dir_all(home.dir().join("numbers"))?;
    for n in 0..SESSIONS {
        write_session(&home, n)?;
    }
    let run = || timed(Command::new(SEGUE).args(["list", "--all", "--home"]).arg(home.dir()));
    let cold = run()?;
    let warm = median((0..21).map(|_| run()).collect::<Done<_>>()?);
    println!("{SESSIONS} sessions: cold {cold:.1?}, warm {warm:.1?}");
    goal(missed, "segue list, warm", warm.as_secs_f64() * 1e3, 50.0, " ms");
    Ok(())
}

/// A session of about so many events, ended, with its snapshot.
fn long_session(home: &Home, events: usize) -> Done<u64> {
    let me = Holder { pid: std::process::id(), host: "bench".into(), since: Timestamp::now() };
    let id = SessionId::from_parts(1_800_000_000_000, events as u128);
    let at = Located { repo: "long".into(), id };
    let dir = home.session_dir(&at);
    fs::create_dir_all(&dir)?;
    let created = SessionCreated { identity: new_identity(id, "long", "go on".into()).into() };
    let place = Place { seq: 1, prev: Link::first(id), synced: 0 };
    let mut first = Vec::new();
    line::encode(&created.into(), place, Timestamp::now(), &mut first)?;
    fs::write(dir.join("journal.jsonl"), first)?;
    let (mut session, _) = Session::open(Arc::new(RealDisk), &dir)?.lock(&me, system_clock())?;
    let prompt = Payload::inline("go on");
    let mut drafts =
        vec![Draft::from(TurnStarted::new(prompt, Cause::Person)).in_turn(1, "native")];
    while drafts.len() < 1000.min(events) {
        drafts.extend(exchange());
    }
    for _ in 0..events.div_ceil(drafts.len()) {
        session.append_all(drafts.clone(), Durability::Soon)?;
    }
    session.append(TurnEnded::with(Outcome::Finished), Durability::Soon)?;
    session.append(stopped(), Durability::Synced)?;
    println!("{} events", session.state().seq);
    Ok(home.give_number(&at)?)
}

fn exchange() -> [Draft; 3] {
    let called = ModelCalled { model: "script".into(), attempt: 1, messages: 1, told: None };
    let replied = ModelReplied {
        model: "script".into(),
        stop: ModelStop::EndTurn,
        usage: Usage { input: 10, output: 10, ..Usage::default() },
        cost_micros: None,
        reply_id: None,
    };
    let text = said("a reply of some words, as an agent would write them ".repeat(3));
    [called.into(), text, replied.into()]
}

/// The most memory that a resume of the session took, looked up while its last answer takes time.
fn peak(home: &Path, number: u64, script: &Path) -> Done<f64> {
    let mut child = Command::new(SEGUE)
        .args(["resume", &number.to_string(), "again", "--home"])
        .arg(home)
        .arg("--model")
        .arg(format!("script:{}", script.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0.0f64;
    while child.try_wait()?.is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let found = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = found.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
        most = most.max(kib.unwrap_or(0.0) / 1024.0);
        std::thread::sleep(Duration::from_millis(5));
    }
    let exit = child.wait()?;
    if exit.success() { Ok(most) } else { Err(format!("segue resume: {exit}").into()) }
}

fn memory(missed: &mut u32) -> Done {
    let temp = tempfile::tempdir()?;
    let home = Home::new(Arc::new(RealDisk), temp.path().join("home"));
    fs::create_dir_all(home.dir().join("numbers"))?;
    let script = temp.path().join("script.toml");
    fs::write(&script, "[[reply]]\ntext = \"done\"\ndelay_ms = 1000\nrepeat = true\n")?;
    let short = long_session(&home, 10)?;
    let long = long_session(&home, EVENTS)?;
    let (short, long) = (peak(home.dir(), short, &script)?, peak(home.dir(), long, &script)?);
    println!("peak memory: {short:.1} MiB over 10 events, {long:.1} MiB over {EVENTS}");
    goal(missed, "memory, long / short", long / short, 1.3, "");
    goal(missed, "memory, long", long, 40.0, " MiB");
    Ok(())
}
