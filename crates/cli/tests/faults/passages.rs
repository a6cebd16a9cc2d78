//! SIGKILL at system calls of what leads from one place to another: a hand-off, a rewind, an export,
//! an import, a fork, a replay, a comparison and taking over what it made. Whatever was reached, the next command goes on from it, and nothing is lost.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use segue_testkit::{
    env::{Output, TestEnv},
    kill::{Broken, Running, check},
};

use crate::{
    strace::{Point, points_of},
    support::{self, can, kill_at_each, replace_dir, works},
};

pub(crate) const WORKERS: usize = 2;

/// So many calls of each passage are hit, spread over all of them.
const POINTS: usize = 90;

/// So many of a hundred have to be reached.
const REACHED: usize = 80;

/// The same for exports, imports and replays, whose calls come in another order each time.
const FEWER: usize = 60;

const SCRIPT: &str = r#"
[[reply]]
tools = [{ name = "write_file", input = { path = "a.txt", content = "one\n" } }]
[[reply]]
limit = { secs = 7200, file = "busy" }
text = "Turn 1 is done."
[[reply]]
tools = [{ name = "shell", input = { command = "echo two > a.txt; rm base.txt; echo x > b.txt" } }]
[[reply]]
text = "Turn 2 is done."
repeat = true
"#;

/// One command, from a state that can be made again and again, and what has to hold after it.
pub(crate) struct Passage {
    pub(crate) env: TestEnv,
    pub(crate) args: Vec<String>,
    cwd: PathBuf,
    home: PathBuf,
    places: Vec<PathBuf>,
    after: fn(&Passage) -> Result<(), Broken>,
    /// The index of the user's repository as it was.
    index: Vec<u8>,
    files: BTreeMap<String, String>,
    /// How many calls are hit.
    most: usize,
    /// How many of a hundred have to be reached.
    reached: usize,
    /// How many work trees there are in the end.
    pub(crate) trees: usize,
}

impl Passage {
    pub(crate) fn new(args: &[&str], after: fn(&Passage) -> Result<(), Broken>) -> Self {
        let env = support::env();
        let (cwd, home) = (env.repo(), env.home());
        let model = env.script(SCRIPT).expect("script");
        for args in [&["init", "-q", "-b", "main"][..], &["add", "."], &["commit", "-qm", "base"]] {
            if args[0] == "add" {
                env.write("base.txt", "base\n").expect("written");
            }
            assert_eq!(env.git(args).expect("git").status, 0);
        }
        fs::create_dir_all(&home).expect("home");
        let args = args.iter().map(|word| word.replace("MODEL", &model)).collect();
        let (places, index, files) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (most, reached, trees) = (POINTS, REACHED, 1);
        Self { env, args, cwd, home, places, after, index, files, most, reached, trees }
    }

    pub(crate) fn prepared(mut self, places: &[&str]) -> Self {
        self.places = places.iter().map(|name| self.env.path(name)).collect();
        self.index = fs::read(self.env.repo().join(".git/index")).expect("an index");
        self.files = files(&self.env.repo());
        for place in self.places.iter().filter(|place| place.exists()) {
            replace_dir(place, &kept(place)).expect("kept");
        }
        self
    }

    pub(crate) fn again(&self) -> Result<(), Broken> {
        for place in &self.places {
            match kept(place).exists() {
                true => replace_dir(&kept(place), place)?,
                false if place.exists() => fs::remove_dir_all(place)?,
                false => {}
            }
        }
        // A number that was taken by a process that was killed is not given again.
        for number in 2..6 {
            let tree = self.env.path(&format!("repo-segue-{number}"));
            if !self.places.contains(&tree) {
                let _ = fs::remove_dir_all(tree);
            }
        }
        let _ = fs::remove_file(self.env.path("x.segue"));
        Ok(())
    }

    pub(crate) fn settle(&self, mut command: Command) -> Command {
        command.current_dir(&self.cwd).env("SEGUE_HOME", &self.home);
        command
    }

