//! Segue's own agent at work: an open turn of a native session, from wherever it is to its end.
//!
//! After every event the next step is decided from the state alone ([`segue_core::decide::step`]),
//! so a turn that goes on after a crash is the same code as one that was never interrupted.

pub mod recorded;

use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Instant,
};

use segue_agents::{
    native::{
        Block, Call, Delta, Model, ModelError, Outcome, Reply, Request, StopReason, ToolSpec,
        Workspace, price, prompt,
        retry::Policy,
        tools::{self, Ended, ShellCall},
    },
    report,
};
use segue_core::{
    Permission,
    decide::{self, Step},
    event::{
        Body, Draft, ModelCalled, ModelFailed, ModelReplied, ModelStop, Reason, TextWritten,
        ThinkingWritten, ToolCalled, ToolReturned, ToolStarted, ToolStatus,
    },
    usage::Price,
};
use segue_journal::{Session, stream::Voice};

use crate::{
    agent::{Agent, NATIVE},
    conversation::Conversation,
    native::recorded::Recorded,
    shell,
    supervisor::{Activity, Halt, Supervisor, capped, stop},
    trouble::{Repeated, failure, given_up, jitter},
};

/// What is told to the model of a call that was under way when everything stopped.
pub const MAY_HAVE_RUN: &str = "unknown: it may have run. Segue was stopped after this call had \
     been started and before its result was recorded. Find out before you repeat it.";

const NOT_RUN: &str = "not run: the user stopped the turn before this call was started.";

/// The native agent of one session.
#[derive(Debug)]
pub struct Native {
    model: Box<dyn Model>,
    workspace: Workspace,
    /// Where what the project tells agents is read.
    told_in: PathBuf,
    system: String,
    /// The same wherever the workspace is.
    placeless: String,
    tools: Vec<ToolSpec>,
    read_only: bool,
    prices: HashMap<String, Price>,
    policy: Policy,
    conversation: Option<Conversation>,
    repeated: Repeated,
    /// What the loop gives besides.
    more: Option<Box<dyn Tools>>,
    /// What answers in the place of the model and the tools.
    recorded: Option<Box<dyn Recorded>>,
}

/// Tools that a loop gives to its agents, besides their own. They touch nothing but its notes.
pub trait Tools: std::fmt::Debug + Send {
    fn specs(&self) -> Vec<ToolSpec>;

    /// Does it. What is returned either way is told to the model; nothing where it is no such tool.
    fn call(&self, turn: u32, name: &str, input: &str) -> Option<Result<String, String>>;

    /// Whether a call that may have been made can be made again: what it says counts once.
    fn repeatable(&self, name: &str) -> bool;
}

/// What a native agent is made of.
#[derive(Debug)]
pub struct NativeConfig {
    pub model: Box<dyn Model>,
    /// Prices that a person set, by model.
    pub prices: HashMap<String, Price>,
    pub policy: Policy,
}

impl NativeConfig {
    /// What the model costs, by a person's word or by the table.
    #[must_use]
    pub fn price(&self) -> Option<Price> {
        price_of(self.model.as_ref(), &self.prices)
    }
}

fn price_of(model: &dyn Model, prices: &HashMap<String, Price>) -> Option<Price> {
    let name = model.name();
    prices.get(name).copied().or_else(|| price::price(name))
}

/// What the project tells agents.
fn project(dir: &Path) -> Option<String> {
    ["AGENTS.md", "CLAUDE.md"].iter().find_map(|name| std::fs::read_to_string(dir.join(name)).ok())
}

impl Native {
    /// An agent for this workspace. Of the permissions it knows `read-only`; else it may do what
    /// the user may.
    pub fn new(config: NativeConfig, root: &Path, permission: Permission) -> std::io::Result<Self> {
        let read_only = permission == Permission::ReadOnly;
        let workspace = Workspace::open(root)?;
        Ok(Self {
            model: config.model,
            told_in: workspace.root().to_owned(),
            system: String::new(),
            placeless: String::new(),
            workspace,
            tools: if read_only { tools::reading_specs() } else { tools::specs() },
            read_only,
            prices: config.prices,
            policy: config.policy,
            conversation: None,
            repeated: Repeated::default(),
            more: None,
            recorded: None,
        })
    }

    /// The same, told what the project tells agents in another place than the workspace.
    #[must_use]
    pub fn told_in(mut self, dir: &Path) -> Self {
        self.told_in = dir.to_owned();
        self
    }

