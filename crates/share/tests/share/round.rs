//! There and back.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use segue_journal::{repair, scan::Ending, session::JOURNAL};
use segue_share::{Error, ExportOptions, export, inspect};

use crate::support::*;

#[test]
fn everything_arrives_and_nothing_else() {
    let made = made();
    let there = home(&made.tmp.path().join("to"));
    let imported = take(&made.bundle, &there).unwrap();
    assert!(!imported.was_there);
    assert_eq!((imported.number, imported.at.clone()), (1, at()));
    assert_eq!(imported.dir, there.session_dir(&at()));
    assert_eq!(tree(&imported.dir).keys().filter(|name| name.contains("lock")).count(), 0);
    assert_eq!(carried(&imported.dir), carried(&made.dir));
    let mut names: Vec<_> = tree(&imported.dir).into_keys().filter(|n| !n.ends_with('/')).collect();
    names.retain(|name| !name.starts_with("blobs/"));
    assert_eq!(
        names,
        [
            "journal.jsonl",
            "journal.torn-9",
            "resume.json",
            "session.json",
            "streams/0001-native.err",
            "streams/0001-native.jsonl",
            "streams/gemini-policy.toml"
        ]
    );
    // The vendor's file is handed over, with a name that no tar header holds.
    let vendor = &imported.vendors[0];
    assert_eq!(fs::read(&vendor.file).unwrap(), b"{}\n");
    assert!(vendor.file.ends_with(vendor.entry.file()) && vendor.entry.file().len() > 200);
    let report = repair::verify(&open(&there)).unwrap();
    assert!(report.problems.is_empty() && report.blobs == 12, "{report:?}");
    assert_eq!(open(&there).state().name.as_deref(), Some("lim"));

    let staging = vendor.file.clone();
    drop(imported);
    assert!(!staging.exists());
    let names: Vec<_> = fs::read_dir(there.dir().join("sessions").join(REPO)).unwrap().collect();
    assert_eq!(names.len(), 1);
    warn(&mut lock(&there), "it can be written to");
}

#[test]
fn the_list_says_what_is_in_it_and_tar_can_read_it() {
    let made = made();
    assert_eq!(fs::metadata(&made.bundle).unwrap().permissions().mode() & 0o777, 0o600);
    let manifest = inspect(&made.bundle).unwrap();
    assert_eq!(manifest, made.exported.manifest);
    assert_eq!((manifest.name.as_deref(), manifest.number), (Some("lim"), Some(7)));
    let out = made.tmp.path().join("out");
    fs::create_dir(&out).unwrap();
    let line = format!("zstd -dc '{}' | tar x -C '{}'", made.bundle.display(), out.display());
    if Command::new("zstd").arg("--version").output().is_ok() {
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    } else {
        let tar = zstd::decode_all(fs::File::open(&made.bundle).unwrap()).unwrap();
        fs::write(made.tmp.path().join("x.tar"), tar).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("xf").arg(made.tmp.path().join("x.tar")).arg("-C").arg(&out);
        assert!(tar.status().unwrap().success());
    }
    let files = tree(&out);
    for file in &manifest.files {
        let bytes = &files[&file.path];
        assert_eq!(bytes.len() as u64, file.size);
        assert_eq!(blake3::hash(bytes).to_hex().as_str(), file.blake3);
    }
    assert_eq!(files.keys().filter(|n| !n.ends_with('/')).count(), manifest.files.len() + 1);
}

#[test]
fn a_target_that_is_there_is_refused_and_forced() {
    let made = made();
    let before = fs::read(&made.bundle).unwrap();
    let again = |force| {
        let options = ExportOptions { force, number: Some(8), ..options() };
        export(&open(&made.home), None, &made.bundle, &options, &mut quiet)
    };
    assert!(matches!(again(false), Err(Error::Exists { .. })));
    assert_eq!(fs::read(&made.bundle).unwrap(), before);
    again(true).unwrap();
    assert_eq!(inspect(&made.bundle).unwrap().number, Some(8));
    fs::remove_file(&made.bundle).unwrap();
    std::os::unix::fs::symlink("/dev/null", &made.bundle).unwrap();
    assert!(matches!(again(true), Err(Error::Exists { .. })));
}

#[test]
fn a_link_among_the_files_is_not_followed() {
    let made = made();
    let secret = made.tmp.path().join("secret");
    fs::write(&secret, b"secret").unwrap();
    std::os::unix::fs::symlink(&secret, made.dir.join("streams/link")).unwrap();
    std::os::unix::fs::symlink(made.tmp.path(), made.dir.join("streams/dir")).unwrap();
    let out = made.tmp.path().join("y.segue");
    let exported = export(&open(&made.home), None, &out, &options(), &mut quiet).unwrap();
    assert_eq!(exported.manifest.files, made.exported.manifest.files);
}

