//! The index against everything that can happen to a cache.

use std::{fs, thread};

use crate::common::{at, clock, home, me, new, session, started, work};
use segue_core::{
    event::{Reason, WarningRaised},
    status::Status,
};
use segue_journal::{Durability, Home, home::Located};
use segue_view::{Filter, Index, Row, StatusFilter};

fn rows(index: &mut Index) -> Vec<Row> {
    index.refresh().unwrap();
    index.query(&Filter::default()).unwrap().rows
}

fn look(home: &Home) -> (Vec<Row>, Vec<String>) {
    let mut index = Index::open(home).unwrap();
    let rows = rows(&mut index);
    (rows, index.take_notes())
}

fn prompts(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.prompt.as_str()).collect()
}

fn numbers(rows: &[Row]) -> Vec<Option<u64>> {
    rows.iter().map(|row| row.number).collect()
}

#[test]
fn a_home_that_is_not_there_is_empty_and_stays_away() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    let (rows, notes) = look(&home);
    assert!(rows.is_empty() && notes.is_empty(), "{notes:?}");
    assert!(!home.dir().exists());
}

#[test]
fn cold_and_warm_say_the_same_newest_first() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    session(&home, "a", "first", 10, Reason::Done);
    session(&home, "b", "second", 30, Reason::Interrupted);
    session(&home, "a", "third", 20, Reason::Failed);
    for _ in 0..2 {
        let (rows, notes) = look(&home);
        assert_eq!(prompts(&rows), ["second", "third", "first"]);
        assert_eq!(numbers(&rows), [Some(2), Some(3), Some(1)]);
        let statuses: Vec<Status> = rows.iter().map(Row::status).collect();
        assert_eq!(statuses, [Status::Interrupted, Status::Failed, Status::Completed]);
        let row = &rows[0];
        assert_eq!((row.turns, row.runs, row.tokens, row.cost.0), (1, 1, 412_000, 120_000));
        assert_eq!((row.created_at, row.updated_at), (at(30), at(30)));
        assert_eq!(row.last_text.as_deref(), Some("All done."));
        assert_eq!(row.stop.as_ref().unwrap().message, "as asked");
        assert_eq!((row.repo_identity.as_str(), row.agent.as_str()), ("/src/b", "native"));
        assert_eq!((notes.len(), &row.problem), (0, &None));
    }
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(home.dir().join("index.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn filters_by_repository_status_and_limit() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    session(&home, "a", "first", 10, Reason::Done);
    session(&home, "b", "second", 20, Reason::Interrupted);
    session(&home, "a", "third", 30, Reason::Cap);
    let mut index = Index::open(&home).unwrap();
    index.refresh().unwrap();
    let mut found = |repo: Option<&str>, status: &[&str], limit| {
        let status = status.iter().map(|word| word.parse().unwrap()).collect();
        let filter = Filter { repo: repo.map(str::to_owned), status, limit };
        let listing = index.query(&filter).unwrap();
        let prompts: Vec<String> = listing.rows.into_iter().map(|row| row.prompt).collect();
        (prompts.join(" "), listing.more)
    };
    assert_eq!(found(Some("a"), &[], None), ("third first".into(), false));
    assert_eq!(found(Some("z"), &[], None), (String::new(), false));
    assert_eq!(found(None, &[], Some(2)), ("third second".into(), true));
    assert_eq!(found(None, &[], Some(3)), ("third second first".into(), false));
    assert_eq!(found(None, &["cap", "completed"], None), ("third first".into(), false));
    assert_eq!(found(None, &["resumable"], Some(1)), ("third".into(), true));
    let error = "gone".parse::<StatusFilter>().unwrap_err().to_string();
    assert!(error.contains("agent_crashed"), "{error}");
}

#[test]
fn a_journal_that_grew_behind_its_back_is_read_again() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    let first = session(&home, "a", "first", 10, Reason::Interrupted);
    session(&home, "a", "second", 20, Reason::Done);
    let mut index = Index::open(&home).unwrap();
    assert_eq!(prompts(&rows(&mut index)), ["second", "first"]);
    let (mut locked, _) = home.open(&first).unwrap().lock(&me(), clock(30)).unwrap();
    locked.append(started(), Durability::Synced).unwrap();
    let after = rows(&mut index);
    assert_eq!(prompts(&after), ["first", "second"]);
    assert_eq!((after[0].status(), after[0].runs), (Status::Running, 2));
    assert_eq!(after[0].holder.as_ref().unwrap().pid, std::process::id());
    drop(locked);
    assert_eq!(rows(&mut index)[0].status(), Status::Crashed, "the lock is free, and no stop");
}

