//! `segue config`: what holds, where it comes from, how it is changed.

use std::{fs, os::unix::fs::PermissionsExt};

use insta::assert_snapshot;
use segue_testkit::env::{Output, TestEnv};

use crate::support::{KEY, env, json, plain, segue, segue_with_stdin, shown};

fn file(env: &TestEnv) -> String {
    fs::read_to_string(env.home().join("config.toml")).unwrap()
}

fn write(env: &TestEnv, text: &str) {
    fs::create_dir_all(env.home()).unwrap();
    fs::write(env.home().join("config.toml"), text).unwrap();
}

#[test]
fn the_list_says_what_holds_and_why() {
    let env = env();
    write(&env, "[caps]\nturns = 7\n[prices.'chat/llama']\ninput = 0.2\n");
    let mut command = env.command(["config"]);
    command.env("SEGUE_MAX_STEPS", "9").env("ANTHROPIC_API_KEY", KEY);
    assert_snapshot!(plain(&env, &Output::of(&mut command).unwrap()), @"
    status 0
    ── stdout
    SETTING                  VALUE   FROM               WHAT IT IS
    agent                    native  default            Who works when no agent is named.
    model                    script  default            The native agent's model: anthropic/…, openai/…,
                                                        chat/…, script:FILE, or script.
    fallback                 –                          Who goes on when the agent runs into its limit,
                                                        in this order: codex,gemini,native.
    checkpoints              git     default            Where the workspace is kept at the end of every
                                                        turn: git (in repositories), always (in plain
                                                        directories too) or off.
    offer                    never   SEGUE_OFFER        What `segue run` does where a session can be
                                                        resumed: ask, or never.
    pair.worker              codex   default            Who works in a pair when no worker is named.
    pair.reviewers           –                          Who reviews in a pair when nobody is named:
                                                        claude,gemini. Unless it is set, claude; or
                                                        codex, where claude works.
    pair.max_iterations      20      default            The most attempts of a pair's worker at one
                                                        task.
    pair.consensus           all     default            How many reviewers have to let the work pass:
                                                        all, any or majority.
    pair.proof               –                          The proof command of a pair when none is given.
    pair.done                –                          The line that a pair's worker has to end with
                                                        before it is reviewed, when none is given.
    pair.tmux                off     default            Whether a pair is shown in tmux: on or off.
    pair.worktree            off     default            Whether a pair works in a worktree of its own:
                                                        on or off.
    tasks.worker             –                          Who works through a list of tasks when no worker
                                                        is named. Unless it is set, `agent`.
    tasks.evaluator          –                          Who evaluates each task when nobody is named.
                                                        Unless it is set, the first other agent that is
                                                        installed.
    tasks.max_iterations     32      default            The most attempts of a worker at one task of a
                                                        list; 0 for no cap.
    tasks.consensus          all     default            How many evaluators have to accept a task: all,
                                                        any or majority.
    tasks.proof              –                          The proof command of a list of tasks when none
                                                        is given.
    proof.time               30m     default            The longest that a proof command may take: 90s,
                                                        15m, 2h.
    agents.tools             on      default            Whether vendors' programs are offered Segue's
                                                        own tools, for the run only: on or off.
    caps.turns               7       config.toml        The most turns of a session; of a list of tasks
                                                        only where it is set.
    caps.reviews             –                          The most reviews of a pair's work, or of one
                                                        task of a list; 0 for no cap.
    caps.steps               9       SEGUE_MAX_STEPS    The most model calls of a turn.
    caps.time                –                          The longest that a run may take, from its start
                                                        or resume: 90s, 15m, 2h.
    caps.tokens              –                          The most tokens of a session: 400k, 2M.
    caps.cost                –                          The most money of a session, in dollars.
    anthropic.base_url       –                          Where the Anthropic Messages API is.
    anthropic.key            (set)   ANTHROPIC_API_KEY  The key for it.
    openai.base_url          –                          Where the OpenAI Responses API is.
    openai.key               –                          The key for it.
    chat.base_url            –                          Where a Chat Completions API is.
    chat.key                 –                          The key for it.
    native.effort            –                          How hard the model thinks: low, medium or high.
    native.context_tokens    –                          The model's context, where Segue does not know
                                                        it.
    native.idle_timeout      120s    default            A model that stays silent for so long has cut
                                                        the stream.
    native.attempts          5       default            How often a failed model call is made, all in
                                                        all.
    agents.attempts          2       default            How often a vendor's program is tried, all in
                                                        all, when its model's server fails.
    agents.silence           10m     default            A vendor's program that says nothing for so long
                                                        is stopped.
    agents.tool_silence      1h      default            The same, while one of its tools runs.
    prices.chat/llama.input  0.2     config.toml        Dollars per million tokens.
    ── stderr
    file: $DIR/home/config.toml
    ");
    let mut command = env.command(["config", "--json"]);
    let listed = json(&Output::of(command.env("ANTHROPIC_API_KEY", KEY)).unwrap().stdout);
    assert!(!listed.to_string().contains(KEY));
    let of = |name: &str| {
        let settings = listed["settings"].as_array().unwrap();
        settings.iter().find(|setting| setting["name"] == name).unwrap().clone()
    };
    assert_eq!(of("caps.turns")["value"], "7");
    assert_eq!(of("caps.turns")["source"], "config.toml");
    assert_eq!(of("anthropic.key")["value"], "(set)");
    assert_eq!(of("caps.time")["value"], serde_json::Value::Null);
    assert_eq!(listed["prices"]["chat/llama"]["input"], 0.2);
}

#[test]
fn one_value() {
    let env = env();
    assert_snapshot!(shown(&env, &["config", "get", "model"]), @"
    status 0
    ── stdout
    script
    ── stderr
    ");
    assert_snapshot!(shown(&env, &["config", "get", "caps.time"]), @"
    status 1
    ── stdout
    ── stderr
    caps.time is not set
    ");
    assert_snapshot!(shown(&env, &["config", "get", "turns"]), @"
    status 2
    ── stdout
    ── stderr
    error: $DIR/home/config.toml: there is no setting `turns`
      hint: did you mean `caps.turns`?
    ");
    assert_snapshot!(shown(&env, &["config", "get", "frob"]), @"
    status 2
    ── stdout
    ── stderr
    error: $DIR/home/config.toml: there is no setting `frob`
      hint: segue config lists them all
    ");
    assert_snapshot!(shown(&env, &["config", "path"]), @"
    status 0
    ── stdout
    $DIR/home/config.toml
    ── stderr
    ");
}

#[test]
fn a_change_leaves_everything_else_as_it_is() {
    let env = env();
    write(
        &env,
        "# mine\nmodel = 'script' # the quick one\n\n[caps] # careful\nturns = 7 # a week\n",
    );
    assert_snapshot!(shown(&env, &["config", "set", "model", "openai/gpt-5"]), @"
    status 0
    ── stdout
    ── stderr
    written to $DIR/home/config.toml
    ");
    for (name, value) in [("caps.turns", "14"), ("caps.time", "2h"), ("caps.cost", "2.5")] {
        assert_eq!(segue(&env, &["config", "set", name, value]).status, 0);
    }
    assert_snapshot!(file(&env), @r#"
    # mine
    model = "openai/gpt-5" # the quick one

    [caps] # careful
    turns = 14 # a week
    time = "2h"
    cost = 2.5
    "#);
    assert_eq!(segue(&env, &["config", "unset", "caps.turns"]).status, 0);
    assert_eq!(segue(&env, &["config", "get", "caps.turns"]).stdout, "50\n");
    let mode = fs::metadata(env.home().join("config.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "others can read it");
}

#[test]
fn a_change_in_a_table_on_one_line() {
    let env = env();
    write(&env, "caps = { turns = 7 }\n");
    assert_eq!(segue(&env, &["config", "set", "caps.turns", "8"]).status, 0);
    assert_eq!(segue(&env, &["config", "set", "caps.steps", "9"]).status, 0);
    assert_eq!(segue(&env, &["config", "get", "caps.turns"]).stdout, "8\n");
    assert_eq!(segue(&env, &["config", "get", "caps.steps"]).stdout, "9\n");
}

#[test]
fn a_secret_comes_only_from_standard_input() {
    let env = env();
    assert_snapshot!(shown(&env, &["config", "set", "anthropic.key", "sk-x"]), @"
    status 2
    ── stdout
    ── stderr
    error: anthropic.key is a secret: it is read from standard input
      hint: segue config set anthropic.key - < file
    ");
    // A key of digits stays a text: a number would lose its zeros.
    let set = ["config", "set", "anthropic.key", "-"];
    assert_eq!(segue_with_stdin(&env, &set, b"0012\n").status, 0);
    assert_eq!(file(&env).trim(), "[anthropic]\nkey = \"0012\"");
    let output = segue_with_stdin(&env, &set, format!("{KEY}\n").as_bytes());
    assert!(!format!("{}{}", output.stdout, output.stderr).contains(KEY));
    assert!(file(&env).contains(KEY));
    for args in [&["config"][..], &["config", "get", "anthropic.key"], &["config", "--json"]] {
        let output = segue(&env, args);
        assert_eq!(output.status, 0);
        assert!(!output.stdout.contains(KEY) && output.stdout.contains("(set)"));
    }
}

#[test]
fn wrong_names_and_wrong_values_change_nothing() {
    let env = env();
    assert_snapshot!(shown(&env, &["config", "set", "max_turns", "3"]), @"
    status 2
    ── stdout
    ── stderr
    error: $DIR/home/config.toml: there is no setting `max_turns`
      hint: segue config lists them all
    ");
    assert_snapshot!(shown(&env, &["config", "set", "caps.turns", "many"]), @"
    status 2
    ── stdout
    ── stderr
    error: caps.turns: `many` is not a number such as 1500, 400k or 2M
    ");
    assert_snapshot!(shown(&env, &["config", "set", "caps.time", "soon"]), @"
    status 2
    ── stdout
    ── stderr
    error: caps.time: `soon` is not a time such as 90s, 15m or 2h
    ");
    assert_snapshot!(shown(&env, &["config", "set", "openai.base_url", "localhost"]), @"
    status 2
    ── stdout
    ── stderr
    error: openai.base_url: `localhost` does not begin with http:// or https://
    ");
    assert_snapshot!(shown(&env, &["config", "set", "native.effort", "max"]), @"
    status 2
    ── stdout
    ── stderr
    error: native.effort: `max` is not low, medium or high
    ");
    assert_snapshot!(shown(&env, &["config", "set", "prices.chat/x.inputs", "3"]), @"
    status 2
    ── stdout
    ── stderr
    error: $DIR/home/config.toml: there is no setting `prices.chat/x.inputs`
      hint: a price has input, output, cache_read, cache_write
    ");
    assert_snapshot!(shown(&env, &["config", "set", "prices.chat/x.input", "cheap"]), @"
    status 2
    ── stdout
    ── stderr
    error: prices.chat/x.input: `cheap` is not a sum in dollars such as 2.50
    ");
    assert!(!env.home().exists());
}

#[test]
fn a_price_may_come_in_parts() {
    let env = env();
    let name = "prices.chat/some.model-1.5.input";
    assert_eq!(segue(&env, &["config", "set", name, "0.2"]).status, 0);
    assert_eq!(segue(&env, &["config", "get", name]).stdout, "0.2\n");
    assert_eq!(segue(&env, &["config"]).status, 0);
    assert_eq!(segue(&env, &["config", "unset", name]).status, 0);
    assert_eq!(segue(&env, &["config", "get", name]).status, 1);
}

#[test]
fn a_broken_file_names_the_place() {
    let env = env();
    write(&env, "model = 'script'\n[caps\n");
    assert_snapshot!(shown(&env, &["run", "go"]), @"
    status 2
    ── stdout
    ── stderr
    error: $DIR/home/config.toml: TOML parse error at line 2, column 6
      |
    2 | [caps
      |      ^
    unclosed table, expected `]`
    ");
    assert_snapshot!(shown(&env, &["config", "set", "model", "script"]), @"
    status 2
    ── stdout
    ── stderr
    error: $DIR/home/config.toml: TOML parse error at line 2, column 6
      |
    2 | [caps
      |      ^
    unclosed table, expected `]`
    ");
    assert_eq!(segue(&env, &["config", "path"]).status, 0);
    write(&env, "[caps]\nturns = 'many'\n");
    assert_snapshot!(shown(&env, &["config"]), @"
    status 2
    ── stdout
    ── stderr
    error: $DIR/home/config.toml: caps.turns: `many` is not a number such as 1500, 400k or 2M
    ");
    write(&env, "caps = 3\n");
    assert_snapshot!(shown(&env, &["config", "set", "caps.turns", "3"]), @"
    status 2
    ── stdout
    ── stderr
    error: $DIR/home/config.toml: `caps` is not a table
    ");
    write(&env, "[prices.'chat/x']\ninput = 'cheap'\n");
    assert_snapshot!(shown(&env, &["config"]), @r#"
    status 2
    ── stdout
    ── stderr
    error: $DIR/home/config.toml: prices.chat/x: invalid type: string "cheap", expected f64
    "#);
    // Looking at sessions needs no settings.
    assert_eq!(segue(&env, &["list"]).status, 0);
    assert_eq!(segue(&env, &["doctor"]).status, 1);
}
