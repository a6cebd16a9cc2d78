//! What the crew itself has to say to a member: its first prompt, what is known of a conversation that
//! is gone, that it was cut off. Each is said once, by its id.

use std::path::Path;

use segue_core::{
    Draft,
    crew::template,
    event::{MessageFailed, MessageSent},
    state::{Crew, CrewMember as Member, PROMPT},
};
use segue_runner::{Halt, Supervisor, briefing};

use super::{Around, CREW, mail};

/// The most that a member is told of an earlier conversation, as if its model took in so much.
const CONTEXT: u64 = 128_000;

/// How the ids of packets begin.
pub(super) const PACKET: &str = "packet-";

/// What is said to somebody whose conversation is gone, after all that it has to know.
const GO_ON: &str = "Your earlier conversation is gone; this is what is known of it. Go on from \
                     there. If nothing is left to do, wait for the next message.";

/// What a member is told first: its prompt, once for each beginning. `order`: the id of the one that
/// wants it to begin again.
pub(super) fn first_words(
    all: &mut Supervisor<'_>,
    around: &Around<'_>,
    crew: &Crew,
    member: &Member,
    order: Option<&str>,
) -> Result<(), Halt> {
    let Some(file) = crew.spec(member).and_then(|spec| spec.prompt.clone()) else { return Ok(()) };
    let session = all.session().session().dir().to_owned();
    let about = member.session.map(|id| id.to_string()).unwrap_or_default();
    if member.prompted > 0 && order.is_none() {
        return Ok(());
    }
    // One that was taken out of the crew before it was told is told again, when it is back.
    let nth = all.state().seq.to_string();
    let id = format!("{PROMPT}{}", &mail::hash(&[CREW, &about, order.unwrap_or(&nth)])[..16]);
    match prompt(crew, &around.name, member, &file, &session) {
        Ok(text) => {
            // Of an earlier beginning, and not told yet: it would be told twice.
            let earlier = unsaid(all, member, PROMPT).filter(|one| *one != id);
            let earlier = earlier.map(str::to_owned).collect();
            take_back(all, member, earlier)?;
            say(all, &id, &member.name, &text)
        }
        Err(why) => all.warn(format!("{}: {why}", member.name)),
    }
}

/// Tells a member whose conversation is gone what is known of it. One that has not been told yet
/// since it was gone before is told that.
pub(super) fn brief(
    all: &mut Supervisor<'_>,
    own: &Supervisor<'_>,
    member: &Member,
) -> Result<(), Halt> {
    if waits(all, member, PACKET) {
        return Ok(());
    }
    let session = own.session().session();
    let agent = session.state().agent().to_owned();
    let budget = briefing::budget(CONTEXT);
    let Some(text) = briefing::briefing(session, &agent, false, GO_ON, budget)? else {
        return Ok(());
    };
    let generation = (member.generation + 1).to_string();
    let id = format!("{PACKET}{}", &mail::hash(&[&session.id().to_string(), &generation])[..16]);
    say(all, &id, &member.name, &text)
}

/// What the crew itself has to say to a member, and has not said yet.
fn unsaid<'a>(
    all: &'a Supervisor<'_>,
    member: &'a Member,
    kind: &'a str,
) -> impl Iterator<Item = &'a str> {
    let waiting = all.state().bridge.waiting_for(&member.name);
    let own = waiting.filter(|one| one.message.from == CREW).map(|one| one.id.as_str());
    own.filter(move |id| id.starts_with(kind))
}

pub(super) fn waits(all: &Supervisor<'_>, member: &Member, kind: &str) -> bool {
    unsaid(all, member, kind).next().is_some()
}

/// What was to be said to a member of another conversation is not said in the one that it begins.
pub(super) fn withdraw(
    all: &mut Supervisor<'_>,
    member: &Member,
    kinds: &[&str],
) -> Result<(), Halt> {
    let of = |kind: &&str| unsaid(all, member, kind).map(str::to_owned).collect::<Vec<_>>();
    let messages = kinds.iter().flat_map(of).collect();
    take_back(all, member, messages)
}

