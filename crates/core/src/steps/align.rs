//! Two sequences of steps, side by side: which are the same, which have changed, which only one has.
//!
//! ```text
//! A  p r t r     r e        same while the ids are equal, then by what is said
//!    │ │ ≠ │     │
//! B  p r t r p r r          a step that is only in one has nothing beside it
//! ```
//!
//! Equal ids stand for equal histories, so a common beginning costs one look at each step. After the
//! first difference all ids differ; from there on steps are told by what they say.

use serde::Serialize;

use super::{Said, Step, StepId, StepKind, digest};
use crate::{
    event::ToolStatus,
    usage::{Micros, Usage},
};

/// The most cells of a table of common subsequences: two times 4000 steps that all differ.
const MOST_CELLS: usize = 16_000_000;

/// How much of a title is kept.
const TITLE_CHARS: usize = 240;

/// A step without its texts: what is needed to compare it and to say which one it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sketch {
    pub index: u64,
    pub id: StepId,
    pub kind: StepKind,
    pub turn: u32,
    pub agent: Option<String>,
    pub model: Option<String>,
    /// How it begins.
    pub title: String,
    /// The tool that answered, and how that went; of a proof only the latter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    pub usage: Usage,
    #[serde(rename = "cost_micros")]
    pub cost: Option<Micros>,
    pub millis: u64,
    #[serde(skip)]
    parts: Parts,
}

/// The hash of each part of what a step says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Parts {
    text: u128,
    thinking: u128,
    calls: u128,
    input: u128,
    output: u128,
    status: u128,
}

/// What can differ between two steps of one kind. All of it but the accounting is structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    Prompt,
    Text,
    Thinking,
    Calls,
    Tool,
    Input,
    Output,
    Status,
    Agent,
    Model,
    Usage,
    Cost,
    Time,
}

impl Field {
    /// The word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Text => "text",
            Self::Thinking => "thinking",
            Self::Calls => "calls",
            Self::Tool => "tool",
            Self::Input => "input",
            Self::Output => "output",
            Self::Status => "status",
            Self::Agent => "agent",
            Self::Model => "model",
            Self::Usage => "tokens",
            Self::Cost => "cost",
            Self::Time => "time",
        }
    }

    /// Whether it says what a step was, not what it cost.
    #[must_use]
    pub fn is_structure(self) -> bool {
        !matches!(self, Self::Usage | Self::Cost | Self::Time)
    }
}

/// One line of the comparison: places in the two sequences. At least one of them is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub left: Option<usize>,
    pub right: Option<usize>,
    /// What differs where both are there.
    pub differs: Vec<Field>,
}

impl Pair {
    fn both(left: usize, right: usize, differs: Vec<Field>) -> Self {
        Self { left: Some(left), right: Some(right), differs }
    }

    /// What differs in structure.
    pub fn structure(&self) -> impl Iterator<Item = Field> {
        self.differs.iter().copied().filter(|field| field.is_structure())
    }

    #[must_use]
    pub fn how(&self) -> How {
        match (self.left, self.right) {
            (Some(_), None) => How::OnlyLeft,
            (None, Some(_)) => How::OnlyRight,
            _ if self.structure().next().is_some() => How::Changed,
            _ => How::Same,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// What it cost may differ.
    Same,
    Changed,
    OnlyLeft,
    OnlyRight,
}

/// Two sequences side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alignment {
    pub pairs: Vec<Pair>,
    /// How many steps at the beginning are the same with all that came before them.
    pub shared: usize,
    /// The rest was too long to look for what fits best: it was compared place by place.
    pub by_place: bool,
}

impl Alignment {
    /// The first pair that differs in structure.
    #[must_use]
    pub fn first_difference(&self) -> Option<&Pair> {
        self.pairs.iter().find(|pair| pair.how() != How::Same)
    }

    /// How many pairs differ in structure.
    #[must_use]
    pub fn differences(&self) -> usize {
        self.pairs.iter().filter(|pair| pair.how() != How::Same).count()
    }

