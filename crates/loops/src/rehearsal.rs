//! A native session that runs again, answered from the recording of another one.
//!
//! The agent goes its way as always; in the place of a model and of a tool it asks here. As long as
//! what it would send is what was sent then, it gets what was answered then: nothing is called and
//! nothing is spent. What people asked and what the proof said comes from the recording too.
//!
//! What may differ: the path of the workspace and the time, of which nothing is compared; which model
//! has answered, unless a person named one; and how much of a conversation that was too long was left
//! out, which is cut the same way for both.
//!
//! **Files.** Recorded tools are never run. At the end of every turn the worktree gets the files that
//! were kept there. Where the recording is left within a turn, it gets those of that very step if they
//! were kept, or if nothing has touched files since the turn began; else it says what the files are,
//! to people and to the model.
//!
//! What was left and why is one event, `replay.ended`. Until it is in the journal, everything here may
//! be done again.

mod between;
mod differs;
mod tape;

use std::path::Path;

use segue_agents::native::tools;
use segue_core::{
    Body, Event, Payload,
    event::{
        Draft, ModelReplied, Reason, ReplayEnd, ReplayEnded, TextWritten, ThinkingWritten, Told,
        ToolCalled, ToolReturned, ToolStatus,
    },
    identity::Accounts,
    state::Progress,
    steps::Steps,
    usage::{Micros, Usage},
};
use segue_journal::{Session, steps::Landmark};
use segue_runner::{
    Halt, Supervisor,
    conversation::Conversation,
    native::{
        MAY_HAVE_RUN,
        recorded::{Answer, Asking, Instructions, Recorded, Wanted},
    },
    supervisor::stop,
};

pub(crate) use self::between::{at_turn_end, between};

use self::tape::{Given, Scene, Tape};
use crate::{
    branch::{self, Files},
    keep::{Checkpoints, Keeper, reference},
    rewind,
};

const NOT_RUN: &str = "not run: the recording that answered so far ends before this call.";

/// A place in a recording, and all that was said before it.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    tape: Tape,
    keeper: Keeper,
    /// The turn that is under way, and how many of its events were passed.
    scene: Scene,
    passed: usize,
    /// What the model had been told when they were passed.
    conversation: Conversation,
    told: Option<Told>,
    /// The last event of a step that was passed.
    last: Option<(u32, u64)>,
    replies: u64,
    reused: Accounts,
}

/// Why a recording is left, and what of it is not taken.
struct Left {
    why: ReplayEnd,
    differs: Option<String>,
    /// The event that ends the recorded step: its turn and its number.
    step: Option<(u32, u64)>,
}

impl Left {
    fn exhausted() -> Self {
        Self { why: ReplayEnd::Exhausted, differs: None, step: None }
    }
}

impl Rehearsal {
    /// The recording that answers a session; none where it is live.
    pub(crate) fn open(
        session: &Session,
        workspace: &Path,
        context_tokens: u64,
    ) -> segue_journal::Result<Option<Self>> {
        let Some(tape) = Tape::of(session)? else { return Ok(None) };
        Ok(Some(Self {
            tape,
            keeper: Keeper::new(session, workspace, Checkpoints::Git),
            scene: Scene::default(),
            passed: 0,
            conversation: Conversation::new(session, context_tokens)?,
            told: None,
            last: None,
            replies: 0,
            reused: Accounts::default(),
        }))
    }

    /// Goes to the start of a turn; `false` where there is none of that number, and it is at the end.
    fn reach(&mut self, own: u32) -> segue_journal::Result<bool> {
        let target = self.tape.turn(own).or_else(|| self.tape.last_turn());
        while let Some(target) = target.filter(|target| self.scene.number < *target) {
            self.pass(self.scene.events.len())?;
            let scene = self.tape.scene(self.scene.number + 1)?;
            self.passed = 0;
            self.scene = match self.tape.has(scene.number) || scene.number == target {
                true => scene,
                false => {
                    scene.events.iter().for_each(|event| self.hear_told(event));
                    Scene { number: scene.number, ..Scene::default() }
                }
            };
        }
        let there = self.tape.turn(own).is_some();
        if !there {
            self.pass(self.scene.events.len())?;
        }
        Ok(there)
    }

