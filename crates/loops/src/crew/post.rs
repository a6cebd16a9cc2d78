//! What is said to a member at a terminal: typed in when it is ready, and confirmed.
//!
//! That it is about to be typed is recorded before, that it has arrived after the member's own record
//! shows it. In between only that record decides: what stands in there is not typed again, what does
//! not is. Where there is no record to look at, nothing is ever typed twice: what may have arrived
//! goes to the dead letters.
//!
//! A program that is just starting swallows what is typed, and an Enter answers whatever it asks. So
//! nothing is typed before it was ready twice in a row, and no Enter follows while it asks something.

use std::time::{Duration, Instant};

use segue_agents::terminal::{Screen, Sight};
use segue_core::{
    bridge::{mark, shown},
    event::{Delivery, MessageDelivered, MessageFailed, MessagePosted},
    state::{CrewMember as Member, Posted, Waiting},
};
use segue_runner::{
    Halt, Supervisor,
    tmux::seat::{Room, harmless},
};

use super::{CREW, bench::Heard, chair::Chair, record};

/// How many messages, and how much text, go in at once.
const MOST_AT_ONCE: usize = 32;
const MOST_BYTES: usize = 48 << 10;

/// How often a text is typed that does not show up in the conversation.
const MOST_ATTEMPTS: u32 = 3;

/// How often Enter is pressed for one text.
const MOST_ENTERS: u32 = 3;

/// How long a text may take to show up, as long as its reader has nothing else to do.
const PATIENCE: Duration = Duration::from_secs(12);

/// When Enter is pressed again, where the text still stands in the input.
const ENTER_AGAIN: Duration = Duration::from_secs(2);

const READING: Duration = Duration::from_millis(250);

/// What was typed in, as long as we are the ones who did it.
#[derive(Debug)]
pub(crate) struct Typed {
    pub(crate) text: String,
    at: Instant,
    entered: Option<Instant>,
    enters: u32,
    /// Its reader was seen at work since we have sent it off.
    worked: bool,
    /// It is certain that nothing was typed, and why.
    untyped: Option<String>,
}

impl Typed {
    fn new(text: String, entered: Option<Instant>, untyped: Option<String>) -> Self {
        Self { text, at: Instant::now(), entered, enters: 0, worked: false, untyped }
    }

    /// How long ago it was sent off.
    pub(crate) fn since_enter(&self) -> Option<Duration> {
        self.entered.map(|at| at.elapsed())
    }

    fn is_late(&self) -> bool {
        self.since_enter().is_some_and(|since| since > PATIENCE)
    }
}

/// Types in what waits for a member, and sees to it that it arrives.
pub(crate) fn attend(
    chair: &mut Chair,
    all: &mut Supervisor<'_>,
    room: &Room,
    member: &Member,
) -> Result<(), Halt> {
    let Some(pane) = member.pane.as_deref().filter(|_| member.is_up()) else { return Ok(()) };
    match &member.posted {
        Some(posted) => follow(chair, all, room, member, posted, pane),
        // What stands in its input since it was broken off goes first.
        None if chair.is_ready() && std::mem::take(&mut chair.interrupted) => {
            let _ = room.keys(pane, chair.bench.manners().clear);
            chair.same = 0;
            Ok(())
        }
        None if chair.is_ready() => {
            let batch = batch(all, &member.name)?;
            if batch.messages.is_empty() {
                return Ok(());
            }
            // Whatever is wrong with our own books: what stands there is not typed again.
            let conversation = member.vendor_session.as_deref();
            match chair.bench.heard(&member.cwd, conversation, &batch.messages) {
                Heard::These(messages) if !messages.is_empty() => {
                    let (to, by) = (member.name.clone(), Delivery::Prompt);
                    all.commit(MessageDelivered { to, messages, by }).map(drop)
                }
                _ => put(chair, all, room, (member, pane), batch),
            }
        }
        None => Ok(()),
    }
}

/// What goes in at once.
struct Batch {
    text: String,
    messages: Vec<String>,
    attempt: u32,
}

/// What waits for somebody, as one text: the crew's own word for itself, all others together.
fn batch(all: &Supervisor<'_>, name: &str) -> Result<Batch, Halt> {
    let (mut texts, mut messages, mut bytes) = (Vec::new(), Vec::new(), 0);
    let by_crew = |waiting: &&Waiting| waiting.message.from == CREW;
    let waiting = || all.state().bridge.waiting_for(name);
    // What the crew has to say comes first: without it the rest makes no sense.
    for waiting in waiting().filter(by_crew).chain(waiting().filter(|one| !by_crew(one))) {
        let text = text_of(all, waiting)?;
        let alone = by_crew(&waiting);
        let full = messages.len() >= MOST_AT_ONCE || bytes + text.len() > MOST_BYTES;
        if !messages.is_empty() && (alone || full) {
            break;
        }
        bytes += text.len();
        messages.push(waiting.id.clone());
        texts.push(text);
        if alone {
            break;
        }
    }
    Ok(Batch { text: harmless(&texts.join("\n\n")), messages, attempt: 1 })
}

