//! A long list: what the last tasks cost beside the first ones. The models are scripts, so that all
//! that is measured is Segue's own bookkeeping: prompts, journal, checkpoints, commits, and what is
//! shown of it. A task takes from one commit to the next, so that nothing between two of them is
//! left out.
//!
//! `cargo bench -p segue-cli --bench tasks`; with `SEGUE_BENCH_STRICT=1` a missed goal is a failure, and
//! `SEGUE_BENCH_TASKS=100` makes the list shorter.

use std::{error::Error, fs, path::Path, process::Command, process::ExitCode};

use jiff::Timestamp;
use segue_core::Body;
use segue_journal::{Home, RealDisk};

type Done<T = ()> = Result<T, Box<dyn Error>>;

const SEGUE: &str = env!("CARGO_BIN_EXE_segue");
const TASKS: usize = 500;
/// So many tasks around the 5th and the 500th are looked at: one alone is noise.
const AROUND: usize = 20;
const MOST: f64 = 1.5;

const WORKER: &str = r#"
[[reply]]
tools = [
    { name = "shell", input = { command = "echo step >> log.txt" } },
    { name = "submit_case", input = { summary = "A line more.", criteria = [{ criterion = "c", met_by = "log.txt" }] } },
]
[[reply]]
text = "That is my case."
repeat = true
"#;

const EVALUATOR: &str = r#"
[[reply]]
text = "```segue\n{\"verdict\":\"pass\"}\n```"
repeat = true
"#;

fn main() -> ExitCode {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load before: {} (of others; what is measured suffers from it)", load.trim());
    match bench() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(u8::from(std::env::var_os("SEGUE_BENCH_STRICT").is_some())),
        Err(error) => {
            println!("tasks: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Done<bool> {
    let tasks = std::env::var("SEGUE_BENCH_TASKS").ok().and_then(|text| text.parse().ok());
    let tasks: usize = tasks.unwrap_or(TASKS).max(2 * AROUND + 5);
    let long = list_of(tasks)?;
    // The 5th is measured once more when the last ones are: what else the machine does changes.
    let short = list_of(AROUND + 5)?;
    // The first of them is that of the second task.
    let early = |times: &[f64]| median(&times[3..3 + AROUND]);
    let late = median(&long[long.len() - AROUND..]);
    let ratio = late / early(&short);
    let word = if ratio <= MOST { "met" } else { "MISSED" };
    println!("{tasks} tasks: the 5th and those after it {:.1} ms each", early(&long) * 1e3);
    println!("the last {AROUND} {:.1} ms each", late * 1e3);
    println!(
        "the 5th and those after it of a short list, just after: {:.1} ms",
        early(&short) * 1e3
    );
    println!("ratio {ratio:.2}  (goal: at most {MOST}, {word})");
    Ok(ratio <= MOST)
}

/// Works through a list of so many tasks, and says how long each took.
fn list_of(tasks: usize) -> Done<Vec<f64>> {
    let dir = tempfile::tempdir()?;
    let repo = dir.path().join("repo");
    fs::create_dir_all(repo.join("plan"))?;
    fs::write(dir.path().join("worker.toml"), WORKER)?;
    fs::write(dir.path().join("evaluator.toml"), EVALUATOR)?;
    fs::write(repo.join("plan/overview.md"), "Many\n")?;
    for n in 1..=tasks {
        let page =
            format!("---\nid: T-{n:03}\ntitle: Step {n}\n---\n## Acceptance criteria\n- c\n");
        fs::write(repo.join(format!("plan/T-{n:03}.md")), page)?;
    }
    for args in [
        &["init", "-q", "-b", "main"][..],
        &["add", "."],
        &["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "plan"],
    ] {
        Command::new("git").args(args).current_dir(&repo).status()?;
    }
    let model = |name: &str| format!("native@script:{}", dir.path().join(name).display());
    let home = dir.path().join("home");
    let status = Command::new(SEGUE)
        .args(["tasks", "run", "plan", "--worker", &model("worker.toml")])
        .args(["--evaluator", &model("evaluator.toml")])
        .current_dir(&repo)
        .env("SEGUE_HOME", &home)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()?;
    if !status.success() {
        return Err(format!("the list was not finished: {status}").into());
    }
    let times = times(&home)?;
    match times.len() + 1 == tasks {
        true => Ok(times),
        false => Err(format!("{} commits of {tasks}", times.len() + 1).into()),
    }
}

/// How long each task but the first took, in seconds, by the journal's own clock: from the commit of
/// the one before to its own.
fn times(home: &Path) -> Done<Vec<f64>> {
    let home = Home::new(std::sync::Arc::new(RealDisk), home.to_owned());
    let at = home.numbered(1)?.ok_or("there is no session")?;
    let mut before: Option<Timestamp> = None;
    let mut times = Vec::new();
    home.open(&at)?.for_each(|event| {
        if let Body::WorkCommitted(_) = event.body {
            let since = before.replace(event.at).map(|before| event.at.duration_since(before));
            times.extend(since.map(|time| time.as_secs_f64()));
        }
    })?;
    Ok(times)
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}
