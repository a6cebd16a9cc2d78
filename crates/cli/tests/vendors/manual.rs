//! Every example of the pages on going on, as it stands there, with the real agents.
//!
//! A block of commands stands under the name of its scene, which is set up before it:
//!
//! ```text
//! <!-- scene: limit -->
//! $ segue resume 7        # status 3: the comment says what is expected where that is not success
//! $ segue resume 7 …      # later: the clock has gone on by hours
//! $ segue import …        # there: in another home, from another clone
//! ```

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use segue_testkit::{
    env::Output,
    model_server::{Fault, Reply, Reset, When},
    vendors::{Cli, Lab},
};

use crate::support::{
    Live, as_subscriber, command, of, programs_below, segue, wait_for, wait_gone,
};

/// What the sessions of the scenes are called.
const NUMBER: u64 = 7;

struct Example {
    scene: String,
    commands: Vec<String>,
    line: usize,
}

/// The blocks of a page that have a scene.
fn examples(page: &str) -> Vec<Example> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let mut found: Vec<Example> = Vec::new();
    let mut scene = None;
    for (at, line) in text.lines().enumerate() {
        let named = line.strip_prefix("<!-- scene: ").and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(named) = named {
            scene = Some(named.to_owned());
        } else if line == "```console" {
            let scene = scene.take().unwrap_or_else(|| panic!("{page}:{}: no scene", at + 1));
            found.push(Example { scene, commands: Vec::new(), line: at + 1 });
        } else if let (Some(command), Some(example)) = (line.strip_prefix("$ "), found.last_mut()) {
            example.commands.push(command.to_owned());
        }
    }
    assert!(found.iter().all(|example| !example.commands.is_empty()), "{page}");
    found
}

/// Everybody answers everything.
fn done() -> Vec<Reply> {
    let agents = [Cli::Claude, Cli::Codex, Cli::Gemini];
    agents.map(|cli| of(cli, Reply::text("All is well.").sticky())).into()
}

fn serve(lab: &mut Lab, first: Vec<Reply>) {
    let replies = first.into_iter().chain(done());
    let scenario = replies.fold(lab.scenario(), |scenario, reply| scenario.reply(reply));
    lab.start(scenario);
}

/// The numbers before it are taken.
fn take_numbers(lab: &Lab) {
    let numbers = lab.segue_home().join("numbers");
    fs::create_dir_all(&numbers).unwrap();
    for number in 1..NUMBER {
        fs::write(numbers.join(number.to_string()), "gone/01M7GHH13XK50TNXR82WW3N941\n").unwrap();
    }
}

fn run_claude(lab: &Lab, prompt: &str) -> Output {
    let mut command = command(lab, &["run", "claude", prompt]);
    as_subscriber(Cli::Claude, &mut command);
    lab.run(command)
}

fn killed(lab: &Lab, prompt: &str) {
    let before = journal_lines(lab);
    let live = Live::start(lab, &["run", "claude", prompt]);
    wait_for(|| (journal_lines(lab) > before + 4).then_some(()));
    // Its program has been asked, and waits for an answer.
    let programs = programs_below(live.pid());
    live.kill();
    programs.into_iter().for_each(wait_gone);
}

/// How much is recorded in all sessions together.
fn journal_lines(lab: &Lab) -> usize {
    let mut dirs = vec![lab.segue_home()];
    let mut lines = 0;
    while let Some(dir) = dirs.pop() {
        lines += fs::read_to_string(dir.join("journal.jsonl")).map_or(0, |t| t.lines().count());
        let below = fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path());
        dirs.extend(below.filter(|path| path.is_dir()));
    }
    lines
}

