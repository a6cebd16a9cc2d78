//! What bad input gets: the place, and the command that helps. And nothing is left behind.

use std::{fs, os::unix::fs::PermissionsExt};

use insta::assert_snapshot;
use segue_testkit::env::Output;

use crate::support::{DONE, env, json, plain, scripted, segue, segue_with_stdin, shown};

#[test]
fn a_run_without_a_prompt() {
    let env = env();
    assert_snapshot!(shown(&env, &["run"]), @r#"
    status 2
    ── stdout
    ── stderr
    error: there is no prompt
      hint: segue run "Fix the failing test"
    "#);
    assert_snapshot!(shown(&env, &["run", "native"]), @r#"
    status 2
    ── stdout
    ── stderr
    error: there is no prompt
      hint: segue run "Fix the failing test"
    "#);
    assert_snapshot!(plain(&env, &segue_with_stdin(&env, &["run", "-"], b" \n")), @r#"
    status 2
    ── stdout
    ── stderr
    error: there is no prompt
      hint: segue run "Fix the failing test"
    "#);
    assert!(!env.home().exists());
}

#[test]
fn a_prompt_that_is_none() {
    let env = env();
    assert_snapshot!(shown(&env, &["run", "go", "--prompt-file", "x.md"]), @"
    status 2
    ── stdout
    ── stderr
    error: a prompt and --prompt-file exclude each other
    ");
    assert_snapshot!(shown(&env, &["run", "--prompt-file", "nowhere.md"]), @"
    status 2
    ── stdout
    ── stderr
    error: nowhere.md: No such file or directory (os error 2)
    ");
    assert_snapshot!(plain(&env, &segue_with_stdin(&env, &["run", "-"], b"\xff\xfe")), @"
    status 2
    ── stdout
    ── stderr
    error: standard input: stream did not contain valid UTF-8
    ");
    assert!(!env.home().exists());
}

#[test]
fn a_prompt_that_is_not_quoted() {
    let env = env();
    assert_snapshot!(shown(&env, &["run", "fix", "it"]), @r#"
    status 127
    ── stdout
    ── stderr
    error: there is no agent `fix` here
      hint: did you mean pi?
      hint: the agents are: claude, codex, gemini, copilot, cursor, opencode, qwen, pi, native, acp:<command>, exec:<command> (segue agents)
      hint: a prompt of several words needs quotes: segue run "fix it"
    "#);
    assert_snapshot!(shown(&env, &["run", "native", "fix", "it", "now"]), @r#"
    status 2
    ── stdout
    ── stderr
    error: a prompt of several words needs quotes
      hint: segue run native "fix it now"
    "#);
}

#[test]
fn a_model_that_is_none() {
    let env = env();
    assert_snapshot!(shown(&env, &["run", "go", "--model", "gpt-5"]), @r#"
    status 2
    ── stdout
    ── stderr
    error: "gpt-5" names no model: write openai/gpt-5
      hint: name the model: --model anthropic/…, openai/…, chat/… or script:FILE
    "#);
    assert_snapshot!(shown(&env, &["run", "go", "--model", "gemini/pro"]), @r#"
    status 2
    ── stdout
    ── stderr
    error: "gemini/pro" names no model: gemini is no provider; write anthropic/…, openai/… or, for any server that speaks Chat Completions, chat/… with OPENAI_BASE_URL
      hint: name the model: --model anthropic/…, openai/…, chat/… or script:FILE
    "#);
    assert_snapshot!(shown(&env, &["run", "go", "--model", "openai/gpt-5"]), @"
    status 1
    ── stdout
    ── stderr
    error: not signed in: openai/gpt-5 needs an API key
      hint: set OPENAI_API_KEY to a valid key
      hint: or keep it in the settings: segue config set openai.key - < key.txt
    ");
    assert_snapshot!(shown(&env, &["run", "go", "--model", "script:nowhere.toml"]), @"
    status 1
    ── stdout
    ── stderr
    error: $DIR/repo/nowhere.toml: cannot read it: No such file or directory (os error 2)
    ");
    assert!(!env.home().exists());
}

#[test]
fn a_script_that_does_not_parse_names_line_and_column() {
    let (env, model) = scripted("[[reply]]\ntext = \"a\"\ntool = []\n");
    assert_snapshot!(shown(&env, &["run", "go", "--model", &model]), @"
    status 1
    ── stdout
    ── stderr
    error: $DIR/script.toml: line 3, column 1: unknown field `tool`, expected one of `text`, `thinking`, `delay_ms`, `tools`, `usage`, `limit`, `repeat`, `when`, `silent`, `refuses`
    ");
    env.script("[[reply]]\ntext = oops\n").unwrap();
    assert_snapshot!(shown(&env, &["run", "go", "--model", &model]), @"
    status 1
    ── stdout
    ── stderr
    error: $DIR/script.toml: line 2, column 8: string values must be quoted, expected literal string
    ");
    env.script("").unwrap();
    assert_snapshot!(shown(&env, &["run", "go", "--model", &model]), @"
    status 1
    ── stdout
    ── stderr
    error: $DIR/script.toml: it has no [[reply]]
    ");
    assert!(!env.home().exists());
}

#[test]
fn caps_that_are_none() {
    let env = env();
    assert_snapshot!(shown(&env, &["run", "go", "--max-time", "soon"]), @"
    status 2
    ── stdout
    ── stderr
    error: invalid value 'soon' for '--max-time <TIME>': `soon` is not a time such as 90s, 15m or 2h

    For more information, try '--help'.
    ");
    assert_snapshot!(shown(&env, &["run", "go", "--max-tokens", "lots"]), @"
    status 2
    ── stdout
    ── stderr
    error: invalid value 'lots' for '--max-tokens <N>': `lots` is not a number such as 1500, 400k or 2M

    For more information, try '--help'.
    ");
    assert_snapshot!(shown(&env, &["run", "go", "--max-cost", "-1"]), @"
    status 2
    ── stdout
    ── stderr
    error: invalid value '-1' for '--max-cost <DOLLARS>': `-1` is not a sum in dollars such as 2.50

    For more information, try '--help'.
    ");
    let output = Output::of(env.command(["run", "go"]).env("SEGUE_MAX_TURNS", "many")).unwrap();
    assert_snapshot!(plain(&env, &output), @"
    status 2
    ── stdout
    ── stderr
    error: SEGUE_MAX_TURNS: `many` is not a number such as 1500, 400k or 2M
    ");
}

#[test]
fn names_that_are_none() {
    let (env, model) = scripted(DONE);
    for name in ["7", "a/b", "@latest", "#7", ".", "", "a\nb", "01M7G5VD80FCFJ3KHBKNQGMA33"] {
        let output = segue(&env, &["run", "go", "--model", &model, "--name", name]);
        assert_eq!(output.status, 2, "{name}: {}", output.stderr);
        assert!(output.stderr.starts_with(&format!("error: `{name}`: ")), "{}", output.stderr);
    }
    assert!(!env.home().exists());
    assert_snapshot!(shown(&env, &["run", "go", "--model", &model, "--name", "7"]), @"
    status 2
    ── stdout
    ── stderr
    error: `7`: a name of digits alone would be taken for a number
    ");
    assert_eq!(segue(&env, &["run", "go", "--model", &model, "--name", "night"]).status, 0);
    assert_snapshot!(shown(&env, &["run", "y", "--model", &model, "--name", "night"]), @"
    status 2
    ── stdout
    ── stderr
    error: the name `night` is taken by session 1
      hint: go on with it: segue resume 1
    ");
}

#[test]
fn places_that_are_none() {
    let env = env();
    assert_snapshot!(shown(&env, &["run", "go", "--dir", "nowhere"]), @"
    status 2
    ── stdout
    ── stderr
    error: $DIR/repo/nowhere: No such file or directory (os error 2)
    ");
    env.write("file", "").unwrap();
    assert_snapshot!(shown(&env, &["run", "go", "--dir", "file"]), @"
    status 2
    ── stdout
    ── stderr
    error: $DIR/repo/file: Not a directory (os error 20)
    ");
}

#[test]
fn a_home_that_cannot_be_written() {
    let (env, model) = scripted(DONE);
    fs::write(env.path("taken"), "").unwrap();
    let args = ["run", "go", "--model", &model, "--home", "../taken"];
    assert_snapshot!(shown(&env, &args), @"
    status 2
    ── stdout
    ── stderr
    error: $DIR/repo/../taken: not a directory
      hint: --home and SEGUE_HOME name the directory for Segue's sessions
    ");
    if rustix::process::getuid().is_root() {
        // Nothing is read-only to root.
        return;
    }
    fs::create_dir(env.home()).unwrap();
    fs::set_permissions(env.home(), fs::Permissions::from_mode(0o500)).unwrap();
    let output = segue(&env, &["run", "go", "--model", &model]);
    fs::set_permissions(env.home(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("choose another one with --home"), "{}", output.stderr);
}

#[test]
fn no_home_at_all() {
    let env = env();
    let mut command = env.command(["list"]);
    let output = Output::of(command.env_remove("SEGUE_HOME").env_remove("HOME")).unwrap();
    assert_snapshot!(plain(&env, &output), @"
    status 2
    ── stdout
    ── stderr
    error: there is no home directory: HOME is not set
      hint: name a place with --home or SEGUE_HOME
    ");
}

#[test]
fn sessions_that_are_not_there() {
    let (env, model) = scripted(DONE);
    assert_snapshot!(shown(&env, &["show"]), @"
    status 4
    ── stdout
    ── stderr
    error: there is no session here yet (`segue run` starts one)
    ");
    assert_snapshot!(shown(&env, &["resume"]), @"
    status 4
    ── stdout
    ── stderr
    error: there is no session here yet (`segue run` starts one)
    ");
    assert_eq!(segue(&env, &["run", "go", "--model", &model]).status, 0);
    assert_snapshot!(shown(&env, &["show", "99"]), @"
    status 4
    ── stdout
    ── stderr
    error: there is no session `99` (`segue list --all` shows all)
    ");
    assert_snapshot!(shown(&env, &["log", "nobody"]), @"
    status 4
    ── stdout
    ── stderr
    error: there is no session `nobody` (`segue list --all` shows all)
    ");
    assert_snapshot!(shown(&env, &["watch", "./nowhere"]), @"
    status 4
    ── stdout
    ── stderr
    error: ./nowhere: there is no session here (a session's directory has a journal.jsonl)
      hint: segue list --all
    ");
    assert_snapshot!(shown(&env, &["resume", "now the tests"]), @r#"
    status 4
    ── stdout
    ── stderr
    error: there is no session `now the tests` (`segue list --all` shows all)
      hint: a prompt for the latest session: segue resume --prompt "now the tests"
    "#);
    assert_snapshot!(shown(&env, &["resume"]), @"
    status 4
    ── stdout
    ── stderr
    error: no session of this repository has anything left to do (`segue list` shows them)
    ");
    assert_snapshot!(shown(&env, &["list", "--status", "sleepy"]), @"
    status 2
    ── stdout
    ── stderr
    error: invalid value 'sleepy' for '--status <STATUS>': `sleepy` is not a status; these are: resumable, created, running, crashed, unattended, completed, failed, limit, interrupted, agent_crashed, overloaded, unreachable, stream_cut, context_full, not_signed_in, silent, cap, cap:turns, cap:iterations, cap:steps, cap:wall_clock, cap:tokens, cap:cost, looping, disk, unknown

    For more information, try '--help'.
    ");
}

#[test]
fn errors_in_json_are_one_object_on_stderr() {
    let env = env();
    let output = segue(&env, &["show", "99", "--json"]);
    assert_eq!((output.status, output.stdout.as_str()), (4, ""));
    let error = json(&output.stderr);
    assert_eq!(error["error"]["status"], 4);
    assert!(error["error"]["message"].as_str().unwrap().contains("`99`"));
    let output = segue(&env, &["run", "go", "--model", "gpt-5", "--json"]);
    assert_eq!(output.status, 2);
    assert_eq!(json(&output.stderr)["error"]["status"], 2);
}

#[test]
fn a_result_that_can_not_be_printed_is_a_failure() {
    let (env, model) = scripted(DONE);
    assert_eq!(segue(&env, &["run", "Do it", "--model", &model]).status, 0);
    for words in [&["list"][..], &["show", "1"], &["log", "1", "--json"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Output::of(env.command(words).stdout(full)).unwrap();
        assert_eq!(output.status, 1, "{words:?}");
        assert!(output.stderr.contains("standard output: No space left"), "{}", output.stderr);
    }
}

#[test]
fn what_could_never_work_is_refused_before_there_is_a_session() {
    let (env, model) = scripted(DONE);
    let refused = |words: &[&str], why: &str| {
        let output = segue(&env, words);
        assert_eq!(output.status, 2, "{words:?}: {}", output.stderr);
        assert!(output.stderr.contains(why), "{words:?}: {}", output.stderr);
    };
    refused(&["run", "go", "--model", &model, "--proof", " "], "would always pass");
    refused(&["run", "go", "--model", &model, "--max-turns", "0"], "is not a number from 1 on");
    refused(&["config", "set", "model", "nonsense"], "names no model");
    env.write("mine/precious.txt", "x").unwrap();
    refused(&["demo", "--dir", "mine"], "mine is not empty");
    assert!(!env.home().exists());
}
