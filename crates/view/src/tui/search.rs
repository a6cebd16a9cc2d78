//! How rows are found by what is typed, and what every list says of a row.

use crate::{
    row::Row,
    style::{sanitize, shorten},
};

const AGENT_WIDTH: usize = 16;

/// What is looked for: every word must occur somewhere.
#[derive(Debug)]
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_lowercase())
    }

    /// Whether all words occur in a text that [`text`] has made.
    pub(crate) fn fits(&self, text: &str) -> bool {
        self.0.split_whitespace().all(|word| text.contains(word))
    }

    /// A 7 is in many ids, and who types it means the session with that number.
    pub(crate) fn means(&self, row: &Row) -> bool {
        let number = number(row);
        self.0.split_whitespace().any(|word| word.trim_start_matches('#') == number)
    }
}

/// What a row is found by, each part on a line of its own: no word is found across two.
pub(crate) fn text(row: &Row) -> String {
    let mut text = format!("#{}\n{}\n{}\n", number(row), row.agent, row.status());
    for part in row.name.iter().chain([&row.prompt, &row.repo_identity]).chain(&row.vendor_ids) {
        text.push_str(part);
        text.push('\n');
    }
    for member in &row.crew {
        text.push_str(&format!("{}\n{}\n{}\n", member.name, member.agent, member.doing));
    }
    text.to_lowercase()
}

pub(crate) fn number(row: &Row) -> String {
    row.number.map_or_else(|| "–".to_owned(), |number| number.to_string())
}

pub(crate) fn agent(row: &Row) -> String {
    shorten(&sanitize(&row.agent), AGENT_WIDTH).into_owned()
}