/// Sets the scene.
fn set(lab: &mut Lab, scene: &str) {
    take_numbers(lab);
    match scene {
        "fresh" => serve(lab, Vec::new()),
        "limit" => {
            let reset = Some(Reset::At(jiff::Timestamp::now().as_second() + 7200));
            let limit = of(Cli::Claude, Reply::fault(Fault::UsageLimit { reset }));
            serve(lab, vec![limit]);
            assert_eq!(run_claude(lab, "Mend the parser").status, 3);
        }
        "limited-claude" => {
            let reset = Some(Reset::At(jiff::Timestamp::now().as_second() + 7200));
            let limit = Reply::fault(Fault::UsageLimit { reset }).sticky();
            serve(lab, vec![of(Cli::Claude, limit)]);
        }
        "crashed" | "carry" => {
            let slow = Reply::text("Too late.").delay(Duration::from_secs(60));
            serve(lab, vec![of(Cli::Claude, slow)]);
            killed(lab, "Mend the parser");
            serve(lab, Vec::new());
        }
        "yesterday" => {
            let slow = Reply::text("Too late.").delay(Duration::from_secs(60));
            let slow = of(Cli::Claude, slow.when(When::last_user("Another task")));
            serve(lab, vec![slow]);
            assert_eq!(run_claude(lab, "Mend the parser").status, 0);
            killed(lab, "Another task");
            serve(lab, Vec::new());
        }
        "rails" => {
            let write = |name: &str| {
                of(Cli::Claude, Cli::Claude.write_file(&lab.work().join(name), "words\n"))
            };
            let said = || of(Cli::Claude, Reply::text("It is written."));
            let replies = vec![write("one.txt"), said(), write("two.txt"), said()];
            serve(lab, replies);
            assert_eq!(run_claude(lab, "Write one").status, 0);
            assert_eq!(segue(lab, &["resume", "7", "Write two"]).status, 0);
        }
        other => panic!("there is no scene {other}"),
    }
}

/// Another clone of the repository, and another home for its sessions.
fn over_there(lab: &Lab) -> (PathBuf, PathBuf) {
    let (clone, home) = (lab.path("elsewhere/app"), lab.path("elsewhere/segue"));
    if !clone.exists() {
        let mut git = lab.command("git");
        git.args(["clone", "-q"]).arg(lab.work()).arg(&clone);
        assert_eq!(lab.run(git).status, 0);
        fs::copy(lab.work().join("work.segue"), clone.join("work.segue")).unwrap();
    }
    (clone, home)
}

fn play(page: &str, example: &Example) {
    let Some(mut lab) = Lab::open(Cli::Claude) else { return };
    set(&mut lab, &example.scene);
    let mut there = None;
    for line in &example.commands {
        let (text, comment) = line.split_once(" # ").unwrap_or((line, ""));
        let wanted: i32 = comment
            .trim()
            .strip_prefix("status ")
            .and_then(|rest| rest.split(':').next()?.parse().ok())
            .unwrap_or(0);
        let mut command = lab.command("sh");
        command.args(["-c", text]);
        let bin = PathBuf::from(env!("CARGO_BIN_EXE_segue"));
        let path = format!(
            "{}:{}",
            bin.parent().unwrap().display(),
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
                .collect::<BTreeMap<_, _>>()["PATH"]
        );
        command.env("PATH", path);
        as_subscriber(Cli::Claude, &mut command);
        if comment.starts_with("later") {
            let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(3);
            command.env("SEGUE_CLOCK", later.to_string());
        }
        if comment.starts_with("there") {
            there = Some(over_there(&lab));
        }
        if let Some((clone, home)) = &there {
            command.current_dir(clone).env("SEGUE_HOME", home);
        }
        let output = lab.run(command);
        let at = format!("docs/{page}:{}: {line}", example.line);
        assert_eq!(output.status, wanted, "{at}\n{}{}", output.stdout, output.stderr);
    }
}

macro_rules! pages {
    ($($name:ident: $page:literal, $count:literal;)*) => {
        $(mod $name {
            #[test]
            fn every_example_does_what_it_says() {
                let examples = super::examples($page);
                assert_eq!(examples.len(), $count);
                for example in &examples {
                    super::play($page, example);
                }
            }
        })*
    };
}

pages! {
    resuming: "resuming.md", 10;
    agentpair: "coming-from/agentpair.md", 1;
    agent_relay: "coming-from/agent-relay.md", 3;
}
