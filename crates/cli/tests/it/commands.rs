//! The version, mistyped words, and what is made from the commands themselves.

use std::fs;

use insta::assert_snapshot;
use segue_testkit::env::Output;

use crate::support::{env, segue, shown};

#[test]
fn the_version() {
    let env = env();
    assert_snapshot!(shown(&env, &["--version"]), @"
    status 0
    ── stdout
    segue 0.1.0
    ── stderr
    ");
}

#[test]
fn nothing_at_all_gets_the_help() {
    let env = env();
    let output = segue(&env, &[]);
    assert_eq!((output.status, output.stdout.as_str()), (2, ""));
    assert!(output.stderr.starts_with("Run coding agents so that no run is ever lost"));
}

#[test]
fn mistyped_words() {
    let env = env();
    assert_snapshot!(shown(&env, &["resumee"]), @"
    status 2
    ── stdout
    ── stderr
    error: unrecognized subcommand 'resumee'

      tip: a similar subcommand exists: 'resume'

    Usage: segue [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(shown(&env, &["frobnicate"]), @"
    status 2
    ── stdout
    ── stderr
    error: unrecognized subcommand 'frobnicate'

    Usage: segue [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(shown(&env, &["list", "--frob"]), @"
    status 2
    ── stdout
    ── stderr
    error: unexpected argument '--frob' found

    Usage: segue list [OPTIONS]

    For more information, try '--help'.
    ");
}

#[test]
fn completions_are_what_the_shells_can_read() {
    let env = env();
    for (shell, sign) in [
        ("bash", "complete -F _segue"),
        ("zsh", "#compdef segue"),
        ("fish", "complete -c segue"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let output = segue(&env, &["completions", shell]);
        assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{shell}");
        assert!(output.stdout.contains(sign), "{shell}: {}", output.stdout);
        assert!(output.stdout.contains("resume"), "{shell}");
        let file = env.path(&format!("completion.{shell}"));
        fs::write(&file, &output.stdout).unwrap();
        // Where the shell is here, it reads its own.
        if let Ok(read) = Output::of(env.any(shell).arg("-n").arg(&file))
            && shell != "powershell"
        {
            assert_eq!((read.status, read.stderr.as_str()), (0, ""), "{shell}");
        }
    }
}

#[test]
fn man_pages_are_pages() {
    let env = env();
    let dir = env.path("man");
    let output = segue(&env, &["man", dir.to_str().unwrap()]);
    assert_eq!((output.status, output.stdout.as_str(), output.stderr.as_str()), (0, "", ""));
    let mut names: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for wanted in ["segue.1", "segue-run.1", "segue-resume.1", "segue-list.1"] {
        assert!(names.iter().any(|name| name == wanted), "{wanted} in {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("reference")), "{names:?}");
    for name in names {
        let text = fs::read_to_string(dir.join(&name)).unwrap();
        assert!(text.starts_with(".ie") || text.starts_with(".TH"), "{name}: {text}");
        assert!(text.contains("\n.SH NAME"), "{name}");
    }
}
