//! A session on a real disk: created, written, torn, damaged, mended, locked.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::{fs, path::Path, sync::Arc};

use jiff::Timestamp;
use segue_core::{
    Payload,
    event::{TextWritten, WarningRaised},
    identity::RepoRef,
};
use segue_journal::{
    Durability, Error, Home, RealDisk, Session,
    home::NewSession,
    lock::Holder,
    repair::{self, Problem},
    scan::{Ending, Finding},
    session::Mended,
    system_clock,
    tail::Tail,
};

fn me() -> Holder {
    Holder { pid: std::process::id(), host: "here".to_owned(), since: Timestamp::now() }
}

fn home(dir: &Path) -> Home {
    Home::new(Arc::new(RealDisk), dir.join("home"))
}

fn new(prompt: &str) -> NewSession {
    NewSession {
        segue: "0".into(),
        ..NewSession::new(
            RepoRef { id: "repo".into(), identity: "/repo".into(), head: None, branch: None },
            "/repo".into(),
            "native".into(),
            prompt.into(),
        )
    }
}

fn said(text: &str) -> TextWritten {
    TextWritten { text: Payload::inline(text), partial: false }
}

/// A session of eleven events, closed, and the directory that it is in.
fn written(dir: &Path) -> std::path::PathBuf {
    let (mut session, number) = home(dir).create(new("go"), &me(), &system_clock()).unwrap();
    assert_eq!(number, 1);
    for n in 0..10 {
        session.append(said(&format!("text {n}")), Durability::Synced).unwrap();
    }
    session.session().dir().to_owned()
}

fn open(dir: &Path) -> Session {
    Session::open(Arc::new(RealDisk), dir).unwrap()
}

fn journal(dir: &Path) -> Vec<u8> {
    fs::read(dir.join("journal.jsonl")).unwrap()
}

#[test]
fn what_was_written_is_read_back_with_and_without_its_snapshot() {
    let temp = tempfile::tempdir().unwrap();
    let dir = written(temp.path());
    let with = open(&dir);
    assert_eq!((with.state().seq, with.ending()), (11, &Ending::Clean));
    assert_eq!(with.state().last_text.as_deref(), Some("text 9"));
    fs::remove_file(dir.join("state.json")).unwrap();
    let without = open(&dir);
    assert_eq!(with.state(), without.state());
    let forward: Vec<u64> = {
        let mut seqs = Vec::new();
        without.for_each(|event| seqs.push(event.seq)).unwrap();
        seqs
    };
    let mut backward: Vec<u64> = without.newest_first().unwrap().map(|event| event.seq).collect();
    backward.reverse();
    assert_eq!(forward, (1..=11).collect::<Vec<_>>());
    assert_eq!(forward, backward);
}

