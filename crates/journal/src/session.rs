//! A session's directory: a [`Session`] can be read by anyone, a [`LockedSession`] written to by
//! its one holder.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_core::{
    Identity, Packet, Payload, SessionId, State,
    event::{Body, Draft, Event, JournalRepaired, PacketWritten, VERSION},
    identity::LoopKind,
};

use crate::{
    Clock, blob,
    disk::{Disk, DiskFile},
    error::{At, Error, Result},
    lock::{self, Holder, Lock},
    packet_file, repair,
    reverse::Reverse,
    scan::{self, Ending, Position, Scanner},
    snapshot,
    stream::{self, Stream, Voice},
    writer::{Durability, Writer, WriterThread},
};

pub const JOURNAL: &str = "journal.jsonl";
pub const IDENTITY: &str = "session.json";
pub const PACKET: &str = "resume.json";
/// The directory with the sessions of those who review this one.
pub const REVIEWERS: &str = "reviewers";
/// Where the sessions of a crew's members are.
pub const MEMBERS: &str = "members";
const HERE: &str = "here";

/// After so many events the snapshot is renewed, so that a crash leaves a short tail to fold.
pub const SNAPSHOT_EVERY: u64 = 8192;

/// A session as it was when it was opened, or last caught up with. To follow it live, see
/// [`crate::tail`].
#[derive(Debug)]
pub struct Session {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    id: SessionId,
    state: State,
    at: Position,
    ending: Ending,
}

