//! Signatures, and what one changed byte does.

use std::{fs, path::Path};

use segue_share::tine::{Artifact, State, Trust};

use super::{Output, Place, document, text};

#[test]
fn signatures_hold_on_both_sides() {
    let Some(place) = Place::new() else { return };
    let run = |name: &str| text(&place.runs.join(name));
    let (secret, seed) = (run("secret"), run("seed"));
    let (public, raw) = (run("public"), run("public-raw"));
    for (file, flag, key, other) in [
        ("run-hmac.tine", "--key-file", &secret, &seed),
        ("run-first-hmac-sha256.tine", "--key-file", &secret, &seed),
        ("run-ed25519.tine", "--pubkey", &public, &seed),
        ("run-ed25519.tine", "--pubkey", &raw, &seed),
        ("run-first-ed25519.tine", "--pubkey", &public, &seed),
    ] {
        let file = run(file);
        assert_eq!(place.ours(&["verify", &file, flag, key])["signature"], "verified", "{file}");
        let taken = place.ours(&["import", &file, flag, key, "--require-signature"]);
        assert_eq!(taken["signature"], "verified", "{file}");
        for refused in [&[flag, other][..], &["--require-signature"]] {
            for command in ["verify", "import"] {
                let done = place.segue(&[&[command, &file], refused].concat());
                assert_eq!(done.status, 1, "{file}: {command} {refused:?}: {}", done.stderr);
            }
        }
    }
    let unsigned = run("run-linear.tine");
    assert_eq!(place.segue(&["import", &unsigned, "--require-signature"]).status, 1);
    let number = place.session(Path::new(&unsigned));
    for (how, key, check) in [
        ("hmac", &secret, vec!["--key-file", &secret]),
        ("ed25519", &seed, vec!["--trust-embedded-key"]),
        ("ed25519", &seed, vec!["--pubkey", &public]),
    ] {
        let out = text(&place.env.path(&format!("{how}.tine")));
        place.ours(&[
            "export",
            &number,
            "-o",
            &out,
            "--sign-with",
            how,
            "--key-file",
            key,
            "--force",
        ]);
        let checked = place.theirs(&[&["verify", &out], check.as_slice()].concat());
        assert_eq!(checked.status, 0, "{how}: {}", checked.stdout);
    }
}

/// 32 bytes are a key, whatever the last of them is.
#[test]
fn a_key_that_ends_like_a_line_is_a_key() {
    let Some(place) = Place::new() else { return };
    let key = place.env.path("key");
    fs::write(&key, [&[7; 31][..], b"\n"].concat()).unwrap();
    let number = place.session(&place.runs.join("run-linear.tine"));
    let out = text(&place.env.path("signed.tine"));
    place.ours(&[
        "export",
        &number,
        "-o",
        &out,
        "--sign-with",
        "ed25519",
        "--key-file",
        &text(&key),
    ]);
    let checked = place.theirs(&["verify", &out, "--trust-embedded-key"]);
    assert_eq!(checked.status, 0, "{}", checked.stdout);
}

/// Every byte of some files, here and there: what either lets pass is the same document, or is told
/// apart only by the metadata of a file that nobody signed.
#[test]
fn one_changed_byte_is_found_by_both() {
    let Some(place) = Place::new() else { return };
    let public = fs::read_to_string(place.runs.join("public")).unwrap();
    let number = place.session(&place.runs.join("run-zlib.tine"));
    let seed = text(&place.runs.join("seed"));
    let ours = place.env.path("signed.tine");
    let args = ["export", &number, "-o", &text(&ours), "--sign-with", "ed25519", "--key-file"];
    place.ours(&[&args[..], &[&seed]].concat());
    for (file, key) in [
        (place.runs.join("run-linear.tine"), None),
        (place.runs.join("run-zlib.tine"), None),
        (place.runs.join("run-ed25519.tine"), Some(public.trim())),
        (ours, Some(public.trim())),
    ] {
        let original = document(&file);
        let bytes = fs::read(&file).unwrap();
        let mut passed = theirs_pass(&place, &file, key);
        passed.extend(ours_pass(&bytes, key));
        let changed = place.env.path("changed.tine");
        for (at, to) in passed {
            let mut other = bytes.clone();
            other[at] = to;
            fs::write(&changed, other).unwrap();
            let (mut original, mut found) = (original.clone(), document(&changed));
            if key.is_none() {
                original.remove("metadata");
                found.remove("metadata");
            }
            assert_eq!(found, original, "{}: byte {at}, now {to}", file.display());
        }
    }
}

/// What the real program lets pass: places, and what is there instead.
fn theirs_pass(place: &Place, file: &Path, key: Option<&str>) -> Vec<(usize, u8)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tine/changed.py");
    let mut python = place.env.any(place.tine.join("python"));
    let done = Output::of(python.arg(script).arg(file).args(key)).unwrap();
    assert_eq!(done.status, 0, "{}", done.stderr);
    let lines = done.stdout.lines().map(|line| line.split_once(' ').unwrap());
    lines.map(|(at, to)| (at.parse().unwrap(), to.parse().unwrap())).collect()
}

/// What we let pass of the same changes.
fn ours_pass(bytes: &[u8], key: Option<&str>) -> Vec<(usize, u8)> {
    let trust = key.map(|key| Trust::Public(key.as_bytes().to_vec()));
    let passes = |bytes: Vec<u8>| {
        let Ok(run) = Artifact::read(bytes) else { return false };
        let good = run.signature(trust.as_ref()).state == State::Verified;
        (good || trust.is_none()) && !run.findings().iter().any(|finding| finding.is_wrong())
    };
    assert!(passes(bytes.to_vec()));
    let mut passed = Vec::new();
    for (at, byte) in bytes.iter().copied().enumerate() {
        for to in [byte ^ (1 << (at % 8)), byte ^ 0x20, b' '] {
            let mut other = bytes.to_vec();
            other[at] = to;
            if to != byte && passes(other) {
                passed.push((at, to));
            }
        }
    }
    passed
}

/// The same through the two programs, for some bytes.
#[test]
fn a_changed_byte_is_told_by_both_programs() {
    let Some(place) = Place::new() else { return };
    let public = text(&place.runs.join("public"));
    let changed = place.env.path("changed.tine");
    let name = text(&changed);
    let checks = ["verify", &name, "--pubkey", &public];
    let bytes = fs::read(place.runs.join("run-ed25519.tine")).unwrap();
    for at in (0..bytes.len()).step_by(bytes.len() / 15) {
        let mut other = bytes.clone();
        other[at] = !other[at];
        fs::write(&changed, other).unwrap();
        assert_ne!(place.segue(&checks).status, 0, "byte {at}");
        assert_ne!(place.theirs(&checks).status, 0, "byte {at}, there");
    }
}
