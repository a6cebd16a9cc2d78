//! Which sessions lie on the disk, and whether their journals changed: two system calls per
//! directory of a repository and one per session, so that ten thousand take milliseconds.

use std::{io, path::Path};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat},
    io::Errno,
};
use segue_core::SessionId;

use crate::error::{Error, Result};

/// By what a change of a journal is noticed. A journal only grows, so its length alone nearly
/// always tells; the time catches a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) len: i64,
    pub(crate) mtime_ns: i64,
}

impl Stamp {
    /// There is no journal, or it can't be looked at.
    pub(crate) const MISSING: Self = Self { len: -1, mtime_ns: 0 };
    /// Fits no journal: whoever gets it is read again at the next look.
    pub(crate) const UNSETTLED: Self = Self { len: -2, mtime_ns: 0 };

    fn of(stat: &Stat) -> Self {
        Self { len: stat.st_size, mtime_ns: mtime_ns(stat) }
    }
}

/// The sessions of one repository.
#[derive(Debug)]
pub(crate) struct Repo {
    pub(crate) id: String,
    pub(crate) sessions: Vec<(SessionId, Stamp)>,
}

/// Every session in the home. A home without any is empty, not an error.
pub(crate) fn walk(home: &Path) -> Result<Vec<Repo>> {
    let root = home.join("sessions");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root_fd = match openat(CWD, &root, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(&root, error)),
    };
    let mut repos = Vec::new();
    for id in names(&root_fd).map_err(|error| Error::io(&root, error))? {
        let fd = match openat(&root_fd, &id, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            Err(error) => return Err(Error::io(&root.join(id), error)),
        };
        let sessions = sessions(&fd).map_err(|error| Error::io(&root.join(&id), error))?;
        repos.push(Repo { id, sessions });
    }
    Ok(repos)
}

fn names(dir: &rustix::fd::OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        // A name that begins with a dot is unfinished or being removed.
        if let Ok(name) = entry.file_name().to_str()
            && !name.starts_with('.')
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn sessions(repo: &rustix::fd::OwnedFd) -> io::Result<Vec<(SessionId, Stamp)>> {
    let mut found = Vec::new();
    let mut path = String::new();
    for entry in Dir::read_from(repo)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().ok() else {
            continue;
        };
        let Ok(id) = name.parse::<SessionId>() else {
            continue;
        };
        if !matches!(entry.file_type(), FileType::Directory | FileType::Symlink | FileType::Unknown)
        {
            continue;
        }
        path.clear();
        path.push_str(name);
        path.push_str("/journal.jsonl");
        let stamp =
            statat(repo, &*path, AtFlags::empty()).map_or(Stamp::MISSING, |stat| Stamp::of(&stat));
        found.push((id, stamp));
    }
    Ok(found)
}

/// When something in a directory last changed; `None` where it can't be told.
pub(crate) fn changed_at(path: &Path) -> Option<i64> {
    statat(CWD, path, AtFlags::empty()).ok().map(|stat| mtime_ns(&stat))
}

fn mtime_ns(stat: &Stat) -> i64 {
    let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or_default();
    stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(nanos)
}
