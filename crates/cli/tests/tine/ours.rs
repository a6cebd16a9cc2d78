//! Sessions of ours, of every shape: written as `.tine`, verified by the real program, and taken in
//! again step by step.

use std::{fs, path::Path};

use super::{Place, document, text};

const TEXT: &str = r#"
[[reply]]
text = "All is well."
usage = { input = 900, output = 40 }
repeat = true
"#;

const TOOLS: &str = r#"
[[reply]]
thinking = "Zuerst eine Datei: ünï¢ødé 日本語 🦀 \u0007 \\ \" end."
text = "I write it."
tools = [
    { name = "write_file", input = { path = "a.txt", content = "one\n" } },
    { name = "shell", input = { command = "cat a.txt; exit 3" } },
    { name = "read_file", input = { path = "none.txt" } },
]
usage = { input = 900, output = 40 }

[[reply]]
tools = [{ name = "shell", input = { command = "seq 1 20000", timeout_secs = 30.5 } }]
usage = { input = 9000, output = 1 }

[[reply]]
text = "Done."
usage = { input = 1000, output = 20 }
repeat = true
"#;

/// Fails its proof once.
const MENDS: &str = r#"
[[reply]]
text = "Try."
usage = { input = 10, output = 1 }

[[reply]]
tools = [{ name = "write_file", input = { path = "ok", content = "" } }]
usage = { input = 10, output = 1 }

[[reply]]
text = "Now."
usage = { input = 10, output = 1 }
repeat = true
"#;

const REVIEWS: &str = r#"
[[reply]]
tools = [{ name = "submit_verdict", input = { verdict = "pass" } }]
usage = { input = 10, output = 1 }

[[reply]]
text = "I have looked."
usage = { input = 10, output = 1 }
repeat = true
"#;

impl Place {
    fn script(&self, name: &str, script: &str) -> String {
        let path = self.env.path(&format!("{name}.toml"));
        fs::write(&path, script).unwrap();
        format!("script:{}", text(&path))
    }

    /// Makes sessions. Also those that stop before their end are there.
    fn makes(&self, args: &[&str]) {
        let made = self.segue(args);
        assert!([0, 3].contains(&made.status), "{args:?}: {}", made.stderr);
    }

    /// Sessions of every shape, by number: those that the first so many commands make.
    pub(super) fn sessions(&self, commands: usize) -> u64 {
        let git = |args: &[&str]| assert_eq!(self.env.git(args).unwrap().status, 0, "{args:?}");
        git(&["init", "-q", "-b", "main"]);
        self.env.write("base.txt", "base\n").unwrap();
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "base"]);
        let (plain, tools) = (self.script("text", TEXT), self.script("tools", TOOLS));
        let (mends, reviews) = (self.script("mends", MENDS), self.script("reviews", REVIEWS));
        let exec = "exec:echo I have read it, and made x.txt; echo x > x.txt";
        let worker = format!("native@{tools}");
        let reviewer = format!("native@{reviews}");
        let all = [
            &["run", "Say it", "--model", &plain][..],
            &["run", "Ünï 日本語 🦀 \"quotes\" \\ \t tabs\nand lines", "--model", &plain],
            &["run", "Use tools", "--model", &tools],
            &["run", "Again", "--model", &tools, "--name", "named"],
            &["resume", "4", "Once more"],
            &["run", "Proven", "--model", &plain, "--proof", "true"],
            &["run", "Mended", "--model", &mends, "--proof", "ls ok"],
            &["run", "Capped", "--model", &plain, "--proof", "false", "--max-turns", "2"],
            &["run", exec, "By a program"],
            &["run", "Handed over", "--model", &plain],
            &["resume", "9", "Go on", "--with", exec],
            &["run", "Rewound", "--model", &tools],
            &["resume", "10", "Two"],
            &["rewind", "10", "--turn", "1", "Two, another way"],
            &["fork", "3", "On"],
            &["fork", "10", "--from-step", "0", "Right from the start"],
            &["replay", "3"],
            &["replay", "10", "--save", "again"],
            &["resume", "again", "And more"],
            &["pair", "Agree", "--worker", &worker, "--reviewer", &reviewer],
            &["run", "Priced", "--model", &plain, "--max-steps", "3"],
            &["run", "Read only", "--model", &tools, "--permission", "read-only"],
            &["run", "In a worktree", "--model", &tools, "--worktree"],
            &["run", &"long ".repeat(20_000), "--model", &plain],
            &["fork", "12", "A fork of a fork"],
            &["replay", "20"],
            &["run", "Left behind", "--model", &tools],
            &["resume", "22", "Two"],
            &["rewind", "22", "--turn", "1"],
        ];
        all.iter().take(commands).for_each(|args| self.makes(args));
        let numbers = fs::read_dir(self.env.home().join("numbers")).unwrap();
        numbers.count() as u64
    }
}

#[test]
fn sessions_go_there_and_back_step_by_step() {
    let Some(place) = Place::empty() else { return };
    let count = place.sessions(usize::MAX);
    assert!(count >= 20, "{count}");
    for number in 1..=count {
        let number = number.to_string();
        let out = text(&place.env.path("ours.tine"));
        place.ours(&["export", &number, "-o", &out, "--force"]);
        let verified = place.theirs(&["verify", &out]);
        assert_eq!(verified.status, 0, "{number}: {}", verified.stdout);
        let ours = place.ours(&["verify", &out]);
        let again = place.session(Path::new(&out));
        assert_eq!(place.steps(&number), place.steps(&again), "{number}");
        // What is taken in is told on as it came.
        let back = text(&place.env.path("back.tine"));
        place.ours(&["export", &again, "-o", &back, "--force"]);
        assert_eq!(place.ours(&["verify", &back])["digest"], ours["digest"], "{number}");
        // And told from its steps, it is still the same.
        place.goes_on(&again);
        let rebuilt = place.told(&again, "rebuilt.tine");
        place.ours(&["verify", &text(&rebuilt)]);
        let (mut before, mut after) = (document(Path::new(&out)), document(&rebuilt));
        for run in [&mut before, &mut after] {
            for own in ["run_id", "metadata", "refs"] {
                run.remove(own);
            }
        }
        assert_eq!(before, after, "{number}");
        let theirs = place.theirs(&["replay", &out, "--mode", "cache", "--verify"]);
        assert_eq!(theirs.status, 0, "{number}: {}{}", theirs.stdout, theirs.stderr);
    }
}
