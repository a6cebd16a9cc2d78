//! Which step somebody means: its index, its id, or the beginning of one.

use super::StepId;

/// So many digits can be the start of an id; fewer are a number that is not there.
const LEAST_DIGITS: usize = 4;

/// Looks for the step that a word means, among steps that come by in their order.
#[derive(Clone, Debug)]
pub struct Search<T> {
    word: String,
    index: Option<u64>,
    /// The one with that number, which is meant before all others.
    numbered: Option<T>,
    found: Option<(StepId, Worth, T)>,
    second: Option<StepId>,
    last: Option<u64>,
}

/// Which of several steps with one id is meant: one that the conversation still has before one that
/// it has left behind, then one after which nothing is under way, then the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worth {
    pub on_path: bool,
    pub whole: bool,
}

/// Why no step is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoStep {
    #[error("there is no step {index}: the last one is {last}")]
    Beyond { index: u64, last: u64 },
    #[error("there is no step whose id begins with `{word}`")]
    Unknown { word: String },
    #[error("`{word}` could be several steps: {first}, {second}")]
    Several { word: String, first: String, second: String },
    #[error("there is no step yet")]
    Empty,
}

impl<T> Search<T> {
    /// An index, an id, or the beginning of one.
    #[must_use]
    pub fn new(word: &str) -> Self {
        let word = word.trim().trim_start_matches('#').to_ascii_lowercase();
        // A long number is rather the start of an id.
        let index = word.parse().ok().filter(|_| word.len() <= 7);
        Self { word, index, numbered: None, found: None, second: None, last: None }
    }

    /// The number that is meant, where it is one and there is such a step. Else digits are how an id
    /// begins, as any others.
    #[must_use]
    pub fn index(&self) -> Option<u64> {
        self.index
    }

    /// One more step. What is known of it is kept where it is the one.
    pub fn offer(&mut self, index: u64, id: StepId, worth: Worth, known: impl FnOnce() -> T) {
        self.last = Some(index);
        if self.index == Some(index) {
            self.numbered = Some(known());
            return;
        }
        let least = if self.index.is_some() { LEAST_DIGITS } else { 1 };
        let fits = self.word.len() >= least && id.begins_with(&self.word);
        match &self.found {
            _ if !fits => {}
            None => self.found = Some((id, worth, known())),
            Some((first, ..)) if *first != id => self.second = self.second.or(Some(id)),
            Some((_, best, _)) if worth >= *best => self.found = Some((id, worth, known())),
            Some(_) => {}
        }
    }

    /// The step that was meant.
    pub fn finish(self) -> Result<T, NoStep> {
        let Self { word, index, numbered, found, second, last } = self;
        let Some(last) = last else { return Err(NoStep::Empty) };
        if let Some(known) = numbered {
            return Ok(known);
        }
        match (found, index, second) {
            (Some((first, ..)), _, Some(second)) => {
                let (first, second) = (first.short(), second.short());
                Err(NoStep::Several { word, first, second })
            }
            (Some((.., known)), ..) => Ok(known),
            (None, Some(index), _) => Err(NoStep::Beyond { index, last }),
            (None, None, _) => Err(NoStep::Unknown { word }),
        }
    }
}

impl StepId {
    fn begins_with(&self, digits: &str) -> bool {
        let digit = |at: usize| {
            let byte = self.bytes().get(at / 2).copied().unwrap_or_default();
            char::from_digit(
                u32::from(if at.is_multiple_of(2) { byte >> 4 } else { byte & 15 }),
                16,
            )
        };
        digits.len() <= 64 && digits.chars().enumerate().all(|(at, one)| digit(at) == Some(one))
    }
}
