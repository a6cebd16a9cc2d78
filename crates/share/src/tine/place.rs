//! A session from an artifact: there whole or not at all, and the same one each time.
//!
//! ```text
//! sessions/<repo-id>/<ulid>/
//! ├── session.json, journal.jsonl, blobs/…
//! └── origin.tine                           the document that it was made from
//! ```

use std::{path::PathBuf, sync::Arc};

use jiff::Timestamp;
use segue_core::{
    Identity, Permission, SessionId,
    caps::Caps,
    event::{Draft, SessionCreated},
    identity::{self, LoopKind, RepoRef},
    payload::Payload,
};
use segue_journal::{
    Home, Session, blob,
    home::Located,
    line::{self, Link, Place},
    session::{IDENTITY, JOURNAL},
};

use super::{
    artifact::Artifact,
    json::Value,
    taken::{self, Timed},
    told::NATIVE,
    wrap::Codec,
};
use crate::{
    error::{At, Error, Result, Why},
    import::{number, verify},
    staging::Staging,
};

/// The file of a session that keeps the document that it was made from.
pub const ORIGIN: &str = "origin.tine";

/// Where a session is put that comes from elsewhere.
#[derive(Clone, Debug)]
pub struct Into {
    pub repo: RepoRef,
    pub workspace: PathBuf,
}

/// A session that was made of a file, or had been before.
#[derive(Clone, Debug)]
pub struct Taken {
    pub at: Located,
    pub dir: PathBuf,
    pub number: u64,
    pub was_there: bool,
    /// It can be looked at, replayed and forked, and not resumed.
    pub sealed: bool,
}

/// Makes the session of an artifact. Its findings have been looked at.
pub(crate) fn place(artifact: &Artifact, home: &Home, into: Into) -> Result<Taken> {
    let id = name(artifact);
    let sealed = !artifact.can_be_resumed();
    let there = home.sessions()?.into_iter().find(|at| at.id == id);
    let taken = |at: Located, was_there: bool| {
        let (dir, number) = (home.session_dir(&at), number(home, &at)?);
        Ok(Taken { at, dir, number, was_there, sealed })
    };
    if let Some(at) = there {
        return taken(at, true);
    }
    let at = Located { repo: into.repo.id.clone(), id };
    let mut staging = Staging::new(home, &at)?;
    write(artifact, home, into, id, &mut staging)?;
    let session = Session::open(Arc::clone(home.disk()), staging.session())?;
    verify(&session).map_err(|(entry, why)| Error::Refused {
        path: staging.session().to_owned(),
        entry: entry.to_owned(),
        why: Why::Session(why),
    })?;
    staging.sync()?;
    let fresh = staging.publish(&home.session_dir(&at))?;
    taken(at, !fresh)
}

fn write(
    artifact: &Artifact,
    home: &Home,
    into: Into,
    id: SessionId,
    staging: &mut Staging,
) -> Result<()> {
    let disk = Arc::clone(home.disk());
    let dir = staging.session().to_owned();
    let mut keep = |text: &str| Ok(blob::payload(&*disk, &dir, text)?);
    let created = created(artifact);
    let metadata = |key: &str| artifact.section("metadata").get(key).and_then(Value::text);
    let model = artifact.section("manifest").get("model").and_then(|model| model.get("name"));
    let model = model.and_then(Value::text).or(metadata("model_info"));
    let identity = Identity {
        v: identity::VERSION,
        id,
        created_at: created,
        repo: into.repo,
        workspace: into.workspace,
        loop_kind: LoopKind::Solo,
        agent: agent(artifact),
        model: model.filter(|model| !model.is_empty()).map(str::to_owned),
        permission: Permission::default(),
        vendor_args: Vec::new(),
        prompt: keep(metadata("user_prompt").unwrap_or_default())?,
        proof: None,
        proof_secs: None,
        pair: None,
        tasks: None,
        caps: Caps::default(),
        lineage: None,
        packet: None,
        fallback: Vec::new(),
        worktree: false,
        sealed: !artifact.can_be_resumed(),
        segue: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let events = events(artifact, &mut keep)?;
    let bad =
        |error: serde_json::Error| Error::Damaged { dir: dir.clone(), problem: error.to_string() };
    let json = serde_json::to_vec_pretty(&identity).map_err(bad)?;
    let first = Draft::from(SessionCreated { identity: Box::new(identity) });
    let mut journal = Vec::new();
    let mut prev = Link::first(id);
    for (at, (time, draft)) in std::iter::once((created, first)).chain(events).enumerate() {
        let from = journal.len();
        let synced = if at == 0 { 0 } else { 1 };
        let place = Place { seq: at as u64 + 1, prev, synced };
        line::encode(&draft, place, time, &mut journal).map_err(bad)?;
        prev = Link::to(journal[from..].trim_ascii_end());
    }
    let origin = artifact.to_bytes(Codec::Zstd);
    for (name, bytes) in [(IDENTITY, &json), (JOURNAL, &journal), (ORIGIN, &origin)] {
        let path = staging.place(name);
        let mut file = staging.create(name)?;
        file.write_all(bytes).at(&path)?;
        file.sync().at(&path)?;
    }
    Ok(())
}

fn events(artifact: &Artifact, keep: taken::Keep<'_>) -> Result<Vec<Timed>> {
    let (agent, sealed) = (agent(artifact), !artifact.can_be_resumed());
    taken::events(artifact, &agent, created(artifact), sealed, keep)
}

/// The document that a session was made from, where nothing has happened since.
pub(super) fn origin(session: &Session) -> Result<Option<Artifact>> {
    let path = session.dir().join(ORIGIN);
    let bytes = match session.disk().read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.at(&path)?,
    };
    let origin = Artifact::read(bytes).ok().filter(|origin| name(origin) == session.id());
    let Some(origin) = origin else {
        let problem = format!("{ORIGIN} is not the document that it was made from");
        return Err(Error::Damaged { dir: session.dir().to_owned(), problem });
    };
    let events = events(&origin, &mut |_| Ok(Payload::default()))?;
    Ok((session.state().seq == events.len() as u64 + 1).then_some(origin))
}

/// The same document is the same session, wherever it is brought to.
fn name(artifact: &Artifact) -> SessionId {
    let mut hash = blake3::Hasher::new();
    let created = created(artifact).as_millisecond();
    for part in [artifact.run_id(), &artifact.digest(), &created.to_string()] {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let mut random = [0; 16];
    random.copy_from_slice(&hash.finalize().as_bytes()[..16]);
    // As many bits as a ULID has for each.
    let millis = u64::try_from(created).unwrap_or_default() & ((1 << 48) - 1);
    SessionId::from_parts(millis, u128::from_le_bytes(random) >> 48)
}

fn created(artifact: &Artifact) -> Timestamp {
    let seconds = artifact.run.get("created_at").and_then(Value::float);
    seconds.and_then(taken::time).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn agent(artifact: &Artifact) -> String {
    let manifest = artifact.section("manifest");
    let harness = manifest.get("harness").map(|harness| harness.get("name").unwrap_or(harness));
    let named = manifest.get("agent").or(harness).and_then(Value::text);
    named.filter(|name| !name.is_empty()).unwrap_or(NATIVE).to_owned()
}
