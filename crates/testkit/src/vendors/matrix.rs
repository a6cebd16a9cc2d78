//! The table of what the real agents did under Segue, put together from what the tests saw.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

/// Where the tests note their cells, below cargo's directory for the files of tests.
pub const DIR: &str = "matrix";

/// The lines of docs/agents.md between which the table stands.
pub const BEGIN: &str = "<!-- the table is made by scripts/test: begin -->";
pub const END: &str = "<!-- the table is made by scripts/test: end -->";

/// Every column, in order; the first is the agent.
pub const COLUMNS: [&str; 16] = [
    "version",
    "start",
    "own id",
    "stream",
    "tool call",
    "usage",
    "limit",
    "server error",
    "cut stream",
    "kill and resume",
    "resume",
    "fork",
    "two at once",
    "packet",
    "5 MiB prompt",
    "edit means",
];

/// The order of the rows; what is not named comes after.
const ROWS: [&str; 8] =
    ["claude", "codex", "gemini", "copilot", "cursor", "opencode", "qwen", "pi"];

/// The table as Markdown: the agents stand side by side, as there are more cells than agents.
///
/// # Errors
/// When the notes cannot be read.
pub fn table(dir: &Path) -> io::Result<String> {
    let mut agents: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for agent in fs::read_dir(dir)? {
        let agent = agent?;
        let cells = agents.entry(agent.file_name().to_string_lossy().into_owned()).or_default();
        for cell in fs::read_dir(agent.path())? {
            let cell = cell?;
            let value = fs::read_to_string(cell.path())?;
            cells.insert(cell.file_name().to_string_lossy().into_owned(), value);
        }
    }
    // There is no program to be had: a stand-in speaks the format that its vendor documents.
    let documented = ["start", "stream", "tool call", "kill and resume", "resume"];
    let cells = documented.map(|cell| (cell.to_owned(), "documented format only".to_owned()));
    agents.entry("cursor".to_owned()).or_insert_with(|| cells.into_iter().collect());
    let known: BTreeSet<&str> = COLUMNS.into_iter().collect();
    let strange: Vec<&String> = agents
        .values()
        .flat_map(BTreeMap::keys)
        .filter(|cell| !known.contains(cell.as_str()))
        .collect();
    if !strange.is_empty() {
        return Err(io::Error::other(format!("no such column: {strange:?}")));
    }
    let place = |name: &String| {
        let at = ROWS.iter().position(|row| row == name).unwrap_or(ROWS.len());
        (at, name.clone())
    };
    let mut names: Vec<&String> = agents.keys().collect();
    names.sort_by_key(|name| place(name));
    let mut text = String::from("| |");
    for name in &names {
        text.push_str(&format!(" {} |", name.replace('|', "\\|")));
    }
    text.push_str("\n| --- |");
    text.push_str(&" --- |".repeat(names.len()));
    text.push('\n');
    for column in COLUMNS {
        text.push_str(&format!("| {column} |"));
        for name in &names {
            let cell = agents[*name].get(column).map_or("–", String::as_str);
            text.push_str(&format!(" {cell} |"));
        }
        text.push('\n');
    }
    Ok(text)
}

/// The page with this table in its place.
///
/// # Errors
/// When the page has no place for it.
pub fn placed(page: &str, table: &str) -> io::Result<String> {
    let missing = || io::Error::other("the page has no place for the table");
    let (before, rest) = page.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}
