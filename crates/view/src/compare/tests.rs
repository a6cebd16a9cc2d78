use segue_core::{Identity, caps::Cap, event::Reason, state::Phase};
use serde_json::json;

use super::*;

fn contender(session: u64, agent: &str, status: Status) -> Contender {
    Contender {
        session,
        agent: agent.to_owned(),
        model: None,
        status: status.to_string(),
        turns: 1,
        steps: 5,
        files: Some(2),
        proof: Some(true),
        tokens: 12_300,
        cost_micros: 45_000,
        unpriced_calls: 0,
        seconds: 75,
        last_words: Some("It is mended.\nAnd more.".to_owned()),
        next: None,
        status_of: status,
    }
}

#[test]
fn each_one_is_a_line() {
    let all = [
        contender(12, "claude", Status::Completed),
        Contender { proof: Some(false), ..contender(13, "codex", Status::Capped(Cap::Turns)) },
        Contender {
            proof: None,
            files: None,
            last_words: Some("\u{1b}[31mlong ".repeat(20)),
            unpriced_calls: 2,
            cost_micros: 0,
            ..contender(14, "native", Status::Failed)
        },
    ];
    insta::assert_snapshot!(table(&all, &Style::new(false, 120)));
}

/// Somebody who begins with so many turns and steps of another session.
fn begins_with(turn: u32, steps: u64) -> Identity {
    let id = "01M7GHH13XK50TNXR82WW3N941";
    let base = json!({
        "seq": 40, "offset": 9000, "link": "0000000000000000", "turn": turn,
        "path": [{ "from": 1, "to": turn }], "steps": steps, "frontier": [],
    });
    let identity = json!({
        "v": 1, "id": id, "created_at": "2026-11-15T21:24:03Z",
        "repo": { "id": "app", "identity": "example.org/app" },
        "workspace": "/home/ann/app", "loop": "solo", "agent": "codex",
        "prompt": { "text": "Mend it" }, "segue": "0.1.0",
        "lineage": { "from": id, "how": "forked", "base": base },
    });
    serde_json::from_value(identity).unwrap()
}

#[test]
fn only_what_was_done_in_it_is_counted() {
    let mut state = State { agent: Some("codex".to_owned()), ..State::default() };
    state.phase = Phase::Stopped;
    state.turn.number = 4;
    let one = Contender::of(&state, 9, 20, Some(3));
    assert_eq!((one.turns, one.steps, one.files, one.proof), (4, 20, Some(3), None));
    // What another session told before it is not its own.
    let begun = State { identity: Some(begins_with(3, 15)), ..state.clone() };
    let one = Contender::of(&begun, 9, 20, None);
    assert_eq!((one.turns, one.steps), (1, 5));
    let next = one.next.as_deref().unwrap_or_default();
    assert!(next.starts_with("segue resume 9"), "{next}");
    state.stop = Some(segue_core::event::SessionStopped {
        reason: Reason::Done,
        agent: None,
        cap: None,
        signal: None,
        resets_at: None,
        message: "done".to_owned(),
        hint: None,
    });
    assert_eq!(Contender::of(&state, 9, 20, None).next, None);
}
