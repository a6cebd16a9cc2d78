//! A recorded session, done again by a vendor's program: what its model was sent is the proof.

use segue_testkit::{
    model_server::Reply,
    vendors::{Cli, Lab},
};

use std::path::PathBuf;

use serde_json::Value;

use crate::support::{asked_by, of, segue, show_of, word};

#[test]
fn claude_gets_the_recorded_context() {
    gets_the_recorded_context(Cli::Claude);
}

#[test]
fn codex_gets_the_recorded_context() {
    gets_the_recorded_context(Cli::Codex);
}

fn gets_the_recorded_context(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    let scenario = lab.scenario().reply(lab.write_file("one.txt", "text\n"));
    lab.start(scenario.reply(Reply::text("Done with alpha.").sticky()));
    let output = segue(&lab, &["run", word(cli), "Please do the first"]);
    assert_eq!(output.status, 0, "{}", output.stderr);

    lab.start(lab.scenario().reply(Reply::text("Done once more.").sticky()));
    // As the page has it: all of it in one line.
    let file = lab.segue_home().join("by.tine").display().to_string();
    let rerun = ["replay", "1", "--mode", "rerun", "--agent", word(cli), "--prompt", "Once more"];
    let output = segue(&lab, &[&rerun[..], &["--save", &file, "--compare"]].concat());
    assert_eq!(output.status, 0, "{}", output.stderr);
    for part in ["Done once more.", "B did it again: ", "first difference: "] {
        assert!(output.stdout.contains(part), "{part} is not in {}", output.stdout);
    }
    assert!(output.stderr.contains("written to "), "{}", output.stderr);
    let verified = segue(&lab, &["verify", &file]);
    assert_eq!(verified.status, 0, "{}", verified.stderr);
    let told = lab.turns()[0].texts().join("\n");
    for part in ["Please do the first", "Done with alpha.", "Once more"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let refused = segue(&lab, &["replay", "1", "--mode", "cache", "--continue"]);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("--mode rerun --agent"), "{}", refused.stderr);
}

#[test]
fn claude_forks_at_an_earlier_step_and_codex_does_it_again() {
    left_and_done_again(Cli::Claude, Cli::Codex);
}

#[test]
fn codex_forks_at_an_earlier_step_and_claude_does_it_again() {
    left_and_done_again(Cli::Codex, Cli::Claude);
}

/// Two turns, each with a file.
fn two_turns(lab: &mut Lab, cli: Cli) {
    let turns =
        [("one.txt", "Please do the first", "alpha"), ("two.txt", "Now the second", "beta")];
    for (file, prompt, word_of) in turns {
        let scenario = lab.scenario().reply(of(cli, lab.write_file(file, "text\n")));
        let said = Reply::text(format!("Done with {word_of}.")).sticky();
        lab.start(scenario.reply(of(cli, said)));
        let first = ["run", word(cli), prompt];
        let args = if file == "one.txt" { first } else { ["resume", "1", prompt] };
        let output = segue(lab, &args);
        assert_eq!(output.status, 0, "{}", output.stderr);
    }
}

/// Which of the two files a session has where it works.
fn files(lab: &Lab, number: &str) -> Vec<&'static str> {
    let at = PathBuf::from(show_of(lab, number)["workspace"].as_str().unwrap());
    assert_ne!(at, lab.work());
    ["one.txt", "two.txt"].into_iter().filter(|name| at.join(name).exists()).collect()
}

fn left_and_done_again(cli: Cli, other: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    two_turns(&mut lab, cli);
    let steps = segue(&lab, &["log", "1", "--steps", "--json"]).stdout;
    let mut steps = steps.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let end = steps.rfind(|step| step["turn"] == 1).unwrap()["index"].to_string();

    // In a copy of its own conversation, cut there, with the files of that time.
    lab.start(lab.scenario().reply(of(cli, Reply::text("Another way, then.").sticky())));
    let output = segue(&lab, &["fork", "1", "--from-step", &end, "Another way"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stderr.contains("copies its own conversation"), "{}", output.stderr);
    let told = lab.turns()[0].texts().join("\n");
    for part in ["Please do the first", "Done with alpha.", "Another way"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert!(!told.contains("Now the second") && !told.contains("beta"), "{told}");
    assert_eq!(files(&lab, "2"), ["one.txt"]);
    let id = |number: &str| show_of(&lab, number)["vendors"][0]["id"].clone();
    assert_ne!(id("1"), id("2"));

    // By somebody else, told all of it, with the files of the start; beside what was done first.
    lab.start(lab.scenario().reply(of(other, Reply::text("Done once more.").sticky())));
    let rerun = ["replay", "1", "--mode", "rerun", "--agent", word(other), "--compare"];
    let output = segue(&lab, &rerun);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let told = lab.turns()[0].texts().join("\n");
    for part in ["Please do the first", "Done with alpha.", "Now the second", "Done with beta."] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert!(files(&lab, "3").is_empty());
    let agents = format!("agents: {} | {}", word(cli), word(other));
    for line in [agents.as_str(), "turns: 2 | 1", "file < one.txt  +0 -1", "first difference: "] {
        assert!(output.stdout.contains(line), "{line} is not in {}", output.stdout);
    }
}

#[test]
fn claude_codex_and_gemini_are_compared_on_the_same_task() {
    let Some(mut lab) = Lab::open(Cli::Claude) else { return };
    two_turns(&mut lab, Cli::Claude);
    let all = [
        (Cli::Claude, "Claude is done."),
        (Cli::Codex, "Codex is done."),
        (Cli::Gemini, "Gemini is done."),
    ];
    let scenario = all.into_iter().fold(lab.scenario(), |scenario, (cli, said)| {
        scenario.reply(of(cli, Reply::text(said).sticky()))
    });
    lab.start(scenario);
    let output = segue(&lab, &["compare", "1", "--agents", "claude,codex,gemini"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    for (number, (cli, said)) in ["2", "3", "4"].into_iter().zip(all) {
        let told = asked_by(&lab, cli)[0].texts().join("\n");
        assert!(told.contains("Please do the first") && !told.contains("Done with"), "{told}");
        assert!(files(&lab, number).is_empty());
        let line = output.stdout.lines().find(|line| line.trim_start().starts_with(number));
        let line = line.unwrap_or_else(|| panic!("{number} is not in {}", output.stdout));
        assert!(line.contains(word(cli)) && line.ends_with(said), "{line}");
    }
}
