//! Messages as files, for agents that know nothing else.
//!
//! `inbox/<member>/` takes what is for a member: a file of any name, written under another one
//! (`.name`, `name.tmp`) and renamed. It is recorded under an id made of its name, its time and its
//! content, and only then moved to `inbox/<member>/.taken/`. What there is no room for stays where it is until
//! there is: nothing is dropped, and nobody who does not read keeps the others from being heard. For a member that is told by files, `mail/<member>/` gets one
//! for each message, whole when it appears.
//!
//! A name may say who it is from and what it is about:
//! `2026-11-16T10-00-00__from-tester__to-coder__topic-review.md`. The topics `_RESTART`,
//! `_INTERRUPT` and `_ATTENTION` are orders.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use segue_core::{
    Draft,
    bridge::{LONGEST, PERSON},
    event::{Delivery, MessageDelivered, MessageFailed, MessageSent},
    inbox::Control,
    state::CrewMember as Member,
};
use segue_journal::Disk;
use segue_runner::{Halt, Supervisor};

use super::CREW;
use crate::bridge::has_room;

/// Where files for members are put, and where those for members who read files are.
pub(crate) const INBOX: &str = "inbox";
pub(crate) const MAIL: &str = "mail";

/// Where files go that were taken in.
const TAKEN: &str = ".taken";

/// A file that was changed so lately may not be whole, where its writer renames nothing.
const SETTLED: Duration = Duration::from_millis(400);

/// Who a file is from that does not say.
const NOBODY: &str = "file";

/// The topic that breaks off what a member does.
const INTERRUPT: &str = "_INTERRUPT";

/// What a file's name says.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    from: String,
    topic: Option<String>,
}

fn named(name: &str) -> Named {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let part = |key: &str| {
        let at = stem.split("__").find_map(|part| part.strip_prefix(key))?;
        (!at.is_empty()).then(|| at.to_owned())
    };
    // What the crew itself says is told in another way.
    let from = part("from-").filter(|from| from != CREW);
    Named { from: from.unwrap_or_else(|| NOBODY.to_owned()), topic: part("topic-") }
}

/// Makes the directories, so that whoever writes there finds them.
pub(crate) fn prepare(session: &Path, members: &[Member]) -> io::Result<()> {
    for member in members {
        fs::create_dir_all(session.join(INBOX).join(&member.name).join(TAKEN))?;
    }
    Ok(())
}

/// Something that is to be done, because a file says so.
pub(crate) struct Order {
    /// The file's.
    pub(crate) id: String,
    pub(crate) what: Control,
    pub(crate) path: PathBuf,
    /// What it says besides has no room yet: it is a message like any other once it is obeyed.
    pub(crate) says_more: bool,
}

/// Takes in what lies in the inboxes. What is returned is to be done.
pub(crate) fn take_in(all: &mut Supervisor<'_>) -> Result<Vec<Order>, Halt> {
    let mut orders = Vec::new();
    for letter in letters(all, SETTLED) {
        // Whoever is stuck is the one who is to be restarted: orders need no room.
        let is_order = order_of(&letter).is_some();
        if is_order || is_known(all, &letter.id) || has_room(all.state(), &letter.to) {
            orders.extend(one(all, letter)?);
        }
    }
    Ok(orders)
}

/// Moves what a watcher had recorded that died before the file was moved. The journal knows the last
/// ids only: so this comes before anything else is recorded. What is returned is still to be done.
pub(crate) fn settle(all: &mut Supervisor<'_>) -> Result<Vec<Order>, Halt> {
    let mut orders = Vec::new();
    // However young they seem by the clock as it is now.
    for letter in letters(all, Duration::ZERO) {
        if is_known(all, &letter.id) {
            orders.extend(one(all, letter)?);
        }
    }
    Ok(orders)
}

fn is_known(all: &Supervisor<'_>, id: &str) -> bool {
    all.state().notes.taken_in.iter().any(|known| known == id)
}

