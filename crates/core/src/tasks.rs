//! Lists of tasks: what is to be built, in pieces that are worked on and judged one by one.
//!
//! A list is written as pages ([`from_pages`]: an `overview.md`, and a page such as
//! `T-001-find-notes.md` for each task) or as one `prd.json` ([`from_json`]). Where something is
//! wrong, everything that is wrong is told at once, each with its place.

mod markdown;
mod page;
mod prd;
pub mod prompt;
pub mod stop;

use std::{collections::BTreeMap, path::Path};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::wrong::Wrong;
use crate::wrong::repeated;
pub use page::from_pages;
pub use prd::from_json;

/// The page that has what all tasks have in common.
pub const OVERVIEW: &str = "overview.md";

/// The name of a list that is one file.
pub const PRD: &str = "prd.json";

/// The one place of a list that can be named in two ways: by its directory, or by the `prd.json` in it.
#[must_use]
pub fn place(path: &Path) -> &Path {
    match path.file_name() {
        Some(name) if name == PRD => path.parent().unwrap_or(path),
        _ => path,
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct List {
    /// What all tasks have in common; a `prd.json` may do without.
    #[serde(default)]
    pub overview: String,
    /// By their numbers.
    pub tasks: Vec<Task>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// `T-` and digits, as they were written: `T-001`.
    pub id: String,
    pub title: String,
    #[serde(default)]
    pub description: String,
    pub criteria: Vec<String>,
}

impl Task {
    /// Tells whether a task is still what it was: 16 hex digits over everything in it.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let fields = [&self.id, &self.title, &self.description];
        for text in fields.into_iter().chain(&self.criteria) {
            // With its length before it, no text can pass for two.
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.finalize().to_hex()[..16].to_owned()
    }
}

/// The number that an id has: 1 for `T-001`. `None` where it is no id.
#[must_use]
pub fn number(id: &str) -> Option<u64> {
    let digits = id.strip_prefix("T-")?;
    // A sign would be taken for a part of the number otherwise.
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

/// Whether a file of this name is part of a list of pages. So is one whose name is only nearly a
/// task's: [`from_pages`] says so, where passing it over would lose a task that nobody misses.
#[must_use]
pub fn is_page(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    name == OVERVIEW || (lower.starts_with("t-") && lower.ends_with(".md"))
}

/// A small list that says itself what goes where: names and texts of its pages.
#[must_use]
pub fn template() -> [(&'static str, &'static str); 3] {
    [
        (OVERVIEW, include_str!("tasks/template/overview.md")),
        ("T-001-find-notes.md", include_str!("tasks/template/T-001-find-notes.md")),
        ("T-002-show-where.md", include_str!("tasks/template/T-002-show-where.md")),
    ]
}

/// Which numbers are taken, and where.
#[derive(Default)]
struct Numbers(BTreeMap<u64, String>);

impl Numbers {
    /// Says what is wrong with an id, if anything is; else its number is taken from now on.
    fn take(&mut self, id: &str, place: impl FnOnce() -> String) -> Result<u64, String> {
        let Some(number) = number(id) else {
            return Err(format!("`{}` is no id: T- and digits, such as T-001", repeated(id)));
        };
        if let Some(other) = self.0.get(&number) {
            return Err(format!("{} is also the id of {other}", repeated(id)));
        }
        self.0.insert(number, place());
        Ok(number)
    }
}

fn sorted(overview: String, mut tasks: Vec<Task>) -> List {
    tasks.sort_by_key(|task| number(&task.id));
    List { overview, tasks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_t_and_digits() {
        let table = [
            ("T-1", Some(1)),
            ("T-001", Some(1)),
            ("T-18446744073709551615", Some(u64::MAX)),
            ("T-18446744073709551616", None),
            ("T-", None),
            ("T-+1", None),
            ("T-1a", None),
            ("T-١", None),
            ("t-1", None),
            ("US-001", None),
            ("", None),
        ];
        for (id, expected) in table {
            assert_eq!(number(id), expected, "{id}");
        }
    }

    #[test]
    fn what_looks_like_a_page_is_one() {
        let pages = ["overview.md", "T-1.md", "T-001-a.md", "T-x.md", "t-1.md", "T-1.MD"];
        let others = ["Overview.md", "README.md", "T-1.txt", "T-1.md~", ".T-1.md", "T1.md", "T-"];
        assert!(pages.iter().all(|name| is_page(name)));
        assert!(!others.iter().any(|name| is_page(name)));
    }

    #[test]
    fn a_digest_tells_every_change() {
        let task = |id: &str, title: &str, description: &str, criteria: &[&str]| Task {
            id: id.into(),
            title: title.into(),
            description: description.into(),
            criteria: criteria.iter().map(|&text| text.to_owned()).collect(),
        };
        let all = [
            task("T-1", "a", "b", &["c"]),
            task("T-2", "a", "b", &["c"]),
            task("T-1", "ab", "", &["c"]),
            task("T-1", "a", "bc", &[]),
            task("T-1", "a", "b", &["c", ""]),
            task("T-1", "a", "b", &["", "c"]),
            task("T-1", "a", "b", &["c\0"]),
        ];
        let digests: std::collections::BTreeSet<String> = all.iter().map(Task::digest).collect();
        assert_eq!(digests.len(), all.len());
        assert!(digests.iter().all(|one| one.len() == 16));
        // It is kept with what was done: it must never change for the same task.
        assert_eq!(all[0].digest(), "6e92f407c2a59074");
    }

    #[test]
    fn the_template_is_a_list() {
        let pages = template().map(|(name, text)| (name.to_owned(), text.to_owned()));
        let list = from_pages(&pages).unwrap();
        let found: Vec<(&str, usize)> =
            list.tasks.iter().map(|task| (task.id.as_str(), task.criteria.len())).collect();
        assert_eq!(found, [("T-001", 3), ("T-002", 3)]);
        // What explains the page is for its author, not for the agent.
        let told = format!("{list:?}");
        assert!(!told.contains("<!--") && !told.contains("-->"), "{told}");
        assert!(template().iter().all(|(_, text)| text.contains("<!--")));
        assert!(template().iter().all(|(name, _)| is_page(name)));
    }

    #[test]
    fn a_list_survives_json() {
        let pages = template().map(|(name, text)| (name.to_owned(), text.to_owned()));
        let list = from_pages(&pages).unwrap();
        let text = serde_json::to_string(&list).unwrap();
        assert_eq!(serde_json::from_str::<List>(&text).unwrap(), list);
        // What is printed with --json can be read as a prd.json.
        assert_eq!(from_json(PRD, &text).unwrap(), list);
    }
}
