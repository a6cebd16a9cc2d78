//! Runs there and back, with the real `tine` program: `SEGUE_TINE_DIR`, else what `scripts/tine`
//! installed. Where it is not installed the tests skip themselves; with `CI=true` they fail.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

mod ours;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
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

#[test]
fn runs_go_there_and_back_with_the_same_digest() {
    let Some(place) = Place::new() else { return };
    let files = place.files();
    assert!(files.len() >= 20, "{files:?}");
    for file in files {
        let number = place.session(&file);
        assert_eq!(number, place.session(&file), "the same file is the same session");
        let out = text(&place.env.path("back.tine"));
        place.ours(&["export", &number, "-o", &out, "--force"]);
        let (before, after) =
            (place.ours(&["verify", &text(&file)]), place.ours(&["verify", &out]));
        assert_eq!(before["digest"], after["digest"], "{}", file.display());
        let verified = place.theirs(&["verify", &out]);
        assert_eq!(verified.status, 0, "{}: {}", file.display(), verified.stdout);
        assert_eq!(place.segue(&["verify", &number]).status, 0, "{}", file.display());
    }
}

#[test]
fn replays_are_verified_there_and_come_back_step_by_step() {
    let Some(place) = Place::new() else { return };
    let mut refused = 0;
    for file in place.files() {
        let number = place.session(&file);
        // A replay is a session of our own: nothing of the file is left but the steps.
        let out = text(&place.env.path("replay.tine"));
        let args = ["replay", &number, "--mode", "cache", "--save", &out, "--force"];
        if place.segue(&args).status != 0 {
            // Nothing to replay, or it ends within a batch of calls.
            refused += 1;
            continue;
        }
        let verified = place.theirs(&["verify", &out]);
        assert_eq!(verified.status, 0, "{}: {}", file.display(), verified.stdout);
        place.ours(&["verify", &out]);
        let again = place.session(Path::new(&out));
        assert_eq!(place.steps(&number), place.steps(&again), "{}", file.display());
    }
    assert!(refused <= 2, "{refused}");
}

#[test]
fn spans_go_there_and_back() {
    let Some(place) = Place::new() else { return };
    for file in place.files() {
        let number = place.session(&file);
        let out = text(&place.env.path("spans.otel.json"));
        place.ours(&["export", &number, "-o", &out, "--force"]);
        assert_eq!(place.session(Path::new(&out)), number, "{}", file.display());
        let saved = text(&place.env.path("theirs.tine"));
        let read = place.theirs(&["import", &out, "--save", &saved, "--force"]);
        assert_eq!(read.status, 0, "{}: {}{}", file.display(), read.stdout, read.stderr);
        let their = text(&place.env.path("theirs.json"));
        let told = place.theirs(&["export", &text(&file), "--output", &their, "--force"]);
        assert_eq!(told.status, 0, "{}: {}", file.display(), told.stdout);
        if !file.ends_with("run-empty.tine") {
            place.session(Path::new(&their));
        }
    }
}

#[test]
fn signatures_hold_on_both_sides() {
    let Some(place) = Place::new() else { return };
    let (secret, seed) = (text(&place.runs.join("secret")), text(&place.runs.join("seed")));
    let hmac = text(&place.runs.join("run-hmac.tine"));
    let verdict = place.ours(&["verify", &hmac, "--key-file", &secret]);
    assert_eq!(verdict["signature"], "verified");
    assert_eq!(place.segue(&["verify", &hmac, "--key-file", &seed]).status, 1, "another key");
    let unsigned = text(&place.runs.join("run-linear.tine"));
    assert_eq!(place.segue(&["import", &unsigned, "--require-signature"]).status, 1);
    let number = place.session(Path::new(&unsigned));
    for (how, key, check) in [
        ("hmac", &secret, vec!["--key-file", &secret]),
        ("ed25519", &seed, vec!["--trust-embedded-key"]),
    ] {
        let out = text(&place.env.path(&format!("{how}.tine")));
        place.ours(&["export", &number, "-o", &out, "--sign-with", how, "--key-file", key]);
        let checked = place.theirs(&[&["verify", &out], check.as_slice()].concat());
        assert_eq!(checked.status, 0, "{how}: {}", checked.stdout);
    }
}

#[test]
fn one_changed_byte_is_found_by_both() {
    let Some(place) = Place::new() else { return };
    let secret = text(&place.runs.join("secret"));
    let number = place.session(&place.runs.join("run-zlib.tine"));
    let signed = place.env.path("signed.tine");
    let args = ["export", &number, "-o", &text(&signed), "--sign-with", "hmac", "--key-file"];
    place.ours(&[args.as_slice(), &[&secret]].concat());
    let bytes = fs::read(&signed).unwrap();
    let changed = place.env.path("changed.tine");
    let name = text(&changed);
    let checks = ["verify", &name, "--key-file", &secret];
    assert!(bytes.len() > 200);
    for at in (0..bytes.len()).step_by(bytes.len() / 200) {
        let mut other = bytes.clone();
        // All of its bits: the last ones of a compressed stream may be there to fill a byte up.
        other[at] = !other[at];
        fs::write(&changed, other).unwrap();
        assert_ne!(place.segue(&checks).status, 0, "byte {at}");
        // Theirs takes long to start: every tenth.
        if at % 10 == 0 {
            assert_ne!(place.theirs(&checks).status, 0, "byte {at}, there");
        }
    }
}

#[test]
fn what_may_not_be_resumed_is_refused_and_changes_nothing() {
    let Some(place) = Place::new() else { return };
    let number = place.session(&place.runs.join("run-harness.tine"));
    let refused = place.segue(&["resume", &number, "go on"]);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    let out = text(&place.env.path("same.tine"));
    place.ours(&["export", &number, "-o", &out]);
}
