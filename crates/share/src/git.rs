//! A session's snapshots in git, `refs/segue/<ulid>/*`, on their way from one repository to another
//! in a git bundle.
//!
//! Out: what the remote-tracking branches reach stays out, since the other side can fetch it, and
//! the bundle names the commits that it builds on. In: only refs below that one prefix, only new
//! ones or ones that go forward, every object checked, no hook run.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use segue_core::SessionId;

use crate::{
    error::{At, Error, Result, Why},
    import::StagedGit,
    manifest::{GitEntry, GitRef},
    names::{is_hex, is_plain_path},
};

/// What of git goes into a bundle.
#[derive(Clone, Debug)]
pub struct GitPart {
    /// The workspace, or any directory of its repository.
    pub workspace: PathBuf,
    /// Nested repositories, relative to the workspace.
    pub nested: Vec<String>,
    pub history: History,
}

/// How much of the history below the snapshots is carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum History {
    /// What no remote-tracking branch reaches: the other side fetches the rest.
    #[default]
    Thin,
    /// All of it.
    Full,
}

impl GitPart {
    /// The workspace with all its checked-out submodules, however deep.
    pub fn discover(workspace: &Path, history: History) -> Result<Self> {
        let mut nested = Vec::new();
        let mut open = vec![String::new()];
        while let Some(at) = open.pop() {
            let dir = workspace.join(&at);
            let listed = run(git(&dir).args(["ls-files", "--stage", "-z"]), &dir, "ls-files")?;
            for line in listed.stdout.split(|byte| *byte == 0) {
                // A link to another repository's commit: "160000 <commit> 0\t<path>".
                let Some(line) = line.strip_prefix(b"160000 ") else { continue };
                let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { continue };
                let Ok(name) = std::str::from_utf8(&line[tab + 1..]) else { continue };
                let path = if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
                if is_plain_path(&path) && workspace.join(&path).join(".git").exists() {
                    nested.push(path.clone());
                    open.push(path);
                }
            }
        }
        nested.sort_unstable();
        Ok(Self { workspace: workspace.to_owned(), nested, history })
    }
}

fn prefix(id: SessionId) -> String {
    format!("refs/segue/{id}/")
}

/// Packs a repository's refs of the session into `out`, which is empty. `None` where it has none.
pub(crate) fn pack(
    dir: &Path,
    id: SessionId,
    history: History,
    out: &mut File,
) -> Result<Option<GitEntry>> {
    let refs = list_refs(dir, &prefix(id))?;
    if refs.is_empty() {
        return Ok(None);
    }
    let mut wanted = String::new();
    for (_, _, name) in &refs {
        wanted.push_str(name);
        wanted.push('\n');
    }
    for commit in left_out(dir, history)? {
        wanted.push_str(&format!("^{commit}\n"));
    }
    let mut command = git(dir);
    command.args(["bundle", "create", "--quiet", "-", "--stdin"]);
    command.stdout(out.try_clone().at(dir)?);
    let done = feed(&mut command, dir, wanted.as_bytes())?;
    let empty = String::from_utf8_lossy(&done.stderr).contains("empty bundle");
    if !done.status.success() && !empty {
        return Err(failed(dir, "bundle create", &done));
    }
    let header = if empty {
        out.set_len(0).and_then(|()| out.seek(SeekFrom::Start(0))).at(dir)?;
        Header::default()
    } else {
        Header::read(out).at(dir)?.map_err(|message| Error::Git {
            dir: dir.to_owned(),
            doing: "bundle create",
            message,
        })?
    };
    Ok(Some(entry(refs, header)))
}

/// What the bundle's own header says wins: a ref may have moved since it was listed.
fn entry(listed: Vec<(String, String, String)>, header: Header) -> GitEntry {
    let mut needs: BTreeSet<String> = header.needs.into_iter().collect();
    let refs = listed.into_iter().map(|(commit, _, name)| {
        match header.refs.iter().find(|(_, carried)| *carried == name) {
            Some((commit, _)) => GitRef { name, commit: commit.clone(), carried: true },
            None => {
                needs.insert(commit.clone());
                GitRef { name, commit, carried: false }
            }
        }
    });
    let refs = refs.collect();
    GitEntry { path: String::new(), file: None, refs, needs: needs.into_iter().collect() }
}

/// The commits whose history stays out. A shallow clone has no more than its border, so that one
/// has to be on the other side in any case.
fn left_out(dir: &Path, history: History) -> Result<BTreeSet<String>> {
    let mut out = BTreeSet::new();
    if history == History::Thin {
        let remote = list_refs(dir, "refs/remotes/")?.into_iter();
        out.extend(remote.filter(|(_, kind, _)| kind == "commit").map(|(commit, ..)| commit));
    }
    let asked = run(
        git(dir).args(["rev-parse", "--path-format=absolute", "--git-path", "shallow"]),
        dir,
        "rev-parse",
    )?;
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    if let Ok(border) = std::fs::read_to_string(text.trim_end_matches('\n')) {
        out.extend(border.lines().filter(|line| is_object(line)).map(str::to_owned));
    }
    Ok(out)
}

