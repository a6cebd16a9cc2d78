//! `segue diff`: two sessions side by side, what each came to, and where they part.
//!
//! Structure is what was said and done; accounting is what that cost. Two sessions are the same
//! where their structure is: a replay that took longer is no other session.

mod json;
mod text;

use segue_core::{
    SessionId,
    event::SessionStopped,
    state::Proof,
    status::Status,
    steps::{
        Totals,
        align::{Alignment, Field, How, Sketch, align},
    },
    usage::Micros,
};
use segue_journal::Session;
use serde::Serialize;

use crate::{
    error::Result,
    select::Found,
    steps,
    style::{duration, money, sanitize, tokens},
};

pub use json::DiffJson;
pub use text::{patch_text, plain_text, table_text};

/// One of the two sessions.
#[derive(Clone, Debug)]
pub struct Side {
    pub number: Option<u64>,
    pub id: SessionId,
    pub name: Option<String>,
    pub status: Status,
    pub stop: Option<SessionStopped>,
    /// `None` where there is nothing to prove.
    pub proof: Option<Proof>,
    pub unpriced_calls: u64,
    pub totals: Totals,
    /// The steps of its own work: of a rerun, not those that it was told of.
    pub steps: Vec<Sketch>,
    /// How many it was told of.
    pub told: u64,
    /// The commit that has its files as they were last.
    pub checkpoint: Option<String>,
}

/// Two sessions side by side.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub a: Side,
    pub b: Side,
    pub alignment: Alignment,
    pub files: Files,
}

/// What differs between the files of two sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// In the order of their paths; none where all are the same.
    Known(Vec<FileDiff>),
    /// Why it can't be said.
    Unknown(String),
}

/// A file that is not the same in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileDiff {
    pub path: String,
    /// What the first session calls it, where that is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub status: FileStatus,
    /// Lines that only the second session has, and lines that only the first has; absent for what
    /// is no text.
    pub added: Option<u64>,
    pub removed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileStatus {
    /// Only in the second session.
    Added,
    /// Only in the first.
    Deleted,
    Modified,
    Renamed,
}

/// How many steps are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub same: usize,
    pub changed: usize,
    pub only_a: usize,
    pub only_b: usize,
}

impl Side {
    /// Looks at a session that was found and opened, from the step on that is compared
    /// ([`Session::first_steps`]).
    pub fn of(session: &Session, found: &Found, told: u64) -> Result<Self> {
        let state = session.state();
        let alive = session.held_by().unwrap_or_default().is_some();
        let (mut totals, mut sketches) = (Totals::default(), Vec::new());
        session.steps_on_path(|step| {
            if step.index < told {
                return;
            }
            totals.add(&step);
            let mut sketch = Sketch::of(&step);
            sketch.title = steps::title(&step);
            sketches.push(sketch);
        })?;
        let proves = state.identity.as_ref().is_some_and(|identity| identity.proof.is_some());
        let status = Status::of(state, alive);
        Ok(Self {
            number: found.number,
            id: session.id(),
            name: state.name.clone(),
            status,
            stop: state.stop.clone().filter(|_| status != Status::Running),
            proof: proves.then_some(state.proof),
            unpriced_calls: state.unpriced_calls,
            totals: totals.finish(),
            steps: sketches,
            told,
            checkpoint: state.checkpoint.as_ref().and_then(|last| last.commit.clone()),
        })
    }

    /// How people call it: `#7 "parser"`.
    #[must_use]
    pub fn label(&self) -> String {
        steps::label(self.number, self.id, self.name.as_deref())
    }

    fn proof_word(&self) -> &'static str {
        match self.proof {
            None => "none",
            Some(Proof::Passed) => "passed",
            Some(Proof::Failed) => "failed",
            Some(_) => "not run",
        }
    }

    fn cost(&self) -> String {
        let unpriced = match self.totals.cost {
            None => self.unpriced_calls.max(1),
            Some(_) => self.unpriced_calls,
        };
        money(self.totals.cost.unwrap_or(Micros(0)), unpriced)
    }
}

/// A line of the summary.
struct Fact {
    label: String,
    a: String,
    b: String,
}

impl Comparison {
    #[must_use]
    pub fn new(a: Side, b: Side, files: Files) -> Self {
        let alignment = align(&a.steps, &b.steps);
        Self { a, b, alignment, files }
    }

    /// Whether the same was said and done in both.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.alignment.is_same()
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for pair in &self.alignment.pairs {
            *match pair.how() {
                How::Same => &mut counts.same,
                How::Changed => &mut counts.changed,
                How::OnlyLeft => &mut counts.only_a,
                How::OnlyRight => &mut counts.only_b,
            } += 1;
        }
        counts
    }

    /// What each came to.
    fn facts(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        let mut add = |label: &str, of: &dyn Fn(&Side) -> String| {
            let (a, b) = (of(&self.a), of(&self.b));
            facts.push(Fact { label: label.to_owned(), a, b });
        };
        add("status", &|side| side.status.to_string());
        add("outcome", &|side| match &side.stop {
            Some(stop) => sanitize(&stop.message).into_owned(),
            None => "–".to_owned(),
        });
        add("proof", &|side| side.proof_word().to_owned());
        add("agents", &|side| names(&side.totals.agents));
        add("models", &|side| names(&side.totals.models));
        add("turns", &|side| side.totals.turns.to_string());
        add("steps", &|side| side.totals.steps.to_string());
        for kind in segue_core::steps::StepKind::ALL.map(|kind| kind.word()) {
            let of = |side: &Side| side.totals.by_kind.get(kind).copied().unwrap_or(0);
            if of(&self.a) + of(&self.b) > 0 {
                add(&format!("  {kind}"), &|side| of(side).to_string());
            }
        }
        let tools = [&self.a, &self.b].into_iter().flat_map(|side| side.totals.tools.keys());
        let mut tools: Vec<&String> = tools.collect();
        tools.sort_unstable();
        tools.dedup();
        for tool in tools {
            let of = |side: &Side| side.totals.tools.get(tool).copied().unwrap_or(0).to_string();
            add(&format!("  ⚙ {}", sanitize(tool)), &of);
        }
        add("tokens", &|side| tokens(side.totals.usage.total()));
        add("cost", &Side::cost);
        add("time", &|side| duration(std::time::Duration::from_millis(side.totals.millis)));
        facts
    }
}

fn names(names: &[String]) -> String {
    match names {
        [] => "–".to_owned(),
        names => sanitize(&names.join(", ")).into_owned(),
    }
}

/// `text, model`
fn words(fields: impl Iterator<Item = Field>) -> String {
    fields.map(Field::word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
