//! Does a session still tell what it told? Everything is derived again from the bytes on the disk.
//!
//! Three questions, answered apart: whether what is recorded is intact (every line, every link,
//! every long text), whether the steps are the ones that were named (structure), and whether they
//! cost what was said (accounting). A cache is believed in none of them.

use segue_core::{
    SessionId,
    event::Span,
    identity::{Accounts, Base},
    steps::{Step, StepId},
};
use segue_journal::{
    Error, Result, Session,
    base::Layer,
    repair::{self, Problem},
    steps::Landmark,
};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// How many steps were derived, and the last of them.
    pub steps: u64,
    pub last: Option<StepId>,
    /// What is damaged or missing.
    pub source: Vec<String>,
    /// The first session of which something is: this one, or one that it begins with.
    pub damaged: Option<SessionId>,
    /// Where the steps are others than those that were named.
    pub structure: Vec<String>,
    /// Where they cost something else than was said.
    pub accounting: Vec<String>,
}

impl Findings {
    /// Whether everything is as it was said to be.
    #[must_use]
    pub fn reproduces(&self) -> bool {
        self.source.is_empty() && self.structure.is_empty() && self.accounting.is_empty()
    }
}

/// Derives a session again, with all that it begins with. Nothing is changed.
pub fn check(session: &Session) -> Result<Findings> {
    let mut found = Findings::default();
    let layers = match session.layers() {
        Ok(layers) => layers,
        Err(error) => {
            found.source.push(error.to_string());
            found.damaged = match error {
                Error::Base { from, .. } => Some(from),
                _ => Some(session.id()),
            };
            return Ok(found);
        }
    };
    for layer in &layers {
        intact(session, layer, &mut found)?;
    }
    // What follows from something else than was recorded says nothing.
    if !found.source.is_empty() {
        return Ok(found);
    }
    let marks = session.landmarks()?;
    let mut known = marks.iter();
    let mut shared: Vec<Shared<'_>> = layers.windows(2).filter_map(Shared::of).collect();
    let mut strange = None;
    session.told(|step, told| {
        let cut = shared.iter().any(|part| part.base.steps == step.index + 1);
        let same = known.next().and_then(Result::ok).is_some_and(|mark| mark.agrees(&told, cut));
        if !same && strange.is_none() {
            strange = Some(step.index);
        }
        shared.iter_mut().for_each(|part| part.add(&step, &told));
        found.steps += 1;
        found.last = Some(step.id);
    })?;
    if let Some(index) = strange {
        found.structure.push(format!("step {index} is another one than steps.idx says"));
    }
    let lineage = session.state().identity.as_ref().and_then(|found| found.lineage.as_ref());
    let mut named = lineage.and_then(|lineage| lineage.step.as_deref());
    for part in &shared {
        part.as_named(session, named.take(), &mut found)?;
    }
    Ok(found)
}

/// The steps that a journal says that it begins with.
struct Shared<'a> {
    base: &'a Base,
    /// The journal that tells the last of them.
    teller: &'a Layer,
    last: Option<Landmark>,
    /// What the next one follows from.
    frontier: Vec<StepId>,
    /// What belongs to the conversation, and what it cost.
    retained: u64,
    spent: Accounts,
}

impl<'a> Shared<'a> {
    fn of(layers: &'a [Layer]) -> Option<Self> {
        let [layer, teller] = layers else { return None };
        let (base, last, frontier) = (layer.base.as_ref()?, None, Vec::new());
        let (retained, spent) = (0, Accounts::default());
        Some(Self { base, teller, last, frontier, retained, spent })
    }

    fn add(&mut self, step: &Step, told: &Landmark) {
        if step.index >= self.base.steps {
            return;
        }
        if told.batch() <= 1 {
            self.frontier.clear();
        }
        self.frontier.push(step.id);
        self.last = Some(told.clone());
        // Before they were counted apart, what was left behind was an expense like any other.
        if self.base.retained.is_none() || self.base.has_turn(told.turn) {
            self.retained += 1;
            self.spent.usage += step.usage;
            self.spent.cost_micros += step.cost.unwrap_or_default();
        }
    }

    /// It is still what it was.
    fn as_named(&self, session: &Session, named: Option<&str>, found: &mut Findings) -> Result<()> {
        let base = self.base;
        let count = self.last.as_ref().map_or(0, |last| last.index + 1);
        let mut differs = |what: &str, told: String, said: String| {
            if told != said {
                found.structure.push(format!("{what} is {told}, and was {said}"));
            }
        };
        differs("the number of its first steps", count.to_string(), base.steps.to_string());
        if let Some(last) = self.last.as_ref().filter(|_| count == base.steps) {
            let step = format!("step {}", last.index);
            if let Some(named) = named {
                let short = |id: &str| id.get(..10).unwrap_or(id).to_owned();
                differs(&step, short(&last.id.to_string()), short(named));
            }
            let ids = |ids: &[StepId]| ids.iter().map(StepId::short).collect::<Vec<_>>().join(", ");
            differs("what follows from it", ids(&self.frontier), ids(&base.frontier));
            let places = [
                ("turn", u64::from(last.turn), u64::from(base.turn)),
                ("last event", last.seq, base.seq),
                ("end in the journal", last.end, base.offset),
            ];
            for (what, told, said) in places {
                differs(&format!("the {what} of {step}"), told.to_string(), said.to_string());
            }
            let path = session.path_at(&self.teller.dir, last)?;
            differs("its path", turns(&path), turns(&base.path));
        }
        if let Some(said) = base.retained.filter(|said| *said != self.retained) {
            let told = self.retained;
            found.accounting.push(format!("{said} steps were said to be reused, {told} are told"));
        }
        if let Some(said) = base.spent.filter(|said| *said != self.spent) {
            let (was, is) = (said.usage.total(), self.spent.usage.total());
            let (cost, now) = (said.cost_micros.0, self.spent.cost_micros.0);
            found.accounting.push(format!(
                "{was} tokens and {cost} millionths of a dollar were said, {is} and {now} are told"
            ));
        }
        Ok(())
    }
}

/// `turns 1-4, 7-7`
fn turns(path: &[Span]) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for span in path {
        match spans.last_mut() {
            Some((_, to)) if *to + 1 == span.from => *to = span.to,
            _ => spans.push((span.from, span.to)),
        }
    }
    let spans: Vec<_> = spans.iter().map(|(from, to)| format!("{from}-{to}")).collect();
    format!("turns {}", spans.join(", "))
}

/// Every line and every long text of a journal.
fn intact(session: &Session, layer: &Layer, found: &mut Findings) -> Result<()> {
    let part = match layer.dir == session.dir() {
        true => None,
        false => Some(Session::open(std::sync::Arc::clone(session.disk()), &layer.dir)?),
    };
    let part = part.as_ref().unwrap_or(session);
    for problem in repair::verify(part)?.problems {
        let text = match problem {
            Problem::TornTail { .. } | Problem::Snapshot | Problem::Derived { .. } => continue,
            Problem::Damaged(damage) => format!("line {}: {}", damage.line, damage.finding),
            Problem::Base { error } | Problem::Unreadable { error } => error.to_string(),
            Problem::Blob { line, error } => format!("line {line}: {error}"),
            Problem::Identity { error } => match error {
                Some(error) => error.to_string(),
                None => "session.json does not say what the journal says".to_owned(),
            },
        };
        found.source.push(format!("{}: {text}", layer.dir.display()));
        found.damaged.get_or_insert(layer.id);
    }
    Ok(())
}
