//! A member's own journal: what its vendor's file tells of the conversation, turn by turn.
//!
//! Whoever sits at a terminal is not started for a turn and does not report to us: a person may type
//! there too. So its turns are read from the vendor's own file, and recorded as everybody's are. A
//! turn is known by the conversation and its place in there, so nothing is recorded twice and
//! nothing is left out, however long nobody looked.

use segue_agents::vendor::{History, LastTurn};
use segue_core::{
    Draft,
    bridge::shown_in,
    event::{Body, Cause, Outcome, TextWritten, TurnStarted},
};
use segue_runner::{Halt, Supervisor};

use super::words::PACKET;

/// How many lines of a screen are kept as the answer of a command that keeps no record.
const SEEN_LINES: usize = 40;

/// Records what is new in a conversation. `over`: nothing more comes for the last turn, and why.
pub(crate) fn conversation(
    member: &mut Supervisor<'_>,
    id: &str,
    history: &History,
    waiting: &[String],
    over: Option<Outcome>,
) -> Result<(), Halt> {
    let known = recorded(member, id)?;
    let last = (history.prompts > 0).then_some(&history.last);
    for (turn, place) in history.earlier.iter().chain(last).zip(1u64..) {
        if place < known {
            continue;
        }
        let mut said = 0;
        match place == known {
            true => said = texts(member)?,
            false => begin(member, id, place, turn, waiting)?,
        }
        for text in turn.texts.iter().filter(|text| !text.trim().is_empty()).skip(said) {
            wrote(member, text)?;
        }
    }
    match over.filter(|_| member.state().turn.open) {
        Some(outcome) => member.end_turn(outcome),
        None => Ok(()),
    }
}

/// Records a prompt and what was seen of the answer, of a command that keeps no record of its own.
pub(crate) fn told(
    member: &mut Supervisor<'_>,
    id: &str,
    prompt: &str,
    messages: Vec<String>,
) -> Result<(), Halt> {
    if member.state().turn.open {
        member.end_turn(Outcome::Finished)?;
    }
    let place = recorded(member, id)? + 1;
    start(member, id, place, prompt, messages)
}

/// Records what the screen of such a one shows at the end of a turn.
pub(crate) fn answered(member: &mut Supervisor<'_>, screen: &str) -> Result<(), Halt> {
    if !member.state().turn.open {
        return Ok(());
    }
    // A screen that is not full ends with lines that nobody has written on.
    let lines: Vec<&str> = screen.trim_end().lines().collect();
    let seen = lines[lines.len().saturating_sub(SEEN_LINES)..].join("\n");
    if !seen.is_empty() {
        wrote(member, seen.trim())?;
    }
    member.end_turn(Outcome::Finished)
}

/// How many turns of a conversation are in the journal.
fn recorded(member: &Supervisor<'_>, id: &str) -> Result<u64, Halt> {
    let place = |question: &str| -> Option<u64> {
        question.rsplit_once('#').filter(|(of, _)| *of == id)?.1.parse().ok()
    };
    let Some(last) = member.state().turn.question.as_deref() else { return Ok(0) };
    if let Some(place) = place(last) {
        return Ok(place);
    }
    // A person may have turned to another one, and back again.
    for event in member.session().session().newest_first()? {
        let turn = matches!(event.body, Body::TurnStarted(_));
        if let Some(place) = event.id.as_deref().filter(|_| turn).and_then(place) {
            return Ok(place);
        }
    }
    Ok(0)
}

fn begin(
    member: &mut Supervisor<'_>,
    id: &str,
    place: u64,
    turn: &LastTurn,
    waiting: &[String],
) -> Result<(), Halt> {
    if member.state().turn.open {
        member.end_turn(Outcome::Finished)?;
    }
    let messages = shown_in(&turn.prompt, waiting.iter().map(String::as_str));
    start(member, id, place, &turn.prompt, messages)
}

fn start(
    member: &mut Supervisor<'_>,
    id: &str,
    place: u64,
    prompt: &str,
    messages: Vec<String>,
) -> Result<(), Halt> {
    // It would be told again in the next one.
    let is_packet = messages.iter().any(|id| id.starts_with(PACKET));
    let prompt =
        if is_packet { "Segue told it what is known of its earlier work." } else { prompt };
    let cause = if messages.is_empty() { Cause::Person } else { Cause::Message };
    let number = member.state().turn.number + 1;
    let started = TurnStarted { messages, ..TurnStarted::new(member.payload(prompt)?, cause) };
    let draft = Draft::from(started).about(format!("{id}#{place}"));
    let agent = member.state().agent().to_owned();
    member.note(draft.in_turn(number, agent)).map(drop)
}

fn wrote(member: &mut Supervisor<'_>, text: &str) -> Result<(), Halt> {
    let text = member.payload(text)?;
    let draft = member.in_turn(TextWritten { text, partial: false });
    member.note(draft).map(drop)
}

/// How many texts of the last turn are in the journal.
fn texts(member: &Supervisor<'_>) -> Result<usize, Halt> {
    let mut count = 0;
    for event in member.session().session().newest_first()? {
        match event.body {
            Body::TextWritten(_) => count += 1,
            Body::TurnStarted(_) => break,
            _ => {}
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::testing::Scene;

    #[test]
    fn the_last_that_stands_on_a_screen_is_the_answer_wherever_it_stands() {
        let mut scene = Scene::new("[[agents]]\nid = \"coder\"\nagent = \"claude\"\n");
        let mut answer = |screen: &str| {
            told(&mut scene.all, "coder", "What is it?", Vec::new()).unwrap();
            answered(&mut scene.all, screen).unwrap();
            let Some(Body::TextWritten(wrote)) = scene.events("text.written").pop() else {
                panic!("nothing was recorded");
            };
            scene.all.session().session().text(&wrote.text).unwrap()
        };
        let blank = "\n".repeat(48);
        assert_eq!(answer(&format!("it is 7\nREADY>{blank}")), "it is 7\nREADY>");
        assert_eq!(answer(&format!("{blank}it is 8\nREADY>\n")), "it is 8\nREADY>");
        let full: Vec<String> = (0..50).map(|line| line.to_string()).collect();
        assert_eq!(answer(&full.join("\n")), full[10..].join("\n"));
    }
}
