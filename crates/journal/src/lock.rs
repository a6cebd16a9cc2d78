//! One writer per session: an OS lock on `lock`, which the system takes back when its holder dies.
//!
//! The file's text says who holds it, for people; the lock alone decides. To look whether a session
//! is alive means to share the lock for an instant: two who look see nobody, and a writer that meets a
//! taken lock tries again for a moment before it believes it.

use std::{
    fmt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    disk::{Disk, LockFile},
    error::{At, Error, Result},
};

pub const FILE: &str = "lock";

const PATIENCE: Duration = Duration::from_millis(300);

/// Who holds a lock, as it told us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    pub host: String,
    pub since: Timestamp,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == 0 {
            return f.write_str("another process (it did not say which)");
        }
        write!(f, "process {} on {}, since {}", self.pid, self.host, self.since)
    }
}

/// The right to write to a session, for as long as it lives.
#[derive(Debug)]
pub struct Lock {
    _file: Box<dyn LockFile>,
}

impl Lock {
    /// Takes the lock of the session in `dir`, or says who has it.
    pub fn take(disk: &dyn Disk, dir: &Path, me: &Holder) -> Result<Self> {
        let path = dir.join(FILE);
        let started = Instant::now();
        loop {
            if let Some(mut file) = disk.try_lock(&path).at(&path)? {
                let text = serde_json::to_string(me).unwrap_or_default();
                file.describe(&format!("{text}\n")).at(&path)?;
                return Ok(Self { _file: file });
            }
            if started.elapsed() >= PATIENCE {
                return Err(Error::Busy { dir: dir.to_owned(), holder: holder(disk, &path) });
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Who says that it holds the lock.
fn holder(disk: &dyn Disk, path: &Path) -> Holder {
    disk.read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or(Holder {
        pid: 0,
        host: String::new(),
        since: Timestamp::UNIX_EPOCH,
    })
}

/// Who has the session in `dir` now; `None` where nobody has.
pub fn held_by(disk: &dyn Disk, dir: &Path) -> Result<Option<Holder>> {
    let path = dir.join(FILE);
    match disk.is_locked(&path) {
        Ok(false) => Ok(None),
        Ok(true) => Ok(Some(holder(disk, &path))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        // A session that we may not even read is nobody's, as far as we can see.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(error).at(&path),
    }
}
