//! Files that somebody or something has spoiled: a clear word, the right status, nothing lost.

use std::{
    fs,
    path::{Path, PathBuf},
};

use segue_testkit::env::{Output, TestEnv};

use crate::support;

/// A session that has stopped at a cap after its first reply, and has more to do.
struct Stopped {
    env: TestEnv,
    dir: PathBuf,
}

impl Stopped {
    fn new() -> Self {
        Self::with_prompt("go")
    }

    fn with_prompt(prompt: &str) -> Self {
        let env = support::env();
        let script = "[[reply]]\ntext = \"First.\"\n\
             tools = [{ name = \"shell\", input = { command = \"echo x >> effects.log\" } }]\n\
             [[reply]]\ntext = \"Done.\"\n";
        let model = env.script(script).expect("script");
        let output =
            env.segue(["run", prompt, "--model", &model, "--max-steps", "1"]).expect("ran");
        assert_eq!(output.status, 3, "{output:?}");
        let dir = env.session_dir(1).expect("a session");
        Self { env, dir }
    }

    fn journal(&self) -> PathBuf {
        self.dir.join("journal.jsonl")
    }

    /// Runs a command that has to end with this status.
    fn segue(&self, status: i32, args: &[&str]) -> Output {
        let output = self.env.segue(args).expect("ran");
        assert_eq!(output.status, status, "{args:?}: {output:?}");
        output
    }

    /// All commands that only look.
    fn looks(&self) {
        for args in [&["list"][..], &["show", "1"], &["log", "1"], &["doctor"]] {
            self.segue(0, args);
        }
    }

    /// Goes on to the end, and says what it said.
    fn resumes(&self) -> String {
        let output = self.segue(0, &["resume", "1", "--max-steps", "9"]);
        let effects = fs::read_to_string(self.env.repo().join("effects.log")).expect("effects");
        assert_eq!(effects, "x\n", "nothing is done twice");
        self.segue(0, &["verify", "1"]);
        output.stderr
    }

    /// The files of the session whose names begin like this.
    fn kept(&self, prefix: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.dir).expect("a directory").flatten();
        let named = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        };
        entries.map(|entry| entry.path()).filter(named).collect()
    }

    /// A journal that is damaged in a line is reported, not written to, and mended when asked for.
    fn is_damaged_in(&self, line: usize, finding: &str, bridged: bool) {
        let damaged = fs::read(self.journal()).expect("a journal");
        let place = format!("line {line}");
        let said = self.segue(1, &["verify", "1"]);
        assert!(said.stdout.contains(&place) && said.stdout.contains(finding), "{said:?}");
        assert!(
            said.stderr.contains("segue verify") && said.stderr.contains("--repair"),
            "{said:?}"
        );
        let said = self.segue(1, &["resume", "1", "--max-steps", "9"]);
        assert!(said.stderr.contains(&place) && said.stderr.contains("--repair"), "{said:?}");
        assert!(said.stderr.contains("journal.jsonl"), "{said:?}");
        // What comes before it can still be read, and nobody is left in the dark.
        let said = self.segue(0, &["log", "1"]);
        assert!(said.stderr.contains(&place), "{said:?}");
        for args in [&["list"][..], &["show", "1"], &["doctor"]] {
            let said = self.segue(0, args);
            // They read no further back than the snapshot: what it bridges, only a thorough look finds.
            assert!(bridged || said.stdout.contains(&place), "{args:?}: {said:?}");
        }
        assert_eq!(
            fs::read(self.journal()).expect("a journal"),
            damaged,
            "looking changes nothing"
        );

        self.segue(0, &["verify", "1", "--repair"]);
        let kept = self.kept("journal.damaged-");
        let [kept] = kept.as_slice() else { panic!("{kept:?}") };
        assert_eq!(fs::read(kept).expect("kept"), damaged, "all of it is kept aside");
        self.segue(0, &["verify", "1"]);
        // What was done in the lost part is not in the journal any more, so it may be done again.
        self.segue(0, &["resume", "1", "--max-steps", "9"]);
        self.segue(0, &["verify", "1"]);
    }
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("text");
    text.split_inclusive('\n').map(str::to_owned).collect()
}

#[test]
fn a_deleted_line() {
    let stopped = Stopped::new();
    let mut journal = lines(&stopped.journal());
    journal.remove(4);
    fs::write(stopped.journal(), journal.concat()).expect("written");
    stopped.is_damaged_in(5, "missing", false);
}

#[test]
fn an_edited_line() {
    let stopped = Stopped::new();
    let mut journal = lines(&stopped.journal());
    let prompt = journal.iter().position(|line| line.contains("turn.started")).expect("a turn");
    journal[prompt] = journal[prompt].replace("\"go\"", "\"no\"");
    fs::write(stopped.journal(), journal.concat()).expect("written");
    stopped.is_damaged_in(prompt + 1, "damaged", true);
}

#[test]
fn a_journal_that_was_cut_short() {
    let stopped = Stopped::new();
    let mut journal = lines(&stopped.journal());
    journal.truncate(6);
    fs::write(stopped.journal(), journal.concat()).expect("written");
    stopped.is_damaged_in(7, "cut short", false);
}