    /// Reads what the project tells agents; once, and not before the files are those that the work
    /// begins with.
    fn read_instructions(&mut self) {
        if !self.system.is_empty() {
            return;
        }
        let project = project(&self.told_in);
        self.system = prompt::system(self.workspace.root(), project.as_deref());
        self.placeless = prompt::system(Path::new("{root}"), project.as_deref());
    }

    /// The same with more tools.
    #[must_use]
    pub fn with_tools(mut self, more: Box<dyn Tools>) -> Self {
        let known = |spec: &ToolSpec| self.tools.iter().any(|own| own.name == spec.name);
        let new: Vec<ToolSpec> = more.specs().into_iter().filter(|spec| !known(spec)).collect();
        self.tools.extend(new);
        self.more = Some(more);
        self
    }

    /// The conversation as the journal has it now.
    fn conversation(&mut self, supervisor: &Supervisor<'_>) -> Result<&mut Conversation, Halt> {
        Ok(self.recalled(supervisor.session().session())?)
    }

    fn recalled(&mut self, session: &Session) -> segue_journal::Result<&mut Conversation> {
        let mut conversation = match self.conversation.take() {
            Some(conversation) => conversation,
            // Where it was cut to fit must not depend on how often it was read.
            None if self.recorded.is_some() => {
                Conversation::from_start(session, self.model.context_tokens())?
            }
            None => Conversation::new(session, self.model.context_tokens())?,
        };
        conversation.catch_up(session)?;
        Ok(self.conversation.insert(conversation))
    }

    fn call_model(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
        if let Some(cap) = supervisor.over() {
            return Err(capped(cap).into());
        }
        let messages = self.conversation(supervisor)?.messages().len() as u64;
        let attempt = supervisor.state().turn.failed_attempts + 1;
        let model = self.model.name().to_owned();
        let told = recorded::news(supervisor, &self.instructions())?;
        let called = supervisor.in_turn(ModelCalled { model, attempt, messages, told });
        supervisor.commit(called)?;
        match self.ask(supervisor)? {
            Ok(reply) => self.keep(supervisor, reply),
            Err(error) => self.failed(supervisor, &error, attempt),
        }
    }

