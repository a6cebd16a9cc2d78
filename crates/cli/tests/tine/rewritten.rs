//! What the real program makes of files of ours is read again.

use std::{fs, path::Path};

use segue_share::tine::{Artifact, json::Value};

use super::{Place, document, text};

#[test]
fn what_the_other_implementation_makes_of_ours_is_read_again() {
    let Some(place) = Place::empty() else { return };
    place.sessions(14);
    let secret = place.env.path("secret");
    fs::write(&secret, "a secret of enough bytes, for tests").unwrap();
    // With tools, named and gone on, handed over, rewound.
    for number in ["3", "4", "9", "10"] {
        let file = place.told(number, "ours.tine");
        let session = place.session(&file);
        let steps = place.steps(&session);
        compressed(&place, &file, &session);
        signed(&place, &file, &secret, &steps);
        replayed(&place, &file, &steps);
        forked(&place, &file);
    }
}

fn made(place: &Place, args: &[&str], out: &Path) {
    let _ = fs::remove_file(out);
    let done = place.theirs(&[args, &["--save", &text(out)]].concat());
    assert_eq!(done.status, 0, "{args:?}: {}{}", done.stdout, done.stderr);
    place.verified(out);
}

/// Another wrapper is no other document, and no other session.
fn compressed(place: &Place, file: &Path, session: &str) {
    let out = place.env.path("compressed.tine");
    fs::copy(file, &out).unwrap();
    for args in [&["compress", "--decompress"][..], &["compress"]] {
        let before = fs::read(&out).unwrap();
        let done = place.theirs(&[args, &[&text(&out)]].concat());
        assert_eq!(done.status, 0, "{}{}", done.stdout, done.stderr);
        assert_ne!(fs::read(&out).unwrap(), before, "{args:?}");
        assert_eq!(document(&out), document(file));
        assert_eq!(place.session(&out), session);
    }
}

fn signed(place: &Place, file: &Path, secret: &Path, steps: &str) {
    let out = place.env.path("signed.tine");
    made(place, &["sign", &text(file), "--key-file", &text(secret)], &out);
    let checked = place.ours(&["verify", &text(&out), "--key-file", &text(secret)]);
    assert_eq!(checked["signature"], "verified");
    assert_eq!(place.steps(&place.session(&out)), steps);
}

fn replayed(place: &Place, file: &Path, steps: &str) {
    let out = place.env.path("replayed.tine");
    made(place, &["replay", &text(file), "--mode", "cache"], &out);
    let session = place.session(&out);
    let kept = document(&out);
    let whole = document(file).get("graph") == kept.get("graph");
    // What a rewind left behind, no replay of theirs has.
    assert_eq!(place.steps(&session) == steps, whole);
    let run = Artifact::open(&out).unwrap();
    let known = Artifact::open(file).unwrap();
    let known: Vec<&str> = known.steps().map(|(id, _)| id).collect();
    assert!(run.steps().count() >= 2 && run.steps().all(|(id, _)| known.contains(&id)));
}

/// The first steps, under the ids that they have.
fn forked(place: &Place, file: &Path) {
    let out = place.env.path("forked.tine");
    made(place, &["fork", &text(file), "--from-step", "1"], &out);
    let ids = |file: &Path| -> Vec<String> {
        let run = Artifact::open(file).unwrap();
        run.steps().map(|(id, _)| id.to_owned()).collect()
    };
    assert_eq!(ids(&out), ids(file)[..2]);
    let session = place.session(&out);
    let words = |file: &Path| {
        let run = document(file);
        let prompt = run.get("metadata").and_then(|data| data.get("user_prompt"));
        prompt.and_then(Value::text).map(str::to_owned)
    };
    assert_eq!(words(&out), words(file));
    assert!(place.steps(&session).contains(words(file).unwrap().split(' ').next().unwrap()));
}
