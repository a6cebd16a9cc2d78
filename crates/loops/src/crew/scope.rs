//! Where a member may write: looked at while it works, and when it has finished a turn.
//!
//! Snapshots tell what has changed since the turn began. Where several work in one directory, nobody
//! can tell who it was: then a file is only out of bounds if none of those at work may write it. What
//! is undone is kept first, as a commit under `refs/segue/`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use globset::{Glob, GlobSet, GlobSetBuilder};
use segue_core::{
    crew::Spec,
    event::{Doing, ScopeBroken, WarningRaised},
    state::{Crew, CrewMember as Member},
};
use segue_runner::{Halt, Supervisor};
use segue_workspace::{Opened, Snapshots};

/// How often is looked while somebody works.
const LOOK: Duration = Duration::from_secs(5);

/// How many paths are named.
const MOST_PATHS: usize = 50;

#[derive(Debug, Default)]
pub(crate) struct Scope {
    snapshots: Option<Snapshots>,
    prefix: String,
    /// As it was when the turn began.
    base: Option<String>,
    looked: Option<Instant>,
    told: BTreeSet<String>,
    wished: bool,
}

impl Scope {
    /// Only for those who may not write everywhere.
    pub(crate) fn new(spec: &Spec, cwd: &Path, key: &str) -> Self {
        if spec.write.is_empty() {
            return Self::default();
        }
        let snapshots = match Snapshots::open(cwd, key) {
            Ok(Opened::Ready(snapshots)) => Some(snapshots),
            _ => None,
        };
        let prefix = format!("refs/segue/{key}/");
        Self { snapshots, prefix, wished: true, ..Self::default() }
    }

    /// Whether it should be watched, and can't be.
    pub(crate) fn is_blind(&self) -> bool {
        self.wished && self.snapshots.is_none()
    }

    /// A turn begins, or is about to.
    pub(crate) fn begins(&mut self) {
        if let Some(snapshots) = self.snapshots.as_ref().filter(|_| self.base.is_none()) {
            self.base = snapshots.take_unnamed().ok().map(|taken| taken.commit);
            self.told.clear();
            self.looked = Some(Instant::now());
        }
    }

    /// Whether it is time to look.
    fn is_due(&self, over: bool) -> bool {
        self.base.is_some() && (over || self.looked.is_none_or(|at| at.elapsed() >= LOOK))
    }

    /// Looks, and undoes what the roster says is to be undone.
    pub(crate) fn look(
        &mut self,
        all: &mut Supervisor<'_>,
        member: &Member,
        over: bool,
    ) -> Result<(), Halt> {
        if !self.is_due(over) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let Some(crew) = all.state().crew.clone() else { return Ok(()) };
        let broken = self.broken(all, &crew, member)?;
        if over {
            self.base = None;
        }
        match broken {
            Some(broken) => all.commit(broken).map(drop),
            None => Ok(()),
        }
    }

    fn broken(
        &mut self,
        all: &mut Supervisor<'_>,
        crew: &Crew,
        member: &Member,
    ) -> Result<Option<ScopeBroken>, Halt> {
        let (Some(snapshots), Some(base)) = (&self.snapshots, self.base.clone()) else {
            return Ok(None);
        };
        let Ok((_, changes, _)) = snapshots.differs(&base, 1000) else { return Ok(None) };
        let at_work: Vec<&Member> = crew.members.iter().filter(|one| shares(one, member)).collect();
        let allowed: Vec<Option<GlobSet>> =
            at_work.iter().map(|one| crew.spec(one).and_then(|spec| globs(&spec.write))).collect();
        let below = member.cwd.strip_prefix(snapshots.top()).unwrap_or(Path::new(""));
        let outside = |path: &Path| {
            let inner = path.strip_prefix(below).unwrap_or(path);
            allowed.iter().all(|globs| globs.as_ref().is_some_and(|globs| !globs.is_match(inner)))
        };
        let paths: Vec<PathBuf> = changes
            .into_iter()
            .map(|change| change.path)
            .filter(|path| outside(path) && !self.told.contains(&*path.to_string_lossy()))
            .collect();
        if paths.is_empty() {
            return Ok(None);
        }
        let enforce = crew.spec(member).is_some_and(|spec| spec.enforce);
        let name = format!("{}scope", self.prefix);
        let (kept, undone) = match enforce {
            false => (None, false),
            true => {
                // Somebody's files are about to change: whoever looks later is to know by whom.
                let message = format!("{} files out of bounds are put back", paths.len());
                all.commit(WarningRaised { message })?;
                match snapshots.restore_some(&base, &name, &|path| paths.contains(&path.into())) {
                    Ok(restored) => (Some(restored.safety.commit), true),
                    Err(_) => (None, false),
                }
            }
        };
        let shown: Vec<String> =
            paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        if !undone {
            self.told.extend(shown.iter().cloned());
        }
        Ok(Some(ScopeBroken {
            members: at_work.iter().map(|one| one.name.clone()).collect(),
            paths: shown.into_iter().take(MOST_PATHS).collect(),
            undone,
            kept_in: kept,
        }))
    }
}

/// Who may have written in the same directory meanwhile.
fn shares(one: &Member, member: &Member) -> bool {
    one.name == member.name || (one.cwd == member.cwd && one.doing == Doing::Busy)
}

/// A path means all that is below it.
fn globs(words: &[String]) -> Option<GlobSet> {
    if words.is_empty() {
        return None;
    }
    let mut set = GlobSetBuilder::new();
    for word in words {
        let word = word.trim_start_matches("./").trim_end_matches('/');
        for text in [word.to_owned(), format!("{word}/**")] {
            if let Ok(glob) = Glob::new(&text) {
                set.add(glob);
            }
        }
    }
    set.build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_means_all_below_it_and_a_glob_what_it_says() {
        let set = globs(&["src/".to_owned(), "docs/*.md".to_owned()]).unwrap();
        for (path, inside) in [
            ("src/a/b.rs", true),
            ("src", true),
            ("srcs/a.rs", false),
            ("docs/a.md", true),
            ("docs/a.txt", false),
        ] {
            assert_eq!(set.is_match(path), inside, "{path}");
        }
        assert!(globs(&[]).is_none());
    }
}
