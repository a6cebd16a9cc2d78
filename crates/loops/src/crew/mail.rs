//! Messages as files, for agents that know nothing else.
//!
//! `inbox/<member>/` takes what is for a member: a file of any name, written under another one
//! (`.name`, `name.tmp`) and renamed. It is recorded under an id made of its name, its time and its
//! content, and only then moved to `inbox/<member>/.taken/`. What there is no room for stays where it is until
//! there is: nothing is dropped. For a member that is told by files, `mail/<member>/` gets one
//! for each message, whole when it appears.
//!
//! A name may say who it is from and what it is about:
//! `2026-11-16T10-00-00__from-tester__to-coder__topic-review.md`. The topics `_RESTART`,
//! `_INTERRUPT` and `_ATTENTION` are orders.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use segue_core::{
    Draft,
    bridge::{LONGEST, PERSON},
    event::{Delivery, MessageDelivered, MessageFailed, MessageSent},
    inbox::Control,
    state::{CrewMember as Member, MOST_WAITING},
};
use segue_journal::Disk;
use segue_runner::{Halt, Supervisor};

use super::CREW;
use crate::bridge::RESERVED;

/// Where files for members are put, and where those for members who read files are.
pub(crate) const INBOX: &str = "inbox";
pub(crate) const MAIL: &str = "mail";

/// Where files go that were taken in.
const TAKEN: &str = ".taken";

/// A file that was changed so lately may not be whole, where its writer renames nothing.
const SETTLED: Duration = Duration::from_millis(400);

/// Who a file is from that does not say.
const NOBODY: &str = "file";

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

/// Takes in what lies in the inboxes. What is returned is to be done.
pub(crate) fn take_in(all: &mut Supervisor<'_>) -> Result<Vec<(Control, PathBuf)>, Halt> {
    let (mut orders, mut new) = (Vec::new(), Vec::new());
    // The journal remembers the last ids only. So what it has already, of a watcher that died before
    // the file was moved, goes before anything else is recorded.
    for letter in letters(all) {
        match all.state().notes.taken_in.contains(&letter.id) {
            true => orders.extend(one(all, letter)?),
            false => new.push(letter),
        }
    }
    if !orders.is_empty() {
        return Ok(orders);
    }
    for letter in new {
        if all.state().bridge.waiting.len() >= MOST_WAITING - RESERVED {
            break;
        }
        orders.extend(one(all, letter)?);
    }
    Ok(orders)
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

/// What lies in the inboxes, by member and name.
fn letters(all: &Supervisor<'_>) -> Vec<Letter> {
    let inbox = all.session().session().dir().join(INBOX);
    let mut found = Vec::new();
    for dir in sorted(&inbox).into_iter().filter(|path| path.is_dir()) {
        let to = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if to.starts_with('.') {
            continue;
        }
        for path in sorted(&dir) {
            let Some((text, time)) = whole(&path) else { continue };
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let id = format!("file-{}", &hash(&[&to, &name, &text, &time])[..16]);
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
fn whole(path: &Path) -> Option<(String, String)> {
    let name = path.file_name()?.to_str()?;
    let unfinished = [".tmp", ".part", ".swp", "~"].iter().any(|end| name.ends_with(end));
    let found = fs::symlink_metadata(path).ok()?;
    if name.starts_with('.') || unfinished || !found.is_file() {
        return None;
    }
    let time = found.modified().ok()?;
    let age = SystemTime::now().duration_since(time).unwrap_or(SETTLED);
    if age < SETTLED {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    Some((String::from_utf8_lossy(&bytes).into_owned(), format!("{time:?}")))
}

/// Records a letter, once. An order's file goes when the order is done, any other one now.
fn one(all: &mut Supervisor<'_>, letter: Letter) -> Result<Option<(Control, PathBuf)>, Halt> {
    let Letter { id, to, path, name, text } = letter;
    let Named { from, topic } = named(&name);
    let text = text.trim();
    let member = to.clone();
    let order = match topic.as_deref() {
        Some("_RESTART") => Some(Control::Restart { member, fresh: false }),
        Some("_INTERRUPT") => Some(Control::Interrupt { member }),
        Some("_ATTENTION") => {
            let text = if text.is_empty() { "attention" } else { text };
            Some(Control::Attention { from: from.clone(), text: text.to_owned() })
        }
        _ => None,
    };
    // An interrupt may have something to say besides.
    let says = !text.is_empty() && !matches!(topic.as_deref(), Some("_RESTART" | "_ATTENTION"));
    if says && !all.state().notes.taken_in.contains(&id) {
        record(all, &id, from, &to, text)?;
    }
    if order.is_none() {
        taken(&path);
    }
    Ok(order.map(|order| (order, path)))
}

fn record(
    all: &mut Supervisor<'_>,
    id: &str,
    from: String,
    to: &str,
    text: &str,
) -> Result<(), Halt> {
    let wrong = match all.state().crew.as_ref().and_then(|crew| crew.member(to)) {
        None if to == PERSON => None,
        None => Some(format!("there is no member {to}")),
        Some(_) if text.len() > LONGEST => {
            Some(format!("too long: {} bytes, {LONGEST} at most", text.len()))
        }
        Some(_) => None,
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
    let mut free = into.join(name);
    let mut number = 1;
    while free.exists() {
        number += 1;
        free = into.join(format!("{}.{number}", name.to_string_lossy()));
    }
    // One that can't be moved would be looked at for ever.
    if fs::rename(path, free).is_err() {
        let _ = fs::remove_file(path);
    }
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
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(whole(&put("a.md", 5)).map(|(text, _)| text).as_deref(), Some("x"));
        for name in [".a.md", "a.md.tmp", "a.part"] {
            assert_eq!(whole(&put(name, 5)), None, "{name}");
        }
        let young = dir.path().join("young");
        std::fs::write(&young, "x").unwrap();
        assert_eq!(whole(&young), None);
    }
}
