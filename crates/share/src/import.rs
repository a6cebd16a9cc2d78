//! Taking a bundle in. It is hostile until everything in it has been checked: against its own list,
//! and then, as a session, by the journal's own verification. Only then it gets its name.
//!
//! Killed at any point, an import leaves the session whole or not there, and perhaps a hidden
//! directory, which the next import of the same session removes. A session that is there is never
//! changed.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_core::{SessionId, inbox::Message};
use segue_journal::{
    Disk, Home, Session,
    base::BASE,
    disk::parent,
    home::Located,
    inbox,
    repair::{self, Problem},
    session::{self, IDENTITY, JOURNAL},
};

use crate::{
    Progress, Stage,
    compare::compare,
    error::{At, Error, Result, Why},
    manifest::{FileEntry, GitEntry, Manifest, VendorEntry},
    names,
    staging::Staging,
    unpack::{Entry, Limits, Unpack},
};

#[derive(Clone, Copy, Debug)]
pub struct ImportOptions {
    /// How many bytes all files together may have.
    pub limit: u64,
    /// How many bytes may come out of one byte of the bundle, after the first 64 MiB.
    pub ratio: u64,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { limit: 8 << 30, ratio: 200 }
    }
}

/// A session that is here now. What else the bundle brought is in files that go away with this
/// value.
#[derive(Debug)]
pub struct Imported {
    pub manifest: Manifest,
    pub dir: PathBuf,
    pub at: Located,
    pub number: u64,
    /// The very same session was here before.
    pub was_there: bool,
    /// For [`crate::fetch_git`].
    pub git: Vec<StagedGit>,
    pub vendors: Vec<StagedVendor>,
    _staging: Staging,
}

/// What a bundle has of one repository.
#[derive(Clone, Debug)]
pub struct StagedGit {
    pub session: SessionId,
    pub entry: GitEntry,
    /// The git bundle, where there is one.
    pub file: Option<PathBuf>,
}

/// A vendor's file. Its names are plain; where it belongs is for others to say.
#[derive(Clone, Debug)]
pub struct StagedVendor {
    pub entry: VendorEntry,
    pub file: PathBuf,
}

/// What a bundle says of itself. Its files are not looked at.
pub fn inspect(path: &Path) -> Result<Manifest> {
    let limits = Limits { bytes: u64::MAX, ratio: ImportOptions::default().ratio };
    Ok(Unpack::open(path, limits)?.1)
}

