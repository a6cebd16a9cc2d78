//! How a worker's turn is judged: by whom, by which rule, and what was said before.

pub mod render;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Concern, Verdict};

/// What a session of a worker and its reviewers was agreed on, when it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Terms {
    /// Empty where the worker is alone: then the proof and the done signal judge.
    #[serde(default)]
    pub reviewers: Vec<Seat>,
    #[serde(default)]
    pub consensus: Consensus,
    /// A line that the worker ends its answer with when there is something to review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// The worker has to say how each criterion is met before anybody looks at it, and whoever
    /// looks begins without a memory of the rounds before, but for the ledger.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub case: bool,
    /// It is shown in tmux.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tmux: bool,
}

/// One reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Seat {
    /// What it is called in this session: its agent's name, with a number where that is taken.
    pub name: String,
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// Which verdicts are enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Consensus {
    #[default]
    All,
    Any,
    /// More than half.
    Majority,
    /// Of a newer Segue: then everybody has to.
    #[serde(other)]
    Unknown,
}

impl Consensus {
    /// Whether the work passes, once everybody has spoken. Where nobody did, nothing passes.
    #[must_use]
    pub fn passes(self, verdicts: impl IntoIterator<Item = Verdict>) -> bool {
        let (mut passes, mut all) = (0usize, 0usize);
        for verdict in verdicts {
            all += 1;
            passes += usize::from(verdict == Verdict::Pass);
        }
        match self {
            Self::All | Self::Unknown => passes == all && all > 0,
            Self::Any => passes > 0,
            Self::Majority => passes * 2 > all,
        }
    }

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::All | Self::Unknown => "all",
            Self::Any => "any",
            Self::Majority => "majority",
        }
    }
}

impl std::str::FromStr for Consensus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "any" => Ok(Self::Any),
            "majority" => Ok(Self::Majority),
            _ => Err(format!("`{text}` is none of all, any, majority")),
        }
    }
}

/// Names for the worker and its reviewers under which each can be spoken to.
#[must_use]
pub fn names<'a>(agents: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for agent in agents {
        // A command of the user's own is long, and no name for a file.
        let short = agent.split(':').next().unwrap_or(agent);
        let mut name = short.to_owned();
        let mut n = 1;
        while taken.contains(&name) {
            n += 1;
            name = format!("{short}-{n}");
        }
        taken.push(name);
    }
    taken
}

/// The most concerns that the state holds.
const MOST_CONCERNS: usize = 64;

/// From this share of common words on, two concerns of one reviewer are the same one.
const SAME_WORDS: f64 = 0.6;

/// All concerns that were raised, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    #[serde(default)]
    pub entries: Vec<Entry>,
    /// How many there ever were: the next one gets the number after this.
    #[serde(default)]
    pub count: u32,
}

/// A concern, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    pub reviewer: String,
    /// As it was raised last.
    pub what: Concern,
    /// In which turns of the worker it was raised.
    pub turns: Vec<u32>,
    /// In which iterations that was.
    pub iterations: Vec<u32>,
    /// The iteration in which it was not raised again by the one who had raised it.
    #[serde(default)]
    pub settled: Option<u32>,
}

impl Entry {
    /// It came back although the worker was told of it.
    #[must_use]
    pub fn is_escalated(&self) -> bool {
        self.settled.is_none() && self.turns.len() > 1
    }
}

impl Ledger {
    /// The concern that this one is again, if it is.
    #[must_use]
    pub fn find(&self, reviewer: &str, concern: &Concern) -> Option<&Entry> {
        let named = concern.again.as_deref().map(str::trim);
        let by_name = self.entries.iter().find(|known| named == Some(known.what.id.as_str()));
        by_name.or_else(|| {
            let mine = self.entries.iter().filter(|known| known.reviewer == reviewer);
            mine.rev().find(|known| same(&known.what.concern, &concern.concern))
        })
    }

    /// Gives a concern its name: an old one where it was raised before.
    pub fn name(&self, reviewer: &str, concerns: &mut [Concern]) {
        let mut count = self.count;
        for concern in concerns {
            concern.id = match self.find(reviewer, concern) {
                Some(known) => known.what.id.clone(),
                None => {
                    count += 1;
                    format!("C{count}")
                }
            };
            concern.again = None;
        }
    }

    /// A settled concern that is raised again with nothing new to show for it.
    #[must_use]
    pub fn argued_again(&self, reviewer: &str, concerns: &[Concern]) -> Option<&Entry> {
        let stale = |concern: &Concern| {
            let known = self.find(reviewer, concern).filter(|known| known.settled.is_some())?;
            let same_evidence = same(&known.what.evidence, &concern.evidence);
            same_evidence.then_some(known)
        };
        let first = concerns.first().and_then(stale);
        // Where there is something else besides, that is what counts.
        first.filter(|_| concerns.iter().all(|concern| stale(concern).is_some()))
    }