/// Object, type and name of every ref below a prefix.
fn list_refs(dir: &Path, prefix: &str) -> Result<Vec<(String, String, String)>> {
    let format = "--format=%(objectname) %(objecttype) %(refname)";
    let listed = run(git(dir).args(["for-each-ref", format, prefix]), dir, "for-each-ref")?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let three = |line: &str| {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        Some((words.next()?, words.next()?, words.next()?))
    };
    Ok(text.lines().filter_map(three).collect())
}

/// What an import may believe of an entry before it has seen the git bundle.
pub(crate) fn check_entry(id: SessionId, entry: &GitEntry) -> Result<(), String> {
    let prefix = prefix(id);
    for GitRef { name, commit, carried } in &entry.refs {
        if !is_ref_below(name, &prefix) {
            return Err(format!("`{}` is not a ref below {prefix}", name.escape_debug()));
        }
        if !is_object(commit) {
            return Err(format!("{name} does not name a commit"));
        }
        if *carried && entry.file.is_none() {
            return Err(format!("{name} is said to be in a git bundle, and there is none"));
        }
    }
    match entry.needs.iter().find(|commit| !is_object(commit)) {
        Some(odd) => Err(format!("`{}` is not a commit", odd.escape_debug())),
        None => Ok(()),
    }
}

/// Git's own rules for a ref, as far as they could lead elsewhere.
fn is_ref_below(name: &str, prefix: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || "~^:?*[\\".contains(c);
    let rest = name.strip_prefix(prefix);
    rest.is_some_and(|rest| {
        is_plain_path(rest)
            && !rest.contains(odd)
            && !rest.contains("..")
            && !rest.contains("@{")
            && rest.split('/').all(|part| !part.starts_with('.') && !part.ends_with(".lock"))
    })
}

fn is_object(text: &str) -> bool {
    [40, 64].contains(&text.len()) && is_hex(text)
}

/// What stands before the pack in a git bundle.
#[derive(Debug, Default, PartialEq, Eq)]
struct Header {
    needs: Vec<String>,
    refs: Vec<(String, String)>,
}

impl Header {
    const MAX: usize = 16 << 20;

    fn read(file: &File) -> std::io::Result<Result<Self, String>> {
        let mut bytes = Vec::new();
        let mut chunk = vec![0; 64 * 1024];
        while bytes.len() < Self::MAX {
            let n = file.read_at(&mut chunk, bytes.len() as u64)?;
            bytes.extend_from_slice(&chunk[..n]);
            let from = bytes.len().saturating_sub(n + 1);
            if n == 0 || bytes[from..].windows(2).any(|two| two == b"\n\n") {
                break;
            }
        }
        Ok(Self::parse(&bytes))
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let end = bytes.windows(2).position(|two| two == b"\n\n");
        let end = end.ok_or("it has no header")?;
        // What git says of a needed commit is its subject, in any encoding.
        let text = String::from_utf8_lossy(&bytes[..end]);
        let mut lines = text.split('\n');
        if !matches!(lines.next(), Some("# v2 git bundle" | "# v3 git bundle")) {
            return Err("it is not a git bundle".to_owned());
        }
        let mut header = Self::default();
        for line in lines {
            if line == "@object-format=sha1" || line == "@object-format=sha256" {
                continue;
            }
            let (need, line) = match line.strip_prefix('-') {
                Some(line) => (true, line),
                None => (false, line),
            };
            let (object, rest) = line.split_once(' ').unwrap_or((line, ""));
            if !is_object(object) || (!need && rest.is_empty()) {
                return Err(format!("its header has an unknown line: {}", line.escape_debug()));
            }
            if need {
                header.needs.push(object.to_owned());
            } else {
                header.refs.push((object.to_owned(), rest.to_owned()));
            }
        }
        Ok(header)
    }
}

/// What came into a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    pub refs: Vec<GitRef>,
}

/// Brings the refs of a staged git bundle into the repository at `repo`, under the same names. A
/// ref that is there and would have to go back is refused, and then none is changed.
pub fn fetch_git(staged: &StagedGit, repo: &Path) -> Result<Fetched> {
    let StagedGit { session, entry, file } = staged;
    let refuse = |why| Error::Refused {
        path: file.clone().unwrap_or_default(),
        entry: entry.file.clone().unwrap_or_default(),
        why: Why::Git(why),
    };
    check_entry(*session, entry).map_err(refuse)?;
    let mut needs: BTreeSet<String> = entry.needs.iter().cloned().collect();
    if let Some(path) = file {
        let header = Header::read(&File::open(path).at(path)?).at(path)?.map_err(refuse)?;
        same_refs(entry, &header).map_err(refuse)?;
        needs.extend(header.needs);
    }
    needs.extend(entry.refs.iter().filter(|r| !r.carried).map(|r| r.commit.clone()));
    missing(repo, &needs)?;
    if let Some(path) = file {
        let path = path.canonicalize().at(path)?;
        run(git(repo).args(["bundle", "verify", "--quiet"]).arg(&path), repo, "bundle verify")?;
        fetch(repo, &path, &prefix(*session))?;
    }
    point(repo, entry)?;
    Ok(Fetched { refs: entry.refs.clone() })
}

