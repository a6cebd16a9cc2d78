//! Bytes that changed on the way: never a panic, never another session.

use std::{fs, path::Path};

use crate::support::*;

/// Imports what may be broken. What comes of it is what was exported, or nothing.
fn try_it(made: &Made, n: usize, bytes: &[u8]) -> bool {
    let bundle = made.tmp.path().join("bent.segue");
    fs::write(&bundle, bytes).unwrap();
    let dir = made.tmp.path().join("bent");
    let there = home(&dir);
    let arrived = match take(&bundle, &there) {
        Ok(imported) => {
            assert_eq!(carried(&imported.dir), carried(&made.dir), "case {n}");
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert_nothing(&dir, &format!("case {n}: {error}"));
            false
        }
    };
    let _ = fs::remove_dir_all(&dir);
    arrived
}

/// No session, no number and no leftovers.
pub(crate) fn assert_nothing(home: &Path, what: &str) {
    let mut left = tree(home);
    left.retain(|name, _| ![".gitignore", "sessions/"].contains(&name.as_str()));
    assert!(left.is_empty(), "{what}: {:?}", left.keys());
}

#[test]
fn flipped_bytes() {
    let made = made();
    let whole = fs::read(&made.bundle).unwrap();
    let mut random = Random(1);
    let mut arrived = 0;
    for n in 0..600 {
        let mut bent = whole.clone();
        // The first bytes and the last ones have the most to say.
        let at = match n % 4 {
            0 => n / 4 % 64,
            1 => whole.len() - 1 - n / 4 % 64,
            _ => (random.next() % whole.len() as u64) as usize,
        };
        bent[at] ^= ((random.next() % 255) + 1) as u8;
        arrived += usize::from(try_it(&made, n, &bent));
    }
    println!("{} bytes, 600 flips, {arrived} without effect", whole.len());
}

#[test]
fn ends_that_come_too_early() {
    let made = made();
    let whole = fs::read(&made.bundle).unwrap();
    let mut random = Random(2);
    for n in 0..200 {
        let end = match n {
            0..100 => n,
            100..200 => whole.len() - 1 - (n - 100),
            _ => (random.next() % whole.len() as u64) as usize,
        };
        assert!(!try_it(&made, n, &whole[..end]), "cut at {end}");
    }
    assert!(try_it(&made, 200, &whole));
}

/// The checks behind the compression's checksum, too: the tar is bent and packed again.
#[test]
fn a_thousand_flips_inside() {
    let made = made();
    let tar = zstd::decode_all(&fs::read(&made.bundle).unwrap()[..]).unwrap();
    let mut random = Random(3);
    let mut arrived = 0;
    for n in 0..1000 {
        let mut bent = tar.clone();
        let at = (random.next() % tar.len() as u64) as usize;
        bent[at] ^= ((random.next() % 255) + 1) as u8;
        arrived += usize::from(try_it(&made, n, &squeeze(&bent)));
    }
    println!("{} bytes, 1000 flips inside, {arrived} without effect", tar.len());
}
