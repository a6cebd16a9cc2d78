//! Killing the real Segue, again and again, and looking whether every promise still holds.
//!
//! A session works through a [`Work`] whose effects can be counted. Its process gets a SIGKILL at
//! some moment, then the disk is checked ([`check`]), then `segue resume` goes on, until the work is
//! done. Moments are drawn by a seed: some are times, so that start-up and exit are hit; some follow
//! an event that was reported, so that the short stretches between two syncs are.

pub mod check;
pub mod work;

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use segue_core::state::{Phase, Progress, Proof, State};

pub use self::{
    check::{Broken, Checked, Reported},
    work::Work,
};
use crate::env::TestEnv;

/// Far longer than anything here takes on a machine that is busy with other things too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A process of Segue whose output goes to files: nothing that it managed to print is lost.
#[derive(Debug)]
pub struct Running {
    pub child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Starts a command. What an earlier one of the same environment printed is overwritten.
    pub fn start(env: &TestEnv, mut command: Command) -> io::Result<Self> {
        let (stdout, stderr) = (env.path("stdout"), env.path("stderr"));
        let child = command
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self { child, stdout, stderr })
    }

    /// The events that it has reported so far.
    pub fn reported(&self) -> io::Result<Vec<Reported>> {
        Ok(check::reported(&fs::read(&self.stdout)?))
    }

    #[must_use]
    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Waits until it has reported what is asked for, or has ended.
    pub fn wait_for(&mut self, seen: impl Fn(&[Reported]) -> bool) -> io::Result<bool> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if seen(&self.reported()?) {
                return Ok(true);
            }
            if self.child.try_wait()?.is_some() || Instant::now() >= deadline {
                return Ok(seen(&self.reported()?));
            }
            thread::sleep(Duration::from_micros(300));
        }
    }

    /// Waits for its end, and says its exit status as a shell would.
    pub fn wait(&mut self) -> Result<i32, Broken> {
        use std::os::unix::process::ExitStatusExt;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                let signal = status.signal().map(|signal| 128 + signal);
                return Ok(status.code().or(signal).unwrap_or(-1));
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.child.kill()?;
        self.child.wait()?;
        Err(Broken::new(format!("it did not end within {PATIENCE:?}: {}", self.stderr())))
    }

    /// SIGKILL. Says whether it was still there to be killed.
    pub fn kill(&mut self) -> io::Result<bool> {
        let alive = self.child.try_wait()?.is_none();
        self.child.kill()?;
        self.child.wait()?;
        Ok(alive)
    }
}

/// How often what was seen. Printed, so that a loop that hits nothing is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub kills: u64,
    pub sessions: u64,
    pub torn_tails: u64,
    /// Where the kill found the session.
    pub before_creation: u64,
    pub unnumbered: u64,
    pub not_started: u64,
    pub mid_model: u64,
    pub mid_tool: u64,
    pub mid_proof: u64,
    pub between: u64,
    pub after_stop: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        let Self { kills, sessions, torn_tails, before_creation, unnumbered, .. } = other;
        let Self { not_started, mid_model, mid_tool, mid_proof, between, after_stop, .. } = other;
        self.kills += kills;
        self.sessions += sessions;
        self.torn_tails += torn_tails;
        self.before_creation += before_creation;
        self.unnumbered += unnumbered;
        self.not_started += not_started;
        self.mid_model += mid_model;
        self.mid_tool += mid_tool;
        self.mid_proof += mid_proof;
        self.between += between;
        self.after_stop += after_stop;
    }

    /// Counts a kill by what it left on the disk.
    pub fn count(&mut self, env: &TestEnv, found: Option<&Checked>) {
        self.kills += 1;
        let Some(found) = found else {
            self.before_creation += 1;
            return;
        };
        self.torn_tails += u64::from(found.torn);
        self.unnumbered += u64::from(number_of(env, &found.dir).is_none());
        *self.place(&found.state) += 1;
    }

    fn place(&mut self, state: &State) -> &mut u64 {
        let tools = &state.turn.tools;
        match state.phase {
            Phase::Created => &mut self.not_started,
            Phase::Stopped => &mut self.after_stop,
            _ if state.proof == Proof::Started => &mut self.mid_proof,
            _ if state.turn.open && state.turn.calling => &mut self.mid_model,
            _ if state.turn.open && tools.iter().any(|call| call.progress == Progress::Started) => {
                &mut self.mid_tool
            }
            _ => &mut self.between,
        }
    }
}

