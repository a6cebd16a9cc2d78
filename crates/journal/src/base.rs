//! A session that begins with a part of another one's journal.
//!
//! The part is shared, not copied: a fork costs the same however long the session is. What is read
//! of the conversation, turns and texts alike, is looked for in the session's own files first and
//! then in those of the session that it begins with, and so on. That journal is only ever appended
//! to, and the hash of the last line of the part says that it is still what it was.
//!
//! ```text
//! sessions/<repo-id>/<fork>/journal.jsonl        its own events
//!                    <fork>/base/                the other session, where the fork was carried here
//! sessions/<repo-id>/<other>/journal.jsonl       else: up to `lineage.base.offset`
//! ```

use std::path::{Path, PathBuf};

use segue_core::{
    Identity, SessionId, State,
    identity::{Base, Mode, Recording},
};

use crate::{
    disk::Disk,
    error::{At, Error, Result},
    line::Link,
    scan::{Position, Scanner},
    session::{JOURNAL, Session, open_journal, read_identity},
    snapshot::last_line,
};

/// Where the other session is, in a directory that travels.
pub const BASE: &str = "base";

/// A chain longer than this is one that somebody made by hand.
const MOST: usize = 1000;

/// A part of the conversation: one journal, up to an offset.
#[derive(Clone, Debug)]
pub struct Layer {
    pub dir: PathBuf,
    pub id: SessionId,
    /// Where the part ends.
    pub end: u64,
    /// The last turn of the part before it.
    pub after: u32,
    /// How many steps the parts before it have.
    pub steps: u64,
    /// What it is told of the parts before it is what it does again.
    pub rerun: bool,
    /// What it says of the parts before it.
    pub base: Option<Base>,
}

impl Layer {
    /// A journal up to here, which begins on its own.
    fn first(dir: PathBuf, id: SessionId, end: u64) -> Self {
        Self { dir, id, end, after: 0, steps: 0, rerun: false, base: None }
    }
}

impl Session {
    /// The journals that tell this session, its own first, then the one that it begins with.
    pub fn layers(&self) -> Result<Vec<Layer>> {
        let Some(identity) = &self.state().identity else {
            return Err(Error::NotASession { dir: self.dir().to_owned() });
        };
        let disk = &**self.disk();
        let mut layer = Layer::first(self.dir().to_owned(), self.id(), self.position().offset);
        if self.state().base().is_none() {
            return Ok(vec![layer]);
        }
        let mut identity = identity.clone();
        let mut layers = Vec::new();
        while let Some((from, base)) = begun_from(&identity) {
            let dir = dir_of_base(disk, &layer.dir, from);
            let gone = |what| Error::Base { dir: layer.dir.clone(), from, what };
            if !disk.exists(&dir.join(JOURNAL)) {
                return Err(gone("is not there"));
            }
            let journal = open_journal(disk, &dir)?;
            let line = last_line(&*journal, base.offset).map(|line| Link::to(&line));
            if line.is_none() || line != Link::parse(&base.link) {
                return Err(gone("is no longer what it was"));
            }
            layer.after = base.turn;
            layer.steps = base.steps;
            layer.base = Some(base.clone());
            layer.rerun = is_rerun(&identity);
            let end = base.offset;
            identity = identity_of(disk, &dir)?;
            layers.push(std::mem::replace(&mut layer, Layer::first(dir, from, end)));
            if layers.len() > MOST {
                return Err(Error::Base { dir: layer.dir, from, what: "begins with itself" });
            }
        }
        layers.push(layer);
        Ok(layers)
    }

    /// The first step of its own work. In a rerun, and in whatever comes from one, what is before it
    /// is another's work: it was told of it, and did it again.
    pub fn first_own_step(&self) -> Result<u64> {
        let layers = self.layers()?;
        Ok(layers.iter().find(|layer| layer.rerun).map_or(0, |layer| layer.steps))
    }

