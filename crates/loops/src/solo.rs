//! One agent: turns until it is done, or a cap.
//!
//! "Done" is the proof's word where there is a proof command, and the agent's own where there is
//! none. What comes next is decided from the journal alone ([`segue_core::decide::next`]), so a
//! resumed session goes on in this same loop.

use std::{path::Path, time::Duration};

use segue_agents::native::tools::Ended;
use segue_core::{
    Body, Payload,
    decide::{self, Next},
    event::{Cause, Outcome, ProofReturned, ProofStarted, Reason, SessionStopped, ToolStatus},
};
use segue_runner::{
    Agent, Halt, Supervisor, shell,
    supervisor::{capped, stop},
};

/// The longest that a proof may take.
const PROOF_LIMIT: Duration = Duration::from_secs(30 * 60);

const GO_ON: &str = "Your last reply was cut off at its length limit. Go on from there.";

/// Works until there is a stop, and records it. An error means that not even that was possible.
pub fn run(
    supervisor: &mut Supervisor<'_>,
    agent: &mut dyn Agent,
    workspace: &Path,
    prompt: Option<&str>,
) -> Result<SessionStopped, segue_journal::Error> {
    let done =
        prompted(supervisor, agent, prompt).and_then(|()| work(supervisor, agent, workspace));
    match done {
        Ok(stop) => supervisor.finish(stop),
        Err(Halt::Stop(stop)) => supervisor.finish(*stop),
        Err(Halt::Journal(error)) => Err(error),
    }
}

/// A new prompt ends what was open and begins a turn of its own.
fn prompted(
    supervisor: &mut Supervisor<'_>,
    agent: &mut dyn Agent,
    prompt: Option<&str>,
) -> Result<(), Halt> {
    let Some(prompt) = prompt else { return Ok(()) };
    if supervisor.state().turn.open {
        agent.settle(supervisor)?;
        supervisor.end_turn(Outcome::Superseded)?;
    }
    start_turn(supervisor, prompt, Cause::Person)
}

fn work(
    supervisor: &mut Supervisor<'_>,
    agent: &mut dyn Agent,
    workspace: &Path,
) -> Result<SessionStopped, Halt> {
    loop {
        supervisor.check_interrupt()?;
        match decide::next(supervisor.state()) {
            Next::FirstTurn => {
                let prompt = first_prompt(supervisor)?;
                start_turn(supervisor, &prompt, Cause::Person)?;
            }
            Next::ProofTurn => {
                let prompt = proof_prompt(supervisor)?;
                start_turn(supervisor, &prompt, Cause::Proof)?;
            }
            Next::GoOn => start_turn(supervisor, GO_ON, Cause::Cut)?,
            Next::Turn => agent.turn(supervisor)?,
            Next::SettleProof => {
                let output = Payload::inline("unknown: it may have run");
                let status = ToolStatus::MayHaveRun;
                supervisor.note(ProofReturned { status, exit: None, output })?;
            }
            Next::Prove => prove(supervisor, workspace)?,
            Next::GiveUp => return Ok(stop(Reason::Failed, "the model refused the request")),
            Next::Finish => return Ok(stop(Reason::Done, done_message(supervisor))),
        }
    }
}

fn start_turn(supervisor: &mut Supervisor<'_>, prompt: &str, cause: Cause) -> Result<(), Halt> {
    let state = supervisor.state();
    match state.caps.against_turn(state, supervisor.now()) {
        Some(cap) => Err(capped(cap).into()),
        None => supervisor.start_turn(prompt, cause),
    }
}

fn done_message(supervisor: &Supervisor<'_>) -> String {
    match proof_command(supervisor) {
        Some(command) => format!("the proof passed: {command}"),
        None => "the agent is done".to_owned(),
    }
}

fn first_prompt(supervisor: &Supervisor<'_>) -> Result<String, Halt> {
    match &supervisor.state().identity {
        Some(identity) => Ok(supervisor.session().session().text(&identity.prompt)?),
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
    Ok(format!(
        "The work is not done yet: `{command}` still fails. Mend that.\n\nIts output:\n{output}"
    ))
}

/// Runs the proof between its two events.
fn prove(supervisor: &mut Supervisor<'_>, workspace: &Path) -> Result<(), Halt> {
    let Some(command) = proof_command(supervisor) else { return Ok(()) };
    supervisor.commit(ProofStarted { command: command.clone() })?;
    let (status, outcome) = match shell::run(supervisor, workspace, &command, PROOF_LIMIT) {
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
