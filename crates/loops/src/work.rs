//! The loop: turns until the work is done, or a cap.
//!
//! "Done" is the reviewers' word where there are any, the proof's where there is a proof command,
//! and the agent's own where there is neither. What comes next is decided from the journal alone
//! ([`segue_core::decide::next`]), so a resumed session goes on in this same loop.

use std::{path::Path, time::Duration};

use segue_agents::native::tools::Ended;
use segue_core::{
    Body, Payload, State,
    decide::{self, Next},
    event::{
        Cause, ChangeCause, Outcome, ProofReturned, ProofStarted, Reason, SessionStopped,
        ToolStatus,
    },
};
use segue_runner::{
    Halt, NATIVE, Supervisor, briefing, shell,
    supervisor::{Opening, capped, stop},
};

use crate::{bridge, launch::Asked, rehearsal, review, shift::Shift, tasks};

/// The longest that a proof may take.
const PROOF_LIMIT: Duration = Duration::from_secs(30 * 60);

const TAKEN_OVER: &str = "Go on with this, from where it stands now:\n\n";

const GO_ON: &str = "Your last reply was cut off at its length limit. Go on from there.";

/// Works until there is a stop that nobody can go on from, and records it. An error means that not
/// even that was possible.
pub(crate) fn run(
    supervisor: &mut Supervisor<'_>,
    shift: &mut Shift<'_>,
    prompt: Option<&Asked>,
) -> Result<SessionStopped, segue_journal::Error> {
    let mut done = tasks::begin(supervisor, shift)
        .and_then(|()| prompted(supervisor, shift, prompt))
        .and_then(|()| work(supervisor, shift));
    loop {
        let stop = match done {
            Ok(stop) => stop,
            Err(Halt::Stop(stop)) => *stop,
            Err(Halt::Journal(error)) => return Err(error),
        };
        done = match shift.goes_on(supervisor, &stop) {
            Ok(false) => return shift.finish(supervisor, stop),
            Ok(true) => work(supervisor, shift),
            Err(halt) => Err(halt),
        };
    }
}

/// A new prompt ends what was open and begins a turn of its own.
fn prompted(
    supervisor: &mut Supervisor<'_>,
    shift: &mut Shift<'_>,
    prompt: Option<&Asked>,
) -> Result<(), Halt> {
    let Some(asked) = prompt else {
        review::end_where_judged(supervisor, shift)?;
        // It may have waited since the run before.
        return shift.requested(supervisor).map(drop);
    };
    if supervisor.state().turn.open {
        shift.settle(supervisor)?;
        supervisor.end_turn(Outcome::Superseded)?;
    }
    shift.boundary(supervisor)?;
    start_asked(supervisor, shift, asked.clone())
}

