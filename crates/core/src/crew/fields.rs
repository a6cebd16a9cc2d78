//! Values out of a TOML document, each with its line.
//!
//! What is not there is nothing; what is there and cannot be used is noted as wrong, and then it is
//! nothing too. So a reader goes on to the end, and everything wrong is found.

use std::{
    collections::BTreeMap,
    ops::{Range, RangeInclusive},
};

use toml_edit::{Document, Item, TableLike, Value};

use super::FILE;
use crate::wrong::{Wrong, repeated};

/// Where it stands what is started for each agent, in the order of the agents. Of a text that can be read.
pub fn program_lines(text: &str) -> Vec<usize> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut sheet = Sheet::new(text);
    let Ok(document) = Document::parse(text) else { return Vec::new() };
    let root = sheet.root(document.as_table());
    let agents = sheet.sections(&root, "agents", "an agent");
    let key = |one: &Section<'_>| if one.has("command") { "command" } else { "agent" };
    agents.iter().map(|one| sheet.line_of(one, key(one))).collect()
}

/// Longer words are not compared with anything: nobody mistypes one of ours that way.
const LONGEST_COMPARED: usize = 40;

/// How many names an error lists, and how many a mistyped one is compared with: a file can have any
/// number of them, and any number of errors.
const MOST_LISTED: usize = 24;

/// A value, and the line that it stands on.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) line: usize,
}

/// What a string may have in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Something, without control characters.
    Line,
    /// Whatever can be an argument of a program.
    Text,
}

/// One table of the document.
pub(super) struct Section<'t> {
    /// What it describes, with its article: `an agent`.
    pub(super) what: &'static str,
    pub(super) line: usize,
    table: &'t dyn TableLike,
}

impl Section<'_> {
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(super) fn is_string(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(Item::is_str)
    }

    pub(super) fn is_empty_list(&self, key: &str) -> bool {
        let list = self.table.get(key).and_then(Item::as_array);
        list.is_some_and(toml_edit::Array::is_empty)
    }
}

/// The document, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    /// Where each line begins.
    starts: Vec<usize>,
    wrong: Vec<Wrong>,
}

