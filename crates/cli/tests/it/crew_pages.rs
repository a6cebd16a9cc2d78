//! The pages on crews: every example does what it says, every `segue.toml` can be used, and every
//! command that is named is one.
//!
//! A block of commands stands under the name of its scene, as in the pages on going on.

use std::{collections::BTreeSet, ffi::OsString, fs, path::Path};

use segue_testkit::env::Output;

use crate::{crew::Lab, stand_ins, support::scripted_in_git};

const PAGES: [&str; 2] = ["crew.md", "coming-from/orchestrator.md"];

fn page(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(docs.join(name)).unwrap()
}

/// The blocks of a kind, each with the last line of text before it.
fn blocks(text: &str, kind: &str) -> Vec<(String, String)> {
    let opening = format!("```{kind}");
    let (mut found, mut before): (Vec<(String, String)>, &str) = (Vec::new(), "");
    let mut inside: Option<bool> = None;
    for line in text.lines() {
        match inside {
            None if line.starts_with("```") => {
                inside = Some(line == opening);
                if line == opening {
                    found.push((before.to_owned(), String::new()));
                }
            }
            None if !line.trim().is_empty() => before = line,
            None => {}
            Some(_) if line == "```" => inside = None,
            Some(ours) => {
                if let Some((_, block)) = found.last_mut().filter(|_| ours) {
                    block.push_str(line);
                    block.push('\n');
                }
            }
        }
    }
    found
}

/// Agents of these names, that do what they are told at once.
fn roster(lab: &Lab) {
    lab.roster(&["coder", "tester", "reviewer"].map(|id| lab.agent(id, "")).concat());
}

fn scene(name: &str) -> Lab {
    match name {
        "new" => Lab::new(),
        "at-work" => {
            let lab = Lab::new();
            roster(&lab);
            lab.segue(&["crew", "up", "--session", "auth"]);
            lab
        }
        "night" => {
            let (env, model) = scripted_in_git("[[reply]]\ntext = \"Mended.\"\nrepeat = true\n");
            let lab = Lab { env, vars: Vec::new() };
            fs::create_dir(lab.env.path("t")).unwrap();
            let agent = format!("agent = \"native\"\nmodel = \"{model}\"\n");
            lab.roster(&format!("[[agents]]\nid = \"coder\"\n{agent}"));
            lab
        }
        "converted" => with_stand_ins(),
        other => panic!("there is no scene {other}"),
    }
}

/// Claude Code and Codex are installed, and somebody is signed in.
fn with_stand_ins() -> Lab {
    let mut lab = Lab::new();
    for name in ["claude", "codex"] {
        stand_ins::program(&lab.env, name, "exit 1");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = [stand_ins::bin(&lab.env)].into_iter().chain(std::env::split_paths(&path));
    lab.vars.push(("PATH", std::env::join_paths(all).unwrap()));
    for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"] {
        lab.vars.push((key, OsString::from("dummy")));
    }
    lab
}

/// Writes a roster of a page, and the prompts that it names.
fn write(lab: &Lab, toml: &str) {
    lab.roster(toml);
    let prompts = toml.lines().filter_map(|line| line.strip_prefix("prompt = \""));
    for prompt in prompts.map(|rest| rest.trim_end_matches('"')) {
        fs::write(lab.env.repo().join(prompt), "You are {{agent}}.\n").unwrap();
    }
}

fn is_ours(before: &str) -> bool {
    !before.contains(".orchestrator/agents.toml")
}

#[test]
fn every_example_does_what_it_says() {
    let mut count = 0;
    for name in PAGES {
        let text = page(name);
        for (before, block) in blocks(&text, "console") {
            let named = before.strip_prefix("<!-- scene: ").and_then(|at| at.strip_suffix(" -->"));
            let lab = scene(named.unwrap_or_else(|| panic!("{name}: {before}")));
            if named == Some("converted") {
                let all = blocks(&text, "toml");
                let (_, after) = all.iter().rfind(|(before, _)| is_ours(before)).unwrap();
                write(&lab, after);
            }
            for line in block.lines() {
                let line = line.strip_prefix("$ ").unwrap();
                let segue = Path::new(env!("CARGO_BIN_EXE_segue")).parent().unwrap();
                let mut shell = lab.prepare(lab.env.any("sh"));
                let line_here = format!("PATH='{}':$PATH\n{line}", segue.display());
                let output = Output::of(shell.args(["-c", &line_here])).unwrap();
                let at = format!("docs/{name}: {line}");
                assert_eq!(output.status, 0, "{at}\n{}{}", output.stdout, output.stderr);
                if line.starts_with("segue crew init") {
                    roster(&lab);
                }
            }
            count += 1;
        }
    }
    assert_eq!(count, 4);
}

#[test]
fn every_roster_can_be_used() {
    let lab = with_stand_ins();
    let mut count = 0;
    for name in PAGES {
        let all = blocks(&page(name), "toml").into_iter();
        for (_, toml) in all.filter(|(before, _)| is_ours(before)) {
            write(&lab, &toml);
            let output = lab.try_segue(&["crew", "check"]);
            assert_eq!(output.status, 0, "docs/{name}:\n{toml}\n{}", output.stderr);
            count += 1;
        }
    }
    assert_eq!(count, 2);
}

#[test]
fn every_command_and_flag_that_is_named_is_one() {
    let lab = Lab::new();
    let mut named: BTreeSet<String> = BTreeSet::new();
    for name in PAGES {
        let text = page(name);
        for line in text.lines() {
            // What stands between two backticks.
            let code = line.split('`').skip(1).step_by(2);
            let ours = code.filter(|code| code.starts_with("segue ") && !code.contains('|'));
            named.extend(ours.map(str::to_owned));
        }
    }
    assert!(named.len() > 30, "{named:?}");
    for line in named {
        let words = line.replace(['[', ']'], "");
        let mut shell = lab.prepare(lab.env.any("sh"));
        let segue = env!("CARGO_BIN_EXE_segue");
        let call = words.replacen("segue", segue, 1);
        let output = Output::of(shell.args(["-c", &format!("{call} --help")])).unwrap();
        assert_eq!(output.status, 0, "{line}: {}", output.stderr);
    }
}