    pub(crate) fn segue(&self, args: &[&str]) -> Result<Output, Broken> {
        Ok(Output::of(&mut self.settle(self.env.command(args)))?)
    }

    /// The same, where it has to succeed.
    pub(crate) fn well(&self, args: &[&str]) -> Result<Output, Broken> {
        let output = self.segue(args)?;
        match output.status {
            0 => Ok(output),
            status => Err(Broken::new(format!("{args:?}: status {status}: {}", output.stderr))),
        }
    }

    pub(crate) fn git(&self, args: &[&str]) -> Result<String, Broken> {
        let output = Output::of(self.env.any("git").current_dir(&self.cwd).args(args))?;
        match output.status {
            0 => Ok(output.stdout),
            _ => Err(Broken::new(format!("git {args:?}: {}", output.stderr))),
        }
    }

    pub(crate) fn strace(&self, options: &[&str]) -> Result<(Running, i32), Broken> {
        self.again()?;
        let mut command = self.settle(self.env.any("strace"));
        command.args(["-f", "-qq", "-b", "execve"]).args(options);
        command.arg(support::PROGRAM).args(&self.args);
        let mut running = Running::start(&self.env, command)?;
        let status = running.wait()?;
        Ok((running, status))
    }

    fn points(&self) -> Vec<Point> {
        let trace = self.env.path("trace");
        let place = trace.to_string_lossy().into_owned();
        let (running, status) = self.strace(&["-y", "-o", &place]).expect("traced");
        assert_eq!(status, 0, "{}", running.stderr());
        let text = fs::read(&trace).expect("trace");
        let all = points_of(&String::from_utf8_lossy(&text));
        // All of them take minutes.
        let every = std::env::var_os("SEGUE_EVERY_CALL").is_some();
        let step = if every { 1 } else { all.len().div_ceil(self.most).max(1) };
        all.into_iter().step_by(step).collect()
    }

    fn kill_at(&self, point: &Point) -> Result<bool, Broken> {
        let Point { call, nth } = point;
        let trace = format!("trace={call}");
        let inject = format!("inject={call}:signal=KILL:when={nth}");
        let options = ["-o", "/dev/null", "-e", &trace, "-e", &inject];
        let (running, status) = self.strace(&options)?;
        // 1: a git that was about to be started was hit instead, and it was said.
        if !matches!(status, 0 | 1 | 137) {
            return Err(Broken::new(format!("status {status}: {}", running.stderr())));
        }
        self.checked()?;
        Ok(status == 137)
    }

    /// Whatever was reached, everything that has to hold after it does.
    pub(crate) fn checked(&self) -> Result<(), Broken> {
        if let Ok(Some(dir)) = check::only_session(&self.env) {
            check::nothing_left(&dir.file_name().unwrap_or_default().to_string_lossy())?;
        }
        (self.after)(self)?;
        // Nothing of the user's was touched, and every session reads from end to end.
        if fs::read(self.env.repo().join(".git/index"))? != self.index {
            return Err(Broken::new("the user's index was changed"));
        }
        self.well(&["verify", "--all"])?;
        self.git(&["fsck", "--connectivity-only"])?;
        let trees = self.git(&["worktree", "list"])?;
        match trees.lines().count() {
            count if count == self.trees => Ok(()),
            _ => Err(Broken::new(format!("a stray worktree: {trees}"))),
        }
    }
}

fn kept(place: &Path) -> PathBuf {
    place.with_extension("start")
}

/// The files of a workspace, at its top.
fn files(dir: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let all = entries.filter(|entry| entry.path().is_file()).map(|entry| {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        (entry.file_name().to_string_lossy().into_owned(), text)
    });
    all.collect()
}

fn names(dir: &Path) -> Vec<String> {
    files(dir).into_keys().collect()
}

