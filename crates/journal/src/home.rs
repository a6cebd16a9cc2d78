//! All sessions of a person, and their numbers.
//!
//! ```text
//! ~/.segue/
//! ├── numbers/7                    which session 7 is: "<repo-id>/<ulid>"
//! ├── names.lock                   held while a session gets a name
//! └── sessions/<repo-id>/<ulid>/   see `session`
//! ```
//!
//! A session appears whole: its directory is filled under another name and renamed. A number is a
//! claim: creating the file fails where it is taken, so no number is given twice, also not after
//! its session was removed. A session without one (it was copied here, or its creator was killed
//! between the two) gets one from whoever looks next.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_core::{
    Identity, Packet, Permission, SessionId,
    caps::Caps,
    event::{Draft, SessionCreated, SessionNamed},
    identity::{self, Lineage, LoopKind, RepoRef},
    review::Terms,
};

use crate::{
    Clock, base, blob,
    disk::{Disk, parent},
    error::{At, Error, Result},
    line::{self, Link, Place},
    lock::{Holder, Lock},
    session::{IDENTITY, JOURNAL, LockedSession, Session, read_identity},
    writer::Durability,
};

/// The directory that everything is under.
#[derive(Clone, Debug)]
pub struct Home {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

/// What a session is created from.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub repo: RepoRef,
    pub workspace: PathBuf,
    pub loop_kind: LoopKind,
    pub agent: String,
    pub model: Option<String>,
    pub permission: Permission,
    pub vendor_args: Vec<String>,
    pub prompt: String,
    pub proof: Option<String>,
    pub proof_secs: Option<u64>,
    pub pair: Option<Terms>,
    /// Where the list of tasks is, for a session that works through one.
    pub tasks: Option<PathBuf>,
    pub caps: Caps,
    pub lineage: Option<Lineage>,
    pub packet: Option<Box<Packet>>,
    pub fallback: Vec<String>,
    pub worktree: bool,
    /// It is made to be looked at, and can't be resumed.
    pub sealed: bool,
    pub name: Option<String>,
    pub segue: String,
}

