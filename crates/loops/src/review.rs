//! Between the worker's turns: the word for "done", the reviewers, what they said, the branch.
//!
//! Each step is decided from the journal and leaves an event: a kill between any two of them is a
//! resume that goes on with the next.

mod landing;
mod requests;

use segue_agents::{closing, verdict};
use segue_core::{
    Body, State,
    caps::Caps,
    event::{
        DoneSignalled, Outcome, ProofReturned, Reason, ReviewStarted, SessionStopped, Verdict,
        VerdictGiven,
    },
    identity::LoopKind,
    review::{
        Seat,
        render::{self, Case, Proof},
    },
    tasks::prompt,
};
use segue_journal::Session;
use segue_runner::{Halt, Purse, Supervisor, briefing, supervisor::capped, supervisor::stop};

pub(crate) use landing::commit;

use crate::{
    bridge, keep,
    panel::{self, Returned, Sitting},
    shift::Shift,
    tasks,
};

/// How many changed files a reviewer is told of.
const MOST_FILES: usize = 500;

/// The most of a diff that is read.
const MOST_DIFF: usize = 1 << 20;

/// What the end of a turn says by itself: a reviewer's verdict, the worker's word for "done", and
/// which messages have arrived.
pub(crate) fn at_turn_end(supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
    let state = supervisor.state();
    if !state.has_begun() || state.turn.open {
        return Ok(());
    }
    let kind = state.identity.as_ref().map(|identity| identity.loop_kind);
    if kind == Some(LoopKind::Review) {
        return closing_verdict(supervisor);
    }
    let worker = state.worker().to_owned();
    bridge::note_heard(supervisor, &worker, None)?;
    tasks::closing_case(supervisor)?;
    done_word(supervisor)
}

/// Whether this is a reviewer's session, and its verdict on what it was asked last is there.
pub(crate) fn has_spoken(state: &State) -> bool {
    state.verdict().is_some()
}

/// A verdict that a reviewer has given is its last word, also where its run was killed right after:
/// the rest of the answer is not asked for.
pub(crate) fn end_where_judged(
    supervisor: &mut Supervisor<'_>,
    shift: &mut Shift<'_>,
) -> Result<(), Halt> {
    let state = supervisor.state();
    let kind = state.identity.as_ref().map(|identity| identity.loop_kind);
    if kind != Some(LoopKind::Review) || !state.turn.open {
        return Ok(());
    }
    keep::take_in(supervisor)?;
    if !has_spoken(supervisor.state()) {
        return Ok(());
    }
    shift.settle(supervisor)?;
    match supervisor.state().turn.open {
        true => supervisor.end_turn(Outcome::Superseded),
        false => Ok(()),
    }
}

/// The verdict in the block that closes a reviewer's answer, where it has not called the tool.
fn closing_verdict(supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
    let state = supervisor.state();
    let turn = state.turn.number;
    if has_spoken(state) {
        return Ok(());
    }
    let last = keep::last_text(supervisor.session().session(), turn)?;
    match last.and_then(|(text, _)| verdict::closing_block(&text)) {
        Some(said) => {
            let draft = supervisor.in_turn(said).about(format!("verdict-{turn}"));
            supervisor.commit(draft).map(drop)
        }
        None => Ok(()),
    }
}

/// Notes that the worker's answer ends with the line that was agreed on.
fn done_word(supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
    let state = supervisor.state();
    let turn = state.last_turn();
    let Some(signal) = state.terms().and_then(|terms| terms.done.clone()) else { return Ok(()) };
    if state.review.done_in == turn || state.turn.outcome != Some(Outcome::Finished) {
        return Ok(());
    }
    let last = keep::last_text(supervisor.session().session(), turn)?;
    let Some((text, _)) = last else { return Ok(()) };
    let said = closing::without_blocks(&text).trim_end();
    match said.lines().next_back().is_some_and(|line| line.trim() == signal) {
        true => {
            let draft = supervisor.in_turn(DoneSignalled { signal });
            supervisor.note(draft).map(drop)
        }
        false => Ok(()),
    }
}

/// The worker's first prompt: the task, and how it will be judged.
pub(crate) fn task(state: &State, task: String) -> String {
    let Some(terms) = state.terms() else { return task };
    let mut rules = Vec::new();
    if let Some(proof) = state.identity.as_ref().and_then(|found| found.proof.as_deref()) {
        rules.push(format!("When you have finished, `{proof}` is run, and has to succeed."));
    }
    if !terms.reviewers.is_empty() {
        rules.push(format!(
            "Then your work is reviewed by {}: they see this task, the diff, and the last thing \
             that you say. So end with what you did, and why in that way.",
            listed(&terms.reviewers)
        ));
    }
    if let Some(signal) = &terms.done {
        rules.push(format!(
            "When everything is done, say so with a last line that has nothing but {signal} in it. \
             Without that line you are asked to go on."
        ));
    }
    match rules.is_empty() {
        true => task,
        false => format!("{task}\n\n---\n{}", rules.join("\n")),
    }
}

