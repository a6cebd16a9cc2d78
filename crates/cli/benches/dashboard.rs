//! What the dashboard costs: 200 sessions, some or all of which are written to all the time, and the
//! dashboard in a real terminal. Its time on a processor is compared with that of one `segue list`
//! a second, under the same load.
//!
//! `cargo bench -p segue-cli --bench dashboard`. Needs tmux.

use std::{
    error::Error,
    fs,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use segue_core::{
    Payload,
    caps::Caps,
    event::{
        Cause, Draft, ModelReplied, ModelStop, Process, Reason, SessionStarted, SessionStopped,
        TextWritten, TurnStarted,
    },
    identity::RepoRef,
    usage::Usage,
};
use segue_journal::{
    Durability, Home, LockedSession, RealDisk, home::NewSession, lock::Holder, system_clock,
};

type Done<T = ()> = Result<T, Box<dyn Error>>;

const SEGUE: &str = env!("CARGO_BIN_EXE_segue");
const SESSIONS: usize = 200;
const MEASURED: Duration = Duration::from_secs(10);

/// How many are at work, and how.
struct Load {
    active: usize,
    events_per_second: u32,
    /// What each active one has behind it, with no snapshot of it.
    events_before: usize,
}

const LOADS: [Load; 2] = [
    // A long day behind each of a few, which are busy.
    Load { active: 20, events_per_second: 10, events_before: 5_000 },
    // Everybody is at work.
    Load { active: SESSIONS, events_per_second: 1, events_before: 500 },
];

fn main() -> ExitCode {
    match LOADS.iter().try_for_each(measure) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(load: &Load) -> Done {
    let temp = tempfile::tempdir()?;
    let home = Home::new(Arc::new(RealDisk), temp.path().join("home"));
    let mut active = Vec::new();
    for n in 0..SESSIONS {
        let session = session(&home, n)?;
        if n.is_multiple_of(SESSIONS / load.active) {
            active.push(session);
        } else {
            stop(session)?;
        }
    }
    for session in &mut active {
        session.append_all((0..load.events_before).map(said).collect(), Durability::Synced)?;
    }
    let others = fs::read_to_string("/proc/loadavg")?;
    let Load { active: count, events_per_second, events_before } = load;
    println!(
        "{SESSIONS} sessions, {count} active, {events_per_second} events/s each, {events_before} \
         events behind each"
    );
    println!("load before: {} (of others; what is measured suffers from it)", others.trim());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for session in active {
            scope.spawn(|| write_all_the_time(session, *events_per_second, &over));
        }
        let measured = compare(temp.path(), home.dir());
        over.store(true, Ordering::Relaxed);
        measured
    })
}

fn session(home: &Home, n: usize) -> Done<LockedSession> {
    let clock = system_clock();
    let me = Holder { pid: std::process::id(), host: "bench".into(), since: clock() };
    let repo = format!("repo-{}", n % 5);
    let new = NewSession {
        model: Some("script".into()),
        segue: "0".into(),
        ..NewSession::new(
            RepoRef { id: repo.clone(), identity: repo, head: None, branch: None },
            "/".into(),
            "native".into(),
            format!("Task number {n}, in as many words as people use for one"),
        )
    };
    let (mut session, _) = home.create(new, &me, &clock)?;
    let by = Process { pid: me.pid, host: me.host, segue: "0".into() };
    let turn = TurnStarted::new(Payload::inline("go on"), Cause::Person);
    let drafts = vec![
        SessionStarted { by, caps: Caps::default() }.into(),
        Draft::from(turn).in_turn(1, "native"),
    ];
    session.append_all(drafts, Durability::Soon)?;
    Ok(session)
}

fn stop(mut session: LockedSession) -> Done {
    let stopped = SessionStopped {
        reason: Reason::Interrupted,
        agent: None,
        cap: None,
        signal: None,
        resets_at: None,
        message: "asked to stop".into(),
        hint: None,
    };
    session.append(stopped, Durability::Soon)?;
    Ok(())
}

fn said(n: usize) -> Draft {
    if n.is_multiple_of(5) {
        let usage = Usage { input: 900, output: 40, ..Usage::default() };
        let stop = ModelStop::ToolUse;
        let (model, cost_micros, reply_id) = ("script".into(), None, None);
        return ModelReplied { model, stop, usage, cost_micros, reply_id }.into();
    }
    let text = format!("Line {n} of what an agent says while it works on something.");
    TextWritten { text: Payload::inline(text), partial: false }.into()
}

