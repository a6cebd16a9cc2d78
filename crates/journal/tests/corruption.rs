//! Every way that a journal's bytes can be wrong, exhaustively: at least 200,000 files.
//!
//! For each of them: nothing panics; what is recovered is a true prefix of what was written, byte
//! for byte, and no shorter than the change allows; the change is seen; a torn file can be written
//! to again with the removed bytes kept aside; a damaged one is left as it is.
//!
//! What to expect is worked out by an oracle that knows the written lines and nothing of checksums.
//! Most files are scanned from a line shortly before the change, since a scan carries nothing but
//! its [`Position`] from line to line. A sample goes through a whole opening for writing.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

#[path = "support/oracle.rs"]
mod oracle;
#[path = "support/script.rs"]
mod script;
mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use segue_core::event::Body;
use segue_journal::{
    Error, Session,
    scan::{Ending, Finding, Position, Scanner},
};
use segue_testkit::disk::SimDisk;

use oracle::{End, Journal, Memory, written};
use support::{counting_clock, me};

/// How many states each group has at least. What they add up to is the promise.
const TRUNCATIONS: usize = 300_000;
const FLIPS: usize = 30_000;
const SECTORS: usize = 2_000;
const LINES: usize = 10_000;
const _: () = assert!(TRUNCATIONS + FLIPS + SECTORS + LINES >= 200_000);

const SECTOR: usize = 512;
const TAIL_LINES: usize = 50;

/// Calls `check` for each number below `states`, on as many threads as there are processors.
fn each(states: usize, check: impl Fn(usize) + Sync) -> usize {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let state = next.fetch_add(1, Ordering::Relaxed);
                    if state >= states {
                        return;
                    }
                    check(state);
                }
            });
        }
    });
    states
}

fn both() -> [Journal; 2] {
    [written(1), written(9)]
}

#[test]
fn the_journal_is_like_a_real_one() {
    let [single, grouped] = both();
    assert!(single.count() >= 300 && single.count() == grouped.count(), "{}", single.count());
    assert!(single.bytes.len() > 80_000, "{}", single.bytes.len());
    let text = String::from_utf8(single.bytes).unwrap();
    for kind in Body::KINDS {
        assert!(text.contains(&format!("\"kind\":\"{kind}\"")), "{kind}");
    }
}

#[test]
fn cut_at_every_byte() {
    let mut states = 0;
    for journal in both() {
        let known = &journal.vouches;
        let last = journal.count() as u64;
        states += each(journal.bytes.len(), |cut| {
            let first = journal.line_at(cut).saturating_sub(2);
            let tail = &journal.bytes[journal.start(first)..cut];
            journal.check(first, tail, cut, known);
            if cut.is_multiple_of(211) || cut == journal.start(journal.line_at(cut)) {
                journal.open_for_writing(&journal.bytes[..cut], known);
            }
        });
        // The same where a snapshot says that the last event had been on the disk.
        states += each(journal.bytes.len(), |cut| {
            let first = journal.line_at(cut).saturating_sub(2);
            let memory = Memory {
                base: journal.start(first),
                bytes: &journal.bytes[journal.start(first)..cut],
            };
            let mut scanner = Scanner::new(&memory, Position { synced: last, ..journal.at[first] });
            while scanner.next_event().unwrap().is_some() {}
            assert_eq!(scanner.position().seq, journal.line_at(cut) as u64);
            assert!(matches!(scanner.ending().unwrap(), Ending::Damaged(_)), "{cut}");
        });
    }
    println!("cut: {states} states");
    assert!(states >= TRUNCATIONS, "{states}");
}

#[test]
fn every_bit_of_the_last_ten_records() {
    let mut states = 0;
    for journal in both() {
        let first = journal.count() - 12;
        let base = journal.start(first);
        let from = journal.start(journal.count() - 10);
        states += each((journal.bytes.len() - from) * 8, |state| {
            let at = from + state / 8;
            let mut tail = journal.bytes[base..].to_vec();
            tail[at - base] ^= 1 << (state % 8);
            journal.check(first, &tail, at, &journal.vouches);
            if state.is_multiple_of(97) {
                let file = [&journal.bytes[..base], &tail[..]].concat();
                journal.open_for_writing(&file, &journal.vouches);
            }
        });
    }
    println!("flipped: {states} states");
    assert!(states >= FLIPS, "{states}");
}

