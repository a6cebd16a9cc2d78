//! Durable appends: Segue against a bare loop that writes the same bytes, and against SQLite.
//!
//! Each appends the same events in batches of 1, 10 and 50, and goes on with the next batch when
//! the disk has the last. The three take turns in every round, so that a slow moment of the machine
//! hits all of them; the medians of the rounds are compared.

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

const ROUNDS: usize = 9;

/// Events per batch, and batches per round.
const SIZES: [(usize, usize); 3] = [(1, 300), (10, 200), (50, 120)];

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn segue(session: &mut LockedSession, batches: Vec<Vec<Draft>>) -> Done<Duration> {
    let start = Instant::now();
    for batch in batches {
        session.append_all(batch, Durability::Synced)?;
    }
    Ok(start.elapsed())
}

fn bare(file: &mut File, batches: &[Vec<String>]) -> Done<Duration> {
    let batches: Vec<String> = batches.iter().map(|lines| lines.concat()).collect();
    let start = Instant::now();
    for batch in batches {
        file.write_all(batch.as_bytes())?;
        file.sync_data()?;
    }
    Ok(start.elapsed())
}

fn sqlite(connection: &mut Connection, batches: &[Vec<String>]) -> Done<Duration> {
    let start = Instant::now();
    for batch in batches {
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO events (line) VALUES (?1)")?;
            for line in batch {
                insert.execute([line])?;
            }
        }
        transaction.commit()?;
    }
    Ok(start.elapsed())
}

fn open_sqlite(path: &Path) -> Done<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute(
        "CREATE TABLE events (seq INTEGER PRIMARY KEY, line TEXT NOT NULL)",
        (),
    )?;
    Ok(connection)
}

/// The lines that a journal got since `from`.
fn lines_since(session: &LockedSession, from: u64) -> Done<Vec<String>> {
    let text = fs::read_to_string(session.session().dir().join("journal.jsonl"))?;
    let new = &text[usize::try_from(from)?..];
    Ok(new.split_inclusive('\n').map(str::to_owned).collect())
}

/// Seconds of each of the three in each round.
fn rounds(dir: &Path, size: usize, count: usize) -> Done<Vec<[f64; 3]>> {
    let mut session = create(dir)?;
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(dir.join("bare.jsonl"))?;
    let mut connection = open_sqlite(&dir.join("events.db"))?;
    let mut seconds = Vec::new();
    // The first round warms up and is not counted.
    for _ in 0..=ROUNDS {
        let batches = (0..count)
            .map(|batch| (0..size).map(|n| draft(batch * size + n)).collect())
            .collect();
        let from = session.session().position().offset;
        let one = segue(&mut session, batches)?;
        let lines = lines_since(&session, from)?;
        let same: Vec<Vec<String>> = lines.chunks(size).map(<[String]>::to_vec).collect();
        let two = bare(&mut file, &same)?;
        let three = sqlite(&mut connection, &same)?;
        seconds.push([one, two, three].map(|time| time.as_secs_f64()));
    }
    Ok(seconds.split_off(1))
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand events")]
fn run(goals: &mut Goals) -> Done {
    println!("batch   segue/s    bare/s  sqlite/s   segue/bare  segue/sqlite");
    let mut ratios = Vec::new();
    for (size, count) in SIZES {
        let dir = place()?;
        let rounds = rounds(dir.path(), size, count)?;
        let of = |pick: &dyn Fn(&[f64; 3]) -> f64| {
            median(&rounds.iter().map(pick).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        };
        let events = (size * count) as f64;
        let [segue, bare, sqlite] = [0, 1, 2].map(|n| events / of(&|round| round[n]));
        let to_bare = of(&|round| round[1] / round[0]);
        let to_sqlite = of(&|round| round[2] / round[0]);
        println!(
            "{size:>5} {segue:>9.0} {bare:>9.0} {sqlite:>9.0} {to_bare:>12.3} {to_sqlite:>13.3}"
        );
        ratios.push((size, to_bare, to_sqlite));
    }
    for (size, to_bare, to_sqlite) in ratios {
        goals.check(
            &format!("segue/bare, batches of {size}"),
            to_bare,
            "≥ 0.8",
            to_bare >= 0.8,
        );
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
