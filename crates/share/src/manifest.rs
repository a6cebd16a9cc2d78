//! `bundle.json`: what a bundle holds, file by file. It stands first, so that everything after it
//! can be held against it while it is read.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use segue_core::{SessionId, identity::RepoRef};
use segue_journal::session::{IDENTITY, JOURNAL};
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result, Why},
    git,
    names::{self, is_hex, is_plain, is_plain_path},
};

/// The version of the bundle format that this Segue writes.
pub const VERSION: u32 = 1;
/// The manifest's name in the bundle.
pub const MANIFEST: &str = "bundle.json";
/// Half a million files. What is longer is no list of a session's files.
pub(crate) const MAX_MANIFEST: u64 = 64 << 20;

/// What `bundle.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub v: u32,
    pub session: SessionId,
    /// The same as in `session.json`.
    pub repo: RepoRef,
    /// What the session was called where it comes from. A hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its number there. A hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The person's home directory there, to find the workspace again. A hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<PathBuf>,
    /// When the bundle was made.
    pub created_at: Timestamp,
    /// The version of Segue that made it.
    pub segue: String,
    /// Every other entry.
    pub files: Vec<FileEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub git: Vec<GitEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vendors: Vec<VendorEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// The entry's name in the bundle.
    pub path: String,
    pub size: u64,
    /// 64 hex digits.
    pub blake3: String,
}

/// What a bundle has of one repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitEntry {
    /// Where it is in the workspace; empty for the workspace's own.
    pub path: String,
    /// The git bundle. Absent where every ref points to a commit that the other side has to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub refs: Vec<GitRef>,
    /// Commits that are not in it, and that it builds on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitRef {
    pub name: String,
    pub commit: String,
    /// Whether the commit is in the git bundle; else it is one of those that are needed.
    pub carried: bool,
}

/// A vendor's own file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VendorEntry {
    pub agent: String,
    /// What the vendor calls its session.
    pub id: String,
    /// Where it belongs, within what the vendor keeps.
    pub name: String,
}

impl VendorEntry {
    /// The entry's name in the bundle.
    #[must_use]
    pub fn file(&self) -> String {
        format!("vendors/{}/{}/{}", self.agent, self.id, self.name)
    }

    pub(crate) fn is_plain(&self) -> bool {
        is_plain(&self.agent) && is_plain(&self.id) && is_plain_path(&self.name)
    }
}

impl Manifest {
    /// Reads what a bundle says of itself, and checks all that can be checked without its files.
    pub(crate) fn parse(bundle: &Path, bytes: &[u8], limit: u64) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }
        let json = |error: serde_json::Error| Error::NotABundle {
            path: bundle.to_owned(),
            why: Why::Json(error.to_string()),
        };
        // First alone: a newer one may look different in every other way.
        let Version { v } = serde_json::from_slice(bytes).map_err(json)?;
        if v > VERSION {
            return Err(Error::Newer { path: bundle.to_owned(), found: v });
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(json)?;
        manifest.check(limit).map_err(|(entry, why)| Error::Refused {
            path: bundle.to_owned(),
            entry,
            why,
        })?;
        Ok(manifest)
    }

    fn check(&self, limit: u64) -> Result<(), (String, Why)> {
        if !names::is_repo_id(&self.repo.id) {
            return Err((MANIFEST.to_owned(), Why::RepoId(self.repo.id.clone())));
        }
        let mut total = 0u64;
        let mut files = HashSet::new();
        for FileEntry { path, size, blake3 } in &self.files {
            let no = |why| Err((path.clone(), why));
            if !is_plain_path(path) {
                return no(Why::Path);
            }
            if !names::is_allowed(path) {
                return no(Why::Name);
            }
            if blake3.len() != 64 || !is_hex(blake3) {
                return no(Why::Hash);
            }
            if !files.insert(path.as_str()) {
                return no(Why::Twice);
            }
            total = total.saturating_add(*size);
            if total > limit {
                return no(Why::TooLarge(limit));
            }
        }
        for needed in [IDENTITY, JOURNAL] {
            if !files.contains(needed) {
                return Err((needed.to_owned(), Why::Missing));
            }
        }
        self.check_parts(&mut files)
    }

    /// Every git bundle and every vendor's file is described once, and nothing else is.
    fn check_parts<'a>(&'a self, files: &mut HashSet<&'a str>) -> Result<(), (String, Why)> {
        let mut places = HashSet::new();
        for entry in &self.git {
            let file = entry.file.as_deref();
            let name = file.unwrap_or(MANIFEST).to_owned();
            if file.is_some_and(|file| !names::is_git(file) || !files.remove(file)) {
                return Err((name, Why::Missing));
            }
            if !(entry.path.is_empty() || is_plain_path(&entry.path)) {
                return Err((name, Why::Path));
            }
            if !places.insert(entry.path.as_str()) {
                return Err((name, Why::Twice));
            }
            git::check_entry(self.session, entry).map_err(|why| (name, Why::Git(why)))?;
        }
        for entry in &self.vendors {
            let file = entry.file();
            if !entry.is_plain() {
                return Err((file, Why::Path));
            }
            if !files.remove(file.as_str()) {
                return Err((file, Why::Missing));
            }
        }
        match files.iter().find(|path| !names::is_session_file(path)) {
            Some(path) => Err(((*path).to_owned(), Why::Name)),
            None => Ok(()),
        }
    }
}