#[test]
fn a_torn_tail_is_set_aside_by_the_next_writer_and_by_nobody_else() {
    let temp = tempfile::tempdir().unwrap();
    let dir = written(temp.path());
    let whole = journal(&dir);
    let torn = [&whole[..], br#"{"v":1,"seq":12,"at""#].concat();
    fs::write(dir.join("journal.jsonl"), &torn).unwrap();
    let session = open(&dir);
    assert_eq!(session.ending(), &Ending::Torn { bytes: 20 });
    assert_eq!(journal(&dir), torn, "looking changes nothing");
    let (locked, mended) = session.lock(&me(), system_clock()).unwrap();
    assert_eq!(mended, [Mended::TornTail { bytes: 20, kept_in: "journal.torn-12".into() }]);
    assert_eq!(locked.state().seq, 12, "the repair is an event of its own");
    drop(locked);
    assert_eq!(fs::read(dir.join("journal.torn-12")).unwrap(), br#"{"v":1,"seq":12,"at""#);
    assert!(journal(&dir).starts_with(&whole));
}

#[test]
fn damage_in_the_middle_is_named_and_never_cut_unasked() {
    let temp = tempfile::tempdir().unwrap();
    let dir = written(temp.path());
    let mut bytes = journal(&dir);
    let at = bytes.windows(6).position(|window| window == b"text 4").unwrap();
    bytes[at + 5] = b'5';
    fs::write(dir.join("journal.jsonl"), &bytes).unwrap();
    fs::remove_file(dir.join("state.json")).unwrap();
    let session = open(&dir);
    assert_eq!(session.state().seq, 5, "everything before it stays usable");
    let Ending::Damaged(damage) = session.ending().clone() else { panic!() };
    assert_eq!(damage.line, 6);
    assert!(matches!(damage.finding, Finding::NotALine(_)));
    let report = repair::verify(&session).unwrap();
    assert!(matches!(&report.problems[..], [Problem::Damaged(found)] if *found == damage));
    assert!(matches!(session.lock(&me(), system_clock()), Err(Error::Damaged { .. })));
    assert_eq!(journal(&dir), bytes);

    let kept_in = repair::cut_back(&open(&dir), &me(), system_clock()).unwrap().unwrap();
    assert_eq!(fs::read(dir.join(kept_in)).unwrap(), bytes, "the whole of it is kept");
    let (mut locked, mended) = open(&dir).lock(&me(), system_clock()).unwrap();
    assert_eq!(mended, []);
    locked.append(said("goes on"), Durability::Synced).unwrap();
    assert_eq!((locked.state().seq, locked.state().repairs), (7, 1), "the repair is an event");
}

#[test]
fn a_file_that_is_cut_short_below_its_snapshot_is_damaged_not_torn() {
    let temp = tempfile::tempdir().unwrap();
    let dir = written(temp.path());
    let bytes = journal(&dir);
    let end = bytes[..bytes.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    fs::write(dir.join("journal.jsonl"), &bytes[..end]).unwrap();
    let Ending::Damaged(damage) = open(&dir).ending().clone() else { panic!() };
    assert_eq!(damage.finding, Finding::Missing { expected: 11 });
}

#[test]
fn a_broken_session_json_is_written_again_from_the_journal_and_kept() {
    let temp = tempfile::tempdir().unwrap();
    let dir = written(temp.path());
    let good = fs::read(dir.join("session.json")).unwrap();
    fs::write(dir.join("session.json"), b"{ half").unwrap();
    let report = repair::verify(&open(&dir)).unwrap();
    let [Problem::Identity { error: Some(error) }] = &report.problems[..] else { panic!() };
    assert!(error.to_string().contains("session.json: line 1, column"), "{error}");
    let (locked, mended) = open(&dir).lock(&me(), system_clock()).unwrap();
    drop(locked);
    assert_eq!(mended, [Mended::Identity]);
    assert_eq!(fs::read(dir.join("session.json")).unwrap(), good);
    assert_eq!(fs::read(dir.join("session.json.broken")).unwrap(), b"{ half");
}

#[test]
fn a_part_without_a_session_json_is_known_by_its_first_event() {
    let temp = tempfile::tempdir().unwrap();
    let part = written(temp.path()).join("reviewers/critic");
    home(temp.path()).create_within(&part, new("judge"), &system_clock()).unwrap();
    let id = open(&part).id();
    for broken in [None, Some("{"), Some(""), Some("{}")] {
        match broken {
            Some(text) => fs::write(part.join("session.json"), text).unwrap(),
            None => fs::remove_file(part.join("session.json")).unwrap(),
        }
        assert_eq!(open(&part).id(), id, "{broken:?}");
        let (locked, mended) = open(&part).lock(&me(), system_clock()).unwrap();
        drop(locked);
        assert_eq!(mended, [Mended::Identity], "{broken:?}");
    }
    // Without either it is nobody's; what there is of it makes room for another one.
    fs::write(part.join("session.json"), "{").unwrap();
    fs::write(part.join("journal.jsonl"), "").unwrap();
    let disk = std::sync::Arc::new(segue_journal::RealDisk);
    assert!(matches!(Session::open(disk, &part), Err(Error::NotASession { .. })));
    let aside = home(temp.path()).set_aside_within(&part).unwrap();
    assert_eq!(fs::read_to_string(aside.join("session.json")).unwrap(), "{");
    home(temp.path()).create_within(&part, new("judge"), &system_clock()).unwrap();
    assert_ne!(open(&part).id(), id);
    let whole = open(part.parent().and_then(std::path::Path::parent).unwrap());
    assert_eq!(whole.places().unwrap(), ["reviewers/critic"]);
}

#[test]
fn the_second_writer_is_told_who_the_first_is() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    let (session, _) = home.create(new("go"), &me(), &system_clock()).unwrap();
    let dir = session.session().dir().to_owned();
    let Err(Error::Busy { holder, .. }) = open(&dir).lock(&me(), system_clock()) else { panic!() };
    assert_eq!((holder.pid, holder.host.as_str()), (std::process::id(), "here"));
    assert!(open(&dir).held_by().unwrap().is_some());
    drop(session);
    assert!(open(&dir).held_by().unwrap().is_none());
    open(&dir).lock(&me(), system_clock()).unwrap();
}

#[test]
fn a_line_of_a_newer_format_is_read_and_never_written_to() {
    let temp = tempfile::tempdir().unwrap();
    let dir = written(temp.path());
    let text = String::from_utf8(journal(&dir)).unwrap();
    let first = text.lines().next().unwrap();
    let covered = first[..first.len() - 18].replacen("\"v\":1", "\"v\":2", 1);
    let line = format!("{covered},\"crc\":\"{:08x}\"}}\n", crc32c::crc32c(covered.as_bytes()));
    fs::write(dir.join("journal.jsonl"), line).unwrap();
    fs::remove_file(dir.join("state.json")).unwrap();
    assert_eq!(open(&dir).state().seq, 1);
    let locked = open(&dir).lock(&me(), system_clock());
    assert!(matches!(locked, Err(Error::Newer { found: 2, .. })));
}

#[test]
fn long_payloads_are_in_blobs_and_a_changed_blob_is_found() {
    let temp = tempfile::tempdir().unwrap();
    let long = "ä long prompt ".repeat(1000);
    let (session, _) = home(temp.path()).create(new(&long), &me(), &system_clock()).unwrap();
    let dir = session.session().dir().to_owned();
    drop(session);
    let session = open(&dir);
    let prompt = session.state().identity.as_ref().unwrap().prompt.clone();
    assert!(prompt.text.is_none() && long.starts_with(prompt.head()));
    assert_eq!(session.text(&prompt).unwrap(), long);
    assert_eq!(repair::verify(&session).unwrap().blobs, 1);
    let hash = prompt.blob.unwrap();
    let blob = dir.join("blobs").join(&hash[..2]).join(&hash[2..]);
    fs::write(&blob, zstd::bulk::compress(b"another", 1).unwrap()).unwrap();
    let report = repair::verify(&session).unwrap();
    assert!(matches!(&report.problems[..], [Problem::Blob { line: 1, .. }]), "{report:?}");
    fs::remove_file(&blob).unwrap();
    let report = repair::verify(&session).unwrap();
    assert!(matches!(&report.problems[..], [Problem::Blob { line: 1, .. }]), "{report:?}");
    // Whoever has the text again makes it whole, whatever has become of it.
    for broken in [&b""[..], b"garbage"] {
        fs::write(&blob, broken).unwrap();
        let (locked, _) = open(&dir).lock(&me(), system_clock()).unwrap();
        assert_eq!(locked.payload(&long).unwrap().blob.as_ref(), Some(&hash));
        assert_eq!(repair::verify(locked.session()).unwrap().problems.len(), 0);
    }
}

#[test]
fn another_reader_follows_as_events_come() {
    let temp = tempfile::tempdir().unwrap();
    let (mut session, _) = home(temp.path()).create(new("go"), &me(), &system_clock()).unwrap();
    let reader = open(session.session().dir());
    let mut tail = Tail::new(&RealDisk, reader.dir(), reader.position()).unwrap();
    assert_eq!(tail.new_events().unwrap().len(), 0);
    session.append(WarningRaised { message: "one".into() }, Durability::Soon).unwrap();
    session.append(WarningRaised { message: "two".into() }, Durability::Soon).unwrap();
    let seqs: Vec<u64> = tail.new_events().unwrap().iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [2, 3]);
    assert_eq!(tail.new_events().unwrap().len(), 0);
}

#[test]
fn who_catches_up_knows_what_who_opens_anew_knows() {
    let temp = tempfile::tempdir().unwrap();
    let (mut session, _) = home(temp.path()).create(new("go"), &me(), &system_clock()).unwrap();
    let dir = session.session().dir().to_owned();
    let mut reader = open(&dir);
    let same = |reader: &mut Session| {
        reader.catch_up().unwrap();
        let anew = open(&dir);
        assert_eq!(reader.state(), anew.state());
        assert_eq!(reader.position().offset, anew.position().offset);
        assert_eq!(reader.ending(), anew.ending());
    };
    same(&mut reader);
    for message in ["one", "two"] {
        session.append(WarningRaised { message: message.into() }, Durability::Soon).unwrap();
        same(&mut reader);
    }
    drop(session);
    let journal = dir.join("journal.jsonl");
    let whole = fs::read(&journal).unwrap();
    // Half a line, a line that is no event, and a journal that is shorter than what was read.
    for bytes in
        [&[&whole[..], b"{\"half"].concat(), &[&whole[..], b"{}\n"].concat(), &whole[..9].to_vec()]
    {
        fs::write(&journal, bytes).unwrap();
        same(&mut reader);
    }
    fs::write(&journal, &whole).unwrap();
    same(&mut reader);
    fs::remove_file(&journal).unwrap();
    assert!(reader.catch_up().is_err());
}

#[test]
fn numbers_are_claimed_once_also_for_sessions_that_are_gone() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    let (first, one) = home.create(new("a"), &me(), &system_clock()).unwrap();
    drop(first);
    let at = home.numbered(one).unwrap().unwrap();
    home.remove(&at, &me()).unwrap();
    assert_eq!(home.sessions().unwrap(), []);
    let (_second, two) = home.create(new("b"), &me(), &system_clock()).unwrap();
    assert_eq!((one, two), (1, 2));
    assert_eq!(home.numbers().unwrap().len(), 2);
}

#[test]
fn files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let temp = tempfile::tempdir().unwrap();
    let dir = written(temp.path());
    for name in ["session.json", "journal.jsonl", "state.json", "lock"] {
        let mode = fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
}