    #[must_use]
    pub fn is_same(&self) -> bool {
        self.first_difference().is_none()
    }
}

impl Sketch {
    #[must_use]
    pub fn of(step: &Step) -> Self {
        let result = step.said.iter().find_map(|said| match said {
            Said::Result { name, status, exit, .. } => Some((name.clone(), *status, *exit)),
            _ => None,
        });
        Self {
            index: step.index,
            id: step.id,
            kind: step.kind,
            turn: step.turn,
            agent: step.agent.clone(),
            model: step.model.clone(),
            title: step.title().chars().take(TITLE_CHARS).collect(),
            tool: result.as_ref().map(|(name, ..)| name.clone()).filter(|name| !name.is_empty()),
            status: result.as_ref().map(|(_, status, _)| *status),
            exit: result.and_then(|(.., exit)| exit),
            usage: step.usage,
            cost: step.cost,
            millis: step.millis(),
            parts: Parts::of(&step.said),
        }
    }

    /// What it says, without what came before it and who said it.
    fn key(&self) -> (StepKind, Option<&str>, Parts) {
        (self.kind, self.tool.as_deref(), self.parts)
    }

    /// What differs from another step of the same kind.
    #[must_use]
    pub fn differs(&self, other: &Self) -> Vec<Field> {
        let (one, two) = (&self.parts, &other.parts);
        let text = match self.kind {
            StepKind::Prompt => Field::Prompt,
            _ => Field::Text,
        };
        let all = [
            (text, one.text != two.text),
            (Field::Thinking, one.thinking != two.thinking),
            (Field::Calls, one.calls != two.calls),
            (Field::Tool, self.tool != other.tool),
            (Field::Input, one.input != two.input),
            (Field::Output, one.output != two.output),
            (Field::Status, one.status != two.status),
            (Field::Agent, self.agent != other.agent),
            (Field::Model, self.model != other.model),
            (Field::Usage, self.usage != other.usage),
            (Field::Cost, self.cost != other.cost),
            (Field::Time, self.millis != other.millis),
        ];
        all.into_iter().filter(|(_, differs)| *differs).map(|(field, _)| field).collect()
    }
}

impl Parts {
    fn of(said: &[Said]) -> Self {
        let [mut text, mut thinking, mut calls] = [(); 3].map(|()| Sum::default());
        let mut parts = Self::default();
        for said in said {
            match said {
                Said::Text(words) => text.add(&digest(words)),
                Said::Thinking { text, .. } => thinking.add(&digest(text)),
                Said::Call { name, input, .. } => {
                    calls.add(name.as_bytes());
                    calls.add(&digest(input));
                }
                Said::Result { input, status, exit, output, .. } => {
                    let [mut asked, mut gave, mut went] = [(); 3].map(|()| Sum::default());
                    asked.add(&input.as_ref().map(digest).unwrap_or_default());
                    gave.add(&digest(output));
                    went.add(format!("{status:?} {exit:?}").as_bytes());
                    (parts.input, parts.output) = (asked.done(), gave.done());
                    parts.status = went.done();
                }
            }
        }
        (parts.text, parts.thinking, parts.calls) = (text.done(), thinking.done(), calls.done());
        parts
    }
}

/// A hash of several pieces, each told with its length; 0 where there is none.
#[derive(Default)]
struct Sum(Option<blake3::Hasher>);

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let hash = self.0.get_or_insert_with(blake3::Hasher::new);
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }

    fn done(self) -> u128 {
        let Some(hash) = self.0 else { return 0 };
        let mut half = [0; 16];
        half.copy_from_slice(&hash.finalize().as_bytes()[..16]);
        u128::from_le_bytes(half)
    }
}

