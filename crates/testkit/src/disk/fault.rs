//! What can be done to a call that changes something, and to a disk as a whole.

use std::{io, path::Path};

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// An error of the device. A write has half happened all the same.
    Eio,
    /// The disk is full: nothing happened.
    Enospc,
    /// A write takes half of its bytes, and says so. No other call is touched by it.
    ShortWrite,
    /// A signal came first: nothing happened.
    Eintr,
    /// A sync fails, and the system calls the bytes clean all the same: readers still see them, a
    /// later sync succeeds without them, and a power cut may lose them. No other call is touched.
    FailedSync,
}

impl Fault {
    pub const ALL: [Self; 5] =
        [Self::Eio, Self::Enospc, Self::ShortWrite, Self::Eintr, Self::FailedSync];

    pub(super) fn error(self) -> io::Error {
        match self {
            Self::Eio | Self::FailedSync | Self::ShortWrite => {
                io::Error::other("simulated: input/output error")
            }
            Self::Enospc => io::Error::new(io::ErrorKind::StorageFull, "simulated: disk full"),
            Self::Eintr => io::Error::new(io::ErrorKind::Interrupted, "simulated: interrupted"),
        }
    }
}

/// A disk that says it has synced, and has not. What stands after it must notice in its tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// No file is ever synced.
    IgnoreSync,
    /// No directory is ever synced.
    IgnoreDirSync,
    /// Files whose path contains this are never synced.
    IgnoreSyncOf(&'static str),
    /// Directories whose own name begins or ends with this are never synced.
    IgnoreDirSyncOf(&'static str),
}

impl Mutant {
    pub(super) fn ignores_file(&self, path: &Path) -> bool {
        match self {
            Self::IgnoreSync => true,
            Self::IgnoreSyncOf(part) => path.to_string_lossy().contains(part),
            Self::IgnoreDirSync | Self::IgnoreDirSyncOf(_) => false,
        }
    }

    pub(super) fn ignores_dir(&self, path: &Path) -> bool {
        match self {
            Self::IgnoreDirSync => true,
            Self::IgnoreDirSyncOf(part) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(part) || name.ends_with(part)
            }
            Self::IgnoreSync | Self::IgnoreSyncOf(_) => false,
        }
    }
}

/// Which calls fail.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    calls: u64,
    failed: u64,
    once: Vec<(u64, Fault)>,
    from: Option<(u64, Fault)>,
}

impl Faults {
    pub(super) fn once(&mut self, nth: u64, fault: Fault) {
        self.once.push((self.calls + nth, fault));
    }

    pub(super) fn from(&mut self, nth: u64, fault: Fault) {
        self.from = Some((self.calls + nth, fault));
    }

    pub(super) fn clear(&mut self) {
        self.once.clear();
        self.from = None;
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// Counts one call, and says whether it fails.
    pub(super) fn next(&mut self) -> Option<Fault> {
        self.calls += 1;
        let calls = self.calls;
        let once = self.once.iter().find(|(at, _)| *at == calls).map(|(_, fault)| *fault);
        let fault =
            once.or_else(|| self.from.filter(|(at, _)| *at <= calls).map(|(_, fault)| fault));
        self.failed += u64::from(fault.is_some());
        fault
    }
}
