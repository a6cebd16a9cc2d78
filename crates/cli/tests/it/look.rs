//! list, show, log, watch, verify, agents, doctor: what they look like.

use std::{
    fs,
    io::{BufRead, BufReader},
};

use insta::assert_snapshot;
use rustix::process::Signal;
use segue_testkit::env::{Output, TestEnv};

use crate::support::{
    DONE, SLOW_TOOL, WORK, at_width, env, finish, journal_bytes, json, lines, plain, scripted,
    segue, shown, signal, start, start_slow_tool,
};

/// Four sessions of this repository and one of another, each at its own time.
fn several() -> TestEnv {
    let (env, model) = scripted(WORK);
    let at = |time: &str, args: &[&str]| {
        let mut command = env.command(["run", "--model", &model]);
        Output::of(command.args(args).env("SEGUE_CLOCK", time)).unwrap().status
    };
    assert_eq!(at("2026-09-01T08:00:00Z", &["Write down what you find in the attic"]), 0);
    assert_eq!(at("2026-11-13T18:00:00Z", &["Write a.txt", "--max-steps", "1"]), 3);
    let long =
        "Rework the parser so that it can read 漢字 and everything else that people put into files";
    assert_eq!(at("2026-11-15T12:00:00Z", &[long, "--name", "parser"]), 0);
    env.script("[[reply]]\ntools = [{ name = \"nothing\" }]\nusage = { input = 90, output = 4 }\n")
        .unwrap();
    assert_eq!(at("2026-11-15T17:58:00Z", &["Fail"]), 1);
    fs::create_dir(env.path("other")).unwrap();
    env.script(DONE).unwrap();
    assert_eq!(at("2026-11-15T17:59:57Z", &["Of another repository", "--dir", "../other"]), 0);
    env
}