    /// Passes the events of this turn before an index.
    fn pass(&mut self, until: usize) -> segue_journal::Result<()> {
        while self.passed < until.min(self.scene.events.len()) {
            let event = self.scene.events[self.passed].clone();
            self.passed += 1;
            self.hear_told(&event);
            if let Body::ModelReplied(replied) = &event.body {
                self.replies += 1;
                self.reused.usage += replied.usage;
                self.reused.cost_micros += replied.cost_micros.unwrap_or_default();
            }
            if Steps::is_part(&event.body) {
                self.last = Some((self.scene.number, event.seq));
            }
            self.conversation.hear(&event, &self.tape.source)?;
        }
        Ok(())
    }

    fn hear_told(&mut self, event: &Event) {
        if let Body::ModelCalled(called) = &event.body
            && called.told.is_some()
        {
            self.told.clone_from(&called.told);
        }
    }

    /// The first thing that is not as it was when this reply was given.
    fn difference(
        &self,
        supervisor: &Supervisor<'_>,
        called: usize,
        asking: Asking<'_>,
    ) -> segue_journal::Result<Option<String>> {
        let source = &self.tape.source;
        let (mut told, mut model) = (self.told.as_ref(), None);
        if let Some(Body::ModelCalled(call)) = self.scene.events.get(called).map(|e| &e.body) {
            told = call.told.as_ref().or(told);
            model = Some(call.model.as_str());
        }
        let named = self.tape.recording.same_model || supervisor.state().model.is_some();
        if let Some(model) = model.filter(|model| named && *model != asking.model) {
            return Ok(Some(format!("the model: was {model}, is {}", asking.model)));
        }
        // An older version did not record what a model was told besides.
        if let Some(told) = told.filter(|told| told.digest() != asking.told.digest()) {
            let (system, tools) = (source.text(&told.system)?, source.text(&told.tools)?);
            let was = Instructions { system, tools };
            if let Some(differs) = differs::instructions(&was, asking.told) {
                return Ok(Some(differs));
            }
        }
        Ok(differs::messages(self.conversation.messages(), asking.messages))
    }

    /// A recorded step, for this session. What it cost was paid then.
    fn taken(&self, supervisor: &Supervisor<'_>, event: &Event) -> Result<Option<Draft>, Halt> {
        let again = |payload: &Payload| -> Result<Payload, Halt> {
            supervisor.payload(&self.tape.source.text(payload)?)
        };
        let body: Body = match &event.body {
            Body::TextWritten(written) => {
                TextWritten { text: again(&written.text)?, partial: written.partial }.into()
            }
            Body::ThinkingWritten(written) => ThinkingWritten {
                text: again(&written.text)?,
                signature: written.signature.as_ref().map(again).transpose()?,
            }
            .into(),
            Body::ToolCalled(called) => {
                ToolCalled { name: called.name.clone(), input: again(&called.input)? }.into()
            }
            Body::ToolReturned(returned) => {
                ToolReturned { output: again(&returned.output)?, ..returned.clone() }.into()
            }
            Body::ModelReplied(replied) => ModelReplied {
                usage: Usage::default(),
                cost_micros: Some(Micros(0)),
                ..replied.clone()
            }
            .into(),
            Body::ProgressReported(report) => {
                let draft = Draft { agent: event.agent.clone(), ..Draft::from(report.clone()) };
                return Ok(Some(Draft { id: event.id.clone(), ..draft }));
            }
            _ => return Ok(None),
        };
        let draft = supervisor.in_turn(body);
        Ok(Some(Draft { id: event.id.clone(), ..draft }))
    }

