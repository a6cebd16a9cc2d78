//! Puts what a [`Call`] needs into its place, for the one who makes the call.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use super::Call;

/// A symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Below [`Job::files`](super::Job::files).
    pub name: PathBuf,
    /// What it leads to; a file need not be there.
    pub to: PathBuf,
    /// It leads to a directory, which is made where there is none.
    pub dir: bool,
}

impl Call {
    /// Makes the links and the files below `dir`, which is [`Job::files`](super::Job::files). What
    /// an earlier call has left there is replaced; what a link leads to is never touched.
    ///
    /// # Errors
    /// What could not be made, with its path.
    pub fn prepare(&self, dir: &Path) -> io::Result<()> {
        let told = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        for Link { name, to, dir: is_dir } in &self.links {
            let path = dir.join(name);
            let made = (|| {
                if *is_dir {
                    fs::create_dir_all(to)?;
                }
                room_for(&path)?;
                symlink(to, &path)
            })();
            made.map_err(|error| told(&path, error))?;
        }
        for (name, text) in &self.files {
            let path = dir.join(name);
            let made = room_for(&path).and_then(|()| fs::write(&path, text));
            made.map_err(|error| told(&path, error))?;
        }
        Ok(())
    }
}

/// A directory for it, and nothing in its place: a file would be written through a link.
fn room_for(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
