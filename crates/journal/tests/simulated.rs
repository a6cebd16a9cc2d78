//! A home on a disk that loses, tears, reorders and refuses: what was promised is kept.
//!
//! The promises are checked by `support/world.rs`. To see by hand that a forgotten sync is found:
//! take out `self.file.sync()` in `Appender::sync` of `writer.rs` (let it be `Ok(())`), or
//! `file.sync()` in `write_beside` of `disk.rs`, or the `sync_dir` at the end of `replace` or of
//! `claim` there, and `any_sequence_keeps_its_promises` and `each_call_fails_once` fail. The
//! mutant tests below do the same to the disk instead, at every run.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod support;
#[path = "support/world.rs"]
mod world;

use std::sync::Arc;

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{FileFailurePersistence, TestRunner},
};
use segue_core::event::Draft;
use segue_journal::{Durability, Error, Home, Session, session::SNAPSHOT_EVERY};
use segue_testkit::disk::{Fault, Mutant, SimDisk};
use support::{counting_clock, me, new, said};
use world::{Checked, Op, World};

/// How many sequences a disk that forgets to sync has for not being found out.
const SEQUENCES: usize = 200;

fn op() -> impl Strategy<Value = Op> {
    let fault = prop::sample::select(Fault::ALL.to_vec());
    prop_oneof![
        2 => (any::<bool>(), any::<bool>()).prop_map(|(named, long)| Op::Create { named, long }),
        4 => (0..8usize).prop_map(Op::Open),
        1 => Just(Op::Close),
        12 => (1..6usize, any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(events, synced, long)| Op::Append { events, synced, long }),
        2 => Just(Op::Snapshot),
        1 => (0..8usize).prop_map(Op::GiveNumber),
        1 => (0..8usize).prop_map(Op::Remove),
        2 => Just(Op::Kill),
        3 => any::<u64>().prop_map(Op::Crash),
        3 => (1..40u64, fault).prop_map(|(nth, fault)| Op::Fail(nth, fault)),
    ]
}

fn ops() -> impl Strategy<Value = (Vec<Op>, u64)> {
    // Something is there from the start, so that short sequences are about something too.
    let first = Op::Create { named: false, long: false };
    (prop::collection::vec(op(), 1..60), any::<u64>()).prop_map(move |(mut ops, seed)| {
        ops.insert(0, first.clone());
        (ops, seed)
    })
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(2000),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_sequence_keeps_its_promises((ops, seed) in ops()) {
        let kept = World::new(None).run(&ops, seed);
        prop_assert!(kept.is_ok(), "{}", kept.unwrap_err());
    }
}

/// Creates, appends, closes, opens, numbers and removes: one of each call that there is.
fn scenario() -> Vec<Op> {
    let append = |synced, long| Op::Append { events: 3, synced, long };
    vec![
        Op::Create { named: true, long: true },
        append(false, false),
        append(true, true),
        Op::Snapshot,
        append(true, false),
        Op::Close,
        Op::Create { named: false, long: false },
        append(true, false),
        Op::Open(0),
        append(false, true),
        append(true, false),
        Op::GiveNumber(1),
        Op::Open(1),
        append(true, true),
        Op::Remove(1),
        Op::Open(0),
        append(true, false),
    ]
}

/// Runs `ops` with the fault at the `nth` call of the whole run, and says whether it came to that.
fn with_fault(mut world: World, ops: &[Op], nth: u64, fault: Fault, seed: u64) -> Checked<bool> {
    world.disk.fail(nth, fault);
    for op in ops {
        world.step(op).map_err(|wrong| format!("{op:?}: {wrong}"))?;
    }
    let failed = world.disk.failed() > 0;
    world.run(&[], seed)?;
    Ok(failed)
}

/// Each call of a scenario fails in each way, and the power goes at the end.
fn each_call(ops: &[Op], before: impl Fn() -> World) {
    for fault in Fault::ALL {
        let mut nth = 0;
        let mut failed = true;
        while failed {
            nth += 1;
            for seed in 0..4 {
                let run = with_fault(before(), ops, nth, fault, nth * 31 + seed);
                failed = run.unwrap_or_else(|wrong| panic!("{fault:?} at call {nth}: {wrong}"));
            }
        }
        assert!(nth > 20, "{fault:?}: only {nth} calls");
    }
}

#[test]
fn each_call_fails_once() {
    each_call(&scenario(), || World::new(None));
}

#[test]
fn each_call_fails_once_while_a_torn_tail_is_mended() {
    let before = || {
        let mut world = World::new(None);
        for op in [
            Op::Create { named: false, long: false },
            Op::Append { events: 4, synced: true, long: false },
            // Half a line is left behind.
            Op::Fail(1, Fault::Eio),
            Op::Append { events: 3, synced: false, long: false },
        ] {
            world.step(&op).unwrap();
        }
        assert!(world.disk.failed() == 1);
        world.disk = world.disk.kill();
        world.step(&Op::Kill).unwrap();
        world
    };
    let append = Op::Append { events: 2, synced: true, long: true };
    each_call(&[Op::Open(0), append.clone(), Op::Close, Op::Open(0), append], before);
}

