//! `segue resume` on a terminal: the list to choose from, in a real tmux.

use std::fs;

use rustix::process::{Signal, kill_process};
use segue_testkit::env::TestEnv;

use crate::{
    support::{WORK, data, journal_bytes, scripted, segue, until},
    terminal::{SEGUE, Tmux},
};

/// Three sessions that have something left to do.
fn three_stopped() -> TestEnv {
    let (env, model) = scripted(WORK);
    for prompt in ["Alpha comes first", "Beta 漢字 \u{1b}[2J comes second", "Gamma comes third"] {
        let args = ["run", prompt, "--model", &model, "--max-steps", "1"];
        assert_eq!(segue(&env, &args).status, 3);
    }
    env
}

/// Segue with these arguments, and what it prints in `out.txt`.
fn start<'a>(env: &'a TestEnv, args: &str, size: (u16, u16)) -> Tmux<'a> {
    Tmux::start(env, &format!("{SEGUE} {args} >../out.txt"), size)
}

fn stdout(env: &TestEnv) -> String {
    fs::read_to_string(env.path("out.txt")).unwrap()
}

fn journals(env: &TestEnv) -> Vec<Vec<u8>> {
    (1..=3).map(|number| journal_bytes(env, number)).collect()
}

#[test]
fn the_one_that_was_found_is_resumed() {
    let env = three_stopped();
    let before = journals(&env);
    let tmux = start(&env, "resume --max-steps 9", (80, 24));
    let screen = tmux.sees("3 of 3");
    for text in ["Alpha comes first", "Beta 漢字", "Gamma comes third", "enter choose"] {
        assert!(screen.contains(text), "{text}: {screen}");
    }
    tmux.keys(&["BETA"]);
    let screen = tmux.sees("1 of 3");
    assert!(screen.contains("▸ 2  Beta 漢字") && !screen.contains("Alpha"), "{screen}");
    tmux.keys(&["x"]);
    tmux.sees("nothing found");
    tmux.keys(&["Enter", "BSpace"]);
    tmux.sees("1 of 3");
    tmux.keys(&["Enter"]);
    tmux.ends(0);
    assert_eq!(stdout(&env), "Done: a.txt has one line.\n");
    assert_eq!(data(&env, 2, "session.resumed").len(), 1);
    let after = journals(&env);
    assert_eq!((&after[0], &after[2]), (&before[0], &before[2]));
}

#[test]
fn arrows_choose() {
    let env = three_stopped();
    let tmux = start(&env, "resume --dry-run", (40, 10));
    let screen = tmux.sees("3 of 3");
    assert!(screen.lines().nth(1).unwrap().starts_with('▸'), "{screen}");
    tmux.keys(&["Down", "C-n", "Down", "C-p"]);
    let second = |screen: &str| screen.lines().nth(2).unwrap_or_default().to_owned();
    until("the second one", || second(&tmux.screen()).starts_with('▸'));
    // Wider than it was: the preview goes beside.
    tmux.resize(120, 30);
    let chosen = second(&tmux.sees("│"));
    assert!(chosen.starts_with('▸'), "{chosen}");
    let number = chosen.split_whitespace().nth(1).unwrap();
    tmux.keys(&["Enter"]);
    tmux.sees(&format!("↻ resume #{number} "));
}

#[test]
fn who_cancels_has_changed_nothing() {
    let env = three_stopped();
    let before = journals(&env);
    for key in ["Escape", "C-c"] {
        let tmux = start(&env, "resume", (80, 24));
        tmux.sees("3 of 3");
        tmux.keys(&["alpha"]);
        tmux.sees("1 of 3");
        tmux.keys(&["C-u"]);
        tmux.sees("3 of 3");
        tmux.keys(&[key]);
        tmux.ends(0);
        assert_eq!(stdout(&env), "");
        assert_eq!(journals(&env), before);
    }
}

#[test]
fn a_pasted_line_break_chooses_nothing() {
    let env = three_stopped();
    let tmux = start(&env, "resume", (80, 24));
    tmux.sees("3 of 3");
    tmux.run(&["set-buffer", "comes\ngamma\n"]);
    tmux.on_pane("paste-buffer", &["-p"]);
    let screen = tmux.sees("1 of 3");
    assert!(screen.contains("search: comes gamma "), "{screen}");
    tmux.keys(&["Escape"]);
    tmux.ends(0);
}

#[test]
fn a_signal_finds_the_terminal_given_back() {
    let env = three_stopped();
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let tmux = start(&env, "resume", (80, 24));
        tmux.sees("3 of 3");
        kill_process(tmux.pid(), signal).unwrap();
        tmux.ends(status);
    }
}

/// Also where no signal tells: the shell that would pass it on is one that stays.
#[test]
fn a_closed_terminal_ends_it() {
    let env = three_stopped();
    let tmux = start(&env, "resume", (80, 24));
    tmux.sees("3 of 3");
    drop(tmux);
    let ended = || fs::read_to_string(env.path("ended")).unwrap_or_default();
    until("the end of Segue", || ended().ends_with('\n'));
    assert_eq!(ended(), "1\n");
}

#[test]
fn without_a_terminal_there_is_nothing_to_choose_on() {
    let env = three_stopped();
    let output = segue(&env, &["resume", "--pick"]);
    assert_eq!((output.status, output.stdout.as_str()), (2, ""));
    let errors = output.stderr.lines().filter(|line| line.starts_with("error:")).count();
    assert_eq!(errors, 1, "{}", output.stderr);
    assert!(output.stderr.starts_with("error: there is no terminal to choose on\n"));
}
