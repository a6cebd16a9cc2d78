//! A session on another machine: another home, another clone at another path, and the vendor's own
//! session where it can be carried.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use segue_testkit::{
    env::Output,
    model_server::{Reply, Scenario},
    vendors::{Cli, Lab},
};

use crate::support::{self, Live, limit, limited, of, segue, wait_for, wait_gone, word};

/// How the session gets there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Exported,
    /// The same, to where Gemini CLI knows another project of this name.
    Beside,
    Copied,
}

macro_rules! carry {
    ($($name:ident: $cli:ident, $way:ident;)*) => {
        $(#[test]
        fn $name() {
            goes_on_elsewhere(Cli::$cli, Way::$way);
        })*
    };
}

carry! {
    claude_goes_on_elsewhere_in_its_own_session: Claude, Exported;
    codex_goes_on_elsewhere_in_its_own_session: Codex, Exported;
    gemini_goes_on_elsewhere_in_its_own_session: Gemini, Exported;
    gemini_goes_on_beside_another_project_of_the_same_name: Gemini, Beside;
    claude_goes_on_from_a_plain_copy_by_packet: Claude, Copied;
    codex_goes_on_from_a_plain_copy_by_packet: Codex, Copied;
    gemini_goes_on_from_a_plain_copy_by_packet: Gemini, Copied;
}

const REMOTE: &str = "https://example.com/team/app.git";

/// The other machine.
struct There<'a> {
    lab: &'a Lab,
}

impl There<'_> {
    fn work(&self) -> PathBuf {
        self.lab.path("elsewhere/src/App 2")
    }

    fn home(&self) -> PathBuf {
        self.lab.path("elsewhere/segue")
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = support::command(self.lab, args);
        let home = self.lab.path("elsewhere/user");
        command.current_dir(self.work()).env("HOME", home).env("SEGUE_HOME", self.home());
        self.lab.run(command)
    }
}

fn git(lab: &Lab, args: &[&str]) {
    let mut command: Command = lab.command("git");
    command.args(args).current_dir(lab.path(""));
    let output = lab.run(command);
    assert_eq!(output.status, 0, "{args:?}: {}", output.stderr);
}

/// Two clones of one repository, one for each machine.
fn clone(lab: &Lab) {
    git(lab, &["-C", "work", "remote", "add", "origin", REMOTE]);
    git(lab, &["clone", "-q", "work", "elsewhere/src/App 2"]);
    git(lab, &["-C", "elsewhere/src/App 2", "remote", "set-url", "origin", REMOTE]);
}

/// Nothing of the first machine can be reached from the second. The vendors' settings are there.
fn leave(lab: &mut Lab, scenario: Scenario) {
    let gone = lab.path("gone");
    fs::create_dir(&gone).unwrap();
    for name in ["work", "user", "segue"] {
        fs::rename(lab.path(name), gone.join(name)).unwrap();
    }
    lab.start(scenario);
    fs::rename(lab.home(), lab.path("elsewhere/user")).unwrap();
}

