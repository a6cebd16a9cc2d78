//! What an agent is told that was not there: folded from the journal, within a budget.
//!
//! The same for a hand-off, for a vendor that has lost its session, after a rewind, and for an agent
//! that comes back after others have worked: only how much of it is told differs.

use segue_agents::{closing, report};
use segue_core::{
    Event, Packet,
    event::{Body, Cause, ToolStatus},
    packet::{self, Exchange, Facts, Whom, shortened},
    state::Progress,
};
use segue_journal::{Result, Session};

/// The most that a packet's conversation takes in `resume.json`.
pub const FILE_BYTES: usize = 48 << 10;

/// How much of one text, or of one call's input, is told.
pub(crate) const MOST_TEXT: usize = 4 << 10;
pub(crate) const MOST_INPUT: usize = 600;

/// Bytes of a prompt for a model with this context: a quarter of it, since there is work to do too.
#[must_use]
pub fn budget(context_tokens: u64) -> usize {
    let bytes = context_tokens.saturating_mul(3) / 4;
    usize::try_from(bytes).unwrap_or(usize::MAX).clamp(16 << 10, 256 << 10)
}

/// The turns of the conversation, oldest first, as much of its end as fits. With `me`, only those
/// after that agent's own last turn.
#[derive(Debug, Default)]
pub struct Told {
    pub turns: Vec<Exchange>,
    /// The agent's own last turn, where one was met on the way back.
    pub own: Option<u32>,
}

/// Reads the conversation from its end.
pub fn told(session: &Session, me: Option<&str>, budget: usize) -> Result<Told> {
    read_back(session, me, budget, false)
}

/// The conversation for a packet: with the prompt of a turn that is open, and with what of it nobody
/// knows.
pub fn all_told(session: &Session, budget: usize) -> Result<Vec<Exchange>> {
    let mut turns = read_back(session, None, budget, true)?.turns;
    let turn = &session.state().turn;
    if let Some(last) = turns.last_mut().filter(|last| turn.open && last.turn == turn.number) {
        let open = turn.calls().filter(|call| call.progress != Progress::Returned);
        last.steps.extend(open.map(|call| {
            let name = &call.name;
            format!("{name} may have run; see whether it did before you repeat it")
        }));
    }
    Ok(turns)
}

fn read_back(
    session: &Session,
    me: Option<&str>,
    budget: usize,
    open_prompt: bool,
) -> Result<Told> {
    let open = session.state().turn.open.then_some(session.state().turn.number);
    let mut found = Told::default();
    let mut left = budget;
    for event in session.conversed()? {
        let (Some(turn), Some(agent)) = (event.turn, event.agent.as_deref()) else { continue };
        if me == Some(agent) {
            // What it did in the turn under way, it remembers itself.
            if Some(turn) == open {
                continue;
            }
            found.own = Some(turn);
            break;
        }
        let Some(line) = line_of(session, &event)? else { continue };
        let Some(rest) = left.checked_sub(line.text.len()) else { break };
        left = rest;
        let known = found.turns.last().is_some_and(|last: &Exchange| last.turn == turn);
        if !known {
            let agent = session.name_of(agent).to_owned();
            found.turns.push(Exchange { turn, agent, ..Exchange::default() });
        }
        let Some(exchange) = found.turns.last_mut() else { continue };
        match line.prompt {
            // The open turn's prompt stands at the end.
            true if Some(turn) == open && !open_prompt => {}
            true => exchange.prompt = line.text,
            false => exchange.steps.push(line.text),
        }
    }
    for exchange in &mut found.turns {
        exchange.steps.reverse();
    }
    found.turns.retain(|one| !one.steps.is_empty() || !one.prompt.is_empty());
    found.turns.reverse();
    Ok(found)
}

/// The packet of a session, as far as the journal alone knows it.
pub fn packet_of(session: &Session, mut facts: Facts) -> Result<Option<Packet>> {
    let state = session.state();
    let Some(identity) = &state.identity else { return Ok(None) };
    facts.objective = match &identity.packet {
        Some(before) => before.objective.clone(),
        None => session.text(&identity.prompt)?,
    };
    if let Some(before) = &identity.packet {
        let mut turns = before.conversation.clone();
        turns.append(&mut facts.conversation);
        facts.conversation = turns;
    }
    let now = state.updated_at.unwrap_or(identity.created_at);
    Ok(Packet::of(state, facts, now))
}

/// The prompt for an agent that was not there, or that comes back. `None` where there is nothing to
/// tell: nothing has happened yet, or it has all been its own.
pub fn briefing(
    session: &Session,
    agent: &str,
    remembers: bool,
    prompt: &str,
    budget: usize,
) -> Result<Option<String>> {
    let told = told(session, remembers.then_some(agent), budget)?;
    let whom = match told.own {
        Some(since) => Whom::Returning { since },
        None => Whom::Newcomer,
    };
    let begun = session.state().identity.as_ref().is_some_and(|found| found.packet.is_some());
    if told.turns.is_empty() && !(begun && whom == Whom::Newcomer) {
        return Ok(None);
    }
    let facts = Facts { conversation: told.turns, ..Facts::default() };
    let packet = packet_of(session, facts)?;
    Ok(packet.map(|packet| packet::render(&packet, whom, prompt, budget)))
}

struct Line {
    text: String,
    prompt: bool,
}

fn line_of(session: &Session, event: &Event) -> Result<Option<Line>> {
    let step = |text: String| Some(Line { text, prompt: false });
    Ok(match &event.body {
        // What was reported stands in the packet itself, where a person may have changed it.
        Body::ToolCalled(called) if report::is_our_tool(&called.name) => None,
        Body::ToolReturned(returned) if report::is_our_tool(&returned.name) => None,
        Body::TurnStarted(started) => {
            let text = session.text(&started.prompt)?;
            let said = match started.cause {
                Cause::Person | Cause::Unknown => String::new(),
                _ => "(by Segue) ".to_owned(),
            };
            let text = format!("{said}{}", shortened(&text, MOST_TEXT));
            Some(Line { text, prompt: true })
        }
        Body::TextWritten(written) => {
            let text = session.text(&written.text)?;
            let text = closing::without_blocks(&text).trim_end();
            match text.is_empty() {
                true => None,
                false => step(format!("The agent said: {}", shortened(text, MOST_TEXT))),
            }
        }
        Body::ToolCalled(called) => {
            let input = session.text(&called.input)?;
            step(format!("It called {} with {}", called.name, shortened(&input, MOST_INPUT)))
        }
        Body::ToolReturned(returned) => {
            let how = match returned.status {
                ToolStatus::Done => "was done",
                ToolStatus::Failed => "failed",
                ToolStatus::NotRun => "was not run",
                _ => "may have run; see whether it did before you repeat it",
            };
            let exit = returned.exit.map(|code| format!(", exit status {code}"));
            let files = match returned.touched.is_empty() {
                true => String::new(),
                false => format!(", wrote {}", returned.touched.join(", ")),
            };
            let name = &returned.name;
            step(format!("{name} {how}{}{files}", exit.unwrap_or_default()))
        }
        Body::ProofReturned(returned) => {
            let output = session.text(&returned.output)?;
            let how = if returned.passed() { "passed" } else { "failed" };
            step(format!("The proof {how}: {}", shortened(&output, MOST_INPUT)))
        }
        _ => None,
    })
}