impl Session {
    /// Reads the snapshot and what came after it. Changes nothing, also where something is wrong.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self> {
        let id = id_of(&*disk, dir)?;
        let file = open_journal(&*disk, dir)?;
        let folded = fold(&*disk, dir, id, &*file)?;
        Ok(folded.into_session(disk, dir, id))
    }

    /// Reads what came since. Whoever looks again and again need not fold everything each time.
    pub fn catch_up(&mut self) -> Result<()> {
        let path = self.dir.join(JOURNAL);
        let file = open_journal(&*self.disk, &self.dir)?;
        if file.len().at(&path)? >= self.at.offset {
            let mut scanner = Scanner::new(&*file, self.at);
            while let Some(event) = scanner.next_event().at(&path)? {
                self.state.apply(&event);
            }
            self.at = scanner.position();
            self.ending = scanner.ending().at(&path)?;
            if !matches!(self.ending, Ending::Damaged(_)) {
                return Ok(());
            }
        }
        // Something that was read is no longer there: what is there now counts.
        *self = Self::open(self.disk.clone(), &self.dir)?;
        Ok(())
    }

    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What an agent is called for people: a member of a crew that is any command has a name, and
    /// its command line would stand before everything that it says.
    #[must_use]
    pub fn name_of<'a>(&'a self, agent: &'a str) -> &'a str {
        let kind = self.state.identity.as_ref().map(|found| found.loop_kind);
        let is_command = agent.starts_with("exec:") || agent.starts_with("acp:");
        match self.dir.file_name().and_then(|name| name.to_str()) {
            Some(name) if is_command && kind == Some(LoopKind::Member) => name,
            _ => agent,
        }
    }

    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The sessions within this one, by their places in it: `reviewers/claude`, `members/coder`.
    pub fn parts(&self) -> Result<Vec<(String, Session)>> {
        let open = |place: String| {
            let session = Session::open(Arc::clone(&self.disk), &self.dir.join(&place))?;
            Ok((place, session))
        };
        self.places()?.into_iter().map(open).collect()
    }

    /// Where they are, also of those that can't be opened.
    pub fn places(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for kind in [REVIEWERS, MEMBERS] {
            let dir = self.dir.join(kind);
            let mut names = match self.disk.list(&dir) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                names => names.at(&dir)?,
            };
            // A dot first is one that is just being made.
            names.retain(|name| !name.starts_with('.'));
            names.sort_unstable();
            found.extend(names.into_iter().map(|name| format!("{kind}/{name}")));
        }
        Ok(found)
    }

    /// How the journal goes on after what was read.
    #[must_use]
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Refuses a journal of which something that had been reported is gone or changed: what was read of
    /// it is how the session stood at some other time.
    pub fn check_whole(&self) -> Result<()> {
        match &self.ending {
            Ending::Damaged(damage) => {
                Err(Error::Damaged { path: self.dir.join(JOURNAL), damage: damage.clone() })
            }
            Ending::Clean | Ending::Torn { .. } => Ok(()),
        }
    }

    /// The end of what was read.
    #[must_use]
    pub fn position(&self) -> Position {
        self.at
    }

    /// Who is writing to it now.
    pub fn held_by(&self) -> Result<Option<Holder>> {
        lock::held_by(&*self.disk, &self.dir)
    }

    /// Calls `each` for every event from the start.
    pub fn for_each(&self, mut each: impl FnMut(Event)) -> Result<()> {
        let path = self.dir.join(JOURNAL);
        let file = open_journal(&*self.disk, &self.dir)?;
        let mut scanner = Scanner::new(&*file, Position::start(self.id));
        while let Some(event) = scanner.next_event().at(&path)? {
            each(event);
        }
        Ok(())
    }

    /// Where [`LockedSession::text_file`] puts its files.
    #[must_use]
    pub fn text_files(&self) -> PathBuf {
        self.dir.join("streams")
    }

    /// What an agent printed in a turn, from an offset of its stream file on, as much as fits.
    pub fn read_stream(
        &self,
        turn: u32,
        agent: &str,
        from: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        stream::read(&*self.disk, &self.dir, (turn, agent), from, buffer)
    }

    /// The events that were read, from the last to the first.
    pub fn newest_first(&self) -> Result<Reverse> {
        Ok(Reverse::new(open_journal(&*self.disk, &self.dir)?, self.at.offset))
    }

    /// The whole text of a payload.
    pub fn text(&self, payload: &Payload) -> Result<String> {
        let mut dir = self.dir.clone();
        if let (Some(hash), true) = (&payload.blob, self.state.base().is_some())
            && !blob::is_there(&*self.disk, &dir, hash)
            && let Some(layer) =
                self.layers()?.into_iter().find(|it| blob::is_there(&*self.disk, &it.dir, hash))
        {
            dir = layer.dir;
        }
        blob::text(&*self.disk, &dir, payload)
    }

    /// Where the workspace is on this machine, where somebody has said so since the session came
    /// here. A note beside the session, which does not travel with it.
    #[must_use]
    pub fn here(&self) -> Option<PathBuf> {
        let bytes = self.disk.read(&self.dir.join(HERE)).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        Some(PathBuf::from(text.trim_end())).filter(|path| path.is_absolute())
    }

    /// Writes that note.
    pub fn is_here(&self, workspace: &Path) -> Result<()> {
        let path = self.dir.join(HERE);
        let text = format!("{}\n", workspace.display());
        self.disk.replace(&path, text.as_bytes()).at(&path)
    }

    /// `resume.json`, where a person has edited it since it was written.
    pub fn edited_packet(&self) -> Result<Option<Packet>> {
        let path = self.dir.join(PACKET);
        let bytes = match self.disk.read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.at(&path)?,
        };
        if packet_file::is_ours(&bytes) {
            return Ok(None);
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|error| Error::json(&path, &error))
    }

    /// Becomes the session's one writer: takes the lock, reads what came in the meantime, sets a
    /// torn tail aside. Says what it mended.
    pub fn lock(self, me: &Holder, clock: Clock) -> Result<(LockedSession, Vec<Mended>)> {
        if !self.disk.exists(&self.dir.join(JOURNAL)) {
            return Err(Error::NotASession { dir: self.dir });
        }
        let lock = Lock::take(&*self.disk, &self.dir, me)?;
        LockedSession::open(self.disk, &self.dir, lock, clock)
    }
}

/// Something that was put right when a session was opened for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mended {
    /// Bytes that were never reported were cut off the journal, and kept in this file.
    TornTail { bytes: u64, kept_in: String },
    /// `session.json` was missing or did not parse, and was written again from the journal.
    Identity,
}

