//! Sessions on a real disk, made the way that a run makes them.

use std::{path::Path, sync::Arc};

use jiff::Timestamp;
use segue_core::{
    Payload,
    caps::Caps,
    event::{
        Cause, ModelCalled, ModelReplied, ModelStop, Process, Reason, SessionStarted,
        SessionStopped, TextWritten, TurnStarted,
    },
    identity::RepoRef,
    usage::{Micros, Usage},
};
use segue_journal::{
    Clock, Durability, Home, LockedSession, RealDisk, home::Located, home::NewSession, lock::Holder,
};

pub(crate) fn me() -> Holder {
    Holder { pid: std::process::id(), host: "here".to_owned(), since: at(0) }
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A clock that always says the same.
pub(crate) fn clock(second: i64) -> Clock {
    Arc::new(move || at(second))
}

pub(crate) fn home(dir: &Path) -> Home {
    Home::new(Arc::new(RealDisk), dir.join("home"))
}

pub(crate) fn new(repo: &str, prompt: &str) -> NewSession {
    NewSession {
        model: Some("scripted".into()),
        caps: Caps { turns: Some(20), tokens: Some(2_000_000), ..Caps::default() },
        segue: "0".into(),
        ..NewSession::new(
            RepoRef { id: repo.into(), identity: format!("/src/{repo}"), head: None, branch: None },
            format!("/src/{repo}").into(),
            "native".into(),
            prompt.into(),
        )
    }
}

pub(crate) fn started() -> SessionStarted {
    let by = Process { pid: 7, host: "here".into(), segue: "0".into() };
    SessionStarted { by, caps: Caps { turns: Some(20), ..Caps::default() } }
}

pub(crate) fn stopped(reason: Reason) -> SessionStopped {
    SessionStopped {
        reason,
        agent: None,
        cap: None,
        signal: None,
        resets_at: None,
        message: "as asked".into(),
        hint: None,
    }
}

/// Works one turn in a session.
pub(crate) fn work(session: &mut LockedSession) {
    let now = Durability::Synced;
    session.append(started(), now).unwrap();
    let prompt = Payload::inline("go");
    session.append(TurnStarted::new(prompt, Cause::Person), now).unwrap();
    session
        .append(ModelCalled { model: "m".into(), attempt: 1, messages: 1, told: None }, now)
        .unwrap();
    session
        .append(TextWritten { text: Payload::inline("All done."), partial: false }, now)
        .unwrap();
    let replied = ModelReplied {
        model: "m".into(),
        stop: ModelStop::EndTurn,
        usage: Usage { input: 400_000, output: 12_000, ..Usage::default() },
        cost_micros: Some(Micros(120_000)),
        reply_id: None,
    };
    session.append(replied, now).unwrap();
}

/// A session that was stopped at `second`.
pub(crate) fn session(
    home: &Home,
    repo: &str,
    prompt: &str,
    second: i64,
    reason: Reason,
) -> Located {
    named(home, new(repo, prompt), second, reason)
}

pub(crate) fn named(home: &Home, new: NewSession, second: i64, reason: Reason) -> Located {
    let repo = new.repo.id.clone();
    let (mut session, _) = home.create(new, &me(), &clock(second)).unwrap();
    work(&mut session);
    session.append(stopped(reason), Durability::Synced).unwrap();
    Located { repo, id: session.session().id() }
}
