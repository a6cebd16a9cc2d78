//! Agents that are other programs, as a person meets them: `exec:`, a stand-in for Cursor's and
//! stand-ins for Claude Code. What the real programs do is in `tests/vendors`.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Stdio};

use insta::assert_snapshot;
use segue_testkit::{
    env::{Output, TestEnv},
    kill::check,
};
use serde_json::{Value, json};

use crate::{
    stand_ins::{
        bin, calls, claude, command, done, init, lives, no_session, pid, program, returns, segue,
        status, text, texts, used,
    },
    support::{data, env, has, json, kinds, show, start, until},
};

/// Keeps what it is told, and answers with how often it was asked.
const COUNTING: &str =
    "n=$(($(ls | grep -c told) + 1))\ncat > told.$n\necho \"This is answer $n.\"";

#[test]
fn any_command_is_asked_and_what_it_prints_is_its_answer() {
    let env = env();
    program(&env, "my-agent", COUNTING);
    let output = segue(&env, &["run", "exec:my-agent", "How many \"things\"\nare there?"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "This is answer 1.\n"), "{output:?}");
    let told = |n: u32| fs::read_to_string(env.repo().join(format!("told.{n}"))).unwrap();
    assert_eq!(told(1), "How many \"things\"\nare there?");
    assert_eq!(texts(&env), ["This is answer 1."]);
    assert!(data(&env, 1, "agent.started")[0]["vendor_session"].is_null());

    // It remembers nothing, so it is told.
    let output = segue(&env, &["resume", "1", "And now?"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "This is answer 2.\n"), "{output:?}");
    let packet = told(2);
    assert!(packet.contains("Asked: How many \"things\"\nare there?"), "{packet}");
    assert!(packet.contains("The agent said: This is answer 1."), "{packet}");
    assert!(packet.contains("\n## What to do now\n\nAnd now?\n\n"), "{packet}");
    assert_eq!(data(&env, 1, "agent.started")[1]["said"]["text"], packet.as_str());
    assert_eq!(texts(&env), ["This is answer 1.", "This is answer 2."]);
}

#[test]
fn a_command_that_fails_is_a_stop_and_can_go_on() {
    let env = env();
    program(&env, "my-agent", "cat > told\necho Half.\necho no luck >&2\n[ -e ready ] || exit 4");
    let output = segue(&env, &["run", "exec:my-agent", "Go"]);
    assert_eq!((output.status, output.stdout.as_str()), (1, "Half.\n"), "{output:?}");
    assert!(output.stderr.contains("exited with 4"), "{}", output.stderr);
    assert_eq!(show(&env, "1")["stop"]["reason"], "failed");
    assert_eq!(texts(&env), ["Half."]);
    assert_eq!(data(&env, 1, "agent.exited")[0]["exit"], 4);
    assert_eq!(data(&env, 1, "agent.started").len(), 1, "asking again would not help");
    env.write("ready", "").unwrap();
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(status(&env), "completed");
    assert_eq!(data(&env, 1, "turn.started").len(), 1, "the same turn");
}

#[test]
fn a_command_that_can_not_be_held_to_a_permission_is_not_started_with_one() {
    for permission in ["read-only", "edit"] {
        let env = env();
        program(&env, "my-agent", COUNTING);
        let args = ["run", "exec:my-agent", "Go", "--permission", permission];
        let output = segue(&env, &args);
        assert_eq!(output.status, 2, "{output:?}");
        assert!(output.stderr.contains("--permission full says so"), "{}", output.stderr);
        assert!(no_session(&env) && !env.repo().join("told.1").exists());
        assert_eq!(segue(&env, &["run", "exec:my-agent", "Go", "--permission", "full"]).status, 0);
    }
}

/// Cursor's stand-in in front of `PATH`, with a script: a block for each turn.
fn with_cursor(script: &str) -> TestEnv {
    let env = env();
    let asset = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/assets/cursor-agent");
    std::os::unix::fs::symlink(asset, bin(&env).join("cursor-agent")).unwrap();
    let store = env.path("user/.cursor-stand-in");
    fs::create_dir_all(&store).unwrap();
    fs::write(store.join("script"), script).unwrap();
    env
}