fn listed(seats: &[Seat]) -> String {
    seats.iter().map(|seat| seat.name.as_str()).collect::<Vec<_>>().join(" and ")
}

/// What a worker is told that has not said that it is done.
pub(crate) fn unfinished(supervisor: &Supervisor<'_>) -> String {
    let terms = supervisor.state().terms();
    if terms.is_some_and(|terms| terms.case) {
        return prompt::nudge();
    }
    let signal = terms.and_then(|terms| terms.done.as_deref()).unwrap_or_default();
    format!(
        "Go on with the task. When everything is done, end your answer with a last line that has \
         nothing but {signal} in it."
    )
}

/// Whether the session can't go on where its files are not kept: reviewers judge by what has changed,
/// and only what was seen is committed.
pub(crate) fn needs_files(state: &State) -> bool {
    let reviewed = state.terms().is_some_and(|terms| !terms.reviewers.is_empty());
    reviewed || state.terms().is_some() && state.worktree.is_some()
}

/// Why a review can't be: nobody would see what has changed.
fn unmade(why: &dyn std::fmt::Display) -> SessionStopped {
    stop(Reason::Failed, format!("the diff can't be made, so nothing can be reviewed: {why}"))
}

/// Puts the worker's turn before the reviewers.
pub(crate) fn start(supervisor: &mut Supervisor<'_>, shift: &Shift<'_>) -> Result<(), Halt> {
    let state = supervisor.state();
    let first = || state.first_checkpoint.as_ref().and_then(|first| first.commit.clone());
    let from = state.review.last_accepted().map(str::to_owned).or_else(first);
    let to = state.checkpoint.as_ref().and_then(|last| last.commit.clone());
    // What nobody can see can't pass.
    let (Some(start), Some(end)) = (&from, &to) else {
        let why = match &from {
            None => "the files were not kept when the work began",
            Some(_) => "the files were not kept after this turn",
        };
        return Err(unmade(&why).into());
    };
    let snapshots = shift.keeper.snapshots().map_err(|why| unmade(&why))?;
    let (_, total) = snapshots.changes(start, end, 1).map_err(|error| unmade(&error))?;
    let files = Some(total as u64);
    let terms = state.terms().cloned().unwrap_or_default();
    let reviewers = terms.reviewers.iter().map(|seat| seat.name.clone()).collect();
    let started = ReviewStarted { iteration: state.review.iteration, reviewers, from, to, files };
    let draft = supervisor.in_turn(started);
    supervisor.commit(draft).map(drop)
}

/// Asks those who have not spoken yet, side by side, and records each verdict as it comes.
pub(crate) fn review(supervisor: &mut Supervisor<'_>, shift: &mut Shift<'_>) -> Result<(), Halt> {
    let state = supervisor.state();
    // The steps are those of the worker's turn, which is over.
    let caps = Caps { steps: None, ..state.caps_now() };
    if let Some(cap) = caps.against_call(state, supervisor.now()) {
        return Err(capped(cap).into());
    }
    let (Some(terms), Some(round)) = (state.terms().cloned(), state.round().cloned()) else {
        return Ok(());
    };
    let missing: Vec<Seat> = round.missing(&terms).into_iter().cloned().collect();
    for seat in &missing {
        panel::prepare(supervisor, shift, seat)?;
        // A run that was killed may have told it something and not come to say so.
        let theirs = panel::open(supervisor.session().session(), seat)?;
        bridge::note_heard(supervisor, &seat.name, Some(&theirs))?;
    }
    let sittings = sittings(supervisor, shift, missing)?;
    let names: Vec<&str> = sittings.iter().map(|sitting| sitting.seat.name.as_str()).collect();
    let what = format!("the review by {}", names.join(" and "));
    let mut stops = Vec::new();
    panel::sit(supervisor, shift, sittings, &what, |supervisor, returned| {
        count(supervisor, returned, &mut stops)
    })?;
    // What a person wanted comes before what went wrong.
    stops.sort_by_key(|stop| stop.reason != Reason::Interrupted);
    match stops.into_iter().next() {
        Some(stop) => Err(stop.into()),
        None => Ok(()),
    }
}

