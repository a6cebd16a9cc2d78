//! Programs that stand in for a vendor's, for what the real ones can't be made to do on demand:
//! small shell scripts in front of `PATH`, and the lines that Claude Code would print.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use segue_testkit::env::{Output, TestEnv};
use serde_json::{Value, json};

use crate::support;

/// Where the stand-ins are.
pub(crate) fn bin(env: &TestEnv) -> PathBuf {
    let dir = env.path("bin");
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// A shell script that is found by this name.
pub(crate) fn program(env: &TestEnv, name: &str, script: &str) {
    let file = bin(env).join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A `claude` that reads its prompt, and then does what the script says. `say` prints the lines.
pub(crate) fn claude(env: &TestEnv, lines: &[Value], script: &str) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    claude_bytes(env, text.as_bytes(), script);
}

/// The same with any bytes.
pub(crate) fn claude_bytes(env: &TestEnv, bytes: &[u8], script: &str) {
    fs::write(bin(env).join("claude.said"), bytes).unwrap();
    let say = "say() { cat \"$0.said\"; }";
    program(env, "claude", &format!("{say}\necho $$ > claude.pid\ncat > claude.told\n{script}"));
}

/// Segue with the stand-ins in front of `PATH`, and a key for Claude.
pub(crate) fn command(env: &TestEnv, args: &[&str]) -> Command {
    let mut command = env.command(args);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = [bin(env)].into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(all).unwrap()).env("ANTHROPIC_API_KEY", "dummy");
    command
}

pub(crate) fn segue(env: &TestEnv, args: &[&str]) -> Output {
    Output::of(&mut command(env, args)).unwrap()
}

pub(crate) fn set(env: &TestEnv, key: &str, value: &str) {
    assert_eq!(segue(env, &["config", "set", key, value]).status, 0);
}

/// A session's status in one word.
pub(crate) fn status(env: &TestEnv) -> String {
    support::show(env, "1")["status"].as_str().unwrap().to_owned()
}

/// What the first session's agent said, in order.
pub(crate) fn texts(env: &TestEnv) -> Vec<String> {
    let texts = support::data(env, 1, "text.written");
    texts.iter().map(|data| data["text"]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The number in a file that a script has written its process id to.
pub(crate) fn pid(env: &TestEnv, file: &str) -> u32 {
    let path = env.repo().join(file);
    let read = || fs::read_to_string(&path).ok()?.trim().parse().ok();
    support::until(file, || read().is_some());
    read().unwrap()
}

/// Whether a process is there, and not only its exit status.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// No session has come into being.
pub(crate) fn no_session(env: &TestEnv) -> bool {
    fs::read_dir(env.home().join("numbers")).is_ok_and(|all| all.count() == 0)
        || !env.home().join("numbers").exists()
}

pub(crate) fn init() -> Value {
    json!({ "type": "system", "subtype": "init", "model": "stand-in-1", "claude_code_version": "9.9" })
}

pub(crate) fn text(text: &str) -> Value {
    json!({ "type": "assistant", "message": { "content": [{ "type": "text", "text": text }] } })
}

/// A piece of a text that comes whole later.
pub(crate) fn piece(text: &str) -> Value {
    let delta = json!({ "type": "text_delta", "text": text });
    json!({ "type": "stream_event", "event": { "type": "content_block_delta", "delta": delta } })
}

pub(crate) fn calls(id: &str, tool: &str, input: &Value) -> Value {
    let call = json!({ "type": "tool_use", "id": id, "name": tool, "input": input });
    json!({ "type": "assistant", "message": { "content": [call] } })
}

pub(crate) fn returns(id: &str, output: &str) -> Value {
    let result = json!({ "type": "tool_result", "tool_use_id": id, "content": output });
    json!({ "type": "user", "message": { "content": [result] } })
}

/// The tokens of one call of the model.
pub(crate) fn used(input: u64, output: u64) -> Value {
    let usage = json!({ "input_tokens": input, "output_tokens": output });
    json!({ "type": "stream_event", "event": { "type": "message_delta", "usage": usage } })
}

/// The program's last word: all is well.
pub(crate) fn done() -> Value {
    json!({ "type": "result", "subtype": "success", "is_error": false, "result": "Done." })
}
