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
    let mut derived = Derived::default();
    session.steps(|step| derived.add(&step))?;
    found.steps = derived.steps;
    found.last = derived.last;
    structure(session, &mut found)?;
    let identity = session.state().identity.as_ref();
    let lineage = identity.and_then(|identity| identity.lineage.as_ref());
    if let Some(base) = lineage.and_then(|lineage| lineage.base.as_ref()) {
        let named = lineage.and_then(|lineage| lineage.step.as_deref());
        as_named(session, base, named, &mut found)?;
    }
    Ok(found)
}

#[derive(Default)]
struct Derived {
    steps: u64,
    last: Option<StepId>,
}

impl Derived {
    fn add(&mut self, step: &Step) {
        self.steps += 1;
        self.last = Some(step.id);
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

/// The steps that were looked up before are the ones that are derived now.
fn structure(session: &Session, found: &mut Findings) -> Result<()> {
    let mut known = Vec::new();
    session.landmarks(&mut |mark| known.push(mark.id))?;
    let mut differs = None;
    session.steps(|step| {
        let at = usize::try_from(step.index).unwrap_or(usize::MAX);
        if known.get(at) != Some(&step.id) && differs.is_none() {
            differs = Some(step.index);
        }
    })?;
    if let Some(index) = differs {
        found.structure.push(format!("step {index} is another one than steps.idx says"));
    }
    Ok(())
}

/// What a replay or a fork was made from is still that.
fn as_named(
    session: &Session,
    base: &Base,
    named: Option<&str>,
    found: &mut Findings,
) -> Result<()> {
    let (mut last, mut spent) = (None, Accounts::default());
    session.steps(|step| {
        if step.index < base.steps {
            last = Some((step.index, step.id));
            spent.usage += step.usage;
            spent.cost_micros += step.cost.unwrap_or_default();
        }
    })?;
    let count = last.map_or(0, |(index, _)| index + 1);
    if count != base.steps {
        found.structure.push(format!("{count} steps are told, {} were named", base.steps));
    }
    if let (Some(named), Some((index, id))) = (named, last)
        && named != id.to_string()
    {
        found.structure.push(format!("step {index} is {}, and was {named}", id.short()));
    }
    if let Some(said) = base.spent.filter(|said| *said != spent) {
        let (was, is) = (said.usage.total(), spent.usage.total());
        let (cost, now) = (said.cost_micros.0, spent.cost_micros.0);
        found.accounting.push(format!(
            "{was} tokens and {cost} millionths of a dollar were said, {is} and {now} are told"
        ));
    }
    Ok(())
}
