//! Help, version, and what is made from the commands themselves.

use std::fs;

use insta::assert_snapshot;
use segue_testkit::env::{Output, TestEnv};

use crate::support::{at_width, env, segue, shown};

#[test]
fn the_help_of_segue() {
    let env = env();
    assert_snapshot!(at_width(&env, 100, &["--help"]), @"
    status 0
    ── stdout
    Run coding agents so that no run is ever lost

    Every turn is on disk while it happens. Kill it, lose the connection, close the lid: `segue resume`
    goes on at exactly that point.

    Usage: segue [OPTIONS] <COMMAND>

    Commands:
      run          Start an agent on a prompt
      resume       Go on where a session stopped
      list         List sessions, the latest first [alias: ls]
      show         Show all that is known of a session
      log          Show what happened, event by event
      watch        Follow a session live, from another terminal
      verify       Check a session from its first byte to its last
      rm           Remove sessions for good
      config       Show or change settings
      agents       List the agents and the models that they can use
      doctor       Check that all is in place that the promises rest on
      demo         See it happen: a run is killed, resumed and finished
      completions  Print completions for a shell
      man          Write man pages into a directory

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Everywhere:
          --home <DIR>
              Where Segue keeps its sessions [default: the nearest .segue above, else ~/.segue]

              [env: SEGUE_HOME]

          --json
              Print the result as JSON

          --color <WHEN>
              When to use colour

              [possible values: auto, always, never]

    Try it: segue demo   (under a minute, no account, no network)
    ── stderr
    ");
}

/// A command's help, without the part that all of them share.
fn help(env: &TestEnv, command: &str) -> String {
    let output = Output::of(&mut env.command([command, "--help"])).unwrap();
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
    let text: Vec<&str> = output.stdout.lines().map(str::trim_end).collect();
    let text = text.join("\n");
    let (own, rest) = text.split_once("\nEverywhere:\n").unwrap();
    let shared = |line: &&str| line.is_empty() || line.starts_with(' ');
    let everywhere: Vec<&str> = rest.lines().take_while(shared).collect();
    for option in ["--home <DIR>", "--json", "--color <WHEN>"] {
        assert!(everywhere.join("\n").contains(option), "{option} in {text}");
    }
    let after: Vec<&str> = rest.lines().skip_while(shared).collect();
    format!("{own}\n{}", after.join("\n"))
}

#[test]
fn the_help_of_run_and_resume() {
    let env = env();
    assert_snapshot!(help(&env, "run"), @"");
    assert_snapshot!(help(&env, "resume"), @"");
}

#[test]
fn the_help_of_what_looks() {
    let env = env();
    assert_snapshot!(help(&env, "list"), @"");
    assert_snapshot!(help(&env, "show"), @"");
    assert_snapshot!(help(&env, "log"), @"");
    assert_snapshot!(help(&env, "watch"), @"");
}

#[test]
fn the_help_of_what_keeps_house() {
    let env = env();
    assert_snapshot!(help(&env, "verify"), @"");
    assert_snapshot!(help(&env, "rm"), @"");
    assert_snapshot!(help(&env, "config"), @"");
    assert_snapshot!(help(&env, "agents"), @"");
    assert_snapshot!(help(&env, "doctor"), @"");
}

#[test]
fn the_help_of_the_rest() {
    let env = env();
    assert_snapshot!(help(&env, "demo"), @"");
    assert_snapshot!(help(&env, "completions"), @"");
    assert_snapshot!(help(&env, "man"), @"");
}

#[test]
fn help_needs_no_home() {
    let env = env();
    for args in [["run", "--help"], ["config", "-h"]] {
        let output = Output::of(env.command(args).env_remove("SEGUE_HOME").env_remove("HOME"));
        assert_eq!(output.unwrap().status, 0);
    }
    assert!(!env.home().exists());
}

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