impl Sheet {
    pub(super) fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { starts, wrong: Vec::new() }
    }

    pub(super) fn wrong(&mut self, line: impl Into<Option<usize>>, what: impl Into<String>) {
        self.wrong.push(Wrong::new(FILE, line, what));
    }

    /// Everything wrong, from the top of the file down.
    pub(super) fn finish(mut self) -> Vec<Wrong> {
        self.wrong.sort_by_key(|one| one.line);
        self.wrong
    }

    pub(super) fn line_at(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }

    fn line(&self, span: Option<Range<usize>>) -> Option<usize> {
        span.map(|span| self.line_at(span.start))
    }

    pub(super) fn root<'t>(&self, table: &'t dyn TableLike) -> Section<'t> {
        Section { what: "the file", line: 1, table }
    }

    /// The line of a key, or of its table where the key is not there.
    pub(super) fn line_of(&self, section: &Section<'_>, key: &str) -> usize {
        let found = section.table.get_key_value(key);
        let line = found.and_then(|(key, item)| self.line(key.span().or_else(|| item.span())));
        line.unwrap_or(section.line)
    }

    /// Notes every key but these.
    pub(super) fn only(&mut self, section: &Section<'_>, keys: &[&str]) {
        let found = section.table.iter().map(|(key, _)| key);
        let unknown: Vec<&str> = found.filter(|key| !keys.contains(key)).collect();
        for key in unknown {
            let line = self.line_of(section, key);
            let hint = match nearest(key, keys) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("{} has {}", section.what, keys.join(", ")),
            };
            self.wrong(line, format!("unknown key `{}`: {hint}", repeated(key)));
        }
    }

    fn item<'t>(&self, section: &Section<'t>, key: &str) -> Option<At<&'t Item>> {
        let item = section.table.get(key).filter(|item| !item.is_none())?;
        Some(At { value: item, line: self.line_of(section, key) })
    }

    fn misfit(&mut self, line: usize, key: &str, wanted: &str, found: &str) {
        self.wrong(line, format!("`{key}` is {wanted}, not {}", with_article(found)));
    }

    /// The tables that stand under `[[key]]`.
    pub(super) fn sections<'t>(
        &mut self,
        root: &Section<'t>,
        key: &str,
        what: &'static str,
    ) -> Vec<Section<'t>> {
        let Some(At { value: item, line }) = self.item(root, key) else { return Vec::new() };
        let mut sections = Vec::new();
        match item {
            Item::ArrayOfTables(tables) => {
                for table in tables {
                    let line = self.line(table.span()).unwrap_or(line);
                    sections.push(Section { what, line, table });
                }
            }
            Item::Value(Value::Array(values)) => {
                for value in values {
                    let line = self.line(value.span()).unwrap_or(line);
                    match value.as_inline_table() {
                        Some(table) => sections.push(Section { what, line, table }),
                        None => self.misfit(line, key, "a list of tables", value.type_name()),
                    }
                }
            }
            _ => {
                let wanted = format!("a list of tables: `[[{key}]]` begins each");
                let found = with_article(item.type_name());
                self.wrong(line, format!("`{key}` is {found}, and has to be {wanted}"));
            }
        }
        sections
    }

    /// The table `[key]`.
    pub(super) fn section<'t>(
        &mut self,
        root: &Section<'t>,
        key: &str,
        what: &'static str,
    ) -> Option<Section<'t>> {
        let At { value: item, line } = self.item(root, key)?;
        let Some(table) = item.as_table_like() else {
            self.misfit(line, key, &format!("a table: `[{key}]`"), item.type_name());
            return None;
        };
        Some(Section { what, line, table })
    }

    pub(super) fn string(
        &mut self,
        section: &Section<'_>,
        key: &str,
        kind: Kind,
    ) -> Option<At<String>> {
        let At { value: item, line } = self.item(section, key)?;
        match item.as_str() {
            Some(text) => self.checked(key, text, line, kind),
            None => {
                self.misfit(line, key, "a string", item.type_name());
                None
            }
        }
    }

    pub(super) fn strings(
        &mut self,
        section: &Section<'_>,
        key: &str,
        kind: Kind,
    ) -> Vec<At<String>> {
        let Some(At { value: item, line }) = self.item(section, key) else { return Vec::new() };
        let Some(values) = item.as_array() else {
            let wanted = format!("a list of strings, such as `{key} = [\"…\"]`");
            self.misfit(line, key, &wanted, item.type_name());
            return Vec::new();
        };
        let mut strings = Vec::new();
        for value in values {
            let line = self.line(value.span()).unwrap_or(line);
            match value.as_str() {
                Some(text) => strings.extend(self.checked(key, text, line, kind)),
                None => self.misfit(line, key, "a list of strings", value.type_name()),
            }
        }
        strings
    }

    fn checked(&mut self, key: &str, text: &str, line: usize, kind: Kind) -> Option<At<String>> {
        let is_bad = |sign: char| sign == '\0' || (kind == Kind::Line && sign.is_control());
        if let Some(sign) = text.chars().find(|&sign| is_bad(sign)) {
            let sign = sign.escape_debug();
            self.wrong(line, format!("`{key}` has a control character, {sign}"));
            return None;
        }
        if kind == Kind::Line && text.trim().is_empty() {
            self.wrong(line, format!("`{key}` is empty"));
            return None;
        }
        Some(At { value: text.to_owned(), line })
    }

    /// Whether it is there and true.
    pub(super) fn flag(&mut self, section: &Section<'_>, key: &str) -> Option<bool> {
        let At { value: item, line } = self.item(section, key)?;
        let flag = item.as_bool();
        if flag.is_none() {
            self.misfit(line, key, "true or false", item.type_name());
        }
        flag
    }

    pub(super) fn number(
        &mut self,
        section: &Section<'_>,
        key: &str,
        range: RangeInclusive<u32>,
    ) -> Option<u32> {
        let At { value: item, line } = self.item(section, key)?;
        let Some(number) = item.as_integer() else {
            self.misfit(line, key, "a whole number", item.type_name());
            return None;
        };
        let fitting = u32::try_from(number).ok().filter(|number| range.contains(number));
        if fitting.is_none() {
            let bounds = match *range.end() {
                u32::MAX => format!("at least {}", range.start()),
                most => format!("from {} to {most}", range.start()),
            };
            self.wrong(line, format!("`{key}` is {bounds}, not {number}"));
        }
        fitting
    }

    /// What one of these words stands for.
    pub(super) fn choice<T: Copy>(
        &mut self,
        key: &str,
        word: &At<String>,
        words: &[(&str, T)],
    ) -> Option<T> {
        let found = words.iter().find(|(name, _)| *name == word.value);
        if found.is_none() {
            let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
            let what = unknown(&word.value, &format!("no value for `{key}`"), &names);
            self.wrong(word.line, what);
        }
        found.map(|&(_, value)| value)
    }
}

