//! What a person has asked for since the task was given, for those who judge the work: whole, from
//! the journal. The state remembers no more than how each of it begins.

use std::collections::{HashMap, HashSet};

use segue_core::{
    Body, Payload,
    bridge::PERSON,
    event::{Cause, MessageSent},
};
use segue_journal::{Result, Session};

/// One thing that was asked for, as it is found.
enum Asked {
    Prompt(Payload),
    /// A message that has reached the worker, whatever it was told besides.
    Message(String),
}

/// All of it that is part of the conversation, oldest first.
pub(super) fn requests(session: &Session, task: &str) -> Result<Vec<String>> {
    let state = session.state();
    // Brought along in a packet.
    let brought = state.notes.prompts.iter().filter(|asked| asked.turn == 0);
    let mut found: Vec<String> = brought.map(|asked| asked.what.clone()).collect();
    // The rule, and then nothing is read again.
    let later = state.notes.prompts.iter().any(|asked| asked.turn > 0);
    if !later && !state.bridge.sent.iter().any(|(from, _)| from == PERSON) {
        return Ok(found);
    }
    let (asked, mut sent) = conversed(session)?;
    let told = |asked: &Asked| matches!(asked, Asked::Message(id) if !sent.contains_key(id));
    if asked.iter().any(told) {
        // Said in a turn that a rewind has left behind, and heard in one that counts.
        for event in session.newest_first()? {
            if let (Body::MessageSent(message), Some(id)) = (event.body, event.id) {
                sent.insert(id, message);
            }
        }
    }
    for one in asked.into_iter().rev() {
        let text = match one {
            Asked::Prompt(prompt) => session.text(&prompt)?,
            Asked::Message(id) => match sent.get(&id).filter(|message| message.from == PERSON) {
                Some(message) => session.text(&message.text)?,
                None => continue,
            },
        };
        // A session that goes on from another one begins with its task, in a turn that is not its first.
        if task.is_empty() || !text.starts_with(task) {
            found.push(text);
        }
    }
    Ok(found)
}

/// What was asked for, newest first, and the messages by their ids.
fn conversed(session: &Session) -> Result<(Vec<Asked>, HashMap<String, MessageSent>)> {
    let worker = session.state().worker();
    let (mut asked, mut sent) = (Vec::new(), HashMap::new());
    let mut known = HashSet::new();
    for event in session.conversed()? {
        let messages = match event.body {
            // Its messages are part of it.
            Body::TurnStarted(started)
                if started.cause == Cause::Person && event.turn > Some(1) =>
            {
                asked.push(Asked::Prompt(started.prompt));
                continue;
            }
            Body::TurnStarted(started) => started.messages,
            Body::MessageDelivered(delivered) if delivered.to == worker => delivered.messages,
            Body::MessageSent(message) => {
                sent.extend(event.id.map(|id| (id, message)));
                continue;
            }
            _ => continue,
        };
        let new = messages.into_iter().rev().filter(|id| known.insert(id.clone()));
        asked.extend(new.map(Asked::Message));
    }
    Ok((asked, sent))
}
