//! Writing a bundle: one file that is there whole, or not at all.
//!
//! Everything is read twice: once for its hash, since the list of the hashes stands first, and once
//! for its bytes. Sizes are fixed at the first reading, so a session that goes on meanwhile is
//! exported as it was; what does not have its hash any more at the second is an error, never a
//! wrong bundle.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use rustix::fs::OFlags;
use segue_core::{Identity, inbox::Message};
use segue_journal::{
    Session,
    base::BASE,
    inbox,
    session::{self, IDENTITY, JOURNAL},
};

use crate::{
    GitPart, Progress, Stage,
    error::{At, Error, Result, Why},
    git,
    manifest::{FileEntry, MANIFEST, MAX_MANIFEST, Manifest, VERSION, VendorEntry},
    names,
    sound::sound,
    target::{Temporary, check_target},
};

const CHUNK: usize = 256 * 1024;
const LEVEL: i32 = 3;
/// What eleven octal digits of a tar header can say.
const MAX_FILE: u64 = (8 << 30) - 1;

#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Whether a bundle that is there is replaced.
    pub force: bool,
    /// The session's number here, as a hint.
    pub number: Option<u64>,
    /// The person's home directory, as a hint for where the workspace is elsewhere.
    pub home: Option<PathBuf>,
    /// The version of Segue that exports.
    pub segue: String,
    pub now: Timestamp,
    pub vendor_files: Vec<VendorFile>,
}

/// A vendor's own file that travels with the session.
#[derive(Clone, Debug)]
pub struct VendorFile {
    pub agent: String,
    pub id: String,
    /// A relative path of plain names.
    pub name: String,
    pub content: VendorContent,
}

#[derive(Clone, Debug)]
pub enum VendorContent {
    Bytes(Vec<u8>),
    File(PathBuf),
}

#[derive(Debug)]
pub struct Exported {
    pub path: PathBuf,
    /// How long the bundle is.
    pub bytes: u64,
    pub manifest: Manifest,
}

/// Writes the session, as it was when it was opened, into one file.
pub fn export(
    session: &Session,
    git: Option<&GitPart>,
    out: &Path,
    options: &ExportOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Exported> {
    check_target(out, options.force)?;
    let identity = sound(session)?;
    let mut items = session_items(session, &identity)?;
    for (name, part) in session.parts()? {
        let identity = sound(&part)?;
        items.extend(session_items(&part, &identity)?.into_iter().map(|item| {
            let name = format!("{name}/{}", item.name);
            Item { name, ..item }
        }));
    }
    items.extend(base_items(session)?);
    let vendors = vendor_items(&options.vendor_files, &mut items)?;
    let mut entries = Vec::new();
    if let Some(part) = git {
        progress(Progress { stage: Stage::Git, done: 0, total: 0 });
        entries = git_items(session, part, out, &mut items)?;
    }
    let files = hash_all(&mut items, progress)?;
    let manifest = Manifest {
        v: VERSION,
        session: session.id(),
        repo: identity.repo,
        name: session.state().name.clone(),
        number: options.number,
        home: options.home.clone(),
        created_at: options.now,
        segue: options.segue.clone(),
        files,
        git: entries,
        vendors,
    };
    let mut target = Temporary::beside(out)?;
    write(&mut target, &manifest, &mut items, progress)?;
    let bytes = target.file.metadata().at(out)?.len();
    progress(Progress { stage: Stage::Placing, done: bytes, total: bytes });
    target.publish(out, options.force)?;
    Ok(Exported { path: out.to_owned(), bytes, manifest })
}

/// One entry to be.
struct Item {
    name: String,
    content: Content,
    size: u64,
    hash: blake3::Hash,
}

enum Content {
    Bytes(Vec<u8>),
    Path(PathBuf),
    Open(File),
}

impl Item {
    fn bytes(name: &str, bytes: Vec<u8>) -> Self {
        let (size, hash) = (bytes.len() as u64, blake3::hash(&bytes));
        Self { name: name.to_owned(), content: Content::Bytes(bytes), size, hash }
    }

    /// A file, up to `size`, or to where it ends when it is hashed.
    fn file(name: String, path: PathBuf, size: Option<u64>) -> Self {
        let size = size.unwrap_or(u64::MAX);
        Self { name, content: Content::Path(path), size, hash: blake3::Hash::from_bytes([0; 32]) }
    }

    fn shown(&self) -> PathBuf {
        match &self.content {
            Content::Path(path) => path.clone(),
            _ => PathBuf::from(&self.name),
        }
    }

    /// Hands over the bytes up to the size, or to the file's end.
    fn each(&self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
        let opened;
        let file = match &self.content {
            Content::Bytes(bytes) => {
                each(bytes)?;
                return Ok(bytes.len() as u64);
            }
            Content::Open(file) => file,
            Content::Path(path) => {
                opened = open(path)?;
                &opened
            }
        };
        let mut buffer = vec![0; CHUNK];
        let mut at = 0;
        while at < self.size {
            let want = usize::try_from(self.size - at).unwrap_or(CHUNK).min(CHUNK);
            match file.read_at(&mut buffer[..want], at) {
                Ok(0) => break,
                Ok(n) => {
                    each(&buffer[..n])?;
                    at += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).at(&self.shown()),
            }
        }
        Ok(at)
    }
}

/// Opens a regular file. A link could lead to what nobody means to hand out.
fn open(path: &Path) -> Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).at(path)?;
    match file.metadata().at(path)?.is_file() {
        true => Ok(file),
        false => Err(Error::Unfit { name: path.display().to_string(), why: Why::Kind }),
    }
}