pub(crate) fn wanted<T: PartialEq + std::fmt::Debug>(
    what: &str,
    is: &T,
    should: &T,
) -> Result<(), Broken> {
    match is == should {
        true => Ok(()),
        false => Err(Broken::new(format!("{what}: {is:?}, not {should:?}"))),
    }
}

fn every_point(name: &str, passage: fn() -> Passage) {
    if !can(name, "strace is missing", works("strace", &["-V"])) {
        return;
    }
    let passages: Vec<Passage> = (0..WORKERS).map(|_| passage()).collect();
    let points = passages[0].points();
    let missed = kill_at_each(name, &passages, &points, Passage::kill_at);
    let hit = points.len() - missed.len();
    let enough = hit * 100 >= passages[0].reached * points.len();
    assert!(enough, "{name}: {hit} of {}, never reached: {}", points.len(), missed.join(", "));
}

#[test]
fn a_hand_off_can_be_killed_anywhere() {
    every_point("a_hand_off_can_be_killed_anywhere", || {
        let other = "exec:cat > told.txt; echo The other did it.";
        let args = ["run", "Do it", "--model", "MODEL", "--fallback", other, "--json"];
        let passage = Passage::new(&args, after_hand_off);
        fs::write(passage.env.path("busy"), "").expect("busy");
        passage.prepared(&["repo", "home"])
    });
}

fn after_hand_off(passage: &Passage) -> Result<(), Broken> {
    let output = match check::only_session(&passage.env)? {
        None => {
            let args: Vec<&str> = passage.args.iter().map(String::as_str).collect();
            passage.well(&args)?
        }
        Some(dir) => {
            let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            passage.well(&["resume", &id])?
        }
    };
    let told = fs::read_to_string(passage.env.repo().join("told.txt"))?;
    // A call that was cut short is not repeated unasked: the one that goes on is told of it.
    let done = told.contains("write_file was done, wrote a.txt");
    if !done && !told.contains("write_file may have run") {
        return Err(Broken::new(format!("it was told: {told}")).at(&output.stderr));
    }
    let mut all = names(&passage.env.repo());
    all.retain(|name| done || name != "a.txt");
    let should =
        ["a.txt", "base.txt", "told.txt"].into_iter().filter(|name| done || *name != "a.txt");
    wanted("files", &all, &should.map(str::to_owned).collect())
}

fn two_turns(passage: &Passage) {
    let args = [
        "run",
        "Do one",
        "--model",
        &format!("script:{}", passage.env.path("script.toml").display()),
    ];
    assert_eq!(passage.env.segue(args).expect("run").status, 0);
    assert_eq!(passage.env.segue(["resume", "1", "Do two"]).expect("resume").status, 0);
    passage.env.write("mine.txt", "only here\n").expect("written");
}

#[test]
fn a_rewind_can_be_killed_anywhere_and_taken_back() {
    every_point("a_rewind_can_be_killed_anywhere_and_taken_back", || {
        let passage = Passage::new(&["rewind", "1", "--turn", "1"], after_rewind);
        two_turns(&passage);
        passage.prepared(&["repo", "home"])
    });
}

fn after_rewind(passage: &Passage) -> Result<(), Broken> {
    let repo = passage.env.repo();
    let begun = passage
        .env
        .journal(1)
        .is_ok_and(|all| all.iter().any(|event| event["kind"] == "rewind.started"));
    let text = fs::read_to_string(passage.env.session_dir(1)?.join("journal.jsonl"))?;
    let begun = begun || text.contains("\"rewind.started\"");
    let undone = passage.segue(&["rewind", "1", "--undo"])?;
    // A torn line was never reported, so both may be.
    if undone.status != 0 && !(undone.status == 2 && undone.stderr.contains("no rewind to take")) {
        return Err(Broken::new(format!("--undo: begun {begun}: {}", undone.stderr)));
    }
    wanted("after --undo", &files(&repo), &passage.files)?;
    passage.well(&["rewind", "1", "--turn", "1"])?;
    wanted("after the rewind", &names(&repo), &["a.txt", "base.txt"].map(str::to_owned).into())?;
    passage.well(&["rewind", "1", "--undo"])?;
    wanted("after its undoing", &files(&repo), &passage.files)
}