impl NewSession {
    /// One agent, its prompt, and nothing out of the ordinary.
    #[must_use]
    pub fn new(repo: RepoRef, workspace: PathBuf, agent: String, prompt: String) -> Self {
        Self {
            repo,
            workspace,
            loop_kind: LoopKind::Solo,
            agent,
            model: None,
            permission: Permission::default(),
            vendor_args: Vec::new(),
            prompt,
            proof: None,
            proof_secs: None,
            pair: None,
            tasks: None,
            caps: Caps::default(),
            lineage: None,
            packet: None,
            fallback: Vec::new(),
            worktree: false,
            sealed: false,
            name: None,
            segue: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Where a session is within a home.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Located {
    pub repo: String,
    pub id: SessionId,
}

impl Located {
    fn to_line(&self) -> String {
        format!("{}/{}\n", self.repo, self.id)
    }

    fn from_line(text: &str) -> Option<Self> {
        let (repo, id) = text.trim_end().rsplit_once('/')?;
        let plain = !repo.is_empty() && !repo.starts_with('.') && !repo.contains(['/', '\0']);
        Some(Self { repo: plain.then(|| repo.to_owned())?, id: id.parse().ok()? })
    }
}

impl Home {
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self { disk, dir }
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    #[must_use]
    pub fn session_dir(&self, at: &Located) -> PathBuf {
        self.dir.join("sessions").join(&at.repo).join(at.id.to_string())
    }

    pub fn open(&self, at: &Located) -> Result<Session> {
        Session::open(Arc::clone(&self.disk), &self.session_dir(at))
    }

    /// Creates a session, and gives it its number. When this returns, both are on the disk.
    pub fn create(
        &self,
        new: NewSession,
        me: &Holder,
        clock: &Clock,
    ) -> Result<(LockedSession, u64)> {
        self.prepare()?;
        let name = new.name.clone();
        let at = self.write_new(new, clock)?;
        let (mut session, _) = self.open(&at)?.lock(me, Arc::clone(clock))?;
        if let Some(name) = name {
            session.append(SessionNamed { name }, Durability::Soon)?;
        }
        let number = self.give_number(&at)?;
        Ok((session, number))
    }

    /// Nobody else finds a name free until this is let go of: no two sessions are begun under one.
    pub fn hold_names(&self) -> Result<File> {
        self.prepare()?;
        let path = self.dir.join("names.lock");
        let file = File::options().create(true).append(true).open(&path).at(&path)?;
        file.lock().at(&path).map(|()| file)
    }

    /// Makes the home itself. Git is told to leave it alone, wherever it is.
    fn prepare(&self) -> Result<()> {
        let ignore = self.dir.join(".gitignore");
        if !self.disk.exists(&ignore) {
            self.create_home(&self.dir)?;
            match self.disk.claim(&ignore, b"*\n") {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => done.at(&ignore)?,
            }
        }
        Ok(())
    }

    /// Makes a directory within the home, and the home itself, each name synced: for whoever brings
    /// a whole session here and renames it into its place.
    pub fn make_dir(&self, path: &Path) -> Result<()> {
        self.prepare()?;
        self.create_dir(path)
    }

    /// Replaces `config.toml`.
    pub fn write_config(&self, bytes: &[u8]) -> Result<()> {
        self.prepare()?;
        let path = self.dir.join("config.toml");
        self.disk.replace(&path, bytes).at(&path)
    }

    /// Creates the home's directory with all above it, each name synced: also of a directory that
    /// is there, since whoever made it may have died before it was synced.
    fn create_home(&self, path: &Path) -> Result<()> {
        // The root has nothing above it that could be synced.
        if path.parent().is_none() || path == Path::new(".") {
            return Ok(());
        }
        let above = parent(path);
        self.create_home(above)?;
        let there = self.disk.exists(path);
        self.disk.create_dir_all(path).at(path)?;
        match self.disk.sync_dir(above) {
            // Not ours, and older than Segue.
            Err(error) if there && not_ours(&error) => Ok(()),
            synced => synced.at(above),
        }
    }

    /// Creates a directory within the home, with all between, each name synced as above.
    fn create_dir(&self, path: &Path) -> Result<()> {
        let above = parent(path);
        if path == self.dir || path == above {
            return Ok(());
        }
        self.create_dir(above)?;
        self.disk.create_dir_all(path).at(path)?;
        self.disk.sync_dir(above).at(above)
    }

    fn write_new(&self, new: NewSession, clock: &Clock) -> Result<Located> {
        let id = self.new_id(clock)?;
        let at = Located { repo: new.repo.id.clone(), id };
        self.write_whole(new, id, &self.session_dir(&at), clock)?;
        Ok(at)
    }

    /// Creates a session within the directory of another one, which it is a part of: it has no
    /// number, and is in no list. One that is there already stays as it is.
    pub fn create_within(&self, dir: &Path, new: NewSession, clock: &Clock) -> Result<()> {
        if self.disk.exists(&dir.join(JOURNAL)) {
            return Ok(());
        }
        self.write_whole(new, self.new_id(clock)?, dir, clock)
    }

    /// Sets a session aside that is a part of another one and can't be gone on with, so that another
    /// can take its place. Nothing of it is removed. Returns where it is then.
    pub fn set_aside_within(&self, dir: &Path) -> Result<PathBuf> {
        let above = parent(dir);
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut names = (1..).map(|n| above.join(format!(".{name}.damaged-{n}")));
        let free = |path: &PathBuf| !self.disk.exists(path);
        let Some(aside) = names.find(free) else {
            return Err(Error::NotASession { dir: dir.to_owned() });
        };
        self.disk.rename(dir, &aside).at(dir)?;
        self.disk.sync_dir(above).at(above)?;
        Ok(aside)
    }

    fn new_id(&self, clock: &Clock) -> Result<SessionId> {
        let random = random().at(&self.dir)?;
        let millis = u64::try_from(clock().as_millisecond()).unwrap_or_default();
        Ok(SessionId::from_parts(millis, random))
    }

    /// Fills a directory under another name, and renames it: a session appears whole.
    fn write_whole(&self, new: NewSession, id: SessionId, dir: &Path, clock: &Clock) -> Result<()> {
        let now = clock();
        let above = parent(dir).to_owned();
        let unfinished = above.join(format!(".{id}.new"));
        self.create_dir(&unfinished)?;

        let disk = &*self.disk;
        let identity = Identity {
            v: identity::VERSION,
            id,
            created_at: now,
            repo: new.repo,
            workspace: new.workspace,
            loop_kind: new.loop_kind,
            agent: new.agent,
            model: new.model,
            permission: new.permission,
            vendor_args: new.vendor_args,
            prompt: blob::payload(disk, &unfinished, &new.prompt)?,
            proof: new.proof,
            proof_secs: new.proof_secs,
            pair: new.pair,
            tasks: new.tasks,
            caps: new.caps,
            lineage: new.lineage,
            packet: new.packet,
            fallback: new.fallback,
            worktree: new.worktree,
            sealed: new.sealed,
            origin: None,
            segue: new.segue,
        };
        let path = unfinished.join(IDENTITY);
        let json = serde_json::to_vec_pretty(&identity).map_err(|e| Error::json(&path, &e))?;
        disk.replace(&path, &json).at(&path)?;

        let mut journal = Vec::new();
        let place = Place { seq: 1, prev: Link::first(id), synced: 0 };
        let path = unfinished.join(JOURNAL);
        line::encode(
            &Draft::from(SessionCreated { identity: identity.into() }),
            place,
            now,
            &mut journal,
        )
        .map_err(|error| Error::json(&path, &error))?;
        disk.replace(&path, &journal).at(&path)?;

        disk.rename(&unfinished, dir).at(dir)?;
        disk.sync_dir(&above).at(&above)
    }

    fn numbers_dir(&self) -> PathBuf {
        self.dir.join("numbers")
    }

    /// Claims the next free number for a session.
    pub fn give_number(&self, at: &Located) -> Result<u64> {
        let dir = self.numbers_dir();
        self.create_dir(&dir)?;
        let taken = self.disk.list(&dir).at(&dir)?;
        let mut number = taken.iter().filter_map(|name| name.parse().ok()).max().unwrap_or(0u64);
        loop {
            number += 1;
            let path = dir.join(number.to_string());
            match self.disk.claim(&path, at.to_line().as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                claimed => return claimed.at(&path).map(|()| number),
            }
        }
    }

    /// Which session a number means, whether or not that session is still there.
    pub fn numbered(&self, number: u64) -> Result<Option<Located>> {
        let path = self.numbers_dir().join(number.to_string());
        match self.disk.read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => Ok(Located::from_line(&String::from_utf8_lossy(&read.at(&path)?))),
        }
    }

    /// All numbers that were ever given, with their sessions, lowest first.
    pub fn numbers(&self) -> Result<Vec<(u64, Located)>> {
        let mut numbers = Vec::new();
        for name in self.names_in(&self.numbers_dir())? {
            if let Ok(number) = name.parse()
                && let Some(at) = self.numbered(number)?
            {
                numbers.push((number, at));
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Every session that is here, in no order.
    pub fn sessions(&self) -> Result<Vec<Located>> {
        let root = self.dir.join("sessions");
        let mut found = Vec::new();
        for repo in self.names_in(&root)? {
            for name in self.names_in(&root.join(&repo))? {
                if let Ok(id) = name.parse() {
                    found.push(Located { repo: repo.clone(), id });
                }
            }
        }
        Ok(found)
    }

    /// The names in a directory that need not exist.
    fn names_in(&self, dir: &Path) -> Result<Vec<String>> {
        match self.disk.list(dir) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(Vec::new())
            }
            names => names.at(dir),
        }
    }

    /// The sessions that begin with a part of this one, and can't be read without it.
    pub fn begun_with(&self, at: &Located) -> Result<Vec<Located>> {
        self.made_from(at, |_, from| from.base.is_some())
    }

    /// The sessions that this one answers by its recording, and that have not come to the end of it.
    pub fn answered_by(&self, at: &Located) -> Result<Vec<Located>> {
        self.made_from(at, |other, from| {
            // One that can't be opened may be repaired, and goes on then.
            let done = |session: Session| session.state().recording().is_none();
            from.recording.is_some() && !self.open(other).is_ok_and(done)
        })
    }

    /// The sessions that come from this one like that, and have brought nothing of it along.
    fn made_from(
        &self,
        at: &Located,
        like: impl Fn(&Located, &Lineage) -> bool,
    ) -> Result<Vec<Located>> {
        let mut found = self.sessions()?;
        found.retain(|other| {
            let dir = self.session_dir(other);
            let within = || self.disk.exists(&dir.join(base::BASE).join(JOURNAL));
            let identity = read_identity(&*self.disk, &dir).ok();
            let from = identity.and_then(|identity| identity.lineage);
            let from = from.filter(|from| other.repo == at.repo && from.from == at.id);
            from.is_some_and(|from| !within() && like(other, &from))
        });
        Ok(found)
    }

    /// Removes a session for good. Its number stays taken.
    pub fn remove(&self, at: &Located, me: &Holder) -> Result<()> {
        let dir = self.session_dir(at);
        let _lock = Lock::take(&*self.disk, &dir, me)?;
        // Renamed first, so that a crash in the middle never leaves half a session.
        let gone = parent(&dir).join(format!(".{}.removed", at.id));
        self.disk.rename(&dir, &gone).at(&dir)?;
        self.disk.sync_dir(parent(&dir)).at(parent(&dir))?;
        self.disk.remove_dir_all(&gone).at(&gone)
    }
}

/// A directory that we may not sync.
fn not_ours(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), InvalidInput | PermissionDenied | ReadOnlyFilesystem)
}

fn random() -> io::Result<u128> {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags)?;
    }
    Ok(u128::from_le_bytes(bytes))
}
