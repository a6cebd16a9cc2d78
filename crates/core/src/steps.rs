//! A session as a graph of steps: a fold of its events, one step at a time.
//!
//! ```text
//! prompt ─► reply ─┬► tool ─┬► reply ─► proof
//!                  └► tool ─┘
//! ```
//!
//! A step's id is made from what it says and from the ids of its parents, so an id stands for all
//! that came before it: where two ids are equal, so are the histories. When it happened and what it
//! cost is no part of the id: that is accounting, and differs from one time to the next.

pub mod align;
mod branches;
mod id;
mod step;
mod totals;
mod word;

use jiff::Timestamp;

use crate::{
    event::{Body, Event, RewindStarted},
    identity::Base,
    payload::Payload,
    usage::{Micros, Usage},
};

pub use branches::{Branches, Path, Run};
pub use id::StepId;
pub use step::{Said, Step, StepKind};
pub use totals::Totals;
pub use word::{NoStep, Search, Worth};

/// The fold. Holds what is open, and of what is past only what each turn ended with: how many steps
/// a turn has does not matter.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    next: u64,
    /// What the next step follows from.
    frontier: Vec<StepId>,
    /// The reply that is being made.
    reply: Option<Making>,
    /// The calls of the last reply that have not returned.
    calls: Vec<OpenCall>,
    /// The reply that made these calls, and what has returned of them.
    asked: Option<StepId>,
    returned: Vec<StepId>,
    /// The last step, which may still be told what it cost.
    held: Option<Step>,
    /// What each turn ended with, for those who go back to it.
    ends: Vec<(u32, Vec<StepId>)>,
    /// Which turns the conversation goes back to, once the rewind is finished.
    rewinding: Option<RewindStarted>,
    model: Option<String>,
    proof_began: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Making {
    said: Vec<Said>,
    began: Timestamp,
    last: (u64, Timestamp),
    turn: u32,
    agent: Option<String>,
    usage: Usage,
    cost: Option<Micros>,
}

#[derive(Clone, Debug)]
struct OpenCall {
    id: String,
    name: String,
    input: Payload,
    began: Timestamp,
}

impl Steps {
    /// The steps of a session that begins with those of another one.
    #[must_use]
    pub fn after(base: Option<&Base>) -> Self {
        match base {
            None => Self::default(),
            Some(base) => Self {
                next: base.steps,
                frontier: base.frontier.clone(),
                ends: vec![(base.turn, base.frontier.clone())],
                ..Self::default()
            },
        }
    }

    /// The fold as it is after the end of a turn: so many steps, and what the next follows from.
    /// Of the turns before, it has to be told what a rewind goes back to.
    #[must_use]
    pub fn at_turn_end(next: u64, turn: u32, frontier: Vec<StepId>) -> Self {
        let ends = vec![(turn, frontier.clone())];
        Self { next, frontier, ends, ..Self::default() }
    }

    /// Knows what the turns of the session ended with that this one begins with.
    #[must_use]
    pub fn knowing(mut self, before: Self) -> Self {
        let turn = self.ends.first().map_or(0, |(turn, _)| *turn);
        self.ends.extend(before.ends.into_iter().filter(|(ended, _)| *ended < turn));
        self
    }

    /// What a turn ended with that is told elsewhere.
    pub fn learn(&mut self, turn: u32, end: Vec<StepId>) {
        self.ends.push((turn, end));
    }

    /// What the last turn up to this one ended with, where it is known here.
    #[must_use]
    pub fn end_of(&self, turn: u32) -> Option<&(u32, Vec<StepId>)> {
        self.ends.iter().filter(|(ended, _)| *ended <= turn).max_by_key(|(ended, _)| *ended)
    }

    /// What the next step would follow from.
    #[must_use]
    pub fn frontier(&self) -> &[StepId] {
        &self.frontier
    }

