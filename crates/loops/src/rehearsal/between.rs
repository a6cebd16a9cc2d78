//! Between the turns of a session that runs again.

use segue_core::{
    Payload,
    decide::{self, Next},
    event::{ProofReturned, ProofStarted, ReplayEnd},
};
use segue_runner::{
    Halt, Supervisor,
    supervisor::{Opening, capped},
};

use super::{Left, Rehearsal, bring, tape::Tape};
use crate::{keep::Keeper, rewind, shift::Shift};

/// Between two turns of a session that runs again: what the proof said, or what was asked next, comes
/// from the recording. Says whether that was all there was to do.
pub(crate) fn between(
    supervisor: &mut Supervisor<'_>,
    shift: &mut Shift<'_>,
) -> Result<bool, Halt> {
    let session = supervisor.session().session();
    let Some(tape) = Tape::of(session)? else { return Ok(false) };
    let (own, next) = (supervisor.state().turn.number, decide::next(supervisor.state()));
    if next == Next::Prove
        && let Some(number) = tape.turn(own)
        && let Some((command, proof)) = tape.scene(number)?.proof()
    {
        let output = supervisor.payload(&tape.source.text(&proof.output)?)?;
        let started = ProofStarted { command: command.to_owned() };
        let returned = ProofReturned { output, ..proof.clone() };
        supervisor.note_all(vec![started.into(), returned.into()])?;
        return Ok(true);
    }
    let Some(number) = tape.turn(own + 1) else {
        let tokens = shift.agent.context_tokens();
        if let Some(mut rehearsal) = Rehearsal::open(session, &shift.workspace, tokens)? {
            rehearsal.reach(u32::MAX)?;
            let why = match next {
                Next::Finish => ReplayEnd::Complete,
                _ => ReplayEnd::Exhausted,
            };
            rehearsal.leave(supervisor, Left { why, ..Left::exhausted() })?;
        }
        return Ok(false);
    };
    start_turn(supervisor, shift, &tape, number)
}

/// Opens the next turn with what was asked then; not the first, where a person asks something else.
fn start_turn(
    supervisor: &mut Supervisor<'_>,
    shift: &mut Shift<'_>,
    tape: &Tape,
    number: u32,
) -> Result<bool, Halt> {
    let scene = tape.scene(number)?;
    let Some(opening) = scene.opening() else { return Ok(false) };
    let text = |payload: &Payload| tape.source.text(payload);
    let (prompt, state) = (text(&opening.prompt)?, supervisor.state());
    if let (0, Some(identity)) = (state.turn.number, &state.identity)
        && supervisor.session().session().text(&identity.prompt)? != prompt
    {
        return Ok(false);
    }
    if let Some(cap) = state.caps_now().against(opening.cause, state, supervisor.now()) {
        return Err(capped(cap).into());
    }
    let briefing = opening.briefing.as_ref().map(text).transpose()?;
    supervisor.start_turn(Opening {
        prompt: &prompt,
        cause: opening.cause,
        briefing: briefing.as_deref(),
        question: None,
        messages: Vec::new(),
        fresh: opening.fresh,
    })?;
    if opening.fresh {
        shift.agent.forget();
    }
    Ok(true)
}

/// Brings the files that the recording kept at the end of the turn that has just ended. What is kept
/// of this session next says that it was done.
pub(crate) fn at_turn_end(supervisor: &Supervisor<'_>, keeper: &Keeper) -> Result<(), Halt> {
    let session = supervisor.session().session();
    let Some(tape) = Tape::of(session)? else { return Ok(()) };
    let number = tape.turn(supervisor.state().turn.number);
    let commit = number.map(|number| rewind::files_of(&tape.source, keeper, number));
    match commit {
        Some(Ok(commit)) => bring(supervisor, keeper, &commit),
        _ => Ok(()),
    }
}
