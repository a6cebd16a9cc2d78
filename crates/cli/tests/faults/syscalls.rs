//! SIGKILL at every system call of a scenario.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use segue_testkit::kill::{Broken, Tally, check};

use crate::{
    strace::{Point, Scenario},
    support::{can, check_and_finish, works},
};

const WORKERS: usize = 2;

#[test]
fn a_run_can_be_killed_at_every_system_call() {
    every_call("a_run_can_be_killed_at_every_system_call", Scenario::run, false);
}

#[test]
fn a_resume_can_be_killed_at_every_system_call() {
    every_call("a_resume_can_be_killed_at_every_system_call", Scenario::resume, false);
}

/// The thread that writes the journal makes calls of the same names as the others, which would be
/// hit first: here only what touches the journal counts.
#[test]
fn a_resume_can_be_killed_at_every_call_that_touches_the_journal() {
    let name = "a_resume_can_be_killed_at_every_call_that_touches_the_journal";
    every_call(name, Scenario::resume, true);
}

fn every_call(name: &str, scenario: fn() -> Scenario, journal_only: bool) {
    if !can(name, "strace is missing", works("strace", &["-V"])) {
        return;
    }
    let started = Instant::now();
    let scenarios: Vec<Scenario> = (0..WORKERS).map(|_| scenario()).collect();
    let points = scenarios[0].points(&as_strs(&filter(&scenarios[0], journal_only)));
    let next = AtomicUsize::new(0);
    let total = Mutex::new((Tally::default(), 0));
    let broken = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for scenario in &scenarios {
            scope.spawn(|| {
                let filter = filter(scenario, journal_only);
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut tally = Tally::default();
                    match kill_at(scenario, point, &filter, &mut tally) {
                        Err(what) => {
                            broken.lock().expect("no panic").push(format!("{point:?}: {what}"))
                        }
                        Ok(hit) => {
                            let mut total = total.lock().expect("no panic");
                            total.0.add(&tally);
                            total.1 += usize::from(!hit);
                        }
                    }
                }
            });
        }
    });
    let (tally, missed) = total.into_inner().expect("no panic");
    eprintln!(
        "{name}: {} calls, {missed} of a child or not reached, {tally:?} in {:?}",
        points.len(),
        started.elapsed()
    );
    let broken = broken.into_inner().expect("no panic");
    assert!(
        broken.is_empty(),
        "{name}: {} of {}:\n{}",
        broken.len(),
        points.len(),
        broken.join("\n")
    );
    // How often threads wait for each other differs from run to run, and a child that is about to
    // execute its program may be hit instead.
    assert!(tally.kills * 10 >= points.len() as u64 * 6, "too few were hit: {tally:?}");
}

/// Limits strace to one file, where that is asked for.
fn filter(scenario: &Scenario, journal_only: bool) -> Vec<String> {
    if !journal_only {
        return Vec::new();
    }
    let dir = check::only_session(&scenario.env).expect("readable").expect("a session");
    vec!["-P".to_owned(), dir.join("journal.jsonl").to_string_lossy().into_owned()]
}

fn as_strs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// Says whether anything was killed.
fn kill_at(
    scenario: &Scenario,
    point: &Point,
    filter: &[String],
    tally: &mut Tally,
) -> Result<bool, Broken> {
    let Point { call, nth } = point;
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:signal=KILL:when={nth}");
    let mut options = vec!["-o", "/dev/null", "-e", &trace, "-e", &inject];
    options.extend(as_strs(filter));
    let (running, status) = scenario.strace(&options)?;
    let found = check_and_finish(&scenario.env, &scenario.work, &scenario.model, &running)?;
    match status {
        137 => tally.count(&scenario.env, found.as_ref()),
        // A program that was about to be started was hit instead, or nobody.
        0 => {}
        other => return Err(Broken::new(format!("status {other}: {}", running.stderr()))),
    }
    Ok(status == 137)
}