/// Records what a reviewer came back with.
fn count(
    supervisor: &mut Supervisor<'_>,
    returned: Returned,
    stops: &mut Vec<SessionStopped>,
) -> Result<(), Halt> {
    let Returned { name, session, stopped, outcome, set_aside } = returned;
    let agent = stopped.agent.clone();
    bridge::take_in(supervisor)?;
    bridge::note_heard(supervisor, &name, Some(&session))?;
    let draft = supervisor.in_turn(stopped);
    supervisor.note(draft)?;
    let mut said = match outcome {
        Ok(said) => said,
        Err(mut stop) => {
            // An interrupt is meant for everybody.
            if stop.reason != Reason::Interrupted {
                stop.message = format!("the reviewer {name}: {}", stop.message);
                stop.agent = Some(agent);
            }
            stops.push(stop);
            return Ok(());
        }
    };
    let state = supervisor.state();
    state.review.ledger.name(&name, &mut said.concerns);
    let iteration = state.round().map_or(0, |round| round.iteration);
    let question = question(state);
    if !set_aside.is_empty() {
        let names = set_aside.join(" and ");
        supervisor.warn(format!(
            "{name} raises {names} again: settled before, and nothing new to show for it, so it does \
             not count"
        ))?;
    }
    let given = VerdictGiven { iteration, reviewer: name, agent, said, set_aside };
    let draft = supervisor.in_turn(given).about(question);
    supervisor.commit(draft)?;
    tasks::ledger::write(supervisor.session().session());
    Ok(())
}

/// The reviewers that have not spoken because something stopped them, each with its own session.
pub fn stopped(session: &Session) -> segue_journal::Result<Vec<(String, Session)>> {
    panel::stopped(session)
}

/// What a review is known by, here and in the reviewers' own journals. Where events were lost, they may
/// have judged a turn of this number that nobody knows of any more: there, what they see belongs to the
/// name.
pub(crate) fn question(state: &State) -> String {
    let turn = state.last_turn();
    let seen = state.round().and_then(|round| round.to.as_deref()).filter(|_| state.repairs > 0);
    match seen {
        Some(commit) => format!("review-{turn}-{}", commit.get(..12).unwrap_or(commit)),
        None => format!("review-{turn}"),
    }
}

/// Everything that the reviewers need for this round.
fn sittings(
    supervisor: &Supervisor<'_>,
    shift: &mut Shift<'_>,
    seats: Vec<Seat>,
) -> Result<Vec<Sitting>, Halt> {
    let (state, session) = (supervisor.state(), supervisor.session().session());
    let mut untold = (0, 0);
    for seat in &seats {
        let (tokens, cost) = panel::untold(state, &seat.name, panel::open(session, seat)?.state());
        untold = (untold.0 + tokens, untold.1 + cost);
    }
    let purse = Purse::default();
    let mut sittings = Vec::new();
    for seat in seats {
        let mut sitting = sitting(supervisor, shift, seat, untold)?;
        sitting.purse = purse.shared();
        sittings.push(sitting);
    }
    Ok(sittings)
}

/// Everything that one of them needs.
fn sitting(
    supervisor: &Supervisor<'_>,
    shift: &mut Shift<'_>,
    seat: Seat,
    untold: (u64, u64),
) -> Result<Sitting, Halt> {
    let state = supervisor.state();
    let session = supervisor.session().session();
    let theirs = panel::open(session, &seat)?;
    let (agent, model) = (theirs.state().agent().to_owned(), theirs.state().model());
    let worker = (shift.hire)(&agent, model).map_err(|why| {
        let mut failed = stop(Reason::Failed, format!("the reviewer {}: {why}", seat.name));
        failed.agent = Some(agent.clone());
        failed
    })?;
    let (letters, messages) = bridge::letters(session, &seat.name)?;
    let budget = briefing::budget(worker.context_tokens());
    let text = case(supervisor, shift, |case| {
        render::question(case, &seat.name, &state.review.ledger, &letters, budget)
    })?;
    Ok(Sitting {
        question: question(state),
        text,
        messages,
        worker: Some(worker),
        caps: panel::caps(state, theirs.state(), untold),
        until: panel::until(state),
        purse: Purse::default(),
        dir: theirs.dir().to_owned(),
        ledger: state.review.ledger.clone(),
        fresh: state.terms().is_some_and(|terms| terms.case),
        seat,
    })
}

