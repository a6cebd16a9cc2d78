//! Programs that print nonsense, lie about how they ended, hang, loop or will not die.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use segue_testkit::env::Output;
use serde_json::json;

use crate::{
    stand_ins::{
        calls, claude, claude_bytes, command, done, init, lives, pid, piece, returns, segue, set,
        status, text, texts,
    },
    support::{data, env, finish, has, show, signal, start, until},
};

#[test]
fn lines_that_can_not_be_read_are_kept_and_counted() {
    let env = env();
    let mut bytes = Vec::new();
    let mut say = |line: &[u8]| {
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    };
    say(init().to_string().as_bytes());
    say(b"npm warn: this is no JSON at all");
    say(b"");
    say(text("First.").to_string().as_bytes());
    say(&text("cut in the middle").to_string().as_bytes()[..40]);
    say(b"{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"\xff\xfe\"}]}}");
    say(&[b'x'; 1 << 20]);
    say(b"\x00\x01\x1b[2J");
    // Of a newer version: not known, and no reason for a word.
    say(br#"{"type":"moon_landing","on":"foot"}"#);
    let long = "y".repeat(1 << 20);
    say(text(&long).to_string().as_bytes());
    say(text("Last.").to_string().as_bytes());
    // Its last word has no line end.
    bytes.extend_from_slice(done().to_string().as_bytes());
    claude_bytes(&env, &bytes, "say");

    let output = segue(&env, &["run", "claude", "Go"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(output.stdout, format!("First.\n{long}\nLast.\n"));
    let warning = "5 of 11 lines could not be read; they are kept in the stream";
    assert!(output.stderr.contains(warning), "{}", output.stderr);
    assert_eq!(data(&env, 1, "warning.raised")[0]["message"], warning);
    assert_eq!(show(&env, "1")["unread_lines"], 5);
    assert_eq!(status(&env), "completed");
    let stream = env.session_dir(1).unwrap().join("streams/0001-claude.jsonl");
    assert!(fs::read(stream).unwrap() == bytes, "the stream is not what was printed");
    assert_eq!(segue(&env, &["verify", "1"]).status, 0);
}

/// More than a pipe holds, and its end comes long before all of it is taken.
#[test]
fn a_flood_is_taken_to_its_last_line_after_the_program_has_ended() {
    let env = env();
    let mut lines = vec![init()];
    lines.extend((0..40_000).map(|n| text(&format!("Line {n}."))));
    lines.push(done());
    claude(&env, &lines, "say");
    let output = segue(&env, &["run", "claude", "Go"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(data(&env, 1, "text.written").len(), 40_000);
    assert_eq!(status(&env), "completed");
}

#[test]
fn a_program_that_does_not_read_its_prompt_does_not_hold_anything_up() {
    let env = env();
    env.write("prompt.md", &"A long prompt. ".repeat(50_000)).unwrap();
    crate::stand_ins::program(&env, "claude", &format!("echo '{}'", done()));
    let output = segue(&env, &["run", "claude", "--prompt-file", "prompt.md"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(status(&env), "completed");
}

#[test]
fn the_last_word_counts_and_not_the_exit_status() {
    let env = env();
    claude(&env, &[init(), text("Well done."), done()], "say; echo cleanup failed >&2; exit 7");
    let output = segue(&env, &["run", "claude", "Go"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "Well done.\n"), "{}", output.stderr);
    assert_eq!(status(&env), "completed");
    assert_eq!(data(&env, 1, "agent.exited")[0]["exit"], 7);
}

#[test]
fn an_end_without_a_last_word_is_a_crash() {
    for (script, message) in [
        ("say", "Claude Code ended with status 0 and without its last word"),
        ("say; exit 7", "Claude Code ended with status 7 and without its last word"),
        ("say; kill -KILL $$; sleep 9", "Claude Code was killed by signal 9"),
        ("say; kill -SEGV $$; sleep 9", "Claude Code was killed by signal 11"),
    ] {
        let env = env();
        let script = format!("echo first >&2; echo 'RangeError: out of luck' >&2\n{script}");
        claude(&env, &[init(), text("Half of"), piece("the wo")], &script);
        let output = segue(&env, &["run", "claude", "Go"]);
        assert_eq!(output.status, 3, "{script}: {}", output.stderr);
        assert!(output.stderr.contains(message), "{message}: {}", output.stderr);
        assert!(output.stderr.contains("hint: it said: RangeError: out of luck\n"), "{output:?}");
        assert_eq!(status(&env), "agent_crashed");
        let stop = &show(&env, "1")["stop"];
        assert_eq!(stop["message"], message);
        // What it had begun to write is not lost.
        assert_eq!(texts(&env), ["Half of", "the wo"]);
        assert_eq!(data(&env, 1, "text.written")[1]["partial"], true);
        assert_eq!(crate::support::last_words(&output), "segue resume 1");
    }
}

#[test]
fn a_silent_agent_is_ended() {
    let env = env();
    set(&env, "agents.silence", "1s");
    claude(&env, &[init(), text("I think about it.")], "say; sleep 600");
    let output = segue(&env, &["run", "claude", "Go"]);
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(status(&env), "silent");
    assert!(!lives(pid(&env, "claude.pid")));
    claude(&env, &[text("There I am."), done()], "say");
    assert_eq!(segue(&env, &["resume", "1"]).stdout, "There I am.\n");
}

#[test]
fn an_agent_whose_tool_takes_its_time_is_not_silent() {
    let env = env();
    set(&env, "agents.silence", "1s");
    let lines = [init(), calls("t1", "Bash", &json!({ "command": "make" }))];
    let rest = [returns("t1", "made"), done()].map(|line| line.to_string()).join("\n");
    claude(&env, &lines, &format!("say; sleep 3; cat <<'END'\n{rest}\nEND"));
    let output = segue(&env, &["run", "claude", "Go"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    // Its own patience has an end too.
    set(&env, "agents.tool_silence", "2s");
    claude(&env, &lines, "say; sleep 600");
    assert_eq!(segue(&env, &["resume", "1", "Again"]).status, 3);
    assert_eq!(status(&env), "silent");
    let returned = data(&env, 1, "tool.returned");
    assert_eq!(returned.last().unwrap()["status"], "interrupted");
}

#[test]
fn an_agent_that_tries_for_ever_is_ended_for_what_it_tried() {
    let retry = |word: &str, status: u32, wait: u64| {
        json!({
            "type": "system", "subtype": "api_retry",
            "error": word, "error_status": status, "retry_delay_ms": wait,
        })
    };
    for (line, reason) in [
        (retry("overloaded", 529, 1), "overloaded"),
        (retry("server_error", 500, 1), "overloaded"),
        (retry("rate_limit", 429, 1), "limit"),
        // One that is announced to be long is not waited for.
        (retry("rate_limit", 429, 3_600_000), "limit"),
    ] {
        let env = env();
        set(&env, "agents.attempts", "1");
        claude(&env, std::slice::from_ref(&line), "while :; do say; sleep 0.05; done");
        let output = segue(&env, &["run", "claude", "Go"]);
        assert_eq!(output.status, 3, "{line}: {}", output.stderr);
        assert_eq!(status(&env), reason, "{line}");
        assert!(!lives(pid(&env, "claude.pid")));
        assert_eq!(data(&env, 1, "agent.started").len(), 1);
    }
}

#[test]
fn an_agent_that_goes_round_in_circles_is_ended() {
    let env = env();
    let lines = [calls("t$n", "Bash", &json!({ "command": "ls" })), returns("t$n", "a.txt")];
    let lines = lines.map(|line| line.to_string()).join("\n");
    let script = format!(
        "n=0; while :; do n=$((n+1)); sed s/'$n'/$n/ <<'END'\n{lines}\nEND\nsleep 0.05\ndone"
    );
    claude(&env, &[], &script);
    let output = segue(&env, &["run", "claude", "Go"]);
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(status(&env), "looping");
    assert!(!lives(pid(&env, "claude.pid")));
    let calls = data(&env, 1, "tool.called").len();
    assert!((12..200).contains(&calls), "{calls} calls");
}

#[test]
fn a_program_that_stays_after_its_last_word_is_ended() {
    let env = env();
    claude(&env, &[init(), text("Done."), done()], "trap '' INT; say; while :; do sleep 600; done");
    let began = Instant::now();
    let output = segue(&env, &["run", "claude", "Go"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(status(&env), "completed");
    assert!(!lives(pid(&env, "claude.pid")));
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
}

#[test]
fn nothing_is_left_of_a_stubborn_program() {
    let env = env();
    let script = "trap '' INT TERM HUP\nsetsid sleep 600 &\necho $! > child.pid\nsay\nwhile :; do sleep 600; done";
    claude(&env, &[init(), text("I stay."), piece("and st")], script);
    let child = start(&mut command(&env, &["run", "claude", "Go"]));
    until("its text", || has(&env, 1, "text.written"));
    let (program, helper) = (pid(&env, "claude.pid"), pid(&env, "child.pid"));
    assert!(lives(program) && lives(helper));
    signal(&child, Signal::INT);
    let output: Output = finish(child);
    assert_eq!(output.status, 130, "{}", output.stderr);
    assert!(!lives(program) && !lives(helper));
    assert_eq!(status(&env), "interrupted");
    assert_eq!(texts(&env), ["I stay.", "and st"]);
}

/// What is left behind in the background has the pipe, and keeps nothing waiting.
#[test]
fn what_a_program_leaves_behind_ends_with_it() {
    let env = env();
    let script =
        "setsid sh -c 'while :; do echo still here; sleep 0.01; done' &\necho $! > child.pid\nsay";
    claude(&env, &[init(), text("Done."), done()], script);
    let output = segue(&env, &["run", "claude", "Go"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(!lives(pid(&env, "child.pid")));
    assert_eq!(status(&env), "completed");
}
