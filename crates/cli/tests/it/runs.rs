//! `segue run` on scripts: what is printed where, prompts from everywhere, proofs, caps.

use std::fs;

use insta::assert_snapshot;
use segue_testkit::{env::Output, model_server::Reply};

use crate::support::{
    ANTHROPIC, DONE, WORK, ask, data, kinds, last_words, lines, scripted, segue, segue_with_stdin,
    serve, show, shown,
};

#[test]
fn the_agents_words_to_stdout_and_the_rest_to_stderr() {
    let (env, model) = scripted(WORK);
    assert_snapshot!(shown(&env, &["run", "Write a.txt", "--model", &model]), @"
    status 0
    ── stdout
    I write it.
    Done: a.txt has one line.
    ── stderr
    ● session 1 · $DIR/home/sessions/repo-$HASH/$ULID
    ▸ turn 1 · native · Write a.txt
      ~ A file first.
      ⚙ write_file  a.txt
      ⚙ shell  cat a.txt; exit 3
      · script 900+40 tokens
        ✓ write_file  wrote a.txt
        ✗ shell  exit 3  one
      · script 1k+20 tokens
    ✓ session 1 is completed: the agent is done · 1 turn · 2k tokens
    ");
    assert_eq!(fs::read_to_string(env.repo().join("a.txt")).unwrap(), "one\n");
}

#[test]
fn the_built_in_model_needs_nothing() {
    let (env, _) = scripted(DONE);
    let output = segue(&env, &["run", "Hello?"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_snapshot!(output.stdout, @r#"
    I look at what is here first.
    Hello. I am Segue's built-in scripted model: I answer from a fixed script, so that Segue can be tried without a key or a network, and I cannot think. Your prompt, my tool call and its result are recorded in this session like any other.

    To work with a real model, put its key into ANTHROPIC_API_KEY, and name it:

        segue config set model anthropic/claude-sonnet-4-5

    This session can go on with it too:

        segue resume --prompt "What next?" --model anthropic/claude-sonnet-4-5
    "#);
}

#[test]
fn a_long_answer_is_printed_whole() {
    let answer: String =
        (0..3000).map(|n| format!("{n} words of an answer, \\\"quoted\\\"\\n")).collect();
    let (env, model) = scripted(&format!("[[reply]]\ntext = \"{answer}\"\n"));
    let output = segue(&env, &["run", "go", "--model", &model]);
    let wanted: String =
        (0..3000).map(|n| format!("{n} words of an answer, \"quoted\"\n")).collect();
    assert_eq!(output.stdout, wanted);
    assert!(data(&env, 1, "text.written")[0]["text"]["blob"].is_string());
}

#[test]
fn json_is_the_events_in_their_lawful_order_and_a_result() {
    let (env, model) = scripted(WORK);
    let output = segue(&env, &["run", "Write a.txt", "--model", &model, "--json"]);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
    let mut printed = lines(&output.stdout);
    let result = printed.pop().unwrap()["result"].clone();
    assert_eq!(result["session"], "1");
    assert_eq!(result["reason"], "done");
    assert_eq!((&result["status"], &result["turns"]), (&0.into(), &1.into()));
    assert_eq!(result["tokens"], 1960);
    assert_eq!(result["next"], serde_json::Value::Null);
    let began = printed.remove(0)["began"].clone();
    assert_eq!((&began["session"], &began["dir"]), (&result["session"], &result["dir"]));
    let printed: Vec<&str> = printed.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(
        printed,
        [
            "session.started",
            "checkpoint.skipped",
            "turn.started",
            "model.called",
            "thinking.written",
            "text.written",
            "tool.called",
            "tool.called",
            "model.replied",
            "tool.started",
            "tool.returned",
            "tool.started",
            "tool.returned",
            "model.called",
            "text.written",
            "model.replied",
            "turn.ended",
            "packet.written",
            "session.stopped",
        ]
    );
    assert_eq!(kinds(&env, 1)[1..], printed[..]);
}

#[test]
fn a_prompt_comes_from_wherever_it_is() {
    let (env, model) = scripted(DONE);
    env.write("prompt.md", "from a file\n").unwrap();
    let run = |args: &[&str], stdin: &[u8]| {
        let args = [&["run", "--model", &model], args].concat();
        assert_eq!(segue_with_stdin(&env, &args, stdin).status, 0);
    };
    run(&["from an argument"], b"not this");
    run(&["native", "for an agent"], b"");
    run(&["n", "for an alias"], b"");
    run(&["-"], b"from a dash");
    run(&["n", "-"], b"from a dash, for an agent");
    run(&[], b"from standard input");
    run(&["native"], b"from standard input, for an agent");
    run(&["--prompt-file", "prompt.md"], b"");
    let prompts: Vec<String> = (1..=8)
        .map(|n| data(&env, n, "turn.started")[0]["prompt"]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        prompts,
        [
            "from an argument",
            "for an agent",
            "for an alias",
            "from a dash",
            "from a dash, for an agent",
            "from standard input",
            "from standard input, for an agent",
            "from a file\n",
        ]
    );
}

#[test]
fn a_megabyte_of_prompt_arrives_byte_for_byte() {
    let (env, _) = scripted(DONE);
    let piece =
        "\"quoted\" 'and' `ticked` $HOME \\ back\n\ttab 🦀 ünï\u{202e}code \u{1b}[31m\r\n\n";
    let prompt = piece.repeat(1 + (1 << 20) / piece.len());
    env.write("prompt.md", &prompt).unwrap();
    let server = serve([Reply::text("Read.")]);
    let output = ask(&env, &server, &["run", "--prompt-file", "prompt.md", "--model", ANTHROPIC]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(server.turns()[0].texts(), [prompt]);
    assert!(data(&env, 1, "turn.started")[0]["prompt"]["blob"].is_string());
    assert!(output.stderr.len() < 2000, "all of it is printed");
}

#[test]
fn a_name_and_a_place() {
    let (env, model) = scripted(WORK);
    fs::create_dir(env.path("elsewhere")).unwrap();
    let args = ["run", "Go", "--model", &model, "--name", "big one", "--dir", "../elsewhere"];
    assert_eq!(segue(&env, &args).status, 0);
    assert!(env.path("elsewhere/a.txt").exists());
    let found = show(&env, "big one");
    assert_eq!(found["name"], "big one");
    assert!(found["workspace"].as_str().unwrap().ends_with("/elsewhere"));
}

#[test]
fn the_home_is_the_nearest_one_above() {
    let (env, model) = scripted(DONE);
    fs::create_dir(env.path(".segue")).unwrap();
    let run = ["run", "Go", "--model", &model];
    assert_eq!(Output::of(env.command(run).env_remove("SEGUE_HOME")).unwrap().status, 0);
    assert!(env.path(".segue/numbers/1").exists());
    fs::remove_dir_all(env.path(".segue")).unwrap();
    assert_eq!(Output::of(env.command(run).env_remove("SEGUE_HOME")).unwrap().status, 0);
    assert!(env.path("user/.segue/numbers/1").exists());
    let mut named = env.command(run);
    assert_eq!(Output::of(named.arg("--home").arg("../named")).unwrap().status, 0);
    assert!(env.path("named/numbers/1").exists());
}

const PROVED: &str = r#"
[[reply]]
text = "It should work."
usage = { input = 90, output = 4 }

[[reply]]
tools = [{ name = "write_file", input = { path = "done", content = "" } }]
usage = { input = 90, output = 4 }

[[reply]]
text = "Now it does."
usage = { input = 90, output = 4 }
"#;

#[test]
fn a_proof_that_fails_is_the_next_prompt() {
    let (env, model) = scripted(PROVED);
    let proof = "test -e done || { echo 'no file done, \"sir\"' >&2; exit 4; }";
    let args = ["run", "Make it", "--model", &model, "--proof", proof];
    assert_snapshot!(shown(&env, &args), @r#"
    status 0
    ── stdout
    It should work.
    Now it does.
    ── stderr
    ● session 1 · $DIR/home/sessions/repo-$HASH/$ULID
    ▸ turn 1 · native · Make it
      · script 90+4 tokens
      ⚖ proof  test -e done || { echo 'no file done, "sir"' >&2; exit 4; }
        ✗ exit 4  no file done, "sir"
    ▸ turn 2 · native · the proof failed: The work is not done yet: `test -e done || { echo 'no file done, "sir"' >&2; exit 4; }` still fails. Mend that. Its output: no file done, "sir" (exit status 4)
      ⚙ write_file  done
      · script 90+4 tokens
        ✓ write_file  wrote done
      · script 90+4 tokens
      ⚖ proof  test -e done || { echo 'no file done, "sir"' >&2; exit 4; }
        ✓ exit 0
    ✓ session 1 is completed: the proof passed: test -e done || { echo 'no file done, "sir"' >&2; exit 4; } · 2 turns · 282 tokens
    "#);
    let turns = data(&env, 1, "turn.started");
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[1]["cause"], "proof");
    let prompt = turns[1]["prompt"]["text"].as_str().unwrap();
    assert!(prompt.contains("no file done, \"sir\""), "{prompt}");
    assert!(prompt.contains(proof), "{prompt}");
    let exits: Vec<_> = data(&env, 1, "proof.returned").iter().map(|p| p["exit"].clone()).collect();
    assert_eq!(exits, [4, 0]);
}

#[test]
fn each_cap_stops_and_its_command_goes_on() {
    let steps = ["--max-steps", "1"];
    let tokens = ["--max-tokens", "500"];
    let turns = ["--max-turns", "1", "--proof", "test -e never"];
    for (args, status, next) in [
        (&steps[..], "cap:steps", "segue resume 1 --max-steps 2"),
        (&tokens[..], "cap:tokens", "segue resume 1 --max-tokens 1880"),
        (&turns[..], "cap:turns", "segue resume 1 --max-turns 2"),
    ] {
        let (env, model) = scripted(&format!("{WORK}repeat = true"));
        let run = [&["run", "Go", "--model", &model], args].concat();
        let output = segue(&env, &run);
        assert_eq!((output.status, last_words(&output)), (3, next), "{}", output.stderr);
        let found = show(&env, "1");
        assert_eq!(found["status"], status);
        assert_eq!(found["next"], next);
        // As it stands, it stops again at once; as it is told, it goes on.
        assert_eq!(segue(&env, &["resume", "1"]).status, 3);
        let before = data(&env, 1, "model.replied").len();
        let words: Vec<&str> = next.split(' ').skip(1).collect();
        segue(&env, &words);
        assert!(data(&env, 1, "model.replied").len() > before, "{next}");
    }
}

#[test]
fn a_cap_that_stopped_is_said() {
    let (env, model) = scripted(WORK);
    let run = ["run", "Go", "--model", &model, "--max-steps", "1"];
    assert_snapshot!(shown(&env, &run), @"
    status 3
    ── stdout
    I write it.
    ── stderr
    ● session 1 · $DIR/home/sessions/repo-$HASH/$ULID
    ▸ turn 1 · native · Go
      ~ A file first.
      ⚙ write_file  a.txt
      ⚙ shell  cat a.txt; exit 3
      · script 900+40 tokens
        ✓ write_file  wrote a.txt
        ✗ shell  exit 3  one
    ■ session 1 has stopped: the cap on steps is reached · 1 turn · 940 tokens
      hint: raise it with --max-steps
    segue resume 1 --max-steps 2
    ");
    assert_snapshot!(shown(&env, &["resume", "--max-steps", "2"]), @r#"
    status 0
    ── stdout
    Done: a.txt has one line.
    ── stderr
    ↻ resume #1 "Go" · solo · native · stopped: the cap on steps is reached, just now
      continue  turn 1, with model call 2 (script:$DIR/script.toml)
      workspace $DIR/repo
      spend     940 tokens so far; turn 1 of at most 50; wall clock starts again
      · script 1k+20 tokens
    ✓ session 1 is completed: the agent is done · 1 turn · 2k tokens
    "#);
}

#[test]
fn the_wall_clock_stops_what_is_under_way() {
    let slow = "[[reply]]\ntext = \"one two three\"\ndelay_ms = 300000\n";
    let tool = "[[reply]]\ntools = [{ name = \"shell\", input = { command = \"sleep 300\" } }]\n";
    for script in [slow, tool] {
        let (env, model) = scripted(script);
        let run = ["run", "Go", "--model", &model, "--max-time", "1s"];
        let output = Output::of(env.command(run).env_remove("SEGUE_CLOCK")).unwrap();
        assert_eq!((output.status, last_words(&output)), (3, "segue resume 1"));
        assert_eq!(show(&env, "1")["status"], "cap:wall_clock");
        env.script("[[reply]]\ntext = \"a\"\n[[reply]]\ntext = \"b\"\n").unwrap();
        let resumed = Output::of(env.command(["resume"]).env_remove("SEGUE_CLOCK")).unwrap();
        assert_eq!(resumed.status, 0, "{}", resumed.stderr);
    }
}

#[test]
fn a_cap_on_money_needs_a_price() {
    let (env, model) = scripted(WORK);
    let run = ["run", "Go", "--model", &model, "--max-cost", "0.001"];
    assert_snapshot!(shown(&env, &run), @"
    status 2
    ── stdout
    ── stderr
    error: the price of script:$DIR/script.toml is not known, so a cap on money can't be kept
      hint: say what it costs, in dollars per million tokens:
      hint: segue config set 'prices.script:$DIR/script.toml.input' 3
      hint: segue config set 'prices.script:$DIR/script.toml.output' 15
    ");
    assert!(!env.home().join("sessions").exists(), "a session that could not start");
    let real = fs::canonicalize(env.path("script.toml")).unwrap();
    for (field, dollars) in [("input", "3"), ("output", "15")] {
        let name = format!("prices.script:{}.{field}", real.display());
        assert_eq!(segue(&env, &["config", "set", &name, dollars]).status, 0);
    }
    let output = segue(&env, &run);
    assert_eq!((output.status, last_words(&output)), (3, "segue resume 1 --max-cost 0.01"));
    let found = show(&env, "1");
    assert_eq!((&found["status"], &found["cost_micros"]), (&"cap:cost".into(), &3300.into()));
    let output = segue(&env, &["resume", "1", "--max-cost", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(show(&env, "1")["cost_micros"], 6600);
    assert!(output.stderr.contains("$0.0066"), "{}", output.stderr);
}

#[test]
fn an_agent_that_goes_round_in_circles_is_stopped() {
    let (env, model) = scripted(
        "[[reply]]\ntools = [{ name = \"shell\", input = { command = \"true\" } }]\nrepeat = true\n",
    );
    let output = segue(&env, &["run", "Go", "--model", &model]);
    assert_eq!((output.status, last_words(&output)), (3, "segue resume 1"));
    assert!(output.stderr.contains("the same call of shell 12 times"), "{}", output.stderr);
    assert_eq!(show(&env, "1")["status"], "looping");
    assert_eq!(data(&env, 1, "tool.started").len(), 11);
}

#[test]
fn a_script_that_is_at_its_end_fails_and_says_how_to_go_on() {
    let (env, model) = scripted(
        "[[reply]]\ntools = [{ name = \"glob\", input = { pattern = \"*\" } }]\nusage = { input = 90, output = 4 }\n",
    );
    assert_snapshot!(shown(&env, &["run", "Go", "--model", &model]), @"
    status 1
    ── stdout
    ── stderr
    ● session 1 · $DIR/home/sessions/repo-$HASH/$ULID
    ▸ turn 1 · native · Go
      ⚙ glob  *
      · script 90+4 tokens
        ✓ glob  no file matches *
    ■ session 1 has stopped: $DIR/script.toml: call 2 has no answer: the script has 1 reply; add a [[reply]], or repeat = true to the last one · 1 turn · 94 tokens
    segue resume 1
    ");
    env.script("[[reply]]\ntext = \"a\"\n[[reply]]\ntext = \"The end.\"\n").unwrap();
    let output = segue(&env, &["resume"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "The end.\n"));
}
