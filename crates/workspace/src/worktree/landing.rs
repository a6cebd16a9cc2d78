//! Putting work on a session's branch, as one commit that is there once.
//!
//! Promise: the branch goes from its tip to the whole of the new commit, or stays; no file is
//! touched and no hook runs. A call that was cut short anywhere can be made again, and ends the
//! same: where the commit is there already, which its trailers tell, it is found. When it returns,
//! the commit is on the disk, with everything in it and the branch that leads to it.
//!
//! The commit is put together in a copy of the index, not in the index itself. So a lock that a
//! killed git left there stops nothing, and none of ours can leave one. It is a copy, and not made
//! from the tip, since only the index knows what a sparse checkout keeps away and which ignored
//! files were added by hand. When the commit is made, the copy takes the place of the index.
//!
//! Shape on disk, below the git directory of the working tree:
//!
//! ```text
//! segue/landing/lock     held during a call
//! segue/landing/*.index  the copies, each of one call; what a killed one left, the next removes
//! ```

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, FileTimes};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use super::message::{Commit, compose};
use super::point::move_branch;
use super::{WorktreeError, checkout};
use crate::git::{self, GitError};

/// How long somebody else's work on the index is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Attributes that make a file's content in a commit another one than on disk.
const CONVERTING: [&str; 6] = ["text", "crlf", "eol", "ident", "filter", "working-tree-encoding"];

/// What is to be committed, and how it is known again.
#[derive(Debug, Clone, Copy)]
pub struct Landing<'a> {
    /// The branch that the worktree has to be on.
    pub branch: &'a str,
    /// Subject and body, without trailers.
    pub message: &'a str,
    /// The last paragraph. All of it together names this commit and no other.
    pub trailers: &'a [(&'a str, String)],
    /// Paths that have changed since they were looked at, relative to the top of the worktree.
    pub since: &'a [PathBuf],
    /// The snapshot that was looked at: of the paths in `since`, its version is committed.
    pub seen: &'a str,
    /// A commit is made even where nothing has changed.
    pub even_if_empty: bool,
}

/// What came of a landing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landed {
    /// The branch's last commit.
    pub commit: String,
    /// It is the one that was asked for, made now or found. Else there was nothing to commit.
    pub ours: bool,
    /// Paths that somebody has committed since the snapshot was taken: they stay as they are there.
    pub kept: Vec<PathBuf>,
}

impl Landed {
    fn found(commit: String) -> Self {
        Self { commit, ours: true, kept: Vec::new() }
    }
}

/// Commits everything that is there. The branch stays where there is nothing to commit, or where the
/// trailers of its last commit say that it is this one.
pub fn commit_all(path: &Path, landing: &Landing<'_>) -> Result<Landed, WorktreeError> {
    let site = Site::find(path, landing.branch)?;
    let tip = site.tip()?;
    if site.is_landed(&tip, landing)? {
        return Ok(Landed::found(tip));
    }
    site.commit(tip, landing)
}

/// The same where whatever is there is to be committed, whoever made it and whenever: the last commit
/// is only found where there is nothing more.
pub fn commit_rest(path: &Path, landing: &Landing<'_>) -> Result<Landed, WorktreeError> {
    let site = Site::find(path, landing.branch)?;
    let tip = site.tip()?;
    let landed = site.commit(tip, landing)?;
    match landed.ours || !site.is_landed(&landed.commit, landing)? {
        true => Ok(landed),
        false => Ok(Landed::found(landed.commit)),
    }
}

/// A worktree and what belongs to it.
struct Site {
    top: PathBuf,
    git_dir: PathBuf,
    reference: String,
}

/// A copy of the index, for one call.
struct Private(PathBuf);

