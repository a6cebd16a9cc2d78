//! A session and the document that it was made from: which is the same, which another one, and when
//! one may be given out for the other.

use std::{fs, sync::Arc};

use segue_core::{
    Payload,
    event::{Cause, Draft, SessionNamed, TurnStarted},
};
use segue_journal::{
    Durability, Home, RealDisk, Session,
    line::{self, Link, Place},
    repair,
    session::{IDENTITY, JOURNAL},
    system_clock,
};
use segue_share::{
    foreign::Demand,
    tine::{Artifact, Codec, State, Taken, Trust, json::map},
};

use crate::{
    artifacts::{SECRET, bring, plain, run, run_of, session, signed, steps, told, within},
    support::{self, home, me, quiet, take},
};

fn trusted() -> Demand {
    Demand { trust: Some(Trust::Secret(SECRET.to_vec())), signed: true }
}

fn prompt(session: &Session) -> String {
    session.text(&session.state().identity.as_ref().unwrap().prompt).unwrap()
}

#[test]
fn what_a_signature_covers_is_never_taken_for_something_else() {
    let tmp = tempfile::tempdir().unwrap();
    let home = home(tmp.path());
    let good = run("Mend it", &["done"]);
    let mut evil = good.clone();
    // No digest covers it.
    within(&mut evil, "metadata").insert("user_prompt".to_owned(), "Break it".into());
    let (evil, _) = bring(&plain(&evil), &home, &Demand::default()).unwrap();
    assert_eq!(prompt(&session(&home, &evil)), "Break it");

    let file = signed(&good).to_bytes(Codec::Plain);
    let (good, verdict) = bring(&file, &home, &trusted()).unwrap();
    assert_eq!(verdict.state, State::Verified);
    assert!(!good.was_there && good.at != evil.at, "{good:?}");
    let good = session(&home, &good);
    assert_eq!(prompt(&good), "Mend it");
    assert_eq!(told(&good, tmp.path()).signature(trusted().trust.as_ref()).state, State::Verified);
}

#[test]
fn a_signature_makes_another_session_and_white_space_does_not() {
    let tmp = tempfile::tempdir().unwrap();
    let home = home(tmp.path());
    let run = run("Mend it", &["one", "two"]);
    let (first, _) = bring(&plain(&run), &home, &Demand::default()).unwrap();
    let signed = signed(&run);
    let (second, _) = bring(&signed.to_bytes(Codec::Plain), &home, &trusted()).unwrap();
    assert_ne!(first.at, second.at);
    // The signature is still there when it is told again, and the other one has none.
    let state = |taken| told(&session(&home, taken), tmp.path()).signature(None).state;
    assert_eq!((state(&first), state(&second)), (State::Unsigned, State::NoKey));
    let spaced = String::from_utf8(plain(&run)).unwrap().replace('\n', "\n ");
    for bytes in [spaced.into_bytes(), Artifact::read(plain(&run)).unwrap().to_bytes(Codec::Zlib)] {
        let (again, _) = bring(&bytes, &home, &Demand::default()).unwrap();
        assert!(again.was_there && again.at == first.at);
    }
}

#[test]
fn a_session_of_that_name_that_is_another_one_is_left_as_it_is() {
    let tmp = tempfile::tempdir().unwrap();
    let file = plain(&run("Mend it", &["done"]));
    let (taken, _) = bring(&file, &home(&tmp.path().join("a")), &Demand::default()).unwrap();
    // Somebody has made one that has its name.
    let other = home(&tmp.path().join("b"));
    let dir = other.session_dir(&taken.at);
    fs::create_dir_all(&dir).unwrap();
    let identity = support::identity(&taken.at.id.to_string(), "r");
    fs::write(dir.join(IDENTITY), serde_json::to_vec(&identity).unwrap()).unwrap();
    let theirs = support::first_line(&identity, taken.at.id);
    fs::write(dir.join(JOURNAL), &theirs).unwrap();
    for was_there in [false, true] {
        let (made, _) = bring(&file, &other, &Demand::default()).unwrap();
        assert!(made.at.id != taken.at.id && made.was_there == was_there, "{made:?}");
        assert_eq!((prompt(&session(&other, &made)).as_str(), made.gone_on), ("Mend it", None));
    }
    assert_eq!(fs::read(dir.join(JOURNAL)).unwrap(), theirs);
}