/// What waits for somebody who is not there will not arrive.
pub(crate) fn give_up(all: &mut Supervisor<'_>) -> Result<(), Halt> {
    let Some(crew) = &all.state().crew else { return Ok(()) };
    let mut lost: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for waiting in &all.state().bridge.waiting {
        let to = &waiting.message.to;
        if to != PERSON && crew.member(to).is_none() {
            lost.entry(to.clone()).or_default().push(waiting.id.clone());
        }
    }
    let left: Vec<String> = crew.left.clone();
    for (to, messages) in lost {
        let reason = match left.contains(&to) {
            true => "it has left the crew".to_owned(),
            false => format!("there is no member {to}"),
        };
        all.commit(MessageFailed { to, messages, reason })?;
    }
    Ok(())
}

/// A file that is a message, and whole.
struct Letter {
    /// Made of its name, its time and its content.
    id: String,
    to: String,
    path: PathBuf,
    name: String,
    text: String,
}

/// What lies in the inboxes unchanged for so long, by member and name.
fn letters(all: &Supervisor<'_>, quiet: Duration) -> Vec<Letter> {
    let inbox = all.session().session().dir().join(INBOX);
    let mut found = Vec::new();
    for dir in sorted(&inbox).into_iter().filter(|path| path.is_dir()) {
        let to = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if to.starts_with('.') {
            continue;
        }
        for path in sorted(&dir) {
            let Some((text, time)) = whole(&path, quiet) else { continue };
            let name = path.file_name().unwrap_or_default();
            let parts = [to.as_bytes(), name.as_encoded_bytes(), text.as_bytes(), time.as_bytes()];
            let id = format!("file-{}", &hash_bytes(&parts)[..16]);
            let name = name.to_string_lossy().into_owned();
            found.push(Letter { id, to: to.clone(), path, name, text });
        }
    }
    found
}

fn sorted(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

/// The content of a file that is a message, and whole; and when it was written.
fn whole(path: &Path, quiet: Duration) -> Option<(String, String)> {
    let name = path.file_name()?.to_string_lossy();
    let unfinished = [".tmp", ".part", ".swp", "~"].iter().any(|end| name.ends_with(end));
    let found = fs::symlink_metadata(path).ok()?;
    if name.starts_with('.') || unfinished || !found.is_file() {
        return None;
    }
    let time = found.modified().ok()?;
    let age = SystemTime::now().duration_since(time).unwrap_or(SETTLED);
    if age < quiet {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    Some((String::from_utf8_lossy(&bytes).into_owned(), format!("{time:?}")))
}

/// What is to be done by a letter's name.
fn order_of(letter: &Letter) -> Option<Control> {
    let (Named { from, topic }, member) = (named(&letter.name), letter.to.clone());
    match topic.as_deref() {
        Some("_RESTART") => Some(Control::Restart { member, fresh: false }),
        Some(INTERRUPT) => Some(Control::Interrupt { member }),
        Some("_ATTENTION") => {
            let text = letter.text.trim();
            let text = if text.is_empty() { "attention" } else { text };
            Some(Control::Attention { from, text: text.to_owned() })
        }
        _ => None,
    }
}

/// Records a letter, once. An order's file goes when the order is done, any other one now.
fn one(all: &mut Supervisor<'_>, letter: Letter) -> Result<Option<Order>, Halt> {
    let what = order_of(&letter);
    let Letter { id, to, path, name, text } = letter;
    let text = text.trim();
    // An interrupt may have something to say besides.
    let says = match &what {
        None => true,
        Some(order) => !text.is_empty() && matches!(order, Control::Interrupt { .. }),
    };
    let new = says && !is_known(all, &id);
    let says_more = new && what.is_some() && !has_room(all.state(), &to);
    if new && !says_more {
        record(all, &id, named(&name).from, &to, text)?;
    }
    if what.is_none() {
        taken(&path);
    }
    Ok(what.map(|what| Order { id, what, path, says_more }))
}

fn record(
    all: &mut Supervisor<'_>,
    id: &str,
    from: String,
    to: &str,
    text: &str,
) -> Result<(), Halt> {
    let wrong = match text.len() {
        0 => Some("it is empty".to_owned()),
        length if length > LONGEST => Some(format!("too long: {length} bytes, {LONGEST} at most")),
        _ => None,
    };
    let text = all.payload(text)?;
    let to = to.to_owned();
    all.commit(Draft::from(MessageSent { from, to: to.clone(), text }).about(id))?;
    match wrong {
        Some(reason) => {
            let messages = vec![id.to_owned()];
            all.commit(MessageFailed { to, messages, reason }).map(drop)
        }
        None => Ok(()),
    }
}

/// Moves a file out of the way: it is in the journal, or done.
pub(crate) fn taken(path: &Path) {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return };
    let into = dir.join(TAKEN);
    let _ = fs::create_dir_all(&into);
    // One that can't be moved would be looked at for ever.
    if fs::rename(path, free(&into, name)).is_err() {
        let _ = fs::remove_file(path);
    }
}

/// Takes the order out of the name of a file: it was obeyed, and what it says is still to be told.
pub(crate) fn as_message(path: &Path) {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return };
    let name = name.to_string_lossy().replace(&format!("topic-{INTERRUPT}"), "topic-");
    let _ = fs::rename(path, free(dir, name.as_ref()));
}

