//! A session from an artifact: there whole or not at all, and the same one each time.
//!
//! The whole document, metadata and signature included, stands in the session's identity
//! (`origin`), a long one as a blob. Its hash is what the session is named after: two documents are
//! two sessions, however little they differ, and what is here under a name is what was checked.

use std::{path::PathBuf, sync::Arc};

use jiff::Timestamp;
use segue_core::{
    Event, Identity, Permission, SessionId,
    caps::Caps,
    event::{Body, Draft, SessionCreated},
    identity::{self, LoopKind, RepoRef},
    payload::{INLINE_LIMIT, Payload},
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
    taken::{self, Keep, Timed},
    told::{NATIVE, OURS},
};
use crate::{
    error::{At, Error, Result, Why},
    import::{number, verify},
    staging::Staging,
};

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
    /// The last session that was made of the same file, where that has gone on since.
    pub gone_on: Option<u64>,
}

/// The session that an artifact tells: one that was made of it, as long as that has not gone on,
/// else a new one. Its findings have been looked at.
pub(crate) fn place(artifact: &Artifact, home: &Home, into: Into) -> Result<Taken> {
    let document = artifact.document();
    let there = home.sessions()?;
    let (mut nth, mut gone_on) = (1, None);
    let id = loop {
        let id = name(artifact, &document, nth);
        let Some(at) = there.iter().find(|at| at.id == id) else { break id };
        // One that is damaged, or that somebody gave this name to, is left as it is.
        if let Some(made) = home.open(at).ok().filter(|session| made_of(session, &document)) {
            if matches!(follows(&made), Ok(Some((_, Since::Nothing | Since::Idle)))) {
                return taken(artifact, home, at.clone(), true, gone_on);
            }
            gone_on = Some(number(home, at)?);
        }
        nth += 1;
    };
    let at = Located { repo: into.repo.id.clone(), id };
    let mut staging = Staging::new(home, &at)?;
    write(artifact, &document, home, (into, id), &mut staging)?;
    let session = Session::open(Arc::clone(home.disk()), staging.session())?;
    verify(&session).map_err(|(entry, why)| Error::Refused {
        path: staging.session().to_owned(),
        entry: entry.to_owned(),
        why: Why::Session(why),
    })?;
    staging.sync()?;
    let fresh = staging.publish(&home.session_dir(&at))?;
    taken(artifact, home, at, !fresh, gone_on)
}

fn taken(
    artifact: &Artifact,
    home: &Home,
    at: Located,
    was_there: bool,
    gone_on: Option<u64>,
) -> Result<Taken> {
    let (dir, number) = (home.session_dir(&at), number(home, &at)?);
    Ok(Taken { at, dir, number, was_there, sealed: !artifact.can_be_resumed(), gone_on })
}

/// Whether a session was made of this very document: a name has fewer bits than a hash.
fn made_of(session: &Session, document: &str) -> bool {
    let identity = session.state().identity.as_ref();
    let origin = identity.and_then(|identity| identity.origin.as_ref());
    origin.is_some_and(|origin| origin.digest() == payload(document).digest())
}

/// The session that a document was written from, where it is here and tells the same. Whoever asked
/// for it or renamed it since has changed nothing of that.
pub(crate) fn written_from(artifact: &Artifact, home: &Home) -> Result<Option<Taken>> {
    let ours = artifact.section("metadata").get(OURS).and_then(|ours| ours.get("session"));
    let id = ours.and_then(Value::text).filter(|id| *id == artifact.run_id());
    let Some(id) = id.and_then(|id| id.parse::<SessionId>().ok()) else { return Ok(None) };
    let Some(at) = home.sessions()?.into_iter().find(|at| at.id == id) else { return Ok(None) };
    // One that is damaged is not what the file tells of.
    let Ok(session) = home.open(&at) else { return Ok(None) };
    let Ok(told) = super::tell(&session) else { return Ok(None) };
    let prompt = |of: &Artifact| of.section("metadata").get("user_prompt").cloned();
    let same = |key: &&str| told.run.get(*key) == artifact.run.get(*key);
    if !["graph", "transcript", "created_at"].iter().all(same) || prompt(&told) != prompt(artifact)
    {
        return Ok(None);
    }
    let sealed = session.state().identity.as_ref().is_some_and(|identity| identity.sealed);
    let (dir, number) = (home.session_dir(&at), number(home, &at)?);
    Ok(Some(Taken { at, dir, number, was_there: true, sealed, gone_on: None }))
}