#[test]
fn a_file_whose_session_has_gone_on_is_a_session_of_its_own_again() {
    let tmp = tempfile::tempdir().unwrap();
    let home = home(tmp.path());
    let file = signed(&run("Mend it", &["one", "two"])).to_bytes(Codec::Plain);
    let mut before = None;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (made, _) = bring(&file, &home, &trusted()).unwrap();
        assert!(!made.was_there && made.gone_on == before, "{made:?}");
        // As long as it is what the file tells, the file is this one.
        let (again, _) = bring(&file, &home, &trusted()).unwrap();
        assert!(again.was_there && again.at == made.at && again.gone_on == before, "{again:?}");
        assert_eq!(told(&session(&home, &made), tmp.path()).to_bytes(Codec::Plain), file);
        assert!(!seen.contains(&made.at));
        // Whoever names it has done nothing with it.
        goes_on(&home, &made);
        assert_eq!(bring(&file, &home, &trusted()).unwrap().0.at, made.at);
        is_asked(&home, &made);
        before = Some(made.number);
        seen.push(made.at);
    }
}

#[test]
fn a_changed_document_is_found_and_not_given_out() {
    let tmp = tempfile::tempdir().unwrap();
    let home = home(tmp.path());
    let file = signed(&run("Mend it", &["word ".repeat(2000).as_str()])).to_bytes(Codec::Plain);
    let (taken, _) = bring(&file, &home, &trusted()).unwrap();
    let made = session(&home, &taken);
    let origin = made.state().identity.as_ref().unwrap().origin.clone().unwrap();
    let hash = origin.blob.unwrap();
    let blob = taken.dir.join("blobs").join(&hash[..2]).join(&hash[2..]);
    assert!(repair::verify(&made).unwrap().problems.is_empty());
    let other = plain(&run("Break it", &["word"]));
    for bytes in [Some(zstd::encode_all(&other[..], 3).unwrap()), None] {
        match bytes {
            Some(bytes) => fs::write(&blob, bytes).unwrap(),
            None => fs::remove_file(&blob).unwrap(),
        }
        let problems = repair::verify(&made).unwrap().problems;
        assert!(problems.iter().any(repair::Problem::is_loss), "{problems:?}");
        let out = tmp.path().join("out.tine");
        let format = segue_share::foreign::Format::Tine;
        segue_share::foreign::write(&made, &out, format, false, None).unwrap_err();
        assert!(!out.exists());
    }
}

/// A session whose journal tells something else than the document that it names as its origin.
#[test]
fn a_journal_that_does_not_follow_from_its_document_is_told_as_it_is() {
    let tmp = tempfile::tempdir().unwrap();
    let home = home(tmp.path());
    let file = signed(&run("Mend it", &["I have mended it"])).to_bytes(Codec::Plain);
    let (taken, _) = bring(&file, &home, &trusted()).unwrap();
    let made = session(&home, &taken);
    assert_eq!(told(&made, tmp.path()).signature(None).state, State::NoKey);

    let mut events = Vec::new();
    made.for_each(|event| events.push(event)).unwrap();
    let (mut journal, mut prev) = (Vec::new(), Link::first(made.id()));
    for event in events {
        let (turn, agent, id) = (event.turn, event.agent.clone(), event.id.clone());
        let draft = Draft { turn, agent, id, body: event.body };
        let (from, mut line) = (journal.len(), Vec::new());
        let place = Place { seq: event.seq, prev, synced: u64::from(event.seq > 1) };
        line::encode(&draft, place, event.at, &mut line).unwrap();
        let text = String::from_utf8(line).unwrap();
        // The words of the reply, and not those of the document.
        if text.contains(r#""kind":"text.written""#) {
            let body = draft.body.data().unwrap().get().replace("mended", "broken");
            let raw = serde_json::value::RawValue::from_string(body).unwrap();
            let body = segue_core::event::Body::read("text.written", &raw);
            line::encode(&Draft { body, ..draft }, place, event.at, &mut journal).unwrap();
        } else {
            journal.extend(text.into_bytes());
        }
        prev = Link::to(journal[from..].trim_ascii_end());
    }
    fs::write(taken.dir.join(JOURNAL), journal).unwrap();
    let _ = fs::remove_file(taken.dir.join("state.json"));
    let made = Session::open(Arc::new(RealDisk), &taken.dir).unwrap();
    assert!(repair::verify(&made).unwrap().problems.is_empty());
    let told = told(&made, tmp.path());
    assert_eq!(told.signature(None).state, State::Unsigned);
    let says = told.steps().filter_map(|(_, step)| step.get("inputs")?.get("text")?.text());
    assert_eq!(says.collect::<Vec<_>>(), ["Mend it", "I have broken it"]);
}