#[test]
fn a_rewind_that_was_killed_is_finished_by_the_next_one() {
    every_point("a_rewind_that_was_killed_is_finished_by_the_next_one", || {
        let passage = Passage::new(&["rewind", "1", "--turn", "1"], after_rewind_again);
        two_turns(&passage);
        passage.prepared(&["repo", "home"])
    });
}

fn after_rewind_again(passage: &Passage) -> Result<(), Broken> {
    let repo = passage.env.repo();
    // Whatever was reached, what was only there is there or kept.
    let refs = passage.git(&["for-each-ref", "--format=%(refname)", "refs/segue"])?;
    let is_kept = refs.lines().filter(|name| name.contains("/before-")).any(|name| {
        passage.git(&["show", &format!("{name}:mine.txt")]).is_ok_and(|text| text == "only here\n")
    });
    if !is_kept && !repo.join("mine.txt").exists() {
        return Err(Broken::new("mine.txt is lost"));
    }
    passage.well(&["resume", "1", "Another way", "--turn", "1"])?;
    let refs = passage.git(&["for-each-ref", "--format=%(refname)", "refs/segue"])?;
    let is_kept = refs.lines().filter(|name| name.contains("/before-")).any(|name| {
        passage.git(&["show", &format!("{name}:mine.txt")]).is_ok_and(|text| text == "only here\n")
    });
    wanted("kept", &is_kept, &true)?;
    wanted("files", &names(&repo), &["a.txt", "b.txt"].map(str::to_owned).into())
}

/// A worker that sends a message and mends what is said of it, and two reviewers. What the first has
/// submitted counts, whatever it says afterwards; killed between the two, it says the same in the
/// next round.
const PAIR: [(&str, &str); 3] = [
    (
        "worker",
        r#"
[[reply]]
tools = [{ name = "write_file", input = { path = "a.txt", content = "one\n" } }]
[[reply]]
text = "Turn 1 is done."
[[reply]]
tools = [
    { name = "write_file", input = { path = "a.txt", content = "two\n" } },
    { name = "send_to_agent", input = { to = "native-2", message = "It is two now." } },
]
[[reply]]
text = "Turn 2 is done."
repeat = true
"#,
    ),
    (
        "first",
        r#"
[[reply]]
tools = [{ name = "submit_verdict", input = { verdict = "fail", category = "x", concern = "it is one", evidence = "a.txt:1", next_step = "make it two" } }]
[[reply]]
text = "```segue\n{\"verdict\":\"pass\"}\n```"
repeat = true
"#,
    ),
    (
        "second",
        r#"
[[reply]]
text = "```segue\n{\"verdict\":\"pass\"}\n```"
repeat = true
"#,
    ),
];

#[test]
fn a_pair_can_be_killed_anywhere() {
    every_point("a_pair_can_be_killed_anywhere", || {
        let mut args: Vec<String> =
            ["pair", "Do it", "--proof", "grep -c . a.txt", "--json"].map(str::to_owned).into();
        let mut passage = Passage::new(&[], after_pair);
        for ((name, script), flag) in PAIR.iter().zip(["--worker", "--reviewer", "--reviewer"]) {
            let path = passage.env.path(&format!("{name}.toml"));
            fs::write(&path, script).expect("script");
            args.extend([flag.to_owned(), format!("native@script:{}", path.display())]);
        }
        passage.args = args;
        passage.prepared(&["repo", "home"])
    });
}

