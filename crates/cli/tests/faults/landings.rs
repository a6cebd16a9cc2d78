//! SIGKILL between the acceptance of a task and its end, and around a placeholder and its unwinding:
//! of Segue at its own system calls, and of each git that it starts at those of git. After every one
//! of them the next resume comes to the end, with each task on the branch exactly once.
//!
//! Only what is between two events counts, so both are looked for in a trace. strace counts calls per
//! thread and name: a call is a point where no other thread has made as many of that name before.
//! A call that changes nothing leaves the same behind as the next one that does. So only those are
//! hit that change something, but for `SEGUE_EVERY_CALL=1`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use segue_testkit::{
    env::Output,
    kill::{Broken, Running, check},
};
use serde_json::Value;

use crate::{
    passages::{Passage, WORKERS, wanted},
    strace::Point,
    support::{can, kill_at_each, works},
};

/// So many points of each test are hit, spread over all that there are.
const POINTS: usize = 110;

/// From the event that is the `nth` of its kind up to another one, or to the end of the process.
#[derive(Clone, Copy)]
struct Window {
    from: (&'static str, usize),
    until: Option<(&'static str, usize)>,
}

/// Where a kill goes.
#[derive(Clone)]
enum At {
    Segue {
        point: Point,
        first: bool,
    },
    /// One of the gits that are started meanwhile: its command, and the how manieth it is. Perhaps
    /// Segue too.
    Git {
        which: String,
        point: Point,
        both: bool,
    },
}

impl fmt::Debug for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segue { point, .. } => write!(f, "Segue at {} {}", point.call, point.nth),
            Self::Git { which, point, both } => {
                let both = if *both { ", and Segue" } else { "" };
                write!(f, "git {which} at {} {}{both}", point.call, point.nth)
            }
        }
    }
}

fn every_call() -> bool {
    std::env::var_os("SEGUE_EVERY_CALL").is_some()
}

/// Whether a line of a trace is a call that changes something, or hands something on.
fn changes(name: &str, args: &str) -> bool {
    const EFFECTS: [&str; 27] = [
        "write",
        "pwrite64",
        "writev",
        "fsync",
        "fdatasync",
        "sync_file_range",
        "rename",
        "renameat",
        "renameat2",
        "unlink",
        "unlinkat",
        "mkdir",
        "mkdirat",
        "rmdir",
        "link",
        "linkat",
        "symlink",
        "symlinkat",
        "chmod",
        "fchmod",
        "utimensat",
        "ftruncate",
        "flock",
        "clone3",
        "vfork",
        "wait4",
        "exit_group",
    ];
    EFFECTS.contains(&name) || args.contains("O_CREAT")
}

/// A line of a trace with threads: who, which call, with what.
fn call_of(line: &str) -> Option<(&str, &str, &str)> {
    let (pid, rest) = line.split_once(' ')?;
    let (name, args) = rest.trim_start().split_once('(')?;
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (!name.is_empty() && name.bytes().all(is_name)).then_some((pid, name, args))
}

/// How often they happen depends on who waits for whom.
const BY_CHANCE: [&str; 3] = ["futex", "restart_syscall", "poll"];

/// The points of Segue's own thread in a window, and how many calls there were in it.
fn own_points(trace: &str, window: Window) -> (Vec<Point>, usize) {
    let main = trace.split(' ').next().unwrap_or_default();
    let (mut counts, mut reached) = (BTreeMap::new(), BTreeSet::new());
    let (mut seen, mut all, mut points) = (BTreeMap::new(), 0, Vec::new());
    let mut inside = false;
    for (pid, name, args) in trace.lines().filter_map(call_of) {
        let nth = counts.entry((pid, name)).or_insert(0_usize);
        *nth += 1;
        let alone = reached.insert((name, *nth));
        let journal = pid == main && name == "write" && args.contains("/journal.jsonl>");
        if journal && !args.split(',').next().unwrap_or_default().contains("/reviewers/") {
            for (kind, wanted) in [Some(window.from), window.until].into_iter().flatten() {
                let here = args.matches(&format!("\\\"kind\\\":\\\"{kind}\\\"")).count();
                let so_far = seen.entry(kind).or_insert(0);
                let passed = *so_far < wanted && *so_far + here >= wanted;
                *so_far += here;
                inside = if passed { kind == window.from.0 } else { inside };
            }
        }
        if !inside || pid != main || BY_CHANCE.contains(&name) {
            continue;
        }
        all += 1;
        let point = Point { call: name.to_owned(), nth: *nth };
        points.push((point, alone, changes(name, args)));
    }
    (chosen(points), all)
}

