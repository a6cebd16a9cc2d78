//! Durable appends: Segue against a bare loop that writes the same bytes, and against SQLite.
//!
//! Each appends the same events in batches of 1, 10 and 50, and goes on with the next batch when
//! the disk has the last. The three take turns batch by batch, each first as often as the others,
//! so that a slow moment of the machine hits all of them. What is compared is the median of the
//! times that a batch took.

mod support;

use std::{
    error::Error,
    fs::{self, File, OpenOptions},
    io::Write,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use segue_core::event::Draft;
use segue_journal::{Durability, LockedSession};
use support::{Goals, create, draft, median, place};

/// Events per batch, and how many batches.
const SIZES: [(usize, usize); 3] = [(1, 1500), (10, 900), (50, 600)];

/// Batches that warm up and are not counted.
const WARM_UP: usize = 50;

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn segue(session: &mut LockedSession, batch: Vec<Draft>) -> Done<Duration> {
    let start = Instant::now();
    session.append_all(batch, Durability::Synced)?;
    Ok(start.elapsed())
}

fn bare(file: &mut File, batch: &[String]) -> Done<Duration> {
    let bytes = batch.concat();
    let start = Instant::now();
    file.write_all(bytes.as_bytes())?;
    file.sync_data()?;
    Ok(start.elapsed())
}

fn sqlite(connection: &mut Connection, batch: &[String]) -> Done<Duration> {
    let start = Instant::now();
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare_cached("INSERT INTO events (line) VALUES (?1)")?;
        for line in batch {
            insert.execute([line])?;
        }
    }
    transaction.commit()?;
    Ok(start.elapsed())
}

fn open_sqlite(path: &Path) -> Done<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, line TEXT NOT NULL)", ())?;
    Ok(connection)
}

/// The lines of a batch as a journal has them.
fn lines(dir: &Path, size: usize) -> Done<Vec<String>> {
    let mut session = create(dir)?;
    segue(&mut session, (0..size).map(draft).collect())?;
    let text = fs::read_to_string(session.session().dir().join("journal.jsonl"))?;
    Ok(text.split_inclusive('\n').skip(1).map(str::to_owned).collect())
}

/// The seconds that each of the three took, batch by batch.
fn measure(dir: &Path, size: usize, count: usize) -> Done<[Vec<f64>; 3]> {
    let lines = lines(&dir.join("lines"), size)?;
    let mut session = create(dir)?;
    let mut file = OpenOptions::new().append(true).create(true).open(dir.join("bare.jsonl"))?;
    let mut connection = open_sqlite(&dir.join("events.db"))?;
    let mut seconds = [const { Vec::new() }; 3];
    for n in 0..WARM_UP + count {
        for turn in 0..3 {
            let who = (n + turn) % 3;
            let taken = match who {
                0 => segue(&mut session, (n * size..(n + 1) * size).map(draft).collect())?,
                1 => bare(&mut file, &lines)?,
                _ => sqlite(&mut connection, &lines)?,
            };
            if n >= WARM_UP {
                seconds[who].push(taken.as_secs_f64());
            }
        }
    }
    Ok(seconds)
}

#[expect(clippy::cast_precision_loss, reason = "batches are small")]
fn run(goals: &mut Goals) -> Done {
    println!("batch   segue/s    bare/s  sqlite/s   segue/bare  segue/sqlite");
    let mut ratios = Vec::new();
    for (size, count) in SIZES {
        let dir = place()?;
        let seconds = measure(dir.path(), size, count)?;
        let [segue, bare, sqlite] =
            seconds.map(|seconds| size as f64 / median(&seconds).unwrap_or(f64::NAN));
        let (to_bare, to_sqlite) = (segue / bare, segue / sqlite);
        println!(
            "{size:>5} {segue:>9.0} {bare:>9.0} {sqlite:>9.0} {to_bare:>12.3} {to_sqlite:>13.3}"
        );
        ratios.push((size, to_bare, to_sqlite));
    }
    for (size, to_bare, to_sqlite) in ratios {
        goals.check(&format!("segue/bare, batches of {size}"), to_bare, "≥ 0.8", to_bare >= 0.8);
        let what = format!("segue/sqlite, batches of {size}");
        goals.check(&what, to_sqlite, "> 1", to_sqlite > 1.0);
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut goals = Goals::default();
    match run(&mut goals) {
        Ok(()) => goals.exit(),
        Err(error) => {
            eprintln!("append: {error}");
            ExitCode::FAILURE
        }
    }
}
