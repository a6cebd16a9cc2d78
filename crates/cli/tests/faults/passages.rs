//! SIGKILL at system calls of what leads from one place to another: a hand-off, a rewind, an export,
//! an import. Whatever was reached, the next command goes on from it, and nothing is lost.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use segue_testkit::{
    env::{Output, TestEnv},
    kill::{Broken, Running, check},
};

use crate::{
    strace::{Point, points_of},
    support::{self, can, replace_dir, works},
};

const WORKERS: usize = 2;

/// So many calls of each passage are hit, spread over all of them.
const POINTS: usize = 90;

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
struct Passage {
    env: TestEnv,
    args: Vec<String>,
    cwd: PathBuf,
    home: PathBuf,
    places: Vec<PathBuf>,
    after: fn(&Passage) -> Result<(), Broken>,
    /// The index of the user's repository as it was.
    index: Vec<u8>,
    files: BTreeMap<String, String>,
    /// How many calls are hit.
    most: usize,
    /// How many work trees there are in the end.
    trees: usize,
}

impl Passage {
    fn new(args: &[&str], after: fn(&Passage) -> Result<(), Broken>) -> Self {
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
        let (most, trees) = (POINTS, 1);
        Self { env, args, cwd, home, places, after, index, files, most, trees }
    }

    fn prepared(mut self, places: &[&str]) -> Self {
        self.places = places.iter().map(|name| self.env.path(name)).collect();
        self.index = fs::read(self.env.repo().join(".git/index")).expect("an index");
        self.files = files(&self.env.repo());
        for place in &self.places {
            replace_dir(place, &kept(place)).expect("kept");
        }
        self
    }

    fn again(&self) -> Result<(), Broken> {
        for place in &self.places {
            replace_dir(&kept(place), place)?;
        }
        let _ = fs::remove_file(self.env.path("x.segue"));
        Ok(())
    }

    fn settle(&self, mut command: Command) -> Command {
        command.current_dir(&self.cwd).env("SEGUE_HOME", &self.home);
        command
    }

    fn segue(&self, args: &[&str]) -> Result<Output, Broken> {
        Ok(Output::of(&mut self.settle(self.env.command(args)))?)
    }

    /// The same, where it has to succeed.
    fn well(&self, args: &[&str]) -> Result<Output, Broken> {
        let output = self.segue(args)?;
        match output.status {
            0 => Ok(output),
            status => Err(Broken::new(format!("{args:?}: status {status}: {}", output.stderr))),
        }
    }

    fn git(&self, args: &[&str]) -> Result<String, Broken> {
        let output = Output::of(self.env.any("git").current_dir(&self.cwd).args(args))?;
        match output.status {
            0 => Ok(output.stdout),
            _ => Err(Broken::new(format!("git {args:?}: {}", output.stderr))),
        }
    }

    fn strace(&self, options: &[&str]) -> Result<(Running, i32), Broken> {
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
            count if count == self.trees => Ok(status == 137),
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

fn wanted<T: PartialEq + std::fmt::Debug>(what: &str, is: &T, should: &T) -> Result<(), Broken> {
    match is == should {
        true => Ok(()),
        false => Err(Broken::new(format!("{what}: {is:?}, not {should:?}"))),
    }
}

fn every_point(name: &str, passage: fn() -> Passage) {
    if !can(name, "strace is missing", works("strace", &["-V"])) {
        return;
    }
    let started = Instant::now();
    let passages: Vec<Passage> = (0..WORKERS).map(|_| passage()).collect();
    let points = passages[0].points();
    let (next, hits) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let broken = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for passage in &passages {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match passage.kill_at(point) {
                        Ok(hit) => {
                            hits.fetch_add(usize::from(hit), Ordering::Relaxed);
                        }
                        Err(what) => {
                            broken.lock().expect("no panic").push(format!("{point:?}: {what}"));
                        }
                    }
                }
            });
        }
    });
    let (hits, all) = (hits.into_inner(), points.len());
    let broken = broken.into_inner().expect("no panic");
    eprintln!("{name}: {hits} of {all} calls hit in {:?}", started.elapsed());
    assert!(broken.is_empty(), "{name}: {} of {all}:\n{}", broken.len(), broken.join("\n"));
    assert!(hits * 2 >= all, "{name}: only {hits} of {all} were hit");
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

/// A worker that sends a message and mends what is said of it, and two reviewers.
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
text = "It is one."
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
        passage.home = passage.env.path("home2");
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

