//! How much differs between two snapshots, file by file.

use std::path::PathBuf;

use super::{SnapshotError, Snapshots};
use crate::git::{self, GitError};

/// A file that is not the same in two snapshots, and how many lines differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    pub path: PathBuf,
    /// What it was called in the first one, where it was renamed.
    pub from: Option<PathBuf>,
    /// `None` for what is no text.
    pub added: Option<u64>,
    pub removed: Option<u64>,
}

impl Snapshots {
    /// How many lines each differing file has more and less, in the order of their paths.
    /// Repositories inside are one line each.
    pub fn line_counts(&self, from: &str, to: &str) -> Result<Vec<Lines>, SnapshotError> {
        let mut command = self.reader();
        command.args(["diff-tree", "-r", "-z", "-M", "-l1000", "--numstat", "--no-commit-id"]);
        command.args(["--no-ext-diff", "--no-textconv", from, to]);
        let (what, dir) = git::describe(&command);
        let output = git::run(command)?;
        Ok(parse(&output).ok_or(GitError::Odd { what, dir })?)
    }
}

/// `3\t1\tpath`, or `3\t1\t` with two paths after a rename, all ended by zero bytes.
fn parse(output: &[u8]) -> Option<Vec<Lines>> {
    let mut fields = output.split(|&byte| byte == 0);
    let mut files = Vec::new();
    while let Some(field) = fields.next().filter(|field| !field.is_empty()) {
        let mut words = field.splitn(3, |&byte| byte == b'\t');
        let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse().ok();
        let (added, removed) = (number(words.next()?), number(words.next()?));
        let (from, path) = match words.next()? {
            [] => (Some(git::path(fields.next()?).to_owned()), fields.next()?),
            path => (None, path),
        };
        files.push(Lines { path: git::path(path).to_owned(), from, added, removed });
    }
    files.sort_by(|one, two| one.path.cmp(&two.path));
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_with_any_name_and_after_a_rename() {
        let found = parse(b"1\t0\ta b\0-\t-\tpicture\x002\t3\t\0old\0new\0").unwrap();
        let file = |path: &str, from: Option<&str>, counts: Option<(u64, u64)>| Lines {
            path: path.into(),
            from: from.map(Into::into),
            added: counts.map(|(added, _)| added),
            removed: counts.map(|(_, removed)| removed),
        };
        let wanted = [
            file("a b", None, Some((1, 0))),
            file("new", Some("old"), Some((2, 3))),
            file("picture", None, None),
        ];
        assert_eq!(found, wanted);
        assert_eq!(parse(b""), Some(Vec::new()));
        assert_eq!(parse(b"odd\0"), None);
    }
}