#[test]
fn a_session_that_went_on_is_a_run_of_its_own_with_the_same_steps() {
    let tmp = tempfile::tempdir().unwrap();
    let home = home(tmp.path());
    let file = signed(&run("Mend it", &["one", "two"])).to_bytes(Codec::Plain);
    let (taken, _) = bring(&file, &home, &trusted()).unwrap();
    let before = told(&session(&home, &taken), tmp.path());
    assert_eq!(before.to_bytes(Codec::Plain), file);
    let after = told(&goes_on(&home, &taken), tmp.path());
    assert_eq!(after.signature(None).state, State::Unsigned);
    assert!(after.findings().is_empty());
    assert_eq!(after.run_id(), taken.at.id.to_string());
}

#[test]
fn a_bundle_brings_the_document_along() {
    let tmp = tempfile::tempdir().unwrap();
    let (here, there) = (home(&tmp.path().join("a")), home(&tmp.path().join("b")));
    let file = signed(&run("Mend it", &["word ".repeat(2000).as_str()])).to_bytes(Codec::Plain);
    let (taken, _) = bring(&file, &here, &trusted()).unwrap();
    let bundle = tmp.path().join("x.segue");
    let options = segue_share::ExportOptions { vendor_files: Vec::new(), ..support::options() };
    segue_share::export(&session(&here, &taken), None, &bundle, &options, &mut quiet).unwrap();
    let done = take(&bundle, &there).unwrap();
    assert_eq!(done.at, taken.at);
    let told = told(&there.open(&done.at).unwrap(), tmp.path());
    assert_eq!(told.to_bytes(Codec::Plain), file);
    // And there it is the same one that the file is.
    assert!(bring(&file, &there, &trusted()).unwrap().0.was_there);
}

#[test]
fn a_file_that_is_nothing_is_read_as_what_its_name_says() {
    use segue_share::foreign::{Format, sniff};
    let tmp = tempfile::tempdir().unwrap();
    for (name, text, format) in [
        ("bad.tine", "nothing", Format::Tine),
        ("empty.tine", "", Format::Tine),
        ("bad.segue", "nothing", Format::Bundle),
        ("bad", "", Format::Bundle),
    ] {
        let file = tmp.path().join(name);
        fs::write(&file, text).unwrap();
        assert_eq!(sniff(&file).unwrap(), format, "{name}");
    }
}

fn is_asked(home: &Home, taken: &Taken) {
    let (mut locked, _) = session(home, taken).lock(&me(), system_clock()).unwrap();
    let turn = locked.state().turn.number + 1;
    let started = TurnStarted::new(Payload::inline("More"), Cause::Person);
    let draft = Draft::from(started).in_turn(turn, "native");
    locked.append(draft, Durability::Synced).unwrap();
}

/// Names it: from then on it is told from its steps.
fn goes_on(home: &Home, taken: &Taken) -> Session {
    let (mut locked, _) = session(home, taken).lock(&me(), system_clock()).unwrap();
    let named = SessionNamed { name: "mine".to_owned() };
    locked.append(named, Durability::Synced).unwrap();
    drop(locked);
    session(home, taken)
}

#[test]
fn an_input_that_is_too_deep_for_a_file_is_told_word_for_word() {
    let tmp = tempfile::tempdir().unwrap();
    for depth in [490, 500, 511] {
        let home = home(&tmp.path().join(depth.to_string()));
        let input = format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        let call = map([("id", "c1".into()), ("name", "dig".into()), ("input", input.into())]);
        let outputs = map([("tool_calls", vec![call].into())]);
        let made = run_of("Dig", &[("I dig.", outputs)]);
        let (taken, _) = bring(&plain(&made), &home, &Demand::default()).unwrap();
        let first = goes_on(&home, &taken);
        assert_eq!(steps(&first).len(), 3);
        // It is read again where it is written.
        let file = told(&first, tmp.path()).to_bytes(Codec::Plain);
        let (again, _) = bring(&file, &home, &Demand::default()).unwrap();
        assert_eq!(steps(&session(&home, &again)), steps(&first), "{depth}");
    }
}
