//! Runs of every shape that the other implementation made: taken in, told again, as spans.

use std::{fs, path::Path};

use segue_share::{
    foreign::{self, Format},
    tine::{Artifact, json::Value},
};
use segue_testkit::env::Output;

use super::{Place, document, text};

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

/// Nothing of the file is left but the steps: what is told then is told again as it was.
#[test]
fn what_is_told_from_the_steps_comes_back_as_it_was() {
    let Some(place) = Place::new() else { return };
    for file in place.files() {
        let first = place.session(&file);
        place.goes_on(&first);
        let told = place.told(&first, "first.tine");
        place.verified(&told);
        let second = place.session(&told);
        assert_ne!(first, second, "{}", file.display());
        assert_eq!(place.steps(&first), place.steps(&second), "{}", file.display());
        place.goes_on(&second);
        let again = place.told(&second, "second.tine");
        place.ours(&["verify", &text(&again)]);
        let (mut before, mut after) = (document(&told), document(&again));
        for run in [&mut before, &mut after] {
            // Each is a session of its own, and says so.
            run.remove("run_id");
            run.remove("metadata");
        }
        assert_eq!(before, after, "{}", file.display());
    }
}

#[test]
fn files_of_earlier_versions_are_read_as_the_other_implementation_reads_them() {
    let Some(place) = Place::new() else { return };
    for (name, version) in [("linear-v0.json", 0), ("run-v1.tine", 1)] {
        let file = place.runs.join(name);
        assert_eq!(Artifact::open(&file).unwrap().version, version);
        // Whoever verifies it and whoever takes it in are of one mind.
        place.ours(&["verify", &text(&file)]);
        let number = place.session(&file);
        let steps = place.steps(&number);
        for words in ["What is in a.txt?", "I look.", "read", "It is 42."] {
            assert!(steps.contains(words), "{name}: {words}: {steps}");
        }
        let told = place.told(&number, "told.tine");
        place.verified(&told);
        let migrated = place.env.path("migrated.tine");
        let done = place.theirs(&["migrate", &text(&file), "--save", &text(&migrated), "--force"]);
        assert_eq!(done.status, 0, "{name}: {}", done.stdout);
        for section in ["graph", "refs", "run_id", "status", "transcript", "manifest"] {
            let (ours, theirs) = (document(&told), document(&migrated));
            assert_eq!(ours.get(section), theirs.get(section), "{name}: {section}");
        }
    }
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
        if file.ends_with("run-empty.tine") {
            continue;
        }
        place.session(Path::new(&their));
        // Their spans have the steps, and become these; but for long numbers, which they tell as text.
        if file.ends_with("run-numbers.tine") {
            continue;
        }
        let (before, after) =
            (Artifact::open(&file).unwrap(), foreign::open(Path::new(&their), Format::Otel));
        let told = |run: &Artifact| -> Vec<Vec<Option<Value>>> {
            let fields = ["kind", "inputs", "outputs", "model_info"];
            let step = |(_, step): (&str, &super::Map)| {
                fields.iter().map(|field| step.get(*field).cloned()).collect()
            };
            run.steps().map(step).collect()
        };
        assert_eq!(told(&before), told(&after.unwrap()), "{}", file.display());
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

#[test]
fn what_the_page_says_that_is_typed_there_can_be_typed_there() {
    let Some(place) = Place::empty() else { return };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from/opentine.md");
    let page = fs::read_to_string(page).unwrap();
    let mut commands = 0;
    for row in page.lines().filter(|line| line.starts_with("| `tine ")) {
        let cell = row.split(" | ").next().unwrap();
        let mut help = String::new();
        for code in cell.split('`').skip(1).step_by(2) {
            if let Some(call) = code.strip_prefix("tine ") {
                let command = call.split_whitespace().next().unwrap();
                let mut asked = place.env.any(place.tine.join("tine"));
                let told = Output::of(asked.args([command, "--help"]).env("COLUMNS", "200"));
                let told = told.unwrap();
                assert_eq!(told.status, 0, "tine {command}: {}", told.stderr);
                help = told.stdout;
                commands += 1;
            }
            for flag in code.split_whitespace().filter(|word| word.starts_with("--")) {
                assert!(help.contains(flag), "{row}: there is no {flag} in {help}");
            }
        }
    }
    assert!(commands > 16, "{commands}");
}
