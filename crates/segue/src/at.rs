//! Which step is meant.

use segue_core::steps::StepId;

/// A step of a run: the last one after which nothing is under way, or one that is named.
///
/// Where a step is asked for, anything that names one will do: its index, its id or the start of
/// one, what [`Run::refs`](crate::Run::refs) has under a name.
///
/// ```
/// use segue::At;
///
/// assert_eq!(At::from(4), At::from("4"));
/// assert_eq!(At::default(), At::Last);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The last step after which nothing is under way.
    #[default]
    Last,
    /// An index, an id or the start of one, a name.
    Step(String),
}

impl At {
    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Self::Last => None,
            Self::Step(word) => Some(word),
        }
    }
}

impl From<&str> for At {
    fn from(word: &str) -> Self {
        Self::Step(word.to_owned())
    }
}

impl From<Option<&str>> for At {
    fn from(word: Option<&str>) -> Self {
        word.map_or(Self::Last, Self::from)
    }
}

impl From<String> for At {
    fn from(word: String) -> Self {
        Self::Step(word)
    }
}

impl From<u64> for At {
    fn from(index: u64) -> Self {
        Self::Step(index.to_string())
    }
}

impl From<StepId> for At {
    fn from(id: StepId) -> Self {
        Self::Step(id.to_string())
    }
}

impl From<&StepId> for At {
    fn from(id: &StepId) -> Self {
        (*id).into()
    }
}

impl From<Option<&StepId>> for At {
    fn from(id: Option<&StepId>) -> Self {
        id.map_or(Self::Last, Self::from)
    }
}
