//! A run that is run again from the start: Segue's own agent does it, answered from the recording as
//! long as it asks the same.

use std::path::PathBuf;

use segue_core::{
    Body,
    identity::{How, Lineage, LoopKind, Mode, Recording},
};
use segue_journal::home::NewSession;
use segue_loops::branch::{self, With};
use segue_runner::NATIVE;

use super::{By, said};
use crate::{
    Run,
    error::{Error, Result},
};

/// How a run is run again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Again {
    /// What is asked first.
    pub prompt: String,
    /// What its worktree is made of.
    pub dir: PathBuf,
    /// The commit whose files it begins with, where those of the start were kept.
    pub files: Option<String>,
    /// It matters which model has answered: somebody named one.
    pub same_model: bool,
    /// Where it leaves the recording it stops, and does not go live.
    pub stop_at_drift: bool,
}

impl Again {
    /// The new run, to be made.
    ///
    /// # Errors
    /// When the one that it comes from can't be read.
    pub fn session(self, run: &Run, by: By) -> Result<NewSession> {
        let like = run.like(self.prompt)?;
        let with = With {
            agent: NATIVE.to_owned(),
            model: by.model,
            permission: by.permission.unwrap_or(like.permission),
            workspace: self.dir,
            worktree: true,
            caps: by.caps,
            proof: by.proof,
            name: by.name,
            ..like
        };
        let recording = Recording {
            same_model: self.same_model,
            stop_at_drift: self.stop_at_drift,
            ..run.journal().recording()
        };
        let lineage = Lineage {
            recording: Some(recording),
            mode: Some(Mode::Continue),
            files: self.files,
            ..Lineage::new(run.id(), How::Replayed)
        };
        Ok(NewSession { lineage: Some(lineage), ..with.session(run.identity()?) })
    }
}

impl Run {
    /// Thinks through a run in which Segue's own agent runs this one again from the start, in a
    /// worktree with the files of the start: models and tools are answered from the recording as long
    /// as they are asked the same. Without a prompt it is asked what it was asked then.
    ///
    /// # Errors
    /// [`Error::Unanswerable`], [`Error::NoStep`] where nothing is recorded, [`Error::NoPrompt`].
    pub fn plan_again(&self, prompt: Option<&str>, dir: PathBuf) -> Result<Again> {
        if let Some(by) = self.others() {
            return Err(Error::Unanswerable { by });
        }
        // Without a step there is nothing that could answer, and everything would be live.
        branch::base_of(self.journal(), None)?;
        let prompt = match prompt {
            Some(prompt) => said(prompt)?.to_owned(),
            None => self.first_prompt()?,
        };
        let files = branch::before_all(self.journal(), &self.keeper(&dir));
        Ok(Again { prompt, dir, files, same_model: false, stop_at_drift: false })
    }

    /// Who has worked in it besides Segue's own agent.
    pub(crate) fn others(&self) -> Option<String> {
        let state = self.state();
        let identity = state.identity.as_ref();
        let first = identity.map(|identity| identity.agent.as_str());
        let others = state.vendors.iter().map(|known| known.agent.as_str());
        let all = first.into_iter().chain([state.agent()]).chain(others);
        let mut others = all.filter(|agent| *agent != NATIVE);
        let reviewed = identity.is_some_and(|identity| identity.loop_kind == LoopKind::Pair);
        let other = others.next().or(reviewed.then_some("reviewers"));
        other.map(str::to_owned)
    }

    /// What the conversation begins with.
    fn first_prompt(&self) -> Result<String> {
        let session = self.journal();
        let mut first = None;
        if let Some(span) = session.state().path().first() {
            session.turn(span.from, |event| {
                if let (Body::TurnStarted(started), None) = (&event.body, &first) {
                    first = Some(started.prompt.clone());
                }
                Ok(())
            })?;
        }
        match first {
            Some(first) => Ok(session.text(&first)?),
            None => self.prompt(),
        }
    }
}