/// All that can be hit, or one for each stretch between two changes.
fn chosen(points: Vec<(Point, bool, bool)>) -> Vec<Point> {
    let (mut found, mut last): (Vec<Point>, Option<Point>) = (Vec::new(), None);
    for (point, alone, changes) in points {
        if every_call() {
            found.extend(alone.then_some(point));
            continue;
        }
        // What can't be hit itself is hit through what came just before it.
        let at = if alone { Some(point) } else { last.take() };
        match changes {
            true => found.extend(at),
            false => last = at,
        }
        if changes {
            last = None;
        }
    }
    found
}

/// The points of one git.
fn git_points(trace: &str) -> Vec<Point> {
    let (mut counts, mut points) = (BTreeMap::new(), Vec::new());
    let main = trace.split(' ').next().unwrap_or_default();
    let mut writes = false;
    for (_, name, args) in trace.lines().filter_map(call_of).filter(|(pid, ..)| *pid == main) {
        let nth = counts.entry(name).or_insert(0_usize);
        *nth += 1;
        // With it git begins: it is strace that makes it.
        if name == "execve" {
            continue;
        }
        // What it says goes to Segue.
        let says = name == "write" && args.contains("<pipe:");
        writes |= args.contains("O_CREAT") || name == "rename";
        points.push((Point { call: name.to_owned(), nth: *nth }, changes(name, args) && !says));
    }
    let kept = points.into_iter().filter(|(_, changes)| !writes || every_call() || *changes);
    // One that only reads can only die.
    let most = if writes { usize::MAX } else { 1 };
    kept.map(|(point, _)| point).take(most).collect()
}

struct Landing {
    passage: Passage,
    window: Window,
    /// What the journal has of both kinds before.
    before: [usize; 2],
}

impl Landing {
    fn new(
        passage: Passage,
        from: (&'static str, usize),
        until: Option<(&'static str, usize)>,
    ) -> Self {
        let window = Window { from, until };
        let kinds = [from.0, until.map_or("", |(kind, _)| kind)];
        let mut landing = Self { passage, window, before: [0, 0] };
        landing.before = kinds.map(|kind| landing.count(kind));
        landing.stand_in_for_git();
        landing
    }

    fn file(&self, name: &str) -> PathBuf {
        self.passage.env.path(name)
    }

    /// How many events of a kind the journal has.
    fn count(&self, kind: &str) -> usize {
        let dir = check::only_session(&self.passage.env).ok().flatten();
        let text = dir.and_then(|dir| fs::read(dir.join("journal.jsonl")).ok()).unwrap_or_default();
        String::from_utf8_lossy(&text).matches(&format!("\"kind\":\"{kind}\"")).count()
    }

    /// A git that does as `git.mode` says while the window is open, and is the real one else.
    fn stand_in_for_git(&self) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let real = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|at| at.is_file());
        let real = real.expect("git").display().to_string();
        let (from, nth) = (self.window.from.0, self.before[0] + self.window.from.1);
        let ended = self.window.until.map_or_else(String::new, |(kind, nth)| {
            format!("[ $(has {kind}) -lt {} ] || exec '{real}' \"$@\"\n", self.before[1] + nth)
        });
        let script = format!(
            r#"#!/bin/sh
d='{dir}'; mode=$(cat "$d/git.mode" 2>/dev/null)
[ -n "$mode" ] || exec '{real}' "$@"
has() {{ cat "$d"/home/sessions/*/*/journal.jsonl 2>/dev/null | grep -c "\"kind\":\"$1\""; }}
[ $(has {from}) -ge {nth} ] || exec '{real}' "$@"
{ended}set -f; skip=
for word; do
  case $skip$word in
  -c | -C) skip=x ;;
  x*) skip= ;;
  -*) ;;
  *) break ;;
  esac
