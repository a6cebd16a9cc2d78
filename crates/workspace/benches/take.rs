//! How long a snapshot takes in a clean repository of 50,000 files, beside `git status`.
//!
//! `cargo bench -p segue-workspace` prints the medians of runs in turn, and their ratio. The number
//! of files can be given: `cargo bench -p segue-workspace -- 10000`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "not part of the product")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use segue_workspace::{Opened, Snapshots};

const ROUNDS: usize = 15;

fn git(dir: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(dir).args(["-c", "user.name=B", "-c", "user.email=b@b"]).args(args);
    assert!(command.output().unwrap().status.success(), "git {args:?}");
}

fn build(top: &Path, files: usize) {
    git(top, &["init", "-q"]);
    for number in 0..files {
        let dir = top.join(format!("d{}/e{}/f{}", number % 20, number / 20 % 25, number / 500 % 5));
        if number < 2500 {
            std::fs::create_dir_all(&dir).unwrap();
        }
        std::fs::write(dir.join(format!("file-{number}.rs")), format!("file {number}\n")).unwrap();
    }
    git(top, &["add", "-A"]);
    git(top, &["commit", "-q", "-m", "all"]);
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() {
    let files = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(50_000);
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), files);
    git(dir.path(), &["status"]);
    let Opened::Ready(snapshots) = Snapshots::open(dir.path(), "bench").unwrap() else {
        panic!("no repository")
    };
    let start = Instant::now();
    snapshots.take("refs/segue/bench/0", "first").unwrap();
    println!("files {files}, first snapshot {:?}", start.elapsed());
    let (mut status, mut clean, mut dirty) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let start = Instant::now();
        git(dir.path(), &["status", "--porcelain"]);
        status.push(start.elapsed());
        let start = Instant::now();
        snapshots.take(&format!("refs/segue/bench/{round}"), "clean").unwrap();
        clean.push(start.elapsed());
    }
    for round in 0..ROUNDS {
        for number in 0..10 {
            let text = format!("changed {round}\n");
            std::fs::write(dir.path().join(format!("d{number}/e0/f0/file-{number}.rs")), text)
                .unwrap();
        }
        let start = Instant::now();
        snapshots.take(&format!("refs/segue/bench/{round}"), "dirty").unwrap();
        dirty.push(start.elapsed());
    }
    let (status, clean, dirty) = (median(status), median(clean), median(dirty));
    println!("git status {status:?}, clean snapshot {clean:?}, with 10 changed files {dirty:?}");
    println!("ratio {:.2}", clean.as_secs_f64() / status.as_secs_f64());
}
