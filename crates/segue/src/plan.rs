//! A new run that leaves another one, thought through: what it begins with, and what whoever works
//! in it is told. Nothing is made yet.
//!
//! [`Agent`](crate::Agent) and the program `segue` share this; each of them then hires somebody in
//! its own way.

mod again;

use std::path::{Path, PathBuf};

use segue_agents::native::ModelSpec;
use segue_core::{
    Permission, State,
    caps::Caps,
    identity::{How, Mode},
};
use segue_journal::home::NewSession;
use segue_loops::branch::{self, Branch, With};
use segue_runner::NATIVE;

pub use again::Again;

use crate::{
    At, Run,
    error::{Error, Result},
};

/// What a fork is asked to which nobody has said anything.
const GO_ON: &str = "Go on from here.";

/// How a run is left, and what comes after.
#[derive(Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The step, and what belongs to it.
    pub branch: Branch,
    /// What is asked.
    pub prompt: String,
    /// Where it works, or what its worktree is made of.
    pub dir: PathBuf,
    /// It has a worktree of its own.
    pub worktree: bool,
    /// The vendor's program copies its own conversation.
    pub copies: bool,
}

/// Who is to work in it.
#[derive(Clone, Debug)]
pub struct By {
    /// The agent's name.
    pub agent: String,
    /// Its model, where that is said.
    pub model: Option<String>,
    /// What it may do; else what the agent of the other run might.
    pub permission: Option<Permission>,
    /// How much it may spend.
    pub caps: Caps,
    /// The command that proves that it is done; else that of the other run.
    pub proof: Option<String>,
    /// The name of the new run.
    pub name: Option<String>,
}

impl Plan {
    /// The commit whose files it begins with.
    #[must_use]
    pub fn files(&self) -> Option<&str> {
        self.branch.lineage.files.as_deref()
    }

    /// The place that is left, and how the new run differs from the one that it comes from.
    ///
    /// # Errors
    /// When that one can't be read.
    pub fn parts(self, run: &Run, by: By) -> Result<(Branch, With)> {
        let like = run.like(self.prompt)?;
        let with = With {
            agent: by.agent,
            model: by.model,
            permission: by.permission.unwrap_or(like.permission),
            workspace: self.dir,
            worktree: self.worktree,
            caps: by.caps,
            proof: by.proof.or(like.proof),
            name: by.name,
            ..like
        };
        Ok((self.branch, with))
    }

    /// The new run, to be made.
    ///
    /// # Errors
    /// When the one that it comes from can't be read.
    pub fn session(self, run: &Run, by: By) -> Result<NewSession> {
        let (branch, with) = self.parts(run, by)?;
        Ok(branch.session(run.journal(), with)?)
    }
}

impl Run {
    /// Thinks through a run in which the work of this one is done again: somebody is told what is
    /// recorded up to a step, and has a worktree with the files that this one began with. Without a
    /// prompt the task is the same.
    ///
    /// # Errors
    /// Those of [`Run::leave`], and [`Error::NoPrompt`].
    pub fn plan_rerun(
        &self,
        up_to: impl Into<At>,
        prompt: Option<&str>,
        dir: PathBuf,
    ) -> Result<Plan> {
        let keeper = self.keeper(&dir);
        let mut branch = self.leave_with(up_to, How::Replayed, &keeper)?;
        let files = branch::before_all(self.journal(), &keeper);
        let prompt = match prompt {
            Some(prompt) => prompt.to_owned(),
            None => branch::task(self.journal())?,
        };
        said(&prompt)?;
        branch.lineage.note = Some(branch::note_again(files.as_deref()));
        branch.lineage.mode = Some(Mode::Rerun);
        branch.lineage.files = files;
        Ok(Plan { branch, prompt, dir, worktree: true, copies: false })
    }

    /// Thinks through a run in which an agent goes on after a step of this one: at an earlier step,
    /// or where that is asked for, in a worktree with the files of that time. Without a prompt it is
    /// to go on.
    ///
    /// # Errors
    /// Those of [`Run::leave`], and [`Error::NoPrompt`].
    pub fn plan_fork(
        &self,
        after: impl Into<At>,
        agent: &str,
        prompt: Option<&str>,
        dir: &Path,
        worktree: bool,
    ) -> Result<Plan> {
        let prompt = said(prompt.unwrap_or(GO_ON))?.to_owned();
        let mut branch = self.leave_with(after, How::Forked, &self.keeper(dir))?;
        let copies = branch.fork_natively(self.journal(), agent)?;
        let worktree = branch.apart(dir, worktree)?;
        Ok(Plan { branch, prompt, dir: dir.to_owned(), worktree, copies })
    }

    /// The model that it was done with, for the same agent: [`model_of`].
    #[must_use]
    pub fn model_of(&self, agent: &str) -> Option<&str> {
        model_of(self.state(), agent)
    }
}

/// The model that a session was done with, for the same agent. What another program has recorded need
/// not be a name that Segue's own agent knows: then the model is for whoever begins to say.
#[must_use]
pub fn model_of<'a>(state: &'a State, agent: &str) -> Option<&'a str> {
    let known = |model: &&str| agent != NATIVE || ModelSpec::parse(model).is_ok();
    state.model().filter(|_| agent == state.agent()).filter(known)
}

/// A prompt that says something.
pub(crate) fn said(prompt: &str) -> Result<&str> {
    match prompt.trim().is_empty() {
        true => Err(Error::NoPrompt),
        false => Ok(prompt),
    }
}
