//! The list of tasks of a session that is gone on with: read anew, and what of it is other.

use segue_core::{
    Body, Event, Payload, State,
    bridge::PERSON,
    state::{Standing, Tasks},
};
use segue_journal::Session;
use segue_loops::{
    bridge,
    tasks::{Changes, Source, branch::Differences, list},
};

use crate::{commands::tasks::source, context::Context, error::CommandError};

/// The list as it is now.
#[derive(Debug)]
pub(crate) struct Relist {
    pub(crate) source: Source,
    /// The tasks as they will be.
    pub(crate) then: Tasks,
    changes: Changes,
    /// It could not be read where it was, and is as the journal has it.
    gone: bool,
    /// What the branch says otherwise than the journal.
    branch: Differences,
}

impl Relist {
    /// Reads the list of a session that has one; `prompted` where a person has something to say.
    pub(crate) fn of(
        context: &Context,
        session: &Session,
        prompted: bool,
    ) -> Result<Option<Self>, CommandError> {
        let state = session.state();
        let first = state.identity.as_ref().and_then(|identity| identity.tasks.clone());
        let known = state.tasks.as_ref();
        let Some(path) = known.map(|tasks| tasks.source.clone()).or(first) else { return Ok(None) };
        let gone = !path.exists();
        let list = match (gone, known) {
            // What the journal has can be gone on with.
            (true, Some(_)) => list(session)?,
            _ => source::read(&path)?,
        };
        let source = Source { path, list };
        let changes = known.map(|known| source.changes(known)).unwrap_or_default();
        let read = source.read(known, |text| Ok::<_, CommandError>(Payload::inline(text)))?;
        let event = Event {
            seq: state.seq + 1,
            at: context.now(),
            turn: None,
            agent: None,
            id: None,
            body: Body::from(read),
        };
        let mut then: State = state.clone();
        then.apply(&event);
        // Whatever keeps git from answering is said by whoever needs the answer.
        let branch = Differences::of(session.id(), state).unwrap_or_default();
        branch.settle(&mut then);
        let then = then.tasks.unwrap_or_default();
        if prompted && then.upcoming().is_none() {
            let path = source.path.display();
            return Err(CommandError::usage("all tasks are done: there is no worker to say it to")
                .hint(format!("add a task to {path}, and resume")));
        }
        Ok(Some(Self { source, then, changes, gone, branch }))
    }

    /// Whether there is something to do.
    pub(crate) fn has_more(&self) -> bool {
        self.then.upcoming().is_some()
    }

    /// What a person should know before it goes on.
    pub(crate) fn notes(&self) -> Vec<(&'static str, String)> {
        let mut notes = Vec::new();
        let named = |ids: &[String]| ids.join(", ");
        if self.gone {
            let path = self.source.path.display();
            notes.push(("list", format!("{path} is gone: it is worked on as it was read last")));
        }
        let short = |commit: &str| commit.get(..7).unwrap_or(commit).to_owned();
        for (task, commit) in &self.branch.found {
            let text = format!("{task} is on the branch as {}: it is done", short(commit));
            notes.push(("found", text));
        }
        for (task, commit) in &self.branch.missing {
            let text = format!("{task}: {} is no longer on the branch", short(commit));
            let then = match self.then.entry(task) {
                Some(_) => "it is worked on again",
                None => "nor is it in the list: it is let go",
            };
            notes.push(("missing", format!("{text}; {then}")));
        }
        for (task, commit) in &self.branch.unproven {
            let text =
                format!("{task}: {} says that it is done; nobody has accepted it", short(commit));
            notes.push(("unproven", format!("{text}: it is worked on")));
        }
        let Changes { added, removed, edited } = &self.changes;
        if !added.is_empty() {
            notes.push(("added", named(added)));
        }
        if !removed.is_empty() {
            let done = |id: &&String| self.then.entry(id).is_some();
            let (kept, left): (Vec<&String>, Vec<&String>) = removed.iter().partition(done);
            for (ids, what) in [(left, "not worked on"), (kept, "done, and stays on the branch")] {
                let ids: Vec<String> = ids.into_iter().cloned().collect();
                if !ids.is_empty() {
                    notes.push(("removed", format!("{}: {what}", named(&ids))));
                }
            }
        }
        if !edited.is_empty() {
            let done = |id: &&String| {
                self.then.entry(id).is_some_and(|entry| entry.standing == Standing::Done)
            };
            let (done, open): (Vec<&String>, Vec<&String>) = edited.iter().partition(done);
            for (ids, what) in [(open, "read anew"), (done, "done already, and stays so")] {
                let ids: Vec<String> = ids.into_iter().cloned().collect();
                if !ids.is_empty() {
                    notes.push(("edited", format!("{}: {what}", named(&ids))));
                }
            }
        }
        let failed = self.then.in_hand().filter(|entry| entry.standing == Standing::Failed);
        if let Some(commit) = failed.and_then(|entry| entry.commit.as_deref()) {
            let short = commit.get(..7).unwrap_or(commit);
            let text = format!("{short} is unwound, if it is still the tip and was not pushed");
            notes.push(("commit", text));
        }
        notes
    }
}

/// Says something to the worker: it gets it with its next prompt.
pub(crate) fn tell_worker(session: &Session, text: &str) -> Result<(), CommandError> {
    let worker = session.state().worker().to_owned();
    let occasion = session.state().seq;
    bridge::send(session, PERSON, &worker, text, occasion).map(drop).map_err(CommandError::usage)
}
