//! What waits for the worker of a session, and whether it gets that when the session goes on.

use segue_core::{
    bridge::PERSON,
    decide::{self, Next},
};
use segue_journal::Session;
use segue_loops::bridge;

/// When what waits reaches the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    NextTurn,
    /// If there is another turn: that is for the reviewers to say.
    Perhaps,
    /// Only when it is asked for something else.
    NextPrompt,
}

/// How many messages wait, and when they reach the worker; `asked` where it is asked for more anyway.
pub(crate) fn waiting(session: &Session, asked: bool) -> (usize, Reach) {
    let state = session.state();
    let letters = bridge::waiting_for(session, state.worker()).unwrap_or_default();
    let by_person = letters.iter().any(|letter| letter.from == PERSON);
    let reach = match decide::next(state) {
        _ if asked => Reach::NextTurn,
        Next::Ask | Next::GiveUp => Reach::NextPrompt,
        // All of a list is done.
        Next::Finish if state.tasks.is_some() => Reach::NextPrompt,
        // What a person has to say is a turn of its own.
        _ if by_person => Reach::NextTurn,
        Next::Finish | Next::Commit => Reach::NextPrompt,
        Next::Turn
        | Next::SettleProof
        | Next::Prove
        | Next::NoCase
        | Next::StartReview
        | Next::Review => Reach::Perhaps,
        _ => Reach::NextTurn,
    };
    (letters.len(), reach)
}

/// The line of the plan.
pub(crate) fn note(session: &Session, asked: bool) -> Option<(&'static str, String)> {
    let (count, reach) = waiting(session, asked);
    let them = if count == 1 { "it" } else { "them" };
    let how = match reach {
        Reach::NextTurn => format!("which gets {them}"),
        Reach::Perhaps => format!("which gets {them} with its next turn, if it has another"),
        Reach::NextPrompt => format!("which gets {them} when it is asked for more"),
    };
    (count > 0).then(|| ("messages", format!("{count} for the worker, {how}")))
}