fn take_back(all: &mut Supervisor<'_>, member: &Member, messages: Vec<String>) -> Result<(), Halt> {
    if messages.is_empty() {
        return Ok(());
    }
    let (to, reason) = (member.name.clone(), "it began a new conversation".to_owned());
    all.commit(MessageFailed { to, messages, reason }).map(drop)
}

/// Has the crew itself say something, once for each id.
pub(super) fn say(all: &mut Supervisor<'_>, id: &str, to: &str, text: &str) -> Result<(), Halt> {
    let state = all.state();
    let waits = state.bridge.waiting.iter().any(|waiting| waiting.id == id);
    if waits || state.notes.taken_in.iter().any(|known| known == id) {
        return Ok(());
    }
    let text = all.payload(text)?;
    let sent = MessageSent { from: CREW.to_owned(), to: to.to_owned(), text };
    all.commit(Draft::from(sent).about(id)).map(drop)
}

/// A prompt file as it is now, for one member.
pub(super) fn prompt(
    crew: &Crew,
    name: &str,
    member: &Member,
    file: &str,
    session: &Path,
) -> Result<String, String> {
    let path = crew.raised.project.join(file);
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let wrong = |all: Vec<segue_core::wrong::Wrong>| {
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    template::render(file, &text, &vars(crew, name, member, session)).map_err(wrong)
}

pub(super) fn vars(crew: &Crew, name: &str, member: &Member, session: &Path) -> template::Vars {
    let text = |path: &Path| path.display().to_string();
    let inbox = |name: &str| text(&session.join(mail::INBOX).join(name));
    let others = crew.members.iter().filter(|one| one.name != member.name);
    let peers: Vec<String> = others.map(|one| one.name.clone()).collect();
    let same = crew.members.iter().filter(|one| one.role == member.role).count();
    template::Vars {
        agent: member.name.clone(),
        role: member.role.clone(),
        crew: name.to_owned(),
        instance: member.instance,
        count: u32::try_from(same).unwrap_or(u32::MAX),
        group: member.group.clone().unwrap_or_default(),
        inboxes: peers.iter().map(|peer| (peer.clone(), inbox(peer))).collect(),
        peers,
        root: text(&member.cwd),
        project: text(&crew.raised.project),
        worktree: member.worktree.as_deref().map(text).unwrap_or_default(),
        branch: member.branch.clone().unwrap_or_default(),
        inbox: inbox(&member.name),
        mail: text(&session.join(mail::MAIL).join(&member.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::testing::Scene;

    const ONE: &str = "[[agents]]\nid = \"coder\"\nagent = \"claude\"\nprompt = \"coder.md\"\n";

    #[test]
    fn who_begins_anew_is_told_its_prompt_once_also_where_the_first_one_waits() {
        let mut scene = Scene::new(ONE);
        std::fs::write(scene.project.join("coder.md"), "You are {{agent}}.").unwrap();
        scene.says("file-1", "coder", "Mend it");
        let around = scene.around();
        let mut says = |order: Option<&str>| {
            let (crew, member) = (scene.all.state().crew.clone().unwrap(), scene.member("coder"));
            first_words(&mut scene.all, &around, &crew, &member, order).unwrap();
            let waiting = scene.all.state().bridge.waiting_for("coder");
            waiting.map(|one| one.id.clone()).filter(|id| id.starts_with(PROMPT)).collect()
        };
        let first: Vec<String> = says(None);
        assert_eq!((first.len(), says(None)), (1, first.clone()));
        let second = says(Some("order-1"));
        assert!(second.len() == 1 && second != first, "{first:?} {second:?}");
        // Whoever comes after one that died over it.
        assert_eq!(says(Some("order-1")), second);
        let dead = &scene.all.state().crew.as_ref().unwrap().dead;
        let dead: Vec<&str> = dead.iter().map(|one| one.id.as_str()).collect();
        assert_eq!((dead, scene.waiting("coder")), (vec![first[0].as_str()], 2));
    }
}
