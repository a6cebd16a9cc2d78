//! Paths that cannot leave the workspace.
//!
//! The root is opened once, and every path is resolved from that handle. On Linux the kernel does
//! it in one step (`openat2` with `RESOLVE_BENEATH`), so no `..` and no link, wherever in the path
//! and whenever it was put there, leads out. Where that call is missing, or a link has an absolute
//! target inside the root, the path is made canonical first and then walked part by part without
//! following any link: what is swapped in between is refused, not followed.
//!
//! Writing goes through a handle of the parent directory: a new file beside the old one, then a
//! rename. A link that appears at the last moment is replaced, never written through.
//!
//! `.git` may be read and not written.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// As many links in a row as Linux follows.
const MAX_LINKS: usize = 40;

/// The workspace's directory.
#[derive(Debug)]
pub(super) struct Root {
    dir: OwnedFd,
    path: PathBuf,
    given: PathBuf,
}

/// Where a file is to be written.
#[derive(Debug)]
pub(super) struct Target {
    parent: OwnedFd,
    name: OsString,
    /// What is there now.
    pub(super) stat: Option<Stat>,
    /// Relative to the root, links resolved.
    pub(super) shown: String,
}

impl Root {
    pub(super) fn open(given: &Path) -> io::Result<Self> {
        let path = given.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Self { dir, path, given: given.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file for reading.
    pub(super) fn read(&self, path: &str) -> Result<File, String> {
        let relative = self.relative(path)?;
        self.read_relative(&relative).map_err(|error| self.explain(path, error))
    }

    /// The same for a path that a walk found.
    pub(super) fn read_relative(&self, relative: &Path) -> Result<File, Errno> {
        // Without NONBLOCK, opening a pipe that nobody writes to would wait for ever.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open_beneath(relative, flags)?;
        match kind(&rustix::fs::fstat(&file)?) {
            FileType::RegularFile => Ok(File::from(file)),
            FileType::Directory => Err(Errno::ISDIR),
            _ => Err(Errno::NXIO),
        }
    }

    /// Where a file or directory really is, relative to the root, and whether it is a directory.
    pub(super) fn locate(&self, path: &str) -> Result<(PathBuf, bool), String> {
        let relative = self.relative(path)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let found = self
            .open_beneath(&relative, flags)
            .and_then(|file| Ok((rustix::fs::fstat(&file)?, file)))
            .map_err(|error| self.explain(path, error))?;
        let real = self.real(&found.1, &relative).map_err(|error| self.explain(path, error))?;
        Ok((real, kind(&found.0) == FileType::Directory))
    }

    /// Finds where to write `path`, and makes its parent directories if `create` says so. A link
    /// at the end is followed as long as it stays inside, so that the file behind it is written.
    pub(super) fn target(&self, path: &str, create: bool) -> Result<Target, String> {
        let mut relative = self.relative(path)?;
        for _ in 0..MAX_LINKS {
            let Some(name) = relative.file_name().map(OsStr::to_owned) else {
                return Err(format!("{path} is a directory"));
            };
            let above = relative.parent().unwrap_or(Path::new("")).to_owned();
            let parent = self.open_parent(path, &above, create)?;
            let real = self.real(&parent, &above).map_err(|error| self.explain(path, error))?;
            refuse_git(path, &real.join(&name))?;
            let stat = match rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Some(stat),
                Err(Errno::NOENT) => None,
                Err(error) => return Err(self.explain(path, error)),
            };
            if stat.as_ref().map(kind) != Some(FileType::Symlink) {
                let shown = real.join(&name).to_string_lossy().into_owned();
                return Ok(Target { parent, name, stat, shown });
            }
            let link = rustix::fs::readlinkat(&parent, &name, Vec::new())
                .map_err(|error| self.explain(path, error))?;
            let link = PathBuf::from(OsString::from_vec(link.into_bytes()));
            relative = match link.is_absolute() {
                true => self.strip(&link).ok_or_else(|| self.explain(path, Errno::XDEV))?,
                false => real.join(link),
            };
        }
        Err(self.explain(path, Errno::LOOP))
    }

    /// The path as seen from the root. Absolute ones have to name the root.
    fn relative(&self, path: &str) -> Result<PathBuf, String> {
        if path.is_empty() {
            return Err("the path is empty".to_owned());
        }
        if path.contains('\0') {
            return Err("the path has a NUL character".to_owned());
        }
        let given = Path::new(path);
        if given.is_relative() {
            return Ok(given.to_owned());
        }
        self.strip(given).ok_or_else(|| self.explain(path, Errno::XDEV))
    }

    fn strip(&self, path: &Path) -> Option<PathBuf> {
        let rest = path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.given));
        rest.ok().map(Path::to_owned)
    }

    fn open_beneath(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::ResolveFlags;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            // A rename somewhere during the call makes the kernel ask for another try.
            for _ in 0..32 {
                match rustix::fs::openat2(&self.dir, relative, flags, Mode::empty(), resolve) {
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    // PERM is how old sandboxes refuse a call that they do not know.
                    Err(Errno::XDEV | Errno::NOSYS | Errno::PERM) => break,
                    other => return other,
                }
            }
        }
        self.open_canonical(relative, flags)
    }

    /// Resolves first, then walks without following anything.
    fn open_canonical(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let real = self.path.join(relative).canonicalize();
        let real = real.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let inside = real.strip_prefix(&self.path).map_err(|_| Errno::XDEV)?;
        let mut parts: Vec<_> = inside.components().collect();
        let last = parts.pop().map_or(OsStr::new("."), Component::as_os_str);
        let step = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = rustix::fs::openat(&self.dir, ".", step, Mode::empty())?;
        for part in parts {
            at = rustix::fs::openat(&at, part.as_os_str(), step, Mode::empty())?;
        }
        rustix::fs::openat(&at, last, flags | OFlags::NOFOLLOW, Mode::empty())
    }

    fn open_dir(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        self.open_beneath(relative, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn open_parent(&self, path: &str, above: &Path, create: bool) -> Result<OwnedFd, String> {
        match self.open_dir(above) {
            Err(Errno::NOENT) if create => {}
            other => return other.map_err(|error| self.explain(path, error)),
        }
        let explain = |error| self.explain(path, error);
        let mut prefix = PathBuf::new();
        let mut at = self.open_dir(&prefix).map_err(explain)?;
        for part in above.components() {
            let before = prefix.clone();
            prefix.push(part);
            match (self.open_dir(&prefix), part) {
                (Ok(dir), _) => at = dir,
                (Err(Errno::NOENT), Component::Normal(name)) => {
                    refuse_git(path, &self.real(&at, &before).map_err(explain)?.join(name))?;
                    match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(explain(error)),
                    }
                    at = self.open_dir(&prefix).map_err(explain)?;
                }
                (Err(error), _) => return Err(explain(error)),
            }
        }
        Ok(at)
    }

    /// Where an open handle is now, relative to the root.
    fn real(&self, handle: &OwnedFd, relative: &Path) -> Result<PathBuf, Errno> {
        let from_handle = std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        let real = from_handle
            .or_else(|_| self.path.join(relative).canonicalize())
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        real.strip_prefix(&self.path).map(Path::to_owned).map_err(|_| Errno::XDEV)
    }

    fn explain(&self, path: &str, error: Errno) -> String {
        let root = self.path.display();
        match error {
            Errno::XDEV => format!(
                "{path} leads outside the workspace ({root}); only what is inside can be used"
            ),
            Errno::NOENT => format!("{path} does not exist"),
            Errno::NOTDIR => format!("a part of {path} is not a directory"),
            Errno::ISDIR => format!("{path} is a directory; glob lists what is in it"),
            Errno::NXIO => format!("{path} is not a regular file"),
            Errno::LOOP => format!("{path} goes through too many symbolic links"),
            Errno::ACCESS => format!("{path}: permission denied"),
            other => format!("{path}: {}", io::Error::from(other)),
        }
    }
}

