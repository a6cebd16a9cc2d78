//! Every example of the pages on going on, as it stands there, with the real agents.
//!
//! A block of commands stands under the name of its scene, which is set up before it:
//!
//! ```text
//! <!-- scene: limit -->
//! $ segue resume 7        # status 3: the comment says what is expected where that is not success
//! $ segue pair …          # status 130: Ctrl-C, once the worker is at its second attempt
//! $ segue resume 7 …      # later: the clock has gone on by hours
//! $ segue import …        # there: in another home, from another clone
//! ```
//!
//! Where the page shows what one of them prints, that stands below, under `<!-- printed: segue … -->`.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command, time::Duration};

use segue_testkit::{
    env::Output,
    model_server::{Fault, Reply, Reset, When},
    vendors::{Cli, Lab},
};

use crate::support::{
    Live, as_subscriber, asked_by, command, of, programs_below, segue, wait_for, wait_gone,
};

/// What the sessions of the scenes are called.
const NUMBER: u64 = 7;

struct Example {
    scene: String,
    commands: Vec<String>,
    line: usize,
    /// What a command prints, where the page shows it.
    printed: Vec<(String, String)>,
}

/// The blocks of a page that have a scene.
fn examples(page: &str) -> Vec<Example> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let mut found: Vec<Example> = Vec::new();
    let mut scene = None;
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let told = |what: &str| line.strip_prefix(what).and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(named) = told("<!-- scene: ") {
            scene = Some(named.to_owned());
        } else if let Some(command) = told("<!-- printed: ") {
            let block = lines.by_ref().map(|(_, line)| line).skip_while(|line| *line != "```text");
            let block = block.skip(1).take_while(|line| *line != "```");
            let text = block.map(|line| format!("{line}\n")).collect();
            let example = found.last_mut().unwrap_or_else(|| panic!("{page}:{}", at + 1));
            let known = example.commands.iter().any(|line| without_comment(line) == command);
            assert!(known, "{page}:{}: no line above prints that", at + 1);
            example.printed.push((command.to_owned(), text));
        } else if line == "```console" {
            let scene = scene.take().unwrap_or_else(|| panic!("{page}:{}: no scene", at + 1));
            found.push(Example { scene, commands: Vec::new(), line: at + 1, printed: Vec::new() });
        } else if let (Some(command), Some(example)) = (line.strip_prefix("$ "), found.last_mut()) {
            example.commands.push(command.to_owned());
        }
    }
    assert!(found.iter().all(|example| !example.commands.is_empty()), "{page}");
    found
}

fn without_comment(line: &str) -> &str {
    line.split_once(" # ").map_or(line, |(text, _)| text).trim_end()
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

const PASS: &str = "It is right.\n\n```segue\n{\"verdict\":\"pass\"}\n```";

const FAIL: &str = "Not yet.\n\n```segue\n{\"verdict\":\"fail\",\"category\":\"tests\",\
    \"concern\":\"There is no test\",\"evidence\":\"the diff\",\"next_step\":\"Write one\"}\n```";

/// What an agent says to a reviewer's question.
fn verdict(cli: Cli, text: &str) -> Reply {
    of(cli, Reply::text(text).when(When::body("You review the work of another agent")))
}

/// What an agent says once it has written something.
fn written(cli: Cli) -> Reply {
    of(cli, Reply::text("It is written.\nDONE").when(When::last_tool("")).sticky())
}

/// In every turn another file, by either agent; as reviewers they let everything pass.
fn diligent(lab: &Lab) -> Vec<Reply> {
    let agents = [Cli::Claude, Cli::Codex];
    let mut replies: Vec<Reply> = agents.map(|cli| verdict(cli, PASS).sticky()).into();
    replies.extend(agents.map(written));
    for n in 0..8 {
        // Codex knows where it is, which may be a worktree.
        replies.push(of(Cli::Codex, Cli::Codex.write_file(&PathBuf::from(format!("x{n}")), "x\n")));
        let path = lab.work().join(format!("c{n}"));
        replies.push(of(Cli::Claude, Cli::Claude.write_file(&path, "c\n")));
    }
    replies
}

/// Codex writes, Claude objects, Codex takes a long time; when it is asked again, all goes well.
fn long_task() -> Vec<Reply> {
    let write = |name: &str| of(Cli::Codex, Cli::Codex.write_file(&PathBuf::from(name), "x\n"));
    let slow = of(Cli::Codex, Reply::text("Too late.").delay(Duration::from_secs(60)));
    let verdicts = [verdict(Cli::Claude, FAIL), verdict(Cli::Claude, PASS).sticky()];
    let work = [written(Cli::Codex), write("one"), slow, write("two")];
    verdicts.into_iter().chain(work).collect()
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
        "pair" => serve(lab, diligent(lab)),
        "long-task" => serve(lab, long_task()),
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

/// The server of tmux that the lines of a page may have started; it goes with the scene.
struct Tmux<'a>(&'a Lab);

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        let mut end = in_shell(self.0, "tmux kill-server 2> /dev/null");
        end.status().ok();
    }
}

/// A line of a page as a command, with a server of tmux of the lab's own.
fn in_shell(lab: &Lab, text: &str) -> Command {
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
    command.env("PATH", path).env("TMUX_TMPDIR", lab.path("tmp"));
    as_subscriber(Cli::Claude, &mut command);
    command
}

/// Ctrl-C, once the worker has been asked for its second attempt.
fn interrupted(lab: &Lab, command: Command) -> Output {
    let live = Live::of(command);
    // The first attempt takes two: to write, and to say so.
    wait_for(|| (asked_by(lab, Cli::Codex).len() > 2).then_some(()));
    live.interrupt();
    live.end()
}

fn play(page: &str, example: &Example) {
    let Some(mut lab) = Lab::open(Cli::Claude) else { return };
    set(&mut lab, &example.scene);
    let _tmux = Tmux(&lab);
    let mut there = None;
    for line in &example.commands {
        let (text, comment) = line.split_once(" # ").unwrap_or((line, ""));
        let wanted: i32 = comment
            .trim()
            .strip_prefix("status ")
            .and_then(|rest| rest.split(':').next()?.parse().ok())
            .unwrap_or(0);
        let is_interrupted = comment.contains("Ctrl-C");
        let text = if is_interrupted { format!("exec {text}") } else { text.to_owned() };
        let mut command = in_shell(&lab, &text);
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
        let output = if is_interrupted { interrupted(&lab, command) } else { lab.run(command) };
        let at = format!("docs/{page}:{}: {line}", example.line);
        assert_eq!(output.status, wanted, "{at}\n{}{}", output.stdout, output.stderr);
        let shown = example.printed.iter().find(|(one, _)| one == without_comment(line));
        if let Some((_, text)) = shown {
            assert_eq!(output.stdout, *text, "{at}");
        }
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
    agentpair: "coming-from/agentpair.md", 5;
    agent_relay: "coming-from/agent-relay.md", 3;
}
