//! Which repository a directory belongs to.
//!
//! Promise: the same repository has the same identity wherever it is looked at from: from another
//! clone, another machine, another way to write its URL, a linked worktree, a subdirectory. It is
//! taken from, in this order:
//!
//! 1. the remote `origin`, else the first remote by name: `host/path` without scheme, user, password
//!    and default port. A remote on this machine stands for the repository that it points to, so
//!    that a clone agrees with its source.
//! 2. the canonical path of the main working tree; of a bare repository, its own path.
//! 3. without git, or without a repository: the canonical path of the directory.
//!
//! No credentials of a URL get into an identity. Where git cannot be asked (it is missing, or it
//! refuses a repository that belongs to somebody else), the answer is a path, with a note saying why;
//! an error only tells that the directory itself cannot be read.
//!
//! Identities are text, paths are bytes: control characters and bytes that are not UTF-8 are written
//! `\xNN` and a backslash `\\`, so that no two paths share an identity (see [`escape`]).

#[cfg(test)]
mod tests;
pub(crate) mod url;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

use self::url::Target;

/// How many local remotes are followed from clone to source.
const MAX_HOPS: usize = 8;
/// Variables that would point git to another repository than the directory's own.
const FOREIGN_VARS: [&str; 10] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CONFIG",
    "LANGUAGE",
];

/// A repository, or a directory that takes the place of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    /// Safe as a file name, and the same for the same identity: `github.com-user-repo-1a2b3c4d`.
    pub id: String,
    /// `github.com/user/repo`, or a path.
    pub identity: String,
    /// The top of this working tree; of a bare repository, its path; else the directory itself.
    pub root: PathBuf,
    pub kind: Kind,
    /// The commit that is checked out; `None` before the first one.
    pub head: Option<String>,
    /// The branch that is checked out; `None` when the head is detached.
    pub branch: Option<String>,
    /// Why the identity is only a path although there may be a repository.
    pub note: Option<String>,
}

/// What the identity was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A remote on another machine.
    Remote,
    /// The path of a working tree, this one or that of a local source.
    Path,
    /// The path of this repository, which has no working tree of its own.
    Bare,
    /// The path of a directory without git.
    NoGit,
}

#[derive(Debug, thiserror::Error)]
pub enum RepoError {
    #[error("cannot open {}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
}

/// Says which repository a directory belongs to. Two git processes, side by side, in the common case.
pub fn identify(dir: &Path) -> Result<Repo, RepoError> {
    Git::default().identify(dir)
}

/// Bytes as text, reversibly: `\xNN` for a control character or a byte outside of UTF-8, `\\` for a
/// backslash, all else as it is.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '\0'..='\x1f' | '\x7f' => push_byte(&mut text, character as u8),
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            push_byte(&mut text, *byte);
        }
    }
    text
}

fn push_byte(text: &mut String, byte: u8) {
    // Writing to a String cannot fail.
    let _ = write!(text, "\\x{byte:02x}");
}

/// The git to ask, so that tests can have another one.
#[derive(Debug)]
struct Git {
    program: OsString,
    env: Vec<(OsString, OsString)>,
}

impl Default for Git {
    fn default() -> Git {
        Git { program: "git".into(), env: Vec::new() }
    }
}

/// What git says about a directory.
enum Answer {
    Repository(Facts),
    /// There is none.
    Nothing,
    /// There may be one, but git does not tell, for this reason.
    Silence(String),
}

struct Facts {
    bare: bool,
    /// The directory that all worktrees share.
    common: PathBuf,
    root: Option<PathBuf>,
    head: Option<String>,
    branch: Option<String>,
    remote: Option<Target>,
}

impl Facts {
    /// The main working tree. All worktrees share the common directory, so it is found from there;
    /// where it does not lie in a working tree (bare, submodule, --separate-git-dir), it stands for
    /// itself.
    fn main_path(&self) -> &Path {
        match self.common.parent() {
            Some(parent) if self.common.file_name() == Some(OsStr::new(".git")) => parent,
            _ => &self.common,
        }
    }
}