    /// Folds one more event in. Each step is given out once it is certain.
    pub fn apply(&mut self, event: &Event, each: &mut dyn FnMut(Step)) {
        match &event.body {
            Body::TurnStarted(started) => {
                self.seal(each);
                let told = started.briefing.as_ref().unwrap_or(&started.prompt);
                let said = vec![Said::Text(told.clone())];
                self.single(StepKind::Prompt, event, said, each);
            }
            Body::ModelCalled(called) => {
                self.reply = Some(Making::new(event));
                self.model = Some(called.model.clone());
            }
            Body::AgentStarted(_) => self.model = None,
            Body::AgentIntroduced(told) => self.model = told.model.clone().or(self.model.take()),
            Body::TextWritten(written) => self.say(event, Said::Text(written.text.clone())),
            Body::ThinkingWritten(written) => {
                let (text, signature) = (written.text.clone(), written.signature.clone());
                self.say(event, Said::Thinking { text, signature });
            }
            Body::ToolCalled(called) => {
                let id = event.id.clone().unwrap_or_default();
                let (name, input) = (called.name.clone(), called.input.clone());
                self.say(event, Said::Call { id, name, input });
            }
            Body::ModelReplied(replied) => {
                let reply = self.reply.get_or_insert_with(|| Making::new(event));
                reply.last = (event.seq, event.at);
                reply.usage = replied.usage;
                reply.cost = replied.cost_micros;
                self.model = Some(replied.model.clone()).filter(|model| !model.is_empty());
                self.seal(each);
            }
            Body::UsageReported(report) => self.account(report.usage, report.cost_micros),
            Body::ToolReturned(_) => self.result(event, each),
            Body::ModelFailed(failed) if failed.retry_in_ms.is_none() => {
                self.reply = None;
                let said = vec![Said::Text(Payload::inline(failed.message.clone()))];
                self.single(StepKind::Error, event, said, each);
            }
            Body::ModelFailed(_) => self.reply = None,
            Body::ReplayEnded(ended) => {
                if let Some(told) = &ended.told {
                    self.single(StepKind::Prompt, event, vec![Said::Text(told.clone())], each);
                }
            }
            Body::ProofStarted(_) => {
                self.seal(each);
                self.proof_began = Some(event.at);
            }
            Body::ProofReturned(returned) => {
                let said = Said::Result {
                    id: String::new(),
                    name: String::new(),
                    input: None,
                    status: returned.status,
                    exit: returned.exit,
                    output: returned.output.clone(),
                    touched: Vec::new(),
                };
                self.single(StepKind::Proof, event, vec![said], each);
            }
            Body::VerdictGiven(given) => {
                self.seal(each);
                let said = serde_json::to_string(given).unwrap_or_default();
                let said = vec![Said::Text(Payload::inline(said))];
                self.single(StepKind::Verdict, event, said, each);
            }
            Body::AgentChanged(changed) => {
                self.seal(each);
                let said = format!("{} → {}: {}", changed.from, changed.to, changed.reason);
                let said = vec![Said::Text(Payload::inline(said))];
                self.single(StepKind::HandOff, event, said, each);
            }
            Body::TurnEnded(_) => {
                self.seal(each);
                self.abandon();
                let turn = event.turn.unwrap_or_default();
                self.ends.push((turn, self.frontier.clone()));
                // Nothing more is said of its steps: here the fold can be taken up again, by one
                // that does not know who has answered in this turn.
                self.model = None;
                self.release(each);
            }
            Body::SessionStopped(_) => self.seal(each),
            Body::RewindStarted(started) => self.rewinding = Some(started.clone()),
            Body::RewindFinished(_) => self.rewound(each),
            _ => {}
        }
    }

    /// Whether what is said of costs now is said of a step that is whole.
    #[must_use]
    pub fn accounts_to_last(&self) -> bool {
        self.reply.is_none() && self.held.is_some()
    }

