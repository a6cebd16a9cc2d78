//! Where a member may write: looked at while it works, and when it has finished a turn.
//!
//! A snapshot of when the turn began tells what has changed since. Which one that is stands in the
//! journal, with everybody who was at work in the same directory since then: so whoever takes the
//! watcher's place looks at the same. Where several work in one directory, nobody can tell who it
//! was: then a file is only out of bounds if none of them may write it. What is undone is kept first,
//! as a commit under `refs/segue/`.
//!
//! Where nobody watched to the end, a person may have been at work meanwhile: then it is only told.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use globset::GlobSet;
use segue_core::{
    crew::{Spec, bounds as written},
    event::{ScopeBroken, ScopeClosed, ScopeOpened, WarningRaised},
    state::{Bounds, Crew, CrewMember as Member},
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
    looked: Option<Instant>,
    /// Whether the member was seen at work by us.
    saw: bool,
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
    pub(crate) fn begins(&mut self, all: &mut Supervisor<'_>, member: &str) -> Result<(), Halt> {
        if bounds(all, member).is_some() {
            return Ok(());
        }
        self.saw = true;
        let Some(Ok(taken)) = self.snapshots.as_ref().map(Snapshots::take_unnamed) else {
            return Ok(());
        };
        self.looked = Some(Instant::now());
        all.note(ScopeOpened { member: member.to_owned(), base: taken.commit }).map(drop)
    }

    /// Looks, and undoes what the roster says is to be undone. `over`: for the last time, since the
    /// turn or its program has ended; else it was seen at work just now.
    pub(crate) fn look(
        &mut self,
        all: &mut Supervisor<'_>,
        member: &Member,
        over: bool,
    ) -> Result<(), Halt> {
        self.saw |= !over;
        let due = over || self.looked.is_none_or(|at| at.elapsed() >= LOOK);
        let Some(bounds) = bounds(all, &member.name).filter(|_| due) else { return Ok(()) };
        self.looked = Some(Instant::now());
        if let Some(broken) = self.broken(all, member, &bounds)? {
            all.commit(broken)?;
        }
        match over {
            true => all.note(ScopeClosed { member: member.name.clone() }).map(drop),
            false => Ok(()),
        }
    }

    fn broken(
        &self,
        all: &mut Supervisor<'_>,
        member: &Member,
        bounds: &Bounds,
    ) -> Result<Option<ScopeBroken>, Halt> {
        let (Some(snapshots), Some(crew)) = (&self.snapshots, &all.state().crew) else {
            return Ok(None);
        };
        // All of them: only what is shown has an end.
        let Ok((_, changes, _)) = snapshots.differs(&bounds.base, usize::MAX) else {
            return Ok(None);
        };
        let below = member.cwd.strip_prefix(snapshots.top()).unwrap_or(Path::new(""));
        let outside = outside(crew, bounds);
        let told = |path: &Path| bounds.told.iter().any(|told| **told == *path.to_string_lossy());
        let paths: Vec<PathBuf> = changes
            .into_iter()
            .map(|change| change.path)
            .filter(|path| outside(path.strip_prefix(below).ok()) && !told(path))
            .collect();
        if paths.is_empty() {
            return Ok(None);
        }
        let enforce = self.saw && crew.spec(member).is_some_and(|spec| spec.enforce);
        let name = format!("{}scope", self.prefix);
        let (kept_in, undone) = match enforce {
            false => (None, false),
            true => {
                // Somebody's files are about to change: whoever looks later is to know by whom.
                let message = format!("{} files out of bounds are put back", paths.len());
                all.commit(WarningRaised { message })?;
                let these = |path: &Path| paths.iter().any(|one| one == path);
                match snapshots.restore_some(&bounds.base, &name, &these) {
                    Ok(restored) => (Some(restored.safety.commit), true),
                    Err(_) => (None, false),
                }
            }
        };
        let shown = paths.iter().map(|path| path.to_string_lossy().into_owned());
        Ok(Some(ScopeBroken {
            members: bounds.with.iter().map(|(name, _)| name.clone()).collect(),
            turn_of: member.name.clone(),
            paths: shown.take(MOST_PATHS).collect(),
            undone,
            kept_in,
        }))
    }
}

fn bounds(all: &Supervisor<'_>, member: &str) -> Option<Bounds> {
    all.state().crew.as_ref()?.member(member)?.bounds.clone()
}

/// Which paths none of those at work may write; `None` is one that is not below their directory.
/// Whoever is in the roster no more may have been allowed anything.
fn outside(crew: &Crew, bounds: &Bounds) -> impl Fn(Option<&Path>) -> bool + use<> {
    let spec = |role: &str| crew.roster().spec(role);
    let allowed: Vec<Option<GlobSet>> =
        bounds.with.iter().map(|(_, role)| globs(&spec(role)?.write)).collect();
    move |path| {
        let allows = |globs: &GlobSet| path.is_some_and(|path| globs.is_match(path));
        allowed.iter().all(|globs| globs.as_ref().is_some_and(|globs| !allows(globs)))
    }
}

/// `None` for whoever may write anywhere.
fn globs(words: &[String]) -> Option<GlobSet> {
    if words.is_empty() { None } else { written::globs(words).ok() }
}

#[cfg(test)]
mod tests {
    use segue_core::event::Doing;