/// Puts two sequences of steps side by side.
#[must_use]
pub fn align(left: &[Sketch], right: &[Sketch]) -> Alignment {
    let both = || left.iter().zip(right);
    let shared = both().take_while(|(one, two)| one.id == two.id).count();
    let pair = |at: usize| Pair::both(at, at, left[at].differs(&right[at]));
    let mut pairs: Vec<Pair> = (0..shared).map(pair).collect();
    let (rest_left, rest_right) = (&left[shared..], &right[shared..]);
    let ends = rest_left.iter().rev().zip(rest_right.iter().rev());
    let tail = ends.take_while(|(one, two)| one.key() == two.key()).count();
    let middle_left = &rest_left[..rest_left.len() - tail];
    let middle_right = &rest_right[..rest_right.len() - tail];

    let found = common(middle_left, middle_right, |one, two| one.key() == two.key());
    let by_place = found.is_none();
    let mut gaps = Gaps { left, right, pairs: &mut pairs, from: (shared, shared) };
    for (l, r) in found.unwrap_or_default() {
        gaps.up_to(shared + l, shared + r);
        gaps.meet();
    }
    gaps.up_to(left.len() - tail, right.len() - tail);
    for _ in 0..tail {
        gaps.meet();
    }
    Alignment { pairs, shared, by_place }
}

/// What lies between steps that say the same.
struct Gaps<'a> {
    left: &'a [Sketch],
    right: &'a [Sketch],
    pairs: &'a mut Vec<Pair>,
    from: (usize, usize),
}

impl Gaps<'_> {
    /// The next of each belong together.
    fn meet(&mut self) {
        let (l, r) = self.from;
        let differs = self.left[l].differs(&self.right[r]);
        self.pairs.push(Pair::both(l, r, differs));
        self.from = (l + 1, r + 1);
    }

    /// Nothing up to here says the same. Steps of one kind, and of one tool, are one step that has
    /// changed.
    fn up_to(&mut self, left: usize, right: usize) {
        let (l, r) = self.from;
        let (one, two) = (&self.left[l..left], &self.right[r..right]);
        let alike = |one: &Sketch, two: &Sketch| one.kind == two.kind && one.tool == two.tool;
        let found = common(one, two, alike).unwrap_or_else(|| {
            let both = one.iter().zip(two).enumerate();
            both.filter(|(_, (one, two))| alike(one, two)).map(|(at, _)| (at, at)).collect()
        });
        for (in_left, in_right) in found {
            self.alone(l + in_left, r + in_right);
            self.meet();
        }
        self.alone(left, right);
    }

    fn alone(&mut self, left: usize, right: usize) {
        let only_left = (self.from.0..left).map(|at| (Some(at), None));
        let only_right = (self.from.1..right).map(|at| (None, Some(at)));
        let alone = only_left.chain(only_right);
        self.pairs.extend(alone.map(|(left, right)| Pair { left, right, differs: Vec::new() }));
        self.from = (left, right);
    }
}

/// The longest common subsequence, as places in both. `None` where that would take too long.
fn common(
    left: &[Sketch],
    right: &[Sketch],
    same: impl Fn(&Sketch, &Sketch) -> bool,
) -> Option<Vec<(usize, usize)>> {
    let wide = right.len() + 1;
    let cells = (left.len() + 1).checked_mul(wide).filter(|cells| *cells <= MOST_CELLS)?;
    if left.is_empty() || right.is_empty() {
        return Some(Vec::new());
    }
    // How long it is from each place on. The shorter side has less than 2^16 steps.
    let mut longest = vec![0u16; cells];
    for l in (0..left.len()).rev() {
        for r in (0..right.len()).rev() {
            longest[l * wide + r] = match same(&left[l], &right[r]) {
                true => longest[(l + 1) * wide + r + 1] + 1,
                false => longest[(l + 1) * wide + r].max(longest[l * wide + r + 1]),
            };
        }
    }
    let (mut l, mut r, mut found) = (0, 0, Vec::new());
    while l < left.len() && r < right.len() {
        if same(&left[l], &right[r]) {
            found.push((l, r));
            (l, r) = (l + 1, r + 1);
        } else if longest[(l + 1) * wide + r] >= longest[l * wide + r + 1] {
            l += 1;
        } else {
            r += 1;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests;