done
n=$(($(cat "$d/gits/$word.count" 2>/dev/null || echo 0) + 1)); echo $n >"$d/gits/$word.count"
n=$word.$n
case $mode in
trace) exec strace -f -qq -y -s 64 -o "$d/gits/$n.trace" '{real}' "$@" ;;
esac
IFS=: read -r which call nth both <<EOF
$mode
EOF
[ "$which" = $n ] || exec '{real}' "$@"
strace -f -qq -o /dev/null -e trace=$call -e inject=$call:signal=KILL:when=$nth '{real}' "$@"
status=$?
[ $status = 137 ] || exit $status
touch "$d/git.hit"
[ "$both" = both ] && kill -9 $PPID
kill -9 $$
"#,
            dir = self.file("").display(),
        );
        fs::create_dir_all(self.file("bin")).expect("bin");
        let git = self.file("bin/git");
        fs::write(&git, script).expect("git");
        fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).expect("git");
    }

    /// Runs the command with a git that is in this mode.
    fn with_git(&self, mode: &str) -> Result<(Running, i32), Broken> {
        self.passage.again()?;
        let _ = fs::remove_file(self.file("git.hit"));
        let _ = fs::remove_dir_all(self.file("gits"));
        fs::create_dir_all(self.file("gits"))?;
        fs::write(self.file("git.mode"), mode)?;
        let mut command = self.passage.settle(self.passage.env.command(&self.passage.args));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.file("bin").display()));
        let mut running = Running::start(&self.passage.env, command)?;
        let status = running.wait()?;
        fs::remove_file(self.file("git.mode"))?;
        Ok((running, status))
    }

    fn own(&self) -> (Vec<At>, usize) {
        let trace = self.file("trace");
        let place = trace.to_string_lossy().into_owned();
        let options = ["-y", "-s", "4096", "-o", &place];
        let (running, status) = self.passage.strace(&options).expect("traced");
        assert!(matches!(status, 0 | 3), "{status}: {}", running.stderr());
        let text = fs::read(&trace).expect("trace");
        let (points, all) = own_points(&String::from_utf8_lossy(&text), self.window);
        let first = |at: usize| at == 0;
        let points = points.into_iter().enumerate();
        (points.map(|(at, point)| At::Segue { point, first: first(at) }).collect(), all)
    }

    fn gits(&self) -> (Vec<At>, usize) {
        let (running, status) = self.with_git("trace").expect("traced");
        assert!(matches!(status, 0 | 3), "{status}: {}", running.stderr());
        let (mut found, mut all) = (Vec::new(), 0);
        let names = fs::read_dir(self.file("gits")).expect("gits");
        let names = names.map(|entry| entry.expect("an entry").file_name());
        let names = names
            .filter_map(|name| name.to_string_lossy().strip_suffix(".trace").map(str::to_owned));
        for which in names.collect::<BTreeSet<String>>() {
            let trace = fs::read(self.file(&format!("gits/{which}.trace"))).expect("a trace");
            let trace = String::from_utf8_lossy(&trace);
            all += trace.lines().filter_map(call_of).count();
            for point in git_points(&trace) {
                // Every other time Segue lives to see it.
                let both = found.len() % 2 == 0;
                found.push(At::Git { which: which.clone(), point, both });
            }
        }
        (found, all)
    }

    /// Kills there, goes on, and says whether it was a hit within the window.
    fn kill_at(&self, at: &At) -> Result<bool, Broken> {
        let hit = match at {
            At::Segue { point: Point { call, nth }, first } => {
                let trace = format!("trace={call}");
                let inject = format!("inject={call}:signal=KILL:when={nth}");
                let options = ["-o", "/dev/null", "-e", &trace, "-e", &inject];
                let (running, status) = self.passage.strace(&options)?;
                fine(status, &running)?;
                let begun = self.count(self.window.from.0) >= self.before[0] + self.window.from.1;
                status == 137 && (*first || begun)
            }
            At::Git { which, point: Point { call, nth }, both } => {
                let both = if *both { "both" } else { "git" };
                let (running, status) = self.with_git(&format!("{which}:{call}:{nth}:{both}"))?;
                fine(status, &running)?;
                self.file("git.hit").exists()
            }
        };
        self.passage.checked()?;
        Ok(hit)
    }
}

/// Killed, stopped, or told of a git that died.
fn fine(status: i32, running: &Running) -> Result<(), Broken> {
    match status {
        0 | 1 | 3 | 137 => Ok(()),
        _ => Err(Broken::new(format!("status {status}: {}", running.stderr()))),
    }
}

fn every_point(name: &str, landing: fn() -> Landing, points: fn(&Landing) -> (Vec<At>, usize)) {
    if !can(name, "strace is missing", works("strace", &["-V"])) {
        return;
    }
    let landings: Vec<Landing> = (0..WORKERS).map(|_| landing()).collect();
    let (mut points, calls) = points(&landings[0]);
    let found = points.len();
    if !every_call() {
        points = points.into_iter().step_by(found.div_ceil(POINTS).max(1)).collect();
    }
    let all = points.len();
    eprintln!("{name}: {found} of the {calls} calls in the window can be hit, {all} are");
    assert!(all >= 20, "{name}: only {all} points");
    let missed = kill_at_each(name, &landings, &points, Landing::kill_at);
    // How many reads a look at all processes takes differs from run to run; changes are always the
    // same.
    let most = if every_call() { 4 } else { 1 };
    assert!(missed.len() * 10 <= all * most, "{name}: never reached: {}", missed.join(", "));
}

