//! `segue resume`: the plan for every state, and that it is what then happens.

use std::fs;

use insta::assert_snapshot;
use rustix::process::Signal;
use segue_testkit::{env::TestEnv, model_server::Reply};

use crate::support::{
    ANTHROPIC, DONE, SLOW_TOOL, WORK, ask, data, finish, has, journal_bytes, json, kinds,
    last_words, plain, scripted, segue, serve, show, shown, signal, start, start_slow_tool, until,
    with_server,
};

/// Killed while its second tool ran.
fn crashed_in_a_tool() -> TestEnv {
    let (env, model) = scripted(SLOW_TOOL);
    let child = start_slow_tool(&env, &model);
    signal(&child, Signal::KILL);
    assert_eq!(finish(child).status, 137);
    env
}

#[test]
fn crashed_in_the_middle_of_a_tool() {
    let env = crashed_in_a_tool();
    assert_eq!(show(&env, "1")["status"], "crashed");
    assert_snapshot!(shown(&env, &["resume"]), @r#"
    status 0
    ── stdout
    I looked, and it is fine.
    ── stderr
    ↻ resume #1 "Take your time" · solo · native · crashed, just now
      done      write_file call-0-0
      not done  write_file call-0-2
      unknown   shell call-0-1: may have run, and is not run again unasked
      continue  turn 1, at its tool calls: shell, write_file (script:$DIR/script.toml)
      workspace $DIR/repo
      spend     110 tokens so far; turn 1 of at most 50; wall clock starts again
        ? shell  may have run  its result was never recorded
        ✓ write_file  wrote last.txt
      · script 100+10 tokens
    ✓ session 1 is completed: the agent is done · 1 turn · 220 tokens
    "#);
    let statuses: Vec<_> =
        data(&env, 1, "tool.returned").iter().map(|t| t["status"].clone()).collect();
    assert_eq!(statuses, ["done", "may_have_run", "done"]);
    assert_eq!(data(&env, 1, "session.resumed")[0]["crashed"], true);
}

#[test]
fn a_dry_run_changes_nothing() {
    let env = crashed_in_a_tool();
    let before = journal_bytes(&env, 1);
    let output = segue(&env, &["resume", "--dry-run"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, ""));
    let dry = segue(&env, &["resume", "--dry-run", "--json"]);
    assert_eq!((dry.status, dry.stderr.as_str()), (0, ""));
    let plan = json(&dry.stdout);
    let lines: Vec<&str> =
        plan["lines"].as_array().unwrap().iter().filter_map(|l| l.as_str()).collect();
    assert_eq!(lines.join("\n"), output.stderr.trim_end());
    assert_eq!(plan["unknown"].as_array().unwrap().len(), 1);
    assert_eq!(plan["not_done"].as_array().unwrap().len(), 1);
    assert_eq!(plan["done"].as_array().unwrap().len(), 1);
    assert_eq!(journal_bytes(&env, 1), before);
}

#[test]
fn interrupted_in_the_middle_of_a_tool() {
    let (env, model) = scripted(SLOW_TOOL);
    let child = start_slow_tool(&env, &model);
    signal(&child, Signal::INT);
    let output = finish(child);
    assert_eq!(output.status, 130);
    assert_snapshot!(plain(&env, &output), @"
    status 130
    ── stdout
    This takes a while.
    ── stderr
    ● session 1 · $DIR/home/sessions/repo-$HASH/$ULID
    ▸ turn 1 · native · Take your time
      ⚙ write_file  first.txt
      ⚙ shell  echo begun > begun.txt; sleep 300
      ⚙ write_file  last.txt
      · script 100+10 tokens
        ✓ write_file  wrote first.txt
        ✗ shell  interrupted  (interrupted; it may have done a part)
    ■ session 1 has stopped: interrupted by SIGINT (Ctrl-C) · 1 turn · 110 tokens
    segue resume 1
    ");
    assert_snapshot!(shown(&env, &["resume", "--dry-run"]), @r#"
    status 0
    ── stdout
    ── stderr
    ↻ resume #1 "Take your time" · solo · native · stopped: interrupted by SIGINT (Ctrl-C), just now
      continue  turn 1, at its tool calls: write_file (script:$DIR/script.toml)
      workspace $DIR/repo
      spend     110 tokens so far; turn 1 of at most 50; wall clock starts again
    "#);
    let output = segue(&env, &["resume", "1"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "I looked, and it is fine.\n"));
    let statuses: Vec<_> =
        data(&env, 1, "tool.returned").iter().map(|t| t["status"].clone()).collect();
    assert_eq!(statuses, ["done", "interrupted", "done"]);
}

#[test]
fn each_signal_has_its_exit_status() {
    for (which, status) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let (env, model) = scripted(SLOW_TOOL);
        let child = start_slow_tool(&env, &model);
        signal(&child, which);
        let output = finish(child);
        assert_eq!((output.status, last_words(&output)), (status, "segue resume 1"));
        assert_eq!(show(&env, "1")["status"], "interrupted");
    }
}

#[test]
fn a_new_prompt_takes_the_place_of_what_was_open() {
    let env = crashed_in_a_tool();
    assert_snapshot!(shown(&env, &["resume", "1", "Leave that, do this"]), @r#"
    status 0
    ── stdout
    I looked, and it is fine.
    ── stderr
    ↻ resume #1 "Take your time" · solo · native · crashed, just now
      done      write_file call-0-0
      not done  write_file call-0-2
      unknown   shell call-0-1: may have run, and is not run again unasked
      continue  turn 2 with a new prompt: Leave that, do this (script:$DIR/script.toml)
      workspace $DIR/repo
      spend     110 tokens so far; turn 1 of at most 50; wall clock starts again
        ? shell  may have run  its result was never recorded
        – write_file  not run
      ◂ a new prompt took the place of the rest
    ▸ turn 2 · native · Leave that, do this
      · script 100+10 tokens
    ✓ session 1 is completed: the agent is done · 2 turns · 220 tokens
    "#);
    let statuses: Vec<_> =
        data(&env, 1, "tool.returned").iter().map(|t| t["status"].clone()).collect();
    assert_eq!(statuses, ["done", "may_have_run", "not_run"]);
    assert!(!env.repo().join("last.txt").exists());
    let outcomes: Vec<_> =
        data(&env, 1, "turn.ended").iter().map(|t| t["outcome"].clone()).collect();
    assert_eq!(outcomes, ["superseded", "finished"]);
}

#[test]
fn crashed_in_the_middle_of_a_model_call() {
    let (env, model) = scripted("[[reply]]\ntext = \"a b c\"\ndelay_ms = 300000\n");
    let child = start(&mut env.command(["run", "Think", "--model", &model]));
    until("the call", || has(&env, 1, "model.called"));
    signal(&child, Signal::KILL);
    finish(child);
    env.script("[[reply]]\ntext = \"a b c\"\nusage = { input = 90, output = 4 }\n").unwrap();
    assert_snapshot!(shown(&env, &["resume"]), @r#"
    status 0
    ── stdout
    a b c
    ── stderr
    ↻ resume #1 "Think" · solo · native · crashed, just now
      lost      the answer to a model call that was under way: it is asked again
      continue  turn 1, with model call 1 (script:$DIR/script.toml)
      workspace $DIR/repo
      spend     0 tokens so far; $0.00; turn 1 of at most 50; wall clock starts again
      · script 90+4 tokens
    ✓ session 1 is completed: the agent is done · 1 turn · 94 tokens
    "#);
}

#[test]
fn a_torn_end_is_set_aside_and_said() {
    let env = crashed_in_a_tool();
    let journal = env.session_dir(1).unwrap().join("journal.jsonl");
    let mut bytes = fs::read(&journal).unwrap();
    bytes.extend(b"{\"v\":1,\"seq\":");
    fs::write(&journal, bytes).unwrap();
    assert_snapshot!(shown(&env, &["resume"]), @r#"
    status 0
    ── stdout
    I looked, and it is fine.
    ── stderr
    ↻ resume #1 "Take your time" · solo · native · crashed, just now
      done      write_file call-0-0
      not done  write_file call-0-2
      unknown   shell call-0-1: may have run, and is not run again unasked
      continue  turn 1, at its tool calls: shell, write_file (script:$DIR/script.toml)
      workspace $DIR/repo
      spend     110 tokens so far; turn 1 of at most 50; wall clock starts again
      mended    13 bytes of an unfinished write were set aside in journal.torn-14
        ? shell  may have run  its result was never recorded
        ✓ write_file  wrote last.txt
      · script 100+10 tokens
    ✓ session 1 is completed: the agent is done · 1 turn · 220 tokens
    "#);
    let kept: Vec<_> = data(&env, 1, "journal.repaired");
    assert_eq!(kept[0]["bytes"], 13);
    assert_eq!(segue(&env, &["verify", "1"]).status, 0);
}

#[test]
fn never_started() {
    let env = crashed_in_a_tool();
    // What a crash between the creation and the start leaves: the first line alone.
    let journal = env.session_dir(1).unwrap().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.split_inclusive('\n').next().unwrap()).unwrap();
    fs::remove_file(env.session_dir(1).unwrap().join("state.json")).ok();
    env.script(DONE).unwrap();
    assert_eq!(show(&env, "1")["status"], "created");
    assert_snapshot!(shown(&env, &["resume"]), @r#"
    status 0
    ── stdout
    All is well.
    ── stderr
    ↻ resume #1 "Take your time" · solo · native · never started, just now
      continue  turn 1 from its start (script:$DIR/script.toml)
      workspace $DIR/repo
      spend     0 tokens so far; $0.00; turn 0 of at most 50; wall clock starts again
    ▸ turn 1 · native · Take your time
      · script 900+40 tokens
    ✓ session 1 is completed: the agent is done · 1 turn · 940 tokens
    "#);
}

#[test]
fn completed() {
    let (env, model) = scripted(DONE);
    segue(&env, &["run", "Go", "--model", &model, "--name", "first"]);
    let before = journal_bytes(&env, 1);
    assert_snapshot!(shown(&env, &["resume", "1"]), @r#"
    status 0
    ── stdout
    ── stderr
    session 1 is completed: nothing to do
    ask for more: segue resume 1 "…"
    "#);
    let output = segue(&env, &["resume", "1", "--json"]);
    assert_eq!(json(&output.stdout)["nothing_to_do"], true);
    assert_eq!(journal_bytes(&env, 1), before);
    assert_snapshot!(shown(&env, &["resume", "first", "And now?"]), @r#"
    status 0
    ── stdout
    All is well.
    ── stderr
    ↻ resume #1 "first" · solo · native · stopped: the agent is done, just now
      continue  turn 2 with a new prompt: And now? (script:$DIR/script.toml)
      workspace $DIR/repo
      spend     940 tokens so far; turn 1 of at most 50; wall clock starts again
    ▸ turn 2 · native · And now?
      · script 900+40 tokens
    ✓ session 1 is completed: the agent is done · 2 turns · 1.9k tokens
    "#);
    assert_eq!(segue(&env, &["resume", "--prompt", "And then?"]).status, 0);
    let prompts: Vec<_> =
        data(&env, 1, "turn.started").iter().map(|t| t["prompt"]["text"].clone()).collect();
    assert_eq!(prompts, ["Go", "And now?", "And then?"]);
}

#[test]
fn failed() {
    let (env, model) = scripted("[[reply]]\ntext = \"a\"\nusage = { input = 90, output = 4 }\n");
    segue(&env, &["run", "Go", "--model", &model]);
    segue(&env, &["resume", "1", "More"]);
    assert_snapshot!(shown(&env, &["resume", "1", "--dry-run"]), @r#"
    status 0
    ── stdout
    ── stderr
    ↻ resume #1 "Go" · solo · native · stopped: $DIR/script.toml: call 2 has no answer: the script has 1 reply; add a [[reply]], or repeat = true to the last one, just now
      continue  turn 2, with model call 1 (script:$DIR/script.toml)
      workspace $DIR/repo
      spend     94 tokens so far; turn 2 of at most 50; wall clock starts again
    "#);
    env.script("[[reply]]\ntext = \"a\"\n[[reply]]\ntext = \"b\"\n").unwrap();
    assert_eq!(segue(&env, &["resume"]).stdout, "b\n");
    assert_eq!(data(&env, 1, "turn.started").len(), 2);
}

#[test]
fn stopped_at_a_proof() {
    let (env, model) = scripted(DONE);
    let args = ["run", "Go", "--model", &model, "--max-turns", "1", "--proof", "test -e ok"];
    assert_eq!(segue(&env, &args).status, 3);
    assert_snapshot!(shown(&env, &["resume", "--dry-run", "--max-turns", "5"]), @r#"
    status 0
    ── stdout
    ── stderr
    ↻ resume #1 "Go" · solo · native · stopped: the cap on turns is reached, just now
      continue  turn 2, with what the failed proof printed (script:$DIR/script.toml)
      workspace $DIR/repo
      spend     940 tokens so far; turn 1 of at most 5; wall clock starts again
    "#);
    env.write("ok", "").unwrap();
    let output = segue(&env, &["resume", "--max-turns", "5"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(data(&env, 1, "turn.started").len(), 2);
}

#[test]
fn a_session_that_is_at_work_is_left_alone() {
    let (env, model) = scripted(SLOW_TOOL);
    let child = start_slow_tool(&env, &model);
    let output = segue(&env, &["resume", "1"]);
    let pid = child.id().to_string();
    let text = plain(&env, &output).replace(&pid, "$PID");
    assert_snapshot!(text, @"
    status 5
    ── stdout
    ── stderr
    error: the session is in use by process $PID on $HOST, since 2026-11-15T18:00:00Z
      hint: watch it: segue watch 1
    ");
    assert_eq!(segue(&env, &["resume"]).status, 4, "it is not offered either");
    assert_eq!(segue(&env, &["rm", "1", "--force"]).status, 5);
    assert_eq!(show(&env, "1")["status"], "running");
    signal(&child, Signal::TERM);
    finish(child);
    assert_eq!(segue(&env, &["resume", "1"]).status, 0);
}

#[test]
fn a_workspace_that_has_moved() {
    let (env, model) = scripted(WORK);
    fs::create_dir(env.path("old")).unwrap();
    let args = ["run", "Go", "--model", &model, "--dir", "../old", "--max-steps", "1"];
    assert_eq!(segue(&env, &args).status, 3);
    fs::rename(env.path("old"), env.path("new")).unwrap();
    let before = journal_bytes(&env, 1);
    assert_snapshot!(shown(&env, &["resume", "1", "--max-steps", "9"]), @r"
    status 1
    ── stdout
    ── stderr
    error: the workspace $DIR/old is not there
      hint: the workspace has moved or is gone: name its new place with --dir
      hint: or call this from the same repository's directory on this machine
    ");
    assert_eq!(journal_bytes(&env, 1), before);
    assert_snapshot!(shown(&env, &["resume", "1", "--max-steps", "9", "--dir", "../new"]), @r#"
    status 0
    ── stdout
    Done: a.txt has one line.
    ── stderr
    ↻ resume #1 "Go" · solo · native · stopped: the cap on steps is reached, just now
      continue  turn 1, with model call 2 (script:$DIR/script.toml)
      workspace $DIR/new
      spend     940 tokens so far; turn 1 of at most 50; wall clock starts again
      · script 1k+20 tokens
    ✓ session 1 is completed: the agent is done · 1 turn · 2k tokens
    "#);
    assert!(show(&env, "1")["workspace"].as_str().unwrap().ends_with("/new"));
}

#[test]
fn another_model_goes_on_with_the_same_conversation() {
    let (env, model) = scripted(WORK);
    assert_eq!(segue(&env, &["run", "Go", "--model", &model, "--max-steps", "1"]).status, 3);
    let server = serve([Reply::text("I took over.")]);
    let args = ["resume", "1", "--max-steps", "9", "--model", ANTHROPIC];
    let output = ask(&env, &server, &args);
    assert_eq!((output.status, output.stdout.as_str()), (0, "I took over.\n"), "{}", output.stderr);
    let texts = server.turns()[0].texts();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert_eq!((texts[0].as_str(), texts[1].as_str()), ("Go", "I write it."));
    assert_eq!(show(&env, "1")["model"], ANTHROPIC);
    // And it stays the model that the session has.
    server.push(Reply::text("Still me."));
    let output = ask(&env, &server, &["resume", "1", "Who is it?"]);
    assert_eq!(output.stdout, "Still me.\n");
}

#[test]
fn a_call_is_repeated_only_when_its_answer_was_not_recorded() {
    let (env, _) = scripted(DONE);
    let slow = std::time::Duration::from_secs(300);
    let write = serde_json::json!({ "command": "echo x >> ran.txt; test -e go || sleep 300" });
    let server = serve([Reply::tool("shell", write), Reply::text("never").delay(slow)]);
    let mut command = with_server(&env, &server, &["run", "Go", "--model", ANTHROPIC]);
    let child = start(&mut command);
    until("the tool", || env.repo().join("ran.txt").exists());
    signal(&child, Signal::KILL);
    finish(child);
    // The answer with the tool call was recorded: it is not asked for again. The next call is.
    let child = start(&mut with_server(&env, &server, &["resume", "1"]));
    until("the second call", || server.turns().len() == 2);
    signal(&child, Signal::KILL);
    finish(child);
    server.push(Reply::text("Done."));
    let output = ask(&env, &server, &["resume", "1"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "Done.\n"), "{}", output.stderr);
    let turns = server.turns();
    assert_eq!(turns.len(), 3);
    assert_eq!(turns[1].messages(), turns[2].messages());
    assert!(turns[1].texts()[1].contains("it may have run"), "{:?}", turns[1].texts());
    assert_eq!(fs::read_to_string(env.repo().join("ran.txt")).unwrap(), "x\n");
    let called = kinds(&env, 1).iter().filter(|kind| *kind == "model.called").count();
    assert_eq!(called, 3);
}

/// It would be gone: the stop would be recorded, and the prompt that it stopped would not.
#[test]
fn a_prompt_that_a_cap_leaves_no_room_for_is_refused_and_nothing_changes() {
    let (env, model) = scripted(DONE);
    assert_eq!(segue(&env, &["run", "Do it", "--model", &model]).status, 0);
    let before = journal_bytes(&env, 1);
    let refused = segue(&env, &["resume", "1", "And more", "--max-turns", "1"]);
    assert_eq!(refused.status, 3);
    assert_eq!(
        last_words(&refused),
        "  hint: nothing was changed; raise the cap: --max-turns N",
        "{}",
        refused.stderr
    );
    assert_eq!(journal_bytes(&env, 1), before);
}

#[test]
fn the_latest_takes_a_prompt_also_when_it_is_completed() {
    let (env, model) = scripted(DONE);
    assert_eq!(segue(&env, &["run", "Do it", "--model", &model]).status, 0);
    for words in [["resume", "@latest", "More"], ["resume", "--prompt", "More"]] {
        assert_eq!(segue(&env, &words).status, 0);
    }
    let prompts: Vec<_> = data(&env, 1, "turn.started");
    let prompts: Vec<_> = prompts.iter().map(|turn| turn["prompt"]["text"].as_str()).collect();
    assert_eq!(prompts, [Some("Do it"), Some("More"), Some("More")]);
}
