//! Bundles that somebody made to do harm: refused by name, and nothing written.

use std::{fs, path::Path};

use segue_share::{Error, GitEntry, GitRef, ImportOptions, VendorEntry, Why, import};

use crate::{fuzz::assert_nothing, support::*};

struct Case {
    made: Made,
    parts: Parts,
}

fn case() -> Case {
    let made = made();
    let parts = Parts::of(&made.bundle);
    Case { made, parts }
}

impl Case {
    /// Imports these bytes into an empty home, and looks whether anything changed anywhere.
    fn refused(&self, bytes: &[u8]) -> Error {
        self.refused_with(bytes, &ImportOptions::default())
    }

    fn refused_with(&self, bytes: &[u8], options: &ImportOptions) -> Error {
        let root = self.made.tmp.path();
        let bundle = root.join("bad.segue");
        fs::write(&bundle, bytes).unwrap();
        let before = tree(root);
        let dir = root.join("to/home");
        let error = import(&bundle, &home(&dir), options, &mut quiet).unwrap_err();
        assert_nothing(&dir, &error.to_string());
        let _ = fs::remove_dir_all(root.join("to"));
        assert_eq!(tree(root), before, "{error}");
        assert!(!Path::new("/tmp/segue-escaped").exists());
        error
    }

    fn reason(&self, parts: &Parts) -> (String, Why) {
        match self.refused(&parts.pack()) {
            Error::Refused { entry, why, .. } => (entry, why),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn the_parts_put_together_again_are_a_bundle() {
    let case = case();
    fs::write(&case.made.bundle, case.parts.pack()).unwrap();
    take(&case.made.bundle, &home(&case.made.tmp.path().join("to"))).unwrap();
}

#[test]
fn names_that_lead_out() {
    let case = case();
    let long = format!("streams/{}/../../../x", "a".repeat(120));
    for name in [
        "../x",
        "/tmp/segue-escaped",
        "streams/../../x",
        "streams/./x",
        "streams//x",
        "..",
        ".",
        "streams\\..\\x",
        "C:\\x",
        "streams/a\\b",
        "streams/a\nb",
        long.as_str(),
        "",
    ] {
        // Once only there, once listed, too.
        let mut parts = case.parts.clone();
        parts.entries.push(Raw::file(name, b"x"));
        assert_eq!(case.reason(&parts).1, Why::Path, "{name}");
        let mut parts = case.parts.clone();
        parts.add(Raw::file(name, b"x"));
        assert_eq!(case.reason(&parts), (name.to_owned(), Why::Path), "{name}");
    }
    for name in [&b"streams/a\0b"[..], b"streams/\xff", b"session.json\0/../x"] {
        let mut parts = case.parts.clone();
        parts.entries.push(Raw { name: name.to_vec(), ..Raw::file("", b"x") });
        assert_eq!(case.reason(&parts).1, Why::Path);
    }
    let mut long = b"streams/".to_vec();
    long.resize(150, b'a');
    long.extend(b"\0/../../x");
    let mut parts = case.parts.clone();
    parts.entries.push(Raw { name: long, ..Raw::file("", b"x") });
    assert_eq!(case.reason(&parts).1, Why::Path);
}

#[test]
fn names_that_do_not_belong() {
    let case = case();
    for name in [
        "lock",
        "state.json",
        "inbox/1",
        "x",
        "session.json.broken",
        "blobs/ab/cd",
        "streams/.x",
        "git/x.bundle",
        "vendors/x",
        "journal.damaged-1",
        "blobs/x",
        "config.toml",
    ] {
        let mut parts = case.parts.clone();
        parts.add(Raw::file(name, b"x"));
        assert_eq!(case.reason(&parts), (name.to_owned(), Why::Name), "{name}");
        let mut parts = case.parts.clone();
        parts.entries.push(Raw::file(name, b"x"));
        assert_eq!(case.reason(&parts), (name.to_owned(), Why::Name), "{name}");
    }
    // Parts that nobody describes, and descriptions of nothing.
    for name in ["git.bundle", "git/3.bundle", "vendors/claude/id/x"] {
        let mut parts = case.parts.clone();
        parts.add(Raw::file(name, b"x"));
        assert_eq!(case.reason(&parts), (name.to_owned(), Why::Name));
    }
    for name in ["../../x", "/x", "a/../b", ""] {
        let mut parts = case.parts.clone();
        let (agent, id) = ("claude".to_owned(), "id".to_owned());
        parts.manifest.vendors.push(VendorEntry { agent, id, name: name.to_owned() });
        assert_eq!(case.reason(&parts).1, Why::Path);
    }
}

#[test]
fn links_devices_and_directories() {
    let case = case();
    // Hard and soft links, devices, directories, pipes, what tar 7 and sparse files are, unknown.
    for kind in *b"123456 7SxgKVZ\0" {
        let mut parts = case.parts.clone();
        let raw = Raw { kind, link: "/etc/passwd", ..Raw::file("streams/evil", b"") };
        parts.add(raw.clone());
        assert_eq!(case.reason(&parts), ("streams/evil".to_owned(), Why::Kind), "{kind}");
        // First, under the name of a file that comes later.
        let mut parts = case.parts.clone();
        parts.entries.insert(0, Raw { name: b"session.json".to_vec(), ..raw });
        assert_eq!(case.reason(&parts), ("session.json".to_owned(), Why::Kind), "{kind}");
    }
    let mut parts = case.parts.clone();
    parts.add(Raw { link: "/etc/passwd", ..Raw::file("streams/evil", b"") });
    assert_eq!(case.reason(&parts).1, Why::Kind);
}

#[test]
fn a_list_that_is_not_true() {
    let case = case();
    let stream = "streams/0001-native.jsonl";
    let is = |parts: &Parts, entry: &str, why| {
        assert_eq!(case.reason(parts), (entry.to_owned(), why));
    };
    let mut parts = case.parts.clone();
    parts.entries.push(Raw::file(stream, &parts.body(stream)));
    is(&parts, stream, Why::Twice);
    let mut parts = case.parts.clone();
    parts.manifest.files.push(parts.manifest.files[0].clone());
    is(&parts, "session.json", Why::Twice);
    let mut parts = case.parts.clone();
    parts.entries.push(Raw::file("streams/other", b"x"));
    is(&parts, "streams/other", Why::NotListed);
    let mut parts = case.parts.clone();
    parts.entries.retain(|raw| raw.name != stream.as_bytes());
    is(&parts, stream, Why::Missing);
    let mut parts = case.parts.clone();
    parts.entry(stream).body[5] ^= 1;
    is(&parts, stream, Why::Hash);
    let mut parts = case.parts.clone();
    parts.entry(stream).body.push(b'x');
    parts.entry(stream).size += 1;
    is(&parts, stream, Why::Size { listed: 50_000, found: 50_001 });
    for name in ["session.json", "journal.jsonl"] {
        let mut parts = case.parts.clone();
        parts.entries.retain(|raw| raw.name != name.as_bytes());
        parts.manifest.files.retain(|file| file.path != name);
        is(&parts, name, Why::Missing);
    }
    // A second list.
    let mut parts = case.parts.clone();
    parts.entries.push(Raw::file("bundle.json", b"{}"));
    is(&parts, "bundle.json", Why::Name);
}

#[test]
fn another_session_than_it_says() {
    let case = case();
    let other = "01M7GHH13XK50TNXR82WW3N942";
    let mut parts = case.parts.clone();
    parts.manifest.session = other.parse().unwrap();
    assert!(
        matches!(case.reason(&parts), (entry, Why::Disagrees { .. }) if entry == "session.json")
    );
    // session.json follows the list, the journal does not.
    let json = serde_json::to_vec(&identity(other, REPO)).unwrap();
    parts.swap("session.json", &json);
    let (entry, why) = case.reason(&parts);
    assert!(entry == "journal.jsonl" && matches!(why, Why::Session(_)), "{why}");
    // The chain begins with the right id, and its first event has another.
    let mut parts = case.parts.clone();
    parts.swap("journal.jsonl", &first_line(&identity(other, REPO), id()));
    let (entry, why) = case.reason(&parts);
    assert!(entry == "session.json" && matches!(why, Why::Session(_)), "{why}");
    for repo in ["..", ".", "", "a/b", "../x", "/x", ".hidden", "a\\b", "a\0b", "a\nb"] {
        let mut parts = case.parts.clone();
        repo.clone_into(&mut parts.manifest.repo.id);
        parts.swap("session.json", &serde_json::to_vec(&identity(ID, repo)).unwrap());
        assert_eq!(case.reason(&parts), ("bundle.json".to_owned(), Why::RepoId(repo.to_owned())));
    }
    let mut parts = case.parts.clone();
    "other".clone_into(&mut parts.manifest.repo.id);
    assert!(matches!(case.reason(&parts).1, Why::Disagrees { .. }));
}

#[test]
fn a_session_that_is_damaged() {
    let case = case();
    let journal = case.parts.body("journal.jsonl");
    let lines: Vec<_> = journal.split_inclusive(|b| *b == b'\n').collect();
    let mut bent = journal.clone();
    bent[300] ^= 1;
    let hole = [&lines[..5], &lines[6..]].concat().concat();
    for bad in [bent, hole, Vec::new(), b"{}\n".to_vec(), journal[..200].to_vec()] {
        let mut parts = case.parts.clone();
        parts.swap("journal.jsonl", &bad);
        assert!(matches!(case.reason(&parts).1, Why::Session(_)));
    }
    let blob = case.parts.manifest.files.iter().find(|f| f.path.starts_with("blobs/")).unwrap();
    let mut parts = case.parts.clone();
    parts.swap(&blob.path, b"other");
    assert!(matches!(case.reason(&parts).1, Why::Session(_)));
    let mut parts = case.parts.clone();
    parts.entries.retain(|raw| raw.name != blob.path.as_bytes());
    parts.manifest.files.retain(|file| file.path != blob.path);
    assert!(matches!(case.reason(&parts).1, Why::Session(_)));
    let mut parts = case.parts.clone();
    parts.swap("session.json", b"{");
    assert!(matches!(case.reason(&parts).1, Why::Session(_)));

    // Only a torn tail is let in: it was never reported to anyone.
    let mut parts = case.parts.clone();
    parts.swap("journal.jsonl", &[&journal[..], b"{\"v\":1,"].concat());
    fs::write(&case.made.bundle, parts.pack()).unwrap();
    take(&case.made.bundle, &home(&case.made.tmp.path().join("to"))).unwrap();
}

#[test]
fn a_file_that_is_no_bundle() {
    let case = case();
    let good = case.parts.pack();
    let tar = case.parts.tar();
    let not = |bytes: &[u8]| match case.refused(bytes) {
        Error::NotABundle { why, .. } => why,
        other => panic!("{other}"),
    };
    assert_eq!(not(b""), Why::Truncated);
    assert!(matches!(not(b"hello, this is text and no bundle at all"), Why::Compression(_)));
    assert!(matches!(not(&tar), Why::Compression(_)));
    assert_eq!(not(&squeeze(b"")), Why::Truncated);
    assert_eq!(not(&squeeze(&[7; 2000])), Why::Header);
    assert_eq!(not(&squeeze(&[0; 1024])), Why::NoManifest);
    assert_eq!(not(&squeeze(&Raw::file("x", b"y").bytes())), Why::NoManifest);
    assert!(matches!(not(&squeeze(&Raw::file("bundle.json", b"{}").bytes())), Why::Json(_)));
    assert!(matches!(not(&squeeze(&Raw::file("bundle.json", b"\xff").bytes())), Why::Json(_)));
    let newer = squeeze(&Raw::file("bundle.json", b"{\"v\":2}").bytes());
    assert!(matches!(case.refused(&newer), Error::Newer { found: 2, .. }));
    let error = take(case.made.tmp.path(), &case.made.home).unwrap_err();
    assert!(matches!(error, Error::NotABundle { .. }), "{error}");

    let why = |bytes: &[u8]| match case.refused(bytes) {
        Error::Refused { why, .. } => why,
        other => panic!("{other}"),
    };
    assert_eq!(why(&[&good[..], b"x"].concat()), Why::TrailingBytes);
    assert_eq!(why(&[&good[..], &good[..]].concat()), Why::TrailingBytes);
    assert_eq!(why(&squeeze(&[&tar[..], b"x"].concat())), Why::TrailingBytes);
    assert_eq!(why(&squeeze(&[&tar[..], &[0; 512]].concat())), Why::TrailingBytes);
    assert_eq!(why(&squeeze(&tar[..tar.len() - 512])), Why::Truncated);
    assert_eq!(why(&squeeze(&tar[..tar.len() - 1024])), Why::Truncated);
    assert_eq!(why(&good[..good.len() - 1]), Why::Truncated);
    let mut hidden = tar.clone();
    let padding = hidden.len() - 1024 - 1;
    hidden[padding] = 1;
    assert_eq!(why(&squeeze(&hidden)), Why::Padding);
}

#[test]
fn bombs() {
    let case = case();
    let large = Raw { size: 1 << 40, ..Raw::file("bundle.json", b"{}") };
    let error = case.refused(&squeeze(&large.bytes()));
    assert!(matches!(error, Error::Refused { why: Why::TooLarge(_), .. }), "{error}");
    let mut parts = case.parts.clone();
    parts.add(Raw::file("streams/big", b"x"));
    parts.manifest.files.last_mut().unwrap().size = 9 << 30;
    assert_eq!(case.reason(&parts).1, Why::TooLarge(8 << 30));
    // Sums that wrap around.
    parts.manifest.files.last_mut().unwrap().size = u64::MAX;
    assert_eq!(case.reason(&parts).1, Why::TooLarge(8 << 30));
    // The list is modest, the file is not.
    parts.manifest.files.last_mut().unwrap().size = 1;
    parts.entry("streams/big").size = 7 << 30;
    assert!(matches!(case.reason(&parts).1, Why::Size { .. }));
    let limit = 1000;
    let error =
        case.refused_with(&case.parts.pack(), &ImportOptions { limit, ..Default::default() });
    assert!(matches!(error, Error::Refused { why: Why::TooLarge(1000), .. }), "{error}");

    // All is as listed, and it is 150 MiB of nothing.
    let mut parts = case.parts.clone();
    parts.add(Raw::file("streams/zeros", &vec![0; 150 << 20]));
    let bomb = parts.pack();
    assert!(bomb.len() < 300_000);
    match case.refused(&bomb) {
        Error::Refused { entry, why, .. } => {
            assert_eq!((entry.as_str(), why), ("streams/zeros", Why::Bomb(200)));
        }
        other => panic!("{other}"),
    }
    // A long name that is too long.
    let mut tar =
        Raw::file("bundle.json", &serde_json::to_vec(&case.parts.manifest).unwrap()).bytes();
    tar.extend(Raw { kind: b'L', ..Raw::file("././@LongLink", &[b'a'; 5000]) }.bytes());
    assert!(matches!(
        case.refused(&squeeze(&tar)),
        Error::Refused { why: Why::TooLarge(4096), .. }
    ));
    // A window of 1 GiB.
    let mut zstd = zstd::Encoder::new(Vec::new(), 3).unwrap();
    zstd.window_log(30).unwrap();
    std::io::Write::write_all(&mut zstd, &case.parts.tar()).unwrap();
    let error = case.refused(&zstd.finish().unwrap());
    assert!(matches!(error, Error::NotABundle { why: Why::Compression(_), .. }), "{error}");
}

#[test]
fn refs_of_others() {
    let case = case();
    let commit = "a".repeat(40);
    for name in [
        "refs/heads/main",
        "HEAD",
        "refs/segue/x/1",
        "refs/segue/01M7GHH13XK50TNXR82WW3N941/",
        "refs/segue/01M7GHH13XK50TNXR82WW3N941/../../heads/main",
        "refs/segue/01M7GHH13XK50TNXR82WW3N941/a b",
        "refs/segue/01M7GHH13XK50TNXR82WW3N941/a\nb",
        "refs/segue/01M7GHH13XK50TNXR82WW3N941/x.lock",
        "refs/segue/01M7GHH13XK50TNXR82WW3N941/*",
    ] {
        let mut parts = case.parts.clone();
        let refs = vec![GitRef { name: name.to_owned(), commit: commit.clone(), carried: false }];
        parts.manifest.git.push(GitEntry { path: String::new(), file: None, refs, needs: vec![] });
        assert!(matches!(case.reason(&parts).1, Why::Git(_)), "{name}");
    }
    for path in ["../x", "/x", "a/../../b"] {
        let mut parts = case.parts.clone();
        let entry = GitEntry { path: path.to_owned(), file: None, refs: vec![], needs: vec![] };
        parts.manifest.git.push(entry);
        assert_eq!(case.reason(&parts).1, Why::Path);
    }
}