impl Git {
    fn identify(&self, dir: &Path) -> Result<Repo, RepoError> {
        let dir = std::fs::canonicalize(dir)
            .map_err(|source| RepoError::Unreadable { path: dir.to_owned(), source })?;
        if !dir.is_dir() {
            return Err(RepoError::NotADirectory(dir));
        }
        Ok(match self.ask(&dir, None) {
            Answer::Repository(facts) => {
                let (identity, kind) = self.follow(&facts);
                let root = facts.root.clone();
                Repo {
                    id: id(&identity, kind),
                    identity,
                    root: root.unwrap_or_else(|| facts.main_path().to_owned()),
                    kind,
                    head: facts.head,
                    branch: facts.branch,
                    note: None,
                }
            }
            Answer::Nothing => by_path(dir, Kind::NoGit, None),
            Answer::Silence(note) => {
                let root = dir.ancestors().find(|above| above.join(".git").exists());
                match root.map(Path::to_owned) {
                    Some(root) => by_path(root, Kind::Path, Some(note)),
                    None => by_path(dir, Kind::NoGit, Some(note)),
                }
            }
        })
    }

    /// From clone to source, until one has a remote elsewhere or none at all.
    fn follow(&self, first: &Facts) -> (String, Kind) {
        let own_kind = if first.bare { Kind::Bare } else { Kind::Path };
        let mut chain = vec![first.main_path().to_owned()];
        let mut remote = first.remote.clone();
        let mut base = first.root.clone().unwrap_or_else(|| first.common.clone());
        for _ in 0..MAX_HOPS {
            let target = match remote {
                Some(Target::Network(identity)) => return (identity, Kind::Remote),
                Some(Target::Local(path)) => locate(&base.join(path)),
                None => break,
            };
            let here = match self.ask(&target, target.parent()) {
                Answer::Repository(facts) => {
                    base = facts.root.clone().unwrap_or_else(|| facts.common.clone());
                    remote = facts.remote.clone();
                    facts.main_path().to_owned()
                }
                // Gone, a bundle, or not to be read: its path is all there is.
                Answer::Nothing | Answer::Silence(_) => {
                    return (path_identity(&target), Kind::Path);
                }
            };
            // In a circle nobody is the source. The first by name is taken, so that all agree.
            if let Some(start) = chain.iter().position(|path| *path == here) {
                let least = chain.iter().skip(start).min().unwrap_or(&here);
                let kind = if chain.len() == 1 { own_kind } else { Kind::Path };
                return (path_identity(least), kind);
            }
            chain.push(here);
        }
        let kind = if chain.len() == 1 { own_kind } else { Kind::Path };
        let last = chain.last().map(PathBuf::as_path);
        (path_identity(last.unwrap_or(first.main_path())), kind)
    }