/// The session's own files. The journal's end was fixed when the session was opened, and all that
/// it names was on the disk before, so what is listed now has at least that.
fn session_items(session: &Session, identity: &Identity) -> Result<Vec<Item>> {
    let dir = session.dir();
    let said = session::read_identity(&**session.disk(), dir);
    let path = dir.join(IDENTITY);
    let bytes = match said {
        // As it stands, with fields that this version does not know.
        Ok(found) if found == *identity => fs::read(&path).at(&path)?,
        _ => serde_json::to_vec_pretty(identity).map_err(io::Error::other).at(&path)?,
    };
    let end = session.position().offset;
    let mut items = vec![
        Item::bytes(IDENTITY, bytes),
        Item::file(JOURNAL.to_owned(), dir.join(JOURNAL), Some(end)),
    ];
    let resume = dir.join(names::RESUME);
    match fs::symlink_metadata(&resume) {
        // It is replaced whole at any time, so it is read once.
        Ok(found) if found.is_file() => {
            let mut bytes = Vec::new();
            open(&resume)?.read_to_end(&mut bytes).at(&resume)?;
            items.push(Item::bytes(names::RESUME, bytes));
        }
        _ => {}
    }
    for waiting in inbox::waiting(&**session.disk(), dir)? {
        // What was asked of the process that works here is nothing for another machine.
        if let Message::Said { .. } = waiting.message {
            let bytes = serde_json::to_vec(&waiting.message).map_err(io::Error::other).at(dir)?;
            items.push(Item::bytes(&format!("inbox/{}.json", waiting.id), bytes));
        }
    }
    let mut found = Vec::new();
    walk(dir, "", &mut found)?;
    found.sort_unstable();
    items.extend(found.into_iter().map(|name| {
        let path = dir.join(&name);
        Item::file(name, path, None)
    }));
    Ok(items)
}

/// The part of another session that this one begins with, or is answered by, and so on: its journal
/// up to there, and the long texts that it names.
fn base_items(session: &Session) -> Result<Vec<Item>> {
    let mut layers = session.layers()?.split_off(1);
    // One whose recording is gone can still be looked at elsewhere.
    if let Ok(Some((recorded, recording))) = session.recorded() {
        layers = recorded.layers()?;
        layers.iter_mut().take(1).for_each(|first| first.end = recording.offset);
    }
    let mut items = Vec::new();
    let mut prefix = String::new();
    for layer in &layers {
        prefix = format!("{prefix}{BASE}/");
        let part = Session::open(std::sync::Arc::clone(session.disk()), &layer.dir)?;
        sound(&part)?;
        let journal = layer.dir.join(JOURNAL);
        items.push(Item::file(format!("{prefix}{JOURNAL}"), journal, Some(layer.end)));
        let path = layer.dir.join(IDENTITY);
        items.push(Item::bytes(&format!("{prefix}{IDENTITY}"), fs::read(&path).at(&path)?));
        let mut found = Vec::new();
        walk(&layer.dir, "", &mut found)?;
        found.retain(|name| name.starts_with("blobs/"));
        found.sort_unstable();
        items.extend(found.into_iter().map(|name| {
            let path = layer.dir.join(&name);
            Item::file(format!("{prefix}{name}"), path, None)
        }));
    }
    Ok(items)
}

/// Blobs, streams and torn tails. What is not a regular file, or has a name that is not ours, is
/// somebody else's, or just being written.
fn walk(dir: &Path, below: &str, found: &mut Vec<String>) -> Result<()> {
    let here = dir.join(below);
    for entry in fs::read_dir(&here).at(&here)? {
        let entry = entry.at(&here)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type().at(&here)?;
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        let top = !path.contains('/');
        if kind.is_dir() && (!top || ["blobs", "streams"].contains(&path.as_str())) {
            walk(dir, &path, found)?;
        } else if kind.is_file() && names::is_session_file(&path) && (!top || names::is_torn(&path))
        {
            found.push(path);
        }
    }
    Ok(())
}