impl Target {
    /// Opens what is there. Call only when there is something.
    pub(super) fn read(&self, path: &str) -> Result<(File, Stat), String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.parent, &self.name, flags, Mode::empty())
            .and_then(|file| Ok((rustix::fs::fstat(&file)?, file)));
        let (stat, file) = match opened {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Err(format!("{path} does not exist")),
            Err(error) => return Err(format!("{path}: {}", io::Error::from(error))),
        };
        writable(path, &stat)?;
        Ok((File::from(file), stat))
    }

    /// Puts `content` there in one step: others see the old file or the new one. `expected` is
    /// the file that the content was made from; when another one is there now, nothing happens.
    pub(super) fn replace(
        &self,
        path: &str,
        content: &[u8],
        expected: Option<&Stat>,
    ) -> Result<(), String> {
        if let Some(stat) = &self.stat {
            writable(path, stat)?;
        }
        let fits = || match expected.is_some_and(|expected| !self.is_still(expected)) {
            true => Err(io::Error::other("it was changed by someone else; read it again")),
            false => Ok(()),
        };
        // Without a name until it is whole: killed on the way, nothing is left behind.
        let unnamed = self.create_unnamed().and_then(|file| {
            self.fill(&file, content)?;
            Ok(file)
        });
        let placed = match unnamed {
            Ok(file) => fits().map(|()| self.put(&file).is_ok()),
            Err(_) => Ok(false),
        };
        let result = placed.and_then(|done| match done {
            true => Ok(()),
            false => self.replace_by_name(content, fits),
        });
        result.map_err(|error| format!("{path}: {error}"))
    }

    /// For a file system that knows no files without a name.
    fn replace_by_name(&self, content: &[u8], fits: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let (temporary, file) = self.create_temporary()?;
        let result = self.fill(&file, content).and_then(|()| fits()).and_then(|()| {
            Ok(rustix::fs::renameat(&self.parent, &temporary, &self.parent, &self.name)?)
        });
        if result.is_err() {
            // Best effort: the error that led here is the one to tell.
            let _ = rustix::fs::unlinkat(&self.parent, &temporary, AtFlags::empty());
        }
        result
    }

    fn create_unnamed(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.parent, ".", flags, Mode::from_raw_mode(0o666))?;
        Ok(File::from(file))
    }

    /// Gives a whole file its name.
    fn put(&self, file: &File) -> io::Result<()> {
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        let name = |name: &OsStr| {
            let follow = AtFlags::SYMLINK_FOLLOW;
            rustix::fs::linkat(rustix::fs::CWD, &link, &self.parent, name, follow)
        };
        // Where nothing is, that is all.
        if self.stat.is_none() && name(self.name.as_ref()).is_ok() {
            return Ok(());
        }
        let temporary = temporary_name();
        name(temporary.as_ref())?;
        let moved = rustix::fs::renameat(&self.parent, &temporary, &self.parent, &self.name);
        if moved.is_err() {
            let _ = rustix::fs::unlinkat(&self.parent, &temporary, AtFlags::empty());
        }
        Ok(moved?)
    }

    fn create_temporary(&self) -> io::Result<(String, File)> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = temporary_name();
            match rustix::fs::openat(&self.parent, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => return Ok((name, File::from(file))),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn fill(&self, mut file: &File, content: &[u8]) -> io::Result<()> {
        file.write_all(content)?;
        if let Some(stat) = &self.stat {
            rustix::fs::fchmod(file.as_fd(), Mode::from_raw_mode(stat.st_mode & 0o7777))?;
        }
        // Else a power cut could leave an empty file under the right name.
        file.sync_all()
    }

    fn is_still(&self, expected: &Stat) -> bool {
        let now = rustix::fs::statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        now.is_ok_and(|now| {
            now.st_ino == expected.st_ino
                && now.st_dev == expected.st_dev
                && now.st_size == expected.st_size
                && now.st_mtime == expected.st_mtime
                && now.st_mtime_nsec == expected.st_mtime_nsec
        })
    }
}