    /// A `ceiling` keeps git from looking for a repository there or above.
    fn ask(&self, dir: &Path, ceiling: Option<&Path>) -> Answer {
        if !dir.is_dir() {
            return Answer::Nothing;
        }
        // Independent of each other, so both run at once. Outside of a repository the second one is
        // of no use, and is ignored.
        let pattern = r"^(remote\..*\.url|url\..*\.insteadof)$";
        let config = self
            .command(dir, ceiling)
            .args(["config", "-z", "--get-regexp", pattern])
            .stderr(Stdio::null())
            .spawn();
        let separator = separator();
        let next = separator.as_str();
        let answers = self
            .command(dir, ceiling)
            .args(["rev-parse", "--path-format=absolute"])
            .args(["--is-bare-repository", "--is-inside-work-tree", next])
            .args(["--git-common-dir", next, "--show-cdup", next])
            .args(["HEAD", "--symbolic-full-name", "HEAD"])
            .output();
        let config = config.and_then(std::process::Child::wait_with_output);
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Answer::Silence("git is not installed".into());
            }
            Err(error) => return Answer::Silence(format!("git cannot be started: {error}")),
        };
        let remote = config.ok().and_then(|output| remote(&output.stdout));
        match facts(dir, &separator, &answers.stdout, remote) {
            Some(mut facts) => {
                if facts.head.is_none() {
                    facts.branch = self.unborn_branch(dir);
                }
                Answer::Repository(facts)
            }
            None => refusal(&answers),
        }
    }

    /// Before the first commit, `rev-parse` cannot name the branch.
    fn unborn_branch(&self, dir: &Path) -> Option<String> {
        let output = self.command(dir, None).args(["symbolic-ref", "-q", "HEAD"]).output().ok()?;
        branch_name(output.stdout.trim_ascii_end())
    }

    fn command(&self, dir: &Path, ceiling: Option<&Path>) -> Command {
        let mut command = Command::new(&self.program);
        for name in FOREIGN_VARS {
            command.env_remove(name);
        }
        command
            .args(["-c", "core.fsmonitor=false"])
            .current_dir(dir)
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(ceiling) = ceiling {
            command.env("GIT_CEILING_DIRECTORIES", ceiling);
        }
        command
    }
}

/// What `git rev-parse` is told to print between two answers: it repeats options that it does not
/// know. A line break would not do, since a path may hold one; and no path holds this moment.
pub(crate) fn separator() -> String {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("--segue-{}-{}", std::process::id(), now.as_nanos())
}

/// Reads what `rev-parse` printed; `None` when it did not get as far as to know a repository.
fn facts(dir: &Path, next: &str, stdout: &[u8], remote: Option<Target>) -> Option<Facts> {
    let separator = format!("{next}\n");
    let mut answers = Vec::new();
    let mut rest = stdout;
    while let Some(at) = find(rest, separator.as_bytes()) {
        answers.push(rest.get(..at)?);
        rest = rest.get(at + separator.len()..)?;
    }
    let [flags, common, up] = answers.as_slice() else {
        return None;
    };
    let mut flags = flags.split(|&b| b == b'\n').filter(|flag| !flag.starts_with(b"--"));
    let bare = flags.next()? == b"true";
    let inside = flags.next()? == b"true";
    let up = up.strip_suffix(b"\n").unwrap_or(up);
    let root = if bare || (up.is_empty() && !inside) {
        None
    } else {
        std::fs::canonicalize(dir.join(OsStr::from_bytes(up))).ok()
    };
    let common = common.strip_suffix(b"\n").unwrap_or(common);
    let common = dir.join(OsStr::from_bytes(common));
    // Before the first commit this fails, or finds a file named HEAD: neither is a hash.
    let mut lines = rest.split(|&b| b == b'\n');
    let head = lines
        .next()
        .filter(|head| matches!(head.len(), 40 | 64) && head.iter().all(u8::is_ascii_hexdigit));
    Some(Facts {
        bare,
        common: std::fs::canonicalize(&common).unwrap_or(common),
        root,
        head: head.map(|head| String::from_utf8_lossy(head).into_owned()),
        branch: lines.next().and_then(branch_name),
        remote,
    })
}

pub(crate) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

pub(crate) fn branch_name(reference: &[u8]) -> Option<String> {
    let name = reference.strip_prefix(b"refs/heads/")?;
    Some(escape(name)).filter(|name| !name.is_empty())
}

fn refusal(output: &Output) -> Answer {
    let text = String::from_utf8_lossy(&output.stderr);
    let text = text.lines().find(|line| line.starts_with("fatal: "));
    match text.map(|line| line.trim_start_matches("fatal: ")) {
        Some(text) if text.starts_with("not a git repository (or any") => Answer::Nothing,
        Some(text) if text.contains("dubious ownership") => Answer::Silence(
            "git does not read this repository, since it belongs to another user \
             (see safe.directory in git help config)"
                .into(),
        ),
        Some(text) => Answer::Silence(format!("git does not read this repository: {text}")),
        None => Answer::Silence(format!("git ended with {}", output.status)),
    }
}

