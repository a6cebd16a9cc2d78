//! The private index, and what is written to the repository.

use std::fs::{File, FileTimes};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::{Looked, SnapshotError, Snapshots};
use crate::git::{self, GitError, Place, is_id};
use crate::index::{self, Entries, LINK};
use crate::scan::Seen;

/// File systems stamp files with a clock that lags behind by up to this much.
const CLOCK_LAG: Duration = Duration::from_millis(20);
const WHO: &str = "Segue <segue@localhost>";

/// The last snapshot of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Last {
    pub(super) commit: String,
    pub(super) tree: String,
    /// A hash of everything in it that is not in the tree.
    pub(super) mark: String,
}

pub(super) fn mark(line: &str, head: Option<&str>) -> String {
    blake3::hash(format!("{} {line}", head.unwrap_or("none")).as_bytes()).to_hex().to_string()
}

/// What has to change in the private index.
#[derive(Debug, Default)]
pub(super) struct Edits {
    /// In the form of `update-index --index-info`.
    removed: Vec<u8>,
    set: Vec<u8>,
    /// To be read from disk.
    added: Vec<(Vec<u8>, u32)>,
}

impl Edits {
    pub(super) fn remove(&mut self, place: &Place, path: &[u8]) {
        self.removed.extend_from_slice(format!("0 {}\t", place.zero_id()).as_bytes());
        self.removed.extend_from_slice(path);
        self.removed.push(0);
    }

    pub(super) fn set(&mut self, mode: u32, id: &str, path: &[u8]) {
        self.set.extend_from_slice(format!("{mode:o} {id}\t").as_bytes());
        self.set.extend_from_slice(path);
        self.set.push(0);
    }

    pub(super) fn add(&mut self, path: &[u8], mode: u32) {
        self.added.push((path.to_vec(), mode));
    }
}