/// The right to write. Dropping it writes the snapshot and gives the lock back.
#[derive(Debug)]
pub struct LockedSession {
    session: Session,
    snapshot_seq: u64,
    /// A turn has ended since the cache of the steps was made, which has those of whole turns.
    turn_ended: bool,
    // In this order: the thread syncs what is left and ends, the lock goes last.
    writer: Writer,
    _thread: WriterThread,
    _lock: Lock,
}

impl LockedSession {
    fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        lock: Lock,
        clock: Clock,
    ) -> Result<(Self, Vec<Mended>)> {
        let id = id_of(&*disk, dir)?;
        let path = dir.join(JOURNAL);
        let mut file = disk.append(&path).at(&path)?;
        let folded = fold(&*disk, dir, id, &*file)?;
        if folded.at.version > VERSION {
            return Err(Error::Newer { path, found: folded.at.version });
        }
        let mut mended = Vec::new();
        match &folded.ending {
            Ending::Clean => {}
            Ending::Torn { bytes } => {
                let kept_in = repair::set_tail_aside(&*disk, dir, &mut *file, folded.at)?;
                mended.push(Mended::TornTail { bytes: *bytes, kept_in });
            }
            Ending::Damaged(damage) => {
                return Err(Error::Damaged { path, damage: damage.clone() });
            }
        }
        // Bytes that somebody wrote and nobody synced are made safe before they are built upon.
        // They are written again first: if a sync of them failed, the system may call them clean,
        // and a sync alone would save nothing.
        let snapshot_seq = folded.from.seq;
        if folded.at.offset > folded.from.offset {
            disk.write_again(&path, folded.from.offset).at(&path)?;
        }
        file.sync().at(&path)?;
        let mut session = folded.into_session(disk, dir, id);
        session.at.synced = session.at.seq;
        session.ending = Ending::Clean;
        if repair::restore_identity(&session)? {
            mended.push(Mended::Identity);
        }
        let (writer, thread) = Writer::start(file, &path, session.at, clock).at(&path)?;
        let mut locked =
            Self { session, snapshot_seq, turn_ended: false, writer, _thread: thread, _lock: lock };
        locked.record(&mended)?;
        Ok((locked, mended))
    }

    fn record(&mut self, mended: &[Mended]) -> Result<()> {
        for what in mended {
            if let Mended::TornTail { bytes, kept_in } = what {
                let event = JournalRepaired { bytes: *bytes, kept_in: kept_in.clone() };
                self.append(event, Durability::Synced)?;
            }
        }
        Ok(())
    }

    /// Appends one event. When this returns, the event is as durable as was asked for, and is
    /// folded into the state.
    pub fn append(&mut self, draft: impl Into<Draft>, durability: Durability) -> Result<Event> {
        let mut events = self.append_all(vec![draft.into()], durability)?;
        let path = || self.session.dir.join(JOURNAL);
        events.pop().ok_or_else(|| Error::Poisoned { path: path(), first: String::new() })
    }

    /// Appends several events as neighbours, with one write and one sync.
    pub fn append_all(&mut self, drafts: Vec<Draft>, durability: Durability) -> Result<Vec<Event>> {
        let (events, after) = self.writer.append(drafts, durability)?;
        for event in &events {
            self.session.state.apply(event);
            self.turn_ended |= matches!(event.body, Body::TurnEnded(_));
        }
        self.session.at = after;
        if durability == Durability::Synced && after.seq >= self.snapshot_seq + SNAPSHOT_EVERY {
            // A cache: the events are on the disk, whatever becomes of it.
            let _ = self.snapshot();
        }
        Ok(events)
    }

    /// Renews `state.json`, which must only ever speak of what is on the disk, and `steps.idx`.
    pub fn snapshot(&mut self) -> Result<()> {
        let Session { disk, dir, state, at, .. } = &self.session;
        if at.synced >= at.seq && at.seq > 0 {
            snapshot::write(&**disk, dir, *at, state)?;
            self.snapshot_seq = at.seq;
            if std::mem::take(&mut self.turn_ended) {
                self.session.index_steps();
            }
        }
        Ok(())
    }

    /// Puts a text where it belongs, and makes it durable if that is a blob.
    pub fn payload(&self, text: &str) -> Result<Payload> {
        blob::payload(&*self.session.disk, &self.session.dir, text)
    }

    /// Writes a text into a file of its own beside the streams, for a program that can only be told
    /// where to look.
    pub fn text_file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let dir = self.session.text_files();
        self.session.disk.create_dir_all(&dir).at(&dir)?;
        let path = dir.join(name);
        self.session.disk.replace(&path, text.as_bytes()).at(&path)?;
        Ok(path)
    }

    /// Replaces `resume.json`.
    pub fn write_packet(&mut self, packet: &Packet) -> Result<Event> {
        let path = self.session.dir.join(PACKET);
        let (json, checksum) =
            packet_file::write(packet).map_err(|error| Error::json(&path, &error))?;
        let reason = packet.checkpoint_reason.clone();
        let event = self.append(PacketWritten { blake3: checksum, reason }, Durability::Synced)?;
        self.session.disk.replace(&path, json.as_bytes()).at(&path)?;
        Ok(event)
    }

    /// A file for an agent's own output, byte for byte.
    pub fn stream(&self, turn: u32, agent: &str, voice: Voice) -> Result<Stream> {
        Stream::open(&*self.session.disk, &self.session.dir, turn, agent, voice)
    }

    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    #[must_use]
    pub fn state(&self) -> &State {
        &self.session.state
    }
}

