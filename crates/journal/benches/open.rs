//! Opening a session of a million events, against reading its file once.

mod support;

use std::{
    error::Error,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use segue_core::event::Draft;
use segue_journal::{Durability, RealDisk, Session};
use support::{Goals, create, draft, median, place};

const EVENTS: usize = 1_000_000;
const BATCH: usize = 1000;

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn timed<T>(times: usize, mut work: impl FnMut() -> Done<T>) -> Done<Duration> {
    let mut taken = Vec::new();
    for _ in 0..times {
        let start = Instant::now();
        std::hint::black_box(work()?);
        taken.push(start.elapsed());
    }
    median(&taken).ok_or_else(|| "nothing was measured".into())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn write(dir: &Path) -> Done<PathBuf> {
    let mut session = create(dir)?;
    for batch in 0..EVENTS / BATCH {
        let drafts: Vec<Draft> = (0..BATCH).map(|n| draft(batch * BATCH + n)).collect();
        session.append_all(drafts, Durability::Soon)?;
    }
    session.append(draft(0), Durability::Synced)?;
    Ok(session.session().dir().to_owned())
}

fn read_once(path: &Path) -> Done<u64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut sum = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sum),
            n => sum += n as u64,
        }
    }
}

fn run(goals: &mut Goals) -> Done {
    let place = place()?;
    let start = Instant::now();
    let dir = write(place.path())?;
    let journal = dir.join("journal.jsonl");
    let bytes = fs::metadata(&journal)?.len();
    println!("{EVENTS} events, {} MB, written in {:.1?}", bytes / 1_000_000, start.elapsed());

    let open = || Ok(Session::open(Arc::new(RealDisk), &dir)?);
    let read = timed(5, || read_once(&journal))?;
    let opened = timed(21, open)?;
    println!("read once              {:>10.3} ms", millis(read));
    println!("open with snapshot     {:>10.3} ms", millis(opened));

    fs::rename(dir.join("state.json"), dir.join("state.json.aside"))?;
    let folded = timed(1, open)?;
    println!("open without snapshot  {:>10.3} ms", millis(folded));
    let session = open()?;
    let walked = timed(1, || {
        let mut events = 0u64;
        session.for_each(|_| events += 1)?;
        Ok(events)
    })?;
    println!("every event            {:>10.3} ms", millis(walked));
    let ratio = opened.as_secs_f64() / read.as_secs_f64();
    goals.check("open/read once", ratio, "≤ 0.02", ratio <= 0.02);
    Ok(())
}

fn main() -> ExitCode {
    let mut goals = Goals::default();
    match run(&mut goals) {
        Ok(()) => goals.exit(),
        Err(error) => {
            eprintln!("open: {error}");
            ExitCode::FAILURE
        }
    }
}
