//! The message of a commit that Segue makes, and how such a commit is known again.
//!
//! Promise: what [`compose`] puts at the end of a message, [`Commit::carries`] finds there: whole
//! lines of the last paragraph, compared one by one. The same words in the text above count nothing.

use std::path::Path;

use super::WorktreeError;
use crate::git::{self, GitError};

/// What is to be known of a commit.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) parents: Vec<String>,
    /// The lines of the last paragraph, where all of them have a key.
    trailers: Trailers,
}

impl Commit {
    /// `None`: there is no such commit here.
    pub(super) fn read(dir: &Path, id: &str) -> Result<Option<Commit>, WorktreeError> {
        if !git::is_id(id) {
            return Ok(None);
        }
        let mut command = git::safe(dir);
        command.args(["cat-file", "commit", id]);
        match git::run(command) {
            Ok(bytes) => Ok(Some(Commit::parse(&String::from_utf8_lossy(&bytes)))),
            Err(GitError::Failed { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn parse(text: &str) -> Commit {
        let (head, message) = text.split_once("\n\n").unwrap_or((text, ""));
        let parents = head.lines().filter_map(|line| line.strip_prefix("parent "));
        Commit {
            parents: parents.map(str::to_owned).collect(),
            trailers: paragraphs(message).pop().flatten().unwrap_or_default(),
        }
    }

    /// Whether it has these trailers and no others. Nothing is known by no trailers.
    pub(super) fn carries(&self, trailers: &[(&str, String)]) -> bool {
        let mut wanted: Vec<(String, String)> =
            trailers.iter().map(|(key, value)| ((*key).to_owned(), one_line(value))).collect();
        let mut found = self.trailers.clone();
        wanted.sort_unstable();
        found.sort_unstable();
        !wanted.is_empty() && wanted == found
    }
}

/// The lines of a paragraph, by their keys.
pub(super) type Trailers = Vec<(String, String)>;

/// The paragraphs of a message, each with its trailers where it consists of nothing else.
pub(super) fn paragraphs(message: &str) -> Vec<Option<Trailers>> {
    let pair = |line: &&str| {
        let (key, value) = line.split_once(':')?;
        Some((key.to_owned(), value.trim().to_owned()))
    };
    let lines: Vec<&str> = message.trim_end().split('\n').collect();
    let parts = lines.split(|line| line.trim().is_empty()).filter(|part| !part.is_empty());
    parts.map(|part| part.iter().map(pair).collect()).collect()
}

/// A message with its trailers, as tidy as git would make it.
pub(super) fn compose(message: &str, trailers: &[(&str, String)]) -> String {
    let mut text = String::new();
    for line in message.replace('\0', " ").lines().map(str::trim_end) {
        if !(line.is_empty() && (text.is_empty() || text.ends_with("\n\n"))) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text.truncate(text.trim_end().len());
    if !text.is_empty() {
        text.push_str(if trailers.is_empty() { "\n" } else { "\n\n" });
    }
    for (key, value) in trailers {
        text.push_str(format!("{key}: {}", one_line(value)).trim_end());
        text.push('\n');
    }
    text
}

/// A value that cannot be taken for more than one trailer.
fn one_line(value: &str) -> String {
    value.replace(char::is_control, " ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trailers(pairs: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        pairs.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
    }

    fn commit(message: &str) -> Commit {
        Commit::parse(&format!("tree t\nparent p\nauthor a\n\n{message}"))
    }

    #[test]
    fn a_message_is_tidy_and_ends_with_its_trailers() {
        let own = trailers(&[("Reviewed-by", "x pass"), ("Segue-Session", "1\nSegue-Task: 2")]);
        let text = compose("\n\nTitle \n\n\n\nBody\0 \n\n", &own);
        let end = "Reviewed-by: x pass\nSegue-Session: 1 Segue-Task: 2\n";
        assert_eq!(text, format!("Title\n\nBody\n\n{end}"));
        assert_eq!(compose("", &own), end);
        assert_eq!(compose("Title", &[]), "Title\n");
        assert_eq!(compose("", &[]), "");
        assert_eq!(compose("Title", &trailers(&[("K", "")])), "Title\n\nK:\n");
    }

    #[test]
    fn a_commit_is_known_by_all_of_its_trailers_and_nothing_else() {
        let own = trailers(&[("Segue-Session", "1"), ("Segue-Task", "T-3: ü")]);
        let text = compose("T-003: FAILED (iter_cap): title", &own);
        assert!(commit(&text).carries(&own));
        assert!(commit(&compose("", &own)).carries(&own));
        assert_eq!(commit(&text).parents, ["p"]);
        let mut other_way = own.clone();
        other_way.reverse();
        assert!(commit(&text).carries(&other_way));
        for other in [
            format!("{text}Signed-off-by: somebody\n"),
            format!("{text}\nThat was it.\n"),
            format!("{text}no trailer\n"),
            text.replace("T-3: ü", "T-3: üü"),
            text.replace("Segue-Task", "segue-task"),
            "Segue-Session: 1\n\nSegue-Task: T-3: ü\n".to_owned(),
            "prose: Segue-Session: 1\nprose: Segue-Task: T-3: ü\n".to_owned(),
            String::new(),
        ] {
            assert!(!commit(&other).carries(&own), "{other}");
        }
        assert!(!commit(&text).carries(own.get(..1).unwrap()));
        assert!(!commit("Title\n").carries(&[]));
    }
}
