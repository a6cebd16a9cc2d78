//! What has to hold after every kill, whenever it came.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use segue_core::{Event, State, event::Reason, state::Phase};
use segue_journal::{
    Home, RealDisk, Session, lock,
    repair::{self, Problem},
    scan::Ending,
};

use super::PATIENCE;
use crate::env::TestEnv;

/// A promise that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(String);

impl Broken {
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// The same, with where it happened.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<segue_journal::Error> for Broken {
    fn from(error: segue_journal::Error) -> Self {
        Self(error.to_string())
    }
}

/// An event that Segue has told somebody about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    pub seq: u64,
    pub kind: String,
    pub id: Option<String>,
}

/// The events among what `--json` printed. A last line without its end was never told to anyone.
#[must_use]
pub fn reported(stdout: &[u8]) -> Vec<Reported> {
    stdout
        .split_inclusive(|&byte| byte == b'\n')
        .filter(|line| line.ends_with(b"\n"))
        .filter_map(|line| {
            let value: serde_json::Value = serde_json::from_slice(line).ok()?;
            Some(Reported {
                seq: value.get("seq")?.as_u64()?,
                kind: value.get("kind")?.as_str()?.to_owned(),
                id: value.get("id").and_then(|id| id.as_str()).map(str::to_owned),
            })
        })
        .collect()
}

/// A session as a check found it.
#[derive(Debug)]
pub struct Checked {
    pub dir: PathBuf,
    pub id: String,
    pub state: State,
    pub events: Vec<Event>,
    pub torn: bool,
}

/// The one session of an environment, if it has come into being.
pub fn only_session(env: &TestEnv) -> Result<Option<PathBuf>, Broken> {
    let home = Home::new(Arc::new(RealDisk), env.home());
    match home.sessions()?.as_slice() {
        [] => Ok(None),
        [at] => Ok(Some(home.session_dir(at))),
        several => Err(Broken::new(format!("{} sessions where one was asked for", several.len()))),
    }
}

/// After a process of Segue is gone: nothing of it is left running, and all that it reported is in
/// the journal, which reads from its first byte to its last.
pub fn after(env: &TestEnv, reported: &[Reported]) -> Result<Option<Checked>, Broken> {
    let Some(dir) = only_session(env)? else {
        return match reported {
            [] => Ok(None),
            [first, ..] => {
                Err(Broken::new(format!("{first:?} was reported, and there is no session")))
            }
        };
    };
    let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    nothing_left(&id)?;
    free(&dir)?;
    session(&dir, id, reported).map(Some)
}

/// Reads the session anew, and compares it with what was reported.
fn session(dir: &Path, id: String, reported: &[Reported]) -> Result<Checked, Broken> {
    let session = Session::open(Arc::new(RealDisk), dir)?;
    let torn = match session.ending() {
        Ending::Clean => false,
        Ending::Torn { .. } => true,
        Ending::Damaged(damage) => return Err(Broken::new(format!("damaged: {damage:?}"))),
    };
    let report = repair::verify(&session)?;
    if let Some(problem) = report.problems.iter().find(|p| !matches!(p, Problem::TornTail { .. })) {
        return Err(Broken::new(format!("verify: {problem:?}")));
    }
    let mut events = Vec::new();
    session.for_each(|event| events.push(event))?;
    for told in reported {
        let kept = usize::try_from(told.seq - 1).ok().and_then(|at| events.get(at));
        let same = kept.is_some_and(|kept| kept.body.kind() == told.kind && kept.id == told.id);
        if !same {
            return Err(Broken::new(format!("{told:?} was reported; the journal has {kept:?}")));
        }
    }
    let state = session.state().clone();
    Ok(Checked { dir: dir.to_owned(), id, state, events, torn })
}

/// Whether the session has nothing left to do.
#[must_use]
pub fn is_done(state: &State) -> bool {
    state.phase == Phase::Stopped
        && state.stop.as_ref().is_some_and(|stop| stop.reason == Reason::Done)
}

/// Waits until no process carries the session's mark.
pub fn nothing_left(id: &str) -> Result<(), Broken> {
    let mark = format!("SEGUE_SESSION={id}");
    until(|| marked(&mark).is_empty())
        .ok_or_else(|| Broken::new(format!("still running: {}", marked(&mark).join("; "))))
}

/// The command lines of all living processes with this entry in their environment.
#[must_use]
pub fn marked(entry: &str) -> Vec<String> {
    let read = |pid: &str, what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    names
        .filter_map(|name| name.file_name().into_string().ok())
        .filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| read(pid, "environ").split(|&b| b == 0).any(|one| one == entry.as_bytes()))
        .map(|pid| {
            let command = read(&pid, "cmdline");
            format!("{pid} {}", String::from_utf8_lossy(&command).replace('\0', " "))
        })
        .collect()
}

/// The lock died with its holder.
fn free(dir: &Path) -> Result<(), Broken> {
    let held = || lock::held_by(&RealDisk, dir);
    // Not at once: a process that was being forked holds a copy until it runs its program.
    match until(|| matches!(held(), Ok(None))) {
        Some(()) => Ok(()),
        None => Err(Broken::new(format!("the lock is still held: {:?}", held()))),
    }
}

/// Looks until it is so; `None` where it does not become so.
pub fn until(mut is_so: impl FnMut() -> bool) -> Option<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Some(())
}

/// At the very end the commands that look work too, and find nothing wrong.
pub fn settled(env: &TestEnv) -> Result<(), Broken> {
    for args in [&["list", "--all", "--json"][..], &["verify", "--all", "--json"]] {
        let output = env.segue(args)?;
        if output.status != 0 {
            let text = format!("{args:?}: status {}: {}", output.status, output.stderr);
            return Err(Broken::new(text));
        }
    }
    let output = env.segue(["resume", "1", "--json"])?;
    match output.stdout.contains("nothing_to_do") {
        true => Ok(()),
        false => Err(Broken::new(format!("session 1 is not settled: {output:?}"))),
    }
}
