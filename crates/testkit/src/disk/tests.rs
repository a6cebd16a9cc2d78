//! The simulated disk must be able to lose things, and must not lose what was synced.

use super::*;

const SEEDS: u64 = 400;

fn path(text: &str) -> &Path {
    Path::new(text)
}

fn read(disk: &SimDisk, at: &str) -> Option<Vec<u8>> {
    (disk as &dyn Disk).read(path(at)).ok()
}

/// A file `/f` whose first 1,000 bytes are durable, name included, and its handle.
fn half_synced() -> (SimDisk, Box<dyn DiskFile>) {
    let disk = SimDisk::new();
    let mut file = disk.create_new(path("/f")).unwrap();
    file.write_all(&[b'a'; 1000]).unwrap();
    file.sync().unwrap();
    disk.sync_dir(path("/")).unwrap();
    (disk, file)
}

/// All different contents of `/f` over many power cuts.
fn outcomes(disk: &SimDisk) -> BTreeSet<Option<Vec<u8>>> {
    (0..SEEDS).map(|seed| read(&disk.crash(seed), "/f")).collect()
}

#[test]
fn what_is_synced_survives_every_crash() {
    let (disk, _file) = half_synced();
    assert_eq!(outcomes(&disk), BTreeSet::from([Some(vec![b'a'; 1000])]));
}

#[test]
fn the_same_seed_loses_the_same() {
    let (disk, mut file) = half_synced();
    file.write_all(&[b'b'; 5000]).unwrap();
    for seed in 0..20 {
        assert_eq!(disk.crash(seed).files(), disk.crash(seed).files());
    }
}

#[test]
fn unsynced_bytes_are_lost_torn_zeroed_and_kept_by_sector() {
    let (disk, mut file) = half_synced();
    file.write_all(&[b'b'; 3000]).unwrap();
    let outcomes: Vec<Vec<u8>> = outcomes(&disk).into_iter().flatten().collect();
    assert!(outcomes.iter().all(|bytes| bytes[..1000] == [b'a'; 1000]), "the synced part is there");
    assert!(outcomes.iter().any(|bytes| bytes.len() == 1000), "all lost");
    assert!(outcomes.iter().any(|bytes| bytes[1000..] == [b'b'; 3000]), "all kept");
    let hole =
        |bytes: &&Vec<u8>| bytes.len() == 4000 && bytes.contains(&0) && bytes.ends_with(b"b");
    let holed: Vec<_> = outcomes.iter().filter(hole).collect();
    assert!(!holed.is_empty(), "an earlier sector lost, a later one kept");
    for bytes in holed {
        for (n, &byte) in bytes.iter().enumerate().skip(1024) {
            let sector = n / 512 * 512;
            assert_eq!(byte, bytes[sector.max(1024)], "a sector is whole or not at all");
        }
    }
    assert!(
        outcomes.iter().any(|bytes| bytes.len() == 4000 && bytes[1024..].iter().all(|b| *b == 0))
    );
}

#[test]
fn a_cut_that_was_not_synced_may_be_undone() {
    let (disk, mut file) = half_synced();
    file.set_len(10).unwrap();
    file.write_all(b"new").unwrap();
    let outcomes = outcomes(&disk);
    assert!(outcomes.contains(&Some(vec![b'a'; 1000])));
    assert!(outcomes.contains(&Some(vec![b'a'; 10])));
    assert!(outcomes.contains(&Some(b"aaaaaaaaaanew".to_vec())));
    file.sync().unwrap();
    assert_eq!(self::outcomes(&disk), BTreeSet::from([Some(b"aaaaaaaaaanew".to_vec())]));
}

#[test]
fn a_kill_loses_nothing_but_the_locks() {
    let (disk, mut file) = half_synced();
    file.write_all(b"bbb").unwrap();
    let lock = disk.try_lock(path("/lock")).unwrap();
    assert!(lock.is_some());
    assert!(disk.try_lock(path("/lock")).unwrap().is_none());
    assert!(disk.is_locked(path("/lock")).unwrap());
    let after = disk.kill();
    assert_eq!(read(&after, "/f").unwrap().len(), 1003);
    assert!(!after.is_locked(path("/lock")).unwrap());
    assert!(after.try_lock(path("/lock")).unwrap().is_some());
    file.write_all(b"the dead write no more").unwrap();
    assert_eq!(read(&after, "/f").unwrap().len(), 1003);
    drop(lock);
    assert!(disk.try_lock(path("/lock")).unwrap().is_some());
}

#[test]
fn a_name_that_was_not_synced_may_be_gone_and_a_rename_undone() {
    let (disk, _file) = half_synced();
    let mut new = disk.create_new(path("/new")).unwrap();
    new.write_all(b"new").unwrap();
    new.sync().unwrap();
    disk.rename(path("/new"), path("/f")).unwrap();
    let old = Some(vec![b'a'; 1000]);
    assert_eq!(outcomes(&disk), BTreeSet::from([old.clone(), Some(b"new".to_vec())]));
    let left: BTreeSet<_> = (0..SEEDS).map(|seed| read(&disk.crash(seed), "/new")).collect();
    assert!(left.contains(&None) && left.contains(&Some(b"new".to_vec())), "{left:?}");
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(outcomes(&disk), BTreeSet::from([Some(b"new".to_vec())]));
}

