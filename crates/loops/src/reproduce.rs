//! Does a session still tell what it told? Everything is derived again from the bytes on the disk.
//!
//! Three questions, answered apart: whether what is recorded is intact (every line, every link,
//! every long text), whether the steps are the ones that were named (structure), and whether they
//! cost what was said (accounting). A cache is believed in none of them.

use segue_core::{
    identity::{Accounts, Base},
    steps::{Step, StepId},
};
use segue_journal::{
    Result, Session,
    base::Layer,
    repair::{self, Problem},
};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// How many steps were derived, and the last of them.
    pub steps: u64,
    pub last: Option<StepId>,
    /// What is damaged or missing.
    pub source: Vec<String>,
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
    let identity = session.state().identity.as_ref();
    let lineage = identity.and_then(|identity| identity.lineage.as_ref());
    let base = lineage.and_then(|lineage| lineage.base.as_ref());
    let marks = session.landmarks()?;
    let mut known = marks.iter();
    let (mut strange, mut shared) = (None, Shared::default());
    session.steps(|step| {
        let told = known.next().and_then(Result::ok);
        if told.is_none_or(|mark| mark.id != step.id) && strange.is_none() {
            strange = Some(step.index);
        }
        if base.is_some_and(|base| step.index < base.steps) {
            shared.add(&step);
        }
        found.steps += 1;
        found.last = Some(step.id);
    })?;
    if let Some(index) = strange {
        found.structure.push(format!("step {index} is another one than steps.idx says"));
    }
    if let Some(base) = base {
        let named = lineage.and_then(|lineage| lineage.step.as_deref());
        shared.as_named(base, named, &mut found);
    }
    Ok(found)
}

/// What a replay or a fork was made from.
#[derive(Default)]
struct Shared {
    last: Option<(u64, StepId)>,
    spent: Accounts,
}

impl Shared {
    fn add(&mut self, step: &Step) {
        self.last = Some((step.index, step.id));
        self.spent.usage += step.usage;
        self.spent.cost_micros += step.cost.unwrap_or_default();
    }

    /// It is still what it was.
    fn as_named(&self, base: &Base, named: Option<&str>, found: &mut Findings) {
        let count = self.last.map_or(0, |(index, _)| index + 1);
        if count != base.steps {
            found.structure.push(format!("{count} steps are told, {} were named", base.steps));
        }
        if let (Some(named), Some((index, id))) = (named, self.last)
            && named != id.to_string()
        {
            found.structure.push(format!("step {index} is {}, and was {named}", id.short()));
        }
        if let Some(said) = base.spent.filter(|said| *said != self.spent) {
            let (was, is) = (said.usage.total(), self.spent.usage.total());
            let (cost, now) = (said.cost_micros.0, self.spent.cost_micros.0);
            found.accounting.push(format!(
                "{was} tokens and {cost} millionths of a dollar were said, {is} and {now} are told"
            ));
        }
    }
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
            Problem::Base { error } => error.to_string(),
            Problem::Blob { line, error } => format!("line {line}: {error}"),
            Problem::Identity { error } => match error {
                Some(error) => error.to_string(),
                None => "session.json does not say what the journal says".to_owned(),
            },
        };
        found.source.push(format!("{}: {text}", layer.dir.display()));
    }
    Ok(())
}