    pub(crate) fn raise(&mut self, reviewer: &str, turn: u32, iteration: u32, concern: &Concern) {
        let known = self.entries.iter().position(|known| known.what.id == concern.id);
        let mut entry = match known {
            Some(at) => self.entries.remove(at),
            None => {
                self.count += 1;
                Entry {
                    reviewer: reviewer.to_owned(),
                    what: concern.clone(),
                    turns: Vec::new(),
                    iterations: Vec::new(),
                    settled: None,
                }
            }
        };
        entry.what = concern.clone();
        entry.settled = None;
        if entry.turns.last() != Some(&turn) {
            entry.turns.push(turn);
            entry.iterations.push(iteration);
        }
        self.entries.push(entry);
        if self.entries.len() > MOST_CONCERNS {
            let settled = self.entries.iter().position(|known| known.settled.is_some());
            self.entries.remove(settled.unwrap_or(0));
        }
    }

    /// What a reviewer has not raised again in this turn is settled.
    pub(crate) fn settle(&mut self, reviewer: &str, turn: u32, iteration: u32) {
        for entry in &mut self.entries {
            let open = entry.settled.is_none() && entry.reviewer == reviewer;
            if open && entry.turns.last() != Some(&turn) {
                entry.settled = Some(iteration);
            }
        }
    }

    #[must_use]
    pub fn open(&self) -> Vec<&Entry> {
        self.entries.iter().filter(|entry| entry.settled.is_none()).collect()
    }

    #[must_use]
    pub fn settled(&self) -> Vec<&Entry> {
        self.entries.iter().filter(|entry| entry.settled.is_some()).collect()
    }
}

/// Whether two texts say the same, by their words.
fn same(one: &str, other: &str) -> bool {
    let words = |text: &str| -> std::collections::BTreeSet<String> {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let (one, other) = (words(one), words(other));
    if one.is_empty() || other.is_empty() {
        return one == other;
    }
    let common = one.intersection(&other).count();
    let all = one.union(&other).count();
    #[expect(clippy::cast_precision_loss, reason = "counts of words")]
    let share = common as f64 / all as f64;
    share >= SAME_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concern(text: &str, evidence: &str) -> Concern {
        Concern {
            category: "tests".into(),
            concern: text.into(),
            evidence: evidence.into(),
            next_step: "mend it".into(),
            ..Concern::default()
        }
    }

    #[test]
    fn each_rule_counts_in_its_own_way() {
        use Verdict::{Fail, Pass, Unknown};
        let table: [(&[Verdict], [bool; 3]); 6] = [
            (&[], [false, false, false]),
            (&[Pass], [true, true, true]),
            (&[Fail], [false, false, false]),
            (&[Pass, Fail], [false, true, false]),
            (&[Pass, Pass, Fail], [false, true, true]),
            (&[Pass, Unknown], [false, true, false]),
        ];
        for (verdicts, expected) in table {
            let rules = [Consensus::All, Consensus::Any, Consensus::Majority];
            let found = rules.map(|rule| rule.passes(verdicts.iter().copied()));
            assert_eq!(found, expected, "{verdicts:?}");
        }
    }

    #[test]
    fn everybody_has_a_name_of_their_own() {
        assert_eq!(
            names(["codex", "claude", "codex", "exec:./review.sh", "codex", "exec:x"]),
            ["codex", "claude", "codex-2", "exec", "codex-3", "exec-2"]
        );
    }

    #[test]
    fn a_concern_keeps_its_name_when_it_comes_back() {
        let mut ledger = Ledger::default();
        let mut raise = |reviewer: &str, turn, text: &str| {
            let mut one = [concern(text, "a.rs:1")];
            ledger.name(reviewer, &mut one);
            ledger.raise(reviewer, turn, turn, &one[0]);
            ledger.settle(reviewer, turn, turn);
            one[0].id.clone()
        };
        assert_eq!(raise("claude", 1, "There is no test for the empty list"), "C1");
        assert_eq!(raise("codex", 1, "There is no test for the empty list"), "C2");
        assert_eq!(raise("claude", 2, "There is still no test for the empty list!"), "C1");
        assert_eq!(raise("codex", 2, "The README is wrong"), "C3");
        let entry = |id: &str| ledger.entries.iter().find(|one| one.what.id == id).unwrap();
        assert!(entry("C1").is_escalated());
        assert_eq!((entry("C2").settled, entry("C3").settled), (Some(2), None));
        assert_eq!(entry("C1").iterations, [1, 2]);
        let again = Concern { again: Some("C2".into()), ..concern("Something else", "a.rs:1") };
        assert_eq!(
            ledger.argued_again("codex", std::slice::from_ref(&again)).unwrap().what.id,
            "C2"
        );
        let news = Concern { evidence: "b.rs:9 panics now".into(), ..again.clone() };
        assert_eq!(ledger.argued_again("codex", &[news]), None);
        assert_eq!(ledger.argued_again("codex", &[again, concern("New", "x")]), None);
    }
}
