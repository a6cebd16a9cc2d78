//! SIGKILL at any moment, thousands of times.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use segue_testkit::kill::{
    Checked, Dice, Reported, Running, Tally, Work, check, kill_loop, next_command, work::Call,
};

use crate::support;

const KILLS: u64 = 2_000;
const WORKERS: u64 = 2;

#[test]
fn nothing_reported_is_lost_and_nothing_is_done_twice() {
    let seed = std::env::var("SEGUE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let started = Instant::now();
    let program = Path::new(env!("CARGO_BIN_EXE_segue"));
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let seed = seed + 1_000 * worker;
                scope.spawn(move || kill_loop(program, seed, KILLS / WORKERS))
            })
            .collect();
        for worker in workers {
            let done = worker.join().expect("no panic");
            tally.add(&done.unwrap_or_else(|broken| panic!("{broken}")));
        }
    });
    eprintln!("{tally:?} in {:?}", started.elapsed());
    assert!(tally.kills >= KILLS, "{tally:?}");
    let hit = [
        ("before the session was there", tally.before_creation, 20),
        // A moment of a millisecond: on a busy machine it is seldom hit.
        ("before its first run", tally.not_started, 1),
        ("during a model call", tally.mid_model, 50),
        ("during a tool", tally.mid_tool, 50),
        ("during the proof", tally.mid_proof, 5),
        ("between", tally.between, 10),
        ("after the stop", tally.after_stop, 5),
    ];
    for (place, times, wanted) in hit {
        assert!(times >= wanted, "killed {place} only {times} times: {tally:?}");
    }
}

/// Without a pause: what the dead process held or was starting must not be in the way.
#[test]
fn a_resume_works_at_once_after_a_kill() {
    let mut dice = Dice::new(7);
    for round in 0..60 {
        let env = support::env();
        let work = Work::one_turn(vec![vec![Call::Quick, Call::Slow, Call::Background]]);
        let model = env.script(&work.script()).expect("script");
        let start = |found: Option<&Checked>| {
            Running::start(&env, next_command(&env, &work, &model, found)).expect("started")
        };
        let mut running = start(None);
        let tools = usize::try_from(dice.below(3)).expect("small") + 1;
        let is_start = |event: &&Reported| event.kind == "tool.started";
        running.wait_for(|seen| seen.iter().filter(is_start).count() >= tools).expect("output");
        thread::sleep(Duration::from_micros(dice.below(3_000)));
        running.kill().expect("killed");
        let mut command = env.command(["resume", "1", "--json"]);
        command.env_remove("SEGUE_CLOCK");
        let mut again = Running::start(&env, command).expect("started");
        assert_eq!(again.wait().expect("ended"), 0, "round {round}: {}", again.stderr());
        let found = check::after(&env, &again.reported().expect("output"));
        let found = found.unwrap_or_else(|broken| panic!("{broken}")).expect("a session");
        assert!(work.is_complete(&found.events), "round {round}");
        work.check(&env.repo(), &found.events).unwrap_or_else(|broken| panic!("{broken}"));
    }
}