fn vendor_items(files: &[VendorFile], items: &mut Vec<Item>) -> Result<Vec<VendorEntry>> {
    let mut entries: Vec<VendorEntry> = Vec::new();
    for VendorFile { agent, id, name, content } in files {
        let entry = VendorEntry { agent: agent.clone(), id: id.clone(), name: name.clone() };
        let file = entry.file();
        if !entry.is_plain() || !names::is_allowed(&file) {
            return Err(Error::Unfit { name: file, why: Why::Path });
        }
        if entries.contains(&entry) {
            return Err(Error::Unfit { name: file, why: Why::Twice });
        }
        items.push(match content {
            VendorContent::Bytes(bytes) => Item::bytes(&file, bytes.clone()),
            VendorContent::File(path) => Item::file(file, path.clone(), None),
        });
        entries.push(entry);
    }
    Ok(entries)
}

fn git_items(
    session: &Session,
    part: &GitPart,
    out: &Path,
    items: &mut Vec<Item>,
) -> Result<Vec<crate::GitEntry>> {
    let mut entries = Vec::new();
    let nested = part.nested.iter().map(String::as_str);
    for (n, path) in std::iter::once("").chain(nested).enumerate() {
        if n > 0 && !names::is_plain_path(path) {
            return Err(Error::Unfit { name: path.to_owned(), why: Why::Path });
        }
        let dir = part.workspace.join(path);
        let mut file = Temporary::beside(out)?.nameless()?;
        let Some(mut entry) = git::pack(&dir, session.id(), part.history, &mut file)? else {
            continue;
        };
        path.clone_into(&mut entry.path);
        if file.metadata().at(out)?.len() > 0 {
            let name = if n == 0 { names::GIT.to_owned() } else { format!("git/{n}.bundle") };
            entry.file = Some(name.clone());
            items.push(Item { content: Content::Open(file), ..Item::file(name, dir, None) });
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The first reading: sizes and hashes.
fn hash_all(items: &mut [Item], progress: &mut dyn FnMut(Progress)) -> Result<Vec<FileEntry>> {
    let mut files = Vec::with_capacity(items.len());
    let mut done = 0;
    for item in items {
        let mut hasher = blake3::Hasher::new();
        let size = item.each(|chunk| {
            hasher.update(chunk);
            done += chunk.len() as u64;
            progress(Progress { stage: Stage::Hashing, done, total: 0 });
            Ok(())
        })?;
        if item.size != u64::MAX && item.size != size {
            return Err(Error::Changed { path: item.shown() });
        }
        if size > MAX_FILE {
            return Err(Error::Unfit { name: item.name.clone(), why: Why::TooLarge(MAX_FILE) });
        }
        item.size = size;
        item.hash = hasher.finalize();
        let blake3 = item.hash.to_hex().to_string();
        files.push(FileEntry { path: item.name.clone(), size, blake3 });
    }
    Ok(files)
}

/// The second reading: the bundle itself.
fn write(
    target: &mut Temporary,
    manifest: &Manifest,
    items: &mut [Item],
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    let at = target.path.clone();
    let mut zstd = zstd::Encoder::new(BufWriter::new(&target.file), LEVEL).at(&at)?;
    zstd.include_checksum(true).at(&at)?;
    let mut tar = tar::Builder::new(zstd);
    let mut json = serde_json::to_vec_pretty(manifest).map_err(io::Error::other).at(&at)?;
    json.push(b'\n');
    if json.len() as u64 > MAX_MANIFEST {
        let why = Why::TooLarge(MAX_MANIFEST);
        return Err(Error::Unfit { name: MANIFEST.to_owned(), why });
    }
    append(&mut tar, MANIFEST, json.len() as u64, &at, |out| out.write_all(&json).at(&at))?;
    let total = items.iter().map(|item| item.size).sum();
    let mut done = 0;
    for item in items {
        let mut hasher = blake3::Hasher::new();
        append(&mut tar, &item.name, item.size, &at, |out| {
            item.each(|chunk| {
                hasher.update(chunk);
                out.write_all(chunk).at(&at)?;
                done += chunk.len() as u64;
                progress(Progress { stage: Stage::Writing, done, total });
                Ok(())
            })
            .map(drop)
        })?;
        if hasher.finalize() != item.hash {
            return Err(Error::Changed { path: item.shown() });
        }
    }
    let zstd = tar.into_inner().at(&at)?;
    zstd.finish().and_then(|mut out| out.flush()).at(&at)
}

/// One regular file. Who made it and when is not told: the same session makes the same bytes.
fn append<W: Write>(
    tar: &mut tar::Builder<W>,
    name: &str,
    size: u64,
    at: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(size);
    header.set_mode(0o600);
    header.set_entry_type(tar::EntryType::Regular);
    // With nothing to read, the tar library writes the name, short or long, and the header.
    tar.append_data(&mut header, name, io::empty()).at(at)?;
    let out = tar.get_mut();
    fill(out)?;
    let used = usize::try_from(size % 512).unwrap_or_default();
    out.write_all(&[0; 512][..(512 - used) % 512]).at(at)
}