    /// Leaves the recording: the files first, then the word of it.
    fn leave(&mut self, supervisor: &mut Supervisor<'_>, left: Left) -> Result<(), Halt> {
        let Left { why, differs, step } = left;
        let (at, last) = self.landmarks(step)?;
        let (files, exact) = match self.bring_files(supervisor, last.as_ref())? {
            (_, true) if why == ReplayEnd::Complete => {
                ("as at the end of the recording".to_owned(), true)
            }
            found => found,
        };
        let mut told = None;
        if !exact {
            self.settle(supervisor)?;
            let text = format!(
                "[The files are not as this conversation left them: they are {files}. Nothing that \
                 was done to files since then is there. Look before you go on.]"
            );
            told = Some(supervisor.payload(&text)?);
        }
        let (index, id) = match (&at, &last) {
            (Some(at), _) => (at.index, Some(at.id)),
            (None, Some(last)) => (last.index + 1, Some(last.id)),
            (None, None) => (0, None),
        };
        let ended = ReplayEnded {
            why,
            step: index,
            id,
            differs,
            files,
            told,
            replies: self.replies,
            reused: self.reused,
        };
        let words = ended.to_string();
        let draft = supervisor.in_turn(ended);
        supervisor.commit(draft)?;
        match self.tape.recording.stop_at_drift && why != ReplayEnd::Complete {
            true => Err(stop(Reason::Drifted, words).into()),
            false => Ok(()),
        }
    }

    /// The recorded step that is not taken, and the last one that was.
    fn landmarks(
        &self,
        step: Option<(u32, u64)>,
    ) -> segue_journal::Result<(Option<Landmark>, Option<Landmark>)> {
        let marks = self.tape.source.landmarks()?;
        let find = |place: Option<(u32, u64)>| match place {
            Some(place) => marks.rfind(|mark| (mark.turn, mark.seq) == place),
            None => Ok(None),
        };
        Ok((find(step)?, find(self.last)?))
    }

    /// Brings the files of this place, as far as they were kept. Says what the files are, and whether
    /// they are those that the conversation speaks of.
    fn bring_files(
        &self,
        supervisor: &Supervisor<'_>,
        last: Option<&Landmark>,
    ) -> Result<(String, bool), Halt> {
        let state = supervisor.state();
        let (source, keeper) = (&self.tape.source, &self.keeper);
        let within = state.turn.open && state.turn.calls > 0;
        let path = &self.tape.recording.path;
        if let (true, Some(last)) = (within, last)
            && let Ok(Files::At { commit }) = branch::files(source, keeper, last, false, path)
        {
            bring(supervisor, keeper, &commit)?;
            return Ok(("as they were right then".to_owned(), true));
        }
        let touched = within && self.has_touched_files()?;
        let turns = state.turn.number.saturating_sub(u32::from(state.turn.open));
        let (after, text) = self.brought(turns);
        Ok((text, after == turns && !touched))
    }

    /// After which turn the files are those that were kept, and what they are.
    fn brought(&self, turns: u32) -> (u32, String) {
        let (source, keeper) = (&self.tape.source, &self.keeper);
        let kept = |turn: &u32| {
            let number = self.tape.turn(*turn);
            number.is_some_and(|number| rewind::files_of(source, keeper, number).is_ok())
        };
        let any = source.state().checkpoint.is_some() || source.state().base().is_some();
        match (1..=turns).rev().filter(|_| any).find(kept) {
            Some(turn) => (turn, format!("as after turn {turn}")),
            None if rewind::files_of(source, keeper, 0).is_ok() => {
                (0, "as before turn 1".to_owned())
            }
            None => (0, "as last committed: none were kept with the recording".to_owned()),
        }
    }