    /// Calls the model. Nothing of the answer counts until all of it is there.
    fn ask(&mut self, supervisor: &mut Supervisor<'_>) -> Result<Result<Reply, ModelError>, Halt> {
        let turn = supervisor.state().turn.number;
        let mut stream = supervisor.session().stream(turn, "native", Voice::Out)?;
        self.conversation(supervisor)?;
        let Self { conversation: Some(conversation), model, system, tools, .. } = self else {
            return Err(stop(Reason::Failed, "there is no conversation").into());
        };
        let request = Request {
            system,
            messages: conversation.messages(),
            tools,
            max_output: None,
            earlier_replies: conversation.left_out(),
        };
        let mut broken = None;
        let mut looked = Instant::now();
        let reply = model.call(&request, &mut |delta| {
            match delta {
                Delta::Raw(line) => {
                    if let Err(error) = stream.write_line(line) {
                        broken = Some(error);
                        return ControlFlow::Break(());
                    }
                }
                Delta::Text(text) => supervisor.progress(Activity::Answering(text)),
                _ => supervisor.progress(Activity::Thinking),
            }
            // The clock is read often enough for a person, not for every piece of text.
            if looked.elapsed() >= crate::supervisor::LOOK {
                looked = Instant::now();
                if supervisor.must_end().is_some() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        match broken {
            Some(error) => Err(error.into()),
            None => Ok(reply),
        }
    }

    /// Makes a whole reply durable, before anything that it asks for is done.
    fn keep(&mut self, supervisor: &mut Supervisor<'_>, reply: Reply) -> Result<(), Halt> {
        let mut drafts = Vec::with_capacity(reply.blocks.len() + 1);
        for block in reply.blocks {
            drafts.extend(step_of(supervisor, block)?);
        }
        let price = price_of(self.model.as_ref(), &self.prices);
        let cost_micros = price.map(|price| price.cost(&reply.usage));
        drafts.push(supervisor.in_turn(ModelReplied {
            model: reply.model,
            stop: match reply.stop {
                StopReason::EndTurn => ModelStop::EndTurn,
                StopReason::ToolUse => ModelStop::ToolUse,
                StopReason::MaxTokens => ModelStop::MaxTokens,
                StopReason::Refusal => ModelStop::Refusal,
                StopReason::Other(_) => ModelStop::Unknown,
            },
            usage: reply.usage,
            cost_micros,
            reply_id: reply.id,
        }));
        supervisor.commit_all(drafts).map(drop)
    }

    /// Records a failed call, and decides whether it is made again.
    fn failed(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        error: &ModelError,
        attempt: u32,
    ) -> Result<(), Halt> {
        if let ModelError::Cancelled = error
            && let Some(stop) = supervisor.must_end()
        {
            return Err(stop.into());
        }
        let shrunk = matches!(error, ModelError::ContextExhausted(_))
            && self.conversation(supervisor)?.shrink();
        let wait = match shrunk {
            true => Some(std::time::Duration::ZERO),
            false => self.policy.next(attempt, error, jitter(supervisor)),
        };
        let failed = ModelFailed {
            error: failure(error),
            message: error.to_string(),
            retry_in_ms: wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        };
        let draft = supervisor.in_turn(failed);
        supervisor.note(draft)?;
        match wait {
            Some(wait) => supervisor.wait(wait),
            None => Err(given_up(supervisor, error, None)?.into()),
        }
    }

    fn run_tool(&mut self, supervisor: &mut Supervisor<'_>, id: &str) -> Result<(), Halt> {
        let Some((name, input)) = self.asked_for(supervisor, id)? else {
            let missing = format!("the call {id} is not in the conversation");
            return Err(stop(Reason::Failed, missing).into());
        };
        if let Some(stop) = self.repeated.again(&name, &input) {
            return Err(stop.into());
        }
        let started = supervisor.in_turn(ToolStarted {}).about(id);
        supervisor.commit(started)?;
        self.do_call(supervisor, id, &name, &input)
    }

    /// Does what was under way when everything stopped once more, where that does no harm.
    fn settle_tool(&mut self, supervisor: &mut Supervisor<'_>, id: &str) -> Result<(), Halt> {
        let asked = self.asked_for(supervisor, id)?;
        match (asked, &self.more) {
            (Some((name, input)), Some(more)) if more.repeatable(&name) => {
                self.do_call(supervisor, id, &name, &input)
            }
            _ => {
                let outcome = Outcome::error(MAY_HAVE_RUN);
                returned(supervisor, id, outcome, ToolStatus::MayHaveRun)
            }
        }
    }

    fn do_call(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        id: &str,
        name: &str,
        input: &str,
    ) -> Result<(), Halt> {
        let turn = supervisor.state().turn.number;
        let more = self.more.as_ref().filter(|_| name != report::TOOL);
        let given = more.and_then(|more| more.call(turn, name, input));
        let (outcome, status) = match tools::parse(name, input) {
            _ if given.is_some() => finished(match given {
                Some(Err(wrong)) => Outcome::error(wrong),
                done => Outcome::text(done.and_then(Result::ok).unwrap_or_default()),
            }),
            Err(wrong) => (Outcome::error(wrong), ToolStatus::Failed),
            // A model may ask for what it was not offered.
            Ok(call) if self.read_only && !call.only_reads() => {
                let refused = format!("{} is not allowed: this session is read-only", call.name());
                (Outcome::error(refused), ToolStatus::Failed)
            }
            Ok(Call::Shell(call)) => self.shell(supervisor, &call),
            Ok(call @ Call::Checkpoint(_)) => {
                if let Call::Checkpoint(report) = &call {
                    let mut draft = Draft::from(report.clone()).about(id);
                    draft.agent = Some(NATIVE.to_owned());
                    supervisor.commit(draft)?;
                }
                finished(self.workspace.run(&call))
            }
            Ok(call) => finished(self.workspace.run(&call)),
        };
        returned(supervisor, id, outcome, status)?;
        supervisor.must_end().map_or(Ok(()), |stop| Err(stop.into()))
    }

    fn shell(&self, supervisor: &mut Supervisor<'_>, call: &ShellCall) -> (Outcome, ToolStatus) {
        match shell::run(supervisor, self.workspace.root(), &call.command, call.timeout) {
            Err(error) => finished(Outcome::error(error.to_string())),
            Ok(run) if run.ended == Ended::Interrupted => {
                (run.capture.finish(run.ended), ToolStatus::Interrupted)
            }
            Ok(run) => finished(run.capture.finish(run.ended)),
        }
    }

    /// What the model asked for under this id: looked up in the last reply.
    fn asked_for(
        &mut self,
        supervisor: &Supervisor<'_>,
        id: &str,
    ) -> Result<Option<(String, String)>, Halt> {
        Ok(asked_in(self.conversation(supervisor)?, id))
    }
}

/// What the model asked for last under this id.
fn asked_in(conversation: &Conversation, id: &str) -> Option<(String, String)> {
    let blocks = conversation.messages().iter().rev().flat_map(|message| &message.blocks);
    blocks.into_iter().find_map(|block| match block {
        Block::ToolUse { id: found, name, input } if found == id => {
            Some((name.clone(), input.clone()))
        }
        _ => None,
    })
}

impl Agent for Native {
    fn recall(&mut self, session: &Session) -> segue_journal::Result<()> {
        self.recalled(session).map(drop)
    }

    fn forget(&mut self) {
        self.conversation = None;
        // What the project tells agents may have changed since, too.
        self.system.clear();
    }

    fn turn(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
        self.read_instructions();
        while supervisor.state().turn.open {
            supervisor.check_interrupt()?;
            match decide::step(supervisor.state()) {
                Step::SettleTool(id) => self.settle_tool(supervisor, &id)?,
                Step::RunTool(id) if self.is_answered(supervisor) => {
                    self.take_result(supervisor, &id)?;
                }
                Step::CallModel if self.is_answered(supervisor) => self.take_reply(supervisor)?,
                Step::RunTool(id) => self.run_tool(supervisor, &id)?,
                Step::CallModel => self.call_model(supervisor)?,
                Step::EndTurn(outcome) => supervisor.end_turn(outcome)?,
            }
        }
        Ok(())
    }

    fn settle(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
        settle(supervisor)
    }

    fn limit_key(&self) -> String {
        format!("{NATIVE} {}", self.model.name())
    }

    fn context_tokens(&self) -> u64 {
        self.model.context_tokens()
    }
}

/// Answers what is still open, so that a new prompt can follow.
pub(crate) fn settle(supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
    while supervisor.state().turn.open {
        let (id, text, status) = match decide::step(supervisor.state()) {
            Step::SettleTool(id) => (id, MAY_HAVE_RUN, ToolStatus::MayHaveRun),
            Step::RunTool(id) => (id, NOT_RUN, ToolStatus::NotRun),
            Step::CallModel | Step::EndTurn(_) => return Ok(()),
        };
        returned(supervisor, &id, Outcome::error(text), status)?;
    }
    Ok(())
}

fn returned(
    supervisor: &mut Supervisor<'_>,
    id: &str,
    outcome: Outcome,
    status: ToolStatus,
) -> Result<(), Halt> {
    let calls = &supervisor.state().turn.tools;
    let name = calls.iter().find(|call| call.id == id).map(|call| call.name.clone());
    let returned = ToolReturned {
        name: name.unwrap_or_default(),
        status,
        output: supervisor.payload(&outcome.output)?,
        exit: outcome.status,
        touched: outcome.touched,
    };
    let draft = supervisor.in_turn(returned).about(id);
    supervisor.note(draft).map(drop)
}

/// A block of a reply as the step that it is recorded as.
fn step_of(supervisor: &Supervisor<'_>, block: Block) -> Result<Option<Draft>, Halt> {
    let body: Body = match block {
        Block::Text { text } if text.is_empty() => return Ok(None),
        Block::Text { text } => {
            TextWritten { text: supervisor.payload(&text)?, partial: false }.into()
        }
        Block::Thinking { text, signature } => ThinkingWritten {
            text: supervisor.payload(&text)?,
            signature: signature.map(|text| supervisor.payload(&text)).transpose()?,
        }
        .into(),
        Block::ToolUse { id, name, input } => {
            let input = supervisor.payload(&input)?;
            return Ok(Some(supervisor.in_turn(ToolCalled { name, input }).about(id)));
        }
        // Results are ours to give; a model has none.
        Block::ToolResult { .. } => return Ok(None),
    };
    Ok(Some(supervisor.in_turn(body)))
}

fn finished(outcome: Outcome) -> (Outcome, ToolStatus) {
    let status = if outcome.is_error { ToolStatus::Failed } else { ToolStatus::Done };
    (outcome, status)
}
