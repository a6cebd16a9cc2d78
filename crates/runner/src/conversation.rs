//! What the model is sent: the end of the journal as messages, within the model's context.
//!
//! A fold like all others, with a bound: when the conversation grows beyond its budget, the oldest
//! messages are left out, and the objective and a note about the gap stand in their place. So memory
//! is flat however long the session is, and a resume reads only as much of the journal's end as the
//! model can take.

use segue_agents::native::{Block, Message, Role};
use segue_core::{
    Event, Payload,
    event::{Body, ReplayEnded, ToolStatus},
};
use segue_journal::{
    Error, Result, Session,
    repair::{self, Problem},
    session::JOURNAL,
};

use crate::agent::NATIVE;

/// After it grew too long, a conversation is cut to this share of its budget: cutting a little at
/// every call would spoil the vendor's prompt cache at every call.
const KEEP: f64 = 0.6;

/// A cautious guess: code and prose have more bytes to a token.
const BYTES_PER_TOKEN: u64 = 3;

/// No conversation is kept longer than this in memory, whatever the model could take.
const MOST_BYTES: u64 = 4 << 20;

#[derive(Debug)]
pub struct Conversation {
    messages: Vec<Message>,
    /// Steps of a reply that is not whole yet.
    pending: Vec<Block>,
    objective: String,
    latest_prompt: Option<String>,
    /// Replies before the first message that is kept.
    left_out: u64,
    bytes: usize,
    budget: usize,
    /// The last event that is folded in.
    seq: u64,
}

/// Where the texts of payloads come from.
type Load<'a> = &'a dyn Fn(&Payload) -> Result<String>;

impl Conversation {
    /// A conversation of nothing yet, for a model with a context of `context_tokens`.
    pub fn new(session: &Session, context_tokens: u64) -> Result<Self> {
        // A third is left for the system prompt, the tools and the answer.
        let budget = (context_tokens * BYTES_PER_TOKEN / 3 * 2).min(MOST_BYTES);
        let budget = usize::try_from(budget).unwrap_or(usize::MAX);
        let objective = match &session.state().identity {
            Some(identity) => session.text(&identity.prompt)?,
            None => String::new(),
        };
        Ok(Self {
            messages: Vec::new(),
            pending: Vec::new(),
            objective,
            latest_prompt: None,
            left_out: 0,
            bytes: 0,
            budget,
            seq: 0,
        })
    }

    /// The same with everything that is in the journal, read from the start: the same journal gives the
    /// same conversation, also where that had to be cut to fit.
    pub fn from_start(session: &Session, context_tokens: u64) -> Result<Self> {
        let mut conversation = Self::new(session, context_tokens)?;
        for turn in 1..=session.state().turn.number {
            session.turn(turn, |event| conversation.hear(event, session))?;
        }
        conversation.seq = session.state().seq;
        conversation.count_left_out(session);
        Ok(conversation)
    }

    /// Folds in one event of a session, where it belongs to the conversation.
    pub fn hear(&mut self, event: &Event, session: &Session) -> Result<()> {
        match is_said(event) {
            true => self.apply(event, &|payload| session.text(payload)),
            false => Ok(()),
        }
    }

    fn count_left_out(&mut self, session: &Session) {
        let kept = self.messages.iter().filter(|m| m.role == Role::Assistant).count();
        self.left_out = session.state().replies.saturating_sub(kept as u64);
    }

    /// Folds in what the journal has beyond this: all that is new, or as much of its end as fits.
    pub fn catch_up(&mut self, session: &Session) -> Result<()> {
        if self.seq == session.state().seq {
            return Ok(());
        }
        // From the end back, as far as there is room: what is held is bounded by the budget.
        let mut events = Vec::new();
        let mut bytes = 0;
        let mut whole = true;
        let mut reached = session.state().seq + 1;
        for event in session.conversed()? {
            if event.seq <= self.seq {
                // What is missing in between was left behind by a rewind.
                reached = self.seq + 1;
                break;
            }
            reached = event.seq;
            bytes += weight(&event.body);
            if is_said(&event) {
                events.push(event);
            }
            if bytes > self.budget {
                whole = false;
                break;
            }
        }
        if whole && reached > self.seq + 1 {
            // A line on the way can't be read. To go on without what was before it would be to
            // lose it silently.
            return Err(damage(session));
        }
        if !whole {
            // What was kept before does not touch what comes now.
            self.messages.clear();
            self.bytes = 0;
        }
        let load = |payload: &Payload| session.text(payload);
        while let Some(event) = events.pop() {
            self.apply(&event, &load)?;
        }
        if !whole {
            self.leave_out(0);
        }
        let first = self.seq == 0;
        self.seq = session.state().seq;
        // A rewind left replies behind that are counted in the session, and are not missing here.
        if session.state().rewind.path.is_none() || first && !whole {
            self.count_left_out(session);
        }
        Ok(())
    }

