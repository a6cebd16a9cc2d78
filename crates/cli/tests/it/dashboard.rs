//! `segue dashboard` in a real tmux, over sessions of real runs.

use std::{fs, os::unix::fs::PermissionsExt, process::Child};

use insta::assert_snapshot;
use rustix::process::{Signal, kill_process};
use segue_testkit::env::TestEnv;

use crate::{
    pair,
    support::{
        DONE, WORK, at_width, data, finish, has, json, kinds, scripted, segue, signal, start,
        start_slow_tool, until,
    },
    terminal::{SEGUE, Tmux},
};

/// Stands still until there is a file `go.txt` in the workspace, and then says so.
const GATE: &str = r#"
[[reply]]
text = "I wait at the gate."
tools = [{ name = "shell", input = { command = "while [ ! -e go.txt ]; do sleep 0.05; done" } }]
usage = { input = 100, output = 10 }

[[reply]]
text = "The gate is open."
usage = { input = 100, output = 10 }
repeat = true
"#;

/// Takes long the first time, and comes to the gate when it is resumed.
const LATER_AT_GATE: &str = r#"
[[reply]]
text = "This takes a while."
tools = [{ name = "shell", input = { command = "echo begun > begun.txt; sleep 300" } }]
usage = { input = 100, output = 10 }
"#;

/// Three sessions that have something left to do, and one that is done.
fn four_ended() -> TestEnv {
    let (env, model) = scripted(WORK);
    for prompt in ["Alpha comes first", "Beta 漢字 \u{1b}[2J comes second", "Gamma comes third"] {
        let args = ["run", prompt, "--model", &model, "--max-steps", "1"];
        assert_eq!(segue(&env, &args).status, 3);
    }
    env.script(DONE).unwrap();
    assert_eq!(segue(&env, &["run", "Delta is easy", "--model", &model]).status, 0);
    env
}

/// A session that stands at its gate.
fn start_at_gate(env: &TestEnv, number: u64) -> Child {
    let model = env.script(GATE).unwrap();
    let child = start(&mut env.command(["run", "Pass the gate", "--model", &model]));
    until("the gate", || has(env, number, "tool.started"));
    child
}

fn open_gate(env: &TestEnv) {
    env.write("go.txt", "").unwrap();
}

fn dashboard(env: &TestEnv, size: (u16, u16)) -> Tmux<'_> {
    Tmux::start(env, &format!("{SEGUE} dashboard"), size)
}

/// The numbers of the rows that are seen, and the one that is selected.
fn table(screen: &str) -> (Vec<u64>, Option<u64>) {
    let number = |line: &str| line.trim_start_matches('▸').split_whitespace().next()?.parse().ok();
    let rows: Vec<&str> =
        screen.lines().skip(2).take_while(|line| !line.starts_with('─')).collect();
    let selected = rows.iter().find(|line| line.starts_with('▸'));
    (rows.iter().filter_map(|line| number(line)).collect(), selected.and_then(|line| number(line)))
}

