//! Where a workspace that was recorded on one machine may be on another. Only names: whoever asks
//! looks whether something is there.

use std::path::{Path, PathBuf};

/// A place to look at, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub path: PathBuf,
    pub found: Found,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The repository that the person stands in is the session's.
    CurrentRepository,
    /// The recorded path.
    SamePath,
    /// The recorded path, with this machine's home directory in place of the other's.
    OtherHome,
}

/// The candidates for a recorded workspace, the best one first.
///
/// `recorded_home` is the home directory over there, and is guessed where nobody knows it.
/// `current` is the root of the repository that the person stands in, with its identity;
/// `identity` is the session's. A session without a remote has its path as identity, so there the
/// current repository never matches by accident.
#[must_use]
pub fn remap(
    recorded: &Path,
    recorded_home: Option<&Path>,
    here_home: Option<&Path>,
    identity: &str,
    current: Option<(&Path, &str)>,
) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut add = |path: PathBuf, found| {
        if !candidates.iter().any(|known| known.path == path) {
            candidates.push(Candidate { path, found });
        }
    };
    if let Some((root, here)) = current
        && here == identity
        && !identity.is_empty()
    {
        add(root.to_owned(), Found::CurrentRepository);
    }
    if !recorded.is_absolute() {
        return candidates;
    }
    add(recorded.to_owned(), Found::SamePath);
    let there = recorded_home.map(Path::to_owned).or_else(|| guess_home(recorded));
    if let (Some(there), Some(here)) = (there, here_home)
        && there.parent().is_some()
        && let Ok(rest) = recorded.strip_prefix(&there)
        && !rest.as_os_str().is_empty()
    {
        add(here.join(rest), Found::OtherHome);
    }
    candidates
}

/// `/home/me`, `/Users/me`, `/root`.
fn guess_home(path: &Path) -> Option<PathBuf> {
    if path.starts_with("/root") {
        return Some(PathBuf::from("/root"));
    }
    let known = path.starts_with("/home") || path.starts_with("/Users");
    let home: PathBuf = path.components().take(3).collect();
    (known && home.components().count() == 3).then_some(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(found: &[Candidate]) -> Vec<(&str, Found)> {
        found.iter().map(|c| (c.path.to_str().unwrap(), c.found)).collect()
    }

    #[test]
    fn the_current_repository_then_the_same_path_then_the_other_home() {
        let (there, here) = (Path::new("/home/ann/app"), Some(Path::new("/Users/bob")));
        let found = remap(there, None, here, "x.org/app", Some((Path::new("/src/a"), "x.org/app")));
        assert_eq!(
            paths(&found),
            [
                ("/src/a", Found::CurrentRepository),
                ("/home/ann/app", Found::SamePath),
                ("/Users/bob/app", Found::OtherHome)
            ]
        );
        let other = Some((Path::new("/src/a"), "x.org/b"));
        assert_eq!(remap(there, None, here, "x.org/app", other).len(), 2);
    }

    #[test]
    fn odd_homes_lead_nowhere() {
        let here = Some(Path::new("/home/bob"));
        assert_eq!(remap(Path::new("/srv/app"), None, here, "i", None).len(), 1);
        assert_eq!(remap(Path::new("/srv/app"), Some(Path::new("/")), here, "i", None).len(), 1);
        assert_eq!(remap(Path::new("/home/bob/x"), None, here, "i", None).len(), 1);
        assert_eq!(remap(Path::new("/home"), None, here, "i", None).len(), 1);
        assert!(remap(Path::new("app"), None, here, "i", None).is_empty());
        let known = remap(Path::new("/srv/ann/x"), Some(Path::new("/srv/ann")), here, "i", None);
        assert_eq!(paths(&known)[1], ("/home/bob/x", Found::OtherHome));
    }
}