#[test]
fn what_was_removed_is_gone_and_its_number_is_not_given_again() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    let first = session(&home, "a", "first", 10, Reason::Done);
    session(&home, "a", "second", 20, Reason::Done);
    let mut index = Index::open(&home).unwrap();
    assert_eq!(rows(&mut index).len(), 2);
    home.remove(&first, &me()).unwrap();
    assert_eq!(numbers(&rows(&mut index)), [Some(2)]);
    session(&home, "a", "third", 30, Reason::Done);
    assert_eq!(numbers(&rows(&mut index)), [Some(3), Some(2)]);
}

/// A copy of a session's directory from another home.
fn bring(from: &Home, to: &Home, what: &Located) {
    let (source, target) = (from.session_dir(what), to.session_dir(what));
    fs::create_dir_all(&target).unwrap();
    for entry in fs::read_dir(source).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), target.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_session_that_was_copied_here_gets_a_number() {
    let temp = tempfile::tempdir().unwrap();
    let here = home(temp.path());
    let there = home(&temp.path().join("there"));
    session(&here, "a", "mine", 10, Reason::Done);
    let mut index = Index::open(&here).unwrap();
    rows(&mut index);
    bring(&there, &here, &session(&there, "a", "theirs", 20, Reason::Done));
    let found = rows(&mut index);
    assert_eq!(
        (prompts(&found), numbers(&found)),
        (vec!["theirs", "mine"], vec![Some(2), Some(1)])
    );
    assert_eq!(here.numbered(2).unwrap().unwrap(), found[0].at);
    assert_eq!(numbers(&look(&here).0), [Some(2), Some(1)]);
}

#[test]
fn a_session_that_is_being_created_is_left_to_its_creator() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    let (locked, _) = home.create(new("a", "x"), &me(), &clock(1)).unwrap();
    fs::remove_file(home.dir().join("numbers/1")).unwrap();
    let mut index = Index::open(&home).unwrap();
    assert_eq!(numbers(&rows(&mut index)), [None]);
    drop(locked);
    assert_eq!(numbers(&rows(&mut index)), [Some(1)]);
}

#[test]
fn a_number_whose_file_is_gone_is_not_shown_any_more() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    session(&home, "a", "first", 10, Reason::Done);
    session(&home, "a", "second", 20, Reason::Done);
    let mut index = Index::open(&home).unwrap();
    rows(&mut index);
    fs::remove_file(home.dir().join("numbers/1")).unwrap();
    let found = rows(&mut index);
    assert_eq!(numbers(&found), [Some(2), Some(3)]);
    assert_eq!(home.numbered(3).unwrap().unwrap(), found[1].at);
}

#[test]
fn a_broken_file_is_rebuilt_and_that_is_said() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    session(&home, "a", "first", 10, Reason::Done);
    let path = home.dir().join("index.db");
    look(&home);
    let good = fs::read(&path).unwrap();
    let mut zeroed = good.clone();
    zeroed[4096..].fill(0);
    let mut noise = good.clone();
    noise[200..].iter_mut().step_by(3).for_each(|byte| *byte ^= 0x5a);
    let cut = good[..good.len() / 2].to_vec();
    for broken in [b"this is not a database, not at all".repeat(40), zeroed, noise, cut] {
        fs::write(&path, &broken).unwrap();
        let (rows, notes) = look(&home);
        assert_eq!((prompts(&rows), numbers(&rows)), (vec!["first"], vec![Some(1)]));
        assert!(
            matches!(&notes[..], [note] if note.ends_with("was damaged and has been rebuilt")),
            "{notes:?}"
        );
        assert_eq!(look(&home).1.len(), 0, "and then it is good");
    }
}