    /// Whether an event can be the last one of a step.
    #[must_use]
    pub fn is_part(body: &Body) -> bool {
        match body {
            Body::TurnStarted(_)
            | Body::TextWritten(_)
            | Body::ThinkingWritten(_)
            | Body::ToolCalled(_)
            | Body::ModelReplied(_)
            | Body::ModelFailed(_)
            | Body::ToolReturned(_)
            | Body::ProofReturned(_)
            | Body::VerdictGiven(_)
            | Body::AgentChanged(_) => true,
            Body::ReplayEnded(ended) => ended.told.is_some(),
            _ => false,
        }
    }

    /// Gives out what was held back.
    pub fn finish(&mut self, each: &mut dyn FnMut(Step)) {
        self.seal(each);
        self.release(each);
    }

    fn release(&mut self, each: &mut dyn FnMut(Step)) {
        if let Some(last) = self.held.take() {
            each(last);
        }
    }

    fn say(&mut self, event: &Event, said: Said) {
        let reply = self.reply.get_or_insert_with(|| Making::new(event));
        reply.said.push(said);
        reply.last = (event.seq, event.at);
    }

    /// What a vendor says that its calls have cost: of the reply that is being made, else of the
    /// last step.
    fn account(&mut self, usage: Usage, cost: Option<Micros>) {
        let (known, priced) = match (&mut self.reply, &mut self.held) {
            (Some(reply), _) => (&mut reply.usage, &mut reply.cost),
            (None, Some(step)) => (&mut step.usage, &mut step.cost),
            (None, None) => return,
        };
        *known += usage;
        if let Some(cost) = cost {
            *priced.get_or_insert_default() += cost;
        }
    }

    /// The reply is whole, or as whole as it will ever be.
    fn seal(&mut self, each: &mut dyn FnMut(Step)) {
        let Some(reply) = self.reply.take().filter(|reply| !reply.said.is_empty()) else { return };
        self.abandon();
        let began = reply.last.1;
        self.calls = reply.said.iter().filter_map(|said| OpenCall::of(said, began)).collect();
        let whole = self.calls.is_empty();
        let step = Step {
            index: 0,
            id: StepId::from_bytes([0; 32]),
            parents: self.frontier.clone(),
            kind: StepKind::Reply,
            turn: reply.turn,
            agent: reply.agent,
            model: self.model.clone(),
            said: reply.said,
            whole,
            batch: 1,
            seq: reply.last.0,
            began: reply.began,
            at: reply.last.1,
            usage: reply.usage,
            cost: reply.cost,
        };
        let id = self.give(step, each);
        self.frontier = vec![id];
        self.asked = (!whole).then_some(id);
    }

    /// A tool's answer follows from the reply that asked for it; what comes after follows from all
    /// the answers.
    fn result(&mut self, event: &Event, each: &mut dyn FnMut(Step)) {
        self.seal(each);
        let Body::ToolReturned(returned) = &event.body else { return };
        let id = event.id.clone().unwrap_or_default();
        let call = self.calls.iter().position(|call| call.id == id).map(|at| self.calls.remove(at));
        let parents = match self.asked.filter(|_| call.is_some()) {
            Some(asked) => vec![asked],
            None => self.frontier.clone(),
        };
        let began = call.as_ref().map_or(event.at, |call| call.began);
        let name = call.as_ref().map_or_else(|| returned.name.clone(), |call| call.name.clone());
        let said = Said::Result {
            id,
            name,
            input: call.map(|call| call.input),
            status: returned.status,
            exit: returned.exit,
            output: returned.output.clone(),
            touched: returned.touched.clone(),
        };
        let mut step = self.step(StepKind::Tool, event, vec![said]);
        step.parents = parents;
        step.began = began;
        step.whole = self.calls.is_empty();
        step.batch = u32::try_from(self.returned.len()).unwrap_or(u32::MAX).saturating_add(1);
        let id = self.give(step, each);
        self.returned.push(id);
        self.frontier = self.returned.clone();
        if self.calls.is_empty() {
            self.abandon();
        }
    }

