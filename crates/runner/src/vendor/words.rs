//! What is said to a vendor's program, and in which of its conversations: its own where it still has
//! it, told what it lost and what others did meanwhile; else a new one, with a packet.

use segue_agents::{
    report,
    vendor::{Conversation, History},
};
use segue_core::{
    event::{Body, Entry, Reason, WarningRaised},
    identity::LoopKind,
    state::NO_TOOLS,
};
use segue_journal::inbox;

use super::{Hired, memory::Known};
use crate::{
    briefing::{self, briefing},
    supervisor::{Halt, Supervisor, stop},
};

/// What is said, and in which of the vendor's conversations.
pub(super) struct Words {
    pub(super) entry: Entry,
    /// The vendor's session: to resume, to fork, or as we would call a new one.
    pub(super) id: String,
    pub(super) from: String,
    /// The vendor's word for the place in `from` where the copy ends.
    pub(super) at: Option<String>,
    pub(super) text: String,
}

impl Words {
    pub(super) fn of(id: String) -> Self {
        Self { entry: Entry::New, id, from: String::new(), at: None, text: String::new() }
    }

    pub(super) fn conversation(&self) -> Conversation<'_> {
        match self.entry {
            Entry::Resumed => Conversation::Resume { id: &self.id },
            Entry::Forked => {
                Conversation::Fork { from: &self.from, id: &self.id, at: self.at.as_deref() }
            }
            _ => Conversation::New { id: &self.id },
        }
    }

    /// The session that the vendor has to have for this.
    pub(super) fn asked_for(&self) -> &str {
        if self.entry == Entry::Forked { &self.from } else { &self.id }
    }
}

impl Hired {
    /// Where the next words go, and what they are.
    pub(super) fn words(&mut self, supervisor: &mut Supervisor<'_>) -> Result<Words, Halt> {
        let session = supervisor.session().session();
        let state = supervisor.state();
        let turn = Known::of(session, state.turn.number)?;
        let prompt = first_words(supervisor)?;
        let again = state.turn.spawns > 0;
        let known = state.vendor(supervisor.agent()).cloned();
        let Some(known) = known.filter(|_| self.card.can.resume && !self.fresh) else {
            return self.new_words(supervisor, &prompt);
        };
        let found = known.id.clone().or_else(|| {
            let world = &self.config.world;
            self.config.vendor.discover(world, &known.cwd, known.spawned_at, &turn.prompt)
        });
        let Some(id) = found else {
            // It was killed before it had a name: whatever it had done is in the journal.
            return self.new_words(supervisor, &prompt);
        };
        // It may have been brought here from another place.
        let cwd = if known.cwd.is_dir() { &known.cwd } else { &self.cwd };
        let history = match self.config.vendor.history(&self.config.world, cwd, &id) {
            Ok(None) => {
                self.say_gone(supervisor, &id)?;
                return self.new_words(supervisor, &prompt);
            }
            Ok(Some(history)) => Some(history),
            Err(_) => None,
        };
        if let Some(at) = known.cut_at {
            // What came after it was rewound: a copy of its conversation goes on from there.
            let (from, copy) = (id, self.fresh_id()?);
            let text = prompt.clone();
            return Ok(Words { entry: Entry::Forked, from, at: Some(at), text, ..Words::of(copy) });
        }
        let text = match again {
            true => turn.lost(history.as_ref()).go_on(&self.why, &prompt),
            false => self.next_words(supervisor, known.turn, history.as_ref(), &prompt)?,
        };
        Ok(Words { entry: Entry::Resumed, text, ..Words::of(id) })
    }

    fn fresh_id(&self) -> Result<String, Halt> {
        uuid().map_err(|error| stop(Reason::Failed, error.to_string()).into())
    }

    /// Whoever takes over may be followed by somebody else again.
    fn asked_to_report(&self, text: String) -> String {
        let ask = match self.card.can.tools && self.config.tools {
            true => report::ASK_TOOL,
            false => report::ASK_BLOCK,
        };
        format!("{text}\n\n{ask}")
    }

    /// How long a prompt may be that tells what happened.
    fn budget(&self) -> usize {
        briefing::budget(self.config.vendor.context_tokens())
    }

