//! The turn: what the agent tells of it, what it asks, and how it ends.

use agent_client_protocol_schema::v1::{self as acp, SessionUpdate};
use segue_core::usage::{Micros, Usage};
use serde_json::{Value, json, value::RawValue};

use super::{Open, Talk, Update, Wanted, bad, parse, permission, say, tools, trouble, usage};
use crate::vendor::{
    Ending, Heard, Signal, Trouble,
    json::{at, text},
};

impl Talk {
    pub(super) fn update(&mut self, params: Option<&RawValue>, heard: &mut Heard) {
        let Some(told) = parse::<Update<'_>>(params) else { return };
        if !self.prompted || self.ended {
            return;
        }
        if self.session.as_ref().is_none_or(|session| *session.0 != *told.session_id) {
            // A helper of the agent's, in a session of its own.
            return heard.push(Signal::Thinking);
        }
        let Ok(update) = serde_json::from_str(told.update.get()) else { return };
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.piece(chunk, false, heard),
            SessionUpdate::AgentThoughtChunk(chunk) => self.piece(chunk, true, heard),
            SessionUpdate::ToolCall(call) => {
                let mut signals = self.calls.whole();
                signals.extend(self.calls.begin(call));
                self.close(heard);
                heard.signals.extend(signals);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                let signals = self.calls.update(update);
                if !signals.is_empty() {
                    self.close(heard);
                }
                heard.signals.extend(signals);
            }
            SessionUpdate::UsageUpdate(update) => self.usage(&update, heard),
            SessionUpdate::SessionInfoUpdate(update) => {
                self.codex(update.meta.as_ref().and_then(|meta| meta.get("codex")), heard);
            }
            SessionUpdate::Notice(notice) => heard.push(Signal::Notice(match notice.description {
                Some(more) => format!("{}: {more}", notice.title),
                None => notice.title,
            })),
            SessionUpdate::Plan(_) | SessionUpdate::CompactionUpdate(_) => {
                heard.push(Signal::Thinking);
            }
            _ => {}
        }
    }

    fn piece(&mut self, chunk: acp::ContentChunk, thought: bool, heard: &mut Heard) {
        if let Some(usage) = chunk.meta.as_ref().and_then(usage::of_call) {
            self.used(None, usage, heard);
        }
        let acp::ContentBlock::Text(text) = chunk.content else { return };
        if text.text.is_empty() {
            return;
        }
        if let Some(trouble) = self.broken.take().filter(|_| chunk.message_id.is_none()) {
            // Not the model's words: after a failure it is the reason.
            self.broken = Some(trouble::because(trouble, text.text.trim()));
            return;
        }
        let calls = self.calls.whole();
        if !calls.is_empty()
            || self.open.thought != thought
            || self.open.message != chunk.message_id
        {
            self.close(heard);
        }
        heard.signals.extend(calls);
        self.open.thought = thought;
        self.open.message = chunk.message_id;
        self.open.last = self.open.text.len();
        self.open.text.push_str(&text.text);
        heard.push(if thought { Signal::Thinking } else { Signal::Writing(text.text) });
    }

    /// The text under way is whole.
    fn close(&mut self, heard: &mut Heard) {
        let open = std::mem::take(&mut self.open);
        if !open.text.is_empty() {
            heard.push(match open.thought {
                true => Signal::Thought(open.text),
                false => Signal::Text(open.text),
            });
        }
    }

    fn usage(&mut self, update: &acp::UsageUpdate, heard: &mut Heard) {
        self.context = (update.used, update.size);
        // A call of the model has succeeded since.
        self.retried = None;
        let calls = self.calls.whole();
        if !calls.is_empty() {
            self.close(heard);
            heard.signals.extend(calls);
        }
        // It counts from the session's beginning: only of a new one is that ours.
        if let Some(cost) = update.cost.as_ref().filter(|cost| cost.currency == "USD")
            && matches!(self.wanted, Wanted::New)
            && cost.amount > 0.0
        {
            self.cost = Some(Micros::from_dollars(cost.amount));
        }
    }

    /// Codex's adapter says `end_turn` after most failures. That the turn failed, and of what, it
    /// tells on the side.
    fn codex(&mut self, told: Option<&Value>, heard: &mut Heard) {
        let Some(told) = told else { return };
        if let Some(info) = at(told, &["error", "codexErrorInfo"])
            && at(told, &["error", "willRetry"]) == Some(&Value::Bool(true))
        {
            let details = text(told, &["error", "additionalDetails"]);
            let message = details.or_else(|| text(told, &["error", "message"]));
            let message = message.unwrap_or_default().to_owned();
            let trouble = trouble::codex(info, message, &self.agent.sign_in);
            self.retried = Some(trouble.clone());
            // What it had begun to say, it says again.
            self.open = Open::default();
            heard.push(Signal::Retrying { trouble, wait: None });
        }
        match text(told, &["threadStatus", "type"]) {
            Some("systemError") => {
                self.open = Open::default();
                let full = self.context.1 > 0 && self.context.0 >= self.context.1;
                let message = "the turn failed".to_owned();
                self.broken = Some(match self.retried.take() {
                    _ if full => Trouble::ContextExhausted(message),
                    Some(trouble) => trouble,
                    None => Trouble::Server { status: 500, message },
                });
            }
            Some("active") => self.broken = None,
            _ => {}
        }
    }

    pub(super) fn permission(
        &mut self,
        id: &RawValue,
        params: Option<&RawValue>,
        heard: &mut Heard,
    ) {
        let Some(request) = parse::<acp::RequestPermissionRequest>(params) else {
            let error = acp::Error::invalid_params();
            return say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }), heard);
        };
        let (call, signals) = self.calls.asked(request.tool_call);
        self.close(heard);
        heard.signals.extend(signals);
        let ours = !self.tools.is_empty() && permission::is_ours(&call);
        let allowed = ours || permission::allows(self.permission, &call, &self.cwd);
        let outcome = match self.cancelled {
            true => acp::RequestPermissionOutcome::Cancelled,
            false => permission::answer(allowed, &request.options),
        };
        let answer = acp::RequestPermissionResponse::new(outcome);
        say(&json!({ "jsonrpc": "2.0", "id": id, "result": answer }), heard);
        if !allowed {
            self.refused = true;
            heard.signals.extend(self.calls.refuse(&call));
            heard.push(Signal::Notice(format!("{} was not permitted", tools::name(&call))));
        }
    }

    fn used(&mut self, model: Option<String>, usage: Usage, heard: &mut Heard) {
        if usage.total() > 0 {
            self.reported += usage;
            heard.push(Signal::Used { model, usage, cost: None });
        }
    }

    pub(super) fn finished(&mut self, answer: Option<acp::PromptResponse>, heard: &mut Heard) {
        let Some(answer) = answer else {
            return self.fail(bad("its answer to the prompt has another form"), heard);
        };
        let calls = self.calls.whole();
        heard.signals.extend(calls);
        let meta = answer.meta.unwrap_or_default();
        let told = answer.usage.as_ref().map(usage::of_turn);
        if let Some(all) = told.or_else(|| usage::beside(&meta))
            && self.reported.total() == 0
        {
            self.used(usage::model(&meta), all, heard);
        }
        if let Some(cost) = self.cost.take().filter(|_| self.reported.total() > 0) {
            heard.push(Signal::Cost(cost));
        }
        let ending = self.ending(answer.stop_reason, answer.usage.is_some());
        // What was being said when it failed or was stopped never became whole.
        if !matches!(ending, Ending::Failed(_) | Ending::Cancelled) {
            self.close(heard);
        }
        self.end(ending, heard);
    }

    fn ending(&mut self, reason: acp::StopReason, counted: bool) -> Ending {
        use acp::StopReason::{Cancelled, EndTurn, MaxTokens, Refusal};
        let failure = self.broken.take().or_else(|| self.copilot(counted));
        match reason {
            // Some say `end_turn` when they were cancelled.
            Cancelled | EndTurn if self.cancelled => Ending::Cancelled,
            EndTurn if failure.is_some() => failure.map_or(Ending::Finished, Ending::Failed),
            // Nobody stopped it: Codex gives the turn up where it may not edit.
            Cancelled if self.refused => Ending::Finished,
            Cancelled => Ending::Cancelled,
            MaxTokens => Ending::Truncated,
            Refusal => Ending::Refused,
            // `max_turn_requests` too: its own limit is its own decision.
            _ => Ending::Finished,
        }
    }

    /// Copilot CLI says `end_turn` after every failure, and tells it in a last piece of text that
    /// begins with `Error: `. That is looked at only where the turn is known to have failed (it
    /// counted no tokens at all), or where the words are those of its own report of vain retries.
    fn copilot(&self, counted: bool) -> Option<Trouble> {
        const RETRIED: &str = "Failed to get response from the AI model; retried ";
        if self.agent.name != "Copilot" {
            return None;
        }
        let last = self.open.text.get(self.open.last..)?.strip_prefix("Error: ")?;
        if counted && !last.starts_with(RETRIED) {
            return None;
        }
        let cause = last.split_once(" Last error: ").map_or(last, |(_, cause)| cause);
        let http = last.split_once("(HTTP ").and_then(|(_, rest)| rest.split_once(')'));
        let status = trouble::leading_status(cause)
            .or_else(|| trouble::leading_status(&format!("{} ", http?.0)));
        Some(match status {
            Some(status) => trouble::by_status(status, last.to_owned(), &self.agent.sign_in),
            None => Trouble::StreamCut(last.to_owned()),
        })
    }
}
