//! Answers that were given before. The agent asks for them in the place of a model or a tool, as long
//! as what it asks is what was asked then.

use segue_agents::native::Message;
use segue_core::event::{Draft, ModelCalled, Outcome, Told};

use super::{Native, asked_in};
use crate::supervisor::{Halt, Supervisor};

/// What would be sent to a model.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    pub model: &'a str,
    pub told: &'a Instructions,
    pub messages: &'a [Message],
}

/// What a model is told besides the conversation, without anything of the time and the place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    pub system: String,
    /// The tools that it is offered, as JSON.
    pub tools: String,
}

/// A call that a model has asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub id: &'a str,
    pub name: &'a str,
    /// JSON, as the model wrote it.
    pub input: &'a str,
}

/// What a recording has for an agent that asks.
#[derive(Debug)]
pub enum Answer {
    /// What it said then, to be recorded as it is.
    Given { model: String, drafts: Vec<Draft> },
    /// The turn was ended here by somebody else.
    TurnEnds(Outcome),
    /// Nothing: it is left, which is in the journal by now.
    Live,
}

/// Something that has the answers.
pub trait Recorded: std::fmt::Debug {
    /// What the model said to this.
    fn reply(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        asking: Asking<'_>,
    ) -> Result<Answer, Halt>;

    /// What the call gave. The tool is not run.
    fn result(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        wanted: Wanted<'_>,
    ) -> Result<Answer, Halt>;
}

impl Native {
    /// The same, answered from a recording as long as that goes.
    #[must_use]
    pub fn answered_by(mut self, recorded: Box<dyn Recorded>) -> Self {
        self.recorded = Some(recorded);
        self
    }

    /// Whether answers are taken from a recording: until it is left, by whomever.
    pub(super) fn is_answered(&mut self, supervisor: &Supervisor<'_>) -> bool {
        if supervisor.state().recording().is_none() {
            self.recorded = None;
        }
        self.recorded.is_some()
    }

    /// Takes the recorded reply. What it is not true of is decided anew, and live.
    pub(super) fn take_reply(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
        let told = self.instructions();
        let messages = self.conversation(supervisor)?.messages().len() as u64;
        let (Some(recorded), Some(conversation)) = (&mut self.recorded, &self.conversation) else {
            return Ok(());
        };
        let model = self.model.name();
        let asking = Asking { model, told: &told, messages: conversation.messages() };
        match recorded.reply(supervisor, asking)? {
            Answer::Live => self.recorded = None,
            Answer::TurnEnds(outcome) => supervisor.end_turn(outcome)?,
            Answer::Given { model, drafts } => {
                let told = news(supervisor, &told)?;
                let called = ModelCalled { model, attempt: 1, messages, told };
                let called = supervisor.in_turn(called);
                // Nothing follows from it that can't be taken back.
                supervisor.note_all(std::iter::once(called).chain(drafts).collect())?;
            }
        }
        Ok(())
    }

    /// Takes the recorded result of a call.
    pub(super) fn take_result(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        id: &str,
    ) -> Result<(), Halt> {
        self.conversation(supervisor)?;
        let (Some(recorded), Some(conversation)) = (&mut self.recorded, &self.conversation) else {
            return Ok(());
        };
        let (name, input) = asked_in(conversation, id).unwrap_or_default();
        match recorded.result(supervisor, Wanted { id, name: &name, input: &input })? {
            Answer::Live => self.recorded = None,
            Answer::TurnEnds(outcome) => supervisor.end_turn(outcome)?,
            Answer::Given { drafts, .. } => supervisor.note_all(drafts).map(drop)?,
        }
        Ok(())
    }

    /// What the model is told besides the conversation.
    pub(super) fn instructions(&self) -> Instructions {
        let tools = self.tools.iter().map(|tool| {
            serde_json::json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
            })
        });
        let tools = serde_json::Value::Array(tools.collect());
        Instructions { system: self.placeless.clone(), tools: tools.to_string() }
    }
}

/// What the model is told, where that is something else than what the session told it last.
pub(super) fn news(supervisor: &Supervisor<'_>, told: &Instructions) -> Result<Option<Told>, Halt> {
    let known = supervisor.state().told.as_deref();
    let digest = told.digest();
    if known == Some(digest.as_str()) {
        return Ok(None);
    }
    let Instructions { system, tools } = told;
    let (system, tools) = (supervisor.payload(system)?, supervisor.payload(tools)?);
    Ok(Some(Told { system, tools }))
}

impl Instructions {
    /// What both are known by, as in a journal.
    #[must_use]
    pub fn digest(&self) -> String {
        use segue_core::Payload;
        let (system, tools) = (Payload::inline(&self.system), Payload::inline(&self.tools));
        Told { system, tools }.digest()
    }
}