    /// A new prompt for a conversation whose last turn may have been broken off.
    fn next_words(
        &self,
        supervisor: &Supervisor<'_>,
        last: u32,
        history: Option<&History>,
        prompt: &str,
    ) -> Result<String, Halt> {
        let before = Known::of(supervisor.session().session(), last)?;
        let mut lost = before.lost(history);
        // A vendor may keep its prompts in other words than ours; what it did is what counts.
        if lost.prompt {
            lost = before.lost(None);
        }
        let words = lost.and_then(prompt);
        // Others may have worked since.
        let session = supervisor.session().session();
        let told = briefing(session, supervisor.agent(), true, &words, self.budget())?;
        Ok(told.unwrap_or(words))
    }

    /// The vendor has lost the session: a packet takes its place.
    pub(super) fn say_gone(&self, supervisor: &mut Supervisor<'_>, id: &str) -> Result<(), Halt> {
        let title = self.card.title;
        supervisor.warn(format!(
            "{title} has no session {id} any more: a new one goes on, with a packet of what was done"
        ))
    }

    /// Our tools were offered, and the program did not ask for them: that is known from our own server
    /// alone, and said once.
    pub(super) fn say_without_tools(&self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
        let (session, state) = (supervisor.session().session(), supervisor.state());
        let found = inbox::take_contact(&**session.disk(), session.dir(), state.turn.number);
        let offered = self.config.tools && self.card.can.tools;
        let agent = supervisor.agent();
        if !offered || found || state.without_tools.iter().any(|name| name == agent) {
            return Ok(());
        }
        let message = format!(
            "{} has not asked for Segue's tools: what it has to note is read from the end of its answers",
            self.card.title
        );
        let draft = supervisor.in_turn(WarningRaised { message }).about(NO_TOOLS);
        supervisor.note(draft).map(drop)
    }

    fn new_words(&mut self, supervisor: &mut Supervisor<'_>, prompt: &str) -> Result<Words, Halt> {
        let fresh = std::mem::take(&mut self.fresh);
        let session = supervisor.session().session();
        let id = self.fresh_id()?;
        let lineage = session.state().identity.as_ref().and_then(|found| found.lineage.clone());
        let at = lineage.as_ref().and_then(|lineage| lineage.vendor_mark.clone());
        let from = lineage.and_then(|lineage| lineage.vendor_session);
        // As long as nothing has come of it, also of one that was killed: it is forked.
        let state = session.state();
        let nothing = state.last_text.is_none() && state.tool_calls == 0;
        if let Some(from) = from.filter(|_| nothing && !fresh && self.card.can.fork) {
            let text = prompt.to_owned();
            return Ok(Words { entry: Entry::Forked, from, at, text, ..Words::of(id) });
        }
        let told = briefing(session, supervisor.agent(), false, prompt, self.budget())?;
        // A reviewer is asked for one thing.
        let reviews =
            state.identity.as_ref().is_some_and(|found| found.loop_kind == LoopKind::Review);
        let text = match told {
            Some(text) if reviews => text,
            Some(text) => self.asked_to_report(text),
            None => prompt.to_owned(),
        };
        Ok(Words { entry: Entry::New, text, ..Words::of(id) })
    }

    /// A prompt that is too long for an argument goes into a file that a short one names.
    pub(super) fn in_a_file(
        &self,
        supervisor: &Supervisor<'_>,
        words: &Words,
    ) -> Result<Option<Words>, Halt> {
        if self.card.argument_limit.is_none_or(|most| words.text.len() <= most) {
            return Ok(None);
        }
        let turn = supervisor.state().turn.number;
        let path = supervisor.session().text_file(&format!("{turn:04}-prompt.md"), &words.text)?;
        let text = format!(
            "Read the file {} to its end, and do what it says: it is your prompt.",
            path.display()
        );
        let (id, from, at) = (words.id.clone(), words.from.clone(), words.at.clone());
        Ok(Some(Words { entry: words.entry, id, from, at, text }))
    }
}

/// The prompt of the open turn.
pub(super) fn first_words(supervisor: &Supervisor<'_>) -> Result<String, Halt> {
    let session = supervisor.session().session();
    let turn = supervisor.state().turn.number;
    let started = session.newest_first()?.find_map(|event| match event.body {
        Body::TurnStarted(started) if event.turn == Some(turn) => Some(started),
        _ => None,
    });
    match started {
        Some(started) => Ok(session.text(&started.prompt)?),
        None => Err(stop(Reason::Failed, "the turn has no prompt").into()),
    }
}

/// A name for a session that nobody else has.
pub(super) fn uuid() -> std::io::Result<String> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(parts.join("-"))
}