impl Snapshots {
    /// The entries of the user's index.
    pub(crate) fn tracked(&self) -> Result<Entries, SnapshotError> {
        if self.shadow {
            return Ok(Entries::default());
        }
        let path = self.place.git_dir.join("index");
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entries::default()),
            Err(source) => return Err(SnapshotError::Io { path, source }),
        };
        if let Some(entries) = index::parse(&bytes, self.place.id_len) {
            return Ok(entries);
        }
        let mut command = self.place.user();
        command.args(["ls-files", "-z", "-v", "--stage"]);
        let (what, dir) = git::describe(&command);
        let listing = index::parse_listing(&git::run(command)?, self.place.id_len);
        listing.ok_or_else(|| GitError::Odd { what, dir }.into())
    }

    /// The entries of the private index, and when it was written.
    pub(crate) fn private(&self) -> Result<(Entries, (u32, u32)), SnapshotError> {
        let path = self.file("index");
        let fail = |source| SnapshotError::Io { path: path.clone(), source };
        let meta = match std::fs::metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((Entries::default(), (0, 0)));
            }
            Err(source) => return Err(fail(source)),
        };
        let bytes = std::fs::read(&path).map_err(fail)?;
        let seconds = u32::try_from(meta.mtime()).unwrap_or(0);
        let nanos = u32::try_from(meta.mtime_nsec()).unwrap_or(0);
        match index::parse(&bytes, self.place.id_len) {
            Some(entries) => Ok((entries, (seconds, nanos))),
            None => {
                // Made by another git, or cut short. It is a cache: begin again.
                std::fs::remove_file(&path).map_err(fail)?;
                Ok((Entries::default(), (0, 0)))
            }
        }
    }

    /// Begins with a copy of the user's index, so that unchanged files need not be read; but only
    /// where nothing converts content, since then the user's blobs are not what is on disk.
    pub(super) fn seed(&self, tracked: &Entries, seen: &Seen<'_>) -> Result<(), SnapshotError> {
        let user = self.place.git_dir.join("index");
        if tracked.is_empty() || self.converts(tracked, seen)? {
            return Ok(());
        }
        let copy = || -> io::Result<()> {
            let bytes = std::fs::read(&user)?;
            if index::parse(&bytes, self.place.id_len).is_none() {
                return Ok(());
            }
            // The time says up to when its entries can be relied on, so it is copied too.
            let times = FileTimes::new().set_modified(std::fs::metadata(&user)?.modified()?);
            let part = self.file("part");
            std::fs::write(&part, bytes)?;
            File::options().write(true).open(&part)?.set_times(times)?;
            std::fs::rename(&part, self.file("index"))
        };
        copy().map_err(|source| SnapshotError::Io { path: user, source })
    }

    /// Whether attributes or line end settings may apply to any file.
    fn converts(&self, tracked: &Entries, seen: &Seen<'_>) -> Result<bool, SnapshotError> {
        if has_attributes(tracked, seen) || self.place.common.join("info/attributes").exists() {
            return Ok(true);
        }
        let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
        let config = std::env::var_os("XDG_CONFIG_HOME").map(std::path::PathBuf::from);
        let config = config.or_else(|| home.map(|home| home.join(".config")));
        let own = config.map(|config| config.join("git/attributes"));
        if own.is_some_and(|own| own.exists()) || Path::new("/etc/gitattributes").exists() {
            return Ok(true);
        }
        // Not with the fixed settings, one of which is asked about here.
        let mut command = git::plain(&self.place.top);
        command.env("GIT_DIR", &self.place.git_dir).args([
            "config",
            "-z",
            "--get-regexp",
            r"^core\.(autocrlf|eol|attributesfile)$",
        ]);
        Ok(match git::ask(command, Vec::new(), 1)? {
            Some(output) => output
                .split(|&b| b == 0)
                .filter(|setting| !setting.is_empty())
                .any(|setting| setting != b"core.autocrlf\nfalse"),
            None => false,
        })
    }

    /// Applies the edits. Says whether the tree may be another one now.
    pub(super) fn apply(
        &self,
        mut edits: Edits,
        looked: &Looked<'_>,
    ) -> Result<bool, SnapshotError> {
        let nothing = edits.removed.is_empty() && edits.set.is_empty() && edits.added.is_empty();
        let index = self.file("index");
        if nothing {
            return Ok(!index.exists());
        }
        if !self.place.attr_source && has_attributes(looked.tracked, &looked.seen) {
            self.hash_raw(&mut edits)?;
        }
        // Killed from here on, the index would be ahead of what is remembered of it.
        self.remove("last")?;
        let infos = [edits.removed, edits.set].concat();
        if !infos.is_empty() {
            let mut command = self.place.raw(&index);
            command.args(["update-index", "-z", "--index-info"]);
            git::feed(command, infos)?;
        }
        if !edits.added.is_empty() {
            let mut command = self.place.raw(&index);
            command.args(["update-index", "--add", "--remove", "--replace", "-z", "--stdin"]);
            let mut input = Vec::new();
            for (path, _) in &edits.added {
                input.extend_from_slice(path);
                input.push(0);
            }
            git::feed(command, input)?;
        }
        // Everything was compared after this moment, so only later changes are in doubt.
        let times = FileTimes::new().set_modified(looked.start - CLOCK_LAG);
        let stamp = || File::options().append(true).open(&index)?.set_times(times);
        match stamp() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SnapshotError::Io { path: index, source: error })
            }
            _ => Ok(true),
        }
    }

    /// For a git that applies attributes whatever it is told: files are hashed one by one, and the
    /// index learns the result, without their status. Slower, and right.
    fn hash_raw(&self, edits: &mut Edits) -> Result<(), SnapshotError> {
        let (links, files): (Vec<_>, Vec<_>) =
            std::mem::take(&mut edits.added).into_iter().partition(|(_, mode)| *mode == LINK);
        edits.added = links;
        let mut input = Vec::new();
        for (path, _) in &files {
            input.push(b'"');
            for byte in path {
                input.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            }
            input.extend_from_slice(b"\"\n");
        }
        if files.is_empty() {
            return Ok(());
        }
        let mut command = self.place.raw(&self.file("index"));
        command.args(["hash-object", "-w", "--no-filters", "--stdin-paths"]);
        let output = git::line(&git::feed(command, input)?);
        for ((path, mode), id) in files.iter().zip(output.lines()) {
            edits.set(*mode, id, path);
        }
        Ok(())
    }

    pub(super) fn write_tree(&self, sparse: bool) -> Result<String, SnapshotError> {
        if !self.file("index").exists() {
            let mut command = self.place.raw(&self.file("index"));
            command.args(["hash-object", "-t", "tree", "-w", "--stdin"]);
            return Ok(git::line(&git::run(command)?));
        }
        let mut command = self.place.raw(&self.file("index"));
        command.arg("write-tree");
        if sparse {
            // A partial clone does not have what it does not check out.
            command.arg("--missing-ok");
        }
        Ok(git::line(&git::run(command)?))
    }

    pub(crate) fn write_commit(
        &self,
        tree: &str,
        head: Option<&str>,
        message: &str,
        line: &str,
    ) -> Result<String, SnapshotError> {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        let parent = head.map(|head| format!("parent {head}\n")).unwrap_or_default();
        let message = message.replace('\0', " ");
        let text = format!(
            "tree {tree}\n{parent}author {WHO} {now} +0000\ncommitter {WHO} {now} +0000\n\n\
             {message}\n\n{line}\n"
        );
        let mut command = self.place.raw(&self.file("index"));
        command.args(["hash-object", "-t", "commit", "-w", "--stdin"]);
        Ok(git::line(&git::feed(command, text.into_bytes())?))
    }

    pub(super) fn point(&self, reference: &str, commit: &str) -> Result<(), SnapshotError> {
        let mut command = self.place.user();
        command.args(["update-ref", "--no-deref", reference, commit]);
        git::run(command)?;
        Ok(())
    }

    /// The commit and the branch that are checked out.
    pub(super) fn head(&self) -> Result<(Option<String>, Option<String>), SnapshotError> {
        if self.shadow {
            return Ok((None, None));
        }
        let mut command = self.place.user();
        command.args(["rev-parse", "HEAD", "--symbolic-full-name", "HEAD"]);
        let answer = git::ask(command, Vec::new(), 128)?.unwrap_or_default();
        let mut lines = answer.split(|&b| b == b'\n');
        let id = lines.next().filter(|id| id.len() == self.place.id_len * 2);
        if let Some(id) = id {
            return Ok((Some(git::line(id)), lines.next().and_then(crate::repo::branch_name)));
        }
        // Before the first commit, only the branch has a name.
        let mut command = self.place.user();
        command.args(["symbolic-ref", "-q", "HEAD"]);
        let branch = git::ask(command, Vec::new(), 1)?.unwrap_or_default();
        Ok((None, crate::repo::branch_name(branch.trim_ascii_end())))
    }

    /// What is checked out, and the last snapshot if the repository still has it. If that was
    /// cleaned up, then so may be what the private index names.
    #[expect(clippy::type_complexity, reason = "two answers to one question")]
    pub(super) fn head_and_last(
        &self,
    ) -> Result<((Option<String>, Option<String>), Option<Last>), SnapshotError> {
        let text = std::fs::read(self.file("last")).unwrap_or_default();
        let Ok(last) = serde_json::from_slice::<Last>(&text) else {
            return Ok((self.head()?, None));
        };
        if !self.shadow && is_id(&last.commit) {
            // Mostly, one question will do.
            let mut command = self.place.user();
            let commit = format!("{}^{{commit}}", last.commit);
            command.args(["rev-parse", &commit, "HEAD", "--symbolic-full-name", "HEAD"]);
            let answer = git::ask(command, Vec::new(), 128)?.unwrap_or_default();
            let lines: Vec<&[u8]> = answer.split(|&b| b == b'\n').collect();
            if let [found, head, branch, ..] = lines.as_slice()
                && *found == last.commit.as_bytes()
                && head.len() == found.len()
            {
                let head = (Some(git::line(head)), crate::repo::branch_name(branch));
                return Ok((head, Some(last)));
            }
        }
        let exists = self.exists(&last.commit)?;
        Ok((self.head()?, Some(last).filter(|_| exists)))
    }

    pub(super) fn remember(&self, last: &Last) -> Result<(), SnapshotError> {
        let path = self.file("last");
        let part = self.file("last-part");
        let write = || {
            std::fs::write(&part, serde_json::to_vec(last)?)?;
            std::fs::rename(&part, &path)
        };
        write().map_err(|source: io::Error| SnapshotError::Io { path: path.clone(), source })
    }

    /// Drops the cache: the next snapshot begins anew.
    pub(super) fn forget(&self) -> Result<(), SnapshotError> {
        ["last", "index", "index.lock"].into_iter().try_for_each(|kind| self.remove(kind))
    }

    /// Removes a file of the cache, which need not be there.
    fn remove(&self, kind: &str) -> Result<(), SnapshotError> {
        let path = self.file(kind);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(SnapshotError::Io { path, source })
            }
            _ => Ok(()),
        }
    }
}

fn has_attributes(tracked: &Entries, seen: &Seen<'_>) -> bool {
    let named = |path: &[u8]| path.rsplit(|&b| b == b'/').next() == Some(b".gitattributes");
    tracked.iter().any(|entry| named(entry.path)) || seen.files.iter().any(|(path, _)| named(path))
}