    use super::*;
    use crate::crew::testing::Scene;

    const PAIR: &str = "[[agents]]\nid = \"coder\"\nagent = \"claude\"\nwrite = [\"src\"]\n\
        enforce = true\n[[agents]]\nid = \"tester\"\nagent = \"claude\"\nwrite = [\"tests\"]\n";

    fn scope(scene: &Scene, name: &str) -> Scope {
        let member = scene.member(name);
        let crew = scene.all.state().crew.as_ref().unwrap();
        Scope::new(crew.spec(&member).unwrap(), &member.cwd, name)
    }

    fn write(scene: &Scene, path: &str) {
        let path = scene.project.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "words\n").unwrap();
    }

    fn look(scope: &mut Scope, scene: &mut Scene, over: bool) {
        let member = scene.member("coder");
        scope.look(&mut scene.all, &member, over).unwrap();
    }

    fn broken(scene: &Scene) -> Vec<ScopeBroken> {
        let one = |body| match body {
            segue_core::Body::ScopeBroken(broken) => broken,
            other => panic!("{other:?}"),
        };
        scene.events("scope.broken").into_iter().map(one).collect()
    }

    #[test]
    fn what_another_was_allowed_to_write_meanwhile_is_left_alone() {
        let mut scene = Scene::new(PAIR);
        scene.repository();
        let mut coder = scope(&scene, "coder");
        coder.begins(&mut scene.all, "coder").unwrap();
        // A whole turn of the other one, between two looks.
        scene.sees("tester", Doing::Busy);
        write(&scene, "tests/a.rs");
        scene.sees("tester", Doing::Idle);
        write(&scene, "src/a.rs");
        look(&mut coder, &mut scene, true);
        assert!(broken(&scene).is_empty() && scene.project.join("tests/a.rs").exists());

        // The next turn is its own again.
        coder.begins(&mut scene.all, "coder").unwrap();
        write(&scene, "tests/b.rs");
        look(&mut coder, &mut scene, true);
        let found = broken(&scene);
        assert_eq!((&found[0].members[..], found[0].undone), (&["coder".to_owned()][..], true));
        assert!(!scene.project.join("tests/b.rs").exists());
        assert!(scene.project.join("tests/a.rs").exists());
    }

    #[test]
    fn whoever_takes_over_looks_at_the_same_and_undoes_only_what_it_saw() {
        let mut scene = Scene::new(PAIR);
        scene.repository();
        scope(&scene, "coder").begins(&mut scene.all, "coder").unwrap();
        write(&scene, "out.txt");
        // It has ended, whenever that was: a person may have been here since.
        look(&mut scope(&scene, "coder"), &mut scene, true);
        assert_eq!(broken(&scene)[0].paths, ["out.txt"]);
        assert!(!broken(&scene)[0].undone && scene.project.join("out.txt").exists());

        scope(&scene, "coder").begins(&mut scene.all, "coder").unwrap();
        write(&scene, "more.txt");
        // It is still at work.
        let mut next = scope(&scene, "coder");
        look(&mut next, &mut scene, false);
        assert!(broken(&scene)[1].undone && !scene.project.join("more.txt").exists());
        assert!(scene.project.join("out.txt").exists(), "of an earlier turn");
        look(&mut next, &mut scene, true);
        assert_eq!(broken(&scene).len(), 2);
    }

    #[test]
    fn what_is_only_told_is_told_once() {
        let mut scene = Scene::new(&PAIR.replace("enforce = true\n", ""));
        scene.repository();
        let mut coder = scope(&scene, "coder");
        coder.begins(&mut scene.all, "coder").unwrap();
        write(&scene, "out.txt");
        std::fs::remove_file(scene.project.join("kept.txt")).unwrap();
        coder.looked = None;
        look(&mut coder, &mut scene, false);
        look(&mut coder, &mut scene, true);
        assert_eq!(broken(&scene).len(), 1);
        assert_eq!(broken(&scene)[0].paths, ["kept.txt", "out.txt"]);
        assert!(!broken(&scene)[0].undone && scene.project.join("out.txt").exists());
    }

    #[test]
    fn what_is_not_below_their_directory_is_out_of_bounds_however_much_was_written() {
        let mut scene = Scene::new(PAIR);
        scene.repository();
        scene.project.push("sub");
        std::fs::create_dir(&scene.project).unwrap();
        let mut member = scene.member("coder");
        member.cwd.push("sub");
        let crew = scene.all.state().crew.as_ref().unwrap();
        let mut coder = Scope::new(crew.spec(&member).unwrap(), &member.cwd, "coder");
        coder.begins(&mut scene.all, "coder").unwrap();
        // Git names what is allowed first.
        (0..1100).for_each(|number| write(&scene, &format!("src/{number}.rs")));
        write(&scene, "zz.txt");
        write(&scene, "../src/looks-alike.rs");
        coder.look(&mut scene.all, &member, true).unwrap();
        assert_eq!(broken(&scene)[0].paths, ["src/looks-alike.rs", "sub/zz.txt"]);
        assert!(broken(&scene)[0].undone);
        assert!(scene.project.join("src/7.rs").exists() && !scene.project.join("zz.txt").exists());
        assert!(!scene.project.join("../src/looks-alike.rs").exists());
    }
}