#[test]
fn a_file_that_breaks_while_it_is_open_is_rebuilt() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    session(&home, "a", "first", 10, Reason::Done);
    let path = home.dir().join("index.db");
    let mut index = Index::open(&home).unwrap();
    rows(&mut index);
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute("UPDATE sessions SET id = 'nonsense', phase = 'x'", []).unwrap();
    assert_eq!(prompts(&index.query(&Filter::default()).unwrap().rows), ["first"]);
    assert_eq!(index.take_notes().len(), 1);
    drop(other);
    assert_eq!(look(&home).1.len(), 0);
}

#[test]
fn a_file_of_another_version_is_rebuilt() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    session(&home, "a", "first", 10, Reason::Done);
    look(&home);
    let path = home.dir().join("index.db");
    for change in ["PRAGMA user_version = 99", "PRAGMA application_id = 5"] {
        rusqlite::Connection::open(&path).unwrap().execute_batch(change).unwrap();
        let (rows, notes) = look(&home);
        assert_eq!(prompts(&rows), ["first"]);
        assert!(notes[0].ends_with("was of another version and has been rebuilt"), "{notes:?}");
        assert_eq!(look(&home).1.len(), 0);
    }
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("DROP TABLE sessions").unwrap();
    assert_eq!(prompts(&look(&home).0), ["first"], "the right version without its tables");
}

#[test]
fn where_no_file_can_be_opened_memory_has_to_do() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    session(&home, "a", "first", 10, Reason::Done);
    fs::create_dir(home.dir().join("index.db")).unwrap();
    let (rows, notes) = look(&home);
    assert_eq!((prompts(&rows), numbers(&rows)), (vec!["first"], vec![Some(1)]));
    assert!(matches!(&notes[..], [note] if note.contains("index.db can't be used")), "{notes:?}");
}

#[test]
fn a_file_that_somebody_keeps_locked_is_done_without() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    session(&home, "a", "first", 10, Reason::Done);
    look(&home);
    session(&home, "a", "second", 20, Reason::Done);
    // What a read-only file is for others, this is for root as well: it can't be written.
    let other = rusqlite::Connection::open(home.dir().join("index.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (rows, notes) = look(&home);
    assert_eq!(prompts(&rows), ["second", "first"]);
    assert!(matches!(&notes[..], [note] if note.contains("locked")), "{notes:?}");
}

#[test]
fn many_that_look_at_once_agree_on_rows_and_numbers() {
    let temp = tempfile::tempdir().unwrap();
    let here = home(temp.path());
    let there = home(&temp.path().join("there"));
    session(&here, "a", "mine", 5, Reason::Done);
    for n in 0..12 {
        bring(&there, &here, &session(&there, "a", "theirs", 10 + n, Reason::Done));
    }
    let seen: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| look(&here))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (rows, notes) in &seen {
        assert_eq!(notes.len(), 0, "{notes:?}");
        assert_eq!(numbers(rows), numbers(&seen[0].0));
    }
    let mut given: Vec<_> = numbers(&seen[0].0).into_iter().flatten().collect();
    given.sort_unstable();
    assert_eq!(given, (1..=13).collect::<Vec<u64>>());
    assert_eq!(here.numbers().unwrap().len(), 13);
}

