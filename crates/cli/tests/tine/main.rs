//! Runs there and back, with the real `tine` program: `SEGUE_TINE_DIR`, else what `scripts/tine`
//! installed. Where it is not installed the tests skip themselves; with `CI=true` they fail.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

mod ours;
mod rewritten;
mod signed;
mod theirs;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use segue_core::event::SessionNamed;
use segue_journal::{Durability, Home, RealDisk, lock::Holder, system_clock};
use segue_share::tine::{
    Artifact, Codec,
    json::{Map, Value as Document},
};
use segue_testkit::env::{Output, TestEnv};
use serde_json::Value;

struct Place {
    env: TestEnv,
    tine: PathBuf,
    runs: PathBuf,
}

impl Place {
    fn empty() -> Option<Self> {
        let tine = installed()?;
        let env = TestEnv::new(env!("CARGO_BIN_EXE_segue")).unwrap();
        let runs = env.path("runs");
        fs::create_dir_all(&runs).unwrap();
        Some(Self { env, tine, runs })
    }

    /// The same with runs of every shape that the other implementation made.
    fn new() -> Option<Self> {
        let place = Self::empty()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tine/runs.py");
        let mut python = place.env.any(place.tine.join("python"));
        let made = Output::of(python.arg(script).arg(&place.runs)).unwrap();
        assert_eq!(made.status, 0, "{}", made.stderr);
        Some(place)
    }

    fn segue(&self, args: &[&str]) -> Output {
        self.env.segue(args).unwrap()
    }

    fn ours(&self, args: &[&str]) -> Value {
        let done = self.segue(&[&["--json"], args].concat());
        assert_eq!(done.status, 0, "{args:?}: {} {}", done.stdout, done.stderr);
        serde_json::from_str(&done.stdout).unwrap()
    }

    fn theirs(&self, args: &[&str]) -> Output {
        Output::of(self.env.any(self.tine.join("tine")).args(args)).unwrap()
    }

    fn session(&self, file: &Path) -> String {
        self.ours(&["import", &text(file)])["session"].as_str().unwrap().to_owned()
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.runs).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|ending| ending == "tine")).collect();
        files.sort();
        files
    }

    /// Names a session that came from a file: from then on it is told from its steps.
    fn goes_on(&self, session: &str) {
        let home = Home::new(Arc::new(RealDisk), self.env.home().to_owned());
        let number: u64 = session.parse().unwrap();
        let all = home.numbers().unwrap();
        let (_, at) = all.into_iter().find(|(one, _)| *one == number).unwrap();
        let since = jiff::Timestamp::UNIX_EPOCH;
        let me = Holder { pid: std::process::id(), host: "here".to_owned(), since };
        let (mut locked, _) = home.open(&at).unwrap().lock(&me, system_clock()).unwrap();
        let named = SessionNamed { name: format!("named-{session}") };
        locked.append(named, Durability::Synced).unwrap();
    }

    /// The file that a session is told as.
    fn told(&self, session: &str, name: &str) -> PathBuf {
        let out = self.env.path(name);
        self.ours(&["export", session, "-o", &text(&out), "--force"]);
        out
    }

    /// The real program takes a file for what it says it is.
    fn verified(&self, file: &Path) {
        let verified = self.theirs(&["verify", &text(file)]);
        assert_eq!(verified.status, 0, "{}: {}", file.display(), verified.stdout);
        self.ours(&["verify", &text(file)]);
    }

    fn steps(&self, session: &str) -> String {
        let listed = self.segue(&["log", session, "--steps"]);
        assert_eq!(listed.status, 0, "{}", listed.stderr);
        listed.stdout
    }
}

fn installed() -> Option<PathBuf> {
    let dir = env::var_os("SEGUE_TINE_DIR").map(PathBuf::from).or_else(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/tine");
        let said = Command::new(script).arg("--where").output().ok()?;
        Some(PathBuf::from(String::from_utf8(said.stdout).ok()?.trim()))
    });
    let bin = dir.map(|dir| dir.join("bin")).filter(|bin| bin.join("tine").exists());
    if bin.is_none() {
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "scripts/tine was not run");
        eprintln!("skipped: opentine is not installed (scripts/tine installs it)");
    }
    bin
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// What a file says.
fn document(file: &Path) -> Map {
    let plain = Artifact::open(file).unwrap().to_bytes(Codec::Plain);
    Document::read(&plain).unwrap().map().unwrap().clone()
}
