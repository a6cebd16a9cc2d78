//! Messages between the participants of a session, and from people.
//!
//! A message is put into the session's inbox, recorded by its writer as an event of the same id, and
//! delivered with the recipient's next prompt or by the tool `receive_messages`. Nobody has to
//! acknowledge anything: that a message was delivered is read from the recipient's own journal,
//! where the prompt stands, or what the tool answered. So it is delivered once, also where
//! everything dies in between.

use std::{path::Path, sync::Arc};

use segue_agents::report;
use segue_core::{
    Body, Draft, State,
    bridge::{ALL, LONGEST, PERSON, shown, shown_in},
    event::{Delivery, MessageDelivered, MessageSent},
    inbox::Message,
    state::{CrewMember, MOST_WAITING},
};
use segue_journal::{Disk, Session, inbox};
use segue_runner::{Halt, Supervisor};

use crate::{keep::done_with, tools};

/// Room that is kept for what a crew itself has to say.
const RESERVED: usize = 24;

/// Everybody who can be spoken to, the worker first.
#[must_use]
pub fn participants(state: &State) -> Vec<String> {
    if let Some(crew) = &state.crew {
        return crew.members.iter().map(|member| member.name.clone()).collect();
    }
    let seats = state.terms().map(|terms| terms.reviewers.as_slice()).unwrap_or_default();
    let worker = state.worker().to_owned();
    std::iter::once(worker).chain(seats.iter().map(|seat| seat.name.clone())).collect()
}

/// Whom a name means.
///
/// # Errors
/// Who there is, where it means nobody.
pub fn recipients(state: &State, from: &str, to: &str) -> Result<Vec<String>, String> {
    let all = participants(state);
    let found: Vec<String> = match to {
        _ if state.crew.is_some() => mates(state, to),
        "worker" => all.iter().take(1).cloned().collect(),
        "reviewer" | "reviewers" => all.iter().skip(1).cloned().collect(),
        ALL | "" => all.clone(),
        name => all.iter().filter(|known| *known == name).cloned().collect(),
    };
    let found: Vec<String> = found.into_iter().filter(|name| name != from).collect();
    match found.is_empty() {
        true => Err(format!("there is no `{to}` to speak to; there are: {}", all.join(", "))),
        false => Ok(found),
    }
}

/// Members of a crew by name, by role or by group; and the person who looks after it.
fn mates(state: &State, to: &str) -> Vec<String> {
    if to == PERSON {
        return vec![PERSON.to_owned()];
    }
    let members = state.crew.iter().flat_map(|crew| &crew.members);
    let named = members.clone().any(|member| member.name == to);
    let meant = |member: &&CrewMember| match named {
        true => member.name == to,
        false => matches!(to, ALL | "") || member.role == to || member.group.as_deref() == Some(to),
    };
    members.filter(meant).map(|member| member.name.clone()).collect()
}

/// Puts a message into the session's inbox for each recipient. It is on the disk when this returns.
///
/// # Errors
/// What is wrong with it, for whoever wanted to say it.
pub fn send(
    session: &Session,
    from: &str,
    to: &str,
    text: &str,
    occasion: u64,
) -> Result<Vec<String>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the message is empty".to_owned());
    }
    if text.len() > LONGEST {
        return Err(format!(
            "the message is too long: {} bytes, {LONGEST} at most; put it into a file and name that",
            text.len()
        ));
    }
    let found = recipients(session.state(), from, to)?;
    let mut new = Vec::new();
    for to in &found {
        let (name, text) = (from.to_owned(), text.to_owned());
        let said = Message::Said { from: name, to: to.clone(), text, occasion };
        if said_before(session, from, &said)? {
            continue;
        }
        let waiting = waiting_for(session, to).map_err(|error| error.to_string())?;
        // Nothing that was sent is ever dropped: so what can't be kept is not taken, and what is said
        // to several is said to all of them or to nobody.
        if waiting.len() >= MOST_WAITING / participants(session.state()).len().max(2) {
            return Err(format!("{to} has {} messages waiting: try again later", waiting.len()));
        }
        new.push(said);
    }
    for said in new {
        tools::put(&**session.disk(), session.dir(), &said)?;
    }
    Ok(found)
}

/// Whether the same was said already on the same occasion, as by a call whose answer got lost. It may
/// wait in the inbox, or have been recorded from there: in this order, because what goes from the one
/// to the other is in both for a moment.
fn said_before(session: &Session, from: &str, said: &Message) -> Result<bool, String> {
    let ending = tools::ending(said)?;
    if tools::waits(&**session.disk(), session.dir(), &ending) {
        return Ok(true);
    }
    // An occasion of a crew may be long, and a person's never comes again.
    if session.state().crew.is_some() || from == PERSON {
        return Ok(false);
    }
    let failed = |error: segue_journal::Error| format!("the session can't be read: {error}");
    let now = Session::open(Arc::clone(session.disk()), session.dir()).map_err(failed)?;
    let by_worker = now.state().worker() == from;
    for event in now.newest_first().map_err(failed)? {
        match event.body {
            Body::MessageSent(_) if event.id.as_deref().is_some_and(|id| id.ends_with(&ending)) => {
                return Ok(true);
            }
            // The occasion began here.
            Body::TurnStarted(_) if by_worker => break,
            Body::ReviewStarted(_) if !by_worker => break,
            _ => {}
        }
    }
    Ok(false)
}

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Letter {
    pub id: String,
    pub from: String,
    pub text: String,
}