impl Drop for Private {
    fn drop(&mut self) {
        // What stays, the next call removes.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Site {
    fn commit(&self, tip: String, landing: &Landing<'_>) -> Result<Landed, WorktreeError> {
        let _held = self.hold()?;
        let failed = match self.land(&tip, landing) {
            Err(error) => error,
            done => return done,
        };
        // A git of a call that was killed may have lived on, and come first.
        match self.tip()? {
            now if now == tip => Err(failed),
            now if self.is_landed(&now, landing)? => Ok(Landed::found(now)),
            _ => Err(WorktreeError::Moved { branch: landing.branch.to_owned() }),
        }
    }

    fn find(path: &Path, branch: &str) -> Result<Site, WorktreeError> {
        let ask = |what: &str| -> Result<PathBuf, WorktreeError> {
            let mut command = checkout(path);
            command.args(["rev-parse", what]);
            let output = git::run(command)?;
            Ok(git::path(output.strip_suffix(b"\n").unwrap_or(&output)).to_owned())
        };
        let (top, git_dir) = (ask("--show-toplevel")?, ask("--absolute-git-dir")?);
        let reference = format!("refs/heads/{branch}");
        let mut command = checkout(&top);
        command.args(["symbolic-ref", "-q", "HEAD"]);
        match git::ask(command, Vec::new(), 1)? {
            Some(current) if git::line(&current) == reference => {
                Ok(Site { top, git_dir, reference })
            }
            _ => Err(WorktreeError::NotOurs { path: top, branch: branch.to_owned() }),
        }
    }

    fn tip(&self) -> Result<String, WorktreeError> {
        let mut command = checkout(&self.top);
        command.args(["rev-parse", "--verify", "--end-of-options", &self.reference]);
        Ok(git::line(&git::run(command)?))
    }

    fn is_landed(&self, tip: &str, landing: &Landing<'_>) -> Result<bool, WorktreeError> {
        let commit = Commit::read(&self.top, tip)?;
        Ok(commit.is_some_and(|commit| commit.carries(landing.trailers)))
    }

    fn hold(&self) -> Result<File, WorktreeError> {
        let dir = self.git_dir.join("segue/landing");
        let open = || {
            std::fs::create_dir_all(&dir)?;
            let lock = File::options().create(true).append(true).open(dir.join("lock"))?;
            lock.lock()?;
            for entry in std::fs::read_dir(&dir)? {
                let path = entry?.path();
                if path != dir.join("lock") {
                    // Harmless where it cannot be removed: no name is used twice.
                    let _ = std::fs::remove_file(path);
                }
            }
            Ok(lock)
        };
        open().map_err(|source| WorktreeError::Io { path: dir.clone(), source })
    }

    fn land(&self, tip: &str, landing: &Landing<'_>) -> Result<Landed, WorktreeError> {
        let index = self.begin(tip)?;
        let kept = self.committed_since(tip, landing.seen)?;
        let tree = self.stage(&index, tip, landing, &kept)?;
        let kept = kept.iter().map(|path| git::path(path).to_owned()).collect();
        let mut command = checkout(&self.top);
        command.args(["rev-parse", "--verify", &format!("{tip}^{{tree}}")]);
        if tree == git::line(&git::run(command)?) && !landing.even_if_empty {
            self.install(index);
            return Ok(Landed { commit: tip.to_owned(), ours: false, kept });
        }
        let merged = self.merged(tip)?;
        let message = compose(landing.message, landing.trailers);
        let mut command = self.committer();
        command.args(["commit-tree", "--no-gpg-sign", &tree, "-p", tip]);
        for other in &merged {
            command.args(["-p", other]);
        }
        let subject = message.lines().next().unwrap_or_default().to_owned();
        let commit = git::line(&git::feed(command, message.into_bytes())?);
        // First the index: killed in between, everything is staged and no commit is there. The other
        // way round, the index would undo the commit.
        self.install(index);
        let note = format!("commit: {subject}");
        move_branch(|| self.committer(), &self.reference, &commit, tip, &note)?;
        self.conclude(!merged.is_empty());
        Ok(Landed { commit, ours: true, kept })
    }

    /// What somebody has put on the branch since the snapshot was taken. Nobody who looked at the
    /// snapshot has seen it, so nobody's word can take it back.
    fn committed_since(&self, tip: &str, seen: &str) -> Result<BTreeSet<Vec<u8>>, WorktreeError> {
        if seen.is_empty() {
            return Ok(BTreeSet::new());
        }
        let Some(before) = Commit::read(&self.top, seen)? else { return Ok(BTreeSet::new()) };
        let Some(before) = before.parents.first().filter(|before| *before != tip) else {
            return Ok(BTreeSet::new());
        };
        let mut command = checkout(&self.top);
        command.args(["diff-tree", "-r", "-z", "--name-only", "--no-renames", before, tip]);
        let output = git::run(command)?;
        let paths = output.split(|&b| b == 0).filter(|path| !path.is_empty());
        Ok(paths.map(<[u8]>::to_vec).collect())
    }

    /// The copy to work in.
    fn begin(&self, tip: &str) -> Result<Private, WorktreeError> {
        // A name of its own: a git that outlived its call must not write into this one.
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let name = format!("segue/landing/{}-{now}.index", std::process::id());
        let index = Private(self.git_dir.join(name));
        let copied = self.copy_to(&index.0);
        let copied = copied
            .map_err(|source| WorktreeError::Io { path: self.git_dir.join("index"), source })?;
        if copied {
            let mut command = self.with(&index);
            // It changes nothing, and fails where there is no index to read.
            command.arg("update-index");
            match git::run(command) {
                Err(GitError::Failed { .. }) => {}
                sound => return sound.map(|_| index).map_err(WorktreeError::from),
            }
            let gone = std::fs::remove_file(&index.0);
            gone.map_err(|source| WorktreeError::Io { path: index.0.clone(), source })?;
        }
        // Gone, or cut short.
        let mut command = self.with(&index);
        command.args(["read-tree", tip]);
        git::run(command)?;
        Ok(index)
    }

    fn copy_to(&self, copy: &Path) -> io::Result<bool> {
        let mut index = match File::open(self.git_dir.join("index")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            index => index?,
        };
        // A file that changed in the moment that the index was written is told by that time.
        let meta = index.metadata()?;
        let times = FileTimes::new().set_modified(meta.modified()?);
        let mut bytes = Vec::new();
        index.read_to_end(&mut bytes)?;
        std::fs::write(copy, bytes)?;
        std::fs::set_permissions(copy, meta.permissions())?;
        File::options().append(true).open(copy)?.set_times(times)?;
        Ok(true)
    }

    /// A git that uses the copy for its index.
    fn with(&self, index: &Private) -> Command {
        let mut command = checkout(&self.top);
        command.env("GIT_INDEX_FILE", &index.0).args(["-c", "core.splitIndex=false"]);
        command
    }

    /// The tree to commit.
    fn stage(
        &self,
        index: &Private,
        tip: &str,
        landing: &Landing<'_>,
        kept: &BTreeSet<Vec<u8>>,
    ) -> Result<String, WorktreeError> {
        let mut before = match landing.since.is_empty() {
            true => Vec::new(),
            false => self.as_seen(index, tip, landing)?,
        };
        if !kept.is_empty() {
            let kept: BTreeSet<&[u8]> = kept.iter().map(Vec::as_slice).collect();
            // The last word of a path counts.
            before.extend(lines(tip.len(), &kept, &self.entries(tip, &kept)?));
        }
        let mut command = self.with(index);
        command.args(["add", "--all"]);
        git::run(command)?;
        if !before.is_empty() {
            let mut command = self.with(index);
            command.args(["update-index", "-z", "--index-info"]);
            git::feed(command, before)?;
        }
        let mut command = self.with(index);
        command.arg("write-tree");
        Ok(git::line(&git::run(command)?))
    }

    /// What `update-index` is told to have the paths in `since` as they were.
    fn as_seen(
        &self,
        index: &Private,
        tip: &str,
        landing: &Landing<'_>,
    ) -> Result<Vec<u8>, WorktreeError> {
        let wanted: BTreeSet<&[u8]> =
            landing.since.iter().map(|path| path.as_os_str().as_bytes()).collect();
        let mut found = self.entries(landing.seen, &wanted)?;
        self.convert(index, &mut found)?;
        Ok(lines(tip.len(), &wanted, &found))
    }

    /// Those of the paths that a commit has.
    fn entries(&self, commit: &str, wanted: &BTreeSet<&[u8]>) -> Result<Entries, WorktreeError> {
        let mut command = checkout(&self.top);
        command.args(["ls-tree", "-r", "-z", "--full-tree", commit]);
        let listing = git::run(command)?;
        let entries = listing.split(|&b| b == 0).filter_map(entry);
        let wanted = entries.filter(|(path, _)| wanted.contains(path));
        Ok(wanted.map(|(path, found)| (path.to_vec(), found)).collect())
    }

    /// A snapshot has files as they are on disk; a commit has them as `git add` makes them.
    fn convert(&self, index: &Private, found: &mut Entries) -> Result<(), WorktreeError> {
        let is_file = |mode: &str| mode.starts_with("100");
        let files = found.iter().filter(|(_, (mode, _))| is_file(mode));
        let files: Vec<Vec<u8>> = files.map(|(path, _)| path.clone()).collect();
        for path in self.converted(index, &files)? {
            let Some((_, id)) = found.get_mut(path.as_slice()) else { continue };
            let mut command = checkout(&self.top);
            command.args(["cat-file", "blob", id]);
            let bytes = git::run(command)?;
            let mut command = self.with(index);
            let mut option = std::ffi::OsString::from("--path=");
            option.push(git::path(&path));
            command.args(["hash-object", "-w", "--stdin"]).arg(option);
            *id = git::line(&git::feed(command, bytes)?);
        }
        Ok(())
    }

    /// Those of the files that line ends, filters or encodings may apply to.
    fn converted(&self, index: &Private, files: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, WorktreeError> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = checkout(&self.top);
        command.args(["config", "--get", "core.autocrlf"]);
        let line_ends = git::ask(command, Vec::new(), 1)?.map(|value| git::line(&value));
        if line_ends.is_some_and(|value| !value.eq_ignore_ascii_case("false")) {
            return Ok(files.to_vec());
        }
        let mut command = self.with(index);
        command.args(["check-attr", "-z", "--stdin"]).args(CONVERTING);
        let mut input = files.join(&0);
        input.push(0);
        let output = git::feed(command, input)?;
        let fields: Vec<&[u8]> = output.split(|&b| b == 0).collect();
        let applies = |value: &[u8]| !matches!(value, b"unspecified" | b"unset");
        let mut paths = BTreeSet::new();
        for triple in fields.chunks_exact(3) {
            if let [path, _, value] = triple
                && applies(value)
            {
                paths.insert(path.to_vec());
            }
        }
        Ok(paths.into_iter().collect())
    }

    /// The other sides of a merge that is under way, but for those that the branch has by now.
    fn merged(&self, tip: &str) -> Result<Vec<String>, WorktreeError> {
        let text = std::fs::read_to_string(self.git_dir.join("MERGE_HEAD")).unwrap_or_default();
        let mut others = Vec::new();
        for other in text.lines().filter(|id| git::is_id(id)) {
            let mut command = checkout(&self.top);
            command.args(["merge-base", "--is-ancestor", other, tip]);
            if git::ask(command, Vec::new(), 1)?.is_none() {
                others.push(other.to_owned());
            }
        }
        Ok(others)
    }

    /// Ends a merge or a pick that this commit was the end of, as `git commit` does.
    fn conclude(&self, merge: bool) {
        // The commit is there, whatever comes of this.
        if merge {
            let mut command = checkout(&self.top);
            command.args(["merge", "--quit"]);
            let _ = git::run(command);
        }
        let mut command = checkout(&self.top);
        command.args(["update-ref", "--no-deref", "--stdin"]);
        let _ = git::feed(command, b"delete CHERRY_PICK_HEAD\ndelete REVERT_HEAD\n".to_vec());
    }

    /// A git that has a name for who commits: without one of the user's own it would refuse.
    fn committer(&self) -> Command {
        let mut command = checkout(&self.top);
        for (key, value) in [("user.name", "Segue"), ("user.email", "segue@localhost")] {
            let mut ask = checkout(&self.top);
            ask.args(["config", "--get", key]);
            let own = git::run(ask).map(|value| git::line(&value)).unwrap_or_default();
            if own.is_empty() {
                command.arg("-c").arg(format!("{key}={value}"));
            }
        }
        command.args(["-c", "i18n.commitEncoding=UTF-8"]);
        command
    }

    /// Makes the copy the user's index. It takes no lock, so it can leave none. A lock that stays is
    /// that of a git that was killed, or of one that takes long: that one's index then comes last,
    /// as it would without this.
    fn install(&self, index: Private) {
        let lock = self.git_dir.join("index.lock");
        let start = Instant::now();
        while lock.exists() && start.elapsed() < PATIENCE {
            std::thread::sleep(PATIENCE / 20);
        }
        // The commit does not depend on it.
        let _ = std::fs::rename(&index.0, self.git_dir.join("index"));
    }
}

/// Paths of a commit, with their modes and ids.
type Entries = BTreeMap<Vec<u8>, (String, String)>;

/// What `update-index` is told to have the paths as they were found, or not at all.
fn lines(id_len: usize, wanted: &BTreeSet<&[u8]>, found: &Entries) -> Vec<u8> {
    let gone = "0".repeat(id_len);
    // What goes makes room: a file may have become a directory.
    let away = wanted.iter().filter(|path| !found.contains_key(**path));
    let away = away.map(|path| (*path, format!("0 {gone}\t")));
    let there = found.iter().map(|(path, (mode, id))| (path.as_slice(), format!("{mode} {id}\t")));
    let mut lines = Vec::new();
    for (path, head) in away.chain(there) {
        lines.extend_from_slice(head.as_bytes());
        lines.extend_from_slice(path);
        lines.push(0);
    }
    lines
}

/// `100644 blob 3b18e5…\tname`: the path, and its mode and id.
fn entry(line: &[u8]) -> Option<(&[u8], (String, String))> {
    let tab = line.iter().position(|&b| b == b'\t')?;
    let words = git::line(line.get(..tab)?);
    let mut words = words.split(' ').map(str::to_owned);
    Some((line.get(tab + 1..)?, (words.next()?, words.nth(1)?)))
}