#[test]
fn the_same_again_is_no_error_and_anything_else_is() {
    let made = made();
    let there = home(&made.tmp.path().join("to"));
    drop(take(&made.bundle, &there).unwrap());
    let before = tree(there.dir());
    let again = take(&made.bundle, &there).unwrap();
    assert!(again.was_there && again.number == 1 && again.vendors.len() == 1);
    drop(again);
    assert_eq!(tree(there.dir()), before);
    // Back into where it came from, too.
    assert!(take(&made.bundle, &made.home).unwrap().was_there);

    // Ours goes on: the bundle is older.
    warn(&mut lock(&made.home), "more");
    let error = take(&made.bundle, &made.home).unwrap_err();
    assert!(matches!(error, Error::Older { ours: 16, theirs: 15, .. }), "{error}");

    // A bundle that goes on from ours.
    let later = made.tmp.path().join("later.segue");
    export(&open(&made.home), None, &later, &options(), &mut quiet).unwrap();
    let error = take(&later, &there).unwrap_err();
    assert!(matches!(error, Error::AheadOfOurs { ours: 15, theirs: 16, .. }), "{error}");
    let held = lock(&there);
    let error = take(&later, &there).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    drop(held);

    warn(&mut lock(&there), "another way");
    let before = carried(&there.session_dir(&at()));
    let error = take(&later, &there).unwrap_err();
    assert!(matches!(error, Error::Diverged { common: 15, .. }), "{error}");
    assert_eq!(carried(&there.session_dir(&at())), before);
    assert!(there.numbers().unwrap().len() == 1);
}

#[test]
fn while_another_one_writes_the_bundle_has_what_was_read() {
    let made = made();
    let stop = AtomicBool::new(false);
    /// Also where an assertion fails: the writer would go on for ever.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let there = made.tmp.path().join("there");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut locked = lock(&made.home);
            let mut stream = locked.stream(1, "native", segue_journal::stream::Voice::Out).unwrap();
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                let text = locked.payload(&noise(1000 + n, 6000)).unwrap();
                let draft = segue_core::event::TextWritten { text, partial: false };
                locked.append(draft, segue_journal::Durability::Soon).unwrap();
                stream.write(b"more and more\n").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let _stop = Stop(&stop);
        for n in 0..10 {
            let session = open(&made.home);
            let end = session.position().offset;
            let out = made.tmp.path().join(format!("{n}.segue"));
            export(&session, None, &out, &options(), &mut quiet).unwrap();
            let to = home(&there.join(n.to_string()));
            drop(take(&out, &to).unwrap());
            let journal = fs::read(to.session_dir(&at()).join(JOURNAL)).unwrap();
            assert_eq!(journal.len() as u64, end);
            assert!(fs::read(made.dir.join(JOURNAL)).unwrap().starts_with(&journal));
        }
    });
}

#[test]
fn a_torn_tail_stays_behind_and_a_damaged_session_is_not_exported() {
    let made = made();
    let journal = made.dir.join(JOURNAL);
    let whole = fs::read(&journal).unwrap();
    let mut torn = whole.clone();
    torn.extend(b"{\"v\":1,\"seq\":16,");
    fs::write(&journal, &torn).unwrap();
    let session = open(&made.home);
    assert!(matches!(session.ending(), Ending::Torn { .. }));
    let out = made.tmp.path().join("torn.segue");
    export(&session, None, &out, &options(), &mut quiet).unwrap();
    let there = home(&made.tmp.path().join("to"));
    drop(take(&out, &there).unwrap());
    assert_eq!(fs::read(there.session_dir(&at()).join(JOURNAL)).unwrap(), whole);

    let mut bent = whole;
    bent[700] ^= 1;
    fs::write(&journal, &bent).unwrap();
    let out = made.tmp.path().join("bent.segue");
    let error = export(&open(&made.home), None, &out, &options(), &mut quiet).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. } | Error::Journal(_)), "{error}");
    assert!(!out.exists());
}

#[test]
fn many_imports_at_once_are_one() {
    let made = made();
    for n in 0..5 {
        let there = home(&made.tmp.path().join(format!("to-{n}")));
        let arrived = std::thread::scope(|scope| {
            let take = || {
                let imported = take(&made.bundle, &there).unwrap();
                assert!(imported.vendors[0].file.exists());
                !imported.was_there
            };
            let all: Vec<_> = (0..6).map(|_| scope.spawn(take)).collect();
            all.into_iter().map(|one| usize::from(one.join().unwrap())).sum::<usize>()
        });
        assert_eq!(arrived, 1);
        assert_eq!(carried(&there.session_dir(&at())), carried(&made.dir));
        let repo = fs::read_dir(there.dir().join("sessions").join(REPO)).unwrap();
        assert_eq!(repo.count(), 1);
    }
}
