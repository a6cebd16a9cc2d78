//! What a hand-off and a rewind need of the journal: turns found by halving, messages that count
//! once, a ledger of limits, a packet that knows whether it was edited.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::{fs, path::Path, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use segue_core::{
    Payload,
    event::{
        Cause, Draft, KnownLimit, Outcome, ProgressReported, RewindFinished, RewindStarted,
        TextWritten, TurnEnded, TurnStarted, WarningRaised,
    },
    inbox::Message,
    packet::{Facts, Packet},
};
use segue_journal::{Durability, Home, LockedSession, RealDisk, Session, inbox, system_clock};

#[expect(dead_code, reason = "shared with other tests")]
mod support;

fn home(dir: &Path) -> Home {
    Home::new(Arc::new(RealDisk), dir.join("home"))
}

fn session(dir: &Path) -> LockedSession {
    home(dir).create(support::new("go"), &support::me(), &system_clock()).unwrap().0
}

/// A turn with so many texts, and events of no turn between.
fn turn(session: &mut LockedSession, texts: usize) {
    let number = session.state().turn.number + 1;
    let in_turn = |body: segue_core::Body| Draft::from(body).in_turn(number, "native");
    let mut drafts = vec![
        WarningRaised { message: "between".into() }.into(),
        in_turn(TurnStarted::new(Payload::inline(format!("p{number}")), Cause::Person).into()),
    ];
    for n in 0..texts {
        let text = Payload::inline(format!("t{number}.{n} {}", "x".repeat(200)));
        drafts.push(in_turn(TextWritten { text, partial: false }.into()));
    }
    drafts.push(in_turn(TurnEnded::with(Outcome::Finished).into()));
    session.append_all(drafts, Durability::Soon).unwrap();
}

fn rewind(session: &mut LockedSession, to_turn: u32) {
    let path = Some(session.state().path_to(to_turn));
    let started = RewindStarted {
        to_turn,
        files: None,
        path,
        safety: String::new(),
        cuts: Vec::new(),
        undo: false,
    };
    session.append(started, Durability::Soon).unwrap();
    session
        .append(RewindFinished { to_turn, files: 0, begins: false }, Durability::Synced)
        .unwrap();
}

fn turns_backwards(session: &Session) -> Vec<u32> {
    let mut turns: Vec<u32> = session.conversed().unwrap().filter_map(|e| e.turn).collect();
    turns.dedup();
    turns
}

#[test]
fn a_rewound_conversation_is_read_without_what_was_left_behind() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = session(tmp.path());
    // Long and short ones, so that the halving meets every kind of border.
    for texts in [1, 700, 2, 3, 900, 0, 5, 400] {
        turn(&mut session, texts);
    }
    for number in 1..=8 {
        let mut found = Vec::new();
        let read = |event: &segue_core::Event| {
            found.extend(event.turn);
            Ok(())
        };
        session.session().turn(number, read).unwrap();
        found.dedup();
        assert_eq!(found, [number]);
    }
    rewind(&mut session, 3);
    turn(&mut session, 2);
    turn(&mut session, 600);
    rewind(&mut session, 9);
    turn(&mut session, 1);
    assert_eq!(turns_backwards(session.session()), [11, 9, 3, 2, 1]);
    rewind(&mut session, 0);
    assert_eq!(turns_backwards(session.session()), [0u32; 0]);
    turn(&mut session, 1);
    assert_eq!(turns_backwards(session.session()), [12]);
}

#[test]
fn a_message_is_whole_in_order_and_counts_once() {
    let tmp = tempfile::tempdir().unwrap();
    let session = session(tmp.path());
    let dir = session.session().dir();
    let report = |next: &str| Message::Report {
        turn: 1,
        agent: "claude".into(),
        report: ProgressReported { next_task: Some(next.into()), ..ProgressReported::default() },
    };
    inbox::put(&RealDisk, dir, "0002-b", &report("second")).unwrap();
    inbox::put(&RealDisk, dir, "0001-a", &report("first")).unwrap();
    inbox::put(&RealDisk, dir, "0001-a", &report("again")).unwrap();
    fs::write(dir.join("inbox/0000-c.json"), "{ not json").unwrap();
    fs::write(dir.join("inbox/.0003.tmp"), "{}").unwrap();
    let waiting = inbox::waiting(&RealDisk, dir).unwrap();
    let messages: Vec<_> = waiting.iter().map(|one| (one.id.as_str(), &one.message)).collect();
    assert_eq!(messages, [("0001-a", &report("first")), ("0002-b", &report("second"))]);
    waiting[0].remove(&RealDisk).unwrap();
    waiting[0].remove(&RealDisk).unwrap();
    assert_eq!(inbox::waiting(&RealDisk, dir).unwrap().len(), 1);
    assert!(dir.join("inbox/0000-c.json").exists(), "what is no message is left alone");
}

#[test]
fn a_limit_is_known_to_all_until_it_is_over() {
    let tmp = tempfile::tempdir().unwrap();
    let home = home(tmp.path());
    drop(session(tmp.path()));
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let later = |minutes| now + SignedDuration::from_mins(minutes);
    let limit = |agent: &str, resets_at| KnownLimit {
        agent: agent.into(),
        message: "spent".into(),
        resets_at,
        hit_at: now,
    };
    home.remember_limit(limit("claude", Some(later(120))), now).unwrap();
    home.remember_limit(limit("codex", None), now).unwrap();
    home.remember_limit(limit("claude", Some(later(60))), now).unwrap();
    assert_eq!(home.limit_of("claude", now).unwrap().resets_at, Some(later(60)));
    assert!(home.limit_of("codex", later(14)).is_some(), "for a while, where no end was told");
    assert!(home.limit_of("codex", later(16)).is_none());
    assert!(home.limit_of("claude", later(61)).is_none());
    home.forget_limit("claude", now).unwrap();
    assert_eq!(home.limits(now).len(), 1);
    fs::write(home.dir().join("limits.json"), "torn").unwrap();
    assert!(home.limits(now).is_empty(), "a convenience that can't be read is none");
}

#[test]
fn a_packet_knows_whether_it_was_edited() {
    let tmp = tempfile::tempdir().unwrap();
    let mut session = session(tmp.path());
    turn(&mut session, 1);
    let facts = Facts { objective: "go".into(), reason: "done".into(), ..Facts::default() };
    let packet = Packet::of(session.state(), facts, Timestamp::UNIX_EPOCH).unwrap();
    assert!(session.session().edited_packet().unwrap().is_none(), "there is none yet");
    session.write_packet(&packet).unwrap();
    assert!(session.session().edited_packet().unwrap().is_none());
    let path = session.session().dir().join("resume.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}\n\n")).unwrap();
    assert!(session.session().edited_packet().unwrap().is_none(), "blank lines say nothing");
    fs::write(&path, text.replace("\"turn_count\": 1", "\"turn_count\": 0")).unwrap();
    let edited = session.session().edited_packet().unwrap().unwrap();
    assert_eq!((edited.turn_count, edited.objective.as_str()), (0, "go"));
    fs::write(&path, text.replace("\"turn_count\": 1", "\"turn_count\": one")).unwrap();
    let error = session.session().edited_packet().unwrap_err().to_string();
    assert!(error.contains("resume.json: line "), "{error}");
}
