//! Power cuts: an import on a disk that loses what was not synced, cut at every call.

use std::{path::Path, sync::Arc};

use segue_journal::{Disk, Home, repair, session::JOURNAL};
use segue_testkit::disk::{Fault, SimDisk};

use crate::support::*;

fn on(disk: &SimDisk) -> Home {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Home::new(disk, "/home/me/.segue".into())
}

/// A session that can be seen is whole, and a second import completes.
fn completes(disk: &SimDisk, made: &Made, what: &str) {
    let home = on(disk);
    let journal = std::fs::read(made.dir.join(JOURNAL)).unwrap();
    for at in home.sessions().unwrap() {
        let session = home.open(&at).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(repair::verify(&session).unwrap().problems.is_empty(), "{what}");
    }
    let imported = take(&made.bundle, &home).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(imported.number, 1, "{what}");
    let dir = imported.dir.clone();
    drop(imported);
    let files = disk.files();
    assert_eq!(files[&dir.join(JOURNAL)], journal, "{what}");
    for (name, bytes) in carried(&made.dir) {
        assert_eq!(files.get(&dir.join(&name)), Some(&bytes), "{what}: {name}");
    }
    let hidden = |path: &Path| path.to_string_lossy().contains(".import-");
    assert!(!files.keys().any(|path| hidden(path)), "{what}: {:?}", files.keys());
}

#[test]
fn a_power_cut_at_every_call() {
    let made = made();
    let whole = SimDisk::new();
    drop(take(&made.bundle, &on(&whole)).unwrap());
    let calls = whole.calls();
    for n in 1..=calls {
        let disk = SimDisk::new();
        disk.fail_from(n, Fault::Eio);
        let result = take(&made.bundle, &on(&disk));
        let arrived = result.is_ok();
        completes(&disk.kill(), &made, &format!("killed at {n}"));
        for seed in 0..4 {
            let after = disk.crash(seed);
            // What was reported survives.
            if arrived {
                assert_eq!(on(&after).sessions().unwrap(), [at()], "cut at {n}, seed {seed}");
            }
            completes(&after, &made, &format!("cut at {n}, seed {seed}"));
        }
    }
    println!("{calls} calls, cut at each, 4 ways");
}