fn write_all_the_time(mut session: LockedSession, events_per_second: u32, over: &AtomicBool) {
    for n in 0.. {
        if over.load(Ordering::Relaxed) || session.append(said(n), Durability::Soon).is_err() {
            return;
        }
        thread::sleep(Duration::from_secs(1) / events_per_second);
    }
}

fn compare(temp: &Path, home: &Path) -> Done {
    // The first look makes the index, which is not what is measured.
    list(home)?;
    let terminal = Terminal::start(temp, home)?;
    thread::sleep(Duration::from_secs(2));
    println!("on its screen: {}", terminal.first_line()?);
    let (table, memory) = terminal.cost()?;
    report("the table", table, memory);
    terminal.tmux(&["send-keys", "-t", "=bench:", "Enter"])?;
    thread::sleep(Duration::from_secs(1));
    println!("on its screen: {}", terminal.first_line()?);
    let (followed, memory) = terminal.cost()?;
    report("the table, one followed", followed, memory);
    drop(terminal);
    let listed = lists(home)?;
    println!("{:<28} {:>6.2} % of a core", "one `segue list` a second", listed * 100.0);
    println!("the table / the lists        {:>6.2}", table / listed);
    Ok(())
}

fn report(what: &str, share: f64, (before, after): (u64, u64)) {
    let share = share * 100.0;
    println!("{what:<28} {share:>6.2} % of a core, memory {before} kB, then {after} kB");
}

fn list(home: &Path) -> Done {
    let mut command = Command::new(SEGUE);
    command.args(["list", "--all", "--limit", "0", "--home"]).arg(home).stdout(Stdio::null());
    if command.status()?.success() { Ok(()) } else { Err("segue list failed".into()) }
}

/// The share of a core that one list a second takes.
fn lists(home: &Path) -> Done<f64> {
    let (started, before) = (Instant::now(), ticks("self", ENDED_CHILDREN)?);
    let mut next = started;
    while started.elapsed() < MEASURED {
        list(home)?;
        next += Duration::from_secs(1);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    share(started, ticks("self", ENDED_CHILDREN)? - before)
}

/// Where `/proc/…/stat` has the time of a process, and of its children that have ended. Counted
/// from behind the name.
const OWN: usize = 11;
const ENDED_CHILDREN: usize = 13;

fn ticks(process: &str, from: usize) -> Done<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> =
        text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |n: usize| fields.get(n).and_then(|text| text.parse::<u64>().ok());
    field(from).zip(field(from + 1)).map(|(user, system)| user + system).ok_or("no stat".into())
}

/// The same on every Linux that people use.
const TICKS_PER_SECOND: f64 = 100.0;

fn share(started: Instant, ticks: u64) -> Done<f64> {
    Ok(ticks as f64 / TICKS_PER_SECOND / started.elapsed().as_secs_f64())
}

/// The dashboard in a tmux of its own, which ends with this.
struct Terminal {
    socket: String,
    pid: String,
}

impl Terminal {
    fn start(temp: &Path, home: &Path) -> Done<Self> {
        let socket = temp.join("tmux").display().to_string();
        let pid_file = temp.join("pid");
        let line = format!(
            "echo $$ >{}; exec {SEGUE} dashboard --home {}",
            pid_file.display(),
            home.display()
        );
        let mut terminal = Self { socket, pid: String::new() };
        terminal.tmux(&["new-session", "-d", "-s", "bench", "-x", "120", "-y", "40", &line])?;
        let started = Instant::now();
        while terminal.pid.is_empty() && started.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(20));
            terminal.pid = fs::read_to_string(&pid_file).unwrap_or_default().trim().to_owned();
        }
        Ok(terminal)
    }

    fn tmux(&self, args: &[&str]) -> Done<String> {
        let mut command = Command::new("tmux");
        command.args(["-u", "-S", &self.socket, "-f", "/dev/null"]).args(args);
        let output = command.output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into()),
        }
    }

    /// Proof that it shows what is measured.
    fn first_line(&self) -> Done<String> {
        let screen = self.tmux(&["capture-pane", "-p", "-t", "=bench:"])?;
        Ok(screen.lines().next().unwrap_or_default().to_owned())
    }

    /// Its share of a core for a while, and its memory in kB before and after.
    fn cost(&self) -> Done<(f64, (u64, u64))> {
        let (started, before) = (Instant::now(), ticks(&self.pid, OWN)?);
        let memory = self.memory()?;
        thread::sleep(MEASURED);
        let share = share(started, ticks(&self.pid, OWN)? - before)?;
        Ok((share, (memory, self.memory()?)))
    }

    fn memory(&self) -> Done<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let found = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        Ok(found.unwrap_or_default().trim().trim_end_matches(" kB").parse()?)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.tmux(&["kill-server"]));
    }
}
