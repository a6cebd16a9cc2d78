//! Which reply a request gets.

use serde_json::Value;

use super::conversation::{Conversation, contains};
use super::record::Request;
use super::scenario::{Reply, Scenario, UNSCRIPTED, When};

/// The scenario's replies and which of them are used up.
#[derive(Debug)]
pub(super) struct Script {
    replies: Vec<Reply>,
    used: Vec<bool>,
}

impl Script {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let replies = scenario.replies.clone();
        Self { used: vec![false; replies.len()], replies }
    }

    pub(super) fn push(&mut self, reply: Reply) {
        self.replies.push(reply);
        self.used.push(false);
    }

    /// The reply and its index, or the unscripted one.
    pub(super) fn take(
        &mut self,
        request: &Request,
        said: &Conversation,
    ) -> (Reply, Option<usize>) {
        let free = |i: &usize| self.replies.get(*i).is_some_and(|r| r.sticky || !self.used[*i]);
        let named = |i: &usize| {
            let when = self.replies.get(*i).and_then(|r| r.when.as_ref());
            when.is_some_and(|when| holds(when, request, said))
        };
        let next = |i: &usize| self.replies.get(*i).is_some_and(|r| r.when.is_none());
        let all = 0..self.replies.len();
        let found = all.clone().filter(free).find(named);
        let found = found.or_else(|| all.filter(free).find(next));
        if let Some(used) = found.and_then(|i| self.used.get_mut(i)) {
            *used = true;
        }
        match found.and_then(|i| self.replies.get(i)) {
            Some(reply) => (reply.clone(), found),
            None => (Reply::text(UNSCRIPTED), None),
        }
    }
}

fn holds(when: &When, request: &Request, said: &Conversation) -> bool {
    let in_body = |part: &str| {
        contains(&request.body, part) || request.prior.iter().any(|v| contains(v, part))
    };
    let offers =
        || request.body.get("tools").and_then(Value::as_array).is_some_and(|t| !t.is_empty());
    let model = || request.model.as_deref().unwrap_or_default();
    when.last_user.as_ref().is_none_or(|part| said.last_user().contains(part))
        && when
            .last_tool
            .as_ref()
            .is_none_or(|part| said.last_tool().is_some_and(|t| t.contains(part)))
        && when.body.as_ref().is_none_or(|part| in_body(part))
        && when.body_lacks.as_ref().is_none_or(|part| !in_body(part))
        && when.model.as_ref().is_none_or(|part| model().contains(part))
        && when.api.is_none_or(|api| api == request.api)
        && when.tools.is_none_or(|tools| tools == offers())
}