/// A message as it is typed: what the crew itself has to say is said as it is.
fn text_of(all: &Supervisor<'_>, waiting: &Waiting) -> Result<String, Halt> {
    let text = all.session().session().text(&waiting.message.text)?;
    Ok(match waiting.message.from == CREW {
        true => format!("{}\n\n{}", text.trim_end(), mark(&waiting.id)),
        false => shown(&waiting.id, &waiting.message.from, &text),
    })
}

/// What was typed in, or was to be.
fn text_again(all: &Supervisor<'_>, posted: &Posted) -> Result<String, Halt> {
    let these = all.state().bridge.waiting.iter().filter(|one| posted.messages.contains(&one.id));
    let texts = these.map(|one| text_of(all, one)).collect::<Result<Vec<_>, _>>()?;
    Ok(harmless(&texts.join("\n\n")))
}

/// Before a member is started again: what it has been told is recorded as told.
pub(crate) fn settle(
    chair: &mut Chair,
    all: &mut Supervisor<'_>,
    member: &Member,
) -> Result<(), Halt> {
    let Some(posted) = &member.posted else { return Ok(()) };
    let conversation = member.vendor_session.as_deref();
    match chair.bench.heard(&member.cwd, conversation, &posted.messages) {
        Heard::These(found) if found.len() == posted.messages.len() => {
            arrived(chair, all, member, posted)
        }
        _ => Ok(()),
    }
}