#[test]
fn the_list() {
    let env = several();
    assert_snapshot!(at_width(&env, 100, &["list"]), @"
    status 0
    ── stdout
    #  status     agent   turns  spend  updated     prompt
    4  failed     native      1     94  2 min ago   Fail
    3  completed  native      1     2k  6 h ago     parser · Rework the parser so that it can read 漢字…
    2  cap:steps  native      1    940  2 d ago     Write a.txt
    1  completed  native      1     2k  2026-09-01  Write down what you find in the attic
    ── stderr
    ");
    assert_snapshot!(at_width(&env, 60, &["ls", "--all"]), @"
    status 0
    ── stdout
    #  status     updated     repo   prompt
    5  completed  now         other  Of another repository
    4  failed     2 min ago   repo   Fail
    3  completed  6 h ago     repo   parser · Rework the parser…
    2  cap:steps  2 d ago     repo   Write a.txt
    1  completed  2026-09-01  repo   Write down what you find i…
    ── stderr
    ");
    assert_snapshot!(at_width(&env, 100, &["list", "--all", "--limit", "2"]), @"
    status 0
    ── stdout
    #  status     agent   turns  spend  updated    repo   prompt
    5  completed  native      1    940  now        other  Of another repository
    4  failed     native      1     94  2 min ago  repo   Fail
    ── stderr
    there are more: --limit 0 shows all
    ");
    assert_snapshot!(at_width(&env, 100, &["list", "--status", "cap,failed"]), @"
    status 0
    ── stdout
    #  status     agent   turns  spend  updated    prompt
    4  failed     native      1     94  2 min ago  Fail
    2  cap:steps  native      1    940  2 d ago    Write a.txt
    ── stderr
    ");
    assert_snapshot!(at_width(&env, 100, &["list", "--status", "running"]), @"
    status 0
    ── stdout
    ── stderr
    there is no session with that status here; all: segue list --all
    ");
    assert_snapshot!(at_width(&env, 100, &["list", "--color", "always"]), @"
    status 0
    ── stdout
    ␛[2m#  status     agent   turns  spend  updated     prompt␛[0m
    4  ␛[31mfailed␛[0m     native      1     94  2 min ago   Fail
    3  ␛[32mcompleted␛[0m  native      1     2k  6 h ago     parser · Rework the parser so that it can read 漢字…
    2  ␛[33mcap:steps␛[0m  native      1    940  2 d ago     Write a.txt
    1  ␛[32mcompleted␛[0m  native      1     2k  2026-09-01  Write down what you find in the attic
    ── stderr
    ");
}

#[test]
fn the_list_of_nothing() {
    let env = env();
    assert_snapshot!(shown(&env, &["list"]), @"
    status 0
    ── stdout
    ── stderr
    there is no session of this repository; all: segue list --all
    ");
    assert_snapshot!(shown(&env, &["list", "--all"]), @r#"
    status 0
    ── stdout
    ── stderr
    there is no session yet: segue run "…" starts one
    "#);
    assert_eq!(segue(&env, &["list", "--json"]).stdout, "[]\n");
    assert!(!env.home().join("sessions").exists());
}

#[test]
fn the_list_as_json() {
    let env = several();
    let rows = json(&segue(&env, &["list", "--json", "--all"]).stdout);
    let rows = rows.as_array().unwrap();
    let of = |field: &str| rows.iter().map(|row| row[field].clone()).collect::<Vec<_>>();
    assert_eq!(of("number"), [5, 4, 3, 2, 1]);
    assert_eq!(of("status"), ["completed", "failed", "completed", "cap:steps", "completed"]);
    assert_eq!(of("resumable"), [false, true, false, true, false]);
    assert_eq!(of("turns"), [1, 1, 1, 1, 1]);
    let all = json(&segue(&env, &["list", "--json", "--all", "--limit", "0"]).stdout);
    assert_eq!(all.as_array().unwrap(), rows);
    let resumable = segue(&env, &["list", "--json", "--status", "resumable"]).stdout;
    assert_eq!(json(&resumable).as_array().unwrap().len(), 2);
}

#[test]
fn one_session_on_a_page() {
    let env = several();
    assert_snapshot!(shown(&env, &["show", "parser"]), @r#"
    status 0
    ── stdout
    #3 "parser"  $ULID
    status     completed · 6 h ago
               the agent is done
    next       segue resume 3 "what to do next"
    prompt     Rework the parser so that it can read 漢字 and everything else that people put into files
    agent      native · script:$DIR/script.toml
    workspace  $DIR/repo
    repository $DIR/repo
    created    6 h ago (2026-11-15 12:00 UTC)
    last words Done: a.txt has one line.
    turns      1 · 1 run · 2 tool calls
    tokens     2k = input 1.9k + output 60
    cost       –
    caps       turns 1 of 50
               model calls of the turn 2 of 200
    files      blobs/
               journal.jsonl  $SIZE bytes
               lock  $SIZE bytes
               resume.json  $SIZE bytes
               session.json  $SIZE bytes
               state.json  $SIZE bytes
               streams/
    in         $DIR/home/sessions/repo-$HASH/$ULID
    ── stderr
    "#);
    assert_snapshot!(shown(&env, &["show", "2"]), @r"
    status 0
    ── stdout
    #2  $ULID
    status     cap:steps · 2 d ago
               the cap on steps is reached
               raise it with --max-steps
    next       segue resume 2 --max-steps 2
    prompt     Write a.txt
    agent      native · script:$DIR/script.toml
    workspace  $DIR/repo
    repository $DIR/repo
    created    2 d ago (2026-11-13 18:00 UTC)
    last words I write it.
    turns      1 · 1 run · 2 tool calls
    tokens     940 = input 900 + output 40
    cost       –
    caps       turns 1 of 50
               model calls of the turn 1 of 1
    files      blobs/
               journal.jsonl  $SIZE bytes
               lock  $SIZE bytes
               resume.json  $SIZE bytes
               session.json  $SIZE bytes
               state.json  $SIZE bytes
               streams/
    in         $DIR/home/sessions/repo-$HASH/$ULID
    ── stderr
    ");
    let narrow = at_width(&env, 60, &["show", "3"]);
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
}

#[test]
fn what_happened() {
    let (env, model) = scripted(WORK);
    segue(&env, &["run", "Write a.txt", "--model", &model, "--max-steps", "1"]);
    segue(&env, &["resume", "--max-steps", "5"]);
    assert_snapshot!(shown(&env, &["log"]), @r#"
    status 0
    ── stdout
    ● created · native · script:$DIR/script.toml · $DIR/repo
    ▸ turn 1 · native · Write a.txt
      ~ A file first.
      I write it.
      ⚙ write_file  a.txt
      ⚙ shell  cat a.txt; exit 3
      · script 900+40 tokens
        ✓ write_file  wrote a.txt
        ✗ shell  exit 3  one
    ■ stopped: cap:steps · the cap on steps is reached
      raise it with --max-steps
    ↻ resumed
      ↻ resume #1 "Write a.txt" · solo · native · stopped: the cap on steps is reached, just now
      continue  turn 1, with model call 2 (script:$DIR/script.toml)
      workspace $DIR/repo
      spend     940 tokens so far; turn 1 of at most 50; wall clock starts again
      Done: a.txt has one line.
      · script 1k+20 tokens
    ✔ done · the agent is done
    ── stderr
    "#);
    assert_snapshot!(shown(&env, &["log", "1", "--verbose"]), @r#"
    status 0
    ── stdout
    18:00:00  ● created · native · script:$DIR/script.toml · $DIR/repo
    18:00:00  ● started · process $PID on $HOST
    18:00:00  · no checkpoint: the directory is in no git repository
    18:00:00  ▸ turn 1 · native · Write a.txt
    18:00:00    · asking script:$DIR/script.toml, 1 message
    18:00:00    ~ A file first.
    18:00:00    I write it.
    18:00:00    ⚙ write_file  a.txt
    18:00:00    ⚙ shell  cat a.txt; exit 3
    18:00:00    · script 900+40 tokens
    18:00:00      … started
    18:00:00      ✓ write_file  wrote a.txt
                    created a.txt (1 line, 4 bytes)
    18:00:00      … started
    18:00:00      ✗ shell  exit 3  one
                    one
                    (exit status 3)
    18:00:00  · packet written: cap
    18:00:00  ■ stopped: cap:steps · the cap on steps is reached
                raise it with --max-steps
    18:00:00  ↻ resumed
                ↻ resume #1 "Write a.txt" · solo · native · stopped: the cap on steps is reached, just now
                continue  turn 1, with model call 2 (script:$DIR/script.toml)
                workspace $DIR/repo
                spend     940 tokens so far; turn 1 of at most 50; wall clock starts again
    18:00:00    · asking script:$DIR/script.toml, 3 messages
    18:00:00    Done: a.txt has one line.
    18:00:00    · script 1k+20 tokens
    18:00:00    ◂ turn finished
    18:00:00  · no checkpoint: the directory is in no git repository
    18:00:00  · packet written: done
    18:00:00  ✔ done · the agent is done
    ── stderr
    "#);
    assert_snapshot!(shown(&env, &["log", "1", "-n", "2"]), @"
    status 0
    ── stdout
      · script 1k+20 tokens
    ✔ done · the agent is done
    ── stderr
    ");
    let events = lines(&segue(&env, &["log", "1", "--json"]).stdout);
    let journal = env.journal(1).unwrap();
    assert_eq!(events.len(), journal.len());
    for (event, line) in events.iter().zip(&journal) {
        for field in ["seq", "at", "kind", "data", "turn", "agent", "id"] {
            assert_eq!(event.get(field), line.get(field), "{field} of {line}");
        }
    }
    let last = lines(&segue(&env, &["log", "1", "--json", "-n", "3"]).stdout);
    assert_eq!(last[..], events[events.len() - 3..]);
}

#[test]
fn watching_shows_what_the_log_shows_to_the_very_end() {
    let (env, model) = scripted(SLOW_TOOL);
    let run = start_slow_tool(&env, &model);
    let watch = start(&mut env.command(["watch", "1", "-n", "1000"]));
    let in_json = start(&mut env.command(["watch", "--json", "-n", "1000"]));
    signal(&run, Signal::TERM);
    assert_eq!(finish(run).status, 143);
    let (watch, in_json) = (finish(watch), finish(in_json));
    assert_eq!((watch.status, watch.stderr.as_str()), (0, ""));
    assert_eq!(watch.stdout, segue(&env, &["log", "1", "--verbose"]).stdout);
    assert_eq!(in_json.stdout, segue(&env, &["log", "1", "--json"]).stdout);
}

#[test]
fn watching_a_session_that_died_says_so() {
    let (env, model) = scripted(SLOW_TOOL);
    let run = start_slow_tool(&env, &model);
    let watch = start(&mut env.command(["watch", "1", "-n", "0"]));
    signal(&run, Signal::KILL);
    finish(run);
    assert_snapshot!(plain(&env, &finish(watch)), @"
    status 0
    ── stdout
    ── stderr
    nobody works on this session now, and it did not stop; to go on with it:
    segue resume 1
    ");
}

#[test]
fn watching_can_be_ended_and_the_session_goes_on() {
    let (env, model) = scripted(SLOW_TOOL);
    let run = start_slow_tool(&env, &model);
    let mut watch = start(&mut env.command(["watch", "1"]));
    // Signals are taken over before the first event is shown.
    let mut first = String::new();
    BufReader::new(watch.stdout.take().unwrap()).read_line(&mut first).unwrap();
    signal(&watch, Signal::INT);
    assert_eq!(finish(watch).status, 130);
    assert_eq!(json(&segue(&env, &["show", "--json"]).stdout)["status"], "running");
    signal(&run, Signal::TERM);
    finish(run);
}

#[test]
fn verifying() {
    let (env, model) = scripted(WORK);
    segue(&env, &["run", "Write a.txt", "--model", &model]);
    assert_snapshot!(shown(&env, &["verify"]), @r"
    status 0
    ── stdout
    ✓ 1: 20 events, $SIZE bytes, 1 blobs
    ── stderr
    ");
    let journal = env.session_dir(1).unwrap().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replace("I write it.", "I wrote it.")).unwrap();
    assert_snapshot!(shown(&env, &["verify", "1"]), @r"
    status 1
    ── stdout
    ✗ 1: 6 events, $SIZE bytes, 1 blobs
        journal.jsonl, line 7: damaged: its checksum is wrong
    ── stderr
    error: something that had been recorded is damaged
      hint: go on with what is certain, keeping the rest aside: segue verify 1 --repair
    ");
    // The cached state knows nothing of it: the conversation does, before anything is added.
    let before = journal_bytes(&env, 1);
    assert_snapshot!(shown(&env, &["resume", "1", "More"]), @r#"
    status 1
    ── stdout
    ── stderr
    ↻ resume #1 "Write a.txt" · solo · native · stopped: the agent is done, just now
      continue  turn 2 with a new prompt: More (script:$DIR/script.toml)
      workspace $DIR/repo
      spend     2k tokens so far; turn 1 of at most 50; wall clock starts again
    error: $DIR/home/sessions/repo-$HASH/$ULID/journal.jsonl: line 7: damaged: its checksum is wrong
      hint: look closer: segue verify 1
      hint: go on with what is certain, keeping the rest aside: segue verify 1 --repair
    "#);
    assert_eq!(journal_bytes(&env, 1), before);
    assert_snapshot!(shown(&env, &["verify", "1", "--repair"]), @r"
    status 0
    ── stdout
    ✓ 1: 7 events, $SIZE bytes, 1 blobs
    ── stderr
    cut back to what is certain; all of it is kept in journal.damaged-7
    ");
    assert_eq!(segue(&env, &["verify", "--all", "--json"]).status, 0);
}

#[test]
fn the_agents() {
    let env = env();
    assert_snapshot!(shown(&env, &["agents"]), @"
    status 0
    ── stdout
    AGENT         VERSION  SIGNED IN      RESUME  FORK  OWN ID  ACP  QUOTA
    claude (c)    –        not installed  yes     yes   yes     yes
    codex (x)     –        not installed  yes     yes           yes
    gemini (g)    –        not installed  yes     yes   yes     yes
    copilot (p)   –        not installed  yes           yes     yes
    cursor (u)    –        not installed  yes                   yes
    opencode (o)  –        not installed  yes     yes           yes
    qwen          –        not installed  yes     yes   yes     yes
    pi            –        not installed  yes     yes   yes
    native (n)    0.1.0    model script   yes           yes

    NATIVE'S MODELS  READY  HOW
    script ←         yes    built in: answers from a file, no account
    anthropic        no     set ANTHROPIC_API_KEY to a valid key
    openai           no     set OPENAI_API_KEY to a valid key
    chat             no     segue config set chat.base_url http://…
    ── stderr
    not installed: claude, codex, gemini, copilot, cursor, opencode, qwen, pi; segue run NAME tells how to get one
    any other: acp:<command> for what speaks the Agent Client Protocol, exec:<command>
    ");
    let mut command = env.command(["agents", "--json"]);
    command.env("ANTHROPIC_API_KEY", "x").env("SEGUE_MODEL", "anthropic/claude-sonnet-4-5");
    let agents = json(&Output::of(&mut command).unwrap().stdout);
    let native = agents.as_array().unwrap().iter().find(|one| one["agent"] == "native").unwrap();
    assert_eq!(native["model"], "anthropic/claude-sonnet-4-5");
    assert_eq!(native["providers"][1]["ready"], true);
    assert_eq!((&agents[0]["agent"], &agents[0]["installed"]), (&"claude".into(), &false.into()));
}

#[test]
fn the_doctor() {
    let (env, model) = scripted(DONE);
    let output = segue(&env, &["doctor"]);
    assert_eq!(output.status, 0, "{}", output.stdout);
    assert!(!env.home().exists(), "looking makes nothing");
    segue(&env, &["run", "Go", "--model", &model]);
    let output = segue(&env, &["doctor"]);
    assert_eq!(output.status, 0, "{}", output.stdout);
    assert!(output.stdout.lines().all(|line| line.starts_with('✓')), "{}", output.stdout);
    let git = output.stdout.lines().find(|line| line.contains("git version")).unwrap();
    assert_snapshot!(plain(&env, &output).replace(git, "✓  git       $VERSION"), @"
    status 0
    ── stdout
    ✓  home      $DIR/home
    ✓  disk      can be written and synced
    ✓  locks     one writer at a time is kept
    ✓  settings  $DIR/home/config.toml
    ✓  git       $VERSION
    ✓  guardian  ends all that an agent has started
    ✓  index     is up to date
    ✓  sessions  1 without a problem at first sight (segue verify --all reads every byte)
    ── stderr
    ");
    let checks = json(&segue(&env, &["doctor", "--json"]).stdout);
    assert!(checks.as_array().unwrap().iter().all(|check| check["health"] == "good"));
}
