//! `segue diff --json`.

use segue_core::{
    SessionId,
    event::SessionStopped,
    state::Proof,
    steps::{
        StepId, Totals,
        align::{Field, How, Pair, Sketch},
    },
};
use serde::Serialize;

use super::{Comparison, Counts, FileDiff, Files, Side};
use crate::json::status_word;

/// Everything that is known of the two sessions side by side.
#[derive(Debug, Serialize)]
pub struct DiffJson<'a> {
    /// The same was said and done in both.
    pub same: bool,
    pub a: SideJson<'a>,
    pub b: SideJson<'a>,
    /// How many steps at the beginning have one history.
    pub shared_steps: usize,
    /// The rest was too long, and was compared place by place.
    pub by_place: bool,
    pub counts: Counts,
    pub first_difference: Option<PairJson<Place>>,
    pub steps: Vec<PairJson<&'a Sketch>>,
    pub files: FilesJson<'a>,
}

#[derive(Debug, Serialize)]
pub struct SideJson<'a> {
    pub number: Option<u64>,
    pub id: SessionId,
    pub name: Option<&'a str>,
    pub status: String,
    pub stop: Option<&'a SessionStopped>,
    pub proof: Option<Proof>,
    pub unpriced_calls: u64,
    #[serde(flatten)]
    pub totals: &'a Totals,
    /// Steps at its beginning that it was told of and did again: they are not compared.
    pub told: u64,
    pub checkpoint: Option<&'a str>,
}

/// Which step it is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Place {
    pub index: u64,
    pub id: StepId,
}

/// Two steps that belong together, or one that has nothing beside it.
#[derive(Debug, Serialize)]
pub struct PairJson<T> {
    /// `same`, `changed`, `only_a`, `only_b`
    pub how: &'static str,
    pub a: Option<T>,
    pub b: Option<T>,
    /// What differs in structure, and what in accounting.
    pub differs: Vec<Field>,
    pub accounting: Vec<Field>,
}

#[derive(Debug, Serialize)]
pub struct FilesJson<'a> {
    /// Absent where it can't be said.
    pub same: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'a str>,
    pub differ: &'a [FileDiff],
    /// With `--files`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
}

impl<'a> From<&'a Side> for SideJson<'a> {
    fn from(side: &'a Side) -> Self {
        Self {
            number: side.number,
            id: side.id,
            name: side.name.as_deref(),
            status: status_word(side.status),
            stop: side.stop.as_ref(),
            proof: side.proof,
            unpriced_calls: side.unpriced_calls,
            totals: &side.totals,
            told: side.told,
            checkpoint: side.checkpoint.as_deref(),
        }
    }
}

impl<'a> DiffJson<'a> {
    /// With the difference of the files as text, where that was asked for.
    #[must_use]
    pub fn of(all: &'a Comparison, patch: Option<String>) -> Self {
        let place = |step: &Sketch| Place { index: step.index, id: step.id };
        let alignment = &all.alignment;
        let (same, why, differ) = match &all.files {
            Files::Known(files) => (Some(files.is_empty()), None, files.as_slice()),
            Files::Unknown(why) => (None, Some(why.as_str()), &[][..]),
        };
        Self {
            same: all.is_same(),
            a: (&all.a).into(),
            b: (&all.b).into(),
            shared_steps: alignment.shared,
            by_place: alignment.by_place,
            counts: all.counts(),
            first_difference: alignment.first_difference().map(|pair| json(all, pair, place)),
            steps: alignment.pairs.iter().map(|pair| json(all, pair, |step| step)).collect(),
            files: FilesJson { same, why, differ, patch },
        }
    }
}

fn json<'a, T>(all: &'a Comparison, pair: &Pair, of: impl Fn(&'a Sketch) -> T) -> PairJson<T> {
    let how = match pair.how() {
        How::Same => "same",
        How::Changed => "changed",
        How::OnlyLeft => "only_a",
        How::OnlyRight => "only_b",
    };
    PairJson {
        how,
        a: pair.left.and_then(|at| all.a.steps.get(at)).map(&of),
        b: pair.right.and_then(|at| all.b.steps.get(at)).map(&of),
        differs: pair.structure().collect(),
        accounting: pair.differs.iter().copied().filter(|field| !field.is_structure()).collect(),
    }
}