fn same_refs(entry: &GitEntry, header: &Header) -> Result<(), String> {
    let listed: BTreeSet<_> =
        entry.refs.iter().filter(|r| r.carried).map(|r| (&*r.commit, &*r.name)).collect();
    let found: BTreeSet<_> = header.refs.iter().map(|(c, n)| (c.as_str(), n.as_str())).collect();
    match found.symmetric_difference(&listed).next() {
        Some((_, name)) => {
            Err(format!("{} is not the same in bundle.json and in git's", name.escape_debug()))
        }
        None => Ok(()),
    }
}

/// Which of these commits the repository lacks.
fn missing(repo: &Path, needs: &BTreeSet<String>) -> Result<()> {
    let mut asked = String::new();
    for commit in needs {
        asked.push_str(&format!("{commit}^{{commit}}\n"));
    }
    let mut command = git(repo);
    command.args(["cat-file", "--batch-check"]).stdout(Stdio::piped());
    let done = feed(&mut command, repo, asked.as_bytes())?;
    if !done.status.success() {
        return Err(failed(repo, "cat-file", &done));
    }
    let text = String::from_utf8_lossy(&done.stdout);
    let lines = text.lines().filter_map(|line| line.strip_suffix("^{commit} missing"));
    let commits: Vec<_> = lines.map(str::to_owned).collect();
    match commits.is_empty() {
        true => Ok(()),
        false => Err(Error::MissingCommits { dir: repo.to_owned(), commits }),
    }
}

fn fetch(repo: &Path, bundle: &Path, prefix: &str) -> Result<()> {
    let mut command = git(repo);
    for setting in [
        // The person's own settings could let it reach out, run something or write elsewhere.
        "protocol.allow=never",
        "protocol.file.allow=always",
        "fetch.fsckObjects=true",
        "transfer.fsckObjects=true",
        "fetch.prune=false",
        "fetch.pruneTags=false",
        "fetch.writeCommitGraph=false",
        "gc.auto=0",
        "maintenance.auto=false",
    ] {
        command.args(["-c", setting]);
    }
    command.args(["fetch", "--quiet", "--atomic", "--no-tags", "--no-write-fetch-head"]);
    command.args(["--no-recurse-submodules", "--no-auto-maintenance", "--"]);
    command.arg(bundle).arg(format!("{prefix}*:{prefix}*"));
    run(&mut command, repo, "fetch").map(drop)
}

/// Makes the refs whose commits were here already.
fn point(repo: &Path, entry: &GitEntry) -> Result<()> {
    let mut orders = String::new();
    for GitRef { name, commit, .. } in entry.refs.iter().filter(|r| !r.carried) {
        let there = list_refs(repo, name)?;
        if !there.iter().any(|(object, _, found)| found == name && object == commit) {
            // Fails where the ref is there with another commit: it is not ours to move.
            orders.push_str(&format!("create {name} {commit}\n"));
        }
    }
    if orders.is_empty() {
        return Ok(());
    }
    let mut command = git(repo);
    command.args(["update-ref", "--no-deref", "--stdin"]).stdout(Stdio::piped());
    let done = feed(&mut command, repo, orders.as_bytes())?;
    if done.status.success() { Ok(()) } else { Err(failed(repo, "update-ref", &done)) }
}

/// Git in that directory, whatever the caller's environment says of another one.
fn git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let kept = text.starts_with("GIT_CONFIG_GLOBAL") || text.starts_with("GIT_CONFIG_SYSTEM");
        if text.starts_with("GIT_") && !kept && text != "GIT_CONFIG_NOSYSTEM" {
            command.env_remove(&name);
        }
    }
    command
        .current_dir(dir)
        .env("LC_ALL", "C")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn run(command: &mut Command, dir: &Path, doing: &'static str) -> Result<Output> {
    let done = command.output().at(dir)?;
    if done.status.success() { Ok(done) } else { Err(failed(dir, doing, &done)) }
}

/// Runs it with an input, written beside so that neither side waits for the other.
fn feed(command: &mut Command, dir: &Path, input: &[u8]) -> Result<Output> {
    let mut child = command.stdin(Stdio::piped()).spawn().at(dir)?;
    let stdin = child.stdin.take();
    std::thread::scope(|scope| {
        // A git that stops reading says why itself.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
        child.wait_with_output().at(dir)
    })
}

fn failed(dir: &Path, doing: &'static str, done: &Output) -> Error {
    let message = String::from_utf8_lossy(&done.stderr).trim().replace('\n', "; ");
    let message = if message.is_empty() { done.status.to_string() } else { message };
    Error::Git { dir: dir.to_owned(), doing, message }
}