    /// Whatever has not returned by now never will.
    fn abandon(&mut self) {
        self.calls.clear();
        self.returned.clear();
        self.asked = None;
    }

    fn single(
        &mut self,
        kind: StepKind,
        event: &Event,
        said: Vec<Said>,
        each: &mut dyn FnMut(Step),
    ) {
        self.abandon();
        let mut step = self.step(kind, event, said);
        if kind == StepKind::Proof {
            step.began = self.proof_began.take().unwrap_or(event.at);
        }
        let id = self.give(step, each);
        self.frontier = vec![id];
    }

    fn step(&self, kind: StepKind, event: &Event, said: Vec<Said>) -> Step {
        Step {
            index: 0,
            id: StepId::from_bytes([0; 32]),
            parents: self.frontier.clone(),
            kind,
            turn: event.turn.unwrap_or_default(),
            agent: event.agent.clone(),
            model: None,
            said,
            whole: true,
            batch: 1,
            seq: event.seq,
            began: event.at,
            at: event.at,
            usage: Usage::default(),
            cost: None,
        }
    }

    /// Gives a step its place and its id, and the one before it away.
    fn give(&mut self, mut step: Step, each: &mut dyn FnMut(Step)) -> StepId {
        step.index = self.next;
        step.id = identify(&step);
        self.next += 1;
        let id = step.id;
        if let Some(before) = self.held.replace(step) {
            each(before);
        }
        id
    }

    fn rewound(&mut self, each: &mut dyn FnMut(Step)) {
        self.seal(each);
        self.abandon();
        let Some(path) = self.rewinding.take().and_then(|started| started.path) else { return };
        let to = path.last().map_or(0, |span| span.to);
        self.frontier = self.end_of(to).map(|(_, ids)| ids.clone()).unwrap_or_default();
    }
}

impl Making {
    fn new(event: &Event) -> Self {
        Self {
            said: Vec::new(),
            began: event.at,
            last: (event.seq, event.at),
            turn: event.turn.unwrap_or_default(),
            agent: event.agent.clone(),
            usage: Usage::default(),
            cost: None,
        }
    }
}

impl OpenCall {
    fn of(said: &Said, began: Timestamp) -> Option<Self> {
        match said {
            Said::Call { id, name, input } => {
                Some(Self { id: id.clone(), name: name.clone(), input: input.clone(), began })
            }
            _ => None,
        }
    }
}

/// The hash of what a step says and of its parents. Each part is told with its length, so that no
/// two steps can look the same.
#[must_use]
pub fn identify(step: &Step) -> StepId {
    let mut hash = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    part(b"segue step 1");
    part(step.kind.word().as_bytes());
    for name in [&step.agent, &step.model] {
        part(name.as_deref().unwrap_or_default().as_bytes());
    }
    part(&(step.parents.len() as u64).to_le_bytes());
    for parent in &step.parents {
        part(parent.bytes());
    }
    for said in &step.said {
        match said {
            Said::Text(text) => {
                part(b"text");
                part(&digest(text));
            }
            Said::Thinking { text, .. } => {
                part(b"thinking");
                part(&digest(text));
            }
            // What a vendor calls a call is another word each time.
            Said::Call { name, input, .. } => {
                part(b"call");
                part(name.as_bytes());
                part(&digest(input));
            }
            Said::Result { name, input, status, exit, output, .. } => {
                part(b"result");
                part(name.as_bytes());
                part(&input.as_ref().map(digest).unwrap_or_default());
                part(format!("{status:?} {exit:?}").as_bytes());
                part(&digest(output));
            }
        }
    }
    StepId::from_bytes(*hash.finalize().as_bytes())
}

fn digest(payload: &Payload) -> Vec<u8> {
    payload.digest().into_bytes()
}

#[cfg(test)]
mod tests;