/// What was said to somebody and has not reached them, oldest first: recorded, or still in the inbox.
pub fn waiting_for(session: &Session, name: &str) -> segue_journal::Result<Vec<Letter>> {
    let mut found = Vec::new();
    for waiting in session.state().bridge.waiting_for(name) {
        let text = session.text(&waiting.message.text)?;
        let (id, from) = (waiting.id.clone(), waiting.message.from.clone());
        found.push(Letter { id, from, text });
    }
    let fresh = unrecorded(session)?.into_iter().filter(|(to, _)| to == name);
    found.extend(fresh.map(|(_, letter)| letter));
    Ok(found)
}

/// What was said and is not in the journal yet, with whom it is for, oldest first.
pub fn unrecorded(session: &Session) -> segue_journal::Result<Vec<(String, Letter)>> {
    let taken_in = &session.state().notes.taken_in;
    let waiting = inbox::waiting(&**session.disk(), session.dir())?;
    let said = waiting.into_iter().filter_map(|waiting| match waiting.message {
        Message::Said { from, to, text, .. } if !taken_in.contains(&waiting.id) => {
            Some((to, Letter { id: waiting.id, from, text }))
        }
        _ => None,
    });
    Ok(said.collect())
}

/// Which of these messages the one whose journal this is has been told in the turn under way, or in
/// the last one: by its prompt, or by what the tool answered.
pub fn heard(disk: &Arc<dyn Disk>, dir: &Path, ids: &[&str]) -> segue_journal::Result<Vec<String>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    heard_in(&Session::open(Arc::clone(disk), dir)?, ids)
}

fn heard_in(session: &Session, ids: &[&str]) -> segue_journal::Result<Vec<String>> {
    Ok(told_in(session, ids)?.into_iter().map(|(id, _)| id).collect())
}

/// The same, with how.
fn told_in(session: &Session, ids: &[&str]) -> segue_journal::Result<Vec<(String, Delivery)>> {
    let mut found: Vec<(String, Delivery)> = Vec::new();
    // A turn that another one took over, or that was asked once more, is about the same thing.
    let about = |question: Option<&String>| question.map(|id| subject(id).to_owned());
    let last = about(session.state().turn.question.as_ref());
    for event in session.newest_first()? {
        match event.body {
            Body::ToolReturned(returned)
                if report::our_tool(&returned.name) == Some("receive_messages") =>
            {
                let text = session.text(&returned.output)?;
                let shown = shown_in(&text, ids.iter().copied()).into_iter();
                found.extend(shown.map(|id| (id, Delivery::Tool)));
            }
            Body::TurnStarted(started) => {
                found.extend(started.messages.into_iter().map(|id| (id, Delivery::Prompt)));
                if last.is_none() || about(event.id.as_ref()) != last {
                    break;
                }
            }
            _ => {}
        }
    }
    found.retain(|(id, _)| ids.contains(&id.as_str()));
    Ok(found)
}

/// What a question is about, however often it is asked: `review-3` of `review-3:again`.
pub(crate) fn subject(question: &str) -> &str {
    question.split(':').next().unwrap_or(question)
}

/// Whether there is room for one more. In a crew everybody has a share: nobody who does not read
/// takes the room of the others.
pub(crate) fn has_room(state: &State, to: &str) -> bool {
    let room = MOST_WAITING - RESERVED;
    let share = state.crew.as_ref().map_or(room, |crew| room / crew.members.len().max(2));
    let bridge = &state.bridge;
    bridge.waiting.len() < room && bridge.waiting_for(to).count() < share.max(1)
}

/// Removes what a writer had recorded that died before its file was gone. The journal knows the last
/// ids only: so this comes before anything else is recorded. Returns what is new.
pub(crate) fn settle(supervisor: &Supervisor<'_>) -> Result<Vec<inbox::Waiting>, Halt> {
    let session = supervisor.session().session();
    let mut new = Vec::new();
    for waiting in inbox::waiting(&**session.disk(), session.dir())? {
        let said = matches!(waiting.message, Message::Said { .. });
        match supervisor.state().notes.taken_in.contains(&waiting.id) {
            true if said => done_with(supervisor, &waiting)?,
            false if said => new.push(waiting),
            _ => {}
        }
    }
    Ok(new)
}

/// Records the messages that wait in the inbox.
pub(crate) fn take_in(supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
    for waiting in settle(supervisor)? {
        let Message::Said { from, to, text, .. } = &waiting.message else { continue };
        // What there is no room for waits where it is.
        if !has_room(supervisor.state(), to) {
            continue;
        }
        let text = supervisor.payload(text)?;
        let sent = MessageSent { from: from.clone(), to: to.clone(), text };
        supervisor.commit(Draft::from(sent).about(&waiting.id))?;
        done_with(supervisor, &waiting)?;
    }
    Ok(())
}