#[test]
fn cursor_works_and_remembers() {
    let env = with_cursor("think Hm.\ntext I write it.\nwrite a.txt one\ntext Done.");
    let output = segue(&env, &["run", "cursor", "Write a.txt"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "I write it.\nDone.\n"), "{output:?}");
    assert_eq!(fs::read_to_string(env.repo().join("a.txt")).unwrap(), "one\n");
    let returned = data(&env, 1, "tool.returned");
    assert_eq!(
        (&returned[0]["status"], &returned[0]["touched"]),
        (&"done".into(), &json!(["a.txt"]))
    );
    // The id is the vendor's to choose, and known as soon as it is told.
    assert!(data(&env, 1, "agent.started")[0]["vendor_session"].is_null());
    let id = data(&env, 1, "agent.introduced")[0]["vendor_session"].clone();
    let kept = format!("chat-{}.json", id.as_str().unwrap());
    assert!(env.path("user/.cursor-stand-in").join(kept).exists());

    let output = segue(&env, &["resume", "1", "echo"]);
    assert_eq!(output.stdout, "[\"Write a.txt\", \"echo\"]\n", "{}", output.stderr);
    let again = &data(&env, 1, "agent.started")[1];
    assert_eq!((&again["entry"], &again["vendor_session"]), (&"resumed".into(), &id));

    let output = segue(&env, &["agents"]);
    let row = output.stdout.lines().find(|line| line.starts_with("cursor")).unwrap();
    assert!(!row.contains("not installed"), "{row}");
    let agents = json(&segue(&env, &["agents", "--json"]).stdout);
    let cursor = agents.as_array().unwrap().iter().find(|one| one["agent"] == "cursor").unwrap();
    assert_eq!((&cursor["installed"], &cursor["signed_in"]), (&true.into(), &Value::Null));
    assert_eq!(cursor["program"], bin(&env).join("cursor-agent").to_str().unwrap());
}

#[test]
fn cursor_goes_on_after_segue_was_killed() {
    let env = with_cursor(
        "text I begin.\nshell echo $$ > tool.pid; sleep 600\ntext Never.\n---\ntext I went on.",
    );
    let args = ["run", "cursor", "Take your time", "--permission", "full"];
    let mut child = start(&mut command(&env, &args));
    until("the tool", || has(&env, 1, "tool.started"));
    let tool = pid(&env, "tool.pid");
    child.kill().unwrap();
    child.wait().unwrap();
    let session = env.session_dir(1).unwrap();
    check::nothing_left(session.file_name().unwrap().to_str().unwrap()).unwrap();
    assert!(!lives(tool));
    assert_eq!(status(&env), "crashed");

    let output = segue(&env, &["resume", "1"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "I went on.\n"), "{output:?}");
    assert_eq!(texts(&env), ["I begin.", "I went on."]);
    assert_eq!(data(&env, 1, "tool.returned")[0]["status"], "may_have_run");
    let output = segue(&env, &["resume", "1", "echo"]);
    let prompts: Vec<String> =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!((prompts.len(), prompts[0].as_str()), (3, "Take your time"));
    assert!(prompts[1].contains("it may have run"), "{prompts:?}");
    assert!(prompts[1].contains("sleep 600"), "{prompts:?}");
}