/// Numbers that look random and are the same for the same seed.
#[derive(Clone, Copy, Debug)]
pub struct Dice(u64);

impl Dice {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one, below `limit` (splitmix64).
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }
}

/// When the SIGKILL comes.
#[derive(Clone, Copy, Debug)]
enum Moment {
    After(Duration),
    /// So long after this many events have been reported.
    Reported(usize, Duration),
}

impl Moment {
    fn draw(dice: &mut Dice) -> Self {
        let micros = Duration::from_micros;
        match dice.below(10) {
            // Loading, reading settings, creating the session.
            0 => Self::After(micros(dice.below(3_000))),
            1 => Self::After(micros(dice.below(12_000))),
            2 => Self::After(micros(dice.below(120_000))),
            3 | 4 => Self::Reported(20, micros(dice.below(20_000))),
            _ => {
                let events = usize::try_from(dice.below(14)).unwrap_or_default();
                Self::Reported(1 + events, micros(dice.below(4_000)))
            }
        }
    }

    /// Returns when the moment has come, or the process has ended.
    fn wait(self, running: &mut Running) -> io::Result<()> {
        let pause = match self {
            Self::After(pause) => pause,
            Self::Reported(events, pause) => {
                running.wait_for(|seen| seen.len() >= events)?;
                pause
            }
        };
        thread::sleep(pause);
        Ok(())
    }
}

/// Kills sessions until there were `kills` of them, and brings every session to its end.
///
/// # Errors
/// The first promise that did not hold, with the seed that leads there.
pub fn kill_loop(program: &Path, seed: u64, kills: u64) -> Result<Tally, Broken> {
    let mut dice = Dice::new(seed);
    let mut tally = Tally::default();
    while tally.kills < kills {
        let nth = tally.sessions;
        one_session(program, &mut dice, &mut tally)
            .map_err(|broken| broken.at(&format!("seed {seed}, session {nth}")))?;
        tally.sessions += 1;
    }
    Ok(tally)
}

/// So often a session is killed at most before it may end in peace.
const KILLS_PER_SESSION: u64 = 24;

fn one_session(program: &Path, dice: &mut Dice, tally: &mut Tally) -> Result<(), Broken> {
    let env = TestEnv::new(program)?;
    let work = Work::new(dice);
    let model = env.script(&work.script())?;
    let mut killed = 0;
    let mut found: Option<Checked> = None;
    loop {
        if found.as_ref().is_some_and(|found| work.is_complete(&found.events)) {
            break;
        }
        let command = next_command(&env, &work, &model, found.as_ref());
        let mut running = Running::start(&env, command)?;
        let kill = killed < KILLS_PER_SESSION;
        if kill {
            Moment::draw(dice).wait(&mut running)?;
        }
        if kill && running.kill()? {
            killed += 1;
            found = check::after(&env, &running.reported()?)?;
            tally.count(&env, found.as_ref());
        } else {
            let status = running.wait()?;
            if status != 0 {
                return Err(Broken::new(format!("status {status}: {}", running.stderr())));
            }
            found = check::after(&env, &running.reported()?)?;
        }
        if let Some(found) = &found {
            work.check(&env.repo(), &found.events)?;
        }
    }
    check::settled(&env)
}

/// Starts the session, or goes on with it, or asks for the next thing.
#[must_use]
pub fn next_command(env: &TestEnv, work: &Work, model: &str, found: Option<&Checked>) -> Command {
    let mut command = match found {
        None => {
            let mut command = env.command(["run", &work.prompt(0), "--model", model]);
            if let Some(proof) = &work.proof {
                command.args(["--proof", proof]);
            }
            command
        }
        Some(found) => {
            let number = number_of(env, &found.dir).map(|number| number.to_string());
            let mut command = env.command(["resume"]);
            command.arg(number.unwrap_or_else(|| found.id.clone()));
            if check::is_done(&found.state) {
                command.arg(work.prompt(work.turns_started(&found.events)));
            }
            command
        }
    };
    // Real time: an event's time is no help to a test that has no fixed order of things.
    command.arg("--json").env_remove("SEGUE_CLOCK");
    command
}

/// The number that leads to a session, if it has one yet.
#[must_use]
pub fn number_of(env: &TestEnv, dir: &Path) -> Option<u64> {
    let names = fs::read_dir(env.home().join("numbers")).ok()?;
    let numbers = names.flatten().filter_map(|name| name.file_name().to_str()?.parse().ok());
    numbers.into_iter().find(|&number| env.session_dir(number).is_ok_and(|at| at == dir))
}
