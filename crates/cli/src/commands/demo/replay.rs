//! The scene of the replay: told again without anybody being called, and a changed copy that is found.

use std::{fs, path::Path};

use segue_core::{Body, steps::StepId};
use segue_journal::{Session, session::JOURNAL};

use super::Stage;
use crate::error::CommandError;

/// What somebody would like to have been said.
const SAID: (&str, &str) = ("Mend", "Bend");

impl Stage {
    pub(super) fn replay_scene(&self) -> Result<Vec<(&'static str, bool)>, CommandError> {
        self.title("10", "The first run again, from its recording: its model is put away first");
        let script = self.dir.join("script.toml");
        let away = self.dir.join("script.away");
        fs::rename(&script, &away)?;
        let replayed = self.segue(&["replay", "1", "--mode", "cache", "--save", "again"]);
        let same = self.segue(&["diff", "1", "again", "--exit-code"]);
        let told = self.segue(&["replay", "again", "--verify"]);
        fs::rename(&away, &script)?;
        let (replayed, same, told) = (replayed?, same?, told?);
        let (first, again) = (self.numbered(1)?, self.numbered(5)?);
        let copy = self.changed_copy(&first)?;
        self.title("11", "A copy of it in which somebody has changed a word");
        let changed = self.segue(&["replay", &copy, "--verify"])?;
        Ok(vec![
            (
                "the replay has the same steps under the same ids",
                replayed.success() && same.success() && ids(&first)? == ids(&again)?,
            ),
            ("no model and no tool was called for it", calls(&again)? == 0 && told.success()),
            ("the changed word is found", changed.code() == Some(1)),
        ])
    }

    /// A session's directory with another word in its journal, as a person would name it.
    fn changed_copy(&self, session: &Session) -> Result<String, CommandError> {
        copy(session.dir(), &self.dir.join("changed"))?;
        let journal = self.dir.join("changed").join(JOURNAL);
        let text = fs::read_to_string(&journal)?;
        fs::write(&journal, text.replacen(SAID.0, SAID.1, 1))?;
        Ok("../changed".to_owned())
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), CommandError> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let into = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &into)?,
            false => fs::copy(entry.path(), into).map(drop)?,
        }
    }
    Ok(())
}

fn ids(session: &Session) -> Result<Vec<StepId>, CommandError> {
    let mut ids = Vec::new();
    session.steps(|step| ids.push(step.id))?;
    Ok(ids)
}

/// How often a model or a tool was called in a session's own part.
fn calls(session: &Session) -> Result<usize, CommandError> {
    let mut calls = 0;
    session.for_each(|event| {
        calls += usize::from(matches!(event.body, Body::ModelCalled(_) | Body::ToolStarted(_)));
    })?;
    Ok(calls)
}