/// Picks the remote out of `git config -z`: pairs of key and value, each `key\nvalue\0`.
fn remote(config: &[u8]) -> Option<Target> {
    let mut remotes: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
    let mut aliases: Vec<(&[u8], &[u8])> = Vec::new();
    for pair in config.split(|&b| b == 0) {
        let Some(at) = pair.iter().position(|&b| b == b'\n') else {
            continue;
        };
        let (key, value) = (pair.get(..at)?, pair.get(at + 1..)?);
        if let Some(name) = part(key, b"remote.", b".url") {
            // Of several URLs git fetches from the first.
            remotes.entry(name).or_insert(value);
        } else if let Some(long) = part(key, b"url.", b".insteadof") {
            aliases.push((value, long));
        }
    }
    let origin = remotes.get(b"origin".as_slice());
    let url = origin.or_else(|| remotes.values().next())?;
    // As git does it: the longest prefix wins.
    let alias = aliases
        .iter()
        .filter(|(short, _)| !short.is_empty() && url.starts_with(short))
        .max_by_key(|(short, _)| short.len());
    match alias {
        Some((short, long)) => url::parse(&[long, url.get(short.len()..)?].concat()),
        None => url::parse(url),
    }
}

fn part<'a>(key: &'a [u8], before: &[u8], after: &[u8]) -> Option<&'a [u8]> {
    key.strip_prefix(before)?.strip_suffix(after)
}

/// The repository that a local URL means: git also takes `x` for `x.git`. What is gone keeps its
/// path, with as much of it resolved as still exists.
fn locate(path: &Path) -> PathBuf {
    let mut with_suffix = path.as_os_str().to_owned().into_vec();
    while with_suffix.len() > 1 && with_suffix.last() == Some(&b'/') {
        with_suffix.pop();
    }
    with_suffix.extend_from_slice(b".git");
    let candidates = [path.to_owned(), OsString::from_vec(with_suffix).into()];
    let found = candidates.iter().find_map(|path| std::fs::canonicalize(path).ok());
    found.unwrap_or_else(|| {
        let above = path.ancestors().skip(1);
        let existing = above.filter_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
        match existing.take(1).next() {
            Some((above, real)) => real.join(path.strip_prefix(above).unwrap_or(path)),
            None => path.to_owned(),
        }
    })
}

fn by_path(root: PathBuf, kind: Kind, note: Option<String>) -> Repo {
    let identity = path_identity(&root);
    Repo { id: id(&identity, kind), identity, root, kind, head: None, branch: None, note }
}

fn path_identity(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}

/// Readable first, exact last: a slug, and eight digits of the identity's hash.
fn id(identity: &str, kind: Kind) -> String {
    let readable = match kind {
        Kind::Remote => identity,
        // The last part says most; `/srv/app/.git` is known as `app`.
        Kind::Path | Kind::Bare | Kind::NoGit => {
            let path = identity.trim_end_matches("/.git").trim_end_matches(".git");
            path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("root")
        }
    };
    let mut slug = String::new();
    for character in readable.chars() {
        match character {
            'a'..='z' | '0'..='9' | '.' | '_' => slug.push(character),
            'A'..='Z' => slug.push(character.to_ascii_lowercase()),
            _ if slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    // File names have limits; of a long one the end says more.
    let start = slug.len().saturating_sub(64);
    let slug = slug.get(start..).unwrap_or_default();
    let slug = slug.trim_matches(|c| c == '-' || c == '.');
    let slug = if slug.is_empty() { "repo" } else { slug };
    let hash = blake3::hash(identity.as_bytes()).to_hex();
    format!("{slug}-{}", hash.get(..8).unwrap_or_default())
}