/// A name that no file has.
fn free(dir: &Path, name: &OsStr) -> PathBuf {
    let mut free = dir.join(name);
    let mut number = 1;
    while free.exists() {
        number += 1;
        free = dir.join(format!("{}.{number}", name.to_string_lossy()));
    }
    free
}

/// Puts what waits for a member that reads files into its directory.
pub(crate) fn hand_out(all: &mut Supervisor<'_>, member: &Member) -> Result<(), Halt> {
    let session = all.session().session();
    let dir = session.dir().join(MAIL).join(&member.name);
    let mut messages = Vec::new();
    for waiting in all.state().bridge.waiting_for(&member.name) {
        let text = session.text(&waiting.message.text)?;
        let number = all.state().bridge.delivered + messages.len() as u64 + 1;
        let from = segue_runner::tmux::plain_name(&waiting.message.from);
        let name =
            format!("{number:06}__from-{from}__{}.md", segue_core::bridge::short(&waiting.id));
        put(&**session.disk(), &dir, &waiting.id, &name, &text)?;
        messages.push(waiting.id.clone());
    }
    if messages.is_empty() {
        return Ok(());
    }
    let to = member.name.clone();
    all.commit(MessageDelivered { to, messages, by: Delivery::File }).map(drop)
}

/// Once for each id: whoever died before it was recorded has written it already.
fn put(disk: &dyn Disk, dir: &Path, id: &str, name: &str, text: &str) -> Result<(), Halt> {
    let at = |source| segue_journal::Error::Io { path: dir.to_owned(), source };
    disk.create_dir_all(dir).map_err(at)?;
    let ending = format!("__{}.md", segue_core::bridge::short(id));
    let there = disk.list(dir).map_err(at)?.iter().any(|name| name.ends_with(&ending));
    match there {
        true => Ok(()),
        false => Ok(disk.replace(&dir.join(name), text.as_bytes()).map_err(at)?),
    }
}

/// What was said to the person: they are told, and that is all.
pub(crate) fn for_the_person(all: &mut Supervisor<'_>) -> Result<Vec<(String, String)>, Halt> {
    let session = all.session().session();
    let (mut told, mut messages) = (Vec::new(), Vec::new());
    for waiting in all.state().bridge.waiting_for(PERSON) {
        told.push((waiting.message.from.clone(), session.text(&waiting.message.text)?));
        messages.push(waiting.id.clone());
    }
    if !messages.is_empty() {
        let to = PERSON.to_owned();
        all.commit(MessageDelivered { to, messages, by: Delivery::Notice })?;
    }
    Ok(told)
}

pub(crate) fn hash(parts: &[&str]) -> String {
    hash_bytes(&parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>())
}