    /// Folds one more event in.
    fn apply(&mut self, event: &Event, load: Load<'_>) -> Result<()> {
        match &event.body {
            Body::TurnStarted(started) => {
                let text = load(started.briefing.as_ref().unwrap_or(&started.prompt))?;
                self.latest_prompt = Some(text.clone());
                self.say(Block::text(text));
            }
            Body::ModelCalled(_) => self.pending.clear(),
            Body::TextWritten(written) => self.pending.push(Block::text(load(&written.text)?)),
            Body::ThinkingWritten(written) => self.pending.push(Block::Thinking {
                text: load(&written.text)?,
                signature: written.signature.as_ref().map(load).transpose()?,
            }),
            Body::ToolCalled(called) => self.pending.push(Block::ToolUse {
                id: event.id.clone().unwrap_or_default(),
                name: called.name.clone(),
                input: load(&called.input)?,
            }),
            Body::ModelReplied(_) => {
                let blocks = std::mem::take(&mut self.pending);
                self.bytes += blocks.iter().map(size).sum::<usize>();
                self.messages.push(Message::assistant(blocks));
            }
            Body::ToolReturned(returned) => self.say(Block::ToolResult {
                id: event.id.clone().unwrap_or_default(),
                output: load(&returned.output)?,
                is_error: returned.status != ToolStatus::Done,
            }),
            Body::ReplayEnded(ReplayEnded { told: Some(told), .. }) => {
                self.say(Block::text(load(told)?));
            }
            _ => {}
        }
        if self.bytes > self.budget {
            self.shrink();
        }
        Ok(())
    }

    /// Adds to what the user's side says next: results and prompts may follow one another.
    fn say(&mut self, block: Block) {
        self.bytes += size(&block);
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User => last.blocks.push(block),
            _ => self.messages.push(Message::results(vec![block])),
        }
    }

    /// Leaves the oldest part out. Says whether there was anything to leave out.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a size in memory"
    )]
    pub fn shrink(&mut self) -> bool {
        let target = (self.bytes.min(self.budget) as f64 * KEEP) as usize;
        let mut bytes = self.bytes;
        let mut cut = 0;
        // The last exchange always stays: without it there would be nothing to answer.
        while bytes > target && cut + 2 < self.messages.len() {
            bytes -= self.messages[cut].blocks.iter().map(size).sum::<usize>();
            cut += 1;
        }
        // The prompt, or the note in its place, would only be replaced by another note: asked again
        // and again for less, this would never come to an end.
        cut > 1 && self.leave_out(cut)
    }

    /// Drops `cut` messages, and more until the rest begins with the model: results without their
    /// calls would be refused. The objective takes their place.
    fn leave_out(&mut self, cut: usize) -> bool {
        let begins = |message: &Message| message.role == Role::Assistant;
        let Some(first) = self.messages.iter().skip(cut).position(begins).map(|at| at + cut) else {
            return false;
        };
        self.messages.drain(..first);
        let mut note = self.objective.clone();
        if let Some(latest) = self.latest_prompt.as_ref().filter(|text| **text != self.objective) {
            note.push_str("\n\nThe latest request:\n");
            note.push_str(latest);
        }
        note.push_str("\n\n[An earlier part of this conversation is left out here.]");
        self.messages.insert(0, Message::user(note));
        self.bytes =
            self.messages.iter().flat_map(|message| &message.blocks).map(size).sum::<usize>();
        first > 0
    }

    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// How many replies came before the messages that are sent.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// What keeps a journal from being read to its start.
fn damage(session: &Session) -> Error {
    let path = session.dir().join(JOURNAL);
    let problems = repair::verify(session).map(|report| report.problems);
    let found = problems.unwrap_or_default().into_iter().find_map(|problem| match problem {
        Problem::Damaged(damage) => Some(damage),
        _ => None,
    });
    match found {
        Some(damage) => Error::Damaged { path, damage },
        None => Error::NotASession { dir: session.dir().to_owned() },
    }
}

/// What a block costs beside its text: names, ids and brackets for the model, headers in memory.
const BLOCK_BYTES: usize = 100;

fn size(block: &Block) -> usize {
    BLOCK_BYTES
        + match block {
            Block::Text { text } => text.len(),
            Block::Thinking { text, signature } => {
                text.len() + signature.as_ref().map_or(0, String::len)
            }
            Block::ToolUse { input, .. } => input.len(),
            Block::ToolResult { output, .. } => output.len(),
        }
}

/// Whether an event is part of what the model is sent. What others did is not: it is told in the
/// briefing of the turn after it.
fn is_said(event: &Event) -> bool {
    let ours = event.agent.as_deref().is_none_or(|agent| agent == NATIVE);
    ours && matches!(
        event.body,
        Body::TurnStarted(_)
            | Body::ModelCalled(_)
            | Body::TextWritten(_)
            | Body::ThinkingWritten(_)
            | Body::ToolCalled(_)
            | Body::ModelReplied(_)
            | Body::ToolReturned(_)
            | Body::ReplayEnded(_)
    )
}

/// How much an event will weigh, known before its payload is loaded.
fn weight(body: &Body) -> usize {
    let of = |payload: &Payload| {
        payload.text.as_ref().map_or_else(
            || usize::try_from(payload.bytes.unwrap_or_default()).unwrap_or(usize::MAX),
            String::len,
        )
    };
    let text = match body {
        Body::TurnStarted(started) => of(started.briefing.as_ref().unwrap_or(&started.prompt)),
        Body::TextWritten(written) => of(&written.text),
        Body::ThinkingWritten(written) => {
            of(&written.text) + written.signature.as_ref().map_or(0, of)
        }
        Body::ToolCalled(called) => of(&called.input),
        Body::ToolReturned(returned) => of(&returned.output),
        Body::ReplayEnded(ReplayEnded { told: Some(told), .. }) => of(told),
        _ => return 0,
    };
    BLOCK_BYTES + text
}
