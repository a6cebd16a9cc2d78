//! How a worker's turn is judged: by whom, by which rule, and what was said before.

pub mod render;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Concern, Verdict, VerdictSubmitted};

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

/// The category of the concern that stands in for a verdict that can't be read.
pub const UNREADABLE: &str = "unreadable";

/// The most concerns that the state holds.
const MOST_CONCERNS: usize = 64;

/// The most verdicts that it holds.
const MOST_VERDICTS: usize = 64;

/// From this share of common words on, a concern of a reviewer is one that is open already.
const SAME_WORDS: f64 = 0.6;

/// All concerns that were raised, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    #[serde(default)]
    pub entries: Vec<Entry>,
    /// How many there ever were: the next one gets the number after this.
    #[serde(default)]
    pub count: u32,
    /// Who let the work pass in the rounds so far, and who did not; of many rounds the last ones.
    #[serde(default)]
    pub verdicts: Vec<Said>,
    /// The turn of the worker that began the task in hand: what was settled before it was settled
    /// for another one.
    #[serde(default)]
    pub since: u32,
}

/// One reviewer's word in one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Said {
    pub turn: u32,
    pub iteration: u32,
    pub reviewer: String,
    pub verdict: Verdict,
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
    /// The turn of the worker in which that was: iterations are counted anew with each task.
    #[serde(default)]
    pub settled_in: u32,
}

impl Entry {
    /// It came back although the worker was told of it.
    #[must_use]
    pub fn is_escalated(&self) -> bool {
        self.settled.is_none() && self.turns.len() > 1
    }
}

/// Whether a concern is one that is known, and how alike the two are.
type Rule<'a> = dyn Fn(&Concern, &Entry) -> Option<f64> + 'a;