/// Writes what was asked for, and makes its case; but at the second task `SECOND` comes first.
const WORKER: &str = r#"
[[reply]]
when = ["T-001: "]
tools = [
    { name = "write_file", input = { path = "one.txt", content = "one\n" } },
    { name = "submit_case", input = { summary = "One.", criteria = [{ criterion = "c", met_by = "one.txt" }] } },
]
[[reply]]
when = ["T-001: "]
text = "That is my case."
SECOND
[[reply]]
when = ["T-002: "]
tools = [
    { name = "write_file", input = { path = "two.txt", content = "two\n" } },
    { name = "submit_case", input = { summary = "Two.", criteria = [{ criterion = "c", met_by = "two.txt" }] } },
]
[[reply]]
when = ["T-002: "]
text = "That is my case."
"#;

const EVALUATOR: &str = r#"
[[reply]]
text = "```segue\n{\"verdict\":\"pass\"}\n```"
repeat = true
"#;

/// Half of it is done, and nothing is said for it.
const NO_CASE: &str = r#"
[[reply]]
when = ["T-002: "]
tools = [{ name = "write_file", input = { path = "half.txt", content = "half\n" } }]
[[reply]]
when = ["T-002: "]
text = "I am done, I think."
repeat = true
"#;

fn worker(passage: &Passage, second: &str) {
    let script = WORKER.replace("SECOND", second);
    fs::write(passage.env.path("worker.toml"), script).expect("script");
}

/// A list of two tasks that is to be begun.
fn list_of_two(second: &str, after: fn(&Passage) -> Result<(), Broken>) -> Passage {
    let mut passage = Passage::new(&["tasks", "run", "plan", "--json"], after);
    worker(&passage, second);
    fs::write(passage.env.path("evaluator.toml"), EVALUATOR).expect("script");
    for name in ["worker", "evaluator"] {
        let path = passage.env.path(&format!("{name}.toml"));
        passage.args.extend([format!("--{name}"), format!("native@script:{}", path.display())]);
    }
    let page =
        |n: u32| format!("---\nid: T-00{n}\ntitle: N{n}\n---\n## Acceptance criteria\n- c\n");
    passage.env.write("plan/overview.md", "Two\n").expect("written");
    for n in [1, 2] {
        passage.env.write(&format!("plan/T-00{n}.md"), &page(n)).expect("written");
    }
    passage.trees = 2;
    passage
}

/// From the word of the evaluator on the last task to the last word: the commit, its event, the stop.
fn accepted() -> Landing {
    let passage = list_of_two("", after_tasks).prepared(&["repo", "home", "repo-segue-1"]);
    Landing::new(passage, ("verdict.given", 2), None)
}

/// From the failure of the last task to the last word: the placeholder, its event, the stop.
fn failed() -> Landing {
    let passage = list_of_two(NO_CASE, after_retry).prepared(&["repo", "home", "repo-segue-1"]);
    Landing::new(passage, ("task.failed", 1), None)
}

/// A resume, from its first event until the task is in hand again: the unwinding.
fn unwound() -> Landing {
    let mut passage = list_of_two(NO_CASE, after_retry);
    let args: Vec<&str> = passage.args.iter().map(String::as_str).collect();
    assert_eq!(passage.segue(&args).expect("run").status, 3);
    let log = passage.git(&["log", "-1", "--format=%s", "segue/1-two"]).expect("log");
    assert_eq!(log.trim(), "T-002: FAILED (no_case): N2");
    worker(&passage, "");
    passage.args = ["resume", "1", "--json"].map(str::to_owned).into();
    let passage = passage.prepared(&["repo", "home", "repo-segue-1"]);
    Landing::new(passage, ("session.resumed", 1), Some(("task.started", 1)))
}

#[test]
fn an_accepted_task_is_on_the_branch_once_wherever_segue_is_killed() {
    every_point("accepted, Segue killed", accepted, Landing::own);
}

#[test]
fn an_accepted_task_is_on_the_branch_once_wherever_git_is_killed() {
    every_point("accepted, git killed", accepted, Landing::gits);
}

#[test]
fn a_placeholder_is_made_or_not_wherever_segue_is_killed() {
    every_point("placeholder, Segue killed", failed, Landing::own);
}

#[test]
fn a_placeholder_is_made_or_not_wherever_git_is_killed() {
    every_point("placeholder, git killed", failed, Landing::gits);
}

#[test]
fn a_placeholder_is_unwound_once_wherever_segue_is_killed() {
    every_point("unwinding, Segue killed", unwound, Landing::own);
}

