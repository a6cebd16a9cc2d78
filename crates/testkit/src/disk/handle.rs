//! What a disk hands out: open files and locks.

use std::{io, path::PathBuf};

use segue_journal::disk::{DiskFile, LockFile};

use super::{Fault, SimDisk, node::Ino, size};

/// An open file. It stays readable when its name is gone, as on a real disk.
#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) disk: SimDisk,
    pub(super) ino: Ino,
    pub(super) path: PathBuf,
}

impl DiskFile for SimFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.disk.inner();
        let half = bytes.len().div_ceil(2);
        let fault = inner.faults.next();
        let file = inner.file(self.ino)?;
        match fault {
            None | Some(Fault::FailedSync) => {
                file.append(bytes);
                Ok(bytes.len())
            }
            Some(Fault::ShortWrite) => {
                file.append(&bytes[..half]);
                Ok(half)
            }
            // The error says nothing of how far it came.
            Some(fault @ Fault::Eio) => {
                file.append(&bytes[..half]);
                Err(fault.error())
            }
            Some(fault) => Err(fault.error()),
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut inner = self.disk.inner();
        let bytes = inner.file(self.ino)?.bytes();
        let rest = bytes.get(size(offset)?..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.inner().file(self.ino)?.bytes().len() as u64)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let mut inner = self.disk.inner();
        inner.change()?;
        inner.file(self.ino)?.set_len(size(len)?);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut inner = self.disk.inner();
        let fault = inner.change()?;
        let ignored = inner.mutant.as_ref().is_some_and(|mutant| mutant.ignores_file(&self.path));
        let file = inner.file(self.ino)?;
        match fault {
            Some(fault @ Fault::FailedSync) => {
                file.sync_failed();
                Err(fault.error())
            }
            _ if ignored => Ok(()),
            _ => {
                file.sync();
                Ok(())
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct SimLock {
    pub(super) disk: SimDisk,
    pub(super) ino: Ino,
}

impl LockFile for SimLock {
    fn describe(&mut self, text: &str) -> io::Result<()> {
        let mut inner = self.disk.inner();
        inner.change()?;
        let file = inner.file(self.ino)?;
        file.set_len(0);
        file.append(text.as_bytes());
        Ok(())
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.inner().locked.remove(&self.ino);
    }
}
