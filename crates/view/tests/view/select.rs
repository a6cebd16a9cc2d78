//! Every way to name a session, and every way to miss one.

use std::{fs, path::PathBuf};

use segue_core::{event::Reason, selector::Selector};
use segue_journal::{Home, home::Located};
use segue_view::{
    Found, Index, SelectError,
    select::{Nothing, name_taken, resolve, resolve_resumable},
};

use crate::common::{home, me, named, new, session};

struct World {
    _temp: tempfile::TempDir,
    root: PathBuf,
    home: Home,
    index: Index,
}

impl World {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let home = home(&root);
        fs::create_dir_all(home.dir()).unwrap();
        let index = Index::open(&home).unwrap();
        Self { _temp: temp, root, home, index }
    }

    fn add(&self, repo: &str, prompt: &str, second: i64, reason: Reason) -> Located {
        session(&self.home, repo, prompt, second, reason)
    }

    fn add_named(&self, name: &str, second: i64) -> Located {
        let mut new = new("a", "a prompt");
        new.name = Some(name.to_owned());
        named(&self.home, new, second, Reason::Done)
    }

    fn find(&mut self, text: &str, repo: Option<&str>) -> Result<Found, SelectError> {
        resolve(&mut self.index, &Selector::parse(text), repo)
    }

    fn found(&mut self, text: &str) -> (Option<u64>, Located) {
        let found = self.find(text, Some("a")).unwrap();
        assert!(found.dir.join("journal.jsonl").is_file());
        assert!(found.open(&self.home).is_ok());
        (found.number, found.at.unwrap())
    }

    fn missed(&mut self, text: &str) -> String {
        self.find(text, Some("a")).unwrap_err().to_string()
    }
}

#[test]
fn by_number_id_start_of_an_id_name_and_path() {
    let mut world = World::new();
    let first = world.add("a", "one", 1_000_000, Reason::Done);
    let second = world.add_named("Major refactoring", 2_000_000);
    let id = first.id.to_string();
    let expected = (Some(1), first.clone());
    assert_eq!(world.found("1"), expected);
    assert_eq!(world.found("#1"), expected);
    assert_eq!(world.found(&id), expected);
    assert_eq!(world.found(&id.to_lowercase()), expected);
    assert_eq!(world.found(&id[..10]), expected);
    assert_eq!(world.found(&id[..10].to_lowercase()), expected);
    assert_eq!(world.found("Major refactoring"), (Some(2), second.clone()));
    let dir = world.home.session_dir(&first);
    assert_eq!(world.found(dir.to_str().unwrap()), expected);
    assert_eq!(world.found(dir.join("journal.jsonl").to_str().unwrap()), expected);
    assert_eq!(world.found(""), (Some(2), second.clone()));
    assert_eq!(world.found("@latest"), (Some(2), second));
}

#[test]
fn a_number_does_not_need_the_index() {
    let mut world = World::new();
    let first = world.add("a", "one", 1, Reason::Done);
    fs::remove_file(world.home.dir().join("index.db")).unwrap();
    fs::create_dir(world.home.dir().join("index.db")).unwrap();
    assert_eq!(world.found("1"), (Some(1), first));
}

#[test]
fn what_is_not_there_is_said_in_words_that_help() {
    let mut world = World::new();
    assert_eq!(world.missed(""), "there is no session here yet (`segue run` starts one)");
    let gone = world.add("b", "one", 1, Reason::Done);
    assert_eq!(
        world.missed(""),
        "there is no session of this repository (`segue list --all` shows the others)"
    );
    assert_eq!(world.missed("7"), "there is no session `7` (`segue list --all` shows all)");
    assert_eq!(
        world.missed("nobody"),
        "there is no session `nobody` (`segue list --all` shows all)"
    );
    let start = gone.id.to_string()[..3].to_owned();
    assert!(matches!(world.find(&start, None), Err(SelectError::NoSuch { .. })), "too short");
    world.home.remove(&gone, &me()).unwrap();
    assert_eq!(world.missed("1"), "session 1 was removed");
    assert!(matches!(world.find(&gone.id.to_string(), None), Err(SelectError::NoSuch { .. })));
    let path = world.root.to_str().unwrap().to_owned();
    assert!(world.missed(&path).contains("there is no session here"));
    assert!(world.missed("./nowhere").starts_with("./nowhere: there is no session here"));
}