#[test]
fn a_good_disk_loses_nothing_in_the_sequences_that_show_a_bad_one() {
    let mut runner = TestRunner::deterministic();
    for n in 1..=SEQUENCES {
        let (ops, seed) = ops().new_tree(&mut runner).unwrap().current();
        World::new(None).run(&ops, seed).unwrap_or_else(|wrong| panic!("{n}: {wrong}"));
    }
}

/// How many seeds it takes until the very same check finds a loss.
fn seeds_until_found(mutant: &Mutant) -> Option<usize> {
    let mut runner = TestRunner::deterministic();
    (1..=SEQUENCES).find(|_| {
        let (ops, seed) = ops().new_tree(&mut runner).unwrap().current();
        World::new(Some(mutant.clone())).run(&ops, seed).is_err()
    })
}

#[test]
fn a_disk_that_never_syncs_a_file_is_found_out() {
    let found = seeds_until_found(&Mutant::IgnoreSync);
    println!("found after {found:?} sequences");
    assert!(found.is_some());
}

#[test]
fn a_disk_that_never_syncs_a_name_is_found_out() {
    let found = seeds_until_found(&Mutant::IgnoreDirSync);
    println!("found after {found:?} sequences");
    assert!(found.is_some());
}

#[test]
fn each_single_sync_that_is_left_out_is_found_out() {
    let mutants = [
        Mutant::IgnoreSyncOf("/journal.jsonl"),
        Mutant::IgnoreSyncOf("/.journal.jsonl"),
        Mutant::IgnoreSyncOf("/blobs/"),
        Mutant::IgnoreSyncOf("/numbers/"),
        Mutant::IgnoreSyncOf("/journal.torn-"),
        Mutant::IgnoreDirSyncOf("me"),
        Mutant::IgnoreDirSyncOf(".segue"),
        Mutant::IgnoreDirSyncOf("numbers"),
        Mutant::IgnoreDirSyncOf("sessions"),
        Mutant::IgnoreDirSyncOf("repo"),
        Mutant::IgnoreDirSyncOf(".new"),
        Mutant::IgnoreDirSyncOf("blobs"),
        // The sessions' own directories.
        Mutant::IgnoreDirSyncOf("01"),
    ];
    let found: Vec<_> = mutants.iter().map(|mutant| (mutant, seeds_until_found(mutant))).collect();
    println!("{found:#?}");
    assert!(found.iter().all(|(_, seeds)| seeds.is_some()), "{found:#?}");
}

#[test]
fn a_full_disk_keeps_what_was_there_and_goes_on_when_it_has_room() {
    let disk = SimDisk::new();
    let home = Home::new(Arc::new(disk.clone()), "/home".into());
    let (mut session, _) = home.create(new("voll"), &me(), &counting_clock()).unwrap();
    let dir = session.session().dir().to_owned();
    session.append(said("noch Platz"), Durability::Synced).unwrap();
    disk.fail(1, Fault::ShortWrite);
    disk.fail_from(2, Fault::Enospc);
    assert!(session.append(said("kein Platz mehr"), Durability::Synced).is_err());
    drop(session);
    let open = || Session::open(Arc::new(disk.clone()), &dir).unwrap();
    assert_eq!(open().state().seq, 2, "it can be read");
    assert!(open().lock(&me(), counting_clock()).is_err());
    disk.mend();
    let (mut session, mended) = open().lock(&me(), counting_clock()).unwrap();
    assert_eq!(mended.len(), 1);
    session.append(said("wieder Platz"), Durability::Synced).unwrap();
    assert_eq!(session.state().seq, 4);
}

#[test]
fn a_snapshot_that_cannot_be_written_fails_no_append() {
    let disk = SimDisk::new();
    let home = Home::new(Arc::new(disk.clone()), "/home".into());
    let (mut session, _) = home.create(new("viel"), &me(), &counting_clock()).unwrap();
    let many: Vec<Draft> = (0..=SNAPSHOT_EVERY).map(|n| said(n.to_string()).into()).collect();
    session.append_all(many, Durability::Soon).unwrap();
    // The write and the sync of the journal come first.
    disk.fail_from(3, Fault::Enospc);
    session.append(said("acknowledged"), Durability::Synced).unwrap();
    disk.mend();
    session.append(said("and once more"), Durability::Synced).unwrap();
    assert!(world::read(&disk, &session.session().dir().join("state.json")).is_some());
}

#[test]
fn an_event_that_is_too_long_is_refused_and_poisons_nothing() {
    let home = Home::new(Arc::new(SimDisk::new()), "/home".into());
    let (mut session, _) = home.create(new("lang"), &me(), &counting_clock()).unwrap();
    let refused = session.append(said("x".repeat(2 << 20)), Durability::Synced);
    assert!(matches!(refused, Err(Error::TooLong { bytes, .. }) if bytes > 2 << 20), "{refused:?}");
    session.append(said("kurz"), Durability::Synced).unwrap();
    assert_eq!(session.state().seq, 2);
}