fn export(lab: &Lab) -> String {
    let bundle = lab.path("x.segue").display().to_string();
    let output = segue(lab, &["export", "1", "-o", &bundle]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    bundle
}

fn goes_on_elsewhere(cli: Cli, way: Way) {
    let Some(mut lab) = Lab::open(cli) else { return };
    let exported = way != Way::Copied;
    clone(&lab);
    let scenario = lab.scenario().reply(lab.write_file("made.txt", "by the agent\n"));
    lab.start(scenario.reply(Reply::text("The file has a riddle.").sticky()));
    let output = segue(&lab, &["run", word(cli), "Please make a file"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let id = support::show(&lab)["vendors"][0]["id"].as_str().unwrap().to_owned();

    let session = support::session_dir(&lab);
    let below = session.strip_prefix(lab.segue_home()).unwrap().to_owned();
    let bundle = exported.then(|| export(&lab));
    if !exported {
        let copy = lab.path("elsewhere/segue").join(below);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        let mut command = lab.command("cp");
        command.arg("-a").arg(&session).arg(&copy);
        assert_eq!(lab.run(command).status, 0);
    }
    let scenario = lab.scenario().reply(Reply::text("I remember it.").sticky());
    leave(&mut lab, scenario);
    if way == Way::Beside {
        let project = lab.path("elsewhere/user/.gemini/tmp/app-2");
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join(".project_root"), "/srv/App 2").unwrap();
    }

    let there = There { lab: &lab };
    let output = match &bundle {
        Some(bundle) => {
            let output = there.run(&["import", bundle]);
            assert_eq!(output.status, 0, "{}", output.stderr);
            let own = format!("{} can go on in its own session", word(cli));
            assert!(output.stderr.contains(&own), "{}", output.stderr);
            // The files are those of the clone: what to do about them has to be said.
            there.run(&["resume", "1", "What was it about?", "--restore-files"])
        }
        None => there.run(&["resume", &id_of(&session), "What was it about?"]),
    };
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(there.work().join("made.txt").exists(), exported);
    for part in ["Please make a file", "The file has a riddle.", "What was it about?"] {
        assert!(lab.knows(part), "{part} is not in {:?}", lab.conversation());
    }
    assert_eq!(lab.knows("You take over work"), !exported, "{:?}", lab.conversation());
    let shown = there.run(&["show", &id_of(&session), "--json"]).stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["vendors"][0]["id"] == id, exported, "{shown}");
    assert_eq!(shown["turns"], 2, "the count is kept");
}

fn id_of(session: &Path) -> String {
    session.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn a_session_at_its_limit_goes_on_elsewhere_with_another_agent() {
    let (from, to) = (Cli::Claude, Cli::Codex);
    let Some(mut lab) = Lab::open(from) else { return };
    clone(&lab);
    let write = from.write_file(&lab.work().join("made.txt"), "by the agent\n");
    let write = Reply { text: "I begin with a riddle.".into(), ..write };
    lab.start(lab.scenario().reply(of(from, write)).reply(limit(from)));
    assert_eq!(limited(&lab, &["run", word(from), "Please make a file"]).status, 3);
    let bundle = export(&lab);
    let scenario = lab.scenario().reply(of(to, Reply::text("I go on.").sticky()));
    leave(&mut lab, scenario);
    let there = There { lab: &lab };
    let output = there.run(&["import", &bundle]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let output = there.run(&["resume", "1", "--with", word(to), "--restore-files"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let asked = support::asked_by(&lab, to);
    assert_eq!(lab.turns().len(), asked.len(), "only the other one");
    let told = asked[0].texts().join("\n");
    for part in ["Please make a file", "I begin with a riddle.", "made.txt"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let made = fs::read_to_string(there.work().join("made.txt")).unwrap();
    assert_eq!(made, "by the agent\n", "the files of the open turn");
}

#[test]
fn a_crashed_session_goes_on_elsewhere_in_the_vendors_own() {
    let Some(mut lab) = Lab::open(Cli::Claude) else { return };
    clone(&lab);
    let shell = lab.shell("echo a line >> README.md; echo $$ > running; sleep 300");
    lab.start(lab.scenario().reply(Reply { text: "I start the long job.".into(), ..shell }));
    let args = ["run", "claude", "--permission", "full", "Please do the long job"];
    let live = Live::start(&lab, &args);
    let running = wait_for(|| {
        fs::read_to_string(lab.work().join("running")).ok().filter(|text| text.ends_with('\n'))
    });
    wait_for(|| (!support::bodies(&lab, "tool.started").is_empty()).then_some(()));
    live.kill();
    wait_gone(running.trim().parse().unwrap());
    let bundle = export(&lab);
    let scenario = lab.scenario().reply(Reply::text("I go on.").sticky());
    leave(&mut lab, scenario);
    let there = There { lab: &lab };
    assert_eq!(there.run(&["import", &bundle]).status, 0);
    // What is open goes on also where files have to be brought back first.
    fs::write(there.work().join("README.md"), "other words\n").unwrap();
    let output = there.run(&["resume", "1", "--restore-files"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    for part in ["Please do the long job", "I start the long job.", "sleep 300"] {
        assert!(lab.knows(part), "{part} is not in {:?}", lab.conversation());
    }
    assert!(!lab.knows("You take over work"), "{:?}", lab.conversation());
    assert_eq!(fs::read_to_string(there.work().join("README.md")).unwrap(), "# Lab\n");
}

#[test]
fn a_copy_of_codex_that_is_not_whole_elsewhere_is_replaced_by_the_packet() {
    let Some(mut lab) = Lab::open(Cli::Codex) else { return };
    clone(&lab);
    let prompts = ["Please find a riddle", "Please forget it"];
    for (prompt, args) in prompts.iter().zip([["run", "codex"], ["resume", "1"]]) {
        lab.start(lab.scenario().reply(Reply::text("What has keys?").sticky()));
        assert_eq!(segue(&lab, &[&args[..], &[prompt]].concat()).status, 0);
    }
    let output = segue(&lab, &["rewind", "1", "--turn", "1", "Please find another"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let bundle = export(&lab);
    let scenario = lab.scenario().reply(Reply::text("I go on.").sticky());
    leave(&mut lab, scenario);
    let there = There { lab: &lab };
    let output = there.run(&["import", &bundle]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(!output.stderr.contains("in its own session"), "{}", output.stderr);
    let output = there.run(&["resume", "1", "And the answer?"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    for part in [prompts[0], "What has keys?", "Please find another", "And the answer?"] {
        assert!(lab.knows(part), "{part} is not in {:?}", lab.conversation());
    }
    assert!(!lab.knows(prompts[1]), "{:?}", lab.conversation());
    assert!(lab.knows("You take over work"), "{:?}", lab.conversation());
}