#[test]
fn an_agent_that_is_not_installed_leaves_no_session() {
    let env = env();
    let output = Output::of(command(&env, &["run", "claude", "Go"]).env("PATH", bin(&env)));
    let output = output.unwrap();
    assert_snapshot!(crate::support::plain(&env, &output), @"
    status 127
    ── stdout
    ── stderr
    error: Claude Code is not installed: there is no claude in PATH
      hint: install it: npm install -g @anthropic-ai/claude-code
    ");
    assert!(no_session(&env));
    let output = segue(&env, &["run", "exec:no-such-agent --fast", "Go"]);
    assert_eq!(output.status, 127, "{output:?}");
    assert!(output.stderr.contains("no-such-agent"), "{}", output.stderr);
    assert!(no_session(&env));
}

#[test]
fn an_agent_that_is_not_signed_in_leaves_no_session() {
    let env = env();
    claude(&env, &[done()], "say");
    let output =
        Output::of(command(&env, &["run", "claude", "Go"]).env_remove("ANTHROPIC_API_KEY"));
    assert_snapshot!(crate::support::plain(&env, &output.unwrap()), @"
    status 1
    ── stdout
    ── stderr
    error: Claude Code is not signed in
      hint: claude /login
      hint: segue agents shows who is
    ");
    assert!(no_session(&env) && !env.repo().join("claude.told").exists());
    // Signed in since then: the same command works.
    assert_eq!(segue(&env, &["run", "claude", "Go"]).status, 0);
}

#[test]
fn prose_about_limits_is_prose() {
    let env = env();
    let prose = "429 rate limit exceeded, you have hit your usage limit. Please run /login.";
    let lines = [
        init(),
        text(prose),
        calls("t1", "Bash", &json!({ "command": prose })),
        returns("t1", prose),
        text(prose),
        done(),
    ];
    claude(&env, &lines, "say; echo 'Error: 429 usage limit reached' >&2; exit 1");
    let output = segue(&env, &["run", "claude", prose]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(status(&env), "completed");
    assert!(!kinds(&env, 1).iter().any(|kind| kind == "model.failed" || kind == "limit.hit"));
    assert_eq!(data(&env, 1, "agent.started").len(), 1);
}

#[test]
fn the_id_is_in_the_journal_before_the_program_runs() {
    let env = env();
    let script = r#"
        for word; do
            [ "$before" = --session-id ] && id=$word
            before=$word
        done
        known=no
        grep -q "\"kind\":\"agent.started\".*\"vendor_session\":\"$id\"" \
            "$SEGUE_HOME"/sessions/*/*/journal.jsonl && known=yes
        cat > /dev/null
        block='{"type":"text","text":"'"$id $known"'"}'
        echo '{"type":"assistant","session_id":"'"$id"'","message":{"content":['"$block"']}}'
        echo '{"type":"result","session_id":"'"$id"'","is_error":false}'
    "#;
    program(&env, "claude", script);
    let output = segue(&env, &["run", "claude", "Go"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let id = show(&env, "1")["vendors"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 36);
    assert_eq!(output.stdout, format!("{id} yes\n"));
    assert!(!has(&env, 1, "agent.introduced"), "it told nothing new");
}

#[test]
fn a_cap_on_tokens_ends_the_program() {
    let env = env();
    let lines = [init(), text("I spend."), used(900, 60), used(300, 60)];
    claude(&env, &lines, "say; sleep 600");
    let args = ["run", "claude", "Go", "--max-tokens", "1000"];
    let output = segue(&env, &args);
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(status(&env), "cap:tokens");
    assert!(!lives(pid(&env, "claude.pid")));
    assert_eq!(show(&env, "1")["tokens"], 1320);
    assert_eq!(texts(&env), ["I spend."]);
    // Below the cap nothing is ended.
    claude(&env, &[text("Cheap."), used(10, 1), done()], "say");
    let output = segue(&env, &["resume", "1", "--max-tokens", "2000"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "Cheap.\n"), "{}", output.stderr);
}

#[test]
fn a_prompt_is_for_the_agent_alone() {
    let env = env();
    let secret = "the-treasure-is-below-the-oak";
    let long = "x".repeat(200_000);
    let script = "say; echo oops >&2\ntr '\\0' ' ' < /proc/$$/cmdline > self\ntr '\\0' ' ' < /proc/$PPID/cmdline > parent";
    claude(&env, &[init(), text(&long), done()], script);
    let mut command = command(&env, &["run", "claude", "-"]);
    let mut child = start(command.stdin(Stdio::piped()));
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), secret.as_bytes()).unwrap();
    assert_eq!(crate::support::finish(child).status, 0);
    let read = |name: &str| fs::read_to_string(env.repo().join(name)).unwrap();
    assert_eq!(read("claude.told"), secret);
    for (name, sign) in [("self", "--session-id"), ("parent", "__guardian")] {
        let line = read(name);
        assert!(line.contains(sign) && !line.contains(secret), "{line}");
    }
    let command = data(&env, 1, "agent.started")[0]["command"].as_str().unwrap().to_owned();
    assert!(command.contains("--session-id") && !command.contains(secret), "{command}");

    let dir = env.session_dir(1).unwrap();
    let files = crate::support::files_below(&dir);
    let names: Vec<String> =
        files.iter().map(|file| file.strip_prefix(&dir).unwrap().display().to_string()).collect();
    for part in ["journal.jsonl", "streams/0001-claude.jsonl", "streams/0001-claude.err", "blobs/"]
    {
        assert!(names.iter().any(|name| name.starts_with(part)), "{part}: {names:?}");
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for file in &files {
        assert_eq!(mode(file), 0o600, "{}", file.display());
        let above = file.ancestors().skip(1).take_while(|above| above.starts_with(&dir));
        above.for_each(|above| assert_eq!(mode(above), 0o700, "{}", above.display()));
    }
}

#[test]
fn that_a_program_has_not_asked_for_the_tools_is_said_once() {
    let env = env();
    claude(&env, &[init(), text("Done."), done()], "say");
    for args in [["run", "claude", "Go"], ["resume", "1", "More"]] {
        assert_eq!(segue(&env, &args).status, 0);
    }
    let said = data(&env, 1, "warning.raised");
    let said = said.iter().map(|one| one["message"].as_str().unwrap());
    let of_tools =
        said.filter(|text| text.starts_with("Claude Code has not asked for Segue's tools: "));
    assert_eq!(of_tools.count(), 1);
    assert_eq!(data(&env, 1, "turn.ended").len(), 2);
}