/// A name that nobody else has.
fn temporary_name() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!(".segue-{}-{number}.tmp", std::process::id())
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// A rename would get around a read-only file, which somebody made so on purpose.
fn writable(path: &str, stat: &Stat) -> Result<(), String> {
    match kind(stat) {
        FileType::RegularFile if stat.st_mode & 0o222 == 0 => {
            Err(format!("{path} is read-only; change its mode first if it is to be written"))
        }
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(format!("{path} is a directory")),
        _ => Err(format!("{path} is not a regular file")),
    }
}

fn refuse_git(path: &str, real: &Path) -> Result<(), String> {
    // Some file systems do not tell cases apart.
    let is_git = |part: &OsStr| part.as_bytes().eq_ignore_ascii_case(b".git");
    if real.components().any(|part| is_git(part.as_os_str())) {
        return Err(format!("{path} is inside .git, which can be read but not written"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// What older kernels and other systems use has to refuse the same things.
    #[test]
    fn the_way_without_openat2_is_as_strict() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::write(top.join("a/b/f"), "x").unwrap();
        std::fs::write(dir.path().join("out"), "x").unwrap();
        symlink("a/b", top.join("in")).unwrap();
        symlink("../out", top.join("leak")).unwrap();
        symlink("../..", top.join("a/up")).unwrap();
        let root = Root::open(&top).unwrap();
        let open = |path: &str| root.open_canonical(Path::new(path), OFlags::RDONLY).map(drop);
        for path in ["a/b/f", "in/f", "a/../a/b/f", ".", "a"] {
            assert_eq!(open(path), Ok(()), "{path}");
        }
        for path in ["leak", "../out", "a/up/out", "..", "a/../../out"] {
            assert_eq!(open(path), Err(Errno::XDEV), "{path}");
        }
        assert_eq!(open("gone"), Err(Errno::NOENT));
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, "one").unwrap();
        let root = Root::open(dir.path()).unwrap();
        let target = root.target("f", false).unwrap();
        let (_, stat) = target.read("f").unwrap();
        std::fs::write(&file, "their longer text").unwrap();
        let error = target.replace("f", b"two", Some(&stat)).unwrap_err();
        assert!(error.contains("changed by someone else"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "their longer text");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