const TASKS: [(&str, &str); 2] = [
    (
        "worker",
        r#"
[[reply]]
when = ["T-001: "]
tools = [
    { name = "write_file", input = { path = "one.txt", content = "one\n" } },
    { name = "submit_case", input = { summary = "One.", criteria = [{ criterion = "c", met_by = "one.txt" }] } },
]
[[reply]]
when = ["T-001: "]
text = "That is my case."
[[reply]]
when = ["T-002: "]
tools = [
    { name = "shell", input = { command = "echo two > two.txt; LOCK" } },
    { name = "submit_case", input = { summary = "Two.", criteria = [{ criterion = "c", met_by = "two.txt" }] } },
]
[[reply]]
when = ["T-002: "]
text = "That is my case."
"#,
    ),
    (
        "evaluator",
        r#"
[[reply]]
text = "```segue\n{\"verdict\":\"pass\"}\n```"
repeat = true
"#,
    ),
];

fn list_of_two(lock: &str) -> Passage {
    let mut args: Vec<String> = ["tasks", "run", "plan", "--json"].map(str::to_owned).into();
    let mut passage = Passage::new(&[], after_tasks);
    for ((name, script), flag) in TASKS.iter().zip(["--worker", "--evaluator"]) {
        let path = passage.env.path(&format!("{name}.toml"));
        fs::write(&path, script.replace("LOCK", lock)).expect("script");
        args.extend([flag.to_owned(), format!("native@script:{}", path.display())]);
    }
    let page =
        |n: u32| format!("---\nid: T-00{n}\ntitle: N{n}\n---\n## Acceptance criteria\n- c\n");
    passage.env.write("plan/overview.md", "Two\n").expect("written");
    for n in [1, 2] {
        passage.env.write(&format!("plan/T-00{n}.md"), &page(n)).expect("written");
    }
    passage.args = args;
    passage.trees = 2;
    passage
}

/// From the acceptance of the last task to the last word: the commit, its event, the stop.
#[test]
fn an_accepted_task_is_on_the_branch_once_wherever_it_is_killed() {
    every_point("an_accepted_task_is_on_the_branch_once_wherever_it_is_killed", || {
        // A branch that is locked makes the commit fail after the acceptance.
        let lock = "touch $(git rev-parse --git-common-dir)/refs/heads/segue/1-two.lock";
        let mut passage = list_of_two(lock);
        let args: Vec<&str> = passage.args.iter().map(String::as_str).collect();
        let output = passage.segue(&args).expect("run");
        assert_eq!(output.status, 1, "{}", output.stderr);
        let locked = passage.env.repo().join(".git/refs/heads/segue/1-two.lock");
        fs::remove_file(locked).expect("a lock");
        passage.args = ["resume", "1", "--json"].map(str::to_owned).into();
        passage.most = 160;
        passage.prepared(&["repo", "home", "repo-segue-1"])
    });
}

/// Each task is on the branch exactly once, and done exactly where it is there.
fn after_tasks(passage: &Passage) -> Result<(), Broken> {
    let output = passage.segue(&["tasks", "status", "1", "--json"])?;
    let on_branch = |id: &str| -> Result<usize, Broken> {
        let log = passage.git(&["log", "--format=%s", "segue/1-two"])?;
        Ok(log.lines().filter(|line| line.starts_with(id)).count())
    };
    // What is called done is there, before anything is gone on with.
    let told: serde_json::Value =
        serde_json::from_str(&output.stdout).map_err(|error| Broken::new(error.to_string()))?;
    for task in told["tasks"].as_array().into_iter().flatten() {
        let id = task["task"].as_str().unwrap_or_default();
        if task["state"] == "done" {
            wanted(id, &on_branch(id)?, &1)?;
        }
    }
    passage.well(&["resume", "1"])?;
    for id in ["T-001", "T-002"] {
        wanted(id, &on_branch(id)?, &1)?;
    }
    let dir = check::only_session(&passage.env)?.ok_or_else(|| Broken::new("no session"))?;
    let text = fs::read_to_string(dir.join("journal.jsonl"))?;
    wanted("commits", &text.matches("\"kind\":\"work.committed\"").count(), &2)?;
    let status = passage.git(&["-C", "../repo-segue-1", "status", "--porcelain"])?;
    wanted("status", &status.as_str(), &"")
}