#[test]
fn sectors_that_were_never_written() {
    let mut states = 0;
    for journal in both() {
        let sectors = journal.bytes.len().div_ceil(SECTOR);
        let wipe = |file: &mut [u8], sector: usize, with: u8| {
            let end = file.len().min((sector + 1) * SECTOR);
            file[sector * SECTOR..end].fill(with);
        };
        let check = |file: &[u8], changed: usize, whole_opening: bool| {
            let first = journal.line_at(changed).saturating_sub(2);
            journal.check(first, &file[journal.start(first)..], changed, &journal.vouches);
            if whole_opening {
                journal.open_for_writing(file, &journal.vouches);
            }
        };
        // Each one alone, over the whole file and so over the last 64 KiB; each with all after it.
        states += each(sectors * 4, |state| {
            let (sector, how) = (state / 4, state % 4);
            let mut file = journal.bytes.clone();
            let last = if how < 2 { sector + 1 } else { sectors };
            let with = if how % 2 == 0 { 0 } else { 0xff };
            (sector..last).for_each(|sector| wipe(&mut file, sector, with));
            check(&file, sector * SECTOR, true);
        });
        // Each two of the last 16 KiB, and zeros where the file had not grown to yet.
        let from = sectors - 32;
        states += each(32 * 32, |state| {
            let (one, other) = (from + state / 32, from + state % 32);
            let mut file = journal.bytes.clone();
            wipe(&mut file, one, 0);
            wipe(&mut file, other, 0);
            check(&file, one.min(other) * SECTOR, state.is_multiple_of(7));
        });
        states += each(64, |sectors| {
            let mut file = journal.bytes.clone();
            file.resize(file.len() + (sectors + 1) * SECTOR, 0);
            check(&file, journal.bytes.len(), true);
        });
    }
    println!("sectors: {states} states");
    assert!(states >= SECTORS, "{states}");
}

/// The last lines, put together in another way.
fn rearranged(journal: &Journal, lines: impl Iterator<Item = usize>) -> Vec<u8> {
    lines.flat_map(|line| journal.line(line).iter().copied()).collect()
}

#[test]
fn lines_that_are_doubled_moved_gone_or_of_another_session() {
    let journals = both();
    let mut states = 0;
    for (journal, other) in [(&journals[0], &journals[1]), (&journals[1], &journals[0])] {
        let count = journal.count();
        let first = count - TAIL_LINES;
        let base = journal.start(first);
        let mut known = journal.vouches.clone();
        known.extend(other.vouches.iter().map(|(line, &synced)| (line.clone(), synced)));
        let check = |state: usize, tail: &[u8], changed: usize| {
            assert_ne!(tail, &journal.bytes[base..]);
            journal.check(first, tail, journal.start(changed), &known);
            if state.is_multiple_of(61) {
                let file = [&journal.bytes[..base], tail].concat();
                journal.open_for_writing(&file, &known);
            }
        };
        states += each(TAIL_LINES * TAIL_LINES, |state| {
            let (a, b) = (first + state / TAIL_LINES, first + state % TAIL_LINES);
            // A copy of `a` after `b`.
            let tail = rearranged(journal, (first..=b).chain([a]).chain(b + 1..count));
            check(state, &tail, b + 1);
            // A line of another session, of any number, before `b`; one in the place of `b`.
            let foreign = other.line(a);
            let (left, right) = (&journal.bytes[base..journal.start(b)], journal.start(b));
            check(state, &[left, foreign, &journal.bytes[right..]].concat(), b);
            let right = journal.start(b + 1);
            check(state, &[left, foreign, &journal.bytes[right..]].concat(), b);
            if a < b {
                let swapped = |line| {
                    if line == a {
                        b
                    } else if line == b {
                        a
                    } else {
                        line
                    }
                };
                check(state, &rearranged(journal, (first..count).map(swapped)), a);
                // Gone from `a` on and before `b`: what follows shows it.
                check(state, &rearranged(journal, (first..a).chain(b..count)), a);
            }
        });
        states += TAIL_LINES * TAIL_LINES * 2 + TAIL_LINES * (TAIL_LINES - 1);
    }
    println!("lines: {states} states");
    assert!(states >= LINES, "{states}");
}

/// The same line with another text and the checksum that goes with it.
fn edited(line: &[u8], edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut covered = line[..line.len() - 19].to_vec();
    edit(&mut covered);
    let crc = crc32c::crc32c(&covered);
    covered.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}\n").as_bytes());
    covered
}

#[test]
fn an_edited_line_with_a_right_checksum_is_found_by_the_line_after_it() {
    let journal = written(1);
    for line in journal.count() - TAIL_LINES..journal.count() - 1 {
        let forged = edited(journal.line(line), |covered| {
            let at = covered.windows(8).position(|w| w == b"\"at\":\"20").unwrap();
            covered[at + 8] = b'3';
        });
        let (left, right) = (journal.start(line), journal.start(line + 1));
        let file = [&journal.bytes[..left], &forged, &journal.bytes[right..]].concat();
        let memory = Memory { base: 0, bytes: &file };
        let mut scanner = Scanner::new(&memory, journal.at[0]);
        while scanner.next_event().unwrap().is_some() {}
        assert_eq!(scanner.position().seq, line as u64 + 1);
        let Ending::Damaged(damage) = scanner.ending().unwrap() else { panic!("{line}") };
        assert_eq!((damage.line, damage.finding), (line as u64 + 2, Finding::WrongChain));
    }
}