/// What the reviewers judge by, put together from the journal and from git.
fn case<T>(
    supervisor: &Supervisor<'_>,
    shift: &Shift<'_>,
    with: impl FnOnce(&Case<'_>) -> T,
) -> Result<T, Halt> {
    let (state, session) = (supervisor.state(), supervisor.session().session());
    let round = state.round();
    let identity = state.identity.as_ref();
    let of_list = tasks::for_evaluator(session)?;
    let task = match &of_list {
        Some((task, _)) => task.clone(),
        None => identity.map_or(Ok(String::new()), |found| session.text(&found.prompt))?,
    };
    let requests = requests::requests(session, &task)?;
    let points = round.and_then(|round| Some((round.from.as_ref()?, round.to.as_ref()?)));
    let (mut diff, mut files) = (None, Vec::new());
    if let Some((from, to)) = points {
        // What nobody can see can't pass, also where it could be seen when the review began.
        let snapshots = shift.keeper.snapshots().map_err(|why| unmade(&why))?;
        let made = snapshots.diff_text(from, to, MOST_DIFF);
        let (text, more) = made.map_err(|error| unmade(&error))?;
        diff = Some((String::from_utf8_lossy(&text).into_owned(), more));
        let listed = snapshots.changes(from, to, MOST_FILES);
        let (changed, _) = listed.map_err(|error| unmade(&error))?;
        files = changed.iter().map(|one| one.path.to_string_lossy().into_owned()).collect();
    }
    let proof = last_proof(supervisor)?;
    let command = identity.and_then(|found| found.proof.as_deref()).unwrap_or_default();
    let said = keep::last_text(session, state.last_turn())?.map(|(text, _)| text);
    let said = said.unwrap_or_default();
    let statement = match &of_list {
        Some((_, case)) => case.as_str(),
        None => closing::without_blocks(&said),
    };
    let case = Case {
        iteration: state.review.iteration,
        task: &task,
        requests: &requests,
        diff: diff.as_ref().map(|(text, more)| (text.as_str(), *more)),
        files: &files,
        proof: proof.as_ref().map(|(returned, output)| Proof {
            command,
            exit: returned.exit,
            output,
        }),
        statement,
    };
    Ok(with(&case))
}

/// How the proof of this turn ended, and what it printed.
fn last_proof(supervisor: &Supervisor<'_>) -> Result<Option<(ProofReturned, String)>, Halt> {
    let session = supervisor.session().session();
    for event in session.newest_first()? {
        match event.body {
            Body::ProofReturned(returned) => {
                let output = session.text(&returned.output)?;
                return Ok(Some((returned, output)));
            }
            Body::TurnStarted(_) => break,
            _ => {}
        }
    }
    Ok(None)
}

/// What the worker is told of a round that did not pass.
pub(crate) fn feedback(supervisor: &Supervisor<'_>) -> String {
    let state = supervisor.state();
    let (Some(terms), Some(round)) = (state.terms(), state.round()) else {
        return String::new();
    };
    let ledger = &state.review.ledger;
    let text = match round.empty {
        true => render::nothing_changed(round.iteration, ledger),
        false => render::feedback(round.iteration, &round.verdicts, terms.consensus, ledger),
    };
    with_case(state, text)
}

/// A prompt to mend something, with how to say that it is done where that is asked for.
pub(crate) fn with_case(state: &State, text: String) -> String {
    match state.terms().is_some_and(|terms| terms.case) {
        true => format!("{text}\n{}", prompt::ASK_CASE),
        false => text,
    }
}

/// What a worker is told besides the messages that a turn is for.
pub(crate) fn for_message(state: &State) -> String {
    let text = "Before your work is judged, there is a message for you, below. Do what it says.";
    match state.terms().is_some_and(|terms| terms.case) {
        true => with_case(state, text.to_owned()),
        false => String::new(),
    }
}

/// Why it is done, where there was more to it than the agent's word or the proof's.
pub(crate) fn done_message(state: &State) -> Option<String> {
    let terms = state.terms()?;
    let round = state.round();
    match (terms.reviewers.is_empty(), &terms.done, round) {
        (false, _, Some(round)) if round.empty => {
            Some("nothing has changed since it was let pass".to_owned())
        }
        (false, _, Some(round)) => {
            let passes = |(_, verdict): &&(String, Verdict)| *verdict == Verdict::Pass;
            let passed = round.verdicts.iter().filter(passes).count();
            let all = round.verdicts.len();
            let who = match passed == all {
                true => listed(&terms.reviewers),
                false => format!("{passed} of {all} reviewers"),
            };
            let verb = if passed == all && all == 1 { "lets" } else { "let" };
            Some(format!("{who} {verb} it pass in iteration {}", round.iteration))
        }
        (true, Some(signal), _) => Some(format!("the agent has said {signal}")),
        _ => None,
    }
}