    /// The first steps of two sessions that are compared. One that ran again from the start of the other
    /// did all of it again, what that was told of included.
    pub fn first_steps(&self, other: &Session) -> Result<[u64; 2]> {
        match self.runs_again(other) || other.runs_again(self) {
            true => Ok([0, 0]),
            false => Ok([self.first_own_step()?, other.first_own_step()?]),
        }
    }

    fn runs_again(&self, other: &Session) -> bool {
        let identity = self.state().identity.as_ref();
        let lineage = identity.and_then(|identity| identity.lineage.as_ref());
        lineage.is_some_and(|from| from.mode == Some(Mode::Continue) && from.from == other.id())
    }

    /// The layer that a turn is told in.
    pub(crate) fn layer_of(&self, turn: u32) -> Result<Layer> {
        let mut layers = self.layers()?;
        let at = layers.iter().position(|layer| turn > layer.after).unwrap_or(layers.len() - 1);
        Ok(layers.swap_remove(at))
    }

    /// The session that this one begins with a part of.
    pub fn base(&self) -> Result<Option<Session>> {
        if self.state().base().is_none() {
            return Ok(None);
        }
        let layers = self.layers()?;
        let open = |layer: &Layer| Session::open(std::sync::Arc::clone(self.disk()), &layer.dir);
        layers.get(1).map(open).transpose()
    }
}

impl Session {
    /// As much as is recorded by now, for a session that is to be answered from it.
    #[must_use]
    pub fn recording(&self) -> Recording {
        let at = self.position();
        Recording {
            seq: at.seq,
            offset: at.offset,
            link: at.link.as_str().to_owned(),
            path: self.state().path(),
            same_model: false,
            stop_at_drift: false,
        }
    }

    /// The session whose recording answers this one, as long as it does.
    pub fn recorded(&self) -> Result<Option<(Session, Recording)>> {
        let state = self.state();
        let lineage = state.identity.as_ref().and_then(|identity| identity.lineage.as_ref());
        let (Some(recording), Some(lineage)) = (state.recording(), lineage) else {
            return Ok(None);
        };
        let disk = &**self.disk();
        let dir = dir_of_base(disk, self.dir(), lineage.from);
        let gone = |what| Error::Recording { dir: self.dir().to_owned(), from: lineage.from, what };
        if !disk.exists(&dir.join(JOURNAL)) {
            return Err(gone("is not there"));
        }
        let line = last_line(&*open_journal(disk, &dir)?, recording.offset);
        if line.is_none() || line.map(|line| Link::to(&line)) != Link::parse(&recording.link) {
            return Err(gone("is no longer what it was"));
        }
        let session = Session::open(std::sync::Arc::clone(self.disk()), &dir)?;
        Ok(Some((session, recording.clone())))
    }
}

/// The session that one begins with a part of.
#[must_use]
pub fn begun_from(identity: &Identity) -> Option<(SessionId, &Base)> {
    let lineage = identity.lineage.as_ref()?;
    Some((lineage.from, lineage.base.as_ref()?))
}

fn is_rerun(identity: &Identity) -> bool {
    identity.lineage.as_ref().is_some_and(|lineage| lineage.mode == Some(Mode::Rerun))
}

fn dir_of_base(disk: &dyn Disk, dir: &Path, from: SessionId) -> PathBuf {
    let within = dir.join(BASE);
    match disk.exists(&within.join(JOURNAL)) {
        true => within,
        false => crate::disk::parent(dir).join(from.to_string()),
    }
}

/// Who a session is, by its own file or, where that is broken, by its first event.
pub(crate) fn identity_of(disk: &dyn Disk, dir: &Path) -> Result<Identity> {
    if let Ok(identity) = read_identity(disk, dir) {
        return Ok(identity);
    }
    let not = || Error::NotASession { dir: dir.to_owned() };
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let id: SessionId = name.parse().map_err(|_| not())?;
    let file = open_journal(disk, dir)?;
    let first = Scanner::new(&*file, Position::start(id)).next_event().at(dir)?;
    let mut state = State::default();
    first.iter().for_each(|event| state.apply(event));
    state.identity.ok_or_else(not)
}