/// Records which messages a participant has been told, by what its own journal says.
pub(crate) fn note_heard(
    supervisor: &mut Supervisor<'_>,
    name: &str,
    theirs: Option<&Session>,
) -> Result<(), Halt> {
    let bridge = &supervisor.state().bridge;
    let ids: Vec<String> = bridge.waiting_for(name).map(|one| one.id.clone()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let session = theirs.unwrap_or_else(|| supervisor.session().session());
    let told = told_in(session, &ids)?;
    for by in [Delivery::Prompt, Delivery::Tool] {
        let these = told.iter().filter(|(_, how)| *how == by);
        let messages: Vec<String> = these.map(|(id, _)| id.clone()).collect();
        if !messages.is_empty() {
            supervisor.commit(MessageDelivered { to: name.to_owned(), messages, by })?;
        }
    }
    Ok(())
}

/// What waits for somebody, as part of a prompt; and the ids.
pub(crate) fn letters(session: &Session, name: &str) -> Result<(String, Vec<String>), Halt> {
    let mut ids = Vec::new();
    let mut text = Vec::new();
    for waiting in session.state().bridge.waiting_for(name) {
        let said = session.text(&waiting.message.text)?;
        text.push(shown(&waiting.id, &waiting.message.from, &said));
        ids.push(waiting.id.clone());
    }
    Ok((text.join("\n"), ids))
}

#[cfg(test)]
mod tests {
    use segue_core::{
        Event,
        event::ReviewStarted,
        identity::{LoopKind, RepoRef},
        review::{Seat, Terms},
    };
    use segue_journal::{Home, RealDisk, home::NewSession, lock::Holder, system_clock};
    use segue_runner::{Interrupt, Observer};

    use super::*;

    struct Nobody;

    impl Observer for Nobody {
        fn event(&mut self, _event: &Event) {}
    }

    /// A pair of codex, reviewed by claude and gemini.
    fn pair() -> NewSession {
        let seat = |name: &str| Seat { name: name.into(), agent: name.into(), model: None };
        let reviewers = vec![seat("claude"), seat("gemini")];
        NewSession {
            loop_kind: LoopKind::Pair,
            pair: Some(Terms { reviewers, ..Terms::default() }),
            segue: "0".into(),
            ..NewSession::new(
                RepoRef { id: "r".into(), identity: "/r".into(), head: None, branch: None },
                "/r".into(),
                "codex".into(),
                "go".into(),
            )
        }
    }

    fn with_pair(test: impl FnOnce(&mut Supervisor<'_>)) {
        let dir = tempfile::tempdir().unwrap();
        let clock = system_clock();
        let me = Holder { pid: std::process::id(), host: "here".into(), since: clock() };
        let home = Home::new(Arc::new(RealDisk), dir.path().join("home"));
        let session = home.create(pair(), &me, &clock).unwrap().0;
        let mut nobody = Nobody;
        test(&mut Supervisor::new(session, clock, Interrupt::default(), &mut nobody));
    }

    fn asked(iteration: u32) -> ReviewStarted {
        ReviewStarted { iteration, reviewers: vec![], from: None, to: None, files: None }
    }

    /// Says it, and what was said is recorded at once, as it is while reviewers work.
    fn say(all: &mut Supervisor<'_>, from: &str, to: &str, text: &str, occasion: u64) -> u64 {
        let session = all.session().session();
        let again = send(session, from, to, text, occasion);
        assert!(again.is_ok(), "{again:?}");
        take_in(all).unwrap();
        all.state().bridge.total()
    }

    #[test]
    fn the_same_call_again_says_nothing_more_also_when_it_was_recorded_meanwhile() {
        with_pair(|all| {
            all.commit(asked(1)).unwrap();
            assert_eq!(say(all, "claude", "worker", "Look at a.rs", 1), 1);
            // The answer got lost: however often it is asked.
            for _ in 0..3 {
                assert_eq!(say(all, "claude", "worker", "Look at a.rs", 1), 1);
            }
            for n in 0..70 {
                say(all, PERSON, "gemini", "Hello", n);
            }
            assert_eq!(say(all, "claude", "worker", "Look at a.rs", 1), 71, "it is long ago");
            // Another one, to somebody else, in another turn: each says something.
            assert_eq!(say(all, "gemini", "worker", "Look at a.rs", 1), 72);
            assert_eq!(say(all, "claude", "all", "Look at a.rs", 1), 73);
            all.commit(asked(2)).unwrap();
            assert_eq!(say(all, "claude", "worker", "Look at a.rs", 2), 74);
        });
    }

    #[test]
    fn what_is_said_to_several_is_said_to_all_of_them_or_to_nobody() {
        with_pair(|all| {
            let most = (MOST_WAITING / 3) as u64;
            for n in 0..most {
                say(all, PERSON, "gemini", "Hello", n);
            }
            let full = send(all.session().session(), PERSON, "all", "Hello", most);
            assert!(full.unwrap_err().starts_with("gemini has 85 messages waiting"));
            take_in(all).unwrap();
            assert_eq!(all.state().bridge.total(), most);
        });
    }
}
