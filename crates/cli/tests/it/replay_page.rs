//! The page on replays: every example does what it says. Those who are called by their names there are
//! stood in for by commands and scripts; the real ones are called in `vendors`.

use std::{fs, path::Path};

use segue_testkit::env::{Output, TestEnv};

use crate::support::{scripted_in_git, segue, show};

/// Step 2 is an answer, turn 4 ends with step 12.
const STEPS: &str = r#"
[[reply]]
tools = [{ name = "write_file", input = { path = "a.txt", content = "one\n" } }]

[[reply]]
text = "Turn 1 is done."

[[reply]]
tools = [
    { name = "write_file", input = { path = "a.txt", content = "two\n" } },
    { name = "read_file", input = { path = "base.txt" } },
]

[[reply]]
text = "A later turn is done."
repeat = true
"#;

/// The blocks of commands, in their order.
fn blocks() -> Vec<Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/replay.md");
    let text = fs::read_to_string(page).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(|block| block.lines().map(str::to_owned).collect()).collect()
}

/// Session 7, with more steps than the page names.
fn scene() -> TestEnv {
    let (env, model) = scripted_in_git(STEPS);
    let numbers = env.home().join("numbers");
    fs::create_dir_all(&numbers).unwrap();
    for number in 1..7 {
        let gone = "gone/01M7GHH13XK50TNXR82WW3N941\n";
        fs::write(numbers.join(number.to_string()), gone).unwrap();
    }
    assert_eq!(segue(&env, &["run", "Do one", "--model", &model]).status, 0);
    for prompt in ["Do two", "Do three", "Do four", "Do five"] {
        assert_eq!(segue(&env, &["resume", "7", prompt]).status, 0);
    }
    env
}

/// The same line with those who stand in for the agents and the model.
fn stood_in(line: &str, other: &str) -> String {
    [
        ("--agents claude,codex", "--agents 'exec:echo one,exec:echo two'"),
        ("--agent codex", "--agent 'exec:echo Done.'"),
        ("--with codex", "--with 'exec:echo Done.'"),
        ("openai/gpt-5.1", other),
    ]
    .iter()
    .fold(line.to_owned(), |line, (name, instead)| line.replace(name, instead))
}

#[test]
fn every_example_does_what_it_says() {
    let segue = Path::new(env!("CARGO_BIN_EXE_segue")).parent().unwrap();
    let mut count = 0;
    for block in blocks() {
        let env = scene();
        let other = env.path("other.toml");
        fs::write(&other, "[[reply]]\ntext = \"Live.\"\nrepeat = true\n").unwrap();
        for line in block {
            let instead = stood_in(&line, &format!("script:{}", other.display()));
            let script = format!("PATH='{}':$PATH\n{instead}", segue.display());
            let output = Output::of(env.any("sh").current_dir(env.repo()).args(["-c", &script]));
            let output = output.unwrap();
            let at = format!("{line}\n{}{}", output.stdout, output.stderr);
            assert_eq!(output.status, 0, "{at}");
            said(&env, &line, &output, &at);
            count += 1;
        }
    }
    assert!(count > 17, "{count}");
}

/// What a line is there for.
fn said(env: &TestEnv, line: &str, output: &Output, at: &str) {
    let has = |flag: &str| line.contains(flag);
    if has("--inspect") || has("--dry-run") || has("--verify") {
        assert!(!output.stderr.contains("segue log"), "something was made: {at}");
    }
    if has("--compare") {
        assert!(output.stdout.contains("first difference: ") || has("--continue"), "{at}");
        assert!(output.stdout.contains("turns: "), "{at}");
    }
    if has("--save again.tine") {
        assert!(env.repo().join("again.tine").exists(), "{at}");
    }
    if has("--save again ") || has("--save by-codex") {
        let name = if has("by-codex") { "by-codex" } else { "again" };
        assert_eq!(show(env, name)["name"], name, "{at}");
    }
    if has("--stop-at-drift") {
        assert!(output.stderr.contains("everything is from the recording"), "{at}");
    }
}
