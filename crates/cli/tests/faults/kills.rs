//! SIGKILL at any moment, thousands of times.

use std::{path::Path, thread, time::Instant};

use segue_testkit::kill::{Tally, kill_loop};

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
        ("before its first run", tally.not_started, 5),
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