/// Whatever was reached, the rest follows: each is asked once in each round, each verdict counts
/// once, the message arrives once.
fn after_pair(passage: &Passage) -> Result<(), Broken> {
    let dir = match check::only_session(&passage.env)? {
        None => {
            let args: Vec<&str> = passage.args.iter().map(String::as_str).collect();
            passage.well(&args)?;
            check::only_session(&passage.env)?
        }
        Some(dir) => {
            let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            passage.well(&["resume", &id])?;
            Some(dir)
        }
    };
    let dir = dir.ok_or_else(|| Broken::new("there is no session"))?;
    let events = |dir: &Path, kind: &str| -> Result<Vec<serde_json::Value>, Broken> {
        let text = fs::read_to_string(dir.join("journal.jsonl"))?;
        let all = text.lines().map(serde_json::from_str::<serde_json::Value>);
        let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|e| Broken::new(e.to_string()))?;
        Ok(all.into_iter().filter(|event| event["kind"] == kind).collect())
    };
    let given = events(&dir, "verdict.given")?;
    let mut given: Vec<String> = given
        .iter()
        .map(|one| {
            let said = &one["data"];
            format!("{} {} {}", said["iteration"], said["reviewer"], said["verdict"])
        })
        .collect();
    given.sort_unstable();
    given.dedup();
    wanted("verdicts", &given.len(), &4)?;
    let mut asked = Vec::new();
    for name in ["native-2", "native-3"] {
        let turns = events(&dir.join("reviewers").join(name), "turn.started")?;
        let ids = turns.iter().map(|turn| turn["id"].to_string());
        asked.push(ids.collect::<Vec<_>>());
    }
    wanted("the questions to the second", &asked[1], &asked[0])?;
    // A write that was cut short is not repeated unasked: then the proof fails first, and the turns
    // that are reviewed are later ones.
    let early = vec!["\"review-1\"".to_owned(), "\"review-2\"".to_owned()];
    let late = vec!["\"review-2\"".to_owned(), "\"review-3\"".to_owned()];
    if asked[0] != early && asked[0] != late {
        return Err(Broken::new(format!("asked: {asked:?}")));
    }
    let (sent, got) = (events(&dir, "message.sent")?, events(&dir, "message.delivered")?);
    // The call that sends it may have been cut short, too.
    if sent.len() > 1 || got.len() != sent.len() {
        return Err(Broken::new(format!("{} messages, {} delivered", sent.len(), got.len())));
    }
    Ok(())
}

#[test]
fn an_export_can_be_killed_anywhere() {
    every_point("an_export_can_be_killed_anywhere", || {
        let mut passage = Passage::new(&["export", "1", "-o"], after_export);
        let file = passage.env.path("x.segue").display().to_string();
        passage.args.push(file);
        passage.reached = FEWER;
        two_turns(&passage);
        passage.prepared(&["repo", "home"])
    });
}

fn after_export(passage: &Passage) -> Result<(), Broken> {
    let file = passage.env.path("x.segue").display().to_string();
    // A file that is there is whole.
    let again = passage.segue(&["export", "1", "-o", &file])?;
    match again.status {
        0 => {}
        2 if again.stderr.contains("is there already") => {}
        status => return Err(Broken::new(format!("again: status {status}: {}", again.stderr))),
    }
    wanted("files", &files(&passage.env.repo()), &passage.files)?;
    let home = passage.env.path("home.other");
    let _ = fs::remove_dir_all(&home);
    let mut command = passage.settle(passage.env.command(["import", &file]));
    let output = Output::of(command.env("SEGUE_HOME", &home))?;
    wanted(&output.stderr, &output.status, &0)
}

#[test]
fn an_import_can_be_killed_anywhere() {
    every_point("an_import_can_be_killed_anywhere", || {
        let mut passage = Passage::new(&["import"], after_import);
        let file = passage.env.path("y.segue").display().to_string();
        two_turns(&passage);
        assert_eq!(passage.env.segue(["export", "1", "-o", &file]).expect("export").status, 0);
        let clone = passage.env.path("clone");
        let args = ["clone", "-q", ".", clone.to_str().expect("text")];
        assert_eq!(passage.env.git(args).expect("clone").status, 0);
        fs::create_dir_all(passage.env.path("home2")).expect("home");
        passage.args.extend([file, "--dir".to_owned(), clone.display().to_string()]);
        passage.cwd = clone;
        (passage.home, passage.reached) = (passage.env.path("home2"), FEWER);
        passage.prepared(&["clone", "home2"])
    });
}

