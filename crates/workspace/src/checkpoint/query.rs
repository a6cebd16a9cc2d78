//! Asking about snapshots: what there is, and what differs.

use std::path::PathBuf;

use super::{SnapshotError, Snapshots, Taken};
use crate::git::{self, GitError, is_id};
use crate::manifest::Manifest;

/// A path that is not the same in two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: PathBuf,
    pub status: Status,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    Added,
    /// Content, or permission to execute.
    Modified,
    Deleted,
    /// A file became a link, or a repository, or the other way round.
    TypeChanged,
    Renamed {
        from: PathBuf,
    },
}

impl Snapshots {
    pub fn exists(&self, commit: &str) -> Result<bool, SnapshotError> {
        if !is_id(commit) {
            return Ok(false);
        }
        let mut command = self.place.raw(&self.file("index"));
        command.args(["cat-file", "-e", &format!("{commit}^{{commit}}")]);
        // 128 where the object is there and is something else, or broken.
        match git::ask(command, Vec::new(), 1) {
            Ok(answer) => Ok(answer.is_some()),
            Err(GitError::Failed { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The references that begin with `prefix`, and the commit of each.
    pub fn list(&self, prefix: &str) -> Result<Vec<(String, String)>, SnapshotError> {
        let mut command = self.place.user();
        command.args(["for-each-ref", "--format=%(objectname) %(refname)", "refs/segue/"]);
        let output = git::line(&git::run(command)?);
        let pairs = output.lines().filter_map(|line| line.split_once(' '));
        let fitting = pairs.filter(|(_, name)| name.starts_with(prefix));
        Ok(fitting.map(|(id, name)| (name.to_owned(), id.to_owned())).collect())
    }

    /// The commit that a reference is on.
    pub fn resolve(&self, reference: &str) -> Result<Option<String>, SnapshotError> {
        let mut command = self.place.user();
        command.args(["rev-parse", "-q", "--verify", "--end-of-options", reference]);
        Ok(git::ask(command, Vec::new(), 1)?.map(|output| git::line(&output)))
    }

    /// Removes references; git cleans up what they kept, in its time. Those that are gone already
    /// are no error. Only names below `refs/segue/` are touched.
    pub fn delete_refs(&self, references: &[String]) -> Result<(), SnapshotError> {
        let mut input = Vec::new();
        for name in references.iter().filter(|name| name.starts_with("refs/segue/")) {
            input.extend_from_slice(format!("delete {name}\0\0").as_bytes());
        }
        if !input.is_empty() {
            let mut command = self.place.user();
            command.args(["update-ref", "--no-deref", "-z", "--stdin"]);
            git::feed(command, input)?;
        }
        Ok(())
    }

    /// What differs between two snapshots, repositories inside included: up to `limit` paths, and
    /// how many there are.
    pub fn changes(
        &self,
        from: &str,
        to: &str,
        limit: usize,
    ) -> Result<(Vec<Change>, usize), SnapshotError> {
        let mut all = self.all_changes(from, to)?;
        all.sort_by(|a, b| a.path.cmp(&b.path));
        let total = all.len();
        all.truncate(limit);
        Ok((all, total))
    }

    fn all_changes(&self, from: &str, to: &str) -> Result<Vec<Change>, SnapshotError> {
        let mut command = self.place.raw(&self.file("index"));
        command.args([
            "diff-tree",
            "-r",
            "-z",
            "-M",
            "-l1000",
            "--raw",
            "--no-commit-id",
            from,
            to,
        ]);
        let (what, dir) = git::describe(&command);
        let output = git::run(command)?;
        let mut changes = parse(&output).ok_or(GitError::Odd { what, dir })?;
        let (before, after) = (self.manifest(from)?, self.manifest(to)?);
        for (path, nested) in &after.nested {
            let Some(old) = before.nested.get(path).filter(|old| old.commit != nested.commit)
            else {
                continue;
            };
            let dir = self.place.top.join(git::path(path));
            if let Some(inner) = self.inner(&dir)? {
                let place = git::path(path);
                for mut change in inner.all_changes(&old.commit, &nested.commit)? {
                    change.path = place.join(change.path);
                    if let Status::Renamed { from } = &mut change.status {
                        *from = place.join(&*from);
                    }
                    changes.push(change);
                }
            }
        }
        Ok(changes)
    }

    /// The difference as text, up to `max` bytes; and whether that is not all.
    pub fn diff_text(
        &self,
        from: &str,
        to: &str,
        max: usize,
    ) -> Result<(Vec<u8>, bool), SnapshotError> {
        let mut command = self.place.raw(&self.file("index"));
        command.args(["diff-tree", "-p", "-r", "-M", "-l1000", "--no-commit-id"]).args([
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            from,
            to,
        ]);
        Ok(git::head(command, max)?)
    }

    /// What differs between a snapshot and the files as they are now.
    pub fn differs(
        &self,
        commit: &str,
        limit: usize,
    ) -> Result<(Taken, Vec<Change>, usize), SnapshotError> {
        let now = self.take_unnamed()?;
        let (changes, total) = self.changes(commit, &now.commit, limit)?;
        Ok((now, changes, total))
    }

    pub(crate) fn manifest(&self, commit: &str) -> Result<Manifest, SnapshotError> {
        let not = || SnapshotError::NotASnapshot {
            repo: self.place.top.clone(),
            commit: commit.to_owned(),
        };
        if !is_id(commit) {
            return Err(not());
        }
        let mut command = self.place.raw(&self.file("index"));
        command.args(["cat-file", "commit", commit]);
        let text = git::ask(command, Vec::new(), 128)?.ok_or_else(not)?;
        Manifest::from_message(&text).ok_or_else(not)
    }

    /// A git to read objects with.
    pub(crate) fn reader(&self) -> std::process::Command {
        self.place.raw(&self.file("index"))
    }
}

/// `:100644 100644 <id> <id> M` and one path, or two after a rename, all ended by zero bytes.
fn parse(output: &[u8]) -> Option<Vec<Change>> {
    let mut fields = output.split(|&b| b == 0).filter(|field| !field.is_empty());
    let mut changes = Vec::new();
    while let Some(head) = fields.next() {
        let path = git::path(fields.next()?).to_owned();
        let words: Vec<&[u8]> = head.split(|&b| b == b' ').collect();
        let [.., letter] = words.as_slice() else { return None };
        let status = match letter.first()? {
            b'A' => Status::Added,
            b'D' => Status::Deleted,
            b'T' => Status::TypeChanged,
            b'R' => {
                let to = git::path(fields.next()?).to_owned();
                changes.push(Change { path: to, status: Status::Renamed { from: path } });
                continue;
            }
            _ => Status::Modified,
        };
        changes.push(Change { path, status });
    }
    Some(changes)
}