fn put(
    chair: &mut Chair,
    all: &mut Supervisor<'_>,
    room: &Room,
    (member, pane): (&Member, &str),
    batch: Batch,
) -> Result<(), Halt> {
    let Batch { text, messages, attempt } = batch;
    chair.scope.begins(all, &member.name)?;
    all.commit(MessagePosted { to: member.name.clone(), messages, attempt })?;
    // A pane that is gone is seen at the next look.
    let untyped = match room.paste(&member.name, pane, &text) {
        Ok(true) => None,
        Ok(false) => Some("its terminal took nothing".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    // What it showed so far was before it was told this.
    chair.same = 0;
    chair.said.clone_from(&text);
    chair.typed = Some(Typed::new(text, None, untyped));
    Ok(())
}

/// Sees what became of what was typed in.
fn follow(
    chair: &mut Chair,
    all: &mut Supervisor<'_>,
    room: &Room,
    member: &Member,
    posted: &Posted,
    pane: &str,
) -> Result<(), Halt> {
    let conversation = member.vendor_session.as_deref();
    if chair.typed.is_none() && chair.bench.keeps_record() {
        // Somebody else has typed it, or was about to: it may still stand in the input.
        let text = text_again(all, posted)?;
        chair.typed = Some(Typed::new(text, Some(Instant::now()), None));
    }
    if let Some(why) = chair.typed.as_ref().and_then(|typed| typed.untyped.clone()) {
        return match chair.is_ready() {
            true => again(chair, all, room, (member, pane), posted, &why),
            false => Ok(()),
        };
    }
    if press_enter(chair, room, &member.name, pane) {
        return Ok(());
    }
    let busy = chair.sight == Sight::Busy;
    if let Some(typed) = chair.typed.as_mut().filter(|typed| typed.entered.is_some()) {
        typed.worked |= busy && typed.enters > 0;
    }
    if chair.read_at.is_some_and(|at| at.elapsed() < READING) {
        return Ok(());
    }
    chair.read_at = Some(Instant::now());
    match chair.bench.heard(&member.cwd, conversation, &posted.messages) {
        Heard::These(found) if found.len() == posted.messages.len() => {
            arrived(chair, all, member, posted)
        }
        Heard::CantTell => match &chair.typed {
            // It was typed by somebody who has died since, or was about to.
            None => {
                failed(chair, all, member, posted, "it may have been typed in, and nobody can tell")
            }
            Some(typed) if typed.entered.is_some() => arrived(chair, all, member, posted),
            Some(_) => Ok(()),
        },
        Heard::These(_) => missing(chair, all, room, (member, pane), posted),
        // It may stand there.
        Heard::Unreadable => Ok(()),
    }
}

/// The Enter after a paste, and once more where it was not taken. Whether there is nothing to do
/// but wait.
fn press_enter(chair: &mut Chair, room: &Room, name: &str, pane: &str) -> bool {
    let manners = chair.bench.manners();
    let screen = Screen { text: &chair.screen, title: &chair.title };
    let Some(typed) = &mut chair.typed else { return false };
    let due = match typed.entered {
        None => typed.at.elapsed() >= manners.gap,
        Some(at) => {
            let first = typed.text.lines().next().unwrap_or_default();
            typed.enters < MOST_ENTERS
                && at.elapsed() >= ENTER_AGAIN
                && chair.sight == Sight::Idle
                && chair.bench.unsent(&screen, first) == Some(true)
        }
    };
    // It would answer the question, or go to what a person is looking at.
    if !due || chair.in_mode || matches!(chair.sight, Sight::Waiting(_)) {
        return typed.entered.is_none();
    }
    if room.enter(name, pane).is_ok_and(|pressed| pressed) {
        typed.entered = Some(Instant::now());
        typed.enters += 1;
    }
    true
}

fn arrived(
    chair: &mut Chair,
    all: &mut Supervisor<'_>,
    member: &Member,
    posted: &Posted,
) -> Result<(), Halt> {
    chair.typed = None;
    // Only from here on it is certain that there is something to answer.
    chair.same = 0;
    match chair.bench.remembers() {
        true => chair.read(all, member, None)?,
        false => {
            let (text, messages) = (text_again(all, posted)?, posted.messages.clone());
            record::told(&mut chair.own, &member.name, &text, messages)?;
        }
    }
    let (to, messages) = (member.name.clone(), posted.messages.clone());
    all.commit(MessageDelivered { to, messages, by: Delivery::Prompt }).map(drop)
}

/// It is not in the conversation: it may still come, it is typed again, or it is given up.
fn missing(
    chair: &mut Chair,
    all: &mut Supervisor<'_>,
    room: &Room,
    (member, pane): (&Member, &str),
    posted: &Posted,
) -> Result<(), Halt> {
    if !chair.is_ready() || !chair.typed.as_ref().is_some_and(Typed::is_late) {
        return Ok(());
    }
    // A person may have turned to another conversation just before: it is looked for there first.
    if chair.turned(all, member)? {
        chair.read_at = None;
        return Ok(());
    }
    // Nobody knows where to look, and it went to work on something.
    let lost = member.vendor_session.is_none() && chair.bench.remembers();
    if lost && chair.typed.as_ref().is_some_and(|typed| typed.worked) {
        return arrived(chair, all, member, posted);
    }
    let why = format!("typed in {MOST_ATTEMPTS} times, and never seen in its conversation");
    again(chair, all, room, (member, pane), posted, &why)
}

/// Types it in once more, or gives it up where that was done often enough.
fn again(
    chair: &mut Chair,
    all: &mut Supervisor<'_>,
    room: &Room,
    (member, pane): (&Member, &str),
    posted: &Posted,
    why: &str,
) -> Result<(), Halt> {
    if posted.attempt >= MOST_ATTEMPTS {
        chair.typed = None;
        return failed(chair, all, member, posted, why);
    }
    let _ = room.keys(pane, chair.bench.manners().clear);
    let (messages, attempt) = (posted.messages.clone(), posted.attempt + 1);
    let batch = Batch { text: text_again(all, posted)?, messages, attempt };
    put(chair, all, room, (member, pane), batch)
}

fn failed(
    chair: &mut Chair,
    all: &mut Supervisor<'_>,
    member: &Member,
    posted: &Posted,
    reason: &str,
) -> Result<(), Halt> {
    // If it was told all the same, its answer is looked for from here on.
    chair.same = 0;
    let (to, messages) = (member.name.clone(), posted.messages.clone());
    all.commit(MessageFailed { to, messages, reason: reason.to_owned() }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use segue_agents::vendor::World;
    use segue_core::Body;

    use super::*;
    use crate::crew::{
        bench::Bench,
        scope::Scope,
        testing::{Scene, look, vendors},
    };

    const ONE: &str = "[[agents]]\nid = \"coder\"\ncommand = \"sh\"\nready = \"READY\"\n";

    /// Somebody at a terminal to whom something is to be said, the scene of its own session, and the
    /// place of a transcript.
    fn scene() -> (Scene, Scene, PathBuf) {
        let mut scene = Scene::new(ONE);
        scene.sits("coder");
        scene.says("file-1", "coder", "Mend it");
        let transcript = scene.project.with_file_name("told");
        (scene, Scene::new(ONE), transcript)
    }

    /// Somebody who was ready for a while.
    fn chair(scene: &Scene, own: Supervisor<'static>, transcript: Option<&Path>) -> Chair {
        let member = scene.member("coder");
        let spec = scene.all.state().crew.as_ref().unwrap().spec(&member).unwrap();
        let bench = Bench::command(spec, transcript.map(Path::to_owned), World::default());
        ready(Chair::new(bench, own, Scope::default()))
    }

    fn ready(mut chair: Chair) -> Chair {
        (chair.sight, chair.same) = (Sight::Idle, 3);
        chair
    }

    fn posted(scene: &mut Scene) {
        let (to, messages) = ("coder".to_owned(), vec!["file-1".to_owned()]);
        scene.all.commit(MessagePosted { to, messages, attempt: 1 }).unwrap();
    }

    fn attend(chair: &mut Chair, scene: &mut Scene) {
        let (member, room) = (scene.member("coder"), scene.room());
        super::attend(chair, &mut scene.all, &room, &member).unwrap();
    }

    fn long_ago() -> Option<Instant> {
        Instant::now().checked_sub(Duration::from_secs(30))
    }

    #[test]
    fn what_stands_in_the_conversation_is_not_typed_whatever_the_journal_says() {
        let (mut scene, own, transcript) = scene();
        std::fs::write(&transcript, mark("file-1")).unwrap();
        let mut chair = chair(&scene, own.all, Some(&transcript));
        attend(&mut chair, &mut scene);
        assert_eq!((scene.waiting("coder"), scene.events("message.posted").len()), (0, 0));
        // And what does not is.
        scene.says("file-2", "coder", "Mend that too");
        attend(&mut chair, &mut scene);
        assert_eq!((scene.waiting("coder"), scene.events("message.posted").len()), (1, 1));
    }

    #[test]
    fn nothing_is_typed_again_while_nobody_can_read_what_stands_there() {
        let (mut scene, own, transcript) = scene();
        posted(&mut scene);
        std::fs::create_dir(&transcript).unwrap();
        let mut chair = chair(&scene, own.all, Some(&transcript));
        let late = || Some(Typed::new("Mend it".to_owned(), long_ago(), None));
        for _ in 0..5 {
            (chair.typed, chair.read_at) = (late(), None);
            attend(&mut chair, &mut scene);
        }
        assert_eq!((scene.waiting("coder"), scene.events("message.posted").len()), (1, 1));
        // It can be read, and it is not there.
        std::fs::remove_dir(&transcript).unwrap();
        (chair.typed, chair.read_at) = (late(), None);
        attend(&mut chair, &mut scene);
        assert_eq!(scene.member("coder").posted.unwrap().attempt, 2);

        // The same of a vendor's own file.
        let bench = vendors("cursor", "claude");
        let heard = |id| bench.heard(Path::new("/"), id, &["file-1".to_owned()]);
        assert_eq!(heard(Some("v")), Heard::Unreadable);
        assert_eq!(heard(None), Heard::These(Vec::new()));
    }

    #[test]
    fn what_may_have_been_typed_by_one_who_died_is_given_up_where_nobody_can_tell() {
        let (mut scene, own, _) = scene();
        posted(&mut scene);
        let mut chair = chair(&scene, own.all, None);
        attend(&mut chair, &mut scene);
        let dead = &scene.all.state().crew.as_ref().unwrap().dead;
        assert_eq!(dead[0].reason, "it may have been typed in, and nobody can tell");
        assert_eq!((dead.len(), scene.waiting("coder"), chair.same), (1, 0, 0));
    }

    #[test]
    fn where_a_conversation_is_not_found_that_is_said_once() {
        let (mut scene, own, _) = scene();
        let mut chair = Chair::new(vendors("codex", "codex"), own.all, Scope::default());
        let (around, room) = (scene.around(), scene.room());
        let mut warned = |chair: &mut Chair| {
            let member = scene.member("coder");
            chair.look(&mut scene.all, &around, &room, &member, look("")).unwrap();
            scene.events("warning.raised").len()
        };
        chair.typed = Some(Typed::new("Mend it".to_owned(), Some(Instant::now()), None));
        assert_eq!(warned(&mut chair), 0);
        chair.typed = Some(Typed::new("Mend it".to_owned(), long_ago(), None));
        for _ in 0..2 {
            chair.asked_at = None;
            assert_eq!(warned(&mut chair), 1);
        }
        let Body::WarningRaised(said) = &scene.events("warning.raised")[0] else { panic!() };
        assert!(said.message.starts_with("coder: what its vendor calls its conversation was not"));
    }
}