/// Which ids are taken, by what, and where.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, (&'static str, usize)>);

impl Names {
    /// Takes an id, or says whose it is already.
    pub(super) fn take(&mut self, id: &At<String>, what: &'static str) -> Result<(), String> {
        if let Some(owner) = self.owner(&id.value) {
            return Err(format!("`{}` is already the id of {owner}", repeated(&id.value)));
        }
        self.0.insert(id.value.clone(), (what, id.line));
        Ok(())
    }

    /// Whose id it is, and where that stands.
    pub(super) fn owner(&self, id: &str) -> Option<String> {
        self.0.get(id).map(|(what, line)| format!("{what} on line {line}"))
    }

    pub(super) fn has(&self, id: &str, what: &str) -> bool {
        self.0.get(id).is_some_and(|(owner, _)| *owner == what)
    }

    /// As many of these ids as an error can use.
    pub(super) fn all(&self, what: &str) -> Vec<&str> {
        let owned = self.0.iter().filter(|(_, (owner, _))| *owner == what);
        // One more than are listed, so that the list says that there are more.
        owned.map(|(id, _)| id.as_str()).take(MOST_LISTED + 1).collect()
    }
}

/// Says that a word is none of these, and which they are.
pub(super) fn unknown(word: &str, what: &str, known: &[&str]) -> String {
    let hint = match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`? "),
        None => String::new(),
    };
    let word = repeated(word);
    match known {
        [] => format!("`{word}` is {what}, and there is none"),
        _ => {
            let more = if known.len() > MOST_LISTED { ", …" } else { "" };
            let known = known[..known.len().min(MOST_LISTED)].join(", ");
            format!("`{word}` is {what}: {hint}there is {known}{more}")
        }
    }
}

/// The one of these that was probably meant.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.len() > LONGEST_COMPARED {
        return None;
    }
    let known = &known[..known.len().min(MOST_LISTED)];
    let lower = word.to_lowercase().replace('-', "_");
    let distance = |one: &&str| strsim::damerau_levenshtein(one, &lower);
    let near = known.iter().copied().min_by_key(distance)?;
    // One mistake in a short word, two in others: more, and it is another word.
    let most = match near.len() {
        0 | 1 => 0,
        2..=4 => 1,
        _ => 2,
    };
    let begins_alike = |one: &&str| one.starts_with(&lower) || lower.starts_with(*one);
    let is_long = |one: &&str| one.len().min(lower.len()) >= 3;
    match distance(&near) <= most {
        true => Some(near),
        false => known.iter().copied().find(|one| is_long(one) && begins_alike(one)),
    }
}

fn with_article(type_name: &str) -> String {
    let article = if type_name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {type_name}")
}