fn after_import(passage: &Passage) -> Result<(), Broken> {
    let args: Vec<&str> = passage.args.iter().map(String::as_str).collect();
    passage.well(&args)?;
    let status = passage.git(&["status", "--porcelain"])?;
    wanted("git status", &status, &String::new())?;
    let refs = passage.git(&["for-each-ref", "--format=%(refname)", "refs/segue"])?;
    wanted("checkpoints", &refs.lines().count(), &3)?;
    // One that was cut short may have used a number up; none is given twice.
    let numbers = fs::read_dir(passage.home.join("numbers"))?.count();
    wanted("one or two numbers", &(1..=2).contains(&numbers), &true)?;
    let list = passage.well(&["list", "--all"])?.stdout;
    wanted(&list, &list.lines().count(), &2)?;
    let dir = passage.cwd.display().to_string();
    passage.well(&["resume", "@latest", "Go on", "--dir", &dir, "--restore-files"])?;
    let mut files = passage.files.clone();
    files.remove("mine.txt");
    wanted("files", &self::files(&passage.cwd), &files)
}

/// Keeps what it sees at the beginning.
const LOOKER: &str = "exec:ls a.txt base.txt > seen.txt 2>&1; cat a.txt >> seen.txt; echo Done.";

/// Turn 1 ends with step 3: only its checkpoint has the files of that time.
fn left(args: &[&str], after: fn(&Passage) -> Result<(), Broken>) -> Passage {
    let mut passage = Passage::new(args, after);
    two_turns(&passage);
    (passage.trees, passage.most) = (2, 30);
    passage.prepared(&["repo", "home"])
}

/// The sessions that were made besides the first.
fn made(passage: &Passage) -> Result<Vec<String>, Broken> {
    let list = passage.well(&["list", "--all", "--json"])?.stdout;
    let rows = told(&list)?;
    let rows = rows.as_array().cloned().unwrap_or_default();
    let ids = rows.iter().filter(|row| row["number"] != 1).filter_map(|row| row["id"].as_str());
    Ok(ids.map(str::to_owned).collect())
}

/// Goes on with what was made, or makes it.
fn finished(passage: &Passage) -> Result<(), Broken> {
    match made(passage)?.as_slice() {
        [] => {
            let args: Vec<&str> = passage.args.iter().map(String::as_str).collect();
            passage.well(&args).map(drop)
        }
        [id] => passage.well(&["resume", id]).map(drop),
        several => Err(Broken::new(format!("{} were made", several.len()))),
    }
}

/// What the second session has seen at its beginning.
fn seen(passage: &Passage) -> Result<String, Broken> {
    let id = made(passage)?.pop().ok_or_else(|| Broken::new("there is no second session"))?;
    let shown = told(&passage.well(&["show", &id, "--json"])?.stdout)?;
    let place = shown["workspace"].as_str().unwrap_or_default();
    Ok(fs::read_to_string(Path::new(place).join("seen.txt"))?)
}

fn told(json: &str) -> Result<serde_json::Value, Broken> {
    serde_json::from_str(json).map_err(|error| Broken::new(error.to_string()))
}

#[test]
fn a_fork_can_be_killed_anywhere() {
    every_point("a_fork_can_be_killed_anywhere", || {
        left(&["fork", "1", "--from-step", "3", "Look", "--with", LOOKER], after_fork)
    });
}