#[test]
fn an_unfinished_last_line() {
    let stopped = Stopped::new();
    let torn = b"{\"v\":1,\"seq\":99,\"at\":\"2026-11";
    let mut journal = fs::read(stopped.journal()).expect("a journal");
    journal.extend_from_slice(torn);
    fs::write(stopped.journal(), journal).expect("written");
    stopped.looks();
    let said = stopped.segue(0, &["verify", "1"]);
    assert!(said.stdout.contains("unfinished"), "{said:?}");
    let said = stopped.resumes();
    assert!(said.contains("journal.torn-"), "{said}");
    let kept = stopped.kept("journal.torn-");
    let [kept] = kept.as_slice() else { panic!("{kept:?}") };
    assert_eq!(fs::read(kept).expect("kept"), torn);
    let journal = fs::read_to_string(stopped.journal()).expect("a journal");
    assert!(journal.contains("\"journal.repaired\""));
}

#[test]
fn a_broken_identity() {
    for garbage in ["", "{", "not json at all", "{\"v\":1}"] {
        let stopped = Stopped::new();
        fs::write(stopped.dir.join("session.json"), garbage).expect("written");
        stopped.looks();
        let said = stopped.segue(0, &["verify", "1"]);
        assert!(said.stdout.contains("session.json"), "{said:?}");
        let said = stopped.resumes();
        assert!(said.contains("session.json"), "{said}");
        let kept = fs::read_to_string(stopped.dir.join("session.json.broken")).expect("kept");
        assert_eq!(kept, garbage);
    }
    let stopped = Stopped::new();
    fs::remove_file(stopped.dir.join("session.json")).expect("removed");
    stopped.looks();
    stopped.resumes();
    assert!(stopped.dir.join("session.json").exists());
}

#[test]
fn a_broken_snapshot() {
    let stopped = Stopped::new();
    let snapshot = stopped.dir.join("state.json");
    let whole = fs::read_to_string(&snapshot).expect("a snapshot");
    let broken =
        [String::new(), "{}".to_owned(), whole.replace("go", "no"), whole[..50].to_owned()];
    for text in broken {
        fs::write(&snapshot, text).expect("written");
        stopped.looks();
        stopped.segue(0, &["verify", "1"]);
    }
    stopped.resumes();
}

#[test]
fn a_missing_blob() {
    let stopped = Stopped::with_prompt(&"a long story ".repeat(1000));
    let blobs = stopped.dir.join("blobs");
    let aside = stopped.dir.join("blobs.aside");
    fs::rename(&blobs, &aside).expect("moved");
    for args in [&["list"][..], &["show", "1"], &["log", "1"]] {
        stopped.segue(0, args);
    }
    let said = stopped.segue(1, &["verify", "1"]);
    assert!(said.stdout.contains("is missing"), "{said:?}");
    let said = stopped.segue(1, &["resume", "1", "--max-steps", "9"]);
    assert!(said.stderr.contains("is missing") && said.stderr.contains("hint"), "{said:?}");
    // When it is found again, all is well.
    fs::rename(&aside, &blobs).expect("moved back");
    stopped.resumes();
}

#[test]
fn a_number_that_leads_nowhere() {
    for garbage in ["", "what?\n", "../../etc/passwd\n", "nowhere/01ARZ3NDEKTSV4RRFFQ69G5FAV\n"] {
        let stopped = Stopped::new();
        let number = stopped.env.home().join("numbers/1");
        fs::write(&number, garbage).expect("written");
        let said = stopped.segue(0, &["list", "--json"]);
        let rows: serde_json::Value = serde_json::from_str(&said.stdout).expect("rows");
        let said = stopped.segue(4, &["show", "1"]);
        assert!(said.stderr.contains("segue list"), "{said:?}");
        assert_eq!(rows[0]["number"], 2, "it is found all the same, under a new number: {rows}");
        assert_eq!(fs::read_to_string(&number).expect("kept"), garbage);
        stopped.segue(0, &["resume", "2", "--max-steps", "9"]);
    }
}

#[test]
fn an_index_that_is_broken_foreign_or_stale() {
    let stopped = Stopped::new();
    let index = stopped.env.home().join("index.db");
    stopped.segue(0, &["list"]);
    let stale = fs::read(&index).expect("an index");
    let other = Stopped::with_prompt("something else");
    other.segue(0, &["list"]);
    let foreign = fs::read(other.env.home().join("index.db")).expect("an index");
    let mut damaged = stale.clone();
    damaged[100..].fill(0x55);
    let expected = stopped.segue(0, &["list"]).stdout;
    for spoiled in [Vec::new(), b"not a database".to_vec(), damaged, foreign, stale[..700].to_vec()]
    {
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(stopped.env.home().join(format!("index.db{suffix}")));
        }
        fs::write(&index, spoiled).expect("written");
        assert_eq!(stopped.segue(0, &["list"]).stdout, expected);
        stopped.looks();
    }
    stopped.resumes();
    // Of before the resume: the journal says otherwise.
    fs::write(&index, stale).expect("written");
    let said = stopped.segue(0, &["list", "--json"]);
    assert!(said.stdout.contains("\"completed\""), "{said:?}");
}

#[test]
fn what_a_killed_creation_left() {
    let stopped = Stopped::new();
    let repo = stopped.dir.parent().expect("a directory");
    let left = repo.join(".01ARZ3NDEKTSV4RRFFQ69G5FAV.new");
    fs::create_dir(&left).expect("made");
    fs::write(left.join("session.json"), "{").expect("written");
    stopped.looks();
    let said = stopped.segue(0, &["list", "--json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&said.stdout).expect("rows");
    assert_eq!(rows.len(), 1);
    stopped.resumes();
    assert!(left.join("session.json").exists(), "what is not understood is left alone");
}