fn work(supervisor: &mut Supervisor<'_>, shift: &mut Shift<'_>) -> Result<SessionStopped, Halt> {
    loop {
        supervisor.check_interrupt()?;
        if !supervisor.state().turn.open {
            shift.boundary(supervisor)?;
            if rehearsal::between(supervisor, shift)? {
                continue;
            }
        }
        match decide::next(supervisor.state()) {
            Next::StartTask => tasks::start(supervisor, shift)?,
            Next::FirstTurn => {
                let (prompt, cause) = first_prompt(supervisor, shift)?;
                start_turn(supervisor, shift, &prompt, cause)?;
            }
            Next::NoCase => return Ok(no_case(supervisor.state())),
            Next::LetGo => {
                shift.settle(supervisor)?;
                supervisor.end_turn(Outcome::HandedOff)?;
            }
            Next::TakeOver => {
                let prompt = taken_over(supervisor)?;
                start_turn(supervisor, shift, &prompt, Cause::HandOff)?;
            }
            Next::Ask => {
                return Ok(stop(Reason::Rewound, "it was rewound: say what to do instead"));
            }
            Next::ProofTurn => {
                let prompt = proof_prompt(supervisor)?;
                start_turn(supervisor, shift, &prompt, Cause::Proof)?;
            }
            Next::UnfinishedTurn => {
                let prompt = review::unfinished(supervisor);
                start_turn(supervisor, shift, &prompt, Cause::Unfinished)?;
            }
            Next::StartReview => review::start(supervisor, shift)?,
            Next::Review => review::review(supervisor, shift)?,
            Next::ReviewTurn => {
                let prompt = review::feedback(supervisor);
                start_turn(supervisor, shift, &prompt, Cause::Review)?;
            }
            Next::Idle => {
                let message = "no file has changed, also when it was asked again: nothing can pass";
                return Ok(stop(Reason::Looping, message));
            }
            Next::MessageTurn => {
                let prompt = review::for_message(supervisor.state());
                start_turn(supervisor, shift, &prompt, Cause::Message)?;
            }
            Next::Commit => review::commit(supervisor, shift)?,
            Next::GoOn => start_turn(supervisor, shift, GO_ON, Cause::Cut)?,
            Next::Turn => shift.agent.turn(supervisor)?,
            Next::SettleProof => {
                let output = Payload::inline("unknown: it may have run");
                let status = ToolStatus::MayHaveRun;
                supervisor.note(ProofReturned { status, exit: None, output })?;
            }
            Next::Prove => prove(supervisor, &shift.workspace)?,
            Next::GiveUp => return Ok(stop(Reason::Refused, "the model refused the request")),
            Next::Finish => return Ok(stop(Reason::Done, done_message(supervisor))),
        }
    }
}

fn start_turn(
    supervisor: &mut Supervisor<'_>,
    shift: &mut Shift<'_>,
    prompt: &str,
    cause: Cause,
) -> Result<(), Halt> {
    // What is only the rest of an answer answers the same question.
    let question = supervisor.state().turn.question.clone();
    let question = question.filter(|_| !cause.is_another_attempt());
    let fresh = cause == Cause::Task;
    let asked = Asked { text: prompt.to_owned(), cause, question, messages: Vec::new(), fresh };
    start_asked(supervisor, shift, asked)
}

fn start_asked(
    supervisor: &mut Supervisor<'_>,
    shift: &mut Shift<'_>,
    mut asked: Asked,
) -> Result<(), Halt> {
    let state = supervisor.state();
    if let Some(cap) = state.caps_now().against(asked.cause, state, supervisor.now()) {
        return Err(capped(cap).into());
    }
    if let Some(note) = state.first_note() {
        asked.text = format!("{}\n\n{note}", asked.text);
    }
    let session = supervisor.session().session();
    if asked.question.is_none() {
        let (letters, ids) = bridge::letters(session, state.worker())?;
        if !ids.is_empty() {
            let head = if asked.text.is_empty() { "" } else { "\n\nMessages for you:\n" };
            asked.text = format!("{}{head}{letters}", asked.text);
            asked.messages = ids;
        }
    }
    // What a vendor's program is told depends on what it remembers, which its adapter finds out.
    let told = match supervisor.agent() == NATIVE {
        true if asked.fresh => None,
        true => {
            let budget = briefing::budget(shift.agent.context_tokens());
            briefing::briefing(session, NATIVE, true, &asked.text, budget)?
        }
        false => None,
    };
    supervisor.start_turn(Opening {
        prompt: &asked.text,
        cause: asked.cause,
        briefing: told.as_deref(),
        question: asked.question,
        messages: asked.messages,
        fresh: asked.fresh,
    })?;
    if asked.fresh {
        shift.agent.forget();
    }
    Ok(())
}

/// Why a worker that makes no case is not asked again.
fn no_case(state: &State) -> SessionStopped {
    match state.turn.spoke || state.turn.spoke_before {
        true => stop(Reason::NoCase, "the worker made no case for its work, also when asked to"),
        false => stop(Reason::Empty, "the worker said nothing, also when it was asked again"),
    }
}