impl Drop for LockedSession {
    fn drop(&mut self) {
        // A cache: without it the next opening folds a longer tail.
        let _ = self.snapshot();
    }
}

struct Folded {
    /// What the snapshot vouches for, or the start.
    from: Position,
    state: State,
    at: Position,
    ending: Ending,
}

impl Folded {
    fn into_session(self, disk: Arc<dyn Disk>, dir: &Path, id: SessionId) -> Session {
        let Self { state, at, ending, .. } = self;
        Session { disk, dir: dir.to_owned(), id, state, at, ending }
    }
}

fn fold(disk: &dyn Disk, dir: &Path, id: SessionId, file: &dyn DiskFile) -> Result<Folded> {
    let path = dir.join(JOURNAL);
    let (from, mut state) = snapshot::read(disk, dir, file).unwrap_or_else(|| {
        let synced = snapshot::synced(disk, dir);
        (Position { synced, ..Position::start(id) }, State::default())
    });
    let mut scanner = Scanner::new(file, from);
    while let Some(event) = scanner.next_event().at(&path)? {
        state.apply(&event);
    }
    let at = scanner.position();
    let ending = scanner.ending().at(&path)?;
    Ok(Folded { from, state, at, ending })
}

pub(crate) fn open_journal(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskFile>> {
    let path = dir.join(JOURNAL);
    match disk.open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::NotASession { dir: dir.to_owned() })
        }
        opened => opened.at(&path),
    }
}

/// The directory's name is the session's id; a part, or a copy under another name, has it in
/// `session.json` and in its first event.
fn id_of(disk: &dyn Disk, dir: &Path) -> Result<SessionId> {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    if let Ok(identity) = read_identity(disk, dir) {
        return Ok(identity.id);
    }
    let path = dir.join(JOURNAL);
    match scan::first(&*open_journal(disk, dir)?).at(&path)?.map(|event| event.body) {
        Some(Body::SessionCreated(created)) => Ok(created.identity.id),
        _ => Err(Error::NotASession { dir: dir.to_owned() }),
    }
}

/// `session.json` as it stands on the disk.
pub fn read_identity(disk: &dyn Disk, dir: &Path) -> Result<Identity> {
    let path = dir.join(IDENTITY);
    let bytes = disk.read(&path).at(&path)?;
    serde_json::from_slice(&bytes).map_err(|error| Error::json(&path, &error))
}