/// Whenever it was killed, it has the files of its step, and the other one's are as they were.
fn after_fork(passage: &Passage) -> Result<(), Broken> {
    finished(passage)?;
    wanted("the other's files", &files(&passage.env.repo()), &passage.files)?;
    let seen = seen(passage)?;
    wanted("its own", &seen.as_str(), &"a.txt\nbase.txt\none\n")
}

#[test]
fn a_comparison_can_be_killed_anywhere() {
    every_point("a_comparison_can_be_killed_anywhere", || {
        left(&["compare", "1", "--agents", LOOKER], after_comparison)
    });
}

#[test]
fn a_rerun_can_be_killed_anywhere() {
    every_point("a_rerun_can_be_killed_anywhere", || {
        left(&["replay", "1", "--mode", "rerun", "--agent", LOOKER], after_comparison)
    });
}

/// It begins with the files of the start.
fn after_comparison(passage: &Passage) -> Result<(), Broken> {
    finished(passage)?;
    wanted("the other's files", &files(&passage.env.repo()), &passage.files)?;
    let seen = seen(passage)?;
    let (base, rest) = (seen.contains("\nbase.txt\n"), seen.ends_with("base.txt\n"));
    wanted(&seen, &(base && rest), &true)
}

#[test]
fn a_replay_can_be_killed_anywhere() {
    every_point("a_replay_can_be_killed_anywhere", || {
        let mut passage =
            left(&["replay", "1", "--mode", "cache", "--save", "again"], after_replay);
        (passage.trees, passage.reached) = (1, FEWER);
        // From here on every call of the model would fail.
        fs::remove_file(passage.env.path("script.toml")).expect("a script");
        passage
    });
}

/// It is there with all its steps, or not at all; and nobody is called.
fn after_replay(passage: &Passage) -> Result<(), Broken> {
    finished(passage)?;
    let id = made(passage)?.pop().ok_or_else(|| Broken::new("there is no replay"))?;
    passage.well(&["replay", &id, "--verify"])?;
    let steps = |session: &str| {
        let told = passage.well(&["log", session, "--steps", "--json"])?.stdout;
        Ok::<_, Broken>(told)
    };
    wanted("its steps", &steps(&id)?, &steps("1")?)?;
    let stands = told(&passage.well(&["show", &id, "--json"])?.stdout)?;
    wanted("it", &stands["status"], &"completed".into())
}

#[test]
fn taking_over_can_be_killed_anywhere() {
    every_point("taking_over_can_be_killed_anywhere", || {
        let mut passage = Passage::new(&["accept", "2", "--force"], after_acceptance);
        two_turns(&passage);
        let writer = "exec:echo theirs > a.txt; echo new > c.txt; echo Done.";
        let args = ["compare", "1", "--agents", writer];
        assert_eq!(passage.env.segue(args).expect("compare").status, 0);
        (passage.trees, passage.most) = (2, 40);
        passage.prepared(&["repo", "home", "repo-segue-2"])
    });
}

/// All of it is there in the end, and what was there before is kept.
fn after_acceptance(passage: &Passage) -> Result<(), Broken> {
    let before = passage.files["a.txt"].clone();
    let here = fs::read_to_string(passage.env.repo().join("a.txt"))?;
    let kept = |passage: &Passage| {
        let refs = passage.git(&["for-each-ref", "--format=%(refname)", "refs/segue"])?;
        let mut safe = refs.lines().filter(|name| name.contains("/accepted-"));
        Ok::<_, Broken>(safe.any(|name| {
            passage.git(&["show", &format!("{name}:a.txt")]).is_ok_and(|text| text == before)
        }))
    };
    if here != before {
        wanted("what was there is kept", &kept(passage)?, &true)?;
    }
    passage.well(&["accept", "2", "--force"])?;
    let mut files = passage.files.clone();
    files.insert("a.txt".to_owned(), "theirs\n".to_owned());
    files.insert("c.txt".to_owned(), "new\n".to_owned());
    wanted("files", &self::files(&passage.env.repo()), &files)?;
    wanted("what was there is kept", &kept(passage)?, &true)
}