#[test]
fn the_screen_at_eighty_by_twenty_four() {
    let env = four_ended();
    let tmux = dashboard(&env, (80, 24));
    tmux.sees("q quit");
    let screen = env.plain(&tmux.screen());
    assert_snapshot!(screen, @r#"
    4 sessions
      #  state      progress  agents   spend  age     last words
    ▸ 4  completed  turn 1    native     940  now     All is well.
      3  cap:steps  turn 1    native     940  now     I write it.
      2  cap:steps  turn 1    native     940  now     I write it.
      1  cap:steps  turn 1    native     940  now     I write it.







    ────────────────────────────────────────────────────────────────────────────────
    status     completed · now
               the agent is done
    next       segue resume 4 "what to do next"
    prompt     Delta is easy
    agent      native · script:$DIR/script.toml
    spend      1 turn · 940 tokens · –
    workspace  $DIR/repo
    last words All is well.                                                        …

    ⏎ follow  r resume  s stop  h hand  o files  / filter  a active  ? help  q quit
    "#);
    tmux.keys(&["q"]);
    tmux.ends(0);
}

#[test]
fn one_that_runs_is_followed_live() {
    let env = four_ended();
    let running = start_at_gate(&env, 5);
    let tmux = dashboard(&env, (80, 24));
    let screen = tmux.sees("1 running");
    assert_eq!(table(&screen).0[0], 5, "{screen}");
    tmux.keys(&["Enter"]);
    let screen = tmux.sees("#5 running");
    assert!(screen.contains("I wait at the gate."), "{screen}");
    assert!(!screen.contains("The gate is open."), "{screen}");
    open_gate(&env);
    tmux.sees("The gate is open.");
    assert_eq!(finish(running).status, 0);
    tmux.sees("#5 completed");
    tmux.keys(&["Home"]);
    tmux.sees("● created");
    tmux.keys(&["Escape"]);
    let screen = tmux.sees("5 sessions");
    assert!(!screen.contains("1 running"), "{screen}");
    assert_eq!(table(&screen).1, Some(5), "{screen}");
    tmux.keys(&["q"]);
    tmux.ends(0);
}

#[test]
fn a_session_that_begins_and_ends_is_seen_without_a_key() {
    let env = four_ended();
    let tmux = dashboard(&env, (80, 24));
    tmux.sees("4 sessions");
    let running = start_at_gate(&env, 5);
    let screen = tmux.sees("1 running");
    assert!(screen.contains("I wait at the gate."), "{screen}");
    open_gate(&env);
    assert_eq!(finish(running).status, 0);
    tmux.sees("The gate is open.");
    // One whose process was killed is told as well, although its journal stands still.
    fs::remove_file(env.repo().join("go.txt")).unwrap();
    let running = start_at_gate(&env, 6);
    tmux.sees("1 running");
    signal(&running, Signal::KILL);
    finish(running);
    tmux.sees("1 waiting");
    tmux.sees("crashed");
}

#[test]
fn filters_and_keys() {
    let env = four_ended();
    let tmux = dashboard(&env, (80, 24));
    tmux.sees("4 sessions");
    tmux.keys(&["/", "comes seco"]);
    let screen = tmux.sees("1 of 4");
    assert_eq!(table(&screen), (vec![2], Some(2)), "{screen}");
    assert!(screen.contains("漢字") && !screen.contains("Alpha"), "{screen}");
    tmux.keys(&["Enter"]);
    tmux.sees("/comes seco · 1 shown");
    tmux.keys(&["Escape"]);
    until("all", || table(&tmux.screen()).0.len() == 4);
    tmux.keys(&["j", "j", "k", "End", "Up"]);
    until("the third", || table(&tmux.screen()).1 == Some(table(&tmux.screen()).0[2]));
    tmux.keys(&["a"]);
    tmux.sees("nothing is active");
    tmux.keys(&["a", "?"]);
    tmux.sees("resume it in the background");
    tmux.keys(&["q"]);
    tmux.sees("4 sessions");
    tmux.keys(&["C-c"]);
    tmux.ends(0);
}

#[test]
fn it_fits_every_window() {
    let env = four_ended();
    let tmux = dashboard(&env, (80, 24));
    tmux.sees("4 sessions");
    tmux.resize(30, 6);
    tmux.sees("This window is a");
    tmux.resize(60, 10);
    let screen = tmux.sees("4 sessions");
    assert_eq!(table(&screen).0.len(), 4, "{screen}");
    tmux.resize(140, 40);
    let screen = tmux.sees("a active only");
    assert!(screen.contains("task") && screen.contains("workspace"), "{screen}");
    tmux.keys(&["q"]);
    tmux.ends(0);
}

#[test]
fn a_resume_by_key_outlives_the_dashboard() {
    let (env, model) = scripted(&format!("{LATER_AT_GATE}{GATE}"));
    let child = start_slow_tool(&env, &model);
    signal(&child, Signal::INT);
    finish(child);
    let tmux = dashboard(&env, (80, 24));
    tmux.sees("interrupted");
    tmux.keys(&["r"]);
    tmux.sees("session 1 goes on in the background");
    tmux.sees("1 running");
    until("the gate", || kinds(&env, 1).iter().filter(|kind| *kind == "tool.started").count() > 1);
    tmux.keys(&["q"]);
    tmux.ends(0);
    // Not even the end of its terminal reaches it.
    drop(tmux);
    open_gate(&env);
    until("the end", || has_ended(&env, 1));
    assert_eq!(data(&env, 1, "session.stopped").pop().unwrap()["reason"], "done");
}

fn has_ended(env: &TestEnv, number: u64) -> bool {
    let ends = |kind: &str| {
        let events = env.journal(number).unwrap_or_default();
        events.iter().rposition(|line| line["kind"] == kind)
    };
    ends("session.stopped") > ends("session.resumed")
}

#[test]
fn what_a_command_says_when_it_fails_is_shown() {
    let env = four_ended();
    let tmux = dashboard(&env, (120, 24));
    tmux.sees("4 sessions");
    tmux.keys(&["/", "alpha", "Enter"]);
    tmux.sees("1 shown");
    tmux.keys(&["r"]);
    tmux.sees("the cap on steps is reached · 1 turn · 940 tokens · segue resume 1 --max-steps 2");
    tmux.keys(&["h", "nobody", "Enter"]);
    tmux.sees("go on with session 1 with nobody? (y/n)");
    tmux.keys(&["n"]);
    tmux.sees("nothing was done");
    tmux.keys(&["h", "nobody", "Enter", "y"]);
    let screen = tmux.sees("`nobody`");
    assert!(screen.contains("agent"), "{screen}");
    tmux.keys(&["s"]);
    tmux.sees("session 1 does not run");
    tmux.keys(&["q"]);
    tmux.ends(0);
    assert_eq!(data(&env, 1, "agent.changed").len(), 0);
}

#[test]
fn one_that_runs_is_stopped_by_key() {
    let (env, _) = scripted(WORK);
    let running = start_at_gate(&env, 1);
    let tmux = dashboard(&env, (80, 24));
    tmux.sees("1 running");
    tmux.keys(&["s"]);
    tmux.sees("(y/n)");
    tmux.keys(&["y"]);
    let screen = tmux.sees("interrupted");
    assert_eq!(table(&screen), (vec![1], Some(1)), "{screen}");
    assert_eq!(finish(running).status, 130);
    assert_eq!(data(&env, 1, "session.stopped").pop().unwrap()["reason"], "interrupted");
    tmux.keys(&["q"]);
    tmux.ends(0);
}

#[test]
fn one_is_handed_off_by_key_standing_still_or_at_work() {
    let env = four_ended();
    let tmux = dashboard(&env, (80, 24));
    tmux.sees("4 sessions");
    tmux.keys(&["/", "alpha", "Enter"]);
    tmux.sees("1 shown");
    tmux.keys(&["h", "exec:echo the other one", "Enter"]);
    tmux.sees("(y/n)");
    tmux.keys(&["y"]);
    tmux.sees("completed");
    tmux.sees("the other one");
    let changed = data(&env, 1, "agent.changed");
    assert_eq!((changed.len(), &changed[0]["cause"]), (1, &"asked".into()));
    assert_eq!(data(&env, 1, "session.stopped").pop().unwrap()["reason"], "done");
    tmux.keys(&["Escape"]);

    let running = start_at_gate(&env, 5);
    tmux.sees("1 running");
    tmux.keys(&["Home", "h", "exec:echo the last one", "Enter"]);
    tmux.sees("(y/n)");
    tmux.keys(&["y"]);
    // It runs: it changes hands at the end of its turn.
    tmux.sees("goes on at the end of turn 1");
    open_gate(&env);
    assert_eq!(finish(running).status, 0);
    let changed = data(&env, 5, "agent.changed");
    assert_eq!((changed.len(), &changed[0]["from"]), (1, &"native".into()));
    tmux.sees("the last one");
    tmux.keys(&["q"]);
    tmux.ends(0);
}

#[test]
fn a_pair_has_its_iteration_and_everybody_in_it() {
    let (env, args) = pair::pair(&[&format!("{}{}", pair::FAIL, pair::PASS)]);
    assert_eq!(pair::run(&env, &args, &[]).status, 0);
    let tmux = dashboard(&env, (80, 24));
    let screen = env.plain(&tmux.sees("q quit"));
    let row = screen.lines().find(|line| line.starts_with('▸')).unwrap_or_default();
    let begin = "▸ 1  completed  iter 2/20  native ⇄ native-2  ";
    assert!(row.starts_with(begin) && row.ends_with("now     It says hello."), "{screen}");
    tmux.keys(&["Enter"]);
    let screen = tmux.sees("#1 completed");
    assert!(screen.contains("native-2") && screen.contains("pass"), "{screen}");
    tmux.keys(&["Escape"]);
    tmux.sees("⏎ follow");
    tmux.keys(&["q"]);
    tmux.ends(0);
}

/// How often a process has waited for something.
fn waits(tmux: &Tmux<'_>) -> u64 {
    let path = format!("/proc/{}/status", tmux.pid().as_raw_nonzero());
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// A screen that is painted over and over flickers.
#[test]
fn where_nothing_changes_nothing_is_drawn() {
    let env = four_ended();
    let tmux = dashboard(&env, (80, 24));
    tmux.sees("q quit");
    let written = env.path("written");
    tmux.on_pane("pipe-pane", &[&format!("cat > {}", written.display())]);
    let drawn = || fs::metadata(&written).map_or(0, |file| file.len());
    until("the pipe", || written.exists());
    let (before, bytes, looks) = (tmux.screen(), drawn(), waits(&tmux));
    // It looks at everything again and again meanwhile.
    until("some looks", || waits(&tmux) >= looks + 30);
    let same = tmux.screen() == before;
    assert!(drawn() == bytes || !same, "{}", fs::read_to_string(&written).unwrap());
    tmux.keys(&["j"]);
    until("what a key changes", || drawn() > bytes);
    tmux.keys(&["q"]);
    tmux.ends(0);
}

#[test]
fn files_are_opened_in_an_editor_which_has_the_terminal_meanwhile() {
    let env = four_ended();
    let editor = env.path("edit");
    fs::write(&editor, "#!/bin/sh\nls \"$1\"\necho the editor\nstty -a\nread line\n").unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o700)).unwrap();
    let line = format!("env EDITOR={} {SEGUE} dashboard", editor.display());
    let tmux = Tmux::start(&env, &line, (80, 40));
    tmux.sees("4 sessions");
    tmux.keys(&["o"]);
    let screen = tmux.sees("the editor");
    assert!(screen.contains("journal.jsonl") && !screen.contains("4 sessions"), "{screen}");
    assert!(tmux.sees("echoctl").contains(" icanon"));
    tmux.keys(&["Enter"]);
    let screen = tmux.sees("4 sessions");
    assert!(!screen.contains("the editor"), "{screen}");
    tmux.keys(&["q"]);
    tmux.ends(0);
}