    /// Whether a call of this turn may have changed files.
    fn has_touched_files(&self) -> Result<bool, Halt> {
        for (reply, spoken) in self.scene.replies.iter().enumerate() {
            for at in spoken.called..spoken.sealed.min(self.passed) {
                let event = &self.scene.events[at];
                let (Body::ToolCalled(called), Some(id)) = (&event.body, &event.id) else {
                    continue;
                };
                let ran = match self.scene.given(reply, id) {
                    Given::Nothing => false,
                    Given::Started => true,
                    Given::Returned(returned, _) => returned.status != ToolStatus::NotRun,
                };
                let input = self.tape.source.text(&called.input)?;
                let call = tools::parse(&called.name, &input);
                if ran && call.is_ok_and(|call| !call.only_reads()) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Answers the calls that nothing is recorded of.
    fn settle(&self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
        let open = supervisor.state().turn.tools.iter();
        let open = open.filter(|call| call.progress != Progress::Returned);
        let open: Vec<_> = open.map(|call| (call.id.clone(), call.name.clone())).collect();
        for (id, name) in open {
            let draft = supervisor.in_turn(unanswered(name, ToolStatus::NotRun, NOT_RUN));
            supervisor.note(draft.about(id))?;
        }
        Ok(())
    }
}

impl Recorded for Rehearsal {
    fn reply(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        asking: Asking<'_>,
    ) -> Result<Answer, Halt> {
        let turn = &supervisor.state().turn;
        let (own, calls) = (turn.number, turn.calls as usize);
        if !self.reach(own)? {
            self.leave(supervisor, Left::exhausted())?;
            return Ok(Answer::Live);
        }
        let Some(spoken) = self.scene.replies.get(calls).copied() else {
            let outcome = self.tape.outcome(own, &self.scene);
            self.pass(self.scene.events.len())?;
            let same = differs::messages(self.conversation.messages(), asking.messages).is_none();
            if let Some(outcome) = outcome.filter(|_| same) {
                return Ok(Answer::TurnEnds(outcome));
            }
            self.leave(supervisor, Left::exhausted())?;
            return Ok(Answer::Live);
        };
        self.pass(spoken.called)?;
        if let Some(differs) = self.difference(supervisor, spoken.called, asking)? {
            let sealed = self.scene.events.get(spoken.sealed);
            let step = sealed.map(|event| (self.scene.number, event.seq));
            let left = Left { why: ReplayEnd::Drifted, differs: Some(differs), step };
            self.leave(supervisor, left)?;
            return Ok(Answer::Live);
        }
        let events = &self.scene.events[spoken.called..=spoken.sealed];
        let mut drafts = Vec::with_capacity(events.len());
        for event in events {
            drafts.extend(self.taken(supervisor, event)?);
        }
        let model = match &self.scene.events[spoken.called].body {
            Body::ModelCalled(called) => called.model.clone(),
            _ => asking.model.to_owned(),
        };
        Ok(Answer::Given { model, drafts })
    }

    fn result(
        &mut self,
        supervisor: &mut Supervisor<'_>,
        wanted: Wanted<'_>,
    ) -> Result<Answer, Halt> {
        let turn = &supervisor.state().turn;
        let (own, calls) = (turn.number, turn.calls as usize);
        self.reach(own)?;
        let reply = calls.saturating_sub(1);
        let spoken = self.scene.replies.get(reply).copied();
        if let Some(spoken) = spoken {
            self.pass(spoken.sealed + 1)?;
        }
        let call = spoken.and_then(|spoken| self.scene.call(spoken, wanted.id));
        let same = match call.map(|event| &event.body) {
            Some(Body::ToolCalled(called)) => {
                called.name == wanted.name && self.tape.source.text(&called.input)? == wanted.input
            }
            _ => false,
        };
        let mut drafts = Vec::new();
        match self.scene.given(reply, wanted.id) {
            Given::Returned(returned, report) if same => {
                if let Some(report) = report {
                    drafts.extend(self.taken(supervisor, report)?);
                }
                let output = supervisor.payload(&self.tape.source.text(&returned.output)?)?;
                let returned = ToolReturned { output, ..returned.clone() };
                drafts.push(supervisor.in_turn(returned).about(wanted.id));
            }
            // As a resume would say, and for the same reason.
            Given::Started if same => {
                let name = wanted.name.to_owned();
                let returned = unanswered(name, ToolStatus::MayHaveRun, MAY_HAVE_RUN);
                drafts.push(supervisor.in_turn(returned).about(wanted.id));
            }
            _ => {
                self.pass(self.scene.events.len())?;
                self.leave(supervisor, Left::exhausted())?;
                return Ok(Answer::Live);
            }
        }
        Ok(Answer::Given { model: String::new(), drafts })
    }
}

fn unanswered(name: String, status: ToolStatus, why: &str) -> ToolReturned {
    let output = Payload::inline(why);
    ToolReturned { name, status, output, exit: None, touched: Vec::new() }
}

/// Makes the worktree what it was at a checkpoint.
fn bring(supervisor: &Supervisor<'_>, keeper: &Keeper, commit: &str) -> Result<(), Halt> {
    let session = supervisor.session().session();
    let failed = |why: String| Halt::from(stop(Reason::Failed, format!("the files: {why}")));
    let safety = reference(session, &format!("before-{}", session.state().seq));
    let snapshots = keeper.snapshots().map_err(|why| failed(why.to_owned()))?;
    snapshots.restore(commit, &safety).map(drop).map_err(|error| failed(error.to_string()))
}
