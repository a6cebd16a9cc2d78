//! A disk that fails at any one call, or from some call on: what was reported stays, the message
//! says what happened and what helps, and the session goes on when the disk is well again.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use segue_testkit::kill::{Broken, Running};

use crate::{
    strace::{Point, Scenario},
    support::{can, check_and_finish, works},
};

const WORKERS: usize = 2;

/// What reaches a disk.
const CALLS: [&str; 12] = [
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "mkdir",
    "ftruncate",
    "flock",
];

#[test]
fn a_run_survives_every_error_of_the_disk() {
    every_error("a_run_survives_every_error_of_the_disk", Scenario::run);
}

#[test]
fn a_resume_survives_every_error_of_the_disk() {
    every_error("a_resume_survives_every_error_of_the_disk", Scenario::resume);
}

/// One way to fail: the point, the error, and whether it stays.
struct Fault {
    point: Point,
    error: &'static str,
    stays: bool,
}

fn faults(points: Vec<Point>) -> Vec<Fault> {
    let all = points.into_iter().filter(|point| CALLS.contains(&point.call.as_str()));
    all.flat_map(|point| {
        let fault = |error, stays| Fault { point: point.clone(), error, stays };
        let once = [fault("EIO", false), fault("ENOSPC", false)];
        // A full disk stays full; a dead one stays dead.
        let for_good = [fault("ENOSPC", true), fault("EIO", true)];
        let persistent = point.call != "flock";
        once.into_iter().chain(for_good.into_iter().filter(move |_| persistent))
    })
    .collect()
}

fn every_error(name: &str, scenario: fn() -> Scenario) {
    if !can(name, "strace is missing", works("strace", &["-V"])) {
        return;
    }
    let started = Instant::now();
    let scenarios: Vec<Scenario> = (0..WORKERS).map(|_| scenario()).collect();
    let faults = faults(scenarios[0].points(&[]));
    let next = AtomicUsize::new(0);
    let stopped = AtomicUsize::new(0);
    let broken = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for scenario in &scenarios {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match fail_at(scenario, fault) {
                        Ok(status) => {
                            stopped.fetch_add(usize::from(status != 0), Ordering::Relaxed);
                        }
                        Err(what) => {
                            let Fault { point, error, stays } = fault;
                            let what = format!("{point:?} {error} stays={stays}: {what}");
                            broken.lock().expect("no panic").push(what);
                        }
                    }
                }
            });
        }
    });
    let stopped = stopped.into_inner();
    eprintln!("{name}: {} errors, {stopped} stopped it, in {:?}", faults.len(), started.elapsed());
    let broken = broken.into_inner().expect("no panic");
    assert!(
        broken.is_empty(),
        "{name}: {} of {}:\n{}",
        broken.len(),
        faults.len(),
        broken.join("\n")
    );
    assert!(stopped * 4 >= faults.len(), "the errors did not arrive");
}

fn fail_at(scenario: &Scenario, fault: &Fault) -> Result<i32, Broken> {
    let Fault { point: Point { call, nth }, error, stays } = fault;
    let trace = format!("trace={call}");
    let plus = if *stays { "+" } else { "" };
    let inject = format!("inject={call}:error={error}:when={nth}{plus}");
    let (running, status) = scenario.strace(&["-o", "/dev/null", "-e", &trace, "-e", &inject])?;
    if status != 0 {
        helps(&running, status)?;
    }
    check_and_finish(&scenario.env, &scenario.work, &scenario.model, &running)?;
    Ok(status)
}

/// The message names the file and a way out.
fn helps(running: &Running, status: i32) -> Result<(), Broken> {
    let text = running.stderr();
    let wrong = |what: &str| Err(Broken::new(format!("{what}: status {status}: {text:?}")));
    if status != 1 {
        return wrong("a strange status");
    }
    // Where stderr itself could not be written there is nothing to read.
    let Some(line) = text.lines().last() else { return Ok(()) };
    let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else {
        return wrong("the last line is not JSON");
    };
    let error = &message["error"];
    let names = |text: &str| text.contains('/') || text.starts_with("standard output");
    if !error["message"].as_str().is_some_and(names) {
        return wrong("it does not say where");
    }
    if error["hints"].as_array().is_none_or(Vec::is_empty) {
        return wrong("it does not say what helps");
    }
    Ok(())
}
