//! Finding a vendor's program, and the real one behind a wrapper.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::World;

/// A program that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// As it was found: by `PATH`, or named in the settings.
    pub path: PathBuf,
    /// The file behind all links.
    pub real: PathBuf,
    /// From the package that it is in, where it is in one.
    pub version: Option<String>,
}

impl Program {
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let version = npm_version(&real);
        Self { path, real, version }
    }

    /// The same program by another file, which a wrapper would have started.
    #[must_use]
    pub fn instead(self, file: PathBuf) -> Self {
        match is_program(&file) {
            true => Self { path: file.clone(), real: file, version: self.version },
            false => self,
        }
    }
}

/// Looks for the first of some names in `PATH`.
#[must_use]
pub fn look_up(world: &World, names: &[&str]) -> Option<Program> {
    let path = world.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    let candidates = names.iter().flat_map(|name| {
        std::env::split_paths(OsStr::new(path))
            // A relative directory would mean another program in every workspace.
            .filter(|dir| dir.is_absolute())
            .map(move |dir| dir.join(name))
    });
    candidates.into_iter().find(|file| is_program(file)).map(Program::at)
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The directory of the npm package that a file belongs to.
#[must_use]
pub fn package_of(file: &Path) -> Option<PathBuf> {
    file.ancestors().skip(1).find(|dir| dir.join("package.json").is_file()).map(Path::to_owned)
}

/// The version in the package that a file belongs to. Quicker than asking the program, which may
/// take a second to tell.
#[must_use]
pub fn npm_version(file: &Path) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Package {
        version: String,
    }
    let text = std::fs::read(package_of(file)?.join("package.json")).ok()?;
    serde_json::from_slice::<Package>(&text).ok().map(|package| package.version)
}