impl Ledger {
    /// Which known concern each one of a verdict is again, if it is: the one that it names, else one
    /// of this task with the same text, else the open one that is most like it. What is settled is not
    /// found by being alike: what is new would be taken for it, and lost. No two are the same one: what
    /// a reviewer keeps apart is apart.
    fn known(&self, reviewer: &str, concerns: &[Concern]) -> Vec<Option<&Entry>> {
        let mut found: Vec<Option<usize>> = vec![None; concerns.len()];
        let named = |concern: &Concern, entry: &Entry| {
            let named = concern.again.as_deref().map(str::trim);
            (named == Some(entry.what.id.as_str())).then_some(1.0)
        };
        let mine = |entry: &Entry| entry.reviewer == reviewer;
        let exact = |concern: &Concern, entry: &Entry| {
            let here = entry.settled.is_none() || self.is_settled(entry);
            let same = same(&entry.what.concern, &concern.concern);
            (mine(entry) && here && same).then_some(1.0)
        };
        let alike = |concern: &Concern, entry: &Entry| {
            let share = common(&entry.what.concern, &concern.concern);
            let open = entry.settled.is_none();
            (mine(entry) && open && share >= SAME_WORDS).then_some(share)
        };
        let rules: [&Rule<'_>; 3] = [&named, &exact, &alike];
        for rule in rules {
            let mut fits = Vec::new();
            for (at, concern) in concerns.iter().enumerate() {
                for (entry, known) in self.entries.iter().enumerate() {
                    if let Some(share) = rule(concern, known) {
                        fits.push((share, known.settled.is_none(), entry, at));
                    }
                }
            }
            // The most alike first; of several, one that is open, and the newest.
            fits.sort_by(|one, other| {
                other.0.total_cmp(&one.0).then_with(|| (other.1, other.2).cmp(&(one.1, one.2)))
            });
            for (_, _, entry, at) in fits {
                if found[at].is_none() && !found.contains(&Some(entry)) {
                    found[at] = Some(entry);
                }
            }
        }
        found.into_iter().map(|entry| self.entries.get(entry?)).collect()
    }

    /// Gives each concern of a verdict its name: an old one where it was raised before.
    pub fn name(&self, reviewer: &str, concerns: &mut [Concern]) {
        let mut count = self.count;
        let known = self.known(reviewer, concerns);
        for (concern, known) in concerns.iter_mut().zip(known) {
            concern.id = match known {
                Some(known) => known.what.id.clone(),
                None => {
                    count += 1;
                    format!("C{count}")
                }
            };
            concern.again = None;
        }
    }

    /// For each concern of a verdict: the settled one that it is again, with nothing new to show for
    /// it. What is settled is not argued again.
    fn stale(&self, reviewer: &str, concerns: &[Concern]) -> Vec<Option<&Entry>> {
        let known = self.known(reviewer, concerns).into_iter();
        let settled = known.zip(concerns).map(|(known, concern)| {
            let settled = known.filter(|known| self.is_settled(known));
            // An answer that can't be read says nothing, and so nothing for the work either.
            let settled = settled.filter(|_| concern.category != UNREADABLE);
            settled.filter(|known| same(&known.what.evidence, &concern.evidence))
        });
        settled.collect()
    }

    /// A settled concern that is raised again with nothing new to show for it, and nothing besides.
    #[must_use]
    pub fn argued_again(&self, reviewer: &str, concerns: &[Concern]) -> Option<&Entry> {
        let stale = self.stale(reviewer, concerns);
        stale.iter().all(Option::is_some).then_some(*stale.first()?)?
    }

    /// Takes out of a verdict what is settled and comes without anything new, and gives its names.
    /// Where that was all, there is nothing left against the work; but only a reviewer who was asked
    /// about it is taken to mean that.
    pub fn set_aside(
        &self,
        reviewer: &str,
        said: &mut VerdictSubmitted,
        asked: bool,
    ) -> Vec<String> {
        let stale = self.stale(reviewer, &said.concerns);
        if !asked && stale.iter().all(Option::is_some) {
            return Vec::new();
        }
        let names: Vec<Option<String>> =
            stale.iter().map(|entry| entry.map(|entry| entry.what.id.clone())).collect();
        let mut kept = names.iter().map(Option::is_none);
        said.concerns.retain(|_| kept.next().unwrap_or(true));
        let names: Vec<String> = names.into_iter().flatten().collect();
        if !names.is_empty() && said.concerns.is_empty() {
            said.verdict = Verdict::Pass;
        }
        names
    }

    pub(crate) fn note(&mut self, said: Said) {
        self.verdicts.push(said);
        if self.verdicts.len() > MOST_VERDICTS {
            self.verdicts.remove(0);
        }
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
                    settled_in: 0,
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
                entry.settled_in = turn;
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

    /// Whether a concern was settled in the task in hand.
    #[must_use]
    pub fn is_settled(&self, entry: &Entry) -> bool {
        entry.settled.is_some() && entry.settled_in >= self.since
    }
}

/// Whether two texts are the same, however they are broken into lines.
fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

/// The share of words that two texts have in common.
fn common(one: &str, other: &str) -> f64 {
    let words = |text: &str| -> std::collections::BTreeSet<String> {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let (one, other) = (words(one), words(other));
    if one.is_empty() || other.is_empty() {
        return if one == other { 1.0 } else { 0.0 };
    }
    let common = one.intersection(&other).count();
    let all = one.union(&other).count();
    #[expect(clippy::cast_precision_loss, reason = "counts of words")]
    let share = common as f64 / all as f64;
    share
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
        assert_eq!(ledger.argued_again("codex", &[]), None);
    }

    fn fail(concerns: &[Concern]) -> VerdictSubmitted {
        let via = crate::event::Via::Tool;
        let verdict = if concerns.is_empty() { Verdict::Pass } else { Verdict::Fail };
        VerdictSubmitted { verdict, concerns: concerns.to_vec(), summary: None, via }
    }

    /// What a reviewer says in a round, and what its concerns are called.
    fn raised(ledger: &mut Ledger, turn: u32, concerns: &[Concern]) -> Vec<String> {
        let mut concerns = concerns.to_vec();
        ledger.name("claude", &mut concerns);
        for one in &concerns {
            ledger.raise("claude", turn, turn, one);
        }
        ledger.settle("claude", turn, turn);
        concerns.into_iter().map(|one| one.id).collect()
    }

    #[test]
    fn two_concerns_that_are_much_alike_stay_two() {
        let empty = concern("There is no test for the empty list in add", "a.rs:1");
        let full = concern("There is no test for the full list in add", "a.rs:9");
        let mut ledger = Ledger::default();
        assert_eq!(raised(&mut ledger, 1, &[empty.clone(), full.clone()]), ["C1", "C2"]);
        assert_eq!(raised(&mut ledger, 2, &[empty.clone(), full.clone()]), ["C1", "C2"]);
        assert_eq!(raised(&mut ledger, 3, &[full.clone(), empty.clone()]), ["C2", "C1"]);
        assert_eq!(ledger.open().len(), 2);
        // One of them is met, and only that one is settled.
        assert_eq!(raised(&mut ledger, 4, std::slice::from_ref(&empty)), ["C1"]);
        let settled: Vec<&str> = ledger.settled().iter().map(|one| one.what.id.as_str()).collect();
        assert_eq!(settled, ["C2"]);
        // What is like both is the open one; and a third one is a new one.
        let like = concern("There is still no test for the list in add", "a.rs:1");
        assert_eq!(raised(&mut ledger, 5, std::slice::from_ref(&like)), ["C1"]);
        let again = |name: &str| Concern { again: Some(name.into()), ..like.clone() };
        assert_eq!(raised(&mut ledger, 6, &[again("C1"), again("C1"), full]), ["C1", "C3", "C2"]);
    }

    #[test]
    fn what_is_settled_does_not_count_unless_there_is_something_new() {
        let (docs, test) = (concern("No docs", "README.md:1"), concern("No test", "a.rs:1"));
        let mut ledger = Ledger::default();
        raised(&mut ledger, 1, std::slice::from_ref(&docs));
        raised(&mut ledger, 2, std::slice::from_ref(&test));
        // Something else besides: that is what counts.
        let mut mixed = fail(&[docs.clone(), test.clone()]);
        assert_eq!(ledger.set_aside("claude", &mut mixed, true), ["C1"]);
        assert_eq!((mixed.verdict, &mixed.concerns), (Verdict::Fail, &vec![test.clone()]));
        // Nothing besides: nothing is left.
        let mut only = fail(std::slice::from_ref(&docs));
        assert_eq!(ledger.set_aside("claude", &mut only, true), ["C1"]);
        assert_eq!((only.verdict, only.concerns.len()), (Verdict::Pass, 0));
        // What is open, or has something new to show, is argued.
        let news = Concern { evidence: "guide.md:9 is gone now".into(), ..docs };
        for concerns in [vec![test], vec![news], vec![]] {
            let mut said = fail(&concerns);
            assert!(ledger.set_aside("claude", &mut said, true).is_empty());
            assert_eq!(said, fail(&concerns));
        }
    }

    #[test]
    fn what_is_only_like_something_settled_is_a_new_concern() {
        let add = concern("There is no test for add", "src/math.rs:12");
        let sub = concern("There is no test for sub", "src/math.rs:40");
        let moved = Concern { evidence: "src/math.rs:40".into(), ..add.clone() };
        let broken = Concern {
            concern: "There is no\n  test for add ".into(),
            evidence: " src/math.rs:12".into(),
            ..add.clone()
        };
        let mut ledger = Ledger::default();
        raised(&mut ledger, 1, std::slice::from_ref(&add));
        raised(&mut ledger, 2, &[]);
        for one in [&sub, &moved] {
            assert_eq!(ledger.argued_again("claude", std::slice::from_ref(one)), None);
            let mut said = fail(std::slice::from_ref(one));
            assert!(ledger.set_aside("claude", &mut said, true).is_empty());
            assert_eq!(said, fail(std::slice::from_ref(one)));
        }
        assert!(ledger.argued_again("claude", &[broken]).is_some());
        assert_eq!(raised(&mut ledger, 3, &[sub, add]), ["C2", "C1"]);
    }

    #[test]
    fn what_was_settled_for_another_task_is_not_so_for_this_one() {
        let vague = concern("There is no test", "the diff");
        let mut ledger = Ledger::default();
        raised(&mut ledger, 1, std::slice::from_ref(&vague));
        raised(&mut ledger, 2, &[]);
        ledger.since = 3;
        let again = Concern { again: Some("C1".into()), ..vague.clone() };
        for one in [&vague, &again] {
            assert_eq!(ledger.argued_again("claude", std::slice::from_ref(one)), None);
        }
        assert_eq!(raised(&mut ledger, 3, std::slice::from_ref(&vague)), ["C2"]);
        raised(&mut ledger, 4, &[]);
        assert_eq!(ledger.argued_again("claude", &[vague]).unwrap().what.id, "C2");
    }

    #[test]
    fn a_verdict_is_not_turned_round_before_its_reviewer_was_asked_about_it() {
        let (docs, test) = (concern("No docs", "README.md:1"), concern("No test", "a.rs:1"));
        let mut ledger = Ledger::default();
        raised(&mut ledger, 1, std::slice::from_ref(&docs));
        raised(&mut ledger, 2, &[]);
        let mut only = fail(std::slice::from_ref(&docs));
        assert!(ledger.set_aside("claude", &mut only, false).is_empty());
        assert_eq!(only, fail(std::slice::from_ref(&docs)));
        // What counts besides is enough against the work.
        let mut mixed = fail(&[docs, test.clone()]);
        assert_eq!(ledger.set_aside("claude", &mut mixed, false), ["C1"]);
        assert_eq!(mixed, fail(&[test]));
    }
}
