//! `send_to_agent`, `receive_messages`, `bridge_status`: how participants talk to each other.

use segue_core::bridge as words;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Desk, Tool};
use crate::bridge;

pub(super) struct Send;

#[derive(Debug, Deserialize)]
struct Outgoing {
    to: String,
    #[serde(alias = "content", alias = "text")]
    message: String,
}

impl Tool for Send {
    fn name(&self) -> &'static str {
        "send_to_agent"
    }

    fn description(&self) -> &'static str {
        "Say something to another participant of this session, by name, or to `worker`, \
         `reviewers` or `all`. It is delivered once, at the latest with the next thing that they \
         are asked. `bridge_status` tells the names."
    }

    fn schema(&self) -> Value {
        let text = |about: &str| json!({ "type": "string", "description": about });
        json!({
            "type": "object",
            "properties": {
                "to": text("Whom: a name, `worker`, `reviewers` or `all`."),
                "message": text("What to say."),
            },
            "required": ["to", "message"],
        })
    }

    fn call(&self, desk: &Desk, input: &Value) -> Result<String, String> {
        let Outgoing { to, message } = serde_json::from_value(input.clone())
            .map_err(|error| format!("it takes to and message: {error}"))?;
        let (session, me) = desk.bridge()?;
        let sent = bridge::send(&session, &me, &to, &message, u64::from(desk.turn))?;
        Ok(format!("sent to {}", sent.join(", ")))
    }
}

pub(super) struct Receive;

impl Tool for Receive {
    fn name(&self) -> &'static str {
        "receive_messages"
    }

    fn description(&self) -> &'static str {
        "What others have said to you since you last looked. Each message is told once."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object", "properties": {} })
    }

    fn call(&self, desk: &Desk, _input: &Value) -> Result<String, String> {
        let (session, me) = desk.bridge()?;
        let failed = |error: segue_journal::Error| format!("the messages can't be read: {error}");
        let mut waiting = bridge::waiting_for(&session, &me).map_err(failed)?;
        let ids: Vec<&str> = waiting.iter().map(|one| one.id.as_str()).collect();
        let heard = bridge::heard(&desk.disk, &desk.dir, &ids).map_err(failed)?;
        let mut told = desk.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        waiting.retain(|one| !heard.contains(&one.id) && !told.contains(&one.id));
        told.extend(waiting.iter().map(|one| one.id.clone()));
        let shown = waiting.iter().map(|one| words::shown(&one.id, &one.from, &one.text));
        match waiting.is_empty() {
            true => Ok("no new messages".to_owned()),
            false => Ok(shown.collect::<Vec<_>>().join("\n")),
        }
    }
}

pub(super) struct Status;

impl Tool for Status {
    fn name(&self) -> &'static str {
        "bridge_status"
    }

    fn description(&self) -> &'static str {
        "Where the session stands: who takes part, the round, the verdicts, the messages."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object", "properties": {} })
    }

    fn call(&self, desk: &Desk, _input: &Value) -> Result<String, String> {
        let (session, me) = desk.bridge()?;
        let state = session.state();
        let waiting = bridge::waiting_for(&session, &me).map_or(0, |list| list.len());
        let status = json!({
            "you": me,
            "participants": bridge::participants(state),
            "iteration": state.review.iteration,
            "max_iterations": state.caps.iterations,
            "passes": state.review.passes,
            "fails": state.review.fails,
            "open_concerns": state.review.ledger.open().iter().map(|one| &one.what.id).collect::<Vec<_>>(),
            "messages": state.bridge.total(),
            "messages_for_you": waiting,
        });
        Ok(status.to_string())
    }
}