/// What the agent before had not finished, for the one that goes on.
fn taken_over(supervisor: &Supervisor<'_>) -> Result<String, Halt> {
    let session = supervisor.session().session();
    let last = session.conversed()?.find_map(|event| match event.body {
        Body::TurnStarted(started) => Some(started),
        _ => None,
    });
    let prompt = last.map_or(Ok(String::new()), |started| session.text(&started.prompt))?;
    let prompt = match prompt.starts_with(TAKEN_OVER) {
        true => prompt,
        false => format!("{TAKEN_OVER}{prompt}"),
    };
    let change = session.newest_first()?.find_map(|event| match event.body {
        Body::AgentChanged(change) => Some(Some(change)),
        Body::TurnStarted(_) => Some(None),
        _ => None,
    });
    Ok(match change.flatten().filter(|change| change.cause == ChangeCause::Asked) {
        Some(change) => format!("{prompt}\n\nIt was handed to you by a person: {}", change.reason),
        None => prompt,
    })
}

fn done_message(supervisor: &Supervisor<'_>) -> String {
    if let Some(message) = tasks::done_message(supervisor.state()) {
        return message;
    }
    if let Some(message) = review::done_message(supervisor.state()) {
        return message;
    }
    match proof_command(supervisor) {
        Some(command) => format!("the proof passed: {command}"),
        None => "the agent is done".to_owned(),
    }
}

fn first_prompt(supervisor: &Supervisor<'_>, shift: &Shift<'_>) -> Result<(String, Cause), Halt> {
    if supervisor.state().tasks.is_some() {
        return Ok((tasks::prompt(supervisor, shift)?, Cause::Task));
    }
    match &supervisor.state().identity {
        Some(identity) => {
            let task = supervisor.session().session().text(&identity.prompt)?;
            Ok((review::task(supervisor.state(), task), Cause::Person))
        }
        None => Err(stop(Reason::Failed, "the session has no prompt").into()),
    }
}

fn proof_command(supervisor: &Supervisor<'_>) -> Option<String> {
    supervisor.state().identity.as_ref()?.proof.clone()
}

/// The judge's last word, as a prompt: what was run, how it ended, what it printed.
fn proof_prompt(supervisor: &Supervisor<'_>) -> Result<String, Halt> {
    let session = supervisor.session().session();
    let last = session.newest_first()?.find_map(|event| match event.body {
        Body::ProofReturned(returned) => Some(returned),
        _ => None,
    });
    let command = proof_command(supervisor).unwrap_or_default();
    let output = last.map_or(Ok(String::new()), |returned| session.text(&returned.output))?;
    let text = format!(
        "The work is not done yet: `{command}` still fails. Mend that.\n\nIts output:\n{output}"
    );
    Ok(review::with_case(supervisor.state(), text))
}

/// Runs the proof between its two events.
fn prove(supervisor: &mut Supervisor<'_>, workspace: &Path) -> Result<(), Halt> {
    let Some(command) = proof_command(supervisor) else { return Ok(()) };
    supervisor.commit(ProofStarted { command: command.clone() })?;
    let limit = supervisor.state().identity.as_ref().and_then(|found| found.proof_secs);
    let limit = limit.map_or(PROOF_LIMIT, Duration::from_secs);
    let (status, outcome) = match shell::run(supervisor, workspace, &command, limit) {
        Err(error) => return Err(stop(Reason::Failed, format!("the proof: {error}")).into()),
        Ok(run) => {
            let status = match run.ended {
                Ended::Interrupted => ToolStatus::Interrupted,
                Ended::TimedOut(_) => ToolStatus::Failed,
                _ => ToolStatus::Done,
            };
            (status, run.capture.finish(run.ended))
        }
    };
    let output = supervisor.payload(&outcome.output)?;
    supervisor.note(ProofReturned { status, exit: outcome.status, output })?;
    supervisor.must_end().map_or(Ok(()), |stop| Err(stop.into()))
}