fn write(
    artifact: &Artifact,
    document: &str,
    home: &Home,
    (into, id): (Into, SessionId),
    staging: &mut Staging,
) -> Result<()> {
    let disk = Arc::clone(home.disk());
    let dir = staging.session().to_owned();
    let mut keep = |text: &str| Ok(blob::payload(&*disk, &dir, text)?);
    let identity = identity(artifact, document, (into, id), &mut keep)?;
    let events = events(artifact, &mut keep)?;
    let bad =
        |error: serde_json::Error| Error::Damaged { dir: dir.clone(), problem: error.to_string() };
    let json = serde_json::to_vec_pretty(&identity).map_err(bad)?;
    let (created, mut prev) = (identity.created_at, Link::first(identity.id));
    let first = Draft::from(SessionCreated { identity: Box::new(identity) });
    let mut journal = Vec::new();
    for (at, (time, draft)) in std::iter::once((created, first)).chain(events).enumerate() {
        let from = journal.len();
        let synced = if at == 0 { 0 } else { 1 };
        let place = Place { seq: at as u64 + 1, prev, synced };
        line::encode(&draft, place, time, &mut journal).map_err(bad)?;
        prev = Link::to(journal[from..].trim_ascii_end());
    }
    for (name, bytes) in [(IDENTITY, &json), (JOURNAL, &journal)] {
        let path = staging.place(name);
        let mut file = staging.create(name)?;
        file.write_all(bytes).at(&path)?;
        file.sync().at(&path)?;
    }
    Ok(())
}

fn identity(
    artifact: &Artifact,
    document: &str,
    (into, id): (Into, SessionId),
    keep: Keep<'_>,
) -> Result<Identity> {
    let metadata = |key: &str| artifact.section("metadata").get(key).and_then(Value::text);
    let model = artifact.section("manifest").get("model").and_then(|model| model.get("name"));
    let model = model.and_then(Value::text).or(metadata("model_info"));
    Ok(Identity {
        v: identity::VERSION,
        id,
        created_at: created(artifact),
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
        origin: Some(keep(document)?),
        segue: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn events(artifact: &Artifact, keep: Keep<'_>) -> Result<Vec<Timed>> {
    let (agent, sealed) = (agent(artifact), !artifact.can_be_resumed());
    taken::events(artifact, &agent, created(artifact), sealed, keep)
}

/// The document that a session was made from, where everything that the session says follows from
/// it, and nothing else: what has been added since, or was put together by somebody, is not what a
/// signature in it covers.
pub(super) fn origin(session: &Session) -> Result<Option<Artifact>> {
    let found = follows(session)?;
    Ok(found.and_then(|(origin, since)| (since == Since::Nothing).then_some(origin)))
}

/// What a session has beyond the document that it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Nothing,
    /// It was named, or held by somebody who did nothing with it.
    Idle,
    Work,
}

/// The document that a session was made from, where what the session says begins as that does.
fn follows(session: &Session) -> Result<Option<(Artifact, Since)>> {
    let Some(ours) = session.state().identity.as_ref() else { return Ok(None) };
    let Some(origin) = &ours.origin else { return Ok(None) };
    let document = session.text(origin)?;
    let Ok(origin) = Artifact::read_document(&document) else { return Ok(None) };
    let mut keep = |text: &str| Ok(payload(text));
    let into = Into { repo: ours.repo.clone(), workspace: ours.workspace.clone() };
    let again = identity(&origin, &document, (into, ours.id), &mut keep)?;
    if (Identity { segue: ours.segue.clone(), ..again }) != *ours {
        return Ok(None);
    }
    let events = events(&origin, &mut keep)?;
    let (mut expected, mut follows, mut since) = (events.iter(), true, Since::Nothing);
    session.for_each(|event| {
        if event.seq == 1 {
            return;
        }
        match (expected.next(), &event.body) {
            (Some(expected), _) => follows &= says(&event, expected),
            (None, Body::SessionNamed(_) | Body::SessionResumed(_) | Body::SessionStopped(_))
                if since != Since::Work =>
            {
                since = Since::Idle;
            }
            (None, _) => since = Since::Work,
        }
    })?;
    Ok((follows && expected.next().is_none()).then_some((origin, since)))
}

/// Whether an event is the one that a document has to have. Which Segue took it in makes no
/// difference.
fn says(event: &Event, (at, draft): &Timed) -> bool {
    let data = |body: &Body| body.data().ok().map(|data| data.get().to_owned());
    let started = |body: &Body| matches!(body, Body::SessionStarted(_));
    event.at == *at
        && (event.turn, &event.agent, &event.id) == (draft.turn, &draft.agent, &draft.id)
        && event.body.kind() == draft.body.kind()
        && (started(&event.body) || data(&event.body) == data(&draft.body))
}

/// Where a text is, or would be.
fn payload(text: &str) -> Payload {
    match text.len() <= INLINE_LIMIT {
        true => Payload::inline(text),
        false => Payload::in_blob(blake3::hash(text.as_bytes()).to_hex().to_string(), text),
    }
}

/// The same document is the same session, wherever it is brought to; where that has gone on, it is the
/// second one that is made of it, and so on.
fn name(artifact: &Artifact, document: &str, nth: u32) -> SessionId {
    let mut hash = blake3::Hasher::new();
    hash.update(document.as_bytes());
    if nth > 1 {
        hash.update(&nth.to_le_bytes());
    }
    let mut random = [0; 16];
    random.copy_from_slice(&hash.finalize().as_bytes()[..16]);
    // As many bits as a ULID has for each.
    let millis = u64::try_from(created(artifact).as_millisecond()).unwrap_or_default();
    SessionId::from_parts(millis & ((1 << 48) - 1), u128::from_le_bytes(random) >> 48)
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