#[test]
fn what_fits_two_is_not_guessed() {
    let mut world = World::new();
    // Made in the same second: their ids begin alike.
    let one = world.add_named("twice", 1);
    let two = world.add_named("twice", 1);
    let Err(SelectError::Ambiguous { text, candidates }) = world.find("twice", None) else {
        panic!()
    };
    assert_eq!((text.as_str(), candidates.len()), ("twice", 2));
    assert_eq!(candidates[0].name.as_deref(), Some("twice"));
    assert_eq!(candidates[0].prompt, "a prompt");
    let start = one.id.to_string()[..8].to_owned();
    assert_eq!(start, two.id.to_string()[..8]);
    let error = world.missed(&start);
    assert!(error.starts_with(&format!("`{start}` fits 2 sessions: ")), "{error}");
    // The same session under two repositories, by a copy.
    let copy = Located { repo: "b".into(), id: one.id };
    fs::create_dir_all(world.home.session_dir(&copy)).unwrap();
    for name in ["journal.jsonl", "lock"] {
        let (from, to) = (world.home.session_dir(&one), world.home.session_dir(&copy));
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
    let Err(SelectError::Ambiguous { candidates, .. }) = world.find(&one.id.to_string(), None)
    else {
        panic!()
    };
    let mut numbers: Vec<_> = candidates.iter().map(|candidate| candidate.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [Some(1), Some(3)]);
}

#[test]
fn a_name_goes_before_the_start_of_an_id() {
    let mut world = World::new();
    let first = world.add("a", "one", 1, Reason::Done);
    let name = first.id.to_string()[..9].to_owned();
    let second = world.add_named(&name, 2);
    assert_eq!(world.found(&name), (Some(2), second));
}

#[test]
fn the_latest_is_of_this_repository_and_for_a_resume_has_something_to_do() {
    let mut world = World::new();
    let stopped = world.add("a", "one", 10, Reason::Interrupted);
    world.add("a", "two", 20, Reason::Done);
    let elsewhere = world.add("b", "three", 30, Reason::Done);
    assert_eq!(world.found("").0, Some(2));
    assert_eq!(world.find("", None).unwrap().at, Some(elsewhere));
    let mut resumable = |repo| resolve_resumable(&mut world.index, &Selector::Latest, repo);
    assert_eq!(resumable(Some("a")).unwrap().at, Some(stopped.clone()));
    assert_eq!(resumable(None).unwrap().at, Some(stopped));
    let Err(SelectError::None { hint }) = resumable(Some("b")) else { panic!() };
    assert_eq!(hint, Nothing::ResumableInRepo);
}

#[test]
fn a_directory_outside_the_home_has_no_number() {
    let mut world = World::new();
    let first = world.add("a", "one", 1, Reason::Done);
    let outside = world.root.join("carried").join(first.id.to_string());
    fs::create_dir_all(&outside).unwrap();
    fs::copy(world.home.session_dir(&first).join("journal.jsonl"), outside.join("journal.jsonl"))
        .unwrap();
    let found = world.find(outside.to_str().unwrap(), None).unwrap();
    assert_eq!((&found.dir, &found.at, found.number), (&outside, &None, None));
    assert_eq!(found.open(&world.home).unwrap().id(), first.id);
    assert_eq!(found.selector(), outside.to_str().unwrap());
}

#[test]
fn a_taken_name_is_found_wherever_it_is() {
    let mut world = World::new();
    world.add_named("mine", 1);
    assert_eq!(name_taken(&mut world.index, "mine").unwrap().unwrap().number, Some(1));
    assert!(name_taken(&mut world.index, "Mine").unwrap().is_none());
}
