//! Somebody else in the place of whoever was there: `segue resume 7 --with gemini`. Where it stopped
//! because of a reviewer, that is the reviewer's place, else the worker's.

use segue_core::event::{AgentChanged, ChangeCause};
use segue_journal::Session;
use segue_loops::{launch, review};
use segue_runner::Interrupt;

use crate::{
    commands::{
        go_on::{Request, say_mended},
        limited::still_limited,
        run::{Manner, surroundings},
        worker::{Wishes, hire, known_agent, limit_key, no_such_agent},
    },
    config::Config,
    context::Context,
    error::CommandError,
    observe::Watcher,
};

#[derive(Debug)]
pub(crate) struct Substitute {
    pub(crate) to: String,
    pub(crate) model: Option<String>,
    reason: String,
    /// The reviewers whose place is taken: their names, and their own sessions.
    places: Vec<(String, Session)>,
}

impl Substitute {
    /// What is asked for, where the session stopped because of a reviewer.
    pub(crate) fn of(
        context: &Context,
        config: &Config,
        session: &Session,
        selector: &str,
        asked: &Request,
    ) -> Result<Option<Self>, CommandError> {
        let stop = session.state().stop.as_ref().filter(|stop| stop.agent.is_some());
        let Some(stop) = stop else { return Ok(None) };
        let Some(word) = &asked.with else { return Ok(None) };
        let to = known_agent(word).ok_or_else(|| no_such_agent(word))?;
        let mut places = review::stopped(session)?;
        if places.is_empty() {
            // To put somebody into the worker's place is not what would help.
            let message = "it stopped at a reviewer whose own session can't be handed over";
            return Err(CommandError::usage(message)
                .hint(format!("that one is asked again: segue resume {selector}"))
                .hint(format!("another worker: segue handoff {selector} --to {to}")));
        }
        places.retain(|(_, theirs)| theirs.state().agent() != to);
        if places.is_empty() {
            return Err(CommandError::usage(format!("{to} is the reviewer that it stopped at")));
        }
        // Nobody is let go for someone who can't come.
        let named = asked.model.as_deref().or_else(|| config.get("model"));
        check_limit(context, selector, asked, &to, named)?;
        let wishes = Wishes { model: asked.model.as_deref(), ..Wishes::default() };
        let (model, worker) = hire(context, config, &to, wishes)?;
        worker.check_price(session.state().caps.overridden_by(asked.caps))?;
        let reason = asked.reason.clone().unwrap_or_else(|| stop.message.clone());
        let model = model.filter(|_| asked.model.is_some());
        Ok(Some(Self { to, model, reason, places }))
    }

    /// The line of the plan.
    pub(crate) fn note(&self) -> (&'static str, String) {
        let names: Vec<&str> = self.places.iter().map(|(name, _)| name.as_str()).collect();
        ("reviewer", format!("{} takes the place of {}", self.to, names.join(" and ")))
    }

    /// Hands the reviewers' own sessions over. They go on with the pair.
    pub(crate) fn sit_down(
        &self,
        context: &Context,
        config: &Config,
        interrupt: &Interrupt,
    ) -> Result<(), CommandError> {
        for (_, theirs) in &self.places {
            let theirs = Session::open(std::sync::Arc::clone(theirs.disk()), theirs.dir())?;
            let change = AgentChanged {
                from: theirs.state().agent().to_owned(),
                to: self.to.clone(),
                model: self.model.clone(),
                cause: ChangeCause::Asked,
                reason: self.reason.clone(),
                passed_over: Vec::new(),
            };
            let dir = theirs.state().workspace().map(Into::into).unwrap_or(context.cwd.clone());
            let mut watcher = Watcher::quiet(context);
            let manner = Manner::default();
            let around = surroundings(context, config, &mut watcher, interrupt.clone(), manner);
            launch::hand_off(theirs, &dir, Some(change), &self.reason, around, say_mended)?;
        }
        Ok(())
    }
}

/// Who is known to be at its limit does not help, unless that is what is wanted.
fn check_limit(
    context: &Context,
    selector: &str,
    asked: &Request,
    to: &str,
    model: Option<&str>,
) -> Result<(), CommandError> {
    let limit = context.home.limit_of(&limit_key(to, model), context.now());
    match limit.filter(|_| !asked.now && !asked.wait) {
        Some(limit) => Err(still_limited(context, to, limit.resets_at, selector)),
        None => Ok(()),
    }
}

/// The hand-off that is asked for, if it is one.
pub(crate) fn change(
    context: &Context,
    config: &Config,
    session: &Session,
    selector: &str,
    asked: &Request,
) -> Result<Option<AgentChanged>, CommandError> {
    let state = session.state();
    let first = state.identity.as_ref().map_or("", |found| found.agent.as_str());
    let (to, cause) = match &asked.with {
        Some(word) => {
            let to = known_agent(word).ok_or_else(|| no_such_agent(word))?;
            (to, ChangeCause::Asked)
        }
        None if asked.give_back => (first.to_owned(), ChangeCause::Returned),
        None => return Ok(None),
    };
    if to == state.agent() {
        return Ok(None);
    }
    let model = asked.model.as_deref().or_else(|| state.first_model(&to));
    let model = model.or_else(|| config.get("model"));
    check_limit(context, selector, asked, &to, model)?;
    let from = state.agent().to_owned();
    let why = || match &state.stop {
        Some(stop) => stop.message.clone(),
        None => "asked for by a person".to_owned(),
    };
    let reason = asked.reason.clone().unwrap_or_else(why);
    Ok(Some(AgentChanged { from, to, model: None, cause, reason, passed_over: Vec::new() }))
}
