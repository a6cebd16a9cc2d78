//! Files of the other implementation: what CPython would write, and what hostile ones get.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use segue_core::identity::RepoRef;
use segue_share::{
    foreign::{self, Demand, Format},
    tine::{Artifact, Into, json::Value, write::canonical},
};

use crate::support::{Random, home, made, open, tree};

/// Numbers as another program may write them, texts and keys that sort in strange ways.
fn documents() -> Vec<String> {
    let mut noise = Random(7);
    let mut all: Vec<String> =
        ["0", "-0", "-0.0", "1E5", "1e-7", "0.1", "1e16", "123456789012345680.0", "5e-324"]
            .map(str::to_owned)
            .to_vec();
    all.push("9".repeat(60));
    all.push(format!("-{}", "7".repeat(300)));
    all.push(
        r#"{"b":1,"a":{"é":2,"z":"\u00e9\ud83e\udd80\u0000\u001f\u007f /\\\""},"":[],"B":{}}"#
            .to_owned(),
    );
    all.push(r#"{"\ud83e\udd80":1,"\uffff":2,"a":3}"#.to_owned());
    while all.len() < 3000 {
        let number = f64::from_bits(noise.next());
        if number.is_finite() {
            all.push(format!("{number:e}"));
            all.push(format!("[{}, {{\"x\": {}}}]", noise.next() as i64, noise.next()));
        }
    }
    all
}

#[test]
fn canonical_text_is_what_python_writes() {
    const PROGRAM: &str = "import json, sys\n\
        for line in sys.stdin:\n    \
            print(json.dumps(json.loads(line), sort_keys=True, separators=(',', ':')))\n";
    let documents = documents();
    let python = Command::new("python3")
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "python3 is not installed");
        eprintln!("skipped: python3 is not installed");
        return;
    };
    let mut stdin = python.stdin.take().unwrap();
    let text = documents.join("\n") + "\n";
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
    let output = python.wait_with_output().unwrap();
    writer.join().unwrap();
    let theirs = String::from_utf8(output.stdout).unwrap();
    assert_eq!(theirs.lines().count(), documents.len());
    for (document, theirs) in documents.iter().zip(theirs.lines()) {
        let ours = canonical(&Value::read(document.as_bytes()).unwrap());
        assert_eq!(ours, theirs, "{document}");
    }
}

#[test]
fn what_is_no_json_or_means_two_things_is_refused() {
    let deep = "[".repeat(600) + &"]".repeat(600);
    let many = [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1e",
        "NaN",
        "Infinity",
        "-Infinity",
        "'a'",
        "\"\u{1}\"",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"\\udc00\\ud800\"",
        "{\"a\":1,\"a\":2}",
        "{1:2}",
        "nul",
        "true false",
        "1e400",
        &deep,
    ];
    for text in many {
        assert!(Value::read(text.as_bytes()).is_err(), "{text:.40}");
    }
    for bytes in [&b"\"\xff\""[..], b"\"\xc0\xaf\"", b"\"\xed\xa0\x80\""] {
        assert!(Value::read(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn a_cut_or_changed_file_is_refused_and_leaves_nothing() {
    let made = made();
    let file = made.tmp.path().join("x.tine");
    foreign::write(&open(&made.home), &file, Format::Tine, false, None).unwrap();
    let bytes = fs::read(&file).unwrap();
    assert!(Artifact::read(bytes.clone()).unwrap().findings().is_empty());
    let sound = |bytes: Vec<u8>| {
        Artifact::read(bytes).is_ok_and(|run| !run.findings().iter().any(|one| one.is_wrong()))
    };
    let some = || (0..bytes.len()).step_by((bytes.len() / 300).max(1));
    for end in some() {
        assert!(!sound(bytes[..end].to_vec()), "cut at {end}");
    }
    for at in some() {
        let mut other = bytes.clone();
        other[at] = !other[at];
        assert!(!sound(other), "byte {at}");
    }
    let other = tempfile::tempdir().unwrap();
    let home = home(other.path());
    let before = tree(other.path());
    let repo = RepoRef { id: "r".into(), identity: "r".into(), head: None, branch: None };
    for bytes in [&bytes[..bytes.len() - 1], b"{}", b"TINEZ1\0", b"{\"format_version\":2}"] {
        fs::write(&file, bytes).unwrap();
        let into = Into { repo: repo.clone(), workspace: other.path().to_owned() };
        foreign::import(&file, Format::Tine, &home, into, &Demand::default()).unwrap_err();
        assert_eq!(tree(other.path()), before);
    }
}