#[test]
fn a_signal_finds_the_terminal_given_back() {
    let env = four_ended();
    let tmux = dashboard(&env, (80, 24));
    tmux.sees("4 sessions");
    kill_process(tmux.pid(), Signal::TERM).unwrap();
    tmux.ends(143);
}

#[test]
fn without_a_terminal_the_table_is_printed_once() {
    let env = four_ended();
    assert_snapshot!(at_width(&env, 100, &["dashboard"]), @"
    status 0
    ── stdout
      #  state      progress  agents   spend  age     last words
      4  completed  turn 1    native     940  now     All is well.
      3  cap:steps  turn 1    native     940  now     I write it.
      2  cap:steps  turn 1    native     940  now     I write it.
      1  cap:steps  turn 1    native     940  now     I write it.
    ── stderr
    ");
    let output = segue(&env, &["dashboard", "--json"]);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
    let rows = json(&output.stdout);
    let numbers: Vec<u64> =
        rows.as_array().unwrap().iter().map(|row| row["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [4, 3, 2, 1]);
    let listed = json(&segue(&env, &["list", "--all", "--json"]).stdout);
    assert!(listed.as_array().unwrap().contains(&rows[0]));
}

#[test]
fn here_is_only_this_repository() {
    let env = four_ended();
    let elsewhere = env.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let run = |args: &[&str]| {
        let mut command = env.command(args);
        segue_testkit::env::Output::of(command.current_dir(&elsewhere)).unwrap()
    };
    assert_eq!(run(&["dashboard", "--json"]).stdout.matches("\"number\"").count(), 4);
    assert_eq!(run(&["dashboard", "--here", "--json"]).stdout, "[]\n");
    let none = run(&["dashboard", "--here"]);
    assert_eq!((none.status, none.stdout.as_str()), (0, ""));
    assert!(none.stderr.starts_with("there is no session here yet"), "{}", none.stderr);
}