#[test]
fn a_placeholder_is_unwound_once_wherever_git_is_killed() {
    every_point("unwinding, git killed", unwound, Landing::gits);
}

/// The subjects of the session's own commits.
fn log(passage: &Passage) -> Result<Vec<String>, Broken> {
    let log = passage.git(&["log", "--reverse", "--format=%s", "main..segue/1-two"])?;
    Ok(log.lines().map(str::to_owned).collect())
}

/// What the journal itself calls done is on the branch, before anything is gone on with; and whoever looks
/// is told no more than that.
fn nothing_is_claimed(passage: &Passage) -> Result<(), Broken> {
    let dir = check::only_session(&passage.env)?.ok_or_else(|| Broken::new("no session"))?;
    let text = fs::read_to_string(dir.join("journal.jsonl"))?;
    let range = "main..segue/1-two";
    let on_branch = passage.git(&["log", "--format=%H %s", range])?;
    // The last line may be torn.
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    for event in events.filter(|event| event["kind"] == "work.committed") {
        let data = &event["data"];
        let (commit, task) = (data["commit"].as_str(), data["task"].as_str());
        let start = format!("{} {}: ", commit.unwrap_or_default(), task.unwrap_or_default());
        if data["failed"].is_null() {
            let found = on_branch.lines().filter(|line| line.starts_with(&start)).count();
            wanted(&start, &found, &1)?;
        }
    }
    let output = passage.well(&["tasks", "status", "1", "--json"])?;
    let told: Value =
        serde_json::from_str(&output.stdout).map_err(|error| Broken::new(error.to_string()))?;
    for task in told["tasks"].as_array().into_iter().flatten() {
        let id = task["task"].as_str().unwrap_or_default();
        if task["state"] == "done" {
            let on_branch = log(passage)?.iter().filter(|line| line.starts_with(id)).count();
            wanted(id, &on_branch, &1)?;
        }
    }
    Ok(())
}

/// Each task is on the branch exactly once, and is recorded once.
fn all_done(passage: &Passage) -> Result<(), Broken> {
    wanted("log", &log(passage)?, &["T-001: N1", "T-002: N2"].map(str::to_owned).into())?;
    let dir = check::only_session(&passage.env)?.ok_or_else(|| Broken::new("no session"))?;
    let text = fs::read_to_string(dir.join("journal.jsonl"))?;
    let commits = text.lines().filter(|line| line.contains("\"kind\":\"work.committed\""));
    let done = commits.filter(|line| !line.contains("\"failed\":")).count();
    wanted("commits", &done, &2)?;
    let status = passage.git(&["-C", "../repo-segue-1", "status", "--porcelain"])?;
    wanted("status", &status.as_str(), &"")
}

/// Goes on. A git that was killed may have left its lock, which is taken for somebody's at work until
/// it is old.
fn go_on(passage: &Passage) -> Result<Output, Broken> {
    let output = passage.segue(&["resume", "1"])?;
    if !(output.status == 1 && output.stderr.contains(".lock': File exists")) {
        return Ok(output);
    }
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    for lock in locks(&passage.env.repo().join(".git"))? {
        fs::File::options().append(true).open(lock)?.set_modified(long_ago)?;
    }
    passage.segue(&["resume", "1"])
}

fn locks(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(locks(&path)?);
        } else if path.extension().is_some_and(|end| end == "lock") {
            found.push(path);
        }
    }
    Ok(found)
}

fn after_tasks(passage: &Passage) -> Result<(), Broken> {
    nothing_is_claimed(passage)?;
    let output = go_on(passage)?;
    wanted(&output.stderr, &output.status, &0)?;
    all_done(passage)
}

/// The task is tried again until it is done, with what there was of it before.
fn after_retry(passage: &Passage) -> Result<(), Broken> {
    nothing_is_claimed(passage)?;
    let kept = fs::read_to_string(passage.env.path("worker.toml"))?;
    // Where its failure was not recorded, the next resume does that, and stops.
    let output = go_on(passage)?;
    if !matches!(output.status, 0 | 3) {
        return Err(Broken::new(format!("resume: {}: {}", output.status, output.stderr)));
    }
    worker(passage, "");
    let done = go_on(passage);
    fs::write(passage.env.path("worker.toml"), kept)?;
    let done = done?;
    wanted(&done.stderr, &done.status, &0)?;
    all_done(passage)?;
    // Nothing of the first attempt is lost: it is part of the task's commit.
    let files = passage.git(&["show", "--format=", "--name-only", "segue/1-two"])?;
    wanted("files", &files.as_str(), &"half.txt\ntwo.txt\n")
}