#[test]
fn sessions_with_something_wrong_are_listed_with_it() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    let journal = |at: &Located| home.session_dir(at).join("journal.jsonl");
    let damaged = session(&home, "a", "damaged", 10, Reason::Done);
    let text = fs::read_to_string(journal(&damaged)).unwrap();
    fs::write(journal(&damaged), text.replace("All done.", "All DONE.")).unwrap();
    fs::remove_file(home.session_dir(&damaged).join("state.json")).unwrap();
    let torn = session(&home, "a", "torn", 20, Reason::Interrupted);
    let text = fs::read_to_string(journal(&torn)).unwrap();
    fs::write(journal(&torn), text + "{\"v\":1,").unwrap();
    let lost = session(&home, "a", "lost", 30, Reason::Done);
    fs::remove_file(journal(&lost)).unwrap();
    let nothing = session(&home, "a", "nothing", 40, Reason::Done);
    fs::remove_file(journal(&nothing)).unwrap();
    fs::write(home.session_dir(&nothing).join("session.json"), "{ half").unwrap();
    let half = session(&home, "a", "half", 50, Reason::Done);
    fs::write(home.session_dir(&half).join("session.json"), "{ half").unwrap();
    let empty = session(&home, "a", "empty", 60, Reason::Done);
    fs::write(journal(&empty), "").unwrap();
    for _ in 0..2 {
        let (rows, notes) = look(&home);
        assert_eq!((rows.len(), notes.len()), (6, 0));
        let row = |at: &Located| rows.iter().find(|row| row.at == *at).unwrap();
        let problem = |at| row(at).problem.clone().unwrap_or_default();
        assert!(
            problem(&damaged).contains("line 5: damaged: its checksum"),
            "{}",
            problem(&damaged)
        );
        assert_eq!((row(&damaged).prompt.as_str(), row(&damaged).number), ("damaged", Some(1)));
        assert!(problem(&torn).contains("torn end of 7 B"), "{}", problem(&torn));
        assert_eq!(row(&torn).status(), Status::Interrupted);
        assert_eq!(problem(&lost), "journal.jsonl is missing");
        assert_eq!((row(&lost).prompt.as_str(), row(&lost).status()), ("lost", Status::Unknown));
        assert_eq!((row(&nothing).prompt.as_str(), row(&nothing).number), ("", Some(4)));
        assert_eq!((row(&half).prompt.as_str(), problem(&half)), ("half", String::new()));
        assert!(problem(&empty).contains("line 1: cut short"), "{}", problem(&empty));
        assert_eq!((row(&empty).prompt.as_str(), row(&empty).status()), ("empty", Status::Unknown));
    }
}

#[test]
fn half_a_line_of_a_session_at_work_is_not_a_problem_yet() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    let (mut locked, _) = home.create(new("a", "x"), &me(), &clock(1)).unwrap();
    work(&mut locked);
    let journal = locked.session().dir().join("journal.jsonl");
    let mut text = fs::read_to_string(&journal).unwrap();
    text.push_str("{\"v\":1,");
    fs::write(&journal, &text).unwrap();
    let mut index = Index::open(&home).unwrap();
    let row = rows(&mut index).remove(0);
    assert_eq!((row.status(), row.problem), (Status::Running, None));
    drop(locked);
    let row = rows(&mut index).remove(0);
    assert!(row.problem.unwrap().contains("torn"), "its writer is gone, and nothing else changed");
}

#[test]
fn what_is_not_a_session_is_passed_over() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    let first = session(&home, "a", "first", 10, Reason::Done);
    let sessions = home.dir().join("sessions");
    fs::write(sessions.join("a file"), "").unwrap();
    fs::create_dir_all(sessions.join("a/not an id")).unwrap();
    fs::create_dir_all(sessions.join(format!("a/.{}.new", first.id))).unwrap();
    fs::write(
        sessions.join(format!("a/{}", first.id).replace(&first.id.to_string()[..4], "0000")),
        "",
    )
    .unwrap();
    let (rows, notes) = look(&home);
    assert_eq!((prompts(&rows), notes.len()), (vec!["first"], 0));
    let (mut locked, _) = home.open(&first).unwrap().lock(&me(), clock(1)).unwrap();
    locked.append(WarningRaised { message: "x".into() }, Durability::Synced).unwrap();
    assert_eq!(look(&home).0.len(), 1);
}