fn hash_bytes(parts: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use segue_core::{event::MemberLeft, inbox::Message, state::MOST_WAITING};
    use segue_journal::RealDisk;

    use super::*;
    use crate::{bridge, crew::testing::Scene, tools};

    #[test]
    fn a_name_may_say_who_it_is_from_and_what_it_is_about() {
        let all = named("2026-11-16T10-00-00__from-tester__to-coder__topic-_RESTART.md");
        assert_eq!((all.from.as_str(), all.topic.as_deref()), ("tester", Some("_RESTART")));
        let plain = named("note.md");
        assert_eq!((plain.from.as_str(), plain.topic), (NOBODY, None));
    }

    #[test]
    fn what_is_not_whole_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, age: u64| {
            let path = dir.path().join(name);
            std::fs::write(&path, "x").unwrap();
            let then = SystemTime::now() - Duration::from_secs(age);
            std::fs::File::open(&path).unwrap().set_modified(then).unwrap();
            path
        };
        assert_eq!(whole(&put("a.md", 5), SETTLED).map(|(text, _)| text).as_deref(), Some("x"));
        for name in [".a.md", "a.md.tmp", "a.part"] {
            assert_eq!(whole(&put(name, 5), SETTLED), None, "{name}");
        }
        let young = dir.path().join("young");
        std::fs::write(&young, "x").unwrap();
        assert_eq!(whole(&young, SETTLED), None);
    }

    const TWO: &str = "[[agents]]\nid = \"ada\"\nagent = \"claude\"\n\
        [[agents]]\nid = \"bob\"\nagent = \"claude\"\n";

    /// A file that has been there for a while.
    fn put(scene: &Scene, to: &str, name: impl AsRef<Path>, text: &str) -> PathBuf {
        let dir = scene.dir().join(INBOX).join(to);
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        let then = SystemTime::now() - Duration::from_secs(5);
        fs::File::open(&path).unwrap().set_modified(then).unwrap();
        path
    }

    fn reasons(scene: &Scene) -> Vec<String> {
        let dead = &scene.all.state().crew.as_ref().unwrap().dead;
        dead.iter().map(|letter| format!("{}: {}", letter.to, letter.reason)).collect()
    }

    #[test]
    fn who_does_not_read_takes_nobody_elses_room() {
        let mut scene = Scene::new(TWO);
        for number in 0..MOST_WAITING {
            put(&scene, "ada", format!("{number:03}.md"), "words");
        }
        put(&scene, "bob", "hello.md", "hello");
        let said = |to: &str, occasion: u64| {
            let (from, to, text) = (PERSON.to_owned(), to.to_owned(), "words".to_owned());
            Message::Said { from, to, text, occasion }
        };
        for (to, number) in [("ada", 1), ("bob", 2)] {
            tools::put(&RealDisk, &scene.dir(), &said(to, number)).unwrap();
        }
        assert!(take_in(&mut scene.all).unwrap().is_empty());
        bridge::take_in(&mut scene.all).unwrap();
        assert_eq!((scene.waiting("ada"), scene.waiting("bob")), (116, 2));
        // What there is no room for is where it was, and comes when there is.
        let waiting = scene.all.state().bridge.waiting_for("ada");
        let messages: Vec<String> = waiting.map(|one| one.id.clone()).collect();
        let (to, by) = ("ada".to_owned(), Delivery::File);
        scene.all.commit(MessageDelivered { to, messages, by }).unwrap();
        bridge::take_in(&mut scene.all).unwrap();
        take_in(&mut scene.all).unwrap();
        assert_eq!(scene.waiting("ada"), 116);
        assert!(scene.dir().join("inbox/ada/255.md").exists());
    }

    #[test]
    fn orders_need_no_room_and_what_they_say_waits_for_it() {
        let mut scene = Scene::new(TWO);
        for number in 0..MOST_WAITING {
            put(&scene, "ada", format!("{number:03}.md"), "words");
        }
        let person = "z__from-bob__topic-_ATTENTION.md";
        let says = "z__from-bob__topic-_INTERRUPT.md";
        put(&scene, "ada", "z__topic-_RESTART.md", "");
        put(&scene, "ada", person, "It is stuck");
        let said = put(&scene, "ada", says, "Read this first");
        put(&scene, "ada", "z__topic-_INTERRUPT.md", "");
        let orders = take_in(&mut scene.all).unwrap();
        let whats: Vec<&Control> = orders.iter().map(|one| &one.what).collect();
        let member = "ada".to_owned();
        let interrupt = Control::Interrupt { member: member.clone() };
        let attention =
            Control::Attention { from: "bob".to_owned(), text: "It is stuck".to_owned() };
        let restart = Control::Restart { member, fresh: false };
        assert_eq!(whats, [&attention, &interrupt, &interrupt, &restart]);
        let more: Vec<bool> = orders.iter().map(|one| one.says_more).collect();
        assert_eq!((more, scene.waiting("ada")), (vec![false, true, false, false], 116));

        // It is obeyed, and once there is room it is told what that was about.
        as_message(&said);
        orders.iter().filter(|one| !one.says_more).for_each(|one| taken(&one.path));
        let waiting = scene.all.state().bridge.waiting_for("ada");
        let messages: Vec<String> = waiting.map(|one| one.id.clone()).collect();
        let (to, by) = ("ada".to_owned(), Delivery::File);
        scene.all.commit(MessageDelivered { to, messages, by }).unwrap();
        fs::read_dir(scene.dir().join("inbox/ada"))
            .unwrap()
            .flatten()
            .filter(|file| file.file_name().to_string_lossy().starts_with(['1', '2']))
            .for_each(|file| fs::remove_file(file.path()).unwrap());
        assert!(take_in(&mut scene.all).unwrap().is_empty());
        let waiting = scene.all.state().bridge.waiting_for("ada");
        let said = waiting.filter(|one| one.message.from == "bob").count();
        assert_eq!(said, 1);
    }

    #[test]
    fn what_is_for_somebody_who_is_not_there_is_a_dead_letter() {
        let mut scene = Scene::new(TWO);
        put(&scene, "nobody", "x.md", "is there anybody?");
        take_in(&mut scene.all).unwrap();
        // By the tool, just when it was taken out.
        let said = Message::Said {
            from: "ada".to_owned(),
            to: "bob".to_owned(),
            text: "are you there?".to_owned(),
            occasion: 1,
        };
        tools::put(&RealDisk, &scene.dir(), &said).unwrap();
        let left = MemberLeft { member: "bob".to_owned(), reason: "removed".to_owned() };
        scene.all.commit(left).unwrap();
        bridge::take_in(&mut scene.all).unwrap();
        give_up(&mut scene.all).unwrap();
        assert_eq!(
            reasons(&scene),
            ["bob: it has left the crew", "nobody: there is no member nobody"]
        );
        assert!(scene.all.state().bridge.waiting.is_empty());
    }

    #[test]
    fn no_file_vanishes_and_none_lies_there_for_ever() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
        let mut scene = Scene::new(TWO);
        put(&scene, "ada", "empty.md", " \n");
        put(&scene, "ada", "long.md", &"x".repeat(LONGEST + 1));
        put(&scene, "ada", OsStr::from_bytes(b"gr\xfc\xdfe.md"), "hello");
        take_in(&mut scene.all).unwrap();
        assert_eq!(scene.waiting("ada"), 1);
        let too_long = format!("ada: too long: {} bytes, {LONGEST} at most", LONGEST + 1);
        assert_eq!(reasons(&scene), ["ada: it is empty", &too_long]);
        assert_eq!(sorted(&scene.dir().join("inbox/ada")).len(), 1, "only .taken");
        // An order needs no words.
        put(&scene, "ada", "x__topic-_RESTART.md", "");
        let orders = take_in(&mut scene.all).unwrap();
        assert_eq!(orders[0].what, Control::Restart { member: "ada".to_owned(), fresh: false });
        assert_eq!(reasons(&scene).len(), 2);
    }

    #[test]
    fn what_was_recorded_and_not_moved_goes_before_anything_is_recorded() {
        let mut scene = Scene::new(TWO);
        let path = put(&scene, "bob", "z__topic-_INTERRUPT.md", "only once");
        assert_eq!(take_in(&mut scene.all).unwrap().len(), 1);
        let plain = put(&scene, "bob", "plain.md", "once too");
        take_in(&mut scene.all).unwrap();
        fs::rename(scene.dir().join("inbox/bob/.taken/plain.md"), &plain).unwrap();
        put(&scene, "ada", "new.md", "not yet");
        let orders = settle(&mut scene.all).unwrap();
        assert_eq!(orders[0].what, Control::Interrupt { member: "bob".to_owned() });
        assert_eq!((orders[0].path == path, plain.exists()), (true, false));
        assert_eq!((scene.waiting("bob"), scene.waiting("ada")), (2, 0));
    }
}