/// Brings the session of a bundle into a home, and gives it a number.
pub fn import(
    path: &Path,
    home: &Home,
    options: &ImportOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported> {
    let limits = Limits { bytes: options.limit, ratio: options.ratio };
    let (mut unpack, manifest) = Unpack::open(path, limits)?;
    let at = Located { repo: manifest.repo.id.clone(), id: manifest.session };
    let mut staging = Staging::new(home, &at)?;
    take_out(&mut unpack, &manifest, &mut staging, progress)?;
    progress(Progress { stage: Stage::Verifying, done: 0, total: 0 });
    let theirs = check(path, &manifest, home, &staging)?;
    staging.sync()?;
    progress(Progress { stage: Stage::Placing, done: 0, total: 0 });
    let (at, was_there) = place(home, at, &mut staging, &theirs)?;
    let dir = home.session_dir(&at);
    if was_there {
        // Whoever brought it may have been killed before its name was safe.
        home.disk().sync_dir(parent(&dir)).at(parent(&dir))?;
    }
    let number = number(home, &at)?;
    let git = manifest.git.iter().map(|entry| StagedGit {
        session: manifest.session,
        file: entry.file.as_ref().map(|file| staging.place(file)),
        entry: entry.clone(),
    });
    let vendors = manifest
        .vendors
        .iter()
        .map(|entry| StagedVendor { file: staging.place(&entry.file()), entry: entry.clone() });
    let (git, vendors) = (git.collect(), vendors.collect());
    Ok(Imported { manifest, dir, at, number, was_there, git, vendors, _staging: staging })
}

/// Takes every file out, and holds it against the list.
fn take_out(
    unpack: &mut Unpack,
    manifest: &Manifest,
    staging: &mut Staging,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    let mut open: HashMap<&str, (&FileEntry, bool)> =
        manifest.files.iter().map(|file| (file.path.as_str(), (file, false))).collect();
    let total = manifest.files.iter().fold(0u64, |sum, file| sum.saturating_add(file.size));
    let mut done = 0;
    while let Some(entry) = unpack.next()? {
        if !names::is_allowed(&entry.name) {
            return Err(unpack.refuse(&entry.name, Why::Name));
        }
        let Some((listed, seen)) = open.get_mut(entry.name.as_str()) else {
            return Err(unpack.refuse(&entry.name, Why::NotListed));
        };
        if std::mem::replace(seen, true) {
            return Err(unpack.refuse(&entry.name, Why::Twice));
        }
        take_one(unpack, &entry, listed, staging, &mut |bytes| {
            done += bytes;
            progress(Progress { stage: Stage::Unpacking, done, total });
        })?;
    }
    // In the order of the list, so that the same bundle is refused for the same reason.
    let lost = manifest
        .files
        .iter()
        .find(|file| open.get(file.path.as_str()).is_some_and(|(_, seen)| !seen));
    match lost {
        Some(file) => Err(unpack.refuse(&file.path, Why::Missing)),
        None => Ok(()),
    }
}

fn take_one(
    unpack: &mut Unpack,
    entry: &Entry,
    listed: &FileEntry,
    staging: &mut Staging,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    if entry.size != listed.size {
        let why = Why::Size { listed: listed.size, found: entry.size };
        return Err(unpack.refuse(&entry.name, why));
    }
    let path = staging.place(&entry.name);
    let mut file = staging.create(&entry.name)?;
    let mut hasher = blake3::Hasher::new();
    unpack.body(entry, |chunk| {
        hasher.update(chunk);
        file.write_all(chunk).at(&path)?;
        progress(chunk.len() as u64);
        Ok(())
    })?;
    if hasher.finalize().to_hex().as_str() != listed.blake3 {
        return Err(unpack.refuse(&entry.name, Why::Hash));
    }
    // The rest goes away with the import, so it need not outlive a power cut.
    if names::is_session_file(&entry.name) {
        file.sync().at(&path)?;
    }
    Ok(())
}

/// The session as a session: the names agree, every line, every link and every blob is right.
fn check(bundle: &Path, manifest: &Manifest, home: &Home, staging: &Staging) -> Result<Session> {
    let refuse =
        |entry: &str, why| Error::Refused { path: bundle.to_owned(), entry: entry.to_owned(), why };
    let broken =
        |entry: &str, error: segue_journal::Error| refuse(entry, Why::Session(error.to_string()));
    let disk = home.disk();
    let identity =
        session::read_identity(&**disk, staging.session()).map_err(|e| broken(IDENTITY, e))?;
    let said = [
        (manifest.session.to_string(), identity.id.to_string()),
        (manifest.repo.id.clone(), identity.repo.id.clone()),
        (manifest.repo.identity.clone(), identity.repo.identity.clone()),
    ];
    for (listed, found) in said {
        if listed != found {
            return Err(refuse(IDENTITY, Why::Disagrees { listed, found }));
        }
    }
    // Opened under the id of `session.json`, so the journal's chain has to begin with that one.
    let session =
        Session::open(Arc::clone(disk), staging.session()).map_err(|e| broken(JOURNAL, e))?;
    verify(&session).map_err(|(entry, why)| refuse(entry, Why::Session(why)))?;
    check_inbox(&**disk, staging.session()).map_err(|why| refuse("inbox", Why::Session(why)))?;
    for (name, part) in session.parts().map_err(|e| broken(JOURNAL, e))? {
        let entry = |entry: &str| format!("{name}/{entry}");
        verify(&part).map_err(|(file, why)| refuse(&entry(file), Why::Session(why)))?;
    }
    let mut layers = session.layers().map_err(|e| broken(JOURNAL, e))?.split_off(1);
    let entry = |entry: &str| format!("{BASE}/{entry}");
    match session.recorded() {
        Ok(Some((recorded, _))) => {
            layers = recorded.layers().map_err(|e| broken(&entry(JOURNAL), e))?;
        }
        // Without its recording it can be looked at.
        Err(error) if disk.exists(&staging.session().join(BASE).join(JOURNAL)) => {
            return Err(broken(&entry(JOURNAL), error));
        }
        _ => {}
    }
    for layer in layers {
        // Nothing outside of the bundle may be meant.
        if !layer.dir.starts_with(staging.session()) {
            let why = "the session that it begins with is not in the bundle".to_owned();
            return Err(refuse(&entry(JOURNAL), Why::Session(why)));
        }
        let part = Session::open(Arc::clone(disk), &layer.dir).map_err(|e| broken(JOURNAL, e))?;
        verify(&part).map_err(|(file, why)| refuse(&entry(file), Why::Session(why)))?;
    }
    Ok(session)
}

/// Only words travel: a request to hand over or to stop was meant for a process elsewhere.
fn check_inbox(disk: &dyn Disk, dir: &Path) -> std::result::Result<(), String> {
    let files = disk.list(&dir.join("inbox")).unwrap_or_default();
    let waiting = inbox::waiting(disk, dir).map_err(|error| error.to_string())?;
    let words = waiting.iter().filter(|one| matches!(one.message, Message::Said { .. })).count();
    match words == files.len() {
        true => Ok(()),
        false => Err("it holds something else than messages".to_owned()),
    }
}

/// What is wrong with a session, and in which of its files.
pub(crate) fn verify(session: &Session) -> std::result::Result<(), (&'static str, String)> {
    let report = repair::verify(session).map_err(|error| (JOURNAL, error.to_string()))?;
    for problem in report.problems {
        return Err(match problem {
            Problem::TornTail { .. } | Problem::Derived { .. } => continue,
            Problem::Damaged(damage) => {
                (JOURNAL, format!("line {}: {}", damage.line, damage.finding))
            }
            Problem::Base { error } | Problem::Unreadable { error } => (JOURNAL, error.to_string()),
            Problem::Blob { line, error } => (JOURNAL, format!("line {line}: {error}")),
            Problem::Identity { .. } => {
                (IDENTITY, "it does not say what the journal says".to_owned())
            }
            Problem::Snapshot => (JOURNAL, "it is not what its snapshot says".to_owned()),
        });
    }
    Ok(())
}

/// Renames the session to its place, or finds that the same one is there, also under another
/// repository's name.
fn place(
    home: &Home,
    at: Located,
    staging: &mut Staging,
    theirs: &Session,
) -> Result<(Located, bool)> {
    let there = home.sessions()?.into_iter().find(|found| found.id == at.id);
    let there = match there {
        Some(found) => found,
        None if staging.publish(&home.session_dir(&at))? => return Ok((at, false)),
        // Another import was faster.
        None => at,
    };
    compare(&home.open(&there)?, theirs)?;
    Ok((there, true))
}

/// The session's number, also where it has none yet. Two imports at once may each give it one: then
/// both say the lower one.
pub(crate) fn number(home: &Home, at: &Located) -> Result<u64> {
    let known = || -> Result<Option<u64>> {
        let found = home.numbers()?.into_iter().find(|(_, found)| found == at);
        Ok(found.map(|(number, _)| number))
    };
    if let Some(number) = known()? {
        return Ok(number);
    }
    let given = home.give_number(at)?;
    Ok(known()?.unwrap_or(given))
}