#[test]
fn a_whole_line_that_is_no_event_is_never_taken_for_a_torn_one() {
    let journal = written(9);
    let last = journal.count() - 1;
    let invalid_utf8 = |covered: &mut Vec<u8>| {
        let at = covered.windows(4).position(|w| w == b"tion").unwrap_or(covered.len() - 30);
        covered[at] = 0xff;
    };
    let unknown_shape = |covered: &mut Vec<u8>| {
        let at = covered.windows(6).position(|w| w == b"\"prev\"").unwrap();
        covered[at + 1] = b'q';
    };
    for line in journal.count() - TAIL_LINES..=last {
        let line_bytes = journal.line(line);
        let forged = [edited(line_bytes, invalid_utf8), edited(line_bytes, unknown_shape)];
        for forged in forged {
            let (left, right) = (journal.start(line), journal.start(line + 1));
            let file = [&journal.bytes[..left], &forged, &journal.bytes[right..]].concat();
            let known = [(forged, 0)].into_iter().chain(journal.vouches.clone()).collect();
            journal.check(0, &file, left, &known);
            journal.open_for_writing(&file, &known);
        }
    }
}

#[test]
fn line_ends_of_another_system() {
    for journal in both() {
        let known = &journal.vouches;
        let crlf = |bytes: &[u8]| -> Vec<u8> {
            String::from_utf8_lossy(bytes).replace('\n', "\r\n").into_bytes()
        };
        journal.open_for_writing(&crlf(&journal.bytes), known);
        for line in journal.count() - TAIL_LINES..journal.count() {
            let (left, right) = (journal.start(line), journal.start(line + 1));
            let one = [&journal.bytes[..left], &crlf(journal.line(line)), &journal.bytes[right..]];
            journal.check(0, &one.concat(), right - 1, known);
            let rest = [&journal.bytes[..left], &crlf(&journal.bytes[left..])].concat();
            journal.check(0, &rest, right - 1, known);
            journal.open_for_writing(&rest, known);
        }
    }
}

#[test]
fn strange_bytes_between_lines_and_a_line_of_many_megabytes() {
    for journal in both() {
        let known = &journal.vouches;
        let huge = vec![b'x'; 5 << 20];
        let huge_zeros = [vec![0; 3 << 20], b"\n".to_vec()].concat();
        let strange: [&[u8]; 7] =
            [b"\0", &[0; 700], b"\xff\xfe", b"\n", b"{}\n", b"\xef\xbb\xbf", b"\r"];
        for line in journal.count() - TAIL_LINES..=journal.count() {
            let (left, right) = journal.bytes.split_at(journal.start(line));
            for middle in strange {
                let file = [left, middle, right].concat();
                journal.check(0, &file, left.len(), known);
                journal.open_for_writing(&file, known);
            }
            if line.is_multiple_of(10) || line == journal.count() {
                for middle in [&huge, &huge_zeros] {
                    let file = [left, middle, right].concat();
                    journal.check(0, &file, left.len(), known);
                    journal.open_for_writing(&file, known);
                }
            }
        }
    }
}

#[test]
fn a_journal_that_disagrees_with_its_snapshot_is_never_cut() {
    let journal = written(9);
    let disk = SimDisk::new();
    let path = |name: &str| journal.dir.join(name);
    disk.put(&path("session.json"), &journal.identity).unwrap();
    disk.put(&path("state.json"), &journal.snapshot).unwrap();
    for cut in (0..journal.bytes.len()).step_by(1009) {
        disk.put(&path("journal.jsonl"), &journal.bytes[..cut]).unwrap();
        let session = Session::open(Arc::new(disk.clone()), &journal.dir).unwrap();
        assert_eq!(End::of(session.ending()), End::Damaged, "{cut}");
        assert_eq!(session.state().seq, journal.line_at(cut) as u64);
        assert!(matches!(session.lock(&me(), counting_clock()), Err(Error::Damaged { .. })));
        assert_eq!(disk.files()[&path("journal.jsonl")], journal.bytes[..cut]);
    }
    // Something is wrong before the snapshot's offset: it is not read at every opening, and is
    // found by a thorough look.
    let mut file = journal.bytes.clone();
    file[journal.start(40) + 30] ^= 1;
    disk.put(&path("journal.jsonl"), &file).unwrap();
    let session = Session::open(Arc::new(disk.clone()), &journal.dir).unwrap();
    let report = segue_journal::repair::verify(&session).unwrap();
    assert_eq!(report.events, 40);
    assert!(report.problems.iter().any(segue_journal::repair::Problem::is_loss), "{report:?}");
}