#[test]
fn names_survive_in_their_order() {
    let disk = SimDisk::new();
    for name in ["/1", "/2", "/3"] {
        disk.create_new(path(name)).unwrap();
    }
    let lists: BTreeSet<Vec<String>> =
        (0..SEEDS).map(|seed| disk.crash(seed).list(path("/")).unwrap()).collect();
    let expected: [&[&str]; 4] = [&[], &["1"], &["1", "2"], &["1", "2", "3"]];
    let expected = expected.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    assert_eq!(lists, BTreeSet::from(expected));
}

#[test]
fn what_is_in_a_directory_without_a_durable_name_is_gone_with_it() {
    let disk = SimDisk::new();
    disk.create_dir_all(path("/a/b")).unwrap();
    disk.create_new(path("/a/b/f")).unwrap();
    disk.sync_dir(path("/a/b")).unwrap();
    assert!((0..SEEDS).any(|seed| !(&disk.crash(seed) as &dyn Disk).exists(path("/a"))));
    disk.sync_dir(path("/")).unwrap();
    assert!((0..SEEDS).any(|seed| !(&disk.crash(seed) as &dyn Disk).exists(path("/a/b"))));
    disk.sync_dir(path("/a")).unwrap();
    assert!((0..SEEDS).all(|seed| (&disk.crash(seed) as &dyn Disk).exists(path("/a/b/f"))));
}

#[test]
fn each_fault_happens_once_and_at_its_call() {
    let (disk, mut file) = half_synced();
    disk.fail(2, Fault::Enospc);
    file.write(b"1").unwrap();
    assert_eq!(file.write(b"2").unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.write(b"3").unwrap();
    assert_eq!(&read(&disk, "/f").unwrap()[1000..], b"13");
    disk.fail(1, Fault::ShortWrite);
    assert_eq!(file.write(b"4567").unwrap(), 2);
    disk.fail(1, Fault::Eintr);
    assert_eq!(disk.sync_dir(path("/")).unwrap_err().kind(), io::ErrorKind::Interrupted);
    disk.fail(1, Fault::Eio);
    assert!(file.write(b"89").is_err());
    assert_eq!(&read(&disk, "/f").unwrap()[1000..], b"13458", "half of it happened");
    disk.fail_from(2, Fault::Eio);
    file.sync().unwrap();
    assert!(file.sync().is_err());
    assert!(disk.remove_file(path("/f")).is_err());
    disk.mend();
    disk.remove_file(path("/f")).unwrap();
}

#[test]
fn after_a_failed_sync_the_next_one_succeeds_and_saves_nothing() {
    let (disk, mut file) = half_synced();
    file.write_all(&[b'b'; 2000]).unwrap();
    disk.fail(1, Fault::FailedSync);
    assert!(file.sync().is_err());
    file.sync().unwrap();
    file.write_all(&[b'c'; 1000]).unwrap();
    file.sync().unwrap();
    let lost = |bytes: &Option<Vec<u8>>| bytes.as_ref().is_some_and(|b| b[1024..2048].contains(&0));
    let after = outcomes(&disk);
    assert!(after.iter().any(lost));
    assert!(after.iter().flatten().all(|bytes| bytes[3072..] == [b'c'; 928]));
    assert_eq!(&read(&disk, "/f").unwrap()[1000..3000], [b'b'; 2000], "readers see it still");
    disk.write_again(path("/f"), 1000).unwrap();
    file.sync().unwrap();
    assert!(!outcomes(&disk).iter().any(lost), "written again, it is safe");
}

#[test]
fn mutants_forget_to_sync() {
    let (disk, mut file) = half_synced();
    disk.mutate(Mutant::IgnoreSync);
    file.write_all(b"b").unwrap();
    file.sync().unwrap();
    assert!(outcomes(&disk).len() > 1);
    disk.mutate(Mutant::IgnoreSyncOf("/other"));
    file.sync().unwrap();
    assert_eq!(outcomes(&disk).len(), 1);
    disk.mutate(Mutant::IgnoreDirSync);
    disk.remove_file(path("/f")).unwrap();
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(outcomes(&disk).len(), 2);
    disk.mutate(Mutant::IgnoreDirSyncOf("elsewhere"));
    disk.sync_dir(path("/")).unwrap();
    assert_eq!(outcomes(&disk), BTreeSet::from([None]));
}

#[test]
fn a_removed_directory_may_come_back_half_empty() {
    let disk = SimDisk::new();
    for name in ["/d/1", "/d/2"] {
        disk.put(path(name), b"x").unwrap();
    }
    disk.remove_dir_all(path("/d")).unwrap();
    assert_eq!(disk.files().len(), 0);
    let counts: BTreeSet<usize> = (0..SEEDS).map(|seed| disk.crash(seed).files().len()).collect();
    assert_eq!(counts, BTreeSet::from([0, 1, 2]));
}
