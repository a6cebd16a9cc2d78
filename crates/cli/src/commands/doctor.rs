//! `segue doctor`: is everything in place that the promises rest on?

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command, time::Duration};

use segue_core::Exit;
use segue_journal::{Disk, RealDisk};
use segue_runner::{
    guardian::{Exit as ProcessExit, Guarded, Spec, Stdin},
    process,
};
use segue_view::{Filter, Index, table::plain_table};
use serde::Serialize;

use crate::{
    context::{Context, print},
    error::CommandResult,
};

/// Check that all is in place that the promises rest on
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue doctor
  segue doctor --home /mnt/other    would this place do?")]
pub(crate) struct Args {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Good,
    Odd,
    Bad,
}

#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    health: Health,
    finding: String,
}

pub(crate) fn run(context: &Context, _: &Args) -> CommandResult {
    let mut checks = vec![home(context.home.dir())];
    if context.home.dir().is_dir() {
        checks.extend([disk(context.home.dir()), locks(context.home.dir())]);
    }
    checks.extend([settings(context), git(), guardian()]);
    checks.extend(sessions(context));
    let bad = checks.iter().any(|check| check.health == Health::Bad);
    if context.json {
        context.print_json(&checks)?;
    } else {
        let rows: Vec<[String; 3]> = checks
            .iter()
            .map(|check| {
                let sign = match check.health {
                    Health::Good => "✓",
                    Health::Odd => "!",
                    Health::Bad => "✗",
                };
                [sign.to_owned(), check.what.to_owned(), check.finding.clone()]
            })
            .collect();
        print(plain_table(&rows, &context.out()).trim_end());
    }
    Ok(if bad { Exit::Failed } else { Exit::Done })
}

fn check(what: &'static str, result: Result<String, String>) -> Check {
    match result {
        Ok(finding) => Check { what, health: Health::Good, finding },
        Err(finding) => Check { what, health: Health::Bad, finding },
    }
}

fn odd(what: &'static str, finding: impl Into<String>) -> Check {
    Check { what, health: Health::Odd, finding: finding.into() }
}

fn home(dir: &Path) -> Check {
    let shown = dir.display();
    match fs::metadata(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            check("home", Ok(format!("{shown} (made by the first run)")))
        }
        Err(error) => check("home", Err(format!("{shown}: {error}"))),
        Ok(found) if !found.is_dir() => check("home", Err(format!("{shown} is not a directory"))),
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            odd("home", format!("{shown} can be read by others: chmod 700 {shown}"))
        }
        Ok(_) => check("home", Ok(shown.to_string())),
    }
}

fn disk(dir: &Path) -> Check {
    let path = dir.join(format!(".doctor-{}", std::process::id()));
    let disk: &dyn Disk = &RealDisk;
    let done =
        disk.replace(&path, b"written, synced and renamed\n").and_then(|()| fs::remove_file(&path));
    check(
        "disk",
        match done {
            Ok(()) => Ok("can be written and synced".to_owned()),
            Err(error) => Err(format!("{}: {error}", dir.display())),
        },
    )
}

fn locks(dir: &Path) -> Check {
    let path = dir.join(format!(".doctor-lock-{}", std::process::id()));
    let taken = RealDisk.try_lock(&path);
    let again = RealDisk.try_lock(&path);
    let _ = fs::remove_file(&path);
    check(
        "locks",
        match (taken, again) {
            (Ok(Some(_)), Ok(None)) => Ok("one writer at a time is kept".to_owned()),
            (Ok(_), Ok(_)) => {
                Err("this file system does not keep locks: use another home".to_owned())
            }
            (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
        },
    )
}

fn settings(context: &Context) -> Check {
    match context.config() {
        Ok(config) => check("settings", Ok(config.path.display().to_string())),
        Err(error) => check("settings", Err(error.to_string())),
    }
}

fn git() -> Check {
    match Command::new("git").arg("--version").output() {
        Ok(output) => check("git", Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())),
        Err(_) => odd("git", "is not installed: repositories are told apart by their path alone"),
    }
}

/// A command under a guardian, with a child that leaves its session: both have to be gone after.
fn guardian() -> Check {
    let marker = format!("doctor-{}", std::process::id());
    let spawned = Guarded::spawn(Spec {
        program: "sh".into(),
        args: vec!["-c".into(), "setsid sleep 600 & exit 7".into()],
        cwd: std::env::temp_dir(),
        env: vec![(process::SESSION_VAR.into(), marker.clone().into())],
        env_remove: Vec::new(),
        stdin: Stdin::Null,
        guardian: process::this_program(),
    });
    let result = spawned.map_err(|error| error.to_string()).and_then(|mut guarded| {
        let exit = guarded.wait_timeout(Duration::from_secs(10)).map_err(|e| e.to_string())?;
        guarded.kill_tree().map_err(|error| error.to_string())?;
        let left = process::end_leftovers(&marker, Duration::from_secs(2)).found;
        match exit {
            Some(ProcessExit::Code(7)) if left.is_empty() => {
                Ok("ends all that an agent has started".to_owned())
            }
            other => Err(format!("did not do its work: {other:?}, {} left", left.len())),
        }
    });
    check("guardian", result)
}

fn sessions(context: &Context) -> Vec<Check> {
    let listing = Index::open(&context.home).and_then(|mut index| {
        index.refresh()?;
        let notes = index.take_notes();
        Ok((notes, index.query(&Filter::default())?))
    });
    let (notes, listing) = match listing {
        Ok(found) => found,
        Err(error) => return vec![check("index", Err(error.to_string()))],
    };
    let mut checks: Vec<Check> = notes.into_iter().map(|note| odd("index", note)).collect();
    if checks.is_empty() {
        checks.push(check("index", Ok("is up to date".to_owned())));
    }
    let troubled = listing.rows.iter().filter_map(|row| Some((row, row.problem.as_ref()?)));
    let before = checks.len();
    for (row, problem) in troubled {
        let id = row.number.map_or_else(|| row.at.id.to_string(), |number| number.to_string());
        checks.push(odd("sessions", format!("{id}: {problem} (segue verify {id})")));
    }
    if checks.len() == before {
        checks.push(check(
            "sessions",
            Ok(format!(
                "{} without a problem at first sight (segue verify --all reads every byte)",
                listing.rows.len()
            )),
        ));
    }
    checks
}
