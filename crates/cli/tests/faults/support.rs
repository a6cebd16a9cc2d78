//! What several of these tests need.

use std::{
    fmt::Debug,
    fs, io,
    path::Path,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use segue_testkit::{
    env::TestEnv,
    kill::{Broken, Checked, Running, Work, check, next_command},
};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_segue");

pub(crate) fn env() -> TestEnv {
    TestEnv::new(PROGRAM).expect("a place for the test")
}

/// Whether a test can go on. Where it can't it says so, and fails where nothing may be left out.
pub(crate) fn can(test: &str, what: &str, possible: bool) -> bool {
    if !possible {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} can't run here: {what}");
        eprintln!("NOT RUN: {test}: {what}");
    }
    possible
}

/// Whether a program runs and ends well.
pub(crate) fn works(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

/// Kills at each of the points, in several places side by side. Whatever broke is a failure; what was
/// never reached is given back.
pub(crate) fn kill_at_each<L: Sync, P: Debug + Sync>(
    test: &str,
    labs: &[L],
    points: &[P],
    kill_at: impl Fn(&L, &P) -> Result<bool, Broken> + Sync,
) -> Vec<String> {
    let started = Instant::now();
    let next = AtomicUsize::new(0);
    let (broken, missed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for lab in labs {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match kill_at(lab, point) {
                        Ok(true) => {}
                        Ok(false) => missed.lock().expect("no panic").push(format!("{point:?}")),
                        Err(what) => {
                            broken.lock().expect("no panic").push(format!("{point:?}: {what}"));
                        }
                    }
                }
            });
        }
    });
    let all = points.len();
    let (broken, missed) = (broken.into_inner(), missed.into_inner());
    let (broken, missed) = (broken.expect("no panic"), missed.expect("no panic"));
    let hits = all - missed.len() - broken.len();
    eprintln!("{test}: {hits} of {all} calls hit in {:?}", started.elapsed());
    assert!(broken.is_empty(), "{test}: {} of {all}:\n{}", broken.len(), broken.join("\n"));
    missed
}

/// Makes `to` a copy of `from`, whatever was there before.
pub(crate) fn replace_dir(from: &Path, to: &Path) -> io::Result<()> {
    match fs::remove_dir_all(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    copy_dir(from, to)
}

fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Looks at what a process left behind, then goes on until the work is done, and looks again.
pub(crate) fn check_and_finish(
    env: &TestEnv,
    work: &Work,
    model: &str,
    running: &Running,
) -> Result<Option<Checked>, Broken> {
    let first = look(env, work, running)?;
    let command = match first.as_ref().filter(|found| work.is_complete(&found.events)) {
        // Nothing is left to do, and it has to say so.
        Some(found) => env.command(["resume", &found.id, "--json"]),
        None => next_command(env, work, model, first.as_ref()),
    };
    let mut again = Running::start(env, command)?;
    let status = again.wait()?;
    if status != 0 {
        let place = format!("going on: status {status}");
        return Err(Broken::new(again.stderr()).at(&place));
    }
    let last = look(env, work, &again)?;
    match last {
        Some(last) if work.is_complete(&last.events) => Ok(first),
        other => Err(Broken::new(format!("it did not come to its end: {other:?}"))),
    }
}

fn look(env: &TestEnv, work: &Work, running: &Running) -> Result<Option<Checked>, Broken> {
    let found = check::after(env, &running.reported()?)?;
    if let Some(found) = &found {
        work.check(&env.repo(), &found.events)?;
    }
    Ok(found)
}
